/* SPDX-License-Identifier: Apache-2.0 */
/* Events and workers where conformance cannot look: what is not durable yet, a ring that goes round
 * before the disk does, names of queues that are gone, many workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/records/frame.h"
#include "unit/backend/local/engine/engine_rig.h"

#define BASE (UINT64_C(1) << 40) /* the first boot */

static const struct span q = {"q", 1};

static void open_ring(struct engine_rig *r, uint32_t ring)
{
    struct engine_config config;
    engine_config_default(&config);
    config.event_ring = ring;
    engine_rig_open(r, &config);
}

static size_t events_after(const struct engine_rig *r, uint64_t after, uint64_t *ret_oldest)
{
    struct backend_event v[64];
    size_t n = engine_events(r->engine, after, 0, v, 64, ret_oldest);
    for (size_t i = 1; i < n; i++)
        assert_true(v[i].id == v[i - 1].id + 1);
    return n;
}

static void told_when_durable(void **state)
{
    (void)state;
    struct engine_rig r;
    uint64_t oldest, before;
    struct op enqueue = engine_rig_enqueue(q);
    engine_rig_open(&r, NULL);
    engine_rig_step(&r, &enqueue); /* queue_created, enqueued */
    before = engine_position(r.engine);
    engine_rig_step(&r, &enqueue);
    assert_int_equal(events_after(&r, BASE, &oldest), 0);
    assert_true(engine_events_last(r.engine) == BASE);
    assert_true(oldest == BASE + 1);
    engine_events_durable(r.engine,
                          before - 2); /* the job's record and the counters end its batch */
    assert_int_equal(events_after(&r, BASE, &oldest), 1);
    engine_events_durable(r.engine, before);
    assert_int_equal(events_after(&r, BASE, &oldest), 2);
    engine_events_durable(r.engine, engine_position(r.engine));
    assert_int_equal(events_after(&r, BASE, &oldest), 3);
    assert_int_equal(events_after(&r, BASE + 2, &oldest), 1);
    assert_true(engine_events_last(r.engine) == BASE + 3);
    engine_rig_close(&r);
}

static void ring_goes_round_before_the_disk(void **state)
{
    (void)state;
    struct engine_rig r;
    uint64_t oldest, positions[41];
    struct op enqueue = engine_rig_enqueue(q);
    open_ring(&r, 16);
    engine_rig_step(&r, &enqueue); /* two events */
    for (int n = 3; n <= 40; n++) {
        engine_rig_step(&r, &enqueue);
        positions[n] = engine_position(r.engine);
    }
    assert_int_equal(events_after(&r, BASE, &oldest), 0);
    assert_true(oldest == BASE + 25); /* 25 … 40 are kept, none may be told */
    engine_events_durable(r.engine, positions[10]);
    assert_true(engine_events_last(r.engine) == BASE); /* the position of event 10 is not known */
    engine_events_durable(r.engine, positions[30]);
    assert_true(engine_events_last(r.engine) == BASE + 30);
    assert_int_equal(events_after(&r, BASE, &oldest), 6);
    engine_events_durable(r.engine, positions[40]);
    assert_int_equal(events_after(&r, BASE, &oldest), 16);
    assert_int_equal(events_after(&r, BASE + 39, &oldest), 1);
    assert_int_equal(events_after(&r, BASE + 40, &oldest), 0);
    engine_rig_close(&r);
}

static void replaying_makes_none(void **state)
{
    (void)state;
    struct engine_rig r;
    struct engine_config config;
    struct engine *again;
    struct engine_out out;
    uint64_t oldest;
    struct backend_event v[4];
    struct op enqueue = engine_rig_enqueue(q),
              gone = {.kind = OP_QUEUE_DELETE, .queue = {.name = q}};
    engine_rig_open(&r, NULL);
    engine_rig_step(&r, &enqueue);
    engine_rig_step(&r, &gone);
    engine_rig_quiet(&r);
    engine_config_default(&config);
    engine_out_init(&out);
    assert_int_equal(engine_new(&config, &again), 0);
    assert_int_equal(engine_load(again, r.store, NULL), 0);
    for (struct span rest = buf_span(&r.log); rest.len;) {
        struct frame frame;
        struct span whole = rest;
        assert_int_equal(frame_decode(&rest, &frame), 0);
        whole.len -= rest.len;
        assert_int_equal(engine_replay(again, whole, NULL), 0);
    }
    assert_int_equal(engine_boot(again, r.now, &out), 0);
    engine_events_durable(again, UINT64_MAX);
    assert_int_equal(engine_events(again, 0, 0, v, 4, &oldest), 0);
    assert_true(engine_events_last(again) == 2 * BASE && oldest == 2 * BASE + 1);
    engine_out_done(&out);
    engine_free(again);
    engine_rig_close(&r);
}

