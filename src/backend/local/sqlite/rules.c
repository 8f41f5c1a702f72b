/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/sqlite/rules.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/digest/hash.h"
#include "base/json/json.h"
#include "core/alerts/alert.h"
#include "core/alerts/breaker.h"
#include "core/alerts/webhook.h"
#include "core/jobs/job_error.h"
#include "core/kvkey.h"
#include "core/limits.h"
#include "core/queues/policy.h"
#include "core/schedules/schedule.h"
#include "core/validate.h"

/* ---- the rules ---- */

#define NUMBER(name, min, max)                                                                     \
    {                                                                                              \
        name, VALUE_NUMBER, min, max                                                               \
    }
#define FLAG(name) NUMBER(name, 0, 1)
#define WALL(name) NUMBER(name, 0, LIMIT_WALL_MS)
#define U32(name) NUMBER(name, 0, UINT32_MAX)
#define SEQ(name) NUMBER(name, 1, STORE_SEQ_ANY)
#define SEQ_OR_NONE(name) NUMBER(name, 0, STORE_SEQ_ANY)
#define POSITION(name) NUMBER(name, 1, (int64_t)LIMIT_SEQ)
#define COUNT(name) NUMBER(name, 0, STORE_COUNT_MAX)
#define BITS(name)                                                                                 \
    {                                                                                              \
        name, VALUE_BITS, INT64_MIN, INT64_MAX                                                     \
    }
#define ID(name)                                                                                   \
    {                                                                                              \
        name, VALUE_ID, INT64_MIN, INT64_MAX                                                       \
    }
#define BYTES(name, min, max)                                                                      \
    {                                                                                              \
        name, VALUE_BYTES, min, max                                                                \
    }
#define TEXT(name, max)                                                                            \
    {                                                                                              \
        name, VALUE_TEXT, 0, max                                                                   \
    }
#define NAME(name, min, max)                                                                       \
    {                                                                                              \
        name, VALUE_NAME, min, max                                                                 \
    }
#define JSON(name, max)                                                                            \
    {                                                                                              \
        name, VALUE_JSON, 0, max                                                                   \
    }
#define ENCODED(name, kind)                                                                        \
    {                                                                                              \
        name, kind, 0, 0                                                                           \
    }
#define BODY(name)                                                                                 \
    {                                                                                              \
        name, VALUE_BODY, 0, LIMIT_PAYLOAD_BYTES                                                   \
    }
#define CRC(name) U32(name)

static const struct column_rule meta[] = {
    NUMBER("id", 1, 1),
    BYTES("store_id", 16, 16),
    BYTES("hash_key", 16, 16),
    WALL("created_at"),
    NUMBER("epoch", 0, STORE_EPOCH_MAX),
    NUMBER("seq_upto", 0, STORE_SEQ_UPTO_MAX),
    NUMBER("position", 0, (int64_t)LIMIT_SEQ),
    NUMBER("journal_from", -1, (int64_t)LIMIT_SEQ),
};

static const struct column_rule numbers[] = {
    NUMBER("id", 1, 1),
    NUMBER("queue", 0, UINT32_MAX - 1),
    NUMBER("schedule", 0, UINT32_MAX - 1),
};

static const struct column_rule queues[] = {
    NUMBER("number", 1, UINT32_MAX - 1),
    NAME("name", 1, LIMIT_QUEUE_NAME_BYTES),
    U32("generation"),
    WALL("created_at"),
    WALL("updated_at"),
    WALL("paused_until"),
    FLAG("gone"),
    ENCODED("policy", VALUE_POLICY),
    TEXT("owner", LIMIT_LABEL_BYTES),
    TEXT("note", LIMIT_NOTE_BYTES),
    JSON("attributes", LIMIT_NOTE_BYTES),
};

