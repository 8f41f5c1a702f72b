-- SPDX-License-Identifier: Apache-2.0
-- What the store writes (write.c, gone.c, hour.c, kv.c, notices.c, schedules.c). All of these are prepared when
-- the store is opened. Parameters are ?1, ?2 …; a statement with ? alone takes them in order.

-- name: begin
-- Begins a transaction that writes.
BEGIN IMMEDIATE;

-- name: commit
-- Commits it.
COMMIT;

-- name: rollback
-- Rolls it back.
ROLLBACK;

-- name: meta
-- Writes the epoch (?1), the highest sequence that may have been used (?2) and the position (?3).
UPDATE meta
SET epoch = ?1, seq_upto = ?2, position = ?3;

-- name: journal_begun
-- Writes where the journal began (?1).
UPDATE meta
SET journal_from = ?1;

-- name: job_get
-- Returns the job ?1.
SELECT ${job_columns}
FROM jobs
WHERE seq = ?1;

-- name: job_new
-- Creates a job. Takes one value for each column.
INSERT INTO jobs (${job_columns})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: jobs_new
-- The same for 16 jobs. Half the cost of a row is in starting the statement.
INSERT OR FAIL INTO jobs (${job_columns})
VALUES ${sixteen((?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))};

-- name: job_set
-- Changes the job ?1. Takes the columns from ?3 to ?13 and from ?15 to ?16.
UPDATE jobs
SET state = ?3, marks = ?4, since = ?5, token_epoch = ?6, token_counter = ?7, lease_ms = ?8, worker = ?9,
    run_at = ?10, priority = ?11, counts = ?12, payload = ?13, limits = ?15,
    cancel_at = ?16
WHERE seq = ?1;

-- name: jobs_claimed
-- Changes the jobs from ?1 to ?2 that are in one of the states ?10 (a mask): they were claimed together.
-- State (?3), marks without the bit for extra (?4), time (?5), token of the first (?6, ?7), lease (?8),
-- worker (?9), limits of the lease (?15, ?16).
UPDATE OR FAIL jobs
SET state = ?3, marks = marks & ${marks_extra} | ?4, since = ?5, token_epoch = ?6, token_counter = ?7 + (seq
    - ?1), lease_ms = ?8, worker = ?9, limits = ?15, cancel_at = ?16
WHERE seq BETWEEN ?1 AND ?2 AND ?10 >> state & 1;

-- name: jobs_done
-- The same for jobs that were acked together. lease_ms becomes the duration of the attempt.
UPDATE OR FAIL jobs
SET state = ?3, marks = marks & ${marks_extra} | ?4, since = ?5, lease_ms = ?5 - since << 1 | 1
WHERE seq BETWEEN ?1 AND ?2 AND ?10 >> state & 1;

-- name: jobs_extended
-- The same for jobs whose lease was extended to ?8.
UPDATE OR FAIL jobs
SET lease_ms = ?8
WHERE seq BETWEEN ?1 AND ?2 AND ?10 >> state & 1;

-- name: jobs_gone
-- Removes the rows of jobs from ?1 to ?2 …
DELETE FROM jobs
WHERE seq BETWEEN ?1 AND ?2;

-- name: payloads_gone
-- … and their payloads …
DELETE FROM payload
WHERE seq BETWEEN ?1 AND ?2;

-- name: extras_gone
-- … and what few jobs have …
DELETE FROM extra
WHERE seq BETWEEN ?1 AND ?2;

-- name: outcomes_gone
-- … and results and errors …
DELETE FROM outcome
WHERE seq BETWEEN ?1 AND ?2;

-- name: asides_gone
-- … and their entries among dead and cancelled jobs …
DELETE FROM aside
WHERE seq BETWEEN ?1 AND ?2;

-- name: attempts_gone
-- … and their attempts.
DELETE FROM attempts
WHERE seq BETWEEN ?1 AND ?2;

-- name: reports_gone
-- … and what was reported about them.
DELETE FROM report
WHERE seq BETWEEN ?1 AND ?2;

-- name: steps_gone
-- … and the results of their steps.
DELETE FROM steps
WHERE seq BETWEEN ?1 AND ?2;

