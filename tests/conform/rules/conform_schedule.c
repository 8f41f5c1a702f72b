/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules by the clock: what is kept, what a firing makes, and that no time is fired twice. */
#include "conform/rules/schedules.h"

#define MINUTE INT64_C(60000)

static struct wall_time minute(int64_t n)
{
    return (struct wall_time){START_WALL_MS + n * MINUTE};
}

static void made_and_shown(struct env *e)
{
    struct schedule_spec spec = cron_spec("reports");
    spec.zone = SPAN_LITERAL("Europe/Berlin");
    spec.run_after_gap = true;
    spec.misfire = MISFIRE_ALL;
    spec.misfire_window_ms = 5000;
    spec.overlap = OVERLAP_SKIP;
    spec.has_priority = true;
    spec.priority = -7;
    spec.extra.group = SPAN_LITERAL("g");
    struct op op = schedule_op(OP_SCHEDULE_PUT, "nightly ü");
    op.schedule.spec = &spec;
    op.schedule.next_at = minute(1);
    op.schedule.has_note = op.schedule.has_owner = op.schedule.has_attributes = true;
    op.schedule.note = SPAN_LITERAL("what for");
    op.schedule.owner = SPAN_LITERAL("api");
    op.schedule.attributes = SPAN_LITERAL("{\"id\":4}");
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->schedule_count, 1);
    const struct schedule_view *v = schedule_get(e, "nightly ü");
    EXPECT(v != NULL);
    EXPECT_TEXT(v->name, "nightly ü");
    EXPECT_TEXT(v->note, "what for");
    EXPECT_TEXT(v->owner, "api");
    EXPECT_TEXT(v->attributes, "{\"id\":4}");
    EXPECT_TEXT(v->spec.cron, "* * * * *");
    EXPECT_TEXT(v->spec.zone, "Europe/Berlin");
    EXPECT_TEXT(v->spec.queue, "reports");
    EXPECT_TEXT(v->spec.payload, "{\"report\":1}");
    EXPECT_TEXT(v->spec.extra.group, "g");
    EXPECT_INT(v->spec.priority, -7);
    EXPECT_INT(v->spec.misfire, MISFIRE_ALL);
    EXPECT_INT(v->spec.misfire_window_ms, 5000);
    EXPECT_INT(v->spec.overlap, OVERLAP_SKIP);
    EXPECT(v->spec.run_after_gap && !v->spec.fold_twice && !v->paused);
    EXPECT_INT(v->state.next_at.ms, minute(1).ms);
    EXPECT_INT(v->created_at.ms, START_WALL_MS);
    EXPECT_INT(v->state.fired, 0);
    op = (struct op){.kind = OP_SCHEDULE_GET, .schedule = {.number = v->number}};
    r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_TEXT(r->schedules[0].name, "nightly ü");
    op.schedule.number++;
    EXPECT_OUT(run(e, op), OUT_NO_SCHEDULE);
    op.schedule.number = UINT32_MAX;
    EXPECT_OUT(run(e, op), OUT_NO_SCHEDULE);
}

/* An API finds what its schedules made by their owner and number. */
static void owner_in_the_job(struct env *e)
{
    struct schedule_spec spec = cron_spec("a");
    struct op op = schedule_op(OP_SCHEDULE_PUT, "s");
    op.schedule.spec = &spec;
    op.schedule.next_at = minute(1);
    op.schedule.has_owner = true;
    op.schedule.owner = SPAN_LITERAL("api");
    EXPECT_OUT(run(e, op), OUT_OK);
    uint32_t number = schedule_get(e, "s")->number;
    advance(e, MINUTE);
    const struct reply *r = run(e, fire_op(OP_FIRE, "s", minute(1)));
    EXPECT_OUT(r, OUT_OK);
    char wanted[120];
    snprintf(wanted, sizeof wanted,
             "{\"source\":\"TRIGGER\",\"schedule\":\"s\",\"owner\":\"api\",\"number\":%u,"
             "\"fire_time\":",
             number);
    const struct job_view *job = get(e, schedule_get(e, "s")->state.seq);
    EXPECT(job != NULL);
    EXPECT(job->extra.attributes.len > strlen(wanted) &&
           memcmp(job->extra.attributes.at, wanted, strlen(wanted)) == 0);
}

