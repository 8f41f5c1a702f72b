/* SPDX-License-Identifier: Apache-2.0 */
/* The internals of the engine: the memory layout of resident jobs, and the indexes that lead to
 * them. Only the files of this folder and their tests include this header. jobs/ has the resident
 * jobs, their indexes and leases, alerts/ the alert rules, notices and breakers, and kv/ the
 * key-value store; the files of these folders declare what they have here.
 *
 *   seq ──seqdir──► struct live ──► struct queue      lists by (queue, state), oldest first
 *                     │   └─extra─► struct extra       unique key, group; more: expiry, own options
 *                     └─lease─────► struct lease       while running
 *
 *   queue.ready  (priority desc, seq)     queue.due  (run_at, seq)      per queue
 *   leases_end   (until, lease handle)    expiries   (expires_at, seq)  for all
 *   due_queues, prune_queues, resume_queues, token_queues: (time, queue number), at most one valid
 *   entry a queue
 *
 * All heaps but leases_end are lazy: an entry counts only if it still says what its job says; see
 * the valid_ functions.
 *
 * Purged jobs. A purge or the delete of a queue takes effect at once: the queue's lists are moved
 * to its `purging` list in one step, its generation moves on (or it is marked gone), and from then
 * on the jobs do not exist for any operation. Ticks remove them in slices. */
#pragma once

#include "base/check.h"

#include "backend/local/engine/engine.h"
#include "base/containers/heap.h"
#include "base/containers/map.h"
#include "base/containers/roster.h"
#include "base/containers/seqdir.h"
#include "base/containers/slab.h"
#include "base/digest/hash.h"
#include "base/digest/random.h"
#include "base/mem.h"
#include "core/jobs/moves.h"
#include "core/jobs/progress.h"
#include "core/jobs/steps.h"
#include "core/limits.h"
#include "core/queues/retention.h"
#include "core/queues/unique.h"
#include "ops/jobs/enqueue.h"
#include "ops/replies.h"
#include "ops/schedules/schedule_rules.h"

#define WORKERS_IDLE_MAX 4096
#define NEVER_MS INT64_MAX

/* A resident job. Everything but `job` is rebuilt at start. */
struct live {
    struct job job;
    uint64_t position;   /* of the last record that touched it */
    uint32_t extra;      /* handle; 0 = none */
    uint32_t lease;      /* handle; 0 unless running */
    uint32_t prev, next; /* neighbours in its list */
};

struct extra {
    uint32_t unique[4]; /* struct hash128 by halves, so that 28 bytes are 28; 0 = no key */
    uint32_t more;      /* handle; 0 = none of what struct more has */
    uint32_t twin_prev, twin_next; /* jobs with the same key, see engine/jobs/unique.c */
};

struct more {
    struct wall_time expires_at; /* 0 = never */
    uint32_t options;            /* handle; own options and kind */
    uint32_t group;              /* handle */
};

static inline struct hash128 extra_unique(const struct extra *x)
{
    struct hash128 h;
    memcpy(&h, x->unique, sizeof h);
    return h;
}

struct lease {
    struct job_token token;
    int64_t until; /* lease time, ms, see lease_now(); NEVER_MS = has not begun */
    int64_t limit; /* lease time: until never goes beyond it; NEVER_MS = it has no limit */
    struct lease_limits limits;
    size_t place;   /* its index in leases_end; SIZE_MAX = not there */
    uint64_t nonce; /* 0 = none */
    uint32_t nonce_prev, nonce_next;
    uint32_t lease_ms; /* 0 = no end: a job holds it */
    uint32_t worker;   /* handle; 0 = no name */
    uint32_t job;      /* handle */
    bool held;         /* nonce is the sequence of the job that holds it, see engine/jobs/holds.c */
};

struct group {
    struct hash128 key; /* scoped by queue */
    uint32_t queue;
    uint32_t refs;       /* resident jobs */
    uint32_t generation; /* waiting counts are those of this generation of the queue */
    uint32_t line;       /* handle, see engine/jobs/limits.h; 0 = none */
    uint64_t by_state[STATE_COUNT];
};

/* The own options and kind of a job. */
struct options {
    struct hash128 key;
    struct hash128 kind; /* none = it has no kind */
    uint32_t refs;
    struct job_options value;
};

struct worker {
    struct hash128 key;
    uint32_t refs;       /* leases */
    uint32_t prev, next; /* neighbours among the busy ones */
    uint32_t len;
    char name[LIMIT_WORKER_BYTES];
};

struct key {
    struct hash128 key;
    uint64_t fingerprint;
    uint64_t seq, id_hi;
    struct wall_time expires_at;
    uint32_t prev, next; /* the ones that expire before and after it */
};

/* A bucket of a rate limit, see engine/rates.c. */
#define RATES_MAX 100000u
struct rate {
    struct hash128 key;
    int64_t full_us;     /* monotonic: when it is full again */
    uint32_t prev, next; /* the ones used before and after it */
};

/* A kept reply (core/limits.h): how the holder of a lease ended it. */
struct kept_reply_slot {
    struct job_token token; /* counter 0 = free slot */
    uint64_t seq;
    struct wall_time run_at;
    uint8_t kind; /* enum op_kind: ack, fail, release */
    uint8_t state;
    /* The newest boot in which an older lease ended after a newer one and replaced its entry here:
     * what this slot lacks of that boot may have been forgotten. 0 = none. */
    uint32_t overtaken;
};

/* Something that happened; see engine/events.c. */
struct event {
    uint64_t position; /* durable with this record */
    int64_t at_ms;
    uint64_t subject; /* the job's sequence; without a job: how many */
    uint64_t id_hi;   /* 0 = about no job */
    int64_t run_at_ms;
    uint32_t queue;    /* number; 0 = none */
    uint32_t schedule; /* likewise */
    /* The job's, in the order of struct job, so that they are copied together. */
    uint16_t failures, crashes;
    uint8_t state, reason, payload_kind, flags;
    uint8_t kind;
    uint32_t alert; /* number of the rule; 0 = none */
};
_Static_assert(sizeof(struct event) <= 64, "16,384 of them stay resident");

/* The name of a deleted queue, for the events about it. */
#define GHOSTS 256
struct ghost {
    uint32_t queue; /* 0 = free */
    char *name;
    size_t len;
};

/* --- alerts, notices, breakers: engine/alerts/alerts.c, engine/alerts/notices.c,
 * engine/alerts/breakers.c --- */

/* A condition that holds. */
struct raised {
    struct raised *prev, *next; /* of the same rule, oldest first */
    struct alert *alert;
    struct wall_time since;
    uint64_t value, mark;
    size_t queue_len;
    char queue[];
};

