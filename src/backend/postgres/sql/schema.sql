-- SPDX-License-Identifier: Apache-2.0
-- The tables, and the checks before they are used (schema.c). '@' stands for the schema and a dot, '@@' for the
-- schema alone. There is one version of the schema and no upgrade code until the first release.

-- part: churn
-- Tables that are written all the time are vacuumed by the number of dead rows, not by their share, so that
-- dead rows are removed within a minute however large the table is.
WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.1)

-- name: server_settings
-- Returns the settings on which durability depends.
SELECT current_setting('server_encoding'), pg_is_in_recovery(), current_setting('fsync'),
    current_setting('synchronous_commit'), current_setting('full_page_writes');

-- name: schema_found
-- Returns whether the schema and its table meta exist, and whether this role may create the schema, create
-- tables in it, and use all its tables and sequences.
SELECT n.oid IS NOT NULL, c.oid IS NOT NULL,
    has_database_privilege(current_database(), 'CREATE'),
    coalesce(has_schema_privilege(n.oid, 'CREATE'), false),
    coalesce(has_schema_privilege(n.oid, 'USAGE') AND NOT EXISTS (
        SELECT
        FROM pg_class t
        WHERE t.relnamespace = n.oid AND (
            t.relkind = 'r' AND NOT (has_table_privilege(t.oid, 'SELECT')
                AND has_table_privilege(t.oid, 'INSERT') AND has_table_privilege(t.oid, 'UPDATE')
                AND has_table_privilege(t.oid, 'DELETE'))
            OR t.relname IN ('epoch', 'job_seq', 'queue_number', 'kv_version', 'notice_number',
                'schedule_number', 'schedule_change') AND NOT (
                has_sequence_privilege(t.oid, 'USAGE') AND has_sequence_privilege(t.oid, 'SELECT')))
    ), false)
FROM (SELECT 1) x
LEFT JOIN pg_namespace n ON n.nspname = '@@'
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'meta';

-- name: schema_lock
-- Of several nodes that start at once, one creates the tables and the others wait.
SELECT pg_advisory_xact_lock(hashtext('holdfast @@'));

-- name: schema_create
CREATE SCHEMA @@;

-- name: schema_version
-- Returns the version of the schema.
SELECT version FROM @meta;

-- name: boot
-- Returns the epoch of this boot and the key for hashes.
SELECT nextval('@epoch'), encode(hash_key, 'hex') FROM @meta;

-- name: schema_tables
-- Creates everything.
-- One row.
CREATE TABLE @meta (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    version int4 NOT NULL,
    hash_key bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    alerts int8 NOT NULL DEFAULT 1  -- version of the alert rules
);
CREATE SEQUENCE @epoch AS int4;
CREATE SEQUENCE @job_seq MAXVALUE 9007199254740991 CACHE 1;
CREATE SEQUENCE @queue_number AS int4 CACHE 1;

-- A heartbeat for each node. Rows are updated in place, hence the fillfactor.
CREATE TABLE @node (
    epoch int4 PRIMARY KEY,  -- of the boot
    number int4 NOT NULL,
    seen_at int8 NOT NULL,
    version text NOT NULL DEFAULT '',
    syncs int8 NOT NULL DEFAULT 0  -- see commit_marker
) WITH (fillfactor = 10);

-- One row: the lease of the leader.
CREATE TABLE @leader (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    epoch int8 NOT NULL DEFAULT 0,  -- increased when another node takes over
    holder int4 NOT NULL DEFAULT 0,  -- epoch of the node
    until int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 20);
INSERT INTO @leader DEFAULT VALUES;

CREATE TABLE @queues (
    number int4 PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    owner text,
    description text,
    attributes text,
    policy bytea NOT NULL,  -- encoded by core (policy.c)
    generation int4 NOT NULL DEFAULT 0,
    created_at int8 NOT NULL,
    updated_at int8 NOT NULL,
    paused_until int8 NOT NULL DEFAULT 0,
    keep_done int8 NOT NULL,  -- retention, as in the policy
    keep_done_ms int8 NOT NULL,
    keep_dead int8 NOT NULL,
    keep_dead_ms int8 NOT NULL,
    deleted bool NOT NULL DEFAULT false,  -- its jobs are being removed
    purging bool NOT NULL DEFAULT false  -- the leader has jobs of it to remove
);
CREATE UNIQUE INDEX queue_by_name ON @queues (name) WHERE NOT deleted;
CREATE INDEX queue_purging ON @queues (number) WHERE purging;

