/* SPDX-License-Identifier: Apache-2.0 */
/* The same events for many streams: encoded once, stored once.
 *
 * A feed is a log of pieces (whole events) in chunks. A stream that follows it has a position in
 * the log: it is idle when it has sent everything, and then needs no memory; otherwise it is
 * listed with the chunk that it has reached. So the cost of an append does not depend on the
 * number of streams that are behind, and an append wakes the idle streams once per loop
 * iteration. Chunks that no stream needs are freed.
 *
 * The log is limited like the buffer of one stream. When the oldest chunk must be freed, the
 * streams that have not passed it leave the feed: each keeps the rest of the piece that it was
 * sending (with TLS, of the last piece that a record has a part of), and the mark of that piece
 * shows where it stopped. When its client has received the rest, the stream's room callback is
 * called, as after a refused write. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "http/server_impl.h"

#define CHUNK_BYTES_FIRST ((size_t)4 << 10)
#define CHUNK_BYTES_MAX ((size_t)64 << 10)
#define TAIL_BYTES_MAX ((size_t)64 << 10) /* sent to a stream that ended before it read them */

struct feed_piece {
    uint64_t mark;
    size_t end; /* in the chunk */
};

struct feed_chunk {
    struct feed_chunk *next;
    struct link readers; /* exchanges that have reached this chunk and not its end */
    uint64_t base;       /* place of its first byte in the whole log */
    uint64_t before;     /* mark of the piece before it */
    struct buf bytes, pieces;
    size_t charged;
};

struct http_feed {
    struct http_server *server;
    struct budget_account account; /* of the chunks; never shed */
    struct feed_chunk *first, *last;
    struct link idle; /* exchanges that have sent everything */
    uint64_t end;     /* of the whole log */
    uint64_t mark;    /* of the last piece */
    size_t held;      /* bytes of all chunks */
};

