/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the heap with a sorted array, across chunks, with removal in the middle and scrubbing.
 */
#include "unit/base/support.h"

#include "base/containers/heap.h"
#include "base/mem.h"

#define CHUNK_ENTRIES 131072

static int compare(const void *a, const void *b)
{
    const struct heap_entry *x = a, *y = b;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static bool same(struct heap_entry a, struct heap_entry b)
{
    return a.order == b.order && a.seq == b.seq;
}

static void assert_is_heap(const struct heap *h)
{
    for (size_t i = 1; i < h->len; i++) {
        struct heap_entry child = heap_at(h, i), parent = heap_at(h, (i - 1) / 4);
        EXPECT(compare(&parent, &child) <= 0);
    }
}

/* ---- against a model ------------------------------------------------------------------------ */

#define MODEL_MAX 3000

struct model {
    struct heap heap;
    struct heap_entry sorted[MODEL_MAX];
    size_t len;
};

static size_t model_find(const struct model *m, struct heap_entry e)
{
    size_t low = 0, high = m->len;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(&m->sorted[middle], &e) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void model_push(struct model *m, struct heap_entry e)
{
    EXPECT(heap_push(&m->heap, e) == 0);
    size_t at = model_find(m, e);
    memmove(&m->sorted[at + 1], &m->sorted[at], (m->len - at) * sizeof e);
    m->sorted[at] = e;
    m->len++;
}

static void model_take(struct model *m, struct heap_entry e)
{
    size_t at = model_find(m, e);
    EXPECT(at < m->len && same(m->sorted[at], e));
    m->len--;
    memmove(&m->sorted[at], &m->sorted[at + 1], (m->len - at) * sizeof e);
}

static void model_pop(struct model *m)
{
    struct heap_entry e;
    bool got = heap_pop(&m->heap, &e);
    EXPECT(got == (m->len > 0));
    if (got) {
        EXPECT(same(e, m->sorted[0]));
        model_take(m, e);
    }
}

static void model_remove(struct model *m, struct random *r)
{
    if (m->len == 0)
        return;
    size_t index = random_below(r, m->len);
    struct heap_entry e = heap_at(&m->heap, index);
    heap_remove(&m->heap, index);
    model_take(m, e);
}

struct scrub {
    struct model *model;
    struct random *random;
    uint64_t modulus;
    size_t looked;
};

static bool stale_cb(void *ctx, struct heap_entry e)
{
    struct scrub *s = ctx;
    s->looked++;
    if (e.seq % s->modulus != 0)
        return false;
    model_take(s->model, e);
    return true;
}

static void model_scrub(struct model *m, struct random *r)
{
    struct scrub s = {m, r, 1 + random_below(r, 20), 0};
    size_t budget = random_below(r, 100), len = m->len;
    heap_scrub(&m->heap, budget, stale_cb, &s);
    EXPECT(s.looked <= budget);
    EXPECT(s.looked == budget || m->len == 0 || len == 0);
}

/* Few different orders, so that equal ones are common and the sequence decides. */
static struct heap_entry entry_any(struct random *r, uint64_t seq)
{
    static const uint64_t orders[] = {0, 1, 2, 1u << 31, UINT64_MAX - 1, UINT64_MAX, 77, 78};
    uint64_t order = random_chance(r, 50) ? random_next(r) : orders[random_below(r, 8)];
    return (struct heap_entry){order, random_chance(r, 10) ? UINT64_MAX - seq : seq};
}

static void against_model(void **state)
{
    (void)state;
    struct random r;
    struct model *m = calloc(1, sizeof *m);
    seeded(&r, "heap");
    heap_init(&m->heap);
    unsigned growing = 60;
    for (uint64_t i = 0; i < 500000; i++) {
        if (i % 5000 == 0) {
            growing = (unsigned)random_between(&r, 30, 75);
            assert_is_heap(&m->heap);
        }
        if (random_chance(&r, growing) && m->len < MODEL_MAX)
            model_push(m, entry_any(&r, i));
        else if (random_chance(&r, 70))
            model_pop(m);
        else if (random_chance(&r, 90))
            model_remove(m, &r);
        else
            model_scrub(m, &r);
        EXPECT(m->heap.len == m->len);
        struct heap_entry top;
        EXPECT(heap_top(&m->heap, &top) == (m->len > 0));
        EXPECT(m->len == 0 || same(top, m->sorted[0]));
    }
    while (m->len > 0)
        model_pop(m);
    heap_done(&m->heap);
    free(m);
}

/* ---- many entries ---------------------------------------------------------------------------- */

static void across_chunks(void **state)
{
    (void)state;
    enum { N = 3 * CHUNK_ENTRIES + 1234 };
    struct random r;
    struct heap h;
    struct heap_entry *all = calloc(N, sizeof *all);
    seeded(&r, "across chunks");
    uint64_t counted = 7;
    heap_init(&h);
    heap_count_in(&h, &counted);
    for (size_t i = 0; i < N; i++) {
        all[i] = (struct heap_entry){random_below(&r, 1000), i};
        EXPECT(heap_push(&h, all[i]) == 0);
    }
    assert_is_heap(&h);
    qsort(all, N, sizeof *all, compare);
    size_t full = heap_bytes(&h);
    assert_int_equal(counted, full + 7);
    for (size_t i = 0; i < N; i++) {
        struct heap_entry e;
        EXPECT(heap_pop(&h, &e) && same(e, all[i]));
    }
    assert_true(heap_bytes(&h) < full / 2 + sizeof(struct heap_entry *) * 8);
    assert_int_equal(counted, heap_bytes(&h) + 7);
    heap_done(&h);
    assert_int_equal(counted, 7);
    free(all);
}

static void children_share_a_line(void **state)
{
    (void)state;
    struct heap h;
    heap_init(&h);
    for (uint64_t i = 0; i < 2 * CHUNK_ENTRIES; i++)
        EXPECT(heap_push(&h, (struct heap_entry){0, i}) == 0);
    for (size_t chunk = 0; chunk < h.chunk_count; chunk++)
        assert_int_equal((uintptr_t)h.chunks[chunk] % 64, 0);
    heap_done(&h);
}

static void few_entries_cost_little(void **state)
{
    (void)state;
    struct heap h;
    heap_init(&h);
    assert_int_equal(heap_bytes(&h), 0);
    for (uint64_t i = 0; i < 50; i++)
        assert_int_equal(heap_push(&h, (struct heap_entry){0, i}), 0);
    assert_true(heap_bytes(&h) <= 1100);
    heap_done(&h);
}

#define LEVELS_END 85 /* entries 1 … 84 are the three levels below the top */

static size_t level_of(size_t index)
{
    return index == 0 ? 0 : 1 + level_of((index - 1) / 4);
}

/* Whether e stood on this level among the entries of `all`. */
static bool stood_on(const struct heap_entry *all, size_t count, size_t level, struct heap_entry e)
{
    for (size_t i = 0; i < count; i++)
        if (level_of(i) == level && same(all[i], e))
            return true;
    return false;
}

/* After a pop whatever has come new to an upper level is known. */
static void newcomers_are_known(void **state)
{
    (void)state;
    struct random r;
    struct heap h;
    size_t newcomers = 0;
    seeded(&r, "risen");
    heap_init(&h);
    for (uint64_t i = 1; i <= 400; i++)
        assert_int_equal(heap_push(&h, (struct heap_entry){random_below(&r, 90), i}), 0);
    while (h.len > 0) {
        struct heap_entry before[LEVELS_END], e, risen;
        size_t count = h.len < LEVELS_END ? h.len : LEVELS_END;
        for (size_t i = 0; i < count; i++)
            before[i] = heap_at(&h, i);
        EXPECT(heap_pop(&h, &e));
        for (size_t i = 1; i < h.len && i < LEVELS_END; i++) {
            size_t level = level_of(i);
            e = heap_at(&h, i);
            bool known = heap_risen(&h, level, &risen) && same(risen, e);
            bool fresh = !stood_on(before, count, level, e);
            EXPECT(known || !fresh);
            newcomers += fresh;
        }
    }
    EXPECT(!heap_risen(&h, 1, &(struct heap_entry){0, 0}));
    assert_in_range(newcomers, 800, 1200);
    heap_done(&h);
}

static void fifo_at_equal_order(void **state)
{
    (void)state;
    struct heap h;
    struct heap_entry e;
    heap_init(&h);
    for (uint64_t i = 0; i < 5000; i++)
        assert_int_equal(heap_push(&h, (struct heap_entry){heap_order_desc(7), i}), 0);
    for (uint64_t i = 0; i < 5000; i++) {
        assert_true(heap_pop(&h, &e));
        assert_int_equal(e.seq, i);
    }
    assert_false(heap_pop(&h, &e));
    assert_false(heap_top(&h, &e));
    heap_done(&h);
}

static void orders_keep_signed_order(void **state)
{
    (void)state;
    static const int64_t v[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    for (size_t i = 1; i < COUNT_OF(v); i++) {
        assert_true(heap_order_of(v[i - 1]) < heap_order_of(v[i]));
        assert_true(heap_order_desc(v[i - 1]) > heap_order_desc(v[i]));
    }
}

/* ---- telling where entries are --------------------------------------------------------------- */

#define TOLD_MAX 4000

struct told {
    struct heap heap;
    size_t index[TOLD_MAX]; /* of the entry with this sequence, as told */
    uint64_t live[TOLD_MAX];
    size_t count;
};

static void moved_cb(void *ctx, struct heap_entry e, size_t index)
{
    struct told *t = ctx;
    t->index[e.seq] = index;
}

static void told_forget(struct told *t, uint64_t seq)
{
    for (size_t k = 0; k < t->count; k++) {
        if (t->live[k] == seq) {
            t->live[k] = t->live[--t->count];
            return;
        }
    }
    fail_msg("sequence %llu was not there", (unsigned long long)seq);
}

/* After every call each live entry is where its owner was told, so that it can be taken out. */
static void owners_know_the_index(void **state)
{
    (void)state;
    struct random r;
    struct told *t = calloc(1, sizeof *t);
    struct heap_entry e;
    seeded(&r, "told");
    for (int round = 0; round < 20; round++) {
        heap_init(&t->heap);
        t->heap.moved = moved_cb;
        t->heap.moved_ctx = t;
        t->count = 0;
        for (uint64_t seq = 0; seq < TOLD_MAX; seq++) {
            EXPECT(heap_push(&t->heap, (struct heap_entry){random_below(&r, 500), seq}) == 0);
            t->live[t->count++] = seq;
            if (random_chance(&r, 45)) {
                uint64_t victim = t->live[random_below(&r, t->count)];
                EXPECT(heap_at(&t->heap, t->index[victim]).seq == victim);
                heap_remove(&t->heap, t->index[victim]);
                told_forget(t, victim);
            }
            if (random_chance(&r, 45) && heap_pop(&t->heap, &e))
                told_forget(t, e.seq);
            for (size_t k = 0; k < t->count; k += 1 + t->count / 50)
                EXPECT(heap_at(&t->heap, t->index[t->live[k]]).seq == t->live[k]);
        }
        EXPECT(t->heap.len == t->count);
        assert_is_heap(&t->heap);
        heap_done(&t->heap);
    }
    free(t);
}

/* ---- promises -------------------------------------------------------------------------------- */

/* Also when pops and scrubs come in between, which give memory back. */
static void reserve_keeps_its_promise(void **state)
{
    (void)state;
    struct heap h;
    struct heap_entry e;
    heap_init(&h);
    for (uint64_t i = 0; i < CHUNK_ENTRIES; i++)
        EXPECT(heap_push(&h, (struct heap_entry){0, i}) == 0);
    enum { MORE = 4 * CHUNK_ENTRIES };
    assert_int_equal(heap_reserve(&h, MORE), 0);
    mem_fail_at(1, 1);
    while (heap_pop(&h, &e))
        continue;
    for (uint64_t i = 0; i < MORE; i++)
        EXPECT(heap_push(&h, (struct heap_entry){1, i}) == 0);
    mem_fail_at(0, 0);
    assert_int_equal(h.len, MORE);
    assert_int_equal(heap_reserve(&h, SIZE_MAX), -ERR_NOMEM);
    assert_int_equal(heap_reserve(&h, SIZE_MAX / 16), -ERR_NOMEM);
    heap_done(&h);
}

static bool odd_cb(void *ctx, struct heap_entry e)
{
    ++*(size_t *)ctx;
    return e.seq % 2 == 1;
}

/* A look for each entry, and one more for each that is removed, find every stale one: an entry that
 * rises out of the way is looked at twice. */
static void one_pass_finds_all(void **state)
{
    (void)state;
    struct random r;
    seeded(&r, "one pass");
    for (int round = 0; round < 200; round++) {
        struct heap h;
        size_t looks = 0, n = 1 + random_below(&r, 2000);
        heap_init(&h);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(heap_push(&h, entry_any(&r, i)), 0);
        h.scrub_at = SIZE_MAX;
        while (h.len > 0 && looks < n + (n - h.len))
            heap_scrub(&h, 1, odd_cb, &looks);
        for (size_t i = 0; i < h.len; i++)
            EXPECT(heap_at(&h, i).seq % 2 == 0);
        assert_is_heap(&h);
        heap_done(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_model),         cmocka_unit_test(across_chunks),
        cmocka_unit_test(children_share_a_line), cmocka_unit_test(few_entries_cost_little),
        cmocka_unit_test(fifo_at_equal_order),   cmocka_unit_test(orders_keep_signed_order),
        cmocka_unit_test(owners_know_the_index), cmocka_unit_test(reserve_keeps_its_promise),
        cmocka_unit_test(one_pass_finds_all),    cmocka_unit_test(newcomers_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
