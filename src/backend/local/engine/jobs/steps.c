/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of jobs (ops/jobs/steps.c has the rules). The results are in the store alone; here is the
 * index of each job that has any, which says how much of the limits it uses, and whether a claim
 * has to read results. */
#include "backend/local/engine/engine_impl.h"

static struct job_steps *at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->steps, handle);
}

void steps_init(struct engine *e)
{
    slab_init(&e->steps, sizeof(struct job_steps));
    map64_init(&e->steps_map);
}

void steps_done(struct engine *e)
{
    const struct map64_table *tables[] = {&e->steps_map.now, &e->steps_map.old};
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; tables[t]->slots && i <= tables[t]->mask; i++)
            if (tables[t]->slots[i].value)
                mem_free(at(e, tables[t]->slots[i].value)->index);
    slab_done(&e->steps);
    map64_done(&e->steps_map);
}

uint64_t steps_memory(const struct engine *e)
{
    return slab_bytes(&e->steps) + map64_bytes(&e->steps_map);
}

struct span steps_of(const struct engine *e, uint64_t seq)
{
    uint32_t handle = map64_count(&e->steps_map) > 0 ? map64_get(&e->steps_map, seq) : 0;
    return handle ? span_of(at(e, handle)->index, at(e, handle)->len) : (struct span){NULL, 0};
}

/* The largest index that the job can have after this. */
static size_t index_bytes(const struct engine *e, uint64_t seq, size_t more)
{
    return steps_of(e, seq).len + more * STEP_INDEX_BYTES;
}

int steps_reserve(struct engine *e, uint64_t seq, struct span list)
{
    int err = slab_reserve(&e->steps, 1);
    if (!err)
        err = map64_reserve(&e->steps_map, 1);
    return err ? err : kv_reserve_bytes(e, index_bytes(e, seq, steps_count(list)));
}

static struct job_steps *job_steps_need(struct engine *e, uint64_t seq)
{
    uint32_t handle = map64_get(&e->steps_map, seq);
    if (handle)
        return at(e, handle);
    handle = slab_take(&e->steps);
    if (handle && map64_put(&e->steps_map, seq, handle) != 0) {
        slab_give(&e->steps, handle);
        handle = 0;
    }
    if (handle)
        *at(e, handle) = (struct job_steps){.seq = seq};
    return handle ? at(e, handle) : NULL;
}

/* The job's index with room for more steps. NULL: no memory. */
static struct job_steps *grow(struct engine *e, uint64_t seq, size_t more)
{
    char *index = kv_text_take(e, index_bytes(e, seq, more));
    struct job_steps *s = index ? job_steps_need(e, seq) : NULL;
    if (!s) {
        mem_free(index);
        return NULL;
    }
    if (s->len)
        memcpy(index, s->index, s->len);
    mem_free(s->index);
    s->index = index;
    return s;
}

int steps_apply(struct engine *e, uint64_t seq, struct span list)
{
    struct job_steps *s = grow(e, seq, steps_count(list));
    if (!s)
        return -ERR_NOMEM;
    s->len = (uint32_t)steps_index_add(s->index, s->len, e->hash_key, list);
    return s->len <= LIMIT_STEPS * STEP_INDEX_BYTES ? 0 : -ERR_CORRUPT;
}

int steps_load(struct engine *e, uint64_t seq, struct span name, size_t result_bytes)
{
    struct job_steps *s = grow(e, seq, 1);
    if (!s)
        return -ERR_NOMEM;
    s->len = (uint32_t)steps_index_put(s->index, s->len, e->hash_key, name, result_bytes);
    return s->len <= LIMIT_STEPS * STEP_INDEX_BYTES ? 0 : -ERR_CORRUPT;
}

void steps_gone(struct engine *e, uint64_t seq)
{
    uint32_t handle = map64_get(&e->steps_map, seq);
    if (!handle)
        return;
    mem_free(at(e, handle)->index);
    map64_drop(&e->steps_map, seq);
    slab_give(&e->steps, handle);
}
