/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the maps with a plain array, during growth, with keys that spread and keys that collide.
 */
#include "unit/base/support.h"

#include "base/containers/map.h"
#include "base/mem.h"

#define UNIVERSE_MAX 40000

/* One map under test and what it should hold. Keys are named by their number. */
struct model {
    const struct kind *kind;
    struct map128 m128;
    struct map64 m64;
    struct mapref mref; /* handle: key number + 1, so that it leads to the key */
    size_t looks;       /* how often mref looked behind a handle */
    struct hash128 key128[UNIVERSE_MAX];
    uint64_t key64[UNIVERSE_MAX];
    uint32_t value[UNIVERSE_MAX]; /* 0 = absent */
    size_t universe;
    size_t count;
    size_t moves_seen; /* how often a check found a move under way */
};

struct kind {
    const char *name;
    void (*start)(struct model *m);
    void (*stop)(struct model *m);
    int (*put)(struct model *m, size_t k, uint32_t v);
    uint32_t (*get)(const struct model *m, size_t k);
    void (*drop)(struct model *m, size_t k);
    size_t (*count)(const struct model *m);
    void (*inspect)(struct model *m);
};

static void start128(struct model *m)
{
    map128_init(&m->m128);
}

static void stop128(struct model *m)
{
    map128_done(&m->m128);
}

/* The value's high half must survive too. */
static int put128(struct model *m, size_t k, uint32_t v)
{
    return map128_put(&m->m128, m->key128[k], (uint64_t)v << 32 | v);
}

static uint32_t get128(const struct model *m, size_t k)
{
    uint64_t v = map128_get(&m->m128, m->key128[k]);
    EXPECT(v >> 32 == (v & UINT32_MAX));
    return (uint32_t)v;
}

static void drop128(struct model *m, size_t k)
{
    map128_drop(&m->m128, m->key128[k]);
}

static size_t count128(const struct model *m)
{
    return map128_count(&m->m128);
}

/* What map_impl.h promises of the two tables. */
static void inspect128(struct model *m)
{
    const struct map128 *map = &m->m128;
    size_t used = 0;
    if (!map->now.slots)
        return;
    for (size_t i = 0; i <= map->now.mask; i++)
        used += map->now.slots[i].value != 0;
    EXPECT(used == map->now.used);
    EXPECT(map->now.used + map->old.used <= (map->now.mask + 1) / 16 * 11);
    if (!map->old.slots)
        return;
    m->moves_seen++;
    used = 0;
    for (size_t i = 0; i <= map->old.mask; i++) {
        used += map->old.slots[i].value != 0;
        EXPECT(i >= map->moved || map->old.slots[i].value == 0);
    }
    EXPECT(used == map->old.used && used > 0);
}

static void start64(struct model *m)
{
    map64_init(&m->m64);
}

static void stop64(struct model *m)
{
    map64_done(&m->m64);
}

static int put64(struct model *m, size_t k, uint32_t v)
{
    return map64_put(&m->m64, m->key64[k], v);
}

static uint32_t get64(const struct model *m, size_t k)
{
    return map64_get(&m->m64, m->key64[k]);
}

static void drop64(struct model *m, size_t k)
{
    map64_drop(&m->m64, m->key64[k]);
}

static size_t count64(const struct model *m)
{
    return map64_count(&m->m64);
}

static void inspect64(struct model *m)
{
    m->moves_seen += m->m64.old.slots != NULL;
}

/* A record's hash is what its handle leads to; a handle the map should not have is a mistake. */
static bool sameref(void *ctx, uint32_t handle, struct hash128 key)
{
    struct model *m = ctx;
    m->looks++;
    EXPECT(handle >= 1 && handle <= m->universe);
    return hash128_equal(m->key128[handle - 1], key);
}

static void startref(struct model *m)
{
    mapref_init(&m->mref);
    m->mref.same = sameref;
    m->mref.same_ctx = m;
}

static void stopref(struct model *m)
{
    mapref_done(&m->mref);
}

