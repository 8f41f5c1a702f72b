/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueue: fields, bytes, limits, and the queue that an enqueue creates. */
#include "conform/conform.h"

#include "base/check.h"

static void expect_extra(struct env *e, const struct job_extra *x,
                         const struct job_options *options)
{
    EXPECT_TEXT(x->unique, "path/ü.flac");
    EXPECT_TEXT(x->group, "library-3");
    EXPECT_TEXT(x->correlation, "req-77");
    EXPECT_TEXT(x->label, "high");
    EXPECT_TEXT(x->attributes, "{\"robot\": 4}");
    EXPECT_INT(x->expires_at.ms, START_WALL_MS + 900000);
    struct job_options back;
    EXPECT_INT(options_decode(x->options, &back), 0);
    EXPECT_INT(back.max_attempts, options->max_attempts);
    EXPECT_INT(back.lease_ms, options->lease_ms);
    EXPECT_INT(back.backoff.step_ms[1], 77);
}

static struct op rich_op(const struct job_options *options)
{
    struct op op = enqueue_op("q");
    op.enqueue.has_priority = true;
    op.enqueue.priority = -42;
    op.enqueue.delay_ms = 5000;
    op.enqueue.options = options;
    op.enqueue.extra = (struct job_extra){.unique = SPAN_LITERAL("path/ü.flac"),
                                          .group = SPAN_LITERAL("library-3"),
                                          .correlation = SPAN_LITERAL("req-77"),
                                          .label = SPAN_LITERAL("high"),
                                          .attributes = SPAN_LITERAL("{\"robot\": 4}"),
                                          .expires_at = {START_WALL_MS + 900000}};
    return op;
}

static void fields(struct env *e)
{
    static const struct job_options options = {
        .max_attempts = 9,
        .lease_ms = 4321,
        .has_backoff = true,
        .backoff = {.kind = BACKOFF_LIST, .step_count = 2, .step_ms = {7, 77}},
    };
    uint64_t seq = put_op(e, rich_op(&options));
    const struct job_view *v = get(e, seq);
    EXPECT(v != NULL);
    EXPECT_TEXT(v->queue, "q");
    EXPECT_INT(v->job.state, STATE_SCHEDULED);
    EXPECT_INT(v->job.priority, -42);
    EXPECT_INT(v->job.run_at.ms, START_WALL_MS + 5000);
    EXPECT_INT(v->job.failures + v->job.crashes, 0);
    EXPECT_INT(v->expires_at.ms, START_WALL_MS + 900000);
    expect_extra(e, &v->extra, &options);
    const struct reply *page = list(e, (struct op_list){.limit = 5, .want_body = true});
    EXPECT_INT(page->job_count, 1);
    expect_extra(e, &page->jobs[0].extra, &options);
    advance(e, 5000);
    const struct reply *r = claim(e, "q", 1);
    EXPECT_INT(r->job_count, 1);
    EXPECT_INT(r->jobs[0].lease_ms, 4321);
    expect_extra(e, &r->jobs[0].extra, &options);
}

static void id_has_time_node_and_sequence(struct env *e)
{
    const struct reply *first = run(e, enqueue_op("q"));
    advance(e, 250);
    const struct reply *second = run(e, enqueue_op("q"));
    EXPECT_OUT(second, OUT_OK);
    EXPECT(second->seq > first->seq && first->seq >= 1 && second->seq <= LIMIT_SEQ);
    EXPECT_INT(id_time(first->id_hi).ms, START_WALL_MS);
    EXPECT_INT(id_time(second->id_hi).ms, START_WALL_MS + 250);
    EXPECT_INT(id_node(second->id_hi), 7);
    EXPECT_INT(id_seq(id_make(second->id_hi, second->seq)), second->seq);
    EXPECT_INT(get(e, second->seq)->job.id_hi, second->id_hi);
}

