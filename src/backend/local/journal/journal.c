/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, beginning, appending. What was there before is journal/recover.c's. */
#include "backend/local/journal/journal_impl.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "core/records/frame.h"

#define DELIVER_BYTES (1u << 20) /* at a time, in journal_open */

static const char zero_page[JOURNAL_PAGE];

/* ---- opening ---- */

struct journal *journal_new(const struct journal_config *config, struct err_note *note)
{
    struct journal *j = mem_zalloc(sizeof *j);
    if (!j || uv_mutex_init(&j->lock) != 0) {
        mem_free(j);
        config->files->ops->done(config->files);
        (void)!err_note_set(note, -ERR_NOMEM, "cannot open the journal: out of memory");
        return NULL;
    }
    j->files = config->files;
    memcpy(j->store_id, config->store_id, sizeof j->store_id);
    j->from = config->from;
    j->applied = config->applied;
    j->segment_bytes = config->segment_bytes ? config->segment_bytes : JOURNAL_SEGMENT_BYTES;
    CHECK(j->segment_bytes % JOURNAL_PAGE == 0);
    j->bytes_max = config->bytes_max ? config->bytes_max : JOURNAL_BYTES_MAX;
    if (j->bytes_max < 4 * j->segment_bytes)
        j->bytes_max = 4 * j->segment_bytes;
    j->read_only = config->read_only;
#ifdef HF_TEST_HOOKS
    j->defects = config->defects;
#endif
    buf_init(&j->cursor.entry);
    j->cursor.last = config->applied;
    return j;
}

int journal_seals_open(struct journal *j, struct err_note *note)
{
    int rc = journal_seal_init(&j->reading, j->key.bytes);
    if (rc == 0)
        rc = journal_seal_init(&j->writing, j->key.bytes);
    return rc == 0 ? 0 : err_note_set(note, rc, "cannot open the journal: out of memory");
}

static int batch_deliver(const struct journal_batch *b, journal_frame_fn fn, void *ctx,
                         struct err_note *note)
{
    int rc = 0;
    for (size_t i = 0; i < b->count && rc == 0; i++) {
        struct span rest = b->frames[i];
        struct frame f;
        rc = frame_peek(&rest, &f);
        CHECK(rc == 0); /* it passed with its entry */
        rc = fn(ctx, b->frames[i], f.first, f.first + f.count - 1, note);
    }
    return rc;
}

/* Afterwards the cursor stands again where the applier will begin. */
static int frames_deliver(struct journal *j, journal_frame_fn fn, void *ctx, struct err_note *note)
{
    uint64_t applied = j->cursor.last;
    struct journal_batch b;
    journal_batch_init(&b);
    int rc;
    do {
        rc = journal_read(j, DELIVER_BYTES, &b, note);
        if (rc == 0)
            rc = batch_deliver(&b, fn, ctx, note);
    } while (rc == 0 && b.count > 0);
    journal_batch_done(&b);
    buf_done(&j->cursor.entry);
    j->cursor = (struct journal_cursor){.last = applied};
    return rc;
}

int journal_open(const struct journal_config *config, journal_frame_fn fn, void *ctx,
                 struct journal **ret, struct err_note *note)
{
    struct journal *j = journal_new(config, note);
    if (!j)
        return -ERR_NOMEM;
    int rc = journal_recover(j, note);
    if (rc == 0 && fn)
        rc = frames_deliver(j, fn, ctx, note);
    if (rc != 0) {
        journal_close(j);
        return rc;
    }
    *ret = j;
    return 0;
}

void journal_close(struct journal *j)
{
    if (!j)
        return;
    segments_free(j);
    j->files->ops->done(j->files);
    buf_done(&j->cursor.entry);
    mem_free(j->parts);
    journal_seal_done(&j->reading);
    journal_seal_done(&j->writing);
    explicit_bzero(&j->key, sizeof j->key);
    uv_mutex_destroy(&j->lock);
    mem_free(j);
}

