/* SPDX-License-Identifier: Apache-2.0 */
/* What the last process left: which segments count, where the journal ends, and whether that end is
 * a tail that was being written or damage.
 *
 * Segments are taken by generation. The walk begins with the newest whose first entry is not above
 * what the store lacks first; from there on every entry is checked, and each segment must follow
 * the one before. It does so when its first entry comes after the last entry walked, or instead of
 * the last or the last but one: whoever starts repeats the last entry it can read. A generation may
 * be absent, since the segment that a process began just before it was killed can be lost with the
 * power while its successor stands; what decides is the chain.
 *
 * Nothing found is trusted to be on the disk: only an entry behind which another was written is
 * known to have been synced. So a segment counts as free here only if a newer one that is sure to
 * be on the disk holds all that the store lacks. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/local/journal_impl.h"
#include "base/failpoint.h"
#include "base/mem.h"

#define STEPS 4             /* entries the walk can go back over */
#define STEPS_BACK 2        /* and how many a segment may stand in for */
#define NUMBER_DIGITS_MAX 9 /* of a file's name */
#define SCAN_BYTES (256u << 10)
#define GENERATIONS_TORN_MAX (UINT64_C(1) << 32)

struct step {
    struct segment *segment;
    uint64_t at;
    struct journal_entry entry;
};

struct walk {
    struct journal *j;
    struct err_note *note;
    struct buf buf;
    char *pages;              /* SCAN_BYTES, from the first scan on */
    struct step steps[STEPS]; /* the last entries walked, the newest last */
    size_t count;
    uint64_t position; /* after the last of them */
    uint32_t crc;
};

/* ---- finding the files ---- */

struct finding {
    struct journal *j;
    int rc;
};

/* Plain numbers are segments; whatever else lies there is not the journal's. */
static bool number_parse(const char *name, uint32_t *ret)
{
    uint32_t number = 0;
    size_t len = strlen(name);
    if (len == 0 || len > NUMBER_DIGITS_MAX || name[0] == '0')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return false;
        number = number * 10 + (uint32_t)(name[i] - '0');
    }
    *ret = number;
    return true;
}

static void file_found_cb(void *ctx, const char *name, uint64_t size)
{
    struct finding *f = ctx;
    uint32_t number;
    struct segment *s;
    if (f->rc != 0 || !number_parse(name, &number))
        return;
    f->rc = segment_add(f->j, number, size, SEGMENT_BLANK, &s);
    if (f->rc == 0)
        s->there = true;
}

static int files_find(struct journal *j, struct err_note *note)
{
    struct finding f = {j, 0};
    int rc = j->files->ops->list(j->files, file_found_cb, &f, note);
    if (rc == 0 && f.rc < 0)
        rc = err_note_set(note, f.rc, "cannot list the journal: %s", err_text(f.rc));
    for (size_t i = 0; rc == 0 && i < j->count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%" PRIu32, j->segments[i]->number);
        rc = j->files->ops->open(j->files, name, false, &j->segments[i]->file, note);
    }
    return rc;
}

/* ---- the first entry tells what a file holds ---- */

static bool ours(const struct journal *j, const struct journal_entry *e)
{
    return memcmp(e->store_id, j->store_id, sizeof e->store_id) == 0;
}

static int stranger_note(const struct segment *s, const struct journal_entry *e,
                         struct err_note *note)
{
    char id[2 * sizeof e->store_id + 1];
    for (size_t i = 0; i < sizeof e->store_id; i++)
        snprintf(id + 2 * i, 3, "%02x", e->store_id[i]);
    return err_note_set(note, -ERR_CORRUPT,
                        "journal/%" PRIu32
                        " belongs to another store (%s): the journal and holdfast.db must come "
                        "from the same directory; put the right journal back" JOURNAL_ADVICE,
                        s->number, id);
}

static int segment_look(struct walk *w, struct segment *s)
{
    struct journal_entry e;
    int rc = entry_peek(w->j, s, 0, &w->buf, &e, w->note);
    bool header = rc == 0;
    if (header)
        rc = entry_load(w->j, s, 0, &w->buf, &e, w->note);
    if (rc == -ERR_CORRUPT) { /* blank, or torn: later_refuse tells */
        if (header && ours(w->j, &e) && e.generation > w->j->torn_generation)
            w->j->torn_generation = e.generation;
        return 0;
    }
    if (rc < 0)
        return rc;
    if (!ours(w->j, &e))
        return stranger_note(s, &e, w->note);
    if (s->size != e.segment_bytes)
        return err_note_set(w->note, -ERR_CORRUPT,
                            "journal/%" PRIu32 " has %" PRIu64 " bytes and had %" PRIu64
                            " when it was begun: it was cut" JOURNAL_ADVICE,
                            s->number, s->size, e.segment_bytes);
    s->state = SEGMENT_USED;
    s->generation = e.generation;
    s->first = e.first;
    s->last = e.first - 1;
    s->previous = e.previous;
    return 0;
}

