/* SPDX-License-Identifier: Apache-2.0 */
/* The position at which a list continues, as opaque text: the order and the last sequence that
 * was shown. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/fields/fields.h"
#include "base/err.h"
#include "base/span.h"

#define CURSOR_TEXT_BYTES 18 /* including the NUL */
void cursor_text(uint64_t seq, bool newest_first, char out[CURSOR_TEXT_BYTES]);
/* -ERR_SYNTAX: the text is not from cursor_text, or belongs to a list in the other order. */
MUST_CHECK int cursor_parse(struct span text, bool newest_first, uint64_t *ret);
/* Sets the problem for a `cursor` that no list has returned. -ERR_INVALID. */
int cursor_refuse(const struct field_reader *r);
