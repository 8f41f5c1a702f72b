/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: who holds a running job, until when, and how past leases ended.
 *
 * `until` counts in lease time. Extending only writes `until`; the heap entry keeps its old order
 * and is moved when it comes up. The ring remembers the last words (ack, fail, release) by token,
 * so that the same word said twice gets the same answer. */
#include "backend/local/engine/engine_impl.h"

#define RESULT_BYTES_MAX LIMIT_PAYLOAD_BYTES

static void nonce_link(struct engine *e, uint32_t handle)
{
    struct lease *l = lease_at(e, handle);
    uint32_t head = map64_get(&e->nonces, l->nonce);
    l->nonce_next = head;
    if (head)
        lease_at(e, head)->nonce_prev = handle;
    CHECK(map64_put(&e->nonces, l->nonce, handle) == 0);
}

static void nonce_unlink(struct engine *e, uint32_t handle)
{
    struct lease *l = lease_at(e, handle);
    if (l->nonce_next)
        lease_at(e, l->nonce_next)->nonce_prev = l->nonce_prev;
    if (l->nonce_prev)
        lease_at(e, l->nonce_prev)->nonce_next = l->nonce_next;
    else if (l->nonce_next)
        CHECK(map64_put(&e->nonces, l->nonce, l->nonce_next) == 0);
    else
        map64_drop(&e->nonces, l->nonce);
}

int leases_start(struct engine *e, uint32_t job, const struct rec_job_claimed *r)
{
    uint32_t worker;
    int err = names_worker(e, r->worker, &worker);
    if (err)
        return err;
    uint32_t handle = slab_take(&e->leases);
    if (!handle) {
        if (worker)
            names_drop_worker(e, worker);
        return -ERR_NOMEM;
    }
    struct lease *l = lease_at(e, handle);
    l->token = r->token;
    l->lease_ms = r->lease_ms;
    l->until = NEVER_MS; /* armed by the claim, or at boot */
    l->place = SIZE_MAX;
    l->worker = worker;
    l->job = job;
    live_at(e, job)->lease = handle;
    return 0;
}

void leases_arm(struct engine *e, struct lease *l)
{
    l->until = lease_now(e, e->now) + l->lease_ms;
    leases_enter(e, l, l->until);
}

void leases_enter(struct engine *e, struct lease *l, int64_t at)
{
    if (l->place != SIZE_MAX)
        heap_remove(&e->leases_end, l->place);
    struct heap_entry entry = {heap_order_of(at), live_at(e, l->job)->lease};
    CHECK(heap_push(&e->leases_end, entry) == 0);
}

void leases_moved(void *engine, struct heap_entry entry, size_t index)
{
    lease_at(engine, (uint32_t)entry.seq)->place = index;
}

void lease_set_nonce(struct engine *e, uint32_t handle, uint64_t nonce)
{
    lease_at(e, handle)->nonce = nonce;
    nonce_link(e, handle);
}

void leases_end(struct engine *e, struct live *l, uint8_t kind)
{
    uint32_t handle = l->lease;
    struct lease *lease = lease_at(e, handle);
    if (kind != OP_TICK)
        ended_put(e, l->job.seq, lease->token, kind, l->job.state, l->job.run_at);
    if (lease->place != SIZE_MAX)
        heap_remove(&e->leases_end, lease->place);
    if (lease->held)
        holds_unlink(e, handle);
    else if (lease->nonce)
        nonce_unlink(e, handle);
    if (lease->worker)
        names_drop_worker(e, lease->worker);
    slab_give(&e->leases, handle);
    l->lease = 0;
}

/* A token's counter is its place in the ring: no index is needed, and what ended last stays. */
static struct ended *ended_slot(const struct engine *e, struct job_token token)
{
    return &e->ring[token.counter & (e->config.finished_ring - 1)];
}

