/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the load generator's threads. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "cli/bench/plan.h"
#include "cli/bench/request.h"

enum bench_role { BENCH_PRODUCER, BENCH_CONSUMER, BENCH_CYCLER, BENCH_PINGER };

enum bench_gate { BENCH_GATE_SHUT, BENCH_GATE_OPEN, BENCH_GATE_CANCELLED };

/* Shared by the threads of one run. */
struct bench_shared {
    const struct bench_plan *plan;
    pthread_mutex_t lock;
    pthread_cond_t opened;
    enum bench_gate gate; /* under lock */
    uint64_t start_ns,
        end_ns; /* set before the gate opens; end_ns is UINT64_MAX in a run by jobs */
    atomic_bool stop;
    _Atomic int64_t left;      /* jobs that no slot has taken yet; a run by jobs */
    _Atomic uint64_t settled;  /* acked or failed; a mixed run by jobs ends when these are all */
    _Atomic unsigned finished; /* threads */
};

struct bench_worker;
struct bench_connection;

struct bench_slot {
    struct bench_connection *connection;
    enum bench_kind kind; /* of the request under way */
    unsigned jobs;        /* in it */
    unsigned owed;        /* enqueued by this cycler and not acked */
    uint64_t sent_ns;
};

struct bench_connection {
    struct bench_worker *worker;
    enum bench_role role;
    int fd;                        /* -1: lost */
    struct bench_tls_session *tls; /* NULL = without */
    bool wants_room;               /* epoll watches for EPOLLOUT */
    struct buf in, out;
    size_t in_at, out_at; /* what has been used up */
    struct bench_slot *slots;
    struct bench_slot **ring; /* asked, not answered; plan->pipeline places */
    unsigned ring_at, ring_count;
};

struct bench_worker {
    struct bench_shared *shared;
    const struct bench_plan *plan;
    pthread_t thread;
    int epoll;
    struct bench_connection *connections;
    unsigned connection_count;
    unsigned asked; /* requests under way in all */
    struct bench_writer writer;
    struct bench_result result;
    uint64_t last_ns;           /* when the last counted answer came */
    uint64_t alive_ns;          /* when any answer came that was no empty claim */
    _Atomic uint64_t jobs_seen; /* for the progress bar */
    _Atomic uint64_t errors_seen;
    int error;
    struct err_note note;
};

/* ---- slots (bench/slot.c) ---- */

/* Begins a round: appends the slot's first request to its connection. Does nothing when the run is
 * over. -ERR_NOMEM. */
MUST_CHECK int bench_slot_begin(struct bench_slot *slot);
/* Takes the answer to the slot's request: checks, counts, and goes on. -ERR_NOMEM. */
MUST_CHECK int bench_slot_answer(struct bench_slot *slot, const struct bench_reply *reply,
                                 uint64_t now_ns);
/* The slot's request is over, or its connection lost: `failed` of its jobs were not done. */
void bench_slot_settle(struct bench_slot *slot, unsigned failed);
/* Counts an error, and keeps the text of the first one. */
void bench_worker_error(struct bench_worker *w, uint64_t count, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- threads (bench/connection.c) ---- */

MUST_CHECK int bench_connection_open(struct bench_connection *c);
void bench_connection_close(struct bench_connection *c);
/* Sends as much as the socket takes. */
MUST_CHECK int bench_connection_flush(struct bench_connection *c);
/* Reads the input and passes the replies to their slots. */
MUST_CHECK int bench_connection_read(struct bench_connection *c);
