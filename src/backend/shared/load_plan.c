/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit must load, found from its operations before anything is loaded. */
#include "backend/shared/shared.h"

uint64_t op_seq(const struct op *op)
{
    switch ((int)op->kind) {
    case OP_ENQUEUE: /* it may come with its id, and be there already; or take another's place */
        return op->enqueue.moved            ? op->enqueue.moved->seq
               : op->enqueue.instead_of.seq ? op->enqueue.instead_of.seq
                                            : op->enqueue.id.seq;
    case OP_ACK:
    case OP_FAIL:
    case OP_EXTEND:
    case OP_RELEASE:
    case OP_PROGRESS:
    case OP_LOG:
    case OP_STEP:
        return op->lease.job.seq;
    case OP_CANCEL:
    case OP_REQUEUE:
    case OP_REMOVE:
    case OP_DISPATCHED:
        return op->job.job.seq;
    case OP_PATCH:
        return op->patch.job.seq;
    case OP_NOTE:
        return op->note.job.seq;
    case OP_CLAIM:
        return op->claim.one.seq;
    case OP_DEPENDENCIES:
        return op->dependencies.job.seq;
    default:
        return 0;
    }
}

bool op_about_lease(const struct op *op)
{
    return op->kind == OP_ACK || op->kind == OP_FAIL || op->kind == OP_EXTEND ||
           op->kind == OP_RELEASE || op->kind == OP_PROGRESS || op->kind == OP_LOG ||
           op->kind == OP_STEP;
}

bool op_revives(const struct op *op)
{
    return op->kind == OP_REQUEUE || (op->kind == OP_CLAIM && op->claim.one.seq);
}

/* Whether it takes, or may take, a ready job away from claims: a claim must then load one more.
 * Operations on a lease name a running job. */
static bool takes_away(const struct turn *t)
{
    const struct op_enqueue *list;
    size_t count = turn_enqueues(t, &list);
    for (size_t i = 0; i < count; i++)
        if (list[i].extra.unique.len)
            return true;
    return op_seq(t->op) != 0 && !op_about_lease(t->op);
}

/* Each of its queues may provide all jobs of the claim; but a thousand jobs of a thousand queues
 * are too many to load for one claim. */
static uint32_t claims_each(const struct op_claim *c)
{
    uint32_t most = c->queue_count ? UNIT_CLAIMS_MAX / c->queue_count : UNIT_CLAIMS_MAX;
    return c->count <= most ? c->count : most;
}

static void want_claims(struct unit *u, const struct op_claim *c, uint32_t more)
{
    if (c->one.seq || c->queue_count > LIMIT_QUEUES_PER_CLAIM || c->count > LIMIT_BATCH)
        return;
    for (uint32_t i = 0; i < c->queue_count; i++) {
        struct wanted_name *n = unit_want_name(u, c->queues[i]);
        const struct cached_queue *known = n ? queue_cache_find(u->s, c->queues[i]) : NULL;
        if (!n)
            continue;
        n->claims += claims_each(c) + (n->claims ? 0 : more);
        n->limited = u->limits_wanted || (known && known->limited);
        n->ordered = known && known->ordered;
    }
}

/* Whether what is remembered of a queue does not do to tell how full it is. */
static bool counts_wanted(struct unit *u, struct span name)
{
    const struct cached_queue *k = queue_cache_find(u->s, name);
    if (!k || k->warn_depth || !k->counted_ns)
        return true;
    bool old = clock_ns() - k->counted_ns > UINT64_C(1000000000);
    return old || k->capacity < 1000 || k->live + UNIT_OPS_MAX > k->capacity - k->capacity / 10;
}

static void want_enqueue(struct unit *u, struct span name)
{
    struct wanted_name *n = unit_want_name(u, name);
    if (n && !n->makes) {
        n->counts = counts_wanted(u, name);
        n->makes = !queue_cache_find(u->s, name);
    }
}

static void want_queue(struct unit *u, struct span name, bool makes)
{
    struct wanted_name *n = unit_want_name(u, name);
    if (n) {
        n->counts = true;
        n->makes = makes;
    }
}

static void want_items(struct unit *u, const struct firing *f)
{
    struct wanted_name *n = f->source.len ? unit_want_name(u, f->source) : NULL;
    if (!n)
        return;
    const struct cached_queue *known = queue_cache_find(u->s, f->source);
    n->claims += f->batch_size;
    n->limited = u->limits_wanted || (known && known->limited);
}

static void want_names(struct unit *u, const struct turn *t, uint32_t more)
{
    const struct op *op = t->op;
    const struct op_enqueue *list;
    size_t count = turn_enqueues(t, &list);
    for (size_t i = 0; i < count; i++)
        want_enqueue(u, list[i].queue);
    if (t->firing)
        want_items(u, t->firing);
    switch ((int)op->kind) {
    case OP_CLAIM:
        want_claims(u, &op->claim, more);
        return;
    case OP_QUEUE_PUT:
    case OP_QUEUE_DELETE:
    case OP_PURGE:
    case OP_PAUSE:
        want_queue(u, op->queue.name, op->kind == OP_QUEUE_PUT);
        return;
    case OP_BULK:
        unit_want_name(u, op->bulk.queue);
        return;
    default:
        return;
    }
}

void unit_ask(struct unit *u)
{
    uint32_t taken = 0;
    const struct op_enqueue *list;
    for (size_t i = 0; i < u->count; i++) {
        taken += takes_away(&u->turns[i]);
        size_t count = turn_enqueues(&u->turns[i], &list);
        u->seq_count += count && list[0].drawn ? 0 : count;
    }
    for (size_t i = 0; i < u->count; i++)
        want_names(u, &u->turns[i], taken);
    for (size_t i = 0; i < u->name_count; i++)
        u->number_count += u->names[i].makes;
    unit_dependencies_ask(u);
}