void ended_put(struct engine *e, uint64_t seq, struct job_token token, uint8_t kind, uint8_t state,
               struct wall_time run_at)
{
    struct ended *slot = ended_slot(e, token);
    uint32_t overtaken = slot->overtaken;
    if (token_older(token, slot->token) && slot->token.epoch > overtaken)
        overtaken = slot->token.epoch;
    *slot = (struct ended){.token = token,
                           .seq = seq,
                           .run_at = run_at,
                           .kind = kind,
                           .state = state,
                           .overtaken = overtaken};
}

const struct ended *ended_find(const struct engine *e, uint64_t seq, struct job_token token)
{
    const struct ended *slot = ended_slot(e, token);
    bool found = token.counter && slot->seq == seq && token_equal(slot->token, token);
    return found ? slot : NULL;
}

/* Whether a lease of the job may have ended under this token although ended_find has nothing. It
 * cannot if the token was never issued, if a boot before the job issued it, or if the ring still
 * has the place: then the lease ran out, or was another job's. */
static bool ended_forgotten(const struct engine *e, uint64_t seq, struct job_token token)
{
    const struct ended *slot = ended_slot(e, token);
    if (token.counter == 0 || token.epoch > e->epoch)
        return false;
    if (token.epoch < e->epoch)
        return seq < e->seq_boot || id_spooled(seq);
    if (token.counter > e->token_counter || token_equal(slot->token, token))
        return false;
    return token_older(token, slot->token) || slot->overtaken == e->epoch;
}

void engine_lease_started(struct engine *e, uint64_t seq, struct job_token token, struct now now)
{
    struct live *l = jobs_by_seq(e, seq, NULL);
    if (!l || !l->lease)
        return;
    struct lease *lease = lease_at(e, l->lease);
    if (token_equal(lease->token, token))
        lease->until = lease_now(e, now) + lease->lease_ms;
}

/* --- ack, fail, extend, release: the words of a lease's holder --- */

/* Finds the job and checks the token. NULL: the reply already says why not (or repeats the answer).
 */
static struct live *holder_check(struct engine *e, const struct op *op, struct engine_reply *r,
                                 uint32_t *ret_handle)
{
    const struct op_lease *want = &op->lease;
    struct live *l = jobs_find(e, want->job, ret_handle);
    if (l && name_for_reply(e, queue_of(e, l), &r->reply.queue) != 0) {
        refuse_nomem(r);
        return NULL;
    }
    if (l && want->any_token && queue_of(e, l)->policy.require_token) {
        refuse(r, OUT_INVALID,
               "token is required: the queue's policy (require_token) lets nobody "
               "act on a job by its id alone");
        return NULL;
    }
    if (l) {
        reply_job(r, l);
        if (l->lease && (want->any_token || token_equal(lease_at(e, l->lease)->token, want->token)))
            return l;
        if (l->lease && op->kind == OP_ACK && DEFECT(&e->config, DEFECT_ANY_TOKEN))
            return l;
    }
    const struct ended *before = want->any_token ? NULL : ended_find(e, want->job.seq, want->token);
    if (before && before->kind == op->kind &&
        (!l || !want->job.hi || l->job.id_hi == want->job.hi)) {
        r->reply.seq = before->seq;
        r->reply.state = before->state;
        r->reply.run_at = before->run_at;
        r->reply.repeat = true;
    } else if (!l) {
        bool existed = want->job.seq > 0 && want->job.seq < e->seq_next;
        r->reply.outcome = existed ? OUT_GONE : OUT_NOT_FOUND;
    } else if (want->any_token) {
        r->reply.outcome = OUT_ILLEGAL;
    } else if (l->job.state == STATE_DONE && !before &&
               ended_forgotten(e, l->job.seq, want->token)) {
        r->reply.outcome = OUT_GONE;
    } else {
        r->reply.outcome = OUT_LEASE_LOST;
        /* A waiting job has had no later claim: that of this token was lost with its batch. */
        e->forgotten_claims += !before && want->token.epoch < e->epoch && state_waits(l->job.state);
    }
    return NULL;
}

