/* SPDX-License-Identifier: Apache-2.0 */
/* The checker on histories of keepers, written by hand: for each of C11 … C14 some that break it,
 * and some like them that do not. */
#include "sim/checker/selftest.h"
#include "sim/clients/keeper.h"

/* As a keeper's entry; the last reads follow, once there are any. */
static struct hist_entry *keeper_ask(struct scene *s, struct op op)
{
    struct hist_entry *e = scene_ask(s, &op);
    e->apart = true;
    return e;
}

static void keeper_says(struct scene *s, struct op op, struct reply r)
{
    scene_answer(s, keeper_ask(s, op), r);
}

static void ended(struct scene *s)
{
    history_event(&s->h, HIST_DRAINED, 0, scene_now(s));
}

static struct job_view job_view(uint64_t seq, enum job_state state, const char *payload)
{
    struct job_view v = {.queue = SPAN_LITERAL("x-kv"), .has_body = true};
    v.job.seq = seq;
    v.job.state = (uint8_t)state;
    v.payload = span_text(payload);
    return v;
}

static void shows(struct scene *s, enum op_kind kind, const struct job_view *jobs, uint32_t count)
{
    struct op op = {.kind = kind};
    keeper_says(s, op, (struct reply){.jobs = jobs, .job_count = count});
}

static void key_is(struct scene *s, enum keeper_key kind, uint32_t number, bool found,
                   const char *value)
{
    struct op op = {.kind = OP_KV_GET};
    struct kv_view v = {.key = keeper_key_of(&s->h.pool, kind, number),
                        .found = found,
                        .version = found ? 7 : 0,
                        .has_value = found};
    v.value = span_text(value);
    keeper_says(s, op, (struct reply){.kvs = &v, .kv_count = 1});
}

/* A commit that had no reply, of one key and one job that leaves a key when it dies. */
static uint32_t commit_unheard(struct scene *s)
{
    static struct kv_set set;
    static struct op_enqueue job;
    job.payload = SPAN_LITERAL("commit");
    job.extra.undelivered = SPAN_LITERAL("k");
    struct op op = {.kind = OP_KV_COMMIT};
    op.kv_commit =
        (struct op_kv_commit){.sets = &set, .set_count = 1, .enqueues = &job, .enqueue_count = 1};
    return keeper_ask(s, op)->call;
}

static void committed(struct scene *s, bool key, enum job_state state, bool left)
{
    uint32_t number = commit_unheard(s);
    struct job_view v = job_view(1, state, "commit");
    ended(s);
    shows(s, OP_LIST, &v, state == STATE_NONE ? 0 : 1);
    key_is(s, KEY_COMMIT, number, key, "1");
    key_is(s, KEY_LEFT, number, left, "commit");
}

static void c11_good(struct scene *s)
{
    committed(s, true, STATE_DEAD, true);
}

static void c11_good_none(struct scene *s)
{
    committed(s, false, STATE_NONE, false);
}

static void c11_bad_key(struct scene *s)
{
    committed(s, true, STATE_NONE, false);
}

static void c11_bad_job(struct scene *s)
{
    committed(s, false, STATE_DONE, false);
}

static void c11_bad_left(struct scene *s)
{
    committed(s, true, STATE_DEAD, false);
}

static void c11_bad_alive(struct scene *s)
{
    committed(s, true, STATE_DONE, true);
}

/* A time that was fired, with an answer, then seen in this many jobs; the schedule counts `fired`.
 */
static void fired(struct scene *s, uint32_t jobs, uint64_t counted, int64_t last_at)
{
    struct op op = {.kind = OP_FIRE};
    op.schedule.name = SPAN_LITERAL("s0");
    op.schedule.at.ms = KEEPER_TIME;
    keeper_says(s, op, (struct reply){.seq = 1, .fired = true});
    struct job_view v[2];
    struct schedule_view schedule = {.name = SPAN_LITERAL("s0")};
    char time[WALL_TEXT_BYTES];
    wall_text((struct wall_time){KEEPER_TIME}, time);
    for (uint32_t i = 0; i < 2; i++) {
        v[i] = job_view(1 + i, STATE_DONE, "x");
        v[i].extra.attributes = pool_text(
            &s->h.pool, "{\"source\":\"TRIGGER\",\"schedule\":\"s0\",\"fire_time\":\"%s\"}", time);
    }
    ended(s);
    shows(s, OP_LIST, v, jobs);
    schedule.state.fired = counted;
    schedule.state.last_at.ms = last_at;
    struct op list = {.kind = OP_SCHEDULE_LIST};
    keeper_says(s, list, (struct reply){.schedules = &schedule, .schedule_count = 1});
}

static void c12_good(struct scene *s)
{
    fired(s, 1, 1, KEEPER_TIME);
}

static void c12_bad_twice(struct scene *s)
{
    fired(s, 2, 2, KEEPER_TIME);
}

static void c12_bad_lost(struct scene *s)
{
    fired(s, 0, 0, KEEPER_TIME);
}

static void c12_bad_forgotten(struct scene *s)
{
    fired(s, 1, 1, 0);
}