/* Those with entries first, by generation; there are few. */
static void segments_sort(struct journal *j)
{
    for (size_t i = 1; i < j->count; i++) {
        struct segment *s = j->segments[i];
        size_t to = i;
        for (; to > 0 && s->generation - 1 < j->segments[to - 1]->generation - 1; to--)
            j->segments[to] = j->segments[to - 1];
        j->segments[to] = s;
    }
}

/* How many have entries, once they are sorted. */
static int segments_look(struct walk *w, size_t *used)
{
    struct journal *j = w->j;
    for (size_t i = 0; i < j->count; i++) {
        int rc = segment_look(w, j->segments[i]);
        if (rc < 0)
            return rc;
    }
    segments_sort(j);
    *used = 0;
    while (*used < j->count && j->segments[*used]->state == SEGMENT_USED)
        ++*used;
    for (size_t i = 1; i < *used; i++)
        if (j->segments[i]->generation == j->segments[i - 1]->generation)
            return err_note_set(w->note, -ERR_CORRUPT,
                                "journal/%" PRIu32 " and journal/%" PRIu32
                                " both hold generation %" PRIu64 JOURNAL_ADVICE,
                                j->segments[i - 1]->number, j->segments[i]->number,
                                j->segments[i]->generation);
    return 0;
}

/* ---- the walk ---- */

static bool follows(const struct walk *w, const struct segment *s, const struct journal_entry *e)
{
    if (!ours(w->j, e))
        return false;
    if (w->j->defects & JOURNAL_DEFECT_ANY_GENERATION)
        return true;
    return e->generation == s->generation && e->first - 1 == w->position && e->previous == w->crc;
}

static void step_push(struct walk *w, struct segment *s, uint64_t at, const struct journal_entry *e)
{
    if (w->count == STEPS)
        memmove(w->steps, w->steps + 1, --w->count * sizeof *w->steps);
    w->steps[w->count++] = (struct step){s, at, *e};
    w->position = e->last;
    w->crc = e->crc;
}

/* Goes back to before the last entry, which no longer counts. */
static void step_pop(struct walk *w)
{
    const struct step *last = &w->steps[--w->count];
    last->segment->end = last->at;
    if (last->segment->applied_end > last->at)
        last->segment->applied_end = last->at;
    last->segment->last = w->position = last->entry.first - 1;
    w->crc = last->entry.previous;
}

/* Reads the entry at `at` if it is the next one; -ERR_CORRUPT: it is not. */
static int next_load(struct walk *w, struct segment *s, uint64_t at, struct journal_entry *ret)
{
    int rc = entry_peek(w->j, s, at, &w->buf, ret, w->note);
    if (rc == -ERR_VERSION && ret->generation != s->generation)
        return -ERR_CORRUPT; /* what an older use left behind */
    if (rc < 0)
        return rc;
    return follows(w, s, ret) ? entry_load(w->j, s, at, &w->buf, ret, w->note) : -ERR_CORRUPT;
}

static int segment_walk(struct walk *w, struct segment *s)
{
    struct journal_entry e;
    int rc;
    s->end = 0;
    while ((rc = next_load(w, s, s->end, &e)) == 0) {
        step_push(w, s, s->end, &e);
        s->end += journal_entry_bytes(e.length);
        s->last = e.last;
        if (e.last <= w->j->applied)
            s->applied_end = s->end;
    }
    return rc == -ERR_CORRUPT ? 0 : rc;
}

/* The next segment must follow what was walked. */
static int segment_connect(struct walk *w, const struct segment *before, struct segment *next)
{
    uint64_t end = before->end, position = w->position;
    for (unsigned back = 0;; back++) {
        if (next->first - 1 == w->position && next->previous == w->crc)
            return 0;
        if (back == STEPS_BACK || w->count == 0)
            break;
        step_pop(w);
    }
    if (next->generation > before->generation + 1)
        return err_note_set(w->note, -ERR_CORRUPT,
                            "the journal's generations %" PRIu64 " to %" PRIu64
                            " are missing: journal/%" PRIu32 " ends at %" PRIu64
                            " with record %" PRIu64 ", and journal/%" PRIu32
                            " begins with record %" PRIu64 JOURNAL_ADVICE,
                            before->generation + 1, next->generation - 1, before->number, end,
                            position, next->number, next->first);
    return err_note_set(w->note, -ERR_CORRUPT,
                        "journal/%" PRIu32 " is damaged at %" PRIu64 ": record %" PRIu64
                        " is the last before it, and journal/%" PRIu32
                        " goes on with record %" PRIu64 JOURNAL_ADVICE,
                        before->number, end, position, next->number, next->first);
}

