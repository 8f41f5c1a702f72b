/* SPDX-License-Identifier: Apache-2.0 */
#include "support/journal_image.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/local/journal_entry.h"
#include "base/check.h"

struct image_file {
    char *bytes;
    size_t size;
};

static const char image_store[16] = "the fuzzed store";

/* Makes an entry right that almost is one; *crc becomes its own. */
static void piece_mend(char *bytes, size_t len, unsigned mode, uint32_t *crc)
{
    struct journal_entry e;
    if (len < JOURNAL_ENTRY_HEADER_BYTES || memcmp(bytes, "HFj1", 4) != 0)
        return;
    if (mode & IMAGE_OURS)
        memcpy(bytes + 8, image_store, sizeof image_store);
    if (mode & IMAGE_SEAL) { /* a header that can't be is none, whatever its CRC */
        uint32_t length = (uint32_t)(len - JOURNAL_ENTRY_HEADER_BYTES);
        for (int i = 0; i < 4; i++)
            bytes[4 + i] = (char)(length >> (8 * i));
    }
    if (journal_entry_header(span_of(bytes, len), &e) != 0)
        return;
    if (mode & IMAGE_CHAIN)
        e.previous = *crc;
    if (mode & IMAGE_SEAL) {
        struct span body =
            span_of(bytes + JOURNAL_ENTRY_HEADER_BYTES, len - JOURNAL_ENTRY_HEADER_BYTES);
        journal_entry_seal(&e, &body, 1, bytes);
    }
    *crc = e.crc;
}

static void file_put(struct image_file *f, size_t at, struct span bytes)
{
    size_t end = (at + bytes.len + JOURNAL_PAGE - 1) / JOURNAL_PAGE * JOURNAL_PAGE;
    if (end > f->size) {
        f->bytes = realloc(f->bytes, end);
        CHECK(f->bytes);
        memset(f->bytes + f->size, 0, end - f->size);
        f->size = end;
    }
    if (bytes.len > 0)
        memcpy(f->bytes + at, bytes.at, bytes.len);
}

static bool piece_load(struct span *in, struct image_file *files, unsigned mode, uint32_t *crc)
{
    uint8_t file, page, low, high;
    struct span bytes;
    if (span_take_u8(in, &file) < 0 || span_take_u8(in, &page) < 0 || span_take_u8(in, &low) < 0 ||
        span_take_u8(in, &high) < 0)
        return false;
    size_t len = (size_t)(low | high << 8);
    if (span_take_bytes(in, len < in->len ? len : in->len, &bytes) < 0)
        return false;
    char *copy = malloc(bytes.len + 1);
    CHECK(copy);
    if (bytes.len > 0)
        memcpy(copy, bytes.at, bytes.len);
    piece_mend(copy, bytes.len, mode, crc);
    file_put(&files[file % IMAGE_FILES], (size_t)(page % IMAGE_PAGES) * JOURNAL_PAGE,
             span_of(copy, bytes.len));
    free(copy);
    return true;
}

void image_load(struct span image, struct files_torn *disk, struct journal_config *config)
{
    struct image_file files[IMAGE_FILES] = {{NULL, 0}};
    uint8_t mode = 0, from = 0, applied = 0;
    uint32_t crc = 0;
    if (span_take_u8(&image, &mode) < 0 || span_take_u8(&image, &from) < 0 ||
        span_take_u8(&image, &applied) < 0)
        image.len = 0;
    *config = (struct journal_config){.from = from, .applied = applied};
    config->segment_bytes = IMAGE_SEGMENT;
    config->bytes_max = 8 * IMAGE_SEGMENT;
    config->read_only = (mode & IMAGE_NO_BEGIN) != 0;
    memcpy(config->store_id, image_store, sizeof image_store);
    while (piece_load(&image, files, mode, &crc))
        ;
    for (unsigned i = 0; i < IMAGE_FILES; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i + 1);
        if (files[i].size == 0)
            continue;
        if (!(mode & IMAGE_ODD) && files[i].size < IMAGE_SEGMENT)
            file_put(&files[i], IMAGE_SEGMENT, span_of(NULL, 0));
        files_torn_put(disk, name, span_of(files[i].bytes, files[i].size));
        free(files[i].bytes);
    }
}

/* How much of what begins at `page` is worth keeping: an entry, or what is not zero. */
static size_t piece_bytes(struct span rest)
{
    struct journal_entry e;
    if (journal_entry_header(rest, &e) == 0 && e.length <= rest.len - JOURNAL_ENTRY_HEADER_BYTES)
        return JOURNAL_ENTRY_HEADER_BYTES + e.length;
    size_t len = rest.len < JOURNAL_PAGE ? rest.len : JOURNAL_PAGE;
    while (len > 0 && rest.at[len - 1] == 0)
        len--;
    return len;
}

static void file_save(struct files_torn *disk, unsigned file, struct buf *out)
{
    char name[16];
    snprintf(name, sizeof name, "%u", file + 1);
    struct span content = files_torn_content(disk, name);
    size_t at = 0;
    while (at < content.len && at / JOURNAL_PAGE < IMAGE_PAGES) {
        size_t len = piece_bytes(span_of(content.at + at, content.len - at));
        if (len > UINT16_MAX)
            len = UINT16_MAX;
        CHECK(buf_reserve(out, len + 4) == 0);
        if (len > 0 || at == 0) {
            buf_put_u8(out, (uint8_t)file);
            buf_put_u8(out, (uint8_t)(at / JOURNAL_PAGE));
            buf_put_u8(out, (uint8_t)len);
            buf_put_u8(out, (uint8_t)(len >> 8));
            buf_put_bytes(out, content.at + at, len);
        }
        at += len ? (len + JOURNAL_PAGE - 1) / JOURNAL_PAGE * JOURNAL_PAGE : JOURNAL_PAGE;
    }
}

void image_save(struct files_torn *disk, const struct journal_config *config, unsigned mode,
                struct buf *out)
{
    CHECK(buf_reserve(out, 3) == 0);
    buf_put_u8(out, (uint8_t)mode);
    buf_put_u8(out, (uint8_t)config->from);
    buf_put_u8(out, (uint8_t)config->applied);
    for (unsigned file = 0; file < IMAGE_FILES; file++)
        file_save(disk, file, out);
}
