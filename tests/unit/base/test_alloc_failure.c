/* SPDX-License-Identifier: Apache-2.0 */
/* Every module of base that allocates, with the nth allocation failing, for every n: the failed
 * call reports it and changes nothing, the same call succeeds when memory is available again, and
 * nothing leaks (the sanitizer checks that). */
#include "unit/base/support.h"

#include "base/buf.h"
#include "base/containers/arena.h"
#include "base/containers/heap.h"
#include "base/containers/map.h"
#include "base/containers/seqdir.h"
#include "base/containers/slab.h"
#include "base/json/json.h"
#include "base/mem.h"

/* One run of a scenario: which allocation fails, and whether that has happened. */
struct fault {
    bool met;
};

typedef void (*scenario_fn)(struct fault *f);

static void sweep(scenario_fn scenario)
{
    struct fault f = {.met = true};
    for (int lasting = 0; lasting <= 1; lasting++) {
        long n = 0;
        do {
            f.met = false;
            mem_fail_at(++n, lasting);
            scenario(&f);
            mem_fail_at(0, 0);
            assert_true(n < 10000);
        } while (f.met);
        assert_true(n > 1);
    }
}

/* True if the call failed for lack of memory; then memory is available again for the next attempt.
 */
static bool ran_out(struct fault *f, int result)
{
    if (result == 0)
        return false;
    assert_int_equal(result, -ERR_NOMEM);
    assert_false(f->met);
    f->met = true;
    mem_fail_at(0, 0);
    return true;
}

static void buf_scenario(struct fault *f)
{
    struct buf b;
    char expected[1000];
    size_t len = 0;
    buf_init(&b);
    for (int i = 0; i < 40; i++) {
        if (ran_out(f, buf_printf(&b, "line %d;", i))) {
            assert_true(span_equal(buf_span(&b), span_of(expected, len)));
            assert_int_equal(buf_printf(&b, "line %d;", i), 0);
        }
        len += (size_t)snprintf(expected + len, sizeof expected - len, "line %d;", i);
        if (ran_out(f, buf_append(&b, "0123456789", 10))) {
            assert_true(span_equal(buf_span(&b), span_of(expected, len)));
            assert_int_equal(buf_append(&b, "0123456789", 10), 0);
        }
        memcpy(expected + len, "0123456789", 10);
        len += 10;
        assert_true(span_equal(buf_span(&b), span_of(expected, len)));
    }
    buf_done(&b);
}

static void arena_scenario(struct fault *f)
{
    struct arena a;
    unsigned char *piece[60];
    arena_init(&a);
    for (size_t i = 0; i < 60; i++) {
        size_t size = 1 + i * i * 3;
        piece[i] = arena_alloc(&a, size);
        if (ran_out(f, piece[i] ? 0 : -ERR_NOMEM))
            piece[i] = arena_alloc(&a, size);
        assert_non_null(piece[i]);
        memset(piece[i], (int)i, size);
    }
    for (size_t i = 0; i < 60; i++)
        assert_true(piece[i][0] == i && piece[i][i * i * 3] == i);
    arena_done(&a);
}

static void slab_scenario(struct fault *f)
{
    struct slab s;
    slab_init(&s, 400000);
    for (uint32_t i = 1; i <= 50; i++) {
        if (i % 10 == 0 && ran_out(f, slab_reserve(&s, 15))) {
            assert_int_equal(s.used, i - 1);
            assert_int_equal(slab_reserve(&s, 15), 0);
        }
        uint32_t handle = slab_take(&s);
        if (ran_out(f, handle ? 0 : -ERR_NOMEM)) {
            assert_int_equal(s.used, i - 1);
            handle = slab_take(&s);
        }
        assert_int_equal(handle, i);
        *(uint32_t *)slab_at(&s, handle) = i * 3;
    }
    for (uint32_t i = 1; i <= 50; i++)
        assert_int_equal(*(uint32_t *)slab_at(&s, i), i * 3);
    slab_done(&s);
}

static struct hash128 key128(uint64_t i)
{
    return (struct hash128){i, i * UINT64_C(0x9e3779b97f4a7c15)};
}

static void map128_compare(const struct map128 *m, uint64_t first, uint64_t end, uint64_t total)
{
    assert_int_equal(map128_count(m), end - first);
    for (uint64_t i = 0; i < total; i++)
        EXPECT(map128_get(m, key128(i)) == (i >= first && i < end ? i + 1 : 0));
}

static void map128_scenario(struct fault *f)
{
    enum { N = 400 };
    struct map128 m;
    map128_init(&m);
    uint64_t first = 0;
    for (uint64_t i = 0; i < N; i++) {
        if (ran_out(f, map128_put(&m, key128(i), i + 1))) {
            map128_compare(&m, first, i, N);
            assert_int_equal(map128_put(&m, key128(i), i + 1), 0);
        }
        if (i % 5 == 4)
            map128_drop(&m, key128(first++));
        if (i % 100 == 50 && ran_out(f, map128_reserve(&m, 300)))
            map128_compare(&m, first, i + 1, N);
    }
    map128_compare(&m, first, N, N);
    map128_done(&m);
}

