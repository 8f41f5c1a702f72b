/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/failover/impl.h"

static uint64_t base_of(const struct failover *f)
{
    return ID_SPOOL_BIT | (uint64_t)f->config.node << ID_SPOOL_NODE_SHIFT;
}

bool fo_own(const struct failover *f, uint64_t seq)
{
    return (seq & ~ID_SPOOL_COUNT_MAX) == base_of(f) && (seq & ID_SPOOL_COUNT_MAX) > f->first;
}

uint64_t fo_seq_out(const struct failover *f, uint64_t seq)
{
    return seq ? base_of(f) | ((seq + f->first) & ID_SPOOL_COUNT_MAX) : 0;
}

uint64_t fo_seq_in(const struct failover *f, uint64_t seq)
{
    return (seq & ID_SPOOL_COUNT_MAX) - f->first;
}

static const struct attempt_view *attempts_out(const struct failover *f,
                                               const struct attempt_view *from, uint32_t count,
                                               struct arena *a)
{
    struct attempt_view *to = arena_copy(a, from, count * sizeof *from);
    for (uint32_t i = 0; to && i < count; i++)
        to[i].seq = fo_seq_out(f, to[i].seq);
    return to;
}

static int jobs_out(const struct failover *f, struct reply *r, struct arena *a)
{
    struct job_view *to = arena_copy(a, r->jobs, r->job_count * sizeof *to);
    if (!to)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < r->job_count; i++) {
        to[i].job.seq = fo_seq_out(f, to[i].job.seq);
        to[i].holder.seq = fo_seq_out(f, to[i].holder.seq);
        if (to[i].attempt_count == 0)
            continue;
        to[i].attempts = attempts_out(f, to[i].attempts, to[i].attempt_count, a);
        if (!to[i].attempts)
            return -ERR_NOMEM;
    }
    r->jobs = to;
    return 0;
}

int fo_reply_out(const struct failover *f, struct reply *r, struct arena *a)
{
    int err = 0;
    r->seq = fo_seq_out(f, r->seq);
    r->replaced_seq = fo_seq_out(f, r->replaced_seq);
    r->cursor = fo_seq_out(f, r->cursor);
    if (r->job_count > 0)
        err = jobs_out(f, r, a);
    if (!err && r->attempt_count > 0) {
        r->attempts = attempts_out(f, r->attempts, r->attempt_count, a);
        err = r->attempts ? 0 : -ERR_NOMEM;
    }
    return err;
}
