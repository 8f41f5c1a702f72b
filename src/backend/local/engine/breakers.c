/* SPDX-License-Identifier: Apache-2.0 */
/* The breakers of targets: core/alerts/breaker.h, made durable.
 *
 * A breaker guards, it does not promise: where memory is short a report is lost, never a call's own
 * outcome. At most LIMIT_BREAKERS are remembered; one that is closed and without failures says
 * nothing and makes room for another. */
#include "backend/local/engine/engine_impl.h"

static struct span target_name(const struct target *t)
{
    return span_of(t->name, t->len);
}

/* Where it is, or would be. */
static size_t place_of(const struct engine *e, struct span name)
{
    size_t low = 0, high = e->targets.count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (span_order(target_name(e->targets.list[mid]), name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct target *find(const struct engine *e, struct span name)
{
    size_t at = place_of(e, name);
    bool found = at < e->targets.count && span_equal(target_name(e->targets.list[at]), name);
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
    t->len = name.len;
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

/* Room for one more: the one that has been quiet longest goes. */
static bool make_room(struct engine *e)
{
    const struct target *quiet = NULL;
    if (e->targets.count < LIMIT_BREAKERS)
        return true;
    for (size_t i = 0; i < e->targets.count; i++) {
        const struct target *t = e->targets.list[i];
        if (t->breaker.state == BREAKER_CLOSED && t->breaker.failures == 0 &&
            (!quiet || t->breaker.changed_at.ms < quiet->breaker.changed_at.ms))
            quiet = t;
    }
    if (!quiet)
        return false;
    struct record rec = {.kind = REC_BREAKER_GONE, .breaker_gone = {.target = target_name(quiet)}};
    return emit_reserve(e, record_bytes_max(&rec)) == 0 && engine_emit_or_not(e, &rec) == 0;
}

static bool set(struct engine *e, struct span target, const struct breaker *breaker)
{
    struct record rec = {.kind = REC_BREAKER_PUT,
                         .breaker_put = {.target = target, .breaker = *breaker}};
    if (!find(e, target) && !make_room(e))
        return false;
    return emit_reserve(e, record_bytes_max(&rec)) == 0 && engine_emit_or_not(e, &rec) == 0;
}

bool breakers_ask(struct engine *e, struct span target, const struct breaker_rules *rules,
                  struct wall_time *ret_until)
{
    const struct target *t = find(e, target);
    struct breaker after = t ? t->breaker : (struct breaker){0};
    bool may = breaker_ask(&after, rules, e->now.wall);
    *ret_until = after.until;
    if (!t || breaker_equal(&t->breaker, &after))
        return may;
    if (set(e, target, &after))
        return may;
    *ret_until = (struct wall_time){0};
    return false;
}

bool breakers_tell(struct engine *e, struct span target, const struct breaker_rules *rules,
                   bool success)
{
    const struct target *t = find(e, target);
    struct breaker before = t ? t->breaker : (struct breaker){0}, after = before;
    breaker_tell(&after, rules, success, e->now.wall);
    if (t && breaker_equal(&before, &after))
        return false;
    return set(e, target, &after) && before.state != BREAKER_CLOSED &&
           after.state == BREAKER_CLOSED;
}

void op_breaker_list(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    size_t count = e->targets.count;
    struct breaker_view *views = arena_array(&e->out->arena, count ? count : 1, sizeof(*views));
    for (size_t i = 0; views && i < count; i++) {
        const struct target *t = e->targets.list[i];
        const char *copy = arena_copy(&e->out->arena, t->name, t->len);
        if (!copy) {
            views = NULL;
            break;
        }
        views[i] = (struct breaker_view){span_of(copy, t->len), t->breaker};
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
        const uint64_t numbers[] = {t->breaker.state, t->breaker.failures, t->breaker.probes,
                                    (uint64_t)t->breaker.until.ms,
                                    (uint64_t)t->breaker.changed_at.ms};
        h = state_mix_span(h, target_name(t));
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
            h = state_mix(h, numbers[k]);
    }
    return h;
}
