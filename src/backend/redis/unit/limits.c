/* SPDX-License-Identifier: Apache-2.0 */
/* Limits at the claim: what a unit reads and writes for the queues that have them.
 *
 * A queue N with limits has these keys besides those of every queue. All of them follow from the
 * jobs and the policy, and the script that stores a job changes them in the same step:
 *
 *   q:N:l    hash: what scripts need of the limits; use (bucket and round of the queue); at (how
 *            far its order has been built)
 *   q:N:s    the running jobs by group, if max_running_per_group is set
 *   q:N:r    the ready jobs by group, then by claim_priority and sequence
 *   q:N:k    hash: the place of each group with ready jobs, and its state (lua/limits.lua)
 *   q:N:p    the groups that may start a job, in the order of claim_place_before
 *   q:N:f    the groups without a free slot
 *   q:N:w    the groups that wait for a token, by the time when it is there
 *   q:N:t    the buckets of groups, by the time when they are full
 *   ordering, and `limited` of meta: queues whose order is not complete; how many have limits
 *
 * A claim reads the first members of q:N:p and never those of other groups. The slots in use are
 * counted in the sets of running jobs: no number has to be corrected. r, k, p, f and w exist only
 * if the order depends on groups or age.
 *
 * There is no lock. A store names how many slots may be in use for what it starts, and the buckets
 * that it has read; the revisions of the jobs do the rest. After the jobs were written, the script
 * finds out the place of each group that the unit touched from these sets, as they are then.
 *
 * If the order changes, the sets begin empty, and ready jobs are added step by step: the first
 * ones with the change itself, the others by the leader. A job whose row has changed since the step
 * was loaded is passed over, because the store that changed it has put it in its place. */
#include "backend/redis/impl.h"
#include "backend/redis/unit/limit_members.h"

/* --- jobs --- */

static bool same_place(const struct row *r)
{
    struct job before = rd_job_before(r);
    return before.priority == r->job.priority && before.since.ms == r->job.since.ms;
}

static bool stays(const struct row *r)
{
    return row_was(r, STATE_READY) && row_is(r, STATE_READY) && same_place(r);
}

static void order_del(struct rargs *a, const struct row *r)
{
    char member[ORDER_MEMBER_BYTES];
    if (!row_was(r, STATE_READY) || stays(r))
        return;
    struct job before = rd_job_before(r);
    redis_args_bytes(a, rd_order_member(r, &before, member));
}

static void order_set(struct rargs *a, const struct row *r)
{
    char member[ORDER_MEMBER_BYTES];
    if (!row_is(r, STATE_READY) || stays(r))
        return;
    redis_args_int(a, 0);
    redis_args_bytes(a, rd_order_member(r, &r->job, member));
}

static void slot_del(struct rargs *a, const struct row *r)
{
    char member[ORDER_MEMBER_BYTES];
    if (row_was(r, STATE_RUNNING) && !row_is(r, STATE_RUNNING))
        redis_args_bytes(a, rd_slot_member(r, member));
}

static void slot_add(struct rargs *a, const struct row *r)
{
    char member[ORDER_MEMBER_BYTES];
    redis_args_int(a, 0);
    redis_args_bytes(a, rd_slot_member(r, member));
}

static void slot_set(struct rargs *a, const struct row *r)
{
    if (row_is(r, STATE_RUNNING) && !row_was(r, STATE_RUNNING))
        slot_add(a, r);
}

void rd_limits_change_rows(struct rargs *a, const struct wqueue *q, struct row *const *rows,
                           size_t count)
{
    char key[48];
    if (claim_ordered(&q->policy)) {
        rd_change_each(a, "ZREM", rd_queue_key(q->number, "r", key), rows, count, order_del);
        rd_change_each(a, "ZADD", rd_queue_key(q->number, "r", key), rows, count, order_set);
    }
    if (q->policy.max_running_per_group) {
        rd_change_each(a, "ZREM", rd_queue_key(q->number, "s", key), rows, count, slot_del);
        rd_change_each(a, "ZADD", rd_queue_key(q->number, "s", key), rows, count, slot_set);
    }
}

/* --- queues --- */

void rd_limits_command(struct rargs *a, const char *command, const struct wqueue *q)
{
    char number[16];
    snprintf(number, sizeof number, "%u", q->number);
    rd_change(a, command, number);
}

