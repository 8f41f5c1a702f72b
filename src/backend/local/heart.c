/* SPDX-License-Identifier: Apache-2.0 */
/* Engine, gate and payload cache.
 *
 * A turn is the output of one engine step: its frame, its replies, what they point to. Turns wait
 * in order; a reply leaves when the position it depends on is durable and its bodies are there; a
 * turn is reused when all its replies have left and its frame is durable.
 *
 *   reply: HELD (until durable) → FETCHING (bodies asked for) → GONE */
#include "backend/local/heart.h"

#include <stdlib.h>
#include <string.h>

#include "backend/local/ahead.h"
#include "backend/local/cache.h"
#include "base/check.h"
#include "base/mem.h"
#include "core/job_texts.h"

enum gate { GATE_HELD, GATE_FETCHING, GATE_GONE };

/* A reply whose bodies are being read. */
struct fetch {
    struct turn *turn;
    size_t reply;
    uint64_t *seqs; /* sorted */
    size_t count;
};

/* A bulk action answers in a later turn than its own. */
struct late {
    const struct op *op;
    backend_reply_fn fn;
    void *fn_ctx;
    struct late *next;
};

struct turn {
    struct engine_out out;
    uint64_t last; /* position of its last record; 0 = no frame */
    size_t open;   /* replies that have not left */
    uint8_t *gates;
    size_t gate_room;
    bool own; /* the heart's own operations: nobody waits for their replies */
    backend_reply_fn fn;
    void *fn_ctx;
    struct turn *next;
};

struct heart {
    struct heart_config config;
    struct engine *engine;
    struct cache *cache; /* NULL = none, nor ahead */
    struct ahead *ahead;
    struct fetch ahead_fetch; /* stands for what is read ahead */
    struct turn *first, *last;
    struct turn *spare;
    size_t spares;
    uint64_t durable, applied;
    size_t fetching;
    struct late *lates;
    unsigned releasing; /* depth: turns must not be reused meanwhile */
    bool abandoned;     /* nothing more becomes durable */
    uint64_t hits, misses, sent;
    struct buf scratch;
};

#define SPARES_MAX 64

int heart_new(const struct heart_config *config, struct heart **ret)
{
    struct heart *h = mem_zalloc(sizeof(*h));
    if (!h)
        return -ERR_NOMEM;
    h->config = *config;
    buf_init(&h->scratch);
    h->config.engine.leases_wait = true;
    int err = engine_new(&h->config.engine, &h->engine);
    if (!err && config->cache_bytes)
        err = cache_new(config->cache_bytes, &h->cache);
    if (!err && config->cache_bytes)
        err = ahead_new(h->engine, h->cache, &h->ahead);
    if (err) {
        heart_free(h);
        return err;
    }
    *ret = h;
    return 0;
}

static void turn_free(struct turn *t)
{
    engine_out_done(&t->out);
    mem_free(t->gates);
    mem_free(t);
}

void heart_free(struct heart *h)
{
    if (!h)
        return;
    struct turn *chains[] = {h->first, h->spare};
    for (size_t i = 0; i < 2; i++)
        for (struct turn *t = chains[i], *next; t; t = next) {
            next = t->next;
            turn_free(t);
        }
    while (h->lates) {
        struct late *l = h->lates;
        h->lates = l->next;
        mem_free(l);
    }
    buf_done(&h->scratch);
    cache_free(h->cache);
    ahead_free(h->ahead);
    engine_free(h->engine);
    mem_free(h);
}

struct engine *heart_engine(struct heart *h)
{
    return h->engine;
}

