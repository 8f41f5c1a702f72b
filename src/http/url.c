/* SPDX-License-Identifier: Apache-2.0 */
/* Text is decoded once and then checked, so that escaped bytes are checked like the others. */
#include "http/url.h"

#include <string.h>
#include <sys/types.h>

#include "base/utf8.h"

/* 0 … 15, or -1. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool has(struct span s, char c)
{
    return s.len > 0 && memchr(s.at, c, s.len) != NULL;
}

/* Decodes into `out`, which has room for raw.len bytes. Returns the length, or -1 for an invalid
 * escape. */
static ssize_t unescape(struct span raw, bool form, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.at[i];
        if (c == '%') {
            if (raw.len - i < 3)
                return -1;
            int high = hex_value(raw.at[i + 1]), low = hex_value(raw.at[i + 2]);
            if (high < 0 || low < 0)
                return -1;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && form) {
            c = ' ';
        }
        out[len++] = c;
    }
    return (ssize_t)len;
}

int url_decode(struct span raw, bool form, struct arena *arena, struct span *ret)
{
    struct span text = raw;
    if (has(raw, '%') || (form && has(raw, '+'))) {
        char *out = arena_alloc(arena, raw.len);
        if (!out)
            return -ERR_NOMEM;
        ssize_t len = unescape(raw, form, out);
        if (len < 0)
            return -ERR_SYNTAX;
        text = span_of(out, (size_t)len);
    }
    if (has(text, '\0') || !utf8_valid(text))
        return -ERR_SYNTAX;
    *ret = text;
    return 0;
}

/* Takes the text up to the first `c` from the front of *rest, and `c` with it. */
static struct span cut(struct span *rest, char c)
{
    const char *at = rest->len ? memchr(rest->at, c, rest->len) : NULL;
    size_t len = at ? (size_t)(at - rest->at) : rest->len;
    size_t skip = len + (at != NULL);
    struct span front = span_of(rest->at, len);
    *rest = skip ? span_of(rest->at + skip, rest->len - skip) : *rest;
    return front;
}

int url_query(struct span raw, struct arena *arena, struct url_param *out, size_t *ret_count)
{
    size_t count = 0;
    while (raw.len > 0) {
        struct span value = cut(&raw, '&');
        if (value.len == 0)
            continue;
        if (count == URL_PARAMS_MAX)
            return -ERR_TOO_BIG;
        struct span name = cut(&value, '=');
        int err = url_decode(name, true, arena, &out[count].name);
        if (err == 0)
            err = url_decode(value, true, arena, &out[count].value);
        if (err < 0)
            return err;
        count++;
    }
    *ret_count = count;
    return 0;
}
