/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a run: faults stop, time runs out for everything that waits for it, a worker acks all
 * that comes, and the last reads show what is left. */
#include <string.h>

#include "base/check.h"
#include "sim/world/world.h"

#define DRAIN_MS (INT64_C(3600) * 1000) /* longer than any wait in a plan */

static uint32_t drain_client(const struct world *w)
{
    return (uint32_t)w->client_count - 1;
}

/* Runs until the server has answered everything. */
void drain_settle(struct world *w)
{
    while ((!server_idle(w) || w->clients[drain_client(w)].open > 0) && world_step(w))
        ;
}

void drain_ask(struct world *w, const struct op *op, bool apart)
{
    uint32_t number;
    struct call *call = call_new(w, drain_client(w), op->kind, 1, &number);
    call->op = *op;
    call->apart = apart;
    call_send(w, number);
}

static void ask(struct world *w, const struct op *op)
{
    drain_ask(w, op, false);
}

static void stop_faults(struct world *w)
{
    w->draining = true;
    server_full(w, false);
    for (size_t i = 0; i < w->call_count; i++)
        w->calls[i].abandoned = w->calls[i].done = true;
    while (w->server.state != SERVER_UP && world_step(w))
        ;
    if (w->bad.check != CHECK_NONE)
        return;
    engine_accept_clock(gate_engine(w->server.gate));
    server_full(w, false);
}

static void resume_queues(struct world *w)
{
    for (unsigned i = 0; i < w->plan.queues; i++)
        ask(w, &(struct op){.kind = OP_PAUSE, .queue = {.name = w->queues[i]}});
    for (unsigned i = 0; w->plan.keepers && i < w->keeper.queue_count; i++)
        drain_ask(w, &(struct op){.kind = OP_PAUSE, .queue = {.name = w->keeper.queues[i]}}, true);
    drain_settle(w);
}

static void claim_queue(struct world *w, const struct span *queue, bool apart)
{
    struct op op = {.kind = OP_CLAIM};
    op.claim.queues = queue;
    op.claim.queue_count = 1;
    op.claim.count = 50;
    op.claim.lease_ms = 60000;
    op.claim.want_body = true;
    op.claim.nonce = ++w->nonce;
    drain_ask(w, &op, apart);
}

static void claim_all(struct world *w)
{
    for (unsigned i = 0; i < w->plan.queues; i++)
        claim_queue(w, &w->queues[i], false);
    for (unsigned i = 0; w->plan.keepers && i < w->keeper.queue_count; i++)
        claim_queue(w, &w->keeper.queues[i], true);
}

/* Acks what the claims since entry `first` have brought; returns how many that were. */
static size_t ack_all(struct world *w, size_t first)
{
    size_t acked = 0, end = w->history.count;
    for (size_t i = first; i < end; i++) {
        bool claim = w->history.entries[i].op.kind == OP_CLAIM;
        for (uint32_t n = 0; claim && n < w->history.entries[i].job_count; n++) {
            const struct hist_entry *e = &w->history.entries[i];
            struct op op = {.kind = OP_ACK};
            op.lease.job.seq = e->jobs[n].job.seq;
            op.lease.token = e->jobs[n].token;
            drain_ask(w, &op, e->apart);
            acked++;
        }
    }
    return acked;
}

/* Claims whenever a signal says so (or, in seeds that do not trust them, time and again). */
static void work_off(struct world *w)
{
    int64_t end = w->mono + DRAIN_MS;
    uint64_t wakes = w->wake_total;
    bool poll = !has(&w->plan, FEATURE_WAKE_ONLY);
    for (bool more = true; w->bad.check == CHECK_NONE;) {
        if (more) {
            size_t first = w->history.count;
            wakes = w->wake_total;
            claim_all(w);
            drain_settle(w);
            more = ack_all(w, first) > 0;
            drain_settle(w);
        } else if (server_live(w) == 0 || w->mono > end || !world_step(w)) {
            break;
        }
        more = more || w->wake_total != wakes;
        if (!more && poll && w->event_count > 0 && w->events[0].at > w->mono)
            more = chance(w, 20);
    }
}

static void list_all(struct world *w)
{
    for (unsigned i = 0; i < w->plan.queues; i++) {
        struct op op = {.kind = OP_LIST};
        op.list.queue = w->queues[i];
        op.list.limit = LIMIT_BATCH;
        op.list.want_body = true;
        ask(w, &op);
    }
    drain_settle(w);
}

/* All in one batch, so that nothing changes between them. */
static void last_reads(struct world *w)
{
    list_all(w);
    history_event(&w->history, HIST_DRAINED, 0, world_now(w));
    for (size_t i = 0; i < w->seq_count; i++) {
        struct op op = {.kind = OP_GET};
        op.job.job.seq = w->seqs[i];
        op.job.want_body = true;
        op.job.want_attempts = op.job.want_log = i % 4 == 0;
        op.job.want_steps = i % 4 < 2;
        ask(w, &op);
    }
    for (unsigned i = 0; i < w->plan.queues; i++)
        ask(w, &(struct op){.kind = OP_QUEUE_GET, .queue = {.name = w->queues[i]}});
    drain_settle(w);
}

void drain(struct world *w)
{
    stop_faults(w);
    if (chance(w, 25) && w->bad.check == CHECK_NONE) {
        drain_settle(w);
        w->coverage->faults[FAULT_CLEAN_RESTART]++;
        server_crash(w);
        stop_faults(w);
    }
    drain_settle(w);
    resume_queues(w);
    work_off(w);
    drain_settle(w);
    if (w->plan.keepers && w->bad.check == CHECK_NONE && server_live(w) > 0)
        world_blame(w, CHECK_C10, "%llu jobs do not end", (unsigned long long)server_live(w));
    if (w->bad.check == CHECK_NONE && w->plan.keepers)
        keeper_deliver(w);
    if (w->bad.check == CHECK_NONE)
        last_reads(w);
    if (w->bad.check == CHECK_NONE && w->plan.keepers)
        keeper_last_reads(w);
    if (w->bad.check == CHECK_NONE)
        server_compare(w);
}