static struct turn *turn_new(struct heart *h)
{
    struct turn *t = h->spare;
    if (t) {
        h->spare = t->next;
        h->spares--;
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

static void turn_give(struct heart *h, struct turn *t)
{
    if (h->spares >= SPARES_MAX) {
        turn_free(t);
        return;
    }
    t->next = h->spare;
    h->spare = t;
    h->spares++;
}

static int gates_room(struct turn *t, size_t count)
{
    if (t->gate_room >= count)
        return 0;
    uint8_t *grown = mem_regrow(t->gates, count * 2, 1);
    if (!grown)
        return -ERR_NOMEM;
    t->gates = grown;
    t->gate_room = count * 2;
    return 0;
}

static void turn_enter(struct heart *h, struct turn *t)
{
    if (h->last)
        h->last->next = t;
    else
        h->first = t;
    h->last = t;
    t->open = t->out.reply_count;
    memset(t->gates, GATE_HELD, t->out.reply_count);
    if (t->out.count) {
        t->last = t->out.first + t->out.count - 1;
        h->config.calls.frame(h->config.calls.ctx, buf_span(&t->out.frame), t->last);
    }
}

static void body_drop(struct heart *h, uint64_t seq)
{
    cache_drop(h->cache, seq);
    ahead_drop(h->ahead, seq);
}

static void cache_job(struct heart *h, const struct op_enqueue *e, uint64_t seq, uint64_t position)
{
    struct job_extra extra = e->extra;
    extra.options = (struct span){NULL, 0};
    if (e->past || extra.undelivered.len) /* an error and the keys of a job are only in the store */
        return;
    if (e->options && !options_empty(e->options)) {
        buf_clear(&h->scratch);
        if (options_encode(e->options, &h->scratch) != 0)
            return;
        extra.options = buf_span(&h->scratch);
    }
    cache_put(h->cache, seq, position, &extra, e->payload);
}

/* The bodies of new jobs stay at hand for the claims to come. */
static void cache_new_jobs(struct heart *h, const struct turn *t)
{
    for (size_t i = 0; h->cache && i < t->out.reply_count; i++) {
        const struct engine_reply *r = &t->out.replies[i];
        if (r->reply.kind == OP_PATCH && r->reply.outcome == OUT_OK && r->op->patch.has_payload)
            body_drop(h, r->reply.seq);
        if (r->reply.kind == OP_NOTE && r->reply.outcome == OUT_OK)
            body_drop(h, r->reply.seq);
        if (r->reply.kind != OP_ENQUEUE || r->reply.outcome != OUT_OK || !r->reply.created ||
            r->reply.repeat)
            continue;
        cache_job(h, &r->op->enqueue, r->reply.seq, t->last);
    }
}

/* Values of keys stay at hand under the position of their record, which no sequence can be. */
#define KV_BODY (UINT64_C(1) << 63)

static void cache_values(struct heart *h, const struct turn *t)
{
    static const struct job_extra none;
    for (size_t i = 0; h->cache && i < t->out.reply_count; i++) {
        const struct engine_reply *r = &t->out.replies[i];
        if (r->reply.kind != OP_KV_COMMIT || r->reply.outcome != OUT_OK)
            continue;
        const struct op_kv_commit *c = &r->op->kv_commit;
        for (uint32_t k = 0; k < c->set_count; k++)
            cache_put(h->cache, KV_BODY | (r->reply.version + k), t->last, &none, c->sets[k].value);
    }
}

static int step(struct heart *h, const struct op *ops, size_t count, struct now now, bool own,
                backend_reply_fn fn, void *fn_ctx)
{
    struct turn *t = turn_new(h);
    if (!t)
        return -ERR_NOMEM;
    /* Bulk actions may answer beside the ops. */
    int err = gates_room(t, count + engine_bulks_waiting(h->engine) + 1);
    if (!err)
        err = engine_step(h->engine, ops, count, now, &t->out);
    if (err) {
        turn_give(h, t);
        return err;
    }
    CHECK(t->gate_room >= t->out.reply_count);
    t->own = own;
    t->fn = fn;
    t->fn_ctx = fn_ctx;
    turn_enter(h, t);
    cache_new_jobs(h, t);
    cache_values(h, t);
    return 0;
}

static int late_add(struct heart *h, const struct op *op, backend_reply_fn fn, void *fn_ctx)
{
    struct late *l = mem_alloc(sizeof(*l));
    if (!l)
        return -ERR_NOMEM;
    *l = (struct late){.op = op, .fn = fn, .fn_ctx = fn_ctx, .next = h->lates};
    h->lates = l;
    return 0;
}

static bool late_take(struct heart *h, const struct op *op, struct late *ret)
{
    for (struct late **link = &h->lates; *link; link = &(*link)->next)
        if ((*link)->op == op) {
            struct late *l = *link;
            *ret = *l;
            *link = l->next;
            mem_free(l);
            return true;
        }
    return false;
}

int heart_submit(struct heart *h, const struct op *ops, size_t count, struct now now,
                 backend_reply_fn fn, void *fn_ctx)
{
    struct late ignored;
    int err = 0;
    for (size_t i = 0; !err && i < count; i++)
        if (ops[i].kind == OP_BULK)
            err = late_add(h, &ops[i], fn, fn_ctx);
    if (!err)
        err = step(h, ops, count, now, false, fn, fn_ctx);
    for (size_t i = 0; err && i < count; i++)
        late_take(h, &ops[i], &ignored);
    return err;
}

int heart_tick(struct heart *h, struct now now)
{
    static const struct op tick = {.kind = OP_TICK};
    return step(h, &tick, 1, now, true, NULL, NULL);
}

int heart_boot(struct heart *h, struct now now)
{
    struct turn *t = turn_new(h);
    if (!t)
        return -ERR_NOMEM;
    int err = gates_room(t, 1);
    if (!err)
        err = engine_boot(h->engine, now, &t->out);
    if (err) {
        turn_give(h, t);
        return err;
    }
    h->durable = t->out.first - 1;
    t->fn = NULL;
    turn_enter(h, t);
    return 0;
}

/* --- bodies --- */

/* The engine knows the start of an attempt under way, whose record the store may not have yet. */
static void history_into(struct job_view *v, const struct stored_body *b)
{
    if (v->started_at.ms == 0)
        v->started_at = b->started_at;
    if (v->holder.seq == 0)
        v->holder = b->holder;
    v->attempts = b->attempts;
    v->attempt_count = b->attempt_count;
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

/* Copies all texts of a view's body, so that they last as long as the turn. */
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

/* Up to its first delivery a job has neither result nor error, so a cached body is the whole. */
static bool body_cached(struct heart *h, struct job_view *v)
{
    bool fresh = STATE_BIT(v->job.state) & STATES_LIVE && !v->job.failures && !v->job.crashes;
    if (!h->cache || !fresh)
        return false;
    return cache_get(h->cache, v->job.seq, &v->extra, &v->payload) ||
           ahead_get(h->ahead, v->job.seq, &v->extra, &v->payload);
}

/* Values are all taken from memory, or else all from the store: they have to be of one moment. */
static bool values_ready(struct heart *h, struct engine_reply *r)
{
    struct job_extra none;
    bool all = true;
    for (uint32_t i = 0; i < r->reply.kv_count; i++) {
        struct kv_view *v = &r->kv_views[i];
        if (!v->found)
            continue;
        v->has_value =
            v->position && h->cache && cache_get(h->cache, KV_BODY | v->position, &none, &v->value);
        all = all && v->has_value;
        h->hits += v->has_value;
        h->misses += !v->has_value;
    }
    return all;
}

/* False when bodies are missing; they have been asked for then. */
static bool bodies_ready(struct heart *h, struct turn *t, size_t index)
{
    struct engine_reply *r = &t->out.replies[index];
    size_t missing = 0;
    if (r->kv_views && r->want_values)
        return values_ready(h, r);
    if (r->list || r->exceptions || r->kv_list || r->history) {
        t->gates[index] = GATE_FETCHING;
        return false;
    }
    if (r->want_attempts && r->reply.job_count > 0) /* no cache has them */
        return false;
    for (uint32_t i = 0; r->want_body && i < r->reply.job_count; i++) {
        r->views[i].has_body = body_cached(h, &r->views[i]);
        missing += !r->views[i].has_body;
        h->hits += r->views[i].has_body;
        h->misses += !r->views[i].has_body;
    }
    return missing == 0;
}

static int compare_seqs(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void reply_send(struct heart *h, struct turn *t, size_t index, struct now now);
static void reply_spoil(struct heart *h, struct turn *t, size_t index, int error, struct now now);

/* Asks for what a reply lacks. A reply that cannot be completed becomes OUT_UNAVAILABLE. */
static void fetch(struct heart *h, struct turn *t, size_t index, struct now now)
{
    struct engine_reply *r = &t->out.replies[index];
    struct arena *arena = &t->out.arena;
    struct fetch *f = arena_array(arena, 1, sizeof(*f));
    bool jobs = !r->list && !r->exceptions && !r->kv_list && !r->kv_views && !r->history;
    size_t room = jobs ? r->reply.job_count : 1;
    uint64_t *seqs = f ? arena_array(arena, room, sizeof(*seqs)) : NULL;
    t->gates[index] = GATE_FETCHING;
    if (!seqs) {
        reply_spoil(h, t, index, -ERR_NOMEM, now);
        return;
    }
    *f = (struct fetch){.turn = t, .reply = index, .seqs = seqs};
    /* Of several keys one may be missing because of a record that is the newest of all. */
    uint64_t need = jobs ? 0 : r->after;
    for (uint32_t i = 0; jobs && i < r->reply.job_count; i++) {
        /* What the cache has may be gone by the time the rest is here. */
        if (r->views[i].has_body)
            r->views[i].has_body = texts_keep(arena, &r->views[i]) == 0;
        if (r->views[i].has_body)
            continue;
        seqs[f->count++] = r->views[i].job.seq;
        if (r->views[i].position > need)
            need = r->views[i].position;
    }
    qsort(seqs, f->count, sizeof(*seqs), compare_seqs);
    h->fetching++;
    struct store_query query = {.need = need,
                                .seqs = seqs,
                                .count = f->count,
                                .texts_only = r->texts_only,
                                .attempts = r->want_attempts,
                                .list = r->list,
                                .exceptions = r->exceptions,
                                .kv_list = r->kv_list,
                                .kvs = r->kv_views,
                                .kv_count = r->reply.kv_count,
                                .history = r->history};
    h->config.calls.read(h->config.calls.ctx, f, &query);
}

static void start_leases(struct heart *h, const struct engine_reply *r, struct now now)
{
    for (uint32_t i = 0; i < r->reply.job_count; i++)
        engine_lease_started(h->engine, r->views[i].job.seq, r->views[i].token, now);
}

static void bodies_hold(struct heart *h, bool hold)
{
    if (!h->cache)
        return;
    (hold ? cache_hold : cache_release)(h->cache);
    (hold ? ahead_hold : ahead_release)(h->ahead);
}

static void reply_send(struct heart *h, struct turn *t, size_t index, struct now now)
{
    struct engine_reply *r = &t->out.replies[index];
    t->gates[index] = GATE_GONE;
    t->open--;
    if (r->reply.kind == OP_CLAIM)
        start_leases(h, r, now);
    struct late to = {.fn = t->fn, .fn_ctx = t->fn_ctx};
    bool asked = !t->own;
    if (r->reply.kind == OP_BULK)
        asked = late_take(h, r->op, &to);
    /* The callback may submit what drops the very bodies it is looking at. */
    bodies_hold(h, true);
    h->sent += asked;
    if (asked)
        h->config.calls.reply(h->config.calls.ctx, to.fn, to.fn_ctx, &r->reply);
    bodies_hold(h, false);
    /* A body that has been handed out is hardly needed again. */
    for (uint32_t i = 0; r->reply.kind == OP_CLAIM && h->cache && i < r->reply.job_count; i++)
        body_drop(h, r->views[i].job.seq);
}

/* Hands back what a claim took whose bodies cannot be read; nobody has seen its tokens. */
static int unclaim(struct heart *h, struct turn *t, const struct engine_reply *r, struct now now)
{
    uint32_t count = r->reply.job_count;
    if (h->abandoned)
        return 0; /* it would wait for ever to be durable; the next start gives them back */
    struct op *ops = arena_array(&t->out.arena, count ? count : 1, sizeof(*ops));
    if (!ops)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < count; i++) {
        ops[i].kind = OP_RELEASE;
        ops[i].lease.job.seq = r->views[i].job.seq;
        ops[i].lease.token = r->views[i].token;
    }
    return count ? step(h, ops, count, now, true, NULL, NULL) : 0;
}

/* The bodies cannot be had: the reply says so instead. */
static void reply_spoil(struct heart *h, struct turn *t, size_t index, int error, struct now now)
{
    struct engine_reply *r = &t->out.replies[index];
    r->reply.outcome = OUT_UNAVAILABLE;
    if (r->reply.kind == OP_CLAIM) {
        /* The jobs were away for a while, and stay away if this fails too. */
        r->reply.outcome = OUT_UNKNOWN;
        if (unclaim(h, t, r, now) != 0)
            start_leases(h, r, now); /* then at least time gives them back */
    }
    r->reply.note = error == -ERR_TIMEOUT ? "the query took longer than 5 s; narrow the filter"
                    : error == -ERR_NOMEM ? "out of memory"
                                          : "the store could not be read";
    r->reply.jobs = NULL;
    r->reply.job_count = 0;
    r->reply.kvs = NULL;
    r->reply.kv_count = 0;
    reply_send(h, t, index, now);
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
                               : SPAN_LITERAL("the job's keys in the store are damaged")}};
}

static bool any_damaged(const struct engine_reply *r)
{
    for (uint32_t i = 0; r->reply.kind == OP_CLAIM && i < r->reply.job_count; i++)
        if (r->views[i].damage & DAMAGE_FATAL)
            return true;
    return false;
}

/* Ends the damaged ones among those that a claim took; the others move up. */
static int damaged_end(struct heart *h, struct turn *t, struct engine_reply *r, struct now now)
{
    size_t count = 0;
    uint32_t kept = 0;
    struct op *ops = arena_array(&t->out.arena, r->reply.job_count, sizeof(*ops));
    if (!ops || h->abandoned)
        return ops ? -ERR_IO : -ERR_NOMEM;
    for (uint32_t i = 0; i < r->reply.job_count; i++) {
        struct job_view *v = &r->views[i];
        if (!(v->damage & DAMAGE_FATAL)) {
            r->views[kept++] = *v;
            continue;
        }
        ops[count++] = fail_damaged(v);
        if (h->config.calls.damaged)
            h->config.calls.damaged(h->config.calls.ctx, v);
    }
    r->reply.job_count = kept;
    return step(h, ops, count, now, true, NULL, NULL);
}

/* A claim that got nothing but damaged jobs is made again: each time there are fewer of them. One
 * that named its job is told. */
static void claim_goes_on(struct heart *h, struct turn *t, size_t index, struct now now)
{
    struct engine_reply *r = &t->out.replies[index];
    if (r->op->claim.one.seq) {
        r->reply.outcome = OUT_DAMAGED;
        reply_send(h, t, index, now);
    } else if (step(h, r->op, 1, now, t->own, t->fn, t->fn_ctx) != 0) {
        reply_spoil(h, t, index, -ERR_NOMEM, now);
    } else {
        t->gates[index] = GATE_GONE;
        t->open--;
    }
}

static void damaged_aside(struct heart *h, struct turn *t, size_t index, struct now now)
{
    struct engine_reply *r = &t->out.replies[index];
    int error = damaged_end(h, t, r, now);
    if (error)
        reply_spoil(h, t, index, error, now);
    else if (r->reply.job_count > 0)
        reply_send(h, t, index, now);
    else
        claim_goes_on(h, t, index, now);
}

static bool may_leave(const struct heart *h, const struct engine_reply *r)
{
    if (DEFECT(&h->config.engine, DEFECT_REPLY_EARLY) && !r->want_body)
        return true;
    return r->after <= h->durable;
}

/* What the claims to come will ask for. A claim of several queues counts for that of its first job.
 */
static void read_ahead(struct heart *h, const struct engine_reply *r, bool missed)
{
    struct ahead_wish wish;
    if (!h->cache || r->reply.kind != OP_CLAIM || !r->want_body || r->reply.job_count == 0 ||
        !ahead_claimed(h->ahead, r->views[0].job.queue, r->reply.job_count, missed, h->applied,
                       &wish))
        return;
    struct store_query query = {.seqs = wish.seqs, .count = wish.count, .ahead = true};
    h->fetching++;
    h->config.calls.read(h->config.calls.ctx, &h->ahead_fetch, &query);
}

/* Turns that callbacks submit meanwhile wait for the next call: the loop must get its turn, too. */
static void release(struct heart *h, struct now now)
{
    const struct turn *last = h->last;
    h->releasing++;
    for (struct turn *t = h->first; t; t = t == last ? NULL : t->next)
        for (size_t i = 0; t->open && i < t->out.reply_count; i++) {
            if (t->gates[i] != GATE_HELD || !may_leave(h, &t->out.replies[i]))
                continue;
            bool ready = bodies_ready(h, t, i);
            if (ready)
                reply_send(h, t, i, now);
            else
                fetch(h, t, i, now);
            /* Not before: reading may empty the caches that a reply points into. */
            read_ahead(h, &t->out.replies[i], !ready);
        }
    h->releasing--;
}

/* Gives back every turn that has nothing left to wait for; a slow list must not hold up the rest.
 */
static void retire(struct heart *h)
{
    if (h->releasing)
        return;
    struct turn **link = &h->first;
    h->last = NULL;
    while (*link) {
        struct turn *t = *link;
        if (t->open == 0 && (t->last <= h->durable || h->abandoned)) {
            *link = t->next;
            turn_give(h, t);
        } else {
            h->last = t;
            link = &t->next;
        }
    }
}

static void wake(struct heart *h)
{
    for (struct turn *t = h->first; t; t = t->next) {
        for (size_t i = 0; i < t->out.wake_count; i++)
            h->config.calls.wake(h->config.calls.ctx, t->out.wakes[i]);
        t->out.wake_count = 0;
    }
}

void heart_flush(struct heart *h, struct now now)
{
    wake(h);
    release(h, now);
    retire(h);
}

static bool job_wanted(void *engine, uint64_t seq)
{
    if (seq & KV_BODY)
        return false; /* the store has it by now, and most values are not asked for again */
    return engine_job_state(engine, seq) == STATE_READY;
}

void heart_durable(struct heart *h, uint64_t position, struct now now)
{
    if (position > h->durable)
        h->durable = position;
    engine_events_durable(h->engine, h->durable);
    heart_flush(h, now);
}

void heart_applied(struct heart *h, uint64_t position)
{
    if (position > h->applied)
        h->applied = position;
    if (h->cache)
        cache_applied(h->cache, position, job_wanted, h->engine);
}

/* --- the end of a server whose disk is full --- */

static bool is_query(enum op_kind kind)
{
    return kind == OP_GET || kind == OP_PEEK || kind == OP_LIST || kind == OP_QUEUE_GET ||
           kind == OP_QUEUE_LIST || kind == OP_WORKERS || kind == OP_EXCEPTIONS ||
           kind == OP_KV_GET || kind == OP_KV_LIST || kind == OP_ALERT_LIST ||
           kind == OP_NOTICE_LIST || kind == OP_BREAKER_LIST || kind == OP_PAGE ||
           kind == OP_HISTORY || kind == OP_SCHEDULE_GET || kind == OP_SCHEDULE_LIST;
}

static struct reply abandoned_reply(enum op_kind kind, uint64_t tag)
{
    return (struct reply){
        .kind = kind,
        .tag = tag,
        .outcome = is_query(kind) ? OUT_UNAVAILABLE : OUT_UNKNOWN,
        .note = "the server stops while its disk is full; what was asked may or may not have been "
                "done",
    };
}

static size_t abandon_turn(struct heart *h, struct turn *t, struct now now)
{
    size_t n = 0;
    for (size_t i = 0; i < t->out.reply_count; i++) {
        struct engine_reply *r = &t->out.replies[i];
        if (t->gates[i] != GATE_HELD || may_leave(h, r))
            continue;
        r->reply = abandoned_reply(r->reply.kind, r->reply.tag);
        n += !t->own;
        reply_send(h, t, i, now);
    }
    return n;
}

size_t heart_abandon(struct heart *h, struct now now)
{
    size_t n = 0;
    struct late late;
    h->abandoned = true;
    h->releasing++;
    for (struct turn *t = h->first; t; t = t->next)
        n += abandon_turn(h, t, now);
    h->releasing--;
    /* Bulk actions that were not finished. */
    while (h->lates && late_take(h, h->lates->op, &late)) {
        struct reply reply = abandoned_reply(OP_BULK, late.op->tag);
        n++;
        h->config.calls.reply(h->config.calls.ctx, late.fn, late.fn_ctx, &reply);
    }
    heart_flush(h, now);
    return n;
}

/* Bodies are not copied: the reply leaves while they are there. A turn lasts until its last reply
 * has left, so copies would be in memory for all claims of a turn at the same time. */
static void bodies_into(struct engine_reply *r, const struct fetch *f,
                        const struct stored_body *bodies)
{
    for (uint32_t i = 0; i < r->reply.job_count; i++) {
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

/* The store does not know when a lease runs out: the engine does, of those that still run. */
static const struct job_view *leases_into(struct heart *h, struct turn *t,
                                          const struct heart_page *page, struct now now)
{
    if (page->count == 0)
        return page->jobs;
    struct job_view *jobs = arena_copy(&t->out.arena, page->jobs, page->count * sizeof(*jobs));
    for (uint32_t i = 0; jobs && i < page->count; i++)
        if (jobs[i].job.state == STATE_RUNNING)
            jobs[i].lease_left_ms =
                engine_lease_left_ms(h->engine, jobs[i].job.seq, jobs[i].token, now);
    return jobs ? jobs : page->jobs;
}

void heart_bodies(struct heart *h, void *request, const struct stored_body *bodies,
                  const struct heart_page *page, int error, struct now now)
{
    struct fetch *f = request;
    if (f == &h->ahead_fetch) {
        h->fetching--;
        ahead_filled(h->ahead, error ? NULL : bodies);
        return;
    }
    struct turn *t = f->turn;
    struct engine_reply *r = &t->out.replies[f->reply];
    h->fetching--;
    if (!error && page) {
        r->reply.jobs = leases_into(h, t, page, now);
        r->reply.job_count = page->count;
        r->reply.cursor = page->cursor;
        r->reply.as_of = page->as_of;
        r->reply.attempts = page->attempts;
        r->reply.attempt_count = page->attempt_count;
        if (!r->kv_views) { /* else they have been filled in where they are */
            r->reply.kvs = page->kvs;
            r->reply.kv_count = page->kv_count;
            r->reply.kv_cursor = page->kv_cursor;
        }
        r->reply.hours = page->hours;
        r->reply.hour_count = page->hour_count;
    } else if (!error) {
        bodies_into(r, f, bodies);
    }
    if (error)
        reply_spoil(h, t, f->reply, error, now);
    else if (any_damaged(r))
        damaged_aside(h, t, f->reply, now);
    else
        reply_send(h, t, f->reply, now);
    retire(h);
}

bool heart_idle(const struct heart *h)
{
    return h->first == NULL && h->fetching == 0;
}

size_t heart_waiting(const struct heart *h)
{
    size_t n = 0;
    for (const struct turn *t = h->first; t; t = t->next)
        n += t->own ? 0 : t->open;
    return n;
}

uint64_t heart_sent(const struct heart *h)
{
    return h->sent;
}

uint64_t heart_durable_position(const struct heart *h)
{
    return h->durable;
}

void heart_figures(const struct heart *h, struct backend_figures *ret)
{
    struct engine_figures e;
    engine_figures(h->engine, &e);
    ret->position = engine_position(h->engine);
    ret->durable = h->durable;
    ret->jobs = e.jobs;
    ret->bytes = e.bytes;
    ret->keys = e.keys;
    ret->kv_keys = e.kv_keys;
    ret->kv_bytes = e.kv_bytes;
    ret->queues = e.queues;
    ret->live = e.live;
    ret->capacity = h->config.engine.capacity;
    memcpy(ret->by_state, e.by_state, sizeof(ret->by_state));
    ret->clock_suspect = engine_clock_suspect(h->engine);
    ret->epoch = engine_epoch(h->engine);
    ret->stalls_ms = e.stalls_ms;
    ret->notices_pending = e.notices_pending;
    ret->notices_dead = e.notices_dead;
    ret->notices_dropped = e.notices_dropped;
    ret->restored_leases = e.restored_leases;
    ret->forgotten_claims = e.forgotten_claims;
    ret->cache_bytes = h->cache ? cache_bytes(h->cache) : 0;
    ret->cache_hits = h->hits;
    ret->cache_misses = h->misses;
}
