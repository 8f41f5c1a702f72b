/* SPDX-License-Identifier: Apache-2.0 */
/* Keepers: clients of what is written together with a job's moves. They commit keys with enqueues,
 * let jobs die that leave their payload at a key, fire schedules, trigger and work off jobs that
 * hold items, enqueue jobs that depend on each other, and deliver the notices of the deaths. The
 * queue of others has limits, which change.
 *
 * They have their own queues, whose jobs no other client touches and nothing prunes, so that the
 * last reads show all that ever was there; keeps.h checks what they saw. */
#pragma once

#include "sim/checker/history.h"

struct world;

enum keeper_queue {
    KEEPER_KV,       /* jobs of commits */
    KEEPER_FIRED,    /* jobs of schedules */
    KEEPER_ITEMS,    /* taken by triggers … */
    KEEPER_JOBS,     /* … for these */
    KEEPER_RATED,    /* has a rate limit */
    KEEPER_CHILDREN, /* depend on each other */
    KEEPER_QUEUES,
    KEEPER_LIMITED = KEEPER_QUEUES, /* in seeds with FEATURE_LIMITS only */
    KEEPER_QUEUES_MAX
};
#define KEEPER_RATE 4u /* jobs … */
#define KEEPER_RATE_MS 1000u
#define KEEPER_SHARED 3    /* keys that all commits set */
#define KEEPER_SCHEDULES 2 /* by the clock; "s0" … */
#define KEEPER_TRIGGERS 2  /* "t0" …; the last one is eager */
/* Their times lie far ahead, where no wall clock of a run gets to. */
#define KEEPER_TIME INT64_C(1900000000000)
#define KEEPER_ITEMS_MAX 4

struct keeper_item {
    uint64_t seq;
    struct job_token token;
};

/* A claimed job in a keeper's hands. */
struct keeper_task {
    uint32_t client;
    enum keeper_queue queue;
    uint64_t seq;
    struct job_token token;
    struct keeper_item items[KEEPER_ITEMS_MAX];
    unsigned item_count, steps;
};

struct keeper {
    struct span queues[KEEPER_QUEUES_MAX];
    unsigned queue_count;
    struct span schedules[KEEPER_SCHEDULES + KEEPER_TRIGGERS];
    int64_t next_at[KEEPER_SCHEDULES + KEEPER_TRIGGERS]; /* as last heard */
    struct span extra_schedule;                          /* made and deleted again; empty = none */
    uint64_t versions[KEEPER_SHARED];                    /* as last heard */
    uint64_t *seqs;                                      /* wild: of jobs seen */
    size_t seq_count, seq_room;
    uint64_t *children; /* of jobs in KEEPER_CHILDREN, as heard */
    size_t child_count, child_room;
    struct queue_policy limits; /* of KEEPER_LIMITED, as sent last */
    uint64_t notice;            /* the last one taken */
    struct keeper_task *tasks;
    size_t task_count, task_room;
};

/* keeper.c */
void keeper_setup(struct world *w); /* before the clients begin and anything can fail */
void keeper_done(struct world *w);
void keeper_act(struct world *w, uint32_t client);
void keeper_answered(struct world *w, size_t entry, uint32_t client);
/* keeper_work.c */
void keeper_claim(struct world *w, uint32_t client);
void keeper_claimed(struct world *w, size_t entry, uint32_t client);
void keeper_task(struct world *w, uint32_t task);
void keeper_claim_from(struct world *w, uint32_t client, enum keeper_queue queue);
/* keeper_limit.c */
#define KEEPER_GROUPS 4
void keeper_limit(struct world *w, uint32_t client);
void keeper_limits_draw(struct world *w, struct queue_policy *p);
/* keeper_depend.c */
#define KEEPER_PARENTS_MAX 4
#define KEEPER_BATCH_MAX 5 /* without the final job */
void keeper_depend(struct world *w, uint32_t client);
void keeper_batch(struct world *w, uint32_t client);
void keeper_child_heard(struct world *w, const struct hist_entry *e);
/* keeper_notify.c */
void keeper_notify(struct world *w, uint32_t client);
void keeper_taken(struct world *w, size_t entry, uint32_t client);
/* keeper_wild.c */
void keeper_wild(struct world *w, uint32_t client);
void keeper_seen(struct world *w, const struct hist_entry *e);
/* keeper_end.c: in the drain */
void keeper_deliver(struct world *w);
void keeper_last_reads(struct world *w);

/* For the checks, too. */
enum keeper_key { KEY_COMMIT = 'c', KEY_SHARED = 's', KEY_LEFT = 'u' };
struct span keeper_key_of(struct pool *pool, enum keeper_key kind, uint32_t number);
/* Of the jobs in KEEPER_LIMITED: NULL = of no group. */
const char *keeper_group_of(unsigned group);
/* The items that the payload of a trigger's job names; returns how many. */
unsigned keeper_items_of(struct span payload, struct keeper_item *ret, unsigned max);
