/* SPDX-License-Identifier: Apache-2.0 */
/* A unit of work: some operations, the rows that they concern, and one transaction.
 *
 * A unit has three phases:
 *   load    (the store) the time, queues, the jobs that are named, the jobs that claims may get
 *           (which no other node can claim until then), holders of unique keys, idempotency keys
 *   work    (src/ops) executes the operations in order, in memory, by the rules of core
 *   store   (the store) writes all changes or none
 * After a conflict with another node (a key that was taken, a deadlock) the transaction is rolled
 * back, and the unit begins again with the same operations; no client has received a reply yet.
 *
 * All memory of a unit is in its arena. Spans point there, into replies of the store, which are
 * kept until the unit ends, or into the operations. */
#pragma once

#include "backend/shared/alerts.h"
#include "backend/shared/dependencies.h"
#include "backend/shared/limits.h"
#include "base/containers/arena.h"
#include "base/containers/heap.h"
#include "base/containers/map.h"
#include "core/jobs/moves.h"
#include "core/jobs/steps.h"
#include "core/queues/unique.h"
#include "ops/jobs/enqueue.h"
#include "ops/ops.h"
#include "ops/schedules/schedule_rules.h"

struct shared;
struct batch;
struct bulk;

/* The sums of a queue that every store keeps, by index: first the jobs in each state. */
#define SUM_COUNT 22
#define SUM_URGENT 7
#define SUM_REMOVED 8
#define SUM_COUNTERS 9

/* A queue as it was loaded, with the changes of the unit. */
struct wqueue {
    struct queue_state; /* its members are members of this struct */
    struct span name, owner, note, attributes;
    bool gone;               /* deleted: before this unit, or by it */
    bool put;                /* to be written */
    bool purged, ended;      /* to be marked as such in the store */
    bool counted;            /* sums are known */
    bool wake;               /* some of its jobs have become ready */
    int64_t sums[SUM_COUNT]; /* before the unit; columns of total */
    int64_t adds[SUM_COUNT]; /* by the unit */
    struct heap ready;       /* rows that a claim may take; stale entries are skipped */
    uint32_t ready_loaded;   /* how many of them were loaded */
    struct span packed;      /* as it was loaded, in the encoding of the store; empty = none */
    /* limits at the claim (limits.h); use and round: known if limits_known */
    struct claim_use use;
    int64_t slots; /* by how many the unit changes use.running */
    uint64_t round;
    struct span use_packed; /* use and round as they were loaded; empty = none */
    struct wgroup *groups;
    bool limits_known; /* loaded for claims */
    bool limits_new;   /* the unit has created it: everything is known */
    bool limits_used;  /* use.full_us or round are to be written */
    bool was_limited;  /* by its policy as it was loaded */
    bool rate_changed; /* claim_rate of its policy, by the unit */
    bool groups_more;  /* more groups may be able to start a job than were loaded */
    bool starved;      /* a claim found nothing, but there may be a job that was not loaded */
    int64_t retry_us;  /* when a token is there for which a claim found nothing; 0 = none */
};

