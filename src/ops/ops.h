/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: each one is decided here, once, for every kind of store.
 *
 * src/ops may use core and base. It knows no store, does no I/O and reads no clock.
 *
 * An operation checks what was asked, asks the rules of core for the outcome, turns it into records
 * (core/records/record.h) and fills in the reply. What it must know of the jobs and queues, and how
 * a record takes effect, it learns through `struct ops_store`: the engine of the local backend
 * implements that interface on its tables, backend/shared on the rows that a unit has loaded.
 *
 *   op.h, op.c         what can be asked and answered, and one descriptor for each operation
 *   ops.h              this interface; replies.h has what all operations write into a reply
 *   queues.c           queues: put, delete, pause, purge; bulk actions begin
 *   queue_limits.c     how many queues a store may have
 *   defects.h          mistakes that tests plant, to prove that their checks find them
 *
 *   jobs/enqueue.c     enqueues, which commits and schedules use, too; rates.c limits their rate
 *   jobs/moved.c       jobs that come whole from another store
 *   jobs/claim.c       claims
 *   jobs/leases.c      ack, fail, extend, release; leases that end without a report (held.h)
 *   jobs/handoff.c     acks with a hand-off: enqueues and keys in the same commit
 *   jobs/progress.c    progress and log lines of a lease
 *   jobs/steps.c       results of steps, stored under a lease
 *   jobs/change.c      cancel, requeue, patch, remove, annotate; bulk actions on one job
 *   jobs/dependencies.c  jobs that depend on others
 *   jobs/why.c         why a job is not running: a rule, not an operation
 *   kv/kv.c            commits of the key-value store
 *   schedules/         schedules, and the jobs that they create when they fire (fire.c)
 *   alerts/alerts.c    alert rules, conditions, what a notice contains
 *   alerts/notices.c   the outbox: take, end, again, discard
 *   alerts/breakers.c  breakers: those of webhooks, and those that clients consult
 *   *_check.c          checks of an operation's values that need no state
 *
 * Handles. A job is passed as a pointer to its struct job, which is the first member of whatever
 * the store keeps for a job; a queue as a pointer to its struct queue_state, likewise. They are
 * valid until the operation ends. */
#pragma once

#include "base/buf.h"
#include "base/containers/arena.h"
#include "base/containers/heap.h"
#include "base/digest/hash.h"
#include "base/digest/random.h"
#include "core/bulk.h"
#include "core/jobs/moves.h"
#include "core/queues/claim_limits.h"
#include "ops/defects.h"
#include "ops/op.h"

/* What the rules read of a queue. */
struct queue_state {
    uint32_t number;
    uint32_t generation; /* rises with each purge; waiting jobs of an older one do not exist */
    struct queue_policy policy;
    struct wall_time created_at, updated_at, paused_until;
};

/* A lease that runs. */
struct lease_state {
    struct job_token token;
    uint32_t lease_ms;  /* 0 = it has no end: a trigger's job holds it */
    struct span worker; /* valid until the lease ends; empty = no name */
    struct lease_limits limits;
    int64_t
        limit_left_ms; /* until its first limit; ≤ 0 = that has passed; INT64_MAX = it has none */
    bool limited;      /* it ends at that limit, not sooner for lack of an extend */
};

/* A kept reply (core/limits.h): how the holder of a lease ended it. */
struct lease_report {
    uint8_t kind; /* enum op_kind: ack, fail, release */
    uint8_t state;
    struct wall_time run_at;
};

/* How a lease ended, as far as it is counted for a job (struct outcome_counts). */
enum lease_ending { ENDED_OTHERWISE, ENDED_RELEASED, ENDED_BY_TIME, ENDED_REJECTED };

/* What the rules read of a schedule. */
struct schedule_base {
    uint32_t number;
    bool paused;
    struct wall_time created_at, updated_at;
    struct schedule_spec spec;
    struct schedule_state state;
};

/* The first enqueue with an idempotency key, which answers repeats. */
struct idempotency_state {
    uint64_t fingerprint, seq, id_hi;
    uint8_t state; /* of its job; STATE_NONE = it is gone */
};

/* A key of the key-value store. */
struct kv_state {
    bool stored;      /* the store has it, be it expired … */
    uint64_t bytes;   /* … with a value of this size */
    uint64_t version; /* 0 = it does not exist, or has expired */
};

struct kv_usage {
    uint64_t keys, bytes;
};

