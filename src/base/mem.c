/* SPDX-License-Identifier: Apache-2.0 */
/* Checked allocation.
 *
 * Big blocks come from posix_memalign, so that free() takes them back, and are zeroed by handing
 * their pages back to the kernel: a table of a hundred megabytes costs nothing until it is touched,
 * which is what lets the maps grow without stopping the loop. */
#include "base/mem.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE_BYTES ((size_t)64)
#define PAGE_BYTES ((size_t)4096)
#define HUGE_BYTES ((size_t)2 << 20)
#define BLOCK_BYTES_MAX ((size_t)1 << 39) /* a caller that asks for more has miscalculated */
#define ZERO_BY_KERNEL                                                                             \
    ((size_t)128 << 10) /* from here on madvise is cheaper than writing zeros                      \
                         */

#ifdef HF_TEST_HOOKS
static _Thread_local struct {
    long calls;
    long fail_at; /* 0 = never */
    int lasting;
} hook;

void mem_fail_at(long nth, int lasting)
{
    hook.calls = 0;
    hook.fail_at = nth;
    hook.lasting = lasting;
}

long mem_calls(void)
{
    return hook.calls;
}

static int must_fail(void)
{
    hook.calls++;
    if (hook.fail_at == 0 || hook.calls < hook.fail_at)
        return 0;
    return hook.calls == hook.fail_at || hook.lasting;
}
#else
static int must_fail(void)
{
    return 0;
}
#endif

static int refused(size_t size)
{
    return must_fail() || size > BLOCK_BYTES_MAX;
}

/* malloc(0) may give NULL, which callers would take for a failure. */
static size_t at_least_one(size_t size)
{
    return size ? size : 1;
}

void *mem_alloc(size_t size)
{
    return refused(size) ? NULL : malloc(at_least_one(size));
}

void *mem_zalloc(size_t size)
{
    return refused(size) ? NULL : calloc(1, at_least_one(size));
}

void *mem_array(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return mem_zalloc(bytes);
}

void *mem_realloc(void *old, size_t size)
{
    return refused(size) ? NULL : realloc(old, at_least_one(size));
}

void *mem_regrow(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return mem_realloc(old, bytes);
}

void *mem_more(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t more = *room ? *room * 2 : 16;
    void *grown = mem_regrow(array, more, size);
    if (grown)
        *room = more;
    return grown;
}

void *mem_copy(const void *from, size_t size)
{
    void *p = mem_alloc(size);
    if (p && size > 0)
        memcpy(p, from, size);
    return p;
}

char *mem_text(const char *from, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *p = mem_alloc(len + 1);
    if (!p)
        return NULL;
    if (len > 0)
        memcpy(p, from, len);
    p[len] = '\0';
    return p;
}

/* The whole pages inside are dropped, which reads as zeros afterwards; only the edges are written.
 * The kernel refuses this for locked memory. */
static void zero_fill(char *p, size_t size)
{
    size_t head = (size_t)(-(uintptr_t)p & (PAGE_BYTES - 1));
    if (size < ZERO_BY_KERNEL) {
        memset(p, 0, size);
        return;
    }
    size_t inside = (size - head) & ~(PAGE_BYTES - 1);
    if (madvise(p + head, inside, MADV_DONTNEED) != 0) {
        memset(p, 0, size);
        return;
    }
    memset(p, 0, head);
    memset(p + head + inside, 0, size - head - inside);
}

static void *aligned(size_t size, size_t alignment)
{
    void *p;
    if (refused(size) || posix_memalign(&p, alignment, at_least_one(size)) != 0)
        return NULL;
    return p;
}

void *mem_pages(size_t size)
{
    if (size < HUGE_BYTES)
        return mem_lines(size);
    void *p = aligned(size, HUGE_BYTES);
    if (!p)
        return NULL;
    /* Advice only: without huge pages everything works, with more TLB misses. */
    (void)madvise(p, size & ~(PAGE_BYTES - 1), MADV_HUGEPAGE);
    zero_fill(p, size);
    return p;
}

void *mem_lines(size_t size)
{
    void *p = aligned(size, LINE_BYTES);
    if (p)
        zero_fill(p, size);
    return p;
}

void mem_trim(void)
{
    malloc_trim(0);
}

void mem_free(void *p)
{
    free(p);
}
