/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server: while the file named by HF_FULL_DISK exists, its disk is full. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at);
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at);

static int is_full(void)
{
    const char *name = getenv("HF_FULL_DISK");
    if (!name || access(name, F_OK) != 0)
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
