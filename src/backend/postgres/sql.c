/* SPDX-License-Identifier: Apache-2.0 */
/* The statements. They take arrays and give rows; what they decide is only who gets which row.
 *
 * Where a job is not there although its row still is: its queue is gone, or it waits and a purge
 * has raised the queue's generation since (SHOWN). Claims read one generation of one queue from the
 * index of ready jobs; nothing that is not ready is ever in it.
 *
 * Bodies are shown up to 16 MiB an answer (LIMIT_ANSWER_BYTES): rows are measured (MEASURED_A, _B)
 * before the bytes of any are fetched. */
#include "backend/postgres/sql.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define JOB                                                                                        \
    "j.seq, j.id_hi, j.queue, j.state, j.reason, j.priority, j.run_at, j.since,"                   \
    " j.generation, j.failures, j.crashes, j.payload_kind, j.payload_bytes, j.flags,"              \
    " j.tok_epoch, j.tok_counter, j.lease_ms, j.until, j.worker, j.nonce,"                         \
    " j.started_at, j.word, j.word_state, j.word_run_at, j.fate, j.ukey, j.held,"                  \
    " j.grp, j.correlation, j.label, j.attributes, j.expires_at, j.options,"                       \
    " j.undelivered, j.result_kind, j.error_kind"
#define QUEUE                                                                                      \
    "q.number, q.name, q.owner, q.note, q.attributes, q.policy, q.generation,"                     \
    " q.created_at, q.updated_at, q.paused_until, q.gone"
#define QUEUE_SHOWN "q.name, q.owner, q.policy, q.paused_until"
#define COUNTS_A                                                                                   \
    "SELECT queue, sum(s1)::int8 AS s1, sum(s2)::int8 AS s2, sum(s3)::int8 AS s3,"                 \
    " sum(s4)::int8 AS s4, sum(s5)::int8 AS s5, sum(s6)::int8 AS s6,"                              \
    " sum(urgent)::int8 AS urgent, sum(removed)::int8 AS removed, sum(t0)::int8 AS"                \
    " t0, sum(t1)::int8 AS t1, sum(t2)::int8 AS t2, sum(t3)::int8 AS t3,"                          \
    " sum(t4)::int8 AS t4, sum(t5)::int8 AS t5, sum(t6)::int8 AS t6, sum(t7)::int8 AS"             \
    " t7, sum(t8)::int8 AS t8, sum(t9)::int8 AS t9, sum(t10)::int8 AS t10,"                        \
    " sum(t11)::int8 AS t11, sum(t12)::int8 AS t12 FROM (SELECT * FROM @total t WHERE"             \
    " t.queue = ANY ("
#define COUNTS_B                                                                                   \
    ") UNION ALL SELECT queue, s1, s2, s3, s4, s5, s6, urgent, removed, t0, t1, t2,"               \
    " t3, t4, t5, t6, t7, t8, t9, t10, t11, t12 FROM @delta d WHERE d.queue = ANY ("
#define COUNTS_C ")) x GROUP BY queue"
#define SUM_OF_TALLY                                                                               \
    "sum(t0)::int8, sum(t1)::int8, sum(t2)::int8, sum(t3)::int8, sum(t4)::int8,"                   \
    " sum(t5)::int8, sum(t6)::int8, sum(t7)::int8, sum(t8)::int8, sum(t9)::int8,"                  \
    " sum(t10)::int8, sum(t11)::int8, sum(t12)::int8"
#define SUMS_COALESCED                                                                             \
    "coalesce(c.s1, 0)::int8, coalesce(c.s2, 0)::int8, coalesce(c.s3, 0)::int8,"                   \
    " coalesce(c.s4, 0)::int8, coalesce(c.s5, 0)::int8, coalesce(c.s6, 0)::int8,"                  \
    " coalesce(c.urgent, 0)::int8, coalesce(c.removed, 0)::int8, coalesce(c.t0,"                   \
    " 0)::int8, coalesce(c.t1, 0)::int8, coalesce(c.t2, 0)::int8, coalesce(c.t3,"                  \
    " 0)::int8, coalesce(c.t4, 0)::int8, coalesce(c.t5, 0)::int8, coalesce(c.t6,"                  \
    " 0)::int8, coalesce(c.t7, 0)::int8, coalesce(c.t8, 0)::int8, coalesce(c.t9,"                  \
    " 0)::int8, coalesce(c.t10, 0)::int8, coalesce(c.t11, 0)::int8, coalesce(c.t12,"               \
    " 0)::int8"
#define SUMS_SUM                                                                                   \
    "sum(s1), sum(s2), sum(s3), sum(s4), sum(s5), sum(s6), sum(urgent), sum(removed),"             \
    " sum(t0), sum(t1), sum(t2), sum(t3), sum(t4), sum(t5), sum(t6), sum(t7),"                     \
    " sum(t8), sum(t9), sum(t10), sum(t11), sum(t12)"
#define SUMS_ADD                                                                                   \
    "s1 = o.s1 + excluded.s1, s2 = o.s2 + excluded.s2, s3 = o.s3 + excluded.s3, s4 ="              \
    " o.s4 + excluded.s4, s5 = o.s5 + excluded.s5, s6 = o.s6 + excluded.s6, urgent ="              \
    " o.urgent + excluded.urgent, removed = o.removed + excluded.removed, t0 = o.t0 +"             \
    " excluded.t0, t1 = o.t1 + excluded.t1, t2 = o.t2 + excluded.t2, t3 = o.t3 +"                  \
    " excluded.t3, t4 = o.t4 + excluded.t4, t5 = o.t5 + excluded.t5, t6 = o.t6 +"                  \
    " excluded.t6, t7 = o.t7 + excluded.t7, t8 = o.t8 + excluded.t8, t9 = o.t9 +"                  \
    " excluded.t9, t10 = o.t10 + excluded.t10, t11 = o.t11 + excluded.t11, t12 ="                  \
    " o.t12 + excluded.t12"
