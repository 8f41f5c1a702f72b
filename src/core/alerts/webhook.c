/* SPDX-License-Identifier: Apache-2.0 */
/* Stricter than RFC 3986: a URL that two parsers could read differently is refused, so that the
 * host that is checked is the host that is called. */
#include "core/alerts/webhook.h"

#include <stdio.h>

#include "base/system/ip.h"

#define HOST_BYTES_MAX 253

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool take_prefix(struct span *in, const char *prefix)
{
    size_t n = strlen(prefix);
    if (in->len < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = in->at[i];
        if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != prefix[i])
            return false;
    }
    *in = span_of(in->at + n, in->len - n);
    return true;
}

/* Letters, digits, '-', '_' and dots; not a number that some resolvers accept as an address. */
static bool name_right(struct span host)
{
    size_t label = 0;
    if (host.len == 0 || host.len > HOST_BYTES_MAX)
        return false;
    for (size_t i = 0; i < host.len; i++) {
        char c = host.at[i];
        if (c == '.' ? label == 0 : !is_alnum(c) && c != '-' && c != '_')
            return false;
        label = c == '.' ? 0 : label + 1;
        if (label > 63)
            return false;
    }
    /* "0x7f.1", "2130706433" and "127.1" are addresses to inet_aton: the last label must not begin
     * with a digit. */
    size_t last = host.len - (host.at[host.len - 1] == '.');
    while (last > 0 && host.at[last - 1] != '.')
        last--;
    return host.at[last] < '0' || host.at[last] > '9';
}

static int port_parse(struct span text, uint16_t *ret)
{
    unsigned port = 0;
    if (text.len == 0 || text.len > 5)
        return -ERR_INVALID;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return -ERR_INVALID;
        port = port * 10 + (unsigned)(text.at[i] - '0');
    }
    if (port == 0 || port > UINT16_MAX)
        return -ERR_INVALID;
    *ret = (uint16_t)port;
    return 0;
}

/* Splits "host:port" or "[v6]:port". */
static int host_parse(struct span authority, struct webhook_url *u, struct err_note *note)
{
    struct ip_address address;
    struct span port = {NULL, 0};
    bool bracket = authority.len > 0 && authority.at[0] == '[';
    const char *end =
        authority.len ? memchr(authority.at, bracket ? ']' : ':', authority.len) : NULL;
    if (bracket && !end)
        return err_note_set(note, -ERR_INVALID, "url has a [ without its ]");
    size_t len = end ? (size_t)(end - authority.at) : authority.len;
    u->host = bracket ? span_of(authority.at + 1, len - 1) : span_of(authority.at, len);
    struct span rest = span_of(authority.at + len, authority.len - len);
    if (bracket)
        rest = span_of(rest.at + 1, rest.len - 1);
    if (rest.len > 0) {
        port = span_of(rest.at + 1, rest.len - 1);
        if (rest.at[0] != ':' || port_parse(port, &u->port) != 0)
            return err_note_set(note, -ERR_INVALID, "url has a port that is not 1 to 65535");
    }
    u->literal = ip_parse(u->host, &address) == 0;
    bool colon = u->host.len && memchr(u->host.at, ':', u->host.len);
    if (bracket ? !u->literal || !colon : !u->literal && !name_right(u->host))
        return err_note_set(note, -ERR_INVALID,
                            "url has no host that can be called; write a name, an IPv4 address in "
                            "four parts or an IPv6 address in brackets");
    return 0;
}

int webhook_url_parse(struct span text, struct webhook_url *ret, struct err_note *note)
{
    struct webhook_url u = {.port = 80};
    struct span rest = text;
    if (text.len > LIMIT_URL_BYTES)
        return err_note_set(note, -ERR_INVALID, "url is longer than %d bytes", LIMIT_URL_BYTES);
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ' || text.at[i] > '~' || strchr("\"<>\\^`{|}", text.at[i]))
            return err_note_set(note, -ERR_INVALID,
                                "url has a character at %zu that must be percent-encoded", i);
    if (take_prefix(&rest, "https://")) {
        u.tls = true;
        u.port = 443;
    } else if (!take_prefix(&rest, "http://")) {
        return err_note_set(note, -ERR_INVALID, "url must begin with http:// or https://");
    }
    size_t len = 0;
    while (len < rest.len && !strchr("/?#", rest.at[len]))
        len++;
    struct span authority = span_of(rest.at, len);
    if (len > 0 && memchr(authority.at, '@', len))
        return err_note_set(note, -ERR_INVALID,
                            "url has a user or password; set a secret and check the signature "
                            "instead");
    if (rest.len > len && memchr(rest.at + len, '#', rest.len - len))
        return err_note_set(note, -ERR_INVALID, "url has a fragment (#), which is never sent");
    int err = host_parse(authority, &u, note);
    if (!err)
        *ret = u;
    return err;
}

size_t webhook_target(const struct webhook_url *url, char out[WEBHOOK_TARGET_BYTES])
{
    bool colon = memchr(url->host.at, ':', url->host.len) != NULL;
    int n =
        snprintf(out, WEBHOOK_TARGET_BYTES, "%s://%s%.*s%s:%u", url->tls ? "https" : "http",
                 colon ? "[" : "", (int)url->host.len, url->host.at, colon ? "]" : "", url->port);
    for (int i = 0; i < n; i++)
        if (out[i] >= 'A' && out[i] <= 'Z')
            out[i] = (char)(out[i] + 32);
    return (size_t)n;
}
