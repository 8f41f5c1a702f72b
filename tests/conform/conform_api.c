/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that the APIs of other systems need in addition to the native API: notes, discards,
 * keys that need not be unique, pages that begin anywhere, totals that outlive their jobs. */
#include "conform/conform.h"

#define HOUR_MS INT64_C(3600000)

/* ---- notes ---- */

static struct op note_op(uint64_t seq, const char *label)
{
    return (struct op){.kind = OP_NOTE,
                       .note = {.job = {.seq = seq}, .has_label = true, .label = span_text(label)}};
}

static void note_in_every_state(struct env *e)
{
    static const enum job_state states[] = {STATE_SCHEDULED, STATE_READY, STATE_RUNNING,
                                            STATE_DONE,      STATE_DEAD,  STATE_CANCELLED};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        uint64_t seq = job_in(e, state_name(states[i]), states[i], NULL);
        struct op op = note_op(seq, "seen");
        op.note.has_attributes = true;
        op.note.attributes = SPAN_LITERAL("{\"by\":7}");
        const struct reply *r = run(e, op);
        EXPECT_OUT(r, OUT_OK);
        EXPECT_INT(r->state, states[i]);
        EXPECT_STATE(seq, states[i]);
        const struct job_view *v = get(e, seq);
        EXPECT_TEXT(v->extra.label, "seen");
        EXPECT_TEXT(v->extra.attributes, "{\"by\":7}");
        EXPECT_OUT(run(e, note_op(seq, "")), OUT_OK); /* the label alone goes */
        v = get(e, seq);
        EXPECT_TEXT(v->extra.label, "");
        EXPECT_TEXT(v->extra.attributes, "{\"by\":7}");
    }
}

static void note_keeps_lease_and_keys(struct env *e)
{
    uint64_t seq = put_unique(e, "q", "u");
    struct held h = take(e, "q");
    struct op op = note_op(seq, "half");
    op.note.token = h.token;
    op.note.has_result = op.note.has_error = true;
    op.note.result_kind = PAYLOAD_JSON;
    op.note.result = SPAN_LITERAL("[1]");
    op.note.error = SPAN_LITERAL("so far");
    op.note.error_kind = ERROR_BUSINESS;
    EXPECT_OUT(run(e, op), OUT_OK);
    op.note.token.counter += 7;
    EXPECT_OUT(run(e, op), OUT_LEASE_LOST);
    const struct job_view *v = get(e, seq);
    EXPECT_TEXT(v->extra.unique, "u");
    EXPECT_TEXT(v->extra.label, "half");
    EXPECT_TEXT(v->result, "[1]");
    EXPECT_TEXT(v->error, "so far");
    EXPECT_INT(v->error_kind, ERROR_BUSINESS);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_TEXT(get(e, seq)->result, "[1]"); /* an ack without a result leaves it */
    op.note.token = h.token;
    EXPECT_OUT(run(e, op), OUT_LEASE_LOST);
    EXPECT_OUT(run(e, note_op(seq + 99, "x")), OUT_NOT_FOUND);
    EXPECT_OUT(run(e, (struct op){.kind = OP_NOTE, .note = {.job = {.seq = seq}}}), OUT_INVALID);
}

static void fail_with_a_result(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.result_kind = PAYLOAD_JSON;
    op.lease.result = SPAN_LITERAL("{\"reason\":\"no stock\"}");
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_STATE(seq, STATE_DEAD);
    EXPECT_TEXT(get(e, seq)->result, "{\"reason\":\"no stock\"}");
}

static void notes_survive(struct env *e)
{
    uint64_t waits = put(e, "q"), runs = put_priority(e, "q", 5);
    EXPECT_INT(take(e, "q").seq, runs);
    EXPECT_OUT(run(e, note_op(waits, "w")), OUT_OK);
    EXPECT_OUT(run(e, note_op(runs, "r")), OUT_OK);
    env_restart(e);
    EXPECT_TEXT(get(e, waits)->extra.label, "w");
    EXPECT_TEXT(get(e, runs)->extra.label, "r");
    EXPECT_STATE(waits, STATE_READY);
    EXPECT_STATE(runs, STATE_RUNNING);
}

/* ---- discards ---- */

static struct op discard_op(uint64_t seq)
{
    struct op op = job_op(OP_CANCEL, seq);
    op.job.discard = true;
    return op;
}

