/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/report.h"

#include <inttypes.h>

#include "base/json/json.h"
#include "cli/client/terminal/table.h"
#include "cli/client/terminal/text.h"

static const double percents[] = {50, 95, 99};
static const char *const percent_names[] = {"p50_us", "p95_us", "p99_us"};
enum { PERCENTS = sizeof percents / sizeof percents[0] };

static double per_second(const struct bench_result *r, uint64_t count)
{
    return r->elapsed_ns > 0 ? (double)count * 1e9 / (double)r->elapsed_ns : 0;
}

const char *bench_report_time(uint64_t ns, char out[BENCH_TIME_BYTES])
{
    if (ns < 1000)
        snprintf(out, BENCH_TIME_BYTES, "%" PRIu64 " ns", ns);
    else if (ns < 1000000)
        snprintf(out, BENCH_TIME_BYTES, "%.1f us", (double)ns / 1e3);
    else if (ns < 1000000000)
        snprintf(out, BENCH_TIME_BYTES, "%.2f ms", (double)ns / 1e6);
    else
        snprintf(out, BENCH_TIME_BYTES, "%.2f s", (double)ns / 1e9);
    return out;
}

/* ---- text -------------------------------------------------------------------------------------
 */

static const struct client_column columns[] = {
    {"REQUEST", false, 0}, {"COUNT", true, 0}, {"P50", true, 0},
    {"P95", true, 0},      {"P99", true, 0},   {"MAX", true, 0},
};

static void latency_row(struct client_table *t, enum bench_kind kind,
                        const struct bench_histogram *h)
{
    char text[BENCH_TIME_BYTES];
    client_table_add(t, span_text(bench_kind_name(kind)));
    client_table_addf(t, "%" PRIu64, h->total);
    for (size_t i = 0; i < PERCENTS; i++)
        client_table_add(t, span_text(bench_report_time(bench_histogram_at(h, percents[i]), text)));
    client_table_add(t, span_text(bench_report_time(h->max, text)));
}

static void head_print(const struct bench_figures *f, FILE *out)
{
    const struct bench_plan *p = f->plan;
    fprintf(out, "%s: %u connections, %u at once on each", bench_mode_name(p->mode), p->connections,
            p->pipeline);
    if (p->mode != BENCH_HEALTHZ)
        fprintf(out, ", %u jobs a request, %" PRIu64 " bytes a payload", p->batch,
                p->payload_bytes);
    fprintf(out, ", %.2f s%s\n\n", (double)f->result->elapsed_ns / 1e9,
            f->interrupted ? " (interrupted)" : "");
}

static void figures_print(const struct bench_figures *f, FILE *out)
{
    const struct bench_result *r = f->result;
    uint64_t jobs = bench_result_jobs(f->plan, r);
    if (f->plan->mode != BENCH_HEALTHZ)
        fprintf(out, "jobs/s       %.0f\n", per_second(r, jobs));
    if (f->plan->mode == BENCH_MIXED)
        fprintf(out, "enqueued/s   %.0f\n", per_second(r, r->enqueued));
    fprintf(out, "requests/s   %.0f\n", per_second(r, bench_result_requests(r)));
    fprintf(out, "errors       %" PRIu64 "\n", r->errors);
    if (f->has_server_cpu && jobs > 0)
        fprintf(out, "server CPU   %.2f us a %s, %.0f %% of a processor\n",
                (double)f->server_cpu_ns / 1e3 / (double)jobs,
                f->plan->mode == BENCH_HEALTHZ ? "request" : "job",
                (double)f->server_cpu_ns * 100 / (double)r->elapsed_ns);
    if (f->syncs_per_s >= 0)
        fprintf(out, "fdatasync/s  %.0f\n", f->syncs_per_s);
    fputc('\n', out);
}

int bench_report_text(const struct bench_figures *f, FILE *out)
{
    struct client_table table;
    struct client_screen screen = client_screen_of(out);
    head_print(f, out);
    figures_print(f, out);
    client_table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < BENCH_KINDS; i++) {
        if (f->result->latency[i].total > 0)
            latency_row(&table, (enum bench_kind)i, &f->result->latency[i]);
    }
    int rc = client_table_print(&table, out, &screen);
    client_table_done(&table);
    return rc;
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static void member(struct json_writer *w, const char *name, uint64_t value)
{
    json_write_key(w, name);
    json_write_uint(w, value);
}

static void latency_write(struct json_writer *w, const struct bench_result *r)
{
    json_write_key(w, "latency");
    json_write_object(w);
    for (size_t kind = 0; kind < BENCH_KINDS; kind++) {
        const struct bench_histogram *h = &r->latency[kind];
        if (h->total == 0)
            continue;
        json_write_key(w, bench_kind_name((enum bench_kind)kind));
        json_write_object(w);
        member(w, "count", h->total);
        for (size_t i = 0; i < PERCENTS; i++)
            member(w, percent_names[i], bench_histogram_at(h, percents[i]) / 1000);
        member(w, "max_us", h->max / 1000);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void plan_write(struct json_writer *w, const struct bench_plan *p)
{
    json_write_key(w, "mode");
    json_write_text(w, span_text(bench_mode_name(p->mode)));
    json_write_key(w, "queue");
    json_write_text(w, span_text(p->queue));
    member(w, "connections", p->connections);
    member(w, "threads", p->threads);
    member(w, "batch", p->batch);
    member(w, "pipeline", p->pipeline);
    member(w, "payload_bytes", p->payload_bytes);
    member(w, "priorities", p->priorities);
    member(w, "backlog", p->backlog);
}

static void result_write(struct json_writer *w, const struct bench_figures *f)
{
    const struct bench_result *r = f->result;
    uint64_t jobs = bench_result_jobs(f->plan, r);
    member(w, "elapsed_ms", r->elapsed_ns / 1000000);
    member(w, "jobs", jobs);
    member(w, "jobs_per_s", (uint64_t)(per_second(r, jobs) + 0.5));
    member(w, "enqueued", r->enqueued);
    member(w, "acked", r->acked);
    member(w, "requests", bench_result_requests(r));
    member(w, "requests_per_s", (uint64_t)(per_second(r, bench_result_requests(r)) + 0.5));
    member(w, "errors", r->errors);
    if (r->problem[0]) {
        json_write_key(w, "problem");
        json_write_text(w, span_text(r->problem));
    }
    if (f->has_server_cpu && jobs > 0)
        member(w, "server_cpu_ns_per_job", f->server_cpu_ns / jobs);
    if (f->syncs_per_s >= 0)
        member(w, "fdatasync_per_s", (uint64_t)(f->syncs_per_s + 0.5));
    json_write_key(w, "interrupted");
    json_write_bool(w, f->interrupted);
}

int bench_report_json(const struct bench_figures *f, FILE *out)
{
    struct buf text;
    struct json_writer w;
    buf_init(&text);
    json_writer_init(&w, &text);
    json_write_object(&w);
    plan_write(&w, f->plan);
    result_write(&w, f);
    latency_write(&w, f->result);
    json_write_object_end(&w);
    int rc = json_writer_finish(&w);
    if (rc == 0) {
        fwrite(text.data, 1, text.len, out);
        fputc('\n', out);
    }
    buf_done(&text);
    return rc;
}
