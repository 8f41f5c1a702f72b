/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/watch.h"

#include "base/system/clock.h"
#include "cli/client/answer.h"

#define EVERY_NS UINT64_C(500000000)

void client_watch_open(struct client_watch *w, const struct client_session *s, bool wanted)
{
    struct err_note note;
    *w = (struct client_watch){.looked_ns = clock_ns()};
    client_reply_init(&w->reply);
    if (wanted && client_open(client_endpoint(s->client), &w->client, &note) != 0)
        w->client = NULL;
}

void client_watch_close(struct client_watch *w)
{
    client_close(w->client);
    client_reply_done(&w->reply);
}

bool client_watch_due(struct client_watch *w)
{
    struct err_note note;
    const struct client_request request = {.method = "GET", .path = "/v1/server"};
    uint64_t now = clock_ns();
    if (!w->client || now - w->looked_ns < EVERY_NS)
        return false;
    w->looked_ns = now;
    return client_call(w->client, &request, &w->reply, &note) == 0 && w->reply.status == 200 &&
           json_check(buf_span(&w->reply.body), NULL, NULL) == 0;
}

int64_t client_watch_int(const struct client_watch *w, const char *path)
{
    int64_t value = client_answer_int(buf_span(&w->reply.body), path, 0);
    return value > 0 ? value : 0;
}
