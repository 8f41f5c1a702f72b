/* SPDX-License-Identifier: Apache-2.0 */
/* A caller that follows backend.h succeeds whatever the fault wrapper does: each case opens
 * its backend again under its own faults. */
#include "conform/conform.h"

static void reopen(struct env *e, struct fault_config faults)
{
    env_close(e);
    e->faults = faults;
    e->faults.seed = e->config.seed;
    e->use_faults = true;
    env_open(e);
}

/* One job, until it is done: claim, perhaps miss, wait for the signal, claim again, ack. */
static uint64_t work_once(struct env *e, struct watcher *w)
{
    for (int tries = 0; tries < 200; tries++) {
        w->signals = 0;
        const struct reply *r = claim(e, "q", 1);
        if (r->job_count == 1) {
            EXPECT_OUT(ack(e, held_of(&r->jobs[0])), OUT_OK);
            return r->jobs[0].job.seq;
        }
        EXPECT(signalled(e, w)); /* another node held it, and released it */
    }
    LEAVE("no job in 200 tries");
}

/* Everything at once: nothing is lost, nothing is done twice, everything drains. */
static void drains(struct env *e)
{
    reopen(e, (struct fault_config){.late_percent = 40,
                                    .late_turns = 5,
                                    .reorder_percent = 50,
                                    .unknown_done_percent = 15,
                                    .unknown_undone_percent = 10,
                                    .unavailable_percent = 15,
                                    .meddle_percent = 40,
                                    .spurious_percent = 20});
    e->lossy = true;
    struct watcher *w = watch(e, "q");
    uint64_t seqs[60];
    for (int i = 0; i < 60; i++)
        seqs[i] = put(e, "q");
    EXPECT_COUNTS("q", .ready = 60);
    unsigned char seen[60] = {0};
    for (int i = 0; i < 60; i++)
        EXPECT_INT(seen[index_of(e, seqs, 60, work_once(e, w))]++, 0);
    EXPECT_COUNTS("q", .done = 60);
    for (int i = 0; i < 60; i += 13)
        EXPECT_INT(job_attempts(&get(e, seqs[i])->job), 1); /* no crash was counted */
}

static void another_node_holds(struct env *e)
{
    reopen(e, (struct fault_config){.meddle_percent = 50, .meddling = MEDDLE_HOLD});
    struct watcher *w = watch(e, "q");
    for (int i = 0; i < 20; i++) {
        uint64_t seq = put(e, "q");
        EXPECT_INT(work_once(e, w), seq);
    }
    EXPECT_COUNTS("q", .done = 20);
}

static void another_node_cancels(struct env *e)
{
    reopen(e, (struct fault_config){.meddle_percent = 100, .meddling = MEDDLE_CANCEL});
    uint64_t running = put(e, "q");
    const struct reply *r = ack(e, take(e, "q"));
    EXPECT_OUT(r, OUT_CANCELLED);
    EXPECT_INT(r->state, STATE_CANCELLED);
    EXPECT_STATE(running, STATE_CANCELLED);
    uint64_t waiting = put(e, "q");
    struct op op = {.kind = OP_PATCH, .patch = {.job = {.seq = waiting}, .has_priority = true}};
    r = run(e, op);
    EXPECT_OUT(r, OUT_ILLEGAL);
    EXPECT_INT(r->state, STATE_CANCELLED);
    EXPECT_OUT(cancel(e, put(e, "q")), OUT_ILLEGAL); /* another node was first */
    EXPECT_COUNTS("q", .cancelled = 3);
}

