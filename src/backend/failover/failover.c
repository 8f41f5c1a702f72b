/* SPDX-License-Identifier: Apache-2.0 */
/* Failover as a backend: watches, events and figures of both stores, opening and closing. See
 * impl.h. */
#include "backend/failover/failover.h"

#include "backend/failover/impl.h"
#include "base/check.h"
#include "base/mem.h"

#define EPOCH_SHIFT 40

static int fo_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                     void *ctx);

static struct failover *failover_of(const struct backend *b)
{
    CHECK(b->ops->submit == fo_submit);
    return (struct failover *)b;
}

static int fo_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                     void *ctx)
{
    return fanout_submit(&failover_of(b)->fanout, ops, count, fn, ctx);
}

/* --- iterations --- */

static void signal_watches(struct failover *f)
{
    f->signal_all = false;
    for (struct fo_watch *w = f->watches, *next; w; w = next) {
        next = w->next;
        w->fn(w->ctx);
    }
}

void fo_iteration(struct fanout *fanout)
{
    struct failover *f = fanout->ctx;
    if (f->signal_all && !fanout->closing)
        signal_watches(f);
    fo_close_further(f);
}

/* --- watching --- */

static void signal_cb(void *ctx)
{
    struct fo_watch *w = ctx;
    w->fn(w->ctx);
}

/* Without this watch no claim is lost: a change of mode signals all watches, and so does the spool.
 */
static void watch_primary(struct fo_watch *w)
{
    if (backend_watch(w->f->primary, span_of(w->queue, w->queue_len), signal_cb, w, &w->primary) !=
        0)
        w->primary = NULL;
}

static int watch_both(struct fo_watch *w, struct span queue)
{
    struct failover *f = w->f;
    w->queue = mem_text(queue.at, queue.len);
    w->queue_len = queue.len;
    int err = w->queue ? backend_watch(f->spool, queue, signal_cb, w, &w->spool) : -ERR_NOMEM;
    if (!err && f->primary)
        err = backend_watch(f->primary, queue, signal_cb, w, &w->primary);
    return err;
}

static void watch_drop(struct fo_watch *w)
{
    if (w->spool && w->f->spool)
        backend_unwatch(w->f->spool, w->spool);
    if (w->primary && w->f->primary)
        backend_unwatch(w->f->primary, w->primary);
    mem_free(w->queue);
    mem_free(w);
}

static int fo_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                    struct backend_watch **ret)
{
    struct failover *f = failover_of(b);
    struct fo_watch *w = f->fanout.closing ? NULL : mem_zalloc(sizeof *w);
    if (!w)
        return f->fanout.closing ? -ERR_CLOSED : -ERR_NOMEM;
    *w = (struct fo_watch){.f = f, .fn = fn, .ctx = ctx, .next = f->watches};
    int err = watch_both(w, queue);
    if (err) {
        watch_drop(w);
        return err;
    }
    if (w->next)
        w->next->prev = w;
    f->watches = w;
    *ret = (struct backend_watch *)w;
    return 0;
}

static void fo_unwatch(struct backend *b, struct backend_watch *handle)
{
    struct failover *f = failover_of(b);
    struct fo_watch *w = (struct fo_watch *)handle;
    *(w->prev ? &w->prev->next : &f->watches) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    watch_drop(w);
}

/* --- events --- */

static uint64_t event_seq(const void *ctx, unsigned source, uint64_t seq)
{
    return source == SOURCE_SPOOL ? fo_seq_out(ctx, seq) : seq;
}

static size_t fo_events(const struct backend *b, uint64_t after, uint64_t kinds,
                        struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    return event_merge_read(&failover_of(b)->events, after, kinds, out, max, ret_oldest);
}

static uint64_t fo_events_last(const struct backend *b)
{
    return event_merge_last(&failover_of(b)->events);
}

static void news_cb(void *ctx)
{
    struct failover *f = ctx;
    event_merge_pull(&f->events);
    if (f->news)
        f->news(f->news_ctx);
}

static void fo_on_news(struct backend *b, backend_news_fn fn, void *ctx)
{
    struct failover *f = failover_of(b);
    f->news = fn;
    f->news_ctx = ctx;
    if (f->spool)
        backend_on_news(f->spool, fn ? news_cb : NULL, f);
    if (f->primary)
        backend_on_news(f->primary, fn ? news_cb : NULL, f);
}

void fo_primary_opened(struct failover *f)
{
    event_merge_source(&f->events, SOURCE_PRIMARY, f->primary);
    if (f->news)
        backend_on_news(f->primary, news_cb, f);
    for (struct fo_watch *w = f->watches; w; w = w->next)
        watch_primary(w);
}

/* --- both stores --- */

/* Where the two differ, the primary decides; a claim during an outage sees this node's jobs only.
 */
