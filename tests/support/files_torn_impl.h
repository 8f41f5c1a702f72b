/* SPDX-License-Identifier: Apache-2.0 */
/* The disk under files_torn: files_torn_disk.c keeps it, files_torn.c gives it to a process. */
#pragma once

#include <pthread.h>

#include "support/files_torn.h"

#define NAME_BYTES 32
#define HANDLES 256

struct copy {
    char *bytes;
    size_t size;
};

struct file {
    char name[NAME_BYTES];
    bool seen, durable; /* has its name: now; on the disk */
    struct copy now, disk;
    uint8_t *dirty;     /* per sector of now: the next sync writes it */
    size_t dirty_bytes; /* room of dirty */
    struct file *next;
};

struct files_torn {
    struct files files;
    pthread_mutex_t lock;
    struct random random;
    struct file *list;
    struct file *handles[HANDLES];
    unsigned stop, fail_write, fail_sync; /* counting down; 0: off */
    int fail_write_code, fail_sync_code;
    bool stopped;
    uint64_t capacity;
    struct files_torn_figures figures;
};

/* All below: call with the lock. */

struct file *file_find(struct files_torn *t, const char *name); /* NULL: nobody has this name */
struct file *file_new(struct files_torn *t, const char *name);
void file_free(struct file *f);
void file_resize(struct file *f, size_t size);
void file_write(struct file *f, size_t at, const void *bytes, size_t len);
/* Puts dirty sectors on the disk, all of them or each by chance; afterwards none is dirty. */
void file_sync(struct files_torn *t, struct file *f, unsigned percent);
void copy_resize(struct copy *c, size_t size);
/* Forgets files that have no name and that nobody has open. */
void files_sweep(struct files_torn *t);
/* What the power leaves of files and names. */
void torn_disk_crash(struct files_torn *t);
