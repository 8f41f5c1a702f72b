/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/postgres/sql/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/postgres/connection/exec.h"
#include "backend/postgres/sql/sql.h"
#include "base/mem.h"

#define SERVER_VERSION_MIN 130000

/* --- one query after the other, blocking, because the loop does not run yet --- */

/* The message of the server, on one line. */
static int refused(PGconn *pg, const PGresult *r, const char *what, struct err_note *note)
{
    char text[300];
    const char *primary = r ? PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    const char *words = primary ? primary : PQerrorMessage(pg);
    snprintf(text, sizeof text, "%s", *words ? words : "the server did not answer");
    text[strcspn(text, "\n")] = '\0';
    return err_note_set(note, -ERR_IO, "PostgreSQL: %s: %s", what, text);
}

static int ask(PGconn *pg, const struct pg_url *url, enum sql_id id, const char *what,
               PGresult **ret, struct err_note *note)
{
    char *text = pg_sql_with_schema(pg_sql_source[id], url->schema);
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

static int run(PGconn *pg, const struct pg_url *url, enum sql_id id, const char *what,
               struct err_note *note)
{
    return ask(pg, url, id, what, NULL, note);
}

static bool is_true(const PGresult *r, int col)
{
    return strcmp(pg_text_at(r, 0, col), "t") == 0;
}

/* --- do the server and the database meet the requirements? --- */

static int check_settings(const PGresult *r, const struct pg_url *url, struct err_note *note)
{
    if (strcmp(pg_text_at(r, 0, 0), "UTF8") != 0)
        return err_note_set(note, -ERR_INVALID,
                            "the database has the encoding %s; Holdfast needs one with UTF8",
                            pg_text_at(r, 0, 0));
    if (is_true(r, 1))
        return err_note_set(note, -ERR_INVALID,
                            "the PostgreSQL server is a standby that accepts no writes; use the "
                            "primary");
    bool synced = strcmp(pg_text_at(r, 0, 2), "on") == 0 && strcmp(pg_text_at(r, 0, 3), "off") != 0;
    if (!synced && !url->relaxed)
        return err_note_set(note, -ERR_INVALID,
                            "the PostgreSQL server does not sync what it commits (fsync = %s, "
                            "synchronous_commit = %s), so a success would not be durable; turn "
                            "both on, or set durability=relaxed in the URL of the backend",
                            pg_text_at(r, 0, 2), pg_text_at(r, 0, 3));
    if (strcmp(pg_text_at(r, 0, 4), "on") != 0 && !url->relaxed)
        return err_note_set(note, -ERR_INVALID,
                            "the PostgreSQL server has full_page_writes = off, so a power cut can "
                            "leave it with half-written pages; turn it on, or set "
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
    int err = ask(pg, url, SQL_SERVER_SETTINGS, "its settings cannot be read", &r, note);
    if (err)
        return err;
    err = check_settings(r, url, note);
    PQclear(r);
    return err;
}

/* --- the version --- */

struct found {
    bool schema, meta, may_create_schema, may_create, may_use;
    int version;
};

static int find(PGconn *pg, const struct pg_url *url, struct found *ret, struct err_note *note)
{
    PGresult *r;
    int err = ask(pg, url, SQL_SCHEMA_FOUND, "its catalogue cannot be read", &r, note);
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
    err = ask(pg, url, SQL_SCHEMA_VERSION, "the schema's version cannot be read", &r, note);
    if (err)
        return err;
    ret->version = PQntuples(r) == 1 ? (int)strtol(pg_text_at(r, 0, 0), NULL, 10) : -1;
    PQclear(r);
    return 0;
}

static int check_found(PGconn *pg, const struct pg_url *url, const struct found *f,
                       struct err_note *note)
{
    if (f->version > PG_SCHEMA_VERSION)
        return err_note_set(
            note, -ERR_VERSION,
            "the schema %s was created by a newer version of Holdfast (its version is "
            "%d, this binary needs %d); use the newer version",
            url->schema, f->version, PG_SCHEMA_VERSION);
    if (f->meta && f->version >= 0 && f->version < PG_SCHEMA_VERSION)
        return err_note_set(
            note, -ERR_VERSION,
            "the schema %s was created by a draft of Holdfast (its version is %d, this "
            "binary needs %d); export its jobs with the version that wrote it, and "
            "import them into another schema",
            url->schema, f->version, PG_SCHEMA_VERSION);
    if (f->version < 0)
        return err_note_set(note, -ERR_CORRUPT, "the table meta of the schema %s is empty",
                            url->schema);
    if (!f->schema && !f->may_create_schema)
        return err_note_set(
            note, -ERR_INVALID,
            "the role %s may not create the schema %s: GRANT CREATE ON DATABASE %s, "
            "or create the schema for it (CREATE SCHEMA %s AUTHORIZATION …)",
            PQuser(pg), url->schema, PQdb(pg), url->schema);
    if (f->schema && !f->meta && !f->may_create)
        return err_note_set(note, -ERR_INVALID,
                            "the role %s may not create tables in the schema %s: GRANT CREATE ON "
                            "SCHEMA %s",
                            PQuser(pg), url->schema, url->schema);
    return 0;
}

/* Under the lock the version is read again: another node may have created the schema. */
static int create(PGconn *pg, const struct pg_url *url, struct err_note *note)
{
    struct found f = {.version = 0};
    int err = run(pg, url, SQL_BEGIN, "a transaction cannot be started", note);
    if (!err)
        err = run(pg, url, SQL_SCHEMA_LOCK, "the lock for the schema cannot be taken", note);
    if (!err)
        err = find(pg, url, &f, note);
    if (!err)
        err = check_found(pg, url, &f, note);
    if (!err && !f.schema)
        err = run(pg, url, SQL_SCHEMA_CREATE, "the schema cannot be created", note);
    if (!err && !f.meta)
        err = run(pg, url, SQL_SCHEMA_TABLES, "the tables cannot be created", note);
    if (!err && !f.meta)
        err = run(pg, url, SQL_SCHEMA_INBOX, "the functions cannot be created", note);
    if (!err)
        return run(pg, url, SQL_COMMIT, "the schema cannot be committed", note);
    PQclear(pg_exec(pg, "ROLLBACK", url->patience_ms));
    return err;
}

static int read_facts(PGconn *pg, const struct pg_url *url, struct store_facts *ret,
                      struct err_note *note)
{
    PGresult *r;
    int err = ask(pg, url, SQL_BOOT, "the number of boots cannot be increased", &r, note);
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
        err = find(pg, url, &f, note);
    if (!err)
        err = check_found(pg, url, &f, note);
    if (!err && !f.meta)
        err = create(pg, url, note);
    return err ? err : read_facts(pg, url, ret, note);
}
