/* SPDX-License-Identifier: Apache-2.0 */
/* The pull reader: one token a call, no recursion, no allocation.
 *
 * What the grammar allows next is one number (`expect`); which kind of container each level is, one
 * bit a level. Commas and colons are read on the way to the token behind them, so a comma before a
 * closing bracket is found where the next item is missing. */
#include "base/check.h"
#include "base/json/json_private.h"
#include "base/utf8.h"

enum expect {
    EXPECT_VALUE,      /* at the start, behind a comma in an array */
    EXPECT_FIRST_ITEM, /* behind '[': a value or ']' */
    EXPECT_FIRST_KEY,  /* behind '{': a name or '}'; json_object relies on it being told apart */
    EXPECT_COLON,      /* behind a name */
    EXPECT_NEXT,       /* behind a value in a container: ',' or the closing bracket */
    EXPECT_END,        /* behind the whole value */
    EXPECT_NOTHING,    /* an error was found */
};

void json_open(struct json_reader *r, struct span text)
{
    *r = (struct json_reader){.text = text, .expect = EXPECT_VALUE, .depth_max = JSON_DEPTH_MAX};
}

void json_open_deep(struct json_reader *r, struct span text)
{
    json_open(r, text);
    r->depth_max = JSON_DEPTH_DEEP;
}

bool json_before_first_key(const struct json_reader *r)
{
    return r->expect == EXPECT_FIRST_KEY;
}

int json_fail(struct json_reader *r, size_t at, const char *error)
{
    r->expect = EXPECT_NOTHING;
    r->error = error;
    r->error_at = at;
    return -ERR_SYNTAX;
}

static bool at_end(const struct json_reader *r)
{
    return r->at >= r->text.len;
}

static bool next_is(const struct json_reader *r, char c)
{
    return !at_end(r) && r->text.at[r->at] == c;
}

/* Blames what stands at the current place. */
static int fail_here(struct json_reader *r, const char *error)
{
    return json_fail(r, r->at, at_end(r) ? "the text ends too early" : error);
}

static void skip_space(struct json_reader *r)
{
    while (next_is(r, ' ') || next_is(r, '\n') || next_is(r, '\t') || next_is(r, '\r'))
        r->at++;
}

/* ---- containers ---------------------------------------------------------------------------- */

static bool in_object(const struct json_reader *r)
{
    size_t level = r->depth - 1;
    return r->is_object[level / 64] >> (level % 64) & 1;
}

static void value_is_over(struct json_reader *r)
{
    r->expect = r->depth == 0 ? EXPECT_END : EXPECT_NEXT;
}

static void token_set(const struct json_reader *r, struct json_token *ret, enum json_kind kind,
                      size_t from)
{
    *ret = (struct json_token){.kind = kind, .raw = {r->text.at + from, r->at - from}};
}

static int container_begin(struct json_reader *r, bool object, struct json_token *ret)
{
    if (r->depth == r->depth_max)
        return fail_here(r, "nested too deeply");
    uint64_t bit = UINT64_C(1) << (r->depth % 64);
    uint64_t *levels = &r->is_object[r->depth / 64];
    *levels = object ? *levels | bit : *levels & ~bit;
    r->depth++;
    r->at++;
    r->expect = object ? EXPECT_FIRST_KEY : EXPECT_FIRST_ITEM;
    token_set(r, ret, object ? JSON_OBJECT_BEGIN : JSON_ARRAY_BEGIN, r->at - 1);
    return 0;
}

static int container_end(struct json_reader *r, struct json_token *ret)
{
    enum json_kind kind = in_object(r) ? JSON_OBJECT_END : JSON_ARRAY_END;
    r->depth--;
    r->at++;
    value_is_over(r);
    token_set(r, ret, kind, r->at - 1);
    return 0;
}

/* ---- strings ------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* On the backslash. */
static int scan_escape(struct json_reader *r)
{
    r->at++;
    if (at_end(r) || r->text.at[r->at] == '\0' || !strchr("\"\\/bfnrtu", r->text.at[r->at]))
        return fail_here(r, "unknown escape in a string");
    if (r->text.at[r->at++] != 'u')
        return 0;
    for (int i = 0; i < 4; i++, r->at++) {
        if (at_end(r) || !hex_digit(r->text.at[r->at]))
            return fail_here(r, "\\u needs four hexadecimal digits");
    }
    return 0;
}

