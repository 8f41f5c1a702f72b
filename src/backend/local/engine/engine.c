/* SPDX-License-Identifier: Apache-2.0 */
/* Creating the engine, one step, the table of operations, and the output. */
#include "backend/local/engine/engine_impl.h"
#include "backend/local/engine/jobs/limits.h"
#include "core/records/frame.h"
#include "ops/kv/kv_check.h"

/* One commit has to swallow a step's frame. Room for the largest payload there is, and then some.
 */
#define STEP_FRAME_BYTES ((size_t)LIMIT_PAYLOAD_BYTES * 2)
#define DEFAULT_SEQ_BLOCK 4096u
#define DEFAULT_EVENT_RING 16384u
#define DEFAULT_STALL_MS 1000
#define DEFAULT_JUMP_MS (3600 * 1000)

void engine_config_default(struct engine_config *c)
{
    *c = (struct engine_config){
        .key_ttl_ms = DEFAULT_KEY_TTL_MS,
        .keys_max = DEFAULT_KEYS_MAX,
        .kv_keys_max = DEFAULT_KV_KEYS_MAX,
        .kv_bytes_max = DEFAULT_KV_BYTES_MAX,
        .kept_replies = LIMIT_KEPT_REPLIES,
        .seq_block = DEFAULT_SEQ_BLOCK,
        .slice = LIMIT_SLICE,
        .stall_ms = DEFAULT_STALL_MS,
        .jump_ms = DEFAULT_JUMP_MS,
    };
    policy_default(&c->policy);
}

static uint32_t power_of_two(uint32_t at_least)
{
    uint32_t n = 1;
    while (n < at_least)
        n *= 2;
    return n;
}

static void config_fill(struct engine_config *c)
{
    c->kept_replies = power_of_two(c->kept_replies ? c->kept_replies : LIMIT_KEPT_REPLIES);
    c->event_ring = power_of_two(c->event_ring ? c->event_ring : DEFAULT_EVENT_RING);
    c->seq_block = c->seq_block ? c->seq_block : DEFAULT_SEQ_BLOCK;
    c->slice = c->slice ? c->slice : LIMIT_SLICE;
    c->stall_ms = c->stall_ms ? c->stall_ms : DEFAULT_STALL_MS;
    c->jump_ms = c->jump_ms ? c->jump_ms : DEFAULT_JUMP_MS;
    c->key_ttl_ms = c->key_ttl_ms ? c->key_ttl_ms : DEFAULT_KEY_TTL_MS;
    c->keys_max = c->keys_max ? c->keys_max : DEFAULT_KEYS_MAX;
    c->kv_keys_max = c->kv_keys_max ? c->kv_keys_max : DEFAULT_KV_KEYS_MAX;
    c->kv_bytes_max = c->kv_bytes_max ? c->kv_bytes_max : DEFAULT_KV_BYTES_MAX;
}

static void init_indexes(struct engine *e)
{
    slab_init(&e->jobs, sizeof(struct live));
    slab_init(&e->extras, sizeof(struct extra));
    slab_init(&e->mores, sizeof(struct more));
    slab_init(&e->leases, sizeof(struct lease));
    slab_init(&e->groups, sizeof(struct group));
    slab_init(&e->options, sizeof(struct options));
    slab_init(&e->workers, sizeof(struct worker));
    slab_init(&e->keys, sizeof(struct key));
    slab_init(&e->rates, sizeof(struct rate));
    slab_init(&e->lines, sizeof(struct line));
    seqdir_init(&e->dir);
    struct map128 *maps[] = {&e->group_map, &e->options_map, &e->worker_map,  &e->key_map,
                             &e->rate_map,  &e->queue_map,   &e->schedule_map};
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
        map128_init(maps[i]);
    map64_init(&e->holds);
    mapref_init(&e->uniques);
    e->uniques.same = jobs_unique_same;
    e->uniques.same_ctx = e;
    map64_init(&e->nonces);
    outcome_counts_init(e);
    struct heap *heaps[] = {&e->leases_end,   &e->expiries,      &e->due_queues,
                            &e->prune_queues, &e->resume_queues, &e->token_queues};
    for (size_t i = 0; i < sizeof(heaps) / sizeof(heaps[0]); i++)
        heap_init(heaps[i]);
    e->leases_end.moved = leases_moved;
    e->leases_end.moved_ctx = e;
    alerts_init(e);
    buf_init(&e->scratch);
    buf_init(&e->deps.list);
    kv_init(e);
    undelivered_init(e);
    steps_init(e);
    dependencies_init(e);
}

