/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* Length of the valid sequence at the start of s, or 0. */
size_t utf8_sequence(struct span s);
bool utf8_valid(struct span s);
/* Writes 1 to 4 bytes; the code point must be valid and no surrogate. */
size_t utf8_encode(uint32_t code_point, char out[4]);
