/* SPDX-License-Identifier: Apache-2.0 */
#include "support/journal_image.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/digest/hash.h"
#include "base/digest/hmac.h"

struct image_file {
    char *bytes;
    size_t size;
};

static const char image_store[16] = "the fuzzed store";

const uint8_t image_key[JOURNAL_KEY_BYTES] = "thirty-two bytes, known to all.";

void image_key_put(struct files_torn *disk, const uint8_t store_id[16])
{
    char pages[2 * JOURNAL_PAGE] = {0};
    memcpy(pages, "HFk1", 4);
    memcpy(pages + 8, store_id, 16);
    memcpy(pages + 24, image_key, sizeof image_key);
    uint32_t crc = crc32c(0, pages, 24 + sizeof image_key);
    for (int i = 0; i < 4; i++)
        pages[4 + i] = (char)(crc >> (8 * i));
    memcpy(pages + JOURNAL_PAGE, pages, JOURNAL_PAGE);
    files_torn_put(disk, "key", span_of(pages, sizeof pages));
}

void image_tag(struct journal_seal *seal, char header[JOURNAL_ENTRY_HEADER_BYTES])
{
    uint8_t code[HMAC_BYTES];
    memcpy(header + 72, seal->mark, sizeof seal->mark);
    CHECK(hmac_run(seal->mac, span_of(header, 72), code) == 0);
    memcpy(header + 80, code, 16);
}

struct mending {
    struct journal_seal seal;
    unsigned mode;
    uint32_t crc; /* of the previous piece */
};

/* Corrects the header of an entry. */
static void piece_mend(struct mending *m, char *bytes, size_t len, uint64_t at)
{
    struct journal_entry e;
    unsigned mode = m->mode;
    if (len < JOURNAL_ENTRY_HEADER_BYTES || memcmp(bytes, "HFj", 3) != 0)
        return;
    if (mode & IMAGE_TAG)
        image_tag(&m->seal, bytes);
    if (bytes[3] != '1')
        return;
    if (mode & IMAGE_OURS)
        memcpy(bytes + 8, image_store, sizeof image_store);
    if (mode & IMAGE_SEAL) { /* an impossible header is not an entry, whatever its CRC */
        uint32_t length = (uint32_t)(len - JOURNAL_ENTRY_HEADER_BYTES);
        for (int i = 0; i < 4; i++)
            bytes[4 + i] = (char)(length >> (8 * i));
    }
    if (!journal_entry_fields(span_of(bytes, len), &e))
        return;
    if (mode & IMAGE_CHAIN)
        e.previous = m->crc;
    e.at = at;
    if (mode & IMAGE_SEAL) {
        struct span body =
            span_of(bytes + JOURNAL_ENTRY_HEADER_BYTES, len - JOURNAL_ENTRY_HEADER_BYTES);
        CHECK(journal_entry_seal(&m->seal, &e, &body, 1, bytes) == 0);
    }
    m->crc = e.crc;
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

static bool piece_load(struct span *in, struct image_file *files, struct mending *m)
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
    size_t at = (size_t)(page % IMAGE_PAGES) * JOURNAL_PAGE;
    piece_mend(m, copy, bytes.len, at);
    file_put(&files[file % IMAGE_FILES], at, span_of(copy, bytes.len));
    free(copy);
    return true;
}

void image_load(struct span image, struct files_torn *disk, struct journal_config *config)
{
    struct image_file files[IMAGE_FILES] = {{NULL, 0}};
    uint8_t mode = 0, from = 0, applied = 0;
    struct mending m = {0};
    CHECK(journal_seal_init(&m.seal, image_key) == 0);
    if (span_take_u8(&image, &mode) < 0 || span_take_u8(&image, &from) < 0 ||
        span_take_u8(&image, &applied) < 0)
        image.len = 0;
    *config = (struct journal_config){.from = from, .applied = applied};
    config->segment_bytes = IMAGE_SEGMENT;
    config->bytes_max = 8 * IMAGE_SEGMENT;
    config->read_only = (mode & IMAGE_NO_BEGIN) != 0;
    memcpy(config->store_id, image_store, sizeof image_store);
    image_key_put(disk, config->store_id);
    m.mode = mode;
    while (piece_load(&image, files, &m))
        ;
    journal_seal_done(&m.seal);
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

/* How many bytes from `page` on are stored: an entry, or the bytes that are not zero. */
static size_t piece_bytes(struct span rest)
{
    struct journal_entry e;
    if (journal_entry_fields(rest, &e) && e.length <= rest.len - JOURNAL_ENTRY_HEADER_BYTES)
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
