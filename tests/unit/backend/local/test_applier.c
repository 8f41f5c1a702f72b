/* SPDX-License-Identifier: Apache-2.0 */
/* When the sweeper sweeps: what becomes durable during a sweep waits its own 750 ms, and nothing is
 * forgotten that a sweep read before its notice came. After a long sweep the next one takes its
 * time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "backend/local/applier.h"
#include "base/system/clock.h"
#include "unit/backend/local/journal/journal_rig.h"
#include "unit/backend/local/sqlite/store_rig.h"

struct world {
    struct store base; /* takes anything */
    struct store_meta meta;
    struct rig_dir dir;
    struct journal *j;
    struct applier *a;
    uint64_t next;    /* position */
    bool more;        /* the next sweep sees another entry come */
    uint64_t slow_ns; /* that a sweep takes */
    atomic_int full;
    atomic_size_t least; /* fewer frames find no room */
    uv_sem_t swept, tidied;
    atomic_int said; /* "disk_full" */
    struct clock_manual clock;
    struct log log;
};

/* One more entry; returns its position. */
static uint64_t append(struct world *w)
{
    struct err_note note = {""};
    struct buf bytes;
    buf_init(&bytes);
    journal_rig_frame(&bytes, w->next, 1, 100, 7);
    struct span frame = buf_span(&bytes);
    assert_int_equal(journal_append(w->j, &frame, 1, &note), 0);
    buf_done(&bytes);
    return w->next++;
}

static const struct store_meta *world_meta(struct store *s)
{
    return &((struct world *)s)->meta;
}

static int world_apply(struct store *s, const struct span *frames, size_t count,
                       struct err_note *note)
{
    struct world *w = (struct world *)s;
    (void)frames;
    if (atomic_load(&w->full) > 0 && atomic_fetch_sub(&w->full, 1) > 0)
        return err_note_set(note, -ERR_NO_SPACE, "full");
    if (count < atomic_load(&w->least))
        return err_note_set(note, -ERR_NO_SPACE, "too much of it is left");
    w->meta.position += count;
    for (uint64_t began = clock_ns(); clock_ns() - began < w->slow_ns;) {
        /* it takes this long */
    }
    if (w->more)
        applier_synced(w->a, append(w), 4096);
    w->more = false;
    return 0;
}

static int world_tidy(struct store *s, bool *more, struct err_note *note)
{
    (void)note;
    *more = false;
    uv_sem_post(&((struct world *)s)->tidied);
    return 0;
}

static const struct store_ops world_ops = {
    .kind = "test", .meta = world_meta, .apply = world_apply, .tidy = world_tidy};

static void swept_cb(void *ctx)
{
    uv_sem_post(&((struct world *)ctx)->swept);
}

static void log_cb(void *ctx, const char *line, size_t len)
{
    struct world *w = ctx;
    atomic_fetch_add(&w->said, memmem(line, len, "disk_full", 9) != NULL);
}

static void world_begin(struct world *w)
{
    struct err_note note = {""};

    *w = (struct world){.base = {&world_ops}, .next = 1};
    rig_dir_make(&w->dir);
    struct journal_config config = {.segment_bytes = 1 << 20, .store_id = "0123456789abcde"};
    assert_int_equal(files_open_dir(w->dir.path, true, false, &config.files, &note), 0);
    assert_int_equal(journal_open(&config, NULL, NULL, &w->j, &note), 0);
    assert_int_equal(journal_begin(w->j, &note), 0);
    assert_int_equal(uv_sem_init(&w->swept, 0) + uv_sem_init(&w->tidied, 0), 0);
    w->log = (struct log){.write = log_cb, .ctx = w, .clock = clock_manual(&w->clock)};
    struct applier_config applier = {
        .store = &w->base, .journal = w->j, .log = &w->log, .ctx = w, .notify = swept_cb};
    assert_int_equal(applier_start(&applier, &w->a), 0);
}

static void world_end(struct world *w)
{
    applier_stop(w->a);
    journal_close(w->j);
    uv_sem_destroy(&w->swept);
    uv_sem_destroy(&w->tidied);
    rig_dir_remove(&w->dir);
}

