/* SPDX-License-Identifier: Apache-2.0 */
/* Firing: what a schedule makes, in the same commit as the step it takes.
 *
 * A time can be fired only while it is the schedule's next one, or later, and the record that says
 * so moves it on: whoever fires the same time again, after a crash or on another node, finds that
 * it is not due. A time that should make a job and cannot (the queue is full, takes no new jobs)
 * stays due; the failure is counted and says when to try again. */
#include "backend/local/engine/engine_impl.h"
#include "ops/schedule_rules.h"

/* One firing under way. */
struct firing {
    struct schedule *s;
    const struct op_schedule *want;
    struct engine_reply *r;
    struct schedule_state state; /* as it will be */
    struct buf text;             /* attributes, then the payload of a trigger's job */
};

static struct record state_record(const struct engine *e, const struct firing *f,
                                  enum record_kind kind)
{
    return (struct record){
        .kind = kind,
        .schedule_state = {.schedule = f->s->number, .at = e->now.wall, .state = f->state},
    };
}

/* Room has been reserved. */
static void emit_state(struct engine *e, struct firing *f, enum record_kind kind)
{
    struct record rec = state_record(e, f, kind);
    engine_emit(e, &rec);
    f->r->after = e->position;
}

static size_t state_bytes(const struct engine *e, const struct firing *f)
{
    struct record rec = state_record(e, f, REC_SCHEDULE_FIRED);
    return record_bytes_max(&rec);
}

/* The time passes without a job. */
static void pass(struct engine *e, struct firing *f)
{
    f->r->reply.outcome = OUT_OK;
    f->r->reply.note = NULL;
    f->state.missed += !f->want->now;
    if (f->want->now)
        return;
    if (emit_reserve(e, state_bytes(e, f)) != 0)
        refuse_nomem(f->r);
    else
        emit_state(e, f, REC_SCHEDULE_PASSED);
}

static void fail(struct engine *e, struct firing *f)
{
    f->state = f->s->state;
    if (!schedule_failed(f->want, f->r->reply.outcome, e->now.wall, &f->state))
        return;
    if (emit_reserve(e, state_bytes(e, f)) != 0)
        return;
    emit_state(e, f, REC_SCHEDULE_FAILED);
    if (f->state.failures == 1)
        events_schedule(e, EVENT_SCHEDULE_FAILED, f->s, NULL);
}

static void fired(struct engine *e, struct firing *f)
{
    f->state.fired++;
    f->state.fired_at = e->now.wall;
    f->state.seq = f->r->reply.seq;
    f->state.id_hi = f->r->reply.id_hi;
    f->r->reply.relaxed = false; /* it waits for the schedule's own record */
    emit_state(e, f, REC_SCHEDULE_FIRED);
    events_schedule(e, EVENT_SCHEDULE_FIRED, f->s, jobs_by_seq(e, f->r->reply.seq, NULL));
}

/* --- what is enqueued --- */

static struct schedule_origin origin_of(const struct engine *e, const struct firing *f)
{
    return (struct schedule_origin){.name = schedule_name(f->s),
                                    .owner = schedule_owner(f->s),
                                    .number = f->s->number,
                                    .at = f->want->now ? e->now.wall : f->want->at};
}

/* Enqueues what the spec says, with the attributes in f->text, and room for `more`. */
static void enqueue(struct engine *e, struct firing *f, struct span attributes, struct span payload,
                    size_t more)
{
    struct job_options options;
    struct op_enqueue want;
    schedule_enqueue(&f->s->spec, e->now.wall, &options, &want);
    want.extra.attributes = attributes;
    if (payload.len > 0) {
        want.payload_kind = PAYLOAD_JSON;
        want.payload = payload;
    }
    enqueue_do(e, &want, more, f->r);
}

/* --- fire --- */

