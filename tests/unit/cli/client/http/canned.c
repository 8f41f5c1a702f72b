/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/cli/client/http/canned.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"

#define CONNECTIONS 64
#define FIXED 2 /* the pipe and the listener come first */

struct peer {
    struct buf in;
};

void canned_json(struct buf *out, int status, const char *json)
{
    CHECK(buf_printf(out,
                     "HTTP/1.1 %d Whatever\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n%s",
                     status, status < 400 ? "application/json" : "application/problem+json",
                     strlen(json), json) == 0);
}

/* The length of the first complete request; 0 = not complete. */
static size_t request_len(const struct buf *in)
{
    const char *end = in->len > 0 ? memmem(in->data, in->len, "\r\n\r\n", 4) : NULL;
    if (!end)
        return 0;
    size_t head = (size_t)(end - in->data) + 4;
    const char *at = memmem(in->data, head, "Content-Length: ", 16);
    size_t len = head + (at ? strtoul(at + 16, NULL, 10) : 0);
    return in->len >= len ? len : 0;
}

static void send_all(int fd, struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t n = send(fd, bytes.at, bytes.len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        bytes = span_of(bytes.at + n, bytes.len - (size_t)n);
    }
}

static bool requests_answer(struct canned *c, int fd, struct buf *in)
{
    size_t len;
    bool open = true;
    while (open && (len = request_len(in)) > 0) {
        struct buf out;
        buf_init(&out);
        char *request = strndup(in->data, len);
        open = c->fn(c->ctx, request, &out);
        free(request);
        memmove(in->data, in->data + len, in->len - len);
        in->len -= len;
        send_all(fd, buf_span(&out));
        buf_done(&out);
    }
    return open;
}

static bool peer_read(struct canned *c, int fd, struct buf *in)
{
    CHECK(buf_reserve(in, 65536) == 0);
    ssize_t n = recv(fd, in->data + in->len, 65536, 0);
    if (n <= 0)
        return false;
    in->len += (size_t)n;
    return requests_answer(c, fd, in);
}

static void *canned_main(void *ctx)
{
    struct canned *c = ctx;
    struct pollfd fds[FIXED + CONNECTIONS] = {{.fd = c->wake[0], .events = POLLIN},
                                              {.fd = c->listener, .events = POLLIN}};
    struct peer peers[CONNECTIONS] = {{.in = {NULL, 0, 0}}};
    for (int i = 0; i < CONNECTIONS; i++)
        fds[FIXED + i] = (struct pollfd){.fd = -1, .events = POLLIN};
    while (poll(fds, FIXED + CONNECTIONS, -1) > 0 && fds[0].revents == 0) {
        for (int i = 0; i < CONNECTIONS; i++) {
            struct pollfd *f = &fds[FIXED + i];
            if (f->fd >= 0 && f->revents && !peer_read(c, f->fd, &peers[i].in)) {
                close(f->fd);
                f->fd = -1;
                buf_clear(&peers[i].in);
            }
        }
        for (int i = 0; fds[1].revents && i < CONNECTIONS; i++) {
            if (fds[FIXED + i].fd < 0) {
                fds[FIXED + i].fd = accept(c->listener, NULL, NULL);
                fds[FIXED + i].revents = 0;
                break;
            }
        }
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        if (fds[FIXED + i].fd >= 0)
            close(fds[FIXED + i].fd);
        buf_done(&peers[i].in);
    }
    return NULL;
}

static void listen_tcp(struct canned *c)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    c->listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(c->listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(getsockname(c->listener, (struct sockaddr *)&address, &len) == 0);
    snprintf(c->url, sizeof c->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
}

static void listen_unix(struct canned *c, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    c->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(c->listener, (struct sockaddr *)&address, sizeof address) == 0);
    snprintf(c->url, sizeof c->url, "unix:%s", path);
}

void canned_start(struct canned *c, const char *path, canned_fn fn, void *ctx)
{
    *c = (struct canned){.fn = fn, .ctx = ctx};
    if (path)
        listen_unix(c, path);
    else
        listen_tcp(c);
    CHECK(listen(c->listener, CONNECTIONS) == 0);
    CHECK(pipe(c->wake) == 0);
    CHECK(pthread_create(&c->thread, NULL, canned_main, c) == 0);
}

void canned_stop(struct canned *c)
{
    close(c->wake[1]);
    pthread_join(c->thread, NULL);
    close(c->wake[0]);
    close(c->listener);
}