static void discard_what_ended(struct env *e)
{
    struct queue_policy p = test_policy();
    p.unique_scope = UNIQUE_KEPT;
    queue_make(e, "q", &p);
    uint64_t seq = put_unique(e, "q", "u");
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    struct op again = enqueue_op("q");
    again.enqueue.extra.unique = SPAN_LITERAL("u");
    EXPECT_OUT(run(e, again), OUT_DUPLICATE);
    EXPECT_OUT(cancel(e, seq), OUT_ILLEGAL);
    EXPECT_OUT(run(e, discard_op(seq)), OUT_OK);
    EXPECT_STATE(seq, STATE_CANCELLED);
    EXPECT_INT(get(e, seq)->job.reason, REASON_DISCARDED);
    const struct reply *r =
        run(e, (struct op){.kind = OP_GET, .job = {.job = {.seq = seq}, .want_attempts = true}});
    EXPECT_INT(r->jobs[0].attempt_count, 1);
    EXPECT_INT(r->jobs[0].attempts[0].outcome, ATTEMPT_DONE);
    EXPECT_OUT(run(e, again), OUT_OK); /* the key is free */
    EXPECT_OUT(run(e, discard_op(seq)), OUT_ILLEGAL);
}

static void discard_from_every_state(struct env *e)
{
    static const enum job_state states[] = {STATE_SCHEDULED, STATE_READY, STATE_RUNNING, STATE_DONE,
                                            STATE_DEAD};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        struct held h;
        uint64_t seq = job_in(e, state_name(states[i]), states[i], &h);
        EXPECT_OUT(run(e, discard_op(seq)), OUT_OK);
        EXPECT_STATE(seq, STATE_CANCELLED);
        if (states[i] == STATE_RUNNING)
            EXPECT_OUT(ack(e, h), OUT_CANCELLED);
        EXPECT_COUNTS(state_name(states[i]), .cancelled = 1);
    }
}

/* ---- keys that need not be unique ---- */

static void loose_queue(struct env *e, const char *queue, uint8_t scope)
{
    struct queue_policy p = test_policy();
    p.unique_scope = scope;
    p.ranked = true;
    queue_make(e, queue, &p);
}

static const struct reply *rescope(struct env *e, const char *queue, uint8_t scope)
{
    struct queue_policy p = test_policy();
    p.unique_scope = scope;
    p.ranked = true;
    struct op op = queue_op(OP_QUEUE_PUT, queue);
    op.queue.policy = &p;
    return run(e, op);
}

static void loose_keys(struct env *e)
{
    loose_queue(e, "q", UNIQUE_NONE);
    uint64_t a = put_unique(e, "q", "u"), b = put_unique(e, "q", "u"), c = put_unique(e, "q", "v");
    EXPECT(a != b);
    EXPECT_COUNTS("q", .ready = 3);
    const struct reply *r = rescope(e, "q", UNIQUE_KEPT);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->job_total, 1);
    EXPECT_INT(r->job_count, 2);
    EXPECT_INT(r->jobs[0].job.seq + r->jobs[1].job.seq, a + b);
    EXPECT_TEXT(r->jobs[0].extra.unique, "u");
    EXPECT_OUT(rescope(e, "q", UNIQUE_LIVE), OUT_DUPLICATE);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK); /* a kept job counts as well */
    EXPECT_OUT(rescope(e, "q", UNIQUE_KEPT), OUT_DUPLICATE);
    EXPECT_OUT(run(e, discard_op(a)), OUT_OK);
    EXPECT_OUT(rescope(e, "q", UNIQUE_KEPT), OUT_OK);
    struct op again = enqueue_op("q");
    again.enqueue.extra.unique = SPAN_LITERAL("v");
    r = run(e, again);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->seq, c);
    EXPECT_OUT(rescope(e, "q", UNIQUE_NONE), OUT_OK);
    EXPECT_OUT(run(e, again), OUT_OK);
}

static void loose_keys_and_purge(struct env *e)
{
    loose_queue(e, "q", UNIQUE_NONE);
    for (int i = 0; i < 5; i++)
        put_unique(e, "q", "u");
    struct held h = take(e, "q");
    EXPECT_OUT(run(e, queue_op(OP_PURGE, "q")), OUT_OK);
    settle_due(e);
    EXPECT_OUT(rescope(e, "q", UNIQUE_KEPT), OUT_OK);
    struct op again = enqueue_op("q");
    again.enqueue.extra.unique = SPAN_LITERAL("u");
    EXPECT_INT(run(e, again)->seq, h.seq);
    EXPECT_OUT(ack(e, h), OUT_OK);
}

