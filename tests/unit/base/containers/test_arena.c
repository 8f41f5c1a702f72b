/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas: pieces do not overlap, a reset keeps the memory but not too much of it. */
#include "unit/base/support.h"

#include "base/containers/arena.h"
#include "base/mem.h"

#define PIECES 400

static void pieces_are_apart(void **state)
{
    (void)state;
    struct random r;
    struct arena a;
    struct {
        unsigned char *at;
        size_t size;
    } piece[PIECES];
    seeded(&r, "arena");
    arena_init(&a);
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < PIECES; i++) {
            piece[i].size = random_below(&r, random_chance(&r, 2) ? 20000 : 300);
            piece[i].at = arena_alloc(&a, piece[i].size);
            assert_non_null(piece[i].at);
            assert_int_equal((uintptr_t)piece[i].at % 16, 0);
            memset(piece[i].at, (int)i, piece[i].size);
        }
        for (size_t i = 0; i < PIECES; i++) {
            for (size_t k = 0; k < piece[i].size; k++)
                EXPECT(piece[i].at[k] == (unsigned char)i);
        }
        arena_reset(&a);
    }
    arena_done(&a);
}

static void steady_state_allocates_nothing(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    for (int round = 0; round < 50; round++) {
        if (round == 1)
            mem_fail_at(1, 1);
        for (size_t i = 0; i < 200; i++)
            assert_non_null(arena_alloc(&a, i * 7));
        assert_non_null(arena_alloc(&a, 300000));
        assert_non_null(arena_alloc(&a, 10));
        arena_reset(&a);
    }
    assert_int_equal(mem_calls(), 0);
    mem_fail_at(0, 0);
    arena_done(&a);
}

/* One huge request must not be remembered for ever. */
static void reset_gives_the_excess_back(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    for (int round = 0; round < 3; round++) {
        mem_fail_at(0, 0);
        assert_non_null(arena_alloc(&a, 100));
        assert_non_null(arena_alloc(&a, 8 * ARENA_KEEP_BYTES));
        assert_non_null(arena_alloc(&a, 100));
        assert_true(mem_calls() >= 1);
        arena_reset(&a);
    }
    arena_done(&a);
    arena_reset(&a);
    arena_done(&a);
}

static void helpers(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    memset(arena_alloc(&a, 500), 0xff, 500);
    arena_reset(&a);
    const char *zeros = arena_array(&a, 10, 50);
    for (size_t i = 0; i < 500; i++)
        assert_int_equal(zeros[i], 0);
    assert_null(arena_array(&a, SIZE_MAX / 2, 3));
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, SIZE_MAX - 15));
    assert_null(arena_text(&a, span_of("", SIZE_MAX)));
    assert_memory_equal(arena_copy(&a, "abc", 3), "abc", 3);
    assert_string_equal(arena_text(&a, span_of("abcdef", 4)), "abcd");
    assert_string_equal(arena_text(&a, span_of(NULL, 0)), "");
    assert_ptr_not_equal(arena_alloc(&a, 0), arena_alloc(&a, 0));
    assert_non_null(arena_copy(&a, NULL, 0));
    arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_apart),
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(reset_gives_the_excess_back),
        cmocka_unit_test(helpers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
