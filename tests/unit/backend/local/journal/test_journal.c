/* SPDX-License-Identifier: Apache-2.0 */
/* The journal in good health, on a real directory: what is appended is read, by the sweeper and
 * after a restart; segments are used again; a journal that is full waits for the store. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/backend/local/journal/journal_rig.h"
#include "unit/backend/local/sqlite/store_rig.h"

#define SEGMENT (64u << 10)

struct world {
    struct rig_dir dir;
    struct journal *j;
    struct journal_rig_log log;
    struct journal_config config;
    size_t given; /* frames that recovery gave */
};

static void must(int rc, const struct err_note *note)
{
    if (rc != 0)
        fail_msg("%s: %s", err_name(rc), note->text);
}

static int frame_given_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
                          struct err_note *note)
{
    struct world *w = ctx;
    (void)note;
    while (w->log.frames[w->given].last <= w->config.applied)
        w->given++;
    assert_true(w->given < w->log.count);
    assert_int_equal(first, w->log.frames[w->given].first);
    assert_int_equal(last, w->log.frames[w->given].last);
    assert_true(span_equal(frame, journal_rig_log_frame(&w->log, w->given)));
    w->given++;
    return 0;
}

static int world_try(struct world *w, struct err_note *note)
{
    must(files_open_dir(w->dir.path, true, false, &w->config.files, note), note);
    w->given = 0;
    return journal_open(&w->config, frame_given_cb, w, &w->j, note);
}

/* Opens what is there, and expects all of it. */
static void world_open(struct world *w)
{
    struct err_note note = {""};
    must(world_try(w, &note), &note);
    uint64_t last = w->log.count ? w->log.frames[w->log.count - 1].last : w->config.from;
    assert_int_equal(journal_position(w->j), last);
    if (w->config.applied < last)
        assert_int_equal(w->given, w->log.count);
    must(journal_begin(w->j, &note), &note);
    assert_int_equal(journal_position(w->j), last);
}

static void world_init(struct world *w)
{
    *w = (struct world){.config = {.segment_bytes = SEGMENT, .store_id = "0123456789abcde"}};
    rig_dir_make(&w->dir);
    journal_rig_log_init(&w->log);
}

static void world_again(struct world *w)
{
    journal_close(w->j);
    w->j = NULL;
    world_open(w);
}

static void world_done(struct world *w)
{
    journal_close(w->j);
    journal_rig_log_done(&w->log);
    rig_dir_remove(&w->dir);
}

/* Appends the frames from the i-th of the log on as one entry. */
static int append_from(struct world *w, size_t i, struct err_note *note)
{
    struct span frames[64];
    size_t count = 0;
    for (; i + count < w->log.count; count++)
        frames[count] = journal_rig_log_frame(&w->log, i + count);
    return journal_append(w->j, frames, count, note);
}

static void add(struct world *w, uint32_t count, size_t bytes)
{
    uint64_t next = w->log.count ? w->log.frames[w->log.count - 1].last + 1 : w->config.from + 1;
    journal_rig_log_add(&w->log, next, count, bytes, 7);
}

static void append(struct world *w, uint32_t count, size_t bytes)
{
    struct err_note note = {""};
    add(w, count, bytes);
    must(append_from(w, w->log.count - 1, &note), &note);
    assert_int_equal(journal_position(w->j), w->log.frames[w->log.count - 1].last);
}

/* Calls provide until there is nothing to do. */
static void provide(struct world *w)
{
    struct err_note note = {""};
    bool more = true;
    while (more)
        must(journal_provide(w->j, &more, &note), &note);
}

static struct journal_figures figures(struct world *w)
{
    struct journal_figures f;
    journal_figures(w->j, &f);
    return f;
}

/* ---- */

static void test_new_journal_writes_nothing_before_the_first_append(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.config.from = w.config.applied = 41;
    world_open(&w);
    assert_int_equal(figures(&w).generation, 0);
    assert_int_equal(figures(&w).free, 1);
    world_again(&w);
    assert_int_equal(figures(&w).segments, 1);
    append(&w, 2, 100);
    assert_int_equal(w.log.frames[0].first, 42);
    assert_int_equal(figures(&w).generation, 1);
    world_again(&w);
    assert_int_equal(figures(&w).generation, 2);
    world_done(&w);
}

