/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 requests, read strictly (RFC 9112): whatever two readers could understand differently is
 * refused with 400 and the connection is closed. No I/O here; the same bytes give the same result
 * however they were cut into pieces.
 *
 * Refused: Content-Length together with Transfer-Encoding, a repeated, signed, empty or otherwise
 * odd Content-Length (leading zeros, lists), a Transfer-Encoding other than exactly "chunked" (in
 * any case) or in HTTP/1.0, folded header lines, a bare LF or CR, white space before the colon or
 * at the start of a line, NUL and other control bytes, a repeated Host or one that is no name or
 * address, a missing one in HTTP/1.1, a chunk size of more than 16 digits or with anything but CR
 * LF or ';' behind it, fields in trailers that belong in the head, a request line with anything but
 * single spaces, a target with '#', '\' or bytes outside visible ASCII. Other versions than 1.0
 * and 1.1 are 505, CONNECT is 501, other expectations than 100-continue are 417. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_OTHER, /* another valid token: the server answers 405 or 501 */
    HTTP_METHOD_COUNT
};
const char *http_method_name(enum http_method m);

#define HTTP_HEADERS_MAX 100    /* beyond it 431 */
#define HTTP_CHUNK_LINE_MAX 256 /* bytes of a chunk's size and extensions; beyond it 400 */

struct http_limits {
    uint32_t uri_bytes;  /* request target; beyond it 414 */
    uint32_t head_bytes; /* request line and headers; beyond it 431 */
    uint64_t body_bytes; /* after decoding; beyond it 413 */
};

struct http_header {
    struct span name;  /* as sent; compare with http_name_equal */
    struct span value; /* without surrounding white space */
};

/* A request without its body. Every span points into the text that was parsed, empty ones too. */
struct http_head {
    enum http_method method;
    struct span method_text;
    struct span path;      /* of an origin-form or absolute-form target, raw; "*" for OPTIONS *;
                              never empty */
    struct span query;     /* raw, without '?' */
    struct span authority; /* of an absolute-form target, else empty; the same as Host */
    uint8_t minor;         /* HTTP/1.minor */
    bool keep_alive;
    bool expect_continue; /* in HTTP/1.1, with a body to come */
    bool chunked;
    bool has_length;
    uint64_t length;  /* 0 without Content-Length; below 10^18, not compared with any limit */
    struct span host; /* in HTTP/1.0 it may be missing: then the authority, or empty */
    size_t header_count;
    struct http_header headers[HTTP_HEADERS_MAX];
};

/* Why a request is refused. The connection closes after the answer. */
struct http_fault {
    unsigned status;  /* 400, 408, 413, 414, 417, 431, 501, 505 */
    const char *text; /* a sentence; static */
};

/* The length of the head at the front of `in`, including the final empty line; 0 if more bytes
 * are needed; -1 with *fault. `seen` is the number of bytes at the last call (0 at first): they
 * are not searched again, so that a head that arrives byte by byte costs no more than one that
 * arrives whole. One empty line before the request line is skipped and counted. *ret is set only
 * if the result is positive. limits->body_bytes is not used. */
MUST_CHECK ssize_t http_head_parse(struct span in, size_t seen, const struct http_limits *limits,
                                   struct http_head *ret, struct http_fault *fault);

/* Case-insensitive for ASCII; `name` in lower case. */
bool http_name_equal(struct span sent, const char *name);
/* The value of the first header with this name (lower case), or an empty span with at = NULL. */
struct span http_head_find(const struct http_head *h, const char *name);

/* The body that follows a head. */
struct http_body {
    bool chunked;
    uint8_t state;
    uint64_t left;       /* of the content, or of the current chunk */
    uint64_t total;      /* decoded so far */
    uint32_t line_bytes; /* of a chunk line or of all trailers */
    /* For the name of a trailer that is being read: its length so far, and which of the
     * forbidden names it can still become. */
    uint32_t trailer_names;
    uint8_t name_bytes;
};
void http_body_init(struct http_body *b, const struct http_head *head);
/* Takes the bytes of the body from the front of *in (all of them unless the body ends there) and
 * appends the decoded bytes to out (trailers are checked and dropped). *done: the body is
 * complete and *in begins after it. 0; -ERR_NOMEM, after which the call may be repeated with the
 * rest of *in; -ERR_SYNTAX with *fault. With an empty *in it returns at once whether there is no
 * body (*done), or whether Content-Length is over the limit (413). All trailers together may
 * have limits->head_bytes (431). */
MUST_CHECK int http_body_feed(struct http_body *b, struct span *in,
                              const struct http_limits *limits, struct buf *out, bool *done,
                              struct http_fault *fault);
