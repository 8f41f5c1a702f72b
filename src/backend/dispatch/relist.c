/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's loop: jobs that are pending go to Redis, oldest first; then each queue is looked at
 * whether its list has lost ids. No row of the store is locked meanwhile.
 *
 * A list that has fewer ids than its queue has ready jobs, at three looks in a row and though a job
 * has been ready since before the first of them, has lost some: Redis forgot them, or whoever took
 * them did not claim. It is made anew from the store. */
#include "backend/dispatch/impl.h"

#include <string.h>

#include "base/mem.h"

#define PENDING_PAGES 50 /* of one walk; the next goes on behind them */
#define YOUNG_MS 2000    /* whoever made it ready may be about to push it */
#define LOST_LOOKS 3
#define REBUILD_AGAIN_S 60
#define SUSPECTS_MAX 100000

enum walk_step { WALK_PENDING, WALK_QUEUES, WALK_LENGTHS, WALK_REBUILD };

struct look {
    struct walk *w;
    uint32_t number;
    uint64_t ready;
    int64_t oldest_ms;
    size_t len;
    char name[LIMIT_QUEUE_NAME_BYTES];
};

struct walk {
    struct dispatch *d;
    enum walk_step step;
    struct op op;
    uint64_t after; /* pending: behind this sequence */
    unsigned pages;
    char name[LIMIT_QUEUE_NAME_BYTES]; /* queues: behind this name */
    size_t name_len;
    bool last; /* of the queues */
    struct look *looks;
    size_t look_count, lengths_left;
    size_t rebuild; /* index + 1 of the look whose list is made anew */
    bool asked;     /* the store has a question of it */
    bool resting;   /* until pushes are through */
};

static void walk_on(struct walk *w);

static void walk_end(struct walk *w)
{
    w->d->walk = NULL;
    w->d->walked_ms = dispatch_ms();
    mem_free(w->looks);
    mem_free(w);
}

static void ask(struct walk *w, backend_reply_fn fn)
{
    w->asked = true;
    if (backend_submit(w->d->inner, &w->op, 1, fn, w) != 0)
        walk_end(w);
}

/* --- what is pending --- */

static void pending_cb(void *ctx, const struct reply *r)
{
    struct walk *w = ctx;
    struct dispatch *d = w->d;
    w->asked = false;
    if (d->closing || r->outcome != OUT_OK) {
        walk_end(w);
        dispatch_after(d);
        return;
    }
    int64_t now = clock_now(&d->config.clock).wall.ms;
    for (uint32_t i = 0; i < r->job_count; i++) {
        const struct job *j = &r->jobs[i].job;
        bool young = now - j->since.ms < YOUNG_MS && now >= j->since.ms;
        if (!young || d->walk_now)
            push_add(d, r->jobs[i].queue, (struct job_ref){.seq = j->seq, .hi = j->id_hi});
        w->after = j->seq;
    }
    if (r->job_count < d->batch || ++w->pages >= PENDING_PAGES)
        w->step = WALK_QUEUES;
    pushes_wake(d);
    walk_on(w);
}

/* --- lists that are too short --- */

/* What is known of a suspect: how often in a row, and the second of its last rebuild (0 = none). */
#define LOOKS_BITS 2
_Static_assert(LOST_LOOKS < 1 << LOOKS_BITS, "looks");

static void suspect_put(struct dispatch *d, uint32_t queue, uint32_t looks, uint32_t rebuilt_s)
{
    if (map64_count(&d->suspects) >= SUSPECTS_MAX) { /* of queues that went, too */
        map64_done(&d->suspects);
        map64_init(&d->suspects);
    }
    /* Without memory it is looked at afresh. */
    if (map64_put(&d->suspects, queue, rebuilt_s << LOOKS_BITS | looks) != 0)
        map64_drop(&d->suspects, queue);
}

