/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what the holder of a lease reports: progress, and lines of the log. */
#include "core/jobs/progress.h"
#include "core/records/record_impl.h"

static size_t report_span_bytes(const struct record *r)
{
    return r->job_report.text.len;
}

static uint8_t *report_encode(const struct record *r, uint8_t *at)
{
    return put_span(put_varint(at, r->job_report.seq), r->job_report.text);
}

static void report_decode(struct wire_in *in, struct record *ret)
{
    ret->job_report = (struct rec_job_report){.seq = take_varint(in)};
    ret->job_report.text = take_span(in);
}

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

const struct record_type record_job_progress = {
    .name = "job_progress",
    .body_max = WIRE_SEQ + WIRE_LENGTH,
    .span_bytes = report_span_bytes,
    .encode = report_encode,
    .decode = report_decode,
    .fits = progress_fits,
};

const struct record_type record_job_logged = {
    .name = "job_logged",
    .body_max = WIRE_SEQ + WIRE_LENGTH,
    .span_bytes = report_span_bytes,
    .encode = report_encode,
    .decode = report_decode,
    .fits = log_fits,
};
