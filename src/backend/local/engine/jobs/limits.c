/* SPDX-License-Identifier: Apache-2.0 */
/* Limits at the claim: what concerns a whole queue. jobs/limits.h explains the structure. */
#include "backend/local/engine/jobs/limits.h"

#include "ops/jobs/why.h"

#define US_PER_MS 1000
#define SORT_SOON 64   /* jobs that a claim sorts while others are still out of order */
#define SORT_NOW 10000 /* jobs that a change of the policy sorts at once */

int limits_reserve(struct engine *e, struct queue *q, size_t moves)
{
    struct flow *f = q->flow;
    int err = heap_reserve(&f->inbox, moves);
    if (!err)
        err = heap_reserve(&e->token_queues, moves + 1);
    if (err || !f->grouped)
        return err;
    /* Each line may need a place, or a timer, at any time. */
    err = slab_reserve(&e->lines, moves);
    if (!err)
        err = heap_reserve(&f->timers, f->line_count + moves - f->timers.len);
    return err ? err : places_reserve(e, &f->places, f->line_count + moves - f->places.count);
}

void limits_arm(struct engine *e, struct queue *q, int64_t at_us)
{
    int64_t at_ms = (at_us + US_PER_MS - 1) / US_PER_MS;
    if (heap_reserve(&e->token_queues, 1) == 0) /* if not, a later claim tries again */
        queues_arm(&e->token_queues, &q->flow->token_armed, q->number, at_ms);
}

/* --- what the queue allows --- */

static struct claim_use queue_use(const struct queue *q)
{
    return (struct claim_use){q->lists[STATE_RUNNING].count + q->flow->taken, q->flow->full_us};
}

static enum claim_block queue_block(const struct engine *e, const struct queue *q,
                                    int64_t *ret_at_us)
{
    struct claim_use use = queue_use(q);
    if (DEFECT(&e->config, DEFECT_SLOT_OVER) && use.running > 0)
        use.running--;
    return claim_queue_block(&q->policy, &use, e->ops.rate_now_us, ret_at_us);
}

static bool queue_open(struct engine *e, struct queue *q)
{
    int64_t at_us;
    enum claim_block block = queue_block(e, q, &at_us);
    if (block == CLAIM_RATE)
        limits_arm(e, q, at_us);
    return block == CLAIM_FREE;
}

void limits_wake(struct engine *e, struct queue *q)
{
    bool any = q->flow->grouped ? q->flow->places.count > 0 : q->lists[STATE_READY].count > 0;
    if (e->out && any && queue_open(e, q))
        queues_wake(e, q);
}

enum claim_block limits_of_job(struct engine *e, const struct queue *q, const struct live *l,
                               int64_t *ret_at_us)
{
    enum claim_block block = queue_block(e, q, ret_at_us);
    if (block != CLAIM_FREE || !q->flow->grouped)
        return block;
    uint32_t handle = line_of(e, q, l);
    struct line none = {.group = more_of(e, l).group};
    return line_block(e, q, handle ? line_at(e, handle) : &none, ret_at_us);
}

const struct heap *limits_of_wait(const struct engine *e, const struct queue *q,
                                  const struct live *l, struct job_wait *w)
{
    uint32_t handle = q->flow->grouped ? line_of(e, q, l) : 0;
    struct line none = {.group = more_of(e, l).group};
    struct claim_use queue = queue_use(q);
    struct claim_use group = line_use(e, q, handle ? line_at(e, handle) : &none);
    job_wait_limits(w, &q->policy, &queue, &group, e->ops.rate_now_us);
    if (q->flow->sorting)
        w->before_kind = COUNT_AT_LEAST;
    return handle ? &line_at(e, handle)->ready : &q->ready;
}

void limits_count(struct engine *e, const struct queue *q, uint64_t waiting[CLAIM_BLOCK_COUNT])
{
    int64_t at_us;
    enum claim_block block = queue_block(e, q, &at_us);
    for (int i = 0; i < CLAIM_BLOCK_COUNT; i++)
        waiting[i] = block == CLAIM_FREE ? q->flow->waiting[i] : 0;
    if (block != CLAIM_FREE)
        waiting[block] = q->lists[STATE_READY].count;
}

/* --- jobs come and go --- */

void limits_ready(struct engine *e, struct queue *q, const struct live *l)
{
    struct heap_entry entry = {ready_order(q, &l->job), ready_seq(e, &l->job)};
    if (!q->flow->grouped) {
        CHECK(heap_push(&q->ready, entry) == 0);
    } else if (!line_add(e, q, l)) {
        CHECK(heap_push(&q->flow->inbox, entry) == 0);
        sorting_later(e, q);
    }
    limits_wake(e, q);
}

