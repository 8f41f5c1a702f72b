/* SPDX-License-Identifier: Apache-2.0 */
/* A queue's policy as JSON: read from a request, written to a reply. The members come from
 * core/policy_table.h. */
#pragma once

#include "api/fields.h"
#include "core/policy_fields.h"

/* A policy as a request gives it, with the queue's note, and what is an API's about it. */
struct policy_in {
    struct queue_policy policy; /* filled in before: what holds for members that are not given */
    union {
        int64_t number;
        struct priority_in priority;
        struct span rate; /* an object or null */
    } given[POLICY_FIELDS];
    struct span note, owner, attributes; /* attributes: an object, or null for none any more */
};

/* The rows for a field_reader that reads into a struct policy_in; without rows: no memory. */
struct fields policy_rows(struct arena *arena);
/* After reading: completes in->policy and checks it. 0, or -ERR_INVALID with the reader's problem
 * set. */
MUST_CHECK int policy_in_take(struct policy_in *in, const struct field_reader *r);
/* "backoff", as a policy and a job's own options show it. */
void backoff_write(struct json_writer *w, const struct backoff *b);
/* One member with its name; all of them as one object. */
void policy_member_write(struct json_writer *w, const struct policy_field *f,
                         const struct queue_policy *p);
void policy_write(struct json_writer *w, const struct queue_policy *p);
