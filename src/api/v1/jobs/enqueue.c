/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/queues/{queue}/jobs: one job, an array, NDJSON, or raw bytes with options in the
 * query.
 *
 * Broken JSON refuses the whole request before anything is enqueued, so an array is first split
 * into its elements and then turned into operations. */
#include <inttypes.h>
#include <stdio.h>

#include "api/content.h"
#include "api/fields/job_option_fields.h"
#include "api/fields/job_text_fields.h"
#include "api/json_members.h"
#include "api/kv_keys.h"
#include "api/trace.h"
#include "api/v1/jobs/batches.h"
#include "api/v1/jobs/depends.h"
#include "core/limits.h"
#include "core/validate.h"

struct job_in {
    struct job_texts; /* its members are members of this struct */
    struct span payload;
    struct priority_in priority;
    int64_t delay_ms, expires_in_ms;
    struct wall_time run_at, expires_at;
    struct span key;
    struct texts_in undelivered;
    struct span queue;
    uint8_t unique_mode, dependency_rule;
    struct texts_in depends;
    struct job_options_in options;
};

static const char *const unique_modes[] = {"reject", "return", "replace", NULL};

#define AT(member) offsetof(struct job_in, member)
static const struct field job_rows[] = {
    {"payload", FIELD_RAW, AT(payload), 0, 0, NULL, 0},
    {"priority", FIELD_PRIORITY, AT(priority), 0, 0, NULL, 0},
    {"delay_ms", FIELD_INT, AT(delay_ms), 0, LIMIT_WALL_MS, NULL, 0},
    {"run_at", FIELD_TIME, AT(run_at), 0, 0, NULL, 0},
    JOB_TEXT_FIELDS JOB_OPTION_FIELDS /* of the job */
    {"unique_mode", FIELD_ENUM, AT(unique_mode), UNIQUE_REJECT, 0, unique_modes, 0},
    {"backoff_ms", FIELD_STEPS, AT(options.backoff), 0, 0, NULL, 0},
    {"expires_at", FIELD_TIME, AT(expires_at), 0, 0, NULL, 0},
    {"expires_in_ms", FIELD_INT, AT(expires_in_ms), 1, LIMIT_WALL_MS, NULL, 0},
    {"idempotency_key", FIELD_TEXT, AT(key), 0, LIMIT_IDEMPOTENCY_KEY_BYTES, NULL, 0},
    {"keys_if_undelivered", FIELD_KV_KEYS, AT(undelivered), 0, LIMIT_KV_UNDELIVERED, NULL, 0},
    {"depends_on", FIELD_TEXTS, AT(depends), 0, LIMIT_DEPENDENCIES, NULL, FIELD_EMPTY},
    {"on_dependency_failure", FIELD_ENUM, AT(dependency_rule), 0, 0, dependency_rules, 0},
    /* The last row is only for commits; elsewhere the queue is in the path. */
    {"queue", FIELD_TEXT, AT(queue), 0, LIMIT_QUEUE_NAME_BYTES, NULL, FIELD_REQUIRED},
};

static struct fields job_fields(void)
{
    struct fields f = FIELDS(job_rows);
    f.count--;
    return f;
}

/* The request from which a batch is built. */
struct enqueue {
    struct native *n;
    struct http_exchange *x;
    const struct http_request *request;
    struct span queue, key;
    bool refs; /* jobs of the request depend on each other */
    struct problem problem;
};

/* ---- one job ---- */

/* Constant: a fingerprint must be the same when the request is repeated after a restart. It
 * detects mistakes of the client that uses the key, not attacks. */
static const struct hash_key fingerprint_key = {0x686f6c6466617374, 0x6a6f622066696e67};

static uint64_t fingerprint_of(const struct enqueue *e, struct span options, struct span body)
{
    uint64_t scope = hash128_of(fingerprint_key, e->queue).lo;
    if (options.len > 0)
        scope = hash128_scoped(fingerprint_key, scope, options).lo;
    return hash128_scoped(fingerprint_key, scope, body).lo;
}

/* The key of the job, or else that of the request: unchanged for a single job, else with the
 * job's index. */
static int key_of(const struct enqueue *e, struct span own, size_t index, bool many,
                  struct span *ret)
{
    char suffix[24];
    *ret = own.len > 0 ? own : e->key;
    if (own.len > 0 || e->key.len == 0 || !many)
        return 0;
    int len = snprintf(suffix, sizeof suffix, "/%zu", index);
    char *text = arena_alloc(e->request->arena, e->key.len + (size_t)len);
    if (!text)
        return -ERR_NOMEM;
    memcpy(text, e->key.at, e->key.len);
    memcpy(text + e->key.len, suffix, (size_t)len);
    *ret = span_of(text, e->key.len + (size_t)len);
    return 0;
}

static int check_pairs(const struct field_reader *r)
{
    int err;
    if ((err = fields_exclude(r, "delay_ms", "run_at")) < 0 ||
        (err = fields_exclude(r, "expires_at", "expires_in_ms")) < 0)
        return err;
    return fields_exclude(r, "backoff_ms", "backoff");
}