/* By get, by list and by claim. */
static void same_bytes(struct env *e, uint8_t kind, struct span payload)
{
    struct op op = enqueue_op("bytes");
    op.enqueue.payload_kind = kind;
    op.enqueue.payload = payload;
    uint64_t seq = put_op(e, op);
    const struct job_view *v = get(e, seq);
    EXPECT_SPAN(v->payload, payload);
    EXPECT_INT(v->job.payload_kind, kind);
    EXPECT_INT(v->job.payload_bytes, payload.len);
    const struct reply *r =
        list(e, (struct op_list){
                    .filter = {.seq_min = seq, .seq_max = seq}, .limit = 1, .want_body = true});
    EXPECT_INT(r->job_count, 1);
    EXPECT_SPAN(r->jobs[0].payload, payload);
    r = claim(e, "bytes", 1);
    EXPECT_INT(r->job_count, 1);
    EXPECT_INT(r->jobs[0].job.seq, seq);
    EXPECT_SPAN(r->jobs[0].payload, payload);
    EXPECT_INT(r->jobs[0].job.payload_kind, kind);
    EXPECT_OUT(ack(e, held_of(&r->jobs[0])), OUT_OK);
}

static void json_bytes(struct env *e)
{
    static const char *const texts[] = {
        "{\"n\":123456789012345678901234567890,\"x\":-0,\"y\":1.0E+10,\"z\":1e-400}",
        " [ 1 ,\t2 ,\r\n 3 ]\n",
        "\"\\u0041\\/\\ud83d\\ude00 ü \\u0000\"",
        "{\"a\":1,\"a\":2,\"b\":{}}",
        "null",
        "0.10000000000000000000000",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        same_bytes(e, PAYLOAD_JSON, span_text(texts[i]));
}

static void binary_bytes(struct env *e)
{
    char all[512];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)i;
    same_bytes(e, PAYLOAD_BYTES, span_of(all, sizeof all));
    same_bytes(e, PAYLOAD_BYTES, span_of("\0", 1));
    same_bytes(e, PAYLOAD_BYTES, span_of("a\0\0b\r\n", 6));
}

static void empty_payloads(struct env *e)
{
    same_bytes(e, PAYLOAD_BYTES, span_of(NULL, 0));
    same_bytes(e, PAYLOAD_NONE, span_of(NULL, 0));
}

static void payload_limit(struct env *e)
{
    struct queue_policy p = test_policy();
    p.payload_max = 1000;
    queue_make(e, "bytes", &p);
    char *bytes = arena_array(&e->arena, 1001, 1);
    CHECK(bytes);
    same_bytes(e, PAYLOAD_BYTES, span_of(bytes, 1000));
    struct op op = enqueue_op("bytes");
    op.enqueue.payload_kind = PAYLOAD_BYTES;
    op.enqueue.payload = span_of(bytes, 1001);
    EXPECT_OUT(run(e, op), OUT_TOO_BIG);
    EXPECT_COUNTS("bytes", .done = 1);
}

static void big_payload(struct env *e)
{
    size_t size = 1u << 20;
    char *bytes = arena_alloc(&e->arena, size);
    CHECK(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 31 >> 3);
    same_bytes(e, PAYLOAD_BYTES, span_of(bytes, size));
}

static void makes_its_queue(struct env *e)
{
    EXPECT(queue_get(e, "new") == NULL);
    put(e, "new");
    const struct queue_view *v = queue_get(e, "new");
    EXPECT(v != NULL);
    struct queue_policy p;
    policy_default(&p);
    EXPECT_INT(v->policy->lease_ms, p.lease_ms);
    EXPECT_INT(v->policy->max_attempts, p.max_attempts);
    EXPECT_INT(v->created_at.ms, START_WALL_MS);
    EXPECT_COUNTS("new", .ready = 1);
}

static void no_create(struct env *e)
{
    struct op op = enqueue_op("typo");
    op.enqueue.no_create = true;
    EXPECT_OUT(run(e, op), OUT_NO_QUEUE);
    EXPECT(queue_get(e, "typo") == NULL);
    struct queue_policy p = test_policy();
    queue_make(e, "typo", &p);
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_COUNTS("typo", .ready = 1);
}

static void configure_no_auto_create(struct backend_config *c)
{
    c->no_auto_create = true;
}

static void no_auto_create(struct env *e)
{
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_NO_QUEUE);
    EXPECT(queue_get(e, "q") == NULL);
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_OK);
}

