/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of a migration.
 *
 *   migrate.c         the command: which stores are allowed, and its messages
 *   migrate_store.c   operations on the two stores
 *   migrate_job.c     the rules for a job
 *   migrate_check.c   checks before anything is copied
 *   migrate_copy.c    copies queues, jobs, keys, schedules and rules
 *   migrate_verify.c  compares the target with the source
 *
 * The order makes it safe. The target's queues are created first, paused and without retention or
 * limits; then jobs by increasing sequence, then keys; all of it is compared; then schedules and
 * rules are copied. Only then do the queues get their own policy and resume, so that no job runs in
 * a target that is not known to be complete. Jobs are copied in the order of their sequence and
 * each batch takes effect in order, so a target whose migration was interrupted contains exactly
 * the first ones. */
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
    uint64_t there; /* jobs that an earlier run has copied */
    bool released;  /* the target was complete, and its queues were resumed */
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

/* Not copied: a store whose clock is stopped at 1970 still shows an expired key. */
static inline bool key_expired(const struct migrate *m, const struct kv_view *k)
{
    return k->expires_at.ms != 0 && k->expires_at.ms <= m->now.ms;
}

/* Whether the command was interrupted; stays true. The migration stops between two pages, and
 * the caller prints a message. */
bool migrate_interrupted(void);

/* Each returns CLIENT_DONE, or another status after a message. */
typedef int (*queue_fn)(struct migrate *m, const struct queue_view *q);
int migrate_each_queue(struct migrate *m, queue_fn fn); /* queues of the source, by name */
int copy_queues(struct migrate *m);                     /* paused */
int copy_jobs(struct migrate *m, uint64_t after);
int copy_dependencies(struct migrate *m); /* when all jobs are there */
int copy_keys(struct migrate *m);
int copy_schedules(struct migrate *m);
int copy_alerts(struct migrate *m);
int release_queues(struct migrate *m); /* sets their own policy and pause */

/* Counts the contents of the source, and refuses objects that cannot be migrated. */
int check_source(struct migrate *m);
/* Whether the source has no jobs that wait in its inbox; they are in no queue yet and would be
 * left behind. */
int check_inbox(struct migrate *m);
int target_empty(struct migrate *m, bool *ret);
/* The position of an interrupted migration: the sequence in the source up to which the target
 * has all jobs, and nothing else. Refuses any other target. */
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
/* All rules, with secrets; NULL = a message was printed. */
struct reply *alerts_of(struct migrate_store *s, int *ret_status);
