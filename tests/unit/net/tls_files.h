/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates for tests, in files of a folder of their own. */
#pragma once

#include "net/tls/tls.h"

struct tls_files {
    char folder[32], cert[48], key[48];
    struct net_tls_files files; /* without client_ca */
};

void tls_files_make(struct tls_files *f); /* creates the folder, and a pair that is valid */
/* Replaces the pair: self-signed for localhost, valid from `from_s` to `to_s` (seconds from now).
 */
void tls_files_renew(struct tls_files *f, long from_s, long to_s);
void tls_files_remove(struct tls_files *f);
