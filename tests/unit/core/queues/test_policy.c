/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: defaults, checks, encoding, back-off. */
#include "core/queues/policy.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/queues/policy_fields.h"
#include "unit/core/samples.h"

#define SEED 77001

static void test_defaults(void **state)
{
    (void)state;
    struct queue_policy p;
    memset(&p, 0xee, sizeof p);
    policy_default(&p);
    assert_int_equal(p.lease_ms, 30000);
    assert_int_equal(p.max_attempts, 10);
    assert_int_equal(p.max_crashes, 5);
    assert_int_equal(p.backoff.kind, BACKOFF_EXPONENTIAL);
    assert_int_equal(p.backoff.base_ms, 1000);
    assert_int_equal(p.backoff.max_ms, 3600000);
    assert_int_equal(p.backoff.jitter_percent, 10);
    assert_int_equal(p.lease_end, LEASE_END_REQUEUE);
    assert_int_equal(p.unique_mode, UNIQUE_REJECT);
    assert_int_equal(p.unique_scope, UNIQUE_LIVE);
    assert_int_equal(p.durability, DURABILITY_FSYNC);
    assert_false(p.require_token);
    assert_false(p.refuse_new);
    assert_int_equal(p.priority, 0);
    assert_int_equal(p.capacity, 10000000);
    assert_int_equal(p.payload_max, 1048576);
    assert_int_equal(p.warn_depth, 0);
    assert_int_equal(p.keep_done_ms, INT64_C(86400000));
    assert_int_equal(p.keep_done, 10000);
    assert_int_equal(p.keep_dead_ms, INT64_C(30) * 86400000);
    assert_int_equal(p.keep_dead, 100000);
    assert_int_equal(policy_check(&p, NULL), 0);
}

/* ---- checks ---- */

#define REFUSED(field, value, named)                                                               \
    do {                                                                                           \
        struct queue_policy p;                                                                     \
        struct err_note note = {""};                                                               \
        policy_default(&p);                                                                        \
        p.field = (value);                                                                         \
        assert_int_equal(policy_check(&p, &note), -ERR_INVALID);                                   \
        if (!strstr(note.text, named))                                                             \
            fail_msg("the note does not name %s: %s", named, note.text);                           \
        assert_int_equal(policy_check(&p, NULL), -ERR_INVALID);                                    \
    } while (0)

#define ACCEPTED(field, value)                                                                     \
    do {                                                                                           \
        struct queue_policy p;                                                                     \
        policy_default(&p);                                                                        \
        p.field = (value);                                                                         \
        assert_int_equal(policy_check(&p, NULL), 0);                                               \
    } while (0)

static void test_policy_check(void **state)
{
    (void)state;
    REFUSED(lease_ms, LIMIT_LEASE_MS_MIN - 1, "lease_ms is 99; it must be from 100 to 86400000");
    ACCEPTED(lease_ms, LIMIT_LEASE_MS_MIN);
    ACCEPTED(lease_ms, LIMIT_LEASE_MS);
    REFUSED(lease_ms, LIMIT_LEASE_MS + 1, "lease_ms");
    REFUSED(max_attempts, 0, "max_attempts is 0; it must be from 1 to 60000");
    ACCEPTED(max_attempts, 1);
    ACCEPTED(max_attempts, LIMIT_ATTEMPTS);
    REFUSED(max_attempts, LIMIT_ATTEMPTS + 1, "max_attempts");
    ACCEPTED(max_crashes, 0);
    REFUSED(max_crashes, LIMIT_ATTEMPTS + 1, "max_crashes");
    REFUSED(lease_end, LEASE_END_FAIL + 1, "lease_end");
    REFUSED(unique_mode, UNIQUE_QUEUE_DEFAULT, "unique_mode");
    REFUSED(unique_mode, UNIQUE_REPLACE + 1, "unique_mode");
    ACCEPTED(unique_scope, UNIQUE_NONE);
    REFUSED(unique_scope, UNIQUE_NONE + 1, "unique_scope");
    REFUSED(durability, DURABILITY_RELAXED + 1, "durability");
    REFUSED(capacity, 0, "capacity is 0; it must be 1 or more");
    ACCEPTED(capacity, UINT64_MAX);
    REFUSED(payload_max, LIMIT_PAYLOAD_BYTES + 1, "payload_max");
    ACCEPTED(payload_max, LIMIT_PAYLOAD_BYTES);
    REFUSED(keep_done_ms, -1, "keep_done_ms is -1; it must be 0 or more");
    ACCEPTED(keep_done_ms, INT64_MAX);
    REFUSED(keep_dead_ms, INT64_MIN, "keep_dead_ms");
    ACCEPTED(keep_dead, UINT64_MAX);
    ACCEPTED(priority, INT64_MIN);
}

