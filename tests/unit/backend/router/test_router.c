/* SPDX-License-Identifier: Apache-2.0 */
/* The router: which backend an op reaches, the form of ids, how one reply is combined, and what
 * happens when one of the backends does not answer. The conformance suite also runs with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/reply_copy.h"
#include "backend/router/router.h"
#include "base/mem.h"
#include "core/alerts/alert.h"
#include "unit/backend/switched.h"

#define MAIL 1u
#define LOGS 9u

/* "mail*" is kept by number 1, "logs*" by number 9. */
static struct world {
    uv_loop_t loop;
    struct clock_manual clock;
    struct backend_config config;
    struct switched *parts[3]; /* default, mail, logs */
    struct backend *b;
    struct reply *last; /* copy of the last reply */
    bool closed;
} w;

static struct backend *open_part(unsigned i)
{
    struct backend *inner;
    struct err_note note;
    assert_int_equal(backend_open("memory:", &w.config, &inner, &note), 0);
    w.parts[i] = switched_new(inner, &w.loop);
    return switched_backend(w.parts[i]);
}

static void begin(void)
{
    w = (struct world){.clock.at = {{5000000}, {INT64_C(1767225600000)}}};
    assert_int_equal(uv_loop_init(&w.loop), 0);
    w.config = (struct backend_config){
        .loop = &w.loop, .clock = clock_manual(&w.clock), .seed = 1, .node = 3};
    struct router_child children[] = {
        {open_part(2), LOGS}, {open_part(0), 0}, {open_part(1), MAIL}};
    struct router_route routes[] = {{"mail.own", 0}, {"mail*", MAIL}, {"logs*", LOGS}};
    assert_int_equal(backend_open_router(children, 3, routes, 3, &w.config, &w.b), 0);
}

static void closed_cb(void *ctx)
{
    *(bool *)ctx = true;
}

static void end(void)
{
    backend_close(w.b, closed_cb, &w.closed);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_true(w.closed);
    mem_free(w.last);
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

static void reply_cb(void *ctx, const struct reply *reply)
{
    (void)ctx;
    mem_free(w.last);
    w.last = reply_copy(reply);
    assert_non_null(w.last);
}

static const struct reply *run(struct op op)
{
    mem_free(w.last);
    w.last = NULL;
    op.tag = 77;
    assert_int_equal(backend_submit(w.b, &op, 1, reply_cb, NULL), 0);
    assert_null(w.last); /* never called back inside submit */
    while (!w.last)
        uv_run(&w.loop, UV_RUN_ONCE);
    assert_int_equal(w.last->tag, 77);
    assert_int_equal(w.last->kind, op.kind);
    return w.last;
}

static void count_cb(void *ctx, const struct reply *reply)
{
    (void)reply;
    ++*(unsigned *)ctx;
}

/* Directly to one of the backends, without the router. */
static void run_behind(unsigned part, struct op op)
{
    unsigned answers = 0;
    assert_int_equal(backend_submit(switched_backend(w.parts[part]), &op, 1, count_cb, &answers),
                     0);
    while (answers == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
}

static struct op enqueue_op(const char *queue)
{
    return (struct op){.kind = OP_ENQUEUE,
                       .enqueue = {.queue = span_text(queue),
                                   .payload_kind = PAYLOAD_JSON,
                                   .payload = SPAN_LITERAL("{}")}};
}

static uint64_t put(const char *queue)
{
    const struct reply *r = run(enqueue_op(queue));
    assert_int_equal(r->outcome, OUT_OK);
    return r->seq;
}

static const struct span three[] = {{"q", 1}, {"mail", 4}, {"logs", 4}};

static struct op claim_op(uint32_t count)
{
    return (struct op){
        .kind = OP_CLAIM,
        .claim = {
            .queues = three, .queue_count = 3, .count = count, .want_body = true, .nonce = 7}};
}

static uint64_t seq_of(unsigned number, uint64_t seq)
{
    return (uint64_t)number << 47 | seq;
}

static void test_ids_say_where(void **state)
{
    (void)state;
    begin();
    assert_int_equal(put("q"), seq_of(0, 1)); /* as without a router */
    assert_int_equal(put("mail.x"), seq_of(MAIL, 1));
    assert_int_equal(put("mail.own"), seq_of(0, 2)); /* the first route that matches */
    assert_int_equal(put("logs"), seq_of(LOGS, 1));
    const struct reply *r =
        run((struct op){.kind = OP_GET, .job = {.job = {.seq = seq_of(MAIL, 1)}}});
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->jobs[0].job.seq, seq_of(MAIL, 1));
    assert_true(span_equal(r->jobs[0].queue, SPAN_LITERAL("mail.x")));
    uint64_t hi = r->jobs[0].job.id_hi;
    assert_int_equal(id_node(hi), 3);
    /* The backend of the job checks the rest of an id. */
    r = run((struct op){.kind = OP_GET, .job = {.job = {seq_of(MAIL, 1), hi}}});
    assert_int_equal(r->outcome, OUT_OK);
    r = run((struct op){.kind = OP_GET, .job = {.job = {seq_of(MAIL, 1), hi + (1 << 16)}}});
    assert_int_equal(r->outcome, OUT_NOT_FOUND);
    /* A number without a backend. */
    r = run((struct op){.kind = OP_GET, .job = {.job = {.seq = seq_of(8, 1)}}});
    assert_int_equal(r->outcome, OUT_NOT_FOUND);
    r = run((struct op){.kind = OP_CANCEL, .job = {.job = {.seq = seq_of(LOGS, 1)}}});
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->seq, seq_of(LOGS, 1));
    assert_int_equal(switched_passed(w.parts[2], OP_CANCEL), 1);
    assert_int_equal(switched_passed(w.parts[0], OP_CANCEL), 0);
    end();
}

