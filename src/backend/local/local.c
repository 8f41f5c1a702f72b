/* SPDX-License-Identifier: Apache-2.0 */
/* The local backend: the commit gate on a loop, with a journal and a store behind it.
 *
 *   sqlite:  frames go to the writer thread, which makes them durable in the journal; the applier
 *            thread applies them to the store; bodies and lists come from the reader threads. All
 *            wake the loop (loop_wake.h).
 *   memory:  the store is used on the loop thread; what is applied counts as durable.
 *
 * Once in each iteration of the loop, just before it would wait for input, due work is done,
 * replies are sent, and the frames of the iteration go to the writer together. Input is therefore
 * always handled before leases may expire. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/local/local_impl.h"
#include "base/check.h"
#include "base/mem.h"

#define TICKS_PER_ITERATION 8 /* slices of housekeeping in one iteration */
#define SINGLE_CLIENT_REPLIES                                                                      \
    2                     /* waiting replies of a single client: those of an enqueue and a claim */
#define AVERAGE_WEIGHT 16 /* weight of the older values in the moving average */
#define CLOSE_FULL_NS UINT64_C(1000000000) /* how long a close waits for space in the journal */

static struct local *local_of(struct backend *b)
{
    CHECK(b->ops == &local_ops || b->ops == &memory_ops);
    return (struct local *)b;
}

struct now local_now(const struct local *l)
{
    return clock_now(&l->config.clock);
}

/* A commit failed: the state in memory and the state on disk may no longer agree. */
static void die(struct local *l, int error, const char *why)
{
    log_event(l->config.log, LOG_ERROR, "store_failed", LOG_TEXT("why", why));
    if (l->config.fatal) {
        l->config.fatal(l->config.fatal_ctx, error, why);
    } else {
        fprintf(stderr, "holdfast: the store failed: %s\n", why);
        abort();
    }
}

/* --- callbacks of the commit gate --- */

static int keep_frame(struct local *l, struct span frame)
{
    struct span *frames = mem_more(l->frames, l->frame_count, &l->frame_room, sizeof *frames);
    if (!frames)
        return -ERR_NOMEM;
    l->frames = frames;
    l->frames[l->frame_count++] = frame;
    return 0;
}

void local_frame(void *ctx, struct span frame, uint64_t last)
{
    struct local *l = ctx;
    struct err_note note = {""};
    int err;
    if (l->journal) {
        err = keep_frame(l, frame);
    } else {
        err = l->store->ops->apply(l->store, &frame, 1, &note);
        l->applied = last;
    }
    if (err)
        die(l, err, note.text[0] ? note.text : err_text(err));
}

void local_reply(void *ctx, backend_reply_fn fn, void *fn_ctx, const struct reply *reply)
{
    (void)ctx;
    if (fn)
        fn(fn_ctx, reply);
}

void local_wake(void *ctx, uint32_t queue)
{
    struct local *l = ctx;
    struct engine *e = gate_engine(l->gate);
    struct span name = engine_queue_name(e, queue);
    if (l->watches.first && name.len)
        watches_signal(&l->watches, hash128_of(engine_hash_key(e), name));
}

/* --- one iteration of the loop --- */

static void take_answers(struct local *l, struct reader *from)
{
    struct reader_job *j;
    while (from && (j = reader_done(from)) != NULL) {
        local_answer(l, j);
        reader_job_free(j);
    }
}

/* Logs when the wall clock has jumped and expiry has stopped. */
static void report_clock(struct local *l)
{
    bool suspect = engine_clock_suspect(gate_engine(l->gate));
    if (suspect && !l->clock_suspect)
        log_event(l->config.log, LOG_ERROR, "clock_jumped",
                  LOG_TEXT("effect", "jobs do not expire and history is not pruned"),
                  LOG_TEXT("next", "if the clock is right: POST /v1/clock/accept"));
    l->clock_suspect = suspect;
}

static void take_applied(struct local *l, const struct applier_state *state)
{
    if (state->error)
        die(l, state->error, state->why);
    if (state->applied > l->applied) {
        l->applied = state->applied;
        gate_applied(l->gate, l->applied);
        writer_retry(l->writer);
        if (state->full)
            writer_economize(l->writer);
    }
    local_reads_go_on(l);
}

static void take_durable(struct local *l)
{
    if (!l->writer) {
        gate_durable(l->gate, l->applied, local_now(l));
        return;
    }
    struct writer_state written;
    struct applier_state swept;
    writer_state(l->writer, &written);
    applier_state(l->applier, &swept);
    engine_set_full(gate_engine(l->gate), written.full || swept.full);
    if (written.error)
        die(l, written.error, written.why);
    gate_durable(l->gate, written.durable, local_now(l));
    take_applied(l, &swept);
}

