/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: reading, kept input, its waits, and its end.
 *
 * Whether the client has closed the connection: a reset or an error shows it. The end of the
 * input does not: the client may have shut down its sending side and still wait for the reply.
 * Only the protocol can find out more, by sending something. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "net/address.h"
#include "net/impl.h"

#define HANDSHAKE_NS_MAX UINT64_C(5000000) /* in one loop iteration */

static const struct net_protocol *protocol_of(const struct net_conn *c)
{
    return c->server->protocol;
}

void net_conn_schedule(struct net_conn *c)
{
    if (c->closed || !link_alone(&c->scheduled))
        return;
    link_append(&c->server->scheduled, &c->scheduled);
    net_wake(c->server);
}

void net_conn_kernel_bytes(struct net_conn *c, int bytes)
{
    int half = bytes / 2; /* the kernel doubles it */
    (void)setsockopt(c->stream.fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof half);
}

/* ---- its account ---- */

/* A stream with a handshake (TLS) holds far more than a socket. Its connection can be shed while it
 * does nothing else: before it is ready, and between requests. */
static bool only_stream(const struct net_conn *c)
{
    const struct net_protocol *p = protocol_of(c);
    return c->stream_charged > 0 && (c->opening || (p->rest_may_end && p->at_rest(c)));
}

static enum budget_shed shed_cb(void *ctx)
{
    struct net_conn *c = ctx;
    if (!only_stream(c))
        return protocol_of(c)->shed(c);
    net_conn_close(c);
    return BUDGET_SHED_IDLE;
}

static void account_open(struct net_conn *c)
{
    struct net_server *s = c->server;
    budget_open(&c->account, s->config.budget, shed_cb, c, net_now(s));
    budget_add(&c->account, BUDGET_CONNECTIONS, s->protocol->conn_bytes);
}

static size_t stream_held(const struct net_conn *c)
{
    return c->stream.kind->held ? c->stream.kind->held(&c->stream) : 0;
}

static bool stream_charge_first(struct net_conn *c)
{
    size_t held = stream_held(c);
    if (held > 0 && !budget_take(&c->account, BUDGET_TLS, held, net_now(c->server)))
        return false;
    c->stream_charged = held;
    return true;
}

static void stream_charge(struct net_conn *c)
{
    size_t held = stream_held(c), before = c->stream_charged;
    if (held > before)
        budget_add(&c->account, BUDGET_TLS, held - before);
    else if (held < before)
        budget_give(&c->account, BUDGET_TLS, before - held);
    c->stream_charged = held;
}

static void input_uncharge(struct net_conn *c)
{
    if (c->in_charged)
        budget_give(&c->account, protocol_of(c)->input_kind, c->in_charged);
    c->in_charged = 0;
}

static bool input_charge(struct net_conn *c, size_t cap)
{
    if (cap <= c->in_charged)
        return true;
    if (!budget_take(&c->account, protocol_of(c)->input_kind, cap - c->in_charged,
                     net_now(c->server)))
        return false;
    c->in_charged = cap;
    return true;
}

static void account_close(struct net_conn *c)
{
    input_uncharge(c);
    if (c->stream_charged)
        budget_give(&c->account, BUDGET_TLS, c->stream_charged);
    budget_give(&c->account, BUDGET_CONNECTIONS, protocol_of(c)->conn_bytes);
    budget_close(&c->account);
}

void net_conn_moved(struct net_conn *c, size_t bytes)
{
    if (c->account.held > BUDGET_OWN_BYTES)
        budget_progress(&c->account, bytes, net_now(c->server));
}

void net_conn_account(struct net_conn *c)
{
    bool waits =
        c->account.held > BUDGET_OWN_BYTES && (only_stream(c) || protocol_of(c)->may_shed(c));
    if (waits != c->account.waits)
        budget_waits(&c->account, waits);
}

/* ---- the end ---- */

static void closed_cb(uv_handle_t *handle)
{
    struct net_conn *c = handle->data;
    struct net_server *s = c->server;
    buf_done(&c->in);
    mem_free(c);
    net_handle_closed(s);
}

void net_conn_close(struct net_conn *c)
{
    struct net_server *s = c->server;
    if (c->closed)
        return;
    c->closed = true;
    link_remove(&c->all);
    link_remove(&c->scheduled);
    wait_end(&c->reads);
    wait_end(&c->writes);
    s->figures.connections--;
    s->refused_open -= c->refused;
    peer_uncount(&s->addresses, c->address);
    s->protocol->closed(c);
    if (!c->taking) /* else the protocol is just reading from it */
        buf_done(&c->in);
    account_close(c);
    if (c->stream.kind->close)
        c->stream.kind->close(&c->stream);
    uv_close((uv_handle_t *)&c->poll, closed_cb);
    close(c->stream.fd);
    net_wake(s);
}

