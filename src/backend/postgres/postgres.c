/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, closing, and the table of the backend. */
#include "backend/postgres/postgres.h"

#include "backend/postgres/connection/exec.h"
#include "backend/postgres/impl.h"
#include "base/check.h"

#define PATIENCE_FACTOR 4 /* during the start another node may hold the lock of the schema */
#define REOPEN_MS 500     /* between two attempts to reconnect */

/* The server ends a transaction that is idle for this long, so that a stopped node does not hold
 * locks for long: the leader's row no longer than its lease. */
#define IDLE_MS_MAX 15000
/* How many seconds one statement may take, for each connection. */
#define SESSION                                                                                    \
    "SET statement_timeout = '%ds'; SET lock_timeout = '5s';"                                      \
    " SET idle_in_transaction_session_timeout = %d; SET enable_seqscan = off;"                     \
    " SET jit = off; SET plan_cache_mode = force_generic_plan; SET synchronous_commit = %s"

/* The same behind a pooler, for one transaction. */
#define LOCAL                                                                                      \
    "SELECT set_config('statement_timeout', '10s', true), set_config('lock_timeout', '5s', true)," \
    " set_config('idle_in_transaction_session_timeout', '%d', true),"                              \
    " set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),"                  \
    " set_config('synchronous_commit', '%s', true)"

/* Sent before anything else, also after reconnecting, because the name may refer to another server
 * now. */
#define GUARD                                                                                      \
    "DO $$BEGIN IF pg_is_in_recovery() THEN RAISE EXCEPTION 'the PostgreSQL server is a standby "  \
    "that accepts no writes'; END IF; IF %s AND (current_setting('fsync') = 'off' OR "             \
    "current_setting('full_page_writes') = 'off') THEN RAISE EXCEPTION 'the PostgreSQL server "    \
    "can lose what it commits (fsync or full_page_writes is off)'; END IF; END$$; "

static int pg_submit(struct backend *b, const struct op *list, size_t count, backend_reply_fn fn,
                     void *ctx)
{
    struct pg_store *s = pg_of(b);
    if (s->sh.closing)
        return -ERR_CLOSED;
    int err = shared_batch_add(&s->sh, list, count, fn, ctx);
    if (err)
        return err;
    if (pg_conn_up(s->pipeline))
        pg_pipeline_wake(s);
    else
        pg_pipeline_later(s);
    return 0;
}

static bool pg_leads(const struct backend *b)
{
    const struct pg_store *s = (const struct pg_store *)(const void *)b;
    return s->sh.node.leader;
}

static unsigned pg_caps(const struct backend *b)
{
    const struct pg_store *s = (const struct pg_store *)(const void *)b;
    return CAP_SHARED | CAP_UNIQUE_GLOBAL | CAP_CHANGES | CAP_WHOLE_JOBS | CAP_DEPENDENCIES |
           (s->url.relaxed ? 0 : CAP_DURABLE_REPLY);
}

static void pg_figures(const struct backend *b, struct backend_figures *ret)
{
    const struct pg_store *s = (const struct pg_store *)(const void *)b;
    *ret = s->sh.figures;
    ret->epoch = s->sh.facts.epoch;
    ret->capacity = s->sh.config.capacity;
    ret->applied = ret->position;
}

static int pg_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct pg_store *s = pg_of(b);
    if (s->sh.closing)
        return -ERR_CLOSED;
    if (!settle_calls_add(&s->sh.settle_calls, s, fn, ctx))
        return -ERR_NOMEM;
    s->sh.tick_wanted = s->inbox.wanted = s->dependency_work = true;
    s->sh.node.seen_at_ms = 0; /* a heartbeat, for the figures */
    pg_pipeline_later(s);
    return 0;
}

/* --- the timer --- */

