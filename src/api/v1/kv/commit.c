/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/kv/commit.h"

#include "api/json_members.h"
#include "api/v1/jobs/job_view.h"
#include "base/digest/base64.h"

#define BASE64_MAX ((LIMIT_PAYLOAD_BYTES + 2) / 3 * 4)

/* ---- the request ---- */

struct set_in {
    struct span key, value, text, base64;
    struct wall_time expires_at;
    int64_t expires_in_ms;
};

struct check_in {
    struct span key;
    int64_t version; /* VERSION_MAX + 1: null, the key must not exist */
};

#define SET_AT(member) offsetof(struct set_in, member)
static const struct field set_rows[] = {
    {"key", FIELD_KV_KEY, SET_AT(key), 1, 0, NULL, FIELD_REQUIRED},
    {"value", FIELD_RAW, SET_AT(value), 0, 0, NULL, 0},
    {"value_text", FIELD_TEXT, SET_AT(text), 0, LIMIT_PAYLOAD_BYTES, NULL, 0},
    {"value_base64", FIELD_TEXT, SET_AT(base64), 0, BASE64_MAX, NULL, 0},
    {"expires_at", FIELD_TIME, SET_AT(expires_at), 0, 0, NULL, 0},
    {"expires_in_ms", FIELD_INT, SET_AT(expires_in_ms), 1, LIMIT_WALL_MS, NULL, 0},
};

static const struct field check_rows[] = {
    {"key", FIELD_KV_KEY, offsetof(struct check_in, key), 1, 0, NULL, FIELD_REQUIRED},
    {"version", FIELD_INT, offsetof(struct check_in, version), 1, VERSION_MAX + 1, NULL,
     FIELD_REQUIRED | FIELD_NULLABLE},
};

static const struct field commit_rows[] = {
    COMMIT_ROW(checks, FIELD_OBJECTS, 0, LIMIT_KV_KEYS, 0),
    HANDOFF_ROWS(0, 0),
};

/* The request from which a commit is built. */
struct commit {
    struct native *n;
    struct http_exchange *x;
    struct arena *arena;
    struct problem *problem;
    struct op_kv_commit *op;
};

static int no_memory(struct commit *c)
{
    problem_of_error(c->problem, -ERR_NOMEM);
    return -ERR_INVALID;
}

struct wall_time commit_expiry(struct wall_time now, int64_t ms)
{
    int64_t left = LIMIT_WALL_MS - 1 - now.ms;
    return (struct wall_time){now.ms + (ms < left ? ms : left)};
}

/* Reads JSON, or bytes in the form that views have. */
static int take_value(struct field_reader *r, const struct set_in *in, struct kv_set *ret)
{
    bool json = fields_has(r, "value"), text = fields_has(r, "value_text");
    size_t len = 0;
    if (fields_exclude(r, "value", "value_text") < 0 ||
        fields_exclude(r, "value", "value_base64") < 0 ||
        fields_exclude(r, "value_text", "value_base64") < 0)
        return -ERR_INVALID;
    ret->kind = json ? PAYLOAD_JSON : PAYLOAD_BYTES;
    ret->value = json ? in->value : in->text;
    if (json || text)
        return 0;
    if (!fields_has(r, "value_base64")) {
        problem_set(r->problem, r->arena, PROBLEM_MISSING_FIELD, "value", "value is missing");
        return -ERR_INVALID;
    }
    char *bytes = arena_alloc(r->arena, base64_decoded_max(in->base64.len) + 1);
    if (!bytes) {
        problem_of_error(r->problem, -ERR_NOMEM);
        return -ERR_INVALID;
    }
    ret->value = span_of(bytes, 0);
    if (base64_decode(in->base64, bytes, &len) < 0) {
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "value_base64",
                    "value_base64 is not base 64 with padding (RFC 4648)");
        return -ERR_INVALID;
    }
    ret->value.len = len;
    return 0;
}

static int take_set(struct commit *c, struct span text, struct kv_set *ret)
{
    struct set_in in = {0};
    struct field_reader r = reader_of(c->n->broker, c->x, FIELDS(set_rows), &in, c->problem);
    int err = fields_read(&r, text);
    if (err == 0)
        err = fields_exclude(&r, "expires_at", "expires_in_ms");
    *ret = (struct kv_set){.key = in.key, .expires_at = in.expires_at};
    if (err == 0)
        err = take_value(&r, &in, ret);
    if (err == 0 && in.expires_in_ms > 0)
        ret->expires_at = commit_expiry(broker_now(c->n->broker).wall, in.expires_in_ms);
    return err;
}

static int take_check(struct commit *c, struct span text, struct kv_check *ret)
{
    struct check_in in = {0};
    struct field_reader r = reader_of(c->n->broker, c->x, FIELDS(check_rows), &in, c->problem);
    int err = fields_read(&r, text);
    *ret = (struct kv_check){.key = in.key,
                             .version = in.version > VERSION_MAX ? 0 : (uint64_t)in.version};
    return err;
}

/* Says which element of the list has the problem. */
static int in_element(struct commit *c, const char *list, size_t index, int err)
{
    struct problem named;
    if (err == 0)
        return 0;
    problem_set(&named, c->arena, c->problem->code, NULL, "%s[%zu]: %s", list, index,
                problem_sentence(c->problem));
    c->problem->detail = named.detail;
    return err;
}

static int take_sets(struct commit *c, struct texts_in from)
{
    struct kv_set *sets = arena_array(c->arena, from.count + 1, sizeof *sets);
    int err = sets ? 0 : no_memory(c);
    for (size_t i = 0; err == 0 && i < from.count; i++)
        err = in_element(c, "sets", i, take_set(c, from.list[i], &sets[i]));
    c->op->sets = sets;
    c->op->set_count = (uint32_t)from.count;
    return err;
}

