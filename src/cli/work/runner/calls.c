/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/runner/calls.h"

#include <stdio.h>
#include <string.h>

#include "base/containers/link.h"
#include "base/mem.h"
#include "broker/alerts/curl_loop.h"
#include "cli/client/http/http_curl.h"

#define CONNECT_MS 5000L

struct calls {
    struct curl_loop curl;
    struct link all;
};

struct call {
    struct link link;
    struct calls *owner;
    CURL *curl;
    struct curl_slist *headers;
    struct buf request; /* the body that is sent */
    struct buf reply;
    uint64_t reply_bytes;
    size_t body_max, read_max;
    bool too_long; /* the reply was longer than read_max */
    char error[CURL_ERROR_SIZE];
    call_done_fn done;
    void *ctx;
};

/* ---- the request ---- */

static void call_free(struct call *c)
{
    if (c->curl) {
        curl_multi_remove_handle(c->owner->curl.multi, c->curl);
        curl_easy_cleanup(c->curl);
    }
    curl_slist_free_all(c->headers);
    buf_done(&c->request);
    buf_done(&c->reply);
    link_remove(&c->link);
    mem_free(c);
}

static size_t body_cb(char *bytes, size_t size, size_t count, void *ctx)
{
    struct call *c = ctx;
    size_t len = size * count;
    size_t room = c->reply.len < c->body_max ? c->body_max - c->reply.len : 0;
    c->reply_bytes += len;
    if (buf_append(&c->reply, bytes, len < room ? len : room) < 0)
        return 0;
    c->too_long = c->reply_bytes > c->read_max;
    return c->too_long ? 0 : len;
}

static bool header_add(struct call *c, const char *line)
{
    struct curl_slist *longer = curl_slist_append(c->headers, line);
    if (longer)
        c->headers = longer;
    return longer != NULL;
}

/* libcurl leaves a header without a value out, unless it ends in `;` instead of `:`. */
static bool request_header_add(struct call *c, const char *line)
{
    char name[256];
    size_t len = strcspn(line, ":");
    bool empty = line[len] == ':' && line[len + 1 + strspn(line + len + 1, " ")] == '\0';
    if (!empty || len + 2 > sizeof name)
        return header_add(c, line);
    snprintf(name, sizeof name, "%.*s;", (int)len, line);
    return header_add(c, name);
}

static bool headers_build(struct call *c, const struct call_request *r)
{
    char type[128];
    snprintf(type, sizeof type, "Content-Type: %s",
             r->content_type ? r->content_type : "application/json");
    bool good = header_add(c, "Expect:") && header_add(c, type) && header_add(c, "Accept: */*");
    for (size_t i = 0; good && i < r->header_count; i++)
        good = request_header_add(c, r->headers[i]);
    return good;
}

#define SET(option, value) (good = good && curl_easy_setopt(curl, (option), (value)) == CURLE_OK)

static bool address_set(CURL *curl, const char *url)
{
    bool good = true;
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_USERAGENT, "holdfast");
    SET(CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    return good;
}

static bool request_set(struct call *c, const struct call_request *r)
{
    CURL *curl = c->curl;
    bool good = r->server ? client_curl_address(r->server, curl, r->target) == 0
                          : address_set(curl, r->target);
    SET(CURLOPT_PRIVATE, c);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_HTTPHEADER, c->headers);
    SET(CURLOPT_ERRORBUFFER, c->error);
    SET(CURLOPT_WRITEFUNCTION, body_cb);
    SET(CURLOPT_WRITEDATA, c);
    SET(CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
    SET(CURLOPT_FRESH_CONNECT, r->fresh ? 1L : 0L);
    if (r->method && strcmp(r->method, "GET") == 0)
        return good;
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->request.len);
    SET(CURLOPT_POSTFIELDS, c->request.len > 0 ? c->request.data : "");
    return good;
}

struct call *calls_send(struct calls *owner, const struct call_request *r)
{
    struct call *c = mem_zalloc(sizeof *c);
    if (!c)
        return NULL;
    c->owner = owner;
    c->body_max = r->body_max;
    c->read_max = r->read_max ? r->read_max : r->body_max;
    c->done = r->done;
    c->ctx = r->ctx;
    buf_init(&c->request);
    buf_init(&c->reply);
    link_init(&c->link);
    link_append(&owner->all, &c->link);
    c->curl = curl_easy_init();
    if (c->curl && buf_append_span(&c->request, r->body) == 0 && headers_build(c, r) &&
        request_set(c, r) && curl_multi_add_handle(owner->curl.multi, c->curl) == CURLM_OK)
        return c;
    call_free(c);
    return NULL;
}

void call_cancel(struct call *c)
{
    call_free(c);
}

/* ---- the reply ---- */

static void call_finish(void *call, CURLcode code)
{
    struct call *c = call;
    struct call_reply reply = {.body = buf_span(&c->reply), .body_bytes = c->reply_bytes};
    curl_off_t seconds = 0, length = 0;
    char *type = NULL;
    bool cut = c->too_long && c->read_max > c->body_max; /* enough was read */
    if (code == CURLE_OK || cut) {
        curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &reply.status);
        curl_easy_getinfo(c->curl, CURLINFO_RETRY_AFTER, &seconds);
        curl_easy_getinfo(c->curl, CURLINFO_CONTENT_TYPE, &type);
        curl_easy_getinfo(c->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
        if (length > (curl_off_t)reply.body_bytes)
            reply.body_bytes = (uint64_t)length; /* not all of it was read */
        reply.content_type = type;
        reply.retry_after_ms = seconds > 0 && seconds < INT32_MAX ? seconds * 1000 : 0;
    } else {
        reply.error = c->too_long ? "the reply is too long" : client_curl_why(code, c->error);
    }
    /* The connection is free before the callback, which may send the next request on it. */
    curl_multi_remove_handle(c->owner->curl.multi, c->curl);
    c->done(c->ctx, &reply);
    call_free(c);
}

/* ---- open and close ---- */

int calls_open(uv_loop_t *loop, struct calls **ret)
{
    struct calls *owner = mem_zalloc(sizeof *owner);
    if (owner)
        owner->curl.done = call_finish;
    if (!owner || curl_loop_open(&owner->curl, loop) < 0) {
        mem_free(owner);
        return -ERR_NOMEM;
    }
    link_init(&owner->all);
    *ret = owner;
    return 0;
}

static void closed_cb(struct curl_loop *l)
{
    mem_free((char *)l - offsetof(struct calls, curl));
}

void calls_close(struct calls *owner)
{
    while (!link_alone(&owner->all))
        call_free(LINK_OWNER(owner->all.next, struct call, link));
    curl_loop_close(&owner->curl, closed_cb);
}