static void timer_cb(uv_timer_t *timer)
{
    struct pg_store *s = timer->data;
    struct conn *all[] = {s->pipeline, s->reader, s->listener, s->syncer};
    for (size_t i = 0; i < 4; i++) {
        if (all[i])
            pg_conn_wake(all[i], pg_answer_ms(s));
        if (all[i] && pg_conn_down(all[i]) && !s->sh.closing)
            pg_conn_reopen(all[i]);
    }
    /* The slow poll finds changes of other nodes that were not announced. */
    if (s->sh.node.others || s->url.pooled)
        shared_watches_wake(&s->sh, (struct span){NULL, 0});
    s->inbox.wanted |= s->url.pooled;
    pg_pipeline_later(s);
    pg_timer_set(s);
}

/* The timer is never moved to a later time: frequent calls must not postpone it. */
void pg_timer_set(struct pg_store *s)
{
    uint64_t wait = (uint64_t)(pg_conn_up(s->pipeline) ? shared_next_wait(&s->sh) : REOPEN_MS);
    if (uv_is_closing((uv_handle_t *)&s->timer))
        return;
    if (!uv_is_active((uv_handle_t *)&s->timer) || uv_timer_get_due_in(&s->timer) > wait)
        uv_timer_start(&s->timer, timer_cb, wait, 0);
}

/* --- closing --- */

static void handle_closed_cb(uv_handle_t *handle)
{
    struct pg_store *s = handle->data;
    backend_closed_fn fn = s->closed;
    void *ctx = s->closed_ctx;
    if (--s->handles > 0)
        return;
    pg_url_done(&s->url);
    pg_sql_done(&s->sql);
    pg_notify_free(s);
    pg_units_free(s);
    pg_args_done(&s->sync_args);
    pg_unit_done(&s->search_unit);
    shared_done(&s->sh);
    mem_free(s);
    if (fn)
        fn(ctx);
}

static void take_down(struct pg_store *s)
{
    pg_conn_close(s->pipeline);
    pg_conn_close(s->reader);
    pg_conn_close(s->listener);
    pg_conn_close(s->syncer);
    s->pipeline = s->reader = s->listener = s->syncer = NULL;
    s->handles = 2;
    uv_close((uv_handle_t *)&s->timer, handle_closed_cb);
    uv_close((uv_handle_t *)&s->later, handle_closed_cb);
}

/* A connection must not be closed from inside its own callback, so the loop closes it. */
static void closed_cb(uv_timer_t *timer)
{
    struct pg_store *s = timer->data;
    settle_calls_end_all(&s->sh.settle_calls);
    take_down(s);
}

static void left_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    (void)err, (void)error;
    uv_timer_start(&s->later, closed_cb, 0, 0);
}

/* Removes the node's row and the lease of the leader, so that others need not wait for it. */
static void leave(struct pg_store *s)
{
    struct args *a = &pg_unit(s->unit)->args;
    work_begin(&s->progress, WORK_LEAVE);
    shared_bulks_answer(&s->sh);
    if (pg_conn_usable(s->pipeline)) {
        pg_args_i4(a, (int32_t)s->sh.facts.epoch);
        pg_conn_send(s->pipeline, SQL_NODE_LEAVE, a);
        if (pg_conn_round(s->pipeline, left_cb, s) == 0)
            return;
    }
    uv_timer_start(&s->later, closed_cb, 0, 0);
}

/* Work that becomes due belongs to the leader: another node has nothing left to do. */
static bool work_left(const struct pg_store *s)
{
    if (s->sh.node.seen_at_ms == 0 || !work_idle(&s->progress) || s->next_unit || s->sh.first ||
        s->gate || s->sh.bulks)
        return true;
    return shared_tick_due(&s->sh) || pg_inbox_due(s) || pg_dependencies_due(s);
}

static void answer_settle_calls(struct pg_store *s)
{
    if (!s->sh.settle_calls.first || !pg_conn_up(s->pipeline) || work_left(s))
        return;
    for (struct settle_call *one = s->sh.settle_calls.first; one; one = one->next)
        one->worked = true;
    settle_calls_end(&s->sh.settle_calls, 0);
}

void pg_pipeline_after(struct pg_store *s)
{
    if (s->progress.state == WORK_STATE_LEAVING)
        return;
    shared_watches_due(&s->sh);
    answer_settle_calls(s);
    if (s->sh.closing && pg_pipeline_idle(s) && !s->searching) {
        leave(s);
        return;
    }
    pg_pipeline_wake(s);
    if (work_idle(&s->progress))
        pg_timer_set(s);
}

