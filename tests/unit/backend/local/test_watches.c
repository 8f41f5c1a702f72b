/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: found by name, removed from inside a signal, and no slower for those of other names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/local/watches.h"
#include "base/mem.h"

struct seat {
    struct watches *watches;
    struct backend_watch *watch;
    struct seat *leaves; /* removed by this one's signal */
    unsigned signals;
};

static void signal_cb(void *ctx)
{
    struct seat *s = ctx;
    s->signals++;
    if (s->leaves && s->leaves->watch) {
        watches_remove(s->watches, s->leaves->watch);
        s->leaves->watch = NULL;
    }
}

static struct hash128 name_of(uint64_t n)
{
    return hash128_of((struct hash_key){1, 2}, span_of(&n, sizeof n));
}

static void sit(struct watches *w, struct seat *s, uint64_t name)
{
    *s = (struct seat){.watches = w};
    assert_int_equal(watches_add(w, name_of(name), signal_cb, s, &s->watch), 0);
}

static void test_signals_reach_their_name_only(void **state)
{
    (void)state;
    struct watches w;
    struct seat a[3], b;
    watches_init(&w);
    for (size_t i = 0; i < 3; i++)
        sit(&w, &a[i], 1);
    sit(&w, &b, 2);
    watches_signal(&w, name_of(1));
    watches_signal(&w, name_of(3));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(a[i].signals, 1);
    assert_int_equal(b.signals, 0);
    /* The one the name leads to goes, then another: the rest are still found. */
    watches_remove(&w, a[0].watch);
    watches_signal(&w, name_of(1));
    watches_remove(&w, a[2].watch);
    watches_signal(&w, name_of(1));
    assert_int_equal(a[0].signals, 1);
    assert_int_equal(a[1].signals, 3);
    assert_int_equal(a[2].signals, 2);
    watches_remove(&w, a[1].watch);
    watches_signal(&w, name_of(1));
    assert_int_equal(a[1].signals, 3);
    watches_done(&w);
}

static void test_removed_inside_a_signal(void **state)
{
    (void)state;
    struct watches w;
    struct seat s[3];
    watches_init(&w);
    for (size_t i = 0; i < 3; i++)
        sit(&w, &s[i], 1);
    s[0].leaves = &s[0];
    s[1].leaves = &s[2];
    s[2].leaves = &s[1];
    watches_signal(&w, name_of(1));
    assert_int_equal(s[0].signals, 1);
    assert_int_equal(s[1].signals + s[2].signals, 1); /* the one that came first */
    watches_signal(&w, name_of(1));
    assert_int_equal(s[0].signals, 1);
    assert_int_equal(s[1].signals + s[2].signals, 2);
    watches_done(&w);
}

/* A walk over all of them for each signal and each removal would be ten billion steps. */
static void test_many_names(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    struct watches w;
    struct seat *seats = mem_array(MANY, sizeof *seats);
    assert_non_null(seats);
    watches_init(&w);
    for (uint64_t i = 0; i < MANY; i++)
        sit(&w, &seats[i], i);
    for (uint64_t i = 0; i < MANY; i++)
        watches_signal(&w, name_of(i));
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(seats[i].signals, 1);
        watches_remove(&w, seats[i].watch);
    }
    watches_done(&w);
    mem_free(seats);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct watches w;
    struct backend_watch *watch;
    watches_init(&w);
    for (long nth = 1; nth <= 2; nth++) {
        mem_fail_at(nth, 0);
        assert_int_equal(watches_add(&w, name_of(1), signal_cb, NULL, &watch), -ERR_NOMEM);
        mem_fail_at(0, 0);
        watches_signal(&w, name_of(1));
    }
    watches_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals_reach_their_name_only),
        cmocka_unit_test(test_removed_inside_a_signal),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
