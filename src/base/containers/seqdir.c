/* SPDX-License-Identifier: Apache-2.0 */
/* Sequence → handle. A page lives as long as one of its 64 sequences does. */
#include "base/containers/seqdir.h"

#include "base/check.h"
#include "base/mem.h"

#define PAGE_BITS 6
#define PAGE_SEQS (1u << PAGE_BITS)

struct seqdir_page {
    uint32_t handle[PAGE_SEQS]; /* 0 = absent */
    uint32_t live;              /* how many are not */
};

/* map64 has no key 0. */
static uint64_t page_key(uint64_t seq)
{
    return (seq >> PAGE_BITS) + 1;
}

static uint32_t *slot_in(struct seqdir_page *page, uint64_t seq)
{
    return &page->handle[seq & (PAGE_SEQS - 1)];
}

void seqdir_init(struct seqdir *d)
{
    map64_init(&d->pages);
    slab_init(&d->slab, sizeof(struct seqdir_page));
    d->count = 0;
}

void seqdir_done(struct seqdir *d)
{
    map64_done(&d->pages);
    slab_done(&d->slab);
    d->count = 0;
}

/* In the worst case every sequence opens its own page. */
int seqdir_reserve(struct seqdir *d, size_t more)
{
    int r = map64_reserve(&d->pages, more);
    return r != 0 ? r : slab_reserve(&d->slab, more);
}

static int page_open(struct seqdir *d, uint64_t seq, uint32_t *ret)
{
    uint32_t page = slab_take(&d->slab);
    if (page == 0)
        return -ERR_NOMEM;
    int r = map64_put(&d->pages, page_key(seq), page);
    if (r != 0) {
        slab_give(&d->slab, page);
        return r;
    }
    *ret = page;
    return 0;
}

int seqdir_put(struct seqdir *d, uint64_t seq, uint32_t handle)
{
    CHECK(handle != 0);
    uint32_t found = map64_get(&d->pages, page_key(seq));
    if (found == 0) {
        int r = page_open(d, seq, &found);
        if (r != 0)
            return r;
    }
    struct seqdir_page *page = slab_at(&d->slab, found);
    uint32_t *slot = slot_in(page, seq);
    if (*slot == 0) {
        page->live++;
        d->count++;
    }
    *slot = handle;
    return 0;
}

uint32_t seqdir_get(const struct seqdir *d, uint64_t seq)
{
    uint32_t found = map64_get(&d->pages, page_key(seq));
    return found ? *slot_in(slab_at(&d->slab, found), seq) : 0;
}

void seqdir_ask_map(const struct seqdir *d, uint64_t seq)
{
    map64_ask(&d->pages, page_key(seq));
}

void seqdir_ask_page(const struct seqdir *d, uint64_t seq)
{
    uint32_t found = map64_get(&d->pages, page_key(seq));
    if (found)
        mem_ask(slot_in(slab_at(&d->slab, found), seq));
}

void seqdir_drop(struct seqdir *d, uint64_t seq)
{
    uint32_t found = map64_get(&d->pages, page_key(seq));
    if (found == 0)
        return;
    struct seqdir_page *page = slab_at(&d->slab, found);
    uint32_t *slot = slot_in(page, seq);
    if (*slot == 0)
        return;
    *slot = 0;
    d->count--;
    if (--page->live == 0) {
        map64_drop(&d->pages, page_key(seq));
        slab_give(&d->slab, found);
    }
}

size_t seqdir_bytes(const struct seqdir *d)
{
    return map64_bytes(&d->pages) + slab_bytes(&d->slab);
}
