-- SPDX-License-Identifier: Apache-2.0
-- Parts that several statements share. '@' stands for the schema; the program puts it in when it starts.
-- Parameters are $1, $2 …; arrays have one element for each row.

-- part: job_columns
-- The columns of a job, in the order of enum job_column (sql.h).
j.seq, j.id_hi, j.queue, j.state, j.reason, j.priority, j.run_at, j.since, j.generation, j.failures,
j.crashes, j.payload_kind, j.payload_bytes, j.flags, j.token_epoch, j.token_counter, j.lease_ms, j.until,
j.worker, j.nonce, j.started_at, j.reply, j.reply_state, j.reply_run_at, j.outcome_counts,
${each(${job_texts}; j.%)}, j.holds_key, j.expires_at, j.options, j.undelivered,
j.result_kind, j.error_kind, j.holder, j.holder_hi, j.timeout_ms, j.cancel_grace_ms, j.cancel_at, j.step_index

-- part: queue_columns
q.number, q.name, q.owner, q.description, q.attributes, q.policy, q.generation, q.created_at, q.updated_at,
q.paused_until, q.deleted

-- part: queue_shown
-- What a view of a job shows of its queue.
q.name, q.owner, q.policy, q.paused_until

-- part: job_counts
-- How many jobs of a queue are in each state.
jobs_scheduled, jobs_ready, jobs_running, jobs_done, jobs_dead, jobs_cancelled, jobs_blocked

-- part: outcome_counts
-- What happened in a queue, in the order of enum counter.
enqueued, claimed, acked, failed_app, failed_business, crashed, released, died, cancelled, waited_ms, done_ms,
failed_ms, died_ms

-- part: sums
-- The sums of a queue, in the order of SUM_COUNT (shared/unit.h).
${job_counts}, urgent, removed, ${outcome_counts}

-- part: key_counts
-- The counts of keys: the total, and what was added since the leader last added it to the total.
(
    SELECT idempotency_keys, kv_keys, kv_bytes
    FROM @key_total
    UNION ALL
    SELECT idempotency_keys, kv_keys, kv_bytes
    FROM @key_delta
)

-- part: counts_of(queues)
-- The sums of these queues: the totals, and what was added since the leader last added it to the total.
SELECT queue, ${each(${sums}; sum(%)::int8 AS %)}
FROM (
    SELECT * FROM @total t
    WHERE t.queue = ANY (${queues})
    UNION ALL
    SELECT queue, ${sums}
    FROM @delta d
    WHERE d.queue = ANY (${queues})
) x
GROUP BY queue

-- part: now(manual)
-- The time in ms: the manual time that tests set, or the time of the database.
CASE WHEN ${manual}::int8 > 0 THEN ${manual}::int8 ELSE (extract(epoch FROM clock_timestamp()) * 1000)::int8 END

-- part: waits(job)
-- Whether the job has not begun: it is scheduled, ready or blocked.
(${job}.state <= ${ready} OR ${job}.state = ${blocked})

-- part: live(job)
(${job}.state <= ${running} OR ${job}.state = ${blocked})

-- part: ended(job)
-- As in the index job_kept.
${job}.state BETWEEN ${done} AND ${cancelled}

-- part: counts_in(job; generation)
-- Whether the job exists in a queue of this generation: a purge raises it, and the jobs that waited are removed later.
(NOT ${waits(${job})} OR ${job}.generation = ${generation})

-- part: shown
-- Whether the job j of the queue q exists. Its row remains for a while after its queue was deleted, or, if
-- the job waits, after a purge has raised the generation of the queue.
q.number = j.queue AND NOT q.deleted AND ${counts_in(j; q.generation)}

-- part: by_due
-- Holds for every job of a queue whose policy is by_due: its priority is an order (core/jobs/job.h).
(priority < -1000000000000 OR priority > 1000000000000)

-- part: task_status
-- The status of a task in the terms of its API; immutable, so that it can be indexed. A task that is due but that
-- the leader has not promoted yet is still SCHEDULED here.
CASE WHEN state = ${ready} AND flags & ${flag_pending} <> 0 THEN 'PENDING' WHEN state = ${scheduled} THEN
    'SCHEDULED' WHEN state = ${ready} THEN 'QUEUED' WHEN state = ${running} THEN 'IN_PROGRESS' WHEN state =
    ${done} THEN 'COMPLETED' WHEN state = ${dead} THEN 'FAILED'
    WHEN state = ${blocked} THEN 'SCHEDULED' ELSE 'CANCELLED' END

-- part: task_scheduled_at
to_timestamp(nullif(run_at, 0) / 1000.0)

