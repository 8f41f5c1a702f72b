/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the keyval API, which translates its messages to jobs of the broker.
 *
 *   keyval.c        the API, its routes, queues and timers
 *   messages.c      messages: enqueue, listen, poll, ack, nack, counts
 *   dlq.c           dead letters: the dead jobs of one queue
 *   keys.c          keys of the key-value store
 *   lock_setting.c  lockDuration, which is the lease of its queues
 *
 * What this folder may use is in api/api.h. */
#pragma once

#include "api/call.h"
#include "api/keyval/keyval.h"
#include "api/streams/stream.h"
#include "core/limits.h"
#include "core/queues/policy.h"

/* lockDuration. After the start it is applied to queues that have another value, one after the
 * other in the order of their names. */
struct lock_setting {
    uint32_t ms;
    char note[40];    /* attributes of a queue that has this value */
    uv_timer_t timer; /* until the next attempt */
    struct op op;
    struct queue_policy policy;
    char after[LIMIT_QUEUE_NAME_BYTES]; /* queues up to this name have the value */
    size_t after_len;
};

struct keyval {
    struct broker *broker;
    struct queue_policy policy; /* of queues that the API creates */
    struct lock_setting lock;
    struct stream_list streams;
    uv_timer_t sweep; /* cleanupInterval */
    unsigned open_handles;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* The document's names for the states of a message, and the calls that each state allows. */
extern const struct problem_terms keyval_terms;
/* Like call_new, with these terms. */
struct call *keyval_call(struct keyval *k, struct http_exchange *x, enum op_kind kind,
                         call_fn done);

/* ---- lock_setting.c ---- */
void lock_setting_open(struct keyval *k, uint32_t ms, uv_loop_t *loop);
/* The attributes of a queue that has the current setting. */
struct span lock_setting_note(const struct keyval *k);

/* Reads the queue of a request: ?queue=, or `keyval`. `rows` are the parameters that are
 * allowed; the last one is QUEUE_ROW. false: the problem was answered. */
struct queue_in {
    struct span queue;
};
#define QUEUE_ROW                                                                                  \
    {                                                                                              \
        "queue", FIELD_TEXT, 0, 0, LIMIT_QUEUE_NAME_BYTES, NULL, 0                                 \
    }
bool keyval_query(struct keyval *k, struct http_exchange *x, struct fields rows,
                  struct queue_in *into);

/* Writes a payload as a value: JSON unchanged, text, or base 64; null without a payload. */
void keyval_write_value(struct json_writer *w, uint8_t kind, struct span payload);
/* Parses the id of a message. false: the id cannot belong to a message, and `not_found` was
 * answered. */
bool keyval_id(struct http_exchange *x, struct span text, struct job_ref *ret);
/* Whether a queue was read; one that does not exist is empty. false: the refusal was answered. */
bool keyval_queue_read(struct call *c, const struct reply *r);
/* {"ok":true} */
void keyval_ok(struct http_exchange *x);

/* Submits the enqueue in c->op, and creates its queue if it does not exist. */
void keyval_enqueue(struct call *c);

#define KEYVAL_HANDLER(name) void name(void *ctx, struct http_exchange *x)
KEYVAL_HANDLER(keyval_enqueue_handle);
KEYVAL_HANDLER(keyval_listen_handle);
KEYVAL_HANDLER(keyval_poll_handle);
KEYVAL_HANDLER(keyval_ack_handle);
KEYVAL_HANDLER(keyval_nack_handle);
KEYVAL_HANDLER(keyval_stats_handle);
KEYVAL_HANDLER(keyval_dlq_list_handle);
KEYVAL_HANDLER(keyval_dlq_get_handle);
KEYVAL_HANDLER(keyval_dlq_requeue_handle);
KEYVAL_HANDLER(keyval_dlq_delete_handle);
KEYVAL_HANDLER(keyval_dlq_purge_handle);
KEYVAL_HANDLER(keyval_keys_handle);
