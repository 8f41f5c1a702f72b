/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of the load generator: a non-blocking socket with its two buffers. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "cli/bench/tls.h"
#include "cli/bench/worker_impl.h"

#define READ_BYTES ((size_t)64 << 10)

static int watch(struct bench_connection *c, int how, bool room)
{
    struct epoll_event event = {.events = EPOLLIN | (room ? EPOLLOUT : 0U), .data.ptr = c};
    c->wants_room = room;
    return epoll_ctl(c->worker->epoll, how, c->fd, &event) == 0 ? 0 : -ERR_IO;
}

int bench_connection_open(struct bench_connection *c)
{
    const struct bench_plan *plan = c->worker->plan;
    int on = 1;
    c->fd = socket(plan->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&plan->address, plan->address_len) < 0)
        return err_note_set(&c->worker->note, -ERR_IO, "cannot connect to the server at %s: %s",
                            plan->host, strerror(errno));
    if (plan->address.ss_family != AF_UNIX)
        (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int rc = plan->tls ? bench_tls_connect(plan->tls, c->fd, &c->tls, &c->worker->note) : 0;
    if (rc < 0)
        return rc;
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0 || watch(c, EPOLL_CTL_ADD, false) < 0)
        return err_note_set(&c->worker->note, -ERR_IO, "cannot watch a connection: %s",
                            strerror(errno));
    return 0;
}

void bench_connection_close(struct bench_connection *c)
{
    bench_tls_close(c->tls);
    c->tls = NULL;
    if (c->fd >= 0)
        (void)close(c->fd);
    c->fd = -1;
    buf_done(&c->in);
    buf_done(&c->out);
}

/* Its requests are lost; the other connections continue. */
static int lost(struct bench_connection *c, const char *why)
{
    bench_worker_error(c->worker, c->ring_count > 0 ? c->ring_count : 1,
                       "a connection was lost: %s", why);
    c->worker->asked -= c->ring_count;
    for (; c->ring_count > 0; c->ring_count--) {
        struct bench_slot *slot = c->ring[c->ring_at];
        bench_slot_settle(slot, slot->jobs);
        c->ring_at = (c->ring_at + 1) % c->worker->plan->pipeline;
    }
    bench_connection_close(c);
    return 0;
}

static ssize_t output(struct bench_connection *c, const char *at, size_t len)
{
    return c->tls ? bench_tls_send(c->tls, at, len) : send(c->fd, at, len, MSG_NOSIGNAL);
}

static ssize_t input(struct bench_connection *c, char *into, size_t len)
{
    return c->tls ? bench_tls_recv(c->tls, into, len) : recv(c->fd, into, len, 0);
}

int bench_connection_flush(struct bench_connection *c)
{
    while (c->fd >= 0 && c->out_at < c->out.len) {
        ssize_t n = output(c, c->out.data + c->out_at, c->out.len - c->out_at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return c->wants_room ? 0 : watch(c, EPOLL_CTL_MOD, true);
        if (n < 0)
            return lost(c, strerror(errno));
        c->out_at += (size_t)n;
    }
    if (c->fd < 0)
        return 0;
    buf_clear(&c->out);
    c->out_at = 0;
    return c->wants_room ? watch(c, EPOLL_CTL_MOD, false) : 0;
}

static int answers_take(struct bench_connection *c)
{
    uint64_t now_ns = clock_ns();
    while (c->in_at < c->in.len) {
        struct bench_reply reply;
        int got = bench_reply_read(span_of(c->in.data + c->in_at, c->in.len - c->in_at), &reply);
        if (got == 0)
            break;
        if (got < 0 || c->ring_count == 0)
            return lost(c, got < 0 ? "the input is not an HTTP answer with a length"
                                   : "an answer arrived without a request");
        struct bench_slot *slot = c->ring[c->ring_at];
        c->ring_at = (c->ring_at + 1) % c->worker->plan->pipeline;
        c->ring_count--;
        c->worker->asked--;
        int rc = bench_slot_answer(slot, &reply, now_ns);
        if (rc < 0)
            return rc;
        c->in_at += reply.bytes;
    }
    memmove(c->in.data, c->in.data + c->in_at, c->in.len - c->in_at);
    c->in.len -= c->in_at;
    c->in_at = 0;
    return 0;
}

int bench_connection_read(struct bench_connection *c)
{
    for (;;) {
        int rc = buf_reserve(&c->in, READ_BYTES);
        if (rc < 0)
            return rc;
        size_t room = c->in.cap - c->in.len;
        ssize_t n = input(c, c->in.data + c->in.len, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n <= 0)
            return lost(c, n == 0 ? "the server closed it" : strerror(errno));
        c->in.len += (size_t)n;
        rc = answers_take(c);
        /* A session may have more than the socket shows. */
        if (rc < 0 || c->fd < 0 || (!c->tls && (size_t)n < room))
            return rc;
    }
}
