/* SPDX-License-Identifier: Apache-2.0 */
/* The engine as the state on which operations work: struct ops_store on the engine's tables.
 *
 * Memory is reserved before the first record of an operation (prepare), so that the records of one
 * operation take effect together or not at all. A job that dies also leaves its payload at the keys
 * that it names, and raises notices: the records of these follow its own. */
#include "backend/local/engine/engine_impl.h"

static struct live *live_of(const struct job *j)
{
    return (struct live *)(uintptr_t)j;
}

static struct queue_state *state_of(struct queue *q)
{
    return (struct queue_state *)q;
}

/* --- jobs and queues --- */

static struct job *engine_job_find(struct ops *o, struct job_ref ref,
                                   const struct queue_state **ret_queue)
{
    struct engine *e = engine_of(o);
    struct live *l = jobs_find(e, ref, NULL);
    if (!l)
        return NULL;
    *ret_queue = state_of(queue_of(e, l));
    return &l->job;
}

static bool engine_seq_issued(const struct ops *o, uint64_t seq)
{
    return seq > 0 && seq < engine_of(o)->seq_next;
}

static const struct queue_state *engine_job_queue(const struct ops *o, const struct job *j)
{
    return state_of(queue_at(engine_of(o), j->queue));
}

static bool engine_state_queue_name(struct ops *o, const struct queue_state *q, struct span *ret)
{
    return name_for_reply(engine_of(o), queue_from(q), ret) == 0;
}

static void engine_job_rules(const struct ops *o, const struct job *j, struct job_options *room,
                             struct job_rules *ret)
{
    (void)room;
    jobs_rules(engine_of(o), live_of(j), ret);
}

struct live *key_rival(struct engine *e, const struct live *l)
{
    if (!l->extra || hash128_none(extra_unique(extra_at(e, l->extra))))
        return NULL;
    struct live *holder = jobs_unique_holder(e, extra_unique(extra_at(e, l->extra)));
    return holder && holder != l ? holder : NULL;
}

static struct job *engine_key_rival(struct ops *o, const struct job *j)
{
    struct live *l = key_rival(engine_of(o), live_of(j));
    return l ? &l->job : NULL;
}

/* --- leases --- */

static bool engine_lease(const struct ops *o, const struct job *j, struct lease_state *ret)
{
    const struct engine *e = engine_of(o);
    const struct live *l = live_of(j);
    if (!l->lease)
        return false;
    const struct lease *lease = lease_at(e, l->lease);
    *ret = (struct lease_state){.token = lease->token,
                                .lease_ms = lease->held ? 0 : lease->lease_ms,
                                .worker = worker_name(e, lease->worker),
                                .limits = lease->limits,
                                .limit_left_ms = INT64_MAX,
                                .limited = lease->limit <= lease->until};
    if (lease->limit != NEVER_MS)
        ret->limit_left_ms = lease->limit - lease_now(e, e->now);
    return true;
}

static bool engine_report_find(const struct ops *o, uint64_t seq, struct job_token token,
                               struct lease_report *ret)
{
    const struct kept_reply_slot *kept = kept_reply_find(engine_of(o), seq, token);
    if (!kept)
        return false;
    *ret = (struct lease_report){kept->kind, kept->state, kept->run_at};
    return true;
}

static bool engine_report_forgotten(struct ops *o, const struct job *j, struct job_token token)
{
    struct engine *e = engine_of(o);
    /* A waiting job has had no later claim: that of this token was lost with its batch. */
    e->forgotten_claims += token.epoch < e->epoch && state_waits(j->state);
    return kept_reply_forgotten(e, j->seq, token);
}

static void engine_report_keep(struct ops *o, const struct job *j, struct job_token token,
                               uint8_t kind)
{
    kept_reply_put(engine_of(o), j->seq, token, kind, j->state, j->run_at);
}

static void engine_count_ending(struct ops *o, struct job *j, enum lease_ending how)
{
    outcome_counts_ending(engine_of(o), j->seq, how);
}

