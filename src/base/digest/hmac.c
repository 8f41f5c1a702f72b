/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest/hmac.h"

#include <stdbool.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "base/mem.h"

struct hmac {
    EVP_MAC_CTX *ctx;
};

static EVP_MAC_CTX *context_new(void)
{
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
    EVP_MAC_free(mac); /* the context has a reference of its own */
    return ctx;
}

static bool key_set(EVP_MAC_CTX *ctx, struct span key)
{
    char name[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                           OSSL_PARAM_construct_end()};
    /* A key of no bytes is legal; NULL would mean "the key of last time". */
    const unsigned char *bytes = (const unsigned char *)(key.len ? key.at : "");
    return EVP_MAC_init(ctx, bytes, key.len, params) == 1;
}

static bool parts_add(EVP_MAC_CTX *ctx, const struct span *parts, size_t count,
                      unsigned char digest[HMAC_BYTES])
{
    for (size_t i = 0; i < count; i++)
        if (parts[i].len &&
            EVP_MAC_update(ctx, (const unsigned char *)parts[i].at, parts[i].len) != 1)
            return false;
    size_t len = 0;
    return EVP_MAC_final(ctx, digest, &len, HMAC_BYTES) == 1 && len == HMAC_BYTES;
}

int hmac_sha256_hex(struct span key, const struct span *parts, size_t count,
                    char out[HMAC_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[HMAC_BYTES];
    EVP_MAC_CTX *ctx = context_new();
    bool good = ctx && key_set(ctx, key) && parts_add(ctx, parts, count, digest);
    EVP_MAC_CTX_free(ctx);
    if (!good)
        return -ERR_NOMEM;
    for (size_t i = 0; i < HMAC_BYTES; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * (size_t)HMAC_BYTES] = '\0';
    return 0;
}

int hmac_new(struct span key, struct hmac **ret)
{
    struct hmac *h = mem_zalloc(sizeof *h);
    if (!h)
        return -ERR_NOMEM;
    h->ctx = context_new();
    if (!h->ctx || !key_set(h->ctx, key)) {
        hmac_free(h);
        return -ERR_NOMEM;
    }
    *ret = h;
    return 0;
}

void hmac_free(struct hmac *h)
{
    if (h)
        EVP_MAC_CTX_free(h->ctx);
    mem_free(h);
}

int hmac_run(struct hmac *h, struct span bytes, uint8_t out[HMAC_BYTES])
{
    /* Without a key and parameters: the key stays prepared, which is most of the cost. */
    bool good = EVP_MAC_init(h->ctx, NULL, 0, NULL) == 1 && parts_add(h->ctx, &bytes, 1, out);
    return good ? 0 : -ERR_NOMEM;
}

bool hmac_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}
