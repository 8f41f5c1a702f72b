/* SPDX-License-Identifier: Apache-2.0 */
/* What the last process left: which segments count and where the journal ends. What lies behind
 * that end is journal/end.c's.
 *
 * Segments are taken by generation. The walk begins with the newest whose first entry is not above
 * what the store lacks first; from there on every entry is checked, and each segment must follow
 * the one before. It does so when its first entry comes after the last entry walked, or instead of
 * the last or the last but one: a server that starts repeats the last entry that it can read. A
 * generation may be absent, since the segment that a process began just before it was killed can be
 * lost with the power while its successor stands; what decides is the chain.
 *
 * Nothing found is trusted to be on the disk: only an entry behind which another was written is
 * known to have been synced. So a segment counts as free here only if a newer one that is sure to
 * be on the disk holds all that the store lacks. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/local/journal/journal_impl.h"
#include "base/failpoint.h"
#include "base/mem.h"

#define STEPS_BACK 2        /* how many entries a segment may stand in for */
#define NUMBER_DIGITS_MAX 9 /* of a file's name */

/* ---- finding the files ---- */

struct finding {
    struct journal *j;
    bool key;
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
    f->key = f->key || strcmp(name, JOURNAL_KEY_NAME) == 0;
    if (f->rc != 0 || !number_parse(name, &number))
        return;
    f->rc = segment_add(f->j, number, size, SEGMENT_BLANK, &s);
    if (f->rc == 0)
        s->there = true;
}

int journal_files_find(struct journal *j, bool *key, struct err_note *note)
{
    struct finding f = {j, false, 0};
    int rc = j->files->ops->list(j->files, file_found_cb, &f, note);
    if (rc == 0 && f.rc < 0)
        rc = err_note_set(note, f.rc, "cannot list the journal: %s", err_text(f.rc));
    for (size_t i = 0; rc == 0 && i < j->count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%" PRIu32, j->segments[i]->number);
        rc = j->files->ops->open(j->files, name, false, &j->segments[i]->file, note);
    }
    *key = f.key;
    return rc;
}

int journal_key_find(struct journal *j, bool there, struct err_note *note)
{
    int rc = journal_key_load(j->files, there, j->store_id, &j->key, note);
    return rc == 0 && journal_key_usable(&j->key) ? journal_seals_open(j, note) : rc;
}

/* ---- the first entry tells what a file holds ---- */

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

/* There is no whole entry at the beginning of the file: it is blank, or the entry is torn, of which
 * journal/end.c tells. No client's bytes ever lie there, so what looks like a header and has a
 * wrong tag and a wrong mark was written with another key. A header that was written in part has
 * zeros for a tag, or the mark of the entry that was there before. */
static int headless_look(struct journal_walk *w, const struct segment *s)
{
    struct journal_entry e;
    struct span page = buf_span(&w->buf);
    if (!journal_entry_tagged(page, &e) || journal_entry_marked(&w->j->reading, page, &e))
        return 0;
    if (!journal_owns(w->j, &e))
        return stranger_note(s, &e, w->note);
    return err_note_set(w->note, -ERR_CORRUPT,
                        "journal/%" PRIu32
                        " was not written with the key in journal/key: files of different copies "
                        "of the store, or of a draft of its format, were mixed; put the right "
                        "ones back" JOURNAL_ADVICE,
                        s->number);
}

static int cut_note(const struct segment *s, const struct journal_entry *e, struct err_note *note)
{
    return err_note_set(note, -ERR_CORRUPT,
                        "journal/%" PRIu32 " has %" PRIu64 " bytes and had %" PRIu64
                        " when it was begun: it was cut" JOURNAL_ADVICE,
                        s->number, s->size, e->segment_bytes);
}

