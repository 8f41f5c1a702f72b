/* SPDX-License-Identifier: Apache-2.0 */
/* The server's ordinary business: keep-alive, pipelining, methods, versions, bodies. */
#include "unit/http/http_rig.h"

#include <sys/socket.h>

static void keep_alive(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char head[2048], body[64];
    http_rig_begin(&r, &c);
    peer_send(&r, &c, GET("/now"));
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 200);
    assert_non_null(strstr(head, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(head, "\r\nContent-Type: text/plain\r\n"));
    assert_non_null(strstr(head, "\r\nContent-Length: 3\r\n"));
    assert_non_null(strstr(head, "\r\nX-Content-Type-Options: nosniff\r\n"));
    assert_null(strstr(head, "Connection:"));
    peer_until(&r, &c, "now");
    c.len = 0;
    for (int i = 0; i < 100; i++) {
        peer_send(&r, &c,
                  "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
        assert_int_equal(peer_answer(&r, &c, body, sizeof body), 200);
        assert_string_equal(body, "hello");
    }
    assert_int_equal(r.handled, 101);
    assert_string_equal(r.last_peer, "127.0.0.1");
    assert_int_equal(http_rig_figures(&r).accepted, 1);
    assert_int_equal(http_rig_figures(&r).requests, 101);
    assert_int_equal(http_rig_figures(&r).by_status[2], 101);
    http_rig_end(&r, &c);
}

static void date_follows_the_clock(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char head[2048];
    struct clock_manual clock = {{{0}, {784111777999}}};
    http_rig_init(&r);
    r.config.clock = clock_manual(&clock);
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, GET("/now"));
    peer_head(&r, &c, head, sizeof head);
    assert_non_null(strstr(head, "\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
    clock_manual_advance(&clock, 1);
    /* The second was all but over: the next one shows as soon as the loop's time has moved on. */
    RIG_UNTIL(&r, uv_now(&r.loop) > 0);
    uint64_t before = uv_now(&r.loop);
    RIG_UNTIL(&r, uv_now(&r.loop) > before);
    peer_until(&r, &c, "now");
    c.len = 0;
    peer_send(&r, &c, GET("/now"));
    peer_head(&r, &c, head, sizeof head);
    assert_non_null(strstr(head, "\r\nDate: Sun, 06 Nov 1994 08:49:38 GMT\r\n"));
    http_rig_end(&r, &c);
}

/* Answers leave in the order of the requests, whatever the order in which they were given. */
static void pipelining_order(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char body[64];
    static const size_t order[] = {3, 1, 0, 4, 2};
    http_rig_begin(&r, &c);
    peer_send(&r, &c,
              GET("/park/0") GET("/park/1") GET("/park/2") GET("/park/3") GET("/park/4")
                  GET("/now"));
    RIG_UNTIL(&r, r.handled == 6);
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        char text[8] = {(char)('a' + order[i]), 0};
        http_rig_answer(&r, order[i], text);
        for (int turn = 0; turn < 3; turn++)
            http_rig_turn(&r);
    }
    for (size_t i = 0; i < 5; i++) {
        char text[8] = {(char)('a' + i), 0};
        assert_int_equal(peer_answer(&r, &c, body, sizeof body), 200);
        assert_string_equal(body, text);
        assert_int_equal(r.order[i], i);
    }
    assert_int_equal(peer_answer(&r, &c, body, sizeof body), 200);
    assert_string_equal(body, "now");
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(r.parked[i].sent, 1);
        assert_true(r.parked[i].whole);
        assert_int_equal(r.parked[i].gone, 0);
    }
    http_rig_end(&r, &c);
}

/* Everything that is ready leaves together. */
static void written_together(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_begin(&r, &c);
    peer_send(&r, &c, GET("/park/0") GET("/park/1") GET("/park/2"));
    RIG_UNTIL(&r, r.handled == 3);
    http_rig_answer(&r, 2, "c");
    http_rig_answer(&r, 1, "b");
    http_rig_answer(&r, 0, "a");
    client_poll(&c);
    assert_int_equal(c.len, 0);
    RIG_UNTIL(&r, client_poll(&c) && c.len > 0);
    assert_int_equal(r.sent_count, 3);
    assert_int_equal(c.data[c.len - 1], 'c');
    http_rig_end(&r, &c);
}

