/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of one batch are answered as if they had been asked one after the other: each sees
 * what those before it have changed. Every case runs both ways, with the same answers. */
#include "conform/tell.h"
#include "core/bulk.h"
#include "core/kvkey.h"

struct step {
    struct op op;
    const char *tells;
};

/* One by one, or all in one batch. */
static void run_steps(struct env *e, const struct step *steps, size_t count, bool batch)
{
    const struct reply **replies = arena_array(&e->arena, count, sizeof(struct reply *));
    struct op *ops = arena_array(&e->arena, count, sizeof *ops);
    EXPECT(replies && ops);
    for (size_t i = 0; i < count; i++) {
        ops[i] = steps[i].op;
        if (!batch)
            replies[i] = run(e, ops[i]);
    }
    if (batch)
        run_batch(e, ops, count, replies);
    for (size_t i = 0; i < count; i++)
        if (strcmp(tell(e, replies[i]), steps[i].tells) != 0)
            LEAVE("step %zu, %s: it tells \"%s\", not \"%s\"", i, batch ? "batch" : "one by one",
                  tell(e, replies[i]), steps[i].tells);
}
#define RUN_STEPS(steps, batch) run_steps(e, steps, sizeof(steps) / sizeof(steps)[0], batch)

/* An empty queue, whatever was there. */
static void begin(struct env *e, const struct queue_policy *policy)
{
    run(e, queue_op(OP_QUEUE_DELETE, "q"));
    settle_due(e);
    queue_make(e, "q", policy);
    e->named_count = 0;
}

static struct op unique_op(const char *key, uint8_t mode)
{
    struct op op = enqueue_op("q");
    op.enqueue.extra.unique = span_text(key);
    op.enqueue.unique_mode = mode;
    return op;
}

static struct op keyed_op(const char *key, uint64_t fingerprint)
{
    struct op op = enqueue_op("q");
    op.enqueue.idempotency_key = span_text(key);
    op.enqueue.fingerprint = fingerprint;
    return op;
}

static struct op claim_one(struct env *e, uint64_t seq)
{
    struct op op = claim_op(e, "q", 1);
    op.claim.one.seq = seq;
    return op;
}

/* --- leases --- */

static void lease_steps(struct env *e, bool batch)
{
    struct queue_policy p = test_policy();
    begin(e, &p);
    struct held a, b;
    name_job(e, "a", job_in(e, "q", STATE_RUNNING, &a));
    name_job(e, "b", job_in(e, "q", STATE_RUNNING, &b));
    struct op bury = lease_op(OP_FAIL, b), remove = job_op(OP_REMOVE, a.seq);
    bury.lease.no_retry = true;
    const struct step steps[] = {
        {lease_op(OP_EXTEND, a), "ok job=a running queue=q"},
        {lease_op(OP_ACK, a), "ok job=a done queue=q"},
        {lease_op(OP_ACK, a), "ok job=a done repeat queue=q"},
        {lease_op(OP_FAIL, a), "lease_lost job=a done queue=q"},
        {lease_op(OP_EXTEND, a), "lease_lost job=a done queue=q"},
        {lease_op_by_id(OP_ACK, a.seq), "illegal job=a done queue=q"},
        {job_op(OP_CANCEL, a.seq), "illegal job=a done queue=q"},
        {remove, "ok job=a queue=q"},
        {remove, "not_found"},
        {lease_op(OP_ACK, a), "ok job=a(half) done repeat"},
        {lease_op(OP_FAIL, a), "gone"},
        {lease_op_by_id(OP_ACK, a.seq), "gone"},
        {bury, "ok job=b dead queue=q"},
        {bury, "ok job=b dead repeat queue=q"},
        {job_op(OP_REQUEUE, b.seq), "ok job=b ready queue=q"},
        {job_op(OP_REQUEUE, b.seq), "illegal job=b ready queue=q"},
        {bury, "ok job=b dead repeat queue=q"},
        {lease_op(OP_RELEASE, b), "lease_lost job=b ready queue=q"},
        {claim_one(e, b.seq), "ok job=b running jobs=1"},
        {claim_one(e, b.seq), "illegal job=b running"},
        {claim_op(e, "q", 1), "ok"},
        {lease_op(OP_ACK, b), "lease_lost job=b running queue=q"},
        {lease_op_by_id(OP_RELEASE, b.seq), "ok job=b ready queue=q"},
        {lease_op_by_id(OP_RELEASE, b.seq), "illegal job=b ready queue=q"},
        {claim_op(e, "q", 5), "ok jobs=1"},
        {job_op(OP_CANCEL, b.seq), "ok job=b cancelled queue=q"},
        {lease_op_by_id(OP_ACK, b.seq), "illegal job=b cancelled queue=q"},
    };
    RUN_STEPS(steps, batch);
    EXPECT_COUNTS("q", .cancelled = 1);
}

