/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the journal. Entry N+1 is not written before N is synced, so only the last entry can
 * be torn; a header with a correct tag behind it proves that something before that header is
 * damaged or missing. Neither its version nor its body needs to be looked at for that.
 *
 * An entry that is not whole may be where the next one would begin, or be the first of a segment
 * that was just begun. It is recognised by its tag, or by its mark when the header is damaged. */
#include <inttypes.h>

#include "backend/local/journal/journal_impl.h"
#include "base/mem.h"

/* ---- pages ---- */

/* Called for a page at `at`; `rest` are its bytes. *stop ends the scan. */
typedef int (*page_fn)(struct journal_walk *w, void *ctx, uint64_t at, struct span page,
                       bool *stop);

static int pages_visit(struct journal_walk *w, const struct segment *s, uint64_t at, page_fn fn,
                       void *ctx)
{
    struct files *files = w->j->files;
    size_t got = JOURNAL_SCAN_BYTES;
    bool stop = false;
    int rc = 0;
    if (!w->pages && !(w->pages = mem_alloc(JOURNAL_SCAN_BYTES)))
        return err_note_set(w->note, -ERR_NOMEM, "cannot read the journal: out of memory");
    for (; rc == 0 && got == JOURNAL_SCAN_BYTES && !stop; at += JOURNAL_SCAN_BYTES) {
        rc = files->ops->read(files, s->file, at, w->pages, JOURNAL_SCAN_BYTES, &got, w->note);
        for (size_t i = 0; rc == 0 && i < got && !stop; i += JOURNAL_PAGE)
            rc = fn(w, ctx, at + i,
                    span_of(w->pages + i, got - i < JOURNAL_PAGE ? got - i : JOURNAL_PAGE), &stop);
    }
    return rc;
}

struct scan {
    uint64_t generation; /* headers of this or a later one */
    uint64_t found;      /* where one is; UINT64_MAX: nowhere */
};

static int page_scan(struct journal_walk *w, void *ctx, uint64_t at, struct span page, bool *stop)
{
    struct scan *scan = ctx;
    struct journal_entry e;
    int rc = journal_entry_header(&w->j->reading, page, at, &e);
    if (rc == -ERR_NOMEM)
        return err_note_set(w->note, rc, "cannot read the journal: out of memory");
    *stop = rc != -ERR_CORRUPT && e.generation >= scan->generation;
    if (*stop)
        scan->found = at;
    return 0;
}

/* ---- the entry that is not whole ---- */

static void torn_found(struct journal_walk *w, const struct segment *s, uint64_t at,
                       const struct journal_entry *e, bool header_damaged)
{
    struct journal_torn *t = &w->j->torn;
    if (t->bytes > 0 && (header_damaged || !t->header_damaged))
        return;
    uint64_t bytes = e->length <= JOURNAL_BODY_BYTES_MAX ? journal_entry_bytes(e->length) : 0;
    *t = (struct journal_torn){.bytes = bytes > 0 && bytes <= s->size - at ? bytes : s->size - at,
                               .segment = s->number,
                               .at = at,
                               .generation = w->count ? w->steps[w->count - 1].entry.generation : 0,
                               .after = w->position,
                               .header_damaged = header_damaged};
}

/* Whether a damaged header is of an entry whose records are in whole entries: one of an older use
 * of the segment, or a copy of the last entry that a start was writing. One damaged field alone
 * cannot make it look so. */
static bool damaged_is_superfluous(const struct journal_walk *w, const struct journal_entry *e)
{
    return e->first <= w->position && e->last <= w->position;
}

static int gap_note(const struct journal_walk *w, const struct segment *s, uint64_t at,
                    const struct journal_entry *e)
{
    return err_note_set(w->note, -ERR_CORRUPT,
                        "the journal is damaged: record %" PRIu64
                        " is the last that can be read, and journal/%" PRIu32 " has at %" PRIu64
                        " the beginning of an entry with record %" PRIu64 JOURNAL_ADVICE,
                        w->position, s->number, at, e->first);
}

/* ---- behind the last entry of the newest segment ---- */

