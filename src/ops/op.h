/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend can be asked (struct op) and what it answers (struct reply).
 *
 * Operations are transitions and queries, never row edits. An op and everything it points to
 * belongs to the caller and must stay valid and unchanged until its reply has been delivered. A
 * reply and everything it points to is valid only during the callback that delivers it.
 *
 * Texts are checked where they come in (core/validate.h); a backend checks again what would hurt it
 * and answers OUT_INVALID.
 *
 * "To add an operation" in ARCHITECTURE.md lists the places that a new one needs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/digest/hash.h"
#include "base/span.h"
#include "base/system/clock.h"
#include "core/filter.h"
#include "core/jobs/job.h"
#include "core/queues/policy.h"
#include "core/records/record.h"

enum op_kind {
    OP_ENQUEUE,
    OP_CLAIM,
    OP_ACK,
    OP_FAIL,
    OP_EXTEND,
    OP_RELEASE,
    OP_PROGRESS,      /* how far the holder of a lease is */
    OP_LOG,           /* lines that it adds to the job's log */
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
    OP_REGISTRY,     /* what nodes know of workers: keeps some entries, replies with all */
    OP_ACCEPT_CLOCK, /* the operator has looked at the wall clock: jobs may expire again */
    OP_EXCEPTIONS,   /* attempts that went wrong, newest first */
    OP_KV_COMMIT,    /* checks, sets, deletes and enqueues, all or nothing */
    OP_KV_GET,       /* some keys, of one moment */
    OP_KV_LIST,      /* keys in their order */
    /* notifications */
    OP_ALERT_PUT,
    OP_ALERT_DELETE,
    OP_ALERT_LIST,   /* rules with what they have raised; one by name */
    OP_ALERT_EDGE,   /* a condition began or ceased to hold in a queue */
    OP_NOTICE_TAKE,  /* notices that are due, for delivery */
    OP_NOTICE_END,   /* how a delivery ended */
    OP_NOTICE_LIST,  /* the outbox; one by number */
    OP_NOTICE_AGAIN, /* deliver a notice now, as if it were new */
    OP_NOTICE_DISCARD,
    OP_BREAKER_PUT,    /* the settings of a named breaker */
    OP_BREAKER_DELETE, /* a named breaker */
    OP_BREAKER_ALLOW,  /* may the target be called now? */
    OP_BREAKER_REPORT, /* how a call ended */
    OP_BREAKER_LIST,
    OP_NOTE,    /* label, attributes, result, error of a job that stays as it is */
    OP_PAGE,    /* jobs of a ranked queue, from any place on */
    OP_HISTORY, /* what happened in a queue, by the hour */
    OP_SCHEDULE_PUT,
    OP_SCHEDULE_DELETE,
    OP_SCHEDULE_GET,
    OP_SCHEDULE_LIST,
    OP_SCHEDULE_PAUSE, /* or resume */
    OP_FIRE,           /* a schedule's time has come: its job and its next time in one commit */
    OP_TRIGGER,        /* the same of a schedule that takes items of a queue */
    /* stores whose ready jobs are dispatched (backend_config.dispatches); others refuse them */
    OP_PENDING,    /* jobs that are ready and not dispatched, oldest first */
    OP_DISPATCHED, /* the job was dispatched; has no effect unless it is still ready */
    OP_TICK,       /* internal: expire, promote, prune, a slice of bulk work */
    OP_KIND_COUNT
};

/* How a store that several nodes share executes an operation: in a unit with others of the same
 * class that were submitted next to it; in a unit by itself, with its queue locked; by reading, in
 * its turn; by a search beside the units. */
enum op_class {
    CLASS_UNIT,
    CLASS_ALONE,
    CLASS_FIRE,   /* in a unit of firings */
    CLASS_NOTICE, /* in a unit about notices and breakers */
    CLASS_LOOK,
    CLASS_SEARCH,
    CLASS_INTERNAL /* never submitted */
};

/* What a node does with an operation while the shared store does not answer: it refuses it; its
 * spool answers; the store that has the job answers; both are asked; the store that has the notice
 * answers. */
enum op_away { AWAY_REFUSED, AWAY_SPOOLED, AWAY_BY_JOB, AWAY_BOTH, AWAY_NOTICE };

