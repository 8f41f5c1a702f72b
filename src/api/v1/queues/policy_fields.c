/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/queues/policy_fields.h"

#include <stdio.h>

#include "api/words.h"
#include "core/limits.h"

static const char *const lease_ends[] = {"requeue", "requeue_counted", "fail", NULL};
static const char *const unique_modes[] = {"reject", "return", "replace", NULL};
static const char *const unique_scopes[] = {"live", "kept", "none", NULL};
static const char *const durabilities[] = {"fsync", "relaxed", NULL};
static const char *const rate_pers[] = {"queue", "group", "correlation_id", NULL};
static const char *const backoff_kinds[] = {"exponential", "list"};

#define AT(member) offsetof(struct policy_in, member)
#define ALL INT64_MAX /* "no limit" on this side */
static const struct field rows[] = {
    {"lease_ms", FIELD_INT, AT(lease_ms), LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, NULL, 0},
    {"max_attempts", FIELD_INT, AT(max_attempts), 1, LIMIT_ATTEMPTS, NULL, 0},
    {"max_crashes", FIELD_INT, AT(max_crashes), 0, LIMIT_ATTEMPTS, NULL, 0},
    {"backoff", FIELD_BACKOFF, AT(backoff), 0, 0, NULL, 0},
    {"backoff_ms", FIELD_STEPS, AT(backoff), 0, 0, NULL, 0},
    {"lease_end", FIELD_WORD, AT(lease_end), LEASE_END_REQUEUE, 0, lease_ends, 0},
    {"unique_mode", FIELD_WORD, AT(unique_mode), UNIQUE_REJECT, 0, unique_modes, 0},
    {"unique_scope", FIELD_WORD, AT(unique_scope), UNIQUE_LIVE, 0, unique_scopes, 0},
    {"durability", FIELD_WORD, AT(durability), DURABILITY_FSYNC, 0, durabilities, 0},
    {"refuse_new", FIELD_BOOL, AT(refuse_new), 0, 0, NULL, 0},
    {"require_token", FIELD_BOOL, AT(require_token), 0, 0, NULL, 0},
    {"ranked", FIELD_BOOL, AT(ranked), 0, 0, NULL, 0},
    {"priority", FIELD_PRIORITY, AT(priority), 0, 0, NULL, 0},
    {"capacity", FIELD_INT, AT(capacity), 1, ALL, NULL, FIELD_NULLABLE},
    {"payload_max", FIELD_INT, AT(payload_max), 0, LIMIT_PAYLOAD_BYTES, NULL, 0},
    {"warn_depth", FIELD_INT, AT(warn_depth), 0, UINT32_MAX, NULL, 0},
    {"keep_done_ms", FIELD_INT, AT(keep_done_ms), 0, ALL, NULL, FIELD_NULLABLE},
    {"keep_done", FIELD_INT, AT(keep_done), 0, ALL, NULL, FIELD_NULLABLE},
    {"keep_dead_ms", FIELD_INT, AT(keep_dead_ms), 0, ALL, NULL, FIELD_NULLABLE},
    {"keep_dead", FIELD_INT, AT(keep_dead), 0, ALL, NULL, FIELD_NULLABLE},
    {"enqueue_rate", FIELD_RAW, AT(rate_limit), 0, 0, NULL, 0},
    {"description", FIELD_TEXT, AT(note), 0, LIMIT_NOTE_BYTES, NULL, 0},
    {"owner", FIELD_TEXT, AT(owner), 0, LIMIT_LABEL_BYTES, NULL, 0},
    {"attributes", FIELD_RAW, AT(attributes), 0, 0, NULL, 0},
};

struct fields policy_fields(void)
{
    return FIELDS(rows);
}

/* Counts are unsigned in a policy, with all ones for "no limit". */
static int64_t count_in(uint64_t v)
{
    return v > (uint64_t)INT64_MAX ? ALL : (int64_t)v;
}

static uint64_t count_out(int64_t v)
{
    return v == ALL ? UINT64_MAX : (uint64_t)v;
}

void policy_in_from(struct policy_in *in, const struct queue_policy *p)
{
    *in = (struct policy_in){
        .lease_ms = p->lease_ms,
        .max_attempts = p->max_attempts,
        .max_crashes = p->max_crashes,
        .backoff = p->backoff,
        .lease_end = p->lease_end,
        .unique_mode = p->unique_mode,
        .unique_scope = p->unique_scope,
        .durability = p->durability,
        .refuse_new = p->refuse_new,
        .require_token = p->require_token,
        .ranked = p->ranked,
        .priority = {.value = p->priority},
        .capacity = count_in(p->capacity),
        .payload_max = p->payload_max,
        .warn_depth = p->warn_depth,
        .keep_done_ms = p->keep_done_ms,
        .keep_done = count_in(p->keep_done),
        .keep_dead_ms = p->keep_dead_ms,
        .keep_dead = count_in(p->keep_dead),
        .rate = p->rate_limit,
    };
}

struct rate_in {
    uint8_t per;
    int64_t count, window_ms;
};

#define RATE_AT(member) offsetof(struct rate_in, member)
static const struct field rate_rows[] = {
    {"per", FIELD_WORD, RATE_AT(per), RATE_QUEUE, 0, rate_pers, 0},
    {"count", FIELD_INT, RATE_AT(count), 1, LIMIT_RATE_COUNT, NULL, FIELD_REQUIRED},
    {"window_ms", FIELD_INT, RATE_AT(window_ms), 1, LIMIT_RATE_WINDOW_MS, NULL, FIELD_REQUIRED},
};

