/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the runner.
 *
 *   runner.c    start, signals, the tick, the stop modes, the end
 *   claimer.c   when to claim and how many: slots, --rate, breaker, back-off
 *   queue_check.c  whether jobs are left, for --until-empty
 *   breaker.c   the circuit breaker of --breaker
 *   task.c      one job, from the claim until its outcome is reported
 *   report.c    the calls of a task to the server: extend, progress, log, outcome
 *   handoffs.c  what tasks hand off: the files of commands, the replies of HTTP targets
 *   job_text.c  standard error and progress of a task, kept until they are sent
 *   leases.c    heartbeats, which renew all leases at once
 *   work_log.c  the log, and the bar of --until-empty
 *
 * Times without another name are those of uv_now: monotonic milliseconds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/containers/link.h"
#include "cli/work/handoff.h"
#include "cli/work/job.h"
#include "cli/work/log/work_log.h"
#include "cli/work/options.h"
#include "cli/work/runner/calls.h"
#include "cli/work/runner/runner.h"
#include "cli/work/targets/command.h"
#include "cli/work/targets/http_target.h"
#include "cli/work/targets/target.h"

#define REPLY_BYTES_MAX ((size_t)64 << 10)  /* of everything but a claim */
#define CLAIM_BYTES_MAX ((size_t)512 << 20) /* 16 MiB of payloads and one of 64 MiB, escaped */
#define CALL_TIMEOUT_MS 30000
#define RELEASED_SLOTS 1024

enum stop_mode {
    STOP_NONE,
    STOP_DRAIN,  /* claims until no job is ready */
    STOP_FINISH, /* claims nothing more */
    STOP_NOW,    /* terminates what runs */
};

/* Why a task is stopped. */
enum task_stop {
    TASK_GOES_ON,
    TASK_LOST,      /* the lease is lost */
    TASK_CANCELLED, /* by a user */
    TASK_TIMED_OUT, /* --timeout */
    TASK_STOPPED,   /* the runner is stopped */
};

enum task_call { TASK_NO_CALL, TASK_EXTEND, TASK_PROGRESS, TASK_LOG, TASK_OUTCOME };

/* Standard error and progress of a job. */
struct job_text {
    struct buf tail; /* the last WORK_ERROR_BYTES_MAX bytes or a little more, for `error` */
    struct buf
        lines; /* complete lines that are not yet in the job's log, each with its line break */
    struct buf sent; /* the lines of the call that is under way */
    struct buf line; /* a line that has not ended yet */
    int percent;     /* of the newest progress; -1 = only a message */
    struct buf message;
    bool progress_new; /* it has not been sent */
    uint64_t second;   /* the current second, and the lines that the runner has logged in it */
    uint64_t second_lines;
    uint64_t not_logged;
};

struct task {
    struct link link; /* in runner.tasks */
    struct runner *runner;
    struct work_job job;
    struct command_run *command; /* NULL: not running */
    struct http_run *http;       /* the same for an HTTP target */
    enum task_stop stop;
    bool ended;        /* the target has ended, but its outcome has not been reported */
    bool in_heartbeat; /* the heartbeat that is under way contains its lease */
    bool plain;        /* the server refused the details of the outcome: they are not sent */
    bool typed;        /* error_type is sent */
    uint64_t started, ended_at;
    uint64_t lease_end; /* when the lease must be assumed lost */
    uint64_t renew_at;  /* when to renew it: a third of the lease after the last renewal */
    struct verdict verdict;
    struct buf output; /* of the target */
    uint64_t output_bytes;
    struct buf error; /* a sentence; empty = the end of standard error is the error */
    struct buf handoff_text;
    struct handoff handoff; /* points into the text */
    int64_t delay_ms;       /* of a release; -1 = none */
    int64_t retry_after_ms;
    bool rate_limited;
    bool no_reply;
    struct job_text text;
    struct call *call; /* to the server; a task has one at a time */
    enum task_call calling;
    uint64_t called_at, retry_at; /* retry_at: no call before it */
    uint64_t log_at, progress_at; /* when the last one was sent */
    unsigned failures;            /* consecutive calls without a reply */
};

