-- SPDX-License-Identifier: Apache-2.0
-- Queues with limits at the claim (core/queues/claim_limits.h; limits.c). Every unit that concerns such a queue has
-- it locked exclusively (lock_shared), so what is read here does not change before the commit.

-- part: group_of(job; q)
-- The group of a job, as far as this queue has groups.
CASE WHEN ${q}.grouped THEN coalesce(${job}.group_key, '') ELSE '' END

-- part: in_slot(job)
-- Whether the job occupies a slot: it runs in a queue that had limits when it was claimed.
${job}.state = ${running} AND ${job}.flags & ${flag_slot} <> 0

-- part: slots_of(q)
-- How many slots of the queue are in use, up to its limit; 0 = it has no limit.
(
    SELECT count(*)
    FROM (
        SELECT
        FROM @job j
        WHERE ${q}.max_running > 0 AND j.queue = ${q}.queue AND ${in_slot(j)}
        LIMIT ${q}.max_running
    ) x
)

-- part: claim_priority(job; q)
-- The rule claim_priority of core/queues/claim_limits.h.
CASE WHEN ${q}.ageing_ms = 0 THEN ${job}.priority ELSE
    greatest(${job}.priority::numeric - ${job}.since / ${q}.ageing_ms, -9223372036854775808)::int8 END

-- part: ready_of(groups)
-- How many ready jobs are in these groups g of the limited queue k. Counting ends at ${limited_shown}, so that no view
-- reads a whole backlog. The inner LIMIT allows no other join than a look at the index for each group: without
-- statistics, the database would compare all groups with all jobs.
(
    SELECT count(*)
    FROM (
        SELECT
        FROM @claim_group g
        CROSS JOIN LATERAL (
            SELECT
            FROM @claim_ready r
            WHERE r.queue = g.queue AND r.version = g.version AND r.group_key = g.group_key
            LIMIT ${limited_shown}
        ) r
        WHERE g.queue = k.queue AND g.version = k.version AND NOT g.open AND g.priority IS NOT NULL AND ${groups}
        LIMIT ${limited_shown}
    ) x
)

-- part: limited_named(names; jobs)
-- The numbers of the limited queues with these names, and of these jobs.
(
    SELECT c.queue
    FROM @claim_queue c
    WHERE c.queue = ANY (ARRAY(
        SELECT number
        FROM @queues
        WHERE name = ANY (${names}::text[]) AND NOT deleted
        UNION
        SELECT queue
        FROM @job
        WHERE seq = ANY (${jobs}::int8[])
    ))
)

-- name: claim_queues
-- Returns what limited queues use of their limits. Takes names ($1) and jobs ($2). The last column says when the
-- next group gets a token.
SELECT c.queue, ${slots_of(c)}, c.full_us, c.round, coalesce((SELECT min(g.wait_us) FROM @claim_group g WHERE
    g.queue = c.queue AND g.wait_us > 0), 0)
FROM @claim_queue c
WHERE c.queue IN ${limited_named($1; $2)};

-- name: claim_tokens
-- Groups that waited for a token which is there can start a job again. Takes names ($1), jobs ($2) and the manual
-- time or 0 ($3).
UPDATE @claim_group g
SET wait_us = 0
WHERE g.queue IN ${limited_named($1; $2)} AND g.wait_us > 0 AND g.wait_us <= ${now($3)} * 1000;

-- part: first_groups
-- The first groups of each of these queues that can start a job; see the statement claim_groups.
SELECT c.queue, g.group_key, c.version, c.max_running_per_group, g.round, g.full_us, g.seq, w.n, true AS first
FROM unnest($1::text[], $2::int4[]) w(name, n)
JOIN @queues q ON q.name = w.name AND NOT q.deleted AND q.paused_until <= ${now($6)}
JOIN @claim_queue c ON c.queue = q.number AND c.ordered
CROSS JOIN LATERAL (
    SELECT g.group_key, g.round, g.full_us, g.seq
    FROM @claim_group g
    WHERE g.queue = c.queue AND g.version = c.version AND g.open
    ORDER BY g.priority DESC, g.round, g.seq
    LIMIT w.n
) g