/* op->options is NULL if the job has no options. */
static int take_options(const struct field_reader *r, const struct job_in *in,
                        struct op_enqueue *op)
{
    struct job_options o =
        job_options_of(&in->options, fields_has(r, "backoff_ms") || fields_has(r, "backoff"));
    if (options_empty(&o))
        return 0;
    op->options = arena_copy(r->arena, &o, sizeof o);
    if (op->options)
        return 0;
    problem_of_error(r->problem, -ERR_NOMEM);
    return -ERR_INVALID;
}

static struct wall_time later(struct wall_time now, int64_t ms)
{
    int64_t left = LIMIT_WALL_MS - 1 - now.ms;
    return (struct wall_time){now.ms + (ms < left ? ms : left)};
}

static int take_job(struct enqueue *e, const struct field_reader *r, const struct job_in *in,
                    struct op_enqueue *op)
{
    int err = check_pairs(r);
    if (err == 0 && fields_has(r, "idempotency_key") && in->key.len == 0) {
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "idempotency_key",
                    "idempotency_key is empty; it must have 1 to %d bytes",
                    LIMIT_IDEMPOTENCY_KEY_BYTES);
        err = -ERR_INVALID;
    }
    if (err < 0)
        return err;
    op->queue = e->queue;
    op->has_priority = fields_has(r, "priority");
    op->priority = in->priority.value;
    op->delay_ms = in->delay_ms;
    op->run_at = in->run_at;
    op->unique_mode = in->unique_mode;
    op->extra = (struct job_extra){.expires_at = in->expires_at};
    job_texts_set(&op->extra, in);
    if (in->label.len == 0)
        op->extra.label = in->priority.label;
    if (trace_copy(e->request, &op->extra.headers) < 0) {
        problem_of_error(r->problem, -ERR_NOMEM);
        return -ERR_INVALID;
    }
    if (fields_has(r, "expires_in_ms"))
        op->extra.expires_at = later(broker_now(e->n->broker).wall, in->expires_in_ms);
    if (in->undelivered.count > 0 &&
        kv_keys_pack(r->arena, in->undelivered, &op->extra.undelivered) < 0) {
        problem_of_error(r->problem, -ERR_NOMEM);
        return -ERR_INVALID;
    }
    bool refs;
    err = depends_take(r, in->depends, in->dependency_rule, op, &refs);
    e->refs |= refs;
    return err < 0 ? err : take_options(r, in, op);
}

/* Adds the object `text` as operation number `index` of the batch, or its problem. */
static void add_object(struct enqueue *e, struct batch *b, size_t index, struct span text)
{
    struct job_in in = {0};
    struct op_enqueue *op = &batch_op(b, index, OP_ENQUEUE)->enqueue;
    struct field_reader r = reader_of(e->n->broker, e->x, job_fields(), &in, &e->problem);
    int err = fields_read(&r, text);
    if (err == 0)
        err = take_job(e, &r, &in, op);
    if (err == 0 && key_of(e, in.key, index, b->many, &op->idempotency_key) < 0) {
        problem_of_error(&e->problem, -ERR_NOMEM);
        err = -ERR_INVALID;
    }
    if (err < 0) {
        /* The graph that it belongs to must not be enqueued without it. */
        e->refs |= b->many && depends_has_refs(e->request->arena, text);
        batch_refuse(b, index, &e->problem);
        return;
    }
    if (in.payload.len > 0) {
        op->payload_kind = PAYLOAD_JSON;
        op->payload = in.payload;
    }
    if (op->idempotency_key.len > 0)
        op->fingerprint = fingerprint_of(e, span_of(NULL, 0), text);
}

int enqueue_read(struct native *n, struct http_exchange *x, struct span text, struct op_enqueue *op,
                 struct problem *problem)
{
    struct job_in in = {0};
    struct err_note note;
    struct field_reader r = reader_of(n->broker, x, FIELDS(job_rows), &in, problem);
    int err = fields_read(&r, text);
    if (err == 0 && validate_queue_name(in.queue, &note) < 0) {
        problem_set(problem, r.arena, PROBLEM_INVALID_FIELD, "queue", "%s", note.text);
        err = -ERR_INVALID;
    }
    struct enqueue e = {.n = n, .x = x, .request = http_request(x), .queue = in.queue};
    if (err == 0)
        err = take_job(&e, &r, &in, op);
    if (err < 0)
        return err;
    if (in.payload.len > 0) {
        op->payload_kind = PAYLOAD_JSON;
        op->payload = in.payload;
    }
    op->idempotency_key = in.key;
    if (in.key.len > 0)
        op->fingerprint = fingerprint_of(&e, span_of(NULL, 0), text);
    return 0;
}

int enqueue_check_key(struct span key, struct err_note *note)
{
    if (key.len == 0)
        return err_note_set(note, -ERR_INVALID,
                            "Idempotency-Key is empty; it must have 1 to %d bytes",
                            LIMIT_IDEMPOTENCY_KEY_BYTES);
    return validate_text("Idempotency-Key", key, LIMIT_IDEMPOTENCY_KEY_BYTES, note);
}

