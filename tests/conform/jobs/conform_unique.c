/* SPDX-License-Identifier: Apache-2.0 */
/* Unique keys: at most one live (or kept) job each, in one queue. */
#include "conform/conform.h"
#include "core/queues/unique.h"

static struct op unique_op(const char *queue, const char *key, enum unique_mode mode)
{
    struct op op = enqueue_op(queue);
    op.enqueue.extra.unique = span_text(key);
    op.enqueue.unique_mode = (uint8_t)mode;
    return op;
}

static void expect_taken(struct env *e, const char *queue, const char *key, uint64_t holder)
{
    const struct reply *r = run(e, unique_op(queue, key, UNIQUE_REJECT));
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->seq, holder);
    EXPECT_INT(r->id_hi, get(e, holder)->job.id_hi);
}

/* Scheduled, ready and running all hold the key: one pending beside one running cannot be. */
static void live_jobs_hold_it(struct env *e)
{
    struct op op = unique_op("q", "/music/a.flac", UNIQUE_REJECT);
    op.enqueue.delay_ms = 1000;
    uint64_t seq = put_op(e, op);
    expect_taken(e, "q", "/music/a.flac", seq);
    advance(e, 1000);
    expect_taken(e, "q", "/music/a.flac", seq);
    struct held h = take(e, "q");
    expect_taken(e, "q", "/music/a.flac", seq);
    EXPECT_COUNTS("q", .running = 1);
    EXPECT_OUT(fail(e, h), OUT_OK); /* waits for its retry: still live */
    expect_taken(e, "q", "/music/a.flac", seq);
    EXPECT_COUNTS("q", .scheduled = 1);
}

static void free_elsewhere_and_afterwards(struct env *e)
{
    uint64_t first = put_unique(e, "q", "k");
    uint64_t other = put_unique(e, "other", "k"); /* another type */
    EXPECT(other != first);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    uint64_t second = put_unique(e, "q", "k"); /* after completion */
    EXPECT(second != first);
    EXPECT_STATE(first, STATE_DONE);
    EXPECT_STATE(second, STATE_READY);
    EXPECT_OUT(cancel(e, second), OUT_OK);
    uint64_t third = put_unique(e, "q", "k");
    EXPECT_OUT(run(e, job_op(OP_REMOVE, third)), OUT_OK);
    uint64_t fourth = put_unique(e, "q", "k");
    struct op bury = lease_op(OP_FAIL, take(e, "q"));
    bury.lease.no_retry = true;
    EXPECT_INT(run(e, bury)->state, STATE_DEAD);
    EXPECT_STATE(fourth, STATE_DEAD);
    put_unique(e, "q", "k");
    EXPECT_COUNTS("other", .ready = 1);
}

static void no_key_never_conflicts(struct env *e)
{
    put_unique(e, "q", "");
    put_unique(e, "q", "");
    EXPECT_COUNTS("q", .ready = 2);
    uint64_t upper = put_unique(e, "q", "A"), lower = put_unique(e, "q", "a");
    EXPECT(upper != lower);
}

static void mode_return(struct env *e)
{
    uint64_t seq = put_unique(e, "q", "k");
    const struct reply *r = run(e, unique_op("q", "k", UNIQUE_RETURN));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->seq, seq);
    EXPECT(!r->created);
    EXPECT_INT(r->state, STATE_READY);
    take(e, "q");
    r = run(e, unique_op("q", "k", UNIQUE_RETURN));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->seq, seq);
    EXPECT_INT(r->state, STATE_RUNNING);
    EXPECT_COUNTS("q", .running = 1);
}

static void mode_replace(struct env *e)
{
    uint64_t old = put_unique(e, "q", "k");
    struct op op = unique_op("q", "k", UNIQUE_REPLACE);
    op.enqueue.payload = SPAN_LITERAL("\"newer\"");
    uint64_t newer = put_op(e, op);
    EXPECT(newer != old);
    EXPECT_STATE(old, STATE_CANCELLED);
    EXPECT_INT(get(e, old)->job.reason, REASON_REPLACED);
    EXPECT_STATE(newer, STATE_READY);
    expect_taken(e, "q", "k", newer);
    struct held h = take(e, "q");
    EXPECT_INT(h.seq, newer);
    const struct reply *r = run(e, op); /* a running one is not replaced */
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->seq, newer);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_COUNTS("q", .done = 1, .cancelled = 1);
}

