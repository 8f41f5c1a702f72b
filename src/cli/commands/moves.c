/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast requeue and cancel: jobs named by id, or all jobs of a queue that a filter matches. */
#include <inttypes.h>
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/session.h"
#include "cli/client/terminal/confirm.h"
#include "cli/client/terminal/show.h"
#include "cli/client/terminal/text.h"

static const struct client_field delay_fields[] = {{"delay", "delay_ms", CLIENT_FIELD_NUMBER}};

static const struct client_field force_fields[] = {{"force", "force", CLIENT_FIELD_FLAG}};

static const struct move {
    const char *name;
    const char *title;  /* beginning of the question */
    const char *past;   /* "would be …" */
    const char *path;   /* after the job or queue */
    const char *states; /* --state must be given: the text for the message; NULL = the server has a
                           default */
    const struct client_field *fields; /* of a job by its id */
    size_t field_count;
} move_requeue =
    {"requeue", "Requeue", "requeued", "/requeue", NULL, delay_fields, CLIENT_COUNT(delay_fields)},
  move_cancel = {"cancel",
                 "Cancel",
                 "cancelled",
                 "/cancel",
                 "scheduled,ready,running",
                 force_fields,
                 CLIENT_COUNT(force_fields)};

/* ---- by id ------------------------------------------------------------------------------------
 */

static int move_one(struct client_session *s, const struct move *m, const char *id)
{
    int status = CLIENT_DONE;
    if (client_fields_given(s->args, m->fields, m->field_count)) {
        client_body_begin(s);
        status = client_body_fields(s, m->fields, m->field_count);
        if (status == CLIENT_DONE)
            status = client_body_end(s);
    }
    if (status != CLIENT_DONE)
        return status;
    client_path_add(&s->path, "/v1/jobs/");
    client_path_encode(&s->path, id);
    client_path_add(&s->path, m->path);
    status = client_ask(s, "POST");
    if (status != CLIENT_DONE)
        return status;
    if (s->json)
        return client_print_json(s);
    client_print_text(stdout, client_answer_text(client_answer(s), "id", &s->arena), 64);
    fputs("  ", stdout);
    client_print_text(stdout, client_answer_text(client_answer(s), "state", &s->arena), 64);
    struct span by = client_answer_text(client_answer(s), "cancel_deadline", &s->arena);
    if (by.len > 0) {
        fputs("  cancel requested; the worker has until ", stdout);
        client_print_text(stdout, by, 64);
    }
    fputc('\n', stdout);
    return CLIENT_DONE;
}

/* Continues after a refusal; the worst outcome is the exit status. */
static int move_each(struct client_session *s, const struct move *m)
{
    int worst = CLIENT_DONE;
    for (size_t i = 0; i < s->args->word_count; i++) {
        int status = move_one(s, m, s->args->words[i]);
        if (status > worst)
            worst = status;
        if (status == CLIENT_UNREACHABLE)
            break;
    }
    return worst;
}

/* ---- by queue ---------------------------------------------------------------------------------
 */

static void states_write(struct client_session *s, const char *list)
{
    json_write_key(&s->writer, "states");
    json_write_array(&s->writer);
    for (;;) {
        size_t len = strcspn(list, ",");
        json_write_text(&s->writer, span_of(list, len));
        if (list[len] == '\0')
            break;
        list += len + 1;
    }
    json_write_array_end(&s->writer);
}

static int many_ask(struct client_session *s, const struct move *m, bool dry_run)
{
    static const struct client_field filter[] = {{"group", "group", CLIENT_FIELD_TEXT},
                                                 {"kind", "kind", CLIENT_FIELD_TEXT}};
    const char *states = arguments_text(s->args, "state", NULL);
    client_body_begin(s);
    if (states)
        states_write(s, states);
    if (dry_run) {
        json_write_key(&s->writer, "dry_run");
        json_write_bool(&s->writer, true);
    }
    int status = client_body_fields(s, filter, CLIENT_COUNT(filter));
    if (status == CLIENT_DONE && m == &move_cancel)
        status = client_body_fields(s, m->fields, m->field_count);
    if (status == CLIENT_DONE)
        status = client_body_end(s);
    client_path_add(&s->path, "/v1/queues/");
    client_path_encode(&s->path, arguments_text(s->args, "queue", ""));
    client_path_add(&s->path, m->path);
    return status == CLIENT_DONE ? client_ask(s, "POST") : status;
}

