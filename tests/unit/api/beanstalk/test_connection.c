/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the beanstalk API: order, waits, limits, ends. What each command does is tested in
 * tests/e2e/apis/beanstalk*.test.mjs. */
#include "unit/api/beanstalk/bs_rig.h"

#include <sys/socket.h>

/* ---- commands and replies ---- */

static void one_after_the_other(void **state)
{
    (void)state;
    struct bs_rig r;
    struct client c;
    bs_rig_begin(&r, &c);
    bs_rig_expect(&r, &c, "use mail\r\n", "USING mail\r\n");
    bs_rig_expect(&r, &c, "put 7 0 60 5\r\nhello\r\n", "INSERTED 1\r\n");
    bs_rig_expect(&r, &c, "watch mail\r\n", "WATCHING 2\r\n");
    bs_rig_expect(&r, &c, "reserve\r\n", "RESERVED 1 5\r\nhello\r\n");
    bs_rig_expect(&r, &c, "delete 1\r\n", "DELETED\r\n");
    bs_rig_expect(&r, &c, "delete 1\r\n", "NOT_FOUND\r\n");
    bs_rig_expect(&r, &c, "reserve-with-timeout 0\r\n", "TIMED_OUT\r\n");
    bs_rig_expect(&r, &c, "put 7 0 60 5\r\nhello!!", "EXPECTED_CRLF\r\n");
    bs_rig_send(&r, &c, "quit\r\n");
    client_until_eof(&r.broker.loop, &c);
    assert_int_equal(c.len, 0);
    bs_rig_end(&r, &c);
}

/* Everything at once: the replies come in the order of the commands. */
static void pipelined(void **state)
{
    (void)state;
    enum { JOBS = 300 };
    static char input[JOBS * 64], want[JOBS * 64];
    struct bs_rig r;
    struct client c;
    size_t in = 0, out = 0;
    for (int i = 1; i <= JOBS; i++) {
        in += (size_t)snprintf(input + in, sizeof input - in,
                               "put 1 0 60 4\r\n%04d\r\nreserve\r\ndelete %d\r\n", i, i);
        out += (size_t)snprintf(want + out, sizeof want - out,
                                "INSERTED %d\r\nRESERVED %d 4\r\n%04d\r\nDELETED\r\n", i, i, i);
    }
    bs_rig_begin(&r, &c);
    bs_rig_expect(&r, &c, input, want);
    bs_rig_end(&r, &c);
}

/* A body that is larger than the read buffer, there and back. */
static void large_body(void **state)
{
    (void)state;
    enum { LEN = 400000 };
    struct bs_rig r;
    struct client c;
    char head[64], *body = malloc(LEN + 3);
    assert_non_null(body);
    for (size_t i = 0; i < LEN; i++)
        body[i] = (char)('a' + i % 19);
    memcpy(body + LEN, "\r\n", 3);
    bs_rig_begin(&r, &c);
    snprintf(head, sizeof head, "put 1 0 60 %d\r\n", LEN);
    bs_rig_send(&r, &c, head);
    bs_rig_expect(&r, &c, body, "INSERTED 1\r\n");
    bs_rig_send(&r, &c, "reserve\r\n");
    size_t line = (size_t)snprintf(head, sizeof head, "RESERVED 1 %d\r\n", LEN);
    BS_UNTIL(&r, client_poll(&c) && c.len == line + LEN + 2);
    assert_memory_equal(c.data, head, line);
    assert_memory_equal(c.data + line, body, LEN + 2);
    free(body);
    bs_rig_end(&r, &c);
}

/* ---- reserves that wait ---- */

