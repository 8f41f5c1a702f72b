/* SPDX-License-Identifier: Apache-2.0 */
/* What an enqueue is refused for: every value out of bounds, and which refusal comes first when
 * several apply. */
#include "conform/tell.h"

#include <stdlib.h>

#define WHEN_WRONG                                                                                 \
    "invalid: delay_ms must be 0 or more; run_at must be a time before the year 10000;"

static void values(struct env *e)
{
    struct op good = enqueue_op("q");
    struct job_options options = {.lease_ms = LIMIT_LEASE_MS_MIN - 1};
    put(e, "q");
    const char *before = world(e);
    WITH(enqueue.payload_kind, 3,
         "invalid: the kind of a payload or result is none (0), json (1) or bytes (2);");
    WITH(enqueue.payload_kind, PAYLOAD_NONE,
         "invalid: a payload or result of no kind cannot have bytes;");
    WITH(enqueue.delay_ms, -1, WHEN_WRONG);
    WITH(enqueue.run_at.ms, -1, WHEN_WRONG);
    WITH(enqueue.run_at.ms, LIMIT_WALL_MS + 1, WHEN_WRONG);
    WITH(enqueue.extra.expires_at.ms, -1,
         "invalid: expires_at must be a time before the year 10000;");
    WITH(enqueue.extra.expires_at.ms, LIMIT_WALL_MS + 1,
         "invalid: expires_at must be a time before the year 10000;");
    WITH(enqueue.unique_mode, UNIQUE_REPLACE + 1,
         "invalid: unique_mode must be reject, return or replace;");
    WITH(enqueue.options, &options, "invalid: lease_ms is 99; it must be from 100 to 86400000;");
    options.lease_ms = LIMIT_LEASE_MS + 1;
    WITH(enqueue.options, &options,
         "invalid: lease_ms is 86400001; it must be from 100 to 86400000;");
    options = (struct job_options){.max_attempts = LIMIT_ATTEMPTS + 1};
    WITH(enqueue.options, &options, "invalid: max_attempts is 60001; it must be from 1 to 60000;");
    options = (struct job_options){.max_crashes = LIMIT_ATTEMPTS + 1};
    WITH(enqueue.options, &options, "invalid: max_crashes is 60001; it must be from 0 to 60000;");
    options = (struct job_options){.has_backoff = true,
                                   .backoff = {.kind = BACKOFF_LIST, .step_count = 33}};
    WITH(enqueue.options, &options,
         "invalid: the number of back-off steps is 33; it must be from 0 to 32;");
    UNCHANGED(before);
}

/* The largest values there are. */
static void bounds(struct env *e)
{
    struct op good = enqueue_op("q");
    struct job_options options = {
        .lease_ms = LIMIT_LEASE_MS, .max_attempts = LIMIT_ATTEMPTS, .max_crashes = LIMIT_ATTEMPTS};
    good.enqueue.options = &options;
    good.enqueue.run_at.ms = LIMIT_WALL_MS;
    good.enqueue.extra = (struct job_extra){.unique = text_of(e, LIMIT_KEY_BYTES),
                                            .group = text_of(e, LIMIT_KEY_BYTES),
                                            .correlation = text_of(e, LIMIT_KEY_BYTES),
                                            .label = text_of(e, LIMIT_LABEL_BYTES),
                                            .attributes = json_of(e, LIMIT_ATTRIBUTES_BYTES),
                                            .expires_at = {LIMIT_WALL_MS}};
    const struct job_view *v = get(e, put_op(e, good));
    EXPECT_INT(v->job.state, STATE_SCHEDULED);
    EXPECT_INT(v->job.run_at.ms, LIMIT_WALL_MS);
    EXPECT_INT(v->expires_at.ms, LIMIT_WALL_MS);
    EXPECT_SPAN(v->extra.unique, good.enqueue.extra.unique);
    EXPECT_SPAN(v->extra.group, good.enqueue.extra.group);
    EXPECT_SPAN(v->extra.correlation, good.enqueue.extra.correlation);
    EXPECT_SPAN(v->extra.label, good.enqueue.extra.label);
    EXPECT_SPAN(v->extra.attributes, good.enqueue.extra.attributes);
    EXPECT_INT(v->own_lease_ms, LIMIT_LEASE_MS);
    good = enqueue_op("q");
    good.enqueue.delay_ms = INT64_MAX;
    v = get(e, put_op(e, good));
    EXPECT_INT(v->job.run_at.ms, LIMIT_WALL_MS);
    good = enqueue_op("q");
    good.enqueue.queue = text_of(e, LIMIT_QUEUE_NAME_BYTES);
    v = get(e, put_op(e, good));
    EXPECT_SPAN(v->queue, good.enqueue.queue);
}