static void pg_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct pg_store *s = pg_of(b);
    s->sh.closing = true;
    s->closed = fn;
    s->closed_ctx = ctx;
    s->sh.news = NULL;
    pg_pipeline_later(s);
}

static const struct backend_ops pg_ops = {
    .kind = "postgres",
    .submit = pg_submit,
    .watch = shared_watch,
    .unwatch = shared_unwatch,
    .caps = pg_caps,
    .leads = pg_leads,
    .figures = pg_figures,
    .cluster = pg_cluster,
    .clock_offset = shared_clock_offset,
    .events = shared_events,
    .events_last = shared_events_last,
    .on_news = shared_on_news,
    .settle = pg_settle,
    .close = pg_close,
};

/* --- opening --- */

static int reached(PGconn *pg, struct err_note *note)
{
    char text[300];
    if (pg && PQstatus(pg) == CONNECTION_OK)
        return 0;
    snprintf(text, sizeof text, "%s", pg ? PQerrorMessage(pg) : "out of memory");
    for (char *at = text; *at; at++)
        if (*at == '\n' || *at == '\t')
            *at = at[1] ? ' ' : '\0';
    return err_note_set(note, -ERR_IO, "PostgreSQL cannot be used: %s", text);
}

static int set_session(PGconn *pg, const struct pg_store *s, struct err_note *note)
{
    PGresult *r = pg_exec(pg, s->setup, s->url.patience_ms);
    ExecStatusType status = PQresultStatus(r);
    int err = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK
                  ? 0
                  : err_note_set(note, -ERR_IO, "PostgreSQL: a session cannot be set up: %s",
                                 PQresultErrorMessage(r));
    PQclear(r);
    return err;
}

/* Behind a pooler sessions are shared: a setting would affect other clients. */
static void fill_setup(struct pg_store *s)
{
    int idle = (int)(shared_leader_ttl_ms(&s->sh) < IDLE_MS_MAX ? shared_leader_ttl_ms(&s->sh)
                                                                : IDLE_MS_MAX);
    const char *strict = s->url.relaxed ? "false" : "true";
    if (s->url.pooled) {
        snprintf(s->setup, sizeof s->setup, GUARD, strict);
        snprintf(s->local, sizeof s->local, LOCAL, idle, "off");
        snprintf(s->notify_setup, sizeof s->notify_setup, "SELECT 1");
        snprintf(s->sync_setup, sizeof s->sync_setup, "SELECT 1");
        snprintf(s->read_setup, sizeof s->read_setup, "SELECT 1");
        return;
    }
    snprintf(s->setup, sizeof s->setup, GUARD SESSION, strict, 10, idle, "off");
    snprintf(s->read_setup, sizeof s->read_setup, SESSION, 10, idle, s->url.relaxed ? "off" : "on");
    snprintf(s->sync_setup, sizeof s->sync_setup,
             "SET statement_timeout = '30s'; SET synchronous_commit = on");
    snprintf(s->notify_setup, sizeof s->notify_setup, "LISTEN %s; SET statement_timeout = '10s'",
             s->channel);
}

static struct conn_config conn_config_of(struct pg_store *s)
{
    return (struct conn_config){
        .loop = s->sh.config.loop,
        .log = s->sh.config.log,
        .conninfo = s->url.conninfo,
        .sql = &s->sql,
        .pooled = s->url.pooled,
        .setup = s->setup,
        .local = s->url.pooled ? s->local : NULL,
        .ctx = s,
    };
}

