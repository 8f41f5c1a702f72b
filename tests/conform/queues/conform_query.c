/* SPDX-License-Identifier: Apache-2.0 */
/* Queries: get, peek, counts. */
#include "conform/conform.h"

#include "core/jobs/id.h"

static enum outcome get_by_text(struct env *e, const char *text)
{
    struct job_ref ref;
    EXPECT_INT(id_parse(span_text(text), &ref), 0);
    return run(e, (struct op){.kind = OP_GET, .job = {.job = ref}})->outcome;
}

static void three_spellings(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct job_id id = id_make(get(e, seq)->job.id_hi, seq);
    char ulid[ID_ULID_BYTES], uuid[ID_UUID_BYTES], number[24];
    id_ulid(id, ulid);
    id_uuid(id, uuid);
    snprintf(number, sizeof number, "%llu", (unsigned long long)seq);
    EXPECT_INT(get_by_text(e, ulid), OUT_OK);
    EXPECT_INT(get_by_text(e, uuid), OUT_OK);
    EXPECT_INT(get_by_text(e, number), OUT_OK);
    id.hi += UINT64_C(1) << 16; /* another millisecond: another job's id */
    id_ulid(id, ulid);
    id_uuid(id, uuid);
    EXPECT_INT(get_by_text(e, ulid), OUT_NOT_FOUND);
    EXPECT_INT(get_by_text(e, uuid), OUT_NOT_FOUND);
}

static void wrong_high_half(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct job_ref wrong = {seq, get(e, seq)->job.id_hi ^ 1};
    EXPECT_OUT(run(e, (struct op){.kind = OP_GET, .job = {.job = wrong}}), OUT_NOT_FOUND);
    EXPECT_OUT(run(e, (struct op){.kind = OP_CANCEL, .job = {.job = wrong}}), OUT_NOT_FOUND);
    EXPECT_OUT(run(e, (struct op){.kind = OP_REMOVE, .job = {.job = wrong}}), OUT_NOT_FOUND);
    struct op patch = {.kind = OP_PATCH, .patch = {.job = wrong, .has_priority = true}};
    EXPECT_OUT(run(e, patch), OUT_NOT_FOUND);
    EXPECT_STATE(seq, STATE_READY);
}

static void get_with_and_without_body(struct env *e)
{
    uint64_t seq = put(e, "q");
    const struct reply *r = run(e, job_op(OP_GET, seq));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->job_count, 1);
    EXPECT_INT(r->seq, seq);
    EXPECT(!r->jobs[0].has_body);
    const struct job_view *v = get(e, seq);
    EXPECT(v->has_body);
    EXPECT_TEXT(v->payload, "{\"n\":1}");
    EXPECT_INT(v->token.counter, 0); /* no lease, no token */
}

static void peek_each_state(struct env *e)
{
    static const enum job_state states[] = {STATE_DONE,    STATE_DEAD,      STATE_CANCELLED,
                                            STATE_RUNNING, STATE_SCHEDULED, STATE_READY};
    uint64_t first[6], second[6];
    for (int i = 0; i < 6; i++) {
        first[i] = job_in(e, "q", states[i], NULL);
        advance(e, 10);
        second[i] = states[i] == STATE_READY ? put(e, "q") : job_in(e, "q", states[i], NULL);
    }
    for (int i = 0; i < 6; i++) {
        const struct reply *r = peek(e, "q", states[i], 10);
        EXPECT_INT(r->job_count, 2);
        EXPECT_INT(r->jobs[0].job.seq, first[i]); /* oldest, soonest or next */
        EXPECT_INT(r->jobs[1].job.seq, second[i]);
        EXPECT_INT(r->jobs[0].job.state, states[i]);
        EXPECT_TEXT(r->jobs[0].payload, "{\"n\":1}");
        r = peek(e, "q", states[i], 1);
        EXPECT_INT(r->job_count, 1);
    }
    EXPECT_COUNTS("q", 2, 2, 2, 2, 2, 2, 0);
}

static void peek_takes_nothing(struct env *e)
{
    uint64_t seq = put(e, "q");
    for (int i = 0; i < 3; i++)
        EXPECT_INT(peek(e, "q", STATE_READY, 5)->jobs[0].job.seq, seq);
    EXPECT_INT(take(e, "q").seq, seq);
    EXPECT_INT(peek(e, "q", STATE_READY, 5)->job_count, 0);
    struct op op = {.kind = OP_PEEK, .peek = {.queue = SPAN_LITERAL("q"), .state = STATE_NONE}};
    EXPECT_OUT(run(e, op), OUT_INVALID);
}

