/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets and the connections that come in on them.
 *
 * Without a free descriptor a listening socket stays readable and the loop would spin: a spare one
 * is given up for a moment, those who wait are dropped, and the listener rests until the next tick.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/beanstalk/impl.h"
#include "base/mem.h"
#include "net/address.h"

#define ACCEPTS_A_TURN 64
#define UNIX_PREFIX "beanstalk+unix:"

/* ---- accepting ---- */

/* Workers wait for hours on connections that carry nothing, so the kernel must find out about those
 * that broke. Both fail on a Unix socket, which needs neither. */
static void socket_prepare(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

static int accept_one(const struct bs_listener *l, struct sockaddr_storage *peer)
{
    socklen_t len = sizeof *peer;
    memset(peer, 0, sizeof *peer);
    return accept4(l->fd, (struct sockaddr *)peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

void bs_listen_spare(struct beanstalk *b)
{
    if (b->spare_fd < 0)
        b->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void shed(struct bs_listener *l)
{
    struct beanstalk *b = l->api;
    struct sockaddr_storage peer;
    uint32_t dropped = 0;
    int fd;
    if (b->spare_fd >= 0)
        close(b->spare_fd);
    while (dropped < ACCEPTS_A_TURN && (fd = accept_one(l, &peer)) >= 0) {
        close(fd);
        dropped++;
    }
    b->spare_fd = -1;
    bs_listen_spare(b);
    log_event(b->config.log, LOG_ERROR, "no_descriptors", LOG_INT("dropped", dropped),
              LOG_TEXT("help", "raise the limit of open files or lower limits.connections"));
}

static void rest(struct bs_listener *l)
{
    l->paused = true;
    uv_poll_stop(&l->poll);
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
    struct bs_listener *l = handle->data;
    struct sockaddr_storage peer;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN && !l->closed; i++) {
        int fd = accept_one(l, &peer);
        if (fd >= 0) {
            socket_prepare(fd);
            conn_open(l->api, fd, peer_key(&peer));
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

void bs_listener_resume(struct bs_listener *l)
{
    if (!l->paused || l->closed)
        return;
    l->paused = uv_poll_start(&l->poll, UV_READABLE, listen_cb) != 0;
}

/* ---- closing ---- */

static void closed_cb(uv_handle_t *handle)
{
    struct bs_listener *l = handle->data;
    struct beanstalk *b = l->api;
    mem_free(l);
    bs_handle_closed(b);
}

void bs_listener_close(struct bs_listener *l)
{
    const char *path = l->address + sizeof UNIX_PREFIX - 1;
    struct stat st;
    l->closed = true;
    link_remove(&l->link);
    /* Only the file that we made: somebody may have put another one there. */
    if (l->unix_socket && lstat(path, &st) == 0 && st.st_dev == l->device && st.st_ino == l->inode)
        (void)unlink(path);
    uv_close((uv_handle_t *)&l->poll, closed_cb);
    close(l->fd);
}

/* ---- opening ---- */

static void address_format(struct bs_listener *l, const struct listen_address *a)
{
    struct sockaddr_storage at = a->at;
    socklen_t len = sizeof at;
    const void *any = &at;
    char host[INET6_ADDRSTRLEN] = "";
    if (a->unix_socket) {
        snprintf(l->address, sizeof l->address, UNIX_PREFIX "%s",
                 ((const struct sockaddr_un *)any)->sun_path);
        return;
    }
    (void)getsockname(l->fd, (struct sockaddr *)&at, &len);
    if (at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = any;
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(l->address, sizeof l->address, "beanstalk://[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = any;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(l->address, sizeof l->address, "beanstalk://%s:%u", host, ntohs(in->sin_port));
    }
}

static int listener_new(struct beanstalk *b, int fd, const struct listen_address *a)
{
    struct bs_listener *l = mem_zalloc(sizeof *l);
    struct stat st;
    if (!l || uv_poll_init(b->config.loop, &l->poll, fd) != 0) {
        mem_free(l);
        return -ERR_NOMEM;
    }
    l->poll.data = l;
    l->api = b;
    l->fd = fd;
    l->unix_socket = a->unix_socket;
    address_format(l, a);
    if (l->unix_socket && lstat(l->address + sizeof UNIX_PREFIX - 1, &st) == 0) {
        l->device = st.st_dev;
        l->inode = st.st_ino;
    }
    link_append(&b->listeners, &l->link);
    b->handles++;
    l->paused = true;
    bs_listener_resume(l);
    return 0;
}

int beanstalk_listen(struct beanstalk *b, const char *address, struct err_note *note)
{
    struct listen_address a;
    int fd;
    int r = listen_address_parse(address, &a, note);
    if (r == 0)
        r = listen_socket(&a, address, &fd, note);
    if (r != 0)
        return r;
    r = listener_new(b, fd, &a);
    if (r != 0) {
        if (a.unix_socket)
            (void)unlink(((const struct sockaddr_un *)(const void *)&a.at)->sun_path);
        close(fd);
        return err_note_set(note, r, "There is not enough memory to listen on %.120s.", address);
    }
    return 0;
}

const char *beanstalk_address(const struct beanstalk *b, size_t i)
{
    for (const struct link *l = b->listeners.next; l != &b->listeners; l = l->next)
        if (i-- == 0)
            return LINK_OWNER(l, const struct bs_listener, link)->address;
    return NULL;
}
