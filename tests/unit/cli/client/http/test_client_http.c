/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP of the client commands: addresses, what is sent, what is not followed, broken servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/client/http/http.h"
#include "unit/cli/client/http/canned.h"

static void addresses_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *server;
        const char *complaint; /* NULL: fine */
    } cases[] = {
        {"http://127.0.0.1:8000", NULL},
        {"http://localhost", NULL},
        {"https://example.org:8443/prefix/", NULL},
        {"unix:/run/holdfast.sock", NULL},
        {"unix:relative", "absolute path"},
        {"ftp://host", "scheme"},
        {"file:///etc/passwd", "address"},
        {"http://user:secret@host", "user name"},
        {"http://host/?x=1", "query"},
        {"http://host/#x", "query or fragment"},
        {"http://", "address"},
        {"", "address"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct client *client = NULL;
        struct err_note note = {""};
        int rc = client_open(&(struct client_endpoint){.server = cases[i].server}, &client, &note);
        assert_int_equal(rc, cases[i].complaint ? -ERR_INVALID : 0);
        if (cases[i].complaint)
            assert_non_null(strstr(note.text, cases[i].complaint));
        assert_null(strstr(note.text, "secret"));
        client_close(rc == 0 ? client : NULL);
    }
}

static void addresses_have_parts(void **state)
{
    (void)state;
    static const struct {
        const char *server, *host, *port, *authority, *prefix;
        bool tls;
    } cases[] = {
        {"http://127.0.0.1:8000", "127.0.0.1", "8000", "127.0.0.1:8000", "", false},
        {"http://localhost/", "localhost", "80", "localhost:80", "", false},
        {"https://[::1]:9/a/b/", "::1", "9", "[::1]:9", "/a/b", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct client *client;
        struct client_address a;
        struct arena arena;
        arena_init(&arena);
        assert_int_equal(
            client_open(&(struct client_endpoint){.server = cases[i].server}, &client, NULL), 0);
        assert_int_equal(client_address_of(client, &arena, &a), 0);
        assert_string_equal(a.host, cases[i].host);
        assert_string_equal(a.port, cases[i].port);
        assert_string_equal(a.authority, cases[i].authority);
        assert_string_equal(a.prefix, cases[i].prefix);
        assert_int_equal(a.tls, cases[i].tls);
        assert_null(a.unix_path);
        client_close(client);
        arena_done(&arena);
    }
}

/* ---- against a server -------------------------------------------------------------------------
 */

struct world {
    struct canned server;
    struct client *client;
    struct client_reply reply;
    struct err_note note;
    char seen[4096]; /* the last request; the call that made it has returned, so it is settled */
    int requests;
};

static bool answer(void *ctx, const char *request, struct buf *out)
{
    struct world *w = ctx;
    snprintf(w->seen, sizeof w->seen, "%s", request);
    w->requests++;
    if (strstr(request, " /moved "))
        return buf_append_text(out, "HTTP/1.1 302 Found\r\nLocation: /other\r\n"
                                    "Content-Length: 0\r\n\r\n") == 0;
    if (strstr(request, " /cut "))
        return buf_append_text(out, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf") < 0;
    if (strstr(request, " /silent "))
        return false;
    if (strstr(request, " /noise "))
        return buf_append_text(out, "hello there\r\n\r\n") < 0;
    if (strstr(request, " /stream "))
        return buf_append_text(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                    "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n") == 0;
    if (strstr(request, " /refused "))
        canned_json(out, 404, "{\"detail\":\"no\"}");
    else
        canned_json(out, 200, "{}");
    return true;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    canned_start(&w->server, NULL, answer, w);
    client_reply_init(&w->reply);
    *state = w;
    return client_open(&(struct client_endpoint){.server = w->server.url}, &w->client, &w->note);
}

static int teardown(void **state)
{
    struct world *w = *state;
    client_close(w->client);
    client_reply_done(&w->reply);
    canned_stop(&w->server);
    free(w);
    return 0;
}

static int ask(struct world *w, struct client_request request)
{
    if (!request.method)
        request.method = "GET";
    return client_call(w->client, &request, &w->reply, &w->note);
}

static void a_request_says_what_it_should(void **state)
{
    struct world *w = *state;
    assert_int_equal(ask(w, (struct client_request){.method = "PUT",
                                                    .path = "/v1/queues/a%2Fb?x=1",
                                                    .body = SPAN_LITERAL("{\"a\":1}"),
                                                    .headers = {"If-None-Match: *"}}),
                     0);
    assert_int_equal(w->reply.status, 200);
    assert_non_null(strstr(w->seen, "PUT /v1/queues/a%2Fb?x=1 HTTP/1.1\r\n"));
    assert_non_null(strstr(w->seen, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(w->seen, "\r\nIf-None-Match: *\r\n"));
    assert_null(strcasestr(w->seen, "\r\nExpect:"));
    assert_non_null(strstr(w->seen, "\r\n\r\n{\"a\":1}"));
    /* Nothing of it is left over in the next. */
    assert_int_equal(ask(w, (struct client_request){.path = "/x"}), 0);
    assert_non_null(strstr(w->seen, "GET /x HTTP/1.1\r\n"));
    assert_null(strstr(w->seen, "If-None-Match"));
    assert_null(strstr(w->seen, "Content-Type"));
    assert_int_equal(ask(w, (struct client_request){.method = "POST", .path = "/y"}), 0);
    assert_non_null(strstr(w->seen, "\r\nContent-Length: 0\r\n"));
    assert_int_equal(ask(w, (struct client_request){.method = "DELETE", .path = "/z"}), 0);
    assert_non_null(strstr(w->seen, "DELETE /z HTTP/1.1\r\n"));
}

static void any_status_is_an_answer(void **state)
{
    struct world *w = *state;
    assert_int_equal(ask(w, (struct client_request){.path = "/refused"}), 0);
    assert_int_equal(w->reply.status, 404);
    assert_true(span_equal(buf_span(&w->reply.body), SPAN_LITERAL("{\"detail\":\"no\"}")));
    assert_true(span_equal(client_reply_header(&w->reply, "content-TYPE"),
                           SPAN_LITERAL("application/problem+json")));
    assert_int_equal(client_reply_header(&w->reply, "Content").len, 0);
}

static void redirects_are_not_followed(void **state)
{
    struct world *w = *state;
    assert_int_equal(ask(w, (struct client_request){.path = "/moved"}), 0);
    assert_int_equal(w->reply.status, 302);
    assert_int_equal(w->requests, 1);
}

static void broken_answers_are_errors(void **state)
{
    struct world *w = *state;
    static const char *const paths[] = {"/cut", "/silent", "/noise"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_int_equal(ask(w, (struct client_request){.path = paths[i]}), -ERR_IO);
        assert_non_null(strstr(w->note.text, "no reply from the server at http://127.0.0.1:"));
    }
    assert_int_equal(ask(w, (struct client_request){.path = "/fine"}), 0);
}

/* The proxy of the environment has a port on which no process listens. */
static void loopback_has_no_proxy(void **state)
{
    struct world *w = *state;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    int rc = ask(w, (struct client_request){.path = "/x"});
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    assert_int_equal(rc, 0);
}

static int piece_cb(void *ctx, struct span piece)
{
    assert_true(span_equal(piece, SPAN_LITERAL("hello")));
    (*(int *)ctx)++;
    return 1;
}

static bool stop_cb(void *ctx)
{
    return *(int *)ctx > 0;
}

static int count_cb(void *ctx, struct span piece)
{
    (void)piece;
    (*(int *)ctx)++;
    return 0;
}

static void a_stream_is_ended_by_its_reader(void **state)
{
    struct world *w = *state;
    int pieces = 0;
    struct client_request request = {.path = "/stream", .on_body = piece_cb, .ctx = &pieces};
    assert_int_equal(ask(w, request), -ERR_CLOSED);
    assert_int_equal(pieces, 1);
    pieces = 0;
    request.on_body = count_cb;
    request.stop = stop_cb;
    assert_int_equal(ask(w, request), -ERR_CLOSED);
    assert_int_equal(pieces, 1);
    /* A refusal is no stream: it is collected. */
    request.path = "/refused";
    pieces = 0;
    assert_int_equal(ask(w, request), 0);
    assert_int_equal(pieces, 0);
    assert_true(w->reply.body.len > 0);
}

static void a_unix_socket_is_a_server(void **state)
{
    struct world *w = *state;
    struct world other = {.requests = 0};
    char dir[] = "/tmp/hf-client-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/sock", dir);
    canned_start(&other.server, path, answer, &other);
    client_reply_init(&other.reply);
    assert_int_equal(client_open(&(struct client_endpoint){.server = other.server.url},
                                 &other.client, &other.note),
                     0);
    assert_int_equal(ask(&other, (struct client_request){.path = "/x"}), 0);
    assert_non_null(strstr(other.seen, "\r\nHost: localhost\r\n"));
    assert_int_equal(w->requests, 0);
    struct client_address a;
    struct arena arena;
    arena_init(&arena);
    assert_int_equal(client_address_of(other.client, &arena, &a), 0);
    assert_string_equal(a.unix_path, path);
    arena_done(&arena);
    client_close(other.client);
    client_reply_done(&other.reply);
    canned_stop(&other.server);
    unlink(path);
    rmdir(dir);
}

static void a_server_that_does_not_listen_is_reported(void **state)
{
    (void)state;
    struct client *client;
    struct client_reply reply;
    struct err_note note = {""};
    client_reply_init(&reply);
    assert_int_equal(
        client_open(&(struct client_endpoint){.server = "http://127.0.0.1:1"}, &client, &note), 0);
    struct client_request request = {.method = "GET", .path = "/"};
    assert_int_equal(client_call(client, &request, &reply, &note), -ERR_IO);
    assert_non_null(strstr(note.text, "http://127.0.0.1:1"));
    client_close(client);
    client_reply_done(&reply);
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(addresses_have_parts),
        SERVED(a_request_says_what_it_should),
        SERVED(any_status_is_an_answer),
        SERVED(redirects_are_not_followed),
        SERVED(broken_answers_are_errors),
        SERVED(loopback_has_no_proxy),
        SERVED(a_stream_is_ended_by_its_reader),
        SERVED(a_unix_socket_is_a_server),
        cmocka_unit_test(a_server_that_does_not_listen_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
