/* SPDX-License-Identifier: Apache-2.0 */
/* The tracing wrapper: prints each operation and each reply of a backend on one line.
 *
 *   1000 > claim tag=7 queue=mail count=2 nonce=91
 *   1004 < claim tag=7 ok jobs=2 first=15 token=1-3
 *
 * The first number is the monotonic time; ">" is an op, "<" its reply, "!" a submit that was
 * refused. Payloads, results, errors, keys, labels and notes are never written, only the length of
 * a payload. Queue names are escaped and truncated, so no name can forge a line. A line that does
 * not fit is truncated. Tracing never changes a reply. */
#include "wrappers/trace.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/mem.h"
#include "wrappers/trace_line.h"

struct trace {
    struct backend base;
    struct backend_ops ops; /* an own copy: the kind names the inner backend */
    char kind[64];
    struct backend *inner;
    struct clock clock;
    FILE *out;
    backend_closed_fn closed_fn;
    void *closed_ctx;
};

/* A submit with replies that have not arrived. */
struct trace_batch {
    struct trace *trace;
    size_t left;
    backend_reply_fn fn;
    void *ctx;
};

static int trace_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                        void *ctx);

static struct trace *trace_of(const struct backend *b)
{
    CHECK(b->ops->submit == trace_submit);
    return (struct trace *)b;
}

/* --- lines --- */

static void line_start(struct line *l, struct trace *t, char mark)
{
    l->len = 0;
    line_put(l, "%" PRId64 " %c", clock_now(&t->clock).mono.ms, mark);
}

static void line_end(struct line *l, struct trace *t)
{
    l->text[l->len++] = '\n';
    fwrite(l->text, 1, l->len, t->out);
}

static void trace_op(struct trace *t, const struct op *op)
{
    struct line line;
    line_start(&line, t, '>');
    line_put_op(&line, op);
    line_end(&line, t);
}

static void trace_reply_cb(void *ctx, const struct reply *reply)
{
    struct trace_batch *batch = ctx;
    struct trace *t = batch->trace;
    struct line line;
    line_start(&line, t, '<');
    CHECK(batch->left > 0);
    line_put_reply(&line, reply);
    line_end(&line, t);

    backend_reply_fn fn = batch->fn;
    void *fn_ctx = batch->ctx;
    if (--batch->left == 0)
        mem_free(batch);
    fn(fn_ctx, reply);
}

/* --- the operations of a backend --- */

static int trace_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                        void *ctx)
{
    struct trace *t = trace_of(b);
    struct trace_batch *batch = mem_alloc(sizeof *batch);
    if (!batch)
        return -ERR_NOMEM;
    *batch = (struct trace_batch){t, count, fn, ctx};
    for (size_t i = 0; i < count; i++)
        trace_op(t, &ops[i]);
    int rc = backend_submit(t->inner, ops, count, trace_reply_cb, batch);
    if (rc < 0) {
        mem_free(batch);
        struct line line;
        line_start(&line, t, '!');
        line_put(&line, " submit of %zu: %s", count, err_text(rc));
        line_end(&line, t);
    }
    return rc;
}

static int trace_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                       struct backend_watch **ret)
{
    return backend_watch(trace_of(b)->inner, queue, fn, ctx, ret);
}

static void trace_unwatch(struct backend *b, struct backend_watch *w)
{
    backend_unwatch(trace_of(b)->inner, w);
}

static bool trace_leads(const struct backend *b)
{
    return backend_leads(trace_of(b)->inner);
}

static unsigned trace_caps(const struct backend *b)
{
    return backend_caps(trace_of(b)->inner);
}

static void trace_figures(const struct backend *b, struct backend_figures *ret)
{
    backend_figures(trace_of(b)->inner, ret);
}

static void trace_cluster(const struct backend *b, struct backend_cluster *ret)
{
    backend_cluster(trace_of(b)->inner, ret);
}

static int64_t trace_clock_offset(const struct backend *b)
{
    return backend_clock_offset(trace_of(b)->inner);
}

static size_t trace_events(const struct backend *b, uint64_t after, uint64_t kinds,
                           struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    return backend_events(trace_of(b)->inner, after, kinds, out, max, ret_oldest);
}

static uint64_t trace_events_last(const struct backend *b)
{
    return backend_events_last(trace_of(b)->inner);
}

static void trace_on_news(struct backend *b, backend_news_fn fn, void *ctx)
{
    backend_on_news(trace_of(b)->inner, fn, ctx);
}

static int trace_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    return backend_settle(trace_of(b)->inner, fn, ctx);
}

static int trace_backup(struct backend *b, const struct backup_request *request,
                        struct err_note *note)
{
    return backend_backup(trace_of(b)->inner, request, note);
}

static void trace_backup_cancel(struct backend *b)
{
    backend_backup_cancel(trace_of(b)->inner);
}

static int trace_compact(struct backend *b, const struct compact_request *request,
                         struct err_note *note)
{
    return backend_compact(trace_of(b)->inner, request, note);
}

static void trace_compact_cancel(struct backend *b)
{
    backend_compact_cancel(trace_of(b)->inner);
}

static void trace_closed_cb(void *ctx)
{
    struct trace *t = ctx;
    backend_closed_fn fn = t->closed_fn;
    void *fn_ctx = t->closed_ctx;
    fflush(t->out);
    mem_free(t);
    fn(fn_ctx);
}

static void trace_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct trace *t = trace_of(b);
    t->closed_fn = fn;
    t->closed_ctx = ctx;
    backend_close(t->inner, trace_closed_cb, t);
}

static void closed_early_cb(void *ctx)
{
    (void)ctx;
}

int backend_open_trace(struct backend *inner, const struct backend_config *config, FILE *out,
                       struct backend **ret)
{
    struct trace *t = mem_zalloc(sizeof *t);
    if (!t) {
        backend_close(inner, closed_early_cb, NULL);
        return -ERR_NOMEM;
    }
    snprintf(t->kind, sizeof t->kind, "trace+%s", backend_kind(inner));
    t->ops = (struct backend_ops){.kind = t->kind,
                                  .submit = trace_submit,
                                  .watch = trace_watch,
                                  .unwatch = trace_unwatch,
                                  .caps = trace_caps,
                                  .leads = trace_leads,
                                  .figures = trace_figures,
                                  .cluster = trace_cluster,
                                  .clock_offset = trace_clock_offset,
                                  .events = trace_events,
                                  .events_last = trace_events_last,
                                  .on_news = trace_on_news,
                                  .settle = trace_settle,
                                  .backup = trace_backup,
                                  .backup_cancel = trace_backup_cancel,
                                  .compact = trace_compact,
                                  .compact_cancel = trace_compact_cancel,
                                  .close = trace_close};
    t->base.ops = &t->ops;
    t->inner = inner;
    t->clock = config->clock;
    t->out = out;
    *ret = &t->base;
    return 0;
}
