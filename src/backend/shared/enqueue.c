/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueue and import: idempotency key, unique key, limits, then the new job.
 *
 * An enqueue is planned, which changes nothing but that it may make the queue, and then made; of
 * several that belong together all are planned before the first is made. */
#include "backend/enqueue_rules.h"
#include "backend/shared/shared.h"
#include "base/check.h"
#include "core/validate.h"

static bool values_right(struct unit *u, const struct op_enqueue *want, struct turn *t)
{
    struct err_note note;
    return unit_body_right(t, want->payload_kind, want->payload, LIMIT_PAYLOAD_BYTES) &&
           (enqueue_check(want, &note) == 0 || unit_refuse_note(u, t, &note));
}

/* What those that are planned before this one will take. */
struct plans {
    size_t jobs, here, keys; /* here: of the same queue */
};

static struct plans plans_sum(const struct enqueue_plan *before, size_t count,
                              const struct wqueue *q)
{
    struct plans sum = {0, 0, 0};
    for (size_t i = 0; i < count; i++) {
        if (before[i].answered)
            continue;
        sum.jobs++;
        sum.here += before[i].q == q;
        sum.keys += !hash128_none(before[i].key);
    }
    return sum;
}

/* --- idempotency keys --- */

static struct idem *idem_find(const struct unit *u, struct hash128 key)
{
    struct idem *k = u->idems;
    while (k && !hash128_equal(k->key, key))
        k = k->next;
    return k;
}

/* The first enqueue's answer, given again. */
static bool key_answers(struct unit *u, const struct op_enqueue *want, struct hash128 key,
                        struct turn *t)
{
    const struct idem *k = hash128_none(key) ? NULL : idem_find(u, key);
    if (!k || k->expires_at.ms <= u->now.ms)
        return false;
    if (k->fingerprint != want->fingerprint) {
        unit_refuse(t, OUT_KEY_REUSED, NULL);
        return true;
    }
    const struct row *r = unit_row(u, k->seq);
    t->reply.seq = k->seq;
    t->reply.id_hi = k->id_hi;
    t->reply.state = r ? (unit_row_there(r) ? r->job.state : STATE_NONE) : k->state;
    t->reply.created = true;
    t->reply.repeat = true;
    return true;
}

/* It came before, longer ago than keys are remembered. */
static bool id_answers(const struct unit *u, const struct op_enqueue *want, struct turn *t)
{
    const struct row *r = want->id.seq ? unit_row(u, want->id.seq) : NULL;
    if (!r || !unit_row_there(r))
        return false;
    unit_reply_row(t, r);
    if (r->job.id_hi == want->id.hi)
        t->reply.created = t->reply.repeat = true;
    else
        unit_refuse(t, OUT_EXISTS, NULL);
    return true;
}

/* One that moves in finds its place taken; also by one that only awaits its removal. */
static bool place_taken(const struct unit *u, const struct op_enqueue *want, struct turn *t)
{
    const struct row *r = want->moved ? unit_row(u, want->moved->seq) : NULL;
    if (!r)
        return false;
    unit_reply_row(t, r);
    unit_refuse(t, OUT_EXISTS, NULL);
    return true;
}

static uint64_t keys_max(const struct shared *s)
{
    return s->config.keys_max ? s->config.keys_max : 4000000;
}

static bool key_room(struct unit *u, struct hash128 key, const struct plans *ahead, struct turn *t)
{
    if (hash128_none(key))
        return true;
    const struct idem *old = idem_find(u, key);
    uint64_t used = u->keys + (uint64_t)u->key_adds + ahead->keys - (old != NULL);
    return used < keys_max(u->s) || unit_refuse(t, OUT_KEYS_FULL, NULL);
}

