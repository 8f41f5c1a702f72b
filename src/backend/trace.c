/* SPDX-License-Identifier: Apache-2.0 */
/* The tracing wrapper: what is asked of a backend and what it answers, one line each.
 *
 *   1000 > claim tag=7 queue=mail count=2 nonce=91
 *   1004 < claim tag=7 ok jobs=2 first=15 token=1-3
 *
 * The number in front is monotonic time, ">" an op, "<" its reply, "!" a submit that was refused
 * whole. Payloads, results, errors, keys, labels and notes are never written, only how long a
 * payload was. Queue names are escaped and cut, so no name can forge a line. A line that does not
 * fit is cut; nothing else can go wrong with it: tracing never changes an answer. */
#include <inttypes.h>
#include <stdarg.h>

#include "backend/backend_impl.h"
#include "base/check.h"
#include "base/mem.h"

#define TRACE_LINE_BYTES 1024
#define TRACE_NAME_BYTES 64 /* of a queue's name */
#define TRACE_NAMES 4       /* of a claim over several queues */

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

/* A submit whose replies are not all in. */
struct trace_batch {
    struct trace *trace;
    size_t left;
    backend_reply_fn fn;
    void *ctx;
};

struct line {
    char text[TRACE_LINE_BYTES];
    size_t len;
};

static const char *const op_names[OP_KIND_COUNT] = {
    [OP_ENQUEUE] = "enqueue",
    [OP_CLAIM] = "claim",
    [OP_ACK] = "ack",
    [OP_FAIL] = "fail",
    [OP_EXTEND] = "extend",
    [OP_RELEASE] = "release",
    [OP_RELEASE_CLAIM] = "release_claim",
    [OP_CANCEL] = "cancel",
    [OP_REQUEUE] = "requeue",
    [OP_PATCH] = "patch",
    [OP_REMOVE] = "remove",
    [OP_QUEUE_PUT] = "queue_put",
    [OP_QUEUE_DELETE] = "queue_delete",
    [OP_QUEUE_GET] = "queue_get",
    [OP_QUEUE_LIST] = "queue_list",
    [OP_PAUSE] = "pause",
    [OP_PURGE] = "purge",
    [OP_BULK] = "bulk",
    [OP_GET] = "get",
    [OP_PEEK] = "peek",
    [OP_LIST] = "list",
    [OP_WORKERS] = "workers",
    [OP_ACCEPT_CLOCK] = "accept_clock",
    [OP_EXCEPTIONS] = "exceptions",
    [OP_KV_COMMIT] = "kv_commit",
    [OP_KV_GET] = "kv_get",
    [OP_KV_LIST] = "kv_list",
    [OP_ALERT_PUT] = "alert_put",
    [OP_ALERT_DELETE] = "alert_delete",
    [OP_ALERT_LIST] = "alert_list",
    [OP_ALERT_EDGE] = "alert_edge",
    [OP_NOTICE_TAKE] = "notice_take",
    [OP_NOTICE_END] = "notice_end",
    [OP_NOTICE_LIST] = "notice_list",
    [OP_NOTICE_AGAIN] = "notice_again",
    [OP_NOTICE_DISCARD] = "notice_discard",
    [OP_BREAKER_LIST] = "breaker_list",
    [OP_NOTE] = "note",
    [OP_PAGE] = "page",
    [OP_HISTORY] = "history",
    [OP_SCHEDULE_PUT] = "schedule_put",
    [OP_SCHEDULE_DELETE] = "schedule_delete",
    [OP_SCHEDULE_GET] = "schedule_get",
    [OP_SCHEDULE_LIST] = "schedule_list",
    [OP_SCHEDULE_PAUSE] = "schedule_pause",
    [OP_FIRE] = "fire",
    [OP_TRIGGER] = "trigger",
    [OP_TICK] = "tick",
};

static int trace_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                        void *ctx);

static struct trace *trace_of(const struct backend *b)
{
    CHECK(b->ops->submit == trace_submit);
    return (struct trace *)b;
}

/* --- lines --- */

