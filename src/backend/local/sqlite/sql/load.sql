-- SPDX-License-Identifier: Apache-2.0
-- Statements that run once, when a store is created or opened (load.c, store_sqlite.c).

-- name: load_meta
-- Returns the row of meta.
SELECT id, store_id, hash_key, created_at, epoch, seq_upto, position, journal_from
FROM meta;

-- name: load_extra
-- Returns what few jobs have, in the order of their sequence.
SELECT ${extra_columns}
FROM extra
ORDER BY seq;

-- name: load_jobs
-- Calls the function load_job (load.c) for each row.
SELECT load_job(${job_columns})
FROM jobs NOT INDEXED;

-- name: meta_new
-- Creates the row of meta: id of the store (?1), key for hashes (?2), time (?3).
INSERT INTO meta (id, store_id, hash_key, created_at, epoch, seq_upto, position)
VALUES (1, ?1, ?2, ?3, 0, 0, 0);
