/* SPDX-License-Identifier: Apache-2.0 */
/* Producers and workers: they send, wait, send again under the same key or token, give up, vanish
 * with a lease, and come back too late. */
#include <string.h>

#include "base/check.h"
#include "core/jobs/progress.h"
#include "sim/world/world.h"

/* ---- calls ----------------------------------------------------------------------------------- */

struct call *call_new(struct world *w, uint32_t client, enum op_kind kind, unsigned sends_max,
                      uint32_t *ret)
{
    w->calls = vec_room(w->calls, &w->call_room, w->call_count + 1, sizeof(*w->calls));
    *ret = (uint32_t)w->call_count++;
    struct call *call = &w->calls[*ret];
    *call = (struct call){.client = client,
                          .apart = w->clients[client].role == ROLE_KEEPER,
                          .sends_max = (uint8_t)sends_max,
                          .op = {.kind = kind}};
    return call;
}

void call_send(struct world *w, uint32_t number)
{
    struct call *call = &w->calls[number];
    const struct plan *p = &w->plan;
    if (call->sends == 0)
        w->clients[call->client].open++;
    call->sends++;
    int64_t net = w->draining ? 0 : between(w, 0, p->net_ms);
    if (!w->draining && p->lost_percent && chance(w, p->lost_percent))
        w->coverage->faults[FAULT_REQUEST_LOST]++;
    else
        schedule(w, net, SIM_ARRIVE, number, 0);
    if (!w->draining && p->duplicate_percent && chance(w, p->duplicate_percent)) {
        w->coverage->faults[FAULT_REQUEST_TWICE]++;
        schedule(w, between(w, 0, chance(w, 50) ? 20 : p->late_ms), SIM_ARRIVE, number, 0);
    }
    int64_t patience = w->draining ? 100000 : between(w, 100, 1500) + p->commit_ms;
    schedule(w, patience, SIM_TIMEOUT, number, call->sends);
}

static void go_on(struct world *w, uint32_t client, int64_t delay)
{
    schedule(w, delay, SIM_CLIENT, client, 0);
}

/* The client stops waiting for the call. */
static void call_close(struct world *w, struct call *call)
{
    struct client *client = &w->clients[call->client];
    call->done = true;
    CHECK(client->open > 0);
    if (--client->open == 0 && client->role != ROLE_DRAIN && !w->draining)
        go_on(w, call->client, between(w, 0, w->plan.think_ms));
}

static void give_back(struct world *w, uint32_t client, uint64_t nonce)
{
    uint32_t number;
    struct call *call = call_new(w, client, OP_RELEASE_CLAIM, 3, &number);
    call->op.release_claim.nonce = nonce;
    call_send(w, number);
}

void client_timeout(struct world *w, uint32_t number, unsigned send)
{
    struct call *call = &w->calls[number];
    if (call->done || call->sends != send || w->draining)
        return;
    if (call->sends < call->sends_max) {
        w->coverage->faults[FAULT_REQUEST_AGAIN]++;
        call_send(w, number);
        return;
    }
    if (call->op.kind == OP_CLAIM)
        give_back(w, call->client, call->op.claim.nonce);
    call_close(w, &w->calls[number]);
}

void seq_seen(struct world *w, uint64_t seq)
{
    if (seq == 0)
        return;
    for (size_t i = w->seq_count; i-- > 0;)
        if (w->seqs[i] == seq)
            return;
    w->seqs = vec_room(w->seqs, &w->seq_room, w->seq_count + 1, sizeof(*w->seqs));
    w->seqs[w->seq_count++] = seq;
}

struct span any_queue(struct world *w)
{
    return w->queues[between(w, 0, w->plan.queues - 1)];
}

/* ---- producers ------------------------------------------------------------------------------- */

/* Large ones may be over the queue's limit. */
static struct span make_payload(struct world *w, uint32_t number)
{
    size_t len = (size_t)between(w, 8, chance(w, 90) ? 60 : 400);
    if (has(&w->plan, FEATURE_LARGE_PAYLOADS) && chance(w, w->plan.payload_max > 2000 ? 3 : 10))
        len = (size_t)between(w, w->plan.payload_max / 2, w->plan.payload_max);
    struct span head = pool_text(&w->pool, "c%u:", number);
    char *bytes = pool_alloc(&w->pool, head.len + len);
    memcpy(bytes, head.at, head.len);
    for (size_t i = head.len; i < head.len + len; i++)
        bytes[i] = i < 500 ? (char)(random_next(&w->random) >> 32) : bytes[i - 500 + head.len];
    return span_of(bytes, head.len + len);
}

