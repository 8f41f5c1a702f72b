/* SPDX-License-Identifier: Apache-2.0 */
/* A list of jobs with what stores keep apart from the jobs, so that lists need not read it: what
 * workers reported about them, and what they depend on. The page is read first, then the details
 * of its jobs in one batch. */
#include <string.h>

#include "backend/reply_copy.h"
#include "base/containers/arena.h"
#include "base/mem.h"
#include "broker/broker_impl.h"
#include "core/limits.h"

struct list_details {
    struct broker *broker;
    broker_reply_fn fn;
    void *ctx;
    struct reply *page; /* the reply to the list; its jobs get the reports */
    struct arena arena;
    unsigned what; /* enum list_detail */
    uint32_t left; /* replies that are outstanding */
    struct op ops[LIMIT_LIST_DETAILS];
};

static void finish(struct list_details *l)
{
    l->fn(l->ctx, l->page);
    mem_free(l->page);
    arena_done(&l->arena);
    mem_free(l);
}

static void fail(struct list_details *l, enum outcome outcome)
{
    l->page->outcome = outcome;
    l->page->note = NULL;
}

static bool take_reports(struct list_details *l, struct job_view *v, const struct job_view *from)
{
    v->progress = from->progress;
    v->log = from->log;
    v->steps = from->steps;
    v->damage |= from->damage;
    return arena_keep(&l->arena, &v->progress) && arena_keep(&l->arena, &v->log) &&
           arena_keep(&l->arena, &v->steps);
}

static bool take_dependencies(struct list_details *l, struct job_view *v,
                              const struct job_view *from)
{
    v->is_dependent = from->is_dependent;
    v->dependent = from->dependent;
    v->waits = from->waits;
    v->parents = NULL;
    v->parent_count = from->parent_count;
    if (v->job.state != STATE_BLOCKED)
        return true;
    struct job_ref *parents = arena_array(&l->arena, from->parent_count + 1, sizeof *parents);
    if (parents && from->parent_count)
        memcpy(parents, from->parents, from->parent_count * sizeof *parents);
    v->parents = parents;
    return parents != NULL;
}

/* A job that was removed in the meantime has no details. */
static void detail_cb(void *ctx, const struct reply *r)
{
    struct list_details *l = ctx;
    struct job_view *v = (struct job_view *)&l->page->jobs[r->tag];
    if (r->outcome != OUT_OK && r->outcome != OUT_NOT_FOUND)
        fail(l, r->outcome);
    if (r->outcome == OUT_OK && r->job_count == 1) {
        if ((l->what & LIST_REPORTS && !take_reports(l, v, &r->jobs[0])) ||
            (l->what & LIST_DEPENDENCIES && !take_dependencies(l, v, &r->jobs[0])))
            fail(l, OUT_UNAVAILABLE);
    }
    if (--l->left == 0)
        finish(l);
}

static void details_read(struct list_details *l)
{
    for (uint32_t i = 0; i < l->left; i++) {
        const struct job *j = &l->page->jobs[i].job;
        l->ops[i] = (struct op){.kind = OP_GET, .tag = i};
        l->ops[i].job = (struct op_job){.job = {.seq = j->seq, .hi = j->id_hi},
                                        .want_attempts = l->what & LIST_REPORTS,
                                        .want_log = l->what & LIST_REPORTS,
                                        .want_steps = l->what & LIST_REPORTS,
                                        .want_parents = l->what & LIST_DEPENDENCIES &&
                                                        j->state == STATE_BLOCKED};
    }
    if (broker_submit(l->broker, l->ops, l->left, detail_cb, l) == 0)
        return;
    fail(l, OUT_UNAVAILABLE);
    finish(l);
}

static void page_cb(void *ctx, const struct reply *r)
{
    struct list_details *l = ctx;
    if (r->outcome == OUT_OK && r->job_count > 0) {
        l->page = reply_copy(r);
        l->left = r->job_count;
    }
    if (l->page) {
        details_read(l);
        return;
    }
    struct reply none = *r;
    if (r->outcome == OUT_OK && r->job_count > 0)
        none = (struct reply){.kind = r->kind, .outcome = OUT_UNAVAILABLE};
    l->fn(l->ctx, &none);
    arena_done(&l->arena);
    mem_free(l);
}

int broker_list_details(struct broker *b, const struct op *op, unsigned what, broker_reply_fn fn,
                        void *ctx)
{
    struct list_details *l = mem_zalloc(sizeof *l);
    if (!l)
        return -ERR_NOMEM;
    *l = (struct list_details){.broker = b, .fn = fn, .ctx = ctx, .what = what};
    arena_init(&l->arena);
    struct op list = *op;
    if (list.list.limit > LIMIT_LIST_DETAILS)
        list.list.limit = LIMIT_LIST_DETAILS;
    int err = broker_submit(b, &list, 1, page_cb, l);
    if (err < 0)
        mem_free(l);
    return err;
}
