/* SPDX-License-Identifier: Apache-2.0 */
/* One connection with TLS.
 *
 * The handshake takes place in read, or in write for a connection that is only told that it is
 * refused. A record is written with one call: OpenSSL counts its bytes as written when the kernel
 * has taken the whole record, which is what stream.h asks for. A record that the kernel has taken
 * in part is continued by the next write, which begins with the same bytes.
 *
 * The end of the input is the client's close_notify or the end of its TCP stream: every message of
 * our protocols says where it ends, so a truncated one has no effect. */
#include <errno.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/mem.h"
#include "net/tls/impl.h"

/* Memory of a connection, measured (tests/unit/net/test_tls_memory.c): in the handshake, between
 * records, and for a buffer that holds a part of a record. */
#define HANDSHAKE_BYTES ((size_t)56 << 10)
#define READY_BYTES ((size_t)16 << 10)
#define BUFFER_BYTES ((size_t)17 << 10)
#define CLIENT_BYTES ((size_t)8 << 10) /* its certificate and names */

struct tls_state {
    SSL *ssl;
    const struct net_tls_service *service;
    struct net_client *client;
    bool ready;       /* the handshake has succeeded */
    bool broken;      /* nothing more can be sent or received */
    bool more;        /* a read stopped before it had to wait */
    bool read_writes; /* the last read waits until the socket can be written */
    bool ended;       /* the end of the input was read */
    size_t half;      /* bytes of a record of which the kernel took a part */
};

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- opening and closing ---- */

static int tls_open(struct net_stream *s, void *ctx)
{
    const struct net_tls_service *service = ctx;
    struct tls_state *t = mem_zalloc(sizeof *t);
    if (!t)
        return -ERR_NOMEM;
    t->service = service;
    t->ssl = SSL_new(service->tls->context);
    if (!t->ssl || SSL_set_fd(t->ssl, s->fd) != 1) {
        SSL_free(t->ssl);
        mem_free(t);
        ERR_clear_error();
        return -ERR_NOMEM;
    }
    SSL_set_app_data(t->ssl, t);
    SSL_set_accept_state(t->ssl);
    s->state = t;
    return 0;
}

static void count(struct tls_state *t, enum net_tls_result result)
{
    t->service->tls->figures.handshakes[result]++;
}

static void tls_close(struct net_stream *s)
{
    struct tls_state *t = s->state;
    if (t->ready && !t->broken && !(SSL_get_shutdown(t->ssl) & SSL_SENT_SHUTDOWN))
        (void)SSL_shutdown(t->ssl);
    if (!t->ready && !t->broken)
        count(t, NET_TLS_UNFINISHED);
    ERR_clear_error();
    SSL_free(t->ssl);
    mem_free(t->client);
    mem_free(t);
    s->state = NULL;
}

/* ---- the handshake ---- */

