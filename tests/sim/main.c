/* SPDX-License-Identifier: Apache-2.0 */
/* sim: the simulation's command line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "sim/model/lockstep.h"
#include "sim/run.h"
#include "sim/suite.h"

struct request {
    enum { DO_NOTHING, DO_SEED, DO_SEEDS, DO_MODEL, DO_PLANTED, DO_SUITE, DO_SELF } what;
    uint64_t seed, model_steps, model_seed;
    bool trace;
    struct run_many many;
};

static int usage(void)
{
    fputs("usage: sim --seed N [--trace]        one seed; prints its trace hash\n"
          "       sim --seeds N [--from M]      many seeds, then what they reached\n"
          "       sim --minutes N [--from M]    as many as fit\n"
          "       sim --model STEPS [--from M]  the engine in lockstep with the model\n"
          "       sim --planted                 planted defects must be caught\n"
          "       sim --self                    the checker on histories written by hand\n"
          "       sim --suite                   all of it, as `make test` runs it (TAP)\n"
          "options: --jobs J    processes (1)\n"
          "         --store sqlite|memory    for every seed (else one in 50 on SQLite)\n"
          "         --defects MASK           planted defects, see defects.h\n"
          "         --journal-defects MASK   likewise, see journal.h and disk_journal.h\n"
          "         --split KIND             frames in two parts before records of this kind\n"
          "         --no-verify              history checks only\n",
          stderr);
    return 2;
}

static bool number(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    *ret = text ? strtoull(text, &end, 10) : 0;
    return text && *text && *end == '\0' && errno == 0;
}

static int one(const struct request *q)
{
    static struct coverage c;
    struct run_options o = q->many.options;
    struct violation v;
    uint64_t hash;
    o.trace = q->trace ? stdout : NULL;
    bool ok = run_seed(q->seed, &o, false, &c, &v, &hash);
    if (o.trace)
        coverage_print(&c, stdout);
    printf("seed %llu: %s, trace hash %016llx\n", (unsigned long long)q->seed,
           ok ? "ok" : check_name(v.check), (unsigned long long)hash);
    return ok ? 0 : 1;
}

static int many(const struct run_many *m)
{
    static struct coverage c;
    uint64_t start = clock_ns();
    uint64_t failures = run_seeds(m, &c);
    double took = (double)(clock_ns() - start) / 1e9;
    coverage_print(&c, stdout);
    printf("%llu seeds from %llu in %.1f s (%.0f/s): %llu failed\n", (unsigned long long)c.seeds,
           (unsigned long long)m->from, took, (double)c.seeds / took, (unsigned long long)failures);
    return failures ? 1 : 0;
}

static int model(const struct request *q)
{
    uint64_t start = clock_ns();
    uint64_t failures = lockstep_run(q->many.from, q->model_steps, true);
    printf("%llu steps in %.1f s: %llu runs failed\n", (unsigned long long)q->model_steps,
           (double)(clock_ns() - start) / 1e9, (unsigned long long)failures);
    return failures ? 1 : 0;
}

/* One argument, with its value where it has one; false when it is not understood. */
static bool argument(struct request *q, const char *name, const char *value, bool *ret_used)
{
    uint64_t n = 0;
    bool numeric = number(value, &n);
    struct run_many *m = &q->many;
    *ret_used = true;
    if (!strcmp(name, "--seed") && numeric) {
        q->what = DO_SEED;
        q->seed = n;
    } else if (!strcmp(name, "--seeds") && numeric) {
        q->what = DO_SEEDS;
        m->count = n;
    } else if (!strcmp(name, "--minutes") && numeric) {
        q->what = DO_SEEDS;
        m->minutes = (double)n;
    } else if (!strcmp(name, "--model") && numeric) {
        q->what = DO_MODEL;
        q->model_steps = n;
    } else if (!strcmp(name, "--from") && numeric) {
        m->from = n;
    } else if (!strcmp(name, "--jobs") && numeric && n > 0 && n <= 64) {
        m->jobs = (unsigned)n;
    } else if (!strcmp(name, "--defects") && numeric) {
        m->options.defects = (unsigned)n;
    } else if (!strcmp(name, "--journal-defects") && numeric) {
        m->options.journal_defects = (unsigned)n;
    } else if (!strcmp(name, "--split") && numeric && n < 256) {
        m->options.split = (uint8_t)n;
    } else if (!strcmp(name, "--store") && value && !strcmp(value, "sqlite")) {
        m->options.sqlite = true;
    } else if (!strcmp(name, "--store") && value && !strcmp(value, "memory")) {
        m->options.memory = true;
    } else {
        *ret_used = false;
        if (!strcmp(name, "--trace"))
            q->trace = true;
        else if (!strcmp(name, "--no-verify"))
            m->options.no_verify = true;
        else if (!strcmp(name, "--planted"))
            q->what = DO_PLANTED;
        else if (!strcmp(name, "--self"))
            q->what = DO_SELF;
        else if (!strcmp(name, "--suite"))
            q->what = DO_SUITE;
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct request q = {.many = {.from = 1, .jobs = 1, .progress = true}};
    for (int i = 1; i < argc; i++) {
        bool used;
        if (!argument(&q, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &used))
            return usage();
        i += used;
    }
    if (q.what == DO_SEEDS && q.many.count == 0 && q.many.minutes <= 0)
        return usage();
    switch (q.what) {
    case DO_SEED:
        return one(&q);
    case DO_SEEDS:
        return many(&q.many);
    case DO_MODEL:
        return model(&q);
    case DO_PLANTED:
        return suite_planted();
    case DO_SELF:
        return suite_self();
    case DO_SUITE:
        return suite_run();
    case DO_NOTHING:
        break;
    }
    return usage();
}
