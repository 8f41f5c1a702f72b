/* SPDX-License-Identifier: Apache-2.0 */
/* The roster against a plain sorted array; and that reserved keys need no memory. */
#include "unit/base/support.h"

#include "base/containers/roster.h"
#include "base/mem.h"

#define KEYS 6000

struct model {
    struct roster r;
    struct roster_key keys[KEYS];
    size_t count;
};

static int order(struct roster_key a, struct roster_key b)
{
    if (a.hi != b.hi)
        return a.hi < b.hi ? -1 : 1;
    return a.lo < b.lo ? -1 : a.lo > b.lo;
}

static size_t rank_of(const struct model *m, struct roster_key key)
{
    size_t at = 0;
    while (at < m->count && order(m->keys[at], key) < 0)
        at++;
    return at;
}

static void add(struct model *m, struct roster_key key)
{
    size_t at = rank_of(m, key);
    if (m->count == KEYS || (at < m->count && order(m->keys[at], key) == 0))
        return;
    EXPECT(roster_reserve(&m->r, 1) == 0);
    mem_fail_at(1, 1);
    roster_add(&m->r, key);
    mem_fail_at(0, 0);
    memmove(m->keys + at + 1, m->keys + at, (m->count - at) * sizeof *m->keys);
    m->keys[at] = key;
    m->count++;
}

static void drop(struct model *m, size_t from, size_t to)
{
    if (from >= to)
        return;
    struct roster_key end = to < m->count ? m->keys[to] : (struct roster_key){UINT64_MAX, 0};
    if (to == from + 1)
        roster_remove(&m->r, m->keys[from]);
    else
        roster_remove_range(&m->r, m->keys[from], end);
    memmove(m->keys + from, m->keys + to, (m->count - to) * sizeof *m->keys);
    m->count -= to - from;
}

static void compare(struct model *m, struct random *random)
{
    struct roster_key key, other = {random_below(random, 5), random_below(random, 3 * KEYS)};
    assert_int_equal(m->r.count, m->count);
    size_t at = m->count ? random_below(random, m->count) : 0;
    struct roster_place place = roster_seek(&m->r, at);
    for (size_t i = at; i < m->count; i++) {
        EXPECT(roster_next(&m->r, &place, &key));
        EXPECT(order(key, m->keys[i]) == 0);
    }
    EXPECT(!roster_next(&m->r, &place, &key));
    EXPECT(roster_rank(&m->r, other) == rank_of(m, other));
    EXPECT(m->count == 0 || roster_rank(&m->r, m->keys[at]) == at);
    EXPECT(m->count == 0 || roster_has(&m->r, m->keys[at]));
    size_t near = rank_of(m, other);
    EXPECT(roster_has(&m->r, other) == (near < m->count && order(m->keys[near], other) == 0));
}

/* In order, as sequences come, and anywhere; taken out one by one and by ranges. */
static void run(struct random *random, unsigned adding, bool in_order)
{
    struct model *m = calloc(1, sizeof *m);
    m->r = (struct roster){0};
    uint64_t next = 0;
    for (int i = 0; i < 40000; i++) {
        struct roster_key key = {random_below(random, 4), random_below(random, 3 * KEYS)};
        if (in_order)
            key = (struct roster_key){key.hi, ++next};
        if (random_chance(random, i < 20000 ? adding : 100 - adding))
            add(m, key);
        else if (m->count)
            drop(m, 0, 1 + random_below(random, 3) % m->count);
        if (i % 97 == 0 && m->count)
            drop(m, random_below(random, m->count), m->count);
        if (i % 50 == 0)
            compare(m, random);
    }
    drop(m, 0, m->count);
    compare(m, random);
    EXPECT(m->r.slot_count == 0);
    roster_done(&m->r);
    free(m);
}

static void against_model(void **state)
{
    (void)state;
    struct random random;
    seeded(&random, "roster");
    run(&random, 90, true);
    run(&random, 90, false);
    run(&random, 60, false);
}

static void full_in_order(void **state)
{
    (void)state;
    struct roster r;
    uint64_t counted = 7;
    r = (struct roster){0};
    roster_count_in(&r, &counted);
    for (uint64_t i = 0; i < 255 * 40; i++) {
        assert_int_equal(roster_reserve(&r, 1), 0);
        roster_add(&r, (struct roster_key){1, i});
    }
    assert_int_equal(r.slot_count, 40); /* no chunk half empty */
    assert_true(roster_bytes(&r) > 255 * 40 * sizeof(struct roster_key));
    assert_int_equal(counted, roster_bytes(&r) + 7);
    roster_remove_range(&r, (struct roster_key){1, 9}, (struct roster_key){2, 0});
    assert_int_equal(counted, roster_bytes(&r) + 7);
    roster_done(&r);
    assert_int_equal(counted, 7);
}

static void no_memory(void **state)
{
    (void)state;
    struct roster r;
    r = (struct roster){0};
    for (int nth = 1; nth < 3; nth++) {
        mem_fail_at(nth, 0);
        assert_int_equal(roster_reserve(&r, 4), -ERR_NOMEM);
        mem_fail_at(0, 0);
    }
    assert_int_equal(roster_reserve(&r, 4), 0);
    roster_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_model),
        cmocka_unit_test(full_in_order),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
