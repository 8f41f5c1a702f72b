/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/plan.h"

#include <string.h>

#include "backend/local/journal/journal.h"
#include "base/check.h"

_Static_assert(FEATURE_COUNT <= 64, "features are one mask");

static const struct {
    const char *name;
    unsigned percent;
} features[FEATURE_COUNT] = {
#define FEATURE_ROW(name, percent) {#name, percent},
    FEATURE_TABLE(FEATURE_ROW) KEEPER_TABLE(FEATURE_ROW)
#undef FEATURE_ROW
};

const char *feature_name(enum feature f)
{
    return features[f].name;
}

static void draw_backoff(const struct plan *p, struct random *r, struct backoff *b)
{
    memset(b, 0, sizeof(*b));
    if (has(p, FEATURE_JITTER) && random_chance(r, 50)) {
        b->kind = BACKOFF_EXPONENTIAL;
        b->jitter_percent = (uint8_t)random_below(r, 30);
        b->base_ms = (uint32_t)random_between(r, 1, 500);
        b->max_ms = b->base_ms * (uint32_t)random_between(r, 1, 20);
        return;
    }
    b->kind = BACKOFF_LIST;
    b->step_count = (uint8_t)random_below(r, 4);
    for (unsigned i = 0; i < b->step_count; i++)
        b->step_ms[i] = (uint32_t)random_below(r, 1500);
}

void plan_policy(const struct plan *p, struct random *r, struct queue_policy *ret)
{
    static const uint8_t modes[] = {UNIQUE_REJECT, UNIQUE_RETURN, UNIQUE_REPLACE};
    struct err_note note;
    policy_default(ret);
    ret->lease_ms = (uint32_t)random_between(r, LIMIT_LEASE_MS_MIN, p->lease_ms);
    ret->timeout_ms = random_chance(r, 30) ? (uint32_t)random_between(r, 50, 2500) : 0;
    ret->cancel_grace_ms = random_chance(r, 80) ? (uint32_t)random_between(r, 1, 1500) : 0;
    ret->max_attempts = (uint16_t)random_between(r, 1, 5);
    ret->max_crashes = (uint16_t)random_below(r, 4);
    ret->lease_end = (uint8_t)random_below(r, 3);
    ret->unique_mode = modes[random_below(r, 3)];
    if (has(p, FEATURE_UNIQUE_KEPT))
        ret->unique_scope = (uint8_t)random_below(r, 3);
    ret->ranked = random_chance(r, 50);
    if (has(p, FEATURE_RELAXED))
        ret->durability = random_chance(r, 50) ? DURABILITY_RELAXED : DURABILITY_FSYNC;
    ret->priority = has(p, FEATURE_PRIORITIES) ? random_between(r, -2, 2) : 0;
    draw_backoff(p, r, &ret->backoff);
    if (has(p, FEATURE_CAPACITY))
        ret->capacity = (uint64_t)random_between(r, 3, 25);
    if (has(p, FEATURE_LARGE_PAYLOADS))
        ret->payload_max = p->payload_max / 4 * 3;
    if (has(p, FEATURE_RETENTION)) {
        ret->keep_done = random_below(r, 6);
        ret->keep_done_ms = random_between(r, 0, 20000);
        ret->keep_dead = random_below(r, 6);
        ret->keep_dead_ms = random_between(r, 0, 20000);
    }
    CHECK(policy_check(ret, &note) == 0);
}

static void draw_faults(struct plan *p, struct random *r)
{
    p->net_ms = random_between(r, 0, 30);
    p->commit_ms = has(p, FEATURE_SLOW_DISK) ? random_between(r, 5, 200) : 4;
    p->late_ms = random_between(r, 20, 8000);
    p->crash_ms = random_between(r, 300, 6000);
    p->wall_jump_ms = random_between(r, 10, 120000);
    p->lost_percent = has(p, FEATURE_LOST_MESSAGES) ? (unsigned)random_between(r, 1, 15) : 0;
    p->duplicate_percent = has(p, FEATURE_DUPLICATES) ? (unsigned)random_between(r, 1, 20) : 0;
}

