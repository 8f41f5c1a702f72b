/* SPDX-License-Identifier: Apache-2.0 */
/* Lists: filters, pages, both directions. */
#include "conform/conform.h"

/* The sequences a query gives, all pages together. */
static uint32_t pages(struct env *e, struct op_list query, uint64_t *seqs, uint32_t room)
{
    uint32_t n = 0;
    do {
        const struct reply *r = list(e, query);
        EXPECT(r->job_count <= query.limit);
        for (uint32_t i = 0; i < r->job_count; i++) {
            EXPECT(n < room);
            seqs[n++] = r->jobs[i].job.seq;
        }
        EXPECT(r->cursor == 0 || r->cursor != query.after);
        query.after = r->cursor;
    } while (query.after != 0);
    return n;
}

static void expect_list(struct env *e, struct op_list query, const uint64_t *should, uint32_t count)
{
    uint64_t seqs[64];
    query.limit = query.limit ? query.limit : 3;
    uint32_t n = pages(e, query, seqs, 64);
    EXPECT_INT(n, count);
    for (uint32_t i = 0; i < n; i++)
        EXPECT_INT(seqs[i], should[i]);
    query.newest_first = true;
    n = pages(e, query, seqs, 64);
    EXPECT_INT(n, count);
    for (uint32_t i = 0; i < n; i++)
        EXPECT_INT(seqs[i], should[count - 1 - i]);
}

static void pages_both_ways(struct env *e)
{
    uint64_t seqs[10];
    for (int i = 0; i < 10; i++) {
        seqs[i] = put(e, i % 2 ? "odd" : "even");
    }
    expect_list(e, (struct op_list){0}, seqs, 10);
    expect_list(e, (struct op_list){.limit = 1}, seqs, 10);
    expect_list(e, (struct op_list){.limit = 5}, seqs, 10);
    expect_list(e, (struct op_list){.limit = 10}, seqs, 10);
    uint64_t odd[5] = {seqs[1], seqs[3], seqs[5], seqs[7], seqs[9]};
    expect_list(e, (struct op_list){.queue = SPAN_LITERAL("odd"), .limit = 2}, odd, 5);
}

/* A cursor stays valid while jobs are added, removed and changed. */
static void cursor_is_steady(struct env *e)
{
    uint64_t seqs[6];
    for (int i = 0; i < 6; i++)
        seqs[i] = put(e, "q");
    struct op_list query = {.queue = SPAN_LITERAL("q"), .limit = 2};
    const struct reply *r = list(e, query);
    EXPECT_INT(r->jobs[1].job.seq, seqs[1]);
    query.after = r->cursor;
    EXPECT_OUT(run(e, job_op(OP_REMOVE, seqs[1])), OUT_OK);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, seqs[2])), OUT_OK);
    uint64_t last = put(e, "q");
    uint64_t rest[8];
    EXPECT_INT(pages(e, query, rest, 8), 4);
    EXPECT_INT(rest[0], seqs[3]);
    EXPECT_INT(rest[3], last);
}

static void by_state(struct env *e)
{
    uint64_t done = job_in(e, "q", STATE_DONE, NULL), dead = job_in(e, "q", STATE_DEAD, NULL);
    uint64_t cancelled = job_in(e, "q", STATE_CANCELLED, NULL);
    uint64_t running = job_in(e, "q", STATE_RUNNING, NULL);
    uint64_t scheduled = job_in(e, "q", STATE_SCHEDULED, NULL), ready = put(e, "q");
    uint64_t live[] = {running, scheduled, ready}, ended[] = {done, dead, cancelled};
    uint64_t all[] = {done, dead, cancelled, running, scheduled, ready};
    expect_list(e, (struct op_list){.filter = {.states = STATES_LIVE}}, live, 3);
    expect_list(e, (struct op_list){.filter = {.states = STATES_FINISHED | STATE_BIT(STATE_DEAD)}},
                ended, 3);
    expect_list(e, (struct op_list){.filter = {.states = STATES_ALL}}, all, 6);
    for (int i = 0; i < 6; i++) {
        unsigned mask = STATE_BIT(get(e, all[i])->job.state);
        expect_list(e, (struct op_list){.filter = {.states = mask}}, &all[i], 1);
    }
    unsigned reasons = 1u << REASON_REJECTED;
    expect_list(e, (struct op_list){.filter = {.reasons = reasons}}, &dead, 1);
}

static void by_text(struct env *e)
{
    struct op op = enqueue_op("q");
    op.enqueue.extra = (struct job_extra){.group = SPAN_LITERAL("g1"),
                                          .unique = SPAN_LITERAL("u1"),
                                          .correlation = SPAN_LITERAL("c1")};
    uint64_t a = put_op(e, op);
    op.enqueue.extra.unique = SPAN_LITERAL("u2");
    uint64_t b = put_op(e, op);
    uint64_t c = put(e, "q");
    uint64_t both[] = {a, b}, all[] = {a, b, c};
    expect_list(e, (struct op_list){.filter = {.group = SPAN_LITERAL("g1")}}, both, 2);
    expect_list(e, (struct op_list){.filter = {.correlation = SPAN_LITERAL("c1")}}, both, 2);
    expect_list(e, (struct op_list){.filter = {.unique = SPAN_LITERAL("u2")}}, &b, 1);
    expect_list(e, (struct op_list){.filter = {.group = SPAN_LITERAL("g2")}}, NULL, 0);
    struct job_filter two = {.group = SPAN_LITERAL("g1"), .unique = SPAN_LITERAL("u1")};
    expect_list(e, (struct op_list){.filter = two}, &a, 1);
    expect_list(e, (struct op_list){.queue = SPAN_LITERAL("q")}, all, 3);
}

