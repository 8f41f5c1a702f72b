/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: the next jobs of one or several queues, by (priority, sequence); or one job by name. */
#include "backend/local/engine/engine_impl.h"
#include "core/validate.h"

#define LOOKS_MAX (4 * LIMIT_SLICE) /* stale and expired jobs one claim walks through */
/* Fewer resident jobs are in the caches anyway. Test builds look ahead always, to have it tested.
 */
#ifdef HF_TEST_HOOKS
#define COLD_JOBS 1
#else
#define COLD_JOBS 32768
#endif

/* An expired job met on the way to a worker dies here. */
static int expire_top(struct engine *e, struct live *l)
{
    struct record rec;
    decide_expire(&l->job, e->now.wall, &rec);
    int err = end_reserve(e, l, &rec, 0);
    if (!err)
        end_emit(e, l, &rec);
    return err;
}

struct live *claim_top(struct engine *e, struct queue *q, struct heap_entry *ret, int *err)
{
    for (size_t looks = 0; heap_top(&q->ready, ret); looks++) {
        if (looks == LOOKS_MAX) { /* the rest after other work */
            queues_wake(e, q);
            return NULL;
        }
        if (!valid_ready(e, *ret)) {
            heap_pop(&q->ready, ret);
            continue;
        }
        uint64_t seq = DEFECT(&e->config, DEFECT_NEWEST_FIRST) ? LIMIT_SEQ - ret->seq : ret->seq;
        struct live *l = jobs_by_seq(e, seq, NULL);
        if (!jobs_expired(e, l, e->now.wall))
            return l;
        *err = expire_top(e, l);
        if (*err)
            return NULL;
    }
    return NULL;
}

static bool entry_before(struct heap_entry a, struct heap_entry b)
{
    return a.order != b.order ? a.order < b.order : a.seq < b.seq;
}

/* The best job over all queues, taken out of its queue's order. */
static struct live *pick(struct engine *e, size_t queues, struct queue **ret_queue, int *err)
{
    struct live *best = NULL;
    struct heap_entry best_entry = {0, 0}, entry;
    for (size_t i = 0; i < queues && !*err; i++) {
        struct live *l = claim_top(e, e->claim_from[i], &entry, err);
        if (l && (!best || entry_before(entry, best_entry))) {
            best = l;
            best_entry = entry;
            *ret_queue = e->claim_from[i];
        }
    }
    return *err ? NULL : best;
}

/* Fills claim_from. Unknown and paused queues have nothing to give; one named twice counts once. */
static size_t claim_queues(struct engine *e, const struct op_claim *want)
{
    size_t count = 0;
    for (uint32_t i = 0; i < want->queue_count; i++) {
        struct queue *q = queues_find(e, want->queues[i]);
        bool seen = !q || queue_paused(q, e->now.wall);
        for (size_t k = 0; k < count && !seen; k++)
            seen = e->claim_from[k] == q;
        if (!seen)
            e->claim_from[count++] = q;
    }
    return count;
}

static int lease_reserve(struct engine *e, const struct op_claim *want)
{
    int err = slab_reserve(&e->leases, 1);
    if (!err)
        err = heap_reserve(&e->leases_end, 1);
    if (!err && want->worker.len)
        err = names_reserve(e, 1);
    if (!err && want->nonce)
        err = map64_reserve(&e->nonces, 1);
    return err;
}

static uint32_t lease_length(const struct engine *e, const struct op_claim *want,
                             const struct live *l)
{
    if (want->lease_ms)
        return want->lease_ms;
    struct job_rules rules;
    jobs_rules(e, l, &rules);
    return rules.lease_ms;
}

/* Hands l to the claimer and fills its view. */
static int hand_out(struct engine *e, struct queue *q, struct live *l, const struct op_claim *want,
                    struct engine_reply *r, struct job_view *view)
{
    struct record rec = {
        .kind = REC_JOB_CLAIMED,
        .job_claimed = {.seq = l->job.seq,
                        .token = {.counter = e->token_counter + 1, .epoch = e->epoch},
                        .lease_ms = lease_length(e, want, l),
                        .bound = want->bound,
                        .at = e->now.wall,
                        .worker = want->worker},
    };
    int err = lease_reserve(e, want);
    if (!err)
        err = jobs_reserve(e, q, 0, 1, record_bytes_max(&rec));
    if (err)
        return err;
    uint64_t depends_on = l->position;
    int64_t waited = l->job.state == STATE_READY ? e->now.wall.ms - l->job.since.ms : 0;
    e->token_counter++;
    engine_emit(e, &rec);
    struct lease *lease = lease_at(e, l->lease);
    if (e->config.leases_wait)
        leases_enter(e, lease, lease_now(e, e->now) + lease->lease_ms);
    else
        leases_arm(e, lease);
    if (want->nonce)
        lease_set_nonce(e, l->lease, want->nonce);
    if (depends_on > r->after)
        r->after = depends_on;
    *view = (struct job_view){
        .job = l->job,
        .fates = fates_of(e, l),
        .token = rec.job_claimed.token,
        .lease_ms = rec.job_claimed.lease_ms,
        .lease_left_ms = rec.job_claimed.lease_ms,
        .worker = want->worker,
        .waited_ms = waited > 0 ? waited : 0,
        .position = depends_on,
    };
    view->expires_at = more_of(e, l).expires_at;
    return 0;
}

