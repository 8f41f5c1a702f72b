/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets and the connections that come in on them.
 *
 * A process without a free descriptor cannot accept, and a listening socket with somebody in its
 * queue stays readable: the loop would spin. So a spare descriptor is given up for a moment, those
 * who wait are accepted and dropped, and the listener rests until the next tick. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "http/address.h"
#include "http/server_impl.h"

#define ACCEPTS_A_TURN 64
#define SHED_LOG_MS 10000

/* ---- accepting ------------------------------------------------------------------------------- */

static struct span peer_text(const struct sockaddr_storage *peer, char out[PEER_BYTES])
{
    const void *any = peer;
    const void *address = &((const struct sockaddr_in *)any)->sin_addr;
    if (peer->ss_family == AF_INET6)
        address = &((const struct sockaddr_in6 *)any)->sin6_addr;
    else if (peer->ss_family != AF_INET)
        return SPAN_LITERAL("unix");
    if (!inet_ntop(peer->ss_family, address, out, PEER_BYTES))
        return SPAN_LITERAL("unknown");
    return span_text(out);
}

static void accepted(struct http_server *s, int fd, const struct sockaddr_storage *peer)
{
    char text[PEER_BYTES];
    uint64_t address = peer_key(peer);
    uint64_t served = s->figures.connections - s->lingering_refused;
    bool room = served < s->config.connections_max;
    if (room && peer_count(&s->addresses, address, s->config.connections_per_address)) {
        s->figures.accepted++;
        connection_open(s, fd, peer_text(peer, text), address, false);
        return;
    }
    s->figures.refused++;
    if (s->lingering_refused < LINGER_REFUSED_MAX)
        connection_open(s, fd, peer_text(peer, text), 0, true);
    else
        close(fd);
}

static int accept_one(const struct listener *l, struct sockaddr_storage *peer)
{
    socklen_t len = sizeof *peer;
    memset(peer, 0, sizeof *peer);
    return accept4(l->fd, (struct sockaddr *)peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void shed_log(struct http_server *s)
{
    uint64_t now = server_now(s);
    if (s->shed_logged_ms && now - s->shed_logged_ms < SHED_LOG_MS)
        return;
    s->shed_logged_ms = now ? now : 1;
    log_event(s->config.log, LOG_ERROR, "no_descriptors", LOG_INT("dropped", s->shed),
              LOG_TEXT("help", "raise the limit of open files or lower limits.connections"));
}

void listen_spare(struct http_server *s)
{
    if (s->spare_fd < 0)
        s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void shed(struct listener *l)
{
    struct http_server *s = l->server;
    struct sockaddr_storage peer;
    if (s->spare_fd >= 0)
        close(s->spare_fd);
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd = accept_one(l, &peer);
        if (fd < 0)
            break;
        close(fd);
        s->shed++;
        s->figures.refused++;
    }
    s->spare_fd = -1;
    listen_spare(s);
    shed_log(s);
}

static void rest(struct listener *l)
{
    l->paused = true;
    uv_poll_stop(&l->poll);
    server_tick_start(l->server);
}

/* Errors of a connection that failed in the queue; accept(2) hands them out. */
static bool passing(int error)
{
    return error == EINTR || error == ECONNABORTED || error == EPROTO || error == EPERM ||
           error == ENETDOWN || error == EHOSTDOWN || error == ENETUNREACH ||
           error == EHOSTUNREACH || error == ENOPROTOOPT || error == ENONET;
}

static void listen_cb(uv_poll_t *handle, int status, int events)
{
    struct listener *l = handle->data;
    struct sockaddr_storage peer;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN && !l->closed; i++) {
        int fd = accept_one(l, &peer);
        if (fd >= 0) {
            accepted(l->server, fd, &peer);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE) {
            shed(l);
            rest(l);
            return;
        } else if (!passing(errno)) {
            rest(l);
            return;
        }
    }
}

void listener_resume(struct listener *l)
{
    if (!l->paused || l->closed)
        return;
    l->paused = false;
    listen_spare(l->server);
    if (uv_poll_start(&l->poll, UV_READABLE, listen_cb) != 0)
        l->paused = true;
}

/* ---- closing --------------------------------------------------------------------------------- */

static void closed_cb(uv_handle_t *handle)
{
    struct listener *l = handle->data;
    struct http_server *s = l->server;
    mem_free(l);
    server_handle_closed(s);
}

/* Only the file that we made: somebody may have put another one there. */
static void socket_file_remove(const struct listener *l)
{
    const char *path = l->address + strlen("unix:");
    struct stat st;
    if (l->unix_socket && lstat(path, &st) == 0 && st.st_dev == l->device && st.st_ino == l->inode)
        (void)unlink(path);
}

void listener_close(struct listener *l)
{
    l->closed = true;
    link_remove(&l->link);
    socket_file_remove(l);
    uv_close((uv_handle_t *)&l->poll, closed_cb);
    close(l->fd);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void address_format(struct listener *l, const struct listen_address *a)
{
    struct sockaddr_storage at = a->at;
    socklen_t len = sizeof at;
    const void *any = &at;
    char host[PEER_BYTES];
    if (a->unix_socket) {
        const struct sockaddr_un *un = any;
        snprintf(l->address, sizeof l->address, "unix:%s", un->sun_path);
        return;
    }
    (void)getsockname(l->fd, (struct sockaddr *)&at, &len);
    bool v6 = at.ss_family == AF_INET6;
    unsigned port = ntohs(v6 ? ((const struct sockaddr_in6 *)any)->sin6_port
                             : ((const struct sockaddr_in *)any)->sin_port);
    struct span name = peer_text(&at, host);
    snprintf(l->address, sizeof l->address, v6 ? "http://[%.*s]:%u" : "http://%.*s:%u",
             (int)name.len, name.at, port);
}

static void socket_file_note(struct listener *l)
{
    struct stat st;
    if (l->unix_socket && lstat(l->address + strlen("unix:"), &st) == 0) {
        l->device = st.st_dev;
        l->inode = st.st_ino;
    }
}

static int listener_new(struct http_server *s, int fd, const struct listen_address *a)
{
    struct listener *l = mem_zalloc(sizeof *l);
    if (!l || uv_poll_init(s->config.loop, &l->poll, fd) != 0) {
        mem_free(l);
        return -ERR_NOMEM;
    }
    l->poll.data = l;
    l->server = s;
    l->fd = fd;
    l->unix_socket = a->unix_socket;
    address_format(l, a);
    socket_file_note(l);
    link_append(&s->listeners, &l->link);
    s->handles++;
    l->paused = true;
    listener_resume(l);
    return 0;
}

int http_server_listen(struct http_server *s, const char *address, struct err_note *note)
{
    struct listen_address a;
    int fd;
    if (s->routes_failed)
        return err_note_set(note, -ERR_NOMEM, "There is not enough memory for the routes.");
    int r = listen_address_parse(address, &a, note);
    if (r == 0)
        r = listen_socket(&a, address, &fd, note);
    if (r != 0)
        return r;
    r = listener_new(s, fd, &a);
    if (r != 0) {
        if (a.unix_socket)
            (void)unlink(((const struct sockaddr_un *)(const void *)&a.at)->sun_path);
        close(fd);
        return err_note_set(note, r, "There is not enough memory to listen on %.120s.", address);
    }
    return 0;
}

const char *http_server_address(const struct http_server *s, size_t i)
{
    for (const struct link *l = s->listeners.next; l != &s->listeners; l = l->next)
        if (i-- == 0)
            return LINK_OWNER(l, const struct listener, link)->address;
    return NULL;
}
