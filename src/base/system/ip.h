/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses as values: text, blocks, and whether an address lies on the public internet. No I/O,
 * no names. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

/* IPv4 as ::ffff:a.b.c.d, so that both are one kind of value. */
struct ip_address {
    uint8_t bytes[16];
};

struct ip_block {
    struct ip_address base;
    unsigned bits; /* of the 128 that must be equal */
};

#define IP_TEXT_BYTES 46 /* with the NUL */

struct ip_address ip_from_v4(const uint8_t bytes[4]);
bool ip_is_v4(const struct ip_address *a); /* also one that was written as ::ffff:a.b.c.d */
/* "192.0.2.1", "2001:db8::1"; no brackets, no zone. -ERR_SYNTAX. */
MUST_CHECK int ip_parse(struct span text, struct ip_address *ret);
/* "10.0.0.0/8", "fd00::/8", or an address alone. Bits beyond the length must be zero. -ERR_SYNTAX.
 */
MUST_CHECK int ip_block_parse(struct span text, struct ip_block *ret);
bool ip_block_has(const struct ip_block *block, const struct ip_address *a);
void ip_text(const struct ip_address *a, char out[IP_TEXT_BYTES]);

/* Why an address is not a public host: "loopback", "private", "link-local" …; NULL = it is one.
 * Addresses that carry an IPv4 address inside (mapped, NAT64, 6to4, Teredo) are what that one is,
 * or not public at all. */
const char *ip_not_public(const struct ip_address *a);
