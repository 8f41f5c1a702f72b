/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: made, changed, paused, purged, deleted. Each of these has its unit to itself, with the
 * queue locked against all others; an enqueue that makes its queue has not. */
#include "backend/postgres/impl.h"
#include "core/validate.h"

#define UNTIL_WRONG "until must be a time before the year 10000, or nothing"

struct wqueue *pg_queue_make(struct unit *u, struct span name, const struct queue_policy *policy)
{
    if (u->number_next >= u->number_count) {
        u->short_of_numbers = true; /* it was known when the unit began, and went: begin anew */
        return NULL;
    }
    struct wqueue *q = pg_unit_queue_add(u, u->numbers[u->number_next++], name);
    if (!q)
        return NULL;
    q->policy = *policy;
    q->created_at = q->updated_at = u->now;
    q->put = q->counted = true;
    u->records++;
    pg_known_learn(u->s, q);
    pg_unit_tell_queue(u, EVENT_QUEUE_CREATED, q, 0);
    return q;
}

/* Those it would change are asked for as they are now; nothing is written before all is right. */
static bool texts_right(struct unit *u, const struct op_queue *want, struct turn *t)
{
    struct err_note note;
    if ((want->has_owner && validate_text("owner", want->owner, LIMIT_LABEL_BYTES, &note) != 0) ||
        (want->has_note && validate_text("note", want->note, LIMIT_NOTE_BYTES, &note) != 0) ||
        (want->has_attributes &&
         validate_text("attributes", want->attributes, LIMIT_NOTE_BYTES, &note) != 0))
        return pg_refuse_note(u, t, &note);
    return true;
}

static bool put_allowed(struct unit *u, const struct op_queue *want, const struct wqueue *q,
                        struct turn *t)
{
    struct err_note note;
    if (q && want->must_create)
        return pg_refuse(t, OUT_EXISTS, NULL);
    if (!q && want->must_exist)
        return pg_refuse(t, OUT_NO_QUEUE, NULL);
    if (!q && validate_queue_name(want->name, &note) != 0)
        return pg_refuse_note(u, t, &note);
    if (want->policy && policy_check(want->policy, &note) != 0)
        return pg_refuse_note(u, t, &note);
    if (want->has_until && (want->until.ms < 0 || want->until.ms > LIMIT_WALL_MS))
        return pg_refuse(t, OUT_INVALID, UNTIL_WRONG);
    return texts_right(u, want, t);
}

/* Jobs that share a key, as SQL_SHARED found them: rows of (seq, how many but for the first). */
static bool shared_shown(struct unit *u, struct turn *t)
{
    const PGresult *r = u->shared;
    int n = r ? PQntuples(r) : 0;
    struct job_view *views = arena_array(&u->arena, (size_t)n + 1, sizeof *views);
    if (n == 0 || !views)
        return true;
    for (int i = 0; i < n; i++) {
        pg_view_row(u->s, r, i, u->now, true, &u->arena, &views[i]);
        views[i].payload = views[i].result = (struct span){NULL, 0};
    }
    t->reply.jobs = views;
    t->reply.job_count = (uint32_t)n;
    t->reply.seq = views[0].job.seq;
    t->reply.id_hi = views[0].job.id_hi;
    t->reply.state = views[0].job.state;
    t->reply.count = (uint64_t)pg_col_i8(r, 0, JOB_QUEUE_PAUSED + 1);
    return pg_refuse(t, OUT_DUPLICATE, NULL);
}

static bool widens(uint8_t from, uint8_t to)
{
    return from != to && to != UNIQUE_NONE && !(from == UNIQUE_KEPT && to == UNIQUE_LIVE);
}

bool pg_queues_need_shared(struct unit *u)
{
    const struct turn *t = &u->turns[0];
    if (u->count != 1 || t->op->kind != OP_QUEUE_PUT || !t->op->queue.policy || u->shared_asked)
        return false;
    const struct wqueue *q = pg_unit_queue_named(u, t->op->queue.name);
    if (!q || !widens(q->policy.unique_scope, t->op->queue.policy->unique_scope))
        return false;
    u->shared_asked = true;
    pg_args_i4(&u->args, (int32_t)q->number);
    pg_args_i4(&u->args, (int32_t)q->generation);
    pg_conn_send(u->s->lane, SQL_SHARED, &u->args);
    return true;
}

/* A new scope makes other jobs hold their keys, or fewer. */
static void rescope(struct unit *u, struct wqueue *q, uint8_t from)
{
    if (from != q->policy.unique_scope)
        u->rescoped = q;
}

