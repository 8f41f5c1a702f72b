/* SPDX-License-Identifier: Apache-2.0 */
/* The store in a PostgreSQL database: its internals, for its own files only. Other folders of
 * src/backend may include only postgres.h; this one may use shared/, core and base, and libpq.
 *
 * A store has four connections.
 *
 *   - The write connection, or pipeline, does everything that changes something, one unit of work
 *     after the other, and answers quick queries between them. The requests of one client therefore
 *     take effect in their order. While a unit is in progress, the next operations are collected,
 *     and form one unit together. It commits without waiting for the disk.
 *   - The commits of the syncer wait for the disk. A reply waits behind the gate (gate.c) until a
 *     later commit of the syncer has ended.
 *   - The reader answers lists. Each is sent when everything before it has been committed.
 *   - The listener, or notification connection, receives what other nodes announce, and announces
 *     what this node changed.
 *
 * Time is the time of the database, except with a manual clock. One node is the leader: it has a
 * lease on the row of the table leader and does what becomes due (tick.c). Each of its transactions
 * locks that row and does nothing unless it finds its own epoch in it.
 *
 * Besides the locks of rows there are these advisory locks. All end with the transaction; the first
 * key of the first three depends on the table and therefore on the schema (lock_class, parts.sql).
 *
 *   queues, number of a queue   shared: units that work on jobs of the queue (lock_shared,
 *                               nonce_lock, lock_number); exclusive: units that change the queue as
 *                               a whole (lock_alone), and all units if the queue has limits at the
 *                               claim (claim_due_lock, too). Taken in ascending order.
 *   kv, bucket of a key         exclusive: units that read or set keys of the bucket (kv_lock)
 *   schedule, 0                 exclusive: units that change a schedule (schedule_lock)
 *   inbox, 0                    exclusive: the node that takes rows of the inbox (inbox_take)
 *   hash of the schema's name   exclusive: creating the tables (schema_lock)
 *
 *   postgres.c      opening, closing, the table of the backend
 *   pipeline.c      what the write connection does next; lost connections
 *   transact.c      a unit from begin to commit or rollback; work_state.h has its states
 *   gate.c          replies that wait for the disk
 *   read_view.c     quick queries;  search.c  queries that may take long
 *   inbox.c         jobs from transactions of users
 *   dependencies.c  ends of jobs reach their dependents
 *   tick.c          what the leader does as time passes
 *   heartbeat.c     heartbeats, the leader, the state of the database
 *   notify.c        notifications between nodes
 *   unit/           what a unit reads and writes; shared/ makes the decisions in between. It may
 *                   use what this folder may use, and calls libpq only through connection/
 *   connection/     access to the server: URL, arguments, connections; knows nothing about jobs
 *   sql/            the statements and the tables */
#pragma once

#include <uv.h>

#include "backend/postgres/connection/args.h"
#include "backend/postgres/connection/conn.h"
#include "backend/postgres/sql/schema.h"
#include "backend/postgres/sql/sql.h"
#include "backend/postgres/work_state.h"
#include "backend/shared/shared.h"

/* Defaults of the configuration: */
#define ANSWER_MS 15000 /* the database may take this long to answer */
#define UNIT_TRIES_MAX 8

/* Further data that the first round may show to be needed. */
enum second_question {
    ASKED_SHARERS = 1, /* jobs that share a unique key */
    ASKED_REPLIES = 2, /* kept replies */
    ASKED_KEYS = 4,    /* keys under which payloads of jobs are stored */
    ASKED_ALERTS = 8   /* the rules */
};

/* A unit with what it sends and what came back. */
struct pg_unit {
    struct unit unit;
    struct args args;
    size_t slots[28];           /* by enum load_slot: index of its result in the first round */
    size_t alerts_at;           /* index of the rules in the round that requested them */
    size_t trim_at, counts_at;  /* of notices, in the round that stored; SIZE_MAX = not requested */
    size_t versions_asked;      /* in that round */
    size_t work_at, removed_at; /* new entries of the work list, likewise */
    size_t keys_at; /* index of the first result about keys, in the round that requested them */
    uint64_t began_ns;
    PGresult **kept; /* results to which rows and replies point */
    size_t kept_count, kept_room;
    unsigned asked; /* in a second round: bits, enum second_question */
};

