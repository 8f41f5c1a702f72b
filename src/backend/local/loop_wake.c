/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/loop_wake.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"

static void poll_cb(uv_poll_t *handle, int status, int events)
{
    struct loop_wake *w = (struct loop_wake *)handle;
    uint64_t count;
    (void)status, (void)events;
    ssize_t n = read(w->fd, &count, sizeof count);
    CHECK(n == sizeof count || errno == EAGAIN || errno == EINTR);
    /* Before fn runs: a thread that changes something from now on wakes the loop again. */
    atomic_store(&w->pending, false);
    w->fn(w->ctx);
}

int loop_wake_open(struct loop_wake *w, uv_loop_t *loop, void (*fn)(void *ctx), void *ctx)
{
    w->fn = fn;
    w->ctx = ctx;
    atomic_init(&w->pending, false);
    w->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->fd < 0)
        return -ERR_IO;
    if (uv_poll_init(loop, &w->poll, w->fd) != 0) {
        close(w->fd);
        return -ERR_IO;
    }
    CHECK(uv_poll_start(&w->poll, UV_READABLE, poll_cb) == 0);
    w->open = true;
    return 0;
}

void loop_wake_send(struct loop_wake *w)
{
    static const uint64_t one = 1;
    if (atomic_exchange(&w->pending, true))
        return;
    ssize_t n;
    do {
        n = write(w->fd, &one, sizeof one);
    } while (n < 0 && errno == EINTR);
    CHECK(n == sizeof one); /* at most one is unread at any time */
}

void loop_wake_close(struct loop_wake *w, uv_close_cb closed)
{
    uv_close((uv_handle_t *)&w->poll, closed);
}

void loop_wake_done(struct loop_wake *w)
{
    if (w->open)
        close(w->fd);
    w->open = false;
}
