/* SPDX-License-Identifier: Apache-2.0 */
/* Dead letters: the dead jobs of one queue. The id of an entry and its originalId are the id of
 * the message. */
#include <stdio.h>

#include "api/json_members.h"
#include "api/keyval/keyval_impl.h"
#include "core/jobs/job_error.h"
#include "core/jobs/job_texts.h"
#include "core/limits.h"

#define LIST_LIMIT 50

static void write_entry(struct json_writer *w, const struct job_view *v)
{
    json_write_object(w);
    write_id(w, "id", v->job.id_hi, v->job.seq);
    write_id(w, "originalId", v->job.id_hi, v->job.seq);
    json_write_key(w, "value");
    keyval_write_value(w, v->job.payload_kind, v->payload);
    write_uint(w, "attempts", job_attempts(&v->job));
    json_write_key(w, "errorMessage");
    if (v->error.len > 0)
        json_write_text(w, job_error_split(v->error).text);
    else if (v->job.reason == REASON_FAILED) /* the nack had no error */
        json_write_null(w);
    else
        json_write_text(w, span_text(reason_name((enum job_reason)v->job.reason)));
    write_int(w, "originalCreatedAt", id_time(v->job.id_hi).ms);
    write_int(w, "failedAt", v->job.since.ms);
    json_write_object_end(w);
}

/* ---- list ---- */

struct list_in {
    struct queue_in in;
    int64_t limit, offset;
};

static const struct field list_rows[] = {
    {"limit", FIELD_INT, offsetof(struct list_in, limit), 1, LIMIT_BATCH, NULL, 0},
    {"offset", FIELD_INT, offsetof(struct list_in, offset), 0, INT64_MAX, NULL, 0},
    QUEUE_ROW,
};

static void list_reply(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct json_writer w;
    call_note_reply(c, r);
    if (!keyval_queue_read(c, r))
        return;
    answer_begin(c->x, &w);
    json_write_array(&w);
    for (uint32_t i = 0; i < r->job_count; i++)
        write_entry(&w, &r->jobs[i]);
    json_write_array_end(&w);
    answer_end(c->x, &w, 200);
}

void keyval_dlq_list_handle(void *ctx, struct http_exchange *x)
{
    struct keyval *k = ctx;
    struct list_in in = {.limit = LIST_LIMIT};
    if (!keyval_query(k, x, FIELDS(list_rows), &in.in))
        return;
    struct call *c = keyval_call(k, x, OP_PEEK, NULL);
    if (!c)
        return;
    http_alone(x);
    c->op.peek = (struct op_peek){.queue = in.in.queue,
                                  .state = STATE_DEAD,
                                  .limit = (uint32_t)in.limit,
                                  .want_body = true,
                                  .newest_first = true,
                                  .skip = (uint64_t)in.offset};
    call_ask(c, list_reply);
}

/* ---- one entry ---- */

static const struct field queue_rows[] = {QUEUE_ROW};

/* An operation on an entry, which is read first. */
struct entry {
    struct call call;
    struct queue_in in;
    struct job_ref id;
    char key[64];
};

static struct entry *entry_new(struct keyval *k, struct http_exchange *x, call_fn done)
{
    struct entry *e = arena_array(http_request(x)->arena, 1, sizeof *e);
    if (!e) {
        answer_error(x, -ERR_NOMEM);
        return NULL;
    }
    if (!keyval_query(k, x, FIELDS(queue_rows), &e->in) ||
        !keyval_id(x, http_request(x)->params[0], &e->id))
        return NULL;
    e->call = (struct call){.broker = k->broker,
                            .api = k,
                            .x = x,
                            .arena = http_request(x)->arena,
                            .terms = &keyval_terms,
                            .done = done,
                            .op = {.kind = OP_GET, .job = {.job = e->id, .want_body = true}}};
    return e;
}

/* A job that is not dead, or that is in another queue, is not a dead letter of this queue. */
static bool is_entry(const struct entry *e, const struct reply *r)
{
    return r->outcome == OUT_OK && r->job_count == 1 && r->jobs[0].job.state == STATE_DEAD &&
           span_equal(r->jobs[0].queue, e->in.queue);
}

static const struct problem no_entry = {
    .code = PROBLEM_NOT_FOUND,
    .terms = &keyval_terms,
    .detail = "the dead letter queue has no such message; `queue` names another queue"};

static void entry_reply(void *ctx, const struct reply *r)
{
    struct entry *e = ctx;
    if (is_entry(e, r))
        e->call.done(&e->call, r);
    else if (r->outcome == OUT_OK)
        problem_answer(e->call.x, &no_entry);
    else
        call_refuse(&e->call, r);
}

