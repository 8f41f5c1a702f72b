/* SPDX-License-Identifier: Apache-2.0 */
/* The way back: rounds of up to FLOW_BATCH jobs, one round at a time. Find jobs that wait in the
 * spool; seize them; give them to the primary; give them up. See impl.h for what a crash in between
 * does. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/failover/impl.h"
#include "backend/reply_copy.h"
#include "base/mem.h"
#include "core/limits.h"

static void find(struct failover *f);
static void move(struct failover *f);

enum flow_fate fo_flow_fate(const struct failover *f, uint64_t inner_seq)
{
    for (size_t i = 0; i < f->flow.count; i++) {
        if (f->flow.jobs[i].at.seq == inner_seq)
            return f->flow.jobs[i].fate;
    }
    return FATE_NONE;
}

static void drop_job(struct flow_job *j)
{
    mem_free(j->held);
    *j = (struct flow_job){.held = NULL};
}

void fo_flow_done(struct failover *f)
{
    for (size_t i = 0; i < f->flow.count; i++)
        drop_job(&f->flow.jobs[i]);
    f->flow.count = 0;
}

static void rest(struct failover *f)
{
    f->flow.phase = FLOW_IDLE;
    fo_close_further(f);
}

/* Submits w->ops to one of the two; false: it took nothing. */
static bool ask(struct failover *f, struct backend *whom, size_t count, backend_reply_fn fn)
{
    if (f->fanout.closing || !whom || backend_submit(whom, f->flow.ops, count, fn, f) != 0)
        return false;
    f->flow.waiting = count;
    return true;
}

/* --- the end of a round --- */

/* Those whose fate is not known stay for the next round. */
static void next_round(struct failover *f)
{
    struct flow *w = &f->flow;
    size_t kept = 0;
    for (size_t i = 0; i < w->count; i++) {
        if (w->jobs[i].fate == FATE_DOUBT) {
            struct flow_job j = w->jobs[i];
            w->jobs[i] = (struct flow_job){.held = NULL};
            w->jobs[kept++] = j;
        } else {
            drop_job(&w->jobs[i]);
        }
    }
    w->count = kept;
    if (f->up && !f->fanout.closing && kept == 0 && w->after != 0)
        find(f);
    else
        rest(f);
}

static void ended_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    (void)reply;
    if (--f->flow.waiting == 0)
        next_round(f);
}

static void give_up(struct flow_job *j, struct op **to)
{
    if (j->token.counter != 0)
        *(*to)++ = (struct op){.kind = OP_RELEASE,
                               .lease = {.job = j->at, .token = j->token, .unsaid = true}};
    *(*to)++ = (struct op){.kind = OP_REMOVE, .job = {.job = j->at}};
}

static void give_back(struct flow_job *j, struct op **to)
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

/* Release and removal of a job are neighbours in one batch: nobody gets in between. */
static void end_round(struct failover *f)
{
    struct flow *w = &f->flow;
    struct op *to = w->ops;
    w->phase = FLOW_END;
    for (size_t i = 0; i < w->count; i++) {
        if (w->jobs[i].fate == FATE_MOVED)
            give_up(&w->jobs[i], &to);
        else if (w->jobs[i].fate == FATE_REFUSED)
            give_back(&w->jobs[i], &to);
    }
    if (to == w->ops)
        next_round(f);
    else if (!ask(f, f->spool, (size_t)(to - w->ops), ended_cb))
        rest(f); /* found seized by whoever opens the spool next */
}

/* --- to the primary --- */

static void refused(struct failover *f, const struct reply *reply)
{
    if (!f->flow.refused)
        log_event(f->config.log, LOG_WARN, "spooled_job_not_taken",
                  LOG_TEXT("outcome", outcome_name(reply->outcome)),
                  LOG_TEXT("why", reply->note ? reply->note : ""),
                  LOG_TEXT("next", "it stays in the spool and is tried again"));
    f->flow.refused = true;
}

/* This time. A time before it may have been; then only the primary knows. */
static void not_done(struct flow_job *j)
{
    j->fate = j->doubt ? FATE_DOUBT : FATE_REFUSED;
}

static void moved_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct flow_job *j = &f->flow.jobs[reply->tag];
    if (reply->outcome == OUT_OK) {
        j->fate = FATE_MOVED;
    } else if (reply->outcome == OUT_UNKNOWN) {
        j->doubt = true;
    } else if (reply->outcome == OUT_EXISTS && !j->renamed) {
        j->renamed = true; /* and once more */
        log_event(f->config.log, LOG_WARN, "spooled_job_renamed",
                  LOG_INT("seq", (int64_t)fo_seq_out(f, j->at.seq)),
                  LOG_TEXT("why", "another job has its sequence; does another server have this "
                                  "node's number?"));
    } else if (reply->outcome == OUT_UNAVAILABLE) {
        not_done(j);
        fo_down(f, reply->note ? reply->note : "unavailable");
    } else {
        j->fate = FATE_REFUSED;
        refused(f, reply);
    }
    if (--f->flow.waiting == 0)
        end_round(f);
}

