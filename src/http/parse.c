/* SPDX-License-Identifier: Apache-2.0 */
/* Request heads, in two steps. First the end of the head is searched in the new bytes; only
 * errors that are visible in the new bytes alone (a bare LF, a limit) are refused here. Then the
 * whole head is read from left to right. Which error is found first does not depend on the
 * pieces in which the bytes arrived, because nothing is read before its head is complete.
 *
 * The second step relies on the checks of the first: the head ends with CR LF CR LF, every LF in
 * it follows a CR, and no line before the last is empty. No loop over bytes that stops at a CR
 * can leave the head. */
#include "http/parse.h"

#include <string.h>

#include "base/check.h"
#include "http/parse_chars.h"

#define LENGTH_DIGITS_MAX 18 /* of Content-Length: below 2^63, whatever the digits are */

/* A head that is being read. */
struct reader {
    const char *at;
    const char *end; /* after the empty line */
    const struct http_limits *limits;
    struct http_head *head;
    struct http_fault *fault;
    bool close, persist; /* named by Connection */
    bool host_seen;
};

static const char *const METHOD_NAMES[HTTP_METHOD_COUNT] = {
    [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",   [HTTP_POST] = "POST",
    [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
    [HTTP_OPTIONS] = "OPTIONS", [HTTP_OTHER] = "OTHER",
};

const char *http_method_name(enum http_method m)
{
    CHECK(m < HTTP_METHOD_COUNT);
    return METHOD_NAMES[m];
}

bool http_name_equal(struct span sent, const char *name)
{
    for (size_t i = 0; i < sent.len; i++) {
        if (name[i] == '\0' || char_lower(sent.at[i]) != name[i])
            return false;
    }
    return name[sent.len] == '\0';
}

struct span http_head_find(const struct http_head *h, const char *name)
{
    for (size_t i = 0; i < h->header_count; i++) {
        if (http_name_equal(h->headers[i].name, name))
            return h->headers[i].value;
    }
    return (struct span){0};
}

static bool equal_ignoring_case(struct span a, struct span b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (char_lower(a.at[i]) != char_lower(b.at[i]))
            return false;
    }
    return true;
}

/* ---- the end of the head --------------------------------------------------------------------- */

/* 1 with the position of the request line; 0 if it has not arrived; -1. Checking its first byte
 * at once refuses clients that do not use HTTP at all and might never send a line. */
static int line_begin(struct span in, size_t *ret_start, struct http_fault *fault)
{
    size_t start = 0;
    if (in.len > 0 && in.at[0] == '\r') {
        if (in.len > 1 && in.at[1] != '\n')
            return http_refuse(fault, 400, "A CR must be followed by LF.");
        start = 2;
    }
    if (in.len <= start)
        return 0;
    if (!char_is(in.at[start], CHAR_TOKEN))
        return http_refuse(
            fault, 400,
            "A request must begin with its method; at most one empty line is allowed before it.");
    *ret_start = start;
    return 1;
}

/* Reports the target as too long if it alone fills the buffer. */
static int head_too_long(struct span room, const struct http_limits *limits,
                         struct http_fault *fault)
{
    size_t from = 0;
    while (from < room.len && char_is(room.at[from], CHAR_TOKEN))
        from++;
    if (from < room.len && room.at[from] == ' ') {
        size_t to = ++from;
        while (to < room.len && char_is(room.at[to], CHAR_TARGET))
            to++;
        if (to == room.len || to - from > limits->uri_bytes)
            return http_refuse(fault, 414, "The request target is longer than the limit.");
    }
    return http_refuse(fault, 431, "The request line and headers are larger than the limit.");
}

/* The length of the head; 0 if it is incomplete; -1. The byte at `start` is part of a line. */
static ssize_t head_end(struct span in, size_t start, size_t seen, const struct http_limits *limits,
                        struct http_fault *fault)
{
    size_t room = in.len < limits->head_bytes ? in.len : limits->head_bytes;
    const char *at = in.at + (seen > start ? seen : start);
    const char *end = in.at + room;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if (at[-1] != '\r')
            return http_refuse(fault, 400, "A line must end with CR LF, not with LF alone.");
        at++;
        if (at[-3] == '\n')
            return at - in.at;
    }
    if (in.len < limits->head_bytes)
        return 0;
    start = start < room ? start : room;
    return head_too_long(span_of(in.at + start, room - start), limits, fault);
}

