/* SPDX-License-Identifier: Apache-2.0 */
/* From bytes to handlers: takes requests from a connection's input and passes them to handlers.
 *
 * A request that will be refused is still read completely (and its body discarded), so that the
 * connection can be used further, unless the client waits for 100 Continue before it sends the
 * body, or the body is too large: then the refusal is sent at once and the connection is closed
 * after it. */
#include "base/check.h"
#include "http/server_impl.h"

bool intake_open(const struct connection *c)
{
    const struct http_server_config *config = &server_of(c)->config;
    if (c->net.closed || c->net.no_more || c->net.lingering || net_conn_full(&c->net))
        return false;
    if (c->reading)
        return true;
    return c->count < config->pipeline_max && !(c->last && c->last->alone) &&
           c->body_bytes <= config->limits.body_bytes;
}

bool intake_wanted(const struct net_conn *n)
{
    return intake_open(LINK_OWNER(n, const struct connection, net));
}

/* The fixed text is sent after the answers under way. */
void intake_give_up(struct connection *c)
{
    c->last_words = answer_no_room;
    c->net.no_more = true;
    c->net.linger = true;
    net_conn_schedule(&c->net);
}

void intake_no_room(struct net_conn *n, size_t len)
{
    (void)len;
    intake_give_up(connection_of(n));
}

void intake_discard(struct connection *c)
{
    net_conn_input_free(&c->net);
    c->seen = 0;
    c->stalled = false;
}

/* The connection is closed after this exchange's answer, and the client may still be sending. */
static void cut_short(struct http_exchange *x)
{
    x->close = true;
    x->conn->net.no_more = true;
    x->conn->net.linger = true;
}

void intake_fault(struct connection *c, unsigned status, const char *text)
{
    struct http_exchange *x = c->reading;
    c->reading = NULL;
    if (x)
        exchange_body_free(x);
    else
        x = exchange_new(c, NULL, span_of(NULL, 0));
    if (!x) {
        intake_give_up(c);
        return;
    }
    server_of(c)->requests++;
    cut_short(x);
    refusal_send(x, status, text);
}

void intake_abandon(struct connection *c)
{
    struct http_exchange *x = c->reading;
    intake_discard(c);
    c->reading = NULL;
    if (!x)
        return;
    exchange_unlink_last(c, x);
    exchange_free(x);
}

/* ---- a whole request ------------------------------------------------------------------------- */

static int params_decode(struct http_exchange *x)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < HTTP_PATH_PARAMS_MAX && x->request.params[i].at; i++)
        r = url_decode(x->request.params[i], false, &x->arena, &x->request.params[i]);
    return r;
}

static void hand_out(struct http_exchange *x)
{
    const struct http_route *route = x->request.route;
    int r = params_decode(x);
    x->state = EXCHANGE_OPEN;
    if (r == 0)
        route->handler(x->route_ctx, x);
    else if (r == -ERR_NOMEM)
        refusal_send(x, 503, "There is not enough memory for this request; try again.");
    else
        refusal_send(x, 400, "A part of the path is not percent-encoded UTF-8 text.");
}

static void complete(struct http_exchange *x)
{
    struct connection *c = x->conn;
    c->reading = NULL;
    net_conn_account(&c->net);
    x->server->requests++;
    x->request.body = buf_span(&x->body);
    c->body_bytes += x->request.body.len;
    if (!x->keep_alive)
        c->net.no_more = true;
    if (x->refusal.status)
        refusal_send(x, x->refusal.status, x->refusal.text);
    else if (x->request.method == HTTP_OPTIONS)
        refusal_options(x);
    else
        hand_out(x);
}

/* ---- its head -------------------------------------------------------------------------------- */

static void refuse_later(struct http_exchange *x, unsigned status, const char *text)
{
    x->refusal = (struct http_fault){status, text};
}

static void route_find(struct http_exchange *x)
{
    struct http_server *s = x->server;
    struct http_request *r = &x->request;
    struct route_match m;
    router_find(&s->router, r->method, r->path, &m);
    r->route = m.route;
    x->route_ctx = m.ctx;
    x->allow = m.allow;
    for (size_t i = 0; i < HTTP_PATH_PARAMS_MAX; i++)
        r->params[i] = m.params[i];
    if (r->method == HTTP_OPTIONS && span_equal(r->path, SPAN_LITERAL("*")))
        x->allow = router_methods(&s->router);
    if (r->method == HTTP_OTHER)
        refuse_later(x, 501, "The method must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.");
    else if (!x->allow)
        refuse_later(x, 404, "The path is not one that the server knows.");
    else if (!m.route && r->method != HTTP_OPTIONS)
        refuse_later(x, 405, "The header Allow names the methods for this path.");
}

