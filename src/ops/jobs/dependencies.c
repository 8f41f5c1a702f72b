/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that depend on others: enqueues with dependencies, dependencies that are added later, and
 * what the end of a parent means for a job that waits (core/jobs/dependency.h has the rules).
 *
 * No loops. A parent must exist, or come before the job in the same commit, when the dependency
 * arises; so each parent is older than its dependent, except where dependencies are added to a job
 * that is open. A parent that is added to it and is newer must not be blocked: it waits for no job,
 * so no path leads through it. Therefore every dependency of a loop would lead from a job to an
 * older one, which is impossible.
 *
 * A parent that has ended already counts at once. One that does not exist is refused, also if it
 * existed: how it ended is not known any more. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "core/jobs/dependency.h"
#include "core/limits.h"
#include "ops/jobs/enqueue.h"
#include "ops/replies.h"

#define NOT_SUPPORTED "this store does not support jobs that depend on others"
#define NOT_OPEN                                                                                   \
    "the job is not open: only a job or batch that was created open, and was not closed, gets "    \
    "more dependencies and can be closed"

/* Names the parent by its place in the list, and as it was given: without the first half of its id
 * it was a number. */
static bool refuse_parent(struct ops *o, struct reply *r, uint32_t at, struct job_ref parent,
                          const char *why)
{
    char id[ID_ULID_BYTES];
    struct err_note note;
    if (parent.hi)
        id_ulid(id_make(parent.hi, parent.seq), id);
    else
        snprintf(id, sizeof id, "%" PRIu64, parent.seq);
    (void)err_note_set(&note, -ERR_INVALID, "depends_on[%" PRIu32 "]: job %s %s", at, id, why);
    return reply_invalid(o, r, &note);
}

/* --- the plan of an enqueue --- */

bool dependencies_block(const struct op_enqueue *want)
{
    return want->depends && !want->depends->past;
}

static bool parent_exists(struct ops *o, uint32_t at, struct job_ref ref, struct reply *r)
{
    bool settling;
    uint8_t state = o->store->dependencies->parent_state(o, ref, &settling);
    if (state == STATE_NONE)
        return refuse_parent(o, r, at, ref, "does not exist, or no longer");
    if (!state_lives(state) || !settling)
        return true;
    return reply_refuse(r, OUT_UNAVAILABLE,
                        "a job in depends_on has been requeued while jobs that depend on it are "
                        "still being told of its end; nothing was changed, try again");
}

/* The parent, if it exists before the commit: it is named, or a repeat found it. */
static struct job_ref parent_before(const struct enqueue_plan *plans,
                                    const struct dependency_ref *ref)
{
    const struct enqueue_plan *p = ref->job.seq ? NULL : &plans[ref->index];
    return p && p->answered ? (struct job_ref){p->reply->seq, p->reply->id_hi} : ref->job;
}

static bool parent_fits(struct ops *o, const struct enqueue_plan *plans, size_t index, uint32_t at)
{
    const struct enqueue_plan *p = &plans[index];
    const struct dependency_ref *ref = &p->want->depends->parents[at];
    if (ref->job.seq == 0 && ref->index >= index)
        return reply_refuse(p->reply, OUT_INVALID,
                            "depends_on: a job of the same request must come before the jobs "
                            "that depend on it");
    struct job_ref job = parent_before(plans, ref);
    if (job.seq && p->replaced && p->replaced->seq == job.seq)
        return refuse_parent(o, p->reply, at, job,
                             "is the one that this job would replace (unique_mode)");
    return job.seq == 0 || parent_exists(o, at, job, p->reply);
}

static bool parents_exist(struct ops *o, const struct enqueue_plan *plans, size_t index)
{
    const struct op_depends *d = plans[index].want->depends;
    for (uint32_t i = 0; i < d->count; i++)
        if (!parent_fits(o, plans, index, i))
            return false;
    return true;
}

