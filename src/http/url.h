/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-decoding of paths and queries. Decoded text is UTF-8 without NUL, or it is refused. */
#pragma once

#include <stdbool.h>

#include "base/containers/arena.h"
#include "base/err.h"
#include "base/span.h"

/* Decodes %XX (and '+' as a space if `form`). Points into the input if nothing is encoded.
 * -ERR_SYNTAX: an invalid escape, NUL, or not UTF-8; -ERR_NOMEM. */
MUST_CHECK int url_decode(struct span raw, bool form, struct arena *arena, struct span *ret);

/* One name=value of a query, decoded. */
struct url_param {
    struct span name, value;
};
#define URL_PARAMS_MAX 64
/* All of them in order; empty pieces ("a=1&&b=2") are skipped, a name without '=' has an empty
 * value. -ERR_SYNTAX as above, -ERR_TOO_BIG for more than URL_PARAMS_MAX, -ERR_NOMEM. */
MUST_CHECK int url_query(struct span raw, struct arena *arena, struct url_param *out,
                         size_t *ret_count);
