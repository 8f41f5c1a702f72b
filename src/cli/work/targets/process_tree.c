/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/targets/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROWS_MIN ((size_t)16384)
#define ENTRIES_BYTES 32768
#define START_FIELD 22 /* of /proc/PID/stat, counted from 1 */

struct process_row {
    pid_t pid;
    pid_t parent;
    uint64_t started; /* in clock ticks, see process_tree_now */
    bool descendant;
};

struct process_table {
    struct process_row *rows; /* by rising pid */
    size_t count, room;
};

/* What getdents64 writes; glibc has no name for it. */
struct directory_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

/* The length of the text, which is NUL-terminated; 0 or less: nothing was read. */
static ssize_t file_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    if (len > 0)
        text[len] = '\0';
    return len;
}

/* Reads the parent of a process and its start; a parent of 0: it has ended. */
static struct process_row row_read(pid_t pid)
{
    struct process_row row = {.pid = pid};
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (file_read(path, text, sizeof text) <= 0)
        return row;
    /* "PID (NAME) STATE PARENT …"; a name may contain any character, also parentheses. */
    const char *at = strrchr(text, ')');
    if (!at || strlen(at) <= 4)
        return row;
    row.parent = (pid_t)strtol(at + 4, NULL, 10);
    for (int field = 2; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    row.started = at ? strtoull(at, NULL, 10) : 0;
    return row;
}

static bool row_add(struct process_table *t, pid_t pid)
{
    if (t->count == t->room) {
        size_t room = t->room ? t->room * 2 : ROWS_MIN;
        void *rows = t->rows ? mremap(t->rows, t->room * sizeof *t->rows, room * sizeof *t->rows,
                                      MREMAP_MAYMOVE)
                             : mmap(NULL, room * sizeof *t->rows, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (rows == MAP_FAILED)
            return false;
        t->rows = rows;
        t->room = room;
    }
    struct process_row row = row_read(pid);
    if (row.parent > 0)
        t->rows[t->count++] = row;
    return true;
}

static bool table_read(struct process_table *t)
{
    char entries[ENTRIES_BYTES] __attribute__((aligned(8)));
    long len;
    bool good = true;
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (good && (len = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; good && at < len;) {
            const struct directory_entry *e = (const void *)(entries + at);
            pid_t pid = (pid_t)strtol(e->name, NULL, 10);
            if (pid > 0)
                good = row_add(t, pid);
            at += e->bytes;
        }
    }
    close(fd);
    return good;
}

static const struct process_row *row_find(const struct process_table *t, pid_t pid)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->rows[middle].pid == pid)
            return &t->rows[middle];
        if (t->rows[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* A child may have a smaller number than its parent, so the search is repeated until nothing is
 * added. */
static void descendants_mark(struct process_table *t)
{
    pid_t self = getpid();
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < t->count; i++) {
            struct process_row *row = &t->rows[i];
            const struct process_row *parent = row->descendant ? NULL : row_find(t, row->parent);
            if (row->descendant || (row->parent != self && !(parent && parent->descendant)))
                continue;
            row->descendant = more = true;
        }
    }
}

/* A child keeps its number until this process waits for it. The number of a deeper descendant
 * may belong to another process by now: the handle is opened first, and then the parent is
 * compared. */
static void row_signal(const struct process_row *row, int number)
{
    pid_t self = getpid();
    if (row->parent == self) {
        kill(row->pid, number);
        return;
    }
    int handle = (int)syscall(SYS_pidfd_open, row->pid, 0);
    if (handle < 0)
        return;
    pid_t parent = row_read(row->pid).parent;
    if (parent == row->parent || parent == self)
        (void)syscall(SYS_pidfd_send_signal, handle, number, NULL, 0);
    close(handle);
}

uint64_t process_tree_now(void)
{
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK), parts[2] = {0};
    char text[64];
    ssize_t len = file_read("/proc/uptime", text, sizeof text); /* "SECONDS.HUNDREDTHS …" */
    char *end;
    if (len <= 0)
        return 0;
    parts[0] = strtoull(text, &end, 10);
    if (*end == '.')
        parts[1] = strtoull(end + 1, NULL, 10);
    return parts[0] * ticks + parts[1] * ticks / 100;
}

void process_tree_signal(int signal, pid_t leader, uint64_t since)
{
    struct process_table t = {.rows = NULL};
    if (table_read(&t)) {
        descendants_mark(&t);
        for (size_t i = 0; i < t.count; i++) {
            if (t.rows[i].descendant && t.rows[i].started >= since)
                row_signal(&t.rows[i], signal);
        }
    } else if (leader > 0) {
        kill(-leader, signal);
    }
    if (t.rows)
        munmap(t.rows, t.room * sizeof *t.rows);
}
