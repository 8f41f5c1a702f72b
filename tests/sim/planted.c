/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/planted.h"

#include <stdio.h>

#include "core/records/record.h"
#include "ops/defects.h"
#include "sim/model/lockstep.h"
#include "sim/run.h"
#include "sim/world/disk_journal.h"

#define SEEDS_MAX 400
#define SEEDS_MORE 30

static const struct planted {
    unsigned engine, journal;
    uint8_t split; /* enum record_kind */
    const char *name;
} defects[] = {
    {DEFECT_REPLY_EARLY, 0, 0, "replies leave before their records are durable"},
    {DEFECT_DUPLICATE_EARLY, 0, 0, "a duplicate is answered before the first is durable"},
    {DEFECT_ANY_TOKEN, 0, 0, "ack ignores the token"},
    {DEFECT_EPOCH_KEPT, 0, 0, "tokens are issued again after a restart"},
    {DEFECT_UNIQUE_BY_STATE, 0, 0, "a unique key is free again once its job is running"},
    {DEFECT_ATTEMPTS_UNRECORDED, 0, 0, "failures are counted in memory, not in the record"},
    {DEFECT_LEASE_ON_WALL, 0, 0, "leases end by wall time"},
    {DEFECT_CLAIM_UNRECORDED, 0, 0, "claims leave no record"},
    {DEFECT_NEWEST_FIRST, 0, 0, "among equal priorities the newest is handed out first"},
    {DEFECT_PROMOTE_EARLY, 0, 0, "scheduled jobs become ready 50 ms too soon"},
    {DEFECT_COUNT_DRIFTS, 0, 0, "a cancelled job stays in the count of ready ones"},
    {DEFECT_ACK_COMES_BACK, 0, 0, "every 16th ack is answered but not recorded"},
    {DEFECT_DEAD_AGAIN, 0, 0, "a dead job stays in the ready order"},
    {DEFECT_KEY_FORGOTTEN, 0, 0, "idempotency keys are not recorded"},
    {DEFECT_FIRED_UNRECORDED, 0, 0, "a firing makes its job and does not move its schedule on"},
    {DEFECT_HOLDS_FORGOTTEN, 0, 0, "after a restart no job holds the items of triggers"},
    {DEFECT_NOTICE_LOST, 0, 0, "a restart forgets a notice"},
    {DEFECT_LATE_ACK, 0, 0, "an ack is accepted after a limit of its lease"},
    {DEFECT_TIMEOUT_EXTENDED, 0, 0, "an extend postpones the end of the attempt"},
    {DEFECT_CANCEL_FORGOTTEN, 0, 0, "a request to cancel a running job is not recorded"},
    {DEFECT_REPORT_FORGOTTEN, 0, 0, "progress and log lines are not recorded"},
    {DEFECT_STEP_FORGOTTEN, 0, 0, "results of steps are not recorded"},
    {DEFECT_HANDOFF_SPLIT, 0, 0, "an ack takes effect although its hand-off is refused"},
    {0, 0, REC_KV_SET, "an ack is not in the frame of what it hands off"},
    {DEFECT_CHILD_EARLY, 0, 0, "a blocked job starts when one parent is left"},
    {DEFECT_CHILD_TWICE, 0, 0, "a dependent that has started is made ready again"},
    {DEFECT_SLOT_OVER, 0, 0, "a queue runs one job more than its limit"},
    {DEFECT_SLOT_LEAKS, 0, 0, "a slot is not free again after an ack"},
    {DEFECT_RATE_FREE, 0, 0, "a claim takes no token of its queue's rate"},
    {DEFECT_UNFAIR, 0, 0, "the group that is served keeps its turn"},
    {DEFECT_AGE_LOST, 0, 0, "groups are served by priority, whatever the age of their jobs"},
    {0, 0, REC_JOB_NEW, "a commit's job is not in the frame of its keys"},
    {0, 0, REC_KV_FROM_JOB, "the key that a dead job leaves is not in the frame of its death"},
    {0, 0, REC_SCHEDULE_FIRED, "a schedule's step is not in the frame of the job it made"},
    {0, 0, REC_JOB_LINKED, "a trigger's items are not held in the frame of its job"},
    {0, 0, REC_DEPENDENCIES_NEW, "what a job depends on is not in the frame of the job"},
    {0, 0, REC_NOTICE_NEW, "a notice is not in the frame of the death it tells of"},
    {0, JOURNAL_DEFECT_ANY_GENERATION, 0, "a recycled segment's old entries count"},
    {0, JOURNAL_DEFECT_NO_SYNC, 0, "a commit is answered before the sync"},
    {0, JOURNAL_DEFECT_RECYCLE_EARLY, 0, "a segment is used again before it is applied"},
    {0, DISK_DEFECT_APPLIED_EARLY, 0, "a segment is free before its sweep is synced"},
};
#define DEFECTS (sizeof(defects) / sizeof(defects[0]))