static const struct job_options *make_options(struct world *w)
{
    struct job_options *o = pool_alloc(&w->pool, sizeof(*o));
    if (chance(w, 50))
        o->max_attempts = (uint16_t)between(w, 1, 4);
    if (chance(w, 50))
        o->max_crashes = (uint16_t)between(w, 1, 4);
    if (chance(w, 50))
        o->lease_ms = (uint32_t)between(w, LIMIT_LEASE_MS_MIN, w->plan.lease_ms);
    if (chance(w, 50)) {
        o->has_backoff = true;
        o->backoff.kind = BACKOFF_LIST;
        o->backoff.step_count = (uint8_t)between(w, 0, 3);
        for (unsigned i = 0; i < o->backoff.step_count; i++)
            o->backoff.step_ms[i] = (uint32_t)between(w, 0, 800);
    }
    return o;
}

static void choose_time(struct world *w, struct op_enqueue *op)
{
    const struct plan *p = &w->plan;
    int64_t wall = world_now(w).wall.ms;
    if (has(p, FEATURE_DELAYS) && chance(w, 35)) {
        if (chance(w, 50))
            op->delay_ms = between(w, 1, 2000);
        else
            op->run_at.ms = wall + between(w, -500, 2000);
    }
    if (has(p, FEATURE_EXPIRY) && chance(w, 25))
        op->extra.expires_at.ms = wall + between(w, 20, 4000);
}

static void choose_keys(struct world *w, uint32_t number, struct op_enqueue *op)
{
    const struct plan *p = &w->plan;
    if (has(p, FEATURE_UNIQUE) && chance(w, 50)) {
        op->extra.unique =
            pool_text(&w->pool, "u%lld", (long long)between(w, 1, (int64_t)p->keys_in_use));
        op->unique_mode = (uint8_t)between(w, UNIQUE_QUEUE_DEFAULT, UNIQUE_REPLACE);
        if (w->last_unique.len && chance(w, 40)) { /* soon after the first: still being written */
            op->extra.unique = w->last_unique;
            op->queue = w->last_unique_queue;
        }
        w->last_unique = op->extra.unique;
        w->last_unique_queue = op->queue;
    }
    if (has(p, FEATURE_GROUPS) && chance(w, 50))
        op->extra.group = pool_text(&w->pool, "g%lld", (long long)between(w, 1, 3));
    if (!has(p, FEATURE_KEYS) || chance(w, 15))
        return;
    op->idempotency_key = pool_text(&w->pool, "k%u", number);
    op->fingerprint = number;
    if (w->last_keyed && chance(w, 3)) /* the same key for something else */
        op->idempotency_key = w->calls[w->last_keyed].op.enqueue.idempotency_key;
    w->last_keyed = number;
}