/* The first byte that is not one of these; a complete head has one. */
static const char *run_end(const char *at, enum http_char what)
{
    while (char_is(*at, what))
        at++;
    return at;
}

/* ---- the request line ------------------------------------------------------------------------ */

static enum http_method method_of(struct span text)
{
    for (int m = 0; m < HTTP_OTHER; m++) {
        if (span_equal(text, span_text(METHOD_NAMES[m])))
            return (enum http_method)m;
    }
    return HTTP_OTHER;
}

static int line_refuse(struct reader *r)
{
    return http_refuse(r->fault, 400,
                       "The request line must be a method, a target and HTTP/1.1, with one space "
                       "between them.");
}

static int method_read(struct reader *r)
{
    const char *begin = r->at;
    r->at = run_end(begin, CHAR_TOKEN);
    if (*r->at != ' ')
        return line_refuse(r);
    r->head->method_text = span_of(begin, (size_t)(r->at++ - begin));
    r->head->method = method_of(r->head->method_text);
    return 0;
}

static int target_read(struct reader *r, struct span *ret)
{
    const char *begin = r->at;
    r->at = run_end(begin, CHAR_TARGET);
    *ret = span_of(begin, (size_t)(r->at - begin));
    if (ret->len > r->limits->uri_bytes)
        return http_refuse(r->fault, 414, "The request target is longer than the limit.");
    if (ret->len == 0 || *r->at == '\r')
        return line_refuse(r);
    if (*r->at++ != ' ')
        return http_refuse(r->fault, 400,
                           "The request target has a byte that must be percent-encoded there.");
    return 0;
}

static int version_read(struct reader *r)
{
    const char *v = r->at;
    static const char form[] = "HTTP/d.d\r\n";
    size_t len = sizeof(form) - 1;
    if (r->end - v < (ptrdiff_t)len || memcmp(v, form, 5) != 0 || !char_is_digit(v[5]) ||
        v[6] != '.' || !char_is_digit(v[7]) || v[8] != '\r' || v[9] != '\n')
        return line_refuse(r);
    if (v[5] != '1' || v[7] > '1')
        return http_refuse(r->fault, 505, "The version must be HTTP/1.1 or HTTP/1.0.");
    r->head->minor = (uint8_t)(v[7] - '0');
    r->at += len;
    return 0;
}

static void path_split(struct span target, struct http_head *head)
{
    const char *mark = target.len ? memchr(target.at, '?', target.len) : NULL;
    size_t len = mark ? (size_t)(mark - target.at) : target.len;
    size_t skip = len + (mark != NULL);
    head->path = span_of(target.at, len);
    head->query = span_of(target.at + skip, target.len - skip);
}

/* "http://authority/path?query"; `scheme` bytes reach to behind the slashes. */
static int absolute_split(struct reader *r, struct span target, size_t scheme)
{
    size_t end = scheme;
    while (end < target.len && target.at[end] != '/' && target.at[end] != '?')
        end++;
    r->head->authority = span_of(target.at + scheme, end - scheme);
    if (!http_host_valid(r->head->authority))
        return http_refuse(r->fault, 400,
                           "The request target must name a host, at most with a port.");
    path_split(span_of(target.at + end, target.len - end), r->head);
    if (r->head->path.len == 0) /* means "/", and there is one in "http://" */
        r->head->path = span_of(target.at + scheme - 1, 1);
    return 0;
}

static bool begins_with(struct span s, const char *lower)
{
    size_t len = strlen(lower);
    return s.len >= len && http_name_equal(span_of(s.at, len), lower);
}

