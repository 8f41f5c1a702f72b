/* SPDX-License-Identifier: Apache-2.0 */
/* What a store promises beside holding the right things (test_store_history.c) and being a file of
 * its own (test_store_sqlite.c): which frames it takes, a full disk, readers beside the applier. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/records/frame.h"
#include "unit/backend/local/sqlite/store_history.h"
#include "unit/backend/local/sqlite/store_rig.h"

/* ---- frames: both stores ---- */

struct one {
    bool sqlite;
    struct rig_dir dir;
    struct store *store;
    struct history *history;
};

static void one_open(struct one *o, bool sqlite, uint64_t seed)
{
    fprintf(stderr, "# %s: seed %llu\n", sqlite ? "sqlite" : "memory", (unsigned long long)seed);
    o->sqlite = sqlite;
    rig_dir_make(&o->dir);
    o->history = history_new(seed, 0);
    if (sqlite)
        o->store = rig_open(o->dir.path);
    else
        assert_int_equal(store_open_memory(seed, &o->store), 0);
}

static void one_close(struct one *o)
{
    o->store->ops->close(o->store);
    history_free(o->history);
    rig_dir_remove(&o->dir);
}

static struct buf frame_copy(struct history *h, unsigned records)
{
    struct buf copy;
    buf_init(&copy);
    assert_int_equal(buf_append_span(&copy, history_frame(h, records)), 0);
    return copy;
}

static void must_apply(struct store *s, const struct span *frames, size_t count)
{
    struct err_note note = {""};
    if (s->ops->apply(s, frames, count, &note) != 0)
        fail_msg("%s: %s", s->ops->kind, note.text);
}

/* Nothing of it is kept. A failure is fatal, so a store of files is opened again afterwards. */
static void must_refuse(struct one *o, const struct span *frames, size_t count)
{
    struct err_note note = {""};
    struct buf before, after;
    buf_init(&before);
    buf_init(&after);
    rig_dump(o->store, NULL, &before);
    assert_int_equal(o->store->ops->apply(o->store, frames, count, &note), -ERR_CORRUPT);
    assert_true(note.text[0] != '\0');
    if (o->sqlite) {
        o->store->ops->close(o->store);
        o->store = rig_open(o->dir.path);
    }
    rig_dump(o->store, NULL, &after);
    assert_string_equal(before.data, after.data);
    buf_done(&before);
    buf_done(&after);
}

/* The same records at another position. */
static struct buf frame_moved(const struct buf *frame, int64_t by)
{
    struct frame f;
    struct span in = buf_span(frame);
    struct buf moved;
    buf_init(&moved);
    assert_int_equal(frame_decode(&in, &f), 0);
    assert_int_equal(frame_begin(&moved), 0);
    assert_int_equal(buf_append_span(&moved, f.body), 0);
    frame_end(&moved, (uint64_t)((int64_t)f.first + by), f.count);
    return moved;
}

static void frames_body(bool sqlite)
{
    struct one o;
    one_open(&o, sqlite, 11);
    struct buf frames[3];
    for (size_t i = 0; i < 3; i++)
        frames[i] = frame_copy(o.history, 30);
    struct span spans[3] = {buf_span(&frames[0]), buf_span(&frames[1]), buf_span(&frames[2])};
    struct buf moved = frame_moved(&frames[1], -1), broken = frame_moved(&frames[1], 0);
    struct span moved_span = buf_span(&moved), broken_span = buf_span(&broken);
    broken.data[broken.len - 1] ^= 1;

    must_refuse(&o, &spans[1], 1); /* a gap at the very beginning */
    must_apply(o.store, &spans[0], 1);
    must_refuse(&o, &spans[2], 1);   /* a gap later on */
    must_refuse(&o, &moved_span, 1); /* begins before and ends after what is applied */
    must_refuse(&o, &broken_span, 1);
    must_refuse(&o, (struct span[]){spans[1], broken_span}, 2); /* all or none */
    must_apply(o.store, spans, 3);                              /* the first is passed over */

    struct buf before, after;
    buf_init(&before);
    buf_init(&after);
    rig_dump(o.store, NULL, &before);
    must_apply(o.store, spans, 3);
    must_apply(o.store, &spans[1], 1);
    must_apply(o.store, NULL, 0);
    rig_dump(o.store, NULL, &after);
    assert_string_equal(before.data, after.data);
    buf_done(&before);
    buf_done(&after);
    buf_done(&moved);
    buf_done(&broken);
    for (size_t i = 0; i < 3; i++)
        buf_done(&frames[i]);
    one_close(&o);
}

static void frames_are_taken_in_order_memory(void **state)
{
    (void)state;
    frames_body(false);
}

static void frames_are_taken_in_order_sqlite(void **state)
{
    (void)state;
    frames_body(true);
}

/* ---- a full disk ---- */

#define CANNOT_MOUNT 77
#define DISK_BYTES "2m"

/* Writes until nothing more fits. */
static bool fill_up(const char *path)
{
    static const char block[4096];
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0)
        return false;
    while (write(fd, block, sizeof block) > 0)
        ;
    while (write(fd, block, 1) > 0)
        ;
    return close(fd) == 0;
}

/* Runs in a child with its own mounts; its exit status says how far it came. Below chroot "/" may
 * not be a mount point, and then it cannot become private: the parent unmounts what may have
 * reached it. */
