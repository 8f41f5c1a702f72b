/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast check: a good store is called good, each kind of damage is told, nothing is changed. */
#include <setjmp.h>
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

#include "backend/local/engine/engine.h"
#include "backend/local/offline/check/check.h"
#include "backend/local/pages/vfs.h"
#include "backend/local/sqlite/store_sqlite.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define AT INT64_C(1760000000000)
#define SECRET "hush-hush" /* in every payload, key and error text: never printed */

/* ---- a store with something of everything ---- */

static struct span encoded_policy(struct buf *b, bool kept)
{
    struct queue_policy p;
    policy_default(&p);
    p.unique_scope = kept ? UNIQUE_KEPT : UNIQUE_LIVE;
    buf_clear(b);
    assert_int_equal(policy_encode(&p, b), 0);
    return buf_span(b);
}

static void put(struct buf *frame, uint32_t *count, const struct record *r)
{
    assert_int_equal(record_encode(r, frame), 0);
    ++*count;
}

static struct record queue_record(uint32_t number, const char *name, struct span policy)
{
    return (struct record){.kind = REC_QUEUE_PUT,
                           .queue_put = {.queue = number,
                                         .created_at = {AT},
                                         .updated_at = {AT},
                                         .name = span_text(name),
                                         .policy = policy}};
}

static struct record job_record(uint64_t seq, uint32_t queue, const char *payload,
                                const char *unique)
{
    return (struct record){
        .kind = REC_JOB_NEW,
        .job_new = {.job = {.seq = seq,
                            .id_hi = id_hi((struct wall_time){AT}, 0),
                            .since = {AT},
                            .queue = queue,
                            .state = STATE_READY,
                            .payload_kind = *payload ? PAYLOAD_BYTES : PAYLOAD_NONE},
                    .extra = {.unique = span_text(unique)},
                    .payload = span_text(payload)}};
}

static struct record claim_record(uint64_t seq)
{
    return (struct record){.kind = REC_JOB_CLAIMED,
                           .job_claimed = {.seq = seq,
                                           .token = {.counter = seq, .epoch = 1},
                                           .lease_ms = 30000,
                                           .at = {AT},
                                           .worker = SPAN_LITERAL("w1")}};
}

/* Queues 1 (unique among live), 2 (among kept), 3 (deleted). Jobs of queue 1: 1 ready with payload,
 * 2 ready with extra, 3 running, 4 done with a result, 5 dead with an error, 6 cancelled, 7 done
 * with the key of 2 (which it no longer holds). Queue 2: 8 done with a key, 9 ready, purged.
 * Queue 3: 10 ready. Job 11 of queue 1: ready, nothing besides. */