static void key_keep(struct unit *u, const struct op_enqueue *want, struct hash128 key,
                     const struct job *j)
{
    struct idem *k = idem_find(u, key);
    bool replaces = k != NULL;
    if (!k) {
        k = unit_alloc(u, sizeof *k);
        if (!k)
            return;
        k->next = u->idems;
        u->idems = k;
    }
    uint64_t ttl = u->s->config.key_ttl_ms ? u->s->config.key_ttl_ms : 24 * 3600 * 1000;
    k->key = key;
    k->fingerprint = want->fingerprint;
    k->seq = j->seq;
    k->id_hi = j->id_hi;
    k->expires_at.ms = u->now.ms + (int64_t)ttl;
    k->fresh = true;
    u->key_adds += !replaces;
    u->idem_replaced |= replaces;
}

/* --- unique keys --- */

static bool comes_ended(const struct op_enqueue *want)
{
    return want->past && !(STATE_BIT(want->past->state) & STATES_LIVE);
}

/* Whether the unique key allows a new job; *ret_replace is the waiting job it takes the place of.
 */
static bool unique_allows(struct unit *u, struct wqueue *q, const struct op_enqueue *want,
                          struct turn *t, struct row **ret_replace)
{
    *ret_replace = NULL;
    bool holds = want->extra.unique.len &&
                 (!comes_ended(want) || unit_scope_holds(&q->policy, want->past->state));
    struct row *holder = holds ? unit_holder(u, q, want->extra.unique) : NULL;
    if (!holder)
        return true;
    if (!unit_row_there(holder)) {
        /* A purge has ended it; its row goes now, since it has the key. The purge has counted it.
         */
        holder->gone = holder->changed = true;
        holder->held = false;
        return true;
    }
    uint8_t mode = want->past          ? UNIQUE_REJECT
                   : want->unique_mode ? want->unique_mode
                                       : q->policy.unique_mode;
    unit_reply_row(t, holder);
    if (mode == UNIQUE_RETURN)
        return false;
    if (mode == UNIQUE_REPLACE && (STATE_BIT(holder->job.state) & STATES_WAITING)) {
        *ret_replace = holder;
        return true;
    }
    return unit_refuse(t, OUT_DUPLICATE, NULL);
}

/* --- limits --- */

/* no_need: it takes the place of another, or none that is counted. */
static bool room_left(struct unit *u, const struct wqueue *q, bool no_need,
                      const struct plans *ahead, struct turn *t)
{
    const struct known *k = known_find(u->s, q->name);
    uint64_t live = q->counted || !k ? unit_queue_live(q) : k->live;
    if (no_need)
        return true;
    if (live + ahead->here >= q->policy.capacity)
        return unit_refuse(t, OUT_QUEUE_FULL, NULL);
    if (u->s->config.capacity && u->live + ahead->jobs >= u->s->config.capacity)
        return unit_refuse(t, OUT_SERVER_FULL, NULL);
    return true;
}

/* Whether the first enqueue into a queue may make it. */
static bool queue_may_be_made(struct unit *u, const struct op_enqueue *want, struct turn *t)
{
    struct err_note note;
    if (validate_queue_name(want->queue, &note) != 0)
        return unit_refuse_note(u, t, &note);
    if (want->no_create || u->s->config.no_auto_create)
        return unit_refuse(t, OUT_NO_QUEUE, NULL);
    if (want->payload.len > u->s->policy.payload_max)
        return unit_refuse(t, OUT_TOO_BIG, NULL);
    if (!unit_queue_room(u, true))
        return unit_refuse(t, OUT_QUEUES_FULL, NULL);
    if (u->s->config.capacity && u->live >= u->s->config.capacity)
        return unit_refuse(t, OUT_SERVER_FULL, NULL);
    if (want->idempotency_key.len && u->keys + (uint64_t)u->key_adds >= keys_max(u->s))
        return unit_refuse(t, OUT_KEYS_FULL, NULL);
    return true;
}

/* --- the job --- */

static struct wall_time run_at_of(const struct unit *u, const struct op_enqueue *want)
{
    if (want->run_at.ms || !want->delay_ms)
        return want->run_at;
    int64_t room = LIMIT_WALL_MS - u->now.ms;
    return (struct wall_time){want->delay_ms > room ? LIMIT_WALL_MS : u->now.ms + want->delay_ms};
}