static void configure_own_policy(struct backend_config *c)
{
    static struct queue_policy p;
    p = test_policy();
    p.priority = 5;
    p.lease_ms = 1234;
    c->policy = &p;
}

static void own_default_policy(struct env *e)
{
    uint64_t seq = put(e, "q");
    EXPECT_INT(get(e, seq)->job.priority, 5);
    EXPECT_INT(queue_get(e, "q")->policy->lease_ms, 1234);
    EXPECT_INT(claim(e, "q", 1)->jobs[0].lease_ms, 1234);
}

static void queue_priority_is_the_default(struct env *e)
{
    struct queue_policy p = test_policy();
    p.priority = -3;
    queue_make(e, "q", &p);
    EXPECT_INT(get(e, put(e, "q"))->job.priority, -3);
    EXPECT_INT(get(e, put_priority(e, "q", 0))->job.priority, 0);
}

static void expect_invalid(struct env *e, struct op op)
{
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_INVALID);
    EXPECT(r->note != NULL && r->note[0] != '\0');
}

static void invalid_values(struct env *e)
{
    put(e, "q");
    struct op op = enqueue_op("q");
    op.enqueue.delay_ms = -1;
    expect_invalid(e, op);
    op = enqueue_op("q");
    op.enqueue.run_at.ms = LIMIT_WALL_MS + 1;
    expect_invalid(e, op);
    op = enqueue_op("q");
    op.enqueue.payload_kind = 9;
    expect_invalid(e, op);
    op = enqueue_op("q");
    op.enqueue.unique_mode = 9;
    expect_invalid(e, op);
    op = enqueue_op("q");
    static const struct job_options bad = {.lease_ms = LIMIT_LEASE_MS + 1};
    op.enqueue.options = &bad;
    expect_invalid(e, op);
    EXPECT_COUNTS("q", .ready = 1);
}

static void invalid_texts(struct env *e)
{
    static char long_text[LIMIT_KEY_BYTES + 1];
    memset(long_text, 'k', sizeof long_text);
    struct op op = enqueue_op("q");
    op.enqueue.extra.unique = span_of(long_text, sizeof long_text);
    expect_invalid(e, op);
    op = enqueue_op("q");
    op.enqueue.extra.group = span_of("a\0b", 3);
    expect_invalid(e, op);
    op = enqueue_op("q");
    op.enqueue.extra.correlation = SPAN_LITERAL("\xff\xfe");
    expect_invalid(e, op);
    expect_invalid(e, enqueue_op(""));
    expect_invalid(e, enqueue_op("a\nb"));
    expect_invalid(e, enqueue_op("-x"));
    op = enqueue_op("x");
    op.enqueue.queue = span_of(long_text, LIMIT_QUEUE_NAME_BYTES + 1);
    expect_invalid(e, op);
    op.enqueue.queue = span_of(long_text, LIMIT_QUEUE_NAME_BYTES);
    EXPECT_OUT(run(e, op), OUT_OK);
}

static void created_flag(struct env *e)
{
    const struct reply *r = run(e, enqueue_op("q"));
    EXPECT(r->created && !r->repeat && !r->relaxed);
    EXPECT_INT(r->state, STATE_READY);
    EXPECT_INT(r->replaced_seq, 0);
    struct op op = enqueue_op("q");
    op.enqueue.delay_ms = 1;
    EXPECT_INT(run(e, op)->state, STATE_SCHEDULED);
    EXPECT_INT(queue_get(e, "q")->counts.enqueued, 2);
}

static void relaxed_is_named(struct env *e)
{
    struct queue_policy p = test_policy();
    p.durability = DURABILITY_RELAXED;
    queue_make(e, "loose", &p);
    const struct reply *r = run(e, enqueue_op("loose"));
    EXPECT_OUT(r, OUT_OK);
    if (backend_caps(e->b) & CAP_DURABLE_REPLY)
        EXPECT(r->relaxed);
    EXPECT(!run(e, enqueue_op("strict"))->relaxed);
}

/* An enqueue that takes the place of a dead job, under a unique key that both have. */
static struct op instead_op(uint64_t seq)
{
    struct op op = enqueue_op("q");
    op.enqueue.instead_of.seq = seq;
    op.enqueue.extra.unique = SPAN_LITERAL("key");
    return op;
}

