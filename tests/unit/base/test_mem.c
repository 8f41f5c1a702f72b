/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation: alignment, zeros, overflow, the failure hook; and the error table. */
#include "unit/base/support.h"

#include "base/err.h"
#include "base/mem.h"

static void assert_zeros(const unsigned char *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        EXPECT(p[i] == 0);
}

/* Used memory that comes back must be zero again: freed and taken in turn, at many sizes. */
static void pages_and_lines_are_zero(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0,      1,      64,       4095,           4096,     100000,         131071,
        131072, 131073, 1u << 20, (2u << 20) - 1, 2u << 20, (2u << 20) + 1, 5000000};
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            unsigned char *lines = mem_lines(sizes[i]), *pages = mem_pages(sizes[i]);
            assert_non_null(lines);
            assert_non_null(pages);
            assert_int_equal((uintptr_t)lines % 64, 0);
            assert_int_equal((uintptr_t)pages % (sizes[i] >= 2u << 20 ? 2u << 20 : 64), 0);
            assert_zeros(lines, sizes[i]);
            assert_zeros(pages, sizes[i]);
            memset(lines, 0xff, sizes[i]);
            memset(pages, 0xff, sizes[i]);
            mem_free(pages);
            mem_free(lines);
        }
    }
}

static void growing_arrays(void **state)
{
    (void)state;
    uint32_t *array = NULL;
    size_t room = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        array = mem_more(array, i, &room, sizeof *array);
        assert_non_null(array);
        assert_true(room > i);
        array[i] = i;
    }
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(array[i], i);
    size_t before = room;
    mem_fail_at(1, 1);
    assert_ptr_equal(mem_more(array, room - 1, &room, sizeof *array), array);
    assert_null(mem_more(array, room, &room, sizeof *array));
    mem_fail_at(0, 0);
    assert_int_equal(room, before);
    mem_free(array);
}

static void arrays_and_copies(void **state)
{
    (void)state;
    assert_null(mem_array(SIZE_MAX / 2, 3));
    assert_null(mem_regrow(NULL, SIZE_MAX / 2, 3));
    assert_null(mem_text("", SIZE_MAX));
    unsigned char *zeros = mem_array(100, 10);
    assert_zeros(zeros, 1000);
    zeros = mem_regrow(zeros, 200, 10);
    assert_zeros(zeros, 1000);
    mem_free(zeros);
    zeros = mem_zalloc(77);
    assert_zeros(zeros, 77);
    mem_free(zeros);
    char *text = mem_text("hello world", 5);
    assert_string_equal(text, "hello");
    mem_free(text);
    text = mem_text(NULL, 0);
    assert_string_equal(text, "");
    mem_free(text);
    char *copy = mem_copy("abc", 3);
    assert_memory_equal(copy, "abc", 3);
    mem_free(copy);
    mem_free(NULL);
}

static void size_zero_is_a_pointer(void **state)
{
    (void)state;
    void *all[] = {mem_alloc(0),    mem_zalloc(0),        mem_array(0, 8),
                   mem_array(8, 0), mem_realloc(NULL, 0), mem_copy(NULL, 0)};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        assert_non_null(all[i]);
        for (size_t k = 0; k < i; k++)
            assert_ptr_not_equal(all[i], all[k]);
    }
    for (size_t i = 0; i < COUNT_OF(all); i++)
        mem_free(all[i]);
}

static void the_nth_fails(void **state)
{
    (void)state;
    mem_fail_at(3, 0);
    for (int i = 1; i <= 5; i++) {
        void *p = mem_alloc(10);
        assert_int_equal(p == NULL, i == 3);
        mem_free(p);
    }
    assert_int_equal(mem_calls(), 5);
    mem_fail_at(2, 1);
    for (int i = 1; i <= 5; i++) {
        void *p = mem_zalloc(10);
        assert_int_equal(p == NULL, i >= 2);
        mem_free(p);
    }
    mem_fail_at(0, 0);
    assert_int_equal(mem_calls(), 0);
}

static void every_function_can_fail(void **state)
{
    (void)state;
    mem_fail_at(0, 0);
    char *old = mem_text("old", 3);
    mem_fail_at(1, 1);
    assert_null(mem_alloc(1));
    assert_null(mem_zalloc(1));
    assert_null(mem_array(1, 1));
    assert_null(mem_realloc(old, 100));
    assert_null(mem_regrow(old, 100, 2));
    assert_null(mem_copy("x", 1));
    assert_null(mem_text("x", 1));
    assert_null(mem_pages(1));
    assert_null(mem_pages(3u << 20));
    assert_null(mem_lines(1));
    assert_int_equal(mem_calls(), 10);
    mem_fail_at(0, 0);
    assert_string_equal(old, "old");
    mem_free(old);
}

static void error_names(void **state)
{
    (void)state;
    assert_string_equal(err_name(-ERR_NOMEM), "NOMEM");
    assert_string_equal(err_text(-ERR_NOMEM), "out of memory");
    assert_string_equal(err_name(-ERR_TIMEOUT), "TIMEOUT");
    assert_string_equal(err_name(0), "OK");
    static const int unknown[] = {1, ERR_IO, -ERR_COUNT, -ERR_COUNT - 1, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        assert_string_equal(err_name(unknown[i]), "UNKNOWN");
        assert_string_equal(err_text(unknown[i]), "unknown error");
    }
    for (int code = 0; code > -ERR_COUNT; code--)
        assert_true(strlen(err_text(code)) > 0 && strlen(err_name(code)) > 0);
}

static void error_notes(void **state)
{
    (void)state;
    struct err_note note;
    assert_int_equal(err_note_set(&note, -ERR_IO, "file %s: %d", "x", 5), -ERR_IO);
    assert_string_equal(note.text, "file x: 5");
    assert_int_equal(err_note_set(NULL, -ERR_IO, "unseen"), -ERR_IO);
    assert_int_equal(err_note_set(&note, -ERR_IO, "%600d", 1), -ERR_IO);
    assert_int_equal(strlen(note.text), sizeof note.text - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_and_lines_are_zero),
        cmocka_unit_test(arrays_and_copies),
        cmocka_unit_test(growing_arrays),
        cmocka_unit_test(size_zero_is_a_pointer),
        cmocka_unit_test(the_nth_fails),
        cmocka_unit_test(every_function_can_fail),
        cmocka_unit_test(error_names),
        cmocka_unit_test(error_notes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
