/* SPDX-License-Identifier: Apache-2.0 */
/* A commit of the key-value store: checks, sets, deletes and enqueues, all or nothing.
 *
 * First everything is looked at, then queues are made that enqueues bring along (one that stays
 * behind empty, because memory then ran short, is the only trace a refused commit can leave), then
 * room is reserved for all records; from there on nothing can fail, and one frame holds them. */
#include "backend/kv_rules.h"
#include "backend/local/engine/engine_impl.h"

static bool values_right(struct engine *e, const struct op_kv_commit *want, struct engine_reply *r)
{
    const char *note;
    enum outcome out = kv_commit_right(want, &e->out->arena, &note);
    if (out == OUT_UNAVAILABLE)
        return refuse_nomem(r);
    return out == OUT_OK || refuse(r, out, note);
}

static bool checks_hold(const struct engine *e, const struct op_kv_commit *want,
                        struct engine_reply *r)
{
    for (uint32_t i = 0; i < want->check_count; i++) {
        const struct kv *k = kv_seen(e, want->checks[i].key);
        uint64_t version = k ? k->version : 0;
        if (version == want->checks[i].version)
            continue;
        r->reply.failed = i;
        r->reply.version = version;
        return refuse(r, OUT_VERSION, NULL);
    }
    return true;
}

/* What deletes give back does not count: it is on the disk until the next sweep. */
static bool room_left(const struct engine *e, const struct op_kv_commit *want,
                      struct engine_reply *r)
{
    uint64_t keys = e->kvs.used, bytes = e->kv_bytes;
    for (uint32_t i = 0; i < want->set_count; i++) {
        const struct kv *k = kv_find(e, want->sets[i].key, NULL);
        keys += !k;
        bytes += want->sets[i].value.len + (k ? 0 : want->sets[i].key.len);
        bytes -= k ? k->bytes : 0;
    }
    if (keys > e->config.kv_keys_max && keys > e->kvs.used)
        return refuse(r, OUT_KV_FULL, "the key-value store holds as many keys as it may");
    if (bytes > e->config.kv_bytes_max && bytes > e->kv_bytes)
        return refuse(r, OUT_KV_FULL, "the key-value store holds as many bytes as it may");
    return true;
}

/* ---- enqueues ---- */

static bool refused(struct engine_reply *r, const struct engine_reply *why, uint32_t index)
{
    struct reply *to = &r->reply;
    *to = (struct reply){.kind = to->kind,
                         .tag = to->tag,
                         .outcome = why->reply.outcome,
                         .note = why->reply.note,
                         .seq = why->reply.seq,
                         .id_hi = why->reply.id_hi,
                         .state = why->reply.state,
                         .retry_ms = why->reply.retry_ms,
                         .failed = index,
                         .failed_enqueue = true};
    if (why->reply.outcome == OUT_DISK_FULL)
        r->after = 0;
    return false;
}

static bool same(struct hash128 a, struct hash128 b)
{
    return !hash128_none(a) && hash128_equal(a, b);
}

/* Two enqueues under one key would have to be answered with each other. */
static bool keys_apart(const struct enqueue_plan *plans, uint32_t count, struct engine_reply *r)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (same(plans[i].key, plans[k].key) || same(plans[i].unique, plans[k].unique)) {
                r->reply.failed = i;
                r->reply.failed_enqueue = true;
                return refuse(r, OUT_INVALID,
                              "two enqueues of a commit must not share an idempotency key or a "
                              "unique key");
            }
    return true;
}

/* The stand-in that an enqueue before this one has for the same name. */
static struct queue *stand_in_of(const struct enqueue_plan *plans, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (!plans[i].answered && span_equal(plans[i].want->queue, plans[index].want->queue))
            return plans[i].q;
    return NULL;
}

/* Plans go by stand-ins for queues that are to be made: a commit that is refused makes none. */
static bool stand_ins(struct engine *e, struct enqueue_plan *plans, uint32_t count,
                      struct engine_reply *each, struct engine_reply *r)
{
    size_t fresh = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct enqueue_plan *p = &plans[i];
        if (p->answered || p->q)
            continue;
        p->q = stand_in_of(plans, i);
        if (p->q)
            continue;
        if (!queue_has_room(&e->config.queue_limits, e->queue_count + fresh, true)) {
            refuse(&each[i], OUT_QUEUES_FULL, NULL);
            return refused(r, &each[i], i);
        }
        p->q = enqueue_stand_in(e, fresh++);
        if (!p->q)
            return refuse_nomem(r);
    }
    return true;
}

static bool make_queues(struct engine *e, struct enqueue_plan *plans, uint32_t count,
                        struct engine_reply *r)
{
    for (uint32_t i = 0; i < count; i++) {
        struct enqueue_plan *p = &plans[i];
        if (p->answered || p->q->name)
            continue;
        uint32_t number = p->q->number;
        p->q = queues_find(e, p->want->queue); /* an enqueue before it may have brought it */
        if (!p->q && queues_create(e, p->want->queue, &p->q) != 0)
            return refuse_nomem(r);
        CHECK(p->q->number == number); /* what was planned goes by it */
    }
    return true;
}

/* New jobs before this one; with `q`, of this queue. */
static size_t ahead_of(const struct enqueue_plan *plans, uint32_t index, const struct queue *q)
{
    size_t n = 0;
    for (uint32_t i = 0; i < index; i++)
        n += !plans[i].answered && (!q || plans[i].q == q);
    return n;
}

