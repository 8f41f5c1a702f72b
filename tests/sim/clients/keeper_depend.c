/* SPDX-License-Identifier: Apache-2.0 */
/* Keepers whose jobs depend on each other: on jobs of the same queue that were heard of. The
 * payload names the request, so that a job whose reply was lost is known, too. */
#include "core/jobs/dependency.h"
#include "sim/world/world.h"

static const struct op_depends *depends(struct world *w)
{
    const struct keeper *k = &w->keeper;
    struct op_depends *d = pool_alloc(&w->pool, sizeof(*d));
    struct dependency_ref *refs = pool_alloc(&w->pool, KEEPER_PARENTS_MAX * sizeof(*refs));
    d->parents = refs;
    d->count = (uint32_t)between(w, 1, KEEPER_PARENTS_MAX);
    d->rule = (uint8_t)between(w, 0, DEPENDENCY_RULE_COUNT - 1);
    for (uint32_t i = 0; i < d->count; i++) {
        /* mostly of the newest, which have not ended yet */
        int64_t last = (int64_t)k->child_count - 1,
                first = chance(w, 80) && last > 6 ? last - 6 : 0;
        refs[i] = (struct dependency_ref){.job = {.seq = k->children[between(w, first, last)]}};
    }
    return d;
}

void keeper_depend(struct world *w, uint32_t client)
{
    for (int64_t n = between(w, 1, 3); n > 0; n--) {
        uint32_t number;
        struct op_enqueue *op = &call_new(w, client, OP_ENQUEUE, 1, &number)->op.enqueue;
        op->queue = w->keeper.queues[KEEPER_CHILDREN];
        op->payload_kind = PAYLOAD_BYTES;
        op->payload = pool_text(&w->pool, "child %u", number);
        if (chance(w, 15))
            op->delay_ms = between(w, 1, 500);
        if (w->keeper.child_count > 0 && chance(w, 75))
            op->depends = depends(w);
        call_send(w, number);
    }
}

void keeper_child_heard(struct world *w, const struct hist_entry *e)
{
    struct keeper *k = &w->keeper;
    if (e->op.kind != OP_ENQUEUE || e->reply.outcome != OUT_OK ||
        !span_equal(e->op.enqueue.queue, k->queues[KEEPER_CHILDREN]))
        return;
    k->children = vec_room(k->children, &k->child_room, k->child_count + 1, sizeof(*k->children));
    k->children[k->child_count++] = e->reply.seq;
}