static void changed_and_deleted(struct env *e)
{
    struct schedule_spec spec = cron_spec("a");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    uint32_t number = schedule_get(e, "s")->number;
    advance(e, 1000);
    spec = cron_spec("b");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(2)), OUT_OK);
    const struct schedule_view *v = schedule_get(e, "s");
    EXPECT_TEXT(v->spec.queue, "b");
    EXPECT_INT(v->number, number);
    EXPECT_INT(v->state.next_at.ms, minute(2).ms);
    EXPECT_INT(v->created_at.ms, START_WALL_MS);
    EXPECT_INT(v->updated_at.ms, START_WALL_MS + 1000);
    EXPECT_OUT(run(e, schedule_op(OP_SCHEDULE_DELETE, "s")), OUT_OK);
    EXPECT(schedule_get(e, "s") == NULL);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(2))), OUT_NO_SCHEDULE);
    EXPECT_INT(run(e, schedule_op(OP_SCHEDULE_LIST, ""))->schedule_count, 0);
}

static void made_only_as_told(struct env *e)
{
    struct schedule_spec spec = cron_spec("a");
    struct op op = schedule_op(OP_SCHEDULE_PUT, "s");
    op.schedule.spec = &spec;
    op.schedule.next_at = minute(1);
    op.schedule.must_exist = true;
    EXPECT_OUT(run(e, op), OUT_NO_SCHEDULE);
    op.schedule.must_exist = false;
    op.schedule.must_create = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(run(e, op), OUT_EXISTS);
    EXPECT_OUT(run(e, schedule_op(OP_SCHEDULE_DELETE, "other")), OUT_NO_SCHEDULE);
    EXPECT_OUT(run(e, schedule_op(OP_SCHEDULE_PAUSE, "other")), OUT_NO_SCHEDULE);
}

static void refuses_nonsense(struct env *e)
{
    struct schedule_spec spec = cron_spec("a");
    spec.cron = SPAN_LITERAL("61 * * * *");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_INVALID);
    spec = cron_spec("");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_INVALID);
    spec = cron_spec("a");
    EXPECT_OUT(schedule_put(e, "", &spec, minute(1)), OUT_INVALID);
    EXPECT_OUT(schedule_put(e, "s", &spec, (struct wall_time){0}), OUT_INVALID);
    spec.kind = SCHEDULE_INTERVAL; /* every 0 ms */
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_INVALID);
    spec = queue_spec("a", "a", 1);
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_INVALID);
    spec = queue_spec("a", "b", 1001);
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_INVALID);
    EXPECT(schedule_get(e, "s") == NULL);
}

static void listed_by_name(struct env *e)
{
    static const char *const names[] = {"b", "d", "a", "c"};
    struct schedule_spec spec = cron_spec("q");
    for (int i = 0; i < 4; i++)
        EXPECT_OUT(schedule_put(e, names[i], &spec, minute(1)), OUT_OK);
    struct op op = schedule_op(OP_SCHEDULE_LIST, "");
    op.schedule.limit = 3;
    const struct reply *r = run(e, op);
    EXPECT_INT(r->schedule_count, 3);
    EXPECT_TEXT(r->schedules[0].name, "a");
    EXPECT_TEXT(r->schedules[2].name, "c");
    EXPECT_INT(r->more, 1);
    op.schedule.after = SPAN_LITERAL("c");
    r = run(e, op);
    EXPECT_INT(r->schedule_count, 1);
    EXPECT_TEXT(r->schedules[0].name, "d");
    EXPECT_INT(r->more, 0);
}

