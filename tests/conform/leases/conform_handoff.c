/* SPDX-License-Identifier: Apache-2.0 */
/* Acks with a hand-off: the next jobs, the keys and the end of this job are one commit. */
#include "conform/conform.h"
#include "core/kvkey.h"
#include "core/limits.h"

static struct span key(struct env *e, const char *json)
{
    struct span k;
    struct err_note note;
    if (kvkey_from_json(span_text(json), true, &e->arena, &k, &note) != 0)
        LEAVE("%s: %s", json, note.text);
    return k;
}

static struct kv_set set_of(struct env *e, const char *json, const char *value)
{
    return (struct kv_set){.key = key(e, json), .kind = PAYLOAD_JSON, .value = span_text(value)};
}

/* value NULL: the key is not there. */
static void expect_key(struct env *e, const char *json, const char *value)
{
    struct span k = key(e, json);
    const struct reply *r = run(
        e, (struct op){.kind = OP_KV_GET, .kv_get = {.keys = &k, .count = 1, .want_value = true}});
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->kvs[0].found, value != NULL);
    if (value)
        EXPECT_TEXT(r->kvs[0].value, value);
}

static struct op handoff_op(struct env *e, struct held h, struct op_kv_commit c)
{
    struct op_kv_commit *copy = arena_copy(&e->arena, &c, sizeof c);
    struct op op = lease_op(OP_ACK, h);
    if (!copy)
        LEAVE("no memory");
    op.lease.handoff = copy;
    return op;
}

static const struct reply *hand_off(struct env *e, struct held h, struct op_kv_commit c)
{
    return run(e, handoff_op(e, h, c));
}

static struct held work(struct env *e, const char *queue)
{
    put(e, queue);
    return take(e, queue);
}

/* Still running under this lease: it can be extended. */
static void expect_held(struct env *e, struct held h)
{
    EXPECT_STATE(h.seq, STATE_RUNNING);
    EXPECT_OUT(run(e, lease_op(OP_EXTEND, h)), OUT_OK);
}

static void all_of_it(struct env *e)
{
    struct held h = work(e, "charge");
    struct kv_set s = set_of(e, "[\"order\",1]", "\"charged\""), old = set_of(e, "[\"lock\"]", "1");
    struct span gone = old.key;
    struct op_enqueue jobs[] = {enqueue_op("ship").enqueue, enqueue_op("mail").enqueue};
    EXPECT_OUT(
        run(e, (struct op){.kind = OP_KV_COMMIT, .kv_commit = {.sets = &old, .set_count = 1}}),
        OUT_OK);
    jobs[1].delay_ms = 60000;
    struct op op = handoff_op(e, h,
                              (struct op_kv_commit){.enqueues = jobs,
                                                    .enqueue_count = 2,
                                                    .sets = &s,
                                                    .set_count = 1,
                                                    .deletes = &gone,
                                                    .delete_count = 1});
    op.lease.result_kind = PAYLOAD_JSON;
    op.lease.result = SPAN_LITERAL("{\"receipt\":7}");
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->seq, h.seq);
    EXPECT_INT(r->state, STATE_DONE);
    EXPECT(r->handoff);
    EXPECT_INT(r->handoff->enqueued_count, 2);
    EXPECT_INT(r->handoff->deleted, 1);
    EXPECT(r->handoff->version > 0);
    EXPECT(r->handoff->enqueued[0].created && r->handoff->enqueued[1].created);
    uint64_t ship = r->handoff->enqueued[0].seq, mail = r->handoff->enqueued[1].seq;
    EXPECT_INT(r->handoff->enqueued[1].run_at.ms, START_WALL_MS + 60000);
    EXPECT_STATE(h.seq, STATE_DONE);
    EXPECT_STATE(ship, STATE_READY);
    EXPECT_STATE(mail, STATE_SCHEDULED);
    EXPECT_TEXT(get(e, h.seq)->result, "{\"receipt\":7}");
    expect_key(e, "[\"order\",1]", "\"charged\"");
    expect_key(e, "[\"lock\"]", NULL);
    EXPECT_COUNTS("charge", .done = 1);
    EXPECT_COUNTS("ship", .ready = 1);
    EXPECT_INT(take(e, "ship").seq, ship);
}

