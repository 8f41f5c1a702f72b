/* SPDX-License-Identifier: Apache-2.0 */
/* A queue's policy in the words of the API: read from a request, written to an answer. */
#pragma once

#include "api/fields.h"

/* A policy as a request gives it, with the queue's note, and what is an API's about it. */
struct policy_in {
    int64_t lease_ms, max_attempts, max_crashes;
    struct backoff backoff;
    uint8_t lease_end, unique_mode, unique_scope, durability;
    bool refuse_new, require_token, ranked;
    struct priority_in priority;
    int64_t capacity, payload_max, warn_depth;
    int64_t keep_done_ms, keep_done, keep_dead_ms, keep_dead;
    struct rate_limit rate;              /* as it was … */
    struct span rate_limit;              /* … unless this object, or null, is given */
    struct span note, owner, attributes; /* attributes: an object, or null for none any more */
};

struct fields policy_fields(void);
/* What holds for members that are not given. */
void policy_in_from(struct policy_in *in, const struct queue_policy *p);
/* After reading: the policy, checked. 0, or -ERR_INVALID with the reader's problem set. */
MUST_CHECK int policy_in_take(const struct policy_in *in, const struct field_reader *r,
                              struct queue_policy *ret);
/* "backoff", as a policy and a job's own options show it. */
void backoff_write(struct json_writer *w, const struct backoff *b);
/* Its members, one object. */
void policy_write(struct json_writer *w, const struct queue_policy *p);
