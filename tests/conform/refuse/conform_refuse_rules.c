/* SPDX-License-Identifier: Apache-2.0 */
/* What operations on schedules, alert rules and notices are refused for. */
#include "conform/rules/schedules.h"
#include "conform/tell.h"

/* --- schedules --- */

/* A put of a good spec with one member changed. */
#define SPEC(base, member, value, text)                                                            \
    do {                                                                                           \
        struct schedule_spec spec_ = (base);                                                       \
        spec_.member = (value);                                                                    \
        TELLS(schedule_put(e, "s", &spec_, now_plus(e, 60000)), text);                             \
    } while (0)

static void specs(struct env *e)
{
    struct schedule_spec cron = cron_spec("jobs"), items = queue_spec("items", "jobs", 10), every;
    schedule_default(&every, SCHEDULE_INTERVAL);
    every.every_ms = LIMIT_EVERY_MS_MIN;
    TELLS(schedule_put(e, "s", &cron, now_plus(e, 60000)), "ok created schedules=1");
    const char *before = world(e);
    SPEC(cron, kind, 0, "invalid: the kind of the schedule is 0; it must be from 1 to 3;");
    SPEC(cron, kind, 4, "invalid: the kind of the schedule is 4; it must be from 1 to 3;");
    SPEC(
        cron, cron, SPAN_LITERAL("61 * * * *"),
        "invalid: cron has \"61\" as its minute; allowed are 0 to 59, ranges (a-b), steps (/n) and "
        "lists (a,b);");
    SPEC(cron, cron, BAD_UTF8,
         "invalid: cron has 1 fields; it must have 5 (minute, hour, day of month, month, day of "
         "week) or 6 (seconds first);");
    SPEC(cron, zone, BAD_UTF8, "invalid: timezone is not valid UTF-8 at byte 1;");
    SPEC(every, every_ms, LIMIT_EVERY_MS_MIN - 1,
         "invalid: every_ms is 999; it must be from 1000 to 315619200000;");
    SPEC(every, every_ms, LIMIT_EVERY_MS + 1,
         "invalid: every_ms is 315619200001; it must be from 1000 to 315619200000;");
    SPEC(every, start_at.ms, LIMIT_WALL_MS + 1,
         "invalid: start_at is 253402300800000; it must be from 0 to 253402300799999;");
    SPEC(items, source, SPAN_LITERAL(""),
         "invalid: source_queue must be the name of a queue: a queue name must not be empty;");
    SPEC(items, source, WITH_NUL,
         "invalid: source_queue must be the name of a queue: the queue name has a control "
         "character at byte 1;");
    SPEC(items, source, SPAN_LITERAL("jobs"),
         "invalid: source_queue must not be the queue that the job goes to;");
    SPEC(items, batch_size, 0, "invalid: batch_size is 0; it must be from 1 to 1000;");
    SPEC(items, batch_size, LIMIT_BATCH_SIZE + 1,
         "invalid: batch_size is 1001; it must be from 1 to 1000;");
    SPEC(items, every_ms, 0, "invalid: interval_ms is 0; it must be from 1000 to 315619200000;");
    SPEC(items, payload_kind, PAYLOAD_BYTES,
         "invalid: payload must be JSON if source_queue is set;");
    SPEC(cron, misfire, MISFIRE_ALL + 1, "invalid: misfire is 3; it must be from 0 to 2;");
    SPEC(cron, overlap, OVERLAP_SKIP + 1, "invalid: overlap is 2; it must be from 0 to 1;");
    SPEC(cron, misfire_window_ms, LIMIT_EVERY_MS + 1,
         "invalid: misfire_window_ms is 315619200001; it must be from 0 to 315619200000;");
    SPEC(cron, queue, SPAN_LITERAL("-"),
         "invalid: queue must be the name of a queue: a queue name must not start with '-';");
    SPEC(
        cron, queue, BAD_UTF8,
        "invalid: queue must be the name of a queue: the queue name is not valid UTF-8 at byte 1;");
    SPEC(cron, extra.unique, BAD_UTF8, "invalid: unique is not valid UTF-8 at byte 1;");
    SPEC(cron, extra.unique, text_of(e, LIMIT_KEY_BYTES + 1),
         "invalid: unique has 513 bytes; 512 are allowed;");
    SPEC(cron, extra.group, WITH_NUL, "invalid: group has a U+0000 at byte 1;");
    SPEC(cron, extra.correlation, BAD_UTF8,
         "invalid: correlation_id is not valid UTF-8 at byte 1;");
    SPEC(cron, extra.label, text_of(e, LIMIT_LABEL_BYTES + 1),
         "invalid: priority_label has 65 bytes; 64 are allowed;");
    SPEC(cron, extra.options, SPAN_LITERAL("x"), "invalid: the options of the job cannot be read;");
    SPEC(cron, delay_ms, LIMIT_WALL_MS + 1,
         "invalid: delay_ms is 253402300800000; it must be from 0 to 253402300799999;");
    SPEC(cron, expires_in_ms, LIMIT_WALL_MS + 1,
         "invalid: expires_in_ms is 253402300800000; it must be from 0 to 253402300799999;");
    SPEC(cron, unique_mode, UNIQUE_REPLACE + 1,
         "invalid: unique_mode is 4; it must be from 0 to 3;");
    SPEC(cron, payload_kind, 3, "invalid: the kind of the payload is 3; it must be from 0 to 2;");
    SPEC(cron, payload_kind, PAYLOAD_NONE, "invalid: a payload of no kind cannot have bytes;");
    SPEC(cron, payload, text_of(e, LIMIT_SCHEDULE_PAYLOAD_BYTES + 1),
         "invalid: payload has 262145 bytes; a schedule's may have 262144;");
    UNCHANGED(before);
    SPEC(every, every_ms, LIMIT_EVERY_MS, "ok schedules=1");
    SPEC(items, batch_size, LIMIT_BATCH_SIZE, "ok schedules=1");
    SPEC(cron, payload, json_of(e, LIMIT_SCHEDULE_PAYLOAD_BYTES), "ok schedules=1");
}

