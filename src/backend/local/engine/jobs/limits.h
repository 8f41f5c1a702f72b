/* SPDX-License-Identifier: Apache-2.0 */
/* The order and the limits of queues whose policy has any of core/queues/claim_limits.h.
 *
 *   queue.flow ─► struct flow ─places─► struct line ─ready─► jobs of one group
 *
 * Queues without such a policy have no flow, and their claims take the next of queue.ready. A queue
 * with a flow that does not depend on groups uses queue.ready, too, if it is open. In a queue that
 * depends on groups each group that has ready jobs has a line, a heap of them. Lines that may start
 * a job are in flow.places, the first to be served on top; one without a free slot is nowhere, and
 * one without a token is in flow.timers until the token is there. A claim looks at the first place
 * only, so it costs the same whatever is kept back.
 *
 * Slots are not counted here: running jobs of a queue and of its groups are those of their lists
 * and counters by state. A place is checked again before it is used, so it may be out of date in
 * one direction, a line that has no slot any more; the opposite never happens, because each end of
 * a lease looks at the line of its job.
 *
 * A policy that changes the order (grouped or not, ageing) puts the ready jobs into flow.inbox, and
 * its old lines into a list, both at once; ticks sort a slice of them at a time into the new
 * order, the first of the old order first. Until then they cannot be claimed. A line whose heap
 * cannot grow for lack of memory also leaves its job in the inbox.
 *
 * Rounds and buckets are in memory only. A start takes from the buckets what the jobs that run have
 * taken. */
#pragma once

#include "backend/local/engine/engine_impl.h"

/* --- engine/jobs/places.c: a heap of places, from which any can be taken out --- */

struct place {
    struct claim_place at;
    uint32_t line;
};

struct places {
    struct place *list;
    size_t count, room;
};

struct line {
    struct heap ready; /* (priority, sequence), lazy as queue.ready is */
    uint64_t round;
    int64_t full_us;     /* of its bucket */
    uint64_t waiting;    /* its ready jobs, as counted in flow.waiting; 0 unless it is blocked */
    size_t timer;        /* index in flow.timers; SIZE_MAX = not there */
    uint32_t place;      /* index in flow.places + 1; 0 = not there */
    uint32_t taken;      /* a trigger's items, from item_take to items_link */
    uint32_t group;      /* handle; 0 = jobs without a group */
    uint32_t prev, next; /* neighbours in the list of its queue */
    uint8_t block;       /* enum claim_block, when it was last looked at */
    bool idle;           /* it had no ready job since it was served last */
    bool old;            /* of an earlier policy, to be emptied */
};

struct flow {
    struct places places;
    struct heap timers;   /* (µs, line): when it has a token, or its bucket is full */
    struct heap inbox;    /* ready jobs to be sorted; see above */
    uint32_t first;       /* lines */
    uint32_t old_first;   /* those of an earlier policy */
    uint32_t groupless;   /* the line of jobs without a group; 0 = none */
    uint64_t line_count;  /* of `first` */
    uint64_t round;       /* see claim_round_serve */
    int64_t full_us;      /* of the queue's bucket */
    uint64_t taken;       /* as in the lines */
    uint64_t token_armed; /* order of the valid entry in engine.token_queues */
    uint64_t waiting[CLAIM_BLOCK_COUNT];
    bool grouped;
    bool sorting; /* in engine.sorting */
};

static inline struct line *line_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->lines, handle);
}

int places_reserve(struct engine *e, struct places *p, size_t more);
/* Puts the line where this says, or moves it there; room must have been reserved. */
void places_put(struct engine *e, struct places *p, uint32_t line, struct claim_place at);
void places_drop(struct engine *e, struct places *p, uint32_t line); /* it may not be there */
void places_free(struct engine *e, struct places *p);

/* --- engine/jobs/lines.c: the lines of a queue --- */

/* What its group uses of its limits. */
struct claim_use line_use(const struct engine *e, const struct queue *q, const struct line *l);
/* Whether the group of this line may start a job. */
enum claim_block line_block(const struct engine *e, const struct queue *q, const struct line *l,
                            int64_t *ret_at_us);
/* The line of a job's group; 0 = it has none. */
uint32_t line_of(const struct engine *e, const struct queue *q, const struct live *l);
/* The same, created if need be; 0 = no memory. */
uint32_t line_make(struct engine *e, struct queue *q, const struct live *l);
/* Something about the line has changed: puts it where it belongs, or ends it. */
void line_look(struct engine *e, struct queue *q, uint32_t line);
/* Adds a ready job. False: no memory. */
bool line_add(struct engine *e, struct queue *q, const struct live *l);
/* A job of the line starts: it takes a token and, if it was the next, the turn of its group. */
void line_serve(struct engine *e, struct queue *q, struct line *l, bool was_next);
/* Lines that wait for a token which is there now. */
void lines_due(struct engine *e, struct queue *q);
void lines_recount(struct engine *e, struct queue *q, uint32_t line); /* its ready jobs changed */
void lines_look_all(struct engine *e, struct queue *q);
void lines_purged(struct engine *e, struct queue *q); /* no job of them is ready any more */
/* Room for lines_retire, which makes all of them old; their buckets go on. */
int lines_reserve(struct engine *e, const struct queue *q);
void lines_retire(struct engine *e, struct queue *q);
void lines_end_all(struct engine *e, struct queue *q);
void line_end(struct engine *e, struct queue *q, uint32_t line);
void lines_moved(void *engine, struct heap_entry entry, size_t index);

/* --- engine/jobs/sorting.c: jobs that a policy change has put out of order --- */

/* Sorts up to `budget` jobs; returns how many it looked at. */
size_t sorting_work(struct engine *e, struct queue *q, size_t budget);
void sorting_later(struct engine *e, struct queue *q);
void sorting_end(struct engine *e, struct queue *q);
