/* SPDX-License-Identifier: Apache-2.0 */
/* Checks on what outsiders send: names, keys, texts. Each returns 0 or -ERR_INVALID / -ERR_TOO_BIG
 * with a note that says what was wrong and what would be right. */
#pragma once

#include "base/err.h"
#include "base/span.h"
#include "core/job.h"

/* 1 to 200 bytes of UTF-8, no control characters, not starting with '-'. */
MUST_CHECK int validate_queue_name(struct span name, struct err_note *note);
/* Keys, labels, worker names: up to max bytes of UTF-8 without U+0000; empty means "none". */
MUST_CHECK int validate_text(const char *field, struct span text, size_t max,
                             struct err_note *note);
/* State and reason must go together, the error be a text, the time one before the year 10000. */
/* The id of a job that came from a spool. */
MUST_CHECK int validate_spooled(struct job_ref id);
MUST_CHECK int validate_past(const struct job_past *past, struct err_note *note);
/* The keys at which a job leaves its payload: 1 … LIMIT_KV_UNDELIVERED, each once; as
 * record_span_append writes them. */
MUST_CHECK int validate_undelivered(struct span keys, uint32_t *ret_count);
/* Cuts at max bytes without splitting a character; what validate_text would refuse, invalid UTF-8
 * and U+0000, is cut before its first byte. */
struct span validate_cut(struct span text, size_t max);
