/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueue and import: idempotency key, unique key, limits, then the new job. */
#include "backend/enqueue_rules.h"
#include "backend/local/engine/engine_impl.h"
#include "backend/moved.h"
#include "core/validate.h"

static bool values_right(struct engine *e, const struct op_enqueue *want, struct engine_reply *r)
{
    struct err_note note;
    return body_right(r, want->payload_kind, want->payload, LIMIT_PAYLOAD_BYTES) &&
           (enqueue_check(want, &note) == 0 || refuse_note(e, r, &note));
}

/* The first enqueue's answer, given again. */
static bool key_answers(struct engine *e, const struct op_enqueue *want, struct hash128 key,
                        struct engine_reply *r)
{
    const struct key *k = hash128_none(key) ? NULL : keys_find(e, key);
    if (!k || (k->expires_at.ms <= e->now.wall.ms && !e->clock_suspect))
        return false;
    if (k->fingerprint != want->fingerprint) {
        refuse(r, OUT_KEY_REUSED, NULL);
        return true;
    }
    const struct live *l = jobs_find(e, (struct job_ref){k->seq, k->id_hi}, NULL);
    r->reply.seq = k->seq;
    r->reply.id_hi = k->id_hi;
    r->reply.state = l ? l->job.state : STATE_NONE;
    r->reply.created = true;
    r->reply.repeat = true;
    return true;
}

/* It came before, longer ago than keys are remembered. */
static bool id_answers(struct engine *e, const struct op_enqueue *want, struct engine_reply *r)
{
    const struct live *l =
        want->id.seq ? jobs_find(e, (struct job_ref){want->id.seq, 0}, NULL) : NULL;
    if (!l)
        return false;
    reply_job(r, l);
    if (l->job.id_hi == want->id.hi)
        r->reply.created = r->reply.repeat = true;
    else
        refuse(r, OUT_EXISTS, NULL);
    return true;
}

/* A key that expired but was not swept yet makes room for its successor. */
static bool key_room(struct engine *e, struct hash128 key, size_t ahead, struct engine_reply *r)
{
    if (hash128_none(key))
        return true;
    const struct key *old = keys_find(e, key);
    if (old && !keys_emit_gone(e, old, 1))
        return refuse_nomem(r);
    if (e->keys.used + ahead >= e->config.keys_max)
        return refuse(r, OUT_KEYS_FULL, NULL);
    return keys_reserve(e, ahead + 1) == 0 || refuse_nomem(r);
}

static bool comes_ended(const struct op_enqueue *want)
{
    return want->past && !(STATE_BIT(want->past->state) & STATES_LIVE);
}

/* Whether the unique key allows a new job; *ret_replace is the waiting job it takes the place of.
 */
static bool unique_allows(struct engine *e, const struct queue *q, const struct op_enqueue *want,
                          struct hash128 unique, struct engine_reply *r, struct live **ret_replace)
{
    *ret_replace = NULL;
    bool holds =
        !hash128_none(unique) && (!comes_ended(want) || jobs_unique_holds(q, want->past->state));
    struct live *holder = holds ? jobs_unique_holder(e, unique) : NULL;
    if (!holder)
        return true;
    uint8_t mode = want->past          ? UNIQUE_REJECT
                   : want->unique_mode ? want->unique_mode
                                       : q->policy.unique_mode;
    reply_job(r, holder);
    if (DEFECT(&e->config, DEFECT_DUPLICATE_EARLY))
        r->after = 0;
    if (mode == UNIQUE_RETURN)
        return false;
    if (mode == UNIQUE_REPLACE && state_waits(holder->job.state)) {
        *ret_replace = holder;
        return true;
    }
    return refuse(r, OUT_DUPLICATE, NULL);
}

static uint64_t queue_live(const struct queue *q)
{
    return q->lists[STATE_SCHEDULED].count + q->lists[STATE_READY].count +
           q->lists[STATE_RUNNING].count;
}