-- part: named_groups
-- The groups of these jobs, and those that have a new job.
SELECT c.queue, k.group_key, c.version, c.max_running_per_group, CASE WHEN g.version = c.version THEN g.round ELSE 0
    END, coalesce(g.full_us, 0), CASE WHEN g.version = c.version THEN g.seq END, 0 AS n, false AS first
FROM (
    SELECT j.queue, ${group_of(j; c)} AS group_key
    FROM @job j
    JOIN @claim_queue c ON c.queue = j.queue AND c.ordered
    WHERE j.seq = ANY ($5::int8[])
    UNION
    SELECT q.number, CASE WHEN c.grouped THEN x.group_key ELSE '' END
    FROM unnest($3::text[], $4::text[]) x(name, group_key)
    JOIN @queues q ON q.name = x.name AND NOT q.deleted
    JOIN @claim_queue c ON c.queue = q.number AND c.ordered
) k
JOIN @claim_queue c ON c.queue = k.queue
LEFT JOIN @claim_group g ON g.queue = k.queue AND g.group_key = k.group_key

-- name: claim_groups
-- Returns groups with their first ready jobs, small bodies included; a row without a job stands for a group without
-- one. Takes names of queues ($1) and how many of the first groups are wanted ($2); groups by name of queue ($3) and
-- key ($4), and those of jobs ($5); the manual time or 0 ($6). Of a few groups, as many jobs are returned as groups
-- were wanted; of many groups, a few each.
WITH f AS MATERIALIZED (${first_groups}
), g AS MATERIALIZED (
    SELECT * FROM f
    UNION ALL
    SELECT * FROM (${named_groups}) k
    WHERE NOT EXISTS (SELECT FROM f WHERE f.queue = k.queue AND f.group_key = k.group_key)
), l AS MATERIALIZED (
    SELECT g.*, (
        SELECT count(*)
        FROM @job j
        WHERE g.max_running_per_group > 0 AND j.queue = g.queue AND coalesce(j.group_key, '') = g.group_key AND
            ${in_slot(j)}
    ) AS running, least(greatest(g.n, 32), greatest(${group_rows} / (count(*) OVER ()), 4))::int4 AS most
    FROM g
)
SELECT r.*, l.queue, l.group_key, l.running, l.round, l.full_us, l.seq IS NOT NULL, l.most, l.first
FROM l
LEFT JOIN LATERAL (
    SELECT ${job_columns}, CASE WHEN j.payload_bytes <= ${small_payload_bytes} THEN j.payload END AS small,
        CASE WHEN length(j.result) <= ${small_payload_bytes} THEN j.result END AS result, j.error
    FROM (
        SELECT r.seq, r.priority
        FROM @claim_ready r
        WHERE r.queue = l.queue AND r.version = l.version AND r.group_key = l.group_key
        ORDER BY r.priority DESC, r.seq
        LIMIT l.most
    ) x
    JOIN @job j ON j.seq = x.seq
    WHERE j.state = ${ready} AND (j.expires_at = 0 OR j.expires_at > ${now($6)})
    ORDER BY x.priority DESC, x.seq
) r ON true;

-- name: claim_queue_put
-- The limits of the queue $1: ordered ($2), grouped ($3), fair ($4), ageing_ms ($5), max_running ($6),
-- max_running_per_group ($7). If the order of its jobs has changed, the order is built again, step by step. With $8
-- (another rate) its bucket is full.
INSERT INTO @claim_queue AS c (queue, ordered, grouped, fair, ageing_ms, max_running, max_running_per_group, built)
VALUES ($1::int4, $2::bool, $3::bool, $4::bool, $5::int8, $6::int8, $7::int8, NOT $2::bool)
ON CONFLICT (queue) DO UPDATE SET ordered = excluded.ordered, grouped = excluded.grouped, fair = excluded.fair,
    ageing_ms = excluded.ageing_ms, max_running = excluded.max_running, max_running_per_group =
    excluded.max_running_per_group, version = c.version + ${claim_order_changed}::int4, dirty = c.dirty OR
    ${claim_order_changed}, full_us = CASE WHEN $8::bool THEN 0 ELSE c.full_us END, built = CASE WHEN ${claim_order_changed} THEN excluded.built ELSE c.built END,
    at_priority = CASE WHEN ${claim_order_changed} THEN ${int8_max} ELSE c.at_priority END,
    at_seq = CASE WHEN ${claim_order_changed} THEN 0 ELSE c.at_seq END;