static void test_claim_over_several(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 3; i++) {
        put("q");
        put("mail");
        put("logs");
    }
    unsigned from[64] = {0};
    for (int i = 0; i < 3; i++) {
        const struct reply *r = run(claim_op(1));
        assert_int_equal(r->job_count, 1);
        from[r->jobs[0].job.seq >> 47]++;
    }
    /* One job of each backend in turn. */
    assert_int_equal(from[0], 1);
    assert_int_equal(from[MAIL], 1);
    assert_int_equal(from[LOGS], 1);
    const struct reply *r = run(claim_op(100)); /* and the rest fills up */
    assert_int_equal(r->job_count, 6);
    struct op ack = {
        .kind = OP_ACK,
        .lease = {.job = {r->jobs[5].job.seq, r->jobs[5].job.id_hi}, .token = r->jobs[5].token}};
    assert_true(span_equal(r->jobs[5].payload, SPAN_LITERAL("{}")));
    assert_int_equal(run(ack)->outcome, OUT_OK);
    r = run((struct op){.kind = OP_RELEASE_CLAIM, .release_claim = {7}});
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->changed, 8);
    end();
}

static void test_claim_with_one_down(void **state)
{
    (void)state;
    begin();
    put("mail");
    switched_set(w.parts[0], SWITCH_OFF);
    switched_set(w.parts[2], SWITCH_OFF);
    const struct reply *r = run(claim_op(5));
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->job_count, 1);
    assert_int_equal(run(claim_op(5))->outcome, OUT_OK); /* empty, but not refused */
    switched_set(w.parts[1], SWITCH_OFF);
    r = run(claim_op(5));
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(r->note);
    /* A claim with an unknown part is unknown, and is released on all backends. */
    switched_set(w.parts[0], SWITCH_ON);
    switched_set(w.parts[2], SWITCH_ON);
    switched_set(w.parts[1], SWITCH_ON);
    put("q");
    put("mail");
    put("logs");
    switched_set(w.parts[1], SWITCH_LOST);
    assert_int_equal(run(claim_op(5))->outcome, OUT_UNKNOWN);
    assert_int_equal(run((struct op){.kind = OP_RELEASE_CLAIM, .release_claim = {7}})->outcome,
                     OUT_UNKNOWN);
    switched_set(w.parts[1], SWITCH_ON);
    assert_int_equal(run((struct op){.kind = OP_RELEASE_CLAIM, .release_claim = {7}})->outcome,
                     OUT_OK);
    assert_int_equal(run(claim_op(5))->job_count, 4);
    end();
}

