/* SPDX-License-Identifier: Apache-2.0 */
/* The store in a PostgreSQL database, inside.
 *
 * Four connections. The lane does everything that changes something, one unit of work after the
 * other, and the quick questions between them, so that what one submitter asks for takes effect in
 * its order; while one unit is under way the next ones gather and go together. It commits without
 * waiting for the disk; answers wait behind the gate (gate.c) until the syncer, whose commits do
 * wait, has had one that came later. The reader answers lists, each when all that was asked for
 * before it is committed. The ear listens for what other nodes tell, and tells them.
 *
 * Time is the database's, except under a manual clock. One node is the leader: it has a lease on
 * the row of the table leader and does what time brings (tick.c); each of its transactions locks
 * that row and finds its own epoch in it, or does nothing.
 *
 *   lane.c      who is next; connections that break
 *   transact.c  a unit from begin to commit, or back
 *   gate.c      answers that wait for the disk
 *   load.c, loaded.c, store.c    what a unit reads and writes
 *   enqueue.c, claim.c, leases.c, change.c, queues.c, bulk.c    the operations
 *   look.c, search.c         questions
 *   tick.c      leases that end, jobs that become due, retention, sums
 *   events.c, watch.c        who wants to know */
#pragma once

#include <stdlib.h>
#include <uv.h>

#include "backend/backend_impl.h"
#include "backend/postgres/conn.h"
#include "backend/postgres/schema.h"
#include "backend/postgres/unit.h"
#include "backend/settles.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/limits.h"

#define NOT_YET "this store (PostgreSQL) does not keep "
#define EVENT_RING 16384u
#define LEADER_LEASE_MS 10000
#define BEAT_MS 2000         /* between two signs of life */
#define TICK_IDLE_MS 500     /* the leader looks at least so often: a word may have been lost */
#define POLL_MS 1000         /* watchers are woken so often where nobody listens */
#define NODE_SILENT_MS 15000 /* a node that said nothing for so long is taken for dead */
#define UNIT_OPS_MAX 1000
#define UNIT_CLAIMS_MAX 2000 /* jobs that the claims of one unit may ask for together */
#define UNIT_TRIES_MAX 8

/* What one submit brought. */
struct batch {
    const struct op *ops;
    size_t count, next, left; /* next: the first that was not begun; left: not answered */
    backend_reply_fn fn;
    void *ctx;
    struct batch *after;
};

/* What is remembered of a queue between units: hints, never truth. */
struct known {
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
    char *queue;
};

struct bulk {
    uint64_t number;
    uint8_t action;
    uint32_t queue;
    unsigned states;
    char *group;
    uint64_t seq_max, cursor, changed, refused;
    uint64_t slice_cursor, slice_changed, slice_refused; /* of the slice under way */
    bool slice_last;
    struct wall_time at;
    const struct op *op; /* NULL = taken over from another node or an earlier boot */
    struct batch *batch;
    bool finished;
    struct bulk *next;
};

struct search {
    const struct op *op;
    struct batch *batch;
    struct search *next;
};

enum lane_job { LANE_NOTHING, LANE_UNIT, LANE_TICK, LANE_LOOK, LANE_BULK, LANE_BEAT, LANE_GOODBYE };

struct pg_store {
    struct backend base;
    struct backend_config config;
    struct queue_policy policy; /* for queues made by an enqueue */
    struct sql_text sql;
    struct store_facts facts;
    struct random random;
    uint64_t token_counter;

    struct conn *lane, *reader, *ear, *syncer;
    struct unit *unit;              /* the one under way; never NULL */
    struct unit *spare;             /* done with, for the next */
    struct unit *gate, **gate_last; /* committed, but perhaps not on the disk; oldest first */
    struct unit *syncing;           /* up to this one, by the round under way; NULL = none is */
    struct args sync_args;
    struct batch *first, *last; /* with operations that were not begun */
    struct bulk *bulks;         /* of this node */
    const char *trouble;        /* what is answered after the rollback, unless it is tried again */
    uint64_t unit_began_ns;
    int64_t beat_now_ms; /* the database's time of the last sign of life … */
    int64_t seen_at_ms;  /* … and the process's; 0 = there was none */
    int64_t offset_ms;   /* the database's clock minus ours */

    /* the leader's */
    int64_t leader_epoch;
    int64_t tick_at_ms;     /* the database's time of the last tick */
    int64_t next_due_ms;    /* what is due next, by the last tick; 0 = nothing */
    int64_t resume_from_ms; /* pauses that ended after this are still to be told */
    const PGresult *tick_rows[4], *tick_resumed;

    struct search *searches, **search_last; /* waiting for the reader */
    struct unit search_unit;                /* its arena and arguments only */

    struct watch_entry *watches;
    struct wake_name *to_tell; /* queues that others shall hear of */
    struct told_event *events;
    uint64_t event_last;
    backend_news_fn news;
    void *news_ctx;
    struct settles settles;

