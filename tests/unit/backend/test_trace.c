/* SPDX-License-Identifier: Apache-2.0 */
/* The tracing wrapper: one line for each op and each reply, and never the content of a job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "unit/backend/wrapper_rig.h"
#include "wrappers/trace.h"

static struct rig rig;
static char *lines;
static size_t lines_bytes;
static FILE *out;

static void open_trace(void)
{
    rig_init(&rig);
    out = open_memstream(&lines, &lines_bytes);
    assert_non_null(out);
    assert_int_equal(backend_open_trace(&rig.fake->base, &rig.config, out, &rig.b), 0);
}

static void end(void)
{
    rig_close(&rig);
    rig_done(&rig);
    fclose(out);
    free(lines);
}

static void run(struct op op)
{
    assert_int_equal(rig_submit(&rig, &op, 1), 0);
    rig_drain(&rig);
    fflush(out);
}

static size_t line_count(void)
{
    size_t n = 0;
    for (size_t i = 0; i < lines_bytes; i++)
        n += lines[i] == '\n';
    return n;
}

static void test_lines(void **state)
{
    (void)state;
    open_trace();
    assert_string_equal(backend_kind(rig.b), "trace+fake");
    assert_int_equal(backend_caps(rig.b), CAP_STRICT_ORDER | CAP_SHARED);
    run(rig_claim());
    clock_manual_advance(&rig.clock, 5);
    run(rig_ack(17));
    assert_string_equal(lines, "1000 > claim tag=0 queue=a,b count=1\n"
                               "1000 < claim tag=0 ok jobs=1 first=101 token=1-1\n"
                               "1005 > ack tag=1 seq=17 token=1-7\n"
                               "1005 < ack tag=1 ok\n");
    end();
}

static void test_no_text_of_a_job_is_written(void **state)
{
    (void)state;
    static const char secret[] = "hunter2";
    struct span s = SPAN_LITERAL("hunter2");
    open_trace();
    run((struct op){.kind = OP_ENQUEUE,
                    .enqueue = {.queue = SPAN_LITERAL("q"),
                                .payload = s,
                                .extra = {.unique = s,
                                          .group = s,
                                          .correlation = s,
                                          .label = s,
                                          .attributes = s,
                                          .kind = s,
                                          .headers = s,
                                          .options = s},
                                .idempotency_key = s}});
    run((struct op){.kind = OP_FAIL, .lease = {.token = {1, 1}, .error = s, .result = s}});
    run((struct op){.kind = OP_PATCH, .patch = {.has_payload = true, .payload = s}});
    run((struct op){.kind = OP_QUEUE_PUT,
                    .queue = {.name = SPAN_LITERAL("q"), .note = s, .owner = s, .attributes = s}});
    run(rig_claim());
    run((struct op){.kind = OP_QUEUE_GET, .queue = {.name = SPAN_LITERAL("q")}});
    assert_null(strstr(lines, secret));
    assert_null(strstr(lines, "a text of the fake backend"));
    assert_non_null(strstr(lines, "> enqueue tag=0 queue=q bytes=7 unique keyed\n"));
    end();
}

static void test_names_cannot_forge_lines(void **state)
{
    (void)state;
    open_trace();
    run((struct op){.kind = OP_QUEUE_GET, .queue = {.name = SPAN_LITERAL("a b\n1 < ack,\\\x01é")}});
    assert_non_null(strstr(lines, " queue=a\\x20b\\x0a1\\x20<\\x20ack\\x2c\\x5c\\x01\\xc3\\xa9\n"));
    assert_int_equal(line_count(), 2);
    end();
}

/* The longest names, in a claim of the most queues, still make one line. */
static void test_long_lines_are_cut(void **state)
{
    (void)state;
    static char name[LIMIT_QUEUE_NAME_BYTES];
    static struct span queues[LIMIT_QUEUES_PER_CLAIM];
    memset(name, '\n', sizeof name);
    for (size_t i = 0; i < LIMIT_QUEUES_PER_CLAIM; i++)
        queues[i] = span_of(name, sizeof name);
    open_trace();
    run((struct op){
        .kind = OP_CLAIM,
        .claim = {.queues = queues, .queue_count = LIMIT_QUEUES_PER_CLAIM, .count = 1}});
    assert_int_equal(line_count(), 2);
    end();
}

