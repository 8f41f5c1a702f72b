/* SPDX-License-Identifier: Apache-2.0 */
/* Questions: jobs, queues and what is counted of them. */
#include "backend/postgres/sql_impl.h"

/* enum page_pending */
#define PENDING_AS(arg)                                                                            \
    "(" arg "::int4 = 0 OR j.state <> 2 OR (j.flags & 4 <> 0) = (" arg "::int4 = 1))"

const struct sql_statement pg_sql_questions[] = {
    {SQL_GET,
     "SELECT " JOB ", CASE WHEN $2::bool THEN j.payload END, CASE WHEN $2::bool THEN j.result END,"
     " j.error, " QUEUE_SHOWN " FROM @job j JOIN @queue q ON " SHOWN " WHERE j.seq = $1::int8"},
    {SQL_ATTEMPTS, "SELECT number, started_at, ended_at, outcome, error_kind, worker, error FROM"
                   " @attempt WHERE seq = $1::int8 ORDER BY n DESC LIMIT 20"},
    {SQL_PEEK_READY,
     "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM @queue q JOIN LATERAL " MEASURED_A
     "x.priority DESC, x.seq" MEASURED_B
     "SELECT j.* FROM @job j WHERE j.queue = q.number AND j.generation = q.generation"
     " AND j.state = 2 ORDER BY j.priority DESC, j.seq LIMIT $2::int4) x) j ON true"
     " WHERE q.name = $1::text AND NOT q.gone ORDER BY j.priority DESC, j.seq"},
    {SQL_PEEK_SCHEDULED,
     "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM @queue q JOIN LATERAL " MEASURED_A
     "x.run_at, x.seq" MEASURED_B
     "SELECT j.* FROM @job j WHERE j.queue = q.number AND j.generation = q.generation"
     " AND j.state = 1 ORDER BY j.run_at, j.seq LIMIT $2::int4) x) j ON true WHERE"
     " q.name = $1::text AND NOT q.gone ORDER BY j.run_at, j.seq"},
    {SQL_PEEK_RUNNING,
     "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM @queue q JOIN LATERAL " MEASURED_A
     "x.since, x.tok_epoch, x.tok_counter" MEASURED_B
     "SELECT j.* FROM @job j WHERE j.queue = q.number AND j.state = 3 ORDER BY"
     " j.since, j.tok_epoch, j.tok_counter LIMIT $2::int4) x) j ON true WHERE q.name ="
     " $1::text AND NOT q.gone ORDER BY j.since, j.tok_epoch, j.tok_counter"},
    {SQL_PEEK_KEPT,
     "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM @queue q JOIN LATERAL " MEASURED_A
     "x.since, x.seq" MEASURED_B
     "SELECT j.* FROM @job j WHERE j.queue = q.number AND j.state = $4::int4 AND"
     " j.state >= 4 ORDER BY j.since, j.seq LIMIT $2::int4) x) j ON true WHERE q.name"
     " = $1::text AND NOT q.gone ORDER BY j.since, j.seq"},
    {SQL_PEEK_NEWEST,
     "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM @queue q JOIN LATERAL " MEASURED_A
     "x.since DESC, x.seq DESC" MEASURED_B
     "SELECT j.* FROM @job j WHERE j.queue = q.number AND j.state = $4::int4 AND"
     " j.state >= 3 ORDER BY j.since DESC, j.seq DESC OFFSET $5::int8 LIMIT $2::int4)"
     " x) j ON true WHERE q.name = $1::text AND NOT q.gone ORDER BY j.since DESC,"
     " j.seq DESC"},
    {SQL_QUEUE_VIEWS,
     "WITH n AS MATERIALIZED (SELECT number FROM @queue WHERE NOT gone AND (name = ANY"
     " ($1::text[]) OR number = ANY ($2::int4[]) OR ($3::int4 > 0 AND name >"
     " $4::text)) ORDER BY name LIMIT greatest($3::int4, 1)), c AS (" COUNTS_A
     "ARRAY(SELECT number FROM n)" COUNTS_B "ARRAY(SELECT number FROM n)" COUNTS_C ") SELECT " QUEUE
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
     " ORDER BY q.name"},
    {SQL_GROUP, "SELECT j.state, count(*)::int8 FROM @queue q JOIN @job j ON j.queue = q.number"
                " AND j.grp = $3::text AND (j.state > 2 OR j.generation = q.generation) WHERE"
                " (q.name = $1::text OR q.number = $2::int4) AND NOT q.gone GROUP BY j.state"},
    {SQL_LIST, "SELECT " JOB ", " BODY_13 ", " QUEUE_SHOWN " FROM " MEASURED_A
               "x.seq ASC" MEASURED_B "SELECT j.* FROM @job j JOIN @queue q ON " SHOWN
               " WHERE ($3::int4 = 0 OR j.queue = $3::int4) AND j.seq BETWEEN $1::int8 AND"
               " $2::int8 AND ($4::int4 >> j.state) & 1 = 1 AND ($5::int4 >> j.reason) & 1 = 1"
               " AND j.priority BETWEEN $6::int8 AND $7::int8 AND j.id_hi >> 16 BETWEEN $8::int8"
               " AND $9::int8 AND ($10::text = '' OR j.ukey = $10::text) AND ($11::text = '' OR"
               " j.grp = $11::text) AND ($12::text = '' OR j.correlation = $12::text) ORDER BY"
               " j.seq ASC LIMIT $14::int4) x) j JOIN @queue q ON q.number = j.queue ORDER BY"
               " j.seq ASC"},
    {SQL_LIST_NEWEST,
     "SELECT " JOB ", " BODY_13 ", " QUEUE_SHOWN " FROM " MEASURED_A "x.seq DESC" MEASURED_B
     "SELECT j.* FROM @job j JOIN @queue q ON " SHOWN
     " WHERE ($3::int4 = 0 OR j.queue = $3::int4) AND j.seq BETWEEN $1::int8 AND"
     " $2::int8 AND ($4::int4 >> j.state) & 1 = 1 AND ($5::int4 >> j.reason) & 1 = 1"
     " AND j.priority BETWEEN $6::int8 AND $7::int8 AND j.id_hi >> 16 BETWEEN $8::int8"
     " AND $9::int8 AND ($10::text = '' OR j.ukey = $10::text) AND ($11::text = '' OR"
     " j.grp = $11::text) AND ($12::text = '' OR j.correlation = $12::text) ORDER BY"
     " j.seq DESC LIMIT $14::int4) x) j JOIN @queue q ON q.number = j.queue ORDER BY"
     " j.seq DESC"},
    {SQL_LIST_KEPT,
     "SELECT " JOB ", " BODY_13 ", " QUEUE_SHOWN " FROM " MEASURED_A "x.seq ASC" MEASURED_B
     "SELECT j.* FROM @job j JOIN @queue q ON " SHOWN
     " WHERE j.queue = $3::int4 AND j.state >= 4 AND j.seq BETWEEN $1::int8 AND"
     " $2::int8 AND ($4::int4 >> j.state) & 1 = 1 AND ($5::int4 >> j.reason) & 1 = 1"
     " AND j.priority BETWEEN $6::int8 AND $7::int8 AND j.id_hi >> 16 BETWEEN $8::int8"
     " AND $9::int8 AND ($10::text = '' OR j.ukey = $10::text) AND ($11::text = '' OR"
     " j.grp = $11::text) AND ($12::text = '' OR j.correlation = $12::text) ORDER BY"
     " j.seq ASC LIMIT $14::int4) x) j JOIN @queue q ON q.number = j.queue ORDER BY"
     " j.seq ASC"},
    {SQL_LIST_KEPT_NEWEST,
     "SELECT " JOB ", " BODY_13 ", " QUEUE_SHOWN " FROM " MEASURED_A "x.seq DESC" MEASURED_B
     "SELECT j.* FROM @job j JOIN @queue q ON " SHOWN
     " WHERE j.queue = $3::int4 AND j.state >= 4 AND j.seq BETWEEN $1::int8 AND"
     " $2::int8 AND ($4::int4 >> j.state) & 1 = 1 AND ($5::int4 >> j.reason) & 1 = 1"
     " AND j.priority BETWEEN $6::int8 AND $7::int8 AND j.id_hi >> 16 BETWEEN $8::int8"
     " AND $9::int8 AND ($10::text = '' OR j.ukey = $10::text) AND ($11::text = '' OR"
     " j.grp = $11::text) AND ($12::text = '' OR j.correlation = $12::text) ORDER BY"
     " j.seq DESC LIMIT $14::int4) x) j JOIN @queue q ON q.number = j.queue ORDER BY"
     " j.seq DESC"},
    {SQL_WORKERS, "SELECT j.worker, count(*)::int8, (count(*) OVER ())::int8 FROM @job j JOIN"
                  " @queue q ON q.number = j.queue AND NOT q.gone WHERE j.state = 3 AND j.worker <>"
                  " '' GROUP BY j.worker ORDER BY min(j.since), min(j.tok_counter) LIMIT $1::int4"},
    {SQL_EXCEPTIONS, "SELECT a.number, a.started_at, a.ended_at, a.outcome, a.error_kind, a.worker,"
                     " a.error, a.seq, j.id_hi, q.name FROM @attempt a JOIN @job j ON j.seq = a.seq"
                     " JOIN @queue q ON q.number = a.queue AND NOT q.gone AND (j.state > 2 OR"
                     " j.generation = q.generation) WHERE a.outcome IN (2, 3) AND ($1::text = '' OR"
                     " q.name = $1::text) ORDER BY a.n DESC LIMIT $2::int4"},
    {SQL_HISTORY, "SELECT hour, " SUM_OF_TALLY " FROM (SELECT hour, " TALLY_LIST
                  " FROM @hour h WHERE h.queue = (SELECT number FROM @queue WHERE name = $1::text"
                  " AND NOT gone) UNION ALL SELECT hour, " TALLY_LIST
                  " FROM @delta d WHERE d.queue = (SELECT number FROM @queue WHERE name = $1::text"
                  " AND NOT gone)) x WHERE hour >= $2::int4 AND hour < $3::int4 GROUP BY hour"
                  " HAVING " TALLY_ANY " ORDER BY hour"},
    {SQL_PENDING, "SELECT " JOB ", NULL::bytea, NULL::bytea, NULL::bytea, " QUEUE_SHOWN
                  " FROM @job j JOIN @queue q ON " SHOWN
                  " WHERE j.state = 2 AND j.flags & 4 <> 0 AND j.seq > $1::int8"
                  " ORDER BY j.seq LIMIT $2::int4"},
    {SQL_PAGE, "SELECT " JOB ", " BODY_3 ", " QUEUE_SHOWN " FROM " MEASURED_A "x.seq" MEASURED_B
               "SELECT j.* FROM @job j JOIN @queue q ON " SHOWN
               " WHERE j.queue = $1::int4 AND ($2::int4 >> j.state) & 1 = 1 AND ($4::text = ''"
               " OR j.ukey = $4::text) AND " PENDING_AS(
                   "$7") " ORDER BY j.seq OFFSET $5::int8 LIMIT $6::int4) x) j JOIN"
                         " @queue q ON q.number = j.queue ORDER BY j.seq"},
    {SQL_PAGE_COUNT,
     "SELECT count(*)::int8 FROM @job j JOIN @queue q ON " SHOWN
     " WHERE j.queue = $1::int4 AND ($2::int4 >> j.state) & 1 = 1 AND ($3::text = ''"
     " OR j.ukey = $3::text) AND " PENDING_AS("$4")},
    {SQL_COUNT, NULL},
};
