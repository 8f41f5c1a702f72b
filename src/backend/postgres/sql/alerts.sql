-- SPDX-License-Identifier: Apache-2.0
-- Alert rules, raised conditions, notices and circuit breakers (alerts.c, notices.c). The version of the
-- rules is in meta; a unit that changes a rule locks it first.

-- name: alerts_version
-- Returns the version of the alert rules.
SELECT alerts
FROM @meta;

-- name: alerts_lock
-- The same, and locks them against other changes.
SELECT alerts
FROM @meta
FOR UPDATE;

-- name: alerts
-- Returns the version and all rules.
SELECT m.alerts, a.rule
FROM @meta m
LEFT JOIN @alert a ON true
ORDER BY a.name;

-- name: alert_notices
-- Returns how many notices the alert $1 has.
SELECT count(*)::int8
FROM @notice
WHERE alert = $1::text;

-- name: alert_put
-- Creates or changes the rule $1 ($2: its encoding).
INSERT INTO @alert (name, rule)
VALUES ($1::text, $2::bytea)
ON CONFLICT (name) DO UPDATE SET rule = excluded.rule;

-- name: alert_del
-- Removes the rule $1.
DELETE FROM @alert
WHERE name = $1::text;

-- name: alerts_changed
-- Raises the version of the rules.
UPDATE @meta
SET alerts = alerts + 1;

-- name: alert_list
-- Returns the rule $1, or all with '', each with its pending and dead notices and raised conditions.
SELECT a.rule, (
    SELECT count(*)
    FROM @notice n
    WHERE n.alert = a.name AND n.state = ${notice_pending}
)::int8, (
    SELECT count(*)
    FROM @notice n
    WHERE n.alert = a.name AND n.state = ${notice_dead}
)::int8, (SELECT count(*) FROM @raised r WHERE r.alert = a.name)::int8
FROM @alert a
WHERE $1::text = '' OR a.name = $1::text
ORDER BY a.name;

-- name: raised
-- Returns and locks raised conditions. Takes alerts ($1) and queues ($2).
SELECT r.alert, r.queue, r.since, r.value, r.mark
FROM unnest($1::text[], $2::text[]) w(alert, queue)
JOIN @raised r ON r.alert = w.alert AND r.queue = w.queue
ORDER BY r.alert, r.queue
FOR UPDATE OF r;

-- name: raised_count
-- Returns how many conditions are raised.
SELECT count(*)::int8
FROM @raised;

-- name: raised_del
-- Removes raised conditions. Takes alerts ($1) and queues ($2).
DELETE FROM @raised r
USING unnest($1::text[], $2::text[]) w(alert, queue)
WHERE r.alert = w.alert AND r.queue = w.queue;

-- name: raised_new
-- Adds raised conditions. Takes one array for each column.
INSERT INTO @raised (alert, queue, since, value, mark)
SELECT *
FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::int8[]);

-- name: raised_del_all
-- Removes all that the alert $1 has raised.
DELETE FROM @raised
WHERE alert = $1::text;

-- name: raised_list
-- Returns the oldest 100 raised conditions of each alert, or of the alert $1.
SELECT alert, queue, since, value, mark
FROM (
    SELECT r.*, row_number() OVER (PARTITION BY r.alert ORDER BY r.since, r.queue) AS place
    FROM @raised r
    WHERE $1::text = '' OR r.alert = $1::text
) x
WHERE place <= 100
ORDER BY alert, place;

-- name: notices
-- Returns and locks the notices $1.
SELECT ${notice_columns}
FROM @notice n
WHERE n.number = ANY ($1::int8[])
ORDER BY n.number
FOR UPDATE;

-- name: notice_release_lost
-- Releases notices that a node had taken and cannot deliver any more. Takes the epoch of this node ($1),
-- whether it restarted ($2), the manual time or 0 ($3), the notices that it still has ($4), after how many
-- ms of silence a node counts as lost ($5).
UPDATE @notice n
SET holder = 0, check_at = n.due
WHERE n.holder > 0 AND n.state = ${notice_pending} AND (($2::bool AND n.holder = $1::int4 AND NOT n.number =
    ANY ($4::int8[])) OR (n.holder <> $1::int4 AND NOT EXISTS (
    SELECT
    FROM @node d
    WHERE d.epoch = n.holder AND d.seen_at > ${now($3)} - $5::int8
)));

-- name: notices_due
-- Returns and locks the notices that are due, at most $2. Takes the manual time or 0 ($1).
SELECT ${notice_columns}
FROM @notice n
WHERE n.state = ${notice_pending} AND n.check_at <= ${now($1)}
ORDER BY n.check_at, n.number
LIMIT $2::int4
FOR UPDATE SKIP LOCKED;