static void test_entries_come_back_after_a_restart(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    world_open(&w);
    for (unsigned i = 0; i < 40; i++) {
        provide(&w);
        append(&w, 1 + i % 3, 10 + 997 * (i % 7));
        if (i % 5 == 0)
            world_again(&w);
    }
    world_again(&w);
    world_done(&w);
}

static void test_an_entry_may_hold_many_frames(void **state)
{
    (void)state;
    struct err_note note = {""};
    struct world w;
    world_init(&w);
    world_open(&w);
    for (unsigned i = 0; i < 50; i++)
        add(&w, 2, 300 + i);
    must(append_from(&w, 0, &note), &note);
    world_again(&w);

    struct journal_batch b;
    journal_batch_init(&b);
    size_t seen = 0;
    while (journal_read(w.j, 1000, &b, &note) == 0 && b.count > 0) {
        assert_true(b.count == 1 || b.bytes.len <= 1000);
        for (size_t i = 0; i < b.count; i++, seen++)
            assert_true(span_equal(b.frames[i], journal_rig_log_frame(&w.log, seen)));
        assert_int_equal(b.last, w.log.frames[seen - 1].last);
    }
    assert_int_equal(seen, 50);
    journal_batch_done(&b);
    world_done(&w);
}

/* Reads all there is; the last position. */
static uint64_t sweep(struct world *w, size_t *at)
{
    struct err_note note = {""};
    struct journal_batch b;
    journal_batch_init(&b);
    do {
        must(journal_read(w->j, 4096, &b, &note), &note);
        for (size_t i = 0; i < b.count; i++, ++*at)
            assert_true(span_equal(b.frames[i], journal_rig_log_frame(&w->log, *at)));
    } while (b.count > 0);
    uint64_t last = b.last;
    journal_batch_done(&b);
    return last;
}

static void test_segments_are_used_again(void **state)
{
    (void)state;
    struct world w;
    size_t at = 0;
    world_init(&w);
    world_open(&w);
    for (unsigned i = 0; i < 400; i++) {
        provide(&w);
        append(&w, 1, 5000);
        if (i % 10 == 9) {
            w.config.applied = sweep(&w, &at);
            journal_applied(w.j, w.config.applied);
            assert_int_equal(figures(&w).bytes_unapplied, 0);
        }
    }
    assert_int_equal(at, 400);
    assert_true(figures(&w).segments <= 5);
    assert_true(figures(&w).generation > 20);
    world_again(&w);
    world_done(&w);
}

static void test_a_full_journal_waits_for_the_store(void **state)
{
    (void)state;
    struct err_note note = {""};
    struct world w;
    size_t at = 0;
    world_init(&w);
    w.config.bytes_max = 8 * SEGMENT;
    world_open(&w);
    int rc = 0;
    while (rc == 0) {
        provide(&w);
        add(&w, 1, 20000);
        rc = append_from(&w, w.log.count - 1, &note);
    }
    assert_int_equal(rc, -ERR_NO_SPACE);
    journal_rig_log_cut(&w.log, w.log.count - 1);
    assert_true(figures(&w).wanting);
    assert_int_equal(figures(&w).bytes, w.config.bytes_max);
    provide(&w);
    assert_int_equal(figures(&w).bytes, w.config.bytes_max);
    journal_applied(w.j, sweep(&w, &at));
    append(&w, 1, 20000);
    assert_false(figures(&w).wanting);
    world_done(&w);
}

static void test_an_entry_larger_than_a_segment_gets_its_own(void **state)
{
    (void)state;
    struct err_note note = {""};
    struct world w;
    size_t at = 0;
    world_init(&w);
    world_open(&w);
    for (unsigned i = 0; i < 3; i++) {
        append(&w, 1, 100);
        add(&w, 5, 3 * SEGMENT);
        assert_int_equal(append_from(&w, w.log.count - 1, &note), -ERR_NO_SPACE);
        provide(&w);
        must(append_from(&w, w.log.count - 1, &note), &note);
        provide(&w);
        append(&w, 1, 100);
        world_again(&w);
        provide(&w);
    }
    journal_applied(w.j, sweep(&w, &at));
    assert_int_equal(at, w.log.count);
    provide(&w);
    append(&w, 1, 60000); /* the last oversize one is no longer the newest */
    assert_int_equal(figures(&w).bytes % SEGMENT, 0);
    world_done(&w);
}

