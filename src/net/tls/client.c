/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate of a client: the names in its extension subjectAltName. Its chain was verified in
 * the handshake. */
#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net/tls/impl.h"

#define NAME_BYTES_MAX 512

/* "dns:", "email:", "uri:" or "ip:" and the name. 0: of another type, too long, or with bytes that
 * some reader could take for something else. */
static size_t name_text(const GENERAL_NAME *g, char out[NAME_BYTES_MAX])
{
    int type;
    const ASN1_STRING *s = GENERAL_NAME_get0_value(g, &type);
    const char *kind = type == GEN_DNS     ? "dns:"
                       : type == GEN_EMAIL ? "email:"
                       : type == GEN_URI   ? "uri:"
                       : type == GEN_IPADD ? "ip:"
                                           : NULL;
    if (!kind || !s)
        return 0;
    const unsigned char *at = ASN1_STRING_get0_data(s);
    size_t len = (size_t)ASN1_STRING_length(s);
    size_t begin = (size_t)snprintf(out, NAME_BYTES_MAX, "%s", kind);
    if (type == GEN_IPADD) {
        int family = len == 4 ? AF_INET : AF_INET6;
        bool good = (len == 4 || len == 16) && inet_ntop(family, at, out + begin, 64);
        return good ? strlen(out) : 0;
    }
    if (len == 0 || len > NAME_BYTES_MAX - begin)
        return 0;
    for (size_t i = 0; i < len; i++)
        if (at[i] <= ' ' || at[i] >= 0x7f)
            return 0;
    memcpy(out + begin, at, len);
    return begin + len;
}

static void name_add(struct net_client *c, const GENERAL_NAME *g)
{
    char name[NAME_BYTES_MAX];
    size_t len = name_text(g, name);
    if (len == 0 || c->count == NET_CLIENT_NAMES || len > NET_CLIENT_BYTES - c->bytes)
        return;
    char *text = (char *)(c + 1) + c->bytes;
    memcpy(text, name, len);
    c->names[c->count++] = span_of(text, len);
    c->bytes += len;
}

int tls_client_read(SSL *ssl, struct net_client **ret)
{
    X509 *cert = SSL_get0_peer_certificate(ssl);
    *ret = NULL;
    if (!cert)
        return 0;
    struct net_client *c = mem_zalloc(sizeof *c + NET_CLIENT_BYTES);
    if (!c)
        return -ERR_NOMEM;
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++)
        name_add(c, sk_GENERAL_NAME_value(names, i));
    GENERAL_NAMES_free(names);
    *ret = c;
    return 0;
}

bool tls_client_valid(SSL *ssl)
{
    X509 *cert = SSL_get0_peer_certificate(ssl);
    return !cert ||
           X509_cmp_timeframe(NULL, X509_get0_notBefore(cert), X509_get0_notAfter(cert)) == 0;
}
