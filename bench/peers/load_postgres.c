/* SPDX-License-Identifier: Apache-2.0 */
/* A plain table in PostgreSQL with FOR UPDATE SKIP LOCKED, over the wire protocol with prepared
 * statements. Without batches each statement has one job; with batches it has depth jobs. Each
 * is its own transaction. A consumer that finds no job polls. */
#include <stdlib.h>
#include <string.h>

#include "load.h"

#define PROTOCOL_VERSION 196608 /* 3.0 */

enum pg_step { STEP_START, STEP_TABLE, STEP_STATEMENTS };

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS jobs (id bigserial PRIMARY KEY, queue text NOT NULL,"
    " priority int NOT NULL, run_at timestamptz NOT NULL, state smallint NOT NULL DEFAULT 0,"
    " lease_until timestamptz, payload text NOT NULL);"
    "CREATE INDEX IF NOT EXISTS jobs_ready ON jobs (queue, priority, id) WHERE state = 0;";

static const struct statement {
    const char *name, *sql;
} statements[] = {
    {"put", "INSERT INTO jobs (queue, priority, run_at, payload)"
            " VALUES ($1, $2::int, now() + $3::int * interval '1 second', $4)"},
    {"puts", "INSERT INTO jobs (queue, priority, run_at, payload)"
             " SELECT $1, p, now() + $3::int * interval '1 second', d"
             " FROM unnest($2::int[], $4::text[]) AS u (p, d)"},
    {"take", "UPDATE jobs SET state = 1, lease_until = now() + interval '60 seconds'"
             " WHERE id = ANY (ARRAY (SELECT id FROM jobs WHERE queue = $1 AND state = 0"
             " AND run_at <= now() ORDER BY priority, id LIMIT $2::int FOR UPDATE SKIP LOCKED))"
             " RETURNING id, payload"},
    {"settle", "DELETE FROM jobs WHERE id = ANY ($1::bigint[])"},
};

/* ---- messages ---- */

static size_t message_begin(struct buf *b, char kind)
{
    load_bytes(b, &kind, 1);
    load_big(b, 0, 4);
    return b->len - 4;
}

static void message_end(struct buf *b, size_t begin)
{
    size_t len = b->len - begin;
    for (unsigned i = 0; i < 4; i++)
        b->data[begin + i] = (char)(len >> (24 - 8 * i));
}

static void name(struct buf *b, const char *text)
{
    load_bytes(b, text, strlen(text) + 1);
}

static size_t parameter_begin(struct buf *b)
{
    load_big(b, 0, 4);
    return b->len;
}

static void parameter_end(struct buf *b, size_t begin)
{
    size_t len = b->len - begin;
    for (unsigned i = 0; i < 4; i++)
        b->data[begin - 4 + i] = (char)(len >> (24 - 8 * i));
}

static void parameter_text(struct buf *b, const char *text)
{
    load_big(b, strlen(text), 4);
    load_text(b, text);
}

static void parameter_number(struct buf *b, uint64_t n)
{
    size_t p = parameter_begin(b);
    load_number(b, n);
    parameter_end(b, p);
}

static size_t bind_begin(struct buf *b, const char *statement, unsigned parameters)
{
    size_t m = message_begin(b, 'B');
    name(b, "");
    name(b, statement);
    load_big(b, 0, 2); /* all as text */
    load_big(b, parameters, 2);
    return m;
}

/* Ends the bind, runs it, and commits. */
static void bind_run(struct buf *b, size_t m)
{
    load_big(b, 0, 2);
    message_end(b, m);
    m = message_begin(b, 'E');
    name(b, "");
    load_big(b, 0, 4);
    message_end(b, m);
    message_end(b, message_begin(b, 'S'));
}

/* ---- the handshake ---- */

static void hello(struct load_conn *c)
{
    size_t begin = c->out.len;
    load_big(&c->out, 0, 4);
    load_big(&c->out, PROTOCOL_VERSION, 4);
    name(&c->out, "user");
    name(&c->out, load_options(c)->user);
    name(&c->out, "database");
    name(&c->out, load_options(c)->database);
    name(&c->out, "");
    message_end(&c->out, begin);
}

static void table_make(struct load_conn *c)
{
    size_t m = message_begin(&c->out, 'Q');
    name(&c->out, schema);
    message_end(&c->out, m);
    c->step = STEP_TABLE;
}

static void statements_make(struct load_conn *c)
{
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        size_t m = message_begin(&c->out, 'P');
        name(&c->out, statements[i].name);
        name(&c->out, statements[i].sql);
        load_big(&c->out, 0, 2);
        message_end(&c->out, m);
    }
    message_end(&c->out, message_begin(&c->out, 'S'));
    c->step = STEP_STATEMENTS;
}