static bool begin(struct engine *e, const struct op *op, struct firing *f)
{
    *f = (struct firing){.want = &op->schedule, .r = reply_new(e, op)};
    buf_init(&f->text);
    f->s = schedules_find(e, op->schedule.name);
    if (!f->s)
        return refuse(f->r, OUT_NO_SCHEDULE, NULL);
    const char *note;
    enum outcome out =
        schedule_fire_right(op, &f->s->spec, &f->s->state, f->s->paused, e->now.wall, &note);
    if (out != OUT_OK)
        return refuse(f->r, out, out == OUT_INVALID ? note : NULL);
    f->state = schedule_moved_on(f->want, &f->s->state);
    return true;
}

/* The last job is still waiting or running, and the policy says to wait for its end. */
static bool overlaps(struct engine *e, const struct firing *f)
{
    struct job_ref ref = {f->s->state.seq, f->s->state.id_hi};
    const struct live *last = ref.seq ? jobs_find(e, ref, NULL) : NULL;
    return f->s->spec.overlap == OVERLAP_SKIP && !f->want->now && last &&
           state_lives(last->job.state);
}

static void make_job(struct engine *e, struct firing *f)
{
    struct schedule_origin origin = origin_of(e, f);
    size_t split;
    if (schedule_job_text(&origin, &f->s->spec, NULL, 0, &f->text, &split) != 0) {
        refuse_nomem(f->r);
        return;
    }
    enqueue(e, f, buf_span(&f->text), (struct span){NULL, 0}, state_bytes(e, f));
    bool duplicate = f->r->reply.outcome == OUT_DUPLICATE ||
                     (f->r->reply.outcome == OUT_OK && !f->r->reply.created);
    if (f->r->reply.outcome == OUT_OK && f->r->reply.created) {
        f->r->reply.count = 1;
        fired(e, f);
    } else if (duplicate) {
        pass(e, f); /* one under its unique key is there: that is what the key is for */
    } else {
        fail(e, f);
    }
}

void op_fire(struct engine *e, const struct op *op)
{
    struct firing f;
    if (begin(e, op, &f)) {
        f.r->after = e->position;
        if (f.want->skip || overlaps(e, &f))
            pass(e, &f);
        else
            make_job(e, &f);
    }
    if (f.s)
        schedule_show(e, f.s, f.r);
    buf_done(&f.text);
}

/* --- trigger --- */

/* Items on their way to a job. */
struct catch
{
    struct queue *q;
    struct heap_entry *entries; /* taken out of q's order */
    uint32_t count;
};

static void put_back(struct catch *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        CHECK(heap_push(&c->q->ready, c->entries[i]) == 0); /* they have just left it */
    c->count = 0;
}

/* The next items of the source, by (priority, sequence). A job may stand in the order twice, side
 * by side. */
static int catch_items(struct engine *e, const struct schedule_spec *spec, struct catch *c)
{
    uint64_t ready = c->q->lists[STATE_READY].count;
    uint32_t most = spec->batch_size < ready ? spec->batch_size : (uint32_t)ready;
    struct heap_entry entry, gone;
    int err = 0;
    c->entries = arena_array(&e->out->arena, most ? most : 1, sizeof(*c->entries));
    if (!c->entries)
        return -ERR_NOMEM;
    while (c->count < most && claim_top(e, c->q, &entry, &err) != NULL) {
        heap_pop(&c->q->ready, &gone);
        if (c->count == 0 || c->entries[c->count - 1].seq != entry.seq)
            c->entries[c->count++] = entry;
    }
    if (err)
        put_back(c);
    return err;
}

static struct job_token token_of(const struct engine *e, uint32_t index)
{
    return (struct job_token){.counter = e->token_counter + 1 + index, .epoch = e->epoch};
}

static int write_job(struct engine *e, struct firing *f, const struct catch *c, size_t *ret_split)
{
    struct schedule_origin origin = origin_of(e, f);
    struct schedule_item *items = arena_array(&e->out->arena, c->count, sizeof(*items));
    if (!items)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct live *l = jobs_by_seq(e, c->entries[i].seq, NULL);
        items[i] = (struct schedule_item){l->job.seq, l->job.id_hi, token_of(e, i)};
    }
    return schedule_job_text(&origin, &f->s->spec, items, c->count, &f->text, ret_split);
}

