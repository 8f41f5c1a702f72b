/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and jobs of the store are written as views of the API and then as lines, so that both
 * kinds of export use the same code. */
#include "cli/transfer/export_store.h"

#include <inttypes.h>
#include <string.h>

#include "api/json_members.h"
#include "api/v1/alerts/alert_view.h"
#include "api/v1/jobs/job_view.h"
#include "api/v1/queues/queue_view.h"
#include "api/v1/schedules/schedule_fields.h"
#include "backend/local/offline/salvage/salvage.h"
#include "base/system/clock.h"
#include "cli/client/client.h"
#include "cli/client/session.h"
#include "cli/transfer/export_file.h"
#include "config/units.h"

#define STATES_USUAL (STATES_LIVE | STATE_BIT(STATE_DEAD))

struct export_run {
    const struct arguments *args;
    struct export_file file;
    struct buf view;
    struct wall_time now;
    unsigned states; /* mask */
    struct err_note note;
    bool begun;   /* the first line was written: the store exists */
    bool written; /* the error is an error of writing */
};

/* ---- what is wanted ---- */

static int states_take(struct export_run *run)
{
    const char *list = arguments_text(run->args, "state", NULL);
    run->states = arguments_has(run->args, "all") ? STATES_ALL : STATES_USUAL;
    if (!list)
        return CLIENT_DONE;
    run->states = 0;
    for (const char *at = list;; at++) {
        size_t len = strcspn(at, ",");
        char shown[QUOTED_MAX];
        enum job_state state;
        if (!state_parse(at, len, &state))
            return client_complain(CLIENT_USAGE,
                                   "--state has %s; states are scheduled, blocked, ready, running, "
                                   "done, dead and cancelled",
                                   quoted(span_of(at, len), shown));
        run->states |= STATE_BIT(state);
        at += len;
        if (*at == '\0')
            return CLIENT_DONE;
    }
}

static bool queue_wanted(const struct export_run *run, struct span name)
{
    size_t at = 0;
    const char *wanted;
    if (!arguments_has(run->args, "queue"))
        return true;
    while ((wanted = arguments_next(run->args, "queue", &at)))
        if (span_equal(name, span_text(wanted)))
            return true;
    return false;
}

static bool job_wanted(void *ctx, const struct job *job, struct span queue)
{
    const struct export_run *run = ctx;
    return (run->states & STATE_BIT(job->state)) && queue_wanted(run, queue);
}

/* ---- what comes ---- */

static int begin(struct export_run *run)
{
    const char *dir = arguments_text(run->args, "data", "");
    int rc = run->begun ? 0 : export_begin(&run->file, dir, run->now, &run->note);
    run->begun = true;
    return rc;
}

static void view_begin(struct export_run *run, struct json_writer *w)
{
    buf_clear(&run->view);
    json_writer_init(w, &run->view);
}

static int view_write(struct export_run *run, struct json_writer *w,
                      int (*fn)(struct export_file *f, struct span view, struct err_note *note))
{
    int rc = json_writer_finish(w);
    if (rc < 0)
        rc = err_note_set(&run->note, rc, "out of memory");
    else if ((rc = begin(run)) == 0)
        rc = fn(&run->file, buf_span(&run->view), &run->note);
    run->written = rc < 0;
    return rc;
}

static int queue_take(void *ctx, const struct queue_view *queue)
{
    struct export_run *run = ctx;
    struct json_writer w;
    if (!queue_wanted(run, queue->name))
        return 0;
    view_begin(run, &w);
    queue_view_write(&w, queue, run->now);
    return view_write(run, &w, export_queue);
}

/* Keys have no queue: they are only in an export of everything. */
static int key_take(void *ctx, const struct kv_view *key)
{
    struct export_run *run = ctx;
    struct json_writer w;
    if (arguments_has(run->args, "queue") ||
        (key->expires_at.ms > 0 && key->expires_at.ms <= run->now.ms))
        return 0;
    view_begin(run, &w);
    json_write_object(&w);
    write_kv(&w, key);
    json_write_object_end(&w);
    return view_write(run, &w, export_key);
}

static int job_take(void *ctx, const struct job_view *job)
{
    struct export_run *run = ctx;
    struct json_writer w;
    view_begin(run, &w);
    job_view_write(&w, job, run->now, VIEW_PAYLOAD | VIEW_LOG);
    return view_write(run, &w, export_job);
}

static int schedule_take(void *ctx, const struct schedule_view *schedule)
{
    struct export_run *run = ctx;
    struct json_writer w;
    if (arguments_has(run->args, "queue"))
        return 0;
    view_begin(run, &w);
    schedule_view_write(&w, schedule, run->now);
    return view_write(run, &w, export_schedule);
}

