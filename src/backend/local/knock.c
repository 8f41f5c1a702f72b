/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/knock.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"

static void poll_cb(uv_poll_t *handle, int status, int events)
{
    struct knock *k = (struct knock *)handle;
    uint64_t count;
    (void)status, (void)events;
    ssize_t n = read(k->fd, &count, sizeof count);
    CHECK(n == sizeof count || errno == EAGAIN || errno == EINTR);
    /* Before fn looks: whoever changes something from here on knocks again. */
    atomic_store(&k->pending, false);
    k->fn(k->ctx);
}

int knock_open(struct knock *k, uv_loop_t *loop, void (*fn)(void *ctx), void *ctx)
{
    k->fn = fn;
    k->ctx = ctx;
    atomic_init(&k->pending, false);
    k->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (k->fd < 0)
        return -ERR_IO;
    if (uv_poll_init(loop, &k->poll, k->fd) != 0) {
        close(k->fd);
        return -ERR_IO;
    }
    CHECK(uv_poll_start(&k->poll, UV_READABLE, poll_cb) == 0);
    k->open = true;
    return 0;
}

void knock_send(struct knock *k)
{
    static const uint64_t one = 1;
    if (atomic_exchange(&k->pending, true))
        return;
    ssize_t n;
    do {
        n = write(k->fd, &one, sizeof one);
    } while (n < 0 && errno == EINTR);
    CHECK(n == sizeof one); /* at most one is ever unread */
}

void knock_close(struct knock *k, uv_close_cb closed)
{
    uv_close((uv_handle_t *)&k->poll, closed);
}

void knock_done(struct knock *k)
{
    if (k->open)
        close(k->fd);
    k->open = false;
}
