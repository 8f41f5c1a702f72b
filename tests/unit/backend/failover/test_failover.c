/* SPDX-License-Identifier: Apache-2.0 */
/* PDQ-7: failover from a primary that is switched off and on to a spool, and the way back: what
 * works during an outage, what is refused, and that every job is in the primary once afterwards,
 * under its id. */
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/failover/impl.h"
#include "backend/reply_copy.h"
#include "base/mem.h"
#include "unit/backend/switched.h"

#define NODE 3u
#define MAX_REPLIES 512

/* Whether a server listens at the primary's address; asked on another thread, too. */
static _Atomic bool listening;
/* What the check on the other thread finds, how often it was called, and when last. */
static _Atomic bool unsafe, checked_on_loop;
static _Atomic unsigned checks;
static pthread_t loop_thread;

static struct world {
    uv_loop_t loop;
    struct clock_manual clock;
    struct backend_config config;
    char dir[64];
    bool on_disk;          /* else both stores go with the process */
    const char *unusable;  /* why it cannot be opened; NULL = it can */
    const char *alert_url; /* of the setup */
    unsigned opens;        /* of the primary */
    struct switched *primary;
    struct backend *spool;
    struct backend *b;
    struct reply *kept[MAX_REPLIES]; /* until the end: a test may hold on to several */
    size_t kept_count;
    bool answered, closed;
} w;

static int open_store(const char *name, struct backend **ret)
{
    char url[100];
    struct err_note note;
    snprintf(url, sizeof url, w.on_disk ? "sqlite:%s/%s" : "memory:", w.dir, name);
    return backend_open(url, &w.config, ret, &note);
}

static int open_primary(void *ctx, struct backend **ret, struct err_note *note)
{
    struct backend *inner;
    (void)ctx;
    w.opens++;
    if (w.unusable)
        return err_note_set(note, -ERR_INVALID, "%s", w.unusable);
    assert_int_equal(open_store("primary", &inner), 0);
    w.primary = switched_new(inner, &w.loop);
    *ret = switched_backend(w.primary);
    return 0;
}

static bool reachable(void *ctx)
{
    (void)ctx;
    return listening;
}

static int check(void *ctx, struct err_note *note)
{
    (void)ctx;
    checks++;
    if (pthread_equal(pthread_self(), loop_thread))
        checked_on_loop = true;
    return unsafe ? err_note_set(note, -ERR_UNSAFE, "appendonly is no") : 0;
}

static int try_open(struct err_note *note)
{
    struct failover_setup setup = {.kind = "test",
                                   .open = open_primary,
                                   .reachable = reachable,
                                   .check = check,
                                   .health_ms = 60000,
                                   .alert_url = w.alert_url};
    assert_int_equal(open_store("spool", &w.spool), 0);
    return backend_open_failover(w.spool, &setup, &w.config, &w.b, note);
}

static void open_failover(void)
{
    struct err_note note = {""};
    assert_int_equal(try_open(&note), 0);
}

static void begin_with(bool there)
{
    listening = there;
    unsafe = checked_on_loop = false;
    checks = 0;
    loop_thread = pthread_self();
    w = (struct world){.clock.at = {{5000000}, {INT64_C(1767225600000)}}};
    snprintf(w.dir, sizeof w.dir, "/tmp/failover.XXXXXX");
    assert_non_null(mkdtemp(w.dir));
    assert_int_equal(uv_loop_init(&w.loop), 0);
    w.config = (struct backend_config){.loop = &w.loop,
                                       .clock = clock_manual(&w.clock),
                                       .seed = 1,
                                       .node = NODE,
                                       .journal_segment_bytes = 64 << 10,
                                       .list_wait_ms = 60000};
}

static void begin(void)
{
    begin_with(true);
    open_failover();
}

static void closed_cb(void *ctx)
{
    *(bool *)ctx = true;
}

static void close_failover(void)
{
    w.closed = false;
    backend_close(w.b, closed_cb, &w.closed);
    assert_false(w.closed);
    while (!w.closed)
        uv_run(&w.loop, UV_RUN_ONCE);
}

