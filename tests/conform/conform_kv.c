/* SPDX-License-Identifier: Apache-2.0 */
/* The key-value store: versions, checks, expiry, order, and commits that are all or nothing. */
#include "conform/conform.h"
#include "core/kvkey.h"
#include "core/limits.h"

/* ---- short ways to say things ---- */

static struct span value_of(const char *text)
{
    return span_text(text);
}

static const struct reply *commit(struct env *e, struct op_kv_commit c)
{
    return run(e, (struct op){.kind = OP_KV_COMMIT, .kv_commit = c});
}

static const struct reply *set_until(struct env *e, const char *json, const char *value,
                                     struct wall_time expires_at)
{
    struct kv_set *s = arena_array(&e->arena, 1, sizeof *s);
    *s = (struct kv_set){.key = kv_key(e, json),
                         .kind = PAYLOAD_JSON,
                         .value = value_of(value),
                         .expires_at = expires_at};
    return commit(e, (struct op_kv_commit){.sets = s, .set_count = 1});
}

static uint64_t set(struct env *e, const char *json, const char *value)
{
    const struct reply *r = set_until(e, json, value, (struct wall_time){0});
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->version > 0);
    return r->version;
}

static const struct reply *set_if(struct env *e, const char *json, const char *value,
                                  uint64_t version)
{
    struct kv_set *s = arena_array(&e->arena, 1, sizeof *s);
    struct kv_check *c = arena_array(&e->arena, 1, sizeof *c);
    *s = (struct kv_set){.key = kv_key(e, json), .kind = PAYLOAD_JSON, .value = value_of(value)};
    *c = (struct kv_check){.key = s->key, .version = version};
    return commit(e,
                  (struct op_kv_commit){.checks = c, .check_count = 1, .sets = s, .set_count = 1});
}

static void drop(struct env *e, const char *json)
{
    struct span *k = arena_array(&e->arena, 1, sizeof *k);
    *k = kv_key(e, json);
    EXPECT_OUT(commit(e, (struct op_kv_commit){.deletes = k, .delete_count = 1}), OUT_OK);
}

static const struct kv_view *get_kv(struct env *e, const char *json)
{
    struct span *k = arena_array(&e->arena, 1, sizeof *k);
    *k = kv_key(e, json);
    const struct reply *r = run(
        e, (struct op){.kind = OP_KV_GET, .kv_get = {.keys = k, .count = 1, .want_value = true}});
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->kv_count, 1);
    EXPECT_SPAN(r->kvs[0].key, *k);
    return &r->kvs[0];
}

static const struct reply *list_kv(struct env *e, struct op_kv_list query)
{
    uint64_t position;
    struct backend_figures f;
    backend_figures(e->b, &f);
    position = f.durable;
    for (int i = 0; i < 1000; i++) {
        const struct reply *r = run(e, (struct op){.kind = OP_KV_LIST, .kv_list = query});
        EXPECT_OUT(r, OUT_OK);
        if (r->kv_as_of >= position)
            return r;
    }
    LEAVE("the store does not come up to position %llu", (unsigned long long)position);
}

/* By get and by list: both must show the same key. value NULL: it does not exist. */
static void expect_kv(struct env *e, const char *json, const char *value, uint64_t version)
{
    const struct kv_view *v = get_kv(e, json);
    const struct reply *r =
        list_kv(e, (struct op_kv_list){.from = kv_key(e, json), .limit = 1, .want_value = true});
    bool listed = r->kv_count == 1 && span_equal(r->kvs[0].key, kv_key(e, json));
    EXPECT_INT(v->found, value != NULL);
    EXPECT_INT(listed, value != NULL);
    if (!value)
        return;
    EXPECT_TEXT(v->value, value);
    EXPECT_TEXT(r->kvs[0].value, value);
    EXPECT_INT(v->kind, PAYLOAD_JSON);
    EXPECT_INT(v->version, r->kvs[0].version);
    if (version)
        EXPECT_INT(v->version, version);
}

/* ---- cases ---- */

static void set_get_delete(struct env *e)
{
    expect_kv(e, "[\"a\"]", NULL, 0);
    uint64_t first = set(e, "[\"a\"]", "{\"n\": 1}");
    expect_kv(e, "[\"a\"]", "{\"n\": 1}", first);
    uint64_t second = set(e, "[\"a\"]", "[2]");
    EXPECT(second > first);
    expect_kv(e, "[\"a\"]", "[2]", second);
    drop(e, "[\"a\"]");
    expect_kv(e, "[\"a\"]", NULL, 0);
    drop(e, "[\"a\"]"); /* not there: no error */
    uint64_t third = set(e, "[\"a\"]", "3");
    EXPECT(third > second); /* no version twice, not even after a delete */
    expect_kv(e, "[\"a\"]", "3", third);
}