static void map64_scenario(struct fault *f)
{
    enum { N = 400 };
    struct map64 m;
    map64_init(&m);
    for (uint64_t i = 1; i <= N; i++) {
        if (ran_out(f, map64_put(&m, i, (uint32_t)i * 2))) {
            assert_int_equal(map64_count(&m), i - 1);
            assert_int_equal(map64_get(&m, i), 0);
            assert_int_equal(map64_put(&m, i, (uint32_t)i * 2), 0);
        }
    }
    for (uint64_t i = 1; i <= N; i++)
        EXPECT(map64_get(&m, i) == i * 2);
    map64_done(&m);
}

static void seqdir_scenario(struct fault *f)
{
    enum { N = 20000, STEP = 40 };
    struct seqdir d;
    seqdir_init(&d);
    for (uint32_t i = 1; i <= N; i++) {
        if (i % 5000 == 0 && ran_out(f, seqdir_reserve(&d, 4000)))
            assert_int_equal(d.count, i - 1);
        if (ran_out(f, seqdir_put(&d, i * STEP, i))) {
            assert_int_equal(d.count, i - 1);
            assert_int_equal(seqdir_get(&d, i * STEP), 0);
            assert_int_equal(seqdir_put(&d, i * STEP, i), 0);
        }
    }
    for (uint32_t i = 1; i <= N; i++)
        EXPECT(seqdir_get(&d, i * STEP) == i);
    for (uint32_t i = 1; i <= N; i++)
        seqdir_drop(&d, i * STEP);
    assert_int_equal(d.slab.used, 0);
    seqdir_done(&d);
}

static void heap_scenario(struct fault *f)
{
    enum { N = 150000 };
    struct heap h;
    struct heap_entry e;
    heap_init(&h);
    for (uint64_t i = 0; i < N; i++) {
        if (i == 1000 && ran_out(f, heap_reserve(&h, 140000)))
            assert_int_equal(h.len, i);
        if (ran_out(f, heap_push(&h, (struct heap_entry){0, N - i}))) {
            assert_int_equal(h.len, i);
            assert_int_equal(heap_push(&h, (struct heap_entry){0, N - i}), 0);
        }
    }
    for (uint64_t i = 1; i <= N; i++)
        EXPECT(heap_pop(&h, &e) && e.seq == i);
    heap_done(&h);
}

static void writer_scenario(struct fault *f)
{
    struct buf b;
    struct json_writer w;
    int r;
    buf_init(&b);
    do {
        buf_clear(&b);
        json_writer_init(&w, &b);
        json_write_array(&w);
        for (int i = 0; i < 30; i++) {
            json_write_object(&w);
            json_write_key(&w, "key");
            json_write_text(&w, SPAN_LITERAL("text \n \xff"));
            json_write_key(&w, "n");
            json_write_int(&w, i);
            json_write_object_end(&w);
        }
        json_write_array_end(&w);
        r = json_writer_finish(&w);
    } while (ran_out(f, r));
    assert_int_equal(json_check(buf_span(&b), NULL, NULL), 0);
    buf_done(&b);
}

static int count_cb(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct span range;
    (void)name;
    ++*(size_t *)ctx;
    return json_skip(r, value, &range);
}

static void object_scenario(struct fault *f)
{
    static char text[20000];
    size_t len = (size_t)snprintf(text, sizeof text, "{");
    for (int i = 0; i < 600; i++)
        len +=
            (size_t)snprintf(text + len, sizeof text - len, "%s\"\\u0041%d\":[]", i ? "," : "", i);
    len += (size_t)snprintf(text + len, sizeof text - len, "}");
    struct arena a;
    struct json_reader r;
    size_t members;
    int result;
    arena_init(&a);
    do {
        members = 0;
        json_open(&r, span_of(text, len));
        result = json_object(&r, &a, count_cb, &members);
    } while (ran_out(f, result));
    assert_int_equal(members, 600);
    arena_done(&a);
}

#define SWEEP(module)                                                                              \
    static void module(void **state)                                                               \
    {                                                                                              \
        (void)state;                                                                               \
        sweep(module##_scenario);                                                                  \
    }
SWEEP(buf)
SWEEP(arena)
SWEEP(slab)
SWEEP(map128)
SWEEP(map64)
SWEEP(seqdir)
SWEEP(heap)
SWEEP(writer)
SWEEP(object)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf),    cmocka_unit_test(arena),  cmocka_unit_test(slab),
        cmocka_unit_test(map128), cmocka_unit_test(map64),  cmocka_unit_test(seqdir),
        cmocka_unit_test(heap),   cmocka_unit_test(writer), cmocka_unit_test(object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
