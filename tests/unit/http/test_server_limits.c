/* SPDX-License-Identifier: Apache-2.0 */
/* Everything has a limit with a defined answer: sizes, times, connections, descriptors. */
#include "unit/http/http_rig.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- sizes ----------------------------------------------------------------------------------- */

/* A GET whose target has `uri` bytes and whose head has `head` bytes (0: as short as it gets). */
static char *request_of(size_t uri, size_t head)
{
    static const char start[] = "GET /now?", middle[] = " HTTP/1.1\r\nHost: localhost\r\n";
    char *text = malloc(uri + head + 256), *at = text;
    assert_non_null(text);
    memcpy(at, start, sizeof start - 1);
    at += sizeof start - 1;
    memset(at, 'x', uri - strlen("/now?"));
    at += uri - strlen("/now?");
    memcpy(at, middle, sizeof middle - 1);
    at += sizeof middle - 1;
    if (head) {
        memcpy(at, "X: ", 3);
        at += 3;
        while ((size_t)(at - text) < head - 4)
            *at++ = 'y';
        memcpy(at, "\r\n", 2);
        at += 2;
    }
    memcpy(at, "\r\n", 3);
    return text;
}

static void expect_new(struct http_rig *r, const char *request, unsigned status)
{
    struct client c;
    peer_open(r, &c);
    expect_status(r, &c, request, status);
    if (status != 200) {
        peer_until_eof(r, &c);
        assert_true(c.eof); /* not a reset: the answer must not be lost */
    }
    net_client_close(&c);
}

static void uri_and_head(void **state)
{
    (void)state;
    struct http_rig r;
    http_rig_init(&r);
    r.config.limits.uri_bytes = 300;
    r.config.limits.head_bytes = 1000;
    http_rig_start(&r);
    for (size_t n = 299; n <= 301; n++) {
        char *text = request_of(n, 0);
        expect_new(&r, text, n <= 300 ? 200 : 414);
        free(text);
    }
    for (size_t n = 999; n <= 1001; n++) {
        char *text = request_of(100, n);
        assert_int_equal(strlen(text), n);
        expect_new(&r, text, n <= 1000 ? 200 : 431);
        free(text);
    }
    http_rig_done(&r);
}

static void expect_body(struct http_rig *r, const char *method, const char *path, size_t n,
                        bool chunked, unsigned status)
{
    struct client c;
    char head[256], *body = malloc(n + 1);
    assert_non_null(body);
    memset(body, 'b', n);
    peer_open(r, &c);
    if (chunked)
        snprintf(head, sizeof head,
                 "%s %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n",
                 method, path, n);
    else
        snprintf(head, sizeof head,
                 "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", method, path,
                 n);
    peer_send(r, &c, head);
    peer_send_bytes(r, &c, body, n);
    if (chunked)
        peer_send(r, &c, "\r\n0\r\n\r\n");
    unsigned got = peer_answer(r, &c, NULL, 0);
    if (got != status)
        fail_msg("%s of %zu bytes: %u instead of %u", path, n, got, status);
    if (status == 200)
        expect_status(r, &c, GET("/now"), 200); /* nothing of the body is left over */
    net_client_close(&c);
    free(body);
}

static void bodies(void **state)
{
    (void)state;
    struct http_rig r;
    http_rig_init(&r);
    r.config.limits.body_bytes = 40000;
    r.config.large_body_bytes = 300000;
    http_rig_start(&r);
    for (int chunked = 0; chunked < 2; chunked++) {
        for (size_t n = 39999; n <= 40001; n++)
            expect_body(&r, "POST", "/echo", n, chunked, n <= 40000 ? 200 : 413);
        for (size_t n = 299999; n <= 300001; n++)
            expect_body(&r, "PUT", "/large", n, chunked, n <= 300000 ? 200 : 413);
        for (size_t n = 16383; n <= 16385; n++) /* where bodies get memory of their own */
            expect_body(&r, "POST", "/echo", n, chunked, 200);
        expect_body(&r, "POST", "/echo", chunked ? 1 : 0, chunked, 200);
    }
    http_rig_done(&r);
}

/* ---- times ----------------------------------------------------------------------------------- */

static void short_times(struct http_rig *r)
{
    http_rig_init(r);
    r->config.head_ms = r->config.body_ms = r->config.idle_ms = r->config.net.write_ms = 60000;
}

static void slow_head(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c, silent;
    short_times(&r);
    r.config.head_ms = 40;
    http_rig_start_with(&r, &silent);
    peer_open(&r, &c);
    expect_status(&r, &c, GET("/now"), 200);
    peer_send(&r, &c, "GET /now HT");
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 408);
    peer_until_eof(&r, &c);
    assert_true(c.eof);
    peer_until_eof(&r, &silent); /* never said a word: closed without one */
    assert_int_equal(silent.len, 0);
    net_client_close(&c);
    http_rig_end(&r, &silent);
}