-- part: imported_time(name)
-- A time in seconds that an import has stored in the attributes of a job.
(substring(attributes FROM '"${name}":([0-9]{1,12})[,}]')::int8)

-- part: lock_class(table)
-- The first key of advisory locks, so that two schemas of one database do not share them.
('@${table}'::regclass::oid::int8 & 2147483647)::int4

-- part: measured(order; jobs)
-- The jobs, each with the bytes of the bodies that precede it in this order.
(SELECT x.*, sum(x.payload_bytes + coalesce(octet_length(x.result), 0))
    OVER (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)
    - x.payload_bytes - coalesce(octet_length(x.result), 0) AS bytes_before
FROM (${jobs}) x)

-- part: bodies(wanted)
-- Payload, result and error of a measured job, if they are wanted and there is room for them.
CASE WHEN ${wanted}::bool AND j.bytes_before < ${answer_bytes_max} THEN j.payload END,
CASE WHEN ${wanted}::bool AND j.bytes_before < ${answer_bytes_max} THEN j.result END,
CASE WHEN ${wanted}::bool THEN j.error END

-- part: pending_as(which)
-- Of ready jobs only those that were dispatched, or were not; enum page_pending.
(${which}::int4 = ${page_all} OR j.state <> ${ready}
    OR (j.flags & ${flag_pending} <> 0) = (${which}::int4 = ${page_pending}))

-- part: list_filter
-- What a list asks for; see the statement list.
j.seq BETWEEN $1::int8 AND $2::int8 AND ($4::int4 >> j.state) & 1 = 1 AND ($5::int4 >> j.reason) & 1 = 1
    AND j.priority BETWEEN $6::int8 AND $7::int8 AND j.id_hi >> 16 BETWEEN $8::int8 AND $9::int8
    AND ${each(${job_texts}; ($#12::text = '' OR j.% = $#12::text); AND)}

-- part: bulk_filter(job)
-- The jobs that a bulk action is about; see the statement bulk_jobs.
${job}.queue = $1::int4 AND ($2::int4 >> ${job}.state) & 1 = 1 AND ${job}.seq > $3::int8
    AND (${job}.seq <= $4::int8 OR ${job}.seq >= ${spool_seq_min}) AND ($5::text = '' OR ${job}.group_key = $5::text)
    AND ($7::text = '' OR ${job}.kind = $7::text)

-- part: may_share(job)
-- Whether the job counts among those with a unique key; see the statement key_sharers.
${job}.queue = $1::int4 AND ${job}.unique_key IS NOT NULL AND ${job}.state <> ${cancelled}
    AND ${counts_in(${job}; $2::int4)}

-- part: beyond(state; there; keep; keep_ms)
-- The jobs of the queue q in this state that it does not keep: more than `keep`, or older than `keep_ms`.
SELECT seq, queue, state
FROM (
    SELECT seq, queue, state
    FROM @job j
    WHERE j.queue = q.number AND j.state = ${state}
    ORDER BY j.since, j.seq
    LIMIT least(greatest(${there} - ${keep}, 0), $2::int4)
) a
UNION
SELECT seq, queue, state
FROM (
    SELECT seq, queue, state
    FROM @job j
    WHERE j.queue = q.number AND j.state = ${state} AND j.since <= $1::int8 - ${keep_ms}
    ORDER BY j.since, j.seq
    LIMIT $2::int4
) b

-- part: oldest(state)
-- Since when the oldest job of the queue q is in this state.
(SELECT j.since FROM @job j WHERE j.queue = q.number AND j.state = ${state} ORDER BY j.since LIMIT 1)

-- part: schedule_columns
-- A schedule, and whether its last job waits or runs.
s.number, s.name, s.owner, s.description, s.attributes, s.spec, s.paused, s.created_at, s.updated_at,
s.next_at, s.retry_at, s.last_at, s.fired_at, s.seq, s.id_hi, s.item, s.fired, s.missed, s.failures, s.error,
s.changed, EXISTS (
    SELECT
    FROM @job j
    JOIN @queues q ON ${shown}
    WHERE j.seq = s.seq AND j.id_hi = s.id_hi AND ${live(j)}
)

-- part: breaker_columns
target, state, failures, probes, until, changed_at, failure_threshold, open_cooldown_seconds,
    half_open_probe_count, used_at

-- part: notice_columns
n.number, n.id_hi, n.kind, n.edge, n.at, n.alert, n.queue, n.job_seq, n.job_hi, n.reason, n.attempts, n.value,
n.mark, n.subject, n.body, n.state, n.tries, n.since, n.due, n.status, n.error, n.check_at, n.holder
