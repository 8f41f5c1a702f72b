/* SPDX-License-Identifier: Apache-2.0 */
/* The checker on histories written by hand: for each of C1 … C10 one that breaks it, and one like
 * it that does not. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/jobs/progress.h"
#include "sim/checker/selftest.h"

#define LEASE 1000
#define WALL INT64_C(1000000)

struct now scene_now(const struct scene *s)
{
    return (struct now){{s->mono}, {s->mono + WALL}};
}

void scene_later(struct scene *s, int64_t ms)
{
    s->mono += ms;
}

/* An op that leaves one record and has no reply yet. */
struct hist_entry *scene_ask(struct scene *s, const struct op *op)
{
    scene_later(s, 10);
    size_t i = history_op(&s->h, ++s->call, op, scene_now(s));
    s->h.entries[i].position = ++s->position;
    return &s->h.entries[i];
}

void scene_answer(struct scene *s, struct hist_entry *e, struct reply r)
{
    r.kind = e->op.kind;
    history_reply(&s->h, (size_t)(e - s->h.entries), &r, s->mono);
}

void scene_crash(struct scene *s, uint64_t lost_records)
{
    s->position -= lost_records;
    history_event(&s->h, HIST_CRASH, s->position, scene_now(s));
    scene_later(s, 100);
    history_event(&s->h, HIST_BOOT, ++s->position, scene_now(s));
}

static struct op enqueue_op(struct scene *s, const char *payload)
{
    struct op op = {.kind = OP_ENQUEUE};
    op.enqueue.queue = s->queue;
    op.enqueue.payload = span_text(payload);
    return op;
}

static void enqueued(struct scene *s, struct op op, uint64_t seq)
{
    struct reply r = {.seq = seq, .created = true, .state = STATE_READY};
    if (op.enqueue.delay_ms)
        r.state = STATE_SCHEDULED;
    scene_answer(s, scene_ask(s, &op), r);
}

static void enqueue(struct scene *s, uint64_t seq, const char *payload)
{
    enqueued(s, enqueue_op(s, payload), seq);
}

/* A claim that got one job. */
static void claim_again(struct scene *s, uint64_t seq, const char *payload, unsigned failures,
                        unsigned crashes)
{
    struct op op = {.kind = OP_CLAIM};
    op.claim.queues = &s->queue;
    op.claim.queue_count = op.claim.count = 1;
    struct job_view v = {.queue = s->queue, .token = {++s->claims, 1}, .lease_ms = LEASE};
    v.job.seq = seq;
    v.job.state = STATE_RUNNING;
    v.job.failures = (uint16_t)failures;
    v.job.crashes = (uint16_t)crashes;
    v.has_body = true;
    v.payload = span_text(payload);
    scene_answer(s, scene_ask(s, &op), (struct reply){.jobs = &v, .job_count = 1});
}

static void claim(struct scene *s, uint64_t seq, const char *payload, unsigned failures)
{
    claim_again(s, seq, payload, failures, 0);
}

static struct op lease_op(enum op_kind kind, uint64_t seq, uint64_t token)
{
    struct op op = {.kind = kind};
    op.lease.job.seq = seq;
    op.lease.token = (struct job_token){token, 1};
    return op;
}

static void lease_word(struct scene *s, enum op_kind kind, uint64_t seq, uint64_t token,
                       enum outcome outcome, enum job_state state)
{
    struct op op = lease_op(kind, seq, token);
    scene_answer(s, scene_ask(s, &op),
                 (struct reply){.outcome = outcome, .seq = seq, .state = state});
}

static void ack(struct scene *s, uint64_t seq, uint64_t token)
{
    lease_word(s, OP_ACK, seq, token, OUT_OK, STATE_DONE);
}

static void get_missing(struct scene *s, uint64_t seq)
{
    struct op op = {.kind = OP_GET, .job.job.seq = seq};
    scene_answer(s, scene_ask(s, &op), (struct reply){.outcome = OUT_NOT_FOUND});
}

