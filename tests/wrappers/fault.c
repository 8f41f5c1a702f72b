/* SPDX-License-Identifier: Apache-2.0 */
/* The fault wrapper: a backend that does everything that backend.h allows, including what its
 * callers do not expect.
 *
 * The path of an op. fault_submit draws a fault for each op and passes the ops on in order and in
 * one submit, together with the ops of "another node" around them. When every inner reply of an op
 * has arrived, its reply is ready. It is delivered at once, or held for some iterations of the
 * loop. Held replies keep their order, except for loose ones, which later replies may overtake. Ops
 * themselves are never held or reordered: only replies are.
 *
 * Faults of an op. NONE: the inner reply is delivered. REPLY_LOST: the op is done, and the reply is
 * OUT_UNKNOWN. OP_LOST: the op is not passed on, and the reply is OUT_UNKNOWN. DENIED: the op is
 * not passed on, and the reply is OUT_UNAVAILABLE. A query has no unknown outcome, so it is only
 * ever passed on or denied.
 *
 * All random numbers of a submit are drawn inside it, from the seed: the same submits meet the same
 * faults, however fast the threads of the inner backend are. Only signals draw numbers when they
 * arrive; they have their own generator.
 *
 * Memory: a batch lives until its last op has been answered; a held reply is one block. Without
 * memory to hold a reply, the reply becomes OUT_UNKNOWN (for a query: OUT_UNAVAILABLE), which is
 * always correct.
 *
 * Settling ends when the inner backend has settled and no signal is held.
 *
 * Close: held replies are delivered in the next iteration. The inner backend is closed as soon as
 * no other node holds a job, and it answers the remaining ops. */
#include "wrappers/fault.h"

#include "backend/reply_copy.h"
#include "backend/settle_calls.h"
#include "base/check.h"
#include "base/digest/random.h"
#include "base/mem.h"
#include "wrappers/fault_signals.h"

enum op_fault { FAULT_NONE, FAULT_REPLY_LOST, FAULT_OP_LOST, FAULT_DENIED };
/* How an op of the inner submit relates to the caller's op; the low bits of its tag. */
enum role { ROLE_OWN, ROLE_OTHER, ROLE_HOLDER };
#define ROLE_BITS 2
#define OPS_PER_SLOT 3 /* the largest number of inner ops for one op */

/* An op of the caller. */
struct slot {
    struct fault_batch *batch;
    uint64_t tag;
    enum op_kind kind;
    enum op_fault fault;
    unsigned pending;     /* inner replies that have not arrived */
    unsigned late;        /* iterations to hold the reply; 0 = do not hold it */
    bool loose;           /* later replies may overtake it */
    struct reply *answer; /* own copy; NULL = as `fault` says */
    uint64_t due;         /* iteration from which it may be delivered */
    struct slot *next;    /* in the list of held replies */
    struct op give_back;  /* MEDDLE_HOLD: the release */
};

struct fault_batch {
    struct fault *fault;
    backend_reply_fn fn;
    void *ctx;
    size_t unanswered;
    struct op *ops; /* the ops for the inner backend */
    struct slot slots[];
};

struct fault {
    struct backend base;
    struct backend_ops ops; /* an own copy: the kind names the inner backend */
    char kind[64];
    struct backend *inner; /* NULL once it is closed */
    struct fault_config config;
    unsigned caps;
    struct random random; /* drawn from in submit alone */
    struct fault_signals signals;
    uv_idle_t idle; /* runs while something is held: one call per iteration */
    uint64_t turn;  /* ≥ 1 */
    uint64_t nonce; /* of the last claim by "another node" */
    struct slot *held, **held_end;
    size_t held_strict; /* held replies that keep their order */
    size_t unanswered;  /* ops accepted and not answered */
    struct settle_calls settle_calls;
    size_t holders; /* jobs claimed by "another node" and not yet released */
    bool closing, inner_closing, finished;
    backend_closed_fn closed_fn;
    void *closed_ctx;
};

static int fault_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                        void *ctx);
static void idle_cb(uv_idle_t *idle);
static void close_further(struct fault *f);

static struct fault *fault_of(const struct backend *b)
{
    CHECK(b->ops->submit == fault_submit);
    return (struct fault *)b;
}

static void turns_wanted(void *ctx)
{
    struct fault *f = ctx;
    if (!f->finished)
        uv_idle_start(&f->idle, idle_cb);
}

/* --- replies --- */

