/* SPDX-License-Identifier: Apache-2.0 */
/* The disk under files_torn: files_torn_disk.c stores it, files_torn.c presents it to a process. */
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
    bool seen, durable; /* whether it has its name: for processes; on the disk */
    struct copy now, disk;
    uint8_t *dirty;     /* per visible sector: whether the next sync writes it */
    size_t dirty_bytes; /* capacity of dirty */
    struct file *next;
};

struct files_torn {
    struct files files;
    pthread_mutex_t lock;
    struct random random;
    struct file *list;
    struct file *handles[HANDLES];
    unsigned stop, fail_write, fail_sync; /* counts down; 0: disabled */
    int fail_write_code, fail_sync_code;
    bool stopped;
    uint64_t capacity;
    struct files_torn_figures figures;
};

/* The caller of the functions below holds the lock. */

struct file *file_find(struct files_torn *t, const char *name); /* NULL: no file has this name */
struct file *file_new(struct files_torn *t, const char *name);
void file_free(struct file *f);
void file_resize(struct file *f, size_t size);
void file_write(struct file *f, size_t at, const void *bytes, size_t len);
/* Writes dirty sectors to the disk, either all or a random selection; afterwards none is dirty. */
void file_sync(struct files_torn *t, struct file *f, unsigned percent);
void copy_resize(struct copy *c, size_t size);
/* Frees files that have no name and are not open. */
void files_sweep(struct files_torn *t);
/* Applies a power failure to files and names. */
void torn_disk_crash(struct files_torn *t);