/* A job whose order changed again and again is shown once. */
static void peek_after_changes(struct env *e)
{
    uint64_t a = put(e, "q"), b = put(e, "q");
    for (int64_t i = 0; i < 8; i++) {
        struct op op = {.kind = OP_PATCH,
                        .patch = {.job = {.seq = a}, .has_priority = true, .priority = i % 3}};
        EXPECT_OUT(run(e, op), OUT_OK);
    }
    const struct reply *r = peek(e, "q", STATE_READY, 10);
    EXPECT_INT(r->job_count, 2);
    EXPECT_INT(r->jobs[0].job.seq, a);
    EXPECT_INT(r->jobs[1].job.seq, b);
    EXPECT_OUT(cancel(e, a), OUT_OK);
    EXPECT_INT(peek(e, "q", STATE_READY, 10)->job_count, 1);
}

static void counts_follow_each_move(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    put(e, "q");
    uint64_t later = put_delayed(e, "q", 60000);
    EXPECT_COUNTS("q", .scheduled = 1, .ready = 1);
    struct held h = take(e, "q");
    EXPECT_COUNTS("q", .scheduled = 1, .running = 1);
    EXPECT_OUT(fail(e, h), OUT_OK);
    EXPECT_COUNTS("q", .scheduled = 2);
    advance(e, 1000);
    EXPECT_COUNTS("q", .scheduled = 1, .ready = 1);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    EXPECT_COUNTS("q", .scheduled = 1, .done = 1);
    EXPECT_OUT(cancel(e, later), OUT_OK);
    EXPECT_COUNTS("q", .done = 1, .cancelled = 1);
    EXPECT_OUT(requeue(e, later), OUT_OK);
    EXPECT_COUNTS("q", .ready = 1, .done = 1);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, later)), OUT_OK);
    EXPECT_COUNTS("q", .done = 1);
}

static void oldest_ready(struct env *e)
{
    put_delayed(e, "q", 1000);
    EXPECT_INT(queue_get(e, "q")->counts.oldest_ready_ms, -1);
    advance(e, 1000); /* ready only from here on */
    EXPECT_INT(queue_get(e, "q")->counts.oldest_ready_ms, 0);
    advance(e, 700);
    put_priority(e, "q", 5);
    EXPECT_INT(queue_get(e, "q")->counts.oldest_ready_ms, 700);
    take(e, "q"); /* the newer, urgent one */
    advance(e, 300);
    EXPECT_INT(queue_get(e, "q")->counts.oldest_ready_ms, 1000);
    take(e, "q");
    EXPECT_INT(queue_get(e, "q")->counts.oldest_ready_ms, -1);
}

static void next_due(struct env *e)
{
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_PUT, "q")), OUT_OK);
    EXPECT_INT(queue_get(e, "q")->counts.next_due.ms, 0);
    put_delayed(e, "q", 9000);
    uint64_t soon = put_delayed(e, "q", 4000);
    EXPECT_INT(queue_get(e, "q")->counts.next_due.ms, START_WALL_MS + 4000);
    EXPECT_OUT(cancel(e, soon), OUT_OK);
    EXPECT_INT(queue_get(e, "q")->counts.next_due.ms, START_WALL_MS + 9000);
    advance(e, 9000);
    EXPECT_INT(queue_get(e, "q")->counts.next_due.ms, 0);
}

static void expect_group(struct env *e, const char *group, enum job_state state, uint64_t count)
{
    struct op op = queue_op(OP_QUEUE_GET, "q");
    op.queue.group = span_text(group);
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->queues[0].counts.by_state[state], count);
}

static void counts_of_a_group(struct env *e)
{
    put_grouped(e, "q", "lib-1");
    put_grouped(e, "q", "lib-1");
    put_grouped(e, "q", "lib-2");
    put(e, "q");
    expect_group(e, "lib-1", STATE_READY, 2);
    expect_group(e, "lib-2", STATE_READY, 1);
    expect_group(e, "unused", STATE_READY, 0);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    expect_group(e, "lib-1", STATE_READY, 1);
    expect_group(e, "lib-1", STATE_DONE, 1);
    put_grouped(e, "other", "lib-1");
    expect_group(e, "lib-1", STATE_READY, 1);
    EXPECT_COUNTS("q", .ready = 3, .done = 1);
}

