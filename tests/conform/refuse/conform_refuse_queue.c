/* SPDX-License-Identifier: Apache-2.0 */
/* What operations on queues, and questions, are refused for. */
#include "conform/tell.h"

/* --- put --- */

static void names_and_texts(struct env *e)
{
    struct op good = queue_op(OP_QUEUE_PUT, "q");
    EXPECT_OUT(run(e, good), OUT_OK);
    const char *before = world(e);
    WITH(queue.name, BAD_UTF8, "invalid: the queue name is not valid UTF-8 at byte 1;");
    WITH(queue.name, WITH_NUL, "invalid: the queue name has a control character at byte 1;");
    WITH(queue.name, SPAN_LITERAL("a\nb"),
         "invalid: the queue name has a control character at byte 1;");
    WITH(queue.name, SPAN_LITERAL("-a"), "invalid: a queue name must not start with '-';");
    WITH(queue.name, SPAN_LITERAL(""), "invalid: a queue name must not be empty;");
    WITH(queue.name, text_of(e, LIMIT_QUEUE_NAME_BYTES + 1),
         "invalid: the queue name has 201 bytes; 200 are allowed;");
    for (int there = 0; there < 2; there++) {
        good = queue_op(OP_QUEUE_PUT, there ? "q" : "new");
        good.queue.has_owner = good.queue.has_note = good.queue.has_attributes = true;
        WITH(queue.owner, BAD_UTF8, "invalid: owner is not valid UTF-8 at byte 1;");
        WITH(queue.owner, WITH_NUL, "invalid: owner has a U+0000 at byte 1;");
        WITH(queue.owner, text_of(e, LIMIT_LABEL_BYTES + 1),
             "invalid: owner has 65 bytes; 64 are allowed;");
        WITH(queue.note, BAD_UTF8, "invalid: note is not valid UTF-8 at byte 1;");
        WITH(queue.note, WITH_NUL, "invalid: note has a U+0000 at byte 1;");
        WITH(queue.note, text_of(e, LIMIT_NOTE_BYTES + 1),
             "invalid: note has 4097 bytes; 4096 are allowed;");
        WITH(queue.attributes, BAD_UTF8, "invalid: attributes is not valid UTF-8 at byte 1;");
        WITH(queue.attributes, WITH_NUL, "invalid: attributes has a U+0000 at byte 1;");
        WITH(queue.attributes, text_of(e, LIMIT_NOTE_BYTES + 1),
             "invalid: attributes has 4097 bytes; 4096 are allowed;");
    }
    UNCHANGED(before);
    good.queue.owner = text_of(e, LIMIT_LABEL_BYTES);
    good.queue.note = text_of(e, LIMIT_NOTE_BYTES);
    good.queue.attributes = text_of(e, LIMIT_NOTE_BYTES);
    TELLS(run(e, good), "ok");
    const struct queue_view *v = queue_get(e, "q");
    EXPECT_SPAN(v->owner, good.queue.owner);
    EXPECT_SPAN(v->note, good.queue.note);
    EXPECT_SPAN(v->attributes, good.queue.attributes);
    good.queue.name = SPAN_LITERAL("new");
    TELLS(run(e, good), "ok created");
}

/* One member of the default policy changed. */
#define POLICY(member, value, text)                                                                \
    do {                                                                                           \
        struct queue_policy p_ = test_policy();                                                    \
        p_.member = (value);                                                                       \
        struct op op_ = queue_op(OP_QUEUE_PUT, "q");                                               \
        op_.queue.policy = &p_;                                                                    \
        TELLS(run(e, op_), text);                                                                  \
    } while (0)

