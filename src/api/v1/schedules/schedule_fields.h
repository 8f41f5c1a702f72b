/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules as JSON: read from a request, written to an answer. The folder v1/schedules has the
 * endpoints of schedules; what it may use is in v1_impl.h. */
#pragma once

#include "api/fields/job_option_fields.h"

/* The job that a schedule creates: the members of an enqueue that apply to it. */
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
    struct span job_text; /* unchanged from the request */
    struct schedule_job_in job;
    uint8_t kind; /* 0 = the request decides */
};

struct fields schedule_fields(void);
/* Set the values of members that are not given: the defaults, or those of the schedule that is
 * changed. */
void schedule_in_new(struct schedule_in *in);
MUST_CHECK int schedule_in_from(struct schedule_in *in, const struct schedule_spec *spec);
/* After reading: fills in and checks the definition, including its time zone. 0, or -ERR_INVALID
 * with the reader's problem set. Texts are borrowed from the request and its arena. */
MUST_CHECK int schedule_in_take(struct schedule_in *in, const struct field_reader *r,
                                struct broker *b, struct schedule_spec *ret);
/* Copies the texts of a definition, which live only as long as the reply. -ERR_NOMEM. */
MUST_CHECK int schedule_spec_keep(struct arena *arena, struct schedule_spec *s);
/* Writes the schedule as an object. */
void schedule_view_write(struct json_writer *w, const struct schedule_view *v,
                         struct wall_time now);
/* Writes the members of the definition into an open object. */
void schedule_spec_write(struct json_writer *w, const struct schedule_spec *s);