static int target_split(struct reader *r, struct span target)
{
    struct http_head *head = r->head;
    head->authority = span_of(target.at, 0);
    if (target.at[0] == '/') {
        path_split(target, head);
        return 0;
    }
    if (span_equal(head->method_text, SPAN_LITERAL("CONNECT")))
        return http_refuse(r->fault, 501, "CONNECT is not supported: this server is not a proxy.");
    if (begins_with(target, "http://"))
        return absolute_split(r, target, strlen("http://"));
    if (begins_with(target, "https://"))
        return absolute_split(r, target, strlen("https://"));
    if (head->method == HTTP_OPTIONS && span_equal(target, SPAN_LITERAL("*"))) {
        path_split(target, head);
        return 0;
    }
    return http_refuse(
        r->fault, 400,
        "The request target must be a path beginning with '/' or an http URL; '*' is for "
        "OPTIONS.");
}

static int request_line_read(struct reader *r)
{
    struct span target;
    if (method_read(r) < 0 || target_read(r, &target) < 0 || version_read(r) < 0)
        return -1;
    return target_split(r, target);
}

/* ---- headers that mean something here -------------------------------------------------------- */

static int host_take(struct reader *r, struct span value)
{
    if (r->host_seen)
        return http_refuse(r->fault, 400, "Host must not be repeated.");
    if (!http_host_valid(value))
        return http_refuse(r->fault, 400,
                           "Host must be a name or an address, at most with a port.");
    r->host_seen = true;
    r->head->host = value;
    return 0;
}

static int length_take(struct reader *r, struct span value)
{
    struct http_head *head = r->head;
    uint64_t length = 0;
    if (head->has_length)
        return http_refuse(r->fault, 400, "Content-Length must not be repeated.");
    for (size_t i = 0; i < value.len; i++) {
        if (!char_is_digit(value.at[i]))
            return http_refuse(r->fault, 400, "Content-Length must be one decimal number.");
        length = length * 10 + (uint64_t)(value.at[i] - '0'); /* may wrap: see the digits below */
    }
    if (value.len == 0 || (value.len > 1 && value.at[0] == '0'))
        return http_refuse(r->fault, 400,
                           "Content-Length must be a decimal number without leading zeros.");
    if (value.len > LENGTH_DIGITS_MAX)
        return http_refuse(r->fault, 413, "Content-Length is larger than any body may be.");
    head->has_length = true;
    head->length = length;
    return 0;
}

static int encoding_take(struct reader *r, struct span value)
{
    if (r->head->chunked)
        return http_refuse(r->fault, 400, "Transfer-Encoding must not be repeated.");
    if (!http_name_equal(value, "chunked"))
        return http_refuse(r->fault, 400, "Transfer-Encoding must be exactly \"chunked\".");
    r->head->chunked = true;
    return 0;
}

static struct span trimmed(const char *at, const char *end)
{
    while (at < end && char_is(*at, CHAR_BLANK))
        at++;
    while (at < end && char_is(end[-1], CHAR_BLANK))
        end--;
    return span_of(at, (size_t)(end - at));
}

static int connection_take(struct reader *r, struct span value)
{
    const char *at = value.at, *end = value.at + value.len;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        struct span option = trimmed(at, comma ? comma : end);
        if (http_name_equal(option, "close"))
            r->close = true;
        else if (http_name_equal(option, "keep-alive"))
            r->persist = true;
        at = comma ? comma + 1 : end;
    }
    return 0;
}

static int expect_take(struct reader *r, struct span value)
{
    if (!http_name_equal(value, "100-continue"))
        return http_refuse(r->fault, 417, "The only expectation that can be met is 100-continue.");
    r->head->expect_continue = true;
    return 0;
}

static const struct known_header {
    const char *name;
    size_t len;
    int (*take)(struct reader *r, struct span value);
} KNOWN_HEADERS[] = {
#define KNOWN(name, take)                                                                          \
    {                                                                                              \
        name, sizeof(name) - 1, take                                                               \
    }
    KNOWN("host", host_take),
    KNOWN("content-length", length_take),
    KNOWN("transfer-encoding", encoding_take),
    KNOWN("connection", connection_take),
    KNOWN("expect", expect_take),
#undef KNOWN
};