/* More bytes than any payload may have; they are not read. */
static void largest_payload(struct env *e)
{
    struct op good = enqueue_op("q");
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    name_job(e, "a", seq);
    char *bytes = calloc(1, LIMIT_PAYLOAD_BYTES + 1);
    EXPECT(bytes);
    struct span large = span_of(bytes, LIMIT_PAYLOAD_BYTES + 1);
    const char *before = world(e);
    WITH(enqueue.payload, large, "too_big");
    good = lease_op(OP_ACK, h);
    good.lease.result_kind = PAYLOAD_BYTES;
    WITH(lease.result, large, "too_big job=a running queue=q");
    good.kind = OP_FAIL;
    WITH(lease.result, large, "too_big job=a running queue=q");
    good = (struct op){.kind = OP_NOTE,
                       .note = {.job = {.seq = seq}, .has_result = true, .result_kind = 1}};
    WITH(note.result, large, "too_big job=a running queue=q");
    UNCHANGED(before);
    free(bytes);
}

static void texts(struct env *e)
{
    struct op good = enqueue_op("q");
    put(e, "q");
    const char *before = world(e);
    WITH(enqueue.extra.unique, BAD_UTF8, "invalid: unique is not valid UTF-8 at byte 1;");
    WITH(enqueue.extra.unique, WITH_NUL, "invalid: unique has a U+0000 at byte 1;");
    WITH(enqueue.extra.unique, text_of(e, LIMIT_KEY_BYTES + 1),
         "invalid: unique has 513 bytes; 512 are allowed;");
    WITH(enqueue.extra.group, BAD_UTF8, "invalid: group is not valid UTF-8 at byte 1;");
    WITH(enqueue.extra.group, WITH_NUL, "invalid: group has a U+0000 at byte 1;");
    WITH(enqueue.extra.group, text_of(e, LIMIT_KEY_BYTES + 1),
         "invalid: group has 513 bytes; 512 are allowed;");
    WITH(enqueue.extra.correlation, BAD_UTF8,
         "invalid: correlation_id is not valid UTF-8 at byte 1;");
    WITH(enqueue.extra.correlation, WITH_NUL, "invalid: correlation_id has a U+0000 at byte 1;");
    WITH(enqueue.extra.correlation, text_of(e, LIMIT_KEY_BYTES + 1),
         "invalid: correlation_id has 513 bytes; 512 are allowed;");
    WITH(enqueue.extra.label, BAD_UTF8, "invalid: priority_label is not valid UTF-8 at byte 1;");
    WITH(enqueue.extra.label, WITH_NUL, "invalid: priority_label has a U+0000 at byte 1;");
    WITH(enqueue.extra.label, text_of(e, LIMIT_LABEL_BYTES + 1),
         "invalid: priority_label has 65 bytes; 64 are allowed;");
    WITH(enqueue.extra.attributes, BAD_UTF8, "invalid: attributes is not valid UTF-8 at byte 1;");
    WITH(enqueue.extra.attributes, WITH_NUL, "invalid: attributes has a U+0000 at byte 1;");
    WITH(enqueue.extra.attributes, text_of(e, LIMIT_ATTRIBUTES_BYTES + 1),
         "invalid: attributes has 65537 bytes; 65536 are allowed;");
    WITH(enqueue.queue, BAD_UTF8, "invalid: the queue name is not valid UTF-8 at byte 1;");
    WITH(enqueue.queue, WITH_NUL, "invalid: the queue name has a control character at byte 1;");
    WITH(enqueue.queue, SPAN_LITERAL("a\tb"),
         "invalid: the queue name has a control character at byte 1;");
    WITH(enqueue.queue, SPAN_LITERAL("a\xc2\x80"),
         "invalid: the queue name has a control character at byte 1;");
    WITH(enqueue.queue, SPAN_LITERAL("-a"), "invalid: a queue name must not start with '-';");
    WITH(enqueue.queue, SPAN_LITERAL(""), "invalid: a queue name must not be empty;");
    WITH(enqueue.queue, text_of(e, LIMIT_QUEUE_NAME_BYTES + 1),
         "invalid: the queue name has 201 bytes; 200 are allowed;");
    UNCHANGED(before);
    /* The key is kept as a hash: any bytes do. A payload is its producer's affair. */
    good.enqueue.idempotency_key = WITH_NUL;
    good.enqueue.payload_kind = PAYLOAD_BYTES;
    good.enqueue.payload = BAD_UTF8;
    name_job(e, "a", put_op(e, good));
    TELLS(run(e, good), "ok job=a ready created repeat");
    EXPECT_SPAN(get(e, e->named[0].seq)->payload, good.enqueue.payload);
}

