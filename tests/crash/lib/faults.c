/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server: the nth call of a kind fails. HF_FAULTS names a file that is mapped here
 * (struct control), so that a test arms a fault, also while the server runs, and reads whether it
 * happened. Syncs, writes and opens count only for files below the directory HF_FAULTS_DIR;
 * descriptors and memory count wherever they are asked for. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Numbers and layout are those of faults.mjs. */
enum call {
    CALL_NONE,
    CALL_SYNC,
    CALL_WRITE,
    CALL_OPEN,
    CALL_DESCRIPTOR,
    CALL_MEMORY,     /* of anyone */
    CALL_OWN_MEMORY, /* of the program, not of a library */
};
enum fault { FAULT_LIE = -1, FAULT_SHORT = -2 }; /* else an errno */

struct control {
    _Atomic uint32_t call;
    _Atomic int32_t fault;
    _Atomic uint64_t nth;   /* 1 = the next call */
    _Atomic uint64_t every; /* 0 = once; else again after this many more */
    _Atomic uint64_t passed;
    _Atomic uint64_t fired;
    _Atomic uint64_t fired_ms; /* wall time of the first */
    char what[200];            /* the function of the first, and the file */
    _Atomic uint32_t deciding; /* calls that may have read `call` before it was changed */
};

#define FDS_MAX 65536
static struct control *control;
static char directory[4096];
static size_t directory_len;
static _Atomic uint8_t below[FDS_MAX]; /* the descriptor is of a file below the directory */

#define NEXT(name)                                                                                 \
    ({                                                                                             \
        static _Atomic(void *) found;                                                              \
        if (!found)                                                                                \
            found = dlsym(RTLD_NEXT, #name);                                                       \
        (__typeof__(&name))(void *)found;                                                          \
    })

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("HF_FAULTS");
    const char *dir = getenv("HF_FAULTS_DIR");
    int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0 || !dir) {
        fprintf(stderr, "faults: HF_FAULTS and HF_FAULTS_DIR must be set\n");
        _exit(125);
    }
    directory_len = strlen(dir);
    if (directory_len < sizeof directory)
        memcpy(directory, dir, directory_len + 1);
    void *at = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED || directory_len >= sizeof directory)
        _exit(125);
    control = at;
}

/* path: of the file, or NULL, then that of fd (-1 = none). `fired` is counted last: who sees it,
 * sees the rest. */
static void note_fired(const char *name, int fd, const char *path)
{
    char link[64], found[160];
    struct timespec t;
    if (control->fired == 0) {
        clock_gettime(CLOCK_REALTIME, &t);
        control->fired_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = path || fd < 0 ? 0 : readlink(link, found, sizeof found - 1);
        found[n > 0 ? n : 0] = 0;
        snprintf(control->what, sizeof control->what, "%s %s", name, path ? path : found);
    }
    atomic_fetch_add(&control->fired, 1);
}

/* Counts a call; true when it is one that must fail. */
static int counted(enum call call, const char *name, int fd, const char *path)
{
    if (control->call != call)
        return 0;
    uint64_t n = atomic_fetch_add(&control->passed, 1) + 1;
    uint64_t nth = control->nth, every = control->every;
    if (n < nth || (n > nth && (every == 0 || (n - nth) % every != 0)))
        return 0;
    note_fired(name, fd, path);
    return 1;
}

/* counted, in a way that lets a test wait until no call can fail any more. */
static int due(enum call call, const char *name, int fd, const char *path)
{
    if (!control || control->call != call)
        return 0;
    atomic_fetch_add(&control->deciding, 1);
    int fails = counted(call, name, fd, path);
    atomic_fetch_sub(&control->deciding, 1);
    return fails;
}

/* due, with errno set. */
static int refused(enum call call, const char *name, int fd, const char *path)
{
    if (!due(call, name, fd, path))
        return 0;
    errno = control->fault;
    return 1;
}

static int is_below(int fd)
{
    return fd >= 0 && fd < FDS_MAX && below[fd];
}