static void names_of_queues_gone(void **state)
{
    (void)state;
    enum { QUEUES = 300, KEPT = 256 };
    struct engine_rig r;
    static struct backend_event v[2 * QUEUES];
    uint64_t oldest;
    char name[16];
    engine_rig_open(&r, NULL);
    for (int i = 0; i < QUEUES; i++) {
        snprintf(name, sizeof name, "q%d", i);
        struct op put = {.kind = OP_QUEUE_PUT, .queue = {.name = span_text(name)}};
        struct op gone = {.kind = OP_QUEUE_DELETE, .queue = {.name = span_text(name)}};
        engine_rig_step(&r, &put);
        engine_rig_step(&r, &gone);
        engine_rig_quiet(&r);
    }
    engine_events_durable(r.engine, UINT64_MAX);
    assert_int_equal(engine_events(r.engine, 0, 0, v, 2 * QUEUES, &oldest), 2 * QUEUES);
    for (int i = 0; i < QUEUES; i++) {
        snprintf(name, sizeof name, "%s", "");
        if (i >= QUEUES - KEPT)
            snprintf(name, sizeof name, "q%d", i);
        assert_true(span_equal(v[2 * i].queue, span_text(name)));
        assert_int_equal(v[2 * i + 1].kind, EVENT_QUEUE_DELETED);
        assert_true(span_equal(v[2 * i + 1].queue, span_text(name)));
    }
    engine_rig_close(&r);
}

static void claim_as(struct engine_rig *r, int worker)
{
    char name[16];
    struct op enqueue = engine_rig_enqueue(q), claim = engine_rig_claim(&q, 1);
    snprintf(name, sizeof name, "w%d", worker);
    claim.claim.worker = span_text(name);
    engine_rig_step(r, &enqueue);
    assert_int_equal(engine_rig_step(r, &claim)->job_count, 1);
    buf_clear(&r->log);
}

static const struct reply *workers(struct engine_rig *r)
{
    struct op op = {.kind = OP_WORKERS};
    return engine_rig_step(r, &op);
}

/* Thousands come, most go again; names of idle ones are forgotten, busy ones never. */
static void many_workers(void **state)
{
    (void)state;
    enum { WORKERS = WORKERS_MAX + 50 };
    struct engine_rig r;
    engine_rig_open(&r, NULL);
    for (int i = 0; i < WORKERS; i++)
        claim_as(&r, i);
    const struct reply *reply = workers(&r);
    assert_int_equal(reply->worker_total, WORKERS);
    assert_int_equal(reply->worker_count, WORKERS_MAX);
    assert_true(span_equal(reply->workers[0].name, SPAN_LITERAL("w0")));
    for (uint64_t seq = 1; seq <= WORKERS; seq++) {
        struct op ack = {.kind = OP_ACK, .lease = {.job = {.seq = seq}, .any_token = true}};
        if (seq % 1000 != 0)
            assert_int_equal(engine_rig_step(&r, &ack)->outcome, OUT_OK);
    }
    for (int i = 0; i < 6000; i++) { /* fresh names push idle ones out */
        claim_as(&r, WORKERS + i);
        struct op ack = {.kind = OP_ACK,
                         .lease = {.job = {.seq = WORKERS + (uint64_t)i + 1}, .any_token = true}};
        assert_int_equal(engine_rig_step(&r, &ack)->outcome, OUT_OK);
    }
    reply = workers(&r);
    assert_int_equal(reply->worker_total, WORKERS / 1000);
    for (uint32_t i = 0; i < reply->worker_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%u", (i + 1) * 1000 - 1);
        assert_true(span_equal(reply->workers[i].name, span_text(name)));
        assert_int_equal(reply->workers[i].running, 1);
    }
    engine_rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_when_durable),    cmocka_unit_test(ring_goes_round_before_the_disk),
        cmocka_unit_test(replaying_makes_none), cmocka_unit_test(names_of_queues_gone),
        cmocka_unit_test(many_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