static unsigned fo_caps(const struct backend *b)
{
    const struct failover *f = failover_of(b);
    unsigned caps = f->spool ? backend_caps(f->spool) & CAP_DURABLE_REPLY : 0;
    unsigned theirs = f->primary ? backend_caps(f->primary) : ~0u;
    return (caps & theirs) | (theirs & (CAP_SHARED | CAP_UNIQUE_GLOBAL));
}

static void fo_figures(const struct backend *b, struct backend_figures *ret)
{
    const struct failover *f = failover_of(b);
    struct backend_figures spool;
    if (f->primary)
        backend_figures(f->primary, ret);
    if (f->spool) {
        backend_figures(f->spool, &spool);
        uint64_t capacity = f->primary ? ret->capacity : spool.capacity;
        uint64_t queues = ret->queues > spool.queues ? ret->queues : spool.queues;
        figures_add(ret, &spool);
        ret->capacity = capacity;
        ret->queues = queues; /* the spool has copies of those of the primary */
        ret->epoch = spool.epoch;
    }
    ret->has_spool = true;
    ret->primary_up = f->up;
    ret->spool_jobs = fo_spool_jobs(f);
}

/* What one of several nodes has to do concerns the primary. */
static bool fo_leads(const struct backend *b)
{
    const struct failover *f = failover_of(b);
    return f->primary && backend_leads(f->primary);
}

/* That of the primary, except `up`: this node works in any case, and requests should be sent to it.
 * A primary that knows that it is unavailable also knows the reason; one that is too slow, or was
 * never reached, does not. */
static void fo_cluster(const struct backend *b, struct backend_cluster *ret)
{
    const struct failover *f = failover_of(b);
    if (f->primary)
        backend_cluster(f->primary, ret);
    bool knows = !ret->up && ret->trouble[0];
    ret->up = true;
    ret->spooling = !f->up;
    ret->since = f->since;
    if (!knows && f->why[0])
        snprintf(ret->trouble, sizeof ret->trouble, "%s", f->why);
}

static int64_t fo_clock_offset(const struct backend *b)
{
    const struct failover *f = failover_of(b);
    return f->primary && f->up ? backend_clock_offset(f->primary) : 0;
}

/* A primary that is unavailable cannot tell when it has settled. */
static int fo_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct failover *f = failover_of(b);
    return fanout_settle(&f->fanout, 1u << SOURCE_SPOOL | (unsigned)f->up << SOURCE_PRIMARY, fn,
                         ctx);
}

/* --- closing --- */

static void failover_free(struct failover *f)
{
    while (f->watches) {
        struct fo_watch *w = f->watches;
        f->watches = w->next;
        mem_free(w->queue);
        mem_free(w);
    }
    fo_drain_done(f);
    fo_mirror_done(f);
    fo_rules_done(f);
    event_merge_done(&f->events);
    if (f->setup.done)
        f->setup.done(f->setup.ctx);
    mem_free(f);
}

static void handle_closed_cb(uv_handle_t *handle)
{
    struct failover *f = handle->data;
    backend_closed_fn fn = f->closed_fn;
    void *ctx = f->closed_ctx;
    if (--f->handles > 0)
        return;
    failover_free(f);
    fn(ctx);
}

void fo_close_further(struct failover *f)
{
    if (f->finished || f->reaching || !fanout_is_done(&f->fanout))
        return;
    f->finished = true;
    f->handles = 2;
    f->fanout.idle.data = f;
    uv_close((uv_handle_t *)&f->fanout.idle, handle_closed_cb);
    uv_close((uv_handle_t *)&f->timer, handle_closed_cb);
}

static void primary_closed_cb(void *ctx)
{
    struct failover *f = ctx;
    f->primary = NULL;
    f->fanout.open--;
    fo_close_further(f);
}

static void spool_closed_cb(void *ctx)
{
    struct failover *f = ctx;
    f->spool = NULL;
    f->fanout.open--;
    fo_close_further(f);
}

static void fo_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct failover *f = failover_of(b);
    CHECK(!f->fanout.closing);
    f->fanout.closing = true;
    f->closed_fn = fn;
    f->closed_ctx = ctx;
    uv_timer_stop(&f->timer);
    event_merge_source(&f->events, SOURCE_SPOOL, NULL);
    backend_close(f->spool, spool_closed_cb, f);
    if (!f->primary)
        return;
    event_merge_source(&f->events, SOURCE_PRIMARY, NULL);
    backend_close(f->primary, primary_closed_cb, f);
}

/* --- opening --- */

