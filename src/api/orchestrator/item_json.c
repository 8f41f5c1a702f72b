/* SPDX-License-Identifier: Apache-2.0 */
/* Items in the document's terms: the reference is the job's unique key, the robot its worker, a
 * custom status its label. The job's attributes hold everything else. */
#include <inttypes.h>
#include <stdio.h>

#include "api/json_members.h"
#include "api/orchestrator/orchestrator_impl.h"
#include "core/jobs/job_error.h"
#include "core/limits.h"

const char *const orc_status_names[] = {"NEW", "IN_PROGRESS", "DONE", "FAILED", "DELETED", NULL};

static const unsigned states[ORC_STATUS_COUNT] = {
    [ORC_NEW] = STATES_WAITING,
    [ORC_IN_PROGRESS] = STATE_BIT(STATE_RUNNING),
    [ORC_DONE] = STATE_BIT(STATE_DONE),
    [ORC_FAILED] = STATE_BIT(STATE_DEAD),
    [ORC_DELETED] = STATE_BIT(STATE_CANCELLED),
};

static const char *const from_new[] = {"IN_PROGRESS", "DELETED", NULL};
static const char *const from_in_progress[] = {"DONE", "FAILED", "NEW", "DELETED", NULL};
static const char *const from_done[] = {"DELETED", NULL};
static const char *const from_failed[] = {"NEW", "DELETED", NULL};
static const char *const from_deleted[] = {NULL};
static const char *const from_blocked[] = {"DELETED", NULL};

const struct problem_terms orc_terms = {
    .noun = "item",
    .uuid = true,
    .states = {[STATE_SCHEDULED] = "NEW",
               [STATE_READY] = "NEW",
               [STATE_RUNNING] = "IN_PROGRESS",
               [STATE_DONE] = "DONE",
               [STATE_DEAD] = "FAILED",
               [STATE_CANCELLED] = "DELETED",
               [STATE_BLOCKED] = "NEW"},
    .legal = {[STATE_SCHEDULED] = from_new,
              [STATE_READY] = from_new,
              [STATE_RUNNING] = from_in_progress,
              [STATE_DONE] = from_done,
              [STATE_DEAD] = from_failed,
              [STATE_CANCELLED] = from_deleted,
              [STATE_BLOCKED] = from_blocked},
};

unsigned orc_states_of(enum orc_status s)
{
    return states[s];
}

