/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/watches.h"

#include "base/mem.h"

struct backend_watch {
    struct hash128 name;
    backend_signal_fn fn;
    void *ctx;
    bool removed; /* freed once no signal is under way */
    struct backend_watch *next;
};

int watches_add(struct watches *w, struct hash128 name, backend_signal_fn fn, void *ctx,
                struct backend_watch **ret)
{
    struct backend_watch *one = mem_zalloc(sizeof(*one));
    if (!one)
        return -ERR_NOMEM;
    *one = (struct backend_watch){.name = name, .fn = fn, .ctx = ctx, .next = w->first};
    w->first = one;
    *ret = one;
    return 0;
}

static void free_removed(struct watches *w)
{
    struct backend_watch **link = &w->first;
    while (*link) {
        struct backend_watch *one = *link;
        if (one->removed) {
            *link = one->next;
            mem_free(one);
        } else {
            link = &one->next;
        }
    }
}

void watches_remove(struct watches *w, struct backend_watch *one)
{
    one->removed = true;
    if (!w->signalling)
        free_removed(w);
}

void watches_signal(struct watches *w, struct hash128 name)
{
    w->signalling++;
    for (struct backend_watch *one = w->first; one; one = one->next)
        if (!one->removed && hash128_equal(one->name, name))
            one->fn(one->ctx);
    if (--w->signalling == 0)
        free_removed(w);
}

void watches_done(struct watches *w)
{
    while (w->first) {
        struct backend_watch *one = w->first;
        w->first = one->next;
        mem_free(one);
    }
}
