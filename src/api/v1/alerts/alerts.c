/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules: define, read, list, delete.
 *
 * PATCH reads the rule first and then puts it with the changed members. The API works on one
 * definition at a time, so that no other change is lost between the two. A secret can be set and
 * is never shown; PATCH without a secret leaves that of the backend unchanged. */
#include "api/json_members.h"
#include "api/v1/alerts/alert_view.h"
#include "api/v1/name_page.h"
#include "api/v1/v1_impl.h"
#include "core/alerts/alert.h"
#include "core/limits.h"

struct alert_in {
    uint8_t on;
    bool enabled, with_payload;
    struct span queue, webhook;
    int64_t depth, percent, window_ms, min_ends, after_ms;
};

static const char *const on_names[] = {
#define NAME(on, number, name, separator) [(on)-ALERT_DEAD] = (name),
    ALERT_KINDS(NAME, "")
#undef NAME
        NULL};

#define AT(member) offsetof(struct alert_in, member)
static const struct field rows[] = {
    {"on", FIELD_ENUM, AT(on), ALERT_DEAD, 0, on_names, 0},
    {"queue", FIELD_TEXT, AT(queue), 0, LIMIT_QUEUE_NAME_BYTES, NULL, 0},
    {"enabled", FIELD_BOOL, AT(enabled), 0, 0, NULL, 0},
    {"with_payload", FIELD_BOOL, AT(with_payload), 0, 0, NULL, 0},
    {"depth", FIELD_INT, AT(depth), 0, UINT32_MAX, NULL, 0},
    {"percent", FIELD_INT, AT(percent), 1, 100, NULL, 0},
    {"window_ms", FIELD_INT, AT(window_ms), 1000, UINT32_MAX, NULL, 0},
    {"min_ends", FIELD_INT, AT(min_ends), 1, UINT32_MAX, NULL, 0},
    {"after_ms", FIELD_INT, AT(after_ms), 1000, UINT32_MAX, NULL, 0},
    {"webhook", FIELD_RAW, AT(webhook), 0, 0, NULL, 0},
};

struct webhook_in {
    struct span url, secret;
};

static const struct field webhook_rows[] = {
    {"url", FIELD_TEXT, offsetof(struct webhook_in, url), 0, LIMIT_URL_BYTES, NULL, 0},
    {"secret", FIELD_TEXT, offsetof(struct webhook_in, secret), 0, LIMIT_SECRET_BYTES, NULL, 0},
};

static void answer_alert(struct call *c, const struct reply *r, unsigned status)
{
    struct json_writer w;
    answer_begin(c->x, &w);
    alert_view_write(&w, &r->alerts[0]);
    answer_end(c->x, &w, status);
}

static void alert_got(struct call *c, const struct reply *r)
{
    answer_alert(c, r, 200);
}

static void alert_got_new(struct call *c, const struct reply *r)
{
    answer_alert(c, r, 201);
}

/* ---- look ---- */

static struct call *alert_call(struct native *n, struct http_exchange *x, enum op_kind kind,
                               call_fn done)
{
    struct span name;
    if (!query_none(n->broker, x) || !path_name(x, alert_name_check, &name))
        return NULL;
    struct call *c = call_new(n->broker, n, x, kind, done);
    if (c)
        c->op.alert.name = name;
    return c;
}

void alert_get_handle(void *ctx, struct http_exchange *x)
{
    call_submit(alert_call(ctx, x, OP_ALERT_LIST, alert_got));
}

static void alerts_listed(struct call *c, const struct reply *r)
{
    struct name_page *page = c->more;
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_array(&w, "alerts");
    for (uint32_t i = 0; i < r->alert_count; i++)
        if (name_page_takes(page, r->alerts[i].name))
            alert_view_write(&w, &r->alerts[i]);
    json_write_array_end(&w);
    name_page_end(page, &w);
    call_write_partial(c, &w);
    answer_object_end(c->x, &w, 200);
}

void alert_list_handle(void *ctx, struct http_exchange *x)
{
    call_submit(name_page_call(ctx, x, OP_ALERT_LIST, alerts_listed));
}

static void alert_deleted(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_span(&w, "name", c->op.alert.name);
    write_bool(&w, "deleted", true);
    write_uint(&w, "notices", r->discarded);
    answer_object_end(c->x, &w, 200);
}

void alert_delete_handle(void *ctx, struct http_exchange *x)
{
    call_submit(body_none(broker_of(ctx), x) ? alert_call(ctx, x, OP_ALERT_DELETE, alert_deleted)
                                             : NULL);
}

/* ---- define ---- */

static int take_webhook(const struct field_reader *outer, struct call *c, struct span text,
                        struct alert_rule *rule)
{
    struct webhook_in in = {.url = rule->url};
    if (span_equal(text, SPAN_LITERAL("null"))) {
        rule->url = rule->secret = (struct span){NULL, 0};
        c->op.alert.keep_secret = false;
        return 0;
    }
    struct field_reader r = reader_of(c->broker, c->x, FIELDS(webhook_rows), &in, outer->problem);
    r.name = "webhook";
    if (fields_read(&r, text) < 0)
        return -ERR_INVALID;
    if (in.url.len == 0) {
        problem_set(outer->problem, c->arena, PROBLEM_MISSING_FIELD, "webhook.url",
                    "webhook.url is missing: the address to which notices are posted");
        return -ERR_INVALID;
    }
    const char *why = broker_webhook_refused(c->broker, in.url);
    if (why) {
        problem_set(outer->problem, c->arena, PROBLEM_INVALID_FIELD, "webhook.url",
                    "webhook.url is a %s address, which the settings webhooks.allow and "
                    "webhooks.allow_private do not allow",
                    why);
        return -ERR_INVALID;
    }
    rule->url = in.url;
    if (fields_has(&r, "secret")) {
        rule->secret = in.secret;
        c->op.alert.keep_secret = false;
    }
    return 0;
}

