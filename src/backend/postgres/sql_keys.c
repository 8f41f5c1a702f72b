/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values. A key is locked by its bucket, whether it is there or not, before it is read;
 * versions are drawn after that, so that those of a key rise whichever node sets it. */
#include "backend/postgres/sql_impl.h"

#define KV_LOCK_CLASS "('@kv'::regclass::oid::int8 & 2147483647)::int4"

const struct sql_statement pg_sql_keys[] = {
    {SQL_KV_LOCK,
     "SELECT pg_advisory_xact_lock(" KV_LOCK_CLASS ", b) IS NULL FROM unnest($1::int4[]) b"},
    {SQL_KV_LOAD, "SELECT key, version, expires_at, kind, octet_length(value) FROM @kv WHERE key ="
                  " ANY ($1::bytea[]) ORDER BY key FOR UPDATE"},
    {SQL_KV_VERSIONS, "SELECT nextval('@kv_version') FROM generate_series(1, $1::int4)"},
    {SQL_KV_SUMS,
     "SELECT coalesce(sum(t0), 0)::int8, coalesce(sum(t1), 0)::int8 FROM (SELECT t0, t1"
     " FROM @total WHERE queue = 0 UNION ALL SELECT t0, t1 FROM @delta WHERE queue = 0) x"},
    {SQL_KV_SET,
     "INSERT INTO @kv (key, version, expires_at, kind, value) SELECT * FROM"
     " unnest($1::bytea[], $2::int8[], $3::int8[], $4::int2[], $5::bytea[]) ON CONFLICT"
     " (key) DO UPDATE SET version = excluded.version, expires_at = excluded.expires_at,"
     " kind = excluded.kind, value = excluded.value"},
    {SQL_KV_FROM_JOB,
     "INSERT INTO @kv (key, version, expires_at, kind, value) SELECT w.key, w.version,"
     " w.expires_at, w.kind, coalesce(j.payload, '') FROM unnest($1::bytea[],"
     " $2::int8[], $3::int8[], $4::int2[], $5::int8[]) w(key, version, expires_at, kind,"
     " seq) JOIN @job j ON j.seq = w.seq ON CONFLICT (key) DO UPDATE SET version ="
     " excluded.version, expires_at = excluded.expires_at, kind = excluded.kind, value ="
     " excluded.value"},
    {SQL_KV_DEL, "DELETE FROM @kv WHERE key = ANY ($1::bytea[])"},
    {SQL_KV_EXPIRED,
     "WITH v AS MATERIALIZED (SELECT key FROM @kv WHERE expires_at > 0 AND expires_at <="
     " $1::int8 ORDER BY expires_at LIMIT $2::int4 FOR UPDATE SKIP LOCKED), d AS (DELETE"
     " FROM @kv k WHERE k.key = ANY (ARRAY(SELECT v.key FROM v)) RETURNING k.key,"
     " octet_length(k.value) AS bytes), s AS (INSERT INTO @delta (queue, hour, t0, t1)"
     " SELECT 0, $3::int4, -count(*), -sum(octet_length(key) + bytes) FROM d HAVING"
     " count(*) > 0) SELECT key, nextval('@kv_version') FROM d"},
    {SQL_KV_GET, "SELECT key, version, expires_at, kind, CASE WHEN $2::bool THEN value END FROM @kv"
                 " WHERE key = ANY ($1::bytea[])"},
    {SQL_KV_LIST,
     "SELECT key, version, expires_at, kind, CASE WHEN $4::bool AND ahead < 16777216 THEN"
     " value END FROM (SELECT x.*, sum(octet_length(x.value)) OVER (ORDER BY x.key ROWS"
     " UNBOUNDED PRECEDING) - octet_length(x.value) AS ahead FROM (SELECT * FROM @kv"
     " WHERE key >= $1::bytea AND key < $2::bytea AND (expires_at = 0 OR expires_at >"
     " " NOW_3 ") ORDER BY key LIMIT $5::int4) x) y ORDER BY key"},
    {SQL_KV_LIST_BACK,
     "SELECT key, version, expires_at, kind, CASE WHEN $4::bool AND ahead < 16777216 THEN"
     " value END FROM (SELECT x.*, sum(octet_length(x.value)) OVER (ORDER BY x.key DESC ROWS"
     " UNBOUNDED PRECEDING) - octet_length(x.value) AS ahead FROM (SELECT * FROM @kv"
     " WHERE key >= $1::bytea AND key < $2::bytea AND (expires_at = 0 OR expires_at >"
     " " NOW_3 ") ORDER BY key DESC LIMIT $5::int4) x) y ORDER BY key DESC"},
    {SQL_COUNT, NULL},
};
