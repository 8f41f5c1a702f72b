/* SPDX-License-Identifier: Apache-2.0 */
/* The commit gate: engine, held replies and payload cache.
 *
 * A gate_step is the output of one step of the engine: its frame, its replies and the memory that
 * they use. Steps are queued in the order in which they were decided.
 *
 * A reply is sent when two conditions hold. First, the record at position `after` is durable. This
 * is the last record on which the reply depends: for an enqueue its own record; for a claim the
 * record that made the job ready, not the claim itself. A claim of a job that is durably ready is
 * therefore sent at once; if its record is lost in a crash, the job is ready again and the token is
 * unknown to the next boot. Second, the bodies that the reply shows are in memory. A missing body
 * is requested from a reader after the first condition holds.
 *
 * Replies of different steps may overtake each other. A step is reused when all its replies have
 * been sent and its frame is durable, because the writer reads the frame from the memory of the
 * step.
 *
 *   reply: HELD (until durable) → FETCHING (bodies requested) → SENT */
#include "backend/local/commit_gate.h"

#include <stdlib.h>
#include <string.h>

#include "backend/local/payloads/cache.h"
#include "backend/local/payloads/prefetch.h"
#include "base/check.h"
#include "base/mem.h"
#include "core/jobs/job_texts.h"
#include "core/jobs/progress.h"

enum reply_state { REPLY_HELD, REPLY_FETCHING, REPLY_SENT };

/* A reply whose bodies are being read. */
struct fetch {
    struct gate_step *step;
    size_t reply;
    uint64_t *seqs; /* sorted */
    size_t count;
};

/* A bulk action replies in a later step than its own. */
struct deferred_reply {
    const struct op *op;
    backend_reply_fn fn;
    void *fn_ctx;
    struct deferred_reply *next;
};

struct gate_step {
    struct engine_out out;
    uint64_t last; /* position of its last record; 0 = no frame */
    size_t open;   /* replies that have not been sent */
    uint8_t *states;
    size_t state_room;
    bool own; /* the gate's own operations, whose replies are discarded */
    backend_reply_fn fn;
    void *fn_ctx;
    struct gate_step *next;
};

struct commit_gate {
    struct gate_config config;
    struct engine *engine;
    struct cache *cache; /* NULL = no cache and no prefetch */
    struct prefetch *prefetch;
    struct fetch prefetch_read; /* stands for the bodies that are prefetched */
    struct gate_step *first, *last;
    struct gate_step *spare;
    size_t spares;
    uint64_t durable, applied;
    size_t fetching;
    struct deferred_reply *deferred;
    unsigned releasing; /* depth of release(): steps must not be reused meanwhile */
    bool abandoned;     /* nothing more becomes durable */
    uint64_t hits, misses, sent;
    struct buf scratch;
};

#define SPARES_MAX 64

int gate_new(const struct gate_config *config, struct commit_gate **ret)
{
    struct commit_gate *g = mem_zalloc(sizeof(*g));
    if (!g)
        return -ERR_NOMEM;
    g->config = *config;
    buf_init(&g->scratch);
    g->config.engine.leases_wait = true;
    int err = engine_new(&g->config.engine, &g->engine);
    if (!err && config->cache_bytes)
        err = cache_new(config->cache_bytes, &g->cache);
    if (!err && config->cache_bytes)
        err = prefetch_new(g->engine, g->cache, &g->prefetch);
    if (err) {
        gate_free(g);
        return err;
    }
    *ret = g;
    return 0;
}

static void step_free(struct gate_step *t)
{
    engine_out_done(&t->out);
    mem_free(t->states);
    mem_free(t);
}

void gate_free(struct commit_gate *g)
{
    if (!g)
        return;
    struct gate_step *chains[] = {g->first, g->spare};
    for (size_t i = 0; i < 2; i++)
        for (struct gate_step *t = chains[i], *next; t; t = next) {
            next = t->next;
            step_free(t);
        }
    while (g->deferred) {
        struct deferred_reply *l = g->deferred;
        g->deferred = l->next;
        mem_free(l);
    }
    buf_done(&g->scratch);
    cache_free(g->cache);
    prefetch_free(g->prefetch);
    engine_free(g->engine);
    mem_free(g);
}

