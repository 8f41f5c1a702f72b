/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of watches for each name, found by a map: a signal, or the end of a watch, does not visit
 * the watches of other names. */
#include "backend/local/watches.h"

#include "base/check.h"
#include "base/mem.h"

struct backend_watch {
    struct hash128 name;
    backend_signal_fn fn;
    void *ctx;
    bool removed;                      /* freed when no signal is being sent */
    struct backend_watch *prev, *next; /* of the same name: a ring */
    struct backend_watch *all_prev, *all_next;
    struct backend_watch *next_removed;
};

void watches_init(struct watches *w)
{
    *w = (struct watches){0};
    map128_init(&w->by_name);
}

static struct backend_watch *ring_of(const struct watches *w, struct hash128 name)
{
    return (struct backend_watch *)(uintptr_t)map128_get(&w->by_name, name);
}

int watches_add(struct watches *w, struct hash128 name, backend_signal_fn fn, void *ctx,
                struct backend_watch **ret)
{
    struct backend_watch *one = mem_zalloc(sizeof(*one));
    struct backend_watch *ring = ring_of(w, name);
    if (!one)
        return -ERR_NOMEM;
    *one = (struct backend_watch){.name = name, .fn = fn, .ctx = ctx, .prev = one, .next = one};
    if (ring) {
        one->prev = ring;
        one->next = ring->next;
        one->prev->next = one->next->prev = one;
    } else if (map128_put(&w->by_name, name, (uintptr_t)one) != 0) {
        mem_free(one);
        return -ERR_NOMEM;
    }
    one->all_next = w->first;
    if (w->first)
        w->first->all_prev = one;
    w->first = one;
    *ret = one;
    return 0;
}

static void ring_drop(struct watches *w, struct backend_watch *one)
{
    struct backend_watch *other = one->next;
    one->prev->next = one->next;
    one->next->prev = one->prev;
    *(one->all_prev ? &one->all_prev->all_next : &w->first) = one->all_next;
    if (one->all_next)
        one->all_next->all_prev = one->all_prev;
    if (other == one)
        map128_drop(&w->by_name, one->name);
    else if (ring_of(w, one->name) == one) /* replacing a value needs no memory */
        CHECK(map128_put(&w->by_name, one->name, (uintptr_t)other) == 0);
    mem_free(one);
}

void watches_remove(struct watches *w, struct backend_watch *one)
{
    if (!w->signalling) {
        ring_drop(w, one);
        return;
    }
    one->removed = true;
    one->next_removed = w->removed;
    w->removed = one;
}

static void removed_drop(struct watches *w)
{
    while (w->removed) {
        struct backend_watch *one = w->removed;
        w->removed = one->next_removed;
        ring_drop(w, one);
    }
}

/* A watch that is added meanwhile is inserted behind the first one and may be called or not. */
void watches_signal(struct watches *w, struct hash128 name)
{
    struct backend_watch *first = ring_of(w, name), *one = first;
    if (!first)
        return;
    w->signalling++;
    do {
        if (!one->removed)
            one->fn(one->ctx);
        one = one->next;
    } while (one != first);
    if (--w->signalling == 0)
        removed_drop(w);
}

void watches_done(struct watches *w)
{
    while (w->first)
        ring_drop(w, w->first);
    map128_done(&w->by_name);
}
