/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: the next jobs of one or several queues, by (priority, sequence), among those that were
 * free when the unit looked; or one job by name. */
#include "backend/shared/shared.h"
#include "core/validate.h"

struct row *unit_claim_top(struct unit *u, struct wqueue *q, struct heap_entry *ret)
{
    while (heap_top(&q->ready, ret)) {
        struct row *r = unit_row(u, ret->seq);
        bool there = r && unit_row_there(r) && r->job.state == STATE_READY &&
                     heap_order_desc(r->job.priority) == ret->order;
        if (there && !(r->extra.expires_at.ms && r->extra.expires_at.ms <= u->now.ms))
            return r;
        heap_pop(&q->ready, ret);
    }
    return NULL;
}

void unit_claimable(struct unit *u, struct row *r)
{
    struct heap_entry e = {heap_order_desc(r->job.priority), r->job.seq};
    if (r->job.state != STATE_READY)
        return;
    if (heap_push(&r->q->ready, e) != 0)
        u->nomem = true;
    r->q->ready_loaded++;
}

/* Whether the queue may have more ready jobs than were loaded of it. */
static bool has_more(struct unit *u, const struct wqueue *q)
{
    const struct wanted_name *n = unit_want_name(u, q->name);
    return n && n->claims > 0 && q->ready_loaded >= n->claims;
}

/* NULL as well when it is not known which would be the next: then the claim gets what it has. */
static struct row *pick(struct unit *u, const struct op_claim *want)
{
    struct row *best = NULL;
    struct heap_entry top, best_top = {0, 0};
    for (uint32_t i = 0; i < want->queue_count; i++) {
        struct wqueue *q = unit_queue_named(u, want->queues[i]);
        if (!q || unit_queue_paused(u, q))
            continue;
        struct row *r = unit_claim_top(u, q, &top);
        if (!r && has_more(u, q))
            return NULL;
        if (r && (!best || top.order < best_top.order ||
                  (top.order == best_top.order && top.seq < best_top.seq))) {
            best = r;
            best_top = top;
        }
    }
    return best;
}

static void count_claim(struct job_fates *f)
{
    f->claims = (uint16_t)(f->claims + (f->claims < UINT16_MAX));
}

/* Hands the job to the claimer and fills its view; its body comes later. */
static void hand_out(struct unit *u, struct row *r, const struct op_claim *want,
                     struct job_view *view)
{
    struct job_options space;
    struct job_rules rules;
    unit_row_rules(r, &space, &rules);
    int64_t waited = r->job.state == STATE_READY ? u->now.ms - r->job.since.ms : 0;
    struct record rec = {
        .kind = REC_JOB_CLAIMED,
        .job_claimed = {.seq = r->job.seq,
                        .token = {.counter = ++u->s->token_counter, .epoch = u->s->facts.epoch},
                        .lease_ms = want->lease_ms ? want->lease_ms : rules.lease_ms,
                        .bound = want->bound,
                        .at = u->now,
                        .worker = want->worker},
    };
    unit_row_take(u, r, &rec);
    r->nonce = want->nonce;
    *view = (struct job_view){
        .job = r->job,
        .fates = r->fates,
        .queue = r->q->name,
        .token = r->token,
        .lease_ms = r->lease_ms,
        .lease_left_ms = r->lease_ms,
        .worker = want->worker,
        .waited_ms = waited > 0 ? waited : 0,
        .expires_at = r->extra.expires_at,
    };
    count_claim(&view->fates); /* the one under way */
}

static void claim_next(struct unit *u, struct turn *t)
{
    const struct op_claim *want = &t->op->claim;
    struct job_view *views = arena_array(&u->arena, want->count, sizeof *views);
    struct row **rows = arena_array(&u->arena, want->count, sizeof(struct row *));
    struct row *r;
    uint32_t n = 0;
    uint64_t bytes = 0;
    if (!views || !rows) {
        u->nomem = true;
        return;
    }
    /* Many claims with large bodies in one unit get one job each. */
    if (u->body_bytes >= LIMIT_ANSWER_BYTES)
        bytes = LIMIT_ANSWER_BYTES - 1;
    while (n < want->count && bytes < LIMIT_ANSWER_BYTES && (r = pick(u, want)) != NULL) {
        hand_out(u, r, want, &views[n]);
        bytes += want->want_body ? r->job.payload_bytes : 0;
        u->body_bytes += want->want_body ? r->job.payload_bytes : 0;
        rows[n++] = r;
    }
    t->reply.jobs = views;
    t->reply.job_count = n;
    t->bodies = want->want_body ? rows : NULL;
}

struct row *unit_row_rival(const struct unit *u, const struct row *r)
{
    struct row *holder = r->extra.unique.len ? unit_holder(u, r->q, r->extra.unique) : NULL;
    return holder && holder != r && unit_row_there(holder) ? holder : NULL;
}

static void seize(struct unit *u, struct turn *t)
{
    const struct op_claim *want = &t->op->claim;
    struct row *r = unit_find(u, want->one);
    if (!r) {
        unit_refuse(t, OUT_NOT_FOUND, NULL);
        return;
    }
    unit_reply_row(t, r);
    bool waits = r->job.state == STATE_READY && !unit_queue_paused(u, r->q);
    if (!move_starts_from(MOVE_SEIZE, r->job.state) || (want->only_ready && !waits)) {
        unit_refuse(t, OUT_ILLEGAL, NULL);
        return;
    }
    struct row *rival = STATE_BIT(r->job.state) & STATES_LIVE ? NULL : unit_row_rival(u, r);
    if (rival) {
        unit_reply_row(t, rival);
        unit_refuse(t, OUT_DUPLICATE, NULL);
        return;
    }
    struct job_view *view = unit_alloc(u, sizeof *view);
    struct row **rows = unit_alloc(u, sizeof(struct row *));
    if (!view || !rows)
        return;
    hand_out(u, r, want, view);
    rows[0] = r;
    t->reply.jobs = view;
    t->reply.job_count = 1;
    t->reply.state = STATE_RUNNING;
    t->bodies = want->want_body ? rows : NULL;
}

void work_claim(struct unit *u, struct turn *t)
{
    const struct op_claim *want = &t->op->claim;
    struct err_note note;
    if (want->lease_ms && (want->lease_ms < LIMIT_LEASE_MS_MIN || want->lease_ms > LIMIT_LEASE_MS))
        unit_refuse(t, OUT_INVALID, "lease_ms must be between 100 and 86400000");
    else if (want->queue_count > LIMIT_QUEUES_PER_CLAIM)
        unit_refuse(t, OUT_INVALID, "a claim names at most 1000 queues");
    else if (!want->one.seq && (want->count == 0 || want->count > LIMIT_BATCH))
        unit_refuse(t, OUT_INVALID, "count must be between 1 and 1000");
    else if (want->worker.len &&
             validate_text("worker", want->worker, LIMIT_WORKER_BYTES, &note) != 0)
        unit_refuse_note(u, t, &note);
    else if (want->one.seq)
        seize(u, t);
    else
        claim_next(u, t);
}
