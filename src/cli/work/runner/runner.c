/* SPDX-License-Identifier: Apache-2.0 */
/* Start, signals, the stop modes and the end of the runner. */
#include "cli/work/runner/runner.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/mem.h"
#include "cli/client/answer.h"
#include "cli/client/request.h"
#include "cli/work/runner/runner_impl.h"
#include "server/version.h"

#define TICK_MS 100
#define BAR_MS 500
/* If the runner is stopped at once, it must end before it is killed: with the default
 * --stop-timeout of 25 s, before the 30 s of Kubernetes. */
#define STOP_KILL_MS 2000
#define GIVE_UP_MS 2000 /* after SIGKILL, for the reports */

/* ---- what the other files need ---- */

void runner_no_memory(struct runner *r)
{
    work_log_line(&r->log, LOG_ERROR, "out_of_memory");
    runner_finish(r, WORK_GAVE_UP);
}

struct call *runner_ask(struct runner *r, const struct runner_request *q)
{
    struct call *c =
        calls_send(r->calls, &(struct call_request){
                                 .server = r->server,
                                 .method = q->method,
                                 .target = q->path,
                                 .body = q->body,
                                 .timeout_ms = q->timeout_ms ? q->timeout_ms : CALL_TIMEOUT_MS,
                                 .fresh = q->fresh,
                                 .headers = q->headers,
                                 .header_count = q->header_count,
                                 .body_max = REPLY_BYTES_MAX,
                                 .done = q->done,
                                 .ctx = q->ctx,
                             });
    if (!c)
        runner_no_memory(r);
    return c;
}

const char *runner_path(struct runner *r, const char *before, const char *name, const char *after)
{
    struct client_path p;
    client_path_init(&p);
    client_path_add(&p, before);
    client_path_encode(&p, name);
    client_path_add(&p, after);
    const char *text = client_path_text(&p);
    char *copy = text ? arena_text(&r->scratch, span_text(text)) : NULL;
    client_path_done(&p);
    if (!copy)
        runner_no_memory(r);
    return copy;
}

struct span runner_why(struct runner *r, const struct call_reply *reply)
{
    if (reply->error)
        return span_text(reply->error);
    if (json_check_deep(reply->body, NULL, NULL) < 0)
        return SPAN_LITERAL("not said");
    return client_answer_text(reply->body, "detail", &r->scratch);
}

bool runner_code_is(struct runner *r, const struct call_reply *reply, const char *code)
{
    return json_check_deep(reply->body, NULL, NULL) == 0 &&
           span_equal(client_answer_text(reply->body, "code", &r->scratch), span_text(code));
}

bool runner_missing(struct runner *r, const struct call_reply *reply)
{
    return reply->status == 405 || (reply->status == 404 && runner_code_is(r, reply, "no_route"));
}

bool runner_unanswered(const struct call_reply *reply)
{
    return reply->status == 0 || reply->status >= 500 || reply->status == 429 ||
           reply->status == 408;
}

/* ---- the end ---- */

static void loop_close(struct runner *r)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&r->signals[0], (uv_handle_t *)&r->signals[1],
                              (uv_handle_t *)&r->signals[2], (uv_handle_t *)&r->tick,
                              (uv_handle_t *)&r->stop_timer, (uv_handle_t *)&r->claim_timer,
                              (uv_handle_t *)&r->bar_timer};
    if (r->closing)
        return;
    r->closing = true;
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++)
        uv_close(handles[i], NULL);
    uv_stop(&r->loop); /* a pending heartbeat does not delay the end */
}

void runner_finish(struct runner *r, int status)
{
    r->finished = true;
    if (r->status == 0)
        r->status = status;
}

void runner_poke(struct runner *r)
{
    bool over = r->finished || r->stop >= STOP_FINISH;
    if (r->closing)
        return;
    claimer_poke(r);
    if (!over || r->task_count > 0 || r->claim)
        return;
    if (r->heartbeats && !r->left)
        leases_leave(r);
    if (r->asides == 0)
        loop_close(r);
}

/* ---- stopping ---- */