static int place_judge(struct journal_walk *w, const struct segment *s)
{
    struct journal_entry e;
    int rc = entry_peek(w->j, s, s->end, &w->buf, &e, w->note);
    if (rc == -ERR_CORRUPT) {
        if (journal_entry_marked(&w->j->reading, buf_span(&w->buf), &e) &&
            !damaged_is_superfluous(w, &e))
            torn_found(w, s, s->end, &e, true);
        return 0;
    }
    if (rc == -ERR_VERSION && e.generation < s->generation)
        return 0;
    if (rc < 0 || e.generation < s->generation)
        return rc;
    if (e.generation > s->generation || e.first - 1 != w->position || e.previous != w->crc)
        return gap_note(w, s, s->end, &e);
    torn_found(w, s, s->end, &e, false);
    return 0;
}

static int newest_judge(struct journal_walk *w, const struct segment *s)
{
    struct scan scan = {s->generation, UINT64_MAX};
    int rc = pages_visit(w, s, s->end + JOURNAL_PAGE, page_scan, &scan);
    if (rc == 0 && scan.found != UINT64_MAX)
        rc = err_note_set(w->note, -ERR_CORRUPT,
                          "journal/%" PRIu32 " is damaged at %" PRIu64 ", behind record %" PRIu64
                          ": a later entry begins at %" PRIu64 JOURNAL_ADVICE,
                          s->number, s->end, w->position, scan.found);
    return rc == 0 && s->end < s->size ? place_judge(w, s) : rc;
}

/* ---- segments whose first entry is not whole ---- */

static int head_judge(struct journal_walk *w, struct segment *s, uint64_t newest)
{
    struct journal_entry e;
    int rc = entry_peek(w->j, s, 0, &w->buf, &e, w->note);
    if (rc == -ERR_CORRUPT) {
        s->head_torn = journal_entry_marked(&w->j->reading, buf_span(&w->buf), &e);
        if (s->head_torn && !damaged_is_superfluous(w, &e))
            torn_found(w, s, 0, &e, true);
        return 0;
    }
    if (rc < 0)
        return rc;
    s->head_torn = true;
    if (e.generation <= newest)
        return 0;
    if (e.first - 1 > w->position)
        return gap_note(w, s, 0, &e);
    if (e.first - 1 == w->position) /* else the last entry, which a start was repeating */
        torn_found(w, s, 0, &e, false);
    return 0;
}

/* Its generation is not among those found; its other entries tell. */
static int blank_judge(struct journal_walk *w, struct segment *s, uint64_t newest)
{
    struct scan scan = {newest + 1, UINT64_MAX};
    int rc = pages_visit(w, s, JOURNAL_PAGE, page_scan, &scan);
    if (rc == 0 && scan.found != UINT64_MAX)
        rc = err_note_set(w->note, -ERR_CORRUPT,
                          "journal/%" PRIu32
                          " is damaged at its beginning: it has a later entry, at %" PRIu64
                          ", of a newer generation than all others" JOURNAL_ADVICE,
                          s->number, scan.found);
    return rc == 0 && s->size > 0 ? head_judge(w, s, newest) : rc;
}

int journal_end_check(struct journal_walk *w, struct segment *newest)
{
    int rc = newest ? newest_judge(w, newest) : 0;
    for (size_t i = 0; i < w->j->count && rc == 0; i++)
        if (w->j->segments[i]->state == SEGMENT_BLANK)
            rc = blank_judge(w, w->j->segments[i], newest ? newest->generation : 0);
    return rc;
}

/* ---- without a key ---- */

static int page_blank(struct journal_walk *w, void *ctx, uint64_t at, struct span page, bool *stop)
{
    (void)w, (void)at;
    bool *used = ctx;
    for (size_t i = 0; i < page.len && !*used; i++)
        *used = page.at[i] != 0;
    *stop = *used;
    return 0;
}

static int keyless_note(const struct journal_walk *w)
{
    return err_note_set(w->note, -ERR_CORRUPT,
                        "journal/key is %s, and the journal cannot be read without it: put the "
                        "file of this store back" JOURNAL_ADVICE,
                        w->j->key.state == JOURNAL_KEY_MISSING ? "missing" : "damaged");
}

int journal_keyless_check(struct journal_walk *w)
{
    struct journal *j = w->j;
    bool used = j->applied > j->from;
    int rc = 0;
    for (size_t i = 0; i < j->count && rc == 0 && !used; i++)
        rc = pages_visit(w, j->segments[i], 0, page_blank, &used);
    return rc == 0 && used ? keyless_note(w) : rc;
}
