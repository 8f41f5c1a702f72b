/* SPDX-License-Identifier: Apache-2.0 */
/* Applies records to the state. Nothing changes in any other way, neither in a step nor in
 * recovery.
 *
 * In a step the operation has reserved memory, so applying cannot fail. In recovery it can
 * (memory is short, a record is damaged); the engine is then discarded. */
#include "backend/local/engine/engine_impl.h"
#include "core/records/frame.h"

int emit_reserve_for(struct engine *e, size_t queues, size_t bytes)
{
    struct buf *frame = &e->out->frame;
    if (frame->len == 0) {
        int err = frame_begin(frame);
        if (err)
            return err;
    }
    int err = counters_reserve(e, queues);
    if (err)
        return err;
    bytes += counters_bytes(e, queues);
    if (bytes > e->frame_max || frame->len > e->frame_max - bytes)
        return -ERR_TOO_BIG;
    return buf_reserve(frame, bytes);
}

/* A record is about one queue, or two: that of a trigger's items, or of a replaced job. */
int emit_reserve(struct engine *e, size_t bytes)
{
    return emit_reserve_for(e, 2, bytes);
}

static bool defect_hides(const struct engine *e, const struct record *r)
{
    if (DEFECT(&e->config, DEFECT_CLAIM_UNRECORDED) && r->kind == REC_JOB_CLAIMED)
        return true;
    if (DEFECT(&e->config, DEFECT_KEY_FORGOTTEN) && r->kind == REC_KEY_NEW)
        return true;
    if (DEFECT(&e->config, DEFECT_FIRED_UNRECORDED) && r->kind == REC_SCHEDULE_FIRED)
        return true;
    if (DEFECT(&e->config, DEFECT_CANCEL_FORGOTTEN) && r->kind == REC_JOB_CANCEL_REQUESTED)
        return true;
    if (DEFECT(&e->config, DEFECT_REPORT_FORGOTTEN) &&
        (r->kind == REC_JOB_PROGRESS || r->kind == REC_JOB_LOGGED))
        return true;
    if (DEFECT(&e->config, DEFECT_STEP_FORGOTTEN) && r->kind == REC_JOB_STEPS)
        return true;
    return DEFECT(&e->config, DEFECT_ACK_COMES_BACK) && r->kind == REC_JOB_DONE &&
           r->job_done.seq % 16 == 0;
}

/* The record as the defect has it: failures of this attempt left out. */
static struct record defect_uncount(const struct engine *e, const struct record *r)
{
    struct record changed = *r;
    if (DEFECT(&e->config, DEFECT_ATTEMPTS_UNRECORDED) && r->kind == REC_JOB_BACK &&
        changed.job_back.failures > 0)
        changed.job_back.failures--;
    return changed;
}

void engine_emit_silent(struct engine *e, const struct record *r)
{
    if (!defect_hides(e, r)) {
        if (DEFECT(&e->config, DEFECT_ATTEMPTS_UNRECORDED)) {
            struct record changed = defect_uncount(e, r);
            CHECK(record_encode(&changed, &e->out->frame) == 0);
        } else {
            CHECK(record_encode(r, &e->out->frame) == 0);
        }
        e->out->count++;
        e->position++;
    }
    CHECK(engine_apply(e, r) == 0);
}

void engine_emit(struct engine *e, const struct record *r)
{
    engine_emit_silent(e, r);
    events_record(e, r);
    if (r->kind == REC_JOB_DEAD && e->alerts.count)
        alerts_job_dead(e, &r->job_dead);
}

/* Encoded first: applying may free what the record points to. */
int engine_emit_or_not(struct engine *e, const struct record *r)
{
    size_t mark = e->out->frame.len;
    CHECK(record_encode(r, &e->out->frame) == 0);
    int err = engine_apply(e, r);
    if (err) {
        e->out->frame.len = mark;
        return err;
    }
    e->out->count++;
    e->position++;
    return 0;
}

static struct live *touched(struct engine *e, uint64_t seq, uint32_t *ret_handle)
{
    struct live *l = jobs_by_seq(e, seq, ret_handle);
    if (l)
        l->position = e->position;
    return l;
}

