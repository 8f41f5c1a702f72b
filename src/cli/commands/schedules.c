/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast schedules: list, show, preview and change schedules. */
#include <inttypes.h>
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/input.h"
#include "cli/client/job_text_options.h"
#include "cli/client/list.h"
#include "cli/client/session.h"
#include "cli/client/terminal/confirm.h"
#include "cli/client/terminal/show.h"

static const struct client_field definition_fields[] = {
    {"queue", "queue", CLIENT_FIELD_TEXT},
    {"cron", "cron", CLIENT_FIELD_TEXT},
    {"timezone", "timezone", CLIENT_FIELD_TEXT},
    {"dst_gap", "dst_gap", CLIENT_FIELD_TEXT},
    {"dst_fold", "dst_fold", CLIENT_FIELD_TEXT},
    {"every", "every_ms", CLIENT_FIELD_NUMBER},
    {"start_at", "start_at", CLIENT_FIELD_TEXT},
    {"misfire", "misfire", CLIENT_FIELD_TEXT},
    {"misfire_window", "misfire_window_ms", CLIENT_FIELD_NUMBER},
    {"overlap", "overlap", CLIENT_FIELD_TEXT},
    {"source_queue", "source_queue", CLIENT_FIELD_TEXT},
    {"batch_size", "batch_size", CLIENT_FIELD_NUMBER},
    {"interval", "interval_ms", CLIENT_FIELD_NUMBER},
    {"eager", "eager", CLIENT_FIELD_YES_NO},
    {"paused", "paused", CLIENT_FIELD_YES_NO},
    {"description", "description", CLIENT_FIELD_TEXT},
};

/* Options for the object "job"; the payload is read separately. */
static const struct client_field job_fields[] = {
    {"priority", "priority", CLIENT_FIELD_NUMBER_OR_TEXT},
    {"delay", "delay_ms", CLIENT_FIELD_NUMBER},
    {"expires_in", "expires_in_ms", CLIENT_FIELD_NUMBER},
    JOB_TEXT_MEMBERS /* texts of the job */
    {"unique_mode", "unique_mode", CLIENT_FIELD_TEXT},
    {"max_attempts", "max_attempts", CLIENT_FIELD_NUMBER},
};

static const struct client_field payload_field[] = {{"payload", "payload", CLIENT_FIELD_TEXT}};

static const struct client_field preview_fields[] = {
    {"count", "count", CLIENT_FIELD_NUMBER},
    {"after", "after", CLIENT_FIELD_TEXT},
};

/* ---- showing ----------------------------------------------------------------------------------
 */

static const struct client_column list_columns[] = {
    {"SCHEDULE", false, 60}, {"WHEN", false, 40},      {"QUEUE", false, 40},  {"NEXT", false, 0},
    {"FIRED", true, 0},      {"LAST FIRED", false, 0}, {"FAILURES", true, 0}, {"", false, 0},
};

/* The cron expression, the interval, or the queue whose items are taken. */
static void add_when(struct client_table *t, struct span schedule, struct arena *arena)
{
    char span[CLIENT_SPAN_BYTES];
    struct span cron = client_answer_text(schedule, "cron", arena);
    struct span source = client_answer_text(schedule, "source_queue", arena);
    if (cron.len > 0)
        client_table_add(t, cron);
    else if (source.len > 0)
        client_table_addf(t, "items of %.*s", (int)source.len, source.at);
    else
        client_table_addf(t, "every %s",
                          client_show_ms(client_answer_int(schedule, "every_ms", 0), span));
}

static void add_time(struct client_table *t, struct span schedule, const char *name,
                     struct arena *arena)
{
    struct span time = client_answer_text(schedule, name, arena);
    client_table_add(t, time.len > 0 ? time : SPAN_LITERAL("-"));
}

static void list_row(struct client_table *t, struct span schedule, struct arena *arena)
{
    client_table_add(t, client_answer_text(schedule, "name", arena));
    add_when(t, schedule, arena);
    client_table_add(t, client_answer_text(schedule, "queue", arena));
    add_time(t, schedule, "next_at", arena);
    client_table_addf(t, "%" PRId64, client_answer_int(schedule, "fired", 0));
    add_time(t, schedule, "last_fired_at", arena);
    client_table_addf(t, "%" PRId64, client_answer_int(schedule, "consecutive_failures", 0));
    client_table_add(t, span_text(client_answer_true(schedule, "paused") ? "paused" : ""));
}

static int list(struct client_session *s)
{
    static const struct client_list schedules = {"/v1/schedules", "schedules", list_columns,
                                                 CLIENT_COUNT(list_columns), list_row};
    return client_list_print(s, &schedules, NULL);
}

static const struct client_column firing_columns[] = {
    {"AT", false, 0}, {"LOCAL", false, 0}, {"DST", false, 0}};

static int show_firings(struct client_session *s)
{
    struct client_table table;
    struct client_items items;
    struct span firing;
    if (s->json)
        return client_print_json(s);
    client_table_init(&table, firing_columns, CLIENT_COUNT(firing_columns));
    client_items_of(&items, client_answer(s), "firings");
    while (client_items_next(&items, &firing)) {
        add_time(&table, firing, "at", &s->arena);
        add_time(&table, firing, "local", &s->arena);
        client_table_add(&table, client_answer_text(firing, "dst", &s->arena));
    }
    return client_print_table(&table);
}

/* ---- actions ----------------------------------------------------------------------------------
 */

