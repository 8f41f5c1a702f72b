/* SPDX-License-Identifier: Apache-2.0 */
/* Routes: what matches what, and which methods a path has. */
#include "unit/base/support.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "http/router.h"

static void handler(void *ctx, struct http_exchange *x)
{
    (void)ctx;
    (void)x;
}

#define ROW(method, pattern, flags)                                                                \
    {                                                                                              \
        method, pattern, handler, SCOPE_OPEN, flags, ""                                            \
    }
static const struct http_route rows[] = {
    ROW(HTTP_GET, "/", 0),
    ROW(HTTP_GET, "/v1/queues", 0),
    ROW(HTTP_GET, "/v1/queues/{queue}", 0),
    ROW(HTTP_PUT, "/v1/queues/{queue}", 0),
    ROW(HTTP_DELETE, "/v1/queues/{queue}", 0),
    ROW(HTTP_POST, "/v1/queues/{queue}/jobs", 0),
    ROW(HTTP_DELETE, "/v1/queues/{queue}/jobs/{id}", 0),
    ROW(HTTP_GET, "/v1/queues/{queue}/jobs", 0),
    ROW(HTTP_PATCH, "/a/{b}/{c}/{d}/{e}", 0),
    ROW(HTTP_GET, "/claim", ROUTE_UNSAFE),
};

static void fill(struct router *r)
{
    router_init(r);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(router_add(r, &rows[i], (void *)(uintptr_t)(i + 1)), 0);
}

static void finds(void **state)
{
    (void)state;
    static const struct {
        enum http_method method;
        const char *path;
        int row; /* -1: none */
        const char *allow;
        const char *first;
    } cases[] = {
        {HTTP_GET, "/", 0, "GET, HEAD, OPTIONS", NULL},
        {HTTP_HEAD, "/", 0, "GET, HEAD, OPTIONS", NULL},
        {HTTP_GET, "/v1/queues", 1, "GET, HEAD, OPTIONS", NULL},
        {HTTP_GET, "/v1/queues/", -1, "", NULL},
        {HTTP_GET, "/v1/queues/mail", 2, "GET, HEAD, PUT, DELETE, OPTIONS", "mail"},
        {HTTP_PUT, "/v1/queues/a%2Fb", 3, "GET, HEAD, PUT, DELETE, OPTIONS", "a%2Fb"},
        {HTTP_PATCH, "/v1/queues/mail", -1, "GET, HEAD, PUT, DELETE, OPTIONS", NULL},
        {HTTP_OTHER, "/v1/queues/mail", -1, "GET, HEAD, PUT, DELETE, OPTIONS", NULL},
        {HTTP_POST, "/v1/queues/mail/jobs", 5, "GET, HEAD, POST, OPTIONS", "mail"},
        {HTTP_POST, "/v1/queues//jobs", -1, "", NULL},
        {HTTP_POST, "/v1/queues/mail/jobs/", -1, "", NULL},
        {HTTP_POST, "/v1/queues/mail/job", -1, "", NULL},
        {HTTP_GET, "/v1/%71ueues", -1, "", NULL},
        {HTTP_PATCH, "/a/1/2/3/4", 8, "PATCH, OPTIONS", "1"},
        {HTTP_PATCH, "/a/1/2/3", -1, "", NULL},
        {HTTP_PATCH, "/a/1/2/3/4/5", -1, "", NULL},
        {HTTP_GET, "/claim", 9, "GET, OPTIONS", NULL},
        {HTTP_HEAD, "/claim", -1, "GET, OPTIONS", NULL},
        {HTTP_OPTIONS, "*", -1, "", NULL},
        {HTTP_GET, "", -1, "", NULL},
        {HTTP_GET, "//", -1, "", NULL},
        {HTTP_GET, "/////////////////////////////////", -1, "", NULL},
    };
    struct router r;
    fill(&r);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct route_match m;
        char text[ROUTER_ALLOW_BYTES];
        router_find(&r, cases[i].method, span_text(cases[i].path), &m);
        const struct http_route *want = cases[i].row < 0 ? NULL : &rows[cases[i].row];
        if (m.route != want ||
            !span_equal(router_allow_text(m.allow, text), span_text(cases[i].allow)))
            fail_msg("%s finds %s, allows %.*s", cases[i].path, m.route ? m.route->pattern : "none",
                     (int)router_allow_text(m.allow, text).len, text);
        if (want)
            assert_int_equal((uintptr_t)m.ctx, cases[i].row + 1);
        if (cases[i].first)
            assert_true(span_equal(m.params[0], span_text(cases[i].first)));
    }
    router_done(&r);
}

static void params_in_order(void **state)
{
    (void)state;
    struct router r;
    struct route_match m;
    fill(&r);
    router_find(&r, HTTP_PATCH, SPAN_LITERAL("/a/w/x/y/z"), &m);
    for (size_t i = 0; i < HTTP_PATH_PARAMS_MAX; i++)
        assert_true(span_equal(m.params[i], span_of(&"wxyz"[i], 1)));
    assert_int_equal(router_methods(&r), 1u << HTTP_GET | 1u << HTTP_HEAD | 1u << HTTP_POST |
                                             1u << HTTP_PUT | 1u << HTTP_PATCH | 1u << HTTP_DELETE |
                                             1u << HTTP_OPTIONS);
    router_done(&r);
}