struct alert {
    struct alert_state; /* its members are members of this struct; spans point to texts */
    uint32_t number;    /* of this boot, for events */
    char *texts;        /* name, queue, url, secret, target, one after the other */
    struct raised *first, *last;
    uint64_t raised;
    uint64_t notices, dead; /* in the outbox, and given up of them */
};

/* --- dependencies: engine/jobs/dependencies.c --- */

struct dependency_node {
    uint64_t seq;
    struct dependent dependent;    /* with is_dependent */
    uint32_t children, parents;    /* first edges */
    uint32_t waits;                /* edges to parents */
    uint32_t work_prev, work_next; /* neighbours in the work list */
    uint8_t ended;                 /* enum dependency_end: how it ended for its dependents */
    bool is_dependent;
    bool recorded; /* `ended` has a record */
    bool working;  /* is in the work list */
};

struct dependency_edge {
    uint32_t parent, child;            /* nodes */
    uint32_t child_prev, child_next;   /* other edges of the parent */
    uint32_t parent_prev, parent_next; /* other edges of the child */
};

struct dependencies {
    struct slab nodes, edges;
    struct map64 by_seq; /* → handle of the node */
    bool booted;         /* what the store had left to do is in the work list */
    uint32_t work_first, work_last;
    struct buf list;     /* of parents, for a record */
    uint64_t defect_seq; /* DEFECT_CHILD_TWICE: a dependent that was told; 0 = none */
};

struct alerts {
    struct alert **list; /* by name */
    size_t count, room;
    uint32_t next_number;
    uint32_t version;     /* changes with every rule */
    struct map128 raised; /* (rule, queue) → struct raised * */
};

/* A notice in the outbox. Inline texts: applying its record cannot fail for lack of memory. */
struct notice {
    struct notice_entry; /* its spans point to the texts below; it has no name of a rule */
    struct alert *alert; /* has a webhook */
    size_t place;        /* in outbox.due; SIZE_MAX = not there: it is dead */
    uint32_t prev, next; /* by number */
    bool held;           /* given out, and its end has not been reported yet */
    char queue[LIMIT_QUEUE_NAME_BYTES], subject[LIMIT_QUEUE_NAME_BYTES];
    char text[LIMIT_NOTICE_TEXT_BYTES], error[LIMIT_NOTICE_ERROR_BYTES];
};

struct outbox {
    struct slab notices;
    struct map64 by_number; /* → handle */
    struct heap due;        /* pending ones: (when to look at it, handle) */
    uint32_t first, last;
    uint64_t dead, dropped;
};

struct target {
    struct breaker_view; /* its members are members of this struct; target: the name below */
    char name[];         /* scheme://host:port of a webhook, or the name of a named one */
};

struct targets {
    struct target **list; /* by name */
    size_t count, room;
};

struct joblist {
    uint32_t head, tail;
    uint64_t count;
    uint32_t scout;   /* a job near the head, see joblist_scout; 0 = begin at the head */
    uint32_t scouted; /* about how many lie before it */
};

struct queue {
    struct queue_state;  /* its members are members of this struct */
    bool gone;           /* deleted, slices still to remove */
    bool woken;          /* already in out->wakes of this step */
    bool trimming;       /* in engine.trims */
    bool purging_listed; /* in engine.purging_queues */
    bool counted_any;    /* the current step has counted something of it */
    bool deep;           /* reached warn_depth and has not fallen below 90 % of it since */
    struct hash128 name_key;
    char *name;
    size_t name_len;
    char *texts; /* owner, note, attributes, one after the other */
    size_t owner_len, note_len, attributes_len;
    struct heap ready, due;
    struct flow *flow; /* limits at the claim, see engine/jobs/limits.h; NULL = it has none */
    struct joblist lists[STATE_COUNT];
    uint64_t in_groups[STATE_COUNT]; /* those of the lists that have a group */
    struct joblist purging;
    uint64_t shared, shared_waiting; /* jobs with the same unique key, see engine/jobs/unique.c */
    uint64_t shared_seq;             /* one that was among them */
    uint32_t alerts_version, dead_rules; /* how many rules match dead jobs, as of that version */
    struct roster by_state, by_key;      /* ranked queues alone, see engine/jobs/ranks.c */
    struct counters totals;              /* since it was created */
    struct counters totals_at_boot;      /* those that the server found at its start */
    uint64_t removed;                    /* jobs, since the server started */
    uint64_t urgent;                     /* ready jobs of a priority above PRIORITY_URGENT */
    uint32_t counted;                    /* its index in engine.counted + 1; 0 = nothing yet */
    uint64_t due_armed, prune_armed;     /* order of the valid entry in due_queues / prune_queues */
};

struct bulk {
    struct rec_bulk_begin begin; /* its texts are not kept */
    struct hash128 group, kind;  /* none = any */
    uint64_t changed, refused;
    uint8_t state;              /* the list it is in */
    bool placed;                /* `next` is set for this state */
    uint32_t next;              /* the job to look at next */
    uint32_t stop[STATE_COUNT]; /* the last job of each list when it was asked for; 0 = none */
    bool restored;              /* after a restart: uses the times of the jobs instead */
    bool has_op;                /* someone waits for the reply */
    uint64_t tag;
    const struct op *op;
    struct bulk *after;
};

/* A schedule; its spec points into `texts`. */
struct schedule {
    struct schedule_base; /* its members are members of this struct */
    struct hash128 name_key;
    char *texts; /* name, encoded spec, owner, note, attributes, one after the other */
    size_t name_len, spec_len, owner_len, note_len, attributes_len;
    uint64_t position; /* of the last record about it */
};

struct engine {
    struct ops ops; /* see engine/state.c */
    struct ops_limits limits;
    struct engine_config config;
    struct hash_key hash_key;
    struct random random;
    struct engine_reply *reply; /* of the operation under way */
    uint32_t epoch;

    uint64_t position;
    uint64_t token_counter;
    uint64_t seq_next, seq_upto;
    uint64_t seq_boot;       /* the first of this boot; those of spools are outside this order */
    uint64_t seq_top;        /* highest of all jobs so far, those of a spool included */
    uint64_t block_position; /* of the record that reserved up to seq_upto */

