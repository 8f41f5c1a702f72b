/* SPDX-License-Identifier: Apache-2.0 */
/* Wild keepers: in some seeds anything may happen to the keepers' queues and rules, so that little
 * can be said of what clients must see. What is left to check is the machine: what lives equals
 * what is recovered, counters equal a recount, lack of memory changes nothing, and no item stays
 * held. */
#include "base/check.h"
#include "core/jobs/progress.h"
#include "sim/world/world.h"

#define RECENT 24

void keeper_seen(struct world *w, const struct hist_entry *e)
{
    struct keeper *k = &w->keeper;
    k->seqs = vec_room(k->seqs, &k->seq_room, k->seq_count + 2 + e->job_count, sizeof(*k->seqs));
    if (e->reply.seq && e->reply.outcome == OUT_OK)
        k->seqs[k->seq_count++] = e->reply.seq;
    if (e->enqueued_count)
        k->seqs[k->seq_count++] = e->enqueued[0].seq;
    for (uint32_t i = 0; i < e->job_count; i++)
        k->seqs[k->seq_count++] = e->jobs[i].job.seq;
}

static struct job_ref any_job(struct world *w)
{
    const struct keeper *k = &w->keeper;
    int64_t newest = (int64_t)k->seq_count - 1;
    if (newest < 0)
        return (struct job_ref){1000000, 0};
    return (struct job_ref){
        k->seqs[between(w, newest > RECENT && chance(w, 80) ? newest - RECENT : 0, newest)], 0};
}

static struct span any_of(struct world *w)
{
    return w->keeper.queues[between(w, 0, (int64_t)w->keeper.queue_count - 1)];
}

static void fill_job(struct world *w, struct op *op)
{
    op->job.job = any_job(w);
    op->job.discard = op->kind == OP_CANCEL && chance(w, 30);
    op->job.force = op->kind == OP_CANCEL && chance(w, 50);
    op->job.want_body = chance(w, 50);
    op->job.want_attempts = op->kind == OP_GET && chance(w, 50);
    op->job.want_wait = op->kind == OP_GET;
    op->job.want_log = op->job.want_attempts && chance(w, 50);
    op->job.want_steps = op->kind == OP_GET && chance(w, 30);
    op->job.delay_ms = op->kind == OP_REQUEUE && chance(w, 30) ? between(w, 1, 600) : 0;
}

static void fill_queue(struct world *w, struct op *op)
{
    struct op_queue *q = &op->queue;
    q->name = any_of(w);
    if (op->kind == OP_PAUSE && chance(w, 50))
        q->until.ms = chance(w, 80) ? world_now(w).wall.ms + between(w, 1, 800) : LIMIT_WALL_MS;
    if (op->kind != OP_QUEUE_PUT)
        return;
    struct queue_policy *p = pool_alloc(&w->pool, sizeof(*p));
    plan_policy(&w->plan, &w->random, p);
    if (has(&w->plan, FEATURE_LIMITS) && chance(w, 40))
        keeper_limits_draw(w, p);
    if (chance(w, 30))
        p->enqueue_rate = (struct rate_limit){.per = (uint8_t)between(w, 0, 2),
                                              .count = (uint32_t)between(w, 1, 5),
                                              .window_ms = (uint32_t)between(w, 1, 2000)};
    p->refuse_new = chance(w, 10);
    q->policy = p;
}

static void fill_bulk(struct world *w, struct op *op)
{
    op->bulk.action = (uint8_t)between(w, BULK_REQUEUE, BULK_CANCEL_NOW);
    op->bulk.queue = any_of(w);
    op->bulk.states = chance(w, 20) ? 0 : (unsigned)between(w, 1, 63) << 1;
}

