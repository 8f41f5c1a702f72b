/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite VFS through which every connection to holdfast.db is opened.
 *
 * It lies over SQLite's VFS for Unix. Pages that are written to the database file get their
 * checksum (dbpage.h), pages that are read from it are checked. What is written to the WAL is left
 * as it is, since SQLite has already computed the checksum of the frame; a page that is read from
 * it is checked against that checksum, or against the one that this connection took when it wrote
 * the page. (The checksums of frames are not valid while a large transaction that has spilled its
 * pages is under way; only the connection that writes reads such frames.)
 *
 * What does not match is SQLITE_IOERR_DATA, and dbpage_vfs_fault says what it was. State is kept
 * per open file, so connections of several stores do not meet. There is no memory mapping: it would
 * go around the checks. A symbolic link in the place of the database, its WAL or its shared memory
 * is not followed; one in the path of the directory is. */
#pragma once

#include <sqlite3.h>

#include "backend/local/pages/dbpage.h"

#define DBPAGE_VFS "holdfast"
/* The same without locks and shared memory: for reading a store whose directory is locked. */
#define DBPAGE_VFS_NOLOCK "holdfast-nolock"
/* In a URI: for saving what can be read of a damaged store. Pages of the database that do not match
 * their checksums are given all the same, with the header of the file put right, until
 * dbpage_vfs_trust_end: without those that describe the store nothing can be read. */
#define DBPAGE_VFS_TRUST "holdfast_trust"

/* Makes both known to SQLite; any number of times, from any thread. -ERR_IO when SQLite has no VFS
 * for Unix. */
MUST_CHECK int dbpage_vfs_register(void);
/* What the last read that gave SQLITE_IOERR_DATA found; DBPAGE_FINE when no read did, or when
 * the connection does not use this VFS. */
struct dbpage_fault dbpage_vfs_fault(sqlite3 *db);
/* The first page that was given although it does not match; DBPAGE_FINE when no page was. */
struct dbpage_fault dbpage_vfs_trusted(sqlite3 *db);
/* From now on only page 1, which SQLite may read again at any time. */
void dbpage_vfs_trust_end(sqlite3 *db);
/* The name of the table or index to which a page belongs; false when it cannot be told. Runs a
 * statement, so the connection's last error is another one afterwards. */
bool dbpage_vfs_owner(sqlite3 *db, uint32_t page, char *name, size_t bytes);

enum dbpage_format { DBPAGE_FORMAT_NONE, DBPAGE_FORMAT_OTHER, DBPAGE_FORMAT_OURS };
/* From the first bytes of the file as it is: empty, with pages of another kind, ours. -ERR_IO. */
MUST_CHECK int dbpage_vfs_format(sqlite3 *db, enum dbpage_format *ret);
