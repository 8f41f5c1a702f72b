/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-decoding: any bytes as a path and as a query.
 *
 * What must hold: a decoder written the plain way agrees; what is accepted is UTF-8 without NUL; it
 * is a piece of the input when nothing was encoded; encoding it again and decoding gives the same;
 * a query is refused exactly when one of its pieces is, or there are too many. */
#include <ctype.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/utf8.h"
#include "http/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int err)
{
    CHECK(err == 0);
}

/* ---- one text -------------------------------------------------------------------------------- */

/* 0 or -1; by the library's idea of numbers. */
static int plain_decode(struct span raw, bool form, struct buf *out)
{
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.at[i];
        if (c == '+' && form)
            c = ' ';
        if (c == '%') {
            char digits[3] = "";
            for (size_t k = 0; k < 2 && i + 1 < raw.len; k++)
                digits[k] = raw.at[++i];
            if (!isxdigit((unsigned char)digits[0]) || !isxdigit((unsigned char)digits[1]))
                return -1;
            c = (char)strtoul(digits, NULL, 16);
        }
        if (c == '\0')
            return -1;
        must(buf_append(out, &c, 1));
    }
    return utf8_valid(buf_span(out)) ? 0 : -1;
}

static void encode(struct buf *out, struct span text, bool form)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (form && c == ' ')
            must(buf_append_text(out, "+"));
        else if (isalnum(c) || c == '-' || c == '/')
            must(buf_append(out, &c, 1));
        else
            must(buf_printf(out, i % 2 ? "%%%02X" : "%%%02x", c));
    }
}

static void text_comes_back(struct span text, bool form, struct arena *arena)
{
    struct buf raw;
    struct span again;
    buf_init(&raw);
    encode(&raw, text, form);
    CHECK(url_decode(buf_span(&raw), form, arena, &again) == 0);
    CHECK(span_equal(text, again));
    buf_done(&raw);
}

static void text_holds(struct span raw, bool form, struct arena *arena)
{
    struct buf plain;
    struct span text = SPAN_LITERAL("untouched"), before = text;
    buf_init(&plain);
    int expected = plain_decode(raw, form, &plain);
    int err = url_decode(raw, form, arena, &text);
    CHECK(err == (expected ? -ERR_SYNTAX : 0));
    if (err < 0) {
        CHECK(text.at == before.at && text.len == before.len);
    } else {
        CHECK(span_equal(text, buf_span(&plain)));
        CHECK(!span_equal(text, raw) || text.at == raw.at || memchr(raw.at, '%', raw.len));
        text_comes_back(text, form, arena);
    }
    buf_done(&plain);
}

/* ---- queries --------------------------------------------------------------------------------- */

/* One piece by itself must come to the same as in its place. Gives its error. */
static int piece_holds(struct span piece, const struct url_param *param, struct arena *arena)
{
    const char *mark = memchr(piece.at, '=', piece.len);
    size_t len = mark ? (size_t)(mark - piece.at) : piece.len;
    struct span name, value = {0};
    int err = url_decode(span_of(piece.at, len), true, arena, &name);
    if (err == 0 && mark)
        err = url_decode(span_of(mark + 1, piece.len - len - 1), true, arena, &value);
    if (err == 0 && param)
        CHECK(span_equal(name, param->name) && span_equal(value, param->value));
    return err;
}

/* What the pieces come to one after the other; params: NULL when they were refused. */
static int pieces_hold(struct span raw, const struct url_param *params, size_t *ret_count,
                       struct arena *arena)
{
    size_t count = 0;
    for (size_t from = 0, to; from < raw.len; from = to + 1) {
        for (to = from; to < raw.len && raw.at[to] != '&';)
            to++;
        if (to == from)
            continue;
        if (count == URL_PARAMS_MAX)
            return -ERR_TOO_BIG;
        int err =
            piece_holds(span_of(raw.at + from, to - from), params ? &params[count] : NULL, arena);
        if (err < 0)
            return err;
        count++;
    }
    *ret_count = count;
    return 0;
}

static void query_comes_back(const struct url_param *params, size_t count, struct arena *arena)
{
    struct url_param again[URL_PARAMS_MAX];
    struct buf raw;
    size_t got;
    buf_init(&raw);
    for (size_t i = 0; i < count; i++) {
        encode(&raw, params[i].name, true);
        must(buf_append_text(&raw, "="));
        encode(&raw, params[i].value, true);
        must(buf_append_text(&raw, i % 2 ? "&&" : "&"));
    }
    CHECK(url_query(buf_span(&raw), arena, again, &got) == 0);
    CHECK(got == count);
    for (size_t i = 0; i < count; i++)
        CHECK(span_equal(params[i].name, again[i].name) &&
              span_equal(params[i].value, again[i].value));
    buf_done(&raw);
}

static void query_holds(struct span raw, struct arena *arena)
{
    struct url_param params[URL_PARAMS_MAX];
    size_t count = SIZE_MAX, expected = SIZE_MAX;
    int err = url_query(raw, arena, params, &count);
    CHECK(err == pieces_hold(raw, err ? NULL : params, &expected, arena));
    CHECK(count == expected);
    if (err == 0)
        query_comes_back(params, count, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct span raw = span_of(data, size);
    arena_init(&arena);
    text_holds(raw, false, &arena);
    text_holds(raw, true, &arena);
    query_holds(raw, &arena);
    arena_done(&arena);
    return 0;
}
