/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/settles.h"

#include "base/mem.h"

struct settle *settles_add(struct settles *s, void *owner, backend_closed_fn fn, void *ctx)
{
    struct settle *one = mem_zalloc(sizeof *one);
    struct settle **link = &s->first;
    if (!one)
        return NULL;
    *one = (struct settle){.fn = fn, .ctx = ctx, .owner = owner};
    while (*link)
        link = &(*link)->next;
    *link = one;
    return one;
}

void settles_drop(struct settles *s, struct settle *one)
{
    struct settle **link = &s->first;
    while (*link != one)
        link = &(*link)->next;
    *link = one->next;
    mem_free(one);
}

static void call_all(struct settle *ended)
{
    while (ended) {
        struct settle *one = ended;
        ended = one->next;
        one->fn(one->ctx);
        mem_free(one);
    }
}

void settles_end(struct settles *s, uint64_t upto)
{
    struct settle **link = &s->first, *ended = NULL, **last = &ended;
    while (*link) {
        struct settle *one = *link;
        if (!one->worked || one->position > upto) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        one->next = NULL;
        *last = one;
        last = &one->next;
    }
    call_all(ended);
}

void settles_end_all(struct settles *s)
{
    struct settle *ended = s->first;
    s->first = NULL;
    call_all(ended);
}