int engine_new(const struct engine_config *config, struct engine **ret)
{
    struct engine *e = mem_zalloc(sizeof(*e));
    if (!e)
        return -ERR_NOMEM;
    e->config = *config;
    config_fill(&e->config);
    init_indexes(e);
    random_seed(&e->random, config->seed);
    e->ops.store = &engine_ops_store;
    e->ops.random = &e->random;
    e->ops.limits = &e->limits;
    buf_init(&e->ops.scratch);
    e->limits = (struct ops_limits){
        .policy = e->config.policy,
        .no_auto_create = e->config.no_auto_create,
        .node = e->config.node,
        .capacity = e->config.capacity,
        .kv = {.keys = e->config.kv_keys_max, .bytes = e->config.kv_bytes_max},
    };
#ifdef HF_TEST_HOOKS
    e->ops.defects = config->defects;
#endif
    e->seq_next = 1;
    e->queue_next = 1;
    e->bulk_next = 1;
    e->schedule_next = 1;
    e->kept_replies = mem_array(e->config.kept_replies, sizeof(*e->kept_replies));
    e->event_mask = e->config.event_ring - 1;
    progress_pace_init(&e->pace);
    e->events = mem_array(e->config.event_ring, sizeof(*e->events));
    if (!e->kept_replies || !e->events) {
        engine_free(e);
        return -ERR_NOMEM;
    }
    *ret = e;
    return 0;
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->queue_total; i++)
        queues_free(e, e->queues[i]);
    bulk_free_all(e);
    struct slab *slabs[] = {&e->jobs,    &e->extras,  &e->mores, &e->leases, &e->groups,
                            &e->options, &e->workers, &e->keys,  &e->rates,  &e->lines};
    for (size_t i = 0; i < sizeof(slabs) / sizeof(slabs[0]); i++)
        slab_done(slabs[i]);
    seqdir_done(&e->dir);
    struct map128 *maps[] = {&e->group_map, &e->options_map, &e->worker_map,  &e->key_map,
                             &e->rate_map,  &e->queue_map,   &e->schedule_map};
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
        map128_done(maps[i]);
    map64_done(&e->holds);
    mem_free(e->loose);
    schedules_free(e);
    mapref_done(&e->uniques);
    map64_done(&e->nonces);
    outcome_counts_done(e);
    struct heap *heaps[] = {&e->leases_end,   &e->expiries,      &e->due_queues,
                            &e->prune_queues, &e->resume_queues, &e->token_queues};
    for (size_t i = 0; i < sizeof(heaps) / sizeof(heaps[0]); i++)
        heap_done(heaps[i]);
    buf_done(&e->scratch);
    buf_done(&e->ops.scratch);
    kv_done(e);
    undelivered_done(e);
    steps_done(e);
    dependencies_done(e);
    buf_done(&e->deps.list);
    alerts_free(e);
    mem_free(e->kept_replies);
    events_free(e);
    mem_free(e->queues);
    mem_free(e->queue_slots);
    mem_free(e->by_name);
    mem_free(e->counted);
    mem_free(e->trims);
    mem_free(e->purging_queues);
    mem_free(e->sorting);
    mem_free(e);
}

/* --- output --- */

void engine_out_init(struct engine_out *out)
{
    *out = (struct engine_out){0};
    buf_init(&out->frame);
    arena_init(&out->arena);
}

void engine_out_done(struct engine_out *out)
{
    buf_done(&out->frame);
    arena_done(&out->arena);
    mem_free(out->replies);
    mem_free(out->wakes);
    *out = (struct engine_out){0};
}

void engine_out_reset(struct engine_out *out)
{
    buf_clear(&out->frame);
    arena_reset(&out->arena);
    out->first = 0;
    out->count = 0;
    out->reply_count = 0;
    out->wake_count = 0;
}

