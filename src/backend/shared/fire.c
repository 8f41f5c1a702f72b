/* SPDX-License-Identifier: Apache-2.0 */
/* Firing: what a schedule makes, in the same transaction as the step it takes.
 *
 * The schedule's row is locked, so whoever fires the same time again, on whichever node, finds that
 * it is not due. Items of a trigger were locked with the rest of what the unit loaded; they are
 * leased to its job, without end, for as long as that lives. */
#include "backend/shared/shared.h"

/* --- before anything is loaded --- */

void unit_firings_prepare(struct unit *u)
{
    for (size_t i = 0; i < u->count; i++) {
        struct turn *t = &u->turns[i];
        bool fires = t->op->kind == OP_FIRE || t->op->kind == OP_TRIGGER;
        const struct wschedule *s = fires ? unit_schedule(u, t->op->schedule.name) : NULL;
        t->firing = s ? unit_alloc(u, sizeof *t->firing) : NULL;
        if (!t->firing)
            continue;
        schedule_enqueue(&s->spec, u->now, &t->firing->options, &t->firing->want);
        if (s->spec.kind == SCHEDULE_QUEUE && t->op->kind == OP_TRIGGER) {
            t->firing->source = s->spec.source;
            t->firing->batch_size = s->spec.batch_size;
        }
    }
}

size_t turn_enqueues(const struct turn *t, const struct op_enqueue **ret)
{
    if (!t->firing)
        return op_enqueues(t->op, ret);
    *ret = &t->firing->want;
    return 1;
}

/* --- steps --- */

static void move_on(struct unit *u, struct wschedule *s, const struct schedule_state *state)
{
    s->state = *state;
    s->moved = true;
    u->records++;
}

/* The time passes without a job. */
static void pass(struct unit *u, struct turn *t, struct wschedule *s, struct schedule_state *next)
{
    t->reply.outcome = OUT_OK;
    t->reply.note = NULL;
    if (t->op->schedule.now)
        return;
    next->missed++;
    move_on(u, s, next);
}

static void fail(struct unit *u, struct turn *t, struct wschedule *s)
{
    struct schedule_state state = s->state;
    if (!schedule_failed(&t->op->schedule, t->reply.outcome, u->now, &state))
        return;
    move_on(u, s, &state);
    if (state.failures == 1) {
        unit_tell_schedule(u, EVENT_SCHEDULE_FAILED, s, NULL);
        unit_alert_failed(u, s);
    }
}

static void fired(struct unit *u, struct turn *t, struct wschedule *s, struct schedule_state *next,
                  const struct row *r)
{
    next->fired++;
    next->fired_at = u->now;
    next->seq = r->job.seq;
    next->id_hi = r->job.id_hi;
    t->reply.relaxed = false; /* it waits for the schedule's own step */
    move_on(u, s, next);
    unit_tell_schedule(u, EVENT_SCHEDULE_FIRED, s, r);
}

/* The job of the schedule with these texts; NULL: the reply says why not. */
static struct row *make(struct unit *u, struct turn *t, const struct wschedule *s,
                        const struct schedule_item *items, size_t count)
{
    const struct op_schedule *op = &t->op->schedule;
    struct schedule_origin origin = {s->name, s->owner, s->number, op->now ? u->now : op->at};
    struct op_enqueue want = t->firing->want;
    struct enqueue_plan plan;
    struct buf b;
    size_t split;
    buf_init(&b);
    const char *text = schedule_job_text(&origin, &s->spec, items, count, &b, &split) == 0
                           ? arena_copy(&u->arena, b.data, b.len)
                           : NULL;
    size_t len = b.len;
    buf_done(&b);
    u->nomem |= !text;
    if (!text)
        return NULL;
    want.extra.attributes = span_of(text, split);
    if (count) {
        want.payload_kind = PAYLOAD_JSON;
        want.payload = span_of(text + split, len - split);
    }
    return unit_enqueue_look(u, &want, t, &plan) && unit_enqueue_plan(u, NULL, 0, t, &plan)
               ? unit_enqueue_make(u, &plan, t)
               : NULL;
}

/* Whether the time may be fired, and what the schedule then is; else the reply says why not. */
static struct wschedule *begin(struct unit *u, struct turn *t, struct schedule_state *next)
{
    struct wschedule *s = unit_schedule(u, t->op->schedule.name);
    const char *note;
    if (!s || !t->firing) {
        unit_refuse(t, OUT_NO_SCHEDULE, NULL);
        return NULL;
    }
    enum outcome out = schedule_fire_right(t->op, &s->spec, &s->state, s->paused, u->now, &note);
    if (out != OUT_OK) {
        unit_refuse(t, out, out == OUT_INVALID ? note : NULL);
        unit_schedule_show(u, s, t);
        return NULL;
    }
    *next = schedule_moved_on(&t->op->schedule, &s->state);
    return s;
}

