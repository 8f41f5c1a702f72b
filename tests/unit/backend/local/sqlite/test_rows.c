/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that no Holdfast has written (HF-18): every column of every table with values at and beyond
 * its bounds. For each, the store is checked, exported, restored, opened, loaded and used; nothing
 * may abort or allocate without bound, and what the server refuses to start with, check must tell.
 *
 * The columns come from the schema itself: a new one is covered without a change here. The part of
 * the product that `make test` runs is chosen by HF_SEED; HF_ROWS=all runs all of it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/v1/jobs/job_view.h"
#include "backend/local/commit_gate.h"
#include "backend/local/offline/check/check.h"
#include "backend/local/offline/restore.h"
#include "backend/local/offline/salvage/salvage.h"
#include "backend/local/sqlite/rules.h"
#include "base/digest/hash.h"
#include "base/json/json.h"
#include "core/jobs/progress.h"
#include "core/kvkey.h"
#include "core/queues/policy.h"
#include "core/schedules/schedule.h"
#include "unit/backend/local/sqlite/store_rig.h"

#define AT "1790000000000"
#define ID_HI "117309440000028672" /* 1790000000000 << 16 | 0x7000 */
#define GROWTH_MAX_KB                                                                              \
    (512l * 1024) /* of one case, with the sanitizer's quarantine; 11.5 GiB once */
#define ONE_IN 16

static struct rig_dir dir;
static struct buf image; /* the whole file, sound */
static char doing[256];  /* the change under way: what a debugger looks for first */

/* ---- a sound store with a row in every table ---- */

static void put(struct buf *sql, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct buf *sql, const char *format, ...)
{
    va_list args;
    char text[2048];
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert_true(len > 0 && (size_t)len < sizeof text);
    assert_int_equal(buf_append(sql, text, (size_t)len), 0);
}

static const char *hex(const struct buf *b)
{
    static char text[4096];
    assert_true(b->len * 2 < sizeof text);
    for (size_t i = 0; i < b->len; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)b->data[i]);
    text[2 * b->len] = '\0';
    return text;
}

static void put_queues(struct buf *sql)
{
    struct queue_policy policy;
    struct buf encoded;
    buf_init(&encoded);
    policy_default(&policy);
    assert_int_equal(policy_encode(&policy, &encoded), 0);
    for (int n = 1; n <= 2; n++)
        put(sql,
            "INSERT INTO queues VALUES (%d, 'q%d', 0, " AT ", " AT ", 0, 0, x'%s', 'me', 'a note',"
            " '{\"a\":1}');",
            n, n, hex(&encoded));
    buf_done(&encoded);
}

static void put_schedule(struct buf *sql)
{
    struct schedule_spec spec;
    struct buf encoded;
    buf_init(&encoded);
    schedule_default(&spec, SCHEDULE_QUEUE);
    spec.source = SPAN_LITERAL("q2");
    spec.queue = SPAN_LITERAL("q1");
    spec.batch_size = 10;
    assert_int_equal(schedule_encode(&spec, &encoded), 0);
    put(sql,
        "INSERT INTO schedules VALUES (1, 's', " AT ", " AT ", 0, x'%s', 'me', 'note', '{}', " AT
        ", 0, " AT ", " AT ", 1, " ID_HI ", 7, 3, 0, 0, 0);",
        hex(&encoded));
    buf_done(&encoded);
}

static uint32_t crc_of(const char *text)
{
    return crc32c(0, text, strlen(text));
}

static void put_job(struct buf *sql, int seq, int queue, int state, int reason, int flags)
{
    bool running = state == STATE_RUNNING, done = state == STATE_DONE;
    put(sql,
        "INSERT INTO jobs VALUES (%d, %d, %d, %d, " AT ", %d, %d, %d, %s, 0, 5, 0, %d, " ID_HI
        ", 0, 0);"
        "INSERT INTO payload VALUES (%d, CAST('{\"n\":1}' AS BLOB), %" PRIu32 ");",
        seq, queue, state, reason | flags << 4, running || done, running || done ? seq : 0,
        running ? 30000
        : done  ? 3
                : 0,
        running ? "'w'" : "NULL", 7 << 2 | PAYLOAD_JSON, seq, crc_of("{\"n\":1}"));
}

