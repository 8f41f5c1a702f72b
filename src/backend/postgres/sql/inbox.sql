-- SPDX-License-Identifier: Apache-2.0
-- Transactional enqueue (inbox.c): the function enqueue, which users call in their own transactions, the rows that it
-- leaves, and what the nodes do with them. docs/howto/transactional-enqueue.md is the page for users.
--
-- The functions run with the rights of their owner (SECURITY DEFINER): a role that may call them needs no right on any
-- table, and cannot write a row that was not checked. Their search_path is fixed, so that no function or operator of
-- the caller is ever used.

-- part: inbox_values
-- What a row says of its job, besides its name: struct inbox_column in inbox.c has the same order.
queue, payload_kind, payload, ${inbox_rest}

-- part: inbox_rest
-- The values behind the payload.
priority, priority_name, delay_ms, run_at, expires_at, expires_in_ms, unique_mode, max_attempts, max_crashes, lease_ms,
timeout_ms, backoff, idempotency_key, fingerprint, ${job_texts}

-- part: crockford(bits)
substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((${bits}) & 31)::int4 + 1, 1)

-- part: ulid(hi; seq)
-- The id of a job, as core/jobs/id.c writes it: 64 bits of hi, the bits of the variant, the sequence.
${crockford(${hi} >> 61 & 7)} || ${crockford(${hi} >> 56)} || ${crockford(${hi} >> 51)} || ${crockford(${hi} >> 46)}
|| ${crockford(${hi} >> 41)} || ${crockford(${hi} >> 36)} || ${crockford(${hi} >> 31)} || ${crockford(${hi} >> 26)}
|| ${crockford(${hi} >> 21)} || ${crockford(${hi} >> 16)} || ${crockford(${hi} >> 11)} || ${crockford(${hi} >> 6)}
|| ${crockford(${hi} >> 1)} || ${crockford((${hi} & 1) << 4 | 8)} || ${crockford(${seq} >> 55)}
|| ${crockford(${seq} >> 50)} || ${crockford(${seq} >> 45)} || ${crockford(${seq} >> 40)}
|| ${crockford(${seq} >> 35)} || ${crockford(${seq} >> 30)} || ${crockford(${seq} >> 25)}
|| ${crockford(${seq} >> 20)} || ${crockford(${seq} >> 15)} || ${crockford(${seq} >> 10)}
|| ${crockford(${seq} >> 5)} || ${crockford(${seq})}

-- part: inbox_options
-- The options of a job: name, type, lowest and highest value (of a text: bytes at most). They are those of
-- POST /v1/queues/{queue}/jobs.
('priority', 'priority', 0::int8, ${label_bytes}::int8), ('delay_ms', 'number', 0, ${wall_ms}), ('run_at', 'time', 0, 0),
('unique', 'text', 0, ${key_bytes}), ('group', 'text', 0, ${key_bytes}), ('correlation_id', 'text', 0, ${key_bytes}),
('priority_label', 'text', 0, ${label_bytes}), ('kind', 'text', 0, ${kind_bytes}),
('headers', 'headers', 0, ${headers_bytes}), ('max_attempts', 'number', 1, ${attempts_max}),
('max_crashes', 'number', 1, ${attempts_max}), ('lease_ms', 'number', ${lease_ms_min}, ${lease_ms_max}),
('timeout_ms', 'number', 0, ${timeout_ms_max}), ('backoff', 'backoff', 0, 0), ('backoff_ms', 'steps', 0, 0),
('unique_mode', 'unique_mode', 0, 0), ('expires_at', 'time', 0, 0), ('expires_in_ms', 'number', 1, ${wall_ms}),
('idempotency_key', 'text', 1, ${idempotency_key_bytes})

-- part: invalid(message)
RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = ${message}

-- part: definer
-- How each function for callers runs.
SECURITY DEFINER SET search_path = pg_catalog, pg_temp

-- name: schema_inbox
-- Creates the inbox, after the other tables.
-- Jobs that users enqueued in their own transactions and that no node has taken yet.
CREATE TABLE @inbox (
    seq int8 PRIMARY KEY,  -- of the job
    id_hi int8 NOT NULL,
    id text COLLATE "C" NOT NULL,  -- the same, as the caller got it
    at int8 NOT NULL,  -- time of the call
    queue text COLLATE "C" NOT NULL,
    payload_kind int2 NOT NULL,
    payload bytea,
    priority int8,
    priority_name text,
    delay_ms int8,
    run_at int8,
    expires_at int8,
    expires_in_ms int8,
    unique_mode int2,  -- enum unique_mode
    max_attempts int4,
    max_crashes int4,
    lease_ms int4,
    timeout_ms int8,
    backoff text,  -- e, base, maximum and jitter (-1 = the default); or l and the steps
    idempotency_key text,
    fingerprint int8,
    ${each(${job_texts}; % text COLLATE "C")}
) ${churn};