__attribute__((format(printf, 2, 3))) static void put(struct line *l, const char *format, ...)
{
    size_t room = sizeof l->text - 1 - l->len; /* one byte is kept for the line break */
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->text + l->len, room, format, args);
    va_end(args);
    if (n > 0)
        l->len += (size_t)n < room ? (size_t)n : room - 1;
}

static void put_name(struct line *l, struct span name)
{
    for (size_t i = 0; i < name.len && i < TRACE_NAME_BYTES; i++) {
        unsigned char c = (unsigned char)name.at[i];
        if (c > ' ' && c < 0x7f && c != '\\' && c != ',')
            put(l, "%c", c);
        else
            put(l, "\\x%02x", c);
    }
    if (name.len > TRACE_NAME_BYTES)
        put(l, "...");
}

static void put_queue(struct line *l, struct span name)
{
    if (name.len == 0)
        return;
    put(l, " queue=");
    put_name(l, name);
}

static void put_alert(struct line *l, struct span name)
{
    if (name.len == 0)
        return;
    put(l, " alert=");
    put_name(l, name);
}

static void put_job(struct line *l, struct job_ref ref)
{
    put(l, " seq=%" PRIu64, ref.seq);
}

static void put_token(struct line *l, struct job_token token)
{
    char text[TOKEN_TEXT_BYTES];
    token_text(token, text);
    put(l, " token=%s", text);
}

static void put_state(struct line *l, enum job_state state)
{
    const char *name = state_name(state);
    put(l, " state=%s", name ? name : "?");
}

static void line_start(struct line *l, struct trace *t, char mark)
{
    l->len = 0;
    put(l, "%" PRId64 " %c", clock_now(&t->clock).mono.ms, mark);
}

static void line_end(struct line *l, struct trace *t)
{
    l->text[l->len++] = '\n';
    fwrite(l->text, 1, l->len, t->out);
}

/* --- an op --- */

static void put_enqueue(struct line *l, const struct op_enqueue *o)
{
    put_queue(l, o->queue);
    put(l, " bytes=%zu", o->payload.len);
    if (o->has_priority)
        put(l, " priority=%" PRId64, o->priority);
    if (o->run_at.ms != 0)
        put(l, " run_at=%" PRId64, o->run_at.ms);
    else if (o->delay_ms != 0)
        put(l, " delay_ms=%" PRId64, o->delay_ms);
    if (o->extra.unique.len > 0)
        put(l, " unique");
    if (o->idempotency_key.len > 0)
        put(l, " keyed");
}

static void put_claim(struct line *l, const struct op_claim *o)
{
    if (o->one.seq != 0)
        put_job(l, o->one);
    for (uint32_t i = 0; o->one.seq == 0 && i < o->queue_count && i < TRACE_NAMES; i++) {
        put(l, i == 0 ? " queue=" : ",");
        put_name(l, o->queues[i]);
    }
    if (o->queue_count > TRACE_NAMES)
        put(l, ",+%u", o->queue_count - TRACE_NAMES);
    put(l, " count=%u", o->count);
    if (o->lease_ms != 0)
        put(l, " lease_ms=%u", o->lease_ms);
    if (o->bound)
        put(l, " bound");
    if (o->nonce != 0)
        put(l, " nonce=%" PRIu64, o->nonce);
}

static void put_lease(struct line *l, const struct op_lease *o)
{
    put_job(l, o->job);
    if (o->any_token)
        put(l, " any_token");
    else
        put_token(l, o->token);
    if (o->run_at.ms != 0)
        put(l, " run_at=%" PRId64, o->run_at.ms);
    else if (o->has_delay)
        put(l, " delay_ms=%" PRId64, o->delay_ms);
    if (o->no_retry)
        put(l, " no_retry");
    if (o->lost)
        put(l, " lost");
}

static void put_patch(struct line *l, const struct op_patch *o)
{
    put_job(l, o->job);
    if (o->has_priority)
        put(l, " priority=%" PRId64, o->priority);
    if (o->has_run_at)
        put(l, " run_at=%" PRId64, o->run_at.ms);
    if (o->has_payload)
        put(l, " bytes=%zu", o->payload.len);
}