static void no_sleep_cb(uv_idle_t *handle)
{
    (void)handle;
}

/* The next iteration must come soon. Costs no system call, unlike loop_wake_send. */
static void wake_soon(struct local *l)
{
    if (!uv_is_active((uv_handle_t *)&l->no_sleep))
        uv_idle_start(&l->no_sleep, no_sleep_cb);
}

/* Few replies wait for this commit, and few waited for the previous ones. If none waits, a sync on
 * the loop thread would only delay the next request. */
static bool is_single_client(struct local *l)
{
    size_t waiting = gate_waiting(l->gate);
    l->waiting_average = (l->waiting_average * 7 + waiting * AVERAGE_WEIGHT) / 8;
    return waiting > 0 && waiting <= SINGLE_CLIENT_REPLIES &&
           l->waiting_average <= SINGLE_CLIENT_REPLIES * AVERAGE_WEIGHT;
}

/* A single request, with the claim that it woke, is committed on the loop thread: waking two
 * threads would cost it more than the sync. Not while replies of this iteration are still to be
 * written. */
static void commit_frames(struct local *l, bool answered)
{
    if (l->frame_count == 0 || !l->writer)
        return;
    bool here = is_single_client(l) && !answered &&
                writer_commit_here(l->writer, l->frames, l->frame_count);
    if (!here && writer_push(l->writer, l->frames, l->frame_count) != 0)
        die(l, -ERR_NOMEM, err_text(-ERR_NOMEM));
    l->frame_count = 0;
    if (!here)
        return;
    take_durable(l);
    /* no thread wakes the loop, but listeners and outstanding settle and close calls must continue
     */
    wake_soon(l);
}

static void run_ticks(struct local *l)
{
    struct now now = local_now(l);
    if (l->config.still)
        return;
    engine_look(gate_engine(l->gate), now);
    if (l->closing && (l->gave_up || !engine_bulks_waiting(gate_engine(l->gate))))
        return; /* the rest continues after the next start */
    for (int i = 0; i < TICKS_PER_ITERATION && engine_next_tick_ms(gate_engine(l->gate), now) <= 0;
         i++)
        if (gate_tick(l->gate, now) != 0)
            return; /* no memory: the timer tries again */
}

static void tell_news(struct local *l)
{
    uint64_t last = engine_events_last(gate_engine(l->gate));
    if (last == l->news_told)
        return;
    l->news_told = last;
    if (l->news_fn)
        l->news_fn(l->news_ctx);
}

/* Called after the signals of this iteration have been sent. */
static void settle_further(struct local *l)
{
    struct engine *e = gate_engine(l->gate);
    if (!l->settle_calls.first)
        return;
    bool due = !l->config.still && engine_next_tick_ms(e, local_now(l)) <= 0;
    for (struct settle_call *s = l->settle_calls.first; s && !due; s = s->next) {
        if (!s->worked)
            s->position = engine_position(e);
        s->worked = true;
    }
    settle_calls_end(&l->settle_calls, gate_durable_position(l->gate));
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
    gate_flush(l->gate, local_now(l));
    if (!l->writer)
        take_durable(l); /* what the callbacks submitted meanwhile */
    tell_news(l);
    local_upkeep(l);
    settle_further(l);
    arm_timer(l);
    maybe_closed(l);
}

static void prepare_cb(uv_prepare_t *handle)
{
    struct local *l = handle->data;
    uint64_t sent = gate_sent(l->gate);
    uv_idle_stop(&l->no_sleep);
    turn(l);
    commit_frames(l, gate_sent(l->gate) != sent);
}

static void timer_cb(uv_timer_t *handle)
{
    turn(handle->data);
}

static void wake_cb(void *ctx)
{
    turn(ctx);
}

static void arm_timer(struct local *l)
{
    int64_t wait =
        l->config.still ? INT64_MAX : engine_next_tick_ms(gate_engine(l->gate), local_now(l));
    if (!l->writer && !gate_idle(l->gate))
        wait = 0;
    int64_t reads = local_reads_wait_ms(l);
    if (reads < wait)
        wait = reads;
    /* The wall clock may be set forward while the loop sleeps: check at least twice a second. */
    if (wait != INT64_MAX && wait > 500)
        wait = 500;
    /* A manual clock does not say when to check again; its owner wakes the loop. */
    if (wait == INT64_MAX || (l->config.clock.manual && wait > 0 && wait != reads))
        uv_timer_stop(&l->timer);
    else
        uv_timer_start(&l->timer, timer_cb, (uint64_t)wait, 0);
}

void local_wake_loop(void *ctx)
{
    struct local *l = ctx;
    loop_wake_send(&l->wake);
}

/* --- close --- */

