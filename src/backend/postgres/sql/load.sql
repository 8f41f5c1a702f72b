-- SPDX-License-Identifier: Apache-2.0
-- What a unit of work reads and locks (load.c, loaded.c), in one round.

-- part: take_lock(queue; limited)
-- Queues with limits at the claim (limits.sql) are locked exclusively. Returns a column that means nothing, and whether
-- the lock is exclusive.
CASE WHEN ${limited} IS NULL THEN pg_advisory_xact_lock_shared(${lock_class(queues)}, ${queue}) IS NULL
    ELSE pg_advisory_xact_lock(${lock_class(queues)}, ${queue}) IS NULL END, ${limited} IS NOT NULL

-- part: numbers_of(names; jobs)
-- The numbers of the queues with these names, and of these jobs.
SELECT number AS n
FROM @queues
WHERE name = ANY (${names}::text[]) AND NOT deleted
UNION
SELECT queue
FROM @job
WHERE seq = ANY (${jobs}::int8[])

-- name: lock_shared
-- Locks the queues of a unit against units that change a queue as a whole, in ascending order, so that two units never
-- wait for each other. Takes names ($1) and jobs ($2); returns numbers, and whether the lock is exclusive.
SELECT n, ${take_lock(n; limited)}
FROM (
    SELECT y.n, c.queue AS limited
    FROM (${numbers_of($1; $2)}) y
    LEFT JOIN @claim_queue c ON c.queue = y.n
    ORDER BY 1
) x;

-- name: lock_alone
-- The same for a unit that changes a queue as a whole: it excludes every other unit.
SELECT n, pg_advisory_xact_lock(${lock_class(queues)}, n) IS NULL, true
FROM (
    ${numbers_of($1; $2)}
    ORDER BY 1
) x;

-- name: seqs
-- Draws $1 sequences for new jobs; returns one a row.
SELECT nextval('@job_seq')
FROM generate_series(1, $1::int4);

-- name: numbers
-- Draws $1 numbers for new queues; returns each with the number of queues there are.
SELECT nextval('@queue_number')::int4, (SELECT count(*) FROM @queues WHERE NOT deleted)::int8
FROM generate_series(1, $1::int4);

-- name: queues
-- Returns the queues with these names ($1), of these jobs ($2) and with these numbers ($3).
SELECT ${queue_columns}
FROM @queues q
WHERE q.name = ANY ($1::text[]) AND NOT q.deleted
UNION ALL
SELECT ${queue_columns}
FROM @queues q
WHERE q.number = ANY (ARRAY(
    SELECT j.queue
    FROM @job j
    WHERE j.seq = ANY ($2::int8[])
)) OR q.number = ANY ($3::int4[]);

-- name: counts
-- Returns the sums of the queues with these names ($1) and of these jobs ($2).
${counts_of(ARRAY(
    SELECT number
    FROM @queues
    WHERE name = ANY ($1::text[]) AND NOT deleted
    UNION
    SELECT queue
    FROM @job
    WHERE seq = ANY ($2::int8[])
))};

-- name: jobs
-- Returns and locks the jobs with these sequences ($1).
SELECT ${job_columns}
FROM @job j
WHERE j.seq = ANY ($1::int8[])
ORDER BY j.seq
FOR UPDATE;

-- name: claim
-- Returns and locks ready jobs for claims, by priority. Takes names of queues ($1), how many jobs each wants ($2) and
-- the manual time or 0 ($3). Small bodies are returned along with the job.
SELECT c.*
FROM unnest($1::text[], $2::int4[]) w(name, n)
JOIN @queues q ON q.name = w.name AND NOT q.deleted AND q.paused_until <= ${now($3)}
CROSS JOIN LATERAL (
    SELECT ${job_columns}, CASE WHEN j.payload_bytes <= ${small_payload_bytes} THEN j.payload END AS small,
        CASE WHEN length(j.result) <= ${small_payload_bytes} THEN j.result END AS result, j.error
    FROM @job j
    WHERE j.queue = q.number AND j.generation = q.generation AND j.state = ${ready} AND (j.expires_at = 0 OR
        j.expires_at > ${now($3)})
    ORDER BY j.priority DESC, j.seq
    LIMIT w.n
    FOR UPDATE SKIP LOCKED
) c;