/* For a done job, the lease column contains the duration of its attempt: see JOB_COLUMNS. */
static const struct column_rule jobs[] = {
    SEQ("seq"),
    NUMBER("queue", 1, UINT32_MAX - 1),
    NUMBER("state", STATE_SCHEDULED, STATE_COUNT - 1),
    {"marks", VALUE_MARKS, 0, (JOB_HAS_EXTRA | JOB_BOUND) << 4 | 15},
    WALL("since"),
    U32("token_epoch"),
    NUMBER("token_counter", 0, INT64_MAX),
    NUMBER("lease_ms", -LIMIT_WALL_MS * 2, LIMIT_WALL_MS * 2 + 1),
    TEXT("worker", LIMIT_WORKER_BYTES),
    WALL("run_at"),
    BITS("priority"),
    BITS("counts"),
    {"payload", VALUE_PAYLOAD, 0, (int64_t)LIMIT_PAYLOAD_BYTES << 2 | 3},
    ID("id_hi"),
    NUMBER("limits", 0, (int64_t)LIMIT_TIMEOUT_MS << LIMITS_TIMEOUT_SHIFT | LIMIT_LEASE_MS),
    WALL("cancel_at"),
};

static const struct column_rule aside[] = {
    SEQ("seq"),
    NUMBER("queue", 1, UINT32_MAX - 1),
    NUMBER("state", STATE_DEAD, STATE_CANCELLED),
};

static const struct column_rule payload[] = {SEQ("seq"), BODY("body"), CRC("crc")};

#define JOB_RULE_TEXT(column, max) TEXT(column, max),
#define JOB_RULE_HEADERS(column, max) JSON(column, max),
#define JOB_RULE_OWN(column, max) JSON(column, max),
#define JOB_TEXT_RULE(member, name, column, max, kind, ...) JOB_RULE_##kind(#column, max)
static const struct column_rule extra[] = {
    SEQ("seq"),
    JOB_TEXT_TABLE(JOB_TEXT_RULE) /* columns as EXTRA_COLUMNS has them */
    WALL("expires_at"),
    ENCODED("options", VALUE_OPTIONS),
};

static const struct column_rule outcome[] = {
    SEQ("seq"),
    NUMBER("result_kind", PAYLOAD_NONE, PAYLOAD_BYTES),
    BODY("result"),
    CRC("result_crc"),
    NUMBER("error_kind", ERROR_APP, ERROR_BUSINESS),
    TEXT("error", JOB_ERROR_PACKED_MAX),
};

static const struct column_rule report[] = {
    SEQ("seq"),
    BYTES("progress", 0, LIMIT_PROGRESS_BYTES),
    BYTES("log", 0, LIMIT_LOG_BYTES),
};

static const struct column_rule bulks[] = {
    POSITION("bulk"),
    NUMBER("action", BULK_REQUEUE, BULK_CANCEL_NOW),
    WALL("at"),
    NUMBER("queue", 0, UINT32_MAX - 1),
    NUMBER("states", 0, STATES_ALL),
    TEXT("group_key", LIMIT_KEY_BYTES),
    TEXT("kind", LIMIT_KIND_BYTES),
    SEQ_OR_NONE("seq_max"),
    SEQ_OR_NONE("cursor"),
    COUNT("changed"),
    COUNT("refused"),
};

static const struct column_rule keys[] = {
    WALL("expires_at"),  BITS("key_hi"), BITS("key_lo"),
    BITS("fingerprint"), SEQ("seq"),     ID("id_hi"),
};

static const struct column_rule attempts[] = {
    SEQ("seq"),
    POSITION("position"),
    NUMBER("queue", 1, UINT32_MAX - 1),
    NUMBER("number", 1, UINT16_MAX *INT64_C(2) + 1),
    WALL("started_at"),
    WALL("ended_at"),
    NUMBER("outcome", ATTEMPT_DONE, ATTEMPT_OUTCOME_COUNT - 1),
    NUMBER("error_kind", ERROR_APP, ERROR_BUSINESS),
    TEXT("worker", LIMIT_WORKER_BYTES),
    TEXT("error", JOB_ERROR_PACKED_MAX),
};

static const struct column_rule steps[] = {
    SEQ("seq"),
    NAME("name", 1, LIMIT_STEP_NAME_BYTES),
    BODY("result"),
    CRC("crc"),
};

static const struct column_rule kv[] = {
    ENCODED("key", VALUE_KEY),
    POSITION("version"),
    WALL("expires_at"),
    NUMBER("kind", PAYLOAD_NONE, PAYLOAD_BYTES),
    BODY("value"),
    CRC("crc"),
};

static const struct column_rule undelivered[] = {SEQ("seq"), ENCODED("keys", VALUE_KEYS)};

