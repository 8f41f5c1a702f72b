/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules that take items of a queue: what a trigger takes, what holds it, and what becomes of
 * items whose job ends. */
#include "conform/rules/schedules.h"

#define MINUTE INT64_C(60000)

static struct wall_time minute(int64_t n)
{
    return (struct wall_time){START_WALL_MS + n * MINUTE};
}

static void trigger_make(struct env *e, uint32_t batch_size)
{
    struct queue_policy p = test_policy();
    queue_make(e, "items", &p);
    struct schedule_spec spec = queue_spec("items", "jobs", batch_size);
    EXPECT_OUT(schedule_put(e, "t", &spec, minute(1)), OUT_OK);
}

static const struct reply *trigger(struct env *e, int64_t n)
{
    return run(e, fire_op(OP_TRIGGER, "t", minute(n)));
}

/* The token by which the item is held. */
static struct held held_item(struct env *e, uint64_t seq)
{
    const struct job_view *v = get(e, seq);
    EXPECT_INT(v->job.state, STATE_RUNNING);
    return held_of(v);
}

static void takes_items_in_order(struct env *e)
{
    trigger_make(e, 2);
    uint64_t low = put_priority(e, "items", 1), high = put_priority(e, "items", 9);
    uint64_t mid = put_priority(e, "items", 5);
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    const struct schedule_view *v = schedule_get(e, "t");
    EXPECT_INT(v->state.fired, 1);
    EXPECT_INT(v->state.item, mid); /* the last one it took */
    EXPECT_STATE(high, STATE_RUNNING);
    EXPECT_STATE(mid, STATE_RUNNING);
    EXPECT_STATE(low, STATE_READY);
    EXPECT_COUNTS("jobs", .ready = 1);
    EXPECT_COUNTS("items", .ready = 1, .running = 2);
    const struct job_view *item = get(e, high);
    EXPECT_INT(item->holder.seq, v->state.seq);
    EXPECT_INT(item->holder.hi, v->state.id_hi);
    EXPECT_INT(item->lease_ms, 0);
    EXPECT_INT(get(e, low)->holder.seq, 0);
    /* The job says where it comes from and what it has; the payload also by which tokens. */
    const struct job_view *job = get(e, v->state.seq);
    char first[ID_ULID_BYTES], second[ID_ULID_BYTES], text[400], token[2][TOKEN_TEXT_BYTES];
    id_ulid(id_make(item->job.id_hi, high), first);
    id_ulid(id_make(get(e, mid)->job.id_hi, mid), second);
    snprintf(
        text, sizeof text,
        "{\"source\":\"TRIGGER\",\"schedule\":\"t\",\"fire_time\":\"2026-01-01T00:01:00.000Z\","
        "\"items\":[\"%s\",\"%s\"]}",
        first, second);
    EXPECT_TEXT(job->extra.attributes, text);
    token_text(held_item(e, high).token, token[0]);
    token_text(held_item(e, mid).token, token[1]);
    snprintf(
        text, sizeof text,
        "{\"source\":\"TRIGGER\",\"schedule\":\"t\",\"fire_time\":\"2026-01-01T00:01:00.000Z\","
        "\"items\":[{\"id\":\"%s\",\"token\":\"%s\"},{\"id\":\"%s\",\"token\":\"%s\"}]}",
        first, token[0], second, token[1]);
    EXPECT_TEXT(job->payload, text);
}

static void nothing_to_take(struct env *e)
{
    trigger_make(e, 5);
    const struct reply *r = trigger(e, 1);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->taken, 0);
    EXPECT_INT(schedule_get(e, "t")->state.fired, 0);
    EXPECT(queue_get(e, "jobs") == NULL);
    put_delayed(e, "items", 600000); /* not ready */
    EXPECT_INT(trigger(e, 1)->taken, 0);
    put(e, "items");
    pause_queue(e, "items", (struct wall_time){LIMIT_WALL_MS});
    EXPECT_INT(trigger(e, 1)->taken, 0);
    pause_queue(e, "items", (struct wall_time){0});
    EXPECT_INT(trigger(e, 1)->taken, 1);
    EXPECT_OUT(trigger(e, 1), OUT_NOT_DUE);
}

static void worker_ends_items(struct env *e)
{
    trigger_make(e, 3);
    uint64_t a = put(e, "items"), b = put(e, "items"), c = put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    struct held job = take(e, "jobs");
    EXPECT_OUT(run(e, lease_op(OP_EXTEND, held_item(e, a))), OUT_OK);
    EXPECT_OUT(ack(e, held_item(e, a)), OUT_OK);
    EXPECT_STATE(a, STATE_DONE);
    EXPECT_OUT(fail(e, held_item(e, b)), OUT_OK);
    EXPECT_STATE(b, STATE_SCHEDULED);
    EXPECT_OUT(release(e, held_item(e, c)), OUT_OK);
    EXPECT_STATE(c, STATE_READY);
    EXPECT_OUT(ack(e, job), OUT_OK);
    settle_due(e);
    EXPECT_INT(get(e, c)->job.failures, 0); /* it was no longer the job's */
    EXPECT_INT(get(e, a)->holder.seq, job.seq);
}

