/* SPDX-License-Identifier: Apache-2.0 */
/* One answer made of those of several children. Texts stay where they are: in the copies that the
 * call keeps, or in the last child's answer. */
#include <stdlib.h>

#include "backend/router/impl.h"
#include "base/check.h"
#include "core/limits.h"

/* --- the simple ones --- */

int merge_first(struct router_call *c, struct reply *out)
{
    *out = *c->answers->reply;
    return 0;
}

int merge_last(struct router_call *c, struct reply *out)
{
    const struct answer *at = c->answers;
    while (at->next)
        at = at->next;
    *out = *at->reply;
    return 0;
}

/* OUT_OK when one of them says so. */
int merge_any(struct router_call *c, struct reply *out)
{
    *out = *c->answers->reply;
    for (const struct answer *at = c->answers; at; at = at->next) {
        if (at->reply->outcome == OUT_OK)
            *out = *at->reply;
    }
    return 0;
}

/* OUT_OK only when all say so, else the first refusal. */
static void take_worst(const struct router_call *c, struct reply *out)
{
    CHECK(c->answers);
    *out = *c->answers->reply;
    for (const struct answer *at = c->answers->next; at && out->outcome == OUT_OK; at = at->next)
        *out = *at->reply;
}

/* One of them had suspected the clock. */
int merge_accept_clock(struct router_call *c, struct reply *out)
{
    bool was_suspect = false;
    for (const struct answer *at = c->answers; at; at = at->next)
        was_suspect = was_suspect || at->reply->was_suspect;
    take_worst(c, out);
    out->was_suspect = was_suspect;
    return 0;
}

/* What they changed is added up. */
int merge_changed(struct router_call *c, struct reply *out)
{
    uint64_t changed = 0;
    for (const struct answer *at = c->answers; at; at = at->next)
        changed += at->reply->changed;
    take_worst(c, out);
    out->changed = changed;
    return 0;
}

/* Who gave no part to what may be partial; false = no store gave one, and *out is the first
 * one's refusal. */
static bool take_parts(const struct router_call *c, struct reply *out)
{
    const struct reply *first = c->answers->reply;
    uint64_t left_out = c->passed_over;
    bool any = false;
    for (const struct answer *at = c->answers; at; at = at->next) {
        bool gave = at->reply->outcome != OUT_UNAVAILABLE;
        left_out &= ~router_bit(at->from);
        left_out |= gave ? at->reply->left_out : router_bit(at->from);
        any = any || gave;
    }
    if (!any)
        *out = *first;
    out->left_out = left_out;
    return any;
}

/* --- jobs --- */

static int join_jobs(struct router_call *c, struct reply *out)
{
    size_t count = 0;
    for (const struct answer *at = c->answers; at; at = at->next)
        count += at->reply->job_count;
    struct job_view *jobs = arena_array(&c->base.arena, count, sizeof *jobs);
    if (!jobs)
        return -ERR_NOMEM;
    out->jobs = jobs;
    for (const struct answer *at = c->answers; at; at = at->next) {
        if (at->reply->job_count > 0)
            memcpy(jobs, at->reply->jobs, at->reply->job_count * sizeof *jobs);
        jobs += at->reply->job_count;
    }
    out->job_count = (uint32_t)count;
    return 0;
}

/* What the reachable ones gave is given out; if no store gave anything, the reply is the first
 * one's refusal. */
int merge_claim(struct router_call *c, struct reply *out)
{
    *out = *c->answers->reply;
    for (const struct answer *at = c->answers; at && out->outcome != OUT_OK; at = at->next) {
        if (at->reply->outcome == OUT_OK)
            *out = *at->reply;
    }
    return out->outcome == OUT_OK ? join_jobs(c, out) : 0;
}

