/* SPDX-License-Identifier: Apache-2.0 */
/* Records of jobs that depend on others. */
#include "core/records/record_impl.h"

/* ---- unblocked ---- */

static bool job_unblocked_fits(const struct record *r)
{
    const struct rec_job_unblocked *u = &r->job_unblocked;
    return seq_fits(u->seq) && move_allowed(MOVE_UNBLOCK, STATE_BLOCKED, u->state) &&
           wall_fits(u->at);
}

#define JOB_UNBLOCKED(F) F(seq, seq) F(u8, state) F(wall, at)
RECORD(job_unblocked, JOB_UNBLOCKED);

/* ---- the dependent ---- */

static bool dependent_put_fits(const struct record *r)
{
    return seq_fits(r->dependent_put.seq) && dependent_fits(&r->dependent_put.dependent, 0);
}

#define DEPENDENT_PUT(F)                                                                           \
    F(seq, seq)                                                                                    \
    F(u8, dependent.rule)                                                                          \
    F(bool, dependent.open)                                                                        \
    F(u32, dependent.counts[DEPENDENCY_END_NONE])                                                  \
    F(u32, dependent.counts[DEPENDENCY_END_DONE])                                                  \
    F(u32, dependent.counts[DEPENDENCY_END_DEAD])                                                  \
    F(u32, dependent.counts[DEPENDENCY_END_CANCELLED])                                             \
    F(u32, dependent.counts[DEPENDENCY_END_REMOVED])
_Static_assert(DEPENDENCY_END_COUNT == DEPENDENCY_END_REMOVED + 1, "the list has every count");
RECORD(dependent_put, DEPENDENT_PUT);

static bool gone_fits(const struct record *r)
{
    return seq_fits(r->dependent.seq);
}

#define DEPENDENT_GONE(F) F(seq, seq)
RECORD_BODY(gone, dependent, DEPENDENT_GONE)
RECORD_TYPE(dependent_gone, gone, gone_fits, NULL);

/* ---- dependencies ---- */

static bool new_fits(const struct record *r)
{
    const struct rec_dependencies_new *n = &r->dependencies_new;
    return seq_fits(n->seq) && n->count > 0 && n->count <= LIMIT_DEPENDENCIES &&
           n->count <= n->parents.len;
}

static bool new_readable(const struct record *r)
{
    const struct rec_dependencies_new *n = &r->dependencies_new;
    struct span list = n->parents;
    uint64_t previous = 0, seq;
    while (list.len > 0)
        if (record_seq_next(&list, &previous, &seq) < 0 || seq == n->seq)
            return false;
    return record_seqs_readable(n->parents, n->count);
}

#define DEPENDENCIES_NEW(F) F(seq, seq) F(u32, count) F(span, parents)
RECORD_BODY(new, dependencies_new, DEPENDENCIES_NEW)
RECORD_TYPE(dependencies_new, new, new_fits, new_readable);

static bool dependency_end_fits(const struct record *r)
{
    const struct rec_dependency_end *e = &r->dependency_end;
    return seq_fits(e->seq) && seq_fits(e->parent) && e->how < DEPENDENCY_END_COUNT;
}

#define DEPENDENCY_END(F) F(seq, seq) F(seq, parent) F(u8, how) F(bool, last)
RECORD(dependency_end, DEPENDENCY_END);

static bool ended_fits(const struct record *r)
{
    return seq_fits(r->dependent.seq) && r->dependent.how > DEPENDENCY_END_NONE &&
           r->dependent.how < DEPENDENCY_END_COUNT;
}

#define PARENT_ENDED(F) F(seq, seq) F(u8, how)
RECORD_BODY(ended, dependent, PARENT_ENDED)
RECORD_TYPE(parent_ended, ended, ended_fits, NULL);
