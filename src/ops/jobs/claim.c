/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: the next jobs of one or several queues, by (priority, sequence) and the limits of
 * core/queues/claim_limits.h; or one job by its id. */
#include "core/jobs/steps.h"
#include "core/limits.h"
#include "core/validate.h"
#include "ops/replies.h"

/* For so few jobs it does not pay to find out how many there are. */
#define FEW 4

/* The queues of a claim that can hand out something: unknown and paused ones cannot, and one that
 * is named twice counts once. NULL: no memory. */
static const struct queue_state **claim_queues(struct ops *o, const struct op_claim *want,
                                               size_t *ret_count, uint64_t *ret_ready)
{
    const struct queue_state **queues =
        arena_alloc(o->memory, (want->queue_count + 1) * sizeof(*queues));
    size_t count = 0;
    for (uint32_t i = 0; queues && i < want->queue_count; i++) {
        const struct queue_state *q = o->store->queue_find(o, want->queues[i]);
        bool skip = !q || queue_is_paused(q, o->now);
        for (size_t k = 0; k < count && !skip; k++)
            skip = queues[k] == q;
        if (skip)
            continue;
        queues[count++] = q;
        if (want->count > FEW)
            *ret_ready += o->store->ready_count(o, q);
    }
    *ret_count = count;
    return queues;
}

static bool order_before(struct heap_entry a, struct heap_entry b)
{
    return a.order != b.order ? a.order < b.order : a.seq < b.seq;
}

/* The place of a queue's next job among those of other queues, which age at other rates. */
static struct heap_entry place_now(const struct queue_policy *p, struct heap_entry in_queue,
                                   struct wall_time now)
{
    if (p->ageing_ms > 0)
        in_queue.order = heap_order_desc(claim_priority_now(p, heap_desc_of(in_queue.order), now));
    return in_queue;
}

/* The first job over all queues. NULL: no job can start, or the first is not known; the claim
 * then gets what it has. */
static struct job *pick(struct ops *o, const struct queue_state **queues, size_t count)
{
    struct job *best = NULL;
    struct heap_entry first = {0, 0}, order;
    for (size_t i = 0; i < count; i++) {
        struct job *j;
        if (!o->store->ready_next(o, queues[i], &order, &j))
            return NULL;
        order = place_now(&queues[i]->policy, order, o->now);
        if (j && (!best || order_before(order, first))) {
            best = j;
            first = order;
        }
    }
    return best;
}

/* Leases the job to the claimer and fills in its view. False: no memory. */
static bool hand_out(struct ops *o, struct job *j, const struct op_claim *want,
                     struct job_view *view)
{
    struct job_options room;
    struct job_rules rules;
    o->store->job_rules(o, j, &room, &rules);
    int64_t waited = j->state == STATE_READY ? o->now.ms - j->since.ms : 0;
    struct record rec = {
        .kind = REC_JOB_CLAIMED,
        .job_claimed = {.seq = j->seq,
                        .lease_ms = want->lease_ms ? want->lease_ms : rules.lease_ms,
                        .timeout_ms = rules.timeout_ms,
                        .bound = want->bound,
                        .at = o->now,
                        .worker = want->worker},
    };
    *view = (struct job_view){.worker = want->worker, .waited_ms = waited > 0 ? waited : 0};
    if (want->want_body)
        view->step_bytes = (uint32_t)steps_bytes(o->store->steps(o, j));
    if (!o->store->lease_start(o, j, want, &rec, view))
        return false;
    view->max_attempts = rules.max_attempts;
    view->job = *j;
    view->token = rec.job_claimed.token;
    view->lease_ms = rec.job_claimed.lease_ms;
    view->limits.timeout_ms = rules.timeout_ms;
    bool limited = rules.timeout_ms && rules.timeout_ms < view->lease_ms;
    view->lease_left_ms = limited ? rules.timeout_ms : view->lease_ms;
    return true;
}

