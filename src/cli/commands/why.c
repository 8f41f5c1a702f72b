/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast why: why a job is not running, in sentences. */
#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/session.h"
#include "cli/client/terminal/text.h"

static void print(struct span text)
{
    client_print_text(stdout, text, CLIENT_TEXT_WHOLE);
}

static void print_member(struct client_session *s, const char *name)
{
    print(client_answer_text(client_answer(s), name, &s->arena));
}

static void print_head(struct client_session *s)
{
    struct span state = client_answer_text(client_answer(s), "state", &s->arena);
    fputs(state.len ? "The job " : "The state of the job ", stdout);
    print_member(s, "id");
    if (!state.len) {
        fputs(" is not known.\n", stdout);
        return;
    }
    fputs(" of the queue ", stdout);
    print_member(s, "queue");
    fputs(" is ", stdout);
    print(state);
    fputs(".\n", stdout);
}

static int why(struct client_session *s)
{
    struct client_items reasons;
    struct span reason;
    client_path_add(&s->path, "/v1/jobs/");
    client_path_encode(&s->path, s->args->words[0]);
    client_path_add(&s->path, "/why");
    int status = client_ask(s, "GET");
    if (status != CLIENT_DONE)
        return status;
    if (s->json)
        return client_print_json(s);
    print_head(s);
    client_items_of(&reasons, client_answer(s), "reasons");
    for (int number = 1; client_items_next(&reasons, &reason); number++) {
        printf("%d. ", number);
        print(client_answer_text(reason, "detail", &s->arena));
        fputs(" (", stdout);
        print(client_answer_text(reason, "code", &s->arena));
        fputs(")\n", stdout);
    }
    if (client_answer_text(client_answer(s), "expected_start", &s->arena).len) {
        fputs("It is expected to start at ", stdout);
        print_member(s, "expected_start");
        fputs(".\n", stdout);
    }
    return CLIENT_DONE;
}

int client_why(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, why);
}
