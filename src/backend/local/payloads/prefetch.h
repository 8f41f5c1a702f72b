/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetch: reads the bodies of the next jobs before a claim needs them.
 *
 * A body that is neither in the cache nor prefetched costs its claim a read of the disk. This
 * happens in queues whose jobs outgrow the cache. When a claim of a queue finds a body missing, the
 * bodies of the next jobs in the claim order of this queue are read from the store in one sorted
 * batch, and again whenever half of that batch has been claimed. A queue whose claims miss nothing
 * is never prefetched.
 *
 * A prefetched body is valid for a job as long as no record has changed the job since the read was
 * requested: the position of the job's last record is compared. Only one read is outstanding at a
 * time. */
#pragma once

#include "backend/local/engine/engine.h"

struct prefetch;

/* What to read: jobs by increasing sequence, whose records are all applied. */
struct prefetch_plan {
    uint64_t *seqs;
    size_t count;
};

struct cache;

/* Bodies that `first` has are not read. */
MUST_CHECK int prefetch_new(struct engine *e, const struct cache *first, struct prefetch **ret);
void prefetch_free(struct prefetch *a); /* NULL is allowed */
bool prefetch_get(const struct prefetch *a, uint64_t seq, struct job_extra *extra,
                  struct span *payload);
void prefetch_drop(struct prefetch *a, uint64_t seq);
void prefetch_hold(struct prefetch *a); /* as cache_hold */
void prefetch_release(struct prefetch *a);
/* A claim took this many jobs of the queue; `missed`: one of the bodies was not in memory;
 * `applied`: the position of the store. True: *ret says what to read; it stays valid until
 * prefetch_filled, which must be called. One at a time. */
bool prefetch_claimed(struct prefetch *a, uint32_t queue, uint32_t count, bool missed,
                      uint64_t applied, struct prefetch_plan *ret);
/* The result of the read; NULL = it failed. */
void prefetch_filled(struct prefetch *a, const struct stored_body *bodies);