struct runner {
    const struct work_plan *plan;
    uv_loop_t loop;
    struct client *server;
    struct calls *calls;
    struct work_log log;
    struct arena scratch; /* of one callback */
    uv_signal_t signals[STOP_SIGNALS];
    uv_timer_t tick;       /* ten times a second */
    uv_timer_t stop_timer; /* --stop-timeout, then the time to give up */
    uv_timer_t claim_timer;
    uv_timer_t bar_timer;
    uint64_t ready; /* jobs, for the bar */

    struct link tasks;
    size_t task_count;
    size_t asides; /* calls without a task: reports to the breaker */
    enum stop_mode stop;
    bool finished; /* no more claims, for a reason other than a signal */
    bool closing;
    int status;
    uint64_t done, failed;                /* jobs */
    char handoff_dir[HANDOFF_PATH_BYTES]; /* of the commands; "" = not created yet */
    uint64_t handoffs;                    /* files named so far */
    unsigned problems;                    /* consecutive pauses after problems of the worker */
    uint64_t problem_end;                 /* when the last of these pauses ends */
    uint64_t problem_back; /* when jobs that were released after a problem are ready again */
    struct {               /* queue_check.c */
        struct call *call;
        size_t queue;  /* by its position in the plan */
        uint64_t left; /* ready and running jobs */
        bool paused;   /* a queue with ready jobs is paused */
    } check;
    /* Releases of a job by this runner, by its sequence; if two jobs share a slot, the last one
     * counts. */
    struct {
        uint64_t seq;
        unsigned times;
    } released[RELEASED_SLOTS];

    struct call *claim;
    uint64_t claim_after;
    unsigned claim_failures;
    size_t claimed;     /* by --once */
    uint64_t *starts;   /* of the last plan->rate.count jobs, as a ring */
    size_t start_count; /* of all jobs */

    struct call *allow; /* the request to the breaker */
    bool permit;        /* the breaker allowed a claim that has not been used */
    bool probe;         /* … in state half_open: for one job */
    bool claim_waited;  /* sent with wait_ms > 0, so an empty reply came after the wait */
    bool reached;       /* the server has answered at least once */

    struct call *heartbeat;
    bool heartbeat_failed;  /* the last one had no reply */
    bool heartbeats;        /* the server supports heartbeats; otherwise each lease is extended */
    bool no_heartbeats;     /* it does not support them */
    bool left;              /* the last heartbeat was sent, which reports that the worker stops */
    bool heartbeat_extends; /* the heartbeat that is under way renews the leases */
    bool no_log;            /* the server does not accept logs of jobs; progress likewise */
    bool no_progress;
    bool no_error_type;
    uint64_t heartbeat_sent,
        heartbeat_at; /* when the last one was sent, and when the next one is due */
};

/* ---- runner.c ---- */
static inline uint64_t runner_now(const struct runner *r)
{
    return uv_now(&r->loop);
}
/* Ends with this status when the tasks have ended; the first status that is not 0 stays. */
void runner_finish(struct runner *r, int status);
/* Called when a task or call has ended: claims again, or ends the runner. */
void runner_poke(struct runner *r);
/* A JSON body for a path of the server. */
struct runner_request {
    const char *method; /* NULL = POST */
    const char *path;
    struct span body;
    int64_t timeout_ms; /* 0 = CALL_TIMEOUT_MS */
    bool fresh;         /* see struct call_request */
    const char *const *headers;
    size_t header_count;
    call_done_fn done;
    void *ctx;
};
/* NULL: no memory, and the runner stops. */
struct call *runner_ask(struct runner *r, const struct runner_request *request);
/* A path "/v1/jobs/ID/verb" or "/v1/breakers/NAME/verb" in the scratch memory. */
const char *runner_path(struct runner *r, const char *before, const char *name, const char *after);
/* The error in the reply, for the log. */
struct span runner_why(struct runner *r, const struct call_reply *reply);
/* The code of a problem; "" = none. */
bool runner_code_is(struct runner *r, const struct call_reply *reply, const char *code);
/* Whether the server does not have this endpoint. */
bool runner_missing(struct runner *r, const struct call_reply *reply);
/* Whether the call may succeed if it is repeated. */
bool runner_unanswered(const struct call_reply *reply);
void runner_no_memory(struct runner *r);

