/* SPDX-License-Identifier: Apache-2.0 */
/* The form of a body, by its Content-Type and first character, and its parts if there are
 * several. */
#pragma once

#include "api/problems/problem.h"

enum content_form {
    CONTENT_OBJECT, /* application/json, no type, or curl's default; not an array */
    CONTENT_ARRAY,
    CONTENT_LINES, /* application/x-ndjson */
    CONTENT_BYTES, /* any other type */
};
enum content_form content_form(const struct http_request *r);

struct pieces {
    struct span *list;
    size_t count, room;
};
/* The elements of an array, or the lines of NDJSON that are not blank: 1 to max valid JSON
 * values, unchanged. 0, or -ERR_INVALID with the problem set: part of the body is not JSON, or
 * there are no values or too many. */
MUST_CHECK int content_pieces(const struct http_request *r, enum content_form form, size_t max,
                              struct pieces *ret, struct problem *problem);
