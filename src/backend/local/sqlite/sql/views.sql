-- SPDX-License-Identifier: Apache-2.0
-- The views, which people read with `sqlite3 -readonly DIR/holdfast.db` beside a running server (views.c). They
-- contain no data, and are created again if their text differs.

-- name: view_job
-- Jobs, with names and readable times.
SELECT
    j.seq AS id,
    q.name AS queue,
    CASE j.state WHEN ${scheduled} THEN 'scheduled' WHEN ${ready} THEN 'ready' WHEN ${running} THEN
        'running' WHEN ${done} THEN 'done' WHEN ${dead} THEN 'dead' WHEN ${cancelled} THEN 'cancelled' WHEN ${blocked} THEN 'blocked' END
        AS state,
    CASE j.marks & ${marks_reason} WHEN ${reason_failed} THEN 'failed' WHEN ${reason_rejected} THEN
        'rejected' WHEN ${reason_crash_loop} THEN 'crash_loop' WHEN ${reason_lease_expired} THEN
        'lease_expired' WHEN ${reason_expired} THEN 'expired' WHEN ${reason_cancelled} THEN 'cancelled' WHEN
        ${reason_replaced} THEN 'replaced' WHEN ${reason_released} THEN 'released' WHEN ${reason_restarted}
        THEN 'restarted' WHEN ${reason_discarded} THEN 'discarded' WHEN ${reason_damaged} THEN 'damaged' WHEN
        ${reason_timed_out} THEN 'timed_out' WHEN ${reason_dependency_failed} THEN 'dependency_failed' END
        AS reason,
    iif(q.owner = 'tasks' AND abs(j.priority) > 1000000, (j.priority >> 43) + 1, j.priority) AS priority,
    (${failures}) + (${crashes}) + (j.state IN (${running}, ${done})) AS attempts,
    ${failures} AS failures,
    ${crashes} AS crashes,
    ${utc((j.id_hi >> 16))} AS created_at,
    ${utc(j.since)} AS since,
    ${utc(nullif(j.run_at, 0))} AS run_at,
    ${utc(nullif(${row_started_at}, 0))} AS started_at,
    ${utc(nullif(x.expires_at, 0))} AS expires_at,
    iif(j.state = ${running}, j.lease_ms, NULL) AS lease_ms,
    j.worker AS worker,
    ${each(${job_texts}; x.% AS %)},
    j.payload >> 2 AS payload_bytes,
    iif(j.payload & 3 = ${payload_json}, CAST(p.body AS TEXT), p.body) AS payload,
    iif(o.result_kind = ${payload_json}, CAST(o.result AS TEXT), o.result) AS result,
    CASE WHEN o.error IS NULL THEN NULL WHEN o.error_kind = ${error_business} THEN 'business' ELSE 'app' END
        AS error_kind,
    ${error_text(o.error)} AS error,
    ${error_type(o.error)} AS error_type,
    ${error_stack(o.error)} AS stack
FROM jobs j
JOIN queues q ON q.number = j.queue
LEFT JOIN extra x ON x.seq = j.seq
LEFT JOIN payload p ON p.seq = j.seq
LEFT JOIN outcome o ON o.seq = j.seq
WHERE ${row_shown};

-- name: view_attempt
-- Attempts: those that ended, and the one that is running or was acked, which only the row of its job describes.
SELECT
    a.seq AS id,
    q.name AS queue,
    a.number AS number,
    CASE a.outcome WHEN ${attempt_running} THEN 'running' WHEN ${attempt_done} THEN 'done' WHEN
        ${attempt_failed} THEN 'failed' WHEN ${attempt_lease_expired} THEN 'lease_expired' WHEN
        ${attempt_timed_out} THEN 'timed_out' WHEN ${attempt_released} THEN 'released' WHEN
        ${attempt_released_with_error} THEN 'released_with_error' WHEN
        ${attempt_cancelled} THEN 'cancelled' END AS outcome,
    a.worker AS worker,
    ${utc(nullif(a.started_at, 0))} AS started_at,
    ${utc(nullif(a.ended_at, 0))} AS ended_at,
    CASE WHEN a.error IS NULL THEN NULL WHEN a.error_kind = ${error_business} THEN 'business' ELSE 'app' END
        AS error_kind,
    ${error_text(a.error)} AS error,
    ${error_type(a.error)} AS error_type,
    ${error_stack(a.error)} AS stack
FROM (
    SELECT seq, position, number, outcome, worker, started_at, ended_at, error_kind, error
    FROM attempts
    UNION ALL
    SELECT
        j.seq,
        9223372036854775807,
        (${failures}) + (${crashes}) + 1,
        j.state = ${done},
        j.worker,
        ${row_started_at},
        iif(j.state = ${done}, j.since, 0),
        0,
        NULL
    FROM jobs j
    WHERE j.state IN (${running}, ${done}) AND j.lease_ms <> 0
) a
JOIN jobs j ON j.seq = a.seq
JOIN queues q ON q.number = j.queue
WHERE ${row_shown}
ORDER BY a.seq, a.position;

-- name: view_queue
-- Jobs of the API webqueue, in its own terms; times are Unix seconds. Attributes hold what an import brought.
SELECT
    j.seq AS id,
    CAST(x.group_key AS INTEGER) AS library_id,
    CASE j.payload & 3 WHEN ${payload_json} THEN json_extract(CAST(p.body AS TEXT), '$') WHEN
        ${payload_bytes} THEN CAST(p.body AS TEXT) ELSE x.unique_key END AS path,
    substr(q.name, 10) AS queue_type,
    CASE j.state WHEN ${running} THEN 'running' WHEN ${done} THEN 'completed' WHEN ${dead} THEN 'error' ELSE
        'pending' END AS status,
    j.priority AS priority,
    CASE WHEN j.state <> ${dead} THEN NULL WHEN o.error IS NOT NULL THEN ${error_text(o.error)} ELSE CASE j.marks &
        ${marks_reason} WHEN ${reason_failed} THEN 'failed' WHEN ${reason_rejected} THEN 'rejected' WHEN
        ${reason_crash_loop} THEN 'crash_loop' WHEN ${reason_lease_expired} THEN 'lease_expired' WHEN
        ${reason_expired} THEN 'expired' WHEN ${reason_damaged} THEN 'damaged' WHEN ${reason_timed_out} THEN
        'timed_out' WHEN ${reason_dependency_failed} THEN 'dependency_failed' END END AS error,
    iif(j.state = ${done}, CAST(o.result AS TEXT), NULL) AS results_json,
    ifnull(json_extract(x.attributes, '$.enqueued_at'), (j.id_hi >> 16) / 1000) AS enqueued_at,
    iif(j.state IN (${scheduled}, ${ready}, ${blocked}), NULL, ifnull(nullif(${row_started_at}, 0) / 1000,
        json_extract(x.attributes, '$.started_at'))) AS started_at,
    iif(j.state IN (${done}, ${dead}), ifnull(iif(j.token_counter = 0,
        json_extract(x.attributes, '$.completed_at'), NULL), j.since / 1000), NULL) AS completed_at
FROM jobs j
JOIN queues q ON q.number = j.queue
LEFT JOIN extra x ON x.seq = j.seq
LEFT JOIN payload p ON p.seq = j.seq
LEFT JOIN outcome o ON o.seq = j.seq
WHERE substr(q.name, 1, 9) = 'webqueue.' AND j.state <> ${cancelled} AND ${row_shown};
