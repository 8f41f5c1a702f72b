/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/postgres/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/postgres/exec.h"
#include "backend/postgres/sql.h"
#include "base/mem.h"

#define SERVER_VERSION_MIN 130000

/* '@' stands for the schema. Tables that are written all the time are vacuumed by count, not by
 * share, so that what dies in a second is gone in the next minute however large they are. */
#define CHURN                                                                                      \
    " WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02,"                               \
    " autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,"                       \
    " autovacuum_analyze_scale_factor = 0.1)"
#define TALLIES                                                                                    \
    " t0 int8 NOT NULL DEFAULT 0, t1 int8 NOT NULL DEFAULT 0, t2 int8 NOT NULL DEFAULT 0,"         \
    " t3 int8 NOT NULL DEFAULT 0, t4 int8 NOT NULL DEFAULT 0, t5 int8 NOT NULL DEFAULT 0,"         \
    " t6 int8 NOT NULL DEFAULT 0, t7 int8 NOT NULL DEFAULT 0, t8 int8 NOT NULL DEFAULT 0,"         \
    " t9 int8 NOT NULL DEFAULT 0, t10 int8 NOT NULL DEFAULT 0, t11 int8 NOT NULL DEFAULT 0,"       \
    " t12 int8 NOT NULL DEFAULT 0"
#define SUM_COLUMNS                                                                                \
    " s1 int8 NOT NULL DEFAULT 0, s2 int8 NOT NULL DEFAULT 0, s3 int8 NOT NULL DEFAULT 0,"         \
    " s4 int8 NOT NULL DEFAULT 0, s5 int8 NOT NULL DEFAULT 0, s6 int8 NOT NULL DEFAULT 0,"         \
    " urgent int8 NOT NULL DEFAULT 0, removed int8 NOT NULL DEFAULT 0," TALLIES

