/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the children and numbers outside. The default backend has number 0, so that its are
 * the same on both sides and nothing is copied. */
#include "backend/router/impl.h"

uint64_t router_seq_out(const struct child *child, uint64_t seq)
{
    return seq ? (uint64_t)child->number << SLOT_SHIFT | seq : 0;
}

unsigned router_slot(uint64_t seq)
{
    return (unsigned)(seq >> SLOT_SHIFT);
}

uint64_t router_seq_in(uint64_t seq)
{
    return seq & SEQ_INNER_MAX;
}

/* One that has no room beside the backend's number is not told. */
static uint32_t queue_out(const void *ctx, uint32_t number)
{
    const struct child *child = ctx;
    if (number == 0 || number > QUEUE_INNER_MAX)
        return child->number == 0 ? number : 0;
    return (uint32_t)child->number << QUEUE_SHIFT | number;
}

uint64_t router_bit(const struct child *child)
{
    return UINT64_C(1) << child->number;
}

static uint64_t seq_out(const void *child, uint64_t seq)
{
    return router_seq_out(child, seq);
}

int router_reply_out(const struct child *child, struct reply *r, struct arena *a)
{
    const struct fanout_numbers numbers = {seq_out, queue_out, child};
    if (child->number == 0)
        return 0;
    r->left_out = r->left_out ? router_bit(child) : 0;
    return fanout_renumber(r, &numbers, a);
}

static bool was_asked(const struct router_call *c, const struct child *child)
{
    for (const struct answer *at = c->answers; at; at = at->next) {
        if (at->from == child)
            return true;
    }
    return !c->answers && c->child == child;
}

uint64_t router_position_besides(const struct router_call *c)
{
    const struct router *r = router_of_call(c);
    struct backend_figures figures;
    uint64_t sum = 0;
    for (unsigned i = 0; i < r->child_count; i++) {
        if (!r->children[i].backend || was_asked(c, &r->children[i]))
            continue;
        backend_figures(r->children[i].backend, &figures);
        sum += figures.position;
    }
    return sum;
}
