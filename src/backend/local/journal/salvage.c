/* SPDX-License-Identifier: Apache-2.0 */
/* A journal that recovery refuses: every entry in it that is whole, wherever it lies, is found by
 * its tag and its CRC, and those that go on where the database ends are given as far as they follow
 * each other. */
#include <stdlib.h>

#include "backend/local/journal/journal_impl.h"
#include "base/mem.h"
#include "core/records/frame.h"

struct place {
    const struct segment *segment;
    uint64_t at;
    struct journal_entry entry;
};

struct search {
    struct journal *j;
    struct place *places; /* by first record, once all are found */
    size_t count, room;
    size_t next;      /* all before it lie behind the position */
    struct buf bytes; /* of the entry looked at */
    uint64_t position;
    journal_frame_fn fn;
    void *ctx;
    struct err_note *note;
};

/* The whole entry at this place. -ERR_CORRUPT: no entry can be read there. */
static int entry_read(struct search *q, const struct segment *s, uint64_t at,
                      struct journal_entry *ret)
{
    int rc = entry_peek(q->j, s, at, &q->bytes, ret, NULL);
    if (rc == 0 && !journal_owns(q->j, ret))
        rc = -ERR_CORRUPT;
    if (rc == 0)
        rc = entry_load(q->j, s, at, &q->bytes, ret, NULL);
    return rc == 0 || rc == -ERR_NOMEM ? rc : -ERR_CORRUPT;
}

static int place_add(struct search *q, const struct place *p)
{
    struct place *places = mem_more(q->places, q->count, &q->room, sizeof *places);
    if (!places)
        return -ERR_NOMEM;
    q->places = places;
    q->places[q->count++] = *p;
    return 0;
}

/* Looks at every page; behind a whole entry goes on at its end. */
static int segment_search(struct search *q, const struct segment *s)
{
    int rc = 0;
    for (uint64_t at = 0; at < s->size && rc != -ERR_NOMEM;) {
        struct place p = {.segment = s, .at = at};
        rc = entry_read(q, s, at, &p.entry);
        if (rc == 0)
            rc = place_add(q, &p);
        at += rc == 0 ? journal_entry_bytes(p.entry.length) : JOURNAL_PAGE;
    }
    return rc == -ERR_NOMEM ? rc : 0;
}

static int place_order(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return (x->entry.first > y->entry.first) - (x->entry.first < y->entry.first);
}

/* The entry that goes on behind the position; NULL = none does. Positions only rise. */
static const struct place *place_next(struct search *q)
{
    const struct place *best = NULL;
    while (q->next < q->count && q->places[q->next].entry.last <= q->position)
        q->next++;
    for (size_t i = q->next; i < q->count && q->places[i].entry.first <= q->position + 1; i++) {
        const struct place *p = &q->places[i];
        if (p->entry.last > q->position && (!best || p->entry.generation > best->entry.generation))
            best = p;
    }
    return best;
}

static int frames_give(struct search *q, struct span body)
{
    int rc = 0;
    while (rc == 0 && body.len > 0) {
        struct span rest = body;
        struct frame f;
        rc = frame_decode(&rest, &f);
        if (rc == 0 && f.first + f.count - 1 > q->position)
            rc = q->fn(q->ctx, span_of(body.at, body.len - rest.len), f.first,
                       f.first + f.count - 1, q->note);
        body = rest;
    }
    return rc;
}

static int place_give(struct search *q, const struct place *p)
{
    struct journal_entry e;
    int rc = entry_read(q, p->segment, p->at, &e);
    if (rc == 0)
        rc = frames_give(q, entry_body(&q->bytes, &e));
    if (rc == 0)
        q->position = p->entry.last;
    return rc;
}

static int search_give(struct search *q)
{
    int rc = 0;
    for (size_t i = 0; i < q->j->count && rc == 0; i++)
        rc = segment_search(q, q->j->segments[i]);
    if (q->count > 0)
        qsort(q->places, q->count, sizeof *q->places, place_order);
    const struct place *p = NULL;
    while (rc == 0 && (p = place_next(q)))
        rc = place_give(q, p);
    return rc == -ERR_CORRUPT || rc == -ERR_VERSION ? 0 : rc; /* it ends there */
}

int journal_salvage(const struct journal_config *config, journal_frame_fn fn, void *ctx,
                    struct err_note *note)
{
    bool key = false;
    struct journal *j = journal_new(config, note);
    if (!j)
        return -ERR_NOMEM;
    struct search q = {.j = j, .position = config->applied, .fn = fn, .ctx = ctx, .note = note};
    buf_init(&q.bytes);
    int rc = journal_files_find(j, &key, NULL);
    if (rc == 0)
        rc = journal_key_find(j, key, NULL);
    if (rc == 0 && journal_key_usable(&j->key))
        rc = search_give(&q);
    else if (rc != -ERR_NOMEM)
        rc = 0; /* recovery has said why it cannot be read */
    buf_done(&q.bytes);
    mem_free(q.places);
    journal_close(j);
    return rc;
}
