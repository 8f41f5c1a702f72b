/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the slab with a plain list of the records that it returned. */
#include "unit/base/support.h"

#include "base/containers/slab.h"
#include "base/mem.h"

struct held {
    uint32_t handle;
    uint64_t mark; /* repeated over the whole record */
};

static void fill(const struct slab *s, struct held h)
{
    uint32_t *words = slab_at(s, h.handle);
    for (size_t i = 0; i < s->item_size / 4; i++)
        words[i] = (uint32_t)(h.mark + i);
}

static void assert_filled(const struct slab *s, struct held h)
{
    const uint32_t *words = slab_at(s, h.handle);
    for (size_t i = 0; i < s->item_size / 4; i++)
        EXPECT(words[i] == (uint32_t)(h.mark + i));
}

static void assert_zero(const struct slab *s, uint32_t handle)
{
    const uint32_t *words = slab_at(s, handle);
    for (size_t i = 0; i < s->item_size / 4; i++)
        EXPECT(words[i] == 0);
}

/* Records stay where they are, hold what was written, and no two are the same. */
static void against_model(void **state)
{
    (void)state;
    static const size_t sizes[] = {4, 8, 20, 100, 112, 264, 5000, 100000};
    struct random r;
    seeded(&r, "slab");
    for (size_t k = 0; k < COUNT_OF(sizes); k++) {
        struct slab s;
        struct held held[500];
        size_t count = 0;
        slab_init(&s, sizes[k]);
        for (uint64_t i = 0; i < 20000 / (1 + sizes[k] / 1000); i++) {
            if (count < COUNT_OF(held) && random_chance(&r, 52)) {
                struct held h = {slab_take(&s), random_next(&r)};
                EXPECT(h.handle != 0);
                assert_zero(&s, h.handle);
                fill(&s, h);
                held[count++] = h;
            } else if (count > 0) {
                size_t at = random_below(&r, count);
                assert_filled(&s, held[at]);
                slab_give(&s, held[at].handle);
                held[at] = held[--count];
            }
            EXPECT(s.used == count);
        }
        for (size_t i = 0; i < count; i++)
            assert_filled(&s, held[i]);
        slab_done(&s);
    }
}

static void grows_by_chunks(void **state)
{
    (void)state;
    struct slab s;
    slab_init(&s, 112);
    size_t n = (size_t)3 << s.shift;
    for (size_t i = 0; i < n; i++) {
        uint32_t handle = slab_take(&s);
        EXPECT(handle != 0);
        *(uint32_t *)slab_at(&s, handle) = handle;
    }
    assert_int_equal(s.used, n);
    assert_true(slab_bytes(&s) >= n * 112 && slab_bytes(&s) < n * 112 + (5 << 20));
    for (uint32_t handle = 1; handle <= n; handle++)
        EXPECT(*(uint32_t *)slab_at(&s, handle) == handle);
    for (uint32_t handle = 1; handle <= n; handle++)
        slab_give(&s, handle);
    size_t bytes = slab_bytes(&s);
    for (size_t i = 0; i < n; i++) {
        uint32_t handle = slab_take(&s);
        EXPECT(handle != 0);
        EXPECT(*(uint32_t *)slab_at(&s, handle) == 0);
    }
    assert_int_equal(slab_bytes(&s), bytes);
    slab_done(&s);
}

static void chunks_are_near_2_mib(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 300000; size += 1 + size / 7) {
        struct slab s;
        slab_init(&s, size);
        size_t bytes = s.item_size << s.shift;
        assert_true(s.item_size >= size && s.item_size % 4 == 0);
        assert_in_range(bytes, (size_t)4 << 18, (size_t)3 << 20);
        slab_done(&s);
    }
}

/* Chunks that are no multiple of a huge page lie side by side, and the lot of them is one. */
static void lots_fill_huge_pages(void **state)
{
    (void)state;
    const size_t huge = (size_t)2 << 20;
    struct slab s;
    slab_init(&s, 88);
    size_t bytes = s.item_size << s.shift;
    assert_true(s.lot > 1 && bytes % huge != 0 && s.lot * bytes % huge == 0);
    assert_int_equal(slab_reserve(&s, (size_t)(2 * s.lot) << s.shift), 0);
    for (size_t i = 1; i < s.chunk_count; i++) {
        if ((i - 1) % s.lot == 0)
            assert_int_equal((uintptr_t)s.chunks[i] % huge, 0);
        else
            assert_ptr_equal(s.chunks[i], s.chunks[i - 1] + bytes);
    }
    slab_done(&s);
}

static void few_records_cost_little(void **state)
{
    (void)state;
    struct slab s;
    slab_init(&s, 88);
    assert_int_equal(slab_reserve(&s, 1), 0);
    assert_in_range(slab_bytes(&s), 1, 1024);
    for (int i = 0; i < 1000; i++)
        assert_int_not_equal(slab_take(&s), 0);
    assert_in_range(slab_bytes(&s), 88000, 90000);
    slab_done(&s);
}

static void reserve_keeps_its_promise(void **state)
{
    (void)state;
    struct random r;
    seeded(&r, "reserve");
    for (int round = 0; round < 20; round++) {
        struct slab s;
        slab_init(&s, 4096);
        size_t before = random_below(&r, 700), more = random_below(&r, 3000);
        for (size_t i = 0; i < before; i++)
            assert_int_not_equal(slab_take(&s), 0);
        for (uint32_t handle = 1; handle <= before / 2; handle++)
            slab_give(&s, handle);
        assert_int_equal(slab_reserve(&s, more), 0);
        mem_fail_at(1, 1);
        for (size_t i = 0; i < more; i++)
            EXPECT(slab_take(&s) != 0);
        mem_fail_at(0, 0);
        slab_done(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_model),           cmocka_unit_test(grows_by_chunks),
        cmocka_unit_test(chunks_are_near_2_mib),   cmocka_unit_test(lots_fill_huge_pages),
        cmocka_unit_test(few_records_cost_little), cmocka_unit_test(reserve_keeps_its_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
