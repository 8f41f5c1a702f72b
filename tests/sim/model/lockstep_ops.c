/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/model/lockstep_ops.h"

#include <string.h>

#include "core/jobs/progress.h"

static int64_t between(struct ops_source *s, int64_t low, int64_t high)
{
    return low >= high ? low : random_between(&s->random, low, high);
}

static bool chance(struct ops_source *s, unsigned percent)
{
    return random_chance(&s->random, percent) != 0;
}

static struct span any_queue(struct ops_source *s)
{
    return s->queues[between(s, 0, s->plan.queues - 1)];
}

static struct job_ref any_job(struct ops_source *s)
{
    if (s->seq_count == 0 || chance(s, 2))
        return (struct job_ref){(uint64_t)between(s, 1, 100000), 0};
    int64_t newest = s->seq_count - 1;
    int64_t i =
        chance(s, 70) ? between(s, newest > 12 ? newest - 12 : 0, newest) : between(s, 0, newest);
    return (struct job_ref){s->seqs[i], 0};
}

/* ---- one filler an operation ----------------------------------------------------------------- */

static void fill_enqueue(struct ops_source *s, struct op *o, struct now now)
{
    static const char bytes[256];
    struct op_enqueue *op = &o->enqueue;
    const struct plan *p = &s->plan;
    op->queue = any_queue(s);
    op->no_create = chance(s, 5);
    op->payload_kind = PAYLOAD_BYTES;
    op->payload = span_of(bytes, (size_t)between(s, 0, chance(s, 10) ? 256 : 40));
    if (has(p, FEATURE_PRIORITIES) && chance(s, 60)) {
        op->has_priority = true;
        op->priority = between(s, -3, 3);
    }
    if (has(p, FEATURE_DELAYS) && chance(s, 35)) {
        if (chance(s, 50))
            op->delay_ms = between(s, 0, 600);
        else
            op->run_at.ms = now.wall.ms + between(s, -100, 600);
    }
    if (has(p, FEATURE_EXPIRY) && chance(s, 25))
        op->extra.expires_at.ms = now.wall.ms + between(s, 1, 800);
    if (has(p, FEATURE_UNIQUE) && chance(s, 50)) {
        op->extra.unique = pool_text(&s->pool, "u%lld", (long long)between(s, 1, p->keys_in_use));
        op->unique_mode = (uint8_t)between(s, UNIQUE_QUEUE_DEFAULT, UNIQUE_REPLACE);
    }
    if (has(p, FEATURE_GROUPS) && chance(s, 50))
        op->extra.group = pool_text(&s->pool, "g%lld", (long long)between(s, 1, 3));
    if (has(p, FEATURE_KEYS) && chance(s, 50)) {
        op->idempotency_key = pool_text(
            &s->pool, "k%lld", (long long)between(s, s->keys > 8 ? s->keys - 8 : 0, s->keys));
        op->fingerprint = chance(s, 90) ? 1 : 2;
        s->keys += chance(s, 50);
    }
    if (has(p, FEATURE_OPTIONS) && chance(s, 40)) {
        struct job_options *options = pool_alloc(&s->pool, sizeof(*options));
        options->max_attempts = (uint16_t)between(s, 0, 4);
        options->max_crashes = (uint16_t)between(s, 0, 3);
        options->lease_ms = chance(s, 50) ? (uint32_t)between(s, LIMIT_LEASE_MS_MIN, 900) : 0;
        options->timeout_ms = chance(s, 20) ? (uint32_t)between(s, 1, 1200) : 0;
        options->has_backoff = chance(s, 50);
        if (options->has_backoff) {
            options->backoff.kind = BACKOFF_LIST;
            options->backoff.step_count = (uint8_t)between(s, 0, 3);
            for (unsigned i = 0; i < options->backoff.step_count; i++)
                options->backoff.step_ms[i] = (uint32_t)between(s, 0, 300);
        }
        op->options = options;
    }
}