static int remove_cb(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void end_without(void)
{
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    for (size_t i = 0; i < w.kept_count; i++)
        mem_free(w.kept[i]);
    assert_int_equal(nftw(w.dir, remove_cb, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void end(void)
{
    close_failover();
    end_without();
}

static void reply_cb(void *ctx, const struct reply *reply)
{
    (void)ctx;
    assert_true(w.kept_count < MAX_REPLIES);
    w.kept[w.kept_count] = reply_copy(reply);
    assert_non_null(w.kept[w.kept_count++]);
    w.answered = true;
}

static const struct reply *run_at(struct backend *b, struct op op)
{
    w.answered = false;
    assert_int_equal(backend_submit(b, &op, 1, reply_cb, NULL), 0);
    assert_false(w.answered);
    while (!w.answered)
        uv_run(&w.loop, UV_RUN_ONCE);
    return w.kept[w.kept_count - 1];
}

static const struct reply *run(struct op op)
{
    return run_at(w.b, op);
}

static struct backend_figures figures(void)
{
    struct backend_figures f;
    backend_figures(w.b, &f);
    assert_true(f.has_spool);
    return f;
}

static void until_up(bool up)
{
    while (figures().primary_up != up)
        uv_run(&w.loop, UV_RUN_ONCE);
}

/* The queues and rules of the primary are in the spool, as far as this node changed them. */
static void until_copied(void)
{
    const struct failover *f = (const struct failover *)w.b;
    while (f->mirror.busy || !f->mirror.looked_ms || f->rules.busy || f->rules.copy_due ||
           !f->rules.told)
        uv_run(&w.loop, UV_RUN_ONCE);
}

static void until_flowed(void)
{
    until_up(true);
    while (figures().spool_jobs > 0)
        uv_run(&w.loop, UV_RUN_ONCE);
}

static struct op enqueue_op(void)
{
    return (struct op){.kind = OP_ENQUEUE,
                       .enqueue = {.queue = SPAN_LITERAL("q"),
                                   .payload_kind = PAYLOAD_JSON,
                                   .payload = SPAN_LITERAL("{\"n\":1}")}};
}

static struct job_ref put_op(struct op op)
{
    const struct reply *r = run(op);
    assert_int_equal(r->outcome, OUT_OK);
    return (struct job_ref){r->seq, r->id_hi};
}

static struct job_ref put(void)
{
    return put_op(enqueue_op());
}

static const struct reply *claim(uint32_t count)
{
    static const struct span queue = {"q", 1};
    const struct reply *r = run((struct op){
        .kind = OP_CLAIM,
        .claim = {.queues = &queue, .queue_count = 1, .count = count, .want_body = true}});
    assert_int_equal(r->outcome, OUT_OK);
    return r;
}

static struct op lease_op(enum op_kind kind, const struct job_view *v)
{
    return (struct op){.kind = kind,
                       .lease = {.job = {v->job.seq, v->job.id_hi}, .token = v->token}};
}

static const struct reply *get(struct job_ref id)
{
    return run((struct op){.kind = OP_GET, .job = {.job = id, .want_body = true}});
}

/* As another node on the same primary sees it. */
static const struct reply *get_at_primary(struct job_ref id)
{
    return run_at(switched_backend(w.primary),
                  (struct op){.kind = OP_GET, .job = {.job = id, .want_body = true}});
}

static void outage(void)
{
    switched_set(w.primary, SWITCH_OFF);
    assert_int_equal(run((struct op){.kind = OP_WORKERS})->outcome, OUT_OK); /* the spool's */
    assert_false(figures().primary_up);
}

static void put_queue(struct span name, const struct queue_policy *policy, struct span owner)
{
    assert_int_equal(
        run((struct op){
                .kind = OP_QUEUE_PUT,
                .queue = {.name = name, .policy = policy, .has_owner = true, .owner = owner}})
            ->outcome,
        OUT_OK);
}

static void test_while_it_is_there(void **state)
{
    (void)state;
    begin();
    struct job_ref id = put();
    assert_int_equal(id.seq, 1);
    assert_int_equal(claim(5)->job_count, 1);
    assert_int_equal(get(id)->jobs[0].job.state, STATE_RUNNING);
    assert_true(figures().primary_up);
    assert_int_equal(figures().spool_jobs, 0);
    end();
}

static struct backend_cluster health(void)
{
    struct backend_cluster c;
    backend_cluster(w.b, &c);
    assert_true(c.up); /* the node works */
    assert_int_equal(c.spooling, !figures().primary_up);
    return c;
}

static void test_an_outage_is_told(void **state)
{
    (void)state;
    begin();
    int64_t started = health().since.ms;
    assert_int_equal(started, w.clock.at.wall.ms);
    assert_string_equal(health().trouble, "");
    w.clock.at.wall.ms += 5000;
    outage();
    assert_true(health().spooling);
    assert_int_equal(health().since.ms, started + 5000);
    assert_string_equal(health().trouble, "the switch is off");
    w.clock.at.wall.ms += 5000;
    switched_set(w.primary, SWITCH_ON);
    until_up(true);
    assert_int_equal(health().since.ms, started + 10000);
    assert_string_equal(health().trouble, "switched off"); /* what it answered when it went */
    end();
}

/* HF-12 PDQ-7: the spool's lists say that the shared store's part is missing; a queue counts once.
 */
static void test_lists_of_the_spool_say_so(void **state)
{
    static const struct span q = {"q", 1};
    static const struct op queries[] = {
        {.kind = OP_QUEUE_LIST},
        {.kind = OP_BREAKER_LIST},
        {.kind = OP_QUEUE_GET, .queue = {.name = {"q", 1}}},
        {.kind = OP_LIST, .list = {.limit = 10}},
        {.kind = OP_PEEK, .peek = {.queue = {"q", 1}, .state = STATE_READY, .limit = 10}},
        {.kind = OP_WORKERS},
        {.kind = OP_EXCEPTIONS},
        {.kind = OP_HISTORY, .history = {.queue = {"q", 1}, .to = UINT32_MAX}},
        {.kind = OP_ALERT_LIST},
        {.kind = OP_NOTICE_LIST},
    };
    size_t count = sizeof queries / sizeof queries[0];
    (void)state;
    begin();
    put();
    for (size_t i = 0; i < count; i++)
        assert_int_equal(run(queries[i])->left_out, 0);
    outage();
    put();
    assert_int_equal(figures().queues, 1);
    for (size_t i = 0; i < count; i++) {
        const struct reply *r = run(queries[i]);
        assert_int_equal(r->outcome, OUT_OK);
        assert_int_equal(r->left_out, 1);
    }
    assert_int_equal(
        run((struct op){.kind = OP_QUEUE_LIST})->queues[0].counts.by_state[STATE_READY], 1);
    /* That the spool does not have a queue says nothing about the primary. */
    const struct reply *r =
        run((struct op){.kind = OP_QUEUE_GET, .queue = {.name = SPAN_LITERAL("other")}});
    assert_int_equal(r->outcome, OUT_NO_QUEUE);
    assert_int_equal(r->left_out, 1);
    r = run((struct op){.kind = OP_CLAIM, .claim = {.queues = &q, .queue_count = 1, .count = 1}});
    assert_int_equal(run(lease_op(OP_RELEASE, &r->jobs[0]))->outcome, OUT_OK);
    switched_set(w.primary, SWITCH_ON);
    until_flowed();
    for (size_t i = 0; i < count; i++)
        assert_int_equal(run(queries[i])->left_out, 0);
    assert_int_equal(figures().queues, 1);
    end();
}

static void test_no_enqueue_is_refused_when_it_goes(void **state)
{
    (void)state;
    begin();
    struct job_ref held = put();
    const struct job_view *v = &claim(1)->jobs[0];
    switched_set(w.primary, SWITCH_OFF);
    /* The very first to notice is served, too. */
    const struct reply *r = run(enqueue_op());
    assert_int_equal(r->outcome, OUT_OK);
    assert_true(r->spooled);
    assert_true(id_spooled(r->seq));
    assert_int_equal(id_node(r->id_hi), NODE);
    struct job_ref id = {r->seq, r->id_hi};
    assert_false(figures().primary_up);
    /* What only the primary could promise. */
    struct op op = enqueue_op();
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    r = run(op);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "unique key"));
    op = enqueue_op();
    op.enqueue.idempotency_key = SPAN_LITERAL("k");
    r = run(op);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "idempotency key"));
    op = enqueue_op();
    op.enqueue.instead_of = held;
    r = run(op);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "dead job"));
    r = run(lease_op(OP_ACK, v));
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "holds this job"));
    assert_int_equal(get(held)->outcome, OUT_UNAVAILABLE);
    assert_int_equal(
        run((struct op){.kind = OP_PURGE, .queue = {.name = SPAN_LITERAL("q")}})->outcome,
        OUT_UNAVAILABLE);
    /* What the spool has is served, and ends there. */
    r = claim(5);
    assert_int_equal(r->job_count, 1);
    assert_int_equal(r->jobs[0].job.seq, id.seq);
    assert_int_equal(run(lease_op(OP_EXTEND, &r->jobs[0]))->outcome, OUT_OK);
    assert_int_equal(run(lease_op(OP_ACK, &r->jobs[0]))->outcome, OUT_OK);
    assert_int_equal(get(id)->jobs[0].job.state, STATE_DONE);
    /* Back: the job of before is as it was. */
    switched_set(w.primary, SWITCH_ON);
    until_up(true);
    assert_int_equal(run(lease_op(OP_ACK, v))->outcome, OUT_OK);
    assert_int_equal(get(id)->jobs[0].job.state, STATE_DONE);
    end();
}

