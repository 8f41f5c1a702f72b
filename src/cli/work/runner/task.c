/* SPDX-License-Identifier: Apache-2.0 */
/* One job: from the claim until its outcome is reported. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/work/runner/runner_impl.h"
#include "config/units.h"

#define PROBLEMS_MAX 5
#define PROBLEM_PAUSE_MS UINT64_C(1000) /* after the first problem; doubled each time */
#define PROBLEM_DELAY_MS 1000           /* from the end of the pause until the job is ready */

/* ---- the end of the target ---- */

static unsigned released_before(struct runner *r, uint64_t seq)
{
    unsigned slot = (unsigned)(seq % RELEASED_SLOTS);
    if (r->released[slot].seq != seq) {
        r->released[slot].seq = seq;
        r->released[slot].times = 0;
    }
    return r->released[slot].times++;
}

/* How long a job is released for; a delay that the target gives is used, within --max-age. */
static void release_plan(struct task *t)
{
    const struct work_plan *p = t->runner->plan;
    struct now now = clock_now(&t->runner->log.log.clock);
    t->delay_ms = t->retry_after_ms > 0 ? t->retry_after_ms
                                        : release_delay_ms(released_before(t->runner, t->job.seq));
    if (!t->rate_limited)
        return;
    if (t->delay_ms > p->max_age_ms)
        t->delay_ms = p->max_age_ms;
    if (t->job.created_ms > 0 && now.wall.ms - t->job.created_ms >= p->max_age_ms)
        t->verdict.verb = WORK_FAIL;
}

/* The reason for the stop decides the outcome, not how the target then ended. */
static void stop_decides(struct task *t)
{
    char text[UNITS_TEXT_MAX];
    switch (t->stop) {
    case TASK_GOES_ON:
    case TASK_LOST:
        return;
    case TASK_TIMED_OUT:
        t->verdict = (struct verdict){.verb = WORK_FAIL, .type = "timeout"};
        buf_clear(&t->error);
        (void)!buf_printf(&t->error, "the job ran longer than --timeout %s",
                          units_text(t->runner->plan->timeout_ms, UNIT_MS, text));
        return;
    case TASK_CANCELLED:
    case TASK_STOPPED:
        t->verdict = (struct verdict){.verb = WORK_RELEASE};
        t->delay_ms = -1;
        buf_clear(&t->error);
        (void)!buf_append_text(&t->error, t->stop == TASK_CANCELLED ? "the job was cancelled"
                                                                    : "the worker was stopped");
        return;
    }
}

/* Jobs that run at the same time have the same problem: they count once. */
static void problem_count(struct runner *r)
{
    uint64_t now = runner_now(r);
    if (now < r->problem_end)
        return;
    uint64_t pause_ms = PROBLEM_PAUSE_MS << (r->problems < PROBLEMS_MAX ? r->problems : 0);
    r->problems++;
    r->problem_end = now + pause_ms;
    claimer_pause(r, pause_ms);
}

/* The job is released for longer than the pause, so that the next claim gets other jobs, which
 * may succeed. */
static void problem_note(struct task *t)
{
    struct runner *r = t->runner;
    if (t->verdict.verb != WORK_PROBLEM) {
        r->problems = t->stop == TASK_GOES_ON ? 0 : r->problems;
        return;
    }
    problem_count(r);
    t->delay_ms = (int64_t)(r->problem_end - runner_now(r)) + PROBLEM_DELAY_MS;
    work_log_line(&r->log, LOG_WARN, "worker_problem", LOG_TEXT("id", t->job.id),
                  LOG_TEXT("type", t->verdict.type), LOG_SPAN("reason", task_error(t)),
                  LOG_INT("in_a_row", r->problems), LOG_TEXT("worker", r->plan->name));
    if ((r->problems == PROBLEMS_MAX || r->plan->once) && !r->finished) {
        work_log_line(&r->log, LOG_ERROR, "giving_up", LOG_INT("problems", r->problems),
                      LOG_TEXT("worker", r->plan->name));
        runner_finish(r, WORK_GAVE_UP);
    }
}

static void target_ended(struct task *t, const struct target_end *end)
{
    t->command = NULL;
    t->http = NULL;
    t->ended = true;
    t->ended_at = runner_now(t->runner);
    t->verdict = end->verdict;
    t->output_bytes = end->output_bytes;
    t->retry_after_ms = end->retry_after_ms;
    t->rate_limited = end->rate_limited;
    t->no_reply = end->no_reply;
    job_text_end(t);
    if (t->verdict.verb == WORK_ACK)
        handoffs_take(t, end);
    bool kept = end->handoff || buf_append_span(&t->output, end->output) == 0;
    if (end->error && kept && t->error.len == 0)
        kept = buf_append_text(&t->error, end->error) == 0;
    if (!kept)
        runner_no_memory(t->runner);
    if (end->abandoned)
        work_log_line(&t->runner->log, LOG_ERROR, "processes_left", LOG_TEXT("id", t->job.id));
    if (t->verdict.verb == WORK_RELEASE)
        release_plan(t);
    if (end->by_itself && t->stop != TASK_LOST)
        t->stop = TASK_GOES_ON;
    stop_decides(t);
    problem_note(t);
}

static void ended_cb(void *ctx, const struct target_end *end)
{
    target_ended(ctx, end);
    task_next(ctx);
}

static void errors_cb(void *ctx, struct span bytes)
{
    job_text_errors(ctx, bytes);
}

static void progress_cb(void *ctx, struct span line)
{
    job_text_progress(ctx, line);
}

/* ---- start and stop ---- */

