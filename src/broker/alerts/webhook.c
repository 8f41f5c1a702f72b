/* SPDX-License-Identifier: Apache-2.0 */
/* Names are resolved by libuv's threads before libcurl gets the call. */
#include "broker/alerts/webhook.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "broker/alerts/curl_loop.h"
#include "core/alerts/webhook.h"

#define ANSWER_BYTES_MAX ((size_t)1 << 20) /* the rest is not read */
#define HOST_BYTES 256

struct webhooks {
    struct curl_loop curl;
    struct webhook_policy policy;
    uv_idle_t idle; /* ends calls that failed before a connection was opened */
    struct call *first;
    unsigned open; /* of curl and idle, those that are not closed */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

struct call {
    struct webhooks *owner; /* NULL: closed meanwhile; freed when the name resolution ends */
    struct call *prev, *next;
    CURL *curl;
    struct curl_slist *headers, *resolve;
    struct webhook_url url;
    struct ip_address address; /* the address that was checked */
    char host[HOST_BYTES], port[8];
    char *text; /* url and body, each with a NUL */
    size_t body_at, body_len;
    uv_getaddrinfo_t lookup;
    bool looking_up;
    uint64_t begun;     /* loop time */
    size_t answered;    /* bytes of the response */
    const char *failed; /* why no connection could be opened; NULL = not known yet */
    bool ours;          /* … for a reason on this side */
    char error[CURL_ERROR_SIZE + 80];
    void (*done)(void *ctx, const struct webhook_result *result);
    void *ctx;
};

/* ---- addresses that may be called ---- */

int webhook_allow_parse(const char *text, struct webhook_allow *ret, struct err_note *note)
{
    struct span all = span_text(text);
    *ret = (struct webhook_allow){.host = NULL};
    if (ip_block_parse(all, &ret->block) == 0)
        return 0;
    ret->host = text;
    bool right = all.len > 0 && all.len < HOST_BYTES;
    for (size_t i = 0; i < all.len; i++)
        right = right && (text[i] == '.' || text[i] == '-' || text[i] == '_' ||
                          (text[i] >= '0' && text[i] <= '9') ||
                          (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z'));
    if (right)
        return 0;
    return err_note_set(note, -ERR_INVALID,
                        "webhooks.allow: '%.100s' is neither an address, nor a block such as "
                        "10.0.0.0/8, nor the name of a host",
                        text);
}

const char *webhook_refused(const struct webhook_policy *policy, struct span host,
                            const struct ip_address *address)
{
    const char *why = ip_not_public(address);
    if (!why || policy->allow_private)
        return NULL;
    for (size_t i = 0; i < policy->allow_count; i++) {
        const struct webhook_allow *a = &policy->allow[i];
        if (a->host ? strlen(a->host) == host.len && strncasecmp(a->host, host.at, host.len) == 0
                    : ip_block_has(&a->block, address))
            return NULL;
    }
    return why;
}

static bool from_sockaddr(const struct sockaddr *from, struct ip_address *ret)
{
    if (from->sa_family == AF_INET) {
        uint8_t bytes[4];
        memcpy(bytes, (const char *)from + offsetof(struct sockaddr_in, sin_addr), 4);
        *ret = ip_from_v4(bytes);
    } else if (from->sa_family == AF_INET6) {
        memcpy(ret->bytes, (const char *)from + offsetof(struct sockaddr_in6, sin6_addr), 16);
    }
    return from->sa_family == AF_INET || from->sa_family == AF_INET6;
}

/* ---- calls ---- */

static void call_free(struct call *c)
{
    if (c->owner) {
        *(c->prev ? &c->prev->next : &c->owner->first) = c->next;
        if (c->next)
            c->next->prev = c->prev;
        if (c->curl)
            curl_multi_remove_handle(c->owner->curl.multi, c->curl);
    }
    curl_easy_cleanup(c->curl);
    curl_slist_free_all(c->headers);
    curl_slist_free_all(c->resolve);
    mem_free(c->text);
    mem_free(c);
}

static void call_end(struct call *c, const struct webhook_result *result)
{
    void (*done)(void *ctx, const struct webhook_result *result) = c->done;
    void *ctx = c->ctx;
    struct webhook_result copy = *result;
    char error[sizeof c->error];
    if (copy.error) {
        snprintf(error, sizeof error, "%s", copy.error);
        copy.error = error;
    }
    call_free(c);
    done(ctx, &copy);
}

static bool prefix_append(struct curl_slist **list, const char *text)
{
    struct curl_slist *grown = curl_slist_append(*list, text);
    if (grown)
        *list = grown;
    return grown != NULL;
}

static bool headers_take(struct call *c, const struct webhook_post *post)
{
    char line[600];
    bool good = prefix_append(&c->headers, "Content-Type: application/json") &&
                prefix_append(&c->headers, "Expect:") && prefix_append(&c->headers, "Accept: */*");
    for (size_t i = 0; good && i < post->header_count; i++) {
        snprintf(line, sizeof line, "%s: %s", post->headers[i].name, post->headers[i].value);
        good = prefix_append(&c->headers, line);
    }
    return good;
}

/* libcurl asks for a socket to this address: only the one that was checked gets one. */
static curl_socket_t open_socket_cb(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    const struct call *c = ctx;
    struct ip_address address;
    if (purpose != CURLSOCKTYPE_IPCXN || !from_sockaddr(&to->addr, &address) ||
        memcmp(address.bytes, c->address.bytes, sizeof address.bytes) != 0)
        return CURL_SOCKET_BAD;
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static size_t answer_cb(char *bytes, size_t size, size_t count, void *ctx)
{
    struct call *c = ctx;
    (void)bytes;
    c->answered += size * count;
    return c->answered <= ANSWER_BYTES_MAX ? size * count : 0;
}

/* Makes the name resolve to the address that was checked, and to nothing else. */
static bool resolve_set(struct call *c)
{
    char address[IP_TEXT_BYTES], line[HOST_BYTES + IP_TEXT_BYTES + 16];
    if (c->url.literal)
        return true;
    ip_text(&c->address, address);
    snprintf(line, sizeof line, ip_is_v4(&c->address) ? "%s:%s:%s" : "%s:%s:[%s]", c->host, c->port,
             address);
    return prefix_append(&c->resolve, line) &&
           curl_easy_setopt(c->curl, CURLOPT_RESOLVE, c->resolve) == CURLE_OK;
}

static bool options_set(struct call *c, uint32_t left_ms)
{
    CURL *h = c->curl;
    CURLcode rc = curl_easy_setopt(h, CURLOPT_URL, c->text);
#define SET(option, value)                                                                         \
    if (rc == CURLE_OK)                                                                            \
    rc = curl_easy_setopt(h, option, value)
    SET(CURLOPT_PRIVATE, c);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_FRESH_CONNECT, 1L);
    SET(CURLOPT_FORBID_REUSE, 1L);
    SET(CURLOPT_TIMEOUT_MS, (long)left_ms);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body_len);
    SET(CURLOPT_POSTFIELDS, c->text + c->body_at);
    SET(CURLOPT_HTTPHEADER, c->headers);
    SET(CURLOPT_USERAGENT, "holdfast");
    SET(CURLOPT_ERRORBUFFER, c->error);
    SET(CURLOPT_WRITEFUNCTION, answer_cb);
    SET(CURLOPT_WRITEDATA, c);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket_cb);
    SET(CURLOPT_OPENSOCKETDATA, c);
#undef SET
    return rc == CURLE_OK && resolve_set(c);
}

/* ---- resolving the name ---- */

static void idle_cb(uv_idle_t *idle);

/* Ends in the next iteration of the loop. An unknown name is a failure of the target, a refusal is
 * a failure on this side. */
static void call_fail(struct call *c, const char *why, bool ours)
{
    c->failed = why;
    c->ours = ours;
    uv_idle_start(&c->owner->idle, idle_cb);
}

static void call_begin(struct call *c)
{
    uint64_t spent = uv_now(c->owner->curl.loop) - c->begun;
    if (spent >= c->owner->policy.timeout_ms) {
        call_fail(c, "resolving the name took too long", false);
        return;
    }
    c->curl = curl_easy_init();
    if (!c->curl || !options_set(c, (uint32_t)(c->owner->policy.timeout_ms - spent)) ||
        curl_multi_add_handle(c->owner->curl.multi, c->curl) != CURLM_OK) {
        curl_easy_cleanup(c->curl);
        c->curl = NULL;
        call_fail(c, "out of memory", true);
    }
}

/* One bad address is enough: the owner of the name decides which of them is used. */
static const char *check_all(struct call *c, const struct addrinfo *list)
{
    bool any = false;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        struct ip_address address;
        if (!from_sockaddr(a->ai_addr, &address))
            continue;
        const char *why = webhook_refused(&c->owner->policy, span_text(c->host), &address);
        if (why)
            return why;
        if (!any)
            c->address = address;
        any = true;
    }
    return any ? NULL : "no address";
}