static void refused_as_a_whole(struct env *e)
{
    struct held h = work(e, "q");
    uint64_t holder = put_unique(e, "next", "u1");
    struct kv_set s = set_of(e, "[\"x\"]", "1");
    struct op_enqueue jobs[] = {enqueue_op("other").enqueue, enqueue_op("next").enqueue};
    jobs[1].extra.unique = SPAN_LITERAL("u1");
    jobs[1].unique_mode = UNIQUE_REJECT;
    struct op_kv_commit c = {.enqueues = jobs, .enqueue_count = 2, .sets = &s, .set_count = 1};
    const struct reply *r = hand_off(e, h, c);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT(r->handoff && r->handoff->failed_enqueue);
    EXPECT_INT(r->handoff->failed, 1);
    EXPECT_INT(r->seq, holder);
    expect_held(e, h);
    expect_key(e, "[\"x\"]", NULL);
    EXPECT_COUNTS("next", .ready = 1);
    EXPECT_COUNTS("q", .running = 1);
    jobs[1].unique_mode = UNIQUE_RETURN; /* then it is the one that is there */
    r = hand_off(e, h, c);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->handoff->enqueued[0].created && !r->handoff->enqueued[1].created);
    EXPECT_INT(r->handoff->enqueued[1].seq, holder);
    EXPECT_STATE(h.seq, STATE_DONE);
    EXPECT_COUNTS("other", .ready = 1);
    expect_key(e, "[\"x\"]", "1");
}

/* Each refusal names the enqueue, and the job stays as it is. */
static void every_refusal(struct env *e)
{
    struct queue_policy closed = test_policy();
    struct held h = work(e, "q");
    struct op_enqueue jobs[] = {enqueue_op("a").enqueue, enqueue_op("a").enqueue};
    struct op_kv_commit c = {.enqueues = jobs, .enqueue_count = 2};
    closed.refuse_new = true;
    queue_make(e, "closed", &closed);
    jobs[1].queue = SPAN_LITERAL("closed");
    EXPECT_OUT(hand_off(e, h, c), OUT_REFUSED_NEW);
    jobs[1].queue = SPAN_LITERAL("unknown");
    jobs[1].no_create = true;
    EXPECT_OUT(hand_off(e, h, c), OUT_NO_QUEUE);
    jobs[1].queue = SPAN_LITERAL("line\nbreak");
    jobs[1].no_create = false;
    EXPECT_OUT(hand_off(e, h, c), OUT_INVALID);
    jobs[1] = jobs[0];
    jobs[0].idempotency_key = jobs[1].idempotency_key = SPAN_LITERAL("k");
    EXPECT_OUT(hand_off(e, h, c), OUT_INVALID);
    c.enqueue_count = LIMIT_KV_ENQUEUES + 1;
    EXPECT_OUT(hand_off(e, h, c), OUT_INVALID);
    c.enqueue_count = 0;
    struct kv_set s = set_of(e, "[\"x\"]", "1");
    c.sets = &s;
    c.set_count = 1;
    c.deletes = &s.key;
    c.delete_count = 1;
    EXPECT_OUT(hand_off(e, h, c), OUT_INVALID);
    struct kv_check check = {.key = s.key, .version = 7};
    c.delete_count = 0;
    c.checks = &check;
    c.check_count = 1;
    EXPECT_OUT(hand_off(e, h, c), OUT_VERSION);
    expect_held(e, h);
    expect_key(e, "[\"x\"]", NULL);
    EXPECT_COUNTS("q", .running = 1);
    EXPECT_COUNTS("closed", 0);
    EXPECT_OUT(hand_off(e, h, (struct op_kv_commit){0}), OUT_OK); /* nothing to hand off */
    EXPECT_STATE(h.seq, STATE_DONE);
}

