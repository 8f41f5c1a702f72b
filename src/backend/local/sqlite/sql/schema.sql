-- SPDX-License-Identifier: Apache-2.0
-- The tables of holdfast.db (schema.c says how they are laid out and compared). The text of each statement is in
-- the file: a change of anything but comments and white space is a change of the format.

-- name: schema
-- Creates everything.
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    store_id BLOB NOT NULL,
    hash_key BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    epoch INTEGER NOT NULL,  -- of the last boot
    seq_upto INTEGER NOT NULL,  -- sequences up to this one may have been used
    position INTEGER NOT NULL,  -- records applied
    -- Position at which the journal began; it has the records that the store lacks. -1: there is no journal yet.
    journal_from INTEGER NOT NULL DEFAULT -1
) STRICT;

CREATE TABLE queues (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    generation INTEGER NOT NULL,  -- waiting jobs of another one are purged
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    paused_until INTEGER NOT NULL,
    gone INTEGER NOT NULL,  -- deleted; its jobs are being removed
    policy BLOB NOT NULL,
    owner TEXT,
    note TEXT,
    attributes TEXT
) STRICT;
CREATE UNIQUE INDEX queues_by_name ON queues (name) WHERE gone = 0;

CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    state INTEGER NOT NULL,
    marks INTEGER NOT NULL,
    since INTEGER NOT NULL,
    token_epoch INTEGER NOT NULL,  -- of the newest claim …
    token_counter INTEGER NOT NULL,
    lease_ms INTEGER NOT NULL,  -- … which is running; otherwise 0 and NULL
    worker TEXT,
    run_at INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    counts INTEGER NOT NULL,
    payload INTEGER NOT NULL,
    id_hi INTEGER NOT NULL,
    limits INTEGER NOT NULL,  -- of the newest claim: what limits its run time
    cancel_at INTEGER NOT NULL  -- when a cancel was requested; 0 = it was not
) STRICT;

-- Dead and cancelled jobs, for lists of them.
CREATE TABLE aside (
    seq INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    state INTEGER NOT NULL
) STRICT;
CREATE INDEX aside_by_queue ON aside (queue, state);

-- Jobs with payload_bytes > 0.
CREATE TABLE payload (
    seq INTEGER PRIMARY KEY,
    body BLOB NOT NULL,
    crc INTEGER NOT NULL  -- CRC32C of the body
) STRICT;

-- Jobs with flag 1.
CREATE TABLE extra (
    seq INTEGER PRIMARY KEY,
    ${each(${job_texts}; % TEXT)},  -- core/jobs/job_texts.h
    expires_at INTEGER NOT NULL,
    options BLOB
) STRICT;

-- Jobs that ended with a result, or failed at least once with a text.
CREATE TABLE outcome (
    seq INTEGER PRIMARY KEY,
    result_kind INTEGER NOT NULL DEFAULT 0,
    result BLOB,
    result_crc INTEGER NOT NULL DEFAULT 0,
    error_kind INTEGER NOT NULL DEFAULT 0,
    error TEXT
) STRICT;

-- What the holder of a lease reported: core/jobs/progress.h.
CREATE TABLE report (
    seq INTEGER PRIMARY KEY,
    progress BLOB NOT NULL,
    log BLOB NOT NULL
) STRICT;