-- Rows of it that the rules refused, the newest ${inbox_refused_max}, with payloads up to ${inbox_kept_bytes} bytes.
CREATE TABLE @inbox_refusal (
    LIKE @inbox,
    refused_at int8 NOT NULL,
    reason text NOT NULL,  -- outcome_name (ops/op.h), or repeat or failed
    detail text NOT NULL,
    instead text,  -- id of the job that exists in its place
    payload_bytes int8 NOT NULL,
    PRIMARY KEY (seq)
) ${churn};
CREATE INDEX inbox_refusal_by_time ON @inbox_refusal (refused_at, seq);

CREATE VIEW @inbox_refused AS
SELECT id, queue, reason, detail, instead, kind, idempotency_key, unique_key, to_timestamp(at / 1000.0) AS called_at,
    to_timestamp(refused_at / 1000.0) AS refused_at, payload_bytes,
    payload IS NOT NULL OR payload_bytes = 0 AS can_retry
FROM @inbox_refusal;

-- What is wrong with an option; NULL = nothing.
CREATE FUNCTION @inbox_wrong(name text, type text, value jsonb, low int8, high int8) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    kind text := jsonb_typeof(value);
    words text := value #>> '{}';
    inner_wrong text;
BEGIN
    IF type = 'priority' AND kind = 'string' THEN
        type := 'text';
        low := 1;
    ELSIF type = 'priority' THEN
        type := 'number';
        low := -9223372036854775808;
        high := 9223372036854775807;
    END IF;
    IF type = 'number' THEN
        IF kind <> 'number' OR words::numeric <> trunc(words::numeric) OR words::numeric NOT BETWEEN low AND high THEN
            RETURN format('%s must be a whole number from %s to %s', name, low, high);
        END IF;
    ELSIF type = 'text' THEN
        IF kind <> 'string' OR octet_length(words) NOT BETWEEN low AND high THEN
            RETURN format(CASE WHEN low = 0 THEN '%1$s must be a text of at most %3$s bytes' ELSE
                '%1$s must be a text of %2$s to %3$s bytes' END, name, low, high);
        END IF;
    ELSIF type = 'unique_mode' THEN
        IF kind <> 'string' OR words NOT IN ('reject', 'return', 'replace') THEN
            RETURN format('%s must be reject, return or replace', name);
        END IF;
    ELSIF type = 'headers' THEN
        IF kind <> 'object' THEN
            RETURN format('%s must be an object of texts', name);
        ELSIF octet_length(value::text) > high THEN
            RETURN format('%s must have at most %s bytes', name, high);
        END IF;
        SELECT format('%s: the member %s must be a text without control characters, with a name of letters, digits and %s',
            name, to_json(left(h.key, 100)), '!#$%&''*+-.^_`|~')
        INTO inner_wrong
        FROM jsonb_each(value) h
        WHERE jsonb_typeof(h.value) <> 'string' OR h.value #>> '{}' ~ '[\u0001-\u001f\u007f-\u009f]'
            OR h.key !~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]{1,128}$'
        LIMIT 1;
        RETURN inner_wrong;
    ELSIF type = 'steps' THEN
        IF kind <> 'array' OR jsonb_array_length(value) NOT BETWEEN 1 AND ${backoff_steps} THEN
            RETURN format('%s must be a list of 1 to ${backoff_steps} numbers of milliseconds', name);
        END IF;
        SELECT @inbox_wrong('a step of ' || name, 'number', s.value, 0, ${backoff_ms_max})
        INTO inner_wrong
        FROM jsonb_array_elements(value) s
        WHERE @inbox_wrong('', 'number', s.value, 0, ${backoff_ms_max}) IS NOT NULL
        LIMIT 1;
        RETURN inner_wrong;
    ELSIF type = 'backoff' THEN
        RETURN @inbox_wrong_backoff(name, value);
    ELSIF type = 'time' THEN
        inner_wrong := format('%s must be an RFC 3339 time such as 2026-01-31T12:00:00Z, in the years 1970 to 9999',
            name);
        IF kind <> 'string' OR words !~ '^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$' THEN
            RETURN inner_wrong;
        END IF;
        BEGIN
            IF words::timestamptz < '1970-01-01Z' OR words::timestamptz >= '9999-12-31Z' THEN
                RETURN inner_wrong;
            END IF;
        EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format OR invalid_time_zone_displacement_value THEN
            RETURN inner_wrong;
        END;
    END IF;
    RETURN NULL;
