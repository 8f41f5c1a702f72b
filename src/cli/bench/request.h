/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of the load generator as bytes, and the check of what is answered to them. */
#pragma once

#include "base/buf.h"
#include "base/digest/random.h"
#include "cli/bench/plan.h"
#include "cli/bench/reply.h"

#define BENCH_WAIT_MS 1000 /* how long a claim waits if jobs may still arrive */

/* Writes requests for one thread. */
struct bench_writer {
    const struct bench_plan *plan;
    struct random random; /* priorities */
    struct buf job;       /* a job object up to its priority: {"payload":"…" */
    struct buf body;      /* scratch */
    struct buf enqueue;   /* the whole request, when all are the same */
};

MUST_CHECK int bench_writer_init(struct bench_writer *w, const struct bench_plan *plan,
                                 uint64_t seed);
void bench_writer_done(struct bench_writer *w);
/* Each appends one request to out; -ERR_NOMEM. */
MUST_CHECK int bench_write_enqueue(struct bench_writer *w, unsigned jobs, struct buf *out);
MUST_CHECK int bench_write_claim(struct bench_writer *w, unsigned jobs, bool wait, struct buf *out);
MUST_CHECK int bench_write_healthz(struct bench_writer *w, struct buf *out);
/* Reads the reply to a claim and appends the request that acks the claimed jobs (nothing if no
 * job was claimed). -ERR_SYNTAX if it is not the reply to a claim, -ERR_NOMEM. */
MUST_CHECK int bench_write_ack(struct bench_writer *w, struct span answer, struct buf *out,
                               unsigned *ret_jobs);

/* The number of jobs of a request that failed according to the reply; 0 = success. */
unsigned bench_reply_errors(enum bench_kind kind, unsigned jobs, const struct bench_reply *reply);
