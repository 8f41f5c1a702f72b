/* SPDX-License-Identifier: Apache-2.0 */
/* What every node on a shared store does, whatever the store is. This folder may use ops, core and
 * base, and does no I/O.
 *
 * A store (postgres/, redis/) embeds struct shared as the first member of its own struct. It loads
 * the rows that a unit of work needs; the operations of src/ops are executed on them here, in
 * memory; then the store writes what has changed. unit.h explains a unit.
 *
 *   batches.c   operations that were submitted, in their order, and which of them form a unit
 *   load_plan.c   what a unit must load
 *   unit.c, unit_rows.c    the memory of a unit, and what a record does to a job in it
 *   state.c     the loaded rows as the state on which the operations of src/ops work
 *   enqueue.c, queues.c, bulks.c, kv.c, schedules.c, alerts.c, notices.c
 *               the parts of that state, by subject
 *   fire.c      firings before anything is loaded
 *   cluster.c   heartbeats, the leader, the store's clock
 *   row_check.c checks of what the store returns
 *   views.c     what is shown of jobs and queues
 *   queue_cache.c   what this node remembers of queues between units
 *   events.c, watches.c    events and the clients that wait for them */
#pragma once

#include <stdlib.h>

#include "backend/backend_impl.h"
#include "backend/settles.h"
#include "backend/shared/cluster.h"
#include "backend/shared/unit.h"
#include "base/digest/random.h"
#include "base/mem.h"
#include "core/jobs/progress.h"
#include "core/limits.h"

#define EVENT_RING 16384u
#define UNIT_OPS_MAX 1000
#define UNIT_KEYS_MAX 2000   /* keys of the key-value store that one unit may be about */
#define UNIT_CLAIMS_MAX 2000 /* jobs that the claims of one unit may ask for together */

struct store_facts {
    struct hash_key hash_key; /* for idempotency keys: one for all nodes */
    uint32_t epoch;           /* of this boot, never used before */
};

/* What one submit brought. */
struct batch {
    const struct op *ops;
    size_t count, next, left; /* next: the first that was not begun; left: not answered */
    backend_reply_fn fn;
    void *ctx;
    struct batch *after;
};

/* What is remembered of a queue between units: hints, never truth. */
struct cached_queue {
    bool there;
    uint32_t number;
    bool deep; /* warn_depth was reached */
    uint32_t warn_depth;
    uint64_t capacity;
    uint64_t live; /* when it was last counted, and what was added since */
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
    uint64_t slice_cursor, slice_changed, slice_refused; /* of the slice under way */
    bool slice_last;
    struct wall_time at;
    const struct op *op; /* NULL = taken over from another node or an earlier boot */
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

    struct batch *first, *last; /* with operations that were not begun */
    struct bulk *bulks;         /* of this node */

    struct watch_entry *watches;
    struct told_event *events;
    uint64_t event_last;
    struct progress_pace pace;
    uint64_t event_floor; /* those before it are not told any more: some between are not known */
    backend_news_fn news;
    void *news_ctx;
    struct settles settles;

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
    bool trim_wanted; /* jobs have ended since retention was looked at */
    bool news_due;
    bool any_warned; /* a queue that is known has a warn_depth */
};

static inline struct shared *shared_of(struct backend *b)
{
    return (struct shared *)(void *)b;
}

/* *s: zero-filled, its facts known. */
MUST_CHECK int shared_init(struct shared *s, const struct backend_ops *ops,
                           const struct backend_config *config);
void shared_done(struct shared *s); /* s itself is the caller's */

/* batches.c */

/* The enqueues that an operation contains; 0 = none. */
size_t op_enqueues(const struct op *op, const struct op_enqueue **ret);
/* Whether the unit needs schedules before anything else can be asked for. */
bool unit_about_schedules(const struct unit *u);

enum op_class shared_class(const struct op *op);

MUST_CHECK int shared_batch_add(struct shared *s, const struct op *ops, size_t count,
                                backend_reply_fn fn, void *ctx);
