/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: one timer for the next of all that are due.
 *
 * The broker has a copy of every schedule, from a list at the start and from the replies to
 * everything that changes one. All are in one heap by the time at which they are due; nothing is
 * polled. A firing is an op (OP_FIRE, OP_TRIGGER) whose reply contains the new state; the backend
 * decides whether the time is still to be fired, so several brokers on one store do no harm.
 *
 * A trigger that finds nothing to take is parked until its source queue signals; then it is due at
 * its next check, or at once if it is eager. It costs nothing until then.
 *
 * The wall clock may jump, so the timer never sleeps for more than CHECK_MS. Under a test clock it
 * runs only for what is already due; schedule_clock.c moves the clock to the next time. */
#include "base/check.h"
#include "base/mem.h"
#include "broker/broker_impl.h"
#include "core/limits.h"

#define CHECK_MS 10000
#define TROUBLE_MS 250
#define PAGE 500

static void timer_cb(uv_timer_t *timer);

/* ---- the table ---- */

static struct planned *planned_of(const struct broker *b, struct span name)
{
    const struct schedules *s = &b->schedules;
    uint32_t slot = (uint32_t)map128_get(&s->by_name, hash128_of(b->hash_key, name));
    return slot ? s->list[slot - 1] : NULL;
}

static void moved_cb(void *ctx, struct heap_entry e, size_t index)
{
    struct broker *b = ctx;
    b->schedules.list[e.seq]->place = index;
}

static void planned_free(struct planned *p)
{
    struct broker *b = p->broker;
    struct schedules *s = &b->schedules;
    if (p->place != SIZE_MAX)
        heap_remove(&s->due, p->place);
    backend_unwatch(b->config.backend, p->watch);
    s->list[p->slot] = NULL;
    buf_done(&p->own);
    mem_free(p->title);
    mem_free(p);
}

/* From now on it cannot be found; it is freed after the reply to its op. */
static void planned_drop(struct planned *p)
{
    struct schedules *s = &p->broker->schedules;
    map128_drop(&s->by_name, p->key);
    s->troubled -= p->troubled;
    p->troubled = false;
    p->gone = true;
    if (!p->busy)
        planned_free(p);
}

static int slot_take(struct schedules *s, uint32_t *ret)
{
    for (uint32_t i = s->count; i-- > 0 && s->count == s->room;) {
        if (!s->list[i]) {
            *ret = i;
            return 0;
        }
    }
    struct planned **grown = mem_more(s->list, s->count, &s->room, sizeof(*grown));
    if (!grown)
        return -ERR_NOMEM;
    s->list = grown;
    s->list[s->count] = NULL;
    *ret = s->count++;
    return 0;
}

static struct planned *planned_new(struct broker *b, struct span name)
{
    struct schedules *s = &b->schedules;
    struct planned *p = mem_zalloc(sizeof *p);
    uint32_t slot = 0;
    if (!p)
        return NULL;
    *p = (struct planned){.broker = b, .key = hash128_of(b->hash_key, name), .place = SIZE_MAX};
    buf_init(&p->own);
    p->title = mem_text(name.at, name.len);
    p->name = span_of(p->title, name.len);
    if (!p->title || slot_take(s, &slot) != 0 || heap_reserve(&s->due, s->count) != 0 ||
        map128_put(&s->by_name, p->key, slot + 1) != 0) {
        mem_free(p->title);
        mem_free(p);
        return NULL;
    }
    p->slot = slot;
    s->list[slot] = p;
    return p;
}

/* ---- when it is due ---- */

/* The time of a trigger's next check, which may be now, but not twice at the same time. */
static int64_t check_from(const struct planned *p, int64_t now)
{
    int64_t after = now - 1 > p->looked_ms ? now - 1 : p->looked_ms;
    return times_next(&p->times, (struct wall_time){after}).ms;
}

/* The next time to fire. If the clock was set back, it may be before the last one: those times have
 * been fired. */
static struct wall_time due_time(const struct planned *p)
{
    const struct schedule_state *s = &p->state;
    if (s->next_at.ms > s->last_at.ms || p->spec.kind == SCHEDULE_QUEUE)
        return s->next_at;
    return times_next(&p->times, s->last_at);
}

static int64_t due_ms(const struct planned *p)
{
    const struct schedule_state *s = &p->state;
    if (!p->known || p->paused || p->busy || p->troubled || p->parked || p->gone)
        return INT64_MAX;
    int64_t at = due_time(p).ms;
    if (p->spec.kind == SCHEDULE_QUEUE && p->spec.eager)
        at = 0;
    if (s->retry_at.ms > at)
        at = s->retry_at.ms;
    return at >= LIMIT_WALL_MS ? INT64_MAX : at;
}

