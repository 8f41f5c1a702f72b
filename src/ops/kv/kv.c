/* SPDX-License-Identifier: Apache-2.0 */
/* A commit of the key-value store: checks, sets, deletes and enqueues, all or nothing.
 *
 * First everything is checked and planned. Then the queues are created that the enqueues need, and
 * memory is reserved for all records; after that, nothing can fail. If that memory is short, the
 * commit is refused, and an empty new queue is the only change that can remain. */
#include "base/containers/arena.h"
#include "ops/kv/kv_check.h"
#include "ops/kv/kv_commit.h"
#include "ops/replies.h"

static bool values_valid(struct ops *o, const struct op_kv_commit *want, struct reply *r)
{
    const char *note;
    enum outcome out = kv_commit_right(want, o->memory, &note);
    if (out == OUT_UNAVAILABLE)
        return reply_nomem(o, r);
    return out == OUT_OK || reply_refuse(r, out, note);
}

static bool checks_hold(struct ops *o, const struct op_kv_commit *want, struct reply *r)
{
    for (uint32_t i = 0; i < want->check_count; i++) {
        struct kv_state k = o->store->kv_find(o, want->checks[i].key);
        if (k.version == want->checks[i].version)
            continue;
        r->failed = i;
        r->version = k.version;
        return reply_refuse(r, OUT_VERSION, NULL);
    }
    return true;
}

/* What deletes give back does not count: it is on the disk until the store has written it. */
static bool room_left(struct ops *o, const struct op_kv_commit *want, struct reply *r)
{
    struct kv_usage used = o->store->kv_used(o), then = used;
    for (uint32_t i = 0; i < want->set_count; i++) {
        const struct kv_set *s = &want->sets[i];
        struct kv_state k = o->store->kv_find(o, s->key);
        then.keys += !k.stored;
        then.bytes += s->value.len + (k.stored ? 0 : s->key.len);
        then.bytes -= k.stored ? k.bytes : 0;
    }
    if (then.keys > o->limits->kv.keys && then.keys > used.keys)
        return reply_refuse(r, OUT_KV_FULL,
                            "the key-value store has reached its limit of keys (kv.keys)");
    if (then.bytes > o->limits->kv.bytes && then.bytes > used.bytes)
        return reply_refuse(r, OUT_KV_FULL,
                            "the key-value store has reached its limit of bytes (kv.bytes)");
    return true;
}

/* --- enqueues --- */

/* The refusal of one enqueue is that of the commit. */
static bool refused(struct reply *r, const struct reply *why, uint32_t index)
{
    r->outcome = why->outcome;
    r->note = why->note;
    r->seq = why->seq;
    r->id_hi = why->id_hi;
    r->state = why->state;
    r->retry_ms = why->retry_ms;
    r->failed = index;
    r->failed_enqueue = true;
    return false;
}

/* Two enqueues with one key would have to be answered with each other. */
static bool share_key(const struct enqueue_plan *a, const struct enqueue_plan *b)
{
    struct span x = a->want->extra.unique, y = b->want->extra.unique;
    return (!hash128_none(a->key) && hash128_equal(a->key, b->key)) ||
           (x.len && span_equal(x, y) && span_equal(a->want->queue, b->want->queue));
}

static bool keys_apart(const struct enqueue_plan *plans, uint32_t count, struct reply *r)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (share_key(&plans[i], &plans[k])) {
                r->failed = i;
                r->failed_enqueue = true;
                return reply_refuse(r, OUT_INVALID,
                                    "two enqueues of a commit must not share an idempotency key or "
                                    "a unique key");
            }
    return true;
}

static bool enqueues_planned(struct ops *o, struct kv_commit *c)
{
    uint32_t count = c->want->enqueue_count;
    for (uint32_t i = 0; i < count; i++) {
        c->plans[i].want = &c->want->enqueues[i];
        c->plans[i].reply = &c->each[i];
        c->plans[i].ending = c->ending;
        if (!enqueue_look(o, c->plans, i))
            return refused(c->r, &c->each[i], i);
    }
    for (uint32_t i = 0; i < count; i++)
        if (!enqueue_plan(o, c->plans, i))
            return refused(c->r, &c->each[i], i);
    return keys_apart(c->plans, count, c->r);
}

static void show_enqueued(struct kv_commit *c)
{
    CHECK(c->each && c->views);
    for (uint32_t i = 0; i < c->want->enqueue_count; i++)
        c->views[i] = (struct enqueued_view){.seq = c->each[i].seq,
                                             .id_hi = c->each[i].id_hi,
                                             .replaced_seq = c->plans[i].replaced_seq,
                                             .state = c->each[i].state,
                                             .created = c->each[i].created,
                                             .repeat = c->each[i].repeat,
                                             .run_at = c->each[i].run_at};
    c->r->enqueued = c->views;
    c->r->enqueued_count = c->want->enqueue_count;
}

/* --- the commit --- */

static bool memory_taken(struct ops *o, struct kv_commit *c)
{
    size_t n = c->want->enqueue_count ? c->want->enqueue_count : 1;
    c->plans = arena_array(o->memory, n, sizeof(*c->plans));
    c->each = arena_array(o->memory, n, sizeof(*c->each));
    c->views = arena_array(o->memory, n, sizeof(*c->views));
    return (c->plans && c->each && c->views) || reply_nomem(o, c->r);
}

bool kv_commit_plan(struct ops *o, struct kv_commit *c)
{
    if (!values_valid(o, c->want, c->r) || !checks_hold(o, c->want, c->r))
        return false;
    if (o->disk_full && c->want->set_count > 0)
        return reply_refuse(c->r, OUT_DISK_FULL, NULL);
    return memory_taken(o, c) && room_left(o, c->want, c->r) && enqueues_planned(o, c);
}

bool kv_commit_prepare(struct ops *o, struct kv_commit *c, size_t more)
{
    return enqueues_prepare(o, c->plans, c->want->enqueue_count, c->want, more) ||
           reply_refuse(c->r, OUT_UNAVAILABLE, NO_ROOM);
}

static void change_keys(struct ops *o, const struct op_kv_commit *want, struct reply *r)
{
    uint64_t version = o->store->kv_version(o);
    for (uint32_t i = 0; i < want->set_count; i++)
        o->store->kv_set(o, &want->sets[i], version);
    r->deleted = o->store->kv_delete(o, want->deletes, want->delete_count, version);
    r->version = want->set_count || r->deleted ? version : 0;
}

void kv_commit_take_effect(struct ops *o, struct kv_commit *c)
{
    change_keys(o, c->want, c->r);
    enqueues_commit(o, c->plans, c->want->enqueue_count);
    show_enqueued(c);
}

void ops_kv_commit(struct ops *o, const struct op *op, struct reply *r)
{
    struct kv_commit c = {.want = &op->kv_commit, .r = r};
    if (kv_commit_plan(o, &c) && kv_commit_prepare(o, &c, 0))
        kv_commit_take_effect(o, &c);
}