static int alert_take(void *ctx, const struct alert_view *alert)
{
    struct export_run *run = ctx;
    struct json_writer w;
    if (arguments_has(run->args, "queue"))
        return 0;
    view_begin(run, &w);
    alert_view_write(&w, alert);
    return view_write(run, &w, export_alert);
}

static void problem_print(void *ctx, const char *sentence)
{
    (void)ctx;
    client_complain(CLIENT_REFUSED, "%s", sentence);
}

/* ---- the end ---- */

/* A job may be in a damaged range and also be known otherwise, so these are bounds. */
static uint64_t missing(const struct salvage_report *r)
{
    return r->jobs_damaged + r->sequences;
}

static bool whole(const struct salvage_report *r)
{
    return missing(r) == 0 && r->jobs_partial == 0 && r->queues == 0 && r->queues_partial == 0 &&
           r->schedules == 0 && r->keys == 0 && r->alerts == 0 && r->removals == 0 &&
           !r->description && !r->wal && !r->journal;
}

static int verdict(const struct export_run *run, const struct salvage_report *r)
{
    fprintf(stderr, "%" PRIu64 " jobs and %" PRIu64 " queues exported", run->file.jobs,
            run->file.queues);
    if (r->jobs_damaged > 0)
        fprintf(stderr, "; %" PRIu64 " damaged jobs skipped", r->jobs_damaged);
    if (r->jobs_partial > 0)
        fprintf(stderr,
                "; %" PRIu64 " job%s without the result, error text, reports "
                "or dependencies",
                r->jobs_partial, r->jobs_partial == 1 ? "" : "s");
    if (r->ranges > 0)
        fprintf(stderr,
                "; %" PRIu64 " unreadable range%s skipped, with up to %" PRIu64 " jobs in %s",
                r->ranges, r->ranges == 1 ? "" : "s", r->sequences, r->ranges == 1 ? "it" : "them");
    if (r->queues > 0)
        fputs("; queues are missing", stderr);
    if (r->queues_partial > 0)
        fputs("; queues are without their owner, description or attributes", stderr);
    if (r->schedules > 0)
        fputs("; schedules are missing", stderr);
    if (r->keys > 0)
        fputs("; keys are missing", stderr);
    if (r->alerts > 0)
        fputs("; alert rules are missing", stderr);
    if (r->removals > 0)
        fputs("; jobs that were removed may be among them", stderr);
    if (r->description)
        fputs("; the pages that describe the store are damaged", stderr);
    if (r->wal)
        fputs("; what the WAL has is missing, or the end of it", stderr);
    if (r->journal)
        fputs("; what the journal has is missing, or the end of it", stderr);
    fputc('\n', stderr);
    return whole(r) ? CLIENT_DONE : CLIENT_REFUSED;
}

static int failed(struct export_run *run, int rc)
{
    client_complain(CLIENT_USAGE, "%s", run->note.text);
    if (rc == -ERR_LOCKED)
        client_complain(CLIENT_USAGE, "a running server is exported without --data");
    else if (rc == -ERR_CORRUPT && !run->written)
        client_complain(CLIENT_USAGE, "nothing can be read; restore the newest backup");
    return CLIENT_USAGE;
}

static int store_write(struct export_run *run, const char *dir)
{
    struct salvage_report report;
    const struct salvage_sink sink = {.ctx = run,
                                      .queue = queue_take,
                                      .key = key_take,
                                      .wanted = job_wanted,
                                      .job = job_take,
                                      .schedule = schedule_take,
                                      .alert = alert_take,
                                      .problem = problem_print};
    int rc = salvage_run(dir, &sink, &report, &run->note);
    if (rc == 0)
        rc = begin(run);
    if (rc == 0)
        rc = export_end(&run->file, missing(&report), &run->note);
    return rc == 0 ? verdict(run, &report) : failed(run, rc);
}

int export_store(const struct arguments *args)
{
    struct clock clock = clock_system();
    struct export_run run = {.args = args, .now = clock_now(&clock).wall};
    int status = states_take(&run);
    if (status != CLIENT_DONE)
        return status;
    if (export_open(&run.file, arguments_text(args, "output", NULL), arguments_has(args, "force"),
                    &run.note) < 0)
        return failed(&run, 0);
    buf_init(&run.view);
    status = store_write(&run, arguments_text(args, "data", ""));
    buf_done(&run.view);
    export_close(&run.file);
    return status;
}