/* --- which refusal comes first --- */

static void tight(struct backend_config *c)
{
    c->capacity = 2;
    c->keys_max = 1;
    c->queue_limits = (struct queue_limits){.max = 3, .implied_max = 2};
}

/* Everything is wrong; what is refused is put right, and the next refusal shows. */
static void order_in_queue(struct env *e)
{
    struct queue_policy p = test_policy();
    p.payload_max = 8;
    p.capacity = 1;
    p.enqueue_rate = (struct rate_limit){RATE_QUEUE, 1, 3600000};
    queue_make(e, "q", &p);
    struct op op = enqueue_op("q");
    op.enqueue.idempotency_key = SPAN_LITERAL("key");
    op.enqueue.fingerprint = 1;
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    name_job(e, "a", put_op(e, op));
    uint64_t other = put(e, "other");
    p.refuse_new = true;
    queue_make(e, "q", &p);

    const char *before = world(e);
    op.enqueue.delay_ms = -1;
    op.enqueue.fingerprint = 2;
    op.enqueue.payload = text_of(e, 9);
    TELLS(run(e, op), WHEN_WRONG);
    op.enqueue.delay_ms = 0;
    TELLS(run(e, op), "key_reused");
    op.enqueue.fingerprint = 1;
    TELLS(run(e, op), "ok job=a ready created repeat");
    op.enqueue.idempotency_key = SPAN_LITERAL("another key");
    TELLS(run(e, op), "refused_new");
    UNCHANGED(before);
    p.refuse_new = false;
    queue_make(e, "q", &p);
    before = world(e);
    TELLS(run(e, op), "too_big");
    op.enqueue.payload = text_of(e, 8);
    TELLS(run(e, op), "duplicate job=a ready");
    op.enqueue.unique_mode = UNIQUE_RETURN;
    TELLS(run(e, op), "ok job=a ready");
    op.enqueue.extra.unique = SPAN_LITERAL("v");
    TELLS(run(e, op), "queue_full");
    UNCHANGED(before);
    p.capacity = 2;
    queue_make(e, "q", &p);
    before = world(e);
    TELLS(run(e, op), "server_full");
    UNCHANGED(before);
    cancel(e, other);
    before = world(e);
    TELLS(run(e, op), "rate_limited retry_ms=3600000");
    UNCHANGED(before);
    p.enqueue_rate.count = 0;
    queue_make(e, "q", &p);
    before = world(e);
    TELLS(run(e, op), "keys_full");
    UNCHANGED(before);
    op.enqueue.idempotency_key = (struct span){NULL, 0};
    name_job(e, "b", put_op(e, op));
    EXPECT_COUNTS("q", .ready = 2);
}

static void tight_small(struct backend_config *c)
{
    static struct queue_policy p;
    p = test_policy();
    p.payload_max = 8;
    c->policy = &p;
    tight(c);
}

/* The same of a queue that the enqueue would create. */
static void order_of_new_queue(struct env *e)
{
    struct op op = enqueue_op("a");
    op.enqueue.idempotency_key = SPAN_LITERAL("key");
    op.enqueue.payload = text_of(e, 8);
    name_job(e, "a", put_op(e, op));
    uint64_t b = put(e, "b");

    const char *before = world(e);
    op.enqueue.payload = text_of(e, 9);
    op.enqueue.no_create = true;
    op.enqueue.queue = SPAN_LITERAL("-c");
    TELLS(run(e, op), "ok job=a ready created repeat");
    op.enqueue.idempotency_key = SPAN_LITERAL("another key");
    TELLS(run(e, op), "invalid: a queue name must not start with '-';");
    op.enqueue.queue = SPAN_LITERAL("c");
    TELLS(run(e, op), "no_queue");
    op.enqueue.no_create = false;
    TELLS(run(e, op), "too_big");
    op.enqueue.payload = text_of(e, 8);
    TELLS(run(e, op), "queues_full");
    UNCHANGED(before);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "b")), OUT_OK);
    settle_due(e);
    EXPECT(!get(e, b));
    put(e, "a");
    before = world(e);
    TELLS(run(e, op), "server_full");
    UNCHANGED(before);
    EXPECT_OUT(cancel(e, e->named[0].seq), OUT_OK);
    before = world(e);
    TELLS(run(e, op), "keys_full");
    UNCHANGED(before);
    op.enqueue.idempotency_key = (struct span){NULL, 0};
    put_op(e, op);
    EXPECT_COUNTS("c", .ready = 1);
}

