/* SPDX-License-Identifier: Apache-2.0 */
/* See applier.h. Two arrays of frames change places: one collects while the other is committed. */
#include "backend/local/applier.h"

#include <stdio.h>
#include <uv.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"

#define FULL_RETRY_NS UINT64_C(200000000)
#define TIDY_AFTER_NS UINT64_C(1000000000)

struct frames {
    struct span *at;
    size_t count, room;
    uint64_t last;
};

struct applier {
    struct store *store;
    const struct log *log;
    void (*notify)(void *ctx);
    void *ctx;
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t wake;
    struct frames queued;         /* under lock */
    bool stopping;                /* under lock */
    struct applier_state at;      /* under lock */
    struct histogram us, records; /* under lock */
    struct frames taken;          /* the thread's own */
};

static int frames_add(struct frames *f, struct span frame, uint64_t last)
{
    if (f->count == f->room) {
        size_t room = f->room ? f->room * 2 : 64;
        struct span *grown = mem_regrow(f->at, room, sizeof(*grown));
        if (!grown)
            return -ERR_NOMEM;
        f->at = grown;
        f->room = room;
    }
    f->at[f->count++] = frame;
    f->last = last;
    return 0;
}

int applier_push(struct applier *a, struct span frame, uint64_t last)
{
    uv_mutex_lock(&a->lock);
    int err = frames_add(&a->queued, frame, last);
    uv_cond_signal(&a->wake);
    uv_mutex_unlock(&a->lock);
    return err;
}

void applier_state(struct applier *a, struct applier_state *ret)
{
    uv_mutex_lock(&a->lock);
    *ret = a->at;
    uv_mutex_unlock(&a->lock);
}

void applier_spread(struct applier *a, struct histogram *ret_us, struct histogram *ret_records)
{
    uv_mutex_lock(&a->lock);
    *ret_us = a->us;
    *ret_records = a->records;
    uv_mutex_unlock(&a->lock);
}

static void report(struct applier *a, int err, const struct err_note *note, uint64_t ns)
{
    uv_mutex_lock(&a->lock);
    a->at.full = err == -ERR_NO_SPACE;
    a->at.full_tries += a->at.full;
    if (!err) {
        histogram_add(&a->us, ns / 1000);
        histogram_add(&a->records, a->taken.last - a->at.durable);
        a->at.durable = a->taken.last;
        a->at.commits++;
        a->at.commit_ns_total += ns;
        a->at.commit_ns_last = ns;
    } else {
        if (err != -ERR_NO_SPACE)
            a->at.error = err;
        snprintf(a->at.why, sizeof(a->at.why), "%s", note->text);
    }
    uv_mutex_unlock(&a->lock);
    a->notify(a->ctx);
}

/* Gives space back while nobody waits. False: there is no more to do for now, or it failed for good
 * (a failed sync is as fatal here as in a commit). Called without the lock. */
static bool tidy(struct applier *a)
{
    struct err_note note = {""};
    bool more = false;
    int err = a->store->ops->tidy(a->store, &more, &note);
    if (err == -ERR_NO_SPACE)
        log_event(a->log, LOG_WARN, "store_tidy_failed", LOG_TEXT("why", note.text));
    else if (err)
        report(a, err, &note, 0);
    return more && !err;
}

static void compact_report(struct applier *a, int err, uint64_t left)
{
    uv_mutex_lock(&a->lock);
    bool over = a->at.compacting && (err || left == 0);
    a->at.compact_left = left;
    a->at.compact_error = err;
    a->at.compacting = a->at.compacting && !over;
    uv_mutex_unlock(&a->lock);
    if (over)
        a->notify(a->ctx);
}

/* Called without the lock. A failed sync is as fatal here as in a commit. */
static void compact_slice(struct applier *a)
{
    struct err_note note = {""};
    uint64_t left = 0;
    int err = a->store->ops->compact(a->store, &left, &note);
    if (err && err != -ERR_NO_SPACE)
        report(a, err, &note, 0);
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

/* Waits for frames; false when there is nothing left to do. Housekeeping fills the silence. */
static bool take(struct applier *a)
{
    bool more = true, quiet = false, sliced = false;
    uv_mutex_lock(&a->lock);
    /* One slice between two commits, however many frames wait: else load would starve it. */
    while (!a->stopping && (a->queued.count == 0 || (a->at.compacting && !sliced))) {
        if (a->at.compacting) {
            uv_mutex_unlock(&a->lock);
            compact_slice(a);
            uv_mutex_lock(&a->lock);
            sliced = true;
        } else if (quiet && more) {
            uv_mutex_unlock(&a->lock);
            more = tidy(a);
            uv_mutex_lock(&a->lock);
        } else if (more) {
            quiet = uv_cond_timedwait(&a->wake, &a->lock, TIDY_AFTER_NS) != 0;
        } else {
            uv_cond_wait(&a->wake, &a->lock);
        }
    }
    struct frames empty = a->taken;
    a->taken = a->queued;
    a->queued = empty;
    a->queued.count = 0;
    bool any = a->taken.count > 0;
    uv_mutex_unlock(&a->lock);
    return any;
}

/* A full disk: wait a little, or until told to stop. False when told to stop. */
static bool wait_for_space(struct applier *a, const struct err_note *note)
{
    log_event(a->log, LOG_ERROR, "disk_full", LOG_TEXT("why", note->text));
    uv_mutex_lock(&a->lock);
    if (!a->stopping)
        uv_cond_timedwait(&a->wake, &a->lock, FULL_RETRY_NS);
    bool go_on = !a->stopping;
    uv_mutex_unlock(&a->lock);
    return go_on;
}

static void run(void *arg)
{
    struct applier *a = arg;
    while (take(a)) {
        int err;
        do {
            struct err_note note = {""};
            uint64_t began = clock_ns();
            err = a->store->ops->apply(a->store, a->taken.at, a->taken.count, &note);
            report(a, err, &note, clock_ns() - began);
            if (err && (err != -ERR_NO_SPACE || !wait_for_space(a, &note)))
                return;
        } while (err);
        a->taken.count = 0;
    }
}

int applier_start(struct store *store, uint64_t position, const struct log *log,
                  void (*notify)(void *ctx), void *ctx, struct applier **ret)
{
    struct applier *a = mem_zalloc(sizeof(*a));
    if (!a)
        return -ERR_NOMEM;
    a->store = store;
    a->log = log;
    a->notify = notify;
    a->ctx = ctx;
    a->at.durable = position;
    CHECK(uv_mutex_init(&a->lock) == 0 && uv_cond_init(&a->wake) == 0);
    if (uv_thread_create(&a->thread, run, a) != 0) {
        uv_cond_destroy(&a->wake);
        uv_mutex_destroy(&a->lock);
        mem_free(a);
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
    uv_cond_destroy(&a->wake);
    uv_mutex_destroy(&a->lock);
    mem_free(a->queued.at);
    mem_free(a->taken.at);
    mem_free(a);
}