struct search {
    const struct op *op;
    struct batch *batch;
    struct search *next;
};

/* inbox.c */
struct pg_inbox {
    bool wanted;            /* rows may be there */
    bool last;              /* the last work was a batch of it */
    bool more;              /* the current batch left some */
    bool fault;             /* the current batch failed because of what it contains */
    uint32_t limit;         /* rows of the next batch; 0 = the default */
    uint64_t condemned;     /* sequence of a row that cannot be taken; 0 = none … */
    char trouble[400];      /* … and why */
    struct inbox_row *rows; /* of the current batch, in the arena of its unit */
    size_t count;
};

struct pg_store {
    struct shared sh;
    struct sql_text sql;

    struct conn *pipeline, *reader, *listener, *syncer;
    struct unit *unit;              /* the current one; never NULL */
    struct unit *next_unit;         /* the one after it, begun or not; NULL = none; transact.c */
    struct unit *spare;             /* for reuse */
    struct unit *gate, **gate_last; /* committed, but perhaps not on the disk; oldest first */
    /* the last unit that the current sync covers; NULL = no sync is in progress */
    struct unit *syncing;
    struct args sync_args;
    /* numbers of the syncer's connections: the present one, and the one that was open when the
     * pipeline last sent; 0 = none */
    uint64_t sync_number, sent_under;

    /* used by the leader */
    int64_t resume_from_ms; /* pauses that ended after this are still to be reported */
    const PGresult *tick_rows[5], *tick_resumed, *tick_keys, *tick_stepped, *tick_purging;
    size_t step_at;    /* result of the step that builds such an order; SIZE_MAX = none */
    bool limits_exist; /* a queue has limits at the claim, or had */
    bool tick_stale;   /* the alert rules have changed since this node loaded them */

    struct pg_inbox inbox;
    bool dependency_work;                   /* the work list may have entries (dependencies.c) */
    bool dependency_last;                   /* the last work was a slice of it */
    const PGresult *work_taken;             /* of the current slice */
    struct search *searches, **search_last; /* queries that wait for the reader */
    struct pg_unit search_unit;             /* its arena and arguments only */

    struct wake_name *to_tell;      /* queues to announce to other nodes */
    struct wake_name *keys_to_tell; /* keys likewise, oldest first */
    size_t keys_waiting;
    bool keys_lost; /* some could not be announced */
    /* some were not sent since the last heartbeat, because no other node seemed to be alive */
    bool keys_untold;
    bool keys_in_round; /* the current round announces keys */
    bool hello_due;     /* this node must announce that it listens */
    bool heard;         /* this node has listened before */

    uv_timer_t timer; /* ticks, heartbeats, reconnecting */
    uv_timer_t later; /* for replies that must not be sent from inside a call */
    backend_closed_fn closed;
    void *closed_ctx;

    struct work_progress progress;
    unsigned handles; /* not closed yet */
    bool bulk_last;   /* the last work was a slice of a bulk action */
    bool lost_logged; /* the loss of the connection was logged */
    bool tick_more;   /* the current tick left something to do */
    bool searching, telling;

    struct pg_url url;
    char channel[SCHEMA_BYTES + 16]; /* of notifications */
    /* settings that each session begins with */
    char setup[1200], read_setup[600], notify_setup[200], sync_setup[200], local[500];
};

static inline struct pg_store *pg_of(struct backend *b)
{
    return (struct pg_store *)(void *)b;
}

static inline struct pg_store *pg_of_unit(const struct unit *u)
{
    return (struct pg_store *)(void *)u->s;
}

static inline struct conn *pg_pipeline_of(const struct unit *u)
{
    return pg_of_unit(u)->pipeline;
}

static inline struct pg_unit *pg_unit(struct unit *u)
{
    return (struct pg_unit *)(void *)u;
}

/* pipeline.c */
void pg_pipeline_wake(struct pg_store *s);  /* starts what can be started; calls no callbacks */
void pg_pipeline_later(struct pg_store *s); /* the same from the loop, where replies may be sent */
void pg_later_cb(uv_timer_t *timer);
/* some work has ended: continues with what waited for it */
void pg_pipeline_after(struct pg_store *s);
void pg_pipeline_lost_cb(void *ctx);
void pg_pipeline_opened_cb(void *ctx);
void pg_timer_set(struct pg_store *s);
bool pg_pipeline_idle(const struct pg_store *s);