struct row {
    struct job job;
    struct job_extra extra; /* options only where they differ from those of the queue */
    struct wqueue *q;
    struct job_token token; /* of the newest lease, even if it has ended */
    uint32_t lease_ms;
    int64_t until_ms;           /* end of the lease, with its limits applied */
    struct lease_limits limits; /* while it runs */
    struct span worker;
    uint64_t nonce;
    struct job_ref holder; /* the job of the last trigger that took it, and that holds it while
                              lease_ms is 0 */
    struct wall_time started_at;
    uint8_t reply_kind; /* of the last report about this token: enum op_kind + 1; 0 = none */
    uint8_t reply_state;
    struct wall_time reply_run_at;
    struct outcome_counts outcome_counts;
    bool held, was_held;  /* holds its unique key: now, in the store */
    uint8_t loaded_state; /* as it was in the store; none = it is new */
    uint8_t state_before; /* before the current change */
    uint8_t result_kind, error_kind;
    struct span payload, result, error;
    bool has_payload; /* it was loaded with the row because it is small, or is new */
    bool fresh;       /* not in the store yet */
    bool moved;       /* fresh, but imported unchanged (op_enqueue.moved) */
    bool changed, gone;
    bool taken; /* as an item that is not committed yet: it has a slot and a token … */
    int64_t full_us_before;       /* … and this was the state of the bucket before */
    struct wdependent *dependent; /* NULL = it depends on nothing, or that was not loaded */
    uint8_t end; /* how it ended first in this unit, enum dependency_end; NONE = it did not */
    bool set_payload, set_result, set_error, set_note, set_report;
    struct span progress,
        log;                /* with set_report: to be replaced, and to be appended; empty = none */
    struct span step_index; /* core/jobs/steps.h; empty = it has no steps */
    struct span new_steps;  /* a list: these are to be stored */
    struct span steps;      /* a list: what was loaded for a claim */
    /* for stores that keep a job as one byte string */
    struct span packed; /* as it was loaded; empty = it was not loaded */
    bool attempted;     /* this unit has ended an attempt of the job */
};

/* The part of a rate limit that an enqueue of the unit uses when the unit is committed. */
struct rate_taken {
    struct rate_share share;
    struct rate_taken *next;
};

/* A schedule as it was loaded, with the changes of the unit. */
struct wschedule {
    struct schedule_base; /* its members are members of this struct */
    struct span name, owner, note, attributes;
    struct span text;  /* the definition, encoded */
    uint64_t last_seq; /* the last job, as loaded … */
    bool last_live;    /* … and whether it had not ended */
    bool put;          /* to be written as a whole */
    bool moved;        /* its state is to be written */
    bool gone;         /* to be deleted */
};

/* The enqueue of a firing, which must be known before anything else is loaded. */
struct firing {
    struct op_enqueue want;
    struct job_options options;
    struct span source; /* the queue from which a trigger takes items; empty = none */
    uint32_t batch_size;
};

/* An operation of the unit and its reply. */
struct turn {
    const struct op *op;
    struct batch *batch;
    struct reply reply;
    struct row **bodies;   /* of reply.jobs: rows whose payload has not been loaded yet */
    struct firing *firing; /* fire, trigger; NULL = the schedule does not exist */
    bool later;            /* the reply is sent when a bulk action has ended */
    bool answered;         /* the reply was sent before the commit */
};

/* An attempt that the unit ends. */
struct ended {
    struct row *row;
    uint32_t number;
    struct wall_time started_at, at;
    uint8_t outcome, error_kind;
    struct span worker, error;
    struct ended *next;
};

/* A kept reply (core/limits.h): a repeat of the report about this token gets the same reply. */
struct kept_reply {
    struct job_token token;
    uint64_t seq;
    struct wall_time run_at;
    uint8_t kind, state; /* kind: enum op_kind + 1 */
    struct kept_reply *next;
};

struct idem {
    struct hash128 key;
    uint64_t fingerprint, seq, id_hi;
    struct wall_time expires_at;
    uint8_t state; /* of the job, when it was loaded */
    bool fresh;
    struct idem *next;
};

/* A key of the key-value store: as it was loaded, then with the changes of the unit. */
struct wkey {
    struct span key;
    bool stored;           /* the store has it, possibly expired … */
    uint32_t stored_bytes; /* … with a value of this many bytes */
    bool there;            /* it exists: neither deleted nor expired */
    bool changed;          /* to be written, or deleted if it does not exist */
    uint64_t version;
    struct wall_time expires_at; /* 0 = never */
    uint8_t kind;
    uint32_t bytes;
    struct span value;      /* changed: this … */
    const struct row *from; /* … or, not NULL, the payload that the store has of this job */
};

struct happened {
    uint8_t kind; /* enum event_kind */
    struct wall_time at;
    struct job job;
    struct span queue;
    struct span subject; /* the key, or the name of schedule or alert, by the kind */
    uint64_t count;      /* of a key: its version */
    struct happened *next;
};