static void give_up_cb(uv_timer_t *timer)
{
    struct runner *r = timer->data;
    if (r->task_count > 0) {
        work_log_line(&r->log, LOG_ERROR, "not_reported", LOG_INT("jobs", r->task_count));
        runner_finish(r, WORK_UNREACHABLE);
    }
    loop_close(r);
}

static void stop_now(struct runner *r, int64_t kill_after_ms)
{
    struct link *next;
    r->stop = STOP_NOW;
    if (kill_after_ms > r->plan->kill_after_ms)
        kill_after_ms = r->plan->kill_after_ms;
    work_log_line(&r->log, LOG_WARN, "terminating", LOG_INT("jobs", r->task_count),
                  LOG_TEXT("worker", r->plan->name));
    for (struct link *at = r->tasks.next; at != &r->tasks; at = next) {
        next = at->next;
        task_stop(LINK_OWNER(at, struct task, link), TASK_STOPPED, kill_after_ms);
    }
    uv_timer_start(&r->stop_timer, give_up_cb, (uint64_t)kill_after_ms + GIVE_UP_MS, 0);
    runner_poke(r);
}

static void stop_timeout_cb(uv_timer_t *timer)
{
    stop_now(timer->data, STOP_KILL_MS);
}

static void stop_begin(struct runner *r)
{
    r->stop = r->plan->drain ? STOP_DRAIN : STOP_FINISH;
    work_log_line(&r->log, LOG_INFO, "stopping",
                  LOG_TEXT("mode", r->plan->drain ? "drain" : "finish"),
                  LOG_INT("jobs", r->task_count), LOG_INT("timeout_ms", r->plan->stop_timeout_ms),
                  LOG_TEXT("worker", r->plan->name));
    uv_timer_start(&r->stop_timer, stop_timeout_cb, (uint64_t)r->plan->stop_timeout_ms, 0);
    runner_poke(r);
}

/* The first signal begins the stop mode, the second terminates the commands, the third kills
 * them. */
static void signal_cb(uv_signal_t *handle, int number)
{
    struct runner *r = handle->data;
    (void)number;
    if (r->stop == STOP_NONE)
        stop_begin(r);
    else
        stop_now(r, r->stop == STOP_NOW ? 0 : STOP_KILL_MS);
}

/* ---- the tick ---- */

static void tick_cb(uv_timer_t *timer)
{
    struct runner *r = timer->data;
    struct link *next;
    leases_tick(r);
    for (struct link *at = r->tasks.next; at != &r->tasks; at = next) {
        next = at->next;
        task_tick(LINK_OWNER(at, struct task, link));
    }
    arena_reset(&r->scratch);
}

/* ---- the bar ---- */

static void bar_cb(void *ctx, const struct call_reply *reply)
{
    struct runner *r = ctx;
    r->asides--;
    if (reply->status == 200 && json_check_deep(reply->body, NULL, NULL) == 0)
        r->ready = (uint64_t)client_answer_int(reply->body, "ready", 0);
    runner_poke(r);
}

/* Of several queues, the first one is shown. */
static void bar_timer_cb(uv_timer_t *timer)
{
    struct runner *r = timer->data;
    uint64_t over = r->done + r->failed;
    const char *path = runner_path(r, "/v1/snapshot?queue=", r->plan->queues[0], "");
    work_log_bar(&r->log, over, over + r->task_count + r->ready);
    if (r->asides > 0 || !path)
        return;
    if (calls_send(r->calls, &(struct call_request){.server = r->server,
                                                    .method = "GET",
                                                    .target = path,
                                                    .timeout_ms = CALL_TIMEOUT_MS,
                                                    .body_max = REPLY_BYTES_MAX,
                                                    .done = bar_cb,
                                                    .ctx = r}))
        r->asides++;
}

/* ---- start ---- */

/* nohup ignores SIGHUP, and a shell ignores SIGINT for a job in the background. */
bool signal_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

