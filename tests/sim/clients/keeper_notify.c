/* SPDX-License-Identifier: Apache-2.0 */
/* Keepers and notices: one takes them and says how their delivery ended, looks at the outbox, and
 * raises and clears a condition. */
#include "sim/world/world.h"

static const struct breaker_rules breaker = {
    .failure_threshold = 3, .open_cooldown_seconds = 1, .half_open_probe_count = 1};

#define GIVE_UP_MS (INT64_C(1000) * 24 * 3600 * 1000)

static void take(struct world *w, uint32_t client)
{
    uint32_t number;
    struct call *call = call_new(w, client, OP_NOTICE_TAKE, 1, &number);
    call->op.notice_take = (struct op_notice_take){.limit = (uint32_t)between(w, 1, 5),
                                                   .hold_ms = (uint32_t)between(w, 50, 1500),
                                                   .give_up_ms = GIVE_UP_MS,
                                                   .reset = chance(w, 10),
                                                   .breaker = breaker};
    call_send(w, number);
}

void keeper_taken(struct world *w, size_t entry, uint32_t client)
{
    for (uint32_t i = 0; i < w->history.entries[entry].reply.notice_count; i++) {
        const struct hist_notice n = w->history.entries[entry].notices[i];
        uint32_t number;
        unsigned roll = (unsigned)between(w, 0, 99);
        w->keeper.notice = n.number;
        if (roll >= 80)
            continue; /* no report of how it ended */
        struct op_notice_end *op = &call_new(w, client, OP_NOTICE_END, 2, &number)->op.notice_end;
        *op = (struct op_notice_end){.number = n.number,
                                     .tries = n.tries,
                                     .delivered = roll < 45,
                                     .reached = !chance(w, 10),
                                     .breaker = breaker};
        if (!op->delivered) {
            op->give_up = chance(w, 10);
            op->due.ms = world_now(w).wall.ms + between(w, 0, 800);
            op->error = SPAN_LITERAL("answered 500");
            op->status = 500;
        }
        call_send(w, number);
    }
}

static void outbox(struct world *w, uint32_t client)
{
    uint32_t number;
    (void)call_new(w, client, chance(w, 80) ? OP_NOTICE_LIST : OP_BREAKER_LIST, 1, &number);
    call_send(w, number);
}

static void again(struct world *w, uint32_t client)
{
    uint32_t number;
    enum op_kind kind = chance(w, 70) ? OP_NOTICE_AGAIN : OP_NOTICE_DISCARD;
    call_new(w, client, kind, 2, &number)->op.notice.id.seq =
        w->keeper.notice ? w->keeper.notice : 7;
    call_send(w, number);
}

/* Named breakers: the engine and its recovered copy must agree on them. */
static void named(struct world *w, uint32_t client)
{
    static const char *const names[] = {"pay", "mail.eu", "x-1"};
    unsigned roll = (unsigned)between(w, 0, 99);
    uint32_t number;
    enum op_kind kind = roll < 45   ? OP_BREAKER_ALLOW
                        : roll < 85 ? OP_BREAKER_REPORT
                        : roll < 95 ? OP_BREAKER_PUT
                                    : OP_BREAKER_DELETE;
    call_new(w, client, kind, 2, &number)->op.breaker =
        (struct op_breaker){.name = span_text(names[between(w, 0, 2)]),
                            .rules = breaker,
                            .success = chance(w, 30),
                            .retry_after_ms = chance(w, 20) ? 1500 : 0};
    call_send(w, number);
}

static void rule(struct world *w, uint32_t client)
{
    uint32_t number;
    enum op_kind kind = chance(w, 80) ? OP_ALERT_PUT : OP_ALERT_DELETE;
    struct call *call = call_new(w, client, kind, 2, &number);
    struct alert_rule *r = pool_alloc(&w->pool, sizeof(*r));
    alert_rule_default(chance(w, 70) ? ALERT_DEEP : ALERT_SCHEDULE_FAILED, r);
    r->queue = SPAN_LITERAL("x-*");
    r->enabled = !chance(w, 10);
    if (!chance(w, 15))
        r->url = SPAN_LITERAL("http://other.example/in");
    call->op.alert = (struct op_alert){.name = SPAN_LITERAL("more"), .rule = r};
    call_send(w, number);
}

static void edge(struct world *w, uint32_t client)
{
    uint32_t number;
    struct call *call = call_new(w, client, OP_ALERT_EDGE, 2, &number);
    call->op.alert_edge = (struct op_alert_edge){.alert = SPAN_LITERAL("more"),
                                                 .queue = w->keeper.queues[KEEPER_ITEMS],
                                                 .raised = chance(w, 50),
                                                 .value = number};
    call_send(w, number);
}

void keeper_notify(struct world *w, uint32_t client)
{
    unsigned roll = (unsigned)between(w, 0, 99);
    uint32_t number;
    if (roll < 40) {
        take(w, client);
    } else if (roll < 50) {
        named(w, client);
    } else if (roll < 70) {
        outbox(w, client);
    } else if (roll < 78) {
        again(w, client);
    } else if (roll < 85) {
        rule(w, client);
    } else if (roll < 97) {
        edge(w, client);
    } else {
        (void)call_new(w, client, OP_ALERT_LIST, 1, &number);
        call_send(w, number);
    }
}
