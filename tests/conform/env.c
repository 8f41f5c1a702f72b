/* SPDX-License-Identifier: Apache-2.0 */
/* The world of one case: loop, clock, backend and its wrappers, and the way out when it fails. */
#include "backend/dispatch/dispatch.h"
#include "conform/conform.h"

#include <dirent.h>
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "wrappers/trace.h"

#define STEP_MS 500 /* the engine takes a gap of more than a second for a stall */

void leave_case(struct env *e, const char *file, int line, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *at = file ? file : e->file ? e->file : "the start";
    snprintf(e->why, sizeof e->why, "%s%s:%d: %s", file ? "" : "after ", at, file ? line : e->line,
             text);
    longjmp(e->leave, 1);
}

/* Each run has its own schema. The first case creates it; later ones empty its tables, which is
 * faster. The counter of starts is kept, so that no lease token is issued twice. */
static const char empty_sql[] =
    "DO $$ DECLARE t text; BEGIN FOR t IN SELECT format('%%I.%%I', schemaname, tablename)"
    " FROM pg_tables WHERE schemaname = 'conform_%ld' AND tablename NOT IN ('meta', 'leader')"
    " LOOP EXECUTE 'DELETE FROM ' || t; END LOOP;"
    " IF to_regclass('conform_%ld.leader') IS NOT NULL THEN"
    " UPDATE conform_%ld.leader SET holder = 0, until = 0; END IF; END $$";

