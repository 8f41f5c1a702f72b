/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: the head is built from prepared pieces after the body in the same buffer, so that an
 * ordinary answer needs no more memory than the handler already has. */
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/mem.h"
#include "http/server_impl.h"

#define FIRST_BYTES 1024 /* a small body and its head */
#define PIECES_MAX 512   /* bytes of all pieces of a head except type, origin and added fields */

/* Not 503, which means that nothing was done: the work may be done and only its answer lost. */
const struct span answer_out_of_memory = SPAN_LITERAL("HTTP/1.1 500 Internal Server Error\r\n"
                                                      "Content-Length: 0\r\n"
                                                      "Connection: close\r\n\r\n");

const struct span answer_continue = SPAN_LITERAL("HTTP/1.1 100 Continue\r\n\r\n");

/* Problems like every other refusal, but prepared in advance, because there is no memory to build
 * them. `bytes` is the length of the body. */
#define UNAVAILABLE(detail)                                                                        \
    "{\"type\":\"/problems/unavailable\","                                                         \
    "\"title\":\"The server cannot do this now\",\"status\":503,"                                  \
    "\"detail\":\"" detail "\","                                                                   \
    "\"code\":\"unavailable\"}\n"
#define REFUSE(detail, bytes)                                                                      \
    SPAN_LITERAL("HTTP/1.1 503 Service Unavailable\r\n"                                            \
                 "Content-Type: application/problem+json\r\n"                                      \
                 "Content-Length: " #bytes "\r\n"                                                  \
                 "Retry-After: 1\r\n"                                                              \
                 "Connection: close\r\n\r\n" UNAVAILABLE(detail))

#define NO_ROOM "the memory budget of the server is used up; try again soon"
_Static_assert(sizeof UNAVAILABLE(NO_ROOM) - 1 == 177, "Content-Length of answer_no_room");
const struct span answer_no_room = REFUSE(NO_ROOM, 177);

#define CROWDED "too many connections are open; close some first, or try again soon"
_Static_assert(sizeof UNAVAILABLE(CROWDED) - 1 == 185, "Content-Length of answer_crowded");
const struct span answer_crowded = REFUSE(CROWDED, 185);

#define NEEDS_TLS                                                                                  \
    "{\"type\":\"/problems/bad_request\","                                                         \
    "\"title\":\"The request is malformed\",\"status\":400,"                                       \
    "\"detail\":\"this address of the server uses TLS; send the request to https://\","            \
    "\"code\":\"bad_request\"}\n"
_Static_assert(sizeof NEEDS_TLS - 1 == 179, "Content-Length of answer_needs_tls");
const struct span answer_needs_tls = SPAN_LITERAL("HTTP/1.1 400 Bad Request\r\n"
                                                  "Content-Type: application/problem+json\r\n"
                                                  "Content-Length: 179\r\n"
                                                  "Connection: close\r\n\r\n" NEEDS_TLS);

#define LINE(code, text) [(code)-100] = SPAN_LITERAL("HTTP/1.1 " #code " " text "\r\n")
static const struct span status_lines[] = {
    LINE(200, "OK"),
    LINE(201, "Created"),
    LINE(202, "Accepted"),
    LINE(204, "No Content"),
    LINE(301, "Moved Permanently"),
    LINE(302, "Found"),
    LINE(303, "See Other"),
    LINE(304, "Not Modified"),
    LINE(307, "Temporary Redirect"),
    LINE(308, "Permanent Redirect"),
    LINE(400, "Bad Request"),
    LINE(401, "Unauthorized"),
    LINE(403, "Forbidden"),
    LINE(404, "Not Found"),
    LINE(405, "Method Not Allowed"),
    LINE(406, "Not Acceptable"),
    LINE(408, "Request Timeout"),
    LINE(409, "Conflict"),
    LINE(410, "Gone"),
    LINE(412, "Precondition Failed"),
    LINE(413, "Content Too Large"),
    LINE(414, "URI Too Long"),
    LINE(415, "Unsupported Media Type"),
    LINE(417, "Expectation Failed"),
    LINE(421, "Misdirected Request"),
    LINE(422, "Unprocessable Content"),
    LINE(423, "Locked"),
    LINE(425, "Too Early"),
    LINE(428, "Precondition Required"),
    LINE(429, "Too Many Requests"),
    LINE(431, "Request Header Fields Too Large"),
    LINE(500, "Internal Server Error"),
    LINE(501, "Not Implemented"),
    LINE(502, "Bad Gateway"),
    LINE(503, "Service Unavailable"),
    LINE(504, "Gateway Timeout"),
    LINE(505, "HTTP Version Not Supported"),
    LINE(507, "Insufficient Storage"),
};
#undef LINE

