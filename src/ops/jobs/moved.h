/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that move in from another store whole (op_enqueue.moved): what every store checks first. */
#pragma once

#include "base/err.h"
#include "ops/op.h"

/* 0, or -ERR_INVALID with a note that says which part cannot be. Payload, options and the texts
 * that any job may have are not looked at. */
MUST_CHECK int moved_check(const struct op_enqueue *want, struct err_note *note);
/* A bound of what its records need beyond those of any import. */
size_t moved_bytes(const struct job_moved *m);