static void fill_ops(struct failover *f)
{
    snprintf(f->kind, sizeof f->kind, "failover+%s", f->setup.kind);
    f->ops = (struct backend_ops){.kind = f->kind,
                                  .submit = fo_submit,
                                  .watch = fo_watch,
                                  .unwatch = fo_unwatch,
                                  .caps = fo_caps,
                                  .leads = fo_leads,
                                  .own_outbox = true,
                                  .figures = fo_figures,
                                  .cluster = fo_cluster,
                                  .clock_offset = fo_clock_offset,
                                  .events = fo_events,
                                  .events_last = fo_events_last,
                                  .on_news = fo_on_news,
                                  .settle = fo_settle,
                                  .close = fo_close};
    f->base.ops = &f->ops;
}

static int open_both(struct failover *f, struct backend *spool, struct err_note *note)
{
    uint64_t last = backend_events_last(spool);
    int err =
        event_merge_init(&f->events, SOURCE_COUNT, (uint32_t)(last >> EPOCH_SHIFT), event_seq, f);
    if (!err && f->setup.reachable(f->setup.ctx))
        err = f->setup.open(f->setup.ctx, &f->primary, note);
    /* The operator can change the settings while this node works on the spool; the log names them.
     */
    return err == -ERR_UNSAFE ? fo_not_usable(f, note) : err;
}

/* At least half of the range is left for counting. */
static uint64_t first_of(const struct backend *spool)
{
    struct backend_figures figures;
    backend_figures(spool, &figures);
    return figures.mark & (ID_SPOOL_COUNT_MAX >> 1);
}

int backend_open_failover(struct backend *spool, const struct failover_setup *setup,
                          const struct backend_config *config, struct backend **ret,
                          struct err_note *note)
{
    struct failover *f = mem_zalloc(sizeof *f);
    int err = -ERR_NOMEM;
    if (f) {
        f->setup = *setup;
        fo_mirror_init(f);
        f->config = *config;
        err = open_both(f, spool, note);
    }
    if (err) {
        backend_close(spool, fanout_ignore_closed_cb, NULL);
        if (f)
            failover_free(f);
        else if (setup->done)
            setup->done(setup->ctx);
        return err;
    }
    fill_ops(f);
    f->spool = spool;
    f->first = first_of(spool);
    f->fanout.open = f->primary ? 2 : 1;
    fanout_init(&f->fanout, &fo_calls, f, SOURCE_COUNT, config->loop);
    uv_timer_init(config->loop, &f->timer);
    f->timer.data = f;
    event_merge_source(&f->events, SOURCE_SPOOL, spool);
    if (f->primary)
        fo_primary_opened(f);
    fo_mirror_start(f);
    fo_rules_start(f);
    fo_health_start(f);
    *ret = &f->base;
    return 0;
}

/* --- by address --- */

struct place {
    char *url, *alert_url;
    struct backend_config config;
    uint32_t health_ms;
    char kind[24];
};

static int place_open(void *ctx, struct backend **ret, struct err_note *note)
{
    const struct place *p = ctx;
    return backend_open(p->url, &p->config, ret, note);
}

static bool place_reachable(void *ctx)
{
    const struct place *p = ctx;
    return reach_url(p->url, p->health_ms);
}

static int place_check(void *ctx, struct err_note *note)
{
    const struct place *p = ctx;
    return backend_check(p->url, &p->config, note);
}

static void place_done(void *ctx)
{
    struct place *p = ctx;
    mem_free(p->url);
    mem_free(p->alert_url);
    mem_free(p);
}

int backend_open_failover_urls(const char *primary, const char *spool, uint32_t health_ms,
                               const char *alert_url, const struct backend_config *config,
                               struct backend **ret, struct err_note *note)
{
    struct place *p = mem_zalloc(sizeof *p);
    char *url = mem_text(primary, strlen(primary));
    char *alert = mem_text(alert_url, strlen(alert_url));
    struct backend *store = NULL;
    int err = p && url && alert ? backend_open(spool, config, &store, note) : -ERR_NOMEM;
    if (err) {
        mem_free(p);
        mem_free(url);
        mem_free(alert);
        return err;
    }
    *p = (struct place){.url = url, .alert_url = alert, .config = *config, .health_ms = health_ms};
    /* A request to a server that hangs must not wait longer than it takes to notice that. On
     * PostgreSQL a query may be slow although the server works. */
    bool redis = strncmp(url, "redis", strlen("redis")) == 0;
    if (redis && (config->answer_ms == 0 || config->answer_ms > health_ms))
        p->config.answer_ms = health_ms;
    snprintf(p->kind, sizeof p->kind, "%.*s", (int)strcspn(url, ":"), url);
    struct failover_setup setup = {.kind = p->kind,
                                   .open = place_open,
                                   .reachable = place_reachable,
                                   .check = place_check,
                                   .done = place_done,
                                   .ctx = p,
                                   .health_ms = health_ms,
                                   .alert_url = alert};
    return backend_open_failover(store, &setup, config, ret, note);
}
