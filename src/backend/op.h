/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend can be asked (struct op) and what it answers (struct reply).
 *
 * Operations are transitions and queries, never row edits. An op and everything it points to
 * belongs to the caller and must stay valid and unchanged until its reply has been delivered. A
 * reply and everything it points to is valid only during the callback that delivers it.
 *
 * Texts are checked where they come in (core/validate.h); a backend checks again what would hurt it
 * and answers OUT_INVALID. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/span.h"
#include "core/filter.h"
#include "core/job.h"
#include "core/policy.h"
#include "core/record.h"

enum op_kind {
    OP_ENQUEUE,
    OP_CLAIM,
    OP_ACK,
    OP_FAIL,
    OP_EXTEND,
    OP_RELEASE,
    OP_RELEASE_CLAIM, /* by nonce: whatever a claim with an unknown outcome may have taken */
    OP_CANCEL,
    OP_REQUEUE,
    OP_PATCH,
    OP_REMOVE,
    OP_QUEUE_PUT,
    OP_QUEUE_DELETE,
    OP_QUEUE_GET, /* definition and counts of one queue */
    OP_QUEUE_LIST,
    OP_PAUSE, /* until a time; resume = until 0 */
    OP_PURGE, /* what waits in a queue */
    OP_BULK,  /* requeue, cancel or remove by filter, in slices */
    OP_GET,
    OP_PEEK,
    OP_LIST,
    OP_WORKERS,      /* who holds leases */
    OP_ACCEPT_CLOCK, /* the operator has looked at the wall clock: jobs may expire again */
    OP_EXCEPTIONS,   /* attempts that went wrong, newest first */
    OP_SCHEDULE_PUT,
    OP_SCHEDULE_DELETE,
    OP_SCHEDULE_GET,
    OP_SCHEDULE_LIST,
    OP_SCHEDULE_PAUSE, /* or resume */
    OP_FIRE,           /* a schedule's time has come: its job and its next time in one commit */
    OP_TRIGGER,        /* the same of a schedule that takes items of a queue */
    OP_TICK,           /* internal: expire, promote, prune, a slice of bulk work */
    OP_KIND_COUNT
};

struct op_enqueue {
    struct span queue; /* created with the default policy when missing, unless no_create */
    bool no_create;
    uint8_t payload_kind;
    uint8_t unique_mode; /* enum unique_mode */
    bool has_priority;   /* else the queue's */
    int64_t priority;
    int64_t delay_ms;        /* ≥ 0; used when run_at is 0 */
    struct wall_time run_at; /* 0 = now (+ delay_ms) */
    struct span payload;
    struct job_extra extra;            /* its options span is ignored: */
    const struct job_options *options; /* NULL = the queue's policy */
    /* Idempotency key (or the caller's nonce); empty = none. Kept as a keyed hash.
     * A second enqueue under it is answered with the first one's job; another fingerprint is
     * refused with OUT_KEY_REUSED. */
    struct span idempotency_key;
    uint64_t fingerprint;
    /* An import: the job comes with what it went through elsewhere. Its queue takes it even when it
     * takes no new jobs, a dead one also when it is full; a unique key that is held refuses it,
     * whatever the modes say. NULL = a job like any other. */
    const struct job_past *past;
};

struct op_claim {
    const struct span *queues; /* picks by (priority, sequence) across them */
    uint32_t queue_count;
    struct job_ref one; /* seq ≠ 0: seize this very job instead */
    uint32_t count;     /* at most LIMIT_BATCH; fewer when bodies reach LIMIT_ANSWER_BYTES */
    uint32_t lease_ms;  /* 0 = the job's or queue's */
    struct span worker; /* name; empty = none */
    bool bound;         /* the lease lives and dies with the caller's connection */
    bool want_body;     /* payload and texts in the reply */
    uint64_t nonce;     /* 0 = none; see OP_RELEASE_CLAIM */
};