/* ---- files: which are below the directory ---- */

static int opened(int fd)
{
    char link[64], path[sizeof directory + 1];
    int saved = errno;
    if (fd < 0 || fd >= FDS_MAX)
        return fd;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    below[fd] = n >= (ssize_t)directory_len && memcmp(path, directory, directory_len) == 0;
    errno = saved;
    return fd;
}

/* An open that fails has no descriptor to look at: its name tells, be it relative to a directory.
 */
static int open_refused(int at, const char *path)
{
    int inside = path[0] == '/' ? strncmp(path, directory, directory_len) == 0 : is_below(at);
    return inside && refused(CALL_OPEN, "open", -1, path);
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = mode_of(flags, args);                                                        \
        va_end(args);                                                                              \
        return open_refused(-1, path) ? -1 : opened(NEXT(name)(path, flags, mode));                \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
    int name(int at, const char *path, int flags, ...)                                             \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = mode_of(flags, args);                                                        \
        va_end(args);                                                                              \
        return open_refused(at, path) ? -1 : opened(NEXT(name)(at, path, flags, mode));            \
    }
OPENAT(openat)
OPENAT(openat64)

/* What fortified callers use when they give no mode. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int at, const char *path, int flags);
int __openat64_2(int at, const char *path, int flags);
int __open_2(const char *path, int flags)
{
    return open(path, flags);
}
int __open64_2(const char *path, int flags)
{
    return open64(path, flags);
}
int __openat_2(int at, const char *path, int flags)
{
    return openat(at, path, flags);
}
int __openat64_2(int at, const char *path, int flags)
{
    return openat64(at, path, flags);
}

int close(int fd)
{
    if (fd >= 0 && fd < FDS_MAX)
        below[fd] = 0;
    return NEXT(close)(fd);
}

/* ---- files: syncs and writes ---- */

static int sync_lies(void)
{
    return control->fault == FAULT_LIE;
}