static void fill_claim(struct ops_source *s, struct op *o, struct now now)
{
    struct op_claim *op = &o->claim;
    (void)now;
    op->count = (uint32_t)between(s, 1, s->plan.claim_count);
    if (has(&s->plan, FEATURE_SEIZE) && chance(s, 15)) {
        op->one = any_job(s);
        op->count = 1;
    } else {
        uint32_t first = (uint32_t)between(s, 0, s->plan.queues - 1);
        op->queue_count =
            has(&s->plan, FEATURE_MULTI_CLAIM) ? (uint32_t)between(s, 1, s->plan.queues) : 1;
        struct span *queues = pool_alloc(&s->pool, op->queue_count * sizeof(*queues));
        for (uint32_t i = 0; i < op->queue_count; i++)
            queues[i] = s->queues[(first + i) % s->plan.queues];
        op->queues = queues;
    }
    op->lease_ms = chance(s, 40) ? (uint32_t)between(s, LIMIT_LEASE_MS_MIN, 900) : 0;
    op->bound = has(&s->plan, FEATURE_BOUND) && chance(s, 40);
    op->nonce = chance(s, 60) ? ++s->nonce : 0;
    if (chance(s, 30))
        op->worker = SPAN_LITERAL("w");
}

static void fill_lease(struct ops_source *s, struct op *o, struct now now)
{
    struct op_lease *op = &o->lease;
    op->job = any_job(s);
    op->token = (struct job_token){(uint64_t)between(s, 1, 50), 1};
    uint32_t kept = s->lease_count < OPS_LEASES ? s->lease_count : OPS_LEASES;
    if (kept && chance(s, 95)) {
        int64_t last = s->lease_count - 1;
        int64_t back = between(s, 0, chance(s, 80) && kept > 8 ? 8 : kept - 1);
        const struct ops_lease *lease = &s->leases[(last - back) % OPS_LEASES];
        op->job.seq = lease->seq;
        op->token = lease->token;
    }
    op->any_token = has(&s->plan, FEATURE_ANY_TOKEN) && chance(s, 15);
    if (o->kind == OP_FAIL)
        op->no_retry = chance(s, 10);
    if (o->kind == OP_RELEASE)
        op->lost = chance(s, 30);
    if ((o->kind == OP_FAIL || (o->kind == OP_RELEASE && !op->lost)) && chance(s, 30)) {
        op->has_delay = true;
        if (chance(s, 50))
            op->delay_ms = between(s, 0, 400);
        else
            op->run_at.ms = now.wall.ms + between(s, -50, 400);
    }
    if ((o->kind == OP_EXTEND || o->kind == OP_PROGRESS) && chance(s, 50))
        op->lease_ms = (uint32_t)between(s, LIMIT_LEASE_MS_MIN, 900);
}

static void fill_report(struct ops_source *s, struct op *o, struct now now)
{
    static const struct progress half = {.has_percent = true, .percent_100 = 5000};
    static const struct span lines[] = {SPAN_LITERAL("opened"), SPAN_LITERAL("read")};
    fill_lease(s, o, now);
    o->lease.progress = &half;
    o->lease.lines = lines;
    o->lease.line_count = 2;
}

static void fill_step(struct ops_source *s, struct op *o, struct now now)
{
    fill_lease(s, o, now);
    o->lease.step = pool_text(&s->pool, "s%u", (unsigned)between(s, 0, 3));
    o->lease.result = SPAN_LITERAL("{\"n\":1}");
    o->lease.result_kind = PAYLOAD_JSON;
}

static void fill_release_claim(struct ops_source *s, struct op *o, struct now now)
{
    (void)now;
    o->release_claim.nonce =
        (uint64_t)between(s, s->nonce > 10 ? (int64_t)s->nonce - 10 : 0, (int64_t)s->nonce + 1);
}

static void fill_job(struct ops_source *s, struct op *o, struct now now)
{
    (void)now;
    o->job.job = any_job(s);
    o->job.force = o->kind == OP_CANCEL && chance(s, 30);
    if (o->kind == OP_REQUEUE && chance(s, 30))
        o->job.delay_ms = between(s, 0, 300);
}

