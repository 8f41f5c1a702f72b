/* SPDX-License-Identifier: Apache-2.0 */
/* Where a list goes on, as opaque text: the order and the last sequence that was shown. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/fields.h"
#include "base/err.h"
#include "base/span.h"

#define CURSOR_TEXT_BYTES 18 /* the NUL included */
void cursor_text(uint64_t seq, bool newest_first, char out[CURSOR_TEXT_BYTES]);
/* -ERR_SYNTAX: not what cursor_text writes, or of a list in the other order. */
MUST_CHECK int cursor_parse(struct span text, bool newest_first, uint64_t *ret);
/* The problem of a `cursor` that no list has given. -ERR_INVALID. */
int cursor_refuse(const struct field_reader *r);
