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

static void count_16(uint16_t *n)
{
    *n = (uint16_t)(*n + (*n < UINT16_MAX));
}

static void count_8(uint8_t *n)
{
    *n = (uint8_t)(*n + (*n < UINT8_MAX));
}

void fates_lease(struct engine *e, uint64_t seq, enum fate word)
{
    struct job_fates *t = fates_for(e, seq);
    if (!t)
        return;
    count_16(&t->claims);
    if (word == FATE_RELEASED)
        count_16(&t->releases);
    else if (word == FATE_TIMED_OUT)
        count_16(&t->timeouts);
    else if (word == FATE_REJECTED)
        count_8(&t->rejections);
}

void fates_requeue(struct engine *e, uint64_t seq)
{
    struct job_fates *t = fates_for(e, seq);
    if (t)
        count_8(&t->requeues);
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
        count_16(&t.claims); /* the one under way */
    return t;
}
