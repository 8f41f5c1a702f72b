/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast restore`: a new store out of a backup, while no server runs on either.
 *
 * What the server that made the backup did afterwards is not in it, but its clients remember: ids
 * of jobs, tokens of claims. So the new store is another one (its own id) that hands out nothing
 * they could have seen: its sequences and epochs begin far beyond any the old one can have reached.
 * A claim that is in the backup keeps its token. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct restore_config {
    const char *from; /* a backup, its holdfast.db, or the data directory of a stopped server */
    const char *to;   /* a data directory without a store; made if it is not there */
    void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes; may be NULL */
    bool (*stop)(void *ctx); /* true: end it, and leave nothing; may be NULL */
    void *ctx;
};

struct restore_result {
    uint64_t bytes, jobs, queues;
    uint64_t problems; /* that `holdfast check` finds and a server starts with: damaged jobs, say */
    char problem[600]; /* the first of them, in a sentence */
};

/* 0: the store is there, whole and durable, and a server starts on it. Otherwise it does not exist,
 * a directory that was created for it is removed, and the note says why and what to do:
 * -ERR_NOT_FOUND, -ERR_INVALID, -ERR_VERSION, -ERR_LOCKED, -ERR_RANGE refused; -ERR_CORRUPT,
 * -ERR_NO_SPACE, -ERR_IO, -ERR_NOMEM failed; -ERR_CLOSED stopped. */
MUST_CHECK int restore_run(const struct restore_config *config, struct restore_result *ret,
                           struct err_note *note);

/* Starts that the old store may still have made. As many again are drawn from at random: two stores
 * made of one backup, one after the other, must not issue the same tokens. */
#define RESTORE_EPOCHS UINT64_C(65536)
#define RESTORE_SEQS (UINT64_C(1) << 32) /* jobs that the old store may still have taken */
/* Records that it may still have written: positions are versions of the key-value store. */
#define RESTORE_POSITIONS (UINT64_C(1) << 32)
#define RESTORE_EPOCH_MAX (UINT64_C(1) << 24) /* what ids of events have room for */
