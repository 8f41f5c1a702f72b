/* SPDX-License-Identifier: Apache-2.0 */
/* The file operations of the journal, as an interface, so that a test can simulate a failing disk.
 *
 * Files have plain names inside one directory and are opened for reading and writing. Data that is
 * not synced may be lost, torn or garbled in a power failure, sector by sector; so may a name
 * before sync_names. Different threads may call functions for different files at the same time.
 *
 * Functions that can fail return 0 or a negative code, and fill the note with the name of the file
 * and the system's message. -ERR_NO_SPACE: the disk is full, a part may have been written.
 * -ERR_NOMEM: the system temporarily lacks memory or open files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

struct files;

typedef void (*files_name_fn)(void *ctx, const char *name, uint64_t size);

struct files_ops {
    int (*list)(struct files *fs, files_name_fn fn, void *ctx, struct err_note *note);
    /* make: it must not be there yet; the new file is empty, for its owner only. */
    int (*open)(struct files *fs, const char *name, bool make, int *ret, struct err_note *note);
    /* As many bytes as there are, up to len; past the end 0. */
    int (*read)(struct files *fs, int file, uint64_t at, void *into, size_t len, size_t *ret,
                struct err_note *note);
    /* All parts, one after the other; a short write is gone on with. */
    int (*write)(struct files *fs, int file, uint64_t at, const struct span *parts, size_t count,
                 struct err_note *note);
    int (*sync)(struct files *fs, int file, struct err_note *note);
    int (*sync_names)(struct files *fs, struct err_note *note);
    int (*remove)(struct files *fs, const char *name, struct err_note *note);
    void (*close)(struct files *fs, int file);
    void (*done)(struct files *fs);
};

struct files {
    const struct files_ops *ops;
};

/* A real directory. make: it is created if it does not exist, and its name is synced. read_only:
 * nothing can be written; files are opened for reading alone. -ERR_NOT_FOUND: it is not there. */
MUST_CHECK int files_open_dir(const char *path, bool make, bool read_only, struct files **ret,
                              struct err_note *note);