#define RATE(per, count, window) ((struct rate_limit){per, count, window})

static void test_rate_check(void **state)
{
    (void)state;
    ACCEPTED(enqueue_rate, RATE(RATE_CORRELATION, LIMIT_RATE_COUNT, LIMIT_RATE_WINDOW_MS));
    ACCEPTED(enqueue_rate, RATE(RATE_QUEUE, 1, 1));
    ACCEPTED(enqueue_rate, RATE(RATE_GROUP, 0, 0)); /* none */
    REFUSED(enqueue_rate, RATE(RATE_CORRELATION + 1, 1, 1), "enqueue_rate.per");
    REFUSED(enqueue_rate, RATE(RATE_QUEUE, LIMIT_RATE_COUNT + 1, 1), "enqueue_rate.count");
    REFUSED(enqueue_rate, RATE(RATE_QUEUE, 1, 0), "enqueue_rate.window_ms is 0; it must be from 1");
    REFUSED(enqueue_rate, RATE(RATE_QUEUE, 1, LIMIT_RATE_WINDOW_MS + 1), "enqueue_rate.window_ms");
}

/* ---- the table ---- */

static void test_rows_fit_their_members(void **state)
{
    (void)state;
    struct queue_policy standard;
    policy_default(&standard);
    for (size_t i = 0; i < POLICY_FIELDS; i++) {
        const struct policy_field *f = &policy_fields[i];
        struct queue_policy p = standard;
        uint8_t last = i > 0 ? policy_fields[i - 1].tag : 0;
        if (f->tag <= last || f->tag > 127)
            fail_msg("the tag of %s is %u, behind %u", f->name, f->tag, last);
        if (f->kind == POLICY_BACKOFF || f->kind == POLICY_RATE)
            continue;
        int64_t bounds[] = {f->min, f->max};
        for (size_t b = 0; b < 2; b++) {
            policy_number_set(f, &p, bounds[b]);
            if (policy_number(f, &p) != bounds[b] || policy_check(&p, NULL) != 0)
                fail_msg("%s cannot be %" PRId64, f->name, bounds[b]);
        }
        if (f->kind == POLICY_WORD && f->max - f->min + 1 != policy_word_count(f->value))
            fail_msg("%s has not a word for each value", f->name);
        if (policy_unlimited(f) && !strchr(f->value, '|'))
            fail_msg("%s has no word for no limit", f->name);
    }
}

static void test_words(void **state)
{
    (void)state;
    assert_int_equal(policy_word_count("live|kept|none"), 3);
    assert_int_equal(policy_word_count(""), 0);
    assert_true(span_equal(policy_word("live|kept|none", 1), SPAN_LITERAL("kept")));
    assert_int_equal(policy_word("live|kept", 2).len, 0);
    assert_int_equal(policy_word("live|kept", 9).len, 0);
    assert_int_equal(policy_word_find("live|kept|none", SPAN_LITERAL("none")), 2);
    assert_int_equal(policy_word_find("live|kept", SPAN_LITERAL("liv")), -1);
    assert_int_equal(policy_word_find("live|kept", SPAN_LITERAL("")), -1);
}

