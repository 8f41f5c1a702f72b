/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueue and import: idempotency key, unique key, limits, then the new job. */
#include "ops/jobs/enqueue.h"

#include "base/check.h"
#include "core/jobs/id.h"
#include "core/jobs/job_texts.h"
#include "core/limits.h"
#include "core/queues/unique.h"
#include "core/validate.h"
#include "ops/jobs/enqueue_check.h"
#include "ops/replies.h"

/* More than the record of one removed job takes. */
#define GONE_BYTES 64

bool enqueue_comes_ended(const struct op_enqueue *want)
{
    return want->past && !state_lives(want->past->state);
}

/* What the plans before one will take; here: in the same queue. */
struct ahead {
    size_t jobs, here, keys, queues;
};

static bool same_queue(const struct enqueue_plan *a, const struct enqueue_plan *b)
{
    return a->q ? a->q == b->q : !b->q && span_equal(a->want->queue, b->want->queue);
}

static struct ahead ahead_of(const struct enqueue_plan *plans, size_t index)
{
    struct ahead sum = {0, 0, 0, 0};
    for (size_t i = 0; i < index; i++) {
        if (plans[i].answered)
            continue;
        bool here = same_queue(&plans[i], &plans[index]);
        sum.jobs++;
        sum.here += here;
        sum.keys += !hash128_none(plans[i].key);
        sum.queues += !plans[i].q && !here; /* one that is named twice counts twice: a bound */
    }
    return sum;
}

/* --- repeats --- */

static bool values_valid(struct ops *o, const struct enqueue_plan *p)
{
    struct err_note note;
    return reply_body_valid(p->reply, p->want->payload_kind, p->want->payload,
                            LIMIT_PAYLOAD_BYTES) &&
           (enqueue_check(p->want, &note) == 0 || reply_invalid(o, p->reply, &note));
}

/* The reply of the first enqueue with this key is given again. */
static bool key_answers(struct ops *o, const struct enqueue_plan *p)
{
    struct idempotency_state k;
    if (hash128_none(p->key) || !o->store->idempotency_find(o, p->key, &k))
        return false;
    if (k.fingerprint != p->want->fingerprint) {
        reply_refuse(p->reply, OUT_KEY_REUSED, NULL);
        return true;
    }
    p->reply->seq = k.seq;
    p->reply->id_hi = k.id_hi;
    p->reply->state = (enum job_state)k.state;
    p->reply->created = p->reply->repeat = true;
    return true;
}

/* A job from the spool that was delivered before, longer ago than keys are remembered. */
static bool id_answers(struct ops *o, const struct enqueue_plan *p)
{
    struct job_ref ref = {p->want->id.seq, 0};
    const struct queue_state *q;
    const struct job *j = ref.seq ? o->store->job_find(o, ref, &q) : NULL;
    if (!j)
        return false;
    reply_about(p->reply, j);
    if (j->id_hi == p->want->id.hi)
        p->reply->created = p->reply->repeat = true;
    else
        reply_refuse(p->reply, OUT_EXISTS, NULL);
    return true;
}

/* --- limits --- */

/* Whether the queue, which does not exist, may be created for this job. */
static bool queue_may_be_created(struct ops *o, const struct enqueue_plan *p, struct ahead ahead)
{
    struct err_note note;
    if (validate_queue_name(p->want->queue, &note) != 0)
        return reply_invalid(o, p->reply, &note);
    if (p->want->no_create || o->limits->no_auto_create)
        return reply_refuse(p->reply, OUT_NO_QUEUE, NULL);
    if (p->want->payload.len > p->policy->payload_max)
        return reply_refuse(p->reply, OUT_TOO_BIG, NULL);
    if (ahead.here == 0 && !o->store->queue_room(o, ahead.queues, true))
        return reply_refuse(p->reply, OUT_QUEUES_FULL, NULL);
    return true;
}

/* The place of a job that moves in may be taken, also by one that only awaits its removal. */
static bool place_is_free(struct ops *o, const struct enqueue_plan *p)
{
    uint64_t seq = p->want->moved ? p->want->moved->seq : 0;
    const struct job *j = seq ? o->store->job_by_seq(o, seq) : NULL;
    if (!j)
        return true;
    reply_about(p->reply, j);
    return reply_refuse(p->reply, OUT_EXISTS, NULL);
}

/* The dead job that this one replaces must still exist and be dead. */
static bool dead_is_there(struct ops *o, struct enqueue_plan *p)
{
    const struct queue_state *q;
    if (!p->want->instead_of.seq)
        return true;
    p->dead = o->store->job_find(o, p->want->instead_of, &q);
    if (!p->dead)
        return reply_refuse(p->reply, OUT_NOT_FOUND, NULL);
    reply_about(p->reply, p->dead);
    return p->dead->state == STATE_DEAD || reply_refuse(p->reply, OUT_ILLEGAL, NULL);
}

/* A job that is acked in the same commit gives up its key, unless done jobs keep theirs. */
static bool passes_key(const struct enqueue_plan *p, const struct job *holder)
{
    return holder == p->ending && !unique_holds(p->policy->unique_scope, STATE_DONE);
}

