/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in the document's terms. */
#include "api/json_members.h"

#include <stdio.h>
#include <string.h>

#include "api/tasks/tasks_impl.h"
#include "core/jobs/job_error.h"
#include "core/limits.h"

#define LEASE_MS 300000
#define MAX_RETRIES 3

const char *const task_ranks[] = {"high", "low", NULL};
const char *const task_status_names[] = {"SCHEDULED", "PENDING", "QUEUED",    "IN_PROGRESS",
                                         "COMPLETED", "FAILED",  "CANCELLED", NULL};

/* PENDING is a task that is due and not yet dispatched. This lasts a moment, unless ready jobs
 * are dispatched and Redis is unavailable. */
static const struct {
    enum task_status status;
    unsigned states;
} by_state[TASK_STATUS_COUNT] = {
    {TASK_SCHEDULED, STATE_BIT(STATE_SCHEDULED) | STATE_BIT(STATE_BLOCKED)},
    {TASK_PENDING, STATE_BIT(STATE_READY)},
    {TASK_QUEUED, STATE_BIT(STATE_READY)},
    {TASK_IN_PROGRESS, STATE_BIT(STATE_RUNNING)},
    {TASK_COMPLETED, STATE_BIT(STATE_DONE)},
    {TASK_FAILED, STATE_BIT(STATE_DEAD)},
    {TASK_CANCELLED, STATE_BIT(STATE_CANCELLED)},
};

unsigned task_states_of(enum task_status s)
{
    return by_state[s].states;
}

enum task_status task_status_of(const struct job *j, struct wall_time now)
{
    if ((j->state == STATE_SCHEDULED && j->run_at.ms <= now.ms) || (j->flags & JOB_PENDING))
        return TASK_PENDING;
    for (size_t i = 0; i < TASK_STATUS_COUNT; i++)
        if (i != TASK_PENDING && (by_state[i].states & STATE_BIT(j->state)))
            return by_state[i].status;
    return TASK_CANCELLED;
}

/* The document's janitor: 300 s without a heartbeat, failures and crashes counted together, no
 * delay between attempts. */
void task_policy(const struct queue_policy *base, struct queue_policy *ret)
{
    *ret = *base;
    ret->lease_ms = LEASE_MS;
    ret->max_attempts = MAX_RETRIES + 1;
    ret->max_crashes = 0;
    ret->lease_end = LEASE_END_COUNTED;
    ret->backoff = (struct backoff){.kind = BACKOFF_LIST};
    ret->ranked = true;
    ret->by_due = true;
}

/* ---- queues ---- */

#define PREFIX TASKS_NAME "."

struct span task_queue(struct arena *arena, struct span name, enum task_rank rank)
{
    bool own = !span_equal(name, TASK_QUEUE_DEFAULT);
    size_t room = sizeof PREFIX + name.len + sizeof ".high";
    char *text = arena_alloc(arena, room);
    if (!text)
        return (struct span){NULL, 0};
    int len = snprintf(text, room, PREFIX "%.*s%s%s", own ? (int)name.len : 0, name.at,
                       own ? "." : "", task_ranks[rank]);
    return span_of(text, (size_t)len);
}

static bool ends_with(struct span text, const char *end)
{
    size_t len = strlen(end);
    return text.len >= len && memcmp(text.at + text.len - len, end, len) == 0;
}

bool task_queue_own(struct span queue)
{
    return queue.len > sizeof PREFIX && memcmp(queue.at, PREFIX, sizeof PREFIX - 1) == 0 &&
           (ends_with(queue, ".high") || ends_with(queue, ".low"));
}

enum task_rank task_rank_of(struct span queue)
{
    return ends_with(queue, ".high") ? RANK_HIGH : RANK_LOW;
}

/* The name of the queue as the client sent it. */
static struct span queue_shown(struct span queue)
{
    size_t end = strlen(task_ranks[task_rank_of(queue)]) + 1, begin = sizeof PREFIX - 1;
    return task_queue_own(queue) && queue.len > begin + end
               ? span_of(queue.at + begin, queue.len - begin - end)
               : TASK_QUEUE_DEFAULT;
}

bool task_queue_valid(struct arena *arena, struct span name, struct problem *p)
{
    bool right = name.len > 0 && name.len <= TASK_QUEUE_BYTES_MAX && name.at[0] != '-';
    for (size_t i = 0; right && i < name.len; i++) {
        char c = name.at[i];
        right = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '.' || c == '_' || c == '-';
    }
    if (!right)
        problem_set(p, arena, PROBLEM_INVALID_FIELD, "queue",
                    "queue is 1 to %d letters, digits, '.', '_' and '-', and does not begin with "
                    "'-'",
                    TASK_QUEUE_BYTES_MAX);
    return right;
}

/* ---- refusals ---- */

static const char *const legal_queued[] = {"claim"};
static const char *const legal_running[] = {"heartbeat", "complete", "fail"};
static const struct {
    const char *const *moves;
    size_t count;
} legal[TASK_STATUS_COUNT] = {
    [TASK_PENDING] = {legal_queued, 1},
    [TASK_QUEUED] = {legal_queued, 1},
    [TASK_IN_PROGRESS] = {legal_running, 3},
};

