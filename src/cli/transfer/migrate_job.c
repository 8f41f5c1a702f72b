/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/migrate_job.h"

#include <stdlib.h>

#include "core/jobs/job_texts.h"
#include "core/jobs/progress.h"
#include "core/jobs/steps.h"
#include "core/queues/policy.h"

/* ---- as it arrives ---- */

/* Copies attempts that have ended. A successful last one cannot begin after its end. */
static int attempts_over(const struct job_view *from, struct arena *arena, struct job_view *ret)
{
    struct attempt_view *list = arena_array(arena, from->attempt_count + 1, sizeof *list);
    uint32_t count = 0;
    if (!list)
        return -ERR_NOMEM;
    for (uint32_t i = 0; i < from->attempt_count; i++) {
        if (from->attempts[i].outcome == ATTEMPT_RUNNING)
            continue;
        list[count] = from->attempts[i];
        if (list[count].outcome == ATTEMPT_DONE && from->job.state == STATE_DONE &&
            list[count].started_at.ms > from->job.since.ms)
            list[count].started_at = from->job.since;
        count++;
    }
    ret->attempts = list;
    ret->attempt_count = count;
    return 0;
}

/* The lease under which it was reported is not moved. */
static int progress_without_lease(struct span stored, struct arena *arena, struct span *ret)
{
    struct progress p;
    *ret = (struct span){NULL, 0};
    if (stored.len == 0 || progress_decode(stored, &p) != 0)
        return 0;
    p.token = (struct job_token){0};
    uint8_t *text = arena_alloc(arena, progress_bytes_max(&p));
    if (!text)
        return -ERR_NOMEM;
    *ret = span_of(text, progress_encode(&p, text));
    return 0;
}

static void come_back(struct wall_time now, struct job_view *v)
{
    if (v->job.state != STATE_RUNNING)
        return;
    v->job.state = STATE_READY;
    v->job.reason = REASON_RESTARTED;
    v->job.since = now;
    if (v->job.run_at.ms > now.ms) /* it was claimed before its due time */
        v->job.run_at.ms = 0;
}

int job_arrives(struct wall_time now, const struct job_view *from, struct arena *arena,
                struct job_view *ret)
{
    *ret = *from;
    come_back(now, ret);
    int err = progress_without_lease(from->progress, arena, &ret->progress);
    return err ? err : attempts_over(from, arena, ret);
}

/* ---- the operation ---- */

static void fill_moving(const struct job_view *v, struct job_moving *m)
{
    *m = (struct job_moving){
        .past = {.state = v->job.state,
                 .reason = v->job.reason,
                 .failures = v->job.failures,
                 .crashes = v->job.crashes,
                 .error_kind = v->error_kind,
                 .error = v->error,
                 .progress = v->progress,
                 .log = v->log,
                 .steps = v->steps},
        .moved = {.seq = v->job.seq,
                  .id_hi = v->job.id_hi,
                  .since = v->job.since,
                  .result_kind = v->result_kind,
                  .result = v->result,
                  .attempts = v->attempts,
                  .attempt_count = v->attempt_count},
    };
}

/* Jobs for which it still waits, but that do not exist any more. */
static uint32_t removed_meanwhile(const struct job_view *v)
{
    bool blocked = v->job.state == STATE_BLOCKED;
    return blocked && v->waits > v->parent_count ? v->waits - v->parent_count : 0;
}

/* Of a blocked job only the ends that were counted; what it still waits for is added later. One
 * that was removed meanwhile is known no more, so its end is counted here. */
static void fill_depends(const struct job_view *v, struct job_moving *m)
{
    bool blocked = v->job.state == STATE_BLOCKED;
    uint32_t removed = removed_meanwhile(v);
    m->dependent = v->dependent;
    m->dependent.open = blocked;
    if (blocked)
        m->dependent.counts[DEPENDENCY_END_NONE] -= v->waits - removed;
    m->dependent.counts[DEPENDENCY_END_REMOVED] += removed;
    m->depends = (struct op_depends){.rule = v->dependent.rule, .past = &m->dependent};
}

struct op job_waits_op(const struct job_view *v)
{
    struct op op = {.kind = OP_DEPENDENCIES};
    op.dependencies = (struct op_dependencies){.job = {v->job.seq, v->job.id_hi},
                                               .parents = v->parents,
                                               .count = v->parent_count,
                                               .close = !v->dependent.open};
    return op;
}

int job_op(const struct job_view *v, struct job_moving *m, struct op *ret)
{
    fill_moving(v, m);
    *ret = (struct op){.kind = OP_ENQUEUE};
    ret->enqueue = (struct op_enqueue){
        .queue = v->queue,
        .no_create = true,
        .payload_kind = v->job.payload_kind,
        .has_priority = true,
        .priority = v->job.priority,
        .run_at = v->job.run_at,
        .payload = v->payload,
        .extra = v->extra,
        .past = &m->past,
        .moved = &m->moved,
    };
    if (v->is_dependent) {
        fill_depends(v, m);
        ret->enqueue.depends = &m->depends;
    }
    if (v->extra.options.len == 0)
        return 0;
    ret->enqueue.options = &m->options;
    return options_decode(v->extra.options, &m->options) == 0 ? 0 : -ERR_CORRUPT;
}

/* ---- what must be the same ---- */

/* The length precedes each text, so that texts cannot be confused. */
static int add_text(struct buf *out, struct span s)
{
    uint64_t len = s.len;
    int err = buf_append(out, (const char *)&len, sizeof len);
    return err == 0 && s.len > 0 ? buf_append_span(out, s) : err;
}