/* Of job 2, by the holder of its lease. */
static void put_report(struct buf *sql)
{
    const struct progress p = {.token = {1, 2},
                               .has_percent = true,
                               .percent_100 = 5000,
                               .message = SPAN_LITERAL("half"),
                               .data = SPAN_LITERAL("{}")};
    struct buf progress, log;
    buf_init(&progress);
    buf_init(&log);
    assert_int_equal(buf_reserve(&progress, progress_bytes_max(&p)), 0);
    progress.len = progress_encode(&p, (uint8_t *)progress.data);
    put(sql, "INSERT INTO report VALUES (2, x'%s', ", hex(&progress));
    assert_int_equal(
        joblog_append(&log, &(struct joblog_line){.attempt = 1, .text = SPAN_LITERAL("begun")}), 0);
    put(sql, "x'%s');", hex(&log));
    buf_done(&progress);
    buf_done(&log);
}

static void put_jobs(struct buf *sql, const struct buf *key)
{
    put_job(sql, 1, 1, STATE_READY, REASON_NONE, JOB_HAS_EXTRA);
    put_job(sql, 2, 1, STATE_RUNNING, REASON_NONE, 0);
    put_job(sql, 3, 1, STATE_DONE, REASON_NONE, 0);
    put_job(sql, 4, 1, STATE_DEAD, REASON_FAILED, 0);
    put_job(sql, 5, 1, STATE_CANCELLED, REASON_CANCELLED, 0);
    put_job(sql, 6, 2, STATE_READY, REASON_NONE, 0);
    put_job(sql, 7, 2, STATE_RUNNING, REASON_NONE, 0);
    put_job(sql, 8, 1, STATE_DONE, REASON_NONE, 0);    /* removed, see gone */
    put_job(sql, 9, 2, STATE_BLOCKED, REASON_NONE, 0); /* waits for 2; and for 6, done once */
    put(sql, "INSERT INTO dependents VALUES (9, 1, 0, 2, 0, 0, 0, 0);"
             "INSERT INTO dependencies VALUES (9, 2), (9, 6);"
             "INSERT INTO parents_ended VALUES (6, 1);");
    put(sql, "UPDATE jobs SET lease_ms = 0 WHERE seq = 7; INSERT INTO links VALUES (7, 1, " ID_HI
             "); INSERT INTO gone VALUES (0, 256);"
             "INSERT INTO aside VALUES (4, 1, 5), (5, 1, 6);"
             "INSERT INTO extra VALUES (1, 'u', 'g', 'c', 'l', '{\"x\":2}', 'k', '{}', 0, NULL);");
    put(sql,
        "INSERT INTO outcome VALUES (3, 1, CAST('[1]' AS BLOB), %" PRIu32 ", 0, NULL),"
        " (4, 0, NULL, 0, 1, 'broken');"
        "INSERT INTO attempts VALUES (4, 20, 1, 1, " AT ", " AT ", 2, 1, 'w', 'broken');",
        crc_of("[1]"));
    put_report(sql);
    put(sql, "INSERT INTO steps VALUES (2, 'charge', CAST('[7]' AS BLOB), %u);", crc_of("[7]"));
    struct buf keys;
    buf_init(&keys);
    assert_int_equal(record_span_append(&keys, buf_span(key)), 0);
    put(sql, "INSERT INTO undelivered VALUES (1, x'%s');", hex(&keys));
    buf_done(&keys);
}

