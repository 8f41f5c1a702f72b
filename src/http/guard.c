/* SPDX-License-Identifier: Apache-2.0 */
/* Protection without tokens: web pages of other sites, opened in a browser on this machine, must
 * not reach the server, neither by its address (Origin, Sec-Fetch-Site) nor by one of their own
 * names that they resolve to it (Host).
 *
 * Browsers name the page that sends a request in Origin or Sec-Fetch-Site, but not always: GETs
 * of old browsers have neither, and no browser sends Sec-Fetch-Site to a plain-http name other
 * than a loopback one. For a GET that only reads this is harmless, because a page cannot see the
 * answer. A route with ROUTE_UNSAFE changes something, so there a browser must show that the
 * request comes from a page of this server or of `origins`, and other signs of a browser are
 * checked (page_fault). */
#include <string.h>
#include <strings.h>

#include "http/server_impl.h"

static bool same_text(struct span s, const char *text)
{
    return s.len == strlen(text) && strncasecmp(s.at, text, s.len) == 0;
}

static bool begins(struct span s, const char *text)
{
    return s.at && s.len >= strlen(text) && strncasecmp(s.at, text, strlen(text)) == 0;
}

static bool contains(struct span s, const char *text)
{
    for (; s.len > 0; s = span_of(s.at + 1, s.len - 1))
        if (begins(s, text))
            return true;
    return false;
}

static bool listed(struct span s, const char *const *list)
{
    for (; list && *list; list++)
        if (same_text(s, *list))
            return true;
    return false;
}

/* 127.a.b.c with decimal numbers, and no form that a resolver could interpret differently. */
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

/* Removes ":port". The parser has checked that a number follows the colon. */
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

/* "https://" (a proxy may terminate TLS) or, without TLS, "http://", then exactly the value of
 * Host. */
static bool origin_is_own(struct span origin, struct span host, bool tls)
{
    static const char *const schemes[] = {"https://", "http://"};
    for (size_t i = 0; i < (tls ? 1 : 2); i++) {
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
        if (begins(value, "prefetch") || begins(value, "preview"))
            return true;
    }
    return false;
}

static bool refused(struct http_fault *ret, unsigned status, const char *text)
{
    *ret = (struct http_fault){status, text};
    return false;
}

/* One pass over the headers for all of them: this is done for every request. */
struct browser_headers {
    struct span origin, site;
    bool twice; /* no browser does that, and it is unclear which of the two counts */
};

static void header_take(struct browser_headers *w, struct span *word, struct span value)
{
    w->twice |= word->at != NULL;
    *word = value;
}

static struct browser_headers browser_headers_of(const struct http_request *r)
{
    struct browser_headers w = {{NULL, 0}, {NULL, 0}, false};
    for (size_t i = 0; i < r->header_count; i++) {
        struct span name = r->headers[i].name;
        if (name.len == 6 && http_name_equal(name, "origin"))
            header_take(&w, &w.origin, r->headers[i].value);
        else if (name.len == 14 && http_name_equal(name, "sec-fetch-site"))
            header_take(&w, &w.site, r->headers[i].value);
    }
    return w;
}

/* ---- GETs that are not safe ------------------------------------------------------------------ */

/* Signs of a browser that are not about the origin. */
struct page_signs {
    bool tls;     /* of the request: not a sign itself */
    bool referer; /* there is one … */
    bool foreign; /* … of another site */
    bool element; /* a link, an image, a style sheet … */
    bool sec;     /* a header that only browsers send */
    bool mozilla, language;
    bool java;
};

static bool referer_known(const struct http_server *s, const struct http_head *h, struct span url,
                          bool tls)
{
    const char *host = memmem(url.at, url.len, "://", 3);
    size_t len = host ? (size_t)(host - url.at) + 3 : url.len;
    while (len < url.len && url.at[len] != '/' && url.at[len] != '?' && url.at[len] != '#')
        len++;
    struct span origin = span_of(url.at, len);
    return origin_is_own(origin, h->host, tls) || listed(origin, s->config.origins);
}