/* What the settings of the server limit. */
struct ops_limits {
    struct queue_policy policy; /* of queues that are created by an enqueue */
    bool no_auto_create;
    unsigned node;
    uint64_t capacity;  /* live jobs of all queues; 0 = no limit */
    struct kv_usage kv; /* of the key-value store */
};
#define DEFAULT_KV_KEYS_MAX 1000000u
#define DEFAULT_KV_BYTES_MAX (UINT64_C(1) << 30)
#define DEFAULT_KEYS_MAX 4000000u
#define DEFAULT_KEY_TTL_MS (24u * 3600 * 1000)

/* An alert rule. */
struct alert_state {
    struct span name, target; /* target: what its breaker is about; empty = no webhook */
    struct alert_rule rule;
    struct wall_time created_at, updated_at;
};

/* A notice in the outbox; the name of its rule need not be filled in. */
struct notice_entry {
    struct rec_notice_new notice;
    struct rec_notice_tried tried;
};
#define NOTICE_LOOKS LIMIT_SLICE /* notices that one take looks at */

/* The change of a queue, as events show it. */
enum queue_change { QUEUE_CREATED, QUEUE_CHANGED, QUEUE_PAUSED, QUEUE_RESUMED };

struct ops;
struct enqueue_plan;

/* What a store with CAP_DEPENDENCIES provides besides struct ops_store. */
struct dependency_store {
    /* What the job depends on. False: it is no dependent. */
    bool (*find)(const struct ops *o, const struct job *j, struct dependent *ret,
                 uint32_t *ret_waits);
    /* The state of a job that is to become a parent; STATE_NONE: it does not exist. *ret_settling:
     * it has ended once, and jobs that depended on it have not been told yet. */
    uint8_t (*parent_state)(struct ops *o, struct job_ref ref, bool *ret_settling);
    /* Room for this many dependents and parents, and for the records of them all. */
    bool (*prepare)(struct ops *o, size_t dependents, size_t parents);
    /* The bytes of those records. */
    size_t (*bytes)(size_t dependents, size_t parents);
    void (*put)(struct ops *o, const struct job *j, const struct dependent *d);
    /* The job, which is a dependent, waits for these (rising sequences). */
    void (*add)(struct ops *o, const struct job *j, const uint64_t *parents, uint32_t count);
    /* Removes from the list (rising sequences) those for which the job waits already; gives the
     * number of the rest. UINT32_MAX: no memory. */
    uint32_t (*without)(struct ops *o, const struct job *j, uint64_t *parents, uint32_t count);
};
struct rate_share;
struct schedule_flow;

/* What a store provides. Where a comment says "False: no memory", nothing has changed then. */
struct ops_store {
    /* --- jobs and queues --- */

    /* The job and its queue, unless it does not exist, was purged, or has another id. */
    struct job *(*job_find)(struct ops *o, struct job_ref ref,
                            const struct queue_state **ret_queue);
    /* Whether a job ever had this sequence. */
    bool (*seq_issued)(const struct ops *o, uint64_t seq);
    const struct queue_state *(*job_queue)(const struct ops *o, const struct job *j);
    /* The name, for a reply. False: no memory. */
    bool (*queue_name)(struct ops *o, const struct queue_state *q, struct span *ret);
    /* The policy of its queue with its own options; `room` may be used for them. */
    void (*job_rules)(const struct ops *o, const struct job *j, struct job_options *room,
                      struct job_rules *ret);
    /* Another job that holds the unique key of this one; NULL = none. */
    struct job *(*key_rival)(struct ops *o, const struct job *j);

    /* --- queues --- */

    /* How many of its jobs are in these states (a mask). */
    uint64_t (*queue_count)(const struct ops *o, const struct queue_state *q, unsigned states);
    /* The queue as REC_QUEUE_PUT describes it, without its policy. */
    void (*queue_read)(const struct ops *o, const struct queue_state *q, struct rec_queue_put *ret);
    /* Whether its scope of unique keys cannot become `to` before the jobs of a purge are removed.
     */
    bool (*scope_waits)(const struct ops *o, const struct queue_state *q, uint8_t to);
    /* Whether jobs of the queue that are not cancelled share a unique key; the reply then has some
     * of them. Called when the scope is widened. */
    bool (*keys_shared)(struct ops *o, const struct queue_state *q, struct reply *r);
    /* The queue is created (q NULL) or becomes as `put` and the policy say. False: it did not;
     * memory is short (o->nomem), or the store will begin again. */
    bool (*queue_put)(struct ops *o, const struct queue_state *q, struct rec_queue_put *put,
                      const struct queue_policy *policy, enum queue_change change);
    /* The queue is purged or deleted, with `count` jobs. False: no memory. */
    bool (*queue_commit)(struct ops *o, const struct queue_state *q, const struct record *rec,
                         uint64_t count);