/* Equal texts: equal orders (claim_order_equal). */
static void put_order_text(struct rargs *a, const struct queue_policy *p)
{
    char text[64] = "";
    if (claim_ordered(p))
        snprintf(text, sizeof text, "%d %d %lld", claim_grouped(p), p->fair,
                 (long long)p->ageing_ms);
    redis_args_text(a, text);
}

static void put_limits(struct rargs *a, const struct wqueue *q)
{
    const struct queue_policy *p = &q->policy;
    bool tokens = p->claim_rate.count > 0 && p->claim_rate.per == RATE_GROUP;
    rd_limits_command(a, "LIMITS", q);
    put_order_text(a, p);
    redis_args_text(a, p->fair == FAIR_GROUP ? "1" : "");
    redis_args_text(a, p->max_running ? "1" : "");
    redis_args_int(a, p->max_running_per_group);
    redis_args_text(a, tokens ? "1" : "");
    redis_args_text(a, q->rate_changed ? "1" : "");
    redis_args_text(a, q->limits_new ? "1" : "");
    rd_change_end(a);
}

static void command_of(struct rargs *a, const char *command, const struct wqueue *q)
{
    rd_limits_command(a, command, q);
    redis_args_list_end(a);
}

void rd_limits_change_queues(struct item *it)
{
    struct rargs *a = &it->args;
    for (size_t i = 0; i < it->unit.queue_count; i++) {
        const struct wqueue *q = it->unit.queues[i];
        bool limited = claim_limited(&q->policy);
        if (!limited && !q->was_limited)
            continue;
        if (q->ended || (q->put && !limited))
            command_of(a, "UNLIMIT", q);
        else if (q->put)
            put_limits(a, q);
        if (q->purged && !q->ended)
            command_of(a, "EMPTY", q);
    }
}

bool rd_limits_redefined(const struct item *it)
{
    const struct unit *u = &it->unit;
    bool any = it->step != NULL;
    for (size_t i = 0; i < u->queue_count && !any; i++) {
        const struct wqueue *q = u->queues[i];
        any = (q->put || q->purged || q->ended) && (q->was_limited || claim_limited(&q->policy));
    }
    return any;
}

bool rd_limits_concerned(const struct unit *u)
{
    bool any = false;
    for (size_t i = 0; i < u->queue_count && !any; i++)
        any = u->queues[i]->was_limited || claim_limited(&u->queues[i]->policy);
    return any;
}

/* --- checks --- */

static void put_slots(struct rargs *a, const struct wqueue *q, const struct wgroup *g)
{
    int64_t most = g ? (int64_t)q->policy.max_running_per_group - g->slots
                     : (int64_t)q->policy.max_running - q->slots;
    redis_args_int(a, q->number);
    redis_args_text(a, g ? "1" : "");
    redis_args_bytes(a, g ? g->key : SPAN_LITERAL(""));
    redis_args_int(a, most);
}

static bool queue_starts(const struct wqueue *q)
{
    return !q->gone && q->policy.max_running && q->slots > 0;
}

static bool group_starts(const struct wgroup *g)
{
    return !g->q->gone && g->q->policy.max_running_per_group && g->slots > 0;
}

static bool group_pays(const struct wgroup *g)
{
    const struct rate_limit *rate = &g->q->policy.claim_rate;
    return !g->q->gone && g->served && g->known && rate->count && rate->per == RATE_GROUP;
}

/* How many slots may be in use before the unit, so that what it starts stays within the limits. */
static void check_slots(struct item *it)
{
    const struct unit *u = &it->unit;
    struct rargs *a = &it->args;
    size_t n = 0;
    for (size_t i = 0; i < u->queue_count; i++)
        n += queue_starts(u->queues[i]);
    for (size_t i = 0; i < u->group_count; i++)
        n += group_starts(u->groups[i]);
    if (n == 0)
        return;
    redis_args_text(a, "SLOTS");
    redis_args_int(a, (int64_t)(4 * n));
    for (size_t i = 0; i < u->queue_count; i++)
        if (queue_starts(u->queues[i]))
            put_slots(a, u->queues[i], NULL);
    for (size_t i = 0; i < u->group_count; i++)
        if (group_starts(u->groups[i]))
            put_slots(a, u->groups[i]->q, u->groups[i]);
}

