/* SPDX-License-Identifier: Apache-2.0 */
/* Circuit breakers: the list of all, and named ones. Workers consult a named breaker before a
 * call to a target (allow) and report the result of the call (report). */
#include "api/json_members.h"
#include "api/v1/name_page.h"
#include "api/v1/v1_impl.h"
#include "core/limits.h"
#include "core/validate.h"

/* ---- views ---- */

static void write_rules(struct json_writer *w, const struct breaker_rules *rules)
{
    write_uint(w, "failure_threshold", rules->failure_threshold);
    write_uint(w, "open_cooldown_seconds", rules->open_cooldown_seconds);
    write_uint(w, "half_open_probe_count", rules->half_open_probe_count);
}

static void write_breaker(struct json_writer *w, const struct broker *broker,
                          const struct breaker_view *v)
{
    struct breaker_rules defaults = broker_breaker_rules(broker);
    struct breaker_rules rules = breaker_rules_of(&v->breaker, &defaults);
    const struct breaker *b = &v->breaker;
    bool named = breaker_is_named(v->target);
    json_write_object(w);
    if (named)
        write_span(w, "name", v->target);
    write_span(w, "target", v->target);
    write_text(w, "type", named ? "named" : "webhook");
    write_text(w, "state", breaker_state_name(b->state));
    write_uint(w, "failures", b->failures);
    write_uint(w, "probes", b->probes);
    write_time(w, "changed_at", b->changed_at);
    write_time(w, "until", b->state == BREAKER_CLOSED ? (struct wall_time){0} : b->until);
    write_time_if(w, "used_at", b->used_at);
    write_rules(w, &rules);
    json_write_object_end(w);
}

static void breakers_listed(struct call *c, const struct reply *r)
{
    struct name_page *page = c->more;
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_array(&w, "breakers");
    for (uint32_t i = 0; i < r->breaker_count; i++)
        if (name_page_takes(page, r->breakers[i].target))
            write_breaker(&w, c->broker, &r->breakers[i]);
    json_write_array_end(&w);
    name_page_end(page, &w);
    call_write_partial(c, &w);
    answer_object_end(c->x, &w, 200);
}

void breaker_list_handle(void *ctx, struct http_exchange *x)
{
    call_submit(name_page_call(ctx, x, OP_BREAKER_LIST, breakers_listed));
}

/* ---- one by name ---- */

static struct call *breaker_call(struct native *n, struct http_exchange *x, enum op_kind kind,
                                 call_fn done)
{
    struct span name;
    if (!query_none(n->broker, x) || !path_name(x, breaker_name_check, &name))
        return NULL;
    struct call *c = call_new(n->broker, n, x, kind, done);
    if (c && kind != OP_BREAKER_LIST)
        c->op.breaker = (struct op_breaker){.name = name, .rules = broker_breaker_rules(n->broker)};
    return c;
}

static void answer_breaker(struct call *c, const struct breaker_view *v, unsigned status)
{
    struct json_writer w;
    answer_begin(c->x, &w);
    write_breaker(&w, c->broker, v);
    answer_end(c->x, &w, status);
}

/* The list is short, and stores return all of it. */
static void breaker_got(struct call *c, const struct reply *r)
{
    struct span name = http_request(c->x)->params[0];
    struct problem p = {.code = PROBLEM_NO_BREAKER};
    for (uint32_t i = 0; i < r->breaker_count; i++) {
        if (!span_equal(r->breakers[i].target, name))
            continue;
        answer_breaker(c, &r->breakers[i], 200);
        return;
    }
    problem_answer(c->x, &p);
}

void breaker_get_handle(void *ctx, struct http_exchange *x)
{
    call_submit(breaker_call(ctx, x, OP_BREAKER_LIST, breaker_got));
}

static void breaker_deleted(struct call *c, const struct reply *r)
{
    struct json_writer w;
    (void)r;
    answer_object_begin(c->x, &w);
    write_span(&w, "name", c->op.breaker.name);
    write_bool(&w, "deleted", true);
    answer_object_end(c->x, &w, 200);
}

void breaker_delete_handle(void *ctx, struct http_exchange *x)
{
    call_submit(body_none(broker_of(ctx), x)
                    ? breaker_call(ctx, x, OP_BREAKER_DELETE, breaker_deleted)
                    : NULL);
}

/* ---- settings ---- */

struct settings_in {
    int64_t failure_threshold, open_cooldown_seconds, half_open_probe_count;
};

#define AT(member) offsetof(struct settings_in, member)
static const struct field settings_rows[] = {
    {"failure_threshold", FIELD_INT, AT(failure_threshold), 1, LIMIT_BREAKER_COUNT, NULL, 0},
    {"open_cooldown_seconds", FIELD_INT, AT(open_cooldown_seconds), 1, LIMIT_BREAKER_COOLDOWN_S,
     NULL, 0},
    {"half_open_probe_count", FIELD_INT, AT(half_open_probe_count), 1, LIMIT_BREAKER_COUNT, NULL,
     0},
};
#undef AT

