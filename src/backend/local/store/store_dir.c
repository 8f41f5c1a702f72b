/* SPDX-License-Identifier: Apache-2.0 */
/* The lock is flock on DIR/lock: the kernel releases it when the process ends for any reason. The
 * file stays; the process id in it is only for the message that another process prints. */
#include "backend/local/store/store_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/local/journal/key.h"
#include "base/buf.h"
#include "base/mem.h"

static int io_note(struct err_note *note, const char *doing, const char *path)
{
    int code = errno == ENOSPC || errno == EDQUOT ? -ERR_NO_SPACE : -ERR_IO;
    return err_note_set(note, code, "%s %s: %s", doing, path, strerror(errno));
}

/* The paths are built once, so that no memory is needed when something fails. */
static int paths_build(struct store_dir *d, const char *path)
{
    struct buf b;
    buf_init(&b);
    int rc = buf_printf(&b, "%s/holdfast.db", path);
    if (rc == 0) {
        d->path = mem_text(path, strlen(path));
        d->db_path = mem_text(b.data, b.len);
        rc = d->path && d->db_path ? 0 : -ERR_NOMEM;
    }
    buf_done(&b);
    return rc;
}

/* The name of a new directory must survive, too: its parent is synced. */
static int parent_sync(int fd, const char *path, struct err_note *note)
{
    int parent = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return io_note(note, "cannot open the directory above", path);
    int rc = fsync(parent) == 0 ? 0 : io_note(note, "cannot sync the directory above", path);
    close(parent);
    return rc;
}

static int directory_open(struct store_dir *d, bool create, struct err_note *note)
{
    d->created = create && mkdir(d->path, 0700) == 0;
    if (create && !d->created && errno != EEXIST)
        return io_note(note, "cannot create the directory", d->path);
    d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0 && errno == ENOENT)
        return err_note_set(note, -ERR_NOT_FOUND, "the directory %s does not exist", d->path);
    if (d->fd < 0)
        return io_note(note, "cannot open the directory", d->path);
    return d->created ? parent_sync(d->fd, d->path, note) : 0;
}

static int locked_note(const struct store_dir *d, struct err_note *note)
{
    char pid[24] = "";
    ssize_t n = pread(d->lock_fd, pid, sizeof pid - 1, 0);
    size_t digits = n > 0 ? strspn(pid, "0123456789") : 0;
    pid[digits] = '\0';
    return err_note_set(note, -ERR_LOCKED,
                        "%s is in use by another holdfast process%s%s%s; stop it or choose another "
                        "--data directory",
                        d->path, digits ? " (pid " : "", pid, digits ? ")" : "");
}

/* What is written to the lock file must not end up in another file, and opening it must not block,
 * so symbolic links and pipes are refused. */
static int lock_open(struct store_dir *d, int flags, struct err_note *note)
{
    struct stat st;
    d->lock_fd = openat(d->fd, "lock", flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    bool opened = d->lock_fd >= 0;
    if (opened ? fstat(d->lock_fd, &st) == 0 && !S_ISREG(st.st_mode) : errno == ELOOP)
        return err_note_set(note, -ERR_IO,
                            "%s/lock is %s; Holdfast only uses a regular file: remove it", d->path,
                            opened ? "not a regular file" : "a symbolic link");
    if (!opened)
        return errno == ENOENT ? -ERR_NOT_FOUND
                               : io_note(note, "cannot open the lock file in", d->path);
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? locked_note(d, note)
                                    : io_note(note, "cannot lock the directory", d->path);
    return 0;
}

static int lock_take(struct store_dir *d, struct err_note *note)
{
    int rc = lock_open(d, O_RDWR | O_CREAT, note);
    if (rc != 0)
        return rc == -ERR_NOT_FOUND ? io_note(note, "cannot open the lock file in", d->path) : rc;
    char pid[24];
    int len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    /* Only for the message of the next process: a full disk must not prevent the server from
     * starting. */
    if (ftruncate(d->lock_fd, 0) == 0 && pwrite(d->lock_fd, pid, (size_t)len, 0) != len)
        (void)!ftruncate(d->lock_fd, 0);
    return 0;
}

int store_dir_open(const char *path, bool create, struct store_dir *ret, struct err_note *note)
{
    struct store_dir d = STORE_DIR_NONE;
    int rc = paths_build(&d, path);
    if (rc != 0)
        (void)err_note_set(note, rc, "cannot open %s: %s", path, err_text(rc));
    if (rc == 0)
        rc = directory_open(&d, create, note);
    if (rc == 0)
        rc = lock_take(&d, note);
    if (rc != 0)
        store_dir_close(&d);
    else
        *ret = d;
    return rc;
}

int store_dir_open_read(const char *path, struct store_dir *ret, struct err_note *note)
{
    struct store_dir d = STORE_DIR_NONE;
    int rc = paths_build(&d, path);
    if (rc != 0)
        (void)err_note_set(note, rc, "cannot open %s: %s", path, err_text(rc));
    if (rc == 0)
        rc = directory_open(&d, false, note);
    if (rc == 0) {
        rc = lock_open(&d, O_RDONLY, note);
        rc = rc == -ERR_NOT_FOUND ? 0 : rc;
    }
    if (rc != 0)
        store_dir_close(&d);
    else
        *ret = d;
    return rc;
}

void store_dir_close(struct store_dir *d)
{
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    if (d->fd >= 0)
        close(d->fd);
    mem_free(d->path);
    mem_free(d->db_path);
    *d = STORE_DIR_NONE;
}

/* The lock is held meanwhile: a process that starts now is refused, and one that starts later finds
 * no directory. */
void store_dir_uncreate(struct store_dir *d)
{
    if (d->created && unlinkat(d->fd, "lock", 0) == 0)
        (void)rmdir(d->path);
    store_dir_close(d);
}

int store_dir_sync(const struct store_dir *d, struct err_note *note)
{
    return fsync(d->fd) == 0 ? 0 : io_note(note, "cannot sync the directory", d->path);
}

/* ---- links ---- */

int store_link_refuse(const char *path, struct err_note *note)
{
    return err_note_set(note, -ERR_IO,
                        "cannot open %s: it is a symbolic link; put the file or directory itself "
                        "there (the data directory may be a link)",
                        path);
}

/* ---- the journal ---- */

/* The names of segments are numbers. */
static bool is_journal_file(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    return strcmp(name, JOURNAL_KEY_NAME) == 0 || (digits > 0 && name[digits] == '\0');
}

bool store_dir_journaled(const char *path)
{
    char name[PATH_MAX + sizeof "/journal"];
    const struct dirent *entry;
    bool found = false;
    snprintf(name, sizeof name, "%s/journal", path);
    DIR *d = opendir(name);
    while (d && !found && (entry = readdir(d)) != NULL)
        found = is_journal_file(entry->d_name);
    if (d)
        closedir(d);
    return found;
}

int store_dir_lost(const char *path, struct err_note *note)
{
    return err_note_set(
        note, -ERR_CORRUPT,
        "%s/holdfast.db is missing, but its journal is there: put the file back, or "
        "restore the newest backup into another directory; to start with an empty "
        "store, move %s/journal away",
        path, path);
}
