-- SPDX-License-Identifier: Apache-2.0
-- Bulk actions (bulk.c): a row for each that is in progress, so that another node can continue it.

-- name: bulk_new
-- Creates a bulk action; returns its number. Takes action, queue, mask of states, group or '', highest
-- sequence, time, epoch of the node, kind or ''.
INSERT INTO @bulk (action, queue, states, group_key, seq_max, at, epoch, kind)
VALUES ($1::int4, $2::int4, $3::int4, $4::text, $5::int8, $6::int8, $7::int4, $8::text)
RETURNING number;

-- name: bulk_jobs
-- Returns and locks the next jobs of a bulk action. Takes queue ($1), mask of states ($2), where it stopped
-- ($3), highest sequence ($4; sequences of a spool are above it), group or '' ($5), how many ($6),
-- kind or '' ($7).
SELECT ${job_columns}
FROM @job j
WHERE ${bulk_filter(j)}
ORDER BY j.seq
LIMIT $6::int4
FOR UPDATE;

-- name: bulk_rivals
-- Returns and locks the jobs that hold the unique keys of these jobs. Takes the same.
SELECT ${job_columns}
FROM (
    SELECT o.queue, o.unique_key, o.seq
    FROM @job o
    WHERE ${bulk_filter(o)}
    ORDER BY o.seq
    LIMIT $6::int4
) o
JOIN @job j ON j.queue = o.queue AND j.unique_key = o.unique_key AND j.holds_key AND j.seq <> o.seq
ORDER BY j.seq
FOR UPDATE OF j;

-- name: lock_number
-- Locks the queue $1 as lock_shared does.
SELECT n, ${take_lock(n; limited)}
FROM (
    SELECT y.n, c.queue AS limited
    FROM (SELECT $1::int4 AS n) y
    LEFT JOIN @claim_queue c ON c.queue = y.n
) x;

-- name: bulk_step
-- Writes how far the bulk action $1 is: sequence ($2), changed ($3), refused ($4), epoch of its node ($5).
UPDATE @bulk
SET cursor = $2::int8, changed = $3::int8, refused = $4::int8, epoch = $5::int4
WHERE number = $1::int8;

-- name: bulk_end
-- Removes the bulk action $1: it is complete.
DELETE FROM @bulk
WHERE number = $1::int8;

-- name: bulk_orphans
-- Takes over the bulk actions of nodes that were not seen since $2. Takes the epoch of this node ($1);
-- returns the actions.
UPDATE @bulk b
SET epoch = $1::int4
WHERE b.epoch <> $1::int4 AND NOT EXISTS (
    SELECT
    FROM @node n
    WHERE n.epoch = b.epoch AND n.seen_at > $2::int8
)
RETURNING number, action, queue, states, group_key, seq_max, at, cursor, changed, refused, kind;
