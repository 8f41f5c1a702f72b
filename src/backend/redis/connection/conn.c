/* SPDX-License-Identifier: Apache-2.0 */
/* A socket and its requests are in a separate `struct wire`, which outlives the connection until
 * libuv has released all of them; a wire without an owner calls no callbacks. */
#include "backend/redis/connection/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

#define ANSWER_MS 15000 /* unless the configuration says otherwise */
#define READ_BYTES 65536
/* No valid reply is larger or nested more deeply than this. */
#define REPLY_BYTES_MAX ((size_t)512 << 20)
#define REPLY_ELEMENTS_MAX (1u << 20)
#define REPLY_DEPTH_MAX 8
/* for the notification connection, which waits without an outstanding command */
#define KEEPALIVE_S 15

enum conn_state { CONN_DOWN, CONN_CONNECTING, CONN_SHAKING, CONN_OPEN };

struct wire {
    struct rconn *owner; /* NULL = abandoned */
    union {
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
        uv_handle_t handle;
    };
    uv_timer_t timer; /* ends the connection if an answer does not come in time */
    uv_connect_t connect;
    unsigned handles; /* not closed yet */
    char in[READ_BYTES];
};

/* A lookup of names may outlive the connection, too. */
struct lookup {
    uv_getaddrinfo_t req;
    struct rconn *owner;
};

struct awaited {
    redis_reply_fn fn; /* NULL = the reply is not needed, but the first error is stored */
    void *ctx;
};

struct rconn {
    struct rconn_config config;
    enum conn_state state;
    struct wire *wire;     /* NULL = none */
    struct lookup *lookup; /* NULL = none in progress */
    struct addrinfo *addresses, *at;
    struct redis_tls *tls;
    redisReader *reader;
    redisReplyObjectFunctions functions; /* functions of the reader, changed and original */
    const redisReplyObjectFunctions *plain_functions;
    size_t unanswered_bytes; /* received since the last complete reply */
    struct awaited *ring;    /* commands that were sent, oldest first */
    size_t ring_room, ring_from, ring_count;
    struct buf plain;
    redisReply *trouble; /* the first error of commands without a function; NULL = none */
    bool listening;
    char why[300];
};

/* --- commands that were sent --- */

static bool await(struct rconn *c, redis_reply_fn fn, void *ctx)
{
    if (c->ring_count == c->ring_room) {
        size_t room = c->ring_room * 2 + 16;
        struct awaited *grown = mem_array(room, sizeof *grown);
        if (!grown)
            return false;
        for (size_t i = 0; i < c->ring_count; i++)
            grown[i] = c->ring[(c->ring_from + i) % c->ring_room];
        mem_free(c->ring);
        c->ring = grown;
        c->ring_room = room;
        c->ring_from = 0;
    }
    c->ring[(c->ring_from + c->ring_count++) % c->ring_room] = (struct awaited){fn, ctx};
    return true;
}

static struct awaited take_awaited(struct rconn *c)
{
    struct awaited a = c->ring[c->ring_from];
    c->ring_from = (c->ring_from + 1) % c->ring_room;
    c->ring_count--;
    return a;
}

/* --- the end of a wire --- */

static void wire_closed_cb(uv_handle_t *handle)
{
    struct wire *w = handle->data;
    if (--w->handles == 0)
        mem_free(w);
}

static void wire_drop(struct rconn *c)
{
    struct wire *w = c->wire;
    c->wire = NULL;
    if (!w)
        return;
    w->owner = NULL;
    w->handles = 2;
    uv_close(&w->handle, wire_closed_cb);
    uv_close((uv_handle_t *)&w->timer, wire_closed_cb);
}

static void addresses_drop(struct rconn *c)
{
    if (c->addresses)
        uv_freeaddrinfo(c->addresses);
    c->addresses = c->at = NULL;
}

static void hang_up(struct rconn *c)
{
    wire_drop(c);
    addresses_drop(c);
    if (c->lookup)
        c->lookup->owner = NULL;
    c->lookup = NULL;
    redis_tls_free(c->tls);
    c->tls = NULL;
    if (c->reader)
        redisReaderFree(c->reader);
    c->reader = NULL;
    if (c->trouble)
        freeReplyObject(c->trouble);
    c->trouble = NULL;
    buf_clear(&c->plain);
    c->listening = false;
    c->state = CONN_DOWN;
}

static void answer_none(struct rconn *c)
{
    while (c->ring_count) {
        struct awaited a = take_awaited(c);
        if (a.fn)
            a.fn(a.ctx, NULL);
    }
}

static void lose(struct rconn *c, const char *why)
{
    if (why != c->why)
        snprintf(c->why, sizeof c->why, "%s", why);
    hang_up(c);
    answer_none(c);
    c->config.lost(c->config.ctx, c->why);
}

