/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: aligned by what is seen, cut where the screen ends, and no forged rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/client/terminal/table.h"

static const struct client_column columns[] = {
    {"NAME", false, 6}, {"N", true, 0}, {"TEXT", false, 0}};

static struct client_table table_of(const char *const *cells, size_t count)
{
    struct client_table t;
    client_table_init(&t, columns, 3);
    for (size_t i = 0; i < count; i++)
        client_table_add(&t, span_text(cells[i]));
    return t;
}

static void prints(const char *const *cells, size_t count, struct client_screen screen,
                   const char *expected)
{
    char *text = NULL;
    size_t len = 0;
    struct client_table t = table_of(cells, count);
    FILE *out = open_memstream(&text, &len);
    assert_int_equal(client_table_print(&t, out, &screen), 0);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
    client_table_done(&t);
}
#define PRINTS(screen, expected, ...)                                                              \
    prints((const char *const[]){__VA_ARGS__},                                                     \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), screen, expected)

static void columns_are_aligned(void **state)
{
    (void)state;
    PRINTS(((struct client_screen){.columns = 0}),
           "NAME      N  TEXT\n"
           "a         5  x\n"
           "\xe6\x97\xa5\xe6\x9c\xac    123\n"
           "longe…   -1  y\n",
           "a", "5", "x", "\xe6\x97\xa5\xe6\x9c\xac", "123", "", "longer name", "-1", "y");
}

static void a_cell_cannot_make_a_row(void **state)
{
    (void)state;
    PRINTS(((struct client_screen){.columns = 0}),
           "NAME  N  TEXT\n"
           "a     1  x\\nb     2  y\\x1b[A\n",
           "a", "1", "x\nb     2  y\033[A");
}

static void the_screen_cuts_the_last_column(void **state)
{
    (void)state;
    PRINTS(((struct client_screen){.terminal = true, .columns = 22}),
           "NAME  N  TEXT\n"
           "a     1  0123456789ab…\n",
           "a", "1", "0123456789abcdefgh");
}

static void titles_are_bold_in_colour(void **state)
{
    (void)state;
    PRINTS(((struct client_screen){.terminal = true, .colour = true}),
           "\033[1mNAME  N  TEXT\033[0m\na     1  x\n", "a", "1", "x");
}

static void a_row_that_is_not_whole_is_left_out(void **state)
{
    (void)state;
    PRINTS(((struct client_screen){.columns = 0}), "NAME  N  TEXT\n", "a", "1");
}

static void a_file_has_no_colour(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    struct client_screen screen = client_screen_of(file);
    assert_false(screen.terminal || screen.colour);
    assert_int_equal(screen.columns, 0);
    fclose(file);
}

/* Whichever allocation fails, the table says so instead of printing half a row. */
static void no_memory_is_reported(void **state)
{
    (void)state;
    static const char *const cells[] = {"a", "1", "x", "b", "2", "y"};
    for (long nth = 1;; nth++) {
        FILE *out = fopen("/dev/null", "w");
        mem_fail_at(nth, 0);
        struct client_table t = table_of(cells, 6);
        int rc = client_table_print(&t, out, &(struct client_screen){.columns = 0});
        long calls = mem_calls();
        mem_fail_at(0, 0);
        client_table_done(&t);
        fclose(out);
        if (calls < nth) {
            assert_int_equal(rc, 0);
            assert_true(nth > 1);
            return;
        }
        assert_int_equal(rc, -ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned),
        cmocka_unit_test(a_cell_cannot_make_a_row),
        cmocka_unit_test(the_screen_cuts_the_last_column),
        cmocka_unit_test(titles_are_bold_in_colour),
        cmocka_unit_test(a_row_that_is_not_whole_is_left_out),
        cmocka_unit_test(a_file_has_no_colour),
        cmocka_unit_test(no_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
