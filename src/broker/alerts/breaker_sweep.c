/* SPDX-License-Identifier: Apache-2.0 */
/* A pass lists the breakers and requests the deletion of those that seem unused. The backend checks
 * again when it deletes one, because it may have been used in between (op_breaker.only_unused). */
#include "broker/alerts/breaker_sweep.h"

#include "base/check.h"
#include "base/mem.h"
#include "broker/broker_impl.h"

#define PASS_MS (3600 * 1000)
#define DELETES_MAX 100 /* in one pass */

struct breaker_sweep {
    struct broker *broker;
    void (*idle)(void *ctx);
    void *ctx;
    struct wall_time last; /* start of the last pass; 0 = none yet */
    size_t waits;          /* outstanding replies */
    struct op list, deletes[DELETES_MAX];
    struct arena names;
};

int breaker_sweep_open(struct broker *b, void (*idle)(void *ctx), void *ctx,
                       struct breaker_sweep **ret)
{
    struct breaker_sweep *s = mem_zalloc(sizeof *s);
    if (!s)
        return -ERR_NOMEM;
    s->broker = b;
    s->idle = idle;
    s->ctx = ctx;
    arena_init(&s->names);
    *ret = s;
    return 0;
}

void breaker_sweep_close(struct breaker_sweep *s)
{
    if (!s)
        return;
    CHECK(breaker_sweep_idle(s));
    arena_done(&s->names);
    mem_free(s);
}

bool breaker_sweep_idle(const struct breaker_sweep *s)
{
    return s->waits == 0;
}

static void answered(struct breaker_sweep *s)
{
    if (--s->waits == 0)
        s->idle(s->ctx);
}

static void deleted_cb(void *ctx, const struct reply *r)
{
    (void)r; /* a breaker that could not be deleted is found again by a later pass */
    answered(ctx);
}

static size_t deletes_of(struct breaker_sweep *s, const struct reply *r)
{
    size_t count = 0;
    arena_reset(&s->names);
    for (uint32_t i = 0; i < r->breaker_count && count < DELETES_MAX; i++) {
        const struct breaker_view *v = &r->breakers[i];
        if (!breaker_is_named(v->target) || !breaker_is_unused(&v->breaker, s->last))
            continue;
        const char *name = arena_copy(&s->names, v->target.at, v->target.len);
        if (!name)
            break;
        s->deletes[count++] =
            (struct op){.kind = OP_BREAKER_DELETE,
                        .breaker = {.name = span_of(name, v->target.len), .only_unused = true}};
    }
    return count;
}

static void listed_cb(void *ctx, const struct reply *r)
{
    struct breaker_sweep *s = ctx;
    size_t count = r->outcome == OUT_OK ? deletes_of(s, r) : 0;
    if (count && broker_submit(s->broker, s->deletes, count, deleted_cb, s) == 0)
        s->waits += count;
    if (r->outcome != OUT_OK)
        s->last.ms = 0; /* the next pass need not wait an hour */
    answered(s);
}

void breaker_sweep_pass(struct breaker_sweep *s)
{
    struct wall_time now = clock_now(&s->broker->config.clock).wall;
    bool due = s->last.ms == 0 || now.ms < s->last.ms || now.ms - s->last.ms >= PASS_MS;
    if (!due || s->waits)
        return;
    s->list = (struct op){.kind = OP_BREAKER_LIST, .breakers = {.partial = true}};
    if (broker_submit(s->broker, &s->list, 1, listed_cb, s) != 0)
        return;
    s->last = now;
    s->waits = 1;
}
