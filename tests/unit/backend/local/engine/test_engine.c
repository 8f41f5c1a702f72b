/* SPDX-License-Identifier: Apache-2.0 */
/* The engine by itself: what conformance and simulation cannot see from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backend/local/engine/engine.h"
#include "base/digest/random.h"
#include "base/mem.h"

#define START_WALL INT64_C(1760000000000)

struct rig {
    struct store *store;
    struct engine *engine;
    struct engine_out out;
    struct now now;
    struct buf log; /* every frame, one after the other */
};

static void rig_open(struct rig *r, const struct engine_config *config)
{
    struct engine_config plain;
    engine_config_default(&plain);
    plain.seed = 7;
    *r = (struct rig){.now = {{1000}, {START_WALL}}};
    engine_out_init(&r->out);
    buf_init(&r->log);
    assert_int_equal(store_open_memory(1, &r->store), 0);
    assert_int_equal(engine_new(config ? config : &plain, &r->engine), 0);
    assert_int_equal(engine_load(r->engine, r->store, NULL), 0);
    assert_int_equal(engine_boot(r->engine, r->now, &r->out), 0);
    assert_int_equal(buf_append_span(&r->log, buf_span(&r->out.frame)), 0);
}

static void rig_close(struct rig *r)
{
    struct err_note note = {""};
    if (engine_verify(r->engine, &note) != 0)
        fail_msg("%s", note.text);
    buf_done(&r->log);
    engine_out_done(&r->out);
    engine_free(r->engine);
    r->store->ops->close(r->store);
}

static const struct engine_reply *step(struct rig *r, const struct op *op)
{
    assert_int_equal(engine_step(r->engine, op, 1, r->now, &r->out), 0);
    if (r->out.count)
        assert_int_equal(buf_append_span(&r->log, buf_span(&r->out.frame)), 0);
    return r->out.reply_count ? &r->out.replies[0] : NULL;
}

static void pass_ms(struct rig *r, int64_t ms)
{
    r->now.mono.ms += ms;
    r->now.wall.ms += ms;
}

static void tick(struct rig *r)
{
    struct op op = {.kind = OP_TICK};
    step(r, &op);
}

static const struct span q0 = {"q0", 2};

static struct op enqueue_op(const char *queue)
{
    struct op op = {.kind = OP_ENQUEUE};
    op.enqueue.queue = span_text(queue);
    op.enqueue.payload_kind = PAYLOAD_JSON;
    op.enqueue.payload = SPAN_LITERAL("{}");
    return op;
}

static struct op claim_op(const struct span *queue)
{
    struct op op = {.kind = OP_CLAIM};
    op.claim.queues = queue;
    op.claim.queue_count = 1;
    op.claim.count = 1;
    return op;
}

/* Enqueues a job and claims it. */
static struct job_view claim_new(struct rig *r)
{
    struct op put = enqueue_op("q0"), get = claim_op(&q0);
    step(r, &put);
    return step(r, &get)->reply.jobs[0];
}

static struct op lease_op(enum op_kind kind, const struct job_view *v)
{
    struct op op = {.kind = kind};
    op.lease.job.seq = v->job.seq;
    op.lease.token = v->token;
    return op;
}

/* --- */

/* DESIGN: replies follow durability. */
static void replies_wait_for_what_they_depend_on(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL);
    struct op enqueue = enqueue_op("q0"), claim = claim_op(&q0);
    const struct engine_reply *e = step(&r, &enqueue);
    uint64_t made =
        engine_position(r.engine) - 1; /* the record of counters is the last of its batch */
    assert_int_equal(e->after, made);

    e = step(&r, &claim);
    assert_int_equal(e->reply.job_count, 1);
    assert_int_equal(e->after, made); /* the job's record, not the claim's own */
    struct job_view v = e->reply.jobs[0];

    e = step(&r, &claim);
    assert_int_equal(e->reply.job_count, 0);
    assert_int_equal(e->after, 0);

    struct op ack = lease_op(OP_ACK, &v);
    e = step(&r, &ack);
    assert_int_equal(e->reply.outcome, OUT_OK);
    assert_int_equal(e->after, engine_position(r.engine) - 1);

    enqueue.enqueue.extra.unique = SPAN_LITERAL("k");
    step(&r, &enqueue);
    uint64_t first = engine_position(r.engine);
    e = step(&r, &enqueue);
    assert_int_equal(e->reply.outcome, OUT_DUPLICATE);
    assert_true(e->after >= first);
    rig_close(&r);
}

