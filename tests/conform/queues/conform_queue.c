/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: definition, pause, capacity, delete. */
#include "conform/conform.h"

static const struct wall_time until_resumed = {LIMIT_WALL_MS};
static const struct wall_time resume = {0};

static void put_and_get(struct env *e)
{
    struct queue_policy p = test_policy();
    p.lease_end = LEASE_END_FAIL;
    p.require_token = true;
    p.warn_depth = 12;
    p.keep_dead = UINT64_MAX;
    p.keep_done_ms = INT64_MAX;
    struct op op = queue_op(OP_QUEUE_PUT, "Büro/1");
    op.queue.policy = &p;
    op.queue.has_owner = op.queue.has_note = op.queue.has_attributes = true;
    op.queue.owner = SPAN_LITERAL("orchestrator");
    op.queue.note = SPAN_LITERAL("what it is for");
    op.queue.attributes = SPAN_LITERAL("{\"id\":3}");
    EXPECT_OUT(run(e, op), OUT_OK);
    const struct queue_view *v = queue_get(e, "Büro/1");
    EXPECT(v != NULL);
    EXPECT_TEXT(v->name, "Büro/1");
    EXPECT_TEXT(v->owner, "orchestrator");
    EXPECT_TEXT(v->note, "what it is for");
    EXPECT_TEXT(v->attributes, "{\"id\":3}");
    EXPECT(v->number > 0);
    EXPECT_INT(v->created_at.ms, START_WALL_MS);
    EXPECT_INT(v->paused_until.ms, 0);
    EXPECT_INT(v->policy->lease_end, LEASE_END_FAIL);
    EXPECT_INT(v->policy->warn_depth, 12);
    EXPECT_INT(v->policy->keep_done_ms, INT64_MAX);
    EXPECT(v->policy->keep_dead == UINT64_MAX && v->policy->require_token);
    EXPECT_INT(v->policy->backoff.step_ms[1], 2000);
}

static void change_keeps_the_rest(struct env *e)
{
    struct queue_policy p = test_policy();
    struct op op = queue_op(OP_QUEUE_PUT, "q");
    op.queue.policy = &p;
    op.queue.has_note = true;
    op.queue.note = SPAN_LITERAL("first");
    EXPECT_OUT(run(e, op), OUT_OK);
    uint32_t number = queue_get(e, "q")->number;
    uint64_t seq = put(e, "q");
    advance(e, 100);
    op = queue_op(OP_QUEUE_PUT, "q"); /* no policy: unchanged */
    op.queue.has_owner = true;
    op.queue.owner = SPAN_LITERAL("me");
    EXPECT_OUT(run(e, op), OUT_OK);
    const struct queue_view *v = queue_get(e, "q");
    EXPECT_INT(v->number, number);
    EXPECT_TEXT(v->note, "first");
    EXPECT_TEXT(v->owner, "me");
    EXPECT_INT(v->policy->lease_ms, 10000);
    EXPECT_INT(v->created_at.ms, START_WALL_MS);
    EXPECT(v->updated_at.ms >= START_WALL_MS + 100);
    p.lease_ms = 777;
    queue_make(e, "q", &p); /* holds for the next claim of jobs already there */
    EXPECT_TEXT(queue_get(e, "q")->note, "first");
    EXPECT_INT(claim(e, "q", 1)->jobs[0].lease_ms, 777);
    EXPECT_STATE(seq, STATE_RUNNING);
}

static void must_create_must_exist(struct env *e)
{
    struct op op = queue_op(OP_QUEUE_PUT, "q");
    op.queue.must_exist = true;
    EXPECT_OUT(run(e, op), OUT_NO_QUEUE);
    EXPECT(queue_get(e, "q") == NULL);
    op.queue.must_exist = false;
    op.queue.must_create = true;
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->created);
    EXPECT_OUT(run(e, op), OUT_EXISTS);
    op.queue.must_create = false;
    op.queue.must_exist = true;
    r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(!r->created);
}