/* What is known of each kind of operation. */
struct op_info {
    const char *name; /* as in trace output */
    uint8_t class;    /* enum op_class */
    uint8_t reply;    /* enum reply_family */
    bool query;       /* changes nothing, and so never has the outcome OUT_UNKNOWN */
    uint8_t away;     /* enum op_away */
    /* Offsets in struct op; 0 = none: the name of its queue (a span), the id of its job or notice
     * (a job_ref). They say which of several stores it is for. */
    uint16_t queue, id;
};
const struct op_info *op_info(enum op_kind kind);

static inline bool op_is_query(enum op_kind kind)
{
    return op_info(kind)->query;
}

struct attempt_view;
struct progress;

/* What an import contains beyond a job_past when the job keeps its id, or has ended with a
 * result. */
struct job_moved {
    uint64_t seq, id_hi;    /* seq 0 = the store gives a new id */
    struct wall_time since; /* when it entered its state; 0 = now */
    uint8_t result_kind;    /* enum payload_kind; NONE = there is no result */
    struct span result;
    /* Oldest first, all of them over; at most LIMIT_ATTEMPTS_KEPT. A done job's last one tells who
     * did it, and since when. */
    const struct attempt_view *attempts;
    uint32_t attempt_count;
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
    /* With past: the job comes as it is; with its id only where the backend has CAP_WHOLE_JOBS. Its
     * state is then exactly past->state, which may be any but running, and there is no event. A
     * job of the same sequence that is there refuses it: OUT_EXISTS, reply.seq and id_hi are that
     * job's. The caller makes sure that no other job ever had the sequence. */
    const struct job_moved *moved;
    /* The dead job whose place this one takes: it is removed in the same commit. OUT_NOT_FOUND when
     * it is not there, OUT_ILLEGAL when it is not dead (any more). seq 0 = none. */
    struct job_ref instead_of;
    /* The id that the job has already: a spool gave it (id_spooled), and it comes with `past`. The
     * job that is there under this id answers as a repeat; another one of this sequence refuses it
     * with OUT_EXISTS. seq 0 = the store gives one. */
    struct job_ref id;
};

struct op_claim {
    const struct span *queues; /* picks by (priority, sequence) across them */
    uint32_t queue_count;
    struct job_ref one; /* seq ≠ 0: seize this very job instead */
    bool only_ready;    /* … if it is ready and its queue not paused, else OUT_ILLEGAL */
    uint32_t count;     /* at most LIMIT_BATCH; fewer when bodies reach LIMIT_ANSWER_BYTES */
    uint32_t lease_ms;  /* 0 = the job's or queue's */
    struct span worker; /* name; empty = none */
    bool bound;         /* the lease lives and dies with the caller's connection */
    bool want_body;     /* payload and texts in the reply */
    uint64_t nonce;     /* 0 = none; see OP_RELEASE_CLAIM */
};

/* ack, fail, extend, release: by the newest token, or (any_token) on the current lease, unless the
 * queue's policy requires a token (OUT_INVALID). */
struct op_lease {
    struct job_ref job;
    struct job_token token;
    bool any_token;
    /* ack, fail */
    uint8_t result_kind;
    struct span result;
    /* fail: message, class and stack of what went wrong (core/jobs/job_error.h); each is cut */
    struct span error, error_type, stack;
    uint8_t error_kind;
    bool no_retry;
    bool damaged; /* OP_FAIL, only by a backend: the stored body cannot be read back */
    bool lost;    /* OP_RELEASE: the bound connection is gone; counts as a crash */
    bool unsaid;  /* OP_RELEASE: not reported by the holder, so it is not counted as a release */
    /* fail and release: from now on */
    bool has_priority;
    int64_t priority;
    /* fail and release: when it may run again */
    bool has_delay;
    int64_t delay_ms; /* used when run_at is 0 */
    struct wall_time run_at;
    /* extend: 0 = as long as before; progress: 0 = the lease is not extended */
    uint32_t lease_ms;
    const struct progress *progress; /* progress: its token and time are not looked at */
    const struct span *lines;        /* log: 1 to LIMIT_LOG_LINES */
    uint32_t line_count;
};

struct op_release_claim {
    uint64_t nonce;
};