static int known_take(struct reader *r, const struct http_header *header)
{
    for (size_t i = 0; i < sizeof(KNOWN_HEADERS) / sizeof(KNOWN_HEADERS[0]); i++) {
        const struct known_header *k = &KNOWN_HEADERS[i];
        if (k->len == header->name.len && http_name_equal(header->name, k->name))
            return k->take(r, header->value);
    }
    return 0;
}

/* ---- headers --------------------------------------------------------------------------------- */

/* Reports the error of a name that ended at r->at. */
static int name_refuse(struct reader *r, const char *begin)
{
    if (r->at == begin && char_is(*begin, CHAR_BLANK))
        return http_refuse(r->fault, 400, "A header line must not begin with white space.");
    if (char_is(*r->at, CHAR_BLANK))
        return http_refuse(r->fault, 400,
                           "White space is not allowed before the colon of a header.");
    if (*r->at == '\r' && r->at[1] != '\n')
        return http_refuse(r->fault, 400, "A CR must be followed by LF.");
    return http_refuse(
        r->fault, 400,
        "A header line must be a name, a colon and a value; a name is letters, digits "
        "and marks like '-'.");
}

static int value_refuse(struct reader *r)
{
    if (*r->at == '\r')
        return http_refuse(r->fault, 400, "A CR must be followed by LF.");
    return http_refuse(r->fault, 400, "A header value must not have NUL or other control bytes.");
}

static int header_read(struct reader *r)
{
    struct http_head *head = r->head;
    const char *begin = r->at;
    r->at = run_end(begin, CHAR_TOKEN);
    if (r->at == begin || *r->at != ':')
        return name_refuse(r, begin);
    if (head->header_count == HTTP_HEADERS_MAX)
        return http_refuse(r->fault, 431, "The request has more headers than the limit.");
    struct http_header *header = &head->headers[head->header_count++];
    header->name = span_of(begin, (size_t)(r->at++ - begin));
    begin = r->at;
    r->at = http_value_end(r->at, r->end);
    if (r->at[0] != '\r' || r->at[1] != '\n')
        return value_refuse(r);
    header->value = trimmed(begin, r->at);
    r->at += 2;
    return known_take(r, header);
}

/* Checks that need the whole head. */
static int head_agree(struct reader *r)
{
    struct http_head *head = r->head;
    if (!r->host_seen && head->minor >= 1)
        return http_refuse(r->fault, 400, "An HTTP/1.1 request must have a Host header.");
    if (head->chunked && head->has_length)
        return http_refuse(r->fault, 400,
                           "A request must not have both Content-Length and Transfer-Encoding.");
    if (head->chunked && head->minor == 0)
        return http_refuse(r->fault, 400, "An HTTP/1.0 request must not have Transfer-Encoding.");
    if (!r->host_seen)
        head->host = head->authority;
    if (head->authority.len > 0 && !equal_ignoring_case(head->authority, head->host))
        return http_refuse(r->fault, 400,
                           "Host must be the same as the host of the request target.");
    return 0;
}

static int head_read(struct reader *r)
{
    struct http_head *head = r->head;
    head->chunked = head->has_length = head->expect_continue = false;
    head->length = 0;
    head->header_count = 0;
    if (request_line_read(r) < 0)
        return -1;
    while (r->at != r->end - 2) {
        if (header_read(r) < 0)
            return -1;
    }
    if (head_agree(r) < 0)
        return -1;
    head->keep_alive = !r->close && (head->minor >= 1 || r->persist);
    if (head->minor == 0 || (!head->chunked && head->length == 0))
        head->expect_continue = false;
    return 0;
}

ssize_t http_head_parse(struct span in, size_t seen, const struct http_limits *limits,
                        struct http_head *ret, struct http_fault *fault)
{
    size_t start = 0;
    CHECK(seen <= in.len);
    int begun = line_begin(in, &start, fault);
    if (begun <= 0)
        return begun;
    ssize_t len = head_end(in, start, seen, limits, fault);
    if (len <= 0)
        return len;
    struct reader r = {
        .at = in.at + start, .end = in.at + len, .limits = limits, .head = ret, .fault = fault};
    return head_read(&r) < 0 ? -1 : len;
}