-- The sums of each queue, without what units have added since (see the delta tables).
CREATE TABLE @total (
    queue int4 PRIMARY KEY,
    ${each(${sums}; % int8 NOT NULL DEFAULT 0)}
) WITH (fillfactor = 50);

-- What happened in each queue, by hour: the history.
CREATE TABLE @hour (
    queue int4,
    hour int4,  -- hours since 1970
    ${each(${outcome_counts}; % int8 NOT NULL DEFAULT 0)},
    PRIMARY KEY (queue, hour)
) WITH (fillfactor = 70);

-- What units added to the sums since the leader last added it to the total.
CREATE TABLE @delta (
    queue int4 NOT NULL,
    hour int4 NOT NULL,
    ${each(${sums}; % int8 NOT NULL DEFAULT 0)}
) ${churn};
CREATE INDEX delta_by_queue ON @delta (queue);

-- The counts of all keys, without what units have added since (see the delta tables): one row.
CREATE TABLE @key_total (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    idempotency_keys int8 NOT NULL DEFAULT 0,
    kv_keys int8 NOT NULL DEFAULT 0,
    kv_bytes int8 NOT NULL DEFAULT 0  -- of keys and values
) WITH (fillfactor = 50);

-- What units added to them since.
CREATE TABLE @key_delta (
    idempotency_keys int8 NOT NULL DEFAULT 0,
    kv_keys int8 NOT NULL DEFAULT 0,
    kv_bytes int8 NOT NULL DEFAULT 0
) ${churn};

CREATE TABLE @job (
    seq int8 PRIMARY KEY,
    id_hi int8 NOT NULL,  -- upper half of the id
    queue int4 NOT NULL,
    state int2 NOT NULL,  -- enum job_state
    reason int2 NOT NULL DEFAULT 0,  -- enum job_reason
    priority int8 NOT NULL,
    run_at int8 NOT NULL,  -- ms; all times are, since 1970
    since int8 NOT NULL,  -- when it entered this state
    generation int4 NOT NULL,  -- of its queue when it was enqueued; a purge increases that of the queue
    failures int4 NOT NULL DEFAULT 0,
    crashes int4 NOT NULL DEFAULT 0,
    payload_kind int2 NOT NULL,
    payload_bytes int4 NOT NULL,
    flags int2 NOT NULL DEFAULT 0,  -- JOB_BOUND, JOB_PENDING (core/jobs/job.h), FLAG_SLOT (sql/version.h)
    token_epoch int4 NOT NULL DEFAULT 0,  -- of the newest lease: epoch of the node …
    token_counter int8 NOT NULL DEFAULT 0,  -- … and a counter
    lease_ms int4 NOT NULL DEFAULT 0,
    until int8 NOT NULL DEFAULT 0,  -- end of the lease
    timeout_ms int8 NOT NULL DEFAULT 0,  -- limits of the newest lease: struct lease_limits
    cancel_grace_ms int4 NOT NULL DEFAULT 0,
    cancel_at int8 NOT NULL DEFAULT 0,
    worker text,
    nonce int8 NOT NULL DEFAULT 0,  -- identifies the claim that got it; 0 = none
    started_at int8 NOT NULL DEFAULT 0,
    reply int2 NOT NULL DEFAULT 0,  -- the last reply about this lease, enum op_kind + 1; 0 = none
    reply_state int2 NOT NULL DEFAULT 0,
    reply_run_at int8 NOT NULL DEFAULT 0,
    outcome_counts int8 NOT NULL DEFAULT 0,  -- struct outcome_counts, packed
    ${each(${job_texts}; % text COLLATE "C")},  -- core/jobs/job_texts.h
    holds_key bool NOT NULL DEFAULT false,  -- whether its unique key excludes others
    expires_at int8 NOT NULL DEFAULT 0,
    options bytea,  -- encoded by core
    undelivered bytea,  -- keys under which its payload is stored when it dies
    result_kind int2 NOT NULL DEFAULT 0,
    error_kind int2 NOT NULL DEFAULT 0,
    holder int8 NOT NULL DEFAULT 0,  -- job of the trigger that took it; 0 = none
    holder_hi int8 NOT NULL DEFAULT 0,
    payload bytea,
    result bytea,
    error bytea,
    progress bytea,  -- of the newest attempt, if its token says so (core/jobs/progress.h)
    log bytea,
    step_index bytea  -- of its steps (core/jobs/steps.h); NULL = it has none
) ${churn};
CREATE INDEX job_ready ON @job (queue, generation, priority DESC, seq) WHERE state = ${ready};
CREATE INDEX job_pending ON @job (seq) WHERE state = ${ready} AND flags & ${flag_pending} <> 0;
CREATE INDEX job_due ON @job (state, run_at) WHERE state = ${scheduled};
CREATE INDEX job_due_queue ON @job (queue, run_at) WHERE state = ${scheduled};
CREATE INDEX job_lease ON @job (until) WHERE state = ${running};
CREATE INDEX job_expiry ON @job (expires_at) WHERE (state <= ${ready} OR state = ${blocked}) AND expires_at > 0;
CREATE INDEX job_kept ON @job (queue, state, since, seq) WHERE state BETWEEN ${done} AND ${cancelled};
CREATE INDEX job_blocked ON @job (queue, generation, seq) WHERE state = ${blocked};
CREATE UNIQUE INDEX job_key ON @job (queue, unique_key) WHERE holds_key;
CREATE INDEX job_group ON @job (queue, group_key, state) WHERE group_key IS NOT NULL;
CREATE INDEX job_task ON @job ((${task_status}), (${task_scheduled_at})) WHERE ${by_due};
CREATE INDEX job_slot ON @job (queue, (coalesce(group_key, ''))) WHERE state = ${running} AND flags & ${flag_slot} <> 0;
CREATE INDEX job_holder ON @job (holder) WHERE state = ${running} AND lease_ms = 0 AND holder > 0;

