/* SPDX-License-Identifier: Apache-2.0 */
/* Webhooks when memory is short: the call that is affected ends, later ones succeed. */
#include "broker/alerts/webhook.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include <cmocka.h>

#include "base/mem.h"

struct rig {
    uv_loop_t loop;
    uv_tcp_t listener;
    struct webhooks *hooks;
    char url[64];
    unsigned served, ended, reached;
    bool closed;
};

struct visit {
    uv_tcp_t tcp;
    uv_write_t write;
    char in[2048];
    size_t len;
    struct rig *rig;
};

static void visit_closed_cb(uv_handle_t *handle)
{
    free(handle->data);
}

static void written_cb(uv_write_t *write, int status)
{
    (void)status;
    uv_close((uv_handle_t *)write->handle, visit_closed_cb);
}

static void room_cb(uv_handle_t *handle, size_t wish, uv_buf_t *ret)
{
    struct visit *v = handle->data;
    (void)wish;
    *ret = uv_buf_init(v->in + v->len, (unsigned)(sizeof v->in - 1 - v->len));
}

static void read_cb(uv_stream_t *stream, ssize_t n, const uv_buf_t *into)
{
    static char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    struct visit *v = stream->data;
    uv_buf_t out = uv_buf_init(answer, sizeof answer - 1);
    (void)into;
    if (n < 0) {
        uv_close((uv_handle_t *)stream, visit_closed_cb);
        return;
    }
    v->len += (size_t)n;
    if (!strstr(v->in, "the body"))
        return;
    v->rig->served++;
    uv_read_stop(stream);
    assert_int_equal(uv_write(&v->write, stream, &out, 1, written_cb), 0);
}

static void visit_cb(uv_stream_t *listener, int status)
{
    struct visit *v = calloc(1, sizeof *v);
    assert_int_equal(status, 0);
    assert_non_null(v);
    v->rig = listener->data;
    v->tcp.data = v;
    assert_int_equal(uv_tcp_init(listener->loop, &v->tcp), 0);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&v->tcp), 0);
    v->tcp.data = v;
    assert_int_equal(uv_read_start((uv_stream_t *)&v->tcp, room_cb, read_cb), 0);
}

static void rig_open(struct rig *r)
{
    static const struct webhook_policy policy = {.allow_private = true, .timeout_ms = 5000};
    struct sockaddr_in at;
    int len = sizeof at;
    *r = (struct rig){.served = 0};
    assert_int_equal(uv_loop_init(&r->loop), 0);
    assert_int_equal(uv_tcp_init(&r->loop, &r->listener), 0);
    r->listener.data = r;
    assert_int_equal(uv_ip4_addr("127.0.0.1", 0, &at), 0);
    assert_int_equal(uv_tcp_bind(&r->listener, (struct sockaddr *)&at, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&r->listener, 16, visit_cb), 0);
    assert_int_equal(uv_tcp_getsockname(&r->listener, (struct sockaddr *)&at, &len), 0);
    snprintf(r->url, sizeof r->url, "http://127.0.0.1:%u/told", ntohs(at.sin_port));
    assert_int_equal(webhooks_open(&r->loop, &policy, &r->hooks), 0);
}

static void closed_cb(void *ctx)
{
    ((struct rig *)ctx)->closed = true;
}

static void rig_close(struct rig *r)
{
    webhooks_close(r->hooks, closed_cb, r);
    uv_close((uv_handle_t *)&r->listener, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_true(r->closed);
    assert_int_equal(uv_loop_close(&r->loop), 0);
}

static void done_cb(void *ctx, const struct webhook_result *result)
{
    struct rig *r = ctx;
    r->ended++;
    r->reached += result->status == 200;
    assert_true(result->status == 200 || result->error);
}

static int send_one(struct rig *r)
{
    const struct webhook_post post = {
        .url = span_text(r->url), .body = SPAN_LITERAL("the body"), .done = done_cb, .ctx = r};
    return webhooks_send(r->hooks, &post);
}

static void run_until(struct rig *r, unsigned ended)
{
    while (r->ended < ended)
        uv_run(&r->loop, UV_RUN_ONCE);
}

static void short_of_memory_once(void **state)
{
    struct rig r;
    unsigned failed = 0;
    (void)state;
    rig_open(&r);
    for (long nth = 1; nth <= 12; nth++) {
        unsigned ended = r.ended, reached = r.reached;
        mem_fail_at(nth, 0);
        bool sent = send_one(&r) == 0;
        run_until(&r, ended + sent);
        mem_fail_at(0, 0);
        failed += r.reached == reached;
        ended = r.ended;
        reached = r.reached;
        assert_int_equal(send_one(&r), 0);
        run_until(&r, ended + 1);
        assert_int_equal(r.reached, reached + 1); /* what failed before is over */
    }
    assert_true(failed >= 3); /* the call, its text, its socket */
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_of_memory_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
