/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of the load generator: each has its own connections, epoll and figures.
 *
 * A connection has `pipeline` slots. A slot has at most one request under way and goes through the
 * steps of its role: enqueue again and again, or enqueue, claim, ack. Answers come in the order of
 * the requests, so a connection keeps the slots it has asked for in a ring.
 *
 * The run ends when the time is over or the jobs are all taken; a slot then finishes its round, so
 * that nothing stays claimed. What is answered after the time is over is checked but not counted.
 */
#pragma once

#include "cli/bench/plan.h"

#define BENCH_STALL_MS 30000 /* without any answer: the run is given up */
#define BENCH_GRACE_MS 10000 /* for what is under way when the time is over */

/* Runs the plan to its end. ret is filled whenever 0 is returned, also when requests failed.
 * -ERR_IO with a sentence: a connection could not be opened. -ERR_NOMEM. SIGINT and SIGTERM must be
 * held back (client_interrupt_hold); either ends the run early, with the figures up to then, and
 * sets *ret_interrupted. */
MUST_CHECK int bench_run(const struct bench_plan *plan, struct bench_result *ret,
                         bool *ret_interrupted, struct err_note *note);
