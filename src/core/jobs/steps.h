/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a job: results that the holder of a lease stores by name. They stay with the job, and
 * each claim of it contains them, so that an attempt does not repeat what an earlier one has
 * completed.
 *
 * A list of steps is name and result of each, with their lengths in front; a result is JSON. The
 * index says how much of the limits a job has used, without the results: for each step a keyed
 * hash of its name, and the bytes of name and result. Stores have the index of a job wherever they
 * decide, and the results apart from the job. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/digest/hash.h"
#include "base/err.h"
#include "base/span.h"
#include "core/limits.h"

struct step {
    struct span name, result;
};

/* 1 to 64 bytes of UTF-8 without control characters, except "." and "..". -ERR_INVALID with a note.
 */
MUST_CHECK int step_name_check(struct span name, struct err_note *note);

/* ---- lists ---- */

/* A list that steps_fit accepts has at most this many bytes. */
#define LIMIT_STEPS_LIST_BYTES (LIMIT_STEPS_BYTES + LIMIT_STEPS * 4u)

/* Appends a step. -ERR_NOMEM. */
MUST_CHECK int steps_append(struct buf *list, const struct step *s);
/* Replaces the step of this name, or adds it, in a list that is ordered by name. -ERR_NOMEM. */
MUST_CHECK int steps_put(struct buf *list, const struct step *s);
/* The next step, which it removes from the list. False: no more, or the rest is damaged. */
bool steps_next(struct span *list, struct step *ret);
/* Whether the list is not empty, well-formed and within the limits. */
bool steps_fit(struct span list);
/* Whether an imported job can have this list, which may be empty: every result is JSON.
 * -ERR_INVALID with a note. */
MUST_CHECK int steps_check(struct span list, struct err_note *note);

/* ---- the index ---- */

#define STEP_INDEX_BYTES 12u /* of each step */

/* What a job has used of the limits, apart from the step of one name. */
struct steps_use {
    uint32_t count, bytes;
};

struct steps_use steps_use_without(struct span index, struct hash_key key, struct span name);
/* Bytes of the names and results of all steps. */
uint64_t steps_bytes(struct span index);
/* Enters a step in the index of `len` bytes, which has room for one more. Returns its new length.
 */
size_t steps_index_put(char *index, size_t len, struct hash_key key, struct span name,
                       size_t result_bytes);
/* Enters every step of the list, for which there is room. */
size_t steps_index_add(char *index, size_t len, struct hash_key key, struct span list);
/* How many steps the list has. */
size_t steps_count(struct span list);
/* Whether it can be an index. */
bool steps_index_fits(struct span index);