static void test_others_work_while_one_is_down(void **state)
{
    (void)state;
    begin();
    switched_set(w.parts[1], SWITCH_OFF);
    assert_int_equal(run(enqueue_op("mail"))->outcome, OUT_UNAVAILABLE);
    assert_int_equal(run(enqueue_op("q"))->outcome, OUT_OK);
    /* A list that cannot be complete is refused. */
    assert_int_equal(run((struct op){.kind = OP_QUEUE_LIST})->outcome, OUT_UNAVAILABLE);
    assert_int_equal(run((struct op){.kind = OP_LIST, .list = {.limit = 10}})->outcome,
                     OUT_UNAVAILABLE);
    assert_int_equal(
        run((struct op){.kind = OP_LIST, .list = {.queue = SPAN_LITERAL("q"), .limit = 10}})
            ->outcome,
        OUT_OK);
    end();
}

static const struct breaker_rules rules = {
    .failure_threshold = 2, .open_cooldown_seconds = 10, .half_open_probe_count = 1};

static const struct reply *take_notices(uint32_t limit, bool reset)
{
    return run((struct op){.kind = OP_NOTICE_TAKE,
                           .notice_take = {.limit = limit,
                                           .hold_ms = 1000,
                                           .give_up_ms = 1000000,
                                           .reset = reset,
                                           .breaker = rules}});
}

static void die(const char *queue)
{
    struct span from = span_text(queue);
    put(queue);
    const struct reply *r = run(
        (struct op){.kind = OP_CLAIM, .claim = {.queues = &from, .queue_count = 1, .count = 1}});
    assert_int_equal(r->job_count, 1);
    struct op fail = {.kind = OP_FAIL,
                      .lease = {.job = {r->jobs[0].job.seq, r->jobs[0].job.id_hi},
                                .token = r->jobs[0].token,
                                .no_retry = true}};
    assert_int_equal(run(fail)->outcome, OUT_OK);
}

/* A notice of the queue's store that could not be delivered: its target has a breaker there. */
static void fail_notice(const char *queue)
{
    die(queue);
    const struct reply *r = take_notices(10, false);
    assert_int_equal(r->notice_count, 1);
    struct op end = {.kind = OP_NOTICE_END,
                     .notice_end = {.number = r->notices[0].notice.number,
                                    .tries = r->notices[0].tried.tries,
                                    .reached = true,
                                    .give_up = true,
                                    .breaker = rules}};
    assert_int_equal(run(end)->outcome, OUT_OK);
}

static void rule_for(const char *name, const char *queue, const char *url)
{
    struct alert_rule rule;
    alert_rule_default(ALERT_DEAD, &rule);
    rule.queue = span_text(queue);
    rule.url = span_text(url);
    assert_int_equal(
        run((struct op){.kind = OP_ALERT_PUT, .alert = {.name = span_text(name), .rule = &rule}})
            ->outcome,
        OUT_OK);
}

static uint64_t bit(unsigned number)
{
    return UINT64_C(1) << number;
}

/* Names are the first letters of what is expected, in order. */
static void expect_queues(const char *names, uint64_t left_out)
{
    const struct reply *r =
        run((struct op){.kind = OP_QUEUE_LIST, .queue = {.limit = 10, .partial = true}});
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->left_out, left_out);
    assert_int_equal(r->queue_count, strlen(names));
    for (uint32_t i = 0; i < r->queue_count; i++)
        assert_int_equal(r->queues[i].name.at[0], names[i]);
}

static void expect_breakers(uint32_t count, const char *first, uint64_t left_out)
{
    const struct reply *r = run((struct op){.kind = OP_BREAKER_LIST, .breakers.partial = true});
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->left_out, left_out);
    assert_int_equal(r->breaker_count, count);
    assert_true(span_equal(r->breakers[0].target, span_text(first)));
}

