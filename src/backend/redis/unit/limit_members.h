/* SPDX-License-Identifier: Apache-2.0 */
/* The members of the sorted sets of queues with limits (limits.c): each begins with the length of
 * the group and the group, so that the members of a group follow each other. */
#pragma once

#include "backend/redis/unit/row.h"

#define ORDER_MEMBER_BYTES (2 + LIMIT_KEY_BYTES + READY_MEMBER_BYTES)

/* The group of a job, as far as the queue has groups. */
struct span rd_group_of(const struct wqueue *q, struct span group);
/* Order and sequence: the end of the member of a ready job. */
void rd_put_order(const struct queue_policy *p, const struct job *j, char *at);
/* The row's member of the ready jobs, if the job is like this one. */
struct span rd_order_member(const struct row *r, const struct job *j, char out[ORDER_MEMBER_BYTES]);
struct span rd_slot_member(const struct row *r, char out[ORDER_MEMBER_BYTES]); /* of the running */
/* The job as it was loaded, as far as its order needs it. */
struct job rd_job_before(const struct row *r);

static inline bool row_was(const struct row *r, uint8_t state)
{
    return !r->fresh && r->loaded_state == state;
}

static inline bool row_is(const struct row *r, uint8_t state)
{
    return !r->gone && r->job.state == state;
}
