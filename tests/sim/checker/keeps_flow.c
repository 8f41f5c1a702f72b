/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/checker/keeps_flow.h"

void flow_policies_done(struct flow_policies *p)
{
    vec_free(p->list);
}

bool flow_limited(struct span queue)
{
    return span_equal(queue, SPAN_LITERAL("x-limited"));
}

bool flow_policy_changes(struct flow_policies *p, const struct hist_entry *e)
{
    if (e->kind != HIST_OP || !e->apart || e->op.kind != OP_QUEUE_PUT || keeps_refused(e) ||
        !flow_limited(e->op.queue.name))
        return false;
    if (keeps_ok(e, OP_QUEUE_PUT))
        p->count = 0;
    p->list = vec_room(p->list, &p->room, p->count + 1, sizeof(struct queue_policy *));
    p->list[p->count++] = e->op.queue.policy;
    return true;
}

const struct queue_policy *flow_sure(const struct flow_policies *p)
{
    return p->count == 1 ? p->list[0] : NULL;
}

uint32_t flow_max_running(const struct flow_policies *p)
{
    uint32_t max = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (p->list[i]->max_running == 0)
            return 0;
        max = p->list[i]->max_running > max ? p->list[i]->max_running : max;
    }
    return max;
}

uint32_t flow_max_per_group(const struct flow_policies *p)
{
    uint32_t max = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (p->list[i]->max_running_per_group == 0)
            return 0;
        if (p->list[i]->max_running_per_group > max)
            max = p->list[i]->max_running_per_group;
    }
    return max;
}