static void test_backoff_check(void **state)
{
    (void)state;
    REFUSED(backoff.kind, BACKOFF_LIST + 1, "backoff.kind");
    REFUSED(backoff.jitter_percent, 101, "backoff.jitter_percent");
    ACCEPTED(backoff.jitter_percent, 100);
    REFUSED(backoff.base_ms, 3600001, "backoff.base_ms is 3600001");
    ACCEPTED(backoff.base_ms, 3600000);
    REFUSED(backoff.max_ms, LIMIT_BACKOFF_MS + 1, "backoff.max_ms");
    ACCEPTED(backoff.max_ms, LIMIT_BACKOFF_MS);
    REFUSED(backoff.step_count, LIMIT_BACKOFF_STEPS + 1, "back-off steps");
    struct queue_policy p;
    policy_default(&p);
    p.backoff = (struct backoff){.kind = BACKOFF_LIST, .step_count = 2};
    p.backoff.step_ms[1] = LIMIT_BACKOFF_MS;
    assert_int_equal(policy_check(&p, NULL), 0);
    p.backoff.step_ms[1] = LIMIT_BACKOFF_MS + 1;
    assert_int_equal(policy_check(&p, NULL), -ERR_INVALID);
    p.backoff.step_count = 1; /* steps past the end are not looked at */
    assert_int_equal(policy_check(&p, NULL), 0);
}

static void test_options_check(void **state)
{
    (void)state;
    struct job_options o = {0};
    struct err_note note;
    assert_int_equal(options_check(&o, NULL), 0);
    assert_true(options_empty(&o));
    o.lease_ms = LIMIT_LEASE_MS_MIN - 1;
    assert_int_equal(options_check(&o, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, "lease_ms"));
    o.lease_ms = LIMIT_LEASE_MS_MIN;
    assert_int_equal(options_check(&o, NULL), 0);
    assert_false(options_empty(&o));
    o = (struct job_options){.max_attempts = LIMIT_ATTEMPTS + 1};
    assert_int_equal(options_check(&o, NULL), -ERR_INVALID);
    o = (struct job_options){.max_crashes = LIMIT_ATTEMPTS + 1};
    assert_int_equal(options_check(&o, NULL), -ERR_INVALID);
    o = (struct job_options){.backoff = {.kind = 9}}; /* not its own */
    assert_int_equal(options_check(&o, NULL), 0);
    assert_true(options_empty(&o));
    o.has_backoff = true;
    assert_int_equal(options_check(&o, NULL), -ERR_INVALID);
    assert_false(options_empty(&o));
    assert_false(options_empty(&(struct job_options){.max_attempts = 1}));
    assert_false(options_empty(&(struct job_options){.max_crashes = 1}));
}

/* ---- encoding ---- */

static bool backoff_equal(const struct backoff *a, const struct backoff *b)
{
    return a->kind == b->kind && a->jitter_percent == b->jitter_percent &&
           a->step_count == b->step_count && a->base_ms == b->base_ms && a->max_ms == b->max_ms &&
           memcmp(a->step_ms, b->step_ms, sizeof a->step_ms) == 0;
}

static bool member_equal(const struct policy_field *f, const struct queue_policy *a,
                         const struct queue_policy *b)
{
    if (f->kind == POLICY_BACKOFF)
        return backoff_equal(policy_backoff(f, a), policy_backoff(f, b));
    if (f->kind != POLICY_RATE)
        return policy_number(f, a) == policy_number(f, b);
    const struct rate_limit *x = policy_rate(f, a), *y = policy_rate(f, b);
    return x->per == y->per && x->count == y->count && x->window_ms == y->window_ms;
}

static bool policy_equal(const struct queue_policy *a, const struct queue_policy *b)
{
    for (size_t i = 0; i < POLICY_FIELDS; i++) {
        if (!member_equal(&policy_fields[i], a, b))
            return false;
    }
    return true;
}

static bool options_equal(const struct job_options *a, const struct job_options *b)
{
    return a->max_attempts == b->max_attempts && a->max_crashes == b->max_crashes &&
           a->lease_ms == b->lease_ms && a->has_backoff == b->has_backoff &&
           backoff_equal(&a->backoff, &b->backoff);
}

