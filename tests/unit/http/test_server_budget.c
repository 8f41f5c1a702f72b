/* SPDX-License-Identifier: Apache-2.0 */
/* HF-19: what the server does at the limit of its memory budget, and feeds that many streams
 * share. The rig checks at its end that everything was given back. */
#include "unit/http/http_rig.h"

#define PIECE 1000
#define MIB (UINT64_C(1) << 20)

static void rig_start(struct http_rig *r, struct budget *b, uint64_t total)
{
    budget_init(b, total);
    http_rig_init(r);
    r->config.net.budget = b;
    r->config.limits.body_bytes = 64 * MIB;
    r->config.net.write_buffer_bytes = 50000;
    http_rig_start(r);
}

static void body_send_to(struct http_rig *r, struct client *c, const char *path, size_t announced,
                         size_t come)
{
    char head[128], *body = malloc(come);
    assert_non_null(body);
    memset(body, 'b', come);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", path, announced);
    peer_send(r, c, head);
    peer_send_bytes(r, c, body, come);
    free(body);
}

static void body_send(struct http_rig *r, struct client *c, size_t announced, size_t come)
{
    body_send_to(r, c, "/echo", announced, come);
}

static uint64_t held_besides_tls(const struct budget *b)
{
    return b->figures.held - b->figures.by_kind[BUDGET_TLS];
}

/* Memory follows the bytes that came, not the length that was announced. */
static void announced_length_costs_nothing(void **state)
{
    (void)state;
    struct http_rig r;
    struct budget b;
    struct client c;
    rig_start(&r, &b, 16 * MIB);
    peer_open(&r, &c);
    body_send(&r, &c, 60 * MIB, 1000);
    RIG_UNTIL(&r, http_rig_figures(&r).bytes_in > 1000);
    assert_in_range(held_besides_tls(&b), 1, 8192);
    net_client_close(&c);
    RIG_UNTIL(&r, http_rig_figures(&r).connections == 0);
    assert_int_equal(b.figures.held, 0);
    http_rig_done(&r);
}

/* A body that does not fit is refused with 503 and Retry-After, and all others are served. */
static void body_beyond_the_budget(void **state)
{
    (void)state;
    struct http_rig r;
    struct budget b;
    struct client c, other;
    char head[1024];
    rig_start(&r, &b, 4 * MIB);
    peer_open(&r, &c);
    peer_open(&r, &other);
    body_send(&r, &c, 8 * MIB, 4 * MIB);
    assert_int_equal(peer_head(&r, &c, head, sizeof head), 503);
    assert_non_null(strstr(head, "Retry-After: 1\r\n"));
    assert_non_null(strstr(head, "Connection: close\r\n"));
    assert_true(b.figures.peak <= 4 * MIB && b.figures.refused == 1);
    expect_status(&r, &other, GET("/now"), 200);
    net_client_close(&c);
    http_rig_end(&r, &other);
}

/* A smaller request displaces a body of which a part has come; its client is told. */
static void half_a_body_is_shed(void **state)
{
    (void)state;
    struct http_rig r;
    struct budget b;
    struct client half, c;
    char *body = malloc(MIB);
    assert_non_null(body);
    rig_start(&r, &b, 4 * MIB);
    peer_open(&r, &half);
    peer_open(&r, &c);
    body_send(&r, &half, 3 * MIB, 3 * MIB - 1);
    RIG_UNTIL(&r, b.figures.by_kind[BUDGET_BODIES] == 3 * MIB);
    body_send(&r, &c, MIB / 2 + 1000, MIB / 2 + 1000);
    assert_int_equal(peer_answer(&r, &c, body, MIB), 200);
    assert_int_equal(b.figures.shed[BUDGET_SHED_BODY], 1);
    assert_int_equal(peer_head(&r, &half, body, MIB), 503);
    free(body);
    net_client_close(&half);
    http_rig_end(&r, &c);
}

/* ---- requests that wait for a job ------------------------------------------------------------ */

static void wait_gives_its_body_back(void **state)
{
    (void)state;
    struct http_rig r;
    struct budget b;
    struct client c;
    rig_start(&r, &b, 4 * MIB);
    peer_open(&r, &c);
    body_send_to(&r, &c, "/wait/0", MIB, MIB);
    RIG_UNTIL(&r, r.parked[0].taken == 1);
    assert_in_range(held_besides_tls(&b), 1, BUDGET_OWN_BYTES);
    http_rig_answer(&r, 0, "late");
    peer_until(&r, &c, "late");
    assert_true(r.parked[0].sent == 1 && r.parked[0].whole);
    http_rig_end(&r, &c);
}