-- Queues that have limits at the claim, or had (limits.sql).
CREATE TABLE @claim_queue (
    queue int4 PRIMARY KEY,
    ordered bool NOT NULL,  -- its ready jobs are in claim_ready and its groups in claim_group
    grouped bool NOT NULL,
    fair bool NOT NULL,
    ageing_ms int8 NOT NULL,
    max_running int8 NOT NULL,
    max_running_per_group int8 NOT NULL,
    round int8 NOT NULL DEFAULT 0,  -- the highest in which a group was served
    full_us int8 NOT NULL DEFAULT 0,  -- when its bucket is full
    version int4 NOT NULL DEFAULT 1,  -- of its order: rows with another one do not count, and are removed
    built bool NOT NULL,  -- its order has all ready jobs; if not, those up to this place:
    at_priority int8 NOT NULL DEFAULT ${int8_max},
    at_seq int8 NOT NULL DEFAULT 0,
    dirty bool NOT NULL DEFAULT false,  -- there may be rows of older versions
    dropped bool NOT NULL DEFAULT false  -- the queue was deleted
) WITH (fillfactor = 50);

-- The ready jobs of such queues, in the order in which they start within their group.
CREATE TABLE @claim_ready (
    seq int8 PRIMARY KEY,
    queue int4 NOT NULL,
    version int4 NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    priority int8 NOT NULL  -- claim_priority (core/queues/claim_limits.h)
) ${churn};
CREATE INDEX claim_ready_order ON @claim_ready (queue, version, group_key, priority DESC, seq);

-- The groups that have ready jobs, each with the place of its first one; and those whose bucket is not full.
CREATE TABLE @claim_group (
    queue int4,
    group_key text COLLATE "C",
    version int4 NOT NULL,
    priority int8,  -- of its first ready job, like seq; NULL = it has none
    seq int8,
    round int8 NOT NULL,
    busy bool NOT NULL,  -- it has no free slot
    full_us int8 NOT NULL,
    wait_us int8 NOT NULL,  -- when it gets its next token; 0 = it has one
    open bool NOT NULL GENERATED ALWAYS AS (NOT busy AND wait_us = 0 AND seq IS NOT NULL) STORED,
    PRIMARY KEY (queue, group_key)
) ${churn};
CREATE INDEX claim_group_place ON @claim_group (queue, version, open, priority DESC, round, seq);
CREATE INDEX claim_group_wait ON @claim_group (queue, wait_us) WHERE wait_us > 0;
CREATE INDEX claim_group_idle ON @claim_group (full_us) WHERE seq IS NULL;

