/* SPDX-License-Identifier: Apache-2.0 */
/* Request heads that are refused, and why; and every byte in every place. Every text is also read
 * in two pieces, for every cut, and byte by byte, with the same result. */
#include "unit/base/support.h"

#include "unit/http/parse_rig.h"

static const struct http_limits LIMITS = {
    .uri_bytes = 8192, .head_bytes = 16384, .body_bytes = 1 << 20};

#define H11 " HTTP/1.1\r\nHost: a\r\n"
#define TEXT(literal) literal, sizeof(literal) - 1

static const struct {
    const char *text;
    size_t len;
    unsigned status;
    const char *why; /* part of the fault's text */
} REFUSED[] = {
    /* before the request line */
    {TEXT("\r\n\r\nGET /" H11 "\r\n"), 400, "at most one empty line"},
    {TEXT("\nGET /" H11 "\r\n"), 400, "begin with its method"},
    {TEXT("\rGET /" H11 "\r\n"), 400, "CR must be followed"},
    {TEXT("\r\rGET /" H11 "\r\n"), 400, "CR must be followed"},
    {TEXT(" GET /" H11 "\r\n"), 400, "begin with its method"},
    {TEXT("\x16\x03\x01"), 400, "begin with its method"},
    {TEXT("\x80"), 400, "begin with its method"},
    {TEXT("\r\n\x16"), 400, "begin with its method"},
    {TEXT(":"), 400, "begin with its method"},
    /* the request line */
    {TEXT("GET\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET \r\n\r\n"), 400, "request line must be"},
    {TEXT("GET /\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET / \r\n\r\n"), 400, "request line must be"},
    {TEXT("GET  /" H11 "\r\n"), 400, "request line must be"},
    {TEXT("GET\t/" H11 "\r\n"), 400, "request line must be"},
    {TEXT("GET / " H11 "\r\n"), 400, "request line must be"},
    {TEXT("GET /\tHTTP/1.1\r\nHost: a\r\n\r\n"), 400, "percent-encoded"},
    {TEXT("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET / HTTP/1.1\t\r\nHost: a\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET /a b" H11 "\r\n"), 400, "request line must be"},
    {TEXT("G(T /" H11 "\r\n"), 400, "request line must be"},
    {TEXT("GET\x00 /" H11 "\r\n"), 400, "request line must be"},
    {TEXT("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET / HTTP/1.1\rHost: a\r\n\r\n"), 400, "request line must be"},
    /* versions */
    {TEXT("GET / http/1.1\r\nHost: a\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET / HTTP/1.10\r\nHost: a\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET / HTTP/11\r\nHost: a\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET / HTTP/1,1\r\nHost: a\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET / HTTP/1.\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET / HTTP/1.x\r\nHost: a\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET / HTTP/+1.1\r\nHost: a\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET / HTTQ/1.1\r\nHost: a\r\n\r\n"), 400, "request line must be"},
    {TEXT("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), 505, "version"},
    {TEXT("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), 505, "version"},
    {TEXT("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505, "version"},
    {TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505, "version"},
    /* targets */
    {TEXT("GET a" H11 "\r\n"), 400, "must be a path"},
    {TEXT("GET *" H11 "\r\n"), 400, "must be a path"},
    {TEXT("OPTIONS **" H11 "\r\n"), 400, "must be a path"},
    {TEXT("OPTIONS *?a" H11 "\r\n"), 400, "must be a path"},
    {TEXT("GET ?a" H11 "\r\n"), 400, "must be a path"},
    {TEXT("GET a:80" H11 "\r\n"), 400, "must be a path"},
    {TEXT("GET ftp://a/" H11 "\r\n"), 400, "must be a path"},
    {TEXT("GET http:/a/" H11 "\r\n"), 400, "must be a path"},
    {TEXT("CONNECT a:80" H11 "\r\n"), 501, "CONNECT"},
    {TEXT("CONNECT http://a/" H11 "\r\n"), 501, "CONNECT"},
    {TEXT("GET /#a" H11 "\r\n"), 400, "percent-encoded"},
    {TEXT("GET /\\a" H11 "\r\n"), 400, "percent-encoded"},
    {TEXT("GET /\xc3\xa9" H11 "\r\n"), 400, "percent-encoded"},
    {TEXT("GET /\x7f" H11 "\r\n"), 400, "percent-encoded"},
    {TEXT("GET /\x00" H11 "\r\n"), 400, "percent-encoded"},
    {TEXT("GET http:///" H11 "\r\n"), 400, "name a host"},
    {TEXT("GET http://?a" H11 "\r\n"), 400, "name a host"},
    {TEXT("GET http://" H11 "\r\n"), 400, "name a host"},
    {TEXT("GET http://u@a/" H11 "\r\n"), 400, "name a host"},
    {TEXT("GET http://a:x/" H11 "\r\n"), 400, "name a host"},
    {TEXT("GET http://b/" H11 "\r\n"), 400, "same as the host"},
    {TEXT("GET http://a:80/" H11 "\r\n"), 400, "same as the host"},
    {TEXT("GET http://a/ HTTP/1.1\r\n\r\n"), 400, "must have a Host"},
    {TEXT("GET http://a/ HTTP/1.0\r\nHost: b\r\n\r\n"), 400, "same as the host"},
    /* lines */
    {TEXT("GET / HTTP/1.1\nHost: a\r\n\r\n"), 400, "LF alone"},
    {TEXT("GET /" H11 "X: y\n\r\n"), 400, "LF alone"},
    {TEXT("GET /" H11 "\n"), 400, "LF alone"},
    {TEXT("GET / HTTP/1.1\r\nHost: a\n\n"), 400, "LF alone"},
    {TEXT("GET /" H11 "X: a\rb\r\n\r\n"), 400, "CR must be followed"},
    {TEXT("GET /" H11 "X: a\r\r\n\r\n"), 400, "CR must be followed"},
    {TEXT("GET /" H11 "\rX: a\r\n\r\n"), 400, "CR must be followed"},
    {TEXT("GET /" H11 "\r\r\n\r\n"), 400, "CR must be followed"},
    {TEXT("GET /" H11 "X\r: a\r\n\r\n"), 400, "CR must be followed"},
    {TEXT("GET /" H11 "X: a\r\n b\r\n\r\n"), 400, "begin with white space"},
    {TEXT("GET /" H11 "X: a\r\n\tb: c\r\n\r\n"), 400, "begin with white space"},
    {TEXT("GET /" H11 " X: a\r\n\r\n"), 400, "begin with white space"},
    {TEXT("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), 400, "begin with white space"},
    {TEXT("GET /" H11 " \r\n\r\n"), 400, "begin with white space"},
    {TEXT("GET /" H11 "X : a\r\n\r\n"), 400, "before the colon of a header"},
    {TEXT("GET /" H11 "X\t: a\r\n\r\n"), 400, "before the colon of a header"},
    {TEXT("GET /" H11 "Content-Length : 5\r\n\r\n"), 400, "before the colon of a header"},
    {TEXT("GET /" H11 "X y: a\r\n\r\n"), 400, "before the colon of a header"},
    {TEXT("GET /" H11 ": a\r\n\r\n"), 400, "must be a name"},
    {TEXT("GET /" H11 "X\r\n\r\n"), 400, "must be a name"},
    {TEXT("GET /" H11 "X(y): a\r\n\r\n"), 400, "must be a name"},
    {TEXT("GET /" H11 "X\x80: a\r\n\r\n"), 400, "must be a name"},
    {TEXT("GET /" H11 "X\x00: a\r\n\r\n"), 400, "must be a name"},
    {TEXT("GET /" H11 "\x00X: a\r\n\r\n"), 400, "must be a name"},
    {TEXT("GET /" H11 "\x7fX: a\r\n\r\n"), 400, "must be a name"},
    {TEXT("GET /" H11 "X: a\x00z\r\n\r\n"), 400, "control bytes"},
    {TEXT("GET /" H11 "X: \x7f\r\n\r\n"), 400, "control bytes"},
    {TEXT("GET /" H11 "X:\x0b\r\n\r\n"), 400, "control bytes"},
    {TEXT("GET /" H11 "X: a\t\x1f\r\n\r\n"), 400, "control bytes"},
    {TEXT("GET /" H11 "Content-Length: 5\x0c\r\n\r\n"), 400, "control bytes"},
    /* Host */
    {TEXT("GET / HTTP/1.1\r\n\r\n"), 400, "must have a Host"},
    {TEXT("GET / HTTP/1.1\r\nX: a\r\n\r\n"), 400, "must have a Host"},
    {TEXT("GET /" H11 "Host: a\r\n\r\n"), 400, "not be repeated"},
    {TEXT("GET / HTTP/1.0\r\nHost: a\r\nX: y\r\nHOST: b\r\n\r\n"), 400, "not be repeated"},
    {TEXT("GET / HTTP/1.1\r\nHost:\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: :80\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: a%41\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: a:000080\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: a:-1\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: ::1\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: []\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: [::1]80\r\n\r\n"), 400, "Host must be a name"},
    {TEXT("GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n"), 400, "Host must be a name"},
    /* Content-Length */
    {TEXT("POST /" H11 "Content-Length:\r\n\r\n"), 400, "decimal number"},
    {TEXT("POST /" H11 "Content-Length: +5\r\n\r\n"), 400, "decimal number"},
    {TEXT("POST /" H11 "Content-Length: -5\r\n\r\n"), 400, "decimal number"},
    {TEXT("POST /" H11 "Content-Length: 0x5\r\n\r\n"), 400, "decimal number"},
    {TEXT("POST /" H11 "Content-Length: 5 5\r\n\r\n"), 400, "decimal number"},
    {TEXT("POST /" H11 "Content-Length: 5, 5\r\n\r\n"), 400, "decimal number"},
    {TEXT("POST /" H11 "Content-Length: 5,\r\n\r\n"), 400, "decimal number"},
    {TEXT("POST /" H11 "Content-Length: 5.0\r\n\r\n"), 400, "decimal number"},
    {TEXT("POST /" H11 "Content-Length: 1e3\r\n\r\n"), 400, "decimal number"},
    {TEXT("POST /" H11 "Content-Length: \"5\"\r\n\r\n"), 400, "decimal number"},
    {TEXT("POST /" H11 "Content-Length: 05\r\n\r\n"), 400, "leading zeros"},
    {TEXT("POST /" H11 "Content-Length: 00\r\n\r\n"), 400, "leading zeros"},
    {TEXT("POST /" H11 "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"), 400, "not be repeated"},
    {TEXT("POST /" H11 "Content-Length: 0\r\nContent-Length: 5\r\n\r\n"), 400, "not be repeated"},
    {TEXT("POST /" H11 "Content-Length: 1000000000000000000\r\n\r\n"), 413, "Content-Length"},
    {TEXT("POST /" H11 "Content-Length: 18446744073709551621\r\n\r\n"), 413, "Content-Length"},
    {TEXT("POST /" H11 "Content-Length: 1844674407370955162x\r\n\r\n"), 400, "decimal number"},
    /* Transfer-Encoding */
    {TEXT("POST /" H11 "Transfer-Encoding:\r\n\r\n"), 400, "exactly"},
    {TEXT("POST /" H11 "Transfer-Encoding: identity\r\n\r\n"), 400, "exactly"},
    {TEXT("POST /" H11 "Transfer-Encoding: gzip, chunked\r\n\r\n"), 400, "exactly"},
    {TEXT("POST /" H11 "Transfer-Encoding: chunked, chunked\r\n\r\n"), 400, "exactly"},
    {TEXT("POST /" H11 "Transfer-Encoding: chunked,\r\n\r\n"), 400, "exactly"},
    {TEXT("POST /" H11 "Transfer-Encoding: ,chunked\r\n\r\n"), 400, "exactly"},
    {TEXT("POST /" H11 "Transfer-Encoding: xchunked\r\n\r\n"), 400, "exactly"},
    {TEXT("POST /" H11 "Transfer-Encoding: chunkedx\r\n\r\n"), 400, "exactly"},
    {TEXT("POST /" H11 "Transfer-Encoding: \"chunked\"\r\n\r\n"), 400, "exactly"},
    {TEXT("POST /" H11 "Transfer-Encoding: chunked;a=b\r\n\r\n"), 400, "exactly"},
    {TEXT("POST /" H11 "Transfer-Encoding: \x0b"
          "chunked\r\n\r\n"),
     400, "control bytes"},
    {TEXT("POST /" H11 "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 400,
     "not be repeated"},
    {TEXT("POST /" H11 "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"), 400,
     "must not have both"},
    {TEXT("POST /" H11 "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400,
     "must not have both"},
    {TEXT("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, "HTTP/1.0"},
    /* Expect */
    {TEXT("POST /" H11 "Expect: 200-ok\r\n\r\n"), 417, "100-continue"},
    {TEXT("POST /" H11 "Expect: 100-continue, x\r\n\r\n"), 417, "100-continue"},
    {TEXT("POST /" H11 "Expect:\r\n\r\n"), 417, "100-continue"},
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
        struct outcome o;
        outcome_agreed(&o, span_of(REFUSED[i].text, REFUSED[i].len), &LIMITS);
        if (o.kind != OUTCOME_REFUSED || o.fault.status != REFUSED[i].status ||
            !strstr(o.fault.text, REFUSED[i].why))
            fail_msg("%s: expected %u %s, got %u %s", REFUSED[i].text, REFUSED[i].status,
                     REFUSED[i].why, o.fault.status, o.fault.text ? o.fault.text : "nothing");
        outcome_done(&o);
    }
}

static bool is_in(unsigned c, const char *set)
{
    return c > 0 && c < 0x80 && strchr(set, (int)c) != NULL;
}

static bool is_alnum(unsigned c)
{
    return is_in(c, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

/* Every byte, at the front, in the middle and far into a method, a target, a name and a value: by
 * the rules of RFC 9110, written down a second time. A CR or LF ends something; they are above. */
static void every_byte_everywhere(void **state)
{
    (void)state;
    static const char *const forms[][2] = {{"G", "T / HTTP/1.0\r\n\r\n"},
                                           {"GET /", " HTTP/1.0\r\n\r\n"},
                                           {"GET / HTTP/1.0\r\nX", "Y: z\r\n\r\n"},
                                           {"GET / HTTP/1.0\r\nX: y", "z\r\n\r\n"}};
    for (unsigned c = 0; c < 256; c++) {
        bool token = is_alnum(c) || is_in(c, "!#$%&'*+-.^_`|~");
        bool visible = c > 0x20 && c < 0x7f;
        const bool fits[] = {token || c == ' ', (visible && c != '#' && c != '\\'),
                             token || c == ':', visible || c == ' ' || c == '\t' || c >= 0x80};
        for (size_t i = 0; i < COUNT_OF(forms) && c != '\r' && c != '\n'; i++) {
            for (size_t before = 0; before < 20; before++) {
                char fill[64], text[128];
                struct http_head head;
                struct http_fault fault;
                memset(fill, 'a', sizeof fill);
                fill[before] = 1; /* stands for c, which may be NUL */
                fill[before + 10] = 0;
                int len = snprintf(text, sizeof text, "%s%s%s", forms[i][0], fill, forms[i][1]);
                *strchr(text, 1) = (char)c;
                ssize_t got =
                    http_head_parse(span_of(text, (size_t)len), 0, &LIMITS, &head, &fault);
                bool accepted_here = got == len;
                if (c == ' ' && i == 0) /* the target "aaT" is no path */
                    EXPECT(!accepted_here);
                else
                    EXPECT(accepted_here == fits[i]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(every_byte_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
