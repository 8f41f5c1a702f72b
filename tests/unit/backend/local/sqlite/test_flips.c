/* SPDX-License-Identifier: Apache-2.0 */
/* HF-18, HF-19: flipped bytes in a small store.
 *
 * A store with something of everything, in the state that a crash leaves: a database, a WAL, which
 * a checkpoint has copied or not, and a journal with records that the database lacks. One bit of
 * one byte is flipped at a time. Then check, export and an open with recovery and all reads must
 * either report damage, or give exactly what the whole store gives; what they give in spite of
 * reported damage must be a part of that.
 *
 * HF_FLIPS_STEP=N flips each Nth byte, HF_FLIPS_FROM=N begins with the Nth; without them it is a
 * sample. */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/local/journal/journal.h"
#include "backend/local/offline/check/check.h"
#include "backend/local/offline/salvage/salvage.h"
#include "backend/local/pages/wal.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "base/digest/hash.h"
#include "unit/backend/local/sqlite/store_history.h"
#include "unit/backend/local/sqlite/store_rig.h"

#define FRAMES_OLD 12  /* in the database file */
#define FRAMES_WAL 5   /* in the WAL and in the journal */
#define FRAMES_AHEAD 4 /* only in the journal */
#define FRAME_RECORDS 50
#define SAMPLE 75 /* of each store */
#define SEGMENT (1 << 18)

enum file_id { FILE_DB, FILE_WAL, FILE_JOURNAL, FILE_KEY, FILE_COUNT };

static const char *const names[FILE_COUNT] = {"holdfast.db", "holdfast.db-wal", "journal/1",
                                              "journal/key"};

struct image {
    unsigned char *bytes;
    size_t len;  /* of the file … */
    size_t used; /* … of which this much is used */
};

/* ---- the journal ---- */

static struct journal *journal_at(const char *dir, const struct store_meta *meta, bool read_only,
                                  journal_frame_fn fn, void *ctx, int *ret_rc,
                                  struct err_note *note)
{
    char path[200];
    struct files *files;
    struct journal *j = NULL;
    struct journal_config config = {.from = (uint64_t)meta->journal_from,
                                    .applied = meta->position,
                                    .segment_bytes = SEGMENT,
                                    .read_only = read_only};
    memcpy(config.store_id, meta->store_id, sizeof config.store_id);
    snprintf(path, sizeof path, "%s/journal", dir);
    assert_int_equal(files_open_dir(path, !read_only, read_only, &files, note), 0);
    config.files = files;
    *ret_rc = journal_open(&config, fn, ctx, &j, note);
    return j;
}

/* ---- what can be read ---- */

struct seen {
    struct buf lines;    /* of the open store */
    struct buf exported; /* by a salvage */
    bool reported;       /* damage, by any of the three */
    bool removals;       /* the salvage cannot tell which jobs and queues have been removed */
    char why[600];       /* what was reported first */
};

static void report(struct seen *s, const char *what, const char *why)
{
    if (!s->reported)
        snprintf(s->why, sizeof s->why, "%s: %s", what, why);
    s->reported = true;
}

static void seen_init(struct seen *s)
{
    *s = (struct seen){0};
    buf_init(&s->lines);
    buf_init(&s->exported);
}

static void seen_done(struct seen *s)
{
    buf_done(&s->lines);
    buf_done(&s->exported);
}

static int apply_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
                    struct err_note *note)
{
    struct store *s = ctx;
    (void)first, (void)last;
    return s->ops->apply(s, &frame, 1, note);
}

/* As a start does: what the database has, then what the journal has beyond it; then all reads. */
static void see_open(const char *dir, struct seen *ret)
{
    struct store *s = NULL;
    struct store_reader *r = NULL;
    struct err_note note = {""};
    size_t damaged = 0;
    int rc = store_open_sqlite(dir, RIG_NOW, &s, &note);
    if (rc == 0) {
        journal_close(journal_at(dir, s->ops->meta(s), true, apply_cb, s, &rc, &note));
        if (rc == 0)
            rc = s->ops->reader_open(s, &r, &note);
        if (rc == 0)
            rc = rig_dump_some(s, r, &ret->lines, &damaged, &note);
        if (r)
            r->ops->close(r);
        s->ops->close(s);
    }
    if (rc != 0 && note.text[0] == '\0')
        fail_msg("an error (%d) says nothing", rc);
    if (rc != 0)
        report(ret, "open", note.text);
    else if (damaged > 0)
        report(ret, "open", "some cannot be read");
}

