/* SPDX-License-Identifier: Apache-2.0 */
/* Limits at the claim: what a unit reads and writes for the queues that have them.
 *
 * The slots in use are the running rows of the table job themselves (index job_slot). The ready
 * jobs of a queue whose claims depend on groups or on age are in claim_ready, too, and the place of
 * the first job of each group is in claim_group: a claim reads the first groups that can start a
 * job, and never those that cannot. Both tables follow from the jobs. Each unit writes them again
 * for the jobs and groups that it changes, from the rows as they are then, in the transaction that
 * changes them; the queue is locked exclusively from the load to the commit.
 *
 * A change of the policy that changes the order begins a new version of it, which is empty: the
 * leader adds the ready jobs step by step, in the order in which the queue would start them by
 * priority, and claims get the jobs that are already there. Rows of older versions are ignored and
 * removed step by step. Queues without limits use none of this. */
#include "backend/postgres/impl.h"

#define FEW_GROUPS 32 /* groups that a claim looks at, even if it wants fewer jobs */

/* Behind the columns of a claimable job in the result of claim_groups. */
enum group_column {
    GROUP_QUEUE = JOB_ERROR + 1,
    GROUP_KEY,
    GROUP_RUNNING,
    GROUP_ROUND,
    GROUP_FULL_US,
    GROUP_WAITS,
    GROUP_MOST,
    GROUP_FIRST,
};

static bool limits_wanted(const struct unit *u)
{
    bool wanted = u->limits_wanted;
    for (size_t i = 0; i < u->name_count && !wanted; i++)
        wanted = u->names[i].claims && u->names[i].limited;
    return wanted;
}

/* --- load --- */

static void names_array(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    pg_array_begin(a, ARRAY_TEXT);
    for (size_t i = 0; i < u->name_count; i++)
        if (u->names[i].claims && u->names[i].limited)
            pg_array_blob(a, u->names[i].name);
    pg_array_end(a);
}

static void seqs_array(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    pg_array_begin(a, ARRAY_I8);
    for (size_t i = 0; i < u->count; i++)
        if (op_seq(u->turns[i].op))
            pg_array_i8(a, (int64_t)op_seq(u->turns[i].op));
    pg_array_end(a);
}

/* How many groups may have to be looked at for the claims of the queue. */
static int32_t groups_wanted(const struct wanted_name *n)
{
    return (int32_t)(n->claims < FEW_GROUPS ? FEW_GROUPS : n->claims);
}

static void counts_array(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    pg_array_begin(a, ARRAY_I4);
    for (size_t i = 0; i < u->name_count; i++)
        if (u->names[i].claims && u->names[i].limited)
            pg_array_i4(a, groups_wanted(&u->names[i]));
    pg_array_end(a);
}

/* The groups of what the unit enqueues: names of queues, or keys. */
static void new_groups_array(struct unit *u, bool keys)
{
    struct args *a = &pg_unit(u)->args;
    const struct op_enqueue *list;
    pg_array_begin(a, ARRAY_TEXT);
    for (size_t i = 0; i < u->count; i++) {
        size_t count = turn_enqueues(&u->turns[i], &list);
        for (size_t k = 0; k < count; k++)
            if (unit_text_safe(list[k].queue) && unit_text_safe(list[k].extra.group))
                pg_array_blob(a, keys ? list[k].extra.group : list[k].queue);
    }
    pg_array_end(a);
}

void pg_limits_send_load(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    struct conn *c = pg_pipeline_of(u);
    if (!limits_wanted(u))
        return;
    names_array(u);
    seqs_array(u);
    pg_args_i8(a, shared_manual_now(u->s));
    pg_conn_send(c, SQL_CLAIM_TOKENS, a);
    names_array(u);
    seqs_array(u);
    pg_unit(u)->slots[LOAD_CLAIM_QUEUES] = pg_conn_sent(c);
    pg_conn_send(c, SQL_CLAIM_QUEUES, a);
    names_array(u);
    counts_array(u);
    new_groups_array(u, false);
    new_groups_array(u, true);
    seqs_array(u);
    pg_args_i8(a, shared_manual_now(u->s));
    pg_unit(u)->slots[LOAD_CLAIM_GROUPS] = pg_conn_sent(c);
    pg_conn_send(c, SQL_CLAIM_GROUPS, a);
}

