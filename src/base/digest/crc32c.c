/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C: with the processor's own instruction where it has one, by tables elsewhere. */
#include "base/digest/crc32c.h"

#include <endian.h>
#include <string.h>

#include "base/digest/crc32c_table.h"
#include "base/digest/hash.h"

static inline uint32_t by_byte(uint32_t crc, const unsigned char *p, size_t len)
{
    for (; len > 0; len--)
        crc = (crc >> 8) ^ crc32c_table[0][(crc ^ *p++) & 0xff];
    return crc;
}

/* Four bytes a step: the four look-ups do not wait for each other. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    crc = ~crc;
    for (; len >= 4; len -= 4, p += 4) {
        uint32_t word;
        memcpy(&word, p, sizeof word);
        crc ^= le32toh(word);
        crc = crc32c_table[3][crc & 0xff] ^ crc32c_table[2][(crc >> 8) & 0xff] ^
              crc32c_table[1][(crc >> 16) & 0xff] ^ crc32c_table[0][crc >> 24];
    }
    return ~by_byte(crc, p, len);
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t start, const void *bytes,
                                                                 size_t len)
{
    const unsigned char *p = bytes;
    uint64_t crc = ~start;
    for (; len >= 8; len -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    uint32_t rest = (uint32_t)crc;
    for (; len > 0; len--)
        rest = __builtin_ia32_crc32qi(rest, *p++);
    return ~rest;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
    if (__builtin_cpu_supports("sse4.2"))
        return by_instruction(crc, bytes, len);
    return crc32c_portable(crc, bytes, len);
}
#else
uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
    return crc32c_portable(crc, bytes, len);
}
#endif
