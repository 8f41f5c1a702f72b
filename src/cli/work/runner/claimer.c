/* SPDX-License-Identifier: Apache-2.0 */
/* When to claim, and how many jobs.
 *
 * One claim is under way at a time, for as many jobs as there are free slots, so every claimed
 * job is started at once. The claim waits at the server for up to --poll, also if the runner
 * stops in the meantime: its jobs are then released. Aborting the claim could lose a job that
 * the server had already leased. */
#include <string.h>

#include "base/mem.h"
#include "cli/client/answer.h"
#include "cli/work/runner/runner_impl.h"

#define BACKOFF_MS_MIN UINT64_C(200)
#define BACKOFF_MS_MAX UINT64_C(5000)
#define RETRY_AFTER_MS_MAX UINT64_C(60000) /* a server may be back earlier than it said */
#define RUNNING_WAIT_MS 200

void claimer_open(struct runner *r)
{
    if (r->plan->rate.count == 0)
        return;
    r->starts = mem_array(r->plan->rate.count, sizeof *r->starts);
    if (!r->starts)
        runner_no_memory(r);
}

/* ---- how many ---- */

/* The number of jobs that --rate allows to start now; if none, the time until the next one. */
static size_t rate_room(const struct runner *r, size_t wanted, uint64_t *ret_wait_ms)
{
    const struct rate_limit *rate = &r->plan->rate;
    uint64_t now = runner_now(r);
    size_t room = 0;
    if (rate->count == 0)
        return wanted;
    for (; room < wanted && room < rate->count; room++) {
        size_t next = r->start_count + room; /* index of the next job, counted over all jobs */
        if (next < rate->count)
            continue;
        uint64_t free_at = r->starts[next % rate->count] + rate->window_ms;
        if (free_at <= now)
            continue;
        *ret_wait_ms = free_at - now;
        break;
    }
    return room;
}

static void rate_count(struct runner *r)
{
    if (r->starts)
        r->starts[r->start_count % r->plan->rate.count] = runner_now(r);
    r->start_count++;
}

static bool claims_over(const struct runner *r)
{
    return r->finished || r->closing || r->stop >= STOP_FINISH;
}

/* A runner that ends when the queues are empty does not wait, except briefly for jobs that its
 * own jobs may enqueue. */
static int64_t wait_of(const struct runner *r)
{
    bool to_the_end = r->plan->until_empty || r->stop == STOP_DRAIN;
    int64_t wait_ms = !to_the_end ? r->plan->poll_ms : r->task_count > 0 ? RUNNING_WAIT_MS : 0;
    return wait_ms < r->plan->poll_ms ? wait_ms : r->plan->poll_ms;
}

/* ---- the reply ---- */

static void failure_back_off(struct runner *r, const struct call_reply *reply)
{
    uint64_t ms = r->claim_failures < 5 ? BACKOFF_MS_MIN << r->claim_failures : BACKOFF_MS_MAX;
    r->claim_failures++;
    if (reply->retry_after_ms > (int64_t)ms)
        ms = (uint64_t)reply->retry_after_ms;
    if (ms > RETRY_AFTER_MS_MAX)
        ms = RETRY_AFTER_MS_MAX;
    log_event(&r->log.log, LOG_WARN, "claim_failed", LOG_TEXT("server", r->plan->to.server),
              LOG_INT("status", reply->status), LOG_SPAN("reason", runner_why(r, reply)),
              LOG_INT("retry_ms", ms));
    claimer_pause(r, ms);
}

static size_t jobs_take(struct runner *r, struct span body)
{
    struct client_items items;
    struct span job;
    size_t count = 0;
    bool release = claims_over(r);
    client_items_of(&items, body, "jobs");
    for (; client_items_next(&items, &job); count++) {
        rate_count(r);
        task_new(r, job, release || (r->plan->once && count > 0));
    }
    return count;
}

static void claimed(struct runner *r, struct span body)
{
    if (json_check_deep(body, NULL, NULL) < 0) {
        work_log_line(&r->log, LOG_ERROR, "claim_not_json", LOG_TEXT("server", r->plan->to.server));
        runner_finish(r, WORK_UNREACHABLE);
        return;
    }
    size_t count = jobs_take(r, body);
    if (r->claim_failures > 0)
        work_log_line(&r->log, LOG_INFO, "server_back", LOG_TEXT("server", r->plan->to.server));
    r->claim_failures = 0;
    r->claimed += count;
    r->permit = count == 0 && r->permit && r->probe; /* a probe is kept for a job */
    if (count > 0)
        return;
    bool last = !r->claim_waited && r->task_count == 0;
    if (r->plan->once && r->claimed == 0 && !r->stop)
        runner_finish(r, WORK_NOTHING);
    else if (last && r->plan->until_empty && runner_now(r) >= r->problem_back)
        queue_check_start(r);
    else if (last && r->stop)
        runner_finish(r, WORK_DONE);
    else if (!r->claim_waited)
        claimer_pause(r, BACKOFF_MS_MIN); /* --poll 0 */
}

