/* SPDX-License-Identifier: Apache-2.0 */
/* Connects the blocked jobs of an export with the jobs for which they wait. All jobs get new ids,
 * so this is possible only when both have been imported: until then the server keeps a blocked job
 * open, and it does not start.
 *
 * Usually a job comes after those for which it waits, and is connected with the batch in which it
 * was sent; the others (of open batches) at the end of the file. If one of them is not imported,
 * nothing is connected and the job stays open, unless ignore_missing is set. So a job that was
 * connected by an earlier run is recognized: it is not open any more, or, if it stays open, it has
 * as many dependencies as it should have.
 *
 * The ids of all jobs of the file are kept in memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/containers/map.h"
#include "cli/client/session.h"

/* A blocked job; its texts are in import_waits.texts. */
struct import_wait {
    uint64_t number; /* of its line */
    struct hash128 job;
    size_t parents, count; /* where their ids begin, and how many there are */
    bool open;             /* it is the final job of an open batch, and stays open */
    uint32_t had;          /* dependencies that had ended when it was exported */
};

struct import_waits {
    struct client_session *s;
    void (*refuse)(void *ctx, uint64_t number, struct span why); /* reports a line */
    void *ctx;
    bool ignore_missing;
    struct map128 ids; /* old id → new sequence */
    struct buf texts;  /* old ids, each followed by NUL */
    struct import_wait *list;
    size_t count, room;
    size_t tried; /* the first ones of the list, which wait for the end of the file */
};

void import_waits_init(struct import_waits *w);
void import_waits_done(struct import_waits *w);
/* The identity of an old id. */
struct hash128 import_waits_id(struct span old);
/* Notes a blocked job that is about to be sent. CLIENT_REFUSED: the line does not say for which
 * jobs it waits, and was reported; then the job must not be sent. */
int import_waits_note(struct import_waits *w, uint64_t number, struct span job);
/* This job exists in the server now. false: no memory. */
MUST_CHECK bool import_waits_there(struct import_waits *w, struct hash128 job, uint64_t seq);
/* Connects the jobs that were noted since the last call, or, at the end of the file, all that
 * remain. CLIENT_DONE, or the status that ends the import. Uses the session's arena, and clears
 * it. */
int import_waits_connect(struct import_waits *w, bool end);