/* A fixed segment and a {name} at the same place, for different methods: both are looked at. */
static void overlap_of_methods(void **state)
{
    (void)state;
    static const struct http_route two[] = {ROW(HTTP_GET, "/q/{x}/tail", 0),
                                            ROW(HTTP_POST, "/q/all/{y}", 0)};
    struct router r;
    struct route_match m;
    router_init(&r);
    assert_int_equal(router_add(&r, &two[0], NULL), 0);
    assert_int_equal(router_add(&r, &two[1], NULL), 0);
    router_find(&r, HTTP_GET, SPAN_LITERAL("/q/all/tail"), &m);
    assert_ptr_equal(m.route, &two[0]);
    assert_true(span_equal(m.params[0], SPAN_LITERAL("all")));
    router_find(&r, HTTP_POST, SPAN_LITERAL("/q/all/tail"), &m);
    assert_ptr_equal(m.route, &two[1]);
    assert_true(span_equal(m.params[0], SPAN_LITERAL("tail")));
    assert_true(m.allow & 1u << HTTP_GET);
    router_done(&r);
}

/* The same for one method: the fixed segment is meant, with its own flags. */
static void fixed_goes_first(void **state)
{
    (void)state;
    static const struct http_route rows_in_both_orders[] = {ROW(HTTP_GET, "/q/{x}", 0),
                                                            ROW(HTTP_GET, "/q/next", ROUTE_UNSAFE),
                                                            ROW(HTTP_DELETE, "/q/{x}", 0)};
    for (int turned = 0; turned < 2; turned++) {
        struct router r;
        struct route_match m;
        router_init(&r);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(router_add(&r, &rows_in_both_orders[turned ? 2 - i : i], NULL), 0);
        router_find(&r, HTTP_GET, SPAN_LITERAL("/q/next"), &m);
        assert_ptr_equal(m.route, &rows_in_both_orders[1]);
        router_find(&r, HTTP_HEAD, SPAN_LITERAL("/q/next"), &m);
        assert_null(m.route);
        assert_false(m.allow & 1u << HTTP_HEAD);
        router_find(&r, HTTP_DELETE, SPAN_LITERAL("/q/next"), &m);
        assert_ptr_equal(m.route, &rows_in_both_orders[2]);
        router_find(&r, HTTP_HEAD, SPAN_LITERAL("/q/other"), &m);
        assert_ptr_equal(m.route, &rows_in_both_orders[0]);
        router_done(&r);
    }
}

/* Whether adding these two rows is a programmer error. */
static bool aborts(const struct http_route *a, const struct http_route *b)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct router r;
        close(2);
        router_init(&r);
        if (router_add(&r, a, NULL) != 0 || (b && router_add(&r, b, NULL) != 0))
            _exit(1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        struct http_route a, b;
        bool wrong;
    } cases[] = {
        {ROW(HTTP_GET, "/a/{x}", 0), ROW(HTTP_GET, "/a/b", 0), false},
        {ROW(HTTP_GET, "/a/{x}", 0), ROW(HTTP_GET, "/a/{y}", 0), true},
        {ROW(HTTP_GET, "/{x}/b", 0), ROW(HTTP_GET, "/a/{y}", 0), false},
        {ROW(HTTP_GET, "/{x}/b", 0), ROW(HTTP_GET, "/{y}/b", 0), true},
        {ROW(HTTP_GET, "/a", 0), ROW(HTTP_GET, "/a", 0), true},
        {ROW(HTTP_GET, "/a/{x}", 0), ROW(HTTP_PUT, "/a/b", 0), false},
        {ROW(HTTP_GET, "/a/{x}", 0), ROW(HTTP_GET, "/a/", 0), false},
        {ROW(HTTP_GET, "/a/{x}", 0), ROW(HTTP_GET, "/b/{x}", 0), false},
        {ROW(HTTP_GET, "/a/{x}", 0), ROW(HTTP_GET, "/a/{x}/c", 0), false},
    };
    static const struct http_route malformed[] = {
        ROW(HTTP_GET, "a", 0),
        ROW(HTTP_GET, "", 0),
        ROW(HTTP_GET, "/{}", 0),
        ROW(HTTP_GET, "/{x", 0),
        ROW(HTTP_HEAD, "/a", 0),
        ROW(HTTP_OPTIONS, "/a", 0),
        ROW(HTTP_GET, "/{a}/{b}/{c}/{d}/{e}", 0),
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(aborts(&cases[i].a, &cases[i].b), cases[i].wrong);
        assert_int_equal(aborts(&cases[i].b, &cases[i].a), cases[i].wrong);
    }
    for (size_t i = 0; i < COUNT_OF(malformed); i++)
        assert_true(aborts(&malformed[i], NULL));
}

static void out_of_memory(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        struct router r;
        struct route_match m;
        router_init(&r);
        mem_fail_at(nth, 0);
        int failed = router_add(&r, &rows[5], NULL);
        mem_fail_at(0, 0);
        router_find(&r, HTTP_POST, SPAN_LITERAL("/v1/queues/q/jobs"), &m);
        assert_int_equal(m.route == NULL, failed != 0);
        router_done(&r);
        if (!failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds),
        cmocka_unit_test(params_in_order),
        cmocka_unit_test(overlap_of_methods),
        cmocka_unit_test(fixed_goes_first),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