/* ---- pages ---- */

static const struct reply *page(struct env *e, unsigned states, uint64_t offset, uint32_t limit)
{
    return run(e, (struct op){.kind = OP_PAGE,
                              .page = {.queue = SPAN_LITERAL("q"),
                                       .states = states,
                                       .offset = offset,
                                       .limit = limit,
                                       .want_body = true}});
}

static void pages_begin_anywhere(struct env *e)
{
    uint64_t seqs[30];
    loose_queue(e, "q", UNIQUE_LIVE);
    for (int i = 0; i < 30; i++)
        seqs[i] = put_priority(e, "q", 30 - i);
    for (int i = 0; i < 10; i++)
        EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    EXPECT_OUT(cancel(e, seqs[20]), OUT_OK);
    const struct reply *r = page(e, STATE_BIT(STATE_READY), 5, 4);
    EXPECT_INT(r->job_total, 19);
    EXPECT_INT(r->job_count, 4);
    for (unsigned i = 0; i < 4; i++)
        EXPECT_INT(r->jobs[i].job.seq, seqs[15 + i]);
    EXPECT(r->jobs[0].payload.len > 0);
    r = page(e, 0, 8, 5); /* two states, by sequence */
    EXPECT_INT(r->job_total, 30);
    for (unsigned i = 0; i < 5; i++)
        EXPECT_INT(r->jobs[i].job.seq, seqs[8 + i]);
    r = page(e, STATE_BIT(STATE_CANCELLED), 0, 10);
    EXPECT_INT(r->job_count, 1);
    EXPECT_INT(page(e, 0, 29, 10)->job_count, 1);
    EXPECT_INT(page(e, 0, 30, 10)->job_count, 0);
    EXPECT_INT(page(e, 0, UINT64_MAX, 10)->job_total, 30);
    EXPECT_OUT(run(e, queue_op(OP_PURGE, "q")), OUT_OK);
    EXPECT_INT(page(e, 0, 0, 100)->job_total, 11);
    put(e, "plain");
    EXPECT_OUT(run(e, (struct op){.kind = OP_PAGE, .page = {.queue = SPAN_LITERAL("plain")}}),
               OUT_INVALID);
    EXPECT_OUT(run(e, (struct op){.kind = OP_PAGE, .page = {.queue = SPAN_LITERAL("nope")}}),
               OUT_NO_QUEUE);
}

static void pages_by_key(struct env *e)
{
    loose_queue(e, "q", UNIQUE_NONE);
    uint64_t seqs[6];
    for (int i = 0; i < 6; i++)
        seqs[i] = put_unique(e, "q", i % 2 ? "odd" : "even");
    EXPECT_OUT(run(e, discard_op(seqs[2])), OUT_OK);
    struct op op = {.kind = OP_PAGE,
                    .page = {.queue = SPAN_LITERAL("q"), .unique = SPAN_LITERAL("even")}};
    const struct reply *r = run(e, op);
    EXPECT_INT(r->job_total, 3);
    EXPECT_INT(r->jobs[1].job.seq, seqs[2]);
    op.page.states = STATE_BIT(STATE_READY);
    op.page.offset = 1;
    r = run(e, op);
    EXPECT_INT(r->job_total, 2);
    EXPECT_INT(r->job_count, 1);
    EXPECT_INT(r->jobs[0].job.seq, seqs[4]);
    op.page.unique = SPAN_LITERAL("none");
    EXPECT_INT(run(e, op)->job_total, 0);
}

/* Of ready jobs those that wait to be dispatched, or the others; of other states all. */
static void pages_of_what_waits(struct env *e)
{
    loose_queue(e, "q", UNIQUE_NONE);
    for (int i = 0; i < 6; i++)
        put(e, "q");
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    for (uint8_t pending = PAGE_PENDING; pending <= PAGE_DISPATCHED; pending++) {
        struct op op = {.kind = OP_PAGE,
                        .page = {.queue = SPAN_LITERAL("q"),
                                 .states = STATE_BIT(STATE_READY),
                                 .pending = pending}};
        const struct reply *r = run(e, op);
        EXPECT(r->job_total == r->job_count && r->job_total <= 5);
        for (unsigned i = 0; i < r->job_count; i++)
            EXPECT(((r->jobs[i].job.flags & JOB_PENDING) != 0) == (pending == PAGE_PENDING));
        op.page.states = 0;
        r = run(e, op);
        unsigned done = 0;
        for (unsigned i = 0; i < r->job_count; i++)
            done += r->jobs[i].job.state == STATE_DONE;
        EXPECT_INT(done, 1);
    }
}