struct engine *gate_engine(struct commit_gate *g)
{
    return g->engine;
}

static struct gate_step *step_new(struct commit_gate *g)
{
    struct gate_step *t = g->spare;
    if (t) {
        g->spare = t->next;
        g->spares--;
    } else {
        t = mem_zalloc(sizeof(*t));
        if (!t)
            return NULL;
        engine_out_init(&t->out);
    }
    t->last = 0;
    t->open = 0;
    t->next = NULL;
    return t;
}

static void step_give(struct commit_gate *g, struct gate_step *t)
{
    if (g->spares >= SPARES_MAX) {
        step_free(t);
        return;
    }
    t->next = g->spare;
    g->spare = t;
    g->spares++;
}

static int states_room(struct gate_step *t, size_t count)
{
    if (t->state_room >= count)
        return 0;
    uint8_t *grown = mem_regrow(t->states, count * 2, 1);
    if (!grown)
        return -ERR_NOMEM;
    t->states = grown;
    t->state_room = count * 2;
    return 0;
}

static void step_enter(struct commit_gate *g, struct gate_step *t)
{
    if (g->last)
        g->last->next = t;
    else
        g->first = t;
    g->last = t;
    t->open = t->out.reply_count;
    memset(t->states, REPLY_HELD, t->out.reply_count);
    if (t->out.count) {
        t->last = t->out.first + t->out.count - 1;
        g->config.calls.frame(g->config.calls.ctx, buf_span(&t->out.frame), t->last);
    }
}

static void body_drop(struct commit_gate *g, uint64_t seq)
{
    cache_drop(g->cache, seq);
    prefetch_drop(g->prefetch, seq);
}

static void cache_job(struct commit_gate *g, const struct op_enqueue *e, uint64_t seq,
                      uint64_t position)
{
    struct job_extra extra = e->extra;
    extra.options = (struct span){NULL, 0};
    /* the error and the keys of a job are only in the store */
    if (e->past || extra.undelivered.len)
        return;
    if (e->options && !options_empty(e->options)) {
        buf_clear(&g->scratch);
        if (options_encode(e->options, &g->scratch) != 0)
            return;
        extra.options = buf_span(&g->scratch);
    }
    cache_put(g->cache, seq, position, &extra, e->payload);
}

/* Puts the bodies of new jobs into the cache, because claims will need them. */
static void cache_new_jobs(struct commit_gate *g, const struct gate_step *t)
{
    for (size_t i = 0; g->cache && i < t->out.reply_count; i++) {
        const struct engine_reply *r = &t->out.replies[i];
        if (r->reply.kind == OP_PATCH && r->reply.outcome == OUT_OK && r->op->patch.has_payload)
            body_drop(g, r->reply.seq);
        if (r->reply.kind == OP_NOTE && r->reply.outcome == OUT_OK)
            body_drop(g, r->reply.seq);
        if (r->reply.kind != OP_ENQUEUE || r->reply.outcome != OUT_OK || !r->reply.created ||
            r->reply.repeat)
            continue;
        cache_job(g, &r->op->enqueue, r->reply.seq, t->last);
    }
}

/* Values of keys are cached under the position of their record, with a bit that no sequence has. */
#define KV_BODY (UINT64_C(1) << 63)

static void cache_values(struct commit_gate *g, const struct gate_step *t)
{
    static const struct job_extra none;
    for (size_t i = 0; g->cache && i < t->out.reply_count; i++) {
        const struct engine_reply *r = &t->out.replies[i];
        const struct op_kv_commit *c = r->reply.outcome == OUT_OK ? op_commit(r->op) : NULL;
        if (!c || c->set_count == 0 || r->reply.repeat)
            continue;
        uint64_t version = r->reply.kind == OP_ACK ? r->reply.handoff->version : r->reply.version;
        for (uint32_t k = 0; k < c->set_count; k++)
            cache_put(g->cache, KV_BODY | (version + k), t->last, &none, c->sets[k].value);
    }
}

