/* SPDX-License-Identifier: Apache-2.0 */
/* Firing: the job that a schedule creates, in the same commit as the step that the schedule takes.
 *
 * A time can be fired only while it is the schedule's next one, or later, and the record that says
 * so moves the schedule on: a second firing of the same time, after a crash or on another node,
 * finds that it is not due. A time that should create a job and cannot (the queue is full, or takes
 * no new jobs) stays due; the failure is counted and says when to try again. */
#include "base/check.h"
#include "core/limits.h"
#include "ops/jobs/enqueue.h"
#include "ops/replies.h"
#include "ops/schedules/schedule_rules.h"

/* One firing. */
struct firing {
    struct schedule_base *s;
    const struct op_schedule *want;
    struct reply *r;
    struct schedule_state state; /* as it will be */
    struct job_options options;
    struct op_enqueue enqueue;
    struct enqueue_plan plan;
};

static struct record step_record(const struct ops *o, const struct firing *f, enum record_kind kind)
{
    return (struct record){
        .kind = kind,
        .schedule_state = {.schedule = f->s->number, .at = o->now, .state = f->state},
    };
}

/* The schedule takes its step without a job. False: no memory. */
static bool step(struct ops *o, struct firing *f, enum record_kind kind)
{
    struct record rec = step_record(o, f, kind);
    if (!o->store->schedule_prepare(o, &rec))
        return false;
    o->store->schedule_step(o, f->s, &rec, NULL);
    return true;
}

/* The time passes without a job. */
static void pass(struct ops *o, struct firing *f)
{
    f->r->outcome = OUT_OK;
    f->r->note = NULL;
    if (f->want->now)
        return;
    f->state.missed++;
    if (!step(o, f, REC_SCHEDULE_PASSED))
        reply_nomem(o, f->r);
}

static void fail(struct ops *o, struct firing *f)
{
    f->state = f->s->state;
    if (schedule_failed(f->want, f->r->outcome, o->now, &f->state))
        (void)step(o, f, REC_SCHEDULE_FAILED);
}

static void fired(struct ops *o, struct firing *f)
{
    CHECK(f->plan.job);
    f->state.fired++;
    f->state.fired_at = o->now;
    f->state.seq = f->plan.job->seq;
    f->state.id_hi = f->plan.job->id_hi;
    f->r->fired = true;
    f->r->relaxed = false; /* it waits for the schedule's own record */
    struct record rec = step_record(o, f, REC_SCHEDULE_FIRED);
    o->store->schedule_step(o, f->s, &rec, f->plan.job);
}

/* The last job is still waiting or running, and the policy says to wait for its end. */
static bool overlaps(struct ops *o, const struct firing *f)
{
    return f->s->spec.overlap == OVERLAP_SKIP && !f->want->now && f->s->state.seq &&
           o->store->schedule_last_live(o, f->s);
}

static bool begin(struct ops *o, const struct op *op, struct reply *r, struct firing *f)
{
    *f = (struct firing){.want = &op->schedule, .r = r};
    f->s = o->store->schedule_find(o, op->schedule.name);
    if (!f->s)
        return reply_refuse(r, OUT_NO_SCHEDULE, NULL);
    const char *note;
    enum outcome out =
        schedule_fire_right(op, &f->s->spec, &f->s->state, f->s->paused, o->now, &note);
    if (out != OUT_OK)
        return reply_refuse(r, out, out == OUT_INVALID ? note : NULL);
    f->state = schedule_moved_on(f->want, &f->s->state);
    return true;
}

/* What is enqueued: the schedule's job, with its origin and the items in its attributes and, of a
 * trigger, in its payload. */
static bool fill_enqueue(struct ops *o, struct firing *f, const struct schedule_item *items,
                         uint32_t count)
{
    struct schedule_origin origin = {.number = f->s->number,
                                     .at = f->want->now ? o->now : f->want->at};
    size_t split;
    o->store->schedule_names(o, f->s, &origin.name, &origin.owner);
    buf_clear(&o->scratch);
    if (schedule_job_text(&origin, &f->s->spec, items, count, &o->scratch, &split) != 0)
        return false;
    struct span text = text_keep(o, buf_span(&o->scratch));
    if (!text.at)
        return false;
    schedule_enqueue(&f->s->spec, o->now, &f->options, &f->enqueue);
    f->enqueue.extra.attributes = span_of(text.at, split);
    if (count > 0) {
        f->enqueue.payload_kind = PAYLOAD_JSON;
        f->enqueue.payload = span_of(text.at + split, text.len - split);
    }
    return true;
}

/* Creates the job, and reserves memory for the records of its items and of the step. False: the
 * reply says why not, or that a job with its unique key exists already. */