/* Whether its list is to be made anew. */
static bool judge(struct dispatch *d, const struct look *l, int64_t length)
{
    bool is_short = length < (int64_t)l->ready && l->oldest_ms > d->interval_ms * LOST_LOOKS;
    bool is_long = length > 2 * (int64_t)l->ready + 1000; /* nobody takes ids from it */
    uint32_t known = map64_get(&d->suspects, l->number), rebuilt = known >> LOOKS_BITS;
    uint32_t looks = known & ((1 << LOOKS_BITS) - 1), now = (uint32_t)(dispatch_ms() / 1000) + 1;
    bool lately = rebuilt && now - rebuilt < REBUILD_AGAIN_S;
    if (!is_short && !is_long && !lately) {
        map64_drop(&d->suspects, l->number);
        return false;
    }
    looks = is_short || is_long ? looks + (looks < LOST_LOOKS) : 0;
    bool anew = looks == LOST_LOOKS && !lately;
    suspect_put(d, l->number, anew ? 0 : looks, anew ? now : rebuilt);
    if (anew)
        log_event(d->config.log, LOG_WARN, "dispatch_rebuild",
                  LOG_SPAN("queue", span_of(l->name, l->len)), LOG_INT("ready", l->ready),
                  LOG_INT("listed", length));
    return anew;
}

/* A look that needs nothing more is forgotten by its length. */
static void length_cb(void *ctx, redisReply *r)
{
    struct look *l = ctx;
    struct walk *w = l->w;
    bool known = r && r->type == REDIS_REPLY_INTEGER;
    if (!known || !judge(w->d, l, r->integer))
        l->len = 0;
    if (r)
        freeReplyObject(r);
    if (--w->lengths_left > 0)
        return;
    w->step = WALK_REBUILD;
    w->rebuild = 0;
    walk_on(w);
}

static void send_lengths(struct walk *w)
{
    struct rargs a;
    redis_args_init(&a);
    w->lengths_left = w->look_count;
    for (size_t i = 0; i < w->look_count; i++) {
        struct look *l = &w->looks[i];
        struct side *s = side_of(w->d, span_of(l->name, l->len));
        l->w = w;
        redis_args_text(&a, "LLEN");
        side_key(s, span_of(l->name, l->len), &a);
        redis_conn_send(s->conn, &a, length_cb, l);
    }
    redis_args_done(&a);
}

static void queues_cb(void *ctx, const struct reply *r)
{
    struct walk *w = ctx;
    struct dispatch *d = w->d;
    w->asked = false;
    mem_free(w->looks);
    w->look_count = 0;
    w->looks = d->closing || r->outcome != OUT_OK || r->queue_count == 0
                   ? NULL
                   : mem_array(r->queue_count, sizeof *w->looks);
    if (!w->looks) {
        walk_end(w);
        dispatch_after(d);
        return;
    }
    for (uint32_t i = 0; i < r->queue_count; i++) {
        const struct queue_view *q = &r->queues[i];
        memcpy(w->name, q->name.at, q->name.len);
        w->name_len = q->name.len;
        if (!side_up(side_of(d, q->name)))
            continue;
        struct look *l = &w->looks[w->look_count++];
        *l = (struct look){.number = q->number,
                           .ready = q->counts.by_state[STATE_READY],
                           .oldest_ms = q->counts.oldest_ready_ms,
                           .len = q->name.len};
        memcpy(l->name, q->name.at, q->name.len);
    }
    w->last = r->queue_count < LIMIT_BATCH;
    w->step = WALK_LENGTHS;
    walk_on(w);
}

/* --- a list made anew --- */

static void ask_ready(struct walk *w);

/* Asked for now, not before: what others listed meanwhile went with the old list. */
static void deleted_cb(void *ctx, redisReply *r)
{
    struct walk *w = ctx;
    if (r)
        freeReplyObject(r);
    ask_ready(w);
}

/* Also those that are pending, or on their way: they may have been in the old list already. An id
 * that is there twice does no harm. */