/* Whether the unique key allows a new job; p->replaced is the waiting job whose place it takes. A
 * job that exists does not join a batch, so UNIQUE_RETURN is a refusal there. */
static bool unique_allows(struct ops *o, struct enqueue_plan *p)
{
    const struct op_enqueue *want = p->want;
    bool holds =
        p->q && want->extra.unique.len &&
        (!enqueue_comes_ended(want) || unique_holds(p->policy->unique_scope, want->past->state));
    struct job *holder = holds ? o->store->key_holder(o, p->q, want->extra.unique) : NULL;
    if (!holder || holder == p->dead || passes_key(p, holder))
        return true;
    uint8_t mode = want->past          ? UNIQUE_REJECT
                   : want->unique_mode ? want->unique_mode
                                       : p->policy->unique_mode;
    reply_about(p->reply, holder);
    if (mode == UNIQUE_RETURN && !want->member_of.seq)
        return false;
    if (mode == UNIQUE_REPLACE && state_waits(holder->state)) {
        p->replaced = holder;
        return true;
    }
    return reply_refuse(p->reply, OUT_DUPLICATE, NULL);
}

/* The queue's number; 0, which no queue has, if it is to be created. */
static uint32_t number_of(const struct enqueue_plan *p)
{
    return p->q ? p->q->number : 0;
}

/* A job that takes the place of another, or that has ended, needs no room. In a hand-off one place
 * becomes free. */
static bool room_left(struct ops *o, const struct enqueue_plan *p, struct ahead ahead)
{
    uint64_t capacity = o->limits->capacity;
    if (p->replaced || enqueue_comes_ended(p->want))
        return true;
    uint64_t leaves = p->ending != NULL, leaves_here = leaves && p->ending->queue == number_of(p);
    uint64_t here = p->q ? o->store->queue_live(o, p->q) : 0;
    if (here + ahead.here >= p->policy->capacity + leaves_here)
        return reply_refuse(p->reply, OUT_QUEUE_FULL, NULL);
    if (capacity && o->store->live(o) + ahead.jobs >= capacity + leaves)
        return reply_refuse(p->reply, OUT_SERVER_FULL, NULL);
    return true;
}

static bool key_room(struct ops *o, const struct enqueue_plan *p, struct ahead ahead)
{
    if (hash128_none(p->key))
        return true;
    enum outcome out = o->store->idempotency_room(o, p->key, ahead.keys);
    if (out == OUT_UNAVAILABLE)
        return reply_nomem(o, p->reply);
    return out == OUT_OK || reply_refuse(p->reply, out, NULL);
}

static bool takes_new(struct ops *o, const struct enqueue_plan *p, size_t ahead)
{
    const char *note = NULL;
    enum outcome out = o->store->seq_room(o, p->want, ahead, &note);
    if (out != OUT_OK)
        return reply_refuse(p->reply, out, note);
    if (p->policy->refuse_new && !p->want->past)
        return reply_refuse(p->reply, OUT_REFUSED_NEW, NULL);
    return p->want->payload.len <= p->policy->payload_max ||
           reply_refuse(p->reply, OUT_TOO_BIG, NULL);
}

/* --- the job --- */

static bool encode_options(struct ops *o, const struct job_options *options, struct span *ret)
{
    *ret = (struct span){NULL, 0};
    if (!options || options_empty(options))
        return true;
    buf_clear(&o->scratch);
    if (options_encode(options, &o->scratch) != 0)
        return false;
    *ret = text_keep(o, buf_span(&o->scratch));
    return ret->at != NULL;
}

/* Its id is as new as its sequence: with the old time and node in it, it could be another job's.
 * One that moves in with its id keeps both. */
static void fill_past(const struct op_enqueue *want, struct job *j)
{
    if (want->past->state != STATE_READY)
        j->state = want->past->state;
    j->reason = want->past->reason;
    j->failures = want->past->failures;
    j->crashes = want->past->crashes;
    if (!want->moved)
        return;
    j->state = want->past->state;
    if (want->moved->since.ms)
        j->since = want->moved->since;
    if (want->moved->seq) {
        j->seq = want->moved->seq;
        j->id_hi = want->moved->id_hi;
    }
}

static bool fill_job(struct ops *o, struct enqueue_plan *p)
{
    const struct op_enqueue *want = p->want;
    struct rec_job_new *n = &p->rec.job_new;
    bool delayed = !want->run_at.ms && want->delay_ms;
    struct wall_time run_at = delayed ? time_after(o->now, want->delay_ms) : want->run_at;
    p->rec.kind = REC_JOB_NEW;
    n->extra = want->extra;
    n->payload = want->payload;
    if (!encode_options(o, want->options, &n->extra.options))
        return reply_nomem(o, p->reply);
    int64_t priority = want->has_priority ? want->priority : p->policy->priority;
    if (p->policy->by_due) {
        struct wall_time due_at = want->due_at.ms ? want->due_at : run_at;
        priority = priority_by_due(priority, due_at.ms ? due_at : o->now);
    }
    n->job = (struct job){
        .seq = want->id.seq,
        .id_hi = want->id.seq ? want->id.hi : id_hi(o->now, o->limits->node),
        .priority = priority,
        .run_at = run_at,
        .since = o->now,
        .payload_bytes = (uint32_t)want->payload.len,
        .state = dependencies_block(want) ? STATE_BLOCKED
                 : run_at.ms > o->now.ms  ? STATE_SCHEDULED
                                          : STATE_READY,
        .payload_kind = want->payload_kind,
        .flags = job_extra_present(&n->extra) ? JOB_HAS_EXTRA : 0,
    };
    if (want->past)
        fill_past(want, &n->job);
    return true;
}