static void fill(struct buf *frame, uint32_t *count)
{
    struct buf policy;
    buf_init(&policy);
    put(frame, count, &(struct record){.kind = REC_EPOCH, .epoch = {.epoch = 1, .at = {AT}}});
    put(frame, count, &(struct record){.kind = REC_SEQ_BLOCK, .seq_block = {.upto = 100}});
    struct record r = queue_record(1, "mail", encoded_policy(&policy, false));
    put(frame, count, &r);
    r = queue_record(2, "kept", encoded_policy(&policy, true));
    put(frame, count, &r);
    r = queue_record(3, "old", encoded_policy(&policy, false));
    put(frame, count, &r);
    for (uint64_t seq = 1; seq <= 11; seq++) {
        const char *unique = seq == 2 || seq == 7   ? SECRET
                             : seq == 8 || seq == 9 ? SECRET "-2"
                                                    : "";
        r = job_record(seq,
                       seq == 10              ? 3
                       : seq == 8 || seq == 9 ? 2
                                              : 1,
                       seq == 11 ? "" : SECRET, unique);
        if (seq == 2) /* after 7 has let go of the key */
            continue;
        put(frame, count, &r);
    }
    for (uint64_t seq = 3; seq <= 8; seq++) {
        r = claim_record(seq);
        if (seq != 6)
            put(frame, count, &r);
    }
    put(frame, count,
        &(struct record){.kind = REC_JOB_DONE,
                         .job_done = {.seq = 4,
                                      .at = {AT},
                                      .result_kind = PAYLOAD_BYTES,
                                      .result = SPAN_LITERAL(SECRET)}});
    put(frame, count,
        &(struct record){.kind = REC_JOB_DEAD,
                         .job_dead = {.seq = 5,
                                      .reason = REASON_FAILED,
                                      .failures = 1,
                                      .at = {AT},
                                      .error = SPAN_LITERAL(SECRET)}});
    put(frame, count,
        &(struct record){.kind = REC_JOB_CANCELLED,
                         .job_cancelled = {.seq = 6, .reason = REASON_CANCELLED, .at = {AT}}});
    put(frame, count, &(struct record){.kind = REC_JOB_DONE, .job_done = {.seq = 7, .at = {AT}}});
    put(frame, count, &(struct record){.kind = REC_JOB_DONE, .job_done = {.seq = 8, .at = {AT}}});
    r = job_record(2, 1, SECRET, SECRET);
    put(frame, count, &r);
    put(frame, count,
        &(struct record){.kind = REC_PURGED,
                         .purged = {.queue = 2, .generation = 1, .at = {AT}, .count = 1}});
    put(frame, count, &(struct record){.kind = REC_QUEUE_GONE, .queue = {.queue = 3, .at = {AT}}});
    put(frame, count,
        &(struct record){.kind = REC_BULK_BEGIN,
                         .bulk_begin = {.bulk = 1,
                                        .action = BULK_CANCEL,
                                        .at = {AT},
                                        .queue = 1,
                                        .states = STATES_WAITING,
                                        .seq_max = 11}});
    put(frame, count,
        &(struct record){.kind = REC_KEY_NEW,
                         .key_new = {.key = {1, 2},
                                     .seq = 1,
                                     .id_hi = id_hi((struct wall_time){AT}, 0),
                                     .expires_at = {AT + 1000}}});
    buf_done(&policy);
}

struct rig {
    char dir[64];
    char *said; /* by the last check */
};

static void path_in(const struct rig *r, const char *name, char path[128])
{
    assert_true(snprintf(path, 128, "%s/%s", r->dir, name) < 128);
}

static struct store *store_filled(const struct rig *r)
{
    struct store *store;
    struct buf frame;
    struct err_note note = {""};
    uint32_t count = 0;
    assert_int_equal(store_open_sqlite(r->dir, (struct wall_time){AT}, &store, &note), 0);
    buf_init(&frame);
    assert_int_equal(frame_begin(&frame), 0);
    fill(&frame, &count);
    frame_end(&frame, 1, count);
    struct span span = buf_span(&frame);
    if (store->ops->apply(store, &span, 1, &note) != 0)
        fail_msg("%s", note.text);
    buf_done(&frame);
    return store;
}

static void rig_bare(struct rig *r)
{
    const char *tmp = getenv("TMPDIR");
    *r = (struct rig){.dir = ""};
    snprintf(r->dir, sizeof r->dir, "%.40s/hf-check-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(r->dir));
}

static void rig_open(struct rig *r)
{
    rig_bare(r);
    struct store *store = store_filled(r);
    store->ops->close(store);
}

static void rig_close(struct rig *r)
{
    static const char *const names[] = {"holdfast.db", "holdfast.db-wal", "holdfast.db-shm",
                                        "holdfast.db.new", "lock"};
    char path[128];
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        path_in(r, names[i], path);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(r->dir), 0);
    free(r->said);
}

/* ---- looking ---- */

static int run_on(struct rig *r, const char *dir)
{
    size_t len = 0;
    free(r->said);
    FILE *out = open_memstream(&r->said, &len);
    assert_non_null(out);
    int status = check_run(dir, out);
    fclose(out);
    if (strstr(r->said, SECRET))
        fail_msg("tells a secret: %s", r->said);
    return status;
}