/* no_need: it takes the place of another, or none that is counted. */
static bool room_left(const struct engine *e, const struct queue *q, bool no_need, size_t here,
                      size_t ahead, struct engine_reply *r)
{
    if (no_need)
        return true;
    if (queue_live(q) + here >= q->policy.capacity)
        return refuse(r, OUT_QUEUE_FULL, NULL);
    if (e->config.capacity && e->live + ahead >= e->config.capacity)
        return refuse(r, OUT_SERVER_FULL, NULL);
    return true;
}

/* Whether the first enqueue into a queue may make it. */
static bool queue_may_be_made(struct engine *e, const struct op_enqueue *want,
                              struct engine_reply *r)
{
    struct err_note note;
    if (validate_queue_name(want->queue, &note) != 0)
        return refuse_note(e, r, &note);
    if (want->no_create || e->config.no_auto_create)
        return refuse(r, OUT_NO_QUEUE, NULL);
    if (want->payload.len > e->config.policy.payload_max)
        return refuse(r, OUT_TOO_BIG, NULL);
    if (!queue_may_be_added(e, true))
        return refuse(r, OUT_QUEUES_FULL, NULL);
    if (e->config.capacity && e->live >= e->config.capacity)
        return refuse(r, OUT_SERVER_FULL, NULL);
    if (want->idempotency_key.len && e->keys.used >= e->config.keys_max)
        return refuse(r, OUT_KEYS_FULL, NULL);
    return true;
}

static struct wall_time run_at_of(const struct engine *e, const struct op_enqueue *want)
{
    if (want->run_at.ms || !want->delay_ms)
        return want->run_at;
    int64_t room = LIMIT_WALL_MS - e->now.wall.ms;
    return (struct wall_time){want->delay_ms > room ? LIMIT_WALL_MS
                                                    : e->now.wall.ms + want->delay_ms};
}

static bool has_extra(const struct job_extra *x)
{
    return x->unique.len || x->group.len || x->correlation.len || x->label.len ||
           x->attributes.len || x->expires_at.ms || x->options.len;
}

/* Its id is as new as its sequence: with the old time and node in it, it could be another job's. */
static void fill_past(const struct job_past *past, struct job *j)
{
    if (past->state == STATE_DEAD)
        j->state = STATE_DEAD;
    j->reason = past->reason;
    j->failures = past->failures;
    j->crashes = past->crashes;
}

/* One that moves in whole keeps both. */
static void fill_moved(const struct op_enqueue *want, struct job *j)
{
    j->seq = want->moved->seq;
    j->id_hi = want->moved->id_hi;
    j->since = want->moved->since;
    j->state = want->past->state;
}

static int fill_new(struct engine *e, const struct queue *q, const struct op_enqueue *want,
                    struct rec_job_new *n)
{
    n->extra = want->extra;
    n->extra.options = (struct span){NULL, 0};
    if (want->options && !options_empty(want->options)) {
        buf_clear(&e->scratch);
        int err = options_encode(want->options, &e->scratch);
        if (err)
            return err;
        n->extra.options = buf_span(&e->scratch);
    }
    struct wall_time run_at = run_at_of(e, want);
    n->payload = want->payload;
    n->job = (struct job){
        .id_hi = id_hi(e->now.wall, e->config.node),
        .priority = want->has_priority ? want->priority : q->policy.priority,
        .run_at = run_at,
        .since = e->now.wall,
        .queue = q->number,
        .payload_bytes = (uint32_t)want->payload.len,
        .generation = q->generation,
        .state = run_at.ms > e->now.wall.ms ? STATE_SCHEDULED : STATE_READY,
        .payload_kind = want->payload_kind,
        .flags = has_extra(&n->extra) ? JOB_HAS_EXTRA : 0,
    };
    if (want->past)
        fill_past(want->past, &n->job);
    if (want->past && want->moved)
        fill_moved(want, &n->job);
    if (want->id.seq)
        n->job.id_hi = want->id.hi;
    return 0;
}

