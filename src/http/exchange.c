/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an exchange: one block of memory that contains the request, in the chain of its
 * connection, possibly loose later, and freed at the end. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "http/server_impl.h"

static const struct http_head NO_HEAD = {.method = HTTP_OTHER, .minor = 1};

/* The parts of the block after the struct, in this order. */
struct layout {
    size_t headers, client, text, peer, body; /* bytes of each */
};

static struct layout layout_of(const struct connection *c, const struct http_head *h,
                               struct span text)
{
    const struct net_client *client = c->net.stream.client;
    bool small = h->has_length && h->length <= BODY_INLINE_BYTES;
    return (struct layout){
        .headers = h->header_count * sizeof(struct http_header),
        .client = client ? sizeof *client + client->bytes : 0,
        .text = text.len,
        .peer = c->net.peer_len,
        .body = small ? (size_t)h->length : 0,
    };
}

/* The same span of the copy. */
static struct span moved(struct span s, const char *from, const char *to)
{
    return s.len > 0 ? span_of(to + (s.at - from), s.len) : span_of(s.at ? to : NULL, 0);
}

static void request_fill(struct http_request *r, const struct http_head *h,
                         struct http_header *headers, struct span text, const char *copy)
{
    for (size_t i = 0; i < h->header_count; i++) {
        headers[i].name = moved(h->headers[i].name, text.at, copy);
        headers[i].value = moved(h->headers[i].value, text.at, copy);
    }
    r->method = h->method;
    r->path = moved(h->path, text.at, copy);
    r->query = moved(h->query, text.at, copy);
    r->headers = headers;
    r->header_count = h->header_count;
}

static void chain_append(struct connection *c, struct http_exchange *x)
{
    if (c->last)
        c->last->next = x;
    else
        c->first = x;
    c->last = x;
    c->count++;
}

static void body_begin(struct http_exchange *x, const struct http_head *h, char *room, size_t bytes)
{
    x->body_inline = bytes > 0;
    if (bytes > 0)
        x->body = (struct buf){.data = room, .cap = bytes};
    http_body_init(&x->body_state, h);
}

struct http_exchange *exchange_new(struct connection *c, const struct http_head *head,
                                   struct span text)
{
    const struct http_head *h = head ? head : &NO_HEAD;
    struct layout l = layout_of(c, h, text);
    size_t bytes = sizeof(struct http_exchange) + l.headers + l.client + l.text + l.peer + l.body;
    if (!account_exchange(c, bytes))
        return NULL;
    struct http_exchange *x = mem_alloc(bytes);
    if (!x) {
        budget_give(&c->net.account, BUDGET_CONNECTIONS, bytes);
        return NULL;
    }
    *x = (struct http_exchange){.server = server_of(c), .conn = c};
    struct http_header *headers = (struct http_header *)(x + 1);
    char *copy = (char *)headers + l.headers + l.client;
    if (l.text > 0)
        memcpy(copy, text.at, l.text);
    memcpy(copy + l.text, c->net.peer, l.peer);
    request_fill(&x->request, h, headers, text, copy);
    x->request.peer = span_of(copy + l.text, l.peer);
    x->request.tls = c->net.stream.kind == &net_stream_tls;
    if (l.client > 0)
        x->request.client = net_client_copy(c->net.stream.client, (char *)headers + l.headers);
    x->request.arena = &x->arena;
    arena_init(&x->arena);
    account_exchange_created(x, bytes);
    x->minor = h->minor;
    x->keep_alive = h->keep_alive;
    body_begin(x, h, copy + l.text + l.peer, l.body);
    chain_append(c, x);
    x->server->net.under_way++;
    return x;
}

void exchange_unlink_last(struct connection *c, struct http_exchange *x)
{
    struct http_exchange **link = &c->first, *before = NULL;
    while (*link != x) {
        before = *link;
        link = &before->next;
    }
    CHECK(c->last == x);
    *link = NULL;
    c->last = before;
    c->count--;
    c->body_bytes -= x->request.body.len;
}

