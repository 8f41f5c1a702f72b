/* SPDX-License-Identifier: Apache-2.0 */
/* Queries that the engine answers from memory: get and peek. The store reads lists and bodies.
 * Also the operation by which an operator accepts the clock. */
#include "backend/local/engine/engine_impl.h"

#define PEEK_MAX 100u

void op_get(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    struct live *l = jobs_find(e, op->job.job, NULL);
    if (!l) {
        refuse(r, OUT_NOT_FOUND, NULL);
        return;
    }
    struct job_view *view = arena_alloc(&e->out->arena, sizeof(*view));
    if (!view || view_of(e, l, view) != 0 ||
        (op->job.want_parents && dependencies_view_parents(e, l->job.seq, view) != 0)) {
        refuse_nomem(r);
        return;
    }
    bool waits = (STATE_BIT(l->job.state) & STATES_WAITING) != 0;
    if (op->job.want_wait && waits && !(view->wait = wait_of(e, l))) {
        refuse_nomem(r);
        return;
    }
    reply_job(r, l);
    r->reply.jobs = r->views = view;
    r->reply.job_count = 1;
    r->want_body = op->job.want_body || op->job.want_texts;
    r->texts_only = !op->job.want_body;
    r->want_attempts = op->job.want_attempts;
    r->want_log = op->job.want_log;
    view->step_bytes = op->job.want_steps ? (uint32_t)steps_bytes(steps_of(e, l->job.seq)) : 0;
    r->after = l->position;
    if (DEFECT(&e->config, DEFECT_REPLY_EARLY))
        r->after = 0;
}

/* The smallest n valid entries of a lazy heap, in order, without taking any out: a frontier of
 * entries whose parents have been visited, itself a binary heap. Stale entries are walked through.
 */
struct outpost {
    struct heap_entry entry;
    size_t index; /* in the heap */
};

struct frontier {
    struct arena *arena;
    struct outpost *at;
    size_t count, room;
};

static bool outpost_before(const struct outpost *a, const struct outpost *b)
{
    return a->entry.order != b->entry.order ? a->entry.order < b->entry.order
                                            : a->entry.seq < b->entry.seq;
}

static bool frontier_add(struct frontier *f, const struct heap *h, size_t index)
{
    if (index >= h->len)
        return true;
    if (f->count == f->room) {
        size_t room = f->room ? f->room * 2 : 64;
        struct outpost *grown = arena_array(f->arena, room, sizeof(*grown));
        if (!grown)
            return false;
        if (f->count)
            memcpy(grown, f->at, f->count * sizeof(*grown));
        f->at = grown;
        f->room = room;
    }
    struct outpost fresh = {heap_at(h, index), index};
    size_t at = f->count++;
    for (; at > 0 && outpost_before(&fresh, &f->at[(at - 1) / 2]); at = (at - 1) / 2)
        f->at[at] = f->at[(at - 1) / 2];
    f->at[at] = fresh;
    return true;
}

static struct outpost frontier_take(struct frontier *f)
{
    struct outpost first = f->at[0], last = f->at[--f->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < f->count; at = child) {
        child += child + 1 < f->count && outpost_before(&f->at[child + 1], &f->at[child]);
        if (!outpost_before(&f->at[child], &last))
            break;
        f->at[at] = f->at[child];
    }
    f->at[at] = last;
    return first;
}

#define PEEK_LOOKS_MAX 4096 /* stale entries a peek is willing to walk through */

/* The next valid entry; NULL = no entry is valid, or none near enough, or no memory. The same
 * job may have two adjacent entries; it is returned once. */
static struct live *frontier_next(struct engine *e, struct frontier *f, const struct heap *h,
                                  heap_stale_fn valid, uint64_t *last, size_t *looks)
{
    while (f->count && (*looks)++ < PEEK_LOOKS_MAX) {
        struct outpost next = frontier_take(f);
        for (size_t child = 4 * next.index + 1; child <= 4 * next.index + 4; child++)
            if (!frontier_add(f, h, child))
                return NULL;
        struct live *l = valid(e, next.entry) ? jobs_by_seq(e, next.entry.seq, NULL) : NULL;
        if (l && l->job.seq != *last) {
            *last = l->job.seq;
            return l;
        }
    }
    return NULL;
}

static uint32_t peek_heap(struct engine *e, const struct heap *h, heap_stale_fn valid,
                          uint32_t limit, struct job_view *views)
{
    struct frontier f = {.arena = &e->out->arena};
    uint64_t last = 0;
    size_t looks = 0;
    uint32_t n = 0;
    struct live *l;
    if (!frontier_add(&f, h, 0))
        return 0;
    while (n < limit && (l = frontier_next(e, &f, h, valid, &last, &looks)) != NULL) {
        if (view_of(e, l, &views[n]) != 0)
            return n;
        n++;
    }
    return n;
}

/* Only the first of each group: which ones follow depends on when the groups may start them. */
static size_t next_of_lines(struct engine *e, struct queue *q, struct arena *arena,
                            struct next_ready *out, size_t max)
{
    const struct live **front = arena_array(arena, max, sizeof(struct live *));
    size_t count = front ? limits_front(e, q, front, max) : 0, n = 0;
    for (size_t i = 0; i < count; i++)
        if (!front[i]->job.failures && !front[i]->job.crashes)
            out[n++] = (struct next_ready){front[i]->job.seq, front[i]->position,
                                           front[i]->job.payload_bytes, front[i]->job.payload_kind};
    return n;
}

