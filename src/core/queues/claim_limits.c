/* SPDX-License-Identifier: Apache-2.0 */
#include "core/queues/claim_limits.h"

const char *claim_block_name(enum claim_block block)
{
    static const char *const names[CLAIM_BLOCK_COUNT] = {
        [CLAIM_FREE] = "",
        [CLAIM_QUEUE_LIMIT] = "queue_limit",
        [CLAIM_GROUP_LIMIT] = "group_limit",
        [CLAIM_RATE] = "claim_rate",
    };
    return names[block];
}

bool claim_grouped(const struct queue_policy *p)
{
    return p->max_running_per_group > 0 || p->fair == FAIR_GROUP ||
           (p->claim_rate.count > 0 && p->claim_rate.per == RATE_GROUP);
}

bool claim_limited(const struct queue_policy *p)
{
    return claim_grouped(p) || p->max_running > 0 || p->claim_rate.count > 0 || p->ageing_ms > 0;
}

static bool slot_free(uint32_t max, uint64_t running)
{
    return max == 0 || running < max;
}

static enum claim_block rate_block(const struct queue_policy *p, uint8_t per,
                                   const struct claim_use *use, int64_t now_us, int64_t *ret_at_us)
{
    if (p->claim_rate.count == 0 || p->claim_rate.per != per)
        return CLAIM_FREE;
    int64_t at = claim_token_at_us(&p->claim_rate, use->full_us, now_us);
    if (at <= now_us)
        return CLAIM_FREE;
    *ret_at_us = at;
    return CLAIM_RATE;
}

enum claim_block claim_queue_block(const struct queue_policy *p, const struct claim_use *use,
                                   int64_t now_us, int64_t *ret_at_us)
{
    *ret_at_us = 0;
    if (!slot_free(p->max_running, use->running))
        return CLAIM_QUEUE_LIMIT;
    return rate_block(p, RATE_QUEUE, use, now_us, ret_at_us);
}

enum claim_block claim_group_block(const struct queue_policy *p, const struct claim_use *use,
                                   int64_t now_us, int64_t *ret_at_us)
{
    *ret_at_us = 0;
    if (!slot_free(p->max_running_per_group, use->running))
        return CLAIM_GROUP_LIMIT;
    return rate_block(p, RATE_GROUP, use, now_us, ret_at_us);
}

static int64_t share_us(const struct rate_limit *rate)
{
    int64_t share = (int64_t)rate->window_ms * 1000 / rate->count;
    return share > 0 ? share : 1;
}

int64_t claim_token_at_us(const struct rate_limit *rate, int64_t full_us, int64_t now_us)
{
    int64_t full = full_us > now_us ? full_us : now_us;
    return full + share_us(rate) - (int64_t)rate->window_ms * 1000;
}

int64_t claim_token_take(const struct rate_limit *rate, int64_t full_us, int64_t now_us)
{
    return (full_us > now_us ? full_us : now_us) + share_us(rate);
}

int64_t claim_token_give(const struct rate_limit *rate, int64_t full_us)
{
    return full_us - share_us(rate);
}

static int64_t periods(const struct queue_policy *p, struct wall_time at)
{
    return at.ms > 0 ? at.ms / p->ageing_ms : 0;
}

int64_t claim_priority(const struct queue_policy *p, int64_t priority, struct wall_time ready_since)
{
    int64_t aged;
    if (p->ageing_ms == 0)
        return priority;
    return __builtin_sub_overflow(priority, periods(p, ready_since), &aged) ? INT64_MIN : aged;
}

int64_t claim_priority_now(const struct queue_policy *p, int64_t claim_priority,
                           struct wall_time now)
{
    int64_t aged;
    if (p->ageing_ms == 0)
        return claim_priority;
    return __builtin_add_overflow(claim_priority, periods(p, now), &aged) ? INT64_MAX : aged;
}

uint64_t claim_round_join(uint64_t queue_round)
{
    return queue_round + 1;
}

void claim_round_serve(uint64_t *queue_round, uint64_t *group_round)
{
    if (*group_round > *queue_round)
        *queue_round = *group_round;
    *group_round = claim_round_join(*queue_round);
}