static void enqueue(struct world *w, uint32_t client)
{
    uint32_t number;
    struct call *call = call_new(w, client, OP_ENQUEUE, 4, &number);
    struct op_enqueue op = {.queue = any_queue(w), .payload_kind = PAYLOAD_BYTES};
    op.no_create = chance(w, 2);
    op.payload = make_payload(w, number);
    if (has(&w->plan, FEATURE_PRIORITIES) && chance(w, 70)) {
        op.has_priority = true;
        op.priority = chance(w, 90) ? between(w, -3, 3) : between(w, -1000000, 1000000);
    }
    if (has(&w->plan, FEATURE_OPTIONS) && chance(w, 40))
        op.options = make_options(w);
    choose_time(w, &op);
    choose_keys(w, number, &op);
    call->op.enqueue = op;
    if (!op.idempotency_key.len)
        call->sends_max = (uint8_t)(chance(w, 20) ? 2 : 1); /* a retry may make a second job */
    call_send(w, number);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void choose_queues(struct world *w, struct op_claim *op)
{
    uint32_t count = 1;
    if (has(&w->plan, FEATURE_MULTI_CLAIM) && chance(w, 50))
        count = (uint32_t)between(w, 1, w->plan.queues);
    uint32_t first = (uint32_t)between(w, 0, w->plan.queues - 1);
    struct span *queues = pool_alloc(&w->pool, count * sizeof(*queues));
    for (uint32_t i = 0; i < count; i++)
        queues[i] = w->queues[(first + i) % w->plan.queues];
    op->queues = queues;
    op->queue_count = count;
}

static void claim(struct world *w, uint32_t client)
{
    uint32_t number;
    struct call *call = call_new(w, client, OP_CLAIM, 1, &number);
    struct op_claim *op = &call->op.claim;
    op->count = (uint32_t)between(w, 1, w->plan.claim_count);
    if (has(&w->plan, FEATURE_SEIZE) && w->seq_count && chance(w, 10)) {
        op->one.seq = w->seqs[between(w, 0, (int64_t)w->seq_count - 1)];
        op->count = 1;
    } else {
        choose_queues(w, op);
    }
    if (chance(w, 40))
        op->lease_ms = (uint32_t)between(w, LIMIT_LEASE_MS_MIN, w->plan.lease_ms);
    if (chance(w, 50))
        op->worker = pool_text(&w->pool, "w%u", client);
    if (chance(w, 1))
        op->lease_ms = 1; /* too short: refused */
    op->bound = has(&w->plan, FEATURE_BOUND) && chance(w, 50);
    op->want_body = !chance(w, 5);
    op->nonce = ++w->nonce;
    call_send(w, number);
}

static void start_tasks(struct world *w, const struct hist_entry *e, uint32_t client)
{
    for (uint32_t i = 0; i < e->job_count; i++) {
        w->tasks = vec_room(w->tasks, &w->task_room, w->task_count + 1, sizeof(*w->tasks));
        struct task *t = &w->tasks[w->task_count];
        *t = (struct task){.client = client,
                           .seq = e->jobs[i].job.seq,
                           .id_hi = e->jobs[i].job.id_hi,
                           .token = e->jobs[i].token,
                           .lease_ms = e->jobs[i].lease_ms,
                           .bound = e->op.claim.bound};
        int64_t work = chance(w, 80) ? between(w, 0, t->lease_ms / 2) : between(w, 0, t->lease_ms);
        schedule(w, work, SIM_TASK, (uint32_t)w->task_count++, 0);
    }
}

static struct call *task_call(struct world *w, const struct task *t, enum op_kind kind,
                              uint32_t *ret)
{
    struct call *call = call_new(w, t->client, kind, 4, ret);
    call->op.lease.job = (struct job_ref){t->seq, chance(w, 50) ? t->id_hi : 0};
    call->op.lease.token = t->token;
    if (has(&w->plan, FEATURE_ANY_TOKEN) && chance(w, 10))
        call->op.lease.any_token = true;
    return call;
}

static void finish(struct world *w, const struct task *t)
{
    uint32_t number;
    struct call *call = task_call(w, t, OP_ACK, &number);
    if (chance(w, 30)) {
        call->op.lease.result_kind = PAYLOAD_BYTES;
        call->op.lease.result = pool_text(&w->pool, "result of %llu", (unsigned long long)t->seq);
    }
    call_send(w, number);
}

static void fail(struct world *w, const struct task *t)
{
    uint32_t number;
    struct op_lease *op = &task_call(w, t, OP_FAIL, &number)->op.lease;
    if (chance(w, 70))
        op->error = SPAN_LITERAL("it did not work");
    op->error_kind = chance(w, 50) ? ERROR_APP : ERROR_BUSINESS;
    op->no_retry = chance(w, 8);
    if (has(&w->plan, FEATURE_DELAYS) && chance(w, 25)) {
        op->has_delay = true;
        if (chance(w, 50))
            op->delay_ms = between(w, 0, 1500);
        else
            op->run_at.ms = world_now(w).wall.ms + between(w, -100, 1500);
    }
    call_send(w, number);
}

static void release(struct world *w, const struct task *t)
{
    uint32_t number;
    struct op_lease *op = &task_call(w, t, OP_RELEASE, &number)->op.lease;
    if (t->bound && chance(w, 60)) {
        w->coverage->faults[FAULT_CONNECTION_LOST]++;
        op->lost = true;
    } else if (has(&w->plan, FEATURE_DELAYS) && chance(w, 25)) {
        op->has_delay = true;
        op->delay_ms = between(w, 0, 1000);
    }
    call_send(w, number);
}

static void extend(struct world *w, uint32_t task)
{
    uint32_t number;
    const struct task t = w->tasks[task];
    struct op_lease *op = &task_call(w, &t, OP_EXTEND, &number)->op.lease;
    if (chance(w, 40))
        op->lease_ms = (uint32_t)between(w, LIMIT_LEASE_MS_MIN, w->plan.lease_ms);
    call_send(w, number);
    schedule(w, between(w, 0, t.lease_ms), SIM_TASK, task, 0);
}

static void progress(struct world *w, const struct task *t)
{
    uint32_t number;
    struct op_lease *op = &task_call(w, t, OP_PROGRESS, &number)->op.lease;
    struct progress *p = pool_alloc(&w->pool, sizeof(*p));
    p->message = pool_text(&w->pool, "progress of %llu in #%u", (unsigned long long)t->seq, number);
    p->has_percent = chance(w, 50);
    p->percent_100 = p->has_percent ? (uint16_t)between(w, 0, 10000) : 0;
    op->progress = p;
    if (chance(w, 40))
        op->lease_ms = (uint32_t)between(w, LIMIT_LEASE_MS_MIN, w->plan.lease_ms);
    call_send(w, number);
}

static void log_lines(struct world *w, const struct task *t)
{
    uint32_t number;
    struct op_lease *op = &task_call(w, t, OP_LOG, &number)->op.lease;
    uint32_t count = (uint32_t)between(w, 1, 3);
    struct span *lines = pool_alloc(&w->pool, count * sizeof(*lines));
    for (uint32_t i = 0; i < count; i++)
        lines[i] = pool_text(&w->pool, "line %u of #%u", i, number);
    op->lines = lines;
    op->line_count = chance(w, 2) ? 0 : count; /* none: refused */
    call_send(w, number);
}

/* No two requests store the same result. */
static void step(struct world *w, const struct task *t)
{
    uint32_t number;
    struct op_lease *op = &task_call(w, t, OP_STEP, &number)->op.lease;
    op->step = pool_text(&w->pool, "s%u", (unsigned)between(w, 0, 2));
    op->result = chance(w, 2) ? SPAN_LITERAL("refused") : pool_text(&w->pool, "[%u]", number);
    op->result_kind = PAYLOAD_JSON;
    call_send(w, number);
}

void client_task(struct world *w, uint32_t task)
{
    if (w->draining)
        return;
    struct task *t = &w->tasks[task];
    const struct plan *p = &w->plan;
    unsigned roll = (unsigned)between(w, 0, 99);
    bool again = t->steps++ > 0 && t->steps > 4;
    if (has(p, FEATURE_EXTENDS) && chance(w, 25)) /* and what comes next may overtake it */
        chance(w, 50) ? progress(w, t) : log_lines(w, t);
    if (has(p, FEATURE_EXTENDS) && chance(w, 25))
        step(w, t);
    if (again || roll < 45)
        finish(w, t);
    else if (roll < 62 && has(p, FEATURE_FAILS))
        fail(w, t);
    else if (roll < 72 && has(p, FEATURE_RELEASES))
        release(w, t);
    else if (roll < 84 && has(p, FEATURE_EXTENDS))
        extend(w, task);
    else if (roll < 96 && has(p, FEATURE_VANISHES))
        t->steps += 2;
    else
        finish(w, t);
    if (t->steps < 4 && chance(w, 15)) /* says something more, perhaps long after */
        schedule(w, between(w, 0, 3 * (int64_t)w->tasks[task].lease_ms), SIM_TASK, task, 0);
}

/* ---- what clients do ------------------------------------------------------------------------- */

void client_act(struct world *w, uint32_t client)
{
    if (w->draining || w->call_count > w->plan.calls || w->clients[client].open > 0)
        return;
    switch (w->clients[client].role) {
    case ROLE_PRODUCER:
        for (int64_t n = chance(w, 20) ? between(w, 2, 6) : 1; n > 0; n--)
            enqueue(w, client);
        break;
    case ROLE_WORKER:
        claim(w, client);
        break;
    case ROLE_ADMIN:
        admin_act(w, client);
        break;
    case ROLE_KEEPER:
        keeper_act(w, client);
        break;
    case ROLE_DRAIN:
    case ROLE_COUNT:
        break;
    }
}

void client_wake(struct world *w)
{
    w->wake_total++;
    for (uint32_t i = 0; i < w->client_count; i++) {
        if (!w->clients[i].parked)
            continue;
        w->clients[i].parked = false;
        go_on(w, i, between(w, 0, 5));
    }
}

/* An empty answer: wait for a signal or, since a wake-up may be for someone else, a while. */
static void park(struct world *w, uint32_t client)
{
    w->clients[client].parked = true;
    go_on(w, client, between(w, 20, 600));
}

static void claim_answered(struct world *w, const struct hist_entry *e, uint32_t client)
{
    if (e->reply.outcome == OUT_UNKNOWN)
        give_back(w, client, e->op.claim.nonce);
    else if (e->reply.outcome != OUT_OK || e->job_count == 0)
        park(w, client);
    else if (chance(w, 4)) { /* the connection broke while the answer was being written */
        w->coverage->faults[FAULT_REPLY_CUT]++;
        give_back(w, client, e->op.claim.nonce);
    } else
        start_tasks(w, e, client);
}

void client_answer(struct world *w, size_t entry)
{
    const struct hist_entry *e = &w->history.entries[entry];
    struct call *call = &w->calls[e->call];
    if (e->reply.seq && e->reply.outcome == OUT_OK && !e->apart)
        seq_seen(w, e->reply.seq);
    for (uint32_t i = 0; i < e->job_count && !e->apart; i++)
        seq_seen(w, e->jobs[i].job.seq);
    if (call->done || (w->draining && w->clients[call->client].role != ROLE_DRAIN))
        return;
    uint32_t client = call->client;
    bool again = e->reply.outcome == OUT_UNAVAILABLE && call->sends < call->sends_max;
    if (again) {
        call_send(w, e->call);
        return;
    }
    if (e->apart && !w->draining)
        keeper_answered(w, entry, client);
    else if (e->op.kind == OP_CLAIM && !w->draining)
        claim_answered(w, e, client);
    call_close(w, &w->calls[e->call]);
}
