/* SPDX-License-Identifier: Apache-2.0 */
/* The API of the normalised queue: /api/web/queue/, one queue per queue type.
 *
 * The queue of type T is named webqueue.T. A job's path is its payload (a JSON string) and its
 * unique key, its library_id is the group; ids are sequence numbers, times are Unix seconds.
 *
 * src/api/webqueue may use what src/api may use (api.h); of the other APIs, only v1. */
#pragma once

#include "api/api.h"

#define WEBQUEUE_PREFIX                                                                            \
    "webqueue." /* prefix of its queues; the view `queue` of the store removes it */
#define WEBQUEUE_TYPES_MAX 32
#define WEBQUEUE_TYPE_BYTES_MAX 64
#define WEBQUEUE_PATH_BYTES_MAX 4096
#define WEBQUEUE_TIMEOUT_MS 300000
#define WEBQUEUE_KEEP_MS (INT64_C(30) * 24 * 3600 * 1000)

/* A queue type, as the setting webqueue.types has it. */
struct webqueue_type {
    const char *name;    /* letters, digits, '-', '_' */
    uint32_t timeout_ms; /* a running job fails this long after its last renewal */
    int64_t keep_ms;     /* completed jobs; INT64_MAX = for ever */
    uint16_t retries;    /* automatic retries of a failed job */
};

/* The numbers of the three alerts of its queues; 0 = the alert is not created. */
struct webqueue_alerts {
    uint32_t depth;         /* more pending jobs than this */
    uint32_t error_percent; /* more errors than this, of at least 20 ends in 5 minutes */
    uint32_t idle_ms;       /* no dequeue for this long while something is ready */
};

extern const struct api webqueue_api;

/* The unique key of a path: the path itself or, if it is too long, its beginning and a hash. at
 * = NULL: no memory. */
struct span webqueue_path_key(struct arena *arena, struct span path);