static const char step_1[] =
    "CREATE TABLE @meta (one bool PRIMARY KEY DEFAULT true CHECK (one), version int4 NOT NULL,"
    " hash_key bytea NOT NULL, created_at timestamptz NOT NULL DEFAULT now(),"
    " alerts int8 NOT NULL DEFAULT 1);"
    "CREATE SEQUENCE @epoch AS int4;"
    "CREATE SEQUENCE @job_seq MAXVALUE 9007199254740991 CACHE 1;"
    "CREATE SEQUENCE @queue_number AS int4 CACHE 1;"
    "CREATE TABLE @node (epoch int4 PRIMARY KEY, number int4 NOT NULL, seen_at int8 NOT NULL,"
    " version text NOT NULL DEFAULT '', syncs int8 NOT NULL DEFAULT 0) WITH (fillfactor = 10);"
    "CREATE TABLE @leader (one bool PRIMARY KEY DEFAULT true CHECK (one),"
    " epoch int8 NOT NULL DEFAULT 0, holder int4 NOT NULL DEFAULT 0, until int8 NOT NULL DEFAULT 0)"
    " WITH (fillfactor = 20);"
    "INSERT INTO @leader DEFAULT VALUES;"
    "CREATE TABLE @queue (number int4 PRIMARY KEY, name text COLLATE \"C\" NOT NULL, owner text,"
    " note text, attributes text, policy bytea NOT NULL, generation int4 NOT NULL DEFAULT 0,"
    " created_at int8 NOT NULL, updated_at int8 NOT NULL, paused_until int8 NOT NULL DEFAULT 0,"
    " keep_done int8 NOT NULL, keep_done_ms int8 NOT NULL, keep_dead int8 NOT NULL,"
    " keep_dead_ms int8 NOT NULL, gone bool NOT NULL DEFAULT false,"
    " sweeping bool NOT NULL DEFAULT false);"
    "CREATE UNIQUE INDEX queue_by_name ON @queue (name) WHERE NOT gone;"
    "CREATE INDEX queue_sweeping ON @queue (number) WHERE sweeping;"
    "CREATE TABLE @total (queue int4 PRIMARY KEY," SUM_COLUMNS ") WITH (fillfactor = 50);"
    "CREATE TABLE @hour (queue int4, hour int4," TALLIES ", PRIMARY KEY (queue, hour))"
    " WITH (fillfactor = 70);"
    "CREATE TABLE @delta (queue int4 NOT NULL, hour int4 NOT NULL," SUM_COLUMNS ")" CHURN ";"
    "CREATE INDEX delta_by_queue ON @delta (queue);"
    "CREATE TABLE @job (seq int8 PRIMARY KEY, id_hi int8 NOT NULL, queue int4 NOT NULL,"
    " state int2 NOT NULL, reason int2 NOT NULL DEFAULT 0, priority int8 NOT NULL,"
    " run_at int8 NOT NULL, since int8 NOT NULL, generation int4 NOT NULL,"
    " failures int4 NOT NULL DEFAULT 0, crashes int4 NOT NULL DEFAULT 0,"
    " payload_kind int2 NOT NULL, payload_bytes int4 NOT NULL, flags int2 NOT NULL DEFAULT 0,"
    " tok_epoch int4 NOT NULL DEFAULT 0, tok_counter int8 NOT NULL DEFAULT 0,"
    " lease_ms int4 NOT NULL DEFAULT 0, until int8 NOT NULL DEFAULT 0, worker text,"
    " nonce int8 NOT NULL DEFAULT 0, started_at int8 NOT NULL DEFAULT 0,"
    " word int2 NOT NULL DEFAULT 0, word_state int2 NOT NULL DEFAULT 0,"
    " word_run_at int8 NOT NULL DEFAULT 0, fate int8 NOT NULL DEFAULT 0,"
    " ukey text COLLATE \"C\", held bool NOT NULL DEFAULT false, grp text COLLATE \"C\","
    " correlation text, label text, attributes text, expires_at int8 NOT NULL DEFAULT 0,"
    " options bytea, undelivered bytea, result_kind int2 NOT NULL DEFAULT 0,"
    " error_kind int2 NOT NULL DEFAULT 0, holder int8 NOT NULL DEFAULT 0,"
    " holder_hi int8 NOT NULL DEFAULT 0, payload bytea, result bytea, error bytea)" CHURN ";"
    "CREATE INDEX job_ready ON @job (queue, generation, priority DESC, seq) WHERE state = 2;"
    "CREATE INDEX job_pending ON @job (seq) WHERE state = 2 AND flags & 4 <> 0;"
    "CREATE INDEX job_due ON @job (state, run_at) WHERE state = 1;"
    "CREATE INDEX job_due_queue ON @job (queue, run_at) WHERE state = 1;"
    "CREATE INDEX job_lease ON @job (until) WHERE state = 3;"
    "CREATE INDEX job_expiry ON @job (expires_at) WHERE state IN (1, 2) AND expires_at > 0;"
    "CREATE INDEX job_kept ON @job (queue, state, since, seq) WHERE state >= 4;"
    "CREATE UNIQUE INDEX job_key ON @job (queue, ukey) WHERE held;"
    "CREATE INDEX job_group ON @job (queue, grp, state) WHERE grp IS NOT NULL;"
    "CREATE INDEX job_holder ON @job (holder) WHERE state = 3 AND lease_ms = 0 AND holder > 0;"
    "CREATE TABLE @attempt (seq int8 NOT NULL, n int8 GENERATED ALWAYS AS IDENTITY,"
    " queue int4 NOT NULL, number int4 NOT NULL, started_at int8 NOT NULL, ended_at int8 NOT NULL,"
    " outcome int2 NOT NULL, error_kind int2 NOT NULL, worker text, error bytea,"
    " PRIMARY KEY (seq, n));"
    "CREATE INDEX attempt_wrong ON @attempt (n) WHERE outcome IN (2, 3);"
    "CREATE TABLE @word (epoch int4, counter int8, seq int8 NOT NULL, kind int2 NOT NULL,"
    " state int2 NOT NULL, run_at int8 NOT NULL, at int8 NOT NULL, PRIMARY KEY (epoch, counter));"
    "CREATE INDEX word_by_time ON @word (at);"
    "CREATE TABLE @idem (hi int8, lo int8, fingerprint int8 NOT NULL, seq int8 NOT NULL,"
    " id_hi int8 NOT NULL, expires_at int8 NOT NULL, PRIMARY KEY (hi, lo));"
    "CREATE INDEX idem_by_time ON @idem (expires_at);"
    "CREATE TABLE @alert (name text COLLATE \"C\" PRIMARY KEY, rule bytea NOT NULL);"
    "CREATE TABLE @raised (alert text COLLATE \"C\", queue text COLLATE \"C\","
    " since int8 NOT NULL, value int8 NOT NULL, mark int8 NOT NULL, PRIMARY KEY (alert, queue));"
    "CREATE SEQUENCE @notice_number MAXVALUE 9007199254740991 CACHE 1;"
    "CREATE TABLE @notice (number int8 PRIMARY KEY, id_hi int8 NOT NULL, kind int2 NOT NULL,"
    " edge int2 NOT NULL, at int8 NOT NULL, alert text COLLATE \"C\" NOT NULL,"
    " queue text NOT NULL, job_seq int8 NOT NULL, job_hi int8 NOT NULL, reason int2 NOT NULL,"
    " attempts int8 NOT NULL, value int8 NOT NULL, mark int8 NOT NULL, subject bytea NOT NULL,"
    " body bytea NOT NULL, state int2 NOT NULL DEFAULT 0, tries int8 NOT NULL DEFAULT 0,"
    " since int8 NOT NULL, due int8 NOT NULL, status int4 NOT NULL DEFAULT 0,"
    " error bytea NOT NULL DEFAULT '', look_at int8 NOT NULL, holder int4 NOT NULL DEFAULT 0)"
    " WITH (fillfactor = 70);"
    "CREATE INDEX notice_look ON @notice (look_at, number) WHERE state = 0;"
    "CREATE INDEX notice_held ON @notice (holder) WHERE holder > 0;"
    "CREATE INDEX notice_alert ON @notice (alert);"
    "CREATE TABLE @breaker (target text COLLATE \"C\" PRIMARY KEY, state int2 NOT NULL,"
    " failures int8 NOT NULL, probes int8 NOT NULL, until int8 NOT NULL,"
    " changed_at int8 NOT NULL) WITH (fillfactor = 50);"
    "CREATE SEQUENCE @schedule_number AS int4 CACHE 1;"
    "CREATE SEQUENCE @schedule_change CACHE 1;"
    "CREATE TABLE @schedule (number int4 PRIMARY KEY, name text COLLATE \"C\" NOT NULL UNIQUE,"
    " owner text NOT NULL, note text NOT NULL, attributes text NOT NULL, spec bytea NOT NULL,"
    " kind int2 NOT NULL, source text NOT NULL, target text NOT NULL, paused bool NOT NULL,"
    " created_at int8 NOT NULL, updated_at int8 NOT NULL, changed int8 NOT NULL,"
    " next_at int8 NOT NULL, retry_at int8 NOT NULL, last_at int8 NOT NULL,"
    " fired_at int8 NOT NULL, seq int8 NOT NULL, id_hi int8 NOT NULL, item int8 NOT NULL,"
    " fired int8 NOT NULL, missed int8 NOT NULL, failures int8 NOT NULL, error int2 NOT NULL)"
    " WITH (fillfactor = 70);"
    "CREATE INDEX schedule_changed ON @schedule (changed);"
    "CREATE SEQUENCE @kv_version MAXVALUE 9007199254740991 CACHE 1;"
    "CREATE TABLE @kv (key bytea PRIMARY KEY, version int8 NOT NULL,"
    " expires_at int8 NOT NULL DEFAULT 0, kind int2 NOT NULL, value bytea NOT NULL)" CHURN ";"
    "CREATE INDEX kv_expiry ON @kv (expires_at) WHERE expires_at > 0;"
    "CREATE TABLE @bulk (number int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " action int2 NOT NULL, queue int4 NOT NULL, states int4 NOT NULL, grp text NOT NULL,"
    " seq_max int8 NOT NULL, at int8 NOT NULL, cursor int8 NOT NULL DEFAULT 0,"
    " changed int8 NOT NULL DEFAULT 0, refused int8 NOT NULL DEFAULT 0, epoch int4 NOT NULL);"
    "CREATE VIEW @tasks AS SELECT j.seq AS id, (ARRAY['scheduled', 'ready', 'running', 'done',"
    " 'dead', 'cancelled'])[j.state] AS status, j.priority,"
    " to_timestamp(nullif(j.run_at, 0) / 1000.0) AS scheduled_at,"
    " to_timestamp(j.since / 1000.0) AS updated_at, j.failures + j.crashes AS retry_count"
    " FROM @job j JOIN @queue q ON q.number = j.queue AND NOT q.gone"
    " AND (j.state > 2 OR j.generation = q.generation);"
    "INSERT INTO @meta (version, hash_key) VALUES (1,"
    " decode(md5(random()::text || clock_timestamp()::text || pg_backend_pid()), 'hex'))";

