/* SPDX-License-Identifier: Apache-2.0 */
/* The store in a Redis server: its parts, for its own files only. Other folders of src/backend may
 * include redis.h (and dispatch/ the headers of connection/); this one may use shared/, core and
 * base, and hiredis.
 *
 * A store has two connections. The write connection, or pipeline, does everything, in the order in
 * which it was asked for; the listener, or notification connection, hears what other nodes
 * announce. The pipeline has at most two items under way: while the first is being stored, the load
 * of the second is sent right behind it, so that the server goes from one to the other without
 * waiting for us, and syncs its log once for both. When a store finds that another node was faster,
 * the first item begins again, and so does the second.
 *
 * A unit is loaded by one script and stored by another (lua/load.lua, lua/store.lua). Each is
 * atomic, but other nodes may store something between them. Where no other node lives, a load only
 * reads, and a store requires that nothing at all was stored since. Where others live, a load takes
 * ready jobs out of reach of the others, for rd_hold_ms at most, and a store names the revision of
 * everything that it changes.
 *
 * Time is the time of the server, except with a manual clock. One node is the leader: it has a
 * lease in the store and does what becomes due (tick.c). Each of its stores finds its own epoch
 * there, or does nothing.
 *
 *   redis.c         opening, closing, the table of the backend
 *   pipeline.c      what comes next on the write connection; connections that break
 *   items.c         the items of the pipeline: memory, questions, how they end
 *   transact.c      a unit from its load to its store
 *   read_view.c     quick questions;  search.c  questions that may take several steps
 *   tick.c          what the leader does as time passes
 *   heartbeat.c     heartbeats, who leads, the state of the server
 *   notify.c        notifications of other nodes
 *   unit/           what a unit reads and writes, how rows are encoded and indexed
 *   connection/     the way to the server: URL, TLS, arguments, handshake, scripts; knows no jobs
 *   lua/            the scripts that run inside the server */
#pragma once

#include <uv.h>

#include "backend/redis/connection/args.h"
#include "backend/redis/connection/conn.h"
#include "backend/redis/connection/handshake.h"
#include "backend/redis/connection/scripts.h"
#include "backend/redis/unit/row.h"
#include "backend/shared/shared.h"

/* Where the configuration says nothing: */
#define NODE_OTHER_MS 60000  /* a node that was heard of since is reckoned with */
#define REPLY_SPAN_MS 300000 /* the last replies about leases are kept together by time … */
#define REPLY_SPANS 13       /* … and for this many of these spans: at least an hour */
#define HOLD_MS 15000        /* ready jobs are taken out of reach for at most this long, … */
#define UNIT_TRIES_MAX 8
#define ALONE_TRIES_MAX                                                                            \
    200 /* of a unit which requires that no other node stores anything meanwhile … */
#define QUIET_TRIES 3        /* … after this many it asks the other nodes to wait … */
#define QUIET_MS 1000        /* … for at most this long, */
#define QUIET_SCOPE_MS 10000 /* or where all jobs of a queue may have to be looked at first */
#define WAIT_MS 2            /* between two tries of who waits */
#define PIPELINE_ITEMS 2
#define REDIS_GONE "Redis cannot be reached"

enum item_kind { ITEM_UNIT, ITEM_VIEW, ITEM_SEARCH, ITEM_TICK, ITEM_BULK, ITEM_HEARTBEAT };

/* LAST: its last question is on the way, so that the next item's may follow. */
enum item_stage { STAGE_WAIT, STAGE_ASKING, STAGE_LAST };

/* An item of the pipeline: a unit, with what it sends and what came back. */
struct item {
    struct unit unit;
    struct rargs args;
    struct rargs_plain plain; /* of a store without a script */
    redisReply **kept;        /* what rows and answers point to */
    size_t kept_count, kept_room;
    uint64_t began_ns;
    enum item_kind kind;
    enum item_stage stage;
    unsigned tries; /* before this one */
    unsigned search_steps;
    /* how it was loaded */
    uint64_t token;            /* of what is held */
    uint64_t schedule_change;  /* number of the last */
    uint64_t rules;            /* version of the alert rules; 0 = it is not about what they hear */
    const redisReply *idems;   /* idempotency keys as they were loaded */
    const redisReply *buckets; /* of keys, as they were loaded; NULL = none */
    char stores[24];           /* how often something had been stored */
    /* a search */
    uint64_t search_at; /* sequence it came to; 0 = the start */
    uint64_t search_count;
    struct job_view *views;
    uint32_t view_count;
    uint32_t search_queue;
    bool stale;     /* the answer on its way belongs to a question that must be asked again */
    bool shared;    /* others lived: numbers are taken, ready jobs held */
    bool held;      /* ready jobs are */
    bool watched;   /* the server tells if anybody came in between */
    bool no_growth; /* the server is full: jobs are not added by this try */
    bool sharers_asked;
    bool stores_known; /* by a call before the load */
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
    bool contended;      /* a store found another node since the last heartbeat */
    bool ready;          /* the write connection is open, and the handshake is complete */
    bool ready_once;     /* … now or before */
    bool handshaking;
    bool went;           /* data was lost under an open connection */
    bool lost_logged;    /* the log knows that the server is gone */
    bool bulk_turn_last; /* the last thing done was a slice of bulk work */

    /* the leader's */
    bool tick_more;