/* cancel, requeue, remove, get, dispatched */
struct op_job {
    struct job_ref job;
    int64_t delay_ms; /* requeue: not before now + delay */
    bool discard;     /* cancel: also what has ended (MOVE_DISCARD), and at once */
    /* cancel: a running job at once. Otherwise it stays running, its worker has the policy's
     * cancel_grace_ms to react, and reply.lease.cancel_by says until when. */
    bool force;
    unsigned states; /* cancel, requeue, remove: only from these; 0 = all the move starts from */
    bool want_body;  /* get */
    bool want_texts; /* get: the same, but payload and result may be left out, however large */
    /* get: the history, oldest first, as the store has it when it is read, which may be a moment
     * after the rest of the view */
    bool want_attempts; /* with the progress of the newest attempt */
    bool want_log;      /* get, with want_attempts: the log, too */
};

struct op_patch {
    struct job_ref job;
    bool has_priority, has_run_at, has_payload;
    int64_t priority;
    struct wall_time run_at; /* 0 = now */
    uint8_t payload_kind;
    struct span payload;
};

/* What is not given stays. With a token the job must be running under it, else OUT_LEASE_LOST. */
struct op_note {
    struct job_ref job;
    struct job_token token; /* counter 0 = that of the current holder, if any */
    bool has_label, has_attributes, has_result, has_error;
    struct span label, attributes; /* empty = none any more */
    uint8_t result_kind;
    struct span result;
    uint8_t error_kind;
    struct span error;
};

struct op_queue {
    struct span name;
    uint32_t number; /* get: instead of the name, which is then empty */
    /* put */
    bool must_create;                  /* OUT_EXISTS when it is there */
    bool must_exist;                   /* OUT_NO_QUEUE when it is not */
    bool implied;                      /* created because a producer named it: see queue_limits.h */
    const struct queue_policy *policy; /* NULL = default when created, unchanged when changed */
    bool has_owner, has_note, has_attributes;
    struct span owner, note, attributes;
    bool has_until; /* its pause, too */
    /* get */
    struct span group; /* counts by state of this group alone; empty = the whole queue */
    /* pause, put with has_until */
    struct wall_time until; /* 0 = resume; LIMIT_WALL_MS = until resumed */
    /* list */
    struct span after; /* names after this one */
    uint32_t limit;
    bool partial; /* of several stores those that answer will do: reply.left_out names the others */
    /* delete: only if it has no jobs at all, and is `owner`'s if has_owner; else OUT_ILLEGAL */
    bool only_empty;
};

struct op_bulk {
    uint8_t action; /* enum bulk_action */
    struct span queue;
    unsigned states;         /* mask; 0 = none named: dead jobs for a requeue, else OUT_INVALID */
    struct span group, kind; /* empty = any */
};

