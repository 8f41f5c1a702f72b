/* SPDX-License-Identifier: Apache-2.0 */
/* Cron: the times of an expression, in a time zone.
 *
 * Five fields (minute, hour, day of month, month, day of week) or six (seconds first). Each is a
 * list of values, ranges (a-b) and steps (a-b/n, or n after a slash behind *, a/n: from a to the
 * end); months and days of the week have names (JAN, MON), Sunday is 0 or 7. In the day fields ? is
 * *, and in the day of month L is the last one. @yearly (@annually), @monthly, @weekly, @daily
 * (@midnight) and @hourly are whole expressions.
 *
 * Both day fields. As in every cron since the first: if both are restricted, a day that matches
 * either of them matches; if one of them begins with * or ?, a day must match both.
 *
 * Changes of a zone's offset. A local time that is skipped (gap: the clock is put forward) does not
 * occur; under "run_after" the times in the gap become one firing, at the first moment after it. A
 * local time that occurs twice (fold: the clock is put back) counts the first time; under "twice"
 * both times. The code is pure: a zone is two functions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define CRON_BYTES_MAX 256

struct cron {
    uint64_t seconds, minutes; /* bit n: second or minute n */
    uint32_t hours, days;      /* days: bits 1 … 31 */
    uint16_t months;           /* bits 1 … 12 */
    uint8_t weekdays;          /* bits 0 (Sunday) … 6 */
    bool last_day;             /* also the last day of each month */
    bool any_day, any_weekday; /* this field begins with * or ? */
    bool every_hour;           /* the hour is *: it follows elapsed time rather than local time */
};

/* 0, or -ERR_INVALID with a note that names the field, its text and what is allowed. An expression
 * that matches no date (30 February) is refused. */
MUST_CHECK int cron_parse(struct span text, struct cron *ret, struct err_note *note);

/* A zone, seconds since 1970. */
struct cron_zone {
    const void *ctx;
    int32_t (*offset)(const void *ctx, int64_t at); /* seconds east of UTC at this moment */
    /* The first moment after `at` from which another offset holds; INT64_MAX = none. */
    int64_t (*next_change)(const void *ctx, int64_t at);
};

/* UTC: no changes. */
extern const struct cron_zone cron_utc;

struct cron_dst {
    bool run_after_gap; /* otherwise times in a gap are skipped */
    bool fold_twice;    /* otherwise a repeated local time counts once */
};
/* The default for the expression: with * as hour it follows elapsed time (skip, twice), otherwise
 * local time (run_after, once). */
struct cron_dst cron_dst_default(const struct cron *c);

/* How a moment relates to changes of the offset. */
enum cron_note {
    CRON_PLAIN,
    CRON_NEAR,   /* a change within a day before or after it */
    CRON_MOVED,  /* its local time is skipped; it is fired right after the gap */
    CRON_FIRST,  /* its local time occurs twice: the first … */
    CRON_SECOND, /* … and the second */
};
const char *cron_note_name(enum cron_note n); /* "near" …; NULL for PLAIN */

/* The first moment after `after` that the expression matches. false: no moment before the year
 * 10000 does. */
bool cron_next(const struct cron *c, const struct cron_zone *zone, const struct cron_dst *dst,
               int64_t after, int64_t *ret);
/* How a moment that cron_next returned relates to changes. */
enum cron_note cron_note(const struct cron *c, const struct cron_zone *zone, int64_t at);

/* Every `every` from `anchor` on: the first moment after `after`, in the same unit. */
int64_t cron_interval_next(int64_t anchor, int64_t every, int64_t after);
