/* SPDX-License-Identifier: Apache-2.0 */
/* Releases jobs for certain. A release whose outcome is unknown is repeated until the backend has
 * replied; both kinds are safe to repeat (by token, by nonce). */
#include "base/mem.h"
#include "broker/broker_impl.h"

#define RETRY_MS 50

static void retry_timer_cb(uv_timer_t *timer);

static void later(struct release_retry *a)
{
    struct broker *b = a->broker;
    a->next = b->retries;
    b->retries = a;
    if (!uv_is_active((uv_handle_t *)&b->retry_timer))
        uv_timer_start(&b->retry_timer, retry_timer_cb, RETRY_MS, 0);
}

static void answered_cb(void *ctx, const struct reply *reply)
{
    struct release_retry *a = ctx;
    if (reply->outcome == OUT_UNKNOWN || reply->outcome == OUT_UNAVAILABLE)
        later(a);
    else
        mem_free(a);
}

static void submit_retry(struct release_retry *a)
{
    if (broker_submit(a->broker, &a->op, 1, answered_cb, a) != 0)
        later(a);
}

static void retry_timer_cb(uv_timer_t *timer)
{
    struct broker *b = timer->data;
    struct release_retry *list = b->retries;
    b->retries = NULL;
    while (list) {
        struct release_retry *a = list;
        list = a->next;
        submit_retry(a);
    }
}

void broker_retry_release(struct broker *b, const struct op *op)
{
    struct release_retry *a = mem_zalloc(sizeof(*a));
    if (!a) {
        log_event(b->config.log, LOG_WARN, "release_not_retried", LOG_TEXT("why", "out of memory"));
        return;
    }
    a->broker = b;
    a->op = *op;
    submit_retry(a);
}

void retries_free(struct broker *b)
{
    while (b->retries) {
        struct release_retry *a = b->retries;
        b->retries = a->next;
        mem_free(a);
    }
}

void broker_give_back(struct broker *b, const struct broker_held *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct op op = {
            .kind = OP_RELEASE,
            .lease = {.job = {.seq = jobs[i].seq}, .token = jobs[i].token, .unsaid = true}};
        broker_retry_release(b, &op);
    }
}
