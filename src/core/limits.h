/* SPDX-License-Identifier: Apache-2.0 */
/* src/core has the rules of jobs, queues, keys, alerts and schedules. It may use src/base, does no
 * I/O, reads no clock and has no globals.
 *
 * The limits on what a client may send or request that are the same in every API. They are hard
 * limits, of the formats among others; the policy of a queue or a setting may be stricter. A limit
 * of one API is in the header of that API, those of HTTP requests are in http/parse.h. */
#pragma once

#include <stdint.h>

#define LIMIT_QUEUE_NAME_BYTES 200
#define LIMIT_IDEMPOTENCY_KEY_BYTES 200
#define LIMIT_KEY_BYTES 512  /* unique key, group, correlation id */
#define LIMIT_LABEL_BYTES 64 /* priority label, status label */
#define LIMIT_KIND_BYTES 128
#define LIMIT_HEADERS_BYTES (8u << 10) /* of one job, as JSON */
#define LIMIT_WORKER_BYTES 128
#define LIMIT_WORKER_FACTS_BYTES 1024
#define LIMIT_REGISTRY_NAME_BYTES (LIMIT_QUEUE_NAME_BYTES + 1) /* see worker_entry in ops/op.h */
/* longer error texts are truncated at a character boundary */
#define LIMIT_ERROR_BYTES 8192
#define LIMIT_ERROR_TYPE_BYTES 128         /* class of an exception */
#define LIMIT_STACK_BYTES (16u << 10)      /* longer stacks are truncated at a character boundary */
#define LIMIT_NOTE_BYTES 4096              /* queue description and an API's own queue attributes */
#define LIMIT_ATTRIBUTES_BYTES (64u << 10) /* an API's own fields of one job, JSON */
#define LIMIT_PAYLOAD_BYTES (64u << 20)
#define LIMIT_BATCH 1000 /* jobs in one request, jobs in one claim */
/* Payload bytes in one reply: a claim, a peek or a page of a list with bodies ends after the job
 * that reaches it. */
#define LIMIT_ANSWER_BYTES (16u << 20)
#define LIMIT_QUEUES_PER_CLAIM 1000
#define LIMIT_QUEUES_PER_REQUEST 100 /* of a claim in the native API */
#define LIMIT_QUEUES 100000
#define LIMIT_QUEUES_IMPLIED 10000 /* default: an enqueue creates a queue only below this many */
#define LIMIT_BACKOFF_STEPS 32
#define LIMIT_BACKOFF_MS (30u * 24 * 3600 * 1000)
#define LIMIT_ATTEMPTS 60000
#define LIMIT_ATTEMPTS_KEPT 20    /* newest attempts whose history a job keeps */
#define LIMIT_EXCEPTIONS 1000     /* in one reply */
#define LIMIT_RATE_COUNT 1000000u /* jobs in the window of a rate limit */
#define LIMIT_RATE_WINDOW_MS (24u * 3600 * 1000)
#define LIMIT_LEASE_MS (24u * 3600 * 1000)
#define LIMIT_LEASE_MS_MIN 100u
/* Kept replies: the store keeps the reply to the report that ended a lease (ack, fail, release), so
 * that a repeat of the report gets the same reply (src/ops/jobs/leases.c). The embedded store and
 * memory: keep this many, one slot for each token modulo the number; an older one is overwritten.
 * PostgreSQL and Redis keep each for at least this long. */
#define LIMIT_KEPT_REPLIES 65536u
#define LIMIT_KEPT_REPLY_MS INT64_C(3600000)
#define LIMIT_AGEING_MS (30u * 24 * 3600 * 1000)
#define LIMIT_TIMEOUT_MS (30u * 24 * 3600 * 1000) /* of an attempt */
#define LIMIT_PROGRESS_MESSAGE_BYTES 1024
#define LIMIT_PROGRESS_DATA_BYTES 4096 /* JSON */
#define LIMIT_PROGRESS_BYTES (LIMIT_PROGRESS_MESSAGE_BYTES + LIMIT_PROGRESS_DATA_BYTES + 64)
#define LIMIT_LOG_BYTES (64u << 10)      /* of a job: the newest entries, with time and attempt */
#define LIMIT_LOG_LINE_BYTES (16u << 10) /* one line */
#define LIMIT_LIST_DETAILS 50       /* jobs in one page of a list with reports or dependencies */
#define LIMIT_LOG_LINES LIMIT_BATCH /* lines in one request */
#define LIMIT_STEP_NAME_BYTES 64
#define LIMIT_STEP_RESULT_BYTES (64 << 10) /* JSON */
#define LIMIT_STEPS_BYTES (1 << 20)        /* names and results of all steps of a job */
#define LIMIT_STEPS 1000                   /* of a job */
#define LIMIT_KV_KEY_BYTES 2048            /* a key of the key-value store, encoded; see kvkey.h */
#define LIMIT_KV_PARTS 32                  /* of a key */
#define LIMIT_KV_KEYS 1000       /* in one get; checks, sets and deletes of one commit, together */
#define LIMIT_KV_ENQUEUES 100    /* of one commit */
#define LIMIT_KV_UNDELIVERED 16  /* keys under which the payload of a job is stored when it dies */
#define LIMIT_DEPENDENCIES 10000 /* jobs on which one job may depend */
#define LIMIT_SLICE 1000         /* records one bulk step may write */
#define LIMIT_ALERTS 256         /* alert rules */
#define LIMIT_ALERT_NAME_BYTES 100
#define LIMIT_ALERTS_RAISED 10000    /* conditions that hold, of all rules and queues */
#define LIMIT_URL_BYTES 2048         /* of a webhook */
#define LIMIT_SECRET_BYTES 256       /* for its signature */
#define LIMIT_NOTICES 10000          /* in the outbox; if it is full, the oldest is removed */
#define LIMIT_NOTICE_TEXT_BYTES 512  /* a job's error in a notice; longer ones are truncated */
#define LIMIT_NOTICE_ERROR_BYTES 200 /* why the last delivery failed */
#define LIMIT_BREAKERS 1000          /* targets of webhooks whose breaker is remembered */
#define LIMIT_NAMED_BREAKERS 1000    /* breakers that clients have named */
#define LIMIT_BREAKER_NAME_BYTES 100 /* of A-Z, a-z, 0-9, '.', '_', '-' */
#define LIMIT_BREAKER_COUNT 1000000  /* failures that open one, probes that it allows */
#define LIMIT_BREAKER_COOLDOWN_S 86400
/* ready jobs above this priority are counted, for APIs that show the number */
#define PRIORITY_URGENT (-1024)
#define LIMIT_SEQ ((UINT64_C(1) << 53) - 1)
#define LIMIT_WALL_MS INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */
/* schedules */
#define LIMIT_SCHEDULES 100000
#define LIMIT_SCHEDULE_PAYLOAD_BYTES                                                               \
    (256u << 10) /* a schedule stays in memory with its payload                                    \
                  */
#define LIMIT_EVERY_MS_MIN 1000u
#define LIMIT_EVERY_MS (UINT64_C(3653) * 24 * 3600 * 1000) /* ten years */
#define LIMIT_BATCH_SIZE LIMIT_BATCH                       /* items of one trigger's job */