static void test_policies_survive_encoding(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, SEED);
    print_message("seed %d\n", SEED);
    struct buf b;
    buf_init(&b);
    for (int i = 0; i < 5000; i++) {
        struct queue_policy p, again;
        sample_policy(&random, &p);
        assert_int_equal(policy_check(&p, NULL), 0);
        buf_clear(&b);
        assert_int_equal(policy_encode(&p, &b), 0);
        assert_in_range(b.len, 1, POLICY_BYTES_MAX);
        assert_int_equal(policy_decode(buf_span(&b), &again), 0);
        assert_true(policy_equal(&p, &again));
        for (size_t len = 0; len < b.len; len++)
            assert_int_equal(policy_decode(span_of(b.data, len), &again), -ERR_CORRUPT);
        assert_int_equal(buf_append(&b, "", 1), 0);
        assert_int_equal(policy_decode(buf_span(&b), &again), -ERR_CORRUPT);
    }
    buf_done(&b);
}

static void test_options_survive_encoding(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, SEED + 1);
    struct buf b;
    buf_init(&b);
    for (int i = 0; i < 5000; i++) {
        struct job_options o, again;
        sample_options(&random, &o);
        buf_clear(&b);
        assert_int_equal(options_encode(&o, &b), 0);
        assert_int_equal(options_decode(buf_span(&b), &again), 0);
        assert_true(options_equal(&o, &again));
        for (size_t len = 0; len < b.len; len++)
            assert_int_equal(options_decode(span_of(b.data, len), &again), -ERR_CORRUPT);
        assert_int_equal(buf_append(&b, "", 1), 0);
        assert_int_equal(options_decode(buf_span(&b), &again), -ERR_CORRUPT);
    }
    buf_done(&b);
}

/* What decodes at all encodes to the same bytes again. */
static void test_one_encoding_for_each_policy(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, SEED + 2);
    struct buf b, again;
    buf_init(&b);
    buf_init(&again);
    size_t decoded = 0;
    for (int i = 0; i < 20000; i++) {
        struct queue_policy p;
        sample_policy(&random, &p);
        buf_clear(&b);
        assert_int_equal(policy_encode(&p, &b), 0);
        b.data[random_below(&random, b.len)] = (char)random_next(&random);
        if (policy_decode(buf_span(&b), &p) < 0)
            continue;
        decoded++;
        buf_clear(&again);
        assert_int_equal(policy_encode(&p, &again), 0);
        assert_true(span_equal(buf_span(&b), buf_span(&again)));
    }
    assert_true(decoded > 1000);
    buf_done(&b);
    buf_done(&again);
}

/* On disk: these bytes must stay readable for ever. */
static void test_encodings_are_pinned(void **state)
{
    (void)state;
    static const char default_policy[] =
        "\x03\x0c\x01\xb0\xea\x01\x02\x0a\x03\x05\x04\x00\x0a\xe8\x07\x80\xdd\xdb\x01\x00"
        "\x06\x01\x0c\x80\xad\xe2\x04\x0d\x80\x80\x40\x0f\x80\xb8\x99\x29\x10\x90\x4e"
        "\x11\x80\x90\xfb\xd3\x09\x12\xa0\x8d\x06\x16\xb0\xea\x01";
    struct queue_policy p, decoded;
    struct buf b;
    buf_init(&b);
    policy_default(&p);
    assert_int_equal(policy_encode(&p, &b), 0);
    assert_int_equal(b.len, sizeof default_policy - 1);
    assert_memory_equal(b.data, default_policy, b.len);
    assert_int_equal(policy_decode(buf_span(&b), &decoded), 0);
    assert_true(policy_equal(&p, &decoded));
    /* A member that is not zero adds its tag and its value. */
    size_t plain = b.len;
    p.ranked = true;
    p.enqueue_rate = RATE(RATE_GROUP, 5, 1000);
    buf_clear(&b);
    assert_int_equal(policy_encode(&p, &b), 0);
    assert_int_equal(b.len, plain + 2 + 5);
    assert_memory_equal(b.data + plain - 4, "\x13\x01\x14\x01\x05\xe8\x07\x16", 8);
    assert_int_equal(policy_decode(buf_span(&b), &decoded), 0);
    assert_true(policy_equal(&p, &decoded));

    static const char some_options[] =
        "\x01\x03\x00\x90\x4e\x00\x01\x01\x00\x00\x00\x02\xe8\x07\x88\x27";
    struct job_options o = {
        .max_attempts = 3,
        .lease_ms = 10000,
        .has_backoff = true,
        .backoff = {.kind = BACKOFF_LIST, .step_count = 2, .step_ms = {1000, 5000}},
    };
    buf_clear(&b);
    assert_int_equal(options_encode(&o, &b), 0);
    assert_int_equal(b.len, sizeof some_options - 1);
    assert_memory_equal(b.data, some_options, b.len);
    buf_done(&b);
}

