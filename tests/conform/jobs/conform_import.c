/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that come from another store: with their counts, their last error, dead or waiting. */
#include "conform/conform.h"

static const struct job_past dead_past = {
    .state = STATE_DEAD,
    .reason = REASON_CRASH_LOOP,
    .failures = 2,
    .crashes = 5,
    .error_kind = ERROR_BUSINESS,
    .error = {"no such account", 15},
};
static const struct job_past tried_past = {
    .state = STATE_READY,
    .reason = REASON_FAILED,
    .failures = 1,
    .error = {"refused: ü", 11},
};

static struct op import_op(const char *queue, const struct job_past *past)
{
    struct op op = enqueue_op(queue);
    op.enqueue.past = past;
    return op;
}

static void expect_past(struct env *e, uint64_t seq, enum job_state state,
                        const struct job_past *past)
{
    const struct job_view *v = get(e, seq);
    EXPECT(v != NULL);
    EXPECT_INT(v->job.state, state);
    EXPECT_INT(v->job.reason, past->reason);
    EXPECT_INT(v->job.failures, past->failures);
    EXPECT_INT(v->job.crashes, past->crashes);
    EXPECT_INT(id_time(v->job.id_hi).ms, START_WALL_MS); /* new, as the sequence is */
    EXPECT_SPAN(v->error, past->error);
    EXPECT_INT(v->error_kind, past->error_kind);
    EXPECT_STATE(seq, state);
}

/* A job of a spool already has its id. An import that repeats it, under the same key or after the
 * key was dropped, returns the job that exists. */
static void comes_with_its_id(struct env *e)
{
    uint64_t first = put(e, "q");
    struct op op = import_op("q", &tried_past);
    op.enqueue.id = (struct job_ref){ID_SPOOL_BIT | UINT64_C(12) << ID_SPOOL_NODE_SHIFT | 5,
                                     id_hi((struct wall_time){START_WALL_MS - 5000}, 12)};
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->seq, op.enqueue.id.seq);
    EXPECT_INT(r->id_hi, op.enqueue.id.hi);
    EXPECT_STATE(op.enqueue.id.seq, STATE_READY);
    r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->repeat);
    EXPECT_INT(r->seq, op.enqueue.id.seq);
    struct op other = op;
    other.enqueue.id.hi += 1 << 16; /* another job, which must not be confused with this one */
    r = run(e, other);
    EXPECT_OUT(r, OUT_EXISTS);
    EXPECT_INT(r->id_hi, op.enqueue.id.hi);
    EXPECT_COUNTS("q", .ready = 2);
    uint64_t last = put(e, "q");
    EXPECT(last > first && !id_spooled(last)); /* counted as before */
    struct held h = take(e, "q");
    EXPECT_INT(h.seq, first);
    h = take(e, "q");
    EXPECT_INT(h.seq, last);
    h = take(e, "q"); /* behind those that the store counts */
    EXPECT_INT(h.seq, op.enqueue.id.seq);
    EXPECT_INT(h.hi, op.enqueue.id.hi);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_STATE(h.seq, STATE_DONE);
    run(e, (struct op){.kind = OP_BULK,
                       .bulk = {.action = BULK_REMOVE,
                                .queue = SPAN_LITERAL("q"),
                                .states = STATE_BIT(STATE_DONE)}});
    EXPECT_STATE(h.seq, STATE_NONE);
}

static void only_spools_name_jobs(struct env *e)
{
    static const struct job_ref wrong[] = {
        {5, UINT64_C(0x7000)},            /* a sequence that the store counts */
        {ID_SPOOL_BIT, UINT64_C(0x7000)}, /* counted from 0 */
        {ID_SPOOL_BIT | 1, 1},            /* no id has such a high half */
        {ID_SPOOL_BIT << 1 | ID_SPOOL_BIT | 1, UINT64_C(0x7000)},
    };
    struct op op = import_op("q", &tried_past);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        op.enqueue.id = wrong[i];
        EXPECT_OUT(run(e, op), OUT_INVALID);
    }
    op.enqueue.id = (struct job_ref){ID_SPOOL_BIT | 1, UINT64_C(0x7000)};
    op.enqueue.past = NULL;
    EXPECT_OUT(run(e, op), OUT_INVALID);
}