static int add_numbers(struct buf *out, const int64_t *numbers, size_t count)
{
    return buf_append(out, (const char *)numbers, count * sizeof *numbers);
}
#define NUMBERS(out, ...)                                                                          \
    add_numbers(out, (const int64_t[]){__VA_ARGS__},                                               \
                sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static int add_extra(struct buf *out, const struct job_extra *x)
{
    int err = NUMBERS(out, x->expires_at.ms);
    for (size_t i = 0; i < JOB_TEXTS && err == 0; i++)
        err = add_text(out, job_text_of(x, i));
    if (err == 0)
        err = add_text(out, x->options);
    return err ? err : add_text(out, x->undelivered);
}

static int add_attempts(struct buf *out, const struct job_view *v)
{
    int err = NUMBERS(out, v->attempt_count);
    for (uint32_t i = 0; i < v->attempt_count && err == 0; i++) {
        const struct attempt_view *a = &v->attempts[i];
        err = NUMBERS(out, a->number, a->outcome, a->error_kind, a->started_at.ms, a->ended_at.ms);
        if (err == 0)
            err = add_text(out, a->worker);
        if (err == 0)
            err = add_text(out, a->error);
    }
    return err;
}

static int step_compare(const void *a, const void *b)
{
    return span_order(((const struct step *)a)->name, ((const struct step *)b)->name);
}

/* Stores list steps in no order. */
static int add_steps(struct buf *out, struct span list, struct arena *arena)
{
    size_t count = steps_count(list);
    struct step *steps = arena_array(arena, count + 1, sizeof *steps);
    int err = steps ? 0 : -ERR_NOMEM;
    for (size_t i = 0; err == 0 && i < count; i++)
        (void)steps_next(&list, &steps[i]);
    if (err == 0)
        qsort(steps, count, sizeof *steps, step_compare);
    for (size_t i = 0; err == 0 && i < count; i++) {
        err = add_text(out, steps[i].name);
        if (err == 0)
            err = add_text(out, steps[i].result);
    }
    return err;
}

static int seq_compare(const void *a, const void *b)
{
    uint64_t x = ((const struct job_ref *)a)->seq, y = ((const struct job_ref *)b)->seq;
    return x < y ? -1 : x > y;
}

/* Stores list the jobs for which one waits in no order. */
static int add_parents(struct buf *out, const struct job_view *v, struct arena *arena)
{
    size_t bytes = v->parent_count * sizeof(struct job_ref);
    struct job_ref *list = bytes ? arena_copy(arena, v->parents, bytes) : NULL;
    if (!list)
        return bytes ? -ERR_NOMEM : 0;
    qsort(list, v->parent_count, sizeof *list, seq_compare);
    return buf_append(out, (const char *)list, bytes);
}

static int add_dependent(struct buf *out, const struct job_view *v, struct arena *arena)
{
    const struct dependent *d = &v->dependent;
    if (!v->is_dependent)
        return 0;
    int err = NUMBERS(out, d->rule, d->open, d->counts[DEPENDENCY_END_NONE],
                      d->counts[DEPENDENCY_END_DONE], d->counts[DEPENDENCY_END_DEAD],
                      d->counts[DEPENDENCY_END_CANCELLED],
                      d->counts[DEPENDENCY_END_REMOVED] + removed_meanwhile(v));
    return err ? err : add_parents(out, v, arena);
}

/* A store whose clock runs may have done this already. */
static enum job_state state_due(struct wall_time now, const struct job_view *v, uint8_t *ret_reason)
{
    const struct job *j = &v->job;
    bool waits = STATE_BIT(j->state) & STATES_WAITING;
    *ret_reason = j->reason;
    if (waits && v->extra.expires_at.ms != 0 && v->extra.expires_at.ms <= now.ms) {
        *ret_reason = REASON_EXPIRED;
        return STATE_DEAD;
    }
    return j->state == STATE_SCHEDULED && j->run_at.ms <= now.ms ? STATE_READY
                                                                 : (enum job_state)j->state;
}

/* The time at which a job expired depends on the store. */
static int64_t ended_ms(const struct job *j, uint8_t reason)
{
    bool live = STATE_BIT(j->state) & STATES_LIVE;
    return live || reason == REASON_EXPIRED ? 0 : j->since.ms;
}

int job_essence(struct wall_time now, const struct job_view *from, struct arena *arena,
                struct buf *out, enum job_state *ret_state)
{
    struct job_view v;
    const struct job *j = &v.job;
    uint8_t reason;
    int err = job_arrives(now, from, arena, &v);
    if (err)
        return err;
    *ret_state = state_due(now, &v, &reason);
    err = NUMBERS(out, (int64_t)j->seq, (int64_t)j->id_hi, *ret_state, reason, j->priority,
                  j->run_at.ms, j->failures, j->crashes, j->payload_kind,
                  v.error.len > 0 ? v.error_kind : 0, v.result_kind, ended_ms(j, reason));
    if (err == 0)
        err = add_text(out, v.payload);
    if (err == 0)
        err = add_text(out, v.result);
    if (err == 0)
        err = add_text(out, v.error);
    if (err == 0)
        err = add_text(out, v.progress);
    if (err == 0)
        err = add_text(out, v.log);
    if (err == 0)
        err = add_steps(out, v.steps, arena);
    if (err == 0)
        err = add_extra(out, &v.extra);
    if (err == 0)
        err = add_dependent(out, &v, arena);
    return err ? err : add_attempts(out, &v);
}
