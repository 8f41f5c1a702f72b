/* SPDX-License-Identifier: Apache-2.0 */
/* See applier.h. */
#include "backend/local/applier.h"

#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "backend/local/store/disk_reserve.h"
#include "base/check.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "base/system/clock.h"

/* The views are about a second behind: this leaves the rest of it to the sweep. After a long sweep
 * the next one comes later, so that three quarters of the time remain for other work. Fewer and
 * larger sweeps cost less, because more records cancel each other out and more rows share a page.
 */
#define SWEEP_AFTER_NS UINT64_C(750000000)
#define SWEEP_AFTER_MAX_NS UINT64_C(5000000000)
#define SWEEP_SHARE 4u
#define SWEEP_BYTES (UINT64_C(32) << 20)
#define SWOLLEN_BYTES (UINT64_C(4) << 20)
#define SLIM_EVERY_NS UINT64_C(60000000000)
#define ROOM_FACTOR 2u /* a record may be in SQLite's WAL and in its file at the same time */
/* below this, what was swept is checkpointed into SQLite's file at once */
#define ROOM_SHORT (UINT64_C(64) << 20)
/* after this many synced bytes the free space is read again */
#define LOOK_BYTES (UINT64_C(1) << 20)
#define PARTS_FULL 16u /* while space is short, a batch is applied in this many parts … */
#define WHOLE_BYTES (UINT64_C(128) << 20) /* … or together with what has been added since */
#define FULL_RETRY_NS UINT64_C(200000000)
#define TIDY_AFTER_NS UINT64_C(1000000000)

struct applier {
    struct applier_config config;
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t wake;
    uint64_t durable, wanted, bytes; /* under lock; bytes: since the last sweep began */
    /* under lock: ns since when a record has waited; 0 = none waits */
    uint64_t since;
    /* under lock: ns that a record may wait, unless it is wanted earlier */
    uint64_t after;
    /* under lock: free bytes on the disk, and bytes synced since they were read */
    uint64_t room, unseen;
    bool stopping;              /* under lock */
    struct applier_state at;    /* under lock */
    struct journal_batch batch; /* used by the thread only */
    /* used by the thread only: frames of the batch that are applied */
    size_t taken;
    /* used by the thread only: the next attempt while space is short takes the whole journal … */
    bool whole;
    uint64_t tried; /* … and the position up to which the last such attempt went */
    /* used by the thread only: a sweep allocated memory that is not needed while idle */
    bool swollen;
    uint64_t slimmed; /* used by the thread only: ns, when memory was last returned */
};

static void note_room(struct applier *a)
{
    uint64_t room = disk_reserve_room(a->config.reserve);
    uv_mutex_lock(&a->lock);
    a->room = room;
    a->unseen = 0;
    uv_mutex_unlock(&a->lock);
}

void applier_synced(struct applier *a, uint64_t position, uint64_t bytes)
{
    uv_mutex_lock(&a->lock);
    /* A sweep may have read it before this call. */
    bool first = a->since == 0 && position > a->at.applied;
    bool much = a->bytes < SWEEP_BYTES && a->bytes + bytes >= SWEEP_BYTES;
    a->durable = position;
    a->bytes += bytes;
    a->unseen += bytes;
    bool look = a->unseen >= LOOK_BYTES;
    if (first)
        a->since = clock_ns();
    if (first || much)
        uv_cond_signal(&a->wake);
    uv_mutex_unlock(&a->lock);
    if (look)
        note_room(a); /* the journal itself may have grown */
}

void applier_want(struct applier *a, uint64_t position)
{
    uv_mutex_lock(&a->lock);
    if (position > a->wanted) {
        a->wanted = position;
        uv_cond_signal(&a->wake);
    }
    uv_mutex_unlock(&a->lock);
}