static void test_an_entry_larger_than_the_journal_goes_through_alone(void **state)
{
    (void)state;
    struct err_note note = {""};
    struct world w;
    size_t at = 0;
    world_init(&w);
    w.config.bytes_max = 1; /* becomes four segments */
    world_open(&w);
    append(&w, 1, 100);
    add(&w, 1, 9 * SEGMENT);
    provide(&w);
    assert_int_equal(append_from(&w, 1, &note), -ERR_NO_SPACE);
    provide(&w);
    assert_int_equal(append_from(&w, 1, &note), -ERR_NO_SPACE); /* something is unapplied */
    journal_applied(w.j, sweep(&w, &at));
    provide(&w);
    must(append_from(&w, 1, &note), &note);
    /* Now the newest segment alone is over the limit, and a small entry must still get through. */
    journal_applied(w.j, sweep(&w, &at));
    for (unsigned i = 0; i < 20; i++) {
        add(&w, 1, 30000);
        int rc = append_from(&w, w.log.count - 1, &note);
        if (rc == -ERR_NO_SPACE) {
            journal_applied(w.j, sweep(&w, &at));
            provide(&w);
            rc = append_from(&w, w.log.count - 1, &note);
        }
        must(rc, &note);
    }
    provide(&w);
    assert_true(figures(&w).bytes <= 4 * SEGMENT);
    world_done(&w);
}

