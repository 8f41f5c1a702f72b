/* SPDX-License-Identifier: Apache-2.0 */
/* Keys at which a job leaves its payload when it dies, on every way to death. */
#include <stdlib.h>

#include "base/buf.h"
#include "conform/conform.h"
#include "core/kvkey.h"

static struct span key(struct env *e, const char *json)
{
    struct span k;
    struct err_note note;
    if (kvkey_from_json(span_text(json), false, &e->arena, &k, &note) != 0)
        LEAVE("%s: %s", json, note.text);
    return k;
}

static struct span list_of(struct env *e, const char *const *jsons)
{
    struct buf list;
    buf_init(&list);
    for (; *jsons; jsons++)
        if (record_span_append(&list, key(e, *jsons)) != 0)
            abort();
    char *copy = arena_copy(&e->arena, list.data, list.len);
    struct span all = span_of(copy, list.len);
    buf_done(&list);
    return all;
}

static const char *const two_keys[] = {"[\"failed\",\"a\"]", "[\"alerts\",1]", NULL};
#define PAYLOAD "{\"pay\": 99.99}"

static struct op undelivered_op(struct env *e)
{
    struct op op = enqueue_op("q");
    op.enqueue.payload = SPAN_LITERAL(PAYLOAD);
    op.enqueue.payload_kind = PAYLOAD_JSON;
    op.enqueue.extra.undelivered = list_of(e, two_keys);
    return op;
}

static const struct kv_view *get_kv(struct env *e, const char *json)
{
    struct span *k = arena_array(&e->arena, 1, sizeof *k);
    *k = key(e, json);
    const struct reply *r = run(
        e, (struct op){.kind = OP_KV_GET, .kv_get = {.keys = k, .count = 1, .want_value = true}});
    EXPECT_OUT(r, OUT_OK);
    return &r->kvs[0];
}

static void expect_nothing(struct env *e)
{
    EXPECT(!get_kv(e, two_keys[0])->found && !get_kv(e, two_keys[1])->found);
}

static void expect_left(struct env *e, uint64_t seq)
{
    EXPECT_STATE(seq, STATE_DEAD);
    for (int i = 0; i < 2; i++) {
        const struct kv_view *v = get_kv(e, two_keys[i]);
        EXPECT(v->found);
        EXPECT_TEXT(v->value, PAYLOAD);
        EXPECT_INT(v->kind, PAYLOAD_JSON);
        EXPECT_INT(v->expires_at.ms, 0);
    }
}

static uint64_t put_short(struct env *e)
{
    struct queue_policy p = test_policy();
    p.max_attempts = 2;
    p.max_crashes = 2;
    queue_make(e, "q", &p);
    return put_op(e, undelivered_op(e));
}

static void by_failing(struct env *e)
{
    uint64_t seq = put_short(e);
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    expect_nothing(e);
    advance(e, 1000);
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK);
    expect_left(e, seq);
}

static void by_no_retry(struct env *e)
{
    uint64_t seq = put_short(e);
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    expect_left(e, seq);
}

static void by_crash_loop(struct env *e)
{
    uint64_t seq = put_short(e);
    for (int i = 0; i < 2; i++) {
        take(e, "q");
        advance(e, 10000);
        settle(e);
        advance(e, 2000);
    }
    settle_due(e);
    expect_left(e, seq);
}

static void by_lost_connections(struct env *e)
{
    uint64_t seq = put_short(e);
    for (int i = 0; i < 2; i++) {
        struct op op = lease_op(OP_RELEASE, take(e, "q"));
        op.lease.lost = true;
        EXPECT_OUT(run(e, op), OUT_OK);
        advance(e, 5000);
    }
    expect_left(e, seq);
}

static void by_expiry(struct env *e)
{
    struct op op = undelivered_op(e);
    op.enqueue.extra.expires_at = now_plus(e, 3000);
    op.enqueue.delay_ms = 60000;
    uint64_t seq = put_op(e, op);
    advance(e, 2999);
    expect_nothing(e);
    advance(e, 1);
    settle_due(e);
    expect_left(e, seq);
}

/* Done, cancelled and removed jobs leave nothing; a new payload is what is left. */
static void not_otherwise(struct env *e)
{
    put_short(e);
    EXPECT_OUT(ack(e, take(e, "q")), OUT_OK);
    uint64_t seq = put_op(e, undelivered_op(e));
    EXPECT_OUT(cancel(e, seq), OUT_OK);
    expect_nothing(e);
    seq = put_op(e, undelivered_op(e));
    struct op patch = {.kind = OP_PATCH,
                       .patch = {.job = {.seq = seq},
                                 .has_payload = true,
                                 .payload_kind = PAYLOAD_JSON,
                                 .payload = SPAN_LITERAL("\"new\"")}};
    EXPECT_OUT(run(e, patch), OUT_OK);
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_TEXT(get_kv(e, two_keys[1])->value, "\"new\"");
}