void applier_state(struct applier *a, struct applier_state *ret)
{
    struct journal_figures journal;
    journal_figures(a->config.journal, &journal);
    uv_mutex_lock(&a->lock);
    *ret = a->at;
    ret->full = a->at.full || journal.bytes_unapplied > a->room / ROOM_FACTOR;
    ret->unapplied_ms = a->since ? (clock_ns() - a->since) / 1000000 : 0;
    uv_mutex_unlock(&a->lock);
}

/* ---- room ---- */

static void tell_change(struct applier *a, bool full, const struct err_note *none)
{
    if (full)
        log_event(a->config.log, LOG_ERROR, "disk_full",
                  LOG_TEXT("why", none ? none->text
                                       : "there is not enough free space for the reserve file"),
                  LOG_TEXT("effect", "new jobs are refused"));
    else
        log_event(a->config.log, LOG_INFO, "disk_space_available");
}

/* Reads the free space; `none` says why the last sweep found no space, NULL that it found some. */
static void look_at_room(struct applier *a, const struct err_note *none)
{
    struct disk_reserve *reserve = a->config.reserve;
    if (!none)
        disk_reserve_create(reserve);
    bool full = none || disk_reserve_lacks_room(reserve);
    note_room(a);
    uv_mutex_lock(&a->lock);
    bool was = a->at.full;
    a->at.full = full;
    uv_mutex_unlock(&a->lock);
    if (was != full)
        tell_change(a, full, none);
}

/* ---- a sweep ---- */

/* Returns how long records may wait after a sweep that took `ns`; `since` is when that sweep
 * began. */
static uint64_t sweep_after(uint64_t ns)
{
    if (ns >= SWEEP_AFTER_MAX_NS / SWEEP_SHARE)
        return SWEEP_AFTER_MAX_NS;
    return ns * SWEEP_SHARE > SWEEP_AFTER_NS ? ns * SWEEP_SHARE : SWEEP_AFTER_NS;
}

/* `upto` was durable at `began`: records that the store lacks after that became durable later. */
static void report(struct applier *a, int err, const struct err_note *note, uint64_t upto,
                   uint64_t began)
{
    uint64_t ns = clock_ns() - began;
    look_at_room(a, err == -ERR_NO_SPACE ? note : NULL);
    uv_mutex_lock(&a->lock);
    if (!err) {
        a->at.applied = a->config.store->ops->meta(a->config.store)->position;
        a->at.sweeps++;
        a->at.sweep_ns_total += ns;
        a->at.sweep_ns_last = ns;
        a->after = sweep_after(ns);
        if (a->at.applied >= a->durable)
            a->since = 0;
        else if (a->at.applied >= upto)
            a->since = began;
    } else {
        if (err != -ERR_NO_SPACE)
            a->at.error = err;
        snprintf(a->at.why, sizeof(a->at.why), "%s", note->text);
    }
    uv_mutex_unlock(&a->lock);
    a->config.notify(a->config.ctx);
}

/* Makes sure that there is a batch, and says how many of its frames go into one transaction. While
 * space is short that is a part of the batch or, alternately, everything in the journal: jobs that
 * have ended since the batch was read need no space any more. */
static int batch_prepare(struct applier *a, uint64_t upto, size_t *ret, struct err_note *note)
{
    struct journal_batch *batch = &a->batch;
    bool whole = a->at.full && a->whole && upto > a->tried;
    int err = 0;
    if (whole)
        journal_reread(a->config.journal);
    if (whole || a->taken == batch->count) {
        err = journal_read(a->config.journal, whole ? WHOLE_BYTES : SWEEP_BYTES, batch, note);
        a->taken = 0;
    }
    a->swollen = a->swollen || batch->bytes.len >= SWOLLEN_BYTES;
    size_t left = batch->count - a->taken, part = batch->count / PARTS_FULL + 1;
    *ret = a->at.full && !whole && part < left ? part : left;
    a->tried = *ret == left ? batch->last : a->tried;
    a->whole = a->at.full && !whole;
    return err;
}

