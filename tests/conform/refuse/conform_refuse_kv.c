/* SPDX-License-Identifier: Apache-2.0 */
/* What commits and questions of the key-value store are refused for. */
#include "conform/tell.h"
#include "core/kvkey.h"

/* A key that no other number gives. */
static struct span numbered(struct env *e, unsigned n)
{
    char text[24];
    snprintf(text, sizeof text, "[\"n\",%u]", n);
    return kv_key(e, text);
}

static struct kv_set set_of(struct span k, const char *value)
{
    return (struct kv_set){.key = k, .kind = PAYLOAD_JSON, .value = span_text(value)};
}

static struct op commit_op(const struct op_kv_commit *c)
{
    return (struct op){.kind = OP_KV_COMMIT, .kv_commit = *c};
}

/* Commits that set one key, with one member changed. */
#define SET(member, value, text)                                                                   \
    do {                                                                                           \
        struct kv_set set_ = set_of(kv_key(e, "[\"a\"]"), "1");                                    \
        set_.member = (value);                                                                     \
        TELLS(run(e, commit_op(&(struct op_kv_commit){.sets = &set_, .set_count = 1})), text);     \
    } while (0)

static const struct span not_keys[] = {
    {"", 0}, SPAN_LITERAL("a"), SPAN_LITERAL("\xff"), SPAN_LITERAL("\x02"), {"\0", 1},
};
#define NOT_KEYS (sizeof not_keys / sizeof not_keys[0])

static void values(struct env *e)
{
    SET(value, SPAN_LITERAL("0"), "ok version");
    const char *before = world(e);
    SET(expires_at.ms, -1, "invalid: expires_at must be a time before the year 10000;");
    SET(expires_at.ms, LIMIT_WALL_MS + 1,
        "invalid: expires_at must be a time before the year 10000;");
    SET(kind, 3, "invalid: the kind of a payload or result is none (0), json (1) or bytes (2);");
    SET(kind, PAYLOAD_NONE, "invalid: a payload or result of no kind cannot have bytes;");
    for (size_t i = 0; i < NOT_KEYS; i++) {
        struct span k = not_keys[i];
        struct kv_check check = {.key = k};
        SET(key, k, "invalid: a key is none;");
        TELLS(run(e, commit_op(&(struct op_kv_commit){.checks = &check, .check_count = 1})),
              "invalid: a key is none;");
        TELLS(run(e, commit_op(&(struct op_kv_commit){.deletes = &k, .delete_count = 1})),
              "invalid: a key is none;");
        TELLS(run(e, (struct op){.kind = OP_KV_GET, .kv_get = {.keys = &k, .count = 1}}),
              "invalid: a key is none;");
    }
    struct op good = enqueue_op("q");
    WITH(enqueue.extra.undelivered, SPAN_LITERAL("x"),
         "invalid: keys_if_undelivered must be 1 to 16 keys, each of them once;");
    UNCHANGED(before);
    SET(expires_at.ms, LIMIT_WALL_MS, "ok version");
    TELLS(run(e, commit_op(&(struct op_kv_commit){0})), "ok"); /* nothing to do is no error */
}

#define TOO_MANY                                                                                   \
    "invalid: a commit may have at most 1000 checks, sets and deletes, and 100 enqueues;"

