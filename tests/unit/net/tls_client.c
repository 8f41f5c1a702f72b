/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/net/tls_client.h"

#include <errno.h>
#include <openssl/err.h>

#include "unit/base/support.h"

SSL *tls_client_open(int fd)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    assert_non_null(context);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL *ssl = SSL_new(context);
    SSL_CTX_free(context);
    assert_non_null(ssl);
    assert_int_equal(SSL_set_fd(ssl, fd), 1);
    SSL_set_connect_state(ssl);
    return ssl;
}

void tls_client_close(SSL *ssl)
{
    SSL_free(ssl);
}

static ssize_t result(SSL *ssl, int n)
{
    int error = n > 0 ? 0 : SSL_get_error(ssl, n), code = errno;
    ERR_clear_error();
    if (n > 0 || error == SSL_ERROR_ZERO_RETURN)
        return n > 0 ? n : 0;
    bool waits = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    errno = waits ? EAGAIN : error == SSL_ERROR_SYSCALL && code ? code : EPROTO;
    return -1;
}

ssize_t tls_client_send(SSL *ssl, const char *at, size_t len)
{
    ERR_clear_error();
    return result(ssl, SSL_write(ssl, at, len > 1 << 20 ? 1 << 20 : (int)len));
}

ssize_t tls_client_recv(SSL *ssl, char *into, size_t len)
{
    ERR_clear_error();
    return result(ssl, SSL_read(ssl, into, (int)len));
}
