/* SPDX-License-Identifier: Apache-2.0 */
/* The local backend without threads, loop or disk: engine, commit gate and payload cache.
 *
 * The gate holds each reply until what it depends on is durable. The cache has the bodies of jobs
 * that are not applied yet and, within its limit, of others; missing ones are requested in one
 * sorted batch. local.c drives this with an applier thread, the simulator with a virtual disk.
 *
 *   gate_submit → calls.frame, to be committed → … → gate_durable → calls.reply
 *                                                   ↘ calls.read, bodies → gate_bodies ↗
 *
 * What is durable can be recovered; what is applied can be read from the store, which may lag
 * behind. */
#pragma once

#include "backend/local/engine/engine.h"

struct commit_gate;

struct gate_calls {
    void *ctx;
    /* A frame to be committed, in order; valid until gate_durable passes its last position. */
    void (*frame)(void *ctx, struct span frame, uint64_t last);
    /* A reply. fn and fn_ctx are those of gate_submit. */
    void (*reply)(void *ctx, backend_reply_fn fn, void *fn_ctx, const struct reply *reply);
    /* A job became ready in this queue. */
    void (*wake)(void *ctx, uint32_t queue);
    /* Asks for a read after query->need is applied; `request` is passed back to gate_bodies. All it
     * needs is durable. The query itself is valid only during the call. The function may call
     * gate_bodies before it returns. */
    void (*read)(void *ctx, void *request, const struct store_query *query);
    /* The body of a job that was to be delivered is damaged: the job is set aside. NULL is
     * allowed. */
    void (*damaged)(void *ctx, const struct job_view *job);
};

struct gate_config {
    struct engine_config engine;
    uint64_t cache_bytes; /* 0 = no cache: every body is read */
    struct gate_calls calls;
};

MUST_CHECK int gate_new(const struct gate_config *config, struct commit_gate **ret);
void gate_free(struct commit_gate *g); /* drops everything outstanding, without replies */
struct engine *gate_engine(struct commit_gate *g);

/* To be called after engine_load and engine_replay: emits the first frame. */
MUST_CHECK int gate_boot(struct commit_gate *g, struct now now);
/* Takes a batch; replies are sent through calls.reply, never before this returns… */
MUST_CHECK int gate_submit(struct commit_gate *g, const struct op *ops, size_t count,
                           struct now now, backend_reply_fn fn, void *fn_ctx);
MUST_CHECK int gate_tick(struct commit_gate *g, struct now now);
/* …but from gate_flush (what need not wait, and all wake-ups) or gate_durable. */
void gate_flush(struct commit_gate *g, struct now now);
void gate_durable(struct commit_gate *g, uint64_t position, struct now now);
/* The store has records up to this position: bodies that were only in memory may be dropped. */
void gate_applied(struct commit_gate *g, uint64_t position);
/* The answer to calls.read; error ≠ 0 turns the reply into OUT_UNAVAILABLE. The arguments need not
 * outlast the call. For bodies there is no page; for a list the page has jobs, count, cursor and
 * as_of; for exceptions the attempts; for a history the hours; for a list of keys kvs. Keys that
 * were requested by name are in the query. */
struct gate_page {
    const struct job_view *jobs;
    uint32_t count;
    uint64_t cursor, as_of;
    const struct attempt_view *attempts;
    uint32_t attempt_count;
    const struct kv_view *kvs;
    uint32_t kv_count;
    struct span kv_cursor;
    const struct hour_view *hours;
    uint32_t hour_count;
};
void gate_bodies(struct commit_gate *g, void *request, const struct stored_body *bodies,
                 const struct gate_page *page, int error, struct now now);
/* Nothing more will become durable, because the disk is full and the server must stop. Everything
 * that waits for the disk gets OUT_UNKNOWN, queries get OUT_UNAVAILABLE, and the frames are no
 * longer used. Running reads still end in gate_bodies. Nothing may be submitted afterwards. Returns
 * how many replies were sent this way. */
size_t gate_abandon(struct commit_gate *g, struct now now);
bool gate_idle(const struct commit_gate *g);      /* nothing outstanding */
size_t gate_waiting(const struct commit_gate *g); /* replies that a caller waits for */
uint64_t gate_sent(const struct commit_gate *g);  /* replies sent so far */
uint64_t gate_durable_position(const struct commit_gate *g);
void gate_figures(const struct commit_gate *g, struct backend_figures *ret);
