/* SPDX-License-Identifier: Apache-2.0 */
/* What one seed plays: which features, how many clients, how fast a disk, how many faults.
 *
 * A swarm: each seed draws a subset, since a run that does everything at once hides what only shows
 * when something is left out (a queue that never gets a cancel, a server that never restarts). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/digest/random.h"
#include "core/queues/policy.h"

/* name, per cent of the seeds that have it */
#define FEATURE_TABLE(X)                                                                           \
    /* what clients ask for */                                                                     \
    X(KEYS, 75)                                                                                    \
    X(UNIQUE, 50)                                                                                  \
    X(UNIQUE_KEPT, 15)                                                                             \
    X(GROUPS, 40)                                                                                  \
    X(DELAYS, 55)                                                                                  \
    X(EXPIRY, 25)                                                                                  \
    X(OPTIONS, 35)                                                                                 \
    X(PRIORITIES, 70)                                                                              \
    X(LARGE_PAYLOADS, 15)                                                                          \
    X(MULTI_CLAIM, 50)                                                                             \
    X(SEIZE, 20)                                                                                   \
    X(BOUND, 35)                                                                                   \
    X(ANY_TOKEN, 10)                                                                               \
    X(FAILS, 65)                                                                                   \
    X(EXTENDS, 45)                                                                                 \
    X(RELEASES, 45)                                                                                \
    X(VANISHES, 60)                                                                                \
    X(CANCELS, 40)                                                                                 \
    X(REQUEUES, 40)                                                                                \
    X(PATCHES, 35)                                                                                 \
    X(REMOVES, 25)                                                                                 \
    X(POLICY_CHANGES, 25)                                                                          \
    X(QUEUE_DELETES, 12)                                                                           \
    X(PAUSES, 30)                                                                                  \
    X(PURGES, 15)                                                                                  \
    X(BULKS, 25)                                                                                   \
    X(READS, 60)                                                                                   \
    X(LISTS, 25)                                                                                   \
    /* how queues are set up */                                                                    \
    X(CAPACITY, 25)                                                                                \
    X(RETENTION, 40)                                                                               \
    X(RELAXED, 6)                                                                                  \
    X(JITTER, 30)                                                                                  \
    X(SHORT_KEYS, 15)                                                                              \
    X(SMALL_SLICES, 30)                                                                            \
    X(SMALL_RING, 25)                                                                              \
    /* the machine around */                                                                       \
    X(CRASHES, 80)                                                                                 \
    X(LOST_MESSAGES, 50)                                                                           \
    X(DUPLICATES, 60)                                                                              \
    X(SLOW_DISK, 50)                                                                               \
    X(LATE_TIMERS, 40)                                                                             \
    X(STALLS, 25)                                                                                  \
    X(WALL_JUMPS, 35)                                                                              \
    X(WALL_LEAPS, 12)                                                                              \
    X(NO_MEMORY, 12)                                                                               \
    X(LAGGING_STORE, 40)                                                                           \
    X(SHADOW, 40)                                                                                  \
    X(SMALL_CACHE, 50)                                                                             \
    X(READ_ERRORS, 8)                                                                              \
    X(FULL_DISK, 10)                                                                               \
    X(JOURNAL, 50)                                                                                 \
    X(LATE_SEGMENTS, 50)                                                                           \
    X(BAD_SYNCS, 20)                                                                               \
    X(WAKE_ONLY, 40)

/* What keepers do (keeper.h), in the seeds that have any. Drawn from numbers of their own, so that
 * a seed without them plays what it played before there were any. */
#define KEEPER_TABLE(X)                                                                            \
    X(COMMITS, 60)                                                                                 \
    X(SCHEDULES, 55)                                                                               \
    X(TRIGGERS, 60)                                                                                \
    X(ALERTS, 60)                                                                                  \
    X(RATES, 25)                                                                                   \
    X(WILD, 40)                                                                                    \
    X(DEPENDENCIES, 50)                                                                            \
    X(LIMITS, 50)                                                                                  \
    X(BATCHES, 50)
#define KEEPER_PERCENT 50

enum feature {
#define FEATURE_ENUM(name, percent) FEATURE_##name,
    FEATURE_TABLE(FEATURE_ENUM) KEEPER_TABLE(FEATURE_ENUM)
#undef FEATURE_ENUM
        FEATURE_COUNT,
    FEATURE_KEEPERS = FEATURE_COMMITS,     /* the first of theirs */
    FEATURE_KEEPERS_MORE = FEATURE_LIMITS, /* the first that is drawn after all others */
};

#define PLAN_QUEUES 5

struct plan {
    uint64_t seed;
    uint64_t features; /* mask of 1 << enum feature */
    bool sqlite;
    unsigned defects;         /* enum engine_defect, for planted runs */
    unsigned journal_defects; /* enum journal_defect, enum disk_journal_defect */
    uint8_t split;            /* frames are written in two parts, see disk_add_split */
    bool no_verify;           /* history checks only */

    struct queue_policy policy; /* for queues made by the first enqueue */
    struct queue_policy policies[PLAN_QUEUES];
    unsigned queues, producers, workers, admins, keepers;
    unsigned calls;       /* requests before the drain */
    int64_t think_ms;     /* between a client's requests, at most */
    int64_t net_ms;       /* one way, at most */
    int64_t commit_ms;    /* of one commit, at most */
    int64_t late_ms;      /* a repeated request may come that much later */
    int64_t lease_ms;     /* typical lease */
    int64_t crash_ms;     /* mean time between crashes */
    int64_t wall_jump_ms; /* at most */
    unsigned lost_percent, duplicate_percent;
    unsigned keys_in_use; /* different unique keys a queue */
    unsigned claim_count;
    uint64_t capacity; /* of the server; 0 = no limit */
    uint64_t key_ttl_ms, keys_max;
    uint64_t cache_bytes;
    uint32_t seq_block, slice, ring;
    uint32_t payload_max;   /* of the largest; above what the queues take */
    uint32_t segment_bytes; /* of the journal … */
    uint64_t journal_bytes; /* … and all of it */
};

static inline bool has(const struct plan *p, enum feature f)
{
    return (p->features >> f & 1) != 0;
}

void plan_draw(struct plan *p, uint64_t seed, struct random *r);
/* A policy as this plan would have it. */
void plan_policy(const struct plan *p, struct random *r, struct queue_policy *ret);
void plan_print(const struct plan *p, FILE *out);
const char *feature_name(enum feature f);