static void pipeline_bound(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_init(&r);
    r.config.pipeline_max = 3;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c,
              GET("/park/0") GET("/park/1") GET("/park/2") GET("/park/3") GET("/park/4")
                  GET("/park/5") GET("/park/6"));
    RIG_UNTIL(&r, r.handled == 3);
    for (int turn = 0; turn < 20; turn++)
        http_rig_turn(&r);
    assert_int_equal(r.handled, 3);
    http_rig_answer(&r, 1, "1"); /* not the first: nothing leaves, nothing comes */
    for (int turn = 0; turn < 20; turn++)
        http_rig_turn(&r);
    assert_int_equal(r.handled, 3);
    http_rig_answer(&r, 0, "0");
    RIG_UNTIL(&r, r.handled == 5);
    http_rig_answer(&r, 2, "2");
    RIG_UNTIL(&r, r.handled == 6);
    for (size_t i = 3; i < 6; i++)
        http_rig_answer(&r, i, "x");
    RIG_UNTIL(&r, r.handled == 7);
    http_rig_answer(&r, 6, "6");
    for (int i = 0; i < 7; i++)
        assert_int_equal(peer_answer(&r, &c, NULL, 0), 200);
    http_rig_end(&r, &c);
}

/* Thousands of requests in one go, in cuts that hit every place of a request. */
static void pipeline_deep(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char request[256], *all = malloc(4000 * 128);
    size_t len = 0;
    assert_non_null(all);
    http_rig_init(&r);
    r.config.pipeline_max = 7;
    http_rig_start_with(&r, &c);
    for (unsigned i = 0; i < 4000; i++) {
        int n =
            snprintf(request, sizeof request,
                     "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n%04u", i);
        memcpy(all + len, request, (size_t)n);
        len += (size_t)n;
    }
    for (size_t at = 0, step = 1; at < len; at += step) {
        step = step * 3 % 4999 + 1;
        step = step < len - at ? step : len - at;
        peer_send_bytes(&r, &c, all + at, step);
        client_poll(&c);
    }
    for (unsigned i = 0; i < 4000; i++) {
        char body[64], want[16];
        snprintf(want, sizeof want, "%04u", i);
        assert_int_equal(peer_answer(&r, &c, body, sizeof body), 200);
        assert_string_equal(body, want);
    }
    free(all);
    http_rig_end(&r, &c);
}

