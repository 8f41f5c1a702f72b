/* SPDX-License-Identifier: Apache-2.0 */
/* Random lives of a journal on a disk that tears: appends of all sizes, a store that lags,
 * restarts, kills and power cuts at any point, failing and full disks. After each restart
 * everything that was appended is there, in order and as it was, and nothing else but the one entry
 * on its way. */
#pragma once

#include "backend/local/journal/journal.h"

struct journal_history {
    uint64_t seed;
    unsigned steps;
    unsigned defects; /* enum journal_defect */
    bool damage;      /* ends with a flipped byte, which must be refused */
    /* What it reached; histories add to it. */
    struct journal_history_figures {
        uint64_t appends, refusals, recovered, in_flight_kept, in_flight_lost, crashes, kills,
            begin_cuts, failures, damages, generations, torn;
    } reached;
};

/* Whether all went as promised; `why` (of 1,024 bytes) says what did not. */
bool journal_history_run(struct journal_history *h, char *why);
