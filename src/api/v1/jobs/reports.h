/* SPDX-License-Identifier: Apache-2.0 */
/* Progress and log in the members of a job. */
#pragma once

#include "api/call.h"
#include "core/jobs/progress.h"

/* The members "percent" and "data" of a progress report. -ERR_INVALID with the problem. */
MUST_CHECK int progress_values_read(struct arena *arena, struct span percent, struct span data,
                                    struct progress *p, struct problem *problem);
/* The lines of a log as an array under this name. */
void joblog_write(struct json_writer *w, const char *name, struct span log);
/* The members "progress" and "log" of an imported job, as these functions write them; both may be
 * empty. Texts live in the arena of the request. -ERR_INVALID with the problem. */
MUST_CHECK int reports_read(struct broker *b, struct http_exchange *x, struct span progress,
                            const struct texts_in *log, struct job_past *past, struct problem *p);
