/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that a backend executes (struct op), and its replies (struct reply).
 *
 * Operations are transitions and queries, never row edits. An op and everything it points to
 * belongs to the caller and must stay valid and unchanged until its reply has been delivered. A
 * reply and everything it points to is valid only during the callback that delivers it.
 *
 * The APIs check texts when they receive them (core/validate.h). A backend checks again everything
 * that could damage it, and replies OUT_INVALID.
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
#include "core/queues/claim_limits.h"
#include "core/queues/policy.h"
#include "core/records/record.h"

enum op_kind {
    OP_ENQUEUE,
    OP_CLAIM,
    OP_ACK,
    OP_FAIL,
    OP_EXTEND,
    OP_RELEASE,
    OP_PROGRESS,      /* the holder of a lease reports its progress */
    OP_LOG,           /* the holder of a lease adds lines to the log of the job */
    OP_STEP,          /* the holder of a lease stores the result of a step */
    OP_RELEASE_CLAIM, /* by nonce: the jobs that a claim with an unknown outcome may have taken */
    OP_CANCEL,
    OP_REQUEUE,
    OP_PATCH,
    OP_REMOVE,
    OP_QUEUE_PUT,
    OP_QUEUE_DELETE,
    OP_QUEUE_GET, /* definition and counts of one queue */
    OP_QUEUE_LIST,
    OP_PAUSE, /* until a time; resume = until 0 */
    OP_PURGE, /* removes the waiting jobs of a queue */
    OP_BULK,  /* requeue, cancel or remove by filter, in slices */
    OP_GET,
    OP_PEEK,
    OP_LIST,
    OP_WORKERS,  /* who holds leases */
    OP_REGISTRY, /* stores what this node knows of workers; replies with the entries of all nodes */
    OP_ACCEPT_CLOCK, /* the operator confirms the wall clock: jobs may expire again */
    OP_EXCEPTIONS,   /* attempts that failed or crashed, newest first */
    OP_KV_COMMIT,    /* checks, sets, deletes and enqueues, all or nothing */
    OP_KV_GET,       /* some keys, read at one point in time */
    OP_KV_LIST,      /* a range of keys, in order */
    /* notifications */
    OP_ALERT_PUT,
    OP_ALERT_DELETE,
    OP_ALERT_LIST,   /* all rules, or one by name, with the alerts that they have raised */
    OP_ALERT_EDGE,   /* a condition began or ceased to hold in a queue */
    OP_NOTICE_TAKE,  /* notices that are due, for delivery */
    OP_NOTICE_END,   /* the result of a delivery */
    OP_NOTICE_LIST,  /* the outbox: all notices, or one by number */
    OP_NOTICE_AGAIN, /* deliver a notice now, as if it were new */
    OP_NOTICE_DISCARD,
    OP_BREAKER_PUT,    /* the settings of a named breaker */
    OP_BREAKER_DELETE, /* a named breaker */
    OP_BREAKER_ALLOW,  /* may the target be called now? */
    OP_BREAKER_REPORT, /* the result of a call */
    OP_BREAKER_LIST,
    OP_DEPENDENCIES, /* adds dependencies to a job that is open, or closes it */
    OP_NOTE,    /* sets label, attributes, result or error of a job; its state does not change */
    OP_PAGE,    /* jobs of a ranked queue, from any position */
    OP_HISTORY, /* the hourly counters of a queue */
    OP_SCHEDULE_PUT,
    OP_SCHEDULE_DELETE,
    OP_SCHEDULE_GET,
    OP_SCHEDULE_LIST,
    OP_SCHEDULE_PAUSE, /* or resume */
    OP_FIRE,           /* a schedule is due: creates its job and sets its next time in one commit */
    OP_TRIGGER,        /* the same for a schedule that takes items of a queue */
    /* stores whose ready jobs are dispatched (backend_config.dispatches); others refuse them */
    OP_PENDING,    /* jobs that are ready and not dispatched, oldest first */
    OP_DISPATCHED, /* the job was dispatched; has no effect unless it is still ready */
    OP_TICK,       /* internal: expire, promote, prune, a slice of bulk work */
    OP_KIND_COUNT
};