/* One commit stores the job, the next time and the last job. */
static void fires(struct env *e)
{
    struct schedule_spec spec = cron_spec("reports");
    spec.has_priority = true;
    spec.priority = 5;
    spec.extra.correlation = SPAN_LITERAL("c-1");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    advance(e, MINUTE);
    const struct reply *r = run(e, fire_op(OP_FIRE, "s", minute(1)));
    EXPECT_OUT(r, OUT_OK);
    const struct schedule_view *v = schedule_get(e, "s");
    EXPECT_INT(v->state.next_at.ms, minute(2).ms);
    EXPECT_INT(v->state.last_at.ms, minute(1).ms);
    EXPECT_INT(v->state.fired_at.ms, minute(1).ms);
    EXPECT_INT(v->state.fired, 1);
    EXPECT(v->last_live);
    const struct job_view *job = get(e, v->state.seq);
    EXPECT(job != NULL);
    EXPECT_INT(job->job.id_hi, v->state.id_hi);
    EXPECT_TEXT(job->queue, "reports");
    EXPECT_TEXT(job->payload, "{\"report\":1}");
    EXPECT_TEXT(job->extra.correlation, "c-1");
    EXPECT_TEXT(job->extra.attributes, "{\"source\":\"TRIGGER\",\"schedule\":\"s\","
                                       "\"fire_time\":\"2026-01-01T00:01:00.000Z\"}");
    EXPECT_INT(job->job.priority, 5);
    EXPECT_COUNTS("reports", .ready = 1);
    EXPECT_OUT(ack(e, take(e, "reports")), OUT_OK);
    EXPECT(!schedule_get(e, "s")->last_live);
}

/* ORC-17: the second one finds that the schedule is not due. */
static void fires_a_time_once(struct env *e)
{
    struct schedule_spec spec = cron_spec("q");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(0))), OUT_NOT_DUE); /* before its time */
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_OK);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_NOT_DUE);
    EXPECT_COUNTS("q", .ready = 1);
    /* Later than the next time is good: what lies between is passed over. */
    struct op op = fire_op(OP_FIRE, "s", minute(5));
    op.schedule.missed = 3;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(3))), OUT_NOT_DUE);
    EXPECT_COUNTS("q", .ready = 2);
    EXPECT_INT(schedule_get(e, "s")->state.missed, 3);
    op = fire_op(OP_FIRE, "s", minute(6));
    op.schedule.next_at = minute(6);
    EXPECT_OUT(run(e, op), OUT_INVALID);
    EXPECT_OUT(run(e, fire_op(OP_TRIGGER, "s", minute(6))), OUT_INVALID);
    EXPECT_COUNTS("q", .ready = 2);
}

static void two_fire_the_same_time(struct env *e)
{
    struct schedule_spec spec = cron_spec("q");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    struct op ops[] = {fire_op(OP_FIRE, "s", minute(1)), fire_op(OP_FIRE, "s", minute(1))};
    const struct reply *r[2];
    run_batch(e, ops, 2, r);
    EXPECT_OUT(r[0], OUT_OK);
    EXPECT_INT(r[0]->fired, 1);
    EXPECT_OUT(r[1], OUT_NOT_DUE);
    EXPECT_COUNTS("q", .ready = 1);
}

static void a_time_is_skipped(struct env *e)
{
    struct schedule_spec spec = cron_spec("q");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    struct op op = fire_op(OP_FIRE, "s", minute(1));
    op.schedule.skip = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    const struct schedule_view *v = schedule_get(e, "s");
    EXPECT_INT(v->state.missed, 1);
    EXPECT_INT(v->state.fired, 0);
    EXPECT_INT(v->state.next_at.ms, minute(2).ms);
    EXPECT_INT(v->state.last_at.ms, minute(1).ms);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_NOT_DUE);
}

static void overlap_waits_for_the_last(struct env *e)
{
    struct schedule_spec spec = cron_spec("q");
    spec.overlap = OVERLAP_SKIP;
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_OK);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(2))), OUT_OK); /* waits: passed */
    struct held h = take(e, "q");
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(3))), OUT_OK); /* runs: passed */
    EXPECT_COUNTS("q", .running = 1);
    EXPECT_INT(schedule_get(e, "s")->state.missed, 2);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(4))), OUT_OK);
    EXPECT_COUNTS("q", .ready = 1, .done = 1);
    EXPECT_INT(schedule_get(e, "s")->state.fired, 2);
}

static void paused_fires_nothing(struct env *e)
{
    struct schedule_spec spec = cron_spec("q");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    struct op op = schedule_op(OP_SCHEDULE_PAUSE, "s");
    op.schedule.paused = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT(schedule_get(e, "s")->paused);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_NOT_DUE);
    op.schedule.paused = false;
    op.schedule.next_at = minute(9);
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT(!schedule_get(e, "s")->paused);
    EXPECT_INT(schedule_get(e, "s")->state.next_at.ms, minute(9).ms);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_NOT_DUE);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(9))), OUT_OK);
}

