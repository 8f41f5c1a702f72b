/* SPDX-License-Identifier: Apache-2.0 */
/* Moves the jobs of the spool to the primary, in rounds of up to DRAIN_BATCH jobs, one round at a
 * time: find jobs that wait in the spool, seize them, enqueue them in the primary, remove them from
 * the spool. A queue that the primary lacks is created there first, as the spool has it. impl.h
 * says what a crash between these steps does. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/failover/impl.h"
#include "backend/reply_copy.h"
#include "base/mem.h"
#include "core/limits.h"

static void find(struct failover *f);
static void move(struct failover *f);

enum drain_outcome fo_drain_outcome(const struct failover *f, uint64_t inner_seq)
{
    for (size_t i = 0; i < f->drain.count; i++) {
        if (f->drain.jobs[i].at.seq == inner_seq)
            return f->drain.jobs[i].outcome;
    }
    return DRAIN_NONE;
}

static void drop_job(struct drain_job *j)
{
    mem_free(j->held);
    *j = (struct drain_job){.held = NULL};
}

static void drop_queues(struct drain *w)
{
    for (size_t i = 0; i < w->queue_count; i++)
        mem_free(w->queues[i]);
    w->queue_count = 0;
}

void fo_drain_done(struct failover *f)
{
    for (size_t i = 0; i < f->drain.count; i++)
        drop_job(&f->drain.jobs[i]);
    f->drain.count = 0;
    drop_queues(&f->drain);
}

static void finish(struct failover *f)
{
    f->drain.phase = DRAIN_IDLE;
    fo_close_further(f);
}

/* Submits the first operations of w->ops to one of the two stores; false: it took none. */
static bool ask(struct failover *f, struct backend *store, size_t count, backend_reply_fn fn)
{
    if (f->fanout.closing || !store || backend_submit(store, f->drain.ops, count, fn, f) != 0)
        return false;
    f->drain.waiting = count;
    return true;
}

/* --- the end of a round --- */

/* Jobs whose outcome is unknown stay for the next round. */
static void next_round(struct failover *f)
{
    struct drain *w = &f->drain;
    size_t kept = 0;
    for (size_t i = 0; i < w->count; i++) {
        if (w->jobs[i].outcome == DRAIN_UNKNOWN) {
            struct drain_job j = w->jobs[i];
            w->jobs[i] = (struct drain_job){.held = NULL};
            w->jobs[kept++] = j;
        } else {
            drop_job(&w->jobs[i]);
        }
    }
    w->count = kept;
    if (f->up && !f->fanout.closing && kept == 0 && w->after != 0)
        find(f);
    else
        finish(f);
}

static void ended_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    (void)reply;
    if (--f->drain.waiting == 0)
        next_round(f);
}

static void add_removal(struct drain_job *j, struct op **to)
{
    if (j->token.counter != 0)
        *(*to)++ = (struct op){.kind = OP_RELEASE,
                               .lease = {.job = j->at, .token = j->token, .unsaid = true}};
    *(*to)++ = (struct op){.kind = OP_REMOVE, .job = {.job = j->at}};
}

static void add_release(struct drain_job *j, struct op **to)
{
    if (j->token.counter == 0)
        return;
    *(*to)++ = (struct op){.kind = OP_RELEASE,
                           .lease = {.job = j->at,
                                     .token = j->token,
                                     .unsaid = true,
                                     .has_delay = j->held->jobs[0].job.run_at.ms != 0,
                                     .run_at = j->held->jobs[0].job.run_at}};
}

/* Release and removal of a job are neighbours in one batch, so no claim comes between them. */
static void end_round(struct failover *f)
{
    struct drain *w = &f->drain;
    struct op *to = w->ops;
    w->phase = DRAIN_END;
    for (size_t i = 0; i < w->count; i++) {
        if (w->jobs[i].outcome == DRAIN_MOVED)
            add_removal(&w->jobs[i], &to);
        else if (w->jobs[i].outcome == DRAIN_REFUSED)
            add_release(&w->jobs[i], &to);
    }
    if (to == w->ops)
        next_round(f);
    else if (!ask(f, f->spool, (size_t)(to - w->ops), ended_cb))
        finish(f); /* the next process that opens the spool finds them seized */
}

