/* SPDX-License-Identifier: Apache-2.0 */
/* The server under test: a commit gate on the virtual disk, that starts, serves and crashes. */
#include "sim/world/server_impl.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

#define TURN_MAX 64 /* requests in one batch */

struct now server_now(const struct world *w)
{
    struct now now = world_now(w);
    now.mono.ms += w->server.mono_base;
    return now;
}

struct engine *engine_of(struct world *w)
{
    return gate_engine(w->server.gate);
}

/* ---- what the commit gate calls
 * -------------------------------------------------------------------- */

static void frame_cb(void *ctx, struct span frame, uint64_t last)
{
    struct world *w = ctx;
    if (w->plan.split)
        disk_add_split(&w->server.disk, frame, last, w->plan.split);
    else
        disk_add(&w->server.disk, frame, last);
}

static void reply_cb(void *ctx, backend_reply_fn fn, void *fn_ctx, const struct reply *from)
{
    struct world *w = ctx;
    (void)fn;
    (void)fn_ctx;
    struct reply guarded = *from;
    reply_guard(&guarded);
    const struct reply *reply = &guarded;
    views_look(w, reply);
    history_reply(&w->history, reply->tag, reply, w->mono);
    w->coverage->replies++;
    w->coverage->outcomes[reply->kind][reply->outcome]++;
    w->coverage->repeats[reply->kind] += reply->repeat;
    if (reply->kind == OP_CLAIM)
        w->coverage->jobs_claimed += reply->job_count;
    int64_t delay = w->draining ? 0 : between(w, 0, w->plan.net_ms);
    schedule(w, delay, SIM_ANSWER, 0, reply->tag);
}

static void wake_cb(void *ctx, uint32_t queue)
{
    (void)queue;
    client_wake(ctx);
}

static void read_cb(void *ctx, void *request, const struct store_query *query)
{
    struct world *w = ctx;
    struct server *s = &w->server;
    s->reads = vec_room(s->reads, &s->read_room, s->read_count + 1, sizeof(*s->reads));
    struct server_read *read = &s->reads[s->read_count++];
    *read = (struct server_read){request, *query};
    read->query.seqs = pool_copy(&w->pool, query->seqs, query->count * sizeof(*query->seqs));
    if (chance(w, 30))
        server_read(w, s->read_count - 1);
    else
        schedule(w, between(w, 0, w->draining ? 1 : 20), SIM_READ, s->boot, s->read_count - 1);
}

static int read_store(struct world *w, const struct store_query *query, struct arena *arena,
                      struct stored_body **ret_bodies, struct gate_page *page)
{
    struct store_reader *reader;
    struct err_note note;
    int rc = disk_reader(&w->server.disk, query->need, &reader, &note);
    if (rc < 0) {
        blame_disk(w, "sweep", &note);
        return rc;
    }
    server_applied(w);
    if (query->list) {
        struct job_view *jobs = NULL;
        rc = reader->ops->list(reader, query->list, arena, &jobs, &page->count, &page->cursor,
                               &page->as_of);
        page->jobs = jobs;
        return rc;
    }
    if (query->exceptions) {
        struct attempt_view *attempts = NULL;
        rc = reader->ops->exceptions(reader, query->exceptions, arena, &attempts,
                                     &page->attempt_count);
        page->attempts = attempts;
        return rc;
    }
    if (query->kv_list) {
        struct kv_view *kvs = NULL;
        rc = reader->ops->kv_list(reader, query->kv_list, arena, &kvs, &page->kv_count,
                                  &page->kv_cursor, &page->as_of);
        page->kvs = kvs;
        return rc;
    }
    if (query->history) {
        struct hour_view *hours = NULL;
        rc = reader->ops->history(reader, query->history, arena, &hours, &page->hour_count);
        page->hours = hours;
        return rc;
    }
    if (query->kvs)
        return reader->ops->kv_get(reader, query->kvs, query->kv_count, arena);
    *ret_bodies = arena_array(arena, query->count, sizeof(**ret_bodies));
    CHECK(*ret_bodies != NULL);
    return reader->ops->read(reader, query, arena, *ret_bodies);
}