void exchange_body_free(struct http_exchange *x)
{
    if (x->body_inline)
        return;
    buf_done(&x->body);
    account_body_freed(x);
}

void exchange_free(struct http_exchange *x)
{
    x->server->net.under_way--;
    feed_unlink(x);
    exchange_body_free(x);
    account_free(x);
    buf_done(&x->fields);
    buf_done(&x->out);
    http_shared_unref(x->shared);
    arena_done(&x->arena);
    mem_free(x);
}

void exchange_finish(struct http_exchange *x, bool whole)
{
    if (x->sent)
        x->sent(x->watch_ctx, whole && x->fixed.len == 0);
    exchange_free(x);
}

void exchange_queue_loose(struct http_exchange *x)
{
    struct http_server *s = x->server;
    if (x->queued)
        return;
    x->queued = true;
    x->next = NULL;
    if (s->loose_last)
        s->loose_last->next = x;
    else
        s->loose_first = x;
    s->loose_last = x;
    net_wake(&s->net);
}

void exchange_loosen(struct http_exchange *x)
{
    feed_unlink(x);
    if (x->state == EXCHANGE_ANSWERED || x->state == EXCHANGE_STREAM) { /* it will not be sent */
        buf_done(&x->out);
        x->done = 0;
        account_out(x);
    }
    account_loosen(x);
    x->conn = NULL;
    exchange_queue_loose(x);
}

void exchange_give_up(struct http_exchange *x)
{
    account_loosen(x);
    x->conn = NULL;
    x->queued = true; /* must not be called again when its handler answers */
    if (x->client_closed)
        x->client_closed(x->watch_ctx);
    x->queued = false;
    if (x->state == EXCHANGE_ANSWERED)
        exchange_finish(x, false);
}

static struct http_exchange *loose_take(struct http_server *s)
{
    struct http_exchange *x = s->loose_first;
    if (!x)
        return NULL;
    s->loose_first = x->next;
    if (!s->loose_first)
        s->loose_last = NULL;
    x->next = NULL;
    x->queued = false;
    return x;
}

/* Each exchange is handled here at most twice: to call `closed`, and after its answer. */
void server_loose_run(struct http_server *s)
{
    struct http_exchange *x;
    while ((x = loose_take(s))) {
        if (x->state == EXCHANGE_ANSWERED)
            exchange_finish(x, false);
        else if (x->client_closed)
            x->client_closed(x->watch_ctx);
    }
}

static size_t out_total(const struct http_exchange *x)
{
    size_t shared = x->shared ? x->shared->text.len : 0;
    return x->fixed.len > 0 ? x->fixed.len : x->out.len - x->out_skip + shared;
}

size_t exchange_waiting(const struct http_exchange *x)
{
    return out_total(x) - x->done + (size_t)feed_pending(x);
}

bool exchange_parked(const struct http_exchange *x)
{
    return x && x->parked && x->state == EXCHANGE_OPEN;
}

bool exchange_only_reads(const struct http_exchange *x)
{
    return x->request.method == HTTP_GET || x->request.method == HTTP_HEAD;
}

/* ---- http.h: the request --------------------------------------------------------------------- */

const struct http_request *http_request(const struct http_exchange *x)
{
    return &x->request;
}

struct span http_request_header(const struct http_request *r, const char *name)
{
    for (size_t i = 0; i < r->header_count; i++)
        if (http_name_equal(r->headers[i].name, name))
            return r->headers[i].value;
    return span_of(NULL, 0);
}

void http_alone(struct http_exchange *x)
{
    x->alone = true;
}

void http_park(struct http_exchange *x)
{
    x->parked = true;
    if (x->conn)
        x->conn->body_bytes -= x->request.body.len;
    x->request.body = span_of(NULL, 0);
    exchange_body_free(x);
}

void http_watch(struct http_exchange *x, http_closed_fn closed, http_sent_fn sent, void *ctx)
{
    x->client_closed = closed;
    x->sent = sent;
    x->watch_ctx = ctx;
}