/* Whether jobs that are created with it are to become its parents. */
static bool has_new_parents(const struct enqueue_plan *plans, size_t index)
{
    const struct op_depends *d = plans[index].want->depends;
    for (uint32_t i = 0; d && i < d->count; i++) {
        const struct dependency_ref *ref = &d->parents[i];
        if (ref->job.seq == 0 && ref->index < index && !plans[ref->index].answered)
            return true;
    }
    return false;
}

bool dependencies_answered(const struct enqueue_plan *plans, size_t index)
{
    struct reply *r = plans[index].reply;
    if (!has_new_parents(plans, index))
        return true;
    if (r->repeat)
        return reply_refuse(r, OUT_KEY_REUSED,
                            "the job with this idempotency key exists and does not depend on the "
                            "new jobs of this request");
    return reply_refuse(r, OUT_DUPLICATE,
                        "the job with this unique key exists and does not depend on the new jobs "
                        "of this request");
}

static bool depends_valid(const struct op_enqueue *want, struct reply *r)
{
    const struct op_depends *d = want->depends;
    if (d->count > LIMIT_DEPENDENCIES)
        return reply_refuse(r, OUT_INVALID, "depends_on: a job may depend on at most 10000 jobs");
    if (d->rule >= DEPENDENCY_RULE_COUNT ||
        (d->past && (!dependent_fits(d->past, 0) || (d->past->open && dependent_waits(d->past)))))
        return reply_refuse(r, OUT_INVALID, "on_dependency_failure must be cancel, run or dead");
    if (d->past && (!want->past || (want->past->state == STATE_BLOCKED) != d->past->open))
        return reply_refuse(r, OUT_INVALID,
                            "only a job that comes from another store has earlier dependencies");
    return true;
}

/* Only a job that is open can get new parents. */
static bool is_open(struct ops *o, const struct job *j, struct dependent *ret, uint32_t *ret_waits)
{
    return j->state == STATE_BLOCKED && o->store->dependencies->find(o, j, ret, ret_waits) &&
           ret->open;
}

static bool member_fits(struct ops *o, struct enqueue_plan *p, size_t ahead)
{
    const struct queue_state *q;
    struct dependent d;
    uint32_t waits;
    p->member_of = o->store->job_find(o, p->want->member_of, &q);
    if (!p->member_of)
        return reply_refuse(p->reply, OUT_NOT_FOUND, NULL);
    if (!is_open(o, p->member_of, &d, &waits)) {
        reply_about(p->reply, p->member_of);
        return reply_refuse(p->reply, OUT_ILLEGAL, NOT_OPEN);
    }
    if (dependencies_block(p->want))
        return reply_refuse(p->reply, OUT_INVALID,
                            "depends_on: a job that is added to an open batch cannot depend on "
                            "others");
    if (d.counts[DEPENDENCY_END_NONE] + ahead >= LIMIT_DEPENDENCIES)
        return reply_refuse(p->reply, OUT_INVALID, "a batch may have at most 10000 jobs");
    if (p->replaced == p->member_of)
        return reply_refuse(p->reply, OUT_INVALID,
                            "unique: the final job of the batch has this unique key, and a job of "
                            "the batch cannot replace it");
    return true;
}

static size_t members_ahead(const struct enqueue_plan *plans, size_t index)
{
    size_t n = 0;
    for (size_t i = 0; i < index; i++)
        n += !plans[i].answered && plans[i].member_of ? 1 : 0;
    return n;
}

bool dependencies_plan(struct ops *o, struct enqueue_plan *plans, size_t index)
{
    struct enqueue_plan *p = &plans[index];
    const struct op_enqueue *want = p->want;
    bool blocked = want->past && want->past->state == STATE_BLOCKED;
    if (!o->store->dependencies)
        return reply_refuse(p->reply, OUT_INVALID, NOT_SUPPORTED);
    if (blocked && !(want->depends && want->depends->past))
        return reply_refuse(p->reply, OUT_INVALID, "a blocked job must bring its dependencies");
    if (want->member_of.seq && !member_fits(o, p, members_ahead(plans, index)))
        return false;
    if (!want->depends)
        return true;
    if (!depends_valid(want, p->reply) || !parents_exist(o, plans, index))
        return false;
    p->parents = arena_array(o->memory, want->depends->count + 1, sizeof(*p->parents));
    return p->parents || reply_nomem(o, p->reply);
}