#define ITEM_JOB "{\"items\":[{\"id\":\"3\",\"token\":\"1-9\"}]}"

/* Job 4 has item 3; then somebody looks at the item. */
static void held(struct scene *s, bool acked, uint64_t holder, enum job_state state)
{
    struct job_view job = job_view(4, STATE_RUNNING, ITEM_JOB), item = job_view(3, state, "i");
    job.token = (struct job_token){20, 1};
    shows(s, OP_CLAIM, &job, 1);
    if (acked) {
        struct op op = {.kind = OP_ACK, .lease = {.job = {4, 0}, .token = {20, 1}}};
        (void)keeper_ask(s, op);
    }
    scene_crash(s, 0);
    item.token = (struct job_token){9, 1};
    item.holder.seq = holder;
    shows(s, OP_GET, &item, 1);
}

static void c13_good(struct scene *s)
{
    held(s, false, 4, STATE_RUNNING);
}

static void c13_good_ended(struct scene *s)
{
    held(s, true, 0, STATE_READY);
}

static void c13_bad(struct scene *s)
{
    held(s, false, 0, STATE_READY);
}

static void c13_bad_holder(struct scene *s)
{
    held(s, false, 5, STATE_RUNNING);
}

static void c13_bad_two(struct scene *s)
{
    struct job_view a = job_view(4, STATE_RUNNING, ITEM_JOB), b = job_view(5, STATE_RUNNING, "");
    b.payload = SPAN_LITERAL("{\"items\":[{\"id\":\"3\",\"token\":\"1-10\"}]}");
    shows(s, OP_CLAIM, &a, 1);
    shows(s, OP_CLAIM, &b, 1);
    shows(s, OP_CLAIM, &a, 1);
}

static void notices(struct scene *s, enum op_kind kind, uint64_t number, uint32_t count)
{
    struct op op = {.kind = kind};
    struct notice_view v = {.notice = {.number = number, .job_seq = 1}};
    v.notice.alert = SPAN_LITERAL("dead");
    keeper_says(s, op, (struct reply){.notices = &v, .notice_count = count});
}

/* A job died; its notice is taken, delivered or not, and looked for after a crash. */
static void told(struct scene *s, bool delivered, uint32_t left, enum job_state state)
{
    struct op rule = {.kind = OP_ALERT_PUT, .alert = {.name = SPAN_LITERAL("dead")}};
    struct job_view v = job_view(1, state, "x");
    keeper_says(s, rule, (struct reply){.created = true});
    notices(s, OP_NOTICE_TAKE, 50, 1);
    if (delivered) {
        struct op op = {.kind = OP_NOTICE_END};
        op.notice_end.number = 50;
        op.notice_end.delivered = true;
        keeper_says(s, op, (struct reply){.outcome = OUT_OK});
    }
    scene_crash(s, 0);
    notices(s, OP_NOTICE_LIST, 50, left);
    ended(s);
    shows(s, OP_LIST, &v, 1);
}

static void c14_good(struct scene *s)
{
    told(s, false, 1, STATE_DEAD);
}

static void c14_good_delivered(struct scene *s)
{
    told(s, true, 0, STATE_DEAD);
}

static void c14_bad_lost(struct scene *s)
{
    told(s, false, 0, STATE_DEAD);
}

static void c14_bad_back(struct scene *s)
{
    told(s, true, 1, STATE_DEAD);
}

static void c14_bad_invented(struct scene *s)
{
    told(s, false, 1, STATE_DONE);
}

static void c14_bad_untold(struct scene *s)
{
    struct op rule = {.kind = OP_ALERT_PUT, .alert = {.name = SPAN_LITERAL("dead")}};
    struct job_view v = job_view(1, STATE_DEAD, "x");
    keeper_says(s, rule, (struct reply){.created = true});
    ended(s);
    shows(s, OP_LIST, &v, 1);
}

/* An ack that hands off a job and a key; its reply, or NULL. */
static void handed_off(struct scene *s, const struct reply *reply, enum job_state state, bool next,
                       bool key)
{
    static struct kv_set set;
    static struct op_enqueue job;
    static const struct op_kv_commit handoff = {
        .sets = &set, .set_count = 1, .enqueues = &job, .enqueue_count = 1};
    job.payload = SPAN_LITERAL("next");
    struct op op = {.kind = OP_ACK, .lease = {.job = {.seq = 1}, .handoff = &handoff}};
    struct hist_entry *e = keeper_ask(s, op);
    uint32_t number = e->call;
    if (reply)
        scene_answer(s, e, *reply);
    struct job_view v[] = {job_view(1, state, "first"), job_view(2, STATE_DONE, "next")};
    ended(s);
    shows(s, OP_LIST, v, next ? 2 : 1);
    key_is(s, KEY_COMMIT, number, key, "1");
}

static void c19_good(struct scene *s)
{
    handed_off(s, &(struct reply){.seq = 1, .state = STATE_DONE}, STATE_DONE, true, true);
}

static void c19_good_unheard(struct scene *s)
{
    handed_off(s, NULL, STATE_CANCELLED, false, false);
}