void pg_work_queue_put(struct unit *u, struct turn *t)
{
    const struct op_queue *want = &t->op->queue;
    struct wqueue *q = pg_unit_queue_named(u, want->name);
    bool created = !q;
    if (!put_allowed(u, want, q, t) || (q && !shared_shown(u, t)))
        return;
    uint8_t scope = q ? q->policy.unique_scope : 0;
    if (!q)
        q = pg_queue_make(u, want->name, want->policy ? want->policy : &u->s->policy);
    else
        pg_unit_tell_queue(u, EVENT_QUEUE_CHANGED, q, 0);
    if (!q)
        return;
    if (want->policy)
        q->policy = *want->policy;
    q->updated_at = u->now;
    q->put = true;
    if (want->has_owner)
        q->owner = want->owner;
    if (want->has_note)
        q->note = want->note;
    if (want->has_attributes)
        q->attributes = want->attributes;
    if (want->has_until)
        q->paused_until = want->until;
    if (!created)
        rescope(u, q, scope);
    q->wake = !pg_queue_paused(u, q);
    u->records++;
    u->s->trim_wanted = true;
    pg_known_learn(u->s, q);
    pg_unit_depth(u, q);
    t->reply.created = created;
}

/* The queue the operation names; NULL: there is none, and the reply says so. */
static struct wqueue *queue_asked(struct unit *u, struct turn *t)
{
    struct wqueue *q = pg_unit_queue_named(u, t->op->queue.name);
    if (!q)
        pg_refuse(t, OUT_NO_QUEUE, NULL);
    return q;
}

void pg_work_pause(struct unit *u, struct turn *t)
{
    struct wqueue *q = queue_asked(u, t);
    if (!q)
        return;
    if (t->op->queue.until.ms < 0 || t->op->queue.until.ms > LIMIT_WALL_MS) {
        pg_refuse(t, OUT_INVALID, UNTIL_WRONG);
        return;
    }
    q->paused_until = t->op->queue.until;
    q->updated_at = u->now;
    q->put = true;
    q->wake = !pg_queue_paused(u, q);
    u->records++;
    pg_unit_tell_queue(u, pg_queue_paused(u, q) ? EVENT_QUEUE_PAUSED : EVENT_QUEUE_RESUMED, q, 0);
}

/* What is counted of jobs in these states is counted no more. */
static void uncount(struct wqueue *q, unsigned states)
{
    for (uint8_t s = STATE_SCHEDULED; s < (uint8_t)STATE_COUNT; s++)
        if (STATE_BIT(s) & states)
            q->adds[s - 1] = -q->sums[s - 1];
    if (STATE_BIT(STATE_READY) & states)
        q->adds[SUM_URGENT] = -q->sums[SUM_URGENT];
}

void pg_work_purge(struct unit *u, struct turn *t)
{
    struct wqueue *q = queue_asked(u, t);
    if (!q)
        return;
    uint64_t n = pg_queue_state_count(q, STATE_READY) + pg_queue_state_count(q, STATE_SCHEDULED);
    if (n == 0)
        return;
    q->generation++;
    q->put = q->purged = true;
    uncount(q, STATES_WAITING);
    q->adds[SUM_REMOVED] += (int64_t)n;
    u->records++;
    u->s->tick_wanted = true;
    t->reply.count = n;
    pg_unit_tell_queue(u, EVENT_QUEUE_PURGED, q, n);
}

void pg_work_queue_delete(struct unit *u, struct turn *t)
{
    const struct op_queue *want = &t->op->queue;
    struct wqueue *q = queue_asked(u, t);
    if (!q)
        return;
    for (uint8_t s = STATE_SCHEDULED; s < (uint8_t)STATE_COUNT; s++)
        t->reply.count += pg_queue_state_count(q, s);
    if (want->only_empty &&
        (t->reply.count > 0 || (want->has_owner && !span_equal(want->owner, q->owner)))) {
        pg_refuse(t, OUT_ILLEGAL, NULL);
        return;
    }
    uncount(q, STATES_ALL);
    q->gone = q->ended = true;
    u->records++;
    u->s->tick_wanted = true;
    pg_known_forget(u->s, q->name);
    pg_unit_tell_queue(u, EVENT_QUEUE_DELETED, q, t->reply.count);
}

void pg_work_accept_clock(struct unit *u, struct turn *t)
{
    (void)u, (void)t; /* the database's clock is nobody's to suspect */
}

/* What this store has no tables for yet, by the operation. */
void pg_work_not_yet(struct unit *u, struct turn *t)
{
    (void)u;
    int kind = (int)t->op->kind;
    pg_refuse(t, OUT_INVALID,
              kind >= OP_KV_COMMIT && kind <= OP_KV_LIST      ? NOT_YET "keys and values yet"
              : kind >= OP_SCHEDULE_PUT && kind <= OP_TRIGGER ? NOT_YET "schedules yet"
              : kind == OP_PAGE                               ? NOT_YET "ranked queues yet"
                                                              : NOT_YET "alerts and notices yet");
}
