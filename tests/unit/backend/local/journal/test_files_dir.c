/* SPDX-License-Identifier: Apache-2.0 */
/* Files in a real directory: many parts, holes and ends, modes, and the words of errors. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/local/journal/files.h"
#include "unit/backend/local/sqlite/store_rig.h"
#include "unit/base/support.h"

struct world {
    struct rig_dir dir;
    struct files *files;
    struct err_note note;
};

static void must(struct world *w, int rc)
{
    if (rc != 0)
        fail_msg("%s: %s", err_name(rc), w->note.text);
}

static void world_init(struct world *w)
{
    *w = (struct world){0};
    rig_dir_make(&w->dir);
    must(w, files_open_dir(w->dir.path, true, false, &w->files, &w->note));
}

static void world_done(struct world *w)
{
    w->files->ops->done(w->files);
    rig_dir_remove(&w->dir);
}

static int make(struct world *w, const char *name)
{
    int file;
    must(w, w->files->ops->open(w->files, name, true, &file, &w->note));
    return file;
}

static void test_parts_are_written_one_after_the_other(void **state)
{
    (void)state;
    enum { PARTS = 3000 }; /* more than one system call takes */
    struct world w;
    struct span parts[PARTS];
    char bytes[PARTS], back[3 * PARTS];
    size_t total = 0, got;
    world_init(&w);
    int file = make(&w, "1");
    for (size_t i = 0; i < PARTS; i++) {
        bytes[i] = (char)('a' + i % 23);
        parts[i] = span_of(bytes, i % 3 == 0 ? 0 : i % 4);
        total += parts[i].len;
    }
    must(&w, w.files->ops->write(w.files, file, 100, parts, PARTS, &w.note));
    must(&w, w.files->ops->sync(w.files, file, &w.note));
    must(&w, w.files->ops->read(w.files, file, 0, back, sizeof back, &got, &w.note));
    assert_int_equal(got, 100 + total);
    size_t at = 100;
    for (size_t i = 0; i < PARTS; at += parts[i++].len)
        assert_memory_equal(back + at, bytes, parts[i].len);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(back[i], 0);
    must(&w, w.files->ops->write(w.files, file, 0, parts, 1, &w.note)); /* nothing */
    w.files->ops->close(w.files, file);
    world_done(&w);
}

static void test_reading_past_the_end(void **state)
{
    (void)state;
    struct world w;
    char back[8];
    size_t got = 77;
    world_init(&w);
    int file = make(&w, "1");
    struct span part = SPAN_LITERAL("abc");
    must(&w, w.files->ops->write(w.files, file, 0, &part, 1, &w.note));
    must(&w, w.files->ops->read(w.files, file, 1, back, sizeof back, &got, &w.note));
    assert_int_equal(got, 2);
    must(&w, w.files->ops->read(w.files, file, 3, back, sizeof back, &got, &w.note));
    assert_int_equal(got, 0);
    must(&w, w.files->ops->read(w.files, file, 1000, back, sizeof back, &got, &w.note));
    assert_int_equal(got, 0);
    w.files->ops->close(w.files, file);
    world_done(&w);
}

struct seen {
    unsigned count;
    uint64_t bytes;
};

static void name_cb(void *ctx, const char *name, uint64_t size)
{
    struct seen *s = ctx;
    assert_true(strcmp(name, "1") == 0 || strcmp(name, "2") == 0);
    s->count++;
    s->bytes += size;
}

static void test_names(void **state)
{
    (void)state;
    struct world w;
    struct seen seen = {0};
    char path[256];
    world_init(&w);
    int one = make(&w, "1"), two = make(&w, "2"), again;
    struct span part = SPAN_LITERAL("12345");
    must(&w, w.files->ops->write(w.files, two, 0, &part, 1, &w.note));
    snprintf(path, sizeof path, "%s/folder", w.dir.path);
    assert_int_equal(mkdir(path, 0700), 0);
    must(&w, w.files->ops->list(w.files, name_cb, &seen, &w.note));
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.bytes, 5);

    assert_int_equal(w.files->ops->open(w.files, "1", true, &again, &w.note), -ERR_IO);
    assert_non_null(strstr(w.note.text, "/1: File exists"));
    assert_int_equal(w.files->ops->open(w.files, "3", false, &again, &w.note), -ERR_IO);
    assert_int_equal(w.files->ops->remove(w.files, "3", &w.note), -ERR_IO);
    must(&w, w.files->ops->remove(w.files, "2", &w.note));
    must(&w, w.files->ops->sync_names(w.files, &w.note));
    seen = (struct seen){0};
    must(&w, w.files->ops->list(w.files, name_cb, &seen, &w.note));
    assert_int_equal(seen.count, 1);
    w.files->ops->close(w.files, one);
    w.files->ops->close(w.files, two);
    world_done(&w);
}

