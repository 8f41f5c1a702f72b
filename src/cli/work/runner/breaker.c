/* SPDX-License-Identifier: Apache-2.0 */
/* The circuit breaker of --breaker. The runner consults it before a claim, so that no job is
 * claimed while the target is known to be unavailable, and reports the result of each job. */
#include <string.h>

#include "cli/client/answer.h"
#include "cli/work/runner/runner_impl.h"

#define ASK_AGAIN_MS 1000

static void allow_cb(void *ctx, const struct call_reply *reply)
{
    struct runner *r = ctx;
    r->allow = NULL;
    if (runner_unanswered(reply)) {
        claimer_pause(r, ASK_AGAIN_MS);
    } else if (reply->status != 200) {
        work_log_line(&r->log, LOG_ERROR, "breaker_refused", LOG_TEXT("breaker", r->plan->breaker),
                      LOG_INT("status", reply->status), LOG_SPAN("reason", runner_why(r, reply)));
        runner_finish(r, WORK_GAVE_UP);
    } else if (client_answer_true(reply->body, "allowed")) {
        struct span state = client_answer_text(reply->body, "state", &r->scratch);
        r->permit = true;
        r->probe = span_equal(state, SPAN_LITERAL("half_open"));
    } else {
        int64_t ms = client_answer_int(reply->body, "retry_after_ms", ASK_AGAIN_MS);
        log_event(&r->log.log, LOG_INFO, "breaker_open", LOG_TEXT("breaker", r->plan->breaker),
                  LOG_INT("retry_after_ms", ms));
        claimer_pause(r, ms > 0 ? (uint64_t)ms : ASK_AGAIN_MS);
    }
    runner_poke(r);
}

/* Names the queues, so that their jobs can say that an open breaker keeps them back. */
static int queues_write(const struct runner *r, struct buf *body)
{
    struct json_writer w;
    json_writer_init(&w, body);
    json_write_object(&w);
    json_write_key(&w, "queues");
    json_write_array(&w);
    for (size_t i = 0; i < r->plan->queue_count; i++)
        json_write_text(&w, span_text(r->plan->queues[i]));
    json_write_array_end(&w);
    json_write_object_end(&w);
    return json_writer_finish(&w);
}

static void allow_ask(struct runner *r)
{
    struct buf body;
    buf_init(&body);
    const char *path = runner_path(r, "/v1/breakers/", r->plan->breaker, "/allow");
    if (queues_write(r, &body) < 0)
        runner_no_memory(r);
    else if (path)
        r->allow = runner_ask(r, &(struct runner_request){
                                     .path = path,
                                     .body = buf_span(&body),
                                     .done = allow_cb,
                                     .ctx = r,
                                 });
    buf_done(&body);
}

bool breaker_allows(struct runner *r)
{
    if (!r->plan->breaker || r->permit)
        return true;
    if (!r->allow)
        allow_ask(r);
    return false;
}

static void report_cb(void *ctx, const struct call_reply *reply)
{
    struct runner *r = ctx;
    r->asides--;
    if (reply->status < 200 || reply->status > 299)
        log_event(&r->log.log, LOG_WARN, "breaker_report_failed", LOG_INT("status", reply->status),
                  LOG_SPAN("reason", runner_why(r, reply)));
    runner_poke(r);
}

/* A target that rejects a job works; a problem of the worker says nothing about the target. */
void breaker_report(struct runner *r, const struct task *t)
{
    struct buf body;
    struct json_writer w;
    bool stopped = t->stop != TASK_GOES_ON && t->stop != TASK_TIMED_OUT;
    if (!r->plan->breaker || stopped || t->verdict.verb == WORK_PROBLEM || !t->started)
        return;
    bool ok = t->verdict.verb == WORK_ACK || t->verdict.verb == WORK_DEAD;
    buf_init(&body);
    json_writer_init(&w, &body);
    json_write_object(&w);
    json_write_key(&w, "ok");
    json_write_bool(&w, ok);
    if (t->rate_limited) {
        json_write_key(&w, "rate_limited");
        json_write_bool(&w, true);
    }
    if (t->rate_limited && t->retry_after_ms > 0) {
        json_write_key(&w, "retry_after_ms");
        json_write_int(&w, t->retry_after_ms);
    }
    json_write_object_end(&w);
    const char *path = runner_path(r, "/v1/breakers/", r->plan->breaker, "/report");
    if (json_writer_finish(&w) < 0)
        runner_no_memory(r);
    else if (path &&
             runner_ask(r, &(struct runner_request){
                               .path = path, .body = buf_span(&body), .done = report_cb, .ctx = r}))
        r->asides++;
    buf_done(&body);
}