    struct slab jobs, extras, mores, leases, groups, options, workers, keys, rates, lines;
    struct seqdir dir;
    uint64_t memo_seq; /* the last one found, or 0 */
    uint32_t memo_handle;
    struct mapref uniques;                                               /* → job handle */
    struct map128 group_map, options_map, worker_map, key_map, rate_map; /* → handle */
    struct map64 nonces;                                                 /* → lease handle */
    struct map64 outcome_counts_map;                                     /* sequence → handle */
    struct slab outcome_counts;
    struct heap leases_end, expiries;
    struct heap due_queues, prune_queues, resume_queues;
    struct heap token_queues; /* likewise, in monotonic time: a token of a claim_rate is there */
    uint32_t key_first, key_last;
    uint32_t rate_first, rate_last; /* used least and most lately */
    uint32_t busy_first, busy_last; /* workers that hold leases, by when they began to */
    size_t busy_count;
    uint32_t schedule_next; /* number of the next schedule */
    uint32_t worker_hand;   /* where the search for idle names goes on */

    struct queue **queues; /* by rising number, those that are gone too */
    size_t queue_total, queue_room;
    struct queue **queue_slots; /* the same by a hash of the number, twice as many slots … */
    size_t queue_mask;          /* … less one */
    uint32_t queue_next;        /* next number */
    size_t queue_count;         /* not gone */
    struct map128 queue_map;    /* name → number */
    struct queue **by_name;     /* sorted, not gone */
    size_t by_name_room;
    struct queue *last_named; /* found by the last look-up */

    struct kept_reply_slot *kept_replies; /* by token counter */

    struct event *events;               /* ring, by number */
    uint64_t event_mask;                /* its size less one */
    uint64_t event_last, event_durable; /* numbers in this boot; 0 = none yet */
    struct progress_pace pace;
    struct ghost ghosts[GHOSTS];
    size_t ghost_next;

    struct rec_counters *counted; /* what the current step adds, one entry for each queue */
    size_t counted_len, counted_room;
    uint32_t *trims; /* queues over their retention count */
    size_t trim_count, trim_room;
    uint32_t *purging_queues;
    size_t purging_count, purging_room;
    uint32_t *sorting; /* queues with ready jobs to be sorted, see engine/jobs/sorting.c */
    size_t sorting_count, sorting_room;
    struct dependencies deps;
    struct alerts alerts;
    struct outbox outbox;
    struct targets targets;
    struct bulk *bulks; /* first to be worked on first */
    uint64_t bulk_next;

    struct schedule **schedules; /* by rising number */
    size_t schedule_room;
    struct schedule **schedules_by_name;
    size_t schedule_count, schedules_by_name_room;
    struct map128 schedule_map; /* name → number */
    struct map64 holds; /* sequence of a trigger's job → first lease handle of its items */
    uint64_t held;      /* leases in them */
    uint64_t *loose;    /* such jobs that have ended while they held items */
    size_t loose_count, loose_room;

    uint64_t live;                  /* waiting or running, purged ones left out */
    uint64_t by_state[STATE_COUNT]; /* the same by state, all queues together */
    uint64_t queue_bytes;           /* memory of the heaps and rosters of all queues */
    uint64_t restored_leases, forgotten_claims;

    struct now last;
    int64_t skipped_ms; /* time the process stood still */
    bool stepped;
    bool loose_unknown; /* there may be more jobs that ended while they held items */
    bool clock_suspect;
    bool ended_came; /* imports brought ended jobs: lists of these are by arrival, not by age */

    struct engine_out *out; /* of the step under way; NULL while loading */
    size_t frame_max;       /* bytes its frame may have; an op that needs more is refused */
    struct now now;
    const struct queue *named; /* the queue whose name this step copied last; NULL = none */
    struct span named_as;      /* that copy */
    struct buf scratch;        /* policy and options encodings, sequence lists */

    /* The key-value store, see engine/kv/kv.c; keys of jobs, see engine/kv/undelivered.c. */
    struct slab kvs;
    struct mapref kv_map;    /* → handle in kvs */
    struct heap kv_expiries; /* (expires_at, handle), exact */
    uint64_t kv_bytes;       /* of keys and values */
    char **kv_texts;         /* room for keys to come, taken in order … */
    size_t kv_text_at, kv_text_count, kv_text_room;
    struct slab undelivered;
    struct map64 undelivered_map;  /* sequence → handle in undelivered */
    struct slab steps;             /* jobs that have steps */
    struct map64 steps_map;        /* sequence → handle in steps */
    struct event_key **event_keys; /* beside the ring of events; NULL until the first of a key */
};

/* A resident key; its value is in the store. */
struct kv {
    struct hash128 key;
    char *text; /* the key, encoded; NULL = this record is free */
    uint32_t len;
    uint32_t bytes; /* of the value */
    uint64_t version;
    uint64_t position; /* of the record that set it; 0 = it was loaded */
    struct wall_time expires_at;
    uint32_t place; /* in kv_expiries, + 1; 0 = it never expires */
    uint8_t kind;
};

/* The steps of a job: their results are in the store. */
struct job_steps {
    uint64_t seq;
    char *index; /* core/jobs/steps.h */
    uint32_t len;
};

struct undelivered {
    uint64_t seq;
    char *keys; /* as record_span_append writes them */
    uint32_t len;
};

struct event_key {
    uint32_t len;
    char text[];
};

/* What operations pass (struct ops_store) is the beginning of what the engine has. */
static inline struct engine *engine_of(const struct ops *o)
{
    return (struct engine *)(uintptr_t)o;
}

static inline struct queue *queue_from(const struct queue_state *q)
{
    return (struct queue *)(uintptr_t)q;
}

static inline struct kv *kv_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->kvs, handle);
}

static inline struct live *live_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->jobs, handle);
}

/* mem_ask for a whole record, which lies on two cache lines, or three. */
static inline void live_ask(const struct engine *e, uint32_t handle)
{
    const char *l = slab_at(&e->jobs, handle);
    mem_ask(l);
    mem_ask(l + 64);
    mem_ask(l + sizeof(struct live) - 1);
}

static inline struct lease *lease_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->leases, handle);
}

static inline struct extra *extra_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->extras, handle);
}

/* What an extra's `more` says; all zero when it has none. */
static inline struct more more_of(const struct engine *e, const struct live *l)
{
    uint32_t handle = l->extra ? extra_at(e, l->extra)->more : 0;
    return handle ? *(const struct more *)slab_at(&e->mores, handle) : (struct more){0};
}

