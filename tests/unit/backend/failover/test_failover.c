/* SPDX-License-Identifier: Apache-2.0 */
/* PDQ-7: failover from a primary that is switched off and on to a spool, and the way back: what
 * works meanwhile, what is refused, and that every job is there once afterwards, under its id. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/failover/failover.h"
#include "backend/reply_copy.h"
#include "base/mem.h"
#include "unit/backend/switched.h"

#define NODE 3u
#define MAX_REPLIES 512

/* Whether anybody listens at the primary's address; asked on another thread, too. */
static _Atomic bool listening;

static struct world {
    uv_loop_t loop;
    struct clock_manual clock;
    struct backend_config config;
    char dir[64];
    bool on_disk;         /* else both stores go with the process */
    const char *unusable; /* why it cannot be opened; NULL = it can */
    struct switched *primary;
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

static int try_open(struct err_note *note)
{
    struct backend *spool;
    struct failover_setup setup = {
        .kind = "test", .open = open_primary, .reachable = reachable, .health_ms = 60000};
    assert_int_equal(open_store("spool", &spool), 0);
    return backend_open_failover(spool, &setup, &w.config, &w.b, note);
}

static void open_failover(void)
{
    struct err_note note = {""};
    assert_int_equal(try_open(&note), 0);
}

static void begin_with(bool there)
{
    listening = there;
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

/* HF-12: the spool's lists say that the shared store's part is missing; a queue counts once. */
static void test_lists_of_the_spool_say_so(void **state)
{
    static const enum op_kind kinds[] = {OP_QUEUE_LIST, OP_BREAKER_LIST};
    (void)state;
    begin();
    put();
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(run((struct op){.kind = kinds[i]})->left_out, 0);
    outage();
    put();
    assert_int_equal(figures().queues, 1);
    for (size_t i = 0; i < 2; i++) {
        const struct reply *r = run((struct op){.kind = kinds[i]});
        assert_int_equal(r->outcome, OUT_OK);
        assert_int_equal(r->left_out, 1);
    }
    assert_int_equal(
        run((struct op){.kind = OP_QUEUE_LIST})->queues[0].counts.by_state[STATE_READY], 1);
    switched_set(w.primary, SWITCH_ON);
    until_flowed();
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(run((struct op){.kind = kinds[i]})->left_out, 0);
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
    assert_non_null(strstr(r->note, "unique or idempotency key"));
    op = enqueue_op();
    op.enqueue.idempotency_key = SPAN_LITERAL("k");
    assert_int_equal(run(op)->outcome, OUT_UNAVAILABLE);
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
    outage();
    struct job_ref id = put();
    lose_the_move(mode);
    /* Nobody knows whether the primary has it, so nobody gets it here. */
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
    assert_string_equal(health().trouble, "nobody listens at its address");
    struct job_ref id = put();
    assert_true(id_spooled(id.seq));
    assert_int_equal(claim(1)->job_count, 1);
    struct job_ref other = put();
    w.unusable = "wrong password"; /* while it runs that is no end either */
    listening = true;
    for (int i = 0; i < 3; i++)
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
    struct backend *spool;
    struct err_note note;
    struct failover_setup setup = {
        .kind = "test", .open = open_primary, .reachable = reachable, .health_ms = 40};
    assert_int_equal(open_store("spool", &spool), 0);
    assert_int_equal(backend_open_failover(spool, &setup, &w.config, &w.b, &note), 0);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