static void check_and_set(struct env *e)
{
    const struct reply *r = set_if(e, "[\"c\"]", "1", 0); /* must not be there */
    EXPECT_OUT(r, OUT_OK);
    uint64_t first = r->version;
    r = set_if(e, "[\"c\"]", "2", 0);
    EXPECT_OUT(r, OUT_VERSION);
    EXPECT_INT(r->failed, 0);
    EXPECT(!r->failed_enqueue);
    EXPECT_INT(r->version, first); /* the version that it has */
    EXPECT_OUT(set_if(e, "[\"c\"]", "2", first + 1000), OUT_VERSION);
    expect_kv(e, "[\"c\"]", "1", first);
    r = set_if(e, "[\"c\"]", "2", first);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->version > first);
    expect_kv(e, "[\"c\"]", "2", r->version);
    EXPECT_OUT(set_if(e, "[\"c\"]", "3", first), OUT_VERSION);
}

/* Several in one commit share its version; one bad check leaves nothing behind. */
static void all_or_nothing(struct env *e)
{
    struct kv_set sets[2] = {
        {.key = kv_key(e, "[\"x\"]"), .kind = PAYLOAD_JSON, .value = value_of("1")},
        {.key = kv_key(e, "[\"y\"]"), .kind = PAYLOAD_JSON, .value = value_of("2")}};
    struct kv_check checks[2] = {{.key = kv_key(e, "[\"x\"]")}, {.key = kv_key(e, "[\"z\"]")}};
    struct op_enqueue job = enqueue_op("mail").enqueue;
    struct span gone = kv_key(e, "[\"z\"]");
    uint64_t z = set(e, "[\"z\"]", "0");
    struct op_kv_commit c = {.checks = checks,
                             .check_count = 2,
                             .sets = sets,
                             .set_count = 2,
                             .deletes = &gone,
                             .delete_count = 1,
                             .enqueues = &job,
                             .enqueue_count = 1};
    const struct reply *r = commit(e, c);
    EXPECT_OUT(r, OUT_VERSION);
    EXPECT_INT(r->failed, 1);
    expect_kv(e, "[\"x\"]", NULL, 0);
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_GET, "mail")), OUT_NO_QUEUE);
    checks[1].version = z;
    r = commit(e, c);
    EXPECT_OUT(r, OUT_OK);
    uint64_t version = r->version;
    EXPECT_INT(r->enqueued_count, 1);
    EXPECT(r->enqueued[0].created);
    EXPECT_INT(r->enqueued[0].state, STATE_READY);
    EXPECT_STATE(r->enqueued[0].seq, STATE_READY);
    expect_kv(e, "[\"x\"]", "1", version);
    expect_kv(e, "[\"y\"]", "2", version);
    expect_kv(e, "[\"z\"]", NULL, 0);
    EXPECT_COUNTS("mail", .ready = 1);
}

static void enqueue_refused(struct env *e)
{
    struct kv_set s = {.key = kv_key(e, "[\"x\"]"), .kind = PAYLOAD_JSON, .value = value_of("1")};
    struct op_enqueue jobs[3];
    uint64_t held = put_unique(e, "q", "u1");
    for (int i = 0; i < 3; i++)
        jobs[i] = enqueue_op(i == 1 ? "q" : "other").enqueue;
    jobs[1].extra.unique = SPAN_LITERAL("u1");
    jobs[1].unique_mode = UNIQUE_REJECT;
    struct op_kv_commit c = {.sets = &s, .set_count = 1, .enqueues = jobs, .enqueue_count = 3};
    const struct reply *r = commit(e, c);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT(r->failed_enqueue);
    EXPECT_INT(r->failed, 1);
    EXPECT_INT(r->seq, held);
    expect_kv(e, "[\"x\"]", NULL, 0);
    EXPECT_COUNTS("q", .ready = 1);
    jobs[1].unique_mode = UNIQUE_RETURN; /* then it is the one that is there */
    r = commit(e, c);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->enqueued_count, 3);
    EXPECT(r->enqueued[0].created && !r->enqueued[1].created && r->enqueued[2].created);
    EXPECT_INT(r->enqueued[1].seq, held);
    EXPECT_COUNTS("other", .ready = 2);
    jobs[0].extra.unique = jobs[2].extra.unique = SPAN_LITERAL("same");
    EXPECT_OUT(commit(e, c), OUT_INVALID);
    EXPECT_COUNTS("other", .ready = 2);
}

