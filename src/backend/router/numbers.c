/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the children and numbers outside. The default backend has number 0, so that its are
 * the same on both sides and nothing is copied. */
#include "backend/router/impl.h"

uint64_t router_seq_out(const struct child *child, uint64_t seq)
{
    return seq ? (uint64_t)child->number << SLOT_SHIFT | seq : 0;
}

unsigned router_slot(uint64_t seq)
{
    return (unsigned)(seq >> SLOT_SHIFT);
}

uint64_t router_seq_in(uint64_t seq)
{
    return seq & SEQ_INNER_MAX;
}

/* One that has no room beside the backend's number is not told. */
uint32_t router_queue_out(const struct child *child, uint32_t number)
{
    if (number == 0 || number > QUEUE_INNER_MAX)
        return child->number == 0 ? number : 0;
    return (uint32_t)child->number << QUEUE_SHIFT | number;
}

static const struct attempt_view *attempts_out(const struct child *child,
                                               const struct attempt_view *from, uint32_t count,
                                               struct arena *a)
{
    struct attempt_view *to = arena_copy(a, from, count * sizeof *from);
    for (uint32_t i = 0; to && i < count; i++)
        to[i].seq = router_seq_out(child, to[i].seq);
    return to;
}

static int jobs_out(const struct child *child, struct reply *r, struct arena *a)
{
    struct job_view *to = arena_copy(a, r->jobs, r->job_count * sizeof *to);
    if (!to)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < r->job_count; i++) {
        to[i].job.seq = router_seq_out(child, to[i].job.seq);
        to[i].job.queue = router_queue_out(child, to[i].job.queue);
        to[i].holder.seq = router_seq_out(child, to[i].holder.seq);
        if (to[i].attempt_count == 0)
            continue;
        to[i].attempts = attempts_out(child, to[i].attempts, to[i].attempt_count, a);
        if (!to[i].attempts)
            return -ERR_NOMEM;
    }
    r->jobs = to;
    return 0;
}

static int queues_out(const struct child *child, struct reply *r, struct arena *a)
{
    struct queue_view *to = arena_copy(a, r->queues, r->queue_count * sizeof *to);
    if (!to)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < r->queue_count; i++)
        to[i].number = router_queue_out(child, to[i].number);
    r->queues = to;
    return 0;
}

static int notices_out(const struct child *child, struct reply *r, struct arena *a)
{
    struct notice_view *to = arena_copy(a, r->notices, r->notice_count * sizeof *to);
    if (!to)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < r->notice_count; i++) {
        to[i].notice.number = router_seq_out(child, to[i].notice.number);
        to[i].notice.job_seq = router_seq_out(child, to[i].notice.job_seq);
        to[i].tried.number = router_seq_out(child, to[i].tried.number);
    }
    r->notices = to;
    return 0;
}

uint64_t router_bit(const struct child *child)
{
    return UINT64_C(1) << child->number;
}

int router_reply_out(const struct child *child, struct reply *r, struct arena *a)
{
    int err = 0;
    if (child->number == 0)
        return 0;
    r->seq = router_seq_out(child, r->seq);
    r->replaced_seq = router_seq_out(child, r->replaced_seq);
    r->cursor = router_seq_out(child, r->cursor);
    r->left_out = r->left_out ? router_bit(child) : 0;
    if (r->job_count > 0)
        err = jobs_out(child, r, a);
    if (!err && r->queue_count > 0)
        err = queues_out(child, r, a);
    if (!err && r->notice_count > 0)
        err = notices_out(child, r, a);
    if (!err && r->attempt_count > 0) {
        r->attempts = attempts_out(child, r->attempts, r->attempt_count, a);
        err = r->attempts ? 0 : -ERR_NOMEM;
    }
    return err;
}

static bool was_asked(const struct call *c, const struct child *child)
{
    for (const struct answer *at = c->answers; at; at = at->next) {
        if (at->from == child)
            return true;
    }
    return !c->answers && c->child == child;
}

uint64_t router_position_besides(const struct call *c)
{
    const struct router *r = c->batch->router;
    struct backend_figures figures;
    uint64_t sum = 0;
    for (unsigned i = 0; i < r->child_count; i++) {
        if (!r->children[i].backend || was_asked(c, &r->children[i]))
            continue;
        backend_figures(r->children[i].backend, &figures);
        sum += figures.position;
    }
    return sum;
}