/* ---- writing one entry ---- */

static int parts_make(struct journal *j, const char *header, const struct span *frames,
                      size_t count, size_t padding, struct err_note *note)
{
    if (j->parts_room < count + 2) {
        struct span *parts = mem_regrow(j->parts, count + 2, sizeof *parts);
        if (!parts)
            return err_note_set(note, -ERR_NOMEM, "cannot write the journal: out of memory");
        j->parts = parts;
        j->parts_room = count + 2;
    }
    j->parts[0] = span_of(header, JOURNAL_ENTRY_HEADER_BYTES);
    memcpy(j->parts + 1, frames, count * sizeof *frames);
    j->parts[count + 1] = span_of(zero_page, padding);
    return 0;
}

#ifdef HF_TEST_HOOKS
/* Writes the first half of the bytes and dies. */
_Noreturn static void half_write(struct journal *j, const struct segment *s, uint64_t at,
                                 uint64_t bytes, size_t count)
{
    uint64_t left = bytes / 2;
    size_t n = 0;
    for (; n < count && left > 0; n++) {
        if (j->parts[n].len > left)
            j->parts[n].len = (size_t)left;
        left -= j->parts[n].len;
    }
    (void)j->files->ops->write(j->files, s->file, at, j->parts, n, NULL);
    failpoint_die();
}
#endif

/* One write, one sync. */
static int entry_put(struct journal *j, const struct segment *s, uint64_t at, uint64_t bytes,
                     size_t count, struct err_note *note)
{
    FAILPOINT("journal.write");
#ifdef HF_TEST_HOOKS
    if (failpoint_due("journal.write.half"))
        half_write(j, s, at, bytes, count);
#endif
    (void)bytes;
    int rc = j->files->ops->write(j->files, s->file, at, j->parts, count, note);
    if (rc == -ERR_NO_SPACE)
        return err_note_set(note, -ERR_IO,
                            "journal/%" PRIu32 " at %" PRIu64
                            ": the disk is full inside a segment that was filled with zeros in "
                            "advance; keep the journal on a file system that does not copy on "
                            "write, and free some space",
                            s->number, at);
    if (rc < 0)
        return rc;
    FAILPOINT("journal.sync");
#ifdef HF_TEST_HOOKS
    if (j->defects & JOURNAL_DEFECT_NO_SYNC)
        return 0;
#endif
    rc = j->files->ops->sync(j->files, s->file, note);
    FAILPOINT("journal.synced");
    return rc;
}

/* Never that of an entry which was torn: its pages may be completed by a later one of the same
 * content that is torn in its turn, and then two segments would have one generation. */
static uint64_t generation_next(const struct journal *j)
{
    return (j->torn_generation > j->generation ? j->torn_generation : j->generation) + 1;
}

/* Completes e and writes it at the end of s, which is the current segment or a taken one. */
static int entry_write(struct journal *j, struct segment *s, struct journal_entry *e,
                       const struct span *frames, size_t count, struct err_note *note)
{
    char header[JOURNAL_ENTRY_HEADER_BYTES];
    uint64_t bytes = journal_entry_bytes(e->length);
    uint64_t at = s == j->current ? s->end : 0;
    e->generation = s == j->current ? j->generation : generation_next(j);
    memcpy(e->store_id, j->store_id, sizeof e->store_id);
    e->segment_bytes = s->size;
    e->at = at;
    int rc = journal_entry_seal(&j->writing, e, frames, count, header);
    if (rc < 0)
        return err_note_set(note, rc, "cannot tag a journal entry: out of memory");
    rc = parts_make(j, header, frames, count,
                    (size_t)(bytes - JOURNAL_ENTRY_HEADER_BYTES - e->length), note);
    if (rc < 0)
        return rc;
    if (at == 0 && s->generation > 0)
        FAILPOINT("journal.recycle");
    return entry_put(j, s, at, bytes, count + 2, note);
}

