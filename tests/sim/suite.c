/* SPDX-License-Identifier: Apache-2.0 */
/* What the ordinary test run asks of the simulation: HF-1, HF-2, HF-17 and the rules of NOM-2…7,
 * PDQ-2…4 under crashes, repeats and bad clocks. Without HF_TEST_HOOKS the planted defects are left
 * out. */
#include "sim/suite.h"

#include <stdio.h>

#include "sim/model/lockstep.h"
#include "sim/planted.h"
#include "sim/run.h"

#define MODEL_STEPS 200000
#define SEEDS 2000
#define SQLITE_SEEDS 20
#define SAME_SEEDS 10

struct tap {
    unsigned count, failed;
};

static void tap_case(void *ctx, bool ok, const char *name)
{
    struct tap *t = ctx;
    t->failed += !ok;
    printf("%sok %u - %s\n", ok ? "" : "not ", ++t->count, name);
    fflush(stdout);
}

static int tap_end(const struct tap *t)
{
    printf("1..%u\n", t->count);
    return t->failed ? 1 : 0;
}

static bool seeds(uint64_t from, uint64_t count, bool sqlite, struct coverage *ret)
{
    struct run_many m = {.from = from, .count = count, .jobs = 1};
    m.options.sqlite = sqlite;
    return run_seeds(&m, ret) == 0;
}

/* The ordinary seeds, and that they have reached everything they are for. */
static void many_seeds(struct tap *t)
{
    struct coverage c = {0};
    tap_case(t, seeds(1, SEEDS, false, &c), "2000 seeds keep every promise");
    coverage_print(&c, stderr);
    tap_case(t, coverage_faults(&c, stderr), "and meet every fault, power cuts and torn tails too");
    tap_case(t, coverage_reached(&c, stderr), "and use every operation and record");
    tap_case(t, seeds(SEEDS + 1, SQLITE_SEEDS, true, &c), "20 more seeds, all on SQLite");
}

/* Seeds that once raised an alarm, the program's fault or the checker's: job pruned beside jobs
 * no client had heard of; a body that went from the cache while its reply waited for others, twice;
 * a commit into many queues; an expiry whose key was deleted; items of a job that was an item
 * itself; a last entry kept in place on a full disk after a failed sync; a cancel of a job whose
 * claim had not been answered yet, which ended the lease too late, and too early; progress of a job
 * whose newest lease no client had heard of. */
static bool kept_seeds(void)
{
    static const uint64_t kept[] = {100094234, 40003438, 40003567, 142,    197,
                                    62009029,  71022037, 501228,   506725, 300016538};
    bool good = true;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        struct coverage c = {0};
        good = seeds(kept[i], 1, false, &c) && good;
    }
    return good;
}

/* A seed decides everything: run twice, it leaves the same trace. */
static bool same_trace(void)
{
    bool same = true;
    for (uint64_t seed = 1; seed <= SAME_SEEDS; seed++) {
        struct run_options o = {.memory = seed > 1, .sqlite = seed == 1};
        struct coverage c = {0};
        uint64_t first, second, other;
        (void)run_seed(seed, &o, true, &c, NULL, &first);
        (void)run_seed(seed, &o, true, &c, NULL, &second);
        (void)run_seed(seed + SAME_SEEDS, &o, true, &c, NULL, &other);
        if (first != second)
            fprintf(stderr, "seed %llu leaves two traces\n", (unsigned long long)seed);
        same = same && first == second && first != other;
    }
    return same;
}

int suite_self(void)
{
    struct tap t = {0};
    selftest_run(tap_case, &t);
    return tap_end(&t);
}

int suite_planted(void)
{
    struct tap t = {0};
#ifdef HF_TEST_HOOKS
    planted_cases(tap_case, &t);
#else
    fputs("sim: this build has no test hooks, so no planted defects\n", stderr);
    t.failed = 1;
#endif
    return tap_end(&t);
}

int suite_run(void)
{
    struct tap t = {0};
    selftest_run(tap_case, &t);
    tap_case(&t, lockstep_run(1, MODEL_STEPS, false) == 0, "the engine agrees with the model");
    tap_case(&t, same_trace(), "the same seed leaves the same trace");
    tap_case(&t, kept_seeds(), "seeds that once raised an alarm raise none");
    many_seeds(&t);
#ifdef HF_TEST_HOOKS
    planted_cases(tap_case, &t);
#endif
    return tap_end(&t);
}
