/* SPDX-License-Identifier: Apache-2.0 */
/* Entries: the header is laid out by hand, since its CRC covers it. */
#include "backend/local/journal_entry.h"

#include <endian.h>
#include <string.h>

#include "backend/local/journal.h"
#include "base/hash.h"
#include "core/frame.h"

static const char magic[4] = {'H', 'F', 'j', '1'};

/* Never reached; there is always a next one. */
#define GENERATION_MAX (UINT64_MAX >> 1)

/* Offsets in the header. */
enum {
    AT_MAGIC = 0,
    AT_LENGTH = 4,
    AT_STORE = 8,
    AT_GENERATION = 24,
    AT_FIRST = 32,
    AT_LAST = 40,
    AT_PREVIOUS = 48,
    AT_CRC = 52,
    AT_SEGMENT = 56
};

static void put32(char *at, uint32_t v)
{
    v = htole32(v);
    memcpy(at, &v, sizeof v);
}

static void put64(char *at, uint64_t v)
{
    v = htole64(v);
    memcpy(at, &v, sizeof v);
}

static uint32_t get32(const char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return le32toh(v);
}

static uint64_t get64(const char *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return le64toh(v);
}

static void header_write(const struct journal_entry *e, uint32_t crc, char *header)
{
    memcpy(header + AT_MAGIC, magic, sizeof magic);
    put32(header + AT_LENGTH, e->length);
    memcpy(header + AT_STORE, e->store_id, sizeof e->store_id);
    put64(header + AT_GENERATION, e->generation);
    put64(header + AT_FIRST, e->first);
    put64(header + AT_LAST, e->last);
    put32(header + AT_PREVIOUS, e->previous);
    put32(header + AT_CRC, crc);
    put64(header + AT_SEGMENT, e->segment_bytes);
}

uint64_t journal_entry_bytes(uint64_t length)
{
    uint64_t bytes = JOURNAL_ENTRY_HEADER_BYTES + length;
    return (bytes + JOURNAL_PAGE - 1) / JOURNAL_PAGE * JOURNAL_PAGE;
}

void journal_entry_seal(struct journal_entry *e, const struct span *parts, size_t count,
                        char header[JOURNAL_ENTRY_HEADER_BYTES])
{
    header_write(e, 0, header);
    e->crc = crc32c(0, header, JOURNAL_ENTRY_HEADER_BYTES);
    for (size_t i = 0; i < count; i++)
        e->crc = crc32c(e->crc, parts[i].at, parts[i].len);
    put32(header + AT_CRC, e->crc);
}

static bool plausible(const struct journal_entry *e)
{
    return e->length > FRAME_HEADER_BYTES && e->length <= JOURNAL_BODY_BYTES_MAX &&
           e->generation > 0 && e->generation <= GENERATION_MAX && e->first > 0 &&
           e->last >= e->first;
}

int journal_entry_header(struct span bytes, struct journal_entry *ret)
{
    if (bytes.len < JOURNAL_ENTRY_HEADER_BYTES || memcmp(bytes.at, magic, sizeof magic - 1) != 0)
        return -ERR_CORRUPT;
    char version = bytes.at[sizeof magic - 1];
    struct journal_entry e = {.length = get32(bytes.at + AT_LENGTH)};
    memcpy(e.store_id, bytes.at + AT_STORE, sizeof e.store_id);
    e.generation = get64(bytes.at + AT_GENERATION);
    if (version > magic[sizeof magic - 1] && version <= '9') {
        *ret = e;
        return -ERR_VERSION;
    }
    e.segment_bytes = get64(bytes.at + AT_SEGMENT);
    e.first = get64(bytes.at + AT_FIRST);
    e.last = get64(bytes.at + AT_LAST);
    e.previous = get32(bytes.at + AT_PREVIOUS);
    e.crc = get32(bytes.at + AT_CRC);
    if (version != magic[sizeof magic - 1] || !plausible(&e))
        return -ERR_CORRUPT;
    *ret = e;
    return 0;
}

/* Whether the frames are the records first … last. */
static int body_check(const struct journal_entry *e, struct span body)
{
    uint64_t next = e->first;
    while (body.len > 0) {
        struct frame f;
        int rc = frame_peek(&body, &f);
        if (rc < 0)
            return rc;
        if (f.first != next || f.count == 0)
            return -ERR_CORRUPT;
        next += f.count;
    }
    return next - 1 == e->last ? 0 : -ERR_CORRUPT;
}

int journal_entry_check(const struct journal_entry *e, struct span body)
{
    char header[JOURNAL_ENTRY_HEADER_BYTES];
    if (body.len != e->length)
        return -ERR_CORRUPT;
    header_write(e, 0, header);
    uint32_t crc = crc32c(crc32c(0, header, sizeof header), body.at, body.len);
    return crc == e->crc ? body_check(e, body) : -ERR_CORRUPT;
}
