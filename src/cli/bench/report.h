/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a run, as a table for people or as one line of JSON. */
#pragma once

#include <stdio.h>

#include "cli/bench/plan.h"

struct bench_figures {
    const struct bench_plan *plan;
    const struct bench_result *result;
    double syncs_per_s;     /* negative: not measured */
    uint64_t server_cpu_ns; /* over the run */
    bool has_server_cpu;
    bool interrupted;
};

/* -ERR_NOMEM. */
MUST_CHECK int bench_report_text(const struct bench_figures *f, FILE *out);
MUST_CHECK int bench_report_json(const struct bench_figures *f, FILE *out);
/* "850 ns", "12.3 us", "4.56 ms", "1.20 s" */
#define BENCH_TIME_BYTES 32
const char *bench_report_time(uint64_t ns, char out[BENCH_TIME_BYTES]);