/* ack, fail, extend, release: by the newest token, or (any_token) on the current lease. */
struct op_lease {
    struct job_ref job;
    struct job_token token;
    bool any_token;
    /* ack */
    uint8_t result_kind;
    struct span result;
    /* fail */
    struct span error;
    uint8_t error_kind;
    bool no_retry;
    bool lost; /* OP_RELEASE: the bound connection is gone; counts as a crash */
    /* fail and release: when it may run again */
    bool has_delay;
    int64_t delay_ms; /* used when run_at is 0 */
    struct wall_time run_at;
    /* extend */
    uint32_t lease_ms; /* 0 = as long as before */
};

struct op_release_claim {
    uint64_t nonce;
};

/* cancel, requeue, remove, get */
struct op_job {
    struct job_ref job;
    int64_t delay_ms; /* requeue: not before now + delay */
    bool want_body;   /* get */
    bool want_texts;  /* get: the same, but payload and result may be left out, however large */
    /* get: the history, oldest first, as the store has it when it is read, which may be a moment
     * after the rest of the view */
    bool want_attempts;
};

struct op_patch {
    struct job_ref job;
    bool has_priority, has_run_at, has_payload;
    int64_t priority;
    struct wall_time run_at; /* 0 = now */
    uint8_t payload_kind;
    struct span payload;
};

struct op_queue {
    struct span name;
    /* put */
    bool must_create;                  /* OUT_EXISTS when it is there */
    bool must_exist;                   /* OUT_NO_QUEUE when it is not */
    const struct queue_policy *policy; /* NULL = default when created, unchanged when changed */
    bool has_owner, has_note, has_attributes;
    struct span owner, note, attributes;
    /* get */
    struct span group; /* counts by state of this group alone; empty = the whole queue */
    /* pause */
    struct wall_time until; /* 0 = resume; LIMIT_WALL_MS = until resumed */
    /* list */
    struct span after; /* names after this one */
    uint32_t limit;
};

struct op_bulk {
    uint8_t action; /* enum bulk_action */
    struct span queue;
    unsigned states; /* mask; 0 = every state the action may start from */
    struct span group;
};

struct op_peek {
    struct span queue;
    uint8_t
        state; /* ready: in claim order; scheduled: soonest; running, done, dead: oldest first */
    uint32_t limit; /* at most 100; fewer when their payloads reach LIMIT_ANSWER_BYTES */
    bool want_body;
};

struct op_list {
    struct job_filter filter; /* by filter.queue unless queue is set */
    struct span queue;
    /* Cursor: sequences after this one (before it, when newest_first); 0 = start. A page may be
     * short, or empty, and yet have a cursor: where little is found, a step of work is a page. */
    uint64_t after;
    uint32_t limit; /* at most LIMIT_BATCH; fewer when bodies reach LIMIT_ANSWER_BYTES */
    bool newest_first;
    bool want_body;
};

/* Of a queue whose failures lie far behind those of others the oldest may be left out. */
struct op_exceptions {
    struct span queue; /* empty = all */
    uint32_t limit;    /* at most LIMIT_EXCEPTIONS; 0 = as many */
};

/* Of the times of a schedule the caller says which comes next: it knows zones and policies. A time
 * is fired once: one that is not the schedule's next, or later, is refused with OUT_NOT_DUE. */
struct op_schedule {
    struct span name;
    /* put */
    bool must_create;                 /* OUT_EXISTS when it is there */
    bool must_exist;                  /* OUT_NO_SCHEDULE when it is not */
    const struct schedule_spec *spec; /* NULL = unchanged */
    bool has_owner, has_note, has_attributes, has_paused;
    struct span owner, note, attributes;
    /* put, pause: nothing is due while it is paused; what was due meanwhile is not made up for */
    bool paused;
    /* put, resume, fire, trigger: when it is due next; LIMIT_WALL_MS = never; put with 0 = as it
     * was */
    struct wall_time next_at;
    /* fire, trigger */
    struct wall_time at; /* the time that is fired */
    uint32_t missed;     /* times before it that passed and make no job */
    bool skip;           /* fire: nor does this one */
    bool now; /* out of turn: neither `at` nor next_at count, its times stay as they are */
    /* list */
    struct span after; /* names after this one */
    uint32_t limit;
};

