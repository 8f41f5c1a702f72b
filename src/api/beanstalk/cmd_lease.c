/* SPDX-License-Identifier: Apache-2.0 */
/* delete, release, bury and touch: the commands of a worker on a job that it has reserved. A job
 * that no connection has reserved can be deleted by every connection. */
#include "api/beanstalk/impl.h"

/* The command did not take effect, so the job stays reserved. */
static void answer_unavailable(struct order *k)
{
    struct held h = k->held;
    k->held.tube = NULL;
    if (k->conn) {
        held_put_back(k->conn, &h);
        return;
    }
    struct broker_held job = {h.seq, h.token};
    broker_give_back(k->api->broker, &job, 1);
    tube_unref(k->api, h.tube);
}

static void refused(struct order *k, const struct reply *r)
{
    if (k->held.tube && (r->outcome == OUT_UNAVAILABLE || r->outcome == OUT_UNKNOWN))
        answer_unavailable(k);
    bs_answer_refusal(k, r);
}

static struct op lease_op(const struct order *k, enum op_kind kind)
{
    return (struct op){.kind = kind,
                       .lease = {.job = {.seq = k->held.seq}, .token = k->held.token}};
}

/* Removes the job from those that the connection holds. false: it is not among them, and
 * NOT_FOUND was answered. */
static bool hand_over(struct conn *c, struct order *k, uint64_t id)
{
    if (held_take(c, id, &k->held))
        return true;
    ANSWER(k, "NOT_FOUND");
    return false;
}

/* ---- delete ---- */

static void removed_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    if (r->outcome != OUT_OK) {
        bs_answer_refusal(k, r);
        return;
    }
    struct tube *t = tube_find(k->api, r->queue);
    if (t)
        t->deletes++;
    tube_emptied_name(k->api, r->queue);
    ANSWER(k, "DELETED");
}

static void remove_submit(struct order *k, uint64_t id)
{
    struct op op = {.kind = OP_REMOVE,
                    .job = {.job = {.seq = id}, .states = STATES_WAITING | STATE_BIT(STATE_DEAD)}};
    order_submit(k, &op, removed_cb);
}

/* After the lease has expired, every connection may delete the job. */
static void acked_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    if (r->outcome == OUT_OK) {
        k->held.tube->deletes++;
        ANSWER(k, "DELETED");
    } else if (r->outcome == OUT_LEASE_LOST) {
        remove_submit(k, k->held.seq);
    } else {
        refused(k, r);
    }
}

BS_HANDLER(bs_delete)
{
    if (!held_take(c, cmd->id, &k->held)) {
        remove_submit(k, cmd->id);
        return;
    }
    struct op op = lease_op(k, OP_ACK);
    order_submit(k, &op, acked_cb);
}

/* ---- release, bury ---- */

static void back_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    if (r->outcome != OUT_OK)
        refused(k, r);
    else if (k->verb == BS_RELEASE)
        ANSWER(k, "RELEASED");
    else
        ANSWER(k, "BURIED");
}

BS_HANDLER(bs_release)
{
    if (!hand_over(c, k, cmd->id))
        return;
    struct op op = lease_op(k, OP_RELEASE);
    op.lease.has_priority = true;
    op.lease.priority = -(int64_t)cmd->priority;
    op.lease.has_delay = true;
    op.lease.delay_ms = (int64_t)cmd->delay_s * 1000;
    order_submit(k, &op, back_cb);
}

BS_HANDLER(bs_bury)
{
    if (!hand_over(c, k, cmd->id))
        return;
    struct op op = lease_op(k, OP_FAIL);
    op.lease.has_priority = true;
    op.lease.priority = -(int64_t)cmd->priority;
    op.lease.no_retry = true;
    order_submit(k, &op, back_cb);
}

/* ---- touch ---- */

static void touched_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    struct held *h = k->conn ? held_find(k->conn, k->id) : NULL;
    if (r->outcome != OUT_OK) {
        bs_answer_refusal(k, r);
        return;
    }
    /* The protocol has no other way to tell the worker to stop. The worker may still delete the
     * job. */
    if (r->lease.cancel_by.ms != 0) {
        ANSWER(k, "NOT_FOUND");
        return;
    }
    if (h)
        h->until_ms = bs_now_ms(k->api) + h->lease_ms;
    ANSWER(k, "TOUCHED");
}

BS_HANDLER(bs_touch)
{
    const struct held *h = held_find(c, cmd->id);
    if (!h) {
        ANSWER(k, "NOT_FOUND");
        return;
    }
    struct op op = {.kind = OP_EXTEND, .lease = {.job = {.seq = h->seq}, .token = h->token}};
    k->id = cmd->id;
    order_submit(k, &op, touched_cb);
}