static inline size_t queue_hash(uint32_t number)
{
    return (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static inline struct queue *queue_at(const struct engine *e, uint32_t number) /* NULL = none */
{
    if (!e->queue_slots)
        return NULL;
    size_t at = queue_hash(number) & e->queue_mask;
    while (e->queue_slots[at] && e->queue_slots[at]->number != number)
        at = (at + 1) & e->queue_mask;
    return e->queue_slots[at];
}

/* Whether there may be one queue more; numbers are not used again. */
static inline bool queue_may_be_added(const struct engine *e, size_t ahead, bool implied)
{
    return queue_has_room(&e->config.queue_limits, e->queue_count + ahead, implied) &&
           e->queue_next < UINT32_MAX;
}

static inline struct queue *queue_of(const struct engine *e, const struct live *l)
{
    return queue_at(e, l->job.queue);
}

static inline int64_t lease_now(const struct engine *e, struct now now)
{
    if (DEFECT(&e->config, DEFECT_LEASE_ON_WALL))
        return now.wall.ms;
    return now.mono.ms - e->skipped_ms;
}

/* For fingerprints of the state. */
static inline uint64_t state_mix(uint64_t h, uint64_t v)
{
    h ^= v + UINT64_C(0x9E3779B97F4A7C15) + (h << 12) + (h >> 4);
    h *= UINT64_C(0xFF51AFD7ED558CCD);
    return h ^ (h >> 32);
}

static inline uint64_t state_mix_span(uint64_t h, struct span s)
{
    return state_mix(state_mix(h, s.len), s.len ? crc32c(0, s.at, s.len) : 0);
}

/* --- engine/jobs/jobs.c: resident jobs and their indexes --- */

/* Memory for the following, so that the records of one operation cannot fail half-way: `fresh`
 * new jobs and `moves` changes of state in q, and `bytes` of records. */
int jobs_reserve(struct engine *e, struct queue *q, size_t fresh, size_t moves, size_t bytes);
/* NULL when there is no such job, or only a purged one. */
struct live *jobs_find(struct engine *e, struct job_ref ref, uint32_t *ret_handle);
struct live *jobs_by_seq(struct engine *e, uint64_t seq, uint32_t *ret_handle);
bool jobs_purged(const struct engine *e, const struct live *l);
/* An empty extra for a job without one; memory for it must have been reserved. */
void jobs_add_extra(struct engine *e, struct live *l);
int jobs_add(struct engine *e, const struct job *job, const struct job_extra *extra,
             uint32_t *ret_handle);
/* Moves the job from the list, counters and keys of its old state to those of the new one. */
void jobs_moved(struct engine *e, uint32_t handle, uint8_t old_state);
/* The order of a waiting job has changed: adds it to the heap of its state. */
void jobs_order(struct engine *e, uint32_t handle);
/* A waiting job's priority may have changed; before it moves to another list. */
void jobs_ranked(struct engine *e, const struct live *l, const struct job *before);
void jobs_drop(struct engine *e, uint32_t handle);
void jobs_rules(const struct engine *e, const struct live *l, struct job_rules *ret);
bool jobs_expired(const struct engine *e, const struct live *l, struct wall_time now);
/* Whether the job behind this handle has this key; the engine's mapref_same_fn. */
bool jobs_unique_same(void *engine, uint32_t handle, struct hash128 unique);
void joblist_append(struct engine *e, struct joblist *list, uint32_t handle);
void joblist_remove(struct engine *e, struct joblist *list, uint32_t handle, uint8_t state);

/* The jobs that retention removes next are the coldest of all: asks the memory for one more of
 * them, and for its place in the directory, a while before its turn. */
void joblist_scout(const struct engine *e, struct joblist *list);

/* Whether a heap entry still agrees with its job. */
bool valid_ready(void *engine, struct heap_entry entry);
bool valid_due(void *engine, struct heap_entry entry);
bool valid_expiry(void *engine, struct heap_entry entry);
/* Sorts each list of each queue by the time when its jobs were added; after a load. */
void jobs_sort_lists(struct engine *e);
/* The same, and retention checks them again (engine/load.c). */
int lists_by_age(struct engine *e);
static inline uint64_t ready_order(const struct queue *q, const struct job *j)
{
    bool ages = q->policy.ageing_ms > 0;
    return heap_order_desc(ages ? claim_priority(&q->policy, j->priority, j->since) : j->priority);
}
/* The sequence by which a ready job is ordered among those of its priority, and back. */
uint64_t ready_seq(const struct engine *e, const struct job *j);
uint64_t seq_of_ready(const struct engine *e, uint64_t seq);

/* --- engine/jobs/waits.c: what a waiting job waits for --- */
/* NULL: no memory. */
const struct job_wait *wait_of(struct engine *e, const struct live *l);

/* --- engine/jobs/limits.c: limits at the claim; for queues with a flow only --- */
/* What the job uses and needs of the limits. Returns the heap in which it has its place. */
const struct heap *limits_of_wait(const struct engine *e, const struct queue *q,
                                  const struct live *l, struct job_wait *w);
/* As jobs_reserve. */
int limits_reserve(struct engine *e, struct queue *q, size_t moves);
void limits_ready(struct engine *e, struct queue *q, const struct live *l); /* adds it in order */
/* After a job has become ready, or is ready no more. */
void limits_counted(struct engine *e, struct queue *q, const struct live *l);
void limits_slot_free(struct engine *e, struct queue *q, const struct live *l); /* it ran */
/* Signals the queue if a job can start. */
void limits_wake(struct engine *e, struct queue *q);
/* The queue is looked at again at this time of the rates. */
void limits_arm(struct engine *e, struct queue *q, int64_t at_us);
/* Whether the queue itself may start a job. */
bool limits_open(struct engine *e, struct queue *q);
/* The heap whose first job is the next that the groups allow; NULL = none is. */
struct heap *limits_next(struct engine *e, struct queue *q);
void limits_stale(struct engine *e, struct queue *q); /* that first job was taken out */
void limits_claimed(struct engine *e, struct queue *q, const struct live *l,
                    bool by_id);                          /* it runs now */
void limits_item_take(struct engine *e, struct queue *q); /* what limits_next gave */
void limits_item_return(struct engine *e, struct queue *q, const struct live *l);
void limits_item_end(struct engine *e, struct queue *q, const struct live *l); /* it runs now */
enum claim_block limits_of_job(struct engine *e, const struct queue *q, const struct live *l,
                               int64_t *ret_at_us);
void limits_count(struct engine *e, const struct queue *q, uint64_t waiting[CLAIM_BLOCK_COUNT]);
/* Before the policy becomes `to`; then, with what it was before, after. -ERR_NOMEM: nothing has
 * changed. */
int limits_prepare(struct engine *e, struct queue *q, const struct queue_policy *to);
void limits_policy(struct engine *e, struct queue *q, const struct queue_policy *before);
void limits_settle(struct engine *e, struct queue *q); /* ends a flow that is not needed */
void limits_purged(struct engine *e, struct queue *q); /* its ready jobs, all at once */
void limits_free(struct engine *e, struct queue *q);
void limits_boot(struct engine *e);
/* The ready jobs near the front of the order, as far as they are easily found. */
size_t limits_front(struct engine *e, const struct queue *q, const struct live **out, size_t max);
MUST_CHECK int limits_verify(const struct engine *e, struct queue *q, struct err_note *note);
uint64_t limits_heap_bytes(const struct engine *e, const struct queue *q);
/* Calls fn for each heap of ready jobs besides queue.ready. */
typedef int (*limits_heap_fn)(void *ctx, const struct heap *h);
int limits_each_heap(const struct engine *e, const struct queue *q, limits_heap_fn fn, void *ctx);
size_t tick_tokens(struct engine *e, size_t budget);
size_t tick_sorting(struct engine *e, size_t budget); /* engine/jobs/sorting.c */

/* --- engine/jobs/unique.c: unique keys --- */
/* The live (or, by policy, kept) job that holds this key, purged ones left out; NULL = free. */
struct live *jobs_unique_holder(struct engine *e, struct hash128 unique);
static inline bool jobs_unique_holds(const struct queue *q, uint8_t state)
{
    return unique_holds(q->policy.unique_scope, state);
}
void unique_init(struct extra *x);
/* Before and after it is in the list of its new state; memory for one more key must have been
 * reserved. */
void unique_state_left(struct engine *e, uint32_t handle, uint8_t state);
void unique_state_entered(struct engine *e, uint32_t handle);
void unique_gone(struct engine *e, uint32_t handle);
void unique_purged(
    struct queue *q); /* its waiting jobs, all at once; before its generation moves */
void unique_rescoped(struct queue *q); /* its policy's scope has changed */
/* A job whose key another has too; NULL = no such job (q->shared is 0), or none is known. */
struct live *unique_shared(struct engine *e, struct queue *q);
bool unique_shares(const struct engine *e, const struct live *l);
struct unique_recount {
    uint64_t shared, shared_waiting;
};
/* What is wrong with the place of a listed job in its chain; NULL = it is correct, and is
 * counted. */
const char *unique_wrong(const struct engine *e, uint32_t handle, struct unique_recount *count);

/* --- engine/jobs/ranks.c: pages of ranked queues; for others nothing happens --- */
int ranks_reserve(struct queue *q, size_t fresh, size_t moves);
void ranks_made(struct engine *e, const struct live *l);
void ranks_gone(struct engine *e, const struct live *l);
void ranks_entered(struct queue *q, const struct job *j);
void ranks_left(struct queue *q, const struct job *j, uint8_t state);
void ranks_purged(struct queue *q, uint8_t state); /* all jobs of the state, at once */
void ranks_free(struct queue *q);
/* From now on it is ranked; -ERR_NOMEM: it is not. */
int ranks_begin(struct engine *e, struct queue *q);

/* --- engine/counters.c: the counters of each queue --- */
/* Memory for this many queues of which the step has counted nothing yet; the bytes of all records.
 */
int counters_reserve(struct engine *e, size_t queues);
size_t counters_bytes(const struct engine *e, size_t queues);
/* Counts a record of a job, before it is applied to the job. */
void counters_record(struct engine *e, struct queue *q, const struct record *r,
                     const struct job *before);
/* Fills in what was counted since the start of the server. */
void counters_since_boot(const struct queue *q, struct queue_counts *ret);
void counters_forget(struct engine *e, struct queue *q); /* the queue ceases to exist */
void counters_emit(struct engine *e);
int counters_load(struct engine *e, uint32_t queue, const struct counters *totals);
void counters_boot(struct engine *e);

/* --- engine/jobs/names.c: texts held once: options, groups, workers --- */
int names_reserve(struct engine *e, size_t jobs); /* for the texts of this many */
int names_options(struct engine *e, const struct job_extra *from, uint32_t *ret);
int names_group(struct engine *e, uint32_t queue, struct span text, uint32_t *ret);
int names_worker(struct engine *e, struct span text, uint32_t *ret);
void names_drop_options(struct engine *e, uint32_t handle);
void names_drop_group(struct engine *e, uint32_t handle);
void names_drop_worker(struct engine *e, uint32_t handle);
void group_count(struct engine *e, uint32_t handle, uint8_t state, int by);
uint64_t group_counted(const struct engine *e, const struct group *g, uint8_t state);
struct span worker_name(const struct engine *e, uint32_t handle);

/* --- engine/apply.c: records become state --- */
int engine_apply(struct engine *e, const struct record *r);
/* Encodes the record into the step's frame and applies it. Room must have been reserved. */
void engine_emit(struct engine *e, const struct record *r);
/* The same without an event. */
void engine_emit_silent(struct engine *e, const struct record *r);
int emit_reserve(struct engine *e, size_t bytes);
/* For records about more than two queues. */
int emit_reserve_for(struct engine *e, size_t queues, size_t bytes);
/* The same for records that may need memory when they are applied; on failure nothing has
 * changed. */
MUST_CHECK int engine_emit_or_not(struct engine *e, const struct record *r);
/* --- engine.c --- */
void seqs_ahead(struct engine *e);
/* A job has this sequence: it is not given to another. */
void seqs_seen(struct engine *e, uint64_t seq); /* room for one small record must be there */

/* --- engine/events.c --- */
void events_record(struct engine *e, const struct record *r); /* a step has applied it */
/* q may be NULL: about the whole engine. */
void events_queue(struct engine *e, enum event_kind kind, const struct queue *q, uint64_t count);
void events_schedule(struct engine *e, enum event_kind kind, const struct schedule *s,
                     const struct live *job);
void events_depth(struct engine *e, struct queue *q);
void events_alert(struct engine *e, const struct alert *a, struct span queue, bool raised,
                  uint64_t value);
void events_boot(struct engine *e);
void events_keep_name(struct engine *e, struct queue *q); /* takes q's name, which ends */
void events_free(struct engine *e);

/* --- engine/queues.c --- */
struct queue *queues_find(struct engine *e, struct span name);
int queues_create(struct engine *e, struct span name,
                  struct queue **ret); /* by the first enqueue */
int queues_apply_put(struct engine *e, const struct rec_queue_put *r);
int queues_apply_gone(struct engine *e, uint32_t number);
int queues_apply_end(struct engine *e, uint32_t number);
int queues_apply_purged(struct engine *e, const struct rec_purged *r);
void queues_free(struct engine *e, struct queue *q);
void queues_wake(struct engine *e, struct queue *q);
/* Keeps at most one valid entry for q in the heap; an earlier time replaces a later one. */
void queues_arm(struct heap *heap, uint64_t *armed, uint32_t number, int64_t at_ms);
void queues_arm_prune(struct engine *e, struct queue *q);
void queues_finished(struct engine *e, struct queue *q, uint8_t state); /* one more of these */
void queues_trim_later(struct engine *e, struct queue *q);
void queues_purge_later(struct engine *e, struct queue *q);
static inline struct span queue_owner(const struct queue *q)
{
    return span_of(q->texts, q->owner_len);
}
bool queue_paused(const struct queue *q, struct wall_time now);
int queue_view_of(struct engine *e, struct queue *q, struct queue_view *ret);
/* As struct ops_store says. */
uint64_t queues_count(const struct ops *o, const struct queue_state *q, unsigned states);
void queues_read(const struct ops *o, const struct queue_state *q, struct rec_queue_put *ret);
bool queues_scope_waits(const struct ops *o, const struct queue_state *q, uint8_t to);
bool queues_keys_shared(struct ops *o, const struct queue_state *q, struct reply *r);
bool queues_put(struct ops *o, const struct queue_state *q, struct rec_queue_put *put,
                const struct queue_policy *policy, enum queue_change change);
bool queues_commit(struct ops *o, const struct queue_state *q, const struct record *rec,
                   uint64_t count);

/* --- engine/jobs/keys.c: idempotency keys --- */
int keys_reserve(struct engine *e, size_t keys);
struct key *keys_find(const struct engine *e, struct hash128 key);
int keys_apply_new(struct engine *e, const struct rec_key_new *r);
int keys_apply_gone(struct engine *e, const struct rec_keys_gone *r);
/* Removes this key and those that expire next, `count` in all, with one record. False: memory is
 * short, nothing changed. */
bool keys_emit_gone(struct engine *e, const struct key *first, size_t count);

/* --- engine/rates.c: rate limits at enqueue --- */
int64_t rates_full_us(const struct engine *e, const struct rate_share *share); /* 0 = no bucket */
int rates_reserve(struct engine *e, size_t count);
void rates_take(struct engine *e, const struct rate_share *share); /* room must be there */
uint64_t rates_bytes(const struct engine *e);

/* --- engine/jobs/leases.c: leases, tokens, how they ended --- */
int leases_start(struct engine *e, uint32_t job, const struct rec_job_claimed *r);
/* From now on. */
void leases_arm(struct engine *e, struct lease *l);
void leases_restore(struct engine *e, struct lease *l); /* after a start */
/* A cancel has just been requested; room as leases_enter says. */
void leases_cancel_requested(struct engine *e, struct lease *l);
int64_t lease_first_ms(const struct lease *l); /* how long it lasts unless it is extended */
void leases_moved(void *engine, struct heap_entry entry, size_t index);
/* Adds it to the heap, to be checked at that time; memory must have been reserved unless it is
 * there already. */
void leases_enter(struct engine *e, struct lease *l, int64_t at);
/* Removes the lease from the chain of its nonce; the map leads to the first of each chain. */
void leases_unchain(struct engine *e, struct map64 *chains, uint32_t handle);
void lease_set_nonce(struct engine *e, uint32_t handle, uint64_t nonce);
void leases_end(struct engine *e, struct live *l,
                uint8_t kind); /* kind: op that ended it; OP_TICK = none */
/* A longer or shorter lease, from now on. */
void leases_extended(struct engine *e, struct lease *l);
/* A job that a claim with this nonce has leased; NULL = none is left. */
struct live *leases_by_nonce(struct engine *e, uint64_t nonce);
/* Whether a lease of the job may have ended under this token although kept_reply_find finds
 * nothing. */
bool kept_reply_forgotten(const struct engine *e, uint64_t seq, struct job_token token);
const struct kept_reply_slot *kept_reply_find(const struct engine *e, uint64_t seq,
                                              struct job_token token);
void kept_reply_put(struct engine *e, uint64_t seq, struct job_token token, uint8_t kind,
                    uint8_t state, struct wall_time run_at);

/* --- engine/jobs/holds.c: leases that jobs hold --- */
/* Room for one more job that holds items. */
int holds_reserve(struct engine *e);
/* The lease of an item, which has just been claimed without end, is held by this job. */
int holds_link(struct engine *e, uint64_t item, uint64_t job);
int holds_apply_linked(struct engine *e, const struct rec_job_linked *r);
void holds_unlink(struct engine *e, uint32_t lease); /* before it ends */
/* A job has ended, or is gone: what it held becomes loose. */
void holds_job_ended(struct engine *e, uint64_t seq);
void holds_boot(struct engine *e); /* finds what ended before a crash could tell */
/* Ends the leases of loose items by the policy of their queue. */
size_t tick_holds(struct engine *e, size_t budget);
/* For checks: NULL, or what is wrong. */
const char *holds_wrong(const struct engine *e, const struct live *l);

/* --- engine/jobs/dependencies.c: jobs that depend on others --- */
static inline bool dependencies_any(const struct engine *e)
{
    return e->deps.nodes.used > 0;
}
static inline struct dependency_node *dependency_node_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->deps.nodes, handle);
}
static inline struct dependency_edge *dependency_edge_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->deps.edges, handle);
}
/* 0 = the job depends on nothing, and nothing on it. */
static inline uint32_t dependency_node_of(const struct engine *e, uint64_t seq)
{
    return dependencies_any(e) ? map64_get(&e->deps.by_seq, seq) : 0;
}
/* Whether there is work to do for this dependent. */
bool dependency_due(struct engine *e, const struct dependency_node *n);
extern const struct dependency_store engine_dependency_store;
void dependencies_init(struct engine *e);
void dependencies_done(struct engine *e);
uint64_t dependencies_bytes(const struct engine *e);
MUST_CHECK int dependencies_reserve(struct engine *e, size_t nodes, size_t edges);
int dependencies_apply(struct engine *e, const struct record *r);
/* As the store has them: dependents first, then what they wait for, then how parents ended. */
int dependencies_load_put(struct engine *e, const struct rec_dependent_put *r);
int dependencies_load_edge(struct engine *e, uint64_t child, uint64_t parent);
int dependencies_load_parent(struct engine *e, uint64_t seq, uint8_t how);
void dependencies_boot(struct engine *e);
/* The job has entered this state, which has ended; STATE_NONE: it is removed. */
void dependencies_job_ended(struct engine *e, uint64_t seq, uint8_t state);
bool dependencies_secure_end(struct engine *e, uint64_t seq); /* for dependencies_secure only */
/* The job is about to change or to be removed: how it ended for jobs that have not been told yet is
 * recorded. False: no memory. */
