/* SPDX-License-Identifier: Apache-2.0 */
/* What is ready of a connection's answers, in order and in one call. */
#include <errno.h>
#include <sys/socket.h>

#include "http/server_impl.h"

static void piece_add(struct pieces *p, const char *at, size_t len)
{
    if (len == 0)
        return;
    p->iov[p->count++] = (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = len};
    p->bytes += len;
}

/* The head lies behind the body (a stream has only the former); a shared body lies elsewhere. */
static void exchange_gather(struct pieces *p, const struct http_exchange *x)
{
    if (x->fixed.len > 0) {
        piece_add(p, x->fixed.at + x->done, x->fixed.len - x->done);
        return;
    }
    size_t head = x->out.len - x->out_body;
    const struct buf *from = x->shared ? &x->shared->text : &x->out;
    size_t body = x->shared ? from->len : x->out_body - x->out_skip;
    if (x->done < head)
        piece_add(p, x->out.data + x->out_body + x->done, head - x->done);
    size_t body_done = x->done > head ? x->done - head : 0;
    if (body > body_done)
        piece_add(p, from->data + body_done, body - body_done);
    if (x->follows.chunk)
        p->count += feed_gather(x, p->iov + p->count, WRITE_PIECES - p->count, &p->bytes);
}

static bool ready(const struct http_exchange *x)
{
    return x->state == EXCHANGE_ANSWERED || x->state == EXCHANGE_STREAM;
}

static void gather(const struct connection *c, struct pieces *p)
{
    const struct http_exchange *x = c->first;
    p->count = p->bytes = 0;
    piece_add(p, c->interim.at, c->interim.len);
    while (x && ready(x) && p->count + 3 <= WRITE_PIECES) {
        exchange_gather(p, x);
        x = x->state == EXCHANGE_STREAM || x->close ? NULL : x->next;
    }
    if (!c->first)
        piece_add(p, c->last_words.at, c->last_words.len);
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

/* Takes `len` sent bytes off what waits. Exchanges that are out are told so; they may answer
 * others, but never change this chain. */
static void sent_bytes(struct connection *c, size_t len)
{
    c->server->figures.bytes_out += len;
    account_moved(c, len);
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
            c->out_bytes -= n;
        }
        if (x->state == EXCHANGE_STREAM || n < waiting)
            return;
        first_finish(c);
    }
    if (len > 0)
        span_advance(&c->last_words, len);
}

/* Bytes taken; 0 when the kernel takes none now; -1 when the connection is broken. */
static ssize_t pieces_send(int fd, struct pieces *p)
{
    struct msghdr m = {.msg_iov = p->iov, .msg_iovlen = p->count};
    ssize_t n;
    do {
        n = sendmsg(fd, &m, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS))
        return 0;
    return n;
}

static void room_tell(struct connection *c)
{
    struct http_exchange *x = c->first;
    if (!x || x->state != EXCHANGE_STREAM || !x->room_due || x->starved)
        return;
    if (x->left_feed && (c->blocked || exchange_waiting(x) > 0))
        return;
    if (!stream_room_due(x))
        return;
    x->room_due = x->left_feed = false;
    account_out(x); /* what stream_retry has set aside */
    if (x->room)
        x->room(x->room_ctx);
}

/* HEAD of a stream: there is nothing to follow. */
static bool only_head_wanted(const struct connection *c)
{
    const struct http_exchange *x = c->first;
    return x && x->state == EXCHANGE_STREAM && x->request.method == HTTP_HEAD &&
           exchange_waiting(x) == 0;
}

/* The client was promised a word before it sends the body, and its turn has come. */
static void continue_due(struct connection *c)
{
    struct http_exchange *x = c->first;
    if (x && x == c->reading && x->expects) {
        x->expects = false;
        c->interim = answer_continue;
    }
}

static void write_ready(struct connection *c)
{
    struct pieces *p = &c->server->pieces;
    c->blocked = false;
    sent_bytes(c, 0); /* a stream may have ended with nothing left to send */
    for (gather(c, p); p->count > 0 && !c->blocked; gather(c, p)) {
        ssize_t n = pieces_send(c->fd, p);
        if (n < 0) {
            connection_close(c);
            return;
        }
        c->blocked = (size_t)n < p->bytes;
        if (c->blocked && (n > 0 || !wait_is(&c->writes, WAIT_WRITE)))
            wait_start(c->server, &c->writes, WAIT_WRITE);
        sent_bytes(c, (size_t)n);
        if (c->closed)
            return;
        continue_due(c);
    }
    if (!c->blocked)
        wait_stop(&c->writes);
}

void connection_flush(struct connection *c)
{
    if (c->closed || c->lingering)
        return;
    continue_due(c);
    write_ready(c);
    if (c->closed)
        return;
    room_tell(c);
    if (c->stalled && intake_open(c))
        connection_take(c, span_of(NULL, 0));
    if (c->closed)
        return;
    bool idle = !c->first && !c->blocked;
    if (only_head_wanted(c) || (idle && c->no_more) ||
        (c->server->draining && connection_at_rest(c)))
        connection_finish(c);
    connection_settle(c);
}
