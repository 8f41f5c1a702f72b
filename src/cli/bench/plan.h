/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a run of the load generator, and its results. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/containers/arena.h"
#include "cli/bench/histogram.h"
#include "cli/client/http/http.h"
#include "config/options.h"

enum bench_mode { BENCH_ENQUEUE, BENCH_CYCLE, BENCH_CLAIM, BENCH_HEALTHZ, BENCH_MIXED };

/* The kinds of requests that are measured separately. */
enum bench_kind {
    BENCH_KIND_ENQUEUE,
    BENCH_KIND_CLAIM,
    BENCH_KIND_ACK,
    BENCH_KIND_HEALTHZ,
    BENCH_KINDS
};

struct bench_tls;

struct bench_plan {
    enum bench_mode mode;
    const char *queue;     /* a name that needs no encoding */
    const char *host;      /* for the Host header */
    struct bench_tls *tls; /* NULL = http:// or unix: */
    const char *prefix;    /* before every path, "" or "/…" */
    struct sockaddr_storage address;
    socklen_t address_len;
    unsigned connections;
    unsigned threads;
    unsigned producers; /* of the connections; the rest are consumers. Only BENCH_MIXED */
    unsigned batch;
    unsigned pipeline;
    unsigned priorities;
    uint64_t payload_bytes;
    int64_t delay_ms;
    uint64_t backlog;
    int64_t duration_ms;
    uint64_t jobs;  /* 0: by duration */
    bool own_queue; /* created for the run, deleted after it */
    bool progress;  /* show progress on a terminal */
};

struct bench_result {
    struct bench_histogram latency[BENCH_KINDS]; /* nanoseconds */
    uint64_t enqueued;
    uint64_t acked;
    uint64_t errors;
    uint64_t elapsed_ns;
    char problem[256]; /* the first error, "" when none */
};

const char *bench_mode_name(enum bench_mode mode);
const char *bench_kind_name(enum bench_kind kind);
/* The jobs that count as done in this mode. */
uint64_t bench_result_jobs(const struct bench_plan *plan, const struct bench_result *result);
uint64_t bench_result_requests(const struct bench_result *result);

/* Reads the options. Texts are in the arena. -ERR_INVALID with a sentence, -ERR_IO if the
 * server's name cannot be resolved, -ERR_NOMEM. Free it with bench_plan_done. */
MUST_CHECK int bench_plan_build(const struct arguments *args, const struct client *client,
                                struct arena *arena, struct bench_plan *ret, struct err_note *note);
void bench_plan_done(struct bench_plan *p);
