/* SPDX-License-Identifier: Apache-2.0 */
/* The kept inputs of tests/fuzz/fuzz_record.c: one file per kind of record, and one whole frame.
 * They are also a promise: what was written once can be read for ever.
 *
 *   HF_WRITE_CORPUS=1 build/debug/tests/unit/core/test_record_corpus
 *
 * writes the files that are not there yet; files of the past are never rewritten. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "core/records/frame.h"
#include "unit/core/samples.h"

#define FOLDER "tests/fuzz/corpus/fuzz_record"
#define SEED 4711
#define SMALL 400 /* bytes; short inputs fuzz better */
#define PER_KIND 3

static struct arena arena;

static void path_of(enum record_kind kind, char path[200])
{
    snprintf(path, 200, FOLDER "/%s", kind ? record_name(kind) : "frame");
}

static void file_write(const char *path, struct span bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return; /* it is there */
    assert_int_equal(write(fd, bytes.at, bytes.len), bytes.len);
    close(fd);
}

static void file_read(const char *path, struct buf *ret)
{
    buf_clear(ret);
    assert_int_equal(buf_reserve(ret, 1 << 20), 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("%s is not there", path);
    ssize_t got = read(fd, ret->data, ret->cap);
    close(fd);
    assert_true(got > 0);
    ret->len = (size_t)got;
}

/* The first new job brings everything along that a job can. */
static bool wanted(const struct record *r, int nth)
{
    return r->kind != REC_JOB_NEW || nth > 0 ||
           (r->job_new.extra.options.len > 0 && r->job_new.extra.unique.len > 0);
}

static void small_samples(struct random *random, enum record_kind kind, struct buf *out)
{
    for (int i = 0; i < PER_KIND;) {
        struct record r;
        struct buf one;
        buf_init(&one);
        arena_reset(&arena);
        sample_record(random, &arena, kind, &r);
        assert_int_equal(record_encode(&r, &one), 0);
        if (one.len <= SMALL && wanted(&r, i)) {
            assert_int_equal(buf_append_span(out, buf_span(&one)), 0);
            i++;
        }
        buf_done(&one);
    }
}

static void corpus_write(void)
{
    struct random random;
    struct buf out, frame;
    char path[200];
    random_seed(&random, SEED);
    buf_init(&out);
    buf_init(&frame);
    assert_int_equal(frame_begin(&frame), 0);
    for (size_t k = 0; k < sample_kind_count; k++) {
        buf_clear(&out);
        small_samples(&random, sample_kinds[k], &out);
        path_of(sample_kinds[k], path);
        file_write(path, buf_span(&out));
        assert_int_equal(buf_append_span(&frame, buf_span(&out)), 0);
    }
    frame_end(&frame, 12345, (uint32_t)sample_kind_count * PER_KIND);
    path_of(0, path);
    file_write(path, buf_span(&frame));
    buf_done(&out);
    buf_done(&frame);
}

static void test_every_kind_has_a_kept_input(void **state)
{
    (void)state;
    struct buf bytes;
    char path[200];
    buf_init(&bytes);
    for (size_t k = 0; k < sample_kind_count; k++) {
        path_of(sample_kinds[k], path);
        file_read(path, &bytes);
        struct span in = buf_span(&bytes);
        while (in.len > 0) {
            struct record r;
            assert_int_equal(record_decode(&in, &r), 0);
            assert_int_equal(r.kind, sample_kinds[k]);
        }
    }
    buf_done(&bytes);
}

static void test_the_kept_frame_is_readable(void **state)
{
    (void)state;
    struct buf bytes;
    char path[200];
    buf_init(&bytes);
    path_of(0, path);
    file_read(path, &bytes);
    struct span in = buf_span(&bytes);
    struct frame frame;
    assert_int_equal(frame_decode(&in, &frame), 0);
    assert_int_equal(in.len, 0);
    assert_int_equal(frame.first, 12345);
    uint32_t count = 0;
    for (struct record r; frame.body.len > 0; count++)
        assert_int_equal(record_decode(&frame.body, &r), 0);
    assert_int_equal(count, frame.count);
    buf_done(&bytes);
}

static int begin(void **state)
{
    (void)state;
    arena_init(&arena);
    if (getenv("HF_WRITE_CORPUS"))
        corpus_write();
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_has_a_kept_input),
        cmocka_unit_test(test_the_kept_frame_is_readable),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