/* The capacity of a queue holds for the jobs of one commit together, and for each queue alone. */
static void capacity_together(struct env *e)
{
    struct queue_policy p = test_policy();
    struct op_enqueue jobs[3];
    p.capacity = 2;
    queue_make(e, "small", &p);
    for (int i = 0; i < 3; i++)
        jobs[i] = enqueue_op("small").enqueue;
    struct op_kv_commit c = {.enqueues = jobs, .enqueue_count = 3};
    const struct reply *r = commit(e, c);
    EXPECT_OUT(r, OUT_QUEUE_FULL);
    EXPECT_INT(r->failed, 2);
    EXPECT_COUNTS("small", 0);
    jobs[0].queue = SPAN_LITERAL("large");
    EXPECT_OUT(commit(e, c), OUT_OK);
    EXPECT_COUNTS("small", .ready = 2);
    EXPECT_COUNTS("large", .ready = 1);
}

static void twice_in_one_commit(struct env *e)
{
    struct kv_set s = {.key = kv_key(e, "[\"x\"]"), .kind = PAYLOAD_JSON, .value = value_of("1")};
    struct span k = kv_key(e, "[\"x\"]");
    EXPECT_OUT(
        commit(e,
               (struct op_kv_commit){.sets = &s, .set_count = 1, .deletes = &k, .delete_count = 1}),
        OUT_INVALID);
    s.key = SPAN_LITERAL("no key");
    EXPECT_OUT(commit(e, (struct op_kv_commit){.sets = &s, .set_count = 1}), OUT_INVALID);
    expect_kv(e, "[\"x\"]", NULL, 0);
}

/* Booleans, numbers, texts; a key before the longer ones that begin with it. */
static void order_and_pages(struct env *e)
{
    static const char *const keys[] = {"[false]",  "[true]",    "[-1.5]",        "[0]",
                                       "[7]",      "[10]",      "[1e300]",       "[\"\"]",
                                       "[\"a\"]",  "[\"a\",1]", "[\"a\",\"b\"]", "[\"a\",\"b\",0]",
                                       "[\"aa\"]", "[\"b\"]",   "[\"\\u00e9\"]"};
    enum { COUNT = sizeof keys / sizeof *keys };
    for (size_t i = 0; i < COUNT; i++)
        set(e, keys[(i * 7) % COUNT], "1");
    for (int reverse = 0; reverse < 2; reverse++) {
        struct op_kv_list query = {.limit = 4, .reverse = reverse};
        size_t n = 0;
        const struct reply *r;
        do {
            r = list_kv(e, query);
            for (uint32_t i = 0; i < r->kv_count; i++, n++)
                EXPECT_SPAN(r->kvs[i].key, kv_key(e, keys[reverse ? COUNT - 1 - n : n]));
            query.after = r->kv_cursor;
        } while (r->kv_cursor.len > 0);
        EXPECT_INT(n, COUNT);
    }
}

