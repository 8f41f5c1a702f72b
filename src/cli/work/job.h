/* SPDX-License-Identifier: Apache-2.0 */
/* A claimed job, for a target. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/containers/arena.h"
#include "base/err.h"
#include "base/span.h"

enum work_payload { WORK_PAYLOAD_JSON, WORK_PAYLOAD_TEXT, WORK_PAYLOAD_BYTES };

struct work_header {
    struct span name, value;
};

struct work_job {
    struct arena arena; /* holds all texts, NUL-terminated if `const char *` */
    const char *id;
    uint64_t seq;
    const char *queue;
    const char *token; /* of the lease */
    const char *kind;  /* NULL: none; likewise the next members */
    const char *correlation_id;
    int64_t attempt;
    int64_t max_attempts; /* 0 = unknown */
    int64_t lease_ms;
    int64_t created_ms; /* wall time; 0 = not known */
    const struct work_header *headers;
    size_t header_count;
    enum work_payload payload_kind;
    struct span payload; /* unchanged */
    const char *handoff; /* the file of its hand-off, for a command; NULL = none */
};

/* Reads one item of the reply to a claim, which must be valid JSON; everything is copied.
 * -ERR_INVALID: it is not a job. -ERR_NOMEM. *ret needs work_job_done in any case. */
MUST_CHECK int work_job_read(struct span object, struct work_job *ret);
void work_job_done(struct work_job *j);
/* Whether it is a header of the trace context: traceparent or tracestate, in any case. */
bool work_header_is_trace(struct span name);