static uint64_t dead_with_key(struct env *e)
{
    struct queue_policy policy = test_policy();
    policy.max_attempts = 1;
    policy.unique_scope = UNIQUE_KEPT;
    queue_make(e, "q", &policy);
    uint64_t seq = put_unique(e, "q", "key");
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    EXPECT_STATE(seq, STATE_DEAD);
    return seq;
}

static void instead_of_a_dead_job(struct env *e)
{
    uint64_t dead = dead_with_key(e);
    uint64_t fresh = put_op(e, instead_op(dead));
    EXPECT(fresh != dead);
    EXPECT_STATE(dead, STATE_NONE);
    EXPECT_STATE(fresh, STATE_READY);
    EXPECT_COUNTS("q", .ready = 1);
    EXPECT_TEXT(get(e, fresh)->extra.unique, "key");
    EXPECT_INT(get(e, fresh)->job.failures, 0);
    EXPECT_OUT(run(e, instead_op(dead)), OUT_NOT_FOUND);
    const struct reply *r = run(e, instead_op(fresh));
    EXPECT_OUT(r, OUT_ILLEGAL);
    EXPECT_INT(r->state, STATE_READY);
    EXPECT_COUNTS("q", .ready = 1);
}

static void instead_is_all_or_nothing(struct env *e)
{
    uint64_t dead = dead_with_key(e);
    struct queue_policy policy = test_policy();
    policy.unique_scope = UNIQUE_KEPT;
    policy.refuse_new = true;
    queue_make(e, "q", &policy);
    EXPECT_OUT(run(e, instead_op(dead)), OUT_REFUSED_NEW);
    EXPECT_STATE(dead, STATE_DEAD);
    policy.refuse_new = false;
    policy.capacity = 1;
    queue_make(e, "q", &policy);
    uint64_t other = put(e, "q");
    EXPECT_OUT(run(e, instead_op(dead)), OUT_QUEUE_FULL);
    EXPECT_STATE(dead, STATE_DEAD);
    EXPECT_OUT(cancel(e, other), OUT_OK);
    EXPECT_STATE(put_op(e, instead_op(dead)), STATE_READY);
    EXPECT_STATE(dead, STATE_NONE);
}

static void instead_survives(struct env *e)
{
    uint64_t dead = dead_with_key(e);
    uint64_t fresh = put_op(e, instead_op(dead));
    env_restart(e);
    EXPECT_STATE(dead, STATE_NONE);
    EXPECT_STATE(fresh, STATE_READY);
    EXPECT_COUNTS("q", .ready = 1);
}

static const struct conform_case cases[] = {
    CASE("PDQ-11 every field comes back", fields),
    CASE("an id holds time, node and sequence", id_has_time_node_and_sequence),
    CASE("ORC-10 JSON is kept byte for byte", json_bytes),
    CASE("binary payloads with NULs are kept", binary_bytes),
    CASE("empty and absent payloads are distinguished", empty_payloads),
    CASE("a payload at the limit is accepted, one byte more is refused", payload_limit),
    CASE("a payload of 1 MiB", big_payload),
    CASE("an enqueue creates its queue", makes_its_queue),
    CASE("KV-8 a job takes the place of a dead one", instead_of_a_dead_job),
    CASE("KV-8 it takes the place, or nothing changes", instead_is_all_or_nothing),
    CASE("KV-8 the replacement survives a restart", instead_survives, .flags = RESTART),
    CASE("ORC-4 no_create: an unknown queue is refused", no_create),
    CASE("ORC-4 no_auto_create refuses for all", no_auto_create,
         .configure = configure_no_auto_create),
    CASE("queues created by an enqueue get the configured policy", own_default_policy,
         .configure = configure_own_policy),
    CASE("the queue's priority is the default", queue_priority_is_the_default),
    CASE("invalid values are refused with a note", invalid_values),
    CASE("invalid texts are refused with a note", invalid_texts),
    CASE("the reply says that a job is new", created_flag, .flags = EXACT),
    CASE("HF-1 a relaxed queue names it in the reply", relaxed_is_named, .flags = EXACT),
};
TOPIC(topic_enqueue, cases);