/* `12 jobs of queue "mail"`, `1 job of kind "welcome" of group "g" in queue "mail"`. */
static void many_describe(const struct client_session *s, int64_t count, char *out, size_t room)
{
    const char *group = arguments_text(s->args, "group", NULL);
    const char *kind = arguments_text(s->args, "kind", NULL);
    char shown[CLIENT_COUNT_BYTES];
    snprintf(out, room, "%s job%s%s%s%s of %s%s%squeue \"%s\"", client_show_count(count, shown),
             count == 1 ? "" : "s", kind ? " of kind \"" : "", kind ? kind : "", kind ? "\"" : "",
             group ? "group \"" : "", group ? group : "", group ? "\" in " : "",
             arguments_text(s->args, "queue", ""));
}

/* Prints the result of a dry run, the last answer. */
static int dry_run_show(struct client_session *s, const struct move *m)
{
    char text[512];
    if (s->json)
        return client_print_json(s);
    many_describe(s, client_answer_int(client_answer(s), "count", 0), text, sizeof text);
    client_print_text(stdout, span_text(text), CLIENT_TEXT_WHOLE);
    printf(" would be %s\n", m->past);
    return CLIENT_DONE;
}

static int many_confirm(struct client_session *s, const struct move *m, bool *ret_none)
{
    char text[512];
    int status = many_ask(s, m, true);
    if (status != CLIENT_DONE)
        return status;
    int64_t count = client_confirm_counts(s, arguments_text(s->args, "queue", ""), "by_state");
    *ret_none = count == 0;
    if (*ret_none)
        return dry_run_show(s, m);
    many_describe(s, count, text, sizeof text);
    return client_confirm("%s %s?", m->title, text);
}

static int move_many(struct client_session *s, const struct move *m)
{
    char command[32];
    bool none = false;
    if (arguments_has(s->args, "dry_run")) {
        int status = many_ask(s, m, true);
        return status == CLIENT_DONE ? dry_run_show(s, m) : status;
    }
    snprintf(command, sizeof command, "%s --queue", m->name);
    int status = client_confirm_possible(s, command);
    if (status == CLIENT_DONE && client_confirm_wanted(s))
        status = many_confirm(s, m, &none);
    if (status != CLIENT_DONE || none)
        return status;
    status = many_ask(s, m, false);
    if (status != CLIENT_DONE)
        return status;
    if (s->json)
        return client_print_json(s);
    printf("%" PRId64 " changed, %" PRId64 " refused\n",
           client_answer_int(client_answer(s), "changed", 0),
           client_answer_int(client_answer(s), "refused", 0));
    return CLIENT_DONE;
}

/* ---- the commands -----------------------------------------------------------------------------
 */

static int move(struct client_session *s, const struct move *m)
{
    static const char *const for_queues[] = {"state", "group", "kind", "dry_run"};
    char name[OPTION_NAME_MAX];
    bool by_queue = arguments_has(s->args, "queue");
    if (by_queue == (s->args->word_count > 0))
        return client_complain(CLIENT_USAGE, "give the IDs of jobs, or a queue with --queue%s",
                               by_queue ? ", but not both" : "");
    for (size_t i = 0; !by_queue && i < CLIENT_COUNT(for_queues); i++)
        if (arguments_has(s->args, for_queues[i]))
            return client_complain(CLIENT_USAGE, "--%s can only be used with --queue",
                                   option_name(&(struct option){.name = for_queues[i]}, name));
    if (by_queue && m == &move_requeue && client_fields_given(s->args, m->fields, m->field_count))
        return client_complain(CLIENT_USAGE, "--delay can only be used with an ID");
    if (by_queue && m->states && !arguments_has(s->args, "state"))
        return client_complain(CLIENT_USAGE,
                               "`%s --queue` needs --state, the states of the jobs to %s: one or "
                               "more of %s",
                               m->name, m->name, m->states);
    static const char *const filters[] = {"queue", "state", "group", "kind"};
    int status = client_filters_check(s->args, filters, CLIENT_COUNT(filters));
    if (status != CLIENT_DONE)
        return status;
    return by_queue ? move_many(s, m) : move_each(s, m);
}

static int requeue(struct client_session *s)
{
    return move(s, &move_requeue);
}

static int cancel(struct client_session *s)
{
    return move(s, &move_cancel);
}

int client_requeue(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, requeue);
}

int client_cancel(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, cancel);
}