static void put_rest(struct buf *sql, const struct buf *key)
{
    put(sql, "INSERT INTO bulks VALUES (30, 2, " AT ", 1, 4, 'g', 'k', 8, 0, 0, 0);"
             "INSERT INTO keys VALUES (1890000000000, 11, 12, 13, 1, " ID_HI ");");
    put(sql, "INSERT INTO kv VALUES (x'%s', 40, 0, 1, CAST('7' AS BLOB), %" PRIu32 ");", hex(key),
        crc_of("7"));
    put(sql, "INSERT INTO alerts VALUES ('a', " AT ", " AT ", 1, 1, 0, '*', 0, 0, 0, 0, 0,"
             " 'http://127.0.0.1:9/', 'secret'), ('d', " AT ", " AT
             ", 3, 1, 0, '*', 5, 0, 0, 0, 0, NULL, NULL);"
             "INSERT INTO raised VALUES ('d', 'q1', " AT ", 9, 5);"
             "INSERT INTO notices VALUES (50, " ID_HI ", 1, 0, " AT ", 'a', 'q1', 4, " ID_HI
             ", 1, 1, 0, 0, NULL, 'broken', 0, 1, " AT ", " AT ", 500, 'refused');"
             "INSERT INTO breakers VALUES ('http://127.0.0.1:9', 0, 1, 0, 0, " AT ", 0, 0, 0, 0);"
             "INSERT INTO hour VALUES (1, 0, 8, 3, 1, 1, 0, 0, 0, 1, 1, 5, 5, 5, 5),"
             " (1, 497222, 8, 3, 1, 1, 0, 0, 0, 1, 1, 5, 5, 5, 5);");
}

static void file_read(const char *path, struct buf *ret)
{
    char block[65536];
    size_t n;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    buf_clear(ret);
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        assert_int_equal(buf_append(ret, block, n), 0);
    fclose(f);
}

static char *db_path(void)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/holdfast.db", dir.path);
    return path;
}

/* On a connection like that of the server: pages get their checksums. */
static void craft(const char *sql)
{
    struct err_note note = {""};
    sqlite3 *db = NULL;
    int rc = sql_open(db_path(), SQLITE_OPEN_READWRITE, 1000, &db, &note);
    if (rc == 0)
        rc = sql_exec(db, sql, &note);
    if (rc == 0)
        rc = sql_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", &note);
    if (rc != 0)
        fail_msg("%s: %s", sql, note.text);
    sqlite3_close(db);
}

static int setup(void **state)
{
    (void)state;
    struct buf sql, key;
    buf_init(&sql);
    buf_init(&key);
    buf_init(&image);
    rig_dir_make(&dir);
    struct store *s = rig_open(dir.path);
    s->ops->close(s);
    const struct kv_part part = {.kind = KV_TEXT, .text = SPAN_LITERAL("k")};
    assert_int_equal(kvkey_append(&key, &part), 0);
    put(&sql, "UPDATE meta SET epoch = 1, seq_upto = 1000, position = 1000;"
              "UPDATE numbers SET queue = 2, schedule = 1;");
    put_queues(&sql);
    put_schedule(&sql);
    put_jobs(&sql, &key);
    put_rest(&sql, &key);
    assert_int_equal(buf_append(&sql, "", 1), 0);
    craft(sql.data);
    file_read(db_path(), &image);
    buf_done(&sql);
    buf_done(&key);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_done(&image);
    rig_dir_remove(&dir);
    return 0;
}

static void file_back(void)
{
    char side[220];
    for (int i = 0; i < 2; i++) {
        snprintf(side, sizeof side, "%s-%s", db_path(), i ? "wal" : "shm");
        (void)unlink(side);
    }
    FILE *f = fopen(db_path(), "wb");
    if (!f)
        fail_msg("after %s: %s: %s", doing, db_path(), strerror(errno));
    assert_int_equal(fwrite(image.data, 1, image.len, f), image.len);
    fclose(f);
}

/* ---- what is done with each ---- */

static char told[1 << 16]; /* by the last check */

static int check(void)
{
    FILE *out = fmemopen(told, sizeof told - 1, "w");
    assert_non_null(out);
    int result = check_run(dir.path, out);
    fclose(out);
    return result;
}