static void breaker_set(struct call *c, const struct reply *r)
{
    answer_breaker(c, &r->breakers[0], r->created ? 201 : 200);
}

void breaker_put_handle(void *ctx, struct http_exchange *x)
{
    struct settings_in in = {0};
    struct problem p;
    struct call *c = breaker_call(ctx, x, OP_BREAKER_PUT, breaker_set);
    if (!c)
        return;
    struct field_reader r = reader_of(c->broker, x, FIELDS(settings_rows), &in, &p);
    if (!body_read_optional(&r, x))
        return;
    c->op.breaker.rules =
        (struct breaker_rules){.failure_threshold = (uint32_t)in.failure_threshold,
                               .open_cooldown_seconds = (uint32_t)in.open_cooldown_seconds,
                               .half_open_probe_count = (uint32_t)in.half_open_probe_count};
    call_submit(c);
}

/* ---- allow and report ---- */

static void breaker_allowed(struct call *c, const struct reply *r)
{
    const struct breaker_view *v = &r->breakers[0];
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_bool(&w, "allowed", v->allowed);
    write_text(&w, "state", breaker_state_name(v->breaker.state));
    if (!v->allowed)
        write_int(&w, "retry_after_ms", v->retry_ms);
    answer_object_end(c->x, &w, 200);
}

/* The queues from which the worker is about to claim. */
static const struct field allow_rows[] = {
    {"queues", FIELD_TEXTS, 0, 0, LIMIT_QUEUES_PER_REQUEST, NULL, 0},
};

static int allow_read(struct field_reader *r, struct span body, const struct texts_in *queues)
{
    struct err_note note;
    if (fields_read_optional(r, body) < 0)
        return -ERR_INVALID;
    for (size_t i = 0; i < queues->count; i++) {
        if (validate_queue_name(queues->list[i], &note) == 0)
            continue;
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "queues", "%s", note.text);
        return -ERR_INVALID;
    }
    return 0;
}

void breaker_allow_handle(void *ctx, struct http_exchange *x)
{
    struct texts_in queues = {NULL, 0};
    struct problem p;
    struct call *c = breaker_call(ctx, x, OP_BREAKER_ALLOW, breaker_allowed);
    if (!c)
        return;
    struct field_reader r = reader_of(c->broker, x, FIELDS(allow_rows), &queues, &p);
    if (allow_read(&r, http_request(x)->body, &queues) != 0) {
        problem_answer(x, &p);
        return;
    }
    broker_breaker_used(c->broker, c->op.breaker.name, queues.list, queues.count);
    call_submit(c);
}

struct report_in {
    bool ok, rate_limited;
    int64_t retry_after_ms;
};

#define AT(member) offsetof(struct report_in, member)
static const struct field report_rows[] = {
    {"ok", FIELD_BOOL, AT(ok), 0, 0, NULL, 0},
    {"rate_limited", FIELD_BOOL, AT(rate_limited), 0, 0, NULL, 0},
    {"retry_after_ms", FIELD_INT, AT(retry_after_ms), 0, LIMIT_BACKOFF_MS, NULL, FIELD_OPTIONAL},
};
#undef AT

/* A rate-limit reply is a failure, with or without "ok": false. */
static int report_read(struct field_reader *r, struct span body, const struct report_in *in)
{
    if (fields_read(r, body) < 0)
        return -ERR_INVALID;
    if (!fields_has(r, "ok") && !in->rate_limited)
        problem_set(r->problem, r->arena, PROBLEM_MISSING_FIELD, "ok",
                    "ok is missing: true if the call to the target succeeded, else false");
    else if (in->ok && in->rate_limited)
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "rate_limited",
                    "ok and rate_limited are both true; a rate-limit reply is a failure");
    else if (in->ok && in->retry_after_ms)
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "retry_after_ms",
                    "retry_after_ms is given with ok: true; it is only for failures");
    else
        return 0;
    return -ERR_INVALID;
}

static void breaker_reported(struct call *c, const struct reply *r)
{
    answer_breaker(c, &r->breakers[0], 200);
}

void breaker_report_handle(void *ctx, struct http_exchange *x)
{
    struct report_in in = {.ok = false};
    struct problem p;
    struct call *c = breaker_call(ctx, x, OP_BREAKER_REPORT, breaker_reported);
    if (!c)
        return;
    struct field_reader r = reader_of(c->broker, x, FIELDS(report_rows), &in, &p);
    if (report_read(&r, http_request(x)->body, &in) != 0) {
        problem_answer(x, &p);
        return;
    }
    c->op.breaker.success = in.ok;
    c->op.breaker.retry_after_ms = (uint32_t)in.retry_after_ms;
    call_submit(c);
}
