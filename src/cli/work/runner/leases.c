/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats and the renewal of leases.
 *
 * A heartbeat registers the worker with its figures. It contains all leases and renews them when
 * the first of them is due, a third of a lease after its last renewal; the reply lists jobs that
 * are cancelled or lost, by their lease tokens: the job may have been claimed again in the
 * meantime. If the server does not support heartbeats, each task extends its own
 * lease (report.c). A lease that could not be renewed in time counts as lost when it ends. */
#include <stdio.h>
#include <unistd.h>

#include "cli/client/answer.h"
#include "cli/work/runner/runner_impl.h"
#include "server/version.h"

#define IDLE_EVERY_MS 10000
#define RETRY_MS 500
#define CALL_MS_MIN 1000 /* a lease of a few seconds needs a server that answers */
#define WAIT_MS_MAX 1000
#define HOST_BYTES 256
#define LEAVE_TIMEOUT_MS 2000

void lease_renewed(struct task *t, uint64_t asked_at)
{
    t->lease_end = asked_at + (uint64_t)t->job.lease_ms;
    t->renew_at = asked_at + (uint64_t)t->job.lease_ms / 3;
}

/* How long a heartbeat waits at the server. A job that is claimed in the meantime is in the next
 * heartbeat, so the wait must end long before a lease does. */
static uint64_t wait_ms(const struct runner *r)
{
    uint64_t ms = (uint64_t)r->plan->lease_ms / 4;
    return ms < WAIT_MS_MAX ? ms : WAIT_MS_MAX;
}

int64_t lease_call_ms(const struct runner *r)
{
    int64_t ms = r->plan->lease_ms / 4;
    if (ms < CALL_MS_MIN)
        return CALL_MS_MIN;
    return ms < CALL_TIMEOUT_MS ? ms : CALL_TIMEOUT_MS;
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
        t->in_heartbeat = !t->ended && t->stop != TASK_LOST;
        if (!t->in_heartbeat)
            continue;
        /* Also one that becomes due while the heartbeat waits. */
        r->heartbeat_extends = r->heartbeat_extends || runner_now(r) + wait_ms(r) >= t->renew_at;
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
    r->heartbeat_extends = false;
    leases_write(r, &w);
    if (r->heartbeat_extends)
        number_write(&w, "extend_ms", (uint64_t)r->plan->lease_ms);
    if (r->task_count > 0 && r->heartbeats)
        number_write(&w, "wait_ms", wait_ms(r));
    if (r->left) {
        json_write_key(&w, "stopping");
        json_write_bool(&w, true);
    }
    json_write_object_end(&w);
    return json_writer_finish(&w);
}

/* ---- the reply ---- */

static uint64_t retry_ms(const struct runner *r)
{
    uint64_t ms = (uint64_t)r->plan->lease_ms / 10;
    return ms < RETRY_MS ? ms : RETRY_MS;
}

static void stop_each(struct runner *r, struct span body, const char *member, enum task_stop why)
{
    struct client_items items;
    struct span item;
    client_items_of(&items, body, member);
    while (client_items_next(&items, &item)) {
        struct span token =
            item.len >= 2 && item.at[0] == '"' ? span_of(item.at + 1, item.len - 2) : item;
        struct task *t = task_find(r, token);
        bool known = t && (t->stop == TASK_LOST ||
                           (why != TASK_LOST && (t->stop != TASK_GOES_ON || task_decided(t))));
        if (!t || t->ended || known)
            continue;
        t->in_heartbeat = t->in_heartbeat && why != TASK_LOST;
        work_log_line(&r->log, LOG_WARN, why == TASK_LOST ? "lease_lost" : "cancelled",
                      LOG_TEXT("id", t->job.id));
        task_stop(t, why, r->plan->kill_after_ms);
    }
}

static void heartbeat_taken(struct runner *r, struct span body)
{
    stop_each(r, body, "lost_tokens", TASK_LOST);
    stop_each(r, body, "cancel_tokens", TASK_CANCELLED);
    for (struct link *at = r->tasks.next; r->heartbeat_extends && at != &r->tasks; at = at->next) {
        struct task *t = LINK_OWNER(at, struct task, link);
        if (t->in_heartbeat)
            lease_renewed(t, r->heartbeat_sent);
    }
}

static void heartbeat_cb(void *ctx, const struct call_reply *reply)
{
    struct runner *r = ctx;
    uint64_t now = runner_now(r);
    r->heartbeat = NULL;
    r->heartbeat_failed = runner_unanswered(reply);
    r->heartbeat_at = now + retry_ms(r);
    if (reply->status == 200 && json_check_deep(reply->body, NULL, NULL) == 0) {
        uint64_t next = r->heartbeat_sent + wait_ms(r);
        r->heartbeats = true;
        r->heartbeat_at = r->task_count == 0 ? now + IDLE_EVERY_MS : next;
        heartbeat_taken(r, reply->body);
    } else if (!runner_unanswered(reply)) {
        r->no_heartbeats = true;
        r->heartbeats = false;
        if (!runner_missing(r, reply))
            work_log_line(&r->log, LOG_WARN, "heartbeat_refused", LOG_INT("status", reply->status),
                          LOG_SPAN("reason", runner_why(r, reply)));
    }
    runner_poke(r);
}

/* ---- when ---- */

void leases_heartbeat(struct runner *r)
{
    struct buf body;
    if (r->heartbeat || r->no_heartbeats || r->left)
        return;
    const char *path = runner_path(r, "/v1/workers/", r->plan->name, "/heartbeat");
    buf_init(&body);
    if (body_write(r, &body) < 0)
        runner_no_memory(r);
    else if (path)
        r->heartbeat = runner_ask(
            r, &(struct runner_request){.path = path,
                                        .body = buf_span(&body),
                                        .timeout_ms = (int64_t)wait_ms(r) + lease_call_ms(r),
                                        .fresh = r->heartbeat_failed,
                                        .done = heartbeat_cb,
                                        .ctx = r});
    r->heartbeat_sent = runner_now(r);
    buf_done(&body);
}

static void left_cb(void *ctx, const struct call_reply *reply)
{
    struct runner *r = ctx;
    (void)reply; /* otherwise the worker is shown as silent after a while */
    r->asides--;
    runner_poke(r);
}

void leases_leave(struct runner *r)
{
    struct buf body;
    if (r->heartbeat)
        call_cancel(r->heartbeat);
    r->heartbeat = NULL;
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
    /* The first task of an idle worker makes its next heartbeat due. */
    if (r->task_count > 0 && r->heartbeat_at > r->heartbeat_sent + wait_ms(r) && r->heartbeats)
        r->heartbeat_at = r->heartbeat_sent + wait_ms(r);
    if (runner_now(r) >= r->heartbeat_at)
        leases_heartbeat(r);
}
