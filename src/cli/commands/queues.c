/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast queues: list, show and change queues. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/list.h"
#include "cli/client/session.h"
#include "cli/client/terminal/confirm.h"
#include "cli/client/terminal/show.h"
#include "cli/commands/queue_policy.h"
#include "cli/commands/queues.h"

static const struct client_field description_field = {"description", "description",
                                                      CLIENT_FIELD_TEXT};

static const struct client_field pause_fields[] = {
    {"until", "until", CLIENT_FIELD_TEXT},
    {"for", "for_ms", CLIENT_FIELD_NUMBER},
};

/* ---- showing ----------------------------------------------------------------------------------
 */

static const struct client_column list_columns[] = {
    {"QUEUE", false, 60},      {"READY", true, 0}, {"SCHEDULED", true, 0}, {"BLOCKED", true, 0},
    {"RUNNING", true, 0},      {"DONE", true, 0},  {"DEAD", true, 0},      {"CANCELLED", true, 0},
    {"OLDEST READY", true, 0}, {"", false, 0},
};

/* Why ready jobs of the queue are not claimed, as far as the queue itself knows. */
static void list_blocks(struct client_table *t, struct span queue)
{
    static const char *const blocks[] = {"queue_limit", "group_limit", "claim_rate"};
    char text[128] = "", path[32];
    size_t len = 0;
    if (client_answer_true(queue, "paused"))
        len = (size_t)snprintf(text, sizeof text, "paused");
    for (size_t i = 0; i < CLIENT_COUNT(blocks); i++) {
        snprintf(path, sizeof path, "limited.%s", blocks[i]);
        int64_t n = client_answer_int(queue, path, 0);
        if (n > 0)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s: %" PRId64,
                                    len ? ", " : "", blocks[i], n);
    }
    client_table_add(t, span_of(text, len));
}

static void list_row(struct client_table *t, struct span queue, struct arena *arena)
{
    static const char *const counts[] = {"counts.ready",    "counts.scheduled", "counts.blocked",
                                         "counts.running",  "counts.done",      "counts.dead",
                                         "counts.cancelled"};
    char age[CLIENT_SPAN_BYTES];
    client_table_add(t, client_answer_text(queue, "name", arena));
    for (size_t i = 0; i < CLIENT_COUNT(counts); i++)
        client_table_addf(t, "%" PRId64, client_answer_int(queue, counts[i], 0));
    client_table_add(
        t, span_text(client_show_ms(client_answer_int(queue, "oldest_ready_ms", -1), age)));
    list_blocks(t, queue);
}

int client_queues_list(struct client_session *s)
{
    static const struct client_list queues = {"/v1/queues", "queues", list_columns,
                                              CLIENT_COUNT(list_columns), list_row};
    return client_list_print(s, &queues, NULL);
}

static void queue_path(struct client_session *s, const char *queue, const char *action)
{
    client_path_add(&s->path, "/v1/queues/");
    client_path_encode(&s->path, queue);
    client_path_add(&s->path, action);
}

/* ---- actions ----------------------------------------------------------------------------------
 */

static int policy_body(struct client_session *s)
{
    client_body_begin(s);
    int status = client_body_fields(s, &description_field, 1);
    if (status == CLIENT_DONE)
        status = queue_policy_write(s);
    return status == CLIENT_DONE ? client_body_end(s) : status;
}

static int pause_body(struct client_session *s)
{
    if (!client_fields_given(s->args, pause_fields, CLIENT_COUNT(pause_fields)))
        return CLIENT_DONE;
    client_body_begin(s);
    int status = client_body_fields(s, pause_fields, CLIENT_COUNT(pause_fields));
    return status == CLIENT_DONE ? client_body_end(s) : status;
}

static int delete_confirm(struct client_session *s)
{
    const char *queue = s->args->words[1];
    char shown[CLIENT_COUNT_BYTES];
    int64_t jobs = client_confirm_counts(s, queue, "counts");
    if (jobs == 0)
        return client_confirm("Delete queue \"%s\", which has no jobs?", queue);
    return client_confirm("Delete queue \"%s\" and its %s job%s?", queue,
                          client_show_count(jobs, shown), jobs == 1 ? "" : "s");
}