/* Whatever lease it has, or an older one. */
static void fill_lease(struct world *w, struct op *op)
{
    op->lease.job = any_job(w);
    op->lease.any_token = true;
    op->lease.no_retry = op->kind == OP_FAIL && chance(w, 30);
    op->lease.lost = op->kind == OP_RELEASE && chance(w, 30);
    op->lease.lease_ms = op->kind == OP_EXTEND ? (uint32_t)between(w, 100, 2000) : 0;
    if (op->kind == OP_FAIL && chance(w, 40)) {
        op->lease.has_priority = true;
        op->lease.priority = between(w, -3, 3);
    }
}

static void fill_report(struct world *w, struct op *op)
{
    static const struct progress half = {.has_percent = true, .percent_100 = 5000};
    static const struct span line = SPAN_LITERAL("wild");
    fill_lease(w, op);
    op->lease.lease_ms = op->kind == OP_PROGRESS && chance(w, 50) ? 500 : 0;
    op->lease.progress = &half;
    op->lease.lines = &line;
    op->lease.line_count = 1;
    op->lease.step = line;
    op->lease.result = SPAN_LITERAL("[1]");
    op->lease.result_kind = op->kind == OP_STEP ? PAYLOAD_JSON : PAYLOAD_NONE;
}

static void fill_claim(struct world *w, struct op *op)
{
    op->claim.count = 1;
    op->claim.one = any_job(w);
    if (chance(w, 60)) {
        op->claim.one.seq = 0;
        op->claim.queues = w->keeper.queues;
        op->claim.queue_count = w->keeper.queue_count;
        op->claim.count = (uint32_t)between(w, 1, 6);
    }
    op->claim.bound = chance(w, 50);
    op->claim.want_body = true;
    op->claim.nonce = ++w->nonce;
}

static void fill_patch(struct world *w, struct op *op)
{
    op->patch.job = any_job(w);
    op->patch.has_priority = true;
    op->patch.priority = between(w, -5, 5);
    op->patch.has_payload = chance(w, 50);
    op->patch.payload_kind = PAYLOAD_BYTES;
    op->patch.payload = SPAN_LITERAL("patched");
}

static void fill_note(struct world *w, struct op *op)
{
    struct op_note *n = &op->note;
    n->job = any_job(w);
    n->has_label = chance(w, 50);
    n->has_attributes = chance(w, 50);
    n->has_result = chance(w, 30);
    n->has_error = !n->has_result && chance(w, 30);
    n->label = chance(w, 80) ? SPAN_LITERAL("wild") : (struct span){NULL, 0};
    n->attributes = chance(w, 80) ? SPAN_LITERAL("{}") : (struct span){NULL, 0};
    n->result_kind = PAYLOAD_BYTES;
    n->result = n->error = SPAN_LITERAL("noted");
}

/* ---- jobs with everything a job can have ----------------------------------------------------- */

/* A few keys, which other jobs and commits have, too. */
static struct span some_keys(struct world *w)
{
    struct buf list;
    buf_init(&list);
    uint32_t first = (uint32_t)between(w, 0, 3);
    for (uint32_t i = 0, n = (uint32_t)between(w, 1, 3); i < n; i++)
        CHECK(record_span_append(&list, keeper_key_of(&w->pool, KEY_SHARED, first + i)) == 0);
    struct span copy = pool_span(&w->pool, buf_span(&list));
    buf_done(&list);
    return copy;
}

static const struct job_past *past(struct world *w)
{
    struct job_past *p = pool_alloc(&w->pool, sizeof(*p));
    p->state = chance(w, 50) ? STATE_DEAD : STATE_READY;
    p->reason = p->state == STATE_DEAD ? REASON_FAILED : REASON_NONE;
    p->failures = 1;
    p->error = SPAN_LITERAL("elsewhere");
    return p;
}