/* Those that the model must find, too. */
static const struct {
    unsigned engine;
    const char *name;
} limit_defects[] = {
    {DEFECT_SLOT_OVER, "a queue runs one job more than its limit"},
    {DEFECT_SLOT_LEAKS, "a slot is not free again after an ack"},
    {DEFECT_RATE_FREE, "a claim takes no token of its queue's rate"},
    {DEFECT_UNFAIR, "the group that is served keeps its turn"},
    {DEFECT_AGE_LOST, "groups are served by priority, whatever the age of their jobs"},
};

static void limit_cases(selftest_fn *fn, void *ctx)
{
    for (size_t i = 0; i < sizeof limit_defects / sizeof *limit_defects; i++) {
        char text[240];
        uint64_t seed = lockstep_hunt(limit_defects[i].engine, SEEDS_MAX);
        snprintf(text, sizeof text, "planted, %s by the model after %llu seeds: %s",
                 seed ? "caught" : "NOT caught", (unsigned long long)(seed ? seed : SEEDS_MAX),
                 limit_defects[i].name);
        fn(ctx, seed > 0, text);
    }
}

struct catch
{
    enum check check;
    uint64_t seeds; /* 0 = not caught */
};

/* What catches the defect first, and (ret_history) which check of the history does. The machine
 * around it (assertions, refused frames) may be first for ever, so the search for the latter ends
 * some seeds after that; of the journal's defects at once, since the journal itself refuses what
 * they leave. */
static void hunt(const struct planted *planted, struct catch *ret, struct catch *ret_history)
{
    struct run_options o = {.memory = true,
                            .defects = planted->engine,
                            .journal_defects = planted->journal,
                            .split = planted->split,
                            .no_verify = true};
    *ret = *ret_history = (struct catch){CHECK_NONE, 0};
    uint64_t end = SEEDS_MAX;
    for (uint64_t seed = 1; seed <= end && ret_history->seeds == 0; seed++) {
        struct catch found = {run_apart(seed, &o), seed};
        if (found.check == CHECK_NONE)
            continue;
        if (ret->seeds == 0) {
            *ret = found;
            end = planted->journal ? seed : seed + SEEDS_MORE;
        }
        if (found.check < CHECK_VERIFY)
            *ret_history = found;
    }
}

static void describe(size_t i, const struct catch *first, const struct catch *history, char *text,
                     size_t size)
{
    if (first->seeds == 0)
        snprintf(text, size, "planted, NOT caught in %d seeds: %s", SEEDS_MAX, defects[i].name);
    else if (first->check == history->check)
        snprintf(text, size, "planted, caught by %s after %llu seeds: %s", check_name(first->check),
                 (unsigned long long)first->seeds, defects[i].name);
    else if (history->seeds == 0)
        snprintf(text, size, "planted, caught by %s after %llu seeds, before the history: %s",
                 check_name(first->check), (unsigned long long)first->seeds, defects[i].name);
    else
        snprintf(text, size, "planted, caught by %s after %llu seeds, by %s after %llu: %s",
                 check_name(first->check), (unsigned long long)first->seeds,
                 check_name(history->check), (unsigned long long)history->seeds, defects[i].name);
}

void planted_cases(selftest_fn *fn, void *ctx)
{
    for (size_t i = 0; i < DEFECTS; i++) {
        struct catch first, history;
        char text[240];
        hunt(&defects[i], &first, &history);
        describe(i, &first, &history, text, sizeof(text));
        fn(ctx, first.seeds > 0, text);
    }
    limit_cases(fn, ctx);
}