-- Jobs that depend on others, until they are removed: the rule, and how many parents they had and how these ended.
CREATE TABLE @dependent (
    seq int8 PRIMARY KEY,
    rule int2 NOT NULL,  -- enum dependency_rule
    open bool NOT NULL,  -- more parents may be added
    total int4 NOT NULL,
    done int4 NOT NULL,
    dead int4 NOT NULL,
    cancelled int4 NOT NULL,
    removed int4 NOT NULL
) ${churn};

-- For which jobs they still wait: the edges.
CREATE TABLE @dependency (
    child int8,
    parent int8,
    PRIMARY KEY (child, parent)
) ${churn};
CREATE INDEX dependency_parent ON @dependency (parent, child);

-- Jobs that have ended, or stopped waiting, and whose edges are still to be removed.
CREATE TABLE @dependency_work (
    seq int8 PRIMARY KEY,
    n int8 GENERATED ALWAYS AS IDENTITY,  -- order in which they ended
    how int2 NOT NULL  -- how it ended first, enum dependency_end
) ${churn};
CREATE INDEX dependency_work_order ON @dependency_work (n);

-- Attempts that ended, the newest of each job.
CREATE TABLE @attempt (
    seq int8 NOT NULL,
    n int8 GENERATED ALWAYS AS IDENTITY,  -- order in which attempts ended
    queue int4 NOT NULL,
    number int4 NOT NULL,
    started_at int8 NOT NULL,
    ended_at int8 NOT NULL,
    outcome int2 NOT NULL,  -- enum attempt_outcome
    error_kind int2 NOT NULL,
    worker text,
    error bytea,
    PRIMARY KEY (seq, n)
);
CREATE INDEX attempt_wrong ON @attempt (n) WHERE outcome IN (${attempt_failed},
    ${attempt_lease_expired}, ${attempt_timed_out}, ${attempt_released_with_error});

-- Results of steps.
CREATE TABLE @step (
    seq int8,
    name text COLLATE "C",
    result bytea NOT NULL,
    PRIMARY KEY (seq, name)
);

-- Kept replies: the reply to the report that ended a lease, for a client that repeats the report.
CREATE TABLE @kept_reply (
    epoch int4,
    counter int8,
    seq int8 NOT NULL,
    kind int2 NOT NULL,  -- enum op_kind + 1
    state int2 NOT NULL,
    run_at int8 NOT NULL,
    at int8 NOT NULL,
    PRIMARY KEY (epoch, counter)
);
CREATE INDEX kept_reply_by_time ON @kept_reply (at);

-- Keys are stored as 128-bit hashes.
CREATE TABLE @idempotency_key (
    hi int8,
    lo int8,
    fingerprint int8 NOT NULL,  -- of the request
    seq int8 NOT NULL,
    id_hi int8 NOT NULL,
    expires_at int8 NOT NULL,
    PRIMARY KEY (hi, lo)
);
CREATE INDEX idempotency_key_by_time ON @idempotency_key (expires_at);

CREATE TABLE @alert (
    name text COLLATE "C" PRIMARY KEY,
    rule bytea NOT NULL
);

-- Conditions that hold.
CREATE TABLE @raised (
    alert text COLLATE "C",
    queue text COLLATE "C",
    since int8 NOT NULL,
    value int8 NOT NULL,
    mark int8 NOT NULL,
    PRIMARY KEY (alert, queue)
);

-- The outbox of notifications.
CREATE SEQUENCE @notice_number MAXVALUE 9007199254740991 CACHE 1;
CREATE TABLE @notice (
    number int8 PRIMARY KEY,
    id_hi int8 NOT NULL,
    kind int2 NOT NULL,
    edge int2 NOT NULL,
    at int8 NOT NULL,
    alert text COLLATE "C" NOT NULL,
    queue text NOT NULL,
    job_seq int8 NOT NULL,
    job_hi int8 NOT NULL,
    reason int2 NOT NULL,
    attempts int8 NOT NULL,
    value int8 NOT NULL,
    mark int8 NOT NULL,
    subject bytea NOT NULL,
    body bytea NOT NULL,
    state int2 NOT NULL DEFAULT 0,  -- enum notice_state
    tries int8 NOT NULL DEFAULT 0,
    since int8 NOT NULL,
    due int8 NOT NULL,
    status int4 NOT NULL DEFAULT 0,
    error bytea NOT NULL DEFAULT '',
    check_at int8 NOT NULL,  -- when to deliver it: due, or later while its target does not answer
    holder int4 NOT NULL DEFAULT 0  -- epoch of the node that delivers it; 0 = none
) WITH (fillfactor = 70);
CREATE INDEX notice_check ON @notice (check_at, number) WHERE state = ${notice_pending};
CREATE INDEX notice_held ON @notice (holder) WHERE holder > 0;
CREATE INDEX notice_alert ON @notice (alert);

