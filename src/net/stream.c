/* SPDX-License-Identifier: Apache-2.0 */
/* The plain stream: the socket itself. */
#include "net/stream.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

const struct net_client *net_client_copy(const struct net_client *c, void *room)
{
    struct net_client *copy = room;
    memcpy(copy, c, sizeof *c + c->bytes);
    for (size_t i = 0; i < c->count; i++)
        copy->names[i].at = (const char *)copy + (c->names[i].at - (const char *)c);
    return copy;
}

static bool passing(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS;
}

static ssize_t plain_read(struct net_stream *s, char *into, size_t len)
{
    ssize_t n = recv(s->fd, into, len, 0);
    return n >= 0 ? n : passing(errno) ? NET_AGAIN : NET_BROKEN;
}

static ssize_t plain_write(struct net_stream *s, const struct iovec *pieces, size_t count)
{
    struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = count};
    ssize_t n;
    do {
        n = sendmsg(s->fd, &m, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n >= 0 ? n : passing(errno) ? NET_AGAIN : NET_BROKEN;
}

static int plain_shutdown(struct net_stream *s)
{
    return shutdown(s->fd, SHUT_WR) == 0 ? 0 : NET_BROKEN;
}

const struct net_stream_kind net_stream_plain = {
    .read = plain_read,
    .write = plain_write,
    .shutdown = plain_shutdown,
};
