/* SPDX-License-Identifier: Apache-2.0 */
/* Request bodies: a number of bytes, or chunks. Chunk lines and trailers are read by a state
 * machine that takes one byte at a time and stores no text, so that it may stop anywhere;
 * contents are copied in blocks. */
#include <string.h>

#include "http/parse.h"
#include "http/parse_chars.h"

#define SIZE_DIGITS_MAX                                                                            \
    16 /* digits of a chunk size, including leading zeros: as many as fit into `left` */

enum body_state {
    BODY_SIZE,
    BODY_EXTENSION,
    BODY_SIZE_LF,
    BODY_CONTENT, /* also the only state of a body without chunks */
    BODY_CONTENT_CR,
    BODY_CONTENT_LF,
    BODY_TRAILER,
    BODY_TRAILER_NAME,
    BODY_TRAILER_VALUE,
    BODY_TRAILER_LF,
    BODY_LAST_LF,
    BODY_DONE,
};

struct feed {
    struct http_body *body;
    const struct http_limits *limits;
    struct http_fault *fault;
};

/* Fields that determine the length, the target, the sender or the encoding of a request: in a
 * trailer they come too late, and another reader may still use them. */
static const char *const NOT_IN_TRAILERS[] = {
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "origin",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
};
#define NOT_IN_TRAILERS_COUNT (sizeof(NOT_IN_TRAILERS) / sizeof(NOT_IN_TRAILERS[0]))
_Static_assert(NOT_IN_TRAILERS_COUNT < 32, "a bit for each in trailer_names");

void http_body_init(struct http_body *b, const struct http_head *head)
{
    *b = (struct http_body){.chunked = head->chunked,
                            .state = head->chunked ? BODY_SIZE : BODY_CONTENT,
                            .left = head->chunked ? 0 : head->length};
}

static int refuse_bare(const struct feed *f)
{
    return http_refuse(f->fault, 400, "A line of a chunked body must end with CR LF.");
}

static int refuse_too_big(const struct feed *f)
{
    return http_refuse(f->fault, 413, "The body is larger than the limit.");
}

static bool too_big(const struct feed *f)
{
    uint64_t limit = f->limits->body_bytes;
    return f->body->total > limit || f->body->left > limit - f->body->total;
}

/* ---- chunk lines ----------------------------------------------------------------------------- */