int64_t schedules_next_ms(const struct broker *b)
{
    struct heap_entry top;
    if (!b->schedules.started || !schedules_lead(b) || !heap_top(&b->schedules.due, &top))
        return INT64_MAX;
    return (int64_t)(top.order ^ (UINT64_C(1) << 63));
}

static void timer_arm(struct broker *b)
{
    struct schedules *s = &b->schedules;
    int64_t at = schedules_next_ms(b), now = broker_now(b).wall.ms;
    bool manual = b->config.clock.manual;
    if (b->draining || at == INT64_MAX || (manual && at > now)) {
        uv_timer_stop(&s->timer);
        return;
    }
    int64_t wait = at > now ? at - now : 0;
    uv_timer_start(&s->timer, timer_cb, (uint64_t)(wait < CHECK_MS ? wait : CHECK_MS), 0);
}

static void enter(struct planned *p)
{
    struct schedules *s = &p->broker->schedules;
    int64_t at = due_ms(p);
    if (p->place != SIZE_MAX)
        heap_remove(&s->due, p->place);
    p->place = SIZE_MAX;
    if (at != INT64_MAX)
        CHECK(heap_push(&s->due, (struct heap_entry){heap_order_of(at), p->slot}) == 0);
    if (!s->moving)
        timer_arm(p->broker);
}

/* ---- definitions and state ---- */

static void signal_cb(void *ctx)
{
    struct planned *p = ctx;
    p->signalled = true;
    if (!p->parked)
        return;
    p->parked = false;
    int64_t look = check_from(p, broker_now(p->broker).wall.ms);
    if (look > p->state.next_at.ms)
        p->state.next_at.ms = look;
    enter(p);
}

/* The watch is created before the first check, so that no item is missed. */
static void watch_source(struct planned *p)
{
    backend_unwatch(p->broker->config.backend, p->watch);
    p->watch = NULL;
    if (p->spec.kind == SCHEDULE_QUEUE && !p->paused &&
        backend_watch(p->broker->config.backend, p->spec.source, signal_cb, p, &p->watch) != 0)
        log_event(p->broker->config.log, LOG_WARN, "schedule_source_not_watched",
                  LOG_SPAN("schedule", p->name), LOG_TEXT("why", "out of memory"));
}

static int keep_spec(struct planned *p, const struct schedule_view *v)
{
    struct buf own;
    buf_init(&own);
    int err = schedule_encode(&v->spec, &own);
    if (!err)
        err = schedule_decode(buf_span(&own), &p->spec);
    if (err) {
        buf_done(&own);
        return err;
    }
    buf_done(&p->own);
    p->own = own;
    return 0;
}

/* A new or changed definition. */
static void planned_define(struct broker *b, const struct schedule_view *v)
{
    struct planned *p = planned_of(b, v->name);
    struct err_note note = {"out of memory"};
    if (!p)
        p = planned_new(b, v->name);
    if (!p || keep_spec(p, v) != 0) {
        log_event(b->config.log, LOG_WARN, "schedule_not_loaded", LOG_SPAN("schedule", v->name),
                  LOG_TEXT("why", "out of memory"));
        return;
    }
    p->state = v->state;
    p->paused = v->paused;
    p->last_live = v->last_live;
    p->parked = false;
    p->known = times_init(&p->times, b->schedules.zones, &p->spec, &note) == 0;
    if (!p->known) /* a zone that this machine no longer knows */
        log_event(p->broker->config.log, LOG_WARN, "schedule_invalid",
                  LOG_SPAN("schedule", p->name), LOG_TEXT("why", note.text));
    watch_source(p);
    enter(p);
}

/* ---- firing ---- */

static void trouble_cb(uv_timer_t *timer)
{
    struct broker *b = timer->data;
    struct schedules *s = &b->schedules;
    if (s->loading && !s->list_busy && !b->draining)
        schedules_list(b);
    for (uint32_t i = 0; i < s->count && !b->draining; i++) {
        struct planned *p = s->list[i];
        if (!p || !p->troubled)
            continue;
        p->troubled = false;
        s->troubled--;
        enter(p);
    }
    moving_further(b);
}