static void replaced_is_named(struct env *e)
{
    uint64_t old = put_unique(e, "q", "k");
    const struct reply *r = run(e, unique_op("q", "k", UNIQUE_REPLACE));
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->created);
    EXPECT_INT(r->replaced_seq, old);
    r = run(e, unique_op("q", "fresh", UNIQUE_REPLACE));
    EXPECT_INT(r->replaced_seq, 0);
}

static void queue_sets_the_mode(struct env *e)
{
    struct queue_policy p = test_policy();
    p.unique_mode = UNIQUE_RETURN;
    queue_make(e, "q", &p);
    uint64_t seq = put_unique(e, "q", "k");
    const struct reply *r = run(e, unique_op("q", "k", UNIQUE_QUEUE_DEFAULT));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->seq, seq);
    EXPECT_OUT(run(e, unique_op("q", "k", UNIQUE_REJECT)), OUT_DUPLICATE);
}

static void requeue_conflict(struct env *e)
{
    uint64_t dead = put_unique(e, "q", "k");
    struct op bury = lease_op(OP_FAIL, take(e, "q"));
    bury.lease.no_retry = true;
    EXPECT_OUT(run(e, bury), OUT_OK);
    uint64_t newer = put_unique(e, "q", "k");
    const struct reply *r = requeue(e, dead);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->seq, newer);
    EXPECT_STATE(dead, STATE_DEAD);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    EXPECT_OUT(requeue(e, dead), OUT_OK);
    EXPECT_STATE(dead, STATE_READY);
    expect_taken(e, "q", "k", dead);
}

static void scope_kept(struct env *e)
{
    struct queue_policy p = test_policy();
    p.unique_scope = UNIQUE_KEPT;
    queue_make(e, "q", &p);
    uint64_t done = put_unique(e, "q", "ref-1");
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    expect_taken(e, "q", "ref-1", done);
    uint64_t dead = put_unique(e, "q", "ref-2");
    struct op bury = lease_op(OP_FAIL, take(e, "q"));
    bury.lease.no_retry = true;
    EXPECT_OUT(run(e, bury), OUT_OK);
    expect_taken(e, "q", "ref-2", dead);
    uint64_t deleted = put_unique(e, "q", "ref-3"); /* DELETED = cancelled */
    EXPECT_OUT(cancel(e, deleted), OUT_OK);
    put_unique(e, "q", "ref-3");
    EXPECT_OUT(run(e, job_op(OP_REMOVE, done)), OUT_OK); /* pruned */
    put_unique(e, "q", "ref-1");
    EXPECT_OUT(requeue(e, dead), OUT_OK); /* it still holds its own key */
    EXPECT_COUNTS("q", .ready = 3, .cancelled = 1);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    expect_taken(e, "q", "ref-2", dead);
    p.keep_done_ms = 1000; /* now it is pruned by its age */
    queue_make(e, "q", &p);
    advance(e, 1000);
    EXPECT_STATE(dead, STATE_NONE);
    put_unique(e, "q", "ref-2");
}

static void scope_switched_on(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t done = put_unique(e, "q", "k");
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    uint64_t live = put_unique(e, "q", "k");
    p.unique_scope = UNIQUE_KEPT;
    struct op op = queue_op(OP_QUEUE_PUT, "q");
    op.queue.policy = &p;
    EXPECT_OUT(run(e, op), OUT_DUPLICATE); /* two kept jobs share the key */
    EXPECT_INT(queue_get(e, "q")->policy->unique_scope, UNIQUE_LIVE);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, done)), OUT_OK);
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    expect_taken(e, "q", "k", live);
}