static void methods(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char head[2048];
    static const struct {
        const char *request;
        unsigned status;
        const char *allow;
    } rows[] = {
        {GET("/nothing"), 404, NULL},
        {GET("/now/"), 404, NULL},
        {GET("/park/"), 404, NULL},
        {"POST /now HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "Allow: GET, HEAD, OPTIONS\r\n"},
        {"POST /now HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 405,
         "Allow: GET, HEAD, OPTIONS\r\n"},
        {"DELETE /park/1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405,
         "Allow: GET, HEAD, POST, OPTIONS\r\n"},
        {"HEAD /claim HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "Allow: GET, OPTIONS\r\n"},
        {"HEAD /echo HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "Allow: POST, OPTIONS\r\n"},
        {"OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\n\r\n", 204, "Allow: POST, OPTIONS\r\n"},
        {"OPTIONS /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, NULL},
        {"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 204,
         "Allow: GET, HEAD, POST, PUT, OPTIONS\r\n"},
        {"BREW /now HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, NULL},
    };
    http_rig_begin(&r, &c);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        peer_send(&r, &c, rows[i].request);
        unsigned got = peer_head(&r, &c, head, sizeof head);
        if (got != rows[i].status || (rows[i].allow && !strstr(head, rows[i].allow)))
            fail_msg("%s answered by %s", rows[i].request, head);
        assert_true((got == 204) == !strstr(head, "Content-Length"));
        const char *length = strstr(head, "Content-Length: ");
        size_t len = length ? strtoul(length + 16, NULL, 10) : 0;
        if (strncmp(rows[i].request, "HEAD", 4) == 0)
            len = 0;
        RIG_UNTIL(&r, client_poll(&c) && c.len >= len);
        memmove(c.data, c.data + len, c.len - len + 1);
        c.len -= len;
    }
    assert_int_equal(r.handled, 0);
    peer_send(&r, &c, "HEAD /now HTTP/1.1\r\nHost: localhost\r\n\r\n" GET("/now"));
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 200);
    assert_non_null(strstr(head, "Content-Length: 3\r\n"));
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 200);
    peer_until(&r, &c, "now");
    http_rig_end(&r, &c);
}

static void path_params(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_begin(&r, &c);
    expect_status(&r, &c, GET("/name/a%2Fb%20c"), 200);
    assert_true(span_equal(r.last_param, SPAN_LITERAL("a/b c")));
    expect_status(&r, &c, GET("/name/plain?x=1"), 200);
    assert_true(span_equal(r.last_param, SPAN_LITERAL("plain")));
    expect_status(&r, &c, GET("/name/%ff"), 400);
    expect_status(&r, &c, GET("/name/%00"), 400);
    expect_status(&r, &c, GET("/name/x"), 200); /* the connection goes on */
    http_rig_end(&r, &c);
}

static void http_1_0(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char head[2048];
    http_rig_begin(&r, &c);
    peer_send(&r, &c, "GET /now HTTP/1.0\r\n\r\n");
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 200);
    assert_non_null(strstr(head, "Connection: close\r\n"));
    peer_until_eof(&r, &c);
    assert_true(c.eof);
    net_client_close(&c);
    peer_open(&r, &c);
    for (int i = 0; i < 2; i++) {
        peer_send(&r, &c, "GET /now HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_int_equal(peer_head(&r, &c, head, sizeof head), 200);
        assert_non_null(strstr(head, "Connection: keep-alive\r\n"));
        peer_until(&r, &c, "now");
        c.len = 0;
    }
    peer_send(&r, &c,
              "GET /now HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" GET("/now"));
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 200);
    assert_non_null(strstr(head, "Connection: close\r\n"));
    peer_until_eof(&r, &c);
    assert_string_equal(c.data, "now");
    http_rig_end(&r, &c);
}

static void chunked_bodies(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char body[64];
    static const char request[] = "POST /echo HTTP/1.1\r\nHost: localhost\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\n"
                                  "5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\nX-Sum: 1\r\n\r\n";
    http_rig_begin(&r, &c);
    for (size_t cut = 0; cut < sizeof request; cut++) {
        peer_send_bytes(&r, &c, request, cut);
        peer_send_bytes(&r, &c, request + cut, sizeof request - 1 - cut);
        assert_int_equal(peer_answer(&r, &c, body, sizeof body), 200);
        assert_string_equal(body, "hello, world");
    }
    expect_status(&r, &c,
                  "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz",
                  400);
    peer_until_eof(&r, &c);
    http_rig_end(&r, &c);
}

#define EXPECTING(path, length)                                                                    \
    "POST " path " HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " length \
    "\r\n\r\n"

static void expect_continue(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char head[2048], body[64];
    http_rig_begin(&r, &c);
    peer_send(&r, &c, EXPECTING("/echo", "5"));
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 100);
    peer_send(&r, &c, "hello");
    assert_int_equal(peer_answer(&r, &c, body, sizeof body), 200);
    assert_string_equal(body, "hello");
    /* Behind a request under way it comes when its turn has come. */
    peer_send(&r, &c, GET("/park/0") EXPECTING("/echo", "2"));
    RIG_UNTIL(&r, r.parked[0].taken == 1);
    for (int turn = 0; turn < 10; turn++)
        http_rig_turn(&r);
    client_poll(&c);
    assert_int_equal(c.len, 0);
    http_rig_answer(&r, 0, "first");
    assert_int_equal(peer_answer(&r, &c, body, sizeof body), 200);
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 100);
    peer_send(&r, &c, "ok");
    assert_int_equal(peer_answer(&r, &c, body, sizeof body), 200);
    assert_string_equal(body, "ok");
    http_rig_end(&r, &c);
}

/* The body comes with the head: no interim answer. */
static void continue_not_needed(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char body[64];
    http_rig_begin(&r, &c);
    peer_send(&r, &c, EXPECTING("/echo", "5") "hello");
    assert_int_equal(peer_answer(&r, &c, body, sizeof body), 200);
    assert_string_equal(body, "hello");
    http_rig_end(&r, &c);
}

