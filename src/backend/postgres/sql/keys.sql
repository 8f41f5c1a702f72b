-- SPDX-License-Identifier: Apache-2.0
-- The key-value store (keys.c). A key is locked by its bucket, whether it exists or not, before it is read; versions
-- are drawn after that, so that the versions of a key increase whichever node sets it.

-- name: kv_lock
-- Locks the buckets ($1) of keys, whether the keys exist or not.
SELECT pg_advisory_xact_lock(${lock_class(kv)}, b) IS NULL
FROM unnest($1::int4[]) b;

-- name: kv_load
-- Returns and locks the keys $1, without their values.
SELECT key, version, expires_at, kind, octet_length(value)
FROM @kv
WHERE key = ANY ($1::bytea[])
ORDER BY key
FOR UPDATE;

-- name: kv_versions
-- Draws $1 versions; returns one a row.
SELECT nextval('@kv_version')
FROM generate_series(1, $1::int4);

-- name: kv_totals
-- Returns how many keys there are, and the bytes of keys and values.
SELECT coalesce(sum(kv_keys), 0)::int8, coalesce(sum(kv_bytes), 0)::int8
FROM ${key_counts} k;

-- name: kv_set
-- Creates or changes keys. Takes one array for each column.
INSERT INTO @kv (key, version, expires_at, kind, value)
SELECT *
FROM unnest($1::bytea[], $2::int8[], $3::int8[], $4::int2[], $5::bytea[])
ON CONFLICT (key) DO UPDATE SET version = excluded.version, expires_at = excluded.expires_at, kind =
    excluded.kind, value = excluded.value;

-- name: kv_from_job
-- The same with payloads of jobs ($5) as values.
INSERT INTO @kv (key, version, expires_at, kind, value)
SELECT w.key, w.version, w.expires_at, w.kind, coalesce(j.payload, '')
FROM unnest($1::bytea[], $2::int8[], $3::int8[], $4::int2[], $5::int8[]) w(key, version, expires_at, kind,
    seq)
JOIN @job j ON j.seq = w.seq
ON CONFLICT (key) DO UPDATE SET version = excluded.version, expires_at = excluded.expires_at, kind =
    excluded.kind, value = excluded.value;

-- name: kv_del
-- Removes the keys $1.
DELETE FROM @kv
WHERE key = ANY ($1::bytea[]);

-- name: kv_expired
-- Removes keys that expired by $1, at most $2; returns each with a new version.
WITH v AS MATERIALIZED (
    SELECT key
    FROM @kv
    WHERE expires_at > 0 AND expires_at <= $1::int8
    ORDER BY expires_at
    LIMIT $2::int4
    FOR UPDATE SKIP LOCKED
), d AS (
    DELETE FROM @kv k
    WHERE k.key = ANY (ARRAY(SELECT v.key FROM v))
    RETURNING k.key, octet_length(k.value) AS bytes
), s AS (
    INSERT INTO @key_delta (kv_keys, kv_bytes)
    SELECT -count(*), -sum(octet_length(key) + bytes)
    FROM d
    HAVING count(*) > 0
)
SELECT key, nextval('@kv_version')
FROM d;

-- name: kv_get
-- Returns the keys $1, with values if $2.
SELECT key, version, expires_at, kind, CASE WHEN $2::bool THEN value END
FROM @kv
WHERE key = ANY ($1::bytea[]);

-- name: kv_list
-- Returns keys from $1 until before $2 that have not expired, at most $5, with values if $4. $3 is the
-- manual time or 0.
SELECT key, version, expires_at, kind, CASE WHEN $4::bool AND ahead < ${answer_bytes_max} THEN value END
FROM (
    SELECT x.*, sum(octet_length(x.value)) OVER (ORDER BY x.key ROWS UNBOUNDED PRECEDING) -
        octet_length(x.value) AS ahead
    FROM (
        SELECT *
        FROM @kv
        WHERE key >= $1::bytea AND key < $2::bytea AND (expires_at = 0 OR expires_at > ${now($3)})
        ORDER BY key
        LIMIT $5::int4
    ) x
) y
ORDER BY key;

-- name: kv_list_back
-- The same in descending order.
SELECT key, version, expires_at, kind, CASE WHEN $4::bool AND ahead < ${answer_bytes_max} THEN value END
FROM (
    SELECT x.*, sum(octet_length(x.value)) OVER (ORDER BY x.key DESC ROWS UNBOUNDED PRECEDING) -
        octet_length(x.value) AS ahead
    FROM (
        SELECT *
        FROM @kv
        WHERE key >= $1::bytea AND key < $2::bytea AND (expires_at = 0 OR expires_at > ${now($3)})
        ORDER BY key DESC
        LIMIT $5::int4
    ) x
) y
ORDER BY key DESC;
