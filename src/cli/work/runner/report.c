/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a task to the server. A task has one call at a time, so they arrive in order:
 * output to standard error is in the job's log before the job ends. A call without a reply is
 * repeated with the same lease token, so that an outcome that did arrive is not recorded twice. */
#include <stdio.h>
#include <string.h>

#include "cli/client/answer.h"
#include "cli/work/runner/runner_impl.h"

#define EVERY_MS 1000 /* between two logs, and two reports of progress */
#define RETRY_MS_MIN 100
#define RETRY_MS_MAX 5000
#define REPORT_MS_MIN 5000
#define BACK_MS 1000 /* a server may make a job ready a little late */

/* ---- bodies ---- */

static void body_begin(const struct task *t, struct json_writer *w, struct buf *body)
{
    json_writer_init(w, body);
    json_write_object(w);
    json_write_key(w, "token");
    json_write_text(w, span_text(t->job.token));
}

static void extend_body(const struct task *t, struct json_writer *w)
{
    json_write_key(w, "lease_ms");
    json_write_int(w, t->runner->plan->lease_ms);
}

static void progress_body(const struct task *t, struct json_writer *w)
{
    if (t->text.percent >= 0) {
        json_write_key(w, "percent");
        json_write_int(w, t->text.percent);
    }
    if (t->text.message.len > 0) {
        json_write_key(w, "message");
        json_write_text(w, buf_span(&t->text.message));
    }
}

static void log_body(const struct task *t, struct json_writer *w)
{
    struct span rest = buf_span(&t->text.sent);
    json_write_key(w, "lines");
    json_write_array(w);
    while (rest.len > 0) {
        const char *end = memchr(rest.at, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.at) : rest.len;
        json_write_text(w, span_of(rest.at, len));
        rest = span_of(rest.at + len + (end != NULL), rest.len - len - (end != NULL));
    }
    json_write_array_end(w);
}

struct span task_error(const struct task *t)
{
    struct span text = buf_span(&t->error);
    if (text.len == 0)
        text = buf_span(&t->text.tail);
    if (text.len == 0)
        text = span_text(t->verdict.type);
    if (text.len > WORK_ERROR_BYTES_MAX)
        text = span_of(text.at + text.len - WORK_ERROR_BYTES_MAX, WORK_ERROR_BYTES_MAX);
    return text;
}

static void outcome_body(const struct task *t, struct json_writer *w)
{
    enum work_verb verb = t->verdict.verb;
    if (verb == WORK_ACK) {
        if (t->output_bytes > 0 && !t->plain) {
            json_write_key(w, "result");
            result_write(w, buf_span(&t->output), t->output_bytes);
        }
        handoff_write_members(&t->handoff, w);
        return;
    }
    bool stopped = t->stop == TASK_STOPPED || t->stop == TASK_CANCELLED;
    if (!stopped) { /* otherwise the job keeps the error of an earlier attempt */
        json_write_key(w, verb == WORK_FAIL || verb == WORK_DEAD ? "error" : "reason");
        json_write_text(w, task_error(t));
    }
    if (verb == WORK_DEAD) {
        json_write_key(w, "error_kind");
        json_write_text(w, SPAN_LITERAL("business"));
        json_write_key(w, "retry");
        json_write_bool(w, false);
    }
    if (t->verdict.type[0] && t->typed) {
        json_write_key(w, "error_type");
        json_write_text(w, span_text(t->verdict.type));
    }
    if ((verb == WORK_RELEASE || verb == WORK_PROBLEM) && t->delay_ms >= 0) {
        json_write_key(w, "delay_ms");
        json_write_int(w, t->delay_ms);
    }
}

static const char *outcome_path(const struct task *t)
{
    switch (t->verdict.verb) {
    case WORK_ACK:
        return "/ack";
    case WORK_FAIL:
    case WORK_DEAD:
        return "/fail";
    case WORK_RELEASE:
    case WORK_PROBLEM:
        break;
    }
    return "/release";
}

/* ---- replies ---- */

/* No reply: the tick repeats the call. Its data is sent again, unless there is newer data. */
static void call_retry(struct task *t, enum task_call what)
{
    if (what == TASK_PROGRESS)
        t->text.progress_new = true;
    if (what == TASK_LOG)
        job_text_unsent(&t->text);
    uint64_t ms = t->failures < 6 ? (uint64_t)RETRY_MS_MIN << t->failures : RETRY_MS_MAX;
    t->failures++;
    t->retry_at = runner_now(t->runner) + ms;
}

