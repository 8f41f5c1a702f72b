/* SPDX-License-Identifier: Apache-2.0 */
/* Reading entries back: one for recovery, a stream of frames for the applier.
 *
 * The applier reads what was synced, so an entry that does not check here is damage, whatever its
 * place. */
#include <inttypes.h>

#include "backend/local/journal/journal_impl.h"
#include "base/check.h"
#include "base/mem.h"
#include "core/records/frame.h"

#define CURSOR_KEEP_BYTES (4u << 20) /* of memory, between two entries */

/* ---- one entry ---- */

static int entry_nomem(const struct segment *s, uint64_t at, struct err_note *note)
{
    return err_note_set(note, -ERR_NOMEM, "journal/%" PRIu32 " at %" PRIu64 ": out of memory",
                        s->number, at);
}

/* Fills `into` up to `len` bytes of the entry; less where the file ends. */
static int entry_fill(struct journal *j, const struct segment *s, uint64_t at, size_t len,
                      struct buf *into, struct err_note *note)
{
    size_t got = 0;
    if (into->len >= len)
        return 0;
    if (buf_reserve(into, len - into->len) < 0)
        return entry_nomem(s, at, note);
    int rc = j->files->ops->read(j->files, s->file, at + into->len, into->data + into->len,
                                 len - into->len, &got, note);
    if (rc == 0)
        into->len += got;
    return rc;
}

int entry_peek(struct journal *j, const struct segment *s, uint64_t at, struct buf *into,
               struct journal_entry *ret, struct err_note *note)
{
    buf_clear(into);
    if (at >= s->size)
        return -ERR_CORRUPT;
    uint64_t left = s->size - at;
    int rc = entry_fill(j, s, at, left < JOURNAL_PAGE ? (size_t)left : JOURNAL_PAGE, into, note);
    if (rc < 0)
        return rc;
    struct journal_entry e;
    rc = journal_entry_header(&j->reading, buf_span(into), at, &e);
    if (rc == -ERR_NOMEM)
        return entry_nomem(s, at, note);
    if (rc == -ERR_VERSION) {
        *ret = e;
        return err_note_set(note, -ERR_VERSION,
                            "journal/%" PRIu32 " at %" PRIu64
                            " was written by a newer version of holdfast; start that version",
                            s->number, at);
    }
    if (rc == 0)
        *ret = e;
    return rc;
}

int entry_load(struct journal *j, const struct segment *s, uint64_t at, struct buf *into,
               const struct journal_entry *e, struct err_note *note)
{
    if (journal_entry_bytes(e->length) > s->size - at)
        return -ERR_CORRUPT;
    int rc = entry_fill(j, s, at, JOURNAL_ENTRY_HEADER_BYTES + (size_t)e->length, into, note);
    if (rc < 0)
        return rc;
    if (into->len < JOURNAL_ENTRY_HEADER_BYTES + (size_t)e->length)
        return -ERR_CORRUPT;
    rc = journal_entry_check(e, entry_body(into, e));
    if (rc == -ERR_VERSION)
        return err_note_set(note, rc,
                            "journal/%" PRIu32 " at %" PRIu64
                            " holds records of a newer version of holdfast; start that version",
                            s->number, at);
    return rc;
}

struct span entry_body(const struct buf *entry, const struct journal_entry *e)
{
    return span_of(entry->data + JOURNAL_ENTRY_HEADER_BYTES, e->length);
}

/* ---- the applier's cursor ---- */

/* A copy of the oldest segment with something that was not read yet. */
static bool cursor_segment(struct journal *j, struct segment *ret)
{
    const struct segment *best = NULL;
    uv_mutex_lock(&j->lock);
    for (size_t i = 0; i < j->count; i++) {
        const struct segment *s = j->segments[i];
        if (segment_counts(s) && s->last > j->cursor.last &&
            (!best || s->generation < best->generation))
            best = s;
    }
    if (best)
        *ret = *best;
    uv_mutex_unlock(&j->lock);
    return best != NULL;
}

static int cursor_damage(const struct journal *j, const struct segment *s, struct err_note *note)
{
    return err_note_set(note, -ERR_CORRUPT,
                        "journal/%" PRIu32 " at %" PRIu64
                        ": the entry that was synced here is damaged" JOURNAL_ADVICE,
                        s->number, j->cursor.at);
}

