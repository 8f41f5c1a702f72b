/* SPDX-License-Identifier: Apache-2.0 */
/* Leases that are renewed, and heartbeats.
 *
 * A heartbeat registers the worker with its figures. It names all leases and renews them when the
 * first of them is due, a third of a lease after it was renewed last; its reply says which jobs are
 * cancelled or lost. With a server that does not know heartbeats, each task extends its own lease
 * (report.c). A lease that could not be renewed in time counts as lost when it ends. */
#include <stdio.h>
#include <unistd.h>

#include "cli/client/answer.h"
#include "cli/work/runner_impl.h"
#include "server/version.h"

#define IDLE_EVERY_MS 10000
#define RETRY_MS 500
#define WAIT_MS_MAX 1000
#define HOST_BYTES 256
#define LEAVE_TIMEOUT_MS 2000

void lease_renewed(struct task *t, uint64_t asked_at)
{
    t->lease_end = asked_at + (uint64_t)t->job.lease_ms;
    t->renew_at = asked_at + (uint64_t)t->job.lease_ms / 3;
}

/* How long a heartbeat waits at the server. A job that is claimed meanwhile is in the next one, so
 * it must be over long before a lease ends. */
static uint64_t wait_ms(const struct runner *r)
{
    uint64_t ms = (uint64_t)r->plan->lease_ms / 4;
    return ms < WAIT_MS_MAX ? ms : WAIT_MS_MAX;
}

/* ---- the request ---- */

static void text_write(struct json_writer *w, const char *key, const char *text)
{
    json_write_key(w, key);
    json_write_text(w, span_text(text));
}

static void number_write(struct json_writer *w, const char *key, uint64_t number)
{
    json_write_key(w, key);
    json_write_uint(w, number);
}

static void leases_write(struct runner *r, struct json_writer *w)
{
    json_write_key(w, "leases");
    json_write_array(w);
    for (struct link *at = r->tasks.next; at != &r->tasks; at = at->next) {
        struct task *t = LINK_OWNER(at, struct task, link);
        t->in_beat = !t->ended && t->stop != TASK_LOST;
        if (!t->in_beat)
            continue;
        r->beat_extends = r->beat_extends || runner_now(r) >= t->renew_at;
        json_write_object(w);
        text_write(w, "id", t->job.id);
        text_write(w, "token", t->job.token);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static int body_write(struct runner *r, struct buf *body)
{
    char host[HOST_BYTES] = "";
    struct json_writer w;
    (void)gethostname(host, sizeof host - 1);
    json_writer_init(&w, body);
    json_write_object(&w);
    text_write(&w, "host", host);
    number_write(&w, "pid", (uint64_t)getpid());
    text_write(&w, "version", version_number());
    number_write(&w, "done", r->done);
    number_write(&w, "failed", r->failed);
    r->beat_extends = false;
    leases_write(r, &w);
    if (r->beat_extends)
        number_write(&w, "extend_ms", (uint64_t)r->plan->lease_ms);
    if (r->task_count > 0 && r->beats)
        number_write(&w, "wait_ms", wait_ms(r));
    if (r->left) {
        json_write_key(&w, "stopping");
        json_write_bool(&w, true);
    }
    json_write_object_end(&w);
    return json_writer_finish(&w);
}

/* ---- the reply ---- */

static void stop_each(struct runner *r, struct span body, const char *member, enum task_stop why)
{
    struct client_items items;
    struct span item;
    client_items_of(&items, body, member);
    while (client_items_next(&items, &item)) {
        struct span id =
            item.len >= 2 && item.at[0] == '"' ? span_of(item.at + 1, item.len - 2) : item;
        struct task *t = task_find(r, id);
        bool known = t && (t->stop == TASK_LOST || (t->stop != TASK_GOES_ON && why != TASK_LOST));
        if (!t || t->ended || known)
            continue;
        t->in_beat = t->in_beat && why != TASK_LOST;
        work_log_line(&r->log, LOG_WARN, why == TASK_LOST ? "lease_lost" : "cancelled",
                      LOG_TEXT("id", t->job.id));
        task_stop(t, why, r->plan->kill_after_ms);
    }
}

static void beat_taken(struct runner *r, struct span body)
{
    stop_each(r, body, "lost", TASK_LOST);
    stop_each(r, body, "cancel", TASK_CANCELLED);
    for (struct link *at = r->tasks.next; r->beat_extends && at != &r->tasks; at = at->next) {
        struct task *t = LINK_OWNER(at, struct task, link);
        if (t->in_beat)
            lease_renewed(t, r->beat_sent);
    }
}

static void beat_cb(void *ctx, const struct call_reply *reply)
{
    struct runner *r = ctx;
    uint64_t now = runner_now(r);
    r->beat = NULL;
    r->beat_at = now + RETRY_MS;
    if (reply->status == 200 && json_check_deep(reply->body, NULL, NULL) == 0) {
        uint64_t next = r->beat_sent + wait_ms(r);
        r->beats = true;
        r->beat_at = r->task_count == 0 ? now + IDLE_EVERY_MS : next;
        beat_taken(r, reply->body);
    } else if (!runner_unanswered(reply)) {
        r->no_beats = true;
        r->beats = false;
        if (!runner_missing(r, reply))
            work_log_line(&r->log, LOG_WARN, "heartbeat_refused", LOG_INT("status", reply->status),
                          LOG_SPAN("reason", runner_why(r, reply)));
    }
    runner_poke(r);
}

/* ---- when ---- */

void leases_beat(struct runner *r)
{
    struct buf body;
    if (r->beat || r->no_beats || r->left)
        return;
    const char *path = runner_path(r, "/v1/workers/", r->plan->name, "/heartbeat");
    buf_init(&body);
    if (body_write(r, &body) < 0)
        runner_no_memory(r);
    else if (path)
        r->beat = runner_ask(r, path, buf_span(&body), beat_cb, r);
    r->beat_sent = runner_now(r);
    buf_done(&body);
}

static void left_cb(void *ctx, const struct call_reply *reply)
{
    struct runner *r = ctx;
    (void)reply; /* without it the worker is shown as silent after a while */
    r->asides--;
    runner_poke(r);
}

void leases_leave(struct runner *r)
{
    struct buf body;
    if (r->beat)
        call_cancel(r->beat);
    r->beat = NULL;
    r->left = true;
    const char *path = runner_path(r, "/v1/workers/", r->plan->name, "/heartbeat");
    buf_init(&body);
    if (path && body_write(r, &body) == 0 &&
        calls_send(r->calls, &(struct call_request){.server = r->server,
                                                    .target = path,
                                                    .body = buf_span(&body),
                                                    .timeout_ms = LEAVE_TIMEOUT_MS,
                                                    .body_max = REPLY_BYTES_MAX,
                                                    .done = left_cb,
                                                    .ctx = r}))
        r->asides++;
    buf_done(&body);
}

void leases_tick(struct runner *r)
{
    /* The first task makes the idle worker's next heartbeat due. */
    if (r->task_count > 0 && r->beat_at > r->beat_sent + wait_ms(r) && r->beats)
        r->beat_at = r->beat_sent + wait_ms(r);
    if (runner_now(r) >= r->beat_at)
        leases_beat(r);
}