static const struct column_rule alerts[] = {
    NAME("name", 1, LIMIT_ALERT_NAME_BYTES),
    WALL("created_at"),
    WALL("updated_at"),
    NUMBER("kind", 1, ALERT_ON_COUNT - 1),
    FLAG("enabled"),
    FLAG("with_payload"),
    TEXT("queue", LIMIT_QUEUE_NAME_BYTES),
    COUNT("depth"),
    U32("percent"),
    U32("window_ms"),
    U32("min_ends"),
    U32("after_ms"),
    TEXT("url", LIMIT_URL_BYTES),
    TEXT("secret", LIMIT_SECRET_BYTES),
};

static const struct column_rule raised[] = {
    NAME("alert", 1, LIMIT_ALERT_NAME_BYTES),
    NAME("queue", 0, LIMIT_QUEUE_NAME_BYTES),
    WALL("since"),
    COUNT("value"),
    COUNT("mark"),
};

static const struct column_rule notices[] = {
    POSITION("number"),
    ID("id_hi"),
    NUMBER("kind", 1, ALERT_ON_COUNT - 1),
    NUMBER("edge", EDGE_NONE, EDGE_COUNT - 1),
    WALL("at"),
    NAME("alert", 1, LIMIT_ALERT_NAME_BYTES),
    NAME("queue", 0, LIMIT_QUEUE_NAME_BYTES),
    SEQ_OR_NONE("job_seq"),
    ID("job_hi"),
    NUMBER("reason", REASON_NONE, REASON_COUNT - 1),
    U32("attempts"),
    COUNT("value"),
    COUNT("mark"),
    TEXT("subject", LIMIT_QUEUE_NAME_BYTES),
    TEXT("text", LIMIT_NOTICE_TEXT_BYTES),
    NUMBER("state", NOTICE_PENDING, NOTICE_STATE_COUNT - 1),
    U32("tries"),
    WALL("since"),
    WALL("due"),
    NUMBER("status", 0, UINT16_MAX),
    TEXT("error", LIMIT_NOTICE_ERROR_BYTES),
};

static const struct column_rule breakers[] = {
    NAME("target", 1, WEBHOOK_TARGET_BYTES - 1),
    NUMBER("state", 0, BREAKER_STATE_COUNT - 1),
    U32("failures"),
    U32("probes"),
    WALL("until"),
    WALL("changed_at"),
    U32("failure_threshold"),
    U32("open_cooldown_seconds"),
    U32("half_open_probe_count"),
    WALL("used_at"),
};

static const struct column_rule hour[] = {
    NUMBER("queue", 1, UINT32_MAX - 1),
    NUMBER("hour", 0, LIMIT_WALL_MS / 3600000),
    COUNT("enqueued"),
    COUNT("claimed"),
    COUNT("acked"),
    COUNT("failed_app"),
    COUNT("failed_business"),
    COUNT("crashed"),
    COUNT("released"),
    COUNT("died"),
    COUNT("cancelled"),
    COUNT("waited_ms"),
    COUNT("done_ms"),
    COUNT("failed_ms"),
    COUNT("died_ms"),
};

static const struct column_rule schedules[] = {
    NUMBER("number", 1, UINT32_MAX - 1),
    NAME("name", 1, LIMIT_QUEUE_NAME_BYTES),
    WALL("created_at"),
    WALL("updated_at"),
    FLAG("paused"),
    ENCODED("spec", VALUE_SPEC),
    TEXT("owner", LIMIT_LABEL_BYTES),
    TEXT("note", LIMIT_NOTE_BYTES),
    JSON("attributes", LIMIT_NOTE_BYTES),
    WALL("next_at"),
    WALL("retry_at"),
    WALL("last_at"),
    WALL("fired_at"),
    SEQ_OR_NONE("seq"),
    ID("id_hi"),
    SEQ_OR_NONE("item"),
    COUNT("fired"),
    COUNT("missed"),
    U32("failures"),
    NUMBER("error", SCHEDULE_OK, SCHEDULE_ERROR_COUNT - 1),
};

static const struct column_rule links[] = {SEQ("item"), SEQ("job"), ID("job_hi")};

static const struct column_rule dependents[] = {
    SEQ("seq"),
    NUMBER("rule", 0, DEPENDENCY_RULE_COUNT - 1),
    NUMBER("open", 0, 1),
    NUMBER("total", 0, LIMIT_DEPENDENCIES),
    NUMBER("done", 0, LIMIT_DEPENDENCIES),
    NUMBER("dead", 0, LIMIT_DEPENDENCIES),
    NUMBER("cancelled", 0, LIMIT_DEPENDENCIES),
    NUMBER("removed", 0, LIMIT_DEPENDENCIES),
};

