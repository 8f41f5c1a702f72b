/* SPDX-License-Identifier: Apache-2.0 */
/* Base 64 (RFC 4648, padded): how bytes that are not text are shown in JSON. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/span.h"

/* Characters that len bytes become; SIZE_MAX when that does not fit. No NUL is counted. */
size_t base64_len(size_t len);
/* Writes exactly base64_len(in.len) characters to out, no NUL. */
void base64_encode(struct span in, char *out);
/* The largest number of bytes that this many characters become. */
size_t base64_decoded_max(size_t len);
/* Writes at most base64_decoded_max(in.len) bytes to out and their number to *ret. -ERR_SYNTAX for
 * anything that base64_encode would not have written: other characters, missing or misplaced
 * padding, bits that belong to no byte. */
MUST_CHECK int base64_decode(struct span in, char *out, size_t *ret);
