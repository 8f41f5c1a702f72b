/* SPDX-License-Identifier: Apache-2.0 */
/* Fencing: only the newest token counts, and saying the same thing twice changes nothing. */
#include "conform/conform.h"

static const enum op_kind words[] = {OP_ACK, OP_FAIL, OP_EXTEND, OP_RELEASE};

static void expect_refused(struct env *e, struct held h, enum outcome outcome)
{
    for (int i = 0; i < 4; i++)
        EXPECT_OUT(run(e, lease_op(words[i], h)), outcome);
}

static void older_token_is_refused(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct held old = take_for(e, "q", 1000);
    advance(e, 1000);
    struct held newer = take(e, "q");
    EXPECT_INT(newer.seq, seq);
    EXPECT(token_older(old.token, newer.token));
    expect_refused(e, old, OUT_LEASE_LOST);
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT(token_equal(get(e, seq)->token, newer.token));
    EXPECT_OUT(ack(e, newer), OUT_OK);
    EXPECT_STATE(seq, STATE_DONE);
}

static void lost_lease_is_refused(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct held h = take_for(e, "q", 1000);
    advance(e, 1000);
    EXPECT_STATE(seq, STATE_READY);
    expect_refused(e, h, OUT_LEASE_LOST);
    EXPECT_STATE(seq, STATE_READY);
    EXPECT_INT(get(e, seq)->job.failures, 0);
}

static void foreign_tokens(struct env *e)
{
    put(e, "q");
    put(e, "q");
    struct held a = take(e, "q"), b = take(e, "q");
    struct held crossed = {a.seq, a.hi, b.token};
    expect_refused(e, crossed, OUT_LEASE_LOST);
    struct held invented = {a.seq, a.hi, {b.token.counter + 1000, b.token.epoch}};
    expect_refused(e, invented, OUT_LEASE_LOST);
    struct held none = {a.seq, a.hi, {0, 0}};
    expect_refused(e, none, OUT_LEASE_LOST);
    EXPECT_COUNTS("q", .running = 2);
    EXPECT_OUT(ack(e, a), OUT_OK);
    EXPECT_OUT(ack(e, b), OUT_OK);
}

/* A done job is no reason to believe any token: only its own was ever the last word. */
static void foreign_tokens_of_a_done_job(struct env *e)
{
    put(e, "q");
    struct held late = take_for(e, "q", 1000);
    advance(e, 1000);
    struct held h = take(e, "q");
    put(e, "q");
    put(e, "q");
    struct held ended = take(e, "q"), running = take(e, "q");
    EXPECT_OUT(ack(e, ended), OUT_OK);
    EXPECT_OUT(ack(e, h), OUT_OK);
    struct job_token wrong[] = {
        {h.token.counter + 1000, h.token.epoch},
        {1, h.token.epoch + 1},
        {0, 0},
        ended.token,
        running.token,
        late.token,
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refused(e, (struct held){h.seq, h.hi, wrong[i]}, OUT_LEASE_LOST);
    const struct reply *r = ack(e, h);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->repeat);
    EXPECT_OUT(ack(e, running), OUT_OK);
}

static void tokens_rise(struct env *e)
{
    for (int i = 0; i < 10; i++)
        put(e, "q");
    struct job_token last = {0, 0};
    for (int i = 0; i < 5; i++) {
        struct held h = take(e, "q");
        EXPECT(token_older(last, h.token));
        last = h.token;
        EXPECT_OUT(release(e, h), OUT_OK);
    }
}

static void ack_twice(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    struct op op = lease_op(OP_ACK, h);
    op.lease.result_kind = PAYLOAD_JSON;
    op.lease.result = SPAN_LITERAL("{\"first\": 1}");
    EXPECT_OUT(run(e, op), OUT_OK);
    op.lease.result = SPAN_LITERAL("{\"second\": 2}");
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->repeat);
    EXPECT_INT(r->state, STATE_DONE);
    EXPECT_TEXT(get(e, seq)->result, "{\"first\": 1}");
    EXPECT_COUNTS("q", .done = 1);
    if (!e->lossy)
        EXPECT_INT(queue_get(e, "q")->counts.acked, 1);
}