void redis_conn_drop(struct rconn *c)
{
    hang_up(c);
    answer_none(c);
}

/* --- timeouts --- */

static void too_late_cb(uv_timer_t *timer)
{
    struct wire *w = timer->data;
    if (!w->owner)
        return;
    snprintf(w->owner->why, sizeof w->owner->why, "no answer within %u ms",
             w->owner->config.answer_ms);
    lose(w->owner, w->owner->why);
}

/* Runs while an answer, or the connection itself, is awaited. */
static void timer_set(struct rconn *c, bool afresh)
{
    struct wire *w = c->wire;
    if (c->state == CONN_OPEN && c->ring_count == 0)
        uv_timer_stop(&w->timer);
    else if (afresh || !uv_is_active((uv_handle_t *)&w->timer))
        uv_timer_start(&w->timer, too_late_cb, c->config.answer_ms, 0);
}

/* --- writing --- */

struct write {
    uv_write_t req;
    struct buf bytes;
};

static void written_cb(uv_write_t *req, int status)
{
    struct write *w = (struct write *)(void *)req;
    /* what could not be written gets no answer, and the reading side reports the reason */
    (void)status;
    buf_done(&w->bytes);
    mem_free(w);
}

/* The write owns the bytes from now on. */
static int write_out(struct rconn *c, struct buf *bytes)
{
    struct write *w = bytes->len ? mem_zalloc(sizeof *w) : NULL;
    if (bytes->len == 0)
        return 0;
    if (!w)
        return -ERR_NOMEM;
    w->bytes = *bytes;
    buf_init(bytes);
    uv_buf_t out = uv_buf_init(w->bytes.data, (unsigned)w->bytes.len);
    if (uv_write(&w->req, &c->wire->stream, &out, 1, written_cb) == 0)
        return 0;
    buf_done(&w->bytes);
    mem_free(w);
    return -ERR_IO;
}

static int send_bytes(struct rconn *c, struct buf *bytes)
{
    struct buf wire;
    if (!c->tls)
        return write_out(c, bytes);
    buf_init(&wire);
    int err = redis_tls_send(c->tls, buf_span(bytes), &wire);
    if (!err)
        err = write_out(c, &wire);
    buf_done(&wire);
    return err;
}

static int command_bytes(struct rconn *c, const struct rargs *a)
{
    struct buf out;
    buf_init(&out);
    int err = a->failed ? -ERR_NOMEM : buf_reserve(&out, a->body.len + 32);
    if (!err)
        err = buf_printf(&out, "*%zu\r\n", a->count);
    if (!err)
        err = buf_append(&out, a->body.data, a->body.len);
    if (!err)
        err = send_bytes(c, &out);
    buf_done(&out);
    return err;
}

struct refusal {
    uv_timer_t timer;
    redis_reply_fn fn;
    void *ctx;
};

static void refusal_closed_cb(uv_handle_t *handle)
{
    mem_free(handle);
}

static void refuse_cb(uv_timer_t *timer)
{
    struct refusal *r = (struct refusal *)(void *)timer;
    r->fn(r->ctx, NULL);
    uv_close((uv_handle_t *)timer, refusal_closed_cb);
}

/* fn must not be called from inside send. */
static void refuse_later(struct rconn *c, redis_reply_fn fn, void *ctx)
{
    struct refusal *r = mem_zalloc(sizeof *r);
    CHECK(r); /* the caller could not be told otherwise */
    r->fn = fn;
    r->ctx = ctx;
    CHECK(uv_timer_init(c->config.loop, &r->timer) == 0);
    uv_timer_start(&r->timer, refuse_cb, 0, 0);
}

void redis_conn_send(struct rconn *c, struct rargs *a, redis_reply_fn fn, void *ctx)
{
    bool sent = c->state == CONN_OPEN && (c->listening || await(c, fn, ctx));
    if (!sent) {
        redis_args_clear(a);
        refuse_later(c, fn, ctx);
        return;
    }
    timer_set(c, false);
    /* as if the connection was lost: all waiting commands are answered in their order */
    if (command_bytes(c, a) != 0)
        uv_timer_start(&c->wire->timer, too_late_cb, 0, 0);
    redis_args_clear(a);
}

void redis_conn_send_all(struct rconn *c, struct buf *bytes, size_t commands, redis_reply_fn fn,
                         void *ctx)
{
    bool sent = c->state == CONN_OPEN;
    for (size_t i = 0; sent && i < commands; i++)
        CHECK(await(c, i + 1 == commands ? fn : NULL, ctx)); /* half of them cannot be withdrawn */
    if (!sent) {
        refuse_later(c, fn, ctx);
        return;
    }
    timer_set(c, false);
    if (send_bytes(c, bytes) != 0)
        uv_timer_start(&c->wire->timer, too_late_cb, 0, 0);
}