static void invalid_puts(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    p.lease_ms = 0;
    struct op op = queue_op(OP_QUEUE_PUT, "q");
    op.queue.policy = &p;
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_INVALID);
    EXPECT(r->note && strstr(r->note, "lease_ms"));
    EXPECT_INT(queue_get(e, "q")->policy->lease_ms, 10000);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "")), OUT_INVALID);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "a\tb")), OUT_INVALID);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "\xff")), OUT_INVALID);
}

static void unknown_queue(struct env *e)
{
    static const enum op_kind kinds[] = {OP_QUEUE_GET, OP_QUEUE_DELETE, OP_PAUSE, OP_PURGE};
    for (int i = 0; i < 4; i++)
        EXPECT_OUT(run(e, queue_op(kinds[i], "nope")), OUT_NO_QUEUE);
    struct op op = {.kind = OP_PEEK, .peek = {.queue = SPAN_LITERAL("nope"), .state = STATE_READY}};
    EXPECT_OUT(run(e, op), OUT_NO_QUEUE);
    op = (struct op){
        .kind = OP_BULK,
        .bulk = {.action = BULK_CANCEL, .queue = SPAN_LITERAL("nope"), .states = STATES_LIVE}};
    EXPECT_OUT(run(e, op), OUT_NO_QUEUE);
    EXPECT(queue_get(e, "nope") == NULL);
}

static void list_by_name(struct env *e)
{
    static const char *const names[] = {"m", "a", "z", "b", "mm", "Z"};
    static const char *const sorted[] = {"Z", "a", "b", "m", "mm", "z"};
    for (int i = 0; i < 6; i++)
        put(e, names[i]);
    put(e, "mm");
    struct op op = {.kind = OP_QUEUE_LIST, .queue = {.limit = 4}};
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->queue_count, 4);
    for (int i = 0; i < 4; i++)
        EXPECT_TEXT(r->queues[i].name, sorted[i]);
    op.queue.after = r->queues[3].name;
    r = run(e, op);
    EXPECT_INT(r->queue_count, 2);
    EXPECT_TEXT(r->queues[0].name, "mm");
    EXPECT_INT(r->queues[0].counts.by_state[STATE_READY], 2);
    EXPECT_TEXT(r->queues[1].name, "z");
    op.queue.after = SPAN_LITERAL("zz");
    EXPECT_INT(run(e, op)->queue_count, 0);
    op.queue.after = SPAN_LITERAL("c"); /* need not exist */
    EXPECT_TEXT(run(e, op)->queues[0].name, "m");
}

static void pause_and_resume(struct env *e)
{
    uint64_t before = put(e, "q"), due = put_delayed(e, "q", 1000);
    struct held h = take(e, "q");
    uint64_t waiting = put(e, "q");
    pause_queue(e, "q", until_resumed);
    EXPECT_INT(queue_get(e, "q")->paused_until.ms, LIMIT_WALL_MS);
    EXPECT_INT(claim(e, "q", 5)->job_count, 0);
    put(e, "q"); /* taken in all the same */
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_STATE(before, STATE_DONE);
    advance(e, 1000);
    EXPECT_STATE(due, STATE_READY);
    EXPECT_COUNTS("q", .ready = 3, .done = 1);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "q")), OUT_OK); /* a change is no resume */
    EXPECT_INT(claim(e, "q", 5)->job_count, 0);
    put(e, "other");
    EXPECT_INT(claim(e, "other", 5)->job_count, 1);
    pause_queue(e, "q", resume);
    EXPECT_INT(queue_get(e, "q")->paused_until.ms, 0);
    EXPECT_INT(take(e, "q").seq, due);
    EXPECT_INT(take(e, "q").seq, waiting);
}

static void pause_until(struct env *e)
{
    put(e, "q");
    pause_queue(e, "q", now_plus(e, 5000));
    struct watcher *w = watch(e, "q");
    advance(e, 4999);
    EXPECT_INT(claim(e, "q", 1)->job_count, 0);
    w->signals = 0;
    advance(e, 1);
    EXPECT(signalled(e, w));
    EXPECT_INT(claim(e, "q", 1)->job_count, 1);
}

