/* SPDX-License-Identifier: Apache-2.0 */
/* See files_torn.h. A file is kept twice: as it is seen and as it is on the disk. */
#include "support/files_torn.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define SECTOR 512u
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

static struct files_torn *torn_of(struct files *fs)
{
    return (struct files_torn *)fs; /* its first member */
}

static size_t sectors(size_t size)
{
    return (size + SECTOR - 1) / SECTOR;
}

/* ---- copies ---- */

/* Room is always whole sectors, so that one can be copied as a whole. */
static void copy_resize(struct copy *c, size_t size)
{
    size_t old = sectors(c->size) * SECTOR, new = sectors(size) * SECTOR;
    if (new != old) {
        c->bytes = realloc(c->bytes, new ? new : 1);
        CHECK(c->bytes);
        if (new > old)
            memset(c->bytes + old, 0, new - old);
    }
    if (size < c->size)
        memset(c->bytes + size, 0, new - size);
    c->size = size;
}

static void copy_sector(struct copy *to, const struct copy *from, size_t sector)
{
    size_t at = sector * SECTOR;
    if (at < sectors(to->size) * SECTOR && at < sectors(from->size) * SECTOR)
        memcpy(to->bytes + at, from->bytes + at, SECTOR);
}

static bool sector_same(const struct copy *a, const struct copy *b, size_t sector)
{
    size_t at = sector * SECTOR;
    return at < sectors(a->size) * SECTOR && at < sectors(b->size) * SECTOR &&
           memcmp(a->bytes + at, b->bytes + at, SECTOR) == 0;
}

/* ---- files ---- */

static struct file *file_find(struct files_torn *t, const char *name)
{
    struct file *f = t->list;
    while (f && !(f->seen && strcmp(f->name, name) == 0))
        f = f->next;
    return f;
}

static struct file *file_new(struct files_torn *t, const char *name)
{
    struct file *f = calloc(1, sizeof *f);
    CHECK(f && strlen(name) < NAME_BYTES);
    snprintf(f->name, sizeof f->name, "%s", name);
    f->seen = true;
    f->next = t->list;
    t->list = f;
    return f;
}

static void file_free(struct file *f)
{
    free(f->now.bytes);
    free(f->disk.bytes);
    free(f->dirty);
    free(f);
}

static bool file_open(const struct files_torn *t, const struct file *f)
{
    for (size_t i = 0; i < HANDLES; i++)
        if (t->handles[i] == f)
            return true;
    return false;
}

/* Forgets files that have no name and that nobody has open. */
static void files_sweep(struct files_torn *t)
{
    for (struct file **at = &t->list; *at;) {
        struct file *f = *at;
        if (f->seen || f->durable || file_open(t, f)) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        file_free(f);
    }
}

static void file_resize(struct file *f, size_t size)
{
    copy_resize(&f->now, size);
    if (sectors(size) > f->dirty_bytes) {
        f->dirty = realloc(f->dirty, sectors(size));
        CHECK(f->dirty);
        memset(f->dirty + f->dirty_bytes, 0, sectors(size) - f->dirty_bytes);
        f->dirty_bytes = sectors(size);
    }
}

static void file_write(struct file *f, size_t at, const void *bytes, size_t len)
{
    if (len == 0)
        return;
    if (at + len > f->now.size)
        file_resize(f, at + len);
    memcpy(f->now.bytes + at, bytes, len);
    memset(f->dirty + at / SECTOR, 1, (at + len - 1) / SECTOR - at / SECTOR + 1);
}

/* Puts dirty sectors on the disk, all of them or each by chance; afterwards none is dirty. */
static void file_sync(struct files_torn *t, struct file *f, unsigned percent)
{
    if (percent == 100 || random_chance(&t->random, percent))
        copy_resize(&f->disk, f->now.size);
    for (size_t i = 0; i < sectors(f->now.size); i++) {
        if (f->dirty[i] && random_chance(&t->random, percent))
            copy_sector(&f->disk, &f->now, i);
        f->dirty[i] = 0;
    }
}

/* ---- stopping and failing ---- */

static int stopped_note(struct err_note *note)
{
    return err_note_set(note, -ERR_IO, "the power is gone");
}

/* Counts a change. True: it is the one at which everything stops. */
static bool change_stops(struct files_torn *t)
{
    t->figures.changes++;
    t->stopped = t->stopped || (t->stop > 0 && --t->stop == 0);
    return t->stopped;
}

