/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast stats: figures of the server or of one queue, once or every second. */
#include <inttypes.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/session.h"
#include "cli/client/terminal/interrupt.h"
#include "cli/client/terminal/show.h"
#include "cli/client/terminal/text.h"
#include "cli/commands/queues.h"

static const struct client_column pair_columns[] = {{"STATE", false, 0}, {"JOBS", true, 0}};
static const struct client_column total_columns[] = {{"SINCE START", false, 0}, {"JOBS", true, 0}};
static const struct client_column time_columns[] = {
    {"TIME", false, 0}, {"P50", true, 0}, {"P95", true, 0}, {"P99", true, 0}, {"JOBS", true, 0},
};

/* A table of the members of an inner object. */
static int pairs_show(struct client_session *s, const char *path,
                      const struct client_column *columns)
{
    struct client_table table;
    struct client_members members;
    struct span object = {NULL, 0}, name, value;
    (void)client_answer_find(client_answer(s), path, &object);
    client_table_init(&table, columns, 2);
    client_members_open(&members, object, &s->arena);
    while (client_members_next(&members, &name, &value)) {
        client_table_add(&table, name);
        client_table_add(&table, value);
    }
    return client_print_table(&table);
}

static void time_row(struct client_session *s, struct client_table *t, const char *name,
                     const char *path)
{
    static const char *const figures[] = {"p50", "p95", "p99"};
    struct span object = {NULL, 0};
    char text[CLIENT_SPAN_BYTES];
    (void)client_answer_find(client_answer(s), path, &object);
    client_table_add(t, span_text(name));
    for (size_t i = 0; i < CLIENT_COUNT(figures); i++)
        client_table_add(
            t, span_text(client_show_ms(client_answer_int(object, figures[i], -1), text)));
    client_table_addf(t, "%" PRId64, client_answer_int(object, "count", 0));
}

static int times_show(struct client_session *s)
{
    struct client_table table;
    client_table_init(&table, time_columns, CLIENT_COUNT(time_columns));
    time_row(s, &table, "waited", "wait_ms");
    time_row(s, &table, "ran", "run_ms");
    return client_print_table(&table);
}

static int queue_stats(struct client_session *s)
{
    char age[CLIENT_SPAN_BYTES];
    client_path_add(&s->path, "/v1/queues/");
    client_path_encode(&s->path, s->args->words[0]);
    client_path_add(&s->path, "/stats");
    client_path_query(&s->path, "group", arguments_text(s->args, "group", NULL));
    int status = client_ask(s, "GET");
    if (status != CLIENT_DONE)
        return status;
    if (s->json)
        return client_print_json(s);
    client_print_text(stdout, client_answer_text(client_answer(s), "queue", &s->arena), 200);
    printf(": oldest ready %s",
           client_show_ms(client_answer_int(client_answer(s), "oldest_ready_ms", -1), age));
    struct span due = client_answer_text(client_answer(s), "next_due", &s->arena);
    fputs(", next due ", stdout);
    client_print_text(stdout, due.len > 0 ? due : SPAN_LITERAL("-"), 64);
    fputs("\n\n", stdout);
    if ((status = pairs_show(s, "counts", pair_columns)) != CLIENT_DONE)
        return status;
    fputc('\n', stdout);
    if ((status = pairs_show(s, "totals", total_columns)) != CLIENT_DONE)
        return status;
    fputc('\n', stdout);
    return times_show(s);
}

static int server_stats(struct client_session *s)
{
    client_path_add(&s->path, "/v1/snapshot");
    int status = client_ask(s, "GET");
    if (status != CLIENT_DONE)
        return status;
    if (s->json)
        return client_print_json(s);
    struct span a = client_answer(s);
    int64_t ready = client_answer_int(a, "ready", 0), running = client_answer_int(a, "running", 0);
    int64_t scheduled = client_answer_int(a, "scheduled", 0);
    int64_t blocked = client_answer_int(a, "blocked", 0);
    printf("Waiting and running jobs: %" PRId64 " (%" PRId64 " ready, %" PRId64
           " scheduled, %" PRId64 " blocked, %" PRId64 " running)%s\n\n",
           ready + scheduled + blocked + running, ready, scheduled, blocked, running,
           client_answer_true(a, "shutdown") ? "; the server is shutting down" : "");
    return client_queues_list(s);
}

static int stats_once(struct client_session *s)
{
    int status = s->args->word_count > 0 ? queue_stats(s) : server_stats(s);
    arena_reset(&s->arena);
    return status;
}

/* Redraws from the top on a terminal; otherwise prints an empty line between the figures. */
static int stats_watch(struct client_session *s)
{
    bool terminal = client_screen_of(stdout).terminal;
    int status;
    client_interrupt_hold();
    for (;;) {
        if (terminal)
            fputs("\033[H\033[2J", stdout);
        status = stats_once(s);
        if (fflush(stdout) != 0 || status != CLIENT_DONE || client_interrupt_wait(1000))
            return status;
        if (!terminal && !s->json)
            fputc('\n', stdout);
    }
}

static int stats(struct client_session *s)
{
    if (s->args->word_count == 0 && arguments_has(s->args, "group"))
        return client_complain(CLIENT_USAGE, "--group can only be used with a QUEUE");
    return arguments_has(s->args, "watch") ? stats_watch(s) : stats_once(s);
}

int client_stats(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, stats);
}