static inline bool dependencies_secure(struct engine *e, uint64_t seq)
{
    return !dependencies_any(e) || dependencies_secure_end(e, seq);
}
/* Tells dependents of parents that have ended, at most `budget` of them. */
size_t tick_dependencies(struct engine *e, size_t budget);
/* dependency_views.c: fills in what the job depends on; and the jobs for which it waits. */
void dependencies_view(const struct engine *e, uint64_t seq, struct job_view *ret);
int dependencies_view_parents(struct engine *e, uint64_t seq, struct job_view *ret);
MUST_CHECK int dependencies_verify(const struct engine *e, struct err_note *note);
uint64_t dependencies_hash(const struct engine *e);

/* --- engine/schedules.c --- */
struct schedule *schedules_find(const struct engine *e, struct span name);
struct schedule *schedule_at(const struct engine *e, uint32_t number); /* NULL = none */
int schedules_apply_put(struct engine *e, const struct rec_schedule_put *r);
int schedules_apply_gone(struct engine *e, uint32_t number);
int schedules_apply_state(struct engine *e, const struct rec_schedule_state *r);
struct span schedule_name(const struct schedule *s);
struct span schedule_owner(const struct schedule *s); /* empty = none */
int schedule_view_of(struct engine *e, const struct schedule *s, struct schedule_view *ret);
/* Puts the schedule as it is into the reply; without memory for that the reply has none. */
void schedule_show(struct engine *e, const struct schedule *s, struct engine_reply *r);
/* As struct ops_store says. */
bool schedules_flows(struct engine *e, struct span but, const struct schedule_flow **ret,
                     size_t *ret_count);