    uv_timer_t timer; /* ticks, life signs, reconnecting */
    uv_timer_t later; /* answers that must not come from inside a call */
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

/* A list of an answer; empty when it is none. */
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

/* … and no longer than a node that says nothing is taken for alive. */
static inline int64_t rd_hold_ms(const struct rd_store *s)
{
    int64_t silent = shared_silent_ms(&s->sh);
    return silent < HOLD_MS ? silent : HOLD_MS;
}

/* A number, or the text of one; 0 = neither. Within bounds, as backend/shared/sound.h says. */
int64_t rd_reply_int(const redisReply *r);
int64_t rd_reply_time(const redisReply *r);
uint64_t rd_reply_count(const redisReply *r);

/* pipeline.c */
void rd_pipeline_wake(struct rd_store *s);  /* begins what can be begun; makes no callbacks */
void rd_pipeline_later(struct rd_store *s); /* the same from the loop, where answers may be given */
void rd_pipeline_after(struct rd_store *s); /* something is over: what waited for it goes on */
void rd_later_cb(uv_timer_t *timer);
void rd_pipeline_handshake(struct rd_store *s); /* again, on the connection that is open */
/* Whether the store has lost data under an open connection; then the handshake is repeated. */
bool rd_data_went(struct rd_store *s, const char *stores);
void rd_pipeline_opened_cb(void *ctx);
void rd_pipeline_lost_cb(void *ctx, const char *why);
bool rd_pipeline_has(const struct rd_store *s, enum item_kind kind);
void rd_args_now(const struct rd_store *s, struct rargs *a);

/* items.c */
struct item *rd_item_take(struct rd_store *s); /* NULL = no memory */
void rd_items_free(struct rd_store *s);
void rd_item_give(struct rd_store *s, struct item *it);
void rd_item_reset(struct item *it);
void rd_item_call(struct item *it, enum script_id id); /* begins a command */
void rd_item_send(struct item *it, enum item_stage stage, redis_reply_fn fn);
/* Whether the answer is to be looked at; if not, all is done that can be. It is the item's, until
 * it is over. */
bool rd_item_answered(struct item *it, redisReply *r, bool storing);
void rd_item_begin(struct item *it); /* its first question */
void rd_item_again(struct item *it); /* from the start, and the items behind it, too */
void rd_item_over(struct item *it);
void rd_item_give_up(struct item *it, enum outcome out, const char *note);
/* Whether the answer says that another node wants to be alone: then the item tries again soon. */
bool rd_item_told_to_wait(struct item *it, const redisReply *r);
int64_t rd_quiet_ms(const struct item *it); /* how long it wants to be alone; 0 = it does not */

/* transact.c: loaded, worked out, stored */
void rd_unit_begin(struct item *it);
void rd_unit_store(struct item *it); /* its outcome; also of a tick and of bulk work */
void rd_turns_answer(struct item *it);

/* unit/load.c, unit/loaded.c, unit/store.c */
void rd_unit_send_load(struct item *it);
void rd_args_reply_spans(struct rargs *a);
int rd_unit_loaded(struct item *it, const redisReply *r); /* -ERR_NOMEM, -ERR_CORRUPT */
struct row *rd_load_row(struct unit *u, struct span seq, struct span packed); /* NULL = no memory */
const redisReply *rd_load_keys(const redisReply *r); /* its part about keys and values */
int rd_load_queues(struct unit *u, const redisReply *r);
bool rd_unit_needs_sharers(struct item *it); /* sends the question if so */
void rd_unit_sharers_loaded(struct item *it, const redisReply *r);
bool rd_unit_changed(const struct unit *u);
void rd_unit_send_store(struct item *it, redis_reply_fn fn);

/* unit/plain.c: a store as a transaction */
bool rd_plain_possible(const struct item *it); /* before the load */
void rd_plain_load(struct item *it, redis_reply_fn fn);
bool rd_plain_fits(const struct item *it); /* what it leaves */
void rd_plain_begin(struct item *it);
void rd_plain_store(struct item *it, redis_reply_fn fn);

/* unit/index.c: changes of a store, as commands behind each other */
void rd_change(struct rargs *a, const char *command, const char *key);
bool rd_change_end(struct rargs *a); /* false: it had no arguments, and is not sent */
void rd_change_one(struct rargs *a, const char *command, const char *key);
const char *rd_queue_key(uint32_t number, const char *what, char out[48]);
void rd_change_rows(struct item *it);
void rd_check_rows(struct item *it);

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
bool rd_rules_needed(const struct item *it); /* the node's are of another version … */
void rd_rules_ask(struct item *it);          /* … begins a command … */
int rd_rules_loaded(struct item *it, const redisReply *r); /* … -ERR_NOMEM, -ERR_CORRUPT */
bool rd_rules_went(const struct item *it); /* they were forgotten since: the unit begins again */
uint64_t rd_rules_version(const redisReply *r);
void rd_alerts_ask(struct item *it); /* of a unit about them: everything */
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
bool rd_view_row(struct unit *u, const redisReply *const five[5], const struct wqueue *q, bool body,
                 struct job_view *ret);

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
#define REDIS_SIGN_CANCEL "\001c" /* in place of a queue's name; then shared_cancel_text */
void rd_notify_opened_cb(void *ctx);
void rd_notify_lost_cb(void *ctx, const char *why);
void rd_notify_received_cb(void *ctx, const redisReply *r);

/* redis.c */
void rd_timer_set(struct rd_store *s);
