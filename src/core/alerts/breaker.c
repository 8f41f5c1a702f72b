/* SPDX-License-Identifier: Apache-2.0 */
#include "core/alerts/breaker.h"

#include <stddef.h>

#include "core/limits.h"

const char *breaker_state_name(enum breaker_state s)
{
    static const char *const names[BREAKER_STATE_COUNT] = {
        [BREAKER_CLOSED] = "closed",
        [BREAKER_OPEN] = "open",
        [BREAKER_HALF_OPEN] = "half_open",
    };
    return (unsigned)s < BREAKER_STATE_COUNT ? names[s] : NULL;
}

static int64_t cooldown_ms(const struct breaker_rules *rules)
{
    return (int64_t)rules->open_cooldown_seconds * 1000;
}

static void enter(struct breaker *b, const struct breaker_rules *rules, enum breaker_state state,
                  struct wall_time now)
{
    b->state = (uint8_t)state;
    b->probes = 0;
    b->changed_at = now;
    b->until = (struct wall_time){0};
    if (state != BREAKER_CLOSED)
        b->until.ms = now.ms < LIMIT_WALL_MS - cooldown_ms(rules) ? now.ms + cooldown_ms(rules)
                                                                  : LIMIT_WALL_MS;
}

/* A wall clock that was set back must not make the wait longer than the rules say. */
static bool time_left(const struct breaker *b, const struct breaker_rules *rules,
                      struct wall_time now)
{
    return now.ms < b->until.ms && b->until.ms - now.ms <= cooldown_ms(rules);
}

bool breaker_ask(struct breaker *b, const struct breaker_rules *rules, struct wall_time now)
{
    if (b->state == BREAKER_CLOSED)
        return true;
    if (b->state == BREAKER_OPEN && time_left(b, rules, now))
        return false;
    if (b->state == BREAKER_OPEN || !time_left(b, rules, now)) {
        struct wall_time since = b->changed_at;
        bool again = b->state == BREAKER_HALF_OPEN;
        enter(b, rules, BREAKER_HALF_OPEN, now);
        if (again)
            b->changed_at = since;
    }
    if (b->probes >= rules->half_open_probe_count)
        return false;
    b->probes++;
    return true;
}

void breaker_tell(struct breaker *b, const struct breaker_rules *rules, bool success,
                  struct wall_time now)
{
    if (success) {
        b->failures = 0;
        if (b->state != BREAKER_CLOSED)
            enter(b, rules, BREAKER_CLOSED, now);
        return;
    }
    if (b->state == BREAKER_OPEN)
        return;
    if (b->failures < UINT32_MAX)
        b->failures++;
    if (b->state == BREAKER_HALF_OPEN || b->failures >= rules->failure_threshold)
        enter(b, rules, BREAKER_OPEN, now);
}

bool breaker_equal(const struct breaker *a, const struct breaker *b)
{
    return a->state == b->state && a->failures == b->failures && a->probes == b->probes &&
           a->until.ms == b->until.ms && a->changed_at.ms == b->changed_at.ms;
}
