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
    http_rig_init(&r);
    http_rig_start(&r);
    client_open(&r, &c);
    client_send(&r, &c, GET("/now"));
    assert_int_equal(client_head(&r, &c, head, sizeof head), 200);
    assert_non_null(strstr(head, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(head, "\r\nContent-Type: text/plain\r\n"));
    assert_non_null(strstr(head, "\r\nContent-Length: 3\r\n"));
    assert_non_null(strstr(head, "\r\nDate: "));
    assert_non_null(strstr(head, " GMT\r\n"));
    assert_non_null(strstr(head, "\r\nX-Content-Type-Options: nosniff\r\n"));
    assert_null(strstr(head, "Connection:"));
    client_until(&r, &c, "now");
    c.len = 0;
    for (int i = 0; i < 100; i++) {
        client_send(&r, &c,
                    "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
        assert_int_equal(client_answer(&r, &c, body, sizeof body), 200);
        assert_string_equal(body, "hello");
    }
    assert_int_equal(r.handled, 101);
    assert_string_equal(r.last_peer, "127.0.0.1");
    client_close(&c);
    http_rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keep_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
