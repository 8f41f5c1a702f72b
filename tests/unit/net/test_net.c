/* SPDX-License-Identifier: Apache-2.0 */
/* The network layer under a protocol of lines: input, output, limits, deadlines, ends. */
#include "unit/net/net_rig.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- input and output ---- */

static void lines_come_back(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_begin(&r, &c);
    net_rig_send(&r, &c, "one\ntwo\nthr");
    client_until(&r.loop, &c, "one\ntwo\n");
    net_rig_send(&r, &c, "ee\n");
    client_until(&r.loop, &c, "one\ntwo\nthree\n");
    assert_int_equal(r.net.figures.bytes_in, c.len);
    assert_int_equal(r.net.figures.bytes_out, c.len);
    assert_true(r.net.figures.connections == 1 && r.net.figures.accepted == 1);
    net_client_close(&c);
    NET_UNTIL(&r, r.net.figures.connections == 0);
    net_rig_done(&r);
}

/* Lines longer than the read buffer, and more output than one write has pieces for. */
static void long_lines(void **state)
{
    (void)state;
    enum { LEN = 300000 };
    struct net_rig r;
    struct client c;
    char *line = malloc(LEN);
    assert_non_null(line);
    for (size_t i = 0; i < LEN; i++)
        line[i] = (char)('a' + i % 23);
    line[LEN - 1] = '\n';
    net_rig_begin(&r, &c);
    client_send(&r.loop, &c, line, LEN);
    NET_UNTIL(&r, client_poll(&c) && c.len == LEN);
    assert_memory_equal(c.data, line, LEN);
    assert_int_equal(r.lines, 1);
    free(line);
    net_rig_end(&r, &c);
}

/* The split stream does what it is there for, and loses nothing. */
static void split_streams_split(void **state)
{
    (void)state;
    void *ctx;
    struct split_streams *split;
    struct net_rig r;
    struct client c;
    net_rig_begin(&r, &c);
    for (int i = 0; i < 300; i++)
        net_rig_send(&r, &c, "0123456789\n");
    NET_UNTIL(&r, client_poll(&c) && c.len == 300 * 11);
    for (int i = 0; i < 300; i++)
        assert_memory_equal(c.data + i * 11, "0123456789\n", 11);
    bool is_split = stream_under_test(&ctx) == &split_stream;
    split = ctx;
    assert_true(!is_split || (split->delays > 0 && split->splits > 0));
    net_rig_end(&r, &c);
}

static void held_lines_keep_their_order(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_begin(&r, &c);
    net_rig_send(&r, &c, "one\nhold\ntwo\nhold\nthree\n");
    NET_UNTIL(&r, r.holds == 1);
    client_until(&r.loop, &c, "one\n");
    net_rig_release(&r);
    NET_UNTIL(&r, r.holds == 2);
    net_rig_release(&r);
    client_until(&r.loop, &c, "three\n");
    assert_string_equal(c.data, "one\nheld\ntwo\nheld\nthree\n");
    net_rig_end(&r, &c);
}

/* What waits for one reply leaves with one write. */
static void written_together(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_begin(&r, &c);
    net_rig_send(&r, &c, "one\ntwo\nthree\n");
    NET_UNTIL(&r, r.lines == 3 && client_poll(&c) && c.len > 0);
    assert_string_equal(c.data, "one\ntwo\nthree\n");
    net_rig_end(&r, &c);
}

/* A client that does not read is not read from. */
static void output_is_bounded(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_init(&r);
    r.config.write_buffer_bytes = 1000;
    net_rig_start_with(&r, &c);
    net_rig_send(&r, &c, "size 30000000\nnext\n");
    NET_UNTIL(&r, r.lines == 1);
    for (int i = 0; i < 100; i++)
        uv_run(&r.loop, UV_RUN_NOWAIT);
    assert_int_equal(r.lines, 1);
    NET_UNTIL(&r, client_poll(&c) && c.len == 30000005);
    assert_string_equal(c.data + 30000000, "next\n");
    net_rig_end(&r, &c);
}

/* ---- how connections end ---- */

