/* SPDX-License-Identifier: Apache-2.0 */
/* Claims, and those that wait for a job.
 *
 * A claim that may wait is first linked to every queue it names (which watches them), then
 * submitted: a job that becomes ready after the empty reply therefore causes a signal. A signal
 * repeats the claim of the first waiter of that queue only. One signal may stand for many jobs, so
 * each claim that got jobs wakes the next two waiters; the first empty reply ends the chain.
 * Waiters keep their place in the line until they have a job.
 *
 * If there is no memory to submit, a waiter keeps waiting, and a little later the first waiter of
 * every line is woken again.
 *
 * A new claim that names only queues in whose lines a claim is parked joins those lines without
 * being submitted: the chain that wakes the others reaches it, and it cannot overtake. Those that
 * are submitted already come before it anyway.
 *
 * Deadlines are in loop time: wait_ms concerns the connection, not the clock of the jobs. */
#include <string.h>

#include "base/check.h"
#include "base/digest/random.h"
#include "base/mem.h"
#include "broker/broker_impl.h"

#define WATCHES_IDLE_MAX 1024
#define WAKE_NEXT 2
#define WAKE_LOOK 64 /* outstanding claims that a chain skips: about its width */
#define STARVED_MS 50

static void ask(struct broker_claim *c);

/* ---- queues with waiting claims ---- */

static void idle_unlink(struct claims *cs, struct watched *w)
{
    *(w->idle_prev ? &w->idle_prev->idle_next : &cs->idle_first) = w->idle_next;
    *(w->idle_next ? &w->idle_next->idle_prev : &cs->idle_last) = w->idle_prev;
    w->idle_prev = w->idle_next = NULL;
    w->idle = false;
    cs->idle_count--;
}

static void watched_free(struct broker *b, struct watched *w)
{
    map128_drop(&b->claims.watched, w->key);
    backend_unwatch(b->config.backend, w->watch);
    mem_free(w);
}

static void idle_link(struct broker *b, struct watched *w)
{
    struct claims *cs = &b->claims;
    w->idle = true;
    w->idle_prev = cs->idle_last;
    *(cs->idle_last ? &cs->idle_last->idle_next : &cs->idle_first) = w;
    cs->idle_last = w;
    if (++cs->idle_count > WATCHES_IDLE_MAX) {
        struct watched *oldest = cs->idle_first;
        idle_unlink(cs, oldest);
        watched_free(b, oldest);
    }
}

/* Repeats the claim of the first in line that has no signal yet. */
static void wake(struct watched *w)
{
    for (struct waiter_link *link = w->first; link; link = link->next) {
        struct broker_claim *c = link->claim;
        if (c->cancelled)
            continue;
        if (c->state == CLAIM_PARKED) {
            ask(c);
            return;
        }
        if (!c->signalled) {
            c->signalled = true;
            return;
        }
    }
}

/* c got jobs of this line, so there may be more of them. Claims that were submitted after it find
 * what it left: they continue the chain. Those from before it may have come too early. */
static void chain(const struct broker_claim *c, struct watched *w)
{
    unsigned asked = 0, looked = 0;
    struct waiter_link *link = w->first;
    for (; link && asked < WAKE_NEXT && looked < WAKE_LOOK; link = link->next) {
        struct broker_claim *other = link->claim;
        if (other == c || other->cancelled)
            continue;
        if (other->state == CLAIM_PARKED) {
            ask(other);
            asked++;
        } else {
            other->signalled = other->signalled || other->want.nonce < c->want.nonce;
            looked++;
        }
    }
}

/* Submitted at once, so that the claim is part of the commit of the job that woke it. */
static void signal_cb(void *ctx)
{
    struct watched *w = ctx;
    wake(w);
    broker_submit_open(w->broker);
}

static struct watched *watched_get(struct broker *b, struct span queue)
{
    struct hash128 key = hash128_of(b->hash_key, queue);
    struct watched *w = (struct watched *)(uintptr_t)map128_get(&b->claims.watched, key);
    if (w)
        return w;
    w = mem_zalloc(sizeof(*w));
    if (!w || map128_put(&b->claims.watched, key, (uintptr_t)w) != 0) {
        mem_free(w);
        return NULL;
    }
    w->broker = b;
    w->key = key;
    if (backend_watch(b->config.backend, queue, signal_cb, w, &w->watch) != 0) {
        watched_free(b, w);
        return NULL;
    }
    idle_link(b, w);
    return w;
}

