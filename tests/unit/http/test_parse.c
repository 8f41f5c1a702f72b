/* SPDX-License-Identifier: Apache-2.0 */
/* Request heads that are accepted, and as what. Every text is also read in two pieces, for every
 * cut, and byte by byte, with the same result. */
#include "unit/base/support.h"

#include "unit/http/parse_rig.h"

static const struct http_limits LIMITS = {
    .uri_bytes = 8192, .head_bytes = 16384, .body_bytes = 1 << 20};

static char *put(char *at, const char *end, const char *before, struct span s)
{
    return at + snprintf(at, (size_t)(end - at), "%s%.*s", before, (int)s.len, s.at);
}

static void describe(const struct http_head *h, char *out, size_t size)
{
    char *end = out + size;
    out = put(out, end, "", h->method_text);
    out = put(out, end, " ", h->path);
    if (h->query.len)
        out = put(out, end, "?", h->query);
    if (h->authority.len)
        out = put(out, end, " @", h->authority);
    if (h->host.len)
        out = put(out, end, " host=", h->host);
    out +=
        snprintf(out, (size_t)(end - out), " 1.%u %s", h->minor, h->keep_alive ? "keep" : "close");
    if (h->expect_continue)
        out = put(out, end, " expect", (struct span){0});
    if (h->chunked)
        out = put(out, end, " chunked", (struct span){0});
    if (h->has_length)
        snprintf(out, (size_t)(end - out), " length=%llu", (unsigned long long)h->length);
}