/* A byte now and then does not help: the whole head has one deadline. */
static void trickled_head(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    short_times(&r);
    r.config.head_ms = 60;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, "GET /now HTTP/1.1\r\nX: ");
    uint64_t last = uv_now(&r.loop);
    while (client_poll(&c) && c.len == 0 && !c.eof && !c.error) {
        http_rig_turn(&r);
        if (uv_now(&r.loop) - last < 10)
            continue;
        last = uv_now(&r.loop);
        peer_send(&r, &c, "x");
    }
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 408);
    http_rig_end(&r, &c);
}

static void slow_body(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    short_times(&r);
    r.config.body_ms = 40;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 408);
    peer_until_eof(&r, &c);
    assert_int_equal(r.handled, 0);
    http_rig_end(&r, &c);
}

/* Requests before it are answered first, and a parked one is not disturbed by the deadlines. */
static void slow_behind_parked(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    short_times(&r);
    r.config.head_ms = r.config.idle_ms = 40;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, GET("/park/0") "GET /");
    RIG_UNTIL(&r, http_rig_figures(&r).by_status[4] == 1);
    client_poll(&c);
    assert_int_equal(c.len, 0);
    http_rig_answer(&r, 0, "first");
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 200);
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 408);
    peer_until_eof(&r, &c);
    http_rig_end(&r, &c);
}

/* It waits for our word, and we for the request before it. */
static void waiting_for_continue(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    short_times(&r);
    r.config.body_ms = 40;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c,
              GET("/park/0") "POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                             "Content-Length: 2\r\n\r\n");
    uint64_t start = uv_now(&r.loop);
    RIG_UNTIL(&r, uv_now(&r.loop) > start + 150);
    http_rig_answer(&r, 0, "x");
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 200);
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 100);
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 408); /* from here on the time counts */
    http_rig_end(&r, &c);
}

static void idle(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c, parked;
    short_times(&r);
    r.config.idle_ms = 40;
    http_rig_start_with(&r, &parked);
    peer_open(&r, &c);
    peer_send(&r, &parked, GET("/park/0"));
    expect_status(&r, &c, GET("/now"), 200);
    peer_until_eof(&r, &c);
    assert_true(c.eof && c.len == 0);
    assert_int_equal(r.parked[0].gone, 0); /* not idle */
    http_rig_answer(&r, 0, "x");
    assert_int_equal(peer_answer(&r, &parked, NULL, 0), 200);
    net_client_close(&c);
    http_rig_end(&r, &parked);
}

static void stuck_writer(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char *large = malloc(30000001);
    assert_non_null(large);
    memset(large, 'x', 30000000);
    large[30000000] = '\0';
    short_times(&r);
    r.config.net.write_ms = 60;
    r.config.net.write_buffer_bytes = 1 << 30;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, GET("/park/1") GET("/park/0"));
    RIG_UNTIL(&r, r.parked[0].x && r.parked[1].x); /* only then does the time of a write begin */
    http_rig_answer(&r, 1, large);
    RIG_UNTIL(&r, r.parked[0].gone == 1 && r.parked[0].sent == 1);
    free(large);
    http_rig_end(&r, &c);
}

/* The clients' answers may wait in memory only so far; then no more requests are taken. */
static void write_buffer(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_init(&r);
    r.config.net.write_buffer_bytes = 100000;
    r.config.pipeline_max = 1000;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, GET("/size/30000000"));
    RIG_UNTIL(&r, r.handled == 1);
    peer_send(&r, &c, GET("/now") GET("/now"));
    for (int turn = 0; turn < 50; turn++)
        http_rig_turn(&r);
    assert_int_equal(r.handled, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(peer_answer(&r, &c, NULL, 0), 200);
    http_rig_end(&r, &c);
}

static void turns(struct http_rig *r, int count)
{
    while (count-- > 0)
        http_rig_turn(r);
}

/* Behind a request with a large answer nothing is begun, and its client is still seen to go. */
static void large_answers_one_by_one(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_init(&r);
    r.park_answers_when_gone = true;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, GET("/now") GET("/alone/0") GET("/alone/1") GET("/now"));
    RIG_UNTIL(&r, r.handled == 2);
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 200);
    turns(&r, 50);
    assert_int_equal(r.handled, 2);
    http_rig_answer(&r, 0, "x");
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 200);
    RIG_UNTIL(&r, r.handled == 3);
    turns(&r, 50);
    assert_int_equal(r.handled, 3);
    net_client_close(&c);
    RIG_UNTIL(&r, r.parked[1].gone == 1);
    http_rig_done(&r);
}