/* The reply arrives although the client has sent more than was read. */
static void the_last_reply_arrives(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_begin(&r, &c);
    net_rig_send(&r, &c, "end\n");
    for (int i = 0; i < 50; i++)
        net_rig_send(&r, &c, "this is not read as a line any more\n");
    client_until_eof(&r.loop, &c);
    assert_true(c.eof && !c.error);
    assert_string_equal(c.data, "end\n");
    assert_int_equal(r.net.figures.connections, 1); /* waits for the client to close */
    net_client_close(&c);
    NET_UNTIL(&r, r.net.figures.connections == 0);
    net_rig_done(&r);
}

/* A client that has shut down its sending side still gets what it asked for. */
static void half_closed(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_begin(&r, &c);
    net_rig_send(&r, &c, "hold\nafter\n");
    NET_UNTIL(&r, r.holds == 1);
    client_shutdown(&c);
    NET_UNTIL(&r, r.hung_up == 1);
    net_rig_release(&r);
    client_until_eof(&r.loop, &c);
    assert_string_equal(c.data, "held\nafter\n");
    assert_int_equal(r.ended, 1);
    net_rig_end(&r, &c);
}

static void closed_by_the_protocol(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_begin(&r, &c);
    net_rig_send(&r, &c, "hold\nclose\nnever\n");
    NET_UNTIL(&r, r.holds == 1);
    net_rig_release(&r); /* the rest is taken from the kept input, and closes in the middle of it */
    client_until_eof(&r.loop, &c);
    NET_UNTIL(&r, r.closed == 1);
    assert_int_equal(r.lines, 2);
    net_rig_end(&r, &c);
}

static void reset_by_the_client(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_begin(&r, &c);
    net_rig_hold(&r, &c);
    client_reset(&c);
    NET_UNTIL(&r, r.net.figures.connections == 0);
    net_rig_done(&r);
}

/* ---- limits ---- */

static void connections_in_all(void **state)
{
    (void)state;
    struct net_rig r;
    struct client in, out;
    net_rig_init(&r);
    r.config.connections_max = 1;
    net_rig_start_with(&r, &in);
    net_rig_send(&r, &in, "one\n");
    client_until(&r.loop, &in, "one\n");
    net_rig_client(&r, &out);
    client_until_eof(&r.loop, &out);
    assert_string_equal(out.data, "full\n");
    assert_true(r.net.figures.accepted == 1 && r.net.figures.refused == 1 && r.refused == 1);
    net_client_close(&out);
    net_client_close(&in);
    NET_UNTIL(&r, r.net.figures.connections == 0);
    net_rig_client(&r, &in);
    net_rig_send(&r, &in, "two\n");
    client_until(&r.loop, &in, "two\n");
    net_rig_end(&r, &in);
}

static void connections_of_an_address(void **state)
{
    (void)state;
    struct net_rig r;
    struct client in, out;
    net_rig_init(&r);
    r.config.connections_per_address = 1;
    net_rig_start_with(&r, &in);
    net_rig_send(&r, &in, "one\n");
    client_until(&r.loop, &in, "one\n");
    net_rig_client(&r, &out);
    client_until_eof(&r.loop, &out);
    assert_string_equal(out.data, "full\n");
    net_client_close(&out);
    net_client_close(&in);
    NET_UNTIL(&r, r.net.figures.connections == 0);
    assert_int_equal(map64_get(&r.net.addresses, UINT64_C(1) << 32 | 0x7f000001), 0);
    net_rig_done(&r);
}

/* A stream that cannot be opened costs only its connection. */
static void stream_refused(void **state)
{
    (void)state;
    struct split_streams split = {.refuse = true};
    struct net_rig r;
    struct client c;
    seeded(&split.random, "stream_refused");
    net_rig_init(&r);
    r.config.stream = &split_stream;
    r.config.stream_ctx = &split;
    net_rig_start_with(&r, &c);
    client_until_eof(&r.loop, &c);
    assert_true(r.net.figures.connections == 0 && r.net.figures.refused == 1 && r.opened == 0);
    assert_int_equal(map64_get(&r.net.addresses, UINT64_C(1) << 32 | 0x7f000001), 0);
    net_client_close(&c);
    split.refuse = false;
    net_rig_client(&r, &c);
    net_rig_send(&r, &c, "one\n");
    client_until(&r.loop, &c, "one\n");
    net_rig_end(&r, &c);
    assert_int_equal(split.open, 0);
}