static const char *const steps[SCHEMA_VERSION] = {step_1};

/* --- one question after the other, while nobody waits for the loop --- */

/* The words of the server, on one line. */
static int refused(PGconn *pg, const PGresult *r, const char *what, struct err_note *note)
{
    char text[300];
    const char *primary = r ? PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    const char *words = primary ? primary : PQerrorMessage(pg);
    snprintf(text, sizeof text, "%s", *words ? words : "the server did not answer");
    text[strcspn(text, "\n")] = '\0';
    return err_note_set(note, -ERR_IO, "PostgreSQL: %s: %s", what, text);
}

static int ask(PGconn *pg, const struct pg_url *url, const char *query, const char *what,
               PGresult **ret, struct err_note *note)
{
    char *text = pg_sql_with_schema(query, url->schema);
    if (!text)
        return -ERR_NOMEM;
    PGresult *r = pg_exec(pg, text, url->patience_ms);
    mem_free(text);
    ExecStatusType status = PQresultStatus(r);
    int err = 0;
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        err = refused(pg, r, what, note);
    if (err || !ret)
        PQclear(r);
    else
        *ret = r;
    return err;
}

static int run(PGconn *pg, const struct pg_url *url, const char *query, const char *what,
               struct err_note *note)
{
    return ask(pg, url, query, what, NULL, note);
}

