/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job is not running: the rule behind GET /v1/jobs/{id}/why, once for every store.
 *
 * A store says what it knows of a waiting job (struct job_wait in ops/op.h), the broker adds what
 * the nodes know of claims and breakers and whether the store answers, and why_decide turns this
 * into reasons. Each reason is one that alone keeps the job from running; the first ones are those
 * that must end before the others matter.
 *
 * Nothing is counted by looking at all jobs of a queue: see job_wait.before. */
#pragma once

#include "base/containers/arena.h"
#include "core/queues/claim_limits.h"
#include "ops/op.h"

/* One row for each code: the number, the name, and a sentence for the documentation. The order is
 * that of the reasons in a reply. */
#define WHY_CODES(row)                                                                             \
    row(WHY_STORE_AWAY, "store_away",                                                              \
        "The store that has the job does not answer. `state` is null if it is not known; a job "   \
        "in the spool of this node can be claimed through this node.")                             \
        row(WHY_ENDED, "ended", "The job is done, dead or cancelled, since when and why.")         \
            row(WHY_RUNNING, "running",                                                            \
                "The job runs. `by` is the worker, `until` the end of its lease, which the "       \
                "worker may "                                                                      \
                "extend.") row(WHY_HELD_BY_TRIGGER, "held_by_trigger",                             \
                               "A job that a schedule with a source queue has created holds this " \
                               "one. `by` is that job.")                                           \
                row(WHY_DEPENDS_ON, "depends_on",                                                  \
                    "The job waits until the job `by` has ended. There is one such reason for "    \
                    "each of the "                                                                 \
                    "first 10 jobs for which it waits; one without `by` counts the others, or "    \
                    "says that the "                                                               \
                    "batch is still open.") row(WHY_RETRY_WAIT, "retry_wait",                      \
                                                "An attempt has failed or was released, and the "  \
                                                "next one starts at `until` at the "               \
                                                "earliest.")                                       \
                    row(WHY_NOT_DUE, "not_due", "The job is scheduled for `until`.") row(          \
                        WHY_QUEUE_PAUSED, "queue_paused",                                          \
                        "The queue is paused, until `until` or, without it, until it is resumed.") \
                        row(WHY_BREAKER_OPEN, "breaker_open",                                      \
                            "The breaker `by` is open until `until`, and workers of the queue "    \
                            "consult it before they "                                              \
                            "claim.") row(WHY_NO_WORKERS, "no_workers",                            \
                                          "No claim waits for jobs of the queue, and the last "    \
                                          "one is older than the time after "                      \
                                          "which a worker counts as silent.")                      \
                            row(WHY_QUEUE_LIMIT, "queue_limit",                                    \
                                "As many jobs of the queue run as its `max_running` allows.")      \
                                row(WHY_GROUP_LIMIT, "group_limit",                                \
                                    "As many jobs of the group run as `max_running_per_group` "    \
                                    "allows.") row(WHY_CLAIM_RATE, "claim_rate",                   \
                                                   "The `claim_rate` of the queue lets the next "  \
                                                   "job start at `until`.")                        \
                                    row(WHY_BEHIND, "behind",                                      \
                                        "`count` ready jobs come before this one; with `exact` "   \
                                        "false that is an estimate or a "                          \
                                        "lower bound, as `detail` says. In a queue with limits "   \
                                        "by group or `fair`, only jobs of "                        \
                                        "the same group are counted. A count of 0 means that the " \
                                        "next claim can get the job.")

#define WHY_ENUM(number, name, meaning) number,
enum why_code { WHY_CODES(WHY_ENUM) WHY_CODE_COUNT };
#undef WHY_ENUM
const char *why_code_name(enum why_code code);    /* "store_away" … */
const char *why_code_meaning(enum why_code code); /* for the documentation */

struct why_reason {
    enum why_code code;
    struct span detail;     /* a sentence */
    struct wall_time until; /* when it ends, as far as known; 0 = not known */
    struct span by;         /* what or who causes it; empty = nothing has a name */
    bool counts;            /* behind: the next two are set */
    uint64_t count;
    uint8_t count_kind; /* enum count_kind */
};

#define WHY_PARENTS_SHOWN 10u
#define WHY_BREAKERS_SHOWN 4u
#define WHY_REASONS_MAX (WHY_PARENTS_SHOWN + WHY_BREAKERS_SHOWN + WHY_CODE_COUNT)

struct why_answer {
    const struct job_view *job; /* NULL = its store does not answer */
    /* When the last of the reasons ends, if each of them has an end; 0 = not known. */
    struct wall_time expected_start;
    struct why_reason reasons[WHY_REASONS_MAX];
    uint32_t count;
};

/* A breaker that workers of the queue consult, and that is open. */
struct why_breaker {
    struct span name;
    struct wall_time until;
};

/* Who claims from the queue, as far as the nodes know. */
struct why_claims {
    bool waiting;           /* a claim waits now */
    struct wall_time last;  /* the last claim; 0 = none is known, … */
    struct wall_time since; /* … since this time */
    uint32_t recent_ms;     /* an older claim does not count */
    const struct why_breaker *breakers;
    uint32_t breaker_count;
};

struct why_store {
    bool away; /* the store, or behind failover the shared store, does not answer … */
    struct wall_time since;
    struct span trouble; /* … since when and why; empty = not known */
};

struct why_facts {
    /* As OP_GET replies with want_wait and want_parents; NULL = its store does not answer. When
     * the store is away and the job is known, it is in the spool of this node. */
    const struct job_view *job;
    struct wall_time now;
    struct why_claims claims; /* used for ready jobs */
    struct why_store store;
};

/* Texts are in the arena. False: no memory. */
MUST_CHECK bool why_decide(const struct why_facts *f, struct arena *a, struct why_answer *ret);

/* Waiting jobs of a queue, by the first reason of each, as far as the view of the queue tells it:
 * no job is looked at. Retries count as not_due; no_workers and breaker_open are not in a view, and
 * their jobs count as behind. Reasons that the queue cannot have are left out. */
struct why_count {
    enum why_code code;
    uint64_t count;
};
#define WHY_COUNTS_MAX 7u
uint32_t why_counts(const struct queue_view *q, struct wall_time now,
                    struct why_count ret[WHY_COUNTS_MAX]);

/* Fills in what follows from the policy. The use of the group is ignored unless the queue has
 * groups; now_us is in the clock of claim_use. */
void job_wait_limits(struct job_wait *w, const struct queue_policy *p,
                     const struct claim_use *queue, const struct claim_use *group, int64_t now_us);