static void refuse_new(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    p.refuse_new = true;
    queue_make(e, "q", &p);
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_REFUSED_NEW);
    EXPECT_COUNTS("q", .ready = 1);
    struct held h = take(e, "q"); /* what is there goes on */
    EXPECT_INT(h.seq, seq);
    EXPECT_OUT(fail(e, h), OUT_OK);
    advance(e, 1000);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    p.refuse_new = false;
    queue_make(e, "q", &p);
    put(e, "q");
    EXPECT_COUNTS("q", .ready = 1, .done = 1);
}

static void queue_capacity(struct env *e)
{
    struct queue_policy p = test_policy();
    p.capacity = 3;
    queue_make(e, "q", &p);
    put(e, "q");
    put_delayed(e, "q", 60000);
    put_unique(e, "q", "u");
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_QUEUE_FULL);
    put(e, "other");
    struct held h = take(e, "q");
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_QUEUE_FULL); /* a running job counts */
    struct op op = enqueue_op("q");
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    op.enqueue.unique_mode = UNIQUE_REPLACE;
    EXPECT_OUT(run(e, op), OUT_OK); /* one out, one in */
    EXPECT_OUT(ack(e, h), OUT_OK);
    put(e, "q");
    EXPECT_OUT(run(e, enqueue_op("q")), OUT_QUEUE_FULL);
    EXPECT_COUNTS("q", .scheduled = 1, .ready = 2, .done = 1, .cancelled = 1);
}

static void configure_small_server(struct backend_config *c)
{
    c->capacity = 4;
}

static void server_capacity(struct env *e)
{
    put(e, "a");
    put(e, "a");
    put_delayed(e, "b", 60000);
    put(e, "c");
    EXPECT_OUT(run(e, enqueue_op("a")), OUT_SERVER_FULL);
    EXPECT_OUT(run(e, enqueue_op("new")), OUT_SERVER_FULL);
    EXPECT(queue_get(e, "new") == NULL);
    EXPECT_OUT(ack(e, take(e, "a")), OUT_OK);
    put(e, "b");
    EXPECT_OUT(run(e, enqueue_op("b")), OUT_SERVER_FULL);
    EXPECT_OUT(run(e, queue_op(OP_PURGE, "b")), OUT_OK);
    put(e, "b");
    put(e, "b");
    EXPECT_OUT(run(e, enqueue_op("b")), OUT_SERVER_FULL);
}

static void configure_few_queues(struct backend_config *c)
{
    c->queue_limits = (struct queue_limits){.max = 4, .implied_max = 2};
}

static void queues_have_room(struct env *e)
{
    struct op implied = queue_op(OP_QUEUE_PUT, "c");
    implied.queue.implied = true;
    put(e, "a");
    put(e, "b");
    EXPECT_OUT(run(e, enqueue_op("c")), OUT_QUEUES_FULL);
    EXPECT_OUT(run(e, implied), OUT_QUEUES_FULL);
    EXPECT(queue_get(e, "c") == NULL);
    put(e, "a");
    /* Defining them goes on, up to the limit of the store. */
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "c")), OUT_OK);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "d")), OUT_OK);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "e")), OUT_QUEUES_FULL);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "d")), OUT_OK);
    EXPECT_OUT(run(e, implied), OUT_OK);
    put(e, "c");
    EXPECT_OUT(run(e, enqueue_op("f")), OUT_QUEUES_FULL);
    /* A deleted one makes room. */
    static const char *const gone[] = {"b", "c", "d"};
    for (size_t i = 0; i < 3; i++)
        EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, gone[i])), OUT_OK);
    put(e, "f");
    EXPECT_OUT(run(e, enqueue_op("g")), OUT_QUEUES_FULL);
}