    /* --- bulk actions --- */

    size_t (*bulk_count)(const struct ops *o); /* under way */
    /* The action begins. Its number and seq_max are the store's to fill in; the store replies to
     * the operation when the action has ended. False: no memory. */
    bool (*bulk_begin)(struct ops *o, const struct op *op, struct rec_bulk_begin *begin);

    /* --- alert rules --- */

    const struct alert_state *(*alert_find)(const struct ops *o, struct span name);
    const struct alert_state *(*alert_at)(const struct ops *o, size_t at); /* NULL = no more */
    uint64_t (*alert_notices)(const struct ops *o, const struct alert_state *a); /* in the outbox */
    /* Whether the rule's condition holds in the queue; how many hold, of all rules. */
    bool (*raised)(const struct ops *o, const struct alert_state *a, struct span queue);
    uint64_t (*raised_count)(const struct ops *o);
    /* A rule is put or deleted, or its condition begins or ceases to hold; with this notice, if it
     * is not NULL. False: no memory. */
    bool (*alert_commit)(struct ops *o, const struct record *rec, struct rec_notice_new *n);

    /* --- notices and breakers --- */

    /* Adds the notice to the outbox; the store fills in number, id and time. Memory for it was
     * reserved where it was decided. */
    void (*notice_new)(struct ops *o, struct rec_notice_new *n);
    struct notice_entry *(*notice_find)(struct ops *o, uint64_t number);
    const struct alert_state *(*notice_alert)(const struct ops *o, const struct notice_entry *n);
    /* The notice was tried, or leaves the outbox. False: no memory. */
    bool (*notice_commit)(struct ops *o, struct notice_entry *n, const struct record *rec);
    /* A take begins; then the next notice that is due and has a rule with a webhook. Each must be
     * looked at later, or committed, before the next is asked for. */
    void (*notices_begin)(struct ops *o, const struct op_notice_take *want);
    struct notice_entry *(*notice_due)(struct ops *o);
    void (*notice_look)(struct ops *o, struct notice_entry *n, int64_t at_ms, bool given_out);
    struct wall_time (*notices_next)(const struct ops *o); /* when another take is worthwhile */
    /* The target answers again: what its breaker kept back need not wait any longer. */
    void (*notices_release)(struct ops *o, struct span target);
    const struct breaker_view *(*breaker_find)(const struct ops *o, struct span target);
    const struct breaker_view *(*breaker_next)(const struct ops *o,
                                               const struct breaker_view *after); /* NULL = first */
    bool (*breaker_commit)(struct ops *o, const struct record *rec);
    uint64_t (*breaker_named_count)(const struct ops *o);

    /* --- leases --- */

    bool (*lease)(const struct ops *o, const struct job *j, struct lease_state *ret);
    /* How the lease of this token was reported to end; false: it was not, or that is forgotten. */
    bool (*report_find)(const struct ops *o, uint64_t seq, struct job_token token,
                        struct lease_report *ret);
    /* Whether such a report may have existed and been forgotten. Called once for a token that is
     * neither the current lease's nor reported; the store may count these. */
    bool (*report_forgotten)(struct ops *o, const struct job *j, struct job_token token);
    /* The lease of this token, which has just ended, was ended by this report of its holder. */
    void (*report_keep)(struct ops *o, const struct job *j, struct job_token token, uint8_t kind);
    void (*count_ending)(struct ops *o, struct job *j, enum lease_ending how);
    void (*count_requeue)(struct ops *o, struct job *j);

    /* A job that a claim with this nonce has leased; NULL = none is left. */
    struct job *(*claimed_by)(struct ops *o, uint64_t nonce);

    /* --- claims --- */