#define NEXT_WRONG "invalid: next_at must be a time before the year 10000;"

#define NAME_WRONG                                                                                 \
    "invalid: the name of a schedule must have 1 to 200 bytes of UTF-8 without control "           \
    "characters, and not begin with '-';"

/* Which refusal of a put comes first. */
static void order_of_put(struct env *e)
{
    struct schedule_spec cron = cron_spec("jobs"), bad = cron;
    bad.misfire = 9;
    EXPECT_OUT(schedule_put(e, "s", &cron, now_plus(e, 60000)), OUT_OK);
    struct op op = schedule_op(OP_SCHEDULE_PUT, "s");
    op.schedule.must_create = true;
    op.schedule.has_note = true;
    op.schedule.note = BAD_UTF8;
    op.schedule.next_at.ms = -1;
    const char *before = world(e);
    TELLS(run(e, op), "exists");
    op.schedule.must_create = false;
    op.schedule.must_exist = true;
    op.schedule.name = SPAN_LITERAL("-");
    TELLS(run(e, op), "no_schedule");
    op.schedule.must_exist = false;
    TELLS(run(e, op), NAME_WRONG);
    struct op good = op;
    WITH(schedule.name, BAD_UTF8, NAME_WRONG);
    WITH(schedule.name, WITH_NUL, NAME_WRONG);
    WITH(schedule.name, text_of(e, LIMIT_QUEUE_NAME_BYTES + 1), NAME_WRONG);
    op.schedule.name = SPAN_LITERAL("t");
    TELLS(run(e, op),
          "invalid: a new schedule must define when it is due and which job it creates;");
    op.schedule.spec = &bad;
    TELLS(run(e, op), "invalid: misfire is 9; it must be from 0 to 2;");
    op.schedule.spec = &cron;
    TELLS(run(e, op), NEXT_WRONG);
    op.schedule.next_at.ms = 0; /* a new one must say when */
    TELLS(run(e, op), NEXT_WRONG);
    op.schedule.next_at.ms = LIMIT_WALL_MS + 1;
    TELLS(run(e, op), NEXT_WRONG);
    op.schedule.next_at.ms = LIMIT_WALL_MS;
    TELLS(run(e, op), "invalid: note is not valid UTF-8 at byte 1;");
    op.schedule.note = WITH_NUL;
    TELLS(run(e, op), "invalid: note has a U+0000 at byte 1;");
    op.schedule.note = text_of(e, LIMIT_NOTE_BYTES + 1);
    TELLS(run(e, op), "invalid: note has 4097 bytes; 4096 are allowed;");
    op.schedule.has_note = false;
    op.schedule.has_owner = true;
    good = op;
    WITH(schedule.owner, BAD_UTF8, "invalid: owner is not valid UTF-8 at byte 1;");
    WITH(schedule.owner, text_of(e, LIMIT_LABEL_BYTES + 1),
         "invalid: owner has 65 bytes; 64 are allowed;");
    good.schedule.has_owner = false;
    good.schedule.has_attributes = true;
    WITH(schedule.attributes, BAD_UTF8, "invalid: attributes is not valid UTF-8 at byte 1;");
    /* of one that is there, too */
    WITH(schedule.attributes, text_of(e, LIMIT_NOTE_BYTES + 1),
         "invalid: attributes has 4097 bytes; 4096 are allowed;");
    UNCHANGED(before);
    good.schedule.name = SPAN_LITERAL("s");
    WITH(schedule.attributes, WITH_NUL, "invalid: attributes has a U+0000 at byte 1;");
    UNCHANGED(before);
}

