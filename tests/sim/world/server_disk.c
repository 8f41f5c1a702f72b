/* SPDX-License-Identifier: Apache-2.0 */
/* The server and its disk: commits, the store that follows, crashes in the middle, recovery.
 *
 * By decree a crash is settled when it happens. With a journal the next process that begins finds
 * out what is durable, so the crash enters the history there. */
#include "base/check.h"
#include "sim/world/server_impl.h"

static bool may_cut(struct world *w, unsigned percent)
{
    return has(&w->plan, FEATURE_CRASHES) && !w->draining && chance(w, percent);
}

void blame_disk(struct world *w, const char *what, const struct err_note *note)
{
    world_blame(w, w->server.disk.journal ? CHECK_JOURNAL : CHECK_DRIVER, "%s: %s", what,
                note->text);
}

static void count_note(struct world *w, const struct disk_journal_note *n)
{
    uint64_t *faults = w->coverage->faults;
    faults[FAULT_TORN_TAIL] += n->torn;
    faults[FAULT_ENTRY_REPEATED] += n->repeated;
    faults[FAULT_ENTRY_OVERSIZE] += n->oversize;
    faults[FAULT_SEGMENT_RECYCLED] += n->recycled;
}

/* ---- the store ------------------------------------------------------------------------------- */

void server_applied(struct world *w)
{
    const struct disk *d = &w->server.disk;
    if (w->server.gate && d->applied > 0)
        gate_applied(w->server.gate, d->frames[d->applied - 1].last);
}

void became_durable(struct world *w, size_t before)
{
    struct server *s = &w->server;
    struct err_note note;
    for (size_t i = before; i < s->disk.durable; i++)
        coverage_frame(w->coverage, s->disk.frames[i].bytes);
    for (; s->shadow && s->shadowed < s->disk.durable; s->shadowed++) {
        if (engine_replay(s->shadow, s->disk.frames[s->shadowed].bytes, &note) < 0)
            world_blame(w, CHECK_REPLAY, "shadow: %s", note.text);
    }
    if (!has(&w->plan, FEATURE_LAGGING_STORE) && disk_apply(&s->disk, s->disk.durable, &note) < 0)
        blame_disk(w, "apply", &note);
}

/* Some steps of the sweeper, which may leave off anywhere. */
static int sweep(struct world *w, struct err_note *note)
{
    struct disk *d = &w->server.disk;
    bool idle = false;
    int rc = 0;
    for (int64_t steps = between(w, 1, 6); rc == 0 && !idle && steps > 0; steps--)
        rc = disk_journal_sweep(d, (size_t)between(w, 1, 40), (size_t)between(w, 1, 1 << 16), &idle,
                                note);
    return rc;
}

static int apply_some(struct world *w, struct err_note *note)
{
    struct disk *d = &w->server.disk;
    if (!d->journal)
        return disk_apply(d, d->applied + (size_t)between(w, 0, (int64_t)(d->durable - d->applied)),
                          note);
    return d->journal->journal ? sweep(w, note) : 0;
}

/* ---- segments -------------------------------------------------------------------------------- */

static void provide_soon(struct world *w)
{
    struct server *s = &w->server;
    if (s->provide_due)
        return;
    s->provide_due = true;
    bool late = has(&w->plan, FEATURE_LATE_SEGMENTS) && !w->draining;
    schedule(w, between(w, 1, late ? 400 : 5), SIM_PROVIDE, s->boot, 0);
}

/* There may be room again. */
static void retry_append(struct world *w)
{
    struct disk_journal *j = w->server.disk.journal;
    if (!j || !j->journal || !j->waiting)
        return;
    j->waiting = false;
    start_commit(w);
}

void server_provide(struct world *w)
{
    struct server *s = &w->server;
    struct disk_journal *j = s->disk.journal;
    struct disk_journal_note n = {0};
    s->provide_due = false;
    if (may_cut(w, 10))
        files_torn_stop(j->files, (unsigned)between(w, 1, 6));
    int rc = disk_journal_provide(&s->disk, &n);
    count_note(w, &n);
    if (rc < 0 && files_torn_stopped(j->files)) {
        w->coverage->faults[FAULT_CUT_IN_PROVIDE]++;
        s->disk.writing = 0;
        server_crash(w);
        return;
    }
    files_torn_stop(j->files, 0);
    w->coverage->faults[FAULT_PROVIDE_FULL] += rc == -ERR_NO_SPACE;
    if (rc < 0 && !(rc == -ERR_NO_SPACE && s->full))
        blame_disk(w, "provide", &n.note);
    else if (j->waits > 1 && disk_journal_catch_up(&s->disk, disk_position(&s->disk), &n.note) < 0)
        blame_disk(w, "sweep", &n.note);
    server_applied(w);
    retry_append(w);
}