static void counts(struct env *e)
{
    struct span *keys = arena_array(&e->arena, LIMIT_KV_KEYS + 1, sizeof *keys);
    struct kv_set *sets = arena_array(&e->arena, LIMIT_KV_KEYS + 1, sizeof *sets);
    struct kv_check *checks = arena_array(&e->arena, LIMIT_KV_KEYS + 1, sizeof *checks);
    struct op_enqueue *jobs = arena_array(&e->arena, LIMIT_KV_ENQUEUES + 1, sizeof *jobs);
    EXPECT(keys && sets && checks && jobs);
    for (unsigned i = 0; i <= LIMIT_KV_KEYS; i++) {
        keys[i] = numbered(e, i);
        sets[i] = set_of(keys[i], "1");
        checks[i] = (struct kv_check){.key = keys[i]};
    }
    for (unsigned i = 0; i <= LIMIT_KV_ENQUEUES; i++)
        jobs[i] = enqueue_op("q").enqueue;
    const char *before = world(e);
    struct op good = commit_op(
        &(struct op_kv_commit){.checks = checks, .sets = sets, .deletes = keys, .enqueues = jobs});
    WITH(kv_commit.set_count, LIMIT_KV_KEYS + 1, TOO_MANY);
    WITH(kv_commit.check_count, LIMIT_KV_KEYS + 1, TOO_MANY);
    WITH(kv_commit.delete_count, LIMIT_KV_KEYS + 1, TOO_MANY);
    WITH(kv_commit.enqueue_count, LIMIT_KV_ENQUEUES + 1, TOO_MANY);
    WITH(kv_commit.check_count, UINT32_MAX, TOO_MANY);
    good.kv_commit.check_count = good.kv_commit.set_count = 400;
    /* together */
    WITH(kv_commit.delete_count, 201, TOO_MANY);
    good = (struct op){.kind = OP_KV_GET, .kv_get = {.keys = keys}};
    WITH(kv_get.count, LIMIT_KV_KEYS + 1, "invalid: at most 1000 keys may be asked for at once;");
    UNCHANGED(before);
    WITH(kv_get.count, LIMIT_KV_KEYS, "ok keys=1000");
    WITH(kv_get.count, 0, "ok");
    good = commit_op(&(struct op_kv_commit){.sets = sets, .deletes = keys, .enqueues = jobs});
    WITH(kv_commit.set_count, LIMIT_KV_KEYS, "ok version");
    WITH(kv_commit.delete_count, LIMIT_KV_KEYS, "ok deleted=1000 version");
    EXPECT_OUT(run(e, commit_op(&(struct op_kv_commit){.enqueues = jobs,
                                                       .enqueue_count = LIMIT_KV_ENQUEUES})),
               OUT_OK);
    EXPECT_COUNTS("q", .ready = LIMIT_KV_ENQUEUES);
}

/* Everything is wrong; what is refused is put right, and the next refusal shows. */
static void order(struct env *e)
{
    struct kv_set sets[2] = {set_of(kv_key(e, "[\"a\"]"), "1"), set_of(kv_key(e, "[\"a\"]"), "2")};
    struct kv_check checks[2] = {{.key = kv_key(e, "[\"b\"]")}, {.key = kv_key(e, "[\"c\"]")}};
    struct span deletes[] = {kv_key(e, "[\"a\"]")};
    struct job_past past = {.state = STATE_READY};
    struct op_enqueue job = enqueue_op("q").enqueue;
    struct op_kv_commit c = {.sets = sets,
                             .checks = checks,
                             .deletes = deletes,
                             .enqueues = &job,
                             .set_count = 2,
                             .check_count = 2,
                             .enqueue_count = 1};
    EXPECT_OUT(run(e, commit_op(&(struct op_kv_commit){
                          .sets = &(struct kv_set){.key = checks[1].key}, .set_count = 1})),
               OUT_OK);
    job.past = &past;
    job.delay_ms = -1;
    sets[1].kind = 9;
    const char *before = world(e);
    TELLS(run(e, commit_op(&c)), "invalid: a commit cannot import jobs;");
    job.past = NULL;
    TELLS(run(e, commit_op(&c)),
          "invalid: the kind of a payload or result is none (0), json (1) or bytes (2);");
    sets[1].kind = PAYLOAD_JSON;
    TELLS(run(e, commit_op(&c)), "invalid: a commit may set or delete a key only once;");
    c.set_count = 1;
    c.delete_count = 1;
    /* set and deleted is twice, too */
    TELLS(run(e, commit_op(&c)), "invalid: a commit may set or delete a key only once;");
    c.delete_count = 0;
    TELLS(run(e, commit_op(&c)), "version version check 1 failed");
    c.check_count = 1;
    TELLS(run(e, commit_op(&c)), "invalid: delay_ms must be 0 or more; run_at must be a time "
                                 "before the year 10000; enqueue 0 failed");
    UNCHANGED(before);
    job.delay_ms = 0;
    TELLS(run(e, commit_op(&c)), "ok version ready created");
}

#define SHARED_KEY                                                                                 \
    "invalid: two enqueues of a commit must not share an idempotency key or a unique key; "        \
    "enqueue 1 failed"

/* --- enqueues of a commit --- */

