/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a store while it is in use into a file without a name, in a thread of its own.
 *
 * The copy is of one moment: one read transaction lasts from its first page to its last, on a
 * read-only connection. Meanwhile the WAL cannot start over, so it lasts as long as the disk needs
 * and no longer; whoever wants the copy reads it from the file afterwards, however slowly. The file
 * loses its name as soon as it is open, so a process that dies leaves nothing behind. */
#pragma once

#include "backend/backend.h"

struct backup;

/* Prepares a backup of the store in `dir`; nothing is read yet. `notify` is called on the thread
 * when it is over. -ERR_NOMEM. */
MUST_CHECK int backup_new(const char *dir, void (*notify)(void *ctx), void *ctx,
                          struct backup **ret);
/* Begins: from here on everything is in it that is committed now. Failures come with backup_over.
 */
void backup_run(struct backup *b);
void backup_cancel(struct backup *b); /* it is over soon, with -ERR_CLOSED */
/* Pages copied and pages in all; 0 and 0 before that is known. */
void backup_progress(const struct backup *b, uint64_t *ret_pages, uint64_t *ret_total);
/* True when it has ended; *ret lives as long as b, its file is the caller's. Once. */
bool backup_over(struct backup *b, struct backup_result *ret);
/* Cancels, waits for the thread, frees; closes a file that nobody took. NULL allowed. */
void backup_free(struct backup *b);

/* Removes what a process that died in the very moment of making such a file left in `dir`. The
 * directory's lock must be held. Returns how many. */
size_t backup_leftovers_remove(const char *dir);