/* ---- entries where none should be ---- */

struct scan {
    struct segment *segment;
    uint64_t generation, position; /* entries of this or a later one, above the position */
    uint64_t found;                /* where one is; UINT64_MAX: nowhere */
};

static int page_scan(struct walk *w, struct scan *scan, uint64_t at, struct span page)
{
    struct journal_entry e;
    int rc = journal_entry_header(page, &e);
    if (rc == -ERR_CORRUPT || !ours(w->j, &e) || e.generation < scan->generation)
        return 0;
    if (rc == 0 && e.first <= scan->position)
        return 0;
    rc = entry_peek(w->j, scan->segment, at, &w->buf, &e, w->note);
    if (rc == 0)
        rc = entry_load(w->j, scan->segment, at, &w->buf, &e, w->note);
    if (rc == 0)
        scan->found = at;
    return rc == -ERR_CORRUPT ? 0 : rc;
}

/* Looks at every page from `at` on. */
static int segment_scan(struct walk *w, struct scan *scan, uint64_t at)
{
    struct files *files = w->j->files;
    size_t got = SCAN_BYTES;
    int rc = 0;
    if (!w->pages && !(w->pages = mem_alloc(SCAN_BYTES)))
        return err_note_set(w->note, -ERR_NOMEM, "cannot read the journal: out of memory");
    scan->found = UINT64_MAX;
    for (; rc == 0 && got == SCAN_BYTES && scan->found == UINT64_MAX; at += SCAN_BYTES) {
        rc = files->ops->read(files, scan->segment->file, at, w->pages, SCAN_BYTES, &got, w->note);
        for (size_t i = 0; rc == 0 && i < got && scan->found == UINT64_MAX; i += JOURNAL_PAGE)
            rc = page_scan(w, scan, at + i,
                           span_of(w->pages + i, got - i < JOURNAL_PAGE ? got - i : JOURNAL_PAGE));
    }
    return rc;
}

/* Behind the end of the newest segment nothing whole may follow. */
static int tail_refuse(struct walk *w, struct segment *newest)
{
    struct scan scan = {newest, newest->generation, w->position, 0};
    int rc = segment_scan(w, &scan, newest->end);
    if (rc < 0 || scan.found == UINT64_MAX)
        return rc;
    return err_note_set(w->note, -ERR_CORRUPT,
                        "journal/%" PRIu32 " is damaged at %" PRIu64 ", behind record %" PRIu64
                        ": a later entry, at %" PRIu64 ", is whole" JOURNAL_ADVICE,
                        newest->number, newest->end, w->position, scan.found);
}

/* The same for a segment whose first entry is damaged, so that its generation is not among those
 * found: its other entries tell. */
static int later_refuse(struct walk *w, uint64_t newest)
{
    for (size_t i = 0; i < w->j->count; i++) {
        struct segment *s = w->j->segments[i];
        if (s->state != SEGMENT_BLANK)
            continue;
        struct scan scan = {s, newest + 1, 0, 0};
        int rc = segment_scan(w, &scan, 0);
        if (rc < 0)
            return rc;
        if (scan.found != UINT64_MAX)
            return err_note_set(w->note, -ERR_CORRUPT,
                                "journal/%" PRIu32
                                " is damaged at its beginning: it has a later entry, at %" PRIu64
                                ", of a newer generation than all others" JOURNAL_ADVICE,
                                s->number, scan.found);
    }
    return 0;
}

/* ---- putting it together ---- */

/* The newest segment that begins with something the store has, or with what comes next. */
static int start_find(const struct walk *w, size_t used, size_t *ret)
{
    const struct journal *j = w->j;
    for (size_t i = used; i-- > 0;) {
        if (j->segments[i]->first - 1 <= j->applied) {
            *ret = i;
            return 0;
        }
    }
    return err_note_set(w->note, -ERR_CORRUPT,
                        "the store has the records up to %" PRIu64
                        ", and the journal begins with %" PRIu64 " (journal/%" PRIu32
                        "): what lies between is missing" JOURNAL_ADVICE,
                        j->applied, j->segments[0]->first, j->segments[0]->number);
}