void enqueue_set_key(struct op_enqueue *op, struct span key, struct span text)
{
    struct enqueue e = {.queue = op->queue};
    op->idempotency_key = key;
    op->fingerprint = fingerprint_of(&e, span_of(NULL, 0), text);
}

void enqueue_scope_key(struct op_enqueue *op, uint64_t scope)
{
    if (op->idempotency_key.len > 0)
        op->fingerprint =
            hash128_scoped(fingerprint_key, op->fingerprint, span_of(&scope, sizeof scope)).lo;
}

/* Adds a job whose payload is the body. */
static void add_bytes(struct enqueue *e, struct batch *b)
{
    struct job_in in = {0};
    struct op_enqueue *op = &batch_op(b, 0, OP_ENQUEUE)->enqueue;
    struct field_reader r = reader_of(e->n->broker, e->x, job_fields(), &in, &e->problem);
    int err = fields_read_query(&r, e->request->query);
    if (err == 0)
        err = take_job(e, &r, &in, op);
    if (err < 0) {
        batch_refuse(b, 0, &e->problem);
        return;
    }
    op->payload_kind = PAYLOAD_BYTES;
    op->payload = e->request->body;
    op->idempotency_key = in.key.len > 0 ? in.key : e->key;
    if (op->idempotency_key.len > 0)
        op->fingerprint = fingerprint_of(e, e->request->query, e->request->body);
}

/* ---- the answer ---- */

static void write_enqueued(const struct batch *b, struct json_writer *w,
                           const struct batch_item *item)
{
    (void)b;
    write_job_name(w, item->id_hi, item->seq);
    write_text(w, "state", state_name(item->state));
    write_bool(w, "created", item->created);
    if (!item->created)
        write_id(w, "duplicate_of", item->id_hi, item->seq);
    if (item->replaced_seq != 0)
        write_uint(w, "replaced", item->replaced_seq);
    write_time_if(w, "run_at", item->run_at);
}

/* ---- the forms of a request ---- */

static void refuse(struct enqueue *e)
{
    problem_answer(e->x, &e->problem);
}

static void enqueue_one(struct enqueue *e, bool bytes)
{
    struct batch *b = batch_new(e->n, e->x, 1, false, write_enqueued);
    if (!b)
        return;
    if (bytes)
        add_bytes(e, b);
    else
        add_object(e, b, 0, e->request->body);
    batch_submit(b);
}

static void enqueue_many(struct enqueue *e, const struct pieces *pieces)
{
    struct batch *b = batch_new(e->n, e->x, pieces->count, true, write_enqueued);
    if (!b)
        return;
    for (size_t i = 0; i < pieces->count; i++)
        add_object(e, b, i, pieces->list[i]);
    if (e->refs)
        batch_commit(b);
    else
        batch_submit(b);
}

static size_t keys_given(const struct http_request *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->header_count; i++)
        n += http_name_equal(r->headers[i].name, "idempotency-key");
    return n;
}

static bool take_key(struct enqueue *e)
{
    struct err_note note;
    e->key = http_request_header(e->request, "idempotency-key");
    if (e->key.at && keys_given(e->request) > 1) {
        problem_set(&e->problem, e->request->arena, PROBLEM_INVALID_FIELD, "Idempotency-Key",
                    "Idempotency-Key is given more than once; give one for the whole request");
        return false;
    }
    if (e->key.at && e->key.len == 0) {
        problem_set(&e->problem, e->request->arena, PROBLEM_INVALID_FIELD, "Idempotency-Key",
                    "Idempotency-Key is empty; it must have 1 to %d bytes",
                    LIMIT_IDEMPOTENCY_KEY_BYTES);
        return false;
    }
    if (validate_text("Idempotency-Key", e->key, LIMIT_IDEMPOTENCY_KEY_BYTES, &note) == 0)
        return true;
    problem_set(&e->problem, e->request->arena, PROBLEM_INVALID_FIELD, "Idempotency-Key", "%s",
                note.text);
    return false;
}

/* The options of JSON jobs are in the body; a query would be ignored silently. */
static bool refuse_query(struct enqueue *e)
{
    struct problem *p = &e->problem;
    struct field_reader r = reader_of(e->n->broker, e->x, (struct fields){0}, NULL, p);
    return fields_read_query(&r, e->request->query) < 0;
}

void enqueue_handle(void *ctx, struct http_exchange *x)
{
    struct enqueue e = {.n = ctx, .x = x, .request = http_request(x)};
    struct pieces pieces = {0};
    if (!path_queue(x, &e.queue))
        return;
    enum content_form form = content_form(e.request);
    if (!take_key(&e) || (form != CONTENT_BYTES && refuse_query(&e))) {
        refuse(&e);
        return;
    }
    if (form == CONTENT_BYTES || form == CONTENT_OBJECT)
        enqueue_one(&e, form == CONTENT_BYTES);
    else if (content_pieces(e.request, form, LIMIT_BATCH, &pieces, &e.problem) < 0)
        refuse(&e);
    else
        enqueue_many(&e, &pieces);
}
