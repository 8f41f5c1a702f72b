/* SPDX-License-Identifier: Apache-2.0 */
/* lockDuration is the lease of the API's queues. The attributes of a queue contain the value
 * that it got. When the server starts with another value, each queue gets the new one. A lease
 * that was changed through /v1 stays until the setting changes. */
#include <inttypes.h>
#include <stdio.h>

#include "api/keyval/keyval_impl.h"
#include "base/check.h"

#define AGAIN_MS 1000

struct span lock_setting_note(const struct keyval *k)
{
    return span_text(k->lock.note);
}

static void listed_cb(void *ctx, const struct reply *r);

static void put_again(struct keyval *k)
{
    if (!uv_is_closing((uv_handle_t *)&k->lock.timer))
        uv_timer_start(&k->lock.timer, k->lock.timer.timer_cb, AGAIN_MS, 0);
}

static void check_next(struct keyval *k)
{
    struct lock_setting *l = &k->lock;
    l->op = (struct op){
        .kind = OP_QUEUE_LIST,
        .queue = {.after = span_of(l->after, l->after_len), .limit = LIMIT_BATCH, .partial = true}};
    if (broker_submit(k->broker, &l->op, 1, listed_cb, k) < 0)
        put_again(k);
}

static void pass(struct lock_setting *l, struct span name)
{
    CHECK(name.len <= sizeof l->after);
    memcpy(l->after, name.at, name.len);
    l->after_len = name.len;
}

static void changed_cb(void *ctx, const struct reply *r)
{
    struct keyval *k = ctx;
    if (r->outcome == OUT_UNAVAILABLE || r->outcome == OUT_UNKNOWN) {
        k->lock.after_len = 0; /* from the beginning: queues that have the value are skipped */
        put_again(k);
    } else {
        check_next(k);
    }
}

/* A queue that is deleted in the meantime is not created again. */
static void change(struct keyval *k, const struct queue_view *q)
{
    struct lock_setting *l = &k->lock;
    l->policy = *q->policy;
    l->policy.lease_ms = l->ms;
    pass(l, q->name);
    l->op = (struct op){.kind = OP_QUEUE_PUT,
                        .queue = {.name = span_of(l->after, l->after_len),
                                  .must_exist = true,
                                  .policy = &l->policy,
                                  .has_attributes = true,
                                  .attributes = lock_setting_note(k)}};
    if (broker_submit(k->broker, &l->op, 1, changed_cb, k) < 0)
        put_again(k);
}

static bool has_another(const struct keyval *k, const struct queue_view *q)
{
    return span_equal(q->owner, span_text(keyval_api.name)) &&
           !span_equal(q->attributes, lock_setting_note(k));
}

static void listed_cb(void *ctx, const struct reply *r)
{
    struct keyval *k = ctx;
    if (r->outcome != OUT_OK) {
        put_again(k);
        return;
    }
    for (uint32_t i = 0; i < r->queue_count; i++)
        if (has_another(k, &r->queues[i])) {
            change(k, &r->queues[i]);
            return;
        }
    if (r->queue_count < LIMIT_BATCH)
        return;
    pass(&k->lock, r->queues[r->queue_count - 1].name);
    check_next(k);
}

static void timer_cb(uv_timer_t *timer)
{
    check_next(timer->data);
}

void lock_setting_open(struct keyval *k, uint32_t ms, uv_loop_t *loop)
{
    struct lock_setting *l = &k->lock;
    l->ms = ms;
    snprintf(l->note, sizeof l->note, "{\"lockDuration\":%" PRIu32 "}", ms);
    CHECK(uv_timer_init(loop, &l->timer) == 0);
    l->timer.data = k;
    CHECK(uv_timer_start(&l->timer, timer_cb, 0, 0) == 0);
    uv_unref((uv_handle_t *)&l->timer);
}