-- name: attempt_new
-- Adds an attempt that ended. Takes one value for each column.
INSERT OR REPLACE INTO attempts (seq, position, queue, number, started_at, ended_at, outcome, error_kind,
    worker, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: attempts_old
-- Returns the position of the newest attempt of the job ?1 that is beyond the ?2 that are kept.
SELECT position
FROM attempts
WHERE seq = ?1
ORDER BY position DESC
LIMIT 1
OFFSET ?2;

-- name: attempts_trim
-- Removes the attempts of the job ?1 up to the position ?2.
DELETE FROM attempts
WHERE seq = ?1 AND position <= ?2;

-- name: aside_put
-- Adds a dead or cancelled job: sequence, queue, state.
INSERT OR REPLACE INTO aside (seq, queue, state)
VALUES (?1, ?2, ?3);

-- name: payload_new
-- Adds a payload: sequence, body, checksum.
INSERT OR REPLACE INTO payload (seq, body, crc)
VALUES (?, ?, ?);

-- name: payloads_new
-- The same for 16.
INSERT OR REPLACE INTO payload (seq, body, crc)
VALUES ${sixteen((?, ?, ?))};

-- name: payload_put
-- The same as payload_new, with numbered parameters.
INSERT OR REPLACE INTO payload (seq, body, crc)
VALUES (?1, ?2, ?3);

-- name: extra_new
-- Adds what few jobs have. Takes one value for each column.
INSERT OR REPLACE INTO extra (${extra_columns})
VALUES (?, ${each(${job_texts}; ?)}, ?, ?);

-- name: extra_note
-- Changes label (?2, if ?4) and attributes (?3, if ?5) of the job ?1.
INSERT INTO extra (seq, label, attributes, expires_at)
VALUES (?1, ?2, ?3, 0)
ON CONFLICT (seq) DO UPDATE SET label = iif(?4, ?2, label), attributes = iif(?5, ?3, attributes);

-- name: hour_add
-- Adds to the counters of an hour: queue, hour, one value for each counter. A sum stops at the highest value of
-- the column, whatever the row contained before.
INSERT INTO hour (queue, hour, ${hour_columns})
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
ON CONFLICT (queue, hour) DO UPDATE SET ${each(${hour_columns}; % = min(% + excluded.%, ${count_max}))};

-- name: hours_old
-- Removes the hours of the queue ?1 up to ?2. Hour 0, the sum of all, stays.
DELETE FROM hour
WHERE queue = ?1 AND hour > 0 AND hour <= ?2;

-- name: hours_gone
-- Removes all hours of the queue ?1.
DELETE FROM hour
WHERE queue = ?1;

-- name: result_put
-- Writes the result of the job ?1: kind, bytes, checksum.
INSERT INTO outcome (seq, result_kind, result, result_crc)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (seq) DO UPDATE SET result_kind = ?2, result = ?3, result_crc = ?4;

-- name: error_put
-- Writes the error of the job ?1: kind, text.
INSERT INTO outcome (seq, error_kind, error)
VALUES (?1, ?2, ?3)
ON CONFLICT (seq) DO UPDATE SET error_kind = ?2, error = ?3;

-- name: report_put
-- Writes what was reported about the job ?1: its progress, or NULL; entries for its log, or NULL. Of the log the
-- newest bytes stay.
INSERT INTO report (seq, progress, log)
VALUES (?1, coalesce(?2, x''), coalesce(?3, x''))
ON CONFLICT (seq) DO UPDATE SET progress = coalesce(?2, progress), log = CASE WHEN ?3 IS NULL THEN log ELSE
    substr(CAST(log || ?3 AS BLOB), -${log_bytes}) END;

-- name: step_put
-- Writes the result of a step of the job ?1: name, result, checksum.
INSERT OR REPLACE INTO steps (seq, name, result, crc)
VALUES (?1, ?2, ?3, ?4);

-- name: queue_put
-- Creates or changes the queue ?1, unless it was deleted. Takes one value for each other column.
INSERT INTO queues (number, name, generation, created_at, updated_at, paused_until, gone, policy, owner,
    note, attributes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9, ?10)
ON CONFLICT (number) DO UPDATE SET name = ?2, generation = ?3, created_at = ?4, updated_at = ?5,
    paused_until = ?6, policy = ?7, owner = ?8, note = ?9, attributes = ?10
WHERE gone = 0;

-- name: numbers
-- Raises the highest numbers of queues (?1) and schedules (?2).
UPDATE numbers
SET queue = max(queue, ?1), schedule = max(schedule, ?2);

-- name: queue_gone
-- Marks the queue ?1 as deleted.
UPDATE queues
SET gone = 1
WHERE number = ?1;

-- name: queue_end
-- Removes the queue ?1: no job of it is left.
DELETE FROM queues
WHERE number = ?1;

-- name: queue_purged
-- Writes the generation (?2) of the queue ?1.
UPDATE queues
SET generation = ?2
WHERE number = ?1;

-- name: bulk_begin
-- Adds a bulk action. Takes one value for each column.
INSERT INTO bulks (bulk, action, at, queue, states, group_key, kind, seq_max)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: bulk_step
-- Writes the progress of the bulk action ?1: sequence, changed, refused.
UPDATE bulks
SET cursor = ?2, changed = ?3, refused = ?4
WHERE bulk = ?1;

-- name: bulk_end
-- Removes the bulk action ?1.
DELETE FROM bulks
WHERE bulk = ?1;

-- name: key_new
-- Adds an idempotency key. Takes one value for each column.
INSERT OR REPLACE INTO keys (expires_at, key_hi, key_lo, fingerprint, seq, id_hi)
VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: key_gone
-- Removes one idempotency key.
DELETE FROM keys
WHERE expires_at = ?1 AND key_hi = ?2 AND key_lo = ?3;

-- name: kv_put
-- Creates or changes the key ?1. Takes one value for each column.
INSERT INTO kv (key, version, expires_at, kind, value, crc)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (key) DO UPDATE SET version = ?2, expires_at = ?3, kind = ?4, value = ?5, crc = ?6;

-- name: kv_from_job
-- The same with the payload of the job ?5 as its value.
INSERT INTO kv (key, version, expires_at, kind, value, crc)
SELECT ?1, ?2, ?3, ?4, body, crc
FROM payload
WHERE seq = ?5
ON CONFLICT (key) DO UPDATE SET version = ?2, expires_at = ?3, kind = ?4, value = excluded.value, crc =
    excluded.crc;

-- name: kv_gone
-- Removes the key ?1.
DELETE FROM kv
WHERE key = ?1;

-- name: undelivered_new
-- Adds the keys (?2) under which the payload of the job ?1 is stored when it dies.
INSERT OR REPLACE INTO undelivered (seq, keys)
VALUES (?1, ?2);

-- name: undelivered_gone
-- Removes those of the jobs from ?1 to ?2.
DELETE FROM undelivered
WHERE seq BETWEEN ?1 AND ?2;

-- name: alert_put
-- Creates or changes an alert rule. Takes one value for each column.
INSERT OR REPLACE INTO alerts (name, created_at, updated_at, kind, enabled, with_payload, queue, depth,
    percent, window_ms, min_ends, after_ms, url, secret)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14);

