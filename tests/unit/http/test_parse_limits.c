/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of a request head, one below, at and one above each, in pieces as well. */
#include "unit/base/support.h"

#include "unit/http/parse_rig.h"

#define H11 " HTTP/1.1\r\nHost: a\r\n"

static const struct http_limits LIMITS = {
    .uri_bytes = 8192, .head_bytes = 16384, .body_bytes = 1 << 20};

static unsigned status_of(const struct request_text *s, const struct http_limits *limits)
{
    struct outcome o;
    outcome_agreed(&o, span_of(s->text, s->len), limits);
    unsigned status = o.kind == OUTCOME_WHOLE ? 200 : o.fault.status;
    outcome_done(&o);
    return status;
}

static void uri_limit(void **state)
{
    (void)state;
    static struct request_text s;
    const struct http_limits limits = {.uri_bytes = 100, .head_bytes = 300};
    for (size_t n = 98; n <= 102; n++) {
        s.len = 0;
        request_add(&s, "GET /");
        request_fill(&s, 'a', n - 1);
        request_add(&s, H11 "\r\n");
        assert_int_equal(status_of(&s, &limits), n <= 100 ? 200 : 414);
    }
    /* longer than a head may be: 414 as well, complete or not, spaces or not */
    for (size_t n = 290; n <= 310; n++) {
        s.len = 0;
        request_add(&s, "\r\nGET /");
        request_fill(&s, 'a', n);
        if (n % 2)
            request_add(&s, H11 "\r\n");
        else if (s.len < 300)
            continue;
        assert_int_equal(status_of(&s, &limits), 414);
    }
}

static void head_limit(void **state)
{
    (void)state;
    static struct request_text s;
    const struct http_limits limits = {.uri_bytes = 100, .head_bytes = 200};
    for (size_t n = 197; n <= 206; n++) {
        s.len = 0;
        request_add(&s, n % 2 ? "GET /" H11 "X: " : "\r\nGET /" H11 "X: ");
        request_fill(&s, 'a', n - 4 - s.len);
        request_add(&s, "\r\n\r\n");
        assert_int_equal(s.len, n);
        assert_int_equal(status_of(&s, &limits), n <= 200 ? 200 : 431);
        s.len -= 4; /* the end never comes */
        assert_int_equal(status_of(&s, &limits), n - 4 < 200 ? 0 : 431);
    }
}

/* What is found too long is blamed on the target only when there is one. */
static void head_limit_without_target(void **state)
{
    (void)state;
    static struct request_text s;
    const struct http_limits limits = {.uri_bytes = 10, .head_bytes = 50};
    s.len = 0;
    request_fill(&s, 'G', 60);
    assert_int_equal(status_of(&s, &limits), 431);
    s.len = 0;
    request_add(&s, "GET\r\nHost: ");
    request_fill(&s, 'a', 60);
    assert_int_equal(status_of(&s, &limits), 431);
    s.len = 0;
    request_add(&s, "GET(");
    request_fill(&s, 'a', 60);
    assert_int_equal(status_of(&s, &limits), 431);
    for (size_t n = 9; n <= 11; n++) {
        s.len = 0;
        request_add(&s, "GET /");
        request_fill(&s, 'a', n - 1);
        request_add(&s, H11);
        request_fill(&s, 'a', 60);
        assert_int_equal(status_of(&s, &limits), n <= 10 ? 431 : 414);
    }
    s.len = 0;
    request_add(&s, "GET /1234567890" H11 "\r\n"); /* within the head's limit */
    assert_int_equal(status_of(&s, &limits), 414);
    for (uint32_t tiny = 0; tiny < 4; tiny++) {
        const struct http_limits none = {.uri_bytes = 10, .head_bytes = tiny};
        s.len = 0;
        request_add(&s, "\r\nGET / HTTP/1.1\r\n\r\n");
        assert_int_equal(status_of(&s, &none), 431);
    }
}

static void header_count_limit(void **state)
{
    (void)state;
    static struct request_text s;
    for (int n = HTTP_HEADERS_MAX - 1; n <= HTTP_HEADERS_MAX + 1; n++) {
        s.len = 0;
        request_add(&s, "GET /" H11);
        for (int i = 1; i < n; i++)
            request_add(&s, "X:\r\n");
        request_add(&s, "\r\n");
        assert_int_equal(status_of(&s, &LIMITS), n <= HTTP_HEADERS_MAX ? 200 : 431);
    }
}

/* A bare LF shows where it stands, whatever is wrong before it; a limit comes first or not at all.
 */
static void first_fault_wins(void **state)
{
    (void)state;
    static struct request_text s;
    const struct http_limits limits = {.uri_bytes = 10, .head_bytes = 40};
    s.len = 0;
    request_add(&s, "GET  / HTTP/9.9\r\n X : y\nmore, up to and over the limit");
    assert_int_equal(status_of(&s, &limits), 400);
    s.len = 0;
    request_add(&s, "GET / HTTP/1.1\r\nHost: a\r\nabcdefghijklmno\n\r\n");
    assert_int_equal(s.text[40], '\n');
    assert_int_equal(status_of(&s, &limits), 431);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uri_limit),
        cmocka_unit_test(head_limit),
        cmocka_unit_test(head_limit_without_target),
        cmocka_unit_test(header_count_limit),
        cmocka_unit_test(first_fault_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
