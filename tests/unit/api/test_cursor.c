/* SPDX-License-Identifier: Apache-2.0 */
/* Cursors: each comes back, in its own order only, and nothing else is read. */
#include "unit/base/support.h"

#include "api/cursor.h"
#include "core/limits.h"

static void each_comes_back(void **state)
{
    (void)state;
    static const uint64_t seqs[] = {1, 15, 16, 255, 1u << 20, LIMIT_SEQ - 1, LIMIT_SEQ};
    for (size_t i = 0; i < COUNT_OF(seqs); i++) {
        for (int newest = 0; newest < 2; newest++) {
            char text[CURSOR_TEXT_BYTES];
            uint64_t back;
            cursor_text(seqs[i], newest, text);
            assert_int_equal(cursor_parse(span_text(text), newest, &back), 0);
            assert_int_equal(back, seqs[i]);
            assert_int_equal(cursor_parse(span_text(text), !newest, &back), -ERR_SYNTAX);
        }
    }
}

static void nothing_else_is_read(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "o",
                                      "7",
                                      "o0",
                                      "o01",
                                      "oA",
                                      "og",
                                      "o-1",
                                      " o1",
                                      "o1 ",
                                      "x1",
                                      "o 1",
                                      "o0x1",
                                      "oo",
                                      "o1\n",
                                      "o20000000000000",
                                      "offffffffffffffff",
                                      "o11111111111111111"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        uint64_t seq;
        if (cursor_parse(span_text(bad[i]), false, &seq) != -ERR_SYNTAX)
            fail_msg("%s was read", bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_comes_back),
        cmocka_unit_test(nothing_else_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
