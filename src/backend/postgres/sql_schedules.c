/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules. Who puts one holds a lock for all of them, so that the numbers in `changed` become
 * visible in their order, and whoever has seen one has seen all before it. */
#include "backend/postgres/sql_impl.h"

#define SCHEDULE                                                                                   \
    "s.number, s.name, s.owner, s.note, s.attributes, s.spec, s.paused, s.created_at,"             \
    " s.updated_at, s.next_at, s.retry_at, s.last_at, s.fired_at, s.seq, s.id_hi, s.item,"         \
    " s.fired, s.missed, s.failures, s.error, s.changed, EXISTS (SELECT FROM @job j JOIN"          \
    " @queue q ON " SHOWN " WHERE j.seq = s.seq AND j.id_hi = s.id_hi AND j.state <= 3)"

const struct sql_statement pg_sql_schedules[] = {
    {SQL_SCHEDULE_LOCK,
     "SELECT pg_advisory_xact_lock(('@schedule'::regclass::oid::int8 & 2147483647)::int4, 0)"
     " IS NULL"},
    {SQL_SCHEDULES, "SELECT " SCHEDULE " FROM @schedule s WHERE s.name = ANY ($1::text[]) ORDER BY"
                    " s.number FOR UPDATE OF s"},
    {SQL_SCHEDULE_NUMBER,
     "SELECT nextval('@schedule_number')::int4, (SELECT count(*) FROM @schedule)::int8"},
    {SQL_SCHEDULE_FLOWS,
     "SELECT source, target FROM @schedule WHERE kind = 3 AND name <> $1::text"},
    {SQL_SCHEDULE_PUT,
     "INSERT INTO @schedule AS o (number, name, owner, note, attributes, spec, paused,"
     " created_at, updated_at, next_at, retry_at, last_at, fired_at, seq, id_hi, item,"
     " fired, missed, failures, error, kind, source, target, changed) VALUES ($1::int4,"
     " $2::text, $3::text, $4::text, $5::text, $6::bytea, $7::bool, $8::int8, $9::int8,"
     " $10::int8, $11::int8, $12::int8, $13::int8, $14::int8, $15::int8, $16::int8,"
     " $17::int8, $18::int8, $19::int8, $20::int4, $21::int4, $22::text, $23::text,"
     " nextval('@schedule_change')) ON CONFLICT (number) DO UPDATE SET owner ="
     " excluded.owner, note = excluded.note, attributes = excluded.attributes, spec ="
     " excluded.spec, paused = excluded.paused, updated_at = excluded.updated_at, next_at ="
     " excluded.next_at, retry_at = excluded.retry_at, last_at = excluded.last_at, fired_at"
     " = excluded.fired_at, seq = excluded.seq, id_hi = excluded.id_hi, item ="
     " excluded.item, fired = excluded.fired, missed = excluded.missed, failures ="
     " excluded.failures, error = excluded.error, kind = excluded.kind, source ="
     " excluded.source, target = excluded.target, changed = excluded.changed"},
    {SQL_SCHEDULE_STATE,
     "UPDATE @schedule s SET next_at = u.next_at, retry_at = u.retry_at, last_at ="
     " u.last_at, fired_at = u.fired_at, seq = u.seq, id_hi = u.id_hi, item = u.item, fired"
     " = u.fired, missed = u.missed, failures = u.failures, error = u.error FROM"
     " unnest($1::int4[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[],"
     " $7::int8[], $8::int8[], $9::int8[], $10::int8[], $11::int8[], $12::int2[]) u(number,"
     " next_at, retry_at, last_at, fired_at, seq, id_hi, item, fired, missed, failures,"
     " error) WHERE s.number = u.number"},
    {SQL_SCHEDULE_DEL, "DELETE FROM @schedule WHERE number = ANY ($1::int4[])"},
    {SQL_SCHEDULE_GET, "SELECT " SCHEDULE " FROM @schedule s WHERE ($2::int4 = 0 AND s.name ="
                       " $1::text) OR ($2::int4 > 0 AND s.number = $2::int4)"},
    {SQL_SCHEDULE_LIST, "SELECT " SCHEDULE " FROM @schedule s WHERE s.name > $1::text ORDER BY"
                        " s.name LIMIT $2::int4"},
    {SQL_SCHEDULE_CHANGES, "SELECT " SCHEDULE " FROM @schedule s WHERE s.changed > $1::int8 ORDER"
                           " BY s.changed LIMIT $2::int4"},
    {SQL_DUE_HELD,
     "WITH RECURSIVE h AS ((SELECT j.holder FROM @job j WHERE j.state = 3 AND j.lease_ms ="
     " 0 AND j.holder > 0 ORDER BY j.holder LIMIT 1) UNION ALL SELECT (SELECT j.holder FROM"
     " @job j WHERE j.state = 3 AND j.lease_ms = 0 AND j.holder > 0 AND j.holder > h.holder"
     " ORDER BY j.holder LIMIT 1) FROM h WHERE h.holder IS NOT NULL), d AS MATERIALIZED"
     " (SELECT h.holder, coalesce(k.state, 0::int2) AS state FROM h LEFT JOIN LATERAL"
     " (SELECT j.state FROM @job j JOIN @queue q ON " SHOWN
     " WHERE j.seq = h.holder) k ON true WHERE h.holder IS NOT NULL AND (k.state IS NULL OR"
     " k.state > 3)) SELECT " JOB
     ", d.state FROM d JOIN @job j ON j.holder = d.holder AND j.state = 3 AND j.lease_ms = 0"
     " AND j.holder > 0 ORDER BY j.seq LIMIT $1::int4 FOR UPDATE OF j SKIP LOCKED"},
    {SQL_COUNT, NULL},
};