/* A version, the number of members, then tags and values: what is not written that way is damage.
 */
static void test_decoding_is_strict(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "\x02\x02\x01\x64\x02\x01",         /* another version */
        "\x03\x03\x01\x64\x02\x01",         /* fewer members than it says */
        "\x03\x01\x01\x64\x02\x01",         /* more */
        "\x03\x02\x02\x01\x01\x64",         /* in another order */
        "\x03\x03\x01\x64\x01\x64\x02\x01", /* one twice */
        "\x03\x03\x01\x64\x02\x01\x7f\x01", /* one that is not known */
        "\x03\x02\x01\x63\x02\x01",         /* below the least value */
    };
    /* The shortest policy: a lease, one attempt, a unique mode, and room for one job. */
    static const char right[] = "\x03\x04\x01\x64\x02\x01\x06\x01\x0c\x01";
    struct queue_policy p;
    assert_int_equal(policy_decode(span_of(right, sizeof right - 1), &p), 0);
    assert_int_equal(p.lease_ms, 100);
    assert_int_equal(p.capacity, 1);
    assert_int_equal(p.backoff.max_ms, 0);
    char zero[] = "\x03\x05\x01\x64\x02\x01\x06\x01\x0c\x01\x0e\x00"; /* zero is not written */
    assert_int_equal(policy_decode(span_of(zero, sizeof zero - 1), &p), -ERR_CORRUPT);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[32];
        /* The rest of what makes it valid but for the one thing. */
        snprintf(text, sizeof text, "%s\x06\x01\x0c\x01", wrong[i]);
        text[1] = (char)(text[1] + 2);
        assert_int_equal(policy_decode(span_text(text), &p), -ERR_CORRUPT);
    }
}

static void test_decoding_leaves_the_result_alone_on_failure(void **state)
{
    (void)state;
    struct queue_policy p, before;
    policy_default(&p);
    before = p;
    assert_int_equal(policy_decode(SPAN_LITERAL("\x02\x00"), &p), -ERR_CORRUPT);
    assert_int_equal(policy_decode((struct span){NULL, 0}, &p), -ERR_CORRUPT);
    assert_memory_equal(&p, &before, sizeof p);
}

static void encode_bad_policy(void *ctx)
{
    struct queue_policy p;
    policy_default(&p);
    p.max_attempts = 0;
    int err = policy_encode(&p, ctx);
    (void)err;
}

static void encode_bad_options(void *ctx)
{
    struct job_options o = {.lease_ms = 1};
    int err = options_encode(&o, ctx);
    (void)err;
}

static void test_encoding_asserts_the_check(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b);
    assert_true(sample_aborts(encode_bad_policy, &b));
    assert_true(sample_aborts(encode_bad_options, &b));
    buf_done(&b);
}

