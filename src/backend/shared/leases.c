/* SPDX-License-Identifier: Apache-2.0 */
/* Ack, fail, extend, release: the words of a lease's holder; and claims given back by nonce. */
#include "backend/shared/shared.h"

static bool word_known(const struct unit *u, const struct op *op, struct turn *t)
{
    const struct op_lease *want = &op->lease;
    const struct row *r = unit_row(u, want->job.seq);
    const struct word *w = NULL;
    struct word own;
    if (r && r->word && token_equal(r->token, want->token)) {
        own = (struct word){.kind = r->word, .state = r->word_state, .run_at = r->word_run_at};
        w = &own;
    }
    for (int said = 0; said < 2; said++)
        for (const struct word *x = said ? u->said : u->words; x && !w; x = x->next)
            if (x->seq == want->job.seq && token_equal(x->token, want->token))
                w = x;
    if (!w || w->kind != op->kind + 1)
        return false;
    t->reply.seq = want->job.seq;
    t->reply.state = w->state;
    t->reply.run_at = w->run_at;
    t->reply.repeat = true;
    return true;
}

/* Finds the job and checks the token. NULL: the reply already says why not (or repeats the answer).
 */
static struct row *holder_check(struct unit *u, struct turn *t)
{
    const struct op_lease *want = &t->op->lease;
    struct row *r = unit_find(u, want->job);
    if (r)
        t->reply.queue = r->q->name;
    if (r && want->any_token && r->q->policy.require_token) {
        unit_refuse(t, OUT_INVALID,
                    "token is required: the queue's policy (require_token) lets nobody "
                    "act on a job by its id alone");
        return NULL;
    }
    if (r) {
        unit_reply_row(t, r);
        if (r->job.state == STATE_RUNNING &&
            (want->any_token || token_equal(r->token, want->token)))
            return r;
    }
    if (!want->any_token && want->token.counter &&
        (!r || !want->job.hi || r->job.id_hi == want->job.hi) && word_known(u, t->op, t))
        return NULL;
    /* The row of a job that ended here keeps the token of its last lease: no other can have ended
     * it. One that came from another store has none. */
    bool imported = r && r->token.counter == 0;
    bool existed = unit_row(u, want->job.seq) || want->job.seq <= u->seq_high;
    if (!r)
        t->reply.outcome = want->job.seq > 0 && existed ? OUT_GONE : OUT_NOT_FOUND;
    else if (want->any_token)
        t->reply.outcome = OUT_ILLEGAL;
    else if (r->job.state == STATE_DONE && imported)
        t->reply.outcome = OUT_GONE;
    else
        t->reply.outcome = OUT_LEASE_LOST;
    return NULL;
}

/* Who holds the lease, and for how long; before the record that ends it. */
static void holder_named(const struct unit *u, const struct row *r, struct turn *t)
{
    int64_t ran = u->now.ms - r->job.since.ms;
    t->reply.ran_ms = ran > 0 && t->op->kind != OP_EXTEND ? ran : 0;
    t->reply.worker = r->worker;
}

static void finish(struct turn *t, const struct row *r)
{
    unit_reply_row(t, r);
    t->reply.run_at = r->job.run_at;
    unit_reply_relaxed(t, r->q);
}

/* A queue that keeps none of its finished jobs: they go with the word that ends them. */
static void drop_unkept(struct unit *u, struct row *r)
{
    const struct queue_policy *p = &r->q->policy;
    bool none = p->keep_done == 0 || p->keep_done_ms == 0;
    if (r->job.state == STATE_DONE && none)
        unit_row_remove(u, r);
    else if (!(STATE_BIT(r->job.state) & STATES_LIVE))
        u->s->trim_wanted = true;
}

void work_ack(struct unit *u, struct turn *t)
{
    const struct op_lease *want = &t->op->lease;
    struct row *r = holder_check(u, t);
    if (!r || !unit_body_right(t, want->result_kind, want->result, LIMIT_PAYLOAD_BYTES))
        return;
    holder_named(u, r, t);
    struct record rec = {
        .kind = REC_JOB_DONE,
        .job_done = {.seq = r->job.seq,
                     .at = u->now,
                     .result_kind = want->result_kind,
                     .result = want->result},
    };
    unit_row_take(u, r, &rec);
    finish(t, r);
    drop_unkept(u, r);
}

/* Absolute time from "delay" or "run_at"; false when the values make no sense. */
static bool when_to_run(const struct unit *u, struct turn *t, struct wall_time *ret)
{
    const struct op_lease *want = &t->op->lease;
    *ret = want->run_at;
    if (want->run_at.ms == 0 && want->has_delay)
        ret->ms =
            want->delay_ms > LIMIT_WALL_MS - u->now.ms ? LIMIT_WALL_MS : u->now.ms + want->delay_ms;
    if (want->run_at.ms >= 0 && want->run_at.ms <= LIMIT_WALL_MS &&
        (!want->has_delay || want->delay_ms >= 0))
        return true;
    return unit_refuse(t, OUT_INVALID,
                       "delay_ms must be 0 or more; run_at must be a time before the year 10000");
}

enum fate { FATE_NONE, FATE_TIMED_OUT, FATE_RELEASED, FATE_REJECTED };

static void count_fate(struct job_fates *f, enum fate fate)
{
    f->claims = (uint16_t)(f->claims + (f->claims < UINT16_MAX));
    if (fate == FATE_TIMED_OUT)
        f->timeouts = (uint16_t)(f->timeouts + (f->timeouts < UINT16_MAX));
    else if (fate == FATE_RELEASED)
        f->releases = (uint16_t)(f->releases + (f->releases < UINT16_MAX));
    else if (fate == FATE_REJECTED)
        f->rejections = (uint8_t)(f->rejections + (f->rejections < UINT8_MAX));
}

