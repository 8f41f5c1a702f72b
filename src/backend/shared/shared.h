/* SPDX-License-Identifier: Apache-2.0 */
/* src/backend/shared has what the backends for shared stores (PostgreSQL, Redis) have in common.
 * This folder may use ops, core and base, and does no I/O.
 *
 * A store (postgres/, redis/) embeds struct shared as the first member of its own struct. It loads
 * the rows that a unit of work needs; the operations of src/ops are executed on them here, in
 * memory; then the store writes what has changed. unit.h explains a unit.
 *
 *   batches.c   the submitted operations, in order, and which of them form a unit
 *   load_plan.c   what a unit must load
 *   unit.c, unit_rows.c    the memory of a unit, and how a record changes a job in it
 *   state.c     the loaded rows as the state on which the operations of src/ops work
 *   enqueue.c, queues.c, bulks.c, kv.c, schedules.c, alerts.c, notices.c
 *               the parts of that state, by subject
 *   fire.c      the inputs of firings, before anything else is loaded
 *   cluster.c   heartbeats, the leader, the store's clock
 *   row_check.c checks of what the store returns
 *   views.c     views of jobs and queues
 *   dependencies.c   jobs that depend on others
 *   limits.c    limits at the claim: slots, tokens and groups of the queues of a unit
 *   queue_cache.c   what this node keeps about queues between units
 *   events.c, watches.c    events and the clients that wait for them */
#pragma once

#include <stdlib.h>

#include "backend/backend_impl.h"
#include "backend/settle_calls.h"
#include "backend/shared/cluster.h"
#include "backend/shared/unit.h"
#include "base/digest/random.h"
#include "base/mem.h"
#include "core/jobs/progress.h"
#include "core/limits.h"

#define EVENT_RING 16384u
#define UNIT_OPS_MAX 1000
#define UNIT_KEYS_MAX 2000   /* keys of the key-value store in one unit */
#define UNIT_CLAIMS_MAX 2000 /* jobs that the claims of one unit request together */

struct store_facts {
    struct hash_key hash_key; /* for idempotency keys; the same on all nodes */
    uint32_t epoch;           /* of this start of the server; never used before */
};

/* The operations of one backend_submit. */
struct batch {
    const struct op *ops;
    size_t count, next, left; /* next: the first that has not begun; left: without a reply */
    backend_reply_fn fn;
    void *ctx;
    struct batch *after;
};

/* What a node keeps about a queue between units. These are hints: another node may have changed the
 * queue. */
struct cached_queue {
    bool there;
    uint32_t number;
    bool deep;             /* warn_depth was reached */
    bool limited, ordered; /* limits at the claim (limits.h) */
    uint32_t warn_depth;
    uint64_t capacity;
    uint64_t live; /* as last counted, and what this node added since */
    uint64_t counted_ns;
};

struct watch_entry;

struct told_event {
    struct backend_event event; /* its texts are owned here */
    char *queue, *subject;
};

struct bulk {
    uint64_t number;
    uint8_t action;
    uint32_t queue;
    unsigned states;
    char *group, *kind; /* empty = any */
    uint64_t seq_max, cursor, changed, refused;
    uint64_t slice_cursor, slice_changed, slice_refused; /* of the current slice */
    bool slice_last;
    struct wall_time at;
    const struct op *op; /* NULL = taken over from another node or an earlier process */
    struct batch *batch;
    struct bulk *next;
};

struct shared {
    struct backend base;
    struct backend_config config;
    struct ops_limits limits;
    struct store_facts facts;
    struct random random;
    uint64_t token_counter;

    struct batch *first, *last; /* with operations that have not begun */
    struct bulk *bulks;         /* of this node */

    struct watch_entry *watches;
    int64_t signal_ms; /* the first time at which one of them gets a signal; 0 = none */
    struct told_event *events;
    uint64_t event_last;
    struct progress_pace pace;
    uint64_t event_floor; /* events before this one are not delivered, because some after them are
                             unknown */
    backend_news_fn news;
    void *news_ctx;
    struct settle_calls settle_calls;