static const struct {
    const char *text;
    const char *expected;
} ACCEPTED[] = {
    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / host=a 1.1 keep"},
    {"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / host=a 1.1 keep"},
    {"GET / HTTP/1.0\r\n\r\n", "GET / 1.0 close"},
    {"GET / HTTP/1.0\r\nHost: a\r\n\r\n", "GET / host=a 1.0 close"},
    {"HEAD /x?y HTTP/1.1\r\nhOsT:a\r\n\r\n", "HEAD /x?y host=a 1.1 keep"},
    /* methods */
    {"PUT / HTTP/1.1\r\nHost: a\r\n\r\n", "PUT / host=a 1.1 keep"},
    {"get / HTTP/1.1\r\nHost: a\r\n\r\n", "get / host=a 1.1 keep"},
    {"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", "BREW / host=a 1.1 keep"},
    {"!#$%&'*+-.^_`|~09azAZ / HTTP/1.1\r\nHost: a\r\n\r\n",
     "!#$%&'*+-.^_`|~09azAZ / host=a 1.1 keep"},
    /* targets */
    {"GET /a/b%2Fc?d=e&f=?/g HTTP/1.1\r\nHost: a\r\n\r\n",
     "GET /a/b%2Fc?d=e&f=?/g host=a 1.1 keep"},
    {"GET /? HTTP/1.1\r\nHost: a\r\n\r\n", "GET / host=a 1.1 keep"},
    {"GET //b HTTP/1.1\r\nHost: a\r\n\r\n", "GET //b host=a 1.1 keep"},
    {"GET /!\"$&'()*+,-.:;<=>@[]^_`{|}~ HTTP/1.1\r\nHost: a\r\n\r\n",
     "GET /!\"$&'()*+,-.:;<=>@[]^_`{|}~ host=a 1.1 keep"},
    {"GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n", "GET /b?c @a host=a 1.1 keep"},
    {"GET HTTPS://A.example:8000/b HTTP/1.1\r\nHost: a.EXAMPLE:8000\r\n\r\n",
     "GET /b @A.example:8000 host=a.EXAMPLE:8000 1.1 keep"},
    {"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", "GET / @a host=a 1.1 keep"},
    {"GET http://a?c HTTP/1.1\r\nHost: a\r\n\r\n", "GET /?c @a host=a 1.1 keep"},
    {"GET http://[::1]:80/ HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
     "GET / @[::1]:80 host=[::1]:80 1.1 keep"},
    {"GET http://a/ HTTP/1.0\r\n\r\n", "GET / @a host=a 1.0 close"},
    {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * host=a 1.1 keep"},
    {"OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS /a host=a 1.1 keep"},
    {"CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT /a host=a 1.1 keep"},
    /* Host */
    {"GET / HTTP/1.1\r\nHost: localhost:8000\r\n\r\n", "GET / host=localhost:8000 1.1 keep"},
    {"GET / HTTP/1.1\r\nHost: 127.0.0.1:65535\r\n\r\n", "GET / host=127.0.0.1:65535 1.1 keep"},
    {"GET / HTTP/1.1\r\nHost: [::ffff:127.0.0.1]\r\n\r\n",
     "GET / host=[::ffff:127.0.0.1] 1.1 keep"},
    {"GET / HTTP/1.1\r\nHost: a_b-c.d.:\r\n\r\n", "GET / host=a_b-c.d.: 1.1 keep"},
    {"GET / HTTP/1.1\r\nHost: \t a \t \r\n\r\n", "GET / host=a 1.1 keep"},
    /* Connection */
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET / host=a 1.1 close"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: CLOSE\r\n\r\n", "GET / host=a 1.1 close"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: te ,\tClose , x\r\n\r\n", "GET / host=a 1.1 close"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: ,,close\r\n\r\n", "GET / host=a 1.1 close"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nConnection: close\r\n\r\n",
     "GET / host=a 1.1 close"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: closed, xclose\r\n\r\n", "GET / host=a 1.1 keep"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection:\r\n\r\n", "GET / host=a 1.1 keep"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n",
     "GET / host=a 1.1 close"},
    {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET / 1.0 keep"},
    {"GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n", "GET / 1.0 close"},
    {"GET / HTTP/1.0\r\nConnection: x,keep-alive\r\n\r\n", "GET / 1.0 keep"},
    /* bodies to come */
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "POST / host=a 1.1 keep length=0"},
    {"POST / HTTP/1.1\r\nHost: a\r\ncontent-length:10 \r\n\r\n",
     "POST / host=a 1.1 keep length=10"},
    {"POST / HTTP/1.0\r\nContent-Length: 7\r\n\r\n", "POST / 1.0 close length=7"},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999999999\r\n\r\n",
     "POST / host=a 1.1 keep length=999999999999999999"},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
     "POST / host=a 1.1 keep chunked"},
    {"POST / HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING:Chunked\t\r\n\r\n",
     "POST / host=a 1.1 keep chunked"},
    /* Expect */
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n",
     "POST / host=a 1.1 keep expect length=1"},
    {"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nTransfer-Encoding: chunked\r\n\r\n",
     "POST / host=a 1.1 keep expect chunked"},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n",
     "POST / host=a 1.1 keep length=0"},
    {"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", "GET / host=a 1.1 keep"},
    {"POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n",
     "POST / 1.0 close length=1"},
    /* names that only look like those that matter */
    {"GET / HTTP/1.1\r\nHost: a\r\nHosts: b\r\nContent-Lengt: x\r\nContent-Length2: x\r\n\r\n",
     "GET / host=a 1.1 keep"},
};

static void accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ACCEPTED); i++) {
        struct span text = span_text(ACCEPTED[i].text);
        struct http_head head;
        struct http_fault fault = {0};
        struct outcome o;
        char got[512] = "";
        if (http_head_parse(text, 0, &LIMITS, &head, &fault) != (ssize_t)text.len)
            fail_msg("%s: %u %s", ACCEPTED[i].text, fault.status, fault.text ? fault.text : "");
        describe(&head, got, sizeof got);
        assert_string_equal(got, ACCEPTED[i].expected);
        outcome_agreed(&o, text, &LIMITS);
        assert_int_equal(o.head_bytes, text.len);
        outcome_done(&o);
    }
}

