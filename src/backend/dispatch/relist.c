/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's loop: pushes pending jobs to Redis, oldest first; then checks for each queue whether
 * its list has lost ids. No row of the store is locked meanwhile.
 *
 * A list has lost ids if three consecutive checks find fewer ids in it than the queue has ready
 * jobs, although a job has been ready since before the first of them: Redis lost them, or a worker
 * took ids and did not claim the jobs. The list is then built again from the store. */
#include "backend/dispatch/impl.h"

#include <string.h>

#include "base/mem.h"

#define PENDING_PAGES 50 /* of one pass; the next pass continues after them */
#define YOUNG_MS 2000    /* the node that made it ready may be about to push it */
#define LOST_CHECKS 3
#define REBUILD_AGAIN_S 60
#define SUSPECTS_MAX 100000

enum pass_step { PASS_PENDING, PASS_QUEUES, PASS_LENGTHS, PASS_REBUILD };

struct list_check {
    struct relist_pass *w;
    uint32_t number;
    uint64_t ready;
    int64_t oldest_ms;
    size_t len;
    char name[LIMIT_QUEUE_NAME_BYTES];
};

struct relist_pass {
    struct dispatch *d;
    enum pass_step step;
    struct op op;
    uint64_t after; /* pending: continue after this sequence */
    unsigned pages;
    char name[LIMIT_QUEUE_NAME_BYTES]; /* queues: continue after this name */
    size_t name_len;
    bool last; /* the last page of queues */
    struct list_check *checks;
    size_t check_count, lengths_left;
    size_t rebuild; /* index + 1 of the check whose list is built again */
    bool asked;     /* a query to the store is outstanding */
    bool resting;   /* waits until pushes have ended */
};

static void pass_continue(struct relist_pass *w);

static void pass_end(struct relist_pass *w)
{
    w->d->pass = NULL;
    w->d->passed_ms = dispatch_ms();
    mem_free(w->checks);
    mem_free(w);
}

static void ask(struct relist_pass *w, backend_reply_fn fn)
{
    w->asked = true;
    if (backend_submit(w->d->inner, &w->op, 1, fn, w) != 0)
        pass_end(w);
}

/* --- pending jobs --- */

static void pending_cb(void *ctx, const struct reply *r)
{
    struct relist_pass *w = ctx;
    struct dispatch *d = w->d;
    w->asked = false;
    if (d->closing || r->outcome != OUT_OK) {
        pass_end(w);
        dispatch_after(d);
        return;
    }
    int64_t now = clock_now(&d->config.clock).wall.ms;
    for (uint32_t i = 0; i < r->job_count; i++) {
        const struct job *j = &r->jobs[i].job;
        bool young = now - j->since.ms < YOUNG_MS && now >= j->since.ms;
        if (!young || d->pass_now)
            push_add(d, r->jobs[i].queue, (struct job_ref){.seq = j->seq, .hi = j->id_hi});
        w->after = j->seq;
    }
    if (r->job_count < d->batch || ++w->pages >= PENDING_PAGES)
        w->step = PASS_QUEUES;
    pushes_wake(d);
    pass_continue(w);
}

/* --- lists that are too short --- */

/* The value of a suspect: how many checks in a row, and the second of its last rebuild (0 =
 * none). */
#define CHECKS_BITS 2
_Static_assert(LOST_CHECKS < 1 << CHECKS_BITS, "checks");

static void suspect_put(struct dispatch *d, uint32_t queue, uint32_t checks, uint32_t rebuilt_s)
{
    if (map64_count(&d->suspects) >= SUSPECTS_MAX) { /* includes queues that were deleted */
        map64_done(&d->suspects);
        map64_init(&d->suspects);
    }
    /* Without memory the next check counts as the first. */
    if (map64_put(&d->suspects, queue, rebuilt_s << CHECKS_BITS | checks) != 0)
        map64_drop(&d->suspects, queue);
}

