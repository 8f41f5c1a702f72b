/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of the key-value store: arrays of parts, encoded as one byte string that sorts as they do.
 *
 * A key has 1 … LIMIT_KV_PARTS parts: booleans, numbers, texts. Booleans come before numbers,
 * numbers before texts; false before true, numbers by value, texts by code point; a key comes
 * before every longer one that begins with it. The encoding keeps this order for memcmp, and a key
 * is a prefix of another, part by part, exactly if its bytes are:
 *
 *   false 10   true 11   number 20 + eight bytes   text 30 + UTF-8 without U+0000 + 00
 *
 * Each key has one encoding: numbers are doubles, -0 is 0. It is on disk: never change it. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/containers/arena.h"
#include "base/err.h"
#include "base/json/json.h"
#include "base/span.h"

enum kv_part_kind { KV_BOOL, KV_NUMBER, KV_TEXT };

struct kv_part {
    enum kv_part_kind kind;
    bool boolean;
    double number; /* finite */
    struct span text;
};

/* Greater than any byte of an encoding at its position: prefix + this is the end of the range with
 * the prefix. */
#define KVKEY_END 0xff

/* Appends one part: 0, -ERR_NOMEM, or -ERR_INVALID (U+0000, bad UTF-8, not a number). */
MUST_CHECK int kvkey_append(struct buf *out, const struct kv_part *part);
/* Removes the first part. -ERR_CORRUPT: not an encoding. Texts point into the key. */
MUST_CHECK int kvkey_next(struct span *key, struct kv_part *ret);
/* Whether these bytes are the encoding of a key within the limits: 0, or -ERR_INVALID. */
MUST_CHECK int kvkey_check(struct span key);
static inline bool kvkey_begins(struct span key, struct span prefix)
{
    return prefix.len == 0 || (key.len >= prefix.len && memcmp(key.at, prefix.at, prefix.len) == 0);
}

/* From a JSON array; the bytes are in the arena. An array without parts is accepted only if
 * `empty_right`: it is the prefix of every key. -ERR_INVALID with a note (what is wrong and what is
 * allowed), -ERR_TOO_BIG likewise, -ERR_NOMEM. */
MUST_CHECK int kvkey_from_json(struct span json, bool empty_right, struct arena *arena,
                               struct span *ret, struct err_note *note);
/* The key with one text as its only part. */
MUST_CHECK int kvkey_from_text(struct span text, struct arena *arena, struct span *ret,
                               struct err_note *note);
/* Writes it as a JSON array; numbers in their shortest form. */
void kvkey_write(struct json_writer *w, struct span key);
