/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a slot: which request follows which answer, and what counts. */
#include <stdarg.h>
#include <stdio.h>

#include "base/system/clock.h"
#include "cli/bench/worker_impl.h"
#include "cli/client/answer.h"

#define CLAIM_MOST 1000 /* what a claim may ask for */

void bench_worker_error(struct bench_worker *w, uint64_t count, const char *format, ...)
{
    if (w->result.errors == 0) {
        va_list args;
        va_start(args, format);
        vsnprintf(w->result.problem, sizeof w->result.problem, format, args);
        va_end(args);
    }
    w->result.errors += count;
    atomic_fetch_add_explicit(&w->errors_seen, count, memory_order_relaxed);
}

static bool run_is_over(const struct bench_worker *w, uint64_t now_ns)
{
    return now_ns >= w->shared->end_ns ||
           atomic_load_explicit(&w->shared->stop, memory_order_relaxed);
}

/* How many of `want` jobs this slot may take; 0 if the run is over. */
static unsigned jobs_take(struct bench_worker *w, unsigned want)
{
    if (run_is_over(w, clock_ns()))
        return 0;
    if (w->plan->jobs == 0)
        return want;
    int64_t before =
        atomic_fetch_sub_explicit(&w->shared->left, (int64_t)want, memory_order_relaxed);
    if (before <= 0)
        return 0;
    return before < (int64_t)want ? (unsigned)before : want;
}

/* The request has been appended; its reply is expected from now on. */
static void asked(struct bench_slot *slot, enum bench_kind kind, unsigned jobs)
{
    struct bench_connection *c = slot->connection;
    slot->kind = kind;
    slot->jobs = jobs;
    slot->sent_ns = clock_ns();
    c->ring[(c->ring_at + c->ring_count++) % c->worker->plan->pipeline] = slot;
    c->worker->asked++;
}

static int enqueue(struct bench_slot *slot)
{
    struct bench_worker *w = slot->connection->worker;
    unsigned jobs = jobs_take(w, w->plan->batch);
    int rc = jobs > 0 ? bench_write_enqueue(&w->writer, jobs, &slot->connection->out) : 0;
    if (rc == 0 && jobs > 0)
        asked(slot, BENCH_KIND_ENQUEUE, jobs);
    return rc;
}

static int claim(struct bench_slot *slot, unsigned jobs, bool wait)
{
    struct bench_worker *w = slot->connection->worker;
    int rc = bench_write_claim(&w->writer, jobs, wait, &slot->connection->out);
    if (rc == 0)
        asked(slot, BENCH_KIND_CLAIM, jobs);
    return rc;
}

static bool all_settled(const struct bench_worker *w)
{
    return w->plan->jobs > 0 &&
           atomic_load_explicit(&w->shared->settled, memory_order_relaxed) >= w->plan->jobs;
}

/* A consumer of a mixed run waits for jobs of the producers; one of a claim run takes the jobs
 * that are ready. */
static int consume(struct bench_slot *slot)
{
    struct bench_worker *w = slot->connection->worker;
    if (w->plan->mode == BENCH_MIXED)
        return run_is_over(w, clock_ns()) || all_settled(w) ? 0 : claim(slot, w->plan->batch, true);
    unsigned jobs = jobs_take(w, w->plan->batch);
    return jobs > 0 ? claim(slot, jobs, false) : 0;
}

static int ping(struct bench_slot *slot)
{
    struct bench_worker *w = slot->connection->worker;
    unsigned jobs = jobs_take(w, 1);
    int rc = jobs > 0 ? bench_write_healthz(&w->writer, &slot->connection->out) : 0;
    if (rc == 0 && jobs > 0)
        asked(slot, BENCH_KIND_HEALTHZ, jobs);
    return rc;
}

int bench_slot_begin(struct bench_slot *slot)
{
    static int (*const begin[])(struct bench_slot *) = {
        [BENCH_PRODUCER] = enqueue,
        [BENCH_CYCLER] = enqueue,
        [BENCH_CONSUMER] = consume,
        [BENCH_PINGER] = ping,
    };
    return begin[slot->connection->role](slot);
}

/* ---- answers ----------------------------------------------------------------------------------
 */