/* HF-12: a client that accepts a partial list gets it, with the names of the missing stores. */
static void test_partial_lists(void **state)
{
    (void)state;
    begin();
    rule_for("a", "q", "http://a.example/");
    rule_for("b", "mail*", "http://b.example/");
    fail_notice("q");
    fail_notice("mail");
    put("logs");
    expect_queues("lmq", 0);
    expect_breakers(2, "http://a.example:80", 0);
    switched_set(w.parts[1], SWITCH_OFF); /* known to be unavailable: it gets no request */
    size_t met = switched_met(w.parts[1], OP_QUEUE_LIST);
    expect_queues("lq", bit(MAIL));
    assert_int_equal(switched_met(w.parts[1], OP_QUEUE_LIST), met);
    expect_breakers(1, "http://a.example:80", bit(MAIL));
    assert_true(backend_answers(w.b));
    switched_set(w.parts[1], SWITCH_SILENT); /* would never answer */
    expect_queues("lq", bit(MAIL));
    switched_set(w.parts[1], SWITCH_ON);
    switched_set(w.parts[0], SWITCH_DENYING); /* found out by a request; the first and the last */
    expect_queues("lm", bit(0));
    expect_breakers(1, "http://b.example:80", bit(0));
    switched_set(w.parts[2], SWITCH_DENYING);
    expect_queues("m", bit(0) | bit(LOGS));
    /* Other requests still get a complete list or none. */
    assert_int_equal(run((struct op){.kind = OP_QUEUE_LIST})->outcome, OUT_UNAVAILABLE);
    assert_int_equal(run((struct op){.kind = OP_BREAKER_LIST})->outcome, OUT_UNAVAILABLE);
    switched_set(w.parts[0], SWITCH_ON);
    switched_set(w.parts[2], SWITCH_ON);
    expect_queues("lmq", 0);
    end();
}

/* Without any store there is no partial list: the request is refused, whether it allows one or not.
 */
static void test_partial_lists_without_stores(void **state)
{
    static const enum switched_mode modes[] = {SWITCH_OFF, SWITCH_DENYING};
    static const struct op lists[] = {{.kind = OP_QUEUE_LIST, .queue.partial = true},
                                      {.kind = OP_BREAKER_LIST, .breakers.partial = true}};
    (void)state;
    begin();
    put("mail");
    for (size_t m = 0; m < 2; m++) {
        for (unsigned i = 0; i < 3; i++)
            switched_set(w.parts[i], modes[m]);
        assert_int_equal(backend_answers(w.b), modes[m] == SWITCH_DENYING);
        for (size_t i = 0; i < 2; i++) {
            const struct reply *r = run(lists[i]);
            assert_int_equal(r->outcome, OUT_UNAVAILABLE);
            assert_string_equal(r->note, "switched off");
        }
    }
    end();
}

/* Takes everything again, and expects one notice of each of these queues (by their first letter).
 */
static void expect_notices(const char *names, uint64_t left_out)
{
    const struct reply *r = take_notices(10, true);
    size_t found = 0;
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->left_out, left_out);
    assert_int_equal(r->notice_count, strlen(names));
    for (uint32_t i = 0; i < r->notice_count; i++)
        found += strchr(names, r->notices[i].notice.queue.at[0]) != NULL;
    assert_int_equal(found, strlen(names));
    assert_int_equal(r->next_due.ms != 0, *names != '\0');
}

/* HF-12, PDQ-5: a store that is unavailable, refuses or belongs to another node keeps its notices,
 * and no others wait for it. */
static void test_notices_of_those_that_answer(void **state)
{
    (void)state;
    begin();
    rule_for("a", "*", "http://a.example/");
    die("q");
    die("mail");
    die("logs");
    expect_notices("qml", 0);
    for (int i = 0; i < 3; i++) { /* another one is asked first each time */
        switched_set(w.parts[i], SWITCH_OFF);
        size_t met = switched_met(w.parts[i], OP_NOTICE_TAKE);
        expect_notices(i == 0 ? "ml" : i == 1 ? "ql" : "qm", bit(i == 2 ? LOGS : (unsigned)i));
        assert_int_equal(switched_met(w.parts[i], OP_NOTICE_TAKE), met);
        switched_set(w.parts[i], SWITCH_DENYING); /* found out by asking */
        expect_notices(i == 0 ? "ml" : i == 1 ? "ql" : "qm", bit(i == 2 ? LOGS : (unsigned)i));
        switched_set(w.parts[i], SWITCH_ON);
    }
    switched_lead(w.parts[0], false);
    assert_false(backend_leads(w.b));
    assert_true(backend_leads_any(w.b));
    expect_notices("ml", 0);
    switched_lead(w.parts[1], false);
    switched_lead(w.parts[2], false);
    assert_false(backend_leads_any(w.b));
    for (unsigned i = 0; i < 3; i++)
        switched_lead(w.parts[i], true);
    /* Notices that one store may have returned are released on all of them. */
    switched_set(w.parts[1], SWITCH_LOST);
    assert_int_equal(take_notices(10, true)->outcome, OUT_UNKNOWN);
    switched_set(w.parts[1], SWITCH_ON);
    expect_notices("qml", 0);
    end();
}

