/* SPDX-License-Identifier: Apache-2.0 */
/* The store in a Redis server: its internals, for its own files only. Other folders of src/backend
 * may include redis.h (and dispatch/ the headers of connection/); this one may use shared/, core
 * and base, and hiredis.
 *
 * A store has two connections. The write connection, or pipeline, does everything, in the order of
 * the requests; the listener, or notification connection, receives what other nodes announce. The
 * pipeline has at most two items in progress: while the first is being stored, the load of the
 * second is sent right behind it, so that the server continues with the second without waiting for
 * this process, and syncs its log once for both. If a store finds that another node was faster, the
 * first item begins again, and so does the second.
 *
 * A unit is loaded by one script and stored by another (lua/load.lua, lua/store.lua). Each is
 * atomic, but other nodes may store something between them. If no other node is alive, a load only
 * reads, and a store requires that nothing at all was stored since. If other nodes are alive, a
 * load holds ready jobs, so that other nodes cannot claim them, for rd_hold_ms at most, and a store
 * names the revision of everything that it changes.
 *
 * Time is the time of the server, except with a manual clock. One node is the leader: it has a
 * lease in the store and does what becomes due (tick.c). Each of its stores does nothing unless it
 * finds its own epoch there.
 *
 *   redis.c         opening, closing, the table of the backend
 *   pipeline.c      what the write connection does next; lost connections
 *   items.c         the items of the pipeline: memory, calls, how they end
 *   transact.c      a unit from its load to its store
 *   read_view.c     quick queries;  search.c  queries that may take several steps
 *   tick.c          what the leader does as time passes
 *   dependencies.c  ends of jobs reach their dependents
 *   heartbeat.c     heartbeats, the leader, the state of the server
 *   notify.c        notifications of other nodes
 *   unit/           what a unit reads and writes, how rows are encoded and indexed
 *   connection/     access to the server: URL, TLS, arguments, handshake, scripts; it knows no jobs
 *   lua/            the scripts that run inside the server */
#pragma once

#include <uv.h>

#include "backend/redis/connection/args.h"
#include "backend/redis/connection/conn.h"
#include "backend/redis/connection/handshake.h"
#include "backend/redis/connection/scripts.h"
#include "backend/redis/unit/row.h"
#include "backend/shared/shared.h"

/* Defaults of the configuration: */
#define NODE_OTHER_MS 60000 /* a node whose last heartbeat is older does not count */
#define KEPT_SPAN_MS 300000 /* kept replies are grouped by spans of this length … */
#define KEPT_SPANS                                                                                 \
    (LIMIT_KEPT_REPLY_MS / KEPT_SPAN_MS + 1) /* … and each group is kept for this many */
#define HOLD_MS 15000                        /* ready jobs are held for at most this long, … */
#define UNIT_TRIES_MAX 8
#define ALONE_TRIES_MAX                                                                            \
    200 /* of a unit which requires that no other node stores anything meanwhile, or that starts   \
           jobs of a queue with limits … */
#define QUIET_TRIES 3 /* … after this many it asks the other nodes to wait … */
#define QUIET_MS 1000 /* … for at most this long, */
#define QUIET_SCOPE_MS                                                                             \
    10000         /* or this long if all jobs of a queue may have to be examined first             \
                   */
#define WAIT_MS 2 /* between two attempts of a unit that waits */
#define PIPELINE_ITEMS 2
#define REDIS_GONE "Redis cannot be reached"

enum item_kind {
    ITEM_UNIT,
    ITEM_VIEW,
    ITEM_SEARCH,
    ITEM_TICK,
    ITEM_BULK,
    ITEM_DEPENDENCIES,
    ITEM_HEARTBEAT
};

/* LAST: its last call was sent, so that the first call of the next item may follow. */
enum item_stage { STAGE_WAIT, STAGE_ASKING, STAGE_LAST };

