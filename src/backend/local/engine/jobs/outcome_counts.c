/* SPDX-License-Identifier: Apache-2.0 */
/* How often leases of a job ended and how, and how often it was requeued, since the server started;
 * some APIs show it. Only a job of which a lease ended without an ack, or that was requeued, uses
 * memory. The counts are not durable, and when memory is short nothing is counted. */
#include "backend/local/engine/engine_impl.h"

void outcome_counts_init(struct engine *e)
{
    map64_init(&e->outcome_counts_map);
    slab_init(&e->outcome_counts, sizeof(struct outcome_counts));
}

void outcome_counts_done(struct engine *e)
{
    map64_done(&e->outcome_counts_map);
    slab_done(&e->outcome_counts);
}

static struct outcome_counts *counts_for(struct engine *e, uint64_t seq)
{
    uint32_t handle = map64_get(&e->outcome_counts_map, seq);
    if (handle)
        return slab_at(&e->outcome_counts, handle);
    handle = slab_take(&e->outcome_counts);
    if (handle && map64_put(&e->outcome_counts_map, seq, handle) != 0) {
        slab_give(&e->outcome_counts, handle);
        handle = 0;
    }
    return handle ? slab_at(&e->outcome_counts, handle) : NULL;
}

void outcome_counts_ending(struct engine *e, uint64_t seq, enum lease_ending how)
{
    struct outcome_counts *t = counts_for(e, seq);
    if (t)
        counts_add_ending(t, how);
}

void outcome_counts_requeue(struct engine *e, uint64_t seq)
{
    struct outcome_counts *t = counts_for(e, seq);
    if (t)
        counts_add_requeue(t);
}

void outcome_counts_drop(struct engine *e, uint64_t seq)
{
    uint32_t handle =
        map64_count(&e->outcome_counts_map) ? map64_get(&e->outcome_counts_map, seq) : 0;
    if (!handle)
        return;
    map64_drop(&e->outcome_counts_map, seq);
    slab_give(&e->outcome_counts, handle);
}

struct outcome_counts outcome_counts_of(const struct engine *e, const struct live *l)
{
    uint32_t handle =
        map64_count(&e->outcome_counts_map) ? map64_get(&e->outcome_counts_map, l->job.seq) : 0;
    struct outcome_counts t = {0};
    if (handle)
        t = *(const struct outcome_counts *)slab_at(&e->outcome_counts, handle);
    if (l->lease)
        counts_add_claim(&t); /* the lease that runs */
    return t;
}
