/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/net/tls_files.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include "unit/base/support.h"

static void extension_add(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    assert_non_null(e);
    assert_int_equal(X509_add_ext(cert, e, -1), 1);
    X509_EXTENSION_free(e);
}

static X509 *cert_new(EVP_PKEY *key, long from_s, long to_s)
{
    X509 *cert = X509_new();
    assert_non_null(cert);
    X509_NAME *name = X509_get_subject_name(cert);
    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), from_s);
    X509_gmtime_adj(X509_getm_notAfter(cert), to_s);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1,
                               0);
    X509_set_issuer_name(cert, name);
    X509_set_pubkey(cert, key);
    extension_add(cert, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    return cert;
}

void tls_files_renew(struct tls_files *f, long from_s, long to_s)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(key);
    X509 *cert = cert_new(key, from_s, to_s);
    FILE *out = fopen(f->cert, "we");
    assert_true(out && PEM_write_X509(out, cert) == 1 && fclose(out) == 0);
    out = fopen(f->key, "we");
    assert_true(out && PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1 &&
                fclose(out) == 0);
    X509_free(cert);
    EVP_PKEY_free(key);
}

void tls_files_make(struct tls_files *f)
{
    snprintf(f->folder, sizeof f->folder, "/tmp/hf-tls-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->cert, sizeof f->cert, "%s/cert.pem", f->folder);
    snprintf(f->key, sizeof f->key, "%s/key.pem", f->folder);
    f->files = (struct net_tls_files){f->cert, f->key, ""};
    tls_files_renew(f, -60, 3600);
}

void tls_files_remove(struct tls_files *f)
{
    unlink(f->cert);
    unlink(f->key);
    rmdir(f->folder);
}
