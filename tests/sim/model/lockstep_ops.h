/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations for the lockstep of engine and model: each seed draws which kinds, options and
 * sizes it uses. */
#pragma once

#include "backend/local/engine/engine.h"
#include "base/digest/random.h"
#include "sim/plan.h"
#include "sim/pool.h"

#define OPS_QUEUES 4
#define OPS_LEASES 64
#define OPS_BATCH 4

struct ops_lease {
    uint64_t seq;
    struct job_token token;
    uint64_t nonce;
};

struct ops_source {
    struct random random;
    struct pool pool; /* ops live as long as the run */
    struct plan plan; /* for its features and policies */
    bool leaps;
    bool limits; /* queues get limits at the claim */
    unsigned weights[OP_KIND_COUNT];
    unsigned weight_sum;
    struct span queues[OPS_QUEUES];
    uint64_t seqs[1024];
    uint32_t seq_count;
    struct ops_lease leases[OPS_LEASES]; /* the last ones; a ring */
    uint32_t lease_count;
    uint64_t nonce, tag;
    unsigned keys;
};

void ops_init(struct ops_source *s, uint64_t seed);
void ops_done(struct ops_source *s);
void ops_config(struct ops_source *s, struct engine_config *ret);
const struct op *ops_batch(struct ops_source *s, struct now now, size_t *ret_count);
/* What the replies brought. */
void ops_enqueued(struct ops_source *s, uint64_t seq);
void ops_leased(struct ops_source *s, const struct job_view *v);