/* HF-1: a relaxed queue's success need not wait, and says so. */
static void relaxed_queues_say_so(void **state)
{
    (void)state;
    struct rig r;
    struct queue_policy policy;
    policy_default(&policy);
    policy.durability = DURABILITY_RELAXED;
    rig_open(&r, NULL);
    struct op put = {.kind = OP_QUEUE_PUT};
    put.queue.name = q0;
    put.queue.policy = &policy;
    step(&r, &put);
    struct op enqueue = enqueue_op("q0");
    const struct engine_reply *e = step(&r, &enqueue);
    assert_true(e->reply.relaxed);
    assert_true(e->after < engine_position(r.engine)); /* only its sequence block must be safe */
    rig_close(&r);
}

/* One of many things a client might do, drawn at random; the same draws give the same ops. */
static void random_op(struct random *random, struct op *op, char key[16])
{
    static const struct span queues[] = {{"q0", 2}, {"q1", 2}};
    uint64_t seq = 1 + random_below(random, 200);
    *op = (struct op){0};
    switch (random_below(random, 10)) {
    case 0:
    case 1:
    case 2:
        *op = enqueue_op(random_chance(random, 50) ? "q0" : "q1");
        op->enqueue.has_priority = true;
        op->enqueue.priority = random_between(random, -3, 3);
        op->enqueue.delay_ms = random_chance(random, 30) ? random_between(random, 1, 5000) : 0;
        if (random_chance(random, 30)) {
            snprintf(key, 16, "u%llu", (unsigned long long)random_below(random, 20));
            op->enqueue.extra.unique = span_text(key);
            op->enqueue.unique_mode = (uint8_t)random_between(random, 1, 3);
        }
        return;
    case 3:
    case 4:
        *op = claim_op(queues);
        op->claim.queue_count = 2;
        op->claim.count = (uint32_t)random_between(random, 1, 3);
        return;
    case 5:
        op->kind = OP_ACK;
        op->lease.any_token = true;
        break;
    case 6:
        op->kind = OP_FAIL;
        op->lease.any_token = true;
        break;
    case 7:
        op->kind = random_chance(random, 50) ? OP_CANCEL : OP_REQUEUE;
        op->job.job.seq = seq;
        return;
    case 8:
        op->kind = OP_REMOVE;
        op->job.job.seq = seq;
        return;
    default:
        op->kind = OP_TICK;
        return;
    }
    op->lease.job.seq = seq;
}

static void live_through(struct rig *r, uint64_t seed, size_t steps)
{
    struct random random;
    random_seed(&random, seed);
    for (size_t i = 0; i < steps; i++) {
        struct op op;
        char key[16];
        random_op(&random, &op, key);
        pass_ms(r, random_between(&random, 0, 400));
        step(r, &op);
    }
}

/* Two engines in one process do not know of each other, and the same inputs give the same bytes. */
static void engines_are_deterministic_and_apart(void **state)
{
    (void)state;
    struct rig a, b, other;
    rig_open(&a, NULL);
    rig_open(&b, NULL);
    rig_open(&other, NULL);
    for (uint64_t round = 0; round < 20; round++) {
        live_through(&a, round, 100);
        live_through(&other, round + 1000, 100);
        live_through(&b, round, 100);
    }
    assert_int_equal(a.log.len, b.log.len);
    assert_memory_equal(a.log.data, b.log.data, a.log.len);
    assert_int_equal(engine_state_hash(a.engine), engine_state_hash(b.engine));
    assert_int_not_equal(engine_state_hash(a.engine), engine_state_hash(other.engine));
    rig_close(&a);
    rig_close(&b);
    rig_close(&other);
}

/* Replaying the records alone gives the same state: they hold outcomes, not inputs. */
static void replay_gives_the_same_state(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rig r;
        struct engine_config config;
        struct err_note note = {""};
        struct engine *again;
        engine_config_default(&config);
        config.seed = 99; /* other jitter: must not matter */
        rig_open(&r, NULL);
        live_through(&r, seed, 400);
        assert_int_equal(engine_new(&config, &again), 0);
        assert_int_equal(engine_load(again, r.store, NULL), 0);
        struct span rest = buf_span(&r.log);
        while (rest.len) {
            struct frame frame;
            struct span whole = rest;
            assert_int_equal(frame_decode(&rest, &frame), 0);
            whole.len -= rest.len;
            if (engine_replay(again, whole, &note) != 0)
                fail_msg("seed %llu: %s", (unsigned long long)seed, note.text);
        }
        assert_int_equal(engine_position(again), engine_position(r.engine));
        assert_int_equal(engine_state_hash(again), engine_state_hash(r.engine));
        if (engine_verify(again, &note) != 0)
            fail_msg("%s", note.text);
        engine_free(again);
        rig_close(&r);
    }
}

