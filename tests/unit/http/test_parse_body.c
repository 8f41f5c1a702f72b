/* SPDX-License-Identifier: Apache-2.0 */
/* Request bodies: lengths, chunks, trailers; what is refused, and limits. Every text is also read
 * in two pieces, for every cut, and byte by byte, with the same result. */
#include "unit/base/support.h"

#include "base/mem.h"
#include "unit/http/parse_rig.h"

#define PLAIN "POST / HTTP/1.0\r\nContent-Length: "
#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
#define TEXT(literal) literal, sizeof(literal) - 1

static const struct http_limits LIMITS = {.uri_bytes = 100, .head_bytes = 200, .body_bytes = 1000};

/* ---- accepted -------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    size_t len;
    const char *body;
    size_t rest; /* bytes of the next request */
} ACCEPTED[] = {
    {TEXT("GET / HTTP/1.0\r\n\r\n"), "", 0},
    {TEXT("GET / HTTP/1.0\r\n\r\nnext"), "", 4},
    {TEXT(PLAIN "0\r\n\r\nnext"), "", 4},
    {TEXT(PLAIN "5\r\n\r\nhello"), "hello", 0},
    {TEXT(PLAIN "5\r\n\r\nhellonext"), "hello", 4},
    {TEXT(PLAIN "7\r\n\r\n\r\n\r\n\r\n."), "\r\n\r\n\r\n.", 0},
    {TEXT(CHUNKED "0\r\n\r\n"), "", 0},
    {TEXT(CHUNKED "0\r\n\r\nnext"), "", 4},
    {TEXT(CHUNKED "5\r\nhello\r\n0\r\n\r\n"), "hello", 0},
    {TEXT(CHUNKED "5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n\r\n"), "hello world", 2},
    {TEXT(CHUNKED "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n"), "01234567890123456789", 0},
    {TEXT(CHUNKED "0000000000000002\r\n\r\n\r\n0000000000000000\r\n\r\n"), "\r\n", 0},
    {TEXT(CHUNKED "2;a\r\nab\r\n0\r\n\r\n"), "ab", 0},
    {TEXT(CHUNKED "2;a=b;c=\"d;\te\x80\" ; \r\nab\r\n0;z\r\n\r\n"), "ab", 0},
    {TEXT(CHUNKED "2;\r\nab\r\n0;\r\n\r\n"), "ab", 0},
    /* trailers */
    {TEXT(CHUNKED "0\r\nX: y\r\n\r\nnext"), "", 4},
    {TEXT(CHUNKED "1\r\na\r\n0\r\nX:\r\nDigest: a=b:c\t\x80\r\n\r\n"), "a", 0},
    {TEXT(CHUNKED "0\r\nHos: y\r\nHostt: y\r\nHost-a: b\r\nxhost: c\r\n\r\n"), "", 0},
    {TEXT(CHUNKED "0\r\nContent-Length-Of-Something-Else: 5\r\nt: u\r\nteh: v\r\n\r\n"), "", 0},
};

static void accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ACCEPTED); i++) {
        struct outcome o;
        outcome_agreed(&o, span_of(ACCEPTED[i].text, ACCEPTED[i].len), &LIMITS);
        if (o.kind != OUTCOME_WHOLE)
            fail_msg("%s: %u %s", ACCEPTED[i].text, o.fault.status, o.fault.text);
        assert_true(span_equal(buf_span(&o.body), span_text(ACCEPTED[i].body)));
        assert_int_equal(o.bytes, ACCEPTED[i].len - ACCEPTED[i].rest);
        outcome_done(&o);
    }
}

/* No beginning of a complete request is complete. */
static void beginnings_wait(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ACCEPTED); i++) {
        size_t len = ACCEPTED[i].len - ACCEPTED[i].rest;
        for (size_t cut = 0; cut < len; cut++) {
            struct outcome o;
            outcome_read(&o, span_of(ACCEPTED[i].text, cut), NULL, 0, &LIMITS);
            assert_int_equal(o.kind, OUTCOME_MORE);
            outcome_done(&o);
        }
    }
}

