/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus text (0.0.4): families, samples, labels. For /metrics and the APIs that add to it. The
 * folder v1/server has the endpoints of the server itself; what it may use is in v1_impl.h.
 *
 * The families of /metrics are rows in metrics_rows.c. "To add a metric" in ARCHITECTURE.md says
 * where a number comes from. */
#pragma once

#include <stdio.h>

#include "base/buf.h"
#include "base/containers/histogram.h"

struct metrics {
    struct buf *out;
    int error; /* first failure; later calls do nothing */
};

struct metric {
    const char *name, *type;
    const char *labels; /* names of its labels, for the reference page; NULL = none */
    const char *help;   /* a sentence */
};

/* Rows of the reference page docs/reference/metrics.md. */
void metric_reference(FILE *out, const struct metric *families, size_t count);
/* The rows of the families that GET /metrics always shows. */
void metrics_page_reference(FILE *out);

/* HELP and TYPE lines. */
void metric_family(struct metrics *m, const struct metric *family);
/* Writes one sample; labels are text without braces (`queue="a"`), NULL = none. */
void metric_value(struct metrics *m, const struct metric *family, const char *labels, double value);
void metric_count(struct metrics *m, const struct metric *family, const char *labels,
                  uint64_t value);
/* The powers of two of a histogram that become buckets, and the unit. */
struct metric_scale {
    unsigned from, to, step; /* exponents */
    double unit;
};
void metric_histogram(struct metrics *m, const struct metric *family, const char *labels,
                      const struct histogram *h, const struct metric_scale *scale);

/* NAME="VALUE" with backslash, quote and line break escaped, NUL-terminated. The room must hold
 * METRIC_LABEL_BYTES(value.len, strlen(name)). */
#define METRIC_LABEL_BYTES(value, name) ((value)*2 + (name) + 4)
void metric_label(char *out, const char *name, struct span value);