void problem_illegal_task(struct problem *p, struct arena *arena, enum task_status s)
{
    const char *ending = s == TASK_SCHEDULED ? "it can be claimed when it is due"
                         : legal[s].count    ? "`legal_moves` lists the calls that it allows"
                                             : "it has ended";
    problem_set(p, arena, PROBLEM_ILLEGAL_MOVE, NULL,
                "the task is %s, which does not allow this; %s", task_status_names[s], ending);
    p->allowed = legal[s].moves;
    p->allowed_count = legal[s].count;
    p->state = STATE_NONE;
}

void task_problem(struct problem *p, struct arena *arena, const struct reply *r, bool draining,
                  struct wall_time now)
{
    /* A task that waits for its scheduled time is not due. */
    struct job j = {.state = (uint8_t)r->state, .run_at = {now.ms + 1}};
    problem_of_reply(p, arena, r, draining);
    if (r->outcome != OUT_ILLEGAL)
        return;
    if (!r->note) {
        problem_illegal_task(p, arena, task_status_of(&j, now));
        return;
    }
    /* A limit of the queue, which the status of the task does not explain. */
    p->state = STATE_NONE;
    p->seq = 0;
}

void task_refuse(struct call *c, const struct reply *r)
{
    struct problem p;
    if (r->outcome != OUT_ILLEGAL) {
        call_refuse(c, r);
        return;
    }
    task_problem(&p, c->arena, r, broker_draining(c->broker), broker_now(c->broker).wall);
    problem_answer(c->x, &p);
}

/* ---- attributes ---- */

int task_attributes(struct arena *arena, struct span name, struct span *ret)
{
    struct buf text;
    struct json_writer w;
    buf_init(&text);
    json_writer_init(&w, &text);
    json_write_object(&w);
    write_span(&w, "name", name);
    json_write_object_end(&w);
    char *copy = json_writer_finish(&w) == 0 ? arena_copy(arena, text.data, text.len) : NULL;
    *ret = span_of(copy, copy ? text.len : 0);
    buf_done(&text);
    return copy ? 0 : -ERR_NOMEM;
}

static int name_member(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct span *ret = ctx, whole;
    int err = json_skip(r, value, &whole);
    if (err == 0 && value.kind == JSON_STRING && span_equal(name, SPAN_LITERAL("name")))
        *ret = whole;
    return err;
}

static void write_name(struct json_writer *w, struct span attributes)
{
    struct json_reader r;
    struct arena arena;
    struct span raw = {NULL, 0};
    arena_init(&arena);
    json_open(&r, attributes);
    int err = attributes.len ? json_object(&r, &arena, name_member, &raw) : 0;
    json_write_key(w, "name");
    if (err == 0 && raw.len)
        json_write_raw(w, raw);
    else
        json_write_null(w);
    arena_done(&arena);
}

static void write_text_or_null(struct json_writer *w, const char *key, struct span text)
{
    json_write_key(w, key);
    if (text.len)
        json_write_text(w, text);
    else
        json_write_null(w);
}

/* The number of runs after the first one that failures and crashes caused; the last of them
 * causes none. */
static uint32_t retries_of(const struct job *j)
{
    uint32_t ended = (uint32_t)j->failures + j->crashes;
    return ended - (j->state == STATE_DEAD && ended > 0);
}

static uint32_t max_retries_of(const struct job_view *v)
{
    struct job_options o;
    bool own = v->extra.options.len && options_decode(v->extra.options, &o) == 0 && o.max_attempts;
    return own ? o.max_attempts - 1u : MAX_RETRIES;
}

/* A heartbeat is an update as well: it renews the lease. */
static struct wall_time updated_at(const struct job_view *v, struct wall_time now)
{
    int64_t renewed = now.ms + v->lease_left_ms - (int64_t)v->lease_ms;
    bool leased = v->job.state == STATE_RUNNING && v->lease_left_ms >= 0 && v->lease_ms > 0;
    return leased && renewed > v->job.since.ms ? (struct wall_time){renewed} : v->job.since;
}

void task_write(struct json_writer *w, const struct job_view *v, struct wall_time now,
                bool with_token)
{
    json_write_object(w);
    task_members(w, v, now, with_token);
    json_write_object_end(w);
}

void task_members(struct json_writer *w, const struct job_view *v, struct wall_time now,
                  bool with_token)
{
    char uuid[ID_UUID_BYTES], token[TOKEN_TEXT_BYTES];
    bool running = v->job.state == STATE_RUNNING;
    id_uuid(id_make(v->job.id_hi, v->job.seq), uuid);
    write_text(w, "id", uuid);
    write_name(w, v->extra.attributes);
    write_bytes(w, "payload", v->job.payload_kind, v->payload);
    write_span(w, "queue", queue_shown(v->queue));
    write_text(w, "priority", task_ranks[task_rank_of(v->queue)]);
    write_text(w, "status", task_status_names[task_status_of(&v->job, now)]);
    write_time(w, "scheduled_at", v->job.run_at);
    write_uint(w, "retry_count", retries_of(&v->job));
    write_uint(w, "max_retries", max_retries_of(v));
    write_text_or_null(w, "worker", running ? v->worker : (struct span){NULL, 0});
    if (running && v->lease_left_ms >= 0)
        write_time(w, "lease_until", (struct wall_time){now.ms + v->lease_left_ms});
    token_text(v->token, token);
    if (with_token)
        write_text(w, "token", token);
    write_bytes(w, "result", v->result_kind, v->result);
    write_text_or_null(w, "error", job_error_split(v->error).text);
    write_time(w, "created_at", id_time(v->job.id_hi));
    write_time(w, "updated_at", updated_at(v, now));
}