void server_apply(struct world *w)
{
    struct err_note note;
    if (apply_some(w, &note) < 0)
        blame_disk(w, "apply", &note);
    server_applied(w);
    retry_append(w);
    if (!w->draining)
        schedule(w, between(w, 1, 4000), SIM_APPLY, 0, 0);
}

void server_full(struct world *w, bool full)
{
    struct server *s = &w->server;
    struct disk_journal *j = s->disk.journal;
    if (s->state != SERVER_DOWN)
        engine_set_full(engine_of(w), full);
    if (!j || (full && !j->journal))
        return;
    struct journal_figures f = {0};
    if (full)
        journal_figures(j->journal, &f);
    s->full = full;
    files_torn_capacity(j->files, full ? f.bytes + (uint64_t)between(w, 1, 100000) : 0);
}

/* ---- commits --------------------------------------------------------------------------------- */

void start_commit(struct world *w)
{
    struct disk *d = &w->server.disk;
    size_t waiting = disk_waiting(d);
    if (d->writing > 0 || waiting == 0 || (d->journal && d->journal->waiting))
        return;
    unsigned all = w->plan.split ? 10 : 70; /* per cent */
    disk_write(d, chance(w, all) ? waiting : (size_t)between(w, 1, (int64_t)waiting));
    int64_t delay = w->draining ? 1 : between(w, 0, w->plan.commit_ms);
    schedule(w, delay, SIM_COMMIT, w->server.boot, 0);
}

/* True: synced. Else the frames wait for a segment, or the process is gone. */
static bool append(struct world *w)
{
    struct disk *d = &w->server.disk;
    struct disk_journal *j = d->journal;
    struct disk_journal_note n = {0};
    struct journal_figures f;
    bool bad = has(&w->plan, FEATURE_BAD_SYNCS) && !w->draining && chance(w, 1);
    files_torn_fail_sync(j->files, bad, -ERR_IO);
    int rc = disk_journal_append(d, &n);
    files_torn_fail_sync(j->files, 0, 0);
    count_note(w, &n);
    journal_figures(j->journal, &f);
    if (rc == -ERR_NO_SPACE || f.free == 0)
        provide_soon(w);
    if (rc == 0)
        return true;
    if (rc == -ERR_NO_SPACE) {
        w->coverage->faults[FAULT_APPEND_WAITED]++;
    } else if (bad && rc == -ERR_IO) {
        w->coverage->faults[FAULT_SYNC_FAILED]++;
        server_crash(w);
    } else {
        blame_disk(w, "append", &n.note);
    }
    return false;
}

void server_commit(struct world *w)
{
    struct server *s = &w->server;
    if (s->disk.writing == 0)
        return;
    bool cut = may_cut(w, w->plan.split ? 10 : 1);
    if (cut && (s->disk.journal || w->plan.split) && chance(w, 50)) {
        server_crash(w); /* inside the append */
        return;
    }
    if (s->disk.journal && !append(w))
        return;
    size_t before = s->disk.durable;
    uint64_t position = disk_written(&s->disk);
    w->coverage->commits += !cut;
    became_durable(w, before);
    if (cut) {
        w->coverage->faults[FAULT_COMMIT_UNACKNOWLEDGED]++;
        server_crash(w);
        return;
    }
    gate_durable(s->gate, position, server_now(w));
    server_applied(w);
    server_go_on(w);
}

/* ---- crash ----------------------------------------------------------------------------------- */

/* What was being written gets to the files in part, not at all, or, unheard, as a whole. */
static void crash_in_append(struct world *w)
{
    struct disk *d = &w->server.disk;
    struct disk_journal *j = d->journal;
    struct disk_journal_note n = {0};
    size_t before = d->durable;
    w->coverage->faults[FAULT_CUT_IN_APPEND]++;
    files_torn_stop(j->files, (unsigned)between(w, 0, 2));
    int rc = disk_journal_append(d, &n);
    if (rc == 0) {
        (void)disk_written(d);
        became_durable(w, before);
    } else if (rc != -ERR_NO_SPACE && !files_torn_stopped(j->files)) {
        blame_disk(w, "append", &n.note);
    }
}

