/* SPDX-License-Identifier: Apache-2.0 */
/* Listening addresses: from text to a socket. */
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 4096 /* the kernel reduces it to its limit */
#define FORMS "HOST:PORT with 127.0.0.1, [::1] or localhost, or unix:PATH"

/* ---- text ------------------------------------------------------------------------------------ */

static int port_parse(const char *text, uint16_t *ret)
{
    unsigned port = 0;
    size_t digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9' && digits < 5; digits++)
        port = port * 10 + (unsigned)(text[digits] - '0');
    if (digits == 0 || text[digits] != '\0' || port > UINT16_MAX)
        return -ERR_INVALID;
    *ret = (uint16_t)port;
    return 0;
}

/* Sets ret->at; -ERR_INVALID: the host is not an address. */
static int v4_parse(const char *host, uint16_t port, struct listen_address *ret)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (strcmp(host, "localhost") == 0)
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
        return -ERR_INVALID;
    memcpy(&ret->at, &in, sizeof in);
    ret->len = sizeof in;
    return 0;
}

static int v6_parse(const char *host, uint16_t port, struct listen_address *ret)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (inet_pton(AF_INET6, host, &in6.sin6_addr) != 1)
        return -ERR_INVALID;
    memcpy(&ret->at, &in6, sizeof in6);
    ret->len = sizeof in6;
    return 0;
}

static int unix_parse(const char *path, struct listen_address *ret, struct err_note *note)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof un.sun_path)
        return err_note_set(note, -ERR_INVALID,
                            "The path of a Unix socket must have 1 to %zu bytes, not %zu.",
                            sizeof un.sun_path - 1, len);
    memcpy(un.sun_path, path, len + 1);
    memcpy(&ret->at, &un, sizeof un);
    ret->len = sizeof un;
    ret->kind = NET_ADDRESS_UNIX;
    return 0;
}

/* The host without brackets and port; false if the text does not have this form. */
static bool host_split(const char *text, char *host, size_t room, const char **ret_port, bool *v6)
{
    const char *colon = strrchr(text, ':');
    if (!colon)
        return false;
    size_t len = (size_t)(colon - text);
    *v6 = len >= 2 && text[0] == '[' && text[len - 1] == ']';
    if (*v6) {
        text++;
        len -= 2;
    }
    if (len == 0 || len >= room)
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    *ret_port = colon + 1;
    return true;
}

/* Removes the scheme, if there is one. */
static const char *scheme_take(const char *text, const struct net_schemes *schemes,
                               enum net_address_kind *ret)
{
    *ret = NET_ADDRESS_BARE;
    size_t plain = strlen(schemes->plain), tls = strlen(schemes->tls);
    if (strncmp(text, schemes->plain, plain) == 0) {
        *ret = NET_ADDRESS_PLAIN;
        return text + plain;
    }
    if (strncmp(text, schemes->tls, tls) == 0) {
        *ret = NET_ADDRESS_TLS;
        return text + tls;
    }
    return text;
}

static bool is_loopback(const struct sockaddr_storage *at)
{
    const void *any = at;
    if (at->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)any)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)any)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* Whether other machines can reach the address: the one place that decides what is allowed. An
 * address outside loopback needs TLS and access tokens; as long as there are no access tokens,
 * every such address is refused. */
static int exposure_check(const struct listen_address *a, const char *text, struct err_note *note)
{
    if (is_loopback(&a->at))
        return 0;
    return err_note_set(
        note, -ERR_INVALID,
        "cannot listen on \"%.100s\": other machines could reach it, and without "
        "access tokens, which do not exist yet, only loopback addresses are allowed; "
        "give " FORMS ".",
        text);
}