static int putref(struct model *m, size_t k, uint32_t v)
{
    (void)v;
    return mapref_put(&m->mref, m->key128[k], (uint32_t)k + 1);
}

/* The model's value stands for the handle, which a key has only one of. */
static uint32_t getref(const struct model *m, size_t k)
{
    uint32_t handle = mapref_get(&m->mref, m->key128[k]);
    EXPECT(handle == 0 || handle == k + 1);
    return handle ? m->value[k] : 0;
}

static void dropref(struct model *m, size_t k)
{
    mapref_drop(&m->mref, m->key128[k]);
}

static size_t countref(const struct model *m)
{
    return mapref_count(&m->mref);
}

static void inspectref(struct model *m)
{
    m->moves_seen += m->mref.old.slots != NULL;
}

static const struct kind kind128 = {"map128", start128, stop128,  put128,
                                    get128,   drop128,  count128, inspect128};
static const struct kind kind64 = {"map64", start64, stop64,  put64,
                                   get64,   drop64,  count64, inspect64};
static const struct kind kindref = {"mapref", startref, stopref,  putref,
                                    getref,   dropref,  countref, inspectref};

static struct model *model_new(const struct kind *kind, size_t universe)
{
    struct model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->kind = kind;
    m->universe = universe;
    return m;
}

static void model_put(struct model *m, size_t k, uint32_t v)
{
    EXPECT(m->kind->put(m, k, v) == 0);
    m->count += m->value[k] == 0;
    m->value[k] = v;
}

static void model_drop(struct model *m, size_t k)
{
    m->kind->drop(m, k);
    m->count -= m->value[k] != 0;
    m->value[k] = 0;
}

static void model_compare(struct model *m)
{
    EXPECT(m->kind->count(m) == m->count);
    for (size_t k = 0; k < m->universe; k++)
        EXPECT(m->kind->get(m, k) == m->value[k]);
    m->kind->inspect(m);
}

/* `growing` is the chance in percent that an operation is a put. */
static void model_phase(struct model *m, struct random *r, size_t operations, unsigned growing,
                        size_t compare_every)
{
    for (size_t i = 1; i <= operations; i++) {
        size_t k = random_below(r, m->universe);
        if (random_chance(r, growing))
            model_put(m, k, (uint32_t)random_below(r, UINT32_MAX) + 1);
        else
            model_drop(m, k);
        EXPECT(m->kind->get(m, k) == m->value[k]);
        size_t other = random_below(r, m->universe);
        EXPECT(m->kind->get(m, other) == m->value[other]);
        if (i % compare_every == 0)
            model_compare(m);
    }
}

static void model_reset(struct model *m)
{
    m->kind->stop(m);
    for (size_t k = 0; k < m->universe; k++)
        m->value[k] = 0;
    m->count = 0;
    m->kind->start(m);
}

/* Small maps, begun again many times: nearly all of the time a table is being moved. */
static void rounds_small(struct model *m, struct random *r, size_t rounds)
{
    m->kind->start(m);
    for (size_t round = 0; round < rounds; round++) {
        model_phase(m, r, 30 + random_below(r, 400), 80, 7);
        model_phase(m, r, 200, 30, 40);
        model_phase(m, r, 300, 90, 11);
        model_reset(m);
    }
    assert_true(m->moves_seen > rounds);
    m->kind->stop(m);
}

static void keys_spread(struct model *m, struct random *r)
{
    for (size_t k = 0; k < m->universe; k++) {
        m->key128[k] = (struct hash128){random_next(r), random_next(r)};
        m->key64[k] = random_next(r) | 1;
    }
}

/* A third of the homes are a few slots round the end of every table, so that a long cluster wraps.
 */
static void keys_at_the_end(struct model *m, struct random *r)
{
    for (size_t k = 0; k < m->universe; k++) {
        uint64_t home = k % 3 ? random_next(r) : random_below(r, 24) - 16;
        m->key128[k] = (struct hash128){k + 1, home};
        m->key64[k] = k + 1;
    }
}