static void policies(struct env *e)
{
    uint64_t seq = put(e, "q");
    name_job(e, "a", seq);
    const char *before = world(e);
    POLICY(lease_ms, LIMIT_LEASE_MS_MIN - 1,
           "invalid: lease_ms is 99; it must be from 100 to 86400000;");
    POLICY(lease_ms, LIMIT_LEASE_MS + 1,
           "invalid: lease_ms is 86400001; it must be from 100 to 86400000;");
    POLICY(max_attempts, 0, "invalid: max_attempts is 0; it must be from 1 to 60000;");
    POLICY(max_attempts, LIMIT_ATTEMPTS + 1,
           "invalid: max_attempts is 60001; it must be from 1 to 60000;");
    POLICY(max_crashes, LIMIT_ATTEMPTS + 1,
           "invalid: max_crashes is 60001; it must be from 0 to 60000;");
    POLICY(backoff.kind, 2, "invalid: backoff.kind is 2; it must be from 0 to 1;");
    POLICY(backoff.jitter_percent, 101,
           "invalid: backoff.jitter_percent is 101; it must be from 0 to 100;");
    POLICY(backoff.base_ms, LIMIT_BACKOFF_MS + 1,
           "invalid: backoff.base_ms is 2592000001; it must be from 0 to 2592000000;");
    POLICY(backoff.max_ms, LIMIT_BACKOFF_MS + 1,
           "invalid: backoff.max_ms is 2592000001; it must be from 0 to 2592000000;");
    POLICY(backoff.step_count, LIMIT_BACKOFF_STEPS + 1,
           "invalid: the number of back-off steps is 33; it must be from 0 to 32;");
    POLICY(backoff.step_ms[1], LIMIT_BACKOFF_MS + 1,
           "invalid: a step of backoff_ms is 2592000001; it must be from 0 to 2592000000;");
    POLICY(lease_end, LEASE_END_FAIL + 1, "invalid: lease_end is 3; it must be from 0 to 2;");
    POLICY(unique_mode, UNIQUE_QUEUE_DEFAULT, "invalid: unique_mode is 0; it must be from 1 to 3;");
    POLICY(unique_mode, UNIQUE_REPLACE + 1, "invalid: unique_mode is 4; it must be from 1 to 3;");
    POLICY(unique_scope, UNIQUE_NONE + 1, "invalid: unique_scope is 3; it must be from 0 to 2;");
    POLICY(durability, DURABILITY_RELAXED + 1, "invalid: durability is 2; it must be from 0 to 1;");
    POLICY(capacity, 0, "invalid: capacity is 0; it must be 1 or more;");
    POLICY(payload_max, LIMIT_PAYLOAD_BYTES + 1,
           "invalid: payload_max is 67108865; it must be from 0 to 67108864;");
    POLICY(keep_done_ms, -1, "invalid: keep_done_ms is -1; it must be 0 or more;");
    POLICY(keep_dead_ms, -1, "invalid: keep_dead_ms is -1; it must be 0 or more;");
    POLICY(enqueue_rate, ((struct rate_limit){3, 1, 1000}),
           "invalid: enqueue_rate.per is 3; it must be from 0 to 2;");
    POLICY(enqueue_rate, ((struct rate_limit){0, LIMIT_RATE_COUNT + 1, 1000}),
           "invalid: enqueue_rate.count is 1000001; it must be from 1 to 1000000;");
    POLICY(enqueue_rate, ((struct rate_limit){0, 1, 0}),
           "invalid: enqueue_rate.window_ms is 0; it must be from 1 to 86400000;");
    POLICY(enqueue_rate, ((struct rate_limit){0, 1, LIMIT_RATE_WINDOW_MS + 1}),
           "invalid: enqueue_rate.window_ms is 86400001; it must be from 1 to 86400000;");
    UNCHANGED(before);
    POLICY(lease_ms, LIMIT_LEASE_MS, "ok");
    POLICY(max_attempts, LIMIT_ATTEMPTS, "ok");
    POLICY(capacity, UINT64_MAX, "ok");
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_OK);
    POLICY(payload_max, 0, "ok");
    TELLS(run(e, enqueue_op("q")), "too_big");
    POLICY(keep_done_ms, INT64_MAX, "ok");
    POLICY(enqueue_rate, ((struct rate_limit){0, LIMIT_RATE_COUNT, LIMIT_RATE_WINDOW_MS}), "ok");
}

static void few_queues(struct backend_config *c)
{
    c->queue_limits = (struct queue_limits){.max = 3, .implied_max = 2};
}

#define UNTIL_WRONG "invalid: until must be a time before the year 10000, or nothing;"

