/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: how many, by whom, for how long; one job by name; a claim released by its nonce. */
#include "conform/conform.h"

static void counts_are_kept(struct env *e)
{
    for (int i = 0; i < 5; i++)
        put(e, "q");
    EXPECT_INT(claim(e, "q", 2)->job_count, 2);
    EXPECT_COUNTS("q", .ready = 3, .running = 2);
    EXPECT_INT(claim(e, "q", 1000)->job_count, 3);
    EXPECT_INT(claim(e, "q", 1000)->job_count, 0);
    EXPECT_COUNTS("q", .running = 5);
}

static void nothing_there(struct env *e)
{
    EXPECT_INT(claim(e, "no such queue", 1)->job_count, 0);
    EXPECT(queue_get(e, "no such queue") == NULL);
    struct queue_policy p = test_policy();
    queue_make(e, "empty", &p);
    EXPECT_INT(claim(e, "empty", 3)->job_count, 0);
    EXPECT_COUNTS("empty", 0);
}

static void wrong_counts(struct env *e)
{
    put(e, "q");
    EXPECT_OUT(run(e, claim_op(e, "q", 0)), OUT_INVALID);
    EXPECT_OUT(run(e, claim_op(e, "q", LIMIT_BATCH + 1)), OUT_INVALID);
    struct op op = claim_op(e, "q", 1);
    op.claim.lease_ms = LIMIT_LEASE_MS_MIN - 1;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    op.claim.lease_ms = LIMIT_LEASE_MS + 1;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    static char name[LIMIT_WORKER_BYTES + 1];
    memset(name, 'w', sizeof name);
    op = claim_op(e, "q", 1);
    op.claim.worker = span_of(name, sizeof name);
    EXPECT_OUT(run(e, op), OUT_INVALID);
    static struct span many[LIMIT_QUEUES_PER_CLAIM + 1];
    for (size_t i = 0; i <= LIMIT_QUEUES_PER_CLAIM; i++)
        many[i] = SPAN_LITERAL("q");
    op = claim_op(e, "q", 1);
    op.claim.queues = many;
    op.claim.queue_count = LIMIT_QUEUES_PER_CLAIM + 1;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    EXPECT_COUNTS("q", .ready = 1);
    op.claim.queue_count = LIMIT_QUEUES_PER_CLAIM;
    EXPECT_INT(run(e, op)->job_count, 1);
}

enum { BIG_BYTES = 1 << 20, BIG_FIT = LIMIT_ANSWER_BYTES / BIG_BYTES };

static void put_big(struct env *e)
{
    static char payload[BIG_BYTES];
    memset(payload, ' ', sizeof payload);
    payload[0] = '7';
    struct op op = enqueue_op("q");
    op.enqueue.payload = span_of(payload, sizeof payload);
    put_op(e, op);
}

/* A thousand payloads of a megabyte each would not fit into one reply. */
static void answers_are_bounded(struct env *e)
{
    for (int i = 0; i < BIG_FIT + 2; i++)
        put_big(e);
    struct op_list query = {.queue = SPAN_LITERAL("q"), .limit = 100, .want_body = true};
    EXPECT_INT(peek(e, "q", STATE_READY, 100)->job_count, BIG_FIT);
    const struct reply *r = list(e, query);
    EXPECT_INT(r->job_count, BIG_FIT);
    EXPECT(r->cursor == r->jobs[BIG_FIT - 1].job.seq);
    query.after = r->cursor;
    r = list(e, query);
    EXPECT_INT(r->job_count, 2);
    EXPECT_INT(r->cursor, 0);
    query = (struct op_list){.queue = SPAN_LITERAL("q"), .limit = 100};
    EXPECT_INT(list(e, query)->job_count, BIG_FIT + 2);
    EXPECT_INT(claim(e, "q", 100)->job_count, BIG_FIT);
    struct op op = claim_op(e, "q", 100);
    EXPECT_INT(run(e, op)->job_count, 2);
}

/* Three workers take turns until nothing is left: each job goes out once. */
static void never_twice(struct env *e)
{
    uint64_t seqs[60];
    for (int i = 0; i < 60; i++)
        seqs[i] = put(e, "q");
    unsigned char seen[60] = {0};
    for (uint32_t size = 1, total = 0; total < 60; size = size % 3 + 1) {
        const struct reply *r = claim(e, "q", size);
        EXPECT(r->job_count > 0);
        for (uint32_t i = 0; i < r->job_count; i++)
            EXPECT_INT(seen[index_of(e, seqs, 60, r->jobs[i].job.seq)]++, 0);
        total += r->job_count;
    }
    EXPECT_INT(claim(e, "q", 10)->job_count, 0);
    EXPECT_COUNTS("q", .running = 60);
}