static int step_run(struct commit_gate *g, const struct op *ops, size_t count, struct now now,
                    bool own, backend_reply_fn fn, void *fn_ctx)
{
    struct gate_step *t = step_new(g);
    if (!t)
        return -ERR_NOMEM;
    /* Bulk actions may add replies to those of the ops. */
    int err = states_room(t, count + engine_bulks_waiting(g->engine) + 1);
    if (!err)
        err = engine_step(g->engine, ops, count, now, &t->out);
    if (err) {
        step_give(g, t);
        return err;
    }
    CHECK(t->state_room >= t->out.reply_count);
    t->own = own;
    t->fn = fn;
    t->fn_ctx = fn_ctx;
    step_enter(g, t);
    cache_new_jobs(g, t);
    cache_values(g, t);
    return 0;
}

static int deferred_add(struct commit_gate *g, const struct op *op, backend_reply_fn fn,
                        void *fn_ctx)
{
    struct deferred_reply *l = mem_alloc(sizeof(*l));
    if (!l)
        return -ERR_NOMEM;
    *l = (struct deferred_reply){.op = op, .fn = fn, .fn_ctx = fn_ctx, .next = g->deferred};
    g->deferred = l;
    return 0;
}

static bool deferred_take(struct commit_gate *g, const struct op *op, struct deferred_reply *ret)
{
    for (struct deferred_reply **link = &g->deferred; *link; link = &(*link)->next)
        if ((*link)->op == op) {
            struct deferred_reply *l = *link;
            *ret = *l;
            *link = l->next;
            mem_free(l);
            return true;
        }
    return false;
}

int gate_submit(struct commit_gate *g, const struct op *ops, size_t count, struct now now,
                backend_reply_fn fn, void *fn_ctx)
{
    struct deferred_reply ignored;
    int err = 0;
    for (size_t i = 0; !err && i < count; i++)
        if (ops[i].kind == OP_BULK)
            err = deferred_add(g, &ops[i], fn, fn_ctx);
    if (!err)
        err = step_run(g, ops, count, now, false, fn, fn_ctx);
    for (size_t i = 0; err && i < count; i++)
        deferred_take(g, &ops[i], &ignored);
    return err;
}

int gate_tick(struct commit_gate *g, struct now now)
{
    static const struct op tick = {.kind = OP_TICK};
    return step_run(g, &tick, 1, now, true, NULL, NULL);
}

int gate_boot(struct commit_gate *g, struct now now)
{
    struct gate_step *t = step_new(g);
    if (!t)
        return -ERR_NOMEM;
    int err = states_room(t, 1);
    if (!err)
        err = engine_boot(g->engine, now, &t->out);
    if (err) {
        step_give(g, t);
        return err;
    }
    g->durable = t->out.first - 1;
    t->fn = NULL;
    step_enter(g, t);
    return 0;
}

/* --- bodies --- */

/* The engine knows when the running attempt began; its record may not be in the store yet. */
static void history_into(struct job_view *v, const struct stored_body *b)
{
    if (v->started_at.ms == 0)
        v->started_at = b->started_at;
    if (v->holder.seq == 0)
        v->holder = b->holder;
    v->attempts = b->attempts;
    v->attempt_count = b->attempt_count;
    bool running = v->job.state == STATE_RUNNING;
    v->progress = running ? progress_shown(b->progress, v->token) : b->progress;
    v->log = b->log;
    v->steps = b->steps;
    v->damage = b->damage & DAMAGE_STEPS;
}

static void body_into(struct job_view *v, const struct stored_body *b)
{
    v->has_body = b->found;
    v->extra = b->extra;
    v->payload = b->payload;
    v->result_kind = b->result_kind;
    v->result = b->result;
    v->error_kind = b->error_kind;
    v->error = b->error;
    v->damage = b->damage;
}

/* Copies all texts of a view's body, so that they last as long as the step. */
static int texts_keep(struct arena *arena, struct job_view *v)
{
    struct span *others[] = {&v->extra.options, &v->payload, &v->result, &v->error,
                             &v->extra.undelivered};
    for (size_t i = 0; i < JOB_TEXTS + sizeof(others) / sizeof(others[0]); i++) {
        struct span *text = i < JOB_TEXTS ? job_text_at(&v->extra, i) : others[i - JOB_TEXTS];
        const char *copy = arena_copy(arena, text->at, text->len);
        if (!copy)
            return -ERR_NOMEM;
        text->at = copy;
    }
    return 0;
}