static void shut_queues(struct backend_config *c)
{
    static struct queue_policy p;
    p = test_policy();
    p.refuse_new = true;
    c->policy = &p;
}

/* A queue that would take no job is not created. */
static void refused_by_new_queue(struct env *e)
{
    const char *before = world(e);
    TELLS(run(e, enqueue_op("q")), "refused_new");
    UNCHANGED(before);
    struct op past = enqueue_op("q");
    past.enqueue.past = &(struct job_past){.state = STATE_READY};
    TELLS(run(e, past), "ok job=? ready created");
}

/* --- room --- */

/* What gives room, and what needs none. */
static void room(struct env *e)
{
    struct queue_policy p = test_policy();
    p.capacity = 1;
    queue_make(e, "q", &p);
    struct op op = enqueue_op("q");
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    name_job(e, "a", put_op(e, op));
    struct op past = enqueue_op("q");
    past.enqueue.past = &(struct job_past){.state = STATE_READY};
    const char *before = world(e);
    TELLS(run(e, enqueue_op("q")), "queue_full");
    TELLS(run(e, past), "queue_full");
    UNCHANGED(before);
    op.enqueue.unique_mode = UNIQUE_REPLACE;
    const struct reply *r = run(e, op);
    name_job(e, "b", r->seq);
    TELLS(r, "ok job=b ready created replaced=a");
    EXPECT_STATE(e->named[0].seq, STATE_CANCELLED);
    past.enqueue.past = &(struct job_past){.state = STATE_DEAD, .reason = REASON_FAILED};
    r = run(e, past);
    name_job(e, "dead", r->seq);
    TELLS(r, "ok job=dead dead created");
    /* A requeue is no new job. */
    TELLS(requeue(e, r->seq), "ok job=dead ready queue=q");
    TELLS(run(e, enqueue_op("q")), "queue_full");
    EXPECT_COUNTS("q", .ready = 2, .cancelled = 1);
    /* Neither running, nor one that waits for its retry gives its place away; an ended one does. */
    EXPECT_OUT(cancel(e, r->seq), OUT_OK);
    struct held h = take(e, "q");
    TELLS(run(e, enqueue_op("q")), "queue_full");
    EXPECT_OUT(fail(e, h), OUT_OK);
    TELLS(run(e, enqueue_op("q")), "queue_full");
    advance(e, 1000);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    put(e, "q");
    TELLS(run(e, enqueue_op("q")), "queue_full");
    EXPECT_INT(run(e, queue_op(OP_PURGE, "q"))->changed, 1);
    op = enqueue_op("q");
    op.enqueue.extra.expires_at = now_plus(e, 1000);
    put_op(e, op);
    TELLS(run(e, enqueue_op("q")), "queue_full");
    advance(e, 1500);
    put(e, "q");
    TELLS(run(e, enqueue_op("q")), "queue_full");
}

static void room_of_server(struct env *e)
{
    name_job(e, "a", put_unique(e, "q", "u"));
    uint64_t b = put(e, "b");
    struct op past = enqueue_op("q");
    past.enqueue.past = &(struct job_past){.state = STATE_READY};
    const char *before = world(e);
    TELLS(run(e, enqueue_op("q")), "server_full");
    TELLS(run(e, enqueue_op("b")), "server_full");
    TELLS(run(e, past), "server_full");
    UNCHANGED(before);
    struct op op = enqueue_op("q");
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    op.enqueue.unique_mode = UNIQUE_REPLACE;
    EXPECT_OUT(run(e, op), OUT_OK);
    past.enqueue.past = &(struct job_past){.state = STATE_DEAD, .reason = REASON_FAILED};
    EXPECT_OUT(run(e, past), OUT_OK);
    TELLS(run(e, enqueue_op("q")), "server_full");
    EXPECT_OUT(cancel(e, b), OUT_OK);
    put(e, "q");
    TELLS(run(e, enqueue_op("b")), "server_full");
    EXPECT_INT(run(e, queue_op(OP_PURGE, "q"))->changed, 2);
    put(e, "b");
    put(e, "b");
    TELLS(run(e, enqueue_op("b")), "server_full");
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "b")), OUT_OK);
    put(e, "q");
    put(e, "q");
    TELLS(run(e, enqueue_op("q")), "server_full");
}

