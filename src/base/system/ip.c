/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/ip.h"

#include <arpa/inet.h>
#include <string.h>

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

struct ip_address ip_from_v4(const uint8_t bytes[4])
{
    struct ip_address a;
    memcpy(a.bytes, mapped, sizeof mapped);
    memcpy(a.bytes + 12, bytes, 4);
    return a;
}

bool ip_is_v4(const struct ip_address *a)
{
    return memcmp(a->bytes, mapped, sizeof mapped) == 0;
}

int ip_parse(struct span text, struct ip_address *ret)
{
    char copy[IP_TEXT_BYTES];
    uint8_t v4[4];
    if (text.len == 0 || text.len >= sizeof copy || memchr(text.at, '\0', text.len))
        return -ERR_SYNTAX;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    if (inet_pton(AF_INET, copy, v4) == 1) {
        *ret = ip_from_v4(v4);
        return 0;
    }
    return inet_pton(AF_INET6, copy, ret->bytes) == 1 ? 0 : -ERR_SYNTAX;
}

static int bits_parse(struct span text, unsigned max, unsigned *ret)
{
    unsigned bits = 0;
    if (text.len == 0 || text.len > 3 || (text.len > 1 && text.at[0] == '0'))
        return -ERR_SYNTAX;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return -ERR_SYNTAX;
        bits = bits * 10 + (unsigned)(text.at[i] - '0');
    }
    *ret = bits;
    return bits <= max ? 0 : -ERR_SYNTAX;
}

static bool bit_at(const struct ip_address *a, unsigned i)
{
    return a->bytes[i / 8] >> (7 - i % 8) & 1;
}

int ip_block_parse(struct span text, struct ip_block *ret)
{
    const char *slash = text.len ? memchr(text.at, '/', text.len) : NULL;
    size_t len = slash ? (size_t)(slash - text.at) : text.len;
    if (ip_parse(span_of(text.at, len), &ret->base) != 0)
        return -ERR_SYNTAX;
    /* Written with colons, an IPv4-mapped block counts all its bits. */
    bool v4 = ip_is_v4(&ret->base) && !memchr(text.at, ':', len);
    ret->bits = 128;
    if (!slash)
        return 0;
    unsigned bits;
    if (bits_parse(span_of(slash + 1, text.len - len - 1), v4 ? 32 : 128, &bits) != 0)
        return -ERR_SYNTAX;
    ret->bits = v4 ? bits + 96 : bits;
    for (unsigned i = ret->bits; i < 128; i++)
        if (bit_at(&ret->base, i))
            return -ERR_SYNTAX;
    return 0;
}

bool ip_block_has(const struct ip_block *block, const struct ip_address *a)
{
    for (unsigned i = 0; i < block->bits; i++)
        if (bit_at(&block->base, i) != bit_at(a, i))
            return false;
    return true;
}

void ip_text(const struct ip_address *a, char out[IP_TEXT_BYTES])
{
    bool v4 = ip_is_v4(a);
    if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? a->bytes + 12 : a->bytes, out, IP_TEXT_BYTES))
        out[0] = '\0'; /* cannot be: the room is enough */
}

/* ---- what is public ---- */

struct special {
    uint8_t base[16];
    uint8_t bits;
    const char *why;
};

/* The special-purpose registries of IPv4 and IPv6. More narrow blocks stand before wider ones. */
static const struct special v4_special[] = {
    {{0}, 8, "unspecified"},
    {{10}, 8, "private"},
    {{100, 64}, 10, "carrier-grade NAT"},
    {{127}, 8, "loopback"},
    {{169, 254}, 16, "link-local"}, /* instance metadata of clouds, too */
    {{172, 16}, 12, "private"},
    {{192, 0, 0}, 24, "reserved"},
    {{192, 0, 2}, 24, "documentation"},
    {{192, 88, 99}, 24, "reserved"},
    {{192, 168}, 16, "private"},
    {{198, 18}, 15, "benchmarking"},
    {{198, 51, 100}, 24, "documentation"},
    {{203, 0, 113}, 24, "documentation"},
    {{224}, 4, "multicast"},
    {{240}, 4, "reserved"}, /* with the broadcast address */
};

static const struct special v6_special[] = {
    {{[15] = 0}, 128, "unspecified"},
    {{[15] = 1}, 128, "loopback"},
    {{0}, 96, "reserved"},                                 /* IPv4-compatible */
    {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, "private"}, /* NAT64 of one site */
    {{0x01, 0x00}, 64, "reserved"},                        /* discard-only */
    {{0x20, 0x01, 0x00, 0x00}, 32, "tunnel"},              /* Teredo */
    {{0x20, 0x01, 0x00, 0x00}, 23, "reserved"},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "documentation"},
    {{0x3f, 0xff, 0x00}, 20, "documentation"},
    {{0xfc}, 7, "private"}, /* unique local */
    {{0xfe, 0x80}, 10, "link-local"},
    {{0xfe, 0xc0}, 10, "private"}, /* site-local, deprecated */
    {{0xff}, 8, "multicast"},
};

static bool starts_with(const uint8_t *a, const uint8_t *base, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(a, base, whole) != 0)
        return false;
    return rest == 0 || (a[whole] ^ base[whole]) >> (8 - rest) == 0;
}

static const char *look_up(const struct special *table, size_t count, const uint8_t *a)
{
    for (size_t i = 0; i < count; i++)
        if (starts_with(a, table[i].base, table[i].bits))
            return table[i].why;
    return NULL;
}

static const char *v4_not_public(const uint8_t *a)
{
    return look_up(v4_special, sizeof v4_special / sizeof v4_special[0], a);
}

const char *ip_not_public(const struct ip_address *a)
{
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    const uint8_t *b = a->bytes;
    if (ip_is_v4(a) || memcmp(b, nat64, sizeof nat64) == 0)
        return v4_not_public(b + 12);
    if (b[0] == 0x20 && b[1] == 0x02) /* 6to4 */
        return v4_not_public(b + 2);
    const char *why = look_up(v6_special, sizeof v6_special / sizeof v6_special[0], b);
    /* Only 2000::/3 is given out as unicast. */
    return why ? why : b[0] >> 5 == 1 ? NULL : "reserved";
}