static int run(struct rig *r)
{
    return run_on(r, r->dir);
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static void must_say(const struct rig *r, const char *text)
{
    if (!strstr(r->said, text))
        fail_msg("not said: \"%s\"; but:\n%s", text, r->said);
}

static void damage(const struct rig *r, const char *sql)
{
    char path[128];
    sqlite3 *db = NULL;
    char *why = NULL;
    path_in(r, "holdfast.db", path);
    assert_int_equal(dbpage_vfs_register(), 0);
    assert_int_equal(
        sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, DBPAGE_VFS),
        SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int64_t number_of(const struct rig *r, const char *sql)
{
    char path[128];
    sqlite3 *db = NULL;
    int64_t number = 0;
    path_in(r, "holdfast.db", path);
    assert_int_equal(sql_open(path, SQLITE_OPEN_READONLY, 0, &db, NULL), 0);
    assert_int_equal(sql_number(db, sql, &number, NULL), 0);
    sqlite3_close(db);
    return number;
}

/* The bytes of a file; for free. */
static char *bytes_of(const struct rig *r, const char *name, size_t *ret_len)
{
    char path[128];
    path_in(r, name, path);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *bytes = malloc(1 << 22);
    assert_non_null(bytes);
    *ret_len = fread(bytes, 1, 1 << 22, f);
    fclose(f);
    return bytes;
}

/* Whether a server would start on it. */
static bool loads(const struct rig *r)
{
    struct store *store;
    struct engine_config config;
    struct engine *e = NULL;
    struct err_note note = {""};
    if (store_open_sqlite(r->dir, (struct wall_time){AT}, &store, &note) != 0)
        return false;
    engine_config_default(&config);
    assert_int_equal(engine_new(&config, &e), 0);
    int rc = engine_load(e, store, &note);
    engine_free(e);
    store->ops->close(store);
    return rc == 0;
}

/* ---- tests ---- */

static void good_store_is_called_good(void **state)
{
    (void)state;
    struct rig r;
    char end[160];
    rig_open(&r);
    int status = run(&r);
    if (status != CHECK_GOOD)
        fail_msg("%s", r.said);
    assert_true(loads(&r));
    must_say(&r, "queue mail: 0 scheduled, 3 ready, 1 running, 2 done, 1 dead, 1 cancelled");
    must_say(&r, "queue kept: 0 scheduled, 0 ready, 0 running, 1 done, 0 dead, 0 cancelled");
    snprintf(end, sizeof end, "%s: no problems found (11 jobs in 3 queues)\n", r.dir);
    if (!ends_with(r.said, end))
        fail_msg("does not end with %s%s", end, r.said);
    assert_int_equal(run(&r), CHECK_GOOD); /* and has given the lock back */
    rig_close(&r);
}

static void new_store_is_called_good(void **state)
{
    (void)state;
    struct rig r;
    struct store *store;
    rig_bare(&r);
    assert_int_equal(store_open_sqlite(r.dir, (struct wall_time){AT}, &store, NULL), 0);
    store->ops->close(store);
    assert_int_equal(run(&r), CHECK_GOOD);
    must_say(&r, "no problems found (0 jobs in 0 queues)");
    rig_close(&r);
}

static const struct {
    const char *sql, *said;
} damages[] = {
    {"UPDATE jobs SET state = 9 WHERE seq = 1", "table jobs, row 1: column state is 9; it must be"},
    {"UPDATE jobs SET marks = marks | 15 WHERE seq = 1", "table jobs, row 1: column marks is"},
    {"UPDATE jobs SET marks = 64 WHERE seq = 11", "table jobs, row 11: column marks is 64"},
    {"UPDATE jobs SET since = -1 WHERE seq = 1", "table jobs, row 1: column since is -1"},
    {"UPDATE jobs SET payload = 3 WHERE seq = 11", "table jobs, row 11: column payload is 3"},
    {"UPDATE jobs SET seq = -4 WHERE seq = 11", "table jobs, row -4: column seq is -4"},
    {"UPDATE jobs SET marks = 1 WHERE seq = 4", "table jobs, row 4: column marks is 1"},
    {"UPDATE jobs SET payload = payload & ~3 WHERE seq = 1",
     "table jobs, row 1: column payload is"},
    {"DELETE FROM payload WHERE seq = 1", "job 1: its payload is missing"},
    {"UPDATE payload SET body = x'00' WHERE seq = 1", "job 1: its payload has 1 bytes"},
    {"INSERT INTO payload VALUES (11, x'00', 0)", "job 11: its payload has 1 bytes"},
    {"INSERT INTO payload VALUES (11, x'', 0)", "job 11: its payload has 0 bytes"},
    {"INSERT INTO payload VALUES (77, x'00', 0)", "table payload has a row for job 77"},
    {"UPDATE payload SET body = CAST(replace(CAST(body AS TEXT), substr(CAST(body AS TEXT), 1, 1), "
     "'~') AS BLOB) WHERE seq = 1",
     "job 1: its payload is not what was written"},
    {"UPDATE payload SET crc = crc + 1 WHERE seq = 1",
     "job 1: its payload is not what was written"},
    {"UPDATE outcome SET result_crc = 0 WHERE seq = 4",
     "job 4: its result is not what was written"},
    {"DELETE FROM extra WHERE seq = 2", "job 2: its row in table extra is missing"},
    {"INSERT INTO extra (seq, label, expires_at) VALUES (11, 'x', 0)",
     "job 11: its row in table extra is one too many"},
    {"INSERT INTO extra (seq, label, expires_at) VALUES (50, 'x', 0)",
     "table extra has a row for job 50"},
    {"UPDATE extra SET expires_at = -1 WHERE seq = 2",
     "table extra, row 2: column expires_at is -1"},
    {"UPDATE extra SET label = CAST(x'ff' AS TEXT) WHERE seq = 2",
     "table extra, row 2: column label is 1 bytes"},
    {"UPDATE extra SET options = x'ffff' WHERE seq = 2",
     "table extra, row 2: column options is 2 bytes"},
    {"INSERT INTO outcome (seq) VALUES (50)", "table outcome has a row for job 50"},
    {"UPDATE outcome SET result_kind = 9 WHERE seq = 4",
     "table outcome, row 4: column result_kind"},
    {"UPDATE outcome SET error_kind = 9 WHERE seq = 5", "table outcome, row 5: column error_kind"},
    {"UPDATE outcome SET result_kind = 0 WHERE seq = 4", "job 4: its result and the kind of it"},
    {"INSERT INTO hour VALUES (77, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0)",
     "table hour has a row for queue 77, which does not exist"},
    {"INSERT INTO hour VALUES (1, 9, 1, 1, 1, 0, 0, 0, -1, 0, 0, 1, 1, 0, 0)",
     "table hour, row 1: column released is -1"},
    {"DELETE FROM aside WHERE seq = 5", "job 5 is dead, but missing in table aside"},
    {"DELETE FROM aside WHERE seq = 6", "job 6 is cancelled, but missing in table aside"},
    {"INSERT INTO aside VALUES (1, 1, 5)", "job 1 is ready, which table aside says otherwise"},
    {"UPDATE aside SET state = 6 WHERE seq = 5", "job 5 is dead, which table aside says otherwise"},
    {"UPDATE aside SET queue = 2 WHERE seq = 5", "job 5 is dead, which table aside says otherwise"},
    {"INSERT INTO aside VALUES (50, 1, 5)", "table aside has a row for job 50"},
    {"UPDATE jobs SET lease_ms = 0 WHERE seq = 3", "job 3 is running, but has no lease"},
    {"INSERT INTO links VALUES (50, 1, 1)", "table links has a row for job 50"},
    {"INSERT INTO schedules VALUES (1, 's', 0, 0, 0, x'00', NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, "
     "0, 0, 0, 0)",
     "table schedules, row 1: column spec is 1 bytes"},
    {"UPDATE jobs SET token_counter = 0, token_epoch = 0 WHERE seq = 3",
     "job 3 is running, but has no lease"},
    {"UPDATE jobs SET lease_ms = 30000 WHERE seq = 1", "job 1 is ready, but has a lease"},
    {"UPDATE jobs SET worker = 'w' WHERE seq = 5", "job 5 is dead, but has a lease"},
    {"UPDATE jobs SET lease_ms = 30000 WHERE seq = 4",
     "table jobs, row 4: column lease_ms is 30000"},
    {"UPDATE jobs SET lease_ms = 9223372036854775807 WHERE seq = 4",
     "table jobs, row 4: column lease_ms is 9223372036854775807"},
    {"UPDATE attempts SET seq = 50", "table attempts has a row for job 50"},
    {"UPDATE attempts SET position = 1 << 40",
     "a row in table attempts is of a record not applied"},
    {"UPDATE attempts SET outcome = 0", "table attempts, row 5: column outcome is 0"},
    {"UPDATE attempts SET number = 0", "table attempts, row 5: column number is 0"},
    {"UPDATE attempts SET ended_at = -1", "table attempts, row 5: column ended_at is -1"},
    {"UPDATE attempts SET error_kind = 2", "table attempts, row 5: column error_kind is 2"},
    {"UPDATE attempts SET worker = CAST(x'ff' AS TEXT)",
     "table attempts, row 5: column worker is 1 bytes"},
    {"UPDATE attempts SET queue = 2", "a row in table attempts is of another queue"},
    {"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 21)"
     " INSERT OR REPLACE INTO attempts SELECT 5, i, 1, 1, 1, 1, 4, 0, NULL, NULL FROM n",
     "job 5 has more than 20 rows in table attempts"},
    {"INSERT INTO steps VALUES (5, 'a', x'31', 0)",
     "job 5: the result of its step \"a\" is not what was written"},
    {"INSERT INTO steps VALUES (90, 'a', x'31', 0)",
     "there are steps of job 90, which does not exist"},
    {"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1001)"
     " INSERT INTO steps SELECT 5, 'n' || i, x'31', 0 FROM n",
     "job 5 has 1001 steps"},
    {"DROP TABLE attempts", "lacks the table \"attempts\""},
    {"CREATE TRIGGER spy AFTER INSERT ON jobs BEGIN SELECT 1; END",
     "the trigger \"spy\", which Holdfast did not create"},
    {"UPDATE jobs SET marks = marks | 32 WHERE seq = 1", "job 1 is ready, but has a lease"},
    {"UPDATE jobs SET worker = CAST(x'ff' AS TEXT) WHERE seq = 3",
     "table jobs, row 3: column worker is 1 bytes"},
    {"UPDATE jobs SET token_epoch = 2 WHERE seq = 3", "job 3: its token is of boot 2"},
    {"UPDATE jobs SET token_epoch = 0 WHERE seq = 3", "job 3: its token is half empty"},
    {"UPDATE jobs SET queue = 8 WHERE seq = 1", "job 1 is of queue 8, which does not exist"},
    {"UPDATE meta SET seq_upto = 10", "job 11 is beyond the last reserved sequence, 10"},
    {"UPDATE meta SET position = 0", "no record was applied"},
    {"UPDATE meta SET position = -1", "table meta, row 1: column position is -1"},
    {"UPDATE meta SET seq_upto = -1", "table meta, row 1: column seq_upto is -1"},
    {"UPDATE meta SET hash_key = x'00'", "table meta, row 1: column hash_key is 1 bytes"},
    {"DELETE FROM meta", "table meta, which identifies the store, is empty"},
    {"UPDATE jobs SET state = 2 WHERE seq = 7", "have the same unique key"},
    {"UPDATE jobs SET counts = counts | 1 << 32 WHERE seq = 9",
     "job 9 and job 8 of queue kept have the same unique key"},
    {"UPDATE keys SET expires_at = -1", "table keys, row -1: column expires_at is -1"},
    {"UPDATE keys SET seq = 0", "column seq is 0; it must be a number from 1"},
    {"UPDATE keys SET key_hi = 0, key_lo = 0", "an idempotency key is 0"},
    {"UPDATE keys SET seq = 101", "an idempotency key names job 101"},
    {"INSERT INTO keys VALUES (5, 1, 2, 0, 2, 0)", "job 1 and job 2 have the same idempotency key"},
    {"UPDATE queues SET name = '' WHERE number = 1", "table queues, row 1: column name is 0 bytes"},
    {"UPDATE queues SET name = '-x' WHERE number = 1",
     "table queues, row 1: column name is 2 bytes"},
    {"UPDATE queues SET name = char(27) || '[2J' WHERE number = 1",
     "table queues, row 1: column name is 4 bytes"},
    {"UPDATE queues SET policy = x'00' WHERE number = 2",
     "table queues, row 2: column policy is 1 bytes"},
    {"UPDATE queues SET generation = 1 << 32 WHERE number = 2",
     "table queues, row 2: column generation is 4294967296"},
    {"UPDATE queues SET gone = 2 WHERE number = 3", "table queues, row 3: column gone is 2"},
    {"UPDATE queues SET paused_until = -1 WHERE number = 1",
     "table queues, row 1: column paused_until is -1"},
    {"UPDATE queues SET note = CAST(x'ff' AS TEXT) WHERE number = 1",
     "table queues, row 1: column note is 1 bytes"},
    {"DROP INDEX queues_by_name; UPDATE queues SET name = 'mail' WHERE number = 2",
     "queue 1 and queue 2 have the same name"},
    {"UPDATE bulks SET queue = 9", "bulk action 1 is about queue 9, which does not exist"},
    {"UPDATE bulks SET action = 9", "table bulks, row 1: column action is 9"},
    {"UPDATE bulks SET states = 256", "table bulks, row 1: column states is 256"},
    {"DROP TABLE outcome", "lacks the table \"outcome\""},
    {"DROP TABLE gone", "lacks the table \"gone\""},
    {"INSERT INTO gone VALUES (0, 0)", "table gone, row 0: column bits is 0"},
    {"INSERT INTO gone VALUES (-1, 1)", "table gone, row -1: column block is -1"},
    {"INSERT INTO gone VALUES (1, 6)", "table gone names 2 jobs from 64 to 127, of which 0 have"},
    {"INSERT INTO gone VALUES (0, 1 << 5)", "aside has a row for job 5, which has been removed"},
    /* An index that has lost a row: only integrity_check sees it. */
    {"PRAGMA writable_schema = ON;"
     "UPDATE sqlite_schema SET sql = 'CREATE INDEX aside_by_queue ON aside (queue, state) "
     "WHERE state = 99' WHERE name = 'aside_by_queue'; PRAGMA writable_schema = RESET; REINDEX;"
     "PRAGMA writable_schema = ON;"
     "UPDATE sqlite_schema SET sql = 'CREATE INDEX aside_by_queue ON aside (queue, state)' "
     "WHERE name = 'aside_by_queue'",
     "SQLite says: "},
};

/* Where the advice does not say that a server may refuse to start, it starts. */
static void advice_must_be_true(const struct rig *r, const char *sql)
{
    bool sure = !strstr(r->said, "to do: The file is damaged") &&
                !strstr(r->said, "The server may refuse to start");
    if (sure && !loads(r))
        fail_msg("after \"%s\" no server starts, but check says:\n%s", sql, r->said);
}

static void each_damage_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        struct rig r;
        rig_open(&r);
        damage(&r, damages[i].sql);
        int status = run(&r);
        if (status != CHECK_PROBLEMS || !strstr(r.said, damages[i].said))
            fail_msg("after \"%s\": status %d, \"%s\" wanted in:\n%s", damages[i].sql, status,
                     damages[i].said, r.said);
        must_say(&r, "to do: ");
        advice_must_be_true(&r, damages[i].sql);
        assert_true(ends_with(r.said, "found\n"));
        assert_null(strchr(r.said, 27));
        rig_close(&r);
    }
}

