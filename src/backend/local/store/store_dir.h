/* SPDX-License-Identifier: Apache-2.0 */
/* A data directory and its lock: one holdfast process at a time. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct store_dir {
    char *path;    /* the path of the directory */
    char *db_path; /* DIR/holdfast.db */
    int fd;        /* of the directory; -1 = none */
    int lock_fd;   /* -1 = none; the lock is held while this is open */
    bool created;  /* the directory did not exist before */
};

/* Takes the lock of DIR; with `create`, a missing DIR is created first (mode 0700, without
 * parents). -ERR_NOT_FOUND, -ERR_LOCKED (the note names the other process), -ERR_IO, -ERR_NOMEM. */
MUST_CHECK int store_dir_open(const char *path, bool create, struct store_dir *ret,
                              struct err_note *note);
/* The same without writing a byte: for reading the files. If there is no lock file, no server has
 * used the directory and no lock is taken. */
MUST_CHECK int store_dir_open_read(const char *path, struct store_dir *ret, struct err_note *note);
/* Releases the lock. A struct that was only set to STORE_DIR_NONE is allowed. */
void store_dir_close(struct store_dir *d);
/* Removes a directory that store_dir_open has created, with its lock file, and closes it. It stays
 * if it contains anything else. A directory that existed before is only closed. */
void store_dir_uncreate(struct store_dir *d);
/* Makes new names in the directory durable. */
MUST_CHECK int store_dir_sync(const struct store_dir *d, struct err_note *note);

/* The refusal of a symbolic link where a file or the journal of a store must be: -ERR_IO. */
int store_link_refuse(const char *path, struct err_note *note);
/* Whether DIR/journal contains a key or a segment. Both are created after holdfast.db, so they
 * belong to a store. */
bool store_dir_journaled(const char *path);
/* The refusal of a directory that has a journal but no holdfast.db: -ERR_CORRUPT. */
int store_dir_lost(const char *path, struct err_note *note);

#define STORE_DIR_NONE ((struct store_dir){.fd = -1, .lock_fd = -1})