/* How a store that several nodes share executes an operation. */
enum op_class {
    CLASS_UNIT,    /* in a unit of work, with the operations of this class that are next to it */
    CLASS_ALONE,   /* in a separate unit of work, with its queue locked */
    CLASS_FIRE,    /* in a unit of firings */
    CLASS_NOTICE,  /* in a unit about notices and breakers */
    CLASS_LOOK,    /* a read, in order with the units */
    CLASS_SEARCH,  /* a read that runs beside the units */
    CLASS_INTERNAL /* never submitted */
};

/* What a node does with an operation while the shared store does not answer. */
enum op_away {
    AWAY_REFUSED, /* refuses it */
    AWAY_SPOOLED, /* its spool executes it */
    AWAY_BY_JOB,  /* the store that has the job executes it */
    AWAY_BOTH,    /* both stores execute it */
    AWAY_NOTICE   /* the store that has the notice executes it */
};

/* The descriptor of a kind of operation. */
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
    /* Oldest first; all have ended; at most LIMIT_ATTEMPTS_KEPT. The last attempt of a done job
     * says which worker completed it, and when the attempt began. */
    const struct attempt_view *attempts;
    uint32_t attempt_count;
};

/* A job on which another depends: one that exists, or an enqueue of the same commit. */
struct dependency_ref {
    struct job_ref job; /* seq 0 = the enqueue at `index` of the same commit, … */
    uint32_t index;     /* … which must come before; so no loop can arise */
};

/* What an enqueued job depends on; see core/jobs/dependency.h. */
struct op_depends {
    const struct dependency_ref *parents; /* at most LIMIT_DEPENDENCIES; repeats count once */
    uint32_t count;
    uint8_t rule; /* enum dependency_rule */
    bool open;    /* more can be added until OP_DEPENDENCIES closes it */
    /* Of a job with a past, instead of the members above: what it had in the other store. If it is
     * blocked, it comes open, and its dependencies are added when all jobs are there. */
    const struct dependent *past;
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
    /* A queue whose policy is by_due orders the job by this time; 0 = run_at, else now. Only with
     * `past`. */
    struct wall_time due_at;
    struct span payload;
    struct job_extra extra;            /* its options span is ignored: */
    const struct job_options *options; /* NULL = the queue's policy */
    /* Idempotency key (or the caller's nonce); empty = none. Kept as a keyed hash.
     * A second enqueue with the same key gets the job of the first one; with another fingerprint
     * it is refused with OUT_KEY_REUSED. */
    struct span idempotency_key;
    uint64_t fingerprint;
    /* An import: the job has a history in another store. Its queue accepts it even if it accepts
     * no new jobs, and a dead job even if it is full. If another job holds its unique key, it is
     * refused in every unique mode. NULL = an ordinary job. */
    const struct job_past *past;
    /* With past: the job is stored unchanged; with its id only if the backend has CAP_WHOLE_JOBS.
     * Its state is then exactly past->state (any state but running), and there is no event. If a
     * job of the same sequence exists, the outcome is OUT_EXISTS, and reply.seq and id_hi are
     * those of that job. The caller ensures that no other job ever had the sequence. */
    const struct job_moved *moved;
    /* NULL = it depends on nothing. OUT_INVALID when a parent does not exist, or when the store
     * lacks CAP_DEPENDENCIES. */
    const struct op_depends *depends;
    /* A job that is open and depends on this one, too; this one must not be blocked itself. seq 0 =
     * none. OUT_NOT_FOUND when it is not there, OUT_ILLEGAL when it is not open. */
    struct job_ref member_of;
    /* The dead job that this one replaces; it is removed in the same commit. OUT_NOT_FOUND if it
     * does not exist, OUT_ILLEGAL if it is not dead. seq 0 = none. */
    struct job_ref instead_of;
    /* The id that a spool has given to the job (id_spooled); only with `past`. If a job with this
     * id exists, the reply is that of a repeat; if another job has this sequence, the outcome is
     * OUT_EXISTS. seq 0 = the store assigns an id. */
    struct job_ref id;
    /* `id` is not from a spool: this store gave it before the job came to it. Only a store sets
     * this, for a job that is like any other (without `past`). */
    bool drawn;
};

