/* SPDX-License-Identifier: Apache-2.0 */
/* Closing and opening again: everything that was confirmed is there, as it was. */
#include "conform/conform.h"

static void jobs_are_back(struct env *e)
{
    static const enum job_state states[] = {STATE_DONE,    STATE_DEAD,      STATE_CANCELLED,
                                            STATE_RUNNING, STATE_SCHEDULED, STATE_READY};
    uint64_t seqs[6];
    for (int i = 0; i < 6; i++)
        seqs[i] = job_in(e, "q", states[i], NULL);
    const struct job_view *before[6];
    for (int i = 0; i < 6; i++)
        before[i] = get(e, seqs[i]);
    env_restart(e);
    for (int i = 0; i < 6; i++) {
        EXPECT_STATE(seqs[i], states[i]);
        const struct job_view *v = get(e, seqs[i]);
        EXPECT_SPAN(v->payload, before[i]->payload);
        EXPECT_INT(v->job.id_hi, before[i]->job.id_hi);
        EXPECT_INT(v->job.reason, before[i]->job.reason);
        EXPECT_INT(v->job.failures, before[i]->job.failures);
        EXPECT_INT(v->job.since.ms, before[i]->job.since.ms);
        EXPECT_INT(v->job.run_at.ms, before[i]->job.run_at.ms);
    }
    EXPECT_COUNTS("q", 1, 1, 1, 1, 1, 1, 0);
}

static void order_is_back(struct env *e)
{
    uint64_t a = put_priority(e, "q", 1), b = put_priority(e, "q", 9), c = put(e, "q");
    uint64_t due = put_delayed(e, "q", 1000);
    env_restart(e);
    uint64_t later = put_priority(e, "q", 1);
    EXPECT(later > due); /* no sequence is used twice */
    EXPECT_INT(take(e, "q").seq, b);
    EXPECT_INT(take(e, "q").seq, a);
    EXPECT_INT(take(e, "q").seq, later);
    EXPECT_INT(take(e, "q").seq, c);
    advance(e, 999);
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    advance(e, 1);
    EXPECT_INT(take(e, "q").seq, due);
}

static void leases_are_restored(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    struct op op = claim_op(e, "q", 1);
    op.claim.worker = SPAN_LITERAL("w");
    struct held h = held_of(&run(e, op)->jobs[0]);
    advance(e, 9000);
    env_restart(e);
    const struct job_view *v = get(e, seq);
    EXPECT_INT(v->job.state, STATE_RUNNING);
    EXPECT(token_equal(v->token, h.token));
    EXPECT_TEXT(v->worker, "w");
    EXPECT_INT(v->lease_left_ms, 10000); /* re-armed at its full time */
    EXPECT_INT(v->job.crashes, 0);
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    advance(e, 9999);
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_OUT(run(e, lease_op(OP_EXTEND, h)), OUT_OK);
    EXPECT_OUT(ack(e, h), OUT_OK); /* the old token is still good */
    EXPECT_STATE(seq, STATE_DONE);
}

static void restored_lease_ends(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    struct held h = take(e, "q");
    env_restart(e);
    advance(e, 10000);
    EXPECT_STATE(seq, STATE_READY);
    EXPECT_INT(get(e, seq)->job.crashes, 1);
    struct held again = take(e, "q");
    EXPECT(token_older(h.token, again.token));
    EXPECT_OUT(ack(e, h), OUT_LEASE_LOST);
    EXPECT_OUT(ack(e, again), OUT_OK);
}

static void bound_leases_come_back(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op op = claim_op(e, "q", 1);
    op.claim.bound = true;
    struct held h = held_of(&run(e, op)->jobs[0]);
    env_restart(e);
    EXPECT_STATE(seq, STATE_READY);
    EXPECT_INT(get(e, seq)->job.crashes, 0);
    const struct reply *r = ack(e, h);
    EXPECT(r->outcome == OUT_LEASE_LOST);
    EXPECT_INT(take(e, "q").seq, seq);
}

/* The answer may have been lost with the process: saying it again must do no harm. */
static void words_repeated_after_a_restart(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    struct held done;
    uint64_t acked = job_in(e, "q", STATE_DONE, &done);
    uint64_t failed = put(e, "q");
    struct held h = take(e, "q");
    EXPECT_OUT(fail(e, h), OUT_OK);
    env_restart(e);
    const struct reply *r = ack(e, done);
    EXPECT(r->outcome == OUT_OK || r->outcome == OUT_GONE);
    EXPECT_STATE(acked, STATE_DONE);
    r = fail(e, h);
    EXPECT(r->outcome == OUT_OK || r->outcome == OUT_GONE || r->outcome == OUT_LEASE_LOST);
    EXPECT_INT(get(e, failed)->job.failures, 1);
    EXPECT_STATE(failed, STATE_SCHEDULED);
}