    /* NULL = no such queue. */
    const struct queue_state *(*queue_find)(struct ops *o, struct span name);
    /* How many of the queue's ready jobs a claim can get, at most. */
    uint64_t (*ready_count)(const struct ops *o, const struct queue_state *q);
    /* The ready job that the queue hands out next, and its place in the order (claim_priority
     * turned round by heap_order_desc, and the sequence). The limits of the queue and of the job's
     * group allow it to start now. NULL and true: no such job. False: the next one is not known, or
     * memory is short (o->nomem). */
    bool (*ready_next)(struct ops *o, const struct queue_state *q, struct heap_entry *ret_order,
                       struct job **ret);
    /* For a job that a claim names: what keeps it from starting now, whatever is before it in the
     * order; *ret_at_us: CLAIM_RATE: when its token is there. */
    enum claim_block (*claim_room)(struct ops *o, const struct queue_state *q, const struct job *j,
                                   int64_t *ret_at_us);
    struct job_token (*token_next)(struct ops *o);
    /* Commits the claim that this record describes, all but its token, which the store gives;
     * begins the lease and fills what the store knows into the view, which is empty. False: no
     * memory. */
    bool (*lease_start)(struct ops *o, struct job *j, const struct op_claim *want,
                        struct record *rec, struct job_view *view);
    /* The views of these jobs are the reply's; their bodies are still to be filled in. */
    bool (*claim_reply)(struct ops *o, struct reply *r, struct job_view *views, struct job **jobs,
                        uint32_t count, bool want_body);

    /* --- enqueues --- */

    /* The job of this sequence, also one that was purged and awaits its removal. */
    struct job *(*job_by_seq)(struct ops *o, uint64_t seq);
    /* The job that holds this unique key in the queue; NULL = none does. */
    struct job *(*key_holder)(struct ops *o, struct queue_state *q, struct span key);
    /* Live jobs of the queue, and of all. */
    uint64_t (*queue_live)(struct ops *o, const struct queue_state *q);
    uint64_t (*live)(struct ops *o);
    /* Whether one more queue may be created, with `ahead` others; see queue_limits.h. */
    bool (*queue_room)(struct ops *o, size_t ahead, bool implied);
    /* Creates it with the default policy. NULL: no memory. */
    struct queue_state *(*queue_create)(struct ops *o, struct span name);
    /* False: there is no such key, or it has expired. */
    bool (*idempotency_find)(struct ops *o, struct hash128 key, struct idempotency_state *ret);
    /* OUT_OK, OUT_KEYS_FULL or OUT_UNAVAILABLE; `ahead` others are kept before it. */
    enum outcome (*idempotency_room)(struct ops *o, struct hash128 key, size_t ahead);
    void (*idempotency_keep)(struct ops *o, struct hash128 key, uint64_t fingerprint,
                             const struct job *j);
    /* Whether there is a sequence for the job, with `ahead` others; else a refusal. */
    enum outcome (*seq_room)(struct ops *o, const struct op_enqueue *want, size_t ahead,
                             const char **note);
    /* When the bucket of a rate limit is full again, µs; and one job takes its share of it. */
    int64_t (*rate_full_us)(struct ops *o, const struct rate_share *share);
    void (*rate_take)(struct ops *o, const struct rate_share *share);
    /* Room for what was planned, for changes of keys (or NULL) and for `more` bytes of records.
     * False: no memory. */
    bool (*enqueues_prepare)(struct ops *o, const struct enqueue_plan *plans, size_t count,
                             const struct op_kv_commit *keys, size_t more);
    /* Creates the planned job, with its earlier attempts in another store. NULL: no memory. */
    struct job *(*job_create)(struct ops *o, struct enqueue_plan *p);

    /* --- keys of the key-value store --- */

    struct kv_state (*kv_find)(struct ops *o, struct span key);
    struct kv_usage (*kv_used)(struct ops *o);
    uint64_t (*kv_version)(struct ops *o); /* for the changes of one commit */
    void (*kv_set)(struct ops *o, const struct kv_set *set, uint64_t version);
    /* How many of them existed. */
    uint32_t (*kv_delete)(struct ops *o, const struct span *keys, uint32_t count, uint64_t version);

    /* --- schedules --- */

