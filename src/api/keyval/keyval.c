/* SPDX-License-Identifier: Apache-2.0 */
/* The API: its routes, its queues and its timers.
 *
 * The engine's exact timers end locks. The sweep (cleanupInterval) is a safeguard: it makes the
 * backend check the time in case nothing else does. */
#include "api/keyval/keyval_impl.h"

#include <string.h>

#include "api/json_members.h"
#include "base/check.h"
#include "base/digest/base64.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/limits.h"
#include "core/validate.h"

#define DEFAULT_QUEUE "keyval"
#define PING "event: ping\ndata:\n\n"

/* ---- terms ---- */

static const char *const of_pending[] = {"poll", "listen", NULL};
static const char *const of_processing[] = {"ack", "nack", NULL};
static const char *const of_dlq[] = {"requeue", "delete", "purge", NULL};
static const char *const of_removed[] = {NULL};

const struct problem_terms keyval_terms = {
    .noun = "message",
    .states = {[STATE_SCHEDULED] = "pending",
               [STATE_READY] = "pending",
               [STATE_RUNNING] = "processing",
               [STATE_DONE] = "removed",
               [STATE_DEAD] = "dlq",
               [STATE_CANCELLED] = "removed",
               [STATE_BLOCKED] = "pending"},
    .legal = {[STATE_SCHEDULED] = of_pending,
              [STATE_READY] = of_pending,
              [STATE_RUNNING] = of_processing,
              [STATE_DONE] = of_removed,
              [STATE_DEAD] = of_dlq,
              [STATE_CANCELLED] = of_removed,
              [STATE_BLOCKED] = of_removed},
};

struct call *keyval_call(struct keyval *k, struct http_exchange *x, enum op_kind kind, call_fn done)
{
    struct call *c = call_new(k->broker, k, x, kind, done);
    if (c)
        c->terms = &keyval_terms;
    return c;
}

/* ---- queues ---- */

static void policy_init(const struct queue_policy *from, uint32_t lock_ms, struct queue_policy *ret)
{
    *ret = *from;
    ret->lease_ms = lock_ms;
    ret->backoff =
        (struct backoff){.kind = BACKOFF_LIST, .step_count = 3, .step_ms = {1000, 5000, 10000}};
    ret->max_attempts = 4;
    ret->lease_end = LEASE_END_REQUEUE;
    ret->keep_done = 0;            /* an acknowledged message is removed */
    ret->keep_dead_ms = INT64_MAX; /* a dead letter stays until it is removed */
    ret->keep_dead = UINT64_MAX;
}

bool keyval_query(struct keyval *k, struct http_exchange *x, struct fields rows,
                  struct queue_in *into)
{
    struct err_note note;
    struct problem p;
    struct field_reader r = reader_of(k->broker, x, rows, into, &p);
    into->queue = SPAN_LITERAL(DEFAULT_QUEUE);
    if (!query_read(&r, x))
        return false;
    if (validate_queue_name(into->queue, &note) == 0)
        return true;
    problem_set(&p, r.arena, PROBLEM_INVALID_FIELD, "queue", "%s", note.text);
    problem_answer(x, &p);
    return false;
}

bool keyval_queue_read(struct call *c, const struct reply *r)
{
    bool read = r->outcome == OUT_OK || r->outcome == OUT_NO_QUEUE;
    if (!read)
        call_refuse(c, r);
    return read;
}

static void enqueue_reply(void *ctx, const struct reply *reply);

static void submit(struct call *c, const struct op *op)
{
    int err = broker_submit(c->broker, op, 1, enqueue_reply, c);
    if (err < 0)
        answer_error(c->x, err);
}