static int segment_look(struct journal_walk *w, struct segment *s)
{
    struct journal_entry e;
    int rc = entry_peek(w->j, s, 0, &w->buf, &e, w->note);
    if (rc == -ERR_CORRUPT)
        return headless_look(w, s);
    if (rc < 0)
        return rc;
    if (!journal_owns(w->j, &e))
        return stranger_note(s, &e, w->note);
    if (s->size != e.segment_bytes)
        return cut_note(s, &e, w->note);
    rc = entry_load(w->j, s, 0, &w->buf, &e, w->note);
    if (rc == -ERR_CORRUPT && e.generation > w->j->torn_generation)
        w->j->torn_generation = e.generation;
    if (rc < 0)
        return rc == -ERR_CORRUPT ? 0 : rc;
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
static int segments_look(struct journal_walk *w, size_t *used)
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

static bool follows(const struct journal_walk *w, const struct segment *s,
                    const struct journal_entry *e)
{
    if (!journal_owns(w->j, e))
        return false;
    if (w->j->defects & JOURNAL_DEFECT_ANY_GENERATION)
        return true;
    return e->generation == s->generation && e->first - 1 == w->position && e->previous == w->crc;
}

static void step_push(struct journal_walk *w, struct segment *s, uint64_t at,
                      const struct journal_entry *e)
{
    if (w->count == JOURNAL_STEPS)
        memmove(w->steps, w->steps + 1, --w->count * sizeof *w->steps);
    w->steps[w->count++] = (struct journal_step){s, at, *e};
    w->position = e->last;
    w->crc = e->crc;
}

/* Goes back to before the last entry, which no longer counts. */
static void step_pop(struct journal_walk *w)
{
    const struct journal_step *last = &w->steps[--w->count];
    last->segment->end = last->at;
    if (last->segment->applied_end > last->at)
        last->segment->applied_end = last->at;
    last->segment->last = w->position = last->entry.first - 1;
    w->crc = last->entry.previous;
}

/* Reads the entry at `at` if it is the next one; -ERR_CORRUPT: it is not. */
static int next_load(struct journal_walk *w, struct segment *s, uint64_t at,
                     struct journal_entry *ret)
{
    int rc = entry_peek(w->j, s, at, &w->buf, ret, w->note);
    if (rc == -ERR_VERSION && ret->generation != s->generation)
        return -ERR_CORRUPT; /* what an older use left behind */
    if (rc < 0)
        return rc;
    return follows(w, s, ret) ? entry_load(w->j, s, at, &w->buf, ret, w->note) : -ERR_CORRUPT;
}

static int segment_walk(struct journal_walk *w, struct segment *s)
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
static int segment_connect(struct journal_walk *w, const struct segment *before,
                           struct segment *next)
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

/* ---- putting it together ---- */

/* The newest segment that begins with something the store has, or with what comes next. */
static int start_find(const struct journal_walk *w, size_t used, size_t *ret)
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

static int segments_walk(struct journal_walk *w, size_t start, size_t used)
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
static int segment_sure(struct journal_walk *w, struct segment *s, const struct segment *next,
                        bool *ret)
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
static int older_free(struct journal_walk *w, size_t start, size_t used)
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

static int end_check(struct journal_walk *w, struct segment *newest)
{
    struct journal *j = w->j;
    int rc = journal_end_check(w, newest);
    if (rc == 0 && w->position < j->applied)
        rc = err_note_set(w->note, -ERR_CORRUPT,
                          "the store has the records up to %" PRIu64
                          ", but the journal ends with %" PRIu64 " (journal/%" PRIu32 " at %" PRIu64
                          ")" JOURNAL_ADVICE,
                          j->applied, w->position, newest->number, newest->end);
    return rc;
}

static int recover_used(struct journal_walk *w, size_t used)
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

static int recover_none(struct journal_walk *w)
{
    struct journal *j = w->j;
    w->position = j->applied;
    int rc = journal_end_check(w, NULL);
    if (rc == 0 && j->applied > j->from)
        rc = err_note_set(w->note, -ERR_CORRUPT,
                          "the journal has no entry, though the store took the records %" PRIu64
                          " to %" PRIu64 " from it" JOURNAL_ADVICE,
                          j->from + 1, j->applied);
    atomic_store(&j->position, j->applied);
    return rc;
}

static int segments_recover(struct journal_walk *w)
{
    const struct journal *j = w->j;
    size_t used = 0;
    int rc = segments_look(w, &used);
    if (rc == 0)
        rc = used > 0 ? recover_used(w, used) : recover_none(w);
    if (rc == 0 && (j->generation | j->torn_generation) > JOURNAL_GENERATION_MAX / 2)
        rc = err_note_set(w->note, -ERR_CORRUPT,
                          "the journal has a generation that no number of starts explains: %" PRIu64
                          " or %" PRIu64 JOURNAL_ADVICE,
                          j->generation, j->torn_generation);
    return rc;
}

static int keyless_recover(struct journal_walk *w)
{
    atomic_store(&w->j->position, w->j->applied);
    return journal_keyless_check(w);
}

int journal_recover(struct journal *j, struct err_note *note)
{
    struct journal_walk w = {.j = j, .note = note};
    bool key = false;
    buf_init(&w.buf);
    int rc = journal_files_find(j, &key, note);
    if (rc == 0)
        rc = journal_key_find(j, key, note);
    if (rc == 0)
        rc = journal_key_usable(&j->key) ? segments_recover(&w) : keyless_recover(&w);
    mem_free(w.pages);
    buf_done(&w.buf);
    return rc;
}
