/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/pages/dbpage.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/digest/hash.h"
#include "base/mem.h"

enum { AT_SALTS = DBPAGE_BYTES - DBPAGE_RESERVED, AT_FRAME = 4088, AT_SUM = 4092 };

#define WALK_PAGES 64

static void put32(unsigned char *at, uint32_t v)
{
    v = htobe32(v);
    memcpy(at, &v, sizeof v);
}

static uint32_t get32(const unsigned char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return be32toh(v);
}

static uint32_t sum_of(const unsigned char *page, uint32_t number)
{
    unsigned char prefix[4];
    put32(prefix, number);
    return crc32c(crc32c(0, prefix, sizeof prefix), page, AT_SUM);
}

void dbpage_seal(unsigned char *page, uint32_t number, const struct dbpage_origin *from)
{
    put32(page + AT_SALTS, from->salts[0]);
    put32(page + AT_SALTS + 4, from->salts[1]);
    put32(page + AT_FRAME, from->frame);
    put32(page + AT_SUM, sum_of(page, number));
}

bool dbpage_good(const unsigned char *page, uint32_t number)
{
    return get32(page + AT_SUM) == sum_of(page, number);
}

struct dbpage_origin dbpage_origin_of(const unsigned char *page)
{
    return (struct dbpage_origin){{get32(page + AT_SALTS), get32(page + AT_SALTS + 4)},
                                  get32(page + AT_FRAME)};
}

void dbpage_fault_text(const struct dbpage_fault *fault, char *text, size_t bytes)
{
    static const char *const texts[][2] = {
        [DBPAGE_FINE] = {"page", "is not known to be damaged"},
        [DBPAGE_WRONG] = {"page", "is damaged: its checksum does not match"},
        [DBPAGE_MISSING] = {"page", "is missing: the file is too short"},
        [DBPAGE_FRAME] = {"frame", "of the WAL is damaged: its checksum does not match"},
    };
    snprintf(text, bytes, "%s %u %s", texts[fault->kind][0], fault->number, texts[fault->kind][1]);
}

/* ---- files ---- */

int dbpage_read(int fd, uint32_t number, unsigned char page[DBPAGE_BYTES],
                struct dbpage_fault *ret_fault)
{
    ssize_t n = pread(fd, page, DBPAGE_BYTES, (off_t)(number - 1) * DBPAGE_BYTES);
    if (n < 0)
        return -ERR_IO;
    enum dbpage_fault_kind kind = n < DBPAGE_BYTES            ? DBPAGE_MISSING
                                  : dbpage_good(page, number) ? DBPAGE_FINE
                                                              : DBPAGE_WRONG;
    *ret_fault = (struct dbpage_fault){kind, number};
    return 0;
}

static void walk_page(const struct dbpage_walk *w, const unsigned char *page, uint32_t number)
{
    if (number != DBPAGE_UNUSED && !dbpage_good(page, number) &&
        !(w->skip && w->skip(w->ctx, number)))
        w->bad(w->ctx, &(struct dbpage_fault){DBPAGE_WRONG, number});
}

/* What is missing of the pages that must be there. */
static void walk_missing(const struct dbpage_walk *w, uint32_t first)
{
    for (uint32_t number = first; number <= w->count && number != 0; number++)
        if (number != DBPAGE_UNUSED && !(w->skip && w->skip(w->ctx, number)))
            w->bad(w->ctx, &(struct dbpage_fault){DBPAGE_MISSING, number});
}

int dbpage_walk(int fd, const struct dbpage_walk *w)
{
    unsigned char *pages = mem_alloc((size_t)WALK_PAGES * DBPAGE_BYTES);
    uint32_t number = 1, limit = w->count ? w->count : UINT32_MAX;
    int rc = pages ? 0 : -ERR_NOMEM;
    while (rc == 0 && number <= limit) {
        ssize_t n =
            pread(fd, pages, (size_t)WALK_PAGES * DBPAGE_BYTES, (off_t)(number - 1) * DBPAGE_BYTES);
        rc = n < 0 ? -ERR_IO : 0;
        for (ssize_t at = 0; at + DBPAGE_BYTES <= n && number <= limit; at += DBPAGE_BYTES)
            walk_page(w, pages + at, number++);
        if (n < (ssize_t)WALK_PAGES * DBPAGE_BYTES)
            break;
    }
    if (rc == 0)
        walk_missing(w, number);
    mem_free(pages);
    return rc;
}

/* ---- the pointer map ---- */

/* One entry a page: its kind and one page number. See "Pointer Map or Ptrmap Pages" of SQLite's
 * file format. */
enum { MAP_ENTRY_BYTES = 5, MAP_PAGES = (DBPAGE_BYTES - DBPAGE_RESERVED) / MAP_ENTRY_BYTES };
enum map_kind { MAP_ROOT = 1, MAP_FREE, MAP_OVERFLOW_FIRST, MAP_OVERFLOW, MAP_TREE };

static uint32_t map_page_of(uint32_t number)
{
    uint32_t at = (number - 2) / (MAP_PAGES + 1) * (MAP_PAGES + 1) + 2;
    return at == DBPAGE_UNUSED ? at + 1 : at;
}

uint32_t dbpage_root(int (*read)(void *ctx, uint32_t number, unsigned char page[DBPAGE_BYTES]),
                     void *ctx, uint32_t number)
{
    unsigned char page[DBPAGE_BYTES];
    uint32_t have = 0;
    /* A tree is low and an overflow chain has at most as many pages as the largest body; a map that
     * is damaged may lead in a circle. */
    for (int steps = 0; steps < 40000 && number >= 3; steps++) {
        uint32_t map = map_page_of(number);
        if (number <= map || (map != have && read(ctx, map, page) != 0))
            return 0;
        have = map;
        const unsigned char *entry = page + (size_t)(number - map - 1) * MAP_ENTRY_BYTES;
        if (entry[0] == MAP_ROOT)
            return number;
        if (entry[0] < MAP_OVERFLOW_FIRST || entry[0] > MAP_TREE)
            return 0;
        number = get32(entry + 1);
    }
    return number == 1 ? 1 : 0;
}