static void test_jobs_flow_back_as_they_are(void **state)
{
    (void)state;
    begin();
    outage();
    struct op op = enqueue_op();
    struct job_options options = {.max_attempts = 4};
    op.enqueue.has_priority = true;
    op.enqueue.priority = 7;
    op.enqueue.extra.label = SPAN_LITERAL("high");
    op.enqueue.extra.group = SPAN_LITERAL("g");
    op.enqueue.extra.correlation = SPAN_LITERAL("c-1");
    op.enqueue.options = &options;
    struct job_ref ready = put_op(op);
    op = enqueue_op();
    op.enqueue.delay_ms = 3600000;
    struct job_ref later = put_op(op);
    int64_t run_at_ms = get(later)->jobs[0].job.run_at.ms;
    struct job_ref many[150];
    for (size_t i = 0; i < 150; i++)
        many[i] = put();
    assert_int_equal(figures().spool_jobs, 152);
    switched_set(w.primary, SWITCH_ON);
    until_flowed();
    const struct reply *r = get_at_primary(ready);
    assert_int_equal(r->outcome, OUT_OK);
    const struct job_view *v = &r->jobs[0];
    assert_int_equal(v->job.state, STATE_READY);
    assert_int_equal(v->job.priority, 7);
    assert_int_equal(v->job.failures + v->job.crashes, 0);
    assert_true(span_equal(v->extra.label, SPAN_LITERAL("high")));
    assert_true(span_equal(v->extra.group, SPAN_LITERAL("g")));
    assert_true(span_equal(v->extra.correlation, SPAN_LITERAL("c-1")));
    assert_true(v->extra.options.len > 0);
    assert_true(span_equal(v->payload, SPAN_LITERAL("{\"n\":1}")));
    r = get_at_primary(later);
    assert_int_equal(r->jobs[0].job.state, STATE_SCHEDULED);
    assert_int_equal(r->jobs[0].job.run_at.ms, run_at_ms);
    for (size_t i = 0; i < 150; i++)
        assert_int_equal(get_at_primary(many[i])->outcome, OUT_OK);
    /* Through the server it is the same job, in the order it was put, and can be ended. */
    r = claim(1000);
    assert_int_equal(r->job_count, 151);
    assert_int_equal(r->jobs[0].job.seq, ready.seq);
    for (size_t i = 0; i < 150; i++)
        assert_int_equal(r->jobs[1 + i].job.seq, many[i].seq);
    assert_int_equal(run(lease_op(OP_ACK, &r->jobs[150]))->outcome, OUT_OK);
    assert_int_equal(get_at_primary(many[149])->jobs[0].job.state, STATE_DONE);
    /* New ones of the primary are counted as before. */
    assert_false(id_spooled(put().seq));
    end();
}