END
$body$;

CREATE FUNCTION @inbox_wrong_backoff(name text, value jsonb) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    member text;
    wrong text;
BEGIN
    IF jsonb_typeof(value) <> 'object' THEN
        RETURN format('%s must be an object with a type', name);
    END IF;
    FOR member IN SELECT jsonb_object_keys(value) LOOP
        wrong := CASE member
            WHEN 'type' THEN CASE WHEN value -> 'type' NOT IN ('"exponential"', '"list"') THEN
                format('%s.type must be exponential or list', name) END
            WHEN 'steps_ms' THEN @inbox_wrong(name || '.steps_ms', 'steps', value -> member, 0, 0)
            WHEN 'base_ms' THEN @inbox_wrong(name || '.base_ms', 'number', value -> member, 0, ${backoff_ms_max})
            WHEN 'max_ms' THEN @inbox_wrong(name || '.max_ms', 'number', value -> member, 0, ${backoff_ms_max})
            WHEN 'jitter_percent' THEN @inbox_wrong(name || '.jitter_percent', 'number', value -> member, 0, 100)
            ELSE format('%s has no member %s; it has type, base_ms, max_ms, jitter_percent and steps_ms', name,
                to_json(left(member, 100))) END;
        IF wrong IS NOT NULL THEN
            RETURN wrong;
        END IF;
    END LOOP;
    IF value ? 'steps_ms' THEN
        IF value ->> 'type' = 'exponential' OR value ?| ARRAY['base_ms', 'max_ms', 'jitter_percent'] THEN
            RETURN format('%s of type list takes steps_ms and nothing else', name);
        END IF;
    ELSIF value ->> 'type' = 'list' THEN
        RETURN format('%s of type list takes steps_ms and nothing else', name);
    ELSIF (value ->> 'base_ms')::numeric > (value ->> 'max_ms')::numeric THEN
        RETURN format('%s has a base_ms that is more than its max_ms', name);
    END IF;
    RETURN NULL;
END
$body$;

