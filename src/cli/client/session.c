/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/session.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/input.h"
#include "cli/client/terminal/show.h"
#include "cli/client/terminal/text.h"

int client_complain(int status, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fputs("holdfast: ", stderr);
    client_print_text(stderr, span_text(text), CLIENT_TEXT_WHOLE);
    fputc('\n', stderr);
    return status;
}

int client_filters_check(const struct arguments *args, const char *const *names, size_t count)
{
    char name[OPTION_NAME_MAX];
    for (size_t i = 0; i < count; i++) {
        const char *value = arguments_text(args, names[i], NULL);
        if (value && *value == '\0')
            return client_complain(CLIENT_USAGE,
                                   "--%s is empty; give a value, or leave the option out",
                                   option_name(&(struct option){.name = names[i]}, name));
    }
    return CLIENT_DONE;
}

int client_no_memory(void)
{
    fputs("holdfast: out of memory\n", stderr);
    return CLIENT_REFUSED;
}

void client_print_text(FILE *out, struct span text, size_t width)
{
    struct buf shown;
    buf_init(&shown);
    if (client_text_show(&shown, text, width) == 0 && shown.len > 0)
        fwrite(shown.data, 1, shown.len, out);
    buf_done(&shown);
}

/* ---- the session ------------------------------------------------------------------------------
 */

static int session_open(struct client_session *s)
{
    struct client_endpoint to = client_endpoint_of(s->args);
    int rc = client_open(&to, &s->client, &s->note);
    if (rc < 0)
        return client_complain(rc == -ERR_INVALID ? CLIENT_USAGE : CLIENT_REFUSED, "%s",
                               s->note.text);
    return CLIENT_DONE;
}

int client_run(const struct command *cmd, const struct arguments *args, client_body_fn fn)
{
    struct client_session s = {.cmd = cmd, .args = args, .json = arguments_has(args, "json")};
    client_path_init(&s.path);
    buf_init(&s.body);
    client_reply_init(&s.reply);
    arena_init(&s.arena);
    int status = session_open(&s);
    if (status == CLIENT_DONE)
        status = fn(&s);
    client_close(s.client);
    client_path_done(&s.path);
    buf_done(&s.body);
    client_reply_done(&s.reply);
    arena_done(&s.arena);
    return status;
}

/* ---- asking -----------------------------------------------------------------------------------
 */

struct span client_answer(const struct client_session *s)
{
    return buf_span(&s->reply.body);
}

static bool is_json(const struct client_session *s)
{
    struct span type = client_reply_header(&s->reply, "Content-Type");
    struct span kinds[] = {SPAN_LITERAL("application/json"),
                           SPAN_LITERAL("application/problem+json")};
    for (size_t i = 0; i < CLIENT_COUNT(kinds); i++) {
        if (type.len >= kinds[i].len && memcmp(type.at, kinds[i].at, kinds[i].len) == 0)
            return json_check_deep(client_answer(s), NULL, NULL) == 0;
    }
    return false;
}

/* Prints the members that the text of a problem refers to, so that no second call with --json is
 * needed. */
static void hints_print(const struct client_session *s)
{
    static const char *const members[] = {"state", "legal_moves", "allowed"};
    struct span value;
    for (size_t i = 0; !s->json && i < CLIENT_COUNT(members); i++) {
        if (client_answer_find(client_answer(s), members[i], &value))
            client_complain(0, "%s: %.*s", members[i], (int)value.len, value.at);
    }
}

/* The server refused: prints its message, or else the status. */
static int refused(struct client_session *s)
{
    int status = s->reply.status >= 500 ? CLIENT_UNREACHABLE : CLIENT_REFUSED;
    struct span detail = {NULL, 0};
    if (is_json(s)) {
        if (s->json)
            (void)client_print_json(s);
        detail = client_answer_text(client_answer(s), "detail", &s->arena);
        if (detail.len == 0)
            detail = client_answer_text(client_answer(s), "title", &s->arena);
    }
    if (detail.len > 0) {
        client_complain(status, "%.*s", (int)detail.len, detail.at);
        hints_print(s);
        return status;
    }
    if (s->reply.status >= 300 && s->reply.status < 400)
        return client_complain(status,
                               "the server at %s redirects (status %ld), which is not"
                               " followed; give the target address with --server",
                               client_server(s->client), s->reply.status);
    return client_complain(status, "the server at %s returned status %ld without an explanation",
                           client_server(s->client), s->reply.status);
}