static void fail_twice(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    const struct reply *first = fail(e, h);
    EXPECT_OUT(first, OUT_OK);
    EXPECT_INT(first->state, STATE_SCHEDULED);
    EXPECT_INT(first->run_at.ms, START_WALL_MS + 1000);
    advance(e, 400);
    const struct reply *again = fail(e, h);
    EXPECT_OUT(again, OUT_OK);
    EXPECT(again->repeat);
    EXPECT_INT(again->state, STATE_SCHEDULED);
    EXPECT_INT(again->run_at.ms, START_WALL_MS + 1000);
    EXPECT_INT(get(e, seq)->job.failures, 1);
    EXPECT_INT(get(e, seq)->job.run_at.ms, START_WALL_MS + 1000);
}

/* The answer is repeated even while somebody else has the job; that lease is not touched. */
static void fail_again_after_a_new_claim(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    EXPECT_OUT(fail(e, h), OUT_OK);
    advance(e, 1000);
    struct held newer = take(e, "q");
    const struct reply *again = fail(e, h);
    EXPECT_OUT(again, OUT_OK);
    EXPECT_INT(again->state, STATE_SCHEDULED);
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_INT(get(e, seq)->job.failures, 1);
    EXPECT_OUT(ack(e, newer), OUT_OK);
    EXPECT_OUT(fail(e, h), OUT_OK);
    EXPECT_STATE(seq, STATE_DONE);
}

static void last_fail_twice(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_attempts = 1;
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    EXPECT_INT(fail(e, h)->state, STATE_DEAD);
    const struct reply *again = fail(e, h);
    EXPECT_OUT(again, OUT_OK);
    EXPECT_INT(again->state, STATE_DEAD);
    EXPECT_INT(get(e, seq)->job.failures, 1);
    EXPECT_COUNTS("q", .dead = 1);
}

static void extend_and_release_twice(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    struct op op = lease_op(OP_EXTEND, h);
    op.lease.lease_ms = 5000;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_INT(get(e, seq)->lease_left_ms, 5000);
    EXPECT_OUT(release(e, h), OUT_OK);
    const struct reply *again = release(e, h);
    EXPECT_OUT(again, OUT_OK);
    EXPECT(again->repeat);
    EXPECT_INT(again->state, STATE_READY);
    EXPECT_STATE(seq, STATE_READY);
}

/* A repeat is the same word; another word from a lease that has ended is refused. */
static void another_word_is_refused(struct env *e)
{
    for (int first = 0; first < 4; first++) {
        for (int then = 0; then < 4; then++) {
            if (words[first] == OP_EXTEND || words[then] == words[first])
                continue;
            uint64_t seq = put(e, "q");
            struct held h = take(e, "q");
            EXPECT_OUT(run(e, lease_op(words[first], h)), OUT_OK);
            enum job_state state = get(e, seq)->job.state;
            const struct reply *r = run(e, lease_op(words[then], h));
            EXPECT(r->outcome == OUT_LEASE_LOST || r->outcome == OUT_ILLEGAL);
            EXPECT_STATE(seq, state);
            EXPECT_OUT(run(e, job_op(OP_REMOVE, seq)), OUT_OK);
        }
    }
}

static void by_id_alone(struct env *e)
{
    uint64_t a = put(e, "q"), b = put(e, "q"), c = put(e, "q");
    EXPECT_INT(claim(e, "q", 3)->job_count, 3);
    EXPECT_OUT(run(e, lease_op_by_id(OP_EXTEND, a)), OUT_OK);
    EXPECT_OUT(run(e, lease_op_by_id(OP_ACK, a)), OUT_OK);
    EXPECT_STATE(a, STATE_DONE);
    EXPECT_OUT(run(e, lease_op_by_id(OP_RELEASE, b)), OUT_OK);
    EXPECT_STATE(b, STATE_READY);
    struct op nack = lease_op_by_id(OP_FAIL, c);
    nack.lease.no_retry = true;
    EXPECT_OUT(run(e, nack), OUT_OK);
    EXPECT_STATE(c, STATE_DEAD);
}

static void by_id_without_a_lease(struct env *e)
{
    uint64_t seq = put(e, "q");
    for (int i = 0; i < 4; i++) {
        const struct reply *r = run(e, lease_op_by_id(words[i], seq));
        EXPECT_OUT(r, OUT_ILLEGAL);
        EXPECT_INT(r->state, STATE_READY);
    }
    EXPECT_STATE(seq, STATE_READY);
}