static void leases(struct env *e)
{
    lease_steps(e, false);
    lease_steps(e, true);
}

/* --- enqueues --- */

static void enqueue_steps(struct env *e, bool batch)
{
    struct queue_policy p = test_policy();
    p.capacity = 4;
    begin(e, &p);
    name_job(e, "a", put_unique(e, "q", "u"));
    uint64_t a = e->named[0].seq;
    const char *key = batch ? "batch" : "single";
    struct op patch = {.kind = OP_PATCH,
                       .patch = {.job = {.seq = a}, .has_run_at = true, .run_at = {1}}};
    patch.patch.run_at = now_plus(e, 5000);
    const struct step steps[] = {
        {unique_op("u", UNIQUE_REJECT), "duplicate job=a ready"},
        {patch, "ok job=a scheduled run_at=+5000 queue=q"},
        {unique_op("u", UNIQUE_RETURN), "ok job=a scheduled"},
        {job_op(OP_CANCEL, a), "ok job=a cancelled queue=q"},
        {patch, "illegal job=a cancelled queue=q"},
        {unique_op("u", UNIQUE_REJECT), "ok job=? ready created"},
        {job_op(OP_REQUEUE, a), "duplicate job=? ready queue=q"},
        {claim_one(e, a), "illegal job=a cancelled"},
        {unique_op("u", UNIQUE_REJECT), "duplicate job=? ready"},
        {unique_op("u", UNIQUE_REPLACE), "ok job=? ready created replaced=?"},
        {keyed_op(key, 1), "ok job=? ready created"},
        {keyed_op(key, 1), "ok job=? ready created repeat"},
        {keyed_op(key, 2), "key_reused"},
        {enqueue_op("q"), "ok job=? ready created"},
        {enqueue_op("q"), "ok job=? ready created"},
        {enqueue_op("q"), "queue_full"},
        {keyed_op(key, 1), "ok job=? ready created repeat"}, /* known, however full it is */
        {unique_op("u", UNIQUE_REPLACE), "ok job=? ready created replaced=?"},
        {unique_op("v", UNIQUE_REPLACE), "queue_full"},
        {claim_op(e, "q", 9), "ok jobs=4"},
        {unique_op("u", UNIQUE_REPLACE), "duplicate job=? running"},
        {enqueue_op("q"), "queue_full"},
        {queue_op(OP_PURGE, "q"), "ok"},
        {queue_op(OP_QUEUE_DELETE, "q"), "ok changed=7"},
        {queue_op(OP_QUEUE_DELETE, "q"), "no_queue"},
        {job_op(OP_CANCEL, a), "not_found"},
        {lease_op_by_id(OP_ACK, a), "gone"},
        {claim_op(e, "q", 9), "ok"},
        {keyed_op(key, 1), "ok job=? created repeat"},
        {unique_op("u", UNIQUE_REJECT), "ok job=? ready created"},
    };
    RUN_STEPS(steps, batch);
    EXPECT_COUNTS("q", .ready = 1);
}

static void enqueues(struct env *e)
{
    enqueue_steps(e, false);
    enqueue_steps(e, true);
}

/* --- the server's limits --- */

static void tight(struct backend_config *c)
{
    c->capacity = 2;
    c->keys_max = 1;
    c->queue_limits = (struct queue_limits){.max = 2, .implied_max = 2};
}

static void limit_steps(struct env *e, bool batch)
{
    run(e, queue_op(OP_QUEUE_DELETE, "r"));
    struct queue_policy p = test_policy();
    begin(e, &p);
    advance(e, batch ? 1500 : 0); /* the key of the first round is forgotten */
    const struct step steps[] = {
        {keyed_op("1", 1), "ok job=? ready created"},
        {keyed_op("2", 1), "keys_full"},
        {enqueue_op("r"), "ok job=? ready created"},
        {enqueue_op("s"), "queues_full"},
        {enqueue_op("q"), "server_full"},
        {enqueue_op("r"), "server_full"},
        {queue_op(OP_PURGE, "q"), "ok changed=1"},
        {enqueue_op("q"), "ok job=? ready created"},
        {enqueue_op("q"), "server_full"},
        {queue_op(OP_QUEUE_DELETE, "r"), "ok changed=1"},
        {enqueue_op("s"), "ok job=? ready created"},
        {enqueue_op("r"), "queues_full"},
        {queue_op(OP_QUEUE_DELETE, "s"), "ok changed=1"},
        {enqueue_op("r"), "ok job=? ready created"},
        {enqueue_op("r"), "server_full"},
        {keyed_op("2", 1), "server_full"},
        {keyed_op("1", 1), "ok job=? created repeat"},
    };
    RUN_STEPS(steps, batch);
}