/* Rounds are shared by many claims, so that few of them change it. */
static bool use_changes(const struct wqueue *q, struct use_layout *ret)
{
    static const struct use_layout none;
    struct span before = q->use_packed.len ? q->use_packed : span_of(&none, sizeof none);
    ROW_PUT(ret, use, full_us, q->use.full_us);
    ROW_PUT(ret, use, round, q->round);
    return q->limits_used && !q->gone && !span_equal(before, span_of(ret, sizeof *ret));
}

static void check_tokens(struct item *it)
{
    const struct unit *u = &it->unit;
    struct rargs *a = &it->args;
    size_t n = 0;
    for (size_t i = 0; i < u->group_count; i++)
        n += group_pays(u->groups[i]);
    if (n == 0)
        return;
    redis_args_text(a, "TOKENS");
    redis_args_int(a, (int64_t)(3 * n));
    for (size_t i = 0; i < u->group_count; i++) {
        const struct wgroup *g = u->groups[i];
        if (!group_pays(g))
            continue;
        redis_args_int(a, g->q->number);
        redis_args_bytes(a, g->key);
        redis_args_int(a, g->full_us_loaded);
    }
}

void rd_limits_checks(struct item *it)
{
    const struct unit *u = &it->unit;
    struct use_layout use;
    char key[48];
    check_slots(it);
    check_tokens(it);
    for (size_t i = 0; i < u->queue_count; i++) {
        const struct wqueue *q = u->queues[i];
        if (!use_changes(q, &use) || q->limits_new)
            continue;
        redis_args_text(&it->args, rd_queue_key(q->number, "l", key));
        redis_args_int(&it->args, 2);
        redis_args_text(&it->args, "use");
        redis_args_bytes(&it->args, q->use_packed);
    }
}

/* --- changes after the jobs --- */

static void change_use(struct rargs *a, const struct wqueue *q)
{
    struct use_layout use;
    char key[48];
    if (!use_changes(q, &use))
        return;
    rd_change(a, "HSET", rd_queue_key(q->number, "l", key));
    redis_args_text(a, "use");
    redis_args_bytes(a, span_of(&use, sizeof use));
    rd_change_end(a);
}

static void change_tokens(struct unit *u, struct rargs *a, const struct wqueue *q)
{
    struct rargs_mark before = redis_args_mark(a);
    size_t n = 0;
    rd_limits_command(a, "TOKENS", q);
    redis_args_int(a, u->now.ms * 1000);
    for (const struct wgroup *g = q->groups; g; g = g->next) {
        if (!group_pays(g))
            continue;
        redis_args_bytes(a, g->key);
        redis_args_int(a, g->use.full_us);
        n++;
    }
    redis_args_list_end(a);
    if (n == 0)
        redis_args_undo(a, before);
}

static void put_place(struct unit *u, struct rargs *a, const struct wgroup *g)
{
    char round[8];
    row_field_put(round, sizeof round, g->round);
    redis_args_bytes(a, g->key);
    redis_args_bytes(a, span_of(round, g->served ? sizeof round : 0));
    if (g->known)
        redis_args_int(a, unit_group_wait_us(u, g));
    else
        redis_args_text(a, "");
}

static void change_places(struct unit *u, struct rargs *a, const struct wqueue *q)
{
    struct rargs_mark before = redis_args_mark(a);
    rd_limits_command(a, "PLACE", q);
    redis_args_text(a, q->policy.fair == FAIR_GROUP ? "1" : "");
    redis_args_int(a, q->policy.max_running_per_group);
    size_t none = a->count;
    for (const struct wgroup *g = q->groups; g; g = g->next)
        if (g->touched)
            put_place(u, a, g);
    bool any = a->count > none;
    redis_args_list_end(a);
    if (!any)
        redis_args_undo(a, before);
}

void rd_limits_changes(struct item *it)
{
    struct unit *u = &it->unit;
    for (size_t i = 0; i < u->queue_count; i++) {
        const struct wqueue *q = u->queues[i];
        if (q->gone || !claim_limited(&q->policy))
            continue;
        change_use(&it->args, q);
        rd_limits_step_changes(it, q);
        change_tokens(u, &it->args, q);
        change_places(u, &it->args, q);
    }
}