#define TALLY_ADD                                                                                  \
    "t0 = o.t0 + excluded.t0, t1 = o.t1 + excluded.t1, t2 = o.t2 + excluded.t2, t3 ="              \
    " o.t3 + excluded.t3, t4 = o.t4 + excluded.t4, t5 = o.t5 + excluded.t5, t6 = o.t6"             \
    " + excluded.t6, t7 = o.t7 + excluded.t7, t8 = o.t8 + excluded.t8, t9 = o.t9 +"                \
    " excluded.t9, t10 = o.t10 + excluded.t10, t11 = o.t11 + excluded.t11, t12 ="                  \
    " o.t12 + excluded.t12"
#define TALLY_SUM                                                                                  \
    "sum(t0), sum(t1), sum(t2), sum(t3), sum(t4), sum(t5), sum(t6), sum(t7), sum(t8),"             \
    " sum(t9), sum(t10), sum(t11), sum(t12)"
#define TALLY_ANY                                                                                  \
    "sum(t0) <> 0 OR sum(t1) <> 0 OR sum(t2) <> 0 OR sum(t3) <> 0 OR sum(t4) <> 0 OR"              \
    " sum(t5) <> 0 OR sum(t6) <> 0 OR sum(t7) <> 0 OR sum(t8) <> 0 OR sum(t9) <> 0 OR"             \
    " sum(t10) <> 0 OR sum(t11) <> 0 OR sum(t12) <> 0"
#define SUMS_LIST                                                                                  \
    "s1, s2, s3, s4, s5, s6, urgent, removed, t0, t1, t2, t3, t4, t5, t6, t7, t8, t9,"             \
    " t10, t11, t12"
#define TALLY_LIST "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12"
#define NOW_3                                                                                      \
    "CASE WHEN $3::int8 > 0 THEN $3::int8 ELSE (extract(epoch FROM clock_timestamp())"             \
    " * 1000)::int8 END"
#define SHOWN                                                                                      \
    "q.number = j.queue AND NOT q.gone AND (j.state > 2 OR j.generation ="                         \
    " q.generation)"
#define LOCK_CLASS "('@queue'::regclass::oid::int8 & 2147483647)::int4"
#define BODY_3                                                                                     \
    "CASE WHEN $3::bool AND j.bytes_before < 16777216 THEN j.payload END, CASE WHEN"               \
    " $3::bool AND j.bytes_before < 16777216 THEN j.result END, CASE WHEN $3::bool"                \
    " THEN j.error END"
#define BODY_13                                                                                    \
    "CASE WHEN $13::bool AND j.bytes_before < 16777216 THEN j.payload END, CASE WHEN"              \
    " $13::bool AND j.bytes_before < 16777216 THEN j.result END, CASE WHEN $13::bool"              \
    " THEN j.error END"
#define MEASURED_A                                                                                 \
    "(SELECT x.*, sum(x.payload_bytes + coalesce(octet_length(x.result), 0)) OVER"                 \
    " (ORDER BY "
#define MEASURED_B                                                                                 \
    " ROWS UNBOUNDED PRECEDING) - x.payload_bytes - coalesce(octet_length(x.result),"              \
    " 0) AS bytes_before FROM ("