static bool create_job(struct ops *o, struct firing *f, const struct schedule_item *items,
                       uint32_t count, size_t more)
{
    struct record rec = step_record(o, f, REC_SCHEDULE_FIRED);
    if (!fill_enqueue(o, f, items, count))
        return reply_nomem(o, f->r);
    f->plan = (struct enqueue_plan){.want = &f->enqueue, .reply = f->r};
    if (!enqueue_look(o, &f->plan, 0) || !enqueue_plan(o, &f->plan, 0) || f->plan.answered)
        return false;
    if (!enqueues_prepare(o, &f->plan, 1, NULL, more + record_bytes_max(&rec)))
        return reply_refuse(f->r, OUT_UNAVAILABLE, NO_ROOM);
    enqueues_commit(o, &f->plan, 1);
    return f->plan.job != NULL;
}

static bool is_duplicate(const struct reply *r)
{
    return r->outcome == OUT_OK || r->outcome == OUT_DUPLICATE;
}

void ops_fire(struct ops *o, const struct op *op, struct reply *r)
{
    struct firing f;
    if (begin(o, op, r, &f)) {
        bool skip = f.want->skip || overlaps(o, &f);
        if (!skip && create_job(o, &f, NULL, 0, 0)) {
            fired(o, &f);
        } else if (skip || is_duplicate(r)) {
            pass(o, &f); /* of a duplicate: the job with its unique key exists already */
        } else {
            fail(o, &f);
        }
    }
    if (f.s)
        o->store->schedule_show(o, f.s, r);
}

/* --- trigger --- */

/* Items that were taken out of the order of their queue and are not yet assigned to a job. */
struct items {
    struct job **jobs;
    struct schedule_item *list;
    uint32_t count;
};

/* The queue of the items. An API's trigger takes from that API's queues: one of the same name that
 * another API has created since is not meant. */
static const struct queue_state *source_of(struct ops *o, const struct firing *f)
{
    const struct queue_state *q = o->store->queue_find(o, f->s->spec.source);
    struct span name, owner;
    if (!q || queue_is_paused(q, o->now))
        return NULL;
    o->store->schedule_names(o, f->s, &name, &owner);
    return owner.len == 0 || span_equal(owner, o->store->queue_owner(o, q)) ? q : NULL;
}

/* The next items of the source, by (priority, sequence). A job may stand in the order twice, side
 * by side. False: no memory. */
static bool take_items(struct ops *o, const struct queue_state *q, uint32_t most,
                       struct items *items)
{
    uint64_t ready = o->store->ready_count(o, q);
    struct heap_entry order;
    struct job *j;
    most = most < ready ? most : (uint32_t)ready;
    items->jobs = arena_array(o->memory, most + 1, sizeof(*items->jobs));
    items->list = arena_array(o->memory, most + 1, sizeof(*items->list));
    if (!items->jobs || !items->list)
        return false;
    while (items->count < most && o->store->ready_next(o, q, &order, &j) && j) {
        o->store->item_take(o, q);
        if (items->count > 0 && items->jobs[items->count - 1] == j)
            continue;
        items->list[items->count] = (struct schedule_item){.seq = j->seq, .id_hi = j->id_hi};
        items->jobs[items->count++] = j;
    }
    return !o->nomem;
}

static void return_items(struct ops *o, const struct items *items)
{
    for (uint32_t i = 0; i < items->count; i++)
        o->store->item_return(o, items->jobs[i]);
}

static void lease_items(struct ops *o, struct firing *f, const struct items *items)
{
    for (uint32_t i = 0; i < items->count; i++) {
        struct record rec = {
            .kind = REC_JOB_CLAIMED,
            .job_claimed = {.seq = items->list[i].seq,
                            .token = o->store->token_next(o),
                            .at = o->now},
        };
        o->store->commit(o, items->jobs[i], &rec);
    }
    o->store->items_link(o, f->plan.job, items->jobs, items->count);
    f->state.item = items->list[items->count - 1].seq;
    f->r->taken = items->count;
    fired(o, f);
}

static void fire_items(struct ops *o, struct firing *f, const struct queue_state *q,
                       struct items *items)
{
    size_t more = 0;
    for (uint32_t i = 0; i < items->count; i++)
        items->list[i].token = o->store->token_ahead(o, i);
    bool room = o->store->items_prepare(o, q, items->count, &more);
    if (room && create_job(o, f, items->list, items->count, more)) {
        lease_items(o, f, items);
        return;
    }
    return_items(o, items);
    if (!room)
        reply_nomem(o, f->r);
    else if (is_duplicate(f->r))
        f->r->outcome = OUT_OK; /* a job with its unique key has items already */
    else
        fail(o, f);
}

void ops_trigger(struct ops *o, const struct op *op, struct reply *r)
{
    struct firing f;
    if (begin(o, op, r, &f)) {
        const struct queue_state *q = source_of(o, &f);
        struct items items = {0};
        if (q && !overlaps(o, &f) && !o->disk_full) {
            if (!take_items(o, q, f.s->spec.batch_size, &items)) {
                return_items(o, &items);
                reply_nomem(o, r);
            } else if (items.count > 0) {
                fire_items(o, &f, q, &items);
            }
        }
    }
    if (f.s)
        o->store->schedule_show(o, f.s, r);
}