#define WAITS 100
#define WAIT_BODY 15000 /* so short that it is part of the exchange */

/* Many that wait on one connection hold much; when it is needed they are refused, and their
 * handlers hear it. */
static void waits_are_shed(void **state)
{
    (void)state;
    struct http_rig r;
    struct budget b;
    struct client waits, c;
    char text[1024];
    rig_start(&r, &b, 2 * MIB);
    peer_open(&r, &waits);
    peer_open(&r, &c);
    for (int i = 0; i < WAITS; i++) {
        snprintf(text, sizeof text, "/wait/%d", i);
        body_send_to(&r, &waits, text, WAIT_BODY, WAIT_BODY);
    }
    RIG_UNTIL(&r, r.parked[WAITS - 1].taken == 1);
    body_send_to(&r, &c, "/park/200", 300000, 300000);
    RIG_UNTIL(&r, r.parked[200].taken == 1);
    assert_int_equal(b.figures.shed[BUDGET_SHED_WAIT], 1);
    assert_int_equal(b.figures.refused, 0);
    assert_int_equal(peer_head(&r, &waits, text, sizeof text), 503);
    peer_until_eof(&r, &waits);
    for (int i = 0; i < WAITS; i++)
        assert_true(r.parked[i].gone == 1 && r.parked[i].sent == 1 && !r.parked[i].whole);
    http_rig_answer(&r, 200, "taken");
    peer_until(&r, &c, "taken");
    net_client_close(&waits);
    http_rig_end(&r, &c);
}

/* A reply behind one that waits is not sent, so that its client need not even refuse to read it. */
static void replies_behind_a_wait_are_shed(void **state)
{
    (void)state;
    struct http_rig r;
    struct budget b;
    struct budget_account others;
    struct client c;
    rig_start(&r, &b, MIB);
    budget_open(&others, &b, NULL, NULL, 0);
    peer_open(&r, &c);
    body_send_to(&r, &c, "/wait/0", 2, 2);
    peer_send(&r, &c, GET("/park/1"));
    RIG_UNTIL(&r, r.parked[1].taken == 1);
    struct buf *reply = http_answer_body(r.parked[1].x);
    assert_int_equal(buf_reserve(reply, MIB / 2), 0);
    memset(reply->data, 'r', MIB / 2);
    reply->len = MIB / 2;
    http_rig_answer(&r, 1, "");
    assert_true(b.figures.held > MIB / 2);
    uint64_t later = uv_now(&r.loop) + 2 * BUDGET_IDLE_MS;
    assert_true(budget_take(&others, BUDGET_BODIES, b.large_limit / 2, later));
    assert_int_equal(b.figures.shed[BUDGET_SHED_WAIT], 1);
    assert_true(r.parked[0].gone == 1 && r.parked[0].sent == 1); /* its memory is free already */
    peer_until_eof(&r, &c);
    assert_non_null(strstr(c.data, "HTTP/1.1 503 "));
    assert_true(r.parked[0].gone == 1 && r.parked[1].gone == 0 && !r.parked[1].whole);
    budget_give(&others, BUDGET_BODIES, others.held);
    budget_close(&others);
    http_rig_end(&r, &c);
}

/* Requests behind one that waits can be refused; the one that waits is still answered. */
static void input_behind_a_wait_is_shed(void **state)
{
    (void)state;
    enum { KEPT = 40000 };
    static const char first[] = GET("/alone/0");
    struct http_rig r;
    struct budget b;
    struct budget_account others;
    struct client c;
    char *input = malloc(KEPT);
    assert_non_null(input);
    memset(input, '\n', KEPT); /* empty lines before a request */
    memcpy(input, first, sizeof first - 1);
    rig_start(&r, &b, MIB);
    budget_open(&others, &b, NULL, NULL, 0);
    peer_open(&r, &c);
    peer_send_bytes(&r, &c, input, KEPT);
    RIG_UNTIL(&r, r.parked[0].taken == 1);
    assert_true(b.figures.held > BUDGET_OWN_BYTES);
    uint64_t later = uv_now(&r.loop) + 2 * BUDGET_IDLE_MS;
    assert_true(budget_take(&others, BUDGET_BODIES, b.large_limit - BUDGET_OWN_BYTES, later));
    assert_int_equal(b.figures.shed[BUDGET_SHED_BODY], 1);
    budget_give(&others, BUDGET_BODIES, others.held);
    budget_close(&others);
    http_rig_answer(&r, 0, "first");
    peer_until_eof(&r, &c);
    assert_non_null(strstr(c.data, "first"));
    assert_non_null(strstr(c.data, "HTTP/1.1 503 "));
    assert_true(r.parked[0].whole);
    free(input);
    http_rig_end(&r, &c);
}

