/* SPDX-License-Identifier: Apache-2.0 */
/* The checker on histories of the queue with limits and of batches, written by hand: C20 … C22. */
#include "core/jobs/dependency.h"
#include "sim/checker/selftest.h"
#include "sim/clients/keeper.h"

#define LEASE 1000

static struct hist_entry *ask(struct scene *s, struct op op)
{
    struct hist_entry *e = scene_ask(s, &op);
    e->apart = true;
    return e;
}

static void says(struct scene *s, struct op op, struct reply r)
{
    scene_answer(s, ask(s, op), r);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static struct op policy_op(struct scene *s, struct queue_policy policy)
{
    struct op op = {.kind = OP_QUEUE_PUT};
    op.queue.name = SPAN_LITERAL("x-limited");
    op.queue.policy = pool_copy(&s->h.pool, &policy, sizeof(policy));
    return op;
}

static void limited(struct scene *s, struct queue_policy policy)
{
    says(s, policy_op(s, policy), (struct reply){.outcome = OUT_OK});
}

static void starts(struct scene *s, uint64_t seq, const char *group, int64_t priority)
{
    struct op op = {.kind = OP_CLAIM, .claim = {.nonce = seq}};
    struct job_view v = {.queue = SPAN_LITERAL("x-limited"), .lease_ms = LEASE};
    v.job.seq = seq;
    v.job.state = STATE_RUNNING;
    v.job.priority = priority;
    v.token = (struct job_token){++s->claims, 1};
    v.extra.group = span_text(group);
    says(s, op, (struct reply){.jobs = &v, .job_count = 1});
}

static void acks(struct scene *s, uint64_t seq)
{
    struct op op = {.kind = OP_ACK, .lease = {.job = {.seq = seq}}};
    (void)ask(s, op); /* it may have happened */
}

static void two_run(struct scene *s)
{
    limited(s, (struct queue_policy){.max_running = 2});
    starts(s, 1, "a", 0);
    starts(s, 2, "a", 0);
}

static void c21_good_ended(struct scene *s)
{
    two_run(s);
    acks(s, 1);
    starts(s, 3, "a", 0);
}

static void c21_good_expired(struct scene *s)
{
    two_run(s);
    scene_later(s, LEASE);
    starts(s, 3, "a", 0);
}

static void c21_good_undone(struct scene *s)
{
    two_run(s);
    scene_crash(s, 1);
    starts(s, 3, "a", 0);
}

static void c21_good_perhaps_higher(struct scene *s)
{
    two_run(s);
    (void)ask(s, policy_op(s, (struct queue_policy){.max_running = 3}));
    starts(s, 3, "a", 0);
}

static void c21_bad(struct scene *s)
{
    two_run(s);
    starts(s, 3, "a", 0);
}

static void c21_bad_after_crash(struct scene *s)
{
    two_run(s);
    scene_crash(s, 0);
    starts(s, 3, "a", 0);
}

static void c21_bad_lowered(struct scene *s)
{
    two_run(s);
    limited(s, (struct queue_policy){.max_running = 1});
    acks(s, 1);
    starts(s, 3, "a", 0);
}

static void c21_good_groups(struct scene *s)
{
    limited(s, (struct queue_policy){.max_running_per_group = 1});
    starts(s, 1, "a", 0);
    starts(s, 2, "b", 0);
    starts(s, 3, "", 0);
}

static void c21_bad_group(struct scene *s)
{
    limited(s, (struct queue_policy){.max_running_per_group = 1});
    starts(s, 1, "a", 0);
    starts(s, 2, "b", 0);
    starts(s, 3, "b", 0);
}

/* Two tokens at once, then one each 500 ms. */
static void rated(struct scene *s, unsigned count)
{
    limited(s, (struct queue_policy){.claim_rate = {RATE_QUEUE, 2, 1000}});
    for (unsigned i = 0; i < count; i++)
        starts(s, 1 + i, "a", 0);
}

static void c21_good_rate(struct scene *s)
{
    rated(s, 2);
    scene_later(s, 500);
    starts(s, 3, "a", 0);
    scene_later(s, 500);
    starts(s, 4, "a", 0);
}

static void c21_good_other_rate(struct scene *s)
{
    rated(s, 2);
    limited(s, (struct queue_policy){.claim_rate = {RATE_QUEUE, 3, 1000}});
    starts(s, 3, "a", 0);
    starts(s, 4, "a", 0);
}

static void c21_good_rate_after_crash(struct scene *s)
{
    rated(s, 2);
    scene_crash(s, 0);
    starts(s, 3, "a", 0);
    starts(s, 4, "a", 0);
}

static void c21_bad_rate(struct scene *s)
{
    rated(s, 4);
}

static void c21_bad_rate_kept(struct scene *s)
{
    rated(s, 2);
    limited(s, (struct queue_policy){.claim_rate = {RATE_QUEUE, 2, 1000}, .max_running = 9});
    starts(s, 3, "a", 0);
    starts(s, 4, "a", 0);
}

/* ---- turns and age --------------------------------------------------------------------------- */

static void waits(struct scene *s, uint64_t seq, const char *group, int64_t priority)
{
    struct op op = {.kind = OP_ENQUEUE};
    op.enqueue.queue = SPAN_LITERAL("x-limited");
    op.enqueue.extra.group = span_text(group);
    op.enqueue.has_priority = true;
    op.enqueue.priority = priority;
    says(s, op, (struct reply){.seq = seq, .created = true, .state = STATE_READY});
}

/* Job 1 of group b waits; then `count` jobs of group a start. */
static void passed_over(struct scene *s, struct queue_policy policy, unsigned count,
                        int64_t priority)
{
    limited(s, policy);
    waits(s, 1, "b", 0);
    for (unsigned i = 0; i < count; i++)
        starts(s, 2 + i, "a", priority);
}

static const struct queue_policy fair = {.fair = FAIR_GROUP};

static void c22_good(struct scene *s)
{
    passed_over(s, fair, 2, 0);
    starts(s, 1, "b", 0);
    starts(s, 10, "a", 0);
}

static void c22_good_urgent(struct scene *s)
{
    passed_over(s, fair, 5, 1);
}

static void c22_good_not_fair(struct scene *s)
{
    passed_over(s, (struct queue_policy){.max_running = 9}, 5, 0);
}

static void c22_good_full_group(struct scene *s)
{
    passed_over(s, (struct queue_policy){.fair = FAIR_GROUP, .max_running_per_group = 9}, 5, 0);
}

static void c22_good_restart(struct scene *s)
{
    passed_over(s, fair, 2, 0);
    scene_crash(s, 0);
    starts(s, 10, "a", 0);
    starts(s, 11, "a", 0);
}

static void c22_good_unknown(struct scene *s)
{
    limited(s, fair);
    waits(s, 1, "b", 0);
    says(s, (struct op){.kind = OP_CLAIM}, (struct reply){.outcome = OUT_UNKNOWN});
    for (unsigned i = 0; i < 5; i++)
        starts(s, 2 + i, "a", 0);
}

static void c22_bad(struct scene *s)
{
    passed_over(s, fair, 3, 0);
}

/* Job 1 of priority 0 has waited for `ms` when job 2 of priority 1 comes, and starts first. */
static void younger_first(struct scene *s, int64_t ms)
{
    limited(s, (struct queue_policy){.ageing_ms = 100});
    waits(s, 1, "b", 0);
    scene_later(s, ms);
    waits(s, 2, "a", 1);
    starts(s, 2, "a", 1);
}

static void c22_good_young(struct scene *s)
{
    younger_first(s, 80);
}

static void c22_bad_starved(struct scene *s)
{
    younger_first(s, 300);
}

/* ---- batches --------------------------------------------------------------------------------- */

static const char *const members[] = {"batch 1 job 0", "batch 1 job 1", "batch 1 job 2"};

/* Two jobs and the final one; no reply. */
static void batch_unheard(struct scene *s)
{
    static const struct dependency_ref both[] = {{.index = 0}, {.index = 1}};
    static const struct op_depends depends = {.parents = both, .count = 2};
    static struct op_enqueue jobs[3];
    struct op op = {.kind = OP_KV_COMMIT};
    for (unsigned i = 0; i < 3; i++) {
        jobs[i].queue = SPAN_LITERAL("x-children");
        jobs[i].payload = span_text(members[i]);
    }
    jobs[2].depends = &depends;
    op.kv_commit = (struct op_kv_commit){.enqueues = jobs, .enqueue_count = 3, .jobs_alone = true};
    (void)ask(s, op);
}

static void member_starts(struct scene *s, unsigned i)
{
    struct op op = {.kind = OP_CLAIM};
    struct job_view v = {.queue = SPAN_LITERAL("x-children"), .lease_ms = LEASE, .has_body = true};
    v.job.seq = 1 + i;
    v.payload = span_text(members[i]);
    v.token = (struct job_token){++s->claims, 1};
    says(s, op, (struct reply){.jobs = &v, .job_count = 1});
}

/* In the end there are the first `count` jobs of the batch. */
static void batch_read(struct scene *s, uint32_t count)
{
    struct job_view v[3] = {0};
    for (unsigned i = 0; i < 3; i++) {
        v[i] = (struct job_view){.queue = SPAN_LITERAL("x-children"), .has_body = true};
        v[i].job.seq = 1 + i;
        v[i].job.state = STATE_DONE;
        v[i].payload = span_text(members[i]);
    }
    struct op op = {.kind = OP_LIST};
    history_event(&s->h, HIST_DRAINED, 0, scene_now(s));
    says(s, op, (struct reply){.jobs = v, .job_count = count});
}

static void c20_good_batch(struct scene *s)
{
    batch_unheard(s);
    acks(s, 1);
    acks(s, 2);
    member_starts(s, 2);
    batch_read(s, 3);
}

static void c20_good_no_batch(struct scene *s)
{
    batch_unheard(s);
    batch_read(s, 0);
}

static void c20_bad_part(struct scene *s)
{
    batch_unheard(s);
    batch_read(s, 2);
}

static void c20_bad_fan_in(struct scene *s)
{
    batch_unheard(s);
    acks(s, 1);
    member_starts(s, 2);
    acks(s, 2);
    batch_read(s, 3);
}

static void c20_bad_final_twice(struct scene *s)
{
    batch_unheard(s);
    acks(s, 1);
    acks(s, 2);
    member_starts(s, 2);
    member_starts(s, 2);
    batch_read(s, 3);
}

const struct scene_case scene_flow_cases[] = {
    {"C20: the final job of a batch starts after the others", c20_good_batch, CHECK_NONE},
    {"C20: a batch without an answer may not exist", c20_good_no_batch, CHECK_NONE},
    {"C20: but not in part", c20_bad_part, CHECK_C20},
    {"C20: the final job starts before one of the others has ended", c20_bad_fan_in, CHECK_C20},
    {"C20: the final job starts twice", c20_bad_final_twice, CHECK_C20},
    {"C21: a slot is free when a lease may have ended", c21_good_ended, CHECK_NONE},
    {"C21: or has run out", c21_good_expired, CHECK_NONE},
    {"C21: or was undone by a crash", c21_good_undone, CHECK_NONE},
    {"C21: a limit may have been raised", c21_good_perhaps_higher, CHECK_NONE},
    {"C21: one job too many runs", c21_bad, CHECK_C21},
    {"C21: also after a restart", c21_bad_after_crash, CHECK_C21},
    {"C21: and under a limit that was lowered", c21_bad_lowered, CHECK_C21},
    {"C21: each group has its own slots", c21_good_groups, CHECK_NONE},
    {"C21: one job of a group too many runs", c21_bad_group, CHECK_C21},
    {"C21: tokens come with time", c21_good_rate, CHECK_NONE},
    {"C21: another rate begins with all of its tokens", c21_good_other_rate, CHECK_NONE},
    {"C21: and so may a restart", c21_good_rate_after_crash, CHECK_NONE},
    {"C21: a job starts without a token", c21_bad_rate, CHECK_C21},
    {"C21: a change of another limit gives no tokens", c21_bad_rate_kept, CHECK_C21},
    {"C22: groups take turns", c22_good, CHECK_NONE},
    {"C22: but not with jobs of higher priority", c22_good_urgent, CHECK_NONE},
    {"C22: nor in a queue that is not fair", c22_good_not_fair, CHECK_NONE},
    {"C22: nor if the group may be full", c22_good_full_group, CHECK_NONE},
    {"C22: turns begin again after a restart", c22_good_restart, CHECK_NONE},
    {"C22: a claim of unknown outcome may have had the job", c22_good_unknown, CHECK_NONE},
    {"C22: a group keeps its turn", c22_bad, CHECK_C22},
    {"C22: a young job of higher priority comes first", c22_good_young, CHECK_NONE},
    {"C22: an old one waits while younger ones start", c22_bad_starved, CHECK_C22},
};
const size_t scene_flow_case_count = sizeof(scene_flow_cases) / sizeof(scene_flow_cases[0]);
