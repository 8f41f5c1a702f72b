/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/server/metrics.h"

#include <inttypes.h>
#include <stdarg.h>

#define put(m, ...)                                                                                \
    do {                                                                                           \
        if ((m)->error == 0)                                                                       \
            (m)->error = buf_printf((m)->out, __VA_ARGS__);                                        \
    } while (0)

void metric_family(struct metrics *m, const struct metric *family)
{
    put(m, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help, family->name, family->type);
}

void metric_reference(FILE *out, const struct metric *families, size_t count)
{
    for (const struct metric *f = families; f < families + count; f++)
        fprintf(out, "| `%s` | %s | %s | %s |\n", f->name, f->type, f->labels ? f->labels : "",
                f->help);
}

static void put_name(struct metrics *m, const char *name, const char *suffix, const char *labels)
{
    if (labels)
        put(m, "%s%s{%s} ", name, suffix, labels);
    else
        put(m, "%s%s ", name, suffix);
}

void metric_value(struct metrics *m, const struct metric *family, const char *labels, double value)
{
    put_name(m, family->name, "", labels);
    put(m, "%.9g\n", value);
}

void metric_count(struct metrics *m, const struct metric *family, const char *labels,
                  uint64_t value)
{
    put_name(m, family->name, "", labels);
    put(m, "%" PRIu64 "\n", value);
}

static void put_bucket(struct metrics *m, const struct metric *family, const char *labels,
                       double le, uint64_t count)
{
    put(m, "%s_bucket{%s%sle=\"%.9g\"} %" PRIu64 "\n", family->name, labels ? labels : "",
        labels ? "," : "", le, count);
}

void metric_histogram(struct metrics *m, const struct metric *family, const char *labels,
                      const struct histogram *h, const struct metric_scale *scale)
{
    uint64_t below = 0;
    unsigned next = scale->from;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS - 1 && i <= scale->to; i++) {
        below += h->bucket[i];
        if (i != next)
            continue;
        put_bucket(m, family, labels, (double)(UINT64_C(1) << i) * scale->unit, below);
        next += scale->step;
    }
    put(m, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", family->name, labels ? labels : "",
        labels ? "," : "", h->count);
    put_name(m, family->name, "_sum", labels);
    put(m, "%.9g\n", (double)h->sum * scale->unit);
    put_name(m, family->name, "_count", labels);
    put(m, "%" PRIu64 "\n", h->count);
}

void metric_label(char *out, const char *name, struct span value)
{
    while (*name)
        *out++ = *name++;
    *out++ = '=';
    *out++ = '"';
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];
        if (c == '\\' || c == '"' || c == '\n')
            *out++ = '\\';
        *out++ = c == '\n' ? 'n' : c;
    }
    *out++ = '"';
    *out = '\0';
}