static void engine_count_requeue(struct ops *o, struct job *j)
{
    outcome_counts_requeue(engine_of(o), j->seq);
}

static struct job *engine_claimed_by(struct ops *o, uint64_t nonce)
{
    struct live *l = leases_by_nonce(engine_of(o), nonce);
    return l ? &l->job : NULL;
}

/* --- claims --- */

static const struct queue_state *engine_queue_find(struct ops *o, struct span name)
{
    return state_of(queues_find(engine_of(o), name));
}

static uint64_t engine_ready_count(const struct ops *o, const struct queue_state *q)
{
    (void)o;
    return queue_from(q)->lists[STATE_READY].count;
}

static bool engine_ready_next(struct ops *o, const struct queue_state *q,
                              struct heap_entry *ret_order, struct job **ret)
{
    int err = 0;
    struct live *l = claim_top(engine_of(o), queue_from(q), ret_order, &err);
    *ret = l ? &l->job : NULL;
    o->nomem |= err != 0;
    return err == 0;
}

static enum claim_block engine_claim_room(struct ops *o, const struct queue_state *q,
                                          const struct job *j, int64_t *ret_at_us)
{
    *ret_at_us = 0;
    return limits_of_job(engine_of(o), queue_from(q), live_of(j), ret_at_us);
}

static struct job_token engine_token_next(struct ops *o)
{
    struct engine *e = engine_of(o);
    return (struct job_token){.counter = ++e->token_counter, .epoch = e->epoch};
}

static bool engine_lease_start(struct ops *o, struct job *j, const struct op_claim *want,
                               struct record *rec, struct job_view *view)
{
    struct engine *e = engine_of(o);
    struct live *l = live_of(j);
    view->position = l->position; /* the claim's reply waits for what it depends on */
    if (claim_reserve(e, l, want, rec) != 0)
        return false;
    if (view->position > e->reply->after)
        e->reply->after = view->position;
    rec->job_claimed.token = engine_token_next(o);
    engine_emit(e, rec);
    claim_finish(e, l, want, view);
    return true;
}

static bool engine_claim_reply(struct ops *o, struct reply *r, struct job_view *views,
                               struct job **jobs, uint32_t count, bool want_body)
{
    struct engine *e = engine_of(o);
    (void)jobs;
    r->jobs = e->reply->views = views;
    r->job_count = count;
    e->reply->want_body = want_body;
    return true;
}

/* --- enqueues --- */

static struct job *engine_job_by_seq(struct ops *o, uint64_t seq)
{
    struct live *l = jobs_by_seq(engine_of(o), seq, NULL);
    return l ? &l->job : NULL;
}

static struct job *engine_key_holder(struct ops *o, struct queue_state *q, struct span key)
{
    struct engine *e = engine_of(o);
    struct live *l = jobs_unique_holder(e, hash128_scoped(e->hash_key, q->number, key));
    return l ? &l->job : NULL;
}

static uint64_t engine_queue_live(struct ops *o, const struct queue_state *state)
{
    const struct queue *q = queue_from(state);
    (void)o;
    return q->lists[STATE_SCHEDULED].count + q->lists[STATE_READY].count +
           q->lists[STATE_RUNNING].count + q->lists[STATE_BLOCKED].count;
}

static uint64_t engine_live(struct ops *o)
{
    return engine_of(o)->live;
}

static bool engine_queue_room(struct ops *o, size_t ahead, bool implied)
{
    return queue_may_be_added(engine_of(o), ahead, implied);
}

static struct queue_state *engine_queue_create(struct ops *o, struct span name)
{
    struct queue *q;
    return queues_create(engine_of(o), name, &q) == 0 ? state_of(q) : NULL;
}

static bool engine_idempotency_find(struct ops *o, struct hash128 key,
                                    struct idempotency_state *ret)
{
    return enqueue_key_find(engine_of(o), key, ret);
}

static enum outcome engine_idempotency_room(struct ops *o, struct hash128 key, size_t ahead)
{
    return enqueue_key_room(engine_of(o), key, ahead);
}

