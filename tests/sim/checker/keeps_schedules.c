/* SPDX-License-Identifier: Apache-2.0 */
/* C12: the times of schedules and the jobs they made. */
#include <stdio.h>
#include <string.h>

#include "sim/checker/keeps.h"
#include "sim/clients/keeper.h"

/* What the attributes of a job of this schedule and time begin with. */
static struct span origin(struct keeps *k, struct span name, int64_t at)
{
    char time[WALL_TEXT_BYTES];
    wall_text((struct wall_time){at}, time);
    return pool_text(&k->pool, "{\"source\":\"TRIGGER\",\"schedule\":\"%.*s\",\"fire_time\":\"%s\"",
                     (int)name.len, name.at, time);
}

static bool begins(struct span text, struct span with)
{
    return text.len >= with.len && memcmp(text.at, with.at, with.len) == 0;
}

static unsigned jobs_of(const struct keeps *k, struct span from, const struct hist_job **ret)
{
    unsigned count = 0;
    for (size_t i = 0; i < k->end_count; i++)
        if (begins(k->end[i]->attributes, from)) {
            *ret = k->end[i];
            count++;
        }
    return count;
}

/* An eager trigger is due whenever there are items, so its times say nothing. */
static bool eager(struct span name)
{
    return name.len == 2 && name.at[0] == 't' && name.at[1] == '0' + KEEPER_TRIGGERS - 1;
}

static void check_time(struct keeps *k, size_t at)
{
    const struct hist_entry *e = &k->h->entries[at];
    const struct op_schedule *op = &e->op.schedule;
    const struct hist_job *found = NULL;
    unsigned jobs = jobs_of(k, origin(k, op->name, op->at.ms), &found);
    bool ok = e->replied && e->reply.outcome == OUT_OK;
    if (jobs > 1 && !eager(op->name))
        keeps_blame(k, CHECK_C12, found->job.seq, at, "%u jobs for one time of %.*s", jobs,
                    (int)op->name.len, op->name.at);
    if (ok && e->reply.fired && jobs == 0)
        keeps_blame(k, CHECK_C12, e->reply.seq, at, "the job of an answered firing is not there");
}

static void check_named(struct keeps *k, size_t at)
{
    const struct hist_entry *e = &k->h->entries[at];
    if (e->reply.fired && !keeps_job(k, e->reply.seq))
        keeps_blame(k, CHECK_C12, e->reply.seq, at, "job %llu was fired, and is not there",
                    (unsigned long long)e->reply.seq);
}

/* As the schedule is in the end: it has moved on from all that was fired, and counted it. */
static void check_state(struct keeps *k, const struct hist_schedule *s)
{
    const struct hist_job *found;
    struct span from = pool_text(&k->pool, "{\"source\":\"TRIGGER\",\"schedule\":\"%.*s\",",
                                 (int)s->name.len, s->name.at);
    unsigned jobs = jobs_of(k, from, &found);
    if (jobs != s->state.fired)
        keeps_blame(k, CHECK_C12, 0, k->h->count - 1, "%.*s has fired %llu jobs, %u are there",
                    (int)s->name.len, s->name.at, (unsigned long long)s->state.fired, jobs);
    if (s->state.seq && !keeps_job(k, s->state.seq))
        keeps_blame(k, CHECK_C12, s->state.seq, k->h->count - 1, "the last job of %.*s is missing",
                    (int)s->name.len, s->name.at);
    for (size_t i = 0; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        const struct op_schedule *op = &e->op.schedule;
        bool fired = keeps_ok(e, OP_FIRE) || (keeps_ok(e, OP_TRIGGER) && e->reply.fired);
        if (fired && !op->now && span_equal(op->name, s->name) && s->state.last_at.ms < op->at.ms &&
            !eager(op->name))
            keeps_blame(k, CHECK_C12, 0, i, "%.*s has forgotten a firing", (int)s->name.len,
                        s->name.at);
    }
}

void keeps_schedules(struct keeps *k)
{
    for (size_t i = 0; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        if (e->kind != HIST_OP || !e->apart || (e->op.kind != OP_FIRE && e->op.kind != OP_TRIGGER))
            continue;
        if (!e->op.schedule.now)
            check_time(k, i);
        if (e->replied && e->reply.outcome == OUT_OK)
            check_named(k, i);
    }
    for (size_t i = k->drained; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        for (uint32_t n = 0; keeps_ok(e, OP_SCHEDULE_LIST) && n < e->schedule_count; n++)
            check_state(k, &e->schedules[n]);
    }
}
