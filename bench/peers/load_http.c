/* SPDX-License-Identifier: Apache-2.0 */
/* Holdfast's native API: enqueue, claim that waits, ack; one job a request, or arrays of depth. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "load.h"

#define WAIT_MS 60000

static void hello(struct load_conn *c)
{
    load_up(c);
}

/* The head contains the length of the body, so the body is built first; in `held` of a producer,
 * which holds nothing, or in a buffer of the caller's. */
static void request(struct load_conn *c, const char *path, const char *last, struct buf *body)
{
    load_text(&c->out, "POST /v1/");
    load_text(&c->out, path);
    load_text(&c->out, last);
    load_text(&c->out, " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       "Content-Length: ");
    load_number(&c->out, body->len);
    load_text(&c->out, "\r\n\r\n");
    load_bytes(&c->out, body->data, body->len);
}

static void queue_request(struct load_conn *c, const char *what, struct buf *body)
{
    char path[300];
    snprintf(path, sizeof path, "queues/%s", load_options(c)->queue);
    request(c, path, what, body);
}

static void job(struct load_conn *c, struct buf *b)
{
    const struct load_options *o = load_options(c);
    load_text(b, "{\"payload\":\"");
    load_payload(c, b);
    load_text(b, "\"");
    if (o->priorities > 1) {
        load_text(b, ",\"priority\":");
        load_number(b, load_priority(c->load));
    }
    if (o->delay_s > 0) {
        load_text(b, ",\"delay_ms\":");
        load_number(b, (uint64_t)o->delay_s * 1000);
    }
    load_text(b, "}");
}

static void put(struct load_conn *c, unsigned jobs)
{
    struct buf *body = &c->held;
    bool one = load_options(c)->depth == 1;
    buf_clear(body);
    for (unsigned i = 0; i < jobs; i++) {
        if (!one)
            load_text(body, i > 0 ? "," : "[");
        job(c, body);
    }
    if (!one)
        load_text(body, "]");
    queue_request(c, "/jobs", body);
    c->tag = jobs;
}

static void take(struct load_conn *c, unsigned jobs)
{
    struct buf body;
    buf_init(&body);
    load_format(&body, "{\"count\":%u,\"wait_ms\":%d}", jobs, WAIT_MS);
    queue_request(c, "/claim", &body);
    buf_done(&body);
    c->asked = jobs;
}

/* `held` has the list for a batch: {"id":…,"token":…},… */
static void settle(struct load_conn *c)
{
    struct buf body;
    buf_init(&body);
    load_text(&body, "{\"jobs\":[");
    load_bytes(&body, c->held.data, c->held.len);
    load_text(&body, "]}");
    request(c, "ack", "", &body);
    buf_done(&body);
}

/* ---- answers ---- */

static size_t length_of(const char *head, size_t len)
{
    for (size_t at = 0, line; (line = load_line(head + at, len - at)) > 2; at += line)
        if (line > 15 && strncasecmp(head + at, "content-length:", 15) == 0)
            return strtoull(head + at + 15, NULL, 10);
    load_unexpected("a request", head, len);
}

static unsigned occurrences(const char *at, size_t len, const char *mark)
{
    size_t n = strlen(mark);
    unsigned count = 0;
    const char *end = at + len, *found;
    while ((found = memmem(at, (size_t)(end - at), mark, n))) {
        count++;
        at = found + n;
    }
    return count;
}

/* The text after `mark`, up to its quote; advances *at past it. */
static bool member(const char **at, const char *end, const char *mark, struct span *ret)
{
    size_t n = strlen(mark);
    const char *found = memmem(*at, (size_t)(end - *at), mark, n);
    const char *close = found ? memchr(found + n, '"', (size_t)(end - found) - n) : NULL;
    if (!close)
        return false;
    *ret = span_of(found + n, (size_t)(close - found) - n);
    *at = close;
    return true;
}

static void claimed(struct load_conn *c, const char *body, size_t len)
{
    const char *at = body, *end = body + len;
    struct span id, token, payload;
    c->asked = 0;
    while (member(&at, end, "\"id\":\"", &id)) {
        if (!member(&at, end, "\"token\":\"", &token) ||
            !member(&at, end, "\"payload\":\"", &payload))
            load_unexpected("a claim", body, len);
        load_received(c, payload.at, payload.len);
        load_text(&c->held, c->held_jobs > 0 ? ",{\"id\":\"" : "{\"id\":\"");
        load_bytes(&c->held, id.at, id.len);
        load_text(&c->held, "\",\"token\":\"");
        load_bytes(&c->held, token.at, token.len);
        load_text(&c->held, "\"}");
        c->held_jobs++;
    }
}

/* Replies arrive in order: an ack that is under way was sent before the claim. */
static void answered(struct load_conn *c, const char *body, size_t len)
{
    bool put_answer = c->role == LOAD_PRODUCER;
    if (!put_answer && c->settling == 0) {
        claimed(c, body, len);
        return;
    }
    unsigned jobs = occurrences(body, len, put_answer ? "\"created\":true" : "\"state\":\"done\"");
    if (jobs != (put_answer ? c->tag : c->settling))
        load_unexpected(put_answer ? "an enqueue" : "an ack", body, len);
    if (put_answer)
        load_confirmed(c, jobs);
    else
        load_settled(c, jobs);
}

static size_t hear(struct load_conn *c, const char *at, size_t len)
{
    const char *end = memmem(at, len, "\r\n\r\n", 4);
    if (!end)
        return 0;
    size_t head = (size_t)(end - at) + 4, body = length_of(at, head);
    if (len < head + body)
        return 0;
    if (!load_begins(at, len, "HTTP/1.1 200") && !load_begins(at, len, "HTTP/1.1 201"))
        load_unexpected("a request", at, head + body);
    answered(c, at + head, body);
    return head + body;
}

const struct load_protocol load_http = {
    .name = "http", .put_batched = true, .take_batched = true, LOAD_FUNCTIONS};

/* ---- /healthz: a request that touches no store, beside which an enqueue is measured ---- */

static void health_put(struct load_conn *c, unsigned jobs)
{
    c->tag = jobs;
    for (; jobs > 0; jobs--)
        load_text(&c->out, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

static size_t health_hear(struct load_conn *c, const char *at, size_t len)
{
    const char *end = memmem(at, len, "\r\n\r\n", 4);
    size_t head = end ? (size_t)(end - at) + 4 : 0, body = end ? length_of(at, head) : 0;
    if (!end || len < head + body)
        return 0;
    if (!load_begins(at, len, "HTTP/1.1 200"))
        load_unexpected("/healthz", at, head + body);
    load_confirmed(c, 1);
    return head + body;
}

static void health_take(struct load_conn *c, unsigned jobs)
{
    (void)c;
    (void)jobs;
    load_fail("healthz has no consumers");
}

const struct load_protocol load_healthz = {.name = "healthz",
                                           .hello = hello,
                                           .hear = health_hear,
                                           .put = health_put,
                                           .take = health_take,
                                           .settle = settle};