static void address_refused(struct call *c, const char *why)
{
    snprintf(c->error, sizeof c->error,
             "refused: %.100s is a %s address; see the settings webhooks.allow and "
             "webhooks.allow_private",
             c->host, why);
    call_fail(c, c->error, true);
}

static void lookup_cb(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct call *c = request->data;
    c->looking_up = false;
    if (!c->owner) {
        uv_freeaddrinfo(list);
        call_free(c);
        return;
    }
    if (status != 0) {
        snprintf(c->error, sizeof c->error, "the name %s cannot be resolved: %s", c->host,
                 uv_strerror(status));
        call_fail(c, c->error, false);
    } else {
        const char *why = check_all(c, list);
        if (why)
            address_refused(c, why);
        else
            call_begin(c);
    }
    uv_freeaddrinfo(list);
}

static int lookup(struct call *c)
{
    if (c->url.literal) {
        CHECK(ip_parse(c->url.host, &c->address) == 0);
        const char *why = webhook_refused(&c->owner->policy, span_text(c->host), &c->address);
        if (why)
            address_refused(c, why);
        else
            call_begin(c);
        return 0;
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    c->lookup.data = c;
    if (uv_getaddrinfo(c->owner->curl.loop, &c->lookup, lookup_cb, c->host, c->port, &hints) != 0)
        return -ERR_NOMEM;
    c->looking_up = true;
    return 0;
}

/* ---- sending ---- */

static int call_take(struct call *c, const struct webhook_post *post)
{
    c->text = mem_alloc(post->url.len + post->body.len + 2);
    if (!c->text || !headers_take(c, post))
        return -ERR_NOMEM;
    memcpy(c->text, post->url.at, post->url.len);
    c->text[post->url.len] = '\0';
    c->body_at = post->url.len + 1;
    c->body_len = post->body.len;
    if (post->body.len)
        memcpy(c->text + c->body_at, post->body.at, post->body.len);
    c->text[c->body_at + c->body_len] = '\0';
    snprintf(c->host, sizeof c->host, "%.*s", (int)c->url.host.len, c->url.host.at);
    snprintf(c->port, sizeof c->port, "%u", c->url.port);
    c->done = post->done;
    c->ctx = post->ctx;
    return 0;
}

int webhooks_send(struct webhooks *w, const struct webhook_post *post)
{
    struct webhook_url url;
    if (webhook_url_parse(post->url, &url, NULL) != 0)
        return -ERR_INVALID;
    struct call *c = mem_zalloc(sizeof *c);
    if (!c)
        return -ERR_NOMEM;
    c->url = url;
    c->begun = uv_now(w->curl.loop);
    c->owner = w;
    c->next = w->first;
    if (c->next)
        c->next->prev = c;
    w->first = c;
    int err = call_take(c, post);
    c->url.host = span_text(c->host);
    if (!err)
        err = lookup(c);
    if (err)
        call_free(c);
    return err;
}

/* ---- the end of a call ---- */

static void idle_cb(uv_idle_t *idle)
{
    struct webhooks *w = idle->data;
    uv_idle_stop(idle);
    for (struct call *c = w->first, *next; c; c = next) {
        next = c->next;
        if (!c->failed)
            continue;
        struct webhook_result result = {.reached = !c->ours, .error = c->failed};
        call_end(c, &result);
        next = w->first; /* the callback may have sent or ended others */
    }
}

static void call_done(void *call, CURLcode code)
{
    struct call *c = call;
    long status = 0;
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    struct webhook_result result = {.reached = true, .status = (uint16_t)status};
    /* A response that was too long to be read completely is a response. */
    bool answered = status > 0 && (code == CURLE_OK || code == CURLE_WRITE_ERROR);
    if (!answered) {
        result.status = 0;
        if (!c->error[0])
            snprintf(c->error, sizeof c->error, "%s", curl_easy_strerror(code));
        result.error = c->error;
    } else if (status < 200 || status > 299) {
        snprintf(c->error, sizeof c->error,
                 status >= 300 && status <= 399 ? "answered %ld; redirects are not followed"
                                                : "answered %ld",
                 status);
        result.error = c->error;
    }
    call_end(c, &result);
}

static void call_unwatched(void *call)
{
    call_fail(call, "out of memory", true);
}

/* ---- open and close ---- */

int webhooks_open(uv_loop_t *loop, const struct webhook_policy *policy, struct webhooks **ret)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -ERR_NOMEM;
    struct webhooks *w = mem_zalloc(sizeof *w);
    if (w)
        w->curl = (struct curl_loop){.done = call_done, .unwatched = call_unwatched};
    if (!w || curl_loop_open(&w->curl, loop) < 0) {
        mem_free(w);
        curl_global_cleanup();
        return -ERR_NOMEM;
    }
    w->policy = *policy;
    CHECK(uv_idle_init(loop, &w->idle) == 0);
    w->idle.data = w;
    w->open = 2;
    *ret = w;
    return 0;
}

static void part_closed(struct webhooks *w)
{
    if (--w->open > 0)
        return;
    void (*closed)(void *ctx) = w->closed;
    void *ctx = w->closed_ctx;
    mem_free(w);
    closed(ctx);
}

static void idle_closed_cb(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void curl_closed_cb(struct curl_loop *l)
{
    part_closed((struct webhooks *)((char *)l - offsetof(struct webhooks, curl)));
}

/* A name resolution in a thread cannot be stopped; it finds that its call has ended. */
static void call_cut(struct webhooks *w, struct call *c)
{
    if (!c->looking_up) {
        call_free(c);
        return;
    }
    uv_cancel((uv_req_t *)&c->lookup);
    *(c->prev ? &c->prev->next : &w->first) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->owner = NULL;
}

void webhooks_close(struct webhooks *w, void (*fn)(void *ctx), void *ctx)
{
    w->closed = fn;
    w->closed_ctx = ctx;
    while (w->first)
        call_cut(w, w->first);
    curl_loop_close(&w->curl, curl_closed_cb);
    curl_global_cleanup();
    uv_close((uv_handle_t *)&w->idle, idle_closed_cb);
}