static int disk_child(const char *disk, const char *copy, const struct span frames[2])
{
    char path[256], filler[256];
    struct store *s;
    struct err_note note = {""};
    if (unshare(CLONE_NEWNS) != 0 ||
        (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 && errno != EINVAL) ||
        mount("none", disk, "tmpfs", 0, "size=" DISK_BYTES) != 0) {
        fprintf(stderr, "# needs root and CAP_SYS_ADMIN, to mount a tmpfs: %s\n", strerror(errno));
        return CANNOT_MOUNT;
    }
    snprintf(path, sizeof path, "%s/store", disk);
    snprintf(filler, sizeof filler, "%s/filler", disk);
    if (store_open_sqlite(path, RIG_NOW, &s, &note) != 0 ||
        s->ops->apply(s, &frames[0], 1, &note) != 0)
        return 2;
    if (!fill_up(filler))
        return 3;
    for (int i = 0; i < 3; i++)
        if (s->ops->apply(s, &frames[1], 1, &note) != -ERR_NO_SPACE) {
            fprintf(stderr, "# %s\n", note.text);
            return 4;
        }
    if (unlink(filler) != 0)
        return 5;
    if (s->ops->apply(s, &frames[1], 1, &note) != 0) {
        fprintf(stderr, "# %s\n", note.text);
        return 6;
    }
    rig_dir_copy(path, copy);
    s->ops->close(s);
    return 0;
}

static void full_disk_can_be_tried_again(void **state)
{
    (void)state;
    struct one o;
    char disk[200], copy[200];
    static char payload[200000];
    int status;
    one_open(&o, false, 14);
    snprintf(disk, sizeof disk, "%s/disk", o.dir.base);
    snprintf(copy, sizeof copy, "%s/copy", o.dir.base);
    assert_int_equal(mkdir(disk, 0700), 0);
    struct buf first = frame_copy(o.history, 100), second;
    history_begin(o.history);
    for (int i = 0; i < 3; i++)
        history_enqueue(o.history, 1, NULL, span_of(payload, sizeof payload));
    struct span span = history_end(o.history);
    buf_init(&second);
    assert_int_equal(buf_append_span(&second, span), 0);
    struct span frames[2] = {buf_span(&first), buf_span(&second)};
    assert_int_equal(o.store->ops->apply(o.store, frames, 2, NULL), 0);

    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(disk_child(disk, copy, frames));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    (void)umount2(disk, MNT_DETACH);
    bool mounted = WEXITSTATUS(status) != CANNOT_MOUNT;
    if (mounted) {
        assert_int_equal(WEXITSTATUS(status), 0);
        struct store *s = rig_open(copy);
        rig_same(o.store, NULL, s, NULL);
        s->ops->close(s);
    }
    buf_done(&first);
    buf_done(&second);
    one_close(&o);
    if (!mounted)
        skip();
}

/* ---- a reader beside the applier ---- */

struct watcher {
    struct store_reader *reader;
    atomic_bool stop;
    const char *wrong; /* NULL = nothing; read after the thread has ended */
    unsigned lists;
};

/* Each page is of one moment, and moments do not go back. */
static const char *watch_once(struct watcher *w, struct arena *arena, uint64_t *as_of)
{
    struct op_list query = {.limit = 100, .want_body = true};
    struct job_view *jobs;
    uint32_t count;
    uint64_t cursor, now;
    uint64_t seqs[100];
    struct stored_body bodies[100];
    if (w->reader->ops->list(w->reader, &query, arena, &jobs, &count, &cursor, &now) != 0)
        return "a list failed";
    if (now < *as_of)
        return "a list went back in time";
    *as_of = now;
    for (uint32_t i = 0; i < count; i++) {
        seqs[i] = jobs[i].job.seq;
        if (i > 0 && seqs[i] <= seqs[i - 1])
            return "a list is out of order";
        if (jobs[i].payload.len != jobs[i].job.payload_bytes)
            return "a body is not of the moment of its job";
        if ((jobs[i].job.state == STATE_RUNNING) != (jobs[i].lease_ms != 0))
            return "a lease is not of the moment of its job";
    }
    if (rig_read(w->reader, seqs, count, arena, bodies) != 0)
        return "a read failed";
    return NULL;
}

static void *watch(void *ctx)
{
    struct watcher *w = ctx;
    struct arena arena;
    uint64_t as_of = 0;
    arena_init(&arena);
    while (!w->wrong && !atomic_load(&w->stop)) {
        w->wrong = watch_once(w, &arena, &as_of);
        w->lists++;
        arena_reset(&arena);
    }
    arena_done(&arena);
    return NULL;
}

static void readers_read_while_frames_are_applied(void **state)
{
    (void)state;
    struct one o;
    struct watcher watchers[2] = {0};
    pthread_t threads[2];
    bool more;
    one_open(&o, true, 15);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(o.store->ops->reader_open(o.store, &watchers[i].reader, NULL), 0);
        assert_int_equal(pthread_create(&threads[i], NULL, watch, &watchers[i]), 0);
    }
    for (int round = 0; round < 100; round++) {
        rig_apply(o.store, history_frame(o.history, 40));
        assert_int_equal(o.store->ops->tidy(o.store, &more, NULL), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        atomic_store(&watchers[i].stop, true);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (watchers[i].wrong)
            fail_msg("%s", watchers[i].wrong);
        assert_true(watchers[i].lists > 0);
        watchers[i].reader->ops->close(watchers[i].reader);
    }
    one_close(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_taken_in_order_memory),
        cmocka_unit_test(frames_are_taken_in_order_sqlite),
        cmocka_unit_test(full_disk_can_be_tried_again),
        cmocka_unit_test(readers_read_while_frames_are_applied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
