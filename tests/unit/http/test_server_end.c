/* SPDX-License-Identifier: Apache-2.0 */
/* Draining and closing, two servers in one process, lack of memory, and what a parked request
 * costs. */
#include "unit/http/http_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

static void drained_cb(void *ctx)
{
    struct http_rig *r = ctx;
    r->drained++;
}

/* Why a connection is not made. */
static int rig_refused(const char *address)
{
    int fd = client_connect(address);
    int error = errno;
    if (fd >= 0)
        close(fd);
    return fd < 0 ? error : 0;
}

static void drain(void **state)
{
    (void)state;
    struct http_rig r;
    struct client idle, parked, pipelined;
    char head[2048];
    http_rig_init(&r);
    http_rig_start(&r);
    char *address = strdup(http_server_address(r.server, 0));
    peer_open(&r, &idle);
    peer_open(&r, &parked);
    peer_open(&r, &pipelined);
    expect_status(&r, &idle, GET("/now"), 200);
    peer_send(&r, &parked, GET("/park/0"));
    peer_send(&r, &pipelined, GET("/park/1") GET("/park/2"));
    RIG_UNTIL(&r, r.handled == 4);
    http_server_drain(r.server, 60000, drained_cb, &r);
    assert_int_equal(r.drained, 0);
    assert_int_equal(rig_refused(address), ECONNREFUSED);
    peer_until_eof(&r, &idle);
    assert_true(idle.eof && idle.len == 0);
    http_rig_answer(&r, 0, "x");
    assert_int_equal(peer_head(&r, &parked, head, sizeof head), 200);
    assert_non_null(strstr(head, "Connection: close\r\n"));
    peer_until_eof(&r, &parked);
    assert_int_equal(r.drained, 0);
    /* Of two answers only the last may say close, or the client would not read it. */
    http_rig_answer(&r, 1, "");
    assert_int_equal(peer_head(&r, &pipelined, head, sizeof head), 200);
    assert_null(strstr(head, "Connection: close\r\n"));
    http_rig_answer(&r, 2, "");
    assert_int_equal(peer_head(&r, &pipelined, head, sizeof head), 200);
    assert_non_null(strstr(head, "Connection: close\r\n"));
    RIG_UNTIL(&r, r.drained == 1);
    assert_int_equal(http_rig_figures(&r).connections, 0);
    net_client_close(&idle);
    net_client_close(&parked);
    net_client_close(&pipelined);
    free(address);
    http_rig_done(&r);
    assert_int_equal(r.drained, 1);
}

/* Closing a socket with requests unread would reset it, and with it the answers on their way. */
static void drain_with_requests_unread(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_init(&r);
    r.config.pipeline_max = 1;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, GET("/park/0"));
    RIG_UNTIL(&r, r.handled == 1);
    for (int i = 0; i < 2000; i++)
        peer_send(&r, &c, GET("/now"));
    http_server_drain(r.server, 60000, drained_cb, &r);
    http_rig_answer(&r, 0, "x");
    peer_until_eof(&r, &c);
    assert_int_equal(c.error, 0);
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 200);
    net_client_close(&c);
    RIG_UNTIL(&r, r.drained == 1);
    http_rig_done(&r);
}

static void drain_limit(void **state)
{
    (void)state;
    struct http_rig r;
    struct client parked, partial;
    http_rig_begin(&r, &parked);
    peer_open(&r, &partial);
    peer_stream(&r, &parked);
    peer_send(&r, &partial, "GET /no");
    http_server_drain(r.server, 30, drained_cb, &r);
    RIG_UNTIL(&r, r.drained == 1);
    RIG_UNTIL(&r, r.parked[0].gone == 1);
    peer_until_eof(&r, &parked);
    peer_until_eof(&r, &partial);
    net_client_close(&parked);
    http_rig_end(&r, &partial);
}

static void drain_nothing(void **state)
{
    (void)state;
    struct http_rig r;
    http_rig_init(&r);
    http_rig_start(&r);
    http_server_drain(r.server, 60000, drained_cb, &r);
    assert_int_equal(r.drained, 0); /* not from inside */
    RIG_UNTIL(&r, r.drained == 1);
    http_rig_done(&r);
}

