/* SPDX-License-Identifier: Apache-2.0 */
/* Reads frames for both stores: checked, in order, record by record. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "core/records/record.h"

/* Called for each record, whose spans point into the frame. A non-zero return stops the walk. */
typedef int (*frames_record_fn)(void *ctx, const struct record *r, uint64_t position,
                                struct err_note *note);

/* Visits the records after *position and advances it. Frames at or below it are skipped; a gap, a
 * frame that begins before and ends after it, and anything malformed are -ERR_CORRUPT (-ERR_VERSION
 * for a newer format) with a note. On failure *position is unchanged. */
MUST_CHECK int frames_walk(const struct span *frames, size_t count, uint64_t *position,
                           frames_record_fn fn, void *ctx, struct err_note *note);
