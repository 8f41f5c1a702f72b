/* SPDX-License-Identifier: Apache-2.0 */
/* What a list of keys asks for, as one range of bytes: the same for every store. */
#pragma once

#include "base/containers/arena.h"
#include "base/err.h"
#include "ops/op.h"

struct kv_bounds {
    struct span low; /* the least key … */
    struct span end; /* … and that which it ends before */
};

/* Prefix, range and cursor together. The bytes are the query's or in the arena. */
MUST_CHECK int kv_bounds_of(const struct op_kv_list *query, struct arena *arena,
                            struct kv_bounds *ret);
