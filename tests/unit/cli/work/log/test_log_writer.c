/* SPDX-License-Identifier: Apache-2.0 */
/* The log of the runner when standard error is not read (PDQ-8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "cli/work/log/log_writer.h"

#define LINE_BYTES 1000
#define LINES_MAX 100000

struct stderr_pipe {
    int ends[2];
    int saved;
};

static void pipe_begin(struct stderr_pipe *p)
{
    assert_int_equal(pipe(p->ends), 0);
    p->saved = dup(STDERR_FILENO);
    assert_int_equal(dup2(p->ends[1], STDERR_FILENO), STDERR_FILENO);
    close(p->ends[1]);
}

/* Restores standard error, so that reading ends. */
static size_t pipe_end(struct stderr_pipe *p)
{
    char bytes[4096];
    size_t sum = 0;
    ssize_t len;
    assert_int_equal(dup2(p->saved, STDERR_FILENO), STDERR_FILENO);
    close(p->saved);
    while ((len = read(p->ends[0], bytes, sizeof bytes)) > 0)
        sum += (size_t)len;
    close(p->ends[0]);
    return sum;
}

static void everything_is_written(void **state)
{
    struct stderr_pipe p;
    (void)state;
    pipe_begin(&p);
    struct log_writer *w = log_writer_open();
    assert_non_null(w);
    assert_true(log_writer_add(w, SPAN_LITERAL("one\n")));
    assert_true(log_writer_add(w, SPAN_LITERAL("two\n")));
    log_writer_close(w);
    assert_int_equal(pipe_end(&p), 8);
}

static void read_cb(void *ctx)
{
    struct stderr_pipe *p = ctx;
    char bytes[65536];
    while (read(p->ends[0], bytes, sizeof bytes) > 0) {
    }
}

static void a_pipe_that_is_not_read_does_not_block(void **state)
{
    struct stderr_pipe p;
    char line[LINE_BYTES];
    size_t taken = 0;
    uv_thread_t reader;
    (void)state;
    memset(line, 'x', sizeof line);
    pipe_begin(&p);
    struct log_writer *w = log_writer_open();
    assert_non_null(w);
    while (taken < LINES_MAX && log_writer_add(w, span_of(line, sizeof line)))
        taken++;
    assert_in_range(taken, 1000, 4000); /* about 1 MiB */
    assert_int_equal(uv_thread_create(&reader, read_cb, &p), 0);
    log_writer_close(w);
    assert_int_equal(dup2(p.saved, STDERR_FILENO), STDERR_FILENO);
    close(p.saved);
    assert_int_equal(uv_thread_join(&reader), 0);
    close(p.ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_written),
        cmocka_unit_test(a_pipe_that_is_not_read_does_not_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
