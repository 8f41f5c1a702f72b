/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk actions: requeue, cancel or remove the jobs that a filter matches, in slices.
 *
 * The request is one durable record. Each tick then processes a bounded number of jobs from the
 * lists of the states that were named. Lists grow only at their end, so the engine remembers the
 * last job of each list at the time of the request and leaves alone what was added later. After
 * a restart the action begins again and uses the times in the jobs instead. */
#include "core/bulk.h"
#include "backend/local/engine/engine_impl.h"

int bulk_apply_begin(struct engine *e, const struct rec_bulk_begin *r)
{
    struct bulk *b = mem_zalloc(sizeof(*b));
    if (!b)
        return -ERR_NOMEM;
    b->begin = *r;
    b->begin.group = b->begin.kind = (struct span){NULL, 0};
    if (r->group.len)
        b->group = hash128_scoped(e->hash_key, r->queue, r->group);
    if (r->kind.len)
        b->kind = hash128_of(e->hash_key, r->kind);
    b->restored = !e->out;
    const struct queue *q = queue_at(e, r->queue);
    for (int s = 0; q && s < STATE_COUNT; s++)
        b->stop[s] = q->lists[s].tail;
    struct bulk **link = &e->bulks;
    while (*link)
        link = &(*link)->after;
    *link = b;
    if (r->bulk >= e->bulk_next)
        e->bulk_next = r->bulk + 1;
    return 0;
}

static struct bulk *bulk_find(struct engine *e, uint64_t number)
{
    struct bulk *b = e->bulks;
    while (b && b->begin.bulk != number)
        b = b->after;
    return b;
}

int bulk_apply_step(struct engine *e, const struct rec_bulk_step *r)
{
    struct bulk *b = bulk_find(e, r->bulk);
    if (!b)
        return -ERR_CORRUPT;
    b->changed = r->changed;
    b->refused = r->refused;
    return 0;
}

int bulk_apply_end(struct engine *e, const struct rec_bulk_step *r)
{
    struct bulk **link = &e->bulks;
    while (*link && (*link)->begin.bulk != r->bulk)
        link = &(*link)->after;
    struct bulk *b = *link;
    if (!b)
        return -ERR_CORRUPT;
    *link = b->after;
    mem_free(b);
    return 0;
}

void bulk_free_all(struct engine *e)
{
    while (e->bulks) {
        struct bulk *b = e->bulks;
        e->bulks = b->after;
        mem_free(b);
    }
}

void bulk_list_changes(struct engine *e, uint32_t handle, uint8_t state)
{
    const struct live *l = live_at(e, handle);
    for (struct bulk *b = e->bulks; b; b = b->after) {
        bool last = b->stop[state] == handle;
        if (b->placed && b->next == handle)
            b->next = last ? 0 : l->next;
        if (last)
            b->stop[state] = l->prev;
    }
}

void bulk_queue_changes(struct engine *e, uint32_t queue, unsigned states)
{
    for (struct bulk *b = e->bulks; b; b = b->after) {
        if (b->begin.queue != queue)
            continue;
        if (b->placed && (states & STATE_BIT(b->state)))
            b->next = 0;
        for (unsigned s = 0; s < STATE_COUNT; s++)
            if (states & STATE_BIT(s))
                b->stop[s] = 0;
    }
}

size_t bulk_count(const struct ops *o)
{
    size_t n = 0;
    for (const struct bulk *b = engine_of(o)->bulks; b; b = b->after)
        n++;
    return n;
}

bool bulk_begin(struct ops *o, const struct op *op, struct rec_bulk_begin *begin)
{
    struct engine *e = engine_of(o);
    begin->bulk = e->bulk_next;
    begin->seq_max = e->seq_next > 1 ? e->seq_next - 1 : 1;
    struct record rec = {.kind = REC_BULK_BEGIN, .bulk_begin = *begin};
    if (emit_reserve(e, record_bytes_max(&rec)) != 0 || engine_emit_or_not(e, &rec) != 0)
        return false;
    struct bulk *b = bulk_find(e, begin->bulk);
    b->has_op = true;
    b->tag = op->tag;
    b->op = op;
    return true;
}

static bool matches(const struct engine *e, const struct bulk *b, const struct live *l)
{
    if ((l->job.seq > b->begin.seq_max && !id_spooled(l->job.seq)) ||
        (b->restored && l->job.since.ms > b->begin.at.ms))
        return false;
    if (hash128_none(b->group) && hash128_none(b->kind))
        return true;
    struct more more = more_of(e, l);
    const struct group *g = more.group ? slab_at(&e->groups, more.group) : NULL;
    const struct options *o = more.options ? slab_at(&e->options, more.options) : NULL;
    return (hash128_none(b->group) || (g && hash128_equal(g->key, b->group))) &&
           (hash128_none(b->kind) || (o && hash128_equal(o->kind, b->kind)));
}

static bool change_one(struct engine *e, struct bulk *b, struct live *l)
{
    bool changed;
    if (!ops_bulk_change(&e->ops, &l->job, (enum bulk_action)b->begin.action, &changed))
        return false;
    b->changed += changed;
    b->refused += !changed;
    return true;
}

/* Moves on to the next state of the mask whose list has jobs; false when no such state is left. */
static bool next_state(struct bulk *b, const struct queue *q)
{
    uint8_t from = b->placed ? (uint8_t)(b->state + 1) : 0;
    for (uint8_t s = from; s < (uint8_t)STATE_COUNT; s++)
        if ((b->begin.states & STATE_BIT(s)) && q->lists[s].head && (b->restored || b->stop[s])) {
            b->state = s;
            b->next = q->lists[s].head;
            b->placed = true;
            return true;
        }
    return false;
}

/* Works on b until the budget is used; true when it is finished. */
static bool bulk_work(struct engine *e, struct bulk *b, size_t budget, size_t *ret_done)
{
    struct queue *q = queue_at(e, b->begin.queue);
    size_t looked = 0;
    while (q && !q->gone && looked < budget) {
        if ((!b->placed || !b->next) && !next_state(b, q))
            break;
        uint32_t here = b->next;
        struct live *l = live_at(e, here);
        bool last = !b->restored && here == b->stop[b->state];
        if (matches(e, b, l) && !change_one(e, b, l))
            break;
        if (b->next == here)
            b->next = last ? 0 : l->next; /* it stayed where it was */
        looked++;
    }
    *ret_done += looked;
    return !q || q->gone || ((!b->placed || !b->next) && !next_state(b, q));
}

static void bulk_answer(struct engine *e, const struct bulk *b)
{
    if (!b->has_op)
        return;
    struct engine_reply *r = reply_new(e, b->op);
    r->reply.tag = b->tag;
    r->reply.changed = b->changed;
    r->reply.refused = b->refused;
    r->after = e->position + 1; /* its end record, which follows */
}

size_t bulk_tick(struct engine *e, size_t budget)
{
    size_t done = 0;
    while (e->bulks && done < budget) {
        struct bulk *b = e->bulks;
        bool finished = bulk_work(e, b, budget - done, &done);
        struct record rec = {
            .kind = finished ? REC_BULK_END : REC_BULK_STEP,
            .bulk_step = {.bulk = b->begin.bulk, .changed = b->changed, .refused = b->refused},
        };
        if (emit_reserve(e, record_bytes_max(&rec)) != 0)
            return done;
        if (finished)
            bulk_answer(e, b);
        engine_emit(e, &rec);
        done++;
        if (!finished)
            return done;
    }
    return done;
}