bool dependencies_prepare(struct ops *o, const struct enqueue_plan *plans, size_t count,
                          size_t *more)
{
    size_t dependents = 0, parents = 0;
    for (size_t i = 0; i < count; i++) {
        if (plans[i].answered)
            continue;
        size_t member = plans[i].member_of ? 1 : 0;
        const struct op_depends *d = plans[i].want->depends;
        dependents += member + (d ? 1 : 0);
        parents += member + (d ? d->count : 0);
    }
    if (dependents == 0)
        return true;
    *more += o->store->dependencies->bytes(dependents, parents);
    return o->store->dependencies->prepare(o, dependents, parents);
}

/* --- its commit --- */

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* In rising order, each once. */
static uint32_t sort_once(uint64_t *seqs, uint32_t count)
{
    uint32_t n = 0;
    qsort(seqs, count, sizeof(*seqs), by_number);
    for (uint32_t i = 0; i < count; i++)
        if (n == 0 || seqs[n - 1] != seqs[i])
            seqs[n++] = seqs[i];
    return n;
}

/* Counts those that have ended; gives the number of the rest, which stay in the list. */
static uint32_t count_ended(struct ops *o, uint64_t *seqs, uint32_t count, struct dependent *d)
{
    uint32_t waits = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool settling;
        enum dependency_end end = dependency_end_of(
            o->store->dependencies->parent_state(o, (struct job_ref){seqs[i], 0}, &settling));
        if (end == DEPENDENCY_END_NONE) {
            seqs[waits++] = seqs[i];
        } else {
            d->counts[DEPENDENCY_END_NONE]++;
            d->counts[end]++;
        }
    }
    return waits;
}

static void depend(struct ops *o, const struct enqueue_plan *plans, struct enqueue_plan *p)
{
    const struct op_depends *want = p->want->depends;
    struct dependent d = {.rule = want->rule, .open = want->open};
    uint32_t count = want->count;
    for (uint32_t i = 0; i < want->count; i++)
        p->parents[i] = want->parents[i].job.seq ? want->parents[i].job.seq
                                                 : plans[want->parents[i].index].reply->seq;
    count = count_ended(o, p->parents, sort_once(p->parents, count), &d);
    o->store->dependencies->put(o, p->job, want->past ? want->past : &d);
    if (count > 0)
        o->store->dependencies->add(o, p->job, p->parents, count);
}

static void join(struct ops *o, struct enqueue_plan *p)
{
    struct dependent d;
    uint32_t waits;
    uint64_t seq = p->job->seq;
    CHECK(o->store->dependencies->find(o, p->member_of, &d, &waits));
    if (count_ended(o, &seq, 1, &d) > 0)
        o->store->dependencies->add(o, p->member_of, &seq, 1);
    else
        o->store->dependencies->put(o, p->member_of, &d);
}

void dependencies_commit(struct ops *o, struct enqueue_plan *plans, size_t index)
{
    struct enqueue_plan *p = &plans[index];
    if (!p->job || (!p->want->depends && !p->member_of))
        return;
    if (p->want->depends)
        depend(o, plans, p);
    if (p->member_of)
        join(o, p);
    /* Without memory the store does this later. */
    if (dependencies_block(p->want) && ops_dependent_settle(o, p->job))
        reply_changed(p->reply, p->job, p->q);
}

/* --- a job whose parents have changed --- */

