/* SPDX-License-Identifier: Apache-2.0 */
/* The API as a whole: its turn of the loop, its clock, and how it ends. */
#include "api/beanstalk/beanstalk.h"

#include <unistd.h>

#include "api/beanstalk/impl.h"
#include "base/check.h"
#include "base/digest/random.h"
#include "base/mem.h"

#define TICK_MS 500

/* ---- the end of a turn ---- */

static void idle_cb(uv_idle_t *idle)
{
    (void)idle; /* being active is all it is for */
}

void bs_rouse(struct beanstalk *b)
{
    if (b->idling || b->ending)
        return;
    b->idling = true;
    uv_idle_start(&b->idle, idle_cb);
}

/* Whoever becomes dirty meanwhile has its turn next time, so that nobody can keep the loop here. */
static void dirty_flush(struct beanstalk *b)
{
    struct link now;
    link_init(&now);
    while (!link_alone(&b->dirty)) {
        struct link *l = b->dirty.next;
        link_remove(l);
        link_append(&now, l);
    }
    while (!link_alone(&now)) {
        struct link *l = now.next;
        link_remove(l);
        conn_flush(LINK_OWNER(l, struct conn, dirty));
    }
}

static void drained_tell(struct beanstalk *b)
{
    void (*fn)(void *ctx) = b->drained;
    if (!b->draining || !fn || !link_alone(&b->conns))
        return;
    b->drained = NULL;
    fn(b->drained_ctx);
}

static void handle_closed_cb(uv_handle_t *handle)
{
    bs_handle_closed(handle->data);
}

static void end_if_done(struct beanstalk *b)
{
    if (!b->closing || b->ending || b->orders > 0 || !link_alone(&b->conns))
        return;
    b->ending = true;
    uv_close((uv_handle_t *)&b->prepare, handle_closed_cb);
    uv_close((uv_handle_t *)&b->idle, handle_closed_cb);
    uv_close((uv_handle_t *)&b->tick, handle_closed_cb);
    uv_close((uv_handle_t *)&b->deadline, handle_closed_cb);
}

static void turn_cb(uv_prepare_t *prepare)
{
    struct beanstalk *b = prepare->data;
    if (!b->idling)
        return;
    b->idling = false;
    uv_idle_stop(&b->idle);
    dirty_flush(b);
    tubes_sweep(b);
    drained_tell(b);
    end_if_done(b);
}

/* ---- deadlines ---- */

/* All writes may take the same time, so the list is in the order of deadlines. */
static void late_close(struct beanstalk *b)
{
    uint64_t now = uv_now(b->config.loop);
    while (!link_alone(&b->late)) {
        struct conn *c = LINK_OWNER(b->late.next, struct conn, late);
        if (c->write_deadline > now)
            return;
        conn_close(c);
    }
}

static void conns_close(struct beanstalk *b, bool only_at_rest)
{
    struct link *l = b->conns.next;
    while (l != &b->conns) {
        struct conn *c = LINK_OWNER(l, struct conn, all);
        l = l->next;
        if (!only_at_rest || conn_at_rest(c))
            conn_close(c);
    }
}

/* After a stop of the process or of the machine, what the clients sent meanwhile is read first. */
static bool stood_still(struct beanstalk *b)
{
    uint64_t now = uv_now(b->config.loop), gap = now - b->ticked_ms;
    b->ticked_ms = now;
    return gap > TICK_MS + 1000;
}

static void tick_cb(uv_timer_t *timer)
{
    struct beanstalk *b = timer->data;
    late_close(b);
    if (!stood_still(b))
        guard_expire(b);
    tubes_sweep(b);
    bs_listen_spare(b);
    for (struct link *l = b->listeners.next; l != &b->listeners; l = l->next)
        bs_listener_resume(LINK_OWNER(l, struct bs_listener, link));
    if (b->draining && uv_now(b->config.loop) >= b->drain_deadline)
        conns_close(b, false);
}

/* Those that wait with jobs in hand are few; all of them are looked at. */
static void deadline_cb(uv_timer_t *timer)
{
    struct beanstalk *b = timer->data;
    int64_t now = bs_now_ms(b), next = INT64_MAX;
    struct link *l = b->uneasy.next;
    while (l != &b->uneasy) {
        struct conn *c = LINK_OWNER(l, struct conn, uneasy);
        l = l->next;
        if (held_deadline_soon(c))
            reserve_deadline(c);
        else if (c->held_count > 0 && c->soonest_ms < next)
            next = c->soonest_ms;
    }
    if (next == INT64_MAX)
        return;
    int64_t wait = next - BS_SAFETY_MS - now;
    uv_timer_start(&b->deadline, deadline_cb, wait > 0 ? (uint64_t)wait : 1, 0);
}

