/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void bench_must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "bench: could not %s\n", what);
    exit(1);
}

const char *bench_option_text(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return otherwise;
}

long bench_option(int argc, char **argv, const char *name, long otherwise)
{
    const char *text = bench_option_text(argc, argv, name, NULL);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void bench_progress(const char *what, int done, int of)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%s: run %d of %d ", what, done + 1, of);
}

uint64_t bench_cpu_ns(void)
{
    struct timespec t;
    bench_must(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0, "read the processor time");
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