static void c19_good_refused(struct scene *s)
{
    handed_off(s, &(struct reply){.outcome = OUT_VERSION}, STATE_CANCELLED, false, false);
}

static void c19_bad_lost(struct scene *s)
{
    handed_off(s, &(struct reply){.seq = 1, .state = STATE_DONE}, STATE_DONE, false, false);
}

static void c19_bad_split(struct scene *s)
{
    handed_off(s, &(struct reply){.outcome = OUT_VERSION}, STATE_DONE, false, false);
}

static void c19_bad_unheard(struct scene *s)
{
    handed_off(s, NULL, STATE_DONE, false, false);
}

static void c19_bad_key(struct scene *s)
{
    handed_off(s, NULL, STATE_DONE, true, false);
}

static void c19_bad_alive(struct scene *s)
{
    handed_off(s, NULL, STATE_CANCELLED, true, true);
}

/* Job 5 depends on job 4, which is acked or not before job 5 starts. */
static void depends(struct scene *s, bool acked, bool again)
{
    static const struct dependency_ref parent = {.job = {4, 0}};
    static const struct op_depends one = {.parents = &parent, .count = 1};
    struct op put = {.kind = OP_ENQUEUE};
    put.enqueue.queue = SPAN_LITERAL("x-children");
    put.enqueue.payload = SPAN_LITERAL("child 1");
    put.enqueue.depends = &one;
    (void)keeper_ask(s, put); /* its reply was lost */
    struct op ack = {.kind = OP_ACK, .lease = {.job = {4, 0}, .token = {20, 1}}};
    if (acked)
        keeper_says(s, ack, (struct reply){.outcome = OUT_OK, .state = STATE_DONE});
    struct job_view job = job_view(5, STATE_RUNNING, "child 1");
    job.queue = SPAN_LITERAL("x-children");
    shows(s, OP_CLAIM, &job, 1);
    ack.lease.job.seq = 5;
    if (again) {
        keeper_says(s, ack, (struct reply){.outcome = OUT_OK, .state = STATE_DONE});
        shows(s, OP_CLAIM, &job, 1);
    }
}

static void c20_good(struct scene *s)
{
    depends(s, true, false);
}

static void c20_bad_early(struct scene *s)
{
    depends(s, false, false);
}

static void c20_bad_twice(struct scene *s)
{
    depends(s, true, true);
}

const struct scene_case scene_keeper_cases[] = {
    {"C11: a commit without an answer may have happened", c11_good, CHECK_NONE},
    {"C11: or not", c11_good_none, CHECK_NONE},
    {"C11: a commit left its key without its job", c11_bad_key, CHECK_C11},
    {"C11: a commit left its job without its key", c11_bad_job, CHECK_C11},
    {"C11: a dead job left no key", c11_bad_left, CHECK_C11},
    {"C11: a job that did not die left its key", c11_bad_alive, CHECK_C11},
    {"C12: a time made one job", c12_good, CHECK_NONE},
    {"C12: a time made two jobs", c12_bad_twice, CHECK_C12},
    {"C12: an answered firing is lost", c12_bad_lost, CHECK_C12},
    {"C12: a schedule has forgotten a firing", c12_bad_forgotten, CHECK_C12},
    {"C13: a job holds its item through a crash", c13_good, CHECK_NONE},
    {"C13: an item may come back when its job may have ended", c13_good_ended, CHECK_NONE},
    {"C13: but not before", c13_bad, CHECK_C13},
    {"C13: an item is held by another job", c13_bad_holder, CHECK_C13},
    {"C13: two jobs have one item", c13_bad_two, CHECK_C13},
    {"C14: a notice stays until it is delivered", c14_good, CHECK_NONE},
    {"C14: and then goes", c14_good_delivered, CHECK_NONE},
    {"C14: a notice is lost", c14_bad_lost, CHECK_C14},
    {"C14: a notice is back after its delivery", c14_bad_back, CHECK_C14},
    {"C14: a notice of a job that did not die", c14_bad_invented, CHECK_C14},
    {"C14: a death without a notice", c14_bad_untold, CHECK_C14},
    {"C19: an ack hands off a job and a key", c19_good, CHECK_NONE},
    {"C19: or not, if it has no answer", c19_good_unheard, CHECK_NONE},
    {"C19: or if it is refused", c19_good_refused, CHECK_NONE},
    {"C19: an answered hand-off is lost", c19_bad_lost, CHECK_C19},
    {"C19: an ack took effect whose hand-off was refused", c19_bad_split, CHECK_C19},
    {"C19: an ack took effect without its hand-off", c19_bad_unheard, CHECK_C19},
    {"C19: a hand-off left its job without its key", c19_bad_key, CHECK_C19},
    {"C19: a hand-off of a job that is not done", c19_bad_alive, CHECK_C19},
    {"C20: a job starts after the one on which it depends", c20_good, CHECK_NONE},
    {"C20: not before", c20_bad_early, CHECK_C20},
    {"C20: and not twice", c20_bad_twice, CHECK_C20},
};
const size_t scene_keeper_case_count = sizeof(scene_keeper_cases) / sizeof(scene_keeper_cases[0]);
