/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the benchmarks: options, medians, progress. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

void bench_must(bool ok, const char *what); /* ends the program with a message */
long bench_option(int argc, char **argv, const char *name, long otherwise);
const char *bench_option_text(int argc, char **argv, const char *name, const char *otherwise);
double bench_median(double *values, int count);          /* sorts them */
void bench_progress(const char *what, int done, int of); /* standard error, only on a terminal */
/* Processor time of this thread: other processes on the machine affect it less than wall time. */
uint64_t bench_cpu_ns(void);
