/* SPDX-License-Identifier: Apache-2.0 */
/* Idempotency keys: an enqueue repeated under its key happens once. */
#include "conform/conform.h"

static struct op keyed_op(const char *queue, const char *key, uint64_t fingerprint)
{
    struct op op = enqueue_op(queue);
    op.enqueue.idempotency_key = span_text(key);
    op.enqueue.fingerprint = fingerprint;
    return op;
}

static void same_key_same_job(struct env *e)
{
    const struct reply *first = run(e, keyed_op("q", "order-1", 11));
    EXPECT_OUT(first, OUT_OK);
    const struct reply *again = run(e, keyed_op("q", "order-1", 11));
    EXPECT_OUT(again, OUT_OK);
    EXPECT(again->repeat);
    EXPECT_INT(again->seq, first->seq);
    EXPECT_INT(again->id_hi, first->id_hi);
    EXPECT_COUNTS("q", .ready = 1);
    EXPECT(put_op(e, keyed_op("q", "order-2", 11)) != first->seq);
    EXPECT_COUNTS("q", .ready = 2);
}

static void other_body_is_refused(struct env *e)
{
    uint64_t seq = put_op(e, keyed_op("q", "k", 11));
    EXPECT_OUT(run(e, keyed_op("q", "k", 12)), OUT_KEY_REUSED);
    EXPECT_COUNTS("q", .ready = 1);
    EXPECT_OUT(run(e, keyed_op("q", "k", 11)), OUT_OK);
    EXPECT_STATE(seq, STATE_READY);
}

/* Also if the job has run, died or was removed in the meantime: it is created once. */
static void holds_after_the_job(struct env *e)
{
    uint64_t seq = put_op(e, keyed_op("q", "k", 1));
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    const struct reply *r = run(e, keyed_op("q", "k", 1));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->seq, seq);
    EXPECT_INT(r->state, STATE_DONE);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, seq)), OUT_OK);
    r = run(e, keyed_op("q", "k", 1));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->seq, seq);
    EXPECT_COUNTS("q", 0);
}

static void configure_short_keys(struct backend_config *c)
{
    c->key_ttl_ms = 5000;
}

static void expires(struct env *e)
{
    uint64_t seq = put_op(e, keyed_op("q", "k", 1));
    advance(e, 4999);
    EXPECT_INT(put_op(e, keyed_op("q", "k", 1)), seq);
    advance(e, 1);
    uint64_t next = put_op(e, keyed_op("q", "k", 2)); /* a new life, another body */
    EXPECT(next != seq);
    EXPECT_COUNTS("q", .ready = 2);
    EXPECT_INT(put_op(e, keyed_op("q", "k", 2)), next);
}

static void configure_few_keys(struct backend_config *c)
{
    c->keys_max = 3;
    c->key_ttl_ms = 5000;
}

static void no_room_for_keys(struct env *e)
{
    static const char *const keys[] = {"a", "b", "c"};
    uint64_t seqs[3];
    for (int i = 0; i < 3; i++)
        seqs[i] = put_op(e, keyed_op("q", keys[i], 1));
    EXPECT_OUT(run(e, keyed_op("q", "d", 1)), OUT_KEYS_FULL);
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_OK); /* without a key there is room */
    for (int i = 0; i < 3; i++)
        EXPECT_INT(put_op(e, keyed_op("q", keys[i], 1)), seqs[i]); /* none dropped early */
    EXPECT_COUNTS("q", .ready = 4);
    advance(e, 5000);
    EXPECT_OUT(run(e, keyed_op("q", "d", 1)), OUT_OK);
}

/* A refused enqueue does not store its key. */
static void refusal_keeps_no_key(struct env *e)
{
    struct queue_policy p = test_policy();
    p.payload_max = 3;
    queue_make(e, "q", &p);
    EXPECT_OUT(run(e, keyed_op("q", "k", 1)), OUT_TOO_BIG);
    p.payload_max = 100;
    queue_make(e, "q", &p);
    EXPECT_OUT(run(e, keyed_op("q", "k", 2)), OUT_OK);
    EXPECT_COUNTS("q", .ready = 1);
}

static void in_one_batch(struct env *e)
{
    struct op ops[4] = {keyed_op("q", "k", 1), keyed_op("q", "k", 1), keyed_op("q", "k", 2),
                        keyed_op("q", "k", 1)};
    const struct reply *r[4];
    run_batch(e, ops, 4, r);
    EXPECT_OUT(r[0], OUT_OK);
    EXPECT(!r[0]->repeat);
    EXPECT_OUT(r[1], OUT_OK);
    EXPECT(r[1]->repeat && r[1]->seq == r[0]->seq);
    EXPECT_OUT(r[2], OUT_KEY_REUSED);
    EXPECT_INT(r[3]->seq, r[0]->seq);
    EXPECT_COUNTS("q", .ready = 1);
}

/* Key and unique key together: the first answer is given again, not a conflict with itself. */
static void with_a_unique_key(struct env *e)
{
    struct op op = keyed_op("q", "k", 1);
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    uint64_t seq = put_op(e, op);
    EXPECT_INT(put_op(e, op), seq);
    struct op other = keyed_op("q", "k2", 1);
    other.enqueue.extra.unique = SPAN_LITERAL("u");
    EXPECT_OUT(run(e, other), OUT_DUPLICATE);
    other.enqueue.unique_mode = UNIQUE_REPLACE;
    uint64_t newer = put_op(e, other);
    EXPECT_INT(put_op(e, other), newer); /* replaced once, not again */
    EXPECT_STATE(newer, STATE_READY);
    EXPECT_STATE(seq, STATE_CANCELLED);
    EXPECT_COUNTS("q", .ready = 1, .cancelled = 1);
}

static const struct conform_case cases[] = {
    CASE("HF-2 the same key gives the same job", same_key_same_job),
    CASE("HF-2 another body under the key is refused", other_body_is_refused),
    CASE("HF-2 a key outlives its job", holds_after_the_job),
    CASE("HF-2 a key expires after its time", expires, .configure = configure_short_keys),
    CASE("HF-2 no room for another key", no_room_for_keys, .flags = EXACT,
         .configure = configure_few_keys),
    CASE("HF-2 a refused enqueue keeps no key", refusal_keeps_no_key),
    CASE("HF-2 repeats inside one batch", in_one_batch, .flags = EXACT),
    CASE("HF-2 NOM-3 an idempotency key beside a unique key", with_a_unique_key),
};
TOPIC(topic_key, cases);
