/* SPDX-License-Identifier: Apache-2.0 */
/* The trace context of a request (W3C Trace Context), which the jobs that it enqueues carry on. */
#pragma once

#include "http/http.h"

struct trace {
    struct span parent, state; /* traceparent, tracestate; empty = none */
};

/* A traceparent that is given twice is none. Several tracestate headers are one list; it is in the
 * request's arena. */
struct trace trace_of(const struct http_request *r);