/* Without any store: a refusal that names all of them. */
static void test_notices_without_stores(void **state)
{
    static const enum switched_mode modes[] = {SWITCH_OFF, SWITCH_DENYING};
    (void)state;
    begin();
    for (size_t m = 0; m < 2; m++) {
        for (unsigned i = 0; i < 3; i++)
            switched_set(w.parts[i], modes[m]);
        const struct reply *r = take_notices(10, false);
        assert_int_equal(r->outcome, OUT_UNAVAILABLE);
        assert_string_equal(r->note, "switched off");
        assert_int_equal(r->left_out, bit(0) | bit(MAIL) | bit(LOGS));
    }
    end();
}

static void expect_raised(const char *first, uint32_t count, uint64_t left_out)
{
    const struct reply *r = run((struct op){.kind = OP_ALERT_LIST, .alert.partial = true});
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->left_out, left_out);
    assert_int_equal(r->alert_count, 1);
    assert_int_equal(r->alerts[0].raised_count, count);
    assert_true(span_equal(r->alerts[0].raised[0].queue, span_text(first)));
}

/* HF-12, NOM-11: the rules of the default store, with what is raised in those that answer. */
static void test_alerts_of_those_that_answer(void **state)
{
    static const char *const queues[] = {"q", "mail"};
    struct alert_rule rule;
    (void)state;
    begin();
    alert_rule_default(ALERT_DEEP, &rule);
    rule.queue = SPAN_LITERAL("*");
    rule.depth = 1;
    struct op op = {.kind = OP_ALERT_PUT, .alert = {.name = SPAN_LITERAL("deep"), .rule = &rule}};
    assert_int_equal(run(op)->outcome, OUT_OK);
    for (size_t i = 0; i < 2; i++) {
        struct op edge = {.kind = OP_ALERT_EDGE,
                          .alert_edge = {.alert = SPAN_LITERAL("deep"),
                                         .queue = span_text(queues[i]),
                                         .raised = true}};
        put(queues[i]);
        assert_int_equal(run(edge)->outcome, OUT_OK);
        w.clock.at.wall.ms++;
    }
    expect_raised("q", 2, 0);
    static const enum switched_mode modes[] = {SWITCH_OFF, SWITCH_SILENT, SWITCH_DENYING};
    for (size_t m = 0; m < 3; m++) {
        switched_set(w.parts[1], modes[m]);
        expect_raised("q", 1, bit(MAIL));
        if (modes[m] != SWITCH_SILENT) /* operators get all or nothing */
            assert_int_equal(run((struct op){.kind = OP_ALERT_LIST})->outcome, OUT_UNAVAILABLE);
        switched_set(w.parts[1], SWITCH_ON);
        switched_set(w.parts[0], modes[m]);
        const struct reply *r = run((struct op){.kind = OP_ALERT_LIST, .alert.partial = true});
        assert_int_equal(r->outcome, OUT_UNAVAILABLE);
        assert_non_null(strstr(r->note, "default backend"));
        switched_set(w.parts[0], SWITCH_ON);
    }
    expect_raised("q", 2, 0);
    end();
}

