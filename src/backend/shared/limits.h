/* SPDX-License-Identifier: Apache-2.0 */
/* Limits at the claim (core/queues/claim_limits.h) in a unit of work: what is loaded of queues and
 * groups, and how it changes with the jobs. limits.c explains it. */
#pragma once

#include "base/containers/heap.h"
#include "core/queues/claim_limits.h"
#include "ops/ops.h"

struct unit;
struct row;
struct wqueue;

/* A group of a queue whose jobs are ordered by group or by age; if only by age, the queue has one
 * group with an empty key. */
struct wgroup {
    struct wqueue *q;
    struct span key; /* empty: jobs without a group */
    struct claim_use use;
    int64_t full_us_loaded; /* use.full_us before the unit */
    int64_t slots;          /* by how many the unit changes use.running */
    uint64_t round;
    struct heap ready;   /* rows that a claim may take; stale entries are passed over */
    bool known;          /* use, round and ready were loaded, or the queue is new */
    bool more;           /* it may have more ready jobs than were loaded */
    bool waits;          /* it has a round, because it has ready jobs */
    bool touched;        /* its place has to be found out again */
    bool served;         /* a job was started: round and use are to be written */
    struct wgroup *next; /* of the queue */
};

/* Whether its ready jobs have another order than (priority, sequence). */
bool claim_ordered(const struct queue_policy *p);

/* Whether jobs have the same order, and belong to the same groups, under both policies. */
bool claim_order_equal(const struct queue_policy *a, const struct queue_policy *b);

/* The group with this key; a new one is not known. NULL: no memory. */
struct wgroup *unit_group_add(struct unit *u, struct wqueue *q, struct span key);
struct wgroup *unit_group_of(struct unit *u, const struct row *r); /* the same; of a row */
void unit_groups_reset(struct unit *u);
void unit_group_claimable(struct unit *u, struct wgroup *g, struct row *r); /* was loaded */

/* The row went from one state to another (STATE_NONE: it is new, or removed). */
void unit_limits_moved(struct unit *u, struct row *r, uint8_t before, uint8_t after);
/* An attempt of the row was started: it takes a token and the turn of its group. */
void unit_limits_started(struct unit *u, const struct row *r);

/* Whether the jobs of all queues were loaded in the order that their policies ask for; what this
 * node knew of them may have been old, and is right now. */
bool unit_limits_expected(struct unit *u);

/* As in struct ops_store. */
bool unit_limited_next(struct unit *u, struct wqueue *q, struct heap_entry *ret_order,
                       struct row **ret);
uint64_t unit_limited_count(const struct wqueue *q);
enum claim_block unit_claim_room(struct ops *o, const struct queue_state *q, const struct job *j,
                                 int64_t *ret_at_us);
/* item_take and item_return: the job that unit_limited_next returned. */
void unit_limited_take(struct unit *u, struct wqueue *q);
void unit_limited_return(struct unit *u, struct row *r);

/* When the group gets its next token; 0 = it has one. */
int64_t unit_group_wait_us(const struct unit *u, const struct wgroup *g);
/* Signals claims that can be tried again: at once, or when a token is there. */
void unit_limits_committed(struct unit *u);

/* How many ready jobs of the queue cannot start now: `use` is filled in; this many are in groups
 * without a free slot, and in groups that wait for a token. */
void unit_limited_view(const struct wqueue *q, struct wall_time now, uint64_t busy,
                       uint64_t waiting, struct queue_counts *c);