enum orc_status orc_status_of(const struct job *j)
{
    enum orc_status s = ORC_NEW;
    while (s < ORC_DELETED && !(states[s] & STATE_BIT(j->state)))
        s++;
    return s;
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

bool orc_same_name(struct span text, const char *word)
{
    size_t i = 0;
    while (i < text.len && word[i] && upper(text.at[i]) == word[i])
        i++;
    return i == text.len && !word[i];
}

enum orc_status orc_status_parse(struct span word)
{
    enum orc_status s = ORC_NEW;
    while (s < ORC_CUSTOM && !orc_same_name(word, orc_status_names[s]))
        s++;
    return s;
}

int orc_upper(struct arena *arena, struct span word, struct span *ret)
{
    char *text = arena_alloc(arena, word.len);
    if (!text)
        return -ERR_NOMEM;
    for (size_t i = 0; i < word.len; i++)
        text[i] = upper(word.at[i]);
    *ret = span_of(text, word.len);
    return 0;
}

/* ---- robots ---- */

#define ROBOT "robot-"

struct span orc_robot_name(int64_t robot_id, char out[ORC_ROBOT_BYTES])
{
    int len = snprintf(out, ORC_ROBOT_BYTES, ROBOT "%" PRId64, robot_id);
    return span_of(out, (size_t)len);
}

int64_t orc_robot_id(struct span worker)
{
    struct json_token number = {.kind = JSON_NUMBER};
    int64_t id = -1;
    size_t prefix = sizeof ROBOT - 1;
    if (worker.len <= prefix || memcmp(worker.at, ROBOT, prefix) != 0)
        return -1;
    for (size_t i = prefix; i < worker.len; i++)
        if (worker.at[i] < '0' || worker.at[i] > '9')
            return -1;
    number.raw = span_of(worker.at + prefix, worker.len - prefix);
    return json_int(&number, &id) == 0 ? id : -1;
}

/* ---- attributes ---- */

static int attribute(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct orc_attributes *a = ctx;
    struct span whole;
    int64_t number;
    if (span_equal(name, SPAN_LITERAL("noted_at_ms")) && value.kind == JSON_NUMBER &&
        json_int(&value, &number) == 0 && number >= 0 && number < LIMIT_WALL_MS)
        a->noted_at.ms = number;
    if (span_equal(name, SPAN_LITERAL("error_stays")))
        a->error_stays = value.kind == JSON_TRUE;
    return json_skip(r, value, &whole);
}

void orc_attributes_read(struct span json, struct orc_attributes *ret)
{
    struct json_reader r;
    struct arena arena;
    *ret = (struct orc_attributes){.noted_at = {0}};
    if (json.len == 0)
        return;
    arena_init(&arena);
    json_open(&r, json);
    /* Attributes that were set through /v1 do not concern this API. */
    int err = json_object(&r, &arena, attribute, ret);
    (void)err;
    arena_done(&arena);
}

int orc_attributes_write(struct arena *arena, const struct orc_attributes *a, struct span *ret)
{
    char text[100];
    int len = snprintf(text, sizeof text, "{\"noted_at_ms\":%" PRId64 "%s}", a->noted_at.ms,
                       a->error_stays ? ",\"error_stays\":true" : "");
    char *copy = arena_copy(arena, text, (size_t)len);
    *ret = span_of(copy, copy ? (size_t)len : 0);
    return copy ? 0 : -ERR_NOMEM;
}

/* ---- an item ---- */

void orc_write_number(struct json_writer *w, const char *key, int64_t v)
{
    json_write_key(w, key);
    if (v >= 0)
        json_write_int(w, v);
    else
        json_write_null(w);
}

void orc_write_text(struct json_writer *w, const char *key, struct span text)
{
    json_write_key(w, key);
    if (text.len)
        json_write_text(w, text);
    else
        json_write_null(w);
}

/* Retries are the attempts after the first one that a failure caused; the last failure causes
 * none. */
uint32_t orc_retries(const struct job *j)
{
    bool last = j->state == STATE_DEAD && j->reason == REASON_FAILED && j->failures > 0;
    return (uint32_t)j->failures - last;
}

static void write_lease(struct json_writer *w, const struct job_view *v, struct wall_time now,
                        bool with_token)
{
    char token[TOKEN_TEXT_BYTES];
    bool running = v->job.state == STATE_RUNNING;
    orc_write_number(w, "locked_by_robot_id", running ? orc_robot_id(v->worker) : -1);
    write_time(w, "locked_at", running ? v->job.since : v->started_at);
    if (running && v->lease_ms &&
        v->lease_left_ms >=
            0) /* the lease of an item that a trigger's job holds does not expire by itself */
        write_time(w, "lease_until", (struct wall_time){now.ms + v->lease_left_ms});
    token_text(v->token, token);
    if (with_token)
        write_text(w, "token", token);
}

static void write_times(struct json_writer *w, const struct job_view *v, struct wall_time noted_at)
{
    struct wall_time updated = v->job.since.ms > noted_at.ms ? v->job.since : noted_at;
    if (v->job.state == STATE_SCHEDULED)
        write_time(w, "not_before", v->job.run_at);
    write_time(w, "created_at", id_time(v->job.id_hi));
    write_time(w, "updated_at", updated);
}

void orc_item_members(struct json_writer *w, const struct job_view *v, struct wall_time now,
                      bool with_token)
{
    struct orc_attributes attributes;
    char uuid[ID_UUID_BYTES];
    id_uuid(id_make(v->job.id_hi, v->job.seq), uuid);
    orc_attributes_read(v->extra.attributes, &attributes);
    write_text(w, "id", uuid);
    write_uint(w, "queue_id", v->job.queue);
    orc_write_text(w, "reference", v->extra.unique);
    write_text(w, "status", orc_status_names[orc_status_of(&v->job)]);
    orc_write_text(w, "label", v->extra.label);
    write_int(w, "priority", v->job.priority);
    write_bytes(w, "payload", v->job.payload_kind, v->payload);
    write_bytes(w, "result", v->result_kind, v->result);
    bool hidden = v->job.state == STATE_DONE && !attributes.error_stays;
    orc_write_text(w, "error_message",
                   hidden ? (struct span){NULL, 0} : job_error_split(v->error).text);
    write_uint(w, "retries", orc_retries(&v->job));
    write_lease(w, v, now, with_token);
    orc_write_number(w, "job_id", v->holder.seq ? (int64_t)v->holder.seq : -1);
    write_times(w, v, attributes.noted_at);
}

void orc_item_write(struct json_writer *w, const struct job_view *v, struct wall_time now,
                    bool with_token)
{
    json_write_object(w);
    orc_item_members(w, v, now, with_token);
    json_write_object_end(w);
}

/* ---- what kind of failure ---- */

static bool is_business(struct span text)
{
    static const char word[] = "BUSINESS";
    size_t len = sizeof word - 1;
    for (size_t i = 0; i + len <= text.len; i++)
        if (orc_same_name(span_of(text.at + i, len), word))
            return true;
    return false;
}

static int reason_member(void *ctx, struct json_reader *r, struct span name,
                         struct json_token value)
{
    static const char *const names[] = {"failure_reason", "reason", "type"};
    bool *business = ctx;
    struct span whole;
    bool asked = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        asked = asked || span_equal(name, span_text(names[i]));
    if (asked && value.kind == JSON_STRING && is_business(value.raw))
        *business = true;
    return json_skip(r, value, &whole);
}

/* Whether an object marks a business error; anything else, and broken JSON, does not. */
static bool result_is_business(struct span json, struct arena *arena)
{
    struct json_reader r;
    struct json_token first;
    bool business = false;
    json_open(&r, json);
    if (json_next(&r, &first) < 0 || first.kind != JSON_OBJECT_BEGIN)
        return false;
    int err = json_object(&r, arena, reason_member, &business);
    return err == 0 && business;
}

/* A result may also be a string that contains an object: clients that store only text send this. */
uint8_t orc_classify(struct span result, struct span error)
{
    struct json_reader r;
    struct json_token first;
    struct span inner;
    struct arena arena;
    arena_init(&arena);
    bool business = is_business(error) || result_is_business(result, &arena);
    json_open(&r, result);
    if (!business && result.len && json_next(&r, &first) == 0 && first.kind == JSON_STRING &&
        json_string(&first, &arena, &inner) == 0)
        business = result_is_business(inner, &arena);
    arena_done(&arena);
    return business ? ERROR_BUSINESS : ERROR_APP;
}
