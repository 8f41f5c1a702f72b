/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, closing, and the table of the backend. */
#include "backend/redis/redis.h"

#include "backend/redis/impl.h"
#include "base/check.h"

#define REOPEN_MS 500         /* between two attempts to reconnect */
#define LOADING_WAIT_MS 60000 /* a start waits this long for a server that is loading its data */

static int rd_submit(struct backend *b, const struct op *list, size_t count, backend_reply_fn fn,
                     void *ctx)
{
    struct rd_store *s = rd_of(b);
    if (s->sh.closing)
        return -ERR_CLOSED;
    int err = shared_batch_add(&s->sh, list, count, fn, ctx);
    if (err)
        return err;
    if (s->ready && redis_conn_open_now(s->pipeline))
        rd_pipeline_wake(s);
    else
        rd_pipeline_later(s);
    return 0;
}

static unsigned rd_caps(const struct backend *b)
{
    const struct rd_store *s = (const struct rd_store *)(const void *)b;
    return CAP_SHARED | CAP_UNIQUE_GLOBAL | CAP_WHOLE_JOBS | CAP_DEPENDENCIES |
           (s->server.durable ? CAP_DURABLE_REPLY : 0);
}

static bool rd_leads(const struct backend *b)
{
    const struct rd_store *s = (const struct rd_store *)(const void *)b;
    return s->sh.node.leader;
}

static void rd_figures(const struct backend *b, struct backend_figures *ret)
{
    const struct rd_store *s = (const struct rd_store *)(const void *)b;
    *ret = s->sh.figures;
    ret->epoch = s->sh.facts.epoch;
    ret->capacity = s->sh.config.capacity;
    ret->applied = ret->position;
}

static int rd_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct rd_store *s = rd_of(b);
    if (s->sh.closing)
        return -ERR_CLOSED;
    if (!settle_calls_add(&s->sh.settle_calls, s, fn, ctx))
        return -ERR_NOMEM;
    s->sh.tick_wanted = s->dependency_work = true;
    rd_pipeline_later(s);
    return 0;
}

/* --- the timer --- */

static void timer_cb(uv_timer_t *timer)
{
    struct rd_store *s = timer->data;
    if (redis_conn_down(s->pipeline) && !s->sh.closing)
        redis_conn_open(s->pipeline);
    if (redis_conn_down(s->listener) && !s->sh.closing && s->ready)
        redis_conn_open(s->listener);
    /* The slow poll finds changes of other nodes that were not announced. */
    if (s->sh.node.others)
        shared_watches_wake(&s->sh, (struct span){NULL, 0});
    rd_pipeline_later(s);
    rd_timer_set(s);
}

/* The timer is never moved to a later time: frequent calls must not postpone it. */
void rd_timer_set(struct rd_store *s)
{
    bool down = !s->ready || redis_conn_down(s->listener);
    uint64_t wait = (uint64_t)(down ? REOPEN_MS : shared_next_wait(&s->sh));
    if (uv_is_closing((uv_handle_t *)&s->timer))
        return;
    if (!uv_is_active((uv_handle_t *)&s->timer) || uv_timer_get_due_in(&s->timer) > wait)
        uv_timer_start(&s->timer, timer_cb, wait, 0);
}

/* --- closing --- */

static void store_free(struct rd_store *s)
{
    rd_items_free(s);
    redis_args_done(&s->leave_args);
    redis_tls_context_free(s->tls);
    shared_done(&s->sh);
    mem_free(s);
}

static void handle_closed_cb(uv_handle_t *handle)
{
    struct rd_store *s = handle->data;
    backend_closed_fn fn = s->closed;
    void *ctx = s->closed_ctx;
    if (--s->handles > 0)
        return;
    store_free(s);
    if (fn)
        fn(ctx);
}

static void take_down(struct rd_store *s)
{
    redis_conn_close(s->pipeline);
    if (s->handshaking)
        redis_handshake_drop(&s->handshake);
    redis_conn_close(s->listener);
    s->pipeline = s->listener = NULL;
    s->handles = 2;
    uv_close((uv_handle_t *)&s->timer, handle_closed_cb);
    uv_close((uv_handle_t *)&s->later, handle_closed_cb);
}

/* A connection must not be closed from inside its own callback, so the loop closes it. */
static void closed_cb(uv_timer_t *timer)
{
    struct rd_store *s = timer->data;
    settle_calls_end_all(&s->sh.settle_calls);
    take_down(s);
}

static void left_cb(void *ctx, redisReply *r)
{
    struct rd_store *s = ctx;
    if (r)
        freeReplyObject(r);
    uv_timer_start(&s->later, closed_cb, 0, 0);
}

