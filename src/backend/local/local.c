/* SPDX-License-Identifier: Apache-2.0 */
/* The local backend: the heart on a loop, with a store behind it.
 *
 * sqlite:  frames go to the applier's thread, bodies and lists come from the reader's thread; both
 *          knock with an async handle.
 * memory:  the store lives on the loop's thread; what is applied is as durable as it gets.
 *
 * Once a turn of the loop, right before it would wait for input, due work is done and replies
 * leave; so input is always handled before leases are allowed to end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend_impl.h"
#include "backend/local/applier.h"
#include "backend/local/backup.h"
#include "backend/local/heart.h"
#include "backend/local/local.h"
#include "backend/local/reader.h"
#include "backend/local/watches.h"
#include "backend/settles.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/random.h"

#define DEFAULT_CACHE_BYTES (UINT64_C(64) << 20)
#define TICKS_A_TURN 8 /* slices of housekeeping between two looks at the sockets */

struct local {
    struct backend base;
    struct backend_config config;
    struct store *store;
    struct heart *heart;
    struct applier *applier;     /* NULL for memory: */
    struct reader *reader;       /* bodies; NULL for memory: */
    struct reader *lister;       /* lists, which may take seconds, apart; NULL for memory: */
    bool clock_suspect;          /* as last logged */
    struct store_reader *direct; /* memory: read on the spot */
    struct watches watches;
    uint64_t applied; /* memory: */
    backend_news_fn news_fn;
    void *news_ctx;
    uint64_t news_told; /* the newest event that the listener may know of */
    struct settles settles;
    struct backup *backup;              /* under way, also when nobody waits for it any more */
    struct backup_request backup_for;   /* done = NULL: it was cancelled */
    struct compact_request compact_for; /* done = NULL: none under way */
    uint64_t compact_before;            /* bytes */
    bool closing;
    uint64_t closing_tries; /* applier_state.full_tries when the close was asked for */
    bool gave_up;           /* closing with a full disk: the rest is not durable */
    backend_closed_fn closed_fn;
    void *closed_ctx;
    unsigned open_handles;
    uv_prepare_t prepare;
    uv_timer_t timer;
    uv_async_t knock; /* for the threads */
    uv_idle_t stir;   /* active: the loop does not sleep before the next turn */
};

static const struct backend_ops local_ops;
static const struct backend_ops memory_ops;

static struct local *local_of(struct backend *b)
{
    CHECK(b->ops == &local_ops || b->ops == &memory_ops);
    return (struct local *)b;
}

static struct now now_of(const struct local *l)
{
    return clock_now(&l->config.clock);
}

/* A commit failed: what memory says and what the disk holds can no longer be trusted to agree. */
static void die(struct local *l, const char *why)
{
    log_event(l->config.log, LOG_ERROR, "store_failed", LOG_TEXT("why", why));
    if (l->config.fatal) {
        l->config.fatal(l->config.fatal_ctx, why);
    } else {
        fprintf(stderr, "holdfast: the store failed: %s\n", why);
        abort();
    }
}

/* --- what the heart asks for --- */

static void give_frame(void *ctx, struct span frame, uint64_t last)
{
    struct local *l = ctx;
    struct err_note note = {""};
    int err;
    if (l->applier) {
        err = applier_push(l->applier, frame, last);
    } else {
        err = l->store->ops->apply(l->store, &frame, 1, &note);
        l->applied = last;
    }
    if (err)
        die(l, note.text[0] ? note.text : err_text(err));
}

static void give_reply(void *ctx, backend_reply_fn fn, void *fn_ctx, const struct reply *reply)
{
    (void)ctx;
    if (fn)
        fn(fn_ctx, reply);
}

static void give_wake(void *ctx, uint32_t queue)
{
    struct local *l = ctx;
    struct engine *e = heart_engine(l->heart);
    struct span name = engine_queue_name(e, queue);
    if (l->watches.first && name.len)
        watches_signal(&l->watches, hash128_of(engine_hash_key(e), name));
}

