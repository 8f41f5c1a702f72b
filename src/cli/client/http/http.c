/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/http/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "cli/client/http/http_curl.h"

#define CONNECT_MS 5000
#define ANSWER_MS 60000 /* besides wait_ms; a durable commit on a busy disk may take seconds */
#define BODY_MAX ((size_t)512 << 20)
#define HEADERS_MAX ((size_t)256 << 10)

struct client {
    CURL *curl;
    char *texts[4]; /* of `to` */
    struct client_endpoint to;
    char *base;      /* scheme, host, port, path without the last slash */
    char *unix_path; /* NULL for TCP */
    bool local;      /* loopback or unix: no proxy */
};

/* One call under way. */
struct transfer {
    struct client *client;
    const struct client_request *request;
    struct client_reply *reply;
    int error; /* why a callback failed */
};

/* ---- the address ------------------------------------------------------------------------------
 */

static bool is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0 || strcmp(host, "[::1]") == 0;
}

static int address_wrong(struct err_note *note, const char *server, const char *why)
{
    /* The text before an @ may be a password, even if the rest cannot be parsed. */
    return err_note_set(note, -ERR_INVALID,
                        "the server address '%.200s' %s; it is written http://HOST:PORT, "
                        "https://HOST:PORT or unix:/PATH",
                        strchr(server, '@') ? "…" : server, why);
}

static bool has_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return has;
}

/* Sets base and local from a URL that libcurl could read. */
static int base_from(struct client *c, CURLU *url, struct err_note *note)
{
    char *scheme = NULL, *host = NULL, *whole = NULL;
    int rc = -ERR_NOMEM;
    if (curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_URL, &whole, 0) != CURLUE_OK) {
        rc = address_wrong(note, c->to.server, "names no host");
    } else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) {
        rc = address_wrong(note, c->to.server, "has a scheme other than http and https");
    } else {
        size_t len = strlen(whole);
        while (len > 0 && whole[len - 1] == '/')
            len--;
        c->base = mem_text(whole, len);
        c->local = is_loopback(host);
        rc = c->base ? 0 : -ERR_NOMEM;
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(whole);
    return rc;
}

static int address_url(struct client *c, struct err_note *note)
{
    CURLU *url = curl_url();
    int rc;
    if (!url)
        return -ERR_NOMEM;
    if (curl_url_set(url, CURLUPART_URL, c->to.server, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
        rc = address_wrong(note, c->to.server, "cannot be read");
    else if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD))
        rc = address_wrong(note, c->to.server,
                           "has a user name or password in it, which is not supported");
    else if (has_part(url, CURLUPART_QUERY) || has_part(url, CURLUPART_FRAGMENT))
        rc = address_wrong(note, c->to.server, "has a query or fragment");
    else
        rc = base_from(c, url, note);
    curl_url_cleanup(url);
    return rc;
}

static int address_unix(struct client *c, struct err_note *note)
{
    const char *path = c->to.server + strlen("unix:");
    if (path[0] != '/')
        return address_wrong(note, c->to.server, "needs an absolute path");
    c->unix_path = mem_text(path, strlen(path));
    c->base = mem_text("http://localhost", strlen("http://localhost"));
    c->local = true;
    return c->unix_path && c->base ? 0 : -ERR_NOMEM;
}

/* One part of the address, or "" when it has none; NULL without memory. */
static const char *part_of(CURLU *url, CURLUPart part, struct arena *arena)
{
    char *text = NULL;
    const char *copy = curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) == CURLUE_OK
                           ? arena_text(arena, span_text(text))
                           : "";
    curl_free(text);
    return copy;
}

/* "[::1]" → "::1" */
static const char *host_bare(const char *host, struct arena *arena)
{
    size_t len = strlen(host);
    return host[0] == '[' && len > 2 ? arena_text(arena, span_of(host + 1, len - 2)) : host;
}

