/* SPDX-License-Identifier: Apache-2.0 */
/* The checker on what the holders of leases reported (core/jobs/progress.h): C1, C2.
 *
 * A view shows what the store has when it is read, which may be later than the request. So at any
 * time the checker only looks for texts that were never sent; at the last reads also for confirmed
 * ones that are missing. The simulated logs are far shorter than LIMIT_LOG_BYTES. */
#include "core/jobs/progress.h"

#include "sim/checker/know.h"

static bool about(const struct hist_entry *e, enum op_kind kind, uint64_t seq)
{
    return e->kind == HIST_OP && !e->apart && e->op.kind == kind && e->op.lease.job.seq == seq;
}

static bool confirmed(const struct hist_entry *e)
{
    return e->replied && e->reply.outcome == OUT_OK && !e->reply.relaxed;
}

/* ---- the log --------------------------------------------------------------------------------- */

static bool line_sent(const struct checker *c, uint64_t seq, struct span text)
{
    for (size_t i = 0; i < c->h->count; i++) {
        const struct hist_entry *e = &c->h->entries[i];
        for (uint32_t n = 0; about(e, OP_LOG, seq) && n < e->op.lease.line_count; n++)
            if (span_equal(e->op.lease.lines[n], text))
                return true;
    }
    return false;
}

static bool line_shown(struct span log, struct span text)
{
    struct joblog_line line;
    for (struct span rest = joblog_begin(log); joblog_next(&rest, &line);)
        if (span_equal(line.text, text))
            return true;
    return false;
}

static void check_log(struct checker *c, const struct hist_job *j)
{
    struct joblog_line line;
    uint64_t seq = j->job.seq;
    for (struct span rest = joblog_begin(j->log); joblog_next(&rest, &line);)
        if (!line_sent(c, seq, line.text))
            blame(c, CHECK_C2, seq, "job %llu: its log has a line that no one sent: %.*s",
                  (unsigned long long)seq, (int)line.text.len, line.text.at);
    for (size_t i = 0; c->drained && i < c->at; i++) {
        const struct hist_entry *e = &c->h->entries[i];
        if (!about(e, OP_LOG, seq) || !confirmed(e))
            continue;
        for (uint32_t n = 0; n < e->op.lease.line_count; n++)
            if (!line_shown(j->log, e->op.lease.lines[n]))
                blame(c, CHECK_C1, seq, "job %llu: its log has lost the line %.*s",
                      (unsigned long long)seq, (int)e->op.lease.lines[n].len,
                      e->op.lease.lines[n].at);
    }
}

/* ---- progress -------------------------------------------------------------------------------- */

/* The last request that may have left this progress, plus one; 0 = none. */
static size_t progress_from(const struct checker *c, uint64_t seq, const struct progress *p)
{
    for (size_t i = c->h->count; i-- > 0;) {
        const struct op_lease *op = &c->h->entries[i].op.lease;
        if (about(&c->h->entries[i], OP_PROGRESS, seq) &&
            (op->any_token || token_equal(op->token, p->token)) &&
            op->progress->percent_100 == p->percent_100 &&
            span_equal(op->progress->message, p->message))
            return i + 1;
    }
    return 0;
}

/* The last that was confirmed under the newest lease, plus one; 0 = none, or it is not known which
 * lease that is. */
static size_t progress_due(const struct checker *c, const struct know *k)
{
    for (size_t i = c->at; !k->hidden && !k->lease.followed && i-- > 0;) {
        const struct hist_entry *e = &c->h->entries[i];
        if (about(e, OP_PROGRESS, k->seq) && confirmed(e) && !e->op.lease.any_token &&
            token_equal(e->op.lease.token, k->lease.token))
            return i + 1;
    }
    return 0;
}

static void check_progress(struct checker *c, const struct know *k, const struct hist_job *j)
{
    struct progress p = {0};
    size_t from = 0;
    if (j->progress.len > 0) {
        if (progress_decode(j->progress, &p) == 0)
            from = progress_from(c, k->seq, &p);
        if (from == 0)
            blame(c, CHECK_C2, k->seq, "job %llu shows progress that no one reported: %.*s",
                  (unsigned long long)k->seq, (int)p.message.len, p.message.at);
    }
    if (c->drained && from < progress_due(c, k))
        blame(c, CHECK_C1, k->seq, "job %llu has lost the newest progress of its lease",
              (unsigned long long)k->seq);
}

void check_report(struct checker *c, const struct know *k, const struct hist_job *j)
{
    const struct op_job *op = &c->e->op.job;
    if (c->e->op.kind == OP_GET)
        check_steps(c, k, j);
    if (c->e->op.kind != OP_GET || !op->want_attempts)
        return;
    check_progress(c, k, j);
    if (op->want_log)
        check_log(c, j);
}