const int stop_signals[STOP_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

static void handles_open(struct runner *r)
{
    uv_timer_t *timers[] = {&r->tick, &r->stop_timer, &r->claim_timer, &r->bar_timer};
    for (size_t i = 0; i < sizeof timers / sizeof *timers; i++) {
        CHECK(uv_timer_init(&r->loop, timers[i]) == 0);
        timers[i]->data = r;
    }
    for (size_t i = 0; i < STOP_SIGNALS; i++) {
        CHECK(uv_signal_init(&r->loop, &r->signals[i]) == 0);
        r->signals[i].data = r;
        if (!signal_ignored(stop_signals[i]))
            uv_signal_start(&r->signals[i], signal_cb, stop_signals[i]);
    }
    uv_timer_start(&r->tick, tick_cb, TICK_MS, TICK_MS);
    if (r->log.has_bar)
        uv_timer_start(&r->bar_timer, bar_timer_cb, 0, BAR_MS);
}

/* "a,b"; in the scratch memory. */
static const char *queues_text(struct runner *r)
{
    struct buf text;
    buf_init(&text);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->plan->queue_count; i++)
        rc = buf_printf(&text, "%s%s", i > 0 ? "," : "", r->plan->queues[i]);
    const char *copy = rc == 0 ? arena_text(&r->scratch, buf_span(&text)) : NULL;
    buf_done(&text);
    return copy ? copy : "";
}

/* The address without its user, password and query, which may be secret. */
static const char *url_shown(struct runner *r)
{
    const char *url = r->plan->url;
    const char *host = strstr(url, "//");
    host = host ? host + 2 : url;
    size_t authority = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', authority);
    host = at ? at + 1 : host;
    const char *copy = arena_text(&r->scratch, span_of(host, strcspn(host, "?#")));
    return copy ? copy : "";
}

static void work(struct runner *r)
{
    handles_open(r);
    work_log_line(&r->log, LOG_INFO, "started", LOG_TEXT("worker", r->plan->name),
                  LOG_TEXT("queues", queues_text(r)),
                  LOG_TEXT("target", r->plan->url ? url_shown(r) : r->plan->command[0]),
                  LOG_TEXT("server", r->plan->to.server),
                  LOG_INT("concurrency", r->plan->concurrency),
                  LOG_TEXT("version", version_number()));
    claimer_open(r);
    leases_heartbeat(r);
    runner_poke(r);
    uv_run(&r->loop, UV_RUN_DEFAULT);
}

/* Commands get the limit that the runner was started with (supervisor.c). */
static void files_limit_raise(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

/* Commands that still run are terminated by their supervisor, which sees that its socket is
 * closed. */
static void runner_close(struct runner *r)
{
    while (!link_alone(&r->tasks))
        task_free(LINK_OWNER(r->tasks.next, struct task, link));
    handoffs_close(r);
    calls_close(r->calls);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&r->loop) == 0);
}

/* A signal ended the runner before it had done what it was asked for. */
static void status_decide(struct runner *r)
{
    bool to_the_end = r->plan->until_empty || r->plan->once;
    if (to_the_end && r->stop != STOP_NONE && !r->finished && r->status == 0)
        r->status = WORK_LEFT;
    if (r->plan->until_empty && r->status == 0)
        work_log_bar_end(&r->log);
}

int runner_run(const struct work_plan *plan)
{
    struct runner *r = mem_zalloc(sizeof *r);
    struct err_note note;
    if (!r)
        return WORK_GAVE_UP;
    r->plan = plan;
    files_limit_raise();
    link_init(&r->tasks);
    arena_init(&r->scratch);
    work_log_open(&r->log, plan->json, plan->until_empty);
    (void)signal(SIGPIPE, SIG_IGN);
    int rc = client_open(&plan->to, &r->server, &note);
    if (rc < 0) {
        fprintf(stderr, "holdfast: %s\n", note.text);
        r->status = rc == -ERR_INVALID ? EXIT_USAGE : WORK_GAVE_UP;
    } else if (uv_loop_init(&r->loop) == 0 && calls_open(&r->loop, &r->calls) == 0) {
        work(r);
        status_decide(r);
        work_log_line(&r->log, LOG_INFO, "stopped", LOG_INT("done", r->done),
                      LOG_INT("failed", r->failed), LOG_INT("status", r->status),
                      LOG_TEXT("worker", plan->name));
        runner_close(r);
    } else {
        r->status = WORK_GAVE_UP;
    }
    int status = r->status;
    work_log_close(&r->log);
    client_close(r->server);
    arena_done(&r->scratch);
    mem_free(r->starts);
    mem_free(r);
    return status;
}