static void unknown_jobs(struct env *e)
{
    put(e, "q");
    struct held h = take(e, "q");
    struct held unknown = {LIMIT_SEQ, 0, h.token};
    for (int i = 0; i < 4; i++) {
        EXPECT_OUT(run(e, lease_op(words[i], unknown)), OUT_NOT_FOUND);
        EXPECT_OUT(run(e, lease_op_by_id(words[i], LIMIT_SEQ)), OUT_NOT_FOUND);
        EXPECT_OUT(run(e, lease_op_by_id(words[i], 0)), OUT_NOT_FOUND);
    }
    EXPECT_OUT(ack(e, h), OUT_OK);
}

/* The high half of an id is checked where it is given. */
static void wrong_high_half(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    struct held other = {h.seq, h.hi + (UINT64_C(1) << 16), h.token};
    for (int i = 0; i < 4; i++) {
        const struct reply *r = run(e, lease_op(words[i], other));
        EXPECT(r->outcome == OUT_NOT_FOUND || r->outcome == OUT_GONE);
    }
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_OUT(ack(e, h), OUT_OK);
}

static void by_id_needs_a_token(struct env *e)
{
    struct queue_policy policy = test_policy();
    policy.require_token = true;
    queue_make(e, "strict", &policy);
    uint64_t seq = put(e, "strict");
    struct held h = take(e, "strict");
    for (int i = 0; i < 4; i++) {
        struct op op = lease_op(words[i], h);
        op.lease.token = (struct job_token){0};
        op.lease.any_token = true;
        const struct reply *r = run(e, op);
        EXPECT_OUT(r, OUT_INVALID);
        EXPECT(r->note && strstr(r->note, "token"));
    }
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_OUT(ack(e, h), OUT_OK);
}

static void ack_after_cancel(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    EXPECT_OUT(cancel(e, seq), OUT_OK);
    for (int i = 0; i < 4; i++) {
        const struct reply *r = run(e, lease_op(words[i], h));
        EXPECT_OUT(r, OUT_CANCELLED);
        EXPECT_INT(r->state, STATE_CANCELLED); /* so that the worker learns why */
    }
    EXPECT_STATE(seq, STATE_CANCELLED);
}

static void token_required(struct env *e)
{
    static const enum op_kind ends[] = {OP_EXTEND, OP_RELEASE, OP_FAIL, OP_ACK};
    struct queue_policy p = test_policy();
    p.require_token = true;
    queue_make(e, "strict", &p);
    uint64_t seq = put(e, "strict");
    struct held h = take(e, "strict");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        EXPECT_OUT(run(e, lease_op_by_id(ends[i], seq)), OUT_INVALID);
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_OUT(ack(e, h), OUT_OK);
}

static const struct conform_case cases[] = {
    CASE("KV-5: a queue that requires tokens refuses ids alone", token_required),
    CASE("HF-2 an older token is always refused", older_token_is_refused),
    CASE("HF-2 the token of a lease that ran out is refused", lost_lease_is_refused),
    CASE("HF-2 the token of another job, an invented one, and none are refused", foreign_tokens),
    CASE("HF-2 the same for a job that is done", foreign_tokens_of_a_done_job),
    CASE("HF-2 each claim has a newer token", tokens_rise),
    CASE("HF-2 ack is idempotent by job and token", ack_twice),
    CASE("HF-2 a repeated fail gives the first outcome", fail_twice),
    CASE("HF-2 a repeated fail does not touch a newer lease", fail_again_after_a_new_claim),
    CASE("HF-2 a repeated last fail is still dead once", last_fail_twice),
    CASE("HF-2 extend and release are idempotent", extend_and_release_twice),
    CASE("HF-2 another call after the one that ended the lease is refused",
         another_word_is_refused),
    CASE("KV-5 by id alone they act on the current lease", by_id_alone, .flags = EXACT),
    CASE("KV-5 by id alone without a lease is illegal", by_id_without_a_lease),
    CASE("KV-5 NOM-6 a queue's require_token refuses the id alone", by_id_needs_a_token),
    CASE("KV-5 unknown jobs are not found", unknown_jobs),
    CASE("an id whose high half is wrong names no job", wrong_high_half),
    CASE("HF-10 the worker of a cancelled job gets the reason", ack_after_cancel),
};
TOPIC(topic_token, cases);