int engine_out_wake_room(struct engine_out *out, size_t queues)
{
    if (out->wake_room >= queues)
        return 0;
    uint32_t *grown = mem_regrow(out->wakes, queues + 64, sizeof(*grown));
    if (!grown)
        return -ERR_NOMEM;
    out->wakes = grown;
    out->wake_room = queues + 64;
    return 0;
}

static int reply_room(struct engine_out *out, size_t more)
{
    if (out->reply_count + more <= out->reply_room)
        return 0;
    size_t room = (out->reply_count + more) * 2;
    struct engine_reply *grown = mem_regrow(out->replies, room, sizeof(*grown));
    if (!grown)
        return -ERR_NOMEM;
    out->replies = grown;
    out->reply_room = room;
    return 0;
}

struct engine_reply *reply_new(struct engine *e, const struct op *op)
{
    CHECK(e->out->reply_count < e->out->reply_room);
    struct engine_reply *r = &e->out->replies[e->out->reply_count++];
    memset(r, 0, sizeof(*r));
    r->reply.kind = op->kind;
    r->reply.tag = op->tag;
    r->after = e->position;
    r->op = op;
    return r;
}

void reply_job(struct engine_reply *r, const struct live *l)
{
    r->reply.seq = l->job.seq;
    r->reply.id_hi = l->job.id_hi;
    r->reply.state = l->job.state;
}

bool refuse(struct engine_reply *r, enum outcome outcome, const char *note)
{
    r->reply.outcome = outcome;
    r->reply.note = note;
    return false;
}

bool refuse_nomem(struct engine_reply *r)
{
    return refuse(r, OUT_UNAVAILABLE, NO_ROOM);
}

/* Most ops of a batch are about one queue: its name is copied once. */
int name_for_reply(struct engine *e, const struct queue *q, struct span *ret)
{
    if (e->named != q) {
        const char *copy = arena_copy(&e->out->arena, q->name, q->name_len);
        if (!copy)
            return -ERR_NOMEM;
        e->named = q;
        e->named_as = span_of(copy, q->name_len);
    }
    *ret = e->named_as;
    return 0;
}

static int64_t lease_left_ms(const struct engine *e, const struct lease *lease, struct now now)
{
    int64_t left = lease->until == NEVER_MS ? lease->lease_ms : lease->until - lease_now(e, now);
    return left < 0 ? 0 : left;
}

int view_of(struct engine *e, const struct live *l, struct job_view *ret)
{
    struct span name;
    if (name_for_reply(e, queue_of(e, l), &name) != 0)
        return -ERR_NOMEM;
    struct span owner = queue_owner(queue_of(e, l));
    const char *owner_copy = arena_copy(&e->out->arena, owner.at, owner.len);
    if (!owner_copy)
        return -ERR_NOMEM;
    struct job_rules rules;
    jobs_rules(e, l, &rules);
    *ret = (struct job_view){.job = l->job,
                             .outcome_counts = outcome_counts_of(e, l),
                             .own_lease_ms = rules.lease_ms,
                             .queue = name,
                             .owner = span_of(owner_copy, owner.len),
                             .require_token = queue_of(e, l)->policy.require_token,
                             .by_due = queue_of(e, l)->policy.by_due,
                             .paused = queue_paused(queue_of(e, l), e->now.wall),
                             .position = l->position};
    ret->expires_at = more_of(e, l).expires_at;
    dependencies_view(e, l->job.seq, ret);
    if (!l->lease)
        return 0;
    const struct lease *lease = lease_at(e, l->lease);
    struct span worker = worker_name(e, lease->worker);
    const char *copy = arena_copy(&e->out->arena, worker.at, worker.len);
    if (!copy)
        return -ERR_NOMEM;
    ret->worker = span_of(copy, worker.len);
    ret->started_at = l->job.since;
    ret->token = lease->token;
    ret->lease_ms = lease->lease_ms;
    ret->limits = lease->limits;
    if (lease->held) {
        const struct live *holder = jobs_by_seq(e, lease->nonce, NULL);
        ret->holder = (struct job_ref){lease->nonce, holder ? holder->job.id_hi : 0};
        return 0;
    }
    ret->lease_left_ms = lease_left_ms(e, lease, e->now);
    return 0;
}

