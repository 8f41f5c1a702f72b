/* SPDX-License-Identifier: Apache-2.0 */
/* The checksum of a page of holdfast.db.
 *
 * SQLite reserves the last DBPAGE_RESERVED bytes of each page and never looks at them; all numbers
 * in them are big-endian:
 *
 *   4080  salts of the WAL from which a checkpoint copied the page (two of 4 bytes) …
 *   4088  … and the number of the frame there; all three are 0 when it came in another way
 *   4092  CRC32C of the page number (4 bytes) and of the page up to here
 *
 * The page number makes a page that was written to a wrong place fail, and a page of zeros fails,
 * too. Pages in the WAL carry no such checksum: a frame has its own (pages/wal.h).
 *
 * SQLite never uses the page that holds the byte at 1 GiB; it is not checked.
 *
 * src/backend/local/pages adds checksums to the pages of the file and checks them, between SQLite
 * and the file system. It may use base, SQLite, the file system and the connections of sqlite/, and
 * knows nothing about jobs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DBPAGE_BYTES 4096
#define DBPAGE_RESERVED 16
#define DBPAGE_UNUSED (0x40000000u / DBPAGE_BYTES + 1)

/* Where a checkpoint found a page. */
struct dbpage_origin {
    uint32_t salts[2];
    uint32_t frame; /* 1 … */
};

void dbpage_seal(unsigned char *page, uint32_t number, const struct dbpage_origin *from);
bool dbpage_good(const unsigned char *page, uint32_t number);
struct dbpage_origin dbpage_origin_of(const unsigned char *page);

/* What is wrong with a page or a frame; FINE: nothing. */
enum dbpage_fault_kind {
    DBPAGE_FINE,
    DBPAGE_WRONG,   /* the checksum of the page does not match */
    DBPAGE_MISSING, /* the file ends before or within it */
    DBPAGE_FRAME,   /* the checksum of this frame of the WAL does not match */
};
struct dbpage_fault {
    enum dbpage_fault_kind kind;
    uint32_t number; /* of the page, or of the frame */
};
/* "page 7 is damaged: …", into at least 100 bytes. */
void dbpage_fault_text(const struct dbpage_fault *fault, char *text, size_t bytes);

/* Reads page `number` of the file; *ret_fault says what is wrong with it. -ERR_IO. */
MUST_CHECK int dbpage_read(int fd, uint32_t number, unsigned char page[DBPAGE_BYTES],
                           struct dbpage_fault *ret_fault);
/* Checks each page of the file, used or not, that `skip` (may be NULL) does not leave out, up to
 * page `count` (0 = to the end of the file), and tells each fault. -ERR_IO, -ERR_NOMEM. */
struct dbpage_walk {
    void *ctx;
    bool (*skip)(void *ctx, uint32_t number);
    void (*bad)(void *ctx, const struct dbpage_fault *fault);
    uint32_t count;
};
MUST_CHECK int dbpage_walk(int fd, const struct dbpage_walk *walk);

/* The page at the top of the tree to which a page belongs, from the pointer map that SQLite keeps
 * for auto_vacuum; 0 when it is free, holds the map itself, or cannot be told. */
uint32_t dbpage_root(int (*read)(void *ctx, uint32_t number, unsigned char page[DBPAGE_BYTES]),
                     void *ctx, uint32_t number);