static void log_refusal(struct failover *f, const struct reply *reply)
{
    if (!f->drain.refused)
        log_event(f->config.log, LOG_WARN, "spooled_job_not_taken",
                  LOG_TEXT("outcome", outcome_name(reply->outcome)),
                  LOG_TEXT("why", reply->note ? reply->note : ""),
                  LOG_TEXT("next", "it stays in the spool and is tried again"));
    f->drain.refused = true;
}

/* --- queues that the primary lacks --- */

static void created_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    if (reply->outcome == OUT_UNAVAILABLE)
        fo_down(f, reply->note ? reply->note : "unavailable");
    else if (reply->outcome != OUT_OK && reply->outcome != OUT_EXISTS &&
             reply->outcome != OUT_UNKNOWN)
        log_refusal(f, reply);
    if (--f->drain.waiting > 0)
        return;
    drop_queues(&f->drain);
    move(f);
}

static struct op create_op(const struct queue_view *v)
{
    return (struct op){.kind = OP_QUEUE_PUT,
                       .queue = {.name = v->name,
                                 .must_create = true,
                                 .implied = true,
                                 .policy = v->policy,
                                 .has_owner = true,
                                 .owner = v->owner,
                                 .has_note = true,
                                 .note = fo_note_out(v->note),
                                 .has_attributes = true,
                                 .attributes = v->attributes,
                                 .has_until = true,
                                 .until = v->paused_until}};
}

static void queue_read_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct drain *w = &f->drain;
    bool there = reply->outcome == OUT_OK && reply->queue_count == 1;
    struct reply *copy = there ? reply_copy(reply) : NULL;
    if (copy)
        w->queues[w->queue_count++] = copy;
    if (--w->waiting > 0)
        return;
    for (size_t i = 0; i < w->queue_count; i++)
        w->ops[i] = create_op(&w->queues[i]->queues[0]);
    if (w->queue_count == 0 || !f->up || !ask(f, f->primary, w->queue_count, created_cb)) {
        drop_queues(w);
        move(f);
    }
}

static bool is_asked_for(const struct drain *w, size_t count, struct span queue)
{
    for (size_t i = 0; i < count; i++)
        if (span_equal(w->ops[i].queue.name, queue))
            return true;
    return false;
}

/* Reads each queue that is missing once; false: none is, or they were tried in this round. */
static bool create_queues(struct failover *f)
{
    struct drain *w = &f->drain;
    size_t n = 0;
    for (size_t i = 0; i < w->count && !w->queues_asked; i++) {
        const struct drain_job *j = &w->jobs[i];
        if (j->no_queue && j->held && !is_asked_for(w, n, j->held->jobs[0].queue))
            w->ops[n++] =
                (struct op){.kind = OP_QUEUE_GET, .queue = {.name = j->held->jobs[0].queue}};
    }
    if (n == 0)
        return false;
    w->queues_asked = true;
    w->phase = DRAIN_QUEUES;
    return ask(f, f->spool, n, queue_read_cb);
}

/* --- to the primary --- */

/* This attempt did not succeed. An earlier one may have; then only the primary knows. */
static void not_done(struct drain_job *j)
{
    j->outcome = j->maybe_done ? DRAIN_UNKNOWN : DRAIN_REFUSED;
}

static void take_id_conflict(struct failover *f, struct drain_job *j)
{
    j->renamed = true; /* it is moved again, without its id */
    log_event(f->config.log, LOG_WARN, "spooled_job_renamed",
              LOG_INT("seq", (int64_t)fo_seq_out(f, j->at.seq)),
              LOG_TEXT("why", "another job has its sequence; does another server have this node's "
                              "number?"));
}