static void request_under_way_while_draining(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_begin(&r, &c);
    peer_send(&r, &c, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab");
    RIG_UNTIL(&r, http_rig_figures(&r).parked == 1);
    http_server_drain(r.server, 60000, drained_cb, &r);
    for (int turn = 0; turn < 10; turn++)
        http_rig_turn(&r);
    peer_send(&r, &c, "cd");
    peer_until_eof(&r, &c);
    assert_non_null(strstr(c.data, "\r\n\r\nabcd"));
    RIG_UNTIL(&r, r.drained == 1);
    http_rig_end(&r, &c);
}

static void count_cb(void *ctx)
{
    ++*(unsigned *)ctx;
}

/* The server goes when the last answer that it was owed has come. */
static void close_with_parked(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    unsigned closed = 0;
    http_rig_init(&r);
    r.park_answers_when_gone = false;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, GET("/park/0") GET("/park/1"));
    RIG_UNTIL(&r, r.handled == 2);
    http_server_close(r.server, count_cb, &closed);
    assert_int_equal(r.parked[0].gone, 0); /* not from inside */
    RIG_UNTIL(&r, r.parked[0].gone == 1 && r.parked[1].gone == 1);
    http_rig_answer(&r, 1, "x");
    for (int turn = 0; turn < 10; turn++)
        http_rig_turn(&r);
    assert_int_equal(closed, 0);
    http_rig_answer(&r, 0, "x");
    RIG_UNTIL(&r, closed == 1);
    assert_int_equal(r.parked[0].sent + r.parked[1].sent, 2);
    r.server = NULL;
    http_rig_end(&r, &c);
}

struct closer {
    struct http_rig *rig;
    unsigned closed;
};

static void close_handler(void *ctx, struct http_exchange *x)
{
    struct closer *c = ctx;
    http_answer(x, 204, NULL);
    http_server_close(c->rig->server, count_cb, &c->closed);
    c->rig->server = NULL;
}

/* From inside a handler, with requests before and behind it. */
static void close_from_handler(void **state)
{
    (void)state;
    static const struct http_route route = {HTTP_POST, "/close", close_handler, SCOPE_ADMIN, 0, ""};
    struct http_rig r;
    struct client c;
    struct closer closer = {&r, 0};
    http_rig_init(&r);
    http_rig_start(&r);
    http_server_routes(r.server, &route, 1, &closer);
    peer_open(&r, &c);
    peer_send(&r, &c,
              GET("/park/0") "POST /close HTTP/1.1\r\nHost: localhost\r\n\r\n" GET("/park/1"));
    RIG_UNTIL(&r, closer.closed == 1);
    assert_int_equal(r.parked[0].sent, 1);
    assert_int_equal(r.parked[1].taken, 0);
    peer_until_eof(&r, &c);
    http_rig_end(&r, &c);
}

static void two_servers(void **state)
{
    (void)state;
    struct http_rig a, b;
    struct client x, y;
    unsigned closed = 0;
    struct http_server *second;
    http_rig_init(&a);
    http_rig_start(&a);
    http_rig_init(&b); /* on a loop of its own */
    http_rig_start(&b);
    assert_int_equal(http_server_new(&a.config, &second), 0); /* and one on the same loop */
    assert_int_equal(http_server_listen(second, "127.0.0.1:0", NULL), 0);
    peer_open(&a, &x);
    peer_open(&b, &y);
    expect_status(&a, &x, GET("/now"), 200);
    expect_status(&b, &y, GET("/now"), 200);
    assert_int_equal(a.handled + b.handled, 2);
    net_client_close(&x);
    net_client_open(&x, http_server_address(second, 0));
    expect_status(&a, &x, GET("/now"), 404);
    http_server_close(second, count_cb, &closed);
    RIG_UNTIL(&a, closed == 1);
    http_rig_end(&a, &x);
    expect_status(&b, &y, GET("/now"), 200);
    http_rig_end(&b, &y);
}

/* ---- lack of memory -------------------------------------------------------------------------- */

#define CHUNKED                                                                                    \
    "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"                 \
    "5\r\nhello\r\n0\r\n\r\n"
#define LAST "GET /now HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

static const char *const hungry[] = {
    CHUNKED GET("/name/a%20b") GET("/size/5000") GET("/nothing") LAST,
    GET("/park/0") "POST /now HTTP/1.1\r\nHost: localhost\r\n\r\n" LAST,
    "OPTIONS /now HTTP/1.1\r\nHost: localhost\r\n\r\n" GET("/stream/1"),
    "not a request\r\n\r\n",
    "GET /n", /* and then an end of input */
};

static void finish_parked(struct http_rig *r)
{
    if (r->parked[0].x)
        http_rig_answer(r, 0, "parked");
    struct http_rig_parked *stream = &r->parked[1];
    if (!stream->x)
        return;
    /* A write can be refused again after there was room: the lack of memory may last. */
    bool written = http_stream_write(stream->x, SPAN_LITERAL("data: x\n\n"));
    if (written || stream->gone || stream->room > 0)
        http_rig_stream_end(r, 1);
}

