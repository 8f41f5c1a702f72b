/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are sent in parts: server-sent events, which have no length, and files, which do. */
#include <string.h>

#include "base/check.h"
#include "http/server_impl.h"

#define KERNEL_BYTES (256 << 10)       /* of a stream of events */
#define PIECE_LARGE ((size_t)64 << 10) /* it is not copied, and its buffer not kept */

/* Later requests on this connection will not be answered. */
static void followers_loosen(struct connection *c, struct http_exchange *x)
{
    struct http_exchange *y = x->next;
    x->next = NULL;
    c->last = x;
    while (y) {
        struct http_exchange *next = y->next;
        if (y->state == EXCHANGE_ANSWERED)
            c->net.out_bytes -= exchange_waiting(y);
        c->count--;
        c->body_bytes -= y->request.body.len;
        if (y == c->reading)
            exchange_free(y);
        else
            exchange_loosen(y);
        y = next;
    }
    c->reading = NULL;
    c->net.no_more = true;
}

/* Without memory for the head, the client gets the fixed refusal, and `closed` is called. */
static void stream_fail(struct http_exchange *x)
{
    struct connection *c = x->conn;
    buf_done(&x->out);
    exchange_unlink_last(c, x);
    exchange_loosen(x);
    intake_give_up(c);
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
    x->bound = x->server->net.config.write_buffer_bytes;
    account_is_stream(x);
    followers_loosen(c, x);
    if (x->out_of_memory || answer_head(x, 200, type, length) != 0) {
        stream_fail(x);
        return;
    }
    x->status = 200;
    x->server->by_status[2]++;
    account_out(x);
    c->net.out_bytes += exchange_waiting(x);
    net_conn_schedule(&c->net);
}

/* The kernel would accept megabytes for a client that reads nothing, a copy for each stream. */
void http_stream(struct http_exchange *x)
{
    if (x->conn)
        net_conn_kernel_bytes(&x->conn->net, KERNEL_BYTES);
    stream_open(x, "text/event-stream", LENGTH_NONE);
}

/* One event that is larger than the limit is accepted if nothing else waits: otherwise it would
 * never fit. */
bool stream_room_for(const struct http_exchange *x, size_t more)
{
    size_t waiting = exchange_waiting(x);
    uint64_t bound = x->bound;
    return waiting == 0 || (waiting <= bound && more <= bound - waiting);
}

/* A stream's buffer is used from the front; sent bytes are removed when nothing else is left, or
 * when moving the rest is cheap compared with the sent bytes. */
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
    x->conn->net.out_bytes -= own;
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

/* Reading clients are checked with every write; memory is checked with the ticks, because a
 * stream that was refused memory would otherwise retry without a pause. */
static bool refused(struct http_exchange *x, size_t bytes, bool for_memory)
{
    x->room_due = true;
    x->room_need = bytes;
    x->starved = for_memory;
    x->server->starved = x->server->starved || for_memory;
    if (!for_memory)
        net_conn_schedule(&x->conn->net);
    return false;
}

/* Charges them as well. */
static bool admit(struct http_exchange *x, size_t bytes)
{
    CHECK(x->state == EXCHANGE_STREAM);
    if (!x->conn || x->request.method == HTTP_HEAD)
        return false;
    if (!stream_room_for(x, bytes))
        return refused(x, bytes, false);
    return account_stream(x, bytes) || refused(x, bytes, true);
}

static bool appended(struct http_exchange *x, size_t bytes, int err)
{
    account_out(x);
    if (err)
        return refused(x, bytes, true);
    x->conn->net.out_bytes += bytes;
    net_conn_schedule(&x->conn->net);
    return true;
}

bool http_stream_write(struct http_exchange *x, struct span bytes)
{
    return admit(x, bytes.len) && appended(x, bytes.len, buf_append_span(&x->out, bytes));
}

bool http_stream_take(struct http_exchange *x, struct buf *bytes)
{
    bool taken;
    if (x->out.len > 0 || bytes->len < PIECE_LARGE) {
        taken = http_stream_write(x, buf_span(bytes));
    } else if ((taken = admit(x, bytes->len))) {
        struct buf empty = x->out;
        x->out = *bytes;
        *bytes = empty;
        taken = appended(x, x->out.len, 0);
    }
    if (bytes->cap > PIECE_LARGE)
        buf_done(bytes);
    else
        buf_clear(bytes);
    return taken;
}

bool http_stream_room(struct http_exchange *x, size_t bytes)
{
    bool room = admit(x, bytes);
    account_out(x);
    return room;
}

bool stream_room_due(const struct http_exchange *x)
{
    return exchange_waiting(x) <= x->bound / 2 && stream_room_for(x, x->room_need);
}

/* Of many streams, only those are notified for which there is memory: the memory of each is
 * reserved until it has been notified. */
void stream_retry(struct http_exchange *x)
{
    bool now = stream_room_due(x);
    if (now && !account_hold(x, x->room_need)) {
        x->server->starved = true;
        return;
    }
    x->starved = false; /* else its client has to read first */
    if (now)
        net_conn_schedule(&x->conn->net);
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
        net_conn_schedule(&x->conn->net);
    else
        exchange_queue_loose(x);
}