static void engine_idempotency_keep(struct ops *o, struct hash128 key, uint64_t fingerprint,
                                    const struct job *j)
{
    enqueue_key_keep(engine_of(o), key, fingerprint, j);
}

static enum outcome engine_seq_room(struct ops *o, const struct op_enqueue *want, size_t ahead,
                                    const char **note)
{
    return seqs_room(engine_of(o), want, ahead, note);
}

static int64_t engine_rate_full_us(struct ops *o, const struct rate_share *share)
{
    return rates_full_us(engine_of(o), share);
}

static void engine_rate_take(struct ops *o, const struct rate_share *share)
{
    rates_take(engine_of(o), share);
}

static bool engine_enqueues_prepare(struct ops *o, const struct enqueue_plan *plans, size_t count,
                                    const struct op_kv_commit *keys, size_t more)
{
    struct engine *e = engine_of(o);
    int err = keys ? kv_commit_reserve(e, keys, &more) : 0;
    if (!err)
        err = enqueues_reserve(e, plans, count, more);
    if (err)
        kv_texts_drop(e);
    return err == 0;
}

static struct job *engine_job_create(struct ops *o, struct enqueue_plan *p)
{
    return &enqueue_emit(engine_of(o), p)->job;
}

/* --- keys of the key-value store --- */

static struct kv_state engine_kv_find(struct ops *o, struct span key)
{
    const struct engine *e = engine_of(o);
    const struct kv *k = kv_find(e, key, NULL), *seen = k ? kv_seen(e, key) : NULL;
    return (struct kv_state){
        .stored = k != NULL, .bytes = k ? k->bytes : 0, .version = seen ? seen->version : 0};
}

static struct kv_usage engine_kv_used(struct ops *o)
{
    return (struct kv_usage){engine_of(o)->kvs.used, engine_of(o)->kv_bytes};
}

static uint64_t engine_kv_version(struct ops *o)
{
    return engine_of(o)->position + 1;
}

static void engine_kv_set(struct ops *o, const struct kv_set *set, uint64_t version)
{
    kv_emit_set(engine_of(o), set, version);
}

static uint32_t engine_kv_delete(struct ops *o, const struct span *keys, uint32_t count,
                                 uint64_t version)
{
    return kv_emit_gone(engine_of(o), keys, count, version);
}

/* --- schedules --- */

static struct schedule *schedule_from(const struct schedule_base *s)
{
    return (struct schedule *)(uintptr_t)s;
}

static struct schedule_base *engine_schedule_find(struct ops *o, struct span name)
{
    return (struct schedule_base *)schedules_find(engine_of(o), name);
}

static void engine_schedule_names(struct ops *o, const struct schedule_base *s,
                                  struct span *ret_name, struct span *ret_owner)
{
    (void)o;
    *ret_name = schedule_name(schedule_from(s));
    *ret_owner = schedule_owner(schedule_from(s));
}

static uint64_t engine_schedule_count(const struct ops *o)
{
    return engine_of(o)->schedule_count;
}

static uint32_t engine_schedule_number(const struct ops *o)
{
    uint32_t next = engine_of(o)->schedule_next;
    return next == UINT32_MAX ? 0 : next;
}

static bool engine_schedule_flows(struct ops *o, struct span but, const struct schedule_flow **ret,
                                  size_t *ret_count)
{
    return schedules_flows(engine_of(o), but, ret, ret_count);
}

static void engine_schedule_read(const struct ops *o, const struct schedule_base *s,
                                 struct rec_schedule_put *ret)
{
    (void)o;
    schedules_read(schedule_from(s), ret);
}

static struct schedule_base *engine_schedule_put(struct ops *o, struct schedule_base *s,
                                                 const struct rec_schedule_put *put,
                                                 const struct schedule_spec *spec)
{
    (void)s, (void)spec;
    return (struct schedule_base *)schedules_put(engine_of(o), put);
}

static bool engine_schedule_delete(struct ops *o, struct schedule_base *s)
{
    return schedules_delete(engine_of(o), schedule_from(s));
}