/* ---- deadlines ---- */

static void slow_line(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_init(&r);
    r.line_ms = 40;
    net_rig_start_with(&r, &c);
    net_rig_send(&r, &c, "no end");
    client_until_eof(&r.loop, &c);
    assert_string_equal(c.data, "late\n");
    assert_true(r.late[0] == 1 && r.late[1] == 0);
    net_rig_end(&r, &c);
}

static void idle(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_init(&r);
    r.idle_ms = 40;
    net_rig_start_with(&r, &c);
    client_until_eof(&r.loop, &c);
    assert_true(r.late[0] == 0 && r.late[1] == 1);
    net_rig_end(&r, &c);
}

/* While the server owes the reply, the client cannot be late. */
static void held_is_not_late(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c = {.fd = -1};
    net_rig_init(&r);
    r.idle_ms = r.line_ms = 40;
    net_rig_start(&r);
    while (r.holds == 0) { /* again if the machine was too slow for a line within that time */
        net_client_close(&c);
        net_rig_client(&r, &c);
        net_rig_send(&r, &c, "hold\n");
        NET_UNTIL(&r, r.holds == 1 || (client_poll(&c) && c.eof));
    }
    unsigned ticks = r.ticks, late = r.late[0] + r.late[1];
    NET_UNTIL(&r, r.ticks >= ticks + 8); /* at least 70 ms */
    assert_int_equal(r.late[0] + r.late[1], late);
    net_rig_release(&r);
    client_until(&r.loop, &c, "held\n");
    net_rig_end(&r, &c);
}

static void stuck_writer(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_init(&r);
    r.config.write_ms = 60;
    net_rig_start_with(&r, &c);
    net_rig_send(&r, &c, "size 30000000\n");
    NET_UNTIL(&r, r.closed == 1);
    net_rig_end(&r, &c);
}

static void ticks_stop_without_connections(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_init(&r);
    r.line_ms = 20;
    net_rig_start(&r);
    assert_false(uv_is_active((uv_handle_t *)&r.net.timer));
    net_rig_client(&r, &c);
    NET_UNTIL(&r, r.ticks > 0);
    net_client_close(&c);
    NET_UNTIL(&r, !uv_is_active((uv_handle_t *)&r.net.timer));
    r.tick_more = true;
    net_tick_start(&r.net);
    unsigned ticks = r.ticks;
    NET_UNTIL(&r, r.ticks >= ticks + 3);
    r.tick_more = false;
    NET_UNTIL(&r, !uv_is_active((uv_handle_t *)&r.net.timer));
    net_rig_done(&r);
}

/* ---- memory ---- */

static void kept_input_is_charged(void **state)
{
    (void)state;
    enum { KEPT = 50000 };
    struct budget b;
    struct net_rig r;
    struct client c;
    char *input = malloc(KEPT);
    assert_non_null(input);
    memset(input, 'x', KEPT);
    budget_init(&b, 1 << 20);
    net_rig_init(&r);
    r.config.budget = &b;
    net_rig_start_with(&r, &c);
    client_send(&r.loop, &c, input, KEPT);
    NET_UNTIL(&r, b.figures.by_kind[BUDGET_BODIES] >= KEPT);
    assert_true(b.figures.by_kind[BUDGET_BODIES] <= 2 * KEPT);
    assert_int_equal(b.figures.by_kind[BUDGET_CONNECTIONS], sizeof(struct line_conn));
    NET_UNTIL(&r, r.net.figures.bytes_in == KEPT);
    net_rig_send(&r, &c, "\n");
    NET_UNTIL(&r, r.lines == 1);
    assert_int_equal(b.figures.by_kind[BUDGET_BODIES], 0);
    free(input);
    net_client_close(&c);
    NET_UNTIL(&r, b.figures.held == 0);
    net_rig_done(&r);
}