static const struct column_rule dependencies[] = {SEQ("seq"), SEQ("parent")};

static const struct column_rule parents_ended[] = {
    SEQ("seq"), NUMBER("how", DEPENDENCY_END_DONE, DEPENDENCY_END_COUNT - 1)};

static const struct column_rule gone[] = {NUMBER("block", 0, STORE_SEQ_ANY >> 6), BITS("bits")};

#define TABLE(name, job)                                                                           \
    {                                                                                              \
#name, (name), sizeof(name) / sizeof((name)[0]), (job)                                     \
    }

const struct table_rule table_rules[TABLE_COUNT] = {
    [TABLE_META] = TABLE(meta, false),
    [TABLE_NUMBERS] = TABLE(numbers, false),
    [TABLE_QUEUES] = TABLE(queues, false),
    [TABLE_JOBS] = TABLE(jobs, false),
    [TABLE_ASIDE] = TABLE(aside, true),
    [TABLE_PAYLOAD] = TABLE(payload, true),
    [TABLE_EXTRA] = TABLE(extra, true),
    [TABLE_OUTCOME] = TABLE(outcome, true),
    [TABLE_REPORT] = TABLE(report, true),
    [TABLE_STEPS] = TABLE(steps, true),
    [TABLE_BULKS] = TABLE(bulks, false),
    [TABLE_KEYS] = TABLE(keys, false),
    [TABLE_ATTEMPTS] = TABLE(attempts, true),
    [TABLE_KV] = TABLE(kv, false),
    [TABLE_UNDELIVERED] = TABLE(undelivered, false),
    [TABLE_ALERTS] = TABLE(alerts, false),
    [TABLE_RAISED] = TABLE(raised, false),
    [TABLE_NOTICES] = TABLE(notices, false),
    [TABLE_BREAKERS] = TABLE(breakers, false),
    [TABLE_HOUR] = TABLE(hour, false),
    [TABLE_SCHEDULES] = TABLE(schedules, false),
    [TABLE_DEPENDENTS] = TABLE(dependents, false),
    [TABLE_DEPENDENCIES] = TABLE(dependencies, false),
    [TABLE_PARENTS_ENDED] = TABLE(parents_ended, false),
    [TABLE_LINKS] = TABLE(links, false),
    [TABLE_GONE] = TABLE(gone, false),
};

/* ---- one value ---- */

static bool payload_good(int64_t v)
{
    int64_t kind = v & 3;
    return kind <= PAYLOAD_BYTES && (kind != PAYLOAD_NONE || v >> 2 == 0);
}

static bool id_good(int64_t v)
{
    return (uint64_t)v >> 16 <= (uint64_t)LIMIT_WALL_MS;
}

static bool number_good(const struct column_rule *r, int64_t v)
{
    if (v < r->min || v > r->max)
        return false;
    switch ((int)r->kind) {
    case VALUE_ID:
        return id_good(v);
    case VALUE_MARKS:
        return (v & 15) < REASON_COUNT;
    case VALUE_PAYLOAD:
        return payload_good(v);
    default:
        return true;
    }
}

/* The column jobs.lease_ms has two meanings; see JOB_COLUMNS. */
static bool job_lease_good(const int64_t v[JOB_COLUMN_COUNT])
{
    int64_t lease = v[JOB_LEASE_MS], started = v[JOB_SINCE] - (lease >> 1);
    if (v[JOB_STATE] != STATE_DONE)
        return lease >= 0 && lease <= LIMIT_LEASE_MS;
    return lease == 0 || ((lease & 1) && started >= 0 && started <= LIMIT_WALL_MS);
}

int job_bad_number(const int64_t v[JOB_COLUMN_COUNT])
{
    bool good = true;
    /* After unrolling, the limits are constants, and columns that may have any value cost
     * nothing. */
#pragma GCC unroll 16
    for (int i = 0; i < JOB_COLUMN_COUNT; i++)
        good &= (v[i] >= jobs[i].min) & (v[i] <= jobs[i].max);
    good = good && id_good(v[JOB_ID_HI]) && payload_good(v[JOB_PAYLOAD]);
    if (good && reason_fits((enum job_state)v[JOB_STATE], (enum job_reason)(v[JOB_MARKS] & 15)) &&
        job_lease_good(v))
        return -1;
    for (int i = 0; i < JOB_COLUMN_COUNT; i++)
        if (i != JOB_WORKER && !number_good(&jobs[i], v[i]))
            return i;
    return job_lease_good(v) ? JOB_MARKS : JOB_LEASE_MS;
}