static void comes_dead(struct env *e)
{
    uint64_t seq = put_op(e, import_op("q", &dead_past));
    expect_past(e, seq, STATE_DEAD, &dead_past);
    EXPECT_COUNTS("q", .dead = 1);
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    EXPECT_INT(requeue(e, seq)->outcome, OUT_OK);
    struct held h = take(e, "q");
    EXPECT_INT(h.seq, seq);
    EXPECT_OUT(ack(e, h), OUT_OK);
}

static void comes_tried(struct env *e)
{
    struct queue_policy p = test_policy(); /* 3 attempts */
    queue_make(e, "q", &p);
    uint64_t seq = put_op(e, import_op("q", &tried_past));
    expect_past(e, seq, STATE_READY, &tried_past);
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    EXPECT_STATE(seq, STATE_SCHEDULED);
    advance(e, 10000);
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    EXPECT_STATE(seq, STATE_DEAD); /* its imported failure counted */
}

static void comes_scheduled(struct env *e)
{
    struct op op = import_op("q", &tried_past);
    op.enqueue.run_at = now_plus(e, 5000);
    uint64_t seq = put_op(e, op);
    expect_past(e, seq, STATE_SCHEDULED, &tried_past);
    advance(e, 5000);
    EXPECT_INT(take(e, "q").seq, seq);
}

/* Requeued in the other store: no reason, no counts, but the text is still shown. */
static void comes_forgiven(struct env *e)
{
    static const struct job_past past = {.state = STATE_READY, .error = {"once", 4}};
    expect_past(e, put_op(e, import_op("q", &past)), STATE_READY, &past);
}

static void survives(struct env *e)
{
    uint64_t dead = put_op(e, import_op("q", &dead_past));
    uint64_t tried = put_op(e, import_op("q", &tried_past));
    env_restart(e);
    expect_past(e, dead, STATE_DEAD, &dead_past);
    expect_past(e, tried, STATE_READY, &tried_past);
    EXPECT_COUNTS("q", .dead = 1, .ready = 1);
}

/* A dead job does not hold its key among live ones, whichever of the two comes first. */
static void key_among_live(struct env *e)
{
    struct op op = import_op("q", &dead_past);
    op.enqueue.extra.unique = SPAN_LITERAL("k");
    uint64_t dead = put_op(e, op);
    uint64_t live = put_unique(e, "q", "k");
    uint64_t dead_too = put_op(e, op);
    EXPECT_STATE(dead, STATE_DEAD);
    EXPECT_STATE(live, STATE_READY);
    EXPECT_STATE(dead_too, STATE_DEAD);
    struct op second = enqueue_op("q");
    second.enqueue.extra.unique = SPAN_LITERAL("k");
    const struct reply *r = run(e, second);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->seq, live);
    EXPECT_OUT(requeue(e, dead), OUT_DUPLICATE);
}

/* Even with unique mode replace, an imported job does not replace a job. */
static void key_is_never_taken(struct env *e)
{
    struct queue_policy p = test_policy();
    p.unique_mode = UNIQUE_REPLACE;
    queue_make(e, "q", &p);
    uint64_t holder = put_unique(e, "q", "k");
    struct op op = import_op("q", &tried_past);
    op.enqueue.extra.unique = SPAN_LITERAL("k");
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->seq, holder);
    EXPECT_STATE(holder, STATE_READY);
}

static void key_among_kept(struct env *e)
{
    struct queue_policy p = test_policy();
    p.unique_scope = UNIQUE_KEPT;
    queue_make(e, "q", &p);
    struct op op = import_op("q", &dead_past);
    op.enqueue.extra.unique = SPAN_LITERAL("k");
    uint64_t dead = put_op(e, op);
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->seq, dead);
}

static void closed_and_full(struct env *e)
{
    struct queue_policy p = test_policy();
    p.refuse_new = true;
    p.capacity = 1;
    queue_make(e, "q", &p);
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_REFUSED_NEW);
    put_op(e, import_op("q", &tried_past));
    EXPECT_OUT(run(e, import_op("q", &tried_past)), OUT_QUEUE_FULL);
    put_op(e, import_op("q", &dead_past));
    EXPECT_COUNTS("q", .ready = 1, .dead = 1);
}

static void expect_invalid(struct env *e, struct job_past past)
{
    struct job_past *kept = arena_copy(&e->arena, &past, sizeof past);
    EXPECT(kept != NULL);
    const struct reply *r = run(e, import_op("q", kept));
    EXPECT_OUT(r, OUT_INVALID);
    EXPECT(r->note != NULL);
}

