/* SPDX-License-Identifier: Apache-2.0 */
/* A journal that recovery refuses: every entry in it that is whole, wherever it lies, is found by
 * its own CRC, and those that go on where the database ends are read as far as they follow each
 * other. Where the same records stand in two entries, the segment begun later counts. */
#include <stdlib.h>

#include "backend/local/files.h"
#include "backend/local/journal.h"
#include "backend/local/journal_entry.h"
#include "backend/local/salvage_impl.h"
#include "base/mem.h"

#define NAME_MAX_BYTES 16 /* of a segment: a number */

struct place {
    char name[NAME_MAX_BYTES];
    uint64_t at;
    struct journal_entry entry;
};

struct segment_file {
    char name[NAME_MAX_BYTES];
    uint64_t size;
};

struct search {
    struct files *files;
    const uint8_t *store_id;
    struct place *places;
    size_t count, room;
    size_t next;      /* all before it lie behind the position */
    struct buf bytes; /* of the entry looked at */
    struct segment_file *segments;
    size_t segment_count, segment_room;
    bool no_memory;
};

static void name_cb(void *ctx, const char *name, uint64_t size)
{
    struct search *q = ctx;
    size_t len = strlen(name);
    if (size == 0 || len >= NAME_MAX_BYTES || strspn(name, "0123456789") != len)
        return;
    struct segment_file *segments =
        salvage_room(q->segments, q->segment_count, &q->segment_room, sizeof *segments);
    q->no_memory = q->no_memory || !segments;
    if (!segments)
        return;
    q->segments = segments;
    struct segment_file *f = &q->segments[q->segment_count++];
    f->size = size;
    memcpy(f->name, name, len + 1);
}

/* The whole entry at this place. -ERR_CORRUPT: there is none. */
static int entry_read(struct search *q, int file, uint64_t at, struct journal_entry *ret)
{
    size_t got = 0;
    buf_clear(&q->bytes);
    if (buf_reserve(&q->bytes, JOURNAL_PAGE) < 0)
        return -ERR_NOMEM;
    int rc = q->files->ops->read(q->files, file, at, q->bytes.data, JOURNAL_PAGE, &got, NULL);
    if (rc < 0 || journal_entry_header(span_of(q->bytes.data, got), ret) != 0 ||
        memcmp(ret->store_id, q->store_id, sizeof ret->store_id) != 0)
        return -ERR_CORRUPT;
    size_t whole = JOURNAL_ENTRY_HEADER_BYTES + (size_t)ret->length;
    if (buf_reserve(&q->bytes, whole) < 0)
        return -ERR_NOMEM;
    rc = q->files->ops->read(q->files, file, at, q->bytes.data, whole, &got, NULL);
    if (rc < 0 || got != whole)
        return -ERR_CORRUPT;
    q->bytes.len = whole;
    return journal_entry_check(ret,
                               span_of(q->bytes.data + JOURNAL_ENTRY_HEADER_BYTES, ret->length));
}

static int place_add(struct search *q, const char *name, uint64_t at, const struct journal_entry *e)
{
    struct place *places = salvage_room(q->places, q->count, &q->room, sizeof *places);
    if (!places)
        return -ERR_NOMEM;
    q->places = places;
    struct place *p = &q->places[q->count++];
    *p = (struct place){.at = at, .entry = *e};
    memcpy(p->name, name, NAME_MAX_BYTES);
    return 0;
}

/* Looks at every page; behind a whole entry goes on at its end. */
static int segment_search(struct search *q, const struct segment_file *f)
{
    int file, rc = 0;
    if (q->files->ops->open(q->files, f->name, false, &file, NULL) != 0)
        return 0;
    for (uint64_t at = 0; at < f->size && rc != -ERR_NOMEM;) {
        struct journal_entry e = {0};
        rc = entry_read(q, file, at, &e);
        if (rc == 0)
            rc = place_add(q, f->name, at, &e);
        at += rc == 0 ? journal_entry_bytes(e.length) : JOURNAL_PAGE;
    }
    q->files->ops->close(q->files, file);
    return rc == -ERR_NOMEM ? rc : 0;
}

static int place_order(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return (x->entry.first > y->entry.first) - (x->entry.first < y->entry.first);
}

/* The entry that goes on behind this position; NULL = none does. Positions only rise. */
static const struct place *place_next(struct search *q, uint64_t position)
{
    const struct place *best = NULL;
    while (q->next < q->count && q->places[q->next].entry.last <= position)
        q->next++;
    for (size_t i = q->next; i < q->count && q->places[i].entry.first <= position + 1; i++) {
        const struct place *p = &q->places[i];
        if (p->entry.last > position && (!best || p->entry.generation > best->entry.generation))
            best = p;
    }
    return best;
}

static int place_give(struct search *q, const struct place *p, struct salvage *s)
{
    int file;
    struct journal_entry e;
    int rc = q->files->ops->open(q->files, p->name, false, &file, NULL);
    if (rc != 0)
        return -ERR_CORRUPT;
    rc = entry_read(q, file, p->at, &e);
    q->files->ops->close(q->files, file);
    struct span body = span_of(NULL, 0);
    if (rc == 0)
        body = span_of(q->bytes.data + JOURNAL_ENTRY_HEADER_BYTES, e.length);
    while (rc == 0 && body.len > 0) {
        struct frame f;
        struct span rest = body;
        rc = frame_decode(&rest, &f);
        if (rc == 0)
            rc = salvage_frame(s, span_of(body.at, body.len - rest.len));
        body = rest;
    }
    return rc;
}

static int search_give(struct search *q, struct salvage *s)
{
    int rc = q->files->ops->list(q->files, name_cb, q, NULL);
    if (q->no_memory)
        return -ERR_NOMEM;
    for (size_t i = 0; i < q->segment_count && rc == 0; i++)
        rc = segment_search(q, &q->segments[i]);
    if (q->count > 0)
        qsort(q->places, q->count, sizeof *q->places, place_order);
    const struct place *p = NULL;
    while (rc == 0 && (p = place_next(q, s->meta.position)))
        rc = place_give(q, p, s);
    return rc == -ERR_NOMEM ? rc : 0; /* whatever else: it ends there */
}

int salvage_entries(struct salvage *s, struct files *files)
{
    struct search q = {.files = files, .store_id = s->meta.store_id};
    buf_init(&q.bytes);
    int rc = search_give(&q, s);
    buf_done(&q.bytes);
    mem_free(q.segments);
    mem_free(q.places);
    files->ops->done(files);
    return rc;
}