static void link_to(struct waiter_link *link, struct watched *w, struct broker_claim *c)
{
    if (w->idle)
        idle_unlink(&w->broker->claims, w);
    *link = (struct waiter_link){.claim = c, .watched = w, .prev = w->last};
    *(w->last ? &w->last->next : &w->first) = link;
    w->last = link;
}

static void unlink_all(struct broker_claim *c)
{
    for (uint32_t i = 0; i < c->link_count; i++) {
        struct waiter_link *link = &c->links[i];
        struct watched *w = link->watched;
        *(link->prev ? &link->prev->next : &w->first) = link->next;
        *(link->next ? &link->next->prev : &w->last) = link->prev;
        if (!w->first)
            idle_link(c->broker, w);
    }
    c->link_count = 0;
}

bool claims_wait_for(const struct broker *b, struct span queue)
{
    const struct watched *w = (const struct watched *)(uintptr_t)map128_get(
        &b->claims.watched, hash128_of(b->hash_key, queue));
    return w && w->first;
}

/* ---- deadlines ---- */

static void moved_cb(void *ctx, struct heap_entry e, size_t index)
{
    (void)ctx;
    ((struct broker_claim *)(uintptr_t)e.seq)->heap_index = index;
}

static void timer_cb(uv_timer_t *timer);

static void arm_timer(struct broker *b)
{
    struct heap_entry top;
    bool any = heap_top(&b->claims.deadlines, &top);
    uint64_t now = uv_now(b->config.loop);
    uint64_t wait = any && top.order > now ? top.order - now : 0;
    if (b->claims.starved && (!any || wait > STARVED_MS))
        wait = STARVED_MS;
    if (any || b->claims.starved)
        uv_timer_start(&b->claims.timer, timer_cb, wait, 0);
    else
        uv_timer_stop(&b->claims.timer);
}

static void deadline_drop(struct broker_claim *c)
{
    if (!c->deadline)
        return;
    heap_remove(&c->broker->claims.deadlines, c->heap_index);
    c->deadline = 0;
}

/* ---- the life cycle of a claim ---- */

static void set_state(struct broker_claim *c, enum claim_state state)
{
    struct claims *cs = &c->broker->claims;
    bool was = c->state == CLAIM_PARKED, is = state == CLAIM_PARKED;
    cs->parked += is;
    cs->parked -= was;
    for (uint32_t i = 0; i < c->link_count; i++) {
        c->links[i].watched->parked += is;
        c->links[i].watched->parked -= was;
    }
    c->state = state;
}

/* Removes it from every list; its memory, which the reply may point into, stays. */
static void claim_leave(struct broker_claim *c)
{
    struct claims *cs = &c->broker->claims;
    if (cs->drained_next == c)
        cs->drained_next = c->next;
    set_state(c, CLAIM_ASKED);
    unlink_all(c);
    deadline_drop(c);
    if (c->waits)
        claimed_seen(c->broker, c->want.queues, c->want.queue_count);
    *(c->prev ? &c->prev->next : &cs->first) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    cs->count--;
}

static void claim_free(struct broker_claim *c)
{
    workers_wait_ended(c->broker, c->want.worker);
    claim_leave(c);
    mem_free(c);
}

static void finish(struct broker_claim *c, const struct reply *reply)
{
    workers_wait_ended(c->broker, c->want.worker);
    claim_leave(c);
    c->fn(c->ctx, reply);
    mem_free(c);
}

static void finish_empty(struct broker_claim *c)
{
    struct reply none = {.kind = OP_CLAIM, .outcome = OUT_OK};
    finish(c, &none);
}

/* It is not known any more which claims were not submitted, so all lines get a signal. */
static void starved_wake(struct broker *b)
{
    if (!b->claims.starved)
        return;
    b->claims.starved = false;
    for (struct broker_claim *c = b->claims.first; c; c = c->next)
        for (uint32_t i = 0; i < c->link_count; i++)
            if (c->links[i].watched->first == &c->links[i])
                wake(c->links[i].watched);
}

