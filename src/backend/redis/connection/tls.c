/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/redis/connection/tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/mem.h"

struct redis_tls_context {
    SSL_CTX *ssl;
};

struct redis_tls {
    SSL *ssl;
    BIO *in, *out; /* owned by the SSL */
    bool ready;
};

/* --- certificates --- */

static int unusable(const char *which, struct err_note *note)
{
    unsigned long code = ERR_get_error();
    const char *why = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return err_note_set(note, -ERR_INVALID, "%s of the Redis URL cannot be used: %s", which,
                        why ? why : "no reason given");
}

static int load_files(SSL_CTX *ssl, const struct redis_url *url, struct err_note *note)
{
    if (url->ca[0] ? SSL_CTX_load_verify_locations(ssl, url->ca, NULL) != 1
                   : SSL_CTX_set_default_verify_paths(ssl) != 1)
        return unusable("ca", note);
    if (!url->cert[0])
        return 0;
    if (SSL_CTX_use_certificate_chain_file(ssl, url->cert) != 1)
        return unusable("cert", note);
    if (SSL_CTX_use_PrivateKey_file(ssl, url->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ssl) != 1)
        return unusable("key", note);
    return 0;
}

int redis_tls_context_new(const struct redis_url *url, struct redis_tls_context **ret,
                          struct err_note *note)
{
    struct redis_tls_context *c = mem_zalloc(sizeof *c);
    if (!c)
        return -ERR_NOMEM;
    c->ssl = SSL_CTX_new(TLS_client_method());
    int err = c->ssl && SSL_CTX_set_min_proto_version(c->ssl, TLS1_2_VERSION) == 1 ? 0 : -ERR_NOMEM;
    if (!err)
        err = load_files(c->ssl, url, note);
    if (err) {
        redis_tls_context_free(c);
        return err;
    }
    SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER, NULL);
    *ret = c;
    return 0;
}

void redis_tls_context_free(struct redis_tls_context *c)
{
    if (c)
        SSL_CTX_free(c->ssl);
    mem_free(c);
}

/* --- a connection --- */

/* For an IP address instead of a name, the certificate must contain the address. */
static bool expect_host(SSL *ssl, const char *host)
{
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1)
        return true;
    ERR_clear_error();
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct redis_tls *redis_tls_new(struct redis_tls_context *c, const struct redis_url *url)
{
    struct redis_tls *t = mem_zalloc(sizeof *t);
    if (!t)
        return NULL;
    t->ssl = SSL_new(c->ssl);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    if (!t->ssl || !t->in || !t->out) {
        BIO_free(t->in);
        BIO_free(t->out);
        SSL_free(t->ssl);
        mem_free(t);
        return NULL;
    }
    SSL_set_bio(t->ssl, t->in, t->out);
    SSL_set_connect_state(t->ssl);
    if (!expect_host(t->ssl, url->host)) {
        redis_tls_free(t);
        return NULL;
    }
    return t;
}

void redis_tls_free(struct redis_tls *t)
{
    if (t)
        SSL_free(t->ssl); /* frees both BIOs, too */
    mem_free(t);
}

bool redis_tls_ready(const struct redis_tls *t)
{
    return t->ready;
}

static int take_wire(struct redis_tls *t, struct buf *wire)
{
    char *data;
    long len = BIO_get_mem_data(t->out, &data);
    int err = len > 0 ? buf_append(wire, data, (size_t)len) : 0;
    if (!err && len > 0)
        (void)BIO_reset(t->out);
    return err;
}

static int broken(struct redis_tls *t, struct err_note *note)
{
    long verify = SSL_get_verify_result(t->ssl);
    unsigned long code = ERR_get_error();
    const char *why = verify != X509_V_OK ? X509_verify_cert_error_string(verify)
                      : code              ? ERR_reason_error_string(code)
                                          : NULL;
    ERR_clear_error();
    return err_note_set(note, -ERR_IO, "TLS with the Redis server failed: %s",
                        why ? why : "the connection was lost");
}

static bool only_wants_more(struct redis_tls *t, int n)
{
    int error = SSL_get_error(t->ssl, n);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

static int shake_hands(struct redis_tls *t, struct buf *wire, struct err_note *note)
{
    ERR_clear_error();
    int n = SSL_do_handshake(t->ssl);
    t->ready = n == 1;
    int err = take_wire(t, wire); /* sends the alert, too */
    if (n != 1 && !only_wants_more(t, n))
        return broken(t, note);
    return err;
}

int redis_tls_feed(struct redis_tls *t, struct span in, struct buf *plain, struct buf *wire,
                   struct err_note *note)
{
    char chunk[16384];
    int n, err = 0;
    if (in.len > INT_MAX || BIO_write(t->in, in.at, (int)in.len) != (int)in.len)
        return -ERR_NOMEM;
    if (!t->ready)
        err = shake_hands(t, wire, note);
    if (err || !t->ready)
        return err;
    ERR_clear_error();
    while ((n = SSL_read(t->ssl, chunk, sizeof chunk)) > 0 && !err)
        err = buf_append(plain, chunk, (size_t)n);
    if (!err && n <= 0 && !only_wants_more(t, n))
        err = broken(t, note);
    return err ? err : take_wire(t, wire);
}

int redis_tls_send(struct redis_tls *t, struct span out, struct buf *wire)
{
    if (!t->ready)
        return shake_hands(t, wire, NULL);
    size_t written;
    ERR_clear_error();
    if (out.len && SSL_write_ex(t->ssl, out.at, out.len, &written) != 1)
        return -ERR_IO;
    return take_wire(t, wire);
}