-- name: alert_gone
-- Removes the alert rule ?1.
DELETE FROM alerts
WHERE name = ?1;

-- name: raised_new
-- Adds a raised condition: alert, queue or NULL, since, value, threshold.
INSERT INTO raised (alert, queue, since, value, mark)
VALUES (?1, coalesce(?2, ''), ?3, ?4, ?5);

-- name: raised_gone
-- Removes a raised condition: alert, queue or NULL.
DELETE FROM raised
WHERE alert = ?1 AND queue = coalesce(?2, '');

-- name: raised_of
-- Removes all that the alert ?1 has raised.
DELETE FROM raised
WHERE alert = ?1;

-- name: notice_new
-- Adds a notice, due at once. Takes one value for each column.
INSERT INTO notices (number, id_hi, kind, edge, at, alert, queue, job_seq, job_hi, reason, attempts, value,
    mark, subject, text, since, due)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?5, ?5);

-- name: notice_tried
-- Writes what happened to the notice ?1.
UPDATE notices
SET state = ?2, tries = ?3, since = ?4, due = ?5, status = ?6, error = ?7
WHERE number = ?1;

-- name: notice_gone
-- Removes the notice ?1.
DELETE FROM notices
WHERE number = ?1;

-- name: notices_of
-- Removes all notices of the alert ?1.
DELETE FROM notices
WHERE alert = ?1;

