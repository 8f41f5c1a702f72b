/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: enqueue, listen, poll, ack, nack, counts. */
#include "api/claim_hold.h"
#include "api/json_members.h"
#include "api/keyval/keyval_impl.h"
#include "api/kv_keys.h"
#include "api/trace.h"
#include "core/limits.h"
#include "core/validate.h"

#define PREFETCH 10
#define KEY_BYTES_MAX 200

static const struct field queue_rows[] = {QUEUE_ROW};

/* ---- enqueue ---- */

struct message_in {
    struct span value, options;
};

static const struct field message_rows[] = {
    {"value", FIELD_RAW, offsetof(struct message_in, value), 0, 0, NULL, FIELD_REQUIRED},
    {"options", FIELD_RAW, offsetof(struct message_in, options), 0, 0, NULL, 0},
};

struct options_in {
    struct span queue;
    int64_t delay;
    struct backoff backoff;
    struct texts_in keys;
    struct priority_in priority;
};

#define AT(member) offsetof(struct options_in, member)
static const struct field option_rows[] = {
    {"delay", FIELD_INT, AT(delay), 0, LIMIT_WALL_MS, NULL, 0},
    {"backoffSchedule", FIELD_STEPS, AT(backoff), 0, 0, NULL, 0},
    {"keysIfUndelivered", FIELD_KV_KEYS, AT(keys), 0, LIMIT_KV_UNDELIVERED, NULL, 0},
    {"priority", FIELD_PRIORITY, AT(priority), 0, 0, NULL, 0},
    {"queue", FIELD_TEXT, AT(queue), 0, LIMIT_QUEUE_NAME_BYTES, NULL, 0},
};

/* N delays are N retries, and therefore N + 1 deliveries. */
static int take_schedule(struct field_reader *r, const struct backoff *schedule,
                         struct op_enqueue *op)
{
    struct job_options *o = arena_array(r->arena, 1, sizeof *o);
    if (!o) {
        problem_of_error(r->problem, -ERR_NOMEM);
        return -ERR_INVALID;
    }
    o->max_attempts = (uint16_t)(schedule->step_count + 1);
    o->has_backoff = true;
    o->backoff = *schedule;
    op->options = o;
    return 0;
}

/* Checks what the backend would otherwise refuse with other terms. */
static int check_options(const struct field_reader *r, const struct options_in *in)
{
    struct err_note note;
    if (validate_queue_name(in->queue, &note) != 0) {
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "queue", "%s", note.text);
        return -ERR_INVALID;
    }
    for (size_t i = 1; i < in->keys.count; i++)
        for (size_t k = 0; k < i; k++)
            if (span_equal(in->keys.list[i], in->keys.list[k])) {
                problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "keysIfUndelivered",
                            "keysIfUndelivered[%zu] is the same key as [%zu]; name each once", i,
                            k);
                return -ERR_INVALID;
            }
    return 0;
}

static int take_options(struct field_reader *r, struct span text, bool by_query,
                        struct op_enqueue *op)
{
    struct options_in in = {.queue = op->queue};
    struct span asked = op->queue; /* from ?queue=, or `keyval` */
    struct field_reader inner = *r;
    inner.table = FIELDS(option_rows);
    inner.into = &in;
    inner.name = "options";
    int err = fields_read(&inner, text);
    if (err == 0)
        err = check_options(&inner, &in);
    if (err == 0 && by_query && fields_has(&inner, "queue") && !span_equal(in.queue, asked)) {
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "queue",
                    "options.queue and ?queue= name different queues; name one");
        err = -ERR_INVALID;
    }
    if (err < 0)
        return err;
    op->queue = in.queue;
    op->delay_ms = in.delay;
    op->has_priority = fields_has(&inner, "priority");
    op->priority = in.priority.value;
    op->extra.label = in.priority.label;
    if (in.keys.count > 0 && kv_keys_pack(r->arena, in.keys, &op->extra.undelivered) < 0) {
        problem_of_error(r->problem, -ERR_NOMEM);
        return -ERR_INVALID;
    }
    return fields_has(&inner, "backoffSchedule") ? take_schedule(&inner, &in.backoff, op) : 0;
}