static void methods(void **state)
{
    (void)state;
    static const char *const names[] = {"GET",   "HEAD",   "POST",    "PUT",
                                        "PATCH", "DELETE", "OPTIONS", "OTHER"};
    for (int m = 0; m < HTTP_METHOD_COUNT; m++) {
        char text[64];
        struct http_head head;
        struct http_fault fault;
        assert_string_equal(http_method_name((enum http_method)m), names[m]);
        int len = snprintf(text, sizeof text, "%s / HTTP/1.0\r\n\r\n", names[m]);
        assert_int_equal(http_head_parse(span_of(text, (size_t)len), 0, &LIMITS, &head, &fault),
                         len);
        assert_int_equal(head.method, m);
        text[0] = (char)(text[0] | 0x20); /* methods are told apart by case */
        assert_true(http_head_parse(span_of(text, (size_t)len), 0, &LIMITS, &head, &fault) > 0);
        assert_int_equal(head.method, HTTP_OTHER);
    }
}

static void headers_as_sent(void **state)
{
    (void)state;
    static const char text[] =
        "GET / HTTP/1.1\r\nHost: a\r\nX-One:  two  words \t\r\nx-one: again\r\n"
        "Empty:\r\nBlank: \t \r\nUtf: \xc3\xa9\xff\x80\r\nTab: a\tb\r\n"
        "C: a:b\r\n\r\nnext";
    static const char *const expected[][2] = {
        {"Host", "a"}, {"X-One", "two  words"},     {"x-one", "again"}, {"Empty", ""},
        {"Blank", ""}, {"Utf", "\xc3\xa9\xff\x80"}, {"Tab", "a\tb"},    {"C", "a:b"}};
    struct http_head head;
    struct http_fault fault;
    ssize_t len = http_head_parse(SPAN_LITERAL(text), 0, &LIMITS, &head, &fault);
    assert_int_equal(len, sizeof text - 1 - strlen("next"));
    assert_int_equal(head.header_count, COUNT_OF(expected));
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_true(span_equal(head.headers[i].name, span_text(expected[i][0])));
        assert_true(span_equal(head.headers[i].value, span_text(expected[i][1])));
    }
    assert_true(span_equal(http_head_find(&head, "x-one"), SPAN_LITERAL("two  words")));
    assert_non_null(http_head_find(&head, "empty").at);
    assert_null(http_head_find(&head, "x-on").at);
    assert_null(http_head_find(&head, "x-one-more").at);
}

static void names_equal(void **state)
{
    (void)state;
    assert_true(http_name_equal(SPAN_LITERAL("X-a9"), "x-a9"));
    assert_true(http_name_equal((struct span){0}, ""));
    assert_false(http_name_equal((struct span){0}, "x"));
    assert_false(http_name_equal(SPAN_LITERAL("x"), ""));
    assert_false(http_name_equal(SPAN_LITERAL("x\0"), "x"));
    assert_false(http_name_equal(SPAN_LITERAL("x\ra"), "x-a")); /* '\r' | 0x20 is '-' */
    assert_false(http_name_equal(SPAN_LITERAL("@"), "`"));
    assert_false(http_name_equal(SPAN_LITERAL("["), "{"));
}

/* The second request begins where the first ends. */
static void requests_in_a_row(void **state)
{
    (void)state;
    static const char text[] = "GET /1 HTTP/1.0\r\n\r\nGET /2 HTTP/1.0\r\n\r\n"
                               "\r\nGET /3 HTTP/1.0\r\n\r\n";
    struct span in = SPAN_LITERAL(text);
    struct http_head head;
    struct http_fault fault;
    for (char n = '1'; n <= '3'; n++) {
        ssize_t len = http_head_parse(in, 0, &LIMITS, &head, &fault);
        assert_true(len > 0);
        assert_int_equal(head.path.at[1], n);
        in = span_of(in.at + len, in.len - (size_t)len);
    }
    assert_int_equal(in.len, 0);
    assert_int_equal(http_head_parse((struct span){0}, 0, &LIMITS, &head, &fault), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted),          cmocka_unit_test(methods),
        cmocka_unit_test(headers_as_sent),   cmocka_unit_test(names_equal),
        cmocka_unit_test(requests_in_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