static void test_what_runs_ends_where_it_runs(void **state)
{
    (void)state;
    begin();
    outage();
    struct job_ref a = put(), b = put(), c = put();
    const struct reply *r = claim(3);
    assert_int_equal(r->job_count, 3);
    switched_set(w.primary, SWITCH_ON);
    until_up(true);
    assert_int_equal(figures().spool_jobs, 3);
    assert_int_equal(get(a)->jobs[0].job.state, STATE_RUNNING);
    assert_int_equal(run(lease_op(OP_ACK, &r->jobs[0]))->outcome, OUT_OK);
    struct op fail = lease_op(OP_FAIL, &r->jobs[1]);
    fail.lease.error = SPAN_LITERAL("no luck");
    assert_int_equal(run(fail)->outcome, OUT_OK);
    fail = lease_op(OP_FAIL, &r->jobs[2]);
    fail.lease.no_retry = true;
    assert_int_equal(run(fail)->outcome, OUT_OK);
    until_flowed();
    assert_int_equal(get_at_primary(a)->outcome, OUT_NOT_FOUND);
    assert_int_equal(get(a)->jobs[0].job.state, STATE_DONE);
    r = get_at_primary(b);
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->jobs[0].job.failures, 1);
    assert_true(span_equal(r->jobs[0].error, SPAN_LITERAL("no luck")));
    r = get_at_primary(c);
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->jobs[0].job.state, STATE_DEAD);
    end();
}