struct op_claim {
    const struct span *queues; /* picks by (priority, sequence) across them */
    uint32_t queue_count;
    struct job_ref one; /* seq ≠ 0: claims exactly this job instead */
    bool only_ready;    /* … if it is ready and its queue is not paused, else OUT_ILLEGAL */
    uint32_t count;     /* at most LIMIT_BATCH; fewer when bodies reach LIMIT_ANSWER_BYTES */
    uint32_t lease_ms;  /* 0 = the job's or queue's */
    struct span worker; /* name; empty = none */
    bool bound;         /* the lease ends when the caller's connection closes */
    bool want_body;     /* payload and texts in the reply */
    uint64_t nonce;     /* 0 = none; see OP_RELEASE_CLAIM */
};

struct op_kv_commit;

/* ack, fail, extend, release: with the token of the current lease. With any_token no token is
 * compared, unless the queue's policy requires one (OUT_INVALID). */
struct op_lease {
    struct job_ref job;
    struct job_token token;
    bool any_token;
    /* ack, fail; step: JSON, and required */
    uint8_t result_kind;
    struct span result;
    /* ack: a hand-off, which takes effect in the same commit, or the ack is refused with it, as a
     * kv_commit would be; reply.handoff has its outcome. NULL = none. */
    const struct op_kv_commit *handoff;
    /* fail: message, class and stack of what went wrong (core/jobs/job_error.h); each is truncated
     */
    struct span error, error_type, stack;
    uint8_t error_kind;
    bool no_retry;
    bool damaged; /* OP_FAIL, only by a backend: the stored body cannot be read back */
    bool lost;    /* OP_RELEASE: the bound connection is gone; counts as a crash */
    bool unsaid;  /* OP_RELEASE: not reported by the holder, so it is not counted as a release */
    /* fail and release: the new priority */
    bool has_priority;
    int64_t priority;
    /* fail and release: when it may run again */
    bool has_delay;
    int64_t delay_ms; /* used when run_at is 0 */
    struct wall_time run_at;
    /* extend: 0 = as long as before; progress: 0 = the lease is not extended */
    uint32_t lease_ms;
    const struct progress *progress; /* progress: its token and time are ignored */
    const struct span *lines;        /* log: 1 to LIMIT_LOG_LINES */
    uint32_t line_count;
    struct span step; /* step: its name */
};

struct op_release_claim {
    uint64_t nonce;
};

/* cancel, requeue, remove, get, dispatched */
struct op_job {
    struct job_ref job;
    int64_t delay_ms; /* requeue: not before now + delay */
    bool discard;     /* cancel: immediately, and also a job that has ended (MOVE_DISCARD) */
    /* cancel: a running job at once. Otherwise it stays running, its worker has the policy's
     * cancel_grace_ms to react, and reply.lease.cancel_by says until when. */
    bool force;
    unsigned
        states; /* cancel, requeue, remove: only from these; 0 = from all that the move allows */
    bool want_body;  /* get */
    bool want_texts; /* get: the same, but payload and result may be left out */
    /* get: the history, oldest first, as the store has it when it is read, which may be a moment
     * after the rest of the view */
    bool want_attempts; /* with the progress of the newest attempt */
    bool want_log;      /* get, with want_attempts: the log, too */
    bool want_steps;    /* get: the results of its steps */
    bool want_parents;  /* get: the jobs for which it still waits */
    bool want_wait;     /* get: what it waits for (struct job_wait), if it waits */
};

/* The job becomes dependent on these, too, which exist. A parent that is newer than the job must
 * not be blocked: then no loop can arise. OUT_ILLEGAL when the job is not blocked and open. */
struct op_dependencies {
    struct job_ref job;
    const struct job_ref *parents; /* at most LIMIT_DEPENDENCIES; repeats change nothing */
    uint32_t count;
    bool close; /* no more are added: it starts as soon as all have ended */
};