static void test_modes(void **state)
{
    (void)state;
    struct world w;
    struct stat st;
    mode_t old = umask(0);
    world_init(&w);
    int file = make(&w, "1");
    umask(old);
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(fcntl(file, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(stat(w.dir.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    w.files->ops->close(w.files, file);
    world_done(&w);
}

static void test_read_only(void **state)
{
    (void)state;
    struct world w;
    int file;
    world_init(&w);
    w.files->ops->close(w.files, make(&w, "1"));
    w.files->ops->done(w.files);
    must(&w, files_open_dir(w.dir.path, false, true, &w.files, &w.note));
    must(&w, w.files->ops->open(w.files, "1", false, &file, &w.note));
    struct span part = SPAN_LITERAL("x");
    assert_int_equal(w.files->ops->write(w.files, file, 0, &part, 1, &w.note), -ERR_IO);
    assert_non_null(strstr(w.note.text, "/1: "));
    w.files->ops->close(w.files, file);
    world_done(&w);
}

static void test_no_directory(void **state)
{
    (void)state;
    struct rig_dir dir;
    struct files *files = NULL;
    struct err_note note = {""};
    rig_dir_make(&dir);
    assert_int_equal(files_open_dir(dir.path, false, false, &files, &note), -ERR_NOT_FOUND);
    assert_int_equal(files_open_dir(dir.path, true, true, &files, &note), -ERR_NOT_FOUND);
    assert_non_null(strstr(note.text, "there is no directory"));
    assert_null(files);
    rig_dir_remove(&dir);
}

/* A limit on the size of files cuts a write short, and the rest of it fails. */
static void test_a_write_that_stops_half_way(void **state)
{
    (void)state;
    struct world w;
    struct rlimit old, small;
    char bytes[3000] = {0}, back[8192];
    size_t got;
    world_init(&w);
    int file = make(&w, "1");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){5000, old.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct span parts[2] = {span_of(bytes, sizeof bytes), span_of(bytes, sizeof bytes)};
    int rc = w.files->ops->write(w.files, file, 0, parts, 2, &w.note);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(rc, -ERR_IO);
    must(&w, w.files->ops->read(w.files, file, 0, back, sizeof back, &got, &w.note));
    assert_int_equal(got, 5000);
    w.files->ops->close(w.files, file);
    world_done(&w);
}

static void test_a_full_disk(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    int full = open("/dev/full", O_RDWR | O_CLOEXEC);
    assert_true(full >= 0);
    struct span part = SPAN_LITERAL("x");
    assert_int_equal(w.files->ops->write(w.files, full, 0, &part, 1, &w.note), -ERR_NO_SPACE);
    assert_non_null(strstr(w.note.text, "/dev/full: No space left on device"));
    assert_int_equal(w.files->ops->sync(w.files, full, &w.note), -ERR_IO);
    w.files->ops->close(w.files, full);
    world_done(&w);
}

/* It passes, unlike a disk that fails. */
static void test_no_descriptor_is_left(void **state)
{
    (void)state;
    struct world w;
    struct rlimit old, none = {0, 0};
    int file;
    world_init(&w);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    none.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int rc = w.files->ops->open(w.files, "1", true, &file, &w.note);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(rc, -ERR_NOMEM);
    assert_non_null(strstr(w.note.text, "Too many open files"));
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_written_one_after_the_other),
        cmocka_unit_test(test_reading_past_the_end),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_no_directory),
        cmocka_unit_test(test_a_write_that_stops_half_way),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_no_descriptor_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
