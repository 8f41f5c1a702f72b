/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP requests: any bytes as what a client sends.
 *
 * What must hold: the result does not depend on how the bytes are cut; nothing outside them is read
 * (each call sees a copy of its size); a head that is accepted has only CR LF for line ends, no
 * control bytes, one Host and at most one statement of its length; a reader written the plain way
 * finds the same body; the request written out again from its parts reads the same. */
#include <stdlib.h>
#include <strings.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/digest/hash.h"
#include "base/digest/random.h"
#include "base/mem.h"
#include "http/parse.h"
#include "unit/http/parse_rig.h"

#define CUTS_MAX 8
#define BYTEWISE_MAX                                                                               \
    600 /* longer texts are not read byte by byte: that takes the square of time                   \
         */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_limits WIDE = {
    .uri_bytes = 8192, .head_bytes = 16384, .body_bytes = 1 << 20};
static const struct http_limits NARROW = {.uri_bytes = 12, .head_bytes = 60, .body_bytes = 6};

/* ---- pieces ---------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

static void cut_holds(const struct outcome *whole, struct span text, const size_t *cuts,
                      size_t count, const struct http_limits *limits)
{
    struct outcome o;
    outcome_read(&o, text, cuts, count, limits);
    CHECK(outcome_equal(whole, &o));
    outcome_done(&o);
}

static void pieces_hold(const struct outcome *whole, struct span text, struct random *random,
                        const struct http_limits *limits)
{
    size_t cuts[BYTEWISE_MAX];
    for (int round = 0; round < 3; round++) {
        size_t count = 1 + random_below(random, CUTS_MAX);
        for (size_t i = 0; i < count; i++)
            cuts[i] = random_below(random, text.len + 1);
        qsort(cuts, count, sizeof *cuts, compare);
        cut_holds(whole, text, cuts, count, limits);
    }
    if (text.len > BYTEWISE_MAX || !random_chance(random, 25))
        return;
    for (size_t i = 0; i < text.len; i++)
        cuts[i] = i;
    cut_holds(whole, text, cuts, text.len, limits);
}

/* ---- an accepted head ------------------------------------------------------------------------ */

static void bytes_hold(struct span head)
{
    CHECK(head.len >= 4 && memcmp(head.at + head.len - 4, "\r\n\r\n", 4) == 0);
    CHECK(memmem(head.at + 2, head.len - 3, "\r\n\r\n", 4) == NULL);
    for (size_t i = 0; i < head.len; i++) {
        unsigned char c = (unsigned char)head.at[i];
        CHECK(c >= ' ' || c == '\t' || c == '\r' || c == '\n');
        CHECK(c != 0x7f);
        CHECK(c != '\n' || head.at[i - 1] == '\r');
        CHECK(c != '\r' || head.at[i + 1] == '\n');
    }
}

static const char *behind_line(const char *at)
{
    while (*at++ != '\n')
        ;
    return at;
}

/* Lines behind the request line that another reader could take for the header. */
static size_t lines_named(struct span head, const char *name)
{
    size_t count = 0;
    const char *at = head.at + (head.at[0] == '\r' ? 2 : 0), *end = head.at + head.len;
    for (at = behind_line(at); at < end;) {
        const char *next = behind_line(at);
        while (*at == ' ' || *at == '\t')
            at++;
        if ((size_t)(next - at) > strlen(name) && strncasecmp(at, name, strlen(name)) == 0)
            count += strchr(" \t:", at[strlen(name)]) != NULL;
        at = next;
    }
    return count;
}

static void head_holds(struct span text, const struct http_head *h)
{
    size_t lengths = lines_named(text, "content-length");
    size_t encodings = lines_named(text, "transfer-encoding");
    bytes_hold(text);
    CHECK(lines_named(text, "host") == 1 || (h->minor == 0 && lines_named(text, "host") == 0));
    CHECK(lengths == h->has_length && encodings == h->chunked && lengths + encodings <= 1);
    CHECK(h->has_length || h->length == 0);
    CHECK(!h->chunked || h->minor == 1);
    CHECK(!h->expect_continue || lines_named(text, "expect") > 0);
    CHECK(h->path.len > 0 && (h->path.at[0] == '/' || h->method == HTTP_OPTIONS));
    CHECK(h->header_count <= HTTP_HEADERS_MAX);
    for (size_t i = 0; i < h->header_count; i++)
        CHECK(h->headers[i].name.len > 0);
}

/* ---- the body, read the plain way ------------------------------------------------------------ */

static void must(int err)
{
    CHECK(err == 0);
}

/* Reads a complete chunked body; gives its length in `text`. */
static size_t chunks_read(struct span text, struct buf *out)
{
    const char *at = text.at, *end = text.at + text.len;
    for (;;) {
        const char *line = memmem(at, (size_t)(end - at), "\r\n", 2);
        CHECK(line);
        unsigned long long size = strtoull(at, NULL, 16);
        at = line + 2;
        if (size == 0)
            break;
        CHECK(size + 2 <= (size_t)(end - at) && memcmp(at + size, "\r\n", 2) == 0);
        must(buf_append(out, at, size));
        at += size + 2;
    }
    const char *last = memmem(at - 2, (size_t)(end - at) + 2, "\r\n\r\n", 4);
    CHECK(last);
    return (size_t)(last + 4 - text.at);
}