-- name: holders
-- Returns and locks the jobs that hold these unique keys ($2) in these queues ($1).
SELECT ${job_columns}
FROM unnest($1::text[], $2::text[]) w(name, key)
JOIN @queues q ON q.name = w.name AND NOT q.deleted
JOIN @job j ON j.queue = q.number AND j.unique_key = w.key AND j.holds_key
ORDER BY j.seq
FOR UPDATE OF j;

-- name: rivals
-- Returns and locks the jobs that hold the unique key of one of these jobs ($1).
SELECT ${job_columns}
FROM @job o
JOIN @job j ON j.queue = o.queue AND j.unique_key = o.unique_key AND j.holds_key
WHERE o.seq = ANY ($1::int8[]) AND o.unique_key IS NOT NULL
ORDER BY j.seq
FOR UPDATE OF j;

-- name: nonce
-- Returns and locks the running jobs that the claims with these nonces ($1) got.
SELECT ${job_columns}
FROM @job j
WHERE j.state = ${running} AND j.nonce = ANY ($1::int8[])
ORDER BY j.seq
FOR UPDATE;

-- name: nonce_queues
-- Returns the queues of these jobs. Takes nonces ($1).
SELECT ${queue_columns}
FROM @queues q
WHERE q.number = ANY (ARRAY(
    SELECT j.queue
    FROM @job j
    WHERE j.state = ${running} AND j.nonce = ANY ($1::int8[])
));

-- name: nonce_lock
-- Locks these queues as lock_shared does. Takes nonces ($1).
SELECT n, ${take_lock(n; limited)}
FROM (
    SELECT y.n, c.queue AS limited
    FROM (
        SELECT DISTINCT queue AS n
        FROM @job
        WHERE state = ${running} AND nonce = ANY ($1::int8[])
    ) y
    LEFT JOIN @claim_queue c ON c.queue = y.n
    ORDER BY 1
) x;

-- name: idempotency_keys
-- Returns the idempotency keys with these hashes ($1, $2), each with the state of its job, or NULL when the
-- job was removed.
SELECT i.hi, i.lo, i.fingerprint, i.seq, i.id_hi, i.expires_at, j.state
FROM unnest($1::int8[], $2::int8[]) w(hi, lo)
JOIN @idempotency_key i ON i.hi = w.hi AND i.lo = w.lo
LEFT JOIN @job j ON j.seq = i.seq;

-- name: live_totals
-- Returns how many jobs are scheduled, ready, running or blocked, and how many idempotency keys there are.
SELECT (
    SELECT coalesce(sum(jobs_scheduled + jobs_ready + jobs_running + jobs_blocked), 0)::int8
    FROM (
        SELECT jobs_scheduled, jobs_ready, jobs_running, jobs_blocked
        FROM @total
        UNION ALL
        SELECT jobs_scheduled, jobs_ready, jobs_running, jobs_blocked
        FROM @delta
    ) x
), (
    SELECT coalesce(sum(idempotency_keys), 0)::int8
    FROM ${key_counts} k
);

-- name: kept_replies
-- Returns the last replies about leases that are over. Takes tokens: epochs ($1) and counters ($2).
SELECT w.epoch, w.counter, w.seq, w.kind, w.state, w.run_at
FROM unnest($1::int4[], $2::int8[]) n(epoch, counter)
JOIN @kept_reply w ON w.epoch = n.epoch AND w.counter = n.counter;

-- name: seq_high
-- Returns the highest sequence that was drawn.
SELECT last_value
FROM @job_seq;

-- name: bodies
-- Returns payload, result and error of these jobs ($1).
SELECT j.seq, j.payload, j.result, j.error
FROM @job j
WHERE j.seq = ANY ($1::int8[]);

-- name: steps
-- Returns the steps of these jobs ($1).
SELECT seq, name, result
FROM @step
WHERE seq = ANY ($1::int8[])
ORDER BY seq, name;

-- name: key_sharers
-- Returns up to 100 jobs of a queue ($1, generation $2) that share a unique key with another one and are
-- not cancelled. The last column says how many jobs there are beyond the first of each key.
SELECT ${job_columns}, NULL::bytea, NULL::bytea, j.error, ${queue_shown}, (
    SELECT count(*) - count(DISTINCT k.unique_key)
    FROM @job k
    WHERE ${may_share(k)}
)::int8
FROM @job j
JOIN @queues q ON q.number = j.queue
WHERE ${may_share(j)} AND EXISTS (
    SELECT
    FROM @job k
    WHERE ${may_share(k)} AND k.unique_key = j.unique_key AND k.seq <> j.seq
)
ORDER BY j.seq
LIMIT 100;
