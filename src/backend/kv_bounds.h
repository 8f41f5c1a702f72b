/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the query of a list of keys to one range of bytes, in the same way for every store. */
#pragma once

#include "base/containers/arena.h"
#include "base/err.h"
#include "ops/op.h"

struct kv_bounds {
    struct span low; /* the first key of the range */
    struct span end; /* the key before which the range ends */
};

/* Combines prefix, range and cursor. The bytes belong to the query or to the arena. */
MUST_CHECK int kv_bounds_of(const struct op_kv_list *query, struct arena *arena,
                            struct kv_bounds *ret);
