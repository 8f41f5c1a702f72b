-- SPDX-License-Identifier: Apache-2.0
-- Schedules (schedules.c). A unit that changes one holds a lock for all of them, so that the numbers in
-- `changed` become visible in their order: a reader that has seen one has seen all before it.

-- name: schedule_lock
-- Locks all schedules against other changes of them.
SELECT pg_advisory_xact_lock(${lock_class(schedule)}, 0) IS NULL;

-- name: schedules
-- Returns and locks the schedules with these names ($1).
SELECT ${schedule_columns}
FROM @schedule s
WHERE s.name = ANY ($1::text[])
ORDER BY s.number
FOR UPDATE OF s;

-- name: schedule_number
-- Draws a number; returns it with the number of schedules there are.
SELECT nextval('@schedule_number')::int4, (SELECT count(*) FROM @schedule)::int8;

-- name: schedule_flows
-- Returns source and target of all triggers but $1, to find circles.
SELECT source, target
FROM @schedule
WHERE kind = ${schedule_queue} AND name <> $1::text;

-- name: schedule_put
-- Creates or changes a schedule.
INSERT INTO @schedule AS o (number, name, owner, description, attributes, spec, paused, created_at,
    updated_at, next_at, retry_at, last_at, fired_at, seq, id_hi, item, fired, missed, failures, error,
    kind, source, target, changed)
VALUES ($1::int4, $2::text, $3::text, $4::text, $5::text, $6::bytea, $7::bool, $8::int8, $9::int8,
    $10::int8, $11::int8, $12::int8, $13::int8, $14::int8, $15::int8, $16::int8, $17::int8, $18::int8,
    $19::int8, $20::int4, $21::int4, $22::text, $23::text, nextval('@schedule_change'))
ON CONFLICT (number) DO UPDATE SET owner = excluded.owner, description = excluded.description, attributes =
    excluded.attributes, spec = excluded.spec, paused = excluded.paused, updated_at = excluded.updated_at,
    next_at = excluded.next_at, retry_at = excluded.retry_at, last_at = excluded.last_at, fired_at =
    excluded.fired_at, seq = excluded.seq, id_hi = excluded.id_hi, item = excluded.item, fired =
    excluded.fired, missed = excluded.missed, failures = excluded.failures, error = excluded.error, kind =
    excluded.kind, source = excluded.source, target = excluded.target, changed = excluded.changed;

-- name: schedule_state
-- Changes what happened to schedules. Takes one array for each column, the number first.
UPDATE @schedule s
SET next_at = u.next_at, retry_at = u.retry_at, last_at = u.last_at, fired_at = u.fired_at, seq = u.seq,
    id_hi = u.id_hi, item = u.item, fired = u.fired, missed = u.missed, failures = u.failures, error =
    u.error
FROM unnest($1::int4[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[],
    $9::int8[], $10::int8[], $11::int8[], $12::int2[]) u(number, next_at, retry_at, last_at, fired_at, seq,
    id_hi, item, fired, missed, failures, error)
WHERE s.number = u.number;

-- name: schedule_del
-- Removes the schedules $1.
DELETE FROM @schedule
WHERE number = ANY ($1::int4[]);

-- name: schedule_get
-- Returns the schedule with the name $1, or with the number $2 if that is not 0.
SELECT ${schedule_columns}
FROM @schedule s
WHERE ($2::int4 = 0 AND s.name = $1::text) OR ($2::int4 > 0 AND s.number = $2::int4);

-- name: schedule_list
-- Returns $2 schedules by name after $1.
SELECT ${schedule_columns}
FROM @schedule s
WHERE s.name > $1::text
ORDER BY s.name
LIMIT $2::int4;

-- name: schedule_changes
-- Returns $2 schedules by their last change after $1.
SELECT ${schedule_columns}
FROM @schedule s
WHERE s.changed > $1::int8
ORDER BY s.changed
LIMIT $2::int4;