static void reserve_waits_for_a_put(void **state)
{
    (void)state;
    struct bs_rig r;
    struct client worker, producer;
    bs_rig_init(&r);
    bs_rig_start(&r);
    bs_rig_client(&r, &worker);
    bs_rig_client(&r, &producer);
    bs_rig_send(&r, &worker, "reserve\r\nstats-job 1\r\n"); /* the second waits, too */
    BS_UNTIL(&r, bs_rig_stat(&r, "current-waiting") == 1);
    bs_rig_expect(&r, &producer, "put 1 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    client_until(&r.broker.loop, &worker, "state: reserved\n");
    assert_memory_equal(worker.data, "RESERVED 1 1\r\nx\r\nOK ", 20);
    net_client_close(&worker);
    net_client_close(&producer);
    bs_rig_done(&r);
}

/* The lease is bound to the connection. */
static void jobs_return_with_their_connection(void **state)
{
    (void)state;
    struct bs_rig r;
    struct client lost, other;
    bs_rig_init(&r);
    bs_rig_start(&r);
    bs_rig_client(&r, &lost);
    bs_rig_client(&r, &other);
    bs_rig_expect(&r, &lost, "put 1 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    bs_rig_expect(&r, &lost, "reserve\r\n", "RESERVED 1 1\r\nx\r\n");
    bs_rig_expect(&r, &other, "reserve-with-timeout 0\r\n", "TIMED_OUT\r\n");
    bs_rig_send(&r, &other, "reserve\r\n");
    BS_UNTIL(&r, bs_rig_stat(&r, "current-waiting") == 1);
    client_reset(&lost);
    client_until(&r.broker.loop, &other, "RESERVED 1 1\r\nx\r\n");
    net_client_close(&other);
    bs_rig_done(&r);
}

/* A client that only sends no more gets its replies; a reserve ends as if it had timed out. */
static void half_closed(void **state)
{
    (void)state;
    struct bs_rig r;
    struct client c;
    bs_rig_begin(&r, &c);
    bs_rig_send(&r, &c, "put 1 0 60 1\r\nx\r\nreserve\r\nreserve\r\nlist-tube-used\r\n");
    client_shutdown(&c);
    client_until_eof(&r.broker.loop, &c);
    assert_string_equal(c.data,
                        "INSERTED 1\r\nRESERVED 1 1\r\nx\r\nTIMED_OUT\r\nUSING default\r\n");
    net_client_close(&c);
    BS_UNTIL(&r, bs_rig_stat(&r, "current-jobs-ready") == 1);
    bs_rig_done(&r);
}

/* ---- limits ---- */

static void other_protocols(void **state)
{
    (void)state;
    static const char *const first[][2] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\nput 1 0 1 1\r\nx\r\n", ""},
        {"\x16\x03\x01\x02\r\n", ""},
        {"hello\r\nput 1 0 1 1\r\nx\r\n", "UNKNOWN_COMMAND\r\n"},
        {"put 1 0 1\r\nput 1 0 1 1\r\nx\r\n", "BAD_FORMAT\r\n"},
    };
    struct bs_rig r;
    bs_rig_init(&r);
    bs_rig_start(&r);
    for (size_t i = 0; i < COUNT_OF(first); i++) {
        struct client c;
        bs_rig_client(&r, &c);
        bs_rig_send(&r, &c, first[i][0]);
        client_until_eof(&r.broker.loop, &c);
        if (!c.error) /* a reset may overtake the reply */
            assert_string_equal(c.data, first[i][1]);
        net_client_close(&c);
    }
    assert_int_equal(bs_rig_stat(&r, "total-jobs"), 0);
    bs_rig_done(&r);
}

static void connections_in_all(void **state)
{
    (void)state;
    struct bs_rig r;
    struct client in, out;
    bs_rig_init(&r);
    r.config.net.connections_max = 1;
    bs_rig_start(&r);
    bs_rig_client(&r, &in);
    bs_rig_expect(&r, &in, "use a\r\n", "USING a\r\n");
    bs_rig_client(&r, &out);
    client_until_eof(&r.broker.loop, &out);
    assert_int_equal(out.len, 0);
    bs_rig_expect(&r, &in, "use b\r\n", "USING b\r\n");
    net_client_close(&out);
    net_client_close(&in);
    bs_rig_done(&r);
}

static void incomplete_command(void **state)
{
    (void)state;
    static const char *const parts[] = {"use mai", "put 1 0 60 10\r\nhello"};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        struct bs_rig r;
        struct client c;
        bs_rig_init(&r);
        *(i == 0 ? &r.config.line_ms : &r.config.body_ms) = 50;
        bs_rig_start(&r);
        bs_rig_client(&r, &c);
        bs_rig_send(&r, &c, parts[i]);
        client_until_eof(&r.broker.loop, &c);
        assert_int_equal(c.len, 0);
        bs_rig_end(&r, &c);
    }
}