#define RING                                                                                       \
    "invalid: source_queue must not get its items, over other schedules, from the queue that the " \
    "job goes to: the ring would never end;"

/* A chain of triggers must not lead back to its start: the request that would close the ring is
 * refused. */
static void rings(struct env *e)
{
    struct schedule_spec ab = queue_spec("a", "b", 1), bc = queue_spec("b", "c", 1),
                         ca = queue_spec("c", "a", 1), cd = queue_spec("c", "d", 1);
    EXPECT_OUT(schedule_put(e, "ab", &ab, now_plus(e, 1000)), OUT_OK);
    EXPECT_OUT(schedule_put(e, "bc", &bc, now_plus(e, 1000)), OUT_OK);
    const char *before = world(e);
    TELLS(schedule_put(e, "ca", &ca, now_plus(e, 1000)), RING);
    UNCHANGED(before);
    /* in the place of b → c */
    TELLS(schedule_put(e, "bc", &ca, now_plus(e, 0)), "ok schedules=1");
    before = world(e);
    TELLS(schedule_put(e, "again", &bc, now_plus(e, 1000)), RING);
    UNCHANGED(before);
    TELLS(schedule_put(e, "bc", &cd, now_plus(e, 0)), "ok schedules=1");
    TELLS(schedule_put(e, "again", &bc, now_plus(e, 1000)), "ok created schedules=1");
}

static void firings(struct env *e)
{
    struct schedule_spec cron = cron_spec("jobs"), items = queue_spec("items", "jobs", 10);
    EXPECT_OUT(schedule_put(e, "s", &cron, now_plus(e, 60000)), OUT_OK);
    EXPECT_OUT(schedule_put(e, "t", &items, now_plus(e, 60000)), OUT_OK);
    struct wall_time due = now_plus(e, 60000);
    put(e, "items");
    const char *before = world(e);
    struct op good = fire_op(OP_FIRE, "none", due);
    TELLS(run(e, good), "no_schedule");
    WITH(schedule.name, BAD_UTF8, "no_schedule");
    WITH(schedule.name, WITH_NUL, "no_schedule");
    WITH(kind, OP_TRIGGER, "no_schedule");
    WITH(kind, OP_SCHEDULE_GET, "no_schedule");
    WITH(kind, OP_SCHEDULE_DELETE, "no_schedule");
    good.schedule.next_at.ms = -1;
    WITH(kind, OP_SCHEDULE_PAUSE, "no_schedule");
    TELLS(run(e, fire_op(OP_TRIGGER, "s", due)),
          "invalid: this schedule goes by the clock: it is fired; schedules=1");
    TELLS(run(e, fire_op(OP_FIRE, "t", due)),
          "invalid: this schedule takes items of a queue: it is triggered; schedules=1");
    good = fire_op(OP_FIRE, "s", due);
    WITH(schedule.at.ms, due.ms - 1, "not_due schedules=1");
    WITH(schedule.next_at.ms, due.ms,
         "invalid: next_at must be later than the time that is fired; schedules=1");
    WITH(schedule.next_at.ms, LIMIT_WALL_MS + 1,
         "invalid: next_at must be later than the time that is fired; schedules=1");
    good.schedule.at.ms--; /* not due comes before its values */
    WITH(schedule.next_at.ms, 0, "not_due schedules=1");
    good = schedule_op(OP_SCHEDULE_PAUSE, "s");
    WITH(schedule.next_at.ms, -1, NEXT_WRONG);
    WITH(schedule.next_at.ms, LIMIT_WALL_MS + 1, NEXT_WRONG);
    UNCHANGED(before);
    WITH(schedule.paused, true, "ok schedules=1");
    good = fire_op(OP_FIRE, "s", due);
    before = world(e);
    TELLS(run(e, good), "not_due schedules=1");
    UNCHANGED(before);
    /* out of turn it is fired nevertheless */
    WITH(schedule.now, true, "ok job=? ready created fired schedules=1");
    EXPECT_COUNTS("jobs", .ready = 1);
}