/* unit/limits.c: limits at the claim */
/* What a unit with claims on limited queues reads, with the first round. */
void pg_limits_send_load(struct unit *u);
void pg_limits_loaded(struct unit *u);
/* Whether each limited queue of the unit is locked exclusively, according to the results of the
 * locks (the second may be NULL); otherwise its limits are new, and the unit begins again. */
bool pg_limits_locked(const struct unit *u, const PGresult *locks, const PGresult *more);
void pg_limits_send_store(struct unit *u); /* after the jobs */
/* The part of a tick that builds and cleans up the orders of limited queues. */
void pg_limits_send_due(struct pg_store *s);
/* Reads their results; false: another queue than those that are locked was built. */
bool pg_limits_stepped(struct pg_store *s, const PGresult *locks);

/* unit/dependencies.c: jobs that depend on others */
void pg_dependencies_send_load(struct unit *u); /* with the first round, behind the jobs */
void pg_dependencies_loaded(struct unit *u);
/* Columns dependent_columns (sql/dependencies.sql); false: NULL, or damaged. */
bool pg_dependent_read(const PGresult *r, int row, int col, struct dependent *ret);
void pg_dependents_loaded(struct unit *u, const PGresult *r); /* of SQL_DEPENDENTS */
void pg_dependencies_send_store(struct unit *u);              /* behind the jobs */
/* These jobs are about to be removed: sequences in the first column. */
void pg_dependencies_send_removed(struct unit *u, const PGresult *seqs);
void pg_dependencies_stored(struct pg_store *s); /* after the commit */

/* dependencies.c: the work list */
bool pg_dependencies_due(const struct pg_store *s);
bool pg_dependencies_turn(struct pg_store *s); /* whether a slice is next */
void pg_begin_dependencies(struct pg_store *s);
void pg_dependencies_send_end(struct pg_store *s); /* with its store: the entries that are done */

/* heartbeat.c */
int64_t pg_answer_ms(const struct pg_store *s);
void pg_heartbeat_send(struct pg_store *s);
void pg_heartbeat_take(struct pg_store *s);
void pg_link_heard(struct pg_store *s); /* the write connection was opened */
void pg_cluster(const struct backend *b, struct backend_cluster *ret);

/* transact.c: one transaction from begin to commit */
void pg_load_unit(struct pg_store *s);  /* its turns are set, its transaction has begun */
void pg_begin_unit(struct pg_store *s); /* its operations are set */
void pg_store_and_commit(
    struct pg_store *s); /* the end of every transaction: stores the changes and commits */
void pg_round_failed(struct pg_store *s, int err, const struct round_error *error);
/* Rolls back, and begins again if `again`; otherwise refuses the operations with this text. */
void pg_give_back(struct pg_store *s, bool again, const char *trouble);
/* True: the alert rules were requested and are damaged; the unit has been rolled back. */
bool pg_rules_wrong(struct pg_store *s);
void pg_give_up(struct pg_store *s, enum outcome out, const char *note);
/* The outcome of the current operations when the connection is lost. */
enum outcome pg_lost_outcome(const struct pg_store *s);
/* ends the current work and continues with the next */
void pg_over(struct pg_store *s);
/* the same for work with replies, whose results stay valid */
void pg_over_with_answers(struct pg_store *s);
void pg_go(struct pg_store *s, round_fn fn); /* sends the round */
void pg_keep_result(struct pg_store *s, size_t index);
const char *pg_sentence(const struct round_error *e); /* for the client */

/* gate.c */
struct unit *pg_unit_take(struct pg_store *s); /* a new one; NULL = no memory */
void pg_unit_give(struct pg_store *s, struct unit *u);
void pg_units_free(struct pg_store *s);
bool pg_gate_needed(const struct pg_store *s);
/* whether the gate can find out what is on the disk, if that is needed */
bool pg_gate_watched(const struct pg_store *s);
/* The unit is committed, and the pipeline has another one: sends the replies that need not wait,
 * and keeps the rest, and the unit, until it is on the disk. sent_under: the number of the syncer's
 * connection when it was sent. */