/* Replies that are not read stop the reading of commands, and in the end the connection. */
static void stuck_reader(void **state)
{
    (void)state;
    struct bs_rig r;
    struct client stuck, other;
    char head[64];
    size_t len = 1 << 20;
    char *body = malloc(len + 3);
    assert_non_null(body);
    memset(body, 'x', len);
    memcpy(body + len, "\r\n", 3);
    bs_rig_init(&r);
    r.config.net.write_ms = 200;
    bs_rig_start(&r);
    bs_rig_client(&r, &stuck);
    bs_rig_client(&r, &other);
    snprintf(head, sizeof head, "put 1 0 60 %zu\r\n", len);
    bs_rig_send(&r, &other, head);
    bs_rig_expect(&r, &other, body, "INSERTED 1\r\n");
    for (int i = 0; i < 40; i++)
        bs_rig_send(&r, &stuck, "peek 1\r\n");
    BS_UNTIL(&r, bs_rig_stat(&r, "current-connections") == 2); /* `other` and the one that asks */
    free(body);
    net_client_close(&stuck);
    net_client_close(&other);
    bs_rig_done(&r);
}

/* A put that finds no memory is answered when its body has come; the connection goes on. */
static void put_without_memory(void **state)
{
    (void)state;
    enum { LEN = 300000 };
    struct budget b;
    struct bs_rig r;
    struct client c;
    char head[64], *body = malloc(LEN + 3);
    assert_non_null(body);
    memset(body, 'x', LEN);
    memcpy(body + LEN, "\r\n", 3);
    budget_init(&b, 200000);
    bs_rig_init(&r);
    r.config.net.budget = &b;
    bs_rig_start(&r);
    bs_rig_client(&r, &c);
    bs_rig_expect(&r, &c, "use a\r\n", "USING a\r\n");
    snprintf(head, sizeof head, "put 1 0 60 %d\r\n", LEN);
    bs_rig_send(&r, &c, head);
    bs_rig_expect(&r, &c, body, "OUT_OF_MEMORY\r\n");
    bs_rig_expect(&r, &c, "put 1 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    assert_true(b.figures.peak <= 200000);
    free(body);
    net_client_close(&c);
    BS_UNTIL(&r, b.figures.held == 0);
    bs_rig_done(&r);
}

/* ---- drain ---- */

static void count_cb(void *ctx)
{
    ++*(unsigned *)ctx;
}

static void drain(void **state)
{
    (void)state;
    struct bs_rig r;
    struct client rests, waits;
    bs_rig_init(&r);
    bs_rig_start(&r);
    bs_rig_client(&r, &rests);
    bs_rig_client(&r, &waits);
    bs_rig_expect(&r, &rests, "use a\r\n", "USING a\r\n");
    bs_rig_send(&r, &waits, "reserve\r\n");
    BS_UNTIL(&r, bs_rig_stat(&r, "current-waiting") == 1);
    beanstalk_drain(r.api, 60000, count_cb, &r.drained);
    client_until_eof(&r.broker.loop, &rests);
    assert_int_equal(r.drained, 0); /* the other one waits for its job */
    client_shutdown(&waits);
    client_until_eof(&r.broker.loop, &waits);
    assert_string_equal(waits.data, "TIMED_OUT\r\n");
    BS_UNTIL(&r, r.drained == 1);
    net_client_close(&rests);
    net_client_close(&waits);
    bs_rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(pipelined),
        cmocka_unit_test(large_body),
        cmocka_unit_test(reserve_waits_for_a_put),
        cmocka_unit_test(jobs_return_with_their_connection),
        cmocka_unit_test(half_closed),
        cmocka_unit_test(other_protocols),
        cmocka_unit_test(connections_in_all),
        cmocka_unit_test(incomplete_command),
        cmocka_unit_test(stuck_reader),
        cmocka_unit_test(put_without_memory),
        cmocka_unit_test(drain),
    };
    return RUN_OVER_STREAMS(tests);
}