/* The lease is lost, or a cancel was requested. */
static void cancel_check(struct task *t, const struct call_reply *reply)
{
    struct runner *r = t->runner;
    bool gone = reply->status == 404 || reply->status == 409 || reply->status == 410;
    if (t->ended || t->stop == TASK_LOST)
        return;
    if (gone) {
        work_log_line(&r->log, LOG_WARN, "lease_lost", LOG_TEXT("id", t->job.id),
                      LOG_SPAN("reason", runner_why(r, reply)));
        task_stop(t, TASK_LOST, r->plan->kill_after_ms);
    } else if (t->stop == TASK_GOES_ON && !task_decided(t) && reply->status == 200 &&
               client_answer_true(reply->body, "cancel")) {
        work_log_line(&r->log, LOG_WARN, "cancelled", LOG_TEXT("id", t->job.id));
        task_stop(t, TASK_CANCELLED, r->plan->kill_after_ms);
    }
}

static void extend_cb(struct task *t, const struct call_reply *reply)
{
    if (reply->status == 200)
        lease_renewed(t, t->called_at);
    cancel_check(t, reply);
}

/* A lost lease is logged elsewhere. */
static void refusal_log(struct task *t, const struct call_reply *reply, const char *event)
{
    if (reply->status == 400 || reply->status == 413 || reply->status == 422)
        log_event(&t->runner->log.log, LOG_WARN, event, LOG_TEXT("id", t->job.id),
                  LOG_INT("status", reply->status),
                  LOG_SPAN("reason", runner_why(t->runner, reply)));
}

static void progress_cb(struct task *t, const struct call_reply *reply)
{
    if (runner_missing(t->runner, reply)) {
        t->runner->no_progress = true;
        return;
    }
    refusal_log(t, reply, "progress_refused");
    cancel_check(t, reply);
}

static void log_cb(struct task *t, const struct call_reply *reply)
{
    buf_clear(&t->text.sent);
    if (!runner_missing(t->runner, reply)) {
        refusal_log(t, reply, "log_refused");
        return;
    }
    t->runner->no_log = true;
    buf_clear(&t->text.lines);
}

/* The server refused the details of the outcome: it is sent without them. */
static bool outcome_simpler(struct task *t, const struct call_reply *reply)
{
    struct runner *r = t->runner;
    if (reply->status == 422 && t->typed && runner_code_is(r, reply, "unknown_field")) {
        t->typed = false;
        r->no_error_type = true;
        return true;
    }
    bool refused = reply->status == 400 || reply->status == 413 || reply->status == 422;
    if (!refused || t->plain || t->verdict.verb != WORK_ACK)
        return false;
    work_log_line(&r->log, LOG_WARN, "result_refused", LOG_TEXT("id", t->job.id),
                  LOG_SPAN("reason", runner_why(r, reply)));
    t->plain = true;
    return true;
}

static void outcome_cb(struct task *t, const struct call_reply *reply)
{
    struct runner *r = t->runner;
    if (reply->status >= 200 && reply->status <= 299) {
        if (t->verdict.verb == WORK_PROBLEM)
            r->problem_back = runner_now(r) + (uint64_t)t->delay_ms + BACK_MS;
        task_over(t, t->stop == TASK_CANCELLED ? "cancelled" : work_verb_name(t->verdict.verb));
    } else if (outcome_simpler(t, reply)) {
        task_next(t);
    } else {
        work_log_line(&r->log, LOG_WARN, "outcome_refused", LOG_TEXT("id", t->job.id),
                      LOG_INT("status", reply->status), LOG_SPAN("reason", runner_why(r, reply)));
        task_over(t, "lost");
    }
}

static void call_cb(void *ctx, const struct call_reply *reply)
{
    struct task *t = ctx;
    enum task_call what = t->calling;
    t->call = NULL;
    t->calling = TASK_NO_CALL;
    bool refused = what == TASK_OUTCOME && handoffs_refused(t, reply);
    if (!refused && runner_unanswered(reply)) {
        log_event(&t->runner->log.log, LOG_WARN, "report_not_answered", LOG_TEXT("id", t->job.id),
                  LOG_SPAN("reason", runner_why(t->runner, reply)));
        call_retry(t, what);
        return;
    }
    t->failures = 0;
    if (refused) {
        task_next(t);
        return;
    }
    if (what == TASK_OUTCOME) {
        outcome_cb(t, reply); /* t may have been freed */
        return;
    }
    if (what == TASK_EXTEND)
        extend_cb(t, reply);
    else if (what == TASK_PROGRESS)
        progress_cb(t, reply);
    else
        log_cb(t, reply);
    task_next(t);
}