static bool engine_schedule_last_live(struct ops *o, const struct schedule_base *s)
{
    const struct live *l =
        jobs_find(engine_of(o), (struct job_ref){s->state.seq, s->state.id_hi}, NULL);
    return l && state_lives(l->job.state);
}

static void engine_schedule_show(struct ops *o, const struct schedule_base *s, struct reply *r)
{
    (void)r;
    schedule_show(engine_of(o), schedule_from(s), engine_of(o)->reply);
}

static bool engine_schedule_prepare(struct ops *o, const struct record *rec)
{
    return emit_reserve(engine_of(o), record_bytes_max(rec)) == 0;
}

static void engine_schedule_step(struct ops *o, struct schedule_base *s, const struct record *rec,
                                 const struct job *job)
{
    struct engine *e = engine_of(o);
    engine_emit(e, rec);
    if (rec->kind == REC_SCHEDULE_FIRED)
        events_schedule(e, EVENT_SCHEDULE_FIRED, schedule_from(s), live_of(job));
    else if (rec->kind == REC_SCHEDULE_FAILED && rec->schedule_state.state.failures == 1)
        events_schedule(e, EVENT_SCHEDULE_FAILED, schedule_from(s), NULL);
}

static struct span engine_queue_owner(struct ops *o, const struct queue_state *q)
{
    (void)o;
    return queue_owner(queue_from(q));
}

static void engine_item_take(struct ops *o, const struct queue_state *q)
{
    struct heap_entry top;
    if (queue_from(q)->flow)
        limits_item_take(engine_of(o), queue_from(q));
    else
        heap_pop(&queue_from(q)->ready, &top);
}

static void engine_item_return(struct ops *o, struct job *j)
{
    struct engine *e = engine_of(o);
    struct queue *q = queue_at(e, j->queue);
    struct heap_entry entry = {ready_order(q, j), ready_seq(e, j)};
    if (q->flow)
        limits_item_return(e, q, live_of(j));
    else
        CHECK(heap_push(&q->ready, entry) == 0); /* it has just left it */
}

static struct job_token engine_token_ahead(struct ops *o, uint32_t index)
{
    const struct engine *e = engine_of(o);
    return (struct job_token){.counter = e->token_counter + 1 + index, .epoch = e->epoch};
}

/* A claim without a worker has at most CLAIM_BYTES; the link has a list of the items. */
#define CLAIM_BYTES 64

static bool engine_items_prepare(struct ops *o, const struct queue_state *q, uint32_t count,
                                 size_t *more)
{
    struct engine *e = engine_of(o);
    *more += (size_t)count * (CLAIM_BYTES + BUF_VARINT_MAX) + 128;
    buf_clear(&e->scratch);
    return jobs_reserve(e, queue_from(q), 0, (size_t)count + 4, 0) == 0 &&
           slab_reserve(&e->leases, count) == 0 && holds_reserve(e) == 0 &&
           buf_reserve(&e->scratch, (size_t)count * BUF_VARINT_MAX + POLICY_BYTES_MAX) == 0;
}

static void engine_items_link(struct ops *o, const struct job *holder, struct job **items,
                              uint32_t count)
{
    struct engine *e = engine_of(o);
    uint64_t previous = 0;
    buf_clear(&e->scratch);
    for (uint32_t i = 0; i < count; i++)
        CHECK(record_seq_append(&e->scratch, &previous, items[i]->seq) == 0);
    struct record rec = {
        .kind = REC_JOB_LINKED,
        .job_linked = {.seq = holder->seq,
                       .id_hi = holder->id_hi,
                       .count = count,
                       .items = buf_span(&e->scratch)},
    };
    engine_emit(e, &rec);
    struct queue *q = queue_at(e, items[0]->queue);
    for (uint32_t i = 0; q->flow && i < count; i++)
        limits_item_end(e, q, live_of(items[i]));
}

/* --- changes --- */

/* The keys at which a job that dies leaves its payload; empty = none. */
static struct span keys_left(const struct engine *e, const struct record *rec)
{
    if (rec->kind != REC_JOB_DEAD || map64_count(&e->undelivered_map) == 0)
        return (struct span){NULL, 0};
    return undelivered_of(e, rec->job_dead.seq);
}

