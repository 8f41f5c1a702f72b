/* SPDX-License-Identifier: Apache-2.0 */
/* The kept inputs of tests/fuzz/fuzz_journal.c: journals in every condition. They are also a
 * promise: a journal that was written once can be opened for ever.
 *
 *   HF_WRITE_CORPUS=1 build/debug/tests/unit/backend/test_journal_corpus
 *
 * writes the files that are not there yet; from the first release on files of the past are never
 * rewritten. */
#include <fcntl.h>
#include <unistd.h>

#include "support/journal_image.h"
#include "unit/backend/local/journal/journal_rig.h"
#include "unit/base/support.h"

#define FOLDER "tests/fuzz/corpus/fuzz_journal/"

struct maker {
    struct files_torn *disk;
    struct journal_config config;
    struct journal *j;
};

static void restart(struct maker *m)
{
    struct err_note note = {""};
    journal_close(m->j);
    m->config.files = files_torn_files(m->disk);
    assert_int_equal(journal_open(&m->config, NULL, NULL, &m->j, &note), 0);
    assert_int_equal(journal_begin(m->j, &note), 0);
}

static void append(struct maker *m, unsigned count, size_t bytes)
{
    struct buf frame;
    buf_init(&frame);
    for (; count > 0; count--) {
        bool more = true;
        buf_clear(&frame);
        journal_rig_frame(&frame, journal_position(m->j) + 1, 2, bytes, 1);
        struct span one = buf_span(&frame);
        int rc = journal_append(m->j, &one, 1, NULL);
        while (more)
            assert_int_equal(journal_provide(m->j, &more, NULL), 0);
        if (rc == -ERR_NO_SPACE)
            rc = journal_append(m->j, &one, 1, NULL);
        assert_int_equal(rc, 0);
    }
    buf_done(&frame);
}

static void applied(struct maker *m)
{
    m->config.applied = journal_position(m->j);
    journal_applied(m->j, m->config.applied);
}

static void flip(struct maker *m, const char *name, uint64_t at)
{
    char byte = (char)(files_torn_content(m->disk, name).at[at] ^ 1);
    files_torn_poke(m->disk, name, at, span_of(&byte, 1));
}

static void make_one(struct maker *m)
{
    append(m, 1, 30);
}

static void make_rotated(struct maker *m)
{
    append(m, 7, 30);
}

static void make_repeated(struct maker *m)
{
    append(m, 2, 30);
    restart(m);
    append(m, 1, 30);
    restart(m);
}

static void make_recycled(struct maker *m)
{
    for (unsigned i = 0; i < 4; i++) {
        append(m, 5, 30);
        applied(m);
    }
    append(m, 2, 30);
}

static void make_large(struct maker *m)
{
    append(m, 1, 30);
    append(m, 1, IMAGE_SEGMENT + 100);
}

static void make_torn(struct maker *m)
{
    append(m, 3, 30);
    flip(m, "1", 2 * JOURNAL_PAGE + 110);
}

static void make_damaged(struct maker *m)
{
    append(m, 3, 30);
    flip(m, "1", JOURNAL_PAGE + 110);
}

static void make_header_damaged(struct maker *m)
{
    append(m, 3, 30);
    flip(m, "1", 2 * JOURNAL_PAGE + 27);
}

/* A header of a newer version in a file without other entries. */
static void make_newer(struct maker *m)
{
    struct journal_seal seal;
    char header[JOURNAL_ENTRY_HEADER_BYTES];
    append(m, 5, 30);
    assert_int_equal(journal_seal_init(&seal, image_key), 0);
    memcpy(header, files_torn_content(m->disk, "2").at, sizeof header);
    header[3] = '2';
    image_tag(&seal, header);
    files_torn_poke(m->disk, "2", 0, span_of(header, sizeof header));
    journal_seal_done(&seal);
}

static void make_gap(struct maker *m)
{
    append(m, 9, 30);
    files_torn_drop(m->disk, "2");
}

static const struct {
    const char *name;
    void (*make)(struct maker *m);
    int rc;
    uint64_t position; /* when it opens */
} kinds[] = {
    {"one", make_one, 0, 2},
    {"rotated", make_rotated, 0, 14},
    {"repeated", make_repeated, 0, 6},
    {"recycled", make_recycled, 0, 44},
    {"large", make_large, 0, 4},
    {"torn", make_torn, 0, 4},
    {"damaged", make_damaged, -ERR_CORRUPT, 0},
    {"header-damaged", make_header_damaged, 0, 4},
    {"newer", make_newer, -ERR_VERSION, 0},
    {"gap", make_gap, -ERR_CORRUPT, 0},
};

static void path_of(char path[200], const char *name, const char *more)
{
    snprintf(path, 200, FOLDER "%s%s", name, more);
}

static void file_write(const char *path, struct span bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return; /* it is there */
    assert_int_equal(write(fd, bytes.at, bytes.len), bytes.len);
    close(fd);
}

/* As it is, and with modes that mend it or its tags, so that mutations get deep. */
static void kind_write(size_t k)
{
    struct maker m = {.disk = files_torn_new(1)};
    struct buf out;
    char path[200];
    buf_init(&out);
    image_load(span_of(NULL, 0), m.disk, &m.config);
    restart(&m);
    kinds[k].make(&m);
    image_save(m.disk, &m.config, 0, &out);
    path_of(path, kinds[k].name, "");
    file_write(path, buf_span(&out));
    out.data[0] = IMAGE_SEAL | IMAGE_OURS | IMAGE_CHAIN;
    path_of(path, kinds[k].name, "-mended");
    file_write(path, buf_span(&out));
    out.data[0] = IMAGE_TAG;
    path_of(path, kinds[k].name, "-tagged");
    file_write(path, buf_span(&out));
    journal_close(m.j);
    files_torn_free(m.disk);
    buf_done(&out);
}

static void test_journals_of_the_past_can_be_opened(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        struct files_torn *disk = files_torn_new(1);
        struct err_note note = {""};
        struct journal_config config;
        struct journal *j = NULL;
        static char image[1 << 17];
        char path[200];
        path_of(path, kinds[k].name, "");
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            fail_msg("%s is not there", path);
        ssize_t len = read(fd, image, sizeof image);
        close(fd);
        assert_true(len > 0);
        image_load(span_of(image, (size_t)len), disk, &config);
        config.files = files_torn_files(disk);
        int rc = journal_open(&config, NULL, NULL, &j, &note);
        if (rc != kinds[k].rc)
            fail_msg("%s: %s %s", path, err_name(rc), note.text);
        if (rc == 0) {
            assert_int_equal(journal_position(j), kinds[k].position);
            journal_close(j);
        }
        files_torn_free(disk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_journals_of_the_past_can_be_opened),
    };
    if (getenv("HF_WRITE_CORPUS"))
        for (size_t k = 0; k < COUNT_OF(kinds); k++)
            kind_write(k);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
