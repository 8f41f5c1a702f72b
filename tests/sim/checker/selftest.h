/* SPDX-License-Identifier: Apache-2.0 */
/* Histories written by hand, for the checks to be checked. */
#pragma once

#include "sim/checker/checker.h"
#include "sim/suite.h"

/* A history being written: one queue, time in steps of 10 ms unless told. */
struct scene {
    struct history h;
    int64_t mono;
    uint64_t position;
    uint32_t call;
    struct span queue;
    uint64_t claims;
};

struct scene_case {
    const char *name;
    void (*write)(struct scene *s);
    enum check expect;
};

struct now scene_now(const struct scene *s);
void scene_later(struct scene *s, int64_t ms);
/* An op that leaves one record and has no reply yet. */
struct hist_entry *scene_ask(struct scene *s, const struct op *op);
void scene_answer(struct scene *s, struct hist_entry *e, struct reply r);
/* The process dies, without its last records, and is back. */
void scene_crash(struct scene *s, uint64_t lost_records);

/* selftest_keeps.c: C11 … C14, C19, C20 */
extern const struct scene_case scene_keeper_cases[];
extern const size_t scene_keeper_case_count;
/* selftest_flow.c: batches, limits, turns: C20 … C22 */
extern const struct scene_case scene_flow_cases[];
extern const size_t scene_flow_case_count;
