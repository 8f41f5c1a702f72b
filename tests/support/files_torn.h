/* SPDX-License-Identifier: Apache-2.0 */
/* files.h in memory, on the worst disk that fulfils the contract of files.h.
 *
 * Written bytes are visible at once but are not on the disk; a successful sync puts them there. A
 * power failure leaves each sector of 512 bytes that is not on the disk independently in its old
 * state, in its new state, or with random bytes; the same applies to the ends of files that grew,
 * and to names. A sync that fails drops the sectors that it could not write: later syncs succeed
 * without them, while their bytes can still be read until the power failure, as on Linux.
 *
 * All random numbers come from the seed. Several threads may call. */
#pragma once

#include "backend/local/journal/files.h"
#include "base/digest/random.h"

struct files_torn;

struct files_torn *files_torn_new(uint64_t seed);
void files_torn_free(struct files_torn *t);
/* The view of a process. files->ops->done closes its files; the disk exists until files_torn_free.
 */
struct files *files_torn_files(struct files_torn *t);

/* A power failure: open files are closed, and pending failures and stops are cleared. */
void files_torn_crash(struct files_torn *t);
/* kill -9: written bytes stay visible, but no more of them are on the disk than before. */
void files_torn_kill(struct files_torn *t);

/* The nth change from now on (1: the next; write, sync, sync_names, make, remove) happens in part
 * or not at all. It and all later calls fail with -ERR_IO until crash or kill. 0: no change stops.
 */
void files_torn_stop(struct files_torn *t, unsigned nth);
bool files_torn_stopped(const struct files_torn *t);
/* The nth write, or sync of a file, from now on fails with this code. 0: none fails. */
void files_torn_fail_write(struct files_torn *t, unsigned nth, int code);
void files_torn_fail_sync(struct files_torn *t, unsigned nth, int code);
/* The largest total size of all files. 0: no limit. */
void files_torn_capacity(struct files_torn *t, uint64_t bytes);

/* For damage below all layers: on the disk and visible at once. */
void files_torn_put(struct files_torn *t, const char *name, struct span content);
void files_torn_drop(struct files_torn *t, const char *name);
void files_torn_cut(struct files_torn *t, const char *name, uint64_t size);
/* The visible content; the size is 0 and the result NULL if the file does not exist. */
struct span files_torn_content(struct files_torn *t, const char *name);
/* Changes bytes of the file. */
void files_torn_poke(struct files_torn *t, const char *name, uint64_t at, struct span bytes);

struct files_torn_figures {
    uint64_t changes, writes, syncs, crashes, garbled; /* calls; sectors */
};
struct files_torn_figures files_torn_figures(const struct files_torn *t);
