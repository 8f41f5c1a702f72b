/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that reads the store: how much it reads while the loop takes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/local/reader.h"

#define QUESTIONS 40
#define BODY_BYTES ((size_t)8 << 20)

struct slow_loop {
    struct store_reader reader;
    atomic_size_t unanswered; /* bodies that were read and not taken */
    atomic_size_t most;       /* of them */
    atomic_uint notified;
};

static int read_body(struct store_reader *r, const struct store_query *query, struct arena *arena,
                     struct stored_body *bodies)
{
    struct slow_loop *l = (struct slow_loop *)r;
    char *body = arena_alloc(arena, BODY_BYTES);
    assert_int_equal(query->count, 1);
    assert_non_null(body);
    bodies[0].payload = span_of(body, BODY_BYTES);
    size_t now = atomic_fetch_add(&l->unanswered, 1) + 1;
    if (now > atomic_load(&l->most))
        atomic_store(&l->most, now);
    return 0;
}

static void reader_close(struct store_reader *r)
{
    (void)r;
}

static void notify_cb(void *ctx)
{
    struct slow_loop *l = ctx;
    atomic_fetch_add(&l->notified, 1);
}

static void wait_for(atomic_uint *counter, unsigned least)
{
    while (atomic_load(counter) < least)
        usleep(1000);
}

/* A reader that has as many answers as it may keep, and more questions. */
static struct reader *full_reader(struct slow_loop *l)
{
    static const struct store_reader_ops ops = {.read = read_body, .close = reader_close};
    static const uint64_t seq = 1;
    struct store_query query = {.seqs = &seq, .count = 1};
    struct reader *r;
    l->reader.ops = &ops;
    assert_int_equal(reader_start(&l->reader, notify_cb, l, &r), 0);
    for (int i = 0; i < QUESTIONS; i++)
        assert_int_equal(reader_ask(r, NULL, &query), 0);
    wait_for(&l->notified, READER_BYTES_MAX / BODY_BYTES);
    return r;
}

/* The pause gives a reader that does not stop the time to show it. */
static void test_answers_that_wait_are_bounded(void **state)
{
    (void)state;
    static struct slow_loop l;
    unsigned taken = 0;
    struct reader *r = full_reader(&l);
    usleep(100000);
    while (taken < QUESTIONS) {
        wait_for(&l.notified, taken + 1);
        struct reader_job *j = reader_done(r);
        assert_non_null(j);
        atomic_fetch_sub(&l.unanswered, 1);
        assert_int_equal(j->bodies[0].payload.len, BODY_BYTES);
        reader_job_free(j);
        taken++;
    }
    assert_in_range(l.most, 1, READER_BYTES_MAX / BODY_BYTES + 1);
    reader_stop(r);
}

/* Also one that waits for the loop to take something. */
static void test_stops_when_full(void **state)
{
    (void)state;
    static struct slow_loop l;
    struct reader *r = full_reader(&l);
    reader_stop(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_that_wait_are_bounded),
        cmocka_unit_test(test_stops_when_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
