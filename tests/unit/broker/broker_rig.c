/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/broker/broker_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define START_MS INT64_C(1800000000000)
#define UNTIL_NS_MAX (UINT64_C(20) * 1000000000)

void broker_rig_loop(struct broker_rig *r)
{
    *r = (struct broker_rig){.clock = {{{1000}, {START_MS}}}};
    assert_int_equal(uv_loop_init(&r->loop), 0);
}

void broker_rig_init_with(struct broker_rig *r, struct backend *backend)
{
    r->backend = backend;
    struct broker_config config = {.loop = &r->loop,
                                   .clock = clock_manual(&r->clock),
                                   .test_clock = &r->clock,
                                   .backend = backend};
    assert_int_equal(broker_open(&config, &r->broker), 0);
}

void broker_rig_init(struct broker_rig *r, const char *url)
{
    broker_rig_loop(r);
    struct backend_config config = {.loop = &r->loop, .clock = clock_manual(&r->clock), .seed = 7};
    struct err_note note = {""};
    struct backend *backend = NULL;
    int err = backend_open(url, &config, &backend, &note);
    if (err)
        fail_msg("%s: %s", url, note.text);
    broker_rig_init_with(r, backend);
}

static void set_flag(void *ctx)
{
    *(bool *)ctx = true;
}

void broker_rig_turns(struct broker_rig *r, unsigned turns)
{
    while (turns-- > 0)
        uv_run(&r->loop, UV_RUN_NOWAIT);
}

void broker_rig_until(struct broker_rig *r, const bool *flag)
{
    /* By the clock: an idle machine makes many turns before a retry is due. */
    uint64_t end = uv_hrtime() + UNTIL_NS_MAX;
    while (!*flag && uv_hrtime() < end)
        uv_run(&r->loop, UV_RUN_NOWAIT);
    assert_true(*flag);
}

void broker_rig_done(struct broker_rig *r)
{
    broker_close(r->broker, set_flag, &r->broker_closed);
    /* What is given back again and again has a timer in real time. */
    while (!r->broker_closed)
        uv_run(&r->loop, UV_RUN_ONCE);
    backend_close(r->backend, set_flag, &r->backend_closed);
    broker_rig_until(r, &r->backend_closed);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&r->loop), 0);
}

void broker_rig_advance(struct broker_rig *r, int64_t ms)
{
    bool settled = false;
    assert_int_equal(broker_clock_advance(r->broker, ms, set_flag, &settled), 0);
    assert_false(settled);
    broker_rig_until(r, &settled);
}

void told_cb(void *ctx, const struct reply *reply)
{
    struct told *t = ctx;
    t->yes = true;
    t->times++;
    t->outcome = reply->outcome;
    t->tag = reply->tag;
    t->seq = reply->seq;
    t->state = reply->state;
    enum reply_family family = reply_family(reply);
    t->job_count = family == REPLY_JOBS ? reply->job_count : 0;
    t->ran_ms = family == REPLY_CHANGE ? reply->ran_ms : 0;
    for (uint32_t i = 0; i < t->job_count && i < 16; i++)
        t->held[i] = (struct broker_held){reply->jobs[i].job.seq, reply->jobs[i].token};
    if (t->job_count > 0) {
        t->job = reply->jobs[0].job;
        t->waited_ms = reply->jobs[0].waited_ms;
        snprintf(t->worker, sizeof t->worker, "%.*s", (int)reply->jobs[0].worker.len,
                 reply->jobs[0].worker.at);
    }
    if (family == REPLY_QUEUES && reply->queue_count > 0)
        memcpy(t->by_state, reply->queues[0].counts.by_state, sizeof(t->by_state));
}

struct told do_op(struct broker_rig *r, const struct op *op)
{
    struct told t = {0};
    assert_int_equal(broker_submit(r->broker, op, 1, told_cb, &t), 0);
    assert_false(t.yes);
    broker_rig_until(r, &t.yes);
    return t;
}

struct op do_enqueue_op(const char *queue, const char *payload)
{
    return (struct op){.kind = OP_ENQUEUE,
                       .enqueue = {.queue = span_text(queue),
                                   .payload_kind = PAYLOAD_JSON,
                                   .payload = span_text(payload)}};
}

struct told do_enqueue(struct broker_rig *r, const char *queue, const char *payload)
{
    struct op op = do_enqueue_op(queue, payload);
    struct told t = do_op(r, &op);
    assert_int_equal(t.outcome, OUT_OK);
    return t;
}

struct told do_ack(struct broker_rig *r, struct broker_held held)
{
    struct op op = {.kind = OP_ACK, .lease = {.job = {.seq = held.seq}, .token = held.token}};
    return do_op(r, &op);
}

struct told do_get(struct broker_rig *r, uint64_t seq)
{
    struct op op = {.kind = OP_GET, .job = {.job = {.seq = seq}}};
    return do_op(r, &op);
}

struct broker_claim *do_claim_wait(struct broker_rig *r, const char *queue, uint32_t wait_ms,
                                   struct told *told)
{
    struct span name = span_text(queue);
    struct op_claim want = {.queues = &name, .queue_count = 1, .count = 1, .lease_ms = 30000};
    struct broker_claim *c = NULL;
    assert_int_equal(broker_claim(r->broker, &want, wait_ms, told_cb, told, &c), 0);
    assert_false(told->yes);
    return c;
}

struct told do_claim_now(struct broker_rig *r, const char *queue)
{
    struct told t = {0};
    do_claim_wait(r, queue, 0, &t);
    broker_rig_until(r, &t.yes);
    return t;
}
