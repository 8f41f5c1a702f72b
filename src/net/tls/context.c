/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate and the settings of TLS that connections share. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/system/clock.h"
#include "net/tls/impl.h"

#define CIPHERS_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20"
#define CIPHERS_1_3 "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"
#define GROUPS "X25519:P-256:P-384"
#define TICKET_LIFE_S 3600

const char *const net_tls_versions[] = {"TLSv1.2", "TLSv1.3", NULL};

const char *net_tls_result_name(enum net_tls_result r)
{
    static const char *const words[NET_TLS_RESULTS] = {
#define NET_TLS_WORD(name, word) [NET_TLS_##name] = (word),
        NET_TLS_RESULT_TABLE(NET_TLS_WORD)
#undef NET_TLS_WORD
    };
    return words[r];
}

const char *tls_why(void)
{
    unsigned long code = ERR_get_error();
    const char *why = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return why ? why : "unknown error";
}

/* ---- files ---- */

static int unusable(const char *setting, const char *path, struct err_note *note)
{
    return err_note_set(note, -ERR_INVALID, "%s: the file %.200s cannot be used: %s.", setting,
                        path, tls_why());
}

/* OpenSSL's own words for a file that cannot be opened name no path. */
static int readable(const char *setting, const char *path, struct err_note *note)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return err_note_set(note, errno == ENOENT ? -ERR_NOT_FOUND : -ERR_INVALID,
                            "%s: the file %.200s cannot be read: %s.", setting, path,
                            strerror(errno));
    fclose(file);
    return 0;
}

/* Otherwise OpenSSL would ask on the terminal. */
static int no_passphrase_cb(char *out, int room, int writing, void *ctx)
{
    (void)out, (void)room, (void)writing, (void)ctx;
    return -1;
}

static int load_pair(SSL_CTX *c, const struct net_tls_files *f, struct err_note *note)
{
    int err = readable("tls.cert", f->cert, note);
    if (!err)
        err = readable("tls.key", f->key, note);
    if (err)
        return err;
    SSL_CTX_set_default_passwd_cb(c, no_passphrase_cb);
    if (SSL_CTX_use_certificate_chain_file(c, f->cert) != 1)
        return unusable("tls.cert", f->cert, note);
    if (SSL_CTX_use_PrivateKey_file(c, f->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(c) != 1)
        return unusable("tls.key", f->key, note);
    return 0;
}

static int load_client_ca(SSL_CTX *c, const char *path, struct err_note *note)
{
    int err = readable("tls.client_ca", path, note);
    if (err)
        return err;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);
    if (!names || SSL_CTX_load_verify_file(c, path) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return unusable("tls.client_ca", path, note);
    }
    SSL_CTX_set_client_CA_list(c, names);
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

/* ---- settings ---- */

static bool settings(SSL_CTX *c)
{
    static const unsigned char id[] = "holdfast";
    SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                               SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(c, TICKET_LIFE_S);
    SSL_CTX_set_read_ahead(c, 1);
    SSL_CTX_set_alpn_select_cb(c, tls_alpn_cb, NULL);
    return SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(c, CIPHERS_1_2) == 1 &&
           SSL_CTX_set_ciphersuites(c, CIPHERS_1_3) == 1 &&
           SSL_CTX_set1_groups_list(c, GROUPS) == 1 && SSL_CTX_set_max_early_data(c, 0) == 1 &&
           SSL_CTX_set_session_id_context(c, id, sizeof id - 1) == 1;
}

static int context_new(const struct net_tls_files *f, SSL_CTX **ret, struct err_note *note)
{
    ERR_clear_error();
    SSL_CTX *c = SSL_CTX_new(TLS_server_method());
    int err = c && settings(c) ? 0 : err_note_set(note, -ERR_NOMEM, "TLS: %s.", tls_why());
    if (!err)
        err = load_pair(c, f, note);
    if (!err && f->client_ca[0])
        err = load_client_ca(c, f->client_ca, note);
    if (err)
        SSL_CTX_free(c);
    else
        *ret = c;
    return err;
}

/* ---- the certificate's time ---- */

static int64_t unix_s(const ASN1_TIME *at)
{
    struct tm tm;
    return at && ASN1_TIME_to_tm(at, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static int valid_now(SSL_CTX *c, const char *path, struct err_note *note)
{
    const X509 *cert = SSL_CTX_get0_certificate(c);
    const char *what = X509_cmp_current_time(X509_get0_notAfter(cert)) < 0    ? "has expired"
                       : X509_cmp_current_time(X509_get0_notBefore(cert)) > 0 ? "is not valid yet"
                                                                              : NULL;
    if (!what)
        return 0;
    return err_note_set(note, -ERR_INVALID, "tls.cert: the certificate in %.200s %s.", path, what);
}

static void use(struct net_tls *t, SSL_CTX *c, bool client_certificates)
{
    const X509 *cert = SSL_CTX_get0_certificate(c);
    SSL_CTX_free(t->context); /* open connections have references of their own */
    t->context = c;
    t->figures.not_before_s = unix_s(X509_get0_notBefore(cert));
    t->figures.not_after_s = unix_s(X509_get0_notAfter(cert));
    t->figures.client_certificates = client_certificates;
}

/* ---- tls.h ---- */

int net_tls_new(const struct net_tls_files *files, const struct log *log, struct net_tls **ret,
                struct err_note *note)
{
    SSL_CTX *c;
    struct net_tls *t = mem_zalloc(sizeof *t);
    if (!t)
        return -ERR_NOMEM;
    int err = context_new(files, &c, note);
    if (err) {
        mem_free(t);
        return err;
    }
    t->log = log;
    use(t, c, files->client_ca[0] != '\0');
    *ret = t;
    return 0;
}

int net_tls_reload(struct net_tls *t, const struct net_tls_files *files, struct err_note *note)
{
    SSL_CTX *c;
    int err = context_new(files, &c, note);
    if (!err && (err = valid_now(c, files->cert, note)) != 0)
        SSL_CTX_free(c);
    if (err) {
        t->figures.reloads_failed++;
        return err;
    }
    use(t, c, files->client_ca[0] != '\0');
    t->figures.reloads++;
    return 0;
}

void net_tls_new_ticket_keys(struct net_tls *t)
{
    unsigned char keys[256];
    long need = SSL_CTX_get_tlsext_ticket_keys(t->context, NULL, 0);
    if (need <= 0 || (size_t)need > sizeof keys || RAND_priv_bytes(keys, (int)need) != 1 ||
        SSL_CTX_set_tlsext_ticket_keys(t->context, keys, need) != 1)
        ERR_clear_error(); /* the keys in use remain */
    OPENSSL_cleanse(keys, sizeof keys);
}

void net_tls_free(struct net_tls *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->context);
    OPENSSL_cleanse(t->scratch, sizeof t->scratch);
    mem_free(t);
}

void net_tls_figures(const struct net_tls *t, struct net_tls_figures *ret)
{
    *ret = t->figures;
}
