/* SPDX-License-Identifier: Apache-2.0 */
/* What a reply shows and the history does not keep: attempts, workers. Looked at when it leaves. */
#include "sim/world/server_impl.h"

/* Oldest first; only the newest can still be running. The store may be newer than the job's view,
 * so whether it is says nothing about the state shown. */
static void look_at_history(struct world *w, const struct job_view *v)
{
    if (v->attempt_count > LIMIT_ATTEMPTS_KEPT)
        world_blame(w, CHECK_C6, "job %llu shows %u attempts", (unsigned long long)v->job.seq,
                    v->attempt_count);
    for (uint32_t i = 0; i < v->attempt_count; i++) {
        const struct attempt_view *a = &v->attempts[i];
        if (a->seq != v->job.seq || a->number == 0)
            world_blame(w, CHECK_C6, "job %llu shows attempt %u of job %llu",
                        (unsigned long long)v->job.seq, a->number, (unsigned long long)a->seq);
        if (a->ended_at.ms == 0 && i + 1 < v->attempt_count)
            world_blame(w, CHECK_C6, "job %llu shows an attempt after one that has not ended",
                        (unsigned long long)v->job.seq);
    }
}

static void look_at_exceptions(struct world *w, const struct reply *r, const struct op *op)
{
    struct span queue = op->exceptions.queue;
    if (op->exceptions.limit && r->attempt_count > op->exceptions.limit)
        world_blame(w, CHECK_C6, "%u exceptions where %u were asked for", r->attempt_count,
                    op->exceptions.limit);
    for (uint32_t i = 0; i < r->attempt_count; i++) {
        const struct attempt_view *a = &r->attempts[i];
        if (!attempt_went_wrong(a->outcome))
            world_blame(w, CHECK_C6, "job %llu: an exception with outcome %u",
                        (unsigned long long)a->seq, a->outcome);
        if (queue.len && !span_equal(queue, a->queue))
            world_blame(w, CHECK_C6, "job %llu: an exception of another queue",
                        (unsigned long long)a->seq);
    }
}

static void look_at_workers(struct world *w, const struct reply *r)
{
    if (r->worker_count > r->worker_total)
        world_blame(w, CHECK_C10, "%u workers shown of %llu", r->worker_count,
                    (unsigned long long)r->worker_total);
    for (uint32_t i = 0; i < r->worker_count; i++)
        if (r->workers[i].running == 0 || r->workers[i].name.len == 0)
            world_blame(w, CHECK_C10, "a worker is shown that holds no lease");
}

void views_look(struct world *w, const struct reply *r)
{
    const struct op *op = &w->history.entries[r->tag].op;
    if (r->outcome != OUT_OK)
        return;
    if (r->kind == OP_WORKERS)
        look_at_workers(w, r);
    if (r->kind == OP_EXCEPTIONS)
        look_at_exceptions(w, r, op);
    for (uint32_t i = 0; r->kind == OP_GET && i < r->job_count; i++)
        look_at_history(w, &r->jobs[i]);
}