static void many_of_one_sort_are_counted(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    damage(&r, "WITH RECURSIVE n(i) AS (SELECT 20 UNION ALL SELECT i + 1 FROM n WHERE i < 59) "
               "INSERT INTO payload SELECT i, x'00', 0 FROM n; DELETE FROM aside WHERE seq = 5");
    assert_int_equal(run(&r), CHECK_PROBLEMS);
    must_say(&r, "a row for job 39, ");
    assert_null(strstr(r.said, "a row for job 40, "));
    must_say(&r, "… and 20 more");
    must_say(&r, "job 5 is dead, but missing"); /* not crowded out */
    must_say(&r, ": 41 problems found\n");
    rig_close(&r);
}

/* A page overwritten: what can be read is, and what cannot is a finding. */
static void damaged_page_is_told(void **state)
{
    (void)state;
    struct rig r;
    char path[128], junk[4096];
    rig_open(&r);
    path_in(&r, "holdfast.db", path);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    memset(junk, 0xa5, sizeof junk);
    for (long page = 2; page < st.st_size / 4096; page += 3) {
        FILE *f = fopen(path, "r+b");
        assert_non_null(f);
        fseek(f, page * 4096, SEEK_SET);
        assert_int_equal(fwrite(junk, sizeof junk, 1, f), 1);
        fclose(f);
    }
    assert_int_equal(run(&r), CHECK_PROBLEMS);
    must_say(&r, "to do: ");
    rig_close(&r);
}