static void put_schedule(struct line *l, const struct op_schedule *s)
{
    put(l, " schedule=");
    put_name(l, s->name);
    if (s->at.ms != 0)
        put(l, " at=%" PRId64, s->at.ms);
    if (s->next_at.ms != 0)
        put(l, " next_at=%" PRId64, s->next_at.ms);
}

static void put_op(struct line *l, const struct op *op)
{
    switch (op->kind) {
    case OP_ENQUEUE:
        put_enqueue(l, &op->enqueue);
        break;
    case OP_CLAIM:
        put_claim(l, &op->claim);
        break;
    case OP_ACK:
    case OP_FAIL:
    case OP_EXTEND:
    case OP_RELEASE:
        put_lease(l, &op->lease);
        break;
    case OP_RELEASE_CLAIM:
        put(l, " nonce=%" PRIu64, op->release_claim.nonce);
        break;
    case OP_CANCEL:
    case OP_REQUEUE:
    case OP_REMOVE:
    case OP_GET:
        put_job(l, op->job.job);
        break;
    case OP_PATCH:
        put_patch(l, &op->patch);
        break;
    case OP_QUEUE_PUT:
    case OP_QUEUE_DELETE:
    case OP_QUEUE_GET:
    case OP_PURGE:
        put_queue(l, op->queue.name);
        break;
    case OP_QUEUE_LIST:
        put(l, " limit=%u", op->queue.limit);
        break;
    case OP_PAUSE:
        put_queue(l, op->queue.name);
        put(l, " until=%" PRId64, op->queue.until.ms);
        break;
    case OP_BULK:
        put_queue(l, op->bulk.queue);
        put(l, " action=%u states=0x%x", op->bulk.action, op->bulk.states);
        break;
    case OP_PEEK:
        put_queue(l, op->peek.queue);
        put_state(l, op->peek.state);
        put(l, " limit=%u", op->peek.limit);
        break;
    case OP_LIST:
        put_queue(l, op->list.queue);
        put(l, " after=%" PRIu64 " limit=%u", op->list.after, op->list.limit);
        break;
    case OP_EXCEPTIONS:
        put_queue(l, op->exceptions.queue);
        put(l, " limit=%u", op->exceptions.limit);
        break;
    case OP_KV_COMMIT:
        put(l, " checks=%u sets=%u deletes=%u enqueues=%u", op->kv_commit.check_count,
            op->kv_commit.set_count, op->kv_commit.delete_count, op->kv_commit.enqueue_count);
        break;
    case OP_KV_GET:
        put(l, " keys=%u", op->kv_get.count);
        break;
    case OP_KV_LIST:
        put(l, " limit=%u", op->kv_list.limit);
        break;
    case OP_ALERT_PUT: /* never a url or a secret */
    case OP_ALERT_DELETE:
    case OP_ALERT_LIST:
        put_alert(l, op->alert.name);
        break;
    case OP_ALERT_EDGE:
        put_alert(l, op->alert_edge.alert);
        put_queue(l, op->alert_edge.queue);
        put(l, " %s", op->alert_edge.raised ? "raised" : "cleared");
        break;
    case OP_NOTICE_TAKE:
        put(l, " limit=%u", op->notice_take.limit);
        break;
    case OP_NOTICE_END:
        put(l, " notice=%" PRIu64 " %s status=%u", op->notice_end.number,
            op->notice_end.delivered ? "delivered" : "failed", op->notice_end.status);
        break;
    case OP_NOTICE_LIST:
    case OP_NOTICE_AGAIN:
    case OP_NOTICE_DISCARD:
        put(l, " notice=%" PRIu64, op->notice.id.seq);
        break;
    case OP_NOTE:
        put(l, " seq=%" PRIu64, op->note.job.seq);
        break;
    case OP_PAGE:
        put_queue(l, op->page.queue);
        put(l, " states=0x%x offset=%" PRIu64 " limit=%u", op->page.states, op->page.offset,
            op->page.limit);
        break;
    case OP_HISTORY:
        put_queue(l, op->history.queue);
        put(l, " from=%u to=%u", op->history.from, op->history.to);
        break;
    case OP_BREAKER_LIST:
    case OP_SCHEDULE_PUT:
    case OP_SCHEDULE_DELETE:
    case OP_SCHEDULE_GET:
    case OP_SCHEDULE_PAUSE:
    case OP_FIRE:
    case OP_TRIGGER:
        put_schedule(l, &op->schedule);
        break;
    case OP_SCHEDULE_LIST:
        put(l, " limit=%u", op->schedule.limit);
        break;
    case OP_WORKERS:
    case OP_ACCEPT_CLOCK:
    case OP_TICK:
    case OP_KIND_COUNT:
        break;
    }
}