static bool due(unsigned *count)
{
    return *count > 0 && --*count == 0;
}

/* ---- the operations, under the lock ---- */

static int do_open(struct files_torn *t, const char *name, bool make, int *ret,
                   struct err_note *note)
{
    struct file *f = file_find(t, name);
    if (t->stopped || (make && change_stops(t))) {
        if (!f && make && random_chance(&t->random, 50))
            (void)file_new(t, name);
        return stopped_note(note);
    }
    if (make == (f != NULL))
        return err_note_set(note, -ERR_IO, "%s: %s", name, make ? "is there" : "is not there");
    for (int i = 0; i < HANDLES; i++) {
        if (!t->handles[i]) {
            t->handles[i] = f ? f : file_new(t, name);
            *ret = i;
            return 0;
        }
    }
    return err_note_set(note, -ERR_IO, "%s: too many open files", name);
}

static uint64_t bytes_seen(const struct files_torn *t)
{
    uint64_t bytes = 0;
    for (const struct file *f = t->list; f; f = f->next)
        bytes += f->seen ? f->now.size : 0;
    return bytes;
}

/* How much of a write can be done before the disk is full. */
static size_t write_room(const struct files_torn *t, const struct file *f, size_t at, size_t len)
{
    size_t end = at + len;
    if (t->capacity == 0 || end <= f->now.size)
        return len;
    uint64_t taken = bytes_seen(t);
    uint64_t left = t->capacity > taken ? t->capacity - taken : 0;
    return end - f->now.size <= left ? len : f->now.size + (size_t)left - at;
}

static int do_write(struct files_torn *t, int file, size_t at, struct span all,
                    struct err_note *note)
{
    struct file *f = t->handles[file];
    bool was_stopped = t->stopped;
    t->figures.writes++;
    if (change_stops(t)) {
        if (!was_stopped)
            file_write(f, at, all.at, random_below(&t->random, all.len + 1));
        return stopped_note(note);
    }
    if (due(&t->fail_write)) {
        file_write(f, at, all.at, random_below(&t->random, all.len + 1));
        return err_note_set(note, t->fail_write_code, "%s: a write that fails", f->name);
    }
    size_t room = write_room(t, f, at, all.len);
    file_write(f, at, all.at, room);
    return room == all.len ? 0 : err_note_set(note, -ERR_NO_SPACE, "%s: the disk is full", f->name);
}

static int do_sync(struct files_torn *t, int file, struct err_note *note)
{
    struct file *f = t->handles[file];
    bool was_stopped = t->stopped;
    t->figures.syncs++;
    if (change_stops(t)) {
        static const unsigned percents[] = {0, 50, 100};
        if (!was_stopped)
            file_sync(t, f, percents[random_below(&t->random, 3)]);
        return stopped_note(note);
    }
    if (due(&t->fail_sync)) {
        file_sync(t, f, 50);
        return err_note_set(note, t->fail_sync_code, "%s: a sync that fails", f->name);
    }
    file_sync(t, f, 100);
    return 0;
}

static int do_sync_names(struct files_torn *t, struct err_note *note)
{
    if (change_stops(t))
        return stopped_note(note);
    for (struct file *f = t->list; f; f = f->next)
        f->durable = f->seen;
    files_sweep(t);
    return 0;
}

static int do_remove(struct files_torn *t, const char *name, struct err_note *note)
{
    struct file *f = file_find(t, name);
    bool was_stopped = t->stopped;
    if (change_stops(t)) {
        if (f && !was_stopped && random_chance(&t->random, 50))
            f->seen = false;
        return stopped_note(note);
    }
    if (!f)
        return err_note_set(note, -ERR_IO, "%s: is not there", name);
    f->seen = false;
    files_sweep(t);
    return 0;
}

/* ---- files_ops ---- */

static int torn_list(struct files *fs, files_name_fn fn, void *ctx, struct err_note *note)
{
    struct files_torn *t = torn_of(fs);
    if (t->stopped)
        return stopped_note(note);
    for (const struct file *f = t->list; f; f = f->next)
        if (f->seen)
            fn(ctx, f->name, f->now.size);
    return 0;
}