/* One job in each state, each with the name of its state as its key. */
static void one_in_each_state(struct env *e, uint64_t seqs[STATE_COUNT])
{
    for (int s = STATE_RUNNING; s <= STATE_CANCELLED; s++) {
        seqs[s] = put_unique(e, "q", state_name((enum job_state)s));
        struct held h = s == STATE_CANCELLED ? (struct held){0} : take(e, "q");
        struct op bury = lease_op(OP_FAIL, h);
        bury.lease.no_retry = true;
        if (s == STATE_DONE)
            EXPECT_OUT(ack(e, h), OUT_OK);
        else if (s == STATE_DEAD)
            EXPECT_OUT(run(e, bury), OUT_OK);
        else if (s == STATE_CANCELLED)
            EXPECT_OUT(cancel(e, seqs[s]), OUT_OK);
    }
    struct op later = unique_op("q", state_name(STATE_SCHEDULED), UNIQUE_REJECT);
    later.enqueue.delay_ms = 3600000;
    seqs[STATE_SCHEDULED] = put_op(e, later);
    seqs[STATE_READY] = put_unique(e, "q", state_name(STATE_READY));
    for (int s = STATE_SCHEDULED; s <= STATE_CANCELLED; s++)
        EXPECT_STATE(seqs[s], s);
}

/* A store that finds the holders of a queue's keys again, after a change of scope, follows the rule
 * of core/queues/unique.h for every state. */
static void scope_changes(struct env *e)
{
    static const uint8_t scopes[] = {UNIQUE_KEPT, UNIQUE_LIVE, UNIQUE_NONE,
                                     UNIQUE_LIVE, UNIQUE_NONE, UNIQUE_KEPT};
    uint64_t seqs[STATE_COUNT];
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    one_in_each_state(e, seqs);
    for (size_t i = 0; i < sizeof scopes; i++) {
        p.unique_scope = scopes[i];
        queue_make(e, "q", &p);
        for (uint8_t s = STATE_SCHEDULED; s <= (uint8_t)STATE_CANCELLED; s++) {
            const char *key = state_name((enum job_state)s);
            if (unique_holds(scopes[i], s)) {
                expect_taken(e, "q", key, seqs[s]);
                continue;
            }
            uint64_t other = put_unique(e, "q", key);
            EXPECT(other != seqs[s]);
            EXPECT_OUT(run(e, job_op(OP_REMOVE, other)), OUT_OK);
        }
    }
}

/* 32 producers, their enqueues interleaved in one batch and over several. */
static void racing_producers(struct env *e)
{
    struct op ops[32];
    const struct reply *first[32], *second[32];
    for (int i = 0; i < 32; i++)
        ops[i] = unique_op("q", "one", i % 3 == 0 ? UNIQUE_RETURN : UNIQUE_REJECT);
    struct pending *a = submit(e, ops, 32, first);
    struct pending *b = submit(e, ops, 32, second);
    wait_for(e, a);
    wait_for(e, b);
    int created = 0;
    for (int i = 0; i < 32; i++) {
        created += first[i]->created + second[i]->created;
        EXPECT_INT(first[i]->seq, first[0]->seq);
        EXPECT_INT(second[i]->seq, first[0]->seq);
        enum outcome should = i % 3 == 0 ? OUT_OK : OUT_DUPLICATE;
        EXPECT_OUT(second[i], should);
    }
    EXPECT_INT(created, 1);
    EXPECT_COUNTS("q", .ready = 1);
}

static const struct conform_case cases[] = {
    CASE("NOM-3 scheduled, ready and running jobs hold their key", live_jobs_hold_it),
    CASE("NOM-3 the key is free in another queue and after the end", free_elsewhere_and_afterwards),
    CASE("ORC-9 no key never conflicts, keys are exact", no_key_never_conflicts),
    CASE("unique mode return gives the job that is there", mode_return),
    CASE("unique mode replace cancels the waiting job", mode_replace),
    CASE("unique mode replace names the job it replaced", replaced_is_named, .flags = EXACT),
    CASE("the queue sets the unique mode", queue_sets_the_mode),
    CASE("NOM-7 requeue of a dead job whose key was taken", requeue_conflict),
    CASE("ORC-9 unique over every job kept, but for cancelled ones", scope_kept),
    CASE("ORC-9 switching it on with duplicates present is refused", scope_switched_on),
    CASE("ORC-9 a change of scope decides who holds its key, in every state", scope_changes),
    CASE("NOM-3 ORC-9 32 producers, one live job", racing_producers, .flags = EXACT),
};
TOPIC(topic_unique, cases);