static void place_becomes_free(struct env *e)
{
    struct queue_policy p = test_policy();
    p.capacity = 1;
    queue_make(e, "small", &p);
    struct held h = work(e, "small");
    struct op_enqueue jobs[] = {enqueue_op("small").enqueue, enqueue_op("small").enqueue};
    const struct reply *r =
        hand_off(e, h, (struct op_kv_commit){.enqueues = jobs, .enqueue_count = 2});
    EXPECT_OUT(r, OUT_QUEUE_FULL);
    EXPECT_INT(r->handoff->failed, 1);
    expect_held(e, h);
    EXPECT_OUT(hand_off(e, h, (struct op_kv_commit){.enqueues = jobs, .enqueue_count = 1}), OUT_OK);
    EXPECT_COUNTS("small", .ready = 1, .done = 1);
    struct held other = work(e, "other"); /* its end makes no room in the queue that is full */
    EXPECT_OUT(hand_off(e, other, (struct op_kv_commit){.enqueues = jobs, .enqueue_count = 1}),
               OUT_QUEUE_FULL);
    expect_held(e, other);
}

static void unique_key_passes_on(struct env *e)
{
    struct queue_policy p = test_policy();
    put_unique(e, "poll", "u");
    struct held h = take(e, "poll");
    struct op_enqueue next = enqueue_op("poll").enqueue;
    struct op_kv_commit c = {.enqueues = &next, .enqueue_count = 1};
    next.extra.unique = SPAN_LITERAL("u");
    next.unique_mode = UNIQUE_REJECT;
    const struct reply *r = hand_off(e, h, c);
    EXPECT_OUT(r, OUT_OK);
    uint64_t seq = r->handoff->enqueued[0].seq;
    EXPECT(r->handoff->enqueued[0].created);
    EXPECT_COUNTS("poll", .ready = 1, .done = 1);
    struct op again = enqueue_op("poll");
    again.enqueue.extra.unique = SPAN_LITERAL("u");
    again.enqueue.unique_mode = UNIQUE_REJECT;
    r = run(e, again);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->seq, seq);
    p.unique_scope = UNIQUE_KEPT; /* done jobs keep their keys */
    queue_make(e, "once", &p);
    put_unique(e, "once", "u");
    h = take(e, "once");
    next.queue = SPAN_LITERAL("once");
    EXPECT_OUT(hand_off(e, h, c), OUT_DUPLICATE);
    expect_held(e, h);
}

static void older_token(struct env *e)
{
    struct held old = work(e, "q");
    EXPECT_OUT(release(e, old), OUT_OK);
    struct held h = take(e, "q");
    struct kv_set s = set_of(e, "[\"x\"]", "1");
    struct op_enqueue next = enqueue_op("next").enqueue;
    struct op_kv_commit c = {.enqueues = &next, .enqueue_count = 1, .sets = &s, .set_count = 1};
    EXPECT_OUT(hand_off(e, old, c), OUT_LEASE_LOST);
    expect_key(e, "[\"x\"]", NULL);
    EXPECT_INT(claim(e, "next", 1)->job_count, 0);
    EXPECT_OUT(hand_off(e, h, c), OUT_OK);
    EXPECT_COUNTS("next", .ready = 1);
}

static void lease_that_has_ended(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    struct held h = work(e, "q");
    struct op_enqueue next = enqueue_op("next").enqueue;
    advance(e, 10001);
    EXPECT_OUT(hand_off(e, h, (struct op_kv_commit){.enqueues = &next, .enqueue_count = 1}),
               OUT_LEASE_LOST);
    EXPECT_INT(claim(e, "next", 1)->job_count, 0);
}