struct wanted_name {
    struct span name;
    uint32_t claims;
    bool counts, makes;
    bool limited, ordered; /* as far as this node knows; see limits.h */
};

/* A store that needs more of a unit embeds this as its first member. */
struct unit {
    struct ops; /* its members are members of this struct: now, nomem, … */
    struct shared *s;
    struct arena arena;
    struct turn *turns; /* UNIT_OPS_MAX of them */
    struct turn *turn;  /* the current one */
    size_t count;
    struct unit *next; /* in the list of waiting or of spare units */
    /* what is to be loaded */
    struct wanted_name *names;
    size_t name_count, name_room;
    struct map128 name_map; /* by name: index + 1, of names and of queues */
    bool alone;             /* its queues are locked exclusively */
    bool short_of_numbers;  /* a cached queue does not exist any more: begin again */
    bool short_of_limits;   /* a queue has limits that were not loaded: begin again … */
    bool limits_wanted;     /* … and load those of all queues; kept until the unit has ended */
    /* jobs that share a unique key, when the scope of a queue is widened; beyond: how many more */
    struct job_view *sharers;
    uint32_t sharer_count;
    uint64_t sharers_beyond;
    struct wqueue *rescoped; /* the holders of its keys must be determined again */
    struct bulk *bulk;       /* which this unit begins */
    /* what was loaded */
    struct row **rows;
    size_t row_count, row_room;
    struct map64 by_seq; /* index + 1 */
    struct wqueue **queues;
    size_t queue_count, queue_room;
    struct wgroup **groups;
    size_t group_count, group_room;
    struct map128 group_map; /* index + 1 */
    uint64_t *seqs;
    uint32_t *numbers;
    size_t seq_count, seq_next, number_count, number_next;
    uint64_t queues_there; /* in the store, before the unit; only if queue numbers were reserved */
    uint64_t live;         /* in all queues; only if the server has a capacity */
    uint64_t seq_high;     /* sequences up to this one have been assigned */
    uint64_t seq_floor;    /* the sequence of an imported job: those of new jobs are higher */
    uint64_t keys;
    struct idem *idems;
    struct kept_reply *loaded_replies;
    struct wkey **wkeys; /* of the key-value store */
    size_t wkey_count, wkey_room;
    struct map128 wkey_map; /* index + 1 */
    uint64_t *versions;     /* reserved when all keys were locked: one for each change */
    size_t version_count, version_next;
    struct wschedule **schedules;
    size_t schedule_count, schedule_room;
    uint64_t schedules_there;    /* in total; for put */
    uint32_t schedule_number;    /* of a new one; for put */
    struct schedule_flow *flows; /* of other triggers, for put */
    size_t flow_count;
    uint64_t kv_keys, kv_bytes; /* in the whole store, before the unit */
    struct unit_alerts alerts;
    struct unit_dependencies deps;
    /* what is to be stored or reported */
    struct ended *ended, **ended_last;
    struct kept_reply *new_replies;
    struct happened *happened, **happened_last;
    int64_t key_adds;
    int64_t kv_key_adds, kv_byte_adds;
    struct rate_taken *rates; /* used by its enqueues */
    bool idem_replaced;       /* an expired key was replaced */
    uint64_t records;         /* changes, for figures */
    uint64_t position;        /* of the last of them */
};

/* The context of the operations is the first member of the unit. */
static inline struct ops *unit_ops(struct unit *u)
{
    return (struct ops *)u;
}
extern const struct ops_store unit_ops_store; /* state.c */

/* The reverse, for the functions of struct ops_store. */
static inline struct unit *unit_of(const struct ops *o)
{
    return (struct unit *)(uintptr_t)o;
}

static inline struct wqueue *queue_from(const struct queue_state *q)
{
    return (struct wqueue *)(uintptr_t)q;
}

int unit_init(struct unit *u, struct shared *s);
void unit_reset(struct unit *u); /* for the next unit, or to begin this one again */
void unit_done(struct unit *u);
void *unit_alloc(struct unit *u, size_t size); /* zero-filled; NULL and nomem */

