/* SPDX-License-Identifier: Apache-2.0 */
/* A file as an answer. One piece of it is in memory in addition to the bytes that wait for the
 * socket: it is read and waits until there is room for it. */
#include <unistd.h>

#include "base/check.h"
#include "http/server_impl.h"

#define PIECE_BYTES ((size_t)128 << 10)

/* It is in the exchange's arena, so the exchange must not end before the last request to the
 * thread pool has returned. */
struct file_answer {
    struct http_exchange *x;
    uv_fs_t request;
    uint64_t at, bytes; /* taken by the stream, of this many */
    size_t held;        /* bytes of `piece` that are not */
    int fd;
    bool busy; /* a request is under way */
    bool over; /* the client closed the connection, or the file cannot be read */
    http_sent_fn sent;
    void *sent_ctx;
    char piece[PIECE_BYTES];
};

static void closed_cb(uv_fs_t *request)
{
    struct file_answer *f = request->data;
    uv_fs_req_cleanup(request);
    http_stream_on_room(f->x, NULL, NULL);
    http_stream_end(f->x);
}

/* Closing a large deleted file blocks until its blocks are freed, so it is done in the thread
 * pool. */
static void finish(struct file_answer *f)
{
    f->busy = true;
    if (uv_fs_close(f->x->server->net.config.loop, &f->request, f->fd, closed_cb) == 0)
        return;
    close(f->fd);
    closed_cb(&f->request);
}

static void read_cb(uv_fs_t *request);

static void read_next(struct file_answer *f)
{
    uint64_t left = f->bytes - f->at;
    if (f->over || left == 0) {
        finish(f);
        return;
    }
    uv_buf_t into = uv_buf_init(f->piece, (unsigned)(left < PIECE_BYTES ? left : PIECE_BYTES));
    f->busy = true;
    if (uv_fs_read(f->x->server->net.config.loop, &f->request, f->fd, &into, 1, (int64_t)f->at,
                   read_cb) == 0)
        return;
    f->over = true;
    finish(f);
}

static void push(struct file_answer *f)
{
    if (f->busy || f->held == 0 || !http_stream_write(f->x, span_of(f->piece, f->held)))
        return;
    f->at += f->held;
    f->held = 0;
    read_next(f);
}

static void read_cb(uv_fs_t *request)
{
    struct file_answer *f = request->data;
    ssize_t n = request->result;
    uv_fs_req_cleanup(request);
    f->busy = false;
    if (f->over || n <= 0) {
        f->over = true;
        finish(f);
        return;
    }
    f->held = (size_t)n;
    push(f);
}

static void room_cb(void *ctx)
{
    push(ctx);
}

static void client_closed_cb(void *ctx)
{
    struct file_answer *f = ctx;
    f->over = true;
    if (!f->busy)
        finish(f);
}

static void sent_cb(void *ctx, bool whole)
{
    struct file_answer *f = ctx;
    if (f->sent)
        f->sent(f->sent_ctx, whole && f->at == f->bytes);
}

/* The client has closed the connection, or there is no memory. */
static void refuse(struct http_exchange *x, int fd)
{
    close(fd);
    x->out_of_memory = true;
    http_answer(x, 500, NULL);
}

void http_answer_file(struct http_exchange *x, int fd, uint64_t bytes, const char *type)
{
    CHECK(x->state == EXCHANGE_OPEN && bytes <= INT64_MAX);
    struct file_answer *f = x->conn ? arena_array(&x->arena, 1, sizeof *f) : NULL;
    if (!f) {
        refuse(x, fd);
        return;
    }
    f->x = x;
    f->fd = fd;
    f->bytes = bytes;
    f->request.data = f;
    f->sent = x->sent;
    f->sent_ctx = x->watch_ctx;
    http_watch(x, client_closed_cb, sent_cb, f);
    x->extra_bytes = sizeof *f;
    stream_open(x, type, bytes);
    http_stream_on_room(x, room_cb, f);
    read_next(f);
}
