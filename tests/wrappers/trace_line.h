/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the trace (trace.c): kinds, tags, sequences, outcomes; never payloads, results, errors,
 * keys, labels, notes, URLs or secrets. Text that does not fit is truncated; names are escaped. */
#pragma once

#include "ops/op.h"

#define TRACE_LINE_BYTES 1024

struct line {
    char text[TRACE_LINE_BYTES];
    size_t len; /* at most TRACE_LINE_BYTES - 1: there is room for the line break */
};

__attribute__((format(printf, 2, 3))) void line_put(struct line *l, const char *format, ...);
void line_put_op(struct line *l, const struct op *op);
void line_put_reply(struct line *l, const struct reply *r);
