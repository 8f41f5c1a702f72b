/* SPDX-License-Identifier: Apache-2.0 */
/* A reply that outlives the callback which delivered it. */
#pragma once

#include "ops/op.h"

/* The reply and everything it points to, in one block; NULL when there is no memory. Give it back
 * with mem_free. */
struct reply *reply_copy(const struct reply *reply);
