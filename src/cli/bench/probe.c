/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/clock.h"

#define BLOCK 4096
#define BLOCKS 1024 /* written in advance, so that no sync has to extend the file */

static int io_failed(struct err_note *note, const char *dir, const char *what)
{
    return err_note_set(note, -ERR_IO, "cannot %s a file in '%.200s': %s", what, dir,
                        strerror(errno));
}

/* Writes one block and syncs, repeatedly until the time is over. */
static int rounds(int fd, int64_t ms, double *ret)
{
    static const char block[BLOCK];
    uint64_t start = clock_ns(), now = start, end = start + (uint64_t)ms * 1000000;
    uint64_t count = 0;
    for (; now < end; count++, now = clock_ns()) {
        off_t at = (off_t)(count % BLOCKS) * BLOCK;
        if (pwrite(fd, block, BLOCK, at) != BLOCK || fdatasync(fd) < 0)
            return -ERR_IO;
    }
    *ret = (double)count * 1e9 / (double)(now - start);
    return 0;
}

static int prepare(int fd)
{
    static const char block[BLOCK];
    for (int i = 0; i < BLOCKS; i++) {
        if (write(fd, block, BLOCK) != BLOCK)
            return -ERR_IO;
    }
    return fsync(fd) < 0 ? -ERR_IO : 0;
}

int bench_probe_sync(const char *dir, int64_t ms, double *ret, struct err_note *note)
{
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/holdfast-sync-XXXXXX", dir);
    if (len < 0 || (size_t)len >= sizeof path)
        return err_note_set(note, -ERR_INVALID, "the name of the directory is too long");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return io_failed(note, dir, "make");
    (void)unlink(path);
    int rc = prepare(fd);
    if (rc == 0)
        rc = rounds(fd, ms, ret);
    if (rc < 0)
        io_failed(note, dir, "write and sync");
    (void)close(fd);
    return rc;
}

int bench_probe_cpu(int64_t pid, uint64_t *ret_ns, struct err_note *note)
{
    if (clock_cpu_ns(pid, ret_ns) == 0)
        return 0;
    return err_note_set(note, -ERR_NOT_FOUND, "there is no process %" PRId64 " to measure", pid);
}
