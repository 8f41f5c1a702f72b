/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/wrapper_rig.h"

#include <string.h>

#include "base/check.h"

void rig_init(struct rig *r)
{
    memset(r, 0, sizeof *r);
    CHECK(uv_loop_init(&r->loop) == 0);
    r->clock.at = (struct now){{1000}, {1700000000000}};
    r->config = (struct backend_config){.loop = &r->loop, .clock = clock_manual(&r->clock)};
    r->fake = fake_new(&r->loop, &r->fake_gone);
    r->texts_ok = true;
}

void rig_done(struct rig *r)
{
    CHECK(uv_run(&r->loop, UV_RUN_DEFAULT) == 0);
    CHECK(uv_loop_close(&r->loop) == 0);
}

static bool text_ok(struct span s)
{
    return span_equal(s, SPAN_LITERAL("a text of the fake backend"));
}

static bool texts_ok(const struct reply *r)
{
    bool ok = true;
    for (uint32_t i = 0; reply_family(r) == REPLY_JOBS && i < r->job_count; i++) {
        const struct job_view *v = &r->jobs[i];
        ok = ok && text_ok(v->queue) && text_ok(v->worker) && text_ok(v->payload) &&
             text_ok(v->result) && text_ok(v->error) && text_ok(v->extra.unique) &&
             text_ok(v->extra.group) && text_ok(v->extra.correlation) && text_ok(v->extra.label) &&
             text_ok(v->extra.attributes) && text_ok(v->extra.options);
    }
    for (uint32_t i = 0; reply_family(r) == REPLY_QUEUES && i < r->queue_count; i++) {
        const struct queue_view *v = &r->queues[i];
        ok = ok && text_ok(v->name) && text_ok(v->owner) && text_ok(v->note) &&
             text_ok(v->attributes) && v->policy->lease_ms == 4242 && text_ok(span_text(r->note));
    }
    return ok;
}

void rig_reply_cb(void *ctx, const struct reply *reply)
{
    struct rig *r = ctx;
    CHECK(!r->inside_submit && reply->tag < r->op_count);
    CHECK(reply->kind == r->ops[reply->tag].kind);
    r->answers[reply->tag]++;
    r->outcomes[reply->tag] = reply->outcome;
    r->order[r->order_count++] = reply->tag;
    r->texts_ok = r->texts_ok && texts_ok(reply);
    if (r->also)
        r->also(r->also_ctx, reply);
}

void rig_signal_cb(void *ctx)
{
    struct rig *r = ctx;
    CHECK(!r->inside_submit);
    r->signals++;
}

void rig_closed_cb(void *ctx)
{
    struct rig *r = ctx;
    CHECK(r->fake_gone);
    r->closed = true;
}

int rig_submit(struct rig *r, const struct op *ops, size_t count)
{
    CHECK(r->op_count + count <= RIG_REPLIES_MAX);
    struct op *own = &r->ops[r->op_count];
    for (size_t i = 0; i < count; i++) {
        own[i] = ops[i];
        own[i].tag = r->op_count + i;
    }
    r->inside_submit = true;
    int rc = backend_submit(r->b, own, count, rig_reply_cb, r);
    r->inside_submit = false;
    if (rc == 0)
        r->op_count += count;
    return rc;
}

/* uv_run does not wait when an idle handle is active; without one nothing is left to happen. */
void rig_turn(struct rig *r, unsigned turns)
{
    while (turns-- > 0)
        uv_run(&r->loop, UV_RUN_NOWAIT);
}

void rig_drain(struct rig *r)
{
    for (unsigned turns = 0; r->order_count < r->op_count; turns++) {
        CHECK(turns < 10000);
        rig_turn(r, 1);
    }
}

void rig_close(struct rig *r)
{
    backend_close(r->b, rig_closed_cb, r);
    CHECK(!r->closed);
    for (unsigned turns = 0; !r->closed; turns++) {
        CHECK(turns < 10000);
        rig_turn(r, 1);
    }
}

struct op rig_claim(void)
{
    static const struct span queues[] = {{"a", 1}, {"b", 1}};
    return (struct op){.kind = OP_CLAIM, .claim = {.queues = queues, .queue_count = 2, .count = 1}};
}

struct op rig_ack(uint64_t seq)
{
    return (struct op){.kind = OP_ACK, .lease = {.job = {.seq = seq}, .token = {7, 1}}};
}

struct op rig_get(uint64_t seq)
{
    return (struct op){.kind = OP_GET, .job = {.job = {.seq = seq}}};
}
