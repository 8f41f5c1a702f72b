/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a reply that must outlive the callback which delivered it. */
#pragma once

#include "ops/op.h"

/* Copies the reply and everything it points to into one block; NULL if there is no memory. Free it
 * with mem_free. */
struct reply *reply_copy(const struct reply *reply);
