/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of a connection that are ready, in order. */
#include "http/server_impl.h"

/* The head is stored after the body (a stream has only the former); a shared body is stored
 * elsewhere. */
static void exchange_gather(struct net_pieces *p, const struct http_exchange *x)
{
    if (x->fixed.len > 0) {
        net_piece_add(p, x->fixed.at + x->done, x->fixed.len - x->done);
        return;
    }
    size_t head = x->out.len - x->out_body;
    const struct buf *from = x->shared ? &x->shared->text : &x->out;
    size_t body = x->shared ? from->len : x->out_body - x->out_skip;
    if (x->done < head)
        net_piece_add(p, x->out.data + x->out_body + x->done, head - x->done);
    size_t body_done = x->done > head ? x->done - head : 0;
    if (body > body_done)
        net_piece_add(p, from->data + body_done, body - body_done);
    if (x->follows.chunk)
        feed_gather(x, p);
}

static bool ready(const struct http_exchange *x)
{
    return x->state == EXCHANGE_ANSWERED || x->state == EXCHANGE_STREAM;
}

static void gather(const struct connection *c, struct net_pieces *p)
{
    const struct http_exchange *x = c->first;
    net_piece_add(p, c->interim.at, c->interim.len);
    while (x && ready(x) && p->count + 3 <= NET_WRITE_PIECES) {
        exchange_gather(p, x);
        x = x->state == EXCHANGE_STREAM || x->close ? NULL : x->next;
    }
    if (!c->first)
        net_piece_add(p, c->last_words.at, c->last_words.len);
}

static size_t span_advance(struct span *s, size_t len)
{
    size_t n = s->len < len ? s->len : len;
    if (n > 0)
        *s = span_of(s->at + n, s->len - n);
    return len - n;
}

static void first_finish(struct connection *c)
{
    struct http_exchange *x = c->first;
    c->first = x->next;
    if (!c->first)
        c->last = NULL;
    c->count--;
    c->body_bytes -= x->request.body.len;
    exchange_finish(x, true);
}

/* Removes `len` sent bytes from the waiting ones. Handlers of exchanges that were sent
 * completely are notified; they may answer others, but never change this chain. */
static void sent_bytes(struct connection *c, size_t len)
{
    len = span_advance(&c->interim, len);
    while (c->first && ready(c->first)) {
        struct http_exchange *x = c->first;
        size_t waiting = exchange_waiting(x);
        size_t n = waiting < len ? waiting : len;
        len -= n;
        if (x->state == EXCHANGE_STREAM) {
            stream_sent(x, n);
        } else {
            x->done += n;
            c->net.out_bytes -= n;
        }
        if (x->state == EXCHANGE_STREAM || n < waiting)
            return;
        first_finish(c);
    }
    if (len > 0)
        span_advance(&c->last_words, len);
}

static void room_notify(struct connection *c)
{
    struct http_exchange *x = c->first;
    if (!x || x->state != EXCHANGE_STREAM || !x->room_due || x->starved)
        return;
    if (x->left_feed && (c->net.blocked || exchange_waiting(x) > 0))
        return;
    if (!stream_room_due(x))
        return;
    x->room_due = x->left_feed = false;
    account_out(x); /* the memory that stream_retry has reserved */
    if (x->room)
        x->room(x->room_ctx);
}

/* HEAD of a stream has no body. */
static bool only_head_wanted(const struct connection *c)
{
    const struct http_exchange *x = c->first;
    return x && x->state == EXCHANGE_STREAM && x->request.method == HTTP_HEAD &&
           exchange_waiting(x) == 0;
}

/* The client waits for 100 Continue before it sends the body, and this is the next thing to
 * send. */
static void continue_due(struct connection *c)
{
    struct http_exchange *x = c->first;
    if (x && x == c->reading && x->expects) {
        x->expects = false;
        c->interim = answer_continue;
    }
}

void write_gather(struct net_conn *n, struct net_pieces *p)
{
    struct connection *c = connection_of(n);
    continue_due(c);
    gather(c, p);
}

void write_sent(struct net_conn *n, size_t len)
{
    sent_bytes(connection_of(n), len);
}

bool write_flushed(struct net_conn *n)
{
    struct connection *c = connection_of(n);
    room_notify(c);
    if (c->stalled && intake_open(c))
        net_conn_resume(n);
    if (n->closed)
        return false;
    bool idle = !c->first && !n->blocked;
    return only_head_wanted(c) || (idle && n->no_more) ||
           (n->server->draining && connection_at_rest(n));
}