struct op {
    enum op_kind kind;
    uint64_t tag; /* comes back in the reply */
    union {
        struct op_enqueue enqueue;
        struct op_claim claim;
        struct op_lease lease;
        struct op_release_claim release_claim;
        struct op_job job;
        struct op_patch patch;
        struct op_queue queue;
        struct op_bulk bulk;
        struct op_peek peek;
        struct op_list list;
        struct op_exceptions exceptions;
        struct op_schedule schedule;
    };
};

enum outcome {
    OUT_OK,
    /* refusals: nothing changed */
    /* unique key taken; reply.seq names the holder. queue_put: jobs share a key that were to be
     * unique among all kept ones; reply.seq names one of them (0 = none was at hand). */
    OUT_DUPLICATE,
    OUT_NOT_FOUND,   /* no such job */
    OUT_NO_QUEUE,    /* no such queue */
    OUT_LEASE_LOST,  /* older token, or a claim that a crash forgot */
    OUT_GONE,        /* finished too long ago to say how */
    OUT_ILLEGAL,     /* the move does not start from reply.state; state_legal_moves() lists */
    OUT_QUEUE_FULL,  /* capacity of the queue */
    OUT_SERVER_FULL, /* capacity of the server */
    OUT_REFUSED_NEW, /* the queue takes no new jobs */
    OUT_TOO_BIG,     /* payload over the queue's limit */
    OUT_INVALID,     /* reply.note says which field */
    OUT_KEY_REUSED,  /* idempotency key with another body */
    OUT_KEYS_FULL,   /* no room for another idempotency key */
    OUT_DISK_FULL,   /* no room for a new job */
    OUT_EXISTS,      /* queue or schedule is there already */
    OUT_NO_SCHEDULE, /* no such schedule */
    OUT_NOT_DUE,     /* this time was fired before, or is not due yet; or the schedule is paused */
    /* trouble */
    OUT_UNAVAILABLE, /* surely not done */
    OUT_UNKNOWN,     /* perhaps done */
    OUT_COUNT
};
const char *outcome_name(enum outcome o); /* "ok", "duplicate", … */

/* How an attempt ended. Numbers are on disk: never renumber. */
enum attempt_outcome {
    ATTEMPT_RUNNING,
    ATTEMPT_DONE,
    ATTEMPT_FAILED,
    ATTEMPT_CRASHED, /* lease ran out or connection lost */
    ATTEMPT_RELEASED,
    ATTEMPT_CANCELLED,
    ATTEMPT_OUTCOME_COUNT
};
const char *attempt_outcome_name(enum attempt_outcome o); /* "running", "done", … */

/* One attempt at a job: from a claim to what ended the lease. A job keeps its newest
 * LIMIT_ATTEMPTS_KEPT; a requeue keeps them and lets the numbers begin anew. */
struct attempt_view {
    uint64_t seq, id_hi;
    struct span queue;
    uint32_t number;    /* as the worker saw it: failures + crashes + 1; a release lets it repeat */
    struct span worker; /* empty = no name */
    struct wall_time started_at, ended_at; /* ended_at 0 = still running */
    uint8_t outcome, error_kind;           /* enum attempt_outcome, enum error_kind */
    struct span error;                     /* failed, crashed: may be empty */
};