    struct schedule_base *(*schedule_find)(struct ops *o, struct span name); /* NULL = none */
    /* An empty owner: no API's. */
    void (*schedule_names)(struct ops *o, const struct schedule_base *s, struct span *ret_name,
                           struct span *ret_owner);
    uint64_t (*schedule_count)(const struct ops *o);
    /* Of a new one; 0 = all have been given. */
    uint32_t (*schedule_number)(const struct ops *o);
    /* What all triggers but the one of this name take and feed. False: no memory. */
    bool (*schedule_flows)(struct ops *o, struct span but, const struct schedule_flow **ret,
                           size_t *ret_count);
    void (*schedule_read)(const struct ops *o, const struct schedule_base *s,
                          struct rec_schedule_put *ret);
    /* Creates it (s NULL) or changes it; spec: what put->spec encodes, NULL = it is unchanged.
     * NULL: no memory. */
    struct schedule_base *(*schedule_put)(struct ops *o, struct schedule_base *s,
                                          const struct rec_schedule_put *put,
                                          const struct schedule_spec *spec);
    bool (*schedule_delete)(struct ops *o, struct schedule_base *s); /* false: no memory */
    /* Whether its last job is still waiting or running. */
    bool (*schedule_last_live)(struct ops *o, const struct schedule_base *s);
    /* The reply shows the schedule as it is now. */
    void (*schedule_show)(struct ops *o, const struct schedule_base *s, struct reply *r);
    /* Room for the record of a step. False: no memory. */
    bool (*schedule_prepare)(struct ops *o, const struct record *rec);
    /* The step takes effect, with its events; job: what it has created, or NULL. */
    void (*schedule_step)(struct ops *o, struct schedule_base *s, const struct record *rec,
                          const struct job *job);

    struct span (*queue_owner)(struct ops *o, const struct queue_state *q);
    /* Removes the job that ready_next returned from the order, where it takes a slot and a token;
     * or adds it again. */
    void (*item_take)(struct ops *o, const struct queue_state *q);
    void (*item_return)(struct ops *o, struct job *j);
    /* The token that token_next will give after `index` others. */
    struct job_token (*token_ahead)(struct ops *o, uint32_t index);
    /* Memory for the leases of `count` items; *more grows by the bytes of their records. */
    bool (*items_prepare)(struct ops *o, const struct queue_state *q, uint32_t count, size_t *more);
    /* The leases of these items, which have just begun, have no end: this job holds them. */
    void (*items_link)(struct ops *o, const struct job *holder, struct job **items, uint32_t count);

    /* --- changes --- */

    /* Makes sure that the records, which are committed next and in this order, and all that follows
     * from them can take effect. At most one of them, the last, changes the job's state. */
    bool (*prepare)(struct ops *o, struct job *j, const struct record *recs, size_t count);
    /* The record takes effect, with what follows from it: counters, indexes, events, the payload
     * that a dead job leaves at its keys, notices. */
    void (*commit)(struct ops *o, struct job *j, const struct record *rec);
    /* The index of the steps of a job (core/jobs/steps.h), which runs or is being claimed; empty =
     * it has none. Valid until the job changes. */
    struct span (*steps)(struct ops *o, const struct job *j);
    /* The job ceases to exist. False: no memory. */
    bool (*remove)(struct ops *o, struct job *j);

    const struct dependency_store *dependencies; /* NULL = the store has none */
};

/* The context in which operations are executed. Stores embed it as the first member of the state to
 * which `store` belongs. */
struct ops {
    const struct ops_store *store;
    struct random *random;
    struct arena *memory; /* for what replies and records point to */
    struct wall_time now;
    int64_t rate_now_us; /* the time that rate limits count in */
    const struct ops_limits *limits;
    struct hash_key hash_key; /* for idempotency and unique keys */
    struct buf scratch;
    bool disk_full; /* new jobs and keys are refused */
    bool nomem;     /* set when memory was short; the operation's reply says so */
    /* Bytes of bodies that the claims of this commit have got so far; a store that answers each
     * claim by itself sets it to 0 before each. */
    uint64_t body_bytes;
#ifdef HF_TEST_HOOKS
    unsigned defects; /* enum engine_defect */
#endif
};

/* The operations. Each fills in the reply, whose kind and tag are the caller's. */
typedef void (*ops_fn)(struct ops *o, const struct op *op, struct reply *r);
ops_fn ops_function(enum op_kind kind); /* NULL = the store has its own function for it */

