/* SPDX-License-Identifier: Apache-2.0 */
/* How one character is written inside a JSON string. Shared by the JSON writer and the log. */
#pragma once

#include <stddef.h>

#include "base/span.h"

#define JSON_ESCAPE_MAX 6 /* bytes of \u0000 */

/* Writes the first character of text (not empty) and says how many bytes of text it was. A byte
 * that begins no valid UTF-8 sequence becomes U+FFFD. */
size_t json_escape(struct span text, char out[JSON_ESCAPE_MAX], size_t *ret_taken);
/* The six-byte form, for a code point below U+10000. */
size_t json_escape_u(unsigned code, char out[JSON_ESCAPE_MAX]);