static uint64_t now_ms(const struct http_feed *f)
{
    return net_now(&f->server->net);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static void chunk_free(struct http_feed *f, struct feed_chunk *k)
{
    budget_give(&f->account, BUDGET_STREAMS, k->charged);
    f->held -= k->bytes.cap;
    buf_done(&k->bytes);
    buf_done(&k->pieces);
    mem_free(k);
}

static void first_drop(struct http_feed *f)
{
    struct feed_chunk *k = f->first;
    f->first = k->next;
    if (!f->first)
        f->last = NULL;
    chunk_free(f, k);
}

/* Chunks before the first that a stream has reached are not needed, nor is the last when no stream
 * has reached any. */
static void trim(struct http_feed *f)
{
    while (f->first && link_alone(&f->first->readers))
        first_drop(f);
}

static struct feed_chunk *chunk_new(struct http_feed *f, size_t cap)
{
    size_t bytes = sizeof(struct feed_chunk) + cap;
    if (!budget_take(&f->account, BUDGET_STREAMS, bytes, now_ms(f)))
        return NULL;
    struct feed_chunk *k = mem_zalloc(sizeof *k);
    if (!k || buf_grow(&k->bytes, cap) != 0) {
        budget_give(&f->account, BUDGET_STREAMS, bytes);
        mem_free(k);
        return NULL;
    }
    link_init(&k->readers);
    k->base = f->end;
    k->before = f->mark;
    k->charged = bytes;
    f->held += cap;
    *(f->last ? &f->last->next : &f->first) = k;
    f->last = k;
    return k;
}

/* The chunk that has room for `more` bytes; NULL: no memory. */
static struct feed_chunk *chunk_for(struct http_feed *f, size_t more)
{
    struct feed_chunk *k = f->last;
    if (k && k->bytes.cap - k->bytes.len >= more)
        return k;
    size_t cap = k ? 2 * k->bytes.cap : CHUNK_BYTES_FIRST;
    cap = cap < CHUNK_BYTES_MAX ? cap : CHUNK_BYTES_MAX;
    return chunk_new(f, cap > more ? cap : more);
}

/* ---- places of streams ----------------------------------------------------------------------- */

static struct http_exchange *reader_of(struct link *l)
{
    return LINK_OWNER(l, struct http_exchange, follows.link);
}

static void place_at(struct http_exchange *x, struct feed_chunk *k, size_t at)
{
    link_remove(&x->follows.link);
    x->follows.chunk = k;
    x->follows.at = at;
    link_append(k ? &k->readers : &x->follows.feed->idle, &x->follows.link);
}

uint64_t feed_pending(const struct http_exchange *x)
{
    const struct feed_chunk *k = x->follows.chunk;
    return k ? x->follows.feed->end - (k->base + x->follows.at) : 0;
}

void feed_gather(const struct http_exchange *x, struct net_pieces *p)
{
    const struct feed_chunk *k = x->follows.chunk;
    for (size_t at = x->follows.at; k && p->count < NET_WRITE_PIECES; k = k->next, at = 0)
        net_piece_add(p, k->bytes.data + at, k->bytes.len - at);
}

void feed_sent(struct http_exchange *x, size_t len)
{
    struct http_feed *f = x->follows.feed;
    struct feed_chunk *k = x->follows.chunk;
    size_t at = x->follows.at + len;
    if (len == 0)
        return;
    while (k && at >= k->bytes.len) {
        at -= k->bytes.len;
        k = k->next;
    }
    place_at(x, k, k ? at : 0);
    trim(f);
}

/* The mark of the piece that the stream is sending, or of the last one that it has sent. */
static size_t piece_end(const struct feed_chunk *k, size_t at, uint64_t *ret_mark)
{
    const struct feed_piece *p = (const void *)k->pieces.data;
    size_t count = k->pieces.len / sizeof *p;
    *ret_mark = k->before;
    for (size_t i = 0; i < count && at > 0; i++) {
        *ret_mark = p[i].mark;
        if (p[i].end >= at)
            return p[i].end;
    }
    return at;
}

static bool keep_own(struct http_exchange *x, struct span bytes)
{
    if (bytes.len == 0)
        return true;
    if (buf_append_span(&x->out, bytes) != 0)
        return false;
    account_out(x);
    net_conn_account(&x->conn->net);
    x->conn->net.out_bytes += bytes.len;
    return true;
}

void feed_unlink(struct http_exchange *x)
{
    struct http_feed *f = x->follows.feed;
    if (!f)
        return;
    link_remove(&x->follows.link);
    x->follows.feed = NULL;
    x->follows.chunk = NULL;
    trim(f);
}

/* Bytes of the feed that the connection has begun to send. */
static size_t begun(const struct http_exchange *x)
{
    size_t all = net_conn_begun(&x->conn->net);
    size_t own = exchange_waiting(x) - (size_t)feed_pending(x);
    return all > own ? all - own : 0;
}

/* The rest of the piece that is being sent, as bytes of the stream itself. */
static bool piece_keep(struct http_exchange *x)
{
    struct feed_chunk *k = x->follows.chunk;
    size_t at = x->follows.at, more = begun(x);
    x->follows.mark = x->follows.feed->mark;
    for (; k && k->next && more > k->bytes.len - at; k = k->next, at = 0) {
        if (!keep_own(x, span_of(k->bytes.data + at, k->bytes.len - at)))
            return false;
        more -= k->bytes.len - at;
    }
    if (!k)
        return true;
    size_t end = piece_end(k, at + more, &x->follows.mark);
    return keep_own(x, span_of(k->bytes.data + at, end - at));
}

/* Without memory for the rest of a piece the connection is closed: half an event is worse. */
static void leave(struct http_exchange *x)
{
    CHECK(x->follows.feed);
    bool kept = piece_keep(x);
    link_remove(&x->follows.link);
    x->follows.feed = NULL;
    x->follows.chunk = NULL;
    x->room_due = x->left_feed = true;
    x->room_need = 0;
    if (!kept)
        net_conn_close(&x->conn->net);
    else if (!x->conn->net.blocked) /* otherwise when the kernel accepts bytes again */
        net_conn_schedule(&x->conn->net);
}

static void leave_all(struct link *readers)
{
    while (!link_alone(readers))
        leave(reader_of(readers->next));
}

/* Bytes that were not sent: a small rest, or the rest of a piece. */
void feed_end(struct http_exchange *x)
{
    struct http_feed *f = x->follows.feed;
    if (!f)
        return;
    const struct feed_chunk *k = x->follows.chunk;
    if (feed_pending(x) > TAIL_BYTES_MAX) {
        leave(x);
        trim(f);
        return;
    }
    size_t at = x->follows.at;
    for (; k && keep_own(x, span_of(k->bytes.data + at, k->bytes.len - at)); k = k->next)
        at = 0;
    feed_unlink(x);
}

/* ---- http.h ---------------------------------------------------------------------------------- */

struct http_feed *http_feed_new(struct http_exchange *x, uint64_t mark)
{
    struct http_feed *f = mem_zalloc(sizeof *f);
    if (!f)
        return NULL;
    f->server = x->server;
    f->mark = mark;
    link_init(&f->idle);
    budget_open(&f->account, x->server->net.config.budget, NULL, NULL, now_ms(f));
    budget_add(&f->account, BUDGET_STREAMS, sizeof *f);
    return f;
}

void http_feed_free(struct http_feed *f)
{
    if (!f)
        return;
    while (f->first) {
        CHECK(link_alone(&f->first->readers));
        first_drop(f);
    }
    CHECK(link_alone(&f->idle));
    budget_give(&f->account, BUDGET_STREAMS, sizeof *f);
    budget_close(&f->account);
    mem_free(f);
}

static void idle_wake(struct http_feed *f, struct feed_chunk *k, size_t at)
{
    while (!link_alone(&f->idle)) {
        struct http_exchange *x = reader_of(f->idle.next);
        place_at(x, k, at);
        net_conn_schedule(&x->conn->net);
    }
}

static bool append(struct http_feed *f, struct span bytes, uint64_t mark)
{
    struct feed_chunk *k = chunk_for(f, bytes.len);
    if (!k)
        return false;
    struct feed_piece piece = {mark, k->bytes.len + bytes.len};
    if (buf_append(&k->pieces, &piece, sizeof piece) != 0)
        return false;
    idle_wake(f, k, k->bytes.len);
    buf_put_bytes(&k->bytes, bytes.at, bytes.len);
    f->end += bytes.len;
    f->mark = mark;
    return true;
}

/* Without a stream, nothing needs to be stored. Without memory, all streams leave. */
void http_feed_append(struct http_feed *f, struct span bytes, uint64_t mark)
{
    if (!f->first && link_alone(&f->idle)) {
        f->mark = mark;
        return;
    }
    if (!append(f, bytes, mark)) {
        for (struct feed_chunk *k = f->first; k; k = k->next)
            leave_all(&k->readers);
        leave_all(&f->idle);
    }
    while (f->first && f->first != f->last && f->held > f->server->net.config.write_buffer_bytes) {
        leave_all(&f->first->readers);
        first_drop(f);
    }
    trim(f);
}

void http_stream_follow(struct http_exchange *x, struct http_feed *f)
{
    CHECK(x->state == EXCHANGE_STREAM && !x->follows.feed);
    x->follows.mark = f->mark;
    if (!x->conn)
        return;
    x->follows.feed = f;
    x->follows.chunk = NULL;
    x->follows.at = 0;
    link_init(&x->follows.link);
    link_append(&f->idle, &x->follows.link);
}

bool http_stream_follows(const struct http_exchange *x, uint64_t *ret_mark)
{
    *ret_mark = x->follows.mark;
    return x->follows.feed != NULL;
}