static struct op enqueue_of(const struct failover *f, struct flow_job *j)
{
    const struct job_view *v = &j->held->jobs[0];
    uint64_t seq = fo_seq_out(f, j->at.seq);
    /* No client can send this key: it begins with a byte that is no text. */
    snprintf(j->key, sizeof j->key, "\001spool %" PRIx64 " %" PRIx64, v->job.id_hi, seq);
    j->past = (struct job_past){.state = j->state == STATE_DEAD ? STATE_DEAD : STATE_READY,
                                .reason = j->reason,
                                .failures = v->job.failures,
                                .crashes = v->job.crashes,
                                .error_kind = v->error_kind,
                                .error = v->error};
    struct job_ref id = {j->renamed ? 0 : seq, j->renamed ? 0 : v->job.id_hi};
    bool own = v->extra.options.len > 0 && options_decode(v->extra.options, &j->options) == 0;
    return (struct op){.kind = OP_ENQUEUE,
                       .enqueue = {.queue = v->queue,
                                   .payload_kind = v->job.payload_kind,
                                   .has_priority = true,
                                   .priority = v->job.priority,
                                   .run_at = v->job.run_at,
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
    struct flow *w = &f->flow;
    size_t n = 0;
    w->phase = FLOW_MOVE;
    for (size_t i = 0; i < w->count; i++) {
        if (w->jobs[i].fate != FATE_DOUBT)
            continue;
        w->ops[n] = enqueue_of(f, &w->jobs[i]);
        w->ops[n++].tag = i;
    }
    if (n == 0) {
        next_round(f);
    } else if (!f->up || !ask(f, f->primary, n, moved_cb)) {
        for (size_t i = 0; i < n; i++)
            not_done(&w->jobs[w->ops[i].tag]);
        end_round(f);
    }
}

/* --- seizing --- */

/* Claimed this moment; found seized by an earlier process; or dead, which nobody claims. */
static bool is_ours(const struct flow_job *j, const struct reply *reply)
{
    if (reply->outcome != OUT_OK || reply->job_count != 1)
        return false;
    const struct job_view *v = &reply->jobs[0];
    if (j->state == STATE_RUNNING)
        return v->job.state == STATE_RUNNING && span_equal(v->worker, SPAN_LITERAL(FLOW_WORKER));
    return j->state != STATE_DEAD || v->job.state == STATE_DEAD;
}

static void seized_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct flow_job *j = &f->flow.jobs[reply->tag];
    if (is_ours(j, reply)) {
        j->held = reply_copy(reply);
        j->token = j->state == STATE_DEAD ? (struct job_token){0} : reply->jobs[0].token;
        j->doubt = j->state == STATE_RUNNING;
    }
    /* Without memory a seized job is found again at the next start. */
    j->fate = j->held ? FATE_DOUBT : FATE_NONE;
    if (--f->flow.waiting == 0)
        move(f);
}

static struct op seize_op(const struct flow_job *j)
{
    if (j->state == STATE_READY || j->state == STATE_SCHEDULED)
        return (struct op){.kind = OP_CLAIM,
                           .claim = {.one = j->at,
                                     .count = 1,
                                     .lease_ms = LIMIT_LEASE_MS,
                                     .worker = SPAN_LITERAL(FLOW_WORKER),
                                     .want_body = true}};
    return (struct op){.kind = OP_GET, .job = {.job = j->at, .want_body = true}};
}

static void seize(struct failover *f)
{
    struct flow *w = &f->flow;
    w->phase = FLOW_SEIZE;
    for (size_t i = 0; i < w->count; i++) {
        w->ops[i] = seize_op(&w->jobs[i]);
        w->ops[i].tag = i;
        /* From here on nobody else may touch it; what runs is most likely a worker's. */
        if (w->jobs[i].state != STATE_RUNNING)
            w->jobs[i].fate = FATE_DOUBT;
    }
    if (!ask(f, f->spool, w->count, seized_cb)) {
        fo_flow_done(f);
        rest(f);
    }
}

/* --- finding --- */

static void found_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct flow *w = &f->flow;
    w->waiting = 0;
    if (reply->outcome != OUT_OK || !f->up) {
        rest(f);
        return;
    }
    w->count = 0;
    for (uint32_t i = 0; i < reply->job_count && i < FLOW_BATCH; i++) {
        const struct job *j = &reply->jobs[i].job;
        w->jobs[w->count++] =
            (struct flow_job){.at = {j->seq, j->id_hi}, .state = j->state, .reason = j->reason};
    }
    w->after = reply->cursor;
    if (w->after == 0)
        w->resumed = true;
    if (w->count > 0)
        seize(f);
    else if (w->after != 0)
        find(f);
    else
        rest(f);
}

/* Running jobs are looked at once: an earlier process may have been moving them. */
static void find(struct failover *f)
{
    struct flow *w = &f->flow;
    unsigned states = STATE_BIT(STATE_READY) | STATE_BIT(STATE_SCHEDULED) | STATE_BIT(STATE_DEAD);
    w->phase = FLOW_FIND;
    if (!w->resumed)
        states |= STATE_BIT(STATE_RUNNING);
    w->ops[0] =
        (struct op){.kind = OP_LIST,
                    .list = {.filter = {.states = states}, .after = w->after, .limit = FLOW_BATCH}};
    if (!ask(f, f->spool, 1, found_cb))
        rest(f);
}

void fo_flow_wake(struct failover *f)
{
    struct flow *w = &f->flow;
    if (w->phase != FLOW_IDLE || !f->up || f->fanout.closing)
        return;
    if (w->count > 0) {
        move(f);
    } else if (fo_spool_jobs(f) > 0) {
        w->after = 0;
        w->refused = false;
        find(f);
    }
}