/* ---- refused --------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    size_t len;
    unsigned status;
    const char *why; /* part of the fault's text */
} REFUSED[] = {
    /* sizes */
    {TEXT(CHUNKED "\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "\n"), 400, "begin with its size"},
    {TEXT(CHUNKED ";a\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED " 5\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "5 \r\nhello\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "5 ;a\r\nhello\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "5\t\r\nhello\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "+5\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "-5\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "0x5\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "5g\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "5_0\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "5,\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "\0"), 400, "begin with its size"},
    {TEXT(CHUNKED "5\nhello\r\n"), 400, "begin with its size"},
    {TEXT(CHUNKED "5\rhello\r\n"), 400, "end with CR LF"},
    {TEXT(CHUNKED "5\r\rhello\r\n"), 400, "end with CR LF"},
    {TEXT(CHUNKED "00000000000000005\r\n"), 400, "at most 16 digits"},
    {TEXT(CHUNKED "10000000000000005\r\n"), 400, "at most 16 digits"},
    {TEXT(CHUNKED "ffffffffffffffff\r\n"), 413, "body"},
    {TEXT(CHUNKED "8000000000000000\r\n"), 413, "body"},
    {TEXT(CHUNKED "1\r\na\r\nffffffffffffffff\r\n"), 413, "body"}, /* the sum wraps to 0 */
    {TEXT(CHUNKED "1\r\na\r\nffffffffffffffff;x\r\n"), 413, "body"},
    /* extensions */
    {TEXT(CHUNKED "5;a\nhello\r\n"), 400, "control bytes"},
    {TEXT(CHUNKED "5;a\0\r\nhello\r\n"), 400, "control bytes"},
    {TEXT(CHUNKED "5;\x7f\r\nhello\r\n"), 400, "control bytes"},
    {TEXT(CHUNKED "5;a\rb\r\nhello\r\n"), 400, "end with CR LF"},
    {TEXT(CHUNKED "5;\"\r\r\nhello\r\n"), 400, "end with CR LF"},
    /* contents */
    {TEXT(CHUNKED "5\r\nhello!\r\n"), 400, "as many bytes"},
    {TEXT(CHUNKED "5\r\nhell\r\n0\r\n\r\n"), 400, "as many bytes"},
    {TEXT(CHUNKED "5\r\nhello0\r\n\r\n"), 400, "as many bytes"},
    {TEXT(CHUNKED "5\r\nhello\n0\r\n\r\n"), 400, "as many bytes"},
    {TEXT(CHUNKED "5\r\nhello\r0\r\n\r\n"), 400, "end with CR LF"},
    {TEXT(CHUNKED "5\r\nhello\r\n\r\n0\r\n\r\n"), 400, "begin with its size"},
    /* the end, trailers */
    {TEXT(CHUNKED "0\r\n\n"), 400, "begin with its name"},
    {TEXT(CHUNKED "0\r\n\rX"), 400, "end with CR LF"},
    {TEXT(CHUNKED "0\r\n\r\r\n"), 400, "end with CR LF"},
    {TEXT(CHUNKED "0\r\n X: y\r\n\r\n"), 400, "begin with its name"},
    {TEXT(CHUNKED "0\r\nX: y\r\n z\r\n\r\n"), 400, "begin with its name"},
    {TEXT(CHUNKED "0\r\n: y\r\n\r\n"), 400, "begin with its name"},
    {TEXT(CHUNKED "0\r\n\x80: y\r\n\r\n"), 400, "begin with its name"},
    {TEXT(CHUNKED "0\r\nX : y\r\n\r\n"), 400, "a name, a colon"},
    {TEXT(CHUNKED "0\r\nX\r\n\r\n"), 400, "a name, a colon"},
    {TEXT(CHUNKED "0\r\nX\n"), 400, "a name, a colon"},
    {TEXT(CHUNKED "0\r\nX\x80: y\r\n\r\n"), 400, "a name, a colon"},
    {TEXT(CHUNKED "0\r\nX: y\n\r\n"), 400, "control bytes"},
    {TEXT(CHUNKED "0\r\nX: \0\r\n\r\n"), 400, "control bytes"},
    {TEXT(CHUNKED "0\r\nX: y\rz\r\n\r\n"), 400, "end with CR LF"},
    {TEXT(CHUNKED "0\r\nX: y\r\r\n\r\n"), 400, "end with CR LF"},
    {TEXT(CHUNKED "0\r\nContent-Length: 5\r\n\r\n"), 400, "not in a trailer"},
    {TEXT(CHUNKED "0\r\nX: y\r\ncOnTeNt-LeNgTh:5\r\n\r\n"), 400, "not in a trailer"},
    {TEXT(CHUNKED "0\r\nContent-Lengthy: 5\r\nHost:\r\n\r\n"), 400, "not in a trailer"},
    /* Content-Length over the limit shows before the first byte of the body */
    {TEXT(PLAIN "1001\r\n\r\n"), 413, "body"},
    {TEXT(PLAIN "999999999999999999\r\n\r\n"), 413, "body"},
};

static void expect_refused(struct span text, unsigned status, const char *why)
{
    struct outcome o;
    outcome_agreed(&o, text, &LIMITS);
    if (o.kind != OUTCOME_REFUSED || o.fault.status != status || !strstr(o.fault.text, why))
        fail_msg("%.*s: expected %u %s, got %u %s", (int)text.len, text.at, status, why,
                 o.fault.status, o.fault.text ? o.fault.text : "nothing");
    outcome_done(&o);
}

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++)
        expect_refused(span_of(REFUSED[i].text, REFUSED[i].len), REFUSED[i].status, REFUSED[i].why);
}

static void fields_that_belong_in_the_head(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Authorization",
        "Connection",
        "Content-Encoding",
        "Content-Length",
        "Content-Range",
        "Cookie",
        "Content-Type",
        "Expect",
        "Host",
        "Origin",
        "Idempotency-Key",
        "Keep-Alive",
        "Trailer",
        "TE",
        "Proxy-Authorization",
        "Upgrade",
        "Transfer-Encoding",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char text[256];
        int len = snprintf(text, sizeof text, CHUNKED "0\r\nX: y\r\n%s: 1\r\n\r\n", names[i]);
        expect_refused(span_of(text, (size_t)len), 400, "not in a trailer");
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */

static unsigned status_of(const struct request_text *s)
{
    struct outcome o;
    outcome_agreed(&o, span_of(s->text, s->len), &LIMITS);
    unsigned status = o.kind == OUTCOME_WHOLE ? 200 : o.fault.status;
    outcome_done(&o);
    return status;
}

static void body_limit(void **state)
{
    (void)state;
    struct request_text s;
    for (unsigned n = 999; n <= 1001; n++) {
        char size[16];
        s.len = 0;
        snprintf(size, sizeof size, "%u\r\n\r\n", n);
        request_add(&s, PLAIN);
        request_add(&s, size);
        request_fill(&s, 'a', n);
        assert_int_equal(status_of(&s), n <= 1000 ? 200 : 413);

        s.len = 0;
        request_add(&s, CHUNKED "1\r\na\r\n");
        snprintf(size, sizeof size, "%x\r\n", n - 1);
        request_add(&s, size);
        request_fill(&s, 'a', n - 1);
        request_add(&s, "\r\n0\r\n\r\n");
        assert_int_equal(status_of(&s), n <= 1000 ? 200 : 413);
    }
}

static void chunk_line_limit(void **state)
{
    (void)state;
    struct request_text s;
    for (size_t n = HTTP_CHUNK_LINE_MAX - 1; n <= HTTP_CHUNK_LINE_MAX + 1; n++) {
        s.len = 0;
        request_add(&s, CHUNKED "1;"); /* each line is counted for itself */
        request_fill(&s, 'x', HTTP_CHUNK_LINE_MAX - 2);
        request_add(&s, "\r\na\r\n0;");
        request_fill(&s, 'x', n - 2);
        request_add(&s, "\r\n\r\n");
        assert_int_equal(status_of(&s), n <= HTTP_CHUNK_LINE_MAX ? 200 : 400);
    }
}

static void trailers_limit(void **state)
{
    (void)state;
    struct request_text s;
    for (size_t n = LIMITS.head_bytes - 1; n <= LIMITS.head_bytes + 1; n++) {
        s.len = 0;
        request_add(&s, CHUNKED "0\r\nA: b\r\nC:");
        request_fill(&s, 'x', n - 6);
        request_add(&s, "\r\n\r\n");
        assert_int_equal(status_of(&s), n <= LIMITS.head_bytes ? 200 : 431);
        s.len = 0;
        request_add(&s, CHUNKED "0\r\nA: b\r\n");
        request_fill(&s, 'x', n - 6);
        request_add(&s, ":d\r\n\r\n");
        assert_int_equal(status_of(&s), n <= LIMITS.head_bytes ? 200 : 431);
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void init(struct http_body *b, const char *request)
{
    struct http_head head;
    struct http_fault fault;
    assert_true(http_head_parse(span_text(request), 0, &LIMITS, &head, &fault) > 0);
    http_body_init(b, &head);
}

static void nothing_to_feed(void **state)
{
    (void)state;
    struct http_body b;
    struct buf out;
    struct http_fault fault;
    struct span in = {0};
    bool done = false;
    buf_init(&out);
    init(&b, "GET / HTTP/1.0\r\n\r\n");
    assert_int_equal(http_body_feed(&b, &in, &LIMITS, &out, &done, &fault), 0);
    assert_true(done);
    in = SPAN_LITERAL("next");
    assert_int_equal(http_body_feed(&b, &in, &LIMITS, &out, &done, &fault), 0);
    assert_true(done);
    assert_int_equal(in.len, 4);

    init(&b, PLAIN "1001\r\n\r\n");
    in = (struct span){0};
    assert_int_equal(http_body_feed(&b, &in, &LIMITS, &out, &done, &fault), -ERR_SYNTAX);
    assert_false(done);
    assert_int_equal(fault.status, 413);

    init(&b, CHUNKED);
    assert_int_equal(http_body_feed(&b, &in, &LIMITS, &out, &done, &fault), 0);
    assert_false(done);
    buf_done(&out);
}

#define X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X256 X64 X64 X64 X64

/* Feeds with the nth allocation failing and, when it did, once more. */
static bool feed_short_of_memory(const char *head, struct span in, long nth)
{
    struct http_body b;
    struct buf out;
    struct http_fault fault;
    bool done;
    buf_init(&out);
    init(&b, head);
    mem_fail_at(nth, 0);
    int err = http_body_feed(&b, &in, &LIMITS, &out, &done, &fault);
    mem_fail_at(0, 0);
    assert_true(err == 0 || err == -ERR_NOMEM);
    if (err < 0)
        assert_int_equal(http_body_feed(&b, &in, &LIMITS, &out, &done, &fault), 0);
    assert_true(done);
    assert_true(span_equal(in, SPAN_LITERAL("next")));
    assert_true(span_equal(buf_span(&out), SPAN_LITERAL("hello" X256)));
    buf_done(&out);
    return err < 0;
}

/* When memory is back, the same call goes on where it was. */
static void memory_runs_out(void **state)
{
    (void)state;
    long nth = 1;
    while (feed_short_of_memory(PLAIN "261\r\n\r\n", SPAN_LITERAL("hello" X256 "next"), nth))
        nth++;
    assert_true(nth > 1);
    nth = 1;
    while (feed_short_of_memory(
        CHUNKED, SPAN_LITERAL("5\r\nhello\r\n100\r\n" X256 "\r\n0\r\n\r\nnext"), nth))
        nth++;
    assert_true(nth > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted),        cmocka_unit_test(beginnings_wait),
        cmocka_unit_test(refused),         cmocka_unit_test(fields_that_belong_in_the_head),
        cmocka_unit_test(body_limit),      cmocka_unit_test(chunk_line_limit),
        cmocka_unit_test(trailers_limit),  cmocka_unit_test(nothing_to_feed),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