static int segments_walk(struct walk *w, size_t start, size_t used)
{
    struct segment **segments = w->j->segments;
    w->position = segments[start]->first - 1;
    w->crc = segments[start]->previous;
    for (size_t i = start; i < used; i++) {
        int rc = i > start ? segment_connect(w, segments[i - 1], segments[i]) : 0;
        if (rc == 0)
            rc = segment_walk(w, segments[i]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Whether the first entry of a segment must have been synced: another was written behind it. */
static int segment_sure(struct walk *w, struct segment *s, const struct segment *next, bool *ret)
{
    struct journal_entry e, behind;
    *ret = false;
    int rc = entry_peek(w->j, s, 0, &w->buf, &e, w->note);
    if (rc == 0)
        rc = entry_load(w->j, s, 0, &w->buf, &e, w->note);
    if (rc < 0)
        return rc == -ERR_CORRUPT ? 0 : rc;
    w->position = e.last;
    w->crc = e.crc;
    *ret = next && next->first - 1 == e.last && next->previous == e.crc;
    if (*ret)
        return 0;
    rc = next_load(w, s, journal_entry_bytes(e.length), &behind);
    *ret = rc == 0;
    return rc == -ERR_CORRUPT ? 0 : rc;
}

/* Frees the segments older than the newest sure one at or before start. The others older than start
 * hold nothing that counts, but must stay until journal_begin has synced something newer. */
static int older_free(struct walk *w, size_t start, size_t used)
{
    struct segment **segments = w->j->segments;
    bool sure = false;
    size_t keep = start + 1;
    while (keep > 0 && !sure) {
        keep--;
        int rc =
            segment_sure(w, segments[keep], keep + 1 < used ? segments[keep + 1] : NULL, &sure);
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < keep; i++)
        segments[i]->state = SEGMENT_FREE;
    return 0;
}

/* What the torn entry at the end would take, as far as its header tells. */
static int torn_measure(struct walk *w, const struct segment *newest)
{
    struct journal_entry e;
    int rc = entry_peek(w->j, newest, newest->end, &w->buf, &e, w->note);
    if (rc == 0 && follows(w, newest, &e))
        w->j->torn_bytes = journal_entry_bytes(e.length);
    return rc == -ERR_CORRUPT || rc == -ERR_VERSION ? 0 : rc; /* the scan saw no newer entry */
}

static int end_check(struct walk *w, struct segment *newest)
{
    struct journal *j = w->j;
    int rc = tail_refuse(w, newest);
    if (rc == 0)
        rc = later_refuse(w, newest->generation);
    if (rc == 0 && w->position < j->applied)
        rc = err_note_set(w->note, -ERR_CORRUPT,
                          "the store has the records up to %" PRIu64
                          ", but the journal ends with %" PRIu64 " (journal/%" PRIu32 " at %" PRIu64
                          ")" JOURNAL_ADVICE,
                          j->applied, w->position, newest->number, newest->end);
    return rc == 0 ? torn_measure(w, newest) : rc;
}

static int recover_used(struct walk *w, size_t used)
{
    struct journal *j = w->j;
    struct segment *newest = j->segments[used - 1];
    size_t start = 0;
    int rc = start_find(w, used, &start);
    if (rc == 0)
        rc = segments_walk(w, start, used);
    FAILPOINT("journal.recover");
    if (rc == 0)
        rc = end_check(w, newest);
    if (rc < 0)
        return rc;
    if (newest->end == 0)
        return err_note_set(w->note, -ERR_CORRUPT,
                            "journal/%" PRIu32
                            " could be read a moment ago and cannot now; the disk is "
                            "failing" JOURNAL_ADVICE,
                            newest->number);
    j->current = newest;
    j->generation = newest->generation;
    j->tail = w->steps[w->count - 1].at;
    j->crc = w->crc;
    atomic_store(&j->position, w->position);
    return older_free(w, start, used);
}

static int recover_none(struct walk *w)
{
    struct journal *j = w->j;
    int rc = later_refuse(w, 0);
    if (rc == 0 && j->applied > j->from)
        rc = err_note_set(w->note, -ERR_CORRUPT,
                          "the journal has no entry, though the store took the records %" PRIu64
                          " to %" PRIu64 " from it" JOURNAL_ADVICE,
                          j->from + 1, j->applied);
    atomic_store(&j->position, j->applied);
    return rc;
}

int journal_recover(struct journal *j, struct err_note *note)
{
    struct walk w = {.j = j, .note = note};
    size_t used;
    buf_init(&w.buf);
    int rc = files_find(j, note);
    if (rc == 0)
        rc = segments_look(&w, &used);
    if (rc == 0)
        rc = used > 0 ? recover_used(&w, used) : recover_none(&w);
    if (j->torn_generation > j->generation + GENERATIONS_TORN_MAX)
        j->torn_generation = 0; /* a number that no run of failed starts explains */
    mem_free(w.pages);
    buf_done(&w.buf);
    return rc;
}
