/* SPDX-License-Identifier: Apache-2.0 */
#include "core/alerts/breaker.h"

#include <stddef.h>
#include <string.h>

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

/* --- names and rules --- */

int breaker_name_check(struct span name, struct err_note *note)
{
    bool good = name.len > 0 && name.len <= LIMIT_BREAKER_NAME_BYTES;
    for (size_t i = 0; good && i < name.len; i++) {
        char c = name.at[i];
        good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
    }
    if (good)
        return 0;
    return err_note_set(
        note, -ERR_INVALID,
        "the name of a breaker must be 1 to %d characters of A-Z, a-z, 0-9, '.', '_' "
        "and '-'",
        LIMIT_BREAKER_NAME_BYTES);
}

bool breaker_is_named(struct span target)
{
    return memchr(target.at, ':', target.len) == NULL;
}

int breaker_rules_check(const struct breaker_rules *rules, struct err_note *note)
{
    const struct {
        const char *name;
        uint32_t value, max;
    } members[] = {
        {"failure_threshold", rules->failure_threshold, LIMIT_BREAKER_COUNT},
        {"open_cooldown_seconds", rules->open_cooldown_seconds, LIMIT_BREAKER_COOLDOWN_S},
        {"half_open_probe_count", rules->half_open_probe_count, LIMIT_BREAKER_COUNT},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (members[i].value > members[i].max)
            return err_note_set(note, -ERR_INVALID, "%s must be from 1 to %u", members[i].name,
                                (unsigned)members[i].max);
    return 0;
}

struct breaker_rules breaker_rules_of(const struct breaker *b, const struct breaker_rules *defaults)
{
    struct breaker_rules r = b->own;
    if (!r.failure_threshold)
        r.failure_threshold = defaults->failure_threshold;
    if (!r.open_cooldown_seconds)
        r.open_cooldown_seconds = defaults->open_cooldown_seconds;
    if (!r.half_open_probe_count)
        r.half_open_probe_count = defaults->half_open_probe_count;
    return r;
}

/* --- states --- */

static int64_t cooldown_ms(const struct breaker_rules *rules)
{
    return (int64_t)rules->open_cooldown_seconds * 1000;
}

static struct wall_time cooldown_end(const struct breaker_rules *rules, struct wall_time now)
{
    int64_t ms = cooldown_ms(rules);
    return (struct wall_time){now.ms < LIMIT_WALL_MS - ms ? now.ms + ms : LIMIT_WALL_MS};
}

static void enter(struct breaker *b, const struct breaker_rules *rules, enum breaker_state state,
                  struct wall_time now)
{
    struct wall_time held = state == BREAKER_OPEN ? b->until : (struct wall_time){0};
    b->state = (uint8_t)state;
    b->probes = 0;
    b->changed_at = now;
    b->until = state == BREAKER_CLOSED ? (struct wall_time){0} : cooldown_end(rules, now);
    if (held.ms > b->until.ms)
        b->until = held;
}

/* A wall clock that was set back must not make the wait longer. Other nodes may be a little ahead,
 * and a transaction that waited for a lock has the time of its start: this does not count as a
 * clock that was set back. */
static bool time_left(const struct breaker *b, const struct breaker_rules *rules,
                      struct wall_time now)
{
    int64_t back_ms = b->state == BREAKER_OPEN ? b->changed_at.ms - now.ms
                                               : b->until.ms - now.ms - cooldown_ms(rules);
    return now.ms < b->until.ms && back_ms <= BREAKER_SKEW_MS;
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
    b->until = cooldown_end(rules, now); /* this probe, too, has the whole time for its report */
    return true;
}

void breaker_call_ended(struct breaker *b, const struct breaker_rules *rules, bool success,
                        struct wall_time now)
{
    if (success) {
        b->failures = 0;
        b->until = (struct wall_time){0};
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

void breaker_hold(struct breaker *b, struct wall_time until)
{
    if (b->state != BREAKER_HALF_OPEN && until.ms > b->until.ms)
        b->until = until;
}

int64_t breaker_retry_ms(const struct breaker *b, struct wall_time now)
{
    return b->until.ms > now.ms ? b->until.ms - now.ms : 1;
}

void breaker_used(struct breaker *b, struct wall_time now)
{
    if (b->used_at.ms == 0 || now.ms < b->used_at.ms ||
        now.ms - b->used_at.ms >= BREAKER_USED_STEP_MS)
        b->used_at = now;
}

bool breaker_is_unused(const struct breaker *b, struct wall_time now)
{
    bool configured =
        b->own.failure_threshold || b->own.open_cooldown_seconds || b->own.half_open_probe_count;
    return !configured && b->until.ms <= now.ms && now.ms - b->used_at.ms >= BREAKER_UNUSED_MS;
}

static bool rules_equal(const struct breaker_rules *a, const struct breaker_rules *b)
{
    return a->failure_threshold == b->failure_threshold &&
           a->open_cooldown_seconds == b->open_cooldown_seconds &&
           a->half_open_probe_count == b->half_open_probe_count;
}

bool breaker_equal(const struct breaker *a, const struct breaker *b)
{
    return a->state == b->state && a->failures == b->failures && a->probes == b->probes &&
           a->until.ms == b->until.ms && a->changed_at.ms == b->changed_at.ms &&
           a->used_at.ms == b->used_at.ms && rules_equal(&a->own, &b->own);
}