static void queues_loaded(struct unit *u, const PGresult *r)
{
    for (int i = 0; i < PQntuples(r); i++) {
        struct wqueue *q = unit_queue(u, (uint32_t)pg_col_i4(r, i, 0));
        if (!q || !claim_limited(&q->policy))
            continue;
        q->limits_known = true;
        q->use.running = pg_col_count(r, i, 1);
        q->use.full_us = pg_col_i8(r, i, 2);
        q->round = (uint64_t)pg_col_i8(r, i, 3);
        q->retry_us = pg_col_i8(r, i, 4);
    }
}

/* Rows of one group follow each other. NULL: no memory. */
static struct wgroup *group_loaded(struct unit *u, struct wqueue *q, const PGresult *r, int at)
{
    struct span key = pg_col_bytes(r, at, GROUP_KEY);
    struct wgroup *g = unit_group_add(u, q, key);
    if (!g || g->known)
        return g;
    g->known = true;
    g->use.running = pg_col_count(r, at, GROUP_RUNNING);
    g->use.full_us = pg_col_i8(r, at, GROUP_FULL_US);
    g->round = (uint64_t)pg_col_i8(r, at, GROUP_ROUND);
    g->waits = pg_col_bool(r, at, GROUP_WAITS);
    return g;
}

static void groups_loaded(struct unit *u, PGresult *r)
{
    for (int i = 0; i < PQntuples(r); i++) {
        struct wqueue *q = unit_queue(u, (uint32_t)pg_col_i4(r, i, GROUP_QUEUE));
        struct wgroup *g = q && q->limits_known ? group_loaded(u, q, r, i) : NULL;
        if (!g || PQgetisnull(r, i, JOB_SEQ))
            continue;
        struct row *row = pg_load_row(u, r, i);
        if (!row || row->q != q)
            continue;
        pg_row_bodies(row, r, i);
        unit_group_claimable(u, g, row);
        g->more = g->ready.len >= (size_t)pg_col_i4(r, i, GROUP_MOST);
    }
}

/* Whether as many groups were found as were asked for. */
static void groups_counted(struct unit *u, const PGresult *r)
{
    const struct wgroup *last = NULL;
    for (size_t i = 0; i < u->name_count; i++) {
        struct wqueue *q = unit_queue_named(u, u->names[i].name);
        int32_t groups = 0;
        for (int k = 0; q && k < PQntuples(r); k++) {
            const struct wgroup *g = (uint32_t)pg_col_i4(r, k, GROUP_QUEUE) == q->number &&
                                             pg_col_bool(r, k, GROUP_FIRST)
                                         ? unit_group_add(u, q, pg_col_bytes(r, k, GROUP_KEY))
                                         : NULL;
            groups += g && g != last;
            last = g ? g : last;
        }
        if (q && u->names[i].claims)
            q->groups_more = groups >= groups_wanted(&u->names[i]);
    }
}

void pg_limits_loaded(struct unit *u)
{
    const size_t *slot = pg_unit(u)->slots;
    if (slot[LOAD_CLAIM_QUEUES] == SIZE_MAX)
        return;
    queues_loaded(u, pg_conn_result(pg_pipeline_of(u), slot[LOAD_CLAIM_QUEUES]));
    PGresult *r = pg_conn_take_result(pg_pipeline_of(u), slot[LOAD_CLAIM_GROUPS]);
    if (!pg_unit_keep(u, r))
        return;
    groups_loaded(u, r);
    groups_counted(u, r);
}

/* Rows of (queue, a column without meaning, whether the lock is exclusive). */
static bool limits_locked_in(const PGresult *locks, uint32_t queue)
{
    for (int i = 0; locks && i < PQntuples(locks); i++)
        if ((uint32_t)pg_col_i4(locks, i, 0) == queue)
            return pg_col_bool(locks, i, 2);
    return false;
}

