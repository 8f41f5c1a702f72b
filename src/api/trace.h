/* SPDX-License-Identifier: Apache-2.0 */
/* The trace context of a request (W3C Trace Context), which is copied into the jobs that the
 * request enqueues. */
#pragma once

#include "http/http.h"

/* Copies `traceparent` and `tracestate` of the request into the headers of a job, by the rules of
 * headers_add_trace(). A request with two traceparent headers has no trace context. Several
 * tracestate headers are joined into one list. The result is in the request's arena. -ERR_NOMEM. */
MUST_CHECK int trace_copy(const struct http_request *r, struct span *headers);
