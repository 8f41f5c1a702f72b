/* SPDX-License-Identifier: Apache-2.0 */
/* The local backend on a store whose disk is full when the test says so: what waits, what is told,
 * and that closing does not wait for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/local/local.h"
#include "base/err.h"

/* ---- a store that keeps nothing ---- */

struct stub {
    struct store base;
    atomic_bool *full;
};

static int stub_load(struct store *s, const struct store_sink *sink, struct err_note *note)
{
    struct store_meta meta = {.hash_key = {1, 2}};
    (void)s, (void)note;
    return sink->meta(sink->ctx, &meta);
}

static int stub_apply(struct store *s, const struct span *frames, size_t count,
                      struct err_note *note)
{
    struct stub *stub = (struct stub *)s;
    (void)frames, (void)count;
    if (atomic_load(stub->full))
        return err_note_set(note, -ERR_NO_SPACE, "the stub is full");
    return 0;
}

static int stub_tidy(struct store *s, bool *more, struct err_note *note)
{
    (void)s, (void)note;
    *more = false;
    return 0;
}

static void stub_close(struct store *s)
{
    free(s);
}

static int stub_read(struct store_reader *r, const struct store_query *query, struct arena *arena,
                     struct stored_body *bodies)
{
    (void)r, (void)arena;
    memset(bodies, 0, query->count * sizeof *bodies);
    return 0;
}

static int stub_list(struct store_reader *r, const struct op_list *query, struct arena *arena,
                     struct job_view **ret_jobs, uint32_t *ret_count, uint64_t *ret_cursor,
                     uint64_t *ret_as_of)
{
    (void)r, (void)query, (void)arena;
    *ret_jobs = NULL;
    *ret_count = 0;
    *ret_cursor = *ret_as_of = 0;
    return 0;
}

static void stub_reader_close(struct store_reader *r)
{
    free(r);
}

static const struct store_reader_ops stub_reader_ops = {
    .read = stub_read, .list = stub_list, .close = stub_reader_close};

static int stub_reader_open(struct store *s, struct store_reader **ret, struct err_note *note)
{
    (void)s, (void)note;
    *ret = calloc(1, sizeof **ret);
    assert_non_null(*ret);
    (*ret)->ops = &stub_reader_ops;
    return 0;
}

static const struct store_ops stub_ops = {.kind = "stub",
                                          .load = stub_load,
                                          .apply = stub_apply,
                                          .tidy = stub_tidy,
                                          .close = stub_close,
                                          .reader_open = stub_reader_open};

/* ---- the rig ---- */

#define OPS_MAX 16

struct rig {
    uv_loop_t loop;
    struct clock_manual clock;
    struct log log;
    char said[8192]; /* what was logged; the applier's thread logs too, so only after close */
    uv_mutex_t lock;
    atomic_bool full;
    struct backend *b;
    struct op ops[OPS_MAX];
    enum outcome outcomes[OPS_MAX];
    unsigned answers[OPS_MAX];
    size_t op_count;
    struct job_token token;
    unsigned settled, news;
    bool closed;
};

static void log_cb(void *ctx, const char *line, size_t len)
{
    struct rig *r = ctx;
    uv_mutex_lock(&r->lock);
    size_t used = strlen(r->said);
    if (used + len < sizeof r->said)
        memcpy(r->said + used, line, len);
    uv_mutex_unlock(&r->lock);
}

static void rig_open(struct rig *r)
{
    struct err_note note = {""};
    memset(r, 0, sizeof *r);
    assert_int_equal(uv_loop_init(&r->loop), 0);
    assert_int_equal(uv_mutex_init(&r->lock), 0);
    r->clock.at = (struct now){{5000}, {1700000000000}};
    r->log = (struct log){.write = log_cb, .ctx = r, .clock = clock_manual(&r->clock)};
    struct stub *stub = calloc(1, sizeof *stub);
    assert_non_null(stub);
    *stub = (struct stub){.base = {&stub_ops}, .full = &r->full};
    struct backend_config config = {
        .loop = &r->loop, .clock = clock_manual(&r->clock), .log = &r->log, .seed = 1};
    assert_int_equal(backend_open_on_store(&stub->base, &config, &r->b, &note), 0);
}

static void reply_cb(void *ctx, const struct reply *reply)
{
    struct rig *r = ctx;
    r->answers[reply->tag]++;
    r->outcomes[reply->tag] = reply->outcome;
    if (reply->job_count == 1)
        r->token = reply->jobs[0].token;
    uv_stop(&r->loop);
}

/* Submits one op; returns its number. */
static size_t ask(struct rig *r, struct op op)
{
    size_t n = r->op_count++;
    assert_true(n < OPS_MAX);
    r->ops[n] = op;
    r->ops[n].tag = n;
    assert_int_equal(backend_submit(r->b, &r->ops[n], 1, reply_cb, r), 0);
    return n;
}

static enum outcome answer(struct rig *r, size_t n)
{
    while (r->answers[n] == 0)
        assert_true(uv_run(&r->loop, UV_RUN_ONCE));
    return r->outcomes[n];
}

static void closed_cb(void *ctx)
{
    ((struct rig *)ctx)->closed = true;
}

static void settled_cb(void *ctx)
{
    ((struct rig *)ctx)->settled++;
    uv_stop(&((struct rig *)ctx)->loop);
}

static void news_cb(void *ctx)
{
    ((struct rig *)ctx)->news++;
}

