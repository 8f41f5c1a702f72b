/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies read before they are asked for. Where the jobs of a queue outgrow the cache, the next ones
 * to be claimed are read from the store in one go, so that a claim need not wait for a disk: when a
 * claim has found a body missing, and from then on whenever half of what was read ahead is claimed.
 *
 * A body is good for a job as long as no record has touched it since the reading was asked for. */
#pragma once

#include "backend/local/engine/engine.h"

struct prefetch;

/* What to read: jobs by rising sequence, whose records are all applied. */
struct prefetch_wish {
    uint64_t *seqs;
    size_t count;
};

struct cache;

/* What `first` has is not read. */
MUST_CHECK int prefetch_new(struct engine *e, const struct cache *first, struct prefetch **ret);
void prefetch_free(struct prefetch *a); /* NULL allowed */
bool prefetch_get(const struct prefetch *a, uint64_t seq, struct job_extra *extra,
                  struct span *payload);
void prefetch_drop(struct prefetch *a, uint64_t seq);
void prefetch_hold(struct prefetch *a); /* as cache_hold */
void prefetch_release(struct prefetch *a);
/* A claim took so many jobs of the queue; `missed`: of one the body was not at hand; `applied`: the
 * position that the store has. True: *ret says what to read; it stays valid until prefetch_filled,
 * which must be called. One at a time. */
bool prefetch_claimed(struct prefetch *a, uint32_t queue, uint32_t count, bool missed,
                      uint64_t applied, struct prefetch_wish *ret);
/* What was read; NULL = it could not be. */
void prefetch_filled(struct prefetch *a, const struct stored_body *bodies);