struct op_patch {
    struct job_ref job;
    bool has_priority, has_run_at, has_payload;
    int64_t priority;
    struct wall_time run_at; /* 0 = now */
    uint8_t payload_kind;
    struct span payload;
};

/* Members that are not given stay unchanged. With a token, the job must be running under it, else
 * OUT_LEASE_LOST. */
struct op_note {
    struct job_ref job;
    struct job_token token; /* counter 0 = that of the current holder, if any */
    bool has_label, has_attributes, has_result, has_error;
    struct span label, attributes; /* empty = removed */
    uint8_t result_kind;
    struct span result;
    uint8_t error_kind;
    struct span error;
};

struct op_queue {
    struct span name;
    uint32_t number; /* get: instead of the name, which is then empty */
    /* put */
    bool must_create;                  /* OUT_EXISTS if it exists */
    bool must_exist;                   /* OUT_NO_QUEUE if it does not exist */
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
    bool partial; /* the stores that answer are enough: reply.left_out names the others */
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
    /* Cursor: sequences after this one (before it, when newest_first); 0 = start. A page can be
     * short or empty and still have a cursor, because it ends after a limited amount of work. */
    uint64_t after;
    uint32_t limit; /* at most LIMIT_BATCH; fewer when bodies reach LIMIT_ANSWER_BYTES */
    bool newest_first;
    bool want_body;
};

/* The oldest attempts of a queue may be missing if many newer ones belong to other queues. */
struct op_exceptions {
    struct span queue; /* empty = all */
    uint32_t limit;    /* at most LIMIT_EXCEPTIONS; 0 = as many */
};

/* Keys of the key-value store are encoded (core/kvkey.h). */
struct kv_check {
    struct span key;
    uint64_t version; /* that the key must have; 0 = the key must not exist */
};

struct kv_set {
    struct span key;
    struct wall_time expires_at; /* 0 = never; a time in the past removes the key */
    uint8_t kind;                /* enum payload_kind */
    struct span value;
};

/* Nothing is changed unless all checks hold and every enqueue is accepted. OUT_VERSION:
 * reply.failed is the index of the check that does not hold. If an enqueue is refused, the reply
 * has its outcome, and failed_enqueue is set. A key may be set or deleted once; two enqueues must
 * not share an idempotency or unique key. Deleting a key that does not exist is not an error. */
struct op_kv_commit {
    const struct kv_check *checks;
    const struct kv_set *sets;
    const struct span *deletes;
    const struct op_enqueue *enqueues; /* without past and instead_of */
    uint32_t check_count, set_count, delete_count, enqueue_count;
    bool jobs_alone; /* jobs that belong together, without keys: LIMIT_BATCH + 1 enqueues */
};

struct op_kv_get {
    const struct span *keys;
    uint32_t count; /* at most LIMIT_KV_KEYS */
    bool want_value;
};

/* Read from the store, like lists of jobs: reply.kv_as_of says how current it is. */
struct op_kv_list {
    struct span prefix;   /* parts, encoded; empty = every key */
    struct span from, to; /* from ≤ key < to; empty = no bound */
    struct span after;    /* cursor: beyond this key, in the order of the list; empty = start */
    bool reverse;
    bool want_value;
    uint32_t limit; /* at most LIMIT_BATCH; fewer when values reach LIMIT_ANSWER_BYTES */
    struct wall_time
        now; /* set by the backend: keys that have expired by then are left out; 0 = none has */
};

/* put, delete, list. A rule has a name; a change of its condition removes the alerts it has
 * raised. */
struct op_alert {
    struct span name;              /* list: empty = all */
    bool with_secrets;             /* list: for a copy of the store, never for a client */
    bool partial;                  /* list: as op_queue's, but not without the default store */
    const struct alert_rule *rule; /* put: the whole rule */
    bool keep_secret;              /* put: the secret stays what it is; rule->secret is ignored */
    bool must_create;              /* put: OUT_EXISTS if it exists */
    bool must_exist;               /* put: OUT_NOT_FOUND if it does not exist */
};

/* A repeat changes nothing. OUT_NOT_FOUND: the rule does not exist, is not enabled, or does not
 * apply to this queue. */