static void drained_count(struct scene *s, uint64_t ready)
{
    struct op op = {.kind = OP_QUEUE_GET, .queue.name = s->queue};
    struct queue_view v = {.name = s->queue, .policy = &s->h.policy};
    v.counts.by_state[STATE_READY] = ready;
    v.counts.by_state[STATE_DONE] = 1;
    history_event(&s->h, HIST_DRAINED, 0, scene_now(s));
    scene_answer(s, scene_ask(s, &op), (struct reply){.queues = &v, .queue_count = 1});
}

/* Job 1 reports under its lease and ends; then a view shows this progress and this line. */
static void reported(struct scene *s, const char *message, const char *line)
{
    static const struct progress half = {.message = SPAN_LITERAL("half")};
    static const struct span lines[] = {SPAN_LITERAL("opened")};
    struct op op = lease_op(OP_PROGRESS, 1, 1);
    struct reply ok = {.seq = 1, .state = STATE_RUNNING};
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    op.lease.progress = &half;
    scene_answer(s, scene_ask(s, &op), ok);
    op = lease_op(OP_LOG, 1, 1);
    op.lease.lines = lines;
    op.lease.line_count = 1;
    scene_answer(s, scene_ask(s, &op), ok);
    ack(s, 1, 1);
    history_event(&s->h, HIST_DRAINED, 0, scene_now(s));
    struct progress p = {.token = {1, 1}, .message = span_text(message)};
    uint8_t stored[100];
    char log[40];
    CHECK(progress_bytes_max(&p) <= sizeof(stored));
    struct job_view v = {.queue = s->queue, .job = {.seq = 1, .state = STATE_DONE}};
    if (message[0])
        v.progress = span_of(stored, progress_encode(&p, stored));
    if (line[0])
        v.log = span_of(log, (size_t)snprintf(log, sizeof(log), "1000 1 %s\n", line));
    op =
        (struct op){.kind = OP_GET, .job = {.job.seq = 1, .want_attempts = true, .want_log = true}};
    scene_answer(s, scene_ask(s, &op), (struct reply){.jobs = &v, .job_count = 1});
}

/* Job 1 stores a step under its first lease, and tries it again under the second one with the token
 * of the first; then a view shows these steps. */
static void stepped(struct scene *s, const char *list)
{
    struct op op = lease_op(OP_STEP, 1, 1);
    struct reply ok = {.seq = 1, .state = STATE_RUNNING};
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    op.lease.step = SPAN_LITERAL("pay");
    op.lease.result = SPAN_LITERAL("1");
    scene_answer(s, scene_ask(s, &op), ok);
    lease_word(s, OP_RELEASE, 1, 1, OUT_OK, STATE_READY);
    claim(s, 1, "a", 0);
    op.lease.result = SPAN_LITERAL("2");
    scene_answer(s, scene_ask(s, &op),
                 (struct reply){.seq = 1, .state = STATE_RUNNING, .outcome = OUT_LEASE_LOST});
    ack(s, 1, 2);
    history_event(&s->h, HIST_DRAINED, 0, scene_now(s));
    struct job_view v = {.queue = s->queue,
                         .job = {.seq = 1, .state = STATE_DONE},
                         .has_body = true,
                         .payload = SPAN_LITERAL("a"),
                         .steps = span_text(list)};
    op = (struct op){.kind = OP_GET, .job = {.job.seq = 1, .want_body = true, .want_steps = true}};
    scene_answer(s, scene_ask(s, &op), (struct reply){.jobs = &v, .job_count = 1});
}

static void step_good(struct scene *s)
{
    stepped(s, "\3pay\0011");
}

static void step_lost(struct scene *s)
{
    stepped(s, "");
}

static void step_late(struct scene *s)
{
    stepped(s, "\3pay\0012");
}

/* ---- the cases --------------------------------------------------------------------------- */

static void plain(struct scene *s)
{
    enqueue(s, 1, "a");
    enqueue(s, 2, "b");
    claim(s, 1, "a", 0);
    ack(s, 1, 1);
    claim(s, 2, "b", 0);
    lease_word(s, OP_FAIL, 2, 2, OUT_OK, STATE_READY);
    claim(s, 2, "b", 1);
    lease_word(s, OP_EXTEND, 2, 3, OUT_OK, STATE_RUNNING);
    ack(s, 2, 3);
}

