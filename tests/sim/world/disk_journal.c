/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world/disk_journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define SWEEP_BYTES ((size_t)1 << 20)

/* ---- the truth ---- */

static uint64_t position_at(const struct disk *d, size_t frames)
{
    return frames ? d->frames[frames - 1].last : 0;
}

/* Frames of the disk that the store has. */
static void applied_count(struct disk *d)
{
    uint64_t position = d->store->ops->meta(d->store)->position;
    while (d->applied < d->durable && d->frames[d->applied].last <= position)
        d->applied++;
}

static int other_note(struct err_note *note, const char *who, uint64_t last)
{
    return err_note_set(note, -ERR_CORRUPT,
                        "%s gave a frame up to record %llu: not what was appended", who,
                        (unsigned long long)last);
}

/* ---- making it ---- */

void disk_journal_new(struct disk *d, const struct disk_journal_setup *setup)
{
    struct disk_journal *j = calloc(1, sizeof(*j));
    CHECK(j && !d->journal);
    j->files = files_torn_new(setup->seed);
    j->defects = setup->defects;
    j->forgiving = setup->forgiving;
    j->config.segment_bytes = setup->segment_bytes;
    j->config.bytes_max = setup->bytes_max;
#ifdef HF_TEST_HOOKS
    j->config.defects = setup->defects & ~(unsigned)DISK_DEFECT_APPLIED_EARLY;
#endif
    journal_batch_init(&j->batch);
    d->journal = j;
}

void disk_journal_free(struct disk_journal *j)
{
    if (!j)
        return;
    journal_close(j->journal);
    journal_batch_done(&j->batch);
    files_torn_free(j->files);
    free(j);
}

/* What happened to the segments since the last check. A file that was created and lost counts as if
 * it had been used, so the number of segments that were used again is a lower bound. */
static void segments_look(struct disk_journal *j, struct disk_journal_note *note)
{
    struct journal_figures f;
    journal_figures(j->journal, &f);
    j->made += f.segments > j->segments ? f.segments - j->segments : 0;
    j->segments = f.segments;
    j->generation = f.generation;
    if (j->generation > j->made + j->recycled) {
        note->recycled = j->generation - j->made - j->recycled;
        j->recycled += note->recycled;
    }
}

/* ---- recovery ---- */

struct giving {
    struct disk *d;
    disk_frame_fn fn;
    void *ctx;
};

static int given_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
                    struct err_note *note)
{
    struct giving *g = ctx;
    struct disk *d = g->d;
    size_t i = d->journal->given;
    (void)first;
    if (i >= d->durable + d->writing || d->frames[i].last != last ||
        !span_equal(frame, d->frames[i].bytes))
        return other_note(note, "recovery", last);
    d->journal->given++;
    return g->fn(g->ctx, frame, note);
}

static int given_check(const struct disk *d, struct err_note *note)
{
    const struct disk_journal *j = d->journal;
    uint64_t position = position_at(d, j->given);
    if (j->given < d->durable && !j->forgiving)
        return err_note_set(note, -ERR_CORRUPT,
                            "records after %llu are lost; up to %llu were synced",
                            (unsigned long long)position, (unsigned long long)disk_position(d));
    if (j->given > d->durable && j->given < d->durable + d->writing)
        return err_note_set(note, -ERR_CORRUPT, "an entry came back in part, up to record %llu",
                            (unsigned long long)position);
    if (journal_position(j->journal) != position)
        return err_note_set(note, -ERR_CORRUPT, "the journal stands at %llu and gave %llu",
                            (unsigned long long)journal_position(j->journal),
                            (unsigned long long)position);
    return 0;
}

int disk_journal_open(struct disk *d, disk_frame_fn fn, void *ctx, struct disk_journal_note *note)
{
    struct disk_journal *j = d->journal;
    const struct store_meta *meta = d->store->ops->meta(d->store);
    struct giving giving = {d, fn, ctx};
    j->config.files = files_torn_files(j->files);
    j->config.from = meta->journal_from < 0 ? meta->position : (uint64_t)meta->journal_from;
    j->config.applied = meta->position;
    memcpy(j->config.store_id, meta->store_id, sizeof(j->config.store_id));
    applied_count(d);
    j->given = d->applied;
    int rc = journal_open(&j->config, given_cb, &giving, &j->journal, &note->note);
    if (rc != 0) {
        j->journal = NULL;
        return rc;
    }
    note->torn = journal_torn(j->journal).bytes > 0;
    return given_check(d, &note->note);
}

