-- SPDX-License-Identifier: Apache-2.0
-- Heartbeats, the lease of the leader, and what the leader does as time passes (heartbeat.c, tick.c).

-- name: leader_take
-- Takes or renews the lease of the leader. Takes the epoch of this node ($1), the duration in ms ($2) and
-- the manual time or 0 ($3). Returns the leader's epoch if this node leads. It does not wait for the row: a
-- leader that was stopped in the middle of a tick holds it locked until the server ends its transaction.
WITH t AS (
    SELECT ${now($3)} AS now
), l AS (
    SELECT d.one
    FROM @leader d, t
    WHERE d.holder = $1::int4 OR d.until <= t.now
    FOR UPDATE OF d SKIP LOCKED
)
UPDATE @leader d
SET epoch = CASE WHEN d.holder = $1::int4 THEN d.epoch ELSE d.epoch + 1 END, holder = $1::int4, until =
    t.now + $2::int8
FROM t, l
WHERE d.one = l.one
RETURNING d.epoch;

-- name: leader_lock
-- Returns a row if this node ($2) still leads with this leader's epoch ($1), and locks it until the
-- transaction ends.
SELECT epoch
FROM @leader
WHERE epoch = $1::int8 AND holder = $2::int4
FOR UPDATE;

-- name: node_heartbeat
-- Writes the heartbeat of a node and removes nodes that were not seen for an hour. Takes epoch ($1), number
-- ($2), the manual time or 0 ($3), version ($4). Returns how many other nodes were seen in the last minute.
WITH t AS (
    SELECT ${now($3)} AS now
), old AS (
    DELETE FROM @node
    WHERE seen_at < (SELECT now FROM t) - 3600000 AND epoch <> $1::int4
)
INSERT INTO @node AS n (epoch, number, seen_at, version)
SELECT $1::int4, $2::int4, t.now, $4::text
FROM t
ON CONFLICT (epoch) DO UPDATE SET seen_at = excluded.seen_at, version = excluded.version
RETURNING (
    SELECT count(*)
    FROM @node o, t
    WHERE o.epoch <> $1::int4 AND o.seen_at > t.now - 60000
)::int4;

-- name: nodes
-- Returns the time, the leader and the nodes, at most $2. Takes the manual time or 0 ($1).
SELECT ${now($1)}, l.epoch, l.holder, l.until, n.epoch, n.number, n.seen_at, n.version
FROM @leader l
LEFT JOIN (SELECT * FROM @node ORDER BY epoch DESC LIMIT $2::int4) n ON true
ORDER BY n.epoch;

-- name: commit_marker
-- Writes something, so that its commit waits for the disk (see gate.c). Takes epoch ($1), number ($2), the
-- manual time or 0 ($3).
INSERT INTO @node AS n (epoch, number, seen_at)
VALUES ($1::int4, $2::int4, ${now($3)})
ON CONFLICT (epoch) DO UPDATE SET syncs = n.syncs + 1;

-- name: node_leave
-- Removes the node $1, and its lease if it leads.
WITH l AS (
    UPDATE @leader
    SET until = 0, holder = 0
    WHERE holder = $1::int4
)
DELETE FROM @node
WHERE epoch = $1::int4;

-- name: due_leases
-- Returns and locks running jobs whose lease ended by $1, at most $2.
SELECT ${job_columns}
FROM @job j
WHERE j.state = ${running} AND j.until <= $1::int8
ORDER BY j.until
LIMIT $2::int4
FOR UPDATE SKIP LOCKED;

-- name: due_jobs
-- Returns and locks scheduled jobs that are due at $1, at most $2.
SELECT ${job_columns}
FROM @job j
WHERE j.state = ${scheduled} AND j.run_at <= $1::int8
ORDER BY j.run_at, j.seq
LIMIT $2::int4
FOR UPDATE SKIP LOCKED;

-- name: due_expiry
-- Returns and locks waiting jobs that expired by $1, at most $2.
SELECT ${job_columns}
FROM @job j
WHERE ${waits(j)} AND j.expires_at > 0 AND j.expires_at <= $1::int8
ORDER BY j.expires_at
LIMIT $2::int4
FOR UPDATE SKIP LOCKED;