static void run_sql(const char *format, ...)
{
    char sql[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    PGconn *pg = PQconnectdb(getenv("HF_POSTGRES"));
    PGresult *r = PQexec(pg, sql);
    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        fprintf(stderr, "%s: %s\n", sql, PQerrorMessage(pg));
    CHECK(PQresultStatus(r) == PGRES_COMMAND_OK);
    PQclear(r);
    PQfinish(pg);
}

static void empty_database(struct env *e)
{
    (void)e;
    long p = (long)getpid();
    run_sql(empty_sql, p, p, p);
}

/* Everything goes but what boots are counted by: no token may come again. */
static void empty_redis(bool others)
{
    char path[300];
    snprintf(path, sizeof path, "%s/redis.sock", getenv("HF_REDIS_DIR"));
    redisContext *c = redisConnectUnix(path);
    CHECK(c && !c->err);
    redisReply *epoch = redisCommand(c, "HGET {holdfast}:meta epoch");
    CHECK(epoch);
    freeReplyObject(redisCommand(c, "FLUSHALL"));
    if (epoch->type == REDIS_REPLY_STRING)
        freeReplyObject(redisCommand(c, "HSET {holdfast}:meta epoch %s", epoch->str));
    freeReplyObject(epoch);
    if (others)
        freeReplyObject(redisCommand(c, "ZADD {holdfast}:nodes 9000000000000000 4000000000"));
    redisFree(c);
}

static void backend_url(const struct env *e, char *out, size_t size)
{
    const char *more = getenv("HF_POSTGRES_MORE"); /* such as &pooler=yes */
    if (e->profile->postgres)
        snprintf(out, size, "%s&schema=conform_%ld%s", getenv("HF_POSTGRES"), (long)getpid(),
                 more ? more : "");
    else if (e->profile->redis)
        snprintf(out, size, "%s", getenv("HF_REDIS"));
    else
        snprintf(out, size, e->profile->on_disk ? "sqlite:%s" : "memory:%s", e->dir);
}

void env_init(struct env *e, const struct conform_profile *profile, uint64_t seed)
{
    memset(e, 0, sizeof *e);
    e->profile = profile;
    e->lossy = profile->lossy;
    e->next_nonce = UINT64_C(1) << 32; /* cases use small ones */
    CHECK(uv_loop_init(&e->loop) == 0);
    e->clock.at = (struct now){{5000000}, {START_WALL_MS}};
    e->config = (struct backend_config){
        .loop = &e->loop,
        .clock = clock_manual(&e->clock),
        .seed = seed,
        .node = 7,
        .journal_segment_bytes = 64 << 10,
        .list_wait_ms = 60000,
    };
    e->use_faults = profile->faulty;
    e->faults = (struct fault_config){
        .seed = seed,
        .late_percent = 30,
        .late_turns = 4,
        .reorder_percent = 50,
        .spurious_percent = 20,
    };
    if (profile->lossy) {
        e->faults.unknown_done_percent = 12;
        e->faults.unknown_undone_percent = 8;
        e->faults.unavailable_percent = 12;
        e->faults.meddle_percent = 25;
        e->faults.meddling = MEDDLE_TOUCH | MEDDLE_TWICE;
    }
    arena_init(&e->arena);
    if (profile->on_disk) {
        const char *base = getenv("TMPDIR");
        snprintf(e->dir, sizeof e->dir, "%.40s/conform.XXXXXX", base ? base : "/tmp");
        CHECK(mkdtemp(e->dir));
    }
    if (profile->postgres)
        empty_database(e);
    e->config.dispatches = profile->dispatched;
    if (profile->redis || profile->dispatched)
        empty_redis(profile->others);
    if (profile->traced) {
        e->trace = fopen("/dev/null", "w");
        CHECK(e->trace);
    }
}

static void wrap(struct env *e, struct backend *inner)
{
    if (e->profile->traced)
        CHECK(backend_open_trace(inner, &e->config, e->trace, &inner) == 0);
    if (e->use_faults)
        CHECK(backend_open_fault(inner, &e->config, &e->faults, &inner) == 0);
    e->b = inner;
}

/* The store itself, or the part-th besides it. */
static struct backend *open_part(struct env *e, unsigned part)
{
    struct err_note note = {{0}};
    struct backend *inner;
    char url[400];
    backend_url(e, url, sizeof url);
    if (part > 0 && e->profile->on_disk)
        snprintf(url + strlen(url), sizeof url - strlen(url), "/part%u", part);
    int rc = backend_open(url, &e->config, &inner, &note);
    if (rc < 0)
        LEAVE("backend_open: %s: %s", err_name(rc), note.text);
    return inner;
}

/* Numbers with holes between them, as they are after years of settings. */
static struct backend *open_router(struct env *e, struct backend *first)
{
    struct router_child children[3] = {
        {open_part(e, 1), ROUTER_NUMBER_MAX}, {first, 0}, {open_part(e, 2), 5}};
    struct backend *router;
    unsigned routes = 0;
    while (e->profile->routes[routes].pattern)
        routes++;
    CHECK(backend_open_router(children, 3, e->profile->routes, routes, &e->config, &router) == 0);
    return router;
}

static struct backend *open_dispatch(struct env *e, struct backend *inner)
{
    struct err_note note = {{0}};
    const char *url = getenv("HF_REDIS");
    struct dispatch_config config = {.high = url, .low = url, .interval_ms = 1000, .batch = 100};
    int rc = backend_open_dispatch(inner, &e->config, &config, &inner, &note);
    if (rc < 0)
        LEAVE("backend_open_dispatch: %s: %s", err_name(rc), note.text);
    return inner;
}

void env_open(struct env *e)
{
    struct backend *inner = open_part(e, 0);
    if (e->profile->routes[0].pattern)
        inner = open_router(e, inner);
    if (e->profile->dispatched)
        inner = open_dispatch(e, inner);
    wrap(e, inner);
}

static void closed_cb(void *ctx)
{
    *(bool *)ctx = true;
}

void env_close(struct env *e)
{
    if (!e->b)
        return;
    bool closed = false;
    backend_close(e->b, closed_cb, &closed);
    CHECK(!closed);
    e->b = NULL;
    while (!closed && uv_run(&e->loop, UV_RUN_ONCE))
        ;
    CHECK(closed);
    if (e->broken[0])
        LEAVE("%s", e->broken);
}

void env_restart(struct env *e)
{
    env_close(e);
    env_open(e);
}

static void remove_tree(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    while (d && (entry = readdir(d))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char path[400];
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (unlink(path) != 0)
            remove_tree(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

void env_done(struct env *e)
{
    if (setjmp(e->leave) == 0)
        env_close(e);
    uv_run(&e->loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&e->loop) == 0);
    while (e->kept) {
        struct kept_reply *k = e->kept;
        e->kept = k->next;
        mem_free(k->reply);
        mem_free(k);
    }
    arena_done(&e->arena);
    if (e->trace)
        fclose(e->trace);
    if (e->dir[0])
        remove_tree(e->dir);
}

/* --- time --- */

static void probe(struct env *e)
{
    run(e, queue_op(OP_QUEUE_GET, "no queue of this name"));
}

void settle(struct env *e)
{
    for (int i = 0; i < 3; i++)
        probe(e);
}

static void settled_cb(void *ctx)
{
    struct env *e = ctx;
    e->settled++;
    uv_stop(&e->loop);
}

void settle_due(struct env *e)
{
    unsigned before = e->settled;
    int rc = backend_settle(e->b, settled_cb, e);
    if (rc < 0)
        LEAVE("settle: %s", err_name(rc));
    if (e->settled != before)
        LEAVE("settle called back before it returned");
    while (e->settled == before)
        if (!uv_run(&e->loop, UV_RUN_ONCE) && e->settled == before)
            LEAVE("settle was never answered");
}

void advance(struct env *e, int64_t ms)
{
    settle(e);
    while (ms > 0) {
        int64_t step = ms < STEP_MS ? ms : STEP_MS;
        clock_manual_advance(&e->clock, step);
        probe(e);
        ms -= step;
    }
    settle(e);
}

void stand_still(struct env *e, int64_t ms)
{
    settle(e);
    clock_manual_advance(&e->clock, ms);
    settle(e);
}

struct wall_time now_plus(const struct env *e, int64_t ms)
{
    return (struct wall_time){e->clock.at.wall.ms + ms};
}
