/* SPDX-License-Identifier: Apache-2.0 */
/* A late signal is the number of an iteration, stored in its watch. A second signal while the first
 * is held needs no entry: the caller reads the queue after the held signal, which covers both. */
#include "wrappers/fault_signals.h"

#include "base/mem.h"

struct fault_watch {
    struct fault_signals *signals;
    struct backend_watch *inner;
    backend_signal_fn fn;
    void *ctx;
    uint64_t due; /* iteration in which the held signal is sent; 0 = none is held */
    struct fault_watch *prev, *next;
};

void signals_init(struct fault_signals *s, const struct fault_config *config,
                  void (*wanted)(void *ctx), void *ctx)
{
    *s = (struct fault_signals){.config = config, .turn = 1, .wanted = wanted, .ctx = ctx};
    random_seed(&s->random, ~config->seed);
}

void signals_done(struct fault_signals *s)
{
    while (s->watches) {
        struct fault_watch *w = s->watches;
        s->watches = w->next;
        mem_free(w);
    }
}

static void inner_signal_cb(void *ctx)
{
    struct fault_watch *w = ctx;
    struct fault_signals *s = w->signals;
    unsigned turns = s->config->late_turns > 0 ? s->config->late_turns : 1;
    if (!random_chance(&s->random, s->config->late_percent)) {
        w->fn(w->ctx);
    } else if (w->due == 0) {
        w->due = s->turn + 1 + random_below(&s->random, turns);
        s->wanted(s->ctx);
    }
}

int signals_watch(struct fault_signals *s, struct backend *inner, struct span queue,
                  backend_signal_fn fn, void *ctx, struct backend_watch **ret)
{
    struct fault_watch *w = mem_alloc(sizeof *w);
    if (!w)
        return -ERR_NOMEM;
    *w = (struct fault_watch){.signals = s, .fn = fn, .ctx = ctx, .next = s->watches};
    int rc = backend_watch(inner, queue, inner_signal_cb, w, &w->inner);
    if (rc < 0) {
        mem_free(w);
        return rc;
    }
    if (s->watches)
        s->watches->prev = w;
    s->watches = w;
    s->watch_count++;
    *ret = (struct backend_watch *)w;
    return 0;
}

void signals_unwatch(struct fault_signals *s, struct backend *inner, struct backend_watch *handle)
{
    struct fault_watch *w = (struct fault_watch *)handle;
    if (inner)
        backend_unwatch(inner, w->inner);
    if (w->prev)
        w->prev->next = w->next;
    else
        s->watches = w->next;
    if (w->next)
        w->next->prev = w->prev;
    s->watch_count--;
    mem_free(w);
}

void signals_make_up(struct fault_signals *s)
{
    s->spurious++;
    s->wanted(s->ctx);
}

static void give_spurious(struct fault_signals *s)
{
    s->spurious--;
    if (s->watch_count == 0)
        return;
    struct fault_watch *w = s->watches;
    for (uint64_t skip = random_below(&s->random, s->watch_count); skip > 0; skip--)
        w = w->next;
    w->fn(w->ctx);
}

bool signals_turn(struct fault_signals *s)
{
    s->turn++;
    if (s->spurious > 0)
        give_spurious(s);
    bool held = s->spurious > 0;
    struct fault_watch *w = s->watches;
    while (w) {
        if (w->due != 0 && w->due <= s->turn) {
            w->due = 0;
            w->fn(w->ctx);
            w = s->watches; /* the callback may have changed the list */
            continue;
        }
        held = held || w->due != 0;
        w = w->next;
    }
    return held;
}