void pg_gate_enter(struct pg_store *s, struct unit *u, uint64_t sent_under);
void pg_gate_refuse(struct pg_store *s); /* the current unit is committed, but cannot wait */
void pg_gate_wake(struct pg_store *s);
void pg_send_sync(struct pg_store *s, struct conn *c, struct args *a);
void pg_gate_break(struct pg_store *s); /* the outcome of everything in the gate becomes unknown */
void pg_syncer_lost_cb(void *ctx);
void pg_syncer_opened_cb(void *ctx);

/* Index of each result of the round; SIZE_MAX = not requested. */
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
    LOAD_KEYS,
    LOAD_ALERTS,
    LOAD_LOCKS,
    LOAD_NONCE_LOCKS,
    LOAD_CLAIM_QUEUES,
    LOAD_CLAIM_GROUPS,
    LOAD_PARENTS,
    LOAD_SETTLING,
    LOAD_DEPENDENTS,
    LOAD_EDGES,
    LOAD_SLOT_COUNT
};

/* Of the results of a store; those before it are of bodies, bulk actions and ticks. */
#define STEPS_SLOT 4

/* unit/load.c, unit/loaded.c, unit/store.c */
bool pg_unit_send_load(struct unit *u); /* sends the first round */
int pg_unit_loaded(struct unit *u);     /* reads its results; -ERR_NOMEM, -ERR_CORRUPT */
/* if so, sends the query as the first of a second round */
bool pg_unit_needs_replies(struct unit *u);
int pg_unit_replies_loaded(struct unit *u);
void pg_load_rows(struct unit *u, size_t result, bool claimable);
struct row *pg_load_row(struct unit *u, const PGresult *r, int at); /* NULL = no memory */
void pg_row_bodies(struct row *r, const PGresult *res, int at);     /* as far as they came along */
int pg_load_queues(struct unit *u, const PGresult *r);
void pg_row_load(const PGresult *r, int at, struct row *ret); /* without its queue */
void pg_unit_send_store(struct unit *u);
bool unit_changed(const struct unit *u);

bool pg_unit_needs_sharers(struct unit *u); /* if so, sends the query */
void pg_unit_sharers_loaded(struct unit *u);
bool pg_unit_keep(struct unit *u, PGresult *r); /* until the unit has ended; false = no memory */
void pg_unit_reset(struct unit *u);
void pg_unit_done(struct pg_unit *p);
void pg_unit_init(struct pg_unit *p, struct pg_store *s);

/* read_view.c, search.c */
/* An attempt from row i of a result: number, started, ended, outcome, kind of error, worker, error.
 */
bool pg_attempt_read(const void *result, size_t i, struct attempt_view *ret);
void pg_read_view_send(struct pg_store *s);
void pg_read_view_answer(struct pg_store *s);
void pg_view_row(const PGresult *r, int at, struct wall_time now, bool body, struct job_view *ret);
int pg_queue_read(const PGresult *r, int at, struct wqueue *ret); /* -ERR_CORRUPT */
void pg_search_add(struct pg_store *s, const struct op *op, struct batch *b);
void pg_search_wake(struct pg_store *s);
void pg_search_fail_all(struct pg_store *s);
void pg_reader_lost_cb(void *ctx);
void pg_reader_opened_cb(void *ctx);

/* unit/keys.c */
void pg_keys_send_commits(struct unit *u);   /* with the first round */
void pg_keys_commits_loaded(struct unit *u); /* reads its results */
/* Whether payloads of loaded rows may have to be stored under keys; if so, sends the query. */
bool pg_keys_needed_by_rows(struct unit *u, bool every);
void pg_keys_of_rows_loaded(struct unit *u);
void pg_keys_send_store(struct unit *u); /* before the jobs, because it copies their payloads */
void pg_keys_send_expired(struct pg_store *s, int64_t now);
void pg_keys_expired(struct unit *u, const PGresult *r); /* emits their events */
void pg_keys_send_get(struct unit *u, const struct op_kv_get *want);
void pg_keys_answer_get(struct unit *u, struct turn *t, const PGresult *r);
void pg_keys_send_list(struct pg_store *s, const struct op_kv_list *want);
void pg_keys_answer_list(struct pg_store *s, const struct op_kv_list *want, struct reply *reply);

