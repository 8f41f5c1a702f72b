/* SPDX-License-Identifier: Apache-2.0 */
/* Strict JSON (RFC 8259): a pull reader that reports byte ranges, and a writer.
 *
 * The reader converts only what is asked for: a payload is validated and kept byte for byte, with
 * its large integers, unusual spellings of numbers, white space and escapes. Text must be valid
 * UTF-8; nesting is limited; only white space may follow the value. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/containers/arena.h"
#include "base/err.h"
#include "base/span.h"

#define JSON_DEPTH_MAX 128
/* For who reads our own answers: a value that was let in at full depth stands some levels deeper
 * there. */
#define JSON_DEPTH_DEEP 192

enum json_kind {
    JSON_NULL,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY_BEGIN,
    JSON_ARRAY_END,
    JSON_OBJECT_BEGIN,
    JSON_OBJECT_END,
    JSON_KEY, /* a member's name; its value is the next token */
    JSON_END, /* the text is over and was valid */
};

struct json_token {
    enum json_kind kind;
    struct span raw; /* the bytes as they stand, quotes included */
    bool escaped;    /* a string or key that contains a backslash */
};

struct json_reader {
    struct span text;
    size_t at;
    size_t depth;
    int expect; /* private: what the grammar allows next */
    size_t depth_max;
    uint64_t is_object[JSON_DEPTH_DEEP / 64]; /* bit per level */
    const char *error;                        /* what was wrong, for the message; static text */
    size_t error_at;                          /* byte offset */
};

void json_open(struct json_reader *r, struct span text);
void json_open_deep(struct json_reader *r, struct span text); /* up to JSON_DEPTH_DEEP */
/* The next token, or -ERR_SYNTAX with error and error_at set (and again on each later call). */
MUST_CHECK int json_next(struct json_reader *r, struct json_token *ret);
/* After a token that begins a value: reads to its end and gives the whole range, begin to end. */
MUST_CHECK int json_skip(struct json_reader *r, struct json_token first, struct span *ret);
/* Checks a whole text. error_at and error may be NULL. */
MUST_CHECK int json_check(struct span text, const char **error, size_t *error_at);
MUST_CHECK int json_check_deep(struct span text, const char **error, size_t *error_at);

/* The text a string or key token stands for. Points into raw when nothing is escaped. Unpaired
 * surrogates (which RFC 8259 allows as escapes) are -ERR_INVALID here: fine in a payload, which
 * stays as it is, but never in a name, key or label. */
MUST_CHECK int json_string(const struct json_token *t, struct arena *arena, struct span *ret);
/* A number as int64: only if it is a whole number in range; 1.0 and 1e2 count as whole.
 * -ERR_RANGE, -ERR_INVALID. */
MUST_CHECK int json_int(const struct json_token *t, int64_t *ret);

/* Our own envelopes: walks an object, calls for every member with the reader standing on its value,
 * and refuses a name that comes twice, or with unpaired surrogates (-ERR_SYNTAX). The callback must
 * consume the value, and stops the walk when it does not return 0. The reader stands before the
 * object or just behind its JSON_OBJECT_BEGIN; anything but an object is -ERR_SYNTAX. If the object
 * is the whole text, this also checks that nothing follows it. Names live as long as text and
 * arena. */
typedef int (*json_member_fn)(void *ctx, struct json_reader *r, struct span name,
                              struct json_token value);
MUST_CHECK int json_object(struct json_reader *r, struct arena *arena, json_member_fn fn,
                           void *ctx);

/* The writer puts commas and quotes; it asserts that calls are in an order that gives valid JSON.
 */
struct json_writer {
    struct buf *out;
    size_t depth;
    uint64_t is_object[JSON_DEPTH_MAX / 64];
    bool comma;     /* the next item needs one */
    bool after_key; /* a value must follow */
    int error;      /* first failure; later calls do nothing */
};

void json_writer_init(struct json_writer *w, struct buf *out);
void json_write_object(struct json_writer *w);
void json_write_object_end(struct json_writer *w);
void json_write_array(struct json_writer *w);
void json_write_array_end(struct json_writer *w);
void json_write_key(struct json_writer *w, const char *name);
void json_write_key_span(struct json_writer *w, struct span name);
void json_write_text(struct json_writer *w, struct span utf8); /* invalid UTF-8 becomes U+FFFD */
void json_write_int(struct json_writer *w, int64_t v);
void json_write_uint(struct json_writer *w, uint64_t v);
void json_write_bool(struct json_writer *w, bool v);
void json_write_null(struct json_writer *w);
void json_write_raw(struct json_writer *w, struct span value); /* already valid JSON */
/* 0 or the first failure. */
MUST_CHECK int json_writer_finish(struct json_writer *w);