void server_read(struct world *w, size_t number)
{
    struct server_read read = w->server.reads[number];
    w->server.reads[number].request = NULL;
    if (!read.request)
        return;
    struct arena arena;
    struct stored_body *bodies = NULL;
    struct gate_page page = {0};
    arena_init(&arena);
    int rc = -ERR_IO;
    if (has(&w->plan, FEATURE_READ_ERRORS) && !w->draining && chance(w, 5)) {
        w->coverage->faults[FAULT_READ_ERROR]++;
    } else {
        rc = read_store(w, &read.query, &arena, &bodies, &page);
        if (rc < 0)
            world_blame(w, CHECK_DRIVER, "reading the store: %s", err_text(rc));
    }
    gate_bodies(w->server.gate, read.request, bodies, bodies ? NULL : &page, rc, server_now(w));
    arena_done(&arena);
}

/* ---- start ----------------------------------------------------------------------------------- */

static void configure(const struct world *w, struct engine_config *c)
{
    const struct plan *p = &w->plan;
    engine_config_default(c);
    c->policy = p->policy;
    c->node = (unsigned)(p->seed % 100);
    c->capacity = p->capacity;
    c->key_ttl_ms = p->key_ttl_ms;
    c->keys_max = p->keys_max;
    c->kept_replies = p->ring;
    c->event_ring = 256;
    c->seq_block = p->seq_block;
    c->slice = p->slice;
    c->seed = p->seed + w->server.boot;
    if (has(p, FEATURE_WILD))
        c->kv_keys_max = 15;
#ifdef HF_TEST_HOOKS
    c->defects = p->defects;
#endif
}

static void verify(struct world *w, const struct engine *e, const char *when)
{
    struct err_note note;
    w->coverage->verifies++;
    if (!w->plan.no_verify && engine_verify(e, &note) < 0)
        world_blame(w, CHECK_VERIFY, "%s: %s", when, note.text);
}

static void same_state(struct world *w, const struct engine *a, const struct engine *b,
                       const char *what)
{
    w->coverage->hashes++;
    if (engine_state_hash(a) != engine_state_hash(b) && !w->plan.no_verify)
        world_blame(w, CHECK_REPLAY, "%s at position %llu: states differ", what,
                    (unsigned long long)engine_position(a));
}

static void start_shadow(struct world *w, const struct engine_config *config)
{
    struct server *s = &w->server;
    struct err_note note;
    if (!has(&w->plan, FEATURE_SHADOW) || s->shadow || s->disk.durable > 0)
        return;
    if (engine_new(config, &s->shadow) < 0 || engine_load(s->shadow, s->disk.store, &note) < 0)
        world_blame(w, CHECK_DRIVER, "shadow: %s", note.text);
}

void server_start(struct world *w)
{
    struct server *s = &w->server;
    struct err_note note = {""};
    struct gate_config config = {.cache_bytes = w->plan.cache_bytes,
                                 .calls = {w, frame_cb, reply_cb, wake_cb, read_cb}};
    s->boot++;
    s->mono_base = between(w, 0, 1000000000);
    configure(w, &config.engine);
    start_shadow(w, &config.engine);
    int rc = s->boot > 1 ? disk_reopen(&s->disk, world_now(w).wall, &note) : 0;
    if (rc == 0)
        rc = gate_new(&config, &s->gate);
    if (rc < 0) {
        world_blame(w, CHECK_DRIVER, "start: %s: %s", err_text(rc), note.text);
        return;
    }
    s->state = SERVER_BOOTING;
    if (!server_recover(w))
        return;
    verify(w, engine_of(w), "after recovery");
    if (s->shadow)
        same_state(w, engine_of(w), s->shadow, "recovered and lived");
    if ((rc = gate_boot(s->gate, server_now(w))) < 0)
        world_blame(w, CHECK_DRIVER, "boot: %s", err_text(rc));
    history_event(&w->history, HIST_BOOT, engine_position(engine_of(w)), world_now(w));
    gate_flush(s->gate, server_now(w));
    start_commit(w);
}