/* A store with this many jobs, whose rows in jobs and payload fill several pages each. */
static void rig_open_large(struct rig *r, int count)
{
    char sql[600];
    rig_open(r);
    snprintf(
        sql, sizeof sql,
        "WITH RECURSIVE n(i) AS (SELECT 12 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
        "INSERT INTO jobs SELECT i, %s FROM n, jobs WHERE seq = 1; UPDATE meta SET seq_upto = %d;"
        "INSERT INTO payload SELECT j.seq, p.body, p.crc FROM jobs j, payload p"
        " WHERE p.seq = 1 AND j.seq > 11",
        count, JOB_COLUMNS + strlen("seq, "), count);
    damage(r, sql);
}

/* Of a tree with more than one level. */
static uint32_t second_leaf(const struct rig *r, const char *table)
{
    char *sql = sqlite3_mprintf("SELECT rootpage FROM sqlite_schema WHERE name = %Q", table);
    size_t len;
    unsigned char *bytes = (unsigned char *)bytes_of(r, "holdfast.db", &len);
    const unsigned char *top = bytes + (size_t)(number_of(r, sql) - 1) * 4096;
    assert_int_equal(top[0], 5);
    const unsigned char *cell = top + (top[14] << 8 | top[15]);
    uint32_t leaf =
        (uint32_t)cell[0] << 24 | (uint32_t)cell[1] << 16 | (uint32_t)cell[2] << 8 | cell[3];
    free(bytes);
    sqlite3_free(sql);
    return leaf;
}

