/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/coverage.h"

#include "base/check.h"
#include "core/records/frame.h"
#include "core/records/record.h"
#include "sim/checker/history.h"

static const char *const fault_names[FAULT_COUNT] = {
#define FAULT_ROW(name) #name,
    FAULT_TABLE(FAULT_ROW)
#undef FAULT_ROW
};

void coverage_add(struct coverage *to, const struct coverage *from)
{
    _Static_assert(sizeof(*to) % sizeof(uint64_t) == 0, "counters only");
    uint64_t *sum = (uint64_t *)to;
    const uint64_t *more = (const uint64_t *)from;
    for (size_t i = 0; i < sizeof(*to) / sizeof(uint64_t); i++)
        sum[i] += more[i];
}

void coverage_frame(struct coverage *c, struct span frame)
{
    struct frame f;
    struct record r;
    c->bytes += frame.len;
    CHECK(frame_decode(&frame, &f) == 0);
    while (f.body.len > 0) {
        CHECK(record_decode(&f.body, &r) == 0);
        if ((unsigned)r.kind < COVERAGE_RECORDS)
            c->records[r.kind]++;
    }
}

static void print_outcomes(const struct coverage *c, FILE *out)
{
    for (int k = 0; k < OP_KIND_COUNT; k++) {
        if (k == OP_TICK)
            continue;
        fprintf(out, "  %-11s", op_kind_name((enum op_kind)k));
        for (int o = 0; o < OUT_COUNT; o++)
            if (c->outcomes[k][o])
                fprintf(out, " %s %llu", outcome_name((enum outcome)o),
                        (unsigned long long)c->outcomes[k][o]);
        if (c->repeats[k])
            fprintf(out, " (repeats %llu)", (unsigned long long)c->repeats[k]);
        fputc('\n', out);
    }
}

static void print_never(const struct coverage *c, FILE *out)
{
    fputs("  never:", out);
    for (int o = 0; o < OUT_COUNT; o++) {
        uint64_t sum = 0;
        for (int k = 0; k < OP_KIND_COUNT; k++)
            sum += c->outcomes[k][o];
        if (sum == 0)
            fprintf(out, " outcome:%s", outcome_name((enum outcome)o));
    }
    for (int k = 0; k < COVERAGE_RECORDS; k++)
        if (record_name((enum record_kind)k) && c->records[k] == 0)
            fprintf(out, " record:%s", record_name((enum record_kind)k));
    for (int f = 0; f < FAULT_COUNT; f++)
        if (c->faults[f] == 0)
            fprintf(out, " fault:%s", fault_names[f]);
    fputc('\n', out);
}

void coverage_print(const struct coverage *c, FILE *out)
{
    fprintf(out,
            "%llu seeds, %llu requests, %llu replies, %llu jobs claimed, %llu commits, "
            "%llu recoveries verified, %llu states compared, %.1f h of virtual time\n",
            (unsigned long long)c->seeds, (unsigned long long)c->requests,
            (unsigned long long)c->replies, (unsigned long long)c->jobs_claimed,
            (unsigned long long)c->commits, (unsigned long long)c->verifies,
            (unsigned long long)c->hashes, (double)c->virtual_ms / 3600e3);
    print_outcomes(c, out);
    fputs("  records:", out);
    for (int k = 0; k < COVERAGE_RECORDS; k++)
        if (c->records[k])
            fprintf(out, " %s %llu", record_name((enum record_kind)k),
                    (unsigned long long)c->records[k]);
    fputs("\n  faults:", out);
    for (int f = 0; f < FAULT_COUNT; f++)
        if (c->faults[f])
            fprintf(out, " %s %llu", fault_names[f], (unsigned long long)c->faults[f]);
    fputc('\n', out);
    print_never(c, out);
}

bool coverage_faults(const struct coverage *c, FILE *out)
{
    bool all = true;
    for (int f = 0; f < FAULT_COUNT; f++) {
#ifndef HF_TEST_HOOKS
        if (f == FAULT_NO_MEMORY)
            continue;
#endif
        if (c->faults[f] > 0)
            continue;
        fprintf(out, "no seed had the fault %s\n", fault_names[f]);
        all = false;
    }
    return all;
}

/* Only when jobs move in from another store, while no client uses the store; only when a parent is
 * changed that has more dependents than a slice (test_engine_dependencies.c). */
static bool never_written(enum record_kind kind)
{
    return kind == REC_JOB_ATTEMPT || kind == REC_PARENT_ENDED;
}

/* Internal; of stores that nodes share; of jobs that stay open, which would not end in the drain
 * (conform_dependencies.c). */
static bool never_asked(enum op_kind kind)
{
    return kind == OP_TICK || kind == OP_DEPENDENCIES || kind == OP_PENDING ||
           kind == OP_DISPATCHED;
}

bool coverage_reached(const struct coverage *c, FILE *out)
{
    bool all = true;
    for (int k = 0; k < OP_KIND_COUNT; k++) {
        if (never_asked((enum op_kind)k) || c->outcomes[k][OUT_OK] > 0)
            continue;
        fprintf(out, "no seed had a successful %s\n", op_kind_name((enum op_kind)k));
        all = false;
    }
    for (int k = 0; k < COVERAGE_RECORDS; k++) {
        const char *name = record_name((enum record_kind)k);
        if (!name || never_written((enum record_kind)k) || c->records[k] > 0)
            continue;
        fprintf(out, "no seed had the record %s\n", name);
        all = false;
    }
    return all;
}