/* The first that is refused is named, whatever sort of refusal it is; nothing is left behind. */
static void enqueues(struct env *e)
{
    struct queue_policy p = test_policy();
    p.capacity = 1;
    queue_make(e, "full", &p);
    name_job(e, "a", put_unique(e, "full", "u"));
    struct op_enqueue jobs[3] = {enqueue_op("new").enqueue, enqueue_op("full").enqueue,
                                 enqueue_op("full").enqueue};
    struct kv_set set = set_of(kv_key(e, "[\"a\"]"), "1");
    struct op_kv_commit c = {.sets = &set, .enqueues = jobs, .set_count = 1, .enqueue_count = 2};
    const char *before = world(e);
    TELLS(run(e, commit_op(&c)), "queue_full enqueue 1 failed");
    jobs[1].extra.unique = SPAN_LITERAL("u");
    TELLS(run(e, commit_op(&c)), "duplicate job=a ready enqueue 1 failed");
    jobs[1] = enqueue_op("other").enqueue;
    jobs[1].no_create = true;
    TELLS(run(e, commit_op(&c)), "no_queue enqueue 1 failed");
    jobs[1] = enqueue_op("full").enqueue;
    c.enqueue_count = 3;
    jobs[2].delay_ms = -1;
    /* values of all of them first, then room */
    TELLS(run(e, commit_op(&c)),
          "invalid: delay_ms must be 0 or more; run_at must be a time before the year 10000; "
          "enqueue 2 failed");
    jobs[2] = enqueue_op("-").enqueue;
    TELLS(run(e, commit_op(&c)), "invalid: a queue name must not start with '-'; enqueue 2 failed");
    UNCHANGED(before);
    /* Two that would have to be answered with each other. */
    jobs[0] = enqueue_op("q").enqueue;
    jobs[1] = enqueue_op("q").enqueue;
    c.enqueue_count = 2;
    jobs[0].extra.unique = jobs[1].extra.unique = SPAN_LITERAL("v");
    TELLS(run(e, commit_op(&c)), SHARED_KEY);
    jobs[1].unique_mode = UNIQUE_RETURN;
    TELLS(run(e, commit_op(&c)), SHARED_KEY);
    jobs[0].extra.unique.len = jobs[1].extra.unique.len = 0;
    jobs[0].idempotency_key = jobs[1].idempotency_key = SPAN_LITERAL("k");
    TELLS(run(e, commit_op(&c)), SHARED_KEY);
    UNCHANGED(before);
    jobs[1].idempotency_key = SPAN_LITERAL("l");
    TELLS(run(e, commit_op(&c)), "ok version ready created ready created");
    /* both are known; the key is set again */
    TELLS(run(e, commit_op(&c)), "ok version ready created repeat ready created repeat");
    jobs[1].fingerprint = 9;
    before = world(e);
    TELLS(run(e, commit_op(&c)), "key_reused enqueue 1 failed");
    UNCHANGED(before);
    EXPECT_COUNTS("q", .ready = 2);
}

static void few_queues(struct backend_config *c)
{
    c->queue_limits = (struct queue_limits){.max = 2, .implied_max = 2};
    c->capacity = 3;
    c->keys_max = 2;
}

/* New queues, jobs and keys of one commit count together. */
static void room_for_enqueues(struct env *e)
{
    struct op_enqueue jobs[4] = {enqueue_op("q").enqueue, enqueue_op("r").enqueue,
                                 enqueue_op("q").enqueue, enqueue_op("s").enqueue};
    struct op_kv_commit c = {.enqueues = jobs, .enqueue_count = 4};
    const char *before = world(e);
    TELLS(run(e, commit_op(&c)), "queues_full enqueue 3 failed");
    jobs[3].queue = SPAN_LITERAL("r");
    TELLS(run(e, commit_op(&c)), "server_full enqueue 3 failed");
    c.enqueue_count = 3;
    jobs[0].idempotency_key = SPAN_LITERAL("1");
    jobs[1].idempotency_key = SPAN_LITERAL("2");
    jobs[2].idempotency_key = SPAN_LITERAL("3");
    TELLS(run(e, commit_op(&c)), "keys_full enqueue 2 failed");
    UNCHANGED(before);
    jobs[2].idempotency_key.len = 0;
    TELLS(run(e, commit_op(&c)), "ok ready created ready created ready created");
    EXPECT_COUNTS("q", .ready = 2);
    EXPECT_COUNTS("r", .ready = 1);
}