void limits_counted(struct engine *e, struct queue *q, const struct live *l)
{
    uint32_t line = q->flow->grouped ? line_of(e, q, l) : 0;
    if (line)
        lines_recount(e, q, line);
}

void limits_slot_free(struct engine *e, struct queue *q, const struct live *l)
{
    uint32_t line = q->flow->grouped ? line_of(e, q, l) : 0;
    q->flow->taken += DEFECT(&e->config, DEFECT_SLOT_LEAKS) && l->job.state == STATE_DONE;
    if (line)
        line_look(e, q, line);
    limits_wake(e, q);
}

/* --- claims --- */

bool limits_open(struct engine *e, struct queue *q)
{
    if (q->flow->sorting)
        sorting_work(e, q, SORT_SOON);
    return q->flow && queue_open(e, q);
}

struct heap *limits_next(struct engine *e, struct queue *q)
{
    struct flow *f = q->flow;
    int64_t at_us;
    if (!f->grouped)
        return &q->ready;
    lines_due(e, q);
    while (f->places.count > 0) {
        uint32_t handle = f->places.list[0].line;
        struct line *l = line_at(e, handle);
        if (l->ready.len > 0 && line_block(e, q, l, &at_us) == CLAIM_FREE)
            return &l->ready;
        line_look(e, q, handle);
    }
    return NULL;
}

void limits_stale(struct engine *e, struct queue *q)
{
    if (q->flow->grouped)
        line_look(e, q, q->flow->places.list[0].line);
}

/* Takes what the job needs of its queue and of its group. */
static void take(struct engine *e, struct queue *q, struct line *l, bool was_next)
{
    const struct queue_policy *p = &q->policy;
    bool rated = p->claim_rate.count > 0 && p->claim_rate.per == RATE_QUEUE;
    if (rated && !DEFECT(&e->config, DEFECT_RATE_FREE)) {
        q->flow->full_us = claim_token_take(&p->claim_rate, q->flow->full_us, e->ops.rate_now_us);
        (void)queue_open(e, q); /* if that was the last, the next one wakes the claims that wait */
    }
    if (l)
        line_serve(e, q, l, was_next);
}

void limits_claimed(struct engine *e, struct queue *q, const struct live *l, bool by_id)
{
    struct flow *f = q->flow;
    struct heap_entry top;
    bool rated = q->policy.claim_rate.count > 0 && q->policy.claim_rate.per == RATE_GROUP;
    uint32_t handle = !f->grouped ? 0 : rated ? line_make(e, q, l) : line_of(e, q, l);
    struct line *line = handle ? line_at(e, handle) : NULL;
    struct heap *order = f->grouped ? line ? &line->ready : NULL : &q->ready;
    bool next = order && heap_top(order, &top) && top.seq == ready_seq(e, &l->job);
    if (next)
        heap_pop(order, &top);
    take(e, q, line, next && !by_id);
    if (line)
        line_look(e, q, handle);
}

/* --- items of triggers: taken first, leased later --- */

/* A job may stand in its heap twice, side by side. It is still ready, and another group may be
 * served before the second entry would be found, so both are removed. */
void limits_item_take(struct engine *e, struct queue *q)
{
    struct flow *f = q->flow;
    uint32_t handle = f->grouped ? f->places.list[0].line : 0;
    struct heap *order = handle ? &line_at(e, handle)->ready : &q->ready;
    struct heap_entry top, next;
    f->taken++;
    take(e, q, handle ? line_at(e, handle) : NULL, true);
    heap_pop(order, &top);
    while (heap_top(order, &next) && next.seq == top.seq)
        heap_pop(order, &next);
    if (handle) {
        line_at(e, handle)->taken++;
        line_look(e, q, handle);
    }
}

/* The item is leased now, or it is given back. */
void limits_item_end(struct engine *e, struct queue *q, const struct live *l)
{
    uint32_t handle = q->flow->grouped ? line_of(e, q, l) : 0;
    q->flow->taken--;
    if (handle) {
        line_at(e, handle)->taken--;
        line_look(e, q, handle);
    }
}

void limits_item_return(struct engine *e, struct queue *q, const struct live *l)
{
    const struct rate_limit *rate = &q->policy.claim_rate;
    uint32_t handle = q->flow->grouped ? line_of(e, q, l) : 0;
    int64_t *full_us = rate->per == RATE_QUEUE ? &q->flow->full_us
                       : handle                ? &line_at(e, handle)->full_us
                                               : NULL;
    if (rate->count > 0 && full_us)
        *full_us = claim_token_give(rate, *full_us);
    limits_ready(e, q, l);
    limits_item_end(e, q, l);
}