-- part: claim_order_changed
((c.ordered, c.grouped, c.fair, c.ageing_ms) IS DISTINCT FROM (excluded.ordered, excluded.grouped, excluded.fair,
    excluded.ageing_ms))

-- part: int8_max
9223372036854775807

-- name: claim_slots
-- The jobs of the queue $1 that run occupy slots from now on.
UPDATE @job j
SET flags = flags | ${flag_slot}
WHERE j.state = ${running} AND j.queue = $1::int4 AND j.flags & ${flag_slot} = 0;

-- name: claim_open
-- The limits of the queue $1 have changed: decides again which of its groups have no free slot. With $2 (another rate)
-- their buckets are full.
WITH x AS (
    SELECT coalesce(j.group_key, '') AS group_key
    FROM @job j
    JOIN @claim_queue c ON c.queue = j.queue
    WHERE j.queue = $1::int4 AND ${in_slot(j)} AND c.max_running_per_group > 0
    GROUP BY 1, c.max_running_per_group
    HAVING count(*) >= c.max_running_per_group
)
UPDATE @claim_group g
SET wait_us = 0, full_us = CASE WHEN $2::bool THEN 0 ELSE g.full_us END, busy = EXISTS (
    SELECT
    FROM x
    WHERE x.group_key = g.group_key
)
WHERE g.queue = $1::int4 AND (g.busy OR g.wait_us > 0 OR $2::bool AND g.full_us > 0 OR g.group_key IN (
    SELECT x.group_key
    FROM x
));

-- name: claim_drop
-- The waiting jobs of these queues ($1) are gone; with $2 the queues, too.
UPDATE @claim_queue
SET version = version + 1, dirty = true, built = true, ordered = ordered AND NOT $2::bool, max_running = CASE WHEN
    $2::bool THEN 0 ELSE max_running END, dropped = $2::bool
WHERE queue = ANY ($1::int4[]);

-- name: claim_ready_del
-- These jobs ($1) are not ready any more, or have another place.
DELETE FROM @claim_ready
WHERE seq = ANY ($1::int8[]);

-- name: claim_ready_add
-- Puts these ready jobs ($1) into the order of their queues. They are read by their numbers first (OFFSET 0): without
-- statistics, PostgreSQL would otherwise go through all ready jobs of the queue.
INSERT INTO @claim_ready (seq, queue, version, group_key, priority)
SELECT j.seq, j.queue, c.version, ${group_of(j; c)}, ${claim_priority(j; c)}
FROM (
    SELECT *
    FROM @job
    WHERE seq = ANY ($1::int8[])
    OFFSET 0
) j
JOIN @claim_queue c ON c.queue = j.queue AND c.ordered
WHERE j.state = ${ready}
ON CONFLICT (seq) DO UPDATE SET version = excluded.version, group_key = excluded.group_key, priority =
    excluded.priority;

-- name: claim_queue_set
-- Sets what queues ($1) use: when their buckets are full ($2), rounds ($3).
UPDATE @claim_queue c
SET full_us = u.full_us, round = u.round
FROM (
    SELECT unnest($1::int4[]) AS queue, unnest($2::int8[]) AS full_us, unnest($3::int8[]) AS round
) u
WHERE c.queue = u.queue;