static int take_checks(struct commit *c, struct texts_in from)
{
    struct kv_check *checks = arena_array(c->arena, from.count + 1, sizeof *checks);
    int err = checks ? 0 : no_memory(c);
    for (size_t i = 0; err == 0 && i < from.count; i++)
        err = in_element(c, "checks", i, take_check(c, from.list[i], &checks[i]));
    c->op->checks = checks;
    c->op->check_count = (uint32_t)from.count;
    return err;
}

static int take_enqueues(struct commit *c, struct texts_in from)
{
    struct op_enqueue *jobs = arena_array(c->arena, from.count + 1, sizeof *jobs);
    int err = jobs ? 0 : no_memory(c);
    for (size_t i = 0; err == 0 && i < from.count; i++)
        err = in_element(c, "enqueues", i,
                         enqueue_read(c->n, c->x, from.list[i], &jobs[i], c->problem));
    c->op->enqueues = jobs;
    c->op->enqueue_count = (uint32_t)from.count;
    return err;
}

int commit_read(struct native *n, struct http_exchange *x, const struct commit_in *in,
                struct op_kv_commit *ret, struct problem *problem)
{
    struct commit c = {
        .n = n, .x = x, .arena = http_request(x)->arena, .problem = problem, .op = ret};
    int err = take_checks(&c, in->checks);
    if (err == 0)
        err = take_sets(&c, in->sets);
    if (err == 0)
        err = take_enqueues(&c, in->enqueues);
    ret->deletes = in->deletes.list;
    ret->delete_count = (uint32_t)in->deletes.count;
    return err;
}

static int take_commit(struct call *c, struct native *n, struct problem *p)
{
    struct commit_in in = {0};
    struct field_reader r = reader_of(n->broker, c->x, FIELDS(commit_rows), &in, p);
    int err = fields_read(&r, http_request(c->x)->body);
    if (err == 0 && r.seen == 0) {
        problem_set(p, c->arena, PROBLEM_MISSING_FIELD, NULL,
                    "a commit needs at least one of checks, sets, deletes and enqueues");
        err = -ERR_INVALID;
    }
    return err ? err : commit_read(n, c->x, &in, &c->op.kv_commit, p);
}

/* ---- the answer ---- */

void commit_write(struct json_writer *w, const struct kv_commit_reply *r)
{
    json_write_key(w, "version");
    if (r->version)
        json_write_uint(w, r->version);
    else
        json_write_null(w);
    write_uint(w, "deleted", r->deleted);
    if (r->enqueued_count == 0)
        return;
    write_array(w, "jobs");
    for (uint32_t i = 0; i < r->enqueued_count; i++)
        enqueued_write(w, &r->enqueued[i]);
    json_write_array_end(w);
}

const struct kv_commit_reply *commit_keep(struct arena *arena, const struct kv_commit_reply *r)
{
    struct kv_commit_reply *copy = arena_copy(arena, r, sizeof *r);
    struct enqueued_view *views = arena_array(arena, (size_t)r->enqueued_count + 1, sizeof *views);
    if (!copy || !views)
        return NULL;
    for (uint32_t i = 0; i < r->enqueued_count; i++)
        views[i] = r->enqueued[i];
    copy->enqueued = views;
    return copy;
}

static struct kv_commit_reply part_of(const struct reply *r)
{
    return (struct kv_commit_reply){.version = r->version,
                                    .deleted = r->deleted,
                                    .failed = r->failed,
                                    .failed_enqueue = r->failed_enqueue,
                                    .enqueued_count = r->enqueued_count,
                                    .enqueued = r->enqueued};
}

static void committed(struct call *c, const struct reply *r)
{
    struct json_writer w;
    struct kv_commit_reply part = part_of(r);
    answer_object_begin(c->x, &w);
    commit_write(&w, &part);
    answer_object_end(c->x, &w, 200);
}

/* Puts the check or enqueue that failed before the sentence; the other members stay. */
void commit_problem(struct problem *p, struct arena *arena, const struct reply *r,
                    const struct kv_commit_reply *c, bool draining)
{
    struct problem named = {0};
    problem_of_reply(p, arena, r, draining);
    if (r->outcome == OUT_VERSION)
        problem_set(&named, arena, p->code, "checks",
                    "checks[%u]: the key has %s%.0llu; nothing was changed", c->failed,
                    c->version ? "version " : "no value", (unsigned long long)c->version);
    else if (c->failed_enqueue)
        problem_set(&named, arena, p->code, "enqueues", "enqueues[%u]: %s", c->failed,
                    problem_sentence(p));
    if (named.field) {
        p->field = named.field;
        p->detail = named.detail;
    }
}

static void commit_reply(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct kv_commit_reply part = part_of(r);
    struct problem p;
    if (r->outcome == OUT_OK) {
        c->done(c, r);
        return;
    }
    commit_problem(&p, c->arena, r, &part, broker_draining(c->broker));
    problem_answer(c->x, &p);
}

void commit_submit(struct call *c)
{
    call_ask(c, commit_reply);
}

void kv_commit_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct problem p;
    if (!query_none(n->broker, x))
        return;
    struct call *c = call_new(n->broker, n, x, OP_KV_COMMIT, committed);
    if (!c)
        return;
    if (take_commit(c, n, &p) < 0)
        problem_answer(x, &p);
    else
        commit_submit(c);
}