static void claim_cb(void *ctx, const struct call_reply *reply)
{
    struct runner *r = ctx;
    bool first = !r->reached;
    r->claim = NULL;
    r->reached = r->reached || reply->status > 0;
    if (reply->status == 200) {
        claimed(r, reply->body);
    } else if (reply->status == 0 && first && (r->plan->once || r->plan->until_empty)) {
        work_log_line(&r->log, LOG_ERROR, "no_server", LOG_TEXT("server", r->plan->to.server),
                      LOG_SPAN("reason", runner_why(r, reply)));
        runner_finish(r, WORK_UNREACHABLE);
    } else if (runner_unanswered(reply)) {
        failure_back_off(r, reply);
    } else {
        work_log_line(&r->log, LOG_ERROR, "claim_refused", LOG_INT("status", reply->status),
                      LOG_SPAN("reason", runner_why(r, reply)));
        runner_finish(r, WORK_GAVE_UP);
    }
    runner_poke(r);
}

/* ---- the claim ---- */

static int body_write(const struct runner *r, size_t count, int64_t wait_ms, struct buf *body)
{
    const struct work_plan *p = r->plan;
    struct json_writer w;
    json_writer_init(&w, body);
    json_write_object(&w);
    if (p->queue_count > 1) {
        json_write_key(&w, "queues");
        json_write_array(&w);
        for (size_t i = 0; i < p->queue_count; i++)
            json_write_text(&w, span_text(p->queues[i]));
        json_write_array_end(&w);
    }
    json_write_key(&w, "count");
    json_write_uint(&w, count);
    json_write_key(&w, "wait_ms");
    json_write_int(&w, wait_ms);
    json_write_key(&w, "lease_ms");
    json_write_int(&w, p->lease_ms);
    json_write_key(&w, "worker");
    json_write_text(&w, span_text(p->name));
    json_write_object_end(&w);
    return json_writer_finish(&w);
}

static void claim_send(struct runner *r, size_t count)
{
    struct buf body;
    int64_t wait_ms = wait_of(r);
    const char *path = r->plan->queue_count > 1
                           ? "/v1/claim"
                           : runner_path(r, "/v1/queues/", r->plan->queues[0], "/claim");
    buf_init(&body);
    if (path && body_write(r, count, wait_ms, &body) == 0)
        r->claim = calls_send(r->calls, &(struct call_request){
                                            .server = r->server,
                                            .target = path,
                                            .body = buf_span(&body),
                                            .timeout_ms = wait_ms + CALL_TIMEOUT_MS,
                                            .fresh = r->claim_failures > 0,
                                            .body_max = CLAIM_BYTES_MAX,
                                            .done = claim_cb,
                                            .ctx = r,
                                        });
    r->claim_waited = wait_ms > 0;
    buf_done(&body);
    if (!r->claim)
        runner_no_memory(r);
}

static void timer_cb(uv_timer_t *timer)
{
    runner_poke(timer->data);
}

void claimer_pause(struct runner *r, uint64_t ms)
{
    uint64_t until = runner_now(r) + ms;
    if (until > r->claim_after)
        r->claim_after = until;
}

void claimer_poke(struct runner *r)
{
    uint64_t now = runner_now(r), wait_ms = 0;
    if (claims_over(r) || r->claim || r->allow || r->check.call)
        return;
    size_t room = r->plan->concurrency - r->task_count;
    if (r->plan->once)
        room = r->claimed == 0 ? 1 : 0;
    if (room == 0)
        return;
    room = rate_room(r, room, &wait_ms);
    if (room > 0)
        wait_ms = 0;
    if (r->claim_after > now + wait_ms)
        wait_ms = r->claim_after - now;
    if (wait_ms > 0) {
        uv_timer_start(&r->claim_timer, timer_cb, wait_ms, 0);
        return;
    }
    if (breaker_allows(r))
        claim_send(r, r->plan->breaker && r->probe ? 1 : room);
}