/* ---- streams --------------------------------------------------------------------------------- */

static struct http_exchange *stream_open_at(struct http_rig *r, struct client *c, size_t index);
static const char *body_of(const struct client *c);

/* A piece that does not fit is refused also when nothing else waits; room is told when there is
 * memory for it. */
static void stream_waits_for_memory(void **state)
{
    (void)state;
    enum { PIECE_BYTES = 200000, TURNS = 100 };
    struct http_rig r;
    struct budget b;
    struct budget_account others;
    struct buf piece;
    struct client c;
    rig_start(&r, &b, MIB);
    budget_open(&others, &b, NULL, NULL, 0);
    struct http_exchange *x = stream_open_at(&r, &c, 0);
    budget_add(&others, BUDGET_BODIES, MIB - PIECE_BYTES / 2);
    uint64_t held = b.figures.held;
    buf_init(&piece);
    assert_false(http_stream_room(x, PIECE_BYTES));
    assert_int_equal(buf_grow(&piece, PIECE_BYTES), 0);
    piece.len = PIECE_BYTES;
    memset(piece.data, 'p', PIECE_BYTES);
    assert_false(http_stream_write(x, buf_span(&piece)));
    assert_true(b.figures.held == held && b.figures.peak == held && b.figures.refused == 2);
    for (int i = 0; i < TURNS; i++)
        http_rig_turn(&r);
    assert_int_equal(r.parked[0].room, 0); /* or it would be written in vain again and again */
    budget_give(&others, BUDGET_BODIES, others.held);
    RIG_UNTIL(&r, r.parked[0].room == 1);
    assert_true(http_stream_room(x, PIECE_BYTES));
    assert_true(http_stream_take(x, &piece));
    assert_true(piece.len == 0 && piece.cap == 0);
    RIG_UNTIL(&r, client_poll(&c) && strlen(body_of(&c)) == PIECE_BYTES);
    assert_true(b.figures.by_kind[BUDGET_STREAMS] == 0);
    budget_close(&others);
    http_rig_stream_end(&r, 0);
    peer_until_eof(&r, &c);
    http_rig_end(&r, &c);
}

/* What an unread stream holds is free as soon as it is shed, so no other one need be. */
static void one_stream_is_shed_at_a_time(void **state)
{
    (void)state;
    enum { STREAMS = 4 };
    struct http_rig r;
    struct budget b;
    struct budget_account others;
    struct client c[STREAMS];
    char *piece = malloc(4 * MIB);
    assert_non_null(piece);
    memset(piece, 'p', 4 * MIB);
    rig_start(&r, &b, 32 * MIB);
    budget_open(&others, &b, NULL, NULL, 0);
    for (size_t i = 0; i < STREAMS; i++)
        assert_true(
            http_stream_write(stream_open_at(&r, &c[i], i), span_of(piece, (size_t)(4 * MIB))));
    uint64_t later = uv_now(&r.loop) + 2 * BUDGET_IDLE_MS;
    for (int i = 0; i < 5; i++)
        http_rig_turn(&r);
    uint64_t room = b.large_limit - b.figures.held;
    assert_true(budget_take(&others, BUDGET_BODIES, room + 1000, later));
    assert_int_equal(b.figures.shed[BUDGET_SHED_STREAM], 1);
    budget_give(&others, BUDGET_BODIES, others.held);
    budget_close(&others);
    for (size_t i = 0; i < STREAMS; i++)
        net_client_close(&c[i]);
    free(piece);
    http_rig_done(&r);
}

/* ---- feeds ----------------------------------------------------------------------------------- */

static void piece_append(struct http_feed *f, uint64_t mark)
{
    char text[PIECE + 1];
    memset(text, 'a' + (int)(mark % 26), PIECE);
    snprintf(text, 32, "id: %020llu\n", (unsigned long long)mark);
    text[25] = 'x'; /* not the end */
    text[PIECE - 1] = '\n';
    http_feed_append(f, span_of(text, PIECE), mark);
}

static struct http_exchange *stream_open_at(struct http_rig *r, struct client *c, size_t index)
{
    char request[128];
    peer_open(r, c);
    snprintf(request, sizeof request, "GET /stream/%zu HTTP/1.1\r\nHost: localhost\r\n\r\n", index);
    peer_send(r, c, request);
    RIG_UNTIL(r, r->parked[index].taken == 1);
    peer_until(r, c, "\r\n\r\n");
    return r->parked[index].x;
}

static const char *body_of(const struct client *c)
{
    return strstr(c->data, "\r\n\r\n") + 4;
}