static void small_server(struct backend_config *c)
{
    c->queue_limits = (struct queue_limits){.max = 2, .implied_max = 2};
    c->capacity = 3;
}

/* Why a firing can fail; each is told, kept with the schedule, and tried again later. */
static void firings_refused(struct env *e)
{
    static const struct {
        const char *queue, *tells;
        uint8_t error;
    } ways[] = {{"shut", "refused_new schedules=1", SCHEDULE_REFUSED_NEW},
                {"third", "queues_full schedules=1", SCHEDULE_SERVER_FULL},
                {"small", "too_big schedules=1", SCHEDULE_TOO_BIG}};
    struct queue_policy p = test_policy();
    p.refuse_new = true;
    queue_make(e, "shut", &p);
    p.refuse_new = false;
    p.payload_max = 1;
    queue_make(e, "small", &p);
    struct wall_time due = now_plus(e, 60000);
    for (size_t i = 0; i < 3; i++) {
        struct schedule_spec cron = cron_spec(ways[i].queue);
        EXPECT_OUT(schedule_put(e, ways[i].queue, &cron, due), OUT_OK);
        TELLS(run(e, fire_op(OP_FIRE, ways[i].queue, due)), ways[i].tells);
        const struct schedule_view *s = schedule_get(e, ways[i].queue);
        EXPECT_INT(s->state.error, ways[i].error);
        EXPECT_INT(s->state.failures, 1);
        EXPECT_INT(s->state.next_at.ms, due.ms);
        EXPECT_INT(s->state.retry_at.ms, now_plus(e, 1000).ms);
        EXPECT_INT(s->state.fired, 0);
    }
    p.payload_max = 1000;
    p.capacity = 1;
    p.enqueue_rate = (struct rate_limit){RATE_QUEUE, 1, 3600000};
    queue_make(e, "small", &p);
    EXPECT_OUT(run(e, enqueue_op("small")), OUT_OK);
    struct op fire = fire_op(OP_FIRE, "small", due);
    TELLS(run(e, fire), "queue_full schedules=1");
    EXPECT_INT(schedule_get(e, "small")->state.error, SCHEDULE_QUEUE_FULL);
    EXPECT_INT(schedule_get(e, "small")->state.failures, 2);
    p.capacity = 5;
    queue_make(e, "small", &p);
    TELLS(run(e, fire), "rate_limited retry_ms=3600000 schedules=1");
    EXPECT_INT(schedule_get(e, "small")->state.error, SCHEDULE_RATE_LIMITED);
    p.enqueue_rate.count = 0;
    queue_make(e, "small", &p);
    put(e, "small");
    put(e, "small");
    TELLS(run(e, fire), "server_full schedules=1");
    EXPECT_INT(schedule_get(e, "small")->state.error, SCHEDULE_SERVER_FULL);
    EXPECT_INT(run(e, queue_op(OP_PURGE, "small"))->changed, 3);
    TELLS(run(e, fire), "ok job=? ready created fired schedules=1");
    EXPECT_INT(schedule_get(e, "small")->state.error, SCHEDULE_OK);
    EXPECT_INT(schedule_get(e, "small")->state.failures, 0);
    fire.schedule.now = true; /* out of turn a failure is told, and not counted */
    p.refuse_new = true;
    queue_make(e, "small", &p);
    const char *before = world(e);
    TELLS(run(e, fire), "refused_new schedules=1");
    UNCHANGED(before);
}

