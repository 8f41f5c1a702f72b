/* SPDX-License-Identifier: Apache-2.0 */
/* Members of answers: found by path, of the type asked for, or not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/client/answer.h"

static const char answer[] = "{\"id\":\"A\",\"n\":-5,\"big\":99999999999999999999,\"yes\":true,"
                             "\"no\":false,\"none\":null,\"half\":1.5,\"quoted\":\"a\\n\\u00e9\","
                             "\"lone\":\"\\ud800\",\"list\":[1,{\"id\":\"B\"},[]],"
                             "\"in\":{\"id\":\"C\",\"deep\":{\"x\":7}},\"payload\":{\"state\":1},"
                             "\"state\":\"ready\"}";
static const struct span object = {answer, sizeof answer - 1};

static void text_is(const char *path, const char *expected)
{
    struct arena arena;
    arena_init(&arena);
    struct span text = client_answer_text(object, path, &arena);
    assert_true(span_equal(text, span_text(expected)));
    arena_done(&arena);
}

static void texts_are_found(void **state)
{
    (void)state;
    text_is("id", "A");
    text_is("in.id", "C");
    text_is("n", "-5");
    text_is("yes", "true");
    text_is("quoted", "a\n\xc3\xa9");
    text_is("lone", "\"\\ud800\""); /* no text stands for it: shown as written */
    text_is("state", "ready");      /* not the one inside payload */
    text_is("missing", "");
    text_is("none", "");
    text_is("in", "");
    text_is("list", "");
    text_is("id.x", "");
    text_is("in.id.x", "");
}

static void numbers_are_found(void **state)
{
    (void)state;
    assert_int_equal(client_answer_int(object, "n", 9), -5);
    assert_int_equal(client_answer_int(object, "in.deep.x", 9), 7);
    assert_int_equal(client_answer_int(object, "big", 9), 9);
    assert_int_equal(client_answer_int(object, "half", 9), 9);
    assert_int_equal(client_answer_int(object, "id", 9), 9);
    assert_int_equal(client_answer_int(object, "missing", 9), 9);
    assert_true(client_answer_true(object, "yes"));
    assert_false(client_answer_true(object, "no"));
    assert_false(client_answer_true(object, "missing"));
    assert_false(client_answer_true(object, "id"));
}

static void lists_and_objects_are_walked(void **state)
{
    (void)state;
    struct client_items items;
    struct client_members members;
    struct span item, name;
    struct arena arena;
    arena_init(&arena);
    client_items_of(&items, object, "list");
    assert_true(client_items_next(&items, &item) && span_equal(item, SPAN_LITERAL("1")));
    assert_true(client_items_next(&items, &item) && item.len == sizeof("{\"id\":\"B\"}") - 1);
    assert_true(client_items_next(&items, &item) && span_equal(item, SPAN_LITERAL("[]")));
    assert_false(client_items_next(&items, &item));
    assert_false(client_items_next(&items, &item));
    client_items_of(&items, object, "id");
    assert_false(client_items_next(&items, &item));
    client_items_of(&items, object, "missing");
    assert_false(client_items_next(&items, &item));
    client_members_open(&members, SPAN_LITERAL("{\"a\\u0062\":1,\"c\":[2]}"), &arena);
    assert_true(client_members_next(&members, &name, &item));
    assert_true(span_equal(name, SPAN_LITERAL("ab")) && span_equal(item, SPAN_LITERAL("1")));
    assert_true(client_members_next(&members, &name, &item));
    assert_true(span_equal(item, SPAN_LITERAL("[2]")));
    assert_false(client_members_next(&members, &name, &item));
    arena_done(&arena);
}

/* An answer that breaks off anywhere is never read past its end. */
static void cut_answers_are_harmless(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    for (size_t len = 0; len < sizeof answer - 1; len++) {
        char copy[sizeof answer];
        memcpy(copy, answer, len);
        struct span cut = span_of(copy, len), item;
        struct client_items items;
        (void)client_answer_text(cut, "state", &arena);
        (void)client_answer_int(cut, "in.deep.x", 0);
        client_items_of(&items, cut, "list");
        while (client_items_next(&items, &item))
            continue;
        assert_true(items.over);
    }
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_found),
        cmocka_unit_test(numbers_are_found),
        cmocka_unit_test(lists_and_objects_are_walked),
        cmocka_unit_test(cut_answers_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
