/* SPDX-License-Identifier: Apache-2.0 */
/* Imports the keys of an export into a running server, in batches. An existing key stays
 * unchanged, so that the same file can be sent again. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cli/client/session.h"

#define IMPORT_KEYS_BATCH 500 /* each is a check and a set of one commit */

struct import_key {
    uint64_t number; /* of its line */
    size_t at, len;  /* in lines */
    bool there;
};

struct import_keys {
    struct client_session *s;
    void (*refuse)(void *ctx, uint64_t number,
                   struct span why); /* reports a line that is not imported */
    void *ctx;
    struct buf lines;
    struct import_key *list; /* in the batch */
    size_t count;
    uint64_t seen, made, kept;
};

MUST_CHECK int import_keys_init(struct import_keys *k);
void import_keys_done(struct import_keys *k);
/* Adds the object of a line; the batch is sent when it is full. CLIENT_DONE, or the status that
 * ends the import. */
int import_keys_add(struct import_keys *k, uint64_t number, struct span key);
/* Sends the remaining keys. Uses the session's arena, and clears it. */
int import_keys_flush(struct import_keys *k);