static void target_start(struct task *t)
{
    struct runner *r = t->runner;
    struct err_note note;
    struct target_owner owner = {errors_cb, progress_cb, ended_cb, t};
    t->started = runner_now(r);
    if (!r->plan->url)
        handoffs_begin(t);
    if (r->plan->url) {
        t->http = http_target_start(r->calls, r->plan, &t->job, owner);
        if (t->http)
            return;
        (void)!err_note_set(&note, -ERR_NOMEM, "out of memory");
    } else if (command_start(&r->loop, r->plan, &t->job, owner, &t->command, &note) == 0) {
        return;
    }
    struct target_end end = {.verdict = {.verb = WORK_PROBLEM, .type = "not started"},
                             .error = note.text};
    ended_cb(t, &end);
}

static void give_back(struct task *t)
{
    t->stop = TASK_STOPPED;
    t->ended = true;
    stop_decides(t);
    task_next(t);
}

static struct task *task_alloc(struct runner *r)
{
    struct task *t = mem_zalloc(sizeof *t);
    if (!t)
        return NULL;
    t->runner = r;
    t->delay_ms = -1;
    t->typed = !r->no_error_type;
    buf_init(&t->output);
    buf_init(&t->error);
    buf_init(&t->handoff_text);
    job_text_init(&t->text);
    link_init(&t->link);
    return t;
}

void task_new(struct runner *r, struct span job, bool release)
{
    struct task *t = task_alloc(r);
    int rc = t ? work_job_read(job, &t->job) : -ERR_NOMEM;
    if (rc < 0) {
        if (t)
            task_free(t);
        if (rc == -ERR_NOMEM)
            runner_no_memory(r);
        else
            work_log_line(&r->log, LOG_ERROR, "job_not_understood");
        return;
    }
    link_append(&r->tasks, &t->link);
    r->task_count++;
    lease_renewed(t, runner_now(r));
    if (release)
        give_back(t);
    else
        target_start(t);
}

bool task_decided(const struct task *t)
{
    return t->command && command_has_ended(t->command);
}

void task_stop(struct task *t, enum task_stop why, int64_t kill_after_ms)
{
    if (t->ended)
        return;
    if (why == TASK_LOST || (t->stop == TASK_GOES_ON && !task_decided(t)))
        t->stop = why;
    if (t->command)
        command_terminate(t->command, kill_after_ms);
    if (t->http) {
        http_target_stop(t->http);
        target_ended(t, &(struct target_end){.verdict = {.verb = WORK_FAIL, .type = "stopped"}});
    }
}

static void stop_with(struct task *t, enum task_stop why, const char *event)
{
    work_log_line(&t->runner->log, LOG_WARN, event, LOG_TEXT("id", t->job.id));
    task_stop(t, why, t->runner->plan->kill_after_ms);
}

void task_tick(struct task *t)
{
    uint64_t now = runner_now(t->runner);
    int64_t timeout_ms = t->runner->plan->timeout_ms;
    if (!t->ended && t->stop != TASK_LOST && now >= t->lease_end) {
        stop_with(t, TASK_LOST, "lease_not_renewed");
        return; /* the task may have ended */
    }
    if (!t->ended && t->stop == TASK_GOES_ON && timeout_ms > 0 && !task_decided(t) &&
        now - t->started >= (uint64_t)timeout_ms) {
        stop_with(t, TASK_TIMED_OUT, "timed_out");
        return;
    }
    task_next(t);
}

/* ---- the end ---- */

void task_free(struct task *t)
{
    if (t->command)
        command_abandon(t->command);
    if (t->http)
        http_target_stop(t->http);
    if (t->call)
        call_cancel(t->call);
    handoffs_end(t);
    work_job_done(&t->job);
    buf_done(&t->output);
    buf_done(&t->error);
    buf_done(&t->handoff_text);
    job_text_done(&t->text);
    link_remove(&t->link);
    mem_free(t);
}

/* The error of an HTTP target without a reply is that of the connection; other errors may have
 * parts of the payload. */
static void over_log(struct task *t, const char *outcome, bool acked)
{
    bool no_reply = t->runner->plan->url && t->error.len > 0 && t->no_reply;
    work_log_line(&t->runner->log, acked ? LOG_INFO : LOG_WARN, "job", LOG_TEXT("id", t->job.id),
                  LOG_TEXT("queue", t->job.queue), LOG_INT("attempt", t->job.attempt),
                  LOG_TEXT("outcome", outcome),
                  LOG_INT("ms", t->started ? t->ended_at - t->started : 0),
                  LOG_TEXT("type", !acked && t->verdict.type[0] ? t->verdict.type : "-"),
                  no_reply ? LOG_SPAN("error", buf_span(&t->error))
                           : (struct log_field){.kind = LOG_FIELD_END});
}

void task_over(struct task *t, const char *outcome)
{
    struct runner *r = t->runner;
    bool acked = strcmp(outcome, work_verb_name(WORK_ACK)) == 0;
    over_log(t, outcome, acked);
    r->done += acked;
    r->failed += strcmp(outcome, work_verb_name(WORK_FAIL)) == 0 ||
                 strcmp(outcome, work_verb_name(WORK_DEAD)) == 0;
    breaker_report(r, t);
    if (r->plan->once && t->started)
        runner_finish(r, acked ? WORK_DONE : WORK_NOT_ACKED);
    r->task_count--;
    task_free(t);
    runner_poke(r);
}

struct task *task_find(struct runner *r, struct span token)
{
    for (struct link *at = r->tasks.next; at != &r->tasks; at = at->next) {
        struct task *t = LINK_OWNER(at, struct task, link);
        if (span_equal(span_text(t->job.token), token))
            return t;
    }
    return NULL;
}
