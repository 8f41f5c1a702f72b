/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that the commit gate prefetches: claims find them, and no claim gets a body that is no
 * longer the job's. The store is applied and read at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backend/local/commit_gate.h"
#include "base/check.h"
#include "core/jobs/state.h"

#define JOBS 600

struct rig {
    struct commit_gate *gate;
    struct store *store;
    struct store_reader *reader;
    struct now now;
    uint64_t due; /* position of the last frame */
    unsigned reads;
    bool defer; /* what is read for several jobs waits in: */
    void *late_request;
    struct stored_body *late;
    struct arena late_arena;
    /* of the last reply */
    enum outcome outcome;
    uint64_t seq;
    struct job_token token;
    char payload[32], error[32];
    struct job_options options;
    bool unapplied;                   /* what is submitted stays away from the store's readers */
    const char *read_at, *replied_at; /* the payload of the last reading, and of the last reply */
};

static void frame_cb(void *ctx, struct span frame, uint64_t last)
{
    struct rig *r = ctx;
    struct err_note note = {""};
    assert_int_equal(r->store->ops->apply(r->store, &frame, 1, &note), 0);
    r->due = last;
}

static void keep(char out[32], struct span text)
{
    assert_true(text.len < 32);
    if (text.len)
        memcpy(out, text.at, text.len);
    out[text.len] = '\0';
}

static void reply_cb(void *ctx, backend_reply_fn fn, void *fn_ctx, const struct reply *reply)
{
    struct rig *r = ctx;
    (void)fn, (void)fn_ctx;
    r->outcome = reply->outcome;
    r->seq = reply->seq;
    if (reply_family(reply) != REPLY_JOBS || reply->job_count != 1)
        return;
    r->seq = reply->jobs[0].job.seq;
    r->token = reply->jobs[0].token;
    r->replied_at = reply->jobs[0].payload.at;
    keep(r->payload, reply->jobs[0].payload);
    keep(r->error, reply->jobs[0].error);
    r->options = (struct job_options){0};
    if (reply->jobs[0].extra.options.len)
        assert_int_equal(options_decode(reply->jobs[0].extra.options, &r->options), 0);
}

static void wake_cb(void *ctx, uint32_t queue)
{
    (void)ctx, (void)queue;
}

static void read_cb(void *ctx, void *request, const struct store_query *query)
{
    struct rig *r = ctx;
    struct arena arena;
    arena_init(&arena);
    struct stored_body *bodies = arena_array(&arena, query->count, sizeof *bodies);
    assert_non_null(bodies);
    assert_int_equal(r->reader->ops->read(r->reader, query, &arena, bodies), 0);
    r->reads++;
    r->read_at = bodies[0].payload.at;
    if (r->defer && query->count > 1) {
        r->late_request = request;
        r->late = bodies;
        r->late_arena = arena;
        return;
    }
    gate_bodies(r->gate, request, bodies, NULL, 0, r->now);
    arena_done(&arena);
}

static void ask(struct rig *r, struct op *op)
{
    r->outcome = OUT_UNKNOWN;
    memset(r->payload, 0, sizeof r->payload);
    memset(r->error, 0, sizeof r->error);
    r->now.mono.ms++, r->now.wall.ms++;
    assert_int_equal(gate_submit(r->gate, op, 1, r->now, NULL, NULL), 0);
    if (!r->unapplied)
        gate_applied(r->gate, r->due);
    gate_durable(r->gate, r->due, r->now);
}

static void start_gate(struct rig *r)
{
    struct err_note note = {""};
    struct gate_config config = {.cache_bytes = 1, /* nothing stays longer than it must */
                                 .calls = {r, frame_cb, reply_cb, wake_cb, read_cb}};
    engine_config_default(&config.engine);
    assert_int_equal(gate_new(&config, &r->gate), 0);
    assert_int_equal(engine_load(gate_engine(r->gate), r->store, &note), 0);
    assert_int_equal(gate_boot(r->gate, r->now), 0);
    gate_applied(r->gate, r->due);
    gate_durable(r->gate, r->due, r->now);
}

static int open_rig(void **state)
{
    static struct rig rig;
    struct err_note note = {""};
    rig = (struct rig){.now = {{.ms = 1000}, {.ms = 1700000000000}}};
    assert_int_equal(store_open_memory(7, &rig.store), 0);
    assert_int_equal(rig.store->ops->reader_open(rig.store, &rig.reader, &note), 0);
    start_gate(&rig);
    for (unsigned i = 1; i <= JOBS; i++) {
        char payload[16];
        int len = snprintf(payload, sizeof payload, "%u", i);
        struct op op = {.kind = OP_ENQUEUE,
                        .enqueue = {.queue = SPAN_LITERAL("q"),
                                    .payload_kind = PAYLOAD_JSON,
                                    .payload = span_of(payload, (size_t)len)}};
        ask(&rig, &op);
        assert_int_equal(rig.outcome, OUT_OK);
    }
    rig.reads = 0;
    *state = &rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *r = *state;
    gate_free(r->gate);
    r->reader->ops->close(r->reader);
    r->store->ops->close(r->store);
    return 0;
}

