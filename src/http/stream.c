/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that grow until their end: server-sent events, which have no length, and files, which do.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "http/server_impl.h"

#define KERNEL_BYTES (128 << 10) /* of a stream of events; the kernel doubles it */

/* Requests that came behind this one will not be answered on this connection any more. */
static void followers_loosen(struct connection *c, struct http_exchange *x)
{
    struct http_exchange *y = x->next;
    x->next = NULL;
    c->last = x;
    while (y) {
        struct http_exchange *next = y->next;
        if (y->state == EXCHANGE_ANSWERED)
            c->out_bytes -= exchange_waiting(y);
        c->count--;
        c->body_bytes -= y->request.body.len;
        if (y == c->reading)
            exchange_free(y);
        else
            exchange_loosen(y);
        y = next;
    }
    c->reading = NULL;
    c->no_more = true;
}

/* Without memory for the head the client gets the fixed refusal and its handler hears that it is
 * gone. */
static void stream_fail(struct http_exchange *x)
{
    struct connection *c = x->conn;
    buf_done(&x->out);
    exchange_unlink_last(c, x);
    exchange_loosen(x);
    intake_no_room(c);
}

void stream_open(struct http_exchange *x, const char *type, uint64_t length)
{
    struct connection *c = x->conn;
    CHECK(x->state == EXCHANGE_OPEN);
    x->state = EXCHANGE_STREAM;
    x->sized = length != LENGTH_NONE;
    if (!c)
        return;
    buf_clear(&x->out);
    x->close = true;
    x->bound = x->server->config.write_buffer_bytes;
    account_is_stream(x);
    followers_loosen(c, x);
    if (x->out_of_memory || answer_head(x, 200, type, length) != 0) {
        stream_fail(x);
        return;
    }
    x->status = 200;
    x->server->figures.by_status[2]++;
    account_out(x);
    c->out_bytes += exchange_waiting(x);
    connection_dirty(c);
}

/* The kernel would take megabytes for a client that reads nothing, a copy for each stream. */
static void kernel_bound(const struct connection *c)
{
    int bytes = KERNEL_BYTES;
    (void)setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void http_stream(struct http_exchange *x)
{
    if (x->conn)
        kernel_bound(x->conn);
    stream_open(x, "text/event-stream", LENGTH_NONE);
}

/* One event that is larger than the whole bound is taken when nothing else waits: it would never
 * find room. */
bool stream_room_for(const struct http_exchange *x, size_t more)
{
    size_t waiting = exchange_waiting(x);
    uint64_t bound = x->bound;
    return waiting == 0 || (waiting <= bound && more <= bound - waiting);
}

/* A stream's buffer is used from the front; what was sent is cut off when nothing else is left or
 * when moving the rest is little work compared with what was sent. */
static void trim(struct http_exchange *x)
{
    size_t left = x->out.len - x->done;
    if (left == 0)
        buf_done(&x->out);
    else if (x->done > left)
        memmove(x->out.data, x->out.data + x->done, left);
    else
        return;
    x->out.len = left;
    x->done = 0;
    account_out(x);
}

void stream_sent(struct http_exchange *x, size_t len)
{
    size_t own = x->out.len - x->done;
    own = own < len ? own : len;
    x->done += own;
    x->conn->out_bytes -= own;
    trim(x);
    feed_sent(x, len - own);
}

void http_stream_bound(struct http_exchange *x, uint64_t bytes)
{
    x->bound = bytes;
}

bool http_stream_hold(struct http_exchange *x, size_t bytes)
{
    if (bytes > x->extra_bytes && !account_hold(x, bytes - x->extra_bytes))
        return false;
    x->extra_bytes = bytes;
    account_out(x);
    return true;
}

bool http_stream_write(struct http_exchange *x, struct span bytes)
{
    struct connection *c = x->conn;
    CHECK(x->state == EXCHANGE_STREAM);
    if (!c || x->request.method == HTTP_HEAD)
        return false;
    if (!stream_room_for(x, bytes.len) || !account_stream(x, bytes.len) ||
        buf_append_span(&x->out, bytes) != 0) {
        x->room_due = true;
        x->room_need = bytes.len;
        connection_dirty(c);
        return false;
    }
    account_out(x);
    c->out_bytes += bytes.len;
    connection_dirty(c);
    return true;
}

size_t http_stream_waiting(const struct http_exchange *x)
{
    return x->conn ? exchange_waiting(x) : 0;
}

void http_stream_on_room(struct http_exchange *x, void (*fn)(void *ctx), void *ctx)
{
    x->room = fn;
    x->room_ctx = ctx;
}

void http_stream_end(struct http_exchange *x)
{
    CHECK(x->state == EXCHANGE_STREAM);
    feed_end(x);
    x->state = EXCHANGE_ANSWERED;
    if (x->conn)
        connection_dirty(x->conn);
    else
        exchange_queue_loose(x);
}