static bool look_at_enqueues(struct engine *e, const struct op_kv_commit *want,
                             struct enqueue_plan *plans, struct engine_reply *each,
                             struct engine_reply *r)
{
    for (uint32_t i = 0; i < want->enqueue_count; i++)
        if (!enqueue_look(e, &want->enqueues[i], &each[i], &plans[i]))
            return refused(r, &each[i], i);
    if (!stand_ins(e, plans, want->enqueue_count, each, r))
        return false;
    for (uint32_t i = 0; i < want->enqueue_count; i++) {
        struct enqueue_plan *p = &plans[i];
        if (!p->answered && !enqueue_plan(e, plans, p, ahead_of(plans, i, p->q),
                                          ahead_of(plans, i, NULL), &each[i]))
            return refused(r, &each[i], i);
    }
    return keys_apart(plans, want->enqueue_count, r) &&
           make_queues(e, plans, want->enqueue_count, r);
}

/* ---- records ---- */

static struct record set_record(const struct kv_set *s, uint64_t version)
{
    return (struct record){.kind = REC_KV_SET,
                           .kv_set = {.key = s->key,
                                      .version = version,
                                      .expires_at = s->expires_at,
                                      .kind = s->kind,
                                      .value = s->value}};
}

/* The keys that are there to be deleted, in scratch; count 0: none. */
static int gone_record(struct engine *e, const struct op_kv_commit *want, struct record *ret)
{
    *ret = (struct record){.kind = REC_KV_GONE};
    buf_clear(&e->scratch);
    for (uint32_t i = 0; i < want->delete_count; i++) {
        if (!kv_find(e, want->deletes[i], NULL))
            continue;
        int err = record_span_append(&e->scratch, want->deletes[i]);
        if (err)
            return err;
        ret->kv_gone.count++;
    }
    ret->kv_gone.keys = buf_span(&e->scratch);
    return 0;
}

static int reserve(struct engine *e, const struct op_kv_commit *want,
                   const struct enqueue_plan *plans)
{
    size_t bytes = 0;
    struct record rec;
    int err = 0;
    for (uint32_t i = 0; !err && i < want->set_count; i++) {
        rec = set_record(&want->sets[i], 1);
        bytes += record_bytes_max(&rec);
        err = kv_reserve_text(e, want->sets[i].key);
    }
    if (!err)
        err = gone_record(e, want, &rec);
    if (!err && rec.kv_gone.count > 0)
        bytes += record_bytes_max(&rec);
    if (!err)
        err = kv_reserve(e, want->set_count);
    return err ? err : enqueues_reserve(e, plans, want->enqueue_count, bytes);
}

static void emit_keys(struct engine *e, const struct op_kv_commit *want, struct engine_reply *r)
{
    uint64_t version = e->position + 1;
    struct record rec;
    for (uint32_t i = 0; i < want->set_count; i++) {
        rec = set_record(&want->sets[i], version);
        engine_emit(e, &rec);
    }
    CHECK(gone_record(e, want, &rec) == 0); /* as large as it was when room was made */
    rec.kv_gone.version = version;
    if (rec.kv_gone.count > 0)
        engine_emit(e, &rec);
    r->reply.version = e->position >= version ? version : 0;
    r->reply.count = rec.kv_gone.count;
}

static void emit_enqueues(struct engine *e, const struct op_kv_commit *want,
                          const struct enqueue_plan *plans, struct engine_reply *each,
                          struct enqueued_view *views, struct engine_reply *r)
{
    for (uint32_t i = 0; i < want->enqueue_count; i++) {
        const struct reply *from = &each[i].reply;
        if (!plans[i].answered)
            enqueue_emit(e, &plans[i], &each[i]);
        views[i] = (struct enqueued_view){.seq = from->seq,
                                          .id_hi = from->id_hi,
                                          .replaced_seq = from->replaced_seq,
                                          .state = from->state,
                                          .created = from->created,
                                          .repeat = from->repeat,
                                          .run_at = from->run_at};
    }
    r->reply.enqueued = views;
    r->reply.enqueued_count = want->enqueue_count;
}

void op_kv_commit(struct engine *e, const struct op *op)
{
    const struct op_kv_commit *want = &op->kv_commit;
    struct engine_reply *r = reply_new(e, op);
    struct arena *arena = &e->out->arena;
    size_t n = want->enqueue_count ? want->enqueue_count : 1;
    if (!values_right(e, want, r) || !checks_hold(e, want, r))
        return;
    if (e->full && want->set_count > 0) {
        r->after = 0;
        refuse(r, OUT_DISK_FULL, NULL);
        return;
    }
    struct enqueue_plan *plans = arena_array(arena, n, sizeof(*plans));
    struct engine_reply *each = arena_array(arena, n, sizeof(*each));
    struct enqueued_view *views = arena_array(arena, n, sizeof(*views));
    if (!plans || !each || !views) {
        refuse_nomem(r);
        return;
    }
    if (!room_left(e, want, r) || !look_at_enqueues(e, want, plans, each, r)) {
        r->after = r->after ? e->position : 0;
        return;
    }
    if (reserve(e, want, plans) != 0) {
        refuse_nomem(r);
    } else {
        emit_keys(e, want, r);
        emit_enqueues(e, want, plans, each, views, r);
    }
    kv_texts_drop(e);
    r->after = e->position;
}
