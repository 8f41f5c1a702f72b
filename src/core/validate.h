/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of what clients send: names, keys, texts. Each returns 0 or -ERR_INVALID / -ERR_TOO_BIG
 * with a note that says what was wrong and what is allowed. */
#pragma once

#include "base/err.h"
#include "base/span.h"
#include "core/jobs/job.h"

/* 1 to 200 bytes of UTF-8, no control characters, not starting with '-'. */
MUST_CHECK int validate_queue_name(struct span name, struct err_note *note);
/* Keys, labels, worker names: up to max bytes of UTF-8 without U+0000; empty means "none". */
MUST_CHECK int validate_text(const char *field, struct span text, size_t max,
                             struct err_note *note);
/* The id of a job that came from a spool. */
MUST_CHECK int validate_spooled(struct job_ref id);
/* The state must allow the reason, the error must be a text, the time before the year 10000. */
MUST_CHECK int validate_past(const struct job_past *past, struct err_note *note);
/* The keys under which the payload of a job is stored: 1 … LIMIT_KV_UNDELIVERED, each once, as
 * record_span_append writes them. */
MUST_CHECK int validate_undelivered(struct span keys, uint32_t *ret_count);
/* Truncates at max bytes without splitting a character; it also truncates before invalid UTF-8 and
 * U+0000, which validate_text would refuse. */
struct span validate_cut(struct span text, size_t max);