/* Before its first delivery a job has neither result nor error, so a cached body is complete. */
static bool body_cached(struct commit_gate *g, struct job_view *v)
{
    bool fresh = STATE_BIT(v->job.state) & STATES_LIVE && !v->job.failures && !v->job.crashes;
    if (!g->cache || !fresh)
        return false;
    return cache_get(g->cache, v->job.seq, &v->extra, &v->payload) ||
           prefetch_get(g->prefetch, v->job.seq, &v->extra, &v->payload);
}

/* Number of jobs whose bodies the reply shows. */
static uint32_t view_count(const struct engine_reply *r)
{
    return r->views ? r->reply.job_count : 0;
}

/* Values are all taken from the cache or all from the store, because they must be of one moment. */
static bool values_ready(struct commit_gate *g, struct engine_reply *r)
{
    struct job_extra none;
    bool all = true;
    for (uint32_t i = 0; i < r->reply.kv_count; i++) {
        struct kv_view *v = &r->kv_views[i];
        if (!v->found)
            continue;
        v->has_value =
            v->position && g->cache && cache_get(g->cache, KV_BODY | v->position, &none, &v->value);
        all = all && v->has_value;
        g->hits += v->has_value;
        g->misses += !v->has_value;
    }
    return all;
}

/* Returns false if bodies are missing. */
static bool bodies_ready(struct commit_gate *g, struct gate_step *t, size_t index)
{
    struct engine_reply *r = &t->out.replies[index];
    size_t missing = 0;
    if (r->kv_views && r->want_values)
        return values_ready(g, r);
    if (r->list || r->exceptions || r->kv_list || r->history) {
        t->states[index] = REPLY_FETCHING;
        return false;
    }
    if (r->want_attempts && view_count(r) > 0) /* the cache does not contain attempts */
        return false;
    for (uint32_t i = 0; i < view_count(r); i++) {
        bool steps = r->views[i].step_bytes > 0; /* the cache does not contain steps either */
        if (!r->want_body) {
            missing += steps;
            continue;
        }
        r->views[i].has_body = !steps && body_cached(g, &r->views[i]);
        missing += !r->views[i].has_body;
        g->hits += r->views[i].has_body;
        g->misses += !r->views[i].has_body;
    }
    return missing == 0;
}

