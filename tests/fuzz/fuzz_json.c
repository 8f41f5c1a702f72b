/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: any bytes as a text to read, and as a text to write.
 *
 * What must hold: json_next and json_check agree; tokens lie in order with nothing but white space,
 * commas and colons between them; the range of every value is a valid text by itself; decoded
 * strings are UTF-8 and come back from the writer; whole numbers agree with strtod.
 *
 * With HF_JSON_ACCEPT set, it answers instead for tests/fuzz/json_differential.mjs: from standard
 * input it reads texts, each behind its length (32 bits, little-endian), and prints 1 for each that
 * is accepted and 0 for each that is not. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/json/json.h"
#include "base/utf8.h"

#define VALUES_MAX 200 /* whose ranges are read again: each costs its length */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static bool begins_value(enum json_kind kind)
{
    return kind <= JSON_ARRAY_BEGIN || kind == JSON_OBJECT_BEGIN;
}

/* ---- what a token stands for ----------------------------------------------------------------- */

static struct json_token first_token(struct span text)
{
    struct json_reader r;
    struct json_token t;
    json_open(&r, text);
    CHECK(json_next(&r, &t) == 0);
    return t;
}

static void text_comes_back(struct span text, struct arena *arena)
{
    struct buf out;
    struct json_writer w;
    struct span back;
    buf_init(&out);
    json_writer_init(&w, &out);
    json_write_text(&w, text);
    CHECK(json_writer_finish(&w) == 0);
    CHECK(json_check(buf_span(&out), NULL, NULL) == 0);
    struct json_token t = first_token(buf_span(&out));
    CHECK(json_string(&t, arena, &back) == 0);
    CHECK(utf8_valid(back));
    CHECK(!utf8_valid(text) || span_equal(text, back));
    buf_done(&out);
}

static void string_holds(const struct json_token *t, struct arena *arena)
{
    struct span text;
    int r = json_string(t, arena, &text);
    CHECK(r == 0 || r == -ERR_INVALID);
    CHECK(t->escaped || r == 0);
    if (r != 0)
        return;
    CHECK(utf8_valid(text) && text.len <= t->raw.len - 2);
    text_comes_back(text, arena);
}

static void number_holds(const struct json_token *t, struct arena *arena)
{
    int64_t v = 0;
    int r = json_int(t, &v);
    double d = strtod(arena_text(arena, t->raw), NULL);
    CHECK(r == 0 || r == -ERR_RANGE || r == -ERR_INVALID);
    CHECK(r != 0 || d == (double)v);
    CHECK(r != -ERR_RANGE || d >= 9223372036854775807.0 || d <= -9223372036854775808.0);
    CHECK(r != -ERR_INVALID || memchr(t->raw.at, '.', t->raw.len) ||
          memchr(t->raw.at, '-', t->raw.len));
}

static void token_holds(const struct json_token *t, struct arena *arena)
{
    if (t->kind == JSON_STRING || t->kind == JSON_KEY)
        string_holds(t, arena);
    else if (t->kind == JSON_NUMBER)
        number_holds(t, arena);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Reads on from a copy, so that the walk itself is not disturbed. */
static void range_holds(struct json_reader r, struct json_token t)
{
    struct span range;
    const char *end = r.text.at + r.text.len;
    if (json_skip(&r, t, &range) != 0)
        return;
    CHECK(range.at == t.raw.at && range.len >= t.raw.len && range.at + range.len <= end);
    CHECK(json_check(range, NULL, NULL) == 0);
}

static void gap_holds(const char *from, const char *to)
{
    CHECK(from <= to);
    for (; from < to; from++)
        CHECK(*from != '\0' && strchr(" \t\r\n,:", *from));
}

/* The whole text, token by token. Gives what json_next came to in the end. */
static int walk(struct json_reader *r, struct arena *arena)
{
    const char *done = r->text.at;
    struct json_token t;
    int e, values = 0;
    while ((e = json_next(r, &t)) == 0) {
        gap_holds(done, t.raw.at);
        done = t.raw.at + t.raw.len;
        CHECK(done == r->text.at + r->at);
        if (t.kind == JSON_END)
            break;
        token_holds(&t, arena);
        if (begins_value(t.kind) && values++ < VALUES_MAX)
            range_holds(*r, t);
    }
    return e;
}

static int member_cb(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct span range;
    (void)ctx;
    CHECK(utf8_valid(name));
    return json_skip(r, value, &range);
}

/* json_object is stricter than json_check, but only for its two reasons. */
static void object_holds(struct span text, bool valid, struct arena *arena)
{
    struct json_reader r;
    json_open(&r, text);
    int e = json_object(&r, arena, member_cb, NULL);
    CHECK(e == 0 || (e == -ERR_SYNTAX && r.error && r.error_at <= text.len));
    CHECK(valid || e != 0);
    if (valid && e != 0 && first_token(text).kind == JSON_OBJECT_BEGIN)
        CHECK(text.at[r.error_at] == '"');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = span_of(data, size);
    struct json_reader r;
    struct arena arena;
    const char *error = NULL;
    size_t error_at = 0;
    arena_init(&arena);
    json_open(&r, text);
    int walked = walk(&r, &arena);
    int checked = json_check(text, &error, &error_at);
    CHECK(walked == checked);
    CHECK(checked == 0 || (error == r.error && error_at == r.error_at && error_at <= size));
    object_holds(text, checked == 0, &arena);
    text_comes_back(text, &arena);
    arena_done(&arena);
    return 0;
}

/* ---- the answering mode ---------------------------------------------------------------------- */

static void answer_all(void)
{
    uint32_t len;
    while (fread(&len, sizeof len, 1, stdin) == 1) {
        len = le32toh(len);
        char *text = malloc(len ? len : 1);
        CHECK(text && fread(text, 1, len, stdin) == len);
        putchar(json_check(span_of(text, len), NULL, NULL) == 0 ? '1' : '0');
        free(text);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    if (getenv("HF_JSON_ACCEPT")) {
        answer_all();
        exit(fflush(stdout) == 0 ? 0 : 1);
    }
    return 0;
}