int64_t engine_lease_left_ms(struct engine *e, uint64_t seq, struct job_token token, struct now now)
{
    const struct live *l = jobs_by_seq(e, seq, NULL);
    const struct lease *lease = l && l->lease ? lease_at(e, l->lease) : NULL;
    if (!lease || lease->held || !token_equal(lease->token, token))
        return -1;
    return lease_left_ms(e, lease, now);
}

/* --- one step --- */

static void op_not_dispatching(struct engine *e, const struct op *op)
{
    refuse(reply_new(e, op), OUT_INVALID, "this store does not dispatch jobs");
}

/* One process has the store: the broker itself remembers its workers. */
static void op_registry(struct engine *e, const struct op *op)
{
    reply_new(e, op);
}

/* Operations that are not decided in src/ops. */
static const op_fn op_table[OP_KIND_COUNT] = {
    [OP_QUEUE_GET] = op_queue_get,
    [OP_QUEUE_LIST] = op_queue_list,
    [OP_GET] = op_get,
    [OP_PEEK] = op_peek,
    [OP_LIST] = op_list,
    [OP_WORKERS] = op_workers,
    [OP_REGISTRY] = op_registry,
    [OP_ACCEPT_CLOCK] = op_accept_clock,
    [OP_EXCEPTIONS] = op_exceptions,
    [OP_KV_GET] = op_kv_get,
    [OP_KV_LIST] = op_kv_list,
    [OP_ALERT_LIST] = op_alert_list,
    [OP_NOTICE_LIST] = op_notice_list,
    [OP_BREAKER_LIST] = op_breaker_list,
    [OP_PAGE] = op_page,
    [OP_HISTORY] = op_history,
    [OP_SCHEDULE_GET] = op_schedule_get,
    [OP_SCHEDULE_LIST] = op_schedule_list,
    [OP_PENDING] = op_not_dispatching,
    [OP_DISPATCHED] = op_not_dispatching,
    [OP_TICK] = op_tick,
};

/* If the process was suspended, leases are extended by that time. If the wall clock jumped, it is
 * not trusted (clock_suspect). */
static void watch_clocks(struct engine *e, struct now now)
{
    bool jumped = false;
    if (e->stepped) {
        int64_t mono = now.mono.ms - e->last.mono.ms;
        int64_t wall = now.wall.ms - e->last.wall.ms;
        if (mono > e->config.stall_ms)
            e->skipped_ms += mono;
        jumped = wall - mono > e->config.jump_ms && !e->clock_suspect;
    }
    e->stepped = true;
    e->last = now;
    e->now = now;
    e->ops.now = now.wall;
    e->ops.rate_now_us = now.mono.ms * 1000;
    if (jumped) {
        e->clock_suspect = true;
        events_queue(e, EVENT_CLOCK_SUSPECT, NULL, 0);
    }
}

void engine_look(struct engine *e, struct now now)
{
    watch_clocks(e, now);
}

size_t engine_bulks_waiting(const struct engine *e)
{
    size_t n = 0;
    for (const struct bulk *b = e->bulks; b; b = b->after)
        n += b->has_op;
    return n;
}

static int step_begin(struct engine *e, struct now now, struct engine_out *out, size_t replies)
{
    engine_out_reset(out);
    int err = reply_room(out, replies + engine_bulks_waiting(e));
    if (!err)
        err = engine_out_wake_room(out, e->queue_count);
    if (err)
        return err;
    watch_clocks(e, now);
    e->out = out;
    e->ops.memory = &out->arena;
    e->named = NULL;
    e->frame_max = STEP_FRAME_BYTES;
    out->first = e->position + 1;
    return 0;
}

static void step_end(struct engine *e, struct engine_out *out)
{
    /* Also of a tick: what acks of this step have made ready is in its frame. */
    if ((e->deps.work_first || e->deps.defect_seq) && !e->config.still)
        tick_dependencies(e, e->config.slice);
    if (e->trim_count)
        tick_trim(e, e->config.slice);
    counters_emit(e);
    if (out->count > 0)
        frame_end(&out->frame, out->first, out->count);
    else
        buf_clear(&out->frame);
    for (size_t i = 0; i < out->wake_count; i++) {
        struct queue *q = queue_at(e, out->wakes[i]);
        if (q)
            q->woken = false;
    }
    e->out = NULL;
}