static void view_of_a_claim(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    advance(e, 1234);
    struct op op = claim_op(e, "q", 1);
    op.claim.worker = SPAN_LITERAL("robot-9");
    const struct reply *r = run(e, op);
    EXPECT_INT(r->job_count, 1);
    const struct job_view *v = &r->jobs[0];
    EXPECT_TEXT(v->queue, "q");
    EXPECT_TEXT(v->worker, "robot-9");
    EXPECT_INT(v->lease_ms, 10000);
    EXPECT_INT(v->lease_left_ms, 10000);
    EXPECT_INT(job_attempts(&v->job), 1);
    EXPECT_INT(v->job.since.ms, START_WALL_MS + 1234);
    EXPECT(v->has_body);
    advance(e, 4000);
    const struct job_view *g = get(e, seq);
    EXPECT_INT(g->job.state, STATE_RUNNING);
    EXPECT(token_equal(g->token, v->token));
    EXPECT_TEXT(g->worker, "robot-9");
    EXPECT_INT(g->lease_left_ms, 6000);
    r = peek(e, "q", STATE_RUNNING, 5);
    EXPECT_INT(r->job_count, 1);
    EXPECT_TEXT(r->jobs[0].worker, "robot-9");
    EXPECT_OUT(ack(e, held_of(v)), OUT_OK);
    g = get(e, seq);
    EXPECT_INT(g->worker.len, 0);
    EXPECT_INT(job_attempts(&g->job), 1);
}

static void body_only_when_asked_for(struct env *e)
{
    put(e, "q");
    struct op op = claim_op(e, "q", 1);
    op.claim.want_body = false;
    const struct reply *r = run(e, op);
    EXPECT_INT(r->job_count, 1);
    EXPECT(!r->jobs[0].has_body);
    EXPECT_INT(r->jobs[0].payload.len, 0);
    EXPECT_INT(r->jobs[0].job.payload_bytes, 7);
}

static void lease_length(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    static const struct job_options options = {.lease_ms = 2000};
    struct op op = enqueue_op("q");
    put_op(e, op);
    op.enqueue.options = &options;
    put_op(e, op);
    put_op(e, op);
    EXPECT_INT(claim(e, "q", 1)->jobs[0].lease_ms, 10000); /* the queue's */
    EXPECT_INT(claim(e, "q", 1)->jobs[0].lease_ms, 2000);  /* the job's */
    struct op own = claim_op(e, "q", 1);
    own.claim.lease_ms = 500;
    EXPECT_INT(run(e, own)->jobs[0].lease_ms, 500); /* the claim's */
    advance(e, 500);
    EXPECT_COUNTS("q", .ready = 1, .running = 2);
}

static void seize_waiting(struct env *e)
{
    uint64_t ready = put(e, "q"), other = put(e, "q");
    uint64_t scheduled = put_delayed(e, "q", 60000);
    struct op op = {.kind = OP_CLAIM, .claim = {.one = {.seq = other}, .want_body = true}};
    const struct reply *r = run(e, op);
    EXPECT_INT(r->job_count, 1);
    EXPECT_INT(r->jobs[0].job.seq, other);
    EXPECT_TEXT(r->jobs[0].queue, "q");
    EXPECT_TEXT(r->jobs[0].payload, "{\"n\":1}");
    EXPECT_STATE(other, STATE_RUNNING);
    EXPECT_OUT(ack(e, held_of(&r->jobs[0])), OUT_OK);
    struct held h = seize(e, scheduled);
    EXPECT_STATE(scheduled, STATE_RUNNING);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_INT(take(e, "q").seq, ready);
    EXPECT_INT(claim(e, "q", 5)->job_count, 0);
    advance(e, 60000); /* its old place among the scheduled ones is gone */
    EXPECT_STATE(scheduled, STATE_DONE);
}

static void seize_dead(struct env *e)
{
    struct held old;
    uint64_t seq = job_in(e, "q", STATE_DEAD, &old);
    struct held h = seize(e, seq);
    EXPECT(token_older(old.token, h.token));
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_COUNTS("q", .running = 1);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_STATE(seq, STATE_DONE);
}

static void seize_refused(struct env *e)
{
    static const enum job_state states[] = {STATE_RUNNING, STATE_DONE, STATE_CANCELLED};
    for (int i = 0; i < 3; i++) {
        uint64_t seq = job_in(e, "q", states[i], NULL);
        const struct reply *r =
            run(e, (struct op){.kind = OP_CLAIM, .claim = {.one = {.seq = seq}, .count = 1}});
        EXPECT_OUT(r, OUT_ILLEGAL);
        EXPECT_INT(r->state, states[i]);
        EXPECT_STATE(seq, states[i]);
    }
    struct op op = {.kind = OP_CLAIM, .claim = {.one = {.seq = 999999}, .count = 1}};
    EXPECT_OUT(run(e, op), OUT_NOT_FOUND);
}