/* Who holds the lease, and for how long; before the record that ends it. */
static bool holder_named(struct engine *e, const struct live *l, struct engine_reply *r)
{
    struct span name = worker_name(e, lease_at(e, l->lease)->worker);
    int64_t ran = e->now.wall.ms - l->job.since.ms;
    r->reply.ran_ms = ran > 0 && r->reply.kind != OP_EXTEND ? ran : 0;
    if (name.len == 0)
        return true;
    const char *copy = arena_copy(&e->out->arena, name.at, name.len);
    if (!copy)
        return refuse_nomem(r);
    r->reply.worker = span_of(copy, name.len);
    return true;
}

static void finish(struct engine *e, struct engine_reply *r, const struct live *l)
{
    reply_job(r, l);
    r->reply.run_at = l->job.run_at;
    r->after = e->position;
    reply_relaxed(e, r, queue_of(e, l));
}

void op_ack(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    struct live *l = holder_check(e, op, r, NULL);
    if (!l || !body_right(r, op->lease.result_kind, op->lease.result, RESULT_BYTES_MAX) ||
        !holder_named(e, l, r))
        return;
    struct record rec = {
        .kind = REC_JOB_DONE,
        .job_done = {.seq = l->job.seq,
                     .at = e->now.wall,
                     .result_kind = op->lease.result_kind,
                     .result = op->lease.result},
    };
    struct queue *q = queue_of(e, l);
    if (jobs_reserve(e, q, 0, 1, record_bytes_max(&rec)) != 0) {
        refuse_nomem(r);
        return;
    }
    engine_emit(e, &rec);
    q->counts.acked++;
    finish(e, r, l);
}

/* Absolute time from "delay" or "run_at"; false when the values make no sense. */
static bool when_to_run(const struct engine *e, const struct op_lease *want, struct wall_time *ret)
{
    *ret = want->run_at;
    if (want->run_at.ms == 0 && want->has_delay)
        ret->ms = want->delay_ms > LIMIT_WALL_MS - e->now.wall.ms ? LIMIT_WALL_MS
                                                                  : e->now.wall.ms + want->delay_ms;
    return want->run_at.ms >= 0 && want->run_at.ms <= LIMIT_WALL_MS &&
           (!want->has_delay || want->delay_ms >= 0);
}

static void refuse_when(struct engine_reply *r)
{
    r->reply.outcome = OUT_INVALID;
    r->reply.note = "delay_ms must be 0 or more; run_at must be a time before the year 10000";
}

/* noted may be NULL; else it is a record that goes before. So does the new priority, if the holder
 * named one: it is the running job's still. False: refused. */
static bool emit_back_or_dead(struct engine *e, struct engine_reply *r, struct live *l,
                              const struct op_lease *want, const struct record *noted,
                              const struct record *rec)
{
    struct record rank = {.kind = REC_JOB_PRIORITY,
                          .job_priority = {.seq = l->job.seq, .priority = want->priority}};
    bool ranks = want->has_priority && want->priority != l->job.priority;
    if (!holder_named(e, l, r))
        return false;
    size_t more = (noted ? record_bytes_max(noted) : 0) + (ranks ? record_bytes_max(&rank) : 0);
    if (end_reserve(e, l, rec, more) != 0)
        return refuse_nomem(r);
    if (noted)
        engine_emit(e, noted);
    if (ranks)
        engine_emit(e, &rank);
    end_emit(e, l, rec);
    finish(e, r, l);
    return true;
}

void op_fail(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    struct live *l = holder_check(e, op, r, NULL);
    if (!l)
        return;
    const struct op_lease *want = &op->lease;
    struct fail_request f = {.error = want->error,
                             .error_kind = want->error_kind,
                             .no_retry = want->no_retry,
                             .damaged = want->damaged};
    f.has_run_at = want->has_delay || want->run_at.ms != 0;
    if (!when_to_run(e, want, &f.run_at)) {
        refuse_when(r);
        return;
    }
    if (!body_right(r, want->result_kind, want->result, RESULT_BYTES_MAX))
        return;
    if (want->error_kind > ERROR_BUSINESS) {
        r->reply.outcome = OUT_INVALID;
        r->reply.note = "the kind of an error is app (0) or business (1)";
        return;
    }
    struct job_rules rules;
    jobs_rules(e, l, &rules);
    struct record rec;
    decide_fail(&l->job, &rules, &f, queue_of(e, l)->generation, e->now.wall, &e->random, &rec);
    struct op_note result = {
        .has_result = true, .result_kind = want->result_kind, .result = want->result};
    struct record noted;
    if (want->result_kind != PAYLOAD_NONE)
        note_fill(&result, l->job.seq, &noted);
    if (emit_back_or_dead(e, r, l, want, want->result_kind != PAYLOAD_NONE ? &noted : NULL, &rec))
        fates_lease(e, l->job.seq, want->no_retry ? FATE_REJECTED : FATE_NONE);
}

