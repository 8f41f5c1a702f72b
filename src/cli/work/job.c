/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/job.h"

#include <string.h>
#include <strings.h>

#include "base/digest/base64.h"
#include "base/system/clock.h"
#include "cli/client/answer.h"

struct member_in {
    struct work_job *job;
    struct span value; /* as it stands */
    int error;
};

/* The text of a string value; NULL, with the error set, if it is not a string. */
static struct span text_of(struct member_in *in)
{
    struct json_reader r;
    struct json_token t;
    struct span text = {NULL, 0};
    json_open_deep(&r, in->value);
    if (json_next(&r, &t) < 0 || t.kind != JSON_STRING)
        in->error = -ERR_INVALID;
    else if (json_string(&t, &in->job->arena, &text) < 0)
        text = in->value; /* an unpaired surrogate, which no UTF-8 text can represent */
    return text;
}

static const char *copy_of(struct member_in *in)
{
    struct span text = text_of(in);
    char *copy = in->error ? NULL : arena_text(&in->job->arena, text);
    if (!in->error && !copy)
        in->error = -ERR_NOMEM;
    return copy;
}

static int64_t number_of(struct member_in *in)
{
    struct json_reader r;
    struct json_token t;
    int64_t number = 0;
    json_open_deep(&r, in->value);
    if (json_next(&r, &t) < 0 || t.kind != JSON_NUMBER || json_int(&t, &number) < 0)
        in->error = -ERR_INVALID;
    return number;
}

static void created_take(struct member_in *in)
{
    struct span text = text_of(in);
    struct wall_time at;
    if (!in->error && wall_parse(text.at, text.len, &at) == 0)
        in->job->created_ms = at.ms;
}

static void payload_take(struct member_in *in)
{
    in->job->payload_kind = WORK_PAYLOAD_JSON;
    in->job->payload = in->value;
}

static void payload_text_take(struct member_in *in)
{
    in->job->payload_kind = WORK_PAYLOAD_TEXT;
    in->job->payload = text_of(in);
}

static void payload_base64_take(struct member_in *in)
{
    struct span text = text_of(in);
    size_t len = 0;
    char *bytes = in->error ? NULL : arena_alloc(&in->job->arena, base64_decoded_max(text.len) + 1);
    if (in->error)
        return;
    if (!bytes)
        in->error = -ERR_NOMEM;
    else if (base64_decode(text, bytes, &len) < 0)
        in->error = -ERR_INVALID;
    in->job->payload_kind = WORK_PAYLOAD_BYTES;
    in->job->payload = span_of(bytes, len);
}

static void headers_take(struct member_in *in)
{
    struct client_members members;
    struct span name, value;
    size_t count = 0;
    client_members_open(&members, in->value, &in->job->arena);
    while (client_members_next(&members, &name, &value))
        count++;
    struct work_header *list = arena_array(&in->job->arena, count + 1, sizeof *list);
    if (!list) {
        in->error = -ERR_NOMEM;
        return;
    }
    in->job->headers = list;
    client_members_open(&members, in->value, &in->job->arena);
    while (!in->error && client_members_next(&members, &name, &value)) {
        struct member_in one = {.job = in->job, .value = value};
        list[in->job->header_count] = (struct work_header){name, text_of(&one)};
        in->job->header_count += one.error == 0; /* a value that is not a text is left out */
    }
}

#define AT(member) offsetof(struct work_job, member)
/* A member is read by `take`, or else is the text or the number at `at`. */
static const struct {
    const char *name;
    void (*take)(struct member_in *in);
    size_t at;
    bool number;
} members_known[] = {
    {"id", NULL, AT(id), false},
    {"seq", NULL, AT(seq), true},
    {"queue", NULL, AT(queue), false},
    {"token", NULL, AT(token), false},
    {"kind", NULL, AT(kind), false},
    {"correlation_id", NULL, AT(correlation_id), false},
    {"attempt", NULL, AT(attempt), true},
    {"max_attempts", NULL, AT(max_attempts), true},
    {"lease_ms", NULL, AT(lease_ms), true},
    {"created_at", created_take, 0, false},
    {"payload", payload_take, 0, false},
    {"payload_text", payload_text_take, 0, false},
    {"payload_base64", payload_base64_take, 0, false},
    {"headers", headers_take, 0, false},
};

static void member_take(struct member_in *in, size_t row)
{
    char *at = (char *)in->job + members_known[row].at;
    if (members_known[row].take)
        members_known[row].take(in);
    else if (members_known[row].number)
        *(int64_t *)at = number_of(in);
    else
        *(const char **)at = copy_of(in);
}

int work_job_read(struct span object, struct work_job *ret)
{
    struct client_members members;
    struct span name;
    struct member_in in = {.job = ret};
    *ret = (struct work_job){.payload = SPAN_LITERAL("")};
    arena_init(&ret->arena);
    char *copy = arena_text(&ret->arena, object);
    if (!copy)
        return -ERR_NOMEM;
    client_members_open(&members, span_of(copy, object.len), &ret->arena);
    while (!in.error && client_members_next(&members, &name, &in.value)) {
        if (span_equal(in.value, SPAN_LITERAL("null")) &&
            !span_equal(name, SPAN_LITERAL("payload")))
            continue;
        for (size_t i = 0; i < sizeof members_known / sizeof *members_known; i++) {
            if (span_equal(name, span_text(members_known[i].name)))
                member_take(&in, i);
        }
    }
    if (!in.error && (!ret->id || !ret->queue || !ret->token || ret->lease_ms <= 0))
        in.error = -ERR_INVALID;
    return in.error;
}

void work_job_done(struct work_job *j)
{
    arena_done(&j->arena);
}

bool work_header_is_trace(struct span name)
{
    return (name.len == 11 && strncasecmp(name.at, "traceparent", 11) == 0) ||
           (name.len == 10 && strncasecmp(name.at, "tracestate", 10) == 0);
}