/* ---- claimer.c ---- */
void claimer_open(struct runner *r);
void claimer_poke(struct runner *r);
/* Delays the next claim until that time. */
void claimer_pause(struct runner *r, uint64_t ms);

/* ---- queue_check.c ---- */
/* No job could be claimed: ends the runner if no job is ready or running in its queues, or if a
 * queue with ready jobs is paused. Otherwise claims again. */
void queue_check_start(struct runner *r);

/* ---- breaker.c ---- */
/* true: a claim is allowed now. Otherwise asks the breaker, and wakes the claimer when it is
 * answered. */
bool breaker_allows(struct runner *r);
void breaker_report(struct runner *r, const struct task *t);

/* ---- task.c ---- */
/* Takes over a claimed job and starts its target; with `release`, releases it at once. */
void task_new(struct runner *r, struct span job, bool release);
/* Whether the command itself has ended: its exit status decides the outcome, not the reason for a
 * stop. What it left behind may still run. */
bool task_decided(const struct task *t);
void task_stop(struct task *t, enum task_stop why, int64_t kill_after_ms);
void task_tick(struct task *t);
/* The outcome was reported, or cannot be reported. `outcome` is for the log. */
void task_over(struct task *t, const char *outcome);
void task_free(struct task *t);
/* The task with this lease token; NULL = none. */
struct task *task_find(struct runner *r, struct span token);

/* ---- handoffs.c ---- */
/* Gives the job the name of a file; without one if there is no directory for it. */
void handoffs_begin(struct task *t);
/* The target has ended, and its job would be acked: takes over what it hands off. If that cannot be
 * read, the attempt has failed. */
void handoffs_take(struct task *t, const struct target_end *end);
/* The server refused the hand-off with this reply: the attempt has failed. False: the refusal is
 * about something else. */
bool handoffs_refused(struct task *t, const struct call_reply *reply);
/* Removes the file; the directory. */
void handoffs_end(struct task *t);
void handoffs_close(struct runner *r);

/* ---- report.c ---- */
/* Sends the next call of the task that is due, if any. */
void task_next(struct task *t);
/* The message about its end: the sentence of the runner, or the end of standard error. */
struct span task_error(const struct task *t);

/* ---- job_text.c ---- */
void job_text_init(struct job_text *x);
void job_text_done(struct job_text *x);
void job_text_errors(struct task *t, struct span bytes);
void job_text_progress(struct task *t, struct span line);
/* The last line, which has no line break, counts as well. */
void job_text_end(struct task *t);
/* Move lines to `sent`, as many as one request takes; and back to the front. */
void job_text_sending(struct job_text *x);
void job_text_unsent(struct job_text *x);

/* ---- leases.c ---- */
/* Sends a heartbeat, unless one is under way. */
void leases_heartbeat(struct runner *r);
/* Sends the last heartbeat, which reports that the worker stops; it is not tied to a task. */
void leases_leave(struct runner *r);
/* Sends a heartbeat when it is due. */
void leases_tick(struct runner *r);
/* The time limit of a call that renews a lease. A call that takes longer is repeated while the
 * lease is still held. */
int64_t lease_call_ms(const struct runner *r);
/* The server has renewed the lease; the request was sent at this time. */
void lease_renewed(struct task *t, uint64_t asked_at);