static void answer(struct local *l, const struct reader_job *j)
{
    struct heart_page page = {.jobs = j->jobs,
                              .count = j->job_count,
                              .cursor = j->cursor,
                              .as_of = j->as_of,
                              .attempts = j->attempts,
                              .attempt_count = j->attempt_count};
    heart_bodies(l->heart, j->request, j->bodies, j->bodies ? NULL : &page, j->error, now_of(l));
}

/* Lists and what went wrong go to a thread of their own: workers wait for bodies. */
static void give_read(void *ctx, void *request, const struct store_query *query)
{
    struct local *l = ctx;
    if (l->reader) {
        bool slow = query->list || query->exceptions;
        int err = reader_ask(slow ? l->lister : l->reader, request, query);
        if (err)
            heart_bodies(l->heart, request, NULL, NULL, err, now_of(l));
        return;
    }
    struct reader_job j = {.request = request, .query = *query};
    arena_init(&j.arena);
    reader_work(l->direct, &j);
    answer(l, &j);
    arena_done(&j.arena);
}

/* --- one turn of the loop --- */

static void take_answers(struct local *l, struct reader *from)
{
    struct reader_job *j;
    while (from && (j = reader_done(from)) != NULL) {
        answer(l, j);
        reader_job_free(j);
    }
}

/* Says so when the wall clock has leapt and expiry stopped. */
static void report_clock(struct local *l)
{
    bool suspect = engine_clock_suspect(heart_engine(l->heart));
    if (suspect && !l->clock_suspect)
        log_event(l->config.log, LOG_ERROR, "clock_leapt",
                  LOG_TEXT("effect", "jobs do not expire and history is not pruned"),
                  LOG_TEXT("way_out", "if the clock is right: POST /v1/clock/accept"));
    l->clock_suspect = suspect;
}

static void take_durable(struct local *l)
{
    if (!l->applier) {
        heart_durable(l->heart, l->applied, now_of(l));
        return;
    }
    struct applier_state state;
    applier_state(l->applier, &state);
    engine_set_full(heart_engine(l->heart), state.full);
    if (state.error)
        die(l, state.why);
    heart_durable(l->heart, state.durable, now_of(l));
}

static void run_ticks(struct local *l)
{
    struct now now = now_of(l);
    engine_look(heart_engine(l->heart), now);
    if (l->closing && (l->gave_up || !engine_bulks_waiting(heart_engine(l->heart))))
        return; /* what is not finished goes on after the next start */
    for (int i = 0; i < TICKS_A_TURN && engine_next_tick_ms(heart_engine(l->heart), now) <= 0; i++)
        if (heart_tick(l->heart, now) != 0)
            return; /* no memory: the timer tries again */
}

static void tell_news(struct local *l)
{
    uint64_t last = engine_events_last(heart_engine(l->heart));
    if (last == l->news_told)
        return;
    l->news_told = last;
    if (l->news_fn)
        l->news_fn(l->news_ctx);
}

/* After the signals of this turn have been given. */
static void settle_further(struct local *l)
{
    struct engine *e = heart_engine(l->heart);
    if (!l->settles.first)
        return;
    bool due = engine_next_tick_ms(e, now_of(l)) <= 0;
    for (struct settle *s = l->settles.first; s && !due; s = s->next) {
        if (!s->worked)
            s->position = engine_position(e);
        s->worked = true;
    }
    settles_end(&l->settles, heart_durable_position(l->heart));
}

/* --- backup and compacting --- */

static void backup_end(struct local *l, const struct backup_result *result)
{
    struct backup *b = l->backup;
    struct backup_request request = l->backup_for;
    l->backup = NULL;
    l->backup_for = (struct backup_request){NULL, NULL};
    if (request.done)
        request.done(request.ctx, result);
    else if (result->fd >= 0)
        close(result->fd);
    backup_free(b);
}

static void compact_end(struct local *l, int error, const char *note)
{
    struct compact_request request = l->compact_for;
    struct compact_result result = {
        .error = error, .note = note, .bytes_before = l->compact_before};
    l->compact_for = (struct compact_request){NULL, NULL};
    result.bytes_after = l->store->ops->bytes(l->store);
    request.done(request.ctx, &result);
}