static void wrong(struct env *e)
{
    struct job_past p = dead_past;
    p.state = STATE_DONE;
    expect_invalid(e, p);
    p = dead_past;
    p.reason = REASON_CANCELLED;
    expect_invalid(e, p);
    p = tried_past;
    p.reason = REASON_CRASH_LOOP;
    expect_invalid(e, p);
    p = tried_past;
    p.error_kind = 9;
    expect_invalid(e, p);
    p = tried_past;
    p.error = SPAN_LITERAL("\xff");
    expect_invalid(e, p);
    EXPECT_INT(run(e, queue_op(OP_QUEUE_GET, "q"))->outcome, OUT_NO_QUEUE);
}

/* An error of another store causes no event here. */
static void silent(struct env *e)
{
    struct backend_event events[8];
    uint64_t oldest;
    settle_due(e);
    uint64_t after = backend_events_last(e->b);
    put_op(e, import_op("q", &dead_past));
    put_op(e, import_op("q", &tried_past));
    settle_due(e);
    size_t jobs = 0, count = backend_events(e->b, after, 0, events, 8, &oldest);
    for (size_t i = 0; i < count; i++) {
        jobs += events[i].kind == EVENT_ENQUEUED;
        EXPECT(events[i].kind == EVENT_ENQUEUED || events[i].seq == 0);
    }
    EXPECT_INT(jobs, 2);
    const struct queue_counts *c = &queue_get(e, "q")->counts;
    EXPECT_INT(c->died + c->failed + c->crashed + c->claimed, 0);
}

/* A job that has ended elsewhere, with its result: it is a new one here, and ended now. */
static void comes_done(struct env *e)
{
    static const struct job_past done = {.state = STATE_DONE};
    static const struct job_moved moved = {.result_kind = PAYLOAD_JSON,
                                           .result = {"{\"sent\":1}", 10}};
    uint64_t before = put(e, "q");
    struct op op = import_op("q", &done);
    op.enqueue.moved = &moved;
    op.enqueue.idempotency_key = SPAN_LITERAL("import/1");
    uint64_t seq = put_op(e, op);
    EXPECT(seq != before);
    expect_past(e, seq, STATE_DONE, &done);
    const struct job_view *v = get(e, seq);
    EXPECT_INT(v->job.since.ms, START_WALL_MS);
    EXPECT_INT(v->started_at.ms, 0);
    EXPECT_INT(v->result_kind, PAYLOAD_JSON);
    EXPECT_TEXT(v->result, "{\"sent\":1}");
    const struct reply *again = run(e, op);
    EXPECT(again->repeat);
    EXPECT_INT(again->seq, seq);
    struct op dead = import_op("q", &dead_past);
    dead.enqueue.moved = &moved;
    expect_past(e, put_op(e, dead), STATE_DEAD, &dead_past);
    EXPECT_COUNTS("q", .ready = 1, .done = 1, .dead = 1);
}

static struct op add_op(uint64_t seq, const struct job_ref *parents, uint32_t count, bool close)
{
    return (struct op){
        .kind = OP_DEPENDENCIES,
        .dependencies = {.job = {.seq = seq}, .parents = parents, .count = count, .close = close}};
}