/* ---- what is due ---- */

static enum task_call due(const struct task *t)
{
    const struct runner *r = t->runner;
    uint64_t now = runner_now(r);
    if (t->call || now < t->retry_at || t->stop == TASK_LOST)
        return TASK_NO_CALL;
    if (!t->ended && !r->heartbeats && now >= t->renew_at)
        return TASK_EXTEND;
    if (t->text.progress_new && !r->no_progress && (t->ended || now >= t->progress_at + EVERY_MS))
        return TASK_PROGRESS;
    if (t->text.lines.len > 0 && !r->no_log && (t->ended || now >= t->log_at + EVERY_MS))
        return TASK_LOG;
    return t->ended ? TASK_OUTCOME : TASK_NO_CALL;
}

static void body_fill(struct task *t, enum task_call what, struct json_writer *w)
{
    switch (what) {
    case TASK_NO_CALL:
        break;
    case TASK_EXTEND:
        extend_body(t, w);
        break;
    case TASK_PROGRESS:
        progress_body(t, w);
        t->text.progress_new = false;
        t->progress_at = runner_now(t->runner);
        break;
    case TASK_LOG:
        job_text_sending(&t->text);
        log_body(t, w);
        t->log_at = runner_now(t->runner);
        break;
    case TASK_OUTCOME:
        outcome_body(t, w);
        break;
    }
}

/* A reply that does not come must not use up the lease: the call is repeated before. */
static int64_t call_ms(const struct runner *r, enum task_call what)
{
    int64_t ms = lease_call_ms(r);
    return what == TASK_EXTEND || ms > REPORT_MS_MIN ? ms : REPORT_MS_MIN;
}

#define TRACE_LINES 2

/* A hand-off continues the trace of its job. */
static size_t trace_lines(struct task *t, const char *lines[TRACE_LINES])
{
    size_t count = 0;
    for (size_t i = 0; i < t->job.header_count && count < TRACE_LINES; i++) {
        const struct work_header *h = &t->job.headers[i];
        struct buf line;
        if (!handoff_given(&t->handoff) || !work_header_is_trace(h->name))
            continue;
        buf_init(&line);
        if (http_target_header(&line, h->name.len == 11 ? "traceparent" : "tracestate", h->value) ==
            0)
            lines[count] = arena_text(&t->runner->scratch, buf_span(&line));
        count += lines[count] != NULL;
        buf_done(&line);
    }
    return count;
}

void task_next(struct task *t)
{
    static const char *const verbs[] = {
        [TASK_EXTEND] = "/extend", [TASK_PROGRESS] = "/progress", [TASK_LOG] = "/log"};
    struct runner *r = t->runner;
    const char *lines[TRACE_LINES] = {NULL};
    struct json_writer w;
    struct buf body;
    enum task_call what = due(t);
    if (t->ended && t->stop == TASK_LOST && !t->call) {
        task_over(t, "lost");
        return;
    }
    if (what == TASK_NO_CALL)
        return;
    buf_init(&body);
    body_begin(t, &w, &body);
    body_fill(t, what, &w);
    json_write_object_end(&w);
    const char *path = runner_path(r, "/v1/jobs/", t->job.id,
                                   what == TASK_OUTCOME ? outcome_path(t) : verbs[what]);
    if (json_writer_finish(&w) < 0)
        runner_no_memory(r);
    else if (path)
        t->call =
            runner_ask(r, &(struct runner_request){
                              .path = path,
                              .body = buf_span(&body),
                              .timeout_ms = call_ms(r, what),
                              .fresh = t->failures > 0,
                              .headers = lines,
                              .header_count = what == TASK_OUTCOME ? trace_lines(t, lines) : 0,
                              .done = call_cb,
                              .ctx = t});
    if (t->call) {
        t->calling = what;
        t->called_at = runner_now(r);
    }
    buf_done(&body);
}