static int give_queue(void *ctx, const struct queue_view *q)
{
    (void)ctx, (void)q;
    return 0;
}
static int give_key(void *ctx, const struct kv_view *k)
{
    (void)ctx, (void)k;
    return 0;
}
static bool wanted(void *ctx, const struct job *j, struct span queue)
{
    (void)ctx, (void)j, (void)queue;
    return true;
}
static int give_job(void *ctx, const struct job_view *v)
{
    (void)ctx;
    struct buf text;
    struct json_writer w;
    buf_init(&text);
    json_writer_init(&w, &text);
    job_view_write(&w, v, RIG_NOW, VIEW_PAYLOAD);
    assert_int_equal(w.error, 0);
    assert_int_equal(json_check(buf_span(&text), NULL, NULL), 0);
    buf_done(&text);
    return 0;
}
static int give_schedule(void *ctx, const struct schedule_view *s)
{
    (void)ctx;
    char id[ID_ULID_BYTES];
    id_ulid(id_make(s->state.id_hi, s->state.seq), id); /* what shows of it */
    return 0;
}
static int give_alert(void *ctx, const struct alert_view *a)
{
    (void)ctx, (void)a;
    return 0;
}
static void problem(void *ctx, const char *sentence)
{
    (void)ctx, (void)sentence;
}

static void salvage(void)
{
    static const struct salvage_sink sink = {NULL,     give_queue,    give_key, wanted,
                                             give_job, give_schedule, problem,  give_alert};
    struct salvage_report report;
    struct err_note note = {""};
    int rc = salvage_run(dir.path, &sink, &report, &note);
    if (rc != 0)
        fail_msg("export: %s", note.text);
}

struct server {
    struct commit_gate *gate;
    struct store *store;
    struct store_reader *reader;
    struct now now;
    uint64_t due;
    unsigned replies, damaged;
    enum outcome outcome;
    uint64_t claimed; /* sequence; 0 = none */
};

static void frame_cb(void *ctx, struct span frame, uint64_t last)
{
    struct server *s = ctx;
    struct err_note note = {""};
    if (s->store->ops->apply(s->store, &frame, 1, &note) != 0)
        fail_msg("apply: %s", note.text);
    s->due = last;
}

static void reply_cb(void *ctx, backend_reply_fn fn, void *fn_ctx, const struct reply *r)
{
    struct server *s = ctx;
    (void)fn, (void)fn_ctx;
    s->replies++;
    s->outcome = r->outcome;
    s->claimed = r->kind == OP_CLAIM && r->job_count ? r->jobs[0].job.seq : 0;
    for (uint32_t i = 0; reply_family(r) == REPLY_JOBS && i < r->job_count; i++)
        (void)give_job(NULL, &r->jobs[i]);
    for (uint32_t i = 0; reply_family(r) == REPLY_SCHEDULES && i < r->schedule_count; i++)
        (void)give_schedule(NULL, &r->schedules[i]);
}

static void wake_cb(void *ctx, uint32_t queue)
{
    (void)ctx, (void)queue;
}

static void damaged_cb(void *ctx, const struct job_view *job)
{
    struct server *s = ctx;
    assert_true(job->damage & DAMAGE_FATAL);
    s->damaged++;
}

static void read_cb(void *ctx, void *request, const struct store_query *q)
{
    struct server *s = ctx;
    struct store_reader *r = s->reader;
    struct gate_page page = {0};
    struct arena arena;
    int error;
    arena_init(&arena);
    struct stored_body *bodies = NULL;
    if (q->list)
        error = r->ops->list(r, q->list, &arena, (struct job_view **)&page.jobs, &page.count,
                             &page.cursor, &page.as_of);
    else if (q->exceptions)
        error = r->ops->exceptions(r, q->exceptions, &arena, (struct attempt_view **)&page.attempts,
                                   &page.attempt_count);
    else if (q->kv_list)
        error = r->ops->kv_list(r, q->kv_list, &arena, (struct kv_view **)&page.kvs, &page.kv_count,
                                &page.kv_cursor, &page.as_of);
    else if (q->kvs)
        error = r->ops->kv_get(r, q->kvs, q->kv_count, &arena);
    else if (q->history)
        error = r->ops->history(r, q->history, &arena, (struct hour_view **)&page.hours,
                                &page.hour_count);
    else {
        bodies = arena_array(&arena, q->count, sizeof *bodies);
        error = r->ops->read(r, q, &arena, bodies);
    }
    gate_bodies(s->gate, request, bodies, bodies ? NULL : &page, error, s->now);
    arena_done(&arena);
}