struct op_alert_edge {
    struct span alert;
    struct span queue; /* empty = the whole server */
    bool raised;
    uint64_t value, mark;
    struct span text; /* for the notice; may be empty; is truncated */
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

/* A notice that is returned is held back for hold_ms, in memory. If the result of its delivery is
 * not reported, it is due again after that time or after a restart. Notices whose target has an
 * open breaker are not returned; those older than give_up_ms become dead. With several stores, the
 * notices come from the stores that answer and that this node leads. */
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
    uint32_t tries; /* as in the reply of the take; with another number this is a repeat */
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

/* In the order in which they were enqueued. OUT_INVALID unless the policy of the queue is `ranked`.
 */
struct op_page {
    struct span queue;
    unsigned states;    /* mask; 0 = all */
    struct span unique; /* with this unique key, cancelled jobs included; empty = any */
    uint8_t pending;    /* enum page_pending: of ready jobs only these */
    uint64_t offset;    /* this many are skipped */
    uint32_t limit;     /* at most LIMIT_BATCH; fewer when bodies reach LIMIT_ANSWER_BYTES */
    bool want_body;
};

/* What one node knows of one worker, or of those who claim from one queue. Nodes that share a store
 * keep their entries there. A store that belongs to one process keeps no entries. */
struct worker_entry {
    struct span name;            /* at most LIMIT_REGISTRY_NAME_BYTES; the broker's */
    struct wall_time keep_until; /* then the store removes it */
    struct span facts;           /* the broker's; at most LIMIT_WORKER_FACTS_BYTES */
};

struct op_registry {
    const struct worker_entry *entries; /* of this node: each replaces the previous one */
    uint32_t count;                     /* at most LIMIT_BATCH */
    /* The reply: only the entries whose names begin with `prefix` (empty = all), or those with the
     * name `only` (empty = any). */
    struct span prefix, only;
};

struct op_pending {
    uint64_t after; /* sequences after this one */
    uint32_t limit; /* at most LIMIT_BATCH */
};

struct op_history {
    struct span queue;
    uint32_t from, to; /* hours since 1970, from ≤ hour < to */
};

/* The caller, which knows time zones and policies, computes the next time of a schedule. Each time
 * is fired once: a time before the schedule's next one is refused with OUT_NOT_DUE. */
struct op_schedule {
    struct span name;
    uint32_t number; /* get: instead of the name, which is then empty */
    /* put */
    bool must_create;                 /* OUT_EXISTS if it exists */
    bool must_exist;                  /* OUT_NO_SCHEDULE if it does not exist */
    const struct schedule_spec *spec; /* NULL = unchanged */
    bool has_owner, has_note, has_attributes, has_paused;
    struct span owner, note, attributes;
    /* put, pause: a paused schedule is never due, and the times it misses are not fired later */
    bool paused;
    /* put, resume, fire, trigger: when it is due next; LIMIT_WALL_MS = never; put with 0 = as it
     * was */
    struct wall_time next_at;
    /* fire, trigger */
    struct wall_time at; /* the time that is fired */
    uint32_t missed;     /* earlier times that passed without a job */
    bool skip;           /* fire: this time creates no job either */
    bool now; /* an extra firing: `at` and next_at are ignored, and its times stay unchanged */
    /* list */
    struct span after; /* names after this one */
    uint32_t limit;
    /* list, with CAP_CHANGES: instead of by name, those that were put, paused or
     * resumed after the mark `since` (0 = all), in the order of these changes;
     * reply.change_mark is the mark of the last of them. Deleted schedules are not reported. */
    bool by_change;
    uint64_t since;
};

struct op {
    enum op_kind kind;
    uint64_t tag; /* copied to the reply */
    union {
        struct op_enqueue enqueue;
        struct op_claim claim;
        struct op_lease lease;
        struct op_release_claim release_claim;
        struct op_job job;
        struct op_patch patch;
        struct op_dependencies dependencies;
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

/* What the operation commits besides a job: that of OP_KV_COMMIT, and of an ack with a hand-off;
 * NULL = nothing. */
static inline const struct op_kv_commit *op_commit(const struct op *op)
{
    if (op->kind == OP_ACK)
        return op->lease.handoff;
    return op->kind == OP_KV_COMMIT ? &op->kv_commit : NULL;
}

enum outcome {
    OUT_OK,
    /* refusals: nothing changed */
    /* The unique key is taken; reply.seq names the job that holds it. queue_put: some jobs share a
     * key that would have to be unique among all jobs that are kept; reply.seq names one of them
     * (0 = not known), and reply.jobs shows them. */
    OUT_DUPLICATE,
    OUT_NOT_FOUND,     /* no such job, notice, rule or breaker */
    OUT_NO_QUEUE,      /* no such queue */
    OUT_LEASE_LOST,    /* not the token of the current lease: an older one, that of another job, or
                          none */
    OUT_GONE,          /* the job has ended, and its outcome is no longer known */
    OUT_CANCELLED,     /* the report is too late: the job was cancelled, or the grace time of the
                          requested cancel has passed */
    OUT_ILLEGAL,       /* the move does not start from reply.state; state_legal_moves() lists */
    OUT_QUEUE_FULL,    /* capacity of the queue */
    OUT_SERVER_FULL,   /* capacity of the server */
    OUT_QUEUES_FULL,   /* no room for another queue, see queue_limits.h */
    OUT_REFUSED_NEW,   /* the queue accepts no new jobs */
    OUT_TOO_BIG,       /* the payload exceeds the limit of the queue */
    OUT_INVALID,       /* reply.note says which field */
    OUT_KEY_REUSED,    /* idempotency key with another body */
    OUT_KEYS_FULL,     /* no room for another idempotency key */
    OUT_DISK_FULL,     /* no room for a new job */
    OUT_EXISTS,        /* there is already a queue, schedule, rule or job of this name or id */
    OUT_VERSION,       /* a key does not have the version that the commit expects */
    OUT_KV_FULL,       /* the key-value store is full */
    OUT_STEPS_FULL,    /* the job has as many steps, or bytes of them, as it may have */
    OUT_RATE_LIMIT,    /* of the queue; reply.retry_ms says when to try again */
    OUT_NO_SCHEDULE,   /* no such schedule */
    OUT_BREAKERS_FULL, /* no room for another named breaker */
    OUT_DAMAGED,       /* a stored body or value cannot be read back as it was written */
    OUT_NOT_DUE, /* this time was already fired or is not due yet, or the schedule is paused */
    /* failures */
    OUT_UNAVAILABLE, /* certainly not executed */
    OUT_UNKNOWN,     /* possibly executed */
    OUT_COUNT
};
const char *outcome_name(enum outcome o); /* "ok", "duplicate", … */

const char *attempt_outcome_name(enum attempt_outcome o); /* "running", "done", … */

/* One attempt at a job: from a claim to what ended the lease. A job keeps its newest
 * LIMIT_ATTEMPTS_KEPT; a requeue keeps them, and numbers start again at 1. */
struct attempt_view {
    uint64_t seq, id_hi;
    struct span queue;
    uint32_t
        number; /* as the worker saw it: failures + crashes + 1; the same again after a release */
    struct span worker;                    /* empty = no name */
    struct wall_time started_at, ended_at; /* ended_at 0 = still running */
    uint8_t outcome, error_kind;           /* enum attempt_outcome, enum error_kind */
    struct span error; /* failed, crashed: packed (core/jobs/job_error.h); may be empty */
};

/* Counters of a job since the server started; they stop at their highest value. */
struct outcome_counts {
    uint16_t claims, timeouts, releases;
    uint8_t rejections, requeues; /* failed with no_retry; requeued */
};

/* The parts of a job that cannot be read back as they were written, and are left out of the view.
 */
enum job_damage {
    DAMAGE_PAYLOAD = 1u << 0,
    DAMAGE_RESULT = 1u << 1,
    DAMAGE_TEXTS = 1u << 2,   /* keys, label, attributes, options */
    DAMAGE_HISTORY = 1u << 3, /* the last error, attempts */
    DAMAGE_STEPS = 1u << 4,
};
/* A claim does not return such a job. */
#define DAMAGE_FATAL (DAMAGE_PAYLOAD | DAMAGE_TEXTS | DAMAGE_STEPS)
/* The first part because of which a claim does not return the job; 0 = it returns it. */
static inline unsigned damage_fatal(unsigned damage)
{
    damage &= DAMAGE_FATAL;
    return damage & -damage;
}
/* "payload", "result", "keys", "history", "steps"; of one bit. */
const char *damage_name(unsigned bit);

/* How a number was found. */
enum count_kind { COUNT_EXACT, COUNT_ESTIMATE, COUNT_AT_LEAST };
/* Up to this many jobs before another one are counted exactly by every store. */
#define BEFORE_COUNTED 1000u

/* Slots of a limit at the claim. */
struct slots {
    uint64_t running, most; /* most 0 = no limit */
};

/* What keeps a waiting job from starting, apart from its own state and the workers, as its store
 * knows it. job_wait_limits (ops/jobs/why.h) fills in what follows from the policy. */
struct job_wait {
    struct wall_time paused_until; /* of its queue; 0 = not paused; LIMIT_WALL_MS = until resumed */
    uint64_t running, ready;       /* jobs of its queue */
    /* A ready job: how many ready jobs come before it. Of a queue with groups (claim_grouped) only
     * those of its group: which groups come first depends on what ends first. */
    uint64_t before;
    uint8_t before_kind; /* enum count_kind */
    bool grouped;
    bool rate_by_group;
    struct slots queue, group;
    int64_t token_ms; /* until claim_rate has a token for it; 0 = it has one, or there is no rate */
};

/* A job as clients see it. */
struct job_view {
    struct job job;
    struct outcome_counts outcome_counts;
    struct span queue;          /* name */
    struct span owner;          /* of the queue; this and the next two: get, peek, page */
    bool require_token;         /* of its policy */
    bool by_due;                /* the same; job.priority is then an order (core/jobs/job.h) */
    bool paused;                /* the queue is paused */
    uint32_t lease_ms;          /* running */
    struct job_token token;     /* running: of the current lease; after a claim: the claimer's */
    struct lease_limits limits; /* running */
    uint32_t own_lease_ms;      /* get, peek: the lease of a claim that names none */
    uint32_t max_attempts;      /* claim: the job's own, or the queue's */
    int64_t lease_left_ms;      /* running: until the lease ends, ≥ 0; -1 = not known */
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
    /* get: it depends on others; what became of them, and for how many it still waits */
    bool is_dependent;
    struct dependent dependent;
    uint32_t waits;
    const struct job_ref *parents; /* with want_parents: those, in no order */
    uint32_t parent_count;
    const struct job_wait *wait; /* with want_wait, of a job that waits; otherwise NULL */
    struct span progress;        /* with want_attempts: as progress_decode reads it; empty = none */
    struct span log;             /* with want_log: see joblog_begin */
    uint32_t step_bytes;         /* of names and results, when `steps` is wanted; 0 = it has none */
    struct span steps;           /* claim with want_body, get with want_steps: see steps_next */
    /* only with want_body */
    bool has_body;
    struct job_extra extra;
    struct span payload;
    uint8_t result_kind, error_kind;
    uint8_t damage; /* enum job_damage */
    struct span result;
    struct span error; /* packed (core/jobs/job_error.h) */
};

/* The priority with which the job was enqueued or patched. */
static inline int64_t view_priority(const struct job_view *v)
{
    return v->by_due ? priority_given(v->job.priority) : v->job.priority;
}

/* When a job of a queue that is by_due was due; 0 = its queue has another order. */
static inline struct wall_time view_due(const struct job_view *v)
{
    return v->by_due ? priority_due(v->job.priority) : (struct wall_time){0};
}

struct queue_counts {
    uint64_t by_state[STATE_COUNT];
    uint64_t urgent; /* ready jobs of a priority above PRIORITY_URGENT */
    uint64_t
        limited[CLAIM_BLOCK_COUNT]; /* ready jobs that cannot start now, by what they wait for */
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
    /* In a partial list: the store of this queue did not answer, and this is a queue of the same
     * name in another store. */
    bool stand_in;
};

#define SHARED_SHOWN 100u

#define HISTORY_HOURS (30u * 24) /* kept */
struct hour_view {
    uint32_t hour; /* since 1970 */
    struct counters counters;
};

/* A key as clients see it. */
struct kv_view {
    struct span key;
    bool found;
    uint64_t version;            /* increases with every change; never used again for any key */
    struct wall_time expires_at; /* 0 = never */
    uint8_t kind;
    bool has_value; /* only with want_value */
    bool damaged;   /* the value cannot be read as it was written: it is left out */
    struct span value;
    uint64_t position; /* the backend's own: of the record that set it */
};

/* The result of one enqueue of a commit. */
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
    bool last_live; /* its last job has not ended */
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
    int64_t retry_ms; /* or, if not, it may be permitted after this time */
};

/* --- replies: a header, and one struct for each family of operations ---
 *
 * op_info.reply says which family an operation's reply belongs to. Only the header and the struct
 * of that family are valid; after a refusal the struct is zero, unless its fields say otherwise. */

/* enqueue */
struct enqueue_reply {
    uint64_t replaced_seq; /* under "replace": the job that was cancelled; 0 = none */
};

/* The part of a reply that concerns a lease which continues. */
struct lease_news {
    int64_t left_ms;            /* extend: until it ends; 0 = it has no end */
    struct wall_time cancel_by; /* a cancel is requested, and the job ends by then; 0 = it is not */
};

struct kv_commit_reply;

/* ack, fail, extend, release, step, cancel, requeue, patch, remove, note, dependencies */
struct change_reply {
    union {
        struct lease_news lease; /* extend, cancel; zero in the others */
        /* ack with a hand-off: what became of it, also of one that was refused. When the ack is
         * repeated, only the jobs are known, and of these only those that were enqueued with an
         * idempotency key that the store still remembers (seq 0 = not known). NULL = nothing. */
        const struct kv_commit_reply *handoff;
    };
    int64_t ran_ms;     /* ack, fail, release: how long the lease was held; 0 when repeated */
    struct span worker; /* ack, fail, extend, release: who held the lease; empty = no name, or
                           repeated */
    struct span queue;  /* the job's; empty = the job is not there */
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
    const struct worker_view *workers; /* at most WORKERS_MAX; those with the oldest leases first */
    uint32_t worker_count;
    uint64_t worker_total; /* how many there are in all */
};

/* registry */
struct registry_reply {
    const struct worker_entry *entries; /* of all nodes, in no particular order */
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
    /* notice_take: when the next notice is due, as far as known; 0 = never */
    struct wall_time next_due;
    uint64_t notice_cursor; /* notice_list: pass as `after`; 0 = that was all */
};

/* breaker_put, breaker_delete, breaker_allow, breaker_report, breaker_list */
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
    /* enqueue, get with want_wait: this node keeps the job until the shared store answers again */
    bool spooled;
    bool repeat; /* the same reply as before: the idempotency key, or (job, token), was used already
                  */
    bool created;            /* a new job, queue, rule or schedule */
    enum job_state state;    /* of the job afterwards; for OUT_ILLEGAL: as it is */
    uint64_t seq, id_hi;     /* the job concerned; for OUT_DUPLICATE the holder of the key */
    struct wall_time run_at; /* of the job: when it may run, or run again */
    int64_t retry_ms;        /* OUT_RATE_LIMIT, claim by id: from now; 0 = not known */
    /* queue_list, breaker_list, alert_list, notice_take: the stores whose part is missing, 1 <<
     * number each. With failover also in the reply to any other query that the spool answers
     * because the shared store does not, whatever the outcome. */
    uint64_t left_out;
    const char *note; /* OUT_INVALID, OUT_UNAVAILABLE, a limit of a claim by id: a sentence */
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
 * fills those fields with a pattern (0xa5) that no reader can mistake for a value. backend_submit
 * calls it for each reply before it is delivered. */
#ifdef HF_TEST_HOOKS
void reply_guard(struct reply *r);
#else
static inline void reply_guard(struct reply *r)
{
    (void)r;
}
#endif
