/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that build the order of a queue with limits (limits.c): with the change of its policy, and
 * by the leader. */
#include "backend/redis/impl.h"
#include "backend/redis/unit/limit_members.h"

enum step_field { STEP_QUEUES, STEP_REACHED, STEP_READY, STEP_RUNNING, STEP_COUNT };

static void ask_step(struct item *it, uint32_t queue, bool begins, bool slots)
{
    struct rargs *a = &it->args;
    rd_item_call(it, SCRIPT_ORDER);
    redis_args_int(a, queue);
    redis_args_text(a, begins ? "1" : "");
    redis_args_int(a, LIMIT_SLICE);
    redis_args_text(a, slots ? "1" : "");
    it->step_queue = queue;
}

/* A new order begins with the change of the policy; so do the slots of groups. */
bool rd_limits_ask_first_step(struct item *it)
{
    const struct unit *u = &it->unit;
    const struct op *op = u->turns[0].op;
    const struct queue_policy *p = op->kind == OP_QUEUE_PUT ? op->queue.policy : NULL;
    const struct wqueue *q = p && u->count == 1 ? unit_queue_named(u, op->queue.name) : NULL;
    if (!q || it->step_queue)
        return false;
    bool ordered = claim_ordered(p) && !claim_order_equal(p, &q->policy);
    bool slots = p->max_running_per_group && !q->policy.max_running_per_group;
    if (ordered || slots)
        ask_step(it, q->number, ordered, slots);
    it->slots_begin = slots;
    return ordered || slots;
}

void rd_limits_ask_step(struct item *it, uint32_t queue)
{
    ask_step(it, queue, false, false);
}

bool rd_limits_step_loaded(struct item *it, const redisReply *r)
{
    struct unit *u = &it->unit;
    if (reply_count(r) != STEP_COUNT || rd_load_queues(u, reply_at(r, STEP_QUEUES)) != 0)
        return false;
    it->step = r;
    for (int part = STEP_READY; part <= STEP_RUNNING; part++) {
        const redisReply *list = reply_at(r, (size_t)part);
        for (size_t i = 0; i + 1 < reply_count(list); i += 2)
            if (!rd_load_row(u, reply_span(reply_at(list, i)), reply_span(reply_at(list, i + 1))))
                return false;
    }
    return true;
}

static struct row *step_row(struct item *it, const redisReply *list, size_t i, uint8_t state)
{
    struct row *r = unit_row(&it->unit, redis_seq_decode(reply_span(reply_at(list, i))));
    bool there = r && r->q && r->q->number == it->step_queue && row_was(r, state);
    return there && unit_row_there(r) ? r : NULL;
}

void rd_limits_step(struct item *it)
{
    struct unit *u = &it->unit;
    struct wqueue *q = it->step ? unit_queue(u, it->step_queue) : NULL;
    const redisReply *ready = reply_at(it->step, STEP_READY);
    if (!q || q->gone || !claim_ordered(&q->policy))
        return;
    q->wake = true;
    for (size_t i = 0; i + 1 < reply_count(ready); i += 2) {
        struct row *r = step_row(it, ready, i, STATE_READY);
        struct wgroup *g = r ? unit_group_of(u, r) : NULL;
        if (g)
            g->touched = true;
    }
}

static void change_step(struct item *it, const struct wqueue *q)
{
    struct rargs *a = &it->args;
    const redisReply *ready = reply_at(it->step, STEP_READY);
    char member[ORDER_MEMBER_BYTES];
    rd_limits_command(a, "BUILD", q);
    redis_args_bytes(a, reply_span(reply_at(it->step, STEP_REACHED)));
    for (size_t i = 0; i + 1 < reply_count(ready); i += 2) {
        struct row *r = step_row(it, ready, i, STATE_READY);
        if (!r)
            continue;
        struct job before = rd_job_before(r);
        redis_args_seq(a, r->job.seq);
        redis_args_bytes(a, span_of(r->packed.at, ROW_REVISION_BYTES));
        redis_args_bytes(a, rd_order_member(r, &before, member));
    }
    rd_change_end(a);
}

static void change_slots(struct item *it, const struct wqueue *q)
{
    struct rargs *a = &it->args;
    struct rargs_mark before = redis_args_mark(a);
    const redisReply *running = reply_at(it->step, STEP_RUNNING);
    char key[48], member[ORDER_MEMBER_BYTES];
    rd_change(a, "ZADD", rd_queue_key(q->number, "s", key));
    for (size_t i = 0; i + 1 < reply_count(running); i += 2) {
        struct row *r = step_row(it, running, i, STATE_RUNNING);
        if (!r)
            continue;
        redis_args_int(a, 0);
        redis_args_bytes(a, rd_slot_member(r, member));
    }
    if (!rd_change_end(a))
        redis_args_undo(a, before);
}

void rd_limits_step_changes(struct item *it, const struct wqueue *q)
{
    if (!it->step || q->number != it->step_queue)
        return;
    if (it->slots_begin)
        change_slots(it, q);
    if (claim_ordered(&q->policy))
        change_step(it, q);
}
