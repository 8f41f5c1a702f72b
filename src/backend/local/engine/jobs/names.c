/* SPDX-License-Identifier: Apache-2.0 */
/* What many jobs have in common is held once: their own options and kind, their group, their
 * worker's name.
 */
#include "backend/local/engine/engine_impl.h"

int names_reserve(struct engine *e, size_t jobs)
{
    int err = slab_reserve(&e->groups, jobs);
    if (!err)
        err = slab_reserve(&e->options, jobs);
    if (!err)
        err = slab_reserve(&e->workers, jobs);
    if (!err)
        err = map128_reserve(&e->group_map, jobs);
    if (!err)
        err = map128_reserve(&e->options_map, jobs);
    if (!err)
        err = map128_reserve(&e->worker_map, jobs);
    return err;
}

/* The handle under key, or a fresh record entered under it; 0 = out of memory. */
static uint32_t intern(struct map128 *map, struct slab *slab, struct hash128 key, bool *ret_fresh)
{
    uint32_t handle = (uint32_t)map128_get(map, key);
    *ret_fresh = handle == 0;
    if (handle)
        return handle;
    handle = slab_take(slab);
    if (handle && map128_put(map, key, handle) != 0) {
        slab_give(slab, handle);
        return 0;
    }
    return handle;
}

int names_options(struct engine *e, const struct job_extra *from, uint32_t *ret)
{
    bool fresh;
    struct hash128 kind = {0, 0};
    if (from->kind.len)
        kind = hash128_of(e->hash_key, from->kind);
    struct hash128 key = hash128_scoped(e->hash_key, kind.lo, from->options);
    key.hi ^= kind.hi;
    uint32_t handle = intern(&e->options_map, &e->options, key, &fresh);
    if (!handle)
        return -ERR_NOMEM;
    struct options *o = slab_at(&e->options, handle);
    if (fresh) {
        *o = (struct options){.key = key, .kind = kind};
        if (from->options.len && options_decode(from->options, &o->value) < 0) {
            map128_drop(&e->options_map, key);
            slab_give(&e->options, handle);
            return -ERR_CORRUPT;
        }
    }
    o->refs++;
    *ret = handle;
    return 0;
}

void names_drop_options(struct engine *e, uint32_t handle)
{
    struct options *o = slab_at(&e->options, handle);
    if (--o->refs > 0)
        return;
    map128_drop(&e->options_map, o->key);
    slab_give(&e->options, handle);
}

int names_group(struct engine *e, uint32_t queue, struct span text, uint32_t *ret)
{
    bool fresh;
    struct hash128 key = hash128_scoped(e->hash_key, queue, text);
    uint32_t handle = intern(&e->group_map, &e->groups, key, &fresh);
    if (!handle)
        return -ERR_NOMEM;
    struct group *g = slab_at(&e->groups, handle);
    if (fresh)
        *g = (struct group){
            .key = key, .queue = queue, .generation = queue_at(e, queue)->generation};
    g->refs++;
    *ret = handle;
    return 0;
}

void names_drop_group(struct engine *e, uint32_t handle)
{
    struct group *g = slab_at(&e->groups, handle);
    if (--g->refs > 0)
        return;
    map128_drop(&e->group_map, g->key);
    slab_give(&e->groups, handle);
}

/* A purge takes a group's waiting jobs out of the counts without visiting it. */
static bool group_purged(const struct engine *e, const struct group *g)
{
    return g->generation != queue_at(e, g->queue)->generation;
}

uint64_t group_counted(const struct engine *e, const struct group *g, uint8_t state)
{
    return state_waits(state) && group_purged(e, g) ? 0 : g->by_state[state];
}

void group_count(struct engine *e, uint32_t handle, uint8_t state, int by)
{
    struct group *g = slab_at(&e->groups, handle);
    if (group_purged(e, g)) {
        g->by_state[STATE_SCHEDULED] = g->by_state[STATE_READY] = 0;
        g->generation = queue_at(e, g->queue)->generation;
    }
    g->by_state[state] += (uint64_t)(int64_t)by;
}