/* Calls back; this may free the batch, but not the fault wrapper. */
static void deliver(struct slot *slot, const struct reply *answer)
{
    struct fault_batch *batch = slot->batch;
    struct reply reply = {.kind = slot->kind, .outcome = OUT_UNKNOWN};
    if (answer) {
        reply = *answer;
    } else if (slot->fault == FAULT_DENIED || op_is_query(slot->kind)) {
        reply.outcome = OUT_UNAVAILABLE;
        reply.note = "the fault wrapper did not pass this on";
    }
    reply.tag = slot->tag;
    CHECK(slot->pending == 0 && batch->unanswered > 0);
    batch->fault->unanswered--;
    batch->fn(batch->ctx, &reply);
    mem_free(slot->answer);
    if (--batch->unanswered == 0) {
        mem_free(batch->ops);
        mem_free(batch);
    }
}

static void hold(struct fault *f, struct slot *slot)
{
    slot->due = f->turn + slot->late;
    slot->next = NULL;
    *f->held_end = slot;
    f->held_end = &slot->next;
    f->held_strict += !slot->loose;
    turns_wanted(f);
}

/* Every inner reply has arrived. `inner` is the last one if it is the op's own, otherwise NULL. */
static void answer_ready(struct slot *slot, const struct reply *inner)
{
    struct fault *f = slot->batch->fault;
    if (slot->late > 0 || f->held_strict > 0) {
        if (inner)
            slot->answer = reply_copy(inner);
        hold(f, slot);
        return;
    }
    deliver(slot, inner ? inner : slot->answer);
}

/* Removes the replies that may be delivered now from the held list, in order. */
static struct slot *held_due(struct fault *f)
{
    struct slot *going = NULL, **going_end = &going, **at = &f->held;
    bool blocked = false;
    while (*at) {
        struct slot *s = *at;
        bool due = f->closing || s->due <= f->turn;
        if (!due || (blocked && !s->loose)) {
            blocked = blocked || !s->loose;
            at = &s->next;
            continue;
        }
        *at = s->next;
        f->held_strict -= !s->loose;
        s->next = NULL;
        *going_end = s;
        going_end = &s->next;
    }
    f->held_end = at;
    return going;
}

/* --- replies of the inner backend --- */

static void slot_reply_in(struct slot *slot, const struct reply *own)
{
    CHECK(slot->pending > 0);
    if (--slot->pending == 0)
        answer_ready(slot, own);
    else if (own)
        slot->answer = reply_copy(own);
}

static void given_back_cb(void *ctx, const struct reply *reply)
{
    struct slot *slot = ctx;
    struct fault *f = slot->batch->fault;
    (void)reply;
    f->holders--;
    slot_reply_in(slot, NULL);
    close_further(f);
}

/* The claim of another node has been answered: the node releases its job. True if a release was
 * submitted. */
static bool give_back(struct slot *slot, const struct reply *reply)
{
    struct fault *f = slot->batch->fault;
    if (reply->outcome != OUT_OK || reply->job_count == 0)
        return false;
    slot->give_back = (struct op){
        .kind = OP_RELEASE,
        .lease = {.job = {.seq = reply->jobs[0].job.seq}, .token = reply->jobs[0].token},
    };
    /* Without memory for the release the lease expires, like that of a node that crashed. */
    return backend_submit(f->inner, &slot->give_back, 1, given_back_cb, slot) == 0;
}

static void inner_reply_cb(void *ctx, const struct reply *reply)
{
    struct fault_batch *batch = ctx;
    struct fault *f = batch->fault;
    struct slot *slot = &batch->slots[reply->tag >> ROLE_BITS];
    enum role role = reply->tag & ((1u << ROLE_BITS) - 1);
    if (role == ROLE_HOLDER) {
        if (give_back(slot, reply))
            return;
        f->holders--;
    }
    slot_reply_in(slot, role == ROLE_OWN && slot->fault == FAULT_NONE ? reply : NULL);
    close_further(f);
}

/* --- accepting a batch --- */

static bool claims_queues(const struct op *op)
{
    return op->kind == OP_CLAIM && op->claim.one.seq == 0;
}

static bool by_token(const struct op *op)
{
    return op->kind >= OP_ACK && op->kind <= OP_RELEASE && !op->lease.any_token;
}

static bool may_come_twice(const struct op *op)
{
    return by_token(op) || op->kind == OP_RELEASE_CLAIM ||
           (op->kind == OP_ENQUEUE && op->enqueue.idempotency_key.len > 0);
}