static void handshake_done(struct load_conn *c)
{
    if (c->step == STEP_START && c->index == 0)
        table_make(c);
    else if (c->step != STEP_STATEMENTS)
        statements_make(c);
    else
        load_up(c);
}

/* ---- jobs ---- */

static void put_one(struct load_conn *c)
{
    const struct load_options *o = load_options(c);
    size_t m = bind_begin(&c->out, "put", 4);
    parameter_text(&c->out, o->queue);
    parameter_number(&c->out, load_priority(c->load));
    parameter_number(&c->out, o->delay_s);
    load_big(&c->out, o->size, 4);
    load_payload(c, &c->out);
    bind_run(&c->out, m);
}

/* Arrays as text: {1,2,3}. Payloads are letters and digits, which need no quotes. */
static void put(struct load_conn *c, unsigned jobs)
{
    const struct load_options *o = load_options(c);
    if (jobs == 1) {
        put_one(c);
        return;
    }
    size_t m = bind_begin(&c->out, "puts", 4);
    parameter_text(&c->out, o->queue);
    size_t p = parameter_begin(&c->out);
    for (unsigned i = 0; i < jobs; i++) {
        load_text(&c->out, i > 0 ? "," : "{");
        load_number(&c->out, load_priority(c->load));
    }
    load_text(&c->out, "}");
    parameter_end(&c->out, p);
    parameter_number(&c->out, o->delay_s);
    p = parameter_begin(&c->out);
    for (unsigned i = 0; i < jobs; i++) {
        load_text(&c->out, i > 0 ? "," : "{");
        load_payload(c, &c->out);
    }
    load_text(&c->out, "}");
    parameter_end(&c->out, p);
    bind_run(&c->out, m);
}

static void take(struct load_conn *c, unsigned jobs)
{
    size_t m = bind_begin(&c->out, "take", 2);
    parameter_text(&c->out, load_options(c)->queue);
    parameter_number(&c->out, jobs);
    bind_run(&c->out, m);
    c->asked = jobs;
}

static void settle(struct load_conn *c)
{
    size_t m = bind_begin(&c->out, "settle", 1), p = parameter_begin(&c->out);
    load_bytes(&c->out, c->held.data, c->held.len);
    load_text(&c->out, "}");
    parameter_end(&c->out, p);
    bind_run(&c->out, m);
}

/* ---- hearing ---- */

/* Two columns: id and payload. */
static void row(struct load_conn *c, const char *at, size_t len)
{
    size_t id_len = len > 6 ? load_read_big(at + 2, 4) : len;
    if (len < 6 + id_len + 4)
        load_unexpected("take", at, len);
    const char *payload = at + 6 + id_len + 4;
    load_received(c, payload, load_read_big(payload - 4, 4));
    load_text(&c->held, c->held_jobs > 0 ? "," : "{");
    load_bytes(&c->held, at + 6, id_len);
    c->held_jobs++;
}

/* `tag` is INSERT 0 n, UPDATE n or DELETE n; it counts when the transaction is over. */
static void complete(struct load_conn *c, const char *tag)
{
    const char *last = strrchr(tag, ' ');
    unsigned jobs = last ? (unsigned)strtoul(last + 1, NULL, 10) : 0;
    c->tag = (uint64_t)(uint8_t)tag[0] << 32 | jobs;
}

static void committed(struct load_conn *c)
{
    unsigned jobs = (unsigned)c->tag;
    char op = (char)(c->tag >> 32);
    c->tag = 0;
    if (op == 'I')
        load_confirmed(c, jobs);
    else if (op == 'D')
        load_settled(c, jobs);
    else {
        c->asked = 0;
        if (jobs == 0)
            load_retry(c);
    }
}

static void heard(struct load_conn *c, char kind, const char *at, size_t len)
{
    if (kind == 'E' || (kind == 'R' && load_read_big(at, 4) != 0))
        load_unexpected("a statement", at, len);
    if (kind == 'D')
        row(c, at, len);
    else if (kind == 'C' && c->up)
        complete(c, at);
    else if (kind == 'Z' && c->up)
        committed(c);
    else if (kind == 'Z')
        handshake_done(c);
}

static size_t hear(struct load_conn *c, const char *at, size_t len)
{
    if (len < 5)
        return 0;
    size_t size = load_read_big(at + 1, 4);
    if (len < 1 + size)
        return 0;
    heard(c, at[0], at + 5, size - 4);
    return 1 + size;
}

const struct load_protocol load_postgres = {
    .name = "postgres", .put_batched = true, .take_batched = true, LOAD_FUNCTIONS};
