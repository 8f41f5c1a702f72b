/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the load generator: histogram, reader of answers, requests, probes, report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/system/clock.h"
#include "cli/bench/probe.h"
#include "cli/bench/report.h"
#include "cli/bench/request.h"

/* ---- histogram --------------------------------------------------------------------------------
 */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Against the exact quantiles of values over many magnitudes: at most 5 % off. */
static void quantiles_are_near_the_true_ones(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static const double percents[] = {0.1, 1, 25, 50, 90, 95, 99, 99.9, 100};
    static uint64_t values[COUNT];
    struct bench_histogram *h = calloc(1, sizeof *h), *half = calloc(1, sizeof *half);
    struct random random;
    random_seed(&random, 7);
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = random_next(&random) >> random_below(&random, 64);
        bench_histogram_add(i % 2 ? h : half, values[i]);
    }
    bench_histogram_merge(h, half);
    qsort(values, COUNT, sizeof values[0], compare);
    for (size_t i = 0; i < sizeof percents / sizeof percents[0]; i++) {
        size_t rank = (size_t)((double)COUNT * percents[i] / 100 + 0.999999);
        double exact = (double)values[rank - 1];
        double said = (double)bench_histogram_at(h, percents[i]);
        assert_true(said >= exact * 0.95 && said <= exact * 1.05);
    }
    assert_int_equal(h->total, COUNT);
    assert_true(h->max == values[COUNT - 1]);
    free(h);
    free(half);
}

static void the_edges_of_a_histogram(void **state)
{
    (void)state;
    struct bench_histogram *h = calloc(1, sizeof *h);
    assert_int_equal(bench_histogram_at(h, 99), 0);
    bench_histogram_add(h, UINT64_MAX);
    assert_true(bench_histogram_at(h, 50) > UINT64_MAX - UINT64_MAX / 20);
    bench_histogram_add(h, 0);
    bench_histogram_add(h, 0);
    assert_int_equal(bench_histogram_at(h, 50), 0);
    free(h);
}

/* ---- answers ----------------------------------------------------------------------------------
 */

static void answers_are_read(void **state)
{
    (void)state;
    static const char two[] = "HTTP/1.1 201 Created\r\nDate: x\r\ncontent-length: 5\r\n\r\nhello"
                              "HTTP/1.1 204 No Content\r\n\r\n";
    struct bench_reply reply;
    size_t first = strlen(two) - strlen("HTTP/1.1 204 No Content\r\n\r\n");
    for (size_t len = 0; len < first; len++)
        assert_int_equal(bench_reply_read(span_of(two, len), &reply), 0);
    assert_int_equal(bench_reply_read(span_text(two), &reply), 1);
    assert_int_equal(reply.status, 201);
    assert_int_equal(reply.bytes, first);
    assert_true(span_equal(reply.body, SPAN_LITERAL("hello")));
    assert_int_equal(bench_reply_read(span_text(two + first), &reply), 1);
    assert_int_equal(reply.status, 204);
    assert_int_equal(reply.body.len, 0);
}

static void what_is_no_answer_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "hello\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    };
    struct bench_reply reply;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bench_reply_read(span_text(bad[i]), &reply), -ERR_SYNTAX);
    static char endless[BENCH_HEAD_MAX + 1];
    memset(endless, 'x', sizeof endless);
    assert_int_equal(bench_reply_read(span_of(endless, sizeof endless), &reply), -ERR_SYNTAX);
}

/* ---- requests ---------------------------------------------------------------------------------
 */

static const struct bench_plan one = {.queue = "q",
                                      .host = "h:1",
                                      .prefix = "/p",
                                      .batch = 1,
                                      .pipeline = 1,
                                      .priorities = 1,
                                      .payload_bytes = 6};

static void written_is(const struct buf *out, const char *expected)
{
    assert_true(span_equal(buf_span(out), span_text(expected)));
}