/* The job that an op refers to; NULL if it refers to none. */
static const struct job_ref *job_of(const struct op *op)
{
    if (op->kind >= OP_ACK && op->kind <= OP_RELEASE)
        return &op->lease.job;
    if (op->kind == OP_CANCEL || op->kind == OP_REQUEUE || op->kind == OP_REMOVE)
        return &op->job.job;
    return op->kind == OP_PATCH ? &op->patch.job : NULL;
}

/* The kinds of interference that apply to this op. */
static unsigned meddling_for(const struct op *op)
{
    unsigned fit = 0;
    if (claims_queues(op))
        fit |= MEDDLE_TOUCH | MEDDLE_HOLD;
    if (may_come_twice(op))
        fit |= MEDDLE_TWICE;
    if (job_of(op))
        fit |= MEDDLE_CANCEL;
    return fit;
}

/* One of the kinds that are enabled and apply; 0 = none. */
static unsigned meddling_draw(struct fault *f, const struct op *op)
{
    bool meddle = random_chance(&f->random, f->config.meddle_percent);
    uint64_t pick = random_next(&f->random);
    unsigned left = meddling_for(op) & f->config.meddling;
    if (!meddle || left == 0)
        return 0;
    for (unsigned skip = (unsigned)(pick % (unsigned)__builtin_popcount(left)); skip > 0; skip--)
        left &= left - 1;
    return left & -left;
}

static void pass(struct slot *slot, struct op **to, const struct op *op, enum role role)
{
    size_t index = (size_t)(slot - slot->batch->slots);
    **to = *op;
    (*to)->tag = (uint64_t)index << ROLE_BITS | role;
    (*to)++;
    slot->pending++;
}

static struct op other_claim(struct fault *f, const struct op *op)
{
    struct op claim = {.kind = OP_CLAIM};
    claim.claim.queues = op->claim.queues;
    claim.claim.queue_count = op->claim.queue_count;
    claim.claim.count = 1;
    claim.claim.lease_ms = LIMIT_LEASE_MS;
    claim.claim.nonce = ++f->nonce;
    return claim;
}

/* Adds the ops of another node, which come before the op itself. */
static void meddle(struct fault *f, struct slot *slot, struct op **to, const struct op *op,
                   unsigned kind)
{
    if (kind == MEDDLE_TWICE) {
        pass(slot, to, op, ROLE_OTHER);
    } else if (kind == MEDDLE_CANCEL) {
        struct op cancel = {.kind = OP_CANCEL, .job = {.job = *job_of(op), .force = true}};
        pass(slot, to, &cancel, ROLE_OTHER);
    } else if (kind == MEDDLE_TOUCH) {
        struct op claim = other_claim(f, op);
        struct op back = {.kind = OP_RELEASE_CLAIM, .release_claim = {claim.claim.nonce}};
        pass(slot, to, &claim, ROLE_OTHER);
        pass(slot, to, &back, ROLE_OTHER);
    } else if (kind == MEDDLE_HOLD) {
        struct op claim = other_claim(f, op);
        pass(slot, to, &claim, ROLE_HOLDER);
    }
}

static enum op_fault op_fault_draw(struct fault *f, const struct op *op)
{
    bool denied = random_chance(&f->random, f->config.unavailable_percent);
    bool dropped = random_chance(&f->random, f->config.unknown_undone_percent);
    bool lost = random_chance(&f->random, f->config.unknown_done_percent);
    if (denied)
        return FAULT_DENIED;
    if (op_is_query(op->kind))
        return FAULT_NONE;
    return dropped ? FAULT_OP_LOST : lost ? FAULT_REPLY_LOST : FAULT_NONE;
}

static void slot_draw(struct fault *f, struct slot *slot, const struct op *op)
{
    unsigned turns = f->config.late_turns > 0 ? f->config.late_turns : 1;
    bool late = random_chance(&f->random, f->config.late_percent);
    bool loose = random_chance(&f->random, f->config.reorder_percent);
    unsigned held = 1 + (unsigned)random_below(&f->random, turns);
    slot->tag = op->tag;
    slot->kind = op->kind;
    slot->fault = op_fault_draw(f, op);
    slot->late = late ? held : 0;
    slot->loose = late && loose;
}

static struct fault_batch *batch_new(struct fault *f, size_t count, backend_reply_fn fn, void *ctx)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, sizeof(struct slot), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct fault_batch), &bytes))
        return NULL;
    struct fault_batch *batch = mem_zalloc(bytes);
    struct op *ops = mem_array(count, OPS_PER_SLOT * sizeof(struct op));
    if (!batch || !ops) {
        mem_free(batch);
        mem_free(ops);
        return NULL;
    }
    *batch = (struct fault_batch){f, fn, ctx, count, ops};
    return batch;
}