/* A job with want_wait in a queue with limits, whose slots are asked for by a second call. */
struct wait_asked {
    struct row row; /* with its queue */
    struct job_view *view;
    struct wait_counts counts;
    struct wait_asked *next;
};

/* An item of the pipeline: a unit, with its calls and their replies. */
struct item {
    struct unit unit;
    struct rargs args;
    struct rargs_plain plain; /* of a store without a script */
    redisReply **kept;        /* replies to which rows and answers point */
    size_t kept_count, kept_room;
    uint64_t began_ns;
    enum item_kind kind;
    enum item_stage stage;
    unsigned tries; /* attempts before this one */
    unsigned search_steps;
    /* how it was loaded */
    uint64_t token;            /* of the jobs that are held */
    uint64_t schedule_change;  /* number of the last */
    uint64_t rules;            /* version of the alert rules; 0 = the unit does not concern them */
    const redisReply *idems;   /* idempotency keys as they were loaded */
    const redisReply *buckets; /* of keys, as they were loaded; NULL = none */
    char stores[24];           /* number of stores at the load */
    /* a step that builds the order of a queue with limits; NULL = none */
    const redisReply *step;
    uint32_t step_queue; /* 0 = no step was asked for */
    /* a search */
    uint64_t search_at; /* sequence that it has reached; 0 = the start */
    uint64_t search_count;
    struct job_view *views;
    uint32_t view_count;
    uint32_t search_queue;
    struct wait_asked *waits, **waits_last; /* of quick queries */
    bool stale;     /* the outstanding reply belongs to a call that must be repeated */
    bool shared;    /* other nodes were alive: numbers are drawn, ready jobs are held */
    bool held;      /* ready jobs are held */
    bool watched;   /* the server reports if another node stored something in between */
    bool no_growth; /* the server is full: this attempt adds no jobs */
    bool sharers_asked;
    bool stores_known; /* from a call before the load */
    bool slots_begin;  /* its step has the slots of groups, too */
    bool limited;      /* an attempt conflicted in a queue with limits */
};

struct rd_store {
    struct shared sh;
    struct redis_url url;
    struct redis_tls_context *tls;
    struct redis_server server;
    struct script_names names;
    struct handshake handshake;

    struct rconn *pipeline, *listener;
    struct item *line[PIPELINE_ITEMS + 1]; /* and a heartbeat in front */
    size_t line_count;
    struct item *spare;
    uint64_t token_last; /* of holds */
    uint64_t stores;     /* the highest number seen: a smaller one means lost data */
    uint64_t bulk_last;  /* number of the last bulk action begun here */
    bool contended;      /* a store conflicted with another node since the last heartbeat */
    bool ready;          /* the write connection is open, and the handshake is complete */
    bool ready_once;     /* … now or before */
    bool handshaking;
    bool went;            /* data was lost on an open connection */
    bool lost_logged;     /* the loss of the connection was logged */
    bool bulk_turn_last;  /* the last work was a slice of a bulk action */
    bool dependency_work; /* the work list may have entries (dependencies.c) */
    bool dependency_last; /* the last work was a slice of it */

    /* used by the leader */
    bool tick_more;

    uv_timer_t timer; /* ticks, heartbeats, reconnecting */
    uv_timer_t later; /* for replies that must not be sent from inside a call */
    unsigned handles;
    bool leaving; /* the node has left the cluster */
    struct rargs leave_args;
    backend_closed_fn closed;
    void *closed_ctx;
};

static inline struct rd_store *rd_of(struct backend *b)
{
    return (struct rd_store *)(void *)b;
}

static inline struct rd_store *rd_of_unit(const struct unit *u)
{
    return (struct rd_store *)(void *)u->s;
}

static inline struct item *item_of(struct unit *u)
{
    return (struct item *)(void *)u;
}

/* The length of a list; 0 if the reply is not a list. */
static inline size_t reply_count(const redisReply *r)
{
    return r && r->type == REDIS_REPLY_ARRAY ? r->elements : 0;
}