static int purge_confirm(struct client_session *s)
{
    struct span queue = client_answer(s);
    char shown[CLIENT_COUNT_BYTES];
    int64_t jobs = client_answer_int(queue, "counts.ready", 0) +
                   client_answer_int(queue, "counts.scheduled", 0) +
                   client_answer_int(queue, "counts.blocked", 0);
    return client_confirm("Remove %s waiting job%s from queue \"%s\"?",
                          client_show_count(jobs, shown), jobs == 1 ? "" : "s", s->args->words[1]);
}

static const struct action {
    const char *word;
    const char *method;
    const char *path; /* path after the queue's name */
    const char *header;
    int (*body)(struct client_session *s);
    int (*confirm)(
        struct client_session *s); /* asks for confirmation; the queue is the last answer */
} actions[] = {
    {"create", "PUT", "", "If-None-Match: *", policy_body, NULL},
    {"set", "PATCH", "", NULL, policy_body, NULL},
    {"delete", "DELETE", "", NULL, NULL, delete_confirm},
    {"pause", "POST", "/pause", NULL, pause_body, NULL},
    {"resume", "POST", "/resume", NULL, NULL, NULL},
    {"purge", "POST", "/purge", NULL, NULL, purge_confirm},
};

/* An option that the action does not take (a == NULL: that showing does not take) is an error,
 * not ignored. */
static int options_fit(const struct client_session *s, const struct action *a)
{
    char name[OPTION_NAME_MAX];
    const struct client_field *pause = NULL;
    const char *policy = NULL;
    if (!a || a->body != pause_body)
        pause = client_fields_given(s->args, pause_fields, CLIENT_COUNT(pause_fields));
    if (!a || a->body != policy_body)
        policy =
            arguments_has(s->args, "description") ? "description" : queue_policy_given(s->args);
    if (arguments_has(s->args, "yes") && (!a || !a->confirm))
        return client_complain(CLIENT_USAGE,
                               "--yes can only be used with `queues delete|purge QUEUE`");
    if (!pause && !policy)
        return CLIENT_DONE;
    struct option named = {.name = pause ? pause->option : policy};
    return client_complain(CLIENT_USAGE, "--%s can only be used with `queues %s QUEUE`",
                           option_name(&named, name), pause ? "pause" : "create|set");
}

/* Asks for confirmation if the action needs it; CLIENT_DONE: continue. */
static int action_confirm(struct client_session *s, const struct action *a)
{
    char command[32];
    snprintf(command, sizeof command, "queues %s", a->word);
    int status = client_confirm_possible(s, command);
    if (status != CLIENT_DONE || !client_confirm_wanted(s))
        return status;
    queue_path(s, s->args->words[1], "");
    status = client_ask(s, "GET");
    return status == CLIENT_DONE ? a->confirm(s) : status;
}

static int action_run(struct client_session *s, const struct action *a)
{
    int status = a->confirm ? action_confirm(s, a) : CLIENT_DONE;
    if (status != CLIENT_DONE)
        return status;
    queue_path(s, s->args->words[1], a->path);
    if (a->body)
        status = a->body(s);
    if (status == CLIENT_DONE)
        status = client_ask_with(
            s, (struct client_request){.method = a->method, .headers = {a->header}});
    return status == CLIENT_DONE ? client_print_answer(s) : status;
}

static int show_one(struct client_session *s)
{
    queue_path(s, s->args->words[0], "");
    int status = client_ask(s, "GET");
    return status == CLIENT_DONE ? client_print_answer(s) : status;
}

static const struct action *action_find(const char *word)
{
    for (size_t i = 0; i < CLIENT_COUNT(actions); i++)
        if (strcmp(actions[i].word, word) == 0)
            return &actions[i];
    return NULL;
}

static int queues(struct client_session *s)
{
    const struct action *a = s->args->word_count > 0 ? action_find(s->args->words[0]) : NULL;
    if (a && s->args->word_count == 1)
        return client_complain(CLIENT_USAGE,
                               "`queues %s` needs the name of a queue after it (`stats %s` shows a "
                               "queue with this name)",
                               a->word, a->word);
    if (s->args->word_count < 2) {
        int status = options_fit(s, NULL);
        if (status != CLIENT_DONE)
            return status;
        return s->args->word_count == 0 ? client_queues_list(s) : show_one(s);
    }
    if (a) {
        int status = options_fit(s, a);
        return status == CLIENT_DONE ? action_run(s, a) : status;
    }
    return client_complain(
        CLIENT_USAGE,
        "'%s' is not an action on a queue; it must be create, set, delete, pause, resume or purge",
        s->args->words[0]);
}

int client_queues(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, queues);
}