-- Raises an error that names the option and says what is allowed.
CREATE FUNCTION @inbox_check(queue text, options jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    wrong text;
BEGIN
    IF queue IS NULL OR octet_length(queue) NOT BETWEEN 1 AND ${queue_name_bytes} OR left(queue, 1) = '-'
        OR queue ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        ${invalid('queue must be a name of 1 to ${queue_name_bytes} bytes without control characters that does not begin with -')};
    END IF;
    IF options IS NULL THEN
        RETURN;
    ELSIF jsonb_typeof(options) <> 'object' THEN
        ${invalid('options must be a JSON object')};
    ELSIF options = '{}' THEN
        RETURN;
    END IF;
    SELECT CASE WHEN o.name IS NULL THEN
        format('there is no option %s; the options are %s', to_json(left(g.key, 100)), (
            SELECT string_agg(x.name, ', ')
            FROM (VALUES ${inbox_options}) x(name, type, low, high)
        )) ELSE @inbox_wrong(o.name, o.type, g.value, o.low, o.high) END AS message
    INTO wrong
    FROM jsonb_each(options) g
    LEFT JOIN (VALUES ${inbox_options}) o(name, type, low, high) ON o.name = g.key
    WHERE o.name IS NULL OR @inbox_wrong(o.name, o.type, g.value, o.low, o.high) IS NOT NULL
    LIMIT 1;
    IF wrong IS NULL THEN
        wrong := CASE WHEN options ?& ARRAY['delay_ms', 'run_at'] THEN 'give either delay_ms or run_at'
            WHEN options ?& ARRAY['expires_at', 'expires_in_ms'] THEN 'give either expires_at or expires_in_ms'
            WHEN options ?& ARRAY['backoff', 'backoff_ms'] THEN 'give either backoff or backoff_ms' END;
    END IF;
    IF wrong IS NOT NULL THEN
        ${invalid(wrong)};
    END IF;
END
$body$;

-- Checks the call, writes the row, and returns the id of the job.
CREATE FUNCTION @inbox_add(queue text, kind int2, payload bytea, o jsonb) RETURNS text
LANGUAGE plpgsql ${definer} AS $body$
DECLARE
    number int8;
    hi int8;
    name text;
    backoff text;
BEGIN
    PERFORM @inbox_check(queue, o);
    IF length(payload) > ${payload_bytes_max} THEN
        ${invalid('payload must have at most ${payload_bytes_max} bytes')};
    END IF;
    number := nextval('@job_seq');
    hi := (extract(epoch FROM clock_timestamp()) * 1000)::int8 << 16 | 28672;
    name := ${ulid(hi; number)};
    IF o ?| ARRAY['backoff', 'backoff_ms'] THEN
        backoff := CASE WHEN o ? 'backoff_ms' OR o -> 'backoff' ? 'steps_ms' THEN
            'l ' || (SELECT string_agg(s.value::numeric::int8::text, ' ' ORDER BY s.n)
                FROM jsonb_array_elements_text(coalesce(o -> 'backoff_ms', o -> 'backoff' -> 'steps_ms'))
                    WITH ORDINALITY s(value, n))
            ELSE format('e %s %s %s', coalesce((o -> 'backoff' ->> 'base_ms')::numeric::int8, -1),
                coalesce((o -> 'backoff' ->> 'max_ms')::numeric::int8, -1),
                coalesce((o -> 'backoff' ->> 'jitter_percent')::numeric::int8, -1)) END;
    END IF;
    INSERT INTO @inbox (seq, id_hi, id, at, ${inbox_values})
    VALUES (number, hi, name, hi >> 16, queue, CASE WHEN payload IS NULL THEN 0 ELSE kind END, payload,
        CASE WHEN jsonb_typeof(o -> 'priority') = 'number' THEN (o ->> 'priority')::numeric::int8 END,
        CASE WHEN jsonb_typeof(o -> 'priority') = 'string' THEN o ->> 'priority' END,
        (o ->> 'delay_ms')::numeric::int8, (extract(epoch FROM (o ->> 'run_at')::timestamptz) * 1000)::int8,
        (extract(epoch FROM (o ->> 'expires_at')::timestamptz) * 1000)::int8,
        (o ->> 'expires_in_ms')::numeric::int8,
        CASE o ->> 'unique_mode' WHEN 'reject' THEN ${unique_reject} WHEN 'return' THEN ${unique_return}
            WHEN 'replace' THEN ${unique_replace} END,
        (o ->> 'max_attempts')::numeric::int4, (o ->> 'max_crashes')::numeric::int4,
        (o ->> 'lease_ms')::numeric::int4, (o ->> 'timeout_ms')::numeric::int8, backoff, o ->> 'idempotency_key',
        CASE WHEN o ? 'idempotency_key' THEN ('x' || encode(substr(sha256(convert_to(queue || ' ' || o::text || ' ', 'UTF8')
            || coalesce(payload, '')), 1, 8), 'hex'))::bit(64)::int8 END,
        nullif(o ->> 'unique', ''), nullif(o ->> 'group', ''), nullif(o ->> 'correlation_id', ''),
        nullif(o ->> 'priority_label', ''), NULL, nullif(o ->> 'kind', ''), nullif(o ->> 'headers', '{}'));
    IF coalesce(nullif(current_setting('holdfast.wake', true), ''), 'on')::bool THEN
        PERFORM pg_notify('@@_wake', '0 ' || chr(1) || 'i');
    END IF;
    RETURN name;
END
$body$;

-- An argument without a type is a text, so the usual call of a driver gets here.
CREATE FUNCTION @enqueue(queue text, payload text, options jsonb DEFAULT NULL) RETURNS text
LANGUAGE plpgsql ${definer} AS $body$
BEGIN
    BEGIN
        PERFORM payload::json;
    EXCEPTION WHEN invalid_text_representation THEN
        ${invalid('payload must be a JSON text, or a bytea')};
    END;
    RETURN @inbox_add(queue, ${payload_json}::int2, convert_to(payload, 'UTF8'), options);
END
$body$;

CREATE FUNCTION @enqueue(queue text, payload json, options jsonb DEFAULT NULL) RETURNS text
LANGUAGE sql ${definer} AS $body$
    SELECT @inbox_add(queue, ${payload_json}::int2, convert_to(payload::text, 'UTF8'), options)
$body$;

CREATE FUNCTION @enqueue(queue text, payload jsonb, options jsonb DEFAULT NULL) RETURNS text
LANGUAGE sql ${definer} AS $body$
    SELECT @inbox_add(queue, ${payload_json}::int2, convert_to(payload::text, 'UTF8'), options)
$body$;

CREATE FUNCTION @enqueue(queue text, payload bytea, options jsonb DEFAULT NULL) RETURNS text
LANGUAGE sql ${definer} AS $body$
    SELECT @inbox_add(queue, ${payload_bytes}::int2, payload, options)
$body$;

-- Wakes the nodes, after a transaction that ran with holdfast.wake = off.
CREATE FUNCTION @inbox_wake() RETURNS void LANGUAGE sql ${definer} AS $body$
    SELECT pg_notify('@@_wake', '0 ' || chr(1) || 'i')
$body$;

-- Enqueues again what was refused, under the same id. Returns whether there was such a row with its payload.
CREATE FUNCTION @inbox_retry(refused text) RETURNS bool LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    WITH gone AS (
        DELETE FROM @inbox_refusal
        WHERE id = upper(refused) AND (payload IS NOT NULL OR payload_bytes = 0)
        RETURNING *
    )
    INSERT INTO @inbox (seq, id_hi, id, at, ${inbox_values})
    SELECT seq, id_hi, id, at, ${inbox_values}
    FROM gone;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM @inbox_wake();
    RETURN true;
END
$body$;

-- Only the owner of the schema can use these two, because they grant what it owns.
CREATE FUNCTION @grant_enqueue(role name) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA @@ TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION ${inbox_calls} TO %I', role);
END
$body$;

CREATE FUNCTION @revoke_enqueue(role name) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    EXECUTE format('REVOKE EXECUTE ON FUNCTION ${inbox_calls} FROM %I', role);
    EXECUTE format('REVOKE USAGE ON SCHEMA @@ FROM %I', role);
END
$body$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @@ FROM PUBLIC;

-- part: inbox_calls
-- What a role that may enqueue is allowed to call.
@enqueue(text, text, jsonb), @enqueue(text, json, jsonb), @enqueue(text, jsonb, jsonb), @enqueue(text, bytea, jsonb),
@inbox_wake()

-- name: inbox_take
-- Returns and locks the oldest rows, at most $1 of them and about ${inbox_batch_bytes} bytes, in their order. One node
-- takes rows at a time, so that jobs come into their queues in order; another one gets none. The last column says
-- whether there are more.
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(${lock_class(inbox)}, 0) AS ok
), locked AS (
    SELECT *
    FROM @inbox
    WHERE (SELECT ok FROM mine)
    ORDER BY seq
    LIMIT $1::int4
    FOR UPDATE SKIP LOCKED
), measured AS (
    SELECT locked.*, coalesce(sum(length(payload)) OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        0) AS bytes_before, count(*) OVER () AS found
    FROM locked
)
SELECT seq, id_hi, ${inbox_values}, found = $1::int4 OR bytes_before + coalesce(length(payload), 0) >=
    ${inbox_batch_bytes} AS more
