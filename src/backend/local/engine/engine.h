/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: which job runs next, in memory.
 *
 * It is a deterministic state machine: engine_step(engine, ops, now) returns records, replies and
 * wake-ups. It makes no system calls, reads no clock and has no globals. The same inputs give the
 * same outputs, so it can be simulated from a seed. Every change is first a record
 * (core/records/record.h), which becomes state in engine_apply, the function that recovery calls.
 *
 * Positions: record number n of the store has position n (1, 2, …). The `after` of a reply is the
 * position up to which records must be durable before the reply is sent. A claim depends on the
 * last record of each job that it returns, not on its own record; all else depends on all earlier
 * records.
 *
 * Time: leases use monotonic time, without the time in which the process was suspended (a gap of
 * more than stall_ms between steps). run_at, expiry and retention use wall time. If wall time moves
 * ahead of monotonic time by more than jump_ms in one step, they stop until an operator accepts the
 * clock.
 *
 * Memory: an op for which memory is lacking is refused with OUT_UNAVAILABLE and changes nothing:
 * each op reserves what its records need before it emits the first of them.
 *
 * src/backend/local/engine may use ops, core and base, and of the backend only its interface. It
 * uses neither the journal nor SQLite. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/local/store/store.h"
#include "base/buf.h"
#include "base/containers/arena.h"
#include "base/system/clock.h"
#include "ops/defects.h"
#include "ops/op.h"

struct engine;

struct engine_config {
    struct queue_policy policy; /* for queues made by the first enqueue */
    bool no_auto_create;
    struct queue_limits queue_limits;
    unsigned node;
    uint64_t capacity;   /* live jobs in all; 0 = no limit */
    uint64_t key_ttl_ms; /* idempotency keys */
    uint64_t keys_max;
    uint64_t kv_keys_max;  /* key-value store: keys; 0 = 1,000,000 … */
    uint64_t kv_bytes_max; /* … and bytes of keys and values; 0 = 1 GiB */
    uint32_t kept_replies; /* a power of two; 0 = LIMIT_KEPT_REPLIES */
    uint32_t seq_block;    /* sequences reserved at a time; 0 = 4,096 */
    uint32_t slice;        /* records of housekeeping a tick may write; 0 = LIMIT_SLICE */
    uint32_t event_ring;   /* events kept, a power of two; 0 = 16,384 */
    int64_t stall_ms;      /* 0 = 1,000 */
    int64_t jump_ms;       /* 0 = 1 hour */
    bool still;            /* a boot ends no leases, see backend_config */
    bool leases_wait;      /* a lease begins with engine_lease_started, not with its claim */
    uint64_t seed;         /* jitter */
#ifdef HF_TEST_HOOKS
    unsigned defects; /* enum engine_defect: planted mistakes, see defects.h */
#endif
};

void engine_config_default(struct engine_config *c);

/* One reply with what it waits for. */
struct engine_reply {
    struct reply reply;
    uint64_t after; /* position that must be durable before it leaves; 0 = leaves at once */
    /* The bodies the reply still needs, one per job view: filled by commit_gate.c. */
    struct job_view *views; /* the same as reply.jobs, writable; NULL = none */
    bool want_body;
    bool texts_only; /* … without payload and result */
    bool want_attempts;
    bool want_log;
    const struct op_list *list;             /* the page to be read from the store; NULL = none */
    const struct op_exceptions *exceptions; /* likewise */
    const struct op_kv_list *kv_list;       /* likewise */
    struct kv_view *kv_views;               /* the same as reply.kvs, writable; NULL = none */
    bool want_values;
    const struct op_history *history; /* likewise */
    const struct op *op;
};

/* The output of one step; reused from step to step, so that a steady state allocates nothing. */
struct engine_out {
    struct buf frame; /* empty when nothing changed */
    uint64_t first;   /* position of the frame's first record */
    uint32_t count;   /* records in the frame */
    struct engine_reply *replies;
    size_t reply_count, reply_room;
    uint32_t *wakes; /* numbers of queues in which a job became ready; each once */
    size_t wake_count, wake_room;
    struct arena arena; /* what replies point to */
};

void engine_out_init(struct engine_out *out);
void engine_out_done(struct engine_out *out);
void engine_out_reset(struct engine_out *out);

MUST_CHECK int engine_new(const struct engine_config *config, struct engine **ret);
void engine_free(struct engine *e);

