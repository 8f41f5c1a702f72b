/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of a job: names and texts that are passed on with it, as one JSON object.
 *
 * A name is a token of HTTP (RFC 9110: letters, digits and !#$%&'*+-.^_`|~), at most 128 bytes, and
 * keeps its case; names that differ in case are different. A value is a text without control
 * characters. The whole, written without white space, has at most LIMIT_HEADERS_BYTES. */
#pragma once

#include <stdbool.h>

#include "base/containers/arena.h"
#include "base/err.h"
#include "base/span.h"

#define HEADER_NAME_BYTES_MAX 128

/* 0, or -ERR_INVALID or -ERR_TOO_BIG with a note that begins with "headers". */
MUST_CHECK int headers_check(struct span json, struct err_note *note);
/* Checks an object and writes it without white space; one without members becomes empty. The result
 * is in the arena. Also -ERR_NOMEM, without a note. */
MUST_CHECK int headers_read(struct span json, struct arena *arena, struct span *ret,
                            struct err_note *note);

/* A header of a request. */
struct header {
    struct span name, value;
};
/* Adds the trace context of a request (W3C: traceparent, tracestate; empty = none) to the headers
 * of a job. A job with its own traceparent keeps it and gets neither; one with its own tracestate
 * keeps that. A traceparent that is not valid, or that does not fit, is left out. The result is in
 * the arena, or *headers unchanged. -ERR_NOMEM. */
MUST_CHECK int headers_add_trace(struct span *headers, struct span traceparent,
                                 struct span tracestate, struct arena *arena);

/* The trace id in the traceparent of the headers, 32 digits; empty = none. */
struct span headers_trace_id(struct span headers);