/* ---- pieces, into reserved room -------------------------------------------------------------- */

static void put(struct buf *b, struct span s)
{
    buf_put_bytes(b, s.at, s.len);
}

#define PUT(b, text) buf_put_bytes((b), (text), sizeof(text) - 1)

static void put_number(struct buf *b, uint64_t n)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    buf_put_bytes(b, digits + at, sizeof digits - at);
}

static void put_status(struct buf *b, unsigned status)
{
    CHECK(status >= 200 && status <= 599);
    size_t i = status - 100;
    if (i < sizeof status_lines / sizeof *status_lines && status_lines[i].len > 0) {
        put(b, status_lines[i]);
        return;
    }
    PUT(b, "HTTP/1.1 ");
    put_number(b, status);
    PUT(b, " \r\n");
}

/* By hand: strftime would follow the locale. */
static void date_format(struct wall_time wall, char *out)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t seconds = (time_t)(wall.ms / 1000);
    struct tm t;
    if (!gmtime_r(&seconds, &t) || t.tm_year < -900 || t.tm_year > 8099)
        t = (struct tm){.tm_year = 70, .tm_mday = 1, .tm_wday = 4};
    snprintf(out, DATE_BYTES + 1, "Date: %.3s, %02u %.3s %04u %02u:%02u:%02u GMT\r\n",
             days + 3 * (t.tm_wday % 7), (unsigned)t.tm_mday % 100u, months + 3 * (t.tm_mon % 12),
             (unsigned)(t.tm_year + 1900) % 10000u, (unsigned)t.tm_hour % 100u,
             (unsigned)t.tm_min % 100u, (unsigned)t.tm_sec % 100u);
}

static void put_date(struct buf *b, struct http_server *s)
{
    uint64_t now = net_now(&s->net);
    if (now >= s->date_until) {
        struct wall_time wall = clock_now(&s->config.clock).wall;
        date_format(wall, s->date);
        s->date_until = now + 1000 - (wall.ms > 0 ? (uint64_t)wall.ms % 1000 : 0);
    }
    buf_put_bytes(b, s->date, DATE_BYTES);
}

static void put_origin(struct buf *b, struct span origin)
{
    if (origin.len == 0)
        return;
    PUT(b, "Access-Control-Allow-Origin: ");
    put(b, origin);
    PUT(b, "\r\nVary: Origin\r\n");
}

static void put_connection(struct buf *b, const struct http_exchange *x)
{
    if (x->close)
        PUT(b, "Connection: close\r\n");
    else if (x->minor == 0)
        PUT(b, "Connection: keep-alive\r\n");
}

static bool no_store(const struct http_exchange *x)
{
    return x->state == EXCHANGE_STREAM ||
           (x->request.route && x->request.route->flags & ROUTE_UNSAFE);
}

/* ---- the head -------------------------------------------------------------------------------- */

/* While draining, the last answer of a connection has Connection: close; an answer with others
 * after it must not, or the client would not read those. */
static bool must_close(const struct http_exchange *x)
{
    bool last = x->conn->last == x;
    return x->close || !x->keep_alive || (x->server->net.draining && last);
}

int answer_head(struct http_exchange *x, unsigned status, const char *type, uint64_t length)
{
    struct span kind = span_text(type);
    struct buf *b = &x->out;
    x->out_body = b->len;
    x->close = must_close(x);
    if (buf_reserve(b, PIECES_MAX + kind.len + x->origin.len + x->fields.len) != 0)
        return -ERR_NOMEM;
    put_status(b, status);
    put_date(b, x->server);
    if (kind.len > 0) {
        PUT(b, "Content-Type: ");
        put(b, kind);
        PUT(b, "\r\n");
    }
    if (length != LENGTH_NONE) {
        PUT(b, "Content-Length: ");
        put_number(b, length);
        PUT(b, "\r\n");
    }
    PUT(b, "X-Content-Type-Options: nosniff\r\n");
    if (no_store(x))
        PUT(b, "Cache-Control: no-store\r\n");
    put_origin(b, x->origin);
    put_connection(b, x);
    put(b, buf_span(&x->fields));
    PUT(b, "\r\n");
    return 0;
}