struct op_peek {
    struct span queue;
    uint8_t
        state; /* ready: in claim order; scheduled: soonest; running, done, dead: oldest first */
    uint32_t limit; /* at most 100; fewer when their payloads reach LIMIT_ANSWER_BYTES */
    bool want_body;
    /* running, done, dead, cancelled: newest first instead, at most LIMIT_BATCH of them, `skip`
     * left out before the first. */
    bool newest_first;
    uint64_t skip;
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

/* Keys of the key-value store are encoded (core/kvkey.h). */
struct kv_check {
    struct span key;
    uint64_t version; /* that it has now; 0 = it must not be there */
};

struct kv_set {
    struct span key;
    struct wall_time expires_at; /* 0 = never; one in the past: the key is gone at once */
    uint8_t kind;                /* enum payload_kind */
    struct span value;
};

/* Nothing happens unless all checks hold and every enqueue is taken. OUT_VERSION: reply.failed is
 * the check that does not hold. Any refusal of an enqueue is the reply's, with failed_enqueue. A
 * key may be set or deleted once; two enqueues must not share an idempotency or unique key. To
 * delete what is not there is no error. */
struct op_kv_commit {
    const struct kv_check *checks;
    const struct kv_set *sets;
    const struct span *deletes;
    const struct op_enqueue *enqueues; /* without past and instead_of */
    uint32_t check_count, set_count, delete_count, enqueue_count;
};

struct op_kv_get {
    const struct span *keys;
    uint32_t count; /* at most LIMIT_KV_KEYS */
    bool want_value;
};

/* Read from the store, as lists of jobs are: reply.as_of says how new it is. */
struct op_kv_list {
    struct span prefix;   /* parts, encoded; empty = every key */
    struct span from, to; /* from ≤ key < to; empty = no bound */
    struct span after;    /* cursor: beyond this key, in the order of the list; empty = start */
    bool reverse;
    bool want_value;
    uint32_t limit; /* at most LIMIT_BATCH; fewer when values reach LIMIT_ANSWER_BYTES */
    struct wall_time
        now; /* the backend's: what has expired by then is not there; 0 = nothing has */
};

/* put, delete, list. A rule has a name; changing its condition forgets what it had raised. */
struct op_alert {
    struct span name;              /* list: empty = all */
    bool with_secrets;             /* list: for a copy of the store, never for a client */
    bool partial;                  /* list: as op_queue's, but not without the default store */
    const struct alert_rule *rule; /* put: the whole rule */
    bool keep_secret;              /* put: the secret stays what it is; rule->secret is ignored */
    bool must_create;              /* put: OUT_EXISTS when it is there */
    bool must_exist;               /* put: OUT_NOT_FOUND when it is not */
};

/* Repeats change nothing. OUT_NOT_FOUND: no such rule, it is not enabled, or not about this queue.
 */
struct op_alert_edge {
    struct span alert;
    struct span queue; /* empty = the whole server */
    bool raised;
    uint64_t value, mark;
    struct span text; /* for the notice; may be empty, and is cut */
};

/* list */
struct op_breakers {
    bool partial; /* as op_queue's */
};

/* put, delete, allow, report: of a named breaker, which the reply shows as it is afterwards. One
 * that does not exist is created (delete: OUT_NOT_FOUND); OUT_BREAKERS_FULL when there are too
 * many. */
struct op_breaker {
    struct span name;
    /* put: its settings, 0 = the server's default; allow, report: the server's defaults */
    struct breaker_rules rules;
    bool only_unused; /* delete: OUT_ILLEGAL unless breaker_is_unused */
    /* report */
    bool success;
    uint32_t retry_after_ms; /* a failure: the target asks for no calls for this time; 0 = it said
                                nothing */
};

/* Each notice that is given out is held back for hold_ms, in memory: if its end is not reported,
 * it is due again then, or after a restart. Those whose target's breaker is open stay where they
 * are; one that is older than give_up_ms meanwhile is dead. Of several stores those give that
 * answer and that this node leads. */
struct op_notice_take {
    uint32_t limit; /* 1 … LIMIT_BATCH */
    uint32_t hold_ms;
    int64_t give_up_ms;
    /* The reply to an earlier take was lost: notices that are held back become due again, except
     * these. */
    bool reset;
    const uint64_t *mine;
    uint32_t mine_count;
    struct breaker_rules breaker;
};

struct op_notice_end {
    uint64_t number;
    uint32_t tries; /* as the take said; another number: this end is known already, a repeat */
    bool delivered;
    bool reached;         /* the target was called: the result counts for its breaker */
    bool give_up;         /* failed: not tried again */
    struct wall_time due; /* failed: when to try again */
    uint16_t status;
    struct span error;
    struct breaker_rules breaker;
};

/* list, again, discard */
struct op_notice {
    struct job_ref id; /* seq 0 = all (list) */
    uint64_t after;    /* list: numbers after this one */
    uint32_t limit;    /* list: at most LIMIT_BATCH; 0 = as many */
};

enum page_pending { PAGE_ALL, PAGE_PENDING, PAGE_DISPATCHED };

/* In the order they were enqueued. OUT_INVALID unless the queue's policy is `ranked`. */
struct op_page {
    struct span queue;
    unsigned states;    /* mask; 0 = all */
    struct span unique; /* with this unique key, cancelled jobs included; empty = any */
    uint8_t pending;    /* enum page_pending: of ready jobs only these */
    uint64_t offset;    /* this many are skipped */
    uint32_t limit;     /* at most LIMIT_BATCH; fewer when bodies reach LIMIT_ANSWER_BYTES */
    bool want_body;
};

/* What one node knows of one worker. Nodes that share a store keep their entries there; a store of
 * one process alone keeps none and replies with none. */
struct worker_entry {
    struct span name;
    struct wall_time keep_until; /* then the store removes it */
    struct span facts;           /* the broker's; at most LIMIT_WORKER_FACTS_BYTES */
};

struct op_registry {
    const struct worker_entry *entries; /* of this node: each replaces the one before */
    uint32_t count;                     /* at most LIMIT_BATCH */
};

struct op_pending {
    uint64_t after; /* sequences after this one */
    uint32_t limit; /* at most LIMIT_BATCH */
};

struct op_history {
    struct span queue;
    uint32_t from, to; /* hours since 1970, from ≤ hour < to */
};

/* Of the times of a schedule the caller says which comes next: it knows zones and policies. A time
 * is fired once: one that is not the schedule's next, or later, is refused with OUT_NOT_DUE. */
struct op_schedule {
    struct span name;
    uint32_t number; /* get: instead of the name, which is then empty */
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
    /* list, with CAP_CHANGES: instead of by name, those that were put, paused or
     * resumed after the mark `since` (0 = all), in the order of these changes;
     * reply.change_mark is the mark of the last of them. One that was deleted is not told of. */
    bool by_change;
    uint64_t since;
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
        struct op_kv_commit kv_commit;
        struct op_kv_get kv_get;
        struct op_kv_list kv_list;
        struct op_alert alert;
        struct op_alert_edge alert_edge;
        struct op_breakers breakers;
        struct op_breaker breaker;
        struct op_notice_take notice_take;
        struct op_notice_end notice_end;
        struct op_notice notice;
        struct op_note note;
        struct op_page page;
        struct op_history history;
        struct op_pending pending;
        struct op_registry registry;
        struct op_schedule schedule;
    };
};

