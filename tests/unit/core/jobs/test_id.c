/* SPDX-License-Identifier: Apache-2.0 */
/* Job ids: one value, three spellings. */
#include "core/jobs/id.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest/random.h"
#include "core/limits.h"
#include "unit/core/samples.h"

#define SEED 99001

static int parse(const char *text, struct job_ref *ret)
{
    return id_parse(span_text(text), ret);
}

static void test_layout(void **state)
{
    (void)state;
    uint64_t hi = id_hi((struct wall_time){INT64_C(0x0123456789ab)}, 0xcde);
    assert_int_equal(hi, UINT64_C(0x0123456789ab7cde));
    assert_int_equal(id_time(hi).ms, INT64_C(0x0123456789ab));
    assert_int_equal(id_node(hi), 0xcde);
    struct job_id id = id_make(hi, LIMIT_SEQ);
    assert_int_equal(id.hi, hi);
    assert_int_equal(id.lo, UINT64_C(0x801fffffffffffff));
    assert_int_equal(id_seq(id), LIMIT_SEQ);
    assert_int_equal(id_time(id_hi((struct wall_time){LIMIT_WALL_MS}, 0)).ms, LIMIT_WALL_MS);
}

static void test_spellings_of_one_value(void **state)
{
    (void)state;
    char ulid[ID_ULID_BYTES], uuid[ID_UUID_BYTES];
    struct job_id id = id_make(UINT64_C(0x0123456789ab7cde), 1);
    id_ulid(id, ulid);
    id_uuid(id, uuid);
    assert_string_equal(uuid, "01234567-89ab-7cde-8000-000000000001");
    assert_string_equal(ulid, "014D2PF2DBFKF8000000000001");
    struct job_ref ref;
    assert_int_equal(parse(uuid, &ref), 0);
    assert_int_equal(ref.seq, 1);
    assert_int_equal(ref.hi, UINT64_C(0x0123456789ab7cde));
    assert_int_equal(parse(ulid, &ref), 0);
    assert_int_equal(ref.seq, 1);
    assert_int_equal(ref.hi, UINT64_C(0x0123456789ab7cde));
    assert_int_equal(parse("1", &ref), 0);
    assert_int_equal(ref.seq, 1);
    assert_int_equal(ref.hi, 0);
}

static void upper_to_lower(char *text)
{
    for (; *text; text++) {
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text - 'A' + 'a');
    }
}

static void lower_to_upper(char *text)
{
    for (; *text; text++) {
        if (*text >= 'a' && *text <= 'z')
            *text = (char)(*text - 'a' + 'A');
    }
}

static void assert_names(const char *text, uint64_t seq, uint64_t hi)
{
    struct job_ref ref;
    assert_int_equal(parse(text, &ref), 0);
    assert_int_equal(ref.seq, seq);
    assert_int_equal(ref.hi, hi);
}

static void test_spellings_survive(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, SEED);
    print_message("seed %d\n", SEED);
    for (int i = 0; i < 20000; i++) {
        uint64_t seq = 1 + (random_next(&random) >> random_below(&random, 64)) % LIMIT_SEQ;
        uint64_t hi = id_hi((struct wall_time){(int64_t)(random_next(&random) >> 16)},
                            (unsigned)random_below(&random, ID_NODE_MAX + 1));
        struct job_id id = id_make(hi, seq);
        char text[64];
        id_ulid(id, text);
        assert_int_equal(strlen(text), ID_ULID_BYTES - 1);
        assert_names(text, seq, hi);
        upper_to_lower(text);
        assert_names(text, seq, hi);
        id_uuid(id, text);
        assert_int_equal(strlen(text), ID_UUID_BYTES - 1);
        assert_names(text, seq, hi);
        lower_to_upper(text);
        assert_names(text, seq, hi);
        snprintf(text, sizeof text, "%" PRIu64, seq);
        assert_names(text, seq, 0);
    }
}

/* In all three spellings, later ids of one millisecond and node sort after earlier ones. */
static void test_order_of_texts_is_order_of_ids(void **state)
{
    (void)state;
    char a[ID_ULID_BYTES], b[ID_ULID_BYTES], c[ID_UUID_BYTES], d[ID_UUID_BYTES];
    uint64_t early = id_hi((struct wall_time){1700000000000}, 1);
    uint64_t late = id_hi((struct wall_time){1700000000001}, 1);
    for (uint64_t seq = 1; seq < LIMIT_SEQ / 3; seq = seq * 3 + 1) {
        id_ulid(id_make(early, seq), a);
        id_ulid(id_make(early, seq + 1), b);
        assert_true(strcmp(a, b) < 0);
        id_ulid(id_make(late, seq), b);
        assert_true(strcmp(a, b) < 0);
        id_uuid(id_make(early, seq), c);
        id_uuid(id_make(early, seq + 1), d);
        assert_true(strcmp(c, d) < 0);
    }
}

