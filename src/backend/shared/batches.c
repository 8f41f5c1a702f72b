/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in the order they came, and which of them make a unit together. */
#include "backend/shared/shared.h"
#include "base/check.h"
#include "core/jobs/job_texts.h"
#include "ops/kv/kv_check.h"

/* Operations that are not decided in src/ops. */
static const work_fn works[OP_KIND_COUNT] = {
    [OP_ACCEPT_CLOCK] = work_accept_clock,
    [OP_DISPATCHED] = work_dispatched,
};

#define WIDE_MAX 12 /* operations of one unit that are a question of their own */

enum op_class shared_class(const struct op *op)
{
    return (enum op_class)op_info(op->kind)->class;
}

/* --- what waits --- */

int shared_batch_add(struct shared *s, const struct op *list, size_t count, backend_reply_fn fn,
                     void *ctx)
{
    struct batch *batch = mem_zalloc(sizeof *batch);
    if (!batch)
        return -ERR_NOMEM;
    *batch = (struct batch){.ops = list, .count = count, .left = count, .fn = fn, .ctx = ctx};
    if (s->last)
        s->last->after = batch;
    else
        s->first = batch;
    s->last = batch;
    return 0;
}

const struct op *shared_front(const struct shared *s)
{
    return s->first ? &s->first->ops[s->first->next] : NULL;
}

struct batch *shared_take_front(struct shared *s)
{
    struct batch *b = s->first;
    b->next++;
    if (b->next == b->count) {
        s->first = b->after;
        if (!s->first)
            s->last = NULL;
    }
    return b;
}

void shared_turn_add(struct unit *u)
{
    const struct op *op = shared_front(u->s);
    u->turns[u->count++] = (struct turn){.op = op, .batch = shared_take_front(u->s)};
}

size_t op_enqueues(const struct op *op, const struct op_enqueue **ret)
{
    const struct op_kv_commit *commit = op_commit(op);
    *ret = commit ? commit->enqueues : &op->enqueue;
    if (commit)
        return commit->enqueue_count <= kv_enqueues_max(commit) ? commit->enqueue_count : 0;
    return op->kind == OP_ENQUEUE;
}

bool unit_about_schedules(const struct unit *u)
{
    int kind = u->count ? (int)u->turns[0].op->kind : -1;
    return kind >= OP_SCHEDULE_PUT && kind <= OP_TRIGGER;
}

struct load {
    size_t wide, claims, bytes, keys, parents;
};

static void weigh_commit(const struct op_kv_commit *c, struct load *load)
{
    load->keys += (size_t)c->check_count + c->set_count + c->delete_count;
    for (uint32_t i = 0; i < c->set_count; i++)
        load->bytes += c->sets[i].value.len;
}

/* What a unit can take no number of: questions, jobs and keys looked at, bytes. */
static bool fits(const struct unit *u, const struct op *op, struct load *load)
{
    const struct op_enqueue *list;
    size_t count = op_enqueues(op, &list);
    for (size_t i = 0; i < count; i++) {
        load->bytes += list[i].payload.len;
        load->wide += !queue_cache_find(u->s, list[i].queue);
        load->parents += list[i].depends ? list[i].depends->count : 0;
    }
    if (op->kind == OP_DEPENDENCIES)
        load->parents += op->dependencies.count;
    load->wide += op->kind == OP_TRIGGER; /* it may take a thousand items */
    if (op->kind == OP_CLAIM) /* any of its queues may be the one that has all of them */
        load->claims +=
            (size_t)op->claim.count * (op->claim.queue_count ? op->claim.queue_count : 1);
    if (op_commit(op))
        weigh_commit(op_commit(op), load);
    if (op->kind == OP_PATCH && op->patch.has_payload) {
        load->bytes += op->patch.payload.len;
        load->wide++;
    }
    return u->count == 0 || (load->wide <= WIDE_MAX && load->claims <= UNIT_CLAIMS_MAX &&
                             load->bytes <= LIMIT_ANSWER_BYTES && load->keys <= UNIT_KEYS_MAX &&
                             load->parents <= LIMIT_DEPENDENCIES);
}

void shared_gather(struct unit *u, enum op_class class, size_t most)
{
    struct load load = {0};
    const struct op *op;
    u->count = 0;
    u->limits_wanted = false;
    if (class == CLASS_ALONE)
        most = 1;
    while (u->count < most && (op = shared_front(u->s)) != NULL && shared_class(op) == class &&
           fits(u, op, &load))
        shared_turn_add(u);
}

/* --- answers --- */

void shared_batch_answer(struct batch *b, const struct reply *reply)
{
    CHECK(b->left > 0);
    b->left--;
    b->fn(b->ctx, reply);
    if (b->left == 0 && b->next == b->count)
        mem_free(b);
}

void unit_turn_answer(struct turn *t)
{
    t->reply.kind = t->op->kind;
    t->reply.tag = t->op->tag;
    shared_batch_answer(t->batch, &t->reply);
}

