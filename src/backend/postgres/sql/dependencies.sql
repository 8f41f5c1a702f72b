-- SPDX-License-Identifier: Apache-2.0
-- Jobs that depend on others (unit/dependencies.c, dependencies.c; shared/dependencies.h explains the tables).

-- part: dependent_columns
-- Columns of struct dependent.
d.rule, d.open, d.total, d.done, d.dead, d.cancelled, d.removed

-- part: has_edges(seq)
-- Whether an edge of this job exists, in either direction. Each subquery looks at one entry of an index.
((SELECT e.child FROM @dependency e WHERE e.parent = ${seq} LIMIT 1) IS NOT NULL
    OR (SELECT e.child FROM @dependency e WHERE e.child = ${seq} LIMIT 1) IS NOT NULL)

-- part: parent_seqs(seqs; hi; lo)
-- Jobs by sequence and by idempotency key.
ARRAY(
    SELECT unnest(${seqs}::int8[])
    UNION ALL
    SELECT i.seq
    FROM unnest(${hi}::int8[], ${lo}::int8[]) k(hi, lo)
    JOIN @idempotency_key i ON i.hi = k.hi AND i.lo = k.lo
)

-- name: parents
-- Returns the jobs that are to become parents ($1, and by idempotency key $2, $3), each with the name of its queue if it
-- is ready, and keeps them from ending until the transaction is over. It follows idempotency_keys, so it knows all keys
-- that this statement has found.
SELECT j.seq, j.id_hi, j.state, CASE WHEN j.state = ${ready} THEN q.name END
FROM @job j
JOIN @queues q ON ${shown}
WHERE j.seq = ANY (${parent_seqs($1; $2; $3)})
ORDER BY j.seq
FOR SHARE OF j;

-- name: settling
-- Returns those of the jobs ($1, $2, $3: as above) that are settling. It follows the statement that locks them.
SELECT w.seq
FROM @dependency_work w
WHERE w.seq = ANY (${parent_seqs($1; $2; $3)});

-- name: dependents
-- Returns what these jobs ($1) depend on. It follows the statement that locks them.
SELECT d.seq, ${dependent_columns}
FROM @dependent d
WHERE d.seq = ANY ($1::int8[]);

-- name: edges_there
-- Returns those of the edges from dependents ($1) to parents ($2) that exist.
SELECT e.child, e.parent
FROM unnest($1::int8[], $2::int8[]) w(child, parent)
JOIN @dependency e ON e.child = w.child AND e.parent = w.parent;

-- name: dependent_put
-- Writes what jobs depend on. Takes one array for each column, the sequence first.
INSERT INTO @dependent AS d (seq, rule, open, total, done, dead, cancelled, removed)
SELECT unnest($1::int8[]), unnest($2::int2[]), unnest($3::bool[]), unnest($4::int4[]), unnest($5::int4[]),
    unnest($6::int4[]), unnest($7::int4[]), unnest($8::int4[])
ON CONFLICT (seq) DO UPDATE SET ${each(rule, open, total, done, dead, cancelled, removed; % = excluded.%)};

-- name: edge_new
-- Adds edges from dependents ($1) to parents ($2).
INSERT INTO @dependency (child, parent)
SELECT unnest($1::int8[]), unnest($2::int8[]);

-- name: edge_del
-- Removes edges from dependents ($1) to parents ($2).
DELETE FROM @dependency e
USING unnest($1::int8[], $2::int8[]) w(child, parent)
WHERE e.child = w.child AND e.parent = w.parent;

-- name: work_new
-- Jobs ($1) have ended ($2: how, enum dependency_end). Those that have edges are put on the work list, unless they are
-- on it; returns one row for each. It follows the statements that lock these jobs, and those that add and remove edges.
-- Without any dependency in the store it does nothing.
INSERT INTO @dependency_work (seq, how)
SELECT w.seq, w.how
FROM unnest($1::int8[], $2::int2[]) w(seq, how)
WHERE (SELECT e.parent FROM @dependency e ORDER BY e.parent LIMIT 1) IS NOT NULL AND ${has_edges(w.seq)}
ON CONFLICT (seq) DO NOTHING
RETURNING 1;

-- name: work_take
-- Takes the first $1 entries of the work list that no other node has taken, and returns up to $2 edges of them: job, how
-- it ended, dependent, parent. An entry without edges is returned once, without an edge.
WITH w AS MATERIALIZED (
    SELECT seq, how
    FROM @dependency_work
    ORDER BY n
    LIMIT $1::int4
    FOR UPDATE SKIP LOCKED
)
SELECT w.seq, w.how, e.child, e.parent
FROM w
LEFT JOIN LATERAL (
    (
        SELECT d.child, d.parent
        FROM @dependency d
        WHERE d.parent = w.seq
        LIMIT $2::int4
    )
    UNION ALL (
        SELECT d.child, d.parent
        FROM @dependency d
        WHERE d.child = w.seq
        LIMIT $2::int4
    )
) e ON true
LIMIT $2::int4;

-- name: work_end
-- Removes those of the entries $1 whose job has no edge any more.
DELETE FROM @dependency_work w
WHERE w.seq = ANY ($1::int8[]) AND NOT ${has_edges(w.seq)};

-- name: work_waits
-- Returns whether the work list has entries.
SELECT EXISTS (
    SELECT
    FROM @dependency_work
);

-- name: waits_for
-- Returns the jobs for which the job $1 waits.
SELECT p.seq, p.id_hi
FROM @job j
JOIN @dependency e ON e.child = j.seq
JOIN @job p ON p.seq = e.parent
WHERE j.seq = $1::int8 AND j.state = ${blocked};