/* ---- http.h: the answer ---------------------------------------------------------------------- */

struct buf *http_answer_body(struct http_exchange *x)
{
    /* A failure does no harm: the append of the handler will fail, too. */
    if (x->out.cap == 0 && buf_reserve(&x->out, FIRST_BYTES) != 0)
        buf_init(&x->out);
    return &x->out;
}

static bool field_text_ok(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] == '\r' || s.at[i] == '\n' || s.at[i] == '\0')
            return false;
    return true;
}

void http_answer_header(struct http_exchange *x, const char *name, struct span value)
{
    struct span n = span_text(name);
    CHECK(x->state == EXCHANGE_OPEN && n.len > 0 && field_text_ok(n) && field_text_ok(value));
    size_t more = n.len + value.len + 4;
    CHECK(x->fields.len + more <= ANSWER_FIELDS_MAX);
    if (buf_reserve(&x->fields, more) != 0) {
        x->out_of_memory = true;
        return;
    }
    put(&x->fields, n);
    PUT(&x->fields, ": ");
    put(&x->fields, value);
    PUT(&x->fields, "\r\n");
}

/* The fixed answer that is sent if there is no memory for the real one. */
static void answer_fixed(struct http_exchange *x, unsigned status, struct span text)
{
    buf_done(&x->out);
    http_shared_unref(x->shared);
    x->shared = NULL;
    x->out_body = x->out_skip = 0;
    x->fixed = text;
    x->status = (uint16_t)status;
    x->close = true;
}

static bool has_length(unsigned status)
{
    return status != 204 && status != 304;
}

static void answer_build(struct http_exchange *x, unsigned status, const char *type)
{
    x->status = (uint16_t)status;
    if (!type || x->shared)
        buf_clear(&x->out);
    uint64_t body = x->shared ? x->shared->text.len : x->out.len;
    uint64_t length = has_length(status) ? body : LENGTH_NONE;
    if (x->out_of_memory || answer_head(x, status, type, length) != 0) {
        answer_fixed(x, 500, answer_out_of_memory);
        return;
    }
    if (x->request.method != HTTP_HEAD && has_length(status))
        return;
    x->out_skip = x->out_body;
    http_shared_unref(x->shared);
    x->shared = NULL;
}

/* The budget has no room for the reply. A request that only reads can be repeated; the work of
 * other requests is done. */
static void answer_refuse(struct http_exchange *x)
{
    bool reads = exchange_only_reads(x);
    answer_fixed(x, reads ? 503 : 500, reads ? answer_no_room : answer_out_of_memory);
}

void http_answer(struct http_exchange *x, unsigned status, const char *type)
{
    struct connection *c = x->conn;
    CHECK(x->state == EXCHANGE_OPEN);
    x->state = EXCHANGE_ANSWERED;
    if (!c) {
        exchange_queue_loose(x);
        return;
    }
    answer_build(x, status, type);
    if (!account_reply(x))
        answer_refuse(x);
    account_out(x);
    net_conn_account(&c->net); /* it may be behind one that waits, and will not be sent soon */
    x->server->by_status[x->status / 100]++;
    c->net.out_bytes += exchange_waiting(x);
    if (x->close) {
        c->net.no_more = true;
        c->net.linger = c->net.linger || x->keep_alive; /* it may have sent more already */
    }
    if (c->first == x)
        net_conn_schedule(&c->net);
}

/* ---- http.h: a body that answers share ------------------------------------------------------- */

struct http_shared *http_shared_new(void)
{
    struct http_shared *s = mem_zalloc(sizeof *s);
    if (!s)
        return NULL;
    buf_init(&s->text);
    s->refs = 1;
    return s;
}

void http_shared_unref(struct http_shared *s)
{
    if (!s || --s->refs > 0)
        return;
    buf_done(&s->text);
    mem_free(s);
}

void http_answer_shared(struct http_exchange *x, unsigned status, const char *type,
                        struct http_shared *body)
{
    x->shared = body;
    body->refs++;
    http_answer(x, status, type);
}