static bool name_good(const struct column_rule *r, struct span s)
{
    if (s.len == 0)
        return r->min == 0;
    return (int64_t)s.len <= r->max && validate_queue_name(s, NULL) == 0;
}

static bool json_good(const struct column_rule *r, struct span s)
{
    if (s.len == 0)
        return r->min == 0;
    return (int64_t)s.len <= r->max && json_check(s, NULL, NULL) == 0;
}

static bool bytes_good(const struct column_rule *r, struct span s)
{
    struct queue_policy policy;
    struct job_options options;
    struct schedule_spec spec;
    uint32_t count;
    switch ((int)r->kind) {
    case VALUE_BYTES:
        return (int64_t)s.len >= r->min && (int64_t)s.len <= r->max;
    case VALUE_TEXT:
        return validate_text(r->name, s, (size_t)r->max, NULL) == 0;
    case VALUE_NAME:
        return name_good(r, s);
    case VALUE_JSON:
        return json_good(r, s);
    case VALUE_POLICY:
        return policy_decode(s, &policy) == 0;
    case VALUE_OPTIONS:
        return s.len == 0 || options_decode(s, &options) == 0;
    case VALUE_SPEC:
        return schedule_decode(s, &spec) == 0 &&
               (spec.payload_kind != PAYLOAD_JSON || json_check(spec.payload, NULL, NULL) == 0);
    case VALUE_KEY:
        return kvkey_check(s) == 0;
    case VALUE_KEYS:
        return validate_undelivered(s, &count) == 0;
    default:
        return true;
    }
}

static bool is_number(enum value_kind kind)
{
    return kind <= VALUE_PAYLOAD;
}

static bool is_text(enum value_kind kind)
{
    return kind == VALUE_TEXT || kind == VALUE_NAME || kind == VALUE_JSON;
}

/* STRICT prevents writers from storing another type, but the file may have been written by other
 * means. */
static bool value_good(const struct column_rule *r, sqlite3_stmt *st, int at)
{
    int type = sqlite3_column_type(st, at);
    if (r->kind == VALUE_BODY) /* its length */
        return type == SQLITE_NULL || sqlite3_column_int64(st, at) <= r->max;
    if (is_number(r->kind))
        return type == SQLITE_INTEGER && number_good(r, sqlite3_column_int64(st, at));
    if (type != SQLITE_NULL && type != (is_text(r->kind) ? SQLITE_TEXT : SQLITE_BLOB))
        return false;
    return bytes_good(r, column_span(st, at));
}

/* ---- one row ---- */

int row_bad_among(enum table_id table, sqlite3_stmt *st, int first, int from, int to)
{
    for (int i = from; i < to; i++)
        if (!value_good(&table_rules[table].columns[i], st, first + i - from))
            return i;
    return -1;
}

int row_bad_column(enum table_id table, sqlite3_stmt *st, int first)
{
    return row_bad_among(table, st, first, 0, table_rules[table].count);
}

/* The text that identifies the row: its key, which is its first column. */
static void row_text(sqlite3_stmt *st, int at, char *out, size_t room)
{
    struct span s = column_span(st, at);
    if (sqlite3_column_type(st, at) == SQLITE_INTEGER)
        snprintf(out, room, "%" PRId64, (int64_t)sqlite3_column_int64(st, at));
    else if (s.len > 0 && s.len <= 64 && validate_queue_name(s, NULL) == 0)
        snprintf(out, room, "\"%.*s\"", (int)s.len, s.at);
    else
        snprintf(out, room, "with a key of %zu bytes", s.len);
}

static void value_text(sqlite3_stmt *st, int at, char *out, size_t room)
{
    switch (sqlite3_column_type(st, at)) {
    case SQLITE_INTEGER:
        snprintf(out, room, "%" PRId64, (int64_t)sqlite3_column_int64(st, at));
        break;
    case SQLITE_NULL:
        snprintf(out, room, "missing");
        break;
    default:
        snprintf(out, room, "%zu bytes", column_span(st, at).len);
        break;
    }
}