/* A queue that had another route must not be confused with the present one. */
static void test_stand_ins(void **state)
{
    struct op list = {.kind = OP_QUEUE_LIST, .queue = {.limit = 10, .partial = true}};
    (void)state;
    begin();
    put("mail");
    put("mail");
    put("q");
    run_behind(0, enqueue_op("mail"));
    const struct reply *r = run(list);
    assert_int_equal(r->queue_count, 2);
    assert_int_equal(r->queues[0].counts.by_state[STATE_READY], 2);
    assert_false(r->queues[0].stand_in || r->queues[1].stand_in);
    switched_set(w.parts[1], SWITCH_OFF);
    r = run(list);
    assert_int_equal(r->queue_count, 2);
    assert_int_equal(r->queues[0].counts.by_state[STATE_READY], 1);
    assert_true(r->queues[0].stand_in);
    assert_false(r->queues[1].stand_in);
    end();
}

static void expect_pages(bool newest_first, uint32_t limit, const uint64_t *seqs, size_t count)
{
    uint64_t after = 0;
    size_t seen = 0;
    do {
        struct op op = {.kind = OP_LIST,
                        .list = {.after = after, .limit = limit, .newest_first = newest_first}};
        const struct reply *r = run(op);
        assert_int_equal(r->outcome, OUT_OK);
        assert_true(r->job_count <= limit);
        for (uint32_t i = 0; i < r->job_count; i++, seen++)
            assert_int_equal(r->jobs[i].job.seq, seqs[newest_first ? count - 1 - seen : seen]);
        after = r->cursor;
    } while (after);
    assert_int_equal(seen, count);
}

static void test_lists_go_through_all(void **state)
{
    (void)state;
    begin();
    uint64_t seqs[7];
    for (size_t i = 0; i < 3; i++)
        seqs[i] = put("q");
    for (size_t i = 3; i < 5; i++)
        seqs[i] = put("mail");
    for (size_t i = 5; i < 7; i++)
        seqs[i] = put("logs");
    for (uint32_t limit = 1; limit < 9; limit++) {
        expect_pages(false, limit, seqs, 7);
        expect_pages(true, limit, seqs, 7);
    }
    struct op op = {.kind = OP_LIST,
                    .list = {.filter = {.seq_min = seqs[4], .seq_max = seqs[5]}, .limit = 10}};
    const struct reply *r = run(op);
    assert_int_equal(r->job_count, 2);
    assert_int_equal(r->jobs[0].job.seq, seqs[4]);
    assert_int_equal(r->jobs[1].job.seq, seqs[5]);
    op.list.filter = (struct job_filter){.seq_min = seq_of(30, 1)};
    r = run(op);
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->job_count, 0);
    end();
}

/* A list is as new as the positions of all stores together, also one of keys, which a single store
 * keeps. */
static void test_positions_of_all(void **state)
{
    struct backend_figures figures;
    (void)state;
    begin();
    put("q");
    put("mail");
    put("logs");
    backend_figures(w.b, &figures);
    assert_true(figures.position >= 3);
    assert_int_equal(run((struct op){.kind = OP_LIST})->as_of, figures.position);
    assert_int_equal(run((struct op){.kind = OP_KV_LIST})->kv_as_of, figures.position);
    end();
}

static void test_queues_by_name(void **state)
{
    static const char *const names[] = {"a", "logs.1", "m", "mail.1", "z"};
    (void)state;
    begin();
    for (size_t i = 5; i > 0; i--)
        put(names[i - 1]);
    /* A queue that was routed elsewhere later is still shown, once. */
    run_behind(0, enqueue_op("logs.old"));
    run_behind(0, enqueue_op("logs.1"));
    const struct reply *r = run((struct op){.kind = OP_QUEUE_LIST, .queue = {.limit = 4}});
    assert_int_equal(r->queue_count, 4);
    assert_true(span_equal(r->queues[0].name, SPAN_LITERAL("a")));
    assert_true(span_equal(r->queues[1].name, SPAN_LITERAL("logs.1")));
    assert_int_equal(r->queues[1].number >> 26, LOGS);
    assert_true(span_equal(r->queues[2].name, SPAN_LITERAL("logs.old")));
    assert_true(span_equal(r->queues[3].name, SPAN_LITERAL("m")));
    uint32_t number = r->queues[1].number;
    r = run((struct op){.kind = OP_QUEUE_LIST, .queue = {.after = SPAN_LITERAL("m"), .limit = 4}});
    assert_int_equal(r->queue_count, 2);
    r = run((struct op){.kind = OP_QUEUE_GET, .queue = {.number = number}});
    assert_int_equal(r->outcome, OUT_OK);
    assert_true(span_equal(r->queues[0].name, SPAN_LITERAL("logs.1")));
    end();
}