static inline const redisReply *reply_at(const redisReply *r, size_t i)
{
    return i < reply_count(r) ? r->element[i] : NULL;
}

static inline struct span reply_span(const redisReply *r)
{
    bool text = r && (r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_STATUS);
    return text ? span_of(r->str, (size_t)r->len) : (struct span){NULL, 0};
}

/* … and no longer than a silent node counts as alive. */
static inline int64_t rd_hold_ms(const struct rd_store *s)
{
    int64_t silent = shared_silent_ms(&s->sh);
    return silent < HOLD_MS ? silent : HOLD_MS;
}

/* A number, or the text of one; 0 = neither. Checked against the limits in
 * backend/shared/row_check.h. */
int64_t rd_reply_int(const redisReply *r);
int64_t rd_reply_time(const redisReply *r);
uint64_t rd_reply_count(const redisReply *r);

/* pipeline.c */
void rd_pipeline_wake(struct rd_store *s);  /* starts what can be started; calls no callbacks */
void rd_pipeline_later(struct rd_store *s); /* the same from the loop, where replies may be sent */
/* some work has ended: continues with what waited for it */
void rd_pipeline_after(struct rd_store *s);
void rd_later_cb(uv_timer_t *timer);
void rd_pipeline_handshake(struct rd_store *s); /* again, on the open connection */
/* Whether the store has lost data on an open connection; then the handshake is repeated. */
bool rd_data_went(struct rd_store *s, const char *stores);
void rd_pipeline_opened_cb(void *ctx);
void rd_pipeline_lost_cb(void *ctx, const char *why);
void rd_args_now(const struct rd_store *s, struct rargs *a);

/* items.c */
struct item *rd_item_take(struct rd_store *s); /* NULL = no memory */
void rd_items_free(struct rd_store *s);
void rd_item_give(struct rd_store *s, struct item *it);
void rd_item_reset(struct item *it);
void rd_item_call(struct item *it, enum script_id id); /* begins a command */
void rd_item_send(struct item *it, enum item_stage stage, redis_reply_fn fn);
/* Whether the reply is to be processed; otherwise everything necessary has been done. The item owns
 * it until it has ended. */
bool rd_item_answered(struct item *it, redisReply *r, bool storing);
void rd_item_begin(struct item *it); /* its first call */
void rd_item_again(struct item *it); /* from the start, and the items behind it, too */
void rd_item_over(struct item *it);
void rd_item_give_up(struct item *it, enum outcome out, const char *note);
/* Whether the reply says that another node has asked for a pause; then the item tries again
 * soon. */
bool rd_item_told_to_wait(struct item *it, const redisReply *r);
/* for how long it asks the other nodes to pause; 0 = it does not */
int64_t rd_quiet_ms(const struct item *it);

/* transact.c: load, execute, store */
void rd_unit_begin(struct item *it);
void rd_unit_store(struct item *it); /* stores the changes, also of a tick and of a bulk action */
void rd_turns_answer(struct item *it);

/* unit/load.c, unit/loaded.c, unit/store.c */
void rd_unit_send_load(struct item *it);
void rd_args_reply_spans(struct rargs *a);
int rd_unit_loaded(struct item *it, const redisReply *r); /* -ERR_NOMEM, -ERR_CORRUPT */
struct row *rd_load_row(struct unit *u, struct span seq, struct span packed); /* NULL = no memory */
/* The reply to rd_kv_ask: false if the item has ended because of it. */
bool rd_keys_answered(struct item *it, redisReply *r);
int rd_load_queues(struct unit *u, const redisReply *r);
bool rd_unit_needs_sharers(struct item *it); /* if so, sends the query */
void rd_unit_sharers_loaded(struct item *it, const redisReply *r);
bool rd_unit_changed(const struct unit *u);
void rd_unit_send_store(struct item *it, redis_reply_fn fn);

