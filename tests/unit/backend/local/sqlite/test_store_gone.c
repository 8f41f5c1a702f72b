/* SPDX-License-Identifier: Apache-2.0 */
/* Removed jobs whose rows stay for a while: which they are, that no reader sees them, that their
 * rows are deleted, and that a record which names one is damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/local/offline/check/check.h"
#include "backend/local/pages/dbfile.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "core/records/frame.h"
#include "unit/backend/local/sqlite/store_history.h"
#include "unit/backend/local/sqlite/store_rig.h"

enum { JOBS = 2000 };

static struct rig_dir dir;
static struct history *history;
static struct store *stores[2]; /* memory, SQLite */

static const struct gone_rules rules = {
    .few = 10, .dense = 8, .recent = 200, .kept_min = 1000, .kept_one_in = 2};

static void open_sqlite(void)
{
    stores[1] = rig_open(dir.path);
    store_sqlite_of(stores[1])->gone_rules = rules;
}

/* Two thousand jobs, each with a payload and a key; one in five is dead, with the text of an error.
 */
static void fill(void)
{
    const struct record begin[] = {{.kind = REC_SEQ_BLOCK, .seq_block = {HISTORY_JOBS}},
                                   {.kind = REC_EPOCH, .epoch = {1, RIG_NOW}}};
    struct job_extra extra = {.group = SPAN_LITERAL("g")};
    history_begin(history);
    for (size_t i = 0; i < sizeof begin / sizeof begin[0]; i++)
        history_add(history, &begin[i]);
    for (unsigned i = 0; i < JOBS; i++)
        history_enqueue(history, 0, &extra, SPAN_LITERAL("payload"));
    for (uint64_t seq = 5; seq <= JOBS; seq += 5) {
        history_claim(history, seq, SPAN_LITERAL("anna"));
        history_bury(history, seq, SPAN_LITERAL("error"));
    }
    rig_apply_both(stores, history_end(history));
}

static int setup(void **state)
{
    (void)state;
    rig_dir_make(&dir);
    history = history_new(1, 1);
    assert_int_equal(store_open_memory(1, &stores[0]), 0);
    open_sqlite();
    fill();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stores[0]->ops->close(stores[0]);
    if (stores[1])
        stores[1]->ops->close(stores[1]);
    history_free(history);
    rig_dir_remove(&dir);
    return 0;
}

static int64_t number(const char *sql)
{
    int64_t v = -1;
    assert_int_equal(sql_number(store_sqlite_of(stores[1])->db, sql, &v, NULL), 0);
    return v;
}

static uint64_t marks(void)
{
    uint64_t count;
    struct store_sqlite *q = store_sqlite_of(stores[1]);
    assert_int_equal(gone_count(q->db, &count, NULL), 0);
    assert_int_equal(count, q->figures.marks);
    return count;
}

/* Removes every `step`th job between these, in one batch. */
static void remove_every(uint64_t first, uint64_t last, uint64_t step)
{
    history_begin(history);
    for (uint64_t seq = first; seq <= last; seq += step)
        history_remove(history, seq, seq);
    rig_apply_both(stores, history_end(history));
}

static void check_good(void)
{
    char *text = NULL;
    size_t len;
    stores[1]->ops->close(stores[1]);
    stores[1] = NULL;
    FILE *out = open_memstream(&text, &len);
    int result = check_run(dir.path, out);
    fclose(out);
    if (result != CHECK_GOOD)
        fail_msg("%s", text);
    free(text);
    open_sqlite();
}

