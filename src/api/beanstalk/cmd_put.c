/* SPDX-License-Identifier: Apache-2.0 */
/* put: one enqueue. If the queue of the tube is not known to exist, it is created first. If the
 * enqueue finds that the queue does not exist, because it was deleted, both are tried once more. */
#include "api/beanstalk/impl.h"

#define TRIES_MAX 3

static void put_submit(struct order *k);

static void put_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    if (r->outcome == OUT_OK) {
        bs_answer_number(k, SPAN_LITERAL("INSERTED"), r->seq);
    } else if (r->outcome == OUT_NO_QUEUE && k->tries < TRIES_MAX) {
        k->tube->made = false;
        put_submit(k);
    } else if (r->outcome == OUT_NO_QUEUE) { /* limits.auto_queues allows no more queues */
        ANSWER(k, "OUT_OF_MEMORY");
    } else if (r->outcome == OUT_UNAVAILABLE && broker_draining(k->api->broker)) {
        ANSWER(k, "DRAINING");
    } else {
        bs_answer_refusal(k, r);
    }
}

static struct op put_op(struct order *k)
{
    return (struct op){.kind = OP_ENQUEUE,
                       .enqueue = {.queue = tube_name(k->tube),
                                   .no_create = true,
                                   .payload_kind = PAYLOAD_BYTES,
                                   .has_priority = true,
                                   .priority = -(int64_t)k->args.priority,
                                   .delay_ms = (int64_t)k->args.delay_s * 1000,
                                   .payload = buf_span(&k->out),
                                   .options = &k->options}};
}

static void put_submit(struct order *k)
{
    struct op op = put_op(k);
    if (!k->tube->made)
        tube_create(k->api, k->tube); /* if it fails, the enqueue gets OUT_NO_QUEUE */
    k->tries++;
    order_submit(k, &op, put_cb);
}

static uint32_t lease_of(uint32_t ttr_s)
{
    uint64_t ms = (uint64_t)(ttr_s ? ttr_s : 1) * 1000;
    return ms < LIMIT_LEASE_MS ? (uint32_t)ms : LIMIT_LEASE_MS;
}

BS_HANDLER(bs_put)
{
    struct beanstalk *b = c->api;
    conn_producer(c);
    if (b->refuses) {
        ANSWER(k, "DRAINING");
        return;
    }
    buf_clear(&k->out);
    if (!bs_account_room(k, BUDGET_BODIES, cmd->body.len) ||
        buf_append_span(&k->out, cmd->body) != 0) {
        ANSWER(k, "OUT_OF_MEMORY");
        return;
    }
    k->args = *cmd;
    k->tube = c->used;
    tube_ref(k->tube);
    k->options = (struct job_options){.lease_ms = lease_of(cmd->ttr_s)};
    put_submit(k);
}
