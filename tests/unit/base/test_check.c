/* SPDX-License-Identifier: Apache-2.0 */
/* Programming errors end the process: a child process commits each of them, and must abort. */
#include "unit/base/support.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/containers/heap.h"
#include "base/containers/map.h"
#include "base/containers/slab.h"
#include "base/json/json.h"

static void assert_aborts(void (*mistake)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        mistake();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void put_without_room(void)
{
    struct buf b;
    buf_init(&b);
    buf_put_u32(&b, 1);
}

static void heap_at_past_the_end(void)
{
    struct heap h;
    heap_init(&h);
    heap_at(&h, 0);
}

static void map_of_zero(void)
{
    struct map128 m;
    map128_init(&m);
    (void)!map128_put(&m, (struct hash128){1, 1}, 0);
}

static void slab_gives_nothing(void)
{
    struct slab s;
    slab_init(&s, 8);
    slab_give(&s, 0);
}

static struct json_writer writer_new(void)
{
    static struct buf out;
    struct json_writer w;
    json_writer_init(&w, &out);
    return w;
}

static void value_without_key(void)
{
    struct json_writer w = writer_new();
    json_write_object(&w);
    json_write_int(&w, 1);
}

static void key_without_value(void)
{
    struct json_writer w = writer_new();
    json_write_object(&w);
    json_write_key(&w, "a");
    json_write_object_end(&w);
}

static void key_in_array(void)
{
    struct json_writer w = writer_new();
    json_write_array(&w);
    json_write_key(&w, "a");
}

static void wrong_end(void)
{
    struct json_writer w = writer_new();
    json_write_array(&w);
    json_write_object_end(&w);
}

static void two_values(void)
{
    struct json_writer w = writer_new();
    json_write_int(&w, 1);
    json_write_int(&w, 2);
}

static void unfinished(void)
{
    struct json_writer w = writer_new();
    json_write_array(&w);
    (void)!json_writer_finish(&w);
}

static void nothing_written(void)
{
    struct json_writer w = writer_new();
    (void)!json_writer_finish(&w);
}

static int lazy_cb(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    (void)ctx, (void)r, (void)name, (void)value;
    return 0;
}

static void value_not_consumed(void)
{
    struct json_reader r;
    struct arena a;
    arena_init(&a);
    json_open(&r, SPAN_LITERAL("{\"a\":[1]}"));
    (void)!json_object(&r, &a, lazy_cb, NULL);
}

static void mistakes_abort(void **state)
{
    (void)state;
    static void (*const all[])(void) = {
        put_without_room,  heap_at_past_the_end, map_of_zero,     slab_gives_nothing,
        value_without_key, key_without_value,    key_in_array,    wrong_end,
        two_values,        unfinished,           nothing_written, value_not_consumed,
    };
    for (size_t i = 0; i < COUNT_OF(all); i++)
        assert_aborts(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mistakes_abort)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