/* The last job is still waiting or running, and the policy says to wait for its end. */
static bool overlaps(const struct unit *u, const struct turn *t, const struct wschedule *s)
{
    return s->spec.overlap == OVERLAP_SKIP && !t->op->schedule.now && s->state.seq &&
           unit_schedule_view(u, s).last_live;
}

void work_fire(struct unit *u, struct turn *t)
{
    struct schedule_state next;
    struct wschedule *s = begin(u, t, &next);
    if (!s)
        return;
    bool skip = t->op->schedule.skip || overlaps(u, t, s);
    struct row *r = skip ? NULL : make(u, t, s, NULL, 0);
    if (r) {
        t->reply.count = 1;
        fired(u, t, s, &next, r);
    } else if (skip || t->reply.outcome == OUT_OK || t->reply.outcome == OUT_DUPLICATE) {
        pass(u, t, s, &next); /* one under its unique key is there: that is what the key is for */
    } else {
        fail(u, t, s);
    }
    unit_schedule_show(u, s, t);
}

/* --- trigger --- */

/* Items on their way to a job, out of the order of their queue. */
struct catch
{
    struct wqueue *q;
    struct row **rows;
    struct schedule_item *items;
    uint32_t count;
};

/* Where the items come from. An API's trigger takes from that API's queues: one of the same name
 * that another has made since is not meant. */
static struct wqueue *source_of(const struct unit *u, const struct wschedule *s)
{
    struct wqueue *q = unit_queue_named(u, s->spec.source);
    if (q && s->owner.len > 0 && !span_equal(s->owner, q->owner))
        return NULL;
    return q && !unit_queue_paused(u, q) ? q : NULL;
}

/* The next items of the source, by (priority, sequence). A job may stand in the order twice, side
 * by side. */
static void catch_items(struct unit *u, const struct wschedule *s, struct catch *c)
{
    uint32_t most = s->spec.batch_size;
    struct heap_entry entry;
    struct row *r;
    c->rows = arena_array(&u->arena, most, sizeof(struct row *));
    c->items = arena_array(&u->arena, most, sizeof *c->items);
    u->nomem |= !c->rows || !c->items;
    while (!u->nomem && c->count < most && (r = unit_claim_top(u, c->q, &entry)) != NULL) {
        heap_pop(&c->q->ready, &entry);
        if (c->count > 0 && c->rows[c->count - 1] == r)
            continue;
        struct job_token token = {u->s->token_counter + 1 + c->count, u->s->facts.epoch};
        c->items[c->count] = (struct schedule_item){r->job.seq, r->job.id_hi, token};
        c->rows[c->count++] = r;
    }
}

static void put_back(struct unit *u, const struct catch *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        struct heap_entry e = {heap_order_desc(c->rows[i]->job.priority), c->rows[i]->job.seq};
        u->nomem |= heap_push(&c->q->ready, e) != 0;
    }
}

static void hand_items(struct unit *u, const struct catch *c, const struct row *holder)
{
    for (uint32_t i = 0; i < c->count; i++) {
        struct row *r = c->rows[i];
        struct record rec = {
            .kind = REC_JOB_CLAIMED,
            .job_claimed = {.seq = r->job.seq, .token = c->items[i].token, .at = u->now},
        };
        u->s->token_counter++;
        unit_row_take(u, r, &rec);
        r->until_ms = LIMIT_WALL_MS;
        r->holder = (struct job_ref){holder->job.seq, holder->job.id_hi};
    }
}

static void make_items_job(struct unit *u, struct turn *t, struct wschedule *s,
                           struct schedule_state *next, const struct catch *c)
{
    struct row *r = make(u, t, s, c->items, c->count);
    if (r) {
        hand_items(u, c, r);
        next->item = c->items[c->count - 1].seq;
        t->reply.count = c->count;
        fired(u, t, s, next, r);
        return;
    }
    put_back(u, c);
    if (t->reply.outcome == OUT_OK || t->reply.outcome == OUT_DUPLICATE)
        t->reply.outcome = OUT_OK; /* a job under its unique key is at it */
    else
        fail(u, t, s);
}

void work_trigger(struct unit *u, struct turn *t)
{
    struct schedule_state next;
    struct wschedule *s = begin(u, t, &next);
    if (!s)
        return;
    struct catch c = {.q = source_of(u, s)};
    if (c.q && !overlaps(u, t, s))
        catch_items(u, s, &c);
    if (c.count > 0 && !u->nomem)
        make_items_job(u, t, s, &next, &c);
    unit_schedule_show(u, s, t);
}
