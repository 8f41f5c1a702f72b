/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/settle_calls.h"

#include "base/mem.h"

struct settle_call *settle_calls_add(struct settle_calls *s, void *owner, backend_closed_fn fn,
                                     void *ctx)
{
    struct settle_call *one = mem_zalloc(sizeof *one);
    struct settle_call **link = &s->first;
    if (!one)
        return NULL;
    *one = (struct settle_call){.fn = fn, .ctx = ctx, .owner = owner};
    while (*link)
        link = &(*link)->next;
    *link = one;
    return one;
}

void settle_calls_drop(struct settle_calls *s, struct settle_call *one)
{
    struct settle_call **link = &s->first;
    while (*link != one)
        link = &(*link)->next;
    *link = one->next;
    mem_free(one);
}

static void call_all(struct settle_call *ended)
{
    while (ended) {
        struct settle_call *one = ended;
        ended = one->next;
        one->fn(one->ctx);
        mem_free(one);
    }
}

void settle_calls_end(struct settle_calls *s, uint64_t upto)
{
    struct settle_call **link = &s->first, *ended = NULL, **last = &ended;
    while (*link) {
        struct settle_call *one = *link;
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

void settle_calls_end_all(struct settle_calls *s)
{
    struct settle_call *ended = s->first;
    s->first = NULL;
    call_all(ended);
}