static void damaged_frames_are_refused(void **state)
{
    (void)state;
    struct rig r;
    struct engine_config config;
    struct engine *again;
    struct err_note note = {""};
    engine_config_default(&config);
    rig_open(&r, NULL);
    struct op enqueue = enqueue_op("q0");
    step(&r, &enqueue);
    assert_int_equal(engine_new(&config, &again), 0);
    assert_int_equal(engine_load(again, r.store, NULL), 0);
    /* The second frame cannot come before the first. */
    assert_int_equal(engine_replay(again, buf_span(&r.out.frame), &note), -ERR_CORRUPT);
    r.out.frame.data[r.out.frame.len - 1] ^= 1;
    assert_int_equal(engine_replay(again, buf_span(&r.out.frame), &note), -ERR_CORRUPT);
    engine_free(again);
    rig_close(&r);
}

/* Nothing on the hot path allocates in the steady state. */
static void steady_state_allocates_nothing(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL);
    for (int i = 0; i < 60000; i++) {
        if (i == 40000)
            mem_fail_at(0, 0); /* also sets the count to zero */
        struct op op = enqueue_op("q0");
        assert_int_equal(engine_step(r.engine, &op, 1, r.now, &r.out), 0);
        op = claim_op(&q0);
        assert_int_equal(engine_step(r.engine, &op, 1, r.now, &r.out), 0);
        assert_int_equal(r.out.replies[0].reply.job_count, 1);
        struct job_view v = r.out.replies[0].reply.jobs[0];
        op = lease_op(OP_ACK, &v);
        assert_int_equal(engine_step(r.engine, &op, 1, r.now, &r.out), 0);
        if (i % 100 == 0) {
            pass_ms(&r, 1);
            op = (struct op){.kind = OP_TICK};
            assert_int_equal(engine_step(r.engine, &op, 1, r.now, &r.out), 0);
        }
    }
    assert_int_equal(mem_calls(), 0);
    rig_close(&r);
}

/* A step that lacks memory says so and has changed nothing; the next one works. */
static void failed_allocations_change_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct rig r;
        struct random random, nth;
        rig_open(&r, NULL);
        random_seed(&random, seed);
        random_seed(&nth, seed + 1);
        for (int i = 0; i < 150; i++) {
            struct op op;
            char key[16];
            random_op(&random, &op, key);
            pass_ms(&r, random_between(&random, 0, 400));
            uint64_t before = engine_state_hash(r.engine);
            mem_fail_at(1 + (long)random_below(&nth, 4), 1);
            int err = engine_step(r.engine, &op, 1, r.now, &r.out);
            mem_fail_at(0, 0);
            bool refused =
                err || (r.out.reply_count > 0 && r.out.replies[0].reply.outcome == OUT_UNAVAILABLE);
            /* An enqueue may have made its queue before it found no room for the job. */
            if (refused && (err || op.kind != OP_ENQUEUE) && op.kind != OP_CLAIM)
                assert_int_equal(engine_state_hash(r.engine), before);
            struct err_note note = {""};
            if (engine_verify(r.engine, &note) != 0)
                fail_msg("seed %llu: %s", (unsigned long long)seed, note.text);
        }
        rig_close(&r);
    }
}

/* A process that stood still owes its workers the time. */
static void standstill_does_not_end_leases(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL);
    struct job_view v = claim_new(&r);
    assert_int_equal(v.lease_ms, 30000);
    pass_ms(&r, 3600000); /* stopped for an hour */
    tick(&r);
    struct op get = {.kind = OP_GET, .job.job.seq = v.job.seq};
    assert_int_equal(step(&r, &get)->reply.state, STATE_RUNNING);
    for (int i = 0; i < 31; i++) { /* half a minute of ordinary life */
        pass_ms(&r, 1000);
        tick(&r);
    }
    assert_int_equal(step(&r, &get)->reply.state, STATE_READY);
    rig_close(&r);
}

