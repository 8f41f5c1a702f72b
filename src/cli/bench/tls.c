/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

struct bench_tls {
    SSL_CTX *context;
    char host[256];
};

struct bench_tls_session {
    SSL *ssl;
};

static const char *reason(void)
{
    unsigned long code = ERR_get_error();
    const char *why = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return why ? why : "unknown error";
}

static int files_load(SSL_CTX *c, const struct client_endpoint *to, struct err_note *note)
{
    if (to->cacert ? SSL_CTX_load_verify_file(c, to->cacert) != 1
                   : SSL_CTX_set_default_verify_paths(c) != 1)
        return err_note_set(note, -ERR_INVALID, "--cacert cannot be used: %s", reason());
    const char *key = to->key ? to->key : to->cert;
    if (to->cert && (SSL_CTX_use_certificate_chain_file(c, to->cert) != 1 ||
                     SSL_CTX_use_PrivateKey_file(c, key, SSL_FILETYPE_PEM) != 1))
        return err_note_set(note, -ERR_INVALID, "--client-cert or --client-key cannot be used: %s",
                            reason());
    return 0;
}

int bench_tls_new(const struct client_endpoint *to, const char *host, struct bench_tls **ret,
                  struct err_note *note)
{
    struct bench_tls *t = mem_zalloc(sizeof *t);
    if (!t)
        return -ERR_NOMEM;
    snprintf(t->host, sizeof t->host, "%s", host);
    t->context = SSL_CTX_new(TLS_client_method());
    int err = t->context && SSL_CTX_set_min_proto_version(t->context, TLS1_2_VERSION) == 1
                  ? files_load(t->context, to, note)
                  : -ERR_NOMEM;
    if (err) {
        bench_tls_free(t);
        return err;
    }
    SSL_CTX_set_verify(t->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_read_ahead(t->context, 1);
    SSL_CTX_set_mode(t->context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    *ret = t;
    return 0;
}

void bench_tls_free(struct bench_tls *t)
{
    if (t)
        SSL_CTX_free(t->context);
    mem_free(t);
}

/* For an IP address instead of a name, the certificate must contain the address. */
static bool host_expect(SSL *ssl, const char *host)
{
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1)
        return true;
    ERR_clear_error();
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

int bench_tls_connect(struct bench_tls *t, int fd, struct bench_tls_session **ret,
                      struct err_note *note)
{
    struct bench_tls_session *s = mem_zalloc(sizeof *s);
    if (!s || !(s->ssl = SSL_new(t->context)) || !host_expect(s->ssl, t->host) ||
        SSL_set_fd(s->ssl, fd) != 1) {
        bench_tls_close(s);
        return -ERR_NOMEM;
    }
    ERR_clear_error();
    if (SSL_connect(s->ssl) != 1) {
        long verify = SSL_get_verify_result(s->ssl);
        int err =
            err_note_set(note, -ERR_IO, "TLS with the server at %.200s failed: %s", t->host,
                         verify != X509_V_OK ? X509_verify_cert_error_string(verify) : reason());
        bench_tls_close(s);
        return err;
    }
    *ret = s;
    return 0;
}

void bench_tls_close(struct bench_tls_session *s)
{
    if (s)
        SSL_free(s->ssl);
    mem_free(s);
}

static ssize_t result(struct bench_tls_session *s, int n)
{
    int code = errno, error = n > 0 ? SSL_ERROR_NONE : SSL_get_error(s->ssl, n);
    if (n > 0)
        return n;
    ERR_clear_error();
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    bool waits = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    errno = waits ? EAGAIN : error == SSL_ERROR_SYSCALL && code ? code : EPROTO;
    return -1;
}

static int clamp(size_t len)
{
    return len > INT_MAX ? INT_MAX : (int)len;
}

ssize_t bench_tls_send(struct bench_tls_session *s, const char *at, size_t len)
{
    return result(s, SSL_write(s->ssl, at, clamp(len)));
}

ssize_t bench_tls_recv(struct bench_tls_session *s, char *into, size_t len)
{
    return result(s, SSL_read(s->ssl, into, clamp(len)));
}