/* ---- serving --------------------------------------------------------------------------------- */

bool server_stalled(struct world *w, const struct event *e)
{
    bool inside = e->kind == SIM_TURN || e->kind == SIM_TICK || e->kind == SIM_COMMIT ||
                  e->kind == SIM_READ || e->kind == SIM_PROVIDE;
    if (!inside || w->mono >= w->server.stall_until)
        return false;
    schedule(w, w->server.stall_until - w->mono, e->kind, e->who, e->what);
    return true;
}

static void set_timer(struct world *w)
{
    struct server *s = &w->server;
    int64_t wait = engine_next_tick_ms(engine_of(w), server_now(w));
    s->timer++;
    if (wait == INT64_MAX || s->state != SERVER_UP)
        return;
    if (has(&w->plan, FEATURE_LATE_TIMERS) && !w->draining)
        wait += between(w, 0, 40);
    if (wait < 0)
        world_blame(w, CHECK_DRIVER, "next tick in %lld ms", (long long)wait);
    else
        schedule(w, wait, SIM_TICK, s->boot, s->timer);
}

static void after_step(struct world *w)
{
    gate_flush(w->server.gate, server_now(w));
    start_commit(w);
    set_timer(w);
}

static void turn_soon(struct world *w)
{
    struct server *s = &w->server;
    if (s->turn_due || s->inbox_count == 0 || s->state != SERVER_UP)
        return;
    s->turn_due = true;
    schedule(w, between(w, 0, 3), SIM_TURN, s->boot, 0);
}

void server_arrive(struct world *w, uint32_t call)
{
    struct server *s = &w->server;
    if (s->state == SERVER_DOWN || w->calls[call].abandoned)
        return;
    s->inbox = vec_room(s->inbox, &s->inbox_room, s->inbox_count + 1, sizeof(*s->inbox));
    s->inbox[s->inbox_count++] = call;
    turn_soon(w);
}

/* A batch from the first calls of the inbox; returns its size. */
static size_t take_inbox(struct world *w, struct op **ret)
{
    struct server *s = &w->server;
    size_t count = s->inbox_count;
    if (count > TURN_MAX && !w->draining)
        count = TURN_MAX;
    if (chance(w, 30) && !w->draining)
        count = (size_t)between(w, 1, (int64_t)count);
    struct op *ops = pool_alloc(&w->pool, count * sizeof(*ops));
    for (size_t i = 0; i < count; i++) {
        const struct call *call = &w->calls[s->inbox[i]];
        ops[i] = call->op;
        ops[i].tag = history_op(&w->history, s->inbox[i], &call->op, world_now(w));
        w->history.entries[ops[i].tag].apart = call->apart;
    }
    s->inbox_count -= count;
    memmove(s->inbox, s->inbox + count, s->inbox_count * sizeof(*s->inbox));
    w->coverage->requests += count;
    *ret = ops;
    return count;
}

static bool memory_fails(struct world *w)
{
#ifdef HF_TEST_HOOKS
    if (has(&w->plan, FEATURE_NO_MEMORY) && !w->draining && chance(w, 15)) {
        mem_fail_at((long)between(w, 1, 12), chance(w, 60));
        return true;
    }
#endif
    (void)w;
    return false;
}

static void memory_works(void)
{
#ifdef HF_TEST_HOOKS
    mem_fail_at(0, 0);
#endif
}

/* The whole batch was refused: its sender is told. */
static void refuse_all(struct world *w, const struct op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct reply r = {.kind = ops[i].kind, .outcome = OUT_UNAVAILABLE, .tag = ops[i].tag};
        reply_cb(w, NULL, NULL, &r);
    }
}