/* Homes in bunches, differing in the bits that a larger table brings in. */
static void keys_in_bunches(struct model *m, struct random *r)
{
    for (size_t k = 0; k < m->universe; k++) {
        uint64_t home = random_below(r, 16) * 37 + random_below(r, 3) + (random_next(r) << 40);
        home ^= random_below(r, 4) << (4 + random_below(r, 7));
        m->key128[k] = (struct hash128){k + 1, home};
        m->key64[k] = (uint64_t)k << 32 | 1;
    }
}

static void small(const struct kind *kind, void (*keys)(struct model *m, struct random *r))
{
    struct random r;
    struct model *m = model_new(kind, 300);
    seeded(&r, kind->name);
    keys(m, &r);
    rounds_small(m, &r, 500);
    free(m);
}

static void large(const struct kind *kind)
{
    struct random r;
    struct model *m = model_new(kind, UNIVERSE_MAX);
    seeded(&r, kind->name);
    keys_spread(m, &r);
    m->kind->start(m);
    model_phase(m, &r, 400000, 75, 100000);
    model_phase(m, &r, 400000, 45, 100000);
    model_phase(m, &r, 400000, 10, 100000);
    model_phase(m, &r, 400000, 90, 100000);
    m->kind->stop(m);
    free(m);
}

static void map128_spread(void **state)
{
    (void)state;
    small(&kind128, keys_spread);
}

static void map128_wrapping(void **state)
{
    (void)state;
    small(&kind128, keys_at_the_end);
}

static void map128_bunched(void **state)
{
    (void)state;
    small(&kind128, keys_in_bunches);
}

static void map64_spread(void **state)
{
    (void)state;
    small(&kind64, keys_spread);
}

static void map64_dense(void **state)
{
    (void)state;
    small(&kind64, keys_at_the_end);
}

static void map64_stepped(void **state)
{
    (void)state;
    small(&kind64, keys_in_bunches);
}

static void mapref_spread(void **state)
{
    (void)state;
    small(&kindref, keys_spread);
}

static void mapref_wrapping(void **state)
{
    (void)state;
    small(&kindref, keys_at_the_end);
}

/* Many keys share all that a slot keeps of them: only the records tell them apart. */
static void mapref_bunched(void **state)
{
    (void)state;
    small(&kindref, keys_in_bunches);
}

static void mapref_large(void **state)
{
    (void)state;
    large(&kindref);
}

/* Another record takes over a key; the first one's end must not take it away. */
static void a_key_changes_hands(void **state)
{
    (void)state;
    struct model *m = model_new(&kindref, 2);
    m->key128[0] = m->key128[1] = (struct hash128){5, 9};
    startref(m);
    assert_int_equal(mapref_put(&m->mref, m->key128[0], 1), 0);
    assert_int_equal(mapref_put(&m->mref, m->key128[1], 2), 0);
    assert_int_equal(mapref_get(&m->mref, m->key128[0]), 2);
    assert_int_equal(mapref_count(&m->mref), 1);
    mapref_drop(&m->mref, m->key128[0]);
    assert_int_equal(mapref_get(&m->mref, m->key128[1]), 0);
    stopref(m);
    free(m);
}

/* A search looks at the record it finds and at next to no other. */
static void records_are_seldom_looked_at(void **state)
{
    (void)state;
    struct random r;
    struct model *m = model_new(&kindref, UNIVERSE_MAX);
    seeded(&r, "looks");
    keys_spread(m, &r);
    startref(m);
    for (size_t k = 0; k < UNIVERSE_MAX / 2; k++)
        assert_int_equal(putref(m, k, 1), 0);
    m->looks = 0;
    for (size_t k = 0; k < UNIVERSE_MAX; k++)
        EXPECT((mapref_get(&m->mref, m->key128[k]) != 0) == (k < UNIVERSE_MAX / 2));
    assert_in_range(m->looks, UNIVERSE_MAX / 2, UNIVERSE_MAX / 2 + 20);
    stopref(m);
    free(m);
}