/* Whether e can be the one that the cursor stands before. */
static bool cursor_fits(const struct journal *j, const struct segment *s,
                        const struct journal_entry *e)
{
    return journal_owns(j, e) && e->generation == s->generation && e->first - 1 <= j->cursor.last;
}

/* Loads the entry at the cursor and moves the cursor behind it. */
static int cursor_load(struct journal *j, const struct segment *s, struct err_note *note)
{
    struct journal_cursor *c = &j->cursor;
    struct journal_entry e = {0};
    if (c->entry.cap > CURSOR_KEEP_BYTES)
        buf_done(&c->entry);
    int rc = c->at < s->end ? entry_peek(j, s, c->at, &c->entry, &e, note) : -ERR_CORRUPT;
    if (rc == 0)
        rc = cursor_fits(j, s, &e) ? entry_load(j, s, c->at, &c->entry, &e, note) : -ERR_CORRUPT;
    if (rc == -ERR_CORRUPT)
        return cursor_damage(j, s, note);
    if (rc < 0)
        return rc;
    c->rest = entry_body(&c->entry, &e);
    c->at += journal_entry_bytes(e.length);
    return 0;
}

/* The next frame; its span is good until the next call. An empty one: nothing is left. */
static int cursor_next(struct journal *j, struct span *ret, struct err_note *note)
{
    struct journal_cursor *c = &j->cursor;
    struct segment s;
    for (;;) {
        while (c->rest.len > 0) {
            struct span before = c->rest;
            struct frame f;
            int rc = frame_peek(&c->rest, &f); /* it passed with the entry */
            CHECK(rc == 0);
            if (f.first + f.count - 1 <= c->last)
                continue;
            *ret = span_of(before.at, before.len - c->rest.len);
            c->rest = before;
            return 0;
        }
        *ret = span_of(NULL, 0);
        if (!cursor_segment(j, &s))
            return 0;
        if (s.generation != c->generation) {
            c->generation = s.generation;
            c->at = 0;
        }
        int rc = cursor_load(j, &s, note);
        if (rc < 0)
            return rc;
    }
}

/* The frame that cursor_next gave is done with. */
static void cursor_pass(struct journal_cursor *c)
{
    struct frame f;
    int rc = frame_peek(&c->rest, &f);
    CHECK(rc == 0);
    c->last = f.first + f.count - 1;
}

/* ---- batches ---- */

void journal_batch_init(struct journal_batch *b)
{
    *b = (struct journal_batch){0};
    buf_init(&b->bytes);
}

void journal_batch_done(struct journal_batch *b)
{
    buf_done(&b->bytes);
    mem_free(b->frames);
    *b = (struct journal_batch){0};
}

static int batch_add(struct journal_batch *b, struct span frame, struct err_note *note)
{
    struct span *frames = mem_more(b->frames, b->count, &b->room, sizeof *frames);
    int rc = frames ? buf_append_span(&b->bytes, frame) : -ERR_NOMEM;
    if (frames)
        b->frames = frames;
    if (rc < 0)
        return err_note_set(note, rc, "cannot read the journal: %s", err_text(rc));
    b->frames[b->count++] = span_of(NULL, frame.len); /* where it lies is settled at the end */
    return 0;
}

static void batch_settle(struct journal_batch *b)
{
    const char *at = b->bytes.data;
    for (size_t i = 0; i < b->count; i++) {
        b->frames[i].at = at;
        at += b->frames[i].len;
    }
}

void journal_reread(struct journal *j)
{
    struct journal_cursor *c = &j->cursor;
    c->generation = 0;
    c->rest = span_of(NULL, 0);
    uv_mutex_lock(&j->lock);
    c->last = j->applied;
    uv_mutex_unlock(&j->lock);
}

int journal_read(struct journal *j, size_t max_bytes, struct journal_batch *ret,
                 struct err_note *note)
{
    int rc;
    struct span frame;
    buf_clear(&ret->bytes);
    ret->count = 0;
    while ((rc = cursor_next(j, &frame, note)) == 0 && frame.len > 0) {
        if (ret->count > 0 &&
            (ret->bytes.len >= max_bytes || frame.len > max_bytes - ret->bytes.len))
            break;
        if ((rc = batch_add(ret, frame, note)) < 0)
            break;
        cursor_pass(&j->cursor);
    }
    batch_settle(ret);
    ret->last = j->cursor.last;
    return rc;
}