const struct op *shared_front(const struct shared *s); /* the next operation; NULL = none */
struct batch *shared_take_front(struct shared *s);
void shared_turn_add(struct unit *u); /* the next operation becomes the unit's */
/* Fills the unit's turns with operations of one class that stand together, at most `most`. */
void shared_gather(struct unit *u, enum op_class class, size_t most);
void shared_batch_answer(struct batch *b, const struct reply *reply);
void unit_turn_answer(struct turn *t);
void unit_turns_refuse(struct unit *u, enum outcome out, const char *note);
void unit_work(struct unit *u);        /* its turns, in order */
void unit_fill_bodies(struct unit *u); /* into the views of claims, from rows that have them */
/* It is committed: the node's figures say so. began_ns: when it began. */
void unit_count_commit(struct unit *u, uint64_t began_ns);

/* load_plan.c */
uint64_t op_seq(const struct op *op);     /* of the job it names; 0 = none */
bool op_about_lease(const struct op *op); /* speaks of a job by its lease's token */
bool op_revives(const struct op *op);     /* may make a job hold a key that it had let go */
/* Finds out what the turns are about: fills names, and how many sequences and numbers of queues
 * they need. Firings are prepared. */
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

/* The operations: each answers its turn. */
typedef void (*work_fn)(struct unit *u, struct turn *t);
void work_dispatched(struct unit *u, struct turn *t);
void work_accept_clock(struct unit *u, struct turn *t);

/* bulks.c */
struct bulk *shared_bulk_new(struct span group, struct span kind); /* NULL = no memory */
void shared_bulk_append(struct shared *s, struct bulk *b);
void shared_bulk_forget(struct unit *u); /* what the unit was to begin */
/* The slice's jobs are the first rows of the unit, in their order; behind them are those that hold
 * keys. last: the filter matches no more. -ERR_NOMEM */
MUST_CHECK int shared_bulk_work(struct unit *u, struct bulk *b, size_t slice, bool last);
/* The slice of the first is committed; when it was the last, the unit's only turn answers. */
void shared_bulk_stored(struct unit *u);
/* Replies "unknown" to the requests that wait for a bulk action: it stays in the store, and the
 * next leader continues it. */
void shared_bulks_answer(struct shared *s);
void shared_bulks_free(struct shared *s);

/* How many an answer has at most; asked: 0 = as many as may be. */
static inline uint32_t shared_limit(uint32_t asked)
{
    return asked == 0 || asked > LIMIT_BATCH ? LIMIT_BATCH : asked;
}

/* views.c: what is shown of what was loaded. The views point into row and queue. */
void row_view(const struct row *row, const struct wqueue *q, struct wall_time now, bool body,
              struct job_view *ret);
void turn_show_job(struct turn *t, const struct job_view *v); /* its answer is this job */
/* The attempt at index i, the newest first; false: it cannot be read. */
typedef bool (*attempt_read_fn)(const void *from, size_t i, struct attempt_view *ret);
void unit_view_attempts(struct unit *u, const struct row *row, attempt_read_fn read,
                        const void *from, size_t count, struct job_view *v);
bool peek_state_known(const struct op_peek *want);
uint32_t peek_limit(const struct op_peek *want);
bool turn_peek_allowed(struct turn *t, bool queue_there); /* false: it was refused */
/* oldest_ms: since when its oldest ready job is ready; 0 = it has none. */
void wqueue_view(const struct wqueue *q, struct wall_time now, int64_t oldest_ms, int64_t due_ms,
                 struct queue_view *ret);

/* events.c, watches.c: as in backend_impl.h */
void shared_events_take(struct shared *s, const struct unit *u); /* it is durable */
/* Another node has changed this key. */
void shared_events_key(struct shared *s, uint8_t kind, struct span key, uint64_t version,
                       struct wall_time at);
/* The text by which a node tells the others that the cancel of a running job was requested, and
 * the event that they create from it. */
#define CANCEL_TEXT_BYTES (80 + LIMIT_QUEUE_NAME_BYTES)
size_t shared_cancel_text(const struct happened *h, char out[CANCEL_TEXT_BYTES]);
void shared_events_cancel(struct shared *s, const char *text);
void shared_events_gap(struct shared *s);  /* something may have happened that is not known */
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
