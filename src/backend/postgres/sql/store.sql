-- SPDX-License-Identifier: Apache-2.0
-- What a unit of work writes (store.c): one statement a table, each with the rows of the whole unit as
-- arrays.

-- name: seq_raise
-- Raises the sequence to $1, so that ids which came from another store are never drawn again.
SELECT setval('@job_seq', $1::int8)
FROM @job_seq
WHERE last_value < $1::int8;

-- name: queue_put
-- Creates or changes queues. Takes one array for each column. Columns keep_* repeat the policy for
-- retention.
INSERT INTO @queues AS q (number, name, owner, description, attributes, policy, generation, created_at,
    updated_at, paused_until, keep_done, keep_done_ms, keep_dead, keep_dead_ms)
SELECT unnest($1::int4[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::text[]),
    unnest($6::bytea[]), unnest($7::int4[]), unnest($8::int8[]), unnest($9::int8[]), unnest($10::int8[]),
    unnest($11::int8[]), unnest($12::int8[]), unnest($13::int8[]), unnest($14::int8[])
ON CONFLICT (number) DO UPDATE SET owner = excluded.owner, description = excluded.description, attributes =
    excluded.attributes, policy = excluded.policy, generation = excluded.generation, updated_at =
    excluded.updated_at, paused_until = excluded.paused_until, keep_done = excluded.keep_done, keep_done_ms
    = excluded.keep_done_ms, keep_dead = excluded.keep_dead, keep_dead_ms = excluded.keep_dead_ms;

-- name: queue_delete
-- Marks queues ($1) as deleted. The leader removes their jobs step by step.
UPDATE @queues
SET deleted = true, purging = true
WHERE number = ANY ($1::int4[]);

-- name: queue_purge
-- Marks queues ($1) whose generation was raised: the leader removes the purged jobs step by step.
UPDATE @queues
SET purging = true
WHERE number = ANY ($1::int4[]);

-- name: job_release_key
-- Takes the unique key away from these jobs ($1), before another job gets it.
UPDATE @job
SET holds_key = false
WHERE seq = ANY ($1::int8[]);

-- name: job_set
-- Changes jobs. Takes one array for each column, the sequence first.
UPDATE @job j
SET state = u.state, reason = u.reason, priority = u.priority, run_at = u.run_at, since = u.since,
    generation = u.generation, failures = u.failures, crashes = u.crashes, flags = u.flags, token_epoch =
    u.token_epoch, token_counter = u.token_counter, lease_ms = u.lease_ms, until = u.until, worker =
    u.worker, nonce = u.nonce, started_at = u.started_at, reply = u.reply, reply_state = u.reply_state,
    reply_run_at = u.reply_run_at, outcome_counts = u.outcome_counts, holds_key = u.holds_key, holder =
    u.holder, holder_hi = u.holder_hi, timeout_ms = u.timeout_ms, cancel_grace_ms = u.cancel_grace_ms,
    cancel_at = u.cancel_at
FROM (
    SELECT unnest($1::int8[]) AS seq, unnest($2::int2[]) AS state, unnest($3::int2[]) AS reason,
        unnest($4::int8[]) AS priority, unnest($5::int8[]) AS run_at, unnest($6::int8[]) AS since,
        unnest($7::int4[]) AS generation, unnest($8::int4[]) AS failures, unnest($9::int4[]) AS crashes,
        unnest($10::int2[]) AS flags, unnest($11::int4[]) AS token_epoch, unnest($12::int8[]) AS
        token_counter, unnest($13::int4[]) AS lease_ms, unnest($14::int8[]) AS until, unnest($15::text[]) AS
        worker, unnest($16::int8[]) AS nonce, unnest($17::int8[]) AS started_at, unnest($18::int2[]) AS
        reply, unnest($19::int2[]) AS reply_state, unnest($20::int8[]) AS reply_run_at, unnest($21::int8[])
        AS outcome_counts, unnest($22::bool[]) AS holds_key, unnest($23::int8[]) AS holder,
        unnest($24::int8[]) AS holder_hi, unnest($25::int8[]) AS timeout_ms, unnest($26::int4[]) AS
        cancel_grace_ms, unnest($27::int8[]) AS cancel_at
) u
WHERE j.seq = u.seq;

-- name: job_new
-- Creates jobs. Takes one array for each column.
INSERT INTO @job (seq, id_hi, queue, state, reason, priority, run_at, since, generation, failures, crashes,
    payload_kind, payload_bytes, flags, holds_key, expires_at, options, undelivered, payload, error_kind, error,
    ${job_texts})
SELECT unnest($1::int8[]), unnest($2::int8[]), unnest($3::int4[]), unnest($4::int2[]), unnest($5::int2[]),
    unnest($6::int8[]), unnest($7::int8[]), unnest($8::int8[]), unnest($9::int4[]), unnest($10::int4[]),
    unnest($11::int4[]), unnest($12::int2[]), unnest($13::int4[]), unnest($14::int2[]), unnest($15::bool[]),
    unnest($16::int8[]), unnest($17::bytea[]), unnest($18::bytea[]), unnest($19::bytea[]), unnest($20::int2[]),
    unnest($21::bytea[]), ${each(${job_texts}; unnest($#22::text[]))};

-- name: job_del
-- Removes these jobs ($1). Their edges remain for as long as they are on the work list.
WITH d AS (
    DELETE FROM @dependent
    WHERE seq = ANY ($1::int8[])
), s AS (
    DELETE FROM @step
    WHERE seq = ANY ($1::int8[])
)
DELETE FROM @job
WHERE seq = ANY ($1::int8[]);

-- name: job_payload
-- Changes the payload of the job $1: kind ($2), bytes ($3), how many ($4).
UPDATE @job
SET payload_kind = $2::int4, payload = $3::bytea, payload_bytes = $4::int4
WHERE seq = $1::int8;

-- name: job_result
-- Changes results: jobs ($1), kinds ($2), bytes ($3).
UPDATE @job j
SET result_kind = u.kind, result = u.result
FROM (
    SELECT unnest($1::int8[]) AS seq, unnest($2::int2[]) AS kind, unnest($3::bytea[]) AS result
) u
WHERE j.seq = u.seq;

-- name: job_error
-- Changes errors: jobs ($1), kinds ($2), texts ($3).
UPDATE @job j
SET error_kind = u.kind, error = u.error
FROM (
    SELECT unnest($1::int8[]) AS seq, unnest($2::int2[]) AS kind, unnest($3::bytea[]) AS error
) u
WHERE j.seq = u.seq;

-- name: job_describe
-- Changes labels ($2) and attributes ($3) of jobs ($1).
UPDATE @job j
SET label = u.label, attributes = u.attributes
FROM (
    SELECT unnest($1::int8[]) AS seq, unnest($2::text[]) AS label, unnest($3::text[]) AS attributes
) u
WHERE j.seq = u.seq;

-- name: job_report
-- Writes what was reported about jobs ($1): progress ($2) and entries for their logs ($3), NULL = none. Of a log
-- the newest bytes stay.
UPDATE @job j
SET progress = coalesce(u.progress, j.progress),
    log = CASE WHEN u.log IS NULL THEN j.log ELSE
        substr(coalesce(j.log, '') || u.log, greatest(1, coalesce(length(j.log), 0) + length(u.log) -
            ${log_bytes} + 1)) END
FROM (
    SELECT unnest($1::int8[]) AS seq, unnest($2::bytea[]) AS progress, unnest($3::bytea[]) AS log
) u
WHERE j.seq = u.seq;

-- name: job_steps
-- Writes the indexes ($2) of the steps of jobs ($1).
UPDATE @job j
SET step_index = u.step_index
FROM (
    SELECT unnest($1::int8[]) AS seq, unnest($2::bytea[]) AS step_index
) u
WHERE j.seq = u.seq;

-- name: step_put
-- Writes steps of jobs ($1): names ($2), results ($3).
INSERT INTO @step (seq, name, result)
SELECT unnest($1::int8[]), unnest($2::text[]), unnest($3::bytea[])
ON CONFLICT (seq, name) DO UPDATE SET result = excluded.result;

-- name: attempt_new
-- Adds attempts that ended. Takes one array for each column.
INSERT INTO @attempt (seq, queue, number, started_at, ended_at, outcome, error_kind, worker, error)
SELECT unnest($1::int8[]), unnest($2::int4[]), unnest($3::int4[]), unnest($4::int8[]), unnest($5::int8[]),
    unnest($6::int2[]), unnest($7::int2[]), unnest($8::text[]), unnest($9::bytea[]);

-- name: attempt_trim
-- Removes all but the newest attempts of these jobs ($1).
DELETE FROM @attempt a
USING unnest($1::int8[]) w(seq)
WHERE a.seq = w.seq AND a.n <= (
    SELECT b.n
    FROM @attempt b
    WHERE b.seq = w.seq
    ORDER BY b.n DESC
    OFFSET ${attempts_kept}
    LIMIT 1
);

-- name: attempt_del
-- Removes the attempts of these jobs ($1).
DELETE FROM @attempt
WHERE seq = ANY ($1::int8[]);

-- name: kept_reply_new
-- Keeps the last reply about leases. Takes one array for each column.
INSERT INTO @kept_reply (epoch, counter, seq, kind, state, run_at, at)
SELECT unnest($1::int4[]), unnest($2::int8[]), unnest($3::int8[]), unnest($4::int2[]), unnest($5::int2[]),
    unnest($6::int8[]), unnest($7::int8[])
ON CONFLICT (epoch, counter) DO NOTHING;

-- name: idempotency_key_del
-- Removes the idempotency keys with these hashes ($1, $2) that expired by $3.
DELETE FROM @idempotency_key i
USING unnest($1::int8[], $2::int8[]) w(hi, lo)
WHERE i.hi = w.hi AND i.lo = w.lo AND i.expires_at <= $3::int8;

-- name: idempotency_key_new
-- Adds idempotency keys. Takes one array for each column.
INSERT INTO @idempotency_key (hi, lo, fingerprint, seq, id_hi, expires_at)
SELECT unnest($1::int8[]), unnest($2::int8[]), unnest($3::int8[]), unnest($4::int8[]), unnest($5::int8[]),
    unnest($6::int8[]);

-- name: delta_add
-- Adds to the sums of queues. Takes queues ($1), hours since 1970 ($2) and one array for each sum. Rows are
-- only added here, so that units of different nodes never wait for each other; the leader adds them to
-- the totals.
INSERT INTO @delta (queue, hour, ${sums})
SELECT unnest($1::int4[]), unnest($2::int4[]), unnest($3::int8[]), unnest($4::int8[]), unnest($5::int8[]),
    unnest($6::int8[]), unnest($7::int8[]), unnest($8::int8[]), unnest($9::int8[]), unnest($10::int8[]),
    unnest($11::int8[]), unnest($12::int8[]), unnest($13::int8[]), unnest($14::int8[]), unnest($15::int8[]),
    unnest($16::int8[]), unnest($17::int8[]), unnest($18::int8[]), unnest($19::int8[]), unnest($20::int8[]),
    unnest($21::int8[]), unnest($22::int8[]), unnest($23::int8[]), unnest($24::int8[]);

-- name: key_delta_add
-- Adds to the number of idempotency keys ($1), of keys of the key-value store ($2) and to the bytes of
-- keys and values ($3).
INSERT INTO @key_delta (idempotency_keys, kv_keys, kv_bytes)
VALUES ($1::int8, $2::int8, $3::int8);

-- name: rescope
-- Decides again which jobs of the queue $1 (generation $3) hold their unique key, for the scope $2.
UPDATE @job j
SET holds_key = (unique_key IS NOT NULL AND ($2::int4 = ${unique_kept} AND state <> ${cancelled} OR $2::int4
    = ${unique_live} AND ${live(j)}))
WHERE queue = $1::int4 AND unique_key IS NOT NULL AND ${counts_in(j; $3::int4)};