void bs_uneasy(struct conn *c)
{
    struct beanstalk *b = c->api;
    int64_t wait = c->soonest_ms - BS_SAFETY_MS - bs_now_ms(b);
    uint64_t due = wait > 0 ? (uint64_t)wait : 0;
    link_append(&b->uneasy, &c->uneasy);
    if (!uv_is_active((uv_handle_t *)&b->deadline) || uv_timer_get_due_in(&b->deadline) > due)
        uv_timer_start(&b->deadline, deadline_cb, due, 0);
}

/* ---- beginning and end ---- */

static void handles_init(struct beanstalk *b)
{
    uv_loop_t *loop = b->config.loop;
    CHECK(uv_prepare_init(loop, &b->prepare) == 0 && uv_idle_init(loop, &b->idle) == 0);
    CHECK(uv_timer_init(loop, &b->tick) == 0 && uv_timer_init(loop, &b->deadline) == 0);
    b->prepare.data = b->idle.data = b->tick.data = b->deadline.data = b;
    b->handles = 4;
    uv_prepare_start(&b->prepare, turn_cb);
}

static int run_id(char out[17])
{
    unsigned char bytes[8];
    int err = random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; !err && i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return err;
}

int beanstalk_new(const struct beanstalk_config *config, struct beanstalk **ret)
{
    struct beanstalk *b = mem_zalloc(sizeof *b);
    if (!b)
        return -ERR_NOMEM;
    b->config = *config;
    budget_init(&b->unlimited, BUDGET_NO_LIMIT);
    if (!config->budget)
        b->config.budget = &b->unlimited;
    budget_open(&b->loose, b->config.budget, NULL, NULL, 0);
    map64_init(&b->addresses);
    link_init(&b->listeners);
    link_init(&b->conns);
    link_init(&b->dirty);
    link_init(&b->late);
    link_init(&b->uneasy);
    for (int kind = 0; kind < BS_PART_COUNT; kind++)
        link_init(&b->parts[kind]);
    int err = tubes_init(b);
    if (!err)
        err = run_id(b->id);
    if (err) {
        tubes_done(b);
        mem_free(b);
        return err;
    }
    b->spare_fd = -1;
    bs_listen_spare(b);
    handles_init(b);
    *ret = b;
    return 0;
}

void beanstalk_serve(struct beanstalk *b, struct broker *broker)
{
    b->broker = broker;
    b->started_at = broker_now(broker).wall;
    b->ticked_ms = uv_now(b->config.loop);
    uv_timer_start(&b->tick, tick_cb, TICK_MS, TICK_MS);
}

static void listeners_close(struct beanstalk *b)
{
    while (!link_alone(&b->listeners))
        bs_listener_close(LINK_OWNER(b->listeners.next, struct bs_listener, link));
}

void beanstalk_refuse_puts(struct beanstalk *b)
{
    b->refuses = true;
}

void beanstalk_drain(struct beanstalk *b, uint32_t limit_ms, void (*fn)(void *ctx), void *ctx)
{
    b->draining = b->refuses = true;
    b->drained = fn;
    b->drained_ctx = ctx;
    b->drain_deadline = uv_now(b->config.loop) + limit_ms;
    listeners_close(b);
    conns_close(b, true);
    bs_rouse(b);
}

void beanstalk_close(struct beanstalk *b, void (*fn)(void *ctx), void *ctx)
{
    if (!b) {
        fn(ctx);
        return;
    }
    CHECK(!b->closing);
    b->closing = true;
    b->closed = fn;
    b->closed_ctx = ctx;
    listeners_close(b);
    conns_close(b, false);
    bs_rouse(b);
}

void bs_handle_closed(struct beanstalk *b)
{
    if (--b->handles > 0)
        return;
    void (*fn)(void *ctx) = b->closed;
    void *ctx = b->closed_ctx;
    budget_close(&b->loose);
    map64_done(&b->addresses);
    tubes_done(b);
    order_pool_free(b);
    if (b->spare_fd >= 0)
        close(b->spare_fd);
    mem_free(b);
    fn(ctx);
}
