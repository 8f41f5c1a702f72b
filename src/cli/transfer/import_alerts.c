/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/import_alerts.h"

#include "cli/client/answer.h"

int import_find(struct client_session *s, const char *folder, const char *name, bool *ret)
{
    client_path_add(&s->path, folder);
    client_path_encode(&s->path, name);
    struct client_request request = {.method = "GET", .path = client_path_text(&s->path)};
    int rc = request.path ? client_call(s->client, &request, &s->reply, &s->note)
                          : err_note_set(&s->note, -ERR_NOMEM, "out of memory");
    client_path_done(&s->path);
    client_path_init(&s->path);
    if (rc < 0)
        return client_complain(CLIENT_UNREACHABLE, "%s", s->note.text);
    *ret = s->reply.status != 404;
    return *ret ? client_outcome(s) : CLIENT_DONE;
}

/* The rule had a secret, which is not in the file. */
static bool lacks_secret(struct span alert)
{
    struct span webhook, secret;
    return client_answer_find(alert, "webhook", &webhook) &&
           client_answer_true(webhook, "signed") && !client_answer_find(webhook, "secret", &secret);
}

static void webhook_body(struct client_session *s, struct span webhook)
{
    struct client_members members;
    struct span name, value;
    json_write_key(&s->writer, "webhook");
    json_write_object(&s->writer);
    client_members_open(&members, webhook, &s->arena);
    while (client_members_next(&members, &name, &value)) {
        if (span_equal(name, SPAN_LITERAL("signed")))
            continue;
        json_write_key_span(&s->writer, name);
        json_write_raw(&s->writer, value);
    }
    json_write_object_end(&s->writer);
}

static int alert_body(struct client_session *s, struct span alert)
{
    struct client_members members;
    struct span name, value;
    bool off = lacks_secret(alert);
    client_body_begin(s);
    client_members_open(&members, alert, &s->arena);
    while (client_members_next(&members, &name, &value)) {
        if (span_equal(name, SPAN_LITERAL("name")) ||
            (off && span_equal(name, SPAN_LITERAL("enabled"))))
            continue;
        if (span_equal(name, SPAN_LITERAL("webhook")) && value.len > 0 && value.at[0] == '{') {
            webhook_body(s, value);
            continue;
        }
        json_write_key_span(&s->writer, name);
        json_write_raw(&s->writer, value);
    }
    if (off) {
        json_write_key(&s->writer, "enabled");
        json_write_bool(&s->writer, false);
    }
    return client_body_end(s);
}

static int alert_create(struct import_alerts *a, const char *name, struct span alert)
{
    struct client_session *s = a->s;
    int status = alert_body(s, alert);
    if (status != CLIENT_DONE)
        return status;
    client_path_add(&s->path, "/v1/alerts/");
    client_path_encode(&s->path, name);
    status = client_ask_with(
        s, (struct client_request){.method = "PUT", .headers = {"If-None-Match: *"}});
    if (status != CLIENT_DONE)
        return status;
    a->made++;
    if (lacks_secret(alert))
        client_complain(CLIENT_DONE,
                        "alert rule %s was signed with a secret, which the export does not "
                        "contain: the rule is disabled until it has a secret",
                        name);
    return CLIENT_DONE;
}

int import_alert(struct import_alerts *a, struct span alert)
{
    struct client_session *s = a->s;
    bool there = false;
    const char *name = arena_text(&s->arena, client_answer_text(alert, "name", &s->arena));
    a->seen++;
    if (!name)
        return client_no_memory();
    int status = import_find(s, "/v1/alerts/", name, &there);
    if (status != CLIENT_DONE || there) {
        a->kept += there;
        return status;
    }
    return alert_create(a, name, alert);
}