/* Makes the nth allocation fail while this is served; false if there were fewer. */
static bool starve(const char *requests, long nth, int lasting)
{
    struct http_rig r;
    struct client c;
    http_rig_init(&r);
    r.park_answers_when_gone = false;
    r.config.pipeline_max = 2;
    http_rig_start_with(&r, &c);
    client_handshake(&r.loop, &c);
    mem_fail_at(nth, lasting);
    for (const char *at = requests; *at; at++) { /* in pieces, so that some are kept */
        ssize_t n = client_try_send(&c, at, 1);
        (void)n;
        if (at - requests < 100 || at[1] == '\0')
            http_rig_turn(&r);
    }
    client_shutdown(&c);
    RIG_UNTIL(&r, (finish_parked(&r), client_poll(&c)) && (c.eof || c.error));
    bool reached = mem_calls() >= nth;
    mem_fail_at(0, 0);
    RIG_UNTIL(&r, (finish_parked(&r), true) && http_rig_figures(&r).parked == 0);
    net_client_close(&c);
    peer_open(&r, &c);
    expect_status(&r, &c, GET("/now"), 200); /* other clients are not affected */
    http_rig_end(&r, &c);
    return reached;
}

static void out_of_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(hungry); i++)
        for (int lasting = 0; lasting < 2; lasting++)
            for (long nth = 1; starve(hungry[i], nth, lasting); nth++)
                assert_true(nth < 1000);
}

static void out_of_memory_at_start(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        struct http_rig r;
        struct err_note note = {""};
        static const struct http_route route = {HTTP_POST,  "/x/y", close_handler,
                                                SCOPE_OPEN, 0,      ""};
        http_rig_init(&r);
        mem_fail_at(nth, 0);
        int result = http_server_new(&r.config, &r.server);
        if (result == 0) {
            http_server_routes(r.server, &route, 1, NULL);
            result = http_server_listen(r.server, "127.0.0.1:0", &note);
        }
        mem_fail_at(0, 0);
        http_rig_done(&r);
        if (result == 0)
            break;
        assert_int_equal(result, -ERR_NOMEM);
    }
}

/* ---- what a parked request costs ------------------------------------------------------------- */

#define PARKED_WANTED 10000
#define PARKED_BYTES_MAX 32768 /* under the address sanitizer, too */
#define POLL                                                                                       \
    "POST /wait HTTP/1.1\r\nHost: localhost:8000\r\nUser-Agent: a-worker/1.0 (linux)\r\n"          \
    "Accept: application/json\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"     \
    "Content-Type: application/json\r\nContent-Length: "                                           \
    "28\r\n\r\n{\"count\":1,\"wait_ms\":60000}\n"

struct crowd {
    struct http_exchange *x[PARKED_WANTED];
    size_t taken, gone;
};

static void crowd_gone_cb(void *ctx)
{
    struct crowd *c = ctx;
    c->gone++;
}

static void crowd_handler(void *ctx, struct http_exchange *x)
{
    struct crowd *c = ctx;
    assert_true(c->taken < PARKED_WANTED);
    c->x[c->taken++] = x;
    http_watch(x, crowd_gone_cb, NULL, c);
}

static size_t resident_bytes(void)
{
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return strtoul(strchr(text, ' '), NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t crowd_size(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur < PARKED_WANTED + 100 ? limit.rlim_cur - 100 : PARKED_WANTED;
}

/* The clients are in another process, which has its own descriptors. It ends when `until` ends. */
static void crowd_connect(const char *address, size_t count, int until)
{
    char byte;
    for (size_t i = 0; i < count; i++) {
        int fd = client_connect(address);
        if (fd < 0 || send(fd, POLL, sizeof POLL - 1, MSG_NOSIGNAL) != sizeof POLL - 1)
            _exit(1);
    }
    _exit(read(until, &byte, 1) == 0 ? 0 : 1);
}

static void parked_memory(void **state)
{
    (void)state;
    static const struct http_route route = {HTTP_POST, "/wait", crowd_handler, SCOPE_OPEN, 0, ""};
    struct http_rig r;
    int ends[2], status;
    struct crowd *crowd = calloc(1, sizeof *crowd);
    size_t count = crowd_size();
    assert_non_null(crowd);
    http_rig_init(&r);
    http_rig_start(&r);
    http_server_routes(r.server, &route, 1, crowd);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    size_t before = resident_bytes();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[1]);
        crowd_connect(http_server_address(r.server, 0), count, ends[0]);
    }
    RIG_UNTIL(&r, crowd->taken == count);
    size_t each = (resident_bytes() - before) / count;
    fprintf(stderr, "# %zu parked requests, %zu bytes each\n", count, each);
    assert_true(each <= PARKED_BYTES_MAX);
    close(ends[1]);
    RIG_UNTIL(&r, crowd->gone == count);
    for (size_t i = 0; i < count; i++)
        http_answer(crowd->x[i], 200, NULL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ends[0]);
    http_rig_done(&r);
    free(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drain),
        cmocka_unit_test(drain_with_requests_unread),
        cmocka_unit_test(drain_limit),
        cmocka_unit_test(drain_nothing),
        cmocka_unit_test(request_under_way_while_draining),
        cmocka_unit_test(close_with_parked),
        cmocka_unit_test(close_from_handler),
        cmocka_unit_test(two_servers),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(out_of_memory_at_start),
        cmocka_unit_test_not_tls(parked_memory),
    };
    return RUN_OVER_STREAMS(tests);
}