static void rule_text(const struct column_rule *r, char *out, size_t room)
{
    static const char *const texts[] = {
        [VALUE_BITS] = "a number",
        [VALUE_ID] = "the upper half of an id",
        [VALUE_MARKS] = "a reason with flags",
        [VALUE_PAYLOAD] = "the kind and length of a payload",
        [VALUE_POLICY] = "the encoding of a queue's policy",
        [VALUE_OPTIONS] = "the encoding of a job's options",
        [VALUE_SPEC] = "the encoding of a schedule",
        [VALUE_KEY] = "the encoding of a key",
        [VALUE_KEYS] = "the encoding of a list of keys",
        [VALUE_BODY] = "a body",
    };
    const char *what = r->kind == VALUE_TEXT   ? "UTF-8 text"
                       : r->kind == VALUE_NAME ? "a name"
                       : r->kind == VALUE_JSON ? "JSON"
                                               : "bytes";
    if (r->kind == VALUE_NUMBER)
        snprintf(out, room, "a number from %" PRId64 " to %" PRId64, r->min, r->max);
    else if (r->kind == VALUE_BYTES || is_text(r->kind))
        snprintf(out, room, "%s of %" PRId64 " to %" PRId64 " bytes", what, r->min, r->max);
    else
        snprintf(out, room, "%s", texts[r->kind]);
}

int row_refuse(enum table_id table, sqlite3_stmt *st, int first, int column, struct err_note *note)
{
    const struct table_rule *t = &table_rules[table];
    char row[100], value[64], allowed[120];
    row_text(st, first, row, sizeof row);
    value_text(st, first + column, value, sizeof value);
    rule_text(&t->columns[column], allowed, sizeof allowed);
    return err_note_set(note, -ERR_CORRUPT, "table %s, row %s: column %s is %s; it must be %s",
                        t->name, row, t->columns[column].name, value, allowed);
}

int job_refuse(const int64_t v[JOB_COLUMN_COUNT], int column, struct err_note *note)
{
    char allowed[120];
    rule_text(&jobs[column], allowed, sizeof allowed);
    return err_note_set(note, -ERR_CORRUPT,
                        "table jobs, row %" PRId64 ": column %s is %" PRId64
                        "; it must be %s that fits a job which is %s",
                        v[JOB_SEQ], jobs[column].name, v[column], allowed,
                        v[JOB_STATE] > STATE_NONE && v[JOB_STATE] < STATE_COUNT
                            ? state_name((enum job_state)v[JOB_STATE])
                            : "in a known state");
}

int row_check(enum table_id table, sqlite3_stmt *st, struct err_note *note)
{
    struct err_note why = {""};
    int column = row_bad_column(table, st, 0);
    if (column < 0)
        return 0;
    int rc = row_refuse(table, st, 0, column, &why);
    return err_note_set(note, rc, "%s is damaged: %s; " ROW_WAY_OUT,
                        sqlite3_db_filename(sqlite3_db_handle(st), "main"), why.text);
}

int row_misfit(enum table_id table, const char *column, int64_t row, const char *why,
               struct err_note *note)
{
    return err_note_set(note, -ERR_CORRUPT,
                        "the store is damaged: table %s, row %" PRId64
                        ": column %s %s; " ROW_WAY_OUT,
                        table_rules[table].name, row, column, why);
}

/* ---- bodies ---- */

void bind_body(sqlite3_stmt *st, int at, struct span body)
{
    bind_bytes(st, at, body);
    bind_number(st, at + 1, crc32c(0, body.len ? body.at : "", body.len));
}

bool body_good(struct span body, int64_t crc, uint8_t kind)
{
    return crc32c(0, body.len ? body.at : "", body.len) == crc &&
           (kind != PAYLOAD_JSON || json_check(body, NULL, NULL) == 0);
}

char *rule_columns(enum table_id table)
{
    const struct table_rule *t = &table_rules[table];
    char *list = sqlite3_mprintf("%s", t->columns[0].name);
    for (int i = 1; i < t->count && list; i++)
        list = sqlite3_mprintf(t->columns[i].kind == VALUE_BODY ? "%z, length(%s)" : "%z, %s", list,
                               t->columns[i].name);
    return list;
}
