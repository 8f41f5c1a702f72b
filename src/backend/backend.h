/* SPDX-License-Identifier: Apache-2.0 */
/* The backend interface, for callers.
 *
 * Everything happens on the thread that runs the loop. backend_submit never calls back before it
 * returns; each op gets exactly one reply. Operations of one batch take effect in their order, and
 * so do the batches of one submitter; replies may come in another order (a claim need not wait for
 * the disk). Claims never wait for jobs: park the client, watch the queue, claim again.
 *
 * OUT_UNAVAILABLE: surely not done. OUT_UNKNOWN: perhaps done; repeat an enqueue under the same
 * idempotency key, an ack, fail, extend or release with the same token, and give back a claim with
 * OP_RELEASE_CLAIM and its nonce. */
#pragma once

#include <uv.h>

#include "backend/op.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"

struct backend;
struct backend_watch;

/* What differs between stores. */
enum backend_cap {
    CAP_STRICT_ORDER = 1u << 0,  /* claims follow (priority, sequence) exactly */
    CAP_DURABLE_REPLY = 1u << 1, /* a success is on stable storage */
    CAP_UNIQUE_GLOBAL = 1u << 2, /* unique keys hold across nodes */
    CAP_SHARED = 1u << 3,        /* several nodes may use the store */
};

struct backend_config {
    uv_loop_t *loop;
    struct clock clock;
    const struct log *log;             /* may be NULL */
    const struct queue_policy *policy; /* for queues made by the first enqueue; NULL = default */
    bool no_auto_create;
    unsigned node;        /* 0 … ID_NODE_MAX, part of every id */
    uint64_t capacity;    /* live jobs in all; 0 = no limit */
    uint64_t cache_bytes; /* payloads kept in memory; 0 = 64 MiB */
    uint64_t key_ttl_ms;  /* idempotency keys; 0 = 24 h */
    uint64_t keys_max;    /* 0 = 4,000,000 */
    uint64_t seed;        /* jitter; 0 = from the kernel */
    /* The store failed for good; must not return to normal work. NULL = abort. */
    void (*fatal)(void *ctx, const char *why);
    void *fatal_ctx;
};

/* Opens "sqlite:DIR", "memory:". Blocks while it recovers. The note (may be NULL) says why not. */
MUST_CHECK int backend_open(const char *url, const struct backend_config *config,
                            struct backend **ret, struct err_note *note);

typedef void (*backend_reply_fn)(void *ctx, const struct reply *reply);
/* -ERR_CLOSED once backend_close was called, -ERR_NOMEM: no op was taken; nothing is called back.
 */
MUST_CHECK int backend_submit(struct backend *b, const struct op *ops, size_t count,
                              backend_reply_fn fn, void *ctx);

/* After it returns, any job of the queue that becomes ready gives at least one signal (spurious
 * ones happen). A queue that does not exist yet can be watched. */
typedef void (*backend_signal_fn)(void *ctx);
MUST_CHECK int backend_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                             struct backend_watch **ret);
void backend_unwatch(struct backend *b, struct backend_watch *w); /* w may be NULL */

unsigned backend_caps(const struct backend *b);
const char *backend_kind(const struct backend *b); /* "sqlite", "memory", "fault+memory", … */
/* Figures for metrics; a backend fills what it has. */
struct backend_figures {
    uint64_t position, durable; /* records made, records on stable storage */
    uint64_t commits, commit_ns_total, commit_ns_last;
    uint64_t jobs, bytes; /* resident jobs, memory of the index */
    uint64_t cache_bytes, cache_hits, cache_misses;
    bool clock_suspect; /* the wall clock leapt: nothing expires, history is not pruned */
};
void backend_figures(const struct backend *b, struct backend_figures *ret);

/* Answers everything outstanding, makes it durable, then calls back; b is gone then. */
typedef void (*backend_closed_fn)(void *ctx);
void backend_close(struct backend *b, backend_closed_fn fn, void *ctx);