static void ask(struct server *s, const struct op *op)
{
    unsigned before = s->replies;
    s->now.mono.ms++, s->now.wall.ms++;
    assert_int_equal(gate_submit(s->gate, op, 1, s->now, NULL, NULL), 0);
    for (int i = 0; i < 20 && s->replies == before; i++) {
        gate_applied(s->gate, s->due);
        gate_durable(s->gate, s->due, s->now);
    }
    assert_int_equal(s->replies, before + 1);
}

/* A bit of everything that reads what was loaded, or what is behind it. */
static void use(struct server *s)
{
    static const struct span queues[] = {{"q1", 2}, {"q2", 2}};
    for (uint64_t seq = 1; seq <= 8; seq++)
        ask(s,
            &(struct op){.kind = OP_GET,
                         .job = {.job = {.seq = seq}, .want_body = true, .want_attempts = true}});
    for (int i = 0; i < 2; i++)
        ask(s, &(struct op){.kind = OP_LIST,
                            .list = {.limit = 100, .want_body = true, .newest_first = i != 0}});
    ask(s, &(struct op){.kind = OP_EXCEPTIONS, .exceptions = {.limit = 10}});
    ask(s, &(struct op){.kind = OP_KV_LIST, .kv_list = {.limit = 10, .want_value = true}});
    ask(s, &(struct op){.kind = OP_HISTORY,
                        .history = {.queue = queues[0], .from = 1, .to = UINT32_MAX}});
    ask(s, &(struct op){.kind = OP_QUEUE_LIST});
    ask(s, &(struct op){.kind = OP_SCHEDULE_LIST});
    ask(s, &(struct op){.kind = OP_ALERT_LIST});
    ask(s, &(struct op){.kind = OP_NOTICE_LIST});
    ask(s, &(struct op){.kind = OP_BREAKER_LIST});
    for (int i = 0; i < 3; i++)
        ask(s, &(struct op){.kind = OP_ENQUEUE,
                            .enqueue = {.queue = queues[0],
                                        .payload_kind = PAYLOAD_JSON,
                                        .payload = SPAN_LITERAL("1")}});
    for (int i = 0; i < 4; i++)
        ask(s, &(struct op){
                   .kind = OP_CLAIM,
                   .claim = {.queues = queues, .queue_count = 2, .count = 2, .want_body = true}});
    for (int i = 0; i < 30; i++) {
        assert_int_equal(gate_tick(s->gate, s->now), 0);
        s->now.mono.ms += 3600000, s->now.wall.ms += 3600000;
        gate_applied(s->gate, s->due);
        gate_durable(s->gate, s->due, s->now);
    }
}

static void server_close(struct server *s)
{
    gate_free(s->gate);
    if (s->reader)
        s->reader->ops->close(s->reader);
    if (s->store)
        s->store->ops->close(s->store);
}

/* 0, or why the server does not start. */
static int server_open(struct server *s, const char *path, struct err_note *note)
{
    *s = (struct server){.now = {{.ms = 1000}, RIG_NOW}};
    struct gate_config config = {.cache_bytes = 1,
                                 .calls = {s, frame_cb, reply_cb, wake_cb, read_cb, damaged_cb}};
    engine_config_default(&config.engine);
    config.engine.stall_ms = config.engine.jump_ms = INT64_MAX;
    int rc = store_open_sqlite(path, RIG_NOW, &s->store, note);
    if (rc == 0)
        rc = s->store->ops->reader_open(s->store, &s->reader, note);
    if (rc == 0)
        rc = gate_new(&config, &s->gate);
    if (rc == 0)
        rc = engine_load(gate_engine(s->gate), s->store, note);
    if (rc != 0)
        return rc;
    s->due = s->store->ops->meta(s->store)->position;
    assert_int_equal(gate_boot(s->gate, s->now), 0);
    gate_applied(s->gate, s->due);
    gate_durable(s->gate, s->due, s->now);
    return 0;
}

