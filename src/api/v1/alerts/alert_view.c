/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/alerts/alert_view.h"

#include "api/json_members.h"
#include "core/alerts/alert.h"

struct number {
    enum alert_member member;
    const char *name;
};

static uint64_t number_of(const struct alert_rule *r, enum alert_member m)
{
    return m == ALERT_HAS_DEPTH      ? r->depth
           : m == ALERT_HAS_PERCENT  ? r->percent
           : m == ALERT_HAS_WINDOW   ? r->window_ms
           : m == ALERT_HAS_MIN_ENDS ? r->min_ends
                                     : r->after_ms;
}

static void write_members(struct json_writer *w, const struct alert_rule *r)
{
    static const struct number numbers[] = {{ALERT_HAS_DEPTH, "depth"},
                                            {ALERT_HAS_PERCENT, "percent"},
                                            {ALERT_HAS_WINDOW, "window_ms"},
                                            {ALERT_HAS_MIN_ENDS, "min_ends"},
                                            {ALERT_HAS_AFTER, "after_ms"}};
    unsigned members = alert_members(r->on);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (members & numbers[i].member)
            write_uint(w, numbers[i].name, number_of(r, numbers[i].member));
    if (members & ALERT_HAS_PAYLOAD)
        write_bool(w, "with_payload", r->with_payload);
}

static void write_webhook(struct json_writer *w, const struct alert_view *v)
{
    json_write_key(w, "webhook");
    if (v->rule.url.len == 0) {
        json_write_null(w);
        return;
    }
    json_write_object(w);
    write_span(w, "url", v->rule.url);
    write_text(w, "secret", v->has_secret ? "set" : "not set");
    json_write_object_end(w);
}

static void write_raised(struct json_writer *w, const struct alert_view *v)
{
    write_uint(w, "raised_count", v->raised_total);
    write_array(w, "raised");
    for (uint32_t i = 0; i < v->raised_count; i++) {
        const struct raised_view *r = &v->raised[i];
        json_write_object(w);
        json_write_key(w, "queue");
        if (r->queue.len)
            json_write_text(w, r->queue);
        else
            json_write_null(w);
        write_time(w, "since", r->since);
        write_uint(w, "value", r->value);
        write_uint(w, "limit", r->mark);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

void alert_view_write(struct json_writer *w, const struct alert_view *v)
{
    json_write_object(w);
    write_span(w, "name", v->name);
    write_text(w, "on", alert_on_name(v->rule.on));
    write_span(w, "queue", v->rule.queue);
    write_bool(w, "enabled", v->rule.enabled);
    write_members(w, &v->rule);
    write_webhook(w, v);
    write_time(w, "created_at", v->created_at);
    write_time(w, "updated_at", v->updated_at);
    if (alert_is_condition(v->rule.on))
        write_raised(w, v);
    write_uint(w, "pending", v->pending);
    write_uint(w, "dead", v->dead);
    json_write_object_end(w);
}
