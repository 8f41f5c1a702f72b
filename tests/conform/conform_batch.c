/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: order of effects, one reply for each op, and the replies to outstanding ops on close. */
#include "conform/conform.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"

/* Each op sees what the ones before it in the batch have done. */
static void effect_in_order(struct env *e)
{
    struct op ops[] = {
        claim_op(e, "q", 5),
        enqueue_op("q"),
        enqueue_op("q"),
        claim_op(e, "q", 1),
        queue_op(OP_QUEUE_GET, "q"),
        queue_op(OP_PURGE, "q"),
        queue_op(OP_QUEUE_GET, "q"),
        enqueue_op("q"),
        claim_op(e, "q", 5),
        queue_op(OP_QUEUE_GET, "q"),
    };
    const struct reply *r[10];
    run_batch(e, ops, 10, r);
    EXPECT_INT(r[0]->job_count, 0);
    EXPECT_INT(r[3]->job_count, 1);
    EXPECT_INT(r[3]->jobs[0].job.seq, r[1]->seq);
    EXPECT_INT(r[4]->queues[0].counts.by_state[STATE_READY], 1);
    EXPECT_INT(r[4]->queues[0].counts.by_state[STATE_RUNNING], 1);
    EXPECT_INT(r[5]->changed, 1);
    EXPECT_INT(r[6]->queues[0].counts.by_state[STATE_READY], 0);
    EXPECT_INT(r[8]->job_count, 1);
    EXPECT_INT(r[8]->jobs[0].job.seq, r[7]->seq);
    EXPECT_INT(r[9]->queues[0].counts.by_state[STATE_RUNNING], 2);
    EXPECT_STATE(r[2]->seq, STATE_NONE);
    EXPECT_COUNTS("q", .running = 2);
}

/* One job from enqueue to its end. */
static void life_in_one_batch(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op buried = lease_op_by_id(OP_FAIL, seq);
    buried.lease.no_retry = true;
    struct op ops[] = {
        job_op(OP_CANCEL, seq),
        job_op(OP_REQUEUE, seq),
        claim_op(e, "q", 1),
        buried,
        job_op(OP_GET, seq),
        job_op(OP_REQUEUE, seq),
        claim_op(e, "q", 1),
        lease_op_by_id(OP_EXTEND, seq),
        lease_op_by_id(OP_RELEASE, seq),
        claim_op(e, "q", 1),
        lease_op_by_id(OP_ACK, seq),
        job_op(OP_GET, seq),
        claim_op(e, "q", 1),
    };
    const struct reply *r[13];
    run_batch(e, ops, 13, r);
    for (int i = 0; i < 13; i++)
        EXPECT_OUT(r[i], OUT_OK);
    EXPECT_INT(r[4]->jobs[0].job.state, STATE_DEAD);
    EXPECT(token_older(r[2]->jobs[0].token, r[6]->jobs[0].token));
    EXPECT(token_older(r[6]->jobs[0].token, r[9]->jobs[0].token));
    EXPECT_INT(r[11]->jobs[0].job.state, STATE_DONE);
    EXPECT_INT(r[12]->job_count, 0);
    EXPECT_STATE(seq, STATE_DONE);
}

/* Batches of one submitter take effect in their order, replies or not. */
static void batches_in_order(struct env *e)
{
    const struct reply *r[40];
    struct pending *p[40];
    for (int i = 0; i < 40; i++) {
        struct op op = i % 4 == 3 ? claim_op(e, "q", 10) : enqueue_op("q");
        p[i] = submit(e, &op, 1, &r[i]);
    }
    for (int i = 0; i < 40; i++)
        wait_for(e, p[i]);
    for (int i = 3; i < 40; i += 4) {
        EXPECT_INT(r[i]->job_count, 3);
        for (int k = 0; k < 3; k++)
            EXPECT_INT(r[i]->jobs[k].job.seq, r[i - 3 + k]->seq);
    }
    EXPECT_COUNTS("q", .running = 30);
}