    struct known *knowns;
    size_t known_count, known_room;
    struct map128 known_map;
    struct map128 rates; /* by key: when its bucket is full, µs */
    struct backend_figures figures;

    uv_timer_t timer; /* ticks, life signs, reconnecting */
    uv_timer_t later; /* answers that must not come from inside a call */
    backend_closed_fn closed;
    void *closed_ctx;

    enum lane_job doing;
    unsigned tries;   /* of the unit under way, before this one */
    unsigned others;  /* other nodes that live */
    unsigned handles; /* not closed yet */
    bool closing;
    bool storing;     /* a commit is on its way: an end without an answer is unknown from here on */
    bool again;       /* after the rollback: the same once more */
    bool broken;      /* the round could not be sent */
    bool bulk_last;   /* the last thing done was a slice of bulk work */
    bool down_told;   /* the log knows that the database is gone */
    bool leader;      /* by the last sign of life */
    bool tick_wanted; /* something may be due */
    bool tick_more;   /* the tick under way left something */
    bool dirty;       /* something was changed since the last tick */
    bool trim_wanted; /* jobs have ended since retention was looked at */
    bool searching, telling, news_due;
    bool any_warned; /* a queue that is known has a warn_depth */

    struct pg_url url;
    char channel[SCHEMA_BYTES + 16]; /* of notifications */
    /* what each session begins with */
    char setup[600], read_setup[600], ear_setup[200], sync_setup[200];
};

static inline struct pg_store *pg_of(struct backend *b)
{
    return (struct pg_store *)(void *)b;
}

/* lane.c */
void pg_lane_kick(struct pg_store *s);  /* begins what can be begun; calls nobody back */
void pg_lane_later(struct pg_store *s); /* the same from the loop, where answers may be given */
void pg_later_cb(uv_timer_t *timer);
void pg_lane_after(struct pg_store *s);          /* something is over: what waited for it goes on */
int64_t pg_manual_now(const struct pg_store *s); /* 0 = the database's clock counts */
int64_t pg_db_now(const struct pg_store *s);     /* the database's clock, as far as known */
void pg_batch_answer(struct pg_store *s, struct batch *b, const struct reply *reply);
void pg_lane_lost_cb(void *ctx);
void pg_lane_opened_cb(void *ctx);
void pg_timer_set(struct pg_store *s);
bool pg_lane_idle(const struct pg_store *s);
struct known *pg_known_find(struct pg_store *s, struct span name);
void pg_known_learn(struct pg_store *s, const struct wqueue *q);
void pg_known_forget(struct pg_store *s, struct span name);
void pg_knowns_free(struct pg_store *s);

/* transact.c: one transaction from begin to commit */
void pg_begin_unit(struct pg_store *s); /* its turns are filled */
void pg_begin_bulk(struct pg_store *s);
void pg_begin_tick(struct pg_store *s);
void pg_work_turns(struct pg_store *s); /* lane.c: in order, by the table of operations */
void pg_turns_refuse(struct pg_store *s, enum outcome out, const char *note);
void pg_give_up(struct pg_store *s, enum outcome out, const char *note);
void pg_over(struct pg_store *s);            /* what was under way; goes on with the next */
void pg_go(struct pg_store *s, round_fn fn); /* sends the lane's round */
void pg_keep_result(struct pg_store *s, size_t index);
const char *pg_sentence(const struct round_error *e); /* for the client */

/* gate.c */
struct unit *pg_unit_take(struct pg_store *s); /* a fresh one; NULL = no memory */
void pg_units_free(struct pg_store *s);
bool pg_gate_needed(const struct pg_store *s);
/* The unit under way is committed: answers what may leave at once, and keeps the rest until the
 * disk has it. Another takes its place. */
void pg_gate_enter(struct pg_store *s, struct unit *next);
void pg_gate_kick(struct pg_store *s);
void pg_send_sync(struct pg_store *s, struct conn *c, struct args *a);
void pg_gate_break(struct pg_store *s); /* all that is kept becomes unknown */
void pg_syncer_lost_cb(void *ctx);
void pg_syncer_opened_cb(void *ctx);
void pg_turn_answer(struct pg_store *s, struct turn *t);

/* Where the answer to each question of the round is; SIZE_MAX = it was not asked. */
enum load_slot {
    LOAD_NOW,
    LOAD_SEQS,
    LOAD_NUMBERS,
    LOAD_QUEUES,
    LOAD_COUNTS,
    LOAD_LIVE,
    LOAD_JOBS,
    LOAD_RIVALS,
    LOAD_HOLDERS,
    LOAD_NONCES,
    LOAD_NONCE_QUEUES,
    LOAD_CLAIMS,
    LOAD_IDEM,
    LOAD_SLOT_COUNT
};