static int queue_cb(void *ctx, const struct queue_view *q)
{
    (void)ctx, (void)q;
    return 0;
}

static int key_cb(void *ctx, const struct kv_view *key)
{
    struct seen *s = ctx;
    return buf_printf(&s->exported, "key %08x value=%08x\n", crc32c(0, key->key.at, key->key.len),
                      crc32c(0, key->value.at, key->value.len));
}

static bool wanted_cb(void *ctx, const struct job *j, struct span queue)
{
    (void)ctx, (void)j, (void)queue;
    return true;
}

static uint32_t crc_of(struct span s)
{
    return s.len ? crc32c(0, s.at, s.len) : 0;
}

/* Without the queue's name: jobs whose queue cannot be read get a new one. */
static int job_cb(void *ctx, const struct job_view *v)
{
    struct seen *s = ctx;
    return buf_printf(&s->exported,
                      "job %" PRIu64 " %" PRIx64 " state=%d %08x %08x %08x %08x %08x\n", v->job.seq,
                      v->job.id_hi, v->job.state, crc_of(v->payload), crc_of(v->result),
                      crc_of(v->error), crc_of(v->extra.attributes), crc_of(v->extra.group));
}

static int schedule_cb(void *ctx, const struct schedule_view *v)
{
    struct seen *s = ctx;
    return buf_printf(&s->exported, "schedule %.*s\n", (int)v->name.len, v->name.at);
}

static void problem_cb(void *ctx, const char *sentence)
{
    report(ctx, "export", sentence);
}

static void see_export(const char *dir, struct seen *ret)
{
    struct err_note note = {""};
    struct salvage_report found;
    const struct salvage_sink sink = {.ctx = ret,
                                      .queue = queue_cb,
                                      .key = key_cb,
                                      .wanted = wanted_cb,
                                      .job = job_cb,
                                      .schedule = schedule_cb,
                                      .problem = problem_cb};
    int rc = salvage_run(dir, &sink, &found, &note);
    if (rc != 0)
        report(ret, "export", note.text);
    ret->removals = rc == 0 && (found.removals > 0 || found.queues > 0);
    if (rc == 0)
        assert_int_equal(buf_append(&ret->exported, "", 1), 0);
}

static void see_check(const char *dir, struct seen *ret)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    assert_non_null(f);
    int status = check_run(dir, f);
    fclose(f);
    const char *problem = strstr(text, "problem: ");
    if (status != CHECK_GOOD)
        report(ret, "check", problem ? problem : text);
    free(text);
}

/* check and export change nothing, so the open comes last. */
static void see(const char *dir, struct seen *ret)
{
    seen_init(ret);
    see_check(dir, ret);
    see_export(dir, ret);
    see_open(dir, ret);
}

/* ---- the store ---- */

struct rig {
    struct rig_dir dir; /* base/store is the image as files */
    struct image images[FILE_COUNT];
    size_t last_entry; /* where the last entry of the journal begins */
    struct dbpage_wal wal;
    struct seen whole, without_last;
};

static void image_read(struct image *im, const char *dir, const char *name)
{
    char path[300];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    im->len = (size_t)st.st_size;
    im->bytes = malloc(im->len);
    assert_non_null(im->bytes);
    assert_int_equal(read(fd, im->bytes, im->len), st.st_size);
    close(fd);
    im->used = im->len;
    while (im->used > 0 && im->bytes[im->used - 1] == 0)
        im->used--;
}

static void image_write(const struct image *im, const char *dir, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, im->bytes, im->used), im->used);
    assert_int_equal(ftruncate(fd, (off_t)im->len), 0);
    close(fd);
}

/* Everything as it was; what an open left beside it is removed. */
static void image_restore(const struct rig *r, const char *dir)
{
    char path[300];
    snprintf(path, sizeof path, "%s/holdfast.db-shm", dir);
    (void)unlink(path);
    snprintf(path, sizeof path, "%s/journal", dir);
    (void)mkdir(path, 0700);
    for (int i = 0; i < FILE_COUNT; i++)
        image_write(&r->images[i], dir, names[i]);
}