static void body_holds(struct span text, const struct http_head *h, const struct outcome *o)
{
    struct span rest = span_of(text.at + o->head_bytes, text.len - o->head_bytes);
    struct buf plain;
    buf_init(&plain);
    size_t len = h->length;
    if (h->chunked)
        len = chunks_read(rest, &plain);
    else
        must(buf_append(&plain, rest.at, len));
    CHECK(o->bytes == o->head_bytes + len);
    CHECK(span_equal(buf_span(&plain), buf_span(&o->body)));
    buf_done(&plain);
}

/* ---- written out again ----------------------------------------------------------------------- */

static void head_write(struct buf *out, const struct http_head *h)
{
    must(buf_append_span(out, h->method_text));
    must(buf_append_text(out, h->authority.len ? " http://" : " "));
    must(buf_append_span(out, h->authority));
    must(buf_append_span(out, h->path));
    must(buf_append_text(out, h->query.len ? "?" : ""));
    must(buf_append_span(out, h->query));
    must(buf_printf(out, " HTTP/1.%u\r\n", h->minor));
    for (size_t i = 0; i < h->header_count; i++) {
        must(buf_append_span(out, h->headers[i].name));
        must(buf_append_text(out, ": "));
        must(buf_append_span(out, h->headers[i].value));
        must(buf_append_text(out, "\r\n"));
    }
    must(buf_append_text(out, "\r\n"));
}

static void body_write(struct buf *out, const struct http_head *h, struct span body)
{
    if (h->chunked && body.len > 0)
        must(buf_printf(out, "%zx\r\n", body.len));
    must(buf_append_span(out, body));
    if (h->chunked)
        must(buf_append_text(out, body.len > 0 ? "\r\n0\r\n\r\n" : "0\r\n\r\n"));
}

static void heads_equal(const struct http_head *a, const struct http_head *b)
{
    CHECK(a->method == b->method && span_equal(a->method_text, b->method_text));
    CHECK(span_equal(a->path, b->path) && span_equal(a->query, b->query));
    CHECK(span_equal(a->authority, b->authority) && span_equal(a->host, b->host));
    CHECK(a->minor == b->minor && a->keep_alive == b->keep_alive);
    CHECK(a->expect_continue == b->expect_continue && a->chunked == b->chunked);
    CHECK(a->has_length == b->has_length && a->length == b->length);
    CHECK(a->header_count == b->header_count);
    for (size_t i = 0; i < a->header_count; i++) {
        CHECK(span_equal(a->headers[i].name, b->headers[i].name));
        CHECK(span_equal(a->headers[i].value, b->headers[i].value));
    }
}

static void comes_back(const struct http_head *h, const struct outcome *o)
{
    /* What is written may be longer than what was read: "X:y" becomes "X: y". */
    static const struct http_limits none = {UINT32_MAX, UINT32_MAX, UINT64_MAX};
    struct buf text;
    struct http_head again;
    struct http_fault fault;
    struct outcome second;
    buf_init(&text);
    head_write(&text, h);
    ssize_t len = http_head_parse(buf_span(&text), 0, &none, &again, &fault);
    CHECK(len == (ssize_t)text.len);
    heads_equal(h, &again);
    body_write(&text, h, buf_span(&o->body));
    outcome_read(&second, buf_span(&text), NULL, 0, &none);
    CHECK(second.kind == OUTCOME_WHOLE && second.bytes == text.len);
    CHECK(span_equal(buf_span(&o->body), buf_span(&second.body)));
    outcome_done(&second);
    buf_done(&text);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void request_holds(struct span text, struct random *random, const struct http_limits *limits)
{
    struct outcome o;
    struct http_head h;
    struct http_fault fault;
    outcome_read(&o, text, NULL, 0, limits);
    CHECK((o.kind == OUTCOME_REFUSED) == (o.fault.status != 0));
    CHECK(o.body.len <= limits->body_bytes && o.head_bytes <= limits->head_bytes);
    if (text.len > 0)
        pieces_hold(&o, text, random, limits);
    if (o.head_bytes > 0) {
        CHECK(http_head_parse(text, 0, limits, &h, &fault) == (ssize_t)o.head_bytes);
        head_holds(span_of(text.at, o.head_bytes), &h);
    }
    if (o.kind == OUTCOME_WHOLE) {
        body_holds(text, &h, &o);
        comes_back(&h, &o);
    }
    outcome_done(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct random random;
    random_seed(&random, crc32c(0, data, size));
    request_holds(span_of(data, size), &random, &WIDE);
    request_holds(span_of(data, size), &random, &NARROW);
    return 0;
}
