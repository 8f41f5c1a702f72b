/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of a store that several nodes share.
 *
 * Every node hears of its own changes at once, and asks for those of others about once a second
 * (OP_SCHEDULE_LIST by change), or, where the store cannot say what was changed, for all every ten.
 * Only the node that leads fires; that no other does is a saving, not a promise: the store refuses
 * a time that was fired before. Whoever begins to lead reads all schedules anew before it fires the
 * first, since another has moved them on meanwhile. */
#include "broker/broker_impl.h"

#define FOLLOW_MS 250
#define TURNS_A_LOOK 4 /* of them, between two looks at what others changed … */
#define TURNS_ALL 40   /* … where that means all schedules */

bool schedules_lead(const struct broker *b)
{
    const struct schedules *s = &b->schedules;
    return !s->shared || (s->leads && !s->behind);
}

void schedules_notice(struct broker *b)
{
    struct schedules *s = &b->schedules;
    bool leads = s->shared && backend_leads(b->config.backend);
    if (!s->started || !s->shared || b->draining || leads == s->leads)
        return;
    s->leads = leads;
    s->behind = leads;
    s->mark = 0;
    s->list_after = (struct span){NULL, 0};
    s->anew = leads && s->list_busy;
    if (leads && !s->list_busy)
        schedules_list(b);
}

static void follow_cb(uv_timer_t *timer)
{
    struct broker *b = timer->data;
    struct schedules *s = &b->schedules;
    schedules_notice(b);
    uint32_t turns = s->by_change ? TURNS_A_LOOK : TURNS_ALL;
    if (++s->follow_turn % turns != 0 || s->loading || s->list_busy || b->draining)
        return;
    s->list_after = (struct span){NULL, 0};
    schedules_list(b);
}

void schedules_follow(struct broker *b)
{
    struct schedules *s = &b->schedules;
    s->shared = (backend_caps(b->config.backend) & CAP_SHARED) != 0;
    s->by_change = (backend_caps(b->config.backend) & CAP_CHANGES) != 0;
    if (s->shared)
        uv_timer_start(&s->follow_timer, follow_cb, FOLLOW_MS, FOLLOW_MS);
}