bool pg_limits_locked(const struct unit *u, const PGresult *locks, const PGresult *more)
{
    for (size_t i = 0; i < u->queue_count; i++) {
        const struct wqueue *q = u->queues[i];
        bool limited = !q->gone && claim_limited(&q->policy);
        if (limited && !limits_locked_in(locks, q->number) && !limits_locked_in(more, q->number))
            return false;
    }
    return true;
}

/* --- store --- */

static bool in_order(const struct row *r)
{
    return claim_ordered(&r->q->policy) && !r->q->gone && r->changed;
}

static bool leaves_order(const struct row *r)
{
    return in_order(r) && r->loaded_state == STATE_READY &&
           (r->gone || r->job.state != STATE_READY);
}

static bool enters_order(const struct row *r)
{
    return in_order(r) && !r->gone && r->job.state == STATE_READY;
}

static void send_ready(struct unit *u, bool (*pick)(const struct row *r), enum sql_id id)
{
    struct args *a = &pg_unit(u)->args;
    size_t n = 0;
    pg_array_begin(a, ARRAY_I8);
    for (size_t i = 0; i < u->row_count; i++)
        if (pick(u->rows[i])) {
            pg_array_i8(a, (int64_t)u->rows[i]->job.seq);
            n++;
        }
    pg_array_end(a);
    if (n)
        pg_conn_send(pg_pipeline_of(u), id, a);
    else
        pg_args_clear(a);
}

static bool queue_used(const struct wqueue *q)
{
    return q->limits_used && !q->gone;
}

static void send_used(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    bool any = false;
    for (size_t i = 0; i < u->queue_count && !any; i++)
        any = queue_used(u->queues[i]);
    if (!any)
        return;
    for (int column = 0; column < 3; column++) {
        pg_array_begin(a, column ? ARRAY_I8 : ARRAY_I4);
        for (size_t i = 0; i < u->queue_count; i++) {
            const struct wqueue *q = u->queues[i];
            if (!queue_used(q))
                continue;
            if (column == 0)
                pg_array_i4(a, (int32_t)q->number);
            else
                pg_array_i8(a, column == 1 ? q->use.full_us : (int64_t)q->round);
        }
        pg_array_end(a);
    }
    pg_conn_send(pg_pipeline_of(u), SQL_CLAIM_QUEUE_SET, a);
}

static bool group_due(const struct wgroup *g)
{
    return g->touched && !g->q->gone;
}

static int64_t group_number(const struct unit *u, const struct wgroup *g, int column)
{
    if (column == 4)
        return g->known ? unit_group_wait_us(u, g) : -1;
    if (!g->served)
        return -1;
    return column == 2 ? (int64_t)g->round : g->use.full_us;
}

static void send_groups(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    bool any = false;
    for (size_t i = 0; i < u->group_count && !any; i++)
        any = group_due(u->groups[i]);
    if (!any)
        return;
    for (int column = 0; column < 5; column++) {
        pg_array_begin(a, column == 0 ? ARRAY_I4 : column == 1 ? ARRAY_TEXT : ARRAY_I8);
        for (size_t i = 0; i < u->group_count; i++) {
            const struct wgroup *g = u->groups[i];
            if (!group_due(g))
                continue;
            if (column == 0)
                pg_array_i4(a, (int32_t)g->q->number);
            else if (column == 1)
                pg_array_blob(a, g->key);
            else
                pg_array_i8(a, group_number(u, g, column));
        }
        pg_array_end(a);
    }
    pg_args_i8(a, u->now.ms * 1000);
    pg_conn_send(pg_pipeline_of(u), SQL_CLAIM_GROUP_SET, a);
}

/* One step that builds the order of this queue, or, with 0, of the first one whose order is not
 * complete. */