/* ORC-19: three lease times of the item, and of the job, make no second job. */
static void held_while_the_job_lives(struct env *e)
{
    trigger_make(e, 1);
    struct queue_policy p = test_policy();
    p.max_crashes = 0;
    queue_make(e, "jobs", &p);
    uint64_t item = put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    advance(e, 30000);
    struct held h = take(e, "jobs");
    advance(e, 30000); /* its leases run out, it comes back */
    EXPECT_STATE(item, STATE_RUNNING);
    EXPECT_INT(get(e, item)->job.crashes, 0);
    EXPECT_INT(trigger(e, 2)->taken, 0);
    h = take(e, "jobs");
    EXPECT_COUNTS("jobs", .running = 1);
    EXPECT_INT(get(e, item)->holder.seq, h.seq);
    EXPECT_OUT(ack(e, held_item(e, item)), OUT_OK);
    EXPECT_OUT(ack(e, h), OUT_OK);
}

/* Each way in which a job ends. What it left open has failed, by the policy of its queue. */
static void expect_left(struct env *e, uint64_t item)
{
    settle_due(e);
    EXPECT_STATE(item, STATE_SCHEDULED); /* back-off of its own queue */
    EXPECT_INT(get(e, item)->job.failures, 1);
    EXPECT(get(e, item)->error.len > 0);
    advance(e, 2000);
    EXPECT_STATE(item, STATE_READY);
}

static void left_by_a_done_job(struct env *e)
{
    trigger_make(e, 2);
    uint64_t a = put(e, "items"), b = put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    EXPECT_OUT(ack(e, held_item(e, b)), OUT_OK);
    EXPECT_OUT(ack(e, take(e, "jobs")), OUT_OK);
    expect_left(e, a);
    EXPECT_STATE(b, STATE_DONE);
}

static void left_by_a_dead_job(struct env *e)
{
    trigger_make(e, 1);
    uint64_t item = put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    struct op op = lease_op(OP_FAIL, take(e, "jobs"));
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    expect_left(e, item);
    EXPECT_INT(trigger(e, 2)->taken, 1); /* and is taken again */
}

/* A trigger's job may be an item of another one. When it dies as such, its own items are free. */
static void left_by_an_item(struct env *e)
{
    trigger_make(e, 1);
    struct queue_policy p = test_policy();
    p.max_attempts = 1;
    queue_make(e, "jobs", &p);
    struct schedule_spec spec = queue_spec("jobs", "above", 1);
    EXPECT_OUT(schedule_put(e, "above", &spec, minute(1)), OUT_OK);
    uint64_t item = put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    uint64_t middle = schedule_get(e, "t")->state.seq;
    EXPECT_INT(run(e, fire_op(OP_TRIGGER, "above", minute(1)))->taken, 1);
    EXPECT_INT(get(e, middle)->holder.seq, schedule_get(e, "above")->state.seq);
    EXPECT_OUT(ack(e, take(e, "above")), OUT_OK);
    expect_left(e, item);
    EXPECT_STATE(middle, STATE_DEAD);
}

static void left_by_a_cancelled_job(struct env *e)
{
    trigger_make(e, 1);
    uint64_t item = put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    EXPECT_OUT(cancel(e, schedule_get(e, "t")->state.seq), OUT_OK);
    expect_left(e, item);
}

static void left_by_a_removed_job(struct env *e)
{
    trigger_make(e, 1);
    uint64_t item = put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, schedule_get(e, "t")->state.seq)), OUT_OK);
    expect_left(e, item);
}

static void left_by_a_purged_queue(struct env *e)
{
    trigger_make(e, 1);
    uint64_t item = put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    EXPECT_OUT(run(e, queue_op(OP_PURGE, "jobs")), OUT_OK);
    expect_left(e, item);
}

static void left_by_a_deleted_queue(struct env *e)
{
    trigger_make(e, 1);
    uint64_t item = put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    take(e, "jobs");
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "jobs")), OUT_OK);
    expect_left(e, item);
}

