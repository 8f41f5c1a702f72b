/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast jobs: a list of jobs, or one job. */
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/job_text_options.h"
#include "cli/client/session.h"
#include "cli/client/terminal/show.h"
#include "cli/client/terminal/text.h"

/* ---- lists ------------------------------------------------------------------------------------
 */

static const struct client_field list_fields[] = {
    {"queue", "queue", CLIENT_FIELD_TEXT},
    {"state", "state", CLIENT_FIELD_TEXT},
    JOB_LIST_PARAMETERS /* texts of the job */
    {"limit", "limit", CLIENT_FIELD_NUMBER},
};

static const struct client_column list_columns[] = {
    {"ID", false, 0},      {"QUEUE", false, 40},  {"STATE", false, 0},   {"PRIORITY", true, 0},
    {"ATTEMPTS", true, 0}, {"CREATED", false, 0}, {"REASON", false, 24}, {"PAYLOAD", false, 80},
};

static void rows_add(struct client_table *t, struct client_session *s)
{
    static const char *const texts[] = {"id",       "queue",      "state", "priority",
                                        "attempts", "created_at", "reason"};
    struct client_items items;
    struct span job;
    client_items_of(&items, client_answer(s), "jobs");
    while (client_items_next(&items, &job)) {
        for (size_t i = 0; i < CLIENT_COUNT(texts); i++)
            client_table_add(t, client_answer_text(job, texts[i], &s->arena));
        client_show_payload(t, job, &s->arena);
    }
}

static int page_ask(struct client_session *s, const char *cursor)
{
    client_path_add(&s->path, "/v1/jobs");
    if (client_fields_query(s->args, list_fields, CLIENT_COUNT(list_fields), &s->path, &s->note) <
        0)
        return client_no_memory();
    client_path_query(&s->path, "order", arguments_has(s->args, "newest") ? "newest" : NULL);
    client_path_query(&s->path, "cursor", cursor);
    return client_ask(s, "GET");
}

static int page_show(struct client_session *s)
{
    struct client_table table;
    if (s->json)
        return client_print_json(s);
    client_table_init(&table, list_columns, CLIENT_COUNT(list_columns));
    rows_add(&table, s);
    return client_print_table(&table);
}

/* Each page is a separate table, so that a list of millions is never in memory at once. */
static int list(struct client_session *s)
{
    char cursor[1024];
    const char *from = arguments_text(s->args, "cursor", NULL);
    for (;;) {
        int status = page_ask(s, from);
        if (status == CLIENT_DONE)
            status = page_show(s);
        if (status != CLIENT_DONE)
            return status;
        struct span next = client_answer_text(client_answer(s), "next_cursor", &s->arena);
        if (next.len == 0 || next.len >= sizeof cursor)
            return CLIENT_DONE;
        memcpy(cursor, next.at, next.len);
        cursor[next.len] = '\0';
        from = cursor;
        arena_reset(&s->arena);
        if (!arguments_has(s->args, "all"))
            break;
    }
    if (!s->json)
        client_complain(CLIENT_DONE, "there are more jobs: use --all, or --cursor %s", cursor);
    return CLIENT_DONE;
}

/* ---- one job ----------------------------------------------------------------------------------
 */

static const struct client_column attempt_columns[] = {
    {"ATTEMPT", true, 0}, {"WORKER", false, 30}, {"STARTED", false, 0},
    {"ENDED", false, 0},  {"OUTCOME", false, 0}, {"ERROR", false, 100},
};

static int history_show(struct client_session *s)
{
    static const char *const texts[] = {"number",   "worker",  "started_at",
                                        "ended_at", "outcome", "error"};
    struct client_table table;
    struct client_items items;
    struct span attempt;
    size_t count = 0;
    client_table_init(&table, attempt_columns, CLIENT_COUNT(attempt_columns));
    client_items_of(&items, client_answer(s), "history");
    for (; client_items_next(&items, &attempt); count++) {
        for (size_t i = 0; i < CLIENT_COUNT(texts); i++)
            client_table_add(&table, client_answer_text(attempt, texts[i], &s->arena));
    }
    if (count == 0) {
        client_table_done(&table);
        return CLIENT_DONE;
    }
    fputc('\n', stdout);
    return client_print_table(&table);
}

static int one(struct client_session *s)
{
    client_path_add(&s->path, "/v1/jobs/");
    client_path_encode(&s->path, s->args->words[0]);
    int status = client_ask(s, "GET");
    if (status != CLIENT_DONE)
        return status;
    if (s->json)
        return client_print_json(s);
    client_show_object(stdout, client_answer(s), &s->arena);
    return history_show(s);
}

/* The option of a list that was given, or NULL. */
static const char *list_option(const struct arguments *args)
{
    static const char *const others[] = {"newest", "cursor", "all"};
    const struct client_field *f =
        client_fields_given(args, list_fields, CLIENT_COUNT(list_fields));
    for (size_t i = 0; !f && i < CLIENT_COUNT(others); i++) {
        if (arguments_has(args, others[i]))
            return others[i];
    }
    return f ? f->option : NULL;
}

static int jobs(struct client_session *s)
{
    static const char *const filters[] = {"queue", "state", JOB_LIST_NAMES};
    char name[OPTION_NAME_MAX];
    int status = client_filters_check(s->args, filters, CLIENT_COUNT(filters));
    if (status != CLIENT_DONE)
        return status;
    if (s->args->word_count == 0)
        return list(s);
    const char *option = list_option(s->args);
    if (option)
        return client_complain(CLIENT_USAGE, "--%s is for lists; it cannot be combined with an ID",
                               option_name(&(struct option){.name = option}, name));
    return one(s);
}

int client_jobs(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, jobs);
}