static void test_without_memory_nothing_changes(void **state)
{
    (void)state;
    struct queue_policy p;
    struct job_options o = {.lease_ms = 5000};
    struct buf b;
    policy_default(&p);
    buf_init(&b);
    mem_fail_at(1, 1);
    assert_int_equal(policy_encode(&p, &b), -ERR_NOMEM);
    assert_int_equal(options_encode(&o, &b), -ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(b.len, 0);
    assert_int_equal(buf_reserve(&b, POLICY_BYTES_MAX), 0);
    mem_fail_at(1, 1);
    assert_int_equal(policy_encode(&p, &b), 0);
    mem_fail_at(0, 0);
    buf_done(&b);
}

/* ---- back-off ---- */

static void test_list_is_exact_and_repeats_its_last(void **state)
{
    (void)state;
    struct backoff b = {.kind = BACKOFF_LIST,
                        .jitter_percent = 100, /* not used by lists */
                        .base_ms = 7,
                        .step_count = 3,
                        .step_ms = {1000, 5000, 10000}};
    assert_int_equal(backoff_wait_ms(&b, 0, NULL), 1000); /* before the first: as the first */
    assert_int_equal(backoff_wait_ms(&b, 1, NULL), 1000);
    assert_int_equal(backoff_wait_ms(&b, 2, NULL), 5000);
    assert_int_equal(backoff_wait_ms(&b, 3, NULL), 10000);
    assert_int_equal(backoff_wait_ms(&b, 4, NULL), 10000);
    assert_int_equal(backoff_wait_ms(&b, UINT32_MAX, NULL), 10000);
    b.step_count = 0;
    assert_int_equal(backoff_wait_ms(&b, 1, NULL), 0);
}

static void test_exponential_doubles_up_to_its_cap(void **state)
{
    (void)state;
    struct backoff b = {.kind = BACKOFF_EXPONENTIAL, .base_ms = 1000, .max_ms = 3600000};
    for (uint32_t n = 1; n <= 12; n++)
        assert_int_equal(backoff_wait_ms(&b, n, NULL), INT64_C(1000) << (n - 1));
    assert_int_equal(backoff_wait_ms(&b, 13, NULL), 3600000);
    for (uint32_t n = 14; n < 200; n++)
        assert_int_equal(backoff_wait_ms(&b, n, NULL), 3600000);
    assert_int_equal(backoff_wait_ms(&b, UINT32_MAX, NULL), 3600000);
    b.max_ms = UINT32_MAX;
    b.base_ms = 1;
    assert_int_equal(backoff_wait_ms(&b, 32, NULL), INT64_C(1) << 31);
    assert_int_equal(backoff_wait_ms(&b, 33, NULL), UINT32_MAX);
    b.base_ms = 0;
    assert_int_equal(backoff_wait_ms(&b, 1, NULL), 0);
    assert_int_equal(backoff_wait_ms(&b, 50, NULL), 0);
}

static void test_jitter_stays_within_its_percentage(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, SEED + 3);
    struct backoff b = {
        .kind = BACKOFF_EXPONENTIAL, .jitter_percent = 10, .base_ms = 1000, .max_ms = 4000};
    int64_t low = INT64_MAX, high = 0, sum = 0;
    for (int i = 0; i < 20000; i++) {
        int64_t wait = backoff_wait_ms(&b, 9, &random); /* at the cap; jitter comes after it */
        assert_true(wait >= 3600 && wait <= 4400);
        low = wait < low ? wait : low;
        high = wait > high ? wait : high;
        sum += wait;
    }
    assert_true(low <= 3605 && high >= 4395); /* the whole range is used */
    assert_in_range(sum / 20000, 3980, 4020);
    b.jitter_percent = 100;
    for (int i = 0; i < 20000; i++) {
        int64_t wait = backoff_wait_ms(&b, 1, &random);
        assert_true(wait >= 0 && wait <= 2000);
    }
    b.jitter_percent = 255; /* never checked: still no negative wait */
    for (int i = 0; i < 1000; i++)
        assert_true(backoff_wait_ms(&b, 1, &random) >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_policy_check),
        cmocka_unit_test(test_rate_check),
        cmocka_unit_test(test_rows_fit_their_members),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_backoff_check),
        cmocka_unit_test(test_options_check),
        cmocka_unit_test(test_policies_survive_encoding),
        cmocka_unit_test(test_options_survive_encoding),
        cmocka_unit_test(test_one_encoding_for_each_policy),
        cmocka_unit_test(test_encodings_are_pinned),
        cmocka_unit_test(test_decoding_is_strict),
        cmocka_unit_test(test_decoding_leaves_the_result_alone_on_failure),
        cmocka_unit_test(test_encoding_asserts_the_check),
        cmocka_unit_test(test_without_memory_nothing_changes),
        cmocka_unit_test(test_list_is_exact_and_repeats_its_last),
        cmocka_unit_test(test_exponential_doubles_up_to_its_cap),
        cmocka_unit_test(test_jitter_stays_within_its_percentage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