/* Removes the node and the lease of the leader, so that others need not wait for it. */
static void leave(struct rd_store *s)
{
    s->leaving = true;
    shared_bulks_answer(&s->sh);
    if (!s->ready || !redis_conn_open_now(s->pipeline)) {
        uv_timer_start(&s->later, closed_cb, 0, 0);
        return;
    }
    redis_script_call(&s->names, SCRIPT_LEAVE, s->url.prefix, &s->leave_args);
    redis_args_int(&s->leave_args, s->sh.facts.epoch);
    redis_conn_send(s->pipeline, &s->leave_args, left_cb, s);
}

/* Work that becomes due belongs to the leader: another node has nothing left to do. */
static bool work_left(const struct rd_store *s)
{
    if (s->sh.node.seen_at_ms == 0 || s->line_count || s->sh.first || s->sh.bulks)
        return true;
    return shared_tick_due(&s->sh) || rd_dependencies_due(s);
}

static void answer_settle_calls(struct rd_store *s)
{
    if (!s->sh.settle_calls.first || !s->ready || work_left(s))
        return;
    for (struct settle_call *one = s->sh.settle_calls.first; one; one = one->next)
        one->worked = true;
    settle_calls_end(&s->sh.settle_calls, 0);
}

void rd_pipeline_after(struct rd_store *s)
{
    if (s->leaving)
        return;
    shared_watches_due(&s->sh);
    answer_settle_calls(s);
    if (s->sh.closing && s->line_count == 0 && !s->sh.first) {
        leave(s);
        return;
    }
    rd_pipeline_wake(s);
    if (s->line_count == 0)
        rd_timer_set(s);
}

static void rd_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct rd_store *s = rd_of(b);
    s->sh.closing = true;
    s->closed = fn;
    s->closed_ctx = ctx;
    s->sh.news = NULL;
    rd_pipeline_later(s);
}

static const struct backend_ops rd_ops = {
    .kind = "redis",
    .submit = rd_submit,
    .watch = shared_watch,
    .unwatch = shared_unwatch,
    .caps = rd_caps,
    .leads = rd_leads,
    .figures = rd_figures,
    .cluster = rd_cluster,
    .clock_offset = shared_clock_offset,
    .events = shared_events,
    .events_last = shared_events_last,
    .on_news = shared_on_news,
    .settle = rd_settle,
    .close = rd_close,
};

/* --- opening: on a separate loop, before the main one runs --- */

struct opening {
    uv_loop_t loop;
    struct handshake *handshake;
    struct err_note *note;
    int err;
    bool over;
};

static void handshake_cb(void *ctx, int err, const struct err_note *note)
{
    struct opening *o = ctx;
    o->err = err;
    o->over = true;
    if (err && o->note)
        *o->note = *note;
    uv_stop(&o->loop);
}

static void opened_cb(void *ctx)
{
    struct opening *o = ctx;
    redis_handshake(o->handshake, handshake_cb, o);
}

/* A handshake that was in progress has already reported the error. */
static void lost_cb(void *ctx, const char *why)
{
    struct opening *o = ctx;
    if (!o->over)
        o->err = err_note_set(o->note, -ERR_IO, "Redis cannot be used: %.300s", why);
    o->over = true;
    uv_stop(&o->loop);
}

static int open_once(struct rd_store *s, struct err_note *note)
{
    struct opening o = {.handshake = &s->handshake, .note = note};
    struct rconn_config config = {.loop = &o.loop,
                                  .url = &s->url,
                                  .tls = s->tls,
                                  .answer_ms = (uint32_t)s->sh.config.answer_ms,
                                  .opened = opened_cb,
                                  .lost = lost_cb,
                                  .ctx = &o};
    if (uv_loop_init(&o.loop) != 0)
        return -ERR_NOMEM;
    int err = redis_conn_new(&config, &s->handshake.conn);
    if (!err) {
        redis_conn_open(s->handshake.conn);
        while (!o.over && uv_run(&o.loop, UV_RUN_ONCE))
            ;
        err = o.err;
        redis_conn_close(s->handshake.conn);
    }
    uv_run(&o.loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&o.loop) == 0);
    return err;
}

static void prepare_handshake(struct rd_store *s)
{
    s->handshake.url = &s->url;
    s->handshake.names = &s->names;
    s->handshake.facts = &s->sh.facts;
}

