/* SPDX-License-Identifier: Apache-2.0 */
/* Keepers whose jobs depend on each other: on jobs of the same queue that were heard of, or of the
 * same batch. The
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

/* A job of a batch; a repeat of the request creates no second one while its key is kept. */
static void fill_member(struct world *w, uint32_t number, uint32_t index, struct op_enqueue *op)
{
    op->queue = w->keeper.queues[KEEPER_CHILDREN];
    op->payload_kind = PAYLOAD_BYTES;
    op->payload = pool_text(&w->pool, "batch %u job %u", number, index);
    op->idempotency_key = pool_text(&w->pool, "b%u/%u", number, index);
    op->fingerprint = number;
}

/* Jobs with a final job that depends on all of them, in one commit. Some of them depend on the one
 * before them. */
void keeper_batch(struct world *w, uint32_t client)
{
    uint32_t number, count = (uint32_t)between(w, 1, KEEPER_BATCH_MAX);
    (void)call_new(w, client, OP_KV_COMMIT, 3, &number);
    struct op_enqueue *jobs = pool_alloc(&w->pool, (count + 1) * sizeof(*jobs));
    struct dependency_ref *refs = pool_alloc(&w->pool, count * sizeof(*refs));
    struct op_depends *d = pool_alloc(&w->pool, (count + 1) * sizeof(*d));
    for (uint32_t i = 0; i <= count; i++)
        fill_member(w, number, i, &jobs[i]);
    for (uint32_t i = 0; i < count; i++) {
        refs[i].index = i;
        d[i] = (struct op_depends){.parents = &refs[i], .count = 1};
        d[i].rule = (uint8_t)between(w, 0, DEPENDENCY_RULE_COUNT - 1);
        if (i + 1 < count && chance(w, 25))
            jobs[i + 1].depends = &d[i];
    }
    d[count] = (struct op_depends){.parents = refs, .count = count};
    d[count].rule = (uint8_t)between(w, 0, DEPENDENCY_RULE_COUNT - 1);
    jobs[count].depends = &d[count];
    w->calls[number].op.kv_commit =
        (struct op_kv_commit){.enqueues = jobs, .enqueue_count = count + 1, .jobs_alone = true};
    call_send(w, number);
}

static void heard(struct keeper *k, uint64_t seq)
{
    k->children = vec_room(k->children, &k->child_room, k->child_count + 1, sizeof(*k->children));
    k->children[k->child_count++] = seq;
}

void keeper_child_heard(struct world *w, const struct hist_entry *e)
{
    if (e->reply.outcome != OUT_OK)
        return;
    if (e->op.kind == OP_ENQUEUE &&
        span_equal(e->op.enqueue.queue, w->keeper.queues[KEEPER_CHILDREN]))
        heard(&w->keeper, e->reply.seq);
    for (uint32_t i = 0;
         e->op.kind == OP_KV_COMMIT && e->op.kv_commit.jobs_alone && i < e->enqueued_count; i++)
        heard(&w->keeper, e->enqueued[i].seq);
}
