/* SPDX-License-Identifier: Apache-2.0 */
/* Whole runs of the load generator against a server that counts what it was asked. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "cli/bench/worker.h"
#include "cli/client/terminal/interrupt.h"
#include "unit/cli/client/http/canned.h"

/* A queue that is a number: what was enqueued and not claimed. All on the server's thread. */
struct world {
    struct canned server;
    unsigned ready, claimed, acked, enqueued, requests;
    unsigned break_at; /* this request loses its connection; 0: none */
    unsigned fail_at;  /* this one is answered 503 */
    unsigned vain_ms;  /* how long a claim waits that gets nothing */
};

static unsigned count_of(const char *text, const char *needle)
{
    unsigned count = 0;
    for (; (text = strstr(text, needle)); text++)
        count++;
    return count;
}

static void outcomes(struct buf *out, unsigned count, const char *outcome, bool array)
{
    struct buf json;
    buf_init(&json);
    int rc = buf_append_text(&json, array ? "{\"jobs\":[" : "");
    for (unsigned i = 0; i < count && rc == 0; i++)
        rc = buf_printf(&json, "%s%s", i > 0 ? "," : "", outcome);
    if (rc == 0)
        rc = buf_append(&json, array ? "]}" : "", array ? 3 : 1);
    assert_int_equal(rc, 0);
    canned_json(out, array ? 200 : 201, json.data);
    buf_done(&json);
}

static void enqueue(struct world *w, const char *request, struct buf *out)
{
    unsigned jobs = count_of(request, "\"payload\":");
    w->ready += jobs;
    w->enqueued += jobs;
    outcomes(out, jobs, "{\"id\":\"A\",\"created\":true}", strstr(request, "\r\n\r\n[") != NULL);
}

static void claim(struct world *w, const char *request, struct buf *out)
{
    unsigned want = (unsigned)strtoul(strstr(request, "\"count\":") + 8, NULL, 10);
    unsigned jobs = want < w->ready ? want : w->ready;
    if (jobs == 0 && w->vain_ms > 0)
        usleep(w->vain_ms * 1000); /* the time itself is what is tested */
    w->ready -= jobs;
    w->claimed += jobs;
    outcomes(out, jobs, "{\"id\":\"A\",\"token\":\"t\"}", true);
}

static void ack(struct world *w, const char *request, struct buf *out)
{
    unsigned jobs = count_of(request, "\"token\":");
    w->acked += jobs;
    if (strstr(request, "POST /v1/ack "))
        outcomes(out, jobs, "{\"id\":\"A\",\"state\":\"done\"}", true);
    else
        canned_json(out, 200, "{\"id\":\"A\",\"state\":\"done\"}");
}

static bool answer(void *ctx, const char *request, struct buf *out)
{
    struct world *w = ctx;
    w->requests++;
    if (w->requests == w->break_at)
        return false;
    if (w->requests == w->fail_at)
        canned_json(out, 503, "{\"detail\":\"not now\"}");
    else if (strstr(request, "GET /healthz "))
        canned_json(out, 200, "{}");
    else if (strstr(request, "/claim "))
        claim(w, request, out);
    else if (strstr(request, "/jobs HTTP"))
        enqueue(w, request, out);
    else
        ack(w, request, out);
    return true;
}

static struct bench_plan plan_for(struct world *w, enum bench_mode mode)
{
    struct bench_plan plan = {.mode = mode,
                              .queue = "q",
                              .host = "localhost",
                              .prefix = "",
                              .connections = 4,
                              .threads = 1,
                              .batch = 1,
                              .pipeline = 1,
                              .priorities = 1,
                              .payload_bytes = 10,
                              .duration_ms = 10000};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    address.sin_port = htons((uint16_t)strtoul(strrchr(w->server.url, ':') + 1, NULL, 10));
    memcpy(&plan.address, &address, sizeof address);
    plan.address_len = sizeof address;
    return plan;
}

/* Runs it and stops the server, so that its counts can be read. */
static struct bench_result *run(struct world *w, const struct bench_plan *plan)
{
    struct bench_result *r = calloc(1, sizeof *r);
    struct err_note note = {""};
    bool interrupted = true;
    client_interrupt_hold();
    assert_int_equal(bench_run(plan, r, &interrupted, &note), 0);
    assert_false(interrupted);
    canned_stop(&w->server);
    return r;
}

static void jobs_are_all_enqueued(void **state)
{
    (void)state;
    struct world w = {.ready = 0};
    canned_start(&w.server, NULL, answer, &w);
    struct bench_plan plan = plan_for(&w, BENCH_ENQUEUE);
    plan.jobs = 1003;
    plan.batch = 10;
    plan.threads = 2;
    plan.connections = 5;
    plan.pipeline = 3;
    struct bench_result *r = run(&w, &plan);
    assert_int_equal(w.enqueued, 1003);
    assert_int_equal(r->enqueued, 1003);
    assert_int_equal(r->errors, 0);
    assert_int_equal(r->latency[BENCH_KIND_ENQUEUE].total, 101);
    assert_int_equal(bench_result_jobs(&plan, r), 1003);
    free(r);
}

