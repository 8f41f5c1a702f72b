/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine: every legal move works, every other one is refused and changes nothing. */
#include "conform/conform.h"

#define STATES 6
static const enum job_state all_states[STATES] = {STATE_SCHEDULED, STATE_READY, STATE_RUNNING,
                                                  STATE_DONE,      STATE_DEAD,  STATE_CANCELLED};

struct ask {
    enum op_kind kind;
    enum job_move move;
};
static const struct ask asks[] = {
    {OP_ACK, MOVE_ACK},         {OP_FAIL, MOVE_FAIL},     {OP_EXTEND, MOVE_EXTEND},
    {OP_RELEASE, MOVE_RELEASE}, {OP_CANCEL, MOVE_CANCEL}, {OP_REQUEUE, MOVE_REQUEUE},
    {OP_PATCH, MOVE_PATCH},     {OP_REMOVE, MOVE_REMOVE}, {OP_CLAIM, MOVE_SEIZE},
};
#define ASKS (sizeof asks / sizeof asks[0])

static struct op ask_op(enum op_kind kind, uint64_t seq)
{
    if (kind == OP_CLAIM)
        return (struct op){.kind = kind, .claim = {.one = {.seq = seq}, .count = 1}};
    if (kind == OP_PATCH)
        return (struct op){.kind = kind,
                           .patch = {.job = {.seq = seq}, .has_priority = true, .priority = 77}};
    if (kind == OP_CANCEL || kind == OP_REQUEUE || kind == OP_REMOVE)
        return job_op(kind, seq);
    return lease_op_by_id(kind, seq);
}

static void remove_job(struct env *e, uint64_t seq)
{
    const struct job_view *v = get(e, seq);
    if (v && v->job.state == STATE_RUNNING)
        EXPECT_OUT(cancel(e, seq), OUT_OK);
    if (v)
        EXPECT_OUT(run(e, job_op(OP_REMOVE, seq)), OUT_OK);
    EXPECT_STATE(seq, STATE_NONE);
}

static void expect_unchanged(struct env *e, const struct job_view *was, uint64_t seq)
{
    const struct job_view *is = get(e, seq);
    EXPECT(is != NULL);
    EXPECT_INT(is->job.state, was->job.state);
    EXPECT_INT(is->job.reason, was->job.reason);
    EXPECT_INT(is->job.since.ms, was->job.since.ms);
    EXPECT_INT(is->job.priority, was->job.priority);
    EXPECT_INT(is->job.failures, was->job.failures);
    EXPECT_INT(is->job.run_at.ms, was->job.run_at.ms);
    EXPECT(token_equal(is->token, was->token));
    EXPECT_STATE(seq, (enum job_state)was->job.state);
}

static void illegal_moves(struct env *e)
{
    int refused = 0;
    for (size_t s = 0; s < STATES; s++) {
        for (size_t a = 0; a < ASKS; a++) {
            if (move_starts_from(asks[a].move, all_states[s]))
                continue;
            uint64_t seq = job_in(e, "q", all_states[s], NULL);
            const struct job_view *was = get(e, seq);
            const struct reply *r = run(e, ask_op(asks[a].kind, seq));
            EXPECT_OUT(r, OUT_ILLEGAL);
            EXPECT_INT(r->state, all_states[s]);
            EXPECT_INT(r->seq, seq);
            EXPECT(state_legal_moves(r->state)[0] != '\0');
            expect_unchanged(e, was, seq);
            remove_job(e, seq);
            refused++;
        }
    }
    EXPECT(refused > 20);
}

static void legal_moves(struct env *e)
{
    for (size_t s = 0; s < STATES; s++) {
        for (size_t a = 0; a < ASKS; a++) {
            if (!move_starts_from(asks[a].move, all_states[s]))
                continue;
            uint64_t seq = job_in(e, "q", all_states[s], NULL);
            EXPECT_OUT(run(e, ask_op(asks[a].kind, seq)), OUT_OK);
            const struct job_view *v = get(e, seq);
            enum job_state now = v ? (enum job_state)v->job.state : STATE_NONE;
            EXPECT(move_allowed(asks[a].move, all_states[s], now));
            remove_job(e, seq);
        }
    }
}

