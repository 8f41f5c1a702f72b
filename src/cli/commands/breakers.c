/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast breakers: list, show, configure and delete circuit breakers. */
#include <inttypes.h>
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/list.h"
#include "cli/client/session.h"
#include "cli/client/terminal/confirm.h"
#include "cli/client/terminal/show.h"

static const struct client_field settings_fields[] = {
    {"failure_threshold", "failure_threshold", CLIENT_FIELD_NUMBER},
    {"open_cooldown_seconds", "open_cooldown_seconds", CLIENT_FIELD_NUMBER},
    {"half_open_probe_count", "half_open_probe_count", CLIENT_FIELD_NUMBER},
};

static const struct client_column list_columns[] = {
    {"BREAKER", false, 80}, {"TYPE", false, 0}, {"STATE", false, 0},
    {"FAILURES", true, 0},  {"OF", true, 0},    {"UNTIL", false, 0},
};

static void list_row(struct client_table *t, struct span breaker, struct arena *arena)
{
    static const char *const texts[] = {"target", "type", "state"};
    static const char *const counts[] = {"failures", "failure_threshold"};
    struct span until = client_answer_text(breaker, "until", arena);
    for (size_t i = 0; i < CLIENT_COUNT(texts); i++)
        client_table_add(t, client_answer_text(breaker, texts[i], arena));
    for (size_t i = 0; i < CLIENT_COUNT(counts); i++)
        client_table_addf(t, "%" PRId64, client_answer_int(breaker, counts[i], 0));
    client_table_add(t, until.len > 0 ? until : SPAN_LITERAL("-"));
}

static int list(struct client_session *s)
{
    static const struct client_list breakers = {"/v1/breakers", "breakers", list_columns,
                                                CLIENT_COUNT(list_columns), list_row};
    return client_list_print(s, &breakers, NULL);
}

static int one(struct client_session *s, const char *method, const char *name)
{
    client_path_add(&s->path, "/v1/breakers/");
    client_path_encode(&s->path, name);
    int status = client_ask(s, method);
    return status == CLIENT_DONE ? client_print_answer(s) : status;
}

static int set(struct client_session *s, const char *name)
{
    client_body_begin(s);
    int status = client_body_fields(s, settings_fields, CLIENT_COUNT(settings_fields));
    if (status == CLIENT_DONE)
        status = client_body_end(s);
    return status == CLIENT_DONE ? one(s, "PUT", name) : status;
}

/* One breaker is named, so a script needs no --yes. */
static int delete (struct client_session *s, const char *name)
{
    int status = client_confirm_wanted(s)
                     ? client_confirm("Delete breaker \"%s\" with its settings?", name)
                     : CLIENT_DONE;
    return status == CLIENT_DONE ? one(s, "DELETE", name) : status;
}

/* An option that belongs to another action is an error, not ignored. */
static int options_check(const struct arguments *args, const char *action)
{
    if (arguments_has(args, "yes") && strcmp(action, "delete") != 0)
        return client_complain(CLIENT_USAGE, "--yes can only be used with `breakers delete NAME`");
    if (client_fields_given(args, settings_fields, CLIENT_COUNT(settings_fields)) &&
        strcmp(action, "set") != 0)
        return client_complain(CLIENT_USAGE, "settings can only be used with `breakers set NAME`");
    return CLIENT_DONE;
}

static int breakers(struct client_session *s)
{
    const char *action = s->args->word_count > 0 ? s->args->words[0] : "list";
    const char *name = s->args->word_count > 1 ? s->args->words[1] : NULL;
    int status = options_check(s->args, action);
    if (status != CLIENT_DONE)
        return status;
    if (strcmp(action, "list") == 0)
        return name ? client_complain(CLIENT_USAGE, "`breakers list` takes no name") : list(s);
    bool shows = strcmp(action, "show") == 0, sets = strcmp(action, "set") == 0;
    if (!shows && !sets && strcmp(action, "delete") != 0)
        return client_complain(CLIENT_USAGE,
                               "'%s' is not a breakers command; it must be list, show, set or "
                               "delete",
                               action);
    if (!name)
        return client_complain(CLIENT_USAGE, "`breakers %s` needs the name of a breaker", action);
    return shows ? one(s, "GET", name) : sets ? set(s, name) : delete (s, name);
}

int client_breakers(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, breakers);
}
