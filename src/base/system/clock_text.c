/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 3339 both ways, by arithmetic alone: no time zone, no locale, no library state.
 *
 * Days are counted in years that begin in March, so that the leap day is the last of its year. */
#include <stddef.h>

#include "base/err.h"
#include "base/system/clock.h"

#define DAY_MS INT64_C(86400000)
#define MIN_MS (INT64_C(-719162) * DAY_MS)     /* 0001-01-01T00:00:00.000Z */
#define MAX_MS (INT64_C(2932897) * DAY_MS - 1) /* 9999-12-31T23:59:59.999Z */
#define ERA_DAYS 146097                        /* days of 400 years */
#define EPOCH_FROM_MARCH 719468                /* 0000-03-01 to 1970-01-01 */

struct date {
    int year, month, day;
};

/* Years here are 0 to 9999, so no division meets a negative number. */
static int64_t days_of(struct date d)
{
    int64_t year = d.month <= 2 ? d.year - 1 : d.year;
    int64_t month = d.month <= 2 ? d.month + 9 : d.month - 3;
    int64_t leaps = year >= 0 ? year / 4 - year / 100 + year / 400 : -1;
    return year * 365 + leaps + (153 * month + 2) / 5 + d.day - 1 - EPOCH_FROM_MARCH;
}

static struct date date_of(int64_t days)
{
    days += EPOCH_FROM_MARCH;
    int64_t era = days / ERA_DAYS;
    int64_t in_era = days % ERA_DAYS;
    int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / (ERA_DAYS - 1)) / 365;
    int64_t in_year = in_era - (year * 365 + year / 4 - year / 100);
    int64_t month = (5 * in_year + 2) / 153;
    int64_t day = in_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    year += era * 400 + (month <= 2);
    return (struct date){(int)year, (int)month, (int)day};
}

static int month_days(int year, int month)
{
    static const char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 ? 28 + leap : days[month - 1];
}

static char *put_digits(char *out, int64_t v, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        out[i] = (char)('0' + v % 10);
        v /= 10;
    }
    return out + width;
}

static char *put_part(char *out, int64_t v, int width, char after)
{
    out = put_digits(out, v, width);
    *out = after;
    return out + 1;
}

void wall_text(struct wall_time t, char out[WALL_TEXT_BYTES])
{
    int64_t ms = t.ms < MIN_MS ? MIN_MS : t.ms > MAX_MS ? MAX_MS : t.ms;
    int64_t since_year_one = ms - MIN_MS;
    int64_t of_day = since_year_one % DAY_MS;
    struct date d = date_of(since_year_one / DAY_MS + MIN_MS / DAY_MS);
    out = put_part(out, d.year, 4, '-');
    out = put_part(out, d.month, 2, '-');
    out = put_part(out, d.day, 2, 'T');
    out = put_part(out, of_day / 3600000, 2, ':');
    out = put_part(out, of_day / 60000 % 60, 2, ':');
    out = put_part(out, of_day / 1000 % 60, 2, '.');
    out = put_part(out, of_day % 1000, 3, 'Z');
    *out = '\0';
}

/* A time stamp being read; `bad` once anything did not fit the grammar. */
struct scan {
    const char *at;
    const char *end;
    bool bad;
};

static int scan_digits(struct scan *s, int width)
{
    int v = 0;
    for (; width > 0; width--) {
        if (s->at == s->end || *s->at < '0' || *s->at > '9') {
            s->bad = true;
            return 0;
        }
        v = v * 10 + (*s->at++ - '0');
    }
    return v;
}

/* The next character, which must be one of the set; the character found, or 0. */
static char scan_char(struct scan *s, const char *set)
{
    for (; s->at < s->end && *set; set++) {
        if (*s->at == *set)
            return *s->at++;
    }
    s->bad = true;
    return 0;
}

/* 1 to 9 digits; what is finer than a millisecond is cut off. */
static int scan_fraction_ms(struct scan *s)
{
    int ms = 0, digits = 0;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9') {
        if (digits < 3)
            ms = ms * 10 + (*s->at - '0');
        digits++;
        s->at++;
    }
    for (int i = digits; i < 3; i++)
        ms *= 10;
    s->bad |= digits == 0 || digits > 9;
    return ms;
}

struct stamp {
    struct date date;
    int hour, minute, second, ms;
    int offset_hour, offset_minute;
    bool west; /* the offset is negative */
};

static void scan_stamp(struct scan *s, struct stamp *p)
{
    p->date.year = scan_digits(s, 4);
    scan_char(s, "-");
    p->date.month = scan_digits(s, 2);
    scan_char(s, "-");
    p->date.day = scan_digits(s, 2);
    scan_char(s, "Tt");
    p->hour = scan_digits(s, 2);
    scan_char(s, ":");
    p->minute = scan_digits(s, 2);
    scan_char(s, ":");
    p->second = scan_digits(s, 2);
    if (!s->bad && s->at < s->end && *s->at == '.') {
        s->at++;
        p->ms = scan_fraction_ms(s);
    }
    char zone = scan_char(s, "Zz+-");
    if (zone == '+' || zone == '-') {
        p->west = zone == '-';
        p->offset_hour = scan_digits(s, 2);
        scan_char(s, ":");
        p->offset_minute = scan_digits(s, 2);
    }
    s->bad |= s->at != s->end;
}

static bool stamp_in_range(const struct stamp *p)
{
    return p->date.month >= 1 && p->date.month <= 12 && p->date.day >= 1 &&
           p->date.day <= month_days(p->date.year, p->date.month) && p->hour <= 23 &&
           p->minute <= 59 && p->second <= 60 && p->offset_hour <= 23 && p->offset_minute <= 59;
}

/* A leap second exists only as the last second of a month in UTC; it counts as the next second. */
static bool leap_second_fits(int64_t minutes)
{
    if ((minutes % 1440 + 1440) % 1440 != 1439)
        return false;
    int64_t next_day = (minutes + 1) / 1440;
    return next_day >= MIN_MS / DAY_MS && date_of(next_day).day == 1;
}

int wall_parse(const char *text, uint64_t len, struct wall_time *ret)
{
    struct scan s = {text, text + len, false};
    struct stamp p = {0};
    scan_stamp(&s, &p);
    if (s.bad)
        return -ERR_SYNTAX;
    if (!stamp_in_range(&p))
        return -ERR_RANGE;
    int64_t offset = p.offset_hour * 60 + p.offset_minute;
    int64_t minutes = days_of(p.date) * 1440 + p.hour * 60 + p.minute;
    minutes -= p.west ? -offset : offset;
    if (p.second == 60 && !leap_second_fits(minutes))
        return -ERR_RANGE;
    int64_t ms = minutes * 60000 + p.second * 1000 + p.ms;
    if (ms < MIN_MS || ms > MAX_MS)
        return -ERR_RANGE;
    *ret = (struct wall_time){ms};
    return 0;
}
