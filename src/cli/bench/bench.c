/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast bench from its options to its report: the speed of the disk, the queue, the backlog,
 * the run. */
#include "cli/bench/bench.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/bench/plan.h"
#include "cli/bench/probe.h"
#include "cli/bench/report.h"
#include "cli/bench/worker.h"
#include "cli/client/session.h"
#include "cli/client/terminal/interrupt.h"

#define SYNC_MS 1000
#define BACKLOG_CONNECTIONS 4
#define BACKLOG_BATCH 1000
#define BACKLOG_REQUEST_BYTES ((uint64_t)1 << 20) /* a batch of large payloads is smaller */

struct bench {
    struct client_session *session;
    struct bench_plan plan;
    struct bench_result *result; /* in the arena: large */
    struct bench_figures figures;
    int64_t pid; /* 0: none */
};

static int failed(struct bench *b, int rc)
{
    return client_complain(rc == -ERR_INVALID ? CLIENT_USAGE : CLIENT_UNREACHABLE, "%s",
                           b->session->note.text);
}

static int run(struct bench *b, const struct bench_plan *plan)
{
    int rc = bench_run(plan, b->result, &b->figures.interrupted, &b->session->note);
    if (rc < 0)
        return failed(b, rc);
    if (b->result->errors > 0)
        return client_complain(CLIENT_REFUSED, "%" PRIu64 " errors; the first: %s",
                               b->result->errors, b->result->problem);
    return CLIENT_DONE;
}

/* Enqueues the backlog before the run, as fast as possible; not measured. */
static int backlog_fill(struct bench *b)
{
    struct bench_plan plan = b->plan;
    uint64_t fit = BACKLOG_REQUEST_BYTES / (plan.payload_bytes + 64) + 1;
    plan.mode = BENCH_ENQUEUE;
    plan.jobs = plan.backlog;
    plan.connections = BACKLOG_CONNECTIONS;
    plan.threads = plan.pipeline = 1;
    plan.batch = fit < BACKLOG_BATCH ? (unsigned)fit : BACKLOG_BATCH;
    plan.delay_ms = 0;
    if (plan.progress)
        fprintf(stderr, "enqueuing the backlog of %" PRIu64 " jobs\n", plan.backlog);
    int status = run(b, &plan);
    return b->figures.interrupted && status == CLIENT_DONE ? CLIENT_REFUSED : status;
}

static int cpu_read(struct bench *b, uint64_t *ret)
{
    *ret = 0;
    if (b->pid == 0)
        return CLIENT_DONE;
    if (bench_probe_cpu(b->pid, ret, &b->session->note) < 0)
        return client_complain(CLIENT_USAGE, "%s", b->session->note.text);
    return CLIENT_DONE;
}

static int measure(struct bench *b)
{
    uint64_t before, after;
    int status = cpu_read(b, &before);
    if (status != CLIENT_DONE)
        return status;
    status = run(b, &b->plan);
    if (status == CLIENT_UNREACHABLE || status == CLIENT_USAGE)
        return status;
    int cpu_status = cpu_read(b, &after);
    if (cpu_status != CLIENT_DONE)
        return cpu_status;
    b->figures.has_server_cpu = b->pid != 0;
    b->figures.server_cpu_ns = after - before;
    int rc = b->session->json ? bench_report_json(&b->figures, stdout)
                              : bench_report_text(&b->figures, stdout);
    return rc < 0 ? client_no_memory() : status;
}

static int queue_call(struct bench *b, const char *method)
{
    struct client_session *s = b->session;
    client_path_add(&s->path, "/v1/queues/");
    client_path_encode(&s->path, b->plan.queue);
    if (method[0] == 'P') {
        client_body_begin(s);
        int status = client_body_end(s);
        if (status != CLIENT_DONE)
            return status;
    }
    return client_ask(s, method);
}

static int with_queue(struct bench *b)
{
    bool own = b->plan.own_queue && b->plan.mode != BENCH_HEALTHZ;
    int status = own ? queue_call(b, "PUT") : CLIENT_DONE;
    if (status != CLIENT_DONE)
        return status;
    if (b->plan.backlog > 0)
        status = backlog_fill(b);
    if (status == CLIENT_DONE)
        status = measure(b);
    int deleted = own ? queue_call(b, "DELETE") : CLIENT_DONE;
    return status != CLIENT_DONE ? status : deleted;
}

static int prepare(struct bench *b)
{
    struct client_session *s = b->session;
    const char *dir = arguments_text(s->args, "fsync_dir", NULL);
    b->figures.syncs_per_s = -1;
    int rc = bench_plan_build(s->args, s->client, &s->arena, &b->plan, &s->note);
    if (rc < 0)
        return failed(b, rc);
    b->plan.progress = isatty(STDERR_FILENO);
    b->pid = arguments_number(s->args, "server_pid", 0);
    if (dir && bench_probe_sync(dir, SYNC_MS, &b->figures.syncs_per_s, &s->note) < 0)
        return client_complain(CLIENT_USAGE, "%s", s->note.text);
    b->result = arena_alloc(&s->arena, sizeof *b->result);
    b->figures.plan = &b->plan;
    b->figures.result = b->result;
    return b->result ? CLIENT_DONE : client_no_memory();
}

static int bench(struct client_session *s)
{
    struct bench b = {.session = s};
    int status = prepare(&b);
    if (status != CLIENT_DONE)
        return status;
    client_interrupt_hold();
    (void)signal(SIGPIPE, SIG_IGN);
    status = with_queue(&b);
    bench_plan_done(&b.plan);
    return status;
}

int bench_command(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, bench);
}