static int torn_open(struct files *fs, const char *name, bool make, int *ret, struct err_note *note)
{
    struct files_torn *t = torn_of(fs);
    pthread_mutex_lock(&t->lock);
    int rc = do_open(t, name, make, ret, note);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

static int torn_read(struct files *fs, int file, uint64_t at, void *into, size_t len, size_t *ret,
                     struct err_note *note)
{
    struct files_torn *t = torn_of(fs);
    pthread_mutex_lock(&t->lock);
    const struct file *f = t->handles[file];
    size_t left = at < f->now.size ? f->now.size - (size_t)at : 0;
    *ret = len < left ? len : left;
    if (*ret > 0)
        memcpy(into, f->now.bytes + at, *ret);
    int rc = t->stopped ? stopped_note(note) : 0;
    pthread_mutex_unlock(&t->lock);
    return rc;
}

static int torn_write(struct files *fs, int file, uint64_t at, const struct span *parts,
                      size_t count, struct err_note *note)
{
    struct files_torn *t = torn_of(fs);
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += parts[i].len;
    char *all = malloc(len ? len : 1);
    CHECK(all);
    len = 0;
    for (size_t i = 0; i < count; len += parts[i++].len)
        if (parts[i].len > 0)
            memcpy(all + len, parts[i].at, parts[i].len);
    pthread_mutex_lock(&t->lock);
    int rc = do_write(t, file, (size_t)at, span_of(all, len), note);
    pthread_mutex_unlock(&t->lock);
    free(all);
    return rc;
}

static int torn_sync(struct files *fs, int file, struct err_note *note)
{
    struct files_torn *t = torn_of(fs);
    pthread_mutex_lock(&t->lock);
    int rc = do_sync(t, file, note);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

static int torn_sync_names(struct files *fs, struct err_note *note)
{
    struct files_torn *t = torn_of(fs);
    pthread_mutex_lock(&t->lock);
    int rc = do_sync_names(t, note);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

static int torn_remove(struct files *fs, const char *name, struct err_note *note)
{
    struct files_torn *t = torn_of(fs);
    pthread_mutex_lock(&t->lock);
    int rc = do_remove(t, name, note);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

static void torn_close(struct files *fs, int file)
{
    struct files_torn *t = torn_of(fs);
    pthread_mutex_lock(&t->lock);
    t->handles[file] = NULL;
    files_sweep(t);
    pthread_mutex_unlock(&t->lock);
}

static void torn_done(struct files *fs)
{
    struct files_torn *t = torn_of(fs);
    pthread_mutex_lock(&t->lock);
    memset(t->handles, 0, sizeof t->handles);
    files_sweep(t);
    pthread_mutex_unlock(&t->lock);
}

static const struct files_ops torn_ops = {
    .list = torn_list,
    .open = torn_open,
    .read = torn_read,
    .write = torn_write,
    .sync = torn_sync,
    .sync_names = torn_sync_names,
    .remove = torn_remove,
    .close = torn_close,
    .done = torn_done,
};

/* ---- the switch ---- */

/* How one crash treats what is not on the disk. */
struct mood {
    unsigned kept, garbled; /* percent */
};

static void sector_crash(struct files_torn *t, struct file *f, size_t i, struct mood mood)
{
    if (sector_same(&f->now, &f->disk, i))
        return;
    if (random_chance(&t->random, mood.garbled)) {
        for (size_t at = i * SECTOR; at < (i + 1) * SECTOR; at++)
            f->disk.bytes[at] = (char)random_next(&t->random);
        t->figures.garbled++;
    } else if (random_chance(&t->random, mood.kept)) {
        copy_sector(&f->disk, &f->now, i);
    }
}

static void file_crash(struct files_torn *t, struct file *f, struct mood mood)
{
    if (f->now.size != f->disk.size && random_chance(&t->random, mood.kept)) {
        int64_t a = (int64_t)f->disk.size, b = (int64_t)f->now.size;
        bool whole = random_chance(&t->random, 50);
        copy_resize(&f->disk,
                    whole ? f->now.size
                          : (size_t)random_between(&t->random, a < b ? a : b, a < b ? b : a));
    }
    for (size_t i = 0; i < sectors(f->disk.size); i++)
        sector_crash(t, f, i, mood);
    file_resize(f, f->disk.size);
    if (f->disk.size > 0)
        memcpy(f->now.bytes, f->disk.bytes, f->disk.size);
    if (f->dirty)
        memset(f->dirty, 0, f->dirty_bytes);
}

/* Only one file can have a name: the one that comes back takes it from the newer. */
static void names_crash(struct files_torn *t, struct mood mood)
{
    for (struct file *f = t->list; f; f = f->next) {
        if (f->durable && !f->seen && !random_chance(&t->random, mood.kept)) {
            struct file *newer = file_find(t, f->name);
            if (newer)
                newer->seen = newer->durable = false;
            f->seen = true;
        } else if (f->seen && !f->durable) {
            f->seen = random_chance(&t->random, mood.kept) != 0;
        }
        f->durable = f->seen;
    }
}

static void restart(struct files_torn *t)
{
    memset(t->handles, 0, sizeof t->handles);
    t->stopped = false;
    t->stop = t->fail_write = t->fail_sync = 0;
    files_sweep(t);
}

void files_torn_crash(struct files_torn *t)
{
    static const struct mood moods[] = {{0, 0}, {100, 0}, {50, 0}, {50, 10}, {90, 2}, {10, 2}};
    struct mood mood = moods[random_below(&t->random, sizeof moods / sizeof *moods)];
    pthread_mutex_lock(&t->lock);
    t->figures.crashes++;
    for (struct file *f = t->list; f; f = f->next)
        file_crash(t, f, mood);
    names_crash(t, mood);
    restart(t);
    pthread_mutex_unlock(&t->lock);
}

void files_torn_kill(struct files_torn *t)
{
    pthread_mutex_lock(&t->lock);
    restart(t);
    pthread_mutex_unlock(&t->lock);
}

/* ---- making, steering, damage by hand ---- */

struct files_torn *files_torn_new(uint64_t seed)
{
    struct files_torn *t = calloc(1, sizeof *t);
    CHECK(t && pthread_mutex_init(&t->lock, NULL) == 0);
    t->files.ops = &torn_ops;
    random_seed(&t->random, seed);
    return t;
}

void files_torn_free(struct files_torn *t)
{
    if (!t)
        return;
    while (t->list) {
        struct file *next = t->list->next;
        file_free(t->list);
        t->list = next;
    }
    pthread_mutex_destroy(&t->lock);
    free(t);
}

struct files *files_torn_files(struct files_torn *t)
{
    return &t->files;
}

void files_torn_stop(struct files_torn *t, unsigned nth)
{
    t->stop = nth;
}

bool files_torn_stopped(const struct files_torn *t)
{
    return t->stopped;
}

void files_torn_fail_write(struct files_torn *t, unsigned nth, int code)
{
    t->fail_write = nth;
    t->fail_write_code = code;
}

void files_torn_fail_sync(struct files_torn *t, unsigned nth, int code)
{
    t->fail_sync = nth;
    t->fail_sync_code = code;
}

void files_torn_capacity(struct files_torn *t, uint64_t bytes)
{
    t->capacity = bytes;
}

void files_torn_put(struct files_torn *t, const char *name, struct span content)
{
    files_torn_drop(t, name);
    struct file *f = file_new(t, name);
    f->durable = true;
    file_write(f, 0, content.at, content.len);
    file_sync(t, f, 100);
}

void files_torn_drop(struct files_torn *t, const char *name)
{
    struct file *f = file_find(t, name);
    if (f)
        f->seen = f->durable = false;
    files_sweep(t);
}

void files_torn_cut(struct files_torn *t, const char *name, uint64_t size)
{
    struct file *f = file_find(t, name);
    CHECK(f && size <= f->now.size);
    file_resize(f, (size_t)size);
    copy_resize(&f->disk, (size_t)size);
}

struct span files_torn_content(struct files_torn *t, const char *name)
{
    struct file *f = file_find(t, name);
    return f ? span_of(f->now.bytes, f->now.size) : span_of(NULL, 0);
}

void files_torn_poke(struct files_torn *t, const char *name, uint64_t at, struct span bytes)
{
    struct file *f = file_find(t, name);
    CHECK(f && at + bytes.len <= f->now.size && at + bytes.len <= f->disk.size);
    memcpy(f->now.bytes + at, bytes.at, bytes.len);
    memcpy(f->disk.bytes + at, bytes.at, bytes.len);
}

struct files_torn_figures files_torn_figures(const struct files_torn *t)
{
    return t->figures;
}