static void cycles_leave_nothing(void **state)
{
    (void)state;
    for (unsigned batch = 1; batch <= 7; batch += 6) {
        struct world w = {.ready = 0};
        canned_start(&w.server, NULL, answer, &w);
        struct bench_plan plan = plan_for(&w, BENCH_CYCLE);
        plan.jobs = 500;
        plan.batch = batch;
        plan.pipeline = 2;
        struct bench_result *r = run(&w, &plan);
        assert_int_equal(w.enqueued, 500);
        assert_int_equal(w.acked, 500);
        assert_int_equal(w.ready, 0);
        assert_int_equal(r->acked, 500);
        assert_int_equal(r->errors, 0);
        free(r);
    }
}

static void a_cycle_by_time_ends_clean(void **state)
{
    (void)state;
    struct world w = {.ready = 0};
    canned_start(&w.server, NULL, answer, &w);
    struct bench_plan plan = plan_for(&w, BENCH_CYCLE);
    plan.duration_ms = 200;
    plan.batch = 5;
    struct bench_result *r = run(&w, &plan);
    assert_true(r->acked > 0);
    assert_int_equal(w.enqueued, w.acked);
    assert_true(r->acked <= w.acked);
    assert_int_equal(r->elapsed_ns, 200000000);
    assert_int_equal(r->errors, 0);
    free(r);
}

static void claims_take_what_is_there(void **state)
{
    (void)state;
    struct world w = {.ready = 95};
    canned_start(&w.server, NULL, answer, &w);
    struct bench_plan plan = plan_for(&w, BENCH_CLAIM);
    plan.batch = 10;
    struct bench_result *r = run(&w, &plan);
    assert_int_equal(r->acked, 95);
    assert_int_equal(w.acked, 95);
    assert_int_equal(r->errors, 0);
    free(r);
}

static void a_claim_in_vain_does_not_lengthen_the_run(void **state)
{
    (void)state;
    struct world w = {.ready = 20, .vain_ms = 500};
    canned_start(&w.server, NULL, answer, &w);
    struct bench_plan plan = plan_for(&w, BENCH_CLAIM);
    plan.connections = 1;
    uint64_t before = clock_ns();
    struct bench_result *r = run(&w, &plan);
    assert_int_equal(r->acked, 20);
    assert_true(r->elapsed_ns + 500000000 <= clock_ns() - before);
    free(r);
}

static void a_mixed_run_ends_every_job(void **state)
{
    (void)state;
    struct world w = {.fail_at = 3}; /* whatever the third request is, the run ends */
    canned_start(&w.server, NULL, answer, &w);
    struct bench_plan plan = plan_for(&w, BENCH_MIXED);
    plan.jobs = 300;
    plan.producers = 2;
    plan.batch = 4;
    plan.threads = 2;
    struct bench_result *r = run(&w, &plan);
    assert_int_equal(w.ready, 0);
    assert_int_equal(w.acked, w.claimed);
    assert_true(r->errors > 0);
    assert_non_null(strstr(r->problem, "503: not now"));
    free(r);
}

static void healthz_counts_requests(void **state)
{
    (void)state;
    struct world w = {.ready = 0};
    canned_start(&w.server, NULL, answer, &w);
    struct bench_plan plan = plan_for(&w, BENCH_HEALTHZ);
    plan.jobs = 200;
    plan.pipeline = 16;
    struct bench_result *r = run(&w, &plan);
    assert_int_equal(w.requests, 200);
    assert_int_equal(bench_result_jobs(&plan, r), 200);
    assert_int_equal(bench_result_requests(r), 200);
    free(r);
}

static void a_lost_connection_is_an_error(void **state)
{
    (void)state;
    struct world w = {.break_at = 50};
    canned_start(&w.server, NULL, answer, &w);
    struct bench_plan plan = plan_for(&w, BENCH_ENQUEUE);
    plan.jobs = 200;
    struct bench_result *r = run(&w, &plan);
    assert_int_equal(r->errors, 1);
    assert_int_equal(r->enqueued, 199);
    assert_non_null(strstr(r->problem, "a connection was lost"));
    free(r);
}

static void no_server_is_said(void **state)
{
    (void)state;
    struct world w = {.ready = 0};
    struct bench_result *r = calloc(1, sizeof *r);
    struct err_note note = {""};
    bool interrupted;
    canned_start(&w.server, NULL, answer, &w);
    struct bench_plan plan = plan_for(&w, BENCH_HEALTHZ);
    canned_stop(&w.server);
    assert_int_equal(bench_run(&plan, r, &interrupted, &note), -ERR_IO);
    assert_non_null(strstr(note.text, "cannot connect"));
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_all_enqueued),
        cmocka_unit_test(cycles_leave_nothing),
        cmocka_unit_test(a_cycle_by_time_ends_clean),
        cmocka_unit_test(claims_take_what_is_there),
        cmocka_unit_test(a_claim_in_vain_does_not_lengthen_the_run),
        cmocka_unit_test(a_mixed_run_ends_every_job),
        cmocka_unit_test(healthz_counts_requests),
        cmocka_unit_test(a_lost_connection_is_an_error),
        cmocka_unit_test(no_server_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