static bool is_true(const PGresult *r, int col)
{
    return strcmp(pg_text_at(r, 0, col), "t") == 0;
}

/* --- is this a server and a database that keeps our promises? --- */

static int check_settings(const PGresult *r, const struct pg_url *url, struct err_note *note)
{
    if (strcmp(pg_text_at(r, 0, 0), "UTF8") != 0)
        return err_note_set(note, -ERR_INVALID,
                            "the database has the encoding %s; Holdfast needs one with UTF8",
                            pg_text_at(r, 0, 0));
    if (is_true(r, 1))
        return err_note_set(note, -ERR_INVALID,
                            "the PostgreSQL server is a standby that takes no writes; name the "
                            "primary");
    bool synced = strcmp(pg_text_at(r, 0, 2), "on") == 0 && strcmp(pg_text_at(r, 0, 3), "off") != 0;
    if (!synced && !url->relaxed)
        return err_note_set(note, -ERR_INVALID,
                            "the PostgreSQL server does not sync what it commits (fsync = %s, "
                            "synchronous_commit = %s), so a success would promise nothing; turn "
                            "both on, or say durability=relaxed in the URL of the backend",
                            pg_text_at(r, 0, 2), pg_text_at(r, 0, 3));
    if (strcmp(pg_text_at(r, 0, 4), "on") != 0 && !url->relaxed)
        return err_note_set(note, -ERR_INVALID,
                            "the PostgreSQL server has full_page_writes = off, so a power cut can "
                            "leave it with half-written pages; turn it on, or say "
                            "durability=relaxed in the URL of the backend");
    return 0;
}

