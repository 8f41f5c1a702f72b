/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/redis/unit/limit_members.h"

struct span rd_group_of(const struct wqueue *q, struct span group)
{
    bool grouped = claim_grouped(&q->policy) && group.len <= LIMIT_KEY_BYTES;
    return grouped ? group : SPAN_LITERAL("");
}

/* The length of the group and its bytes: the members of a group follow each other. */
static char *put_group(char *at, struct span group)
{
    row_field_put(at, 2, group.len);
    if (group.len)
        memcpy(at + 2, group.at, group.len);
    return at + 2 + group.len;
}

struct span rd_slot_member(const struct row *r, char out[ORDER_MEMBER_BYTES])
{
    char *at = put_group(out, rd_group_of(r->q, r->extra.group));
    redis_seq_encode(r->job.seq, at);
    return span_of(out, (size_t)(at - out) + ROW_HEAD(seq));
}

void rd_put_order(const struct queue_policy *p, const struct job *j, char *at)
{
    redis_ready_member(claim_priority(p, j->priority, j->since), j->seq, at);
}

struct span rd_order_member(const struct row *r, const struct job *j, char out[ORDER_MEMBER_BYTES])
{
    char *at = put_group(out, rd_group_of(r->q, r->extra.group));
    rd_put_order(&r->q->policy, j, at);
    return span_of(out, (size_t)(at - out) + READY_MEMBER_BYTES);
}

/* The job as far as its order needs it, as it was loaded. */
struct job rd_job_before(const struct row *r)
{
    struct job j = {.seq = r->job.seq};
    j.priority = heap_desc_of(ROW_GET(r->packed.at, job, order));
    j.since.ms = (int64_t)ROW_GET(r->packed.at, job, since);
    return j;
}
