/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/net/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/tls/tls.h"
#include "unit/net/split_stream.h"
#include "unit/net/tls_client.h"

int client_connect(const char *address)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const char *path = strstr(address, "unix:");
    bool v6 = strstr(address, "[::1]") != NULL;
    const struct sockaddr *at = v6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in;
    socklen_t len = v6 ? sizeof in6 : sizeof in;
    if (path) {
        snprintf(un.sun_path, sizeof un.sun_path, "%.100s", path + 5);
        at = (struct sockaddr *)&un;
        len = sizeof un;
    } else {
        in.sin_port = in6.sin6_port = htons((uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10));
    }
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, at, len) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

void net_client_open(struct client *c, const char *address)
{
    *c = (struct client){.fd = client_connect(address)};
    assert_true(c->fd >= 0);
    void *ctx;
    if (stream_under_test(&ctx) == &net_stream_tls)
        c->tls = tls_client_open(c->fd);
}

void net_client_close(struct client *c)
{
    tls_client_close(c->tls);
    if (c->fd >= 0)
        close(c->fd);
    free(c->data);
    *c = (struct client){.fd = -1};
}

void client_reset(struct client *c)
{
    struct linger hard = {.l_onoff = 1};
    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
    net_client_close(c);
}

void client_shutdown(struct client *c)
{
    if (c->tls)
        (void)SSL_shutdown(c->tls);
    (void)shutdown(c->fd, SHUT_WR); /* the server may have closed */
}

ssize_t client_try_send(struct client *c, const char *at, size_t len)
{
    return c->tls ? tls_client_send(c->tls, at, len) : send(c->fd, at, len, MSG_NOSIGNAL);
}

void client_handshake(uv_loop_t *loop, struct client *c)
{
    LOOP_UNTIL(loop, client_poll(c) && (!c->tls || SSL_is_init_finished(c->tls)));
}

void client_send(uv_loop_t *loop, struct client *c, const char *at, size_t len)
{
    while (len > 0) {
        ssize_t n = client_try_send(c, at, len);
        if (n < 0 && errno != EAGAIN)
            return; /* the server has closed: the test sees it when it reads */
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
        uv_run(loop, UV_RUN_NOWAIT);
    }
}

static ssize_t receive(struct client *c, char *into, size_t len)
{
    return c->tls ? tls_client_recv(c->tls, into, len) : recv(c->fd, into, len, 0);
}

bool client_poll(struct client *c)
{
    for (;;) {
        if (c->room - c->len < 65536) {
            c->room = c->room * 2 + 131072;
            c->data = realloc(c->data, c->room);
            assert_non_null(c->data);
            c->data[c->len] = '\0';
        }
        ssize_t n = c->eof || c->error ? -1 : receive(c, c->data + c->len, 65535);
        if (n < 0 && !c->eof && !c->error && errno != EAGAIN)
            c->error = errno;
        if (n == 0)
            c->eof = true;
        if (n <= 0)
            return true;
        c->len += (size_t)n;
        c->data[c->len] = '\0';
    }
}

void client_drop(struct client *c, size_t len)
{
    memmove(c->data, c->data + len, c->len - len + 1);
    c->len -= len;
}

void client_until(uv_loop_t *loop, struct client *c, const char *needle)
{
    LOOP_UNTIL(loop, client_poll(c) && (strstr(c->data, needle) || c->eof || c->error));
    if (!strstr(c->data, needle))
        fail_msg("expected \"%s\", got \"%.300s\"", needle, c->data);
}

void client_until_eof(uv_loop_t *loop, struct client *c)
{
    LOOP_UNTIL(loop, client_poll(c) && (c->eof || c->error));
}
