/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for connections, by OpenSSL: a kind of stream (net/stream.h), and the certificate that the
 * connections of a process share. Only src/net/tls includes OpenSSL's headers here.
 *
 * context.c  files, protocol settings, reload, keys of tickets
 * stream.c   one connection: handshake, records, the end
 * client.c   what a client's certificate says
 *
 * TLS 1.2 and 1.3, cipher suites with AEAD and forward secrecy only; no renegotiation, compression
 * or early data. Sessions are resumed with tickets, so the server stores none. A client that sends
 * ALPN must offer the protocol of the listener.
 *
 * A reload builds everything again and then replaces it at once: connections that are open keep
 * what they began with, and an error changes nothing. New ticket keys come with it, so a session
 * that was accepted under other rules is not resumed.
 *
 * The process must ignore SIGPIPE. Everything happens on the loop thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/span.h"
#include "net/stream.h"

struct net_tls;

/* PEM files. */
struct net_tls_files {
    const char *cert;      /* the server's certificate, then those between it and its authority */
    const char *key;       /* its private key, without a passphrase */
    const char *client_ca; /* "" = clients need no certificate */
};

/* How handshakes ended; the word is a label of the metrics. */
#define NET_TLS_RESULT_TABLE(X)                                                                    \
    X(FULL, "full")             /* a new session */                                                \
    X(RESUMED, "resumed")       /* a session from a ticket */                                      \
    X(PLAIN, "plain_http")      /* the client spoke HTTP without TLS */                            \
    X(INCOMPATIBLE, "no_match") /* no common version, cipher suite, group or ALPN name */          \
    X(CLIENT, "client_refused") /* its certificate is missing, foreign or expired */               \
    X(SERVER, "server_refused") /* the client did not accept the server's certificate */           \
    X(INVALID, "invalid")       /* what the client sent is not TLS, or wrong */                    \
    X(UNFINISHED, "unfinished") /* the connection ended before: client, deadline, or memory */
enum net_tls_result {
#define NET_TLS_ENUM(name, word) NET_TLS_##name,
    NET_TLS_RESULT_TABLE(NET_TLS_ENUM)
#undef NET_TLS_ENUM
        NET_TLS_RESULTS,
};
const char *net_tls_result_name(enum net_tls_result r);

struct net_tls_figures {
    uint64_t handshakes[NET_TLS_RESULTS];
    uint64_t reloads, reloads_failed;
    int64_t not_before_s, not_after_s; /* of the certificate in use: Unix time */
    bool client_certificates;          /* clients need one */
};

/* "TLSv1.2" …, NULL-terminated. */
extern const char *const net_tls_versions[];

/* Reads the files. An expired certificate is accepted here, because clients judge it; see
 * not_after_s. -ERR_NOT_FOUND or -ERR_INVALID with a note that names the file; -ERR_NOMEM. */
MUST_CHECK int net_tls_new(const struct net_tls_files *files, const struct log *log,
                           struct net_tls **ret, struct err_note *note);
/* Reads the files again, or others. On any error, and if the new certificate is not valid now,
 * everything stays as it was: the same results. */
MUST_CHECK int net_tls_reload(struct net_tls *t, const struct net_tls_files *files,
                              struct err_note *note);
/* Tickets that were issued before are no longer accepted; such clients do a full handshake. */
void net_tls_new_ticket_keys(struct net_tls *t);
/* No stream of it may be open. NULL allowed. */
void net_tls_free(struct net_tls *t);
void net_tls_figures(const struct net_tls *t, struct net_tls_figures *ret);

/* What the streams of one server use: the ctx of net_stream_tls. */
struct net_tls_service {
    struct net_tls *tls;
    const char *alpn;        /* the name of its protocol, such as "http/1.1" */
    struct span plain_reply; /* sent to a client that speaks HTTP without TLS; empty = nothing */
};
extern const struct net_stream_kind net_stream_tls;