static void fill_patch(struct ops_source *s, struct op *o, struct now now)
{
    static const char bytes[256];
    struct op_patch *op = &o->patch;
    op->job = any_job(s);
    op->has_priority = chance(s, 50);
    op->priority = between(s, -4, 4);
    op->has_run_at = chance(s, 50);
    if (op->has_run_at && chance(s, 70))
        op->run_at.ms = now.wall.ms + between(s, -100, 500);
    op->has_payload = chance(s, 30);
    op->payload_kind = PAYLOAD_BYTES;
    op->payload = span_of(bytes, (size_t)between(s, 0, chance(s, 10) ? 256 : 40));
}

/* Small limits, so that they are reached. */
static void draw_limits(struct ops_source *s, struct queue_policy *p)
{
    if (!s->limits || chance(s, 30))
        return;
    p->max_running = chance(s, 35) ? (uint32_t)between(s, 1, 4) : 0;
    p->max_running_per_group = chance(s, 35) ? (uint32_t)between(s, 1, 2) : 0;
    p->fair = chance(s, 35) ? FAIR_GROUP : FAIR_NONE;
    p->ageing_ms = chance(s, 25) ? (uint32_t)between(s, 1, 600) : 0;
    if (chance(s, 30))
        p->claim_rate =
            (struct rate_limit){(uint8_t)between(s, RATE_QUEUE, RATE_GROUP),
                                (uint32_t)between(s, 1, 4), (uint32_t)between(s, 50, 2000)};
}

static void fill_queue(struct ops_source *s, struct op *o, struct now now)
{
    struct op_queue *op = &o->queue;
    op->name = any_queue(s);
    if (o->kind == OP_PAUSE && chance(s, 40))
        op->until.ms = chance(s, 70) ? now.wall.ms + between(s, 1, 400) : LIMIT_WALL_MS;
    if (o->kind != OP_QUEUE_PUT)
        return;
    struct queue_policy *policy = pool_alloc(&s->pool, sizeof(*policy));
    plan_policy(&s->plan, &s->random, policy);
    policy->refuse_new = chance(s, 10);
    policy->payload_max = 100;
    draw_limits(s, policy);
    op->policy = chance(s, 85) ? policy : NULL;
    op->must_create = chance(s, 10);
    op->must_exist = !op->must_create && chance(s, 10);
}

static void fill_bulk(struct ops_source *s, struct op *o, struct now now)
{
    (void)now;
    o->bulk.action = (uint8_t)between(s, BULK_REQUEUE, BULK_CANCEL_NOW);
    o->bulk.queue = any_queue(s);
    o->bulk.states = chance(s, 20) ? 0 : (unsigned)between(s, 1, 63) << 1;
    if (has(&s->plan, FEATURE_GROUPS) && chance(s, 50))
        o->bulk.group = pool_text(&s->pool, "g%lld", (long long)between(s, 1, 3));
}

static void fill_peek(struct ops_source *s, struct op *o, struct now now)
{
    (void)now;
    o->peek.queue = any_queue(s);
    o->peek.state = (uint8_t)between(s, STATE_SCHEDULED, STATE_CANCELLED);
    o->peek.limit = (uint32_t)between(s, 1, 12);
}