static void unavailable_is_not_done(struct env *e)
{
    reopen(e, (struct fault_config){.unavailable_percent = 50});
    uint64_t ok = 0, acked = 0;
    for (int i = 0; i < 40; i++) {
        const struct reply *r = run(e, enqueue_op("q"));
        EXPECT(r->outcome == OUT_OK || r->outcome == OUT_UNAVAILABLE);
        ok += r->outcome == OUT_OK;
        EXPECT(r->outcome == OUT_OK || r->note != NULL);
    }
    for (int i = 0; i < 40; i++) {
        const struct reply *r = run(e, claim_op(e, "q", 1));
        if (r->job_count == 1)
            acked += ack(e, held_of(&r->jobs[0]))->outcome == OUT_OK;
    }
    EXPECT(ok > 5 && ok < 35);
    e->lossy = true; /* the queries below are repeated until they are answered */
    const struct queue_view *v = queue_get(e, "q");
    EXPECT_INT(v->counts.by_state[STATE_DONE], acked);
    EXPECT_INT(v->counts.by_state[STATE_READY] + v->counts.by_state[STATE_RUNNING], ok - acked);
}

static void unknown_is_perhaps_done(struct env *e)
{
    reopen(e, (struct fault_config){.unknown_done_percent = 100});
    struct op op = enqueue_op("q");
    op.enqueue.idempotency_key = SPAN_LITERAL("once");
    for (int i = 0; i < 5; i++)
        EXPECT_OUT(run(e, op), OUT_UNKNOWN);
    EXPECT_COUNTS("q", .ready = 1); /* queries have no unknown outcome */
    uint64_t seq = peek(e, "q", STATE_READY, 1)->jobs[0].job.seq;
    struct op claim = claim_op(e, "q", 1);
    claim.claim.nonce = 55;
    EXPECT_OUT(run(e, claim), OUT_UNKNOWN);
    EXPECT_STATE(seq, STATE_RUNNING);
    struct op back = {.kind = OP_RELEASE_CLAIM, .release_claim = {55}};
    EXPECT_OUT(run(e, back), OUT_UNKNOWN);
    EXPECT_OUT(run(e, back), OUT_UNKNOWN);
    EXPECT_STATE(seq, STATE_READY);
    EXPECT_INT(get(e, seq)->job.crashes, 0);
}

static void unknown_is_perhaps_undone(struct env *e)
{
    reopen(e, (struct fault_config){.unknown_undone_percent = 100});
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_UNKNOWN);
    EXPECT(queue_get(e, "q") == NULL);
}

/* fail, extend and release repeated by token count once, however often they arrived. */
static void repeats_by_token(struct env *e)
{
    struct queue_policy p = test_policy();
    reopen(e, (struct fault_config){.unknown_done_percent = 30,
                                    .unknown_undone_percent = 20,
                                    .meddle_percent = 100,
                                    .meddling = MEDDLE_TWICE});
    e->lossy = true;
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    for (int i = 0; i < 8; i++) {
        struct held h = take(e, "q");
        EXPECT_OUT(run(e, lease_op(OP_EXTEND, h)), OUT_OK);
        EXPECT_OUT(release(e, h), OUT_OK);
    }
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    EXPECT_INT(get(e, seq)->job.failures, 1);
    advance(e, 1000);
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    EXPECT_INT(get(e, seq)->job.failures, 2);
    advance(e, 2000);
    EXPECT_INT(fail(e, take(e, "q"))->state, STATE_DEAD);
    EXPECT_INT(get(e, seq)->job.failures, 3);
}

static const struct conform_case cases[] = {
    CASE("HF-2 everything drains under all faults at once", drains, .flags = EXACT),
    CASE("PDQ-4 another node holds a job and releases it", another_node_holds, .flags = EXACT),
    CASE("another node cancels first", another_node_cancels, .flags = EXACT),
    CASE("UNAVAILABLE: surely not done", unavailable_is_not_done, .flags = EXACT),
    CASE("HF-2 UNKNOWN: repeated by key, given back by nonce", unknown_is_perhaps_done,
         .flags = EXACT),
    CASE("UNKNOWN: perhaps not done", unknown_is_perhaps_undone, .flags = EXACT),
    CASE("HF-2 repeats by token count once", repeats_by_token, .flags = EXACT),
};
TOPIC(topic_fault, cases);