/* The entry is synced: it counts from now on. */
static void entry_publish(struct journal *j, struct segment *s, const struct journal_entry *e)
{
    uint64_t bytes = journal_entry_bytes(e->length);
    uv_mutex_lock(&j->lock);
    if (s != j->current) {
        s->state = SEGMENT_USED;
        s->generation = e->generation;
        s->first = e->first;
        s->previous = e->previous;
        s->end = s->applied_end = 0;
        j->current = s;
        j->generation = e->generation;
    }
    j->tail = s->end;
    s->end += bytes;
    s->last = e->last;
    j->crc = e->crc;
    j->need = 0;
    atomic_store(&j->position, e->last);
    segments_release(j);
    uv_mutex_unlock(&j->lock);
}

/* ---- appending ---- */

static int journal_fail(struct journal *j, int rc, const struct err_note *why,
                        struct err_note *note)
{
    j->failed = rc;
    j->failure = *why;
    return err_note_set(note, rc, "%s", j->failure.text);
}

/* Positions and length of the entry that these frames will be. */
static int entry_describe(const struct journal *j, const struct span *frames, size_t count,
                          struct journal_entry *ret, struct err_note *note)
{
    uint64_t length = 0, next = atomic_load(&j->position) + 1;
    CHECK(count > 0);
    *ret = (struct journal_entry){.first = next, .previous = j->crc};
    for (size_t i = 0; i < count; i++) {
        struct span rest = frames[i];
        struct frame f;
        int rc = frame_peek(&rest, &f);
        CHECK(rc == 0 && rest.len == 0 && f.first == next && f.count > 0);
        next += f.count;
        length += frames[i].len;
    }
    if (length > JOURNAL_BODY_BYTES_MAX)
        return err_note_set(note, -ERR_TOO_BIG,
                            "a journal entry of %" PRIu64 " bytes; at most %u are possible", length,
                            JOURNAL_BODY_BYTES_MAX);
    ret->length = (uint32_t)length;
    ret->last = next - 1;
    return 0;
}

/* The current segment, or a free one. */
static struct segment *place_find(struct journal *j, uint64_t bytes)
{
    if (j->current && j->current->size - j->current->end >= bytes)
        return j->current;
    uv_mutex_lock(&j->lock);
    struct segment *s = segment_take(j, bytes);
    if (!s)
        j->need = bytes;
    uv_mutex_unlock(&j->lock);
    return s;
}

int journal_append(struct journal *j, const struct span *frames, size_t count,
                   struct err_note *note)
{
    CHECK(j->begun);
    if (j->failed)
        return err_note_set(note, j->failed, "%s", j->failure.text);
    struct err_note why = {""};
    struct journal_entry e;
    int rc = entry_describe(j, frames, count, &e, &why);
    if (rc < 0)
        return journal_fail(j, rc, &why, note);
    struct segment *s = place_find(j, journal_entry_bytes(e.length));
    if (!s)
        return err_note_set(note, -ERR_NO_SPACE, "no journal segment is free for %" PRIu64 " bytes",
                            journal_entry_bytes(e.length));
    rc = entry_write(j, s, &e, frames, count, &why);
    if (rc < 0)
        return journal_fail(j, rc, &why, note);
    entry_publish(j, s, &e);
    return 0;
}

/* ---- beginning ---- */

/* Files without an entry: those of the right size are as good as new once they are synced, the rest
 * were never finished. */
static int blanks_settle(struct journal *j, struct err_note *note)
{
    for (size_t i = j->count; i-- > 0;) { /* removing moves the last one here */
        struct segment *s = j->segments[i];
        int rc = 0;
        if (s->state != SEGMENT_BLANK)
            continue;
        if (s->size == j->segment_bytes) {
            rc = j->files->ops->sync(j->files, s->file, note);
            s->state = SEGMENT_FREE;
        } else {
            s->state = SEGMENT_SURPLUS;
            rc = segment_remove(j, s, note);
        }
        if (rc < 0)
            return rc;
    }
    return j->files->ops->sync_names(j->files, note);
}