static void rig_close(struct rig *r)
{
    backend_close(r->b, closed_cb, r);
    while (uv_run(&r->loop, UV_RUN_DEFAULT) != 0) {
        /* each answer stops it */
    }
    assert_true(r->closed);
    for (size_t i = 0; i < r->op_count; i++)
        assert_int_equal(r->answers[i], 1);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    uv_mutex_destroy(&r->lock);
}

static void wait_until_full(struct rig *r, bool full)
{
    struct backend_figures f;
    do {
        assert_true(uv_run(&r->loop, UV_RUN_ONCE));
        backend_figures(r->b, &f);
    } while (f.disk_full != full || (!full && f.durable < f.position));
}

static const struct span queue = {"q", 1};

static struct op enqueue_op(void)
{
    return (struct op){.kind = OP_ENQUEUE,
                       .enqueue = {.queue = queue, .payload_kind = PAYLOAD_BYTES}};
}

static struct op claim_op(void)
{
    return (struct op){.kind = OP_CLAIM, .claim = {.queues = &queue, .queue_count = 1, .count = 1}};
}

static struct op ack_op(const struct rig *r)
{
    return (struct op){.kind = OP_ACK, .lease = {.job = {.seq = 1}, .token = r->token}};
}

/* ---- */

/* Promise 4: closing with a full disk ends, and says of what it lost that nobody knows. */
static void test_close_while_full(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    assert_int_equal(answer(&r, ask(&r, enqueue_op())), OUT_OK);
    assert_int_equal(answer(&r, ask(&r, enqueue_op())), OUT_OK);
    atomic_store(&r.full, true);
    size_t new = ask(&r, enqueue_op());                        /* before anybody knows */
    assert_int_equal(answer(&r, ask(&r, claim_op())), OUT_OK); /* was durably ready: at once */
    size_t ack = ask(&r, ack_op(&r));
    size_t get = ask(&r, (struct op){.kind = OP_GET, .job = {.job = {.seq = 1}}});
    size_t list = ask(&r, (struct op){.kind = OP_LIST});
    wait_until_full(&r, true);
    (void)uv_run(&r.loop, UV_RUN_NOWAIT); /* the engine hears of it with the next turn */
    assert_int_equal(answer(&r, ask(&r, enqueue_op())), OUT_DISK_FULL); /* and waits for nothing */
    size_t bulk =
        ask(&r, (struct op){.kind = OP_BULK, .bulk = {.action = BULK_CANCEL, .queue = queue}});
    assert_int_equal(backend_settle(r.b, settled_cb, &r), 0);
    assert_int_equal(r.answers[ack] + r.answers[new] + r.answers[bulk] + r.settled, 0);
    rig_close(&r);
    assert_int_equal(r.outcomes[ack], OUT_UNKNOWN);
    assert_int_equal(r.outcomes[new], OUT_UNKNOWN);
    assert_int_equal(r.outcomes[bulk], OUT_UNKNOWN);
    assert_int_equal(r.outcomes[get], OUT_UNAVAILABLE);
    assert_int_equal(r.outcomes[list], OUT_UNAVAILABLE);
    assert_int_equal(r.settled, 1);
    assert_non_null(strstr(r.said, "closed_with_full_disk"));
    assert_non_null(strstr(r.said, "the stub is full"));
}

/* Room that comes back in time: nothing is lost, and events wait for it. */
static void test_full_for_a_while(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    assert_int_equal(answer(&r, ask(&r, enqueue_op())), OUT_OK);
    backend_on_news(r.b, news_cb, &r);
    uint64_t last = backend_events_last(r.b), oldest;
    struct backend_event v[4];
    atomic_store(&r.full, true);
    size_t new = ask(&r, enqueue_op());
    assert_int_equal(backend_settle(r.b, settled_cb, &r), 0);
    wait_until_full(&r, true);
    assert_int_equal(r.answers[new] + r.settled + r.news, 0);
    assert_true(backend_events_last(r.b) == last); /* happened, but not durable */
    assert_int_equal(backend_events(r.b, last, 0, v, 4, &oldest), 0);
    atomic_store(&r.full, false);
    wait_until_full(&r, false);
    while (r.settled == 0)
        assert_true(uv_run(&r.loop, UV_RUN_ONCE));
    assert_int_equal(answer(&r, new), OUT_OK);
    assert_int_equal(r.news, 1);
    assert_int_equal(backend_events(r.b, last, 0, v, 4, &oldest), 1);
    assert_int_equal(v[0].kind, EVENT_ENQUEUED);
    rig_close(&r);
    assert_null(strstr(r.said, "closed_with_full_disk"));
}

static void again_cb(void *ctx, const struct reply *reply)
{
    struct rig *r = ctx;
    backend_on_news(r->b, news_cb, r);
    reply_cb(ctx, reply);
}

/* Whoever asks for news again inside an answer, as a listener that comes or goes does, must not
 * lose the news that this very turn brings. */
static void test_news_asked_for_again(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    backend_on_news(r.b, news_cb, &r);
    r.ops[0] = enqueue_op();
    r.op_count = 1;
    assert_int_equal(backend_submit(r.b, r.ops, 1, again_cb, &r), 0);
    assert_int_equal(answer(&r, 0), OUT_OK);
    assert_int_equal(backend_settle(r.b, settled_cb, &r), 0);
    while (r.settled == 0)
        assert_true(uv_run(&r.loop, UV_RUN_ONCE));
    assert_int_equal(r.news, 1);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_while_full),
        cmocka_unit_test(test_full_for_a_while),
        cmocka_unit_test(test_news_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
