/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a store while it is in use into a file without a name, in a separate thread.
 *
 * The copy shows the store at one moment: one read transaction on a read-only connection lasts from
 * the first page to the last. The WAL cannot be reset during this time, so the copy runs at the
 * speed of the disk; a slow client reads it from the file afterwards. The file loses its name as
 * soon as it is open, so a process that dies leaves nothing behind. */
#pragma once

#include "backend/backend.h"

struct backup;

/* Prepares a backup of the store in `dir`; nothing is read yet. `notify` is called on the thread
 * when it has ended. -ERR_NOMEM. */
MUST_CHECK int backup_new(const char *dir, void (*notify)(void *ctx), void *ctx,
                          struct backup **ret);
/* Starts it. The copy contains everything that is committed now. backup_over reports failures. */
void backup_run(struct backup *b);
void backup_cancel(struct backup *b); /* it ends soon, with -ERR_CLOSED */
/* Pages copied and pages in total; 0 and 0 before that is known. */
void backup_progress(const struct backup *b, uint64_t *ret_pages, uint64_t *ret_total);
/* True, once, when it has ended; *ret is valid as long as b, and the caller owns its file. */
bool backup_over(struct backup *b, struct backup_result *ret);
/* Cancels, waits for the thread and frees it; closes a file that was not taken. NULL is allowed. */
void backup_free(struct backup *b);

/* Removes the file that a process left in `dir` if it died just after creating it. The lock of the
 * directory must be held. Returns how many were removed. */
size_t backup_leftovers_remove(const char *dir);
