/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server: while the file named by HF_FULL_DISK exists, its disk is full; while the
 * one named by HF_SMALL_DISK does, its disk says that 65 MiB of 100 GiB are free. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at);
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at);

static int is_set(const char *variable)
{
    const char *name = getenv(variable);
    return name && access(name, F_OK) == 0;
}

static int is_full(void)
{
    if (!is_set("HF_FULL_DISK"))
        return 0;
    errno = ENOSPC;
    return 1;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at)
{
    ssize_t (*next)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    return is_full() ? -1 : next(fd, bytes, count, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    return pwrite64(fd, bytes, count, at);
}

int statvfs64(const char *restrict path, struct statvfs64 *restrict fs)
{
    int (*next)(const char *, struct statvfs64 *) = dlsym(RTLD_NEXT, "statvfs64");
    int rc = next(path, fs);
    if (rc == 0 && is_set("HF_SMALL_DISK")) {
        fs->f_blocks = (100ul << 30) / fs->f_frsize;
        fs->f_bavail = (65ul << 20) / fs->f_frsize;
    }
    return rc;
}

/* The two are one where a word has 64 bits; which is called depends on what the server was built
 * with. */
int statvfs(const char *restrict path, struct statvfs *restrict fs)
{
    return statvfs64(path, (struct statvfs64 *)fs);
}
