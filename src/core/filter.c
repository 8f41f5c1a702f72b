/* SPDX-License-Identifier: Apache-2.0 */
/* Filters: the cheap fields first, texts last. */
#include "core/filter.h"

#include "core/jobs/job_texts.h"

static bool extra_matches(const struct job_filter *f, const struct job_extra *extra)
{
    static const struct job_extra none;
    const struct job_extra *x = extra ? extra : &none;
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        struct span wanted = job_text_of(f, i);
        if (wanted.len > 0 && !span_equal(wanted, job_text_of(x, i)))
            return false;
    }
    return true;
}

static bool time_matches(const struct job_filter *f, struct wall_time created)
{
    return (f->created_from.ms == 0 || created.ms >= f->created_from.ms) &&
           (f->created_to.ms == 0 || created.ms < f->created_to.ms);
}

bool filter_match(const struct job_filter *f, const struct job *j, const struct job_extra *extra)
{
    if ((f->queue != 0 && f->queue != j->queue) ||
        (f->states != 0 && !(f->states & STATE_BIT(j->state))) ||
        (f->reasons != 0 && !(f->reasons & 1u << j->reason)))
        return false;
    if (j->seq < f->seq_min || (f->seq_max != 0 && j->seq > f->seq_max))
        return false;
    if (f->has_priority && (j->priority < f->priority_min || j->priority > f->priority_max))
        return false;
    return time_matches(f, id_time(j->id_hi)) && extra_matches(f, extra);
}