static int take_epoch(struct engine *e, const struct record *r)
{
    if (r->epoch.epoch < e->epoch)
        return -ERR_CORRUPT;
    e->epoch = r->epoch.epoch;
    return 0;
}

static int take_seq_block(struct engine *e, const struct record *r)
{
    if (r->seq_block.upto < e->seq_upto)
        return -ERR_CORRUPT;
    e->seq_upto = r->seq_block.upto;
    return 0;
}

static int take_queue_put(struct engine *e, const struct record *r)
{
    return queues_apply_put(e, &r->queue_put);
}

static int take_queue_gone(struct engine *e, const struct record *r)
{
    return queues_apply_gone(e, r->queue.queue);
}

static int take_queue_end(struct engine *e, const struct record *r)
{
    return queues_apply_end(e, r->queue.queue);
}

static int take_purged(struct engine *e, const struct record *r)
{
    return queues_apply_purged(e, &r->purged);
}

static int take_bulk_begin(struct engine *e, const struct record *r)
{
    return bulk_apply_begin(e, &r->bulk_begin);
}

static int take_bulk_step(struct engine *e, const struct record *r)
{
    return bulk_apply_step(e, &r->bulk_step);
}

static int take_bulk_end(struct engine *e, const struct record *r)
{
    return bulk_apply_end(e, &r->bulk_step);
}

static int take_job_new(struct engine *e, const struct record *r)
{
    uint32_t handle;
    int err = jobs_add(e, &r->job_new.job, &r->job_new.extra, &handle);
    if (err)
        return err;
    if (!(STATE_BIT(r->job_new.job.state) & STATES_LIVE))
        e->ended_came = true;
    live_at(e, handle)->position = e->position;
    seqs_seen(e, r->job_new.job.seq);
    counters_record(e, queue_at(e, r->job_new.job.queue), r, NULL);
    return 0;
}

static int take_job_ready(struct engine *e, const struct record *r)
{
    uint32_t handle;
    struct live *l = touched(e, r->job_ready.seq, &handle);
    if (!l || apply_ready(&l->job, &r->job_ready) != 0)
        return -ERR_CORRUPT;
    jobs_moved(e, handle, STATE_SCHEDULED);
    return 0;
}

static int take_job_unblocked(struct engine *e, const struct record *r)
{
    uint32_t handle;
    struct live *l = touched(e, r->job_unblocked.seq, &handle);
    if (!l || apply_unblocked(&l->job, &r->job_unblocked) != 0)
        return -ERR_CORRUPT;
    jobs_moved(e, handle, STATE_BLOCKED);
    return 0;
}

static int take_job_claimed(struct engine *e, const struct record *r)
{
    uint32_t handle;
    struct live *l = jobs_by_seq(e, r->job_claimed.seq, &handle);
    if (!l || l->lease)
        return -ERR_CORRUPT;
    uint8_t before = l->job.state;
    counters_record(e, queue_of(e, l), r, &l->job);
    if (apply_claimed(&l->job, &r->job_claimed) != 0)
        return -ERR_CORRUPT;
    int err = leases_start(e, handle, &r->job_claimed);
    if (err)
        return err;
    jobs_moved(e, handle, before);
    l->position = e->position;
    return 0;
}

static int take_job_extended(struct engine *e, const struct record *r)
{
    struct live *l = touched(e, r->job_extended.seq, NULL);
    if (!l || !l->lease || apply_extended(&l->job, &r->job_extended) != 0)
        return -ERR_CORRUPT;
    lease_at(e, l->lease)->lease_ms = r->job_extended.lease_ms;
    return 0;
}

static int take_job_cancel_requested(struct engine *e, const struct record *r)
{
    struct live *l = touched(e, r->job_cancel_requested.seq, NULL);
    if (!l || !l->lease)
        return -ERR_CORRUPT;
    return apply_cancel_requested(&l->job, &r->job_cancel_requested,
                                  &lease_at(e, l->lease)->limits);
}