/* Draws all faults and writes the ops that are passed on to batch->ops; returns their number. */
static size_t batch_fill(struct fault_batch *batch, const struct op *ops, size_t count)
{
    struct fault *f = batch->fault;
    struct op *to = batch->ops;
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = &batch->slots[i];
        slot->batch = batch;
        slot_draw(f, slot, &ops[i]);
        unsigned kind = meddling_draw(f, &ops[i]);
        if (slot->fault == FAULT_DENIED || slot->fault == FAULT_OP_LOST)
            continue;
        meddle(f, slot, &to, &ops[i], kind);
        pass(slot, &to, &ops[i], ROLE_OWN);
    }
    return (size_t)(to - batch->ops);
}

/* The inner backend has accepted the batch: it can no longer be refused. */
static void batch_taken(struct fault_batch *batch, size_t count, size_t passed)
{
    struct fault *f = batch->fault;
    f->unanswered += count;
    for (size_t i = 0; i < passed; i++)
        f->holders += (batch->ops[i].tag & ((1u << ROLE_BITS) - 1)) == ROLE_HOLDER;
    if (random_chance(&f->random, f->config.spurious_percent))
        signals_make_up(&f->signals);
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = &batch->slots[i];
        if (slot->pending > 0)
            continue;
        if (slot->late == 0) /* never call back inside submit */
            slot->late = 1;
        hold(f, slot);
    }
}

static int fault_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                        void *ctx)
{
    struct fault *f = fault_of(b);
    if (f->closing)
        return -ERR_CLOSED;
    struct fault_batch *batch = batch_new(f, count, fn, ctx);
    if (!batch)
        return -ERR_NOMEM;
    size_t passed = batch_fill(batch, ops, count);
    int rc = backend_submit(f->inner, batch->ops, passed, inner_reply_cb, batch);
    if (rc < 0) {
        mem_free(batch->ops);
        mem_free(batch);
        return rc;
    }
    batch_taken(batch, count, passed);
    return 0;
}

/* --- signals and iterations of the loop --- */

static int fault_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                       struct backend_watch **ret)
{
    struct fault *f = fault_of(b);
    if (f->closing)
        return -ERR_CLOSED;
    return signals_watch(&f->signals, f->inner, queue, fn, ctx, ret);
}

static void fault_unwatch(struct backend *b, struct backend_watch *w)
{
    struct fault *f = fault_of(b);
    signals_unwatch(&f->signals, f->inner, w);
}

/* The inner backend sent its signals before this; late ones follow in the next iterations. */
static void inner_settled_cb(void *ctx)
{
    struct settle_call *s = ctx;
    s->worked = true;
    turns_wanted(s->owner);
}

static int fault_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct fault *f = fault_of(b);
    if (f->closing)
        return -ERR_CLOSED;
    struct settle_call *s = settle_calls_add(&f->settle_calls, f, fn, ctx);
    if (!s)
        return -ERR_NOMEM;
    int rc = backend_settle(f->inner, inner_settled_cb, s);
    if (rc < 0)
        settle_calls_drop(&f->settle_calls, s);
    return rc;
}

/* One iteration of the loop: delivers what was held for long enough. */
static void idle_cb(uv_idle_t *idle)
{
    struct fault *f = idle->data;
    f->turn++;
    struct slot *going = held_due(f);
    while (going) {
        struct slot *slot = going;
        going = slot->next;
        deliver(slot, slot->answer);
    }
    bool waits = signals_turn(&f->signals);
    if (!f->held && !waits)
        uv_idle_stop(&f->idle);
    if (!waits || f->closing)
        settle_calls_end(&f->settle_calls, UINT64_MAX);
    close_further(f);
}

/* --- the rest --- */

static bool fault_leads(const struct backend *b)
{
    return backend_leads(fault_of(b)->inner);
}

static unsigned fault_caps(const struct backend *b)
{
    return fault_of(b)->caps;
}

static void fault_figures(const struct backend *b, struct backend_figures *ret)
{
    struct fault *f = fault_of(b);
    if (f->inner)
        backend_figures(f->inner, ret);
}

static void fault_cluster(const struct backend *b, struct backend_cluster *ret)
{
    struct fault *f = fault_of(b);
    if (f->inner)
        backend_cluster(f->inner, ret);
}

static int64_t fault_clock_offset(const struct backend *b)
{
    struct fault *f = fault_of(b);
    return f->inner ? backend_clock_offset(f->inner) : 0;
}