/* Gives up one name that no lease uses, when there are many. */
static void workers_forget(struct engine *e)
{
    if (e->workers.used < WORKERS_IDLE_MAX)
        return;
    for (int tries = 0; tries < 16; tries++) {
        e->worker_hand = e->worker_hand + 1 < e->workers.next ? e->worker_hand + 1 : 1;
        struct worker *w = slab_at(&e->workers, e->worker_hand);
        if (w->refs == 0 && map128_get(&e->worker_map, w->key) == e->worker_hand) {
            map128_drop(&e->worker_map, w->key);
            slab_give(&e->workers, e->worker_hand);
            return;
        }
    }
}

/* --- workers that hold leases, linked in the order in which they began to --- */

static struct worker *worker_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->workers, handle);
}

static void busy_enter(struct engine *e, uint32_t handle)
{
    struct worker *w = worker_at(e, handle);
    w->prev = e->busy_last;
    w->next = 0;
    if (e->busy_last)
        worker_at(e, e->busy_last)->next = handle;
    else
        e->busy_first = handle;
    e->busy_last = handle;
    e->busy_count++;
}

static void busy_leave(struct engine *e, uint32_t handle)
{
    struct worker *w = worker_at(e, handle);
    if (w->prev)
        worker_at(e, w->prev)->next = w->next;
    else
        e->busy_first = w->next;
    if (w->next)
        worker_at(e, w->next)->prev = w->prev;
    else
        e->busy_last = w->prev;
    e->busy_count--;
}

/* Some of what each holds: those whose leases end first. */
static void views_held(const struct engine *e, struct worker_view *const *by_handle)
{
    for (size_t i = 0; i < e->leases_end.len; i++) {
        const struct lease *lease = lease_at(e, (uint32_t)heap_at(&e->leases_end, i).seq);
        struct worker_view *v = by_handle[lease->worker];
        if (!v || v->held_count == WORKER_HELD_SHOWN)
            continue;
        const struct job *j = &live_at(e, lease->job)->job;
        v->held[v->held_count++] = (struct job_ref){.seq = j->seq, .hi = j->id_hi};
    }
}

static struct worker_view *busy_views(struct engine *e, uint32_t *ret_count)
{
    size_t count = e->busy_count < WORKERS_MAX ? e->busy_count : WORKERS_MAX;
    struct worker_view *views = arena_array(&e->out->arena, count ? count : 1, sizeof(*views));
    struct worker_view **by_handle =
        arena_array(&e->out->arena, e->workers.next + 1, sizeof(struct worker_view *));
    uint32_t n = 0;
    if (!by_handle)
        return NULL;
    for (uint32_t at = e->busy_first; views && n < count; at = worker_at(e, at)->next) {
        const struct worker *w = worker_at(e, at);
        const char *name = arena_copy(&e->out->arena, w->name, w->len);
        if (!name)
            return NULL;
        by_handle[at] = &views[n];
        views[n++] = (struct worker_view){.name = span_of(name, w->len), .running = w->refs};
    }
    if (views)
        views_held(e, by_handle);
    *ret_count = n;
    return views;
}

void op_workers(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    r->reply.workers = busy_views(e, &r->reply.worker_count);
    r->reply.worker_total = e->busy_count;
    if (!r->reply.workers) {
        r->reply.worker_count = 0;
        refuse_nomem(r);
    }
}

int names_worker(struct engine *e, struct span text, uint32_t *ret)
{
    *ret = 0;
    if (text.len == 0)
        return 0;
    if (text.len > LIMIT_WORKER_BYTES)
        return -ERR_CORRUPT;
    bool fresh;
    struct hash128 key = hash128_of(e->hash_key, text);
    uint32_t handle = intern(&e->worker_map, &e->workers, key, &fresh);
    if (!handle)
        return -ERR_NOMEM;
    struct worker *w = slab_at(&e->workers, handle);
    if (fresh) {
        w->key = key;
        w->len = (uint32_t)text.len;
        memcpy(w->name, text.at, text.len);
    }
    if (w->refs++ == 0)
        busy_enter(e, handle);
    if (fresh)
        workers_forget(e);
    *ret = handle;
    return 0;
}

void names_drop_worker(struct engine *e, uint32_t handle)
{
    if (--worker_at(e, handle)->refs == 0)
        busy_leave(e, handle);
}

struct span worker_name(const struct engine *e, uint32_t handle)
{
    if (!handle)
        return (struct span){NULL, 0};
    const struct worker *w = slab_at(&e->workers, handle);
    return span_of(w->name, w->len);
}
