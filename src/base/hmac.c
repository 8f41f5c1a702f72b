/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hmac.h"

#include <stdbool.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#define SHA256_BYTES 32

static bool run(EVP_MAC_CTX *ctx, struct span key, const struct span *parts, size_t count,
                unsigned char digest[SHA256_BYTES])
{
    char name[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                           OSSL_PARAM_construct_end()};
    /* A key of no bytes is legal; NULL would mean "the key of last time". */
    const unsigned char *bytes = (const unsigned char *)(key.len ? key.at : "");
    if (EVP_MAC_init(ctx, bytes, key.len, params) != 1)
        return false;
    for (size_t i = 0; i < count; i++)
        if (parts[i].len &&
            EVP_MAC_update(ctx, (const unsigned char *)parts[i].at, parts[i].len) != 1)
            return false;
    size_t len = 0;
    return EVP_MAC_final(ctx, digest, &len, SHA256_BYTES) == 1 && len == SHA256_BYTES;
}

int hmac_sha256_hex(struct span key, const struct span *parts, size_t count,
                    char out[HMAC_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA256_BYTES];
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
    bool good = ctx && run(ctx, key, parts, count, digest);
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(mac);
    if (!good)
        return -ERR_NOMEM;
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * (size_t)SHA256_BYTES] = '\0';
    return 0;
}
