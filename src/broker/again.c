/* SPDX-License-Identifier: Apache-2.0 */
/* Giving back, for certain. A release whose outcome is unknown is repeated until the backend
 * answered; both kinds are safe to repeat (by token, by nonce). */
#include "base/mem.h"
#include "broker/broker_impl.h"

#define AGAIN_MS 50

static void submit_again(struct again *a);

static void later(struct again *a)
{
    struct broker *b = a->broker;
    a->next = b->again;
    b->again = a;
    if (!uv_is_active((uv_handle_t *)&b->again_timer))
        uv_timer_start(&b->again_timer, again_timer_cb, AGAIN_MS, 0);
}

static void answered_cb(void *ctx, const struct reply *reply)
{
    struct again *a = ctx;
    if (reply->outcome == OUT_UNKNOWN || reply->outcome == OUT_UNAVAILABLE)
        later(a);
    else
        mem_free(a);
}

static void submit_again(struct again *a)
{
    if (broker_submit(a->broker, &a->op, 1, answered_cb, a) != 0)
        later(a);
}

void again_timer_cb(uv_timer_t *timer)
{
    struct broker *b = timer->data;
    struct again *list = b->again;
    b->again = NULL;
    while (list) {
        struct again *a = list;
        list = a->next;
        submit_again(a);
    }
}

void broker_again(struct broker *b, const struct op *op)
{
    struct again *a = mem_zalloc(sizeof(*a));
    if (!a) {
        log_event(b->config.log, LOG_WARN, "give_back_left_to_lease",
                  LOG_TEXT("why", "out of memory"));
        return;
    }
    a->broker = b;
    a->op = *op;
    submit_again(a);
}

void again_free(struct broker *b)
{
    while (b->again) {
        struct again *a = b->again;
        b->again = a->next;
        mem_free(a);
    }
}

void broker_give_back(struct broker *b, const struct broker_held *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct op op = {
            .kind = OP_RELEASE,
            .lease = {.job = {.seq = jobs[i].seq}, .token = jobs[i].token, .unsaid = true}};
        broker_again(b, &op);
    }
}