/* Start: load everything a store has (once, before anything else), replay newer frames if there are
 * any, then boot. */
MUST_CHECK int engine_load(struct engine *e, struct store *store, struct err_note *note);
MUST_CHECK int engine_replay(struct engine *e, struct span frame, struct err_note *note);
/* Raises the epoch, re-arms each lease at its full time, takes back leases bound to a connection.
 * The frame that it creates must be durable before the first step. */
MUST_CHECK int engine_boot(struct engine *e, struct now now, struct engine_out *out);

/* Handles the ops in order. Each op gets its reply in this step, but for OP_BULK, whose reply comes
 * with the tick that finishes it. OP_LIST, OP_KV_LIST, OP_EXCEPTIONS, OP_HISTORY, want_body,
 * want_value and want_attempts leave the reading to the caller. */
MUST_CHECK int engine_step(struct engine *e, const struct op *ops, size_t count, struct now now,
                           struct engine_out *out);

/* Tells the engine the time when no step does. A silence of more than stall_ms counts as a
 * suspended process, so call this function (or engine_step) more often than that. */
void engine_look(struct engine *e, struct now now);
/* When the next tick has something to do: 0 = at once (unfinished slices), INT64_MAX = nothing
 * is due. */
int64_t engine_next_tick_ms(const struct engine *e, struct now now);
/* A claim's reply has left: its lease begins now. */
void engine_lease_started(struct engine *e, uint64_t seq, struct job_token token, struct now now);
/* While the disk is full enqueues are refused, at once; all else waits for room. */
void engine_set_full(struct engine *e, bool full);
/* The operator has looked at the clock. */
void engine_accept_clock(struct engine *e);
bool engine_clock_suspect(const struct engine *e);

/* Records up to this position are durable: events that depend on no later record become visible. */
void engine_events_durable(struct engine *e, uint64_t position);
/* As backend_events and backend_events_last say. */
size_t engine_events(const struct engine *e, uint64_t after, uint64_t mask,
                     struct backend_event *out, size_t max, uint64_t *ret_oldest);
uint64_t engine_events_last(const struct engine *e);

/* Bulk actions that owe a reply. */
size_t engine_bulks_waiting(const struct engine *e);
uint64_t engine_position(const struct engine *e);
uint32_t engine_epoch(const struct engine *e);
struct hash_key engine_hash_key(const struct engine *e);
/* Until the lease of this token runs out, ≥ 0; -1 = it has ended, or no end is known. */
int64_t engine_lease_left_ms(struct engine *e, uint64_t seq, struct job_token token,
                             struct now now);
enum job_state engine_job_state(struct engine *e, uint64_t seq); /* STATE_NONE = not there */
/* The jobs of a queue that will be claimed next, in order, as far as they are near at hand; those
 * that failed or crashed before are left out. */
struct next_ready {
    uint64_t seq, position; /* of its last record */
    uint32_t bytes;         /* of its payload … */
    uint8_t kind;           /* … and the kind of it */
};
size_t engine_next_ready(struct engine *e, uint32_t queue, struct arena *arena,
                         struct next_ready *out, size_t max);
/* Whether the job is ready and this is the position of its last record (0: none since it was
 * loaded).
 */
bool engine_ready_at(struct engine *e, uint64_t seq, uint64_t position);
/* 0 = no such queue. */
uint32_t engine_queue_number(const struct engine *e, struct span name);
struct span engine_queue_name(const struct engine *e, uint32_t number);
/* Whether its policy is `by_due`; false if the queue does not exist. */
bool engine_queue_by_due(const struct engine *e, uint32_t number);

struct engine_figures {
    uint64_t jobs, live, bytes; /* resident jobs, waiting or running ones, memory of all indexes */
    uint64_t by_state[STATE_COUNT];
    uint64_t keys, queues, restored_leases, forgotten_claims, stalls_ms;
    uint64_t kv_keys, kv_bytes;
    uint64_t notices_pending, notices_dead, notices_dropped;
};
void engine_figures(const struct engine *e, struct engine_figures *ret);

/* For checks: recounts everything from the records and compares with the counters, lists, maps and
 * heaps. 0, or -ERR_CORRUPT with a note. */
MUST_CHECK int engine_verify(const struct engine *e, struct err_note *note);
/* For checks: a hash of all durable state. Equal states have equal hashes, no matter how they
 * arose (loaded, replayed or executed). */
uint64_t engine_state_hash(const struct engine *e);