static void expect_refused(struct op op, const char *part)
{
    const struct reply *r = run(op);
    assert_int_equal(r->outcome, OUT_INVALID);
    assert_non_null(strstr(r->note, part));
}

static void test_what_needs_one_commit(void **state)
{
    (void)state;
    begin();
    struct op_enqueue jobs[] = {enqueue_op("q").enqueue, enqueue_op("mail").enqueue};
    expect_refused(
        (struct op){.kind = OP_KV_COMMIT, .kv_commit = {.enqueues = jobs, .enqueue_count = 2}},
        "different backends");
    assert_int_equal(switched_passed(w.parts[0], OP_KV_COMMIT), 0);
    struct schedule_spec spec = {.queue = SPAN_LITERAL("mail")};
    expect_refused((struct op){.kind = OP_SCHEDULE_PUT,
                               .schedule = {.name = SPAN_LITERAL("s"), .spec = &spec}},
                   "different backends");
    struct op op = enqueue_op("mail");
    op.enqueue.extra.undelivered = SPAN_LITERAL("x");
    expect_refused(op, "default backend");
    end();
}

static struct op ack_claimed(const struct op_kv_commit *handoff)
{
    const struct reply *r = run(claim_op(1));
    assert_int_equal(r->job_count, 1);
    return (struct op){.kind = OP_ACK,
                       .lease = {.job = {r->jobs[0].job.seq, r->jobs[0].job.id_hi},
                                 .token = r->jobs[0].token,
                                 .handoff = handoff}};
}

/* Everything in a hand-off must be in the store of the job that is acked. */
static void test_hand_off(void **state)
{
    (void)state;
    begin();
    struct op_enqueue jobs[] = {enqueue_op("mail").enqueue, enqueue_op("q").enqueue};
    struct kv_set set = {.key = SPAN_LITERAL("x")};
    struct op_kv_commit handoff = {.enqueues = jobs, .enqueue_count = 2};
    put("mail");
    struct op op = ack_claimed(&handoff);
    expect_refused(op, "different backends");
    handoff = (struct op_kv_commit){.enqueues = jobs, .enqueue_count = 1};
    handoff.sets = &set;
    handoff.set_count = 1;
    expect_refused(op, "different backends");
    handoff.set_count = 0;
    const struct reply *r = run(op);
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->handoff->enqueued_count, 1);
    struct op get = {.kind = OP_GET,
                     .job = {.job = {r->handoff->enqueued[0].seq, r->handoff->enqueued[0].id_hi}}};
    r = run(get);
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->jobs[0].job.seq, get.job.job.seq);
    assert_true(span_equal(r->jobs[0].queue, SPAN_LITERAL("mail")));
    end();
}

static void test_workers_once_each(void **state)
{
    (void)state;
    begin();
    put("q");
    put("mail");
    put("logs");
    struct op op = claim_op(1);
    for (int i = 0; i < 3; i++) {
        op.claim.worker = i == 2 ? SPAN_LITERAL("bert") : SPAN_LITERAL("anna");
        op.claim.nonce = 0;
        assert_int_equal(run(op)->job_count, 1);
    }
    const struct reply *r = run((struct op){.kind = OP_WORKERS});
    assert_int_equal(r->worker_count, 2);
    assert_int_equal(r->worker_total, 2);
    assert_int_equal(r->workers[0].running + r->workers[1].running, 3);
    end();
}