static int take_job_priority(struct engine *e, const struct record *r)
{
    struct live *l = touched(e, r->job_priority.seq, NULL);
    return l ? apply_priority(&l->job, &r->job_priority) : -ERR_CORRUPT;
}

static int take_job_back(struct engine *e, const struct record *r)
{
    uint32_t handle;
    struct live *l = touched(e, r->job_back.seq, &handle);
    if (l && back_repeats(&l->job, &r->job_back))
        return 0;
    if (!l || !l->lease)
        return -ERR_CORRUPT;
    counters_record(e, queue_of(e, l), r, &l->job);
    if (apply_back(&l->job, &r->job_back) != 0)
        return -ERR_CORRUPT;
    leases_end(e, l, reason_report(r->job_back.reason));
    jobs_moved(e, handle, STATE_RUNNING);
    return 0;
}

static int take_job_done(struct engine *e, const struct record *r)
{
    uint32_t handle;
    struct live *l = touched(e, r->job_done.seq, &handle);
    if (!l || !l->lease)
        return -ERR_CORRUPT;
    counters_record(e, queue_of(e, l), r, &l->job);
    if (apply_done(&l->job, &r->job_done) != 0)
        return -ERR_CORRUPT;
    leases_end(e, l, OP_ACK);
    jobs_moved(e, handle, STATE_RUNNING);
    return 0;
}

static int take_job_dead(struct engine *e, const struct record *r)
{
    uint32_t handle;
    struct live *l = touched(e, r->job_dead.seq, &handle);
    if (!l)
        return -ERR_CORRUPT;
    if (dead_repeats(&l->job, &r->job_dead))
        return 0;
    uint8_t before = l->job.state;
    struct queue *q = queue_of(e, l);
    counters_record(e, q, r, &l->job);
    if (apply_dead(&l->job, &r->job_dead) != 0)
        return -ERR_CORRUPT;
    if (l->lease)
        leases_end(e, l, reason_report(r->job_dead.reason));
    jobs_moved(e, handle, before);
    if (DEFECT(&e->config, DEFECT_DEAD_AGAIN)) {
        struct heap_entry again = {ready_order(q, &l->job), l->job.seq};
        CHECK(heap_push(&q->ready, again) == 0);
    }
    return 0;
}

static int take_job_cancelled(struct engine *e, const struct record *r)
{
    uint32_t handle;
    struct live *l = touched(e, r->job_cancelled.seq, &handle);
    if (!l)
        return -ERR_CORRUPT;
    uint8_t before = l->job.state;
    struct queue *q = queue_of(e, l);
    counters_record(e, q, r, &l->job);
    if (apply_cancelled(&l->job, &r->job_cancelled) != 0)
        return -ERR_CORRUPT;
    if (l->lease)
        leases_end(e, l, OP_TICK);
    jobs_moved(e, handle, before);
    if (DEFECT(&e->config, DEFECT_COUNT_DRIFTS) && before == STATE_READY)
        q->lists[STATE_READY].count++;
    return 0;
}

static int take_job_requeued(struct engine *e, const struct record *r)
{
    uint32_t handle;
    struct live *l = touched(e, r->job_requeued.seq, &handle);
    uint8_t before = l ? l->job.state : STATE_NONE;
    if (!l || apply_requeued(&l->job, &r->job_requeued) != 0)
        return -ERR_CORRUPT;
    jobs_moved(e, handle, before);
    return 0;
}

static int take_job_patched(struct engine *e, const struct record *r)
{
    uint32_t handle;
    struct live *l = touched(e, r->job_patched.seq, &handle);
    if (!l)
        return -ERR_CORRUPT;
    struct job before = l->job;
    if (apply_patched(&l->job, &r->job_patched) != 0)
        return -ERR_CORRUPT;
    jobs_ranked(e, l, &before);
    if (l->job.state != before.state)
        jobs_moved(e, handle, before.state);
    else if (l->job.priority != before.priority || l->job.run_at.ms != before.run_at.ms)
        jobs_order(e, handle);
    return 0;
}

