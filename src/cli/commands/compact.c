/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast compact: returns the space of removed jobs to the file system. */
#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/session.h"
#include "cli/client/terminal/interrupt.h"
#include "cli/client/watch.h"
#include "cli/progress.h"

#define WAIT_MS (INT64_C(24) * 3600 * 1000)

struct compact {
    struct progress bar;
    struct client_watch watch;
    int64_t most; /* the largest number of pages left so far */
    bool interrupted;
};

static bool stop_cb(void *ctx)
{
    struct compact *c = ctx;
    c->interrupted = c->interrupted || client_interrupt_pending();
    if (!c->interrupted && client_watch_due(&c->watch)) {
        int64_t left = client_watch_int(&c->watch, "store.compact_pages_left");
        c->most = left > c->most ? left : c->most;
        progress_show(&c->bar, (uint64_t)(c->most - left), (uint64_t)c->most, false);
    }
    return c->interrupted;
}

static int compact(struct client_session *s)
{
    struct compact c = {.most = 0};
    client_interrupt_hold();
    progress_begin(&c.bar, "compacting");
    client_watch_open(&c.watch, s, c.bar.terminal);
    client_path_add(&s->path, "/v1/compact");
    int status = client_ask_with(
        s,
        (struct client_request){.method = "POST", .wait_ms = WAIT_MS, .stop = stop_cb, .ctx = &c});
    client_watch_close(&c.watch);
    progress_end(&c.bar);
    if (c.interrupted)
        return client_complain(CLIENT_REFUSED,
                               "interrupted; the space that was freed so far stays free");
    if (status != CLIENT_DONE)
        return status;
    if (s->json)
        return client_print_json(s);
    double before = (double)client_answer_int(client_answer(s), "bytes_before", 0);
    double after = (double)client_answer_int(client_answer(s), "bytes_after", 0);
    printf("%.1f MiB before, %.1f MiB now\n", before / (1 << 20), after / (1 << 20));
    return CLIENT_DONE;
}

int client_compact(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, compact);
}