/* Out of turn, also while it is paused; its own times stay as they are. */
static void runs_now(struct env *e)
{
    struct schedule_spec spec = cron_spec("q");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    struct op op = schedule_op(OP_FIRE, "s");
    op.schedule.now = true;
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->fired, 1);
    const struct schedule_view *v = schedule_get(e, "s");
    EXPECT_INT(v->state.next_at.ms, minute(1).ms);
    EXPECT_INT(v->state.last_at.ms, 0);
    EXPECT_INT(v->state.fired, 1);
    EXPECT_INT(v->state.seq, r->seq);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_OK);
    EXPECT_COUNTS("q", .ready = 2);
}

/* ORC-20: counted, with a wait that doubles; a success forgets them. */
static void failures_are_counted(struct env *e)
{
    struct queue_policy p = test_policy();
    p.refuse_new = true;
    queue_make(e, "q", &p);
    struct schedule_spec spec = cron_spec("q");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    advance(e, MINUTE);
    for (int64_t i = 1, wait = 1000; i <= 3; i++, wait *= 2) {
        EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_REFUSED_NEW);
        const struct schedule_view *v = schedule_get(e, "s");
        EXPECT_INT(v->state.failures, i);
        EXPECT_INT(v->state.error, SCHEDULE_REFUSED_NEW);
        EXPECT_INT(v->state.next_at.ms, minute(1).ms); /* still due */
        EXPECT_INT(v->state.retry_at.ms, now_plus(e, wait).ms);
    }
    p.refuse_new = false;
    queue_make(e, "q", &p);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_OK);
    const struct schedule_view *v = schedule_get(e, "s");
    EXPECT_INT(v->state.failures, 0);
    EXPECT_INT(v->state.retry_at.ms, 0);
    EXPECT_INT(v->state.error, SCHEDULE_OK);
    EXPECT_COUNTS("q", .ready = 1);
}

static void full_queue_fails_it(struct env *e)
{
    struct queue_policy p = test_policy();
    p.capacity = 1;
    queue_make(e, "q", &p);
    put(e, "q");
    struct schedule_spec spec = cron_spec("q");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_QUEUE_FULL);
    EXPECT(schedule_get(e, "s")->state.failures > 0);
    EXPECT_INT(schedule_get(e, "s")->state.error, SCHEDULE_QUEUE_FULL);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_OK);
}

/* A job under its unique key is at it already: no failure, no second job. */
static void unique_key_passes(struct env *e)
{
    struct schedule_spec spec = cron_spec("q");
    spec.extra.unique = SPAN_LITERAL("k");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_OK);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(2))), OUT_OK);
    const struct schedule_view *v = schedule_get(e, "s");
    EXPECT_INT(v->state.fired, 1);
    EXPECT_INT(v->state.missed, 1);
    EXPECT_INT(v->state.failures, 0);
    EXPECT_COUNTS("q", .ready = 1);
}

/* An API shows it as a trigger's id. */
static void number_is_never_reused(struct env *e)
{
    struct schedule_spec spec = cron_spec("q");
    EXPECT_OUT(schedule_put(e, "last", &spec, minute(1)), OUT_OK);
    uint32_t last = schedule_get(e, "last")->number;
    EXPECT_OUT(run(e, schedule_op(OP_SCHEDULE_DELETE, "last")), OUT_OK);
    env_restart(e);
    EXPECT_OUT(schedule_put(e, "next", &spec, minute(1)), OUT_OK);
    EXPECT(schedule_get(e, "next")->number > last);
}