static void test_crockford_look_alikes(void **state)
{
    (void)state;
    assert_names("OI4D2PF2DBFKF8OOOOOOOOOOOL", 1, UINT64_C(0x0123456789ab7cde));
    assert_names("o14d2pf2dbfkf800000000000i", 1, UINT64_C(0x0123456789ab7cde));
    struct job_ref ref;
    assert_int_equal(parse("014D2PF2DBFKF800000000000U", &ref), -ERR_SYNTAX);
}

static void test_integers(void **state)
{
    (void)state;
    struct job_ref ref = {77, 88};
    assert_names("9007199254740991", LIMIT_SEQ, 0);
    assert_int_equal(parse("9007199254740992", &ref), -ERR_RANGE);
    assert_int_equal(parse("0", &ref), -ERR_RANGE);
    assert_int_equal(parse("18446744073709551617", &ref), -ERR_RANGE); /* 2^64 + 1 */
    assert_int_equal(parse("1844674407370955161718446", &ref), -ERR_RANGE);
    assert_int_equal(parse("184467440737095516171844674407370955161718446744073", &ref),
                     -ERR_RANGE);
    assert_int_equal(ref.seq, 77);
    assert_int_equal(ref.hi, 88);
}

static void test_what_is_none_of_the_three(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "-1",
        "+1",
        " 1",
        "1 ",
        "01",
        "00",
        "1e3",
        "0x1",
        "1.0",
        "dlq-001",
        "99999999999999999999x",
        "014D2PF2DBFKF800000000000",   /* 25 */
        "014D2PF2DBFKF80000000000001", /* 27 */
        "014D2PF2DBFKF8000000 00001",  /* 26 with a blank */
        "014D2PF2DBFKF8000000\x80"
        "00001",
        "01234567-89ab-7cde-8000-00000000001", /* 35 */
        "01234567-89ab-7cde-8000-0000000000011",
        "01234567089ab-7cde-8000-000000000001",
        "0123456-789ab-7cde-8000-000000000001",
        "01234567-89ab-7cde-8000-00000000000g",
        "{1234567-89ab-7cde-8000-00000000000}",
    };
    struct job_ref ref = {77, 88};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int err = parse(wrong[i], &ref);
        if (err != -ERR_SYNTAX)
            fail_msg("'%s' gives %d", wrong[i], err);
    }
    /* a NUL inside is no end of text */
    assert_int_equal(id_parse(SPAN_LITERAL("1\0"), &ref), -ERR_SYNTAX);
    assert_int_equal(id_parse(SPAN_LITERAL("014D2PF2DBFKF800000000000\0"), &ref), -ERR_SYNTAX);
    assert_int_equal(id_parse((struct span){NULL, 0}, &ref), -ERR_SYNTAX);
    assert_int_equal(ref.seq, 77);
    assert_int_equal(ref.hi, 88);
}

static void test_values_that_are_no_job_ids(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "01234567-89ab-4cde-8000-000000000001", /* version 4 */
        "01234567-89ab-0cde-8000-000000000001",
        "01234567-89ab-fcde-8000-000000000001",
        "01234567-89ab-7cde-0000-000000000001", /* variants 0, 1, 3 */
        "01234567-89ab-7cde-4000-000000000001",
        "01234567-89ab-7cde-c000-000000000001",
        "01234567-89ab-7cde-8020-000000000001", /* each of the nine zero bits' ends */
        "01234567-89ab-7cde-a000-000000000001",
        "01234567-89ab-7cde-8000-000000000000", /* sequence 0 */
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "814D2PF2DBFKF8000000000001", /* more than 128 bits */
        "Z14D2PF2DBFKF8000000000001",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV", /* a ULID, but not of ours */
        "014D2PF2DBFKF8000000000000", /* sequence 0 */
        "12345678901234567890123456", /* 26 digits are a ULID */
    };
    struct job_ref ref = {77, 88};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int err = parse(wrong[i], &ref);
        if (err != -ERR_RANGE)
            fail_msg("'%s' gives %d", wrong[i], err);
    }
    assert_int_equal(ref.seq, 77);
    assert_int_equal(ref.hi, 88);
}

static void make_too_large(void *ctx)
{
    (void)ctx;
    id_make(0, LIMIT_SEQ + 1);
}

static void node_too_large(void *ctx)
{
    (void)ctx;
    id_hi((struct wall_time){0}, ID_NODE_MAX + 1);
}

static void time_before_the_epoch(void *ctx)
{
    (void)ctx;
    id_hi((struct wall_time){-1}, 0);
}

static void test_misuse_is_an_assertion(void **state)
{
    (void)state;
    assert_true(sample_aborts(make_too_large, NULL));
    assert_true(sample_aborts(node_too_large, NULL));
    assert_true(sample_aborts(time_before_the_epoch, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_spellings_of_one_value),
        cmocka_unit_test(test_spellings_survive),
        cmocka_unit_test(test_order_of_texts_is_order_of_ids),
        cmocka_unit_test(test_crockford_look_alikes),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_what_is_none_of_the_three),
        cmocka_unit_test(test_values_that_are_no_job_ids),
        cmocka_unit_test(test_misuse_is_an_assertion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
