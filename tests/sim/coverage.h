/* SPDX-License-Identifier: Apache-2.0 */
/* What the seeds have reached, so that what they never reach can be seen. Plain counters, so that
 * worker processes can add them up in shared memory. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "ops/op.h"
#include "sim/plan.h"

#define COVERAGE_RECORDS 256 /* a kind is one byte */

#define FAULT_TABLE(X)                                                                             \
    X(CRASH)                                                                                       \
    X(CRASH_IN_BOOT)                                                                               \
    X(FRAMES_LOST)                                                                                 \
    X(COMMIT_UNACKNOWLEDGED)                                                                       \
    X(CLEAN_RESTART)                                                                               \
    X(REPLAYED_FRAME)                                                                              \
    X(REPLY_CUT)                                                                                   \
    X(REQUEST_LOST)                                                                                \
    X(REQUEST_TWICE)                                                                               \
    X(REQUEST_AGAIN)                                                                               \
    X(STALL)                                                                                       \
    X(WALL_JUMP)                                                                                   \
    X(WALL_LEAP)                                                                                   \
    X(NO_MEMORY)                                                                                   \
    X(READ_ERROR)                                                                                  \
    X(DISK_FULL)                                                                                   \
    X(CONNECTION_LOST)                                                                             \
    /* with a journal */                                                                           \
    X(KILL)                                                                                        \
    X(POWER_CUT)                                                                                   \
    X(CUT_IN_APPEND)                                                                               \
    X(CUT_IN_PROVIDE)                                                                              \
    X(CUT_IN_RECOVERY)                                                                             \
    X(CUT_BEFORE_APPLIED)                                                                          \
    X(SYNC_FAILED)                                                                                 \
    X(TORN_TAIL)                                                                                   \
    X(ENTRY_KEPT)                                                                                  \
    X(ENTRY_LOST)                                                                                  \
    X(ENTRY_REPEATED)                                                                              \
    X(ENTRY_OVERSIZE)                                                                              \
    X(SEGMENT_RECYCLED)                                                                            \
    X(APPEND_WAITED)                                                                               \
    X(PROVIDE_FULL)

enum fault {
#define FAULT_ENUM(name) FAULT_##name,
    FAULT_TABLE(FAULT_ENUM)
#undef FAULT_ENUM
        FAULT_COUNT
};

struct coverage {
    uint64_t seeds, requests, replies, jobs_claimed, commits, bytes, verifies, hashes;
    uint64_t virtual_ms;
    uint64_t outcomes[OP_KIND_COUNT][OUT_COUNT];
    uint64_t repeats[OP_KIND_COUNT];
    uint64_t records[COVERAGE_RECORDS];
    uint64_t faults[FAULT_COUNT];
    uint64_t features[FEATURE_COUNT];
};

void coverage_add(struct coverage *to, const struct coverage *from);
/* Counts the records of a frame. */
void coverage_frame(struct coverage *c, struct span frame);
void coverage_print(const struct coverage *c, FILE *out);
/* Whether every fault occurred that this build can make; says on `out` which did not. */
bool coverage_faults(const struct coverage *c, FILE *out);
/* Whether every operation was answered with success, and every record became durable, that some
 * client has. */
bool coverage_reached(const struct coverage *c, FILE *out);