/* What was noted is in the store alone; here it is known that there is something. */
static int take_job_noted(struct engine *e, const struct record *r)
{
    struct live *l = touched(e, r->job_noted.seq, NULL);
    if (!l || apply_noted(&l->job, &r->job_noted) != 0)
        return -ERR_CORRUPT;
    if ((l->job.flags & JOB_HAS_EXTRA) && !l->extra)
        jobs_add_extra(e, l);
    return 0;
}

/* Progress and log are in the store alone. */
static int take_job_report(struct engine *e, const struct record *r)
{
    struct live *l = touched(e, r->job_report.seq, NULL);
    return l ? apply_reported(&l->job) : -ERR_CORRUPT;
}

/* The results are in the store alone. */
static int take_job_steps(struct engine *e, const struct record *r)
{
    struct live *l = touched(e, r->job_report.seq, NULL);
    if (!l || apply_reported(&l->job) != 0)
        return -ERR_CORRUPT;
    return steps_apply(e, r->job_report.seq, r->job_report.text);
}

/* It is in the store alone. */
static int take_job_attempt(struct engine *e, const struct record *r)
{
    return touched(e, r->job_attempt.seq, NULL) ? 0 : -ERR_CORRUPT;
}

/* What it adds was counted with the records before it. */
static int take_counters(struct engine *e, const struct record *r)
{
    return queue_at(e, r->counters.queue) ? 0 : -ERR_CORRUPT;
}

static int take_jobs_gone(struct engine *e, const struct record *r)
{
    struct span list = r->jobs_gone.seqs;
    uint64_t previous = 0, seq;
    for (uint32_t i = 0; i < r->jobs_gone.count; i++) {
        uint32_t handle;
        if (record_seq_next(&list, &previous, &seq) != 0)
            return -ERR_CORRUPT;
        struct live *l = jobs_by_seq(e, seq, &handle);
        if (!l || !move_starts_from(MOVE_PURGE, l->job.state))
            return -ERR_CORRUPT;
        queue_of(e, l)->removed++;
        jobs_drop(e, handle);
    }
    return 0;
}

static int take_key_new(struct engine *e, const struct record *r)
{
    return keys_apply_new(e, &r->key_new);
}

static int take_keys_gone(struct engine *e, const struct record *r)
{
    return keys_apply_gone(e, &r->keys_gone);
}

static int take_kv_set(struct engine *e, const struct record *r)
{
    return kv_apply_set(e, &r->kv_set);
}

static int take_kv_gone(struct engine *e, const struct record *r)
{
    return kv_apply_gone(e, &r->kv_gone);
}

static int take_kv_from_job(struct engine *e, const struct record *r)
{
    return kv_apply_from_job(e, &r->kv_from_job);
}

static int take_kv_keys(struct engine *e, const struct record *r)
{
    if (!jobs_by_seq(e, r->kv_keys.seq, NULL))
        return -ERR_CORRUPT;
    return undelivered_apply(e, r->kv_keys.seq, r->kv_keys.keys);
}

static int take_alert_put(struct engine *e, const struct record *r)
{
    return alerts_apply_put(e, &r->alert_put);
}

static int take_alert_gone(struct engine *e, const struct record *r)
{
    return alerts_apply_gone(e, &r->alert_gone);
}

static int take_alert_edge(struct engine *e, const struct record *r)
{
    return alerts_apply_edge(e, &r->alert_edge);
}

static int take_notice_new(struct engine *e, const struct record *r)
{
    return notices_apply_new(e, &r->notice_new);
}

static int take_notice_tried(struct engine *e, const struct record *r)
{
    return notices_apply_tried(e, &r->notice_tried);
}

static int take_notice_gone(struct engine *e, const struct record *r)
{
    return notices_apply_gone(e, &r->notice_gone);
}

static int take_breaker_put(struct engine *e, const struct record *r)
{
    return breakers_apply_put(e, &r->breaker_put);
}

static int take_breaker_gone(struct engine *e, const struct record *r)
{
    return breakers_apply_gone(e, &r->breaker_gone);
}

static int take_schedule_put(struct engine *e, const struct record *r)
{
    return schedules_apply_put(e, &r->schedule_put);
}