void op_release(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    struct live *l = holder_check(e, op, r, NULL);
    if (!l)
        return;
    struct wall_time run_at;
    if (!when_to_run(e, &op->lease, &run_at)) {
        refuse_when(r);
        return;
    }
    uint32_t generation = queue_of(e, l)->generation;
    char text[LEASE_END_TEXT_BYTES];
    struct record rec;
    if (op->lease.lost) {
        struct job_rules rules;
        jobs_rules(e, l, &rules);
        decide_lease_end(&l->job, &rules, true, generation, e->now.wall, &e->random, text, &rec);
    } else {
        decide_release(&l->job, run_at, generation, e->now.wall, &rec);
    }
    struct job_token token = lease_at(e, l->lease)->token;
    if (!emit_back_or_dead(e, r, l, &op->lease, NULL, &rec))
        return;
    fates_lease(e, l->job.seq,
                op->lease.lost     ? FATE_TIMED_OUT
                : op->lease.unsaid ? FATE_NONE
                                   : FATE_RELEASED);
    /* The record counts as a crash, which no holder's word answers to; this one was said. */
    if (op->lease.lost)
        ended_put(e, l->job.seq, token, OP_RELEASE, l->job.state, l->job.run_at);
}

void op_extend(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    struct live *l = holder_check(e, op, r, NULL);
    if (!l)
        return;
    struct lease *lease = lease_at(e, l->lease);
    if (lease->held) /* without end: there is nothing to lengthen */
        return;
    uint32_t lease_ms = op->lease.lease_ms ? op->lease.lease_ms : lease->lease_ms;
    if (lease_ms < LIMIT_LEASE_MS_MIN || lease_ms > LIMIT_LEASE_MS) {
        r->reply.outcome = OUT_INVALID;
        r->reply.note = "lease_ms must be between 100 and 86400000";
        return;
    }
    struct record rec = {
        .kind = REC_JOB_EXTENDED,
        .job_extended = {.seq = l->job.seq, .lease_ms = lease_ms},
    };
    if (!holder_named(e, l, r))
        return;
    if (emit_reserve(e, record_bytes_max(&rec)) != 0) {
        refuse_nomem(r);
        return;
    }
    engine_emit(e, &rec);
    lease->until = lease_now(e, e->now) + lease_ms;
    /* A shorter lease must come up sooner than its entry would. */
    if (heap_order_of(lease->until) < heap_at(&e->leases_end, lease->place).order)
        leases_arm(e, lease);
    finish(e, r, l);
}

void op_release_claim(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    r->after = e->position;
    uint32_t handle;
    while (op->release_claim.nonce &&
           (handle = map64_get(&e->nonces, op->release_claim.nonce)) != 0) {
        struct live *l = live_at(e, lease_at(e, handle)->job);
        struct queue *q = queue_of(e, l);
        struct record rec;
        decide_release(&l->job, (struct wall_time){0}, q->generation, e->now.wall, &rec);
        if (jobs_doomed(e, l)) {
            /* Its queue is gone; the slice that removes it will end the lease. */
            nonce_unlink(e, handle);
            lease_at(e, handle)->nonce = 0;
            continue;
        }
        if (jobs_reserve(e, q, 0, 1, record_bytes_max(&rec)) != 0) {
            refuse_nomem(r);
            return;
        }
        engine_emit(e, &rec);
        r->reply.count++;
        r->after = e->position;
    }
}
