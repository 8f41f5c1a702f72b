/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast jobs, requeue, cancel: looking at jobs and moving them. */
#include <inttypes.h>
#include <string.h>

#include "app/client_answer.h"
#include "app/client_commands.h"
#include "app/client_session.h"
#include "app/client_show.h"
#include "app/client_text.h"

/* ---- lists ------------------------------------------------------------------------------------
 */

static const struct client_field list_fields[] = {
    {"queue", "queue", CLIENT_FIELD_TEXT},
    {"state", "state", CLIENT_FIELD_TEXT},
    {"group", "group", CLIENT_FIELD_TEXT},
    {"unique", "unique", CLIENT_FIELD_TEXT},
    {"correlation_id", "correlation_id", CLIENT_FIELD_TEXT},
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

/* Each page is a table of its own: a list of millions never stands in memory. */
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
        struct span next = client_answer_text(client_answer(s), "cursor", &s->arena);
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
        client_complain(CLIENT_DONE, "there are more: --all, or --cursor %s", cursor);
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
    char name[OPTION_NAME_MAX];
    if (s->args->word_count == 0)
        return list(s);
    const char *option = list_option(s->args);
    if (option)
        return client_complain(CLIENT_USAGE, "--%s is for lists; it says nothing about one job",
                               option_name(&(struct option){.name = option}, name));
    return one(s);
}

/* ---- requeue and cancel -----------------------------------------------------------------------
 */

static const struct client_field delay_fields[] = {{"delay", "delay_ms", CLIENT_FIELD_NUMBER}};

struct move {
    const char *path; /* behind the job or queue */
    const struct client_field *fields;
    size_t field_count;
};
static const struct move move_requeue = {"/requeue", delay_fields, CLIENT_COUNT(delay_fields)};
static const struct move move_cancel = {"/cancel", NULL, 0};

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
    fputc('\n', stdout);
    return CLIENT_DONE;
}

/* All of them, even when one is refused; the worst outcome is the exit status. */
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

static int move_many(struct client_session *s, const struct move *m)
{
    static const struct client_field group[] = {{"group", "group", CLIENT_FIELD_TEXT}};
    const char *states = arguments_text(s->args, "state", NULL);
    client_body_begin(s);
    if (states)
        states_write(s, states);
    int status = client_body_fields(s, group, CLIENT_COUNT(group));
    if (status == CLIENT_DONE)
        status = client_body_end(s);
    client_path_add(&s->path, "/v1/queues/");
    client_path_encode(&s->path, arguments_text(s->args, "queue", ""));
    client_path_add(&s->path, m->path);
    if (status == CLIENT_DONE)
        status = client_ask(s, "POST");
    if (status != CLIENT_DONE)
        return status;
    if (s->json)
        return client_print_json(s);
    printf("%" PRId64 " changed, %" PRId64 " refused\n",
           client_answer_int(client_answer(s), "changed", 0),
           client_answer_int(client_answer(s), "refused", 0));
    return CLIENT_DONE;
}

static int move(struct client_session *s, const struct move *m)
{
    bool by_queue = arguments_has(s->args, "queue");
    bool narrowed = arguments_has(s->args, "state") || arguments_has(s->args, "group");
    if (by_queue == (s->args->word_count > 0))
        return client_complain(CLIENT_USAGE, "name jobs by ID, or a queue with --queue%s",
                               by_queue ? ", but not both" : "");
    if (!by_queue && narrowed)
        return client_complain(CLIENT_USAGE, "--state and --group go with --queue");
    if (by_queue && client_fields_given(s->args, m->fields, m->field_count))
        return client_complain(CLIENT_USAGE, "--delay goes with an ID");
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

int client_jobs(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, jobs);
}

int client_requeue(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, requeue);
}

int client_cancel(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, cancel);
}
