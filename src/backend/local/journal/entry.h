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
 *   52  u32     CRC32C of header (with this field and the tag zero) and body
 *   56  u64     bytes of the segment's file
 *   64  u64     offset of this entry in the segment
 *   72  8       mark: the same in every header of a store, derived from its key
 *   80  16      tag: HMAC-SHA256 of the bytes 0 … 71 with the store's key, its first half
 *   96  body    frames, one after the other: the records first … last without a gap
 *
 * On the disk zeros follow up to the next multiple of JOURNAL_PAGE; they are not part of the
 * length. Everything up to the body lies where it is in every version.
 *
 * The tag says that this store wrote the header, at this place. It is looked at before anything
 * else: segments are used again, so a page may hold bytes of an old payload, which a client chose.
 * The mark is not covered by the tag. A header with the mark and without a correct tag is one of
 * this store that was damaged; a client cannot know the mark either. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define JOURNAL_ENTRY_HEADER_BYTES 96
#define JOURNAL_BODY_BYTES_MAX (1u << 30)
#define JOURNAL_KEY_BYTES 32
#define JOURNAL_MARK_BYTES 8
#define JOURNAL_GENERATION_MAX (UINT64_MAX >> 1) /* never reached; there is always a next one */

struct journal_entry {
    uint32_t length; /* of the body */
    uint8_t store_id[16];
    uint64_t generation;
    uint64_t first, last;
    uint32_t previous; /* CRC of the entry before */
    uint32_t crc;
    uint64_t segment_bytes; /* so that a file that was cut is noticed */
    uint64_t at;            /* offset in the segment, so that a moved entry is noticed */
    uint8_t mark[JOURNAL_MARK_BYTES];
};

/* The key of a store, prepared. One thread at a time. */
struct hmac;
struct journal_seal {
    struct hmac *mac; /* NULL: not initialised */
    uint8_t mark[JOURNAL_MARK_BYTES];
};

/* -ERR_NOMEM. */
MUST_CHECK int journal_seal_init(struct journal_seal *s, const uint8_t key[JOURNAL_KEY_BYTES]);
void journal_seal_done(struct journal_seal *s); /* accepts one that is all zero */

/* What an entry with this body takes up on the disk. */
uint64_t journal_entry_bytes(uint64_t length);

/* Sets e->crc and e->mark for a body that is these parts, and writes the header. e->length is their
 * sum. -ERR_NOMEM. */
MUST_CHECK int journal_entry_seal(struct journal_seal *s, struct journal_entry *e,
                                  const struct span *parts, size_t count,
                                  char header[JOURNAL_ENTRY_HEADER_BYTES]);

/* Reads the header that lies at the offset `at` of its segment. -ERR_CORRUPT: it is not an entry of
 * this store, or one that can't be. -ERR_VERSION: a newer one; all fields are filled. -ERR_NOMEM.
 * The CRC is not looked at. */
MUST_CHECK int journal_entry_header(struct journal_seal *s, struct span bytes, uint64_t at,
                                    struct journal_entry *ret);

/* The same fields of a header that may be anything. False: the bytes are too few, or no header of
 * any version begins there. */
bool journal_entry_fields(struct span bytes, struct journal_entry *ret);
/* As above, and there is a tag, right or wrong. */
bool journal_entry_tagged(struct span bytes, struct journal_entry *ret);
/* Whether a header of this store, now perhaps damaged, lies there. Its fields are not to be
 * trusted. */
bool journal_entry_marked(const struct journal_seal *s, struct span bytes,
                          struct journal_entry *ret);

/* Whether the CRC is right and the body what e says. -ERR_CORRUPT: it is not; -ERR_VERSION: it
 * holds frames of a newer version. */
MUST_CHECK int journal_entry_check(const struct journal_entry *e, struct span body);