int disk_journal_begin(struct disk *d, struct disk_journal_note *note)
{
    struct disk_journal *j = d->journal;
    const struct store_meta *meta = d->store->ops->meta(d->store);
    bool found = journal_position(j->journal) > j->config.from;
    int rc = journal_begin(j->journal, &note->note);
    if (rc == 0 && meta->journal_from < 0)
        rc = d->store->ops->journal_begun(d->store, &note->note);
    if (rc < 0)
        return rc;
    d->durable = d->count = j->given;
    d->writing = 0;
    j->read = d->applied;
    j->told = meta->position;
    note->repeated = found;
    segments_look(j, note);
    return 0;
}

/* ---- a living process ---- */

int disk_journal_append(struct disk *d, struct disk_journal_note *note)
{
    struct disk_journal *j = d->journal;
    uint64_t bytes = 0;
    CHECK(d->writing > 0 && !j->failed);
    struct span *frames = pool_alloc(&d->pool, d->writing * sizeof(*frames));
    for (size_t i = 0; i < d->writing; i++) {
        frames[i] = d->frames[d->durable + i].bytes;
        bytes += frames[i].len;
    }
    int rc = journal_append(j->journal, frames, d->writing, &note->note);
    j->waiting = rc == -ERR_NO_SPACE;
    j->waits = j->waiting ? j->waits + 1 : 0;
    if (j->waiting)
        d->writing = 0;
    else
        j->failed = rc < 0;
    if (j->failed && journal_append(j->journal, frames, d->writing, NULL) != rc)
        return err_note_set(&note->note, -ERR_CORRUPT, "a failed journal took another entry");
    note->oversize = rc == 0 && bytes > j->config.segment_bytes;
    if (rc == 0)
        segments_look(j, note);
    return rc;
}

int disk_journal_provide(struct disk *d, struct disk_journal_note *note)
{
    struct disk_journal *j = d->journal;
    bool more = true;
    int rc = 0;
    while (rc == 0 && more) {
        rc = journal_provide(j->journal, &more, &note->note);
        segments_look(j, note);
    }
    return rc;
}

/* ---- the sweeper ---- */

static int sweep_read(struct disk *d, size_t bytes, bool *idle, struct err_note *note)
{
    struct disk_journal *j = d->journal;
    int rc = journal_read(j->journal, bytes, &j->batch, note);
    j->taken = 0;
    *idle = rc == 0 && j->batch.count == 0;
    if (*idle && j->read < d->durable)
        return err_note_set(note, -ERR_CORRUPT, "the sweeper read nothing, and there is something");
    for (size_t i = 0; rc == 0 && i < j->batch.count; i++, j->read++)
        if (j->read >= d->durable || !span_equal(j->batch.frames[i], d->frames[j->read].bytes))
            rc = other_note(note, "the sweeper", j->batch.last);
    if (rc == 0 && j->defects & DISK_DEFECT_APPLIED_EARLY)
        journal_applied(j->journal, j->batch.last);
    return rc;
}

int disk_journal_sweep(struct disk *d, size_t frames, size_t bytes, bool *idle,
                       struct err_note *note)
{
    struct disk_journal *j = d->journal;
    uint64_t position = d->store->ops->meta(d->store)->position;
    size_t left = j->batch.count - j->taken, count = frames < left ? frames : left;
    *idle = false;
    if (j->told < position) {
        journal_applied(j->journal, position);
        j->told = position;
        return 0;
    }
    if (left == 0)
        return sweep_read(d, bytes, idle, note);
    int rc = d->store->ops->apply(d->store, j->batch.frames + j->taken, count, note);
    if (rc == 0) {
        j->taken += count;
        applied_count(d);
    }
    return rc;
}

int disk_journal_catch_up(struct disk *d, uint64_t position, struct err_note *note)
{
    bool idle = false;
    int rc = 0;
    while (rc == 0 && !idle && d->journal->told < position)
        rc = disk_journal_sweep(d, SIZE_MAX, SWEEP_BYTES, &idle, note);
    return rc;
}

/* ---- the end of a process ---- */

void disk_journal_end(struct disk *d, bool power)
{
    struct disk_journal *j = d->journal;
    journal_close(j->journal);
    j->journal = NULL;
    j->batch.count = j->taken = 0;
    j->failed = j->waiting = false;
    j->waits = 0;
    d->count = d->durable + d->writing;
    if (power)
        files_torn_crash(j->files);
    else
        files_torn_kill(j->files);
}