bool ops_dependent_settle(struct ops *o, struct job *j)
{
    struct dependent d;
    uint32_t waits;
    struct record rec;
    if (j->state != STATE_BLOCKED || !o->store->dependencies->find(o, j, &d, &waits))
        return true;
    if (DEFECT(o, DEFECT_CHILD_EARLY) && waits == 1)
        waits = 0;
    switch (dependency_verdict(&d, waits)) {
    case VERDICT_WAIT:
        return true;
    case VERDICT_UNBLOCK:
        decide_unblock(j, o->now, &rec);
        break;
    case VERDICT_CANCEL:
        decide_dependency_failed(j, false, o->now, &rec);
        break;
    case VERDICT_DEAD:
        decide_dependency_failed(j, true, o->now, &rec);
        break;
    }
    if (!o->store->prepare(o, j, &rec, 1))
        return false;
    o->store->commit(o, j, &rec);
    return true;
}

/* --- dependencies that are added later --- */

static bool addable(struct ops *o, const struct job *j, const struct op_dependencies *want,
                    uint32_t at, struct reply *r)
{
    struct job_ref ref = want->parents[at];
    bool settling;
    uint8_t state = o->store->dependencies->parent_state(o, ref, &settling);
    if (ref.seq == j->seq)
        return refuse_parent(o, r, at, ref, "cannot depend on itself");
    if (state == STATE_BLOCKED && ref.seq > j->seq)
        return refuse_parent(o, r, at, ref,
                             "is blocked and newer than the job that is to depend on it; only an "
                             "older job may be blocked itself");
    return parent_exists(o, at, ref, r);
}

/* The parents that are new to the job, in rising order. UINT32_MAX: the reply says why not. */
static uint32_t parents_to_add(struct ops *o, const struct job *j,
                               const struct op_dependencies *want, uint64_t *seqs, struct reply *r)
{
    for (uint32_t i = 0; i < want->count; i++) {
        if (!addable(o, j, want, i, r))
            return UINT32_MAX;
        seqs[i] = want->parents[i].seq;
    }
    uint32_t count = o->store->dependencies->without(o, j, seqs, sort_once(seqs, want->count));
    if (count == UINT32_MAX)
        reply_nomem(o, r);
    return count;
}

static bool add_parents(struct ops *o, struct job *j, const struct op_dependencies *want,
                        struct dependent *d, struct reply *r)
{
    const struct dependency_store *s = o->store->dependencies;
    uint64_t *seqs = arena_array(o->memory, (size_t)want->count + 1, sizeof(*seqs));
    uint32_t count = seqs ? parents_to_add(o, j, want, seqs, r) : UINT32_MAX;
    if (!seqs)
        reply_nomem(o, r);
    if (count == UINT32_MAX)
        return false;
    if (d->counts[DEPENDENCY_END_NONE] + count > LIMIT_DEPENDENCIES)
        return reply_refuse(r, OUT_INVALID, "depends_on: a job may depend on at most 10000 jobs");
    if (!s->prepare(o, 1, count))
        return reply_nomem(o, r);
    d->open = !want->close;
    count = count_ended(o, seqs, count, d);
    /* The new ones first: what is closed without them would start. */
    if (count > 0)
        s->add(o, j, seqs, count);
    d->counts[DEPENDENCY_END_NONE] += count;
    s->put(o, j, d);
    return true;
}

void ops_dependencies(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_dependencies *want = &op->dependencies;
    const struct queue_state *q;
    struct dependent d;
    uint32_t waits;
    if (!o->store->dependencies) {
        reply_refuse(r, OUT_INVALID, NOT_SUPPORTED);
        return;
    }
    struct job *j = o->store->job_find(o, want->job, &q);
    if (!j) {
        reply_refuse(r, OUT_NOT_FOUND, NULL);
        return;
    }
    reply_about(r, j);
    if (!o->store->queue_name(o, q, &r->queue)) {
        reply_nomem(o, r);
        return;
    }
    if (want->count > LIMIT_DEPENDENCIES)
        reply_refuse(r, OUT_INVALID, "depends_on: a job may depend on at most 10000 jobs");
    else if (!is_open(o, j, &d, &waits))
        reply_refuse(r, OUT_ILLEGAL, NOT_OPEN);
    else if (add_parents(o, j, want, &d, r) && ops_dependent_settle(o, j))
        reply_changed(r, j, q);
}