/* As in /v1, a repeated request with the same key is the same message. */
static int take_key(struct field_reader *r, const struct http_request *request,
                    struct op_enqueue *op)
{
    static const struct hash_key fingerprint_key = {0x6b657976616c2031, 0x66696e6765727072};
    struct span key = http_request_header(request, "idempotency-key");
    if (key.at && (key.len == 0 || key.len > KEY_BYTES_MAX)) {
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "Idempotency-Key",
                    "Idempotency-Key must have 1 to %d bytes", KEY_BYTES_MAX);
        return -ERR_INVALID;
    }
    op->idempotency_key = key;
    if (key.len > 0)
        op->fingerprint = hash128_of(fingerprint_key, request->body).lo;
    return 0;
}

static void enqueued(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_bool(&w, "ok", true);
    write_id(&w, "id", r->id_hi, r->seq);
    if (c->spooled)
        write_bool(&w, "spooled", true);
    answer_object_end(c->x, &w, 200);
}

void keyval_enqueue_handle(void *ctx, struct http_exchange *x)
{
    struct keyval *k = ctx;
    struct message_in in = {0};
    struct queue_in queue;
    struct problem p;
    if (!keyval_query(k, x, FIELDS(queue_rows), &queue))
        return;
    struct field_reader r = reader_of(k->broker, x, FIELDS(message_rows), &in, &p);
    struct call *c = keyval_call(k, x, OP_ENQUEUE, enqueued);
    if (!c)
        return;
    struct op_enqueue *op = &c->op.enqueue;
    op->queue = queue.queue;
    int err = fields_read(&r, http_request(x)->body);
    if (err == 0 && in.options.len > 0)
        err = take_options(&r, in.options, http_request(x)->query.len > 0, op);
    if (err == 0)
        err = take_key(&r, http_request(x), op);
    if (err == 0 && (err = trace_copy(http_request(x), &op->extra.headers)) < 0)
        problem_of_error(&p, err);
    op->payload_kind = PAYLOAD_JSON;
    op->payload = in.value;
    if (err < 0)
        problem_answer(x, &p);
    else
        keyval_enqueue(c);
}

/* ---- messages go out ---- */

static void write_message(struct json_writer *w, const struct job_view *v)
{
    json_write_object(w);
    write_id(w, "id", v->job.id_hi, v->job.seq);
    json_write_key(w, "value");
    keyval_write_value(w, v->job.payload_kind, v->payload);
    write_uint(w, "attempts", job_attempts(&v->job));
    json_write_object_end(w);
}

struct listen_in {
    struct queue_in in;
    int64_t prefetch;
    struct span worker;
};

static const struct field listen_rows[] = {
    {"prefetch", FIELD_INT, offsetof(struct listen_in, prefetch), 1, LIMIT_BATCH, NULL, 0},
    {"worker", FIELD_TEXT, offsetof(struct listen_in, worker), 0, LIMIT_WORKER_BYTES, NULL, 0},
    QUEUE_ROW,
};

static bool message_cb(void *ctx, const struct job_view *job)
{
    struct stream *s = ctx;
    struct json_writer w;
    char id[ID_ULID_BYTES];
    if (!http_stream_room(s->x, job->payload.len))
        return false;
    id_ulid(id_make(job->job.id_hi, job->job.seq), id);
    stream_frame_begin(s, "message", id, &w);
    write_message(&w, job);
    return stream_frame_send(s, &w);
}

void keyval_listen_handle(void *ctx, struct http_exchange *x)
{
    struct keyval *k = ctx;
    struct listen_in in = {.prefetch = PREFETCH};
    if (!keyval_query(k, x, FIELDS(listen_rows), &in.in))
        return;
    stream_jobs(&k->streams, x,
                (struct broker_stream_config){.queue = in.in.queue,
                                              .worker = in.worker,
                                              .prefetch = (uint32_t)in.prefetch,
                                              .job = message_cb});
}

