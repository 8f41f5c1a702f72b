/* SPDX-License-Identifier: Apache-2.0 */
/* The terms of this API: statuses, JobDict, counts, refusals. */
#include "api/json_members.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/webqueue/webqueue_impl.h"
#include "core/jobs/job_error.h"
#include "core/limits.h"
#include "core/validate.h"

const char *const web_status_names[WEB_STATUS_COUNT + 1] = {"pending", "running", "completed",
                                                            "error", NULL};

unsigned web_status_states(enum web_status s)
{
    static const unsigned states[WEB_STATUS_COUNT] = {
        [WEB_PENDING] = STATES_WAITING,
        [WEB_RUNNING] = STATE_BIT(STATE_RUNNING),
        [WEB_COMPLETED] = STATE_BIT(STATE_DONE),
        [WEB_ERROR] = STATE_BIT(STATE_DEAD),
    };
    return states[s];
}

static enum web_status status_of(uint8_t state)
{
    unsigned s = WEB_PENDING;
    while (s < WEB_STATUS_COUNT && !(web_status_states((enum web_status)s) & STATE_BIT(state)))
        s++;
    return (enum web_status)s;
}

const char *web_status_of(uint8_t state)
{
    return web_status_names[status_of(state)];
}

/* ---- counts ---- */

void counts_add(struct web_counts *c, const uint64_t by_state[STATE_COUNT])
{
    for (unsigned s = 0; s < WEB_STATUS_COUNT; s++)
        for (unsigned state = 0; state < STATE_COUNT; state++)
            if (web_status_states((enum web_status)s) & STATE_BIT(state))
                c->by_status[s] += by_state[state];
}

void counts_members(struct json_writer *w, const struct web_counts *c)
{
    static const char *const names[WEB_STATUS_COUNT] = {"pending", "running", "completed",
                                                        "errors"};
    for (unsigned s = 0; s < WEB_STATUS_COUNT; s++)
        write_uint(w, names[s], c->by_status[s]);
}

/* ---- paths ---- */

/* Constant: a path must have the same key after a restart. */
static const struct hash_key path_hash = {0x686f6c6466617374, 0x7765622070617468};

struct span webqueue_path_key(struct arena *arena, struct span path)
{
    char tail[40];
    if (path.len <= LIMIT_KEY_BYTES)
        return path;
    struct hash128 h = hash128_of(path_hash, path);
    int len = snprintf(tail, sizeof tail, "#%016" PRIx64 "%016" PRIx64, h.hi, h.lo);
    struct span head = validate_cut(path, LIMIT_KEY_BYTES - (size_t)len);
    char *key = arena_alloc(arena, LIMIT_KEY_BYTES);
    if (!key)
        return (struct span){NULL, 0};
    memcpy(key, head.at, head.len);
    memcpy(key + head.len, tail, (size_t)len);
    return span_of(key, head.len + (size_t)len);
}

/* ---- JobDict ---- */

/* A job that was enqueued through /v1 may have any payload. */
static void write_path(struct json_writer *w, const struct job_view *v)
{
    bool string =
        v->job.payload_kind == PAYLOAD_JSON && v->payload.len > 0 && v->payload.at[0] == '"';
    json_write_key(w, "path");
    if (string)
        json_write_raw(w, v->payload);
    else
        json_write_text(w, v->payload.len > 0 ? v->payload : v->extra.unique);
}

static void write_library(struct json_writer *w, struct span group)
{
    struct json_reader r;
    struct json_token t;
    int64_t id;
    json_write_key(w, "library_id");
    json_open(&r, group);
    if (group.len > 0 && json_next(&r, &t) == 0 && t.kind == JSON_NUMBER && json_int(&t, &id) == 0)
        json_write_int(w, id);
    else
        json_write_null(w);
}

/* Unix seconds; started and completed 0 = none. */
struct job_times {
    int64_t enqueued, started, completed;
};

static int take_time(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct job_times *t = ctx;
    struct span whole;
    int64_t s;
    int err = json_skip(r, value, &whole);
    if (err < 0 || value.kind != JSON_NUMBER || json_int(&value, &s) < 0)
        return err;
    if (span_equal(name, SPAN_LITERAL("enqueued_at")))
        t->enqueued = s;
    else if (span_equal(name, SPAN_LITERAL("started_at")))
        t->started = s;
    else if (span_equal(name, SPAN_LITERAL("completed_at")))
        t->completed = s;
    return 0;
}

/* An imported job has its times in its attributes. Those that an attempt changes are valid until
 * the first attempt here. The view `queue` of the stores has the same rule. */