static struct op_enqueue any_enqueue(struct world *w)
{
    struct op_enqueue op = {.queue = any_of(w), .payload_kind = PAYLOAD_BYTES};
    op.payload = pool_text(&w->pool, "wild %zu", w->call_count);
    if (chance(w, 60))
        op.extra.undelivered = some_keys(w);
    if (chance(w, 40)) {
        op.extra.unique = pool_text(&w->pool, "w%d", (int)between(w, 1, 5));
        op.unique_mode = (uint8_t)between(w, UNIQUE_QUEUE_DEFAULT, UNIQUE_REPLACE);
    }
    if (chance(w, 30)) {
        op.idempotency_key = pool_text(&w->pool, "wild %d", (int)between(w, 1, 30));
        op.fingerprint = 1;
    }
    if (chance(w, 40))
        op.extra.expires_at.ms = world_now(w).wall.ms + between(w, 1, 1500);
    if (chance(w, 20))
        op.delay_ms = between(w, 1, 800);
    if (chance(w, 30))
        op.extra.group = op.extra.correlation = op.extra.kind =
            pool_text(&w->pool, "g%d", (int)between(w, 1, 3));
    return op;
}

static void fill_enqueue(struct world *w, struct op *op)
{
    op->enqueue = any_enqueue(w);
    if (chance(w, 20))
        op->enqueue.past = past(w);
}

static void fill_enqueues(struct world *w, struct op *op)
{
    uint32_t count = (uint32_t)between(w, 2, 4);
    struct op_enqueue *all = pool_alloc(&w->pool, count * sizeof(*all));
    for (uint32_t i = 0; i < count; i++)
        all[i] = any_enqueue(w);
    op->kv_commit = (struct op_kv_commit){.enqueues = all, .enqueue_count = count};
}

/* A hand-off of whatever job is running. */
static void fill_handoff(struct world *w, struct op *op)
{
    struct op handoff = {.kind = OP_KV_COMMIT};
    struct op_kv_commit *c = pool_alloc(&w->pool, sizeof(*c));
    fill_enqueues(w, &handoff);
    *c = handoff.kv_commit;
    fill_lease(w, op);
    op->lease.handoff = c;
}

/* A schedule whose jobs have unique keys, wait, expire or leave keys. */
static void fill_put(struct world *w, struct op *op)
{
    struct schedule_spec *s = pool_alloc(&w->pool, sizeof(*s));
    size_t i = (size_t)between(w, 0, KEEPER_SCHEDULES + KEEPER_TRIGGERS - 1);
    bool clock = i < KEEPER_SCHEDULES;
    struct op_enqueue like = any_enqueue(w);
    schedule_default(s, clock ? SCHEDULE_INTERVAL : SCHEDULE_QUEUE);
    s->every_ms = 1000;
    s->overlap = chance(w, 50) ? OVERLAP_SKIP : OVERLAP_ALLOW;
    s->queue = like.queue;
    s->extra = like.extra;
    s->extra.expires_at.ms = 0;
    s->unique_mode = like.unique_mode;
    s->delay_ms = like.delay_ms;
    s->expires_in_ms = chance(w, 30) ? between(w, 1, 1500) : 0;
    if (!clock) {
        s->source = any_of(w);
        s->batch_size = (uint32_t)between(w, 1, 10);
        s->eager = chance(w, 50);
    }
    op->schedule.name = w->keeper.schedules[i];
    op->schedule.spec = s;
    op->schedule.next_at.ms = w->keeper.next_at[i];
}

/* Keys that expire, among them those that jobs leave. */
static void fill_commit(struct world *w, struct op *op)
{
    struct kv_set *set = pool_alloc(&w->pool, sizeof(*set));
    struct span *gone = pool_alloc(&w->pool, sizeof(*gone));
    enum keeper_key kind = chance(w, 50) ? KEY_SHARED : KEY_LEFT;
    uint32_t number = (uint32_t)between(w, 1, kind == KEY_SHARED ? 40 : (int64_t)w->call_count);
    *gone = keeper_key_of(&w->pool, KEY_LEFT, (uint32_t)between(w, 1, (int64_t)w->call_count));
    *set = (struct kv_set){.key = keeper_key_of(&w->pool, kind, number),
                           .kind = PAYLOAD_BYTES,
                           .value = pool_text(&w->pool, "wild %zu", w->call_count)};
    if (chance(w, 70))
        set->expires_at.ms = world_now(w).wall.ms + between(w, -100, 2000);
    op->kv_commit = (struct op_kv_commit){.sets = set, .set_count = 1, .deletes = gone};
    op->kv_commit.delete_count = chance(w, 40) && !span_equal(*gone, set->key);
}