static bool has_extra(const struct job_extra *x)
{
    return x->unique.len || x->group.len || x->correlation.len || x->label.len ||
           x->attributes.len || x->expires_at.ms || x->options.len;
}

static void fill_options(struct unit *u, const struct op_enqueue *want, struct row *r)
{
    struct buf b;
    r->extra.options = (struct span){NULL, 0};
    if (!want->options || options_empty(want->options))
        return;
    buf_init(&b);
    const char *copy =
        options_encode(want->options, &b) == 0 ? arena_copy(&u->arena, b.data, b.len) : NULL;
    r->extra.options = span_of(copy, copy ? b.len : 0);
    u->nomem |= !copy;
    buf_done(&b);
}

static void fill_past(const struct job_past *past, struct row *r)
{
    if (past->state == STATE_DEAD)
        r->job.state = STATE_DEAD;
    r->job.reason = past->reason;
    r->job.failures = past->failures;
    r->job.crashes = past->crashes;
    r->error_kind = past->error_kind;
    r->error = past->error;
}

/* What it went through elsewhere; a done one's last attempt is told from its row. */
static void fill_attempts(struct unit *u, const struct job_moved *m, struct row *r)
{
    for (uint32_t i = 0; i < m->attempt_count; i++) {
        const struct attempt_view *a = &m->attempts[i];
        if (i + 1 == m->attempt_count && r->job.state == STATE_DONE && a->outcome == ATTEMPT_DONE) {
            r->started_at = a->started_at;
            r->worker = a->worker;
            return;
        }
        if (r->job.state != STATE_DONE)
            r->started_at = a->started_at;
        unit_ended_add(u, &(struct ended){.row = r,
                                          .number = a->number,
                                          .started_at = a->started_at,
                                          .at = a->ended_at,
                                          .outcome = a->outcome,
                                          .error_kind = a->error_kind,
                                          .worker = a->worker,
                                          .error = a->error});
    }
}

static void fill_moved(struct unit *u, const struct op_enqueue *want, struct row *r)
{
    const struct job_moved *m = want->moved;
    r->moved = true;
    r->job.id_hi = m->id_hi;
    r->job.since = m->since;
    r->job.state = want->past->state;
    r->result_kind = m->result_kind;
    r->result = m->result;
    r->set_result = m->result_kind != PAYLOAD_NONE;
    fill_attempts(u, m, r);
    if (m->seq > u->seq_floor)
        u->seq_floor = m->seq;
}

static uint64_t seq_for(const struct unit *u, const struct op_enqueue *want)
{
    if (want->moved)
        return want->moved->seq;
    return want->id.seq ? want->id.seq : u->seqs[u->seq_next];
}

static struct row *job_new(struct unit *u, struct wqueue *q, const struct op_enqueue *want)
{
    CHECK(u->seq_next < u->seq_count);
    struct row *r = unit_row_add(u, seq_for(u, want));
    if (!r)
        return NULL;
    u->seq_next++;
    r->fresh = true;
    r->q = q;
    r->extra = want->extra;
    fill_options(u, want, r);
    struct wall_time run_at = run_at_of(u, want);
    r->job = (struct job){
        .seq = r->job.seq,
        .id_hi = want->id.seq ? want->id.hi : id_hi(u->now, u->s->config.node),
        .priority = want->has_priority ? want->priority : q->policy.priority,
        .run_at = run_at,
        .since = u->now,
        .queue = q->number,
        .payload_bytes = (uint32_t)want->payload.len,
        .generation = q->generation,
        .state = run_at.ms > u->now.ms ? STATE_SCHEDULED : STATE_READY,
        .payload_kind = want->payload_kind,
        .flags = has_extra(&r->extra) ? JOB_HAS_EXTRA : 0,
    };
    r->payload = want->payload;
    r->has_payload = true;
    if (want->past)
        fill_past(want->past, r);
    if (want->moved)
        fill_moved(u, want, r);
    unit_row_after(u, r);
    q->adds[SUM_TALLY + TALLY_ENQUEUED]++;
    u->live += !comes_ended(want);
    if (!want->moved) /* nobody hears of it: it did not happen here */
        unit_tell(u, EVENT_ENQUEUED, r);
    return r;
}