static void take_maintenance(struct local *l)
{
    struct backup_result result;
    struct applier_state state;
    if (l->backup && backup_over(l->backup, &result))
        backup_end(l, &result);
    if (!l->compact_for.done)
        return;
    applier_state(l->applier, &state);
    if (!state.compacting)
        compact_end(l, state.compact_error,
                    state.compact_error ? "the disk is full: compacting needs a little room" : "");
}

/* The backend closes: whoever waits is told so. */
static void maintenance_end(struct local *l)
{
    static const struct backup_result cut = {
        .error = -ERR_CLOSED, .note = "the server is shutting down", .fd = -1};
    if (l->backup)
        backup_end(l, &cut);
    if (l->compact_for.done)
        compact_end(l, cut.error, cut.note);
}

static void arm_timer(struct local *l);
static void maybe_closed(struct local *l);

static void turn(struct local *l)
{
    run_ticks(l);
    take_durable(l);
    take_answers(l, l->reader);
    take_answers(l, l->lister);
    report_clock(l);
    heart_flush(l->heart, now_of(l));
    if (!l->applier)
        take_durable(l); /* what the callbacks submitted meanwhile */
    tell_news(l);
    take_maintenance(l);
    settle_further(l);
    arm_timer(l);
    maybe_closed(l);
}

static void stir_cb(uv_idle_t *handle)
{
    (void)handle;
}

/* A turn must come soon. Costs no system call, unlike a knock. */
static void stir(struct local *l)
{
    if (!uv_is_active((uv_handle_t *)&l->stir))
        uv_idle_start(&l->stir, stir_cb);
}

static void prepare_cb(uv_prepare_t *handle)
{
    struct local *l = handle->data;
    uv_idle_stop(&l->stir);
    turn(l);
}

static void timer_cb(uv_timer_t *handle)
{
    turn(handle->data);
}

static void knock_cb(uv_async_t *handle)
{
    turn(handle->data);
}

static void arm_timer(struct local *l)
{
    int64_t wait = engine_next_tick_ms(heart_engine(l->heart), now_of(l));
    if (!l->applier && !heart_idle(l->heart))
        wait = 0;
    /* Wall time may be set forward while the loop sleeps: look at least twice a second. */
    if (wait != INT64_MAX && wait > 500)
        wait = 500;
    /* A clock moved by hand says nothing about when to look again; its owner wakes the loop. */
    if (wait == INT64_MAX || (l->config.clock.manual && wait > 0))
        uv_timer_stop(&l->timer);
    else
        uv_timer_start(&l->timer, timer_cb, (uint64_t)wait, 0);
}

static void knock(void *ctx)
{
    struct local *l = ctx;
    uv_async_send(&l->knock);
}

/* --- close --- */

static void free_all(struct local *l)
{
    backup_free(l->backup);
    reader_stop(l->reader);
    reader_stop(l->lister);
    if (l->direct)
        l->direct->ops->close(l->direct);
    applier_stop(l->applier);
    heart_free(l->heart);
    if (l->store)
        l->store->ops->close(l->store);
    watches_done(&l->watches);
    mem_free(l);
}

static void handle_closed_cb(uv_handle_t *handle)
{
    struct local *l = handle->data;
    if (--l->open_handles > 0)
        return;
    backend_closed_fn fn = l->closed_fn;
    void *ctx = l->closed_ctx;
    free_all(l);
    if (fn)
        fn(ctx);
}

/* A full disk must not keep a server from stopping: one whole try after the close was asked for,
 * then what is not durable is lost, and whoever asked for it is told that nobody knows. */
static void give_up_if_full(struct local *l)
{
    struct applier_state state;
    if (!l->closing || l->gave_up || !l->applier)
        return;
    applier_state(l->applier, &state);
    if (!state.full || state.full_tries < l->closing_tries + 2)
        return;
    l->gave_up = true;
    uint64_t lost = engine_position(heart_engine(l->heart)) - state.durable;
    size_t told = heart_abandon(l->heart, now_of(l));
    log_event(l->config.log, LOG_ERROR, "closed_with_full_disk", LOG_TEXT("why", state.why),
              LOG_INT("records_lost", lost), LOG_INT("answered_unknown", told));
}

