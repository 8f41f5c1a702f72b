/* SPDX-License-Identifier: Apache-2.0 */
#include "core/jobs/dependency.h"

#include "core/jobs/state.h"

static uint64_t failed(const struct dependent *d)
{
    return (uint64_t)d->counts[DEPENDENCY_END_DEAD] + d->counts[DEPENDENCY_END_CANCELLED] +
           d->counts[DEPENDENCY_END_REMOVED];
}

uint32_t dependent_waits(const struct dependent *d)
{
    uint64_t ended = failed(d) + d->counts[DEPENDENCY_END_DONE];
    return ended < d->counts[DEPENDENCY_END_NONE] ? d->counts[DEPENDENCY_END_NONE] - (uint32_t)ended
                                                  : 0;
}

enum dependency_verdict dependency_verdict(const struct dependent *d, uint32_t waits)
{
    if (failed(d) > 0 && d->rule != DEPENDENCY_RUN)
        return d->rule == DEPENDENCY_DEAD ? VERDICT_DEAD : VERDICT_CANCEL;
    return waits == 0 && !d->open ? VERDICT_UNBLOCK : VERDICT_WAIT;
}

enum dependency_end dependency_end_of(uint8_t state)
{
    switch (state) {
    case STATE_NONE:
        return DEPENDENCY_END_REMOVED;
    case STATE_DONE:
        return DEPENDENCY_END_DONE;
    case STATE_DEAD:
        return DEPENDENCY_END_DEAD;
    case STATE_CANCELLED:
        return DEPENDENCY_END_CANCELLED;
    default:
        return DEPENDENCY_END_NONE;
    }
}

/* Parents of a job that stopped waiting for them are not counted as ended. */
bool dependent_fits(const struct dependent *d, uint32_t waits)
{
    uint64_t ended = failed(d) + d->counts[DEPENDENCY_END_DONE];
    return d->rule < DEPENDENCY_RULE_COUNT && ended + waits <= d->counts[DEPENDENCY_END_NONE];
}

const char *dependency_rule_name(enum dependency_rule r)
{
    static const char *const names[DEPENDENCY_RULE_COUNT] = {"cancel", "run", "dead"};
    return (unsigned)r < DEPENDENCY_RULE_COUNT ? names[r] : NULL;
}

const char *dependency_end_name(enum dependency_end e)
{
    static const char *const names[DEPENDENCY_END_COUNT] = {"total", "done", "dead", "cancelled",
                                                            "removed"};
    return (unsigned)e < DEPENDENCY_END_COUNT ? names[e] : NULL;
}
