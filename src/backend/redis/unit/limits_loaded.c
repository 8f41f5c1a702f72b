/* SPDX-License-Identifier: Apache-2.0 */
/* What queues with limits use (limits.c), as a unit or a query reads it. */
#include "backend/redis/impl.h"
#include "backend/redis/unit/limit_members.h"
#include "backend/shared/row_check.h"

/* --- with the jobs for claims --- */

static void use_loaded(struct wqueue *q, uint64_t running, struct span use)
{
    bool known = use.len == ROW_HEAD(use);
    q->limits_known = true;
    q->use.running = running;
    q->use.full_us = known ? sound_sum((int64_t)ROW_GET(use.at, use, full_us)) : 0;
    q->round = known ? sound_count((int64_t)ROW_GET(use.at, use, round)) : 0;
    q->use_packed = use;
}

static struct wgroup *group_loaded(struct unit *u, struct wqueue *q, struct span key,
                                   uint64_t running, int64_t full_us)
{
    struct wgroup *g = key.len <= LIMIT_KEY_BYTES ? unit_group_add(u, q, key) : NULL;
    if (!g)
        return NULL;
    if (g->known)
        return g;
    g->known = true;
    g->use.running = running;
    g->use.full_us = g->full_us_loaded = full_us;
    return g;
}

/* list: group, running jobs, bucket, round, whether it may have more jobs ... */
static void first_groups_loaded(struct unit *u, struct wqueue *q, const redisReply *list)
{
    for (size_t i = 0; i + 4 < reply_count(list); i += 5) {
        struct span round = reply_span(reply_at(list, i + 2));
        struct wgroup *g =
            group_loaded(u, q, reply_span(reply_at(list, i)), rd_reply_count(reply_at(list, i + 1)),
                         rd_reply_int(reply_at(list, i + 3)));
        if (!g)
            continue;
        g->round = round.len == 8 ? sound_count((int64_t)row_field_get(round.at, 8)) : 0;
        g->waits = true;
        g->more = rd_reply_int(reply_at(list, i + 4)) != 0;
    }
}

void rd_limits_loaded(struct unit *u, const redisReply *r)
{
    for (size_t i = 0; i + 5 < reply_count(r); i += 6) {
        struct wqueue *q = unit_queue(u, (uint32_t)rd_reply_int(reply_at(r, i)));
        if (!q || !claim_limited(&q->policy) || q->limits_known)
            continue;
        use_loaded(q, rd_reply_count(reply_at(r, i + 1)), reply_span(reply_at(r, i + 2)));
        q->retry_us = rd_reply_int(reply_at(r, i + 3));
        q->groups_more = rd_reply_int(reply_at(r, i + 4)) != 0;
        first_groups_loaded(u, q, reply_at(r, i + 5));
    }
}

void rd_limits_claimable(struct unit *u, struct row *r)
{
    struct wgroup *g = claim_ordered(&r->q->policy) ? unit_group_of(u, r) : NULL;
    if (g)
        unit_group_claimable(u, g, r);
    else
        unit_claimable(u, r);
}

/* --- groups of jobs that claims name, and of jobs that are shown --- */

enum used {
    USED_QUEUE,
    USED_GROUP,
    USED_RUNNING,
    USED_USE,
    USED_GROUP_RUNNING,
    USED_GROUP_FULL,
    USED_BEFORE,
    USED_COMPLETE,
    USED_COUNT
};

/* The job of a claim by id whose queue has limits; NULL = the operation is none. */
static struct row *named_job(const struct unit *u, const struct turn *t)
{
    const struct op *op = t->op;
    struct row *r = op->kind == OP_CLAIM && op->claim.one.seq ? unit_find(u, op->claim.one) : NULL;
    return r && r->q && claim_limited(&r->q->policy) && !r->q->limits_new ? r : NULL;
}

bool rd_limits_ask_groups(struct item *it)
{
    struct unit *u = &it->unit;
    struct rargs *a = &it->args;
    size_t n = 0;
    for (size_t i = 0; i < u->count; i++)
        n += named_job(u, &u->turns[i]) != NULL;
    if (n == 0)
        return false;
    rd_item_call(it, SCRIPT_GROUPS);
    redis_args_int(a, (int64_t)n);
    for (size_t i = 0; i < u->count; i++) {
        const struct row *r = named_job(u, &u->turns[i]);
        if (!r)
            continue;
        redis_args_int(a, r->q->number);
        redis_args_bytes(a, rd_group_of(r->q, r->extra.group));
        redis_args_text(a, "");
    }
    return true;
}

void rd_limits_groups_loaded(struct unit *u, const redisReply *r)
{
    for (size_t i = 0; i + USED_COUNT <= reply_count(r); i += USED_COUNT) {
        struct wqueue *q = unit_queue(u, (uint32_t)rd_reply_int(reply_at(r, i + USED_QUEUE)));
        struct span key = reply_span(reply_at(r, i + USED_GROUP));
        if (!q || !claim_limited(&q->policy))
            continue;
        if (!q->limits_known)
            use_loaded(q, rd_reply_count(reply_at(r, i + USED_RUNNING)),
                       reply_span(reply_at(r, i + USED_USE)));
        if (claim_ordered(&q->policy))
            (void)group_loaded(u, q, key, rd_reply_count(reply_at(r, i + USED_GROUP_RUNNING)),
                               rd_reply_int(reply_at(r, i + USED_GROUP_FULL)));
    }
}

/* --- what is shown --- */

void rd_limits_view(struct wqueue *q, const redisReply *r, struct wall_time now,
                    struct queue_counts *counts)
{
    if (reply_count(r) != 4 || !claim_limited(&q->policy))
        return;
    use_loaded(q, rd_reply_count(reply_at(r, 0)), reply_span(reply_at(r, 1)));
    unit_limited_view(q, now, rd_reply_count(reply_at(r, 2)), rd_reply_count(reply_at(r, 3)),
                      counts);
}

void rd_limits_send_wait(struct rargs *a, const struct row *r)
{
    char order[READY_MEMBER_BYTES];
    bool ready = r->job.state == STATE_READY;
    if (ready)
        rd_put_order(&r->q->policy, &r->job, order);
    redis_args_int(a, r->q->number);
    redis_args_bytes(a, rd_group_of(r->q, r->extra.group));
    redis_args_bytes(a, span_of(order, ready ? sizeof order : 0));
}

bool rd_limits_wait_loaded(const redisReply *r, size_t index, const struct wqueue *q,
                           struct wait_counts *counts)
{
    struct wqueue space = {.number = q->number};
    size_t i = index * USED_COUNT;
    if (i + USED_COUNT > reply_count(r) ||
        (uint32_t)rd_reply_int(reply_at(r, i + USED_QUEUE)) != q->number)
        return false;
    use_loaded(&space, rd_reply_count(reply_at(r, i + USED_RUNNING)),
               reply_span(reply_at(r, i + USED_USE)));
    counts->queue = space.use;
    counts->group.running = rd_reply_count(reply_at(r, i + USED_GROUP_RUNNING));
    counts->group.full_us = rd_reply_int(reply_at(r, i + USED_GROUP_FULL));
    if (!claim_ordered(&q->policy))
        return true;
    counts->before = rd_reply_count(reply_at(r, i + USED_BEFORE));
    counts->more_before = rd_reply_int(reply_at(r, i + USED_COMPLETE)) == 0;
    return true;
}
