/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast workers, progress, log: the workers, and their reports about a job. */
#include <inttypes.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/list.h"

static const struct client_column worker_columns[] = {
    {"WORKER", false, 40}, {"STATE", false, 0}, {"LAST SEEN", false, 0},
    {"JOBS", true, 0},     {"DONE", true, 0},   {"FAILED", true, 0},
    {"HOST", false, 30},   {"PID", true, 0},    {"VERSION", false, 20}};

static void worker_row(struct client_table *t, struct span worker, struct arena *arena)
{
    static const char *const names[] = {"name",   "state", "last_seen", "running", "done",
                                        "failed", "host",  "pid",       "version"};
    for (size_t i = 0; i < CLIENT_COUNT(names); i++) {
        struct span text = client_answer_text(worker, names[i], arena);
        client_table_add(t, text.len ? text : SPAN_LITERAL("-"));
    }
}

static int workers(struct client_session *s)
{
    static const struct client_list list = {"/v1/workers", "workers", worker_columns,
                                            CLIENT_COUNT(worker_columns), worker_row};
    return client_list_print(s, &list, NULL);
}

int client_workers(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, workers);
}

static void job_path(struct client_session *s, const char *what)
{
    client_path_add(&s->path, "/v1/jobs/");
    client_path_encode(&s->path, s->args->words[0]);
    client_path_add(&s->path, what);
}

/* The percentage is sent unchanged: the server checks it. */
static int progress(struct client_session *s)
{
    static const struct client_field fields[] = {{"token", "token", CLIENT_FIELD_TEXT},
                                                 {"lease", "lease_ms", CLIENT_FIELD_NUMBER}};
    struct span percent = span_text(s->args->words[1]);
    if (!arguments_has(s->args, "token"))
        return client_complain(CLIENT_USAGE,
                               "--token TOKEN is missing: the lease token of the claim");
    if (json_check(percent, NULL, NULL) != 0)
        return client_complain(CLIENT_USAGE, "PERCENT must be a number from 0 to 100");
    client_body_begin(s);
    json_write_key(&s->writer, "percent");
    json_write_raw(&s->writer, percent);
    if (s->args->word_count > 2) {
        json_write_key(&s->writer, "message");
        json_write_text(&s->writer, span_text(s->args->words[2]));
    }
    int status = client_body_fields(s, fields, CLIENT_COUNT(fields));
    if (status == CLIENT_DONE)
        status = client_body_end(s);
    if (status != CLIENT_DONE)
        return status;
    job_path(s, "/progress");
    status = client_ask(s, "POST");
    return status == CLIENT_DONE ? client_print_answer(s) : status;
}

int client_progress(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, progress);
}

static const struct client_column log_columns[] = {
    {"AT", false, 0}, {"ATTEMPT", true, 0}, {"TEXT", false, 0}};

static int log_show(struct client_session *s)
{
    struct client_table table;
    struct client_items items;
    struct span line;
    job_path(s, "/log");
    int status = client_ask(s, "GET");
    if (status != CLIENT_DONE)
        return status;
    if (s->json)
        return client_print_json(s);
    client_table_init(&table, log_columns, CLIENT_COUNT(log_columns));
    client_items_of(&items, client_answer(s), "lines");
    while (client_items_next(&items, &line)) {
        client_table_add(&table, client_answer_text(line, "at", &s->arena));
        client_table_addf(&table, "%" PRId64, client_answer_int(line, "attempt", 0));
        client_table_add(&table, client_answer_text(line, "text", &s->arena));
    }
    return client_print_table(&table);
}

int client_log(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, log_show);
}