static int compare_seqs(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void reply_send(struct commit_gate *g, struct gate_step *t, size_t index, struct now now);
static void reply_replace(struct commit_gate *g, struct gate_step *t, size_t index, int error,
                          struct now now);

/* Requests what a reply lacks. A reply that cannot be completed becomes OUT_UNAVAILABLE. */
static void fetch(struct commit_gate *g, struct gate_step *t, size_t index, struct now now)
{
    struct engine_reply *r = &t->out.replies[index];
    struct arena *arena = &t->out.arena;
    struct fetch *f = arena_array(arena, 1, sizeof(*f));
    bool jobs = !r->list && !r->exceptions && !r->kv_list && !r->kv_views && !r->history;
    size_t room = jobs ? view_count(r) : 1;
    uint64_t *seqs = f ? arena_array(arena, room, sizeof(*seqs)) : NULL;
    t->states[index] = REPLY_FETCHING;
    if (!seqs) {
        reply_replace(g, t, index, -ERR_NOMEM, now);
        return;
    }
    *f = (struct fetch){.step = t, .reply = index, .seqs = seqs};
    /* One of several keys may be missing because of a record that is the newest of all. */
    uint64_t need = jobs ? 0 : r->after;
    bool steps = false;
    for (uint32_t i = 0; jobs && i < view_count(r); i++) {
        /* What the cache has may be dropped before the rest is read. */
        if (r->views[i].has_body)
            r->views[i].has_body = texts_keep(arena, &r->views[i]) == 0;
        if (r->views[i].has_body)
            continue;
        seqs[f->count++] = r->views[i].job.seq;
        steps = steps || r->views[i].step_bytes > 0;
        if (r->views[i].position > need)
            need = r->views[i].position;
    }
    qsort(seqs, f->count, sizeof(*seqs), compare_seqs);
    g->fetching++;
    struct store_query query = {.need = need,
                                .seqs = seqs,
                                .count = f->count,
                                .texts_only = r->texts_only,
                                .attempts = r->want_attempts,
                                .log = r->want_log,
                                .steps = steps,
                                .list = r->list,
                                .exceptions = r->exceptions,
                                .kv_list = r->kv_list,
                                .kvs = r->kv_views,
                                .kv_count = r->kv_views ? r->reply.kv_count : 0,
                                .history = r->history};
    g->config.calls.read(g->config.calls.ctx, f, &query);
}

static void start_leases(struct commit_gate *g, const struct engine_reply *r, struct now now)
{
    for (uint32_t i = 0; i < view_count(r); i++)
        engine_lease_started(g->engine, r->views[i].job.seq, r->views[i].token, now);
}

static void bodies_hold(struct commit_gate *g, bool hold)
{
    if (!g->cache)
        return;
    (hold ? cache_hold : cache_release)(g->cache);
    (hold ? prefetch_hold : prefetch_release)(g->prefetch);
}

static void reply_send(struct commit_gate *g, struct gate_step *t, size_t index, struct now now)
{
    struct engine_reply *r = &t->out.replies[index];
    t->states[index] = REPLY_SENT;
    t->open--;
    bool claimed = r->reply.kind == OP_CLAIM && r->views;
    if (claimed)
        start_leases(g, r, now);
    struct deferred_reply to = {.fn = t->fn, .fn_ctx = t->fn_ctx};
    bool asked = !t->own;
    if (r->reply.kind == OP_BULK)
        asked = deferred_take(g, r->op, &to);
    /* The callback may submit operations that drop the bodies which it is reading. */
    bodies_hold(g, true);
    g->sent += asked;
    if (asked)
        g->config.calls.reply(g->config.calls.ctx, to.fn, to.fn_ctx, &r->reply);
    bodies_hold(g, false);
    /* A body that was delivered is rarely needed again. */
    for (uint32_t i = 0; claimed && g->cache && i < view_count(r); i++)
        body_drop(g, r->views[i].job.seq);
}

/* Releases the jobs of a claim whose bodies cannot be read; its tokens were never sent. */
static int release_claimed(struct commit_gate *g, struct gate_step *t, const struct engine_reply *r,
                           struct now now)
{
    uint32_t count = view_count(r);
    if (g->abandoned)
        return 0; /* it would never become durable; the next start releases the jobs */
    struct op *ops = arena_array(&t->out.arena, count ? count : 1, sizeof(*ops));
    if (!ops)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < count; i++) {
        ops[i].kind = OP_RELEASE;
        ops[i].lease.job.seq = r->views[i].job.seq;
        ops[i].lease.token = r->views[i].token;
    }
    return count ? step_run(g, ops, count, now, true, NULL, NULL) : 0;
}

/* Replaces a reply whose bodies cannot be read by one that says so. */
static void reply_replace(struct commit_gate *g, struct gate_step *t, size_t index, int error,
                          struct now now)
{
    struct engine_reply *r = &t->out.replies[index];
    struct reply spoiled = {.kind = r->reply.kind, .tag = r->reply.tag, .outcome = OUT_UNAVAILABLE};
    if (r->reply.kind == OP_CLAIM) {
        /* The jobs were claimed for a while, and stay claimed if this fails too. */
        spoiled.outcome = OUT_UNKNOWN;
        if (release_claimed(g, t, r, now) != 0)
            start_leases(g, r, now); /* then at least their leases expire */
    }
    spoiled.note = error == -ERR_TIMEOUT ? "the query took longer than 5 s; narrow the filter"
                   : error == -ERR_NOMEM ? "out of memory"
                                         : "the store could not be read";
    r->views = NULL;
    r->reply = spoiled;
    reply_send(g, t, index, now);
}

/* --- jobs whose bodies are damaged --- */

