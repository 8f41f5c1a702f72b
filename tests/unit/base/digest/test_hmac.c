/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 against the vectors of RFC 4231 and one made with `openssl dgst -sha256 -hmac`. */
#include "base/digest/hmac.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void vectors(void **state)
{
    (void)state;
    char key_1[20], key_6[131], hex[HMAC_HEX_BYTES];
    memset(key_1, 0x0b, sizeof key_1);
    memset(key_6, 0xaa, sizeof key_6);
    const struct {
        struct span key, data;
        const char *hex;
    } all[] = {
        {span_of(key_1, sizeof key_1), SPAN_LITERAL("Hi There"),
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {SPAN_LITERAL("Jefe"), SPAN_LITERAL("what do ya want for nothing?"),
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {span_of(key_6, sizeof key_6),
         SPAN_LITERAL("Test Using Larger Than Block-Size Key - Hash Key First"),
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
        {SPAN_LITERAL(""), SPAN_LITERAL(""),
         "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(hmac_sha256_hex(all[i].key, &all[i].data, 1, hex), 0);
        assert_string_equal(hex, all[i].hex);
    }
}

static void parts(void **state)
{
    (void)state;
    char hex[HMAC_HEX_BYTES];
    struct span all[] = {SPAN_LITERAL("1767225600"),
                         SPAN_LITERAL("."),
                         {NULL, 0},
                         SPAN_LITERAL("{\"id\":\"x\",\"kind\":\"dead\"}")};
    assert_int_equal(hmac_sha256_hex(SPAN_LITERAL("whsec-Gr\xc3\xbc\xc3\x9f"
                                                  "e"),
                                     all, 4, hex),
                     0);
    assert_string_equal(hex, "ea0570822069d356bb9d7b6b61a7d73919b5180dafe95ed3540a1216deb5c79a");
}

/* A prepared key gives the same codes as a key that is used once, however often it is used. */
static void prepared(void **state)
{
    (void)state;
    static const char digits[] = "0123456789abcdef";
    char expected[HMAC_HEX_BYTES], hex[HMAC_HEX_BYTES], data[200];
    uint8_t code[HMAC_BYTES];
    struct hmac *h = NULL;
    assert_int_equal(hmac_new(SPAN_LITERAL("Jefe"), &h), 0);
    for (size_t len = 0; len < sizeof data; len++) {
        memset(data, (int)len, sizeof data);
        struct span bytes = span_of(data, len);
        assert_int_equal(hmac_run(h, bytes, code), 0);
        assert_int_equal(hmac_sha256_hex(SPAN_LITERAL("Jefe"), &bytes, 1, expected), 0);
        for (size_t i = 0; i < HMAC_BYTES; i++) {
            hex[2 * i] = digits[code[i] >> 4];
            hex[2 * i + 1] = digits[code[i] & 15];
        }
        hex[HMAC_HEX_BYTES - 1] = '\0';
        assert_string_equal(hex, expected);
    }
    assert_true(hmac_equal(code, code, sizeof code));
    uint8_t other[HMAC_BYTES];
    memcpy(other, code, sizeof other);
    other[HMAC_BYTES - 1] ^= 1;
    assert_false(hmac_equal(code, other, sizeof other));
    hmac_free(h);
    hmac_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(parts),
        cmocka_unit_test(prepared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