/* Once everything taken has been answered and is durable, the threads and handles go. */
static void maybe_closed(struct local *l)
{
    give_up_if_full(l);
    if (!l->closing || !heart_idle(l->heart) || uv_is_closing((uv_handle_t *)&l->prepare) ||
        (engine_bulks_waiting(heart_engine(l->heart)) && !l->gave_up))
        return;
    settles_end_all(&l->settles);
    maintenance_end(l);
    reader_stop(l->reader);
    reader_stop(l->lister);
    l->reader = l->lister = NULL;
    applier_stop(l->applier);
    l->applier = NULL;
    uv_close((uv_handle_t *)&l->prepare, handle_closed_cb);
    uv_close((uv_handle_t *)&l->timer, handle_closed_cb);
    uv_close((uv_handle_t *)&l->knock, handle_closed_cb);
    uv_close((uv_handle_t *)&l->stir, handle_closed_cb);
}

static void local_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct local *l = local_of(b);
    struct applier_state state = {0};
    if (l->applier)
        applier_state(l->applier, &state);
    if (l->backup)
        backup_cancel(l->backup);
    l->closing = true;
    l->closing_tries = state.full_tries;
    l->closed_fn = fn;
    l->closed_ctx = ctx;
    stir(l);
}

/* --- the other slots --- */

static int local_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                        void *ctx)
{
    struct local *l = local_of(b);
    if (l->closing)
        return -ERR_CLOSED;
    int err = heart_submit(l->heart, ops, count, now_of(l), fn, ctx);
    if (!err)
        stir(l);
    return err;
}

static int local_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                       struct backend_watch **ret)
{
    struct local *l = local_of(b);
    struct hash128 name = hash128_of(engine_hash_key(heart_engine(l->heart)), queue);
    return watches_add(&l->watches, name, fn, ctx, ret);
}

static void local_unwatch(struct backend *b, struct backend_watch *w)
{
    watches_remove(&local_of(b)->watches, w);
}

static unsigned local_caps(const struct backend *b)
{
    return b->ops == &local_ops ? CAP_STRICT_ORDER | CAP_DURABLE_REPLY : CAP_STRICT_ORDER;
}

static void local_figures(const struct backend *b, struct backend_figures *ret)
{
    const struct local *l = (const struct local *)b;
    *ret = (struct backend_figures){0};
    heart_figures(l->heart, ret);
    if (!l->applier)
        return;
    struct applier_state state;
    applier_state(l->applier, &state);
    ret->commits = state.commits;
    ret->commit_ns_total = state.commit_ns_total;
    ret->commit_ns_last = state.commit_ns_last;
    ret->disk_full = state.full;
    ret->compacting = state.compacting;
    ret->compact_left = state.compact_left;
    ret->store_bytes = l->store->ops->bytes ? l->store->ops->bytes(l->store) : 0;
    if (l->backup)
        backup_progress(l->backup, &ret->backup_pages, &ret->backup_total);
    applier_spread(l->applier, &ret->commit_us, &ret->commit_records);
}

static size_t local_events(const struct backend *b, uint64_t after, uint64_t kinds,
                           struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    const struct local *l = (const struct local *)b;
    return engine_events(heart_engine(l->heart), after, kinds, out, max, ret_oldest);
}

static uint64_t local_events_last(const struct backend *b)
{
    const struct local *l = (const struct local *)b;
    return engine_events_last(heart_engine(l->heart));
}

static void local_on_news(struct backend *b, backend_news_fn fn, void *ctx)
{
    struct local *l = local_of(b);
    if (!l->news_fn) /* else what is not told yet still will be */
        l->news_told = local_events_last(b);
    l->news_fn = fn;
    l->news_ctx = ctx;
}

static int local_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct local *l = local_of(b);
    if (l->closing)
        return -ERR_CLOSED;
    if (!settles_add(&l->settles, l, fn, ctx))
        return -ERR_NOMEM;
    stir(l);
    return 0;
}

/* Calls fn once the store holds every record that is durable now. Frames are durable when the store
 * has them, so that is at once. */
static void local_catch_up(struct local *l, void (*fn)(void *ctx), void *ctx)
{
    (void)l;
    fn(ctx);
}