static void seize_keeps_unique(struct env *e)
{
    uint64_t old = put_unique(e, "q", "k");
    struct op bury = lease_op(OP_FAIL, take(e, "q"));
    bury.lease.no_retry = true;
    EXPECT_OUT(run(e, bury), OUT_OK);
    uint64_t newer = put_unique(e, "q", "k");
    const struct reply *r =
        run(e, (struct op){.kind = OP_CLAIM, .claim = {.one = {.seq = old}, .count = 1}});
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->seq, newer);
    EXPECT_STATE(old, STATE_DEAD);
}

static struct op release_claim_op(uint64_t nonce)
{
    return (struct op){.kind = OP_RELEASE_CLAIM, .release_claim = {nonce}};
}

static void given_back_by_nonce(struct env *e)
{
    for (int i = 0; i < 4; i++)
        put(e, "q");
    struct op op = claim_op(e, "q", 3);
    op.claim.nonce = 4711;
    const struct reply *r = run(e, op);
    EXPECT_INT(r->job_count, 3);
    EXPECT_OUT(ack(e, held_of(&r->jobs[1])), OUT_OK);
    struct held other = take(e, "q"); /* another claim's job stays where it is */
    const struct reply *back = run(e, release_claim_op(4711));
    EXPECT_OUT(back, OUT_OK);
    EXPECT_INT(back->changed, 2);
    EXPECT_COUNTS("q", .ready = 2, .running = 1, .done = 1);
    EXPECT_INT(get(e, r->jobs[0].job.seq)->job.crashes, 0);
    EXPECT_OUT(ack(e, held_of(&r->jobs[0])), OUT_LEASE_LOST);
    EXPECT_STATE(r->jobs[0].job.seq, STATE_READY);
    EXPECT_OUT(ack(e, other), OUT_OK);
    EXPECT_INT(run(e, release_claim_op(4711))->changed, 0);
    EXPECT_INT(take(e, "q").seq, r->jobs[0].job.seq);
    EXPECT_INT(run(e, release_claim_op(4711))->changed, 0); /* it belongs to another claim now */
}

static void unknown_nonce(struct env *e)
{
    put(e, "q");
    struct held h = take(e, "q");
    const struct reply *r = run(e, release_claim_op(5));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->changed, 0);
    EXPECT_INT(run(e, release_claim_op(0))->changed, 0);
    EXPECT_OUT(ack(e, h), OUT_OK);
}

static void claimed_counter(struct env *e)
{
    for (int i = 0; i < 3; i++)
        put(e, "q");
    const struct reply *r = claim(e, "q", 3);
    EXPECT_OUT(ack(e, held_of(&r->jobs[0])), OUT_OK);
    EXPECT_OUT(release(e, held_of(&r->jobs[1])), OUT_OK);
    EXPECT_OUT(fail(e, held_of(&r->jobs[2])), OUT_OK);
    take(e, "q");
    const struct queue_counts *c = &queue_get(e, "q")->counts;
    EXPECT_INT(c->enqueued, 3);
    EXPECT_INT(c->claimed, 4);
    EXPECT_INT(c->acked, 1);
    EXPECT_INT(c->released, 1);
    EXPECT_INT(c->failed, 1);
    EXPECT_INT(c->crashed, 0);
}

static const struct conform_case cases[] = {
    CASE("a claim takes at most what it asks for", counts_are_kept),
    CASE("an empty claim changes nothing", nothing_there),
    CASE("claims out of bounds are refused", wrong_counts),
    CASE("answers with large bodies end early", answers_are_bounded, .flags = EXACT),
    CASE("ORC-12 no job is handed out twice", never_twice),
    CASE("a claim shows worker, lease and attempt", view_of_a_claim),
    CASE("bodies come only when asked for", body_only_when_asked_for),
    CASE("lease length: claim, then job, then queue", lease_length),
    CASE("a waiting job can be seized by name", seize_waiting),
    CASE("a dead job can be seized by name", seize_dead),
    CASE("NOM-2 seizing running, done or cancelled jobs is illegal", seize_refused),
    CASE("NOM-3 seizing a dead job whose key is taken", seize_keeps_unique),
    CASE("HF-2 a claim is released by its nonce, uncounted", given_back_by_nonce, .flags = EXACT),
    CASE("an unknown nonce releases nothing", unknown_nonce),
    CASE("counters since the start", claimed_counter, .flags = EXACT),
};
TOPIC(topic_claim, cases);