/* --- the policy --- */

static bool reorders(const struct queue *q, const struct queue_policy *to)
{
    return claim_grouped(&q->policy) != claim_grouped(to) || q->policy.ageing_ms != to->ageing_ms;
}

static struct flow *flow_new(struct engine *e)
{
    struct flow *f = mem_zalloc(sizeof(*f));
    if (!f)
        return NULL;
    heap_init(&f->timers);
    heap_init(&f->inbox);
    f->timers.moved = lines_moved;
    f->timers.moved_ctx = e;
    heap_count_in(&f->timers, &e->queue_bytes);
    heap_count_in(&f->inbox, &e->queue_bytes);
    f->token_armed = UINT64_MAX;
    return f;
}

int limits_prepare(struct engine *e, struct queue *q, const struct queue_policy *to)
{
    if (!q->flow && (claim_limited(to) || reorders(q, to))) {
        q->flow = flow_new(e);
        if (!q->flow)
            return -ERR_NOMEM;
        q->flow->grouped = claim_grouped(&q->policy);
    }
    if (!q->flow || !reorders(q, to))
        return 0;
    int err = lines_reserve(e, q);
    return err || q->flow->inbox.len == 0 ? err : heap_reserve(&q->flow->inbox, q->ready.len);
}

static bool same_rate(const struct rate_limit *a, const struct rate_limit *b)
{
    return a->per == b->per && a->count == b->count && a->window_ms == b->window_ms;
}

/* Another rate begins with full buckets. */
static void refill(struct engine *e, struct flow *f)
{
    f->full_us = 0;
    for (uint32_t at = f->first; at; at = line_at(e, at)->next)
        line_at(e, at)->full_us = 0;
}

/* What was in order becomes the inbox, which is merged with the one of a change just before. */
static void unsort(struct engine *e, struct queue *q)
{
    struct flow *f = q->flow;
    struct heap_entry top;
    lines_retire(e, q);
    if (f->inbox.len == 0) {
        struct heap ready = q->ready;
        q->ready = f->inbox;
        f->inbox = ready;
    }
    while (heap_pop(&q->ready, &top))
        CHECK(heap_push(&f->inbox, top) == 0);
    sorting_later(e, q);
}

void limits_policy(struct engine *e, struct queue *q, const struct queue_policy *before)
{
    struct flow *f = q->flow;
    bool reordered = claim_grouped(before) != claim_grouped(&q->policy) ||
                     before->ageing_ms != q->policy.ageing_ms;
    f->grouped = claim_grouped(&q->policy);
    if (!same_rate(&before->claim_rate, &q->policy.claim_rate))
        refill(e, f);
    if (reordered)
        unsort(e, q);
    else if (f->grouped)
        lines_look_all(e, q);
    if (f->sorting)
        sorting_work(e, q, SORT_NOW);
    limits_settle(e, q);
    if (q->flow)
        limits_wake(e, q);
}

void limits_settle(struct engine *e, struct queue *q)
{
    if (q->flow && !claim_limited(&q->policy) && !q->flow->sorting)
        limits_free(e, q);
}

void limits_purged(struct engine *e, struct queue *q)
{
    lines_purged(e, q);
    heap_done(&q->flow->inbox);
    if (q->flow->sorting)
        sorting_end(e, q);
}

void limits_free(struct engine *e, struct queue *q)
{
    struct flow *f = q->flow;
    if (!f)
        return;
    if (f->sorting)
        sorting_end(e, q);
    lines_end_all(e, q);
    places_free(e, &f->places);
    heap_done(&f->timers);
    heap_done(&f->inbox);
    mem_free(f);
    q->flow = NULL;
}

/* --- time --- */

size_t tick_tokens(struct engine *e, size_t budget)
{
    size_t done = 0;
    struct heap_entry top;
    uint64_t now = heap_order_of(e->now.mono.ms);
    for (; done < budget && heap_top(&e->token_queues, &top) && top.order <= now; done++) {
        heap_pop(&e->token_queues, &top);
        struct queue *q = queue_at(e, (uint32_t)top.seq);
        if (!q || !q->flow || q->flow->token_armed != top.order)
            continue;
        q->flow->token_armed = UINT64_MAX;
        lines_due(e, q);
        if (heap_top(&q->flow->timers, &top))
            limits_arm(e, q, (int64_t)(top.order ^ (UINT64_C(1) << 63)));
        limits_wake(e, q);
    }
    return done;
}