static void input_without_room(void **state)
{
    (void)state;
    struct budget b;
    struct net_rig r;
    struct client c;
    char *input = malloc(400000);
    assert_non_null(input);
    memset(input, 'x', 400000);
    budget_init(&b, 200000);
    net_rig_init(&r);
    r.config.budget = &b;
    net_rig_start_with(&r, &c);
    client_send(&r.loop, &c, input, 400000);
    client_until_eof(&r.loop, &c);
    assert_string_equal(c.data, "memory\n");
    assert_int_equal(r.no_room, 1);
    assert_true(b.figures.peak <= 200000);
    free(input);
    net_client_close(&c);
    NET_UNTIL(&r, b.figures.held == 0);
    net_rig_done(&r);
}

static void shed_when_memory_is_short(void **state)
{
    (void)state;
    enum { KEPT = 60000 };
    struct budget b;
    struct budget_account others;
    struct net_rig r;
    struct client c;
    char *input = malloc(KEPT);
    assert_non_null(input);
    memset(input, 'x', KEPT);
    budget_init(&b, 1 << 20);
    budget_open(&others, &b, NULL, NULL, 0);
    net_rig_init(&r);
    r.config.budget = &b;
    net_rig_start_with(&r, &c);
    client_send(&r.loop, &c, input, KEPT);
    NET_UNTIL(&r, r.net.figures.bytes_in == KEPT);
    uint64_t later = uv_now(&r.loop) + 2 * BUDGET_IDLE_MS;
    assert_true(budget_take(&others, BUDGET_BODIES, b.large_limit - 30000, later));
    assert_int_equal(r.shed, 1);
    client_until_eof(&r.loop, &c);
    budget_give(&others, BUDGET_BODIES, others.held);
    budget_close(&others);
    free(input);
    net_rig_end(&r, &c);
}

/* ---- drain and close ---- */

static void count_cb(void *ctx)
{
    ++*(unsigned *)ctx;
}

static void drain(void **state)
{
    (void)state;
    struct net_rig r;
    struct client rests, works;
    net_rig_begin(&r, &rests);
    net_rig_client(&r, &works);
    net_rig_send(&r, &rests, "one\n");
    client_until(&r.loop, &rests, "one\n");
    net_rig_hold(&r, &works);
    char address[100];
    snprintf(address, sizeof address, "%s", net_address(&r.net, 0));
    net_drain(&r.net, 60000, count_cb, &r.drained);
    client_until_eof(&r.loop, &rests);
    assert_int_equal(r.drained, 0);
    assert_null(net_address(&r.net, 0));
    assert_int_equal(client_connect(address), -1);
    net_rig_release(&r);
    client_until_eof(&r.loop, &works);
    assert_string_equal(works.data, "held\n");
    NET_UNTIL(&r, r.drained == 1);
    net_client_close(&rests);
    net_rig_end(&r, &works);
    assert_int_equal(r.drained, 1);
}

static void drain_has_an_end(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_begin(&r, &c);
    net_rig_hold(&r, &c);
    net_drain(&r.net, 50, count_cb, &r.drained);
    NET_UNTIL(&r, r.drained == 1);
    assert_int_equal(r.closed, 1);
    net_rig_end(&r, &c);
}

/* The server does not end before the protocol has nothing under way. */
static void close_waits_for_work(void **state)
{
    (void)state;
    struct net_rig r;
    struct client c;
    net_rig_begin(&r, &c);
    net_rig_hold(&r, &c);
    r.net.under_way = 1;
    net_close(&r.net, count_cb, &r.server_closed);
    NET_UNTIL(&r, r.closed == 1);
    for (int i = 0; i < 100; i++)
        uv_run(&r.loop, UV_RUN_NOWAIT);
    assert_int_equal(r.server_ended, 0);
    net_work_done(&r.net);
    NET_UNTIL(&r, r.server_closed == 1);
    net_client_close(&c);
    assert_int_equal(uv_run(&r.loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&r.loop), 0);
}

