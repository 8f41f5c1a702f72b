-- SPDX-License-Identifier: Apache-2.0
-- What clients read: jobs, queues, counts (read_view.c, search.c). Bodies are returned up to
-- ${answer_bytes_max} bytes an answer: the rows are measured before the bytes of any are fetched.

-- name: get_job
-- Returns the job $1 with what it depends on, with its bodies if $2, its progress if $3 and its log if $4.
SELECT ${job_columns}, CASE WHEN $2::bool THEN j.payload END, CASE WHEN $2::bool THEN j.result END, j.error,
    ${queue_shown}, ${dependent_columns}, CASE WHEN $3::bool THEN j.progress END, CASE WHEN $4::bool THEN j.log END
FROM @job j
JOIN @queues q ON ${shown}
LEFT JOIN @dependent d ON d.seq = j.seq
WHERE j.seq = $1::int8;

-- part: plain_before(place)
-- How many ready jobs of the queue of j have such a place, at most $2.
(
    SELECT count(*)
    FROM (
        SELECT
        FROM @job b
        WHERE b.queue = j.queue AND b.generation = q.generation AND b.state = ${ready} AND ${place}
        LIMIT $2::int4
    ) x
)

-- part: ordered_before(place)
-- How many ready jobs of the group of j have such a place in the order of the limited queue k, at most $2.
(
    SELECT count(*)
    FROM (
        SELECT
        FROM @claim_ready r
        WHERE r.queue = k.queue AND r.version = k.version AND r.group_key = ${group_of(j; k)} AND ${place}
        LIMIT $2::int4
    ) x
)

-- name: job_wait
-- What the waiting job $1 waits for: how many jobs of its queue run and are ready; slots in use and when the bucket is
-- full, of the queue and of the group; how many ready jobs come before it, at most $2 of a higher and $2 of the same
-- priority; whether the order of the queue still lacks some.
SELECT coalesce(c.jobs_running, 0)::int8, coalesce(c.jobs_ready, 0)::int8, coalesce(${slots_of(k)}, 0),
    coalesce(k.full_us, 0), (
        SELECT count(*)
        FROM (
            SELECT
            FROM @job x
            WHERE k.max_running_per_group > 0 AND x.queue = j.queue AND coalesce(x.group_key, '') =
                coalesce(j.group_key, '') AND ${in_slot(x)}
            LIMIT k.max_running_per_group
        ) x
    ), coalesce(
        (
            SELECT g.full_us
            FROM @claim_group g
            WHERE g.queue = k.queue AND g.group_key = ${group_of(j; k)}
        ), 0
    ), CASE WHEN j.state <> ${ready} THEN 0 WHEN k.ordered THEN ${ordered_before(r.priority > ${claim_priority(j; k)})} +
        ${ordered_before(r.priority = ${claim_priority(j; k)} AND r.seq < j.seq)}
    ELSE ${plain_before(b.priority > j.priority)} + ${plain_before(b.priority = j.priority AND b.seq < j.seq)} END,
    coalesce(k.ordered AND NOT k.built, false)
FROM @job j
JOIN @queues q ON ${shown}
LEFT JOIN @claim_queue k ON k.queue = j.queue
LEFT JOIN (${counts_of(ARRAY(SELECT queue FROM @job WHERE seq = $1::int8))}) c ON c.queue = j.queue
WHERE j.seq = $1::int8;

-- name: attempts
-- Returns the attempts of the job $1, newest first.
SELECT number, started_at, ended_at, outcome, error_kind, worker, error
FROM @attempt
WHERE seq = $1::int8
ORDER BY n DESC
LIMIT ${attempts_kept};

-- part: peek(jobs; measure_order; order; page)
-- A page of the jobs of the queue $1 with this property, in this order (of x to measure them, of j to return
-- them), with bodies if $3.
SELECT ${job_columns}, ${bodies($3)}, ${queue_shown}
FROM @queues q
JOIN LATERAL ${measured(
    ${measure_order};
    SELECT j.*
    FROM @job j
    WHERE j.queue = q.number AND ${jobs}
    ORDER BY ${order}
    ${page}
)} j ON true
WHERE q.name = $1::text AND NOT q.deleted
ORDER BY ${order}

-- name: peek_ready
-- Returns the first $2 ready jobs of the queue $1, with bodies if $3.
${peek(j.generation = q.generation AND j.state = ${ready}; x.priority DESC, x.seq; j.priority DESC, j.seq;
    LIMIT $2::int4)};

-- name: peek_scheduled
-- Returns the first $2 scheduled jobs of the queue $1, with bodies if $3.
${peek(j.generation = q.generation AND j.state = ${scheduled}; x.run_at, x.seq; j.run_at, j.seq; LIMIT $2::int4)};

-- name: peek_blocked
-- Returns the blocked jobs of the queue $1 that were enqueued first, at most $2, with bodies if $3.
${peek(j.generation = q.generation AND j.state = ${blocked}; x.seq; j.seq; LIMIT $2::int4)};

