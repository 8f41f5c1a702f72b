/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the moments of an expression.
 *
 * Between two changes of its offset a zone's local time increases steadily: within such a stretch
 * the next matching local time is found by the calendar alone. The search goes from stretch to
 * stretch. It begins two days before the given moment, because the repeated times of a stretch
 * depend on the one before it, and no change was ever larger than a day. */
#include "core/schedules/cron.h"

#include <limits.h>

#define DAY_S INT64_C(86400)
#define LOOK_BACK_S (2 * DAY_S)
#define END_S INT64_C(253402300800) /* the year 10000 */
#define NONE INT64_MAX
/* The calendar repeats after 400 years, and the weekday of a leap day after at most 40. */
#define DAYS_AHEAD (41 * 366)

static int32_t utc_offset(const void *ctx, int64_t at)
{
    (void)ctx, (void)at;
    return 0;
}

static int64_t utc_next_change(const void *ctx, int64_t at)
{
    (void)ctx, (void)at;
    return NONE;
}

const struct cron_zone cron_utc = {NULL, utc_offset, utc_next_change};

/* ---- the calendar ---- */

struct date {
    int64_t year;
    unsigned month, day; /* from 1 */
};

/* Years that begin in March have the leap day at the end; 400 of them have 146,097 days. */
static struct date date_of(int64_t days)
{
    int64_t shifted = days + 719468; /* since 0000-03-01 */
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t of_era = shifted - era * 146097;
    int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned shifted_month = (unsigned)((5 * of_year + 2) / 153);
    struct date d = {
        .year = year_of_era + era * 400 + (shifted_month >= 10),
        .month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9,
        .day = (unsigned)(of_year - (153 * (int64_t)shifted_month + 2) / 5 + 1),
    };
    return d;
}