int tls_alpn_cb(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                const unsigned char *in, unsigned in_len, void *ctx)
{
    const struct tls_state *t = SSL_get_app_data(ssl);
    size_t len = strlen(t->service->alpn);
    (void)ctx;
    for (unsigned at = 0; at < in_len; at += 1u + in[at]) {
        if (in[at] != len || at + 1 + len > in_len ||
            memcmp(in + at + 1, t->service->alpn, len) != 0)
            continue;
        *out = in + at + 1;
        *out_len = (unsigned char)len;
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static enum net_tls_result result_of(unsigned long code)
{
    int reason = ERR_GET_REASON(code);
    if (code == 0 || ERR_GET_LIB(code) == ERR_LIB_SYS)
        return NET_TLS_UNFINISHED;
    if (reason >= SSL_AD_REASON_OFFSET) /* an alert of the client */
        return reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION ? NET_TLS_INCOMPATIBLE : NET_TLS_SERVER;
    switch (reason) {
    case SSL_R_HTTP_REQUEST:
        return NET_TLS_PLAIN;
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return NET_TLS_CLIENT;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
    case SSL_R_NO_APPLICATION_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
        return NET_TLS_INCOMPATIBLE;
    default:
        return NET_TLS_INVALID;
    }
}

/* What the client has sent already is read: closing a socket with unread bytes resets the
 * connection, and the client might lose the alert or the reply. */
static void last_words(struct net_stream *s, struct span reply)
{
    char rest[4096];
    if (reply.len > 0)
        (void)send(s->fd, reply.at, reply.len, MSG_NOSIGNAL);
    (void)shutdown(s->fd, SHUT_WR);
    for (int i = 0; i < 16 && recv(s->fd, rest, sizeof rest, 0) > 0; i++)
        ;
}

static ssize_t refuse(struct net_stream *s, enum net_tls_result result, const char *why)
{
    struct tls_state *t = s->state;
    bool plain = result == NET_TLS_PLAIN;
    t->broken = true;
    count(t, result);
    log_event(t->service->tls->log, LOG_DEBUG, "tls_handshake_failed",
              LOG_TEXT("result", net_tls_result_name(result)), LOG_TEXT("why", why));
    last_words(s, plain ? t->service->plain_reply : span_of(NULL, 0));
    ERR_clear_error();
    return NET_BROKEN;
}

static ssize_t succeeded(struct net_stream *s)
{
    struct tls_state *t = s->state;
    if (!tls_client_valid(t->ssl))
        return refuse(s, NET_TLS_CLIENT, "the certificate of a resumed session has expired");
    if (tls_client_read(t->ssl, &t->client) != 0)
        return refuse(s, NET_TLS_UNFINISHED, "out of memory");
    s->client = t->client;
    t->ready = true;
    count(t, SSL_session_reused(t->ssl) ? NET_TLS_RESUMED : NET_TLS_FULL);
    return 0;
}

/* 0: done; NET_AGAIN, NET_BROKEN. */
static ssize_t handshake(struct net_stream *s)
{
    struct tls_state *t = s->state;
    ERR_clear_error();
    int n = SSL_do_handshake(t->ssl);
    if (n == 1)
        return succeeded(s);
    int error = SSL_get_error(t->ssl, n);
    t->read_writes = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return NET_AGAIN;
    unsigned long code = error == SSL_ERROR_SSL ? ERR_peek_error() : 0;
    const char *why = code ? ERR_reason_error_string(code) : NULL;
    return refuse(s, result_of(code), why ? why : "the connection was lost");
}

static ssize_t handshake_if_due(struct net_stream *s)
{
    const struct tls_state *t = s->state;
    return t->broken ? NET_BROKEN : t->ready ? 0 : handshake(s);
}

/* ---- reading ---- */

/* After a call that gave nothing. */
static ssize_t read_stopped(struct tls_state *t)
{
    int error = SSL_get_error(t->ssl, 0);
    t->read_writes = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return NET_AGAIN;
    t->ended = error == SSL_ERROR_ZERO_RETURN;
    t->broken = !t->ended;
    ERR_clear_error();
    return t->ended ? 0 : NET_BROKEN;
}

static ssize_t tls_read(struct net_stream *s, char *into, size_t len)
{
    struct tls_state *t = s->state;
    ssize_t r = handshake_if_due(s);
    size_t got = 0;
    t->more = false;
    if (r != 0 || t->ended)
        return r;
    ERR_clear_error();
    do {
        size_t n = 0;
        if (SSL_read_ex(t->ssl, into + got, len - got, &n) != 1) {
            r = read_stopped(t);
            return got > 0 ? (ssize_t)got : r;
        }
        got += n;
        t->read_writes = false;
    } while (got < len && SSL_has_pending(t->ssl));
    t->more = SSL_has_pending(t->ssl);
    return (ssize_t)got;
}

/* After an end or an error that came behind bytes, the next read says so. */
static bool tls_pending(const struct net_stream *s)
{
    const struct tls_state *t = s->state;
    return t->more || t->ended || t->broken;
}

/* ---- writing ---- */

/* The bytes of the next record: in place if one piece has them all. */
static struct span record_of(struct net_tls *tls, const struct iovec *pieces, size_t count,
                             size_t skip)
{
    size_t len = 0;
    for (size_t i = 0; i < count && len < TLS_RECORD_BYTES; i++, skip = 0) {
        const char *at = (const char *)pieces[i].iov_base + skip;
        size_t n = min(pieces[i].iov_len - skip, TLS_RECORD_BYTES - len);
        if (len == 0 && (n == TLS_RECORD_BYTES || i + 1 == count))
            return span_of(at, n);
        memcpy(tls->scratch + len, at, n);
        len += n;
    }
    return span_of(tls->scratch, len);
}

static ssize_t record_write(struct tls_state *t, struct span record)
{
    size_t taken = 0;
    if (record.len < t->half)
        return NET_BROKEN; /* the contract of write was broken */
    if (t->half > 0)
        record.len = t->half; /* not a record more: it would not be counted if it had to wait */
    ERR_clear_error();
    if (SSL_write_ex(t->ssl, record.at, record.len, &taken) == 1) {
        t->half = 0;
        return (ssize_t)taken;
    }
    int error = SSL_get_error(t->ssl, 0);
    t->half = record.len;
    if (error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ)
        return NET_AGAIN;
    t->broken = true;
    ERR_clear_error();
    return NET_BROKEN;
}

static ssize_t tls_write(struct net_stream *s, const struct iovec *pieces, size_t count)
{
    struct tls_state *t = s->state;
    ssize_t r = handshake_if_due(s);
    size_t total = 0, skip = 0;
    if (r != 0)
        return r;
    while (count > 0) {
        r = record_write(t, record_of(t->service->tls, pieces, count, skip));
        if (r < 0)
            return total > 0 && r == NET_AGAIN ? (ssize_t)total : r;
        total += (size_t)r;
        for (skip += (size_t)r; count > 0 && skip >= pieces->iov_len; count--, pieces++)
            skip -= pieces->iov_len;
    }
    return (ssize_t)total;
}

static int tls_shutdown(struct net_stream *s)
{
    struct tls_state *t = s->state;
    if (t->broken)
        return NET_BROKEN;
    if (t->ready && !(SSL_get_shutdown(t->ssl) & SSL_SENT_SHUTDOWN)) {
        ERR_clear_error();
        int n = SSL_shutdown(t->ssl);
        if (n < 0 && SSL_get_error(t->ssl, n) == SSL_ERROR_WANT_WRITE)
            return NET_AGAIN;
        ERR_clear_error();
        if (n < 0)
            return NET_BROKEN;
    }
    return shutdown(s->fd, SHUT_WR) == 0 ? 0 : NET_BROKEN;
}

/* ---- what the network layer asks ---- */

static int tls_events(const struct net_stream *s, int wanted)
{
    const struct tls_state *t = s->state;
    int events = wanted & ~(UV_READABLE | UV_WRITABLE);
    if (!t->ready)
        return events | (t->read_writes ? UV_WRITABLE : UV_READABLE);
    if (t->read_writes && wanted & UV_READABLE)
        return wanted | UV_WRITABLE;
    return wanted;
}

static size_t tls_begun(const struct net_stream *s)
{
    return ((const struct tls_state *)s->state)->half;
}

static bool tls_ready(const struct net_stream *s)
{
    return ((const struct tls_state *)s->state)->ready;
}

static size_t tls_held(const struct net_stream *s)
{
    const struct tls_state *t = s->state;
    if (!t->ready)
        return HANDSHAKE_BYTES;
    size_t bytes = READY_BYTES + (t->client ? CLIENT_BYTES : 0);
    return bytes + (SSL_has_pending(t->ssl) ? BUFFER_BYTES : 0) + (t->half ? BUFFER_BYTES : 0);
}

const struct net_stream_kind net_stream_tls = {
    .open = tls_open,
    .ready = tls_ready,
    .held = tls_held,
    .read = tls_read,
    .pending = tls_pending,
    .write = tls_write,
    .begun = tls_begun,
    .shutdown = tls_shutdown,
    .events = tls_events,
    .close = tls_close,
};
