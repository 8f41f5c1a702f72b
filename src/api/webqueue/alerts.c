/* SPDX-License-Identifier: Apache-2.0 */
/* The document's three alerts, for all queues of this API. They are created when the first queue
 * exists, with the numbers of the settings; an existing rule with the same name stays unchanged. */
#include "api/webqueue/webqueue_impl.h"
#include "core/alerts/alert.h"

static const struct {
    struct span name;
    enum alert_on on;
} rules[WEB_ALERTS] = {
    {SPAN_LITERAL("webqueue-depth"), ALERT_DEEP},
    {SPAN_LITERAL("webqueue-errors"), ALERT_ERROR_SHARE},
    {SPAN_LITERAL("webqueue-idle"), ALERT_NO_CLAIM},
};

static bool alert_rule_of(const struct webqueue *w, size_t i, struct alert_rule *ret)
{
    const struct webqueue_alerts *c = &w->alerts;
    alert_rule_default(rules[i].on, ret);
    ret->queue = SPAN_LITERAL(WEBQUEUE_PREFIX "*");
    if (rules[i].on == ALERT_DEEP) /* the setting is the largest depth without an alert */
        ret->depth = c->depth + UINT64_C(1);
    else if (rules[i].on == ALERT_ERROR_SHARE)
        ret->percent = c->error_percent;
    else
        ret->after_ms = c->idle_ms;
    return rules[i].on == ALERT_DEEP          ? c->depth > 0
           : rules[i].on == ALERT_ERROR_SHARE ? c->error_percent > 0
                                              : c->idle_ms > 0;
}

static void put_reply(void *ctx, const struct reply *r)
{
    struct webqueue *w = ctx;
    if (r->outcome != OUT_OK && r->outcome != OUT_EXISTS)
        w->alerts_put = false; /* the next request retries */
    w->checking--;
    if (w->checking == 0 && w->closed)
        webqueue_api.close(w, w->closed, w->closed_ctx);
}

void web_alerts_put(struct webqueue *w)
{
    if (w->alerts_put || w->closed)
        return;
    w->alerts_put = true;
    for (size_t i = 0; i < WEB_ALERTS; i++) {
        if (!alert_rule_of(w, i, &w->alert_rules[i]))
            continue;
        w->alert_ops[i] = (struct op){
            .kind = OP_ALERT_PUT,
            .alert = {.name = rules[i].name, .rule = &w->alert_rules[i], .must_create = true}};
        w->checking += broker_submit(w->broker, &w->alert_ops[i], 1, put_reply, w) == 0;
    }
}