/* Few of many pages: marked. Many of one page, the newest, or few at all: deleted at once. */
static void test_which(void **state)
{
    (void)state;
    remove_every(1, 90, 10); /* nine: few */
    assert_int_equal(marks(), 0);
    assert_int_equal(number("SELECT count(*) FROM jobs"), JOBS - 9);
    remove_every(101, 1200, 20); /* 55 */
    assert_int_equal(marks(), 55);
    assert_int_equal(number("SELECT count(*) FROM jobs"), JOBS - 9);
    remove_every(640, 703, 5); /* 13 of a block */
    assert_int_equal(marks(), 55);
    remove_every(JOBS - 190, JOBS, 13); /* the newest */
    assert_int_equal(marks(), 55);
    rig_same_both(stores);
    check_good();
    assert_int_equal(marks(), 55);
    rig_same_both(stores);
}

/* No one sees them: not readers, not SQL, not the count of a backup; their rare rows are
 * deleted. */
static void test_unseen(void **state)
{
    (void)state;
    struct dbfile_contents contents;
    char path[200];
    remove_every(10, 1500, 10); /* all of them dead */
    assert_int_equal(marks(), 150);
    assert_int_equal(number("SELECT count(*) FROM jobs"), JOBS);
    assert_int_equal(number("SELECT count(*) FROM job"), JOBS - 150);
    assert_int_equal(number("SELECT count(*) FROM job WHERE id = 10"), 0);
    assert_int_equal(number("SELECT count(*) FROM attempt WHERE id = 10"), 0);
    assert_int_equal(number("SELECT count(*) FROM aside"), JOBS / 5 - 150);
    rig_same_both(stores);
    stores[1]->ops->close(stores[1]);
    stores[1] = NULL;
    snprintf(path, sizeof path, "%s/holdfast.db", dir.path);
    assert_int_equal(dbfile_verify(path, &contents, NULL), 0);
    assert_int_equal(contents.jobs, JOBS - 150);
    open_sqlite();
    rig_same_both(stores);
}

static void expect_clean(int64_t rows)
{
    assert_int_equal(marks(), 0);
    assert_int_equal(number("SELECT count(*) FROM gone"), 0);
    assert_int_equal(number("SELECT count(*) FROM jobs"), rows);
    assert_int_equal(number("SELECT count(*) FROM payload"), rows);
    assert_int_equal(number("SELECT count(*) FROM extra"), rows);
    assert_int_equal(number("SELECT count(*) FROM outcome"),
                     number("SELECT count(*) FROM jobs WHERE state = 5"));
    rig_same_both(stores);
    check_good();
}

/* NOM-10: their rows go while nothing else is to be done. */
static void test_tidy(void **state)
{
    (void)state;
    bool more = true;
    remove_every(3, 1500, 15);
    assert_int_equal(marks(), 100);
    for (int steps = 0; more; steps++) {
        assert_int_equal(stores[1]->ops->tidy(stores[1], &more, NULL), 0);
        assert_true(steps < 10);
    }
    expect_clean(JOBS - 100);
}

/* NOM-10: … or when the room is asked for. */
static void test_compact(void **state)
{
    (void)state;
    uint64_t left = 1;
    remove_every(5, 1500, 15);
    assert_int_equal(marks(), 100);
    for (int steps = 0; left > 0; steps++) {
        assert_int_equal(stores[1]->ops->compact(stores[1], &left, NULL), 0);
        assert_true(steps < 50);
        assert_true(left > 0 || marks() == 0);
    }
    assert_int_equal(number("PRAGMA freelist_count"), 0);
    expect_clean(JOBS - 100);
}

/* Under load they stay below what the rules allow, and no more go than that takes. */
static void test_surplus(void **state)
{
    (void)state;
    struct store_sqlite *q = store_sqlite_of(stores[1]);
    q->gone_rules.kept_min = 60;
    q->gone_rules.kept_one_in = 1000;
    for (uint64_t first = 2; first <= 10; first++) {
        remove_every(first, 1500, 30); /* 50 each */
        assert_true(marks() <= 60);
        rig_same_both(stores);
    }
    assert_true(marks() > 0);
    assert_int_equal(number("SELECT count(*) FROM jobs"), (int64_t)(JOBS - 450 + marks()));
    assert_int_equal(q->figures.rows, number("SELECT count(*) FROM jobs"));
    check_good();
    rig_same_both(stores);
}