/* A reply leaves when all records so far are durable. A claim waits only for those of the jobs that
 * it hands out, and the reply of a relaxed queue for none; but even if a relaxed job is lost, its
 * id must never be given to another. */
static void step_op(struct engine *e, const struct op *op)
{
    ops_fn fn = ops_function(op->kind);
    if (!fn) {
        op_table[op->kind](e, op);
        return;
    }
    struct engine_reply *r = reply_new(e, op);
    e->reply = r;
    e->ops.nomem = false;
    e->ops.body_bytes = 0;
    if (op->kind == OP_CLAIM && !op->claim.one.seq)
        r->after = 0;
    fn(&e->ops, op, &r->reply);
    if (op->kind != OP_CLAIM)
        r->after = e->position;
    if (r->reply.outcome == OUT_DISK_FULL)
        r->after = 0; /* what it would else wait for has to wait for room */
    if (DEFECT(&e->config, DEFECT_DUPLICATE_EARLY) && op->kind == OP_ENQUEUE && !r->reply.created)
        r->after = 0;
    if (op->kind == OP_BULK && r->reply.outcome == OUT_OK)
        e->out->reply_count--; /* it is answered when it has ended */
    if (r->reply.relaxed)
        r->after = op->kind == OP_ENQUEUE ? e->block_position : 0;
}

int engine_step(struct engine *e, const struct op *ops, size_t count, struct now now,
                struct engine_out *out)
{
    int err = step_begin(e, now, out, count);
    if (err)
        return err;
    for (size_t i = 0; i < count; i++)
        step_op(e, &ops[i]);
    step_end(e, out);
    return 0;
}

/* Those of a spool are counted elsewhere. */
void seqs_seen(struct engine *e, uint64_t seq)
{
    if (seq > e->seq_top)
        e->seq_top = seq;
    if (seq >= e->seq_next && !id_spooled(seq))
        e->seq_next = seq + 1;
}

/* Sequences come from blocks. The next block is reserved while half of the last one is left, so
 * that the reservation is durable before it is needed. */
void seqs_ahead(struct engine *e)
{
    if (e->seq_next + e->config.seq_block / 2 <= e->seq_upto)
        return;
    struct record rec = {
        .kind = REC_SEQ_BLOCK,
        .seq_block = {.upto = e->seq_next - 1 + e->config.seq_block},
    };
    engine_emit(e, &rec);
    e->block_position = e->position;
}

/* Epoch, leases: what a start changes. */
static void boot_leases(struct engine *e)
{
    for (size_t n = 0; n < e->queue_total; n++) {
        struct queue *q = e->queues[n];
        uint32_t next;
        for (uint32_t at = q && !q->gone ? q->lists[STATE_RUNNING].head : 0; at; at = next) {
            struct live *l = live_at(e, at);
            next = l->next;
            struct lease *lease = lease_at(e, l->lease);
            bool bound = (l->job.flags & JOB_BOUND) && !e->config.still;
            if (bound && !cancel_requested(&lease->limits)) {
                struct record rec;
                decide_release(&l->job, (struct wall_time){0}, q->generation, e->now.wall, &rec);
                rec.job_back.reason = REASON_RESTARTED;
                engine_emit(e, &rec);
            } else {
                leases_restore(e, lease);
                e->restored_leases++;
            }
        }
    }
}

static int boot_reserve(struct engine *e)
{
    size_t running = e->leases.used;
    int err = counters_reserve(e, e->queue_count);
    if (!err)
        err = emit_reserve(e, 256 + running * 128 + counters_bytes(e, e->queue_count));
    if (!err)
        err = heap_reserve(&e->leases_end, running);
    /* Shared heaps need room for all of them at once. */
    if (!err)
        err = heap_reserve(&e->due_queues, running + 1);
    if (!err)
        err = heap_reserve(&e->expiries, running);
    if (!err)
        err = mapref_reserve(&e->uniques, running);
    for (size_t n = 0; !err && n < e->queue_total; n++) {
        struct queue *q = e->queues[n];
        size_t here = q ? q->lists[STATE_RUNNING].count : 0;
        if (here)
            err = heap_reserve(&q->ready, here);
        if (!err && here)
            err = heap_reserve(&q->due, here);
        if (!err && here)
            err = ranks_reserve(q, 0, here);
        if (!err && here && q->flow)
            err = limits_reserve(e, q, here);
    }
    return err;
}

