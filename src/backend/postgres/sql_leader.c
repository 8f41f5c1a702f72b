/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader and signs of life say. */
#include "backend/postgres/sql_impl.h"

const struct sql_statement pg_sql_leader[] = {
    {SQL_LEADER_TAKE,
     "WITH t AS (SELECT " NOW_3
     " AS now), l AS (SELECT d.one FROM @leader d, t WHERE d.holder = $1::int4 OR d.until <="
     " t.now FOR UPDATE OF d SKIP LOCKED) UPDATE @leader d SET epoch = CASE WHEN d.holder ="
     " $1::int4 THEN d.epoch ELSE d.epoch + 1 END, holder = $1::int4, until = t.now +"
     " $2::int8 FROM t, l WHERE d.one = l.one RETURNING d.epoch"},
    {SQL_LEADER_LOCK, "SELECT epoch FROM @leader WHERE epoch = $1::int8 AND holder = $2::int4 FOR"
                      " UPDATE"},
    {SQL_NODE_SEEN,
     "WITH t AS (SELECT " NOW_3
     " AS now), old AS (DELETE FROM @node WHERE seen_at < (SELECT now FROM t) - 3600000 AND"
     " epoch <> $1::int4) INSERT INTO @node AS n (epoch, number, seen_at, version) SELECT"
     " $1::int4, $2::int4, t.now, $4::text FROM t ON CONFLICT (epoch) DO UPDATE SET seen_at"
     " = excluded.seen_at, version = excluded.version RETURNING (SELECT count(*) FROM @node"
     " o, t WHERE o.epoch <> $1::int4 AND o.seen_at > t.now - 60000)::int4"},
    {SQL_NODES,
     "SELECT " NOW_1 ", l.epoch, l.holder, l.until, n.epoch, n.number, n.seen_at, n.version FROM"
     " @leader l LEFT JOIN (SELECT * FROM @node ORDER BY epoch DESC LIMIT"
     " $2::int4) n ON true ORDER BY n.epoch"},
    {SQL_SYNC, "INSERT INTO @node AS n (epoch, number, seen_at) VALUES ($1::int4, $2::int4,"
               " " NOW_3 ") ON CONFLICT (epoch) DO UPDATE SET syncs = n.syncs + 1"},
    {SQL_NODE_GONE, "WITH l AS (UPDATE @leader SET until = 0, holder = 0 WHERE holder = $1::int4)"
                    " DELETE FROM @node WHERE epoch = $1::int4"},
    {SQL_DUE_LEASES,
     "SELECT " JOB " FROM @job j WHERE j.state = 3 AND j.until <= $1::int8 ORDER BY j.until LIMIT"
     " $2::int4 FOR UPDATE SKIP LOCKED"},
    {SQL_DUE_JOBS,
     "SELECT " JOB
     " FROM @job j WHERE j.state = 1 AND j.run_at <= $1::int8 ORDER BY j.run_at, j.seq"
     " LIMIT $2::int4 FOR UPDATE SKIP LOCKED"},
    {SQL_DUE_EXPIRY,
     "SELECT " JOB " FROM @job j WHERE j.state IN (1, 2) AND j.expires_at > 0 AND j.expires_at <="
     " $1::int8 ORDER BY j.expires_at LIMIT $2::int4 FOR UPDATE SKIP LOCKED"},
    {SQL_DUE_BOUND,
     "SELECT " JOB " FROM @job j WHERE j.state = 3 AND j.flags & 2 = 2 AND j.tok_epoch <> $3::int4"
     " AND NOT EXISTS (SELECT FROM @node n WHERE n.epoch = j.tok_epoch AND n.seen_at >"
     " $1::int8) ORDER BY j.until LIMIT $2::int4 FOR UPDATE SKIP LOCKED"},
    {SQL_DUE_DOOMED,
     "WITH v AS MATERIALIZED (SELECT d.seq FROM @queue q CROSS JOIN LATERAL ((SELECT"
     " seq FROM @job j WHERE j.queue = q.number AND j.state = 2 AND (j.generation <"
     " q.generation OR q.gone) LIMIT $1::int4) UNION ALL (SELECT seq FROM @job j WHERE"
     " j.queue = q.number AND j.state = 1 AND (j.generation < q.generation OR q.gone)"
     " LIMIT $1::int4) UNION ALL (SELECT seq FROM @job j WHERE q.gone AND j.queue ="
     " q.number AND j.state >= 4 LIMIT $1::int4) UNION ALL (SELECT seq FROM @job j"
     " WHERE q.gone AND j.queue = q.number AND j.state = 3 LIMIT $1::int4)) d WHERE"
     " q.sweeping LIMIT $1::int4), d AS (DELETE FROM @job j WHERE j.seq = ANY"
     " (ARRAY(SELECT v.seq FROM v)) RETURNING j.seq), a AS (DELETE FROM @attempt t"
     " WHERE t.seq = ANY (ARRAY(SELECT d.seq FROM d))) SELECT count(*)::int8 FROM d"},
    {SQL_DOOMED_END,
     "WITH q AS (SELECT q.number, q.gone FROM @queue q WHERE q.sweeping AND NOT EXISTS"
     " (SELECT FROM @job j WHERE j.queue = q.number AND j.state = 2 AND (q.gone OR"
     " j.generation < q.generation)) AND NOT EXISTS (SELECT FROM @job j WHERE j.queue"
     " = q.number AND j.state = 1 AND (q.gone OR j.generation < q.generation)) AND NOT"
     " (q.gone AND (EXISTS (SELECT FROM @job j WHERE j.queue = q.number AND j.state >="
     " 4) OR EXISTS (SELECT FROM @job j WHERE j.queue = q.number AND j.state = 3)))),"
     " g AS (DELETE FROM @queue USING q WHERE queue.number = q.number AND q.gone), t"
     " AS (DELETE FROM @total USING q WHERE total.queue = q.number AND q.gone), h AS"
     " (DELETE FROM @hour USING q WHERE hour.queue = q.number AND q.gone) UPDATE"
     " @queue SET sweeping = false FROM q WHERE queue.number = q.number AND NOT q.gone"},
    {SQL_DUE_TRIM,
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
     " v)) AND j.state + 0 >= 4 RETURNING j.seq, j.queue, j.state), a AS (DELETE FROM"
     " @attempt t WHERE t.seq = ANY (ARRAY(SELECT d.seq FROM d))) INSERT INTO @delta"
     " AS o (queue, hour, s4, s5, s6, removed) SELECT queue, $3::int4, -count(*)"
     " FILTER (WHERE state = 4), -count(*) FILTER (WHERE state = 5), -count(*) FILTER"
     " (WHERE state = 6), count(*) FROM d GROUP BY queue RETURNING o.removed"},
    {SQL_DUE_KEYS,
     "WITH x AS (DELETE FROM @idem WHERE ctid = ANY (ARRAY(SELECT ctid FROM @idem"
     " WHERE expires_at <= $1::int8 ORDER BY expires_at LIMIT $2::int4)) RETURNING 1),"
     " n AS (SELECT count(*)::int8 AS n FROM x) INSERT INTO @delta AS o (queue, hour,"
     " removed) SELECT 0, $3::int4, -n FROM n WHERE n > 0 RETURNING -o.removed"},
    {SQL_DUE_WORDS, "DELETE FROM @word WHERE ctid = ANY (ARRAY(SELECT ctid FROM @word WHERE at <="
                    " $1::int8 ORDER BY at LIMIT $2::int4))"},
    {SQL_DUE_HOURS, "DELETE FROM @hour WHERE hour < $1::int4"},
    {SQL_RESUMED, "SELECT number, name FROM @queue WHERE NOT gone AND paused_until > $1::int8 AND"
                  " paused_until <= $2::int8"},
    {SQL_FOLD,
     "WITH d AS (DELETE FROM @delta RETURNING *), t AS (INSERT INTO @total AS o"
     " (queue, " SUMS_LIST ") SELECT queue, " SUMS_SUM
     " FROM d GROUP BY queue ON CONFLICT (queue) DO UPDATE SET " SUMS_ADD
     ") INSERT INTO @hour AS o (queue, hour, " TALLY_LIST ") SELECT queue, hour, " TALLY_SUM
     " FROM d WHERE queue > 0 GROUP BY queue, hour HAVING " TALLY_ANY
     " ON CONFLICT (queue, hour) DO UPDATE SET " TALLY_ADD},
    {SQL_NEXT, "SELECT coalesce((SELECT run_at FROM @job WHERE state = 1 ORDER BY run_at LIMIT"
               " 1), 0), coalesce((SELECT until FROM @job WHERE state = 3 ORDER BY until LIMIT"
               " 1), 0), coalesce((SELECT expires_at FROM @job WHERE state IN (1, 2) AND"
               " expires_at > 0 ORDER BY expires_at LIMIT 1), 0), coalesce((SELECT"
               " min(paused_until) FROM @queue WHERE NOT gone AND paused_until > $1::int8), 0),"
               " coalesce((SELECT expires_at FROM @idem WHERE $2::bool ORDER BY expires_at LIMIT"
               " 1), 0), coalesce((SELECT expires_at FROM @kv WHERE expires_at > 0 ORDER BY"
               " expires_at LIMIT 1), 0), coalesce((SELECT min(least((SELECT j.since FROM @job j "
               "WHERE j.queue ="
               " q.number AND j.state = 4 ORDER BY j.since LIMIT 1) + q.keep_done_ms, (SELECT"
               " j.since FROM @job j WHERE j.queue = q.number AND j.state = 6 ORDER BY j.since"
               " LIMIT 1) + q.keep_done_ms, (SELECT j.since FROM @job j WHERE j.queue = q.number"
               " AND j.state = 5 ORDER BY j.since LIMIT 1) + q.keep_dead_ms)) FROM @queue q"
               " WHERE $2::bool AND NOT q.gone), 0)"},
    {SQL_FIGURES,
     "SELECT coalesce(sum(s1), 0)::int8, coalesce(sum(s2), 0)::int8, coalesce(sum(s3),"
     " 0)::int8, coalesce(sum(s4), 0)::int8, coalesce(sum(s5), 0)::int8,"
     " coalesce(sum(s6), 0)::int8, coalesce(sum(CASE WHEN queue = 0 THEN removed ELSE"
     " 0 END), 0)::int8, (SELECT count(*) FROM @queue WHERE NOT gone)::int8,"
     " coalesce(sum(CASE WHEN queue = 0 THEN t0 ELSE 0 END), 0)::int8,"
     " coalesce(sum(CASE WHEN queue = 0 THEN t1 ELSE 0 END), 0)::int8, (SELECT count(*)"
     " FROM @notice WHERE state = 0)::int8, (SELECT count(*) FROM @notice WHERE state ="
     " 1)::int8 FROM"
     " (SELECT queue, s1, s2, s3, s4, s5, s6, removed, t0, t1 FROM @total UNION ALL SELECT"
     " queue, s1, s2, s3, s4, s5, s6, removed, t0, t1 FROM @delta) x"},
    {SQL_COUNT, NULL},
};