/* Leases count in monotonic time: a wall clock that is set does not end them. */
static void wall_clock_does_not_end_leases(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL);
    struct job_view v = claim_new(&r);
    r.now.wall.ms += 60000;
    tick(&r);
    struct op get = {.kind = OP_GET, .job.job.seq = v.job.seq};
    assert_int_equal(step(&r, &get)->reply.state, STATE_RUNNING);
    rig_close(&r);
}

/* A wall clock that leaps far ahead is not believed: nothing expires or is pruned until accepted.
 */
static void leaping_wall_clock_stops_expiry(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL);
    struct op op = enqueue_op("q0");
    op.enqueue.extra.expires_at.ms = r.now.wall.ms + 5000;
    uint64_t seq = step(&r, &op)->reply.seq;
    r.now.wall.ms += INT64_C(30) * 24 * 3600 * 1000;
    tick(&r);
    assert_true(engine_clock_suspect(r.engine));
    struct op get = {.kind = OP_GET};
    get.job.job.seq = seq;
    assert_int_equal(step(&r, &get)->reply.state, STATE_READY);
    engine_accept_clock(r.engine);
    tick(&r);
    assert_int_equal(step(&r, &get)->reply.state, STATE_DEAD);
    rig_close(&r);
}

/* Purges and bulk actions take effect at once and are worked off in slices. */
static void slices_are_bounded(void **state)
{
    (void)state;
    struct rig r;
    struct engine_config config;
    engine_config_default(&config);
    config.slice = 10;
    rig_open(&r, &config);
    struct op op = enqueue_op("q0");
    for (int i = 0; i < 95; i++)
        step(&r, &op);
    struct op purge = {.kind = OP_PURGE};
    purge.queue.name = q0;
    assert_int_equal(step(&r, &purge)->reply.changed, 95);
    struct engine_figures f;
    engine_figures(r.engine, &f);
    assert_int_equal(f.live, 0);
    assert_int_equal(f.jobs, 95);
    for (int i = 1; i <= 10; i++) {
        assert_int_equal(engine_next_tick_ms(r.engine, r.now), 0);
        tick(&r);
        engine_figures(r.engine, &f);
        assert_int_equal(f.jobs, i < 10 ? 95 - 10 * i : 0);
    }
    rig_close(&r);
}

/* Cancelled jobs leave stale entries in the order of claims; these must not pile up. */
static void stale_entries_are_cleared(void **state)
{
    (void)state;
    struct rig r;
    struct engine_config config;
    struct engine_figures before, after;
    engine_config_default(&config);
    config.policy.keep_done = 0;
    rig_open(&r, &config);
    struct op enqueue = enqueue_op("q0"), cancel = {.kind = OP_CANCEL};
    step(&r, &enqueue); /* stays, so that the order is never empty */
    for (int i = 0; i < 20000; i++) {
        enqueue.enqueue.has_priority = true;
        enqueue.enqueue.priority = -1 - i % 7;
        cancel.job.job.seq = step(&r, &enqueue)->reply.seq;
        step(&r, &cancel);
        if (i == 5000)
            engine_figures(r.engine, &before);
    }
    engine_figures(r.engine, &after);
    assert_true(after.bytes <= before.bytes + 65536);
    rig_close(&r);
}

#define WEIGHED 500000
#define WEIGHED_LOT 64

/* Bytes a waiting job, all indexes: half of them ready, half scheduled. */
static double bytes_a_job(bool unique)
{
    struct rig r;
    struct engine_figures figures;
    struct op ops[WEIGHED_LOT];
    char keys[WEIGHED_LOT][24];
    rig_open(&r, NULL);
    for (int i = 0; i < WEIGHED; i++) {
        int k = i % WEIGHED_LOT;
        ops[k] = enqueue_op("q0");
        ops[k].enqueue.delay_ms = i % 2 ? 3600000 : 0;
        snprintf(keys[k], sizeof keys[k], "key-%d", i);
        if (unique)
            ops[k].enqueue.extra.unique = span_text(keys[k]);
        if (k + 1 == WEIGHED_LOT)
            assert_int_equal(engine_step(r.engine, ops, WEIGHED_LOT, r.now, &r.out), 0);
    }
    engine_figures(r.engine, &figures);
    assert_in_range(figures.jobs, WEIGHED - WEIGHED_LOT, WEIGHED);
    double bytes = (double)figures.bytes / (double)figures.jobs;
    rig_close(&r);
    return bytes;
}

