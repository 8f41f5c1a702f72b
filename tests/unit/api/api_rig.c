/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/api/api_rig.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/problems/problem.h"
#include "unit/http/http_rig.h"

static void figures_cb(void *ctx, struct http_server_figures *ret)
{
    struct api_rig *r = ctx;
    http_server_figures(r->http, ret);
}

void api_rig_init(struct api_rig *r, const char *url)
{
    struct err_note note = {""};
    struct http_server_config http;
    size_t count;
    *r = (struct api_rig){0};
    broker_rig_init(&r->broker, url);
    http_server_config_default(&http);
    http.net.loop = &r->broker.loop;
    http.problem = problem_of_server;
    assert_int_equal(http_server_new(&http, &r->http), 0);
    struct native_config native = {.loop = &r->broker.loop,
                                   .broker = r->broker.broker,
                                   .version = "1.2.3",
                                   .commit = "abc",
                                   .http_figures = figures_cb,
                                   .http_ctx = r};
    assert_int_equal(native_open(&native, &r->native), 0);
    const struct http_route *routes = native_routes(&count);
    http_server_routes(r->http, routes, count, r->native);
    if (http_server_listen(r->http, "127.0.0.1:0", &note) != 0)
        fail_msg("%s", note.text);
}

static void flag_cb(void *ctx)
{
    *(bool *)ctx = true;
}

void api_rig_done(struct api_rig *r)
{
    native_drain(r->native);
    http_server_close(r->http, flag_cb, &r->http_closed);
    API_UNTIL(r, r->http_closed);
    native_close(r->native, flag_cb, &r->native_closed);
    API_UNTIL(r, r->native_closed);
    broker_rig_done(&r->broker);
}

void api_rig_turn(struct api_rig *r)
{
    uv_run(&r->broker.loop, UV_RUN_NOWAIT);
}

/* ---- clients ---- */

void api_open(struct api_rig *r, struct api_client *c)
{
    *c = (struct api_client){.fd = client_connect(http_server_address(r->http, 0))};
    assert_true(c->fd >= 0);
}

void api_close(struct api_client *c)
{
    close(c->fd);
    free(c->data);
    *c = (struct api_client){.fd = -1};
}

void api_send(struct api_rig *r, struct api_client *c, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = send(c->fd, text, len, MSG_NOSIGNAL);
        assert_true(n > 0 || errno == EAGAIN);
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
        api_rig_turn(r);
    }
}

void api_request(struct api_rig *r, struct api_client *c, const char *line, const char *headers,
                 const char *body, size_t len)
{
    char head[2048];
    int n = snprintf(head, sizeof head,
                     "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n%s\r\n", line, len,
                     headers);
    assert_true(n > 0 && (size_t)n < sizeof head);
    api_send(r, c, head, (size_t)n);
    api_send(r, c, body, len);
}

static bool poll_client(struct api_client *c)
{
    if (c->room - c->len < 65536) {
        c->room = c->room * 2 + 131072;
        c->data = realloc(c->data, c->room);
        assert_non_null(c->data);
    }
    ssize_t n = c->eof ? 0 : recv(c->fd, c->data + c->len, 65535, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        c->eof = true;
    if (n > 0)
        c->len += (size_t)n;
    c->data[c->len] = '\0';
    return true;
}

bool api_ended(struct api_client *c)
{
    return poll_client(c) && c->eof;
}

void api_until(struct api_rig *r, struct api_client *c, const char *needle)
{
    API_UNTIL(r, poll_client(c) && (strstr(c->data, needle) || c->eof));
    if (!strstr(c->data, needle))
        fail_msg("expected \"%s\", got \"%.300s\"", needle, c->data);
}

void api_answer(struct api_rig *r, struct api_client *c, struct api_answer *ret)
{
    api_until(r, c, "\r\n\r\n");
    size_t head = (size_t)(strstr(c->data, "\r\n\r\n") - c->data) + 4;
    assert_true(head < sizeof ret->head);
    memcpy(ret->head, c->data, head);
    ret->head[head] = '\0';
    ret->status = (unsigned)strtoul(ret->head + 9, NULL, 10);
    const char *length = strstr(ret->head, "Content-Length: ");
    ret->len = length ? strtoul(length + 16, NULL, 10) : 0;
    assert_true(ret->len < sizeof ret->body);
    API_UNTIL(r, poll_client(c) && (c->len >= head + ret->len || c->eof));
    assert_true(c->len >= head + ret->len);
    memcpy(ret->body, c->data + head, ret->len);
    ret->body[ret->len] = '\0';
    memmove(c->data, c->data + head + ret->len, c->len - head - ret->len + 1);
    c->len -= head + ret->len;
}

const struct api_answer *ask_with(struct api_rig *r, const char *line, const char *headers,
                                  const char *body, size_t len)
{
    static struct api_answer answer;
    struct api_client c;
    api_open(r, &c);
    api_request(r, &c, line, headers, body, len);
    api_answer(r, &c, &answer);
    api_close(&c);
    return &answer;
}

const struct api_answer *ask(struct api_rig *r, const char *line, const char *body)
{
    return ask_with(r, line, "", body, strlen(body));
}

void expect(struct api_rig *r, const char *line, const char *body, unsigned status,
            const char *piece)
{
    const struct api_answer *a = ask(r, line, body);
    if (a->status != status || !strstr(a->body, piece))
        fail_msg("%s %s: %u %s; expected %u with %s", line, body, a->status, a->body, status,
                 piece);
    if (a->len > 0)
        assert_int_equal(a->body[a->len - 1], '\n');
}