static void tokens_of_an_earlier_boot(struct env *e)
{
    struct held before, after;
    job_in(e, "q", STATE_DONE, &before);
    env_restart(e);
    uint64_t seq = job_in(e, "q", STATE_DONE, &after);
    struct held crossed = {after.seq, after.hi, before.token};
    EXPECT_OUT(ack(e, crossed), OUT_LEASE_LOST);
    EXPECT_OUT(fail(e, crossed), OUT_LEASE_LOST);
    EXPECT_OUT(ack(e, after), OUT_OK);
    EXPECT_STATE(seq, STATE_DONE);
}

static void tokens_are_never_reused(struct env *e)
{
    struct job_token last = {0, 0};
    put(e, "q");
    for (int boot = 0; boot < 4; boot++) {
        for (int i = 0; i < 3; i++) {
            struct held h = take(e, "q");
            EXPECT(token_older(last, h.token));
            last = h.token;
            EXPECT_OUT(release(e, h), OUT_OK);
        }
        env_restart(e);
    }
}

static void sequences_are_never_reused(struct env *e)
{
    uint64_t last = 0;
    for (int boot = 0; boot < 4; boot++) {
        uint64_t seq = put(e, "q");
        EXPECT(seq > last);
        last = seq;
        EXPECT_OUT(run(e, job_op(OP_REMOVE, seq)), OUT_OK);
        env_restart(e);
    }
}

static void counters_are_back(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    advance(e, 1000);
    take(e, "q");
    advance(e, 10000);
    env_restart(e);
    EXPECT_INT(get(e, seq)->job.failures, 1);
    EXPECT_INT(get(e, seq)->job.crashes, 1);
    const struct reply *r = claim(e, "q", 1);
    EXPECT_INT(job_attempts(&r->jobs[0].job), 3);
    EXPECT_INT(fail(e, held_of(&r->jobs[0]))->run_at.ms, now_plus(e, 2000).ms);
    env_restart(e);
    advance(e, 2000);
    EXPECT_INT(fail(e, take(e, "q"))->state, STATE_DEAD);
}

static void queues_are_back(struct env *e)
{
    struct queue_policy p = test_policy();
    p.lease_end = LEASE_END_COUNTED;
    queue_make(e, "q", &p);
    struct op op = queue_op(OP_QUEUE_PUT, "q");
    op.queue.has_note = true;
    op.queue.note = SPAN_LITERAL("a note");
    EXPECT_OUT(run(e, op), OUT_OK);
    put(e, "q");
    put(e, "gone");
    pause_queue(e, "q", (struct wall_time){LIMIT_WALL_MS});
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "gone")), OUT_OK);
    uint32_t number = queue_get(e, "q")->number;
    env_restart(e);
    const struct queue_view *v = queue_get(e, "q");
    EXPECT_INT(v->number, number);
    EXPECT_TEXT(v->note, "a note");
    EXPECT_INT(v->policy->lease_end, LEASE_END_COUNTED);
    EXPECT_INT(v->paused_until.ms, LIMIT_WALL_MS);
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    EXPECT(queue_get(e, "gone") == NULL);
    put(e, "new");
    EXPECT(queue_get(e, "new")->number > number); /* numbers are not used again either */
    pause_queue(e, "q", (struct wall_time){0});
    EXPECT_INT(claim(e, "q", 1)->job_count, 1);
}

static void keys_are_back(struct env *e)
{
    struct op keyed = enqueue_op("q");
    keyed.enqueue.idempotency_key = SPAN_LITERAL("order-1");
    keyed.enqueue.fingerprint = 5;
    uint64_t seq = put_op(e, keyed);
    uint64_t unique = put_unique(e, "q", "u");
    env_restart(e);
    EXPECT_INT(put_op(e, keyed), seq);
    keyed.enqueue.fingerprint = 6;
    EXPECT_OUT(run(e, keyed), OUT_KEY_REUSED);
    struct op op = enqueue_op("q");
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->seq, unique);
    EXPECT_COUNTS("q", .ready = 2);
    stand_still(e, INT64_C(25) * 3600000); /* past the life of a key */
    EXPECT(put_op(e, keyed) != seq);
}