/* An operator who asks for room must get an answer. */
static void compact(struct server *s, const char *what)
{
    uint64_t left = 1;
    struct err_note note = {""};
    for (int steps = 0; left > 0; steps++)
        if (s->store->ops->compact(s->store, &left, &note) != 0 || steps > 100)
            fail_msg("%s: compact does not end: %s", what, note.text);
}

static void serve(const char *path, const char *what, bool sound)
{
    struct server s;
    struct err_note note = {""};
    int rc = server_open(&s, path, &note);
    if (rc == 0) {
        use(&s);
        compact(&s, what);
    } else if (sound)
        fail_msg("%s: check finds nothing, but the server does not start: %s", what, note.text);
    else if (rc != -ERR_CORRUPT || note.text[0] == '\0')
        fail_msg("%s: refused with %d: %s", what, rc, note.text);
    server_close(&s);
}

/* A server can start on a store that was restored. If the restore fails, nothing is left of the
 * store, and the note says why. */
static void restore(const char *what)
{
    struct rig_dir to;
    char target[200];
    struct restore_result result;
    struct err_note note = {""};
    rig_dir_make(&to);
    snprintf(target, sizeof target, "%s/new", to.path);
    struct restore_config config = {.from = dir.path, .to = target};
    int rc = restore_run(&config, &result, &note);
    if (rc == 0)
        serve(target, what, true);
    else if (note.text[0] == '\0' || access(target, F_OK) == 0)
        fail_msg("%s: restore fails without a word, or leaves something: %s", what, note.text);
    rig_dir_remove(&to);
}

/* ---- memory ---- */

/* A value of /proc/self/status in KiB. */
static long status_kb(const char *name)
{
    char line[256];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "re");
    assert_non_null(f);
    while (kb < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            kb = strtol(line + strlen(name) + 1, NULL, 10);
    fclose(f);
    assert_true(kb > 0);
    return kb;
}

struct memory_use {
    long now_kb, peak_kb;
};

/* Resets the peak of the process, so that it is that of one case and not of all before. A
 * kernel that cannot do that leaves the old peak; then only a case that exceeds it is noticed. */
static struct memory_use memory_before(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "5", 1);
        close(fd);
    }
    return (struct memory_use){.now_kb = status_kb("VmRSS"), .peak_kb = status_kb("VmHWM")};
}

static void memory_check(const char *what, struct memory_use before)
{
    long peak_kb = status_kb("VmHWM");
    long growth_kb = peak_kb > before.peak_kb ? peak_kb - before.now_kb : 0;
    if (growth_kb > GROWTH_MAX_KB)
        fail_msg("%s: %ld KiB more were used, the limit is %ld", what, growth_kb, GROWTH_MAX_KB);
}

/* ---- the product ---- */

static const char *const values[] = {
    "NULL",
    "-1",
    "0",
    "1",
    "127",
    "65536",
    "2147483647",
    "4294967295",
    "4294967296",
    "70368744177664", /* the bit of spools */
    "9007199254740992",
    "9223372036854775807",
    "(-9223372036854775807 - 1)",
    "''",
    "'x'",
    "CAST(x'ff00' AS TEXT)",
    "'a\",\"token\":\"x'",
    "x''",
    "x'00'",
    "zeroblob(70000)",
    "CAST(x'222c22746f6b656e223a2278' AS BLOB)",
};
#define VALUES (sizeof values / sizeof values[0])