/* Where a page that is full ends between two children, the cursor is the border. */
int merge_list(struct router_call *c, struct reply *out)
{
    uint64_t as_of = router_position_besides(c);
    for (const struct answer *at = c->answers; at; at = at->next) {
        as_of += at->reply->as_of;
        out->cursor = at->reply->cursor;
    }
    out->as_of = as_of;
    struct child *beyond = out->cursor ? NULL : router_list_child(c, c->child, NULL);
    if (beyond)
        out->cursor = ((uint64_t)beyond->number + c->base.op->list.newest_first) << SLOT_SHIFT;
    return join_jobs(c, out);
}

/* --- queues: by name; of two with one name that which the routes mean --- */

struct named_queue {
    const struct queue_view *view;
    bool stray; /* its name is routed to another backend */
};

static int by_queue_name(const void *a, const void *b)
{
    const struct named_queue *x = a, *y = b;
    int order = span_order(x->view->name, y->view->name);
    return order ? order : x->stray - y->stray;
}

static size_t collect_queues(struct router_call *c, struct named_queue *found)
{
    size_t n = 0;
    for (const struct answer *at = c->answers; at; at = at->next) {
        for (uint32_t i = 0; i < at->reply->queue_count; i++) {
            const struct queue_view *view = &at->reply->queues[i];
            bool stray = router_child_of(router_of_call(c), view->name) != at->from;
            found[n++] = (struct named_queue){view, stray};
        }
    }
    return n;
}

int merge_queues(struct router_call *c, struct reply *out)
{
    size_t limit = c->base.op->queue.limit && c->base.op->queue.limit < LIMIT_BATCH
                       ? c->base.op->queue.limit
                       : LIMIT_BATCH;
    size_t count = 0, n = 0;
    if (!take_parts(c, out))
        return 0;
    for (const struct answer *at = c->answers; at; at = at->next)
        count += at->reply->queue_count;
    struct named_queue *found = arena_array(&c->base.arena, count, sizeof *found);
    struct queue_view *queues = arena_array(&c->base.arena, count, sizeof *queues);
    if (!found || !queues)
        return -ERR_NOMEM;
    count = collect_queues(c, found);
    qsort(found, count, sizeof *found, by_queue_name);
    for (size_t i = 0; i < count && n < limit; i++) {
        if (n > 0 && span_equal(queues[n - 1].name, found[i].view->name))
            continue;
        queues[n] = *found[i].view;
        queues[n].stand_in =
            (out->left_out & router_bit(router_child_of(router_of_call(c), queues[n].name))) != 0;
        n++;
    }
    out->queues = queues;
    out->queue_count = (uint32_t)n;
    return 0;
}

/* --- workers: each once, with all that it holds; those longest at it first, as far as the lists
 * of the children tell --- */

struct ranked_worker {
    struct worker_view view;
    uint32_t rank;
};

