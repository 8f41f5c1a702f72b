/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/http/http_rig.h"

/* ---- handlers -------------------------------------------------------------------------------- */

static void remember(struct http_rig *r, struct http_exchange *x)
{
    const struct http_request *q = http_request(x);
    r->handled++;
    assert_true(q->peer.len < sizeof r->last_peer);
    memcpy(r->last_peer, q->peer.at, q->peer.len);
    r->last_peer[q->peer.len] = '\0';
    r->last_param = span_of(NULL, 0);
    if (q->params[0].at) {
        assert_true(q->params[0].len < sizeof r->param_text);
        memcpy(r->param_text, q->params[0].at, q->params[0].len);
        r->last_param = span_of(r->param_text, q->params[0].len);
    }
}

static void answer_span(struct http_exchange *x, struct span s)
{
    bool whole = buf_append_span(http_answer_body(x), s) == 0;
    http_answer(x, whole ? 200 : 503, whole ? "text/plain" : NULL);
}

static void now_handler(void *ctx, struct http_exchange *x)
{
    remember(ctx, x);
    answer_span(x, SPAN_LITERAL("now"));
}

static void echo_handler(void *ctx, struct http_exchange *x)
{
    remember(ctx, x);
    answer_span(x, http_request(x)->body);
}

static size_t number(struct span s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n = n * 10 + (size_t)(s.at[i] - '0');
    return n;
}

static void size_handler(void *ctx, struct http_exchange *x)
{
    size_t n = number(http_request(x)->params[0]);
    struct buf *b = http_answer_body(x);
    remember(ctx, x);
    if (buf_reserve(b, n) != 0) {
        http_answer(x, 503, NULL);
        return;
    }
    memset(b->data, 'x', n);
    b->len = n;
    http_answer(x, 200, "text/plain");
}

static void gone_cb(void *ctx)
{
    struct http_rig_parked *p = ctx;
    p->gone++;
    if (!p->rig->park_answers_when_gone)
        return;
    struct http_exchange *x = p->x;
    p->x = NULL;
    if (p->stream)
        http_stream_end(x);
    else
        http_answer(x, 503, NULL);
}

static void sent_cb(void *ctx, bool whole)
{
    struct http_rig_parked *p = ctx;
    p->sent++;
    p->whole = whole;
    p->rig->sent_ns = clock_ns();
    p->rig->order[p->rig->sent_count++ % COUNT_OF(p->rig->order)] = p->index;
}

static struct http_rig_parked *park(struct http_rig *r, struct http_exchange *x)
{
    size_t n = number(http_request(x)->params[0]);
    assert_true(n < RIG_PARKED);
    struct http_rig_parked *p = &r->parked[n];
    remember(r, x);
    p->x = x;
    p->rig = r;
    p->index = n;
    p->taken++;
    http_watch(x, gone_cb, sent_cb, p);
    return p;
}

static void park_handler(void *ctx, struct http_exchange *x)
{
    park(ctx, x);
}

static void alone_handler(void *ctx, struct http_exchange *x)
{
    park(ctx, x);
    http_alone(x);
}

static void wait_handler(void *ctx, struct http_exchange *x)
{
    park(ctx, x);
    http_park(x);
}

static void room_cb(void *ctx)
{
    struct http_rig_parked *p = ctx;
    p->room++;
}

static void stream_handler(void *ctx, struct http_exchange *x)
{
    struct http_rig_parked *p = park(ctx, x);
    p->stream = true;
    http_stream_on_room(x, room_cb, p);
    http_stream(x);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/now", now_handler, SCOPE_OPEN, 0, ""},
    {HTTP_POST, "/echo", echo_handler, SCOPE_OPEN, 0, ""},
    {HTTP_PUT, "/large", echo_handler, SCOPE_OPEN, ROUTE_LARGE, ""},
    {HTTP_GET, "/claim", now_handler, SCOPE_OPEN, ROUTE_UNSAFE, ""},
    {HTTP_GET, "/park/{n}", park_handler, SCOPE_OPEN, 0, ""},
    {HTTP_POST, "/park/{n}", park_handler, SCOPE_OPEN, 0, ""},
    {HTTP_GET, "/alone/{n}", alone_handler, SCOPE_OPEN, 0, ""},
    {HTTP_POST, "/wait/{n}", wait_handler, SCOPE_OPEN, 0, ""},
    {HTTP_GET, "/size/{n}", size_handler, SCOPE_OPEN, 0, ""},
    {HTTP_GET, "/stream/{n}", stream_handler, SCOPE_OPEN, 0, ""},
    {HTTP_GET, "/name/{name}", now_handler, SCOPE_OPEN, 0, ""},
};