static const struct http_limits *limits_of(const struct http_exchange *x)
{
    const struct http_route *route = x->request.route;
    bool large = route && route->flags & ROUTE_LARGE;
    return large ? &x->server->limits_large : &x->server->config.limits;
}

/* false: the refusal has been sent, and the rest of the input is not parsed. */
static bool body_admit(struct http_exchange *x, const struct http_head *h)
{
    bool fits = !h->has_length || h->length <= limits_of(x)->body_bytes;
    if (!fits && !x->refusal.status)
        refuse_later(x, 413, "The body is larger than the limit for this path.");
    if (!x->refusal.status) {
        x->expects = h->expect_continue && h->minor > 0;
        return true;
    }
    if (fits && !h->expect_continue)
        return true;
    intake_fault(x->conn, x->refusal.status, x->refusal.text);
    return false;
}

static void head_taken(struct http_exchange *x, const struct http_head *h)
{
    struct connection *c = x->conn;
    struct http_fault fault;
    c->asked = true;
    route_find(x);
    if (!guard_pass(x->server, h, x, &fault))
        x->refusal = fault;
    if (!h->chunked && !(h->has_length && h->length > 0)) {
        complete(x);
        return;
    }
    c->reading = x;
    if (!body_admit(x, h))
        return;
    net_wait_start(&c->net, WAIT_BODY);
    if (x->expects && c->first == x)
        net_conn_schedule(&c->net);
}

/* true: something was taken and there may be more. */
static bool head_take(struct connection *c, struct span *in)
{
    struct http_server *s = server_of(c);
    struct http_fault fault;
    ssize_t len = http_head_parse(*in, c->seen, &s->limits_large, &s->head, &fault);
    if (len == 0) {
        c->seen = in->len;
        return false;
    }
    c->seen = 0;
    net_wait_stop(&c->net);
    if (len < 0) {
        intake_fault(c, fault.status, fault.text);
        return false;
    }
    struct http_exchange *x = exchange_new(c, &s->head, span_of(in->at, (size_t)len));
    *in = span_of(in->at + len, in->len - (size_t)len);
    if (!x) {
        intake_give_up(c);
        return false;
    }
    head_taken(x, &s->head);
    return true;
}

/* ---- its body -------------------------------------------------------------------------------- */

/* Reserves room for the received part of the body: memory follows the bytes that arrived, not
 * those announced. */
static bool body_room(struct http_exchange *x, size_t fresh)
{
    struct buf *b = &x->body;
    uint64_t left = x->body_state.chunked ? UINT64_MAX : x->body_state.left;
    uint64_t need = fresh < left ? fresh : left;
    if (b->cap - b->len >= need)
        return true;
    uint64_t cap = b->len + need;
    if (cap < 2 * (uint64_t)b->cap)
        cap = 2 * (uint64_t)b->cap;
    if (cap - b->len > left)
        cap = b->len + left;
    return account_body(x, cap) && buf_grow(b, cap) == 0;
}

static bool body_take(struct connection *c, struct span *in)
{
    struct http_exchange *x = c->reading;
    struct http_fault fault;
    bool done = false;
    x->expects = false; /* it did not wait for 100 Continue */
    if (!body_room(x, in->len)) {
        intake_fault(c, 503, "The server has no memory left for this body; try again soon.");
        return false;
    }
    int r = http_body_feed(&x->body_state, in, limits_of(x), &x->body, &done, &fault);
    if (x->refusal.status)
        buf_clear(&x->body);
    if (r == -ERR_NOMEM) {
        intake_fault(c, 503, "There is not enough memory for this request; try again.");
        return false;
    }
    if (r < 0) {
        intake_fault(c, fault.status, fault.text);
        return false;
    }
    if (!done)
        return false;
    net_wait_stop(&c->net);
    complete(x);
    return true;
}

size_t intake_input(struct net_conn *n, struct span in)
{
    struct connection *c = connection_of(n);
    size_t before = in.len;
    bool more = true;
    while (more && in.len > 0 && intake_open(c))
        more = c->reading ? body_take(c, &in) : head_take(c, &in);
    c->stalled = in.len > 0 && !n->no_more && !intake_open(c);
    return n->no_more ? before : before - in.len;
}