void schedules_read(const struct schedule *s, struct rec_schedule_put *put);
struct schedule *schedules_put(struct engine *e, const struct rec_schedule_put *put);
bool schedules_delete(struct engine *e, const struct schedule *s);
uint64_t schedules_hash(const struct engine *e);
void schedules_free(struct engine *e);

/* --- engine/jobs/claim.c --- */
/* The job that q hands out next; removes stale entries before it. NULL = none, or memory is
 * short (*err is set then). */
struct live *claim_top(struct engine *e, struct queue *q, struct heap_entry *ret, int *err);
/* Room for the lease and the record of a claim. */
int claim_reserve(struct engine *e, const struct live *l, const struct op_claim *want,
                  const struct record *rec);
/* The job has been claimed: arms its lease and fills in the view. */
void claim_finish(struct engine *e, struct live *l, const struct op_claim *want,
                  struct job_view *view);

/* --- engine/jobs/outcome_counts.c: how the leases of a job ended --- */
void outcome_counts_init(struct engine *e);
void outcome_counts_done(struct engine *e);
/* A lease has ended and the job still exists. */
void outcome_counts_ending(struct engine *e, uint64_t seq, enum lease_ending how);
void outcome_counts_requeue(struct engine *e, uint64_t seq);
void outcome_counts_drop(struct engine *e, uint64_t seq);
struct outcome_counts outcome_counts_of(const struct engine *e, const struct live *l);

