/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world/disk.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "sim/world/disk_journal.h"

void disk_init(struct disk *d)
{
    memset(d, 0, sizeof(*d));
    pool_init(&d->pool);
}

static void close_store(struct disk *d)
{
    if (d->reader)
        d->reader->ops->close(d->reader);
    if (d->store)
        d->store->ops->close(d->store);
    d->reader = NULL;
    d->store = NULL;
}

static void remove_dir(const char *dir)
{
    DIR *list = opendir(dir);
    for (struct dirent *e; list && (e = readdir(list)) != NULL;) {
        char path[400];
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (list)
        closedir(list);
    rmdir(dir);
}

void disk_done(struct disk *d)
{
    disk_journal_free(d->journal);
    d->journal = NULL;
    close_store(d);
    if (d->dir[0])
        remove_dir(d->dir);
    vec_free(d->frames);
    pool_done(&d->pool);
}

static int open_sqlite(struct disk *d, struct wall_time now, struct err_note *note)
{
    return store_open_sqlite(d->dir, now, &d->store, note);
}

int disk_open(struct disk *d, uint64_t seed, bool sqlite, struct wall_time now,
              struct err_note *note)
{
    if (!sqlite)
        return store_open_memory(seed, &d->store);
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(d->dir, sizeof(d->dir), "%s/holdfast-sim-XXXXXX", base);
    if (!mkdtemp(d->dir))
        return err_note_set(note, -ERR_IO, "no temporary directory in %s", base);
    return open_sqlite(d, now, note);
}

int disk_reopen(struct disk *d, struct wall_time now, struct err_note *note)
{
    if (!d->dir[0])
        return 0;
    close_store(d);
    return open_sqlite(d, now, note);
}

void disk_add(struct disk *d, struct span frame, uint64_t last)
{
    d->frames = vec_room(d->frames, &d->room, d->count + 1, sizeof(*d->frames));
    d->frames[d->count++] = (struct disk_frame){pool_span(&d->pool, frame), last};
}

size_t disk_waiting(const struct disk *d)
{
    return d->count - d->durable - d->writing;
}

void disk_write(struct disk *d, size_t frames)
{
    CHECK(d->writing == 0 && frames <= disk_waiting(d));
    d->writing = frames;
}

uint64_t disk_written(struct disk *d)
{
    d->durable += d->writing;
    d->writing = 0;
    return disk_position(d);
}

void disk_crash(struct disk *d, size_t keep)
{
    CHECK(keep <= d->writing && !d->journal);
    d->durable += keep;
    d->writing = 0;
    d->count = d->durable;
}

uint64_t disk_position(const struct disk *d)
{
    return d->durable ? d->frames[d->durable - 1].last : 0;
}

static int apply_frames(struct disk *d, size_t upto, struct err_note *note)
{
    size_t count = upto - d->applied;
    struct span *frames = pool_alloc(&d->pool, count * sizeof(*frames));
    for (size_t i = 0; i < count; i++)
        frames[i] = d->frames[d->applied + i].bytes;
    int rc = d->store->ops->apply(d->store, frames, count, note);
    if (rc == 0)
        d->applied = upto;
    return rc;
}

int disk_apply(struct disk *d, size_t upto, struct err_note *note)
{
    if (upto > d->durable)
        upto = d->durable;
    if (upto <= d->applied)
        return 0;
    return d->journal ? disk_journal_catch_up(d, d->frames[upto - 1].last, note)
                      : apply_frames(d, upto, note);
}

int disk_reader(struct disk *d, uint64_t need, struct store_reader **ret, struct err_note *note)
{
    size_t upto = d->applied;
    while (upto < d->durable && (upto == 0 || d->frames[upto - 1].last < need))
        upto++;
    int rc = disk_apply(d, upto, note);
    if (rc == 0 && !d->reader)
        rc = d->store->ops->reader_open(d->store, &d->reader, note);
    *ret = d->reader;
    return rc;
}
