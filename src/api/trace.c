/* SPDX-License-Identifier: Apache-2.0 */
#include "api/trace.h"

#include "core/jobs/headers.h"
#include "core/limits.h"

/* Joins the values of all headers with this name with commas. */
static struct span values_of(const struct http_request *r, const char *name, size_t *ret_count)
{
    struct span whole = {NULL, 0};
    *ret_count = 0;
    for (size_t i = 0; i < r->header_count; i++) {
        struct span value = r->headers[i].value;
        if (!http_name_equal(r->headers[i].name, name) || value.len == 0)
            continue;
        if ((*ret_count)++ == 0) {
            whole = value;
            continue;
        }
        char *both = whole.len + value.len < LIMIT_HEADERS_BYTES
                         ? arena_alloc(r->arena, whole.len + 1 + value.len)
                         : NULL;
        if (!both)
            return (struct span){NULL, 0};
        memcpy(both, whole.at, whole.len);
        both[whole.len] = ',';
        memcpy(both + whole.len + 1, value.at, value.len);
        whole = span_of(both, whole.len + 1 + value.len);
    }
    return whole;
}

int trace_copy(const struct http_request *r, struct span *headers)
{
    size_t count;
    struct span parent = values_of(r, "traceparent", &count);
    if (count != 1)
        return 0;
    return headers_add_trace(headers, parent, values_of(r, "tracestate", &count), r->arena);
}