static void one_job_is_enqueued_and_acked(void **state)
{
    (void)state;
    struct bench_writer w;
    struct buf out;
    unsigned jobs;
    buf_init(&out);
    assert_int_equal(bench_writer_init(&w, &one, 1), 0);
    assert_int_equal(bench_write_enqueue(&w, 1, &out), 0);
    const char *body = memmem(out.data, out.len, "\r\n\r\n", 4);
    size_t body_len = out.len - (size_t)(body + 4 - out.data);
    assert_int_equal(body_len, strlen("{\"payload\":\"xxxx\"}"));
    assert_int_equal(json_check(span_of(body + 4, body_len), NULL, NULL), 0);
    static const char head[] = "POST /p/v1/queues/q/jobs HTTP/1.1\r\nHost: h:1\r\n";
    assert_memory_equal(out.data, head, strlen(head));
    buf_clear(&out);
    assert_int_equal(
        bench_write_ack(&w,
                        SPAN_LITERAL("{\"x\":[{\"id\":1}],\"jobs\":[{\"payload\":{\"id\":\"no\"},"
                                     "\"id\":\"A\",\"token\":\"t\\\"1\"}]}"),
                        &out, &jobs),
        0);
    assert_int_equal(jobs, 1);
    written_is(&out, "POST /p/v1/jobs/A/ack HTTP/1.1\r\nHost: h:1\r\n"
                     "Content-Type: application/json\r\nContent-Length: 16\r\n\r\n"
                     "{\"token\":\"t\\\"1\"}");
    buf_clear(&out);
    assert_int_equal(bench_write_ack(&w, SPAN_LITERAL("{\"jobs\":[]}"), &out, &jobs), 0);
    assert_int_equal(jobs, 0);
    assert_int_equal(out.len, 0);
    buf_done(&out);
    bench_writer_done(&w);
}

static void many_jobs_are_enqueued_and_acked(void **state)
{
    (void)state;
    struct bench_plan plan = one;
    struct bench_writer w;
    struct buf out;
    unsigned jobs;
    plan.batch = 3;
    plan.priorities = 10;
    plan.delay_ms = 50;
    plan.prefix = "";
    buf_init(&out);
    assert_int_equal(bench_writer_init(&w, &plan, 1), 0);
    assert_int_equal(bench_write_enqueue(&w, 2, &out), 0);
    const char *body = (const char *)memmem(out.data, out.len, "\r\n\r\n", 4) + 4;
    struct span text = span_of(body, out.len - (size_t)(body - out.data));
    assert_int_equal(json_check(text, NULL, NULL), 0);
    assert_int_equal(bench_reply_count(text, "\"delay_ms\":50"), 2);
    assert_int_equal(bench_reply_count(text, "\"priority\":"), 2);
    buf_clear(&out);
    struct span claimed = SPAN_LITERAL("{\"jobs\":[{\"id\":\"A\",\"token\":\"1\"},"
                                       "{\"token\":\"2\",\"id\":\"B\"}]}");
    assert_int_equal(bench_write_ack(&w, claimed, &out, &jobs), 0);
    assert_int_equal(jobs, 2);
    written_is(&out, "POST /v1/ack HTTP/1.1\r\nHost: h:1\r\n"
                     "Content-Type: application/json\r\nContent-Length: 56\r\n\r\n"
                     "{\"jobs\":[{\"id\":\"A\",\"token\":\"1\"},{\"id\":\"B\",\"token\":\"2\"}]}");
    buf_done(&out);
    bench_writer_done(&w);
}

static void odd_claims_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"jobs\":{}}",
        "{\"jobs\":[1]}",
        "{\"jobs\":[{}]}",
        "{\"jobs\":[{\"id\":\"A\"}]}",
        "{\"jobs\":[{\"id\":\"\",\"token\":\"t\"}]}",
        "{\"jobs\":[{\"id\":1,\"token\":\"t\"}]}",
        "{\"jobs\":[{\"id\":\"A\",\"token\":\"t\"}",
    };
    struct bench_writer w;
    struct buf out;
    unsigned jobs;
    buf_init(&out);
    assert_int_equal(bench_writer_init(&w, &one, 1), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bench_write_ack(&w, span_text(bad[i]), &out, &jobs), -ERR_SYNTAX);
    buf_done(&out);
    bench_writer_done(&w);
}

static void answers_are_checked(void **state)
{
    (void)state;
    static const struct {
        enum bench_kind kind;
        unsigned jobs;
        int status;
        const char *body;
        unsigned errors;
    } cases[] = {
        {BENCH_KIND_ENQUEUE, 1, 201, "{\"id\":\"A\",\"created\":true}", 0},
        {BENCH_KIND_ENQUEUE, 1, 200, "{\"id\":\"A\",\"created\":false}", 1},
        {BENCH_KIND_ENQUEUE, 2, 200, "{\"jobs\":[{\"created\":true},{\"created\":true}]}", 0},
        {BENCH_KIND_ENQUEUE, 2, 200, "{\"jobs\":[{\"created\":true},{\"error\":{}}]}", 1},
        {BENCH_KIND_ENQUEUE, 5, 429, "", 5},
        {BENCH_KIND_ACK, 2, 200, "{\"jobs\":[{\"state\":\"done\"},{\"state\":\"done\"}]}", 0},
        {BENCH_KIND_ACK, 2, 200, "{\"jobs\":[{\"state\":\"done\"}]}", 1},
        {BENCH_KIND_ACK, 1, 409, "{}", 1},
        {BENCH_KIND_ACK, 1, 201, "{\"state\":\"done\"}", 1},
        {BENCH_KIND_CLAIM, 5, 200, "{\"jobs\":[]}", 0},
        {BENCH_KIND_CLAIM, 5, 500, "", 5},
        {BENCH_KIND_HEALTHZ, 1, 200, "", 0},
        {BENCH_KIND_HEALTHZ, 0, 503, "", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench_reply reply = {.status = cases[i].status, .body = span_text(cases[i].body)};
        assert_int_equal(bench_reply_errors(cases[i].kind, cases[i].jobs, &reply), cases[i].errors);
    }
}

static void a_writer_without_memory_says_so(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        struct bench_writer w;
        struct buf out;
        unsigned jobs;
        buf_init(&out);
        mem_fail_at(nth, 0);
        int rc = bench_writer_init(&w, &one, 1);
        if (rc == 0)
            rc = bench_write_enqueue(&w, 1, &out);
        if (rc == 0)
            rc = bench_write_ack(&w, SPAN_LITERAL("{\"jobs\":[{\"id\":\"A\",\"token\":\"t\"}]}"),
                                 &out, &jobs);
        long calls = mem_calls();
        mem_fail_at(0, 0);
        buf_done(&out);
        bench_writer_done(&w);
        if (calls < nth) {
            assert_int_equal(rc, 0);
            assert_true(nth > 1);
            return;
        }
        assert_true(rc < 0);
    }
}

