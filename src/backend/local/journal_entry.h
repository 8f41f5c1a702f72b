/* SPDX-License-Identifier: Apache-2.0 */
/* One entry of the journal: a header and whole frames behind it. All numbers little-endian.
 *
 *    0  "HFj1"  magic; the digit is the version
 *    4  u32     length of the body
 *    8  16      id of the store
 *   24  u64     generation of the segment
 *   32  u64     position of the first record
 *   40  u64     position of the last record
 *   48  u32     CRC of the entry before this one (of the first entry ever: 0)
 *   52  u32     CRC32C of header (with this field zero) and body
 *   56  u64     bytes of the segment's file
 *   64  body    frames, one after the other: the records first … last without a gap
 *
 * On the disk zeros follow up to the next multiple of JOURNAL_PAGE; they are not part of the
 * length. Magic, length, id and generation lie where they are in every version. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define JOURNAL_ENTRY_HEADER_BYTES 64
#define JOURNAL_BODY_BYTES_MAX (1u << 30)

struct journal_entry {
    uint32_t length; /* of the body */
    uint8_t store_id[16];
    uint64_t generation;
    uint64_t first, last;
    uint32_t previous; /* CRC of the entry before */
    uint32_t crc;
    uint64_t segment_bytes; /* so that a file that was cut is noticed */
};

/* What an entry with this body takes up on the disk. */
uint64_t journal_entry_bytes(uint64_t length);

/* Sets e->crc for a body that is these parts, and writes the header. e->length is their sum. */
void journal_entry_seal(struct journal_entry *e, const struct span *parts, size_t count,
                        char header[JOURNAL_ENTRY_HEADER_BYTES]);

/* Reads a header. -ERR_CORRUPT: there is none, or one that can't be. -ERR_VERSION: a newer one;
 * length, store_id and generation are filled. The CRC is not looked at. */
MUST_CHECK int journal_entry_header(struct span bytes, struct journal_entry *ret);

/* Whether the CRC is right and the body what e says. -ERR_CORRUPT: it is not; -ERR_VERSION: it
 * holds frames of a newer version. */
MUST_CHECK int journal_entry_check(const struct journal_entry *e, struct span body);