/* unit/plain.c: a store as a transaction */
bool rd_plain_possible(const struct item *it); /* before the load */
void rd_plain_load(struct item *it, redis_reply_fn fn);
bool rd_plain_fits(const struct item *it); /* whether its changes allow it */
void rd_plain_begin(struct item *it);
void rd_plain_store(struct item *it, redis_reply_fn fn);

/* unit/index.c: changes of a store, as consecutive commands */
void rd_change(struct rargs *a, const char *command, const char *key);
bool rd_change_end(struct rargs *a); /* false: it had no arguments, and is not sent */
void rd_change_one(struct rargs *a, const char *command, const char *key);
const char *rd_queue_key(uint32_t number, const char *what, char out[48]);
typedef void (*rd_row_fn)(struct rargs *a, const struct row *r);
/* One command with what fn adds for each row; not sent if that is nothing. */
void rd_change_each(struct rargs *a, const char *command, const char *key, struct row *const *rows,
                    size_t count, rd_row_fn fn);
void rd_change_rows(struct item *it);
void rd_check_rows(struct item *it);

/* unit/limits.c: limits at the claim */
bool rd_limits_concerned(const struct unit *u);  /* whether a queue has limits, or had … */
bool rd_limits_redefined(const struct item *it); /* … and they, or the order, change */
void rd_limits_command(struct rargs *a, const char *command, const struct wqueue *q); /* begins */
void rd_limits_checks(struct item *it);
void rd_limits_change_queues(struct item *it); /* after the queues */
void rd_limits_change_rows(struct rargs *a, const struct wqueue *q, struct row *const *rows,
                           size_t count); /* with the rows of the queue */
void rd_limits_changes(struct item *it);  /* after the rows */

/* unit/limits_order.c: steps that build the order of a queue, with the change of its policy (false:
 * no step is needed), or by the leader. The first two begin a command; the reply belongs to the
 * item. */
bool rd_limits_ask_first_step(struct item *it);
void rd_limits_ask_step(struct item *it, uint32_t queue);
bool rd_limits_step_loaded(struct item *it, const redisReply *r); /* false: no memory, or damaged */
void rd_limits_step(struct item *it);                             /* with the work of the unit */
void rd_limits_step_changes(struct item *it, const struct wqueue *q);

/* unit/limits_loaded.c */
void rd_limits_loaded(struct unit *u, const redisReply *r); /* with the claimable jobs … */
void rd_limits_claimable(struct unit *u, struct row *r);    /* … which follow */
/* What groups of jobs that claims name use; false: no such job. Begins a command. */
bool rd_limits_ask_groups(struct item *it);
void rd_limits_groups_loaded(struct unit *u, const redisReply *r);
void rd_limits_view(struct wqueue *q, const redisReply *r, struct wall_time now,
                    struct queue_counts *counts);
/* The arguments of lua/groups.lua for a job with want_wait, and its answer at this index; false: it
 * has no answer there. */
void rd_limits_send_wait(struct rargs *a, const struct row *r);
bool rd_limits_wait_loaded(const redisReply *r, size_t index, const struct wqueue *q,
                           struct wait_counts *counts);

/* heartbeat.c */
void rd_heartbeat_begin(struct item *it);
void rd_cluster(const struct backend *b, struct backend_cluster *ret);

/* unit/kv.c */
void rd_kv_put_section(struct item *it, size_t versions);
void rd_kv_loaded(struct item *it, const redisReply *r);
void rd_kv_ask(struct item *it, size_t versions); /* begins a command */
void rd_kv_changes(struct item *it);
void rd_kv_checks(struct item *it);
void rd_kv_expired(struct unit *u);
void rd_kv_send_get(struct rargs *a, const struct op_kv_get *want);
void rd_kv_answer_get(struct unit *u, struct turn *t, const redisReply *list);
void rd_kv_send_list(struct item *it, const struct op_kv_list *want);
bool rd_kv_answer_list(struct item *it, const struct op_kv_list *want, const redisReply *list,
                       struct reply *reply);

