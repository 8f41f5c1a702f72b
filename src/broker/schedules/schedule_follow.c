/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of a store that several nodes share.
 *
 * Every node learns of its own changes at once, and reads those of others about once a second
 * (OP_SCHEDULE_LIST by change) or, if the store cannot list changes, all schedules every ten
 * seconds. Only the leader fires. This only saves work: the store refuses a time that was fired
 * before. A node that becomes the leader reads all schedules again before it fires the first,
 * because another node has changed their state meanwhile. */
#include "broker/broker_impl.h"

#define FOLLOW_MS 250
#define TICKS_PER_READ 4       /* timer ticks between two reads of what others changed … */
#define TICKS_PER_FULL_READ 40 /* … if that means all schedules */

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
    s->page_outdated = leads && s->list_busy;
    if (leads && !s->list_busy)
        schedules_list(b);
}

static void follow_cb(uv_timer_t *timer)
{
    struct broker *b = timer->data;
    struct schedules *s = &b->schedules;
    schedules_notice(b);
    uint32_t ticks = s->by_change ? TICKS_PER_READ : TICKS_PER_FULL_READ;
    if (++s->follow_ticks % ticks != 0 || s->loading || s->list_busy || b->draining)
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