#define ONES UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

/* The high bit of some byte is set if the word holds a quote, a backslash, a control character or
 * anything but ASCII. May err on the safe side above a byte that counts. */
static uint64_t word_special(uint64_t w)
{
    uint64_t quote = w ^ (ONES * '"');
    uint64_t slash = w ^ (ONES * '\\');
    return ((w - ONES * 0x20) | (quote - ONES) | (slash - ONES) | w) & HIGHS;
}

/* Eight plain bytes at a time, then one by one to the first that is not. */
static void skip_plain(struct json_reader *r)
{
    const char *text = r->text.at;
    uint64_t w;
    for (; r->text.len - r->at >= sizeof w; r->at += sizeof w) {
        memcpy(&w, text + r->at, sizeof w);
        if (word_special(w))
            break;
    }
    while (!at_end(r)) {
        unsigned char c = (unsigned char)text[r->at];
        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
            return;
        r->at++;
    }
}

/* Something that skip_plain stopped at, but not the closing quote. */
static int scan_special(struct json_reader *r)
{
    if (at_end(r))
        return json_fail(r, r->at, "a string without its closing quote");
    unsigned char c = (unsigned char)r->text.at[r->at];
    if (c == '\\')
        return scan_escape(r);
    if (c < 0x20)
        return fail_here(r, "a control character in a string");
    size_t sequence = utf8_sequence(span_of(r->text.at + r->at, r->text.len - r->at));
    if (sequence == 0)
        return fail_here(r, "not UTF-8");
    r->at += sequence;
    return 0;
}

static int scan_string(struct json_reader *r, enum json_kind kind, struct json_token *ret)
{
    size_t from = r->at++;
    bool escaped = false;
    for (skip_plain(r); !next_is(r, '"'); skip_plain(r)) {
        escaped |= next_is(r, '\\');
        int e = scan_special(r);
        if (e != 0)
            return e;
    }
    r->at++;
    token_set(r, ret, kind, from);
    ret->escaped = escaped;
    return 0;
}

/* ---- numbers and words --------------------------------------------------------------------- */

static size_t scan_digits(struct json_reader *r)
{
    size_t from = r->at;
    while (!at_end(r) && r->text.at[r->at] >= '0' && r->text.at[r->at] <= '9')
        r->at++;
    return r->at - from;
}

static int scan_number(struct json_reader *r, struct json_token *ret)
{
    size_t from = r->at;
    r->at += next_is(r, '-');
    bool zero = next_is(r, '0');
    size_t digits = scan_digits(r);
    if (digits == 0)
        return fail_here(r, "a number without digits");
    if (zero && digits > 1)
        return json_fail(r, r->at - digits, "a number with a leading zero");
    if (next_is(r, '.')) {
        r->at++;
        if (scan_digits(r) == 0)
            return fail_here(r, "a decimal point without digits");
    }
    if (next_is(r, 'e') || next_is(r, 'E')) {
        r->at++;
        r->at += next_is(r, '+') || next_is(r, '-');
        if (scan_digits(r) == 0)
            return fail_here(r, "an exponent without digits");
    }
    token_set(r, ret, JSON_NUMBER, from);
    return 0;
}

/* The offset of an error is that of the first byte that differs from the word. */
static int scan_word(struct json_reader *r, const char *word, enum json_kind kind,
                     struct json_token *ret)
{
    size_t from = r->at;
    for (; *word; word++, r->at++) {
        if (!next_is(r, *word))
            return fail_here(r, "expected true, false or null");
    }
    token_set(r, ret, kind, from);
    return 0;
}

/* ---- the grammar --------------------------------------------------------------------------- */