static void create_queue(struct call *c)
{
    const struct keyval *k = c->api;
    struct op *put = arena_array(c->arena, 1, sizeof *put);
    if (!put) {
        answer_error(c->x, -ERR_NOMEM);
        return;
    }
    *put = (struct op){.kind = OP_QUEUE_PUT,
                       .queue = {.name = c->op.enqueue.queue,
                                 .must_create = true,
                                 .implied = true,
                                 .policy = &k->policy,
                                 .has_owner = true,
                                 .owner = span_text(keyval_api.name),
                                 .has_attributes = true,
                                 .attributes = lock_setting_note(k)}};
    submit(c, put);
}

/* A queue that was created in the meantime is used. */
static void enqueue_reply(void *ctx, const struct reply *reply)
{
    struct call *c = ctx;
    call_note_reply(c, reply);
    bool made =
        reply->kind == OP_QUEUE_PUT && (reply->outcome == OUT_OK || reply->outcome == OUT_EXISTS);
    if (made) {
        submit(c, &c->op);
    } else if (reply->kind == OP_ENQUEUE && reply->outcome == OUT_NO_QUEUE) {
        create_queue(c);
    } else if (reply->outcome == OUT_OK) {
        c->done(c, reply);
    } else if (c->refused) {
        c->refused(c, reply);
    } else {
        call_refuse(c, reply);
    }
}

void keyval_enqueue(struct call *c)
{
    c->op.enqueue.no_create = true; /* the backend would create a queue of /v1 */
    submit(c, &c->op);
}

/* ---- answers ---- */

static void write_base64(struct json_writer *w, struct span bytes)
{
    size_t len = base64_len(bytes.len);
    char *text = mem_alloc(len + 1);
    if (!text) {
        w->error = w->error ? w->error : -ERR_NOMEM;
        return;
    }
    base64_encode(bytes, text);
    json_write_text(w, span_of(text, len));
    mem_free(text);
}

void keyval_write_value(struct json_writer *w, uint8_t kind, struct span payload)
{
    if (kind == PAYLOAD_NONE || (kind == PAYLOAD_JSON && payload.len == 0))
        json_write_null(w); /* also a damaged payload */
    else if (kind == PAYLOAD_JSON)
        json_write_raw(w, payload);
    else if (utf8_valid(payload))
        json_write_text(w, payload);
    else
        write_base64(w, payload);
}

bool keyval_id(struct http_exchange *x, struct span text, struct job_ref *ret)
{
    static const struct problem none = {.code = PROBLEM_NOT_FOUND,
                                        .terms = &keyval_terms,
                                        .field = "id",
                                        .detail = "there is no message with this id"};
    if (id_parse(text, ret) == 0)
        return true;
    problem_answer(x, &none);
    return false;
}

void keyval_ok(struct http_exchange *x)
{
    struct json_writer w;
    answer_object_begin(x, &w);
    write_bool(&w, "ok", true);
    answer_object_end(x, &w, 200);
}

/* ---- the sweep ---- */

static void swept_cb(void *ctx, const struct reply *reply)
{
    (void)ctx, (void)reply;
}

static void sweep_cb(uv_timer_t *timer)
{
    static const struct op look = {.kind = OP_QUEUE_LIST, .queue = {.limit = 1}};
    struct keyval *k = timer->data;
    (void)!broker_submit(k->broker, &look, 1, swept_cb, k); /* the next sweep follows */
}

/* ---- open and close ---- */

static int keyval_open(const struct api_config *config, void **ret)
{
    struct keyval *k = mem_zalloc(sizeof *k);
    if (!k)
        return -ERR_NOMEM;
    k->broker = config->broker;
    lock_setting_open(k, config->keyval_lock_ms ? config->keyval_lock_ms : 30000, config->loop);
    policy_init(config->policy, k->lock.ms, &k->policy);
    stream_list_init(&k->streams, config->loop, k->broker, PING);
    CHECK(uv_timer_init(config->loop, &k->sweep) == 0);
    k->sweep.data = k;
    k->open_handles = 3;
    if (config->keyval_sweep_ms)
        CHECK(uv_timer_start(&k->sweep, sweep_cb, config->keyval_sweep_ms,
                             config->keyval_sweep_ms) == 0);
    uv_unref((uv_handle_t *)&k->sweep);
    *ret = k;
    return 0;
}