void unit_turns_refuse(struct unit *u, enum outcome out, const char *note)
{
    size_t count = u->count;
    u->count = 0;
    for (size_t i = 0; i < count; i++) {
        u->turns[i].reply = (struct reply){.outcome = out, .note = note};
        unit_turn_answer(&u->turns[i]);
    }
}

void unit_work(struct unit *u)
{
    u->hash_key = u->s->facts.hash_key;
    u->rate_now_us = u->now.ms * 1000;
    for (size_t i = 0; i < u->count && !u->nomem; i++) {
        struct turn *t = &u->turns[i];
        ops_fn fn = ops_function(t->op->kind);
        t->reply.kind = t->op->kind;
        u->turn = t;
        if (fn)
            fn(unit_ops(u), t->op, &t->reply);
        else
            works[t->op->kind](u, t);
        t->later = t->op->kind == OP_BULK && t->reply.outcome == OUT_OK;
    }
}

static bool keep(struct unit *u, struct span *s)
{
    const char *copy = s->len ? arena_copy(&u->arena, s->at, s->len) : s->at;
    s->at = copy;
    return s->len == 0 || copy;
}

/* Texts that another operation of the unit brought belong to its caller, which frees them after
 * the reply to that operation. This can be before the reply to this one, so they are copied. */
static bool keep_texts(struct unit *u, struct row *r)
{
    struct span *texts[] = {&r->payload, &r->result, &r->error, &r->extra.options,
                            &r->extra.undelivered};
    if (!r->fresh && !r->set_payload && !r->set_result && !r->set_error && !r->set_note)
        return true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!keep(u, texts[i]))
            return false;
    return job_texts_keep(&u->arena, &r->extra) == 0;
}

void unit_fill_bodies(struct unit *u)
{
    for (size_t i = 0; i < u->count; i++) {
        struct turn *t = &u->turns[i];
        for (uint32_t k = 0; t->bodies && k < t->reply.job_count; k++) {
            struct job_view *v = (struct job_view *)(uintptr_t)&t->reply.jobs[k];
            struct row *row = t->bodies[k];
            if (!keep_texts(u, row)) {
                t->reply = (struct reply){.outcome = OUT_UNKNOWN, .note = "out of memory"};
                break;
            }
            row_view_body(row, v);
        }
    }
}

/* What the unit leaves to time may come before what the last tick found. */
static void hear_of_due(struct unit *u)
{
    for (size_t i = 0; i < u->row_count; i++) {
        const struct row *r = u->rows[i];
        if (!r->changed || !unit_row_there(r))
            continue;
        if (r->job.state == STATE_SCHEDULED)
            shared_due_heard(u->s, r->job.run_at.ms);
        else if (r->job.state == STATE_RUNNING)
            shared_due_heard(u->s, r->until_ms);
    }
}

void unit_count_commit(struct unit *u, uint64_t began_ns)
{
    struct backend_figures *f = &u->s->figures;
    uint64_t ns = clock_ns() - began_ns;
    if (u->records == 0)
        return;
    hear_of_due(u);
    f->position += u->records;
    u->position = f->position;
    f->commits++;
    f->commit_ns_total += ns;
    f->commit_ns_last = ns;
    histogram_add(&f->commit_us, ns / 1000);
    histogram_add(&f->commit_records, u->records);
    for (size_t i = 0; i < u->queue_count; i++)
        for (int state = STATE_SCHEDULED; state < STATE_COUNT; state++) {
            int64_t add = u->queues[i]->adds[state - 1];
            f->by_state[state] = (uint64_t)((int64_t)f->by_state[state] + add);
            f->jobs = (uint64_t)((int64_t)f->jobs + add);
        }
}

/* --- the node --- */

int shared_init(struct shared *s, const struct backend_ops *table,
                const struct backend_config *config)
{
    s->base.ops = table;
    s->config = *config;
    s->limits = (struct ops_limits){
        .no_auto_create = config->no_auto_create,
        .node = config->node,
        .capacity = config->capacity,
        .kv = {.keys = config->kv_keys_max ? config->kv_keys_max : DEFAULT_KV_KEYS_MAX,
               .bytes = config->kv_bytes_max ? config->kv_bytes_max : DEFAULT_KV_BYTES_MAX},
    };
    if (config->policy)
        s->limits.policy = *config->policy;
    else
        policy_default(&s->limits.policy);
    s->tick_wanted = true;
    map128_init(&s->queue_cache_map);
    map128_init(&s->rates);
    arena_init(&s->alerts.arena);
    uint64_t seed = config->seed;
    int err = seed ? 0 : random_bytes(&seed, sizeof seed);
    random_seed(&s->random, seed);
    return err ? err : shared_events_init(s);
}

void shared_done(struct shared *s)
{
    shared_events_free(s);
    shared_watches_free(s);
    shared_bulks_free(s);
    queue_cache_free(s);
    map128_done(&s->queue_cache_map);
    map128_done(&s->rates);
    arena_done(&s->alerts.arena);
}