static const char *const statements[SQL_COUNT] = {
    [SQL_BEGIN] = "BEGIN",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_NOW] = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8",
    [SQL_LOCK_SHARED] =
        "SELECT n, pg_advisory_xact_lock_shared(" LOCK_CLASS
        ", n) IS NULL FROM (SELECT number AS n FROM @queue WHERE name = ANY ($1::text[])"
        " AND NOT gone UNION SELECT queue FROM @job WHERE seq = ANY ($2::int8[]) ORDER BY"
        " 1) x",
    [SQL_LOCK_ALONE] =
        "SELECT n, pg_advisory_xact_lock(" LOCK_CLASS
        ", n) IS NULL FROM (SELECT number AS n FROM @queue WHERE name = ANY ($1::text[])"
        " AND NOT gone UNION SELECT queue FROM @job WHERE seq = ANY ($2::int8[]) ORDER BY"
        " 1) x",
    [SQL_SEQS] = "SELECT nextval('@job_seq') FROM generate_series(1, $1::int4)",
    [SQL_NUMBERS] = "SELECT nextval('@queue_number')::int4 FROM generate_series(1, $1::int4)",
    [SQL_QUEUES] =
        "SELECT " QUEUE
        " FROM @queue q WHERE q.name = ANY ($1::text[]) AND NOT q.gone UNION ALL SELECT " QUEUE
        " FROM @queue q WHERE q.number = ANY (ARRAY(SELECT j.queue FROM @job j WHERE"
        " j.seq = ANY ($2::int8[]))) OR q.number = ANY ($3::int4[])",
    [SQL_COUNTS] =
        COUNTS_A "ARRAY(SELECT number FROM @queue WHERE name = ANY ($1::text[]) AND NOT gone UNION"
                 " SELECT queue FROM @job WHERE seq = ANY ($2::int8[]))" COUNTS_B
                 "ARRAY(SELECT number FROM @queue WHERE name = ANY ($1::text[]) AND NOT gone UNION"
                 " SELECT queue FROM @job WHERE seq = ANY ($2::int8[]))" COUNTS_C,
    [SQL_JOBS] =
        "SELECT " JOB " FROM @job j WHERE j.seq = ANY ($1::int8[]) ORDER BY j.seq FOR UPDATE",
    [SQL_CLAIM] = "SELECT c.* FROM unnest($1::text[], $2::int4[]) w(name, n) JOIN @queue q ON"
                  " q.name = w.name AND NOT q.gone AND q.paused_until <= " NOW_3
                  " CROSS JOIN LATERAL (SELECT " JOB
                  ", CASE WHEN j.payload_bytes <= 4096 THEN j.payload END AS small, CASE WHEN"
                  " length(j.result) <= 4096 THEN j.result END AS result, j.error FROM @job j WHERE"
                  " j.queue = q.number AND j.generation = q.generation AND j.state = 2 AND"
                  " (j.expires_at = 0 OR j.expires_at > " NOW_3
                  ") ORDER BY j.priority DESC, j.seq LIMIT w.n FOR UPDATE SKIP LOCKED) c",
    [SQL_HOLDERS] =
        "SELECT " JOB " FROM unnest($1::text[], $2::text[]) w(name, key) JOIN @queue q ON q.name ="
        " w.name AND NOT q.gone JOIN @job j ON j.queue = q.number AND j.ukey = w.key AND"
        " j.held ORDER BY j.seq FOR UPDATE OF j",
    [SQL_RIVALS] =
        "SELECT " JOB " FROM @job o JOIN @job j ON j.queue = o.queue AND j.ukey = o.ukey AND j.held"
        " WHERE o.seq = ANY ($1::int8[]) AND o.ukey IS NOT NULL ORDER BY j.seq FOR UPDATE"
        " OF j",
    [SQL_NONCE] = "SELECT " JOB
                  " FROM @job j WHERE j.state = 3 AND j.nonce = ANY ($1::int8[]) ORDER BY j.seq FOR"
                  " UPDATE",
    [SQL_NONCE_QUEUES] =
        "SELECT " QUEUE
        " FROM @queue q WHERE q.number = ANY (ARRAY(SELECT j.queue FROM @job j WHERE"
        " j.state = 3 AND j.nonce = ANY ($1::int8[])))",
    [SQL_NONCE_LOCK] = "SELECT n, pg_advisory_xact_lock_shared(" LOCK_CLASS
                       ", n) IS NULL FROM (SELECT DISTINCT queue AS n FROM @job WHERE state = 3 AND"
                       " nonce = ANY ($1::int8[]) ORDER BY 1) x",
    [SQL_IDEM] = "SELECT i.hi, i.lo, i.fingerprint, i.seq, i.id_hi, i.expires_at, j.state FROM"
                 " unnest($1::int8[], $2::int8[]) w(hi, lo) JOIN @idem i ON i.hi = w.hi AND i.lo ="
                 " w.lo LEFT JOIN @job j ON j.seq = i.seq",
    [SQL_LIVE] = "SELECT coalesce(sum(s1 + s2 + s3), 0)::int8, coalesce(sum(CASE WHEN queue = 0"
                 " THEN removed ELSE 0 END), 0)::int8 FROM (SELECT queue, s1, s2, s3, removed FROM"
                 " @total UNION ALL SELECT queue, s1, s2, s3, removed FROM @delta) x",
    [SQL_WORDS] = "SELECT w.epoch, w.counter, w.seq, w.kind, w.state, w.run_at FROM"
                  " unnest($1::int4[], $2::int8[]) n(epoch, counter) JOIN @word w ON w.epoch ="
                  " n.epoch AND w.counter = n.counter",
    [SQL_SEQ_HIGH] = "SELECT last_value FROM @job_seq",
    [SQL_QUEUE_PUT] =
        "INSERT INTO @queue AS q (number, name, owner, note, attributes, policy,"
        " generation, created_at, updated_at, paused_until, keep_done, keep_done_ms,"
        " keep_dead, keep_dead_ms) SELECT * FROM unnest($1::int4[], $2::text[],"
        " $3::text[], $4::text[], $5::text[], $6::bytea[], $7::int4[], $8::int8[],"
        " $9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::int8[]) ON"
        " CONFLICT (number) DO UPDATE SET owner = excluded.owner, note = excluded.note,"
        " attributes = excluded.attributes, policy = excluded.policy, generation ="
        " excluded.generation, updated_at = excluded.updated_at, paused_until ="
        " excluded.paused_until, keep_done = excluded.keep_done, keep_done_ms ="
        " excluded.keep_done_ms, keep_dead = excluded.keep_dead, keep_dead_ms ="
        " excluded.keep_dead_ms",
    [SQL_QUEUE_GONE] =
        "UPDATE @queue SET gone = true, sweeping = true WHERE number = ANY ($1::int4[])",
    [SQL_QUEUE_PURGED] = "UPDATE @queue SET sweeping = true WHERE number = ANY ($1::int4[])",
    [SQL_JOB_LETS_GO] = "UPDATE @job SET held = false WHERE seq = ANY ($1::int8[])",
    [SQL_JOB_SET] =
        "UPDATE @job j SET state = u.state, reason = u.reason, priority = u.priority,"
        " run_at = u.run_at, since = u.since, generation = u.generation, failures ="
        " u.failures, crashes = u.crashes, flags = u.flags, tok_epoch = u.tok_epoch,"
        " tok_counter = u.tok_counter, lease_ms = u.lease_ms, until = u.until, worker ="
        " u.worker, nonce = u.nonce, started_at = u.started_at, word = u.word, word_state"
        " = u.word_state, word_run_at = u.word_run_at, fate = u.fate, held = u.held FROM"
        " unnest($1::int8[], $2::int2[], $3::int2[], $4::int8[], $5::int8[], $6::int8[],"
        " $7::int4[], $8::int4[], $9::int4[], $10::int2[], $11::int4[], $12::int8[],"
        " $13::int4[], $14::int8[], $15::text[], $16::int8[], $17::int8[], $18::int2[],"
        " $19::int2[], $20::int8[], $21::int8[], $22::bool[]) u(seq, state, reason,"
        " priority, run_at, since, generation, failures, crashes, flags, tok_epoch,"
        " tok_counter, lease_ms, until, worker, nonce, started_at, word, word_state,"
        " word_run_at, fate, held) WHERE j.seq = u.seq",
    [SQL_JOB_NEW] =
        "INSERT INTO @job (seq, id_hi, queue, state, reason, priority, run_at, since,"
        " generation, failures, crashes, payload_kind, payload_bytes, flags, ukey, held,"
        " grp, correlation, label, attributes, expires_at, options, undelivered, payload,"
        " error_kind, error) SELECT * FROM unnest($1::int8[], $2::int8[], $3::int4[],"
        " $4::int2[], $5::int2[], $6::int8[], $7::int8[], $8::int8[], $9::int4[],"
        " $10::int4[], $11::int4[], $12::int2[], $13::int4[], $14::int2[], $15::text[],"
        " $16::bool[], $17::text[], $18::text[], $19::text[], $20::text[], $21::int8[],"
        " $22::bytea[], $23::bytea[], $24::bytea[], $25::int2[], $26::bytea[])",
    [SQL_JOB_DEL] = "DELETE FROM @job WHERE seq = ANY ($1::int8[])",
    [SQL_JOB_PAYLOAD] =
        "UPDATE @job SET payload_kind = $2::int4, payload = $3::bytea, payload_bytes ="
        " $4::int4 WHERE seq = $1::int8",
    [SQL_JOB_RESULT] =
        "UPDATE @job j SET result_kind = u.kind, result = u.result FROM"
        " unnest($1::int8[], $2::int2[], $3::bytea[]) u(seq, kind, result) WHERE j.seq ="
        " u.seq",
    [SQL_JOB_ERROR] =
        "UPDATE @job j SET error_kind = u.kind, error = u.error FROM unnest($1::int8[],"
        " $2::int2[], $3::bytea[]) u(seq, kind, error) WHERE j.seq = u.seq",
    [SQL_JOB_NOTE] = "UPDATE @job j SET label = u.label, attributes = u.attributes FROM"
                     " unnest($1::int8[], $2::text[], $3::text[]) u(seq, label, attributes) WHERE"
                     " j.seq = u.seq",
    [SQL_ATTEMPT_NEW] = "INSERT INTO @attempt (seq, queue, number, started_at, ended_at, outcome,"
                        " error_kind, worker, error) SELECT * FROM unnest($1::int8[], $2::int4[],"
                        " $3::int4[], $4::int8[], $5::int8[], $6::int2[], $7::int2[], $8::text[],"
                        " $9::bytea[])",
    [SQL_ATTEMPT_TRIM] =
        "DELETE FROM @attempt a USING unnest($1::int8[]) w(seq) WHERE a.seq = w.seq AND"
        " a.n <= (SELECT b.n FROM @attempt b WHERE b.seq = w.seq ORDER BY b.n DESC OFFSET"
        " 20 LIMIT 1)",
    [SQL_ATTEMPT_DEL] = "DELETE FROM @attempt WHERE seq = ANY ($1::int8[])",
    [SQL_WORD_NEW] =
        "INSERT INTO @word (epoch, counter, seq, kind, state, run_at, at) SELECT * FROM"
        " unnest($1::int4[], $2::int8[], $3::int8[], $4::int2[], $5::int2[], $6::int8[],"
        " $7::int8[]) ON CONFLICT (epoch, counter) DO NOTHING",
    [SQL_IDEM_DEL] =
        "DELETE FROM @idem i USING unnest($1::int8[], $2::int8[]) w(hi, lo) WHERE i.hi ="
        " w.hi AND i.lo = w.lo AND i.expires_at <= $3::int8",
    [SQL_IDEM_NEW] =
        "INSERT INTO @idem (hi, lo, fingerprint, seq, id_hi, expires_at) SELECT * FROM"
        " unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[])",
    [SQL_DELTA] = "INSERT INTO @delta (queue, hour, " SUMS_LIST
                  ") SELECT * FROM unnest($1::int4[], $2::int4[], $3::int8[], $4::int8[],"
                  " $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],"
                  " $11::int8[], $12::int8[], $13::int8[], $14::int8[], $15::int8[], $16::int8[],"
                  " $17::int8[], $18::int8[], $19::int8[], $20::int8[], $21::int8[], $22::int8[],"
                  " $23::int8[])",
    [SQL_BODIES] = "SELECT j.seq, j.payload, j.result, j.error FROM @job j WHERE j.seq = ANY"
                   " ($1::int8[])",
    [SQL_SHARED] =
        "SELECT " JOB ", NULL::bytea, NULL::bytea, j.error, " QUEUE_SHOWN
        ", (SELECT count(*) - count(DISTINCT k.ukey) FROM @job k WHERE k.queue = $1::int4"
        " AND k.ukey IS NOT NULL AND k.state <> 6 AND (k.state > 2 OR k.generation ="
        " $2::int4))::int8 FROM @job j JOIN @queue q ON q.number = j.queue WHERE j.queue"
        " = $1::int4 AND j.ukey IS NOT NULL AND j.state <> 6 AND (j.state > 2 OR"
        " j.generation = $2::int4) AND EXISTS (SELECT FROM @job k WHERE k.queue ="
        " $1::int4 AND k.ukey IS NOT NULL AND k.state <> 6 AND (k.state > 2 OR"
        " k.generation = $2::int4) AND k.ukey = j.ukey AND k.seq <> j.seq) ORDER BY j.seq"
        " LIMIT 100",
    [SQL_HOLD] = "UPDATE @job SET held = (ukey IS NOT NULL AND ($2::int4 = 1 AND state <> 6 OR"
                 " $2::int4 = 0 AND state <= 3)) WHERE queue = $1::int4 AND ukey IS NOT NULL AND"
                 " (state > 2 OR generation = $3::int4)",
    [SQL_BULK_NEW] = "INSERT INTO @bulk (action, queue, states, grp, seq_max, at, epoch) VALUES"
                     " ($1::int4, $2::int4, $3::int4, $4::text, $5::int8, $6::int8, $7::int4)"
                     " RETURNING number",
    [SQL_BULK_JOBS] =
        "SELECT " JOB " FROM @job j WHERE j.queue = $1::int4 AND ($2::int4 >> j.state) & 1 = 1 AND"
        " j.seq > $3::int8 AND j.seq <= $4::int8 AND ($5::text = '' OR j.grp = $5::text)"
        " ORDER BY j.seq LIMIT $6::int4 FOR UPDATE",
    [SQL_BULK_RIVALS] =
        "SELECT " JOB
        " FROM (SELECT o.queue, o.ukey, o.seq FROM @job o WHERE o.queue = $1::int4 AND"
        " ($2::int4 >> o.state) & 1 = 1 AND o.seq > $3::int8 AND o.seq <= $4::int8 AND"
        " ($5::text = '' OR o.grp = $5::text) ORDER BY o.seq LIMIT $6::int4) o JOIN @job"
        " j ON j.queue = o.queue AND j.ukey = o.ukey AND j.held AND j.seq <> o.seq ORDER"
        " BY j.seq FOR UPDATE OF j",
    [SQL_LOCK_NUMBER] = "SELECT pg_advisory_xact_lock_shared(" LOCK_CLASS ", $1::int4) IS NULL",
    [SQL_BULK_STEP] = "UPDATE @bulk SET cursor = $2::int8, changed = $3::int8, refused = $4::int8,"
                      " epoch = $5::int4 WHERE number = $1::int8",
    [SQL_BULK_END] = "DELETE FROM @bulk WHERE number = $1::int8",
    [SQL_BULK_ORPHANS] =
        "UPDATE @bulk b SET epoch = $1::int4 WHERE b.epoch <> $1::int4 AND NOT EXISTS"
        " (SELECT FROM @node n WHERE n.epoch = b.epoch AND n.seen_at > $2::int8)"
        " RETURNING number, action, queue, states, grp, seq_max, at, cursor, changed,"
        " refused",
    [SQL_LEADER_TAKE] =
        "UPDATE @leader SET epoch = CASE WHEN holder = $1::int4 THEN epoch ELSE epoch + 1"
        " END, holder = $1::int4, until = $2::int8 + $3::int8 WHERE holder = $1::int4 OR"
        " until <= $2::int8 RETURNING epoch",
    [SQL_LEADER_LOCK] = "SELECT epoch FROM @leader WHERE epoch = $1::int8 AND holder = $2::int4 FOR"
                        " UPDATE",
    [SQL_NODE_SEEN] =
        "WITH old AS (DELETE FROM @node WHERE seen_at < $3::int8 - 86400000 AND epoch <>"
        " $1::int4) INSERT INTO @node AS n (epoch, number, seen_at) VALUES ($1::int4,"
        " $2::int4, $3::int8) ON CONFLICT (epoch) DO UPDATE SET seen_at ="
        " excluded.seen_at RETURNING (SELECT count(*) FROM @node o WHERE o.epoch <>"
        " $1::int4 AND o.seen_at > $3::int8 - 60000)::int4",
    [SQL_SYNC] = "INSERT INTO @node AS n (epoch, number, seen_at) VALUES ($1::int4, $2::int4,"
                 " $3::int8) ON CONFLICT (epoch) DO UPDATE SET syncs = n.syncs + 1",
    [SQL_NODE_GONE] = "WITH l AS (UPDATE @leader SET until = 0, holder = 0 WHERE holder = $1::int4)"
                      " DELETE FROM @node WHERE epoch = $1::int4",
    [SQL_DUE_LEASES] =
        "SELECT " JOB
        " FROM @job j WHERE j.state = 3 AND j.until <= $1::int8 ORDER BY j.until LIMIT"
        " $2::int4 FOR UPDATE SKIP LOCKED",
    [SQL_DUE_JOBS] =
        "SELECT " JOB
        " FROM @job j WHERE j.state = 1 AND j.run_at <= $1::int8 ORDER BY j.run_at, j.seq"
        " LIMIT $2::int4 FOR UPDATE SKIP LOCKED",
    [SQL_DUE_EXPIRY] =
        "SELECT " JOB
        " FROM @job j WHERE j.state IN (1, 2) AND j.expires_at > 0 AND j.expires_at <="
        " $1::int8 ORDER BY j.expires_at LIMIT $2::int4 FOR UPDATE SKIP LOCKED",
    [SQL_DUE_BOUND] =
        "SELECT " JOB
        " FROM @job j WHERE j.state = 3 AND j.flags & 2 = 2 AND j.tok_epoch <> $3::int4"
        " AND NOT EXISTS (SELECT FROM @node n WHERE n.epoch = j.tok_epoch AND n.seen_at >"
        " $1::int8) ORDER BY j.until LIMIT $2::int4 FOR UPDATE SKIP LOCKED",
    [SQL_DUE_DOOMED] =
        "WITH v AS MATERIALIZED (SELECT d.seq FROM @queue q CROSS JOIN LATERAL ((SELECT"
        " seq FROM @job j WHERE j.queue = q.number AND j.state = 2 AND (j.generation <"
        " q.generation OR q.gone) LIMIT $1::int4) UNION ALL (SELECT seq FROM @job j WHERE"
        " j.queue = q.number AND j.state = 1 AND (j.generation < q.generation OR q.gone)"
        " LIMIT $1::int4) UNION ALL (SELECT seq FROM @job j WHERE q.gone AND j.queue ="
        " q.number AND j.state >= 4 LIMIT $1::int4) UNION ALL (SELECT seq FROM @job j"
        " WHERE q.gone AND j.queue = q.number AND j.state = 3 LIMIT $1::int4)) d WHERE"
        " q.sweeping LIMIT $1::int4), d AS (DELETE FROM @job j WHERE j.seq = ANY"
        " (ARRAY(SELECT v.seq FROM v)) RETURNING j.seq), a AS (DELETE FROM @attempt t"
        " WHERE t.seq = ANY (ARRAY(SELECT d.seq FROM d))) SELECT count(*)::int8 FROM d",
    [SQL_DOOMED_END] =
        "WITH q AS (SELECT q.number, q.gone FROM @queue q WHERE q.sweeping AND NOT EXISTS"
        " (SELECT FROM @job j WHERE j.queue = q.number AND j.state = 2 AND (q.gone OR"
        " j.generation < q.generation)) AND NOT EXISTS (SELECT FROM @job j WHERE j.queue"
        " = q.number AND j.state = 1 AND (q.gone OR j.generation < q.generation)) AND NOT"
        " (q.gone AND (EXISTS (SELECT FROM @job j WHERE j.queue = q.number AND j.state >="
        " 4) OR EXISTS (SELECT FROM @job j WHERE j.queue = q.number AND j.state = 3)))),"
        " g AS (DELETE FROM @queue USING q WHERE queue.number = q.number AND q.gone), t"
        " AS (DELETE FROM @total USING q WHERE total.queue = q.number AND q.gone), h AS"
        " (DELETE FROM @hour USING q WHERE hour.queue = q.number AND q.gone) UPDATE"
        " @queue SET sweeping = false FROM q WHERE queue.number = q.number AND NOT q.gone",
    [SQL_DUE_TRIM] =
        "WITH v AS MATERIALIZED (SELECT d.seq, d.queue, d.state FROM @queue q JOIN @total"
        " t ON t.queue = q.number CROSS JOIN LATERAL ((SELECT seq, queue, state FROM"
        " (SELECT seq, queue, state FROM @job j WHERE j.queue = q.number AND j.state = 4"
        " ORDER BY j.since, j.seq LIMIT least(greatest(t.s4 - q.keep_done, 0), $2::int4))"
        " a UNION SELECT seq, queue, state FROM (SELECT seq, queue, state FROM @job j"
        " WHERE j.queue = q.number AND j.state = 4 AND j.since <= $1::int8 -"
        " q.keep_done_ms ORDER BY j.since, j.seq LIMIT $2::int4) b) UNION ALL (SELECT"
        " seq, queue, state FROM (SELECT seq, queue, state FROM @job j WHERE j.queue ="
        " q.number AND j.state = 6 ORDER BY j.since, j.seq LIMIT least(greatest(t.s6 -"
        " q.keep_done, 0), $2::int4)) a UNION SELECT seq, queue, state FROM (SELECT seq,"
        " queue, state FROM @job j WHERE j.queue = q.number AND j.state = 6 AND j.since"
        " <= $1::int8 - q.keep_done_ms ORDER BY j.since, j.seq LIMIT $2::int4) b) UNION"
        " ALL (SELECT seq, queue, state FROM (SELECT seq, queue, state FROM @job j WHERE"
        " j.queue = q.number AND j.state = 5 ORDER BY j.since, j.seq LIMIT"
        " least(greatest(t.s5 - q.keep_dead, 0), $2::int4)) a UNION SELECT seq, queue,"
        " state FROM (SELECT seq, queue, state FROM @job j WHERE j.queue = q.number AND"
        " j.state = 5 AND j.since <= $1::int8 - q.keep_dead_ms ORDER BY j.since, j.seq"
        " LIMIT $2::int4) b)) d WHERE NOT q.gone AND t.s4 + t.s5 + t.s6 > 0 LIMIT"
        " $2::int4), d AS (DELETE FROM @job j WHERE j.seq = ANY (ARRAY(SELECT v.seq FROM"
        " v)) AND j.state >= 4 RETURNING j.seq, j.queue, j.state), a AS (DELETE FROM"
        " @attempt t WHERE t.seq = ANY (ARRAY(SELECT d.seq FROM d))) INSERT INTO @delta"
        " AS o (queue, hour, s4, s5, s6, removed) SELECT queue, $3::int4, -count(*)"
        " FILTER (WHERE state = 4), -count(*) FILTER (WHERE state = 5), -count(*) FILTER"
        " (WHERE state = 6), count(*) FROM d GROUP BY queue RETURNING o.removed",
    [SQL_DUE_KEYS] =
        "WITH x AS (DELETE FROM @idem WHERE ctid = ANY (ARRAY(SELECT ctid FROM @idem"
        " WHERE expires_at <= $1::int8 ORDER BY expires_at LIMIT $2::int4)) RETURNING 1),"
        " n AS (SELECT count(*)::int8 AS n FROM x) INSERT INTO @delta AS o (queue, hour,"
        " removed) SELECT 0, $3::int4, -n FROM n WHERE n > 0 RETURNING -o.removed",
    [SQL_DUE_WORDS] = "DELETE FROM @word WHERE ctid = ANY (ARRAY(SELECT ctid FROM @word WHERE at <="
                      " $1::int8 ORDER BY at LIMIT $2::int4))",
    [SQL_DUE_HOURS] = "DELETE FROM @hour WHERE hour < $1::int4",
    [SQL_RESUMED] = "SELECT number, name FROM @queue WHERE NOT gone AND paused_until > $1::int8 AND"
                    " paused_until <= $2::int8",
    [SQL_FOLD] =
        "WITH d AS (DELETE FROM @delta RETURNING *), t AS (INSERT INTO @total AS o"
        " (queue, " SUMS_LIST ") SELECT queue, " SUMS_SUM
        " FROM d GROUP BY queue ON CONFLICT (queue) DO UPDATE SET " SUMS_ADD
        ") INSERT INTO @hour AS o (queue, hour, " TALLY_LIST ") SELECT queue, hour, " TALLY_SUM
        " FROM d WHERE queue > 0 GROUP BY queue, hour HAVING " TALLY_ANY
        " ON CONFLICT (queue, hour) DO UPDATE SET " TALLY_ADD,
    [SQL_NEXT] = "SELECT coalesce((SELECT run_at FROM @job WHERE state = 1 ORDER BY run_at LIMIT"
                 " 1), 0), coalesce((SELECT until FROM @job WHERE state = 3 ORDER BY until LIMIT"
                 " 1), 0), coalesce((SELECT expires_at FROM @job WHERE state IN (1, 2) AND"
                 " expires_at > 0 ORDER BY expires_at LIMIT 1), 0), coalesce((SELECT"
                 " min(paused_until) FROM @queue WHERE NOT gone AND paused_until > $1::int8), 0),"
                 " coalesce((SELECT expires_at FROM @idem WHERE $2::bool ORDER BY expires_at LIMIT"
                 " 1), 0), coalesce((SELECT min(least((SELECT j.since FROM @job j WHERE j.queue ="
                 " q.number AND j.state = 4 ORDER BY j.since LIMIT 1) + q.keep_done_ms, (SELECT"
                 " j.since FROM @job j WHERE j.queue = q.number AND j.state = 6 ORDER BY j.since"
                 " LIMIT 1) + q.keep_done_ms, (SELECT j.since FROM @job j WHERE j.queue = q.number"
                 " AND j.state = 5 ORDER BY j.since LIMIT 1) + q.keep_dead_ms)) FROM @queue q"
                 " WHERE $2::bool AND NOT q.gone), 0)",
    [SQL_FIGURES] =
        "SELECT coalesce(sum(s1), 0)::int8, coalesce(sum(s2), 0)::int8, coalesce(sum(s3),"
        " 0)::int8, coalesce(sum(s4), 0)::int8, coalesce(sum(s5), 0)::int8,"
        " coalesce(sum(s6), 0)::int8, coalesce(sum(CASE WHEN queue = 0 THEN removed ELSE"
        " 0 END), 0)::int8, (SELECT count(*) FROM @queue WHERE NOT gone)::int8 FROM"
        " (SELECT queue, s1, s2, s3, s4, s5, s6, removed FROM @total UNION ALL SELECT"
        " queue, s1, s2, s3, s4, s5, s6, removed FROM @delta) x",
    [SQL_GET] =
        "SELECT " JOB
        ", CASE WHEN $2::bool THEN j.payload END, CASE WHEN $2::bool THEN j.result END,"
        " j.error, " QUEUE_SHOWN " FROM @job j JOIN @queue q ON " SHOWN " WHERE j.seq = $1::int8",
    [SQL_ATTEMPTS] = "SELECT number, started_at, ended_at, outcome, error_kind, worker, error FROM"
                     " @attempt WHERE seq = $1::int8 ORDER BY n DESC LIMIT 20",
    [SQL_PEEK_READY] =
        "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM @queue q JOIN LATERAL " MEASURED_A
        "x.priority DESC, x.seq" MEASURED_B
        "SELECT j.* FROM @job j WHERE j.queue = q.number AND j.generation = q.generation"
        " AND j.state = 2 ORDER BY j.priority DESC, j.seq LIMIT $2::int4) x) j ON true"
        " WHERE q.name = $1::text AND NOT q.gone ORDER BY j.priority DESC, j.seq",
    [SQL_PEEK_SCHEDULED] =
        "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM @queue q JOIN LATERAL " MEASURED_A
        "x.run_at, x.seq" MEASURED_B
        "SELECT j.* FROM @job j WHERE j.queue = q.number AND j.generation = q.generation"
        " AND j.state = 1 ORDER BY j.run_at, j.seq LIMIT $2::int4) x) j ON true WHERE"
        " q.name = $1::text AND NOT q.gone ORDER BY j.run_at, j.seq",
    [SQL_PEEK_RUNNING] =
        "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM @queue q JOIN LATERAL " MEASURED_A
        "x.since, x.tok_epoch, x.tok_counter" MEASURED_B
        "SELECT j.* FROM @job j WHERE j.queue = q.number AND j.state = 3 ORDER BY"
        " j.since, j.tok_epoch, j.tok_counter LIMIT $2::int4) x) j ON true WHERE q.name ="
        " $1::text AND NOT q.gone ORDER BY j.since, j.tok_epoch, j.tok_counter",
    [SQL_PEEK_KEPT] =
        "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM @queue q JOIN LATERAL " MEASURED_A
        "x.since, x.seq" MEASURED_B
        "SELECT j.* FROM @job j WHERE j.queue = q.number AND j.state = $4::int4 AND"
        " j.state >= 4 ORDER BY j.since, j.seq LIMIT $2::int4) x) j ON true WHERE q.name"
        " = $1::text AND NOT q.gone ORDER BY j.since, j.seq",
    [SQL_PEEK_NEWEST] =
        "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM @queue q JOIN LATERAL " MEASURED_A
        "x.since DESC, x.seq DESC" MEASURED_B
        "SELECT j.* FROM @job j WHERE j.queue = q.number AND j.state = $4::int4 AND"
        " j.state >= 3 ORDER BY j.since DESC, j.seq DESC OFFSET $5::int8 LIMIT $2::int4)"
        " x) j ON true WHERE q.name = $1::text AND NOT q.gone ORDER BY j.since DESC,"
        " j.seq DESC",
    [SQL_QUEUE_VIEWS] =
        "WITH n AS MATERIALIZED (SELECT number FROM @queue WHERE NOT gone AND (name = ANY"
        " ($1::text[]) OR number = ANY ($2::int4[]) OR ($3::int4 > 0 AND name >"
        " $4::text)) ORDER BY name LIMIT greatest($3::int4, 1)), c AS (" COUNTS_A
        "ARRAY(SELECT number FROM n)" COUNTS_B "ARRAY(SELECT number FROM n)" COUNTS_C
        ") SELECT " QUEUE
        ", coalesce((WITH RECURSIVE p AS ((SELECT j.priority FROM @job j WHERE j.queue ="
        " q.number AND j.generation = q.generation AND j.state = 2 ORDER BY j.priority"
        " DESC LIMIT 1) UNION ALL SELECT (SELECT j.priority FROM @job j WHERE j.queue ="
        " q.number AND j.generation = q.generation AND j.state = 2 AND j.priority <"
        " p.priority ORDER BY j.priority DESC LIMIT 1) FROM p WHERE p.priority IS NOT"
        " NULL) SELECT min(f.since) FROM p CROSS JOIN LATERAL (SELECT j.since FROM @job j"
        " WHERE j.queue = q.number AND j.generation = q.generation AND j.state = 2 AND"
        " j.priority = p.priority ORDER BY j.seq LIMIT 20) f), 0), coalesce((SELECT"
        " j.run_at FROM @job j WHERE j.queue = q.number AND j.state = 1 AND j.generation"
        " = q.generation ORDER BY j.run_at LIMIT 1), 0), " SUMS_COALESCED
        " FROM n JOIN @queue q ON q.number = n.number LEFT JOIN c ON c.queue = q.number"
        " ORDER BY q.name",
    [SQL_GROUP] = "SELECT j.state, count(*)::int8 FROM @queue q JOIN @job j ON j.queue = q.number"
                  " AND j.grp = $3::text AND (j.state > 2 OR j.generation = q.generation) WHERE"
                  " (q.name = $1::text OR q.number = $2::int4) AND NOT q.gone GROUP BY j.state",
    [SQL_LIST] = "SELECT " JOB ", " BODY_13 ", " QUEUE_SHOWN " FROM " MEASURED_A
                 "x.seq ASC" MEASURED_B "SELECT j.* FROM @job j JOIN @queue q ON " SHOWN
                 " WHERE ($3::int4 = 0 OR j.queue = $3::int4) AND j.seq BETWEEN $1::int8 AND"
                 " $2::int8 AND ($4::int4 >> j.state) & 1 = 1 AND ($5::int4 >> j.reason) & 1 = 1"
                 " AND j.priority BETWEEN $6::int8 AND $7::int8 AND j.id_hi >> 16 BETWEEN $8::int8"
                 " AND $9::int8 AND ($10::text = '' OR j.ukey = $10::text) AND ($11::text = '' OR"
                 " j.grp = $11::text) AND ($12::text = '' OR j.correlation = $12::text) ORDER BY"
                 " j.seq ASC LIMIT $14::int4) x) j JOIN @queue q ON q.number = j.queue ORDER BY"
                 " j.seq ASC",
    [SQL_LIST_NEWEST] =
        "SELECT " JOB ", " BODY_13 ", " QUEUE_SHOWN " FROM " MEASURED_A "x.seq DESC" MEASURED_B
        "SELECT j.* FROM @job j JOIN @queue q ON " SHOWN
        " WHERE ($3::int4 = 0 OR j.queue = $3::int4) AND j.seq BETWEEN $1::int8 AND"
        " $2::int8 AND ($4::int4 >> j.state) & 1 = 1 AND ($5::int4 >> j.reason) & 1 = 1"
        " AND j.priority BETWEEN $6::int8 AND $7::int8 AND j.id_hi >> 16 BETWEEN $8::int8"
        " AND $9::int8 AND ($10::text = '' OR j.ukey = $10::text) AND ($11::text = '' OR"
        " j.grp = $11::text) AND ($12::text = '' OR j.correlation = $12::text) ORDER BY"
        " j.seq DESC LIMIT $14::int4) x) j JOIN @queue q ON q.number = j.queue ORDER BY"
        " j.seq DESC",
    [SQL_LIST_KEPT] =
        "SELECT " JOB ", " BODY_13 ", " QUEUE_SHOWN " FROM " MEASURED_A "x.seq ASC" MEASURED_B
        "SELECT j.* FROM @job j JOIN @queue q ON " SHOWN
        " WHERE j.queue = $3::int4 AND j.state >= 4 AND j.seq BETWEEN $1::int8 AND"
        " $2::int8 AND ($4::int4 >> j.state) & 1 = 1 AND ($5::int4 >> j.reason) & 1 = 1"
        " AND j.priority BETWEEN $6::int8 AND $7::int8 AND j.id_hi >> 16 BETWEEN $8::int8"
        " AND $9::int8 AND ($10::text = '' OR j.ukey = $10::text) AND ($11::text = '' OR"
        " j.grp = $11::text) AND ($12::text = '' OR j.correlation = $12::text) ORDER BY"
        " j.seq ASC LIMIT $14::int4) x) j JOIN @queue q ON q.number = j.queue ORDER BY"
        " j.seq ASC",
    [SQL_LIST_KEPT_NEWEST] =
        "SELECT " JOB ", " BODY_13 ", " QUEUE_SHOWN " FROM " MEASURED_A "x.seq DESC" MEASURED_B
        "SELECT j.* FROM @job j JOIN @queue q ON " SHOWN
        " WHERE j.queue = $3::int4 AND j.state >= 4 AND j.seq BETWEEN $1::int8 AND"
        " $2::int8 AND ($4::int4 >> j.state) & 1 = 1 AND ($5::int4 >> j.reason) & 1 = 1"
        " AND j.priority BETWEEN $6::int8 AND $7::int8 AND j.id_hi >> 16 BETWEEN $8::int8"
        " AND $9::int8 AND ($10::text = '' OR j.ukey = $10::text) AND ($11::text = '' OR"
        " j.grp = $11::text) AND ($12::text = '' OR j.correlation = $12::text) ORDER BY"
        " j.seq DESC LIMIT $14::int4) x) j JOIN @queue q ON q.number = j.queue ORDER BY"
        " j.seq DESC",
    [SQL_WORKERS] =
        "SELECT j.worker, count(*)::int8, (count(*) OVER ())::int8 FROM @job j JOIN"
        " @queue q ON q.number = j.queue AND NOT q.gone WHERE j.state = 3 AND j.worker <>"
        " '' GROUP BY j.worker ORDER BY min(j.since), min(j.tok_counter) LIMIT $1::int4",
    [SQL_EXCEPTIONS] =
        "SELECT a.number, a.started_at, a.ended_at, a.outcome, a.error_kind, a.worker,"
        " a.error, a.seq, j.id_hi, q.name FROM @attempt a JOIN @job j ON j.seq = a.seq"
        " JOIN @queue q ON q.number = a.queue AND NOT q.gone AND (j.state > 2 OR"
        " j.generation = q.generation) WHERE a.outcome IN (2, 3) AND ($1::text = '' OR"
        " q.name = $1::text) ORDER BY a.n DESC LIMIT $2::int4",
    [SQL_HISTORY] =
        "SELECT hour, " SUM_OF_TALLY " FROM (SELECT hour, " TALLY_LIST
        " FROM @hour h WHERE h.queue = (SELECT number FROM @queue WHERE name = $1::text"
        " AND NOT gone) UNION ALL SELECT hour, " TALLY_LIST
        " FROM @delta d WHERE d.queue = (SELECT number FROM @queue WHERE name = $1::text"
        " AND NOT gone)) x WHERE hour >= $2::int4 AND hour < $3::int4 GROUP BY hour"
        " HAVING " TALLY_ANY " ORDER BY hour",
    [SQL_PAGE] = "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM " MEASURED_A "x.seq" MEASURED_B
                 "SELECT j.* FROM @job j JOIN @queue q ON " SHOWN
                 " WHERE j.queue = $1::int4 AND ($2::int4 >> j.state) & 1 = 1 AND ($4::text = ''"
                 " OR j.ukey = $4::text) ORDER BY j.seq OFFSET $5::int8 LIMIT $6::int4) x) j JOIN"
                 " @queue q ON q.number = j.queue ORDER BY j.seq",
    [SQL_PAGE_COUNT] =
        "SELECT count(*)::int8 FROM @job j JOIN @queue q ON " SHOWN
        " WHERE j.queue = $1::int4 AND ($2::int4 >> j.state) & 1 = 1 AND ($3::text = ''"
        " OR j.ukey = $3::text)",
    [SQL_NOTIFY] = "SELECT pg_notify($1::text, $2::text)",
};

char *pg_sql_with_schema(const char *text, const char *schema)
{
    struct buf b;
    char *done = NULL;
    int err = 0;
    buf_init(&b);
    for (; *text && !err; text++) {
        err = *text == '@' ? buf_append_text(&b, schema) : buf_append(&b, text, 1);
        if (!err && *text == '@')
            err = buf_append_text(&b, ".");
    }
    if (!err)
        done = mem_text(b.data, b.len);
    buf_done(&b);
    return done;
}

int pg_sql_fill(struct sql_text *ret, const char *schema)
{
    for (size_t i = 0; i < SQL_COUNT; i++) {
        ret->text[i] = pg_sql_with_schema(statements[i], schema);
        if (!ret->text[i])
            return -ERR_NOMEM;
    }
    return 0;
}

void pg_sql_done(struct sql_text *t)
{
    for (size_t i = 0; i < SQL_COUNT; i++)
        mem_free(t->text[i]);
}
