/* SPDX-License-Identifier: Apache-2.0 */
/* Each file is stored twice: as processes see it and as it is on the disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "support/files_torn_impl.h"

#define SECTOR 512u

static size_t sectors(size_t size)
{
    return (size + SECTOR - 1) / SECTOR;
}

/* ---- copies ---- */

/* The capacity is always whole sectors, so that each sector can be copied as a whole. */
void copy_resize(struct copy *c, size_t size)
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

struct file *file_find(struct files_torn *t, const char *name)
{
    struct file *f = t->list;
    while (f && !(f->seen && strcmp(f->name, name) == 0))
        f = f->next;
    return f;
}

struct file *file_new(struct files_torn *t, const char *name)
{
    struct file *f = calloc(1, sizeof *f);
    CHECK(f && strlen(name) < NAME_BYTES);
    snprintf(f->name, sizeof f->name, "%s", name);
    f->seen = true;
    f->next = t->list;
    t->list = f;
    return f;
}

void file_free(struct file *f)
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

void files_sweep(struct files_torn *t)
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

void file_resize(struct file *f, size_t size)
{
    copy_resize(&f->now, size);
    if (sectors(size) > f->dirty_bytes) {
        f->dirty = realloc(f->dirty, sectors(size));
        CHECK(f->dirty);
        memset(f->dirty + f->dirty_bytes, 0, sectors(size) - f->dirty_bytes);
        f->dirty_bytes = sectors(size);
    }
}

void file_write(struct file *f, size_t at, const void *bytes, size_t len)
{
    if (len == 0)
        return;
    if (at + len > f->now.size)
        file_resize(f, at + len);
    memcpy(f->now.bytes + at, bytes, len);
    memset(f->dirty + at / SECTOR, 1, (at + len - 1) / SECTOR - at / SECTOR + 1);
}

void file_sync(struct files_torn *t, struct file *f, unsigned percent)
{
    if (percent == 100 || random_chance(&t->random, percent))
        copy_resize(&f->disk, f->now.size);
    for (size_t i = 0; i < sectors(f->now.size); i++) {
        if (f->dirty[i] && random_chance(&t->random, percent))
            copy_sector(&f->disk, &f->now, i);
        f->dirty[i] = 0;
    }
}

/* ---- the switch ---- */

/* What a crash does with sectors that are not on the disk. */
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

/* Only one file can have a name: a file that reappears takes it from the newer one. */
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

void torn_disk_crash(struct files_torn *t)
{
    static const struct mood moods[] = {{0, 0}, {100, 0}, {50, 0}, {50, 10}, {90, 2}, {10, 2}};
    struct mood mood = moods[random_below(&t->random, sizeof moods / sizeof *moods)];
    for (struct file *f = t->list; f; f = f->next)
        file_crash(t, f, mood);
    names_crash(t, mood);
}