static void figures(struct env *e)
{
    struct backend_figures before, after;
    backend_figures(e->b, &before);
    put(e, "q");
    put(e, "q");
    backend_figures(e->b, &after);
    EXPECT_INT(after.jobs, before.jobs + 2);
    EXPECT(after.position > before.position);
    EXPECT(after.durable <= after.position);
    EXPECT(strstr(backend_kind(e->b), e->profile->postgres  ? "postgres"
                                      : e->profile->redis   ? "redis"
                                      : e->profile->on_disk ? "sqlite"
                                                            : "memory"));
    if (e->profile->on_disk || e->profile->postgres || e->profile->redis)
        EXPECT(backend_caps(e->b) & CAP_DURABLE_REPLY);
}

/* HF-1: when a success is answered, the store has said that it is durable. */
static void success_is_durable(struct env *e)
{
    for (int i = 0; i < 10; i++) {
        struct backend_figures before, f;
        backend_figures(e->b, &before);
        put(e, "q");
        backend_figures(e->b, &f);
        if (e->profile->dispatched) /* marks of dispatched jobs may be under way */
            EXPECT(f.durable > before.durable);
        else
            EXPECT_INT(f.durable, f.position);
    }
}

struct witness {
    struct env *e;
    uint64_t position; /* that must be durable */
    unsigned replies, early;
};

static void witness_cb(void *ctx, const struct reply *reply)
{
    struct witness *w = ctx;
    struct backend_figures f;
    (void)reply;
    backend_figures(w->e->b, &f);
    w->replies++;
    w->early += f.durable < w->position;
    uv_stop(&w->e->loop);
}

/* HF-1: a refusal and a read tell of the first enqueue, so they wait for it, too. */
static void tidings_are_durable(struct env *e)
{
    put(e, "q");
    struct op *ops = arena_array(&e->arena, 6, sizeof *ops);
    struct witness *w = arena_array(&e->arena, 1, sizeof *w);
    EXPECT(ops && w);
    ops[0] = ops[1] = ops[2] = enqueue_op("q");
    ops[0].enqueue.extra.unique = ops[1].enqueue.extra.unique = SPAN_LITERAL("k");
    ops[2].enqueue.extra.unique = SPAN_LITERAL("k");
    ops[2].enqueue.unique_mode = UNIQUE_RETURN;
    ops[3] = queue_op(OP_QUEUE_GET, "q");
    ops[4] = claim_op(e, "q", 2); /* the second of these is not durable yet */
    ops[5] = (struct op){.kind = OP_LIST, .list = {.limit = 10}};
    *w = (struct witness){.e = e};
    EXPECT_INT(backend_submit(e->b, ops, 6, witness_cb, w), 0);
    struct backend_figures f;
    backend_figures(e->b, &f);
    w->position = f.position - 2; /* but for the claim's own two records */
    while (w->replies < 6)
        EXPECT(uv_run(&e->loop, UV_RUN_ONCE) || w->replies == 6);
    EXPECT_INT(w->early, 0);
    EXPECT_COUNTS("q", .running = 2);
}

static const struct conform_case cases[] = {
    CASE("a job is found by ULID, UUID and number", three_spellings),
    CASE("a wrong high half is not found", wrong_high_half, .flags = EXACT),
    CASE("NOM-6 get with and without body", get_with_and_without_body),
    CASE("peek in every state", peek_each_state),
    CASE("peek takes nothing", peek_takes_nothing),
    CASE("peek shows a job once", peek_after_changes),
    CASE("NOM-12 counts follow each move", counts_follow_each_move),
    CASE("NOM-12 age of the oldest ready job", oldest_ready, .flags = EXACT),
    CASE("NOM-12 next due time", next_due),
    CASE("NOM-8 NOM-14 counts of a group", counts_of_a_group),
    CASE("figures, kind and capabilities", figures),
    CASE("HF-1 a success is on stable storage", success_is_durable),
    CASE("HF-1 no answer before what it tells of is durable", tidings_are_durable, .flags = EXACT),
};
TOPIC(topic_query, cases);