/* Whether its list is to be built again. */
static bool judge(struct dispatch *d, const struct list_check *l, int64_t length)
{
    bool is_short = length < (int64_t)l->ready && l->oldest_ms > d->interval_ms * LOST_CHECKS;
    bool is_long = length > 2 * (int64_t)l->ready + 1000; /* no worker takes ids from it */
    uint32_t known = map64_get(&d->suspects, l->number), rebuilt = known >> CHECKS_BITS;
    uint32_t checks = known & ((1 << CHECKS_BITS) - 1), now = (uint32_t)(dispatch_ms() / 1000) + 1;
    bool lately = rebuilt && now - rebuilt < REBUILD_AGAIN_S;
    if (!is_short && !is_long && !lately) {
        map64_drop(&d->suspects, l->number);
        return false;
    }
    checks = is_short || is_long ? checks + (checks < LOST_CHECKS) : 0;
    bool rebuild = checks == LOST_CHECKS && !lately;
    suspect_put(d, l->number, rebuild ? 0 : checks, rebuild ? now : rebuilt);
    if (rebuild)
        log_event(d->config.log, LOG_WARN, "dispatch_rebuild",
                  LOG_SPAN("queue", span_of(l->name, l->len)), LOG_INT("ready", l->ready),
                  LOG_INT("listed", length));
    return rebuild;
}

/* A check that needs nothing more is marked by its length. */
static void length_cb(void *ctx, redisReply *r)
{
    struct list_check *l = ctx;
    struct relist_pass *w = l->w;
    bool known = r && r->type == REDIS_REPLY_INTEGER;
    if (!known || !judge(w->d, l, r->integer))
        l->len = 0;
    if (r)
        freeReplyObject(r);
    if (--w->lengths_left > 0)
        return;
    w->step = PASS_REBUILD;
    w->rebuild = 0;
    pass_continue(w);
}

static void send_lengths(struct relist_pass *w)
{
    struct rargs a;
    redis_args_init(&a);
    w->lengths_left = w->check_count;
    for (size_t i = 0; i < w->check_count; i++) {
        struct list_check *l = &w->checks[i];
        struct list_server *s = list_server_of(w->d, span_of(l->name, l->len));
        l->w = w;
        redis_args_text(&a, "LLEN");
        list_server_key(s, span_of(l->name, l->len), &a);
        redis_conn_send(s->conn, &a, length_cb, l);
    }
    redis_args_done(&a);
}

static void queues_cb(void *ctx, const struct reply *r)
{
    struct relist_pass *w = ctx;
    struct dispatch *d = w->d;
    w->asked = false;
    mem_free(w->checks);
    w->check_count = 0;
    w->checks = d->closing || r->outcome != OUT_OK || r->queue_count == 0
                    ? NULL
                    : mem_array(r->queue_count, sizeof *w->checks);
    if (!w->checks) {
        pass_end(w);
        dispatch_after(d);
        return;
    }
    for (uint32_t i = 0; i < r->queue_count; i++) {
        const struct queue_view *q = &r->queues[i];
        memcpy(w->name, q->name.at, q->name.len);
        w->name_len = q->name.len;
        if (!list_server_up(list_server_of(d, q->name)))
            continue;
        struct list_check *l = &w->checks[w->check_count++];
        *l = (struct list_check){.number = q->number,
                                 .ready = q->counts.by_state[STATE_READY],
                                 .oldest_ms = q->counts.oldest_ready_ms,
                                 .len = q->name.len};
        memcpy(l->name, q->name.at, q->name.len);
    }
    w->last = r->queue_count < LIMIT_BATCH;
    w->step = PASS_LENGTHS;
    pass_continue(w);
}

/* --- building a list again --- */

static void ask_ready(struct relist_pass *w);

/* Read only now: ids that others pushed meanwhile were deleted with the old list. */
static void deleted_cb(void *ctx, redisReply *r)
{
    struct relist_pass *w = ctx;
    if (r)
        freeReplyObject(r);
    ask_ready(w);
}

/* Includes jobs that are pending or being pushed: they may already have been in the old list. An id
 * that is in the list twice does no harm. */