static int parts_take(const struct client *c, CURLU *url, struct arena *arena,
                      struct client_address *ret)
{
    if (curl_url_set(url, CURLUPART_URL, c->base, 0) != CURLUE_OK)
        return -ERR_NOMEM;
    const char *scheme = part_of(url, CURLUPART_SCHEME, arena);
    const char *host = part_of(url, CURLUPART_HOST, arena);
    const char *port = part_of(url, CURLUPART_PORT, arena);
    const char *path = part_of(url, CURLUPART_PATH, arena);
    struct buf authority;
    buf_init(&authority);
    bool ok = scheme && host && port && path && buf_printf(&authority, "%s:%s", host, port) == 0;
    *ret = (struct client_address){
        .host = ok ? host_bare(host, arena) : NULL,
        .port = port,
        .authority = ok ? arena_text(arena, buf_span(&authority)) : NULL,
        .prefix = ok && strcmp(path, "/") == 0 ? "" : path,
        .tls = ok && strcmp(scheme, "https") == 0,
    };
    buf_done(&authority);
    return ret->host && ret->authority ? 0 : -ERR_NOMEM;
}

int client_address_of(const struct client *c, struct arena *arena, struct client_address *ret)
{
    if (c->unix_path) {
        *ret = (struct client_address){
            .unix_path = c->unix_path, .authority = "localhost", .prefix = "", .port = ""};
        return 0;
    }
    CURLU *url = curl_url();
    int rc = url ? parts_take(c, url, arena, ret) : -ERR_NOMEM;
    curl_url_cleanup(url);
    return rc;
}

static int endpoint_copy(struct client *c, const struct client_endpoint *to)
{
    const char *const from[] = {to->server, to->cacert, to->cert, to->key};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        c->texts[i] = from[i] ? mem_text(from[i], strlen(from[i])) : NULL;
        if (from[i] && !c->texts[i])
            return -ERR_NOMEM;
    }
    c->to = (struct client_endpoint){c->texts[0], c->texts[1], c->texts[2], c->texts[3]};
    return 0;
}