static const char *work_dir(const struct rig *r)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/work", r->dir.base);
    (void)mkdir(path, 0700);
    return path;
}

/* Jobs that come, and some that are done: what the engine would write, too, as check replays it. */
static struct span plain_frame(struct history *h)
{
    char payload[1500];
    history_begin(h);
    history_queue(h, 0);
    for (int i = 0; i < 3; i++) {
        struct job_extra extra = {.label = SPAN_LITERAL("plain")};
        snprintf(payload, sizeof payload, "{\"position\":%" PRIu64 ",\"i\":%d,\"text\":\"%0*d\"}",
                 h->position, i, 200 + (int)(h->seq * 37 % 1200), 7);
        uint64_t seq = history_enqueue(h, 0, &extra, span_text(payload));
        if (i == 1) {
            history_claim(h, seq, SPAN_LITERAL("worker"));
            history_ack(h, seq, SPAN_LITERAL("[1,2,3]"));
        }
    }
    return history_end(h);
}

static void some_frames(struct store *s, struct journal *j, struct history *h, int count)
{
    for (int i = 0; i < count; i++) {
        struct span frame = j ? plain_frame(h) : history_frame(h, FRAME_RECORDS);
        if (j)
            rig_journal_put(j, frame);
        if (s)
            rig_apply(s, frame);
    }
}

static void images_take(struct rig *r)
{
    for (int i = 0; i < FILE_COUNT; i++) {
        free(r->images[i].bytes);
        image_read(&r->images[i], r->dir.path, names[i]);
    }
    r->images[FILE_DB].used = r->images[FILE_DB].len;
}

static void rig_init(struct rig *r, bool copied)
{
    bool more;
    int rc = 0;
    char path[300];
    struct err_note note = {""};
    *r = (struct rig){0};
    rig_dir_make(&r->dir);
    struct history *h = malloc(sizeof *h);
    assert_non_null(h);
    history_init(h, 77);
    h->jobs_max = 120;
    struct store *s = rig_open(r->dir.path);
    some_frames(s, NULL, h, FRAMES_OLD);
    assert_int_equal(s->ops->journal_begun(s, &note), 0);
    s->ops->close(s);
    s = rig_open(r->dir.path);
    struct journal *j = journal_at(r->dir.path, s->ops->meta(s), false, NULL, NULL, &rc, &note);
    assert_int_equal(rc, 0);
    assert_int_equal(journal_begin(j, &note), 0);
    some_frames(s, j, h, FRAMES_WAL);
    if (copied)
        assert_int_equal(s->ops->tidy(s, &more, &note), 0);
    some_frames(NULL, j, h, FRAMES_AHEAD - 1);
    images_take(r);
    image_restore(r, work_dir(r));
    see(work_dir(r), &r->without_last);
    r->last_entry = r->images[FILE_JOURNAL].used;
    some_frames(NULL, j, h, 1);
    images_take(r);
    image_restore(r, work_dir(r));
    snprintf(path, sizeof path, "%s/holdfast.db", work_dir(r));
    assert_int_equal(dbpage_wal_check(path, &r->wal, &note), 0);
    see(work_dir(r), &r->whole);
    journal_close(j);
    s->ops->close(s);
    history_done(h);
    free(h);
}

static void rig_done(struct rig *r)
{
    for (int i = 0; i < FILE_COUNT; i++)
        free(r->images[i].bytes);
    dbpage_wal_done(&r->wal);
    seen_done(&r->whole);
    seen_done(&r->without_last);
    rig_dir_remove(&r->dir);
}

/* ---- comparing ---- */

/* Whether each line of one is, in the same order, in the other. */
static bool lines_within(const char *part, const char *whole)
{
    while (*part) {
        size_t len = strcspn(part, "\n");
        while (*whole && (strcspn(whole, "\n") != len || memcmp(part, whole, len) != 0)) {
            whole += strcspn(whole, "\n");
            whole += *whole == '\n';
        }
        if (!*whole)
            return false;
        whole += len + (whole[len] == '\n');
        part += len + (part[len] == '\n');
    }
    return true;
}