/* A key that expired makes room, one whose job is gone does not. */
static void room_for_keys(struct env *e)
{
    struct op op = enqueue_op("q");
    op.enqueue.idempotency_key = SPAN_LITERAL("one");
    uint64_t seq = put_op(e, op);
    name_job(e, "a", seq);
    struct op more = enqueue_op("q");
    more.enqueue.idempotency_key = SPAN_LITERAL("two");
    TELLS(run(e, more), "keys_full");
    EXPECT_OUT(cancel(e, seq), OUT_OK);
    TELLS(run(e, op), "ok job=a cancelled created repeat");
    EXPECT_OUT(run(e, job_op(OP_REMOVE, seq)), OUT_OK);
    TELLS(run(e, op), "ok job=a created repeat");
    TELLS(run(e, more), "keys_full");
    EXPECT_COUNTS("q", .ready = 0);
    stand_still(e, 24 * 3600 * 1000);
    TELLS(run(e, more), "ok job=? ready created");
    EXPECT_COUNTS("q", .ready = 1);
}

/* --- rate limits --- */

static void rates(struct env *e)
{
    struct queue_policy p = test_policy();
    p.enqueue_rate = (struct rate_limit){RATE_GROUP, 1, 60000};
    p.capacity = 5;
    queue_make(e, "q", &p);
    struct op op = enqueue_op("q");
    op.enqueue.extra.group = SPAN_LITERAL("g");
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    name_job(e, "a", put_op(e, op));
    const char *before = world(e);
    TELLS(run(e, op), "duplicate job=a ready"); /* before the limit */
    struct op more = op;
    more.enqueue.extra.unique = (struct span){NULL, 0};
    /* those without a group share a limit */
    TELLS(run(e, more), "rate_limited retry_ms=60000");
    more.enqueue.extra.group = (struct span){NULL, 0};
    UNCHANGED(before);
    name_job(e, "b", put_op(e, more));
    TELLS(run(e, more), "rate_limited retry_ms=60000");
    op.enqueue.unique_mode = UNIQUE_REPLACE; /* a new job like any other */
    before = world(e);
    TELLS(run(e, op), "rate_limited job=a ready retry_ms=60000");
    UNCHANGED(before);
    more.enqueue.past = &(struct job_past){.state = STATE_READY};
    EXPECT_OUT(run(e, more), OUT_OK);
    stand_still(e, 59999);
    TELLS(run(e, op), "rate_limited job=a ready retry_ms=1");
    stand_still(e, 1);
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->replaced_seq, e->named[0].seq);
}

static const struct conform_case cases[] = {
    CASE("HF-27 enqueue: values out of bounds", values, EXACT),
    CASE("HF-27 enqueue: values at their bounds", bounds),
    CASE("HF-27 more bytes than any payload may have", largest_payload, EXACT),
    CASE("HF-27 enqueue: damaged and long texts", texts, EXACT),
    CASE("HF-27 enqueue: which refusal comes first", order_in_queue, EXACT, tight, NEEDS_ONE_STORE),
    CASE("HF-27 enqueue: which refusal of a new queue comes first", order_of_new_queue, EXACT,
         tight_small, NEEDS_ONE_STORE),
    CASE("HF-27 enqueue: a refusal creates no queue", refused_by_new_queue, EXACT, shut_queues),
    CASE("HF-27 room in a queue: what takes it, what gives it back", room, EXACT),
    CASE("HF-27 room in the server: what takes it, what gives it back", room_of_server, EXACT,
         tight, NEEDS_ONE_STORE),
    CASE("HF-27 room for idempotency keys", room_for_keys, EXACT, tight, NEEDS_ONE_STORE),
    CASE("HF-27 rate limit: what it counts, and what comes before it", rates, EXACT),
};
TOPIC(topic_refuse_enqueue, cases);