static struct record left_at(const struct job *j, struct span key, uint64_t version)
{
    return (struct record){.kind = REC_KV_FROM_JOB,
                           .kv_from_job = {.seq = j->seq,
                                           .key = key,
                                           .version = version,
                                           .kind = j->payload_kind,
                                           .bytes = j->payload_bytes}};
}

static int reserve_keys_left(struct engine *e, const struct job *j, struct span keys, size_t *bytes)
{
    struct span key;
    size_t count = 0;
    int err = 0;
    for (; !err && keys.len > 0; count++) {
        CHECK(record_span_next(&keys, &key) == 0);
        struct record left = left_at(j, key, 1);
        *bytes += record_bytes_max(&left);
        err = kv_reserve_text(e, key);
    }
    return err || count == 0 ? err : kv_reserve(e, count);
}

static int reserve_end(struct engine *e, struct live *l, const struct record *rec, size_t bytes)
{
    struct queue *q = queue_of(e, l);
    int err = reserve_keys_left(e, &l->job, keys_left(e, rec), &bytes);
    if (!err && rec->kind == REC_JOB_DEAD)
        err = alerts_dead_reserve(e, q, &bytes);
    if (!err && rec->kind == REC_JOB_CANCEL_REQUESTED)
        err = heap_reserve(&e->leases_end, 1);
    if (!err)
        err = jobs_reserve(e, q, 0, 1, bytes);
    if (err)
        kv_texts_drop(e);
    return err;
}

/* An annotation may give texts to a job that had none. */
static int reserve_texts(struct engine *e, const struct record *rec)
{
    if (rec->kind != REC_JOB_NOTED || !(rec->job_noted.has_label || rec->job_noted.has_attributes))
        return 0;
    int err = slab_reserve(&e->extras, 1);
    return err ? err : names_reserve(e, 1);
}

static bool engine_prepare(struct ops *o, struct job *j, const struct record *recs, size_t count)
{
    struct engine *e = engine_of(o);
    size_t bytes = 0;
    int err = dependencies_secure(e, j->seq) ? 0 : -ERR_NOMEM;
    for (size_t i = 0; i < count && !err; i++) {
        bytes += record_bytes_max(&recs[i]);
        err = reserve_texts(e, &recs[i]);
        if (!err && recs[i].kind == REC_JOB_STEPS)
            err = steps_reserve(e, j->seq, recs[i].job_report.text);
    }
    if (err)
        kv_texts_drop(e);
    return err == 0 && reserve_end(e, live_of(j), &recs[count - 1], bytes) == 0;
}

static struct span engine_steps(struct ops *o, const struct job *j)
{
    return steps_of(engine_of(o), j->seq);
}

static void commit_dead(struct engine *e, const struct job *j, const struct record *rec)
{
    struct span keys = keys_left(e, rec), key;
    engine_emit(e, rec);
    uint64_t version = e->position + 1;
    while (keys.len > 0) {
        CHECK(record_span_next(&keys, &key) == 0);
        struct record left = left_at(j, key, version);
        engine_emit(e, &left);
    }
    kv_texts_drop(e);
}

static void engine_commit(struct ops *o, struct job *j, const struct record *rec)
{
    struct engine *e = engine_of(o);
    if (rec->kind == REC_JOB_DEAD) {
        commit_dead(e, j, rec);
        return;
    }
    engine_emit(e, rec);
    if (rec->kind == REC_JOB_EXTENDED)
        leases_extended(e, lease_at(e, live_of(j)->lease));
    else if (rec->kind == REC_JOB_CANCEL_REQUESTED)
        leases_cancel_requested(e, lease_at(e, live_of(j)->lease));
}

