/* SPDX-License-Identifier: Apache-2.0 */
/* The server's own answers: refusals as problem documents, and OPTIONS. */
#include <string.h>

#include "base/check.h"
#include "http/server_impl.h"

struct refusal_kind {
    unsigned status;
    const char *type; /* a name for programs */
    const char *title;
};
static const struct refusal_kind kinds[] = {
    {400, "bad_request", "The request is malformed"},
    {403, "forbidden", "The request is not allowed"},
    {404, "not_found", "There is nothing at this path"},
    {405, "method_not_allowed", "The method is not allowed here"},
    {408, "request_timeout", "The request took too long"},
    {413, "body_too_large", "The body is too large"},
    {414, "uri_too_long", "The path and query are too long"},
    {417, "expectation_failed", "The expectation cannot be met"},
    {421, "misdirected", "The request is for another host"},
    {431, "head_too_large", "The headers are too large"},
    {501, "not_implemented", "The method is not known"},
    {503, "unavailable", "The server cannot do this now"},
    {505, "version_not_supported", "The HTTP version is not supported"},
};
static const struct refusal_kind other_kind = {0, "refused", "The request was refused"};

static const struct refusal_kind *kind_of(unsigned status)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].status == status)
            return &kinds[i];
    return &other_kind;
}

static void allow_header(struct http_exchange *x)
{
    char text[ROUTER_ALLOW_BYTES];
    http_answer_header(x, "Allow", router_allow_text(x->allow, text));
}

static void plain_text(struct http_exchange *x, unsigned status, const char *detail)
{
    struct buf *b = http_answer_body(x);
    bool whole = buf_append_text(b, detail) == 0 && buf_append_text(b, "\n") == 0;
    http_answer(x, status, whole ? "text/plain; charset=utf-8" : NULL);
}

void refusal_send(struct http_exchange *x, unsigned status, const char *detail)
{
    const struct refusal_kind *kind = kind_of(status);
    x->state = EXCHANGE_OPEN;
    if (status == 405)
        allow_header(x);
    if (status == 503)
        http_answer_header(x, "Retry-After", SPAN_LITERAL("1"));
    if (!x->server->config.problem) {
        plain_text(x, status, detail);
        return;
    }
    x->server->config.problem(x, status, kind->type, kind->title, detail);
    CHECK(x->state == EXCHANGE_ANSWERED);
}

/* A preflight request at this point has an allowed origin: guard.c has refused the others. */
void refusal_options(struct http_exchange *x)
{
    char text[ROUTER_ALLOW_BYTES];
    x->state = EXCHANGE_OPEN;
    allow_header(x);
    if (x->origin.len > 0) {
        http_answer_header(x, "Access-Control-Allow-Methods", router_allow_text(x->allow, text));
        http_answer_header(x, "Access-Control-Allow-Headers",
                           SPAN_LITERAL("Content-Type, Authorization, Idempotency-Key"));
        http_answer_header(x, "Access-Control-Max-Age", SPAN_LITERAL("600"));
    }
    http_answer(x, 204, NULL);
}