/* --- alerts --- */

static struct op rule_op(const char *name, const struct alert_rule *rule)
{
    return (struct op){.kind = OP_ALERT_PUT, .alert = {.name = span_text(name), .rule = rule}};
}

/* A put of a good rule with one member changed. */
#define RULE(base, member, value, text)                                                            \
    do {                                                                                           \
        struct alert_rule rule_ = (base);                                                          \
        rule_.member = (value);                                                                    \
        TELLS(run(e, rule_op("a", &rule_)), text);                                                 \
    } while (0)

#define ALERT_NAME_WRONG                                                                           \
    "invalid: the name of an alert must be 1 to 100 bytes of UTF-8 without control characters "    \
    "and "                                                                                         \
    "must not start with '-';"

static void alerts(struct env *e)
{
    struct alert_rule dead, share, idle, failover;
    alert_rule_default(ALERT_DEAD, &dead);
    alert_rule_default(ALERT_ERROR_SHARE, &share);
    alert_rule_default(ALERT_NO_CLAIM, &idle);
    alert_rule_default(ALERT_FAILOVER, &failover);
    dead.url = SPAN_LITERAL("http://hooks.example/in");
    TELLS(run(e, rule_op("a", &dead)), "ok created");
    const char *before = world(e);
    RULE(dead, on, 0, "invalid: on is not a kind of alert;");
    RULE(dead, on, ALERT_ON_COUNT, "invalid: on is not a kind of alert;");
    RULE(dead, queue, SPAN_LITERAL(""), "invalid: queue is empty; use * for every queue;");
    RULE(dead, queue, BAD_UTF8, "invalid: queue is not valid UTF-8 at byte 1;");
    RULE(dead, queue, WITH_NUL, "invalid: queue has a U+0000 at byte 1;");
    RULE(dead, queue, text_of(e, LIMIT_QUEUE_NAME_BYTES + 1),
         "invalid: queue has 201 bytes; 200 are allowed;");
    RULE(dead, secret, BAD_UTF8, "invalid: secret is not valid UTF-8 at byte 1;");
    RULE(dead, secret, text_of(e, LIMIT_SECRET_BYTES + 1),
         "invalid: secret has 257 bytes; 256 are allowed;");
    RULE(dead, url, SPAN_LITERAL("ftp://x/"), "invalid: url must begin with http:// or https://;");
    RULE(dead, url, BAD_UTF8, "invalid: url has a character at 1 that must be percent-encoded;");
    RULE(share, secret, SPAN_LITERAL("s"), "invalid: secret has no effect without a url;");
    RULE(dead, percent, 5, "invalid: percent cannot be set for an alert on dead;");
    RULE(dead, depth, 5, "invalid: depth cannot be set for an alert on dead;");
    RULE(share, percent, 0, "invalid: percent is 0; it must be between 1 and 100;");
    RULE(share, percent, 101, "invalid: percent is 101; it must be between 1 and 100;");
    RULE(share, window_ms, 999, "invalid: window_ms is 999; it must be between 1000 and 86400000;");
    RULE(share, window_ms, 86400001,
         "invalid: window_ms is 86400001; it must be between 1000 and 86400000;");
    RULE(share, min_ends, 0, "invalid: min_ends is 0; it must be between 1 and 4294967295;");
    RULE(share, with_payload, true,
         "invalid: with_payload cannot be set for an alert on error_share;");
    RULE(failover, queue, SPAN_LITERAL("q"),
         "invalid: queue must be * for an alert on failover, which is about a node and not about "
         "queues;");
    RULE(failover, percent, 5, "invalid: percent cannot be set for an alert on failover;");
    RULE(idle, after_ms, 999, "invalid: after_ms is 999; it must be between 1000 and 86400000;");
    struct op good = rule_op("a", &dead);
    WITH(alert.rule, NULL, "invalid: on is not a kind of alert;");
    WITH(alert.name, SPAN_LITERAL(""), ALERT_NAME_WRONG);
    WITH(alert.name, SPAN_LITERAL("-"), ALERT_NAME_WRONG);
    WITH(alert.name, BAD_UTF8, ALERT_NAME_WRONG);
    WITH(alert.name, WITH_NUL, ALERT_NAME_WRONG);
    WITH(alert.name, text_of(e, LIMIT_ALERT_NAME_BYTES + 1), ALERT_NAME_WRONG);
    good.alert.must_create = true;
    TELLS(run(e, good), "exists");
    WITH(alert.rule, NULL, "invalid: on is not a kind of alert;"); /* values first */
    good.alert.must_create = false;
    good.alert.must_exist = true;
    WITH(alert.name, SPAN_LITERAL("b"), "not_found");
    WITH(alert.name, BAD_UTF8, ALERT_NAME_WRONG);
    static const struct span none[] = {SPAN_LITERAL("b"), BAD_UTF8, WITH_NUL, {"", 0}};
    for (size_t i = 0; i < 4; i++) {
        good = (struct op){.kind = OP_ALERT_DELETE};
        WITH(alert.name, none[i], "not_found");
        good = (struct op){.kind = OP_ALERT_EDGE, .alert_edge = {.queue = SPAN_LITERAL("q")}};
        WITH(alert_edge.alert, none[i], "not_found");
        good = (struct op){.kind = OP_ALERT_LIST};
        WITH(alert.name, none[i], none[i].len ? "not_found" : "ok alerts=1");
    }
    UNCHANGED(before);
    good = rule_op("b", &dead);
    WITH(alert.name, text_of(e, LIMIT_ALERT_NAME_BYTES), "ok created");
}