static size_t fault_events(const struct backend *b, uint64_t after, uint64_t kinds,
                           struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    const struct fault *f = fault_of(b);
    *ret_oldest = 0;
    return f->inner ? backend_events(f->inner, after, kinds, out, max, ret_oldest) : 0;
}

static uint64_t fault_events_last(const struct backend *b)
{
    const struct fault *f = fault_of(b);
    return f->inner ? backend_events_last(f->inner) : 0;
}

static void fault_on_news(struct backend *b, backend_news_fn fn, void *ctx)
{
    struct fault *f = fault_of(b);
    if (f->inner)
        backend_on_news(f->inner, fn, ctx);
}

static int fault_backup(struct backend *b, const struct backup_request *request,
                        struct err_note *note)
{
    struct fault *f = fault_of(b);
    return f->closing ? -ERR_CLOSED : backend_backup(f->inner, request, note);
}

static void fault_backup_cancel(struct backend *b)
{
    struct fault *f = fault_of(b);
    if (f->inner)
        backend_backup_cancel(f->inner);
}

static int fault_compact(struct backend *b, const struct compact_request *request,
                         struct err_note *note)
{
    struct fault *f = fault_of(b);
    return f->closing ? -ERR_CLOSED : backend_compact(f->inner, request, note);
}

static void fault_compact_cancel(struct backend *b)
{
    struct fault *f = fault_of(b);
    if (f->inner)
        backend_compact_cancel(f->inner);
}

static void idle_closed_cb(uv_handle_t *handle)
{
    struct fault *f = handle->data;
    backend_closed_fn fn = f->closed_fn;
    void *ctx = f->closed_ctx;
    signals_done(&f->signals);
    mem_free(f);
    fn(ctx);
}

static void inner_closed_cb(void *ctx)
{
    struct fault *f = ctx;
    f->inner = NULL;
    turns_wanted(f); /* delivers held replies; then close_further completes the close */
}

/* The steps of a close: no holders → close the inner backend → all ops answered → closed. */
static void close_further(struct fault *f)
{
    if (!f->closing || f->finished)
        return;
    if (!f->inner_closing && f->holders == 0) {
        f->inner_closing = true;
        backend_close(f->inner, inner_closed_cb, f);
    }
    if (!f->inner && f->unanswered == 0 && !f->settle_calls.first) {
        f->finished = true;
        uv_close((uv_handle_t *)&f->idle, idle_closed_cb);
    }
}

static void fault_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct fault *f = fault_of(b);
    CHECK(!f->closing);
    f->closing = true;
    f->closed_fn = fn;
    f->closed_ctx = ctx;
    turns_wanted(f);
    close_further(f);
}

static void closed_early_cb(void *ctx)
{
    (void)ctx;
}

int backend_open_fault(struct backend *inner, const struct backend_config *config,
                       const struct fault_config *faults, struct backend **ret)
{
    struct fault *f = mem_zalloc(sizeof *f);
    if (!f) {
        backend_close(inner, closed_early_cb, NULL);
        return -ERR_NOMEM;
    }
    snprintf(f->kind, sizeof f->kind, "fault+%s", backend_kind(inner));
    f->ops = (struct backend_ops){.kind = f->kind,
                                  .submit = fault_submit,
                                  .watch = fault_watch,
                                  .unwatch = fault_unwatch,
                                  .caps = fault_caps,
                                  .leads = fault_leads,
                                  .figures = fault_figures,
                                  .cluster = fault_cluster,
                                  .clock_offset = fault_clock_offset,
                                  .events = fault_events,
                                  .events_last = fault_events_last,
                                  .on_news = fault_on_news,
                                  .settle = fault_settle,
                                  .backup = fault_backup,
                                  .backup_cancel = fault_backup_cancel,
                                  .compact = fault_compact,
                                  .compact_cancel = fault_compact_cancel,
                                  .close = fault_close};
    f->base.ops = &f->ops;
    f->inner = inner;
    f->config = *faults;
    if (f->config.meddling == 0)
        f->config.meddling = MEDDLE_HARMLESS;
    random_seed(&f->random, faults->seed);
    signals_init(&f->signals, &f->config, turns_wanted, f);
    f->caps = backend_caps(inner);
    f->turn = 1;
    f->nonce = UINT64_C(0xfa17) << 48;
    f->held_end = &f->held;
    uv_idle_init(config->loop, &f->idle);
    f->idle.data = f;
    *ret = &f->base;
    return 0;
}