static void no_such_job(struct env *e)
{
    put(e, "q");
    for (size_t a = 0; a < ASKS; a++)
        EXPECT_OUT(run(e, ask_op(asks[a].kind, 123456)), OUT_NOT_FOUND);
    EXPECT_OUT(run(e, job_op(OP_GET, 123456)), OUT_NOT_FOUND);
    EXPECT_OUT(run(e, job_op(OP_GET, 0)), OUT_NOT_FOUND);
    EXPECT_COUNTS("q", .ready = 1);
}

static void cancel_each(struct env *e)
{
    static const enum job_state from[] = {STATE_SCHEDULED, STATE_READY, STATE_RUNNING};
    for (int i = 0; i < 3; i++) {
        uint64_t seq = job_in(e, "q", from[i], NULL);
        const struct reply *r = cancel(e, seq);
        EXPECT_OUT(r, OUT_OK);
        EXPECT_INT(r->state, STATE_CANCELLED);
        EXPECT_INT(get(e, seq)->job.reason, REASON_CANCELLED);
        EXPECT_STATE(seq, STATE_CANCELLED);
    }
    EXPECT_INT(claim(e, "q", 10)->job_count, 0);
    EXPECT_COUNTS("q", .cancelled = 3);
    advance(e, 60000); /* neither lease nor run_at brings one back */
    EXPECT_COUNTS("q", .cancelled = 3);
}

static void requeue_dead(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_attempts = 1;
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.error = SPAN_LITERAL("broken");
    EXPECT_INT(run(e, op)->state, STATE_DEAD);
    const struct reply *r = requeue(e, seq);
    EXPECT_OUT(r, OUT_OK);
    const struct job_view *v = get(e, seq);
    EXPECT_INT(v->job.state, STATE_READY);
    EXPECT_INT(v->job.failures, 0);
    EXPECT_TEXT(v->payload, "{\"n\":1}");
    const struct reply *c = claim(e, "q", 1);
    EXPECT_INT(c->job_count, 1);
    EXPECT_INT(job_attempts(&c->jobs[0].job), 1);
    EXPECT_OUT(ack(e, held_of(&c->jobs[0])), OUT_OK);
    EXPECT_STATE(seq, STATE_DONE);
}

static void requeue_others(struct env *e)
{
    uint64_t cancelled = job_in(e, "q", STATE_CANCELLED, NULL);
    uint64_t scheduled = job_in(e, "q", STATE_SCHEDULED, NULL);
    EXPECT_OUT(requeue(e, scheduled), OUT_OK); /* "run it now" */
    EXPECT_STATE(scheduled, STATE_READY);
    struct op op = job_op(OP_REQUEUE, cancelled);
    op.job.delay_ms = 2000;
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_STATE(cancelled, STATE_SCHEDULED);
    EXPECT_INT(get(e, cancelled)->job.run_at.ms, START_WALL_MS + 2000);
    advance(e, 2000);
    EXPECT_STATE(cancelled, STATE_READY);
    op.job.delay_ms = -1;
    op.job.job.seq = job_in(e, "other", STATE_DEAD, NULL);
    EXPECT_OUT(run(e, op), OUT_INVALID);
    EXPECT_STATE(op.job.job.seq, STATE_DEAD);
}

static void requeued_twice_runs_once(struct env *e)
{
    uint64_t seq = job_in(e, "q", STATE_DEAD, NULL);
    EXPECT_OUT(requeue(e, seq), OUT_OK);
    EXPECT_OUT(cancel(e, seq), OUT_OK);
    EXPECT_OUT(requeue(e, seq), OUT_OK);
    EXPECT_INT(claim(e, "q", 10)->job_count, 1);
    EXPECT_INT(claim(e, "q", 10)->job_count, 0);
}

static void remove_is_for_good(struct env *e)
{
    static const enum job_state from[] = {STATE_SCHEDULED, STATE_READY, STATE_DONE, STATE_DEAD,
                                          STATE_CANCELLED};
    for (int i = 0; i < 5; i++) {
        struct held h = {0};
        uint64_t seq = job_in(e, "q", from[i], &h);
        EXPECT_OUT(run(e, job_op(OP_REMOVE, seq)), OUT_OK);
        EXPECT_STATE(seq, STATE_NONE);
        EXPECT_OUT(run(e, job_op(OP_CANCEL, seq)), OUT_NOT_FOUND);
    }
    EXPECT_INT(claim(e, "q", 10)->job_count, 0);
    EXPECT_COUNTS("q", 0);
}

