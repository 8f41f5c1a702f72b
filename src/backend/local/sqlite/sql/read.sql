-- SPDX-License-Identifier: Apache-2.0
-- Statements of readers (read.c, list.c, history.c). The first ones are prepared when a reader is opened, lists when
-- they are first used.

-- part: kv_page(order)
SELECT key, version, expires_at, kind, CASE ?4 WHEN 0 THEN NULL ELSE value END, crc
FROM kv
WHERE key >= ?1 AND key < ?2 AND (expires_at = 0 OR expires_at > ?3)
ORDER BY key ${order}

-- part: list(tables; where; order)
-- A page of jobs. Takes a range of sequences (?1, ?2), the queue or 0 (?3), masks of states and reasons (?4, ?5),
-- ranges of priority (?6, ?7) and of the time of creation (?8, ?9). CROSS JOIN keeps the order of the tables:
-- the queue is looked up only for rows that match.
SELECT ${each(${job_columns}; j.%)}, q.name
FROM ${tables}
CROSS JOIN queues q ON q.number = j.queue
WHERE ${where} AND (?3 = 0 OR j.queue = ?3) AND ?4 >> j.state & 1 AND ?5 >> (j.marks & ${marks_reason}) & 1
    AND j.priority BETWEEN ?6 AND ?7 AND j.id_hi >> 16 BETWEEN ?8 AND ?9 AND ${row_shown}
ORDER BY ${order}

-- part: list_jobs(order)
-- Of all jobs.
${list(jobs j NOT INDEXED; j.seq BETWEEN ?1 AND ?2; ${order})}

-- part: list_aside(order)
-- Of dead and cancelled jobs.
${list(aside s NOT INDEXED CROSS JOIN jobs j ON j.seq = s.seq;
    s.seq BETWEEN ?1 AND ?2 AND ?4 >> s.state & 1; ${order})}

-- part: list_aside_queue(order)
-- Of jobs of one queue in the state ?10, dead or cancelled.
${list(aside s INDEXED BY aside_by_queue CROSS JOIN jobs j ON j.seq = s.seq;
    s.queue = ?3 AND s.state = ?10 AND s.seq BETWEEN ?1 AND ?2; ${order})}