/* The primary is back, a job is given to it, and it goes away again without a word about it. */
static void lose_the_move(enum switched_mode mode)
{
    switched_set(w.primary, mode);
    while (switched_met(w.primary, OP_ENQUEUE) == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    switched_set(w.primary, SWITCH_OFF);
    until_up(false);
}

/* The answer to step 2 of the way back is lost, whether it was done or not. */
static void doubt(enum switched_mode mode, bool restart)
{
    begin_with(true);
    w.on_disk = restart;
    open_failover();
    put_queue(SPAN_LITERAL("q"), NULL, SPAN_LITERAL(""));
    outage();
    struct job_ref id = put();
    lose_the_move(mode);
    /* It is not known whether the primary has it, so it is not given out here. */
    assert_int_equal(claim(5)->job_count, 0);
    assert_int_equal(run((struct op){.kind = OP_CANCEL, .job = {.job = id}})->outcome,
                     OUT_UNAVAILABLE);
    assert_int_equal(switched_passed(w.primary, OP_ENQUEUE) > 0, mode == SWITCH_LOST);
    if (restart) {
        close_failover();
        listening = false;
        open_failover();
        assert_int_equal(claim(5)->job_count, 0);
        listening = true;
    } else {
        switched_set(w.primary, SWITCH_ON);
    }
    until_flowed();
    const struct reply *r = claim(5);
    assert_int_equal(r->job_count, 1);
    assert_int_equal(r->jobs[0].job.seq, id.seq);
    assert_int_equal(r->jobs[0].job.id_hi, id.hi);
    assert_int_equal(run(lease_op(OP_ACK, &r->jobs[0]))->outcome, OUT_OK);
    assert_int_equal(claim(5)->job_count, 0);
    end();
}

static void test_doubt_done(void **state)
{
    (void)state;
    doubt(SWITCH_LOST, false);
}

static void test_doubt_not_done(void **state)
{
    (void)state;
    doubt(SWITCH_DROPPED, false);
}

static void test_doubt_over_a_restart(void **state)
{
    (void)state;
    doubt(SWITCH_LOST, true);
    doubt(SWITCH_DROPPED, true);
}

/* Moved, done and forgotten before the spool heard of it: the key says that it was there. */
static void test_doubt_about_a_job_that_is_done(void **state)
{
    static const struct span queue = {"q", 1};
    (void)state;
    begin();
    put_queue(SPAN_LITERAL("q"), NULL, SPAN_LITERAL(""));
    outage();
    put();
    lose_the_move(SWITCH_LOST);
    switched_set(w.primary, SWITCH_ON);
    struct op op = {.kind = OP_CLAIM, .claim = {.queues = &queue, .queue_count = 1, .count = 5}};
    const struct reply *r = run_at(switched_backend(w.primary), op);
    assert_int_equal(r->job_count, 1);
    struct job_ref there = {r->jobs[0].job.seq, r->jobs[0].job.id_hi};
    assert_int_equal(run_at(switched_backend(w.primary), lease_op(OP_ACK, &r->jobs[0]))->outcome,
                     OUT_OK);
    run_at(switched_backend(w.primary), (struct op){.kind = OP_REMOVE, .job = {.job = there}});
    until_flowed();
    assert_int_equal(claim(5)->job_count, 0);
    end();
}

/* The rules of a queue hold in an outage, too. */
static void test_queues_are_known_in_the_spool(void **state)
{
    struct queue_policy policy;
    const struct reply *r;
    (void)state;
    policy_default(&policy);
    policy.lease_ms = 4321;
    begin_with(true);
    open_failover();
    struct op op = {.kind = OP_QUEUE_PUT,
                    .queue = {.name = SPAN_LITERAL("q"),
                              .policy = &policy,
                              .has_owner = true,
                              .owner = SPAN_LITERAL("somebody")}};
    assert_int_equal(run(op)->outcome, OUT_OK);
    outage(); /* what the primary has is looked at when it comes, at the latest */
    switched_set(w.primary, SWITCH_ON);
    until_up(true);
    while (switched_passed(w.primary, OP_QUEUE_LIST) == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    for (;;) {
        switched_set(w.primary, SWITCH_OFF);
        r = run((struct op){.kind = OP_QUEUE_GET, .queue = {.name = SPAN_LITERAL("q")}});
        if (r->outcome == OUT_OK)
            break;
        switched_set(w.primary, SWITCH_ON);
        until_up(true);
    }
    assert_int_equal(r->queues[0].policy->lease_ms, 4321);
    assert_true(span_equal(r->queues[0].owner, SPAN_LITERAL("somebody")));
    put();
    assert_int_equal(claim(1)->jobs[0].lease_ms, 4321);
    end();
}

static void test_away_at_the_start(void **state)
{
    (void)state;
    begin_with(false);
    open_failover();
    assert_false(figures().primary_up);
    assert_int_equal(health().since.ms, w.clock.at.wall.ms);
    assert_string_equal(health().trouble, "no server listens at its address");
    struct job_ref id = put();
    assert_true(id_spooled(id.seq));
    assert_int_equal(claim(1)->job_count, 1);
    struct job_ref other = put();
    w.unusable = "wrong password"; /* while the node runs, it goes on, too */
    listening = true;
    while (w.opens == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    w.unusable = NULL;
    until_up(true);
    while (get_at_primary(other)->outcome != OUT_OK)
        uv_run(&w.loop, UV_RUN_ONCE);
    assert_int_equal(get(id)->jobs[0].job.state, STATE_RUNNING);
    end();
}

static void test_unusable_at_the_start(void **state)
{
    struct err_note note = {""};
    (void)state;
    begin_with(true);
    w.unusable = "wrong password";
    assert_int_equal(try_open(&note), -ERR_INVALID);
    assert_string_equal(note.text, "wrong password");
    end_without();
}

static void count_cb(void *ctx)
{
    ++*(unsigned *)ctx;
}

/* Another spool of the same node number had the sequence: neither job is taken for the other. */
static void test_an_id_that_another_job_has(void **state)
{
    struct job_past past = {.state = STATE_READY};
    (void)state;
    begin();
    outage();
    struct job_ref first = put();
    switched_set(w.primary, SWITCH_ON);
    until_flowed();
    struct op op = enqueue_op();
    op.enqueue.past = &past;
    op.enqueue.id = (struct job_ref){first.seq + 1, first.hi - (UINT64_C(99) << 16)};
    assert_int_equal(run_at(switched_backend(w.primary), op)->outcome, OUT_OK);
    outage();
    assert_int_equal(put().seq, first.seq + 1);
    switched_set(w.primary, SWITCH_ON);
    until_flowed();
    const struct reply *r = claim(9);
    assert_int_equal(r->job_count, 3);
    assert_false(id_spooled(r->jobs[0].job.seq)); /* the one that got another id */
    end();
}

static void test_who_waits_is_told(void **state)
{
    struct backend_watch *watch;
    unsigned signals = 0;
    (void)state;
    begin();
    assert_int_equal(backend_watch(w.b, SPAN_LITERAL("q"), count_cb, &signals, &watch), 0);
    outage();
    while (signals == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    signals = 0;
    put();
    while (signals == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    signals = 0;
    switched_set(w.primary, SWITCH_ON);
    until_flowed();
    while (signals == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    backend_unwatch(w.b, watch);
    end();
}

static void test_a_primary_that_says_nothing(void **state)
{
    (void)state;
    begin_with(true);
    struct err_note note;
    struct failover_setup setup = {
        .kind = "test", .open = open_primary, .reachable = reachable, .health_ms = 40};
    assert_int_equal(open_store("spool", &w.spool), 0);
    assert_int_equal(backend_open_failover(w.spool, &setup, &w.config, &w.b, &note), 0);
    switched_set(w.primary, SWITCH_SILENT);
    until_up(false);
    assert_true(id_spooled(put().seq));
    switched_set(w.primary, SWITCH_ON);
    until_flowed();
    assert_int_equal(claim(5)->job_count, 1);
    end();
}

static void test_events_of_both(void **state)
{
    struct backend_event v[16];
    uint64_t oldest, start, count = 0;
    (void)state;
    begin();
    start = backend_events_last(w.b);
    outage();
    struct job_ref id = put();
    size_t n = 0;
    while (n == 0) {
        uv_run(&w.loop, UV_RUN_ONCE);
        n = backend_events(w.b, start, UINT64_C(1) << EVENT_ENQUEUED, v, 16, &oldest);
    }
    for (size_t i = 0; i < n; i++)
        count += v[i].seq == id.seq && v[i].id_hi == id.hi;
    assert_int_equal(count, 1);
    end();
}

/* --- enqueues that bring a queue along, or a key that no job holds --- */

/* PDQ-7: the queue that an API creates with its first job is created in the primary, too, as it is
 * in the spool, and each job goes there once. */
static void test_a_queue_of_an_api_is_created_in_the_primary(void **state)
{
    struct queue_policy policy;
    (void)state;
    policy_default(&policy);
    policy.lease_ms = 7654;
    policy.by_due = policy.ranked = true;
    begin();
    outage();
    struct op create = {.kind = OP_QUEUE_PUT,
                        .queue = {.name = SPAN_LITERAL("q"),
                                  .policy = &policy,
                                  .has_owner = true,
                                  .owner = SPAN_LITERAL("tasks"),
                                  .has_attributes = true,
                                  .attributes = SPAN_LITERAL("{\"a\":1}")}};
    const struct reply *r = run(create);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE); /* an operator defines queues in the primary */
    assert_non_null(strstr(r->note, "queue"));
    create.queue.implied = true;
    assert_int_equal(run(create)->outcome, OUT_OK);
    struct op op = enqueue_op();
    op.enqueue.no_create = op.enqueue.has_priority = true;
    op.enqueue.priority = -10;
    struct job_ref ids[100];
    for (size_t i = 0; i < 100; i++)
        ids[i] = put_op(op);
    switched_set(w.primary, SWITCH_ON);
    until_flowed();
    r = run_at(switched_backend(w.primary),
               (struct op){.kind = OP_QUEUE_GET, .queue = {.name = SPAN_LITERAL("q")}});
    assert_int_equal(r->outcome, OUT_OK);
    assert_true(span_equal(r->queues[0].owner, SPAN_LITERAL("tasks")));
    assert_true(span_equal(r->queues[0].attributes, SPAN_LITERAL("{\"a\":1}")));
    assert_int_equal(r->queues[0].policy->lease_ms, 7654);
    assert_int_equal(r->queues[0].counts.by_state[STATE_READY], 100);
    r = claim(1000);
    assert_int_equal(r->job_count, 100);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(r->jobs[i].job.seq, ids[i].seq);
        assert_int_equal(view_priority(&get_at_primary(ids[i])->jobs[0]), -10);
    }
    end();
}

/* The primary says nothing about the queue that is created there, or about the job. */
static void test_a_queue_is_created_although_replies_are_lost(void **state)
{
    static const enum switched_mode modes[] = {SWITCH_LOST, SWITCH_DROPPED};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        begin();
        outage();
        struct job_ref id = put();
        lose_the_move(modes[i]);
        assert_int_equal(claim(5)->job_count, 0);
        switched_set(w.primary, SWITCH_ON);
        until_flowed();
        const struct reply *r = claim(5);
        assert_int_equal(r->job_count, 1);
        assert_int_equal(r->jobs[0].job.seq, id.seq);
        end();
    }
}

/* PDQ-7: a unique key is accepted only where no job holds one, and stays with the job. */
static void test_a_key_that_no_job_holds(void **state)
{
    struct queue_policy policy;
    (void)state;
    policy_default(&policy);
    policy.unique_scope = UNIQUE_NONE;
    begin();
    put_queue(SPAN_LITERAL("q"), &policy, SPAN_LITERAL("orchestrator"));
    put_queue(SPAN_LITERAL("held"), NULL, SPAN_LITERAL(""));
    until_copied();
    outage();
    struct op op = enqueue_op();
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    struct job_ref id = put_op(op);
    assert_true(id_spooled(id.seq));
    put_op(op);
    op.enqueue.queue = SPAN_LITERAL("held");
    const struct reply *r = run(op);
    assert_int_equal(r->outcome, OUT_UNAVAILABLE);
    assert_non_null(strstr(r->note, "unique key"));
    op.enqueue.queue = SPAN_LITERAL("unknown");
    assert_int_equal(run(op)->outcome, OUT_UNAVAILABLE);
    switched_set(w.primary, SWITCH_ON);
    until_flowed();
    r = get_at_primary(id);
    assert_int_equal(r->outcome, OUT_OK);
    assert_true(span_equal(r->jobs[0].extra.unique, SPAN_LITERAL("u")));
    assert_int_equal(claim(9)->job_count, 2);
    end();
}

/* --- numbers of queues --- */

/* PDQ-7: a queue has the number that the primary gave it, also after a restart in an outage. */
static void test_numbers_of_queues(void **state)
{
    struct span names[] = {SPAN_LITERAL("zeta"), SPAN_LITERAL("alpha"), SPAN_LITERAL("q")};
    uint32_t numbers[3];
    (void)state;
    begin_with(true);
    w.on_disk = true;
    open_failover();
    for (size_t i = 0; i < 3; i++) {
        put_queue(names[i], NULL, SPAN_LITERAL("orchestrator"));
        numbers[i] =
            run((struct op){.kind = OP_QUEUE_GET, .queue = {.name = names[i]}})->queues[0].number;
    }
    until_copied();
    for (int restart = 0; restart < 2; restart++) {
        if (restart) {
            close_failover();
            listening = false;
            open_failover();
            while (((struct failover *)w.b)->mirror.busy)
                uv_run(&w.loop, UV_RUN_ONCE);
        } else {
            outage();
        }
        for (size_t i = 0; i < 3; i++) {
            struct op op = {.kind = OP_QUEUE_GET, .queue = {.number = numbers[i]}};
            const struct reply *r = run(op);
            assert_int_equal(r->outcome, OUT_OK);
            assert_true(span_equal(r->queues[0].name, names[i]));
            assert_int_equal(r->queues[0].number, numbers[i]);
            assert_int_equal(r->queues[0].note.len, 0);
        }
        struct job_ref id = put();
        assert_int_equal(get(id)->jobs[0].job.queue, numbers[2]);
        const struct reply *r = run(
            (struct op){.kind = OP_LIST, .list = {.filter = {.queue = numbers[2]}, .limit = 10}});
        assert_int_equal(r->job_count, 1 + restart);
        r = run((struct op){.kind = OP_QUEUE_GET, .queue = {.number = 77}});
        assert_int_equal(r->outcome, OUT_UNAVAILABLE); /* only the primary knows */
        assert_non_null(strstr(r->note, "number"));
    }
    listening = true;
    until_flowed();
    end();
}

/* --- alert rules on failover --- */

static const struct reply *take_notices(void)
{
    return run((struct op){.kind = OP_NOTICE_TAKE,
                           .notice_take = {.limit = 10, .hold_ms = 60000, .give_up_ms = 3600000}});
}

/* Waits for a notice of the rule, checks it and reports its delivery. */
static void expect_notice(const char *alert, enum notice_edge edge, const char *text)
{
    const struct reply *r = take_notices();
    while (r->notice_count == 0) {
        uv_run(&w.loop, UV_RUN_ONCE);
        r = take_notices();
    }
    assert_int_equal(r->notice_count, 1);
    const struct notice_view *v = &r->notices[0];
    assert_int_equal(v->notice.on, ALERT_FAILOVER);
    assert_int_equal(v->notice.edge, edge);
    assert_true(span_equal(v->notice.alert, span_text(alert)));
    assert_int_equal(v->notice.queue.len, 0);
    assert_non_null(memmem(v->notice.text.at, v->notice.text.len, text, strlen(text)));
    assert_non_null(memmem(v->notice.text.at, v->notice.text.len, "node 3", 6));
    assert_true(id_spooled(v->notice.number));
    struct op ended = {.kind = OP_NOTICE_END,
                       .notice_end = {.number = v->notice.number, .delivered = true}};
    assert_int_equal(run(ended)->outcome, OUT_OK);
    assert_int_equal(take_notices()->notice_count, 0);
}

static const struct alert_view *alert(const char *name)
{
    const struct reply *r =
        run((struct op){.kind = OP_ALERT_LIST, .alert = {.name = span_text(name)}});
    return r->outcome == OUT_OK ? &r->alerts[0] : NULL;
}

static struct op rule_op(const char *name, struct alert_rule *rule, enum alert_on on)
{
    alert_rule_default(on, rule);
    rule->url = SPAN_LITERAL("https://hooks.example/in");
    rule->secret = SPAN_LITERAL("s");
    return (struct op){.kind = OP_ALERT_PUT, .alert = {.name = span_text(name), .rule = rule}};
}

/* PDQ-7: a rule on failover is raised and cleared by each node that works on its spool, whether it
 * leads or not, and its notices are delivered by that node. */
static void test_a_rule_reports_failover(void **state)
{
    struct alert_rule rule, other;
    (void)state;
    begin();
    assert_true(backend_leads_any(w.b));
    assert_int_equal(run(rule_op("f", &rule, ALERT_FAILOVER))->outcome, OUT_OK);
    assert_int_equal(run(rule_op("d", &other, ALERT_DEAD))->outcome, OUT_OK);
    until_copied();
    switched_lead(w.primary, false);
    assert_true(backend_leads_any(w.b));
    assert_int_equal(take_notices()->notice_count, 0);
    outage();
    put();
    expect_notice("f", EDGE_RAISED, "off");
    assert_int_equal(alert("f")->raised_count, 1);
    assert_null(alert("d")); /* OUT_UNAVAILABLE: only the primary knows */
    switched_set(w.primary, SWITCH_ON);
    until_flowed();
    expect_notice("f", EDGE_CLEARED, "available again");
    assert_int_equal(alert("f")->raised_count, 0);
    assert_non_null(alert("d"));
    /* What is changed or deleted in the primary is so in the spool, too. */
    rule.enabled = false;
    assert_int_equal(
        run((struct op){.kind = OP_ALERT_PUT, .alert = {.name = SPAN_LITERAL("f"), .rule = &rule}})
            ->outcome,
        OUT_OK);
    until_copied();
    outage();
    assert_int_equal(alert("f")->raised_count, 0);
    switched_set(w.primary, SWITCH_ON);
    until_up(true);
    assert_int_equal(
        run((struct op){.kind = OP_ALERT_DELETE, .alert = {.name = SPAN_LITERAL("f")}})->outcome,
        OUT_OK);
    until_copied();
    outage();
    assert_null(alert("f"));
    end();
}

/* The rule of the settings also reports an outage that begins before the first start. */
static void test_the_rule_of_the_settings(void **state)
{
    (void)state;
    begin_with(false);
    w.alert_url = "https://hooks.example/in";
    open_failover();
    expect_notice(FAILOVER_ALERT, EDGE_RAISED, "no server listens");
    listening = true;
    until_up(true);
    expect_notice(FAILOVER_ALERT, EDGE_CLEARED, "available again");
    until_copied();
    const struct reply *r =
        run_at(switched_backend(w.primary),
               (struct op){.kind = OP_ALERT_LIST, .alert = {.name = SPAN_LITERAL(FAILOVER_ALERT)}});
    assert_int_equal(r->outcome, OUT_OK);
    assert_int_equal(r->alerts[0].rule.on, ALERT_FAILOVER);
    end();
}

/* A notice that is not delivered stays in the outbox of the spool and can be listed and discarded,
 * during the outage and afterwards. */
static void test_notices_of_both_stores(void **state)
{
    struct alert_rule rule, dead;
    (void)state;
    begin();
    assert_int_equal(run(rule_op("f", &rule, ALERT_FAILOVER))->outcome, OUT_OK);
    assert_int_equal(run(rule_op("d", &dead, ALERT_DEAD))->outcome, OUT_OK);
    until_copied();
    put();
    struct op fail = lease_op(OP_FAIL, &claim(1)->jobs[0]);
    fail.lease.no_retry = true;
    assert_int_equal(run(fail)->outcome, OUT_OK);
    outage();
    struct op list = {.kind = OP_NOTICE_LIST, .notice = {.limit = 10}};
    while (run(list)->notice_count == 0)
        uv_run(&w.loop, UV_RUN_ONCE);
    switched_set(w.primary, SWITCH_ON);
    until_up(true);
    const struct reply *r = run(list);
    assert_int_equal(r->notice_count, 1); /* of the primary, and there is another page */
    assert_false(id_spooled(r->notices[0].notice.number));
    assert_int_not_equal(r->notice_cursor, 0);
    list.notice.after = r->notices[0].notice.number;
    while (run(list)->notice_count < 2) /* raised and cleared */
        uv_run(&w.loop, UV_RUN_ONCE);
    r = run(list);
    assert_true(id_spooled(r->notices[0].notice.number));
    list.notice.after = r->notices[0].notice.number;
    assert_int_equal(run(list)->notice_count, 1);
    struct job_ref id = {r->notices[0].notice.number, r->notices[0].notice.id_hi};
    struct op one = {.kind = OP_NOTICE_LIST, .notice = {.id = id}};
    assert_int_equal(run(one)->notice_count, 1);
    one.kind = OP_NOTICE_AGAIN;
    assert_int_equal(run(one)->outcome, OUT_OK);
    one.kind = OP_NOTICE_DISCARD;
    assert_int_equal(run(one)->outcome, OUT_OK);
    one.kind = OP_NOTICE_LIST;
    assert_int_equal(run(one)->outcome, OUT_NOT_FOUND);
    end();
}

/* --- a primary that may lose jobs --- */

/* PDQ-6 PDQ-7: it is checked on another thread, less and less often, and opened when it can be
 * used. */
static void test_an_unsafe_primary_is_checked_with_backoff(void **state)
{
    uint64_t before = 0, now, gaps[2];
    (void)state;
    begin_with(false);
    unsafe = true;
    open_failover();
    listening = true;
    for (unsigned n = 1; n <= 3; n++) {
        while (checks < n)
            uv_run(&w.loop, UV_RUN_ONCE);
        now = uv_hrtime() / 1000000;
        if (n > 1)
            gaps[n - 2] = now - before;
        before = now;
    }
    assert_true(gaps[0] >= 900);
    assert_true(gaps[1] >= 1900);
    assert_int_equal(w.opens, 0);
    assert_false(checked_on_loop);
    assert_string_equal(health().trouble, "appendonly is no");
    unsafe = false;
    until_up(true);
    assert_int_equal(w.opens, 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_while_it_is_there),
        cmocka_unit_test(test_an_outage_is_told),
        cmocka_unit_test(test_lists_of_the_spool_say_so),
        cmocka_unit_test(test_no_enqueue_is_refused_when_it_goes),
        cmocka_unit_test(test_jobs_flow_back_as_they_are),
        cmocka_unit_test(test_what_runs_ends_where_it_runs),
        cmocka_unit_test(test_doubt_done),
        cmocka_unit_test(test_doubt_not_done),
        cmocka_unit_test(test_doubt_over_a_restart),
        cmocka_unit_test(test_doubt_about_a_job_that_is_done),
        cmocka_unit_test(test_queues_are_known_in_the_spool),
        cmocka_unit_test(test_away_at_the_start),
        cmocka_unit_test(test_unusable_at_the_start),
        cmocka_unit_test(test_an_id_that_another_job_has),
        cmocka_unit_test(test_who_waits_is_told),
        cmocka_unit_test(test_a_primary_that_says_nothing),
        cmocka_unit_test(test_events_of_both),
        cmocka_unit_test(test_a_queue_of_an_api_is_created_in_the_primary),
        cmocka_unit_test(test_a_queue_is_created_although_replies_are_lost),
        cmocka_unit_test(test_a_key_that_no_job_holds),
        cmocka_unit_test(test_numbers_of_queues),
        cmocka_unit_test(test_a_rule_reports_failover),
        cmocka_unit_test(test_the_rule_of_the_settings),
        cmocka_unit_test(test_notices_of_both_stores),
        cmocka_unit_test(test_an_unsafe_primary_is_checked_with_backoff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