-- name: due_bound
-- Returns and locks running jobs whose lease was bound to a connection of a node that was not seen since
-- $1, at most $2. $3 is the epoch of this node.
SELECT ${job_columns}
FROM @job j
WHERE j.state = ${running} AND j.flags & ${flag_bound} = ${flag_bound} AND j.token_epoch <> $3::int4 AND NOT
    EXISTS (
    SELECT
    FROM @node n
    WHERE n.epoch = j.token_epoch AND n.seen_at > $1::int8
)
ORDER BY j.until
LIMIT $2::int4
FOR UPDATE SKIP LOCKED;

-- part: purged_below(q)
-- Jobs of the queue that wait do not exist any more if their generation is below this one.
CASE WHEN ${q}.deleted THEN 2147483647 ELSE ${q}.generation END

-- part: no_job(which)
-- Whether the queue q has no such job; it looks at one entry of an index.
(SELECT j.seq FROM @job j WHERE j.queue = q.number AND ${which} LIMIT 1) IS NULL

-- name: due_purging
-- Returns and locks up to $1 jobs of queues that were purged or deleted.
SELECT j.seq
FROM @job j
WHERE j.seq = ANY (ARRAY(
    SELECT d.seq
    FROM @queues q
    CROSS JOIN LATERAL (
        (
            SELECT seq
            FROM @job j
            WHERE j.queue = q.number AND j.state = ${ready} AND j.generation < ${purged_below(q)}
            LIMIT $1::int4
        )
        UNION ALL (
            SELECT seq
            FROM @job j
            WHERE j.queue = q.number AND j.state = ${scheduled} AND j.generation < ${purged_below(q)}
            LIMIT $1::int4
        )
        UNION ALL (
            SELECT seq
            FROM @job j
            WHERE j.queue = q.number AND j.state = ${blocked} AND j.generation < ${purged_below(q)}
            LIMIT $1::int4
        )
        UNION ALL (
            SELECT seq
            FROM @job j
            WHERE q.deleted AND j.queue = q.number AND ${ended(j)}
            LIMIT $1::int4
        )
        UNION ALL (
            SELECT seq
            FROM @job j
            WHERE q.deleted AND j.queue = q.number AND j.state = ${running}
            LIMIT $1::int4
        )
    ) d
    WHERE q.purging
    LIMIT $1::int4
))
ORDER BY j.seq
FOR UPDATE;

-- name: purging_end
-- Ends the purge of queues in which nothing is left to remove, and removes the deleted ones.
WITH q AS (
    SELECT q.number, q.deleted
    FROM @queues q
    WHERE q.purging AND ${no_job(j.state = ${ready} AND j.generation < ${purged_below(q)})}
        AND ${no_job(j.state = ${scheduled} AND j.generation < ${purged_below(q)})}
        AND ${no_job(j.state = ${blocked} AND j.generation < ${purged_below(q)})}
        AND (NOT q.deleted OR (${no_job(${ended(j)})} AND ${no_job(j.state = ${running})}))
), g AS (
    DELETE FROM @queues
    USING q
    WHERE queues.number = q.number AND q.deleted
), t AS (
    DELETE FROM @total
    USING q
    WHERE total.queue = q.number AND q.deleted
), h AS (
    DELETE FROM @hour
    USING q
    WHERE hour.queue = q.number AND q.deleted
)
UPDATE @queues
SET purging = false
FROM q
WHERE queues.number = q.number AND NOT q.deleted;