-- part: list_extra(order)
-- Of jobs with these texts (from ?11 on, one for each of core/jobs/job_texts.h); NULL = any.
${list(extra s NOT INDEXED CROSS JOIN jobs j ON j.seq = s.seq;
    s.seq BETWEEN ?1 AND ?2 AND ${each(${job_texts}; (?#11 IS NULL OR s.% = ?#11); AND)}; ${order})}

-- name: begin
-- Begins a transaction: one snapshot for all that is read in it.
BEGIN;

-- name: end
-- Ends it.
COMMIT;

-- name: position
-- Returns the position of the records that the store has.
SELECT position
FROM meta
WHERE id = 1;

-- name: queue
-- Returns the number of the queue with the name ?1.
SELECT number
FROM queues
WHERE name = ?1 AND gone = 0;

-- name: expires_at
-- Returns when the job ?1 expires.
SELECT expires_at
FROM extra
WHERE seq = ?1;

-- name: body
-- Returns everything about the job ?1 that lists do not show, without payload and result unless ?2 is 0.
SELECT CASE ?2 WHEN 0 THEN p.body END, o.result_kind, CASE ?2 WHEN 0 THEN o.result END, o.error_kind,
    o.error, ${each(${job_texts}; x.%)}, x.expires_at, x.options,
    u.keys, ${row_started_at}, l.job, l.job_hi, j.payload, p.crc, o.result_crc, j.marks >> 4 & 1, x.seq IS
    NOT NULL
FROM jobs j CROSS
JOIN queues q ON q.number = j.queue
LEFT JOIN payload p ON p.seq = j.seq
LEFT JOIN outcome o ON o.seq = j.seq
LEFT JOIN extra x ON x.seq = j.seq
LEFT JOIN undelivered u ON u.seq = j.seq
LEFT JOIN links l ON l.item = j.seq
WHERE j.seq = ?1 AND ${row_shown};

-- name: ahead
-- Returns what a claim of the job ?1 needs, for a job that has never been claimed. Each table that is not
-- read saves a claim a page. The caller knows that the job exists and is ready; attempts show whether it was
-- ever claimed.
SELECT p.body, ${each(${job_texts}; x.%)}, x.expires_at, x.options,
    NULL, p.crc, x.seq IS NOT NULL
FROM payload p
LEFT JOIN extra x ON x.seq = p.seq
WHERE p.seq = ?1 AND NOT EXISTS (SELECT 1 FROM outcome WHERE seq = ?1) AND NOT EXISTS (SELECT 1 FROM
    attempts WHERE seq = ?1) AND NOT EXISTS (SELECT 1 FROM undelivered WHERE seq = ?1) AND NOT EXISTS
    (SELECT 1 FROM links WHERE item = ?1);

-- name: newest
-- Returns what the row of the job ?1 says about its newest attempt.
SELECT j.state, j.counts, j.since, j.worker, ${row_started_at}, j.id_hi, q.name
FROM jobs j CROSS
JOIN queues q ON q.number = j.queue
WHERE j.seq = ?1 AND ${row_shown};

-- name: attempts
-- Returns the newest ?2 attempts of the job ?1 that ended.
SELECT number, started_at, ended_at, outcome, error_kind, worker, error
FROM attempts
WHERE seq = ?1
ORDER BY position DESC
LIMIT ?2;

-- name: report
-- Returns what was reported about the job ?1, the log only if ?2 is not 0, and the newest token of the job.
SELECT r.progress, CASE ?2 WHEN 0 THEN NULL ELSE r.log END, j.token_epoch, j.token_counter
FROM report r CROSS
JOIN jobs j ON j.seq = r.seq
WHERE r.seq = ?1;

-- name: steps
-- Returns the steps of the job ?1.
SELECT name, result, crc
FROM steps
WHERE seq = ?1
ORDER BY name;

-- name: exceptions
-- Returns the newest ?2 attempts that failed, crashed or were released with an error, of the queue ?1 or of all with 0. i is the index
-- alone; the row is read once it is known that the attempt is shown.
SELECT a.number, a.started_at, a.ended_at, a.outcome, a.error_kind, a.worker, a.error, a.seq, j.id_hi,
    q.name
FROM attempts i INDEXED BY attempts_by_position CROSS
JOIN jobs j ON j.seq = i.seq CROSS
JOIN queues q ON q.number = j.queue CROSS
JOIN attempts a ON a.seq = i.seq AND a.position = i.position
WHERE i.outcome IN (${attempt_failed}, ${attempt_lease_expired}, ${attempt_timed_out},
    ${attempt_released_with_error}) AND (?1 = 0
    OR i.queue = ?1) AND ${row_shown}
ORDER BY i.position DESC
LIMIT ?2;

-- name: kv
-- Returns the key ?1.
SELECT key, version, expires_at, kind, value, crc
FROM kv
WHERE key = ?1;

-- name: kv_up
-- Returns keys from ?1 until before ?2 that have not expired at ?3, with values unless ?4 is 0.
${kv_page(ASC)};

-- name: kv_down
-- The same in descending order.
${kv_page(DESC)};

-- name: hours
-- Returns the counts of the queue ?1 for the hours from ?2 until before ?3, at most ?4.
SELECT queue, hour, ${hour_columns}
FROM hour
WHERE queue = ?1 AND hour >= ?2 AND hour < ?3
ORDER BY hour
LIMIT ?4;

-- Lists in the order of enum list_plan, each ascending and then newest first.

-- name: list_jobs
${list_jobs(j.seq ASC)};

-- name: list_jobs_newest
${list_jobs(j.seq DESC)};

-- name: list_aside
${list_aside(s.seq ASC)};

-- name: list_aside_newest
${list_aside(s.seq DESC)};

-- name: list_aside_queue
${list_aside_queue(s.seq ASC)};

-- name: list_aside_queue_newest
${list_aside_queue(s.seq DESC)};

-- name: list_extra
${list_extra(s.seq ASC)};

-- name: list_extra_newest
${list_extra(s.seq DESC)};