static void repeated(struct env *e)
{
    struct held h = work(e, "q");
    struct kv_set s = set_of(e, "[\"x\"]", "1");
    struct op_enqueue jobs[] = {enqueue_op("next").enqueue, enqueue_op("next").enqueue};
    jobs[1].idempotency_key = SPAN_LITERAL("k1");
    jobs[1].fingerprint = 5;
    struct op_kv_commit c = {.enqueues = jobs, .enqueue_count = 2, .sets = &s, .set_count = 1};
    const struct reply *r = hand_off(e, h, c);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(!r->repeat);
    uint64_t seq = r->handoff->enqueued[1].seq, hi = r->handoff->enqueued[1].id_hi;
    EXPECT(seq != 0);
    EXPECT_OUT(run(e, (struct op){.kind = OP_KV_COMMIT,
                                  .kv_commit = {.deletes = &s.key, .delete_count = 1}}),
               OUT_OK);
    r = hand_off(e, h, c);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->repeat);
    EXPECT_INT(r->state, STATE_DONE);
    EXPECT(r->handoff);
    EXPECT_INT(r->handoff->enqueued_count, 2);
    EXPECT_INT(r->handoff->enqueued[0].seq, 0);
    EXPECT_INT(r->handoff->enqueued[1].seq, seq);
    EXPECT_INT(r->handoff->enqueued[1].id_hi, hi);
    expect_key(e, "[\"x\"]", NULL);
    EXPECT_COUNTS("next", .ready = 2);
    EXPECT_OUT(ack(e, h), OUT_OK); /* nor does one without a hand-off undo anything */
    EXPECT_COUNTS("next", .ready = 2);
}

static void idempotent_enqueue(struct env *e)
{
    struct held h = work(e, "q");
    struct op first = enqueue_op("next");
    first.enqueue.idempotency_key = SPAN_LITERAL("k1");
    first.enqueue.fingerprint = 5;
    uint64_t seq = put_op(e, first);
    struct op_enqueue next = first.enqueue;
    struct op_kv_commit c = {.enqueues = &next, .enqueue_count = 1};
    next.fingerprint = 6;
    const struct reply *r = hand_off(e, h, c);
    EXPECT_OUT(r, OUT_KEY_REUSED);
    EXPECT(r->handoff->failed_enqueue);
    expect_held(e, h);
    next.fingerprint = 5;
    r = hand_off(e, h, c);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->handoff->enqueued[0].repeat);
    EXPECT_INT(r->handoff->enqueued[0].seq, seq);
    EXPECT_COUNTS("next", .ready = 1);
}

/* Each ack of a batch takes effect, or is refused, by itself. */
static void in_a_batch(struct env *e)
{
    struct held h[3];
    struct op ops[4];
    const struct reply *replies[4];
    struct op_enqueue next[3];
    for (int i = 0; i < 3; i++) {
        h[i] = work(e, "q");
        next[i] = enqueue_op("next").enqueue;
        ops[i] =
            handoff_op(e, h[i], (struct op_kv_commit){.enqueues = &next[i], .enqueue_count = 1});
    }
    next[1].queue = SPAN_LITERAL("line\nbreak");
    ops[3] = claim_op(e, "next", 5);
    run_batch(e, ops, 4, replies);
    EXPECT_OUT(replies[0], OUT_OK);
    EXPECT_OUT(replies[1], OUT_INVALID);
    EXPECT_INT(replies[1]->handoff->failed, 0);
    EXPECT_OUT(replies[2], OUT_OK);
    EXPECT_STATE(h[0].seq, STATE_DONE);
    expect_held(e, h[1]);
    EXPECT_STATE(h[2].seq, STATE_DONE);
    EXPECT(replies[0]->handoff->enqueued[0].seq != replies[2]->handoff->enqueued[0].seq);
    const struct queue_view *q = queue_get(e, "next");
    EXPECT_INT(q->counts.by_state[STATE_READY] + q->counts.by_state[STATE_RUNNING], 2);
}