/* Those that a batch creates count for the rest of it. */
static void queues_have_room_in_a_batch(struct env *e)
{
    struct op ops[] = {enqueue_op("a"), enqueue_op("b"), enqueue_op("c"), enqueue_op("a")};
    const struct reply *replies[4];
    run_batch(e, ops, 4, replies);
    EXPECT_OUT(replies[0], OUT_OK);
    EXPECT_OUT(replies[1], OUT_OK);
    EXPECT_OUT(replies[2], OUT_QUEUES_FULL);
    EXPECT_OUT(replies[3], OUT_OK);
    EXPECT_COUNTS("a", .ready = 2);
    EXPECT(queue_get(e, "c") == NULL);
}

static void delete_queue(struct env *e)
{
    uint64_t ready = put_unique(e, "q", "k"), scheduled = put_delayed(e, "q", 1000);
    uint64_t running = put_priority(e, "q", 5);
    struct held h = take(e, "q");
    EXPECT_INT(h.seq, running);
    uint64_t kept = put(e, "other");
    uint32_t number = queue_get(e, "q")->number;
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "q")), OUT_OK);
    EXPECT(queue_get(e, "q") == NULL);
    EXPECT_STATE(ready, STATE_NONE);
    EXPECT_STATE(scheduled, STATE_NONE);
    EXPECT_STATE(running, STATE_NONE);
    const struct reply *r = ack(e, h);
    EXPECT(r->outcome == OUT_NOT_FOUND || r->outcome == OUT_GONE);
    EXPECT_INT(claim(e, "q", 5)->job_count, 0);
    uint64_t again = put_unique(e, "q", "k"); /* name and key are free at once */
    EXPECT(queue_get(e, "q")->number != number);
    EXPECT_COUNTS("q", .ready = 1);
    advance(e, 60000);
    EXPECT_STATE(ready, STATE_NONE);
    EXPECT_INT(take(e, "q").seq, again);
    EXPECT_INT(claim(e, "q", 5)->job_count, 0);
    EXPECT_STATE(kept, STATE_READY);
}

static void delete_in_one_batch(struct env *e)
{
    put(e, "q");
    struct op ops[] = {queue_op(OP_QUEUE_DELETE, "q"), enqueue_op("q"),
                       queue_op(OP_QUEUE_DELETE, "q"), enqueue_op("q"), enqueue_op("q")};
    const struct reply *r[5];
    run_batch(e, ops, 5, r);
    for (int i = 0; i < 5; i++)
        EXPECT_OUT(r[i], OUT_OK);
    EXPECT_STATE(r[1]->seq, STATE_NONE);
    EXPECT_STATE(r[3]->seq, STATE_READY);
    EXPECT_COUNTS("q", .ready = 2);
}

static const struct conform_case cases[] = {
    CASE("ORC-1 a queue's definition comes back", put_and_get),
    CASE("ORC-1 a change keeps what it does not name", change_keeps_the_rest),
    CASE("ORC-1 must_create and must_exist", must_create_must_exist, .flags = EXACT),
    CASE("invalid policies and names are refused", invalid_puts),
    CASE("an unknown queue", unknown_queue, .flags = EXACT),
    CASE("queues are listed by name, page by page", list_by_name),
    CASE("ORC-11 pause hands out nothing; resume goes on", pause_and_resume),
    CASE("HF-9 pause until a time", pause_until),
    CASE("ORC-11 a queue that refuses new jobs", refuse_new),
    CASE("PDQ-5 capacity of a queue", queue_capacity),
    CASE("PDQ-5 capacity of the server", server_capacity, .configure = configure_small_server,
         .needs = NEEDS_ONE_STORE),
    CASE("HF-19 enqueues leave room for queues that are defined", queues_have_room,
         .configure = configure_few_queues, .needs = NEEDS_ONE_STORE),
    CASE("HF-19 queues that a batch creates count", queues_have_room_in_a_batch, .flags = EXACT,
         .configure = configure_few_queues, .needs = NEEDS_ONE_STORE),
    CASE("ORC-8 a deleted queue's jobs are gone, its name is free", delete_queue),
    CASE("delete and make again in one batch", delete_in_one_batch, .flags = EXACT),
};
TOPIC(topic_queue, cases);
