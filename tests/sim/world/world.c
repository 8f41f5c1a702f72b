/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "sim/world/disk_journal.h"

#define EVENTS_MAX 200000
#define WALL_START INT64_C(1760000000000)

/* ---- small things ---------------------------------------------------------------------------- */

void world_blame(struct world *w, enum check check, const char *format, ...)
{
    if (w->bad.check != CHECK_NONE)
        return;
    w->bad.check = check;
    w->bad.entry = w->history.count ? w->history.count - 1 : 0;
    va_list args;
    va_start(args, format);
    vsnprintf(w->bad.text, sizeof(w->bad.text), format, args);
    va_end(args);
}

struct now world_now(const struct world *w)
{
    return (struct now){{w->mono}, {w->mono + w->wall_offset}};
}

bool chance(struct world *w, unsigned percent)
{
    return random_chance(&w->random, percent) != 0;
}

int64_t between(struct world *w, int64_t low, int64_t high)
{
    return low >= high ? low : random_between(&w->random, low, high);
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool sooner(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void schedule(struct world *w, int64_t delay_ms, enum sim_event_kind kind, uint32_t who,
              uint64_t what)
{
    w->events = vec_room(w->events, &w->event_room, w->event_count + 1, sizeof(*w->events));
    struct event e = {w->mono + delay_ms, w->event_order++, kind, who, what};
    size_t i = w->event_count++;
    for (; i > 0 && sooner(&e, &w->events[(i - 1) / 2]); i = (i - 1) / 2)
        w->events[i] = w->events[(i - 1) / 2];
    w->events[i] = e;
}

static struct event next_event(struct world *w)
{
    struct event first = w->events[0], last = w->events[--w->event_count];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < w->event_count) {
        if (child + 1 < w->event_count && sooner(&w->events[child + 1], &w->events[child]))
            child++;
        if (!sooner(&w->events[child], &last))
            break;
        w->events[i] = w->events[child];
        i = child;
    }
    w->events[i] = last;
    return first;
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void next_fault(struct world *w, enum sim_event_kind kind, int64_t mean_ms)
{
    if (!w->draining)
        schedule(w, between(w, 1, 2 * mean_ms), kind, 0, 0);
}

static void fault_crash(struct world *w)
{
    if (w->draining)
        return;
    server_crash(w);
    next_fault(w, SIM_CRASH, w->plan.crash_ms);
}

static void fault_stall(struct world *w)
{
    if (w->draining)
        return;
    w->coverage->faults[FAULT_STALL]++;
    /* A short one is no standstill: leases go on. */
    int64_t ms = chance(w, 40) ? between(w, 50, SHORT_STALL_MS) : between(w, 100, 4000);
    w->server.stall_until = w->mono + ms;
    history_event(&w->history, HIST_STALL, (uint64_t)ms, world_now(w));
    next_fault(w, SIM_STALL, 5000);
}

/* The clock is set: mostly a little, rarely by hours, which makes the server suspicious. */
static void fault_jump(struct world *w)
{
    if (w->draining)
        return;
    bool leap = has(&w->plan, FEATURE_WALL_LEAPS) && chance(w, 40);
    int64_t by = leap ? between(w, 2, 100) * 3600 * 1000
                      : between(w, -w->plan.wall_jump_ms, w->plan.wall_jump_ms);
    w->coverage->faults[leap ? FAULT_WALL_LEAP : FAULT_WALL_JUMP]++;
    w->wall_offset += by;
    history_event(&w->history, HIST_WALL, 0, world_now(w));
    if (leap)
        schedule(w, between(w, 1, 3000), SIM_ACCEPT, 0, 0);
    next_fault(w, SIM_JUMP, 4000);
}

static void accept_clock(struct world *w)
{
    if (w->server.state != SERVER_DOWN)
        engine_accept_clock(gate_engine(w->server.gate));
}

static void fault_full(struct world *w, bool full)
{
    server_full(w, full && !w->draining);
    if (full && !w->draining) {
        w->coverage->faults[FAULT_DISK_FULL]++;
        schedule(w, between(w, 10, 2000), SIM_FULL, 0, 0);
    } else if (!w->draining) {
        schedule(w, between(w, 500, 6000), SIM_FULL, 0, 1);
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void handle(struct world *w, const struct event *e)
{
    bool ours = e->who == w->server.boot && w->server.state != SERVER_DOWN;
    switch (e->kind) {
    case SIM_CLIENT:
        client_act(w, e->who);
        break;
    case SIM_ARRIVE:
        server_arrive(w, e->who);
        break;
    case SIM_ANSWER:
        client_answer(w, e->what);
        break;
    case SIM_TIMEOUT:
        client_timeout(w, e->who, (unsigned)e->what);
        break;
    case SIM_TASK:
        client_task(w, e->who);
        break;
    case SIM_KEEP:
        keeper_task(w, e->who);
        break;
    case SIM_TURN:
        if (ours)
            server_turn(w);
        break;
    case SIM_TICK:
        if (ours && e->what == w->server.timer)
            server_tick(w);
        break;
    case SIM_COMMIT:
        if (ours)
            server_commit(w);
        break;
    case SIM_READ:
        if (ours)
            server_read(w, e->what);
        break;
    case SIM_PROVIDE:
        if (ours)
            server_provide(w);
        break;
    case SIM_APPLY:
        server_apply(w);
        break;
    case SIM_CRASH:
        fault_crash(w);
        break;
    case SIM_RESTART:
        server_start(w);
        break;
    case SIM_STALL:
        fault_stall(w);
        break;
    case SIM_JUMP:
        fault_jump(w);
        break;
    case SIM_ACCEPT:
        accept_clock(w);
        break;
    case SIM_FULL:
        fault_full(w, e->what != 0);
        break;
    case SIM_KIND_COUNT:
        break;
    }
}

bool world_step(struct world *w)
{
    if (w->event_count == 0 || w->bad.check != CHECK_NONE)
        return false;
    struct event e = next_event(w);
    if (w->events_run++ > EVENTS_MAX) {
        world_blame(w, CHECK_DRIVER, "no end after %d events", EVENTS_MAX);
        return false;
    }
    w->mono = e.at;
    if (!server_stalled(w, &e))
        handle(w, &e);
    return w->bad.check == CHECK_NONE;
}

/* ---- a run ----------------------------------------------------------------------------------- */

void world_init(struct world *w, const struct plan *plan, const struct random *random,
                struct coverage *coverage)
{
    memset(w, 0, sizeof(*w));
    w->plan = *plan;
    w->random = *random;
    w->coverage = coverage;
    pool_init(&w->pool);
    history_init(&w->history, &plan->policy, plan->key_ttl_ms);
    w->mono = 1000;
    w->wall_offset = WALL_START;
    w->call_count = 1;
    for (unsigned i = 0; i < PLAN_QUEUES; i++)
        w->queues[i] = pool_text(&w->pool, "q%u", i);
    disk_init(&w->server.disk);
}

void world_done(struct world *w)
{
    server_stop(w);
    disk_done(&w->server.disk);
    history_done(&w->history);
    vec_free(w->events);
    vec_free(w->calls);
    vec_free(w->tasks);
    vec_free(w->seqs);
    keeper_done(w);
    pool_done(&w->pool);
}

static void start_clients(struct world *w)
{
    const unsigned counts[ROLE_COUNT] = {
        [ROLE_PRODUCER] = w->plan.producers,
        [ROLE_WORKER] = w->plan.workers,
        [ROLE_ADMIN] = w->plan.admins,
        [ROLE_KEEPER] = w->plan.keepers,
        [ROLE_DRAIN] = 1,
    };
    for (int role = 0; role < ROLE_COUNT; role++)
        w->client_count += counts[role];
    w->clients = pool_alloc(&w->pool, w->client_count * sizeof(*w->clients));
    uint32_t n = 0;
    for (int role = 0; role < ROLE_COUNT; role++)
        for (unsigned i = 0; i < counts[role]; i++)
            w->clients[n++].role = (enum role)role;
    if (w->plan.keepers)
        keeper_setup(w);
    for (n = 0; n + 1 < w->client_count; n++)
        schedule(w, between(w, 0, 100), SIM_CLIENT, n, 0);
}

static void start_faults(struct world *w)
{
    const struct plan *p = &w->plan;
    if (has(p, FEATURE_CRASHES))
        next_fault(w, SIM_CRASH, p->crash_ms);
    if (has(p, FEATURE_STALLS))
        next_fault(w, SIM_STALL, 5000);
    if (has(p, FEATURE_WALL_JUMPS) || has(p, FEATURE_WALL_LEAPS))
        next_fault(w, SIM_JUMP, 4000);
    if (has(p, FEATURE_FULL_DISK))
        schedule(w, between(w, 10, 4000), SIM_FULL, 0, 1);
    if (has(p, FEATURE_LAGGING_STORE))
        schedule(w, between(w, 1, 2000), SIM_APPLY, 0, 0);
}

static int open_disk(struct world *w, struct err_note *note)
{
    const struct plan *p = &w->plan;
    struct disk_journal_setup journal = {.seed = p->seed ^ 0x7061706572,
                                         .segment_bytes = p->segment_bytes,
                                         .bytes_max = p->journal_bytes,
                                         .defects = p->journal_defects,
                                         .forgiving = p->no_verify};
    int rc = disk_open(&w->server.disk, p->seed + 1, p->sqlite, world_now(w).wall, note);
    if (rc == 0 && has(p, FEATURE_JOURNAL))
        disk_journal_new(&w->server.disk, &journal);
    return rc;
}

bool world_run(struct world *w)
{
    struct err_note note;
    struct coverage *c = w->coverage;
    c->seeds++;
    for (int f = 0; f < FEATURE_COUNT; f++)
        c->features[f] += has(&w->plan, (enum feature)f);
    if (open_disk(w, &note) < 0) {
        world_blame(w, CHECK_DRIVER, "store: %s", note.text);
        return false;
    }
    server_start(w);
    start_clients(w);
    start_faults(w);
    while (w->call_count <= w->plan.calls && world_step(w))
        ;
    int64_t end = w->mono + between(w, 0, 2 * w->plan.lease_ms);
    while (w->mono < end && world_step(w))
        ;
    if (w->bad.check == CHECK_NONE)
        drain(w);
    c->virtual_ms += (uint64_t)w->mono;
    return w->bad.check == CHECK_NONE;
}