enum outcome {
    OUT_OK,
    /* refusals: nothing changed */
    /* unique key taken; reply.seq names the holder. queue_put: jobs share a key that were to be
     * unique among all kept ones; reply.seq names one of them (0 = none was at hand), and
     * reply.jobs shows them. */
    OUT_DUPLICATE,
    OUT_NOT_FOUND,  /* no such job */
    OUT_NO_QUEUE,   /* no such queue */
    OUT_LEASE_LOST, /* not the token of the current lease: older, another job's, never issued */
    OUT_GONE,       /* ended, and no longer known how */
    OUT_CANCELLED,  /* a report that comes too late: its job was cancelled, or the grace time of the
                       requested cancel is over */
    OUT_ILLEGAL,    /* the move does not start from reply.state; state_legal_moves() lists */
    OUT_QUEUE_FULL, /* capacity of the queue */
    OUT_SERVER_FULL,   /* capacity of the server */
    OUT_QUEUES_FULL,   /* no room for another queue, see queue_limits.h */
    OUT_REFUSED_NEW,   /* the queue takes no new jobs */
    OUT_TOO_BIG,       /* payload over the queue's limit */
    OUT_INVALID,       /* reply.note says which field */
    OUT_KEY_REUSED,    /* idempotency key with another body */
    OUT_KEYS_FULL,     /* no room for another idempotency key */
    OUT_DISK_FULL,     /* no room for a new job */
    OUT_EXISTS,        /* queue or schedule is there already */
    OUT_VERSION,       /* a key has another version than the commit was to find */
    OUT_KV_FULL,       /* no room for more in the key-value store */
    OUT_RATE_LIMIT,    /* the queue's; reply.retry_ms says when to come back */
    OUT_NO_SCHEDULE,   /* no such schedule */
    OUT_BREAKERS_FULL, /* no room for another named breaker */
    OUT_DAMAGED,       /* the store gave another body or value than it was given */
    OUT_NOT_DUE, /* this time was fired before, or is not due yet; or the schedule is paused */
    /* trouble */
    OUT_UNAVAILABLE, /* surely not done */
    OUT_UNKNOWN,     /* perhaps done */
    OUT_COUNT
};
const char *outcome_name(enum outcome o); /* "ok", "duplicate", … */

const char *attempt_outcome_name(enum attempt_outcome o); /* "running", "done", … */

/* One attempt at a job: from a claim to what ended the lease. A job keeps its newest
 * LIMIT_ATTEMPTS_KEPT; a requeue keeps them, and numbers start again at 1. */
struct attempt_view {
    uint64_t seq, id_hi;
    struct span queue;
    uint32_t number;    /* as the worker saw it: failures + crashes + 1; a release lets it repeat */
    struct span worker; /* empty = no name */
    struct wall_time started_at, ended_at; /* ended_at 0 = still running */
    uint8_t outcome, error_kind;           /* enum attempt_outcome, enum error_kind */
    struct span error; /* failed, crashed: packed (core/jobs/job_error.h); may be empty */
};

/* What happened to a job since the server started; counts end at the highest number. */
struct outcome_counts {
    uint16_t claims, timeouts, releases;
    uint8_t rejections, requeues; /* failed with no_retry; requeued */
};

