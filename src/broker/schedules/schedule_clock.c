/* SPDX-License-Identifier: Apache-2.0 */
/* Moves the test clock (HF-14) from one time at which a schedule is due to the next, so that each
 * is fired at its time and in order, with everything else that is due in between. A jump moves it
 * at once, as a jump of a real clock or downtime would, with misfires.
 *
 * A move is a loop: the backend does what is due, schedules fire, until nothing is due; then the
 * clock moves on. A move that would take more than ROUNDS_MAX rounds jumps over the rest. */
#include "base/mem.h"
#include "broker/alerts/webhook_delivery.h"
#include "broker/broker_impl.h"

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
        deliveries_settle(b->deliveries, moved_cb, m); /* the notices about all that */
    else
        moved_cb(m);
}

/* Settling begins with the next iteration of the loop, so it sees the new time. */
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

/* Ends a move that cannot continue: there is no memory, or the backend is closed. */
static void moving_continue(struct broker *b)
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
    /* What fired causes signals: they are handled before the clock moves on. */
    bool again = s->dirty;
    s->dirty = false;
    if (again && settle(b) == 0)
        return;
    if (s->moving->left_ms > 0) {
        moving_continue(b);
        return;
    }
    moving_end(b);
    if (s->moving)
        moving_continue(b);
    else
        schedules_run(b); /* sets the timer for what was added meanwhile */
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
    /* For a store that nodes share it is known only after one round whether this node is the
     * leader, and what is due; a move before that would skip all of it. */
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
