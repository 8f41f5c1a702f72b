/* SPDX-License-Identifier: Apache-2.0 */
/* What a waiting job waits for (struct job_wait), without looking at all jobs of its queue.
 *
 * How many jobs come before it. In a heap, each entry that comes before the job is below entries
 * that do, too, so a walk from the top that turns back at the others looks at few entries besides
 * those that it counts. After LOOKS_MAX entries it gives up, and the share of SAMPLES entries at
 * equal distances that come before the job gives an estimate. Both are bounded, whatever the size
 * of the queue: a few thousand jobs are looked up. */
#include <stdlib.h>

#include "backend/local/engine/engine_impl.h"
#include "ops/jobs/why.h"

#define LOOKS_MAX (4 * BEFORE_COUNTED) /* stale entries are among them */
#define SAMPLES 1024
#define CHILDREN 4

/* A walk goes down one path at a time: of each level it remembers the other children. */
#define WALK_ROOM 128

struct walk {
    struct engine *e;
    const struct heap *heap;
    struct heap_entry of; /* the place of the job */
    uint64_t *found;      /* sequences of valid entries before it */
    size_t count, looks;
};

static bool comes_before(struct heap_entry a, struct heap_entry b)
{
    return a.order != b.order ? a.order < b.order : a.seq < b.seq;
}

/* False: there are too many. */
static bool walk_all(struct walk *w)
{
    size_t left[WALK_ROOM], n = 0;
    if (w->heap->len > 0)
        left[n++] = 0;
    while (n > 0) {
        size_t at = left[--n];
        struct heap_entry entry = heap_at(w->heap, at);
        if (w->looks++ == LOOKS_MAX)
            return false;
        if (!comes_before(entry, w->of))
            continue;
        if (valid_ready(w->e, entry)) {
            if (w->count == BEFORE_COUNTED + 1)
                return false;
            w->found[w->count++] = entry.seq;
        }
        for (size_t child = CHILDREN * at + 1; child <= CHILDREN * at + CHILDREN; child++)
            if (child < w->heap->len && n < WALK_ROOM)
                left[n++] = child;
    }
    return true;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A job may have two entries with the same place. */
static size_t distinct(struct walk *w)
{
    size_t n = 0;
    qsort(w->found, w->count, sizeof *w->found, by_number);
    for (size_t i = 0; i < w->count; i++)
        n += i == 0 || w->found[i] != w->found[i - 1];
    return n;
}

/* The share of the valid entries that come before the job, of this many ready jobs. */
static uint64_t estimate(const struct walk *w, uint64_t ready)
{
    size_t step = w->heap->len / SAMPLES + 1, valid = 0, before = 0;
    for (size_t at = 0; at < w->heap->len; at += step) {
        struct heap_entry entry = heap_at(w->heap, at);
        if (!valid_ready(w->e, entry))
            continue;
        valid++;
        before += comes_before(entry, w->of);
    }
    uint64_t about = valid ? (uint64_t)((double)ready * (double)before / (double)valid) : 0;
    about = about < ready ? about : ready - 1;
    return about > w->count ? about : w->count;
}

/* `ready`: how many jobs have their place in the heap. False: no memory. */
static bool count_before(struct engine *e, const struct heap *h, const struct live *l,
                         uint64_t ready, struct job_wait *ret)
{
    struct walk w = {.e = e,
                     .heap = h,
                     .of = {ready_order(queue_of(e, l), &l->job), ready_seq(e, &l->job)},
                     .found = arena_array(&e->out->arena, BEFORE_COUNTED + 1, sizeof(uint64_t))};
    if (!w.found)
        return false;
    if (walk_all(&w)) {
        ret->before = distinct(&w);
        return true;
    }
    ret->before_kind = COUNT_ESTIMATE;
    ret->before = estimate(&w, ready);
    return true;
}

const struct job_wait *wait_of(struct engine *e, const struct live *l)
{
    struct queue *q = queue_of(e, l);
    struct job_wait *w = arena_array(&e->out->arena, 1, sizeof *w);
    if (!w)
        return NULL;
    *w = (struct job_wait){.running = q->lists[STATE_RUNNING].count,
                           .ready = q->lists[STATE_READY].count};
    if (queue_paused(q, e->now.wall))
        w->paused_until = q->paused_until;
    if (l->job.state != STATE_READY)
        return w;
    const struct heap *h = q->flow ? limits_of_wait(e, q, l, w) : &q->ready;
    uint64_t ready = w->grouped && h != &q->ready ? h->len : w->ready;
    return count_before(e, h, l, ready, w) ? w : NULL;
}