static void refused(const struct record *r)
{
    struct buf b;
    struct err_note note = {""};
    buf_init(&b);
    assert_int_equal(frame_begin(&b), 0);
    assert_int_equal(record_encode(r, &b), 0);
    frame_end(&b, history->position + 1, 1);
    struct span frame = buf_span(&b);
    assert_int_equal(stores[1]->ops->apply(stores[1], &frame, 1, &note), -ERR_CORRUPT);
    assert_non_null(strstr(note.text, "removed"));
    stores[1]->ops->close(stores[1]);
    open_sqlite();
    buf_done(&b);
}

static void refused_removal(uint64_t first, uint64_t step, unsigned count)
{
    struct buf list;
    uint64_t previous = 0;
    struct record r = {.kind = REC_JOBS_GONE};
    buf_init(&list);
    for (; r.jobs_gone.count < count; r.jobs_gone.count++, first += step)
        assert_int_equal(record_seq_append(&list, &previous, first), 0);
    r.jobs_gone.seqs = buf_span(&list);
    refused(&r);
    buf_done(&list);
}

/* A record about a job that has been removed is damage, whether or not its row is there. */
static void test_contradictions(void **state)
{
    (void)state;
    const struct record records[] = {
        {.kind = REC_JOB_CLAIMED,
         .job_claimed = {.seq = 31, .token = {1, 1}, .lease_ms = 30000, .at = RIG_NOW}},
        {.kind = REC_JOB_CANCELLED,
         .job_cancelled = {.seq = 31, .reason = REASON_CANCELLED, .at = RIG_NOW}},
        {.kind = REC_JOB_NOTED, .job_noted = {.seq = 31, .has_label = true}},
    };
    remove_every(1, 1500, 15);
    assert_int_equal(marks(), 100);
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++)
        refused(&records[i]);
    refused_removal(31, 1, 1);
    refused_removal(1, 15, 16); /* to be marked */
    refused_removal(31, 45, 12);
    rig_same_both(stores);
    check_good();
}

/* A mark without a row is found when the rows are to go, and nothing of it is kept. */
static void test_missing_row(void **state)
{
    (void)state;
    bool more;
    struct err_note note = {""};
    remove_every(1, 1500, 15);
    stores[1]->ops->close(stores[1]);
    rig_sql(dir.path, "DELETE FROM jobs WHERE seq = 616");
    open_sqlite();
    assert_int_equal(stores[1]->ops->tidy(stores[1], &more, &note), -ERR_CORRUPT);
    assert_non_null(strstr(note.text, "removed jobs from 576 to 639"));
    assert_int_equal(marks(), 100);
    assert_int_equal(number("SELECT count(*) FROM jobs"), JOBS - 1);
}

/* Marks that are counted but not found must not keep the cleaning going forever. */
static void test_lost_marks(void **state)
{
    (void)state;
    bool more;
    uint64_t left;
    struct err_note note = {""};
    remove_every(1, 1500, 15);
    rig_sql(dir.path, "UPDATE gone SET block = -1 - block");
    assert_int_equal(stores[1]->ops->compact(stores[1], &left, &note), -ERR_CORRUPT);
    assert_non_null(strstr(note.text, "100 jobs are marked as removed, but table gone has no"));
    stores[1]->ops->close(stores[1]);
    open_sqlite();
    assert_int_equal(stores[1]->ops->tidy(stores[1], &more, &note), -ERR_CORRUPT);
    assert_int_equal(number("SELECT count(*) FROM jobs"), JOBS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_which, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unseen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tidy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_compact, setup, teardown),
        cmocka_unit_test_setup_teardown(test_surplus, setup, teardown),
        cmocka_unit_test_setup_teardown(test_contradictions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_marks, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