    struct cached_queue *queue_cache;
    size_t queue_cache_count, queue_cache_room;
    struct map128 queue_cache_map;
    struct map128 rates; /* by key: when its bucket is full, µs */
    struct alerts_known alerts;
    struct backend_figures figures;
    struct node_state node;

    bool closing;
    bool tick_wanted; /* something may be due */
    bool dirty;       /* something was changed since the last tick */
    bool trim_wanted; /* jobs have ended since retention was last checked */
    bool news_due;
    bool any_warned; /* a cached queue has a warn_depth */
};

static inline struct shared *shared_of(struct backend *b)
{
    return (struct shared *)(void *)b;
}

/* *s: zero-filled, except for `facts`. */
MUST_CHECK int shared_init(struct shared *s, const struct backend_ops *ops,
                           const struct backend_config *config);
void shared_done(struct shared *s); /* s itself is the caller's */

/* batches.c */

/* The enqueues that an operation contains; 0 = none. */
size_t op_enqueues(const struct op *op, const struct op_enqueue **ret);
/* Whether the unit must load schedules before it knows what else to load. */
bool unit_about_schedules(const struct unit *u);

enum op_class shared_class(const struct op *op);

MUST_CHECK int shared_batch_add(struct shared *s, const struct op *ops, size_t count,
                                backend_reply_fn fn, void *ctx);
const struct op *shared_front(const struct shared *s); /* the next operation; NULL = none */
struct batch *shared_take_front(struct shared *s);
void shared_turn_add(struct unit *u); /* moves the next operation to the unit */
/* Moves consecutive operations of one class to the unit, at most `most`. */
void shared_gather(struct unit *u, enum op_class class, size_t most);
void shared_batch_answer(struct batch *b, const struct reply *reply);
void unit_turn_answer(struct turn *t);
void unit_turns_refuse(struct unit *u, enum outcome out, const char *note);
void unit_work(struct unit *u); /* executes its operations, in order */
void unit_fill_bodies(
    struct unit *u); /* into the views of claims, from the rows that have been loaded */
/* Counts the commit in the figures of this node. began_ns: when the unit began. */
void unit_count_commit(struct unit *u, uint64_t began_ns);

/* load_plan.c */
uint64_t op_seq(const struct op *op);     /* of the job that it names; 0 = none */
bool op_about_lease(const struct op *op); /* names a job by the token of its lease */
bool op_revives(const struct op *op);     /* after it, a job may hold a key that it had released */
/* Plans the load of the unit: the names of queues, and how many sequences and queue numbers its
 * operations need. Prepares firings. */
void unit_ask(struct unit *u);

/* queue_cache.c */
struct cached_queue *queue_cache_find(struct shared *s, struct span name);
void queue_cache_learn(struct shared *s, const struct wqueue *q);
void queue_cache_forget(struct shared *s, struct span name);
void queue_cache_free(struct shared *s);

/* enqueue.c: what the state of a unit (state.c) does for enqueues and commits of keys */
bool unit_idempotency_find(struct ops *o, struct hash128 key, struct idempotency_state *ret);
enum outcome unit_idempotency_room(struct ops *o, struct hash128 key, size_t ahead);
void unit_idempotency_keep(struct ops *o, struct hash128 key, uint64_t fingerprint,
                           const struct job *j);
struct row *unit_job_create(struct unit *u, const struct enqueue_plan *p); /* NULL = no memory */
int64_t unit_rate_full_us(struct ops *o, const struct rate_share *share);
void unit_rate_take(struct ops *o, const struct rate_share *share);

/* Operations that only shared stores have; each fills in the reply of its turn. */
typedef void (*work_fn)(struct unit *u, struct turn *t);
void work_dispatched(struct unit *u, struct turn *t);
void work_accept_clock(struct unit *u, struct turn *t);

/* bulks.c */
struct bulk *shared_bulk_new(struct span group, struct span kind); /* NULL = no memory */
void shared_bulk_append(struct shared *s, struct bulk *b);
void shared_bulk_forget(struct unit *u); /* removes the bulk action that the unit has begun */
/* The jobs of the slice are the first rows of the unit, in order; the jobs that hold keys follow.
 * last: no more jobs match the filter. -ERR_NOMEM */