static int by_worker_name(const void *a, const void *b)
{
    const struct ranked_worker *x = a, *y = b;
    int order = span_order(x->view.name, y->view.name);
    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_rank(const void *a, const void *b)
{
    const struct ranked_worker *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return span_order(x->view.name, y->view.name);
}

static void merge_into(struct worker_view *to, const struct worker_view *from)
{
    to->running += from->running;
    for (uint32_t i = 0; i < from->held_count && to->held_count < WORKER_HELD_SHOWN; i++)
        to->held[to->held_count++] = from->held[i];
}

static size_t merge_by_name(struct ranked_worker *all, size_t count)
{
    size_t n = 0;
    qsort(all, count, sizeof *all, by_worker_name);
    for (size_t i = 0; i < count; i++) {
        if (n > 0 && span_equal(all[n - 1].view.name, all[i].view.name))
            merge_into(&all[n - 1].view, &all[i].view);
        else
            all[n++] = all[i];
    }
    qsort(all, n, sizeof *all, by_rank);
    return n;
}

int merge_workers(struct router_call *c, struct reply *out)
{
    size_t count = 0;
    for (const struct answer *at = c->answers; at; at = at->next)
        count += at->reply->worker_count;
    struct ranked_worker *all = arena_array(&c->base.arena, count, sizeof *all);
    struct worker_view *workers = arena_array(&c->base.arena, count, sizeof *workers);
    if (!all || !workers)
        return -ERR_NOMEM;
    count = 0;
    for (const struct answer *at = c->answers; at; at = at->next) {
        out->worker_total += at->reply->worker_total;
        for (uint32_t i = 0; i < at->reply->worker_count; i++)
            all[count++] = (struct ranked_worker){at->reply->workers[i], i};
    }
    size_t n = merge_by_name(all, count);
    out->worker_total -= count - n;
    n = n < WORKERS_MAX ? n : WORKERS_MAX;
    for (size_t i = 0; i < n; i++)
        workers[i] = all[i].view;
    out->workers = workers;
    out->worker_count = (uint32_t)n;
    return 0;
}

/* --- attempts that went wrong, newest first --- */

static int newest_attempt(const void *a, const void *b)
{
    const struct attempt_view *x = a, *y = b;
    return (x->ended_at.ms < y->ended_at.ms) - (x->ended_at.ms > y->ended_at.ms);
}

int merge_exceptions(struct router_call *c, struct reply *out)
{
    uint32_t asked = c->base.op->exceptions.limit;
    size_t limit = asked > 0 && asked < LIMIT_EXCEPTIONS ? asked : LIMIT_EXCEPTIONS;
    size_t count = 0;
    for (const struct answer *at = c->answers; at; at = at->next)
        count += at->reply->attempt_count;
    struct attempt_view *all = arena_array(&c->base.arena, count, sizeof *all);
    if (!all)
        return -ERR_NOMEM;
    count = 0;
    for (const struct answer *at = c->answers; at; at = at->next) {
        for (uint32_t i = 0; i < at->reply->attempt_count; i++)
            all[count++] = at->reply->attempts[i];
    }
    qsort(all, count, sizeof *all, newest_attempt);
    out->attempts = all;
    out->attempt_count = (uint32_t)(count < limit ? count : limit);
    return 0;
}

/* --- alerts: the rules of the default backend, with what holds on each --- */

#define RAISED_SHOWN 100

static const struct alert_view *rule_in(const struct reply *r, struct span name)
{
    for (uint32_t i = 0; i < r->alert_count; i++) {
        if (span_equal(r->alerts[i].name, name))
            return &r->alerts[i];
    }
    return NULL;
}

static int by_since(const void *a, const void *b)
{
    const struct raised_view *x = a, *y = b;
    return (x->since.ms > y->since.ms) - (x->since.ms < y->since.ms);
}

/* Adds what the other children know of the rule. */
static int fold_alert(struct router_call *c, struct alert_view *v)
{
    size_t room = v->raised_count;
    for (const struct answer *at = c->answers->next; at; at = at->next) {
        const struct alert_view *other = rule_in(at->reply, v->name);
        room += other ? other->raised_count : 0;
    }
    struct raised_view *raised = arena_array(&c->base.arena, room, sizeof *raised);
    size_t n = v->raised_count;
    if (!raised)
        return -ERR_NOMEM;
    if (n > 0)
        memcpy(raised, v->raised, n * sizeof *raised);
    for (const struct answer *at = c->answers->next; at; at = at->next) {
        const struct alert_view *other = rule_in(at->reply, v->name);
        for (uint32_t i = 0; other && i < other->raised_count; i++)
            raised[n++] = other->raised[i];
        v->raised_total += other ? other->raised_total : 0;
        v->pending += other ? other->pending : 0;
        v->dead += other ? other->dead : 0;
    }
    qsort(raised, n, sizeof *raised, by_since);
    v->raised = raised;
    v->raised_count = (uint32_t)(n < RAISED_SHOWN ? n : RAISED_SHOWN);
    return 0;
}

int merge_alerts(struct router_call *c, struct reply *out)
{
    const struct reply *first = c->answers->reply;
    if (!take_parts(c, out))
        return 0;
    if (out->left_out & router_bit(&router_of_call(c)->children[0])) {
        out->outcome = OUT_UNAVAILABLE;
        out->note = "the default backend, whose alert rules count, does not answer";
        return 0;
    }
    struct alert_view *all =
        arena_copy(&c->base.arena, first->alerts, first->alert_count * sizeof *all);
    if (!all)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < first->alert_count; i++) {
        if (fold_alert(c, &all[i]) != 0)
            return -ERR_NOMEM;
    }
    out->alerts = all;
    out->alert_count = first->alert_count;
    return 0;
}