static int check_server(PGconn *pg, const struct pg_url *url, struct err_note *note)
{
    int version = PQserverVersion(pg);
    PGresult *r;
    if (version < SERVER_VERSION_MIN)
        return err_note_set(note, -ERR_INVALID,
                            "the PostgreSQL server has version %s; Holdfast needs %d or newer",
                            PQparameterStatus(pg, "server_version"), SERVER_VERSION_MIN / 10000);
    int err = ask(pg, url,
                  "SELECT current_setting('server_encoding'), pg_is_in_recovery(),"
                  " current_setting('fsync'), current_setting('synchronous_commit'),"
                  " current_setting('full_page_writes')",
                  "its settings cannot be read", &r, note);
    if (err)
        return err;
    err = check_settings(r, url, note);
    PQclear(r);
    return err;
}

/* --- the version --- */

/* Those that have no column of their own. */
#define SEQUENCES "'epoch', 'job_seq', 'queue_number', 'kv_version'"

struct found {
    bool schema, meta, may_create_schema, may_create, may_use;
    int version;
};

static int look(PGconn *pg, const struct pg_url *url, struct found *ret, struct err_note *note)
{
    char query[1400];
    PGresult *r;
    snprintf(query, sizeof query,
             "SELECT n.oid IS NOT NULL, c.oid IS NOT NULL,"
             " has_database_privilege(current_database(), 'CREATE'),"
             " coalesce(has_schema_privilege(n.oid, 'CREATE'), false),"
             " coalesce(has_schema_privilege(n.oid, 'USAGE') AND NOT EXISTS (SELECT FROM pg_class t"
             " WHERE t.relnamespace = n.oid AND (t.relkind = 'r' AND NOT"
             " (has_table_privilege(t.oid, 'SELECT') AND has_table_privilege(t.oid, 'INSERT') AND"
             " has_table_privilege(t.oid, 'UPDATE') AND has_table_privilege(t.oid, 'DELETE'))"
             " OR t.relname IN (" SEQUENCES ") AND NOT (has_sequence_privilege(t.oid, 'USAGE') AND"
             " has_sequence_privilege(t.oid, 'SELECT')))), false)"
             " FROM (SELECT 1) x LEFT JOIN pg_namespace n ON n.nspname = '%s'"
             " LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'meta'",
             url->schema);
    int err = ask(pg, url, query, "its catalogue cannot be read", &r, note);
    if (err)
        return err;
    *ret = (struct found){.schema = is_true(r, 0),
                          .meta = is_true(r, 1),
                          .may_create_schema = is_true(r, 2),
                          .may_create = is_true(r, 3),
                          .may_use = is_true(r, 4)};
    PQclear(r);
    if (!ret->meta)
        return 0;
    if (!ret->may_use)
        return err_note_set(note, -ERR_INVALID,
                            "the role %s may not use the tables of the schema %s; make it their "
                            "owner, or grant it USAGE on the schema and all rights on its tables "
                            "and sequences",
                            PQuser(pg), url->schema);
    err =
        ask(pg, url, "SELECT version FROM @meta", "the schema's version cannot be read", &r, note);
    if (err)
        return err;
    ret->version = PQntuples(r) == 1 ? (int)strtol(pg_text_at(r, 0, 0), NULL, 10) : -1;
    PQclear(r);
    return 0;
}