static int open_first(struct rd_store *s, struct err_note *note)
{
    uint64_t until = clock_ns() + LOADING_WAIT_MS * UINT64_C(1000000);
    int err;
    prepare_handshake(s);
    s->handshake.boot = true;
    while ((err = open_once(s, note)) != 0 && s->handshake.loading && clock_ns() < until)
        uv_sleep(50);
    s->server = s->handshake.found;
    s->stores = s->handshake.found.stores;
    s->handshake.boot = false;
    return err;
}

static int open_connections(struct rd_store *s)
{
    struct rconn_config pipeline = {.loop = s->sh.config.loop,
                                    .url = &s->url,
                                    .tls = s->tls,
                                    .answer_ms = (uint32_t)s->sh.config.answer_ms,
                                    .opened = rd_pipeline_opened_cb,
                                    .lost = rd_pipeline_lost_cb,
                                    .ctx = s};
    struct rconn_config listener = pipeline;
    listener.opened = rd_notify_opened_cb;
    listener.lost = rd_notify_lost_cb;
    listener.message = rd_notify_received_cb;
    int err = redis_conn_new(&pipeline, &s->pipeline);
    if (!err)
        err = redis_conn_new(&listener, &s->listener);
    if (err)
        return err;
    redis_conn_open(s->pipeline);
    redis_conn_open(s->listener);
    return 0;
}

static void tell_open(const struct rd_store *s)
{
    const struct redis_server *f = &s->server;
    log_event(s->sh.config.log, f->durable ? LOG_INFO : LOG_WARN, "redis_open",
              LOG_TEXT("version", f->version), LOG_TEXT("appendonly", f->appendonly),
              LOG_TEXT("appendfsync", f->appendfsync), LOG_BOOL("durable", f->durable),
              LOG_TEXT("note", f->durable
                                   ? "what a reply confirms is on the server's disk"
                                   : "a crash of the server may lose what a reply confirmed"));
}

static int read_url(const char *rest, bool tls, const struct backend_config *config,
                    struct rd_store *s, struct err_note *note)
{
    redis_args_init(&s->leave_args);
    s->sh.config = *config; /* the first connection needs it */
    int err = redis_url_parse(rest, tls, &s->url, note);
    return err || !tls ? err : redis_tls_context_new(&s->url, &s->tls, note);
}

static int open_store(const char *rest, bool tls, const struct backend_config *config,
                      struct rd_store *s, struct err_note *note)
{
    int err = read_url(rest, tls, config, s, note);
    if (!err)
        err = open_first(s, note);
    if (!err)
        err = shared_init(&s->sh, &rd_ops, config);
    if (err)
        return err;
    struct now now = clock_now(&config->clock);
    s->sh.node.offset_ms = now.wall.ms - now.mono.ms; /* until the server has sent its own time */
    bool local = s->url.socket[0] || shared_host_local(s->url.host);
    shared_link_heard(&s->sh, tls ? LINK_TLS : local ? LINK_LOCAL : LINK_PLAIN, "");
    shared_store_opened(&s->sh);
    return 0;
}

static int open_any(const char *rest, bool tls, const struct backend_config *config,
                    struct backend **ret, struct err_note *note)
{
    struct rd_store *s = mem_zalloc(sizeof *s);
    if (!s)
        return -ERR_NOMEM;
    int err = open_store(rest, tls, config, s, note);
    if (err) {
        store_free(s);
        return err;
    }
    s->timer.data = s->later.data = s;
    CHECK(uv_timer_init(config->loop, &s->timer) == 0);
    CHECK(uv_timer_init(config->loop, &s->later) == 0);
    err = open_connections(s);
    if (err) { /* the loop already owns its handles */
        take_down(s);
        return err;
    }
    tell_open(s);
    rd_timer_set(s);
    *ret = &s->sh.base;
    return 0;
}

int backend_open_redis(const char *rest, const struct backend_config *config, struct backend **ret,
                       struct err_note *note)
{
    return open_any(rest, false, config, ret, note);
}

int backend_open_rediss(const char *rest, const struct backend_config *config, struct backend **ret,
                        struct err_note *note)
{
    return open_any(rest, true, config, ret, note);
}

static int check_any(const char *rest, bool tls, const struct backend_config *config,
                     struct err_note *note)
{
    struct rd_store *s = mem_zalloc(sizeof *s);
    if (!s)
        return -ERR_NOMEM;
    int err = read_url(rest, tls, config, s, note);
    prepare_handshake(s);
    if (!err)
        err = open_once(s, note);
    store_free(s);
    return err;
}

int backend_check_redis(const char *rest, const struct backend_config *config,
                        struct err_note *note)
{
    return check_any(rest, false, config, note);
}

int backend_check_rediss(const char *rest, const struct backend_config *config,
                         struct err_note *note)
{
    return check_any(rest, true, config, note);
}
