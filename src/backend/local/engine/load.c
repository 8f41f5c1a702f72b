/* SPDX-License-Identifier: Apache-2.0 */
/* Start: everything a store has becomes resident; newer frames are replayed on top. */
#include "backend/local/engine/engine_impl.h"
#include "core/kvkey.h"
#include "core/records/frame.h"
#include "core/validate.h"

static int load_meta(void *ctx, const struct store_meta *meta)
{
    struct engine *e = ctx;
    e->hash_key = e->ops.hash_key = meta->hash_key;
    e->epoch = meta->epoch;
    e->seq_upto = meta->seq_upto;
    e->position = meta->position;
    return 0;
}

static int load_queue(void *ctx, const struct rec_queue_put *queue, bool gone)
{
    struct engine *e = ctx;
    int err = queues_apply_put(e, queue);
    return err || !gone ? err : queues_apply_gone(e, queue->queue);
}

static int load_counters(void *ctx, uint32_t queue, const struct counters *totals)
{
    return counters_load(ctx, queue, totals);
}

static int load_bulk(void *ctx, const struct stored_bulk *bulk)
{
    struct engine *e = ctx;
    int err = bulk_apply_begin(e, &bulk->begin);
    struct rec_bulk_step step = {
        .bulk = bulk->begin.bulk, .changed = bulk->changed, .refused = bulk->refused};
    return err ? err : bulk_apply_step(e, &step);
}

/* jobs_reserve without a frame to write to. */
static int reserve_indexes(struct engine *e, struct queue *q)
{
    int err = heap_reserve(&q->ready, 1);
    if (!err)
        err = heap_reserve(&q->due, 1);
    if (!err)
        err = heap_reserve(&e->due_queues, 2);
    if (!err)
        err = heap_reserve(&e->prune_queues, 3);
    if (!err)
        err = mapref_reserve(&e->uniques, 1);
    if (!err)
        err = heap_reserve(&e->expiries, 1);
    if (!err)
        err = ranks_reserve(q, 1, 1);
    if (!err && q->flow)
        err = limits_reserve(e, q, 1);
    return err;
}

/* The report of the holder of the newest token, as far as the row still shows it. */
static void load_report(struct engine *e, const struct stored_job *j)
{
    uint8_t kind = j->job.state == STATE_DONE ? OP_ACK : reason_report(j->job.reason);
    if (kind != OP_TICK && j->token.counter)
        kept_reply_put(e, j->job.seq, j->token, kind, j->job.state, j->job.run_at);
}

static int load_lease(struct engine *e, uint32_t handle, const struct stored_job *j)
{
    struct rec_job_claimed claimed = {
        .seq = j->job.seq, .token = j->token, .lease_ms = j->lease_ms, .worker = j->worker};
    int err = names_reserve(e, 1);
    if (!err)
        err = leases_start(e, handle, &claimed);
    if (!err)
        lease_at(e, live_at(e, handle)->lease)->limits = j->limits;
    return err;
}

static int load_job(void *ctx, const struct stored_job *j)
{
    struct engine *e = ctx;
    struct queue *q = queue_at(e, j->job.queue);
    uint32_t handle;
    if (!q)
        return -ERR_CORRUPT;
    int err = reserve_indexes(e, q);
    if (!err)
        err = jobs_add(e, &j->job, &j->extra, &handle);
    if (!err && j->job.state == STATE_RUNNING)
        err = load_lease(e, handle, j);
    else if (!err)
        load_report(e, j);
    seqs_seen(e, j->job.seq);
    return err;
}

static int load_key(void *ctx, const struct rec_key_new *key)
{
    struct engine *e = ctx;
    return keys_apply_new(e, key);
}

/* A record that could not be one is refused here, since no frame has been through record_decode. */
static int load_kv(void *ctx, const struct rec_kv_set *kv, uint64_t bytes)
{
    struct engine *e = ctx;
    struct rec_kv_from_job set = {
        .key = kv->key, .version = kv->version, .kind = kv->kind, .bytes = (uint32_t)bytes};
    if (kvkey_check(kv->key) != 0 || kv->version == 0 || kv->version > e->position ||
        bytes > LIMIT_PAYLOAD_BYTES || kv_find(e, kv->key, NULL))
        return -ERR_CORRUPT;
    int err = kv_reserve(e, 1);
    if (!err)
        err = kv_load(e, &set, kv->expires_at);
    return err;
}

static int load_undelivered(void *ctx, uint64_t seq, struct span keys)
{
    struct engine *e = ctx;
    uint32_t count;
    if (!jobs_by_seq(e, seq, NULL) || validate_undelivered(keys, &count) != 0)
        return -ERR_CORRUPT;
    return undelivered_apply(e, seq, keys);
}

