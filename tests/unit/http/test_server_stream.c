/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: order, bounds, ends. */
#include "unit/http/http_rig.h"

#include <sys/socket.h>

#define EVENT "data: x\n\n"

static void events(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char head[2048];
    http_rig_begin(&r, &c);
    peer_send(&r, &c, GET("/stream/0"));
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 200);
    assert_non_null(strstr(head, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(head, "Cache-Control: no-store\r\n"));
    assert_non_null(strstr(head, "Connection: close\r\n"));
    assert_null(strstr(head, "Content-Length"));
    struct http_exchange *x = r.parked[0].x;
    assert_true(http_stream_write(x, SPAN_LITERAL(EVENT)));
    assert_int_equal(http_stream_waiting(x), sizeof EVENT - 1);
    peer_until(&r, &c, EVENT);
    assert_int_equal(http_stream_waiting(x), 0);
    peer_send(&r, &c, GET("/now")); /* used for nothing else */
    RIG_UNTIL(&r, http_rig_figures(&r).bytes_in == strlen(GET("/stream/0") GET("/now")));
    assert_true(http_stream_write(x, SPAN_LITERAL("data: 2\n\n")));
    assert_true(http_stream_write(x, SPAN_LITERAL("data: 3\n\n")));
    http_rig_stream_end(&r, 0);
    peer_until_eof(&r, &c);
    assert_true(c.eof);
    assert_string_equal(c.data, EVENT "data: 2\n\ndata: 3\n\n");
    assert_int_equal(r.handled, 1);
    assert_true(r.parked[0].sent == 1 && r.parked[0].whole && r.parked[0].gone == 0);
    http_rig_end(&r, &c);
}

/* Ended when everything was sent already. */
static void end_with_nothing_left(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_begin(&r, &c);
    peer_stream(&r, &c);
    http_rig_stream_end(&r, 0);
    peer_until_eof(&r, &c);
    RIG_UNTIL(&r, r.parked[0].sent == 1);
    assert_true(r.parked[0].whole);
    http_rig_end(&r, &c);
}

/* A client that does not read: the buffer fills to its bound, then writes are refused; when it
 * reads again, room is told once for each refusal, and no byte is lost. */
static void back_pressure(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char event[1001];
    size_t taken = 0, refusals = 0;
    memset(event, 'e', sizeof event);
    memcpy(event, "data:", 5);
    memcpy(event + 998, "\n\n", 3);
    http_rig_init(&r);
    r.config.net.write_buffer_bytes = 50000;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, GET("/stream/0"));
    RIG_UNTIL(&r, r.parked[0].taken == 1);
    peer_until(&r, &c, "\r\n\r\n");
    size_t head = c.len;
    struct http_exchange *x = r.parked[0].x;
    while (refusals < 20) {
        if (http_stream_write(x, span_of(event, 1000))) {
            taken += 1000;
            assert_true(http_stream_waiting(x) <= 50000);
            if (refusals == 0 || taken % 7000 == 0)
                http_rig_turn(&r);
            continue;
        }
        unsigned told = r.parked[0].room;
        refusals++;
        assert_true(http_stream_waiting(x) > 49000);
        for (int turn = 0; turn < 5; turn++)
            http_rig_turn(&r);
        assert_true(r.parked[0].room == told || http_stream_waiting(x) <= 25000);
        RIG_UNTIL(&r, client_poll(&c) && r.parked[0].room == told + 1);
        assert_true(http_stream_waiting(x) <= 25000);
    }
    http_rig_stream_end(&r, 0);
    peer_until_eof(&r, &c);
    assert_int_equal(c.len - head, taken);
    for (size_t i = 0; i < taken; i += 1000)
        assert_memory_equal(c.data + head + i, event, 1000);
    http_rig_end(&r, &c);
}

/* Larger than the bound, but alone: it must get through somehow. */
static void one_large_event(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char *event = malloc(300000);
    assert_non_null(event);
    memset(event, 'L', 300000);
    http_rig_init(&r);
    r.config.net.write_buffer_bytes = 1000;
    http_rig_start_with(&r, &c);
    peer_stream(&r, &c);
    size_t head = c.len;
    struct http_exchange *x = r.parked[0].x;
    assert_true(http_stream_write(x, span_of(event, 300000)));
    assert_false(http_stream_write(x, SPAN_LITERAL("x")));
    RIG_UNTIL(&r, client_poll(&c) && c.len == head + 300000);
    RIG_UNTIL(&r, r.parked[0].room == 1);
    net_client_close(&c);
    RIG_UNTIL(&r, r.parked[0].gone == 1);
    free(event);
    http_rig_done(&r);
}

/* Writes until the kernel takes nothing more. Each write tries the socket again, also while it does
 * not report that it is writable, and a split stream sometimes delays a try: only several tries in
 * a row that take nothing prove that the kernel is full. */
