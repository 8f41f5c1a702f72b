/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that go away: half-closed, closed, reset, while parked, while the server does not read,
 * while it writes. */
#include "unit/http/http_rig.h"

#include <sys/socket.h>

static void half_close(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char body[64];
    http_rig_begin(&r, &c);
    peer_send(&r, &c, GET("/park/0") "GET /unfin");
    RIG_UNTIL(&r, r.parked[0].taken == 1);
    client_shutdown(&c);
    for (int turn = 0; turn < 50; turn++)
        http_rig_turn(&r);
    assert_int_equal(r.parked[0].gone, 0);
    http_rig_answer(&r, 0, "still here");
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 100); /* the probe */
    assert_int_equal(peer_answer(&r, &c, body, sizeof body), 200);
    assert_string_equal(body, "still here");
    peer_until_eof(&r, &c);
    RIG_UNTIL(&r, r.parked[0].sent == 1);
    assert_true(r.parked[0].whole);
    http_rig_end(&r, &c);
}

static void half_close_answered_at_once(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char body[64];
    http_rig_begin(&r, &c);
    peer_send(&r, &c, GET("/now"));
    client_shutdown(&c);
    assert_int_equal(peer_answer(&r, &c, body, sizeof body), 200);
    assert_string_equal(body, "now");
    peer_until_eof(&r, &c);
    http_rig_end(&r, &c);
}

enum leaving { LEAVE_CLOSE, LEAVE_RESET };

static void leave_while_parked(enum leaving how, uint32_t pipeline_max, unsigned behind)
{
    struct http_rig r;
    struct client c;
    http_rig_init(&r);
    r.park_answers_when_gone = false;
    r.config.pipeline_max = pipeline_max;
    http_rig_start_with(&r, &c);
    peer_send(&r, &c, GET("/park/0") GET("/park/1"));
    for (unsigned i = 0; i < behind; i++)
        peer_send(&r, &c, GET("/now"));
    RIG_UNTIL(&r, r.parked[1].taken == 1);
    if (how == LEAVE_CLOSE)
        net_client_close(&c);
    else
        client_reset(&c);
    RIG_UNTIL(&r, r.parked[0].gone == 1 && r.parked[1].gone == 1);
    assert_int_equal(r.parked[0].sent, 0);
    assert_int_equal(http_rig_figures(&r).connections, 0);
    http_rig_answer(&r, 0, "too late");
    assert_int_equal(r.parked[0].sent, 0); /* never from inside */
    RIG_UNTIL(&r, r.parked[0].sent == 1);
    assert_false(r.parked[0].whole);
    assert_int_equal(http_rig_figures(&r).parked, 1);
    http_rig_answer(&r, 1, "too late");
    RIG_UNTIL(&r, r.parked[1].sent == 1);
    assert_int_equal(r.parked[0].gone + r.parked[1].gone, 2);
    http_rig_done(&r);
}

static void close_while_parked(void **state)
{
    (void)state;
    leave_while_parked(LEAVE_CLOSE, 16, 0);
}

static void reset_while_parked(void **state)
{
    (void)state;
    leave_while_parked(LEAVE_RESET, 16, 0);
}

/* The server does not read while pipeline_max requests are under way, and hears of it still. */
static void close_while_full(void **state)
{
    (void)state;
    leave_while_parked(LEAVE_CLOSE, 2, 0);
    leave_while_parked(LEAVE_CLOSE, 2, 5);
}

static void reset_while_full(void **state)
{
    (void)state;
    leave_while_parked(LEAVE_RESET, 2, 0);
    leave_while_parked(LEAVE_RESET, 2, 5);
}

/* Half-closed first, so that the probe finds it alive, then reset. */
static void reset_after_half_close(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    http_rig_begin(&r, &c);
    peer_send(&r, &c, GET("/park/0"));
    client_shutdown(&c);
    assert_int_equal(peer_answer(&r, &c, NULL, 0), 100);
    assert_int_equal(r.parked[0].gone, 0);
    client_reset(&c);
    RIG_UNTIL(&r, r.parked[0].gone == 1 && r.parked[0].sent == 1);
    http_rig_done(&r);
}

/* Not everything was handed to the kernel: the answer was not sent whole. */
static void gone_while_writing(void **state)
{
    (void)state;
    struct http_rig r;
    struct client c;
    char *big = malloc(32 << 20);
    assert_non_null(big);
    memset(big, 'x', (32 << 20) - 1);
    big[(32 << 20) - 1] = '\0';
    http_rig_begin(&r, &c);
    peer_send(&r, &c, GET("/park/0") GET("/park/1"));
    RIG_UNTIL(&r, r.handled == 2);
    http_rig_answer(&r, 1, "behind it");
    http_rig_answer(&r, 0, big);
    peer_until(&r, &c, "xxxx");
    assert_int_equal(r.parked[0].sent, 0);
    client_reset(&c);
    RIG_UNTIL(&r, r.parked[0].sent == 1 && r.parked[1].sent == 1);
    assert_false(r.parked[0].whole);
    assert_false(r.parked[1].whole);
    assert_int_equal(r.parked[0].gone + r.parked[1].gone, 0);
    free(big);
    http_rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_close),
        cmocka_unit_test(half_close_answered_at_once),
        cmocka_unit_test(close_while_parked),
        cmocka_unit_test(reset_while_parked),
        cmocka_unit_test(close_while_full),
        cmocka_unit_test(reset_while_full),
        cmocka_unit_test(reset_after_half_close),
        cmocka_unit_test(gone_while_writing),
    };
    return RUN_OVER_STREAMS(tests);
}