struct poll {
    struct claim_hold hold;
    struct queue_in in;
};

static void poll_reply(void *ctx, const struct reply *r)
{
    struct poll *p = ctx;
    struct http_exchange *x = p->hold.x;
    struct json_writer w;
    p->hold.parked = NULL;
    if (r->outcome != OUT_OK && r->outcome != OUT_NO_QUEUE) {
        claim_hold_refuse(&p->hold, r, &keyval_terms);
        return;
    }
    answer_object_begin(x, &w);
    json_write_key(&w, "message");
    if (r->job_count > 0) {
        claim_hold_job(&p->hold, &r->jobs[0]);
        write_message(&w, &r->jobs[0]);
    } else {
        json_write_null(&w);
    }
    json_write_object_end(&w);
    claim_hold_answer(&p->hold, &w);
}

void keyval_poll_handle(void *ctx, struct http_exchange *x)
{
    struct keyval *k = ctx;
    struct poll *p = arena_array(http_request(x)->arena, 1, sizeof *p);
    if (!p) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    if (!keyval_query(k, x, FIELDS(queue_rows), &p->in))
        return;
    p->hold = (struct claim_hold){.broker = k->broker, .x = x};
    struct op_claim want = {
        .queues = &p->in.queue, .queue_count = 1, .count = 1, .want_body = true};
    claim_hold_begin(&p->hold, &want, poll_reply, p);
}

/* ---- ack and nack ---- */

struct end_in {
    struct span id;
    struct job_token token;
    struct span error;
    int64_t delay;
};

#define END_AT(member) offsetof(struct end_in, member)
static const struct field end_rows[] = {
    {"id", FIELD_TEXT, END_AT(id), 0, LIMIT_KEY_BYTES, NULL, FIELD_REQUIRED},
    {"token", FIELD_TOKEN, END_AT(token), 0, 0, NULL, 0},
    /* Only for nack. */
    {"error", FIELD_CUT, END_AT(error), 0, LIMIT_ERROR_BYTES, NULL, 0},
    {"delay", FIELD_INT, END_AT(delay), 0, LIMIT_WALL_MS, NULL, 0},
};

/* An ack or a nack of one message. */
struct ending {
    struct call call;
    struct queue_in in;
    struct end_in end;
    struct op op;
};

static void ended(struct call *c, const struct reply *r)
{
    (void)r;
    keyval_ok(c->x);
}

/* Explains what is known about a message that was removed or is not locked. */
static void end_refused(struct call *c, const struct reply *r)
{
    struct problem p;
    bool needs_token = r->outcome == OUT_INVALID && c->op.lease.any_token;
    if (r->outcome != OUT_GONE && r->outcome != OUT_ILLEGAL && !needs_token) {
        call_refuse(c, r);
        return;
    }
    call_problem(c, r, &p);
    p.detail =
        needs_token ? "token is required: the queue's policy (require_token) does not allow an ack "
                      "or a nack by the id of the message alone"
        : r->outcome == OUT_GONE ? "the message is not in the queue any more: it was acknowledged, "
                                   "purged, or deleted as a dead letter; nothing remains to be done"
        : r->state == STATE_DEAD ? "the message is in the dead letter queue; no consumer holds it"
                                 : "no consumer holds the message: its lock has expired, or it has "
                                   "not been delivered yet; it will be delivered again";
    problem_answer(c->x, &p);
}

/* The message must be in a queue of this API or in the queue that the request names. For a
 * removed message the engine decides: it remembers acks that may be repeated. */