static int definition_body(struct client_session *s)
{
    const char *payload = arguments_text(s->args, "payload", NULL);
    client_body_begin(s);
    int status = client_body_fields(s, definition_fields, CLIENT_COUNT(definition_fields));
    bool job = payload || client_fields_given(s->args, job_fields, CLIENT_COUNT(job_fields));
    if (status == CLIENT_DONE && job) {
        json_write_key(&s->writer, "job");
        json_write_object(&s->writer);
        if (payload)
            status = client_body_json(s, "payload", payload, "--payload", "");
        if (status == CLIENT_DONE)
            status = client_body_fields(s, job_fields, CLIENT_COUNT(job_fields));
        json_write_object_end(&s->writer);
    }
    return status == CLIENT_DONE ? client_body_end(s) : status;
}

static int preview_query(struct client_session *s)
{
    if (client_fields_query(s->args, preview_fields, CLIENT_COUNT(preview_fields), &s->path,
                            &s->note) == 0)
        return CLIENT_DONE;
    return client_complain(CLIENT_USAGE, "%s", s->note.text);
}

static const struct action {
    const char *word;
    const char *method;
    const char *path; /* path after the schedule's name */
    const char *header;
    bool defines, previews, deletes; /* which options it takes */
} actions[] = {
    {"create", "PUT", "", "If-None-Match: *", true, false, false},
    {"set", "PATCH", "", NULL, true, false, false},
    {"delete", "DELETE", "", NULL, false, false, true},
    {"pause", "POST", "/pause", NULL, false, false, false},
    {"resume", "POST", "/resume", NULL, false, false, false},
    {"run", "POST", "/run", NULL, false, false, false},
    {"preview", "GET", "/preview", NULL, false, true, false},
};
/* For a definition that does not exist yet: no name. */
static const struct action preview_new = {"preview", "POST", "/preview", NULL, true, true, false};

/* An option that the action does not take (a == NULL: that showing does not take) is an error,
 * not ignored. */
static int options_fit(const struct client_session *s, const struct action *a)
{
    const struct client_field *odd = NULL;
    char name[OPTION_NAME_MAX];
    if (!a || !a->defines) {
        odd = client_fields_given(s->args, definition_fields, CLIENT_COUNT(definition_fields));
        if (!odd)
            odd = client_fields_given(s->args, job_fields, CLIENT_COUNT(job_fields));
        if (!odd)
            odd = client_fields_given(s->args, payload_field, 1);
    }
    bool preview = !odd && (!a || !a->previews);
    if (preview)
        odd = client_fields_given(s->args, preview_fields, CLIENT_COUNT(preview_fields));
    if (!odd && arguments_has(s->args, "yes") && (!a || !a->deletes))
        return client_complain(CLIENT_USAGE, "--yes can only be used with `schedules delete NAME`");
    if (!odd)
        return CLIENT_DONE;
    struct option named = {.name = odd->option};
    return client_complain(CLIENT_USAGE, "--%s can only be used with `schedules %s`",
                           option_name(&named, name),
                           preview ? "preview [NAME]" : "create|set NAME` or `schedules preview");
}

static int one_ask(struct client_session *s, const char *name)
{
    client_path_add(&s->path, "/v1/schedules/");
    client_path_encode(&s->path, name);
    return client_ask(s, "GET");
}

/* One schedule is named, so a script needs no --yes. */
static int delete_confirm(struct client_session *s)
{
    const char *name = s->args->words[1];
    int status = one_ask(s, name);
    return status == CLIENT_DONE ? client_confirm("Delete schedule \"%s\"?", name) : status;
}

static int action_run(struct client_session *s, const struct action *a)
{
    int status = options_fit(s, a);
    if (status == CLIENT_DONE && a->deletes && client_confirm_wanted(s))
        status = delete_confirm(s);
    client_path_add(&s->path, "/v1/schedules");
    if (s->args->word_count == 2) {
        client_path_add(&s->path, "/");
        client_path_encode(&s->path, s->args->words[1]);
    }
    client_path_add(&s->path, a->path);
    if (status == CLIENT_DONE && a->previews)
        status = preview_query(s);
    if (status == CLIENT_DONE && a->defines)
        status = definition_body(s);
    if (status == CLIENT_DONE)
        status = client_ask_with(
            s, (struct client_request){.method = a->method, .headers = {a->header}});
    if (status != CLIENT_DONE)
        return status;
    return a->previews ? show_firings(s) : client_print_answer(s);
}

static const struct action *action_find(const char *word)
{
    for (size_t i = 0; i < CLIENT_COUNT(actions); i++)
        if (strcmp(actions[i].word, word) == 0)
            return &actions[i];
    return NULL;
}

static int schedules(struct client_session *s)
{
    const struct action *a = s->args->word_count > 0 ? action_find(s->args->words[0]) : NULL;
    if (a && s->args->word_count == 1 && a->previews)
        return action_run(s, &preview_new);
    if (a && s->args->word_count == 1)
        return client_complain(CLIENT_USAGE, "`schedules %s` needs the name of a schedule after it",
                               a->word);
    if (a)
        return action_run(s, a);
    if (s->args->word_count == 2)
        return client_complain(CLIENT_USAGE,
                               "'%s' is not an action on a schedule; it must be create, set, "
                               "delete, pause, resume, run or preview",
                               s->args->words[0]);
    int status = options_fit(s, NULL);
    if (status != CLIENT_DONE)
        return status;
    if (s->args->word_count == 0)
        return list(s);
    status = one_ask(s, s->args->words[0]);
    return status == CLIENT_DONE ? client_print_answer(s) : status;
}

int client_schedules(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, schedules);
}