static struct op fail_damaged(const struct job_view *v)
{
    return (struct op){
        .kind = OP_FAIL,
        .lease = {.job = {.seq = v->job.seq},
                  .token = v->token,
                  .damaged = true,
                  .error = v->damage & DAMAGE_PAYLOAD
                               ? SPAN_LITERAL("the payload in the store is damaged")
                           : v->damage & DAMAGE_TEXTS
                               ? SPAN_LITERAL("the job's keys in the store are damaged")
                               : SPAN_LITERAL("the job's steps in the store are damaged")}};
}

static bool any_damaged(const struct engine_reply *r)
{
    for (uint32_t i = 0; r->reply.kind == OP_CLAIM && i < view_count(r); i++)
        if (r->views[i].damage & DAMAGE_FATAL)
            return true;
    return false;
}

/* Ends the damaged jobs of a claim; the others move up in the reply. */
static int damaged_end(struct commit_gate *g, struct gate_step *t, struct engine_reply *r,
                       struct now now)
{
    size_t count = 0;
    uint32_t kept = 0;
    struct op *ops = arena_array(&t->out.arena, r->reply.job_count, sizeof(*ops));
    if (!ops || g->abandoned)
        return ops ? -ERR_IO : -ERR_NOMEM;
    for (uint32_t i = 0; i < r->reply.job_count; i++) {
        struct job_view *v = &r->views[i];
        if (!(v->damage & DAMAGE_FATAL)) {
            r->views[kept++] = *v;
            continue;
        }
        ops[count++] = fail_damaged(v);
        if (g->config.calls.damaged)
            g->config.calls.damaged(g->config.calls.ctx, v);
    }
    r->reply.job_count = kept;
    return step_run(g, ops, count, now, true, NULL, NULL);
}

/* Repeats a claim that got only damaged jobs: each time there are fewer of them. A claim that named
 * its job gets an error instead. */
static void claim_repeat(struct commit_gate *g, struct gate_step *t, size_t index, struct now now)
{
    struct engine_reply *r = &t->out.replies[index];
    if (r->op->claim.one.seq) {
        r->reply.outcome = OUT_DAMAGED;
        reply_send(g, t, index, now);
    } else if (step_run(g, r->op, 1, now, t->own, t->fn, t->fn_ctx) != 0) {
        reply_replace(g, t, index, -ERR_NOMEM, now);
    } else {
        t->states[index] = REPLY_SENT;
        t->open--;
    }
}

static void damaged_aside(struct commit_gate *g, struct gate_step *t, size_t index, struct now now)
{
    struct engine_reply *r = &t->out.replies[index];
    int error = damaged_end(g, t, r, now);
    if (error)
        reply_replace(g, t, index, error, now);
    else if (r->reply.job_count > 0)
        reply_send(g, t, index, now);
    else
        claim_repeat(g, t, index, now);
}

static bool may_leave(const struct commit_gate *g, const struct engine_reply *r)
{
    if (DEFECT(&g->config.engine, DEFECT_REPLY_EARLY) && !r->want_body)
        return true;
    return r->after <= g->durable;
}

/* Prefetches what the next claims will need. A claim of several queues counts for the queue of its
 * first job. */
static void prefetch_next(struct commit_gate *g, const struct engine_reply *r, bool missed)
{
    struct prefetch_plan plan;
    if (!g->cache || r->reply.kind != OP_CLAIM || !r->want_body || r->reply.job_count == 0 ||
        !prefetch_claimed(g->prefetch, r->views[0].job.queue, r->reply.job_count, missed,
                          g->applied, &plan))
        return;
    struct store_query query = {.seqs = plan.seqs, .count = plan.count, .ahead = true};
    g->fetching++;
    g->config.calls.read(g->config.calls.ctx, &g->prefetch_read, &query);
}

/* Steps that callbacks add meanwhile wait for the next call, so that the loop can continue. */
static void release(struct commit_gate *g, struct now now)
{
    const struct gate_step *last = g->last;
    g->releasing++;
    for (struct gate_step *t = g->first; t; t = t == last ? NULL : t->next)
        for (size_t i = 0; t->open && i < t->out.reply_count; i++) {
            if (t->states[i] != REPLY_HELD || !may_leave(g, &t->out.replies[i]))
                continue;
            bool ready = bodies_ready(g, t, i);
            if (ready)
                reply_send(g, t, i, now);
            else
                fetch(g, t, i, now);
            /* Not earlier: reading may empty the caches that a reply points into. */
            prefetch_next(g, &t->out.replies[i], !ready);
        }
    g->releasing--;
}

