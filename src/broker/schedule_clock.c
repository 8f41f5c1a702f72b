/* SPDX-License-Identifier: Apache-2.0 */
/* Moving the test clock (HF-14): from one time at which a schedule is due to the next, so that each
 * is fired at its time and in order, with everything else that is due in between. A jump moves it
 * at once, as a leap of a real clock or a time of downtime would; then misfires are what they are.
 *
 * A move is a circle: the backend settles, what is due fires, until nothing does; then the clock
 * goes on. A move that would take more than ROUNDS_MAX circles jumps for the rest. */
#include "base/mem.h"
#include "broker/broker_impl.h"
#include "broker/webhook_delivery.h"

#define ROUNDS_MAX 100000

static void settled_cb(void *ctx);

static int settle(struct broker *b)
{
    int err = backend_settle(b->config.backend, settled_cb, b);
    b->schedules.settling = err == 0;
    return err;
}

static void moved_cb(void *ctx)
{
    struct moving m = *(struct moving *)ctx;
    mem_free(ctx);
    m.fn(m.ctx);
}

static void moving_end(struct broker *b)
{
    struct schedules *s = &b->schedules;
    struct moving *m = s->moving;
    s->moving = m->next;
    if (b->deliveries)
        deliveries_settle(b->deliveries, moved_cb, m); /* what is to be told about all that */
    else
        moved_cb(m);
}

/* Settling begins with the next turn of the loop, so it sees the time to come. */
static int step(struct broker *b, struct moving *m)
{
    int64_t now = broker_now(b).wall.ms, next = schedules_next_ms(b);
    int64_t ms = m->left_ms;
    if (!m->jump && m->rounds < ROUNDS_MAX && next > now && next - now < ms)
        ms = next - now;
    int err = settle(b);
    if (err)
        return err;
    m->rounds++;
    m->left_ms -= ms;
    clock_manual_advance(b->config.test_clock, ms);
    return 0;
}

static bool quiet(const struct broker *b)
{
    const struct schedules *s = &b->schedules;
    return s->busy == 0 && s->troubled == 0 && !s->loading;
}

/* Ends what cannot go on: there is no memory, or the backend is closed. */
static void go_on(struct broker *b)
{
    while (b->schedules.moving && step(b, b->schedules.moving) != 0)
        moving_end(b);
}

void moving_further(struct broker *b)
{
    struct schedules *s = &b->schedules;
    if (!s->moving || s->settling || !quiet(b))
        return;
    if (schedules_next_ms(b) <= broker_now(b).wall.ms && !b->draining) {
        schedules_run(b);
        if (!quiet(b))
            return;
    }
    /* What fired makes signals of its own: they come before the clock goes on. */
    bool again = s->dirty;
    s->dirty = false;
    if (again && settle(b) == 0)
        return;
    if (s->moving->left_ms > 0) {
        go_on(b);
        return;
    }
    moving_end(b);
    if (s->moving)
        go_on(b);
    else
        schedules_run(b); /* arms the timer for what came meanwhile */
}

static void settled_cb(void *ctx)
{
    struct broker *b = ctx;
    b->schedules.settling = false;
    schedules_notice(b);
    if (b->draining)
        moving_cut(b);
    else
        moving_further(b);
    broker_maybe_closed(b);
}

void moving_cut(struct broker *b)
{
    while (b->schedules.moving && !b->schedules.settling)
        moving_end(b);
}

static int move(struct broker *b, int64_t ms, bool jump, void (*fn)(void *ctx), void *ctx)
{
    struct schedules *s = &b->schedules;
    if (!b->config.test_clock)
        return -ERR_INVALID;
    struct moving *m = mem_zalloc(sizeof *m), **link = &s->moving;
    if (!m)
        return -ERR_NOMEM;
    *m = (struct moving){.left_ms = ms, .jump = jump, .fn = fn, .ctx = ctx};
    while (*link)
        link = &(*link)->next;
    bool first = link == &s->moving;
    *link = m;
    /* Of a store that nodes share it is known after a circle whether this one leads, and what is
     * due; before that a move would leap over all of it. */
    int err = !first ? 0 : b->schedules.shared ? settle(b) : step(b, m);
    if (err) {
        *link = NULL;
        mem_free(m);
    }
    return err;
}

int broker_clock_advance(struct broker *b, int64_t ms, void (*fn)(void *ctx), void *ctx)
{
    return move(b, ms, false, fn, ctx);
}

int broker_clock_jump(struct broker *b, int64_t ms, void (*fn)(void *ctx), void *ctx)
{
    return move(b, ms, true, fn, ctx);
}
