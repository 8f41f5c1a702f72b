/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: the header is laid out by hand, since its CRC covers it. */
#include "core/records/frame.h"

#include <endian.h>

#include "base/check.h"
#include "base/digest/hash.h"

static const char magic[4] = {'H', 'F', 'r', '1'};

/* Offsets in the header. */
enum { AT_MAGIC = 0, AT_LENGTH = 4, AT_FIRST = 8, AT_COUNT = 16, AT_CRC = 20 };

/* The smallest record: kind, length, one byte. */
#define RECORD_BYTES_MIN 3

static void header_write(char header[FRAME_HEADER_BYTES], uint32_t length, uint64_t first,
                         uint32_t count, uint32_t crc)
{
    length = htole32(length);
    first = htole64(first);
    count = htole32(count);
    crc = htole32(crc);
    memcpy(header + AT_MAGIC, magic, sizeof magic);
    memcpy(header + AT_LENGTH, &length, sizeof length);
    memcpy(header + AT_FIRST, &first, sizeof first);
    memcpy(header + AT_COUNT, &count, sizeof count);
    memcpy(header + AT_CRC, &crc, sizeof crc);
}

int frame_begin(struct buf *out)
{
    CHECK(out->len == 0);
    int err = buf_reserve(out, FRAME_HEADER_BYTES);
    if (err < 0)
        return err;
    static const char zero[FRAME_HEADER_BYTES];
    buf_put_bytes(out, zero, sizeof zero);
    return 0;
}

void frame_end(struct buf *out, uint64_t first, uint32_t count)
{
    CHECK(out->len >= FRAME_HEADER_BYTES && out->len <= FRAME_BYTES_MAX);
    uint32_t length = (uint32_t)(out->len - FRAME_HEADER_BYTES);
    header_write(out->data, length, first, count, 0);
    header_write(out->data, length, first, count, crc32c(0, out->data, out->len));
}

/* Whether a frame with a good CRC can be what frame_end wrote. */
static bool plausible(const struct frame *f)
{
    return f->count <= f->body.len / RECORD_BYTES_MIN && (f->count != 0 || f->body.len == 0) &&
           f->first <= UINT64_MAX - f->count;
}

/* What the header says; *crc is not held against anything. */
static int header_read(struct span in, struct frame *ret, uint32_t *crc)
{
    if (in.len < FRAME_HEADER_BYTES || memcmp(in.at, magic, sizeof magic - 1) != 0)
        return -ERR_CORRUPT;
    char version = in.at[sizeof magic - 1];
    if (version != magic[sizeof magic - 1])
        return version > magic[sizeof magic - 1] && version <= '9' ? -ERR_VERSION : -ERR_CORRUPT;

    uint32_t length, count;
    uint64_t first;
    memcpy(&length, in.at + AT_LENGTH, sizeof length);
    memcpy(&first, in.at + AT_FIRST, sizeof first);
    memcpy(&count, in.at + AT_COUNT, sizeof count);
    memcpy(crc, in.at + AT_CRC, sizeof *crc);
    length = le32toh(length);
    if (length > in.len - FRAME_HEADER_BYTES || length > FRAME_BYTES_MAX - FRAME_HEADER_BYTES)
        return -ERR_CORRUPT;
    *crc = le32toh(*crc);
    *ret =
        (struct frame){le64toh(first), le32toh(count), span_of(in.at + FRAME_HEADER_BYTES, length)};
    return 0;
}

static void frame_take(struct span *in, const struct frame *f)
{
    size_t bytes = FRAME_HEADER_BYTES + f->body.len;
    *in = span_of(in->at + bytes, in->len - bytes);
}

int frame_decode(struct span *in, struct frame *ret)
{
    struct frame f;
    uint32_t crc;
    int rc = header_read(*in, &f, &crc);
    if (rc < 0)
        return rc;
    char header[FRAME_HEADER_BYTES];
    header_write(header, (uint32_t)f.body.len, f.first, f.count, 0);
    if (crc32c(crc32c(0, header, sizeof header), f.body.at, f.body.len) != crc || !plausible(&f))
        return -ERR_CORRUPT;
    frame_take(in, &f);
    *ret = f;
    return 0;
}

int frame_peek(struct span *in, struct frame *ret)
{
    struct frame f;
    uint32_t crc;
    int rc = header_read(*in, &f, &crc);
    if (rc < 0)
        return rc;
    if (!plausible(&f))
        return -ERR_CORRUPT;
    frame_take(in, &f);
    *ret = f;
    return 0;
}
