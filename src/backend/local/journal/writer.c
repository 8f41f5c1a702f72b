/* SPDX-License-Identifier: Apache-2.0 */
/* See writer.h. Frames wait in a line; the thread takes as many as make one entry, commits them
 * without the lock, and takes them off the line when they are durable. */
#include "backend/local/journal/writer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/check.h"
#include "base/failpoint.h"
#include "base/mem.h"
#include "base/system/clock.h"

/* One entry: well below a segment, and as many parts as one system call takes. */
#define GROUP_BYTES (UINT64_C(4) << 20)
#define GROUP_FRAMES 1000u
#define SPIN_NS 20000u  /* how long it looks for more before it parks */
#define FAST_NS 400000u /* syncs this fast may be waited for on the caller's thread */
#define RETRY_NS UINT64_C(50000000)
#define PROVIDE_RETRY_NS UINT64_C(200000000)

struct line {
    struct span *frames;
    size_t first, count, room;
};

struct writer {
    struct writer_config config;
    uv_thread_t thread, helper;
    bool writing, helping; /* they run */
    uv_mutex_t lock;
    uv_cond_t wake, want;
    struct line line;             /* under lock, but for the frames being committed */
    atomic_size_t waiting;        /* line.count, for the spin */
    bool parked;                  /* under lock: the thread sleeps, and has nothing in hand */
    bool stopping;                /* under lock */
    bool provide;                 /* under lock: the helper is wanted */
    int lack;                     /* under lock: why it could not do all, and tries again; or 0 */
    struct writer_state at;       /* under lock */
    struct histogram us, records; /* under lock */
    uint64_t group_bytes;         /* of one entry at most, unless a frame is larger */
    uint64_t stuck_since;         /* ns; 0 = not stuck */
    uint64_t average_ns;          /* of the last syncs; written by the thread that commits */
    uint64_t generation;          /* under lock: of the newest segment the helper was asked after */
};

/* ---- the line ---- */

static int line_room(struct line *l, size_t more)
{
    if (l->first > 0 && l->count == 0)
        l->first = 0;
    if (l->first + l->count + more <= l->room)
        return 0;
    size_t room = l->room ? l->room * 2 : 256;
    while (room < l->count + more)
        room *= 2;
    struct span *frames = mem_alloc(room * sizeof(*frames));
    if (!frames)
        return -ERR_NOMEM;
    if (l->count)
        memcpy(frames, l->frames + l->first, l->count * sizeof(*frames));
    mem_free(l->frames);
    *l = (struct line){frames, 0, l->count, room};
    return 0;
}

/* How many of the first frames make one entry. They are copied, since the line may move. */
static size_t line_group(const struct line *l, uint64_t bytes_max, struct span *group,
                         uint64_t *ret_bytes)
{
    uint64_t bytes = 0;
    size_t n = 0;
    while (n < l->count && n < GROUP_FRAMES) {
        struct span frame = l->frames[l->first + n];
        if (n > 0 && bytes + frame.len > bytes_max)
            break;
        bytes += frame.len;
        group[n++] = frame;
    }
    *ret_bytes = bytes;
    return n;
}

static void line_drop(struct line *l, size_t count)
{
    l->first += count;
    l->count -= count;
}

/* ---- committing ---- */

static void helper_ask(struct writer *w)
{
    w->provide = true;
    uv_cond_signal(&w->want);
}

/* Under the lock. */
static void count_commit(struct writer *w, uint64_t ns)
{
    uint64_t position = journal_position(w->config.journal);
    histogram_add(&w->us, ns / 1000);
    histogram_add(&w->records, position - w->at.durable);
    w->at.durable = position;
    w->at.commits++;
    w->at.commit_ns_total += ns;
    w->at.commit_ns_last = ns;
    w->average_ns = w->average_ns ? (w->average_ns * 7 + ns) / 8 : ns;
    w->at.stuck = false;
    w->stuck_since = 0;
}