/* Where the end of a lease is the end of a job, so is this. */
static void left_in_a_queue_that_fails(struct env *e)
{
    trigger_make(e, 1);
    struct queue_policy p = test_policy();
    p.lease_end = LEASE_END_FAIL;
    queue_make(e, "items", &p);
    uint64_t item = put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    EXPECT_OUT(ack(e, take(e, "jobs")), OUT_OK);
    settle_due(e);
    EXPECT_STATE(item, STATE_DEAD);
}

static void items_of_a_deleted_queue(struct env *e)
{
    trigger_make(e, 2);
    put(e, "items");
    put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "items")), OUT_OK);
    settle_due(e);
    EXPECT_OUT(ack(e, take(e, "jobs")), OUT_OK);
    settle_due(e);
    EXPECT_COUNTS("jobs", .done = 1);
}

static void holding_survives(struct env *e)
{
    trigger_make(e, 2);
    uint64_t a = put(e, "items"), b = put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    uint64_t job = schedule_get(e, "t")->state.seq;
    struct held ha = held_item(e, a);
    env_restart(e);
    EXPECT_INT(get(e, a)->holder.seq, job);
    EXPECT_INT(get(e, a)->lease_ms, 0);
    EXPECT(token_equal(held_item(e, a).token, ha.token));
    advance(e, 60000);
    EXPECT_STATE(a, STATE_RUNNING);
    EXPECT_OUT(ack(e, ha), OUT_OK);
    EXPECT_OUT(ack(e, take(e, "jobs")), OUT_OK);
    expect_left(e, b);
    env_restart(e);
    EXPECT_INT(get(e, a)->holder.seq, job); /* the link stays */
    EXPECT_STATE(b, STATE_READY);
}

/* The target takes no jobs: the items stay where they were, in their order. */
static void failing_takes_nothing(struct env *e)
{
    trigger_make(e, 2);
    struct queue_policy p = test_policy();
    p.refuse_new = true;
    queue_make(e, "jobs", &p);
    uint64_t a = put(e, "items"), b = put_priority(e, "items", 3);
    EXPECT_OUT(trigger(e, 1), OUT_REFUSED_NEW);
    EXPECT_INT(schedule_get(e, "t")->state.failures, 1);
    EXPECT_COUNTS("items", .ready = 2);
    EXPECT_INT(take(e, "items").seq, b);
    EXPECT_INT(take(e, "items").seq, a);
}

static void own_payload_is_inside(struct env *e)
{
    struct schedule_spec spec = queue_spec("items", "jobs", 1);
    spec.payload_kind = PAYLOAD_JSON;
    spec.payload = SPAN_LITERAL("{\"robot\": 7}");
    EXPECT_OUT(schedule_put(e, "t", &spec, minute(1)), OUT_OK);
    put(e, "items");
    EXPECT_OUT(trigger(e, 1), OUT_OK);
    struct span payload = get(e, schedule_get(e, "t")->state.seq)->payload;
    struct span end = SPAN_LITERAL(",\"payload\":{\"robot\": 7}}"); /* byte for byte */
    EXPECT(payload.len > end.len);
    EXPECT_SPAN(span_of(payload.at + payload.len - end.len, end.len), end);
}

static void eager_needs_no_time(struct env *e)
{
    struct schedule_spec spec = queue_spec("items", "jobs", 1);
    spec.eager = true;
    EXPECT_OUT(schedule_put(e, "t", &spec, minute(9)), OUT_OK);
    put(e, "items");
    put(e, "items");
    EXPECT_INT(trigger(e, 1)->taken, 1);
    EXPECT_INT(trigger(e, 1)->taken, 1);
    EXPECT_INT(trigger(e, 1)->taken, 0);
    EXPECT_COUNTS("jobs", .ready = 2);
}

static void owner_of_queue(struct env *e, const char *owner)
{
    struct op op = {
        .kind = OP_QUEUE_PUT,
        .queue = {.name = SPAN_LITERAL("items"), .has_owner = true, .owner = span_text(owner)}};
    EXPECT_OUT(run(e, op), OUT_OK);
}

/* HF-16: the queue of an API's trigger was deleted and another made one of that name. */
static void only_from_its_own_api(struct env *e)
{
    trigger_make(e, 1);
    struct op op = schedule_op(OP_SCHEDULE_PUT, "t");
    op.schedule.has_owner = true;
    op.schedule.owner = SPAN_LITERAL("api");
    EXPECT_OUT(run(e, op), OUT_OK);
    uint64_t item = put(e, "items");
    EXPECT_INT(trigger(e, 1)->taken, 0);
    owner_of_queue(e, "window");
    EXPECT_INT(trigger(e, 1)->taken, 0);
    EXPECT_STATE(item, STATE_READY);
    owner_of_queue(e, "api");
    EXPECT_INT(trigger(e, 1)->taken, 1);
    EXPECT_STATE(item, STATE_RUNNING);
}