static void second_leaf_damage(const struct rig *r, const char *table)
{
    char path[128];
    path_in(r, "holdfast.db", path);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, (long)(second_leaf(r, table) - 1) * 4096 + 2000, SEEK_SET);
    assert_int_equal(fwrite("damage", 6, 1, f), 1);
    fclose(f);
}

/* One page of a table is damaged: the jobs of the others are not called damaged. */
static void what_cannot_be_read_is_not_missing(void **state)
{
    (void)state;
    static const char *const tables[] = {"payload", "jobs"};
    for (size_t i = 0; i < COUNT_OF(tables); i++) {
        struct rig r;
        char words[80];
        rig_open_large(&r, 3000);
        assert_int_equal(run(&r), CHECK_GOOD);
        second_leaf_damage(&r, tables[i]);
        assert_int_equal(run(&r), CHECK_PROBLEMS);
        snprintf(words, sizeof words, "problem: table %s could not be read beyond job ", tables[i]);
        must_say(&r, words);
        if (strstr(r.said, "is missing") || strstr(r.said, "does not exist"))
            fail_msg("too much: %s", r.said);
        rig_close(&r);
    }
}

/* The jobs behind a page that cannot be read are checked as well. */
static void jobs_behind_damage_are_checked(void **state)
{
    (void)state;
    struct rig r;
    rig_open_large(&r, 3000);
    damage(&r, "DELETE FROM payload WHERE seq = 2990");
    second_leaf_damage(&r, "jobs");
    assert_int_equal(run(&r), CHECK_PROBLEMS);
    must_say(&r, "problem: table jobs could not be read beyond job ");
    must_say(&r, "job 2990: its payload is missing");
    rig_close(&r);
}