static int check_found(PGconn *pg, const struct pg_url *url, const struct found *f,
                       struct err_note *note)
{
    if (f->version > SCHEMA_VERSION)
        return err_note_set(note, -ERR_VERSION,
                            "the schema %s was made by a newer version of Holdfast (its version is "
                            "%d, this binary knows up to %d); use that one",
                            url->schema, f->version, SCHEMA_VERSION);
    if (f->version < 0)
        return err_note_set(note, -ERR_CORRUPT, "the table meta of the schema %s is empty",
                            url->schema);
    if (!f->schema && !f->may_create_schema)
        return err_note_set(note, -ERR_INVALID,
                            "the role %s may not make the schema %s: GRANT CREATE ON DATABASE %s, "
                            "or make the schema for it (CREATE SCHEMA %s AUTHORIZATION …)",
                            PQuser(pg), url->schema, PQdb(pg), url->schema);
    if (f->schema && f->version < SCHEMA_VERSION && !f->may_create)
        return err_note_set(note, -ERR_INVALID,
                            "the role %s may not make tables in the schema %s: GRANT CREATE ON "
                            "SCHEMA %s",
                            PQuser(pg), url->schema, url->schema);
    return 0;
}

/* Under the lock the version is looked up again: another node may have been here. */
static int migrate(PGconn *pg, const struct pg_url *url, struct err_note *note)
{
    struct found f = {.version = 0};
    char lock[120], version[80];
    snprintf(lock, sizeof lock, "SELECT pg_advisory_xact_lock(hashtext('holdfast %s'))",
             url->schema);
    int err = run(pg, url, "BEGIN", "no transaction", note);
    if (!err)
        err = run(pg, url, lock, "the lock for the schema cannot be taken", note);
    if (!err)
        err = look(pg, url, &f, note);
    if (!err)
        err = check_found(pg, url, &f, note);
    if (!err && !f.schema) {
        char create[120];
        snprintf(create, sizeof create, "CREATE SCHEMA %s", url->schema);
        err = run(pg, url, create, "the schema cannot be made", note);
    }
    for (int v = f.version > 0 ? f.version : 0; !err && v < SCHEMA_VERSION; v++)
        err = run(pg, url, steps[v], "the tables cannot be made", note);
    snprintf(version, sizeof version, "UPDATE @meta SET version = %d", SCHEMA_VERSION);
    if (!err && f.version < SCHEMA_VERSION)
        err = run(pg, url, version, "the schema's version cannot be written", note);
    if (!err)
        return run(pg, url, "COMMIT", "the schema cannot be committed", note);
    PQclear(pg_exec(pg, "ROLLBACK", url->patience_ms));
    return err;
}

static int read_facts(PGconn *pg, const struct pg_url *url, struct store_facts *ret,
                      struct err_note *note)
{
    PGresult *r;
    int err = ask(pg, url, "SELECT nextval('@epoch'), encode(hash_key, 'hex') FROM @meta",
                  "its number of boots cannot be raised", &r, note);
    if (err)
        return err;
    char half[17] = "";
    const char *hex = pg_text_at(r, 0, 1);
    unsigned long epoch = strtoul(pg_text_at(r, 0, 0), NULL, 10);
    if (PQntuples(r) != 1 || strlen(hex) != 32 || epoch == 0 || epoch > INT32_MAX) {
        err = err_note_set(note, -ERR_CORRUPT, "the table meta of the schema %s is damaged",
                           url->schema);
    } else {
        ret->epoch = (uint32_t)epoch;
        memcpy(half, hex, 16);
        ret->hash_key.k0 = strtoull(half, NULL, 16);
        ret->hash_key.k1 = strtoull(hex + 16, NULL, 16);
    }
    PQclear(r);
    return err;
}

int pg_schema_prepare(PGconn *pg, const struct pg_url *url, struct store_facts *ret,
                      struct err_note *note)
{
    struct found f = {.version = 0};
    int err = check_server(pg, url, note);
    if (!err)
        err = look(pg, url, &f, note);
    if (!err)
        err = check_found(pg, url, &f, note);
    if (!err && f.version < SCHEMA_VERSION)
        err = migrate(pg, url, note);
    return err ? err : read_facts(pg, url, ret, note);
}