-- name: breaker_put
-- Creates or changes the circuit breaker of the target ?1.
INSERT OR REPLACE INTO breakers (target, state, failures, probes, until, changed_at, failure_threshold,
    open_cooldown_seconds, half_open_probe_count, used_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: breaker_gone
-- Removes it.
DELETE FROM breakers
WHERE target = ?1;

-- name: schedule_put
-- Creates or changes the schedule ?1. Takes one value for each column.
INSERT OR REPLACE INTO schedules (${schedule_columns})
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20);

-- name: schedule_set
-- Writes what happened to the schedule ?1.
UPDATE schedules
SET next_at = ?10, retry_at = ?11, last_at = ?12, fired_at = ?13, seq = ?14, id_hi = ?15, item = ?16, fired
    = ?17, missed = ?18, failures = ?19, error = ?20
WHERE number = ?1;

-- name: schedule_gone
-- Removes the schedule ?1.
DELETE FROM schedules
WHERE number = ?1;

-- name: link_put
-- Writes which job (?2, ?3) got the item ?1 of a trigger.
INSERT OR REPLACE INTO links (item, job, job_hi)
VALUES (?1, ?2, ?3);

-- name: links_gone
-- Removes that of the items from ?1 to ?2.
DELETE FROM links
WHERE item BETWEEN ?1 AND ?2;

-- name: dependent_put
-- Writes what a job depends on: its sequence, rule, whether it is open, and its counts.
INSERT OR REPLACE INTO dependents (seq, rule, open, total, done, dead, cancelled, removed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: dependent_gone
-- Removes that of job ?1.
DELETE FROM dependents
WHERE seq = ?1;

-- name: dependent_more
-- Counts ?2 more jobs on which job ?1 depends.
UPDATE dependents
SET total = total + ?2
WHERE seq = ?1;

-- name: dependent_count
-- Counts one job that has ended for job ?1, as ?2 says (enum dependency_end).
UPDATE dependents
SET done = done + (?2 = ${dependency_done}), dead = dead + (?2 = ${dependency_dead}),
    cancelled = cancelled + (?2 = ${dependency_cancelled}), removed = removed + (?2 = ${dependency_removed})
WHERE seq = ?1;

-- name: dependency_new
-- Job ?1 waits for job ?2.
INSERT INTO dependencies (seq, parent)
VALUES (?1, ?2);

-- name: dependency_end
-- Job ?1 no longer waits for job ?2.
DELETE FROM dependencies
WHERE seq = ?1 AND parent = ?2;

-- name: parent_ended
-- Writes how job ?1 ended (?2) for jobs that still wait for it.
INSERT OR REPLACE INTO parents_ended (seq, how)
VALUES (?1, ?2);

-- name: parent_forget
-- No job waits for job ?1 any more.
DELETE FROM parents_ended
WHERE seq = ?1;

-- name: gone_put
-- Marks jobs of a block as removed: block, bits. Changes nothing if one of them is marked already.
INSERT INTO gone (block, bits)
VALUES (?, ?)
ON CONFLICT (block) DO UPDATE SET bits = bits | excluded.bits
WHERE bits & excluded.bits = 0;

-- name: gones_put
-- The same for 16 blocks.
INSERT OR FAIL INTO gone (block, bits)
VALUES ${sixteen((?, ?))}
ON CONFLICT (block) DO UPDATE SET bits = bits | excluded.bits
WHERE bits & excluded.bits = 0;

-- name: gone_from
-- Returns the marks of ?2 blocks from the block ?1 on.
SELECT block, bits
FROM gone
WHERE block >= ?1
ORDER BY block
LIMIT ?2;

-- name: gone_within
-- Returns the marks of the blocks from ?1 to ?2.
SELECT block, bits
FROM gone
WHERE block BETWEEN ?1 AND ?2;

-- name: gone_end
-- Removes the marks of the blocks from ?1 to ?2.
DELETE FROM gone
WHERE block BETWEEN ?1 AND ?2;

-- name: block_jobs
-- Removes the rows of marked jobs of a block: its first sequence (?1), its bits (?2) …
DELETE FROM jobs ${gone_block};

-- name: block_payloads
-- … and their payloads …
DELETE FROM payload ${gone_block};

-- name: block_extras
-- … and what few jobs have …
DELETE FROM extra ${gone_block};

-- name: block_outcomes
-- … and results and errors.
DELETE FROM outcome ${gone_block};

-- name: free_pages
-- Returns how many pages of the file are free.
PRAGMA freelist_count;