/* The files of a server that was killed: the WAL is read, and is the same afterwards. */
static void wal_is_read_and_left(void **state)
{
    (void)state;
    static const char *const names[] = {"holdfast.db", "holdfast.db-wal"};
    struct rig live, r;
    char path[128];
    rig_bare(&live);
    rig_bare(&r);
    struct store *store = store_filled(&live);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t len;
        char *bytes = bytes_of(&live, names[i], &len);
        assert_true(len > 0);
        path_in(&r, names[i], path);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, len, f), len);
        fclose(f);
        free(bytes);
    }
    assert_int_equal(run(&r), CHECK_GOOD);
    must_say(&r, "no problems found (11 jobs in 3 queues)");
    path_in(&r, "holdfast.db-shm", path);
    assert_int_not_equal(access(path, F_OK), 0);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t before_len, after_len;
        char *before = bytes_of(&live, names[i], &before_len);
        char *after = bytes_of(&r, names[i], &after_len);
        assert_int_equal(before_len, after_len);
        assert_memory_equal(before, after, before_len);
        free(before);
        free(after);
    }
    store->ops->close(store);
    rig_close(&live);
    rig_close(&r);
}

static void check_writes_nothing(void **state)
{
    (void)state;
    struct rig r;
    size_t before_len, after_len;
    rig_open(&r);
    damage(&r, "UPDATE jobs SET state = 9 WHERE seq = 1");
    char *before = bytes_of(&r, "holdfast.db", &before_len);
    assert_int_equal(run(&r), CHECK_PROBLEMS);
    char *after = bytes_of(&r, "holdfast.db", &after_len);
    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, before_len);
    free(before);
    free(after);
    static const char *const beside[] = {"holdfast.db-wal", "holdfast.db-shm"};
    for (size_t i = 0; i < COUNT_OF(beside); i++) {
        char path[128];
        path_in(&r, beside[i], path);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    rig_close(&r);
}

