/* SPDX-License-Identifier: Apache-2.0 */
/* Entries: the header is laid out by hand, since its CRC and its tag cover it. */
#include "backend/local/journal/entry.h"

#include <endian.h>
#include <string.h>

#include "backend/local/journal/journal.h"
#include "base/digest/hash.h"
#include "base/digest/hmac.h"
#include "core/records/frame.h"

static const char magic[4] = {'H', 'F', 'j', '1'};

#define TAG_BYTES 16

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
    AT_SEGMENT = 56,
    AT_OFFSET = 64,
    AT_MARK = 72, /* the tag covers all before it */
    AT_TAG = 80
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

/* ---- the seal ---- */

int journal_seal_init(struct journal_seal *s, const uint8_t key[JOURNAL_KEY_BYTES])
{
    uint8_t code[HMAC_BYTES];
    *s = (struct journal_seal){0};
    int rc = hmac_new(span_of(key, JOURNAL_KEY_BYTES), &s->mac);
    if (rc == 0)
        rc = hmac_run(s->mac, SPAN_LITERAL("mark of journal entries"), code);
    if (rc == 0)
        memcpy(s->mark, code, sizeof s->mark);
    else
        journal_seal_done(s);
    return rc;
}

void journal_seal_done(struct journal_seal *s)
{
    hmac_free(s->mac);
    *s = (struct journal_seal){0};
}

/* ---- writing ---- */

/* With a tag of zeros. */
static void header_write(const struct journal_entry *e, uint32_t crc, char *header)
{
    memset(header, 0, JOURNAL_ENTRY_HEADER_BYTES);
    memcpy(header + AT_MAGIC, magic, sizeof magic);
    put32(header + AT_LENGTH, e->length);
    memcpy(header + AT_STORE, e->store_id, sizeof e->store_id);
    put64(header + AT_GENERATION, e->generation);
    put64(header + AT_FIRST, e->first);
    put64(header + AT_LAST, e->last);
    put32(header + AT_PREVIOUS, e->previous);
    put32(header + AT_CRC, crc);
    put64(header + AT_SEGMENT, e->segment_bytes);
    put64(header + AT_OFFSET, e->at);
    memcpy(header + AT_MARK, e->mark, sizeof e->mark);
}

uint64_t journal_entry_bytes(uint64_t length)
{
    uint64_t bytes = JOURNAL_ENTRY_HEADER_BYTES + length;
    return (bytes + JOURNAL_PAGE - 1) / JOURNAL_PAGE * JOURNAL_PAGE;
}

int journal_entry_seal(struct journal_seal *s, struct journal_entry *e, const struct span *parts,
                       size_t count, char header[JOURNAL_ENTRY_HEADER_BYTES])
{
    uint8_t code[HMAC_BYTES];
    memcpy(e->mark, s->mark, sizeof e->mark);
    header_write(e, 0, header);
    e->crc = crc32c(0, header, JOURNAL_ENTRY_HEADER_BYTES);
    for (size_t i = 0; i < count; i++)
        e->crc = crc32c(e->crc, parts[i].at, parts[i].len);
    put32(header + AT_CRC, e->crc);
    int rc = hmac_run(s->mac, span_of(header, AT_MARK), code);
    if (rc == 0)
        memcpy(header + AT_TAG, code, TAG_BYTES);
    return rc;
}

/* ---- reading ---- */

static bool begins(struct span bytes)
{
    return memcmp(bytes.at, magic, sizeof magic - 1) == 0;
}

/* As they lie there, whatever it is. */
static bool fields_read(struct span bytes, struct journal_entry *ret)
{
    if (bytes.len < JOURNAL_ENTRY_HEADER_BYTES)
        return false;
    *ret = (struct journal_entry){
        .length = get32(bytes.at + AT_LENGTH),
        .generation = get64(bytes.at + AT_GENERATION),
        .first = get64(bytes.at + AT_FIRST),
        .last = get64(bytes.at + AT_LAST),
        .previous = get32(bytes.at + AT_PREVIOUS),
        .crc = get32(bytes.at + AT_CRC),
        .segment_bytes = get64(bytes.at + AT_SEGMENT),
        .at = get64(bytes.at + AT_OFFSET),
    };
    memcpy(ret->store_id, bytes.at + AT_STORE, sizeof ret->store_id);
    memcpy(ret->mark, bytes.at + AT_MARK, sizeof ret->mark);
    return true;
}

bool journal_entry_fields(struct span bytes, struct journal_entry *ret)
{
    return fields_read(bytes, ret) && begins(bytes);
}

bool journal_entry_tagged(struct span bytes, struct journal_entry *ret)
{
    static const char none[TAG_BYTES];
    return journal_entry_fields(bytes, ret) && memcmp(bytes.at + AT_TAG, none, sizeof none) != 0;
}

bool journal_entry_marked(const struct journal_seal *s, struct span bytes,
                          struct journal_entry *ret)
{
    return fields_read(bytes, ret) && hmac_equal(ret->mark, s->mark, sizeof s->mark);
}

static bool plausible(const struct journal_entry *e)
{
    return e->length > FRAME_HEADER_BYTES && e->length <= JOURNAL_BODY_BYTES_MAX &&
           e->generation > 0 && e->generation <= JOURNAL_GENERATION_MAX && e->first > 0 &&
           e->last >= e->first;
}

int journal_entry_header(struct journal_seal *s, struct span bytes, uint64_t at,
                         struct journal_entry *ret)
{
    uint8_t code[HMAC_BYTES];
    struct journal_entry e;
    if (!fields_read(bytes, &e) || !begins(bytes))
        return -ERR_CORRUPT;
    int rc = hmac_run(s->mac, span_of(bytes.at, AT_MARK), code);
    if (rc < 0)
        return rc;
    if (!hmac_equal(code, bytes.at + AT_TAG, TAG_BYTES) || e.at != at)
        return -ERR_CORRUPT;
    char version = bytes.at[sizeof magic - 1];
    if (version > magic[sizeof magic - 1] && version <= '9') {
        *ret = e;
        return -ERR_VERSION;
    }
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
