/* SPDX-License-Identifier: Apache-2.0 */
/* Keepers of a queue with limits: one group has most of its jobs, and the limits change. */
#include "sim/world/world.h"

const char *keeper_group_of(unsigned group)
{
    static const char *const names[KEEPER_GROUPS] = {NULL, "a", "b", "c"};
    return names[group];
}

/* Small limits, so that they are reached; or an order alone, so that C22 can follow it. */
void keeper_limits_draw(struct world *w, struct queue_policy *p)
{
    bool order_alone = chance(w, 40);
    p->max_running = chance(w, 45) ? (uint32_t)between(w, 1, 4) : 0;
    p->fair = chance(w, order_alone ? 90 : 50) ? FAIR_GROUP : FAIR_NONE;
    p->ageing_ms = chance(w, 35) ? (uint32_t)between(w, 10, 200) : 0;
    if (order_alone)
        return;
    p->max_running_per_group = chance(w, 50) ? (uint32_t)between(w, 1, 2) : 0;
    if (chance(w, 50))
        p->claim_rate =
            (struct rate_limit){(uint8_t)between(w, RATE_QUEUE, RATE_GROUP),
                                (uint32_t)between(w, 1, 5), (uint32_t)between(w, 200, 3000)};
}

/* The large group gets several jobs at once. */
static void enqueue(struct world *w, uint32_t client)
{
    unsigned group = chance(w, 50) ? 1 : (unsigned)between(w, 0, KEEPER_GROUPS - 1);
    for (int64_t n = group == 1 ? between(w, 1, 5) : 1; n > 0; n--) {
        uint32_t number;
        struct op_enqueue *op = &call_new(w, client, OP_ENQUEUE, 1, &number)->op.enqueue;
        op->queue = w->keeper.queues[KEEPER_LIMITED];
        op->payload_kind = PAYLOAD_BYTES;
        op->payload = pool_text(&w->pool, "limited %u", number);
        if (keeper_group_of(group))
            op->extra.group = span_text(keeper_group_of(group));
        if (chance(w, 30)) {
            op->has_priority = true;
            op->priority = between(w, -2, 2);
        }
        if (chance(w, 10))
            op->delay_ms = between(w, 1, 400);
        call_send(w, number);
    }
}

/* Mostly one member alone is changed, so that the others hold across the change. */
static void change(struct world *w, uint32_t client)
{
    uint32_t number;
    struct queue_policy *p = pool_alloc(&w->pool, sizeof(*p)), drawn = {0};
    *p = w->keeper.limits;
    keeper_limits_draw(w, &drawn);
    int64_t roll = between(w, 0, 9);
    if (roll < 2 || roll == 9)
        p->max_running = drawn.max_running;
    if ((roll >= 2 && roll < 4) || roll == 9)
        p->max_running_per_group = drawn.max_running_per_group;
    if ((roll >= 4 && roll < 6) || roll == 9)
        p->ageing_ms = drawn.ageing_ms;
    if ((roll >= 6 && roll < 8) || roll == 9)
        p->fair = drawn.fair;
    if (roll >= 8)
        p->claim_rate = drawn.claim_rate;
    w->keeper.limits = *p;
    struct op_queue *op = &call_new(w, client, OP_QUEUE_PUT, 2, &number)->op.queue;
    op->name = w->keeper.queues[KEEPER_LIMITED];
    op->policy = p;
    call_send(w, number);
}

static void look(struct world *w, uint32_t client)
{
    uint32_t number;
    call_new(w, client, OP_QUEUE_GET, 1, &number)->op.queue.name = w->keeper.queues[KEEPER_LIMITED];
    call_send(w, number);
}

void keeper_limit(struct world *w, uint32_t client)
{
    unsigned roll = (unsigned)between(w, 0, 99);
    if (roll < 40)
        enqueue(w, client);
    else if (roll < 88)
        keeper_claim_from(w, client, KEEPER_LIMITED);
    else if (roll < 96)
        change(w, client);
    else
        look(w, client);
}