static void take_reply(struct failover *f, struct drain_job *j, const struct reply *reply)
{
    bool first = !f->drain.queues_asked;
    j->no_queue = reply->outcome == OUT_NO_QUEUE;
    if (reply->outcome == OUT_OK) {
        j->outcome = DRAIN_MOVED;
    } else if (reply->outcome == OUT_UNKNOWN) {
        j->maybe_done = true;
    } else if (reply->outcome == OUT_EXISTS && !j->renamed) {
        take_id_conflict(f, j);
    } else if (reply->outcome == OUT_UNAVAILABLE) {
        not_done(j);
        fo_down(f, reply->note ? reply->note : "unavailable");
    } else if (!(j->no_queue && first)) {
        j->outcome = DRAIN_REFUSED;
        log_refusal(f, reply);
    }
}

static void moved_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    take_reply(f, &f->drain.jobs[reply->tag], reply);
    if (--f->drain.waiting == 0 && !create_queues(f))
        end_round(f);
}

static struct op enqueue_of(const struct failover *f, struct drain_job *j)
{
    const struct job_view *v = &j->held->jobs[0];
    uint64_t seq = fo_seq_out(f, j->at.seq);
    /* No client can send this key: it begins with a byte that is not text. */
    snprintf(j->key, sizeof j->key, "\001spool %" PRIx64 " %" PRIx64, v->job.id_hi, seq);
    j->past = (struct job_past){.state = j->state == STATE_DEAD ? STATE_DEAD : STATE_READY,
                                .reason = j->reason,
                                .failures = v->job.failures,
                                .crashes = v->job.crashes,
                                .error_kind = v->error_kind,
                                .error = v->error,
                                .log = v->log,
                                .steps = v->steps};
    struct job_ref id = {j->renamed ? 0 : seq, j->renamed ? 0 : v->job.id_hi};
    bool own = v->extra.options.len > 0 && options_decode(v->extra.options, &j->options) == 0;
    return (struct op){.kind = OP_ENQUEUE,
                       .enqueue = {.queue = v->queue,
                                   .no_create = true,
                                   .payload_kind = v->job.payload_kind,
                                   .has_priority = true,
                                   .priority = view_priority(v),
                                   .run_at = v->job.run_at,
                                   .due_at = view_due(v),
                                   .payload = v->payload,
                                   .extra = v->extra,
                                   .options = own ? &j->options : NULL,
                                   .idempotency_key = span_text(j->key),
                                   .fingerprint = seq,
                                   .past = &j->past,
                                   .id = id}};
}

static void move(struct failover *f)
{
    struct drain *w = &f->drain;
    size_t n = 0;
    w->phase = DRAIN_MOVE;
    for (size_t i = 0; i < w->count; i++) {
        if (w->jobs[i].outcome != DRAIN_UNKNOWN)
            continue;
        w->ops[n] = enqueue_of(f, &w->jobs[i]);
        w->ops[n++].tag = i;
    }
    if (n == 0) {
        end_round(f);
    } else if (!f->up || !ask(f, f->primary, n, moved_cb)) {
        for (size_t i = 0; i < n; i++)
            not_done(&w->jobs[w->ops[i].tag]);
        end_round(f);
    }
}

/* --- seizing --- */

/* Seized, a moment ago or by an earlier process; or dead, which no one claims. */
static bool is_ours(const struct drain_job *j, const struct reply *reply)
{
    if (reply->outcome != OUT_OK || reply->job_count != 1)
        return false;
    const struct job_view *v = &reply->jobs[0];
    if (j->state == STATE_DEAD)
        return v->job.state == STATE_DEAD;
    return v->job.state == STATE_RUNNING && span_equal(v->worker, SPAN_LITERAL(DRAIN_WORKER));
}