#define SYNC(name, parameters, ...)                                                                \
    int name parameters                                                                            \
    {                                                                                              \
        if (!is_below(fd) || !due(CALL_SYNC, #name, fd, NULL))                                     \
            return NEXT(name)(__VA_ARGS__);                                                        \
        if (sync_lies())                                                                           \
            return 0;                                                                              \
        errno = control->fault;                                                                    \
        return -1;                                                                                 \
    }
SYNC(fsync, (int fd), fd)
SYNC(fdatasync, (int fd), fd)
SYNC(sync_file_range, (int fd, off64_t at, off64_t count, unsigned flags), fd, at, count, flags)

/* How much of a write may go on: all of it, half, or (-1, errno set) nothing. */
static ssize_t allowed(int fd, size_t count)
{
    if (!is_below(fd) || !due(CALL_WRITE, "write", fd, NULL))
        return (ssize_t)count;
    if (control->fault == FAULT_SHORT)
        return (ssize_t)(count > 1 ? count / 2 : count);
    errno = control->fault;
    return -1;
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    ssize_t n = allowed(fd, count);
    return n < 0 ? -1 : NEXT(write)(fd, bytes, (size_t)n);
}

#define PWRITE(name, offset)                                                                       \
    ssize_t name(int fd, const void *bytes, size_t count, offset at)                               \
    {                                                                                              \
        ssize_t n = allowed(fd, count);                                                            \
        return n < 0 ? -1 : NEXT(name)(fd, bytes, (size_t)n, at);                                  \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

/* A short vectored write ends inside its first part. */
static ssize_t first_half(int fd, const struct iovec *parts, int count, off64_t at)
{
    size_t half = count > 0 ? parts[0].iov_len / 2 : 0;
    if (half == 0)
        return NEXT(pwritev64)(fd, parts, count, at);
    return NEXT(pwrite64)(fd, parts[0].iov_base, half, at);
}

static ssize_t vector(int fd, const struct iovec *parts, int count, off64_t at)
{
    if (!is_below(fd) || !due(CALL_WRITE, "pwritev", fd, NULL))
        return NEXT(pwritev64)(fd, parts, count, at);
    if (control->fault == FAULT_SHORT)
        return first_half(fd, parts, count, at);
    errno = control->fault;
    return -1;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    return vector(fd, parts, count, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at)
{
    return vector(fd, parts, count, at);
}

/* Room asked for ahead; there is no half of that. */
static int room_refused(int fd)
{
    return is_below(fd) && control && control->fault != FAULT_SHORT &&
           refused(CALL_WRITE, "fallocate", fd, NULL);
}

#define FALLOCATE(name, offset)                                                                    \
    int name(int fd, int mode, offset at, offset count)                                            \
    {                                                                                              \
        return room_refused(fd) ? -1 : NEXT(name)(fd, mode, at, count);                            \
    }
FALLOCATE(fallocate, off_t)
FALLOCATE(fallocate64, off64_t)

#define POSIX_FALLOCATE(name, offset)                                                              \
    int name(int fd, offset at, offset count)                                                      \
    {                                                                                              \
        return room_refused(fd) ? errno : NEXT(name)(fd, at, count);                               \
    }
POSIX_FALLOCATE(posix_fallocate, off_t)
POSIX_FALLOCATE(posix_fallocate64, off64_t)

/* ---- descriptors ---- */

/* The C library closes some descriptors without a call of close(), such as that of a directory. A
 * new one with the same number must not be taken for the file that had it. */
#define DESCRIPTOR(name, parameters, ...)                                                          \
    int name parameters                                                                            \
    {                                                                                              \
        return refused(CALL_DESCRIPTOR, #name, -1, NULL) ? -1 : opened(NEXT(name)(__VA_ARGS__));   \
    }
DESCRIPTOR(socket, (int domain, int type, int protocol), domain, type, protocol)
DESCRIPTOR(accept4, (int fd, struct sockaddr *name, socklen_t *len, int flags), fd, name, len,
           flags)
DESCRIPTOR(eventfd, (unsigned value, int flags), value, flags)
DESCRIPTOR(epoll_create1, (int flags), flags)

#define DESCRIPTORS(name, parameters, ...)                                                         \
    int name parameters                                                                            \
    {                                                                                              \
        int rc = refused(CALL_DESCRIPTOR, #name, -1, NULL) ? -1 : NEXT(name)(__VA_ARGS__);         \
        for (int i = 0; i < 2 && rc == 0; i++)                                                     \
            opened(fds[i]);                                                                        \
        return rc;                                                                                 \
    }
DESCRIPTORS(pipe2, (int fds[2], int flags), fds, flags)
DESCRIPTORS(socketpair, (int domain, int type, int protocol, int fds[2]), domain, type, protocol,
            fds)

/* ---- memory: dlsym itself allocates, so the C library's own names are used ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* refused, for the allocation at `caller`: its library is noted. */
static int memory_refused(const char *name, const void *caller)
{
    Dl_info at;
    uint32_t call = control ? control->call : CALL_NONE;
    if (call != CALL_MEMORY && call != CALL_OWN_MEMORY)
        return 0;
    const char *file = dladdr(caller, &at) ? at.dli_fname : "";
    if (call == CALL_OWN_MEMORY && strstr(file, ".so"))
        return 0;
    return refused(call, name, -1, file);
}
#define NO_MEMORY(name) memory_refused(name, __builtin_return_address(0))

void *malloc(size_t size)
{
    return NO_MEMORY("malloc") ? NULL : __libc_malloc(size);
}
void *calloc(size_t count, size_t size)
{
    return NO_MEMORY("calloc") ? NULL : __libc_calloc(count, size);
}
void *realloc(void *old, size_t size)
{
    return NO_MEMORY("realloc") ? NULL : __libc_realloc(old, size);
}
int posix_memalign(void **ret, size_t alignment, size_t size)
{
    if (NO_MEMORY("posix_memalign"))
        return ENOMEM;
    void *block = __libc_memalign(alignment, size);
    if (!block)
        return ENOMEM;
    *ret = block;
    return 0;
}