int client_open(const struct client_endpoint *to, struct client **ret, struct err_note *note)
{
    struct client *c = mem_zalloc(sizeof *c);
    int rc = -ERR_NOMEM;
    if (!c || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        goto failed;
    if (endpoint_copy(c, to) < 0)
        goto failed;
    rc = strncmp(to->server, "unix:", 5) == 0 ? address_unix(c, note) : address_url(c, note);
    if (rc < 0)
        goto failed;
    rc = -ERR_NOMEM;
    c->curl = curl_easy_init();
    if (!c->curl)
        goto failed;
    *ret = c;
    return 0;
failed:
    client_close(c);
    return rc == -ERR_NOMEM ? err_note_set(note, rc, "out of memory") : rc;
}

void client_close(struct client *c)
{
    if (!c)
        return;
    if (c->curl)
        curl_easy_cleanup(c->curl);
    for (size_t i = 0; i < sizeof c->texts / sizeof *c->texts; i++)
        mem_free(c->texts[i]);
    mem_free(c->base);
    mem_free(c->unix_path);
    mem_free(c);
}

const char *client_server(const struct client *c)
{
    return c->to.server;
}

const struct client_endpoint *client_endpoint(const struct client *c)
{
    return &c->to;
}

/* ---- replies ----------------------------------------------------------------------------------
 */

void client_reply_init(struct client_reply *r)
{
    r->status = 0;
    buf_init(&r->body);
    buf_init(&r->headers);
}

void client_reply_done(struct client_reply *r)
{
    buf_done(&r->body);
    buf_done(&r->headers);
}

struct span client_reply_header(const struct client_reply *r, const char *name)
{
    size_t name_len = strlen(name);
    const char *at = r->headers.data, *end = at ? at + r->headers.len : at;
    while (at < end) {
        size_t len = (size_t)((const char *)memchr(at, '\n', (size_t)(end - at)) - at);
        if (len > name_len && at[name_len] == ':' && strncasecmp(at, name, name_len) == 0) {
            const char *value = at + name_len + 1;
            while (value < at + len && (*value == ' ' || *value == '\t'))
                value++;
            return span_of(value, (size_t)(at + len - value));
        }
        at += len + 1;
    }
    return span_of(NULL, 0);
}

/* ---- one call ---------------------------------------------------------------------------------
 */

static size_t body_cb(char *data, size_t size, size_t count, void *ctx)
{
    struct transfer *t = ctx;
    size_t len = size * count;
    long status = 0;
    curl_easy_getinfo(t->client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (t->request->on_body && status >= 200 && status < 300)
        t->error = t->request->on_body(t->request->ctx, span_of(data, len)) ? -ERR_CLOSED : 0;
    else if (t->reply->body.len + len > BODY_MAX)
        t->error = -ERR_TOO_BIG;
    else
        t->error = buf_append(&t->reply->body, data, len);
    return t->error == 0 ? len : 0;
}

static size_t header_cb(char *data, size_t size, size_t count, void *ctx)
{
    struct transfer *t = ctx;
    size_t len = size * count, used = len;
    if (len >= 5 && memcmp(data, "HTTP/", 5) == 0)
        buf_clear(&t->reply->headers); /* of a 100 before it */
    while (used > 0 && (data[used - 1] == '\r' || data[used - 1] == '\n'))
        used--;
    if (t->reply->headers.len + used > HEADERS_MAX)
        t->error = -ERR_TOO_BIG;
    else if ((t->error = buf_append(&t->reply->headers, data, used)) == 0)
        t->error = buf_append(&t->reply->headers, "\n", 1);
    return t->error == 0 ? len : 0;
}

static int progress_cb(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct transfer *t = ctx;
    (void)a, (void)b, (void)c, (void)d;
    if (!t->request->stop || !t->request->stop(t->request->ctx))
        return 0;
    t->error = -ERR_CLOSED;
    return 1;
}

static bool list_add(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer)
        *list = longer;
    return longer != NULL;
}

static struct curl_slist *headers_build(const struct client_request *request)
{
    struct curl_slist *list = NULL;
    char type[128];
    const char *name = request->content_type ? request->content_type : "application/json";
    snprintf(type, sizeof type, "Content-Type: %s", name);
    /* "Expect:" disables the pause of libcurl before a large body. */
    bool ok = list_add(&list, "Expect:");
    if (ok && request->body.len > 0)
        ok = list_add(&list, type);
    for (size_t i = 0; ok && i < CLIENT_HEADERS_MAX && request->headers[i]; i++)
        ok = list_add(&list, request->headers[i]);
    if (ok)
        return list;
    curl_slist_free_all(list);
    return NULL;
}

#define SET(option, value) (failed |= curl_easy_setopt(curl, (option), (value)) != CURLE_OK)

static int address_set(const struct client *c, CURL *curl, const char *url)
{
    bool failed = false;
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_USERAGENT, "holdfast");
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    if (c->unix_path)
        SET(CURLOPT_UNIX_SOCKET_PATH, c->unix_path);
    if (c->local)
        SET(CURLOPT_PROXY, "");
    if (c->to.cacert)
        SET(CURLOPT_CAINFO, c->to.cacert);
    if (c->to.cert)
        SET(CURLOPT_SSLCERT, c->to.cert);
    if (c->to.key)
        SET(CURLOPT_SSLKEY, c->to.key);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    return failed ? -ERR_NOMEM : 0;
}

/* What OpenSSL and libcurl say, in lower case as they do, and what the person should do. */
static const struct {
    const char *part, *why;
} tls_mistakes[] = {
    {"alert certificate expired", "the server refused the certificate of --client-cert, because it "
                                  "has expired"},
    {"certificate required", "the server requires a certificate of the client; give one with "
                             "--client-cert and --client-key"},
    {"alert bad certificate",
     "the server refused the certificate of --client-cert, or requires one"},
    {"alert unknown ca", "the server refused the certificate of --client-cert: it is not of an "
                         "authority that the server accepts"},
    {"alert handshake failure",
     "the server requires a certificate of the client, or has no version "
     "and cipher suite of TLS in common with it"},
    {"certificate has expired", "the certificate of the server has expired; renew it there"},
    {"not yet valid", "the certificate of the server is not valid yet; compare the clocks of both "
                      "machines"},
    {"subject name",
     "the certificate of the server is for another name; connect with a name that is "
     "in it, or issue one for this name"},
    {"local issuer",
     "the certificate of the server is of an unknown authority; give the authority's "
     "certificate with --cacert FILE"},
    {"self-signed",
     "the certificate of the server is of an unknown authority; give the authority's "
     "certificate with --cacert FILE"},
    {"first certificate", "the certificate of the server is of an unknown authority; give the "
                          "authority's certificate with --cacert FILE"},
    {"wrong version number",
     "this address of the server does not use TLS; write http:// instead of "
     "https://"},
};