/* Its last error; see rec_job_back. Nobody hears of it: it did not happen here. */
static void emit_error(struct engine *e, const struct job_past *past, const struct job *j)
{
    struct record rec;
    if (past->state == STATE_DEAD) {
        rec.kind = REC_JOB_DEAD;
        rec.job_dead = (struct rec_job_dead){.seq = j->seq,
                                             .reason = j->reason,
                                             .failures = j->failures,
                                             .crashes = j->crashes,
                                             .at = j->since,
                                             .error_kind = past->error_kind,
                                             .error = past->error};
    } else {
        rec.kind = REC_JOB_BACK;
        rec.job_back = (struct rec_job_back){.seq = j->seq,
                                             .state = j->state,
                                             .reason = j->reason,
                                             .failures = j->failures,
                                             .crashes = j->crashes,
                                             .generation = j->generation,
                                             .run_at = j->run_at,
                                             .at = j->since,
                                             .error_kind = past->error_kind,
                                             .error = past->error};
    }
    engine_emit_silent(e, &rec);
}

static void emit_attempt(struct engine *e, uint64_t seq, const struct attempt_view *a)
{
    struct record rec = {.kind = REC_JOB_ATTEMPT,
                         .job_attempt = {.seq = seq,
                                         .number = a->number,
                                         .outcome = a->outcome,
                                         .error_kind = a->error_kind,
                                         .started_at = a->started_at,
                                         .ended_at = a->ended_at,
                                         .worker = a->worker,
                                         .error = a->error}};
    engine_emit_silent(e, &rec);
}

/* What it went through. None of it happened here. */
static void emit_moved(struct engine *e, const struct op_enqueue *want)
{
    const struct job_moved *m = want->moved;
    struct record rec = {.kind = REC_JOB_NOTED,
                         .job_noted = {.seq = m->seq,
                                       .has_result = m->result_kind != PAYLOAD_NONE,
                                       .has_error = want->past->error.len > 0,
                                       .result_kind = m->result_kind,
                                       .result = m->result,
                                       .error_kind = want->past->error_kind,
                                       .error = want->past->error}};
    if (rec.job_noted.has_result || rec.job_noted.has_error)
        engine_emit_silent(e, &rec);
    for (uint32_t i = 0; i < m->attempt_count; i++)
        emit_attempt(e, m->seq, &m->attempts[i]);
}

static void emit_replaced(struct engine *e, struct live *old, struct engine_reply *r)
{
    struct record rec = {
        .kind = REC_JOB_CANCELLED,
        .job_cancelled = {.seq = old->job.seq, .reason = REASON_REPLACED, .at = e->now.wall},
    };
    r->reply.replaced_seq = old->job.seq;
    engine_emit(e, &rec);
}

static void emit_key(struct engine *e, const struct op_enqueue *want, struct hash128 key,
                     const struct job *job)
{
    int64_t expires = e->now.wall.ms + (int64_t)e->config.key_ttl_ms;
    if (e->key_last) {
        const struct key *last = slab_at(&e->keys, e->key_last);
        if (last->expires_at.ms > expires)
            expires = last->expires_at.ms;
    }
    struct record rec = {
        .kind = REC_KEY_NEW,
        .key_new = {.key = key,
                    .fingerprint = want->fingerprint,
                    .seq = job->seq,
                    .id_hi = job->id_hi,
                    .expires_at = {expires}},
    };
    engine_emit(e, &rec);
}

/* Sequence block, replaced job, key, an import's error and a job's keys without their texts: bounds
 * of them all. */
#define SMALL_RECORDS_BYTES 672