static void one(const char *table, const char *column, const char *value)
{
    char *sql = sqlite3_mprintf("UPDATE OR IGNORE %s SET %s = %s", table, column, value);
    struct err_note note = {""};
    sqlite3 *db = NULL;
    assert_non_null(sql);
    snprintf(doing, sizeof doing, "%s", sql);
    file_back();
    assert_int_equal(sql_open(db_path(), SQLITE_OPEN_READWRITE, 1000, &db, &note), 0);
    /* Types and NULL are SQLite's business; where it takes a value, so must we. */
    bool taken = sql_exec(db, sql, &note) == 0 &&
                 sql_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", &note) == 0;
    sqlite3_close(db);
    if (taken) {
        struct memory_use before = memory_before();
        int found = check();
        if (found != CHECK_GOOD && found != CHECK_WARNED && found != CHECK_PROBLEMS)
            fail_msg("%s: check says\n%s", sql, told);
        salvage();
        restore(sql);
        serve(dir.path, sql, found != CHECK_PROBLEMS);
        memory_check(sql, before);
    }
    sqlite3_free(sql);
}

static void all_columns(void **state)
{
    (void)state;
    const char *all = getenv("HF_ROWS"), *seeded = getenv("HF_SEED");
    unsigned long n = 0, seed = seeded ? strtoul(seeded, NULL, 10) : (unsigned long)getpid();
    bool every = all && strcmp(all, "all") == 0;
    if (!every)
        print_message("HF_SEED=%lu\n", seed);
    for (int t = 0; t < TABLE_COUNT; t++)
        for (int c = 0; c < table_rules[t].count; c++)
            for (size_t v = 0; v < VALUES; v++)
                if ((n++ + seed) % ONE_IN == 0 || every)
                    one(table_rules[t].name, table_rules[t].columns[c].name, values[v]);
}

