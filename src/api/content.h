/* SPDX-License-Identifier: Apache-2.0 */
/* What a body is, by its Content-Type and first character, and its pieces when there are several.
 */
#pragma once

#include "api/problem.h"

enum content_form {
    CONTENT_OBJECT, /* application/json, no type or curl's own; anything but an array */
    CONTENT_ARRAY,
    CONTENT_LINES, /* application/x-ndjson */
    CONTENT_BYTES, /* any other type */
};
enum content_form content_form(const struct http_request *r);

struct pieces {
    struct span *list;
    size_t count, room;
};
/* The elements of an array, or the lines of NDJSON that are not blank: 1 to max valid JSON values,
 * as they stand. 0, or -ERR_INVALID with the problem set: something in the body is not JSON, or
 * there are none or too many. */
MUST_CHECK int content_pieces(const struct http_request *r, enum content_form form, size_t max,
                              struct pieces *ret, struct problem *problem);