/* 0 … 15, or -1. */
static int hex_value(char c)
{
    if (char_is_digit(c))
        return c - '0';
    c = char_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int size_byte(struct feed *f, char c)
{
    struct http_body *b = f->body;
    int digit = hex_value(c);
    if (digit >= 0) {
        if (b->line_bytes++ == SIZE_DIGITS_MAX)
            return http_refuse(f->fault, 400, "A chunk size must have at most 16 digits.");
        b->left = b->left << 4 | (uint64_t)digit;
        return 0;
    }
    if (b->line_bytes == 0 || (c != ';' && c != '\r'))
        return http_refuse(
            f->fault, 400,
            "A chunk must begin with its size in hexadecimal digits, then CR LF or ';'.");
    if (too_big(f))
        return refuse_too_big(f);
    b->line_bytes++;
    b->state = c == ';' ? BODY_EXTENSION : BODY_SIZE_LF;
    return 0;
}

static int extension_byte(struct feed *f, char c)
{
    if (c == '\r') {
        f->body->state = BODY_SIZE_LF;
        return 0;
    }
    if (!char_is(c, CHAR_VALUE))
        return http_refuse(f->fault, 400, "A chunk extension must not have control bytes.");
    if (f->body->line_bytes++ == HTTP_CHUNK_LINE_MAX)
        return http_refuse(f->fault, 400, "A chunk's line is longer than the limit.");
    return 0;
}

static int size_lf_byte(struct feed *f, char c)
{
    if (c != '\n')
        return refuse_bare(f);
    f->body->line_bytes = 0;
    f->body->state = f->body->left > 0 ? BODY_CONTENT : BODY_TRAILER;
    return 0;
}

static int content_cr_byte(struct feed *f, char c)
{
    if (c != '\r')
        return http_refuse(f->fault, 400,
                           "A chunk must have as many bytes as its size says, then CR LF.");
    f->body->state = BODY_CONTENT_LF;
    return 0;
}

static int content_lf_byte(struct feed *f, char c)
{
    if (c != '\n')
        return refuse_bare(f);
    f->body->state = BODY_SIZE;
    return 0;
}

/* ---- trailers -------------------------------------------------------------------------------- */

/* Keeps the forbidden names that this one can still become. */
static void names_narrow(struct http_body *b, char c)
{
    for (size_t i = 0; i < NOT_IN_TRAILERS_COUNT; i++) {
        uint32_t bit = UINT32_C(1) << i;
        if ((b->trailer_names & bit) && NOT_IN_TRAILERS[i][b->name_bytes] != char_lower(c))
            b->trailer_names &= ~bit;
    }
    if (b->trailer_names)
        b->name_bytes++; /* not longer than the longest of them */
}

static bool name_forbidden(const struct http_body *b)
{
    for (size_t i = 0; i < NOT_IN_TRAILERS_COUNT; i++) {
        if ((b->trailer_names >> i & 1) && NOT_IN_TRAILERS[i][b->name_bytes] == '\0')
            return true;
    }
    return false;
}

static int trailer_count(struct feed *f)
{
    if (f->body->line_bytes++ >= f->limits->head_bytes)
        return http_refuse(f->fault, 431, "The trailers are larger than the limit.");
    return 0;
}

static int trailer_name_byte(struct feed *f, char c)
{
    struct http_body *b = f->body;
    if (c == ':') {
        if (name_forbidden(b))
            return http_refuse(f->fault, 400,
                               "A field that changes how a request is read must stand in "
                               "its head, not in a trailer.");
        b->state = BODY_TRAILER_VALUE;
        return trailer_count(f);
    }
    if (!char_is(c, CHAR_TOKEN))
        return http_refuse(f->fault, 400, "A trailer must be a name, a colon and a value.");
    names_narrow(b, c);
    return trailer_count(f);
}

static int trailer_byte(struct feed *f, char c)
{
    struct http_body *b = f->body;
    if (c == '\r') {
        b->state = BODY_LAST_LF;
        return 0;
    }
    if (!char_is(c, CHAR_TOKEN))
        return http_refuse(f->fault, 400, "A trailer must begin with its name.");
    b->state = BODY_TRAILER_NAME;
    b->name_bytes = 0;
    b->trailer_names = (UINT32_C(1) << NOT_IN_TRAILERS_COUNT) - 1;
    return trailer_name_byte(f, c);
}

static int trailer_value_byte(struct feed *f, char c)
{
    if (c == '\r') {
        f->body->state = BODY_TRAILER_LF;
        return 0;
    }
    if (!char_is(c, CHAR_VALUE))
        return http_refuse(f->fault, 400, "A trailer must not have control bytes.");
    return trailer_count(f);
}

static int trailer_lf_byte(struct feed *f, char c)
{
    if (c != '\n')
        return refuse_bare(f);
    f->body->state = BODY_TRAILER;
    return 0;
}

static int last_lf_byte(struct feed *f, char c)
{
    if (c != '\n')
        return refuse_bare(f);
    f->body->state = BODY_DONE;
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int (*const STEPS[BODY_DONE])(struct feed *f, char c) = {
    [BODY_SIZE] = size_byte,
    [BODY_EXTENSION] = extension_byte,
    [BODY_SIZE_LF] = size_lf_byte,
    [BODY_CONTENT_CR] = content_cr_byte,
    [BODY_CONTENT_LF] = content_lf_byte,
    [BODY_TRAILER] = trailer_byte,
    [BODY_TRAILER_NAME] = trailer_name_byte,
    [BODY_TRAILER_VALUE] = trailer_value_byte,
    [BODY_TRAILER_LF] = trailer_lf_byte,
    [BODY_LAST_LF] = last_lf_byte,
};

static void skip(struct span *in, size_t len)
{
    in->at += len;
    in->len -= len;
}

static int content_copy(struct http_body *b, struct span *in, struct buf *out)
{
    size_t len = in->len < b->left ? in->len : (size_t)b->left;
    int err = len ? buf_append(out, in->at, len) : 0;
    if (err < 0)
        return err;
    skip(in, len);
    b->left -= len;
    b->total += len;
    if (b->left == 0)
        b->state = b->chunked ? BODY_CONTENT_CR : BODY_DONE;
    return 0;
}

int http_body_feed(struct http_body *b, struct span *in, const struct http_limits *limits,
                   struct buf *out, bool *done, struct http_fault *fault)
{
    struct feed f = {b, limits, fault};
    *done = false;
    if (!b->chunked && too_big(&f)) {
        (void)refuse_too_big(&f);
        return -ERR_SYNTAX;
    }
    if (!b->chunked && b->left == 0)
        b->state = BODY_DONE;
    while (in->len > 0 && b->state != BODY_DONE) {
        if (b->state == BODY_CONTENT) {
            int err = content_copy(b, in, out);
            if (err < 0)
                return err;
            continue;
        }
        if (STEPS[b->state](&f, in->at[0]) < 0)
            return -ERR_SYNTAX;
        skip(in, 1);
    }
    *done = b->state == BODY_DONE;
    return 0;
}