/* DESIGN: at most 160 bytes a live job. */
static void jobs_cost_what_is_promised(void **state)
{
    (void)state;
    double plain = bytes_a_job(false), unique = bytes_a_job(true);
    print_message("# bytes a job: %.1f, with a unique key %.1f\n", plain, unique);
    assert_true(plain > 88 && plain <= 120);
    assert_true(unique > plain && unique <= 160);
}

/* Whatever a client puts into the enumerated fields, it gets an answer. */
static void odd_values_are_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL);
    struct op enqueue = enqueue_op("q0");
    for (unsigned v = 0; v < 256; v++) {
        struct op op = enqueue;
        op.enqueue.payload_kind = (uint8_t)v;
        enum outcome want = v == PAYLOAD_JSON || v == PAYLOAD_BYTES ? OUT_OK : OUT_INVALID;
        assert_int_equal(step(&r, &op)->reply.outcome, want);
        op = enqueue;
        op.enqueue.extra.unique = SPAN_LITERAL("k");
        op.enqueue.unique_mode = (uint8_t)v;
        assert_int_equal(step(&r, &op)->reply.outcome == OUT_INVALID, v > UNIQUE_REPLACE);
        op = claim_op(&q0);
        struct job_view view = step(&r, &op)->reply.jobs[0];
        op = lease_op(OP_FAIL, &view);
        op.lease.error_kind = (uint8_t)v;
        assert_int_equal(step(&r, &op)->reply.outcome, v > ERROR_BUSINESS ? OUT_INVALID : OUT_OK);
        op = lease_op(OP_ACK, &view);
        op.lease.result_kind = (uint8_t)v;
        op.lease.result = SPAN_LITERAL("1");
        if (v > ERROR_BUSINESS) /* still held */
            assert_int_equal(step(&r, &op)->reply.outcome,
                             v <= PAYLOAD_BYTES ? OUT_OK : OUT_INVALID);
        op = (struct op){.kind = OP_PATCH};
        op.patch.job.seq = step(&r, &enqueue)->reply.seq;
        op.patch.has_payload = true;
        op.patch.payload_kind = (uint8_t)v;
        op.patch.payload = SPAN_LITERAL("1");
        assert_int_equal(step(&r, &op)->reply.outcome, want);
    }
    rig_close(&r);
}

/* More than one commit can swallow: the rest is refused, nothing breaks. */
static void huge_batches_are_refused(void **state)
{
    (void)state;
    struct rig r;
    struct engine_config config;
    engine_config_default(&config);
    config.policy.payload_max = LIMIT_PAYLOAD_BYTES;
    rig_open(&r, &config);
    static struct op ops[5];
    char *big = mem_zalloc(LIMIT_PAYLOAD_BYTES);
    for (size_t i = 0; i < 5; i++) {
        ops[i] = enqueue_op("q0");
        ops[i].enqueue.payload_kind = PAYLOAD_BYTES;
        ops[i].enqueue.payload = span_of(big, LIMIT_PAYLOAD_BYTES);
    }
    assert_int_equal(engine_step(r.engine, ops, 5, r.now, &r.out), 0);
    assert_int_equal(r.out.replies[0].reply.outcome, OUT_OK);
    assert_int_equal(r.out.replies[4].reply.outcome, OUT_UNAVAILABLE);
    assert_non_null(r.out.replies[4].reply.note);
    mem_free(big);
    rig_close(&r);
}

/* Expired jobs in front of a claim are worked off in slices, too. */
static void claims_do_bounded_work(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL);
    struct op op = enqueue_op("q0");
    op.enqueue.extra.expires_at.ms = r.now.wall.ms + 10;
    for (int i = 0; i < 10000; i++)
        step(&r, &op);
    op.enqueue.extra.expires_at.ms = 0;
    step(&r, &op);
    pass_ms(&r, 100);
    struct op claim = claim_op(&q0);
    const struct engine_reply *e = step(&r, &claim);
    assert_int_equal(e->reply.job_count, 0);
    assert_true(r.out.count < 5000);
    assert_int_equal(r.out.wake_count, 1); /* come again */
    for (int i = 0; i < 10 && e->reply.job_count == 0; i++)
        e = step(&r, &claim);
    assert_int_equal(e->reply.job_count, 1);
    rig_close(&r);
}

