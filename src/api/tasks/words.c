/* SPDX-License-Identifier: Apache-2.0 */
/* A task in the document's words. */
#include "api/words.h"
#include "api/tasks/tasks_impl.h"
#include "core/job_error.h"
#include "core/limits.h"

#define LEASE_MS 300000
#define MAX_RETRIES 3

const struct span task_queues[RANK_COUNT] = {{"tasks.high", 10}, {"tasks.low", 9}};
const char *const task_ranks[] = {"high", "low", NULL};
const char *const task_words[] = {"SCHEDULED", "PENDING", "QUEUED",    "IN_PROGRESS",
                                  "COMPLETED", "FAILED",  "CANCELLED", NULL};

/* PENDING is what has become due while nobody has got to it yet: a moment, unless ready jobs are
 * dispatched and Redis is away. */
static const struct {
    enum task_status status;
    unsigned states;
} by_state[TASK_STATUS_COUNT] = {
    {TASK_SCHEDULED, STATE_BIT(STATE_SCHEDULED)}, {TASK_PENDING, STATE_BIT(STATE_READY)},
    {TASK_QUEUED, STATE_BIT(STATE_READY)},        {TASK_IN_PROGRESS, STATE_BIT(STATE_RUNNING)},
    {TASK_COMPLETED, STATE_BIT(STATE_DONE)},      {TASK_FAILED, STATE_BIT(STATE_DEAD)},
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

/* The document's janitor: 300 s without a sign, failures and crashes in one count, no wait. */
void task_policy(const struct queue_policy *base, struct queue_policy *ret)
{
    *ret = *base;
    ret->lease_ms = LEASE_MS;
    ret->max_attempts = MAX_RETRIES + 1;
    ret->max_crashes = 0;
    ret->lease_end = LEASE_END_COUNTED;
    ret->backoff = (struct backoff){.kind = BACKOFF_LIST};
    ret->ranked = true;
}

int64_t task_order(struct wall_time due)
{
    return -due.ms;
}

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

/* Runs after the first that failures and crashes led to; the last of them leads to none. */
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

void task_write(struct json_writer *w, const struct job_view *v, struct wall_time now,
                bool with_token)
{
    char uuid[ID_UUID_BYTES], token[TOKEN_TEXT_BYTES];
    bool running = v->job.state == STATE_RUNNING;
    id_uuid(id_make(v->job.id_hi, v->job.seq), uuid);
    json_write_object(w);
    write_text(w, "id", uuid);
    write_name(w, v->extra.attributes);
    write_bytes(w, "payload", v->job.payload_kind, v->payload);
    write_text(w, "priority", task_ranks[span_equal(v->queue, task_queues[RANK_LOW])]);
    write_text(w, "status", task_words[task_status_of(&v->job, now)]);
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
    write_time(w, "updated_at", v->job.since);
    json_write_object_end(w);
}