/* A job as it is shown. */
struct job_view {
    struct job job;
    struct span queue;      /* name */
    struct job_token token; /* running: of the current lease; after a claim: the claimer's */
    uint32_t lease_ms;      /* running */
    int64_t lease_left_ms;  /* running: until it runs out, ≥ 0 */
    struct span worker;     /* running */
    int64_t waited_ms;      /* claim: how long it had been ready */
    uint64_t position;      /* the backend's own: of the last record its body depends on */
    struct wall_time expires_at;
    /* Of the newest attempt; 0 = never claimed, or not known. Known of running jobs; of done ones
     * from lists; of all with want_body or want_attempts. */
    struct wall_time started_at;
    /* The trigger's job that holds its lease, which has no end (lease_ms 0); with want_body also
     * the last that did; seq 0 = none. */
    struct job_ref holder;
    const struct attempt_view *attempts; /* get with want_attempts: oldest first */
    uint32_t attempt_count;
    /* only with want_body */
    bool has_body;
    struct job_extra extra;
    struct span payload;
    uint8_t result_kind, error_kind;
    struct span result, error;
};

struct queue_counts {
    uint64_t by_state[STATE_COUNT];
    uint64_t enqueued, claimed, acked, failed, crashed, released, died, cancelled,
        removed;               /* since start */
    int64_t oldest_ready_ms;   /* age of the job that has been ready longest; -1 = none */
    struct wall_time next_due; /* 0 = nothing scheduled */
};

struct queue_view {
    uint32_t number;
    struct span name, owner, note, attributes;
    const struct queue_policy *policy;
    struct wall_time created_at, updated_at, paused_until;
    struct queue_counts counts;
};

struct schedule_view {
    uint32_t number;
    struct span name, owner, note, attributes;
    bool paused;
    struct wall_time created_at, updated_at;
    struct schedule_state state;
    bool last_live; /* the last job still waits or runs */
    struct schedule_spec spec;
};

#define WORKERS_MAX 10000u /* in one reply */
struct worker_view {
    struct span name;
    uint64_t running; /* leases it holds, ≥ 1 */
};

struct reply {
    enum op_kind kind;
    enum outcome outcome;
    uint64_t tag;
    bool relaxed; /* success was answered before it was durable, as the queue's policy says */
    bool repeat;  /* answered again: idempotency key or (job, token) seen before */
    bool created; /* enqueue: a new job; queue_put: a new queue */
    enum job_state state;    /* of the job afterwards; for OUT_ILLEGAL: as it is */
    uint64_t seq, id_hi;     /* the job concerned; for OUT_DUPLICATE the holder of the key */
    uint64_t replaced_seq;   /* enqueue under "replace": the job that was cancelled */
    struct wall_time run_at; /* fail, release, requeue: when it may run again */
    uint64_t count;   /* fire: 1 = a job was made; trigger: items taken, 0 = no job; purge, bulk,
                         release_claim: jobs changed; workers: how many there are;   accept_clock: 1 =
                         it had been suspect */
    uint64_t refused; /* bulk: jobs that could not be changed (conflicts) */
    const struct job_view *jobs; /* claim, get, peek, list */
    uint32_t job_count;
    const struct queue_view *queues;
    uint32_t queue_count;
    const struct schedule_view *schedules; /* put, pause, get, list, fire, trigger: as it is now */
    uint32_t schedule_count;
    int64_t ran_ms;     /* ack, fail, release: how long the lease was held; 0 when repeated */
    struct span worker; /* ack, fail, extend, release: who held the lease; empty = no name, or
                           repeated */
    /* ack, fail, extend, release, cancel, requeue, patch, remove: the job's queue; empty = the job
     * is not there */
    struct span queue;
    const struct worker_view *workers; /* workers: at most WORKERS_MAX, those longest at it first */
    uint32_t worker_count;
    const struct attempt_view *attempts; /* exceptions */
    uint32_t attempt_count;
    uint64_t cursor;  /* list: pass as `after` for the next page; 0 = that was all */
    uint64_t as_of;   /* list: position of the store it was read from */
    const char *note; /* OUT_INVALID, OUT_UNAVAILABLE: a sentence; else NULL */
};
