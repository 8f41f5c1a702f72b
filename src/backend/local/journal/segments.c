/* SPDX-License-Identifier: Apache-2.0 */
/* The table of segments: making them, using them again, removing what is too many. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/local/journal/journal_impl.h"
#include "base/check.h"
#include "base/failpoint.h"
#include "base/mem.h"

#define ZEROS_BYTES (1u << 20)

struct name {
    char text[16];
};

static struct name segment_name(const struct segment *s)
{
    struct name n;
    snprintf(n.text, sizeof n.text, "%" PRIu32, s->number);
    return n;
}

/* ---- the table ---- */

int segment_add(struct journal *j, uint32_t number, uint64_t size, enum segment_state state,
                struct segment **ret)
{
    struct segment *s = mem_zalloc(sizeof *s);
    if (!s)
        return -ERR_NOMEM;
    *s = (struct segment){.state = state, .number = number, .size = size, .file = -1};
    uv_mutex_lock(&j->lock);
    struct segment **segments = mem_more(j->segments, j->count, &j->room, sizeof *segments);
    int rc = segments ? 0 : -ERR_NOMEM;
    if (rc == 0) {
        j->segments = segments;
        j->segments[j->count++] = s;
    }
    uv_mutex_unlock(&j->lock);
    if (rc < 0)
        mem_free(s);
    else
        *ret = s;
    return rc;
}

static void segment_close(struct journal *j, struct segment *s)
{
    if (s->file >= 0)
        j->files->ops->close(j->files, s->file);
    s->file = -1;
}

static void segment_drop(struct journal *j, struct segment *s)
{
    uv_mutex_lock(&j->lock);
    size_t i = 0;
    while (j->segments[i] != s)
        i++;
    j->segments[i] = j->segments[--j->count];
    uv_mutex_unlock(&j->lock);
    mem_free(s);
}

void segments_free(struct journal *j)
{
    for (size_t i = 0; i < j->count; i++) {
        segment_close(j, j->segments[i]);
        mem_free(j->segments[i]);
    }
    mem_free(j->segments);
    j->segments = NULL;
    j->count = 0;
}

/* The lowest number that no file has. */
static uint32_t number_unused(const struct journal *j)
{
    uint32_t number = 0;
    bool used = true;
    while (used) {
        number++;
        used = false;
        for (size_t i = 0; i < j->count && !used; i++)
            used = j->segments[i]->number == number;
    }
    return number;
}

/* ---- making and removing files ---- */

static int zeros_write(struct journal *j, struct segment *s, uint64_t size, struct err_note *note)
{
    size_t part = size < ZEROS_BYTES ? (size_t)size : ZEROS_BYTES;
    char *zeros = mem_zalloc(part);
    int rc =
        zeros ? 0 : err_note_set(note, -ERR_NOMEM, "cannot create a journal segment: no memory");
    for (uint64_t at = 0; rc == 0 && at < size; at += part) {
        struct span bytes = span_of(zeros, size - at < part ? (size_t)(size - at) : part);
        rc = j->files->ops->write(j->files, s->file, at, &bytes, 1, note);
    }
    mem_free(zeros);
    return rc;
}

static int file_make(struct journal *j, struct segment *s, uint64_t size, struct err_note *note)
{
    int rc = j->files->ops->open(j->files, segment_name(s).text, true, &s->file, note);
    s->there = rc == 0;
    if (rc == 0)
        rc = zeros_write(j, s, size, note);
    FAILPOINT("journal.segment.make");
    if (rc == 0)
        rc = j->files->ops->sync(j->files, s->file, note);
    if (rc == 0)
        rc = j->files->ops->sync_names(j->files, note);
    return rc;
}

int segment_make(struct journal *j, uint64_t size, struct err_note *note)
{
    struct segment *s;
    uv_mutex_lock(&j->lock);
    uint32_t number = number_unused(j);
    uv_mutex_unlock(&j->lock);
    if (segment_add(j, number, size, SEGMENT_MAKING, &s) < 0)
        return err_note_set(note, -ERR_NOMEM, "cannot create a journal segment: out of memory");
    int rc = file_make(j, s, size, note);
    uv_mutex_lock(&j->lock);
    s->state = rc == 0 ? SEGMENT_FREE : SEGMENT_SURPLUS;
    uv_mutex_unlock(&j->lock);
    if (rc < 0 && segment_remove(j, s, NULL) < 0)
        return rc; /* it stays surplus; its removal is tried again */
    return rc;
}

int segment_remove(struct journal *j, struct segment *s, struct err_note *note)
{
    CHECK(s->state == SEGMENT_SURPLUS);
    segment_close(j, s);
    int rc = s->there ? j->files->ops->remove(j->files, segment_name(s).text, note) : 0;
    if (rc < 0)
        return rc;
    segment_drop(j, s);
    return j->files->ops->sync_names(j->files, note);
}

/* ---- using them ---- */

/* Whether an entry of this many bytes can begin it. One that was created for a large entry is not
 * for small ones: it would never go away. */
static bool serves(const struct journal *j, const struct segment *s, uint64_t bytes)
{
    return s->state == SEGMENT_FREE && s->size >= bytes &&
           (s->size == j->segment_bytes || bytes > j->segment_bytes);
}

#ifdef HF_TEST_HOOKS
/* The oldest that holds something still, to play the mistake of using it too early. */
static struct segment *take_early(struct journal *j, uint64_t bytes)
{
    struct segment *best = NULL;
    for (size_t i = 0; i < j->count; i++) {
        struct segment *s = j->segments[i];
        if (s->state == SEGMENT_USED && s != j->current && s->size >= bytes &&
            (!best || s->generation < best->generation))
            best = s;
    }
    return best;
}
#endif