/* Stops the threads of the journal. What is durable but cannot be applied now stays in the
 * journal. */
static void threads_stop(struct local *l)
{
    writer_stop(l->writer);
    applier_stop(l->applier);
    reader_stop(l->reader);
    reader_stop(l->lister);
    l->writer = NULL;
    l->applier = NULL;
    l->reader = l->lister = NULL;
}

void local_free(struct local *l)
{
    backup_free(l->backup);
    threads_stop(l);
    loop_wake_done(&l->wake);
    if (l->direct)
        l->direct->ops->close(l->direct);
    local_reads_free(l);
    gate_free(l->gate);
    journal_close(l->journal);
    disk_reserve_close(l->reserve);
    if (l->store)
        l->store->ops->close(l->store);
    watches_done(&l->watches);
    mem_free(l->frames);
    mem_free(l);
}

static void handles_close(struct local *l, uv_close_cb fn)
{
    uv_close((uv_handle_t *)&l->prepare, fn);
    uv_close((uv_handle_t *)&l->timer, fn);
    loop_wake_close(&l->wake, fn);
    uv_close((uv_handle_t *)&l->no_sleep, fn);
}

static void handle_closed_cb(uv_handle_t *handle)
{
    struct local *l = handle->data;
    if (--l->open_handles > 0)
        return;
    backend_closed_fn fn = l->closed_fn;
    void *ctx = l->closed_ctx;
    local_free(l);
    if (fn)
        fn(ctx);
}

/* A full disk must not prevent a server from stopping: after a while everything that is not durable
 * is lost, and its callers get OUT_UNKNOWN. */
static void give_up_if_full(struct local *l)
{
    struct writer_state state;
    if (!l->closing || l->gave_up || !l->writer)
        return;
    writer_state(l->writer, &state);
    if (!state.stuck || clock_ns() - l->closing_since < CLOSE_FULL_NS)
        return;
    l->gave_up = true;
    writer_end(l->writer); /* it has the frames that the commit gate now releases */
    writer_state(l->writer, &state);
    gate_durable(l->gate, state.durable, local_now(l));
    uint64_t lost = engine_position(gate_engine(l->gate)) - state.durable;
    size_t told = gate_abandon(l->gate, local_now(l));
    log_event(l->config.log, LOG_ERROR, "closed_with_full_disk", LOG_TEXT("why", state.why),
              LOG_INT("records_lost", lost), LOG_INT("answered_unknown", told));
}

/* Closes threads and handles once everything that was taken has its reply and is durable. */
static void maybe_closed(struct local *l)
{
    give_up_if_full(l);
    if (!l->closing || !gate_idle(l->gate) || uv_is_closing((uv_handle_t *)&l->prepare) ||
        (engine_bulks_waiting(gate_engine(l->gate)) && !l->gave_up))
        return;
    settle_calls_end_all(&l->settle_calls);
    local_upkeep_end(l);
    threads_stop(l);
    handles_close(l, handle_closed_cb);
}

void local_abandon(struct local *l)
{
    threads_stop(l);
    if (l->open_handles)
        handles_close(l, handle_closed_cb);
    else
        local_free(l);
}

static void local_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct local *l = local_of(b);
    if (l->backup)
        backup_cancel(l->backup);
    l->closing = true;
    l->closing_since = clock_ns();
    l->closed_fn = fn;
    l->closed_ctx = ctx;
    wake_soon(l);
}

/* --- the other slots --- */

static int local_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                        void *ctx)
{
    struct local *l = local_of(b);
    if (l->closing)
        return -ERR_CLOSED;
    int err = gate_submit(l->gate, ops, count, local_now(l), fn, ctx);
    if (!err)
        wake_soon(l);
    return err;
}

static int local_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                       struct backend_watch **ret)
{
    struct local *l = local_of(b);
    struct hash128 name = hash128_of(engine_hash_key(gate_engine(l->gate)), queue);
    return watches_add(&l->watches, name, fn, ctx, ret);
}

static void local_unwatch(struct backend *b, struct backend_watch *w)
{
    watches_remove(&local_of(b)->watches, w);
}

static unsigned local_caps(const struct backend *b)
{
    unsigned caps = CAP_STRICT_ORDER | CAP_WHOLE_JOBS | CAP_DEPENDENCIES;
    return b->ops == &local_ops ? caps | CAP_DURABLE_REPLY : caps;
}

