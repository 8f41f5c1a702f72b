/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a server accepts connections at the address of a URL: a connection over TCP, or to a Unix
 * socket, is opened and closed again. This distinguishes a server that is unavailable from one that
 * refuses this node, for every kind of store. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend/failover/impl.h"

#define HOST_MAX 256

struct address {
    char host[HOST_MAX]; /* one that begins with / is the directory of a Unix socket */
    char port[8];
};

static const struct {
    const char *scheme, *port;
} ports[] = {
    {"postgres://", "5432"},
    {"postgresql://", "5432"},
    {"redis://", "6379"},
    {"rediss://", "6379"},
};

static bool connects(int family, const struct sockaddr *to, socklen_t len, uint32_t timeout_ms)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = 0;
    socklen_t size = sizeof error;
    if (fd < 0)
        return false;
    bool done = connect(fd, to, len) == 0;
    if (!done && errno == EINPROGRESS) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        done = poll(&p, 1, (int)timeout_ms) == 1 &&
               getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
    }
    close(fd);
    return done;
}

static bool reach_unix(const struct address *a, uint32_t timeout_ms)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int n = snprintf(to.sun_path, sizeof to.sun_path, "%s/.s.PGSQL.%s", a->host, a->port);
    if (n < 0 || (size_t)n >= sizeof to.sun_path)
        return true;
    return connects(AF_UNIX, (const struct sockaddr *)&to, sizeof to, timeout_ms);
}

static bool reach_tcp(const struct address *a, uint32_t timeout_ms)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    bool there = false;
    if (getaddrinfo(a->host, a->port, &hints, &found) != 0)
        return false;
    for (const struct addrinfo *at = found; at && !there; at = at->ai_next)
        there = connects(at->ai_family, at->ai_addr, at->ai_addrlen, timeout_ms);
    freeaddrinfo(found);
    return there;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copies up to one of the characters of `end`, and decodes %xx. */
static void copy_until(char *out, size_t size, const char *from, const char *end)
{
    size_t n = 0;
    while (*from && !strchr(end, *from) && n + 1 < size) {
        int high = from[0] == '%' ? hex_digit(from[1]) : -1;
        int low = high >= 0 ? hex_digit(from[2]) : -1;
        if (low >= 0)
            out[n++] = (char)(high * 16 + low);
        else
            out[n++] = *from;
        from += low >= 0 ? 3 : 1;
    }
    out[n] = '\0';
}

/* host=… and port=… of the query, as libpq accepts them. */
static void read_query(const char *query, struct address *a)
{
    while (query) {
        query++;
        if (strncmp(query, "host=", 5) == 0)
            copy_until(a->host, sizeof a->host, query + 5, "&,");
        else if (strncmp(query, "port=", 5) == 0)
            copy_until(a->port, sizeof a->port, query + 5, "&,");
        query = strchr(query, '&');
    }
}

/* The first of several hosts. */
static void read_authority(const char *at, struct address *a)
{
    const char *end = at + strcspn(at, "/?#");
    for (const char *c = at; c < end; c++) {
        if (*c == '@')
            at = c + 1;
    }
    bool bracket = *at == '[';
    copy_until(a->host, sizeof a->host, at + bracket, bracket ? "]" : ":,/?#");
    const char *colon = bracket ? strchr(at, ']') : at + strcspn(at, ":,/?#");
    if (colon && bracket)
        colon++;
    if (colon && *colon == ':' && colon < end)
        copy_until(a->port, sizeof a->port, colon + 1, ",/?#");
    read_query(strchr(end, '?'), a);
}

bool reach_url(const char *url, uint32_t timeout_ms)
{
    struct address a = {"", ""};
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        size_t len = strlen(ports[i].scheme);
        if (strncmp(url, ports[i].scheme, len) != 0)
            continue;
        snprintf(a.port, sizeof a.port, "%s", ports[i].port);
        read_authority(url + len, &a);
        if (a.host[0] == '/')
            return reach_unix(&a, timeout_ms);
        return a.host[0] == '\0' || reach_tcp(&a, timeout_ms);
    }
    return true;
}
