/* SPDX-License-Identifier: Apache-2.0 */
/* peek, peek-ready, peek-delayed, peek-buried, kick and kick-job.
 *
 * kick reads the first jobs of the tube in the order in which they would be kicked and requeues
 * them, a hundred at a time. Buried jobs come first; delayed jobs are kicked only if there was
 * no buried one. */
#include "api/beanstalk/impl.h"

#define KICK_STEP 100u

static bool shown(uint8_t state)
{
    return (STATE_BIT(state) & (STATES_LIVE | STATE_BIT(STATE_DEAD))) != 0;
}

static void found_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    if (r->outcome != OUT_OK)
        bs_answer_refusal(k, r);
    else if (r->job_count == 0 || !shown(r->jobs[0].job.state) || !r->jobs[0].has_body)
        ANSWER(k, "NOT_FOUND"); /* without a body: it was removed at the same time */
    else
        bs_answer_job(k, SPAN_LITERAL("FOUND"), r->jobs[0].job.seq, r->jobs[0].payload);
}

BS_HANDLER(bs_peek)
{
    struct op op = {.kind = OP_GET, .job = {.job = {.seq = cmd->id}, .want_body = true}};
    (void)c;
    order_barrier(k); /* a delete that follows would remove the body */
    order_submit(k, &op, found_cb);
}

static struct op peek_op(struct order *k, uint8_t state, uint32_t limit)
{
    return (struct op){.kind = OP_PEEK,
                       .peek = {.queue = tube_name(k->tube), .state = state, .limit = limit}};
}

BS_HANDLER(bs_peek_state)
{
    uint8_t state = cmd->verb == BS_PEEK_READY     ? STATE_READY
                    : cmd->verb == BS_PEEK_DELAYED ? STATE_SCHEDULED
                                                   : STATE_DEAD;
    k->tube = c->used;
    tube_ref(k->tube);
    struct op op = peek_op(k, state, 1);
    op.peek.want_body = true;
    order_barrier(k);
    order_submit(k, &op, found_cb);
}

/* ---- kick ---- */

static void kick_next(struct order *k);

static void kick_done(struct order *k)
{
    bs_answer_number(k, SPAN_LITERAL("KICKED"), k->kicked);
}

static void kick_step_ended(struct order *k)
{
    bool more = k->kicked < k->args.count && k->fails == 0 && k->conn;
    if (more)
        kick_next(k);
    else
        kick_done(k);
}

static void kicked_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    k->kicked += r->outcome == OUT_OK;
    k->fails += r->outcome != OUT_OK;
    if (--k->steps == 0)
        kick_step_ended(k);
}

static struct op requeue_op(uint64_t seq)
{
    return (struct op){
        .kind = OP_REQUEUE,
        .job = {.job = {.seq = seq}, .states = STATE_BIT(STATE_SCHEDULED) | STATE_BIT(STATE_DEAD)}};
}

static void kick_these(struct order *k, const struct reply *r)
{
    struct op ops[KICK_STEP];
    for (uint32_t i = 0; i < r->job_count; i++)
        ops[i] = requeue_op(r->jobs[i].job.seq);
    k->steps = r->job_count;
    if (broker_submit(k->api->broker, ops, r->job_count, kicked_cb, k) != 0)
        kick_done(k);
}

static void kick_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    if (r->outcome != OUT_OK && r->outcome != OUT_NO_QUEUE) {
        bs_answer_refusal(k, r);
    } else if (r->job_count > 0) {
        kick_these(k, r);
    } else if (r->outcome == OUT_OK && k->state == STATE_DEAD && k->kicked == 0) {
        k->state = STATE_SCHEDULED;
        kick_next(k);
    } else {
        kick_done(k);
    }
}

static void kick_next(struct order *k)
{
    uint32_t left = k->args.count - k->kicked;
    struct op op = peek_op(k, k->state, left < KICK_STEP ? left : KICK_STEP);
    order_submit(k, &op, kick_cb);
}

BS_HANDLER(bs_kick)
{
    if (cmd->count == 0) {
        bs_answer_number(k, SPAN_LITERAL("KICKED"), 0);
        return;
    }
    k->args = *cmd;
    k->tube = c->used;
    tube_ref(k->tube);
    k->state = STATE_DEAD;
    order_barrier(k);
    kick_next(k);
}

static void kicked_one_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    if (r->outcome == OUT_OK)
        ANSWER(k, "KICKED");
    else
        bs_answer_refusal(k, r);
}

BS_HANDLER(bs_kick_job)
{
    struct op op = requeue_op(cmd->id);
    (void)c;
    order_submit(k, &op, kicked_one_cb);
}