-- What each node knows about workers.
CREATE TABLE @worker (
    name text COLLATE "C" NOT NULL,
    node int4 NOT NULL,  -- epoch of the node
    keep_until int8 NOT NULL,
    facts bytea NOT NULL,
    PRIMARY KEY (name, node)
) WITH (fillfactor = 50);

-- Circuit breakers: of targets of webhooks (scheme://host:port), and those that clients named, whose settings
-- are 0 where they have the server's defaults.
CREATE TABLE @breaker (
    target text COLLATE "C" PRIMARY KEY,
    state int2 NOT NULL,
    failures int8 NOT NULL,
    probes int8 NOT NULL,
    until int8 NOT NULL,
    changed_at int8 NOT NULL,
    failure_threshold int8 NOT NULL,
    open_cooldown_seconds int8 NOT NULL,
    half_open_probe_count int8 NOT NULL,
    used_at int8 NOT NULL
) WITH (fillfactor = 50);

CREATE SEQUENCE @schedule_number AS int4 CACHE 1;
CREATE SEQUENCE @schedule_change CACHE 1;
CREATE TABLE @schedule (
    number int4 PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    owner text NOT NULL,
    description text NOT NULL,
    attributes text NOT NULL,
    spec bytea NOT NULL,  -- encoded by core
    kind int2 NOT NULL,
    source text NOT NULL,
    target text NOT NULL,
    paused bool NOT NULL,
    created_at int8 NOT NULL,
    updated_at int8 NOT NULL,
    changed int8 NOT NULL,  -- order of the changes
    next_at int8 NOT NULL,
    retry_at int8 NOT NULL,
    last_at int8 NOT NULL,
    fired_at int8 NOT NULL,
    seq int8 NOT NULL,
    id_hi int8 NOT NULL,
    item int8 NOT NULL,
    fired int8 NOT NULL,
    missed int8 NOT NULL,
    failures int8 NOT NULL,
    error int2 NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX schedule_changed ON @schedule (changed);

-- The key-value store.
CREATE SEQUENCE @kv_version MAXVALUE 9007199254740991 CACHE 1;
CREATE TABLE @kv (
    key bytea PRIMARY KEY,
    version int8 NOT NULL,
    expires_at int8 NOT NULL DEFAULT 0,
    kind int2 NOT NULL,
    value bytea NOT NULL
) ${churn};
CREATE INDEX kv_expiry ON @kv (expires_at) WHERE expires_at > 0;

-- Bulk actions that are under way.
CREATE TABLE @bulk (
    number int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action int2 NOT NULL,
    queue int4 NOT NULL,
    states int4 NOT NULL,
    group_key text NOT NULL,  -- this and the next: '' = any
    kind text NOT NULL,
    seq_max int8 NOT NULL,
    at int8 NOT NULL,
    cursor int8 NOT NULL DEFAULT 0,  -- sequence that it has reached
    changed int8 NOT NULL DEFAULT 0,
    refused int8 NOT NULL DEFAULT 0,
    epoch int4 NOT NULL  -- of the node that carries it out
);

-- For people who inspect the database beside the running servers. Nothing can be written through the views.
CREATE FUNCTION @view_refuse() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN RAISE EXCEPTION ''% can only be read; use: %'', TG_TABLE_NAME, TG_ARGV[0]; END';

-- The jobs of the API tasks, in its own terms. The two indexed expressions are those of the index job_task.
CREATE VIEW @tasks AS
SELECT (lpad(to_hex(id_hi), 16, '0') || '8' || lpad(to_hex(seq), 15, '0'))::uuid AS id,
    attributes::json ->> 'name' AS name,
    ${task_status} AS status,
    (SELECT CASE WHEN q.name LIKE '%.high' THEN 'high' ELSE 'low' END FROM @queues q WHERE q.number = j.queue)
        AS priority,
    ${task_scheduled_at} AS scheduled_at,
    to_timestamp(CASE WHEN state = ${running} THEN until - lease_ms ELSE since END / 1000.0) AS updated_at,
    failures + crashes - (state = ${dead} AND failures + crashes > 0)::int4 AS retry_count,
    CASE WHEN state = ${running} THEN worker END AS worker,
    convert_from(error, 'UTF8') AS error,
    to_timestamp((id_hi >> 16) / 1000.0) AS created_at
FROM @job j
WHERE ${by_due} AND EXISTS (SELECT FROM @queues q WHERE ${shown} AND q.owner = 'tasks');

-- The jobs of the API webqueue, in its own terms; times are Unix seconds. Attributes contain what an import stored
-- there.
CREATE VIEW @queue AS
SELECT seq AS id,
    CASE WHEN group_key ~ '^[0-9]{1,18}$' THEN group_key::int8 END AS library_id,
    CASE WHEN payload_kind = ${payload_json} AND position('\u0000' IN convert_from(payload, 'UTF8')) = 0
        THEN convert_from(payload, 'UTF8')::json #>> '{}' ELSE unique_key END AS path,
    (SELECT substr(q.name, 10) FROM @queues q WHERE q.number = j.queue) AS queue_type,
    CASE state WHEN ${running} THEN 'running' WHEN ${done} THEN 'completed' WHEN ${dead} THEN 'error'
        ELSE 'pending' END AS status,
    priority,
    CASE WHEN state <> ${dead} THEN NULL WHEN error IS NOT NULL THEN convert_from(error, 'UTF8')
        ELSE CASE reason WHEN ${reason_failed} THEN 'failed' WHEN ${reason_rejected} THEN 'rejected'
        WHEN ${reason_crash_loop} THEN 'crash_loop' WHEN ${reason_timed_out} THEN 'timed_out'
        WHEN ${reason_expired} THEN 'expired' WHEN ${reason_damaged} THEN 'damaged' END END AS error,
    CASE WHEN state = ${done} AND result_kind = ${payload_json} THEN convert_from(result, 'UTF8') END
        AS results_json,
    coalesce(${imported_time(enqueued_at)}, (id_hi >> 16) / 1000) AS enqueued_at,
    CASE WHEN state BETWEEN ${running} AND ${cancelled} THEN coalesce(nullif(started_at, 0) / 1000, ${imported_time(started_at)}) END
        AS started_at,
    CASE WHEN state IN (${done}, ${dead}) THEN coalesce(CASE WHEN started_at = 0 THEN
        ${imported_time(completed_at)} END, since / 1000) END AS completed_at
FROM @job j
WHERE state <> ${cancelled} AND EXISTS (SELECT FROM @queues q WHERE ${shown} AND q.name LIKE 'webqueue.%');

CREATE TRIGGER refuse INSTEAD OF INSERT ON @tasks FOR EACH ROW EXECUTE FUNCTION @view_refuse('POST /api/tasks');
CREATE TRIGGER refuse_update INSTEAD OF UPDATE ON @tasks FOR EACH ROW EXECUTE FUNCTION
    @view_refuse('POST /api/tasks/ID/heartbeat, complete or fail');
CREATE TRIGGER refuse_delete INSTEAD OF DELETE ON @tasks FOR EACH ROW EXECUTE FUNCTION
    @view_refuse('DELETE /v1/jobs/ID');
CREATE TRIGGER refuse INSTEAD OF INSERT ON @queue FOR EACH ROW EXECUTE FUNCTION
    @view_refuse('holdfast enqueue, or POST /api/web/queue/enqueue');
CREATE TRIGGER refuse_update INSTEAD OF UPDATE ON @queue FOR EACH ROW EXECUTE FUNCTION
    @view_refuse('holdfast requeue ID, or POST /api/web/queue/requeue, complete or fail');
CREATE TRIGGER refuse_delete INSTEAD OF DELETE ON @queue FOR EACH ROW EXECUTE FUNCTION
    @view_refuse('DELETE /v1/jobs/ID, or POST /api/web/queue/clear-completed or clear-errors');

INSERT INTO @meta (version, hash_key)
VALUES (${schema_version}, decode(md5(random()::text || clock_timestamp()::text || pg_backend_pid()), 'hex'));