static void trace_op(struct trace *t, const struct op *op)
{
    struct line line;
    line_start(&line, t, '>');
    CHECK((unsigned)op->kind < OP_KIND_COUNT);
    put(&line, " %s tag=%" PRIu64, op_names[op->kind], op->tag);
    put_op(&line, op);
    line_end(&line, t);
}

/* --- a reply --- */

static void put_number(struct line *l, const char *name, uint64_t value)
{
    if (value != 0)
        put(l, " %s=%" PRIu64, name, value);
}

static void put_reply(struct line *l, const struct reply *r)
{
    put_number(l, "seq", r->seq);
    if (r->state != STATE_NONE)
        put_state(l, r->state);
    if (r->created)
        put(l, " created");
    if (r->repeat)
        put(l, " repeat");
    if (r->relaxed)
        put(l, " relaxed");
    put_number(l, "replaced", r->replaced_seq);
    if (r->run_at.ms != 0)
        put(l, " run_at=%" PRId64, r->run_at.ms);
    put_number(l, "count", r->count);
    put_number(l, "refused", r->refused);
    put_number(l, "jobs", r->job_count);
    if (r->job_count > 0) {
        put_number(l, "first", r->jobs[0].job.seq);
        if (r->kind == OP_CLAIM)
            put_token(l, r->jobs[0].token);
    }
    put_number(l, "queues", r->queue_count);
    put_number(l, "schedules", r->schedule_count);
    put_number(l, "workers", r->worker_count);
    put_number(l, "attempts", r->attempt_count);
    put_number(l, "cursor", r->cursor);
    put_number(l, "version", r->version);
    put_number(l, "keys", r->kv_count);
}

static void trace_reply_cb(void *ctx, const struct reply *reply)
{
    struct trace_batch *batch = ctx;
    struct trace *t = batch->trace;
    struct line line;
    line_start(&line, t, '<');
    CHECK((unsigned)reply->kind < OP_KIND_COUNT && batch->left > 0);
    put(&line, " %s tag=%" PRIu64 " %s", op_names[reply->kind], reply->tag,
        outcome_name(reply->outcome));
    put_reply(&line, reply);
    line_end(&line, t);

    backend_reply_fn fn = batch->fn;
    void *fn_ctx = batch->ctx;
    if (--batch->left == 0)
        mem_free(batch);
    fn(fn_ctx, reply);
}

/* --- the slots --- */

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
        put(&line, " submit of %zu: %s", count, err_text(rc));
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

static unsigned trace_caps(const struct backend *b)
{
    return backend_caps(trace_of(b)->inner);
}

static void trace_figures(const struct backend *b, struct backend_figures *ret)
{
    backend_figures(trace_of(b)->inner, ret);
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

static void forsaken_cb(void *ctx)
{
    (void)ctx;
}

int backend_open_trace(struct backend *inner, const struct backend_config *config, FILE *out,
                       struct backend **ret)
{
    struct trace *t = mem_zalloc(sizeof *t);
    if (!t) {
        backend_close(inner, forsaken_cb, NULL);
        return -ERR_NOMEM;
    }
    snprintf(t->kind, sizeof t->kind, "trace+%s", backend_kind(inner));
    t->ops = (struct backend_ops){.kind = t->kind,
                                  .submit = trace_submit,
                                  .watch = trace_watch,
                                  .unwatch = trace_unwatch,
                                  .caps = trace_caps,
                                  .figures = trace_figures,
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
