/* SPDX-License-Identifier: Apache-2.0 */
/* Keepers at the end of a run: all notices are delivered, and everything is read once more. */
#include "base/check.h"
#include "sim/world/world.h"

#define ROUNDS_MAX 20

static const struct hist_entry *asked(struct world *w, const struct op *op)
{
    drain_ask(w, op, true);
    drain_settle(w);
    return &w->history.entries[w->history.count - 1];
}

/* ---- notices --------------------------------------------------------------------------------- */

static void wait_a_second(struct world *w)
{
    int64_t end = w->mono + 1100;
    schedule(w, 1100, SIM_CLIENT, (uint32_t)w->client_count - 1, 0); /* which then does nothing */
    while (w->mono < end && world_step(w))
        ;
}

/* False: what is left is due much later, since the clock was set back. */
static bool take_all(struct world *w)
{
    static const struct breaker_rules rules = {
        .failure_threshold = 3, .open_cooldown_seconds = 1, .half_open_probe_count = 1};
    struct op op = {.kind = OP_NOTICE_TAKE};
    op.notice_take = (struct op_notice_take){
        .limit = 100, .hold_ms = 100, .give_up_ms = INT64_MAX / 2, .reset = true, .breaker = rules};
    const struct hist_entry *e = asked(w, &op);
    uint32_t count = e->notice_count;
    const struct hist_notice *taken = e->notices;
    bool soon = count > 0 || e->reply.next_due.ms < world_now(w).wall.ms + 5000;
    for (uint32_t i = 0; i < count; i++) {
        struct op end = {.kind = OP_NOTICE_END};
        end.notice_end = (struct op_notice_end){.number = taken[i].number,
                                                .tries = taken[i].tries,
                                                .delivered = true,
                                                .reached = true,
                                                .breaker = rules};
        drain_ask(w, &end, true);
    }
    drain_settle(w);
    return soon;
}

static bool some_pending(struct world *w)
{
    const struct hist_entry *e = asked(w, &(struct op){.kind = OP_NOTICE_LIST});
    for (uint32_t i = 0; i < e->notice_count; i++)
        if (e->notices[i].state == NOTICE_PENDING)
            return true;
    return false;
}

void keeper_deliver(struct world *w)
{
    for (int i = 0; i < ROUNDS_MAX && some_pending(w) && take_all(w); i++)
        wait_a_second(w);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void list_queue(struct world *w, struct span queue)
{
    struct op op = {.kind = OP_LIST};
    op.list.queue = queue;
    op.list.limit = LIMIT_BATCH;
    op.list.want_body = true;
    do {
        const struct hist_entry *e = asked(w, &op);
        if (w->bad.check != CHECK_NONE)
            return;
        CHECK(e->op.kind == OP_LIST && e->replied);
        op.list.after = e->reply.cursor;
    } while (op.list.after);
}

static void read_keys(struct world *w, enum keeper_key kind)
{
    struct span *keys = pool_alloc(&w->pool, w->call_count * sizeof(*keys));
    uint32_t count = 0;
    for (uint32_t i = 1; i < w->call_count && count < LIMIT_KV_KEYS; i++)
        if (op_commit(&w->calls[i].op) && !op_commit(&w->calls[i].op)->jobs_alone)
            keys[count++] = keeper_key_of(&w->pool, kind, i);
    struct op op = {.kind = OP_KV_GET,
                    .kv_get = {.keys = keys, .count = count, .want_value = true}};
    if (count > 0)
        (void)asked(w, &op);
}

void keeper_last_reads(struct world *w)
{
    for (int i = 0; i < (int)w->keeper.queue_count; i++)
        list_queue(w, w->keeper.queues[i]);
    read_keys(w, KEY_COMMIT);
    read_keys(w, KEY_LEFT);
    (void)asked(w, &(struct op){.kind = OP_SCHEDULE_LIST});
    (void)asked(w, &(struct op){.kind = OP_NOTICE_LIST});
    (void)asked(w, &(struct op){.kind = OP_ALERT_LIST});
}