static size_t line_count(const char *text, const char *line, size_t len)
{
    size_t count = 0;
    while (*text) {
        size_t here = strcspn(text, "\n");
        count += here == len && memcmp(text, line, len) == 0;
        text += here + (text[here] == '\n');
    }
    return count;
}

/* As lines_within, in any order: a salvage reads what lies behind a damaged page from the end. */
static bool lines_among(const char *part, const char *whole)
{
    for (const char *line = part; *line;) {
        size_t len = strcspn(line, "\n");
        if (line_count(part, line, len) > line_count(whole, line, len))
            return false;
        line += len + (line[len] == '\n');
    }
    return true;
}

static bool same(const struct seen *a, const struct seen *b)
{
    return span_equal(buf_span(&a->lines), buf_span(&b->lines)) &&
           span_equal(buf_span(&a->exported), buf_span(&b->exported));
}

static bool within(const struct seen *part, const struct seen *whole)
{
    return (part->lines.len == 0 || lines_within(part->lines.data, whole->lines.data)) &&
           (part->exported.len == 0 || part->removals ||
            lines_among(part->exported.data, whole->exported.data));
}

/* An entry at the end that cannot be read may have been interrupted: that is reported, and the
 * store is the one before it. */
static bool may_lose_last(const struct rig *r, enum file_id file, size_t at)
{
    return file == FILE_JOURNAL && at + 1 >= r->last_entry;
}

static bool acceptable(const struct rig *r, enum file_id file, size_t at, const struct seen *s)
{
    if (same(s, &r->whole))
        return true;
    return s->reported &&
           (within(s, &r->whole) || (may_lose_last(r, file, at) && within(s, &r->without_last)));
}

struct counts {
    size_t flips, reported;
};

/* Whether the WAL has a newer version of the page of this byte; then no one reads it. */
static bool covered(const struct rig *r, size_t at)
{
    return dbpage_wal_covers(&r->wal, (uint32_t)(at / DBPAGE_BYTES) + 1);
}

static void flip_one(struct rig *r, enum file_id file, size_t at, struct counts *counts)
{
    struct seen s;
    const char *dir = work_dir(r);
    unsigned char *byte = &r->images[file].bytes[at], was = *byte;
    *byte = (unsigned char)(was ^ 1u << (at * 5 + at / 8) % 8);
    image_restore(r, dir);
    see(dir, &s);
    *byte = was;
    counts->flips++;
    counts->reported += s.reported;
    if (!acceptable(r, file, at, &s))
        fail_msg("byte %zu of %s: what is read is not what was written; reported: %s", at,
                 names[file], s.reported ? s.why : "nothing");
    if (file == FILE_DB && !s.reported && !covered(r, at))
        fail_msg("byte %zu of %s: not reported", at, names[file]);
    seen_done(&s);
}

static size_t setting(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text ? (size_t)strtoul(text, NULL, 10) : otherwise;
}

static void flips(bool copied)
{
    struct rig r;
    size_t total = 0;
    rig_init(&r, copied);
    if (r.whole.reported)
        fail_msg("the whole store: %s", r.whole.why);
    for (int i = 0; i < FILE_COUNT; i++)
        total += r.images[i].used;
    size_t step = setting("HF_FLIPS_STEP", total / SAMPLE | 1), from = setting("HF_FLIPS_FROM", 0);
    for (int i = 0; i < FILE_COUNT; i++) {
        struct counts counts = {0};
        for (; from < r.images[i].used; from += step)
            flip_one(&r, (enum file_id)i, from, &counts);
        from -= r.images[i].used;
        printf("# %s: %zu of %zu bytes flipped, %zu reported\n", names[i], counts.flips,
               r.images[i].used, counts.reported);
    }
    rig_done(&r);
}

static void before_a_checkpoint(void **state)
{
    (void)state;
    flips(false);
}

static void after_a_checkpoint(void **state)
{
    (void)state;
    flips(true);
}

/* The disk's syncs would take most of the time. */
int main(void)
{
    if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(before_a_checkpoint),
                                       cmocka_unit_test(after_a_checkpoint)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
