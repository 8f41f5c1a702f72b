/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of an enqueue that need no state of the queue. */
#pragma once

#include "base/err.h"
#include "ops/op.h"

/* 0, or -ERR_INVALID with a note that says what would be right. The payload is not looked at:
 * kv_body_right says what it may be. */
MUST_CHECK int enqueue_check(const struct op_enqueue *want, struct err_note *note);
