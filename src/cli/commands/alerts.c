/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast alerts: list, show, create, change and delete alert rules. */
#include <inttypes.h>
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/list.h"
#include "cli/client/session.h"
#include "cli/client/terminal/confirm.h"
#include "cli/client/terminal/show.h"

static const struct client_column list_columns[] = {
    {"ALERT", false, 60}, {"ON", false, 0},  {"QUEUE", false, 40},   {"RAISED", true, 0},
    {"PENDING", true, 0}, {"DEAD", true, 0}, {"WEBHOOK", false, 80}, {"", false, 0},
};

static void list_row(struct client_table *t, struct span alert, struct arena *arena)
{
    static const char *const texts[] = {"name", "on", "queue"};
    static const char *const counts[] = {"raised_count", "pending", "dead"};
    struct span enabled = client_answer_text(alert, "enabled", arena);
    for (size_t i = 0; i < CLIENT_COUNT(texts); i++)
        client_table_add(t, client_answer_text(alert, texts[i], arena));
    for (size_t i = 0; i < CLIENT_COUNT(counts); i++)
        client_table_addf(t, "%" PRId64, client_answer_int(alert, counts[i], 0));
    client_table_add(t, client_answer_text(alert, "webhook.url", arena));
    client_table_add(t, span_text(span_equal(enabled, SPAN_LITERAL("false")) ? "off" : ""));
}

static int list(struct client_session *s)
{
    static const struct client_list alerts = {"/v1/alerts", "alerts", list_columns,
                                              CLIENT_COUNT(list_columns), list_row};
    return client_list_print(s, &alerts, NULL);
}

static const struct client_column raised_columns[] = {
    {"RAISED FOR", false, 60}, {"SINCE", false, 0}, {"VALUE", true, 0}, {"LIMIT", true, 0}};

/* Prints the conditions that are true now, if any. */
static int raised_show(struct client_session *s)
{
    struct client_table table;
    struct client_items items;
    struct span raised;
    bool any = false;
    client_table_init(&table, raised_columns, CLIENT_COUNT(raised_columns));
    client_items_of(&items, client_answer(s), "raised");
    while (client_items_next(&items, &raised)) {
        struct span queue = client_answer_text(raised, "queue", &s->arena);
        client_table_add(&table, queue.len > 0 ? queue : SPAN_LITERAL("the whole server"));
        client_table_add(&table, client_answer_text(raised, "since", &s->arena));
        client_table_addf(&table, "%" PRId64, client_answer_int(raised, "value", 0));
        client_table_addf(&table, "%" PRId64, client_answer_int(raised, "limit", 0));
        any = true;
    }
    if (any)
        return client_print_table(&table);
    client_table_done(&table);
    return CLIENT_DONE;
}

static int one_ask(struct client_session *s, const char *method, const char *name)
{
    client_path_add(&s->path, "/v1/alerts/");
    client_path_encode(&s->path, name);
    return client_ask(s, method);
}

static int one(struct client_session *s, const char *method, const char *name)
{
    int status = one_ask(s, method, name);
    if (status != CLIENT_DONE)
        return status;
    if (s->json)
        return client_print_json(s);
    client_show_object(stdout, client_answer(s), &s->arena);
    return raised_show(s);
}

/* One rule is named, so a script needs no --yes. */
static int delete (struct client_session *s, const char *name)
{
    char pending[CLIENT_COUNT_BYTES], dead[CLIENT_COUNT_BYTES];
    if (client_confirm_wanted(s)) {
        int status = one_ask(s, "GET", name);
        if (status == CLIENT_DONE)
            status = client_confirm(
                "Delete alert \"%s\" and its notices (%s pending, %s dead)?", name,
                client_show_count(client_answer_int(client_answer(s), "pending", 0), pending),
                client_show_count(client_answer_int(client_answer(s), "dead", 0), dead));
        if (status != CLIENT_DONE)
            return status;
    }
    return one(s, "DELETE", name);
}

/* ---- create and set ---- */

/* Members of a rule that are numbers, and their options. */
static const struct {
    const char *option, *member;
} numbers[] = {{"depth", "depth"},
               {"percent", "percent"},
               {"window", "window_ms"},
               {"min_ends", "min_ends"},
               {"after", "after_ms"}};

static void write_option(struct client_session *s, const char *name)
{
    const char *text = arguments_text(s->args, name, NULL);
    if (!text)
        return;
    json_write_key(&s->writer, name);
    json_write_text(&s->writer, span_text(text));
}

static int rule_body(struct client_session *s)
{
    const char *url = arguments_text(s->args, "url", NULL);
    const char *enabled = arguments_text(s->args, "enabled", NULL);
    client_body_begin(s);
    write_option(s, "on");
    write_option(s, "queue");
    for (size_t i = 0; i < CLIENT_COUNT(numbers); i++) {
        if (!arguments_has(s->args, numbers[i].option))
            continue;
        json_write_key(&s->writer, numbers[i].member);
        json_write_int(&s->writer, arguments_number(s->args, numbers[i].option, 0));
    }
    if (enabled) {
        json_write_key(&s->writer, "enabled");
        json_write_bool(&s->writer, strcmp(enabled, "true") == 0);
    }
    if (url) {
        json_write_key(&s->writer, "webhook");
        json_write_object(&s->writer);
        json_write_key(&s->writer, "url");
        json_write_text(&s->writer, span_text(url));
        json_write_object_end(&s->writer);
    }
    return client_body_end(s);
}

static int rule_put(struct client_session *s, const char *name, bool creates)
{
    if (creates && !arguments_has(s->args, "on"))
        return client_complain(CLIENT_USAGE,
                               "`alerts create` needs --on: the event or condition of the rule");
    int status = rule_body(s);
    if (status != CLIENT_DONE)
        return status;
    client_path_add(&s->path, "/v1/alerts/");
    client_path_encode(&s->path, name);
    status = client_ask_with(
        s, (struct client_request){.method = creates ? "PUT" : "PATCH",
                                   .headers = {creates ? "If-None-Match: *" : NULL}});
    return status == CLIENT_DONE ? client_print_answer(s) : status;
}

static int alerts(struct client_session *s)
{
    const char *verb = s->args->word_count > 1 ? s->args->words[0] : "";
    bool creates = strcmp(verb, "create") == 0;
    if (creates || strcmp(verb, "set") == 0)
        return rule_put(s, s->args->words[1], creates);
    bool removes = s->args->word_count > 0 && strcmp(s->args->words[0], "delete") == 0;
    if (arguments_has(s->args, "yes") && !removes)
        return client_complain(CLIENT_USAGE, "--yes can only be used with `alerts delete NAME`");
    if (s->args->word_count == 0)
        return list(s);
    if (removes && s->args->word_count == 1)
        return client_complain(CLIENT_USAGE, "`alerts delete` needs the name of an alert after it");
    if (s->args->word_count == 1)
        return one(s, "GET", s->args->words[0]);
    if (removes)
        return delete (s, s->args->words[1]);
    return client_complain(CLIENT_USAGE,
                           "'%s' is not an action on an alert; it must be create, set or delete",
                           s->args->words[0]);
}

int client_alerts(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, alerts);
}