static void ranked_from_now_on(struct env *e)
{
    uint64_t a = put(e, "q"), b = put_unique(e, "q", "u");
    EXPECT_OUT(rescope(e, "q", UNIQUE_LIVE), OUT_OK);
    EXPECT_INT(page(e, 0, 1, 5)->jobs[0].job.seq, b);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    EXPECT_INT(page(e, STATE_BIT(STATE_DONE), 0, 5)->jobs[0].job.seq, a);
}

static void ranked_after_a_restart(struct env *e)
{
    loose_queue(e, "q", UNIQUE_NONE);
    uint64_t a = put_unique(e, "q", "u"), b = put_unique(e, "q", "u");
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    env_restart(e);
    EXPECT_INT(page(e, STATE_BIT(STATE_DONE), 0, 5)->jobs[0].job.seq, a);
    EXPECT_INT(page(e, 0, 1, 5)->jobs[0].job.seq, b);
    EXPECT_OUT(rescope(e, "q", UNIQUE_KEPT), OUT_DUPLICATE);
}

/* ---- counters ---- */

static const struct reply *history(struct env *e, const char *queue)
{
    settle_due(e);
    return run(e, (struct op){.kind = OP_HISTORY,
                              .history = {.queue = span_text(queue), .to = UINT32_MAX}});
}

static void expect_counters(struct env *e, const struct counters *t)
{
    EXPECT_INT(t->of[COUNTER_ENQUEUED], 4);
    EXPECT_INT(t->of[COUNTER_CLAIMED], 5);
    EXPECT_INT(t->of[COUNTER_ACKED], 1);
    EXPECT_INT(t->of[COUNTER_FAILED_APP], 1);
    EXPECT_INT(t->of[COUNTER_FAILED_BUSINESS], 1);
    EXPECT_INT(t->of[COUNTER_CRASHED], 1);
    EXPECT_INT(t->of[COUNTER_RELEASED], 1);
    EXPECT_INT(t->of[COUNTER_DIED], 1);
    EXPECT_INT(t->of[COUNTER_CANCELLED], 1);
    EXPECT_INT(t->of[COUNTER_DONE_MS], 3000);
    EXPECT_INT(t->of[COUNTER_FAILED_MS], 10000);
    EXPECT_INT(t->of[COUNTER_DIED_MS], 0);
}

/* One of each, then an hour without changes, then one more. */
static void live_a_little(struct env *e)
{
    struct queue_policy p = test_policy();
    p.keep_done = p.keep_dead = 0; /* no ended job is kept */
    queue_make(e, "q", &p);
    uint64_t seqs[4];
    for (int i = 0; i < 4; i++)
        seqs[i] = put_priority(e, "q", -i);
    struct held h = take(e, "q");
    advance(e, 3000);
    EXPECT_OUT(ack(e, h), OUT_OK);
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.error_kind = ERROR_BUSINESS;
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.has_delay = true;
    op.lease.delay_ms = 20 * HOUR_MS;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(release(e, take(e, "q")), OUT_OK);
    EXPECT_INT(take(e, "q").seq, seqs[3]);
    advance(e, 10000); /* its lease ends */
    EXPECT_OUT(cancel(e, seqs[3]), OUT_OK);
}