static struct op edge_op(const char *alert, struct span queue, bool raised)
{
    return (struct op){
        .kind = OP_ALERT_EDGE,
        .alert_edge = {.alert = span_text(alert), .queue = queue, .raised = raised, .value = 1}};
}

static void edges(struct env *e)
{
    struct alert_rule deep, off, dead;
    alert_rule_default(ALERT_DEEP, &deep);
    deep.url = SPAN_LITERAL("http://hooks.example/in");
    deep.queue = SPAN_LITERAL("m*");
    off = deep;
    off.enabled = false;
    alert_rule_default(ALERT_DEAD, &dead);
    EXPECT_OUT(run(e, rule_op("deep", &deep)), OUT_OK);
    EXPECT_OUT(run(e, rule_op("off", &off)), OUT_OK);
    EXPECT_OUT(run(e, rule_op("dead", &dead)), OUT_OK);
    const char *before = world(e);
    TELLS(run(e, edge_op("dead", SPAN_LITERAL("m"), true)), "not_found");
    TELLS(run(e, edge_op("off", SPAN_LITERAL("m"), true)), "not_found");
    TELLS(run(e, edge_op("deep", SPAN_LITERAL("q"), true)), "not_found");
    TELLS(run(e, edge_op("deep", (struct span){NULL, 0}, true)), "not_found");
    TELLS(run(e, edge_op("deep", SPAN_LITERAL("m"), false)), "ok repeat");
    TELLS(run(e, edge_op("off", SPAN_LITERAL("m"), false)), "ok repeat");
    TELLS(run(e, edge_op("deep", SPAN_LITERAL("q"), false)), "ok repeat");
    UNCHANGED(before);
    TELLS(run(e, edge_op("deep", SPAN_LITERAL("m"), true)), "ok");
    TELLS(run(e, edge_op("deep", SPAN_LITERAL("m"), true)), "ok repeat");
    EXPECT_OUT(run(e, rule_op("deep", &off)), OUT_OK); /* it has raised nothing any more */
    TELLS(run(e, edge_op("deep", SPAN_LITERAL("m"), false)), "ok repeat");
    struct op op = {.kind = OP_ALERT_DELETE, .alert = {.name = SPAN_LITERAL("deep")}};
    TELLS(run(e, op), "ok discarded=1"); /* with its notice */
    TELLS(run(e, (struct op){.kind = OP_NOTICE_LIST}), "ok");
}

/* --- notices --- */