/* unit/schedules.c */
void pg_schedules_send_load(struct unit *u); /* before the first round */
int pg_schedules_loaded(struct unit *u);     /* -ERR_NOMEM, -ERR_CORRUPT */
void pg_schedules_send_store(struct unit *u);
void pg_schedules_send_view(struct unit *u, const struct op *op);
void pg_schedules_answer(struct unit *u, struct turn *t, const PGresult *r);

/* unit/alerts.c */
/* in units in which something may happen that rules react to */
void pg_alerts_send_version(struct unit *u);
/* Whether the rules have changed since this node loaded them, according to the version at this
 * index of the round that just ended (SIZE_MAX = not requested); before anything else is sent. */
bool pg_alerts_stale(const struct unit *u, size_t version_at);
/* requests the rules, with the other queries of the next round */
void pg_alerts_ask(struct unit *u);
int pg_alerts_loaded(struct unit *u);     /* -ERR_NOMEM, -ERR_CORRUPT */
void pg_alerts_send_load(struct unit *u); /* everything that a unit about alerts needs */
int pg_alerts_all_loaded(struct unit *u);
void pg_alerts_send_store(struct unit *u);
void pg_alerts_stored(struct unit *u); /* after its commit */
void pg_alerts_send_view(struct unit *u, const struct op *op);
void pg_alerts_answer(struct unit *u, struct turn *t, size_t at); /* two results */
bool pg_alerts_rule(const PGresult *r, int row, int col, struct rec_alert_put *ret);

/* unit/notices.c */
void pg_notices_send_load(struct unit *u);
void pg_notices_loaded(struct unit *u, size_t at); /* its results begin at this index */
void pg_notices_send_store(struct unit *u);
void pg_notices_stored(struct unit *u);
void pg_notices_send_view(struct unit *u, const struct op *op);
void pg_notices_answer(struct unit *u, struct turn *t, const PGresult *r);

/* unit/bulk.c */
void pg_bulk_send_begin(struct unit *u); /* the action's row, with the unit that requests it */
void pg_bulk_begun(struct pg_store *s, struct unit *u);
void pg_begin_bulk(struct pg_store *s); /* a slice of the first action */
void pg_bulk_send_store(struct pg_store *s);
void pg_bulk_adopt(struct pg_store *s, const PGresult *r);

/* inbox.c */
bool pg_inbox_due(const struct pg_store *s);
bool pg_inbox_turn(struct pg_store *s);                       /* whether a batch is next */
void pg_inbox_counted(struct pg_store *s, const PGresult *r); /* of SQL_INBOX_WAITING */
void pg_begin_inbox(struct pg_store *s);
void pg_inbox_send_store(struct pg_store *s); /* with the jobs */
void pg_inbox_stored(struct pg_store *s);     /* after its commit */
/* The database refused the batch; what it contains is at fault. */
void pg_inbox_error(struct pg_store *s, const struct round_error *error);
void pg_inbox_fault(struct pg_store *s, const char *why);
void pg_inbox_failed(struct pg_store *s); /* it was rolled back, or its outcome is unknown */

/* tick.c */
void pg_begin_tick(struct pg_store *s);
void pg_tick_send_next(struct pg_store *s); /* with its store: when the next tick is due */
void pg_tick_done(struct pg_store *s);      /* after its commit */

/* notify.c */
void pg_notify_free(struct pg_store *s);
void pg_notify_queue(struct pg_store *s, struct span queue);
void pg_notify_keys(struct pg_store *s, const struct unit *u); /* after it is on the disk */
/* The other nodes were counted again. A node that had not been known was not sent changes of keys
 * meanwhile. */
void pg_notify_nodes_counted(struct pg_store *s, unsigned others_before);
void pg_notify_wake(struct pg_store *s);
void pg_notify_received_cb(void *ctx, const char *payload);
void pg_notify_lost_cb(void *ctx);
void pg_notify_opened_cb(void *ctx);