/* --- reading --- */

static void take_reply(struct rconn *c, redisReply *reply)
{
    struct awaited a = take_awaited(c);
    if (!a.fn) {
        if (reply->type == REDIS_REPLY_ERROR && !c->trouble)
            c->trouble = reply;
        else
            freeReplyObject(reply);
        return;
    }
    if (c->trouble) {
        freeReplyObject(reply);
        reply = c->trouble;
        c->trouble = NULL;
    }
    a.fn(a.ctx, reply);
}

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

/* A list is allocated as soon as its length is read, and a deeply nested one would be freed by an
 * equally deep recursion. */
static void *array_cb(const redisReadTask *task, element_count elements)
{
    struct rconn *c = task->privdata;
    unsigned depth = 0;
    for (const redisReadTask *t = task; t; t = t->parent)
        depth++;
    if ((size_t)elements > REPLY_ELEMENTS_MAX || depth > REPLY_DEPTH_MAX)
        return NULL;
    return c->plain_functions->createArray(task, elements);
}

static redisReader *reader_new(struct rconn *c)
{
    redisReader *r = redisReaderCreate();
    if (!r)
        return NULL;
    c->plain_functions = r->fn;
    c->functions = *r->fn;
    c->functions.createArray = array_cb;
    c->unanswered_bytes = 0;
    r->fn = &c->functions;
    r->privdata = c;
    return r;
}

static int take_replies(struct rconn *c, struct span in)
{
    void *reply = NULL;
    c->unanswered_bytes += in.len;
    if (c->unanswered_bytes > REPLY_BYTES_MAX)
        return -ERR_CORRUPT;
    if (redisReaderFeed(c->reader, in.at, in.len) != REDIS_OK)
        return -ERR_NOMEM;
    while (c->reader && redisReaderGetReply(c->reader, &reply) == REDIS_OK && reply) {
        c->unanswered_bytes = 0;
        if (c->listening) {
            c->config.message(c->config.ctx, reply);
            freeReplyObject(reply);
        } else if (c->ring_count) {
            take_reply(c, reply);
        } else {
            freeReplyObject(reply);
            return -ERR_CORRUPT;
        }
    }
    return c->reader && c->reader->err ? -ERR_CORRUPT : 0;
}

static void is_open(struct rconn *c)
{
    c->state = CONN_OPEN;
    addresses_drop(c);
    timer_set(c, true);
    c->config.opened(c->config.ctx);
}

static int through_tls(struct rconn *c, struct span in)
{
    struct err_note note = {{0}};
    struct buf out;
    bool was_ready = redis_tls_ready(c->tls);
    buf_init(&out);
    buf_clear(&c->plain);
    int err = redis_tls_feed(c->tls, in, &c->plain, &out, &note);
    int sent = write_out(c, &out);
    buf_done(&out);
    if (err || sent) {
        snprintf(c->why, sizeof c->why, "%.250s", note.text[0] ? note.text : "TLS failed");
        return err ? err : sent;
    }
    if (!was_ready && redis_tls_ready(c->tls))
        is_open(c);
    return 0;
}

/* *w may have lost its owner through what was received. */
static void bytes_came(struct wire *w, struct span in)
{
    struct rconn *c = w->owner;
    c->why[0] = '\0';
    int err = c->tls ? through_tls(c, in) : 0;
    if (!err && c->tls)
        in = buf_span(&c->plain);
    if (!err && in.len && w->owner)
        err = take_replies(c, in);
    if (!w->owner)
        return;
    if (err)
        lose(c, c->why[0] ? c->why : "its answer does not follow the protocol of Redis");
    else
        timer_set(c, true);
}

static void alloc_cb(uv_handle_t *handle, size_t size, uv_buf_t *ret)
{
    struct wire *w = handle->data;
    (void)size;
    *ret = uv_buf_init(w->in, sizeof w->in);
}

static void read_cb(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct wire *w = stream->data;
    if (!w->owner || n == 0)
        return;
    if (n < 0)
        lose(w->owner, n == UV_EOF ? "the server closed the connection" : uv_strerror((int)n));
    else
        bytes_came(w, span_of(b->base, (size_t)n));
}

/* --- connecting --- */

static void try_next(struct rconn *c, const char *why);

static int begin_tls(struct rconn *c)
{
    struct buf none;
    c->state = CONN_SHAKING;
    c->tls = redis_tls_new(c->config.tls, c->config.url);
    if (!c->tls)
        return -ERR_NOMEM;
    buf_init(&none);
    int err = send_bytes(c, &none);
    buf_done(&none);
    return err;
}