static void prefix_and_range(struct env *e)
{
    static const char *const keys[] = {"[\"a\"]",         "[\"a\",1]", "[\"a\",2]", "[\"a\",\"x\"]",
                                       "[\"a\",\"x\",9]", "[\"ab\"]",  "[\"b\"]"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        set(e, keys[i], "1");
    const struct reply *r = list_kv(e, (struct op_kv_list){.prefix = kv_key(e, "[\"a\"]")});
    EXPECT_INT(r->kv_count, 5); /* "ab" is another text, not a longer key */
    EXPECT_INT(r->kv_cursor.len, 0);
    EXPECT_SPAN(r->kvs[4].key, kv_key(e, "[\"a\",\"x\",9]"));
    r = list_kv(e, (struct op_kv_list){.prefix = kv_key(e, "[\"a\",\"x\"]")});
    EXPECT_INT(r->kv_count, 2);
    r = list_kv(e, (struct op_kv_list){.prefix = kv_key(e, "[\"a\"]"),
                                       .from = kv_key(e, "[\"a\",2]"),
                                       .to = kv_key(e, "[\"a\",\"x\",9]")});
    EXPECT_INT(r->kv_count, 2);
    EXPECT_SPAN(r->kvs[0].key, kv_key(e, "[\"a\",2]"));
    EXPECT_SPAN(r->kvs[1].key, kv_key(e, "[\"a\",\"x\"]"));
    EXPECT_INT(list_kv(e, (struct op_kv_list){.prefix = kv_key(e, "[\"zz\"]")})->kv_count, 0);
}

static void expiry(struct env *e)
{
    EXPECT_OUT(set_until(e, "[\"t\"]", "1", now_plus(e, 5000)), OUT_OK);
    uint64_t version = get_kv(e, "[\"t\"]")->version;
    advance(e, 4999);
    expect_kv(e, "[\"t\"]", "1", version);
    advance(e, 1);
    expect_kv(e, "[\"t\"]", NULL, 0);
    EXPECT_OUT(set_if(e, "[\"t\"]", "2", version), OUT_VERSION);
    EXPECT_OUT(set_if(e, "[\"t\"]", "2", 0), OUT_OK); /* as if it had never existed */
    expect_kv(e, "[\"t\"]", "2", 0);
    advance(e, 100000);
    expect_kv(e, "[\"t\"]", "2", 0); /* the old time is not its own */
    EXPECT_OUT(set_until(e, "[\"u\"]", "1", now_plus(e, 1000)), OUT_OK);
    set(e, "[\"u\"]", "2"); /* without an end now */
    advance(e, 5000);
    expect_kv(e, "[\"u\"]", "2", 0);
    settle_due(e);
    struct backend_figures f;
    backend_figures(e->b, &f);
    EXPECT_INT(f.kv_keys, 2);
}

static void configure_small(struct backend_config *c)
{
    c->kv_keys_max = 3;
    c->kv_bytes_max = 60;
}

static void limits(struct env *e)
{
    set(e, "[1]", "1");
    set(e, "[2]", "1");
    set(e, "[3]", "1");
    EXPECT_OUT(set_until(e, "[4]", "1", (struct wall_time){0}), OUT_KV_FULL);
    set(e, "[3]", "2"); /* what is there may change */
    drop(e, "[1]");
    EXPECT_OUT(
        set_until(e, "[4]", "\"0123456789012345678901234567890123456789\"", (struct wall_time){0}),
        OUT_KV_FULL);
    set(e, "[4]", "1");
    expect_kv(e, "[1]", NULL, 0);
    expect_kv(e, "[3]", "2", 0);
}

static void survives(struct env *e)
{
    uint64_t a = set(e, "[\"a\",1]", "{\"deep\":[1]}");
    EXPECT_OUT(set_until(e, "[\"t\"]", "1", now_plus(e, 5000)), OUT_OK);
    set(e, "[\"gone\"]", "1");
    drop(e, "[\"gone\"]");
    env_restart(e);
    expect_kv(e, "[\"a\",1]", "{\"deep\":[1]}", a);
    expect_kv(e, "[\"t\"]", "1", 0);
    expect_kv(e, "[\"gone\"]", NULL, 0);
    EXPECT(set(e, "[\"gone\"]", "2") > a);
    EXPECT_OUT(set_if(e, "[\"a\",1]", "2", a), OUT_OK);
    advance(e, 5000);
    expect_kv(e, "[\"t\"]", NULL, 0);
    env_restart(e);
    expect_kv(e, "[\"t\"]", NULL, 0);
    expect_kv(e, "[\"a\",1]", "2", 0);
}

/* Several keys are read at one moment, whether they exist or not. */
static void several(struct env *e)
{
    struct span keys[3] = {kv_key(e, "[\"b\"]"), kv_key(e, "[\"none\"]"), kv_key(e, "[\"a\"]")};
    set(e, "[\"a\"]", "1");
    set(e, "[\"b\"]", "2");
    const struct reply *r =
        run(e, (struct op){.kind = OP_KV_GET,
                           .kv_get = {.keys = keys, .count = 3, .want_value = true}});
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->kv_count, 3);
    EXPECT_TEXT(r->kvs[0].value, "2");
    EXPECT(!r->kvs[1].found);
    EXPECT_TEXT(r->kvs[2].value, "1");
}

static size_t kv_events(struct env *e, uint64_t after, struct backend_event *events, size_t max)
{
    uint64_t kinds = UINT64_C(1) << EVENT_KV_SET | UINT64_C(1) << EVENT_KV_DELETED, oldest;
    return backend_events(e->b, after, kinds, events, max, &oldest);
}