/* True when an allocation failed. */
static bool submit(struct world *w, const struct op *ops, size_t count)
{
    struct server *s = &w->server;
    uint64_t position = engine_position(engine_of(w));
    bool failing = has(&w->plan, FEATURE_NO_MEMORY) && chance(w, 20);
    uint64_t hash = failing ? engine_state_hash(engine_of(w)) : 0;
    failing = failing && memory_fails(w);
    int rc = gate_submit(s->gate, ops, count, server_now(w), NULL, NULL);
    memory_works();
    if (failing) {
        w->coverage->faults[FAULT_NO_MEMORY]++;
        if (engine_position(engine_of(w)) == position && engine_state_hash(engine_of(w)) != hash)
            world_blame(w, CHECK_MEMORY, "refused for lack of memory, but the state changed");
        verify(w, engine_of(w), "after lack of memory");
    }
    if (rc == -ERR_NOMEM && failing && engine_position(engine_of(w)) == position)
        refuse_all(w, ops, count);
    else if (rc < 0)
        world_blame(w, CHECK_DRIVER, "submit: %s", err_text(rc));
    return failing;
}

void server_turn(struct world *w)
{
    struct server *s = &w->server;
    struct op *ops;
    s->turn_due = false;
    if (s->inbox_count == 0)
        return;
    size_t first = w->history.count;
    size_t count = take_inbox(w, &ops);
    bool strained = submit(w, ops, count);
    history_taken(&w->history, first, engine_position(engine_of(w)), strained);
    if (has(&w->plan, FEATURE_CRASHES) && !w->draining && chance(w, 1)) {
        server_crash(w); /* between the step and its replies */
        return;
    }
    after_step(w);
    turn_soon(w);
}

void server_tick(struct world *w)
{
    bool failing = memory_fails(w);
    int rc = gate_tick(w->server.gate, server_now(w));
    memory_works();
    if (rc < 0 && !(failing && rc == -ERR_NOMEM))
        world_blame(w, CHECK_DRIVER, "tick: %s", err_text(rc));
    after_step(w);
}

void server_go_on(struct world *w)
{
    struct server *s = &w->server;
    if (s->state == SERVER_BOOTING && disk_waiting(&s->disk) == 0)
        s->state = SERVER_UP;
    start_commit(w);
    set_timer(w);
    turn_soon(w);
}

/* ---- crash ----------------------------------------------------------------------------------- */

void drop_process(struct world *w)
{
    struct server *s = &w->server;
    gate_free(s->gate);
    s->gate = NULL;
    s->state = SERVER_DOWN;
    s->inbox_count = s->read_count = 0;
    s->turn_due = s->provide_due = false;
    s->stall_until = 0;
}

void server_crash(struct world *w)
{
    struct server *s = &w->server;
    if (s->state == SERVER_DOWN)
        return;
    w->coverage->faults[s->state == SERVER_UP ? FAULT_CRASH : FAULT_CRASH_IN_BOOT]++;
    server_disk_crash(w);
    drop_process(w);
    schedule(w, between(w, 1, 1500), SIM_RESTART, 0, 0);
}

void server_stop(struct world *w)
{
    struct server *s = &w->server;
    if (s->gate)
        gate_free(s->gate);
    if (s->shadow)
        engine_free(s->shadow);
    vec_free(s->inbox);
    vec_free(s->reads);
}

/* ---- looking at it --------------------------------------------------------------------------- */

bool server_idle(struct world *w)
{
    const struct server *s = &w->server;
    return s->state == SERVER_UP && s->inbox_count == 0 && gate_idle(s->gate) &&
           s->disk.durable == s->disk.count;
}

uint64_t server_live(struct world *w)
{
    struct engine_figures f;
    engine_figures(engine_of(w), &f);
    return f.live;
}

void server_compare(struct world *w)
{
    struct server *s = &w->server;
    struct engine_config config;
    struct engine *again = NULL;
    struct err_note note = {""};
    configure(w, &config);
    verify(w, engine_of(w), "at the end");
    if (s->shadow)
        same_state(w, engine_of(w), s->shadow, "lived and replayed");
    int rc = disk_apply(&s->disk, s->disk.durable, &note);
    if (rc == 0)
        rc = engine_new(&config, &again);
    if (rc == 0)
        rc = engine_load(again, s->disk.store, &note);
    if (rc < 0)
        world_blame(w, CHECK_DRIVER, "loading again: %s", note.text);
    else
        same_state(w, engine_of(w), again, "lived and loaded");
    engine_free(again);
}