/* The parts of a job that cannot be read back as they were written; they are left out of the
 * view. */
enum job_damage {
    DAMAGE_PAYLOAD = 1u << 0,
    DAMAGE_RESULT = 1u << 1,
    DAMAGE_TEXTS = 1u << 2,   /* keys, label, attributes, options */
    DAMAGE_HISTORY = 1u << 3, /* the last error, attempts */
};
/* Such a job is not handed out. */
#define DAMAGE_FATAL (DAMAGE_PAYLOAD | DAMAGE_TEXTS)
/* "payload", "result", "keys", "history"; of one bit. */
const char *damage_name(unsigned bit);

/* A job as it is shown. */
struct job_view {
    struct job job;
    struct outcome_counts outcome_counts;
    struct span queue;          /* name */
    struct span owner;          /* of the queue; this and the next two: get, peek, page */
    bool require_token;         /* of its policy */
    bool by_due;                /* the same; job.priority is then an order (core/jobs/job.h) */
    bool paused;                /* the queue hands out nothing now */
    uint32_t lease_ms;          /* running */
    struct job_token token;     /* running: of the current lease; after a claim: the claimer's */
    struct lease_limits limits; /* running */
    uint32_t own_lease_ms;      /* get, peek: what a claim gets that does not say */
    uint32_t max_attempts;      /* claim: the job's own, or the queue's */
    int64_t lease_left_ms;      /* running: until it runs out, ≥ 0; -1 = not known */
    struct span worker;         /* running */
    int64_t waited_ms;          /* claim: how long it had been ready */
    uint64_t position;          /* the backend's own: of the last record its body depends on */
    struct wall_time expires_at;
    /* Of the newest attempt; 0 = never claimed, or not known. Known of running jobs; of done ones
     * from lists; of all with want_body or want_attempts. */
    struct wall_time started_at;
    /* The trigger's job that holds its lease, which has no end (lease_ms 0); with want_body also
     * the last that did; seq 0 = none. */
    struct job_ref holder;
    const struct attempt_view *attempts; /* get with want_attempts: oldest first */
    uint32_t attempt_count;
    struct span progress; /* with want_attempts: as progress_decode reads it; empty = none */
    struct span log;      /* with want_log: see joblog_begin */
    /* only with want_body */
    bool has_body;
    struct job_extra extra;
    struct span payload;
    uint8_t result_kind, error_kind;
    uint8_t damage; /* enum job_damage */
    struct span result;
    struct span error; /* packed (core/jobs/job_error.h) */
};

/* The priority that the job was given. */
static inline int64_t view_priority(const struct job_view *v)
{
    return v->by_due ? priority_given(v->job.priority) : v->job.priority;
}

struct queue_counts {
    uint64_t by_state[STATE_COUNT];
    uint64_t urgent; /* ready jobs of a priority above PRIORITY_URGENT */
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
    struct counters totals; /* since it was created */
    /* In a partial list: the store that keeps this queue is left out, and another, which has jobs
     * under the same name, shown in its place. */
    bool stand_in;
};

#define SHARED_SHOWN 100u

#define HISTORY_HOURS (30u * 24) /* kept */
struct hour_view {
    uint32_t hour; /* since 1970 */
    struct counters counters;
};

/* A key as it is shown. */
struct kv_view {
    struct span key;
    bool found;
    uint64_t version;            /* rises with every change, never used again for any key */
    struct wall_time expires_at; /* 0 = never */
    uint8_t kind;
    bool has_value; /* only with want_value */
    bool damaged;   /* the value cannot be read as it was written: it is left out */
    struct span value;
    uint64_t position; /* the backend's own: of the record that set it */
};