static void sums_outlive_their_jobs(struct env *e)
{
    live_a_little(e);
    const struct queue_view *v = queue_get(e, "q");
    expect_counters(e, &v->totals);
    const struct reply *r = history(e, "q");
    EXPECT_INT(r->hour_count, 1);
    EXPECT_INT(r->hours[0].hour, START_WALL_MS / HOUR_MS);
    expect_counters(e, &r->hours[0].counters);
    put(e, "other");
    advance(e, 2 * HOUR_MS);
    put(e, "q");
    r = history(e, "q");
    EXPECT_INT(r->hour_count, 2);
    EXPECT_INT(r->hours[1].hour - r->hours[0].hour, 2);
    EXPECT_INT(r->hours[1].counters.of[COUNTER_ENQUEUED], 1);
    EXPECT_INT(queue_get(e, "q")->totals.of[COUNTER_ENQUEUED], 5);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "q")), OUT_OK);
    settle_due(e);
    put(e, "q"); /* another queue of this name */
    EXPECT_INT(history(e, "q")->hour_count, 1);
    EXPECT_INT(queue_get(e, "q")->totals.of[COUNTER_ENQUEUED], 1);
    struct op none = {.kind = OP_HISTORY, .history = {.queue = SPAN_LITERAL("nope")}};
    EXPECT_OUT(run(e, none), OUT_NO_QUEUE);
}

static void sums_survive(struct env *e)
{
    live_a_little(e);
    env_restart(e);
    expect_counters(e, &queue_get(e, "q")->totals);
    expect_counters(e, &history(e, "q")->hours[0].counters);
    put(e, "q");
    env_restart(e);
    EXPECT_INT(queue_get(e, "q")->totals.of[COUNTER_ENQUEUED], 5);
}

static void sums_of_thirty_days(struct env *e)
{
    put(e, "q");
    advance(e, HOUR_MS);
    put(e, "q");
    stand_still(e, 720 * HOUR_MS - HOUR_MS);
    run(e, (struct op){.kind = OP_ACCEPT_CLOCK});
    put(e, "q");
    const struct reply *r = history(e, "q");
    EXPECT_INT(r->hour_count, 2); /* the first hour has been dropped */
    EXPECT_INT(r->hours[0].hour, START_WALL_MS / HOUR_MS + 1);
    EXPECT_INT(queue_get(e, "q")->totals.of[COUNTER_ENQUEUED], 3);
}

/* ---- queues ---- */

static void queue_by_number(struct env *e)
{
    struct op op = queue_op(OP_QUEUE_PUT, "q");
    op.queue.has_owner = op.queue.has_until = true;
    op.queue.owner = SPAN_LITERAL("somebody");
    op.queue.until.ms = LIMIT_WALL_MS;
    EXPECT_OUT(run(e, op), OUT_OK);
    uint64_t seq = put(e, "q");
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    uint32_t number = queue_get(e, "q")->number;
    struct op by_number = {.kind = OP_QUEUE_GET, .queue = {.number = number}};
    EXPECT_TEXT(run(e, by_number)->queues[0].name, "q");
    EXPECT_TEXT(get(e, seq)->owner, "somebody");
    op.queue.until.ms = 0;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_INT(take(e, "q").seq, seq);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "q")), OUT_OK);
    EXPECT_OUT(run(e, by_number), OUT_NO_QUEUE);
    by_number.queue.number = 4000000;
    EXPECT_OUT(run(e, by_number), OUT_NO_QUEUE);
}

static const struct conform_case cases[] = {
    CASE("ORC-7 a note leaves every state as it is", note_in_every_state),
    CASE("ORC-7 a note leaves lease and keys", note_keeps_lease_and_keys),
    CASE("ORC-14 a failure with a result", fail_with_a_result),
    CASE("ORC-7 notes survive a restart", notes_survive, .flags = RESTART),
    CASE("ORC-8 ORC-9 what ended is discarded and frees its key", discard_what_ended),
    CASE("ORC-8 anything is discarded once", discard_from_every_state),
    CASE("ORC-9 keys that need not be unique, until they must", loose_keys),
    CASE("ORC-9 a purge of such keys", loose_keys_and_purge),
    CASE("ORC-6 pages begin anywhere", pages_begin_anywhere),
    CASE("ORC-6 pages of one key", pages_by_key),
    CASE("TF-9 pages of what is dispatched, and of what is not", pages_of_what_waits),
    CASE("ORC-6 a queue becomes ranked", ranked_from_now_on),
    CASE("ORC-6 ranks after a restart", ranked_after_a_restart, .flags = RESTART),
    CASE("ORC-21 sums outlive their jobs", sums_outlive_their_jobs, .flags = EXACT),
    CASE("ORC-21 sums survive a restart", sums_survive, .flags = RESTART | EXACT),
    CASE("ORC-21 hours are kept for 30 days", sums_of_thirty_days),
    CASE("ORC-1 ORC-11 a queue by its number, its owner, its pause", queue_by_number),
};
TOPIC(topic_api, cases);