/* A job whose cancel is requested can still be acked, and then hands off. */
static void within_the_grace_time(struct env *e)
{
    struct held h = work(e, "q");
    struct op_enqueue next = enqueue_op("next").enqueue;
    struct op stop = job_op(OP_CANCEL, h.seq);
    stop.job.force = false;
    EXPECT_OUT(run(e, stop), OUT_OK);
    EXPECT_OUT(hand_off(e, h, (struct op_kv_commit){.enqueues = &next, .enqueue_count = 1}),
               OUT_OK);
    EXPECT_STATE(h.seq, STATE_DONE);
    EXPECT_COUNTS("next", .ready = 1);
}

static void survives(struct env *e)
{
    struct held h = work(e, "q");
    struct kv_set s = set_of(e, "[\"x\"]", "1");
    struct op_enqueue next = enqueue_op("next").enqueue;
    next.extra.correlation = SPAN_LITERAL("order 1");
    const struct reply *r = hand_off(
        e, h,
        (struct op_kv_commit){.enqueues = &next, .enqueue_count = 1, .sets = &s, .set_count = 1});
    EXPECT_OUT(r, OUT_OK);
    uint64_t seq = r->handoff->enqueued[0].seq;
    env_restart(e);
    EXPECT_STATE(h.seq, STATE_DONE);
    EXPECT_STATE(seq, STATE_READY);
    expect_key(e, "[\"x\"]", "1");
    EXPECT_TEXT(get(e, seq)->extra.correlation, "order 1");
}

/* The reply is durable even where the queue of the acked job does not promise it. */
static void never_relaxed(struct env *e)
{
    struct queue_policy p = test_policy();
    p.durability = DURABILITY_RELAXED;
    queue_make(e, "fast", &p);
    struct held h = work(e, "fast");
    struct op_enqueue next = enqueue_op("next").enqueue;
    const struct reply *r =
        hand_off(e, h, (struct op_kv_commit){.enqueues = &next, .enqueue_count = 1});
    EXPECT_OUT(r, OUT_OK);
    EXPECT(!r->relaxed);
    h = work(e, "fast");
    EXPECT(ack(e, h)->relaxed);
}

/* Replies may be lost, and the ack is repeated: the next job exists once. */
static void once(struct env *e)
{
    struct held h = work(e, "q");
    struct op_enqueue next = enqueue_op("next").enqueue;
    EXPECT_OUT(hand_off(e, h, (struct op_kv_commit){.enqueues = &next, .enqueue_count = 1}),
               OUT_OK);
    EXPECT_STATE(h.seq, STATE_DONE);
    EXPECT_COUNTS("next", .ready = 1);
}

static const struct conform_case cases[] = {
    CASE("HF-28: the ack, the next jobs and the keys are one commit", all_of_it, EXACT),
    CASE("HF-28: a refused enqueue refuses the ack", refused_as_a_whole, EXACT),
    CASE("HF-28: every refusal leaves the job as it is", every_refusal, EXACT),
    CASE("HF-28: the place of the acked job is free for the next one", place_becomes_free, EXACT),
    CASE("HF-28: the unique key passes on to the next job", unique_key_passes_on, EXACT),
    CASE("HF-28: an older token hands nothing off", older_token),
    CASE("HF-28: a lease that has ended hands nothing off", lease_that_has_ended),
    CASE("HF-28: a repeated ack does nothing twice", repeated, EXACT),
    CASE("HF-28: the idempotency keys of the next jobs", idempotent_enqueue, EXACT),
    CASE("HF-28: several hand-offs in one batch", in_a_batch, EXACT),
    CASE("HF-28: a hand-off within the grace time of a cancel", within_the_grace_time),
    CASE("HF-28: a hand-off survives a restart", survives, RESTART | EXACT),
    CASE("HF-28: a hand-off is never relaxed", never_relaxed, EXACT),
    CASE("HF-28: the next job exists once, however often the ack is sent", once),
};

TOPIC(topic_handoff, cases, NEEDS_KV | NEEDS_ONE_STORE);