/* Reuses every step that has nothing left to wait for, in any order, so that a slow list does not
 * hold up the others. */
static void retire(struct commit_gate *g)
{
    if (g->releasing)
        return;
    struct gate_step **link = &g->first;
    g->last = NULL;
    while (*link) {
        struct gate_step *t = *link;
        if (t->open == 0 && (t->last <= g->durable || g->abandoned)) {
            *link = t->next;
            step_give(g, t);
        } else {
            g->last = t;
            link = &t->next;
        }
    }
}

static void wake(struct commit_gate *g)
{
    for (struct gate_step *t = g->first; t; t = t->next) {
        for (size_t i = 0; i < t->out.wake_count; i++)
            g->config.calls.wake(g->config.calls.ctx, t->out.wakes[i]);
        t->out.wake_count = 0;
    }
}

void gate_flush(struct commit_gate *g, struct now now)
{
    wake(g);
    release(g, now);
    retire(g);
}

static bool job_wanted(void *engine, uint64_t seq)
{
    if (seq & KV_BODY)
        return false; /* the store has it by now, and most values are not read again */
    return engine_job_state(engine, seq) == STATE_READY;
}

void gate_durable(struct commit_gate *g, uint64_t position, struct now now)
{
    if (position > g->durable)
        g->durable = position;
    engine_events_durable(g->engine, g->durable);
    gate_flush(g, now);
}

void gate_applied(struct commit_gate *g, uint64_t position)
{
    if (position > g->applied)
        g->applied = position;
    if (g->cache)
        cache_applied(g->cache, position, job_wanted, g->engine);
}

/* --- shutdown while the disk is full --- */

static struct reply abandoned_reply(enum op_kind kind, uint64_t tag)
{
    return (struct reply){
        .kind = kind,
        .tag = tag,
        .outcome = op_is_query(kind) ? OUT_UNAVAILABLE : OUT_UNKNOWN,
        .note = "the server stops while its disk is full; the operation may or may not have been "
                "done",
    };
}

static size_t abandon_step(struct commit_gate *g, struct gate_step *t, struct now now)
{
    size_t n = 0;
    for (size_t i = 0; i < t->out.reply_count; i++) {
        struct engine_reply *r = &t->out.replies[i];
        if (t->states[i] != REPLY_HELD || may_leave(g, r))
            continue;
        r->reply = abandoned_reply(r->reply.kind, r->reply.tag);
        n += !t->own;
        reply_send(g, t, i, now);
    }
    return n;
}

size_t gate_abandon(struct commit_gate *g, struct now now)
{
    size_t n = 0;
    struct deferred_reply deferred;
    g->abandoned = true;
    g->releasing++;
    for (struct gate_step *t = g->first; t; t = t->next)
        n += abandon_step(g, t, now);
    g->releasing--;
    /* Bulk actions that were not finished. */
    while (g->deferred && deferred_take(g, g->deferred->op, &deferred)) {
        struct reply reply = abandoned_reply(OP_BULK, deferred.op->tag);
        n++;
        g->config.calls.reply(g->config.calls.ctx, deferred.fn, deferred.fn_ctx, &reply);
    }
    gate_flush(g, now);
    return n;
}

/* Bodies are not copied: the reply is sent while they are valid. A step lasts until its last reply
 * was sent, so copies would be in memory for all claims of a step at the same time. */
static void bodies_into(struct engine_reply *r, const struct fetch *f,
                        const struct stored_body *bodies)
{
    for (uint32_t i = 0; i < view_count(r); i++) {
        struct job_view *v = &r->views[i];
        const uint64_t *at =
            v->has_body ? NULL
                        : bsearch(&v->job.seq, f->seqs, f->count, sizeof(*f->seqs), compare_seqs);
        if (!at)
            continue;
        history_into(v, &bodies[at - f->seqs]);
        if (r->want_body)
            body_into(v, &bodies[at - f->seqs]);
    }
}