/* The reply to a check of a trigger that found nothing. */
static void park(struct planned *p)
{
    int64_t now = broker_now(p->broker).wall.ms;
    bool waits_for_job = p->last_live && p->spec.overlap == OVERLAP_SKIP;
    p->parked = !p->signalled && !waits_for_job;
    /* An item arrived meanwhile, or the last job still runs: at the next check. */
    if (!p->parked && !(p->signalled && p->spec.eager && !waits_for_job)) {
        p->state.next_at = times_next(&p->times, (struct wall_time){now});
        p->state.retry_at = p->state.next_at; /* also for an eager one */
    }
}

static void take_state(struct planned *p, const struct reply *r)
{
    if (r->schedule_count == 1) {
        p->state = r->schedules[0].state;
        p->paused = r->schedules[0].paused;
        p->last_live = r->schedules[0].last_live;
    }
}

static void troubled(struct planned *p)
{
    struct schedules *s = &p->broker->schedules;
    p->troubled = true;
    s->troubled++;
    if (!uv_is_active((uv_handle_t *)&s->trouble_timer))
        uv_timer_start(&s->trouble_timer, trouble_cb, TROUBLE_MS, 0);
}

static void fired_cb(void *ctx, const struct reply *r)
{
    struct planned *p = ctx;
    struct broker *b = p->broker;
    struct schedules *s = &b->schedules;
    p->busy = false;
    s->busy--;
    if (p->gone) {
        planned_free(p);
        moving_further(b);
        return;
    }
    if (r->outcome == OUT_NO_SCHEDULE) { /* deleted on another node */
        planned_drop(p);
        moving_further(b);
        return;
    }
    take_state(p, r);
    if (r->kind == OP_TRIGGER && r->outcome == OUT_OK && !r->fired)
        park(p);
    /* Refused, and still due: whatever the reason, not again at once. */
    if (r->outcome != OUT_OK && due_ms(p) <= broker_now(b).wall.ms)
        troubled(p);
    enter(p);
    moving_further(b);
}

static struct op fire_op(const struct planned *p, struct wall_time now)
{
    bool takes_items = p->spec.kind == SCHEDULE_QUEUE;
    struct op op = {.kind = takes_items ? OP_TRIGGER : OP_FIRE, .schedule = {.name = p->name}};
    struct plan plan = {.at = now, .next_at = times_next(&p->times, now)};
    if (!takes_items)
        plan = times_plan(&p->times, due_time(p), now);
    op.schedule.at = plan.at;
    op.schedule.next_at = plan.next_at;
    op.schedule.missed = plan.missed;
    op.schedule.skip = plan.skip;
    return op;
}

static void fire(struct planned *p, struct wall_time now)
{
    struct op op = fire_op(p, now);
    p->signalled = false;
    p->looked_ms = now.ms;
    if (broker_submit(p->broker, &op, 1, fired_cb, p) != 0) {
        troubled(p);
        return;
    }
    p->busy = true;
    p->broker->schedules.busy++;
    p->broker->schedules.dirty = true;
}

#define FIRINGS_PER_ITERATION                                                                      \
    1000 /* fired in one iteration of the loop, so that other work is not delayed */

void schedules_run(struct broker *b)
{
    struct schedules *s = &b->schedules;
    struct wall_time now = broker_now(b).wall;
    struct heap_entry top;
    for (int n = 0; n < FIRINGS_PER_ITERATION && !b->draining && schedules_next_ms(b) <= now.ms;
         n++) {
        heap_pop(&s->due, &top);
        s->list[top.seq]->place = SIZE_MAX;
        fire(s->list[top.seq], now);
    }
    if (!s->moving)
        timer_arm(b);
}

static void timer_cb(uv_timer_t *timer)
{
    schedules_run(timer->data);
}

/* ---- changes by others ---- */

void schedules_prepare(struct broker *b, struct op *op)
{
    struct op_schedule *want = &op->schedule;
    struct wall_time now = broker_now(b).wall;
    const struct planned *p;
    struct times times;
    if (op->kind == OP_SCHEDULE_PUT && want->spec && want->next_at.ms == 0 &&
        times_init(&times, b->schedules.zones, want->spec, NULL) == 0)
        want->next_at = times_next(&times, now);
    p = op->kind == OP_SCHEDULE_PAUSE && !want->paused ? planned_of(b, want->name) : NULL;
    if (p && p->known && want->next_at.ms == 0)
        want->next_at = times_next(&p->times, now);
}

static void run_out_of_turn(struct broker *b, const struct reply *r)
{
    struct planned *p = r->schedule_count == 1 ? planned_of(b, r->schedules[0].name) : NULL;
    if (!p || p->busy)
        return;
    int64_t next_at = p->state.next_at.ms; /* as far as this broker knows */
    take_state(p, r);
    if (next_at > p->state.next_at.ms && p->spec.kind == SCHEDULE_QUEUE)
        p->state.next_at.ms = next_at;
    enter(p);
}