static const struct {
    enum op_kind kind;
    enum feature feature; /* FEATURE_COUNT = always */
    unsigned weight;
    void (*fill)(struct ops_source *s, struct op *o, struct now now);
} kinds[] = {
    {OP_ENQUEUE, FEATURE_COUNT, 30, fill_enqueue},
    {OP_CLAIM, FEATURE_COUNT, 22, fill_claim},
    {OP_ACK, FEATURE_COUNT, 12, fill_lease},
    {OP_FAIL, FEATURE_FAILS, 10, fill_lease},
    {OP_EXTEND, FEATURE_EXTENDS, 5, fill_lease},
    {OP_RELEASE, FEATURE_RELEASES, 6, fill_lease},
    {OP_PROGRESS, FEATURE_EXTENDS, 4, fill_report},
    {OP_LOG, FEATURE_EXTENDS, 3, fill_report},
    {OP_STEP, FEATURE_EXTENDS, 3, fill_step},
    {OP_RELEASE_CLAIM, FEATURE_RELEASES, 3, fill_release_claim},
    {OP_CANCEL, FEATURE_CANCELS, 5, fill_job},
    {OP_REQUEUE, FEATURE_REQUEUES, 6, fill_job},
    {OP_PATCH, FEATURE_PATCHES, 6, fill_patch},
    {OP_REMOVE, FEATURE_REMOVES, 4, fill_job},
    {OP_QUEUE_PUT, FEATURE_POLICY_CHANGES, 3, fill_queue},
    {OP_QUEUE_DELETE, FEATURE_QUEUE_DELETES, 1, fill_queue},
    {OP_PAUSE, FEATURE_PAUSES, 4, fill_queue},
    {OP_PURGE, FEATURE_PURGES, 2, fill_queue},
    {OP_BULK, FEATURE_BULKS, 3, fill_bulk},
    {OP_GET, FEATURE_COUNT, 8, fill_job},
    {OP_PEEK, FEATURE_COUNT, 5, fill_peek},
    {OP_QUEUE_GET, FEATURE_COUNT, 6, fill_queue},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

void ops_init(struct ops_source *s, uint64_t seed)
{
    memset(s, 0, sizeof(*s));
    pool_init(&s->pool);
    random_seed(&s->random, seed * 7919 + 17);
    plan_draw(&s->plan, seed, &s->random);
    s->plan.features &= ~(UINT64_C(1) << FEATURE_JITTER); /* nothing may depend on chance */
    s->plan.lease_ms = 900;
    s->leaps = has(&s->plan, FEATURE_WALL_LEAPS);
    s->limits = chance(s, 60);
    for (unsigned i = 0; i < OPS_QUEUES; i++)
        s->queues[i] = pool_text(&s->pool, "q%u", i);
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].feature == FEATURE_COUNT || has(&s->plan, kinds[i].feature))
            s->weight_sum += s->weights[kinds[i].kind] = kinds[i].weight;
}

void ops_done(struct ops_source *s)
{
    pool_done(&s->pool);
}

void ops_config(struct ops_source *s, struct engine_config *ret)
{
    engine_config_default(ret);
    plan_policy(&s->plan, &s->random, &ret->policy);
    ret->policy.payload_max = 100;
    draw_limits(s, &ret->policy);
    ret->no_auto_create = chance(s, 5);
    ret->capacity = s->plan.capacity;
    ret->key_ttl_ms = s->plan.key_ttl_ms;
    ret->keys_max = chance(s, 20) ? (uint64_t)between(s, 2, 20) : 1000;
    ret->seq_block = s->plan.seq_block;
    ret->kept_replies = 8192;
    ret->event_ring = 4096; /* more than one step makes */
}

static void fill_one(struct ops_source *s, struct op *o, struct now now)
{
    int64_t roll = between(s, 0, s->weight_sum - 1);
    size_t i = 0;
    while ((roll -= s->weights[kinds[i].kind]) >= 0)
        i++;
    o->kind = kinds[i].kind;
    o->tag = ++s->tag;
    kinds[i].fill(s, o, now);
}

const struct op *ops_batch(struct ops_source *s, struct now now, size_t *ret_count)
{
    *ret_count = chance(s, 70) ? 1 : (size_t)between(s, 2, OPS_BATCH);
    struct op *ops = pool_alloc(&s->pool, *ret_count * sizeof(*ops));
    for (size_t i = 0; i < *ret_count; i++)
        fill_one(s, &ops[i], now);
    return ops;
}

void ops_enqueued(struct ops_source *s, uint64_t seq)
{
    if (s->seq_count < sizeof(s->seqs) / sizeof(s->seqs[0]))
        s->seqs[s->seq_count++] = seq;
}

void ops_leased(struct ops_source *s, const struct job_view *v)
{
    s->leases[s->lease_count++ % OPS_LEASES] = (struct ops_lease){v->job.seq, v->token, 0};
}