static void tight_and_short(struct backend_config *c)
{
    tight(c);
    c->key_ttl_ms = 1000;
}

static void limits(struct env *e)
{
    limit_steps(e, false);
    limit_steps(e, true);
}

/* --- what else is in one batch --- */

static void other_steps(struct env *e, bool batch)
{
    struct queue_policy strict = test_policy(), shut = test_policy();
    strict.require_token = true;
    shut.refuse_new = true;
    begin(e, &shut);
    struct op put_strict = queue_op(OP_QUEUE_PUT, "q"), pause = queue_op(OP_PAUSE, "q");
    struct op past = enqueue_op("q"), bulk = {.kind = OP_BULK};
    struct job_past ready = {.state = STATE_READY};
    past.enqueue.past = &ready;
    put_strict.queue.policy = &strict;
    pause.queue.until.ms = LIMIT_WALL_MS;
    bulk.bulk = (struct op_bulk){
        .action = BULK_CANCEL, .queue = SPAN_LITERAL("q"), .states = STATE_BIT(STATE_READY)};
    struct op exists = put_strict;
    exists.queue.must_create = true;
    const struct step steps[] = {
        {enqueue_op("q"), "refused_new"},
        {past, "ok job=? ready created"},
        {put_strict, "ok"},
        {exists, "exists"},
        {enqueue_op("q"), "ok job=? ready created"},
        {pause, "ok"},
        {claim_op(e, "q", 5), "ok"},
        {queue_op(OP_PAUSE, "q"), "ok"},
        {claim_op(e, "q", 1), "ok jobs=1"},
        {bulk, "ok changed=1"}, /* last: what comes behind it need not wait for its slices */
    };
    RUN_STEPS(steps, batch);
    EXPECT_COUNTS("q", .running = 1, .cancelled = 1);
}

static void others(struct env *e)
{
    other_steps(e, false);
    other_steps(e, true);
}

/* --- keys and values --- */

static struct span key_a(struct env *e)
{
    struct span k;
    struct err_note note;
    if (kvkey_from_json(SPAN_LITERAL("[\"a\"]"), true, &e->arena, &k, &note) != 0)
        LEAVE("%s", note.text);
    return k;
}

static void key_steps(struct env *e, bool batch)
{
    struct queue_policy p = test_policy();
    p.capacity = 1;
    begin(e, &p);
    struct kv_set set = {.key = key_a(e), .kind = PAYLOAD_JSON, .value = SPAN_LITERAL("1")};
    struct kv_check absent = {.key = set.key};
    struct op_enqueue job = enqueue_op("q").enqueue;
    struct op_kv_commit c = {.sets = &set, .set_count = 1, .checks = &absent, .check_count = 1};
    struct op create = {.kind = OP_KV_COMMIT, .kv_commit = c}, with_job = create,
              drop = {.kind = OP_KV_COMMIT, .kv_commit = {.deletes = &set.key, .delete_count = 1}},
              look = {.kind = OP_KV_GET, .kv_get = {.keys = &set.key, .count = 1}};
    with_job.kv_commit.enqueues = &job;
    with_job.kv_commit.enqueue_count = 1;
    const struct step steps[] = {
        {with_job, "ok version ready created"},
        {create, "version version check 0 failed"},
        {drop, "ok deleted=1 version"},
        {drop, "ok"},
        {with_job, "queue_full enqueue 0 failed"},
        {look, "ok keys=1"},
        {create, "ok version"},
        {with_job, "version version check 0 failed"}, /* checks before jobs */
        {drop, "ok deleted=1 version"},
    };
    RUN_STEPS(steps, batch);
    EXPECT_COUNTS("q", .ready = 1);
}

static void keys(struct env *e)
{
    key_steps(e, false);
    key_steps(e, true);
}

static const struct conform_case cases[] = {
    CASE("HF-27 batch: leases, one by one and together", leases, EXACT),
    CASE("HF-27 batch: enqueues, one by one and together", enqueues, EXACT),
    CASE("HF-27 batch: limits of the server, one by one and together", limits, EXACT,
         tight_and_short, NEEDS_ONE_STORE),
    CASE("HF-27 batch: queues and bulk actions, one by one and together", others, EXACT),
    CASE("HF-27 batch: keys, one by one and together", keys, EXACT, NULL,
         NEEDS_KV | NEEDS_ONE_STORE),
};
TOPIC(topic_refuse_batch, cases);
