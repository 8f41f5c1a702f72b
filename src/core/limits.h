/* SPDX-License-Identifier: Apache-2.0 */
/* Every bound on what a client may send or ask for. Hard limits of the format; a queue's policy or
 * the configuration may be stricter. */
#pragma once

#include <stdint.h>

#define LIMIT_QUEUE_NAME_BYTES 200
#define LIMIT_KEY_BYTES 512  /* unique key, group, correlation id */
#define LIMIT_LABEL_BYTES 64 /* priority label, status label */
#define LIMIT_WORKER_BYTES 128
#define LIMIT_ERROR_BYTES 8192             /* longer error texts are cut at a character boundary */
#define LIMIT_NOTE_BYTES 4096              /* queue description and a door's own queue attributes */
#define LIMIT_ATTRIBUTES_BYTES (64u << 10) /* a door's own fields of one job, JSON */
#define LIMIT_PAYLOAD_BYTES (64u << 20)
#define LIMIT_BATCH 1000 /* jobs in one request, jobs in one claim */
/* Payload bytes in one answer: a claim, a peek or a page of a list with bodies ends early behind
 * the job that reaches it. */
#define LIMIT_ANSWER_BYTES (16u << 20)
#define LIMIT_QUEUES_PER_CLAIM 100
#define LIMIT_QUEUES 100000
#define LIMIT_BACKOFF_STEPS 32
#define LIMIT_BACKOFF_MS (30u * 24 * 3600 * 1000)
#define LIMIT_ATTEMPTS 60000
#define LIMIT_ATTEMPTS_KEPT 20 /* newest attempts whose history a job keeps */
#define LIMIT_EXCEPTIONS 1000  /* in one answer */
#define LIMIT_LEASE_MS (24u * 3600 * 1000)
#define LIMIT_LEASE_MS_MIN 100u
#define LIMIT_SLICE 1000 /* records one bulk step may write */
#define LIMIT_SEQ ((UINT64_C(1) << 53) - 1)
#define LIMIT_WALL_MS INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */
/* schedules */
#define LIMIT_SCHEDULES 100000
#define LIMIT_SCHEDULE_PAYLOAD_BYTES (256u << 10) /* a schedule stays in memory with its payload   \
                                                   */
#define LIMIT_EVERY_MS_MIN 1000u
#define LIMIT_EVERY_MS (UINT64_C(3653) * 24 * 3600 * 1000) /* ten years */
#define LIMIT_BATCH_SIZE LIMIT_BATCH                       /* items of one trigger's job */
