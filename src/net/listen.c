/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets and the connections that come in on them.
 *
 * A process without a free descriptor cannot accept, and a listening socket with a client in its
 * queue stays readable: the loop would spin. So a spare descriptor is closed for a moment, the
 * clients that wait are accepted and dropped, and the listener rests until the next tick. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/address.h"
#include "net/impl.h"

#define ACCEPTS_AT_ONCE 64  /* of one listener in one loop iteration */
#define REFUSED_OPEN_MAX 64 /* connections beyond the limits that are sent a reply */
#define DROPPED_LOG_MS 10000

/* ---- accepting ---- */

static struct span address_text(const struct sockaddr_storage *at, char out[NET_PEER_BYTES])
{
    const void *any = at;
    const void *address = &((const struct sockaddr_in *)any)->sin_addr;
    if (at->ss_family == AF_INET6)
        address = &((const struct sockaddr_in6 *)any)->sin6_addr;
    else if (at->ss_family != AF_INET)
        return SPAN_LITERAL("unix");
    if (!inet_ntop(at->ss_family, address, out, NET_PEER_BYTES))
        return SPAN_LITERAL("unknown");
    return span_text(out);
}

static void accepted(const struct net_listener *l, int fd, const struct sockaddr_storage *peer)
{
    char text[NET_PEER_BYTES];
    struct net_server *s = l->server;
    uint64_t address = peer_key(peer);
    struct net_accepted a = {.fd = fd, .peer = address_text(peer, text), .tls = l->tls};
    bool room = s->figures.connections - s->refused_open < s->config.connections_max;
    if (room && peer_count(&s->addresses, address, s->config.connections_per_address)) {
        s->figures.accepted++;
        a.address = address;
        net_conn_accept(s, &a);
        return;
    }
    s->figures.refused++;
    a.refused = true;
    if (s->protocol->refused && s->refused_open < REFUSED_OPEN_MAX)
        net_conn_accept(s, &a);
    else
        close(fd);
}

static int accept_one(const struct net_listener *l, struct sockaddr_storage *peer)
{
    socklen_t len = sizeof *peer;
    memset(peer, 0, sizeof *peer);
    return accept4(l->fd, (struct sockaddr *)peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void dropped_log(struct net_server *s)
{
    uint64_t now = net_now(s);
    if (s->dropped_logged_ms && now - s->dropped_logged_ms < DROPPED_LOG_MS)
        return;
    s->dropped_logged_ms = now ? now : 1;
    log_event(s->config.log, LOG_ERROR, "no_descriptors", LOG_INT("dropped", s->dropped),
              LOG_TEXT("next", "raise the limit of open files or lower limits.connections"));
}

void net_spare_take(struct net_server *s)
{
    if (s->spare_fd < 0)
        s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void waiting_drop(struct net_listener *l)
{
    struct net_server *s = l->server;
    struct sockaddr_storage peer;
    if (s->spare_fd >= 0)
        close(s->spare_fd);
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        int fd = accept_one(l, &peer);
        if (fd < 0)
            break;
        close(fd);
        s->dropped++;
        s->figures.refused++;
    }
    s->spare_fd = -1;
    net_spare_take(s);
    dropped_log(s);
}

static void rest(struct net_listener *l)
{
    l->paused = true;
    uv_poll_stop(&l->poll);
    net_tick_start(l->server);
}

/* Errors of a connection that failed in the queue; accept(2) returns them. */
static bool passing(int error)
{
    return error == EINTR || error == ECONNABORTED || error == EPROTO || error == EPERM ||
           error == ENETDOWN || error == EHOSTDOWN || error == ENETUNREACH ||
           error == EHOSTUNREACH || error == ENOPROTOOPT || error == ENONET;
}

static void listen_cb(uv_poll_t *handle, int status, int events)
{
    struct net_listener *l = handle->data;
    struct sockaddr_storage peer;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_AT_ONCE && !l->closed; i++) {
        int fd = accept_one(l, &peer);
        if (fd >= 0) {
            accepted(l, fd, &peer);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE) {
            waiting_drop(l);
            rest(l);
            return;
        } else if (!passing(errno)) {
            rest(l);
            return;
        }
    }
}

static void resume(struct net_listener *l)
{
    net_spare_take(l->server);
    l->paused = uv_poll_start(&l->poll, UV_READABLE, listen_cb) != 0;
}

bool net_listeners_resume(struct net_server *s)
{
    bool any = false;
    for (struct link *l = s->listeners.next; l != &s->listeners; l = l->next) {
        struct net_listener *listener = LINK_OWNER(l, struct net_listener, link);
        if (!listener->paused)
            continue;
        any = true;
        resume(listener);
    }
    return any;
}

/* ---- closing ---- */

static void closed_cb(uv_handle_t *handle)
{
    struct net_listener *l = handle->data;
    struct net_server *s = l->server;
    mem_free(l);
    net_handle_closed(s);
}

/* Only the file that was created here: there may be another one in its place. */
static void socket_file_remove(const struct net_listener *l)
{
    struct stat st;
    if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->device && st.st_ino == l->inode)
        (void)unlink(l->path);
}