/* null ends the limit; an object replaces it as a whole. Its problems name enqueue_rate.MEMBER. */
static int take_rate(const struct policy_in *in, const struct field_reader *r,
                     struct rate_limit *ret)
{
    struct rate_in rate = {0};
    struct field_reader sub = *r;
    *ret = in->rate;
    if (in->rate_limit.len == 0)
        return 0;
    *ret = (struct rate_limit){0};
    if (span_equal(in->rate_limit, SPAN_LITERAL("null")))
        return 0;
    if (in->rate_limit.at[0] != '{') {
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "enqueue_rate",
                    "enqueue_rate must be null or an object such as {\"per\":\"group\","
                    "\"count\":10,\"window_ms\":1000}");
        return -ERR_INVALID;
    }
    sub.table = FIELDS(rate_rows);
    sub.into = &rate;
    sub.seen = 0;
    if (fields_read(&sub, in->rate_limit) < 0) {
        char name[64];
        snprintf(name, sizeof name, "enqueue_rate.%s", r->problem->field ? r->problem->field : "");
        r->problem->field =
            r->problem->field ? arena_text(r->arena, span_text(name)) : "enqueue_rate";
        return -ERR_INVALID;
    }
    *ret = (struct rate_limit){rate.per, (uint32_t)rate.count, (uint32_t)rate.window_ms};
    return 0;
}

int policy_in_take(const struct policy_in *in, const struct field_reader *r,
                   struct queue_policy *ret)
{
    struct err_note note;
    if (fields_exclude(r, "backoff", "backoff_ms") < 0)
        return -ERR_INVALID;
    *ret = (struct queue_policy){
        .lease_ms = (uint32_t)in->lease_ms,
        .max_attempts = (uint16_t)in->max_attempts,
        .max_crashes = (uint16_t)in->max_crashes,
        .backoff = in->backoff,
        .lease_end = in->lease_end,
        .unique_mode = in->unique_mode,
        .unique_scope = in->unique_scope,
        .durability = in->durability,
        .refuse_new = in->refuse_new,
        .require_token = in->require_token,
        .ranked = in->ranked,
        .priority = in->priority.value,
        .capacity = count_out(in->capacity),
        .payload_max = (uint32_t)in->payload_max,
        .warn_depth = (uint32_t)in->warn_depth,
        .keep_done_ms = in->keep_done_ms,
        .keep_done = count_out(in->keep_done),
        .keep_dead_ms = in->keep_dead_ms,
        .keep_dead = count_out(in->keep_dead),
    };
    if (take_rate(in, r, &ret->rate_limit) < 0)
        return -ERR_INVALID;
    if (policy_check(ret, &note) == 0)
        return 0;
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD,
                problem_note_field(r->arena, note.text), "%s", note.text);
    return -ERR_INVALID;
}

/* ---- written ---- */

void backoff_write(struct json_writer *w, const struct backoff *b)
{
    json_write_key(w, "backoff");
    json_write_object(w);
    write_text(w, "type", backoff_kinds[b->kind]);
    if (b->kind == BACKOFF_EXPONENTIAL) {
        write_uint(w, "base_ms", b->base_ms);
        write_uint(w, "max_ms", b->max_ms);
        write_uint(w, "jitter_percent", b->jitter_percent);
    } else {
        json_write_key(w, "steps_ms");
        json_write_array(w);
        for (size_t i = 0; i < b->step_count; i++)
            json_write_uint(w, b->step_ms[i]);
        json_write_array_end(w);
    }
    json_write_object_end(w);
}

/* null = no limit */
static void write_limit(struct json_writer *w, const char *key, uint64_t v)
{
    json_write_key(w, key);
    if (v >= (uint64_t)INT64_MAX)
        json_write_null(w);
    else
        json_write_uint(w, v);
}

static void write_rate(struct json_writer *w, const struct rate_limit *r)
{
    json_write_key(w, "enqueue_rate");
    if (r->count == 0) {
        json_write_null(w);
        return;
    }
    json_write_object(w);
    write_text(w, "per", rate_pers[r->per]);
    write_uint(w, "count", r->count);
    write_uint(w, "window_ms", r->window_ms);
    json_write_object_end(w);
}

void policy_write(struct json_writer *w, const struct queue_policy *p)
{
    json_write_object(w);
    write_uint(w, "lease_ms", p->lease_ms);
    write_uint(w, "max_attempts", p->max_attempts);
    write_uint(w, "max_crashes", p->max_crashes);
    backoff_write(w, &p->backoff);
    write_text(w, "lease_end", lease_ends[p->lease_end]);
    write_text(w, "unique_mode", unique_modes[p->unique_mode - UNIQUE_REJECT]);
    write_text(w, "unique_scope", unique_scopes[p->unique_scope]);
    write_text(w, "durability", durabilities[p->durability]);
    write_bool(w, "refuse_new", p->refuse_new);
    write_bool(w, "require_token", p->require_token);
    write_bool(w, "ranked", p->ranked);
    write_int(w, "priority", p->priority);
    write_limit(w, "capacity", p->capacity);
    write_uint(w, "payload_max", p->payload_max);
    write_uint(w, "warn_depth", p->warn_depth);
    write_limit(w, "keep_done_ms", (uint64_t)p->keep_done_ms);
    write_limit(w, "keep_done", p->keep_done);
    write_limit(w, "keep_dead_ms", (uint64_t)p->keep_dead_ms);
    write_limit(w, "keep_dead", p->keep_dead);
    write_rate(w, &p->rate_limit);
    json_write_object_end(w);
}