/* Bytes of everything an enqueue may write. */
static size_t enqueue_bytes(const struct op_enqueue *want, const struct record *rec)
{
    return record_bytes_max(rec) + SMALL_RECORDS_BYTES + want->extra.undelivered.len +
           (want->past ? want->past->error.len : 0) + (want->moved ? moved_bytes(want->moved) : 0);
}

int enqueues_reserve(struct engine *e, const struct enqueue_plan *plans, size_t count, size_t bytes)
{
    size_t jobs = 0, named = 0, keyed = 0;
    int err = 0;
    for (size_t i = 0; !err && i < count; i++) {
        struct record rec = {.kind = REC_JOB_NEW};
        const struct enqueue_plan *p = &plans[i];
        if (p->answered)
            continue;
        err = fill_new(e, p->q, p->want, &rec.job_new);
        bytes += err ? 0 : enqueue_bytes(p->want, &rec);
        jobs++;
        named += rec.job_new.job.flags != 0;
        if (!err && p->want->extra.undelivered.len) {
            err = kv_reserve_bytes(e, p->want->extra.undelivered.len);
            keyed++;
        }
    }
    if (!err && named)
        err = names_reserve(e, named);
    if (!err && keyed)
        err = undelivered_reserve(e, keyed);
    if (!err)
        err =
            emit_reserve_for(e, jobs + 1, bytes); /* a queue each, and that of a trigger's items */
    for (size_t i = 0; !err && i < count; i++)
        if (!plans[i].answered)
            err = jobs_reserve(e, plans[i].q, jobs, 2 * jobs, 0);
    return err;
}

static void emit_undelivered(struct engine *e, struct span keys, uint64_t seq)
{
    struct record rec = {.kind = REC_KV_KEYS, .kv_keys = {.seq = seq, .keys = keys}};
    CHECK(validate_undelivered(keys, &rec.kv_keys.count) == 0);
    engine_emit(e, &rec);
}

void enqueue_emit(struct engine *e, const struct enqueue_plan *p, struct engine_reply *r)
{
    const struct op_enqueue *want = p->want;
    struct record rec = {.kind = REC_JOB_NEW};
    if (want->moved && !id_spooled(want->moved->seq) && want->moved->seq > e->seq_next)
        e->seq_next = want->moved->seq;
    seqs_ahead(e);
    if (p->replace)
        emit_replaced(e, p->replace, r);
    CHECK(fill_new(e, p->q, want, &rec.job_new) == 0); /* it has been before: scratch is there */
    if (want->moved) {
        engine_emit_silent(e, &rec);
        emit_moved(e, want);
    } else {
        rec.job_new.job.seq = want->id.seq ? want->id.seq : e->seq_next;
        engine_emit(e, &rec);
        if (want->past && want->past->error.len)
            emit_error(e, want->past, &rec.job_new.job);
    }
    if (!hash128_none(p->key))
        emit_key(e, want, p->key, &rec.job_new.job);
    if (want->extra.undelivered.len)
        emit_undelivered(e, want->extra.undelivered, rec.job_new.job.seq);
    r->reply.seq = rec.job_new.job.seq;
    r->reply.id_hi = rec.job_new.job.id_hi;
    r->reply.state = rec.job_new.job.state;
    r->reply.run_at = rec.job_new.job.run_at;
    r->reply.created = true;
    rates_take(e, &p->rate);
    r->after = e->position;
}

bool enqueue_look(struct engine *e, const struct op_enqueue *want, struct engine_reply *r,
                  struct enqueue_plan *ret)
{
    *ret = (struct enqueue_plan){.want = want};
    if (want->idempotency_key.len)
        ret->key = hash128_of(e->hash_key, want->idempotency_key);
    if (!values_right(e, want, r))
        return false;
    ret->answered = key_answers(e, want, ret->key, r) || id_answers(e, want, r);
    if (ret->answered)
        return r->reply.outcome == OUT_OK;
    if (e->full) {
        r->after = 0; /* what it would else wait for has to wait for room */
        return refuse(r, OUT_DISK_FULL, NULL);
    }
    ret->q = queues_find(e, want->queue);
    return ret->q || queue_may_be_made(e, want, r);
}

