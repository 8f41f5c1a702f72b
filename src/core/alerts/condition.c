/* SPDX-License-Identifier: Apache-2.0 */
#include "core/alerts/condition.h"

#include <string.h>

void condition_begin(struct condition *c, const struct sighting *s, enum condition_past past)
{
    *c = (struct condition){.begun = s->at, .claimed = s->claimed, .claimed_at = s->at};
    c->claim_seen = past != PAST_UNKNOWN && s->claimed > 0;
    if (past == PAST_ALL && s->claimed == 0) { /* never */
        c->claimed_at.ms -= s->age_ms > 0 ? s->age_ms : 0;
        c->claim_seen = true;
    }
    c->samples[0].at = s->at;
    c->samples[0].ends = past == PAST_UNKNOWN ? s->ends : 0;
    c->samples[0].errors = past == PAST_UNKNOWN ? s->errors : 0;
    c->sample_count = 1;
    c->last = c->samples[0];
}

/* Holds at or above the limit; ends below nine tenths of it. */
static enum verdict against(uint64_t value, uint64_t mark)
{
    if (value >= mark)
        return VERDICT_HOLDS;
    return value < mark - mark / 10 ? VERDICT_HOLDS_NOT : VERDICT_NONE;
}

static enum verdict deep(struct condition *c, const struct alert_rule *rule,
                         const struct sighting *s, uint64_t *value, uint64_t *mark)
{
    (void)c;
    *value = s->ready + s->scheduled;
    *mark = rule->depth ? rule->depth : s->warn_depth ? s->warn_depth : ALERT_DEPTH_DEFAULT;
    return against(*value, *mark);
}

static enum verdict capacity(struct condition *c, const struct alert_rule *rule,
                             const struct sighting *s, uint64_t *value, uint64_t *mark)
{
    (void)c;
    uint64_t live = s->ready + s->scheduled + s->running;
    *mark = rule->percent;
    if (s->capacity == 0)
        return VERDICT_HOLDS_NOT;
    /* In thousandths of the capacity, so that the band of a tenth exists for small limits, too. */
    uint64_t share = (uint64_t)((unsigned __int128)live * 1000 / s->capacity);
    *value = share / 10;
    return against(share, (uint64_t)rule->percent * 10);
}

static enum verdict no_claim(struct condition *c, const struct alert_rule *rule,
                             const struct sighting *s, uint64_t *value, uint64_t *mark)
{
    int64_t quiet = s->at.ms - c->claimed_at.ms;
    *mark = rule->after_ms;
    *value = 0;
    if (s->ready == 0 || s->paused || s->oldest_ready_ms < 0)
        return VERDICT_HOLDS_NOT;
    /* Ready jobs may be older than this watch; claims before it are not known. */
    if (s->oldest_ready_ms < quiet)
        quiet = s->oldest_ready_ms;
    *value = quiet > 0 ? (uint64_t)quiet : 0;
    if (quiet >= (int64_t)rule->after_ms)
        return VERDICT_HOLDS;
    bool known = c->claim_seen || s->at.ms - c->begun.ms >= (int64_t)rule->after_ms;
    return known ? VERDICT_HOLDS_NOT : VERDICT_NONE;
}

/* Stores samples a thirtieth of the window apart, and one from before it. */
static void sample(struct condition *c, const struct alert_rule *rule, struct condition_sample now)
{
    int64_t apart = rule->window_ms / (CONDITION_SAMPLES - 2);
    if (now.at.ms - c->samples[c->sample_count - 1].at.ms < apart)
        return;
    unsigned old = 0;
    while (old + 1 < c->sample_count &&
           now.at.ms - c->samples[old + 1].at.ms >= (int64_t)rule->window_ms)
        old++;
    if (old == 0 && c->sample_count == CONDITION_SAMPLES)
        old = 1;
    c->sample_count -= old;
    memmove(c->samples, c->samples + old, c->sample_count * sizeof c->samples[0]);
    c->samples[c->sample_count++] = now;
}

static enum verdict error_share(struct condition *c, const struct alert_rule *rule,
                                const struct sighting *s, uint64_t *value, uint64_t *mark)
{
    struct condition_sample now = {s->at, s->ends, s->errors};
    /* After a gap the last measurement before it shows where the window begins. */
    if (c->last.at.ms > c->samples[c->sample_count - 1].at.ms &&
        now.at.ms - c->last.at.ms >= rule->window_ms / (CONDITION_SAMPLES - 2)) {
        if (c->sample_count == CONDITION_SAMPLES)
            memmove(c->samples, c->samples + 1, --c->sample_count * sizeof c->samples[0]);
        c->samples[c->sample_count++] = c->last;
    }
    c->last = now;
    unsigned from = 0;
    while (from + 1 < c->sample_count &&
           s->at.ms - c->samples[from + 1].at.ms >= (int64_t)rule->window_ms)
        from++;
    uint64_t ends = s->ends - c->samples[from].ends;
    uint64_t errors = s->errors - c->samples[from].errors;
    bool covered = s->at.ms - c->begun.ms >= (int64_t)rule->window_ms;
    sample(c, rule, now);
    *mark = rule->percent;
    *value = ends ? (uint64_t)((unsigned __int128)errors * 100 / ends) : 0;
    if (ends < rule->min_ends)
        return covered ? VERDICT_HOLDS_NOT : VERDICT_NONE;
    unsigned __int128 share = (unsigned __int128)errors * 1000;
    unsigned __int128 limit = (unsigned __int128)ends * rule->percent;
    if (share > limit * 10)
        return VERDICT_HOLDS;
    return share < limit * 9 ? VERDICT_HOLDS_NOT : VERDICT_NONE;
}

typedef enum verdict (*look_fn)(struct condition *c, const struct alert_rule *rule,
                                const struct sighting *s, uint64_t *value, uint64_t *mark);

static const look_fn looks[ALERT_ON_COUNT] = {
    [ALERT_DEEP] = deep,
    [ALERT_ERROR_SHARE] = error_share,
    [ALERT_NO_CLAIM] = no_claim,
    [ALERT_CAPACITY] = capacity,
};

enum verdict condition_look(struct condition *c, const struct alert_rule *rule,
                            const struct sighting *s, uint64_t *value, uint64_t *mark)
{
    *value = *mark = 0;
    /* Counters that decreased belong to another queue of the same name. */
    if (s->claimed < c->claimed || s->ends < c->samples[c->sample_count - 1].ends)
        condition_begin(c, s, PAST_ALL);
    if (s->claimed > c->claimed) {
        c->claimed = s->claimed;
        c->claimed_at = s->at;
        c->claim_seen = true;
    }
    look_fn look = rule->on < ALERT_ON_COUNT ? looks[rule->on] : NULL;
    return look ? look(c, rule, s, value, mark) : VERDICT_NONE;
}