/* The defaults of a rule depend on its `on`, which is therefore read first. */
static void take_base(const struct alert_in *in, const struct field_reader *r,
                      struct alert_rule *rule)
{
    struct alert_rule before = *rule;
    if (!fields_has(r, "on") || in->on == before.on)
        return;
    alert_rule_default(in->on, rule);
    rule->enabled = before.enabled;
    rule->queue = before.queue;
    rule->url = before.url;
}

static void take_members(const struct alert_in *in, const struct field_reader *r,
                         struct alert_rule *rule)
{
    if (fields_has(r, "queue"))
        rule->queue = in->queue;
    if (fields_has(r, "enabled"))
        rule->enabled = in->enabled;
    if (fields_has(r, "with_payload"))
        rule->with_payload = in->with_payload;
    if (fields_has(r, "depth"))
        rule->depth = (uint64_t)in->depth;
    if (fields_has(r, "percent"))
        rule->percent = (uint32_t)in->percent;
    if (fields_has(r, "window_ms"))
        rule->window_ms = (uint32_t)in->window_ms;
    if (fields_has(r, "min_ends"))
        rule->min_ends = (uint32_t)in->min_ends;
    if (fields_has(r, "after_ms"))
        rule->after_ms = (uint32_t)in->after_ms;
}

/* Changes *rule by the body and fills in the operation. false: the problem was answered. */
static bool take_rule(struct call *c, struct alert_rule *rule)
{
    struct alert_in in = {.on = 0};
    struct problem p;
    struct field_reader r = reader_of(c->broker, c->x, FIELDS(rows), &in, &p);
    struct alert_rule *kept = arena_array(c->arena, 1, sizeof *kept);
    if (!kept) {
        answer_error(c->x, -ERR_NOMEM);
        return false;
    }
    int err = fields_read_optional(&r, http_request(c->x)->body);
    if (!err && rule->on == 0 && !fields_has(&r, "on")) {
        problem_set(&p, c->arena, PROBLEM_MISSING_FIELD, "on",
                    "on is missing; it must be one of " ALERT_NAMES(", "));
        err = -ERR_INVALID;
    }
    if (!err) {
        take_base(&in, &r, rule);
        take_members(&in, &r, rule);
        if (fields_has(&r, "webhook"))
            err = take_webhook(&r, c, in.webhook, rule);
    }
    if (err) {
        problem_answer(c->x, &p);
        return false;
    }
    *kept = *rule;
    c->op.alert.rule = kept;
    return true;
}

/* Turns the rule that was read into the operation that changes it. false: a problem was
 * answered. */
static bool patch_take(struct call *c, const struct reply *r)
{
    struct alert_rule rule = r->alerts[0].rule;
    struct span name = c->op.alert.name;
    char *queue = arena_copy(c->arena, rule.queue.at, rule.queue.len);
    char *url = rule.url.len ? arena_copy(c->arena, rule.url.at, rule.url.len) : NULL;
    if (!queue || (rule.url.len && !url)) {
        answer_error(c->x, -ERR_NOMEM);
        return false;
    }
    rule.queue.at = queue;
    rule.url.at = url;
    c->op = (struct op){.kind = OP_ALERT_PUT,
                        .alert = {.name = name, .must_exist = true, .keep_secret = true}};
    return take_rule(c, &rule);
}

/* Answers a change with the current rule. */
static void alert_show(struct call *c, const struct reply *r)
{
    struct span name = c->op.alert.name;
    c->done = r->created ? alert_got_new : alert_got;
    c->op = (struct op){.kind = OP_ALERT_LIST, .alert = {.name = name}};
    call_submit(c);
}

static bool definition_step(struct call *c, const struct reply *r)
{
    if (r->outcome != OUT_OK)
        call_refuse(c, r);
    else if (r->kind == OP_ALERT_PUT)
        alert_show(c, r);
    else
        return patch_take(c, r);
    return false;
}

static void define(struct call *c)
{
    call_line_add(&((struct native *)c->api)->alerting, c, definition_step);
}

void alert_put_handle(void *ctx, struct http_exchange *x)
{
    struct alert_rule rule = {.enabled = true, .queue = SPAN_LITERAL("*")};
    struct call *c = alert_call(ctx, x, OP_ALERT_PUT, alert_show);
    if (!c)
        return;
    c->op.alert.must_create =
        span_equal(http_request_header(http_request(x), "if-none-match"), SPAN_LITERAL("*"));
    if (take_rule(c, &rule))
        define(c);
}

void alert_patch_handle(void *ctx, struct http_exchange *x)
{
    struct call *c = alert_call(ctx, x, OP_ALERT_LIST, alert_show);
    if (c)
        define(c);
}
