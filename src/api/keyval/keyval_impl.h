/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the API share. */
#pragma once

#include "api/call.h"
#include "api/keyval/keyval.h"
#include "api/stream.h"
#include "core/policy.h"

struct keyval {
    struct broker *broker;
    struct queue_policy policy; /* of queues that it makes */
    uint32_t lock_ms;           /* lockDuration */
    struct stream_list streams;
    uv_timer_t sweep; /* cleanupInterval */
    unsigned open_handles;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* The queue of a request: ?queue=, or `keyval`. Other parameters are refused, but for those of
 * `more`, whose last row is left to this: {"queue", …} at offset 0. false: the problem was
 * answered.
 */
struct queue_in {
    struct span queue;
};
#define QUEUE_ROW                                                                                  \
    {                                                                                              \
        "queue", FIELD_TEXT, 0, 0, LIMIT_QUEUE_NAME_BYTES, NULL, 0                                 \
    }
bool keyval_query(struct keyval *k, struct http_exchange *x, struct fields rows,
                  struct queue_in *into);

/* The payload as the value it is: JSON as it stands, text, or base 64; null for none. */
void keyval_write_value(struct json_writer *w, uint8_t kind, struct span payload);
/* The message an id means. One that cannot be ours is the id of no message: false, and `not_found`
 * was answered. */
bool keyval_id(struct http_exchange *x, struct span text, struct job_ref *ret);
/* {"ok":true} */
void keyval_ok(struct http_exchange *x);

/* Submits an enqueue whose queue may have to be made first; c->op is the enqueue. */
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
