/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/fake_backend.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/jobs/job_texts.h"

static struct fake_backend *fake_of(const struct backend *b)
{
    return (struct fake_backend *)b;
}

/* malloc, not base/mem.h: the allocations that a test makes fail must be those of the wrapper.
 * Every text in a reply is this one, in memory that is freed after the callback. */
static const char text[] = "a text of the fake backend";

static void fill_job(struct fake_backend *f, struct job_view *v, const char *bytes)
{
    struct span s = span_text(bytes);
    v->job.seq = 100 + f->tokens;
    v->token = (struct job_token){f->tokens, 1};
    v->queue = v->worker = v->payload = v->result = v->error = s;
    v->has_body = true;
    for (size_t i = 0; i < JOB_TEXTS; i++)
        *job_text_at(&v->extra, i) = s;
    v->extra.options = v->extra.undelivered = s;
}

void fake_answer(struct fake_backend *f, size_t index)
{
    struct fake_pending *p = &f->pending[index];
    CHECK(index < f->count && !p->answered);
    p->answered = true;
    char *bytes = malloc(sizeof text);
    struct job_view *job = calloc(1, sizeof *job);
    struct queue_view *queue = calloc(1, sizeof *queue);
    struct queue_policy *policy = calloc(1, sizeof *policy);
    CHECK(bytes && job && queue && policy);
    memcpy(bytes, text, sizeof text);
    struct reply r = {.kind = p->op->kind, .tag = p->op->tag, .outcome = f->outcome};
    if (r.kind == OP_CLAIM && !f->empty) {
        f->tokens++;
        fill_job(f, job, bytes);
        r.jobs = job;
        r.job_count = 1;
    } else if (r.kind == OP_QUEUE_GET) {
        policy->lease_ms = 4242;
        queue->name = queue->owner = queue->note = queue->attributes = span_text(bytes);
        queue->policy = policy;
        r.queues = queue;
        r.queue_count = 1;
        r.note = bytes;
    }
    p->fn(p->ctx, &r);
    memset(bytes, 'x', sizeof text);
    memset(job, 'x', sizeof *job);
    free(bytes);
    free(job);
    free(queue);
    free(policy);
}

static void answer_all(struct fake_backend *f)
{
    size_t count = f->count;
    for (size_t i = 0; i < count; i++) {
        size_t index = f->backwards ? count - 1 - i : i;
        if (!f->pending[index].answered)
            fake_answer(f, index);
    }
}

static void idle_closed_cb(uv_handle_t *handle)
{
    struct fake_backend *f = handle->data;
    backend_closed_fn fn = f->closed_fn;
    void *ctx = f->closed_ctx;
    if (f->gone)
        *f->gone = true;
    free(f);
    fn(ctx);
}

static void idle_cb(uv_idle_t *idle)
{
    struct fake_backend *f = idle->data;
    uv_idle_stop(idle); /* a submit from inside a reply starts it again */
    if (!f->manual || f->closed_fn)
        answer_all(f);
    if (f->closed_fn)
        fake_settled(f);
    if (f->closed_fn)
        uv_close((uv_handle_t *)idle, idle_closed_cb);
}

static int fake_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                       void *ctx)
{
    struct fake_backend *f = fake_of(b);
    if (f->submit_rc < 0)
        return f->submit_rc;
    if (f->closed_fn)
        return -ERR_CLOSED;
    CHECK(f->count + count <= FAKE_OPS_MAX);
    for (size_t i = 0; i < count; i++) {
        f->seen[f->count] = ops[i];
        f->pending[f->count++] = (struct fake_pending){&ops[i], fn, ctx, false};
    }
    uv_idle_start(&f->idle, idle_cb);
    return 0;
}

static int fake_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                      struct backend_watch **ret)
{
    struct fake_backend *f = fake_of(b);
    (void)queue;
    f->watching = true;
    f->signal_fn = fn;
    f->signal_ctx = ctx;
    *ret = (struct backend_watch *)&f->watching;
    return 0;
}

static void fake_unwatch(struct backend *b, struct backend_watch *w)
{
    struct fake_backend *f = fake_of(b);
    CHECK(w == (struct backend_watch *)&f->watching);
    f->watching = false;
}

static unsigned fake_caps(const struct backend *b)
{
    (void)b;
    return CAP_STRICT_ORDER | CAP_SHARED;
}

static void fake_figures(const struct backend *b, struct backend_figures *ret)
{
    ret->jobs = fake_of(b)->count;
}

static void fake_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct fake_backend *f = fake_of(b);
    f->closed_fn = fn;
    f->closed_ctx = ctx;
    uv_idle_start(&f->idle, idle_cb);
}

static size_t fake_events(const struct backend *b, uint64_t after, uint64_t kinds,
                          struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    const struct fake_backend *f = fake_of(b);
    size_t n = 0;
    *ret_oldest = f->events_oldest ? f->events_oldest : f->events_last > 0;
    bool wanted = !kinds || kinds >> EVENT_DONE & 1;
    uint64_t first = after + 1 > f->events_oldest ? after + 1 : f->events_oldest;
    for (uint64_t id = first; wanted && id <= f->events_last && n < max; id++)
        out[n++] = (struct backend_event){.id = id, .kind = EVENT_DONE};
    return n;
}

static uint64_t fake_events_last(const struct backend *b)
{
    return fake_of(b)->events_last;
}

static void fake_on_news(struct backend *b, backend_news_fn fn, void *ctx)
{
    fake_of(b)->news_fn = fn;
    fake_of(b)->news_ctx = ctx;
}

static int fake_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    struct fake_backend *f = fake_of(b);
    CHECK(!f->settle_fn);
    f->settle_fn = fn;
    f->settle_ctx = ctx;
    return 0;
}

static const struct backend_ops fake_ops = {
    .kind = "fake",
    .submit = fake_submit,
    .watch = fake_watch,
    .unwatch = fake_unwatch,
    .caps = fake_caps,
    .figures = fake_figures,
    .events = fake_events,
    .events_last = fake_events_last,
    .on_news = fake_on_news,
    .settle = fake_settle,
    .close = fake_close,
};

struct fake_backend *fake_new(uv_loop_t *loop, bool *gone)
{
    struct fake_backend *f = calloc(1, sizeof *f);
    CHECK(f);
    f->base.ops = &fake_ops;
    f->gone = gone;
    uv_idle_init(loop, &f->idle);
    f->idle.data = f;
    return f;
}

void fake_settled(struct fake_backend *f)
{
    backend_closed_fn fn = f->settle_fn;
    f->settle_fn = NULL;
    if (fn)
        fn(f->settle_ctx);
}

void fake_signal(struct fake_backend *f)
{
    if (f->watching)
        f->signal_fn(f->signal_ctx);
}

size_t fake_count(const struct fake_backend *f, enum op_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++)
        n += f->seen[i].kind == kind;
    return n;
}