/* ---- what it waits for ---- */

bool net_conn_reads(const struct net_conn *c)
{
    return !c->eof && (c->opening || c->lingering || c->no_more || protocol_of(c)->wants_input(c));
}

static int events_wanted(const struct net_conn *c)
{
    int events = c->blocked ? UV_WRITABLE : 0;
    if (net_conn_reads(c))
        return events | UV_READABLE;
    return c->eof || c->hung_up ? events : events | UV_DISCONNECT;
}

/* To notice that the client closes the connection, some event must always be polled for. */
static int events_polled(const struct net_conn *c)
{
    const struct net_stream_kind *kind = c->stream.kind;
    int events = kind->events ? kind->events(&c->stream, c->wanted) : c->wanted;
    bool idle = events == 0 && protocol_of(c)->hang_up_ends && !c->urgent;
    return idle ? UV_PRIORITIZED : events;
}

static void poll_cb(uv_poll_t *handle, int status, int events);

/* The protocol hears nothing of the connection before its stream is ready. */
static void wait_settle(struct net_conn *c)
{
    if (c->opening && c->stream.kind->ready(&c->stream)) {
        c->opening = false;
        net_wait_stop(c);
    }
    if (c->opening)
        net_wait_ensure(c, NET_WAIT_HANDSHAKE);
    else
        protocol_of(c)->settle(c);
}

void net_conn_settle(struct net_conn *c)
{
    if (c->closed)
        return;
    wait_settle(c);
    stream_charge(c);
    net_conn_account(c);
    c->wanted = events_wanted(c);
    if (c->unread && c->wanted & UV_READABLE)
        net_conn_schedule(c);
    int events = events_polled(c);
    if (events == c->events)
        return;
    c->events = events;
    int r = events ? uv_poll_start(&c->poll, events, poll_cb) : uv_poll_stop(&c->poll);
    if (r != 0)
        net_conn_close(c);
}

/* ---- kept input ---- */

void net_conn_input_free(struct net_conn *c)
{
    buf_done(&c->in);
    input_uncharge(c);
}

static void front_drop(struct net_conn *c, size_t len)
{
    struct buf *b = &c->in;
    if (len >= b->len) {
        net_conn_input_free(c);
        return;
    }
    memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
}

/* Memory follows the bytes that came, not those that a message announces. */
static size_t input_cap(const struct net_conn *c, size_t len)
{
    if (len <= c->in.cap)
        return c->in.cap;
    size_t cap = len > 2 * c->in.cap ? len : 2 * c->in.cap;
    return c->in_need > len && c->in_need < cap ? c->in_need : cap;
}

static void keep(struct net_conn *c, struct span rest)
{
    if (rest.len == 0 || c->closed)
        return;
    size_t len = c->in.len + rest.len, cap = input_cap(c, len);
    if (input_charge(c, cap) && buf_grow(&c->in, cap) == 0 && buf_append_span(&c->in, rest) == 0)
        return;
    protocol_of(c)->no_room(c, len);
}

void net_conn_resume(struct net_conn *c)
{
    if (c->closed || c->no_more || c->in.len == 0 || c->in.len < c->in_need)
        return;
    c->taking = true;
    size_t used = protocol_of(c)->input(c, buf_span(&c->in));
    c->taking = false;
    if (used > 0 && !c->closed)
        front_drop(c, used);
}

/* ---- reading ---- */

static void take(struct net_conn *c, struct span fresh)
{
    if (c->in.len > 0) {
        keep(c, fresh);
        net_conn_resume(c);
        return;
    }
    size_t used = protocol_of(c)->input(c, fresh);
    keep(c, span_of(fresh.at + used, fresh.len - used));
}

static void input_end(struct net_conn *c)
{
    c->eof = true;
    if (c->lingering)
        net_conn_close(c);
    else
        protocol_of(c)->input_ended(c);
}

static void received(struct net_conn *c, struct span fresh)
{
    c->server->figures.bytes_in += fresh.len;
    c->bytes_in += fresh.len;
    net_conn_moved(c, fresh.len);
    if (!c->no_more && !c->lingering)
        take(c, fresh);
}