static void replace(struct unit *u, struct row *old, struct turn *t)
{
    struct record rec = {
        .kind = REC_JOB_CANCELLED,
        .job_cancelled = {.seq = old->job.seq, .reason = REASON_REPLACED, .at = u->now},
    };
    t->reply.replaced_seq = old->job.seq;
    unit_row_take(u, old, &rec);
}

static void made(struct unit *u, struct turn *t, const struct row *r)
{
    struct known *k = known_find(u->s, r->q->name);
    if (k)
        k->live += (STATE_BIT(r->job.state) & STATES_LIVE) != 0;
    unit_reply_row(t, r);
    t->reply.run_at = r->job.run_at;
    t->reply.created = true;
    unit_reply_relaxed(t, r->q);
}

/* --- plans --- */

static bool queue_found(struct unit *u, struct enqueue_plan *p, struct turn *t)
{
    const struct op_enqueue *want = p->want;
    if (!p->q)
        p->q = unit_queue_named(u, want->queue); /* an enqueue before it may have brought it */
    const struct queue_policy *policy = p->q ? &p->q->policy : &u->s->policy;
    if (place_taken(u, want, t))
        return false;
    if (policy->refuse_new && !want->past)
        return unit_refuse(t, OUT_REFUSED_NEW, NULL);
    if (want->payload.len > policy->payload_max)
        return unit_refuse(t, OUT_TOO_BIG, NULL);
    if (!p->q && !unit_queue_room(u, true))
        return unit_refuse(t, OUT_QUEUES_FULL, NULL);
    if (!p->q)
        p->q = unit_queue_make(u, want->queue, &u->s->policy);
    /* Without a number for it the unit begins anew, whatever is said here. */
    return p->q || unit_refuse(t, OUT_UNAVAILABLE, NULL);
}

bool unit_enqueue_look(struct unit *u, const struct op_enqueue *want, struct turn *t,
                       struct enqueue_plan *ret)
{
    *ret = (struct enqueue_plan){.want = want};
    if (want->idempotency_key.len)
        ret->key = hash128_of(u->s->facts.hash_key, want->idempotency_key);
    if (!values_right(u, want, t))
        return false;
    ret->answered = key_answers(u, want, ret->key, t) || id_answers(u, want, t);
    if (ret->answered)
        return t->reply.outcome == OUT_OK;
    ret->q = unit_queue_named(u, want->queue);
    return ret->q || queue_may_be_made(u, want, t);
}

bool unit_enqueue_plan(struct unit *u, const struct enqueue_plan *before, size_t count,
                       struct turn *t, struct enqueue_plan *p)
{
    const struct op_enqueue *want = p->want;
    if (p->answered)
        return true;
    if (!queue_found(u, p, t))
        return false;
    if (!unique_allows(u, p->q, want, t, &p->old)) {
        p->answered = t->reply.outcome == OUT_OK;
        return p->answered;
    }
    struct plans ahead = plans_sum(before, count, p->q);
    struct rate_claim rate;
    if (!room_left(u, p->q, p->old || comes_ended(want), &ahead, t) ||
        !unit_rates_allow(u, p->q, want, t, &rate) || !key_room(u, p->key, &ahead, t))
        return false;
    unit_rates_add(u, &rate);
    return true;
}

struct row *unit_enqueue_make(struct unit *u, const struct enqueue_plan *p, struct turn *t)
{
    if (p->answered)
        return NULL;
    if (p->old)
        replace(u, p->old, t);
    struct row *r = job_new(u, p->q, p->want);
    if (!r)
        return NULL;
    if (!hash128_none(p->key))
        key_keep(u, p->want, p->key, &r->job);
    made(u, t, r);
    return r;
}

void work_enqueue(struct unit *u, struct turn *t)
{
    struct enqueue_plan p;
    if (unit_enqueue_look(u, &t->op->enqueue, t, &p) && unit_enqueue_plan(u, NULL, 0, t, &p))
        (void)unit_enqueue_make(u, &p, t);
}