static bool engine_remove(struct ops *o, struct job *j)
{
    struct engine *e = engine_of(o);
    uint64_t previous = 0;
    buf_clear(&e->scratch);
    if (!dependencies_secure(e, j->seq) || record_seq_append(&e->scratch, &previous, j->seq) != 0)
        return false;
    struct record rec = {
        .kind = REC_JOBS_GONE,
        .jobs_gone = {.count = 1, .seqs = buf_span(&e->scratch)},
    };
    if (jobs_reserve(e, queue_at(e, j->queue), 0, 1, record_bytes_max(&rec)) != 0)
        return false;
    engine_emit(e, &rec);
    return true;
}

const struct ops_store engine_ops_store = {
    .job_find = engine_job_find,
    .seq_issued = engine_seq_issued,
    .job_queue = engine_job_queue,
    .queue_name = engine_state_queue_name,
    .job_rules = engine_job_rules,
    .key_rival = engine_key_rival,
    .queue_count = queues_count,
    .queue_read = queues_read,
    .scope_waits = queues_scope_waits,
    .keys_shared = queues_keys_shared,
    .queue_put = queues_put,
    .queue_commit = queues_commit,
    .bulk_count = bulk_count,
    .bulk_begin = bulk_begin,
    .alert_find = alerts_named,
    .alert_at = alerts_at,
    .alert_notices = alerts_notices,
    .raised = alerts_raised,
    .raised_count = alerts_raised_count,
    .alert_commit = alerts_commit,
    .notice_new = notices_new,
    .notice_find = notices_find,
    .notice_alert = notices_alert,
    .notice_commit = notices_commit,
    .notices_begin = notices_begin,
    .notice_due = notices_due,
    .notice_look = notices_look,
    .notices_next = notices_next,
    .notices_release = notices_release,
    .breaker_find = breakers_find,
    .breaker_next = breakers_next,
    .breaker_commit = breakers_commit,
    .breaker_named_count = breakers_named_count,
    .lease = engine_lease,
    .report_find = engine_report_find,
    .report_forgotten = engine_report_forgotten,
    .report_keep = engine_report_keep,
    .count_ending = engine_count_ending,
    .count_requeue = engine_count_requeue,
    .claimed_by = engine_claimed_by,
    .queue_find = engine_queue_find,
    .ready_count = engine_ready_count,
    .ready_next = engine_ready_next,
    .claim_room = engine_claim_room,
    .token_next = engine_token_next,
    .lease_start = engine_lease_start,
    .claim_reply = engine_claim_reply,
    .job_by_seq = engine_job_by_seq,
    .key_holder = engine_key_holder,
    .queue_live = engine_queue_live,
    .live = engine_live,
    .queue_room = engine_queue_room,
    .queue_create = engine_queue_create,
    .idempotency_find = engine_idempotency_find,
    .idempotency_room = engine_idempotency_room,
    .idempotency_keep = engine_idempotency_keep,
    .seq_room = engine_seq_room,
    .rate_full_us = engine_rate_full_us,
    .rate_take = engine_rate_take,
    .enqueues_prepare = engine_enqueues_prepare,
    .job_create = engine_job_create,
    .kv_find = engine_kv_find,
    .kv_used = engine_kv_used,
    .kv_version = engine_kv_version,
    .kv_set = engine_kv_set,
    .kv_delete = engine_kv_delete,
    .schedule_find = engine_schedule_find,
    .schedule_names = engine_schedule_names,
    .schedule_count = engine_schedule_count,
    .schedule_number = engine_schedule_number,
    .schedule_flows = engine_schedule_flows,
    .schedule_read = engine_schedule_read,
    .schedule_put = engine_schedule_put,
    .schedule_delete = engine_schedule_delete,
    .schedule_last_live = engine_schedule_last_live,
    .schedule_show = engine_schedule_show,
    .schedule_prepare = engine_schedule_prepare,
    .schedule_step = engine_schedule_step,
    .queue_owner = engine_queue_owner,
    .item_take = engine_item_take,
    .item_return = engine_item_return,
    .token_ahead = engine_token_ahead,
    .items_prepare = engine_items_prepare,
    .items_link = engine_items_link,
    .prepare = engine_prepare,
    .commit = engine_commit,
    .steps = engine_steps,
    .remove = engine_remove,
    .dependencies = &engine_dependency_store,
};
