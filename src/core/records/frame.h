/* SPDX-License-Identifier: Apache-2.0 */
/* A frame: the records of one batch, committed together or not at all.
 *
 *   "HFr1" magic · u32 body length · u64 first position · u32 record count · u32 CRC32C · body
 *
 * A position is the number of a record since the store was created; a frame of n records covers
 * first … first+n-1. The CRC covers the header (with its own field zero) and the body. The digit in
 * the magic is the version of the frame and of the records in it. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define FRAME_HEADER_BYTES 24
#define FRAME_BYTES_MAX (1u << 30)

struct frame {
    uint64_t first; /* position of its first record */
    uint32_t count;
    struct span body; /* records, one after the other */
};

/* Starts a frame in an empty buffer: leaves room for the header. */
MUST_CHECK int frame_begin(struct buf *out);
/* Fills in the header. The body is whatever has been appended since frame_begin: count records, at
 * most FRAME_BYTES_MAX bytes in all. */
void frame_end(struct buf *out, uint64_t first, uint32_t count);
/* Checks magic, length, CRC. -ERR_VERSION for a newer version, -ERR_CORRUPT otherwise; the records
 * are not decoded. Removes the frame from the front of *in. */
MUST_CHECK int frame_decode(struct span *in, struct frame *ret);
/* The same without checking the CRC, for frames that are protected by another checksum. */
MUST_CHECK int frame_peek(struct span *in, struct frame *ret);
