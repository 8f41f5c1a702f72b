/* SPDX-License-Identifier: Apache-2.0 */
/* A queue's policy as JSON: read from a request, written to a reply. The members come from
 * core/queues/policy_table.h. */
#pragma once

#include "api/fields/fields.h"
#include "core/queues/policy_fields.h"

/* The policy in a request, with the description of the queue and the members that belong to an
 * API. */
struct policy_in {
    struct queue_policy
        policy; /* filled in by the caller with the values of members that are not given */
    union {
        int64_t number;
        struct priority_in priority;
        struct span rate; /* an object or null */
    } given[POLICY_FIELDS];
    struct span note, owner, attributes; /* attributes: an object, or null to remove them */
};

/* The rows for a field_reader that reads into a struct policy_in; no rows: no memory. */
struct fields policy_rows(struct arena *arena);
/* After reading: completes in->policy and checks it. 0, or -ERR_INVALID with the reader's problem
 * set. */
MUST_CHECK int policy_in_take(struct policy_in *in, const struct field_reader *r);
/* Writes "backoff", for policies and for the options of a job. */
void backoff_write(struct json_writer *w, const struct backoff *b);
/* Write one member with its name; all members as an object. */
void policy_member_write(struct json_writer *w, const struct policy_field *f,
                         const struct queue_policy *p);
void policy_write(struct json_writer *w, const struct queue_policy *p);