static void fill_kernel(struct http_rig *r, struct http_exchange *x)
{
    char event[1000];
    memset(event, 'e', sizeof event);
    for (int refused = 0; refused < 12;) {
        size_t before = http_stream_waiting(x);
        assert_true(http_stream_write(x, span_of(event, sizeof event)));
        http_rig_turn(r);
        refused = http_stream_waiting(x) == before + sizeof event ? refused + 1 : 0;
    }
}

/* Something waits, less than half of the bound, but what was refused is larger than the rest: room
 * is told when it would fit, not before, or the two would chase each other. */
static void room_for_what_was_refused(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char *event = malloc(100000);
    assert_non_null(event);
    memset(event, 'L', 100000);
    http_rig_init(&r);
    r.config.net.write_buffer_bytes = 100000;
    http_rig_start_with(&r, &c);
    peer_stream(&r, &c);
    struct http_exchange *x = r.parked[0].x;
    fill_kernel(&r, x);
    unsigned told = r.parked[0].room;
    assert_in_range(http_stream_waiting(x), 1, 50000);
    assert_false(http_stream_write(x, span_of(event, 100000)));
    for (int turn = 0; turn < 20; turn++)
        http_rig_turn(&r);
    assert_int_equal(r.parked[0].room, told);
    RIG_UNTIL(&r, client_poll(&c) && r.parked[0].room == told + 1);
    assert_true(http_stream_write(x, span_of(event, 100000)));
    net_client_close(&c);
    RIG_UNTIL(&r, r.parked[0].gone == 1);
    free(event);
    http_rig_done(&r);
}

static void peer_leaves(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_init(&r);
    r.park_answers_when_gone = false;
    http_rig_start(&r);
    for (size_t i = 0; i < 2; i++) {
        peer_open(&r, &c);
        peer_send(&r, &c, i == 0 ? GET("/stream/0") : GET("/stream/1"));
        peer_until(&r, &c, "\r\n\r\n");
        if (i == 0)
            net_client_close(&c);
        else
            client_reset(&c);
        RIG_UNTIL(&r, r.parked[i].gone == 1);
        assert_false(http_stream_write(r.parked[i].x, SPAN_LITERAL(EVENT)));
        assert_int_equal(http_stream_waiting(r.parked[i].x), 0);
        http_rig_stream_end(&r, i);
        RIG_UNTIL(&r, r.parked[i].sent == 1);
        assert_false(r.parked[i].whole);
    }
    http_rig_done(&r);
}

/* Half-closed: still reads; the probe is an empty comment. */
static void half_closed(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_begin(&r, &c);
    peer_stream(&r, &c);
    shutdown(c.fd, SHUT_WR);
    peer_until(&r, &c, "\r\n\r\n:\n\n");
    assert_true(http_stream_write(r.parked[0].x, SPAN_LITERAL(EVENT)));
    peer_until(&r, &c, EVENT);
    assert_int_equal(r.parked[0].gone, 0);
    net_client_close(&c);
    assert_true(http_stream_write(r.parked[0].x, SPAN_LITERAL(EVENT)));
    RIG_UNTIL(&r, r.parked[0].gone == 1);
    http_rig_done(&r);
}

/* Requests behind a stream have no way to be answered. */
static void followers(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_begin(&r, &c);
    peer_send(&r, &c, GET("/park/0") GET("/park/1") GET("/park/2") GET("/now"));
    RIG_UNTIL(&r, r.handled == 4);
    http_rig_answer(&r, 2, "answered already");
    r.parked[1].stream = true;
    http_stream(r.parked[1].x);
    assert_true(http_stream_write(r.parked[1].x, SPAN_LITERAL(EVENT)));
    RIG_UNTIL(&r, r.parked[2].sent == 1);
    assert_false(r.parked[2].whole);
    client_poll(&c);
    assert_int_equal(c.len, 0);
    http_rig_answer(&r, 0, "first");
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 200);
    peer_until(&r, &c, EVENT);
    http_rig_stream_end(&r, 1);
    peer_until_eof(&r, &c);
    http_rig_end(&r, &c);
}

static void head_of_a_stream(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_begin(&r, &c);
    peer_send(&r, &c, "HEAD /stream/0 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    peer_until_eof(&r, &c);
    assert_non_null(strstr(c.data, "text/event-stream"));
    assert_string_equal(strstr(c.data, "\r\n\r\n"), "\r\n\r\n");
    RIG_UNTIL(&r, r.parked[0].gone == 1 && r.parked[0].sent == 1);
    http_rig_end(&r, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events),
        cmocka_unit_test(end_with_nothing_left),
        cmocka_unit_test(back_pressure),
        cmocka_unit_test(one_large_event),
        cmocka_unit_test(room_for_what_was_refused),
        cmocka_unit_test(peer_leaves),
        cmocka_unit_test(half_closed),
        cmocka_unit_test(followers),
        cmocka_unit_test(head_of_a_stream),
    };
    return RUN_OVER_STREAMS(tests);
}