-- name: due_retention
-- Removes finished and dead jobs that their queue does not keep any longer: too many, or too old at $1. At
-- most $2; $3 is the hour. Returns how many of each queue.
WITH v AS MATERIALIZED (
    SELECT d.seq, d.queue, d.state
    FROM @queues q
    JOIN @total t ON t.queue = q.number
    CROSS JOIN LATERAL ((${beyond(${done}; t.jobs_done; q.keep_done; q.keep_done_ms)}) UNION ALL
        (${beyond(${cancelled}; t.jobs_cancelled; q.keep_done; q.keep_done_ms)}) UNION ALL
        (${beyond(${dead}; t.jobs_dead; q.keep_dead; q.keep_dead_ms)})) d
    WHERE NOT q.deleted AND t.jobs_done + t.jobs_dead + t.jobs_cancelled > 0
    LIMIT $2::int4
), d AS (
    DELETE FROM @job j
    WHERE j.seq = ANY (ARRAY(SELECT v.seq FROM v)) AND j.state + 0 BETWEEN ${done} AND ${cancelled}
    RETURNING j.seq, j.queue, j.state
), e AS (
    DELETE FROM @dependent t
    WHERE t.seq = ANY (ARRAY(SELECT d.seq FROM d))
), a AS (
    DELETE FROM @attempt t
    WHERE t.seq = ANY (ARRAY(SELECT d.seq FROM d))
), s AS (
    DELETE FROM @step t
    WHERE t.seq = ANY (ARRAY(SELECT d.seq FROM d))
)
INSERT INTO @delta AS o (queue, hour, jobs_done, jobs_dead, jobs_cancelled, removed)
SELECT queue, $3::int4, -count(*) FILTER (WHERE state = ${done}), -count(*) FILTER (WHERE state = ${dead}),
    -count(*) FILTER (WHERE state = ${cancelled}), count(*)
FROM d
GROUP BY queue
RETURNING o.removed;

-- name: due_idempotency_keys
-- Removes idempotency keys that expired by $1, at most $2; returns how many.
WITH x AS (
    DELETE FROM @idempotency_key
    WHERE ctid = ANY (ARRAY(
        SELECT ctid
        FROM @idempotency_key
        WHERE expires_at <= $1::int8
        ORDER BY expires_at
        LIMIT $2::int4
    ))
    RETURNING 1
), n AS (
    SELECT count(*)::int8 AS n
    FROM x
)
INSERT INTO @key_delta AS o (idempotency_keys)
SELECT -n
FROM n
WHERE n > 0
RETURNING -o.idempotency_keys;

-- name: due_kept_replies
-- Removes replies about leases that were kept since before $1, at most $2.
DELETE FROM @kept_reply
WHERE ctid = ANY (ARRAY(
    SELECT ctid
    FROM @kept_reply
    WHERE at <= $1::int8
    ORDER BY at
    LIMIT $2::int4
));

-- name: due_hours
-- Removes history before the hour $1.
DELETE FROM @hour
WHERE hour < $1::int4;

-- name: resumed
-- Returns the queues whose pause ended between $1 and $2.
SELECT number, name
FROM @queues
WHERE NOT deleted AND paused_until > $1::int8 AND paused_until <= $2::int8;

-- name: add_deltas
-- Moves what was added to the sums to the totals and the history.
WITH d AS (
    DELETE FROM @delta
    RETURNING *
), t AS (
    INSERT INTO @total AS o (queue, ${sums})
    SELECT queue, ${each(${sums}; sum(%))}
    FROM d
    GROUP BY queue
    ON CONFLICT (queue) DO UPDATE SET ${each(${sums}; % = o.% + excluded.%)}
), k AS (
    DELETE FROM @key_delta
    RETURNING *
), l AS (
    INSERT INTO @key_total AS o (idempotency_keys, kv_keys, kv_bytes)
    SELECT sum(idempotency_keys), sum(kv_keys), sum(kv_bytes)
    FROM k
    HAVING count(*) > 0
    ON CONFLICT (one) DO UPDATE SET ${each(idempotency_keys, kv_keys, kv_bytes; % = o.% + excluded.%)}
)
INSERT INTO @hour AS o (queue, hour, ${outcome_counts})
SELECT queue, hour, ${each(${outcome_counts}; sum(%))}
FROM d
GROUP BY queue, hour
HAVING ${each(${outcome_counts}; sum(%) <> 0; OR)}
ON CONFLICT (queue, hour) DO UPDATE SET ${each(${outcome_counts}; % = o.% + excluded.%)};