int engine_boot(struct engine *e, struct now now, struct engine_out *out)
{
    int err = step_begin(e, now, out, 0);
    e->frame_max = FRAME_BYTES_MAX; /* every bound lease gives a record */
    if (!err)
        err = boot_reserve(e);
    if (!err && e->ended_came) /* by the journal */
        err = lists_by_age(e);
    if (err) {
        e->out = NULL;
        return err;
    }
    counters_boot(e);
    bool raise = e->epoch == 0 || !DEFECT(&e->config, DEFECT_EPOCH_KEPT);
    struct record rec = {
        .kind = REC_EPOCH,
        .epoch = {.epoch = raise ? e->epoch + 1 : e->epoch, .at = now.wall},
    };
    engine_emit(e, &rec);
    events_boot(e);
    e->token_counter = 0;
    if (e->seq_next <= e->seq_upto)
        e->seq_next = e->seq_upto + 1;
    e->seq_boot = e->seq_next;
    seqs_ahead(e);
    boot_leases(e);
    limits_boot(e);
    if (!e->config.still)
        holds_boot(e);
    dependencies_boot(e);
    notices_boot(e);
    step_end(e, out);
    return 0;
}

void engine_set_full(struct engine *e, bool full)
{
    e->ops.disk_full = full;
}

void engine_accept_clock(struct engine *e)
{
    e->clock_suspect = false;
}

bool engine_clock_suspect(const struct engine *e)
{
    return e->clock_suspect;
}

enum job_state engine_job_state(struct engine *e, uint64_t seq)
{
    const struct live *l = jobs_find(e, (struct job_ref){seq, 0}, NULL);
    return l ? (enum job_state)l->job.state : STATE_NONE;
}

bool engine_ready_at(struct engine *e, uint64_t seq, uint64_t position)
{
    const struct live *l = jobs_by_seq(e, seq, NULL);
    return l && l->job.state == STATE_READY && l->position == position;
}

uint64_t engine_position(const struct engine *e)
{
    return e->position;
}

uint32_t engine_epoch(const struct engine *e)
{
    return e->epoch;
}

struct hash_key engine_hash_key(const struct engine *e)
{
    return e->hash_key;
}

static uint64_t index_bytes(const struct engine *e)
{
    uint64_t bytes = slab_bytes(&e->jobs) + slab_bytes(&e->extras) + slab_bytes(&e->mores) +
                     slab_bytes(&e->leases) + slab_bytes(&e->groups) + slab_bytes(&e->options) +
                     slab_bytes(&e->workers) + slab_bytes(&e->keys) + seqdir_bytes(&e->dir) +
                     mapref_bytes(&e->uniques) + map128_bytes(&e->group_map) +
                     map128_bytes(&e->key_map) + heap_bytes(&e->leases_end) +
                     heap_bytes(&e->expiries) + heap_bytes(&e->due_queues) +
                     heap_bytes(&e->prune_queues) + kv_index_bytes(e) + rates_bytes(e) +
                     slab_bytes(&e->outcome_counts) + map64_bytes(&e->outcome_counts_map) +
                     slab_bytes(&e->lines) + heap_bytes(&e->token_queues) + dependencies_bytes(e) +
                     steps_memory(e);
    return bytes + e->queue_bytes;
}

void engine_figures(const struct engine *e, struct engine_figures *ret)
{
    *ret = (struct engine_figures){
        .jobs = e->jobs.used,
        .live = e->live,
        .bytes = index_bytes(e),
        .keys = e->keys.used,
        .kv_keys = e->kvs.used,
        .kv_bytes = e->kv_bytes,
        .queues = e->queue_count,
        .restored_leases = e->restored_leases,
        .forgotten_claims = e->forgotten_claims,
        .stalls_ms = (uint64_t)e->skipped_ms,
        .notices_pending = e->outbox.notices.used - e->outbox.dead,
        .notices_dead = e->outbox.dead,
        .notices_dropped = e->outbox.dropped,
    };
    memcpy(ret->by_state, e->by_state, sizeof(ret->by_state));
}