struct segment *segment_take(struct journal *j, uint64_t bytes)
{
    struct segment *best = NULL;
    for (size_t i = 0; i < j->count && !best; i++)
        if (serves(j, j->segments[i], bytes))
            best = j->segments[i];
#ifdef HF_TEST_HOOKS
    if (j->defects & JOURNAL_DEFECT_RECYCLE_EARLY && take_early(j, bytes))
        best = take_early(j, bytes);
#endif
    if (best)
        best->state = SEGMENT_TAKEN;
    return best;
}

static uint32_t busy_count(const struct journal *j)
{
    uint32_t busy = 0;
    for (size_t i = 0; i < j->count; i++)
        busy += j->segments[i]->state == SEGMENT_USED || j->segments[i]->state == SEGMENT_TAKEN;
    return busy;
}

void segments_release(struct journal *j)
{
    /* Before that the newest entry is merely found, and what is older may be needed again. */
    if (!j->begun)
        return;
    for (size_t i = 0; i < j->count; i++) {
        struct segment *s = j->segments[i];
        if (s->state == SEGMENT_USED && s != j->current &&
            (s->last <= j->applied || !segment_counts(s)))
            s->state = SEGMENT_FREE;
    }
}

/* How far the cursor's segment is applied is known when all that was read of it is. */
static void applied_note(struct journal *j)
{
    const struct journal_cursor *c = &j->cursor;
    for (size_t i = 0; i < j->count; i++) {
        struct segment *s = j->segments[i];
        if (s->state == SEGMENT_USED && s->generation == c->generation && c->rest.len == 0 &&
            c->last <= j->applied)
            s->applied_end = c->at;
    }
}

void journal_applied(struct journal *j, uint64_t position)
{
    uv_mutex_lock(&j->lock);
    if (position > j->applied)
        j->applied = position;
    applied_note(j);
    /* The peak sinks slowly: a sweep frees many segments at once that are needed again soon. */
    uint32_t busy = busy_count(j);
    j->busy_peak = busy >= j->busy_peak ? busy : j->busy_peak - (j->busy_peak - busy + 7) / 8;
    segments_release(j);
    uv_mutex_unlock(&j->lock);
}

void journal_economize(struct journal *j)
{
    uv_mutex_lock(&j->lock);
    j->busy_peak = busy_count(j);
    uv_mutex_unlock(&j->lock);
}

/* ---- the helper ---- */

static uint32_t spare_count(const struct journal *j)
{
    uint32_t spares = 0;
    for (size_t i = 0; i < j->count; i++)
        spares += j->segments[i]->state == SEGMENT_FREE && j->segments[i]->size == j->segment_bytes;
    return spares;
}

static uint64_t bytes_count(const struct journal *j)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < j->count; i++)
        bytes += j->segments[i]->size;
    return bytes;
}

/* One of another size serves a waiting append or nothing; of the common size there can be too many.
 */
static bool too_much(const struct journal *j, const struct segment *s)
{
    if (s->state != SEGMENT_FREE)
        return s->state == SEGMENT_SURPLUS;
    if (s->size != j->segment_bytes)
        return j->need == 0 || !serves(j, s, j->need);
    return spare_count(j) > JOURNAL_SPARES &&
           spare_count(j) + busy_count(j) > j->busy_peak + JOURNAL_SPARES;
}

/* Marks one as surplus, so that the writer does not take it; NULL: none is surplus. */
static struct segment *victim_pick(struct journal *j)
{
    for (size_t i = 0; i < j->count; i++) {
        if (too_much(j, j->segments[i])) {
            j->segments[i]->state = SEGMENT_SURPLUS;
            return j->segments[i];
        }
    }
    return NULL;
}

/* The size of the segment that should be created; 0: none. */
static uint64_t size_wanted(const struct journal *j)
{
    uint64_t size = 0;
    bool served = j->need == 0;
    for (size_t i = 0; i < j->count && !served; i++)
        served = serves(j, j->segments[i], j->need);
    if (!served)
        size = j->need > j->segment_bytes ? j->need : j->segment_bytes;
    else if (spare_count(j) < JOURNAL_SPARES)
        size = j->segment_bytes;
    /* Beyond the limit only when waiting would not help. */
    bool stuck = !served && j->applied >= atomic_load(&j->position);
    return bytes_count(j) + size <= j->bytes_max || stuck ? size : 0;
}

/* A larger one has no place on a full disk while many of the common size lie idle: these go first.
 * Else an entry larger than a segment would wait for ever, and all behind it. */
static bool makes_place(struct journal *j, uint64_t size)
{
    uv_mutex_lock(&j->lock);
    bool idle = size > j->segment_bytes && spare_count(j) > JOURNAL_SPARES;
    if (idle)
        j->busy_peak = busy_count(j);
    uv_mutex_unlock(&j->lock);
    return idle;
}

int journal_provide(struct journal *j, bool *more, struct err_note *note)
{
    *more = false;
    uv_mutex_lock(&j->lock);
    struct segment *victim = victim_pick(j);
    uint64_t size = victim ? 0 : size_wanted(j);
    uv_mutex_unlock(&j->lock);
    int rc = victim ? segment_remove(j, victim, note) : 0;
    if (rc == 0 && size > 0)
        rc = segment_make(j, size, note);
    if (rc == -ERR_NO_SPACE && makes_place(j, size))
        rc = 0;
    uv_mutex_lock(&j->lock);
    for (size_t i = 0; rc == 0 && i < j->count && !*more; i++)
        *more = too_much(j, j->segments[i]);
    *more = *more || (rc == 0 && size_wanted(j) > 0);
    uv_mutex_unlock(&j->lock);
    return rc;
}