/* Also one that only awaits its removal. */
static bool is_there(struct engine *e, uint64_t seq, struct engine_reply *r)
{
    const struct live *l = jobs_by_seq(e, seq, NULL);
    if (!l)
        return false;
    reply_job(r, l);
    refuse(r, OUT_EXISTS, NULL);
    return true;
}

/* Sequences from ID_SPOOL_BIT on belong to spools: a store that has counted so far takes no more
 * jobs. */
static bool seqs_left(const struct engine *e, const struct op_enqueue *want, size_t ahead,
                      struct engine_reply *r)
{
    uint64_t next = e->seq_next;
    if (want->id.seq ||
        (want->moved && id_spooled(want->moved->seq) && want->moved->seq < ID_SPOOL_BIT << 1))
        return true;
    if (want->moved && want->moved->seq > next)
        next = want->moved->seq;
    if (next + ahead + e->config.seq_block < ID_SPOOL_BIT)
        return true;
    if (want->moved && want->moved->seq == next)
        return refuse(r, OUT_INVALID, "the job's sequence is above what this store can count to");
    return refuse(r, OUT_SERVER_FULL,
                  "the store has given all its sequences; move its jobs to a "
                  "new store");
}

bool enqueue_plan(struct engine *e, const struct enqueue_plan *first, struct enqueue_plan *p,
                  size_t here, size_t ahead, struct engine_reply *r)
{
    const struct op_enqueue *want = p->want;
    struct queue *q = p->q;
    if (want->moved && is_there(e, want->moved->seq, r))
        return false;
    if (!seqs_left(e, want, ahead, r))
        return false;
    if (q->policy.refuse_new && !want->past)
        return refuse(r, OUT_REFUSED_NEW, NULL);
    if (want->payload.len > q->policy.payload_max)
        return refuse(r, OUT_TOO_BIG, NULL);
    if (want->extra.unique.len)
        p->unique = hash128_scoped(e->hash_key, q->number, want->extra.unique);
    if (!unique_allows(e, q, want, p->unique, r, &p->replace)) {
        p->answered = r->reply.outcome == OUT_OK;
        return p->answered;
    }
    return room_left(e, q, p->replace || comes_ended(want), here, ahead, r) &&
           rates_allow(e, first, p, ahead, r) && key_room(e, p->key, ahead, r);
}

struct queue *enqueue_stand_in(struct engine *e, size_t after)
{
    struct queue *q = arena_array(&e->out->arena, 1, sizeof(*q));
    if (q) {
        q->number = e->queue_next + (uint32_t)after;
        q->policy = e->config.policy;
    }
    return q;
}

void op_enqueue(struct engine *e, const struct op *op)
{
    enqueue_do(e, &op->enqueue, 0, reply_new(e, op));
}

void enqueue_do(struct engine *e, const struct op_enqueue *want, size_t more,
                struct engine_reply *r)
{
    struct enqueue_plan p;
    if (!enqueue_look(e, want, r, &p) || p.answered)
        return;
    bool fresh = !p.q; /* a refusal must not leave a queue behind */
    if (fresh)
        p.q = enqueue_stand_in(e, 0);
    r->after = e->position;
    if (!p.q) {
        refuse_nomem(r);
        return;
    }
    if (!enqueue_plan(e, &p, &p, 0, 0, r) || p.answered)
        return;
    if (fresh && queues_create(e, want->queue, &p.q) != 0) {
        refuse_nomem(r);
        return;
    }
    if (enqueues_reserve(e, &p, 1, more) != 0) {
        kv_texts_drop(e);
        refuse_nomem(r);
        return;
    }
    enqueue_emit(e, &p, r);
    kv_texts_drop(e);
    reply_relaxed(e, r, p.q);
}