static int open_others(struct pg_store *s)
{
    struct conn_config reader = conn_config_of(s), listener = conn_config_of(s);
    struct conn_config syncer = conn_config_of(s);
    syncer.setup = s->sync_setup;
    syncer.opened = pg_syncer_opened_cb;
    syncer.lost = pg_syncer_lost_cb;
    reader.setup = s->read_setup;
    reader.opened = pg_reader_opened_cb;
    reader.lost = pg_reader_lost_cb;
    listener.setup = s->notify_setup;
    listener.opened = pg_notify_opened_cb;
    listener.lost = pg_notify_lost_cb;
    listener.notified = pg_notify_received_cb;
    int err = pg_conn_new_closed(&reader, &s->reader);
    if (!err)
        err = pg_conn_new_closed(&syncer, &s->syncer);
    if (!err && !s->url.pooled)
        err = pg_conn_new_closed(&listener, &s->listener);
    if (err)
        return err;
    pg_conn_reopen(s->reader);
    pg_conn_reopen(s->syncer);
    if (s->listener)
        pg_conn_reopen(s->listener);
    return 0;
}

static int open_pipeline(struct pg_store *s, PGconn *pg, struct err_note *note)
{
    struct conn_config pipeline = conn_config_of(s);
    pipeline.opened = pg_pipeline_opened_cb;
    pipeline.lost = pg_pipeline_lost_cb;
    int err = set_session(pg, s, note);
    if (err) {
        PQfinish(pg);
        return err;
    }
    return pg_conn_new(&pipeline, pg, &s->pipeline);
}

static int store_init(struct pg_store *s, const struct backend_config *config)
{
    struct now now = clock_now(&config->clock);
    s->sh.node.offset_ms = now.wall.ms - now.mono.ms; /* until the database has sent its own time */
    s->search_last = &s->searches;
    s->gate_last = &s->gate;
    pg_args_init(&s->sync_args);
    pg_unit_init(&s->search_unit, s);
    snprintf(s->channel, sizeof s->channel, "%s_wake", s->url.schema);
    int err = shared_init(&s->sh, &pg_ops, config);
    fill_setup(s);
    s->unit = err ? NULL : pg_unit_take(s);
    if (!err && !s->unit)
        err = -ERR_NOMEM;
    return err ? err : pg_sql_fill(&s->sql, s->url.schema);
}

static void free_half(struct pg_store *s)
{
    pg_url_done(&s->url);
    pg_sql_done(&s->sql);
    pg_units_free(s);
    pg_args_done(&s->sync_args);
    pg_unit_done(&s->search_unit);
    shared_done(&s->sh);
    mem_free(s);
}

static int open_store(struct pg_store *s, const struct backend_config *config,
                      struct err_note *note)
{
    PGconn *pg = PQconnectdb(s->url.conninfo);
    s->url.patience_ms = PATIENCE_FACTOR * (config->answer_ms ? config->answer_ms : ANSWER_MS);
    int err = reached(pg, note);
    if (!err)
        err = pg_schema_prepare(pg, &s->url, &s->sh.facts, note);
    if (err) {
        PQfinish(pg);
        return err;
    }
    err = store_init(s, config);
    if (err) {
        PQfinish(pg);
        return err;
    }
    return open_pipeline(s, pg, note);
}

int backend_open_postgres(const char *rest, const struct backend_config *config,
                          struct backend **ret, struct err_note *note)
{
    struct pg_store *s = mem_zalloc(sizeof *s);
    if (!s)
        return -ERR_NOMEM;
    int err = pg_url_parse(rest, &s->url, note);
    if (!err)
        err = open_store(s, config, note);
    if (err) {
        free_half(s);
        return err;
    }
    s->timer.data = s->later.data = s;
    CHECK(uv_timer_init(config->loop, &s->timer) == 0);
    CHECK(uv_timer_init(config->loop, &s->later) == 0);
    err = open_others(s);
    if (err) { /* the loop already owns its handles */
        take_down(s);
        return err;
    }
    pg_link_heard(s);
    shared_store_opened(&s->sh);
    pg_timer_set(s);
    pg_pipeline_wake(s);
    *ret = &s->sh.base;
    return 0;
}

int backend_check_postgres(const char *rest, const struct backend_config *config,
                           struct err_note *note)
{
    struct pg_url url = {0};
    (void)config;
    int err = pg_url_parse(rest, &url, note);
    if (!err) {
        PGconn *pg = PQconnectdb(url.conninfo);
        err = reached(pg, note);
        PQfinish(pg);
    }
    pg_url_done(&url);
    return err;
}
