/* SPDX-License-Identifier: Apache-2.0 */
/* The URL of a PostgreSQL store: Holdfast's parameters are removed, the rest goes to libpq, and no
 * note repeats the URL. Also arrays in binary form, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/postgres/connection/args.h"
#include "backend/postgres/connection/url.h"
#include "backend/shared/unit.h"

static void test_our_own_parameters(void **state)
{
    (void)state;
    struct pg_url u;
    struct err_note note = {{0}};
    assert_int_equal(pg_url_parse("//a:b@h:1/d?schema=x_1&sslmode=disable&durability=relaxed"
                                  "&pooler=yes&connect_timeout=3",
                                  &u, &note),
                     0);
    assert_string_equal(u.schema, "x_1");
    assert_true(u.relaxed && u.pooled);
    assert_non_null(
        strstr(u.conninfo, "postgresql://a:b@h:1/d?sslmode=disable&connect_timeout=3&"));
    assert_null(strstr(u.conninfo, "schema"));
    assert_null(strstr(u.conninfo, "connect_timeout=10"));
    assert_non_null(strstr(u.conninfo, "application_name=holdfast"));
    pg_url_done(&u);
}

static void test_defaults(void **state)
{
    (void)state;
    struct pg_url u;
    assert_int_equal(pg_url_parse("//h/d", &u, NULL), 0);
    assert_string_equal(u.schema, "holdfast");
    assert_false(u.relaxed || u.pooled);
    pg_url_done(&u);
}

static void refused(const char *rest, const char *because)
{
    struct pg_url u;
    struct err_note note = {{0}};
    assert_int_equal(pg_url_parse(rest, &u, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, because));
    assert_null(strstr(note.text, "s3cret"));
    assert_null(u.conninfo);
}

static void test_refusals(void **state)
{
    (void)state;
    refused("user:s3cret@host/db", "needs a // after the scheme");
    refused("//u:s3cret@h/d?schema=", "schema in the URL");
    refused("//u:s3cret@h/d?schema=1a", "schema in the URL");
    refused("//u:s3cret@h/d?schema=pg_x", "schema in the URL");
    refused("//u:s3cret@h/d?schema=a\"b", "schema in the URL");
    refused(
        "//u:s3cret@h/d?schema=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "schema in the URL");
    refused("//u:s3cret@h/d?durability=", "durability in the URL");
    refused("//u:s3cret@h/d?pooler=maybe", "pooler in the URL");
    refused("//u:s3cret@h/d?no_such=1", "libpq does not accept the URL");
    refused("//u:s3cret@[h/d", "libpq does not accept the URL");
}

static void test_arrays(void **state)
{
    (void)state;
    struct args a;
    pg_args_init(&a);
    pg_array_begin(&a, ARRAY_I4);
    pg_array_i4(&a, 7);
    pg_array_i4(&a, -1);
    pg_array_end(&a);
    pg_array_begin(&a, ARRAY_TEXT);
    pg_array_bytes(&a, (struct span){NULL, 0});
    pg_array_end(&a);
    pg_array_begin(&a, ARRAY_I8);
    pg_array_end(&a);
    assert_int_equal(a.count, 3);
    assert_false(a.failed);
    static const char two[] = "\0\0\0\1\0\0\0\1\0\0\0\27\0\0\0\2\0\0\0\1"
                              "\0\0\0\4\0\0\0\7\0\0\0\4\377\377\377\377";
    static const char null[] = "\0\0\0\1\0\0\0\1\0\0\0\31\0\0\0\1\0\0\0\1\377\377\377\377";
    static const char none[] = "\0\0\0\0\0\0\0\1\0\0\0\24";
    assert_int_equal(a.length[0], sizeof two - 1);
    assert_memory_equal(a.bytes.data + a.start[0], two, sizeof two - 1);
    assert_int_equal(a.length[1], sizeof null - 1);
    assert_memory_equal(a.bytes.data + a.start[1], null, sizeof null - 1);
    assert_int_equal(a.length[2], sizeof none - 1);
    assert_memory_equal(a.bytes.data + a.start[2], none, sizeof none - 1);
    pg_args_done(&a);
}

static void test_texts_that_the_database_refuses(void **state)
{
    (void)state;
    assert_true(unit_text_safe(SPAN_LITERAL("")) && unit_text_safe(SPAN_LITERAL("ü")));
    assert_false(unit_text_safe(SPAN_LITERAL("\xff")) || unit_text_safe(SPAN_LITERAL("a\0b")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_our_own_parameters),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_texts_that_the_database_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
