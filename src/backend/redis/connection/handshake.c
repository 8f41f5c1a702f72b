/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/redis/connection/handshake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_MIN 5

/* The commands, in their order. */
enum question {
    ASK_AUTH,
    ASK_SELECT,
    ASK_NAME,
    ASK_INFO,
    ASK_APPENDONLY,
    ASK_APPENDFSYNC,
    ASK_REWRITE,
    ASK_EVICTION,
    ASK_SCRIPTS,
    ASK_COUNT = ASK_SCRIPTS + SCRIPT_COUNT
};
_Static_assert(ASK_COUNT <= HANDSHAKE_MAX, "answers");

bool redis_is_error(const redisReply *r, const char *prefix)
{
    return r && r->type == REDIS_REPLY_ERROR && strncmp(r->str, prefix, strlen(prefix)) == 0;
}

const char *redis_error_sentence(const redisReply *r)
{
    static const struct {
        const char *prefix, *sentence;
    } known[] = {
        {"OOM", "Redis has reached its maxmemory: nothing can be added until memory is free"},
        {"MISCONF", "Redis cannot write to its disk and refuses changes"},
        {"READONLY", "Redis is a replica now and accepts no changes"},
        {"LOADING", "Redis is still loading its data"},
        {"BUSY", "Redis is busy with a script of another client"},
        {"NOPERM", "the Redis user lacks a right that is needed"},
        {"MASTERDOWN", "Redis has lost its master"},
        {"NOREPLICAS", "Redis has too few replicas to accept changes"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (redis_is_error(r, known[i].prefix))
            return known[i].sentence;
    return "Redis refused the change; the log of Holdfast says why";
}

/* --- sending --- */

static void ask_config(struct rargs *a, const char *name)
{
    redis_args_text(a, "CONFIG");
    redis_args_text(a, "GET");
    redis_args_text(a, name);
}

/* Without credentials a PING is sent instead, so that the number of replies is the same. */
static void ask_auth(const struct redis_url *u, struct rargs *a)
{
    redis_args_text(a, u->password[0] ? "AUTH" : "PING");
    if (u->password[0] && u->user[0])
        redis_args_text(a, u->user);
    if (u->password[0])
        redis_args_text(a, u->password);
}

static void ask_one(const struct handshake *g, unsigned which, struct rargs *a)
{
    char number[16];
    switch (which) {
    case ASK_AUTH:
        ask_auth(g->url, a);
        break;
    case ASK_SELECT:
        snprintf(number, sizeof number, "%u", g->url->database);
        redis_args_text(a, "SELECT");
        redis_args_text(a, number);
        break;
    case ASK_NAME:
        redis_args_text(a, "CLIENT");
        redis_args_text(a, "SETNAME");
        redis_args_text(a, "holdfast");
        break;
    case ASK_INFO:
        redis_args_text(a, "INFO");
        break;
    case ASK_APPENDONLY:
        ask_config(a, "appendonly");
        break;
    case ASK_APPENDFSYNC:
        ask_config(a, "appendfsync");
        break;
    case ASK_REWRITE:
        ask_config(a, "no-appendfsync-on-rewrite");
        break;
    case ASK_EVICTION:
        ask_config(a, "maxmemory-policy");
        break;
    default:
        redis_script_load((enum script_id)(which - ASK_SCRIPTS), a);
        break;
    }
}

/* --- checking --- */

static int refused(const redisReply *r, const char *what, struct err_note *note)
{
    return err_note_set(note, -ERR_INVALID, "Redis: %s: %.200s", what,
                        r->type == REDIS_REPLY_ERROR ? r->str : "an answer of the wrong kind");
}

static int check_auth(const struct handshake *g, struct err_note *note)
{
    const redisReply *auth = g->replies[ASK_AUTH];
    if (redis_is_error(auth, "NOAUTH"))
        return err_note_set(note, -ERR_INVALID,
                            "the Redis server needs a password; write redis://USER:PASSWORD@… or "
                            "redis://:PASSWORD@…");
    if (auth->type == REDIS_REPLY_ERROR && g->url->password[0])
        return err_note_set(note, -ERR_INVALID,
                            "the Redis server refused the user or password of the URL: %.100s",
                            auth->str);
    return 0;
}

static int check_select(const struct handshake *g, struct err_note *note)
{
    const redisReply *select = g->replies[ASK_SELECT];
    if (select->type == REDIS_REPLY_ERROR && !redis_is_error(select, "LOADING"))
        return refused(select, "the database of the URL cannot be used", note);
    return 0;
}

/* The value after "name:" in INFO; "" = none. */
static void info_value(const redisReply *r, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);
    out[0] = '\0';
    for (const char *at = r->str; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, name, len) == 0 && at[len] == ':') {
            snprintf(out, size, "%.*s", (int)strcspn(at + len + 1, "\r\n"), at + len + 1);
            return;
        }
}