/* ---- addresses ---- */

static void addresses(void **state)
{
    (void)state;
    struct err_note note = {""};
    struct net_rig r;
    struct client c;
    struct stat st;
    char text[100], folder[] = "/tmp/hf-net-XXXXXX";
    assert_non_null(mkdtemp(folder));
    snprintf(text, sizeof text, "unix:%s/s", folder);
    net_rig_init(&r);
    net_rig_start(&r);
    assert_memory_equal(net_address(&r.net, 0), "lines://127.0.0.1:", 18);
    assert_int_equal(net_listen(&r.net, text, &note), 0);
    assert_int_equal(net_listen(&r.net, text, &note), -ERR_LOCKED);
    assert_int_equal(net_listen(&r.net, net_address(&r.net, 0) + strlen("lines://"), &note),
                     -ERR_LOCKED);
    assert_memory_equal(net_address(&r.net, 1), "lines+unix:/tmp/", 16);
    assert_null(net_address(&r.net, 2));
    assert_int_equal(stat(text + 5, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    net_client_open(&c, net_address(&r.net, 1));
    net_rig_send(&r, &c, "one\n");
    client_until(&r.loop, &c, "one\n");
    net_rig_end(&r, &c);
    assert_int_equal(stat(text + 5, &st), -1); /* removed */
    assert_int_equal(rmdir(folder), 0);
}

static void address_check(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        enum net_address_kind kind;
    } good[] = {{"127.0.0.1:0", NET_ADDRESS_BARE},      {"127.1.2.3:65535", NET_ADDRESS_BARE},
                {"[::1]:1", NET_ADDRESS_BARE},          {"localhost:80", NET_ADDRESS_BARE},
                {"lines://[::1]:1", NET_ADDRESS_PLAIN}, {"liness://127.0.0.1:1", NET_ADDRESS_TLS},
                {"unix:/x", NET_ADDRESS_UNIX}};
    static const char *const bad[] = {"",
                                      "127.0.0.1",
                                      "127.0.0.1:65536",
                                      "0.0.0.0:1",
                                      "10.0.0.1:1",
                                      "[::]:1",
                                      "example.org:80",
                                      "unix:",
                                      "localhost:",
                                      "localhost:x",
                                      ":1",
                                      "http://127.0.0.1:1",
                                      "lines://",
                                      "liness://0.0.0.0:1",
                                      "lines://10.0.0.1:1"};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct err_note note = {""};
        enum net_address_kind kind;
        assert_int_equal(net_address_check(good[i].address, &line_schemes, &kind, &note), 0);
        assert_int_equal(kind, good[i].kind);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err_note note = {""};
        enum net_address_kind kind;
        if (net_address_check(bad[i], &line_schemes, &kind, &note) != -ERR_INVALID || !note.text[0])
            fail_msg("\"%s\" was taken", bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_back),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(split_streams_split),
        cmocka_unit_test(held_lines_keep_their_order),
        cmocka_unit_test_plain_only(written_together),
        cmocka_unit_test(output_is_bounded),
        cmocka_unit_test(the_last_reply_arrives),
        cmocka_unit_test(half_closed),
        cmocka_unit_test(closed_by_the_protocol),
        cmocka_unit_test(reset_by_the_client),
        cmocka_unit_test(connections_in_all),
        cmocka_unit_test(connections_of_an_address),
        cmocka_unit_test_plain_only(stream_refused),
        cmocka_unit_test(slow_line),
        cmocka_unit_test(idle),
        cmocka_unit_test(held_is_not_late),
        cmocka_unit_test(stuck_writer),
        cmocka_unit_test(ticks_stop_without_connections),
        cmocka_unit_test(kept_input_is_charged),
        cmocka_unit_test(input_without_room),
        cmocka_unit_test(shed_when_memory_is_short),
        cmocka_unit_test(drain),
        cmocka_unit_test(drain_has_an_end),
        cmocka_unit_test(close_waits_for_work),
        cmocka_unit_test(addresses),
        cmocka_unit_test_plain_only(address_check),
    };
    return RUN_OVER_STREAMS(tests);
}