static void texts_are_back(struct env *e)
{
    uint64_t seq = put_grouped(e, "q", "lib-1");
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.no_retry = true;
    op.lease.error = SPAN_LITERAL("kaputt");
    EXPECT_OUT(run(e, op), OUT_OK);
    uint64_t done = put(e, "q");
    op = lease_op(OP_ACK, take(e, "q"));
    op.lease.result_kind = PAYLOAD_JSON;
    op.lease.result = SPAN_LITERAL("{\"ok\":true}");
    EXPECT_OUT(run(e, op), OUT_OK);
    env_restart(e);
    EXPECT_TEXT(get(e, seq)->error, "kaputt");
    EXPECT_TEXT(get(e, seq)->extra.group, "lib-1");
    EXPECT_TEXT(get(e, done)->result, "{\"ok\":true}");
    struct op bulk = {.kind = OP_BULK,
                      .bulk = {.action = BULK_REQUEUE,
                               .queue = SPAN_LITERAL("q"),
                               .group = SPAN_LITERAL("lib-1")}};
    EXPECT_OUT(run(e, bulk), OUT_OK);
    EXPECT_STATE(seq, STATE_READY);
}

/* Expiry, retention and lease lengths brought by jobs go on after a restart. */
static void timers_are_back(struct env *e)
{
    struct queue_policy p = test_policy();
    p.keep_done_ms = 5000;
    queue_make(e, "q", &p);
    uint64_t done = job_in(e, "q", STATE_DONE, NULL);
    struct op op = enqueue_op("q");
    op.enqueue.extra.expires_at = now_plus(e, 3000);
    uint64_t expiring = put_op(e, op);
    env_restart(e);
    advance(e, 2999);
    EXPECT_STATE(expiring, STATE_READY);
    advance(e, 1);
    EXPECT_STATE(expiring, STATE_DEAD);
    advance(e, 2000);
    EXPECT_STATE(done, STATE_NONE);
}

static void enqueue_many(struct env *e, int batches)
{
    struct op ops[500];
    const struct reply *r[500];
    for (int i = 0; i < 500; i++)
        ops[i] = enqueue_op("q");
    for (int i = 0; i < batches; i++)
        run_batch(e, ops, 500, r);
}

static uint64_t resident(struct env *e)
{
    struct backend_figures f;
    backend_figures(e->b, &f);
    return f.jobs;
}

static void purge_is_resumed(struct env *e)
{
    enqueue_many(e, 5);
    struct op ops[] = {queue_op(OP_PURGE, "q"), enqueue_op("q")};
    const struct reply *r[2];
    submit(e, ops, 2, r);
    env_restart(e); /* before the slices are done */
    EXPECT_OUT(r[0], OUT_OK);
    EXPECT_INT(r[0]->changed, 2500);
    EXPECT_COUNTS("q", .ready = 1);
    settle(e);
    EXPECT_INT(resident(e), 1);
    EXPECT_INT(take(e, "q").seq, r[1]->seq);
}

static void delete_is_resumed(struct env *e)
{
    enqueue_many(e, 5);
    struct op ops[] = {queue_op(OP_QUEUE_DELETE, "q"), enqueue_op("q")};
    const struct reply *r[2];
    submit(e, ops, 2, r);
    env_restart(e);
    EXPECT_COUNTS("q", .ready = 1);
    settle(e);
    EXPECT_INT(resident(e), 1);
}

/* Closing answers the bulk action, or leaves it to be finished after the next start. */
static void bulk_is_resumed(struct env *e)
{
    enqueue_many(e, 5);
    struct op op = {
        .kind = OP_BULK,
        .bulk = {.action = BULK_CANCEL_NOW, .queue = SPAN_LITERAL("q"), .states = STATES_LIVE}};
    const struct reply *r[1];
    submit(e, &op, 1, r);
    env_restart(e);
    EXPECT(r[0] && (r[0]->outcome == OUT_OK || r[0]->outcome == OUT_UNKNOWN));
    for (int i = 0; i < 3; i++)
        settle(e);
    EXPECT_COUNTS("q", .cancelled = 2500);
}

static void second_open_is_refused(struct env *e)
{
    put(e, "q");
    struct backend *second = NULL;
    struct err_note note = {{0}};
    char url[80];
    snprintf(url, sizeof url, "sqlite:%s", e->dir);
    EXPECT_INT(backend_open(url, &e->config, &second, &note), -ERR_LOCKED);
    EXPECT(second == NULL);
    EXPECT(strstr(note.text, e->dir) != NULL); /* says which directory … */
    EXPECT(strstr(note.text, "use") != NULL);  /* … and that it is in use */
    put(e, "q");                               /* the first one did not notice */
    env_restart(e);
    EXPECT_COUNTS("q", .ready = 2);
}

/* Confirmed, closed, opened, many times over, with every kind of change in between. */
static void again_and_again(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t ready = 0, done = 0;
    for (int boot = 0; boot < 6; boot++) {
        for (int i = 0; i < 4; i++, ready++)
            put(e, "q");
        EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
        ready--;
        done++;
        struct held h = take(e, "q");
        env_restart(e);
        EXPECT_COUNTS("q", .ready = ready - 1, .running = 1, .done = done);
        EXPECT_OUT(release(e, h), OUT_OK);
    }
    EXPECT_COUNTS("q", .ready = ready, .done = done);
}

