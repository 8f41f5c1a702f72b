/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast events: follows the stream of events and resumes it after a lost connection. */
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/http/sse.h"
#include "cli/client/session.h"
#include "cli/client/terminal/interrupt.h"
#include "cli/client/terminal/text.h"

#define RETRY_MS 1000
#define RETRIES 30 /* in a row */

struct follow {
    struct client_session *s;
    struct client_sse sse;
    bool came;    /* something was received over this connection */
    bool printed; /* the output must be flushed */
    int error;
};

static void field_print(struct follow *f, struct span data, const char *name)
{
    struct span text = client_answer_text(data, name, &f->s->arena);
    if (text.len == 0)
        return;
    fputs("  ", stdout);
    client_print_text(stdout, text, 120);
}

static int event_cb(void *ctx, const struct client_sse_event *event)
{
    static const char *const fields[] = {"queue", "job.id", "job.state", "job.reason"};
    struct follow *f = ctx;
    if (json_check(event->data, NULL, NULL) < 0)
        return 0; /* an event of a newer server */
    if (span_equal(event->event, SPAN_LITERAL("gap")))
        client_complain(CLIENT_DONE, "events were missed here");
    f->printed = true;
    if (f->s->json) {
        buf_clear(&f->s->reply.body);
        if ((f->error = buf_append_span(&f->s->reply.body, event->data)) < 0)
            return f->error;
        return client_print_json(f->s);
    }
    struct span at = client_answer_text(event->data, "at", &f->s->arena);
    client_print_text(stdout, at.len > 0 ? at : SPAN_LITERAL("-"), 40);
    fputs("  ", stdout);
    client_print_text(stdout, event->event, 40);
    for (size_t i = 0; i < CLIENT_COUNT(fields); i++)
        field_print(f, event->data, fields[i]);
    fputc('\n', stdout);
    arena_reset(&f->s->arena);
    return 0;
}

static int body_cb(void *ctx, struct span piece)
{
    struct follow *f = ctx;
    f->came = true;
    f->error = client_sse_feed(&f->sse, piece);
    if (f->printed && fflush(stdout) != 0)
        f->error = -ERR_IO;
    f->printed = false;
    return f->error;
}

static bool stop_cb(void *ctx)
{
    (void)ctx;
    return client_interrupt_pending();
}

/* -ERR_IO: the connection ended; -ERR_CLOSED: this command ended it; 0: the answer is not a
 * stream. */
static int connection(struct follow *f)
{
    struct client_session *s = f->s;
    char last[128] = "";
    struct span id = buf_span(&f->sse.id);
    client_path_done(&s->path);
    client_path_init(&s->path);
    client_path_add(&s->path, "/v1/events");
    client_path_query(&s->path, "queue", arguments_text(s->args, "queue", NULL));
    client_path_query(&s->path, "events", arguments_text(s->args, "events", NULL));
    if (id.len > 0)
        snprintf(last, sizeof last, "Last-Event-ID: %.*s", (int)id.len, id.at);
    else
        client_path_query(&s->path, "after", arguments_text(s->args, "after", NULL));
    struct client_request request = {
        .method = "GET",
        .path = client_path_text(&s->path),
        .headers = {"Accept: text/event-stream", *last ? last : NULL},
        .on_body = body_cb,
        .stop = stop_cb,
        .ctx = f,
    };
    if (!request.path)
        return err_note_set(&s->note, -ERR_NOMEM, "out of memory");
    int rc = client_call(s->client, &request, &s->reply, &s->note);
    if (rc == 0 && s->reply.status >= 200 && s->reply.status < 300)
        return err_note_set(&s->note, -ERR_IO, "the server at %.200s ended the stream",
                            client_server(s->client));
    return rc;
}

/* The exit status of a final error; -1 if a retry may help. */
static int connection_status(struct follow *f, int rc)
{
    if (client_interrupt_pending())
        return CLIENT_DONE;
    if (rc == 0)
        return f->s->reply.status >= 500 ? -1 : client_outcome(f->s);
    if (rc == -ERR_IO)
        return -1;
    if (f->error == -ERR_TOO_BIG)
        return client_complain(CLIENT_UNREACHABLE, "an event is longer than %zu MiB",
                               CLIENT_SSE_EVENT_MAX >> 20);
    return rc == -ERR_NOMEM || f->error == -ERR_NOMEM ? client_no_memory() : CLIENT_REFUSED;
}

static int follow(struct follow *f)
{
    bool ever = false;
    for (int tries = 0;; tries++) {
        f->came = false;
        int rc = connection(f);
        int status = connection_status(f, rc);
        if (status >= 0)
            return status;
        ever |= f->came;
        tries = f->came ? 0 : tries;
        if (!ever || tries >= RETRIES)
            return rc == 0 ? client_outcome(f->s)
                           : client_complain(CLIENT_UNREACHABLE, "%s", f->s->note.text);
        if (f->came)
            client_complain(CLIENT_DONE, "the connection was lost; trying again");
        client_sse_restart(&f->sse);
        if (client_interrupt_wait(RETRY_MS))
            return CLIENT_DONE;
    }
}

static int events(struct client_session *s)
{
    static const char *const filters[] = {"queue", "events"};
    struct follow f = {.s = s};
    int status = client_filters_check(s->args, filters, CLIENT_COUNT(filters));
    if (status != CLIENT_DONE)
        return status;
    client_interrupt_hold();
    client_sse_init(&f.sse, event_cb, &f);
    status = follow(&f);
    client_sse_done(&f.sse);
    return status;
}

int client_events(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, events);
}
