/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4-128 against the reference implementation's own vectors; CRC32C against known values,
 * a bit-by-bit computation, and the instruction against the tables. */
#include "unit/base/support.h"

#include "base/digest/crc32c.h"
#include "base/digest/hash.h"
#include "base/system/clock.h"

/* The key is 00 01 … 0f, the text the first `len` bytes of 00 01 02 …. */
static const struct {
    size_t len;
    const char *hex;
} vectors[] = {
    {0, "a3817f04ba25a8e66df67214c7550293"},  {1, "da87c1d86b99af44347659119b22fc45"},
    {2, "8177228da4a45dc7fca38bdef60affe4"},  {7, "a1f1ebbed8dbc153c0b84aa61ff08239"},
    {8, "3b62a9ba6258f5610f83e264f31497b4"},  {9, "264499060ad9baabc47f8b02bb6d71ed"},
    {15, "5493e99933b0a8117e08ec0f97cfc3d9"}, {16, "6ee2a4ca67b054bbfd3315bf85230577"},
    {17, "473d06e8738db89854c066c47ae47740"}, {31, "2939b0183223fafc1723de4f52c43d35"},
    {63, "5150d1772f50834a503e069a973fbd7c"},
};

static const struct hash_key reference_key = {UINT64_C(0x0706050403020100),
                                              UINT64_C(0x0f0e0d0c0b0a0908)};

static void hex_of(struct hash128 h, char out[33])
{
    for (int i = 0; i < 16; i++) {
        uint64_t half = i < 8 ? h.lo : h.hi;
        snprintf(out + 2 * i, 3, "%02x", (unsigned)(half >> (8 * (i % 8)) & 0xff));
    }
}

static void siphash_reference_vectors(void **state)
{
    (void)state;
    char text[64], hex[33];
    for (int i = 0; i < 64; i++)
        text[i] = (char)i;
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        hex_of(hash128_of(reference_key, span_of(text, vectors[i].len)), hex);
        assert_string_equal(hex, vectors[i].hex);
    }
}

/* The scope counts as eight bytes before the text. */
static void scoped_is_a_prefix(void **state)
{
    (void)state;
    char text[64];
    for (int i = 0; i < 64; i++)
        text[i] = (char)i;
    uint64_t scope = UINT64_C(0x0706050403020100);
    for (size_t len = 8; len < 64; len++) {
        struct hash128 whole = hash128_of(reference_key, span_of(text, len));
        struct hash128 parts = hash128_scoped(reference_key, scope, span_of(text + 8, len - 8));
        assert_true(hash128_equal(whole, parts));
    }
    struct hash128 a = hash128_scoped(reference_key, 1, SPAN_LITERAL("key"));
    struct hash128 b = hash128_scoped(reference_key, 2, SPAN_LITERAL("key"));
    assert_false(hash128_equal(a, b));
    assert_false(hash128_none(a));
    assert_true(hash128_none((struct hash128){0, 0}));
}

static void siphash_any_alignment(void **state)
{
    (void)state;
    char raw[80] = {0};
    for (size_t offset = 0; offset < 9; offset++) {
        memcpy(raw + offset, "an arbitrary text of some length", 32);
        struct hash128 h = hash128_of((struct hash_key){1, 2}, span_of(raw + offset, 32));
        assert_true(
            hash128_equal(h, hash128_of((struct hash_key){1, 2}, span_of(raw + offset, 32))));
        char exact[32];
        memcpy(exact, raw + offset, 32);
        assert_true(hash128_equal(h, hash128_of((struct hash_key){1, 2}, span_of(exact, 32))));
    }
    assert_false(hash128_none(hash128_of((struct hash_key){0, 0}, span_of(NULL, 0))));
}

static uint32_t crc_by_bit(const unsigned char *p, size_t len)
{
    uint32_t crc = UINT32_MAX;
    for (; len > 0; len--) {
        crc ^= *p++;
        for (int i = 0; i < 8; i++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

/* The test pattern of RFC 3720, B.4, and the usual check value. */
static void crc_known_values(void **state)
{
    (void)state;
    unsigned char b[32];
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_portable(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, "", 0), 0);
    memset(b, 0, sizeof b);
    assert_int_equal(crc32c(0, b, 32), 0x8a9136aa);
    memset(b, 0xff, sizeof b);
    assert_int_equal(crc32c(0, b, 32), 0x62a8ab43);
    for (size_t i = 0; i < 32; i++)
        b[i] = (unsigned char)i;
    assert_int_equal(crc32c(0, b, 32), 0x46dd794e);
    for (size_t i = 0; i < 32; i++)
        b[i] = (unsigned char)(31 - i);
    assert_int_equal(crc32c(0, b, 32), 0x113fdb5c);
}

static void crc_all_ways_agree(void **state)
{
    (void)state;
    struct random r;
    unsigned char bytes[600];
    seeded(&r, "crc");
    for (int round = 0; round < 3000; round++) {
        size_t offset = random_below(&r, 16), len = random_below(&r, 500);
        for (size_t i = 0; i < len; i++)
            bytes[offset + i] = (unsigned char)random_next(&r);
        uint32_t expected = crc_by_bit(bytes + offset, len);
        assert_int_equal(crc32c(0, bytes + offset, len), expected);
        assert_int_equal(crc32c_portable(0, bytes + offset, len), expected);
        size_t cut = random_below(&r, len + 1);
        uint32_t first = crc32c(0, bytes + offset, cut);
        assert_int_equal(crc32c(first, bytes + offset + cut, len - cut), expected);
        assert_int_equal(crc32c_portable(first, bytes + offset + cut, len - cut), expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siphash_reference_vectors), cmocka_unit_test(scoped_is_a_prefix),
        cmocka_unit_test(siphash_any_alignment),     cmocka_unit_test(crc_known_values),
        cmocka_unit_test(crc_all_ways_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
