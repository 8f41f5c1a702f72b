/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what the holder of a lease reports: progress, lines of the log,
 * and results of steps. */
#include "core/jobs/progress.h"
#include "core/jobs/steps.h"
#include "core/records/record_impl.h"

#define JOB_REPORT(F) F(seq, seq) F(span, text)
RECORD_BODY(report, job_report, JOB_REPORT)

static bool progress_fits(const struct record *r)
{
    struct progress p;
    return seq_fits(r->job_report.seq) && progress_decode(r->job_report.text, &p) == 0;
}

static bool log_fits(const struct record *r)
{
    return seq_fits(r->job_report.seq) && r->job_report.text.len > 0 &&
           r->job_report.text.len <= LIMIT_LOG_BYTES;
}

static bool steps_record_fits(const struct record *r)
{
    return seq_fits(r->job_report.seq) && steps_fit(r->job_report.text);
}

RECORD_TYPE(job_steps, report, steps_record_fits, NULL);
RECORD_TYPE(job_progress, report, progress_fits, NULL);
RECORD_TYPE(job_logged, report, log_fits, NULL);