/* ---- probes and report ------------------------------------------------------------------------
 */

static void processor_time_is_read(void **state)
{
    (void)state;
    uint64_t before = 0, after = 0, ns = 0;
    struct err_note note = {""};
    assert_int_equal(bench_probe_cpu(getpid(), &before, &note), 0);
    /* Far below a clock tick: a run of a few milliseconds must have a figure too. */
    for (uint64_t end = clock_ns() + 100000; clock_ns() < end;)
        ;
    assert_int_equal(bench_probe_cpu(getpid(), &after, &note), 0);
    assert_true(after > before && after - before < 1000000000);
    assert_int_equal(bench_probe_cpu(INT64_C(4294967296) + getpid(), &ns, &note), -ERR_NOT_FOUND);
    assert_int_equal(bench_probe_cpu(-1, &ns, &note), -ERR_NOT_FOUND);
    assert_non_null(strstr(note.text, "no process -1"));
}

static void syncs_are_counted(void **state)
{
    (void)state;
    double rate = -1;
    struct err_note note = {""};
    assert_int_equal(bench_probe_sync("/tmp", 20, &rate, &note), 0);
    assert_true(rate > 0);
    assert_int_equal(bench_probe_sync("/nonexistent/x", 20, &rate, &note), -ERR_IO);
    assert_non_null(strstr(note.text, "/nonexistent/x"));
}

static void the_report_is_valid_json(void **state)
{
    (void)state;
    struct bench_result *r = calloc(1, sizeof *r);
    r->enqueued = 500;
    r->errors = 1;
    r->elapsed_ns = 2000000000;
    snprintf(r->problem, sizeof r->problem, "quotes \" and \033");
    for (int i = 0; i < 100; i++)
        bench_histogram_add(&r->latency[BENCH_KIND_ENQUEUE], 1000000);
    struct bench_figures f = {.plan = &one, .result = r, .syncs_per_s = 123.4};
    f.has_server_cpu = true;
    f.server_cpu_ns = 5000000;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_int_equal(bench_report_json(&f, out), 0);
    fclose(out);
    assert_int_equal(json_check(span_of(text, len), NULL, NULL), 0);
    assert_non_null(strstr(text, "\"jobs_per_s\":250,"));
    assert_non_null(strstr(text, "\"requests_per_s\":50,"));
    assert_non_null(strstr(text, "\"server_cpu_ns_per_job\":10000,"));
    assert_non_null(strstr(text, "\"fdatasync_per_s\":123,"));
    free(text);
    out = open_memstream(&text, &len);
    assert_int_equal(bench_report_text(&f, out), 0);
    fclose(out);
    assert_non_null(strstr(text, "jobs/s       250\n"));
    assert_non_null(strstr(text, "server CPU   10.00 us a job"));
    free(text);
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_near_the_true_ones),
        cmocka_unit_test(the_edges_of_a_histogram),
        cmocka_unit_test(answers_are_read),
        cmocka_unit_test(what_is_no_answer_is_refused),
        cmocka_unit_test(one_job_is_enqueued_and_acked),
        cmocka_unit_test(many_jobs_are_enqueued_and_acked),
        cmocka_unit_test(odd_claims_are_refused),
        cmocka_unit_test(answers_are_checked),
        cmocka_unit_test(a_writer_without_memory_says_so),
        cmocka_unit_test(processor_time_is_read),
        cmocka_unit_test(syncs_are_counted),
        cmocka_unit_test(the_report_is_valid_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