static void test_events_of_all(void **state)
{
    struct backend_event v[8];
    uint64_t oldest, start;
    (void)state;
    begin();
    start = backend_events_last(w.b);
    put("q");
    put("mail");
    assert_int_equal(backend_settle(w.b, closed_cb, &w.closed), 0);
    while (!w.closed)
        uv_run(&w.loop, UV_RUN_ONCE);
    w.closed = false;
    assert_int_equal(backend_events(w.b, start, 0, v, 8, &oldest), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(v[i].id, start + 1 + i);
    assert_int_equal(backend_events(w.b, start, UINT64_C(1) << EVENT_ENQUEUED, v, 8, &oldest), 2);
    assert_int_equal(v[0].seq, 1);
    assert_int_equal(v[1].seq, seq_of(MAIL, 1));
    assert_false(backend_events_missed(w.b, start));
    end();
}

static void expect_store(unsigned index, unsigned number, bool up, const char *trouble)
{
    struct backend_store s;
    assert_true(backend_store(w.b, index, &s));
    assert_int_equal(s.number, number);
    assert_string_equal(s.kind, "switched");
    assert_int_equal(s.cluster.up, up);
    assert_string_equal(s.cluster.trouble, trouble);
    assert_int_equal(s.cluster.node_count, 1);
    assert_true(s.cluster.nodes[0].self);
    assert_true(s.caps & CAP_STRICT_ORDER); /* each store has it */
}

static void test_each_store_tells(void **state)
{
    (void)state;
    struct backend_store s;
    struct backend_cluster c;
    begin();
    expect_store(0, 0, true, "");
    expect_store(1, MAIL, true, "");
    expect_store(2, LOGS, true, "");
    assert_false(backend_store(w.b, 3, &s));
    switched_set(w.parts[1], SWITCH_OFF);
    expect_store(0, 0, true, "");
    expect_store(1, MAIL, false, "the switch is off");
    expect_store(2, LOGS, true, "");
    /* The figures of the router are those of the default store. */
    backend_cluster(w.b, &c);
    assert_true(c.up);
    switched_set(w.parts[0], SWITCH_OFF);
    switched_set(w.parts[1], SWITCH_ON);
    backend_cluster(w.b, &c);
    assert_false(c.up);
    expect_store(0, 0, false, "the switch is off");
    expect_store(1, MAIL, true, "");
    /* A backend that is not a router is its only store. */
    assert_true(backend_store(switched_backend(w.parts[2]), 0, &s));
    assert_int_equal(s.number, 0);
    assert_false(backend_store(switched_backend(w.parts[2]), 1, &s));
    switched_set(w.parts[0], SWITCH_ON);
    end();
}

/* Whichever allocation fails, an op is answered exactly once, or its submit refused. */
static void test_without_memory(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 5; i++) {
        put("q");
        put("mail");
    }
    for (long nth = 1; nth < 40; nth++) {
        struct op op = nth % 2 ? claim_op(10)
                               : (struct op){.kind = OP_QUEUE_LIST, .queue.partial = nth % 4 == 0};
        unsigned answers = 0;
        mem_fail_at(nth, 0);
        int err = backend_submit(w.b, &op, 1, count_cb, &answers);
        for (int turns = 0; !err && answers == 0 && turns < 1000; turns++)
            uv_run(&w.loop, UV_RUN_NOWAIT);
        mem_fail_at(0, 0);
        assert_int_equal(err ? 0 : 1, answers);
        assert_true(err == 0 || err == -ERR_NOMEM);
        run((struct op){.kind = OP_RELEASE_CLAIM, .release_claim = {7}});
    }
    assert_int_equal(run(claim_op(100))->job_count, 10);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_say_where),
        cmocka_unit_test(test_claim_over_several),
        cmocka_unit_test(test_claim_with_one_down),
        cmocka_unit_test(test_others_work_while_one_is_down),
        cmocka_unit_test(test_partial_lists),
        cmocka_unit_test(test_partial_lists_without_stores),
        cmocka_unit_test(test_notices_of_those_that_answer),
        cmocka_unit_test(test_notices_without_stores),
        cmocka_unit_test(test_alerts_of_those_that_answer),
        cmocka_unit_test(test_stand_ins),
        cmocka_unit_test(test_lists_go_through_all),
        cmocka_unit_test(test_positions_of_all),
        cmocka_unit_test(test_queues_by_name),
        cmocka_unit_test(test_what_needs_one_commit),
        cmocka_unit_test(test_hand_off),
        cmocka_unit_test(test_workers_once_each),
        cmocka_unit_test(test_events_of_all),
        cmocka_unit_test(test_each_store_tells),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