static void draw_sizes(struct plan *p, struct random *r)
{
    p->queues = (unsigned)random_between(r, 1, PLAN_QUEUES - 1);
    p->producers = (unsigned)random_between(r, 1, 4);
    p->workers = (unsigned)random_between(r, 1, 5);
    p->admins = (unsigned)random_between(r, 0, 2);
    p->calls = (unsigned)random_between(r, 60, 500);
    p->think_ms = random_between(r, 1, 150);
    p->lease_ms = random_between(r, 150, random_chance(r, 50) ? 600 : 8000);
    p->keys_in_use = (unsigned)random_between(r, 1, 12);
    p->claim_count = (unsigned)random_between(r, 1, 8);
    p->capacity =
        has(p, FEATURE_CAPACITY) && random_chance(r, 40) ? (uint64_t)random_between(r, 5, 40) : 0;
    p->key_ttl_ms =
        has(p, FEATURE_SHORT_KEYS) ? (uint64_t)random_between(r, 200, 5000) : 24 * 3600 * 1000;
    p->keys_max = has(p, FEATURE_SHORT_KEYS) ? (uint64_t)random_between(r, 10, 200) : 1000000;
    p->cache_bytes = has(p, FEATURE_SMALL_CACHE) ? (random_chance(r, 40) ? 0 : 2000) : 1 << 20;
    p->seq_block = (uint32_t)random_between(r, 1, 64);
    p->slice = has(p, FEATURE_SMALL_SLICES) ? (uint32_t)random_between(r, 1, 12) : 0;
    p->ring = has(p, FEATURE_SMALL_RING) ? 1u << random_below(r, 5) : 1024;
    p->segment_bytes = JOURNAL_PAGE * (uint32_t)random_between(r, 4, 16);
    p->journal_bytes = p->segment_bytes * (uint64_t)random_between(r, 4, 10);
    p->payload_max = has(p, FEATURE_JOURNAL) && random_chance(r, 50) ? 2 * p->segment_bytes : 2000;
}

static void draw_keepers(struct plan *p, uint64_t seed)
{
    struct random r;
    random_seed(&r, seed * 6364136223846793005 + 31);
    bool any = random_chance(&r, KEEPER_PERCENT);
    for (int f = FEATURE_KEEPERS; any && f < FEATURE_KEEPERS_MORE; f++)
        if (random_chance(&r, features[f].percent))
            p->features |= UINT64_C(1) << f;
    p->keepers = p->features >> FEATURE_KEEPERS ? (unsigned)random_between(&r, 2, 5) : 0;
    for (int f = FEATURE_KEEPERS_MORE; p->keepers && f < FEATURE_COUNT; f++)
        if (random_chance(&r, features[f].percent))
            p->features |= UINT64_C(1) << f;
    p->calls += p->keepers * 30;
}

void plan_draw(struct plan *p, uint64_t seed, struct random *r)
{
    p->seed = seed;
    p->features = 0;
    for (int f = 0; f < FEATURE_KEEPERS; f++)
        if (random_chance(r, features[f].percent))
            p->features |= UINT64_C(1) << f;
    draw_sizes(p, r);
    draw_faults(p, r);
    plan_policy(p, r, &p->policy);
    p->policy.durability = DURABILITY_FSYNC;
    for (unsigned i = 0; i < PLAN_QUEUES; i++)
        plan_policy(p, r, &p->policies[i]);
    draw_keepers(p, seed);
}

void plan_print(const struct plan *p, FILE *out)
{
    fprintf(out,
            "seed %llu: %u queues, %u producers, %u workers, %u admins, %u keepers, %u calls, net "
            "%lld ms, "
            "commit %lld ms, lease %lld ms\n ",
            (unsigned long long)p->seed, p->queues, p->producers, p->workers, p->admins, p->keepers,
            p->calls, (long long)p->net_ms, (long long)p->commit_ms, (long long)p->lease_ms);
    for (int f = 0; f < FEATURE_COUNT; f++)
        if (has(p, (enum feature)f))
            fprintf(out, " %s", features[f].name);
    fputc('\n', out);
}