static void claim_next(struct ops *o, const struct op_claim *want, struct reply *r)
{
    size_t queues;
    uint64_t ready = want->count > FEW ? 0 : FEW;
    const struct queue_state **from = claim_queues(o, want, &queues, &ready);
    uint32_t most = want->count < ready ? want->count : (uint32_t)ready;
    if (from && (most == 0 || queues == 0))
        return;
    struct job_view *views = from ? arena_alloc(o->memory, most * sizeof(*views)) : NULL;
    struct job **jobs = views ? arena_alloc(o->memory, most * sizeof(*jobs)) : NULL;
    if (!jobs) {
        reply_nomem(o, r);
        return;
    }
    /* Of many claims with large bodies in one commit each gets one job. */
    uint64_t bytes = o->body_bytes >= LIMIT_ANSWER_BYTES ? LIMIT_ANSWER_BYTES - 1 : 0;
    uint32_t n = 0;
    struct job *j;
    while (n < most && bytes < LIMIT_ANSWER_BYTES && (j = pick(o, from, queues)) != NULL) {
        if (!hand_out(o, j, want, &views[n])) {
            o->nomem = true;
            break;
        }
        if (want->want_body) {
            uint64_t more = (uint64_t)j->payload_bytes + views[n].step_bytes;
            bytes += more;
            o->body_bytes += more;
        }
        jobs[n++] = j;
    }
    if ((o->nomem && n == 0) || !o->store->claim_reply(o, r, views, jobs, n, want->want_body))
        reply_nomem(o, r);
}

/* A claim by id does not wait for those before it, but it stays within the limits. */
static bool room_for(struct ops *o, const struct queue_state *q, const struct job *j,
                     struct reply *r)
{
    static const char *const notes[CLAIM_BLOCK_COUNT] = {
        [CLAIM_QUEUE_LIMIT] =
            "as many jobs of the queue run as its max_running allows; try again when one has "
            "ended",
        [CLAIM_GROUP_LIMIT] =
            "as many jobs of the group run as max_running_per_group allows; try again when "
            "one has ended",
        [CLAIM_RATE] = "the queue's claim_rate lets no more jobs start for now; try again after "
                       "retry_after_ms",
    };
    if (!claim_limited(&q->policy))
        return true;
    int64_t at_us;
    enum claim_block block = o->store->claim_room(o, q, j, &at_us);
    if (block == CLAIM_RATE)
        r->retry_ms = (at_us - o->rate_now_us + 999) / 1000;
    return block == CLAIM_FREE || reply_refuse(r, OUT_ILLEGAL, notes[block]);
}

static void claim_one(struct ops *o, const struct op_claim *want, struct reply *r)
{
    const struct queue_state *q;
    struct job *j = o->store->job_find(o, want->one, &q);
    if (!j) {
        reply_refuse(r, OUT_NOT_FOUND, NULL);
        return;
    }
    reply_about(r, j);
    bool waits = j->state == STATE_READY && !queue_is_paused(q, o->now);
    if (!move_starts_from(MOVE_SEIZE, (enum job_state)j->state) || (want->only_ready && !waits)) {
        reply_refuse(r, OUT_ILLEGAL, NULL);
        return;
    }
    if (!room_for(o, q, j, r))
        return;
    struct job *rival = state_lives(j->state) ? NULL : o->store->key_rival(o, j);
    if (rival) {
        reply_about(r, rival);
        reply_refuse(r, OUT_DUPLICATE, NULL);
        return;
    }
    struct job_view *view = arena_alloc(o->memory, sizeof(*view));
    struct job **jobs = arena_alloc(o->memory, sizeof(*jobs));
    if (!view || !jobs || !hand_out(o, j, want, view)) {
        reply_nomem(o, r);
        return;
    }
    jobs[0] = j;
    r->state = STATE_RUNNING;
    if (!o->store->claim_reply(o, r, view, jobs, 1, want->want_body))
        reply_nomem(o, r);
}

void ops_claim(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_claim *want = &op->claim;
    struct err_note note;
    if (want->lease_ms && (want->lease_ms < LIMIT_LEASE_MS_MIN || want->lease_ms > LIMIT_LEASE_MS))
        reply_refuse(r, OUT_INVALID, "lease_ms must be between 100 and 86400000");
    else if (want->queue_count > LIMIT_QUEUES_PER_CLAIM)
        reply_refuse(r, OUT_INVALID, "a claim names at most 1000 queues");
    else if (!want->one.seq && (want->count == 0 || want->count > LIMIT_BATCH))
        reply_refuse(r, OUT_INVALID, "count must be between 1 and 1000");
    else if (want->worker.len &&
             validate_text("worker", want->worker, LIMIT_WORKER_BYTES, &note) != 0)
        reply_invalid(o, r, &note);
    else if (want->one.seq)
        claim_one(o, want, r);
    else
        claim_next(o, want, r);
}