static void backup_begin(void *ctx)
{
    struct local *l = ctx;
    backup_run(l->backup);
}

static int local_backup(struct backend *b, const struct backup_request *request,
                        struct err_note *note)
{
    struct local *l = local_of(b);
    if (l->closing)
        return err_note_set(note, -ERR_CLOSED, "the server is shutting down");
    if (l->backup)
        return err_note_set(note, -ERR_LOCKED, "another backup is under way; try again after it");
    if (!l->store->ops->dir)
        return err_note_set(note, -ERR_INVALID, "this store keeps no files");
    if (backup_new(l->store->ops->dir(l->store), knock, l, &l->backup) != 0)
        return err_note_set(note, -ERR_NOMEM, "out of memory");
    l->backup_for = *request;
    local_catch_up(l, backup_begin, l);
    return 0;
}

static void local_backup_cancel(struct backend *b)
{
    struct local *l = local_of(b);
    l->backup_for = (struct backup_request){NULL, NULL};
    if (l->backup)
        backup_cancel(l->backup);
}

static int local_compact(struct backend *b, const struct compact_request *request,
                         struct err_note *note)
{
    struct local *l = local_of(b);
    if (l->closing)
        return err_note_set(note, -ERR_CLOSED, "the server is shutting down");
    if (l->compact_for.done)
        return err_note_set(note, -ERR_LOCKED, "the store is being compacted already");
    if (!l->store->ops->bytes)
        return err_note_set(note, -ERR_INVALID, "this store keeps no files");
    l->compact_for = *request;
    l->compact_before = l->store->ops->bytes(l->store);
    applier_compact(l->applier);
    return 0;
}

static void local_compact_cancel(struct backend *b)
{
    struct local *l = local_of(b);
    l->compact_for = (struct compact_request){NULL, NULL};
    if (l->applier)
        applier_compact_end(l->applier);
}

static const struct backend_ops local_ops = {
    .kind = "sqlite",
    .submit = local_submit,
    .watch = local_watch,
    .unwatch = local_unwatch,
    .caps = local_caps,
    .figures = local_figures,
    .events = local_events,
    .events_last = local_events_last,
    .on_news = local_on_news,
    .settle = local_settle,
    .backup = local_backup,
    .backup_cancel = local_backup_cancel,
    .compact = local_compact,
    .compact_cancel = local_compact_cancel,
    .close = local_close,
};

static const struct backend_ops memory_ops = {
    .kind = "memory",
    .submit = local_submit,
    .watch = local_watch,
    .unwatch = local_unwatch,
    .caps = local_caps,
    .figures = local_figures,
    .events = local_events,
    .events_last = local_events_last,
    .on_news = local_on_news,
    .settle = local_settle,
    .close = local_close,
};

/* --- open --- */

static int seed_of(const struct backend_config *config, uint64_t *ret)
{
    *ret = config->seed;
    return config->seed ? 0 : random_bytes(ret, sizeof(*ret));
}

static int heart_config_of(struct local *l, bool cached, struct heart_config *ret)
{
    const struct backend_config *c = &l->config;
    *ret = (struct heart_config){
        .calls = {.ctx = l,
                  .frame = give_frame,
                  .reply = give_reply,
                  .wake = give_wake,
                  .read = give_read},
    };
    engine_config_default(&ret->engine);
    if (c->policy)
        ret->engine.policy = *c->policy;
    ret->engine.no_auto_create = c->no_auto_create;
    ret->engine.node = c->node;
    ret->engine.capacity = c->capacity;
    ret->engine.key_ttl_ms = c->key_ttl_ms;
    ret->engine.keys_max = c->keys_max;
    if (c->clock.manual) {
        ret->engine.stall_ms = INT64_MAX;
        ret->engine.jump_ms = INT64_MAX;
    }
    if (cached)
        ret->cache_bytes = c->cache_bytes ? c->cache_bytes : DEFAULT_CACHE_BYTES;
    return seed_of(c, &ret->engine.seed);
}