static void real_clock(struct backend_config *c)
{
    c->clock.manual = false; /* moved by hand all the same */
}

/* The wall clock jumped while the process was down: leases have their full time, whatever it says;
 * what is due by wall time is due. */
static void leap_while_down(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t running = put(e, "q");
    struct held h = take(e, "q");
    uint64_t due = put_delayed(e, "q", 3600000);
    uint64_t later = put_delayed(e, "q", 3 * 3600000);
    env_close(e);
    e->clock.at.wall.ms += 2 * 3600000;
    env_open(e);
    settle(e);
    EXPECT_STATE(running, STATE_RUNNING);
    EXPECT_INT(get(e, running)->lease_left_ms, 10000);
    EXPECT_STATE(due, STATE_READY);
    EXPECT_STATE(later, STATE_SCHEDULED);
    advance(e, 9000);
    EXPECT_STATE(running, STATE_RUNNING);
    EXPECT_OUT(ack(e, h), OUT_OK);
}

/* Set back while it was down: nothing runs early, no lease is cut short or made longer, ids and
 * tokens stay new. */
static void set_back_while_down(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t running = put(e, "q");
    struct held h = take(e, "q");
    uint64_t due = put_delayed(e, "q", 1000);
    env_close(e);
    e->clock.at.wall.ms -= 3600000;
    env_open(e);
    settle(e);
    EXPECT_INT(get(e, running)->lease_left_ms, 10000);
    advance(e, 9000);
    EXPECT_STATE(running, STATE_RUNNING);
    EXPECT_STATE(due, STATE_SCHEDULED);
    EXPECT(put(e, "q") > due);
    EXPECT(!token_equal(take(e, "q").token, h.token));
    advance(e, 1000);
    EXPECT_STATE(running, STATE_READY);
    EXPECT_INT(get(e, running)->job.crashes, 1);
}

/* APIs show them to people as ids. */
static void numbers_are_never_reused(struct env *e)
{
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "first")), OUT_OK);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "last")), OUT_OK);
    uint32_t last = queue_get(e, "last")->number;
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "last")), OUT_OK);
    settle(e);
    env_restart(e);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "next")), OUT_OK);
    EXPECT(queue_get(e, "next")->number > last);
}

static const struct conform_case cases[] = {
    CASE("HF-1 jobs in every state are back", jobs_are_back, .flags = RESTART),
    CASE("PDQ-3 the order is back", order_is_back, .flags = RESTART),
    CASE("HF-1 leases are restored at their full time", leases_are_restored, .flags = RESTART,
         .needs = NEEDS_OWN_STORE),
    CASE("HF-2 a restored lease ends like any other", restored_lease_ends, .flags = RESTART),
    CASE("KV-3 bound leases come back, uncounted", bound_leases_come_back, .flags = RESTART),
    CASE("HF-2 ack and fail repeated after a restart", words_repeated_after_a_restart,
         .flags = RESTART),
    CASE("HF-2 a token of an earlier boot is not that of a newer job", tokens_of_an_earlier_boot,
         .flags = RESTART),
    CASE("HF-2 no token is issued twice", tokens_are_never_reused, .flags = RESTART),
    CASE("HF-1 no sequence is used twice", sequences_are_never_reused, .flags = RESTART),
    CASE("ORC-1 no queue's number is used twice", numbers_are_never_reused, .flags = RESTART),
    CASE("HF-1 failures and crashes are back", counters_are_back, .flags = RESTART),
    CASE("HF-1 queues, policies and pauses are back", queues_are_back, .flags = RESTART),
    CASE("HF-2 NOM-3 keys are back", keys_are_back, .flags = RESTART),
    CASE("HF-1 texts, results and groups are back", texts_are_back, .flags = RESTART),
    CASE("HF-1 expiry and retention go on", timers_are_back, .flags = RESTART),
    CASE("a purge is resumed", purge_is_resumed, .flags = RESTART | EXACT),
    CASE("the delete of a queue is resumed", delete_is_resumed, .flags = RESTART | EXACT),
    CASE("NOM-7 a bulk action is resumed", bulk_is_resumed, .flags = RESTART | EXACT),
    CASE("a second open of the directory is refused", second_open_is_refused, .flags = RESTART,
         .needs = NEEDS_OWN_STORE),
    CASE("HF-1 the wall clock jumped while it was down", leap_while_down, .flags = RESTART,
         .configure = real_clock, .needs = NEEDS_OWN_CLOCK),
    CASE("HF-1 the wall clock was set back while it was down", set_back_while_down,
         .flags = RESTART, .configure = real_clock, .needs = NEEDS_OWN_CLOCK),
    CASE("HF-1 opened again and again", again_and_again, .flags = RESTART),
};
TOPIC(topic_restart, cases);