/* A free segment with room for this many bytes; it is created if no such segment exists. */
static int begin_take(struct journal *j, uint64_t bytes, struct segment **ret,
                      struct err_note *note)
{
    struct segment *s = segment_take(j, bytes);
    if (!s) {
        int rc = segment_make(j, bytes > j->segment_bytes ? bytes : j->segment_bytes, note);
        if (rc < 0)
            return rc;
        s = segment_take(j, bytes);
    }
    *ret = s;
    return 0;
}

/* The last entry, which recovery has read before. */
static int tail_load(struct journal *j, struct buf *entry, struct journal_entry *ret,
                     struct err_note *note)
{
    int rc = entry_peek(j, j->current, j->tail, entry, ret, note);
    if (rc == 0)
        rc = entry_load(j, j->current, j->tail, entry, ret, note);
    if (rc != -ERR_CORRUPT)
        return rc;
    return err_note_set(note, rc,
                        "journal/%" PRIu32 " at %" PRIu64
                        ": the last entry could be read a moment ago and cannot now; the disk "
                        "is failing" JOURNAL_ADVICE,
                        j->current->number, j->tail);
}

/* Writes the last entry once more, into its own segment, since it was merely found. */
static int tail_repeat(struct journal *j, struct err_note *note)
{
    struct segment *old = j->current, *s;
    uint64_t at = j->tail;
    struct journal_entry e;
    struct buf entry;
    buf_init(&entry);
    int rc = tail_load(j, &entry, &e, note);
    if (rc == 0)
        rc = begin_take(j, journal_entry_bytes(e.length), &s, note);
    if (rc == 0) {
        struct span body = entry_body(&entry, &e);
        FAILPOINT("journal.begin");
        rc = entry_write(j, s, &e, &body, 1, note);
    }
    if (rc == 0) {
        old->last = e.first - 1;
        old->end = at;
        entry_publish(j, s, &e);
    }
    buf_done(&entry);
    return rc;
}

/* Older segments of which nothing counts now that the last entry is elsewhere. Their first page
 * goes, because the next process could not know that they are not the only copy that reached the
 * disk, and would need yet another file. So does that of a torn first entry, or it would be told at
 * every start. */
static int superseded_blank(struct journal *j, struct err_note *note)
{
    struct span zeros = span_of(zero_page, sizeof zero_page);
    for (size_t i = 0; i < j->count; i++) {
        struct segment *s = j->segments[i];
        bool superseded = s->state == SEGMENT_USED && !segment_counts(s);
        if (!superseded && !(s->state == SEGMENT_FREE && s->head_torn))
            continue;
        int rc = j->files->ops->write(j->files, s->file, 0, &zeros, 1, note);
        if (rc == 0)
            rc = j->files->ops->sync(j->files, s->file, note);
        if (rc < 0)
            return rc;
        s->generation = 0;
        s->state = SEGMENT_FREE;
        s->head_torn = false;
    }
    return 0;
}

struct segment *journal_segment_of(const struct journal *j, uint32_t number)
{
    struct segment *s = NULL;
    for (size_t i = 0; i < j->count && !s; i++)
        if (j->segments[i]->number == number)
            s = j->segments[i];
    return s;
}

/* Removes the header of an incomplete entry behind the last one. If it stayed, the next use of the
 * segment could end just before it, and a start would report an entry of another time: when its
 * header is damaged, its generation cannot be trusted. Its bytes are saved before (torn.c). An
 * incomplete first entry of a segment is removed by superseded_blank. */
static int torn_blank(struct journal *j, struct err_note *note)
{
    struct span zeros = span_of(zero_page, sizeof zero_page);
    if (j->torn.bytes == 0 || j->torn.at == 0)
        return 0;
    struct segment *s = journal_segment_of(j, j->torn.segment);
    int rc = j->files->ops->write(j->files, s->file, j->torn.at, &zeros, 1, note);
    return rc ? rc : j->files->ops->sync(j->files, s->file, note);
}

