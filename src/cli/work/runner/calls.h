/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP requests on the loop of the runner, any number at once: libcurl's multi interface on
 * libuv.
 *
 * Redirects are not followed, and only http and https are supported. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "cli/client/http/http.h"

struct calls;
struct call;

struct call_reply {
    long status;              /* 0 = no reply; `error` has the reason */
    const char *error;        /* a sentence; NULL with a status */
    struct span body;         /* the first body_max bytes */
    uint64_t body_bytes;      /* length of the body, as far as it was read or announced */
    int64_t retry_after_ms;   /* of the header Retry-After; 0 = none */
    const char *content_type; /* NULL = none */
};
/* The data of the reply is valid during the call. */
typedef void (*call_done_fn)(void *ctx, const struct call_reply *reply);

struct call_request {
    const struct client *server; /* the request goes to `target`, a path of it; or NULL … */
    const char *method;          /* NULL = POST */
    const char *target;          /* … and this is a URL, which is called without a proxy */
    struct span body;            /* copied */
    const char *content_type;    /* NULL = application/json */
    const char *const *headers;  /* "Name: value"; copied */
    size_t header_count;
    int64_t timeout_ms; /* for the whole call; 0 = no limit */
    bool fresh;         /* uses a new connection: the call before it had no reply */
    size_t body_max;    /* bytes of the reply that are kept */
    size_t read_max;    /* bytes after which the reply is no longer read; 0 = body_max, and a longer
                           one is an error */
    call_done_fn done;
    void *ctx;
};

MUST_CHECK int calls_open(uv_loop_t *loop, struct calls **ret);
/* Cancels calls that are under way; the loop must run until the handles are closed. */
void calls_close(struct calls *c);
/* Calls done once, never before this returns, and not after call_cancel or calls_close. NULL: no
 * memory. */
struct call *calls_send(struct calls *c, const struct call_request *request);
void call_cancel(struct call *c);