static void test_every_kind_has_a_line(void **state)
{
    (void)state;
    open_trace();
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        run((struct op){.kind = (enum op_kind)kind});
    assert_int_equal(line_count(), 2 * OP_KIND_COUNT);
    assert_null(strstr(lines, "(null)"));
    end();
}

static void test_refused_submit(void **state)
{
    (void)state;
    open_trace();
    rig.fake->submit_rc = -ERR_CLOSED;
    struct op op = rig_get(3);
    assert_int_equal(rig_submit(&rig, &op, 1), -ERR_CLOSED);
    fflush(out);
    assert_string_equal(lines, "1000 > get tag=0 seq=3\n1000 ! submit of 1: already closed\n");
    mem_fail_at(1, 0);
    assert_int_equal(rig_submit(&rig, &op, 1), -ERR_NOMEM);
    mem_fail_at(0, 0);
    end();
}

static void test_watches_and_figures_pass(void **state)
{
    (void)state;
    open_trace();
    struct backend_watch *w;
    assert_int_equal(backend_watch(rig.b, SPAN_LITERAL("q"), rig_signal_cb, &rig, &w), 0);
    fake_signal(rig.fake);
    assert_int_equal(rig.signals, 1);
    backend_unwatch(rig.b, w);
    assert_false(rig.fake->watching);
    run(rig_get(1));
    struct backend_figures figures;
    backend_figures(rig.b, &figures);
    assert_int_equal(figures.jobs, 1);
    end();
}

static void count_cb(void *ctx)
{
    ++*(unsigned *)ctx;
}

static void test_events_and_settle_pass(void **state)
{
    (void)state;
    open_trace();
    struct backend_event v[4];
    uint64_t oldest;
    unsigned news = 0, settled = 0;
    rig.fake->events_last = 3;
    assert_int_equal(backend_events_last(rig.b), 3);
    assert_int_equal(backend_events(rig.b, 1, 0, v, 4, &oldest), 2);
    assert_int_equal(oldest, 1);
    backend_on_news(rig.b, count_cb, &news);
    rig.fake->news_fn(rig.fake->news_ctx);
    assert_int_equal(news, 1);
    assert_int_equal(backend_settle(rig.b, count_cb, &settled), 0);
    assert_int_equal(settled, 0);
    fake_settled(rig.fake);
    assert_int_equal(settled, 1);
    end();
}

static void test_close_with_ops_outstanding(void **state)
{
    (void)state;
    open_trace();
    rig.fake->manual = true;
    struct op ops[3] = {rig_get(1), rig_claim(), rig_ack(2)};
    assert_int_equal(rig_submit(&rig, ops, 3), 0);
    rig_close(&rig);
    assert_int_equal(rig.order_count, 3);
    assert_true(rig.texts_ok);
    assert_int_equal(line_count(), 6);
    rig_done(&rig);
    fclose(out);
    free(lines);
}

static void test_open_without_memory(void **state)
{
    (void)state;
    rig_init(&rig);
    mem_fail_at(1, 0);
    assert_int_equal(backend_open_trace(&rig.fake->base, &rig.config, stderr, &rig.b), -ERR_NOMEM);
    mem_fail_at(0, 0);
    rig_done(&rig);
    assert_true(rig.fake_gone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_no_text_of_a_job_is_written),
        cmocka_unit_test(test_names_cannot_forge_lines),
        cmocka_unit_test(test_long_lines_are_cut),
        cmocka_unit_test(test_every_kind_has_a_line),
        cmocka_unit_test(test_refused_submit),
        cmocka_unit_test(test_watches_and_figures_pass),
        cmocka_unit_test(test_events_and_settle_pass),
        cmocka_unit_test(test_close_with_ops_outstanding),
        cmocka_unit_test(test_open_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