/* Without room for a segment to repeat it in, the last entry is written again where it is: better
 * than not to start on a full disk. A sync alone would not do, since an earlier one may have failed
 * and left the pages marked as written. What is appended then follows in the same segment. */
static int tail_keep(struct journal *j, struct err_note *note)
{
    struct segment *s = j->current;
    struct journal_entry e;
    struct buf entry;
    buf_init(&entry);
    int rc = tail_load(j, &entry, &e, note);
    if (rc == 0) {
        struct span whole = span_of(entry.data, JOURNAL_ENTRY_HEADER_BYTES + (size_t)e.length);
        rc = j->files->ops->write(j->files, s->file, j->tail, &whole, 1, note);
    }
    buf_done(&entry);
    return rc ? rc : j->files->ops->sync(j->files, s->file, note);
}

/* The key is on the disk before the first entry that needs it. */
static int key_begin(struct journal *j, struct err_note *note)
{
    bool usable = journal_key_usable(&j->key);
    int rc = 0;
    if (!j->current)
        rc = journal_key_begin(j->files, j->store_id, &j->key, note);
    else if (j->key.state == JOURNAL_KEY_HALF)
        rc = journal_key_mend(j->files, j->store_id, &j->key, note);
    if (j->current && rc == -ERR_NO_SPACE)
        rc = 0; /* the other copy does; a full disk must not keep the server from starting */
    return rc == 0 && !usable ? journal_seals_open(j, note) : rc;
}

int journal_begin(struct journal *j, struct err_note *note)
{
    CHECK(!j->begun && !j->read_only);
    int rc = key_begin(j, note);
    if (rc == 0)
        rc = blanks_settle(j, note);
    if (rc == 0)
        rc = torn_blank(j, note);
    if (rc == 0 && j->current) {
        rc = tail_repeat(j, note);
        if (rc == -ERR_NO_SPACE)
            rc = tail_keep(j, note);
        if (rc == 0)
            rc = superseded_blank(j, note);
    } else if (rc == 0) {
        struct segment *s;
        rc = begin_take(j, j->segment_bytes, &s, note);
        if (rc == 0)
            s->state = SEGMENT_FREE; /* it waits for the first append */
        if (rc == 0)
            rc = superseded_blank(j, note);
    }
    if (rc < 0)
        return rc;
    uv_mutex_lock(&j->lock);
    j->begun = true;
    segments_release(j);
    uv_mutex_unlock(&j->lock);
    return 0;
}

/* ---- what is known ---- */

uint64_t journal_position(const struct journal *j)
{
    return atomic_load(&j->position);
}

struct journal_torn journal_torn(const struct journal *j)
{
    return j->torn;
}

const char *journal_key_problem(const struct journal *j)
{
    return j->key.state == JOURNAL_KEY_HALF
               ? "journal/key: one of its two copies is damaged; the next start of the server "
                 "writes it again"
               : NULL;
}

void journal_figures(struct journal *j, struct journal_figures *ret)
{
    uv_mutex_lock(&j->lock);
    *ret = (struct journal_figures){
        .position = atomic_load(&j->position),
        .applied = j->applied,
        .segment_bytes = j->segment_bytes,
        .bytes_max = j->bytes_max,
        .segments = (uint32_t)j->count,
        .generation = j->generation,
        .wanting = j->need > 0,
    };
    for (size_t i = 0; i < j->count; i++) {
        const struct segment *s = j->segments[i];
        ret->bytes += s->size;
        ret->free += s->state == SEGMENT_FREE;
        if (segment_counts(s) && s->last > j->applied)
            ret->bytes_unapplied += s->end - s->applied_end;
    }
    uv_mutex_unlock(&j->lock);
}