/* load.c, loaded.c, store.c */
void pg_unit_ask(struct unit *u);
bool pg_unit_send_load(struct unit *u);   /* sends the first round */
int pg_unit_loaded(struct unit *u);       /* takes its results; -ERR_NOMEM, -ERR_CORRUPT */
bool pg_unit_needs_words(struct unit *u); /* sends a second round if so */
int pg_unit_words_loaded(struct unit *u);
void pg_load_rows(struct unit *u, size_t result, bool claimable);
struct row *pg_load_row(struct unit *u, const PGresult *r, int at); /* NULL = no memory */
int pg_load_queues(struct unit *u, const PGresult *r);
void pg_row_load(const PGresult *r, int at, struct row *ret); /* without its queue */
void pg_unit_send_store(struct unit *u);
bool pg_unit_changed(const struct unit *u);

/* the operations: each answers its turn */
typedef void (*work_fn)(struct unit *u, struct turn *t);
void pg_work_enqueue(struct unit *u, struct turn *t);
void pg_work_claim(struct unit *u, struct turn *t);
void pg_work_ack(struct unit *u, struct turn *t);
void pg_work_fail(struct unit *u, struct turn *t);
void pg_work_extend(struct unit *u, struct turn *t);
void pg_work_release(struct unit *u, struct turn *t);
void pg_work_release_claim(struct unit *u, struct turn *t);
void pg_work_cancel(struct unit *u, struct turn *t);
void pg_work_requeue(struct unit *u, struct turn *t);
void pg_work_patch(struct unit *u, struct turn *t);
void pg_work_remove(struct unit *u, struct turn *t);
void pg_work_note(struct unit *u, struct turn *t);
void pg_work_queue_put(struct unit *u, struct turn *t);
void pg_work_queue_delete(struct unit *u, struct turn *t);
void pg_work_pause(struct unit *u, struct turn *t);
void pg_work_purge(struct unit *u, struct turn *t);
void pg_work_bulk(struct unit *u, struct turn *t);
void pg_work_accept_clock(struct unit *u, struct turn *t);
void pg_work_not_yet(struct unit *u, struct turn *t);
struct wqueue *pg_queue_make(struct unit *u, struct span name, const struct queue_policy *policy);

struct row *pg_row_rival(const struct unit *u, const struct row *r); /* who holds its key instead */
void pg_lease_ran_out(struct unit *u, struct row *r);
void pg_lease_restarted(struct unit *u, struct row *r);
bool pg_rates_allow(struct unit *u, const struct wqueue *q, const struct op_enqueue *want,
                    struct turn *t);
void pg_rates_take(struct unit *u);         /* after the commit */
bool pg_queues_need_shared(struct unit *u); /* sends the question if so */

/* look.c, search.c */
void pg_look_send(struct pg_store *s);
void pg_look_answer(struct pg_store *s);
void pg_view_row(struct pg_store *s, const PGresult *r, int at, struct wall_time now, bool body,
                 struct arena *arena, struct job_view *ret);
void pg_search_add(struct pg_store *s, const struct op *op, struct batch *b);
void pg_search_kick(struct pg_store *s);
void pg_search_fail_all(struct pg_store *s);
void pg_reader_lost_cb(void *ctx);
void pg_reader_opened_cb(void *ctx);

/* bulk.c */
void pg_bulk_send_begin(struct unit *u); /* its intent, with the unit that asks for it */
void pg_bulk_begun(struct pg_store *s, struct unit *u);
void pg_bulk_forget(struct unit *u);
void pg_bulk_send(struct pg_store *s); /* a slice of the first */
int pg_bulk_work(struct pg_store *s);
void pg_bulk_send_store(struct pg_store *s);
void pg_bulk_stored(struct pg_store *s);
void pg_bulk_adopt(struct pg_store *s, const PGresult *r);
void pg_bulk_answer_all(struct pg_store *s, enum outcome out);
void pg_bulk_free_all(struct pg_store *s);

/* tick.c */
bool pg_tick_due(const struct pg_store *s);
void pg_tick_send(struct pg_store *s);
bool pg_tick_needs_queues(struct pg_store *s); /* sends the question if so */
int pg_tick_work(struct pg_store *s, PGresult *queues);
void pg_tick_send_next(struct pg_store *s);
void pg_tick_done(struct pg_store *s);

/* events.c, watch.c */
int pg_events_init(struct pg_store *s);
void pg_events_free(struct pg_store *s);
void pg_events_take(struct pg_store *s, const struct unit *u);
size_t pg_events(const struct backend *b, uint64_t after, uint64_t kinds, struct backend_event *out,
                 size_t max, uint64_t *ret_oldest);
uint64_t pg_events_last(const struct backend *b);
void pg_on_news(struct backend *b, backend_news_fn fn, void *ctx);
void pg_events_call(struct pg_store *s);
int pg_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
             struct backend_watch **ret);
void pg_unwatch(struct backend *b, struct backend_watch *w);
void pg_watches_free(struct pg_store *s);
void pg_watches_wake(struct pg_store *s, struct span queue); /* empty = all */
void pg_ear_tell(struct pg_store *s, struct span queue);
void pg_ear_kick(struct pg_store *s);
void pg_ear_notified_cb(void *ctx, const char *payload);
void pg_ear_lost_cb(void *ctx);
void pg_ear_opened_cb(void *ctx);
