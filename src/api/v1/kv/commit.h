/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a commit, enqueues and changes of keys: of POST /v1/kv/commit, and of an ack that
 * hands off. */
#pragma once

#include "api/fields/fields.h"
#include "api/v1/v1_impl.h"
#include "core/limits.h"

#define VERSION_MAX ((INT64_C(1) << 53) - 1)

struct commit_in {
    struct texts_in checks, sets, deletes, enqueues;
};

/* The rows of a table of fields that read into a struct commit_in at `base`; flags: enum
 * field_flag.
 */
#define COMMIT_ROW(name, type, base, most, flags)                                                  \
    {                                                                                              \
#name, type, (base) + offsetof(struct commit_in, name), 0, most, NULL, flags               \
    }
#define HANDOFF_ROWS(base, flags)                                                                  \
    COMMIT_ROW(sets, FIELD_OBJECTS, base, LIMIT_KV_KEYS, flags),                                   \
        COMMIT_ROW(deletes, FIELD_KV_KEYS, base, LIMIT_KV_KEYS, flags),                            \
        COMMIT_ROW(enqueues, FIELD_OBJECTS, base, LIMIT_KV_ENQUEUES, flags)

/* The commit that the members mean, in the exchange's arena. -ERR_INVALID with the problem set. */
MUST_CHECK int commit_read(struct native *n, struct http_exchange *x, const struct commit_in *in,
                           struct op_kv_commit *ret, struct problem *problem);
/* Writes "version", "deleted" and, with enqueues, "jobs". A job that is not known (a repeated ack)
 * is null. */
void commit_write(struct json_writer *w, const struct kv_commit_reply *r);
/* A copy that outlives the reply. NULL: no memory. */
const struct kv_commit_reply *commit_keep(struct arena *arena, const struct kv_commit_reply *r);
/* The refusal of a commit: `c` says which check or enqueue it is about. */
void commit_problem(struct problem *p, struct arena *arena, const struct reply *r,
                    const struct kv_commit_reply *c, bool draining);

/* Submits the commit of the call, which answers a refusal. */
void commit_submit(struct call *c);
/* The end of something that lasts for ms. */
struct wall_time commit_expiry(struct wall_time now, int64_t ms);