static int scan_scalar(struct json_reader *r, char c, struct json_token *ret)
{
    switch (c) {
    case '"':
        return scan_string(r, JSON_STRING, ret);
    case 't':
        return scan_word(r, "true", JSON_TRUE, ret);
    case 'f':
        return scan_word(r, "false", JSON_FALSE, ret);
    case 'n':
        return scan_word(r, "null", JSON_NULL, ret);
    default:
        if (c == '-' || (c >= '0' && c <= '9'))
            return scan_number(r, ret);
        return fail_here(r, "expected a value");
    }
}

static int read_value(struct json_reader *r, struct json_token *ret)
{
    if (at_end(r))
        return fail_here(r, "expected a value");
    char c = r->text.at[r->at];
    if (c == '{' || c == '[')
        return container_begin(r, c == '{', ret);
    int e = scan_scalar(r, c, ret);
    if (e == 0)
        value_is_over(r);
    return e;
}

static int read_key(struct json_reader *r, struct json_token *ret)
{
    if (!next_is(r, '"'))
        return fail_here(r, "expected a member name in quotes");
    int e = scan_string(r, JSON_KEY, ret);
    if (e == 0)
        r->expect = EXPECT_COLON;
    return e;
}

static int read_member_value(struct json_reader *r, struct json_token *ret)
{
    if (!next_is(r, ':'))
        return fail_here(r, "expected ':' after a member name");
    r->at++;
    skip_space(r);
    return read_value(r, ret);
}

static int read_next(struct json_reader *r, struct json_token *ret)
{
    bool object = in_object(r);
    if (next_is(r, object ? '}' : ']'))
        return container_end(r, ret);
    if (!next_is(r, ','))
        return fail_here(r, object ? "expected ',' or '}'" : "expected ',' or ']'");
    r->at++;
    skip_space(r);
    return object ? read_key(r, ret) : read_value(r, ret);
}

static int read_end(struct json_reader *r, struct json_token *ret)
{
    if (!at_end(r))
        return fail_here(r, "something follows the value");
    token_set(r, ret, JSON_END, r->at);
    return 0;
}

int json_next(struct json_reader *r, struct json_token *ret)
{
    skip_space(r);
    switch ((enum expect)r->expect) {
    case EXPECT_VALUE:
        return read_value(r, ret);
    case EXPECT_FIRST_ITEM:
        return next_is(r, ']') ? container_end(r, ret) : read_value(r, ret);
    case EXPECT_FIRST_KEY:
        return next_is(r, '}') ? container_end(r, ret) : read_key(r, ret);
    case EXPECT_COLON:
        return read_member_value(r, ret);
    case EXPECT_NEXT:
        return read_next(r, ret);
    case EXPECT_END:
        return read_end(r, ret);
    case EXPECT_NOTHING:
        break;
    }
    return -ERR_SYNTAX;
}

int json_skip(struct json_reader *r, struct json_token first, struct span *ret)
{
    CHECK(first.kind <= JSON_ARRAY_BEGIN || first.kind == JSON_OBJECT_BEGIN);
    const char *end = first.raw.at + first.raw.len;
    if (first.kind == JSON_ARRAY_BEGIN || first.kind == JSON_OBJECT_BEGIN) {
        size_t outside = r->depth - 1;
        struct json_token t;
        while (r->depth > outside) {
            int e = json_next(r, &t);
            if (e != 0)
                return e;
        }
        end = r->text.at + r->at;
    }
    *ret = span_of(first.raw.at, (size_t)(end - first.raw.at));
    return 0;
}

static int check_all(struct json_reader *r, const char **error, size_t *error_at)
{
    struct json_token t = {.kind = JSON_NULL};
    int e;
    do
        e = json_next(r, &t);
    while (e == 0 && t.kind != JSON_END);
    if (e != 0 && error)
        *error = r->error;
    if (e != 0 && error_at)
        *error_at = r->error_at;
    return e;
}

int json_check(struct span text, const char **error, size_t *error_at)
{
    struct json_reader r;
    json_open(&r, text);
    return check_all(&r, error, error_at);
}

int json_check_deep(struct span text, const char **error, size_t *error_at)
{
    struct json_reader r;
    json_open_deep(&r, text);
    return check_all(&r, error, error_at);
}