/* --- notices and breakers --- */

/* A full page that ends with one child's goes on with the next one's. */
static uint64_t notices_cursor(const struct router_call *c)
{
    const struct router *r = router_of_call(c);
    const struct answer *last = c->answers;
    while (last->next)
        last = last->next;
    uint32_t limit = c->base.op->notice.limit > 0 ? c->base.op->notice.limit : LIMIT_BATCH;
    unsigned beyond = last->from->index + 1;
    if (last->reply->notice_cursor || c->got < limit || beyond >= r->child_count)
        return last->reply->notice_cursor;
    return (uint64_t)r->children[beyond].number << SLOT_SHIFT;
}

static int join_notices(struct router_call *c, struct reply *out)
{
    size_t count = 0;
    for (const struct answer *at = c->answers; at; at = at->next)
        count += at->reply->notice_count;
    struct notice_view *all = arena_array(&c->base.arena, count, sizeof *all);
    if (!all)
        return -ERR_NOMEM;
    count = 0;
    for (const struct answer *at = c->answers; at; at = at->next) {
        struct wall_time due = at->reply->next_due;
        for (uint32_t i = 0; i < at->reply->notice_count; i++)
            all[count++] = at->reply->notices[i];
        if (due.ms && (!out->next_due.ms || due.ms < out->next_due.ms))
            out->next_due = due;
    }
    out->notices = all;
    out->notice_count = (uint32_t)count;
    return 0;
}

int merge_notices(struct router_call *c, struct reply *out)
{
    out->notice_cursor = notices_cursor(c);
    return join_notices(c, out);
}

static int by_due(const void *a, const void *b)
{
    const struct notice_view *x = a, *y = b;
    return (x->tried.due.ms > y->tried.due.ms) - (x->tried.due.ms < y->tried.due.ms);
}

int merge_notices_due(struct router_call *c, struct reply *out)
{
    int err = take_parts(c, out) ? join_notices(c, out) : 0;
    if (!err && out->notice_count > 0)
        qsort((void *)out->notices, out->notice_count, sizeof *out->notices, by_due);
    return err;
}

/* Of one target the breaker that lets least through comes first. */
static int by_target(const void *a, const void *b)
{
    static const int closedness[BREAKER_STATE_COUNT] = {
        [BREAKER_OPEN] = 0, [BREAKER_HALF_OPEN] = 1, [BREAKER_CLOSED] = 2};
    const struct breaker_view *x = a, *y = b;
    int order = span_order(x->target, y->target);
    return order ? order : closedness[x->breaker.state] - closedness[y->breaker.state];
}

int merge_breakers(struct router_call *c, struct reply *out)
{
    size_t count = 0, n = 0;
    if (!take_parts(c, out))
        return 0;
    for (const struct answer *at = c->answers; at; at = at->next)
        count += at->reply->breaker_count;
    struct breaker_view *all = arena_array(&c->base.arena, count, sizeof *all);
    if (!all)
        return -ERR_NOMEM;
    count = 0;
    for (const struct answer *at = c->answers; at; at = at->next) {
        for (uint32_t i = 0; i < at->reply->breaker_count; i++)
            all[count++] = at->reply->breakers[i];
    }
    qsort(all, count, sizeof *all, by_target);
    for (size_t i = 0; i < count; i++) {
        if (n == 0 || !span_equal(all[n - 1].target, all[i].target))
            all[n++] = all[i];
    }
    out->breakers = all;
    out->breaker_count = (uint32_t)n;
    return 0;
}
