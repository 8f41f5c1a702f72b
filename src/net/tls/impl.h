/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of src/net/tls. */
#pragma once

#include <openssl/ssl.h>

#include "net/tls/tls.h"

#define TLS_RECORD_BYTES ((size_t)16 << 10)

struct net_tls {
    SSL_CTX *context; /* for the connections that are accepted from now on */
    const struct log *log;
    struct net_tls_figures figures;
    char scratch[TLS_RECORD_BYTES]; /* the bytes of one record that is being written */
};

/* context.c */
/* What OpenSSL says of the first error in its queue, which is emptied. */
const char *tls_why(void);

/* stream.c */
/* SSL_CTX_set_alpn_select_cb. */
int tls_alpn_cb(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                const unsigned char *in, unsigned in_len, void *ctx);

/* client.c */
/* The names in the certificate of the client, to be freed with mem_free; NULL if it has sent none.
 * -ERR_NOMEM. */
MUST_CHECK int tls_client_read(SSL *ssl, struct net_client **ret);
/* Whether it is valid now: a session may be resumed after its certificate has expired. */
bool tls_client_valid(SSL *ssl);
