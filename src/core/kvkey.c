/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kvkey.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "core/limits.h"

#define MARK_FALSE 0x10
#define MARK_TRUE 0x11
#define MARK_NUMBER 0x20
#define MARK_TEXT 0x30
#define NUMBER_TEXT_BYTES 40
#define WHOLE_MAX 9007199254740991.0 /* 2^53 - 1: larger whole numbers are not exact */
#define SIGN (UINT64_C(1) << 63)

/* ---- parts ---- */

/* All bits of negative numbers are inverted, and the sign of others: then they sort as numbers. */
static uint64_t number_order(double v)
{
    uint64_t bits;
    if (v == 0)
        v = 0; /* -0 */
    memcpy(&bits, &v, sizeof bits);
    return bits & SIGN ? ~bits : bits | SIGN;
}

static double number_of(uint64_t order)
{
    uint64_t bits = order & SIGN ? order & ~SIGN : ~order;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static int append_text(struct buf *out, struct span text)
{
    if (!utf8_valid(text) || (text.len > 0 && memchr(text.at, 0, text.len)))
        return -ERR_INVALID;
    int err = buf_reserve(out, text.len + 2);
    if (err)
        return err;
    buf_put_u8(out, MARK_TEXT);
    if (text.len > 0)
        buf_put_bytes(out, text.at, text.len);
    buf_put_u8(out, 0);
    return 0;
}

int kvkey_append(struct buf *out, const struct kv_part *part)
{
    if (part->kind == KV_TEXT)
        return append_text(out, part->text);
    if (part->kind == KV_NUMBER && !isfinite(part->number))
        return -ERR_INVALID;
    int err = buf_reserve(out, 9);
    if (err)
        return err;
    if (part->kind == KV_BOOL) {
        buf_put_u8(out, part->boolean ? MARK_TRUE : MARK_FALSE);
        return 0;
    }
    uint64_t order = htobe64(number_order(part->number));
    buf_put_u8(out, MARK_NUMBER);
    buf_put_bytes(out, &order, sizeof order);
    return 0;
}

static int next_number(struct span *key, struct kv_part *ret)
{
    uint64_t order;
    if (key->len < 9)
        return -ERR_CORRUPT;
    memcpy(&order, key->at + 1, sizeof order);
    order = be64toh(order);
    ret->kind = KV_NUMBER;
    ret->number = number_of(order);
    *key = span_of(key->at + 9, key->len - 9);
    return isfinite(ret->number) && number_order(ret->number) == order ? 0 : -ERR_CORRUPT;
}

static int next_text(struct span *key, struct kv_part *ret)
{
    const char *end = memchr(key->at, 0, key->len);
    if (!end)
        return -ERR_CORRUPT;
    ret->kind = KV_TEXT;
    ret->text = span_of(key->at + 1, (size_t)(end - key->at) - 1);
    *key = span_of(end + 1, key->len - (size_t)(end + 1 - key->at));
    return utf8_valid(ret->text) ? 0 : -ERR_CORRUPT;
}

int kvkey_next(struct span *key, struct kv_part *ret)
{
    *ret = (struct kv_part){0};
    if (key->len == 0)
        return -ERR_CORRUPT;
    uint8_t mark = (uint8_t)key->at[0];
    if (mark == MARK_NUMBER)
        return next_number(key, ret);
    if (mark == MARK_TEXT)
        return next_text(key, ret);
    if (mark != MARK_FALSE && mark != MARK_TRUE)
        return -ERR_CORRUPT;
    ret->kind = KV_BOOL;
    ret->boolean = mark == MARK_TRUE;
    *key = span_of(key->at + 1, key->len - 1);
    return 0;
}

int kvkey_check(struct span key)
{
    struct kv_part part;
    size_t parts = 0;
    if (key.len == 0 || key.len > LIMIT_KV_KEY_BYTES)
        return -ERR_INVALID;
    while (key.len > 0)
        if (kvkey_next(&key, &part) != 0 || ++parts > LIMIT_KV_PARTS)
            return -ERR_INVALID;
    return 0;
}

/* ---- JSON ---- */

static int part_number(const struct json_token *t, struct kv_part *part, struct err_note *note)
{
    char text[NUMBER_TEXT_BYTES];
    if (t->raw.len >= sizeof text)
        return err_note_set(note, -ERR_INVALID,
                            "a number in a key has %zu digits; write it shorter, or as a text",
                            t->raw.len);
    memcpy(text, t->raw.at, t->raw.len);
    text[t->raw.len] = 0;
    part->kind = KV_NUMBER;
    part->number = strtod(text, NULL);
    bool whole = !strpbrk(text, ".eE");
    if (!isfinite(part->number) || (whole && fabs(part->number) > WHOLE_MAX))
        return err_note_set(
            note, -ERR_INVALID,
            "a whole number in a key must not exceed 2^53 - 1, any other must be within the "
            "range of a double; write a larger one as a text");
    return 0;
}

static int part_of(const struct json_token *t, struct arena *arena, struct kv_part *part,
                   struct err_note *note)
{
    *part = (struct kv_part){0};
    switch ((int)t->kind) {
    case JSON_TRUE:
    case JSON_FALSE:
        part->boolean = t->kind == JSON_TRUE;
        return 0;
    case JSON_NUMBER:
        return part_number(t, part, note);
    case JSON_STRING:
        part->kind = KV_TEXT;
        int err = json_string(t, arena, &part->text);
        if (err == -ERR_INVALID)
            return err_note_set(note, err, "a text in a key has an unpaired surrogate");
        return err;
    default:
        return err_note_set(note, -ERR_INVALID,
                            "a part of a key must be a text, a number or a boolean");
    }
}

static int parts_in(struct json_reader *r, struct arena *arena, struct buf *out, size_t *ret_parts,
                    struct err_note *note)
{
    struct json_token t;
    struct kv_part part;
    int err;
    for (*ret_parts = 0; (err = json_next(r, &t)) == 0 && t.kind != JSON_ARRAY_END; ++*ret_parts) {
        if (*ret_parts == LIMIT_KV_PARTS)
            return err_note_set(note, -ERR_TOO_BIG, "a key may have at most %d parts",
                                LIMIT_KV_PARTS);
        err = part_of(&t, arena, &part, note);
        if (err == 0)
            err = kvkey_append(out, &part);
        if (err == -ERR_INVALID && part.kind == KV_TEXT && part.text.len > 0 && !note->text[0])
            return err_note_set(note, err, "a text in a key must not contain U+0000");
        if (err != 0)
            return err;
        if (out->len > LIMIT_KV_KEY_BYTES)
            return err_note_set(note, -ERR_TOO_BIG, "a key may have at most %d bytes",
                                LIMIT_KV_KEY_BYTES);
    }
    return err;
}

static int keep(const struct buf *key, struct arena *arena, struct span *ret)
{
    void *copy = arena_copy(arena, key->len ? key->data : "", key->len);
    if (!copy)
        return -ERR_NOMEM;
    *ret = span_of(copy, key->len);
    return 0;
}

int kvkey_from_json(struct span json, bool empty_right, struct arena *arena, struct span *ret,
                    struct err_note *note)
{
    struct json_reader r;
    struct json_token t;
    struct buf key;
    size_t parts = 0;
    note->text[0] = 0;
    json_open(&r, json);
    if (json_next(&r, &t) != 0 || t.kind != JSON_ARRAY_BEGIN)
        return err_note_set(note, -ERR_INVALID,
                            "a key must be an array of texts, numbers and booleans");
    buf_init(&key);
    int err = parts_in(&r, arena, &key, &parts, note);
    if (err == 0)
        err = json_next(&r, &t);
    if (err == 0 && t.kind != JSON_END)
        err = -ERR_SYNTAX;
    if (err == 0 && parts == 0 && !empty_right)
        err = err_note_set(note, -ERR_INVALID, "a key must have at least one part");
    if (err == -ERR_SYNTAX)
        err = err_note_set(note, -ERR_INVALID, "a key must be one JSON array");
    if (err == 0)
        err = keep(&key, arena, ret);
    buf_done(&key);
    return err;
}

int kvkey_from_text(struct span text, struct arena *arena, struct span *ret, struct err_note *note)
{
    struct kv_part part = {.kind = KV_TEXT, .text = text};
    struct buf key;
    buf_init(&key);
    int err = kvkey_append(&key, &part);
    if (err == -ERR_INVALID)
        err_note_set(note, err, "a text in a key must be UTF-8 without U+0000");
    if (err == 0 && key.len > LIMIT_KV_KEY_BYTES)
        err =
            err_note_set(note, -ERR_TOO_BIG, "a key may have at most %d bytes", LIMIT_KV_KEY_BYTES);
    if (err == 0)
        err = keep(&key, arena, ret);
    buf_done(&key);
    return err;
}

/* The shortest text that gives the same number again. */
static void write_number(struct json_writer *w, double v)
{
    char text[NUMBER_TEXT_BYTES];
    if (v == trunc(v) && fabs(v) <= WHOLE_MAX) {
        json_write_int(w, (int64_t)v);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    json_write_raw(w, span_text(text));
}

void kvkey_write(struct json_writer *w, struct span key)
{
    struct kv_part part;
    json_write_array(w);
    while (key.len > 0 && kvkey_next(&key, &part) == 0) {
        if (part.kind == KV_TEXT)
            json_write_text(w, part.text);
        else if (part.kind == KV_BOOL)
            json_write_bool(w, part.boolean);
        else
            write_number(w, part.number);
    }
    json_write_array_end(w);
}
