/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to the database of a stopped server that reads and changes nothing: no byte of a
 * file, and no file is created.
 *
 * A database whose WAL is empty or missing is opened as immutable. One with a WAL needs an index of
 * it, which SQLite keeps in a file beside it or, for a connection that excludes all others, in
 * memory: so the connection says it does, with a VFS that takes no locks (the lock of the directory
 * is held) and a file that is open for reading alone. */
#pragma once

#include <sqlite3.h>

#include "backend/local/journal/journal.h"
#include "backend/local/sqlite/store_sqlite.h"
#include "backend/local/store/store_dir.h"

/* `trust`: pages that do not match their checksums are given, until dbpage_vfs_trust_end
 * (pages/vfs.h). *ret is set also on failure. The codes of sql_open. */
MUST_CHECK int reading_open(const struct store_dir *dir, bool trust, sqlite3 **ret,
                            struct err_note *note);

/* The files of DIR/journal, for reading. -ERR_NOT_FOUND: there is no such directory. */
MUST_CHECK int reading_journal_files(const char *dir, struct files **ret, struct err_note *note);
/* How to read what the journal has beyond the store, and change nothing. */
struct journal_config reading_journal_config(const struct store_meta *meta, struct files *files);