static void c1_good(struct scene *s)
{
    struct op op = enqueue_op(s, "a");
    (void)scene_ask(s, &op);
    scene_crash(s, 1);
    get_missing(s, 1);
}

static void c1_bad(struct scene *s)
{
    enqueue(s, 1, "a");
    scene_crash(s, 1);
    get_missing(s, 1);
}

static void c2_good(struct scene *s)
{
    struct op op = enqueue_op(s, "a");
    (void)scene_ask(s, &op); /* no reply named the job, but it exists */
    claim(s, 1, "a", 0);
}

static void c2_bad(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "A", 0);
}

static void c2_bad_twice(struct scene *s)
{
    struct op op = enqueue_op(s, "a");
    op.enqueue.idempotency_key = SPAN_LITERAL("key");
    enqueued(s, op, 1);
    enqueued(s, op, 2);
}

static void report_good(struct scene *s)
{
    reported(s, "half", "opened");
}

static void report_bad_progress(struct scene *s)
{
    reported(s, "all", "opened");
}

static void report_bad_line(struct scene *s)
{
    reported(s, "half", "opened\n1000 1 closed");
}

static void report_lost_progress(struct scene *s)
{
    reported(s, "", "opened");
}

static void report_lost_line(struct scene *s)
{
    reported(s, "half", "");
}

static void c3_good(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    struct op op = lease_op(OP_ACK, 1, 1);
    (void)scene_ask(s, &op);
    scene_crash(s, 1);
    scene_later(s, LEASE + 1);
    claim_again(s, 1, "a", 0, 1);
}

static void c3_bad(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    ack(s, 1, 1);
    scene_later(s, LEASE + 1);
    claim(s, 1, "a", 0);
}

static void c4_good(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    scene_crash(s, 1); /* which forgets the claim */
    claim(s, 1, "a", 0);
}

static void c4_bad(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    scene_crash(s, 0);
    claim(s, 1, "a", 0);
}

static void c5_good(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    lease_word(s, OP_RELEASE, 1, 1, OUT_OK, STATE_READY);
    claim(s, 1, "a", 0);
    lease_word(s, OP_ACK, 1, 1, OUT_LEASE_LOST, STATE_RUNNING);
    ack(s, 1, 2);
}

static void c5_bad(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    lease_word(s, OP_RELEASE, 1, 1, OUT_OK, STATE_READY);
    claim(s, 1, "a", 0);
    ack(s, 1, 1);
}

static void c6_good(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    lease_word(s, OP_FAIL, 1, 1, OUT_OK, STATE_READY);
    scene_crash(s, 0);
    claim(s, 1, "a", 1);
}

static void c6_bad(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    lease_word(s, OP_FAIL, 1, 1, OUT_OK, STATE_READY);
    scene_crash(s, 0);
    claim(s, 1, "a", 0);
}

static void c6_bad_dead(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    struct op op = lease_op(OP_FAIL, 1, 1);
    op.lease.no_retry = true;
    scene_answer(s, scene_ask(s, &op), (struct reply){.seq = 1, .state = STATE_DEAD});
    claim(s, 1, "a", 1);
}

static void c7_good(struct scene *s)
{
    struct op op = enqueue_op(s, "b");
    op.enqueue.delay_ms = 500;
    enqueued(s, op, 1); /* not ready, so not in the way */
    enqueue(s, 2, "a");
    claim(s, 2, "a", 0);
}

static void c7_bad(struct scene *s)
{
    enqueue(s, 1, "a");
    enqueue(s, 2, "b");
    claim(s, 2, "b", 0);
}

static void unique(struct scene *s, uint64_t seq, const char *payload)
{
    struct op op = enqueue_op(s, payload);
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    enqueued(s, op, seq);
}

static void c8_good(struct scene *s)
{
    unique(s, 1, "a");
    claim(s, 1, "a", 0);
    ack(s, 1, 1);
    unique(s, 2, "b");
}

static void c8_bad(struct scene *s)
{
    unique(s, 1, "a");
    claim(s, 1, "a", 0);
    unique(s, 2, "b");
}

