/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate of the server: opened at the start, read again on SIGHUP and when its files
 * change, and what is done for it from time to time: new keys of tickets, and a warning before it
 * expires.
 *
 * Files are watched with stat, not with inotify: a certificate is often a symbolic link into a
 * folder that is replaced as a whole, and it may be on a network file system. A reload waits until
 * the files have not changed for a moment, because certificate and key are two files. */
#pragma once

#include <uv.h>

#include "net/tls/tls.h"

#define SERVER_TLS_FILES 3

struct server_tls {
    struct net_tls *tls; /* NULL = the server has no TLS */
    const struct log *log;
    const struct net_tls_files *files;
    bool watching; /* the handles below are open */
    uv_fs_poll_t polls[SERVER_TLS_FILES];
    uv_timer_t settle, upkeep;
};

/* s is zero; files and log outlive it; files->cert "" = no TLS. Errors of net_tls_new. */
MUST_CHECK int server_tls_open(struct server_tls *s, uv_loop_t *loop,
                               const struct net_tls_files *files, const struct log *log,
                               struct err_note *note);
/* Reads these files; on an error, which is logged, everything stays as it was: false. They must be
 * what `files` of server_tls_open has from then on. */
bool server_tls_reload(struct server_tls *s, const struct net_tls_files *files);
/* The files to watch have changed their names. */
void server_tls_watch(struct server_tls *s);
/* Closes the handles; s stays in use until they are closed. */
void server_tls_close(struct server_tls *s);
/* After the servers that use it have ended. */
void server_tls_done(struct server_tls *s);
