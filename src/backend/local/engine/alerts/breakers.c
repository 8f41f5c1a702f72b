/* SPDX-License-Identifier: Apache-2.0 */
/* The breakers of targets (core/alerts/breaker.h), kept durably. */
#include "backend/local/engine/engine_impl.h"

#include "base/containers/sorted.h"

/* Where it is, or would be. */
static size_t place_of(const struct engine *e, struct span name)
{
    return SORTED_INDEX(e->targets.count, i, span_order(e->targets.list[i]->target, name) < 0);
}

static struct target *find(const struct engine *e, struct span name)
{
    size_t at = place_of(e, name);
    bool found = at < e->targets.count && span_equal(e->targets.list[at]->target, name);
    return found ? e->targets.list[at] : NULL;
}

static int add(struct engine *e, struct span name, struct target **ret)
{
    struct targets *all = &e->targets;
    if (all->count == all->room) {
        struct target **grown = mem_regrow(all->list, all->room * 2 + 8, sizeof(struct target *));
        if (!grown)
            return -ERR_NOMEM;
        all->list = grown;
        all->room = all->room * 2 + 8;
    }
    struct target *t = mem_zalloc(sizeof(*t) + name.len);
    if (!t)
        return -ERR_NOMEM;
    memcpy(t->name, name.at, name.len);
    t->target = span_of(t->name, name.len);
    size_t at = place_of(e, name);
    memmove(all->list + at + 1, all->list + at, (all->count - at) * sizeof(struct target *));
    all->list[at] = t;
    all->count++;
    *ret = t;
    return 0;
}

int breakers_apply_put(struct engine *e, const struct rec_breaker_put *r)
{
    struct target *t = find(e, r->target);
    int err = t ? 0 : add(e, r->target, &t);
    if (!err)
        t->breaker = r->breaker;
    return err;
}

int breakers_apply_gone(struct engine *e, const struct rec_breaker_gone *r)
{
    struct target *t = find(e, r->target);
    if (!t)
        return -ERR_CORRUPT;
    size_t at = place_of(e, r->target);
    e->targets.count--;
    memmove(e->targets.list + at, e->targets.list + at + 1,
            (e->targets.count - at) * sizeof(struct target *));
    mem_free(t);
    return 0;
}

void breakers_free(struct engine *e)
{
    for (size_t i = 0; i < e->targets.count; i++)
        mem_free(e->targets.list[i]);
    mem_free(e->targets.list);
}

/* --- for the operations of src/ops --- */

const struct breaker_view *breakers_find(const struct ops *o, struct span target)
{
    return (const struct breaker_view *)find(engine_of(o), target);
}

const struct breaker_view *breakers_next(const struct ops *o, const struct breaker_view *after)
{
    const struct engine *e = engine_of(o);
    size_t at = after ? place_of(e, after->target) + 1 : 0;
    return at < e->targets.count ? (const struct breaker_view *)e->targets.list[at] : NULL;
}

uint64_t breakers_named_count(const struct ops *o)
{
    const struct engine *e = engine_of(o);
    uint64_t count = 0;
    for (size_t i = 0; i < e->targets.count; i++)
        count += breaker_is_named(e->targets.list[i]->target);
    return count;
}

bool breakers_commit(struct ops *o, const struct record *rec)
{
    struct engine *e = engine_of(o);
    return emit_reserve(e, record_bytes_max(rec)) == 0 && engine_emit_or_not(e, rec) == 0;
}

void op_breaker_list(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    size_t count = e->targets.count;
    struct breaker_view *views = arena_array(&e->out->arena, count ? count : 1, sizeof(*views));
    for (size_t i = 0; views && i < count; i++) {
        const struct target *t = e->targets.list[i];
        const char *copy = arena_copy(&e->out->arena, t->name, t->target.len);
        if (!copy) {
            views = NULL;
            break;
        }
        views[i] =
            (struct breaker_view){.target = span_of(copy, t->target.len), .breaker = t->breaker};
    }
    if (!views) {
        refuse_nomem(r);
        return;
    }
    r->reply.breakers = views;
    r->reply.breaker_count = (uint32_t)count;
}

uint64_t breakers_hash(const struct engine *e)
{
    uint64_t h = 1;
    for (size_t i = 0; i < e->targets.count; i++) {
        const struct target *t = e->targets.list[i];
        const struct breaker *b = &t->breaker;
        const uint64_t numbers[] = {b->state,
                                    b->failures,
                                    b->probes,
                                    (uint64_t)b->until.ms,
                                    (uint64_t)b->changed_at.ms,
                                    b->own.failure_threshold,
                                    b->own.open_cooldown_seconds,
                                    b->own.half_open_probe_count,
                                    (uint64_t)b->used_at.ms};
        h = state_mix_span(h, t->target);
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
            h = state_mix(h, numbers[k]);
    }
    return h;
}
