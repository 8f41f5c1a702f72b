/* SPDX-License-Identifier: Apache-2.0 */
/* The URL of a Redis store: every part is found, and no note repeats the URL. Also commands in the
 * form of the protocol. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/redis/connection/args.h"
#include "backend/redis/connection/url.h"

static struct redis_url parsed(const char *rest, bool tls)
{
    struct redis_url u;
    struct err_note note = {{0}};
    int err = redis_url_parse(rest, tls, &u, &note);
    if (err)
        print_error("%s: %s\n", rest, note.text);
    assert_int_equal(err, 0);
    return u;
}

static void test_all_parts(void **state)
{
    (void)state;
    struct redis_url u = parsed("//a%40b:p%3Aw@[::1]:7000/3?prefix=x:&durability=relaxed", false);
    assert_string_equal(u.user, "a@b");
    assert_string_equal(u.password, "p:w");
    assert_string_equal(u.host, "::1");
    assert_string_equal(u.port, "7000");
    assert_int_equal(u.database, 3);
    assert_string_equal(u.prefix, "x:");
    assert_int_equal(u.durability, REDIS_RELAXED);
    u = parsed("//:secret@h/", false);
    assert_string_equal(u.user, "");
    assert_string_equal(u.password, "secret");
    u = parsed("//h:1?ca=%2Fa%20b.pem&cert=c&key=k", true);
    assert_true(u.tls);
    assert_string_equal(u.ca, "/a b.pem");
    assert_string_equal(u.key, "k");
}

static void test_defaults(void **state)
{
    (void)state;
    struct redis_url u = parsed("//", false);
    assert_string_equal(u.host, "127.0.0.1");
    assert_string_equal(u.port, "6379");
    assert_int_equal(u.database, 0);
    assert_string_equal(u.prefix, "{holdfast}:");
    assert_string_equal(u.user, "");
    assert_string_equal(u.password, "");
    assert_int_equal(u.durability, REDIS_ASKED);
    u = parsed("///5?socket=/run/redis.sock", false);
    assert_string_equal(u.socket, "/run/redis.sock");
    assert_int_equal(u.database, 5);
}

static void refused(const char *rest, bool tls, const char *because)
{
    struct redis_url u;
    struct err_note note = {{0}};
    assert_int_equal(redis_url_parse(rest, tls, &u, &note), -ERR_INVALID);
    if (!strstr(note.text, because))
        print_error("%s: %s\n", rest, note.text);
    assert_non_null(strstr(note.text, because));
    assert_null(strstr(note.text, "s3cret"));
}

static void test_refusals(void **state)
{
    (void)state;
    refused("u:s3cret@h", false, "needs a // after the scheme");
    refused("//u:s3cret@h:0/0", false, "malformed");
    refused("//u:s3cret@h:70000", false, "malformed");
    refused("//u:s3cret@h:6379x", false, "malformed");
    refused("//u:s3cret%4@h", false, "malformed");
    refused("//u:s3cret%00@h", false, "malformed");
    refused("//s3cret@h", false, "malformed"); /* a user without a password */
    refused("//[::1", false, "malformed");
    refused("//u:s3cret@h/one", false, "database");
    refused("//u:s3cret@h/-1", false, "database");
    refused("//u:s3cret@h/65536", false, "database");
    refused("//h?prefix=", false, "prefix in the URL");
    refused("//h?prefix=a%20b", false, "prefix in the URL");
    refused("//h?durability=s3cret", false, "fsync or relaxed");
    refused("//h?s3cret=1", false, "unknown parameter");
    refused("//h?socket=relative", false, "absolute path");
    refused("//h?ca=x", false, "rediss://");
    refused("//h?cert=x", true, "given together");
    refused("//h?socket=/x", true, "has no TLS");
}

static void test_commands(void **state)
{
    (void)state;
    struct rargs a;
    redis_args_init(&a);
    redis_args_text(&a, "SET");
    redis_args_bytes(&a, SPAN_LITERAL("a\0b"));
    redis_args_int(&a, INT64_MIN);
    redis_args_int(&a, 0);
    redis_args_seq(&a, 258);
    static const char body[] =
        "$3\r\nSET\r\n$3\r\na\0b\r\n$20\r\n-9223372036854775808\r\n$1\r\n0\r\n"
        "$8\r\n\0\0\0\0\0\0\1\2\r\n";
    assert_int_equal(a.count, 5);
    assert_int_equal(a.body.len, sizeof body - 1);
    assert_memory_equal(a.body.data, body, sizeof body - 1);
    redis_args_done(&a);
}

static void test_lists_know_their_length(void **state)
{
    (void)state;
    struct rargs a;
    redis_args_init(&a);
    redis_args_list_begin(&a);
    for (int i = 0; i < 12; i++)
        redis_args_text(&a, "x");
    assert_int_equal(redis_args_list_end(&a), 12);
    assert_memory_equal(a.body.data, "$8\r\n00000012\r\n$1\r\nx\r\n", 21);
    struct rargs_mark mark = redis_args_mark(&a);
    redis_args_text(&a, "too much");
    redis_args_undo(&a, mark);
    assert_int_equal(a.count, 13);
    redis_args_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_parts),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_lists_know_their_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
