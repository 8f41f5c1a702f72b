/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/postgres/connection/url.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

/* Parameters that are added unless the URL sets them: they detect a dead peer and name this
 * program. */
static const char *const defaults[][2] = {
    {"connect_timeout", "10"},     {"application_name", "holdfast"}, {"client_encoding", "UTF8"},
    {"keepalives_idle", "10"},     {"keepalives_interval", "5"},     {"keepalives_count", "3"},
    {"tcp_user_timeout", "15000"},
};
#define DEFAULT_COUNT (sizeof defaults / sizeof defaults[0])

static bool schema_right(struct span name)
{
    if (name.len == 0 || name.len >= SCHEMA_BYTES || (name.at[0] >= '0' && name.at[0] <= '9'))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_", name.at[i]))
            return false;
    return strncmp(name.at, "pg_", 3) != 0;
}

static bool is(struct span s, const char *text)
{
    return span_equal(s, span_text(text));
}

/* *ret_ours: it was one of Holdfast's own parameters. */
static int take_own(struct pg_url *u, struct span key, struct span value, bool *ret_ours,
                    struct err_note *note)
{
    *ret_ours = true;
    if (is(key, "schema")) {
        if (!schema_right(value))
            return err_note_set(note, -ERR_INVALID,
                                "schema in the URL of the backend must be 1 to 63 of the "
                                "characters a-z, 0-9 and _, beginning with a letter or _, and not "
                                "with pg_");
        memcpy(u->schema, value.at, value.len);
        u->schema[value.len] = '\0';
    } else if (is(key, "durability")) {
        u->relaxed = is(value, "relaxed");
        if (!u->relaxed && !is(value, "fsync"))
            return err_note_set(note, -ERR_INVALID,
                                "durability in the URL of the backend must be fsync or relaxed");
    } else if (is(key, "pooler")) {
        u->pooled = is(value, "yes");
        if (!u->pooled && !is(value, "no"))
            return err_note_set(note, -ERR_INVALID,
                                "pooler in the URL of the backend must be yes or no");
    } else {
        *ret_ours = false;
    }
    return 0;
}

/* Copies the parameters that are not Holdfast's own, and notes which of the defaults are given. */
static int take_parameters(struct pg_url *u, const char *at, struct buf *out, bool *given,
                           struct err_note *note)
{
    int err = 0;
    while (*at && !err) {
        size_t len = strcspn(at, "&"), key_len = strcspn(at, "=&");
        struct span key = span_of(at, key_len);
        struct span value = span_of(at + key_len + 1, len > key_len ? len - key_len - 1 : 0);
        bool ours;
        err = take_own(u, key, value, &ours, note);
        for (size_t i = 0; i < DEFAULT_COUNT; i++)
            given[i] |= is(key, defaults[i][0]);
        if (!err && !ours && len)
            err = buf_append(out, at, len) || buf_append_text(out, "&") ? -ERR_NOMEM : 0;
        at += len + (at[len] == '&');
    }
    return err;
}

static int add_defaults(struct buf *out, const bool *given)
{
    int err = 0;
    for (size_t i = 0; i < DEFAULT_COUNT && !err; i++)
        if (!given[i])
            err = buf_printf(out, "%s=%s&", defaults[i][0], defaults[i][1]);
    if (!err)
        out->len--; /* the last & */
    return err;
}

static int understood(const char *conninfo, struct err_note *note)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(conninfo, &why);
    PQfreemem(why);
    PQconninfoFree(options);
    if (options)
        return 0;
    return err_note_set(note, -ERR_INVALID,
                        "libpq does not accept the URL of the backend; write "
                        "postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters "
                        "percent-encoded and parameters of libpq after a ?");
}

int pg_url_parse(const char *rest, struct pg_url *ret, struct err_note *note)
{
    bool given[DEFAULT_COUNT] = {false};
    struct buf b;
    *ret = (struct pg_url){.schema = "holdfast"};
    if (strncmp(rest, "//", 2) != 0)
        return err_note_set(note, -ERR_INVALID,
                            "the URL of the backend needs a // after the scheme: write "
                            "postgres://USER:PASSWORD@HOST:PORT/DATABASE");
    buf_init(&b);
    size_t head = strcspn(rest, "?");
    int err = buf_append_text(&b, "postgresql:");
    if (!err)
        err = buf_append(&b, rest, head);
    if (!err)
        err = buf_append_text(&b, "?");
    if (!err)
        err = take_parameters(ret, rest + head + (rest[head] == '?'), &b, given, note);
    if (!err)
        err = add_defaults(&b, given);
    if (!err && !(ret->conninfo = mem_text(b.data, b.len)))
        err = -ERR_NOMEM;
    buf_done(&b);
    if (!err)
        err = understood(ret->conninfo, note);
    if (err)
        pg_url_done(ret);
    return err;
}

void pg_url_done(struct pg_url *u)
{
    mem_free(u->conninfo);
    u->conninfo = NULL;
}
