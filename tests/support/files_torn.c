/* SPDX-License-Identifier: Apache-2.0 */
/* See files_torn.h. The operations of a process on the disk, and those of a test on both. */
#include "support/files_torn.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "support/files_torn_impl.h"

static struct files_torn *torn_of(struct files *fs)
{
    return (struct files_torn *)fs; /* its first member */
}

/* ---- stops and failures ---- */

static int stopped_note(struct err_note *note)
{
    return err_note_set(note, -ERR_IO, "the power is gone");
}

/* Counts a change. Returns true if everything stops at this one. */
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

/* How many bytes of a write fit before the disk is full. */
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

static void restart(struct files_torn *t)
{
    memset(t->handles, 0, sizeof t->handles);
    t->stopped = false;
    t->stop = t->fail_write = t->fail_sync = 0;
    files_sweep(t);
}

void files_torn_crash(struct files_torn *t)
{
    pthread_mutex_lock(&t->lock);
    t->figures.crashes++;
    torn_disk_crash(t);
    restart(t);
    pthread_mutex_unlock(&t->lock);
}

void files_torn_kill(struct files_torn *t)
{
    pthread_mutex_lock(&t->lock);
    restart(t);
    pthread_mutex_unlock(&t->lock);
}

/* ---- creation, control, damage ---- */

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
