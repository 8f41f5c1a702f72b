/* SPDX-License-Identifier: Apache-2.0 */
/* A migration, for the files it is spread over.
 *
 *   migrate.c         the command: what may go where, what is said
 *   migrate_store.c   asking the two stores
 *   migrate_job.c     what becomes of a job
 *   migrate_check.c    what is there before anything is copied
 *   migrate_copy.c    queues, jobs, keys, schedules, rules: from one to the other
 *   migrate_verify.c  whether the target has what the source has
 *
 * The order is what makes it safe. The target's queues are created first, paused and without
 * retention or bounds; then jobs by rising sequence, then keys; all of it is compared; then
 * schedules and rules; and only then the queues get their own policy and go on, so that no job of a
 * target runs that is not known to be whole. Jobs arrive in the order of their sequence and each
 * batch takes effect in order, so a target that was left in the middle holds exactly the first
 * ones. */
#pragma once

#include "cli/progress.h"
#include "cli/transfer/migrate_job.h"
#include "cli/transfer/migrate_store.h"

struct migrate_counts {
    uint64_t queues, keys, schedules, alerts;
    uint64_t jobs[STATE_COUNT];
};

struct migrate {
    const struct arguments *args;
    uv_loop_t loop;
    struct migrate_store from, to;
    struct wall_time now;        /* when it began */
    struct migrate_counts found; /* in the source */
    struct reply **queues;       /* pages of the source's queues */
    size_t queue_pages;
    uint64_t done;  /* jobs that were copied, or compared */
    uint64_t there; /* jobs that an earlier run brought over */
    bool released;  /* the target had all, and its queues were let go on */
    struct progress bar;
    struct arena arena;
};

static inline uint64_t counts_jobs(const struct migrate_counts *c)
{
    uint64_t all = 0;
    for (int s = 0; s < STATE_COUNT; s++)
        all += c->jobs[s];
    return all;
}

/* Stays behind: a store in which it is 1970 shows it all the same. */
static inline bool key_expired(const struct migrate *m, const struct kv_view *k)
{
    return k->expires_at.ms != 0 && k->expires_at.ms <= m->now.ms;
}

/* True once, for good: stop between two pages. Said by the caller. */
bool migrate_interrupted(void);

/* Each gives CLIENT_DONE, or another status after it has said why. */
typedef int (*queue_fn)(struct migrate *m, const struct queue_view *q);
int migrate_each_queue(struct migrate *m, queue_fn fn); /* of the source, by name */
int copy_queues(struct migrate *m);                     /* paused */
int copy_jobs(struct migrate *m, uint64_t after);
int copy_keys(struct migrate *m);
int copy_schedules(struct migrate *m);
int copy_alerts(struct migrate *m);
int release_queues(struct migrate *m); /* their own policy, and pause */

/* Counts what there is, and refuses what cannot be moved. */
int check_source(struct migrate *m);
int target_empty(struct migrate *m, bool *ret);
/* Where a target that is not empty stands: the sequence in the source up to which it has all jobs,
 * and nothing else. Refuses any other. */
int resume_point(struct migrate *m, uint64_t *ret_after);
int verify_jobs(struct migrate *m);
int verify_keys(struct migrate *m);
int verify_schedules(struct migrate *m);
int verify_alerts(struct migrate *m);
int verify_queues(struct migrate *m);

/* ---- lists of either store ---- */

typedef int (*keys_fn)(struct migrate *m, const struct reply *page, void *ctx);
int each_keys(struct migrate *m, struct migrate_store *s, bool values, keys_fn fn, void *ctx);
typedef int (*schedules_fn)(struct migrate *m, const struct reply *page, void *ctx);
int each_schedules(struct migrate *m, struct migrate_store *s, schedules_fn fn, void *ctx);
/* All of them, with secrets; NULL = said. */
struct reply *alerts_of(struct migrate_store *s, int *ret_status);