static void by_range(struct env *e)
{
    uint64_t seqs[6];
    for (int i = 0; i < 6; i++) {
        seqs[i] = put_priority(e, "q", i * 10 - 20);
        advance(e, 100);
    }
    struct job_filter f = {.seq_min = seqs[1], .seq_max = seqs[4]};
    expect_list(e, (struct op_list){.filter = f}, &seqs[1], 4);
    f = (struct job_filter){.has_priority = true, .priority_min = -10, .priority_max = 10};
    expect_list(e, (struct op_list){.filter = f}, &seqs[1], 3);
    f = (struct job_filter){.has_priority = true, .priority_min = INT64_MIN, .priority_max = -20};
    expect_list(e, (struct op_list){.filter = f}, seqs, 1);
    f = (struct job_filter){.created_from = {START_WALL_MS + 100},
                            .created_to = {START_WALL_MS + 300}};
    expect_list(e, (struct op_list){.filter = f}, &seqs[1], 2);
    f = (struct job_filter){.created_to = {START_WALL_MS}};
    expect_list(e, (struct op_list){.filter = f}, NULL, 0);
}

static void views_in_a_list(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op op = claim_op(e, "q", 1);
    op.claim.worker = SPAN_LITERAL("w1");
    const struct reply *c = run(e, op);
    const struct reply *r = list(e, (struct op_list){.limit = 5});
    EXPECT_INT(r->job_count, 1);
    EXPECT_INT(r->jobs[0].job.seq, seq);
    EXPECT_TEXT(r->jobs[0].queue, "q");
    EXPECT_TEXT(r->jobs[0].worker, "w1");
    EXPECT(token_equal(r->jobs[0].token, c->jobs[0].token));
    EXPECT(!r->jobs[0].has_body);
    struct op done = lease_op(OP_ACK, held_of(&c->jobs[0]));
    done.lease.result_kind = PAYLOAD_JSON;
    done.lease.result = SPAN_LITERAL("[1]");
    EXPECT_OUT(run(e, done), OUT_OK);
    r = list(e, (struct op_list){.limit = 5, .want_body = true});
    EXPECT(r->jobs[0].has_body);
    EXPECT_TEXT(r->jobs[0].payload, "{\"n\":1}");
    EXPECT_TEXT(r->jobs[0].result, "[1]");
}

/* Every field of the durable record is the same by get and by list. */
static void list_agrees_with_get(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    put_priority(e, "q", -7);
    put_delayed(e, "q", 1234);
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    put_unique(e, "q", "u");
    take(e, "q");
    const struct reply *r = list(e, (struct op_list){.limit = 10});
    EXPECT_INT(r->job_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct job *l = &r->jobs[i].job, *g = &get(e, l->seq)->job;
        EXPECT_INT(l->id_hi, g->id_hi);
        EXPECT_INT(l->priority, g->priority);
        EXPECT_INT(l->run_at.ms, g->run_at.ms);
        EXPECT_INT(l->since.ms, g->since.ms);
        EXPECT_INT(l->queue, g->queue);
        EXPECT_INT(l->failures, g->failures);
        EXPECT_INT(l->state, g->state);
        EXPECT_INT(l->reason, g->reason);
        EXPECT_INT(l->payload_bytes, g->payload_bytes);
        EXPECT_INT(l->flags, g->flags);
    }
}

static void empty_and_unknown(struct env *e)
{
    const struct reply *r = list(e, (struct op_list){.limit = 5});
    EXPECT_INT(r->job_count, 0);
    EXPECT_INT(r->cursor, 0);
    struct op op = {.kind = OP_LIST, .list = {.queue = SPAN_LITERAL("nope"), .limit = 5}};
    EXPECT_OUT(run(e, op), OUT_NO_QUEUE);
}

/* A list contains everything that was confirmed before it. */
static void reads_its_own_writes(struct env *e)
{
    for (int i = 1; i <= 20; i++) {
        put(e, "q");
        EXPECT_INT(list(e, (struct op_list){.limit = 100})->job_count, i);
    }
}

static const struct conform_case cases[] = {
    CASE("NOM-6 ORC-6 pages in both directions", pages_both_ways),
    CASE("ORC-6 a cursor is steady while jobs change", cursor_is_steady),
    CASE("NOM-6 filter by state and reason", by_state),
    CASE("ORC-6 filter by group, unique key, correlation", by_text),
    CASE("filter by sequence, priority, time", by_range),
    CASE("what a list shows", views_in_a_list),
    CASE("a list agrees with get in every field", list_agrees_with_get),
    CASE("an empty list, an unknown queue", empty_and_unknown),
    CASE("a list holds what was confirmed before", reads_its_own_writes),
};
TOPIC(topic_list, cases);