/* fetch() and EventSource ask for any type, or for one of an API. */
static bool accepts_element(struct span accept)
{
    static const char *const types[] = {"image/", "text/html", "text/css",
                                        "video/", "audio/",    "application/xhtml+xml"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (contains(accept, types[i]))
            return true;
    return false;
}

/* Sec-Fetch-Site has been checked. In the mode "cors" (which Node's fetch() sends, too) a
 * browser always adds the Origin of another site. */
static bool sec_harmless(const struct http_header *f)
{
    return http_name_equal(f->name, "sec-fetch-site") ||
           (http_name_equal(f->name, "sec-fetch-mode") &&
            (same_text(f->value, "cors") || same_text(f->value, "same-origin")));
}

static void sign_take(struct page_signs *g, const struct http_server *s, const struct http_head *h,
                      const struct http_header *f)
{
    if (http_name_equal(f->name, "referer")) {
        g->referer = true;
        g->foreign |= !referer_known(s, h, f->value, g->tls);
    } else if (http_name_equal(f->name, "accept")) {
        g->element |= accepts_element(f->value);
    } else if (http_name_equal(f->name, "upgrade-insecure-requests")) {
        g->element = true;
    } else if (http_name_equal(f->name, "user-agent")) {
        g->mozilla = begins(f->value, "Mozilla/");
        g->java = begins(f->value, "Java/");
    } else if (http_name_equal(f->name, "accept-language")) {
        g->language = true;
    } else if (begins(f->name, "sec-")) {
        g->sec |= !sec_harmless(f);
    }
}

/* Why the request must be refused, or NULL. Every browser calls itself Mozilla and sends
 * Accept-Language; some programs do one of the two. Java's HttpURLConnection accepts text/html
 * and images by default. */
static const char *page_fault(const struct http_server *s, const struct http_head *h,
                              const struct http_request *r)
{
    struct page_signs g = {.tls = r->tls};
    for (size_t i = 0; i < r->header_count; i++)
        sign_take(&g, s, h, &r->headers[i]);
    if (g.foreign)
        return "This GET changes something or costs much, and its Referer is a page of another "
               "site. Allow that site in the setting `origins` and use fetch() in the mode cors.";
    if (g.element && !g.java)
        return "This GET changes something or costs much, and a link, an image or the address bar "
               "of a browser must not send it. Use a program that accepts any type, or fetch() or "
               "EventSource in a page of this server.";
    if (!g.referer && (g.sec || (g.mozilla && g.language)))
        return "This GET changes something or costs much, and a browser sent it without naming the "
               "page that sends it (Origin, Sec-Fetch-Site or Referer). Use a program, or a page "
               "of this server that does not hide its Referer.";
    return NULL;
}

static bool unsafe_pass(const struct http_server *s, const struct http_head *h,
                        const struct http_request *r, const struct browser_headers *w,
                        struct http_fault *ret)
{
    if (is_prefetch(r))
        return refused(
            ret, 403,
            "This request must not be sent as a prefetch: it changes something, or costs much.");
    /* At this point an Origin is an allowed one. */
    bool page_known = w->origin.at || (w->site.at && same_text(w->site, "same-origin"));
    const char *fault = page_known ? NULL : page_fault(s, h, r);
    return !fault || refused(ret, 403, fault);
}

bool guard_pass(const struct http_server *s, const struct http_head *h, struct http_exchange *x,
                struct http_fault *ret)
{
    const struct http_request *r = &x->request;
    /* Only HTTP/1.0 may omit Host, and no browser does. */
    if (!(h->minor == 0 && h->host.len == 0) && !host_known(s, h->host))
        return refused(ret, 421,
                       "Host must be localhost, 127.0.0.1, [::1] or one of the configured names.");
    struct browser_headers w = browser_headers_of(r);
    if (w.twice)
        return refused(ret, 403, "Origin and Sec-Fetch-Site may be given once each.");
    if (w.origin.at && listed(w.origin, s->config.origins)) {
        x->origin = w.origin;
    } else {
        if (w.origin.at && !origin_is_own(w.origin, h->host, r->tls))
            return refused(ret, 403, "The Origin of the request is not one of the allowed ones.");
        if (!fetch_site_own(w.site))
            return refused(ret, 403, "Requests from a page of another site are not allowed.");
    }
    bool unsafe = r->route && r->route->flags & ROUTE_UNSAFE;
    return !unsafe || unsafe_pass(s, h, r, &w, ret);
}