-- part: group_places(groups; now_us)
-- Finds out the place of groups: queue, key; those of which jobs were started bring their round and when their bucket
-- is full, which are negative for the others; and until when they wait for a token: 0 = they need not, negative = as
-- before. A group that gets its first ready job joins the next round (claim_round_join). A group without ready jobs is
-- forgotten, unless its bucket is not full.
WITH u AS (${groups}
), h AS MATERIALIZED (
    SELECT c.queue, u.group_key, c.version, r.priority, r.seq, c.max_running_per_group > 0 AND (
        SELECT count(*)
        FROM @job j
        WHERE j.queue = c.queue AND coalesce(j.group_key, '') = u.group_key AND ${in_slot(j)}
    ) >= c.max_running_per_group AS busy, CASE WHEN NOT c.fair THEN 0 WHEN u.round >= 0 THEN u.round WHEN g.seq > 0
        AND g.version = c.version THEN g.round ELSE c.round + 1 END AS round, CASE WHEN u.full_us >= 0 THEN u.full_us
        ELSE coalesce(g.full_us, 0) END AS full_us, CASE WHEN u.wait_us >= 0 THEN u.wait_us ELSE coalesce(g.wait_us, 0)
        END AS wait_us
    FROM u
    JOIN @claim_queue c ON c.queue = u.queue AND c.ordered
    LEFT JOIN @claim_group g ON g.queue = u.queue AND g.group_key = u.group_key
    LEFT JOIN LATERAL (
        SELECT r.priority, r.seq
        FROM @claim_ready r
        WHERE r.queue = c.queue AND r.version = c.version AND r.group_key = u.group_key
        ORDER BY r.priority DESC, r.seq
        LIMIT 1
    ) r ON true
), d AS (
    DELETE FROM @claim_group g
    USING h
    WHERE g.queue = h.queue AND g.group_key = h.group_key AND h.seq IS NULL AND h.full_us <= ${now_us}::int8
)
INSERT INTO @claim_group AS g (queue, group_key, version, priority, seq, round, busy, full_us, wait_us)
SELECT h.queue, h.group_key, h.version, h.priority, h.seq, h.round, h.busy, h.full_us, h.wait_us
FROM h
WHERE h.seq IS NOT NULL OR h.full_us > ${now_us}::int8
ON CONFLICT (queue, group_key) DO UPDATE SET version = excluded.version, priority = excluded.priority, seq =
    excluded.seq, round = excluded.round, busy = excluded.busy, full_us = excluded.full_us, wait_us = excluded.wait_us
WHERE (g.version, g.priority, g.seq, g.round, g.busy, g.full_us, g.wait_us) IS DISTINCT FROM (excluded.version,
    excluded.priority, excluded.seq, excluded.round, excluded.busy, excluded.full_us, excluded.wait_us)

-- name: claim_group_set
-- Finds out the place of groups, see group_places. Takes one array for each column, and the time in µs ($6).
${group_places(SELECT unnest($1::int4[]) AS queue, unnest($2::text[]) AS group_key, unnest($3::int8[]) AS round,
    unnest($4::int8[]) AS full_us, unnest($5::int8[]) AS wait_us; $6)};

-- name: claim_due_lock
-- Locks the limited queues of which the leader is about to change jobs, before these are locked, as units do. Takes
-- the time ($1) and how many ($2).
SELECT n, pg_advisory_xact_lock(${lock_class(queues)}, n) IS NULL, true
FROM (
    SELECT c.queue AS n
    FROM @claim_queue c
    WHERE c.queue = ANY (ARRAY(
        (SELECT j.queue FROM @job j WHERE j.state = ${running} AND j.until <= $1::int8 ORDER BY j.until LIMIT $2::int4)
        UNION
        (SELECT j.queue FROM @job j WHERE j.state = ${scheduled} AND j.run_at <= $1::int8 ORDER BY j.run_at LIMIT
            $2::int4)
        UNION
        (SELECT j.queue FROM @job j WHERE ${waits(j)} AND j.expires_at > 0 AND j.expires_at <= $1::int8 ORDER BY j.expires_at LIMIT $2::int4)
    )) OR NOT c.built
    ORDER BY 1
) x;

-- part: still_ready(place)
-- Ready jobs of the queue c that have this place in the order by priority, at most $2.
(
    SELECT j.seq, j.priority, j.since, j.group_key
    FROM @job j
    WHERE j.queue = c.queue AND j.generation = q.generation AND j.state = ${ready} AND ${place}
    ORDER BY j.priority DESC, j.seq
    LIMIT $2::int4
)

