/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 with 128 bits of output (Aumasson and Bernstein): a keyed hash, so that outsiders who
 * choose the texts cannot choose collisions. */
#include "base/digest/hash.h"

#include <endian.h>

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotl(uint64_t v, int by)
{
    return (v << by) | (v >> (64 - by));
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v2 = rotl(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    sip_round(s);
    s->v0 ^= word;
}

static inline uint64_t sip_finish(struct sip *s)
{
    for (int i = 0; i < 4; i++)
        sip_round(s);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

static inline struct sip sip_begin(struct hash_key key)
{
    return (struct sip){
        .v0 = key.k0 ^ UINT64_C(0x736f6d6570736575),
        .v1 = key.k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
        .v2 = key.k0 ^ UINT64_C(0x6c7967656e657261),
        .v3 = key.k1 ^ UINT64_C(0x7465646279746573),
    };
}

/* `before` is the number of bytes already taken in, a multiple of eight. */
static inline struct hash128 sip_end(struct sip *s, struct span text, size_t before)
{
    size_t i = 0;
    for (; i + 8 <= text.len; i += 8) {
        uint64_t word;
        memcpy(&word, text.at + i, sizeof word);
        sip_word(s, le64toh(word));
    }
    uint64_t last = (uint64_t)(before + text.len) << 56;
    for (size_t shift = 0; i < text.len; i++, shift += 8)
        last |= (uint64_t)(unsigned char)text.at[i] << shift;
    sip_word(s, last);

    struct hash128 h;
    s->v2 ^= 0xee;
    h.lo = sip_finish(s);
    s->v1 ^= 0xdd;
    h.hi = sip_finish(s);
    h.lo |= hash128_none(h); /* zero is taken: it means "none" */
    return h;
}

struct hash128 hash128_of(struct hash_key key, struct span text)
{
    struct sip s = sip_begin(key);
    return sip_end(&s, text, 0);
}

struct hash128 hash128_scoped(struct hash_key key, uint64_t scope, struct span text)
{
    struct sip s = sip_begin(key);
    sip_word(&s, scope);
    return sip_end(&s, text, sizeof scope);
}