static void rings_are_refused(struct env *e)
{
    struct schedule_spec ab = queue_spec("a", "b", 1), bc = queue_spec("b", "c", 1);
    struct schedule_spec ca = queue_spec("c", "a", 1), cd = queue_spec("c", "d", 1);
    EXPECT_OUT(schedule_put(e, "ab", &ab, minute(1)), OUT_OK);
    EXPECT_OUT(schedule_put(e, "bc", &bc, minute(1)), OUT_OK);
    EXPECT_OUT(schedule_put(e, "x", &ca, minute(1)), OUT_INVALID);
    EXPECT_OUT(schedule_put(e, "x", &cd, minute(1)), OUT_OK);
    EXPECT_OUT(schedule_put(e, "ab", &ab, minute(1)), OUT_OK); /* as it was */
    EXPECT_OUT(schedule_put(e, "x", &ca, minute(1)), OUT_INVALID);
}

/* The items are held by leases, so they count; groups take turns. A job whose priority was changed
 * back stands in the order twice, and is taken once. */
static void takes_what_the_limits_allow(struct env *e)
{
    struct queue_policy p = test_policy();
    p.fair = FAIR_GROUP;
    p.max_running = 3;
    queue_make(e, "items", &p);
    struct schedule_spec spec = queue_spec("items", "jobs", 10);
    EXPECT_OUT(schedule_put(e, "t", &spec, minute(1)), OUT_OK);
    uint64_t a[3], b;
    for (int i = 0; i < 3; i++)
        a[i] = put_grouped(e, "items", "a");
    b = put_grouped(e, "items", "b");
    for (int64_t priority = 1; priority >= 0; priority--) {
        struct op op = {.kind = OP_PATCH};
        op.patch = (struct op_patch){.job = {a[0], 0}, .has_priority = true, .priority = priority};
        EXPECT_OUT(run(e, op), OUT_OK);
    }
    EXPECT_INT(trigger(e, 1)->taken, 3);
    EXPECT_STATE(a[0], STATE_RUNNING);
    EXPECT_STATE(b, STATE_RUNNING);
    EXPECT_STATE(a[1], STATE_RUNNING);
    EXPECT_STATE(a[2], STATE_READY);
    EXPECT_INT(claim(e, "items", 5)->job_count, 0);
    EXPECT_INT(trigger(e, 2)->taken, 0);
    EXPECT_OUT(ack(e, held_item(e, b)), OUT_OK);
    EXPECT_INT(take(e, "items").seq, a[2]);
    EXPECT_INT(claim(e, "items", 5)->job_count, 0);
}

static const struct conform_case cases[] = {
    CASE("HF-28 a trigger takes what the limits allow", takes_what_the_limits_allow, EXACT),
    CASE("ORC-16 a trigger takes items in priority order", takes_items_in_order, EXACT),
    CASE("ORC-16 a trigger without items creates no job", nothing_to_take, EXACT),
    CASE("ORC-19 a worker ends items by their tokens", worker_ends_items, EXACT),
    CASE("ORC-19 items are held while the job lives", held_while_the_job_lives, EXACT),
    CASE("ORC-19 a done job leaves items", left_by_a_done_job, EXACT),
    CASE("ORC-19 a dead job leaves items", left_by_a_dead_job, EXACT),
    CASE("ORC-19 a job that dies as an item leaves its own", left_by_an_item, EXACT),
    CASE("ORC-19 a cancelled job leaves items", left_by_a_cancelled_job, EXACT),
    CASE("ORC-19 a removed job leaves items", left_by_a_removed_job, EXACT),
    CASE("ORC-19 a purged queue leaves items", left_by_a_purged_queue, EXACT),
    CASE("ORC-19 a deleted queue leaves items", left_by_a_deleted_queue, EXACT),
    CASE("ORC-19 items left in a queue whose leases fail", left_in_a_queue_that_fails, EXACT),
    CASE("ORC-19 items of a deleted queue", items_of_a_deleted_queue, EXACT),
    CASE("ORC-19 holding survives a restart", holding_survives, RESTART | EXACT),
    CASE("ORC-20 a failing trigger takes nothing", failing_takes_nothing, EXACT),
    CASE("ORC-19 the schedule's payload is inside", own_payload_is_inside, EXACT),
    CASE("ORC-15 an eager trigger needs no time", eager_needs_no_time, EXACT),
    CASE("ORC-16 HF-16 an API's trigger takes from the API's queues", only_from_its_own_api, EXACT),
    CASE("ORC-15 rings of triggers are refused", rings_are_refused, EXACT,
         .needs = NEEDS_ONE_STORE),
};
TOPIC(topic_trigger, cases, NEEDS_SCHEDULES);
