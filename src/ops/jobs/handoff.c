/* SPDX-License-Identifier: Apache-2.0 */
/* An ack with a hand-off: the job is done, the next jobs are enqueued and keys are changed, all in
 * one commit. The next jobs exist if and only if this one is done.
 *
 * The hand-off has the rules of a commit of the key-value store (ops/kv/kv.c). Its refusal is that
 * of the ack: nothing changes, and the job keeps running under its lease. One place becomes free
 * with the job: it can hand off into a full queue, and pass on its unique key.
 *
 * A repeated ack changes nothing, whatever hand-off it brings. A reply that is kept of an ack has
 * no room for the ids of jobs, so a repeat names those that the store finds by their idempotency
 * keys. */
#include "core/limits.h"
#include "ops/jobs/held.h"
#include "ops/kv/kv_commit.h"
#include "ops/replies.h"

static void show(const struct reply *from, struct kv_commit_reply *to)
{
    *to = (struct kv_commit_reply){.version = from->version,
                                   .deleted = from->deleted,
                                   .failed = from->failed,
                                   .failed_enqueue = from->failed_enqueue,
                                   .enqueued_count = from->enqueued_count,
                                   .enqueued = from->enqueued};
}

/* The reply is then about the job that the refusal names, if any. */
static void refuse(const struct reply *why, struct reply *r)
{
    reply_refuse(r, why->outcome, why->note);
    r->retry_ms = why->retry_ms;
    r->seq = why->seq;
    r->id_hi = why->id_hi;
    r->state = why->state;
    r->ran_ms = 0;
    r->worker = (struct span){NULL, 0};
}

static bool reserve(struct ops *o, struct kv_commit *c, const struct held *h,
                    const struct record *done)
{
    return kv_commit_prepare(o, c, record_bytes_max(done)) &&
           (o->store->prepare(o, h->j, done, 1) || reply_nomem(o, c->r));
}

static void defect_commit_ack(struct ops *o, const struct held *h, const struct record *done)
{
    if (DEFECT(o, DEFECT_HANDOFF_SPLIT) && o->store->prepare(o, h->j, done, 1))
        o->store->commit(o, h->j, done);
}

void handoff_commit(struct ops *o, const struct op_kv_commit *want, const struct held *h,
                    const struct record *done, struct reply *r)
{
    struct reply inner = {.kind = OP_KV_COMMIT};
    struct kv_commit c = {.want = want, .r = &inner, .ending = h->j};
    struct kv_commit_reply *shown = arena_alloc(o->memory, sizeof(*shown));
    if (!shown) {
        reply_nomem(o, r);
        return;
    }
    if (kv_commit_plan(o, &c) && reserve(o, &c, h, done)) {
        o->store->commit(o, h->j, done);
        kv_commit_take_effect(o, &c);
        held_finish(h, r);
        r->relaxed = false; /* the queues of the next jobs may promise more than this one's */
    } else {
        defect_commit_ack(o, h, done);
        refuse(&inner, r);
    }
    show(&inner, shown);
    r->handoff = shown;
}

/* --- repeats --- */

static void view_known(struct ops *o, const struct op_enqueue *want, struct enqueued_view *view)
{
    struct idempotency_state k;
    struct span key = want->idempotency_key;
    if (key.len == 0 || !o->store->idempotency_find(o, hash128_of(o->hash_key, key), &k) ||
        k.fingerprint != want->fingerprint)
        return;
    *view = (struct enqueued_view){.seq = k.seq,
                                   .id_hi = k.id_hi,
                                   .state = (enum job_state)k.state,
                                   .created = true,
                                   .repeat = true};
}

void handoff_repeat(struct ops *o, const struct op_kv_commit *want, struct reply *r)
{
    uint32_t count = want->enqueue_count <= LIMIT_KV_ENQUEUES ? want->enqueue_count : 0;
    struct kv_commit_reply *shown = arena_alloc(o->memory, sizeof(*shown));
    struct enqueued_view *views = arena_array(o->memory, (size_t)count + 1, sizeof(*views));
    if (!shown || !views) {
        reply_nomem(o, r);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        view_known(o, &want->enqueues[i], &views[i]);
    *shown = (struct kv_commit_reply){.enqueued = views, .enqueued_count = count};
    r->handoff = shown;
}
