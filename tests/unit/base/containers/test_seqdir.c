/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the directory of sequences with a plain array, dense and sparse. */
#include "unit/base/support.h"

#include "base/containers/seqdir.h"
#include "base/mem.h"

#define WINDOW 20000

struct model {
    struct seqdir dir;
    uint64_t first; /* sequence of handle[0] */
    uint64_t step;  /* between neighbours */
    uint32_t handle[WINDOW];
    size_t count;
};

static void model_set(struct model *m, size_t k, uint32_t handle)
{
    uint64_t seq = m->first + k * m->step;
    if (handle)
        EXPECT(seqdir_put(&m->dir, seq, handle) == 0);
    else
        seqdir_drop(&m->dir, seq);
    m->count += (size_t)(handle != 0) - (size_t)(m->handle[k] != 0);
    m->handle[k] = handle;
    EXPECT(seqdir_get(&m->dir, seq) == handle);
    EXPECT(m->dir.count == m->count);
}

static void model_compare(const struct model *m)
{
    for (size_t k = 0; k < WINDOW; k++)
        EXPECT(seqdir_get(&m->dir, m->first + k * m->step) == m->handle[k]);
}

static void run(struct random *r, uint64_t first, uint64_t step)
{
    struct model *m = calloc(1, sizeof *m);
    m->first = first;
    m->step = step;
    seqdir_init(&m->dir);
    for (size_t i = 0; i < 200000; i++) {
        size_t k = random_below(r, WINDOW);
        unsigned filling = i < 100000 ? 70 : 20;
        bool put = random_chance(r, filling);
        model_set(m, k, put ? (uint32_t)random_below(r, UINT32_MAX) + 1 : 0);
        if (i % 40000 == 0)
            model_compare(m);
    }
    model_compare(m);
    for (size_t k = 0; k < WINDOW; k++)
        model_set(m, k, 0);
    assert_int_equal(m->dir.slab.used, 0);
    assert_int_equal(map64_count(&m->dir.pages), 0);
    seqdir_done(&m->dir);
    free(m);
}

static void against_model(void **state)
{
    (void)state;
    struct random r;
    seeded(&r, "seqdir");
    run(&r, 0, 1);
    run(&r, 1000000007, 1);
    run(&r, 63, 64);
    run(&r, (UINT64_C(1) << 53) - WINDOW * 3, 3);
    run(&r, UINT64_MAX - WINDOW + 1, 1);
    run(&r, 5, UINT64_C(1) << 40);
}

/* As in a queue: a window of live sequences that advances, with a few old ones. */
static void moving_window(void **state)
{
    (void)state;
    struct seqdir d;
    seqdir_init(&d);
    for (uint64_t seq = 1; seq <= 300000; seq++) {
        EXPECT(seqdir_put(&d, seq, (uint32_t)seq) == 0);
        if (seq > 5000 && (seq - 5000) % 10000 != 0)
            seqdir_drop(&d, seq - 5000);
    }
    assert_int_equal(d.count, 5000 + 29);
    for (uint64_t seq = 1; seq <= 300000; seq++) {
        bool alive = seq > 295000 || seq % 10000 == 0;
        EXPECT(seqdir_get(&d, seq) == (alive ? seq : 0));
    }
    assert_true(d.slab.used <= 5000 / 64 + 2 + 29);
    seqdir_done(&d);
}

static void dense_costs_little(void **state)
{
    (void)state;
    struct seqdir d;
    seqdir_init(&d);
    for (uint64_t seq = 1; seq <= 2000000; seq++)
        EXPECT(seqdir_put(&d, seq, 1) == 0);
    assert_true(seqdir_bytes(&d) < 6 * 2000000);
    seqdir_done(&d);
}

static void reserve_keeps_its_promise(void **state)
{
    (void)state;
    struct seqdir d;
    seqdir_init(&d);
    for (uint64_t seq = 1; seq <= 100; seq++)
        assert_int_equal(seqdir_put(&d, seq, 1), 0);
    assert_int_equal(seqdir_reserve(&d, 20000), 0);
    mem_fail_at(1, 1);
    for (uint64_t i = 1; i <= 20000; i++)
        EXPECT(seqdir_put(&d, i * 1000, 2) == 0);
    mem_fail_at(0, 0);
    seqdir_done(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_model),
        cmocka_unit_test(moving_window),
        cmocka_unit_test(dense_costs_little),
        cmocka_unit_test(reserve_keeps_its_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