static int take_schedule_gone(struct engine *e, const struct record *r)
{
    return schedules_apply_gone(e, r->schedule_gone.schedule);
}

static int take_schedule_state(struct engine *e, const struct record *r)
{
    return schedules_apply_state(e, &r->schedule_state);
}

static int take_job_linked(struct engine *e, const struct record *r)
{
    return holds_apply_linked(e, &r->job_linked);
}

typedef int (*take_fn)(struct engine *e, const struct record *r);

static const take_fn takes[] = {
    [REC_EPOCH] = take_epoch,
    [REC_SEQ_BLOCK] = take_seq_block,
    [REC_QUEUE_PUT] = take_queue_put,
    [REC_QUEUE_GONE] = take_queue_gone,
    [REC_QUEUE_END] = take_queue_end,
    [REC_PURGED] = take_purged,
    [REC_BULK_BEGIN] = take_bulk_begin,
    [REC_BULK_STEP] = take_bulk_step,
    [REC_BULK_END] = take_bulk_end,
    [REC_JOB_NEW] = take_job_new,
    [REC_JOB_READY] = take_job_ready,
    [REC_JOB_CLAIMED] = take_job_claimed,
    [REC_JOB_EXTENDED] = take_job_extended,
    [REC_JOB_CANCEL_REQUESTED] = take_job_cancel_requested,
    [REC_JOB_BACK] = take_job_back,
    [REC_JOB_DONE] = take_job_done,
    [REC_JOB_DEAD] = take_job_dead,
    [REC_JOB_CANCELLED] = take_job_cancelled,
    [REC_JOB_REQUEUED] = take_job_requeued,
    [REC_JOB_PATCHED] = take_job_patched,
    [REC_JOBS_GONE] = take_jobs_gone,
    [REC_JOB_NOTED] = take_job_noted,
    [REC_COUNTERS] = take_counters,
    [REC_JOB_PRIORITY] = take_job_priority,
    [REC_JOB_ATTEMPT] = take_job_attempt,
    [REC_KEY_NEW] = take_key_new,
    [REC_KEYS_GONE] = take_keys_gone,
    [REC_KV_SET] = take_kv_set,
    [REC_KV_GONE] = take_kv_gone,
    [REC_KV_FROM_JOB] = take_kv_from_job,
    [REC_KV_KEYS] = take_kv_keys,
    [REC_ALERT_PUT] = take_alert_put,
    [REC_ALERT_GONE] = take_alert_gone,
    [REC_ALERT_EDGE] = take_alert_edge,
    [REC_NOTICE_NEW] = take_notice_new,
    [REC_NOTICE_TRIED] = take_notice_tried,
    [REC_NOTICE_GONE] = take_notice_gone,
    [REC_BREAKER_PUT] = take_breaker_put,
    [REC_BREAKER_GONE] = take_breaker_gone,
    [REC_SCHEDULE_PUT] = take_schedule_put,
    [REC_SCHEDULE_GONE] = take_schedule_gone,
    [REC_SCHEDULE_FIRED] = take_schedule_state,
    [REC_SCHEDULE_PASSED] = take_schedule_state,
    [REC_SCHEDULE_FAILED] = take_schedule_state,
    [REC_JOB_LINKED] = take_job_linked,
    [REC_JOB_PROGRESS] = take_job_report,
    [REC_JOB_LOGGED] = take_job_report,
    [REC_JOB_STEPS] = take_job_steps,
    [REC_JOB_UNBLOCKED] = take_job_unblocked,
    [REC_DEPENDENT_PUT] = dependencies_apply,
    [REC_DEPENDENT_GONE] = dependencies_apply,
    [REC_DEPENDENCIES_NEW] = dependencies_apply,
    [REC_DEPENDENCY_END] = dependencies_apply,
    [REC_PARENT_ENDED] = dependencies_apply,
};

int engine_apply(struct engine *e, const struct record *r)
{
    size_t known = sizeof(takes) / sizeof(takes[0]);
    if ((size_t)r->kind >= known || !takes[r->kind])
        return -ERR_VERSION;
    return takes[r->kind](e, r);
}