static void after_requeue(struct env *e)
{
    uint64_t seq = put_short(e);
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    uint64_t version = get_kv(e, two_keys[0])->version;
    EXPECT_OUT(requeue(e, seq), OUT_OK);
    op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT(get_kv(e, two_keys[0])->version > version);
    expect_left(e, seq);
}

static void after_restart(struct env *e)
{
    uint64_t seq = put_short(e);
    env_restart(e);
    const struct job_view *v = get(e, seq);
    EXPECT_SPAN(v->extra.undelivered, list_of(e, two_keys));
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.no_retry = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    env_restart(e);
    expect_left(e, seq);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, seq)), OUT_OK);
    env_restart(e);
    EXPECT_TEXT(get_kv(e, two_keys[0])->value, PAYLOAD); /* the keys outlive the job */
}

static void shown(struct env *e)
{
    uint64_t seq = put_op(e, undelivered_op(e));
    EXPECT_SPAN(get(e, seq)->extra.undelivered, list_of(e, two_keys));
    const struct reply *r = list(e, (struct op_list){.limit = 10, .want_body = true});
    EXPECT_INT(r->job_count, 1);
    EXPECT_SPAN(r->jobs[0].extra.undelivered, list_of(e, two_keys));
    EXPECT_INT(get(e, put(e, "q"))->extra.undelivered.len, 0);
}

static void refused(struct env *e)
{
    static const char *const same[] = {"[1]", "[1]", NULL};
    struct op op = undelivered_op(e);
    op.enqueue.extra.undelivered = list_of(e, same);
    EXPECT_OUT(run(e, op), OUT_INVALID);
    op.enqueue.extra.undelivered = SPAN_LITERAL("junk");
    EXPECT_OUT(run(e, op), OUT_INVALID);
}

/* With bytes, with nothing, within a commit. */
static void other_payloads(struct env *e)
{
    struct op op = undelivered_op(e);
    op.enqueue.payload_kind = PAYLOAD_BYTES;
    op.enqueue.payload = SPAN_LITERAL("\x01\xff");
    struct op_enqueue job = op.enqueue;
    EXPECT_OUT(run(e, (struct op){.kind = OP_KV_COMMIT,
                                  .kv_commit = {.enqueues = &job, .enqueue_count = 1}}),
               OUT_OK);
    struct op bury = lease_op(OP_FAIL, take(e, "q"));
    bury.lease.no_retry = true;
    EXPECT_OUT(run(e, bury), OUT_OK);
    EXPECT_INT(get_kv(e, two_keys[0])->kind, PAYLOAD_BYTES);
    EXPECT_SPAN(get_kv(e, two_keys[0])->value, op.enqueue.payload);
    op.enqueue.payload_kind = PAYLOAD_NONE;
    op.enqueue.payload.len = 0;
    put_op(e, op);
    bury = lease_op(OP_FAIL, take(e, "q"));
    bury.lease.no_retry = true;
    EXPECT_OUT(run(e, bury), OUT_OK);
    EXPECT(get_kv(e, two_keys[0])->found);
    EXPECT_INT(get_kv(e, two_keys[0])->kind, PAYLOAD_NONE);
    EXPECT_INT(get_kv(e, two_keys[0])->value.len, 0);
}

static const struct conform_case cases[] = {
    CASE("KV-9: the payload stays at its keys when retries are exhausted", by_failing),
    CASE("KV-9: … when a worker says no retry (bury)", by_no_retry),
    CASE("KV-9: … in a crash loop", by_crash_loop, EXACT),
    CASE("KV-9: … when connections are lost", by_lost_connections, EXACT),
    CASE("KV-9: … when the job expires", by_expiry),
    CASE("KV-9: not otherwise; a patched payload is the one that stays", not_otherwise, EXACT),
    CASE("KV-9: a requeued job keeps its keys", after_requeue),
    CASE("KV-9: … also over restarts", after_restart, RESTART),
    CASE("KV-9: get and list show the keys", shown),
    CASE("KV-9: keys twice, or none, are refused", refused),
    CASE("KV-9: payloads of bytes and of nothing", other_payloads, EXACT),
};
TOPIC(topic_undelivered, cases, NEEDS_KV);