void ops_ack(struct ops *o, const struct op *op, struct reply *r);
void ops_fail(struct ops *o, const struct op *op, struct reply *r);
void ops_extend(struct ops *o, const struct op *op, struct reply *r);
void ops_progress(struct ops *o, const struct op *op, struct reply *r);
void ops_step(struct ops *o, const struct op *op, struct reply *r);
void ops_log(struct ops *o, const struct op *op, struct reply *r);
void ops_release(struct ops *o, const struct op *op, struct reply *r);
void ops_enqueue(struct ops *o, const struct op *op, struct reply *r);
void ops_kv_commit(struct ops *o, const struct op *op, struct reply *r);
void ops_schedule_put(struct ops *o, const struct op *op, struct reply *r);
void ops_schedule_pause(struct ops *o, const struct op *op, struct reply *r);
void ops_schedule_delete(struct ops *o, const struct op *op, struct reply *r);
void ops_fire(struct ops *o, const struct op *op, struct reply *r);
void ops_trigger(struct ops *o, const struct op *op, struct reply *r);
void ops_release_claim(struct ops *o, const struct op *op, struct reply *r);
void ops_claim(struct ops *o, const struct op *op, struct reply *r);
void ops_cancel(struct ops *o, const struct op *op, struct reply *r);
void ops_requeue(struct ops *o, const struct op *op, struct reply *r);
void ops_patch(struct ops *o, const struct op *op, struct reply *r);
void ops_remove(struct ops *o, const struct op *op, struct reply *r);
void ops_note(struct ops *o, const struct op *op, struct reply *r);
void ops_dependencies(struct ops *o, const struct op *op, struct reply *r);
void ops_queue_put(struct ops *o, const struct op *op, struct reply *r);
void ops_queue_delete(struct ops *o, const struct op *op, struct reply *r);
void ops_pause(struct ops *o, const struct op *op, struct reply *r);
void ops_purge(struct ops *o, const struct op *op, struct reply *r);
void ops_alert_put(struct ops *o, const struct op *op, struct reply *r);
void ops_alert_delete(struct ops *o, const struct op *op, struct reply *r);
void ops_alert_edge(struct ops *o, const struct op *op, struct reply *r);
void ops_notice_take(struct ops *o, const struct op *op, struct reply *r);
void ops_notice_end(struct ops *o, const struct op *op, struct reply *r);
void ops_notice_again(struct ops *o, const struct op *op, struct reply *r);
void ops_notice_discard(struct ops *o, const struct op *op, struct reply *r);
void ops_breaker_put(struct ops *o, const struct op *op, struct reply *r);
void ops_breaker_delete(struct ops *o, const struct op *op, struct reply *r);
void ops_breaker_allow(struct ops *o, const struct op *op, struct reply *r);
void ops_breaker_report(struct ops *o, const struct op *op, struct reply *r);
/* With OUT_OK nothing is answered yet: see bulk_begin. */
void ops_bulk(struct ops *o, const struct op *op, struct reply *r);

/* --- what happens without being asked for --- */

/* The lease has come to its end: it expired, the attempt took too long, or the grace time of a
 * requested cancel is over. False: no memory. */
bool ops_lease_ended(struct ops *o, struct job *j);
/* The trigger's job that holds its lease has ended in this state (STATE_NONE = it was removed).
 * False: no memory. */
bool ops_item_left(struct ops *o, struct job *j, struct job_ref holder, uint8_t holder_state);
/* The lease is taken back uncounted: the connection to which it was bound ended with its server
 * (REASON_RESTARTED), or the claim's outcome is unknown (REASON_RELEASED). False: no memory. */
bool ops_lease_taken_back(struct ops *o, struct job *j, enum job_reason reason);
/* A waiting job has reached its expiry time. False: no memory. */
bool ops_job_expired(struct ops *o, struct job *j);
/* A dependent whose parents have changed: it leaves `blocked` if their ends and its rule say so.
 * False: no memory. */
bool ops_dependent_settle(struct ops *o, struct job *j);
/* A bulk action does this to one job that matches. False: no memory; *ret_changed: whether it did,
 * else another job holds its key. */
bool ops_bulk_change(struct ops *o, struct job *j, enum bulk_action action, bool *ret_changed);

/* The operation by which the holder of a lease ended it, if the job has this reason afterwards;
 * OP_TICK = it ended without a report. */
uint8_t reason_report(uint8_t reason);

/* The counts of a queue that follow from its counters. */
void counts_from_counters(struct queue_counts *c, const struct counters *from);

/* --- counts of what happened to a job --- */
void counts_add_ending(struct outcome_counts *c, enum lease_ending how);
void counts_add_claim(struct outcome_counts *c);
void counts_add_requeue(struct outcome_counts *c);
