/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast claim, ack, fail, extend, release: a worker's side of a job, by hand or from a script.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/input.h"
#include "cli/client/session.h"
#include "cli/client/terminal/show.h"
#include "cli/client/terminal/text.h"
#include "cli/work/handoff.h"

/* ---- claim ------------------------------------------------------------------------------------
 */

static const struct client_field claim_fields[] = {
    {"count", "count", CLIENT_FIELD_NUMBER},
    {"wait", "wait_ms", CLIENT_FIELD_NUMBER},
    {"lease", "lease_ms", CLIENT_FIELD_NUMBER},
    {"worker", "worker", CLIENT_FIELD_TEXT},
};

static const struct client_column claim_columns[] = {
    {"ID", false, 0},     {"TOKEN", false, 0},   {"QUEUE", false, 40},
    {"ATTEMPT", true, 0}, {"PRIORITY", true, 0}, {"PAYLOAD", false, 80},
};

static void queues_write(struct client_session *s)
{
    json_write_key(&s->writer, "queues");
    json_write_array(&s->writer);
    for (size_t i = 0; i < s->args->word_count; i++)
        json_write_text(&s->writer, span_text(s->args->words[i]));
    json_write_array_end(&s->writer);
}

static int claim_ask(struct client_session *s, const char *accept)
{
    bool one = s->args->word_count == 1;
    client_body_begin(s);
    if (!one)
        queues_write(s);
    int status = client_body_fields(s, claim_fields, CLIENT_COUNT(claim_fields));
    if (status == CLIENT_DONE)
        status = client_body_end(s);
    if (status != CLIENT_DONE)
        return status;
    client_path_add(&s->path, one ? "/v1/queues/" : "/v1");
    if (one)
        client_path_encode(&s->path, s->args->words[0]);
    client_path_add(&s->path, "/claim");
    return client_ask_with(s, (struct client_request){
                                  .method = "POST",
                                  .headers = {accept},
                                  .raw = accept != NULL,
                                  .wait_ms = arguments_number(s->args, "wait", 0),
                              });
}

static int claim_raw(struct client_session *s)
{
    if (arguments_number(s->args, "count", 1) != 1)
        return client_complain(CLIENT_USAGE, "--raw claims one job; leave --count out");
    int status = claim_ask(s, "Accept: application/octet-stream");
    if (status != CLIENT_DONE)
        return status;
    if (s->reply.status == 204)
        return CLIENT_NOTHING;
    client_print_text(stderr, client_reply_header(&s->reply, "Holdfast-Id"), CLIENT_TEXT_WHOLE);
    fputc(' ', stderr);
    client_print_text(stderr, client_reply_header(&s->reply, "Holdfast-Token"), CLIENT_TEXT_WHOLE);
    fputc('\n', stderr);
    struct span payload = client_answer(s);
    if (payload.len > 0)
        fwrite(payload.at, 1, payload.len, stdout);
    return CLIENT_DONE;
}

static size_t claimed_add(struct client_table *t, struct client_session *s)
{
    struct client_items items;
    struct span job;
    size_t count = 0;
    client_items_of(&items, client_answer(s), "jobs");
    for (; client_items_next(&items, &job); count++) {
        static const char *const texts[] = {"id", "token", "queue", "attempt", "priority"};
        for (size_t i = 0; i < CLIENT_COUNT(texts); i++)
            client_table_add(t, client_answer_text(job, texts[i], &s->arena));
        client_show_payload(t, job, &s->arena);
    }
    return count;
}

static int claim(struct client_session *s)
{
    if (arguments_has(s->args, "raw"))
        return claim_raw(s);
    int status = claim_ask(s, NULL);
    if (status != CLIENT_DONE)
        return status;
    struct client_table table;
    client_table_init(&table, claim_columns, CLIENT_COUNT(claim_columns));
    size_t count = claimed_add(&table, s);
    if (s->json)
        status = client_print_json(s);
    if (s->json || count == 0)
        client_table_done(&table);
    else
        status = client_print_table(&table);
    return status == CLIENT_DONE && count == 0 ? CLIENT_NOTHING : status;
}