/* ---- the server ------------------------------------------------------------------------------ */

static void log_cb(void *ctx, const char *line, size_t len)
{
    struct http_rig *r = ctx;
    r->log_lines++;
    len = len < sizeof r->log_text - 1 ? len : sizeof r->log_text - 1;
    memcpy(r->log_text, line, len);
    r->log_text[len] = '\0';
}

void http_rig_init(struct http_rig *r)
{
    memset(r, 0, sizeof *r);
    assert_int_equal(uv_loop_init(&r->loop), 0);
    r->log = (struct log){.write = log_cb,
                          .ctx = r,
                          .clock = clock_system(),
                          .format = LOG_AS_TEXT,
                          .level = LOG_INFO};
    r->park_answers_when_gone = true;
    http_server_config_default(&r->config);
    r->config.net.loop = &r->loop;
    r->config.net.log = &r->log;
    r->config.net.stream = stream_under_test(&r->config.net.stream_ctx);
}

void http_rig_start(struct http_rig *r)
{
    struct err_note note = {""};
    assert_int_equal(http_server_new(&r->config, &r->server), 0);
    http_server_routes(r->server, routes, COUNT_OF(routes), r);
    if (http_server_listen(r->server, "127.0.0.1:0", &note) != 0)
        fail_msg("%s", note.text);
}

void http_rig_turn(struct http_rig *r)
{
    uv_run(&r->loop, UV_RUN_NOWAIT);
}

static void closed_cb(void *ctx)
{
    struct http_rig *r = ctx;
    r->closed++;
}

void http_rig_done(struct http_rig *r)
{
    if (r->server) {
        http_server_close(r->server, closed_cb, r);
        RIG_UNTIL(r, r->closed == 1);
    }
    assert_int_equal(uv_run(&r->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    for (size_t i = 0; i < RIG_PARKED; i++)
        assert_int_equal(r->parked[i].taken, r->parked[i].sent);
}

void http_rig_answer(struct http_rig *r, size_t parked, const char *text)
{
    struct http_exchange *x = r->parked[parked].x;
    assert_non_null(x);
    r->parked[parked].x = NULL;
    answer_span(x, span_text(text));
}

void http_rig_stream_end(struct http_rig *r, size_t parked)
{
    struct http_exchange *x = r->parked[parked].x;
    assert_non_null(x);
    r->parked[parked].x = NULL;
    http_stream_end(x);
}

struct http_server_figures http_rig_figures(const struct http_rig *r)
{
    struct http_server_figures f;
    http_server_figures(r->server, &f);
    return f;
}

/* ---- clients --------------------------------------------------------------------------------- */

void peer_open(struct http_rig *r, struct client *c)
{
    net_client_open(c, http_server_address(r->server, 0));
}

void http_rig_start_with(struct http_rig *r, struct client *c)
{
    http_rig_start(r);
    peer_open(r, c);
}

void http_rig_begin(struct http_rig *r, struct client *c)
{
    http_rig_init(r);
    http_rig_start_with(r, c);
}

void http_rig_end(struct http_rig *r, struct client *c)
{
    net_client_close(c);
    http_rig_done(r);
}

void peer_stream(struct http_rig *r, struct client *c)
{
    peer_send(r, c, GET("/stream/0"));
    peer_until(r, c, "\r\n\r\n");
}

unsigned peer_head(struct http_rig *r, struct client *c, char *head, size_t room)
{
    peer_until(r, c, "\r\n\r\n");
    size_t len = (size_t)(strstr(c->data, "\r\n\r\n") - c->data) + 4;
    assert_true(len < room);
    memcpy(head, c->data, len);
    head[len] = '\0';
    client_drop(c, len);
    assert_memory_equal(head, "HTTP/1.1 ", 9);
    return (unsigned)strtoul(head + 9, NULL, 10);
}

unsigned peer_answer(struct http_rig *r, struct client *c, char *body, size_t room)
{
    char head[4096];
    unsigned status = peer_head(r, c, head, sizeof head);
    const char *length = strstr(head, "Content-Length: ");
    size_t len = length ? strtoul(length + 16, NULL, 10) : 0;
    RIG_UNTIL(r, client_poll(c) && (c->len >= len || c->eof || c->error));
    assert_true(c->len >= len);
    if (body) {
        assert_true(len < room);
        memcpy(body, c->data, len);
        body[len] = '\0';
    }
    client_drop(c, len);
    return status;
}

void expect_status(struct http_rig *r, struct client *c, const char *request, unsigned status)
{
    peer_send(r, c, request);
    unsigned got = peer_answer(r, c, NULL, 0);
    if (got != status)
        fail_msg("%u instead of %u for \"%.200s\"", got, status, request);
}