/* Makes room for one more element; `array` points to the pointer. False: no memory. */
bool unit_room(struct unit *u, void *array, size_t *have, size_t used, size_t size);

/* Adds the name of a queue that is to be loaded. NULL: no memory. */
struct wanted_name *unit_want_name(struct unit *u, struct span name);

/* Rows: one for each job, even if it was loaded several times. */
struct row *unit_row_add(struct unit *u, uint64_t seq);
/* Marks a loaded row as absent, because its queue has been deleted or it is damaged. NULL: no
 * memory. */
struct row *unit_row_absent(struct unit *u, struct row *r);
/* Keeps the reply about the row's current token, if there is one, for a repeat of the report. */
void unit_keep_reply(struct unit *u, const struct row *r);
struct row *unit_row(const struct unit *u, uint64_t seq);
/* The job, if it exists and the upper half of the id matches; NULL = not found. */
struct row *unit_find(const struct unit *u, struct job_ref ref);
bool unit_row_there(const struct row *r);
struct wqueue *unit_queue_add(struct unit *u, uint32_t number, struct span name);
struct wqueue *unit_queue(const struct unit *u, uint32_t number);
struct wqueue *unit_queue_named(const struct unit *u, struct span name); /* only if it exists */
/* The next row of this queue that a claim can take; removes stale entries. */
struct row *unit_claim_top(struct unit *u, struct wqueue *q, struct heap_entry *ret);
void unit_claimable(struct unit *u, struct row *r); /* the row was loaded for claims */
/* Whether the queue may have more ready jobs than were loaded of it. */
bool unit_claim_more(struct unit *u, const struct wqueue *q);
bool unit_queue_paused(const struct unit *u, const struct wqueue *q);
struct row *unit_holder(const struct unit *u, const struct wqueue *q, struct span key);

/* Every change of a job happens between these two calls, which update sums, holders of keys and the
 * order of claims. */
void unit_row_before(struct row *r);
void unit_row_after(struct unit *u, struct row *r);
void unit_row_remove(struct unit *u,
                     struct row *r); /* the job no longer exists; it is counted as removed */
/* Applies a record to this job by the rules of core, with its sums, attempt, report and event, and
 * stores the payload of a dead job under its keys. */
void unit_row_take(struct unit *u, struct row *r, const struct record *rec);
/* Stores these steps of the job. */
void unit_row_steps(struct unit *u, struct row *r, struct span list);
/* Makes a list of steps that a store has returned; the end is in the unit's memory. */
void unit_steps_begin(struct unit *u);
void unit_steps_add(struct unit *u, struct span name, struct span result);
struct span unit_steps_end(struct unit *u);
void unit_row_rules(const struct row *r, struct job_options *room, struct job_rules *ret);
void unit_ended_add(struct unit *u, const struct ended *e); /* copied */
void unit_tell(struct unit *u, uint8_t kind, const struct row *r);
/* No row: the job was refused. */
void unit_tell_refused(struct unit *u, struct job_ref job, struct span queue);
void unit_tell_queue(struct unit *u, uint8_t kind, const struct wqueue *q, uint64_t count);
void unit_depth(struct unit *u, struct wqueue *q);

int64_t unit_queue_sum(const struct wqueue *q, int column); /* with the changes of the unit */
uint64_t unit_queue_state_count(const struct wqueue *q, uint8_t state);
uint64_t unit_queue_live(const struct wqueue *q);

/* A refusal; returns false. */
bool unit_refuse(struct turn *t, enum outcome out, const char *note);

/* Whether the text is valid as a name or key: UTF-8 without a NUL. */
bool unit_text_safe(struct span s);
/* For the leader: the lease has expired; the node to which it was bound has left or died; the job
 * that holds it has ended in this state (none = it was removed). */
