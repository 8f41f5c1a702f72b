/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes: complete rows, and docs/api.md prints the same table. */
#include "unit/base/support.h"

#include <unistd.h>

#include "api/api.h"
#include "api/v1/v1.h"

#define BEGIN "<!-- routes: begin -->\n"
#define END "<!-- routes: end -->"

static void rows_are_complete(void **state)
{
    (void)state;
    size_t count;
    const struct http_route *routes = native_routes(&count);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(routes[i].doc);
        assert_non_null(routes[i].handler);
        assert_int_equal(routes[i].pattern[0], '/');
        assert_true(len > 0 && routes[i].doc[len - 1] == '.' && !strchr(routes[i].doc, '|'));
        for (size_t k = 0; k < i; k++)
            assert_false(routes[k].method == routes[i].method &&
                         strcmp(routes[k].pattern, routes[i].pattern) == 0);
    }
}

/* Health, and the pages that explain problems. */
static bool open_to_all(const char *pattern)
{
    static const char *const patterns[] = {"/healthz", "/readyz", "/problems", "/problems/{code}"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(pattern, patterns[i]) == 0)
            return true;
    return false;
}

/* What claims or changes is never a GET, and nothing else is open to everybody. */
static void scopes_fit_methods(void **state)
{
    (void)state;
    size_t count;
    const struct http_route *routes = native_routes(&count);
    for (size_t i = 0; i < count; i++) {
        bool get = routes[i].method == HTTP_GET;
        if (routes[i].scope == SCOPE_OPEN)
            assert_true(get && open_to_all(routes[i].pattern));
        if (routes[i].scope == SCOPE_PRODUCE || routes[i].scope == SCOPE_CONSUME)
            assert_false(get);
    }
}

static char *read_all(FILE *f)
{
    size_t len = 0, room = 1 << 20;
    char *text = malloc(room);
    assert_non_null(text);
    len = fread(text, 1, room - 1, f);
    text[len] = '\0';
    return text;
}

/* The tree this program was built in: upwards from it. */
static FILE *open_page(void)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 32);
    assert_true(len > 0);
    path[len] = '\0';
    for (char *slash; (slash = strrchr(path, '/'));) {
        memcpy(slash, "/docs/api.md", 13);
        FILE *f = fopen(path, "re");
        if (f)
            return f;
        *slash = '\0';
    }
    fail_msg("docs/api.md is nowhere above this program");
    return NULL;
}

static void the_page_has_this_table(void **state)
{
    (void)state;
    FILE *page = open_page(), *out = tmpfile();
    assert_non_null(out);
    size_t route_count;
    const struct http_route *routes = native_routes(&route_count);
    api_routes_print(out, routes, route_count);
    rewind(out);
    char *table = read_all(out), *text = read_all(page);
    char *at = strstr(text, BEGIN);
    char *end = strstr(text, END);
    assert_true(at && end);
    at += strlen(BEGIN);
    *end = '\0';
    assert_string_equal(at, table);
    free(table);
    free(text);
    fclose(out);
    fclose(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(scopes_fit_methods),
        cmocka_unit_test(the_page_has_this_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