static int owed_claim(struct bench_slot *slot)
{
    return claim(slot, slot->owed < CLAIM_MOST ? slot->owed : CLAIM_MOST, true);
}

/* Claimed jobs are acked at once, also when the run is over. */
static int claimed(struct bench_slot *slot, const struct bench_reply *reply)
{
    struct bench_worker *w = slot->connection->worker;
    unsigned jobs = 0;
    size_t before = slot->connection->out.len;
    int rc = bench_write_ack(&w->writer, reply->body, &slot->connection->out, &jobs);
    if (rc == -ERR_SYNTAX) {
        slot->connection->out.len = before;
        bench_worker_error(w, 1, "the answer to a claim cannot be read");
        return 0;
    }
    if (rc < 0)
        return rc;
    if (jobs > 0) {
        w->alive_ns = clock_ns();
        asked(slot, BENCH_KIND_ACK, jobs);
        return 0;
    }
    if (slot->connection->role == BENCH_CYCLER)
        return owed_claim(slot);
    return w->plan->mode == BENCH_MIXED ? bench_slot_begin(slot) : 0;
}

static int acked(struct bench_slot *slot)
{
    slot->owed -= slot->jobs < slot->owed ? slot->jobs : slot->owed;
    return slot->owed > 0 ? owed_claim(slot) : bench_slot_begin(slot);
}

static void error_of(struct bench_slot *slot, const struct bench_reply *reply, unsigned errors)
{
    struct arena arena;
    arena_init(&arena);
    struct span said = client_answer_text(reply->body, "detail", &arena);
    if (said.len == 0)
        said = span_of(reply->body.at, reply->body.len < 120 ? reply->body.len : 120);
    bench_worker_error(slot->connection->worker, errors, "%s answered %d: %.*s",
                       bench_kind_name(slot->kind), reply->status, (int)said.len, said.at);
    arena_done(&arena);
}

/* Jobs that no consumer has to wait for any more: acked, or never enqueued. */
void bench_slot_settle(struct bench_slot *slot, unsigned failed)
{
    unsigned jobs = slot->kind == BENCH_KIND_ACK       ? slot->jobs
                    : slot->kind == BENCH_KIND_ENQUEUE ? failed
                                                       : 0;
    atomic_fetch_add_explicit(&slot->connection->worker->shared->settled, jobs,
                              memory_order_relaxed);
}

static void count(struct bench_slot *slot, unsigned done, uint64_t now_ns)
{
    struct bench_worker *w = slot->connection->worker;
    if (slot->kind != BENCH_KIND_CLAIM)
        w->alive_ns = now_ns;
    if (now_ns > w->shared->end_ns)
        return;
    bench_histogram_add(&w->result.latency[slot->kind], now_ns - slot->sent_ns);
    if (slot->kind != BENCH_KIND_CLAIM) /* a claim that got no job does not extend the run */
        w->last_ns = now_ns;
    if (slot->kind == BENCH_KIND_ENQUEUE)
        w->result.enqueued += done;
    if (slot->kind == BENCH_KIND_ACK)
        w->result.acked += done;
    atomic_store_explicit(&w->jobs_seen, bench_result_jobs(w->plan, &w->result),
                          memory_order_relaxed);
}

int bench_slot_answer(struct bench_slot *slot, const struct bench_reply *reply, uint64_t now_ns)
{
    unsigned errors = bench_reply_errors(slot->kind, slot->jobs, reply);
    count(slot, slot->jobs > errors ? slot->jobs - errors : 0, now_ns);
    bench_slot_settle(slot, errors);
    if (errors > 0)
        error_of(slot, reply, errors);
    if (slot->kind == BENCH_KIND_CLAIM)
        return errors == 0 ? claimed(slot, reply) : bench_slot_begin(slot);
    if (slot->kind == BENCH_KIND_ACK)
        return acked(slot);
    if (slot->kind == BENCH_KIND_ENQUEUE && slot->connection->role == BENCH_CYCLER) {
        slot->owed += slot->jobs - (errors < slot->jobs ? errors : slot->jobs);
        return slot->owed > 0 ? owed_claim(slot) : bench_slot_begin(slot);
    }
    return bench_slot_begin(slot);
}