void unit_lease_ran_out(struct unit *u, struct row *r);
void unit_lease_restarted(struct unit *u, struct row *r);
void unit_item_left(struct unit *u, struct row *r, uint8_t holder_state);
/* Whether one more queue may be created, in addition to `ahead` others. */
bool unit_queue_room(const struct unit *u, size_t ahead, bool implied);
struct wqueue *unit_queue_make(struct unit *u, struct span name, const struct queue_policy *policy);
/* Functions of struct ops_store, which documents them. */
uint64_t unit_queue_count(const struct ops *o, const struct queue_state *q, unsigned states);
void unit_queue_read(const struct ops *o, const struct queue_state *q, struct rec_queue_put *ret);
bool unit_scope_waits(const struct ops *o, const struct queue_state *q, uint8_t to);
bool unit_keys_shared(struct ops *o, const struct queue_state *q, struct reply *r);
bool unit_queue_put(struct ops *o, const struct queue_state *q, struct rec_queue_put *put,
                    const struct queue_policy *policy, enum queue_change change);
bool unit_queue_commit(struct ops *o, const struct queue_state *q, const struct record *rec,
                       uint64_t count);
size_t unit_bulk_count(const struct ops *o);
bool unit_bulk_begin(struct ops *o, const struct op *op, struct rec_bulk_begin *begin);
/* Whether a change of a queue needs the jobs that share a key (unit.sharers). */
bool unit_queue_widens(const struct unit *u, const struct wqueue **ret_queue);
void unit_rates_take(struct unit *u); /* after the commit */

/* --- schedules (schedules.c, fire.c) --- */

/* Adds a loaded schedule and decodes its definition. NULL: no memory, or it is damaged (*ret_err).
 */
struct wschedule *unit_schedule_add(struct unit *u, const struct wschedule *loaded, int *ret_err);
struct wschedule *unit_schedule(const struct unit *u, struct span name);
bool unit_schedules_changed(const struct unit *u);
/* After the schedules were loaded: determines the enqueues of the firings. */
void unit_firings_prepare(struct unit *u);
/* The enqueues of the operation; 0 = none. */
size_t turn_enqueues(const struct turn *t, const struct op_enqueue **ret);
struct wschedule *unit_schedule_put(struct unit *u, struct wschedule *s,
                                    const struct rec_schedule_put *put,
                                    const struct schedule_spec *spec);
struct schedule_view unit_schedule_view(const struct unit *u, const struct wschedule *s);
void unit_schedule_show(struct unit *u, const struct wschedule *s, struct turn *t);
void unit_tell_alert(struct unit *u, uint8_t kind, struct span alert, struct span queue,
                     uint64_t value);
void unit_tell_schedule(struct unit *u, uint8_t kind, const struct wschedule *s,
                        const struct row *r);
/* --- keys and values (kv.c) --- */

/* Adds a key, once; the store fills it in. NULL: no memory. */
struct wkey *unit_key_add(struct unit *u, struct span key);
struct wkey *unit_key(const struct unit *u, struct span key);
/* The key as it was loaded; an expired one does not exist. */
void unit_key_loaded(const struct unit *u, struct wkey *k, uint64_t version,
                     struct wall_time expires_at, uint8_t kind, uint32_t bytes);
/* Adds every key of the commits of the unit, and the keys to which the payload of a job is
 * copied that the unit both creates and may end. Returns how many versions these need. */
size_t unit_keys_of_commits(struct unit *u);
/* The same for the keys to which the payloads of loaded rows are copied when they die; `every`: of
 * all rows, else only of those that an operation of the unit may make dead. */
size_t unit_keys_of_rows(struct unit *u, bool every);
void unit_leave_payload(struct unit *u, struct row *r); /* the job has just become dead */
/* Functions of struct ops_store, which documents them. */
uint64_t unit_kv_version(struct ops *o);
struct kv_state unit_kv_find(struct ops *o, struct span key);
void unit_kv_set(struct ops *o, const struct kv_set *set, uint64_t version);
uint32_t unit_kv_delete(struct ops *o, const struct span *keys, uint32_t count, uint64_t version);
void unit_tell_key(struct unit *u, uint8_t kind, struct span key, uint64_t version);
/* Keys are locked by bucket, so that keys that do not exist can be locked as well. */
#define KEY_BUCKETS 64u
uint32_t unit_key_bucket(const struct unit *u, struct span key);