static unsigned month_length(struct date d)
{
    static const uint8_t lengths[13] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = d.year % 4 == 0 && (d.year % 100 != 0 || d.year % 400 == 0);
    return lengths[d.month] + (d.month == 2 && leap ? 1u : 0u);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static bool day_matches(const struct cron *c, int64_t day, struct date d)
{
    int64_t weekday = (day % 7 + 11) % 7; /* 1970-01-01 was a Thursday */
    bool by_day = (c->days >> d.day & 1) || (c->last_day && d.day == month_length(d));
    bool by_weekday = c->weekdays >> weekday & 1;
    return c->any_day || c->any_weekday ? by_day && by_weekday : by_day || by_weekday;
}

/* The first set bit from `from` on; -1 = none. */
static int bit_from(uint64_t bits, int64_t from)
{
    uint64_t rest = from < 64 ? bits >> from << from : 0;
    return rest ? __builtin_ctzll(rest) : -1;
}

/* The first matching second of a day at or after `from`; -1 = none. */
static int64_t time_from(const struct cron *c, int64_t from)
{
    int64_t hour = from / 3600, minute = from / 60 % 60, second = from % 60;
    int h = bit_from(c->hours, hour);
    if (h == hour) {
        int m = bit_from(c->minutes, minute);
        if (m == minute) {
            int s = bit_from(c->seconds, second);
            if (s >= 0)
                return hour * 3600 + minute * 60 + s;
            m = bit_from(c->minutes, minute + 1);
        }
        if (m >= 0)
            return hour * 3600 + m * 60 + bit_from(c->seconds, 0);
        h = bit_from(c->hours, hour + 1);
    }
    return h < 0 ? -1 : h * 3600 + bit_from(c->minutes, 0) * 60 + bit_from(c->seconds, 0);
}

/* The first matching local time at or after `from` and before `before`; NONE. */
static int64_t local_from(const struct cron *c, int64_t from, int64_t before)
{
    int64_t day = floor_div(from, DAY_S), in_day = from - day * DAY_S;
    for (int64_t last = day + DAYS_AHEAD; day <= last && day * DAY_S < before;) {
        struct date d = date_of(day);
        if (!(c->months >> d.month & 1)) {
            day += month_length(d) - d.day + 1;
            in_day = 0;
            continue;
        }
        int64_t at = day_matches(c, day, d) ? time_from(c, in_day) : -1;
        if (at >= 0)
            return day * DAY_S + at < before ? day * DAY_S + at : NONE;
        day++;
        in_day = 0;
    }
    return NONE;
}

/* ---- stretches between changes ---- */

struct stretch {
    int64_t begin, end; /* moments; end is not included */
    int64_t offset;
    /* local times before this one have occurred before; INT64_MIN = none have */
    int64_t repeats_until;
};

static void stretch_at(const struct cron_zone *zone, int64_t at, struct stretch *s)
{
    *s = (struct stretch){at, zone->next_change(zone->ctx, at), zone->offset(zone->ctx, at),
                          INT64_MIN};
}

/* The stretch after it; s->end is a moment. */
static struct stretch stretch_next(const struct cron_zone *zone, const struct stretch *s)
{
    struct stretch next;
    stretch_at(zone, s->end, &next);
    if (next.offset < s->offset)
        next.repeats_until = s->end + s->offset;
    return next;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The first moment in the stretch at or after `from`; NONE. */
static int64_t in_stretch(const struct cron *c, const struct stretch *s, bool twice, int64_t from)
{
    int64_t local = later(s->begin, from) + s->offset;
    if (!twice)
        local = later(local, s->repeats_until);
    int64_t end = s->end < END_S ? s->end : END_S;
    int64_t found = local_from(c, local, end + s->offset);
    return found == NONE ? NONE : found - s->offset;
}

/* Whether the change after s skips a matching local time. */
static bool gap_skips(const struct cron *c, const struct stretch *s, const struct stretch *next)
{
    return next->offset > s->offset &&
           local_from(c, s->end + s->offset, s->end + next->offset) != NONE;
}

bool cron_next(const struct cron *c, const struct cron_zone *zone, const struct cron_dst *dst,
               int64_t after, int64_t *ret)
{
    struct stretch s;
    stretch_at(zone, after - LOOK_BACK_S, &s);
    int64_t last = after + DAYS_AHEAD * DAY_S;
    while (s.begin < END_S && s.begin <= last) {
        int64_t at = s.end > after + 1 ? in_stretch(c, &s, dst->fold_twice, after + 1) : NONE;
        if (at != NONE) {
            *ret = at;
            return true;
        }
        if (s.end >= END_S)
            return false;
        struct stretch next = stretch_next(zone, &s);
        if (dst->run_after_gap && next.begin > after && gap_skips(c, &s, &next)) {
            *ret = next.begin;
            return true;
        }
        s = next;
    }
    return false;
}

/* ---- notes about a moment ---- */

const char *cron_note_name(enum cron_note n)
{
    static const char *const names[] = {NULL, "near", "moved", "first", "second"};
    return names[n];
}

static bool local_matches(const struct cron *c, int64_t local)
{
    return local_from(c, local, local + 1) != NONE;
}

enum cron_note cron_note(const struct cron *c, const struct cron_zone *zone, int64_t at)
{
    struct stretch s;
    stretch_at(zone, at - LOOK_BACK_S, &s);
    enum cron_note note = CRON_PLAIN;
    while (s.end <= at + DAY_S) {
        struct stretch next = stretch_next(zone, &s);
        if (s.end >= at - DAY_S)
            note = CRON_NEAR;
        if (next.begin == at && gap_skips(c, &s, &next) && !local_matches(c, at + next.offset))
            return CRON_MOVED;
        bool second = at >= s.end && at < next.end && at + next.offset < next.repeats_until;
        bool first = at < s.end && at >= s.begin && next.offset < s.offset &&
                     at + s.offset >= s.end + next.offset;
        if (first || second)
            return first ? CRON_FIRST : CRON_SECOND;
        s = next;
    }
    return note;
}

int64_t cron_interval_next(int64_t anchor, int64_t every, int64_t after)
{
    if (after < anchor)
        return anchor;
    return anchor + ((after - anchor) / every + 1) * every;
}