/* Which refusal of a put comes first, and how many queues there may be. */
static void order_of_put(struct env *e)
{
    struct queue_policy bad = test_policy();
    bad.lease_ms = 0;
    struct op op = queue_op(OP_QUEUE_PUT, "q");
    TELLS(run(e, op), "ok created");
    TELLS(run(e, op), "ok");
    op.queue.must_create = true;
    op.queue.policy = &bad;
    op.queue.has_until = op.queue.has_note = true;
    op.queue.until.ms = -1;
    op.queue.note = BAD_UTF8;
    const char *before = world(e);
    TELLS(run(e, op), "exists");
    op.queue.must_create = false;
    op.queue.must_exist = true;
    op.queue.name = SPAN_LITERAL("-");
    TELLS(run(e, op), "no_queue");
    op.queue.must_exist = false;
    /* implied: the second of two */
    TELLS(run(e, op), "invalid: a queue name must not start with '-';");
    UNCHANGED(before);
    put(e, "r");
    before = world(e);
    TELLS(run(e, enqueue_op("s")), "queues_full");
    op.queue.name = SPAN_LITERAL("s");
    op.queue.implied = true;
    TELLS(run(e, op), "queues_full");
    op.queue.implied = false;
    /* the policy */
    TELLS(run(e, op), "invalid: lease_ms is 0; it must be from 100 to 86400000;");
    op.queue.policy = NULL;
    TELLS(run(e, op), UNTIL_WRONG);
    op.queue.until.ms = 0;
    TELLS(run(e, op), "invalid: note is not valid UTF-8 at byte 1;");
    UNCHANGED(before);
    op.queue.has_note = false;
    TELLS(run(e, op), "ok created"); /* the third of three */
    op.queue.name = SPAN_LITERAL("t");
    op.queue.policy = &bad;
    before = world(e);
    /* one that is there is changed, however many there are */
    TELLS(run(e, op), "queues_full");
    UNCHANGED(before);
    op.queue.policy = NULL;
    op.queue.name = SPAN_LITERAL("r");
    TELLS(run(e, op), "ok");
    EXPECT_OUT(run(e, enqueue_op("r")), OUT_OK);
    TELLS(run(e, queue_op(OP_QUEUE_DELETE, "r")), "ok changed=2");
    TELLS(run(e, enqueue_op("t")), "queues_full"); /* two are left */
    TELLS(run(e, queue_op(OP_QUEUE_DELETE, "s")), "ok");
    EXPECT_OUT(run(e, enqueue_op("t")), OUT_OK);
}

/* --- pause, purge, delete, and questions --- */

static void unknown_queues(struct env *e)
{
    put(e, "q");
    struct span names[] = {SPAN_LITERAL("none"),
                           BAD_UTF8,
                           WITH_NUL,
                           {"", 0},
                           SPAN_LITERAL("Q"),
                           text_of(e, LIMIT_QUEUE_NAME_BYTES + 1)};
    const char *before = world(e);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        static const enum op_kind kinds[] = {OP_QUEUE_GET, OP_PAUSE, OP_PURGE, OP_QUEUE_DELETE};
        struct op good;
        for (size_t k = 0; k < 4; k++) {
            good = queue_op(kinds[k], "q");
            good.queue.until.ms = -1;
            WITH(queue.name, names[i], "no_queue"); /* before its values are looked at */
        }
        good = (struct op){.kind = OP_PEEK, .peek = {.state = STATE_COUNT}};
        WITH(peek.queue, names[i], "no_queue");
        good = (struct op){.kind = OP_PAGE};
        WITH(page.queue, names[i], "no_queue");
        good = (struct op){.kind = OP_HISTORY, .history = {.to = UINT32_MAX}};
        WITH(history.queue, names[i], "no_queue");
    }
    UNCHANGED(before);
}

static void queue_values(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    name_job(e, "a", put(e, "q"));
    struct op good = queue_op(OP_PAUSE, "q");
    const char *before = world(e);
    WITH(queue.until.ms, -1, UNTIL_WRONG);
    WITH(queue.until.ms, LIMIT_WALL_MS + 1, UNTIL_WRONG);
    good = queue_op(OP_QUEUE_PUT, "q");
    good.queue.has_until = true;
    WITH(queue.until.ms, -1, UNTIL_WRONG);
    WITH(queue.until.ms, LIMIT_WALL_MS + 1, UNTIL_WRONG);
    good = queue_op(OP_QUEUE_DELETE, "q");
    WITH(queue.only_empty, true, "illegal changed=1");
    good = (struct op){.kind = OP_PEEK, .peek = {.queue = SPAN_LITERAL("q")}};
    WITH(peek.state, STATE_NONE,
         "invalid: state must be scheduled, ready, running, done, dead or cancelled;");
    WITH(peek.state, STATE_COUNT,
         "invalid: state must be scheduled, ready, running, done, dead or cancelled;");
    good = (struct op){.kind = OP_PAGE, .page = {.queue = SPAN_LITERAL("q")}};
    TELLS(run(e, good),
          "invalid: queue is not ranked; set ranked in its policy, or list without an offset;");
    UNCHANGED(before);
    EXPECT_OUT(cancel(e, e->named[0].seq), OUT_OK);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, e->named[0].seq)), OUT_OK);
    good = queue_op(OP_QUEUE_DELETE, "q");
    good.queue.only_empty = good.queue.has_owner = true;
    WITH(queue.owner, SPAN_LITERAL("someone"), "illegal");
    WITH(queue.owner, BAD_UTF8, "illegal");
    TELLS(run(e, good), "ok"); /* no owner, as requested */
    TELLS(run(e, good), "no_queue");
}

