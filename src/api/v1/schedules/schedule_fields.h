/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule in the words of the API: read from a request, written to an answer. */
#pragma once

#include "api/job_option_fields.h"

/* The job that a schedule makes: the members of an enqueue that make sense for it. */
struct schedule_job_in {
    struct job_texts; /* its members are members of this struct */
    struct span payload;
    struct priority_in priority;
    int64_t delay_ms, expires_in_ms;
    uint8_t unique_mode;
    struct job_options_in options;
    bool has_priority, has_backoff;
};

struct schedule_in {
    struct span queue, cron, timezone, source_queue, note, owner;
    int64_t every_ms, interval_ms, batch_size, misfire_window_ms;
    struct wall_time start_at;
    uint8_t dst_gap, dst_fold, misfire, overlap;
    bool eager, paused;
    struct span job_text; /* as it stands in the request */
    struct schedule_job_in job;
    uint8_t kind; /* before reading: 0 = to be said */
};

struct fields schedule_fields(void);
/* What holds for members that are not given: of a new one, or of one that is changed. */
void schedule_in_new(struct schedule_in *in);
MUST_CHECK int schedule_in_from(struct schedule_in *in, const struct schedule_spec *spec);
/* After reading: the definition, checked, its zone included. 0, or -ERR_INVALID with the reader's
 * problem set. Texts are borrowed from the request and its arena. */
MUST_CHECK int schedule_in_take(struct schedule_in *in, const struct field_reader *r,
                                struct broker *b, struct schedule_spec *ret);
/* Copies the texts of a definition, which live only as long as the reply. -ERR_NOMEM. */
MUST_CHECK int schedule_spec_keep(struct arena *arena, struct schedule_spec *s);
/* Its members, one object. */
void schedule_view_write(struct json_writer *w, const struct schedule_view *v,
                         struct wall_time now);
/* The members of the definition alone, into an object that is open. */
void schedule_spec_write(struct json_writer *w, const struct schedule_spec *s);