/* --- engine/bulk.c --- */
int bulk_apply_begin(struct engine *e, const struct rec_bulk_begin *r);
int bulk_apply_step(struct engine *e, const struct rec_bulk_step *r);
int bulk_apply_end(struct engine *e, const struct rec_bulk_step *r);
void bulk_list_changes(struct engine *e, uint32_t handle, uint8_t state); /* before a removal */
/* These states of this queue were emptied in one step. */
void bulk_queue_changes(struct engine *e, uint32_t queue, unsigned states);
size_t bulk_tick(struct engine *e, size_t budget);
void bulk_free_all(struct engine *e);
size_t bulk_count(const struct ops *o); /* these two: as struct ops_store says */
bool bulk_begin(struct ops *o, const struct op *op, struct rec_bulk_begin *begin);

/* --- engine/alerts/alerts.c: rules, and what they have raised --- */
void alerts_init(struct engine *e);
void alerts_free(struct engine *e);
struct alert *alerts_find(const struct engine *e, struct span name);
struct span alert_name_of(const struct engine *e, uint32_t number); /* empty = gone */
int alerts_apply_put(struct engine *e, const struct rec_alert_put *r);
int alerts_apply_gone(struct engine *e, const struct rec_alert_gone *r);
int alerts_apply_edge(struct engine *e, const struct rec_alert_edge *r);
/* Adds to *bytes the size of the notices of a dead job, and reserves memory for them. */
int alerts_dead_reserve(struct engine *e, struct queue *q, size_t *bytes);
void alerts_job_dead(struct engine *e, const struct rec_job_dead *r);
/* An event that is not in the record of a job: notices for the rules that match the queue.
 * Reserves memory itself; without memory they are counted as dropped. */
void alerts_happened(struct engine *e, enum alert_on on, struct span queue, struct span subject,
                     struct span text);
/* As struct ops_store says. */
const struct alert_state *alerts_named(const struct ops *o, struct span name);
const struct alert_state *alerts_at(const struct ops *o, size_t at);
uint64_t alerts_notices(const struct ops *o, const struct alert_state *a);
bool alerts_raised(const struct ops *o, const struct alert_state *a, struct span queue);
uint64_t alerts_raised_count(const struct ops *o);
bool alerts_commit(struct ops *o, const struct record *rec, struct rec_notice_new *n);
MUST_CHECK int alerts_verify(const struct engine *e, struct err_note *note);
uint64_t alerts_hash(const struct engine *e);

/* --- engine/alerts/notices.c: the outbox --- */
void notices_moved(void *engine, struct heap_entry entry, size_t index);
/* Room for `count` more; *bytes grows by what their records take, and those that push out others.
 */
int notices_reserve(struct engine *e, size_t count, size_t *bytes);
/* Fills in number, id and time, and emits it. Room must have been reserved. */
void notices_emit(struct engine *e, struct rec_notice_new *n);
int notices_apply_new(struct engine *e, const struct rec_notice_new *r);
int notices_apply_tried(struct engine *e, const struct rec_notice_tried *r);
int notices_apply_gone(struct engine *e, const struct rec_notice_gone *r);
void notices_boot(struct engine *e);
void notices_drop_of(struct engine *e, struct alert *a); /* all of this rule */
MUST_CHECK int notices_verify(const struct engine *e, struct err_note *note);
uint64_t notices_hash(const struct engine *e);

/* As struct ops_store says. */
void notices_new(struct ops *o, struct rec_notice_new *n);
struct notice_entry *notices_find(struct ops *o, uint64_t number);
const struct alert_state *notices_alert(const struct ops *o, const struct notice_entry *n);
bool notices_commit(struct ops *o, struct notice_entry *n, const struct record *rec);
void notices_begin(struct ops *o, const struct op_notice_take *want);
struct notice_entry *notices_due(struct ops *o);
void notices_look(struct ops *o, struct notice_entry *n, int64_t at_ms, bool given_out);
struct wall_time notices_next(const struct ops *o);
void notices_release(struct ops *o, struct span target);