static int check_info(struct handshake *g, struct err_note *note)
{
    const redisReply *r = g->replies[ASK_INFO];
    char role[16], loading[4];
    if (redis_is_error(r, "LOADING")) {
        g->loading = true;
        return err_note_set(note, -ERR_IO, "the Redis server is still reading its data");
    }
    if (r->type != REDIS_REPLY_STRING)
        return refused(r, "its INFO cannot be read", note);
    info_value(r, "redis_version", g->found.version, sizeof g->found.version);
    info_value(r, "role", role, sizeof role);
    info_value(r, "loading", loading, sizeof loading);
    if (strtoul(g->found.version, NULL, 10) < VERSION_MIN)
        return err_note_set(note, -ERR_INVALID,
                            "the Redis server has version %s; Holdfast needs %d.0 or newer",
                            g->found.version, VERSION_MIN);
    if (strcmp(role, "master") != 0)
        return err_note_set(
            note, -ERR_INVALID,
            "the Redis server is a %s that accepts no writes; give the address of the master",
            role);
    g->loading = loading[0] == '1';
    return g->loading ? err_note_set(note, -ERR_IO, "the Redis server is still reading its data")
                      : 0;
}

/* CONFIG GET returns a name and a value; false: the user has no right to run it. */
static bool config_value(const redisReply *r, char *out, size_t size)
{
    out[0] = '\0';
    if (r->type != REDIS_REPLY_ARRAY || r->elements < 2)
        return false;
    snprintf(out, size, "%s", redis_text_at(r, 1));
    return true;
}

static int check_told(const struct handshake *g, struct err_note *note)
{
    if (g->url->durability != REDIS_ASKED)
        return 0;
    return err_note_set(
        note, -ERR_INVALID,
        "the Redis user may not run CONFIG GET, so Holdfast cannot check whether the server "
        "stores its data durably; allow it (ACL SETUSER … +config|get), or set "
        "durability=fsync or durability=relaxed in the URL of the backend");
}

static int check_settings(struct handshake *g, struct err_note *note)
{
    struct redis_server *f = &g->found;
    char rewrite[8];
    bool known = config_value(g->replies[ASK_APPENDONLY], f->appendonly, sizeof f->appendonly) &&
                 config_value(g->replies[ASK_APPENDFSYNC], f->appendfsync, sizeof f->appendfsync) &&
                 config_value(g->replies[ASK_REWRITE], rewrite, sizeof rewrite) &&
                 config_value(g->replies[ASK_EVICTION], f->eviction, sizeof f->eviction);
    f->durable = g->url->durability == REDIS_FSYNC;
    if (!known)
        return check_told(g, note);
    bool kept = strcmp(f->appendonly, "yes") == 0 && strcmp(f->eviction, "noeviction") == 0;
    f->synced_rewrites = strcmp(rewrite, "no") == 0;
    if (!kept && g->url->durability != REDIS_RELAXED)
        return err_note_set(note, -ERR_UNSAFE,
                            "the Redis server does not store its data durably (appendonly is %s, "
                            "maxmemory-policy is %s); set appendonly yes and maxmemory-policy "
                            "noeviction, or set durability=relaxed in the URL of the backend",
                            f->appendonly, f->eviction);
    bool always = kept && f->synced_rewrites && strcmp(f->appendfsync, "always") == 0;
    if (!always && f->durable)
        return err_note_set(note, -ERR_INVALID,
                            "the URL of the backend has durability=fsync, but the Redis server has "
                            "appendfsync %s and no-appendfsync-on-rewrite %s; set always and no",
                            f->appendfsync, rewrite);
    f->durable = always && g->url->durability != REDIS_RELAXED;
    return 0;
}

static int take_scripts(struct handshake *g, struct err_note *note)
{
    for (unsigned i = 0; i < SCRIPT_COUNT; i++) {
        const redisReply *r = g->replies[ASK_SCRIPTS + i];
        if (r->type != REDIS_REPLY_STRING || r->len != SCRIPT_SHA_BYTES - 1)
            return refused(r, "a script cannot be loaded", note);
        memcpy(g->names->sha[i], r->str, SCRIPT_SHA_BYTES);
    }
    return 0;
}

static int judge(struct handshake *g, struct err_note *note)
{
    int err = check_select(g, note);
    if (!err)
        err = check_info(g, note);
    if (!err)
        err = check_settings(g, note);
    return err ? err : take_scripts(g, note);
}

/* --- the store --- */

static void replies_drop(struct handshake *g)
{
    for (size_t i = 0; i < HANDSHAKE_MAX; i++) {
        if (g->replies[i])
            freeReplyObject(g->replies[i]);
        g->replies[i] = NULL;
    }
}

void redis_handshake_drop(struct handshake *g)
{
    replies_drop(g);
    redis_args_done(&g->args);
}

static void over(struct handshake *g, int err, const struct err_note *note)
{
    redis_handshake_drop(g);
    g->fn(g->ctx, err, note);
}

static int take_hash_key(const char *hex, struct hash_key *ret)
{
    char half[17] = "";
    if (strlen(hex) != 32)
        return -ERR_CORRUPT;
    memcpy(half, hex, 16);
    ret->k0 = strtoull(half, NULL, 16);
    ret->k1 = strtoull(hex + 16, NULL, 16);
    return 0;
}