/* What the store does not know and the engine does: when a lease expires, if it still exists, and
 * whether the priority of a job is an order. */
static const struct job_view *engine_into(struct commit_gate *g, struct gate_step *t,
                                          const struct gate_page *page, struct now now)
{
    if (page->count == 0)
        return page->jobs;
    struct job_view *jobs = arena_copy(&t->out.arena, page->jobs, page->count * sizeof(*jobs));
    for (uint32_t i = 0; jobs && i < page->count; i++) {
        const struct job *j = &jobs[i].job;
        jobs[i].by_due = engine_queue_by_due(g->engine, j->queue);
        if (j->state == STATE_RUNNING)
            jobs[i].lease_left_ms = engine_lease_left_ms(g->engine, j->seq, jobs[i].token, now);
    }
    return jobs ? jobs : page->jobs;
}

static void page_into(struct commit_gate *g, struct gate_step *t, struct engine_reply *r,
                      const struct gate_page *page, struct now now)
{
    struct reply *to = &r->reply;
    if (r->list) {
        to->jobs = engine_into(g, t, page, now);
        to->job_count = page->count;
        to->cursor = page->cursor;
        to->as_of = page->as_of;
    } else if (r->exceptions) {
        to->attempts = page->attempts;
        to->attempt_count = page->attempt_count;
    } else if (r->kv_list) {
        to->kvs = page->kvs;
        to->kv_count = page->kv_count;
        to->kv_cursor = page->kv_cursor;
        to->kv_as_of = page->as_of;
    } else if (r->history) {
        to->hours = page->hours;
        to->hour_count = page->hour_count;
    } /* else keys, which have been filled in where they are */
}

void gate_bodies(struct commit_gate *g, void *request, const struct stored_body *bodies,
                 const struct gate_page *page, int error, struct now now)
{
    struct fetch *f = request;
    if (f == &g->prefetch_read) {
        g->fetching--;
        prefetch_filled(g->prefetch, error ? NULL : bodies);
        return;
    }
    struct gate_step *t = f->step;
    struct engine_reply *r = &t->out.replies[f->reply];
    g->fetching--;
    if (!error && page) {
        page_into(g, t, r, page, now);
    } else if (!error) {
        bodies_into(r, f, bodies);
    }
    if (error)
        reply_replace(g, t, f->reply, error, now);
    else if (any_damaged(r))
        damaged_aside(g, t, f->reply, now);
    else
        reply_send(g, t, f->reply, now);
    retire(g);
}

bool gate_idle(const struct commit_gate *g)
{
    return g->first == NULL && g->fetching == 0;
}

size_t gate_waiting(const struct commit_gate *g)
{
    size_t n = 0;
    for (const struct gate_step *t = g->first; t; t = t->next)
        n += t->own ? 0 : t->open;
    return n;
}

uint64_t gate_sent(const struct commit_gate *g)
{
    return g->sent;
}

uint64_t gate_durable_position(const struct commit_gate *g)
{
    return g->durable;
}

void gate_figures(const struct commit_gate *g, struct backend_figures *ret)
{
    struct engine_figures e;
    engine_figures(g->engine, &e);
    ret->position = engine_position(g->engine);
    ret->durable = g->durable;
    ret->jobs = e.jobs;
    ret->bytes = e.bytes;
    ret->keys = e.keys;
    ret->kv_keys = e.kv_keys;
    ret->kv_bytes = e.kv_bytes;
    ret->queues = e.queues;
    ret->live = e.live;
    ret->capacity = g->config.engine.capacity;
    memcpy(ret->by_state, e.by_state, sizeof(ret->by_state));
    ret->clock_suspect = engine_clock_suspect(g->engine);
    ret->epoch = engine_epoch(g->engine);
    ret->stalls_ms = e.stalls_ms;
    ret->notices_pending = e.notices_pending;
    ret->notices_dead = e.notices_dead;
    ret->notices_dropped = e.notices_dropped;
    ret->restored_leases = e.restored_leases;
    ret->forgotten_claims = e.forgotten_claims;
    ret->cache_bytes = g->cache ? cache_bytes(g->cache) : 0;
    ret->cache_hits = g->hits;
    ret->cache_misses = g->misses;
}