static void thousand_ops(struct env *e)
{
    struct op *ops = arena_array(&e->arena, 1000, sizeof *ops);
    const struct reply **r = arena_array(&e->arena, 1000, sizeof *r);
    CHECK(ops && r);
    for (int i = 0; i < 1000; i++)
        ops[i] = enqueue_op("q");
    run_batch(e, ops, 1000, r);
    for (int i = 0; i < 1000; i++) {
        EXPECT_OUT(r[i], OUT_OK);
        EXPECT(i == 0 || r[i]->seq > r[i - 1]->seq);
    }
    const struct reply *c = claim(e, "q", 1000);
    EXPECT_INT(c->job_count, 1000);
    for (int i = 0; i < 1000; i++)
        ops[i] = lease_op(OP_ACK, held_of(&c->jobs[i]));
    run_batch(e, ops, 1000, r);
    for (int i = 0; i < 1000; i++)
        EXPECT_OUT(r[i], OUT_OK);
    EXPECT_COUNTS("q", .done = 1000);
}

/* NOM-4: one invalid item does not affect the rest of the batch. */
static void one_refusal_among_many(struct env *e)
{
    struct op ops[5];
    const struct reply *r[5];
    for (int i = 0; i < 5; i++)
        ops[i] = enqueue_op("q");
    ops[1].enqueue.delay_ms = -1;
    ops[2].enqueue.extra.unique = ops[3].enqueue.extra.unique = SPAN_LITERAL("same");
    run_batch(e, ops, 5, r);
    static const enum outcome should[] = {OUT_OK, OUT_INVALID, OUT_OK, OUT_DUPLICATE, OUT_OK};
    for (int i = 0; i < 5; i++)
        EXPECT_OUT(r[i], should[i]);
    EXPECT_INT(r[3]->seq, r[2]->seq);
    EXPECT_COUNTS("q", .ready = 3);
}

/* Every kind of op on an empty backend: one reply for each, and no operational error. */
static void every_kind_is_answered(struct env *e)
{
    struct op ops[OP_TICK] = {{.kind = OP_ENQUEUE}};
    const struct reply *r[OP_TICK];
    for (int kind = 0; kind < OP_TICK; kind++)
        ops[kind] = (struct op){.kind = (enum op_kind)kind};
    run_batch(e, ops, OP_TICK, r);
    for (int kind = 0; kind < OP_TICK; kind++)
        EXPECT(r[kind]->outcome != OUT_UNAVAILABLE && r[kind]->outcome != OUT_UNKNOWN);
}

static void nothing_submitted(struct env *e)
{
    const struct reply *none;
    struct op op = enqueue_op("q");
    struct pending *p = submit(e, &op, 0, &none);
    EXPECT_INT(pending_left(p), 0);
}

static void closed_cb(void *ctx)
{
    *(bool *)ctx = true;
}

static void never_cb(void *ctx, const struct reply *reply)
{
    (void)reply;
    *(bool *)ctx = true;
}

/* All accepted ops are answered before the backend is closed; no more ops are accepted. */
static void close_answers_all(struct env *e)
{
    struct op ops[60];
    const struct reply *r[60];
    put(e, "q");
    for (int i = 0; i < 60; i++) {
        struct op kinds[] = {enqueue_op("q"), claim_op(e, "q", 2), queue_op(OP_QUEUE_GET, "q"),
                             (struct op){.kind = OP_LIST, .list = {.limit = 10}}};
        ops[i] = kinds[i % 4];
    }
    struct pending *p = submit(e, ops, 60, r);
    static bool closed, called;
    closed = called = false;
    struct backend *b = e->b;
    e->b = NULL;
    backend_close(b, closed_cb, &closed);
    EXPECT(!closed);
    EXPECT_INT(backend_submit(b, ops, 1, never_cb, &called), -ERR_CLOSED);
    while (!closed && uv_run(&e->loop, UV_RUN_ONCE))
        ;
    EXPECT(closed);
    EXPECT_INT(pending_left(p), 0);
    EXPECT(!called);
    for (int i = 0; i < 60; i += 4)
        EXPECT_OUT(r[i], OUT_OK);
}

static void close_at_once(struct env *e)
{
    env_restart(e);
    env_restart(e);
    put(e, "q");
}