static void rebuild_cb(void *ctx, const struct reply *r)
{
    struct walk *w = ctx;
    struct dispatch *d = w->d;
    w->asked = false;
    const struct look *l = &w->looks[w->rebuild - 1];
    if (d->closing || r->outcome != OUT_OK) {
        walk_end(w);
        dispatch_after(d);
        return;
    }
    for (uint32_t i = 0; i < r->job_count; i++) {
        const struct job *j = &r->jobs[i].job;
        push_again(d, span_of(l->name, l->len), (struct job_ref){.seq = j->seq, .hi = j->id_hi});
    }
    w->after = r->cursor;
    pushes_wake(d);
    walk_on(w);
}

/* False: there is none. */
static bool rebuild_begin(struct walk *w)
{
    while (w->rebuild < w->look_count && w->looks[w->rebuild].len == 0)
        w->rebuild++;
    if (w->rebuild == w->look_count)
        return false;
    const struct look *l = &w->looks[w->rebuild++];
    struct side *s = side_of(w->d, span_of(l->name, l->len));
    struct rargs a;
    redis_args_init(&a);
    redis_args_text(&a, "DEL");
    side_key(s, span_of(l->name, l->len), &a);
    redis_conn_send(s->conn, &a, deleted_cb, w);
    redis_args_done(&a);
    return true;
}

/* --- one after the other --- */

static void ask_pending(struct walk *w)
{
    w->op = (struct op){.kind = OP_PENDING, .pending = {.after = w->after, .limit = w->d->batch}};
    ask(w, pending_cb);
}

static void ask_queues(struct walk *w)
{
    w->op = (struct op){.kind = OP_QUEUE_LIST,
                        .queue = {.after = span_of(w->name, w->name_len), .limit = LIMIT_BATCH}};
    ask(w, queues_cb);
}

static void ask_ready(struct walk *w)
{
    const struct look *l = &w->looks[w->rebuild - 1];
    w->op = (struct op){.kind = OP_LIST,
                        .list = {.queue = span_of(l->name, l->len),
                                 .filter = {.states = STATE_BIT(STATE_READY)},
                                 .after = w->after,
                                 .limit = LIMIT_BATCH}};
    ask(w, rebuild_cb);
}

static void walk_rebuild(struct walk *w)
{
    if (w->rebuild && w->after) { /* pages of the one under way */
        ask_ready(w);
        return;
    }
    w->after = 0;
    if (rebuild_begin(w))
        return;
    if (w->last) {
        struct dispatch *d = w->d;
        walk_end(w);
        dispatch_after(d);
    } else {
        w->step = WALK_QUEUES;
        ask_queues(w);
    }
}

/* Not ahead of the pushes: what it finds has to wait in memory. */
static void walk_on(struct walk *w)
{
    struct dispatch *d = w->d;
    if (d->closing) {
        walk_end(w);
        return;
    }
    w->resting = pushes_full(d);
    if (w->resting)
        return; /* walk_wake comes back */
    if (w->step == WALK_PENDING) {
        ask_pending(w);
    } else if (w->step == WALK_QUEUES) {
        w->after = 0;
        d->walk_now = false;
        ask_queues(w);
    } else if (w->step == WALK_LENGTHS && w->look_count) {
        send_lengths(w);
    } else {
        w->step = WALK_REBUILD;
        walk_rebuild(w);
    }
}

static void walk_begin(struct dispatch *d)
{
    struct walk *w = mem_zalloc(sizeof *w);
    if (!w)
        return;
    w->d = d;
    d->walk = w;
    walk_on(w);
}

void walk_wake(struct dispatch *d)
{
    bool due = d->walk_now || dispatch_ms() - d->walked_ms >= d->interval_ms;
    bool up = side_up(&d->sides[SIDE_HIGH]) || side_up(&d->sides[SIDE_LOW]);
    if (d->walk && d->walk->resting)
        walk_on(d->walk);
    else if (!d->walk && due && up && !d->closing && backend_leads(d->inner))
        walk_begin(d);
}

void walk_forget(struct dispatch *d)
{
    if (d->walk && !d->walk->asked) /* else its answer ends it */
        walk_end(d->walk);
}
