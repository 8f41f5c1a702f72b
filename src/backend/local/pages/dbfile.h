/* SPDX-License-Identifier: Apache-2.0 */
/* A database file outside its store: a backup that is written, received or restored. It says
 * which program created it, whether it is complete, and whether the disk has space for it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct dbfile_facts {
    uint64_t bytes; /* of the file */
    uint32_t pages;
    bool wal;   /* a WAL beside it may hold more */
    bool sound; /* the checksum of the first page matches; it need not where there is a WAL */
};

enum dbfile_kind {
    DBFILE_OURS,
    DBFILE_DAMAGED,     /* its header is not ours, but a journal beside it says that it was */
    DBFILE_NO_DATABASE, /* not one of SQLite */
    DBFILE_FOREIGN,     /* of another program */
    DBFILE_DRAFT,       /* its pages have no checksums */
};
/* Whose file it is, from its first page; `dir` is where it lies. -ERR_IO. */
MUST_CHECK int dbfile_kind(int fd, const char *dir, enum dbfile_kind *ret);
/* Puts right what is the same in the first page of every store. */
void dbfile_mend(unsigned char *page);

/* From the first page alone; `name` is for the notes. -ERR_INVALID: not a database, or one of
 * another program; -ERR_VERSION: its pages have no checksums; -ERR_CORRUPT: shorter or longer than
 * its header says (not asked of a file with `wal`); -ERR_IO. */
MUST_CHECK int dbfile_header(int fd, const char *name, struct dbfile_facts *ret,
                             struct err_note *note);
/* Says in the header that there is no WAL: what is in the file is all there is. -ERR_IO,
 * -ERR_CORRUPT. */
MUST_CHECK int dbfile_set_alone(int fd, const char *name, struct err_note *note);

/* Whether its header says so: a backup's does, that of a store, where a journal belongs to it,
 * never. False for a file that cannot be read. */
bool dbfile_is_alone(const char *path);

/* -ERR_NO_SPACE when `bytes` more in `dir` would leave less than the reserve: a twentieth of the
 * file system, or 64 MiB if that is more. */
MUST_CHECK int dbfile_room(const char *dir, uint64_t bytes, struct err_note *note);

struct dbfile_contents {
    uint64_t bytes, jobs, queues, position;
};
/* Reads all of a file that no other process uses and changes nothing: header, the checksum of each
 * page, SQLite's own quick check, format, and that a store's rows are there. The codes of
 * dbfile_header.
 */
MUST_CHECK int dbfile_verify(const char *path, struct dbfile_contents *ret, struct err_note *note);
