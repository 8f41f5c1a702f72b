/* SPDX-License-Identifier: Apache-2.0 */
/* The firing times of a definition, and what to do about missed ones. */
#include "broker/broker_impl.h"
#include "core/limits.h"

/* A firing that is later than this is a misfire: the server was down, or its clock jumped. */
#define LATE_MS 10000
#define MISSED_MAX 10000 /* counted at most; the number is only shown */

int times_init(struct times *t, struct zones *zones, const struct schedule_spec *spec,
               struct err_note *note)
{
    const struct zone *zone;
    *t = (struct times){.spec = spec, .dst = {spec->run_after_gap, spec->fold_twice}};
    if (spec->kind != SCHEDULE_CRON)
        return 0;
    int err = cron_parse(spec->cron, &t->cron, note);
    if (!err)
        err = zones_open(zones, spec->zone, &zone, note);
    if (!err)
        t->zone = (struct cron_zone){zone, zone_offset, zone_next_change};
    return err;
}

static int64_t seconds_of(int64_t ms)
{
    return ms >= 0 ? ms / 1000 : (ms - 999) / 1000;
}

struct wall_time times_next(const struct times *t, struct wall_time after)
{
    int64_t at = 0;
    if (t->spec->kind == SCHEDULE_CRON) {
        if (!cron_next(&t->cron, &t->zone, &t->dst, seconds_of(after.ms), &at))
            return (struct wall_time){LIMIT_WALL_MS};
        at *= 1000;
    } else {
        at = cron_interval_next(t->spec->start_at.ms, (int64_t)t->spec->every_ms, after.ms);
    }
    return (struct wall_time){at < LIMIT_WALL_MS ? at : LIMIT_WALL_MS};
}

/* LIMIT_WALL_MS means never, even if the clock shows that time. */
static bool has_passed(struct wall_time at, struct wall_time now)
{
    return at.ms <= now.ms && at.ms < LIMIT_WALL_MS;
}

/* The newest time that is not after `now`, given that `due` is one. The search goes back in growing
 * steps, so that few times are computed however long the interval is. */
static struct wall_time newest(const struct times *t, struct wall_time due, struct wall_time now)
{
    struct wall_time at = due;
    for (int64_t back = 60000; at.ms == due.ms && now.ms - back > due.ms; back *= 16) {
        struct wall_time next = times_next(t, (struct wall_time){now.ms - back});
        for (; has_passed(next, now); next = times_next(t, next))
            at = next;
    }
    for (struct wall_time next = times_next(t, at); has_passed(next, now);
         next = times_next(t, next))
        at = next;
    return at;
}

/* Number of times from `from` (which is one) to before `to`. */
static uint32_t count_between(const struct times *t, struct wall_time from, struct wall_time to)
{
    uint32_t n = 0;
    for (; from.ms < to.ms && n < MISSED_MAX; from = times_next(t, from))
        n++;
    return n;
}

struct plan times_plan(const struct times *t, struct wall_time due, struct wall_time now)
{
    struct plan plan = {.at = due};
    if (now.ms - due.ms > LATE_MS) {
        int64_t window = (int64_t)t->spec->misfire_window_ms;
        struct wall_time oldest = {now.ms - window};
        plan.at = newest(t, due, now);
        if (t->spec->misfire == MISFIRE_ALL && plan.at.ms >= oldest.ms) {
            /* One after the other, starting with the oldest in the window. */
            plan.at = due.ms >= oldest.ms ? due : times_next(t, (struct wall_time){oldest.ms - 1});
        } else if (t->spec->misfire != MISFIRE_ONCE) {
            plan.skip = true;
        }
        plan.missed = count_between(t, due, plan.at);
    }
    plan.next_at = times_next(t, plan.at);
    return plan;
}

/* ---- for APIs ---- */

int broker_schedule_fill(struct broker *b, struct schedule_spec *spec, bool has_gap, bool has_fold,
                         struct err_note *note)
{
    struct times times;
    if (spec->kind != SCHEDULE_CRON && spec->start_at.ms == 0)
        spec->start_at = broker_now(b).wall;
    int err = schedule_check(spec, note);
    if (!err)
        err = times_init(&times, b->schedules.zones, spec, note);
    if (err || spec->kind != SCHEDULE_CRON)
        return err;
    struct cron_dst dst = cron_dst_default(&times.cron);
    if (!has_gap)
        spec->run_after_gap = dst.run_after_gap;
    if (!has_fold)
        spec->fold_twice = dst.fold_twice;
    return 0;
}

int broker_schedule_preview(struct broker *b, const struct schedule_spec *spec,
                            struct wall_time after, struct broker_firing *out, size_t count,
                            size_t *ret_count, struct err_note *note)
{
    struct times t;
    int err = times_init(&t, b->schedules.zones, spec, note);
    size_t n = 0;
    for (; !err && n < count; n++) {
        struct wall_time at = times_next(&t, after);
        if (at.ms >= LIMIT_WALL_MS)
            break;
        out[n] = (struct broker_firing){.at = at};
        if (spec->kind == SCHEDULE_CRON) {
            out[n].offset_s = t.zone.offset(t.zone.ctx, at.ms / 1000);
            out[n].note = cron_note_name(cron_note(&t.cron, &t.zone, at.ms / 1000));
        }
        after = at;
    }
    *ret_count = n;
    return err;
}
