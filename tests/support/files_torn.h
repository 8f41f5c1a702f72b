/* SPDX-License-Identifier: Apache-2.0 */
/* files.h in memory, on the worst disk that keeps the promises of files.h.
 *
 * What was written is seen at once but is not on the disk; a sync that succeeds puts it there. When
 * the power goes, each sector of 512 bytes that is not on the disk is, by itself, as it was, as it
 * was written, or garbage; the same goes for the ends of files that grew, and for names. A sync
 * that fails drops what it could not write: later syncs succeed without it, while it can still be
 * read until the power goes, as on Linux.
 *
 * All chance comes from the seed. Calls may come from several threads. */
#pragma once

#include "backend/local/journal/files.h"
#include "base/digest/random.h"

struct files_torn;

struct files_torn *files_torn_new(uint64_t seed);
void files_torn_free(struct files_torn *t);
/* What a process sees. files->ops->done closes its files; the disk stays until files_torn_free. */
struct files *files_torn_files(struct files_torn *t);

/* The power goes and comes back: open files are closed, failures and stops forgotten. */
void files_torn_crash(struct files_torn *t);
/* kill -9: what was written stays to be seen, but is no more on the disk than it was. */
void files_torn_kill(struct files_torn *t);

/* The nth change from now on (1: the next; write, sync, sync_names, make, remove) happens in part
 * or not at all, and it and everything after it fail with -ERR_IO, until crash or kill. 0: none. */
void files_torn_stop(struct files_torn *t, unsigned nth);
bool files_torn_stopped(const struct files_torn *t);
/* The nth write, or sync of a file, from now on fails with this code. 0: none does. */
void files_torn_fail_write(struct files_torn *t, unsigned nth, int code);
void files_torn_fail_sync(struct files_torn *t, unsigned nth, int code);
/* Files together cannot become larger. 0: they can. */
void files_torn_capacity(struct files_torn *t, uint64_t bytes);

/* For damage by hand, below everything: on the disk and to be seen at once. */
void files_torn_put(struct files_torn *t, const char *name, struct span content);
void files_torn_drop(struct files_torn *t, const char *name);
void files_torn_cut(struct files_torn *t, const char *name, uint64_t size);
/* As it is seen now; a size of 0 and NULL: it is not there. */
struct span files_torn_content(struct files_torn *t, const char *name);
/* Changes bytes of it. */
void files_torn_poke(struct files_torn *t, const char *name, uint64_t at, struct span bytes);

struct files_torn_figures {
    uint64_t changes, writes, syncs, crashes, garbled; /* calls; sectors */
};
struct files_torn_figures files_torn_figures(const struct files_torn *t);
