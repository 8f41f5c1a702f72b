/* SPDX-License-Identifier: Apache-2.0 */
/* files.h on a real directory. */
#include "backend/local/journal/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "backend/local/store/store_dir.h"
#include "base/mem.h"

#define PARTS_AT_ONCE 512 /* of one pwritev; below IOV_MAX */

struct dir {
    struct files files;
    int fd;
    bool read_only;
    char *path; /* for notes */
};

static struct dir *dir_of(struct files *fs)
{
    return (struct dir *)fs; /* its first member */
}

static int code_of(int error)
{
    if (error == ENOSPC || error == EDQUOT)
        return -ERR_NO_SPACE;
    return error == EMFILE || error == ENFILE || error == ENOMEM ? -ERR_NOMEM : -ERR_IO;
}

/* errno after opening, making or removing something. */
static int change_note(const struct dir *d, const char *doing, const char *name,
                       struct err_note *note)
{
    char path[PATH_MAX];
    int error = errno;
    snprintf(path, sizeof path, "%s/%s", d->path, name);
    if (error == ELOOP)
        return store_link_refuse(path, note);
    return err_note_set(note, code_of(error), "cannot %s %s: %s", doing, path, strerror(error));
}

/* As above where only the handle is known. */
static int file_note(const struct dir *d, const char *doing, int file, int code,
                     struct err_note *note)
{
    int error = errno;
    char link[64], target[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t len = readlink(link, target, sizeof target - 1);
    if (len > 0)
        target[len] = '\0';
    return err_note_set(note, code, "cannot %s %s: %s", doing, len > 0 ? target : d->path,
                        strerror(error));
}

/* ---- names ---- */

static int entry_tell(const struct dir *d, const char *name, files_name_fn fn, void *ctx,
                      struct err_note *note)
{
    struct stat st;
    if (fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return err_note_set(note, -ERR_IO, "cannot look at %s/%s: %s", d->path, name,
                            strerror(errno));
    /* A link in the place of a file must not look as if that file were missing: opening it says
     * what it is. */
    if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
        fn(ctx, name, (uint64_t)st.st_size);
    return 0;
}

static int dir_list(struct files *fs, files_name_fn fn, void *ctx, struct err_note *note)
{
    struct dir *d = dir_of(fs);
    int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list) {
        int rc = err_note_set(note, -ERR_IO, "cannot list %s: %s", d->path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = 0;
    struct dirent *e;
    while (rc == 0 && (errno = 0, e = readdir(list)) != NULL)
        if (e->d_name[0] != '.')
            rc = entry_tell(d, e->d_name, fn, ctx, note);
    if (rc == 0 && errno != 0)
        rc = err_note_set(note, -ERR_IO, "cannot list %s: %s", d->path, strerror(errno));
    closedir(list);
    return rc;
}

static int dir_open(struct files *fs, const char *name, bool make, int *ret, struct err_note *note)
{
    struct dir *d = dir_of(fs);
    int flags = O_CLOEXEC | O_NOFOLLOW | (d->read_only ? O_RDONLY : O_RDWR);
    int fd;
    do {
        fd = openat(d->fd, name, flags | (make ? O_CREAT | O_EXCL : 0), 0600);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return change_note(d, make ? "make" : "open", name, note);
    *ret = fd;
    return 0;
}

static int dir_remove(struct files *fs, const char *name, struct err_note *note)
{
    struct dir *d = dir_of(fs);
    return unlinkat(d->fd, name, 0) == 0 ? 0 : change_note(d, "remove", name, note);
}

static int dir_sync_names(struct files *fs, struct err_note *note)
{
    struct dir *d = dir_of(fs);
    return fsync(d->fd) == 0 ? 0
                             : err_note_set(note, -ERR_IO, "cannot sync the directory %s: %s",
                                            d->path, strerror(errno));
}

/* ---- bytes ---- */

static int dir_read(struct files *fs, int file, uint64_t at, void *into, size_t len, size_t *ret,
                    struct err_note *note)
{
    size_t have = 0;
    while (have < len) {
        ssize_t n = pread(file, (char *)into + have, len - have, (off_t)(at + have));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return file_note(dir_of(fs), "read", file, -ERR_IO, note);
        if (n == 0)
            break;
        have += (size_t)n;
    }
    *ret = have;
    return 0;
}

/* What is left of the parts: `skip` bytes of the first of them are written. */
struct rest {
    const struct span *parts;
    size_t count, skip;
};

static int rest_vector(const struct rest *r, struct iovec *v)
{
    int n = 0;
    for (size_t i = 0; i < r->count && n < PARTS_AT_ONCE; i++) {
        size_t skip = i == 0 ? r->skip : 0;
        if (r->parts[i].len > skip)
            v[n++] = (struct iovec){(char *)r->parts[i].at + skip, r->parts[i].len - skip};
    }
    return n;
}

static void rest_advance(struct rest *r, size_t written)
{
    while (r->count > 0 && r->parts->len - r->skip <= written) {
        written -= r->parts->len - r->skip;
        r->parts++;
        r->count--;
        r->skip = 0;
    }
    r->skip += written;
}

static int dir_write(struct files *fs, int file, uint64_t at, const struct span *parts,
                     size_t count, struct err_note *note)
{
    struct rest rest = {parts, count, 0};
    struct iovec v[PARTS_AT_ONCE];
    int n;
    rest_advance(&rest, 0); /* past empty parts */
    while ((n = rest_vector(&rest, v)) > 0) {
        ssize_t written = pwritev(file, v, n, (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written == 0)
            errno = EIO; /* there was something to write */
        if (written <= 0)
            return file_note(dir_of(fs), "write", file,
                             errno == ENOSPC || errno == EDQUOT ? -ERR_NO_SPACE : -ERR_IO, note);
        at += (uint64_t)written;
        rest_advance(&rest, (size_t)written);
    }
    return 0;
}

/* Not repeated whatever the error: after a failed sync, the state of the pages is unknown. */
static int dir_sync(struct files *fs, int file, struct err_note *note)
{
    return fdatasync(file) == 0 ? 0 : file_note(dir_of(fs), "sync", file, -ERR_IO, note);
}

static void dir_close(struct files *fs, int file)
{
    (void)fs;
    close(file);
}

static void dir_done(struct files *fs)
{
    struct dir *d = dir_of(fs);
    if (d->fd >= 0)
        close(d->fd);
    mem_free(d->path);
    mem_free(d);
}

static const struct files_ops dir_ops = {
    .list = dir_list,
    .open = dir_open,
    .read = dir_read,
    .write = dir_write,
    .sync = dir_sync,
    .sync_names = dir_sync_names,
    .remove = dir_remove,
    .close = dir_close,
    .done = dir_done,
};

/* The name of a directory that was just made must survive, too. */
static int parent_sync(const struct dir *d, struct err_note *note)
{
    int parent = openat(d->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = parent >= 0 && fsync(parent) == 0
                 ? 0
                 : err_note_set(note, -ERR_IO, "cannot sync the directory above %s: %s", d->path,
                                strerror(errno));
    if (parent >= 0)
        close(parent);
    return rc;
}

/* Does not change errno. */
static bool is_link(const char *path)
{
    struct stat st;
    int error = errno;
    bool link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    errno = error;
    return link;
}

static int directory_open(struct dir *d, bool make, struct err_note *note)
{
    bool made = make && mkdir(d->path, 0700) == 0;
    if (make && !made && errno != EEXIST)
        return err_note_set(note, errno == ENOSPC || errno == EDQUOT ? -ERR_NO_SPACE : -ERR_IO,
                            "cannot create the directory %s: %s", d->path, strerror(errno));
    d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (d->fd < 0 && errno == ENOENT)
        return err_note_set(note, -ERR_NOT_FOUND, "there is no directory %s", d->path);
    if (d->fd < 0 && is_link(d->path))
        return store_link_refuse(d->path, note);
    if (d->fd < 0)
        return err_note_set(note, -ERR_IO, "cannot open the directory %s: %s", d->path,
                            strerror(errno));
    return made ? parent_sync(d, note) : 0;
}

int files_open_dir(const char *path, bool make, bool read_only, struct files **ret,
                   struct err_note *note)
{
    struct dir *d = mem_zalloc(sizeof *d);
    if (!d)
        return err_note_set(note, -ERR_NOMEM, "cannot open %s: out of memory", path);
    d->files.ops = &dir_ops;
    d->fd = -1;
    d->read_only = read_only;
    d->path = mem_text(path, strlen(path));
    int rc = d->path ? directory_open(d, make && !read_only, note)
                     : err_note_set(note, -ERR_NOMEM, "cannot open %s: out of memory", path);
    if (rc != 0) {
        dir_done(&d->files);
        return rc;
    }
    *ret = &d->files;
    return 0;
}