#define KEYS_FULL "kv_full: the key-value store has reached its limit of keys (kv.keys);"

#define BYTES_FULL "kv_full: the key-value store has reached its limit of bytes (kv.bytes);"

static void two_keys(struct backend_config *c)
{
    c->kv_keys_max = 2;
    c->kv_bytes_max = 60;
}

static void room(struct env *e)
{
    struct kv_set sets[3] = {set_of(kv_key(e, "[\"a\"]"), "1"), set_of(kv_key(e, "[\"b\"]"), "1"),
                             set_of(kv_key(e, "[\"c\"]"), "1")};
    struct op_kv_commit c = {.sets = sets, .set_count = 3};
    const char *before = world(e);
    TELLS(run(e, commit_op(&c)), KEYS_FULL);
    UNCHANGED(before);
    c.set_count = 2;
    TELLS(run(e, commit_op(&c)), "ok version");
    c = (struct op_kv_commit){.sets = &sets[2], .set_count = 1};
    struct kv_check wrong = {.key = sets[0].key};
    before = world(e);
    TELLS(run(e, commit_op(&c)), KEYS_FULL);
    c.deletes = &sets[0].key;
    c.delete_count = 1;
    /* what a delete gives back comes too late */
    TELLS(run(e, commit_op(&c)), KEYS_FULL);
    c.checks = &wrong;
    c.check_count = 1;
    TELLS(run(e, commit_op(&c)), "version version check 0 failed"); /* versions first */
    c = (struct op_kv_commit){.sets = sets, .set_count = 1};
    sets[0].value = text_of(e, 60);
    TELLS(run(e, commit_op(&c)), BYTES_FULL);
    struct op_enqueue bad = {.delay_ms = -1};
    c.enqueues = &bad;
    c.enqueue_count = 1;
    /* room before the jobs */
    TELLS(run(e, commit_op(&c)), BYTES_FULL);
    UNCHANGED(before);
    sets[0].value = SPAN_LITERAL("2");
    c.enqueue_count = 0;
    TELLS(run(e, commit_op(&c)), "ok version"); /* one that is there needs no room */
    c = (struct op_kv_commit){.deletes = &sets[0].key, .delete_count = 1};
    TELLS(run(e, commit_op(&c)), "ok deleted=1 version");
    TELLS(run(e, commit_op(&c)), "ok");
    c = (struct op_kv_commit){.sets = &sets[2], .set_count = 1};
    TELLS(run(e, commit_op(&c)), "ok version");
}

/* Bounds that are no keys find nothing, or everything; none of them hurts. */
static void lists(struct env *e)
{
    SET(value, SPAN_LITERAL("0"), "ok version");
    struct op good = {.kind = OP_KV_LIST};
    for (size_t i = 0; i < NOT_KEYS; i++) {
        struct op op = good;
        op.kv_list.prefix = op.kv_list.from = op.kv_list.to = not_keys[i];
        EXPECT_OUT(run(e, op), OUT_OK);
        op.kv_list.after = not_keys[i];
        op.kv_list.reverse = true;
        EXPECT_OUT(run(e, op), OUT_OK);
    }
    WITH(kv_list.limit, 0, "ok keys=1");
    WITH(kv_list.limit, UINT32_MAX, "ok keys=1");
    WITH(kv_list.prefix, kv_key(e, "[\"b\"]"), "ok");
    WITH(kv_list.from, kv_key(e, "[\"b\"]"), "ok");
    WITH(kv_list.to, kv_key(e, "[\"a\"]"), "ok");
}

static const struct conform_case cases[] = {
    CASE("HF-27 keys: values out of bounds, and what is no key", values, EXACT),
    CASE("HF-27 keys: how many in one commit", counts, EXACT),
    CASE("HF-27 keys: which refusal of a commit comes first", order, EXACT),
    CASE("HF-27 keys: a commit whose enqueues are refused", enqueues, EXACT),
    CASE("HF-27 keys: a commit with more jobs than there is room for", room_for_enqueues, EXACT,
         few_queues),
    CASE("HF-27 keys: a full store", room, EXACT, two_keys),
    CASE("HF-27 keys: bounds of a list that are no keys", lists, EXACT),
};
TOPIC(topic_refuse_kv, cases, NEEDS_KV | NEEDS_ONE_STORE);