/* Applies the current batch, or the next one. */
static int sweep(struct applier *a, struct err_note *note)
{
    struct store *store = a->config.store;
    size_t count;
    uv_mutex_lock(&a->lock);
    uint64_t upto = a->durable, began = clock_ns();
    uv_mutex_unlock(&a->lock);
    FAILPOINT("sweep.begin");
    int err = batch_prepare(a, upto, &count, note);
    if (!err && count > 0)
        err = store->ops->apply(store, a->batch.frames + a->taken, count, note);
    if (!err) {
        a->taken += count;
        journal_applied(a->config.journal, store->ops->meta(store)->position);
    }
    report(a, err, note, upto, began);
    return err;
}

/* ---- waiting ---- */

/* Called under the lock. */
static bool due(const struct applier *a)
{
    if (a->at.applied >= a->durable)
        return false;
    return a->stopping || a->wanted > a->at.applied || a->bytes >= SWEEP_BYTES ||
           clock_ns() - a->since >= a->after;
}

/* Returns space to the file system while no one waits. False: nothing is left to do for now, or it
 * failed permanently (a failed sync is as fatal here as in a commit). Called without the lock. */
static bool tidy(struct applier *a)
{
    struct err_note note = {""};
    bool more = false;
    int err = a->config.store->ops->tidy(a->config.store, &more, &note);
    if (err == -ERR_NO_SPACE)
        log_event(a->config.log, LOG_WARN, "store_cleanup_failed", LOG_TEXT("why", note.text));
    else if (err)
        report(a, err, &note, 0, clock_ns());
    else
        look_at_room(a, NULL);
    return more && !err;
}

/* Returns the memory of a large sweep once the applier is idle; not often, because threads that
 * allocate may have to wait meanwhile. */
static void slim(struct applier *a)
{
    if (a->taken == a->batch.count) {
        journal_batch_done(&a->batch);
        journal_batch_init(&a->batch);
        a->taken = 0;
    }
    mem_trim();
    a->swollen = false;
    a->slimmed = clock_ns();
}

/* ---- compacting ---- */

static void compact_report(struct applier *a, int err, uint64_t left)
{
    uv_mutex_lock(&a->lock);
    bool over = a->at.compacting && (err || left == 0);
    a->at.compact_left = left;
    a->at.compact_error = err;
    a->at.compacting = a->at.compacting && !over;
    uv_mutex_unlock(&a->lock);
    if (over)
        a->config.notify(a->config.ctx);
}

/* Called without the lock. A failed sync is as fatal here as in a commit. */
static void compact_slice(struct applier *a)
{
    struct err_note note = {""};
    uint64_t left = 0;
    int err = a->config.store->ops->compact(a->config.store, &left, &note);
    if (err && err != -ERR_NO_SPACE)
        report(a, err, &note, 0, clock_ns());
    compact_report(a, err, left);
}

static void compact_set(struct applier *a, bool wanted)
{
    uv_mutex_lock(&a->lock);
    a->at.compacting = wanted;
    uv_cond_signal(&a->wake);
    uv_mutex_unlock(&a->lock);
}

void applier_compact(struct applier *a)
{
    compact_set(a, true);
}

void applier_compact_end(struct applier *a)
{
    compact_set(a, false);
}

/* ---- waiting for work ---- */

/* Called under the lock: sleeps until something may have changed. Housekeeping is done while there
 * is nothing to sweep. */
static void sleep_a_while(struct applier *a, bool *more, bool *quiet)
{
    uint64_t waited = a->since ? clock_ns() - a->since : 0;
    if (a->at.applied < a->durable) {
        if (waited < a->after)
            uv_cond_timedwait(&a->wake, &a->lock, a->after - waited);
    } else if (*quiet && *more) {
        uv_mutex_unlock(&a->lock);
        *more = tidy(a);
        if (!*more && a->swollen && clock_ns() - a->slimmed >= SLIM_EVERY_NS)
            slim(a);
        uv_mutex_lock(&a->lock);
    } else if (*more) {
        *quiet = uv_cond_timedwait(&a->wake, &a->lock, TIDY_AFTER_NS) != 0;
    } else if (a->at.full) {
        uv_cond_timedwait(&a->wake, &a->lock, FULL_RETRY_NS);
        uv_mutex_unlock(&a->lock);
        look_at_room(a, NULL);
        a->config.notify(a->config.ctx);
        uv_mutex_lock(&a->lock);
    } else {
        uv_cond_wait(&a->wake, &a->lock);
    }
}