static void expect_refused(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    static const struct {
        const char *request;
        unsigned status;
    } rows[] = {
        {EXPECTING("/nothing", "5"), 404},
        {EXPECTING("/now", "5"), 405},
        {EXPECTING("/echo", "99999999999"), 413},
    };
    http_rig_init(&r);
    http_rig_start(&r);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        peer_open(&r, &c);
        expect_status(&r, &c, rows[i].request, rows[i].status);
        peer_until_eof(&r, &c);
        assert_true(c.eof);
        net_client_close(&c);
    }
    assert_int_equal(r.handled, 0);
    http_rig_done(&r);
}

static void answer_in_prepare_cb(uv_prepare_t *prepare)
{
    struct http_rig *r = prepare->data;
    if (r->parked[0].x)
        http_rig_answer(r, 0, "prepared");
}

/* An answer that is given after the server's own turn (the loop runs the handle that was started
 * first last) must not lie there until something else wakes the loop. How long it took. */
static uint64_t answer_in_prepare(bool before_the_server)
{
    struct http_rig r;
    struct client c;
    uv_prepare_t prepare;
    http_rig_init(&r);
    uv_prepare_init(&r.loop, &prepare);
    prepare.data = &r;
    if (before_the_server)
        uv_prepare_start(&prepare, answer_in_prepare_cb);
    http_rig_start(&r);
    if (!before_the_server)
        uv_prepare_start(&prepare, answer_in_prepare_cb);
    peer_open(&r, &c);
    peer_send(&r, &c, GET("/park/0"));
    while (r.parked[0].taken == 0)
        uv_run(&r.loop, UV_RUN_ONCE);
    uint64_t start = clock_ns();
    for (int turn = 0; turn < 2 && r.parked[0].sent == 0; turn++)
        uv_run(&r.loop, UV_RUN_ONCE); /* waits for the tick when there is nothing to do */
    assert_int_equal(r.parked[0].sent, 1);
    uint64_t took = r.sent_ns - start;
    net_client_close(&c);
    uv_close((uv_handle_t *)&prepare, NULL);
    http_rig_done(&r);
    return took;
}

static void answer_in_other_prepare(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        uint64_t best = UINT64_MAX; /* the machine may be busy with others */
        for (int tries = 0; tries < 10 && best >= UINT64_C(200000000); tries++) {
            uint64_t took = answer_in_prepare(before);
            best = took < best ? took : best;
        }
        assert_true(best < UINT64_C(200000000));
    }
}

static void problem_cb(struct http_exchange *x, unsigned status, const char *type,
                       const char *title, const char *detail)
{
    int r = buf_printf(http_answer_body(x), "%u|%s|%s|%s", status, type, title, detail);
    http_answer(x, status, r == 0 ? "application/problem+json" : NULL);
}

static void problem_documents(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char head[2048];
    http_rig_init(&r);
    r.config.problem = problem_cb;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, GET("/nothing"));
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 404);
    assert_non_null(strstr(head, "Content-Type: application/problem+json\r\n"));
    peer_until(&r, &c, "404|not_found|");
    peer_until(&r, &c, "that the server knows."); /* all of it */
    c.len = 0;
    peer_send(&r, &c, "GET / HTTP/9.9\r\n\r\n");
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 505);
    peer_until(&r, &c, "505|version_not_supported|");
    http_rig_end(&r, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keep_alive),        cmocka_unit_test(date_follows_the_clock),
        cmocka_unit_test(pipelining_order),  cmocka_unit_test_plain_only(written_together),
        cmocka_unit_test(pipeline_bound),    cmocka_unit_test(pipeline_deep),
        cmocka_unit_test(methods),           cmocka_unit_test(path_params),
        cmocka_unit_test(http_1_0),          cmocka_unit_test(chunked_bodies),
        cmocka_unit_test(expect_continue),   cmocka_unit_test_plain_only(continue_not_needed),
        cmocka_unit_test(expect_refused),    cmocka_unit_test_plain_only(answer_in_other_prepare),
        cmocka_unit_test(problem_documents),
    };
    return RUN_OVER_STREAMS(tests);
}
