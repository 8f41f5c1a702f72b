/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 (RFC 2104, FIPS 180-4), by OpenSSL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define HMAC_BYTES 32
#define HMAC_HEX_BYTES 65 /* with the NUL */

/* Over the parts, one after the other, in lower-case hexadecimal. -ERR_NOMEM. */
MUST_CHECK int hmac_sha256_hex(struct span key, const struct span *parts, size_t count,
                               char out[HMAC_HEX_BYTES]);

/* A key that was prepared once for many codes. Only one thread may use it at a time. */
struct hmac;

/* Copies the key; hmac_free erases the copy. -ERR_NOMEM. */
MUST_CHECK int hmac_new(struct span key, struct hmac **ret);
void hmac_free(struct hmac *h); /* NULL allowed */
/* -ERR_NOMEM. */
MUST_CHECK int hmac_run(struct hmac *h, struct span bytes, uint8_t out[HMAC_BYTES]);
/* Compares in a time that does not depend on the content. */
bool hmac_equal(const void *a, const void *b, size_t len);
