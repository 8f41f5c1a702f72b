/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast step: stores the result of a step of a job, or prints the one that is stored. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/session.h"

/* `holdfast work` passes the token of the lease to its commands. */
static const char *token_of(const struct client_session *s)
{
    return arguments_text(s->args, "token", getenv("HOLDFAST_LEASE_TOKEN"));
}

static int step_store(struct client_session *s)
{
    const char *token = token_of(s);
    if (!token)
        return client_complain(CLIENT_USAGE,
                               "--token TOKEN is missing: the lease token of the claim");
    client_body_begin(s);
    json_write_key(&s->writer, "token");
    json_write_text(&s->writer, span_text(token));
    int status = client_body_json(s, "result", s->args->words[2], "RESULT",
                                  "; a text needs its quotation marks: '\"text\"'");
    if (status == CLIENT_DONE)
        status = client_body_end(s);
    if (status != CLIENT_DONE)
        return status;
    client_path_add(&s->path, "/v1/jobs/");
    client_path_encode(&s->path, s->args->words[0]);
    client_path_add(&s->path, "/steps/");
    client_path_encode(&s->path, s->args->words[1]);
    status = client_ask(s, "POST");
    return status == CLIENT_DONE && s->json ? client_print_json(s) : status;
}

static int step_show(struct client_session *s)
{
    struct client_members steps;
    struct span object, name, result;
    client_path_add(&s->path, "/v1/jobs/");
    client_path_encode(&s->path, s->args->words[0]);
    client_path_add(&s->path, "?payload=false");
    int status = client_ask(s, "GET");
    if (status != CLIENT_DONE)
        return status;
    if (!client_answer_find(client_answer(s), "steps", &object))
        object = SPAN_LITERAL("{}");
    client_members_open(&steps, object, &s->arena);
    while (client_members_next(&steps, &name, &result))
        if (span_equal(name, span_text(s->args->words[1]))) {
            printf("%.*s\n", (int)result.len, result.at);
            return CLIENT_DONE;
        }
    return client_complain(CLIENT_REFUSED, "the job has no result of this step");
}

static int step(struct client_session *s)
{
    return s->args->word_count > 2 ? step_store(s) : step_show(s);
}

int client_step(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, step);
}
