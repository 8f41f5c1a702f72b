/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of random lives of a journal (journal_history.h), and proof that each planted defect is
 * seen by them. HF_SEED repeats a run, HF_HISTORIES makes it longer. */
#include "unit/backend/local/journal/journal_history.h"
#include "unit/base/support.h"

static uint64_t histories(uint64_t otherwise)
{
    const char *given = getenv("HF_HISTORIES");
    return given ? strtoull(given, NULL, 10) : otherwise;
}

static void print(const struct journal_history_figures *f)
{
    fprintf(stderr,
            "# appends %llu, refusals %llu, recovered frames %llu, in flight kept %llu lost %llu, "
            "crashes %llu, kills %llu, cut while beginning %llu, disk failures %llu, damages %llu, "
            "generations %llu, torn tails %llu\n",
            (unsigned long long)f->appends, (unsigned long long)f->refusals,
            (unsigned long long)f->recovered, (unsigned long long)f->in_flight_kept,
            (unsigned long long)f->in_flight_lost, (unsigned long long)f->crashes,
            (unsigned long long)f->kills, (unsigned long long)f->begin_cuts,
            (unsigned long long)f->failures, (unsigned long long)f->damages,
            (unsigned long long)f->generations, (unsigned long long)f->torn);
}

static void test_nothing_appended_is_lost_and_nothing_is_invented(void **state)
{
    (void)state;
    uint64_t seed = seed_pick(), count = histories(2000);
    fprintf(stderr, "# HF_SEED=%llu\n", (unsigned long long)seed);
    struct journal_history h = {.steps = 60, .damage = true};
    for (uint64_t i = 0; i < count; i++) {
        char why[1024];
        h.seed = seed + i;
        if (!journal_history_run(&h, why))
            fail_msg("HF_SEED=%llu HF_HISTORIES=1: %s", (unsigned long long)h.seed, why);
    }
    print(&h.reached);
    if (count < 1000)
        return;
    assert_true(h.reached.in_flight_kept > 0 && h.reached.in_flight_lost > 0);
    assert_true(h.reached.refusals > 0 && h.reached.begin_cuts > 0 && h.reached.failures > 0);
    assert_true(h.reached.crashes > 0 && h.reached.kills > 0 && h.reached.torn > 0);
    assert_true(h.reached.damages > count / 4);
    assert_true(h.reached.generations > 4 * count);
}

/* Seeds that once found something: a torn first entry that a later one of the same content made
 * whole, so that two segments had one generation and the journal was refused; an incomplete entry
 * with a damaged header that was reported again when its segment was used again. */
static void test_kept_seeds(void **state)
{
    (void)state;
    static const uint64_t kept[] = {2612169622, 2557892810};
    for (size_t i = 0; i < COUNT_OF(kept); i++) {
        struct journal_history h = {.seed = kept[i], .steps = 60, .damage = true};
        char why[1024];
        if (!journal_history_run(&h, why))
            fail_msg("HF_SEED=%llu HF_HISTORIES=1: %s", (unsigned long long)h.seed, why);
    }
}

static void test_planted_defects_are_caught(void **state)
{
    (void)state;
    static const unsigned defects[] = {JOURNAL_DEFECT_ANY_GENERATION, JOURNAL_DEFECT_NO_SYNC,
                                       JOURNAL_DEFECT_RECYCLE_EARLY};
    for (size_t i = 0; i < COUNT_OF(defects); i++) {
        struct journal_history h = {.seed = 1, .steps = 60, .defects = defects[i]};
        char why[1024];
        while (h.seed <= 500 && journal_history_run(&h, why))
            h.seed++;
        if (h.seed > 500)
            fail_msg("defect %u is not seen in 500 histories", defects[i]);
        fprintf(stderr, "# defect %u: seed %llu, %s\n", defects[i], (unsigned long long)h.seed,
                why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_appended_is_lost_and_nothing_is_invented),
        cmocka_unit_test(test_kept_seeds),
        cmocka_unit_test(test_planted_defects_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