/* What the review found, each time. */
static void known_ones(void **state)
{
    (void)state;
    static const struct {
        const char *table, *column, *value;
    } cases[] = {
        {"schedules", "seq", "-1"},
        {"schedules", "item", "9223372036854775807"},
        {"meta", "epoch", "4294967295"},
        {"meta", "seq_upto", "9007199254740992"},
        {"meta", "seq_upto", "70368744177664"},
        {"queues", "number", "2147483647 - number"},
        {"schedules", "number", "2147483647"},
        {"hour", "enqueued", "9223372036854775807"},
        {"attempts", "position", "1001"},
        {"payload", "seq", "seq + 1000"},
        {"extra", "seq", "1001"},
        {"jobs", "state", "9"},
        {"jobs", "queue", "99"},
        {"queues", "policy", "x'00'"},
        {"gone", "bits", "bits | 1 << 40"},
        {"gone", "bits", "0"},
        {"gone", "block", "2"},
        {"gone", "block", "-9223372036854775807"},
        {"dependencies", "parent", "65536"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        one(cases[i].table, cases[i].column, cases[i].value);
}

/* ---- the rules and the schema ---- */

static void rules_cover_the_schema(void **state)
{
    (void)state;
    sqlite3_stmt *st = NULL;
    sqlite3 *db = NULL;
    int tables = 0;
    file_back();
    assert_int_equal(sql_open(db_path(), SQLITE_OPEN_READWRITE, 1000, &db, NULL), 0);
    for (int t = 0; t < TABLE_COUNT; t++) {
        char *sql = sqlite3_mprintf("SELECT * FROM %s", table_rules[t].name);
        assert_int_equal(sql_prepare(db, sql, &st, NULL), 0);
        assert_int_equal(sqlite3_column_count(st), table_rules[t].count);
        for (int c = 0; c < table_rules[t].count; c++)
            assert_string_equal(sqlite3_column_name(st, c), table_rules[t].columns[c].name);
        assert_int_equal(sqlite3_step(st), SQLITE_ROW); /* the product has something to change */
        sqlite3_finalize(st);
        sqlite3_free(sql);
    }
    assert_int_equal(
        sql_prepare(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'table'", &st, NULL), 0);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    tables = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    assert_int_equal(tables, TABLE_COUNT);
    sqlite3_close(db);
}

static void sound_store_is_sound(void **state)
{
    (void)state;
    file_back();
    if (check() != CHECK_GOOD)
        fail_msg("%s", told);
    serve(dir.path, "nothing", true);
}

/* ---- damaged bodies ---- */

static void claim_two(struct server *s)
{
    static const struct span queue = {"q1", 2};
    ask(s,
        &(struct op){.kind = OP_CLAIM,
                     .claim = {.queues = &queue, .queue_count = 1, .count = 1, .want_body = true}});
}

/* HF-18: one job is set aside, the claim goes on with the next, others are still processed. */
static void damaged_job_is_set_aside(void **state)
{
    (void)state;
    static const char *const damages[] = {
        "UPDATE payload SET body = CAST('{\"n\":2}' AS BLOB) WHERE seq = 1",
        "UPDATE payload SET crc = 0 WHERE seq = 1",
        "UPDATE payload SET body = CAST('{\"n\":11}' AS BLOB) WHERE seq = 1",
        "DELETE FROM payload WHERE seq = 1",
        "UPDATE extra SET attributes = '{},\"token\":\"x\"' WHERE seq = 1",
        "UPDATE extra SET label = CAST(x'ff' AS TEXT) WHERE seq = 1",
        "DELETE FROM extra WHERE seq = 1",
        "UPDATE steps SET seq = 1, crc = 0",
        "UPDATE steps SET seq = 1, result = CAST('[8]' AS BLOB)",
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct server s;
        struct err_note note = {""};
        file_back();
        craft(damages[i]);
        assert_int_equal(check(), CHECK_PROBLEMS);
        if (server_open(&s, dir.path, &note) != 0)
            fail_msg("%s: %s", damages[i], note.text);
        ask(&s, &(struct op){.kind = OP_ENQUEUE,
                             .enqueue = {.queue = SPAN_LITERAL("q1"),
                                         .payload_kind = PAYLOAD_JSON,
                                         .payload = SPAN_LITERAL("1")}});
        claim_two(&s);
        assert_int_equal(s.outcome, OUT_OK);
        assert_int_equal(s.claimed, 1001);
        assert_int_equal(s.damaged, 1);
        claim_two(&s); /* empty, and not in doubt */
        assert_int_equal(s.outcome, OUT_OK);
        assert_int_equal(s.claimed, 0);
        assert_int_equal(engine_job_state(gate_engine(s.gate), 1), STATE_DEAD);
        /* Requeued, it is set aside again. */
        ask(&s, &(struct op){.kind = OP_REQUEUE, .job = {.job = {.seq = 1}}});
        assert_int_equal(s.outcome, OUT_OK);
        claim_two(&s);
        assert_int_equal(s.claimed, 0);
        assert_int_equal(s.damaged, 2);
        server_close(&s);
    }
}

/* A body with a checksum that is right, made to end its member and begin another. */
static void nothing_can_be_injected(void **state)
{
    (void)state;
    static const char body[] = "1,\"token\":\"x\"";
    char *sql = sqlite3_mprintf("UPDATE payload SET body = CAST('%q' AS BLOB), crc = %u"
                                " WHERE seq = 1; UPDATE jobs SET payload = %d WHERE seq = 1;"
                                "UPDATE outcome SET result = CAST('%q' AS BLOB), result_crc = %u"
                                " WHERE seq = 3;"
                                "UPDATE kv SET value = CAST('%q' AS BLOB), crc = %u",
                                body, crc_of(body), (int)strlen(body) << 2 | PAYLOAD_JSON, body,
                                crc_of(body), body, crc_of(body));
    struct server s;
    struct err_note note = {""};
    file_back();
    craft(sql);
    sqlite3_free(sql);
    assert_int_equal(check(), CHECK_PROBLEMS);
    assert_int_equal(server_open(&s, dir.path, &note), 0);
    use(&s); /* every view is held against the rules of JSON */
    server_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_store_is_sound),
        cmocka_unit_test(rules_cover_the_schema),
        cmocka_unit_test(known_ones),
        cmocka_unit_test(all_columns),
        cmocka_unit_test(damaged_job_is_set_aside),
        cmocka_unit_test(nothing_can_be_injected),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
