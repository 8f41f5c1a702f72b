/* SPDX-License-Identifier: Apache-2.0 */
/* Running seeds: one, many, in several processes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/checker/checker.h"
#include "sim/coverage.h"

struct run_options {
    bool sqlite;              /* every seed on SQLite; else one in 50 */
    bool memory;              /* no seed on SQLite */
    unsigned defects;         /* enum engine_defect */
    unsigned journal_defects; /* enum journal_defect, enum disk_journal_defect */
    uint8_t split;            /* enum record_kind; 0 = no */
    bool no_verify;           /* leave it to the checks of the history */
    FILE *trace;              /* the whole history, NULL = no */
};

/* True when nothing was wrong. On a violation prints (unless quiet) the line to repeat it, what was
 * found and the last events of the job. */
bool run_seed(uint64_t seed, const struct run_options *options, bool quiet,
              struct coverage *coverage, struct violation *ret, uint64_t *ret_hash);

struct run_many {
    uint64_t from, count; /* count 0: until the time is over */
    unsigned jobs;        /* processes */
    double minutes;       /* 0 = no limit */
    bool progress;        /* show it */
    struct run_options options;
};

/* Each process takes every jobs-th seed. Returns the number of failing seeds; adds up coverage. A
 * process that dies counts as one, and its seed is named. */
uint64_t run_seeds(const struct run_many *many, struct coverage *ret);

/* Runs the seed in its own process, quietly: the check that failed, CHECK_NONE when none did,
 * CHECK_DIED when the process died. */
enum check run_apart(uint64_t seed, const struct run_options *options);