static void claim(struct rig *r)
{
    static const struct span queue = {"q", 1};
    struct op op = {.kind = OP_CLAIM,
                    .claim = {.queues = &queue, .queue_count = 1, .count = 1, .want_body = true}};
    ask(r, &op);
    assert_int_equal(r->outcome, OUT_OK);
}

/* The first claim has to read, and reads for those behind it, too. */
static void test_claims_find_bodies(void **state)
{
    struct rig *r = *state;
    for (unsigned i = 1; i <= JOBS; i++) {
        char payload[16];
        claim(r);
        snprintf(payload, sizeof payload, "%u", i);
        assert_int_equal(r->seq, i);
        assert_string_equal(r->payload, payload);
    }
    assert_in_range(r->reads, 2, 8);
}

/* A job with its own options, as every one of the beanstalk API is, need not be read either. */
static void test_options_stay_at_hand(void **state)
{
    struct rig *r = *state;
    const struct job_options options = {.lease_ms = 4321, .max_attempts = 7};
    r->unapplied = true;
    struct op op = {.kind = OP_ENQUEUE,
                    .enqueue = {.queue = SPAN_LITERAL("q"),
                                .has_priority = true,
                                .priority = 1,
                                .payload_kind = PAYLOAD_JSON,
                                .payload = SPAN_LITERAL("9"),
                                .options = &options}};
    ask(r, &op);
    claim(r);
    assert_int_equal(r->seq, JOBS + 1);
    assert_string_equal(r->payload, "9");
    assert_int_equal(r->options.lease_ms, 4321);
    assert_int_equal(r->options.max_attempts, 7);
    assert_int_equal(r->reads, 0);
}

static void test_patched_payload(void **state)
{
    struct rig *r = *state;
    claim(r);
    struct op op = {.kind = OP_PATCH,
                    .patch = {.job = {.seq = 2},
                              .has_payload = true,
                              .payload_kind = PAYLOAD_JSON,
                              .payload = SPAN_LITERAL("\"new\"")}};
    ask(r, &op);
    assert_int_equal(r->outcome, OUT_OK);
    claim(r);
    assert_int_equal(r->seq, 2);
    assert_string_equal(r->payload, "\"new\"");
}

static void fail_for_good(struct rig *r)
{
    struct op op = {.kind = OP_FAIL,
                    .lease = {.job = {.seq = r->seq},
                              .token = r->token,
                              .no_retry = true,
                              .error = SPAN_LITERAL("broke")}};
    ask(r, &op);
    assert_int_equal(r->outcome, OUT_OK);
}

/* A job that is requeued starts again, but its last error is still shown, also if its payload was
 * prefetched. */
static void test_error_of_a_requeued_job(void **state)
{
    struct rig *r = *state;
    struct op seize = {.kind = OP_CLAIM,
                       .claim = {.one = {.seq = JOBS}, .count = 1, .want_body = true}};
    ask(r, &seize);
    fail_for_good(r);
    struct op requeue = {.kind = OP_REQUEUE, .job = {.job = {.seq = JOBS}}};
    ask(r, &requeue);
    assert_int_equal(r->outcome, OUT_OK);
    for (unsigned i = 1; i < JOBS; i++)
        claim(r);
    assert_int_equal(r->seq, JOBS - 1);
    struct op get = {.kind = OP_GET, .job = {.job = {.seq = JOBS}, .want_body = true}};
    ask(r, &get);
    assert_string_equal(r->error, "broke");
    assert_string_equal(r->payload, "600");
}

/* A job that was patched, and left its place, while its old body was on the way; after a restart no
 * record has touched it before. */
static void test_patched_while_read_after_a_restart(void **state)
{
    struct rig *r = *state;
    gate_free(r->gate);
    start_gate(r);
    r->defer = true;
    claim(r);
    assert_string_equal(r->payload, "1");
    assert_non_null(r->late);
    struct op patch = {.kind = OP_PATCH,
                       .patch = {.job = {.seq = 2},
                                 .has_payload = true,
                                 .payload_kind = PAYLOAD_JSON,
                                 .payload = SPAN_LITERAL("4711"),
                                 .has_run_at = true,
                                 .run_at = {r->now.wall.ms + 50}}};
    ask(r, &patch);
    assert_int_equal(r->outcome, OUT_OK);
    gate_bodies(r->gate, r->late_request, r->late, NULL, 0, r->now);
    arena_done(&r->late_arena);
    r->defer = false;
    r->now.mono.ms += 100, r->now.wall.ms += 100;
    assert_int_equal(gate_tick(r->gate, r->now), 0);
    gate_applied(r->gate, r->due);
    gate_durable(r->gate, r->due, r->now);
    claim(r);
    assert_int_equal(r->seq, 2);
    assert_string_equal(r->payload, "4711");
}

/* Copies would be there for all claims of a turn at the same time. */
static void test_bodies_are_not_copied(void **state)
{
    struct rig *r = *state;
    struct op get = {.kind = OP_GET, .job = {.job = {.seq = JOBS}, .want_body = true}};
    ask(r, &get);
    assert_string_equal(r->payload, "600");
    assert_int_equal(r->reads, 1);
    assert_ptr_equal(r->read_at, r->replied_at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bodies_are_not_copied, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_claims_find_bodies, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_options_stay_at_hand, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_patched_payload, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_error_of_a_requeued_job, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_patched_while_read_after_a_restart, open_rig,
                                        close_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
