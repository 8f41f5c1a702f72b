/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules, what they have raised, notices and breakers. The number of the last change of rules
 * stands in meta; who changes one locks it first. */
#include "backend/postgres/sql_impl.h"

#define NOTICE                                                                                     \
    "n.number, n.id_hi, n.kind, n.edge, n.at, n.alert, n.queue, n.job_seq, n.job_hi,"              \
    " n.reason, n.attempts, n.value, n.mark, n.subject, n.body, n.state, n.tries, n.since,"        \
    " n.due, n.status, n.error, n.look_at, n.holder"

const struct sql_statement pg_sql_notices[] = {
    /* rules */
    {SQL_ALERTS_VERSION, "SELECT alerts FROM @meta"},
    {SQL_ALERTS_LOCK, "SELECT alerts FROM @meta FOR UPDATE"},
    {SQL_ALERTS, "SELECT m.alerts, a.rule FROM @meta m LEFT JOIN @alert a ON true ORDER BY a.name"},
    {SQL_ALERT_NOTICES, "SELECT count(*)::int8 FROM @notice WHERE alert = $1::text"},
    {SQL_ALERT_PUT, "INSERT INTO @alert (name, rule) VALUES ($1::text, $2::bytea) ON CONFLICT"
                    " (name) DO UPDATE SET rule = excluded.rule"},
    {SQL_ALERT_DEL, "DELETE FROM @alert WHERE name = $1::text"},
    {SQL_ALERTS_CHANGED, "UPDATE @meta SET alerts = alerts + 1"},
    {SQL_ALERT_LIST,
     "SELECT a.rule, (SELECT count(*) FROM @notice n WHERE n.alert = a.name AND n.state ="
     " 0)::int8, (SELECT count(*) FROM @notice n WHERE n.alert = a.name AND n.state ="
     " 1)::int8, (SELECT count(*) FROM @raised r WHERE r.alert = a.name)::int8 FROM @alert"
     " a WHERE $1::text = '' OR a.name = $1::text ORDER BY a.name"},
    /* what is raised */
    {SQL_RAISED, "SELECT r.alert, r.queue, r.since, r.value, r.mark FROM unnest($1::text[],"
                 " $2::text[]) w(alert, queue) JOIN @raised r ON r.alert = w.alert AND r.queue ="
                 " w.queue ORDER BY r.alert, r.queue FOR UPDATE OF r"},
    {SQL_RAISED_COUNT, "SELECT count(*)::int8 FROM @raised"},
    {SQL_RAISED_DEL, "DELETE FROM @raised r USING unnest($1::text[], $2::text[]) w(alert, queue)"
                     " WHERE r.alert = w.alert AND r.queue = w.queue"},
    {SQL_RAISED_NEW,
     "INSERT INTO @raised (alert, queue, since, value, mark) SELECT * FROM unnest($1::text[],"
     " $2::text[], $3::int8[], $4::int8[], $5::int8[])"},
    {SQL_RAISED_FORGET, "DELETE FROM @raised WHERE alert = $1::text"},
    {SQL_RAISED_LIST, "SELECT alert, queue, since, value, mark FROM (SELECT r.*, row_number() OVER"
                      " (PARTITION BY r.alert ORDER BY r.since, r.queue) AS place FROM @raised r"
                      " WHERE $1::text = '' OR r.alert = $1::text) x WHERE place <= 100 ORDER BY"
                      " alert, place"},
    /* notices */
    {SQL_NOTICES,
     "SELECT " NOTICE " FROM @notice n WHERE n.number = ANY ($1::int8[]) ORDER BY n.number FOR"
     " UPDATE"},
    {SQL_NOTICE_FREE,
     "UPDATE @notice n SET holder = 0, look_at = n.due WHERE n.holder > 0 AND n.state = 0 AND"
     " (($2::bool AND n.holder = $1::int4 AND NOT n.number = ANY ($4::int8[])) OR (n.holder"
     " <> $1::int4 AND NOT EXISTS (SELECT FROM @node d WHERE d.epoch = n.holder AND d.seen_at"
     " > " NOW_3 " - $5::int8)))"},
    {SQL_NOTICES_DUE, "SELECT " NOTICE " FROM @notice n WHERE n.state = 0 AND n.look_at <= " NOW_1
                      " ORDER BY n.look_at, n.number LIMIT $2::int4 FOR UPDATE SKIP LOCKED"},
    {SQL_NOTICE_BEYOND, "SELECT coalesce(min(n.look_at), 0) FROM @notice n WHERE n.state = 0 AND"
                        " n.look_at > " NOW_1},
    {SQL_NOTICE_NEW,
     "INSERT INTO @notice (number, id_hi, kind, edge, at, alert, queue, job_seq, job_hi,"
     " reason, attempts, value, mark, subject, body, since, due, look_at) SELECT"
     " nextval('@notice_number'), x.id_hi, x.kind, x.edge, x.at, x.alert, x.queue,"
     " x.job_seq, x.job_hi, x.reason, x.attempts, x.value, x.mark, coalesce(x.subject, ''),"
     " coalesce(x.body, ''), x.at, x.at, x.at FROM unnest($1::int8[], $2::int2[],"
     " $3::int2[], $4::int8[], $5::text[], $6::text[], $7::int8[], $8::int8[], $9::int2[],"
     " $10::int8[], $11::int8[], $12::int8[], $13::bytea[], $14::bytea[]) x(id_hi, kind,"
     " edge, at, alert, queue, job_seq, job_hi, reason, attempts, value, mark, subject, body)"},
    {SQL_NOTICE_TRIM,
     "DELETE FROM @notice WHERE number <= (SELECT n.number FROM @notice n ORDER BY n.number"
     " DESC OFFSET 10000 LIMIT 1) RETURNING 1"},
    {SQL_NOTICE_SET,
     "UPDATE @notice n SET state = u.state, tries = u.tries, since = u.since, due = u.due,"
     " status = u.status, error = coalesce(u.error, ''), look_at = u.look_at, holder ="
     " u.holder FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int8[],"
     " $6::int4[], $7::bytea[], $8::int8[], $9::int4[]) u(number, state, tries, since, due,"
     " status, error, look_at, holder) WHERE n.number = u.number"},
    {SQL_NOTICE_DEL, "DELETE FROM @notice WHERE number = ANY ($1::int8[])"},
    {SQL_NOTICE_DROP, "DELETE FROM @notice WHERE alert = $1::text"},
    {SQL_NOTICE_LET_GO, "UPDATE @notice SET look_at = due WHERE state = 0 AND holder = 0 AND"
                        " look_at > due AND alert = ANY ($1::text[])"},
    {SQL_NOTICE_COUNTS, "SELECT count(*) FILTER (WHERE state = 0)::int8, count(*) FILTER (WHERE"
                        " state = 1)::int8 FROM @notice"},
    {SQL_NOTICE_LIST,
     "SELECT " NOTICE ", a.rule FROM @notice n JOIN @alert a ON a.name = n.alert WHERE"
     " ($1::int8 = 0 OR n.number = $1::int8) AND n.number > $2::int8 ORDER BY n.number LIMIT"
     " $3::int4"},
    /* breakers */
    {SQL_BREAKERS, "SELECT target, state, failures, probes, until, changed_at FROM @breaker ORDER"
                   " BY target FOR UPDATE"},
    {SQL_BREAKER_LIST, "SELECT target, state, failures, probes, until, changed_at FROM @breaker"
                       " ORDER BY target"},
    {SQL_BREAKER_NEW,
     "INSERT INTO @breaker (target, state, failures, probes, until, changed_at) SELECT * FROM"
     " unnest($1::text[], $2::int2[], $3::int8[], $4::int8[], $5::int8[], $6::int8[])"},
    {SQL_BREAKER_SET,
     "UPDATE @breaker b SET state = u.state, failures = u.failures, probes = u.probes, until ="
     " u.until, changed_at = u.changed_at FROM unnest($1::text[], $2::int2[], $3::int8[],"
     " $4::int8[], $5::int8[], $6::int8[]) u(target, state, failures, probes, until,"
     " changed_at) WHERE b.target = u.target"},
    {SQL_BREAKER_DEL, "DELETE FROM @breaker WHERE target = ANY ($1::text[])"},
    {SQL_COUNT, NULL},
};
