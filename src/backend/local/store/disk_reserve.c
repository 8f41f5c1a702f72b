/* SPDX-License-Identifier: Apache-2.0 */
/* See disk_reserve.h. The blocks are reserved with fallocate and never read. */
#include "backend/local/store/disk_reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

#define ROOM_FACTOR 4 /* the file is created again when this many times its size is free */

struct disk_reserve {
    char *path, *dir;
    uint64_t bytes;
    bool there;
    bool lacks_room; /* at the last attempt to create it */
};

static bool whole(const struct disk_reserve *b)
{
    struct stat st;
    return lstat(b->path, &st) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_blocks * 512 >= b->bytes;
}

uint64_t disk_reserve_room(const struct disk_reserve *b)
{
    struct statvfs st;
    if (!b || statvfs(b->dir, &st) != 0)
        return UINT64_MAX;
    return (uint64_t)st.f_bavail * st.f_frsize;
}

/* Returns 0 or a value of errno. */
static int create_file(const struct disk_reserve *b)
{
    int fd = open(b->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return errno;
    int error = posix_fallocate(fd, 0, (off_t)b->bytes);
    close(fd);
    if (error)
        (void)unlink(b->path);
    return error;
}

void disk_reserve_create(struct disk_reserve *b)
{
    if (!b || b->there)
        return;
    b->lacks_room = disk_reserve_room(b) < b->bytes * ROOM_FACTOR;
    if (b->lacks_room)
        return;
    int error = create_file(b);
    b->there = error == 0;
    b->lacks_room = error == ENOSPC || error == EDQUOT;
}

bool disk_reserve_lacks_room(const struct disk_reserve *b)
{
    return b && !b->there && b->lacks_room;
}

bool disk_reserve_remove(struct disk_reserve *b)
{
    if (!b || !b->there)
        return false;
    b->there = false;
    b->lacks_room = true;
    return unlink(b->path) == 0;
}

static char *path_in(const char *dir)
{
    struct buf path;
    buf_init(&path);
    char *text = NULL;
    if (buf_printf(&path, "%s/reserve", dir) == 0)
        text = mem_text(path.data, path.len);
    buf_done(&path);
    return text;
}

int disk_reserve_open(const char *dir, uint64_t bytes, struct disk_reserve **ret)
{
    struct disk_reserve *b = mem_zalloc(sizeof(*b));
    if (!b)
        return -ERR_NOMEM;
    b->bytes = bytes;
    b->dir = mem_text(dir, strlen(dir));
    b->path = path_in(dir);
    if (!b->dir || !b->path) {
        disk_reserve_close(b);
        return -ERR_NOMEM;
    }
    b->there = whole(b);
    *ret = b;
    return 0;
}

void disk_reserve_close(struct disk_reserve *b)
{
    if (!b)
        return;
    mem_free(b->dir);
    mem_free(b->path);
    mem_free(b);
}
