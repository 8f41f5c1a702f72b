/* SPDX-License-Identifier: Apache-2.0 */
/* Operators: they look, cancel, requeue, patch, remove, pause, purge and change queues. */
#include <string.h>

#include "sim/world/world.h"

static struct job_ref any_job(struct world *w)
{
    if (w->seq_count == 0 || chance(w, 2))
        return (struct job_ref){(uint64_t)between(w, 1000000, 2000000), 0}; /* no such job */
    int64_t newest = (int64_t)w->seq_count - 1;
    int64_t i =
        chance(w, 60) ? between(w, newest > 20 ? newest - 20 : 0, newest) : between(w, 0, newest);
    return (struct job_ref){w->seqs[i], 0};
}

static void fill_job(struct world *w, struct op *op)
{
    op->job.job = any_job(w);
    op->job.want_body = chance(w, 80);
    op->job.force = op->kind == OP_CANCEL && chance(w, 40);
    op->job.want_attempts = op->kind == OP_GET && chance(w, 30);
    op->job.want_wait = op->kind == OP_GET;
    op->job.want_log = op->job.want_attempts && chance(w, 50);
    op->job.want_steps = op->kind == OP_GET && chance(w, 30);
    if (op->kind == OP_REQUEUE && chance(w, 30))
        op->job.delay_ms = between(w, 1, 1500);
}

static void fill_patch(struct world *w, struct op *op)
{
    struct op_patch *p = &op->patch;
    p->job = any_job(w);
    if (chance(w, 50)) {
        p->has_priority = true;
        p->priority = between(w, -5, 5);
    }
    if (has(&w->plan, FEATURE_DELAYS) && chance(w, 40)) {
        p->has_run_at = true;
        if (chance(w, 70))
            p->run_at.ms = world_now(w).wall.ms + between(w, -500, 2000);
    }
    if (chance(w, 40)) {
        p->has_payload = true;
        p->payload_kind = PAYLOAD_BYTES;
        p->payload =
            pool_text(&w->pool, "p%zu of %llu", w->call_count, (unsigned long long)p->job.seq);
    }
}

static void fill_queue(struct world *w, struct op *op)
{
    struct op_queue *q = &op->queue;
    q->name = any_queue(w);
    q->limit = 100;
    if (op->kind == OP_PAUSE && chance(w, 50))
        q->until.ms = chance(w, 70) ? world_now(w).wall.ms + between(w, 1, 1500) : LIMIT_WALL_MS;
    if (op->kind != OP_QUEUE_PUT)
        return;
    struct queue_policy *policy = pool_alloc(&w->pool, sizeof(*policy));
    plan_policy(&w->plan, &w->random, policy);
    policy->refuse_new = chance(w, 15);
    q->policy = chance(w, 90) ? policy : NULL;
    q->must_create = chance(w, 10);
    q->must_exist = !q->must_create && chance(w, 10);
    if (chance(w, 30)) {
        q->has_note = true;
        q->note = SPAN_LITERAL("changed by an operator");
    }
}

static void fill_bulk(struct world *w, struct op *op)
{
    static const unsigned states[] = {0, STATES_ALL, STATES_WAITING, STATE_BIT(STATE_DEAD),
                                      STATE_BIT(STATE_DEAD) | STATE_BIT(STATE_CANCELLED)};
    op->bulk.action = (uint8_t)between(w, BULK_REQUEUE, BULK_CANCEL_NOW);
    op->bulk.queue = any_queue(w);
    op->bulk.states = states[between(w, 0, 4)];
    if (has(&w->plan, FEATURE_GROUPS) && chance(w, 50))
        op->bulk.group = pool_text(&w->pool, "g%lld", (long long)between(w, 1, 3));
}

static void fill_peek(struct world *w, struct op *op)
{
    op->peek.queue = any_queue(w);
    op->peek.state = (uint8_t)between(w, STATE_SCHEDULED, STATE_CANCELLED);
    op->peek.limit = (uint32_t)between(w, 1, 10);
    op->peek.want_body = chance(w, 50);
}

static void fill_list(struct world *w, struct op *op)
{
    op->list.queue = any_queue(w);
    op->list.limit = (uint32_t)between(w, 1, 50);
    op->list.newest_first = chance(w, 50);
    op->list.want_body = chance(w, 70);
    if (chance(w, 40))
        op->list.filter.states = (unsigned)between(w, 1, 63) << 1;
}

static void fill_exceptions(struct world *w, struct op *op)
{
    op->exceptions.limit = (uint32_t)between(w, 0, 20);
    if (chance(w, 50))
        op->exceptions.queue = any_queue(w);
}

static void fill_nothing(struct world *w, struct op *op)
{
    (void)w, (void)op;
}

static const struct {
    enum feature feature;
    enum op_kind kind;
    unsigned weight;
    void (*fill)(struct world *w, struct op *op);
} moves[] = {
    {FEATURE_CANCELS, OP_CANCEL, 8, fill_job},
    {FEATURE_REQUEUES, OP_REQUEUE, 8, fill_job},
    {FEATURE_PATCHES, OP_PATCH, 8, fill_patch},
    {FEATURE_REMOVES, OP_REMOVE, 4, fill_job},
    {FEATURE_POLICY_CHANGES, OP_QUEUE_PUT, 3, fill_queue},
    {FEATURE_QUEUE_DELETES, OP_QUEUE_DELETE, 2, fill_queue},
    {FEATURE_PAUSES, OP_PAUSE, 4, fill_queue},
    {FEATURE_PURGES, OP_PURGE, 2, fill_queue},
    {FEATURE_BULKS, OP_BULK, 3, fill_bulk},
    {FEATURE_READS, OP_GET, 10, fill_job},
    {FEATURE_READS, OP_PEEK, 4, fill_peek},
    {FEATURE_READS, OP_QUEUE_GET, 4, fill_queue},
    {FEATURE_READS, OP_QUEUE_LIST, 1, fill_queue},
    {FEATURE_READS, OP_WORKERS, 2, fill_nothing},
    {FEATURE_READS, OP_REGISTRY, 1, fill_nothing},
    {FEATURE_LISTS, OP_LIST, 3, fill_list},
    {FEATURE_LISTS, OP_EXCEPTIONS, 2, fill_exceptions},
    {FEATURE_WALL_LEAPS, OP_ACCEPT_CLOCK, 2, fill_nothing},
};
#define MOVES (sizeof(moves) / sizeof(moves[0]))

void admin_act(struct world *w, uint32_t client)
{
    unsigned sum = 0;
    for (size_t i = 0; i < MOVES; i++)
        sum += has(&w->plan, moves[i].feature) ? moves[i].weight : 0;
    if (sum == 0)
        return;
    int64_t roll = between(w, 0, sum - 1);
    size_t i = 0;
    for (;; i++) {
        if (!has(&w->plan, moves[i].feature))
            continue;
        if ((roll -= moves[i].weight) < 0)
            break;
    }
    uint32_t number;
    struct op op = {.kind = moves[i].kind};
    moves[i].fill(w, &op);
    call_new(w, client, moves[i].kind, 2, &number)->op = op;
    call_send(w, number);
}