static void rebuild_cb(void *ctx, const struct reply *r)
{
    struct relist_pass *w = ctx;
    struct dispatch *d = w->d;
    w->asked = false;
    const struct list_check *l = &w->checks[w->rebuild - 1];
    if (d->closing || r->outcome != OUT_OK) {
        pass_end(w);
        dispatch_after(d);
        return;
    }
    for (uint32_t i = 0; i < r->job_count; i++) {
        const struct job *j = &r->jobs[i].job;
        push_again(d, span_of(l->name, l->len), (struct job_ref){.seq = j->seq, .hi = j->id_hi});
    }
    w->after = r->cursor;
    pushes_wake(d);
    pass_continue(w);
}

/* False: no list is to be built again. */
static bool rebuild_begin(struct relist_pass *w)
{
    while (w->rebuild < w->check_count && w->checks[w->rebuild].len == 0)
        w->rebuild++;
    if (w->rebuild == w->check_count)
        return false;
    const struct list_check *l = &w->checks[w->rebuild++];
    struct list_server *s = list_server_of(w->d, span_of(l->name, l->len));
    struct rargs a;
    redis_args_init(&a);
    redis_args_text(&a, "DEL");
    list_server_key(s, span_of(l->name, l->len), &a);
    redis_conn_send(s->conn, &a, deleted_cb, w);
    redis_args_done(&a);
    return true;
}

/* --- the steps of a pass --- */

static void ask_pending(struct relist_pass *w)
{
    w->op = (struct op){.kind = OP_PENDING, .pending = {.after = w->after, .limit = w->d->batch}};
    ask(w, pending_cb);
}

static void ask_queues(struct relist_pass *w)
{
    w->op = (struct op){.kind = OP_QUEUE_LIST,
                        .queue = {.after = span_of(w->name, w->name_len), .limit = LIMIT_BATCH}};
    ask(w, queues_cb);
}

static void ask_ready(struct relist_pass *w)
{
    const struct list_check *l = &w->checks[w->rebuild - 1];
    w->op = (struct op){.kind = OP_LIST,
                        .list = {.queue = span_of(l->name, l->len),
                                 .filter = {.states = STATE_BIT(STATE_READY)},
                                 .after = w->after,
                                 .limit = LIMIT_BATCH}};
    ask(w, rebuild_cb);
}

static void pass_rebuild(struct relist_pass *w)
{
    if (w->rebuild && w->after) { /* further pages of the current list */
        ask_ready(w);
        return;
    }
    w->after = 0;
    if (rebuild_begin(w))
        return;
    if (w->last) {
        struct dispatch *d = w->d;
        pass_end(w);
        dispatch_after(d);
    } else {
        w->step = PASS_QUEUES;
        ask_queues(w);
    }
}

/* Waits for the pushes, because what it finds is kept in memory. */
static void pass_continue(struct relist_pass *w)
{
    struct dispatch *d = w->d;
    if (d->closing) {
        pass_end(w);
        return;
    }
    w->resting = pushes_full(d);
    if (w->resting)
        return; /* pass_wake continues */
    if (w->step == PASS_PENDING) {
        ask_pending(w);
    } else if (w->step == PASS_QUEUES) {
        w->after = 0;
        d->pass_now = false;
        ask_queues(w);
    } else if (w->step == PASS_LENGTHS && w->check_count) {
        send_lengths(w);
    } else {
        w->step = PASS_REBUILD;
        pass_rebuild(w);
    }
}

static void pass_begin(struct dispatch *d)
{
    struct relist_pass *w = mem_zalloc(sizeof *w);
    if (!w)
        return;
    w->d = d;
    d->pass = w;
    pass_continue(w);
}

void pass_wake(struct dispatch *d)
{
    bool due = d->pass_now || dispatch_ms() - d->passed_ms >= d->interval_ms;
    bool up = list_server_up(&d->servers[LIST_SERVER_HIGH]) ||
              list_server_up(&d->servers[LIST_SERVER_LOW]);
    if (d->pass && d->pass->resting)
        pass_continue(d->pass);
    else if (!d->pass && due && up && !d->closing && backend_leads(d->inner))
        pass_begin(d);
}

void pass_cancel(struct dispatch *d)
{
    if (d->pass && !d->pass->asked) /* otherwise its reply ends it */
        pass_end(d->pass);
}