/* Appends and says so. Called without the lock. */
static int commit(struct writer *w, const struct span *frames, size_t count, uint64_t bytes)
{
    struct err_note note = {""};
    struct journal_figures figures;
    uint64_t began = clock_ns();
    int err = journal_append(w->config.journal, frames, count, &note);
    uint64_t ended = clock_ns();
    journal_figures(w->config.journal, &figures);
    uv_mutex_lock(&w->lock);
    if (!err) {
        count_commit(w, ended - began);
    } else if (err == -ERR_NO_SPACE) {
        w->at.stuck = true;
        w->stuck_since = w->stuck_since ? w->stuck_since : began;
    } else {
        w->at.error = err;
        snprintf(w->at.why, sizeof(w->at.why), "%s", note.text);
    }
    if (figures.generation != w->generation || figures.free == 0 || err == -ERR_NO_SPACE)
        helper_ask(w);
    w->generation = figures.generation;
    uint64_t durable = w->at.durable;
    uv_mutex_unlock(&w->lock);
    FAILPOINT("reply.before");
    if (!err)
        w->config.synced(w->config.ctx, durable, bytes);
    return err;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A little patience spares the loop the cost of waking the thread. */
static void spin(struct writer *w)
{
    uint64_t until = clock_ns() + SPIN_NS;
    while (atomic_load_explicit(&w->waiting, memory_order_relaxed) == 0 && clock_ns() < until)
        relax();
}

/* Waits for frames; returns how many make the next entry, 0 to end. */
static size_t take(struct writer *w, struct span *group, uint64_t *ret_bytes)
{
    uv_mutex_lock(&w->lock);
    while (w->line.count == 0 && !w->stopping) {
        w->parked = true;
        uv_cond_wait(&w->wake, &w->lock);
        w->parked = false;
    }
    size_t n = line_group(&w->line, w->group_bytes, group, ret_bytes);
    uv_mutex_unlock(&w->lock);
    return n;
}

/* False when it is told to stop meanwhile. */
static bool wait_for_room(struct writer *w)
{
    uv_mutex_lock(&w->lock);
    if (!w->stopping)
        uv_cond_timedwait(&w->wake, &w->lock, RETRY_NS);
    bool go_on = !w->stopping;
    uv_mutex_unlock(&w->lock);
    return go_on;
}

static void run(void *arg)
{
    struct writer *w = arg;
    struct span group[GROUP_FRAMES];
    uint64_t bytes;
    size_t n;
    while ((n = take(w, group, &bytes)) > 0) {
        int err = commit(w, group, n, bytes);
        w->config.notify(w->config.ctx);
        if (err && (err != -ERR_NO_SPACE || !wait_for_room(w)))
            return;
        if (err)
            continue;
        uv_mutex_lock(&w->lock);
        line_drop(&w->line, n);
        atomic_store(&w->waiting, w->line.count);
        bool empty = w->line.count == 0;
        uv_mutex_unlock(&w->lock);
        if (empty)
            spin(w);
    }
}

/* ---- the helper ---- */

static void report_provide(struct writer *w, int err, const struct err_note *note)
{
    int before = w->lack;
    w->at.full = err == -ERR_NO_SPACE;
    w->lack = w->at.full || err == -ERR_NOMEM ? err : 0;
    if (!err)
        uv_cond_signal(&w->wake);
    else if (!w->at.error) /* else the commit has said why */
        snprintf(w->at.why, sizeof(w->at.why), "%s", note->text);
    if (err && !w->lack && !w->at.error)
        w->at.error = err;
    if (w->lack && w->lack != before)
        log_event(w->config.log, LOG_ERROR,
                  w->at.full ? "disk_full" : "journal_segment_not_created",
                  LOG_TEXT("why", note->text));
}

/* Sleeps until it is wanted; while something is short it tries again now and then. */
static bool helper_wait(struct writer *w)
{
    while (!w->provide && !w->stopping) {
        if (w->lack && uv_cond_timedwait(&w->want, &w->lock, PROVIDE_RETRY_NS) != 0)
            break;
        if (!w->lack)
            uv_cond_wait(&w->want, &w->lock);
    }
    w->provide = false;
    return !w->stopping;
}

/* A try that must fail would for a moment take the last room, which a sweep may need. Short of a
 * segment that somebody waits for, as much as it takes has to be left. */
static bool worth_a_try(struct writer *w)
{
    struct journal_figures figures;
    journal_figures(w->config.journal, &figures);
    uv_mutex_lock(&w->lock);
    bool full = w->at.full, stuck = w->at.stuck;
    uv_mutex_unlock(&w->lock);
    return !full || !w->config.room || figures.free > JOURNAL_SPARES ||
           w->config.room(w->config.ctx) / (stuck ? 1 : 2) >= w->config.segment_bytes;
}

static void help(void *arg)
{
    struct writer *w = arg;
    uv_mutex_lock(&w->lock);
    while (helper_wait(w) && !w->at.error) {
        struct err_note note = {""};
        bool more = true;
        int err = 0;
        uv_mutex_unlock(&w->lock);
        bool tried = worth_a_try(w);
        while (tried && more && !err)
            err = journal_provide(w->config.journal, &more, &note);
        uv_mutex_lock(&w->lock);
        if (!tried)
            continue;
        report_provide(w, err, &note);
        uv_mutex_unlock(&w->lock);
        w->config.notify(w->config.ctx);
        uv_mutex_lock(&w->lock);
    }
    uv_mutex_unlock(&w->lock);
}

/* ---- the loop's side ---- */

int writer_push(struct writer *w, const struct span *frames, size_t count)
{
    uv_mutex_lock(&w->lock);
    int err = line_room(&w->line, count);
    for (size_t i = 0; !err && i < count; i++)
        w->line.frames[w->line.first + w->line.count++] = frames[i];
    atomic_store(&w->waiting, w->line.count);
    bool wake = !err && w->parked;
    uv_mutex_unlock(&w->lock);
    if (wake) /* without the lock, or it would wake only to wait for that */
        uv_cond_signal(&w->wake);
    return err;
}

bool writer_commit_here(struct writer *w, const struct span *frames, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += frames[i].len;
    uv_mutex_lock(&w->lock);
    bool can = w->parked && w->line.count == 0 && !w->at.error && !w->at.stuck &&
               w->average_ns > 0 && w->average_ns < FAST_NS && count <= GROUP_FRAMES &&
               bytes <= w->group_bytes;
    uv_mutex_unlock(&w->lock);
    /* The thread stays parked: only this thread gives it work. A failure shows in the state. */
    return can && commit(w, frames, count, bytes) != -ERR_NO_SPACE;
}

void writer_retry(struct writer *w)
{
    uv_mutex_lock(&w->lock);
    helper_ask(w); /* segments may be wanted, or too many */
    if (w->at.stuck)
        uv_cond_signal(&w->wake);
    uv_mutex_unlock(&w->lock);
}

void writer_economize(struct writer *w)
{
    struct journal_figures figures;
    journal_economize(w->config.journal);
    journal_figures(w->config.journal, &figures);
    if (figures.free <= JOURNAL_SPARES)
        return;
    uv_mutex_lock(&w->lock);
    helper_ask(w);
    uv_mutex_unlock(&w->lock);
}

void writer_state(struct writer *w, struct writer_state *ret)
{
    uv_mutex_lock(&w->lock);
    *ret = w->at;
    if (w->stuck_since)
        ret->stuck_ms = (clock_ns() - w->stuck_since) / 1000000;
    uv_mutex_unlock(&w->lock);
}

void writer_spread(struct writer *w, struct histogram *ret_us, struct histogram *ret_records)
{
    uv_mutex_lock(&w->lock);
    *ret_us = w->us;
    *ret_records = w->records;
    uv_mutex_unlock(&w->lock);
}

/* ---- start and stop ---- */

static void writer_free(struct writer *w)
{
    uv_cond_destroy(&w->wake);
    uv_cond_destroy(&w->want);
    uv_mutex_destroy(&w->lock);
    mem_free(w->line.frames);
    mem_free(w);
}

void writer_end(struct writer *w)
{
    uv_mutex_lock(&w->lock);
    w->stopping = true;
    uv_cond_signal(&w->wake);
    uv_cond_signal(&w->want);
    uv_mutex_unlock(&w->lock);
    if (w->writing)
        uv_thread_join(&w->thread);
    if (w->helping)
        uv_thread_join(&w->helper);
    w->writing = w->helping = false;
}

int writer_start(const struct writer_config *config, struct writer **ret)
{
    struct writer *w = mem_zalloc(sizeof(*w));
    if (!w)
        return -ERR_NOMEM;
    w->config = *config;
    struct journal_figures figures;
    journal_figures(config->journal, &figures);
    w->group_bytes =
        figures.segment_bytes / 4 < GROUP_BYTES ? figures.segment_bytes / 4 : GROUP_BYTES;
    w->at.durable = figures.position;
    w->provide = true; /* the first spare segment */
    CHECK(uv_mutex_init(&w->lock) == 0 && uv_cond_init(&w->wake) == 0 &&
          uv_cond_init(&w->want) == 0);
    w->writing = uv_thread_create(&w->thread, run, w) == 0;
    w->helping = w->writing && uv_thread_create(&w->helper, help, w) == 0;
    if (!w->helping) {
        writer_stop(w);
        return -ERR_NOMEM;
    }
    *ret = w;
    return 0;
}

void writer_stop(struct writer *w)
{
    if (!w)
        return;
    writer_end(w);
    writer_free(w);
}
