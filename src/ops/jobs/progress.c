/* SPDX-License-Identifier: Apache-2.0 */
/* What the holder of a lease reports while it works: progress and lines of the log. Both need the
 * current lease; neither changes the job. */
#include "core/jobs/progress.h"

#include "core/limits.h"
#include "core/validate.h"
#include "ops/jobs/held.h"
#include "ops/replies.h"

static bool progress_valid(struct ops *o, const struct op_lease *want, struct reply *r)
{
    struct err_note note;
    const struct progress *p = want->progress;
    if (!p || !(p->has_percent || p->message.len || p->data.len))
        return reply_refuse(r, OUT_INVALID,
                            "nothing to report: give percent, message or data (any of them)");
    if (p->percent_100 > 100 * 100)
        return reply_refuse(r, OUT_INVALID, "percent must be a number from 0 to 100");
    if (validate_text("message", p->message, LIMIT_PROGRESS_MESSAGE_BYTES, &note) != 0 ||
        validate_text("data", p->data, LIMIT_PROGRESS_DATA_BYTES, &note) != 0)
        return reply_invalid(o, r, &note);
    return true;
}

static struct span progress_text(struct ops *o, const struct held *h, const struct progress *want)
{
    struct progress p = *want;
    p.token = h->lease.token;
    p.at = o->now;
    uint8_t *text = arena_alloc(o->memory, progress_bytes_max(&p));
    return span_of(text, text ? progress_encode(&p, text) : 0);
}

void held_commit(struct ops *o, const struct held *h, const struct record *recs, size_t count,
                 struct reply *r)
{
    if (!held_name_holder(o, h, r))
        return;
    if (!o->store->prepare(o, h->j, recs, count)) {
        reply_nomem(o, r);
        return;
    }
    for (size_t i = 0; i < count; i++)
        o->store->commit(o, h->j, &recs[i]);
    held_finish(h, r);
}

void ops_progress(struct ops *o, const struct op *op, struct reply *r)
{
    struct held h;
    struct record recs[2];
    bool extends = false;
    if (!held_job(o, op, &h, r) || !progress_valid(o, &op->lease, r))
        return;
    r->lease.cancel_by = cancel_deadline(&h.lease.limits);
    recs[0] = (struct record){
        .kind = REC_JOB_PROGRESS,
        .job_report = {.seq = h.j->seq, .text = progress_text(o, &h, op->lease.progress)}};
    if (!recs[0].job_report.text.len) {
        reply_nomem(o, r);
        return;
    }
    if (op->lease.lease_ms && !held_extension(&h, op->lease.lease_ms, &recs[1], &extends, r))
        return;
    if (extends)
        held_left(&h, &recs[1], r);
    held_commit(o, &h, recs, extends ? 2 : 1, r);
}

static bool lines_valid(struct ops *o, const struct op_lease *want, struct reply *r)
{
    struct err_note note;
    if (want->line_count == 0 || want->line_count > LIMIT_LOG_LINES)
        return reply_refuse(r, OUT_INVALID, "lines must have 1 to 1000 texts");
    for (uint32_t i = 0; i < want->line_count; i++)
        if (validate_text("lines", want->lines[i], LIMIT_LOG_LINE_BYTES, &note) != 0)
            return reply_invalid(o, r, &note);
    return true;
}

void ops_log(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_lease *want = &op->lease;
    struct held h;
    if (!held_job(o, op, &h, r) || !lines_valid(o, want, r))
        return;
    struct joblog_line line = {.at = o->now, .attempt = job_attempts(h.j)};
    int err = 0;
    buf_clear(&o->scratch);
    for (uint32_t i = 0; i < want->line_count && !err; i++) {
        line.text = want->lines[i];
        err = joblog_append(&o->scratch, &line);
    }
    struct span kept =
        err ? (struct span){NULL, 0} : text_keep(o, joblog_tail(buf_span(&o->scratch)));
    if (!kept.at) {
        reply_nomem(o, r);
        return;
    }
    struct record rec = {.kind = REC_JOB_LOGGED, .job_report = {.seq = h.j->seq, .text = kept}};
    held_commit(o, &h, &rec, 1, r);
}