/* Waits until there is something to sweep; false if there is nothing left to do. */
static bool wait_for_work(struct applier *a)
{
    bool more = true, quiet = false, sliced = false;
    uv_mutex_lock(&a->lock);
    /* One slice between two sweeps, however much waits: otherwise load would starve compacting. */
    while (!a->stopping && !a->at.error && (!due(a) || (a->at.compacting && !sliced))) {
        if (a->at.compacting) {
            uv_mutex_unlock(&a->lock);
            compact_slice(a);
            uv_mutex_lock(&a->lock);
            sliced = true;
        } else {
            sleep_a_while(a, &more, &quiet);
        }
    }
    bool work = due(a) && !a->at.error;
    a->bytes = 0;
    uv_mutex_unlock(&a->lock);
    return work;
}

/* The disk is full: removes the reserve file and waits a little. False if the thread was told to
 * stop. */
static bool wait_for_space(struct applier *a)
{
    if (disk_reserve_remove(a->config.reserve))
        log_event(a->config.log, LOG_WARN, "disk_reserve_removed",
                  LOG_TEXT("effect", "the reserve file, the reserve for a full disk, was removed"));
    uv_mutex_lock(&a->lock);
    if (!a->stopping)
        uv_cond_timedwait(&a->wake, &a->lock, FULL_RETRY_NS);
    bool go_on = !a->stopping;
    uv_mutex_unlock(&a->lock);
    return go_on;
}

/* What waits in SQLite's WAL needs space in its file, too, which is not counted. */
static bool room_is_short(struct applier *a)
{
    uv_mutex_lock(&a->lock);
    bool is_short = a->room < ROOM_SHORT;
    uv_mutex_unlock(&a->lock);
    return is_short;
}

static void run(void *arg)
{
    struct applier *a = arg;
    bool last = false; /* told to stop while the disk was full: one more attempt */
    while (wait_for_work(a)) {
        struct err_note note = {""};
        int err = sweep(a, &note);
        if (err && (err != -ERR_NO_SPACE || last))
            return;
        if (err)
            last = !wait_for_space(a);
        else if (room_is_short(a))
            (void)tidy(a);
    }
}

/* ---- start and stop ---- */

static void applier_free(struct applier *a)
{
    uv_cond_destroy(&a->wake);
    uv_mutex_destroy(&a->lock);
    journal_batch_done(&a->batch);
    mem_free(a);
}

int applier_start(const struct applier_config *config, struct applier **ret)
{
    struct applier *a = mem_zalloc(sizeof(*a));
    if (!a)
        return -ERR_NOMEM;
    a->config = *config;
    a->at.applied = config->store->ops->meta(config->store)->position;
    a->durable = journal_position(config->journal);
    /* What an earlier process left is swept at once. Otherwise the journal would grow under a
     * process that is killed repeatedly. */
    a->since = a->durable > a->at.applied ? clock_ns() : 0;
    a->after = SWEEP_AFTER_NS;
    a->wanted = a->durable;
    journal_batch_init(&a->batch);
    CHECK(uv_mutex_init(&a->lock) == 0 && uv_cond_init(&a->wake) == 0);
    look_at_room(a, NULL);
    if (uv_thread_create(&a->thread, run, a) != 0) {
        applier_free(a);
        return -ERR_NOMEM;
    }
    *ret = a;
    return 0;
}

void applier_stop(struct applier *a)
{
    if (!a)
        return;
    uv_mutex_lock(&a->lock);
    a->stopping = true;
    uv_cond_signal(&a->wake);
    uv_mutex_unlock(&a->lock);
    uv_thread_join(&a->thread);
    applier_free(a);
}