static void survives(struct env *e)
{
    struct schedule_spec spec = cron_spec("q");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    EXPECT_OUT(schedule_put(e, "gone", &spec, minute(1)), OUT_OK);
    EXPECT_OUT(schedule_put(e, "paused", &spec, minute(1)), OUT_OK);
    struct op op = schedule_op(OP_SCHEDULE_PAUSE, "paused");
    op.schedule.paused = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_OK);
    EXPECT_OUT(run(e, schedule_op(OP_SCHEDULE_DELETE, "gone")), OUT_OK);
    const struct schedule_view *before = schedule_get(e, "s");
    env_restart(e);
    const struct schedule_view *v = schedule_get(e, "s");
    EXPECT(v != NULL);
    EXPECT_INT(v->state.next_at.ms, minute(2).ms);
    EXPECT_INT(v->state.seq, before->state.seq);
    EXPECT_INT(v->state.fired, 1);
    EXPECT_TEXT(v->spec.payload, "{\"report\":1}");
    EXPECT(schedule_get(e, "gone") == NULL);
    EXPECT(schedule_get(e, "paused")->paused);
    EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(1))), OUT_NOT_DUE);
    EXPECT_COUNTS("q", .ready = 1);
}

static bool heard(struct env *e, enum event_kind kind, struct backend_event *ret)
{
    struct backend_event events[64];
    uint64_t oldest;
    size_t n = backend_events(e->b, 0, UINT64_C(1) << kind, events, 64, &oldest);
    if (n > 0)
        *ret = events[0];
    return n == 1;
}

static void told_as_events(struct env *e)
{
    struct queue_policy p = test_policy();
    struct backend_event v = {0};
    queue_make(e, "q", &p);
    struct schedule_spec spec = cron_spec("q");
    EXPECT_OUT(schedule_put(e, "s", &spec, minute(1)), OUT_OK);
    const struct reply *r = run(e, fire_op(OP_FIRE, "s", minute(1)));
    EXPECT_OUT(r, OUT_OK);
    EXPECT(heard(e, EVENT_SCHEDULE_FIRED, &v));
    EXPECT_TEXT(v.schedule, "s");
    EXPECT_TEXT(v.queue, "q");
    EXPECT_INT(v.seq, r->seq);
    p.refuse_new = true;
    queue_make(e, "q", &p);
    for (int i = 0; i < 3; i++)
        EXPECT_OUT(run(e, fire_op(OP_FIRE, "s", minute(2))), OUT_REFUSED_NEW);
    EXPECT(heard(e, EVENT_SCHEDULE_FAILED, &v)); /* once per streak */
    EXPECT_TEXT(v.schedule, "s");
    EXPECT_INT(v.seq, 0);
}

static const struct conform_case cases[] = {
    CASE("HF-8 a schedule is created and shown", made_and_shown),
    CASE("HF-8 ORC-19 a job names the schedule that created it", owner_in_the_job, EXACT),
    CASE("HF-8 a schedule is changed and deleted", changed_and_deleted, EXACT,
         .needs = NEEDS_ONE_STORE),
    CASE("HF-8 a schedule is created as must_exist and must_create say", made_only_as_told, EXACT),
    CASE("HF-8 ORC-15 invalid schedules are refused", refuses_nonsense),
    CASE("HF-8 schedules are listed by name", listed_by_name),
    CASE("HF-8 ORC-15 a firing creates a job and advances the schedule", fires),
    CASE("ORC-17 a time is fired once", fires_a_time_once, EXACT),
    CASE("ORC-17 two fire the same time in one batch", two_fire_the_same_time, EXACT),
    CASE("HF-8 a time can be skipped", a_time_is_skipped, EXACT),
    CASE("HF-8 overlap skips while the last job lives", overlap_waits_for_the_last, EXACT),
    CASE("HF-8 a paused schedule fires nothing", paused_fires_nothing, EXACT),
    CASE("HF-8 a schedule runs on request", runs_now, EXACT),
    CASE("ORC-20 failures are counted and delay the next attempt", failures_are_counted, EXACT),
    CASE("ORC-20 a full queue fails a firing", full_queue_fails_it, EXACT),
    CASE("HF-8 a unique key skips a time", unique_key_passes, EXACT),
    CASE("ORC-15 no schedule's number is used twice", number_is_never_reused, RESTART | EXACT),
    CASE("HF-8 ORC-17 schedules survive a restart", survives, RESTART | EXACT),
    CASE("HF-8 ORC-20 firings and failures are events", told_as_events, EXACT),
};
TOPIC(topic_schedule, cases, NEEDS_SCHEDULES);