static void events(struct env *e)
{
    struct backend_event found[8];
    uint64_t start = backend_events_last(e->b);
    uint64_t version = set(e, "[\"a\"]", "1");
    drop(e, "[\"a\"]");
    EXPECT_OUT(set_until(e, "[\"b\"]", "1", now_plus(e, 1000)), OUT_OK);
    advance(e, 1000);
    settle_due(e);
    EXPECT_INT(kv_events(e, start, found, 8), 4);
    EXPECT_INT(found[0].kind, EVENT_KV_SET);
    EXPECT_SPAN(found[0].key, kv_key(e, "[\"a\"]"));
    EXPECT_INT(found[0].version, version);
    EXPECT_INT(found[1].kind, EVENT_KV_DELETED);
    EXPECT_SPAN(found[1].key, kv_key(e, "[\"a\"]"));
    EXPECT(found[1].version > version);
    EXPECT_INT(found[3].kind, EVENT_KV_DELETED);
    EXPECT_SPAN(found[3].key, kv_key(e, "[\"b\"]"));
}

/* Its record is free by then, or another key's. */
static void expiry_of_a_deleted_key(struct env *e)
{
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "[%d]", i);
        EXPECT_OUT(set_until(e, name, "1", now_plus(e, 1000 + 100 * (i * 7 % 20))), OUT_OK);
    }
    for (int i = 0; i < 20; i += 3) {
        char name[16];
        snprintf(name, sizeof name, "[%d]", i);
        drop(e, name);
    }
    set(e, "[\"stays\"]", "1"); /* in a record that had a time */
    advance(e, 500);
    settle_due(e);
    expect_kv(e, "[1]", "1", 0);
    advance(e, 10000);
    settle_due(e);
    struct backend_figures f;
    backend_figures(e->b, &f);
    EXPECT_INT(f.kv_keys, 1);
    expect_kv(e, "[\"stays\"]", "1", 0);
}

/* Each job is in its own queue, which the commit creates. */
static void many_queues(struct env *e)
{
    char names[20][16];
    struct op_enqueue jobs[20];
    for (int i = 0; i < 20; i++) {
        snprintf(names[i], sizeof names[i], "many%d", i);
        jobs[i] = enqueue_op(names[i]).enqueue;
    }
    struct op_kv_commit c = {.enqueues = jobs, .enqueue_count = 20};
    const struct reply *r = commit(e, c);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->enqueued_count, 20);
    for (int i = 0; i < 20; i++)
        EXPECT_COUNTS(names[i], .ready = 1);
}

/* The key that would expire first is deleted, and the next is set again without expiry; a later one
 * still expires. */
static void expiry_of_the_deleted(struct env *e)
{
    EXPECT_OUT(set_until(e, "[\"a\"]", "1", now_plus(e, 1000)), OUT_OK);
    EXPECT_OUT(set_until(e, "[\"b\"]", "1", now_plus(e, 1500)), OUT_OK);
    EXPECT_OUT(set_until(e, "[\"c\"]", "1", now_plus(e, 2000)), OUT_OK);
    drop(e, "[\"a\"]");
    set(e, "[\"b\"]", "2");
    advance(e, 2500);
    settle_due(e);
    EXPECT(!get_kv(e, "[\"a\"]")->found);
    EXPECT(get_kv(e, "[\"b\"]")->found);
    EXPECT(!get_kv(e, "[\"c\"]")->found);
}

static const struct conform_case cases[] = {
    CASE("KV-10: set, get, delete; versions rise and are never used again", set_get_delete),
    CASE("KV-10: check-and-set", check_and_set, EXACT),
    CASE("KV-10: check, set, delete and enqueue are one commit", all_or_nothing, EXACT),
    CASE("KV-10: a refused enqueue refuses the commit", enqueue_refused, EXACT,
         .needs = NEEDS_ONE_STORE),
    CASE("KV-10: capacity counts the jobs of one commit together", capacity_together, EXACT),
    CASE("KV-10: a key occurs once in a commit; invalid keys are refused", twice_in_one_commit),
    CASE("KV-10: one order of keys, in pages, both ways", order_and_pages),
    CASE("KV-10: lists by prefix and range", prefix_and_range),
    CASE("KV-10: the jobs of one commit may go to many queues", many_queues, EXACT),
    CASE("KV-10: expiry", expiry, EXACT),
    CASE("KV-10: expiry of a key that was deleted", expiry_of_a_deleted_key, EXACT),
    CASE("KV-10: a key that is deleted or set again does not expire", expiry_of_the_deleted, EXACT),
    CASE("KV-10: bounds on keys and bytes", limits, .configure = configure_small),
    CASE("KV-10: keys survive a restart", survives, RESTART | EXACT),
    CASE("KV-10: several keys at once", several),
    CASE("KV-10: events of keys", events, EXACT),
};
TOPIC(topic_kv, cases, NEEDS_KV);