static void fill_rule(struct world *w, struct op *op)
{
    struct alert_rule *r = pool_alloc(&w->pool, sizeof(*r));
    alert_rule_default(chance(w, 70) ? ALERT_DEAD : ALERT_SCHEDULE_FAILED, r);
    r->queue = chance(w, 50) ? SPAN_LITERAL("*") : any_of(w);
    r->enabled = !chance(w, 15);
    if (!chance(w, 20))
        r->url = SPAN_LITERAL("http://wild.example/in");
    op->alert.name = chance(w, 50) ? SPAN_LITERAL("dead") : SPAN_LITERAL("wild");
    op->alert.rule = r;
}

static void fill_schedule(struct world *w, struct op *op)
{
    op->schedule.name = w->keeper.schedules[between(w, 0, KEEPER_SCHEDULES + KEEPER_TRIGGERS - 1)];
}

static void fill_page(struct world *w, struct op *op)
{
    op->page.queue = any_of(w);
    op->page.offset = (uint64_t)between(w, 0, 5);
    op->page.limit = 20;
    op->page.want_body = chance(w, 50);
}

static void fill_history(struct world *w, struct op *op)
{
    op->history.queue = any_of(w);
    op->history.to = UINT32_MAX;
}

void keeper_wild(struct world *w, uint32_t client)
{
    static const struct {
        enum op_kind kind;
        unsigned weight;
        void (*fill)(struct world *w, struct op *op);
    } moves[] = {
        {OP_CANCEL, 5, fill_job},         {OP_REQUEUE, 8, fill_job},
        {OP_REMOVE, 4, fill_job},         {OP_GET, 3, fill_job},
        {OP_PATCH, 3, fill_patch},        {OP_QUEUE_PUT, 3, fill_queue},
        {OP_PAUSE, 2, fill_queue},        {OP_PURGE, 2, fill_queue},
        {OP_QUEUE_DELETE, 1, fill_queue}, {OP_BULK, 3, fill_bulk},
        {OP_ACK, 4, fill_lease},          {OP_FAIL, 6, fill_lease},
        {OP_EXTEND, 3, fill_lease},       {OP_RELEASE, 4, fill_lease},
        {OP_CLAIM, 6, fill_claim},        {OP_NOTE, 4, fill_note},
        {OP_KV_COMMIT, 6, fill_commit},   {OP_ALERT_PUT, 3, fill_rule},
        {OP_ALERT_DELETE, 1, fill_rule},  {OP_SCHEDULE_DELETE, 1, fill_schedule},
        {OP_ENQUEUE, 10, fill_enqueue},   {OP_KV_COMMIT, 6, fill_enqueues},
        {OP_SCHEDULE_PUT, 4, fill_put},   {OP_PAGE, 2, fill_page},
        {OP_HISTORY, 1, fill_history},    {OP_PROGRESS, 3, fill_report},
        {OP_LOG, 2, fill_report},         {OP_ACK, 4, fill_handoff},
        {OP_STEP, 2, fill_report},
    };
    unsigned sum = 0;
    size_t i = 0;
    for (; i < sizeof moves / sizeof *moves; i++)
        sum += moves[i].weight;
    int64_t roll = between(w, 0, sum - 1);
    for (i = 0; (roll -= moves[i].weight) >= 0; i++)
        ;
    uint32_t number;
    struct op op = {.kind = moves[i].kind};
    moves[i].fill(w, &op);
    call_new(w, client, op.kind, 2, &number)->op = op;
    call_send(w, number);
}