/* unit/schedules.c */
void rd_schedules_ask(struct item *it); /* begins a command */
int rd_schedules_loaded(struct item *it, const redisReply *r);
void rd_schedules_changes(struct item *it);
void rd_schedules_send_view(struct rargs *a, const struct op *op);
void rd_schedules_answer(struct unit *u, struct turn *t, const redisReply *list);

/* unit/alerts.c */
bool rd_rules_needed(const struct item *it); /* the node knows another version of the rules … */
void rd_rules_ask(struct item *it);          /* … begins a command … */
int rd_rules_loaded(struct item *it, const redisReply *r); /* … -ERR_NOMEM, -ERR_CORRUPT */
bool rd_rules_went(const struct item *it); /* they were dropped meanwhile: the unit begins again */
uint64_t rd_rules_version(const redisReply *r);
void rd_alerts_ask(struct item *it); /* everything that a unit about alerts needs */
int rd_alerts_loaded(struct item *it, const redisReply *r);
void rd_alerts_checks(struct item *it);
void rd_alerts_changes(struct item *it);
void rd_alerts_stored(struct item *it, const redisReply *told);
void rd_alerts_send_view(struct rargs *a, const struct op *op);
void rd_alerts_answer(struct unit *u, struct turn *t, const redisReply *list);
struct span rd_record(struct unit *u, const struct record *rec);          /* empty = no memory */
bool rd_record_read(struct span bytes, uint8_t kind, struct record *ret); /* false = damaged */

/* unit/notices.c */
void rd_notices_ask(struct item *it);
void rd_notices_loaded(struct item *it, const redisReply *notices, const redisReply *breakers);
void rd_notices_checks(struct item *it);
void rd_notices_changes(struct item *it);
void rd_notices_send_view(struct rargs *a, const struct op *op);
void rd_notices_answer(struct unit *u, struct turn *t, const redisReply *list);

/* read_view.c, search.c */
void rd_read_view_begin(struct item *it);
void rd_search_begin(struct item *it);
struct span rd_steps(struct unit *u,
                     const redisReply *list); /* name, result, name … (transact.c) */
bool rd_view_row(struct unit *u, const redisReply *const five[5], const struct wqueue *q, bool body,
                 struct job_view *ret);

/* unit/dependencies.c: jobs that depend on others */
void rd_dependencies_put_section(struct unit *u, struct rargs *a);
void rd_dependencies_put_none(struct rargs *a);
void rd_dependencies_loaded(struct unit *u, const redisReply *r);
void rd_dependents_loaded(struct unit *u, const redisReply *list); /* sequence, packed … */
void rd_dependencies_checks(struct item *it);
void rd_dependencies_changes(struct item *it); /* after the rows */

/* dependencies.c: the work list */
bool rd_dependencies_due(const struct rd_store *s);
void rd_dependencies_begin(struct item *it);
void rd_dependencies_worked(struct item *it); /* with its store: the entries that are done */
void rd_dependencies_stored(struct item *it, bool waiting);

/* unit/bulk.c */
void rd_bulk_begin(struct item *it);
void rd_bulk_changes(struct item *it);
void rd_bulk_begun(struct item *it);
void rd_bulk_adopt(struct item *it, const redisReply *bulks, const redisReply *living);

/* tick.c */
void rd_tick_begin(struct item *it);
void rd_tick_changes(struct item *it);
void rd_tick_done(struct item *it, const redisReply *out);

/* notify.c */
/* instead of a queue's name; followed by the text of shared_cancel_text */
#define REDIS_SIGN_CANCEL "\001c"
void rd_notify_opened_cb(void *ctx);
void rd_notify_lost_cb(void *ctx, const char *why);
void rd_notify_received_cb(void *ctx, const redisReply *r);

/* redis.c */
void rd_timer_set(struct rd_store *s);