static struct op patch_op(uint64_t seq)
{
    return (struct op){.kind = OP_PATCH, .patch = {.job = {.seq = seq}}};
}

static void patch_priority(struct env *e)
{
    uint64_t first = put(e, "q"), second = put(e, "q"), third = put(e, "q");
    struct op op = patch_op(third);
    op.patch.has_priority = true;
    op.patch.priority = 9;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_INT(get(e, third)->job.priority, 9);
    op = patch_op(first);
    op.patch.has_priority = true;
    op.patch.priority = -9;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_INT(take(e, "q").seq, third);
    EXPECT_INT(take(e, "q").seq, second);
    EXPECT_INT(take(e, "q").seq, first);
    EXPECT_INT(claim(e, "q", 5)->job_count, 0);
}

static void patch_run_at(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op op = patch_op(seq);
    op.patch.has_run_at = true;
    op.patch.run_at = now_plus(e, 1000);
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_STATE(seq, STATE_SCHEDULED);
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    op.patch.run_at = now_plus(e, 3000); /* later still */
    EXPECT_OUT(run(e, op), OUT_OK);
    advance(e, 1000);
    EXPECT_STATE(seq, STATE_SCHEDULED);
    op.patch.run_at = now_plus(e, 500); /* sooner */
    EXPECT_OUT(run(e, op), OUT_OK);
    advance(e, 500);
    EXPECT_STATE(seq, STATE_READY);
    uint64_t other = put_delayed(e, "other", 60000);
    op = patch_op(other);
    op.patch.has_run_at = true; /* 0 = now */
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_STATE(other, STATE_READY);
    EXPECT_INT(take(e, "other").seq, other);
}

static void patch_payload(struct env *e)
{
    struct queue_policy p = test_policy();
    p.payload_max = 20;
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    struct op op = patch_op(seq);
    op.patch.has_payload = true;
    op.patch.payload_kind = PAYLOAD_BYTES;
    op.patch.payload = span_of("new\0bytes", 9);
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_SPAN(get(e, seq)->payload, span_of("new\0bytes", 9));
    op.patch.payload = SPAN_LITERAL("one byte more than 20");
    EXPECT_OUT(run(e, op), OUT_TOO_BIG);
    const struct reply *r = claim(e, "q", 1);
    EXPECT_SPAN(r->jobs[0].payload, span_of("new\0bytes", 9));
    EXPECT_INT(r->jobs[0].job.payload_kind, PAYLOAD_BYTES);
}

static void patch_refused(struct env *e)
{
    static const enum job_state from[] = {STATE_RUNNING, STATE_DONE, STATE_DEAD, STATE_CANCELLED};
    for (int i = 0; i < 4; i++) {
        uint64_t seq = job_in(e, "q", from[i], NULL);
        struct op op = patch_op(seq);
        op.patch.has_payload = op.patch.has_priority = op.patch.has_run_at = true;
        op.patch.payload_kind = PAYLOAD_JSON;
        op.patch.payload = SPAN_LITERAL("2");
        const struct reply *r = run(e, op);
        EXPECT_OUT(r, OUT_ILLEGAL);
        EXPECT_INT(r->state, from[i]);
        EXPECT_TEXT(get(e, seq)->payload, "{\"n\":1}");
        EXPECT_STATE(seq, from[i]);
    }
}

static const struct conform_case cases[] = {
    CASE("NOM-2 ORC-7 every illegal move is refused and changes nothing", illegal_moves,
         .flags = EXACT),
    CASE("NOM-2 every legal move works", legal_moves, .flags = EXACT),
    CASE("moves of unknown jobs", no_such_job, .flags = EXACT),
    CASE("cancel: scheduled, ready, running", cancel_each),
    CASE("NOM-2 NOM-6 a dead job can be requeued and done", requeue_dead),
    CASE("NOM-6 requeue: cancelled, scheduled, with a delay", requeue_others),
    CASE("a job requeued twice runs once", requeued_twice_runs_once),
    CASE("a removed job is gone for good", remove_is_for_good),
    CASE("PDQ-14 patch: priority", patch_priority),
    CASE("PDQ-14 patch: run_at", patch_run_at),
    CASE("PDQ-14 patch: payload", patch_payload),
    CASE("PDQ-14 patch: only waiting jobs", patch_refused),
};
TOPIC(topic_move, cases);
