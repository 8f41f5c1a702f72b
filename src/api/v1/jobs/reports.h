/* SPDX-License-Identifier: Apache-2.0 */
/* Progress, log and steps in the members of a job. */
#pragma once

#include "api/call.h"
#include "core/jobs/progress.h"
#include "core/jobs/steps.h"

/* The members "percent" and "data" of a progress report. -ERR_INVALID with the problem. */
MUST_CHECK int progress_values_read(struct arena *arena, struct span percent, struct span data,
                                    struct progress *p, struct problem *problem);
/* The lines of a log as an array under this name. */
void joblog_write(struct json_writer *w, const char *name, struct span log);
/* The steps as an object under the name "steps", if there are any (steps.c). */
void steps_write(struct json_writer *w, struct span list);
/* The member "steps" of an imported job, an object or empty: its list lives in the arena.
 * -ERR_INVALID with the problem. */
MUST_CHECK int steps_read(struct arena *arena, struct span text, struct span *ret,
                          struct problem *p);
/* A call for the job of the path, whose body is read with the table, and which is answered with the
 * state of the job. NULL: a problem was answered. */
struct call *report_call(void *ctx, struct http_exchange *x, enum op_kind kind, struct fields table,
                         void *into);
/* The members "progress" and "log" of an imported job, as these functions write them; both may be
 * empty. Texts live in the arena of the request. -ERR_INVALID with the problem. */
MUST_CHECK int reports_read(struct broker *b, struct http_exchange *x, struct span progress,
                            const struct texts_in *log, struct job_past *past, struct problem *p);
