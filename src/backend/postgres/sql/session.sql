-- SPDX-License-Identifier: Apache-2.0
-- Statements that belong to no table.

-- name: begin
-- Begins a transaction.
BEGIN;

-- name: commit
-- Commits it.
COMMIT;

-- name: rollback
-- Rolls it back.
ROLLBACK;

-- name: now
-- Returns the time of the database in ms.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8;

-- name: notify
-- Sends a notification to the other nodes. Takes the channel ($1) and the message ($2).
SELECT pg_notify($1::text, $2::text);