static size_t send_step(struct unit *u, uint32_t queue)
{
    static const enum sql_id parts[] = {SQL_CLAIM_STEP_READY, SQL_CLAIM_STEP_GROUPS,
                                        SQL_CLAIM_STEP_END};
    struct args *a = &pg_unit(u)->args;
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        pg_args_i4(a, (int32_t)queue);
        pg_args_i4(a, LIMIT_SLICE);
        if (parts[i] == SQL_CLAIM_STEP_GROUPS)
            pg_args_i8(a, u->now.ms * 1000);
        at = pg_conn_sent(pg_pipeline_of(u));
        pg_conn_send(pg_pipeline_of(u), parts[i], a);
    }
    return at;
}

static void put_queue(struct unit *u, const struct wqueue *q)
{
    const struct queue_policy *p = &q->policy;
    struct args *a = &pg_unit(u)->args;
    struct conn *c = pg_pipeline_of(u);
    pg_args_i4(a, (int32_t)q->number);
    pg_args_bool(a, claim_ordered(p));
    pg_args_bool(a, claim_grouped(p));
    pg_args_bool(a, p->fair == FAIR_GROUP);
    pg_args_i8(a, p->ageing_ms);
    pg_args_i8(a, p->max_running);
    pg_args_i8(a, p->max_running_per_group);
    pg_args_bool(a, q->rate_changed);
    pg_conn_send(c, SQL_CLAIM_QUEUE_PUT, a);
    pg_of_unit(u)->limits_exist = u->s->tick_wanted = true;
    if (q->limits_new)
        return;
    pg_args_i4(a, (int32_t)q->number);
    pg_conn_send(c, SQL_CLAIM_SLOTS, a);
    pg_args_i4(a, (int32_t)q->number);
    pg_args_bool(a, q->rate_changed);
    pg_conn_send(c, SQL_CLAIM_OPEN, a);
    (void)send_step(u, q->number); /* a short backlog can be claimed at once */
}

static void drop_queue(struct unit *u, const struct wqueue *q)
{
    struct args *a = &pg_unit(u)->args;
    pg_array_begin(a, ARRAY_I4);
    pg_array_i4(a, (int32_t)q->number);
    pg_array_end(a);
    pg_args_bool(a, q->ended);
    pg_conn_send(pg_pipeline_of(u), SQL_CLAIM_DROP, a);
}

static bool send_queues(struct unit *u)
{
    bool any = false;
    for (size_t i = 0; i < u->queue_count; i++) {
        const struct wqueue *q = u->queues[i];
        bool limited = claim_limited(&q->policy);
        any |= limited;
        if (q->put && !q->gone && (limited || q->was_limited))
            put_queue(u, q);
        if ((q->purged || q->ended) && (limited || q->was_limited))
            drop_queue(u, q);
    }
    return any;
}

void pg_limits_send_store(struct unit *u)
{
    if (!send_queues(u))
        return;
    send_ready(u, leaves_order, SQL_CLAIM_READY_DEL);
    send_ready(u, enters_order, SQL_CLAIM_READY_ADD);
    send_used(u);
    send_groups(u);
}

/* --- steps of the leader --- */

void pg_limits_send_due(struct pg_store *s)
{
    struct unit *u = s->unit;
    struct args *a = &pg_unit(u)->args;
    s->step_at = s->limits_exist ? send_step(u, 0) : SIZE_MAX;
    if (!s->limits_exist)
        return;
    pg_args_i4(a, LIMIT_SLICE);
    pg_args_i8(a, u->now.ms * 1000);
    pg_conn_send(s->pipeline, SQL_CLAIM_CLEAN, a);
    pg_conn_send(s->pipeline, SQL_CLAIM_CLEAN_END, a);
}

bool pg_limits_stepped(struct pg_store *s, const PGresult *locks)
{
    if (s->step_at == SIZE_MAX)
        return true;
    s->tick_more |= pg_col_sum(pg_conn_result(s->pipeline, s->step_at + 1), 0, 0) >= LIMIT_SLICE;
    PGresult *r = pg_conn_take_result(s->pipeline, s->step_at);
    if (!pg_unit_keep(s->unit, r) || PQntuples(r) == 0)
        return true;
    s->tick_more = true; /* this queue, or another one */
    s->tick_stepped = r;
    return limits_locked_in(locks, (uint32_t)pg_col_i4(r, 0, 0));
}