static void scope_reply(void *ctx, const struct reply *r)
{
    static const struct problem none = {
        .code = PROBLEM_NOT_FOUND,
        .terms = &keyval_terms,
        .field = "id",
        .detail = "there is no message with this id in the queues of this API; ?queue= names "
                  "another queue"};
    struct ending *e = ctx;
    struct call *c = &e->call;
    const struct job_view *v = r->job_count == 1 ? &r->jobs[0] : NULL;
    if (v && !span_equal(v->owner, span_text(keyval_api.name)) &&
        !span_equal(v->queue, e->in.queue)) {
        problem_answer(c->x, &none);
    } else if (r->outcome == OUT_OK || r->outcome == OUT_NOT_FOUND || r->outcome == OUT_GONE) {
        c->op = e->op;
        call_submit(c);
    } else {
        call_refuse(c, r);
    }
}

/* false: the problem was answered. */
static bool ending_take(struct ending *e, bool nack)
{
    struct problem p;
    struct call *c = &e->call;
    struct fields table = FIELDS(end_rows);
    table.count = nack ? table.count : 2;
    struct field_reader r = reader_of(c->broker, c->x, table, &e->end, &p);
    if (!body_read(&r, c->x))
        return false;
    e->op = (struct op){.kind = nack ? OP_FAIL : OP_ACK,
                        .lease = {.token = e->end.token,
                                  .any_token = !fields_has(&r, "token"),
                                  .error = e->end.error,
                                  .has_delay = nack && fields_has(&r, "delay"),
                                  .delay_ms = e->end.delay}};
    return keyval_id(c->x, e->end.id, &e->op.lease.job);
}

static void end_message(struct keyval *k, struct http_exchange *x, bool nack)
{
    struct ending *e = arena_array(http_request(x)->arena, 1, sizeof *e);
    if (!e) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    e->call = (struct call){
        .broker = k->broker,
        .api = k,
        .x = x,
        .arena = http_request(x)->arena,
        .terms = &keyval_terms,
        .done = ended,
        .refused = end_refused,
    };
    if (!keyval_query(k, x, FIELDS(queue_rows), &e->in) || !ending_take(e, nack))
        return;
    e->call.op = (struct op){.kind = OP_GET, .job = {.job = e->op.lease.job}};
    int err = broker_submit(k->broker, &e->call.op, 1, scope_reply, e);
    if (err < 0)
        answer_error(x, err);
}

void keyval_ack_handle(void *ctx, struct http_exchange *x)
{
    end_message(ctx, x, false);
}

void keyval_nack_handle(void *ctx, struct http_exchange *x)
{
    end_message(ctx, x, true);
}

/* ---- counts ---- */

static void write_stats(struct call *c, const struct queue_counts *n)
{
    struct http_exchange *x = c->x;
    struct json_writer w;
    uint64_t pending =
        n->by_state[STATE_READY] + n->by_state[STATE_SCHEDULED] + n->by_state[STATE_BLOCKED];
    uint64_t processing = n->by_state[STATE_RUNNING], dlq = n->by_state[STATE_DEAD];
    answer_object_begin(x, &w);
    write_uint(&w, "pending", pending);
    write_uint(&w, "processing", processing);
    write_uint(&w, "dlq", dlq);
    write_uint(&w, "total", pending + processing + dlq);
    call_write_partial(c, &w);
    answer_object_end(x, &w, 200);
}

static void stats_reply(void *ctx, const struct reply *r)
{
    static const struct queue_counts nothing;
    struct call *c = ctx;
    call_note_reply(c, r);
    if (keyval_queue_read(c, r))
        write_stats(c, r->queue_count > 0 ? &r->queues[0].counts : &nothing);
}

void keyval_stats_handle(void *ctx, struct http_exchange *x)
{
    struct keyval *k = ctx;
    struct queue_in in;
    if (!keyval_query(k, x, FIELDS(queue_rows), &in))
        return;
    struct call *c = keyval_call(k, x, OP_QUEUE_GET, NULL);
    if (!c)
        return;
    c->op.queue.name = in.queue;
    call_ask(c, stats_reply);
}