/* Another process holds the lock: it says so when it has it, and waits until it may go. */
static void locked_store_is_not_checked(void **state)
{
    (void)state;
    struct rig r;
    int ready[2], go[2];
    char byte = 0, pid[32];
    rig_open(&r);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct store_dir dir;
        close(go[1]);
        int rc = store_dir_open(r.dir, false, &dir, NULL);
        if (rc != 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        _exit(read(go[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(go[0]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(run(&r), CHECK_NOT_DONE);
    must_say(&r, "in use by another holdfast process");
    snprintf(pid, sizeof pid, "(pid %ld)", (long)child);
    must_say(&r, pid);
    close(go[1]);
    close(ready[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(run(&r), CHECK_GOOD);
    rig_close(&r);
}

static void other_versions_are_not_checked(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    damage(&r, "PRAGMA user_version = 4711");
    assert_int_equal(run(&r), CHECK_NOT_DONE);
    must_say(&r, "format 4611");
    must_say(&r, "use the newer version");
    damage(&r, "PRAGMA user_version = 3");
    assert_int_equal(run(&r), CHECK_NOT_DONE);
    must_say(&r, "draft format 3");
    damage(&r, "PRAGMA user_version = 0");
    assert_int_equal(run(&r), CHECK_NOT_DONE);
    rig_close(&r);
}

static void file_put(const struct rig *r, const char *text)
{
    char path[128];
    path_in(r, "holdfast.db", path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Neither is a lock file left where no store is. */
static void what_is_no_store_is_not_checked(void **state)
{
    (void)state;
    struct rig r;
    char path[128];
    rig_bare(&r);
    path_in(&r, "missing", path);
    assert_int_equal(run_on(&r, path), CHECK_NOT_DONE);
    assert_int_equal(run(&r), CHECK_NOT_DONE);
    must_say(&r, "there is no store");
    file_put(&r, "a diary, not a database");
    assert_int_equal(run(&r), CHECK_NOT_DONE);
    must_say(&r, "not a holdfast store");
    file_put(&r, "");
    assert_int_equal(run(&r), CHECK_NOT_DONE);
    path_in(&r, "holdfast.db", path);
    assert_int_equal(unlink(path), 0);
    damage(&r, "CREATE TABLE recipes (name TEXT)");
    assert_int_equal(run(&r), CHECK_NOT_DONE);
    must_say(&r, "another program");
    path_in(&r, "lock", path);
    assert_int_not_equal(access(path, F_OK), 0);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_store_is_called_good),
        cmocka_unit_test(new_store_is_called_good),
        cmocka_unit_test(each_damage_is_told),
        cmocka_unit_test(many_of_one_sort_are_counted),
        cmocka_unit_test(damaged_page_is_told),
        cmocka_unit_test(what_cannot_be_read_is_not_missing),
        cmocka_unit_test(jobs_behind_damage_are_checked),
        cmocka_unit_test(wal_is_read_and_left),
        cmocka_unit_test(check_writes_nothing),
        cmocka_unit_test(locked_store_is_not_checked),
        cmocka_unit_test(other_versions_are_not_checked),
        cmocka_unit_test(what_is_no_store_is_not_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