/* The holder may name a priority for the time after. */
static void put_back(struct unit *u, struct turn *t, struct row *r, const struct record *rec,
                     enum fate fate)
{
    holder_named(u, r, t);
    if (t->op->lease.has_priority)
        r->job.priority = t->op->lease.priority;
    count_fate(&r->fates, fate);
    unit_row_take(u, r, rec);
    finish(t, r);
    drop_unkept(u, r);
}

void work_fail(struct unit *u, struct turn *t)
{
    const struct op_lease *want = &t->op->lease;
    struct row *r = holder_check(u, t);
    struct fail_request f = {.error = want->error,
                             .error_kind = want->error_kind,
                             .no_retry = want->no_retry,
                             .damaged = want->damaged,
                             .has_run_at = want->has_delay || want->run_at.ms != 0};
    if (!r || !when_to_run(u, t, &f.run_at) ||
        !unit_body_right(t, want->result_kind, want->result, LIMIT_PAYLOAD_BYTES))
        return;
    if (want->error_kind > ERROR_BUSINESS) {
        unit_refuse(t, OUT_INVALID, "the kind of an error is app (0) or business (1)");
        return;
    }
    struct job_options space;
    struct job_rules rules;
    struct record rec;
    unit_row_rules(r, &space, &rules);
    decide_fail(&r->job, &rules, &f, r->q->generation, u->now, &u->s->random, &rec);
    if (want->result_kind != PAYLOAD_NONE) {
        r->result_kind = want->result_kind;
        r->result = want->result;
        r->set_result = true;
    }
    put_back(u, t, r, &rec, want->no_retry ? FATE_REJECTED : FATE_NONE);
}

/* The text of a timeout lives as long as the unit. */
static void decide_end(struct unit *u, struct row *r, bool lost, struct record *rec)
{
    struct job_options space;
    struct job_rules rules;
    char *text = unit_alloc(u, LEASE_END_TEXT_BYTES);
    static char spare[LEASE_END_TEXT_BYTES];
    unit_row_rules(r, &space, &rules);
    if (!lost)
        rules.lease_ms = r->lease_ms;
    decide_lease_end(&r->job, &rules, lost, r->q->generation, u->now, &u->s->random,
                     text ? text : spare, rec);
}

void work_release(struct unit *u, struct turn *t)
{
    struct row *r = holder_check(u, t);
    struct wall_time run_at;
    struct record rec;
    if (!r || !when_to_run(u, t, &run_at))
        return;
    if (!t->op->lease.lost) {
        decide_release(&r->job, run_at, r->q->generation, u->now, &rec);
        put_back(u, t, r, &rec, t->op->lease.unsaid ? FATE_NONE : FATE_RELEASED);
        return;
    }
    decide_end(u, r, true, &rec);
    put_back(u, t, r, &rec, FATE_TIMED_OUT);
    /* The record counts as a crash, which no holder's word answers to; this one was said. */
    r->word = OP_RELEASE + 1;
    r->word_state = r->job.state;
    r->word_run_at = r->job.run_at;
}

void work_extend(struct unit *u, struct turn *t)
{
    struct row *r = holder_check(u, t);
    if (!r || r->lease_ms == 0) /* held by a job, without end: there is nothing to lengthen */
        return;
    uint32_t lease_ms = t->op->lease.lease_ms ? t->op->lease.lease_ms : r->lease_ms;
    if (lease_ms < LIMIT_LEASE_MS_MIN || lease_ms > LIMIT_LEASE_MS) {
        unit_refuse(t, OUT_INVALID, "lease_ms must be between 100 and 86400000");
        return;
    }
    holder_named(u, r, t);
    r->lease_ms = lease_ms;
    r->until_ms = u->now.ms + lease_ms;
    r->changed = true;
    u->records++;
    finish(t, r);
}

void work_release_claim(struct unit *u, struct turn *t)
{
    uint64_t nonce = t->op->release_claim.nonce;
    for (size_t i = 0; nonce && i < u->row_count; i++) {
        struct row *r = u->rows[i];
        if (r->nonce != nonce || r->job.state != STATE_RUNNING || !unit_row_there(r))
            continue;
        struct record rec;
        decide_release(&r->job, (struct wall_time){0}, r->q->generation, u->now, &rec);
        unit_row_take(u, r, &rec);
        t->reply.count++;
    }
}

/* --- for the leader --- */

void unit_lease_ran_out(struct unit *u, struct row *r)
{
    struct record rec;
    decide_end(u, r, false, &rec);
    count_fate(&r->fates, FATE_TIMED_OUT);
    unit_row_take(u, r, &rec);
    drop_unkept(u, r);
}

void unit_item_left(struct unit *u, struct row *r, uint8_t holder_state)
{
    struct job_options space;
    struct job_rules rules;
    struct record rec;
    char *text = unit_alloc(u, LEFT_TEXT_BYTES);
    if (!text)
        return;
    unit_row_rules(r, &space, &rules);
    decide_left(&r->job, &rules, r->holder, (enum job_state)holder_state, r->q->generation, u->now,
                &u->s->random, text, &rec);
    unit_row_take(u, r, &rec);
    drop_unkept(u, r);
}

/* The node that held the connection is gone; nobody is to blame for it. */
void unit_lease_restarted(struct unit *u, struct row *r)
{
    struct record rec;
    decide_release(&r->job, (struct wall_time){0}, r->q->generation, u->now, &rec);
    rec.job_back.reason = REASON_RESTARTED;
    unit_row_take(u, r, &rec);
}
