/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the primary is available. A small query is sent to it at intervals. The primary counts as
 * lost when such a query is not answered for health_ms, or when any operation is answered with
 * OUT_UNAVAILABLE, and as available again when a query is answered.
 *
 * A primary that was never reached is looked for on another thread, so that a slow server does not
 * delay the loop: several times a second whether a server accepts connections at its address, and
 * then whether it can be used. A server that cannot be used is checked again after REFUSED_MIN_MS,
 * and then after twice the time, up to REFUSED_MAX_MS. It is opened, on the loop thread, once a
 * check has found that it can be used. */
#include <string.h>

#include "backend/failover/impl.h"
#include "base/mem.h"

#define ASK_UP_MS 1000u
#define ASK_DOWN_MS 200u
#define REFUSED_MIN_MS 1000u
#define REFUSED_MAX_MS 30000u

static void tick_cb(uv_timer_t *timer);

uint64_t fo_spool_jobs(const struct failover *f)
{
    struct backend_figures figures;
    if (!f->spool)
        return 0;
    backend_figures(f->spool, &figures);
    return figures.by_state[STATE_READY] + figures.by_state[STATE_SCHEDULED] +
           figures.by_state[STATE_RUNNING] + figures.by_state[STATE_DEAD];
}

static void tick_after(struct failover *f, uint64_t ms)
{
    uint64_t half = f->setup.health_ms / 2;
    if (!f->fanout.closing)
        uv_timer_start(&f->timer, tick_cb, ms < half || half == 0 ? ms : half, 0);
}

/* Claims that wait are tried again, because another store answers now. */
static void changed(struct failover *f)
{
    f->signal_all = true;
    fanout_wake(&f->fanout);
    fo_rules_wake(f);
}

static void keep_reason(struct failover *f, const char *why)
{
    snprintf(f->why, sizeof f->why, "%.*s", (int)sizeof f->why - 1, why);
}

void fo_down(struct failover *f, const char *why)
{
    if (!f->up || f->fanout.closing)
        return;
    f->up = false;
    f->since = clock_now(&f->config.clock).wall;
    keep_reason(f, why);
    f->slow = f->probing; /* the reply to an earlier query says nothing about now */
    log_event(f->config.log, LOG_WARN, "primary_lost", LOG_TEXT("primary", f->setup.kind),
              LOG_TEXT("why", why), LOG_TEXT("effect", "plain jobs go to the spool of this node"));
    changed(f);
    tick_after(f, ASK_DOWN_MS);
}

static void up(struct failover *f)
{
    if (f->up || f->fanout.closing)
        return;
    f->up = true;
    f->since = clock_now(&f->config.clock).wall;
    log_event(f->config.log, LOG_INFO, "primary_back", LOG_TEXT("primary", f->setup.kind),
              LOG_INT("spool_jobs", (int64_t)fo_spool_jobs(f)));
    f->mirror.looked_ms = 0;
    changed(f);
}

/* --- a primary that is open --- */

static void probe_reply_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    f->probing = false;
    if (reply->outcome == OUT_UNAVAILABLE)
        fo_down(f, reply->note ? reply->note : "unavailable");
    else if (!f->slow)
        up(f);
    f->slow = false;
    if (f->up) {
        fo_mirror_wake(f);
        fo_drain_wake(f);
    }
    fo_close_further(f);
}

static void probe(struct failover *f)
{
    if (f->probing) {
        if (uv_now(f->config.loop) - f->probed_ms > f->setup.health_ms)
            fo_down(f, "no answer within the time for a health check");
        return;
    }
    f->probe = (struct op){.kind = OP_QUEUE_GET, .queue = {.name = SPAN_LITERAL("health")}};
    f->probing = backend_submit(f->primary, &f->probe, 1, probe_reply_cb, f) == 0;
    f->probed_ms = uv_now(f->config.loop);
}

/* --- one that was never reached --- */

/* On another thread. */
static void reach_cb(uv_work_t *work)
{
    struct failover *f = work->data;
    f->check_err = 0;
    f->check_note = (struct err_note){""};
    f->reached = f->setup.reachable(f->setup.ctx);
    if (f->reached && f->setup.check)
        f->check_err = f->setup.check(f->setup.ctx, &f->check_note);
}

int fo_not_usable(struct failover *f, const struct err_note *note)
{
    bool known = strcmp(f->why, note->text) == 0;
    uint64_t wait = f->refused_wait_ms;
    f->refused_wait_ms = wait == 0                   ? REFUSED_MIN_MS
                         : wait * 2 < REFUSED_MAX_MS ? wait * 2
                                                     : REFUSED_MAX_MS;
    keep_reason(f, note->text);
    if (!known)
        log_event(f->config.log, LOG_WARN, "primary_not_usable", LOG_TEXT("primary", f->setup.kind),
                  LOG_TEXT("why", f->why),
                  LOG_TEXT("effect", "plain jobs go to the spool of this node"));
    return 0;
}

static void refused(struct failover *f, int err, struct err_note *note)
{
    if (!note->text[0])
        snprintf(note->text, sizeof note->text, "%s", err_text(err));
    (void)fo_not_usable(f, note);
}

static void open_now(struct failover *f)
{
    struct err_note note = {""};
    int err = f->setup.open(f->setup.ctx, &f->primary, &note);
    if (err) {
        refused(f, err, &note);
        return;
    }
    f->refused_wait_ms = 0;
    f->fanout.open++;
    fo_primary_opened(f);
    probe(f);
}

static void reached_cb(uv_work_t *work, int status)
{
    struct failover *f = work->data;
    bool found = status == 0 && f->reached && !f->fanout.closing;
    f->reaching = false;
    if (found && f->check_err)
        refused(f, f->check_err, &f->check_note);
    else if (found)
        open_now(f);
    else
        f->refused_wait_ms = 0;
    if (f->refused_wait_ms && !f->fanout.closing)
        uv_timer_start(&f->timer, tick_cb, f->refused_wait_ms, 0);
    fo_close_further(f);
}

/* While a check is under way, its end sets the timer again. */
static void tick_cb(uv_timer_t *timer)
{
    struct failover *f = timer->data;
    if (f->primary)
        probe(f);
    else if (!f->reaching)
        f->reaching = uv_queue_work(f->config.loop, &f->reach, reach_cb, reached_cb) == 0;
    if (f->up)
        fo_drain_wake(f);
    fo_rules_wake(f);
    tick_after(f, f->up ? ASK_UP_MS : ASK_DOWN_MS);
}

void fo_health_start(struct failover *f)
{
    f->timer.data = f->reach.data = f;
    if (f->primary) {
        up(f); /* it was opened a moment ago */
        probe(f);
    } else {
        f->since = clock_now(&f->config.clock).wall;
    }
    if (!f->primary && !f->why[0]) {
        keep_reason(f, "no server listens at its address");
        log_event(f->config.log, LOG_WARN, "primary_not_reached",
                  LOG_TEXT("primary", f->setup.kind),
                  LOG_TEXT("effect", "plain jobs go to the spool of this node"));
    }
    tick_after(f, ASK_DOWN_MS);
}