static struct job_times times_of(const struct job_view *v, struct arena *arena)
{
    const struct job *j = &v->job;
    struct wall_time started = j->state == STATE_RUNNING ? j->since : v->started_at;
    struct job_times t = {id_time(j->id_hi).ms / 1000, started.ms / 1000, j->since.ms / 1000};
    struct job_times brought = t;
    struct json_reader r;
    if (v->extra.attributes.len == 0)
        return t;
    json_open(&r, v->extra.attributes);
    int err = json_object(&r, arena, take_time, &brought);
    (void)err; /* attributes that cannot be read are ignored */
    if (started.ms == 0)
        return brought;
    t.enqueued = brought.enqueued;
    return t;
}

static void write_seconds(struct json_writer *w, const char *key, int64_t seconds, bool shown)
{
    json_write_key(w, key);
    if (shown && seconds != 0)
        json_write_int(w, seconds);
    else
        json_write_null(w);
}

static void write_text_or_null(struct json_writer *w, const char *key, struct span text, bool shown)
{
    json_write_key(w, key);
    if (shown)
        json_write_text(w, text);
    else
        json_write_null(w);
}

void job_dict_members(struct json_writer *w, const struct job_view *v, struct arena *arena)
{
    const struct job *j = &v->job;
    size_t prefix = sizeof WEBQUEUE_PREFIX - 1;
    bool dead = j->state == STATE_DEAD, done = j->state == STATE_DONE;
    struct span error = v->error.len > 0 ? job_error_split(v->error).text
                                         : span_text(reason_name((enum job_reason)j->reason));
    write_uint(w, "id", j->seq);
    write_library(w, v->extra.group);
    write_path(w, v);
    write_span(w, "queue_type", span_of(v->queue.at + prefix, v->queue.len - prefix));
    write_text(w, "status", web_status_of(j->state));
    write_int(w, "priority", j->priority);
    write_text_or_null(w, "error", error, dead);
    write_text_or_null(w, "results_json", v->result, done && v->result_kind != PAYLOAD_NONE);
    struct job_times times = times_of(v, arena);
    write_int(w, "enqueued_at", times.enqueued);
    write_seconds(w, "started_at", times.started, !(STATE_BIT(j->state) & STATES_WAITING));
    write_seconds(w, "completed_at", times.completed, dead || done);
}

/* ---- refusals ---- */

static const char *const legal_pending[] = {"dequeue"};
static const char *const legal_running[] = {"complete", "fail", "renew"};
static const char *const legal_error[] = {"requeue"};
static const struct {
    const char *const *moves;
    size_t count;
} legal[WEB_STATUS_COUNT] = {
    [WEB_PENDING] = {legal_pending, 1},
    [WEB_RUNNING] = {legal_running, 3},
    [WEB_COMPLETED] = {NULL, 0},
    [WEB_ERROR] = {legal_error, 1},
};

static void problem_illegal(struct problem *p, struct arena *arena, const struct reply *r)
{
    enum web_status s = status_of((uint8_t)r->state);
    bool some = s < WEB_STATUS_COUNT && legal[s].count > 0;
    problem_set(p, arena, PROBLEM_ILLEGAL_MOVE, NULL, "job %" PRIu64 " is %s, which %s", r->seq,
                web_status_names[s] ? web_status_names[s] : "cancelled",
                some ? "does not allow this; `legal_moves` lists the calls that it allows"
                     : "it stays until it is removed");
    p->allowed = s < WEB_STATUS_COUNT ? legal[s].moves : NULL;
    p->allowed_count = s < WEB_STATUS_COUNT ? legal[s].count : 0;
}

void web_problem(struct problem *p, struct arena *arena, const struct reply *reply, bool draining)
{
    problem_of_reply(p, arena, reply, draining);
    if (reply->outcome == OUT_ILLEGAL)
        problem_illegal(p, arena, reply);
    if (reply->outcome == OUT_DUPLICATE)
        problem_set(p, arena, PROBLEM_DUPLICATE, "path",
                    "the path is %s in this queue type as job %" PRIu64 "; nothing was changed",
                    web_status_of((uint8_t)reply->state), reply->seq);
    p->seq = reply->seq;
    p->seq_only = true;
    p->state = STATE_NONE;
}

static void web_reply(void *ctx, const struct reply *reply)
{
    struct call *c = ctx;
    struct problem p;
    if (reply->outcome == OUT_OK) {
        c->done(c, reply);
        return;
    }
    web_problem(&p, c->arena, reply, broker_draining(c->broker));
    problem_answer(c->x, &p);
}

void web_submit(struct call *c)
{
    call_ask(c, web_reply);
}