static void listener_close(struct net_listener *l)
{
    l->closed = true;
    link_remove(&l->link);
    socket_file_remove(l);
    uv_close((uv_handle_t *)&l->poll, closed_cb);
    close(l->fd);
}

void net_listeners_close(struct net_server *s)
{
    while (!link_alone(&s->listeners))
        listener_close(LINK_OWNER(s->listeners.next, struct net_listener, link));
}

/* ---- opening ---- */

static void unix_address(struct net_listener *l, const struct sockaddr_un *un)
{
    const char *scheme = l->server->protocol->schemes->unix_socket;
    struct stat st;
    snprintf(l->address, sizeof l->address, "%s%s", scheme, un->sun_path);
    l->path = l->address + strlen(scheme);
    if (lstat(l->path, &st) == 0) {
        l->device = st.st_dev;
        l->inode = st.st_ino;
    }
}

static void tcp_address(struct net_listener *l, const struct listen_address *a)
{
    struct sockaddr_storage at = a->at; /* with the port that the system has chosen */
    socklen_t len = sizeof at;
    const void *any = &at;
    char host[NET_PEER_BYTES];
    (void)getsockname(l->fd, (struct sockaddr *)&at, &len);
    bool v6 = at.ss_family == AF_INET6;
    unsigned port = ntohs(v6 ? ((const struct sockaddr_in6 *)any)->sin6_port
                             : ((const struct sockaddr_in *)any)->sin_port);
    struct span name = address_text(&at, host);
    const struct net_schemes *schemes = l->server->protocol->schemes;
    snprintf(l->address, sizeof l->address, v6 ? "%s[%.*s]:%u" : "%s%.*s:%u",
             l->tls ? schemes->tls : schemes->plain, (int)name.len, name.at, port);
}

static int listener_new(struct net_server *s, int fd, const struct listen_address *a)
{
    struct net_listener *l = mem_zalloc(sizeof *l);
    if (!l || uv_poll_init(s->config.loop, &l->poll, fd) != 0) {
        mem_free(l);
        return -ERR_NOMEM;
    }
    l->poll.data = l;
    l->server = s;
    l->fd = fd;
    l->tls = a->kind == NET_ADDRESS_TLS;
    if (a->kind == NET_ADDRESS_UNIX)
        unix_address(l, (const void *)&a->at);
    else
        tcp_address(l, a);
    link_append(&s->listeners, &l->link);
    s->handles++;
    resume(l);
    return 0;
}

int net_listen(struct net_server *s, const char *address, struct err_note *note)
{
    struct listen_address a;
    int fd;
    int r = listen_address_parse(address, s->protocol->schemes, &a, note);
    if (r == 0 && a.kind == NET_ADDRESS_TLS && !s->config.tls)
        r = err_note_set(note, -ERR_INVALID, "cannot listen on %.120s: TLS needs a certificate.",
                         address);
    if (r == 0)
        r = listen_socket(&a, address, &fd, note);
    if (r != 0)
        return r;
    r = listener_new(s, fd, &a);
    if (r != 0) {
        if (a.kind == NET_ADDRESS_UNIX)
            (void)unlink(((const struct sockaddr_un *)(const void *)&a.at)->sun_path);
        close(fd);
        return err_note_set(note, r, "There is not enough memory to listen on %.120s.", address);
    }
    return 0;
}

int net_address_check(const char *address, const struct net_schemes *schemes,
                      enum net_address_kind *ret, struct err_note *note)
{
    struct listen_address a;
    int r = listen_address_parse(address, schemes, &a, note);
    if (r == 0)
        *ret = a.kind;
    return r;
}

const char *net_address(const struct net_server *s, size_t i)
{
    for (const struct link *l = s->listeners.next; l != &s->listeners; l = l->next)
        if (i-- == 0)
            return LINK_OWNER(l, const struct net_listener, link)->address;
    return NULL;
}