int client_outcome(struct client_session *s)
{
    return s->reply.status < 200 || s->reply.status > 299 ? refused(s) : CLIENT_DONE;
}

static int outcome(struct client_session *s, bool wants_json)
{
    int status = client_outcome(s);
    if (status != CLIENT_DONE)
        return status;
    if (wants_json && !is_json(s))
        return client_complain(CLIENT_UNREACHABLE,
                               "the server at %s answered with something other than JSON; is it a "
                               "Holdfast server?",
                               client_server(s->client));
    return CLIENT_DONE;
}

/* Sends the request; path and body are empty afterwards. */
static int call(struct client_session *s, struct client_request *request)
{
    int rc = s->path.error;
    request->path = client_path_text(&s->path);
    request->body = buf_span(&s->body);
    if (rc == -ERR_INVALID)
        (void)!err_note_set(&s->note, rc, "a name or an id that the command needs is empty");
    else if (!request->path)
        rc = err_note_set(&s->note, -ERR_NOMEM, "out of memory");
    else
        rc = client_call(s->client, request, &s->reply, &s->note);
    client_path_done(&s->path);
    client_path_init(&s->path);
    buf_clear(&s->body);
    return rc;
}

int client_ask_with(struct client_session *s, struct client_request request)
{
    bool wants_json = !request.on_body && !request.raw;
    int rc = call(s, &request);
    if (rc == -ERR_CLOSED)
        return CLIENT_DONE;
    if (rc == -ERR_INVALID)
        return client_complain(CLIENT_USAGE, "%s", s->note.text);
    if (rc < 0)
        return client_complain(CLIENT_UNREACHABLE, "%s", s->note.text);
    return outcome(s, wants_json);
}

int client_ask(struct client_session *s, const char *method)
{
    return client_ask_with(s, (struct client_request){.method = method});
}

/* ---- bodies -----------------------------------------------------------------------------------
 */

void client_body_begin(struct client_session *s)
{
    buf_clear(&s->body);
    json_writer_init(&s->writer, &s->body);
    json_write_object(&s->writer);
}

int client_body_fields(struct client_session *s, const struct client_field *fields, size_t count)
{
    if (client_fields_write(s->args, fields, count, &s->writer, &s->note) < 0)
        return client_complain(CLIENT_USAGE, "%s", s->note.text);
    return CLIENT_DONE;
}

int client_body_end(struct client_session *s)
{
    json_write_object_end(&s->writer);
    return json_writer_finish(&s->writer) < 0 ? client_no_memory() : CLIENT_DONE;
}

int client_body_json(struct client_session *s, const char *member, const char *word,
                     const char *subject, const char *hint)
{
    struct buf value;
    const char *error = NULL;
    size_t at = 0;
    int status = CLIENT_DONE;
    buf_init(&value);
    if (client_input_read(word, &value, &s->note) < 0) {
        status = client_complain(CLIENT_USAGE, "%s", s->note.text);
    } else if (json_check(buf_span(&value), &error, &at) < 0) {
        status = client_complain(CLIENT_USAGE, "%s is not JSON (%s, at byte %zu)%s", subject, error,
                                 at, hint);
    } else {
        json_write_key(&s->writer, member);
        json_write_raw(&s->writer, buf_span(&value));
    }
    buf_done(&value);
    return status;
}

int client_body_post(struct client_session *s, const char *path)
{
    int status = client_body_end(s);
    client_path_add(&s->path, path);
    return status == CLIENT_DONE ? client_ask(s, "POST") : status;
}

/* ---- showing ----------------------------------------------------------------------------------
 */

int client_print_json(struct client_session *s)
{
    struct buf line;
    buf_init(&line);
    int rc = client_text_json(&line, client_answer(s), client_screen_of(stdout).terminal);
    if (rc == 0 && line.len > 0)
        fwrite(line.data, 1, line.len, stdout);
    fputc('\n', stdout);
    buf_done(&line);
    return rc < 0 ? client_no_memory() : CLIENT_DONE;
}

int client_print_answer(struct client_session *s)
{
    if (s->json)
        return client_print_json(s);
    client_show_object(stdout, client_answer(s), &s->arena);
    return CLIENT_DONE;
}

int client_print_table(struct client_table *t)
{
    struct client_screen screen = client_screen_of(stdout);
    int rc = client_table_print(t, stdout, &screen);
    client_table_done(t);
    return rc < 0 ? client_no_memory() : CLIENT_DONE;
}