static void timer_cb(uv_timer_t *timer)
{
    struct broker *b = timer->data;
    uint64_t now = uv_now(b->config.loop);
    struct heap_entry top;
    while (heap_top(&b->claims.deadlines, &top) && top.order <= now) {
        struct broker_claim *c = (struct broker_claim *)(uintptr_t)top.seq;
        deadline_drop(c);
        c->expired = true;
        if (c->state == CLAIM_PARKED)
            finish_empty(c);
    }
    starved_wake(b);
    arm_timer(b);
}

static void give_back_all(struct broker *b, const struct reply *r)
{
    for (uint32_t i = 0; i < r->job_count; i++) {
        struct broker_held held = {r->jobs[i].job.seq, r->jobs[i].token};
        broker_give_back(b, &held, 1);
    }
}

/* Releases the jobs that an op with an unknown outcome may have taken. */
static void give_back_nonce(struct broker *b, uint64_t nonce)
{
    struct op op = {.kind = OP_RELEASE_CLAIM, .release_claim = {.nonce = nonce}};
    broker_retry_release(b, &op);
}

/* Passes the wake-up on to the others in its lines. */
static void wake_others(struct broker_claim *c)
{
    c->signalled = true; /* so that none of the signals is for itself */
    for (uint32_t i = 0; i < c->link_count; i++)
        wake(c->links[i].watched);
}

static void got_jobs(struct broker_claim *c, const struct reply *r)
{
    if (c->signalled)
        wake_others(c);
    for (uint32_t i = 0; i < c->link_count; i++)
        chain(c, c->links[i].watched);
    if (c->cancelled) {
        give_back_all(c->broker, r);
        claim_free(c);
    } else {
        finish(c, r);
    }
}

static void got_nothing(struct broker_claim *c)
{
    bool stays = c->waits && !c->cancelled && !c->expired && !c->broker->draining;
    if (stays && c->signalled) {
        ask(c);
        return;
    }
    if (stays) {
        set_state(c, CLAIM_PARKED);
        return;
    }
    if (c->signalled)
        wake_others(c);
    if (c->cancelled)
        claim_free(c);
    else
        finish_empty(c);
}

static void got_trouble(struct broker_claim *c, const struct reply *r)
{
    struct broker *b = c->broker;
    struct reply told = *r;
    if (r->outcome == OUT_UNKNOWN) {
        give_back_nonce(b, c->want.nonce);
        told.outcome = OUT_UNAVAILABLE;
        told.note = "the store did not confirm the claim; its jobs are released";
    }
    wake_others(c);
    if (c->cancelled)
        claim_free(c);
    else
        finish(c, &told);
}

static void answered_cb(void *ctx, const struct reply *r)
{
    struct broker_claim *c = ctx;
    if (r->outcome != OUT_OK)
        got_trouble(c, r);
    else if (r->job_count > 0)
        got_jobs(c, r);
    else
        got_nothing(c);
}

static int ask_op(struct broker_claim *c)
{
    struct broker *b = c->broker;
    set_state(c, CLAIM_ASKED);
    c->signalled = false;
    c->want.nonce = ++b->claims.next_nonce;
    struct op op = {.kind = OP_CLAIM, .claim = c->want};
    return broker_submit(b, &op, 1, answered_cb, c);
}

static void ask(struct broker_claim *c)
{
    struct claims *cs = &c->broker->claims;
    if (ask_op(c) == 0)
        return;
    set_state(c, CLAIM_PARKED);
    cs->starved = true;
    arm_timer(c->broker);
}

/* ---- for callers ---- */

/* The claim with its own copy of the texts: one block. */
static struct broker_claim *claim_new(const struct op_claim *want)
{
    size_t texts = want->worker.len;
    for (uint32_t i = 0; i < want->queue_count; i++)
        texts += want->queues[i].len;
    size_t each = sizeof(struct waiter_link) + sizeof(struct span);
    struct broker_claim *c = mem_zalloc(sizeof(*c) + want->queue_count * each + texts);
    if (!c)
        return NULL;
    c->want = *want;
    c->links = (struct waiter_link *)(c + 1);
    struct span *queues = (struct span *)(c->links + want->queue_count);
    char *text = (char *)(queues + want->queue_count);
    for (uint32_t i = 0; i < want->queue_count; i++) {
        memcpy(text, want->queues[i].at, want->queues[i].len);
        queues[i] = span_of(text, want->queues[i].len);
        text += want->queues[i].len;
    }
    if (want->worker.len)
        memcpy(text, want->worker.at, want->worker.len);
    c->want.queues = queues;
    c->want.worker = span_of(text, want->worker.len);
    return c;
}