static void delayed(struct scene *s, int64_t wait)
{
    struct op op = enqueue_op(s, "a");
    op.enqueue.delay_ms = 500;
    enqueued(s, op, 1);
    scene_later(s, wait);
    claim(s, 1, "a", 0);
}

static void c9_good(struct scene *s)
{
    delayed(s, 490);
}

static void c9_bad(struct scene *s)
{
    delayed(s, 450);
}

static void c10_good(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    ack(s, 1, 1);
    drained_count(s, 0);
}

static void c10_bad(struct scene *s)
{
    enqueue(s, 1, "a");
    claim(s, 1, "a", 0);
    ack(s, 1, 1);
    drained_count(s, 1);
}

static const struct scene_case cases[] = {
    {"a plain history", plain, CHECK_NONE},
    {"C1: an enqueue without a reply may be lost", c1_good, CHECK_NONE},
    {"C1: a confirmed enqueue may not", c1_bad, CHECK_C1},
    {"C2: an enqueue without a reply may show up", c2_good, CHECK_NONE},
    {"C2: another payload", c2_bad, CHECK_C2},
    {"C2: two jobs under one idempotency key", c2_bad_twice, CHECK_C2},
    {"C1, C2: reports show as they were sent", report_good, CHECK_NONE},
    {"C1: a confirmed progress is lost", report_lost_progress, CHECK_C1},
    {"C1: a confirmed log line is lost", report_lost_line, CHECK_C1},
    {"C2: a progress that no one sent", report_bad_progress, CHECK_C2},
    {"C1, C2: steps show as they were stored", step_good, CHECK_NONE},
    {"C1: a confirmed step is lost", step_lost, CHECK_C1},
    {"C2: a step of a lease that had ended", step_late, CHECK_C2},
    {"C2: a log line that no one sent", report_bad_line, CHECK_C2},
    {"C3: an ack without a reply may be lost", c3_good, CHECK_NONE},
    {"C3: a confirmed ack may not", c3_bad, CHECK_C3},
    {"C4: a crash may forget a claim", c4_good, CHECK_NONE},
    {"C4: but not a durable one", c4_bad, CHECK_C4},
    {"C5: an older token is refused", c5_good, CHECK_NONE},
    {"C5: an older token succeeds", c5_bad, CHECK_C5},
    {"C6: a failure is counted", c6_good, CHECK_NONE},
    {"C6: a failure is forgotten", c6_bad, CHECK_C6},
    {"C6: a dead job is handed out", c6_bad_dead, CHECK_C6},
    {"C7: a scheduled job does not come first", c7_good, CHECK_NONE},
    {"C7: an older job is passed over", c7_bad, CHECK_C7},
    {"C8: a key is free after its job", c8_good, CHECK_NONE},
    {"C8: two live jobs under one key", c8_bad, CHECK_C8},
    {"C9: handed out on time", c9_good, CHECK_NONE},
    {"C9: handed out too early", c9_bad, CHECK_C9},
    {"C10: drained, counts agree", c10_good, CHECK_NONE},
    {"C10: a count has drifted", c10_bad, CHECK_C10},
};

static void run_case(const struct scene_case *c, selftest_fn *fn, void *ctx)
{
    struct scene s = {.mono = 100, .queue = SPAN_LITERAL("q")};
    struct queue_policy policy;
    struct violation v;
    char name[120];
    policy_default(&policy);
    history_init(&s.h, &policy, 86400000);
    history_event(&s.h, HIST_BOOT, ++s.position, scene_now(&s));
    c->write(&s);
    (void)checker_run(&s.h, &v);
    bool ok = v.check == c->expect;
    snprintf(name, sizeof(name), "checker, %s", c->name);
    if (!ok)
        fprintf(stderr, "# %s: found %s: %s\n", c->name, check_name(v.check), v.text);
    fn(ctx, ok, name);
    history_done(&s.h);
}

void selftest_run(selftest_fn *fn, void *ctx)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        run_case(&cases[i], fn, ctx);
    for (size_t i = 0; i < scene_keeper_case_count; i++)
        run_case(&scene_keeper_cases[i], fn, ctx);
    for (size_t i = 0; i < scene_flow_case_count; i++)
        run_case(&scene_flow_cases[i], fn, ctx);
}