static void journal_part(const struct local *l, struct backend_figures *ret)
{
    struct writer_state written;
    struct applier_state swept;
    struct journal_figures journal;
    writer_state(l->writer, &written);
    applier_state(l->applier, &swept);
    journal_figures(l->journal, &journal);
    ret->commits = written.commits;
    ret->commit_ns_total = written.commit_ns_total;
    ret->commit_ns_last = written.commit_ns_last;
    writer_spread(l->writer, &ret->commit_us, &ret->commit_records);
    ret->disk_full = written.full || swept.full;
    ret->has_journal = true;
    ret->journal_lag_ms = swept.unapplied_ms;
    ret->journal_lag_bytes = journal.bytes_unapplied;
    ret->journal_bytes = journal.bytes;
    ret->journal_bytes_max = journal.bytes_max;
    ret->journal_segments = journal.segments;
    ret->journal_segments_free = journal.free;
    ret->journal_stuck_ms = written.stuck_ms;
    ret->journal_torn_bytes = journal_torn(l->journal).bytes;
    ret->journal_torn_files = l->torn_files;
    ret->sweeps = swept.sweeps;
    ret->sweep_ns_total = swept.sweep_ns_total;
}

static void local_figures(const struct backend *b, struct backend_figures *ret)
{
    const struct local *l = (const struct local *)b;
    *ret = (struct backend_figures){0};
    gate_figures(l->gate, ret);
    ret->mark =
        hash128_of(engine_hash_key(gate_engine(l->gate)), SPAN_LITERAL("mark of the store")).lo;
    ret->applied = l->applied;
    ret->jobs_damaged = l->jobs_damaged;
    ret->read_errors = l->read_errors;
    if (!l->writer)
        return;
    journal_part(l, ret);
    local_upkeep_figures(l, ret);
}

/* The store is not shared: this node is the only one, and the leader. */
static void local_cluster(const struct backend *b, struct backend_cluster *ret)
{
    const struct local *l = (const struct local *)b;
    struct backend_figures f = {0};
    struct wall_time now = clock_now(&l->config.clock).wall;
    gate_figures(l->gate, &f);
    ret->since = l->opened_at;
    if (l->read_trouble[0] != '\0') {
        ret->up = false;
        snprintf(ret->trouble, sizeof ret->trouble, "%s", l->read_trouble);
    }
    ret->as_of = now;
    ret->leader_epoch = f.epoch;
    ret->node_count = 1;
    ret->nodes[0] = (struct backend_node){
        .epoch = f.epoch, .number = l->config.node, .seen_at = now, .self = true, .leader = true};
    if (l->config.version)
        snprintf(ret->nodes[0].version, sizeof ret->nodes[0].version, "%s", l->config.version);
}

static size_t local_events(const struct backend *b, uint64_t after, uint64_t kinds,
                           struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    const struct local *l = (const struct local *)b;
    return engine_events(gate_engine(l->gate), after, kinds, out, max, ret_oldest);
}

static uint64_t local_events_last(const struct backend *b)
{
    const struct local *l = (const struct local *)b;
    return engine_events_last(gate_engine(l->gate));
}

static void local_on_news(struct backend *b, backend_news_fn fn, void *ctx)
{
    struct local *l = local_of(b);
    if (!l->news_fn) /* otherwise events that were not reported yet still will be */
        l->news_told = local_events_last(b);
    l->news_fn = fn;
    l->news_ctx = ctx;
}

static int local_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct local *l = local_of(b);
    if (l->closing)
        return -ERR_CLOSED;
    if (!settle_calls_add(&l->settle_calls, l, fn, ctx))
        return -ERR_NOMEM;
    wake_soon(l);
    return 0;
}

#define LOCAL_SLOTS                                                                                \
    .submit = local_submit, .watch = local_watch, .unwatch = local_unwatch, .caps = local_caps,    \
    .figures = local_figures, .cluster = local_cluster, .events = local_events,                    \
    .events_last = local_events_last, .on_news = local_on_news, .settle = local_settle,            \
    .close = local_close

const struct backend_ops local_ops = {
    .kind = "sqlite",
    LOCAL_SLOTS,
    .backup = local_backup,
    .backup_cancel = local_backup_cancel,
    .compact = local_compact,
    .compact_cancel = local_compact_cancel,
};

const struct backend_ops memory_ops = {.kind = "memory", LOCAL_SLOTS};

/* --- handles --- */

int local_handles_open(struct local *l)
{
    uv_loop_t *loop = l->config.loop;
    if (loop_wake_open(&l->wake, loop, wake_cb, l) != 0)
        return -ERR_IO;
    CHECK(uv_prepare_init(loop, &l->prepare) == 0 && uv_timer_init(loop, &l->timer) == 0 &&
          uv_idle_init(loop, &l->no_sleep) == 0);
    l->prepare.data = l->timer.data = l->wake.poll.data = l->no_sleep.data = l;
    CHECK(uv_prepare_start(&l->prepare, prepare_cb) == 0);
    l->open_handles = 4;
    return 0;
}