/* --- engine/alerts/breakers.c: the first four as struct ops_store says --- */
const struct breaker_view *breakers_find(const struct ops *o, struct span target);
const struct breaker_view *breakers_next(const struct ops *o, const struct breaker_view *after);
bool breakers_commit(struct ops *o, const struct record *rec);
uint64_t breakers_named_count(const struct ops *o);
int breakers_apply_put(struct engine *e, const struct rec_breaker_put *r);
int breakers_apply_gone(struct engine *e, const struct rec_breaker_gone *r);
void breakers_free(struct engine *e);
uint64_t breakers_hash(const struct engine *e);

/* --- engine/kv/kv.c: the key-value store --- */
void kv_init(struct engine *e);
void kv_done(struct engine *e);
size_t kv_index_bytes(const struct engine *e);
/* The key, also if it has expired; NULL = it does not exist. */
struct kv *kv_find(const struct engine *e, struct span key, uint32_t *ret_handle);
/* The same, but what has expired is not there. */
const struct kv *kv_seen(const struct engine *e, struct span key);
/* Memory for `fresh` more keys and as many expiries; then for the text of each key that does not
 * exist yet, in the order in which they will be set. kv_texts_drop frees what was not used. */
int kv_reserve(struct engine *e, size_t fresh);
int kv_reserve_text(struct engine *e, struct span key);
int kv_reserve_bytes(struct engine *e, size_t bytes); /* for a list of keys among them */
/* The next of what was reserved, or else new memory; NULL = no memory. */
char *kv_text_take(struct engine *e, size_t bytes);
void kv_texts_drop(struct engine *e);
/* All keys, in no order. */
typedef int (*kv_each_fn)(void *ctx, const struct engine *e, const struct kv *k);
int kv_each(const struct engine *e, kv_each_fn fn, void *ctx);
bool valid_kv_expiry(void *engine, struct heap_entry entry);
int kv_apply_set(struct engine *e, const struct rec_kv_set *r);
int kv_apply_from_job(struct engine *e, const struct rec_kv_from_job *r);
int kv_load(struct engine *e, const struct rec_kv_from_job *r, struct wall_time expires_at);
int kv_apply_gone(struct engine *e, const struct rec_kv_gone *r);
size_t tick_kv(struct engine *e, size_t budget);

/* --- engine/jobs/steps.c: the index of the steps of each job that has any --- */
void steps_init(struct engine *e);
void steps_done(struct engine *e);
uint64_t steps_memory(const struct engine *e);
/* Room for the record of a step of this job, or with 0 of a job that does not exist yet. */
int steps_reserve(struct engine *e, uint64_t seq, struct span list);
int steps_apply(struct engine *e, uint64_t seq, struct span list);
/* A step whose result is in the store. */
int steps_load(struct engine *e, uint64_t seq, struct span name, size_t result_bytes);
struct span steps_of(const struct engine *e, uint64_t seq); /* empty = none */
void steps_gone(struct engine *e, uint64_t seq);

/* --- engine/kv/undelivered.c: payloads that dead jobs leave behind --- */
void undelivered_init(struct engine *e);
void undelivered_done(struct engine *e);
int undelivered_reserve(struct engine *e, size_t jobs);
int undelivered_apply(struct engine *e, uint64_t seq, struct span keys);
struct span undelivered_of(const struct engine *e, uint64_t seq); /* empty = none */
void undelivered_gone(struct engine *e, uint64_t seq);

/* --- engine/state.c: the engine as the state on which operations work --- */
extern const struct ops_store engine_ops_store;
/* The key of this job, if another job holds it; NULL = none does. */
struct live *key_rival(struct engine *e, const struct live *l);

/* --- engine/jobs/enqueue.c --- */
enum outcome seqs_room(const struct engine *e, const struct op_enqueue *want, size_t ahead,
                       const char **note);
bool enqueue_key_find(struct engine *e, struct hash128 key, struct idempotency_state *ret);
enum outcome enqueue_key_room(struct engine *e, struct hash128 key, size_t ahead);
void enqueue_key_keep(struct engine *e, struct hash128 key, uint64_t fingerprint,
                      const struct job *j);
/* Room for these, all at once, and `bytes` of other records. */
int enqueues_reserve(struct engine *e, const struct enqueue_plan *plans, size_t count,
                     size_t bytes);
struct live *enqueue_emit(struct engine *e, struct enqueue_plan *p);

/* --- engine/kv/kv_commit.c --- */
int kv_commit_reserve(struct engine *e, const struct op_kv_commit *want, size_t *bytes);
void kv_emit_set(struct engine *e, const struct kv_set *set, uint64_t version);
/* How many of the keys existed. */
uint32_t kv_emit_gone(struct engine *e, const struct span *keys, uint32_t count, uint64_t version);

/* --- replies --- */
int engine_out_wake_room(struct engine_out *out, size_t queues);
struct engine_reply *reply_new(struct engine *e, const struct op *op);
void reply_job(struct engine_reply *r, const struct live *l);
/* Each gives false, so that a check can end with it. */
bool refuse(struct engine_reply *r, enum outcome outcome, const char *note);
bool refuse_nomem(struct engine_reply *r);
int view_of(struct engine *e, const struct live *l, struct job_view *ret);
/* A name that outlives its queue; at NULL with len > 0 never happens: -ERR_NOMEM instead. */
int name_for_reply(struct engine *e, const struct queue *q, struct span *ret);

/* --- one function for each operation; each creates exactly one reply --- */
typedef void (*op_fn)(struct engine *e, const struct op *op);
void op_queue_get(struct engine *e, const struct op *op);
void op_queue_list(struct engine *e, const struct op *op);
void op_get(struct engine *e, const struct op *op);
void op_peek(struct engine *e, const struct op *op);
void op_list(struct engine *e, const struct op *op);
void op_workers(struct engine *e, const struct op *op);
void op_accept_clock(struct engine *e, const struct op *op);
void op_exceptions(struct engine *e, const struct op *op);
void op_kv_get(struct engine *e, const struct op *op);
void op_kv_list(struct engine *e, const struct op *op);
void op_alert_list(struct engine *e, const struct op *op);
void op_notice_list(struct engine *e, const struct op *op);
void op_breaker_list(struct engine *e, const struct op *op);
void op_page(struct engine *e, const struct op *op);
void op_history(struct engine *e, const struct op *op);
void op_schedule_get(struct engine *e, const struct op *op);
void op_schedule_list(struct engine *e, const struct op *op);
void op_tick(struct engine *e, const struct op *op);

/* Retention that became due by the changes of this step. */
size_t tick_trim(struct engine *e, size_t budget);