static void keyval_drain(void *ctx)
{
    struct keyval *k = ctx;
    CHECK(uv_timer_stop(&k->sweep) == 0 && uv_timer_stop(&k->lock.timer) == 0);
    stream_list_drain(&k->streams);
}

static void handle_closed(struct keyval *k)
{
    if (--k->open_handles > 0)
        return;
    void (*closed)(void *ctx) = k->closed;
    void *ctx = k->closed_ctx;
    mem_free(k);
    closed(ctx);
}

static void timer_closed_cb(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

static void tick_closed_cb(uv_handle_t *handle)
{
    struct stream_list *streams = handle->data;
    handle_closed((struct keyval *)((char *)streams - offsetof(struct keyval, streams)));
}

static void keyval_close(void *ctx, void (*fn)(void *fn_ctx), void *fn_ctx)
{
    struct keyval *k = ctx;
    CHECK(!k->streams.first);
    k->closed = fn;
    k->closed_ctx = fn_ctx;
    uv_close((uv_handle_t *)&k->sweep, timer_closed_cb);
    uv_close((uv_handle_t *)&k->lock.timer, timer_closed_cb);
    uv_close((uv_handle_t *)&k->streams.tick, tick_closed_cb);
}

#define API "/keyval/api"
static const struct http_route routes[] = {
    {HTTP_POST, API "/queue/enqueue", keyval_enqueue_handle, SCOPE_PRODUCE, ROUTE_LARGE,
     "Enqueue a message."},
    {HTTP_GET, API "/queue/listen", keyval_listen_handle, SCOPE_CONSUME, ROUTE_UNSAFE,
     "Stream messages (server-sent events), locked for this connection."},
    {HTTP_GET, API "/queue/poll", keyval_poll_handle, SCOPE_CONSUME, ROUTE_UNSAFE,
     "Lock and return the next message, or null."},
    {HTTP_POST, API "/queue/ack", keyval_ack_handle, SCOPE_CONSUME, 0,
     "Acknowledge a message, which removes it."},
    {HTTP_POST, API "/queue/nack", keyval_nack_handle, SCOPE_CONSUME, 0,
     "Reject a message: it is retried, or becomes a dead letter."},
    {HTTP_GET, API "/queue/stats", keyval_stats_handle, SCOPE_READ, 0,
     "Count the messages by state."},
    {HTTP_GET, API "/queue/dlq", keyval_dlq_list_handle, SCOPE_READ, 0,
     "List the dead letters, newest first."},
    {HTTP_DELETE, API "/queue/dlq", keyval_dlq_purge_handle, SCOPE_ADMIN, 0,
     "Delete all dead letters of the queue."},
    {HTTP_GET, API "/queue/dlq/{id}", keyval_dlq_get_handle, SCOPE_READ, 0, "Read a dead letter."},
    {HTTP_DELETE, API "/queue/dlq/{id}", keyval_dlq_delete_handle, SCOPE_ADMIN, 0,
     "Delete a dead letter."},
    {HTTP_POST, API "/queue/dlq/{id}/requeue", keyval_dlq_requeue_handle, SCOPE_ADMIN, 0,
     "Enqueue a dead letter again, as a new message."},
    {HTTP_GET, API "/keys", keyval_keys_handle, SCOPE_READ, 0,
     "List the keys of the key-value store with a prefix."},
};

const struct api keyval_api = {
    .name = "keyval",
    .doc = "The queue API of the keyval plugin, with its dead letters and keys.",
    .routes = routes,
    .route_count = sizeof routes / sizeof *routes,
    .open = keyval_open,
    .drain = keyval_drain,
    .close = keyval_close,
};