static int handles_open(struct local *l)
{
    uv_loop_t *loop = l->config.loop;
    if (uv_async_init(loop, &l->knock, knock_cb) != 0)
        return -ERR_IO;
    CHECK(uv_prepare_init(loop, &l->prepare) == 0 && uv_timer_init(loop, &l->timer) == 0 &&
          uv_idle_init(loop, &l->stir) == 0);
    l->prepare.data = l->timer.data = l->knock.data = l->stir.data = l;
    CHECK(uv_prepare_start(&l->prepare, prepare_cb) == 0);
    l->open_handles = 4;
    return 0;
}

/* Loads, raises the epoch, commits that, and only then lets the threads begin. */
static int start(struct local *l, bool cached, struct err_note *note)
{
    struct heart_config config;
    int err = heart_config_of(l, cached, &config);
    if (!err)
        err = heart_new(&config, &l->heart);
    if (!err)
        err = engine_load(heart_engine(l->heart), l->store, note);
    if (!err)
        err = heart_boot(l->heart, now_of(l)); /* applied on the spot: no applier yet */
    if (err)
        return err;
    heart_durable(l->heart, l->applied, now_of(l));
    return 0;
}

static int local_new(const struct backend_config *config, const struct backend_ops *ops,
                     struct local **ret)
{
    struct local *l = mem_zalloc(sizeof(*l));
    if (!l)
        return -ERR_NOMEM;
    l->base.ops = ops;
    l->config = *config;
    watches_init(&l->watches);
    *ret = l;
    return 0;
}

static int reader_begin(struct local *l, struct reader **ret, struct err_note *note)
{
    struct store_reader *from;
    int err = l->store->ops->reader_open(l->store, &from, note);
    if (err)
        return err;
    err = reader_start(from, knock, l, ret);
    if (err)
        from->ops->close(from);
    return err;
}

static int threads_start(struct local *l, struct err_note *note)
{
    int err = reader_begin(l, &l->reader, note);
    if (!err)
        err = reader_begin(l, &l->lister, note);
    if (err)
        return err;
    return applier_start(l->store, l->applied, l->config.log, knock, l, &l->applier);
}

int backend_open_on_store(struct store *store, const struct backend_config *config,
                          struct backend **ret, struct err_note *note)
{
    struct local *l;
    int err = local_new(config, &local_ops, &l);
    if (err) {
        store->ops->close(store);
        return err;
    }
    l->store = store;
    err = start(l, true, note);
    if (!err)
        err = threads_start(l, note); /* they knock only once they have been given work */
    if (!err)
        err = handles_open(l);
    if (err) {
        free_all(l);
        return err;
    }
    *ret = &l->base;
    return 0;
}

int backend_open_local(const char *dir, const struct backend_config *config, struct backend **ret,
                       struct err_note *note)
{
    struct store *store;
    int err = store_open_sqlite(dir, clock_now(&config->clock).wall, &store, note);
    if (!err && backup_leftovers_remove(dir) > 0)
        log_event(config->log, LOG_INFO, "unfinished_backup_removed");
    return err ? err : backend_open_on_store(store, config, ret, note);
}

#define MEMORY_EPOCHS ((uint64_t)1 << 22) /* an event's id has room for 24 bits of it */

/* Memory forgets its epoch. One drawn at random keeps tokens and event ids of an earlier process
 * from meaning something in this one. */
static void draw_epoch(struct local *l, uint64_t seed)
{
    struct random random;
    random_seed(&random, seed);
    if (!l->config.seed)
        store_memory_set_epoch(l->store, (uint32_t)random_below(&random, MEMORY_EPOCHS));
}

int backend_open_memory(const struct backend_config *config, struct backend **ret,
                        struct err_note *note)
{
    struct local *l;
    uint64_t seed;
    int err = local_new(config, &memory_ops, &l);
    if (err)
        return err;
    err = seed_of(config, &seed);
    if (!err)
        err = store_open_memory(seed, &l->store);
    if (!err)
        draw_epoch(l, seed);
    if (!err)
        err = l->store->ops->reader_open(l->store, &l->direct, note);
    if (!err)
        err = start(l, false, note);
    if (!err)
        err = handles_open(l);
    if (err) {
        free_all(l);
        return err;
    }
    *ret = &l->base;
    return 0;
}