/* --- plans --- */

bool enqueue_look(struct ops *o, struct enqueue_plan *plans, size_t index)
{
    struct enqueue_plan *p = &plans[index];
    if (p->want->idempotency_key.len)
        p->key = hash128_of(o->hash_key, p->want->idempotency_key);
    if (!values_valid(o, p))
        return false;
    p->answered = key_answers(o, p) || id_answers(o, p);
    if (p->answered)
        return p->reply->outcome == OUT_OK;
    if (o->disk_full)
        return reply_refuse(p->reply, OUT_DISK_FULL, NULL);
    p->q = (struct queue_state *)(uintptr_t)o->store->queue_find(o, p->want->queue);
    p->policy = p->q ? &p->q->policy : &o->limits->policy;
    return p->q || queue_may_be_created(o, p, ahead_of(plans, index));
}

bool enqueue_plan(struct ops *o, struct enqueue_plan *plans, size_t index)
{
    struct enqueue_plan *p = &plans[index];
    struct ahead ahead = ahead_of(plans, index);
    if (p->answered)
        return dependencies_answered(plans, index);
    CHECK(p->policy); /* enqueue_look has found it */
    if (!place_is_free(o, p) || !dead_is_there(o, p) || !takes_new(o, p, ahead.jobs))
        return false;
    if (!unique_allows(o, p)) {
        p->answered = p->reply->outcome == OUT_OK;
        return p->answered && dependencies_answered(plans, index);
    }
    bool depends = enqueue_depends(p->want);
    return (!depends || dependencies_plan(o, plans, index)) && room_left(o, p, ahead) &&
           rate_allows(o, plans, index) && key_room(o, p, ahead) && fill_job(o, p);
}

/* Creates the queues that the jobs need; several jobs may name the same one. */
static bool create_queues(struct ops *o, struct enqueue_plan *plans, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct enqueue_plan *p = &plans[i];
        if (p->answered)
            continue;
        if (!p->q)
            p->q = (struct queue_state *)(uintptr_t)o->store->queue_find(o, p->want->queue);
        if (!p->q)
            p->q = o->store->queue_create(o, p->want->queue);
        if (!p->q)
            return false;
        p->policy = &p->q->policy;
        p->rec.job_new.job.queue = p->q->number;
        p->rec.job_new.job.generation = p->q->generation;
    }
    return true;
}

static bool any_depends(const struct enqueue_plan *plans, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (enqueue_depends(plans[i].want))
            return true;
    return false;
}

bool enqueues_prepare(struct ops *o, struct enqueue_plan *plans, size_t count,
                      const struct op_kv_commit *keys, size_t more)
{
    return create_queues(o, plans, count) &&
           (!any_depends(plans, count) || dependencies_prepare(o, plans, count, &more)) &&
           o->store->enqueues_prepare(o, plans, count, keys, more);
}

static void commit_one(struct ops *o, struct enqueue_plan *p)
{
    struct reply *r = p->reply;
    if (p->replaced) {
        struct record rec = {
            .kind = REC_JOB_CANCELLED,
            .job_cancelled = {.seq = p->replaced->seq, .reason = REASON_REPLACED, .at = o->now},
        };
        p->replaced_seq = p->replaced->seq;
        o->store->commit(o, p->replaced, &rec);
    }
    p->job = !p->dead || o->store->remove(o, p->dead) ? o->store->job_create(o, p) : NULL;
    if (!p->job) {
        reply_nomem(o, r);
        return;
    }
    if (!hash128_none(p->key))
        o->store->idempotency_keep(o, p->key, p->want->fingerprint, p->job);
    rate_use(o, p);
    reply_changed(r, p->job, p->q);
    r->run_at = p->job->run_at;
    r->created = true;
}

void enqueues_commit(struct ops *o, struct enqueue_plan *plans, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (plans[i].answered)
            continue;
        commit_one(o, &plans[i]);
        if (enqueue_depends(plans[i].want))
            dependencies_commit(o, plans, i);
    }
}

void ops_enqueue(struct ops *o, const struct op *op, struct reply *r)
{
    struct enqueue_plan p = {.want = &op->enqueue, .reply = r};
    if (!enqueue_look(o, &p, 0) || !enqueue_plan(o, &p, 0) || p.answered)
        return;
    if (enqueues_prepare(o, &p, 1, NULL, p.dead ? GONE_BYTES : 0))
        enqueues_commit(o, &p, 1);
    else
        reply_refuse(r, OUT_UNAVAILABLE, NO_ROOM);
    r->replaced_seq = p.replaced_seq;
}
