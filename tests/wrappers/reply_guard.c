/* SPDX-License-Identifier: Apache-2.0 */
/* Finds code that sets or reads a field of a reply that belongs to another family of operations. In
 * release builds the structs of the families share their memory, so that such a field has an
 * arbitrary value; here each has its own memory. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend_impl.h"
#include "base/check.h"

#define PATTERN 0xa5

/* The offset of a family's struct, taken from any of its fields, and its size. */
#define PART(name, field)                                                                          \
    {                                                                                              \
        offsetof(struct reply, field) - offsetof(struct name##_reply, field),                      \
            sizeof(struct name##_reply)                                                            \
    }
static const struct reply_part {
    size_t at, size;
} parts[REPLY_FAMILY_COUNT] = {[REPLY_ENQUEUE] = PART(enqueue, replaced_seq),
                               [REPLY_CHANGE] = PART(change, ran_ms),
                               [REPLY_JOBS] = PART(jobs, jobs),
                               [REPLY_QUEUES] = PART(queues, queues),
                               [REPLY_BULK] = PART(bulk, changed),
                               [REPLY_CLOCK] = PART(clock, was_suspect),
                               [REPLY_WORKERS] = PART(workers, workers),
                               [REPLY_REGISTRY] = PART(registry, entries),
                               [REPLY_ATTEMPTS] = PART(attempts, attempts),
                               [REPLY_HISTORY] = PART(history, hours),
                               [REPLY_KV_COMMIT] = PART(kv_commit, version),
                               [REPLY_KV] = PART(kv, kvs),
                               [REPLY_ALERTS] = PART(alerts, alerts),
                               [REPLY_NOTICES] = PART(notices, notices),
                               [REPLY_BREAKERS] = PART(breakers, breakers),
                               [REPLY_SCHEDULES] = PART(schedules, schedules)};

/* Zero, or filled here if an inner backend delivered the same reply. */
static bool part_unset(const unsigned char *at, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (at[i] != 0 && at[i] != PATTERN)
            return false;
    }
    return true;
}

void reply_guard(struct reply *r)
{
    for (size_t f = 0; f < REPLY_FAMILY_COUNT; f++) {
        unsigned char *at = (unsigned char *)r + parts[f].at;
        CHECK(f == REPLY_PLAIN || parts[f].size > 0); /* otherwise a row of the table is missing */
        if (f == reply_family(r) || f == REPLY_PLAIN)
            continue;
        CHECK(part_unset(at, parts[f].size));
        memset(at, PATTERN, parts[f].size);
    }
}

/* --- the replies of a batch --- */

struct guarded_batch {
    size_t left; /* replies that have not arrived */
    backend_reply_fn fn;
    void *ctx;
};

static void guarded_reply_cb(void *ctx, const struct reply *reply)
{
    struct guarded_batch *batch = ctx;
    struct guarded_batch to = *batch;
    struct reply r = *reply;
    CHECK(batch->left > 0);
    if (--batch->left == 0)
        free(batch);
    reply_guard(&r);
    to.fn(to.ctx, &r);
}

/* Its memory does not come from base/mem.h, whose allocations tests count and make fail. */
int backend_submit_guarded(struct backend *b, const struct op *ops, size_t count,
                           backend_reply_fn fn, void *ctx)
{
    struct guarded_batch *batch = malloc(sizeof *batch);
    CHECK(batch);
    *batch = (struct guarded_batch){count, fn, ctx};
    int err = b->ops->submit(b, ops, count, guarded_reply_cb, batch);
    if (err)
        free(batch);
    return err;
}