static void end_process(struct world *w)
{
    struct server *s = &w->server;
    bool power = chance(w, 60);
    w->coverage->faults[power ? FAULT_POWER_CUT : FAULT_KILL]++;
    disk_journal_end(&s->disk, power);
}

void server_disk_crash(struct world *w)
{
    struct server *s = &w->server;
    struct disk *d = &s->disk;
    struct disk_journal *j = d->journal;
    size_t before = d->durable;
    s->crash_position = engine_position(engine_of(w));
    if (!j) {
        disk_crash(d, (size_t)between(w, 0, (int64_t)d->writing));
        w->coverage->faults[FAULT_FRAMES_LOST] += disk_position(d) < s->crash_position;
        became_durable(w, before);
        history_event(&w->history, HIST_CRASH, disk_position(d), world_now(w));
        return;
    }
    if (d->writing > 0 && !j->failed && chance(w, 80))
        crash_in_append(w);
    else if (!j->failed)
        d->writing = 0;
    w->coverage->faults[FAULT_CUT_BEFORE_APPLIED] +=
        j->told < d->store->ops->meta(d->store)->position;
    end_process(w);
    s->unsettled = true;
}

/* ---- recovery -------------------------------------------------------------------------------- */

static int replay_cb(void *ctx, struct span frame, struct err_note *note)
{
    struct world *w = ctx;
    w->coverage->faults[FAULT_REPLAYED_FRAME]++;
    return engine_replay(engine_of(w), frame, note);
}

static int recover_by_decree(struct world *w, struct err_note *note)
{
    const struct disk *d = &w->server.disk;
    int rc = 0;
    for (size_t i = d->applied; rc == 0 && i < d->durable; i++)
        rc = replay_cb(w, d->frames[i].bytes, note);
    return rc;
}

/* A process has begun: now it is known what the crash left. */
static void settle_crash(struct world *w, size_t before, size_t writing)
{
    struct server *s = &w->server;
    const struct disk *d = &s->disk;
    if (writing > 0)
        w->coverage->faults[d->durable > before ? FAULT_ENTRY_KEPT : FAULT_ENTRY_LOST]++;
    if (d->durable < before && s->shadow) { /* forgiven, to see what the history says */
        engine_free(s->shadow);
        s->shadow = NULL;
    }
    if (s->unsettled) {
        w->coverage->faults[FAULT_FRAMES_LOST] += disk_position(d) < s->crash_position;
        history_event(&w->history, HIST_CRASH, disk_position(d), world_now(w));
    }
    s->unsettled = false;
    became_durable(w, before < d->durable ? before : d->durable);
}

static void die_again(struct world *w)
{
    w->coverage->faults[FAULT_CUT_IN_RECOVERY]++;
    drop_process(w);
    end_process(w);
    schedule(w, between(w, 1, 1500), SIM_RESTART, 0, 0);
}

static bool recover_journal(struct world *w)
{
    struct server *s = &w->server;
    struct disk *d = &s->disk;
    struct disk_journal *j = d->journal;
    struct disk_journal_note n = {0};
    size_t before = d->durable, writing = d->writing;
    int rc = disk_journal_open(d, replay_cb, w, &n);
    bool cut = rc == 0 && may_cut(w, 15);
    if (cut && chance(w, 20)) {
        die_again(w);
        return false;
    }
    files_torn_stop(j->files, cut ? (unsigned)between(w, 1, 8) : 0);
    if (rc == 0)
        rc = disk_journal_begin(d, &n);
    count_note(w, &n);
    if ((rc < 0 && files_torn_stopped(j->files)) || (rc == -ERR_NO_SPACE && s->full)) {
        die_again(w);
        return false;
    }
    files_torn_stop(j->files, 0);
    if (rc < 0) {
        blame_disk(w, "start", &n.note);
        return false;
    }
    settle_crash(w, before, writing);
    provide_soon(w);
    return true;
}

bool server_recover(struct world *w)
{
    struct disk *d = &w->server.disk;
    struct err_note note = {""};
    int rc = engine_load(engine_of(w), d->store, &note);
    if (rc == 0 && d->journal)
        return recover_journal(w);
    if (rc == 0)
        rc = recover_by_decree(w, &note);
    if (rc < 0)
        world_blame(w, CHECK_DRIVER, "start: %s: %s", err_text(rc), note.text);
    return rc == 0;
}