-- name: notice_next
-- Returns when the next notice is due after that, or 0.
SELECT coalesce(min(n.check_at), 0)
FROM @notice n
WHERE n.state = ${notice_pending} AND n.check_at > ${now($1)};

-- name: notice_new
-- Adds notices. Takes one array for each column.
INSERT INTO @notice (number, id_hi, kind, edge, at, alert, queue, job_seq, job_hi, reason, attempts, value,
    mark, subject, body, since, due, check_at)
SELECT nextval('@notice_number'), x.id_hi, x.kind, x.edge, x.at, x.alert, x.queue, x.job_seq, x.job_hi,
    x.reason, x.attempts, x.value, x.mark, coalesce(x.subject, ''), coalesce(x.body, ''), x.at, x.at, x.at
FROM unnest($1::int8[], $2::int2[], $3::int2[], $4::int8[], $5::text[], $6::text[], $7::int8[], $8::int8[],
    $9::int2[], $10::int8[], $11::int8[], $12::int8[], $13::bytea[], $14::bytea[]) x(id_hi, kind, edge, at,
    alert, queue, job_seq, job_hi, reason, attempts, value, mark, subject, body);

-- name: notice_trim
-- Removes the oldest notices beyond the limit; returns one row for each.
DELETE FROM @notice
WHERE number <= (
    SELECT n.number
    FROM @notice n
    ORDER BY n.number DESC
    OFFSET ${notices_max}
    LIMIT 1
)
RETURNING 1;

-- name: notice_set
-- Writes the results of deliveries. Takes one array for each column, the number first.
UPDATE @notice n
SET state = u.state, tries = u.tries, since = u.since, due = u.due, status = u.status, error =
    coalesce(u.error, ''), check_at = u.check_at, holder = u.holder
FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int8[], $6::int4[], $7::bytea[], $8::int8[],
    $9::int4[]) u(number, state, tries, since, due, status, error, check_at, holder)
WHERE n.number = u.number;

-- name: notice_del
-- Removes the notices $1.
DELETE FROM @notice
WHERE number = ANY ($1::int8[]);

-- name: notice_del_all
-- Removes all notices of the alert $1.
DELETE FROM @notice
WHERE alert = $1::text;

-- name: notice_release
-- Makes notices of the alerts $1 due, because their target answers again.
UPDATE @notice
SET check_at = due
WHERE state = ${notice_pending} AND holder = 0 AND check_at > due AND alert = ANY ($1::text[]);

-- name: notice_counts
-- Returns how many notices are pending and dead.
SELECT count(*) FILTER (WHERE state = ${notice_pending})::int8, count(*) FILTER (WHERE state =
    ${notice_dead})::int8
FROM @notice;

-- name: notice_list
-- Returns notices with their rules: the notice $1, or $3 after the number $2.
SELECT ${notice_columns}, a.rule
FROM @notice n
JOIN @alert a ON a.name = n.alert
WHERE ($1::int8 = 0 OR n.number = $1::int8) AND n.number > $2::int8
ORDER BY n.number
LIMIT $3::int4;

-- name: breakers
-- Returns and locks circuit breakers: those of webhooks ($1) and those with these names ($2).
SELECT ${breaker_columns}
FROM @breaker
WHERE ($1::bool AND strpos(target, ':') > 0) OR target = ANY ($2::text[])
ORDER BY target
FOR UPDATE;

-- name: breaker_named_count
-- Returns how many circuit breakers clients have named.
SELECT count(*)::int8
FROM @breaker
WHERE strpos(target, ':') = 0;

-- name: breaker_list
-- Returns all circuit breakers without a lock.
SELECT ${breaker_columns}
FROM @breaker
ORDER BY target;

-- name: breaker_new
-- Adds circuit breakers. Takes one array for each column.
INSERT INTO @breaker (${breaker_columns})
SELECT *
FROM unnest($1::text[], $2::int2[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[],
    $9::int8[], $10::int8[]);

-- name: breaker_set
-- Changes circuit breakers. Takes one array for each column, the target first.
UPDATE @breaker b
SET state = u.state, failures = u.failures, probes = u.probes, until = u.until, changed_at = u.changed_at,
    failure_threshold = u.failure_threshold, open_cooldown_seconds = u.open_cooldown_seconds,
    half_open_probe_count = u.half_open_probe_count, used_at = u.used_at
FROM unnest($1::text[], $2::int2[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[],
    $9::int8[], $10::int8[]) u(${breaker_columns})
WHERE b.target = u.target;

-- name: breaker_del
-- Removes the circuit breakers of these targets ($1).
DELETE FROM @breaker
WHERE target = ANY ($1::text[]);