-- name: next_due
-- Returns when something of each kind is due next, or 0: jobs, leases, expiry, pauses, idempotency keys,
-- keys, retention. Takes the time ($1) and whether to look for the kinds that can wait ($2).
SELECT coalesce(
    (
        SELECT run_at
        FROM @job
        WHERE state = ${scheduled}
        ORDER BY run_at
        LIMIT 1
    ), 0
), coalesce(
    (
        SELECT until
        FROM @job
        WHERE state = ${running}
        ORDER BY until
        LIMIT 1
    ), 0
), coalesce(
    (
        SELECT expires_at
        FROM @job j
        WHERE ${waits(j)} AND expires_at > 0
        ORDER BY expires_at
        LIMIT 1
    ), 0
), coalesce(
    (
        SELECT min(paused_until)
        FROM @queues
        WHERE NOT deleted AND paused_until > $1::int8
    ), 0
), coalesce(
    (
        SELECT expires_at
        FROM @idempotency_key
        WHERE $2::bool
        ORDER BY expires_at
        LIMIT 1
    ), 0
), coalesce(
    (
        SELECT expires_at
        FROM @kv
        WHERE expires_at > 0
        ORDER BY expires_at
        LIMIT 1
    ), 0
), coalesce(
    (
        SELECT min(least(${oldest(${done})} + q.keep_done_ms, ${oldest(${cancelled})} + q.keep_done_ms,
            ${oldest(${dead})} + q.keep_dead_ms))
        FROM @queues q
        WHERE $2::bool AND NOT q.deleted
    ), 0
);

-- name: figures
-- Returns the figures of the store: jobs by state, idempotency keys, queues, keys and their bytes, pending
-- and dead notices, and whether a queue has limits at the claim, or had.
SELECT x.*, k.idempotency_keys, (SELECT count(*) FROM @queues WHERE NOT deleted)::int8, k.kv_keys,
    k.kv_bytes, (
    SELECT count(*)
    FROM @notice
    WHERE state = ${notice_pending}
)::int8, (
    SELECT count(*)
    FROM @notice
    WHERE state = ${notice_dead}
)::int8, EXISTS (
    SELECT
    FROM @claim_queue
)
FROM (
    SELECT ${each(${job_counts}; coalesce(sum(%), 0)::int8)}
    FROM (
        SELECT ${job_counts}
        FROM @total
        UNION ALL
        SELECT ${job_counts}
        FROM @delta
    ) y
) x, (
    SELECT coalesce(sum(idempotency_keys), 0)::int8 AS idempotency_keys, coalesce(sum(kv_keys), 0)::int8 AS
        kv_keys, coalesce(sum(kv_bytes), 0)::int8 AS kv_bytes
    FROM ${key_counts} z
) k;

-- name: due_items
-- Returns and locks items that the job of a trigger holds although that job has ended, at most $1, each
-- with the state in which it ended or 0.
WITH RECURSIVE h AS (
    (
        SELECT j.holder
        FROM @job j
        WHERE j.state = ${running} AND j.lease_ms = 0 AND j.holder > 0
        ORDER BY j.holder
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT j.holder
        FROM @job j
        WHERE j.state = ${running} AND j.lease_ms = 0 AND j.holder > 0 AND j.holder > h.holder
        ORDER BY j.holder
        LIMIT 1
    )
    FROM h
    WHERE h.holder IS NOT NULL
), d AS MATERIALIZED (
    SELECT h.holder, coalesce(k.state, 0::int2) AS state
    FROM h
    LEFT JOIN LATERAL (
        SELECT j.state
        FROM @job j
        JOIN @queues q ON ${shown}
        WHERE j.seq = h.holder
    ) k ON true
    WHERE h.holder IS NOT NULL AND (k.state IS NULL OR ${ended(k)})
)
SELECT ${job_columns}, d.state
FROM d
JOIN @job j ON j.holder = d.holder AND j.state = ${running} AND j.lease_ms = 0 AND j.holder > 0
ORDER BY j.seq
LIMIT $1::int4
FOR UPDATE OF j SKIP LOCKED;