static void notices(struct env *e)
{
    struct alert_rule dead;
    alert_rule_default(ALERT_DEAD, &dead);
    dead.url = SPAN_LITERAL("http://hooks.example/in");
    EXPECT_OUT(run(e, rule_op("a", &dead)), OUT_OK);
    job_in(e, "q", STATE_DEAD, NULL);
    const struct reply *r = run(e, (struct op){.kind = OP_NOTICE_LIST});
    EXPECT_INT(r->notice_count, 1);
    struct job_ref id = {r->notices[0].notice.number, r->notices[0].notice.id_hi};
    const struct job_ref none[] = {{id.seq + 1000, 0}, {id.seq, id.hi + 1}, {LIMIT_SEQ, 0}};
    const char *before = world(e);
    for (size_t i = 0; i < 3; i++) {
        struct op good = {.kind = OP_NOTICE_LIST, .notice = {.id = none[i]}};
        TELLS(run(e, good), "not_found");
        WITH(kind, OP_NOTICE_AGAIN, "not_found");
        WITH(kind, OP_NOTICE_DISCARD, "not_found");
    }
    TELLS(run(e, (struct op){.kind = OP_NOTICE_AGAIN}), "not_found");
    TELLS(run(e, (struct op){.kind = OP_NOTICE_DISCARD}), "not_found");
    TELLS(run(e, (struct op){.kind = OP_NOTICE_END}), "not_found");
    struct op end = {.kind = OP_NOTICE_END, .notice_end = {.number = id.seq, .tries = 7}};
    TELLS(run(e, end), "ok repeat"); /* of a try that there was not */
    UNCHANGED(before);
    /* A time that is none is now; an error that is no text is cut off. */
    end.notice_end.tries = 0;
    end.notice_end.due.ms = -1;
    end.notice_end.error = BAD_UTF8;
    TELLS(run(e, end), "ok");
    TELLS(run(e, end), "ok repeat");
    r = run(e, (struct op){.kind = OP_NOTICE_LIST, .notice = {.id = id}});
    TELLS(r, "ok notices=1");
    EXPECT_INT(r->notices[0].tried.due.ms, now_plus(e, 0).ms);
    EXPECT_INT(r->notices[0].tried.tries, 1);
    EXPECT_TEXT(r->notices[0].tried.error, "a");
    end.notice_end.tries = 1;
    end.notice_end.give_up = true;
    end.notice_end.error = text_of(e, LIMIT_NOTICE_ERROR_BYTES + 1);
    TELLS(run(e, end), "ok");
    end.notice_end.tries = 2;
    TELLS(run(e, end), "ok repeat"); /* it is dead */
    r = run(e, (struct op){.kind = OP_NOTICE_LIST});
    EXPECT_INT(r->notices[0].tried.state, NOTICE_DEAD);
    EXPECT_INT(r->notices[0].tried.error.len, LIMIT_NOTICE_ERROR_BYTES);
    TELLS(run(e, (struct op){.kind = OP_NOTICE_AGAIN, .notice = {.id = id}}), "ok");
    r = run(e, (struct op){.kind = OP_NOTICE_LIST});
    EXPECT_INT(r->notices[0].tried.state, NOTICE_PENDING);
    EXPECT_INT(r->notices[0].tried.tries, 0);
    end.notice_end.delivered = true; /* delivered is delivered, whatever it was said to be */
    TELLS(run(e, end), "ok");
    TELLS(run(e, end), "not_found");
}

static const struct conform_case cases[] = {
    CASE("HF-27 alerts: every member of a rule out of bounds", alerts, EXACT),
    CASE("HF-27 alerts: edges that are refused, or known", edges, EXACT, NULL, NEEDS_ONE_STORE),
    CASE("HF-27 notices: what is refused, or known", notices, EXACT),
};
TOPIC(topic_refuse_alerts, cases);

static const struct conform_case schedule_cases[] = {
    CASE("HF-27 schedules: every member out of bounds", specs, EXACT),
    CASE("HF-27 schedules: which refusal of a put comes first", order_of_put, EXACT),
    CASE("HF-27 schedules: rings of triggers", rings, EXACT, NULL, NEEDS_ONE_STORE),
    CASE("HF-27 schedules: firings that are refused", firings, EXACT),
    CASE("HF-27 schedules: firings that fail", firings_refused, EXACT, small_server,
         NEEDS_ONE_STORE),
};
TOPIC(topic_refuse_schedules, schedule_cases, NEEDS_SCHEDULES);
