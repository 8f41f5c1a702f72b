/* SPDX-License-Identifier: Apache-2.0 */
/* A server for tests of clients: a thread that answers each request with what a function says. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"

/* Appends the whole answer, status line first, to out. `request` is head and body, NUL-terminated.
 * False closes the connection behind what was appended. Runs on the server's thread. */
typedef bool (*canned_fn)(void *ctx, const char *request, struct buf *out);

struct canned {
    canned_fn fn;
    void *ctx;
    int listener;
    int wake[2]; /* a pipe: closing its writing end stops the thread */
    pthread_t thread;
    char url[128]; /* what a client is given */
};

/* Over TCP on a free port, or over the Unix socket `path`. */
void canned_start(struct canned *c, const char *path, canned_fn fn, void *ctx);
void canned_stop(struct canned *c);
/* A JSON answer. */
void canned_json(struct buf *out, int status, const char *json);