MUST_CHECK int shared_bulk_work(struct unit *u, struct bulk *b, size_t slice, bool last);
/* The slice of the first bulk action is committed. After the last slice, the only operation of the
 * unit gets its reply. */
void shared_bulk_stored(struct unit *u);
/* Replies "unknown" to the requests that wait for a bulk action: it stays in the store, and the
 * next leader continues it. */
void shared_bulks_answer(struct shared *s);
void shared_bulks_free(struct shared *s);

/* The limit of a reply; asked: 0 = as many as allowed. */
static inline uint32_t shared_limit(uint32_t asked)
{
    return asked == 0 || asked > LIMIT_BATCH ? LIMIT_BATCH : asked;
}

/* views.c: views of loaded rows; they point into row and queue. */
/* Sets has_body and what belongs to it. */
void row_view_body(const struct row *row, struct job_view *view);
void row_view(const struct row *row, const struct wqueue *q, struct wall_time now, bool body,
              struct job_view *ret);
void turn_show_job(struct turn *t, const struct job_view *v); /* the reply is this job */
/* The attempt at index i, the newest first; false: it cannot be read. */
typedef bool (*attempt_read_fn)(const void *from, size_t i, struct attempt_view *ret);
void unit_view_attempts(struct unit *u, const struct row *row, attempt_read_fn read,
                        const void *from, size_t count, struct job_view *v);
/* What a store has counted for a view with want_wait. */
struct wait_counts {
    struct wall_time paused_until; /* of the queue */
    uint64_t running, ready, before;
    bool more_before;              /* `before` is a lower bound */
    struct claim_use queue, group; /* zero if the queue has no limits */
};
bool unit_view_waits(const struct job_view *v); /* whether its view has a job_wait */
const struct job_wait *unit_wait_view(struct unit *u, const struct queue_policy *p,
                                      const struct wait_counts *counts); /* NULL = no memory */
bool peek_state_known(const struct op_peek *want);
uint32_t peek_limit(const struct op_peek *want);
bool turn_peek_allowed(struct turn *t, bool queue_there); /* false: the reply is a refusal */
/* oldest_ms: when its oldest ready job became ready; 0 = it has none. */
void wqueue_view(const struct wqueue *q, struct wall_time now, int64_t oldest_ms, int64_t due_ms,
                 struct queue_view *ret);

/* events.c, watches.c: as in backend_impl.h */
void shared_events_take(struct shared *s, const struct unit *u); /* the unit is durable */
/* Another node has changed this key. */
void shared_events_key(struct shared *s, uint8_t kind, struct span key, uint64_t version,
                       struct wall_time at);
/* The text by which a node tells the others that the cancel of a running job was requested, and
 * the event that they create from it. */
#define CANCEL_TEXT_BYTES (80 + LIMIT_QUEUE_NAME_BYTES)
size_t shared_cancel_text(const struct happened *h, char out[CANCEL_TEXT_BYTES]);
void shared_events_cancel(struct shared *s, const char *text);
void shared_events_gap(struct shared *s);  /* events may have been missed */
void shared_events_call(struct shared *s); /* from the loop */
size_t shared_events(const struct backend *b, uint64_t after, uint64_t kinds,
                     struct backend_event *out, size_t max, uint64_t *ret_oldest);
uint64_t shared_events_last(const struct backend *b);
void shared_on_news(struct backend *b, backend_news_fn fn, void *ctx);
int shared_events_init(struct shared *s);
void shared_events_free(struct shared *s);
int shared_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                 struct backend_watch **ret);
void shared_unwatch(struct backend *b, struct backend_watch *w);
void shared_watches_free(struct shared *s);
void shared_watches_wake(struct shared *s, struct span queue); /* empty = all */
/* The same at this time of the store, in ms; its node calls shared_watches_due then. */
void shared_watches_wake_at(struct shared *s, struct span queue, int64_t at_ms);
void shared_watches_due(struct shared *s);
