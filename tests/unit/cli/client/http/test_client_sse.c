/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of events: the same events however the bytes are cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/client/http/sse.h"

struct seen {
    struct buf text; /* "event|id|data;" for each */
    int stop_after;  /* 0: never */
};

static int event_cb(void *ctx, const struct client_sse_event *e)
{
    struct seen *seen = ctx;
    int rc = buf_printf(&seen->text, "%.*s|%.*s|%.*s;", (int)e->event.len, e->event.at,
                        (int)e->id.len, e->id.at ? e->id.at : "", (int)e->data.len, e->data.at);
    if (rc < 0)
        return rc;
    return seen->stop_after && --seen->stop_after == 0 ? 77 : 0;
}

static const char stream[] = "\xef\xbb\xbf: hello\n\n"
                             "event: dead\nid: 5\ndata: {\"a\":1}\n\n"
                             "data:two\ndata: lines\n\n"
                             "event: nothing\n\n"
                             "id: 6\r\nretry: 10\r\ndata\r\n\r\n"
                             "unknown: x\rid\rdata: y\r\r"
                             "data: unfinished";
static const char expected[] = "dead|5|{\"a\":1};message|5|two\nlines;message|6|;message||y;";

static void pieces_do_not_matter(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < sizeof stream; cut++) {
        struct seen seen = {.stop_after = 0};
        struct client_sse sse;
        client_sse_init(&sse, event_cb, &seen);
        for (size_t at = 0; at < sizeof stream - 1; at += cut) {
            size_t len = sizeof stream - 1 - at < cut ? sizeof stream - 1 - at : cut;
            assert_int_equal(client_sse_feed(&sse, span_of(stream + at, len)), 0);
        }
        assert_true(span_equal(buf_span(&seen.text), SPAN_LITERAL(expected)));
        client_sse_done(&sse);
        buf_done(&seen.text);
    }
}

static void the_caller_can_end_it(void **state)
{
    (void)state;
    struct seen seen = {.stop_after = 2};
    struct client_sse sse;
    client_sse_init(&sse, event_cb, &seen);
    assert_int_equal(client_sse_feed(&sse, SPAN_LITERAL("data: 1\n\ndata: 2\n\ndata: 3\n\n")), 77);
    assert_true(span_equal(buf_span(&seen.text), SPAN_LITERAL("message||1;message||2;")));
    client_sse_done(&sse);
    buf_done(&seen.text);
}

static void a_restart_keeps_the_id_only(void **state)
{
    (void)state;
    struct seen seen = {.stop_after = 0};
    struct client_sse sse;
    client_sse_init(&sse, event_cb, &seen);
    assert_int_equal(client_sse_feed(&sse, SPAN_LITERAL("id: 9\nevent: half\ndata: ha")), 0);
    client_sse_restart(&sse);
    assert_int_equal(client_sse_feed(&sse, SPAN_LITERAL("data: new\n\n")), 0);
    assert_true(span_equal(buf_span(&seen.text), SPAN_LITERAL("message|9|new;")));
    client_sse_done(&sse);
    buf_done(&seen.text);
}

static void an_endless_event_is_refused(void **state)
{
    (void)state;
    static char x[1 << 20];
    struct seen seen = {.stop_after = 0};
    struct client_sse sse;
    int rc = 0;
    memset(x, 'x', sizeof x);
    client_sse_init(&sse, event_cb, &seen);
    for (int i = 0; i < 9 && rc == 0; i++)
        rc = client_sse_feed(&sse, span_of(x, sizeof x));
    assert_int_equal(rc, -ERR_TOO_BIG);
    client_sse_done(&sse);
    client_sse_init(&sse, event_cb, &seen);
    rc = 0;
    for (int i = 0; i < 9 && rc == 0; i++) {
        rc = client_sse_feed(&sse, SPAN_LITERAL("data: "));
        if (rc == 0)
            rc = client_sse_feed(&sse, span_of(x, sizeof x));
        if (rc == 0)
            rc = client_sse_feed(&sse, SPAN_LITERAL("\n"));
    }
    assert_int_equal(rc, -ERR_TOO_BIG);
    client_sse_done(&sse);
}

static void no_memory_is_reported(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        struct seen seen = {.stop_after = 0};
        struct client_sse sse;
        client_sse_init(&sse, event_cb, &seen);
        mem_fail_at(nth, 0);
        int rc = client_sse_feed(&sse, SPAN_LITERAL("id: 1\nevent: e\ndata: x\ndata: y\n\n"));
        long calls = mem_calls();
        mem_fail_at(0, 0);
        client_sse_done(&sse);
        buf_done(&seen.text);
        if (calls < nth) {
            assert_int_equal(rc, 0);
            assert_true(nth > 1);
            return;
        }
        assert_int_equal(rc, -ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(the_caller_can_end_it),
        cmocka_unit_test(a_restart_keeps_the_id_only),
        cmocka_unit_test(an_endless_event_is_refused),
        cmocka_unit_test(no_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