static int load_step(void *ctx, uint64_t seq, struct span name, size_t result_bytes)
{
    struct engine *e = ctx;
    return jobs_by_seq(e, seq, NULL) ? steps_load(e, seq, name, result_bytes) : -ERR_CORRUPT;
}

static int load_notes(void *ctx, const struct record *record)
{
    return engine_apply(ctx, record);
}

static int load_schedule(void *ctx, const struct rec_schedule_put *schedule)
{
    return schedules_apply_put(ctx, schedule);
}

/* A link to an item that no job holds any more has no effect. */
static int load_link(void *ctx, const struct stored_link *link)
{
    struct engine *e = ctx;
    const struct live *l = jobs_by_seq(e, link->item, NULL);
    bool holds = l && l->lease && lease_at(e, l->lease)->lease_ms == 0;
    return holds ? holds_link(e, link->item, link->job) : 0;
}

static int load_dependent(void *ctx, const struct rec_dependent_put *dependent)
{
    return dependencies_load_put(ctx, dependent);
}

static int load_dependency(void *ctx, uint64_t child, uint64_t parent)
{
    return dependencies_load_edge(ctx, child, parent);
}

static int load_parent_ended(void *ctx, uint64_t parent, uint8_t how)
{
    return dependencies_load_parent(ctx, parent, how);
}

static int load_numbers(void *ctx, const struct store_numbers *numbers)
{
    struct engine *e = ctx;
    if (numbers->queue >= e->queue_next)
        e->queue_next = numbers->queue + 1;
    if (numbers->schedule >= e->schedule_next)
        e->schedule_next = numbers->schedule + 1;
    return 0;
}

int engine_load(struct engine *e, struct store *store, struct err_note *note)
{
    struct store_sink sink = {
        .ctx = e,
        .meta = load_meta,
        .queue = load_queue,
        .counters = load_counters,
        .bulk = load_bulk,
        .job = load_job,
        .key = load_key,
        .kv = load_kv,
        .undelivered = load_undelivered,
        .step = load_step,
        .record = load_notes,
        .schedule = load_schedule,
        .link = load_link,
        .dependent = load_dependent,
        .dependency = load_dependency,
        .parent_ended = load_parent_ended,
        .numbers = load_numbers,
    };
    int err = store->ops->load(store, &sink, note);
    return err ? err : lists_by_age(e);
}

/* Retention was scheduled while the jobs were loaded by sequence; only now is the oldest
 * finished job known. */
int lists_by_age(struct engine *e)
{
    int err = 0;
    jobs_sort_lists(e);
    for (size_t n = 0; !err && n < e->queue_total; n++) {
        if (e->queues[n] && !e->queues[n]->gone)
            err = heap_reserve(&e->prune_queues, 3);
        if (!err && e->queues[n] && !e->queues[n]->gone)
            queues_arm_prune(e, e->queues[n]);
    }
    return err;
}

static int replay_reserve(struct engine *e, const struct record *r)
{
    uint32_t number = r->kind == REC_JOB_NEW ? r->job_new.job.queue : 0;
    const struct live *l = jobs_by_seq(e, record_job_seq(r), NULL);
    if (l)
        number = l->job.queue;
    struct queue *q = queue_at(e, number);
    int err = q ? reserve_indexes(e, q) : 0;
    if (!err)
        err = names_reserve(e, 1);
    if (!err)
        err = slab_reserve(&e->extras, 1);
    if (!err)
        err = heap_reserve(&e->leases_end, 1);
    if (!err && r->kind >= REC_KV_SET)
        err = kv_reserve(e, 1);
    return err;
}

int engine_replay(struct engine *e, struct span text, struct err_note *note)
{
    struct frame frame;
    int err = frame_decode(&text, &frame);
    if (err)
        return err_note_set(note, err, "a journal frame cannot be read: %s", err_text(err));
    if (frame.first + frame.count - 1 <= e->position)
        return 0;
    if (frame.first != e->position + 1)
        return err_note_set(note, -ERR_CORRUPT, "frame %llu does not follow record %llu",
                            (unsigned long long)frame.first, (unsigned long long)e->position);
    for (uint32_t i = 0; i < frame.count; i++) {
        struct record r;
        err = record_decode(&frame.body, &r);
        if (!err)
            err = replay_reserve(e, &r);
        e->position++;
        if (!err)
            err = engine_apply(e, &r);
        if (err)
            return err_note_set(note, err, "record %llu cannot be replayed: %s",
                                (unsigned long long)e->position, err_text(err));
    }
    return 0;
}