int listen_address_parse(const char *text, const struct net_schemes *schemes,
                         struct listen_address *ret, struct err_note *note)
{
    char host[64];
    const char *port_text;
    uint16_t port;
    bool v6;
    *ret = (struct listen_address){0};
    if (strncmp(text, "unix:", 5) == 0)
        return unix_parse(text + 5, ret, note);
    const char *rest = scheme_take(text, schemes, &ret->kind);
    if (!host_split(rest, host, sizeof host, &port_text, &v6))
        return err_note_set(note, -ERR_INVALID, "cannot listen on \"%.100s\": give " FORMS ".",
                            text);
    if (port_parse(port_text, &port) != 0)
        return err_note_set(note, -ERR_INVALID,
                            "cannot listen on \"%.100s\": the port must be 0 to 65535.", text);
    if ((v6 ? v6_parse(host, port, ret) : v4_parse(host, port, ret)) != 0)
        return err_note_set(
            note, -ERR_INVALID,
            "cannot listen on \"%.100s\": the host is not a loopback address; give " FORMS ".",
            text);
    return exposure_check(ret, text, note);
}

/* ---- socket ---------------------------------------------------------------------------------- */

static int io_error(struct err_note *note, const char *text, int error)
{
    int code = error == EADDRINUSE ? -ERR_LOCKED : -ERR_IO;
    return err_note_set(note, code, "cannot listen on %.120s: %s.", text, strerror(error));
}

/* Accepted sockets inherit these. A machine that lost its power sends nothing: a parked request
 * of such a client is detected after about two minutes. */
static void tcp_options(int fd, int family)
{
    int on = 1, idle_s = 60, interval_s = 15, probes = 4;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
}

/* Whether the socket file is left over from a process that has ended. */
static bool is_left_over(const struct listen_address *a)
{
    const struct sockaddr_un *un = (const void *)&a->at;
    struct stat st;
    if (lstat(un->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool dead = connect(fd, (const struct sockaddr *)&a->at, a->len) != 0 && errno == ECONNREFUSED;
    close(fd);
    return dead;
}

static int bind_to(int fd, const struct listen_address *a)
{
    const struct sockaddr *at = (const struct sockaddr *)&a->at;
    if (bind(fd, at, a->len) == 0)
        return 0;
    if (errno != EADDRINUSE || a->kind != NET_ADDRESS_UNIX)
        return errno;
    if (!is_left_over(a))
        return EADDRINUSE;
    (void)unlink(((const struct sockaddr_un *)(const void *)at)->sun_path);
    return bind(fd, at, a->len) == 0 ? 0 : errno;
}

int listen_socket(const struct listen_address *a, const char *text, int *ret_fd,
                  struct err_note *note)
{
    int fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return io_error(note, text, errno);
    if (a->kind == NET_ADDRESS_UNIX)
        (void)fchmod(fd, 0600); /* set before it has a name, so that no client connects earlier */
    else
        tcp_options(fd, a->at.ss_family);
    int error = bind_to(fd, a);
    if (error == 0 && listen(fd, BACKLOG) != 0)
        error = errno;
    if (error != 0) {
        close(fd);
        return io_error(note, text, error);
    }
    *ret_fd = fd;
    return 0;
}

/* ---- connections for each address ---- */

uint64_t peer_key(const struct sockaddr_storage *peer)
{
    const void *any = peer;
    if (peer->ss_family == AF_INET) {
        const struct sockaddr_in *in = any;
        return UINT64_C(1) << 32 | ntohl(in->sin_addr.s_addr);
    }
    if (peer->ss_family != AF_INET6)
        return 0;
    const struct sockaddr_in6 *in6 = any;
    uint64_t network;
    memcpy(&network, &in6->sin6_addr, sizeof network);
    return network ? network : UINT64_C(1) << 33;
}

bool peer_count(struct map64 *counts, uint64_t key, uint32_t most)
{
    if (!key)
        return true;
    uint32_t n = map64_get(counts, key);
    return n < most && map64_put(counts, key, n + 1) == 0;
}

void peer_uncount(struct map64 *counts, uint64_t key)
{
    if (!key)
        return;
    uint32_t n = map64_get(counts, key);
    if (n <= 1)
        map64_drop(counts, key);
    else if (map64_put(counts, key, n - 1) != 0)
        return; /* replacing a value takes no memory */
}
