/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of all client commands: finds the server, sends the request, prints a refusal,
 * and turns outcomes into an exit status (enum client_status). */
#pragma once

#include "base/containers/arena.h"
#include "cli/client/client.h"
#include "cli/client/http/http.h"
#include "cli/client/request.h"
#include "cli/client/terminal/table.h"

struct client_session {
    const struct command *cmd;
    const struct arguments *args;
    struct client *client;
    struct client_path path; /* of the next request; client_ask empties it */
    struct buf body;         /* likewise */
    struct json_writer writer;
    struct client_reply reply; /* of the last request */
    struct arena arena;
    struct err_note note;
    bool json; /* --json was given */
};

typedef int (*client_body_fn)(struct client_session *s);

/* Opens a session, runs fn in it, and ends it. Returns fn's exit status, or that of a server
 * address that is wrong. */
int client_run(const struct command *cmd, const struct arguments *args, client_body_fn fn);

/* Sends s->path and s->body; CLIENT_DONE if the status is 2xx. Otherwise the error has been
 * printed on standard error (and with --json the server's problem). An answer that should be
 * JSON and is not counts as unreachable. */
int client_ask(struct client_session *s, const char *method);
/* The same with more options of the request; path and body are filled in. */
int client_ask_with(struct client_session *s, struct client_request request);
/* The exit status for the status of s->reply; prints the error if it is not 2xx. */
int client_outcome(struct client_session *s);
/* For options that select: CLIENT_USAGE, with a message, if one was given without a value. An
 * empty variable of a script must not select everything. */
int client_filters_check(const struct arguments *args, const char *const *names, size_t count);
/* Begins s->body as a JSON object; client_body_end closes it. Returns CLIENT_DONE or, if the
 * value of an option is invalid, CLIENT_USAGE after a message. */
void client_body_begin(struct client_session *s);
int client_body_fields(struct client_session *s, const struct client_field *fields, size_t count);
int client_body_end(struct client_session *s);
/* Writes a member whose value is JSON that the word names (client_input_read). CLIENT_DONE, or a
 * complaint: "SUBJECT is not JSON (…)HINT". */
int client_body_json(struct client_session *s, const char *member, const char *word,
                     const char *subject, const char *hint);
/* client_body_end, and if that succeeded, client_ask: a POST of s->body to this path. */
int client_body_post(struct client_session *s, const char *path);

/* The last answer; valid JSON after client_ask returned CLIENT_DONE. */
struct span client_answer(const struct client_session *s);
/* Prints the last answer as one line on standard output; CLIENT_DONE. */
int client_print_json(struct client_session *s);
/* The same, or without --json its members, one per line. */
int client_print_answer(struct client_session *s);
/* Prints a table and ends it; CLIENT_DONE. */
int client_print_table(struct client_table *t);
/* Prints text with all characters escaped that could control a terminal. */
void client_print_text(FILE *out, struct span text, size_t width);
/* "holdfast: sentence" on standard error; returns status. */
int client_complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
int client_no_memory(void);

/* The options every client command has. */
#define CLIENT_OPTIONS                                                                             \
    CLIENT_ENDPOINT_OPTIONS,                                                                       \
    {                                                                                              \
        "json", 'j', NULL, "print the server's JSON, one line per reply", OPTION_FLAG              \
    }

#define CLIENT_COUNT(table) (sizeof(table) / sizeof((table)[0]))