/* Told the time but given nothing to do, it does not take the silence for a standstill. */
static void idle_time_ends_leases(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL);
    struct op op = enqueue_op("q0");
    step(&r, &op);
    op = claim_op(&q0);
    op.claim.lease_ms = 2500;
    uint64_t seq = step(&r, &op)->reply.jobs[0].job.seq;
    for (int i = 0; i < 6; i++) {
        assert_true(engine_next_tick_ms(r.engine, r.now) <= 500);
        pass_ms(&r, 500);
        engine_look(r.engine, r.now);
    }
    assert_int_equal(engine_next_tick_ms(r.engine, r.now), 0);
    tick(&r);
    struct op get = {.kind = OP_GET};
    get.job.job.seq = seq;
    assert_int_equal(step(&r, &get)->reply.state, STATE_READY);
    rig_close(&r);
}

/* Purging more often than a small counter could tell apart, while nothing is removed yet. */
static enum outcome ack_by(struct rig *r, uint64_t seq, struct job_token token)
{
    struct op op = {.kind = OP_ACK};
    op.lease.job.seq = seq;
    op.lease.token = token;
    return step(r, &op)->reply.outcome;
}

/* "Gone" is only said of a token whose lease may have ended without leaving an entry in the ring.
 */
static void the_ring_knows_what_it_forgot(void **state)
{
    (void)state;
    struct engine_config config;
    struct rig r;
    engine_config_default(&config);
    config.kept_replies = 4;
    rig_open(&r, &config);
    struct job_view old = claim_new(&r), first = claim_new(&r), jobs[4];
    assert_int_equal(ack_by(&r, first.job.seq, first.token), OUT_OK);
    for (size_t i = 0; i < 4; i++) {
        jobs[i] = claim_new(&r);
        assert_int_equal(ack_by(&r, jobs[i].job.seq, jobs[i].token), OUT_OK);
    }
    assert_int_equal(ack_by(&r, jobs[3].job.seq, jobs[3].token), OUT_OK); /* a repeat */
    assert_int_equal(ack_by(&r, first.job.seq, first.token), OUT_GONE);   /* overwritten */
    struct job_token never = {jobs[3].token.counter + 1, jobs[3].token.epoch};
    assert_int_equal(ack_by(&r, first.job.seq, never), OUT_LEASE_LOST);
    assert_int_equal(ack_by(&r, first.job.seq, jobs[3].token), OUT_LEASE_LOST);
    /* A lease older than a whole ring ends, and takes the place of one that ended before. */
    assert_int_equal(ack_by(&r, old.job.seq, old.token), OUT_OK);
    assert_int_equal(ack_by(&r, jobs[2].job.seq, jobs[2].token), OUT_GONE);
    assert_int_equal(ack_by(&r, jobs[1].job.seq, jobs[1].token), OUT_OK);
    rig_close(&r);
}

static void many_purges_stay_apart(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL);
    struct op enqueue = enqueue_op("q0"), purge = {.kind = OP_PURGE};
    purge.queue.name = q0;
    for (int i = 0; i < 65540; i++) {
        step(&r, &enqueue);
        buf_clear(&r.log);
        assert_int_equal(step(&r, &purge)->reply.changed, 1);
    }
    struct engine_figures f;
    engine_figures(r.engine, &f);
    assert_int_equal(f.live, 0);
    while (engine_next_tick_ms(r.engine, r.now) == 0)
        tick(&r);
    engine_figures(r.engine, &f);
    assert_int_equal(f.jobs, 0);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_wait_for_what_they_depend_on),
        cmocka_unit_test(relaxed_queues_say_so),
        cmocka_unit_test(engines_are_deterministic_and_apart),
        cmocka_unit_test(replay_gives_the_same_state),
        cmocka_unit_test(damaged_frames_are_refused),
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(failed_allocations_change_nothing),
        cmocka_unit_test(standstill_does_not_end_leases),
        cmocka_unit_test(wall_clock_does_not_end_leases),
        cmocka_unit_test(leaping_wall_clock_stops_expiry),
        cmocka_unit_test(slices_are_bounded),
        cmocka_unit_test(stale_entries_are_cleared),
        cmocka_unit_test(jobs_cost_what_is_promised),
        cmocka_unit_test(odd_values_are_refused),
        cmocka_unit_test(huge_batches_are_refused),
        cmocka_unit_test(claims_do_bounded_work),
        cmocka_unit_test(idle_time_ends_leases),
        cmocka_unit_test(the_ring_knows_what_it_forgot),
        cmocka_unit_test(many_purges_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
