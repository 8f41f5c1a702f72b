/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 (RFC 2104, FIPS 180-4), by OpenSSL. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/span.h"

#define HMAC_HEX_BYTES 65 /* with the NUL */

/* Over the parts, one after the other, in lower-case hexadecimal. -ERR_NOMEM. */
MUST_CHECK int hmac_sha256_hex(struct span key, const struct span *parts, size_t count,
                               char out[HMAC_HEX_BYTES]);