/* Whole pieces with the marks 1, 2, …; gives how many. */
static uint64_t pieces_check(const struct client *c)
{
    const char *at = body_of(c);
    uint64_t n = 0;
    for (; strlen(at) >= PIECE; at += PIECE)
        assert_int_equal(strtoull(at + 4, NULL, 10), ++n);
    assert_int_equal(strlen(at), 0);
    return n;
}

static void many_follow_one_feed(void **state)
{
    (void)state;
    enum { STREAMS = 20, PIECES = 20 };
    struct http_rig r;
    struct budget b;
    struct client c[STREAMS];
    struct http_exchange *x[STREAMS];
    rig_start(&r, &b, BUDGET_NO_LIMIT);
    for (size_t i = 0; i < STREAMS; i++)
        x[i] = stream_open_at(&r, &c[i], i);
    struct http_feed *f = http_feed_new(x[0], 0);
    assert_non_null(f);
    for (size_t i = 0; i < STREAMS; i++)
        http_stream_follow(x[i], f);
    uint64_t before = b.figures.held;
    for (uint64_t mark = 1; mark <= PIECES; mark++)
        piece_append(f, mark);
    assert_true(b.figures.held - before < 3 * PIECES * PIECE); /* once, not for each */
    for (size_t i = 0; i < STREAMS; i++)
        RIG_UNTIL(&r, client_poll(&c[i]) && strlen(body_of(&c[i])) == PIECES * PIECE);
    for (size_t i = 0; i < STREAMS; i++)
        assert_int_equal(pieces_check(&c[i]), PIECES);
    assert_int_equal(b.figures.held, before); /* what all have sent is not kept */
    for (size_t i = 0; i < STREAMS; i++) {
        if (i % 2)
            http_rig_stream_end(&r, i);
        net_client_close(&c[i]);
    }
    RIG_UNTIL(&r, http_rig_figures(&r).connections == 0);
    http_feed_free(f);
    http_rig_done(&r);
}

/* The slow one leaves with whole pieces up to its mark, and hears of room when it has read them. */
static void slow_one_leaves(void **state)
{
    (void)state;
    struct http_rig r;
    struct budget b;
    struct client slow, fast;
    uint64_t mark = 0, left;
    rig_start(&r, &b, BUDGET_NO_LIMIT);
    struct http_exchange *x = stream_open_at(&r, &slow, 0), *y = stream_open_at(&r, &fast, 1);
    struct http_feed *f = http_feed_new(x, 0);
    assert_non_null(f);
    http_stream_follow(x, f);
    http_stream_follow(y, f);
    while (http_stream_follows(x, &left)) {
        piece_append(f, ++mark);
        RIG_UNTIL(&r, client_poll(&fast) && strlen(body_of(&fast)) == mark * PIECE);
        assert_true(b.figures.by_kind[BUDGET_STREAMS] < 250000);
    }
    assert_in_range(left, 1, mark - 1);
    /* Its client has read nothing yet. A split stream can be behind before the kernel is full; then
     * the kernel takes the rest of the piece. */
    if (r.config.net.stream == &net_stream_plain)
        assert_int_equal(r.parked[0].room, 0);
    RIG_UNTIL(&r, client_poll(&slow) && r.parked[0].room == 1);
    RIG_UNTIL(&r, client_poll(&slow) && strlen(body_of(&slow)) == left * PIECE);
    assert_int_equal(pieces_check(&slow), left);
    assert_true(http_stream_follows(y, &left));
    size_t had = strlen(body_of(&slow));
    http_stream_follow(x, f); /* again, from now on */
    piece_append(f, ++mark);
    RIG_UNTIL(&r, client_poll(&slow) && strlen(body_of(&slow)) == had + PIECE);
    assert_int_equal(strtoull(body_of(&slow) + had + 4, NULL, 10), mark);
    net_client_close(&slow);
    net_client_close(&fast);
    RIG_UNTIL(&r, http_rig_figures(&r).connections == 0);
    http_feed_free(f);
    http_rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(announced_length_costs_nothing),
        cmocka_unit_test(body_beyond_the_budget),
        cmocka_unit_test(half_a_body_is_shed),
        cmocka_unit_test(wait_gives_its_body_back),
        cmocka_unit_test(waits_are_shed),
        cmocka_unit_test(replies_behind_a_wait_are_shed),
        cmocka_unit_test_plain_only(input_behind_a_wait_is_shed),
        cmocka_unit_test(stream_waits_for_memory),
        cmocka_unit_test(one_stream_is_shed_at_a_time),
        cmocka_unit_test(many_follow_one_feed),
        cmocka_unit_test(slow_one_leaves),
    };
    return RUN_OVER_STREAMS(tests);
}