-- name: peek_running
-- Returns the running jobs of the queue $1 that were claimed first, at most $2, with bodies if $3.
${peek(j.state = ${running}; x.since, x.token_epoch, x.token_counter;
    j.since, j.token_epoch, j.token_counter; LIMIT $2::int4)};

-- name: peek_kept
-- Returns the oldest $2 jobs of the queue $1 in a final state ($4), with bodies if $3.
${peek(j.state = $4::int4 AND ${ended(j)}; x.since, x.seq; j.since, j.seq; LIMIT $2::int4)};

-- name: peek_newest
-- Returns the newest $2 jobs of the queue $1 that run or are in a final state ($4), after $5 others, with
-- bodies if $3.
${peek(j.state = $4::int4 AND j.state BETWEEN ${running} AND ${cancelled}; x.since DESC, x.seq DESC; j.since DESC, j.seq DESC;
    OFFSET $5::int8 LIMIT $2::int4)};

-- name: queue_views
-- Returns queues with their sums, the time since which the first ready jobs wait and the next scheduled
-- time. Takes names ($1), numbers ($2), or how many ($3) after which name ($4). Of each priority the first
-- 20 jobs are examined. Then, for limits at the claim: slots in use, when the bucket is full, and how many ready jobs
-- are in groups without a free slot, and in groups that wait for a token at $5 (µs).
WITH n AS MATERIALIZED (
    SELECT number
    FROM @queues
    WHERE NOT deleted AND (name = ANY ($1::text[]) OR number = ANY ($2::int4[]) OR ($3::int4 > 0 AND name >
        $4::text))
    ORDER BY name
    LIMIT greatest($3::int4, 1)
), c AS (${counts_of(ARRAY(SELECT number FROM n))})
SELECT ${queue_columns}, coalesce(
    (
        WITH RECURSIVE p AS (
            (
                SELECT j.priority
                FROM @job j
                WHERE j.queue = q.number AND j.generation = q.generation AND j.state = ${ready}
                ORDER BY j.priority DESC
                LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT j.priority
                FROM @job j
                WHERE j.queue = q.number AND j.generation = q.generation AND j.state = ${ready} AND
                    j.priority < p.priority
                ORDER BY j.priority DESC
                LIMIT 1
            )
            FROM p
            WHERE p.priority IS NOT NULL
        )
        SELECT min(f.since)
        FROM p
        CROSS JOIN LATERAL (
            SELECT j.since
            FROM @job j
            WHERE j.queue = q.number AND j.generation = q.generation AND j.state = ${ready} AND j.priority =
                p.priority
            ORDER BY j.seq
            LIMIT 20
        ) f
    ), 0
), coalesce(
    (
        SELECT j.run_at
        FROM @job j
        WHERE j.queue = q.number AND j.state = ${scheduled} AND j.generation = q.generation
        ORDER BY j.run_at
        LIMIT 1
    ), 0
), ${each(${sums}; coalesce(c.%, 0)::int8)}, coalesce(${slots_of(k)}, 0), coalesce(k.full_us,
    0), CASE WHEN k.ordered THEN
    ${ready_of(g.busy)} ELSE 0 END, CASE WHEN k.ordered THEN ${ready_of(NOT g.busy AND g.wait_us > $5::int8)} ELSE 0 END
FROM n
JOIN @queues q ON q.number = n.number
LEFT JOIN c ON c.queue = q.number
LEFT JOIN @claim_queue k ON k.queue = q.number
ORDER BY q.name;

-- name: group_counts
-- Returns how many jobs of the group $3 are in each state. Takes the name ($1) or the number ($2) of the
-- queue.
SELECT j.state, count(*)::int8
FROM @queues q
JOIN @job j ON j.queue = q.number AND j.group_key = $3::text AND ${counts_in(j; q.generation)}
WHERE (q.name = $1::text OR q.number = $2::int4) AND NOT q.deleted
GROUP BY j.state;

-- part: list(jobs; order)
-- A page of the jobs with this property that match the filter.
SELECT ${job_columns}, ${bodies($10)}, ${queue_shown}
FROM ${measured(
    x.seq ${order};
    SELECT j.*
    FROM @job j
    JOIN @queues q ON ${shown}
    WHERE ${jobs} AND ${list_filter}
    ORDER BY j.seq ${order}
    LIMIT $11::int4
)} j
JOIN @queues q ON q.number = j.queue
ORDER BY j.seq ${order}

-- name: list
-- Returns jobs by ascending sequence. Takes the range of sequences ($1, $2), queue or 0 ($3), masks of
-- states and reasons ($4, $5), ranges of priority and of creation in ms ($6 to $9), whether bodies are
-- wanted ($10), how many ($11), and from $12 on, the texts of core/jobs/job_texts.h or ''.
${list(($3::int4 = 0 OR j.queue = $3::int4); ASC)};

-- name: list_newest
-- The same, newest first.
${list(($3::int4 = 0 OR j.queue = $3::int4); DESC)};

-- name: list_kept
-- The same for jobs of one queue in a final state only, from the index of these.
${list(j.queue = $3::int4 AND ${ended(j)}; ASC)};