/* --- questions --- */

/* Texts that no job has find none; limits are as large as an answer may be. */
static void questions(struct env *e)
{
    struct queue_policy p = test_policy();
    p.ranked = true;
    queue_make(e, "q", &p);
    struct op op = enqueue_op("q");
    op.enqueue.extra.group = SPAN_LITERAL("g");
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    op.enqueue.extra.correlation = SPAN_LITERAL("c");
    put_op(e, op);
    struct span bad[] = {BAD_UTF8, WITH_NUL, text_of(e, LIMIT_KEY_BYTES + 1)};
    for (size_t i = 0; i < 3; i++) {
        struct op good = {.kind = OP_LIST, .list = {.limit = 10}};
        WITH(list.queue, bad[i], "no_queue");
        WITH(list.filter.group, bad[i], "ok");
        WITH(list.filter.unique, bad[i], "ok");
        WITH(list.filter.correlation, bad[i], "ok");
        good = queue_op(OP_QUEUE_GET, "q");
        good.queue.group = bad[i];
        EXPECT_INT(run(e, good)->queues[0].counts.by_state[STATE_READY], 0);
        good = (struct op){.kind = OP_PAGE, .page = {.queue = SPAN_LITERAL("q"), .limit = 5}};
        WITH(page.unique, bad[i], "ok");
        good = (struct op){.kind = OP_QUEUE_LIST};
        good.queue.after = bad[i]; /* no name of a queue, so it is nowhere in their order */
        EXPECT_OUT(run(e, good), OUT_OK);
        good = (struct op){.kind = OP_EXCEPTIONS};
        WITH(exceptions.queue, bad[i], "no_queue");
    }
    struct op good = {.kind = OP_LIST, .list = {.queue = SPAN_LITERAL("q")}};
    WITH(list.limit, 0, "ok jobs=1");
    WITH(list.limit, LIMIT_BATCH + 1, "ok jobs=1");
    good = (struct op){.kind = OP_PAGE, .page = {.queue = SPAN_LITERAL("q")}};
    WITH(page.limit, 0, "ok total=1 jobs=1");
    WITH(page.limit, LIMIT_BATCH + 1, "ok total=1 jobs=1");
    WITH(page.offset, UINT64_MAX, "ok total=1");
    good = (struct op){.kind = OP_PEEK, .peek = {.queue = SPAN_LITERAL("q"), .state = STATE_READY}};
    WITH(peek.limit, 0, "ok jobs=1");
    WITH(peek.limit, UINT32_MAX, "ok jobs=1");
    good = (struct op){.kind = OP_EXCEPTIONS};
    WITH(exceptions.limit, UINT32_MAX, "ok");
    good = (struct op){.kind = OP_HISTORY, .history = {.queue = SPAN_LITERAL("q")}};
    WITH(history.from, UINT32_MAX, "ok");
}

/* Without dispatch, the operations of dispatch are refused. */
static void dispatching(struct env *e)
{
    static const enum op_kind kinds[] = {OP_PENDING, OP_DISPATCHED};
    static const char what[] = "it answers for dispatch although it dispatches nothing";
    put(e, "q");
    for (int i = 0; i < 2 && !e->profile->dispatched; i++) {
        const struct reply *r = run(e, (struct op){.kind = kinds[i]});
        if (!known_difference(e, "postgres", kinds[i] == OP_PENDING && r->outcome == OUT_OK, what))
            TELLS(r, "invalid: this store does not dispatch jobs;");
        if (kinds[i] == OP_PENDING)
            EXPECT_INT(r->job_count, 0);
    }
}

static const struct conform_case cases[] = {
    CASE("HF-27 queues: damaged and long names and texts", names_and_texts, EXACT),
    CASE("HF-27 queues: every member of a policy out of bounds", policies, EXACT),
    CASE("HF-27 queues: which refusal of a put comes first", order_of_put, EXACT, few_queues,
         NEEDS_ONE_STORE),
    CASE("HF-27 queues: names that no queue has", unknown_queues, EXACT),
    CASE("HF-27 queues: values out of bounds", queue_values, EXACT),
    CASE("HF-27 questions about dispatch", dispatching, EXACT),
    CASE("HF-27 questions with texts that nothing has", questions, EXACT),
};
TOPIC(topic_refuse_queue, cases);
