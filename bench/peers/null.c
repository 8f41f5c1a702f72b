/* SPDX-License-Identifier: Apache-2.0 */
/* peernull PORT: a beanstalkd that keeps nothing but a queue of bodies in memory, first in, first
 * out, one for all tubes. The ceiling: what a single thread with epoll and this load generator
 * reach on this machine when a server does nothing. Says `listening on PORT` when it does; port 0
 * finds one. Understands use, watch, ignore, put, reserve, delete. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"

#define EVENTS 256
#define READ_MIN (64 * 1024)
#define BODY_MAX 65536
#define CLIENTS_MAX 4096 /* by descriptor */

struct client {
    int fd;
    bool watched_write, waits;
    unsigned wanted; /* reserves that wait */
    struct buf in, out;
    size_t in_at, out_at;
    struct client *next; /* in the list of those who wait */
};

struct null_server {
    int listener, epoll;
    struct buf jobs; /* bodies, each behind its length as 4 bytes */
    size_t jobs_at;
    uint64_t last_id;
    struct client *waiting, **waiting_end;
    struct client *clients[CLIENTS_MAX];
};

static void die(const char *what)
{
    fprintf(stderr, "peernull: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void add(struct buf *b, const void *bytes, size_t len)
{
    if (buf_append(b, bytes, len) < 0)
        die("out of memory");
}

/* ---- jobs ---- */

static void job_put(struct null_server *s, const char *body, uint32_t len)
{
    if (s->jobs_at == s->jobs.len) {
        s->jobs_at = 0;
        buf_clear(&s->jobs);
    }
    add(&s->jobs, &len, sizeof len);
    add(&s->jobs, body, len);
}

static bool job_give(struct null_server *s, struct client *c)
{
    char line[64];
    uint32_t len;
    if (s->jobs_at == s->jobs.len)
        return false;
    memcpy(&len, s->jobs.data + s->jobs_at, sizeof len);
    int n =
        snprintf(line, sizeof line, "RESERVED %llu %u\r\n", (unsigned long long)++s->last_id, len);
    add(&c->out, line, (size_t)n);
    add(&c->out, s->jobs.data + s->jobs_at + sizeof len, len);
    add(&c->out, "\r\n", 2);
    s->jobs_at += sizeof len + len;
    return true;
}

/* ---- sending ---- */

static void watch(struct null_server *s, struct client *c, int how, bool write)
{
    struct epoll_event e = {.events = EPOLLIN | (write ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(s->epoll, how, c->fd, &e) < 0)
        die("epoll_ctl");
    c->watched_write = write;
}

static void flush(struct null_server *s, struct client *c)
{
    while (c->out_at < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + c->out_at, c->out.len - c->out_at,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0)
            break; /* full, or closed: the next read shows it */
        c->out_at += (size_t)n;
    }
    bool left = c->out_at < c->out.len;
    if (!left) {
        c->out_at = 0;
        buf_clear(&c->out);
    }
    if (left != c->watched_write)
        watch(s, c, EPOLL_CTL_MOD, left);
}

static void wait_begin(struct null_server *s, struct client *c)
{
    c->wanted++;
    if (c->waits)
        return;
    c->waits = true;
    c->next = NULL;
    *s->waiting_end = c;
    s->waiting_end = &c->next;
}

static void wait_end(struct null_server *s, struct client *c)
{
    struct client **at = &s->waiting;
    while (*at && *at != c)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = c->next;
    if (!*at)
        s->waiting_end = at;
    c->waits = false;
}

static void wake(struct null_server *s)
{
    while (s->waiting && s->jobs_at < s->jobs.len) {
        struct client *c = s->waiting;
        (void)job_give(s, c);
        if (--c->wanted == 0)
            wait_end(s, c);
        flush(s, c);
    }
}

/* ---- commands ---- */

/* Its length, or 0 if the body has not arrived. */
static size_t put(struct null_server *s, struct client *c, const char *at, size_t line, size_t len)
{
    const char *last = memrchr(at, ' ', line);
    unsigned long body = last ? strtoul(last, NULL, 10) : 0;
    if (body > BODY_MAX)
        body = 0;
    if (len < line + body + 2)
        return 0;
    job_put(s, at + line, (uint32_t)body);
    add(&c->out, "INSERTED 1\r\n", 12);
    return line + body + 2;
}

static size_t command(struct null_server *s, struct client *c, const char *at, size_t len)
{
    const char *end = memchr(at, '\n', len);
    size_t line = end ? (size_t)(end - at) + 1 : 0;
    if (line == 0)
        return 0;
    if (at[0] == 'p')
        return put(s, c, at, line, len);
    if (at[0] == 'r') {
        if (c->wanted > 0 || !job_give(s, c))
            wait_begin(s, c);
    } else if (at[0] == 'd') {
        add(&c->out, "DELETED\r\n", 9);
    } else if (at[0] == 'u') {
        add(&c->out, "USING jobs\r\n", 12);
    } else {
        add(&c->out, "WATCHING 1\r\n", 12);
    }
    return line;
}

static void client_close(struct null_server *s, struct client *c)
{
    wait_end(s, c);
    s->clients[c->fd] = NULL;
    (void)close(c->fd);
    buf_done(&c->in);
    buf_done(&c->out);
    free(c);
}

static void client_read(struct null_server *s, struct client *c)
{
    size_t left = c->in.len - c->in_at, n;
    if (left > 0)
        memmove(c->in.data, c->in.data + c->in_at, left);
    c->in.len = left;
    c->in_at = 0;
    if (buf_reserve(&c->in, READ_MIN) < 0)
        die("out of memory");
    ssize_t got = recv(c->fd, c->in.data + left, c->in.cap - left, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        client_close(s, c);
        return;
    }
    c->in.len += (size_t)got;
    while (c->in_at < c->in.len &&
           (n = command(s, c, c->in.data + c->in_at, c->in.len - c->in_at)) > 0)
        c->in_at += n;
    flush(s, c);
    wake(s);
}

static void client_accept(struct null_server *s)
{
    int one = 1, fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        die("accept");
    struct client *c = fd < CLIENTS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c)
        die("too many clients");
    c->fd = fd;
    s->clients[fd] = c;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    watch(s, c, EPOLL_CTL_ADD, false);
}

static void server_listen(struct null_server *s, const char *port)
{
    char *end;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    struct epoll_event e = {.events = EPOLLIN};
    unsigned long number = strtoul(port, &end, 10);
    if (*end || number > 65535) {
        fputs("usage: peernull PORT\n", stderr);
        exit(2);
    }
    at.sin_port = htons((uint16_t)number);
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&at, sizeof at) < 0 ||
        listen(s->listener, 512) < 0 || getsockname(s->listener, (struct sockaddr *)&at, &len) < 0)
        die("cannot listen");
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &e) < 0)
        die("epoll");
    printf("listening on %u\n", ntohs(at.sin_port));
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    static struct null_server s;
    struct epoll_event events[EVENTS];
    s.waiting_end = &s.waiting;
    server_listen(&s, argc > 1 ? argv[1] : "0");
    for (;;) {
        int n = epoll_wait(s.epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            struct client *c = events[i].data.ptr;
            if (!c)
                client_accept(&s);
            else if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                client_read(&s, c);
            else
                flush(&s, c);
        }
    }
}