/* Takes a place in each line. *ret_behind: a claim is parked in every one of them. */
static int stand_in_line(struct broker_claim *c, bool *ret_behind)
{
    bool behind = true;
    for (uint32_t i = 0; i < c->want.queue_count; i++) {
        struct watched *w = watched_get(c->broker, c->want.queues[i]);
        if (!w)
            return -ERR_NOMEM;
        behind = behind && w->parked > 0;
        link_to(&c->links[i], w, c);
        c->link_count++;
    }
    *ret_behind = behind;
    return 0;
}

static int begin_wait(struct broker_claim *c, uint32_t wait_ms, bool *ret_behind)
{
    struct broker *b = c->broker;
    c->waits = true;
    int err = stand_in_line(c, ret_behind);
    if (!err && wait_ms != BROKER_WAIT_FOREVER) {
        uint64_t deadline = uv_now(b->config.loop) + wait_ms;
        struct heap_entry e = {deadline, (uintptr_t)c};
        err = heap_push(&b->claims.deadlines, e);
        if (!err) {
            c->deadline = deadline;
            arm_timer(b);
        }
    }
    return err;
}

int broker_claim(struct broker *b, const struct op_claim *want, uint32_t wait_ms,
                 broker_reply_fn fn, void *ctx, struct broker_claim **ret)
{
    CHECK(want->queue_count <= LIMIT_QUEUES_PER_CLAIM);
    struct broker_claim *c = claim_new(want);
    if (!c)
        return -ERR_NOMEM;
    c->broker = b;
    c->fn = fn;
    c->ctx = ctx;
    c->next = b->claims.first;
    if (c->next)
        c->next->prev = c;
    b->claims.first = c;
    b->claims.count++;
    bool behind = false;
    int err = 0;
    if (wait_ms > 0 && !b->draining)
        err = begin_wait(c, wait_ms, &behind);
    if (!err && behind) {
        set_state(c, CLAIM_PARKED);
    } else if (!err) {
        err = ask_op(c);
    }
    if (err) {
        claim_free(c);
        return err;
    }
    workers_wait_begun(b, want->worker, wait_ms);
    claimed_seen(b, want->queues, want->queue_count);
    *ret = c;
    return 0;
}

void broker_claim_cancel(struct broker *b, struct broker_claim *c)
{
    CHECK(c->broker == b && !c->cancelled);
    if (c->state == CLAIM_PARKED)
        claim_free(c);
    else
        c->cancelled = true;
}

void broker_claim_end_wait(struct broker *b, struct broker_claim *c)
{
    CHECK(c->broker == b && !c->cancelled);
    deadline_drop(c);
    c->expired = true;
    if (c->state == CLAIM_PARKED)
        finish_empty(c);
}

/* A callback may cancel other claims: writing a reply may free the memory of connections. */
void claims_drain(struct broker *b)
{
    struct claims *cs = &b->claims;
    cs->drained_next = cs->first;
    while (cs->drained_next) {
        struct broker_claim *c = cs->drained_next;
        cs->drained_next = c->next;
        if (c->state == CLAIM_PARKED)
            finish_empty(c);
    }
}

int claims_init(struct broker *b)
{
    struct claims *cs = &b->claims;
    map128_init(&cs->watched);
    heap_init(&cs->deadlines);
    cs->deadlines.moved = moved_cb;
    /* Nonces of an earlier run must not be reused: a late release_claim could hit them. */
    int err = random_bytes(&cs->next_nonce, sizeof(cs->next_nonce));
    cs->next_nonce >>= 1;
    return err;
}

void claims_done(struct broker *b)
{
    struct claims *cs = &b->claims;
    CHECK(!cs->first);
    while (cs->idle_first) {
        struct watched *w = cs->idle_first;
        idle_unlink(cs, w);
        watched_free(b, w);
    }
    map128_done(&cs->watched);
    heap_done(&cs->deadlines);
}