static void entry_find(struct entry *e)
{
    int err = broker_submit(e->call.broker, &e->call.op, 1, entry_reply, e);
    if (err < 0)
        answer_error(e->call.x, err);
}

static void entry_got(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_begin(c->x, &w);
    write_entry(&w, &r->jobs[0]);
    answer_end(c->x, &w, 200);
}

void keyval_dlq_get_handle(void *ctx, struct http_exchange *x)
{
    struct entry *e = entry_new(ctx, x, entry_got);
    if (e)
        entry_find(e);
}

static void entry_removed(struct call *c, const struct reply *r)
{
    (void)r;
    keyval_ok(c->x);
}

static void entry_remove(struct call *c, const struct reply *r)
{
    struct job_ref id = {r->jobs[0].job.seq, r->jobs[0].job.id_hi};
    c->op = (struct op){.kind = OP_REMOVE, .job = {.job = id}};
    c->done = entry_removed;
    call_submit(c);
}

void keyval_dlq_delete_handle(void *ctx, struct http_exchange *x)
{
    struct keyval *k = ctx;
    struct entry *e = body_none(k->broker, x) ? entry_new(k, x, entry_remove) : NULL;
    if (e)
        entry_find(e);
}

/* ---- again ---- */

static void requeued(struct call *c, const struct reply *r)
{
    struct json_writer w;
    answer_object_begin(c->x, &w);
    write_bool(&w, "ok", true);
    write_id(&w, "newId", r->id_hi, r->seq);
    answer_object_end(c->x, &w, 200);
}

/* Another request may have requeued or deleted the dead letter in the meantime. */
static void not_requeued(struct call *c, const struct reply *r)
{
    if (r->outcome == OUT_NOT_FOUND || r->outcome == OUT_ILLEGAL)
        problem_answer(c->x, &no_entry);
    else
        call_refuse(c, r);
}

/* Copies everything that the message was enqueued with, except its expiry. */
static bool copy_job(struct entry *e, const struct job_view *v, struct op_enqueue *op)
{
    struct arena *arena = e->call.arena;
    *op = (struct op_enqueue){.queue = e->in.queue,
                              .payload_kind = v->job.payload_kind,
                              .has_priority = true,
                              .priority = v->job.priority,
                              .payload = v->payload,
                              .extra = v->extra};
    if (!arena_keep(arena, &op->payload) || !arena_keep(arena, &op->extra.undelivered) ||
        job_texts_keep(arena, &op->extra) < 0)
        return false;
    op->extra.expires_at.ms = 0;
    if (v->extra.options.len == 0)
        return true;
    struct job_options *o = arena_array(arena, 1, sizeof *o);
    if (!o || options_decode(v->extra.options, o) < 0)
        return false;
    op->options = o;
    return true;
}

/* The new message replaces the dead letter in one commit, under an idempotency key, so that two
 * concurrent requests create one message. */
static void entry_again(struct call *c, const struct reply *r)
{
    struct entry *e = (struct entry *)c;
    const struct job_view *v = &r->jobs[0];
    struct op again = {.kind = OP_ENQUEUE};
    if (!copy_job(e, v, &again.enqueue)) {
        answer_error(c->x, -ERR_NOMEM);
        return;
    }
    int len = snprintf(e->key, sizeof e->key, "keyval/requeue/%llu/%lld",
                       (unsigned long long)v->job.seq, (long long)v->job.since.ms);
    again.enqueue.idempotency_key = span_of(e->key, (size_t)len);
    again.enqueue.instead_of = e->id;
    c->op = again;
    c->done = requeued;
    c->refused = not_requeued;
    keyval_enqueue(c);
}

void keyval_dlq_requeue_handle(void *ctx, struct http_exchange *x)
{
    struct keyval *k = ctx;
    struct entry *e = body_none(k->broker, x) ? entry_new(k, x, entry_again) : NULL;
    if (e)
        entry_find(e);
}

/* ---- purge ---- */

static void purge_reply(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct json_writer w;
    if (!keyval_queue_read(c, r))
        return;
    answer_object_begin(c->x, &w);
    write_uint(&w, "deletedCount", r->changed);
    answer_object_end(c->x, &w, 200);
}

void keyval_dlq_purge_handle(void *ctx, struct http_exchange *x)
{
    struct keyval *k = ctx;
    struct queue_in in;
    /* A body would be an attempt to select some of the dead letters. */
    if (!body_none(k->broker, x) || !keyval_query(k, x, FIELDS(queue_rows), &in))
        return;
    struct call *c = keyval_call(k, x, OP_BULK, NULL);
    if (!c)
        return;
    c->op.bulk =
        (struct op_bulk){.action = BULK_REMOVE, .queue = in.queue, .states = STATE_BIT(STATE_DEAD)};
    call_ask(c, purge_reply);
}