static void test_files_are_for_their_owner_only(void **state)
{
    (void)state;
    struct world w;
    struct stat st;
    char name[256];
    world_init(&w);
    world_open(&w);
    assert_int_equal(stat(w.dir.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    snprintf(name, sizeof name, "%s/1", w.dir.path);
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, SEGMENT);
    world_done(&w);
}

/* ---- writer, helper and sweeper at once ---- */

struct trio {
    struct world *w;
    atomic_bool done;
    size_t swept;
};

#define TRIO_ENTRIES 400

static void *helper_thread(void *ctx)
{
    struct trio *t = ctx;
    struct err_note note = {""};
    bool more;
    while (!atomic_load(&t->done)) {
        if (journal_provide(t->w->j, &more, &note) != 0)
            return "the helper failed";
        if (!more)
            sched_yield();
    }
    return NULL;
}

static void *sweeper_thread(void *ctx)
{
    struct trio *t = ctx;
    struct err_note note = {""};
    struct journal_batch b;
    char *wrong = NULL;
    journal_batch_init(&b);
    while (t->swept < TRIO_ENTRIES && !wrong) {
        if (journal_read(t->w->j, 20000, &b, &note) != 0)
            wrong = "the sweeper failed";
        for (size_t i = 0; i < b.count && !wrong; i++, t->swept++)
            if (!span_equal(b.frames[i], journal_rig_log_frame(&t->w->log, t->swept)))
                wrong = "the sweeper read something else";
        journal_applied(t->w->j, b.last);
        if (b.count == 0)
            sched_yield();
    }
    journal_batch_done(&b);
    return wrong;
}

static void test_three_threads(void **state)
{
    (void)state;
    struct world w;
    struct trio t = {.w = &w};
    struct err_note note = {""};
    struct journal_figures f;
    pthread_t helper, sweeper;
    void *said_helper, *said_sweeper;
    world_init(&w);
    w.config.bytes_max = 6 * SEGMENT;
    world_open(&w);
    for (unsigned i = 0; i < TRIO_ENTRIES; i++)
        add(&w, 1, i % 50 == 7 ? 2 * SEGMENT : 100 * (i % 200));
    assert_int_equal(pthread_create(&helper, NULL, helper_thread, &t), 0);
    assert_int_equal(pthread_create(&sweeper, NULL, sweeper_thread, &t), 0);
    for (size_t i = 0; i < TRIO_ENTRIES; i++) {
        struct span frame = journal_rig_log_frame(&w.log, i);
        int rc;
        while ((rc = journal_append(w.j, &frame, 1, &note)) == -ERR_NO_SPACE)
            sched_yield();
        must(rc, &note);
        journal_figures(w.j, &f);
        assert_int_equal(f.position, i + 1);
    }
    pthread_join(sweeper, &said_sweeper);
    atomic_store(&t.done, true);
    pthread_join(helper, &said_helper);
    assert_null(said_sweeper);
    assert_null(said_helper);
    w.config.applied = TRIO_ENTRIES;
    world_again(&w);
    world_done(&w);
}

/* ---- killed at every failpoint ---- */

#define KILL_FRAMES 60

/* What the child has appended for sure, told in shared memory. */
struct kill_told {
    atomic_size_t synced;
    atomic_uint_least64_t applied;
};

/* Appends, restarts and sweeps until it is killed; the frames were built before. */
_Noreturn static void kill_child(struct world *w, struct kill_told *told)
{
    struct err_note note = {""};
    size_t i = 0, at = 0;
    while (i < KILL_FRAMES) {
        must(files_open_dir(w->dir.path, true, false, &w->config.files, &note), &note);
        must(journal_open(&w->config, NULL, NULL, &w->j, &note), &note);
        must(journal_begin(w->j, &note), &note);
        for (unsigned n = 0; n < 20 && i < KILL_FRAMES; n++, i++) {
            struct span frame = journal_rig_log_frame(&w->log, i);
            provide(w);
            must(journal_append(w->j, &frame, 1, &note), &note);
            atomic_store(&told->synced, i + 1);
        }
        at = w->config.applied;
        w->config.applied = sweep(w, &at);
        atomic_store(&told->applied, w->config.applied);
        journal_applied(w->j, w->config.applied);
        journal_close(w->j);
    }
    _exit(0); /* the failpoint was never reached */
}

static void kill_once(const char *name, unsigned nth, struct kill_told *told)
{
    struct world w;
    struct err_note note = {""};
    char value[64];
    int status;
    world_init(&w);
    for (unsigned i = 0; i < KILL_FRAMES; i++)
        add(&w, 1, 5000 * (i % 5));
    atomic_store(&told->synced, 0);
    atomic_store(&told->applied, 0);
    snprintf(value, sizeof value, "%s:%u", name, nth);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("HF_FAILPOINT", value, 1);
        kill_child(&w, told);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("%s was not reached: status %x", value, (unsigned)status);

    /* The frame on its way may be there or not. */
    size_t synced = atomic_load(&told->synced);
    w.config.applied = atomic_load(&told->applied);
    must(world_try(&w, &note), &note);
    uint64_t position = journal_position(w.j);
    if (position != synced && position != synced + 1)
        fail_msg("%s: at %llu after %zu", value, (unsigned long long)position, synced);
    must(journal_begin(w.j, &note), &note);
    provide(&w);
    journal_rig_log_cut(&w.log, (size_t)position);
    append(&w, 1, 100);
    world_again(&w);
    world_done(&w);
}

static void test_killed_at_every_failpoint(void **state)
{
    (void)state;
    static const char *const names[] = {
        "journal.write",        "journal.write.half", "journal.sync",    "journal.synced",
        "journal.segment.make", "journal.begin",      "journal.recycle", "journal.recover",
    };
    struct kill_told *told =
        mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(told != MAP_FAILED);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (unsigned nth = 1; nth <= 2; nth++)
            kill_once(names[i], nth, told);
    munmap(told, sizeof *told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_journal_writes_nothing_before_the_first_append),
        cmocka_unit_test(test_entries_come_back_after_a_restart),
        cmocka_unit_test(test_an_entry_may_hold_many_frames),
        cmocka_unit_test(test_segments_are_used_again),
        cmocka_unit_test(test_a_full_journal_waits_for_the_store),
        cmocka_unit_test(test_an_entry_larger_than_a_segment_gets_its_own),
        cmocka_unit_test(test_an_entry_larger_than_the_journal_goes_through_alone),
        cmocka_unit_test(test_files_are_for_their_owner_only),
        cmocka_unit_test(test_three_threads),
        cmocka_unit_test(test_killed_at_every_failpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
