/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads from words and files, and lines of any length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/client/input.h"

/* A file with these bytes; its name as a word ("@…"). */
static void file_with(const void *bytes, size_t len, char word[32])
{
    snprintf(word, 32, "@/tmp/hf-input-XXXXXX");
    int fd = mkstemp(word + 1);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    close(fd);
}

static void a_word_stands_for_itself_or_a_file(void **state)
{
    (void)state;
    struct buf out;
    struct err_note note = {""};
    char word[32];
    buf_init(&out);
    assert_int_equal(client_input_read("{\"a\":1}", &out, &note), 0);
    assert_true(span_equal(buf_span(&out), SPAN_LITERAL("{\"a\":1}")));
    buf_clear(&out);
    file_with("a\0b\n", 4, word);
    assert_int_equal(client_input_read(word, &out, &note), 0);
    assert_true(span_equal(buf_span(&out), SPAN_LITERAL("a\0b\n")));
    unlink(word + 1);
    assert_int_equal(client_input_read(word, &out, &note), -ERR_IO);
    assert_non_null(strstr(note.text, "cannot read the file"));
    assert_int_equal(client_input_read("@/", &out, &note), -ERR_IO);
    buf_done(&out);
}

static void lines_are(const void *bytes, size_t len, const char *const *expected)
{
    struct client_lines lines;
    struct err_note note;
    struct span line;
    char word[32];
    file_with(bytes, len, word);
    assert_int_equal(client_lines_open(&lines, word, &note), 0);
    size_t i = 0;
    for (; expected[i]; i++) {
        assert_int_equal(client_lines_next(&lines, &line, &note), 1);
        assert_true(span_equal(line, span_text(expected[i])));
        assert_int_equal(lines.number, i + 1);
    }
    assert_int_equal(client_lines_next(&lines, &line, &note), 0);
    assert_int_equal(client_lines_next(&lines, &line, &note), 0);
    client_lines_close(&lines);
    unlink(word + 1);
}
#define LINES_ARE(bytes, ...)                                                                      \
    lines_are(bytes, sizeof(bytes) - 1, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void lines_end_as_they_may(void **state)
{
    (void)state;
    LINES_ARE("");
    LINES_ARE("one", "one");
    LINES_ARE("one\n", "one");
    LINES_ARE("one\r\n\ntwo\r", "one", "", "two");
    LINES_ARE("\n\n", "", "");
}

/* Lines around the size of a read, so that each lies over its edge once. */
static void long_lines_are_whole(void **state)
{
    (void)state;
    enum { LINES = 6 };
    size_t lengths[LINES] = {65535, 65536, 65537, 1, 200000, 131072};
    size_t total = 0, at = 0;
    for (size_t i = 0; i < LINES; i++)
        total += lengths[i] + 1;
    char *bytes = malloc(total);
    for (size_t i = 0; i < LINES; i++) {
        memset(bytes + at, 'a' + (int)i, lengths[i]);
        at += lengths[i];
        bytes[at++] = '\n';
    }
    char word[32];
    struct client_lines lines;
    struct err_note note;
    struct span line;
    file_with(bytes, total, word);
    assert_int_equal(client_lines_open(&lines, word, &note), 0);
    at = 0;
    for (size_t i = 0; i < LINES; i++) {
        assert_int_equal(client_lines_next(&lines, &line, &note), 1);
        assert_true(span_equal(line, span_of(bytes + at, lengths[i])));
        at += lengths[i] + 1;
    }
    assert_int_equal(client_lines_next(&lines, &line, &note), 0);
    client_lines_close(&lines);
    unlink(word + 1);
    free(bytes);
}

static void no_memory_is_reported(void **state)
{
    (void)state;
    struct client_lines lines;
    struct err_note note = {""};
    struct span line;
    char word[32];
    file_with("x\n", 2, word);
    assert_int_equal(client_lines_open(&lines, word, &note), 0);
    mem_fail_at(1, 1);
    assert_int_equal(client_lines_next(&lines, &line, &note), -ERR_NOMEM);
    mem_fail_at(0, 0);
    client_lines_close(&lines);
    unlink(word + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_stands_for_itself_or_a_file),
        cmocka_unit_test(lines_end_as_they_may),
        cmocka_unit_test(long_lines_are_whole),
        cmocka_unit_test(no_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
