/* SPDX-License-Identifier: Apache-2.0 */
/* Safety without tokens: pages of other sites, opened in a browser on this machine, must not reach
 * the server, neither by its address (Origin, Sec-Fetch-Site) nor by a name of theirs that they let
 * point to it (Host). */
#include <string.h>
#include <strings.h>

#include "http/server_impl.h"

static bool same_text(struct span s, const char *text)
{
    return s.len == strlen(text) && strncasecmp(s.at, text, s.len) == 0;
}

static bool listed(struct span s, const char *const *list)
{
    for (; list && *list; list++)
        if (same_text(s, *list))
            return true;
    return false;
}

/* 127.a.b.c with decimal numbers, nothing that a resolver might read otherwise. */
static bool is_loopback_v4(struct span s)
{
    size_t parts = 0, digits = 0;
    unsigned value = 0;
    if (s.len < 4 || memcmp(s.at, "127.", 4) != 0)
        return false;
    for (size_t i = 0; i <= s.len; i++) {
        if (i == s.len || s.at[i] == '.') {
            if (digits == 0 || value > 255)
                return false;
            parts++;
            digits = value = 0;
        } else if (s.at[i] >= '0' && s.at[i] <= '9' && digits < 3) {
            value = value * 10 + (unsigned)(s.at[i] - '0');
            digits++;
        } else {
            return false;
        }
    }
    return parts == 4;
}

/* Without ":port". The parser has seen to it that what follows the colon is a number. */
static struct span host_name(struct span host)
{
    const char *end = host.len > 0 && host.at[0] == '[' ? memchr(host.at, ']', host.len) : NULL;
    if (end)
        return span_of(host.at, (size_t)(end - host.at) + 1);
    const char *colon = memchr(host.at, ':', host.len);
    return span_of(host.at, colon ? (size_t)(colon - host.at) : host.len);
}

static bool host_known(const struct http_server *s, struct span host)
{
    if (host.len == 0)
        return false;
    struct span name = host_name(host);
    return same_text(name, "localhost") || same_text(name, "[::1]") || is_loopback_v4(name) ||
           listed(name, s->config.hosts);
}

/* "http://" or "https://" (a proxy may speak TLS for us), then exactly what Host says. */
static bool origin_is_own(struct span origin, struct span host)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(schemes[i]);
        if (origin.len == len + host.len && strncasecmp(origin.at, schemes[i], len) == 0 &&
            strncasecmp(origin.at + len, host.at, host.len) == 0)
            return host.len > 0;
    }
    return false;
}

static bool fetch_site_own(struct span site)
{
    return !site.at || same_text(site, "same-origin") || same_text(site, "none");
}

static bool is_prefetch(const struct http_request *r)
{
    static const char *const names[] = {"sec-purpose", "purpose", "x-purpose", "x-moz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct span value = http_request_header(r, names[i]);
        if (value.len >= 8 && strncasecmp(value.at, "prefetch", 8) == 0)
            return true;
    }
    return false;
}

static bool refused(struct http_fault *ret, unsigned status, const char *text)
{
    *ret = (struct http_fault){status, text};
    return false;
}

/* One look over the headers for all of them: this is done for every request. */
struct browser_words {
    struct span origin, site;
    bool twice; /* no browser does that; which of the two would count? */
};

static void word_take(struct browser_words *w, struct span *word, struct span value)
{
    w->twice |= word->at != NULL;
    *word = value;
}

static struct browser_words words_of(const struct http_request *r)
{
    struct browser_words w = {{NULL, 0}, {NULL, 0}, false};
    for (size_t i = 0; i < r->header_count; i++) {
        struct span name = r->headers[i].name;
        if (name.len == 6 && http_name_equal(name, "origin"))
            word_take(&w, &w.origin, r->headers[i].value);
        else if (name.len == 14 && http_name_equal(name, "sec-fetch-site"))
            word_take(&w, &w.site, r->headers[i].value);
    }
    return w;
}

bool guard_pass(const struct http_server *s, const struct http_head *h, struct http_exchange *x,
                struct http_fault *ret)
{
    const struct http_request *r = &x->request;
    /* Only HTTP/1.0 may leave Host out, and no browser does. */
    if (!(h->minor == 0 && h->host.len == 0) && !host_known(s, h->host))
        return refused(ret, 421,
                       "Host must be localhost, 127.0.0.1, [::1] or one of the configured names.");
    struct browser_words w = words_of(r);
    if (w.twice)
        return refused(ret, 403, "Origin and Sec-Fetch-Site may be given once each.");
    if (w.origin.at && listed(w.origin, s->config.origins)) {
        x->origin = w.origin;
    } else {
        if (w.origin.at && !origin_is_own(w.origin, h->host))
            return refused(ret, 403, "The Origin of the request is not one of the allowed ones.");
        if (!fetch_site_own(w.site))
            return refused(ret, 403, "Requests that a page of another site makes are not allowed.");
    }
    if (r->route && r->route->flags & ROUTE_NO_STORE && is_prefetch(r))
        return refused(
            ret, 403,
            "This request must not be made as a prefetch: it changes something, or costs much.");
    return true;
}
