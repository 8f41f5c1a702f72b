/* SPDX-License-Identifier: Apache-2.0 */
/* What a target hands off (HF-28): the object, and the file of a command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/work/handoff.h"

static const char whole[] =
    " {\"enqueues\":[{\"queue\":\"a\"}], \"sets\":[],\"deletes\":[[\"k\"]],\"result\":1e400}\n";

static void members_are_taken_as_they_are(void **state)
{
    struct handoff h;
    struct err_note note;
    (void)state;
    assert_int_equal(handoff_parse(span_text(whole), true, &h, &note), 0);
    assert_true(span_equal(h.enqueues, SPAN_LITERAL("[{\"queue\":\"a\"}]")));
    assert_true(span_equal(h.sets, SPAN_LITERAL("[]")));
    assert_true(span_equal(h.deletes, SPAN_LITERAL("[[\"k\"]]")));
    assert_true(span_equal(h.result, SPAN_LITERAL("1e400")));
    assert_true(handoff_given(&h));
    assert_int_equal(handoff_parse(SPAN_LITERAL("{\"result\":1}"), true, &h, &note), 0);
    assert_false(handoff_given(&h));
}

static void refused(const char *text, bool with_result, const char *part)
{
    struct handoff h = {.sets = SPAN_LITERAL("x")};
    struct err_note note;
    assert_int_equal(handoff_parse(span_text(text), with_result, &h, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, part));
    assert_true(span_equal(h.sets, SPAN_LITERAL("x")));
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    refused("", false, "one JSON object");
    refused("[]", false, "one JSON object");
    refused("{\"sets\":[}", false, "at byte 9");
    refused("{\"sets\":[]} {}", false, "one JSON object");
    refused("{\"sets\":[],\"sets\":[]}", false, "one JSON object");
    refused("{\"checks\":[]}", false,
            "a member \"checks\"; it can have enqueues, sets and deletes");
    refused(whole, false, "a member \"result\"");
    refused("{\"results\":1}", true, "it can have enqueues, sets, result and deletes");
    refused("{\"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee\":1}", false, "dddd\";");
}

static void members_are_written(void **state)
{
    struct handoff h;
    struct err_note note;
    struct buf out;
    struct json_writer w;
    (void)state;
    buf_init(&out);
    json_writer_init(&w, &out);
    assert_int_equal(handoff_parse(span_text(whole), true, &h, &note), 0);
    json_write_object(&w);
    handoff_write_members(&h, &w);
    json_write_object_end(&w);
    assert_int_equal(json_writer_finish(&w), 0);
    assert_true(
        span_equal(buf_span(&out), SPAN_LITERAL("{\"enqueues\":[{\"queue\":\"a\"}],\"sets\":[],"
                                                "\"deletes\":[[\"k\"]]}")));
    buf_done(&out);
}

static int read_of(const char *path, struct buf *out, struct err_note *note)
{
    buf_clear(out);
    return handoff_file_read(path, out, note);
}

static void the_file_of_a_command(void **state)
{
    char dir[HANDOFF_PATH_BYTES], path[HANDOFF_PATH_BYTES + 8], other[HANDOFF_PATH_BYTES + 8];
    struct err_note note;
    struct stat st;
    struct buf out;
    (void)state;
    buf_init(&out);
    assert_int_equal(handoff_dir_create(dir, &note), 0);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    snprintf(path, sizeof path, "%s/1", dir);
    snprintf(other, sizeof other, "%s/2", dir);
    assert_int_equal(read_of(path, &out, &note), 0);
    assert_int_equal(out.len, 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{}", f);
    fclose(f);
    assert_int_equal(read_of(path, &out, &note), 0);
    assert_true(span_equal(buf_span(&out), SPAN_LITERAL("{}")));
    assert_int_equal(truncate(path, (off_t)HANDOFF_BYTES_MAX), 0);
    assert_int_equal(read_of(path, &out, &note), 0);
    assert_int_equal(truncate(path, (off_t)HANDOFF_BYTES_MAX + 1), 0);
    assert_int_equal(read_of(path, &out, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, "more than 1048576 bytes"));
    assert_int_equal(symlink(path, other), 0);
    assert_int_equal(read_of(other, &out, &note), -ERR_IO);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(mkfifo(other, 0600), 0); /* no process writes: it must not block */
    assert_int_equal(read_of(other, &out, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, "not a regular file"));
    unlink(other);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    buf_done(&out);
}

static void a_directory_that_cannot_be_created(void **state)
{
    char dir[HANDOFF_PATH_BYTES];
    struct err_note note;
    (void)state;
    assert_int_equal(setenv("TMPDIR", "/nonexistent", 1), 0);
    assert_int_equal(handoff_dir_create(dir, &note), -ERR_IO);
    assert_non_null(strstr(note.text, "/nonexistent"));
    unsetenv("TMPDIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_taken_as_they_are),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(members_are_written),
        cmocka_unit_test(the_file_of_a_command),
        cmocka_unit_test(a_directory_that_cannot_be_created),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
