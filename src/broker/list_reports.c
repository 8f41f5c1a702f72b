/* SPDX-License-Identifier: Apache-2.0 */
/* A list of jobs with what workers reported about them. Stores keep progress and logs apart from
 * the jobs, so that lists need not read them: the page is read first, then the reports about its
 * jobs in one batch. */
#include "backend/reply_copy.h"
#include "base/containers/arena.h"
#include "base/mem.h"
#include "broker/broker_impl.h"
#include "core/limits.h"

struct list_reports {
    struct broker *broker;
    broker_reply_fn fn;
    void *ctx;
    struct reply *page; /* the reply to the list; its jobs get the reports */
    struct arena arena;
    uint32_t left; /* replies that are outstanding */
    struct op ops[LIMIT_LIST_REPORTS];
};

static void finish(struct list_reports *l)
{
    l->fn(l->ctx, l->page);
    mem_free(l->page);
    arena_done(&l->arena);
    mem_free(l);
}

static void fail(struct list_reports *l, enum outcome outcome)
{
    l->page->outcome = outcome;
    l->page->note = NULL;
}

/* A job that was removed in the meantime has no reports. */
static void report_cb(void *ctx, const struct reply *r)
{
    struct list_reports *l = ctx;
    struct job_view *v = (struct job_view *)&l->page->jobs[r->tag];
    if (r->outcome != OUT_OK && r->outcome != OUT_NOT_FOUND)
        fail(l, r->outcome);
    if (r->outcome == OUT_OK && r->job_count == 1) {
        v->progress = r->jobs[0].progress;
        v->log = r->jobs[0].log;
        if (!arena_keep(&l->arena, &v->progress) || !arena_keep(&l->arena, &v->log))
            fail(l, OUT_UNAVAILABLE);
    }
    if (--l->left == 0)
        finish(l);
}

static void reports_read(struct list_reports *l)
{
    for (uint32_t i = 0; i < l->left; i++) {
        const struct job *j = &l->page->jobs[i].job;
        l->ops[i] = (struct op){.kind = OP_GET, .tag = i};
        l->ops[i].job = (struct op_job){
            .job = {.seq = j->seq, .hi = j->id_hi}, .want_attempts = true, .want_log = true};
    }
    if (broker_submit(l->broker, l->ops, l->left, report_cb, l) == 0)
        return;
    fail(l, OUT_UNAVAILABLE);
    finish(l);
}

static void page_cb(void *ctx, const struct reply *r)
{
    struct list_reports *l = ctx;
    if (r->outcome == OUT_OK && r->job_count > 0) {
        l->page = reply_copy(r);
        l->left = r->job_count;
    }
    if (l->page) {
        reports_read(l);
        return;
    }
    struct reply none = *r;
    if (r->outcome == OUT_OK && r->job_count > 0)
        none = (struct reply){.kind = r->kind, .outcome = OUT_UNAVAILABLE};
    l->fn(l->ctx, &none);
    arena_done(&l->arena);
    mem_free(l);
}

int broker_list_reports(struct broker *b, const struct op *op, broker_reply_fn fn, void *ctx)
{
    struct list_reports *l = mem_zalloc(sizeof *l);
    if (!l)
        return -ERR_NOMEM;
    *l = (struct list_reports){.broker = b, .fn = fn, .ctx = ctx};
    arena_init(&l->arena);
    struct op list = *op;
    if (list.list.limit > LIMIT_LIST_REPORTS)
        list.list.limit = LIMIT_LIST_REPORTS;
    int err = broker_submit(b, &list, 1, page_cb, l);
    if (err < 0)
        mem_free(l);
    return err;
}
