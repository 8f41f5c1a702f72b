/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/redis/connection/url.h"

#include <stdio.h>
#include <string.h>

#include "base/span.h"

#define FORM "redis://USER:PASSWORD@HOST:PORT/DB"
#define DATABASE_MAX 65535

static int hex_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Percent-decodes; false: it is too long, contains a NUL, or is malformed. */
static bool decode(struct span in, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < in.len; i++) {
        char c = in.at[i];
        if (c == '%') {
            int high = i + 2 < in.len ? hex_of(in.at[i + 1]) : -1;
            int low = high >= 0 ? hex_of(in.at[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0' || n + 1 >= size)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

static bool number_of(struct span s, unsigned long max, unsigned long *ret)
{
    unsigned long v = 0;
    if (s.len == 0 || s.len > 9)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return false;
        v = v * 10 + (unsigned long)(s.at[i] - '0');
    }
    *ret = v;
    return v <= max;
}

static int malformed(struct err_note *note)
{
    return err_note_set(note, -ERR_INVALID,
                        "the URL of the backend is malformed; write " FORM
                        ", with special characters percent-encoded and parameters after a ?");
}

/* --- parameters --- */

static bool take_prefix(struct redis_url *u, struct span value)
{
    if (!decode(value, u->prefix, sizeof u->prefix) || u->prefix[0] == '\0')
        return false;
    for (const char *at = u->prefix; *at; at++)
        if (*at <= ' ' || *at > '~')
            return false;
    return true;
}

static bool take_durability(struct redis_url *u, struct span value)
{
    if (span_equal(value, SPAN_LITERAL("fsync")))
        u->durability = REDIS_FSYNC;
    else if (span_equal(value, SPAN_LITERAL("relaxed")))
        u->durability = REDIS_RELAXED;
    else
        return false;
    return true;
}

static bool take_socket(struct redis_url *u, struct span value)
{
    return decode(value, u->socket, sizeof u->socket) && u->socket[0] == '/';
}

static bool take_ca(struct redis_url *u, struct span value)
{
    return decode(value, u->ca, sizeof u->ca) && u->ca[0];
}

static bool take_cert(struct redis_url *u, struct span value)
{
    return decode(value, u->cert, sizeof u->cert) && u->cert[0];
}

static bool take_key(struct redis_url *u, struct span value)
{
    return decode(value, u->key, sizeof u->key) && u->key[0];
}

static const struct parameter {
    const char *name;
    bool (*take)(struct redis_url *u, struct span value);
    const char *right;
} parameters[] = {
    {"prefix", take_prefix, "1 to 63 printable characters without spaces"},
    {"durability", take_durability, "fsync or relaxed"},
    {"socket", take_socket, "the absolute path of a Unix socket"},
    {"ca", take_ca, "the path of a PEM file with the certificates to trust"},
    {"cert", take_cert, "the path of a PEM file with the client certificate"},
    {"key", take_key, "the path of a PEM file with the key of the client certificate"},
};

static int take_parameter(struct redis_url *u, struct span name, struct span value,
                          struct err_note *note)
{
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        if (!span_equal(name, span_text(parameters[i].name)))
            continue;
        if (parameters[i].take(u, value))
            return 0;
        return err_note_set(note, -ERR_INVALID, "%s in the URL of the backend must be %s",
                            parameters[i].name, parameters[i].right);
    }
    return err_note_set(note, -ERR_INVALID,
                        "the URL of the backend has an unknown parameter; allowed are prefix, "
                        "durability, socket, ca, cert and key");
}

static int take_parameters(struct redis_url *u, const char *at, struct err_note *note)
{
    int err = 0;
    while (*at && !err) {
        size_t len = strcspn(at, "&"), name = strcspn(at, "=&");
        if (len)
            err = take_parameter(u, span_of(at, name),
                                 span_of(at + name + 1, len > name ? len - name - 1 : 0), note);
        at += len + (at[len] == '&');
    }
    return err;
}

/* --- the rest --- */

/* USER:PASSWORD, or only a password after a colon, for a Redis without users. */
static bool take_credentials(struct redis_url *u, struct span s)
{
    const char *colon = memchr(s.at, ':', s.len);
    size_t user = colon ? (size_t)(colon - s.at) : s.len;
    struct span password = {colon ? colon + 1 : "", colon ? s.len - user - 1 : 0};
    return decode(span_of(s.at, user), u->user, sizeof u->user) &&
           decode(password, u->password, sizeof u->password) && u->password[0];
}

/* HOST, HOST:PORT, [v6], [v6]:PORT, or nothing. */
static bool take_address(struct redis_url *u, struct span s)
{
    unsigned long port = 6379;
    struct span host = s, rest = {NULL, 0};
    if (s.len && s.at[0] == '[') {
        const char *end = memchr(s.at, ']', s.len);
        if (!end)
            return false;
        host = span_of(s.at + 1, (size_t)(end - s.at) - 1);
        rest = span_of(end + 1, s.len - host.len - 2);
        if (rest.len && rest.at[0] != ':')
            return false;
    } else {
        const char *colon = s.len ? memchr(s.at, ':', s.len) : NULL;
        if (colon) {
            host = span_of(s.at, (size_t)(colon - s.at));
            rest = span_of(colon, s.len - host.len);
        }
    }
    if (rest.len && (!number_of(span_of(rest.at + 1, rest.len - 1), 65535, &port) || port == 0))
        return false;
    snprintf(u->port, sizeof u->port, "%lu", port);
    return decode(host.len ? host : SPAN_LITERAL("127.0.0.1"), u->host, sizeof u->host);
}

static int take_database(struct redis_url *u, struct span s, struct err_note *note)
{
    unsigned long v = 0;
    if (s.len && !number_of(s, DATABASE_MAX, &v))
        return err_note_set(note, -ERR_INVALID,
                            "the database in the URL of the backend must be a number, 0 to %d: "
                            "write " FORM,
                            DATABASE_MAX);
    u->database = (unsigned)v;
    return 0;
}

static int check_whole(const struct redis_url *u, struct err_note *note)
{
    if (!u->tls && (u->ca[0] || u->cert[0] || u->key[0]))
        return err_note_set(note, -ERR_INVALID,
                            "ca, cert and key in the URL of the backend are for TLS; write "
                            "rediss:// instead of redis://");
    if (u->tls && u->socket[0])
        return err_note_set(note, -ERR_INVALID,
                            "a Unix socket has no TLS; write redis:// instead of rediss://");
    if ((u->cert[0] != 0) != (u->key[0] != 0))
        return err_note_set(note, -ERR_INVALID,
                            "cert and key in the URL of the backend must be given together");
    return 0;
}

int redis_url_parse(const char *rest, bool tls, struct redis_url *ret, struct err_note *note)
{
    *ret = (struct redis_url){.tls = tls, .prefix = "{holdfast}:"};
    if (strncmp(rest, "//", 2) != 0)
        return err_note_set(note, -ERR_INVALID,
                            "the URL of the backend needs a // after the scheme: write " FORM);
    rest += 2;
    size_t head = strcspn(rest, "?");
    const char *slash = memchr(rest, '/', head);
    struct span authority = span_of(rest, slash ? (size_t)(slash - rest) : head);
    struct span database = {slash ? slash + 1 : rest, slash ? head - authority.len - 1 : 0};
    const char *at = authority.len ? memrchr(authority.at, '@', authority.len) : NULL;
    size_t cut = at ? (size_t)(at - authority.at) + 1 : 0;
    if (at && !take_credentials(ret, span_of(authority.at, cut - 1)))
        return malformed(note);
    if (!take_address(ret, span_of(authority.at + cut, authority.len - cut)))
        return malformed(note);
    int err = take_database(ret, database, note);
    if (!err)
        err = take_parameters(ret, rest + head + (rest[head] == '?'), note);
    return err ? err : check_whole(ret, note);
}