/* ---- what becomes of a claimed job ------------------------------------------------------------
 */

static const struct client_field fail_fields[] = {
    {"error", "error", CLIENT_FIELD_TEXT},
    {"error_kind", "error_kind", CLIENT_FIELD_TEXT},
    {"error_type", "error_type", CLIENT_FIELD_TEXT},
    {"stack_file", "stack", CLIENT_FIELD_FILE},
    {"no_retry", "retry", CLIENT_FIELD_FALSE},
    {"delay", "delay_ms", CLIENT_FIELD_NUMBER},
    {"run_at", "run_at", CLIENT_FIELD_TEXT},
};
static const struct client_field extend_fields[] = {{"lease", "lease_ms", CLIENT_FIELD_NUMBER}};
static const struct client_field release_fields[] = {
    {"reason", "reason", CLIENT_FIELD_TEXT},
    {"delay", "delay_ms", CLIENT_FIELD_NUMBER},
    {"run_at", "run_at", CLIENT_FIELD_TEXT},
};

/* The members of the object become members of the request. */
static int handoff_write(struct client_session *s, const char *word)
{
    struct buf text;
    struct handoff h;
    int status = CLIENT_DONE;
    buf_init(&text);
    if (client_input_read(word, &text, &s->note) < 0 ||
        handoff_parse(buf_span(&text), false, &h, &s->note) < 0)
        status = client_complain(CLIENT_USAGE, "%s", s->note.text);
    else
        handoff_write_members(&h, &s->writer);
    buf_done(&text);
    return status;
}

static int outcome_show(struct client_session *s)
{
    static const char *const texts[] = {"id", "state", "run_at", "lease_until"};
    if (s->json)
        return client_print_json(s);
    for (size_t i = 0; i < CLIENT_COUNT(texts); i++) {
        struct span text = client_answer_text(client_answer(s), texts[i], &s->arena);
        if (text.len == 0)
            continue;
        if (i > 0)
            fputs("  ", stdout);
        client_print_text(stdout, text, CLIENT_TEXT_WHOLE);
    }
    fputs(client_answer_true(client_answer(s), "repeat") ? "  (repeated)\n" : "\n", stdout);
    return CLIENT_DONE;
}

static bool is_ack(const char *verb)
{
    return strcmp(verb, "/ack") == 0;
}

static int lease_ask(struct client_session *s, const char *verb, const struct client_field *fields,
                     size_t count)
{
    client_body_begin(s);
    json_write_key(&s->writer, "token");
    json_write_text(&s->writer, span_text(s->args->words[1]));
    int status = s->args->word_count > 2
                     ? client_body_json(s, "result", s->args->words[2], "the result", "")
                     : CLIENT_DONE;
    const char *handoff = is_ack(verb) ? arguments_text(s->args, "handoff", NULL) : NULL;
    if (status == CLIENT_DONE && handoff)
        status = handoff_write(s, handoff);
    if (status == CLIENT_DONE)
        status = client_body_fields(s, fields, count);
    if (status == CLIENT_DONE)
        status = client_body_end(s);
    if (status != CLIENT_DONE)
        return status;
    client_path_add(&s->path, "/v1/jobs/");
    client_path_encode(&s->path, s->args->words[0]);
    client_path_add(&s->path, verb);
    status = client_ask(s, "POST");
    return status == CLIENT_DONE ? outcome_show(s) : status;
}

static int ack(struct client_session *s)
{
    return lease_ask(s, "/ack", NULL, 0);
}

static int fail(struct client_session *s)
{
    return lease_ask(s, "/fail", fail_fields, CLIENT_COUNT(fail_fields));
}

static int extend(struct client_session *s)
{
    return lease_ask(s, "/extend", extend_fields, CLIENT_COUNT(extend_fields));
}

static int release(struct client_session *s)
{
    return lease_ask(s, "/release", release_fields, CLIENT_COUNT(release_fields));
}

int client_claim(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, claim);
}

int client_ack(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, ack);
}

int client_fail(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, fail);
}

int client_extend(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, extend);
}

int client_release(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, release);
}
