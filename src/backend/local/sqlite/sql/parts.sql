-- SPDX-License-Identifier: Apache-2.0
-- Parts that several statements share. A macro is also a macro of the C code, by its name in capitals.

-- macro: job_columns
-- The columns of `jobs` in the order of enum job_column (store_sqlite.h).
seq, queue, state, marks, since, token_epoch, token_counter, lease_ms, worker, run_at, priority, counts,
payload, id_hi, limits, cancel_at

-- macro: extra_columns
seq, ${job_texts}, expires_at, options

-- macro: queue_columns
-- The columns of `queues` in the order in which row_queue reads them.
number, name, generation, created_at, updated_at, paused_until, gone, policy, owner, note, attributes

-- macro: schedule_columns
-- The columns of `schedules` in the order in which they are bound and read.
number, name, created_at, updated_at, paused, spec, owner, note, attributes, next_at, retry_at, last_at,
fired_at, seq, id_hi, item, fired, missed, failures, error

-- part: hour_columns
-- What is counted, in the order of enum counter.
enqueued, claimed, acked, failed_app, failed_business, crashed, released, died, cancelled, waited_ms, done_ms,
failed_ms, died_ms

-- macro: row_not_gone
-- Whether the job of row j has not been marked as removed (gone.h).
NOT EXISTS (SELECT 1 FROM gone g WHERE g.block = j.seq >> 6 AND g.bits >> (j.seq & 63) & 1)

-- part: row_shown
-- Whether the job of row j exists for readers; q is the row of its queue.
q.gone = 0 AND (j.state NOT IN (${scheduled}, ${ready}, ${blocked}) OR (j.counts >> 32) & 4294967295 = q.generation) AND ${row_not_gone}

-- part: row_started_at
-- When the newest attempt at the job of row j began; 0 = it was never claimed, or that is not known.
CASE WHEN j.token_counter = 0 THEN 0 WHEN j.state = ${running} THEN j.since
    WHEN j.state = ${done} THEN iif(j.lease_ms = 0, 0, j.since - (j.lease_ms >> 1))
    ELSE ifnull((SELECT n.started_at FROM attempts n WHERE n.seq = j.seq
        ORDER BY n.position DESC LIMIT 1), 0) END

-- part: failures
-- Attempts at the job of row j that failed.
j.counts & 65535

-- part: crashes
-- Attempts at the job of row j that crashed.
j.counts >> 16 & 65535

-- part: sixteen(row)
-- GROUP rows (store_sqlite.h).
${four(${row})}, ${four(${row})}, ${four(${row})}, ${four(${row})}

-- part: four(row)
${row}, ${row}, ${row}, ${row}

-- macro: gone_block
-- The marked jobs of a block: its first sequence is ?1, its bits are ?2.
WHERE seq BETWEEN ?1 AND ?1 + 63 AND ?2 >> (seq - ?1) & 1

-- part: error_text(error)
-- The message in an error as core/jobs/job_error.h packs it …
substr(${error}, 1, instr(${error} || char(${error_separator}), char(${error_separator})) - 1)

-- part: error_rest(error)
substr(${error}, instr(${error} || char(${error_separator}), char(${error_separator})) + 1)

-- part: error_type(error)
-- … the class of the exception …
nullif(${error_text(${error_rest(${error})})}, '')

-- part: error_stack(error)
-- … and its stack.
nullif(${error_rest(${error_rest(${error})})}, '')

-- part: utc(ms)
strftime('%Y-%m-%dT%H:%M:%fZ', ${ms} / 1000.0, 'unixepoch')
