/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/planted.h"

#include "backend/local/defects.h"
#include "sim/run.h"

#define SEEDS_MAX 400

static const struct {
    unsigned defect;
    const char *name;
} defects[] = {
    {DEFECT_REPLY_EARLY, "replies leave before their records are durable"},
    {DEFECT_DUPLICATE_EARLY, "a duplicate is answered before the first is durable"},
    {DEFECT_ANY_TOKEN, "ack ignores the token"},
    {DEFECT_EPOCH_KEPT, "tokens are issued again after a restart"},
    {DEFECT_UNIQUE_BY_STATE, "a unique key is free again once its job is running"},
    {DEFECT_ATTEMPTS_UNRECORDED, "failures are counted in memory, not in the record"},
    {DEFECT_LEASE_ON_WALL, "leases end by wall time"},
    {DEFECT_CLAIM_UNRECORDED, "claims leave no record"},
    {DEFECT_NEWEST_FIRST, "among equal priorities the newest is handed out first"},
    {DEFECT_PROMOTE_EARLY, "scheduled jobs become ready 50 ms too soon"},
    {DEFECT_COUNT_DRIFTS, "a cancelled job stays in the count of ready ones"},
    {DEFECT_ACK_COMES_BACK, "every 16th ack is answered but not recorded"},
    {DEFECT_DEAD_AGAIN, "a dead job stays in the ready order"},
    {DEFECT_KEY_FORGOTTEN, "idempotency keys are not recorded"},
};
#define DEFECTS (sizeof(defects) / sizeof(defects[0]))

/* The first seed in which a check fails, 0 when none does. */
static uint64_t hunt(unsigned defect, bool no_verify, enum check *ret)
{
    struct run_options o = {.memory = true, .defects = defect, .no_verify = no_verify};
    for (uint64_t seed = 1; seed <= SEEDS_MAX; seed++)
        if ((*ret = run_apart(seed, &o)) != CHECK_NONE)
            return seed;
    return 0;
}

bool planted_run(FILE *out)
{
    bool all = true;
    for (size_t i = 0; i < DEFECTS; i++) {
        enum check check;
        uint64_t seeds = hunt(defects[i].defect, true, &check);
        all = all && seeds;
        if (seeds)
            fprintf(out, "caught by %-6s after %3llu seeds: %s\n", check_name(check),
                    (unsigned long long)seeds, defects[i].name);
        else
            fprintf(out, "NOT caught in %d seeds: %s\n", SEEDS_MAX, defects[i].name);
        fflush(out);
    }
    return all;
}