static void connected_cb(uv_connect_t *req, int status)
{
    struct wire *w = req->data;
    struct rconn *c = w->owner;
    if (!c)
        return;
    if (status != 0) {
        try_next(c, uv_strerror(status));
        return;
    }
    if (!c->config.url->socket[0])
        uv_tcp_nodelay(&w->tcp, 1);
    if (!c->config.url->socket[0])
        uv_tcp_keepalive(&w->tcp, 1, KEEPALIVE_S);
    c->reader = reader_new(c);
    int err = c->reader && uv_read_start(&w->stream, alloc_cb, read_cb) == 0 ? 0 : -ERR_NOMEM;
    if (!err && c->config.tls)
        err = begin_tls(c);
    if (err)
        lose(c, err_text(err));
    else if (!c->config.tls)
        is_open(c);
}

static struct wire *wire_new(struct rconn *c)
{
    struct wire *w = mem_zalloc(sizeof *w);
    if (!w)
        return NULL;
    if (c->config.url->socket[0])
        CHECK(uv_pipe_init(c->config.loop, &w->pipe, 0) == 0);
    else
        CHECK(uv_tcp_init(c->config.loop, &w->tcp) == 0);
    CHECK(uv_timer_init(c->config.loop, &w->timer) == 0);
    w->handle.data = w->timer.data = w->connect.data = w;
    w->owner = c;
    return w;
}

static void try_address(struct rconn *c, const struct sockaddr *address)
{
    wire_drop(c);
    c->wire = wire_new(c);
    if (!c->wire) {
        lose(c, "out of memory");
        return;
    }
    timer_set(c, true);
    if (!address) {
        uv_pipe_connect(&c->wire->connect, &c->wire->pipe, c->config.url->socket, connected_cb);
        return;
    }
    int err = uv_tcp_connect(&c->wire->connect, &c->wire->tcp, address, connected_cb);
    if (err)
        try_next(c, uv_strerror(err));
}

/* This address failed; tries the next one. */
static void try_next(struct rconn *c, const char *why)
{
    if (c->at)
        c->at = c->at->ai_next;
    if (c->at)
        try_address(c, c->at->ai_addr);
    else
        lose(c, why);
}

static void looked_up_cb(uv_getaddrinfo_t *req, int status, struct addrinfo *list)
{
    struct lookup *l = (struct lookup *)(void *)req;
    struct rconn *c = l->owner;
    mem_free(l);
    if (!c) {
        uv_freeaddrinfo(list);
        return;
    }
    c->lookup = NULL;
    if (status != 0) {
        lose(c, uv_strerror(status));
        return;
    }
    c->addresses = c->at = list;
    try_address(c, list->ai_addr);
}

static void look_up(struct rconn *c)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct lookup *l = mem_zalloc(sizeof *l);
    if (l)
        l->owner = c;
    if (!l || uv_getaddrinfo(c->config.loop, &l->req, looked_up_cb, c->config.url->host,
                             c->config.url->port, &hints) != 0) {
        mem_free(l);
        lose(c, "its name cannot be looked up");
        return;
    }
    c->lookup = l;
}

void redis_conn_open(struct rconn *c)
{
    struct sockaddr_storage address;
    const struct redis_url *u = c->config.url;
    char *end;
    int port = (int)strtol(u->port, &end, 10);
    CHECK(c->state == CONN_DOWN);
    c->state = CONN_CONNECTING;
    if (u->socket[0])
        try_address(c, NULL);
    else if (uv_ip4_addr(u->host, port, (struct sockaddr_in *)&address) == 0 ||
             uv_ip6_addr(u->host, port, (struct sockaddr_in6 *)&address) == 0)
        try_address(c, (const struct sockaddr *)&address);
    else
        look_up(c);
}

int redis_conn_new(const struct rconn_config *config, struct rconn **ret)
{
    struct rconn *c = mem_zalloc(sizeof *c);
    if (!c)
        return -ERR_NOMEM;
    c->config = *config;
    if (!c->config.answer_ms)
        c->config.answer_ms = ANSWER_MS;
    buf_init(&c->plain);
    *ret = c;
    return 0;
}

bool redis_conn_open_now(const struct rconn *c)
{
    return c->state == CONN_OPEN;
}

bool redis_conn_down(const struct rconn *c)
{
    return c->state == CONN_DOWN;
}

void redis_conn_listen(struct rconn *c)
{
    c->listening = true;
}

void redis_conn_close(struct rconn *c)
{
    if (!c)
        return;
    hang_up(c);
    buf_done(&c->plain);
    mem_free(c->ring);
    mem_free(c);
}