/* A running job took its token when its lease began. */
static void boot_job(struct engine *e, struct queue *q, const struct live *l)
{
    const struct rate_limit *rate = &q->policy.claim_rate;
    int64_t ago_us = (e->now.wall.ms - l->job.since.ms) * US_PER_MS;
    uint32_t handle = 0;
    if (ago_us < 0 || ago_us >= (int64_t)rate->window_ms * US_PER_MS)
        return;
    if (rate->per == RATE_GROUP && (handle = line_make(e, q, l)) == 0)
        return;
    int64_t *full_us = handle ? &line_at(e, handle)->full_us : &q->flow->full_us;
    *full_us = claim_token_take(rate, *full_us, e->ops.rate_now_us - ago_us);
    if (handle)
        line_look(e, q, handle);
}

void limits_boot(struct engine *e)
{
    for (size_t n = 0; n < e->queue_total; n++) {
        struct queue *q = e->queues[n];
        bool rated = q && q->flow && q->policy.claim_rate.count > 0;
        uint32_t at = rated ? q->lists[STATE_RUNNING].head : 0;
        for (; at; at = live_at(e, at)->next)
            if (limits_reserve(e, q, 1) == 0)
                boot_job(e, q, live_at(e, at));
        if (q && q->flow && q->flow->grouped)
            lines_look_all(e, q);
    }
}

/* --- for queries and checks --- */

size_t limits_front(struct engine *e, const struct queue *q, const struct live **out, size_t max)
{
    const struct flow *f = q->flow;
    struct heap_entry top;
    size_t n = 0;
    size_t looks = !f->grouped ? 1 : f->places.count < 2 * max ? f->places.count : 2 * max;
    for (size_t i = 0; i < looks && n < max; i++) {
        const struct heap *h = f->grouped ? &line_at(e, f->places.list[i].line)->ready : &q->ready;
        if (heap_top(h, &top) && valid_ready(e, top))
            out[n++] = jobs_by_seq(e, seq_of_ready(e, top.seq), NULL);
    }
    return n;
}

static int each_line(const struct engine *e, uint32_t first, limits_heap_fn fn, void *ctx)
{
    int err = 0;
    for (uint32_t at = first; !err && at; at = line_at(e, at)->next)
        err = fn(ctx, &line_at(e, at)->ready);
    return err;
}

int limits_each_heap(const struct engine *e, const struct queue *q, limits_heap_fn fn, void *ctx)
{
    int err = fn(ctx, &q->flow->inbox);
    if (!err)
        err = each_line(e, q->flow->first, fn, ctx);
    return err ? err : each_line(e, q->flow->old_first, fn, ctx);
}

static int add_bytes(void *ctx, const struct heap *h)
{
    *(uint64_t *)ctx += heap_bytes(h);
    return 0;
}

uint64_t limits_heap_bytes(const struct engine *e, const struct queue *q)
{
    if (!q->flow)
        return 0;
    uint64_t bytes = heap_bytes(&q->flow->timers) + q->flow->places.room * sizeof(struct place);
    (void)limits_each_heap(e, q, add_bytes, &bytes);
    return bytes;
}

/* A line that may start a job has a place; one that waits for a token has a timer. */
int limits_verify(const struct engine *e, struct queue *q, struct err_note *note)
{
    const struct flow *f = q->flow;
    uint64_t waiting[CLAIM_BLOCK_COUNT] = {0}, lines = 0;
    int64_t at_us;
    for (uint32_t at = f->first; at; at = line_at(e, at)->next, lines++) {
        const struct line *l = line_at(e, at);
        waiting[l->block] += l->waiting;
        bool may = l->ready.len > 0 && line_block(e, q, l, &at_us) == CLAIM_FREE;
        if (may && !l->place && l->timer == SIZE_MAX)
            return err_note_set(note, -ERR_CORRUPT,
                                "queue %u: a group may start a job and has no "
                                "place",
                                q->number);
        if (l->place && f->places.list[l->place - 1].line != at)
            return err_note_set(note, -ERR_CORRUPT, "queue %u: a place is another group's",
                                q->number);
    }
    if (lines != f->line_count || memcmp(waiting, f->waiting, sizeof(waiting)) != 0)
        return err_note_set(note, -ERR_CORRUPT, "queue %u miscounts groups, or what they wait for",
                            q->number);
    bool unsorted = f->inbox.len > 0 || f->old_first;
    if (unsorted && !f->sorting)
        return err_note_set(note, -ERR_CORRUPT, "queue %u: ready jobs would never be sorted",
                            q->number);
    return 0;
}