const char *client_curl_why(CURLcode code, const char *said)
{
    for (size_t i = 0; i < sizeof tls_mistakes / sizeof *tls_mistakes; i++)
        if (strcasestr(said, tls_mistakes[i].part))
            return tls_mistakes[i].why;
    return said[0] ? said : curl_easy_strerror(code);
}

int client_curl_address(const struct client *c, CURL *curl, const char *path)
{
    struct buf url;
    buf_init(&url);
    int rc = buf_printf(&url, "%s%s", c->base, path);
    if (rc == 0)
        rc = buf_append(&url, "", 1);
    if (rc == 0)
        rc = address_set(c, curl, url.data); /* libcurl copies it */
    buf_done(&url);
    return rc;
}

static int request_set(struct transfer *t, struct curl_slist *headers, char *error_text)
{
    const struct client_request *request = t->request;
    CURL *curl = t->client->curl;
    bool failed = false;
    SET(CURLOPT_CUSTOMREQUEST, request->method);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_ERRORBUFFER, error_text);
    SET(CURLOPT_WRITEFUNCTION, body_cb);
    SET(CURLOPT_WRITEDATA, t);
    SET(CURLOPT_HEADERFUNCTION, header_cb);
    SET(CURLOPT_HEADERDATA, t);
    SET(CURLOPT_XFERINFOFUNCTION, progress_cb);
    SET(CURLOPT_XFERINFODATA, t);
    SET(CURLOPT_NOPROGRESS, 0L);
    if (!request->on_body)
        SET(CURLOPT_TIMEOUT_MS, (long)(ANSWER_MS + request->wait_ms));
    if (request->body.len > 0 || strcmp(request->method, "POST") == 0) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        SET(CURLOPT_POSTFIELDS, request->body.len > 0 ? request->body.at : "");
    }
    return failed ? -ERR_NOMEM : 0;
}

static int perform(struct transfer *t, struct err_note *note)
{
    char said[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = headers_build(t->request);
    int rc = headers ? request_set(t, headers, said) : -ERR_NOMEM;
    if (rc == 0) {
        CURLcode code = curl_easy_perform(t->client->curl);
        curl_easy_getinfo(t->client->curl, CURLINFO_RESPONSE_CODE, &t->reply->status);
        if (code != CURLE_OK && t->error == 0)
            rc = err_note_set(note, -ERR_IO, "no reply from the server at %.200s: %s",
                              t->client->to.server, client_curl_why(code, said));
    }
    curl_easy_setopt(t->client->curl, CURLOPT_ERRORBUFFER, NULL);
    curl_slist_free_all(headers);
    return rc < 0 ? rc : t->error;
}

int client_call(struct client *c, const struct client_request *request, struct client_reply *ret,
                struct err_note *note)
{
    struct transfer t = {.client = c, .request = request, .reply = ret};
    buf_clear(&ret->body);
    buf_clear(&ret->headers);
    ret->status = 0;
    curl_easy_reset(c->curl);
    int rc = client_curl_address(c, c->curl, request->path);
    if (rc == 0)
        rc = perform(&t, note);
    if (rc == -ERR_NOMEM || rc == -ERR_TOO_BIG)
        err_note_set(note, rc, rc == -ERR_NOMEM ? "out of memory" : "the reply is too long");
    return rc;
}