-- Results of steps: core/jobs/steps.h.
CREATE TABLE steps (
    seq INTEGER NOT NULL,
    name TEXT NOT NULL,
    result BLOB NOT NULL,
    crc INTEGER NOT NULL,  -- CRC32C of the result
    PRIMARY KEY (seq, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE bulks (
    bulk INTEGER PRIMARY KEY,
    action INTEGER NOT NULL,
    at INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    states INTEGER NOT NULL,
    group_key TEXT,
    kind TEXT,
    seq_max INTEGER NOT NULL,
    cursor INTEGER NOT NULL DEFAULT 0,
    changed INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0
) STRICT;

-- By expiry: keys are added and removed at the two ends, and loaded in this order.
CREATE TABLE keys (
    expires_at INTEGER NOT NULL,
    key_hi INTEGER NOT NULL,
    key_lo INTEGER NOT NULL,
    fingerprint INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    id_hi INTEGER NOT NULL,
    PRIMARY KEY (expires_at, key_hi, key_lo)
) STRICT, WITHOUT ROWID;

-- Attempts that did not end by an ack; the newest 20 of each job. The row of the job describes an attempt that is
-- running or was acked, so that a job which is done at its first attempt needs no other row.
CREATE TABLE attempts (
    seq INTEGER NOT NULL,
    position INTEGER NOT NULL,  -- of the record that ended it
    queue INTEGER NOT NULL,
    number INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    error_kind INTEGER NOT NULL,
    worker TEXT,
    error TEXT,
    PRIMARY KEY (seq, position)
) STRICT, WITHOUT ROWID;
-- Finds the newest failed attempts, and their queues, without reading the rows.
CREATE INDEX attempts_by_position ON attempts (position, queue, outcome)
    WHERE outcome IN (${attempt_failed}, ${attempt_lease_expired}, ${attempt_timed_out},
    ${attempt_released_with_error});

-- The highest numbers ever used.
CREATE TABLE numbers (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    queue INTEGER NOT NULL,
    schedule INTEGER NOT NULL
) STRICT;
INSERT INTO numbers VALUES (1, 0, 0);

-- The key-value store.
CREATE TABLE kv (
    key BLOB NOT NULL PRIMARY KEY,  -- encoded: core/kvkey.h
    version INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    value BLOB NOT NULL,
    crc INTEGER NOT NULL  -- CRC32C of the value
) STRICT;

-- Jobs whose payload is stored under keys when they die.
CREATE TABLE undelivered (
    seq INTEGER PRIMARY KEY,
    keys BLOB NOT NULL
) STRICT;

CREATE TABLE alerts (
    name TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    kind INTEGER NOT NULL,  -- enum alert_on
    enabled INTEGER NOT NULL,
    with_payload INTEGER NOT NULL,
    queue TEXT NOT NULL,
    depth INTEGER NOT NULL,
    percent INTEGER NOT NULL,
    window_ms INTEGER NOT NULL,
    min_ends INTEGER NOT NULL,
    after_ms INTEGER NOT NULL,
    url TEXT,
    secret TEXT
) STRICT, WITHOUT ROWID;

-- Conditions that hold.
CREATE TABLE raised (
    alert TEXT NOT NULL,
    queue TEXT NOT NULL,  -- '' = the whole server
    since INTEGER NOT NULL,
    value INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    PRIMARY KEY (alert, queue)
) STRICT, WITHOUT ROWID;

-- The outbox.
CREATE TABLE notices (
    number INTEGER PRIMARY KEY,
    id_hi INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    edge INTEGER NOT NULL,
    at INTEGER NOT NULL,
    alert TEXT NOT NULL,
    queue TEXT,
    job_seq INTEGER NOT NULL,
    job_hi INTEGER NOT NULL,
    reason INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    value INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    subject TEXT,
    text TEXT,
    state INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    since INTEGER NOT NULL,
    due INTEGER NOT NULL,
    status INTEGER NOT NULL DEFAULT 0,
    error TEXT
) STRICT;

CREATE TABLE breakers (
    target TEXT PRIMARY KEY,
    state INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    probes INTEGER NOT NULL,
    until INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    failure_threshold INTEGER NOT NULL,  -- this and the next two: 0 = the server's default
    open_cooldown_seconds INTEGER NOT NULL,
    half_open_probe_count INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE hour (
    queue INTEGER NOT NULL,
    hour INTEGER NOT NULL,  -- since 1970
    ${each(${hour_columns}; % INTEGER NOT NULL)},
    PRIMARY KEY (queue, hour)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    spec BLOB NOT NULL,
    owner TEXT,
    note TEXT,
    attributes TEXT,
    next_at INTEGER NOT NULL,
    retry_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    fired_at INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    id_hi INTEGER NOT NULL,
    item INTEGER NOT NULL,
    fired INTEGER NOT NULL,
    missed INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    error INTEGER NOT NULL
) STRICT;

-- Items that a trigger took, and the newest job that got them.
CREATE TABLE links (
    item INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    job_hi INTEGER NOT NULL
) STRICT;

-- Jobs that depend on others, until they are removed.
CREATE TABLE dependents (
    seq INTEGER PRIMARY KEY,
    rule INTEGER NOT NULL,  -- enum dependency_rule
    open INTEGER NOT NULL,
    total INTEGER NOT NULL,  -- parents that it ever had; then those that have ended, by how
    done INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    removed INTEGER NOT NULL
) STRICT;

-- The jobs for which each of them still waits.
CREATE TABLE dependencies (
    seq INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    PRIMARY KEY (seq, parent)
) STRICT, WITHOUT ROWID;

-- How a job ended for which others still wait, where its state no longer says it.
CREATE TABLE parents_ended (
    seq INTEGER PRIMARY KEY,
    how INTEGER NOT NULL  -- enum dependency_end
) STRICT;

CREATE TABLE gone (
    block INTEGER PRIMARY KEY,  -- of 64 sequences, from 64 * block on
    bits INTEGER NOT NULL  -- 1 << n: the job 64 * block + n is removed
) STRICT;