FROM measured
WHERE bytes_before < ${inbox_batch_bytes}
ORDER BY seq;

-- name: inbox_delete
-- Removes these rows ($1): their jobs are created in the same transaction.
DELETE FROM @inbox
WHERE seq = ANY ($1::int8[]);

-- name: inbox_refuse
-- Moves rows ($1) to those that were refused. Takes the reasons ($2), details ($3), ids of the jobs that exist
-- instead or NULL ($4) and the time ($5).
WITH gone AS (
    DELETE FROM @inbox
    WHERE seq = ANY ($1::int8[])
    RETURNING *
)
INSERT INTO @inbox_refusal (seq, id_hi, id, at, ${inbox_values}, refused_at, reason, detail, instead, payload_bytes)
SELECT g.seq, g.id_hi, g.id, g.at, g.queue, g.payload_kind,
    CASE WHEN length(g.payload) <= ${inbox_kept_bytes} THEN g.payload END, ${inbox_rest},
    $5::int8, w.reason, w.detail, w.instead, coalesce(length(g.payload), 0)
FROM gone g
JOIN unnest($1::int8[], $2::text[], $3::text[], $4::text[]) w(seq, reason, detail, instead) ON w.seq = g.seq
ON CONFLICT (seq) DO UPDATE SET refused_at = excluded.refused_at, reason = excluded.reason, detail = excluded.detail,
    instead = excluded.instead;

-- name: inbox_forget
-- Removes the oldest refusals beyond ${inbox_refused_max}, and those from before $1.
DELETE FROM @inbox_refusal r
WHERE r.refused_at < $1::int8 OR (r.refused_at, r.seq) < (
    SELECT o.refused_at, o.seq
    FROM @inbox_refusal o
    ORDER BY o.refused_at DESC, o.seq DESC
    OFFSET ${inbox_refused_max} - 1
    LIMIT 1
);

-- name: inbox_waiting
-- Returns how many rows wait, at most ${inbox_counted_max}, and how many refusals are kept.
SELECT (SELECT count(*) FROM (SELECT FROM @inbox LIMIT ${inbox_counted_max}) x),
    (SELECT count(*) FROM @inbox_refusal);