/* What became of one enqueue of a commit. */
struct enqueued_view {
    uint64_t seq, id_hi, replaced_seq;
    enum job_state state;
    bool created, repeat;
    struct wall_time run_at;
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
#define WORKER_HELD_SHOWN 10u
struct worker_view {
    struct span name;
    uint64_t running;                       /* leases it holds, ≥ 1 */
    struct job_ref held[WORKER_HELD_SHOWN]; /* some of them */
    uint32_t held_count;
};

/* A condition that holds. */
struct raised_view {
    struct span queue; /* empty = the whole server */
    struct wall_time since;
    uint64_t value, mark; /* when it was raised */
};

struct alert_view {
    struct span name;
    struct alert_rule rule; /* its secret is empty, unless with_secrets was asked for … */
    bool has_secret;        /* … even if there is one */
    struct wall_time created_at, updated_at;
    const struct raised_view *raised; /* oldest first; at most 100 of them */
    uint32_t raised_count;
    uint64_t raised_total;
    uint64_t pending, dead; /* notices */
};

/* A notice and, of the rule it belongs to, what its delivery needs. */
struct notice_view {
    struct rec_notice_new notice;
    struct rec_notice_tried tried;
    bool with_payload;
    struct span url;
    struct span secret; /* take only */
};

struct breaker_view {
    struct span target;
    struct breaker breaker;
    bool allowed;     /* allow: the call is permitted, */
    int64_t retry_ms; /* or, if not, it is worth another try after this time */
};

/* --- replies: a header, and one struct for each family of operations ---
 *
 * op_info.reply says which family an operation's reply belongs to. Only the header and the struct
 * of that family mean anything; after a refusal the struct is zero, unless its fields say more. */

/* enqueue */
struct enqueue_reply {
    uint64_t replaced_seq; /* under "replace": the job that was cancelled; 0 = none */
};

/* What a reply says about a lease that continues. */
struct lease_news {
    int64_t left_ms;            /* extend: until it ends; 0 = it has no end */
    struct wall_time cancel_by; /* a cancel is requested, and the job ends by then; 0 = it is not */
};

/* ack, fail, extend, release, cancel, requeue, patch, remove, note */
struct change_reply {
    struct lease_news lease; /* extend, cancel */
    int64_t ran_ms;          /* ack, fail, release: how long the lease was held; 0 when repeated */
    struct span worker;      /* ack, fail, extend, release: who held the lease; empty = no name, or
                                repeated */
    struct span queue;       /* the job's; empty = the job is not there */
};

/* claim, get, peek, list, page, pending, queue_put */
struct jobs_reply {
    /* queue_put, OUT_DUPLICATE: jobs that share a unique key, at most SHARED_SHOWN, with their
     * texts
     */
    const struct job_view *jobs;
    uint32_t job_count;
    uint64_t job_total; /* page: how many match in all; queue_put: how many share a key in all, but
                           for the first of each key */
    uint64_t cursor;    /* list: pass as `after` for the next page; 0 = that was all */
    uint64_t as_of;     /* list: position of the store it was read from */
};

/* queue_get, queue_list */
struct queues_reply {
    const struct queue_view *queues;
    uint32_t queue_count;
};

/* purge, bulk, release_claim, queue_delete */
struct bulk_reply {
    uint64_t changed; /* jobs; queue_delete: those that it had */
    uint64_t refused; /* bulk: jobs that could not be changed (conflicts) */
};

/* accept_clock */
struct clock_reply {
    bool was_suspect;
};

/* workers */
struct workers_reply {
    const struct worker_view *workers; /* at most WORKERS_MAX, those longest at it first */
    uint32_t worker_count;
    uint64_t worker_total; /* how many there are in all */
};

/* registry */
struct registry_reply {
    const struct worker_entry *entries; /* of all nodes, in no order */
    uint32_t entry_count;
};

/* exceptions */
struct attempts_reply {
    const struct attempt_view *attempts;
    uint32_t attempt_count;
};

/* history */
struct history_reply {
    const struct hour_view *hours; /* hours in which something happened, oldest first */
    uint32_t hour_count;
};

/* kv_commit */
struct kv_commit_reply {
    uint64_t version;    /* of what it changed; OUT_VERSION: that the key has */
    uint64_t deleted;    /* keys */
    uint32_t failed;     /* index of the check or enqueue */
    bool failed_enqueue; /* … which is an enqueue */
    uint32_t enqueued_count;
    const struct enqueued_view *enqueued; /* one for each enqueue */
};

/* kv_get, kv_list */
struct kv_reply {
    const struct kv_view *kvs; /* kv_get: in the order of the keys */
    uint32_t kv_count;
    struct span kv_cursor; /* kv_list: pass as `after`; empty = that was all */
    uint64_t kv_as_of;     /* kv_list: position of the store it was read from */
};

/* alert_delete, alert_list */
struct alerts_reply {
    const struct alert_view *alerts; /* by name */
    uint32_t alert_count;
    uint64_t discarded; /* alert_delete: notices of the rule */
};

/* notice_take, notice_list */
struct notices_reply {
    const struct notice_view *notices; /* notice_take: by due time; notice_list: oldest first */
    uint32_t notice_count;
    /* notice_take: when the next take has something to do, as far as known; 0 = nothing */
    struct wall_time next_due;
    uint64_t notice_cursor; /* notice_list: pass as `after`; 0 = that was all */
};

/* breaker_put, breaker_delete, breaker_allow, breaker_call_ended, breaker_list */
struct breakers_reply {
    const struct breaker_view *breakers; /* by target */
    uint32_t breaker_count;
};

/* schedule_put, schedule_pause, schedule_get, schedule_list, fire, trigger */
struct schedules_reply {
    const struct schedule_view *schedules; /* as they are now */
    uint32_t schedule_count;
    bool more;            /* schedule_list: these are not all */
    bool fired;           /* fire, trigger: a job was created */
    uint64_t taken;       /* trigger: items that the job got */
    uint64_t change_mark; /* schedule_list with by_change: of the last change that is listed */
};

enum reply_family {
    REPLY_PLAIN, /* the header alone */
    REPLY_ENQUEUE,
    REPLY_CHANGE,
    REPLY_JOBS,
    REPLY_QUEUES,
    REPLY_BULK,
    REPLY_CLOCK,
    REPLY_WORKERS,
    REPLY_REGISTRY,
    REPLY_ATTEMPTS,
    REPLY_HISTORY,
    REPLY_KV_COMMIT,
    REPLY_KV,
    REPLY_ALERTS,
    REPLY_NOTICES,
    REPLY_BREAKERS,
    REPLY_SCHEDULES,
    REPLY_FAMILY_COUNT
};

/* change_reply is the first, because an initializer of a union clears only the first member: it has
 * to be the largest. */
#define REPLY_STRUCTS                                                                              \
    struct change_reply;                                                                           \
    struct enqueue_reply;                                                                          \
    struct jobs_reply;                                                                             \
    struct queues_reply;                                                                           \
    struct bulk_reply;                                                                             \
    struct clock_reply;                                                                            \
    struct workers_reply;                                                                          \
    struct registry_reply;                                                                         \
    struct attempts_reply;                                                                         \
    struct history_reply;                                                                          \
    struct kv_commit_reply;                                                                        \
    struct kv_reply;                                                                               \
    struct alerts_reply;                                                                           \
    struct notices_reply;                                                                          \
    struct breakers_reply;                                                                         \
    struct schedules_reply;
union reply_structs {
    REPLY_STRUCTS
};
_Static_assert(sizeof(union reply_structs) == sizeof(struct change_reply),
               "the first member of the union in struct reply must be the largest");

struct reply {
    enum op_kind kind;
    enum outcome outcome;
    uint64_t tag;
    bool relaxed; /* success was answered before it was durable, as the queue's policy says */
    bool spooled; /* enqueue: this node keeps the job until the shared store answers again */
    bool repeat;  /* answered again: idempotency key or (job, token) seen before */
    bool created; /* a new job, queue, rule or schedule */
    enum job_state state;    /* of the job afterwards; for OUT_ILLEGAL: as it is */
    uint64_t seq, id_hi;     /* the job concerned; for OUT_DUPLICATE the holder of the key */
    struct wall_time run_at; /* of the job: when it may run, or run again */
    int64_t retry_ms;        /* OUT_RATE_LIMIT: from now */
    /* queue_list, breaker_list, alert_list, notice_take: stores whose part is missing, 1 << number
     * each; behind failover also in the reply to any other query that the spool answers while the
     * shared store does not, whatever its outcome */
    uint64_t left_out;
    const char *note; /* OUT_INVALID, OUT_UNAVAILABLE: a sentence; else NULL */
#ifdef HF_TEST_HOOKS
    struct { /* side by side, so that reply_guard can find a use of another family's fields */
        REPLY_STRUCTS
    };
#else
    union {
        REPLY_STRUCTS
    };
#endif
};

static inline enum reply_family reply_family(const struct reply *r)
{
    return (enum reply_family)op_info(r->kind)->reply;
}

/* Test builds (tests/wrappers/reply_guard.c): aborts if a field of another family was set, and
 * fills those fields with a pattern (0xa5) that no reader can take for a value. backend_submit has
 * it done to each reply before it is delivered. */
#ifdef HF_TEST_HOOKS
void reply_guard(struct reply *r);
#else
static inline void reply_guard(struct reply *r)
{
    (void)r;
}
#endif
