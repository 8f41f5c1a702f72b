/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: names, lists, and the index with which limits are kept. */
#include "core/jobs/steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct hash_key key = {1, 2};

static void add(struct buf *list, const char *name, const char *result)
{
    struct step s = {span_text(name), span_text(result)};
    assert_int_equal(steps_append(list, &s), 0);
}

static void put(struct buf *list, const char *name, const char *result)
{
    struct step s = {span_text(name), span_text(result)};
    assert_int_equal(steps_put(list, &s), 0);
}

static void expect(struct span list, const char *want)
{
    char text[200] = "";
    struct step s;
    while (steps_next(&list, &s))
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s=%.*s ", (int)s.name.len,
                 s.name.at, (int)s.result.len, s.result.at);
    assert_int_equal(list.len, 0);
    assert_string_equal(text, want);
}

static void names(void **state)
{
    (void)state;
    char wide[LIMIT_STEP_NAME_BYTES + 1];
    struct err_note note;
    memset(wide, 'n', sizeof wide);
    assert_int_equal(step_name_check(SPAN_LITERAL("mail 7/\xc3\xbc"), &note), 0);
    assert_int_equal(step_name_check(span_of(wide, LIMIT_STEP_NAME_BYTES), &note), 0);
    const struct span bad[] = {SPAN_LITERAL(""),     span_of(wide, sizeof wide),
                               SPAN_LITERAL("a\nb"), SPAN_LITERAL("a\x7f"),
                               SPAN_LITERAL("\xff"), span_of("a\0b", 3)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(step_name_check(bad[i], &note), -ERR_INVALID);
}

static void put_orders_and_replaces(void **state)
{
    (void)state;
    struct buf list;
    buf_init(&list);
    put(&list, "b", "1");
    put(&list, "a", "2");
    put(&list, "c", "3");
    expect(buf_span(&list), "a=2 b=1 c=3 ");
    put(&list, "b", "\"longer\"");
    put(&list, "c", "4");
    put(&list, "a", "5");
    put(&list, "aa", "6");
    expect(buf_span(&list), "a=5 aa=6 b=\"longer\" c=4 ");
    assert_int_equal(steps_count(buf_span(&list)), 4);
    buf_done(&list);
}

static void lists_are_checked(void **state)
{
    (void)state;
    struct buf list;
    struct err_note note;
    buf_init(&list);
    assert_false(steps_fit(buf_span(&list)));
    assert_int_equal(steps_check(buf_span(&list), &note), 0);
    add(&list, "a", "[1]");
    assert_true(steps_fit(buf_span(&list)));
    assert_int_equal(steps_check(buf_span(&list), &note), 0);
    for (size_t len = 1; len < list.len; len++)
        assert_false(steps_fit(span_of(list.data, len)));
    add(&list, "b", "{");
    assert_true(steps_fit(buf_span(&list)));
    assert_int_equal(steps_check(buf_span(&list), &note), -ERR_INVALID);
    buf_clear(&list);
    add(&list, "a", "");
    assert_false(steps_fit(buf_span(&list)));
    buf_clear(&list);
    for (int i = 0; i <= LIMIT_STEPS; i++) {
        assert_true(i == 0 || steps_fit(buf_span(&list)));
        add(&list, "a", "1");
    }
    assert_false(steps_fit(buf_span(&list)));
    buf_done(&list);
}

static void index_counts(void **state)
{
    (void)state;
    char index[4 * STEP_INDEX_BYTES];
    struct buf list;
    buf_init(&list);
    add(&list, "a", "1");
    add(&list, "bb", "22");
    add(&list, "a", "333");
    size_t len = steps_index_add(index, 0, key, buf_span(&list));
    assert_int_equal(len, 2 * STEP_INDEX_BYTES);
    assert_true(steps_index_fits(span_of(index, len)));
    assert_false(steps_index_fits(span_of(index, len - 1)));
    assert_int_equal(steps_bytes(span_of(index, len)), 8);
    struct steps_use use = steps_use_without(span_of(index, len), key, SPAN_LITERAL("a"));
    assert_int_equal(use.count, 1);
    assert_int_equal(use.bytes, 4);
    use = steps_use_without(span_of(index, len), key, SPAN_LITERAL("c"));
    assert_int_equal(use.count, 2);
    assert_int_equal(use.bytes, 8);
    len = steps_index_put(index, len, key, SPAN_LITERAL("bb"), 10);
    assert_int_equal(len, 2 * STEP_INDEX_BYTES);
    assert_int_equal(steps_bytes(span_of(index, len)), 16);
    buf_done(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(put_orders_and_replaces),
        cmocka_unit_test(lists_are_checked),
        cmocka_unit_test(index_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
