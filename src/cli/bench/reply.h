/* SPDX-License-Identifier: Apache-2.0 */
/* The load generator's reader of HTTP answers: as much of HTTP/1.1 as Holdfast's own server sends,
 * so that reading costs little beside the server that is measured. */
#pragma once

#include "base/err.h"
#include "base/span.h"

#define BENCH_HEAD_MAX ((size_t)16 << 10)
#define BENCH_BODY_MAX ((size_t)1 << 30)

struct bench_reply {
    int status;
    struct span body;
    size_t bytes; /* of the whole answer */
};

/* Looks for an answer at the beginning of input. 1: it is whole, and *ret points into input; 0:
 * more bytes are needed; -ERR_SYNTAX: this is no answer with a length (chunks are not read). */
MUST_CHECK int bench_reply_read(struct span input, struct bench_reply *ret);
/* How often `needle` occurs in the text. */
size_t bench_reply_count(struct span text, const char *needle);
