/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of statements. They take arrays and give rows; what they decide is only who gets which row.
 *
 * Where a job is not there although its row still is: its queue is gone, or it waits and a purge
 * has raised the queue's generation since (SHOWN). Claims read one generation of one queue from the
 * index of ready jobs; nothing that is not ready is ever in it.
 *
 * Bodies are shown up to 16 MiB an answer (LIMIT_ANSWER_BYTES): rows are measured (MEASURED_A, _B)
 * before the bytes of any are fetched. */
#pragma once

#include <stddef.h>

#include "backend/postgres/sql.h"

struct sql_statement {
    enum sql_id id;
    const char *text;
};

/* Each ends with a row without a text. */
extern const struct sql_statement pg_sql_units[], pg_sql_leader[], pg_sql_questions[];
extern const struct sql_statement pg_sql_keys[], pg_sql_schedules[], pg_sql_notices[];

#define JOB                                                                                        \
    "j.seq, j.id_hi, j.queue, j.state, j.reason, j.priority, j.run_at, j.since,"                   \
    " j.generation, j.failures, j.crashes, j.payload_kind, j.payload_bytes, j.flags,"              \
    " j.tok_epoch, j.tok_counter, j.lease_ms, j.until, j.worker, j.nonce,"                         \
    " j.started_at, j.word, j.word_state, j.word_run_at, j.fate, j.ukey, j.held,"                  \
    " j.grp, j.correlation, j.label, j.attributes, j.expires_at, j.options,"                       \
    " j.undelivered, j.result_kind, j.error_kind, j.holder, j.holder_hi"
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
#define NOW_1                                                                                      \
    "CASE WHEN $1::int8 > 0 THEN $1::int8 ELSE (extract(epoch FROM clock_timestamp())"             \
    " * 1000)::int8 END"
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