static void map128_large(void **state)
{
    (void)state;
    large(&kind128);
}

static void map64_large(void **state)
{
    (void)state;
    large(&kind64);
}

/* After a reserve, that many puts must not ask for memory, from any state of the map. */
static void reserve_keeps_its_promise(void **state)
{
    (void)state;
    struct random r;
    seeded(&r, "reserve");
    for (size_t round = 0; round < 300; round++) {
        struct map128 m;
        map128_init(&m);
        size_t before = random_below(&r, 600), more = random_below(&r, 1500);
        for (uint64_t i = 1; i <= before; i++)
            assert_int_equal(map128_put(&m, (struct hash128){1, random_next(&r)}, i), 0);
        assert_int_equal(map128_reserve(&m, more), 0);
        mem_fail_at(1, 1);
        for (uint64_t i = 1; i <= more; i++)
            assert_int_equal(map128_put(&m, (struct hash128){2, random_next(&r)}, i), 0);
        mem_fail_at(0, 0);
        assert_int_equal(map128_count(&m), before + more);
        map128_done(&m);
    }
}

static void reserve_refuses_the_impossible(void **state)
{
    (void)state;
    struct map128 m;
    struct map64 n;
    map128_init(&m);
    map64_init(&n);
    assert_int_equal(map128_reserve(&m, SIZE_MAX), -ERR_NOMEM);
    assert_int_equal(map64_reserve(&n, SIZE_MAX / 2), -ERR_NOMEM);
    assert_int_equal(map128_put(&m, (struct hash128){1, 1}, 7), 0);
    assert_int_equal(map128_reserve(&m, SIZE_MAX), -ERR_NOMEM);
    assert_int_equal(map128_get(&m, (struct hash128){1, 1}), 7);
    map128_done(&m);
    map64_done(&n);
}

/* No call may do much: the moved slots of one put are a few plus the end of a cluster. */
static void a_put_moves_little(void **state)
{
    (void)state;
    struct random r;
    struct map128 m;
    seeded(&r, "bounded");
    map128_init(&m);
    size_t most = 0;
    for (uint64_t i = 1; i <= 300000; i++) {
        size_t old = m.old.used;
        assert_int_equal(map128_put(&m, (struct hash128){i, random_next(&r)}, i), 0);
        if (old > m.old.used && old - m.old.used > most)
            most = old - m.old.used;
    }
    assert_in_range(most, 5, 300);
    map128_done(&m);
}

static void empty_maps_answer(void **state)
{
    (void)state;
    struct map128 m;
    struct map64 n;
    map128_init(&m);
    map64_init(&n);
    assert_int_equal(map128_get(&m, (struct hash128){1, 2}), 0);
    assert_int_equal(map64_get(&n, 5), 0);
    map128_drop(&m, (struct hash128){1, 2});
    map64_drop(&n, 5);
    assert_int_equal(map128_count(&m), 0);
    assert_int_equal(map128_bytes(&m), 0);
    map128_done(&m);
    map64_done(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_maps_answer),
        cmocka_unit_test(map128_spread),
        cmocka_unit_test(map128_wrapping),
        cmocka_unit_test(map128_bunched),
        cmocka_unit_test(map64_spread),
        cmocka_unit_test(map64_dense),
        cmocka_unit_test(map64_stepped),
        cmocka_unit_test(mapref_spread),
        cmocka_unit_test(mapref_wrapping),
        cmocka_unit_test(mapref_bunched),
        cmocka_unit_test(mapref_large),
        cmocka_unit_test(a_key_changes_hands),
        cmocka_unit_test(records_are_seldom_looked_at),
        cmocka_unit_test(map128_large),
        cmocka_unit_test(map64_large),
        cmocka_unit_test(reserve_keeps_its_promise),
        cmocka_unit_test(reserve_refuses_the_impossible),
        cmocka_unit_test(a_put_moves_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
