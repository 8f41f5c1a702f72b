/* SPDX-License-Identifier: Apache-2.0 */
/* Where a job that got a new id came from: imported_from among its attributes. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

/* The attributes (a JSON object, or empty) without an old imported_from, and with this one unless
 * id is empty; *ret is in the arena, and empty when nothing is left. -ERR_SYNTAX: they are no
 * object, or have a name twice; -ERR_NOMEM. */
MUST_CHECK int imported_set(struct span attributes, struct span id, struct arena *arena,
                            struct span *ret);
/* The id, as it was spelled; empty = there is none. */
struct span imported_from(struct span attributes, struct arena *arena);
