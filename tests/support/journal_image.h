/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a journal in few bytes, for fuzzing: the beginnings of pages, without the zeros
 * between them.
 *
 *   u8 mode · u8 from · u8 applied · pieces: u8 file · u8 page · u16 length · bytes
 *
 * Files have the size of a segment (IMAGE_SEGMENT), or end with the last piece's page. The modes
 * correct values that no mutation could guess. */
#pragma once

#include "backend/local/journal/entry.h"
#include "backend/local/journal/journal.h"
#include "support/files_torn.h"

#define IMAGE_SEGMENT (4 * JOURNAL_PAGE)
#define IMAGE_FILES 8  /* named 1 … 8 */
#define IMAGE_PAGES 16 /* a piece begins below this one */

enum image_mode {
    IMAGE_SEAL = 1u << 0,  /* lengths, places, CRCs and tags of entries match their pieces */
    IMAGE_OURS = 1u << 1,  /* so does the store id */
    IMAGE_CHAIN = 1u << 2, /* and the CRC of the previous entry: that of the previous piece */
    IMAGE_ODD = 1u << 3,   /* files are not extended to the size of a segment */
    IMAGE_NO_BEGIN = 1u << 4,
    IMAGE_TAG =
        1u << 5, /* headers have the magic number and a correct tag, whatever else they contain */
};

/* The key of every image. */
extern const uint8_t image_key[JOURNAL_KEY_BYTES];

/* Writes journal/key of this store to a disk. */
void image_key_put(struct files_torn *disk, const uint8_t store_id[16]);
/* Sets the magic number and the tag of a header. */
void image_tag(struct journal_seal *seal, char header[JOURNAL_ENTRY_HEADER_BYTES]);

/* Writes the files to a disk and fills the config except for its files. Pieces that do not parse
 * are left out.
 */
void image_load(struct span image, struct files_torn *disk, struct journal_config *config);
/* Appends the image of the files on the disk. */
void image_save(struct files_torn *disk, const struct journal_config *config, unsigned mode,
                struct buf *out);
