/* SPDX-License-Identifier: Apache-2.0 */
/* Many clients at random: requests of every kind, cut anywhere, answered in any order, clients that
 * stop reading, close, reset or half-close at any moment. Whatever happens, each handler hears of
 * its end exactly once, answers come in order, and nothing is left. */
#include "unit/http/http_rig.h"

#include <sys/socket.h>

#define CLIENTS 24
#define ROUNDS 20000

struct pending {
    struct http_exchange *x;
    bool stream;
    bool gone;
    struct soak *soak;
};

struct soak {
    struct http_rig rig;
    struct random random;
    struct client clients[CLIENTS];
    size_t sent_len[CLIENTS]; /* of `script` */
    char script[CLIENTS][4096];
    size_t script_len[CLIENTS];
    bool reads[CLIENTS];
    struct pending *pending[4096];
    size_t pending_count;
    size_t taken, told;
};

static void soak_gone_cb(void *ctx)
{
    struct pending *p = ctx;
    assert_false(p->gone);
    p->gone = true;
}

static void soak_sent_cb(void *ctx, bool whole)
{
    struct pending *p = ctx;
    assert_true(!whole || !p->gone);
    assert_null(p->x);
    p->soak->told++;
    free(p);
}

static void soak_handler(void *ctx, struct http_exchange *x)
{
    struct soak *s = ctx;
    struct pending *p = calloc(1, sizeof *p);
    assert_non_null(p);
    *p = (struct pending){.x = x, .soak = s};
    http_watch(x, soak_gone_cb, soak_sent_cb, p);
    s->taken++;
    assert_true(s->pending_count < COUNT_OF(s->pending));
    s->pending[s->pending_count++] = p;
}

static const struct http_route routes[] = {
    {HTTP_GET, "/soak/{n}", soak_handler, SCOPE_OPEN, 0, ""},
    {HTTP_POST, "/soak/{n}", soak_handler, SCOPE_OPEN, ROUTE_LARGE, ""},
};

static void script_write(struct soak *s, size_t i)
{
    static const char *const pieces[] = {
        GET("/soak/1"),
        GET("/now"),
        GET("/soak/%41b"),
        "POST /soak/2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\nhello world",
        "POST /soak/3 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n0\r\n\r\n",
        "POST /soak/4 HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        "Content-Length: 4\r\n\r\nabcd",
        "HEAD /soak/5 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "OPTIONS /soak/6 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        GET("/nothing"),
        GET("/size/300000"),
        "GET /soak/7 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "GET /soak/8 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /soak/9 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "garbage\r\n\r\n",
    };
    size_t len = 0;
    for (;;) {
        /* Those that end a connection, at the end of the table, come seldom. */
        size_t choices = random_below(&s->random, 8) ? COUNT_OF(pieces) - 3 : COUNT_OF(pieces);
        const char *piece = pieces[random_below(&s->random, choices)];
        if (len + strlen(piece) > sizeof s->script[i] || random_below(&s->random, 12) == 0)
            break;
        memcpy(s->script[i] + len, piece, strlen(piece));
        len += strlen(piece);
    }
    s->script_len[i] = len;
    s->sent_len[i] = 0;
}

static void peer_restart(struct soak *s, size_t i)
{
    if (s->clients[i].fd > 0) {
        if (random_below(&s->random, 2))
            net_client_close(&s->clients[i]);
        else
            client_reset(&s->clients[i]);
    }
    peer_open(&s->rig, &s->clients[i]);
    s->reads[i] = random_below(&s->random, 4) > 0;
    script_write(s, i);
}

static void peer_step(struct soak *s, size_t i)
{
    struct client *c = &s->clients[i];
    size_t left = s->script_len[i] - s->sent_len[i];
    uint64_t dice = random_below(&s->random, 100);
    if (dice == 0 || c->eof || c->error) {
        peer_restart(s, i);
    } else if (dice == 1) {
        client_shutdown(c);
        s->sent_len[i] = s->script_len[i];
    } else if (left > 0 && dice < 60) {
        size_t n = 1 + random_below(&s->random, left < 400 ? left : 400);
        ssize_t took = client_try_send(c, s->script[i] + s->sent_len[i], n);
        s->sent_len[i] += took > 0 ? (size_t)took : 0;
    } else if (s->reads[i]) {
        client_poll(c);
        c->len = 0;
    }
}

static void answer_one(struct soak *s)
{
    if (s->pending_count == 0)
        return;
    size_t at = random_below(&s->random, s->pending_count);
    struct pending *p = s->pending[at];
    struct http_exchange *x = p->x;
    if (!p->stream && random_below(&s->random, 10) == 0) {
        p->stream = true;
        http_stream(x);
    }
    if (p->stream && random_below(&s->random, 3)) {
        bool taken = http_stream_write(x, SPAN_LITERAL("data: some event\n\n"));
        assert_true(!taken || !p->gone);
        return;
    }
    s->pending[at] = s->pending[--s->pending_count];
    p->x = NULL;
    if (p->stream) {
        http_stream_end(x);
        return;
    }
    http_answer_header(x, "X-Soak", SPAN_LITERAL("yes"));
    struct span body = http_request(x)->body;
    int failed = buf_append_span(http_answer_body(x), body);
    http_answer(x, failed ? 503 : 200, "text/plain");
}

static void soak(void **state)
{
    (void)state;
    struct soak *s = calloc(1, sizeof *s);
    assert_non_null(s);
    seeded(&s->random, "soak");
    http_rig_init(&s->rig);
    s->rig.config.pipeline_max = 1 + (uint32_t)random_below(&s->random, 8);
    s->rig.config.net.write_buffer_bytes = 20000;
    s->rig.config.head_ms = s->rig.config.body_ms = 100;
    s->rig.config.idle_ms = 150;
    s->rig.config.net.write_ms = 50;
    http_rig_start(&s->rig);
    http_server_routes(s->rig.server, routes, COUNT_OF(routes), s);
    for (size_t i = 0; i < CLIENTS; i++)
        peer_restart(s, i);
    for (int round = 0; round < ROUNDS; round++) {
        peer_step(s, random_below(&s->random, CLIENTS));
        if (random_below(&s->random, 3) == 0)
            answer_one(s);
        if (random_below(&s->random, 3) == 0)
            http_rig_turn(&s->rig);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        net_client_close(&s->clients[i]);
    RIG_UNTIL(&s->rig, (answer_one(s), http_rig_figures(&s->rig).connections == 0));
    RIG_UNTIL(&s->rig, (answer_one(s), s->pending_count == 0));
    RIG_UNTIL(&s->rig, s->told == s->taken);
    assert_true(s->taken > 100);
    RIG_UNTIL(&s->rig, http_rig_figures(&s->rig).parked == 0);
    http_rig_done(&s->rig);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(soak)};
    return RUN_OVER_STREAMS(tests);
}