-- part: step_jobs
-- The next ready jobs that are still to be put into the order of the queue $1 (0 = of the first queue whose order is
-- not complete), at most $2.
(
    SELECT c.queue, c.version, c.grouped, c.ageing_ms, j.*
    FROM @claim_queue c
    JOIN @queues q ON q.number = c.queue AND NOT q.deleted
    CROSS JOIN LATERAL (
        ${still_ready(j.priority = c.at_priority AND j.seq > c.at_seq)}
        UNION ALL
        ${still_ready(j.priority < c.at_priority)}
    ) j
    WHERE NOT c.built AND c.queue = CASE WHEN $1::int4 > 0 THEN $1::int4 ELSE ${step_first} END
    ORDER BY j.priority DESC, j.seq
    LIMIT $2::int4
)

-- part: step_first
(SELECT min(b.queue) FROM @claim_queue b WHERE NOT b.built)

-- name: claim_step_ready
-- A step that builds the order of a queue: its jobs. Takes the queue ($1) and how many jobs ($2), see step_jobs. A job
-- that was enqueued meanwhile has its place already, and keeps it.
INSERT INTO @claim_ready (seq, queue, version, group_key, priority)
SELECT j.seq, j.queue, j.version, ${group_of(j; j)}, ${claim_priority(j; j)}
FROM ${step_jobs} j
ON CONFLICT (seq) DO UPDATE SET version = excluded.version, group_key = excluded.group_key, priority =
    excluded.priority;

-- name: claim_step_groups
-- The same: their groups. $3: the time in µs.
${group_places(SELECT DISTINCT j.queue, ${group_of(j; j)} AS group_key, -1::int8 AS round, -1::int8 AS full_us, -1::int8
    AS wait_us FROM ${step_jobs} j; $3)};

-- name: claim_step_end
-- The same: how far it is. Returns the queue and its name.
UPDATE @claim_queue c
SET at_priority = coalesce(l.priority, c.at_priority), at_seq = coalesce(l.seq, c.at_seq), built = coalesce(l.n, 0) <
    $2::int4
FROM @queues q
LEFT JOIN (
    SELECT j.queue, j.priority, j.seq, count(*) OVER () AS n
    FROM ${step_jobs} j
    ORDER BY j.priority, j.seq DESC
    LIMIT 1
) l ON l.queue = q.number
WHERE NOT c.built AND q.number = c.queue AND c.queue = CASE WHEN $1::int4 > 0 THEN $1::int4 ELSE ${step_first} END
RETURNING q.number, q.name;

-- name: claim_clean
-- Removes what is left of orders that are not used any more, at most $1 rows of each kind, and groups without ready
-- jobs whose bucket is full at $2 (µs). Returns how many.
WITH r AS (
    DELETE FROM @claim_ready
    WHERE ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM @claim_queue c
        JOIN @claim_ready r ON r.queue = c.queue AND r.version < c.version
        WHERE c.dirty
        LIMIT $1::int4
    ))
    RETURNING 1
), g AS (
    DELETE FROM @claim_group
    WHERE ctid = ANY (ARRAY(
        SELECT g.ctid
        FROM @claim_queue c
        JOIN @claim_group g ON g.queue = c.queue AND g.version < c.version
        WHERE c.dirty
        LIMIT $1::int4
    ))
    RETURNING 1
), i AS (
    DELETE FROM @claim_group
    WHERE ctid = ANY (ARRAY(
        SELECT g.ctid
        FROM @claim_group g
        WHERE g.seq IS NULL AND g.full_us <= $2::int8
        LIMIT $1::int4
    ))
    RETURNING 1
)
SELECT (SELECT count(*) FROM r) + (SELECT count(*) FROM g) + (SELECT count(*) FROM i);

-- name: claim_clean_end
-- Queues of which nothing is left to remove; those without limits are forgotten.
WITH d AS (
    SELECT c.queue
    FROM @claim_queue c
    WHERE c.dirty AND NOT EXISTS (
        SELECT FROM @claim_ready r WHERE r.queue = c.queue AND r.version < c.version
    ) AND NOT EXISTS (
        SELECT FROM @claim_group g WHERE g.queue = c.queue AND g.version < c.version
    )
), x AS (
    DELETE FROM @claim_queue c
    USING d
    WHERE c.queue = d.queue AND c.dropped
)
UPDATE @claim_queue c
SET dirty = false
FROM d
WHERE c.queue = d.queue AND NOT c.dropped;
