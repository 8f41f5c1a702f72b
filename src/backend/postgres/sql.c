/* SPDX-License-Identifier: Apache-2.0 */
/* The statements of units of work, and the table of all. */
#include "backend/postgres/sql_impl.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"

const struct sql_statement pg_sql_units[] = {
    {SQL_BEGIN, "BEGIN"},
    {SQL_COMMIT, "COMMIT"},
    {SQL_ROLLBACK, "ROLLBACK"},
    {SQL_NOW, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8"},
    {SQL_LOCK_SHARED,
     "SELECT n, pg_advisory_xact_lock_shared(" LOCK_CLASS
     ", n) IS NULL FROM (SELECT number AS n FROM @queue WHERE name = ANY ($1::text[])"
     " AND NOT gone UNION SELECT queue FROM @job WHERE seq = ANY ($2::int8[]) ORDER BY"
     " 1) x"},
    {SQL_LOCK_ALONE,
     "SELECT n, pg_advisory_xact_lock(" LOCK_CLASS
     ", n) IS NULL FROM (SELECT number AS n FROM @queue WHERE name = ANY ($1::text[])"
     " AND NOT gone UNION SELECT queue FROM @job WHERE seq = ANY ($2::int8[]) ORDER BY"
     " 1) x"},
    {SQL_SEQS, "SELECT nextval('@job_seq') FROM generate_series(1, $1::int4)"},
    {SQL_NUMBERS,
     "SELECT nextval('@queue_number')::int4, (SELECT count(*) FROM @queue WHERE NOT gone)::int8"
     " FROM generate_series(1, $1::int4)"},
    {SQL_QUEUES,
     "SELECT " QUEUE
     " FROM @queue q WHERE q.name = ANY ($1::text[]) AND NOT q.gone UNION ALL SELECT " QUEUE
     " FROM @queue q WHERE q.number = ANY (ARRAY(SELECT j.queue FROM @job j WHERE"
     " j.seq = ANY ($2::int8[]))) OR q.number = ANY ($3::int4[])"},
    {SQL_COUNTS,
     COUNTS_A "ARRAY(SELECT number FROM @queue WHERE name = ANY ($1::text[]) AND NOT gone UNION"
              " SELECT queue FROM @job WHERE seq = ANY ($2::int8[]))" COUNTS_B
              "ARRAY(SELECT number FROM @queue WHERE name = ANY ($1::text[]) AND NOT gone UNION"
              " SELECT queue FROM @job WHERE seq = ANY ($2::int8[]))" COUNTS_C},
    {SQL_JOBS,
     "SELECT " JOB " FROM @job j WHERE j.seq = ANY ($1::int8[]) ORDER BY j.seq FOR UPDATE"},
    {SQL_CLAIM, "SELECT c.* FROM unnest($1::text[], $2::int4[]) w(name, n) JOIN @queue q ON"
                " q.name = w.name AND NOT q.gone AND q.paused_until <= " NOW_3
                " CROSS JOIN LATERAL (SELECT " JOB
                ", CASE WHEN j.payload_bytes <= 4096 THEN j.payload END AS small, CASE WHEN"
                " length(j.result) <= 4096 THEN j.result END AS result, j.error FROM @job j WHERE"
                " j.queue = q.number AND j.generation = q.generation AND j.state = 2 AND"
                " (j.expires_at = 0 OR j.expires_at > " NOW_3
                ") ORDER BY j.priority DESC, j.seq LIMIT w.n FOR UPDATE SKIP LOCKED) c"},
    {SQL_HOLDERS,
     "SELECT " JOB " FROM unnest($1::text[], $2::text[]) w(name, key) JOIN @queue q ON q.name ="
     " w.name AND NOT q.gone JOIN @job j ON j.queue = q.number AND j.ukey = w.key AND"
     " j.held ORDER BY j.seq FOR UPDATE OF j"},
    {SQL_RIVALS,
     "SELECT " JOB " FROM @job o JOIN @job j ON j.queue = o.queue AND j.ukey = o.ukey AND j.held"
     " WHERE o.seq = ANY ($1::int8[]) AND o.ukey IS NOT NULL ORDER BY j.seq FOR UPDATE"
     " OF j"},
    {SQL_NONCE, "SELECT " JOB
                " FROM @job j WHERE j.state = 3 AND j.nonce = ANY ($1::int8[]) ORDER BY j.seq FOR"
                " UPDATE"},
    {SQL_NONCE_QUEUES,
     "SELECT " QUEUE " FROM @queue q WHERE q.number = ANY (ARRAY(SELECT j.queue FROM @job j WHERE"
     " j.state = 3 AND j.nonce = ANY ($1::int8[])))"},
    {SQL_NONCE_LOCK, "SELECT n, pg_advisory_xact_lock_shared(" LOCK_CLASS
                     ", n) IS NULL FROM (SELECT DISTINCT queue AS n FROM @job WHERE state = 3 AND"
                     " nonce = ANY ($1::int8[]) ORDER BY 1) x"},
    {SQL_IDEM, "SELECT i.hi, i.lo, i.fingerprint, i.seq, i.id_hi, i.expires_at, j.state FROM"
               " unnest($1::int8[], $2::int8[]) w(hi, lo) JOIN @idem i ON i.hi = w.hi AND i.lo ="
               " w.lo LEFT JOIN @job j ON j.seq = i.seq"},
    {SQL_LIVE, "SELECT coalesce(sum(s1 + s2 + s3), 0)::int8, coalesce(sum(CASE WHEN queue = 0"
               " THEN removed ELSE 0 END), 0)::int8 FROM (SELECT queue, s1, s2, s3, removed FROM"
               " @total UNION ALL SELECT queue, s1, s2, s3, removed FROM @delta) x"},
    {SQL_WORDS, "SELECT w.epoch, w.counter, w.seq, w.kind, w.state, w.run_at FROM"
                " unnest($1::int4[], $2::int8[]) n(epoch, counter) JOIN @word w ON w.epoch ="
                " n.epoch AND w.counter = n.counter"},
    {SQL_SEQ_HIGH, "SELECT last_value FROM @job_seq"},
    {SQL_SEQ_RAISE,
     "SELECT setval('@job_seq', $1::int8) FROM @job_seq WHERE last_value < $1::int8"},
    {SQL_QUEUE_PUT,
     "INSERT INTO @queue AS q (number, name, owner, note, attributes, policy, generation,"
     " created_at, updated_at, paused_until, keep_done, keep_done_ms, keep_dead,"
     " keep_dead_ms) SELECT unnest($1::int4[]), unnest($2::text[]), unnest($3::text[]),"
     " unnest($4::text[]), unnest($5::text[]), unnest($6::bytea[]), unnest($7::int4[]),"
     " unnest($8::int8[]), unnest($9::int8[]), unnest($10::int8[]), unnest($11::int8[]),"
     " unnest($12::int8[]), unnest($13::int8[]), unnest($14::int8[]) ON CONFLICT (number)"
     " DO UPDATE SET owner = excluded.owner, note = excluded.note, attributes ="
     " excluded.attributes, policy = excluded.policy, generation = excluded.generation,"
     " updated_at = excluded.updated_at, paused_until = excluded.paused_until, keep_done ="
     " excluded.keep_done, keep_done_ms = excluded.keep_done_ms, keep_dead ="
     " excluded.keep_dead, keep_dead_ms = excluded.keep_dead_ms"},
    {SQL_QUEUE_GONE,
     "UPDATE @queue SET gone = true, sweeping = true WHERE number = ANY ($1::int4[])"},
    {SQL_QUEUE_PURGED, "UPDATE @queue SET sweeping = true WHERE number = ANY ($1::int4[])"},
    {SQL_JOB_LETS_GO, "UPDATE @job SET held = false WHERE seq = ANY ($1::int8[])"},
    {SQL_JOB_SET,
     "UPDATE @job j SET state = u.state, reason = u.reason, priority = u.priority, run_at ="
     " u.run_at, since = u.since, generation = u.generation, failures = u.failures, crashes"
     " = u.crashes, flags = u.flags, tok_epoch = u.tok_epoch, tok_counter = u.tok_counter,"
     " lease_ms = u.lease_ms, until = u.until, worker = u.worker, nonce = u.nonce,"
     " started_at = u.started_at, word = u.word, word_state = u.word_state, word_run_at ="
     " u.word_run_at, fate = u.fate, held = u.held, holder = u.holder, holder_hi ="
     " u.holder_hi FROM (SELECT unnest($1::int8[]) AS seq, unnest($2::int2[]) AS state,"
     " unnest($3::int2[]) AS reason, unnest($4::int8[]) AS priority, unnest($5::int8[]) AS"
     " run_at, unnest($6::int8[]) AS since, unnest($7::int4[]) AS generation,"
     " unnest($8::int4[]) AS failures, unnest($9::int4[]) AS crashes, unnest($10::int2[])"
     " AS flags, unnest($11::int4[]) AS tok_epoch, unnest($12::int8[]) AS tok_counter,"
     " unnest($13::int4[]) AS lease_ms, unnest($14::int8[]) AS until, unnest($15::text[])"
     " AS worker, unnest($16::int8[]) AS nonce, unnest($17::int8[]) AS started_at,"
     " unnest($18::int2[]) AS word, unnest($19::int2[]) AS word_state, unnest($20::int8[])"
     " AS word_run_at, unnest($21::int8[]) AS fate, unnest($22::bool[]) AS held,"
     " unnest($23::int8[]) AS holder, unnest($24::int8[]) AS holder_hi) u WHERE j.seq ="
     " u.seq"},
    {SQL_JOB_NEW,
     "INSERT INTO @job (seq, id_hi, queue, state, reason, priority, run_at, since,"
     " generation, failures, crashes, payload_kind, payload_bytes, flags, ukey, held, grp,"
     " correlation, label, attributes, expires_at, options, undelivered, payload,"
     " error_kind, error) SELECT unnest($1::int8[]), unnest($2::int8[]),"
     " unnest($3::int4[]), unnest($4::int2[]), unnest($5::int2[]), unnest($6::int8[]),"
     " unnest($7::int8[]), unnest($8::int8[]), unnest($9::int4[]), unnest($10::int4[]),"
     " unnest($11::int4[]), unnest($12::int2[]), unnest($13::int4[]), unnest($14::int2[]),"
     " unnest($15::text[]), unnest($16::bool[]), unnest($17::text[]), unnest($18::text[]),"
     " unnest($19::text[]), unnest($20::text[]), unnest($21::int8[]), unnest($22::bytea[]),"
     " unnest($23::bytea[]), unnest($24::bytea[]), unnest($25::int2[]),"
     " unnest($26::bytea[])"},
    {SQL_JOB_DEL, "DELETE FROM @job WHERE seq = ANY ($1::int8[])"},
    {SQL_JOB_PAYLOAD,
     "UPDATE @job SET payload_kind = $2::int4, payload = $3::bytea, payload_bytes ="
     " $4::int4 WHERE seq = $1::int8"},
    {SQL_JOB_RESULT,
     "UPDATE @job j SET result_kind = u.kind, result = u.result FROM (SELECT"
     " unnest($1::int8[]) AS seq, unnest($2::int2[]) AS kind, unnest($3::bytea[]) AS"
     " result) u WHERE j.seq = u.seq"},
    {SQL_JOB_ERROR,
     "UPDATE @job j SET error_kind = u.kind, error = u.error FROM (SELECT"
     " unnest($1::int8[]) AS seq, unnest($2::int2[]) AS kind, unnest($3::bytea[]) AS error)"
     " u WHERE j.seq = u.seq"},
    {SQL_JOB_NOTE, "UPDATE @job j SET label = u.label, attributes = u.attributes FROM (SELECT"
                   " unnest($1::int8[]) AS seq, unnest($2::text[]) AS label, unnest($3::text[]) AS"
                   " attributes) u WHERE j.seq = u.seq"},
    {SQL_ATTEMPT_NEW,
     "INSERT INTO @attempt (seq, queue, number, started_at, ended_at, outcome, error_kind,"
     " worker, error) SELECT unnest($1::int8[]), unnest($2::int4[]), unnest($3::int4[]),"
     " unnest($4::int8[]), unnest($5::int8[]), unnest($6::int2[]), unnest($7::int2[]),"
     " unnest($8::text[]), unnest($9::bytea[])"},
    {SQL_ATTEMPT_TRIM,
     "DELETE FROM @attempt a USING unnest($1::int8[]) w(seq) WHERE a.seq = w.seq AND"
     " a.n <= (SELECT b.n FROM @attempt b WHERE b.seq = w.seq ORDER BY b.n DESC OFFSET"
     " 20 LIMIT 1)"},
    {SQL_ATTEMPT_DEL, "DELETE FROM @attempt WHERE seq = ANY ($1::int8[])"},
    {SQL_WORD_NEW,
     "INSERT INTO @word (epoch, counter, seq, kind, state, run_at, at) SELECT"
     " unnest($1::int4[]), unnest($2::int8[]), unnest($3::int8[]), unnest($4::int2[]),"
     " unnest($5::int2[]), unnest($6::int8[]), unnest($7::int8[]) ON CONFLICT (epoch,"
     " counter) DO NOTHING"},
    {SQL_IDEM_DEL, "DELETE FROM @idem i USING unnest($1::int8[], $2::int8[]) w(hi, lo) WHERE i.hi ="
                   " w.hi AND i.lo = w.lo AND i.expires_at <= $3::int8"},
    {SQL_IDEM_NEW,
     "INSERT INTO @idem (hi, lo, fingerprint, seq, id_hi, expires_at) SELECT"
     " unnest($1::int8[]), unnest($2::int8[]), unnest($3::int8[]), unnest($4::int8[]),"
     " unnest($5::int8[]), unnest($6::int8[])"},
    {SQL_DELTA,
     "INSERT INTO @delta (queue, hour, " SUMS_LIST
     ") SELECT unnest($1::int4[]), unnest($2::int4[]), unnest($3::int8[]),"
     " unnest($4::int8[]), unnest($5::int8[]), unnest($6::int8[]), unnest($7::int8[]),"
     " unnest($8::int8[]), unnest($9::int8[]), unnest($10::int8[]), unnest($11::int8[]),"
     " unnest($12::int8[]), unnest($13::int8[]), unnest($14::int8[]), unnest($15::int8[]),"
     " unnest($16::int8[]), unnest($17::int8[]), unnest($18::int8[]), unnest($19::int8[]),"
     " unnest($20::int8[]), unnest($21::int8[]), unnest($22::int8[]), unnest($23::int8[])"},
    {SQL_BODIES, "SELECT j.seq, j.payload, j.result, j.error FROM @job j WHERE j.seq = ANY"
                 " ($1::int8[])"},
    {SQL_SHARED, "SELECT " JOB ", NULL::bytea, NULL::bytea, j.error, " QUEUE_SHOWN
                 ", (SELECT count(*) - count(DISTINCT k.ukey) FROM @job k WHERE k.queue = $1::int4"
                 " AND k.ukey IS NOT NULL AND k.state <> 6 AND (k.state > 2 OR k.generation ="
                 " $2::int4))::int8 FROM @job j JOIN @queue q ON q.number = j.queue WHERE j.queue"
                 " = $1::int4 AND j.ukey IS NOT NULL AND j.state <> 6 AND (j.state > 2 OR"
                 " j.generation = $2::int4) AND EXISTS (SELECT FROM @job k WHERE k.queue ="
                 " $1::int4 AND k.ukey IS NOT NULL AND k.state <> 6 AND (k.state > 2 OR"
                 " k.generation = $2::int4) AND k.ukey = j.ukey AND k.seq <> j.seq) ORDER BY j.seq"
                 " LIMIT 100"},
    {SQL_HOLD, "UPDATE @job SET held = (ukey IS NOT NULL AND ($2::int4 = 1 AND state <> 6 OR"
               " $2::int4 = 0 AND state <= 3)) WHERE queue = $1::int4 AND ukey IS NOT NULL AND"
               " (state > 2 OR generation = $3::int4)"},
    {SQL_BULK_NEW, "INSERT INTO @bulk (action, queue, states, grp, seq_max, at, epoch) VALUES"
                   " ($1::int4, $2::int4, $3::int4, $4::text, $5::int8, $6::int8, $7::int4)"
                   " RETURNING number"},
    {SQL_BULK_JOBS,
     "SELECT " JOB " FROM @job j WHERE j.queue = $1::int4 AND ($2::int4 >> j.state) & 1 = 1 AND"
     " j.seq > $3::int8 AND (j.seq <= $4::int8 OR j.seq >= 1::int8 << 46) AND ($5::text = '' OR "
     "j.grp = $5::text)"
     " ORDER BY j.seq LIMIT $6::int4 FOR UPDATE"},
    {SQL_BULK_RIVALS,
     "SELECT " JOB " FROM (SELECT o.queue, o.ukey, o.seq FROM @job o WHERE o.queue = $1::int4 AND"
     " ($2::int4 >> o.state) & 1 = 1 AND o.seq > $3::int8 AND (o.seq <= $4::int8 OR o.seq >= "
     "1::int8 << 46) AND"
     " ($5::text = '' OR o.grp = $5::text) ORDER BY o.seq LIMIT $6::int4) o JOIN @job"
     " j ON j.queue = o.queue AND j.ukey = o.ukey AND j.held AND j.seq <> o.seq ORDER"
     " BY j.seq FOR UPDATE OF j"},
    {SQL_LOCK_NUMBER, "SELECT pg_advisory_xact_lock_shared(" LOCK_CLASS ", $1::int4) IS NULL"},
    {SQL_BULK_STEP, "UPDATE @bulk SET cursor = $2::int8, changed = $3::int8, refused = $4::int8,"
                    " epoch = $5::int4 WHERE number = $1::int8"},
    {SQL_BULK_END, "DELETE FROM @bulk WHERE number = $1::int8"},
    {SQL_BULK_ORPHANS,
     "UPDATE @bulk b SET epoch = $1::int4 WHERE b.epoch <> $1::int4 AND NOT EXISTS"
     " (SELECT FROM @node n WHERE n.epoch = b.epoch AND n.seen_at > $2::int8)"
     " RETURNING number, action, queue, states, grp, seq_max, at, cursor, changed,"
     " refused"},
    {SQL_NOTIFY, "SELECT pg_notify($1::text, $2::text)"},
    {SQL_COUNT, NULL},
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

static int fill(struct sql_text *ret, const struct sql_statement *part, const char *schema)
{
    for (; part->text; part++) {
        ret->text[part->id] = pg_sql_with_schema(part->text, schema);
        if (!ret->text[part->id])
            return -ERR_NOMEM;
    }
    return 0;
}

int pg_sql_fill(struct sql_text *ret, const char *schema)
{
    static const struct sql_statement *const parts[] = {pg_sql_units,     pg_sql_leader,
                                                        pg_sql_questions, pg_sql_keys,
                                                        pg_sql_schedules, pg_sql_notices};
    int err = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !err; i++)
        err = fill(ret, parts[i], schema);
    for (size_t i = 0; i < SQL_COUNT && !err; i++)
        CHECK(ret->text[i]);
    return err;
}

void pg_sql_done(struct sql_text *t)
{
    for (size_t i = 0; i < SQL_COUNT; i++)
        mem_free(t->text[i]);
}
