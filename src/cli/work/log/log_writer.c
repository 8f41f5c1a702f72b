/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/log/log_writer.h"

#include <errno.h>
#include <unistd.h>
#include <uv.h>

#include "base/buf.h"
#include "base/mem.h"

#define WAITING_BYTES_MAX ((size_t)1 << 20)
#define CLOSE_NS UINT64_C(2000000000)

struct log_writer {
    uv_thread_t thread;
    uv_mutex_t mutex; /* protects the members below */
    uv_cond_t wake;   /* of the thread */
    uv_cond_t over;   /* the thread has ended */
    struct buf waiting;
    bool closing, ended;
};

static void bytes_write(struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t len = write(STDERR_FILENO, bytes.at, bytes.len);
        if (len < 0 && errno != EINTR && errno != EAGAIN)
            return; /* standard error is closed */
        if (len < 0 && errno == EAGAIN)
            usleep(10000); /* another process made it non-blocking */
        if (len > 0)
            bytes = span_of(bytes.at + len, bytes.len - (size_t)len);
    }
}

static void thread_main(void *ctx)
{
    struct log_writer *w = ctx;
    struct buf writing;
    buf_init(&writing);
    uv_mutex_lock(&w->mutex);
    for (;;) {
        while (w->waiting.len == 0 && !w->closing)
            uv_cond_wait(&w->wake, &w->mutex);
        if (w->waiting.len == 0)
            break;
        struct buf empty = writing;
        writing = w->waiting;
        w->waiting = empty;
        uv_mutex_unlock(&w->mutex);
        bytes_write(buf_span(&writing));
        buf_clear(&writing);
        uv_mutex_lock(&w->mutex);
    }
    buf_done(&writing);
    w->ended = true;
    uv_cond_signal(&w->over);
    uv_mutex_unlock(&w->mutex);
}

static void writer_free(struct log_writer *w)
{
    uv_mutex_destroy(&w->mutex);
    uv_cond_destroy(&w->wake);
    uv_cond_destroy(&w->over);
    buf_done(&w->waiting);
    mem_free(w);
}

static bool primitives_init(struct log_writer *w)
{
    if (uv_mutex_init(&w->mutex) != 0)
        return false;
    if (uv_cond_init(&w->wake) != 0) {
        uv_mutex_destroy(&w->mutex);
        return false;
    }
    if (uv_cond_init(&w->over) != 0) {
        uv_cond_destroy(&w->wake);
        uv_mutex_destroy(&w->mutex);
        return false;
    }
    return true;
}

struct log_writer *log_writer_open(void)
{
    struct log_writer *w = mem_zalloc(sizeof *w);
    if (!w || !primitives_init(w)) {
        mem_free(w);
        return NULL;
    }
    buf_init(&w->waiting);
    if (uv_thread_create(&w->thread, thread_main, w) == 0)
        return w;
    writer_free(w);
    return NULL;
}

bool log_writer_add(struct log_writer *w, struct span text)
{
    uv_mutex_lock(&w->mutex);
    bool taken =
        w->waiting.len + text.len <= WAITING_BYTES_MAX && buf_append_span(&w->waiting, text) == 0;
    uv_cond_signal(&w->wake);
    uv_mutex_unlock(&w->mutex);
    return taken;
}

void log_writer_close(struct log_writer *w)
{
    uint64_t end = uv_hrtime() + CLOSE_NS;
    uv_mutex_lock(&w->mutex);
    w->closing = true;
    uv_cond_signal(&w->wake);
    for (uint64_t now = uv_hrtime(); !w->ended && now < end; now = uv_hrtime())
        (void)uv_cond_timedwait(&w->over, &w->mutex, end - now);
    bool ended = w->ended;
    uv_mutex_unlock(&w->mutex);
    if (!ended)
        return; /* a write still blocks: the thread ends with the process */
    uv_thread_join(&w->thread);
    writer_free(w);
}