void schedules_observe(struct broker *b, const struct op *op, const struct reply *r)
{
    struct planned *p;
    if (!b->schedules.started || r->outcome != OUT_OK)
        return;
    switch ((int)op->kind) {
    case OP_SCHEDULE_PUT:
    case OP_SCHEDULE_PAUSE:
        if (r->schedule_count == 1)
            planned_define(b, &r->schedules[0]);
        break;
    case OP_SCHEDULE_DELETE:
        p = planned_of(b, op->schedule.name);
        if (p)
            planned_drop(p);
        break;
    case OP_FIRE:
    case OP_TRIGGER:
        if (op->schedule.now)
            run_out_of_turn(b, r);
        break;
    default:
        break;
    }
}

/* ---- the start ---- */

static void loaded(struct broker *b)
{
    if (b->schedules.moving)
        moving_further(b);
    else if (!b->draining)
        schedules_run(b);
}

static void listed_cb(void *ctx, const struct reply *r)
{
    struct broker *b = ctx;
    struct schedules *s = &b->schedules;
    bool none = r->outcome == OUT_INVALID; /* a store without schedules */
    bool failed = r->outcome != OUT_OK && !none;
    bool again = s->page_outdated;
    s->list_busy = s->page_outdated = false;
    for (uint32_t i = 0; i < r->schedule_count && !failed; i++)
        if (s->shared || !planned_of(b, r->schedules[i].name))
            planned_define(b, &r->schedules[i]);
    if (!failed && s->by_change && !again)
        s->mark = r->change_mark;
    if (none)
        uv_timer_stop(&s->follow_timer);
    bool more = !failed && r->more && r->schedule_count > 0;
    if (more && !s->by_change) {
        buf_clear(&s->list_name);
        failed = buf_append_span(&s->list_name, r->schedules[r->schedule_count - 1].name) != 0;
        s->list_after = buf_span(&s->list_name);
    }
    s->loading = more || failed || again;
    s->behind = s->behind && s->loading;
    if (failed && !b->draining)
        uv_timer_start(&s->trouble_timer, trouble_cb, TROUBLE_MS, 0);
    if ((more || again) && !failed)
        schedules_list(b);
    else if (!failed)
        loaded(b);
}

void schedules_list(struct broker *b)
{
    struct schedules *s = &b->schedules;
    struct op op = {
        .kind = OP_SCHEDULE_LIST,
        .schedule = {
            .after = s->list_after, .limit = PAGE, .by_change = s->by_change, .since = s->mark}};
    s->loading = true;
    s->list_busy = broker_submit(b, &op, 1, listed_cb, b) == 0;
    if (!s->list_busy)
        uv_timer_start(&s->trouble_timer, trouble_cb, TROUBLE_MS, 0);
}

void broker_schedules_start(struct broker *b)
{
    b->schedules.started = true;
    schedules_follow(b);
    schedules_list(b);
}

int schedules_init(struct broker *b)
{
    struct schedules *s = &b->schedules;
    heap_init(&s->due);
    s->due.moved = moved_cb;
    s->due.moved_ctx = b;
    map128_init(&s->by_name);
    buf_init(&s->list_name);
    return zones_new(&s->zones);
}

void schedules_handles(struct broker *b)
{
    struct schedules *s = &b->schedules;
    CHECK(uv_timer_init(b->config.loop, &s->timer) == 0 &&
          uv_timer_init(b->config.loop, &s->trouble_timer) == 0 &&
          uv_timer_init(b->config.loop, &s->follow_timer) == 0);
    s->timer.data = s->trouble_timer.data = s->follow_timer.data = b;
}

void schedules_drain(struct broker *b)
{
    struct schedules *s = &b->schedules;
    uv_timer_stop(&s->timer);
    uv_timer_stop(&s->trouble_timer);
    uv_timer_stop(&s->follow_timer);
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->list[i]) {
            backend_unwatch(b->config.backend, s->list[i]->watch);
            s->list[i]->watch = NULL;
        }
    }
    moving_cut(b);
}

void schedules_done(struct broker *b)
{
    struct schedules *s = &b->schedules;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->list[i])
            planned_free(s->list[i]);
    mem_free(s->list);
    heap_done(&s->due);
    map128_done(&s->by_name);
    buf_done(&s->list_name);
    zones_free(s->zones);
}
