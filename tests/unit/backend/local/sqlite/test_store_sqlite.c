/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite store as a file: created, locked, recognised, looked at with sqlite3. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/local/sqlite/store_sqlite.h"
#include "base/mem.h"
#include "core/limits.h"
#include "unit/backend/local/sqlite/store_history.h"
#include "unit/backend/local/sqlite/store_rig.h"

static struct rig_dir dir;
static struct history *history;

static int setup(void **state)
{
    (void)state;
    rig_dir_make(&dir);
    history = history_new(1, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    history_free(history);
    rig_dir_remove(&dir);
    return 0;
}

static int open_fails(struct err_note *note)
{
    struct store *s = NULL;
    note->text[0] = '\0';
    int rc = store_open_sqlite(dir.path, RIG_NOW, &s, note);
    assert_null(s);
    assert_true(rc < 0);
    assert_true(note->text[0] != '\0');
    return rc;
}

static int64_t number(sqlite3 *db, const char *sql)
{
    int64_t v = -1;
    assert_int_equal(sql_number(db, sql, &v, NULL), 0);
    return v;
}

/* ---- made ---- */

static void test_made(void **state)
{
    (void)state;
    struct stat st;
    struct store *s = rig_open(dir.path);
    sqlite3 *db = store_sqlite_of(s)->db;
    assert_int_equal(stat(dir.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    for (int i = 0; i < 2; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/holdfast.db%s", dir.path, i ? "-wal" : "");
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    assert_int_equal(number(db, "PRAGMA application_id"), STORE_APPLICATION_ID);
    assert_int_equal(number(db, "PRAGMA user_version"), 105);
    assert_int_equal(number(db, "PRAGMA page_size"), 4096);
    assert_int_equal(number(db, "PRAGMA auto_vacuum"), 2);
    assert_int_equal(number(db, "PRAGMA synchronous"), 2);
    assert_int_equal(
        number(db, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'"), 1);
    /* Nothing on the hot path has a second tree. */
    assert_int_equal(number(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND "
                                "tbl_name IN ('jobs', 'payload')"),
                     0);
    struct store_meta first = store_sqlite_of(s)->meta;
    assert_int_equal(first.created_at.ms, RIG_NOW.ms);
    s->ops->close(s);
    s = rig_open(dir.path);
    assert_memory_equal(&first, &store_sqlite_of(s)->meta, sizeof first);
    s->ops->close(s);
}

/* Parents are not made: a mistyped path is not a new store. */
static void test_no_parent(void **state)
{
    (void)state;
    struct err_note note;
    struct rig_dir real = dir;
    snprintf(dir.path, sizeof dir.path, "%s/no/such", dir.base);
    assert_int_equal(open_fails(&note), -ERR_IO);
    assert_non_null(strstr(note.text, "no/such"));
    dir = real;
}

/* A store that a crash left incomplete is created again. */
static void test_made_again(void **state)
{
    (void)state;
    char path[200];
    assert_int_equal(mkdir(dir.path, 0700), 0);
    snprintf(path, sizeof path, "%s/holdfast.db.new", dir.path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("half a store", f);
    fclose(f);
    struct store *s = rig_open(dir.path);
    s->ops->close(s);
    assert_int_equal(access(path, F_OK), -1);
}

/* The WAL of a lost database is not taken for one of a new, empty store. */
static void test_orphaned_wal(void **state)
{
    (void)state;
    char path[200];
    struct err_note note;
    struct rig_dir real = dir;
    struct store *s = rig_open(dir.path);
    history_begin(history);
    history_enqueue(history, 0, NULL, SPAN_LITERAL("x"));
    rig_apply(s, history_end(history));
    snprintf(dir.path, sizeof dir.path, "%s/copy", dir.base);
    rig_dir_copy(real.path, dir.path);
    s->ops->close(s);
    snprintf(path, sizeof path, "%s/holdfast.db", dir.path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(open_fails(&note), -ERR_CORRUPT);
    assert_non_null(strstr(note.text, "holdfast.db-wal away"));
    assert_int_equal(access(path, F_OK), -1);
    dir = real;
}

/* Nor is a new, empty store created in front of the journal of a lost one. */
static void test_orphaned_journal(void **state)
{
    (void)state;
    static const char *const names[] = {"key", "1", "27"};
    char journal[200], path[220];
    struct err_note note;
    assert_int_equal(mkdir(dir.path, 0700), 0);
    snprintf(journal, sizeof journal, "%s/journal", dir.path);
    assert_int_equal(mkdir(journal, 0700), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", journal, names[i]);
        close(open(path, O_WRONLY | O_CREAT, 0600));
        assert_int_equal(open_fails(&note), -ERR_CORRUPT);
        assert_non_null(
            strstr(note.text, "holdfast.db is missing, but its journal is there: put "));
        assert_int_equal(unlink(path), 0);
        snprintf(path, sizeof path, "%s/holdfast.db", dir.path);
        assert_int_equal(access(path, F_OK), -1);
    }
    struct store *s = rig_open(dir.path); /* an empty directory is no journal */
    s->ops->close(s);
}

/* ---- locked ---- */

static void test_locked_here(void **state)
{
    (void)state;
    struct err_note note;
    char pid[32];
    struct store *s = rig_open(dir.path);
    assert_int_equal(open_fails(&note), -ERR_LOCKED);
    snprintf(pid, sizeof pid, "(pid %ld)", (long)getpid());
    assert_non_null(strstr(note.text, pid));
    assert_non_null(strstr(note.text, "choose another --data directory"));
    s->ops->close(s);
    s = rig_open(dir.path);
    s->ops->close(s);
}

static void hold_store(int ready)
{
    struct store *s;
    int rc = store_open_sqlite(dir.path, RIG_NOW, &s, NULL);
    if (write(ready, &rc, sizeof rc) != sizeof rc)
        _exit(1);
    for (;;)
        pause();
}

/* The lock of another process, which then is killed: nothing is in the way afterwards. */
static void test_locked_elsewhere(void **state)
{
    (void)state;
    struct err_note note;
    int fds[2], rc = -1;
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        hold_store(fds[1]);
    assert_int_equal(read(fds[0], &rc, sizeof rc), sizeof rc);
    assert_int_equal(rc, 0);
    assert_int_equal(open_fails(&note), -ERR_LOCKED);
    char pid[32];
    snprintf(pid, sizeof pid, "(pid %ld)", (long)child);
    assert_non_null(strstr(note.text, pid));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    struct store *s = rig_open(dir.path);
    s->ops->close(s);
    close(fds[0]);
    close(fds[1]);
}

/* ---- recognised ---- */

static void file_read(struct buf *ret)
{
    char path[200], block[4096];
    size_t n;
    snprintf(path, sizeof path, "%s/holdfast.db", dir.path);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    buf_init(ret);
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        assert_int_equal(buf_append(ret, block, n), 0);
    fclose(f);
}

static void refused_untouched(int code, const char *words)
{
    struct err_note note;
    struct buf before, after;
    file_read(&before);
    assert_int_equal(open_fails(&note), code);
    if (!strstr(note.text, words))
        fail_msg("\"%s\" is not in: %s", words, note.text);
    file_read(&after);
    assert_true(span_equal(buf_span(&before), buf_span(&after)));
    buf_done(&before);
    buf_done(&after);
}

static void test_foreign(void **state)
{
    (void)state;
    char path[200];
    assert_int_equal(mkdir(dir.path, 0700), 0);
    snprintf(path, sizeof path, "%s/holdfast.db", dir.path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(
        "Dear diary, this is not a database, although it is long enough to be one: a hundred bytes "
        "and more.\n",
        f);
    fclose(f);
    refused_untouched(-ERR_INVALID, "not a holdfast store");
    assert_int_equal(unlink(path), 0);
    rig_sql(dir.path, "CREATE TABLE mine (a); INSERT INTO mine VALUES (1)");
    refused_untouched(-ERR_INVALID, "another program");
    assert_int_equal(unlink(path), 0);
    f = fopen(path, "w");
    fclose(f);
    refused_untouched(-ERR_INVALID, "not a holdfast store");
}

static void store_made(void)
{
    struct store *s = rig_open(dir.path);
    s->ops->close(s);
}

static void test_newer(void **state)
{
    (void)state;
    store_made();
    rig_sql(dir.path, "PRAGMA user_version = 199");
    refused_untouched(-ERR_VERSION, "format 99, written by a newer version");
    rig_sql(dir.path, "PRAGMA user_version = 0");
    refused_untouched(-ERR_VERSION, "does not say which format");
    rig_sql(dir.path, "PRAGMA user_version = 105");
    store_made();
}

/* Whatever the tables look like: the number is enough. */
static void test_draft(void **state)
{
    (void)state;
    store_made();
    for (int draft = 1; draft <= 4; draft++) {
        char set[48], words[48];
        snprintf(set, sizeof set, "PRAGMA user_version = %d", draft);
        snprintf(words, sizeof words, "draft format %d", draft);
        rig_sql(dir.path, set);
        refused_untouched(-ERR_VERSION, words);
        refused_untouched(-ERR_VERSION, "start with an empty directory");
    }
    rig_sql(dir.path, "PRAGMA user_version = 101");
    refused_untouched(-ERR_VERSION, "the older format 1, which this version of Holdfast does not");
    refused_untouched(-ERR_VERSION, "holdfast export");
}

/* Nothing that someone else put into the schema is run. */
static void test_foreign_objects(void **state)
{
    (void)state;
    static const struct {
        const char *put, *drop, *words;
    } objects[] = {
        {"CREATE TRIGGER spy AFTER INSERT ON payload BEGIN DELETE FROM payload; END",
         "DROP TRIGGER spy", "the trigger \"spy\""},
        {"CREATE TRIGGER spy INSTEAD OF DELETE ON job BEGIN DELETE FROM jobs; END",
         "DROP TRIGGER spy", "the trigger \"spy\""},
        {"CREATE VIEW mine AS SELECT * FROM jobs", "DROP VIEW mine", "the view \"mine\""},
        {"CREATE TABLE mine (a)", "DROP TABLE mine", "the table \"mine\""},
        {"CREATE INDEX mine ON jobs (state)", "DROP INDEX mine", "the index \"mine\""},
    };
    store_made();
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        rig_sql(dir.path, objects[i].put);
        refused_untouched(-ERR_INVALID, objects[i].words);
        refused_untouched(-ERR_INVALID, "which Holdfast did not create");
        rig_sql(dir.path, objects[i].drop);
    }
    store_made();
}

static void test_changed_objects(void **state)
{
    (void)state;
    store_made();
    rig_sql(dir.path, "ALTER TABLE queues ADD COLUMN colour TEXT");
    refused_untouched(-ERR_VERSION, "the table \"queues\"");
    rig_sql(dir.path, "ALTER TABLE queues DROP COLUMN colour");
    rig_sql(dir.path, "DROP INDEX aside_by_queue");
    refused_untouched(-ERR_CORRUPT, "lacks the index \"aside_by_queue\"");
    rig_sql(dir.path, "CREATE INDEX aside_by_queue ON aside (queue, state)");
    /* A view of ours is no reason to refuse: it is created again. */
    rig_sql(dir.path, "DROP VIEW job; CREATE VIEW job AS SELECT load_extension('/tmp/x') AS id");
    struct store *store = rig_open(dir.path);
    assert_int_equal(number(store_sqlite_of(store)->db, "SELECT count(*) FROM job"), 0);
    store->ops->close(store);
}

static void test_damaged_meta(void **state)
{
    (void)state;
    struct err_note note;
    struct store *s = rig_open(dir.path);
    s->ops->close(s);
    rig_sql(dir.path, "DELETE FROM meta");
    assert_int_equal(open_fails(&note), -ERR_CORRUPT);
}

/* ---- looked at ---- */

static sqlite3 *shell(int flags)
{
    char path[200];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/holdfast.db", dir.path);
    assert_int_equal(sqlite3_open_v2(path, &db, flags, NULL), SQLITE_OK);
    return db;
}

static void assert_text(sqlite3 *db, const char *sql, const char *expected)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    const char *text = (const char *)sqlite3_column_text(st, 0);
    assert_string_equal(text ? text : "NULL", expected);
    sqlite3_finalize(st);
}

/* NOM-1: a shell beside the running server sees jobs in words. */
static void test_view(void **state)
{
    (void)state;
    struct store *s = rig_open(dir.path);
    struct job_extra extra = {.unique = SPAN_LITERAL("key"), .expires_at = {RIG_NOW.ms + 1}};
    history_begin(history);
    history_queue(history, 0);
    history->epoch = 1;
    for (int i = 0; i < 5; i++)
        history_enqueue(history, 0, i == 0 ? &extra : NULL, SPAN_LITERAL("{\"n\":1}"));
    history_claim(history, 1, SPAN_LITERAL("anna"));
    history_claim(history, 2, SPAN_LITERAL("anna"));
    history_ack(history, 2, SPAN_LITERAL("fine"));
    history_claim(history, 3, SPAN_LITERAL("anna"));
    history_bury(history, 3, SPAN_LITERAL("broken"));
    history_cancel(history, 4);
    rig_apply(s, history_end(history));

    sqlite3 *db = shell(SQLITE_OPEN_READONLY);
    assert_text(db, "SELECT count(*) FROM job", "5");
    assert_text(db, "SELECT state || ' ' || worker || ' ' || lease_ms FROM job WHERE id = 1",
                "running anna 30000");
    assert_text(db, "SELECT unique_key FROM job WHERE id = 1", "key");
    assert_text(db, "SELECT queue FROM job WHERE id = 1", "queue-0");
    assert_text(db, "SELECT created_at FROM job WHERE id = 1", "2026-09-21T14:13:20.000Z");
    assert_text(db, "SELECT expires_at FROM job WHERE id = 1", "2026-09-21T14:13:20.001Z");
    assert_text(db, "SELECT run_at FROM job WHERE id = 2", "NULL");
    assert_text(db, "SELECT state || ' ' || attempts FROM job WHERE id = 2", "done 1");
    assert_text(db, "SELECT lease_ms FROM job WHERE id = 2", "NULL");
    assert_text(db,
                "SELECT state || ' ' || reason || ' ' || error || ' ' || error_kind FROM job "
                "WHERE id = 3",
                "dead rejected broken business");
    assert_text(db, "SELECT state || ' ' || reason FROM job WHERE id = 4", "cancelled cancelled");
    sqlite3_close(db);

    /* What a purge has taken is not shown. */
    history_begin(history);
    struct record purge = {.kind = REC_PURGED, .purged = {1, 1, RIG_NOW, 1}};
    history_add(history, &purge);
    rig_apply(s, history_end(history));
    db = shell(SQLITE_OPEN_READONLY);
    assert_text(db, "SELECT count(*) FROM job WHERE id = 5", "0");
    assert_text(db, "SELECT count(*) FROM job", "4");
    sqlite3_close(db);
    s->ops->close(s);
}

/* The words of the view are those of core. */
static void test_view_words(void **state)
{
    (void)state;
    struct store *s = rig_open(dir.path);
    history_begin(history);
    history_enqueue(history, 0, NULL, SPAN_LITERAL("x"));
    rig_apply(s, history_end(history));
    sqlite3 *db = store_sqlite_of(s)->db;
    for (int i = STATE_SCHEDULED; i < STATE_COUNT; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "UPDATE jobs SET state = %d", i);
        assert_int_equal(sql_exec(db, sql, NULL), 0);
        assert_text(db, "SELECT state FROM job", state_name((enum job_state)i));
    }
    for (int i = REASON_NONE + 1; i < REASON_COUNT; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "UPDATE jobs SET marks = %d", i);
        assert_int_equal(sql_exec(db, sql, NULL), 0);
        assert_text(db, "SELECT reason FROM job", reason_name((enum job_reason)i));
    }
    for (int i = ATTEMPT_FAILED; i < ATTEMPT_OUTCOME_COUNT; i++) {
        char sql[120];
        snprintf(sql, sizeof sql,
                 "INSERT OR REPLACE INTO attempts VALUES (1, 1, 1, 1, 1, 1, %d, 0, NULL, NULL)", i);
        assert_int_equal(sql_exec(db, sql, NULL), 0);
        assert_text(db, "SELECT outcome FROM attempt WHERE outcome NOT IN ('running', 'done')",
                    attempt_outcome_name((enum attempt_outcome)i));
    }
    s->ops->close(s);
}

/* NOM-1: writing to a view names the command to use instead. */
static void test_view_is_read_only(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *words;
    } tries[] = {
        {"INSERT INTO job (id) VALUES (1)", "holdfast enqueue"},
        {"UPDATE job SET state = 'done'", "holdfast ack"},
        {"DELETE FROM job", "DELETE /v1/jobs/ID"},
        {"INSERT INTO attempt (id) VALUES (1)", "holdfast claim"},
        {"UPDATE attempt SET outcome = 'done'", "holdfast ack"},
        {"DELETE FROM attempt", "DELETE /v1/jobs/ID"},
        {"INSERT INTO queue (path) VALUES ('/a')", "POST /api/web/queue/enqueue"},
        {"UPDATE queue SET status = 'pending' WHERE id = 1", "holdfast requeue"},
        {"DELETE FROM queue", "POST /api/web/queue/clear-completed"},
    };
    struct store *s = rig_open(dir.path);
    history_begin(history);
    history_queue(history, 0);
    history->epoch = 1;
    history_enqueue(history, 0, NULL, SPAN_LITERAL("x"));
    history_claim(history, 1, SPAN_LITERAL("anna"));
    rig_apply(s, history_end(history));
    rig_sql(dir.path, "UPDATE queues SET name = 'webqueue.processing'");
    sqlite3 *db = shell(SQLITE_OPEN_READWRITE);
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        assert_int_not_equal(sqlite3_exec(db, tries[i].sql, NULL, NULL, NULL), SQLITE_OK);
        assert_non_null(strstr(sqlite3_errmsg(db), "can only be read; use: "));
        assert_non_null(strstr(sqlite3_errmsg(db), tries[i].words));
    }
    sqlite3_close(db);
    s->ops->close(s);
}

/* Views are what this program makes of them, whatever was there. */
static void test_views_created_again(void **state)
{
    (void)state;
    struct store *s = rig_open(dir.path);
    s->ops->close(s);
    rig_sql(dir.path, "DROP VIEW job; CREATE VIEW job AS SELECT 1 AS id");
    s = rig_open(dir.path);
    sqlite3 *db = store_sqlite_of(s)->db;
    assert_int_equal(number(db, "SELECT count(*) FROM job"), 0);
    assert_int_equal(number(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'view'"), 3);
    assert_int_equal(number(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'"), 9);
    int64_t version = number(db, "PRAGMA schema_version");
    s->ops->close(s);
    s = rig_open(dir.path);
    assert_int_equal(number(store_sqlite_of(s)->db, "PRAGMA schema_version"), version);
    s->ops->close(s);
}

/* ---- short of memory ---- */

static void test_open_without_memory(void **state)
{
    (void)state;
    struct store *s = NULL;
    struct err_note note;
    long nth = 0;
    for (int rc = -ERR_NOMEM; rc != 0;) {
        mem_fail_at(++nth, 1);
        rc = store_open_sqlite(dir.path, RIG_NOW, &s, &note);
        mem_fail_at(0, 0);
        assert_true(rc == 0 || rc == -ERR_NOMEM);
    }
    assert_true(nth > 2);
    s->ops->close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_made, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_parent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_made_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orphaned_wal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orphaned_journal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_locked_here, setup, teardown),
        cmocka_unit_test_setup_teardown(test_locked_elsewhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
        cmocka_unit_test_setup_teardown(test_newer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_meta, setup, teardown),
        cmocka_unit_test_setup_teardown(test_draft, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_objects, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed_objects, setup, teardown),
        cmocka_unit_test_setup_teardown(test_view, setup, teardown),
        cmocka_unit_test_setup_teardown(test_view_words, setup, teardown),
        cmocka_unit_test_setup_teardown(test_view_is_read_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_views_created_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open_without_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
