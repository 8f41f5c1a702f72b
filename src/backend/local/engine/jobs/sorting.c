/* SPDX-License-Identifier: Apache-2.0 */
/* Ready jobs that a change of the policy has put out of order, and those for whose line memory was
 * short: flow.inbox and the old lines. jobs/limits.h explains when there are any. */
#include "backend/local/engine/jobs/limits.h"

#define SORT_SLICE 10000 /* jobs a tick; about 3 ms */

void sorting_later(struct engine *e, struct queue *q)
{
    if (q->flow->sorting)
        return;
    CHECK(e->sorting_count < e->sorting_room);
    q->flow->sorting = true;
    e->sorting[e->sorting_count++] = q->number;
}

void sorting_end(struct engine *e, struct queue *q)
{
    q->flow->sorting = false;
    for (size_t i = 0; i < e->sorting_count; i++)
        if (e->sorting[i] == q->number) {
            e->sorting[i] = e->sorting[--e->sorting_count];
            break;
        }
}

/* The heap that has the next job to be sorted; NULL = all are in order. */
static struct heap *unsorted(struct engine *e, struct queue *q)
{
    struct flow *f = q->flow;
    if (f->inbox.len > 0)
        return &f->inbox;
    while (f->old_first && line_at(e, f->old_first)->ready.len == 0)
        line_end(e, q, f->old_first);
    return f->old_first ? &line_at(e, f->old_first)->ready : NULL;
}

/* False: no memory. */
static bool sort_in(struct engine *e, struct queue *q, const struct live *l)
{
    struct heap_entry entry = {ready_order(q, &l->job), ready_seq(e, &l->job)};
    if (!q->flow->grouped)
        return heap_push(&q->ready, entry) == 0;
    return limits_reserve(e, q, 1) == 0 && line_add(e, q, l);
}

size_t sorting_work(struct engine *e, struct queue *q, size_t budget)
{
    struct heap *from;
    struct heap_entry top;
    size_t done = 0;
    while (done < budget && (from = unsorted(e, q)) != NULL) {
        CHECK(heap_top(from, &top));
        const struct live *l = jobs_by_seq(e, seq_of_ready(e, top.seq), NULL);
        if (l && l->job.state == STATE_READY && !jobs_purged(e, l) && !sort_in(e, q, l))
            break;
        heap_pop(from, &top);
        done++;
    }
    if (!unsorted(e, q))
        sorting_end(e, q);
    return done;
}

size_t tick_sorting(struct engine *e, size_t budget)
{
    size_t done = 0;
    (void)budget;
    while (e->sorting_count > 0 && done < SORT_SLICE) {
        struct queue *q = queue_at(e, e->sorting[e->sorting_count - 1]);
        size_t n = sorting_work(e, q, SORT_SLICE - done);
        done += n;
        limits_settle(e, q);
        if (q->flow)
            limits_wake(e, q);
        if (n == 0 && q->flow && q->flow->sorting)
            break; /* memory is short */
    }
    return done / 10;
}