static void seized_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct drain_job *j = &f->drain.jobs[reply->tag];
    if (reply->kind == OP_GET && is_ours(j, reply)) {
        j->held = reply_copy(reply);
        j->token = j->state == STATE_DEAD ? (struct job_token){0} : reply->jobs[0].token;
        j->maybe_done = j->state == STATE_RUNNING;
    }
    /* Without memory a seized job is found again at the next start. */
    if (reply->kind == OP_GET)
        j->outcome = j->held ? DRAIN_UNKNOWN : DRAIN_NONE;
    if (--f->drain.waiting == 0)
        move(f);
}

/* Claims a job that waits, and reads it: a claim does not tell all that has to be moved. */
static size_t seize_ops(const struct drain_job *j, size_t tag, struct op *to)
{
    bool waits = j->state == STATE_READY || j->state == STATE_SCHEDULED;
    if (waits)
        to[0] = (struct op){.kind = OP_CLAIM,
                            .tag = tag,
                            .claim = {.one = j->at,
                                      .count = 1,
                                      .lease_ms = LIMIT_LEASE_MS,
                                      .worker = SPAN_LITERAL(DRAIN_WORKER)}};
    to[waits] = (struct op){.kind = OP_GET,
                            .tag = tag,
                            .job = {.job = j->at,
                                    .want_body = true,
                                    .want_attempts = true,
                                    .want_log = true,
                                    .want_steps = true}};
    return waits + 1u;
}

static void seize(struct failover *f)
{
    struct drain *w = &f->drain;
    size_t n = 0;
    w->phase = DRAIN_SEIZE;
    for (size_t i = 0; i < w->count; i++) {
        n += seize_ops(&w->jobs[i], i, &w->ops[n]);
        /* From now on no one else may change it; a running job most likely belongs to a worker. */
        if (w->jobs[i].state != STATE_RUNNING)
            w->jobs[i].outcome = DRAIN_UNKNOWN;
    }
    if (!ask(f, f->spool, n, seized_cb)) {
        fo_drain_done(f);
        finish(f);
    }
}

/* --- finding --- */

static void found_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct drain *w = &f->drain;
    w->waiting = 0;
    if (reply->outcome != OUT_OK || !f->up) {
        finish(f);
        return;
    }
    w->count = 0;
    w->queues_asked = false;
    for (uint32_t i = 0; i < reply->job_count && i < DRAIN_BATCH; i++) {
        const struct job *j = &reply->jobs[i].job;
        w->jobs[w->count++] =
            (struct drain_job){.at = {j->seq, j->id_hi}, .state = j->state, .reason = j->reason};
    }
    w->after = reply->cursor;
    if (w->after == 0)
        w->resumed = true;
    if (w->count > 0)
        seize(f);
    else if (w->after != 0)
        find(f);
    else
        finish(f);
}

/* Running jobs are examined once: an earlier process may have been moving them. */
static void find(struct failover *f)
{
    struct drain *w = &f->drain;
    unsigned states = STATE_BIT(STATE_READY) | STATE_BIT(STATE_SCHEDULED) | STATE_BIT(STATE_DEAD);
    w->phase = DRAIN_FIND;
    if (!w->resumed)
        states |= STATE_BIT(STATE_RUNNING);
    w->ops[0] = (struct op){
        .kind = OP_LIST,
        .list = {.filter = {.states = states}, .after = w->after, .limit = DRAIN_BATCH}};
    if (!ask(f, f->spool, 1, found_cb))
        finish(f);
}

void fo_drain_wake(struct failover *f)
{
    struct drain *w = &f->drain;
    if (w->phase != DRAIN_IDLE || !f->up || f->fanout.closing)
        return;
    if (w->count > 0) {
        w->queues_asked = false;
        move(f);
    } else if (fo_spool_jobs(f) > 0) {
        w->after = 0;
        w->refused = false;
        find(f);
    }
}
