/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands/queue_policy.h"

#include <string.h>

#include "cli/client/client_commands.h"
#include "config/rate.h"
#include "core/queues/policy_fields.h"

static const struct option options[] = {QUEUE_POLICY_OPTIONS};

/* The parts of the object "backoff". */
#define PART(name, kind, min, max, value, doc, y) {"backoff_" #name, #name, CLIENT_FIELD_NUMBER},
static const struct client_field backoff_parts[] = {BACKOFF_TABLE(PART, )};

const char *queue_policy_given(const struct arguments *args)
{
    for (size_t i = 0; i < CLIENT_COUNT(options); i++) {
        if (arguments_has(args, options[i].name))
            return options[i].name;
    }
    return NULL;
}

static int value_wrong(const struct policy_field *f, const char *value, const char *right)
{
    char name[OPTION_NAME_MAX];
    char shown[QUOTED_MAX];
    struct option named = {.name = f->name};
    return client_complain(CLIENT_USAGE, "--%s is %s; it must be %s", option_name(&named, name),
                           quoted(span_text(value), shown), right);
}

/* A number, or the name that means "no limit". */
static int unlimited_write(struct client_session *s, const struct policy_field *f)
{
    const char *value = arguments_text(s->args, f->name, "");
    const char *none = strrchr(f->value, '|') + 1;
    enum unit_kind unit = f->kind == POLICY_MS      ? UNIT_MS
                          : f->kind == POLICY_BYTES ? UNIT_BYTES
                                                    : UNIT_NONE;
    char right[120];
    int64_t number = 0;
    bool is_none = strcmp(value, none) == 0;
    snprintf(right, sizeof right, "%s, or %s", units_expected(unit), none);
    if (!is_none && units_parse(span_text(value), unit, &number) < 0)
        return value_wrong(f, value, right);
    json_write_key(&s->writer, f->name);
    if (is_none)
        json_write_null(&s->writer);
    else
        json_write_int(&s->writer, number);
    return CLIENT_DONE;
}

static int rate_write(struct client_session *s, const struct policy_field *f)
{
    const char *value = arguments_text(s->args, f->name, "");
    struct rate_limit rate;
    char right[RATE_EXPECTED_MAX];
    if (rate_parse(span_text(value), f->value, &rate) < 0)
        return value_wrong(f, value, rate_expected(f->value, right));
    json_write_key(&s->writer, f->name);
    if (rate.count == 0) {
        json_write_null(&s->writer);
        return CLIENT_DONE;
    }
    json_write_object(&s->writer);
    json_write_key(&s->writer, "per");
    json_write_text(&s->writer, policy_word(f->value, rate.per));
    json_write_key(&s->writer, "count");
    json_write_int(&s->writer, rate.count);
    json_write_key(&s->writer, "window_ms");
    json_write_int(&s->writer, rate.window_ms);
    json_write_object_end(&s->writer);
    return CLIENT_DONE;
}

static int backoff_write(struct client_session *s)
{
    static const struct client_field steps = {"backoff_ms", "backoff_ms", CLIENT_FIELD_MS_LIST};
    int status = client_body_fields(s, &steps, 1);
    if (status != CLIENT_DONE ||
        !client_fields_given(s->args, backoff_parts, CLIENT_COUNT(backoff_parts)))
        return status;
    json_write_key(&s->writer, "backoff");
    json_write_object(&s->writer);
    json_write_key(&s->writer, "type");
    json_write_text(&s->writer, SPAN_LITERAL("exponential"));
    status = client_body_fields(s, backoff_parts, CLIENT_COUNT(backoff_parts));
    json_write_object_end(&s->writer);
    return status;
}

static int member_write(struct client_session *s, const struct policy_field *f)
{
    static const enum client_field_kind kinds[] = {
        [POLICY_MS] = CLIENT_FIELD_NUMBER,     [POLICY_BYTES] = CLIENT_FIELD_NUMBER,
        [POLICY_NUMBER] = CLIENT_FIELD_NUMBER, [POLICY_BOOL] = CLIENT_FIELD_YES_NO,
        [POLICY_WORD] = CLIENT_FIELD_TEXT,     [POLICY_PRIORITY] = CLIENT_FIELD_NUMBER_OR_TEXT,
    };
    if (f->kind == POLICY_BACKOFF)
        return backoff_write(s);
    if (!arguments_has(s->args, f->name))
        return CLIENT_DONE;
    if (f->kind == POLICY_RATE)
        return rate_write(s, f);
    if (policy_unlimited(f))
        return unlimited_write(s, f);
    return client_body_fields(s, &(struct client_field){f->name, f->name, kinds[f->kind]}, 1);
}

int queue_policy_write(struct client_session *s)
{
    int status = CLIENT_DONE;
    for (size_t i = 0; status == CLIENT_DONE && i < POLICY_FIELDS; i++)
        status = member_write(s, &policy_fields[i]);
    return status;
}
