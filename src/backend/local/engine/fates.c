/* SPDX-License-Identifier: Apache-2.0 */
/* What happened to a job since the server started, for APIs that tell. Most jobs go through
 * without anything to tell: only one whose lease ended otherwise than by an ack, or that was
 * requeued, costs memory. Nothing of it is durable, and without memory it is not counted. */
#include "backend/local/engine/engine_impl.h"

void fates_init(struct engine *e)
{
    map64_init(&e->fates_map);
    slab_init(&e->fates, sizeof(struct job_fates));
}

void fates_done(struct engine *e)
{
    map64_done(&e->fates_map);
    slab_done(&e->fates);
}

static struct job_fates *fates_for(struct engine *e, uint64_t seq)
{
    uint32_t handle = map64_get(&e->fates_map, seq);
    if (handle)
        return slab_at(&e->fates, handle);
    handle = slab_take(&e->fates);
    if (handle && map64_put(&e->fates_map, seq, handle) != 0) {
        slab_give(&e->fates, handle);
        handle = 0;
    }
    return handle ? slab_at(&e->fates, handle) : NULL;
}

void fates_lease(struct engine *e, uint64_t seq, enum lease_ending how)
{
    struct job_fates *t = fates_for(e, seq);
    if (t)
        counts_add_ending(t, how);
}

void fates_requeue(struct engine *e, uint64_t seq)
{
    struct job_fates *t = fates_for(e, seq);
    if (t)
        counts_add_requeue(t);
}

void fates_drop(struct engine *e, uint64_t seq)
{
    uint32_t handle = map64_count(&e->fates_map) ? map64_get(&e->fates_map, seq) : 0;
    if (!handle)
        return;
    map64_drop(&e->fates_map, seq);
    slab_give(&e->fates, handle);
}

struct job_fates fates_of(const struct engine *e, const struct live *l)
{
    uint32_t handle = map64_count(&e->fates_map) ? map64_get(&e->fates_map, l->job.seq) : 0;
    struct job_fates t = {0};
    if (handle)
        t = *(const struct job_fates *)slab_at(&e->fates, handle);
    if (l->lease)
        counts_add_claim(&t); /* the one under way */
    return t;
}