/* The bodies of a connection's requests are held only so far, too. */
static void bodies_under_way(void **state)
{
    (void)state;
    static char body[1000001];
    struct http_rig r;
    struct client c;
    memset(body, 'b', sizeof body - 1);
    http_rig_init(&r);
    r.config.limits.body_bytes = 1500000;
    http_rig_start_with(&r, &c);
    for (unsigned i = 0; i < 2; i++) {
        peer_send(&r, &c, i ? "POST /park/1" : "POST /park/0");
        peer_send(&r, &c, " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
        peer_send(&r, &c, body);
        RIG_UNTIL(&r, r.handled == i + 1);
    }
    peer_send(&r, &c, GET("/now"));
    turns(&r, 50);
    assert_int_equal(r.handled, 2);
    http_rig_answer(&r, 0, "x");
    RIG_UNTIL(&r, r.handled == 3);
    http_rig_answer(&r, 1, "x");
    for (int i = 0; i < 3; i++)
        assert_int_equal(peer_answer(&r, &c, NULL, 0), 200);
    http_rig_end(&r, &c);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void connections(uint32_t max, uint32_t per_address, size_t allowed)
{
    struct http_rig r;
    struct client c[8], extra;
    http_rig_init(&r);
    r.config.net.connections_max = max;
    r.config.net.connections_per_address = per_address;
    http_rig_start(&r);
    for (size_t i = 0; i < allowed; i++) {
        peer_open(&r, &c[i]);
        expect_status(&r, &c[i], GET("/now"), 200);
    }
    for (int i = 0; i < 3; i++) {
        peer_open(&r, &extra);
        expect_status(&r, &extra, GET("/now"), 503);
        peer_until_eof(&r, &extra);
        assert_true(extra.eof);
        net_client_close(&extra);
    }
    assert_int_equal(http_rig_figures(&r).refused, 3);
    net_client_close(&c[0]);
    RIG_UNTIL(&r, http_rig_figures(&r).connections == allowed - 1);
    peer_open(&r, &c[0]);
    for (size_t i = 0; i < allowed; i++) {
        expect_status(&r, &c[i], GET("/now"), 200);
        net_client_close(&c[i]);
    }
    http_rig_done(&r);
}

static void connections_in_all(void **state)
{
    (void)state;
    connections(3, 100, 3);
}

static void connections_of_an_address(void **state)
{
    (void)state;
    connections(100, 2, 2);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static void use_up_descriptors(void)
{
    struct rlimit limit = {40, 40};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        _exit(10);
    while (dup(0) >= 0)
        continue;
}

/* In a child, which has its own limit. The clients need descriptors, too, so they connect before
 * these run out. */
static int without_descriptors(void)
{
    struct http_rig r;
    struct client c[6], first;
    http_rig_begin(&r, &first);
    expect_status(&r, &first, GET("/now"), 200);
    for (size_t i = 0; i < COUNT_OF(c); i++)
        peer_open(&r, &c[i]); /* in the queue of the kernel, not accepted yet */
    use_up_descriptors();
    for (size_t i = 0; i < COUNT_OF(c); i++)
        peer_until_eof(&r, &c[i]);
    if (http_rig_figures(&r).refused != COUNT_OF(c) || r.log_lines != 1 ||
        !strstr(r.log_text, "no_descriptors"))
        return 1;
    expect_status(&r, &first, GET("/now"), 200); /* who is in is served */
    for (size_t i = 0; i < COUNT_OF(c); i++)
        net_client_close(&c[i]);
    peer_open(&r, &c[0]); /* there is room again */
    expect_status(&r, &c[0], GET("/now"), 200);
    net_client_close(&c[0]);
    net_client_close(&first);
    return r.log_lines == 1 ? 0 : 2;
}

/* Not even the spare one can be used: who waits must wait, and the loop must not spin. */
static int without_any_descriptor(void)
{
    struct http_rig r;
    struct client c;
    struct rlimit limit, none;
    unsigned turns = 0;
    http_rig_begin(&r, &c);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1;
    none = (struct rlimit){3, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0)
        return 2;
    uint64_t start = uv_now(&r.loop);
    for (; uv_now(&r.loop) < start + 700; turns++)
        uv_run(&r.loop, UV_RUN_ONCE);
    if (turns > 20 || http_rig_figures(&r).accepted != 0)
        return 3;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 4;
    expect_status(&r, &c, GET("/now"), 200);
    net_client_close(&c);
    return 0;
}

static void in_a_child(int (*fn)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(fn());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void descriptors(void **state)
{
    (void)state;
    in_a_child(without_descriptors);
}

static void not_even_a_spare(void **state)
{
    (void)state;
    in_a_child(without_any_descriptor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uri_and_head),
        cmocka_unit_test(bodies),
        cmocka_unit_test(slow_head),
        cmocka_unit_test(trickled_head),
        cmocka_unit_test(slow_body),
        cmocka_unit_test(slow_behind_parked),
        cmocka_unit_test(waiting_for_continue),
        cmocka_unit_test(idle),
        cmocka_unit_test(stuck_writer),
        cmocka_unit_test(write_buffer),
        cmocka_unit_test(large_answers_one_by_one),
        cmocka_unit_test(bodies_under_way),
        cmocka_unit_test(connections_in_all),
        cmocka_unit_test(connections_of_an_address),
        cmocka_unit_test(descriptors),
        cmocka_unit_test(not_even_a_spare),
    };
    return RUN_OVER_STREAMS(tests);
}