-- name: list_kept_newest
-- The same, newest first.
${list(j.queue = $3::int4 AND ${ended(j)}; DESC)};

-- name: workers
-- Returns workers with how many jobs they run and how many workers there are, at most $1.
SELECT j.worker, count(*)::int8, (count(*) OVER ())::int8,
    (array_agg(j.seq ORDER BY j.until, j.seq))[1:${held_shown}]::text,
    (array_agg(j.id_hi ORDER BY j.until, j.seq))[1:${held_shown}]::text
FROM @job j
JOIN @queues q ON q.number = j.queue AND NOT q.deleted
WHERE j.state = ${running} AND j.worker <> ''
GROUP BY j.worker
ORDER BY min(j.since), min(j.token_counter)
LIMIT $1::int4;

-- name: registry_put
-- Keeps entries of the node $1: names ($2), times until which they are kept ($3), facts ($4).
INSERT INTO @worker AS w (node, name, keep_until, facts)
SELECT $1::int4, unnest($2::text[]), unnest($3::int8[]), unnest($4::bytea[])
ON CONFLICT (name, node) DO UPDATE SET keep_until = excluded.keep_until, facts = excluded.facts;

-- name: registry_prune
-- Removes entries whose time is over at $1.
DELETE FROM @worker
WHERE keep_until <= $1::int8;

-- name: registry
-- Returns the entries of all nodes whose names begin with $1 and that are kept after $2, at most $3.
SELECT name, keep_until, facts
FROM @worker
WHERE left(name, length($1::text)) = $1::text AND keep_until > $2::int8
ORDER BY keep_until DESC
LIMIT $3::int4;

-- name: registry_of
-- The same with the name $1.
SELECT name, keep_until, facts
FROM @worker
WHERE name = $1::text AND keep_until > $2::int8
ORDER BY keep_until DESC
LIMIT $3::int4;

-- name: exceptions
-- Returns attempts that failed, crashed or were released with an error, newest first, at most $2; of the queue
-- $1, or of all with ''.
SELECT a.number, a.started_at, a.ended_at, a.outcome, a.error_kind, a.worker, a.error, a.seq, j.id_hi,
    q.name
FROM @attempt a
JOIN @job j ON j.seq = a.seq
JOIN @queues q ON q.number = a.queue AND NOT q.deleted AND ${counts_in(j; q.generation)}
WHERE a.outcome IN (${attempt_failed}, ${attempt_lease_expired}, ${attempt_timed_out},
    ${attempt_released_with_error}) AND
    ($1::text = '' OR q.name = $1::text)
ORDER BY a.n DESC
LIMIT $2::int4;

-- name: history
-- Returns the outcome counts of the queue $1 for each hour from $2 until before $3.
SELECT hour, ${each(${outcome_counts}; sum(%)::int8)}
FROM (
    SELECT hour, ${outcome_counts}
    FROM @hour h
    WHERE h.queue = (
        SELECT number
        FROM @queues
        WHERE name = $1::text AND NOT deleted
    )
    UNION ALL
    SELECT hour, ${outcome_counts}
    FROM @delta d
    WHERE d.queue = (
        SELECT number
        FROM @queues
        WHERE name = $1::text AND NOT deleted
    )
) x
WHERE hour >= $2::int4 AND hour < $3::int4
GROUP BY hour
HAVING ${each(${outcome_counts}; sum(%) <> 0; OR)}
ORDER BY hour;

-- name: pending
-- Returns ready jobs that were not dispatched yet, after the sequence $1, at most $2.
SELECT ${job_columns}, NULL::bytea, NULL::bytea, NULL::bytea, ${queue_shown}
FROM @job j
JOIN @queues q ON ${shown}
WHERE j.state = ${ready} AND j.flags & ${flag_pending} <> 0 AND j.seq > $1::int8
ORDER BY j.seq
LIMIT $2::int4;

-- name: page
-- Returns $6 jobs of the ranked queue $1 after $5 others. Takes a mask of states ($2), whether bodies are
-- wanted ($3), unique key or '' ($4), which ready jobs ($7).
SELECT ${job_columns}, ${bodies($3)}, ${queue_shown}
FROM ${measured(
    x.seq;
    SELECT j.*
    FROM @job j
    JOIN @queues q ON ${shown}
    WHERE j.queue = $1::int4 AND ($2::int4 >> j.state) & 1 = 1 AND ($4::text = '' OR j.unique_key =
        $4::text) AND ${pending_as($7)}
    ORDER BY j.seq
    OFFSET $5::int8
    LIMIT $6::int4
)} j
JOIN @queues q ON q.number = j.queue
ORDER BY j.seq;

-- name: page_count
-- Returns how many jobs that is in total. Takes queue ($1), mask of states ($2), unique key or '' ($3),
-- which ready jobs ($4).
SELECT count(*)::int8
FROM @job j
JOIN @queues q ON ${shown}
WHERE j.queue = $1::int4 AND ($2::int4 >> j.state) & 1 = 1 AND ($3::text = '' OR j.unique_key = $3::text)
    AND ${pending_as($4)};