/* Handshakes are expensive: however many clients begin one at once, the others are served after
 * this share of an iteration. The socket stays readable, so the rest follows in the next one. */
static ssize_t handshake_read(struct net_conn *c)
{
    struct net_server *s = c->server;
    if (s->handshake_ns >= HANDSHAKE_NS_MAX)
        return NET_AGAIN;
    uint64_t began = clock_ns();
    ssize_t n = c->stream.kind->read(&c->stream, s->read_buf, NET_READ_BYTES);
    s->handshake_ns += clock_ns() - began;
    return n;
}

void net_conn_read(struct net_conn *c)
{
    struct net_server *s = c->server;
    const struct net_stream_kind *kind = c->stream.kind;
    ssize_t n =
        c->opening ? handshake_read(c) : kind->read(&c->stream, s->read_buf, NET_READ_BYTES);
    c->unread = n != 0 && kind->pending && kind->pending(&c->stream);
    if (n > 0)
        received(c, span_of(s->read_buf, (size_t)n));
    else if (n == 0)
        input_end(c);
    else if (n != NET_AGAIN)
        net_conn_close(c);
}

/* Polled for only when nothing else is: a hang-up shows as this event, and so does urgent data. */
static void hang_up_or_urgent(struct net_conn *c)
{
    struct pollfd p = {.fd = c->stream.fd};
    if (poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR | POLLNVAL))
        net_conn_close(c);
    else
        c->urgent = true;
}

static void hung_up(struct net_conn *c)
{
    c->hung_up = true;
    if (protocol_of(c)->hung_up)
        protocol_of(c)->hung_up(c);
}

static void poll_cb(uv_poll_t *handle, int status, int events)
{
    struct net_conn *c = handle->data;
    if (status < 0) {
        net_conn_close(c);
        return;
    }
    if (c->stream.kind->events && events & (UV_READABLE | UV_WRITABLE))
        events |= c->wanted & (UV_READABLE | UV_WRITABLE);
    if (events & UV_DISCONNECT)
        hung_up(c);
    if (events & UV_PRIORITIZED)
        hang_up_or_urgent(c);
    if (!c->closed && events & UV_READABLE)
        net_conn_read(c);
    if (events & UV_WRITABLE)
        net_conn_schedule(c);
    net_conn_settle(c);
}

/* ---- the beginning ---- */

static struct net_conn *conn_new(struct net_server *s, int fd, bool tls)
{
    struct net_conn *c = mem_zalloc(s->protocol->conn_bytes);
    if (!c)
        return NULL;
    const struct net_stream_kind *kind = tls ? &net_stream_tls : s->config.stream;
    void *ctx = tls ? &s->service : s->config.stream_ctx;
    c->stream = (struct net_stream){.kind = kind, .fd = fd};
    c->opening = kind->ready != NULL;
    bool opened = !kind->open || kind->open(&c->stream, ctx) == 0;
    if (opened && uv_poll_init(s->config.loop, &c->poll, fd) == 0)
        return c;
    if (opened && kind->close)
        kind->close(&c->stream);
    mem_free(c);
    return NULL;
}

static void begin(struct net_conn *c, bool refused)
{
    const struct net_protocol *p = protocol_of(c);
    struct net_server *s = c->server;
    if (p->opened)
        p->opened(c);
    if (!stream_charge_first(c)) {
        s->figures.refused += !refused;
        net_conn_close(c);
        return;
    }
    if (refused) {
        c->refused = c->no_more = c->linger = true;
        s->refused_open++;
        p->refused(c);
    }
    net_conn_settle(c);
}

void net_conn_accept(struct net_server *s, const struct net_accepted *a)
{
    struct net_conn *c = conn_new(s, a->fd, a->tls);
    if (!c) {
        close(a->fd);
        peer_uncount(&s->addresses, a->address);
        s->figures.refused++;
        return;
    }
    c->poll.data = c;
    c->server = s;
    c->address = a->address;
    c->peer_len = (uint8_t)(a->peer.len < NET_PEER_BYTES ? a->peer.len : NET_PEER_BYTES);
    memcpy(c->peer, a->peer.at, c->peer_len);
    link_append(&s->connections, &c->all);
    link_init(&c->scheduled);
    link_init(&c->reads.link);
    link_init(&c->writes.link);
    account_open(c);
    s->handles++;
    s->figures.connections++;
    net_tick_start(s);
    begin(c, a->refused);
}