/* It comes open; what it waits for in this store is added, and then it is closed. */
static void comes_blocked(struct env *e)
{
    struct dependent had = {.open = true, .rule = DEPENDENCY_RUN};
    had.counts[DEPENDENCY_END_NONE] = 3;
    had.counts[DEPENDENCY_END_DONE] = 2;
    had.counts[DEPENDENCY_END_REMOVED] = 1;
    struct op_depends depends = {.rule = DEPENDENCY_RUN, .past = &had};
    struct job_past past = {.state = STATE_BLOCKED, .failures = 1, .error = {"noted", 5}};
    struct op op = import_op("q", &past);
    op.enqueue.depends = &depends;
    op.enqueue.idempotency_key = SPAN_LITERAL("import/7");
    uint64_t child = put_op(e, op);
    EXPECT_STATE(child, STATE_BLOCKED);
    EXPECT(run(e, op)->repeat);
    EXPECT_COUNTS("q", .blocked = 1);
    const struct job_view *v = get(e, child);
    EXPECT(v->is_dependent && v->dependent.open);
    EXPECT_INT(v->dependent.counts[DEPENDENCY_END_NONE], 3);
    EXPECT_INT(v->job.failures, 1);
    EXPECT_TEXT(v->error, "noted");
    struct job_ref parent = {.seq = put(e, "p")};
    EXPECT_OUT(run(e, add_op(child, &parent, 1, true)), OUT_OK);
    EXPECT_OUT(run(e, add_op(child, &parent, 1, true)), OUT_ILLEGAL); /* it is closed */
    EXPECT_STATE(child, STATE_BLOCKED);
    EXPECT_INT(get(e, child)->dependent.counts[DEPENDENCY_END_NONE], 4);
    EXPECT_OUT(ack(e, take(e, "p")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(child, STATE_READY);
    EXPECT_INT(take(e, "q").seq, child);
}

/* A parent had failed when it was exported: the rule holds at the latest when it is closed. */
static void comes_blocked_and_fails(struct env *e)
{
    struct dependent had = {.open = true, .rule = DEPENDENCY_DEAD};
    had.counts[DEPENDENCY_END_NONE] = had.counts[DEPENDENCY_END_CANCELLED] = 1;
    struct op_depends depends = {.rule = DEPENDENCY_DEAD, .past = &had};
    struct job_past past = {.state = STATE_BLOCKED};
    struct op op = import_op("q", &past);
    op.enqueue.depends = &depends;
    uint64_t child = put_op(e, op);
    uint8_t closed = run(e, add_op(child, NULL, 0, true))->outcome;
    EXPECT(closed == OUT_OK || closed == OUT_ILLEGAL); /* it may have ended already */
    settle_due(e);
    EXPECT_STATE(child, STATE_DEAD);
    EXPECT_INT(get(e, child)->job.reason, REASON_DEPENDENCY_FAILED);
}

/* The final job of a batch keeps the counts when it waits no more. */
static void comes_with_its_counts(struct env *e)
{
    struct dependent had = {.rule = DEPENDENCY_RUN};
    had.counts[DEPENDENCY_END_NONE] = 5;
    had.counts[DEPENDENCY_END_DONE] = 4;
    had.counts[DEPENDENCY_END_DEAD] = 1;
    struct op_depends depends = {.rule = DEPENDENCY_RUN, .past = &had};
    struct op op = import_op("q", &tried_past);
    op.enqueue.depends = &depends;
    uint64_t seq = put_op(e, op);
    expect_past(e, seq, STATE_READY, &tried_past);
    const struct job_view *v = get(e, seq);
    EXPECT(v->is_dependent && !v->dependent.open);
    EXPECT_INT(v->dependent.rule, DEPENDENCY_RUN);
    EXPECT_INT(v->dependent.counts[DEPENDENCY_END_DONE], 4);
    EXPECT_INT(v->waits, 0);
    EXPECT_INT(take(e, "q").seq, seq);
    op.enqueue.past = NULL;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    had.open = true; /* although it is not blocked */
    op.enqueue.past = &tried_past;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    op.enqueue.depends = NULL;
    struct job_past blocked = {.state = STATE_BLOCKED};
    op.enqueue.past = &blocked;
    EXPECT_OUT(run(e, op), OUT_INVALID);
}

static const struct conform_case cases[] = {
    CASE("PDQ-7 a spool's job comes with its id, once", comes_with_its_id, .flags = EXACT,
         .needs = NEEDS_ONE_STORE),
    CASE("PDQ-7 no other job brings an id", only_spools_name_jobs),
    CASE("import: a dead job comes dead, with its last error", comes_dead),
    CASE("import: counts and error of a waiting job go on", comes_tried),
    CASE("import: an error without a reason", comes_forgiven),
    CASE("import: run_at decides whether it is scheduled", comes_scheduled),
    CASE("NOM-16 import: a done job comes with its result", comes_done),
    CASE("import: survives a restart", survives, RESTART),
    CASE("import: dead jobs beside a live one of the same key", key_among_live),
    CASE("import: a held key refuses it, whatever the mode", key_is_never_taken, EXACT),
    CASE("import: a key is unique among kept jobs", key_among_kept, EXACT),
    CASE("import: a queue that takes no new jobs, a full one", closed_and_full, EXACT),
    CASE("import: what cannot be is refused", wrong),
    CASE("import: makes no event but enqueued", silent, EXACT),
    CASE("HF-10 import: a blocked job comes open and waits for what is added", comes_blocked,
         .needs = NEEDS_DEPENDENCIES),
    CASE("HF-10 import: a parent that had failed counts by the rule of the job",
         comes_blocked_and_fails, .needs = NEEDS_DEPENDENCIES),
    CASE("HF-10 import: a job keeps how the others had ended", comes_with_its_counts,
         .flags = EXACT, .needs = NEEDS_DEPENDENCIES),
};
TOPIC(topic_import, cases);