#define CLAIM_BYTES 64 /* a claim without a worker; checked below */

static int reserve_items(struct engine *e, const struct catch *c)
{
    int err = jobs_reserve(e, c->q, 0, (size_t)c->count + 4, 0);
    if (!err)
        err = slab_reserve(&e->leases, c->count);
    return err ? err : holds_reserve(e);
}

static void claim_item(struct engine *e, uint64_t seq)
{
    struct record rec = {
        .kind = REC_JOB_CLAIMED,
        .job_claimed = {.seq = seq, .token = token_of(e, 0), .at = e->now.wall},
    };
    CHECK(record_bytes_max(&rec) <= CLAIM_BYTES);
    e->token_counter++;
    engine_emit(e, &rec);
}

/* The job is there: it gets its items. */
static void hand_items(struct engine *e, struct firing *f, const struct catch *c)
{
    uint64_t previous = 0;
    buf_clear(&e->scratch);
    for (uint32_t i = 0; i < c->count; i++) {
        claim_item(e, c->entries[i].seq);
        CHECK(record_seq_append(&e->scratch, &previous, c->entries[i].seq) == 0);
    }
    struct record rec = {
        .kind = REC_JOB_LINKED,
        .job_linked = {.seq = f->r->reply.seq,
                       .id_hi = f->r->reply.id_hi,
                       .count = c->count,
                       .items = buf_span(&e->scratch)},
    };
    engine_emit(e, &rec);
    f->state.item = c->entries[c->count - 1].seq;
    f->r->reply.count = c->count;
    fired(e, f);
}

static void make_items_job(struct engine *e, struct firing *f, struct catch *c)
{
    size_t split = 0;
    /* Claims, the link with its list, and the state. */
    size_t more = (size_t)c->count * (CLAIM_BYTES + BUF_VARINT_MAX) + 128 + state_bytes(e, f);
    buf_clear(&e->scratch);
    if (write_job(e, f, c, &split) != 0 || reserve_items(e, c) != 0 ||
        buf_reserve(&e->scratch, (size_t)c->count * BUF_VARINT_MAX + POLICY_BYTES_MAX) != 0) {
        put_back(c);
        refuse_nomem(f->r);
        return;
    }
    struct span all = buf_span(&f->text);
    enqueue(e, f, span_of(all.at, split), span_of(all.at + split, all.len - split), more);
    if (f->r->reply.outcome == OUT_OK && f->r->reply.created) {
        hand_items(e, f, c);
        return;
    }
    put_back(c);
    if (f->r->reply.outcome == OUT_OK || f->r->reply.outcome == OUT_DUPLICATE)
        f->r->reply.outcome = OUT_OK; /* a job under its unique key is at it */
    else
        fail(e, f);
}

/* Where the items come from. An API's trigger takes from that API's queues: one of the same name
 * that another has made since is not meant. */
static struct queue *source_of(struct engine *e, const struct schedule *s)
{
    struct queue *q = queues_find(e, s->spec.source);
    struct span owner = schedule_owner(s);
    return q && owner.len > 0 && !span_equal(owner, queue_owner(q)) ? NULL : q;
}

void op_trigger(struct engine *e, const struct op *op)
{
    struct firing f;
    struct catch c = {0};
    if (begin(e, op, &f)) {
        f.r->after = e->position;
        c.q = source_of(e, f.s);
        if (c.q && !queue_paused(c.q, e->now.wall) && !overlaps(e, &f) && !e->full) {
            if (catch_items(e, &f.s->spec, &c) != 0)
                refuse_nomem(f.r);
            else if (c.count > 0)
                make_items_job(e, &f, &c);
        }
    }
    if (f.s)
        schedule_show(e, f.s, f.r);
    buf_done(&f.text);
}