/* {"ok", created, epoch, hash key, stores}, {"newer" or "older", its format} or {"denied",
 * command} */
static int take_facts(struct handshake *g, const redisReply *r, struct err_note *note)
{
    if (r->type != REDIS_REPLY_ARRAY || r->elements < 2 ||
        r->element[0]->type != REDIS_REPLY_STRING)
        return refused(r, "the store cannot be opened", note);
    if (strcmp(redis_text_at(r, 0), "newer") == 0)
        return err_note_set(
            note, -ERR_VERSION,
            "the keys with the prefix %s were created by a newer version of Holdfast "
            "(their format is %s, this binary reads %d); use the newer version",
            g->url->prefix, redis_text_at(r, 1), REDIS_FORMAT);
    if (strcmp(redis_text_at(r, 0), "older") == 0)
        return err_note_set(note, -ERR_VERSION,
                            "the keys with the prefix %s have the older format %s, which this "
                            "version of Holdfast does not read (it reads format %d): export the "
                            "jobs with the version that wrote them (holdfast export) and import "
                            "them here (holdfast import), or use another prefix",
                            g->url->prefix, redis_text_at(r, 1), REDIS_FORMAT);
    if (strcmp(redis_text_at(r, 0), "denied") == 0)
        return err_note_set(
            note, -ERR_INVALID,
            "the Redis user may not run %s on keys with the prefix %s; give it the "
            "commands @read, @write, @scripting, @pubsub, @transaction and TIME, and those keys",
            redis_text_at(r, 1), g->url->prefix);
    long long epoch = r->elements == 5 ? r->element[2]->integer : 0;
    bool right = r->elements == 5 && r->element[1]->type == REDIS_REPLY_INTEGER &&
                 r->element[2]->type == REDIS_REPLY_INTEGER &&
                 (!g->boot || (epoch > 0 && epoch <= INT32_MAX));
    if (!right || take_hash_key(redis_text_at(r, 3), &g->facts->hash_key) != 0)
        return err_note_set(note, -ERR_CORRUPT, "the key %smeta is damaged", g->url->prefix);
    g->found.created = r->element[1]->integer != 0;
    if (g->boot)
        g->facts->epoch = (uint32_t)epoch;
    g->found.stores = strtoull(redis_text_at(r, 4), NULL, 10);
    return 0;
}

static void opened_cb(void *ctx, redisReply *r)
{
    struct handshake *g = ctx;
    struct err_note note = {{0}};
    int err =
        r ? take_facts(g, r, &note) : err_note_set(&note, -ERR_IO, "Redis: the connection was cut");
    if (r)
        freeReplyObject(r);
    over(g, err, &note);
}

static void send_open(struct handshake *g)
{
    uint64_t key[2] = {0, 0};
    char hex[36];
    if (random_bytes(key, sizeof key) != 0)
        g->args.failed = true;
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)key[0],
             (unsigned long long)key[1]);
    redis_script_call(g->names, SCRIPT_OPEN, g->url->prefix, &g->args);
    redis_args_int(&g->args, REDIS_FORMAT);
    redis_args_text(&g->args, hex);
    redis_args_text(&g->args, g->boot ? "1" : "");
    redis_args_int(&g->args, g->epoch_least);
    redis_conn_send(g->conn, &g->args, opened_cb, g);
}

static void answered_cb(void *ctx, redisReply *r);

static void ask_until(struct handshake *g, size_t end)
{
    size_t from = g->asked;
    g->asked = end;
    for (size_t i = from; i < end; i++) {
        ask_one(g, (unsigned)i, &g->args);
        redis_conn_send(g->conn, &g->args, answered_cb, g);
    }
}

/* The password comes first, and alone: Redis reads no long command, such as a script, of a client
 * that has not given it, but closes the connection, and its answer can be lost with it. */
static void answered_cb(void *ctx, redisReply *r)
{
    struct handshake *g = ctx;
    struct err_note note = {{0}};
    bool broken = false;
    g->replies[g->got++] = r;
    if (g->got < g->asked)
        return;
    for (size_t i = 0; i < g->asked; i++)
        broken |= !g->replies[i];
    int err = broken ? err_note_set(&note, -ERR_IO, "Redis: the connection was cut")
              : g->asked == ASK_COUNT ? judge(g, &note)
                                      : check_auth(g, &note);
    if (err)
        over(g, err, &note);
    else if (g->asked == ASK_COUNT)
        send_open(g);
    else
        ask_until(g, ASK_COUNT);
}

void redis_handshake(struct handshake *g, handshake_fn fn, void *ctx)
{
    g->fn = fn;
    g->ctx = ctx;
    g->asked = 0;
    g->got = 0;
    g->loading = false;
    g->found = (struct redis_server){.created = false};
    memset(g->replies, 0, sizeof g->replies);
    redis_args_init(&g->args);
    ask_until(g, ASK_AUTH + 1);
}