/* The next job that a group may start, then the others by age: their order is not known before
 * they are claimed. */
static uint32_t peek_lines(struct engine *e, struct queue *q, uint32_t limit,
                           struct job_view *views)
{
    const struct live *first = NULL;
    uint32_t n = 0;
    if (limits_front(e, q, &first, 1) > 0 && view_of(e, first, &views[n]) == 0)
        n++;
    for (uint32_t at = q->lists[STATE_READY].head; at && n < limit; at = live_at(e, at)->next) {
        if (live_at(e, at) == first)
            continue;
        if (view_of(e, live_at(e, at), &views[n]) != 0)
            break;
        n++;
    }
    return n;
}

size_t engine_next_ready(struct engine *e, uint32_t queue, struct arena *arena,
                         struct next_ready *out, size_t max)
{
    struct queue *q = queue_at(e, queue);
    struct frontier f = {.arena = arena};
    uint64_t last = 0;
    size_t looks = 0, n = 0;
    const struct live *l;
    if (!q || q->gone)
        return 0;
    if (q->flow)
        return next_of_lines(e, q, arena, out, max);
    if (!frontier_add(&f, &q->ready, 0))
        return 0;
    while (n < max && (l = frontier_next(e, &f, &q->ready, valid_ready, &last, &looks)) != NULL)
        if (!l->job.failures && !l->job.crashes)
            out[n++] = (struct next_ready){l->job.seq, l->position, l->job.payload_bytes,
                                           l->job.payload_kind};
    return n;
}

static uint32_t peek_list(struct engine *e, const struct joblist *list, const struct op_peek *want,
                          uint32_t limit, struct job_view *views)
{
    uint32_t n = 0;
    bool back = want->newest_first;
    uint64_t skip = back ? want->skip : 0;
    for (uint32_t at = back ? list->tail : list->head; at && n < limit;
         at = back ? live_at(e, at)->prev : live_at(e, at)->next) {
        if (skip > 0) {
            skip--;
            continue;
        }
        if (view_of(e, live_at(e, at), &views[n]) != 0)
            break;
        n++;
    }
    return n;
}

/* How many of them an answer with bodies may show. */
static uint32_t peek_bound(const struct job_view *views, uint32_t count)
{
    uint64_t bytes = 0;
    uint32_t n = 0;
    while (n < count && bytes < LIMIT_ANSWER_BYTES)
        bytes += views[n++].job.payload_bytes;
    return n;
}

void op_peek(struct engine *e, const struct op *op)
{
    const struct op_peek *want = &op->peek;
    struct engine_reply *r = reply_new(e, op);
    struct queue *q = queues_find(e, want->queue);
    if (!q || want->state == STATE_NONE || want->state >= STATE_COUNT) {
        refuse(r, q ? OUT_INVALID : OUT_NO_QUEUE, NULL);
        r->reply.note =
            q ? "state must be scheduled, ready, running, done, dead or cancelled" : NULL;
        return;
    }
    uint32_t most = want->newest_first ? LIMIT_BATCH : PEEK_MAX;
    uint32_t limit = want->limit && want->limit < most ? want->limit : most;
    struct job_view *views = arena_array(&e->out->arena, limit, sizeof(*views));
    if (!views) {
        refuse_nomem(r);
        return;
    }
    if (want->state == STATE_READY && q->flow)
        r->reply.job_count = peek_lines(e, q, limit, views);
    else if (want->state == STATE_READY)
        r->reply.job_count = peek_heap(e, &q->ready, valid_ready, limit, views);
    else if (want->state == STATE_SCHEDULED)
        r->reply.job_count = peek_heap(e, &q->due, valid_due, limit, views);
    else
        r->reply.job_count = peek_list(e, &q->lists[want->state], want, limit, views);
    if (want->want_body)
        r->reply.job_count = peek_bound(views, r->reply.job_count);
    r->reply.jobs = r->views = views;
    r->want_body = want->want_body;
}

void op_list(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    struct op_list *query = arena_copy(&e->out->arena, &op->list, sizeof(op->list));
    if (!query) {
        refuse_nomem(r);
        return;
    }
    if (query->queue.len) {
        struct queue *q = queues_find(e, query->queue);
        if (!q) {
            refuse(r, OUT_NO_QUEUE, NULL);
            return;
        }
        query->filter.queue = q->number;
    }
    if (query->limit == 0 || query->limit > LIMIT_BATCH)
        query->limit = LIMIT_BATCH;
    r->list = query;
}

void op_accept_clock(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    r->after = 0; /* nothing of it is on the disk */
    r->reply.was_suspect = e->clock_suspect;
    engine_accept_clock(e);
}

void op_exceptions(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    if (op->exceptions.queue.len && !queues_find(e, op->exceptions.queue)) {
        refuse(r, OUT_NO_QUEUE, NULL);
        return;
    }
    r->exceptions = &op->exceptions;
}