/* The queue's name as a text that outlives it; taken from the op where it stands there. */
static struct span name_for_view(const struct op_claim *want, struct engine *e,
                                 const struct queue *q)
{
    struct span name = span_of(q->name, q->name_len);
    for (uint32_t i = 0; i < want->queue_count; i++)
        if (span_equal(want->queues[i], name))
            return want->queues[i];
    const char *copy = arena_copy(&e->out->arena, q->name, q->name_len);
    return copy ? span_of(copy, q->name_len) : (struct span){NULL, 0};
}

static void ask_neighbours(const struct engine *e, const struct live *l)
{
    if (l->prev)
        mem_ask(&live_at(e, l->prev)->next);
    if (l->next)
        mem_ask(&live_at(e, l->next)->prev);
}

/* With a long backlog the next jobs are far from any cache. A job is asked for in stages while it
 * comes up the heap, each when what the stage before asked for has had a claim's time to arrive:
 * its place in the directory's map, in the page, its record, its neighbours in the list. */
static void look_ahead(struct engine *e, struct queue *q)
{
    struct heap_entry entry;
    uint32_t handle;
    if (e->jobs.used < COLD_JOBS)
        return;
    if (heap_top(&q->ready, &entry) && (handle = seqdir_get(&e->dir, entry.seq)) != 0)
        ask_neighbours(e, live_at(e, handle));
    if (heap_risen(&q->ready, 1, &entry) && (handle = seqdir_get(&e->dir, entry.seq)) != 0)
        live_ask(e, handle);
    if (heap_risen(&q->ready, 2, &entry))
        seqdir_ask_page(&e->dir, entry.seq);
    if (heap_risen(&q->ready, 3, &entry))
        seqdir_ask_map(&e->dir, entry.seq);
    joblist_scout(e, &q->lists[STATE_DONE]);
}

static void claim_next(struct engine *e, const struct op_claim *want, struct engine_reply *r)
{
    size_t queues = claim_queues(e, want);
    uint64_t ready = 0;
    for (size_t i = 0; i < queues; i++)
        ready += e->claim_from[i]->lists[STATE_READY].count;
    uint32_t most = want->count < ready ? want->count : (uint32_t)ready;
    if (most == 0)
        return;
    struct job_view *views = arena_alloc(&e->out->arena, most * sizeof(*views));
    struct queue *q = NULL;
    struct live *l;
    uint32_t n = 0;
    uint64_t bytes = 0;
    int err = views ? 0 : -ERR_NOMEM;
    while (!err && n < most && bytes < LIMIT_ANSWER_BYTES &&
           (l = pick(e, queues, &q, &err)) != NULL) {
        struct heap_entry top;
        err = hand_out(e, q, l, want, r, &views[n]);
        if (err)
            break;
        heap_pop(&q->ready, &top);
        look_ahead(e, q);
        bytes += want->want_body ? views[n].job.payload_bytes : 0;
        views[n++].queue = name_for_view(want, e, q);
    }
    r->reply.jobs = r->views = views;
    r->reply.job_count = n;
    r->want_body = want->want_body;
    if (err && n == 0)
        refuse_nomem(r);
}

static void seize(struct engine *e, const struct op_claim *want, struct engine_reply *r)
{
    r->after = e->position;
    struct live *l = jobs_find(e, want->one, NULL);
    if (!l) {
        refuse(r, OUT_NOT_FOUND, NULL);
        return;
    }
    reply_job(r, l);
    struct queue *q = queue_of(e, l);
    bool waits = l->job.state == STATE_READY && !queue_paused(q, e->now.wall);
    if (!move_starts_from(MOVE_SEIZE, l->job.state) || (want->only_ready && !waits)) {
        refuse(r, OUT_ILLEGAL, NULL);
        return;
    }
    if (l->extra && !state_lives(l->job.state)) {
        struct live *holder = jobs_unique_holder(e, extra_unique(extra_at(e, l->extra)));
        if (holder && holder != l && !hash128_none(extra_unique(extra_at(e, l->extra)))) {
            reply_job(r, holder);
            refuse(r, OUT_DUPLICATE, NULL);
            return;
        }
    }
    struct job_view *view = arena_alloc(&e->out->arena, sizeof(*view));
    if (!view || hand_out(e, q, l, want, r, view) != 0) {
        refuse_nomem(r);
        return;
    }
    view->queue = name_for_view(want, e, q);
    r->reply.jobs = r->views = view;
    r->reply.job_count = 1;
    r->reply.state = STATE_RUNNING;
    r->want_body = want->want_body;
}

static bool worker_wrong(struct engine *e, struct span worker, struct engine_reply *r)
{
    struct err_note note;
    if (validate_text("worker", worker, LIMIT_WORKER_BYTES, &note) == 0)
        return false;
    refuse_note(e, r, &note);
    return true;
}

void op_claim(struct engine *e, const struct op *op)
{
    const struct op_claim *want = &op->claim;
    struct engine_reply *r = reply_new(e, op);
    r->after = 0;
    if (want->lease_ms && (want->lease_ms < LIMIT_LEASE_MS_MIN || want->lease_ms > LIMIT_LEASE_MS))
        refuse(r, OUT_INVALID, "lease_ms must be between 100 and 86400000");
    else if (want->queue_count > LIMIT_QUEUES_PER_CLAIM)
        refuse(r, OUT_INVALID, "a claim names at most 1000 queues");
    else if (!want->one.seq && (want->count == 0 || want->count > LIMIT_BATCH))
        refuse(r, OUT_INVALID, "count must be between 1 and 1000");
    else if (want->worker.len && worker_wrong(e, want->worker, r))
        return;
    else if (want->one.seq)
        seize(e, want, r);
    else
        claim_next(e, want, r);
}
