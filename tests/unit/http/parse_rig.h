/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a request as a connection would, from pieces, and keeps what came of it for comparing.
 * Shared by the parser's tests and its fuzz target. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/span.h"
#include "http/parse.h"

enum outcome_kind {
    OUTCOME_MORE, /* the request is not complete */
    OUTCOME_REFUSED,
    OUTCOME_WHOLE,
};

struct outcome {
    enum outcome_kind kind;
    struct http_fault fault;
    size_t head_bytes; /* 0: no head yet */
    size_t bytes;      /* of head and body, when whole */
    struct buf head;   /* everything that was parsed, places included */
    struct buf body;
};

/* cuts: ascending places in the text, at each of which a piece ends; the last piece ends with the
 * text. Every call of the parser sees a copy of exactly its size. outcome_done afterwards. */
void outcome_read(struct outcome *o, struct span text, const size_t *cuts, size_t count,
                  const struct http_limits *limits);
void outcome_done(struct outcome *o);
bool outcome_equal(const struct outcome *a, const struct outcome *b);

/* The outcome of the whole text, after making sure that it is the same when the text comes in two
 * pieces, for every cut, and byte by byte. */
void outcome_agreed(struct outcome *o, struct span text, const struct http_limits *limits);

/* A request that a test writes in parts. */
struct request_text {
    char text[64 * 1024];
    size_t len;
};
void request_add(struct request_text *r, const char *text);
void request_fill(struct request_text *r, char c, size_t count);
