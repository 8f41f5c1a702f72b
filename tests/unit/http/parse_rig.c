/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/http/parse_rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

/* ---- what was parsed, as bytes --------------------------------------------------------------- */

static void must(int err)
{
    CHECK(err == 0);
}

/* The place and the text. Every span must lie in the head. */
static void dump_span(struct buf *out, struct span head, struct span s)
{
    CHECK(s.at >= head.at && s.at + s.len <= head.at + head.len);
    must(buf_printf(out, "%zu+%zu:", (size_t)(s.at - head.at), s.len));
    must(buf_append_span(out, s));
    must(buf_append_text(out, "\n"));
}

static void dump_head(struct buf *out, struct span text, const struct http_head *h)
{
    must(buf_printf(out, "%s 1.%u%s%s%s%s %llu\n", http_method_name(h->method), h->minor,
                    h->keep_alive ? " keep" : "", h->expect_continue ? " expect" : "",
                    h->chunked ? " chunked" : "", h->has_length ? " length" : "",
                    (unsigned long long)h->length));
    dump_span(out, text, h->method_text);
    dump_span(out, text, h->path);
    dump_span(out, text, h->query);
    dump_span(out, text, h->authority);
    dump_span(out, text, h->host);
    for (size_t i = 0; i < h->header_count; i++) {
        dump_span(out, text, h->headers[i].name);
        dump_span(out, text, h->headers[i].value);
    }
}

/* ---- a connection ---------------------------------------------------------------------------- */

struct connection {
    struct outcome *o;
    const struct http_limits *limits;
    struct http_body body;
    size_t seen; /* of a head that was not complete */
};

static void head_try(struct connection *c, struct span text)
{
    struct outcome *o = c->o;
    struct http_head head;
    char *copy = mem_copy(text.at, text.len);
    CHECK(copy);
    ssize_t len = http_head_parse(span_of(copy, text.len), c->seen, c->limits, &head, &o->fault);
    if (len > 0) {
        CHECK((size_t)len <= text.len);
        o->head_bytes = o->bytes = (size_t)len;
        dump_head(&o->head, span_of(copy, (size_t)len), &head);
        http_body_init(&c->body, &head);
    } else if (len < 0) {
        o->kind = OUTCOME_REFUSED;
    }
    c->seen = text.len;
    mem_free(copy);
}

static void body_feed(struct connection *c, struct span piece)
{
    struct outcome *o = c->o;
    bool done;
    char *copy = mem_copy(piece.at, piece.len);
    CHECK(copy);
    struct span in = span_of(copy, piece.len);
    int err = http_body_feed(&c->body, &in, c->limits, &o->body, &done, &o->fault);
    CHECK(err == 0 || err == -ERR_SYNTAX);
    CHECK(in.len <= piece.len && in.at + in.len == copy + piece.len);
    if (err < 0) {
        o->kind = OUTCOME_REFUSED;
    } else {
        CHECK(done || in.len == 0);
        o->bytes += piece.len - in.len;
        o->kind = done ? OUTCOME_WHOLE : OUTCOME_MORE;
    }
    mem_free(copy);
}

/* text[0 … to) has come. */
static void piece_take(struct connection *c, struct span text, size_t to)
{
    struct outcome *o = c->o;
    if (o->head_bytes == 0)
        head_try(c, span_of(text.at, to));
    if (o->head_bytes > 0 && o->kind == OUTCOME_MORE)
        body_feed(c, span_of(text.at + o->bytes, to - o->bytes));
}

void outcome_read(struct outcome *o, struct span text, const size_t *cuts, size_t count,
                  const struct http_limits *limits)
{
    struct connection c = {.o = o, .limits = limits};
    *o = (struct outcome){0};
    buf_init(&o->head);
    buf_init(&o->body);
    for (size_t i = 0; i < count && o->kind == OUTCOME_MORE; i++)
        piece_take(&c, text, cuts[i]);
    if (o->kind == OUTCOME_MORE)
        piece_take(&c, text, text.len);
    if (o->kind != OUTCOME_WHOLE)
        o->bytes = 0; /* how far a refused piece was read depends on the piece */
}

void outcome_done(struct outcome *o)
{
    buf_done(&o->head);
    buf_done(&o->body);
}

bool outcome_equal(const struct outcome *a, const struct outcome *b)
{
    return a->kind == b->kind && a->fault.status == b->fault.status &&
           a->fault.text == b->fault.text && a->head_bytes == b->head_bytes &&
           a->bytes == b->bytes && span_equal(buf_span(&a->head), buf_span(&b->head)) &&
           span_equal(buf_span(&a->body), buf_span(&b->body));
}

void outcome_agreed(struct outcome *o, struct span text, const struct http_limits *limits)
{
    struct outcome other;
    size_t *cuts = mem_array(text.len + 1, sizeof *cuts);
    CHECK(cuts);
    outcome_read(o, text, NULL, 0, limits);
    for (size_t cut = 0; cut <= text.len; cut++) {
        outcome_read(&other, text, &cut, 1, limits);
        CHECK(outcome_equal(o, &other));
        outcome_done(&other);
        cuts[cut] = cut;
    }
    outcome_read(&other, text, cuts, text.len + 1, limits);
    CHECK(outcome_equal(o, &other));
    outcome_done(&other);
    mem_free(cuts);
}

void request_add(struct request_text *r, const char *text)
{
    size_t len = strlen(text);
    memcpy(r->text + r->len, text, len);
    r->len += len;
}

void request_fill(struct request_text *r, char c, size_t count)
{
    memset(r->text + r->len, c, count);
    r->len += count;
}