/* No globals: the backends do not see each other's changes. */
static void two_in_one_process(struct env *e)
{
    struct backend *first = e->b, *second;
    char dir[64] = "", url[80] = "memory:";
    if (e->profile->on_disk) {
        snprintf(dir, sizeof dir, "%.50s/second", e->dir);
        snprintf(url, sizeof url, "sqlite:%s", dir);
    }
    struct err_note note = {{0}};
    EXPECT_INT(backend_open(url, &e->config, &second, &note), 0);
    uint64_t mine = put_unique(e, "q", "k");
    e->b = second;
    EXPECT(queue_get(e, "q") == NULL);
    uint64_t other = put_unique(e, "q", "k"); /* the key is free here */
    put(e, "q");
    EXPECT_COUNTS("q", .ready = 2);
    EXPECT_INT(take(e, "q").seq, other);
    env_close(e);
    e->b = first;
    EXPECT_COUNTS("q", .ready = 1);
    EXPECT_INT(take(e, "q").seq, mine);
}

/* The caller may free the texts of an op once it is answered, also while other ops of the batch are
 * not. */
struct lender {
    struct env *e;
    char payload[8], key[8], error[8], queue[8];
    char seen_payload[8], seen_key[8], seen_error[8], seen_queue[8];
    size_t left;
};

static void see(char out[8], struct span s)
{
    snprintf(out, 8, "%.*s", (int)(s.len < 8 ? s.len : 7), s.at);
}

static void lender_cb(void *ctx, const struct reply *r)
{
    struct lender *l = ctx;
    uv_stop(&l->e->loop);
    l->left--;
    if (r->kind == OP_ENQUEUE) {
        memset(l->payload, 'x', sizeof l->payload);
        memset(l->key, 'x', sizeof l->key);
        memset(l->queue, 'x', sizeof l->queue);
    } else if (r->kind == OP_FAIL) {
        memset(l->error, 'x', sizeof l->error);
    } else if (r->job_count == 1) {
        see(l->seen_payload, r->jobs[0].payload);
        see(l->seen_key, r->jobs[0].extra.unique);
        see(l->seen_error, r->jobs[0].error);
        see(l->seen_queue, r->jobs[0].queue);
    }
}

static void run_lent(struct lender *l, struct op ops[2])
{
    struct env *e = l->e;
    l->left = 2;
    for (size_t i = 0; i < 2; i++)
        ops[i].tag = e->next_tag++;
    EXPECT_INT(backend_submit(e->b, ops, 2, lender_cb, l), 0);
    while (l->left > 0)
        EXPECT(uv_run(&e->loop, UV_RUN_ONCE) || l->left == 0);
}

static void lent_texts(struct env *e)
{
    struct lender l = {e, "[17]", "key-17", "broke", "lent", "", "", "", "", 0};
    struct op enqueued[] = {enqueue_op("lent"), claim_op(e, "lent", 1)};
    enqueued[0].enqueue.queue = span_text(l.queue);
    enqueued[0].enqueue.payload = span_text(l.payload);
    enqueued[0].enqueue.extra.unique = span_text(l.key);
    run_lent(&l, enqueued);
    EXPECT_TEXT(span_text(l.seen_payload), "[17]");
    EXPECT_TEXT(span_text(l.seen_key), "key-17");
    EXPECT_TEXT(span_text(l.seen_queue), "lent");
    put(e, "q");
    struct op failed[] = {lease_op(OP_FAIL, take(e, "q")), claim_op(e, "q", 1)};
    failed[0].lease.error = span_text(l.error);
    failed[0].lease.has_delay = true;
    run_lent(&l, failed);
    EXPECT_TEXT(span_text(l.seen_error), "broke");
    EXPECT_TEXT(span_text(l.seen_queue), "q");
}

static const struct conform_case cases[] = {
    CASE("a batch takes effect in order", effect_in_order, .flags = EXACT),
    CASE("a whole life in one batch", life_in_one_batch, .flags = EXACT),
    CASE("texts are lent until their op is answered", lent_texts, .flags = EXACT),
    CASE("batches take effect in order", batches_in_order, .flags = EXACT),
    CASE("a thousand ops in one batch", thousand_ops, .flags = EXACT),
    CASE("NOM-4 a batch reports per item", one_refusal_among_many, .flags = EXACT),
    CASE("every kind of op is answered once", every_kind_is_answered, .flags = EXACT),
    CASE("an empty batch", nothing_submitted),
    CASE("close answers everything outstanding", close_answers_all, .flags = EXACT),
    CASE("open and close again", close_at_once),
    CASE("two backends in one process", two_in_one_process),
};
TOPIC(topic_batch, cases);