static struct applier_state state_of(struct world *w)
{
    struct applier_state state;
    applier_state(w->a, &state);
    return state;
}

/* Under load something new is durable after every sweep: that must not make the next one due. */
static void test_newer_records_wait_their_own_time(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    w.more = true;
    applier_synced(w.a, append(&w), 4096);
    while (state_of(&w).unapplied_ms < 20) {
        /* the first record grows old */
    }
    uint64_t asked = clock_ns();
    applier_want(w.a, 1);
    uv_sem_wait(&w.swept);
    struct applier_state at = state_of(&w);
    assert_int_equal(at.applied, 1);
    assert_true(at.unapplied_ms <= (clock_ns() - asked) / 1000000);
    uv_sem_wait(&w.swept); /* no one asks for the second */
    assert_int_equal(state_of(&w).applied, 2);
    assert_true(clock_ns() - asked >= UINT64_C(750000000));
    world_end(&w);
}

/* Others get three quarters of the time, unless somebody waits for what is to be swept. */
static void test_long_sweeps_come_less_often(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    w.more = true;
    w.slow_ns = UINT64_C(250000000);
    uint64_t began = clock_ns();
    applier_synced(w.a, append(&w), 4096);
    applier_want(w.a, 1);
    uv_sem_wait(&w.swept);
    assert_int_equal(state_of(&w).applied, 1);
    uv_sem_wait(&w.swept);
    assert_int_equal(state_of(&w).applied, 2);
    assert_true(clock_ns() - began >= 5 * w.slow_ns);
    applier_synced(w.a, append(&w), 4096);
    applier_want(w.a, 3);
    uv_sem_wait(&w.swept);
    assert_int_equal(state_of(&w).applied, 3);
    world_end(&w);
}

/* The sweep reads an entry that is synced before the writer gets to say so. */
static void test_swept_before_the_notice(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    applier_synced(w.a, append(&w), 4096);
    uint64_t second = append(&w);
    while (uv_sem_trywait(&w.tidied) == 0) {
        /* earlier ones */
    }
    applier_want(w.a, 1);
    uv_sem_wait(&w.swept);
    assert_int_equal(state_of(&w).applied, second);
    applier_synced(w.a, second, 4096);
    uv_sem_wait(&w.tidied); /* after a second of silence; then it sleeps */
    assert_int_equal(state_of(&w).unapplied_ms, 0);
    applier_synced(w.a, append(&w), 4096);
    uv_sem_wait(&w.swept); /* it woke for this one */
    assert_int_equal(state_of(&w).applied, 3);
    world_end(&w);
}

static void test_full_is_said_once(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    atomic_store(&w.full, 3);
    applier_synced(w.a, append(&w), 4096);
    applier_want(w.a, 1);
    for (int i = 0; i < 4; i++)
        uv_sem_wait(&w.swept);
    assert_int_equal(state_of(&w).applied, 1);
    assert_int_equal(atomic_load(&w.said), 1);
    world_end(&w);
}

/* Jobs that find no room end before they are swept: with the records that end them they do. */
static void test_room_by_what_came_later(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    atomic_store(&w.least, 40);
    for (int i = 0; i < 20; i++)
        applier_synced(w.a, append(&w), 4096);
    applier_want(w.a, 1);
    while (!state_of(&w).full)
        uv_sem_wait(&w.swept);
    for (int i = 0; i < 20; i++)
        applier_synced(w.a, append(&w), 4096);
    for (int tries = 0; tries < 20 && state_of(&w).applied == 0; tries++)
        uv_sem_wait(&w.swept);
    assert_int_equal(state_of(&w).applied, 40);
    atomic_store(&w.least, 0);
    applier_synced(w.a, append(&w), 4096);
    applier_want(w.a, 41);
    while (state_of(&w).applied < 41)
        uv_sem_wait(&w.swept);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newer_records_wait_their_own_time),
        cmocka_unit_test(test_long_sweeps_come_less_often),
        cmocka_unit_test(test_swept_before_the_notice),
        cmocka_unit_test(test_full_is_said_once),
        cmocka_unit_test(test_room_by_what_came_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
