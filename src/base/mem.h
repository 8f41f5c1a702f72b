/* SPDX-License-Identifier: Apache-2.0 */
/* Checked allocation: the only file that calls malloc. Every function may return NULL.
 *
 * With HF_TEST_HOOKS a test can make the Nth allocation of its own thread fail. */
#pragma once

#include <stddef.h>

void *mem_alloc(size_t size);               /* uninitialised; size 0 gives a unique pointer */
void *mem_zalloc(size_t size);              /* zero-filled */
void *mem_array(size_t count, size_t size); /* zero-filled; NULL when count * size overflows */
void *mem_realloc(void *old, size_t size);  /* old stays valid on failure */
void *mem_regrow(void *old, size_t count, size_t size); /* realloc of an array, overflow checked */
/* A growing array with room for one more than `count`: itself, or twice as large. NULL: it stays
 * valid, and *room as it is. */
void *mem_more(void *array, size_t count, size_t *room, size_t size);
void *mem_copy(const void *from, size_t size);
char *mem_text(const char *from, size_t len); /* NUL-terminated copy */
void *mem_pages(size_t size);                 /* zero-filled, 2 MiB aligned, huge pages asked for */
void *mem_lines(size_t size);                 /* zero-filled, 64-byte aligned, small pages */
void mem_free(void *p);                       /* NULL allowed; for all of the above */
/* Gives the system back what was freed after something large; takes milliseconds, in which other
 * threads that allocate may wait. */
void mem_trim(void);

/* Asks the memory for the cache line at p, which will be needed soon but not at once. p need not be
 * valid. (The empty asm: gcc takes a function that only prefetches for one without effect, and
 * drops the calls to it.) */
static inline void mem_ask(const void *p)
{
    __builtin_prefetch(p, 1);
    __asm__ volatile("" : : "r"(p));
}

#ifdef HF_TEST_HOOKS
/* Fails the nth allocation from now on in this thread (1 = the next) and, if `lasting`, all after
 * it; 0 switches off. */
void mem_fail_at(long nth, int lasting);
/* How many allocations this thread asked for since the last mem_fail_at. */
long mem_calls(void);
#endif
