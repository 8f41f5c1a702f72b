/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/containers/slab.h"
#include "base/system/clock.h"
#include "sim/world/world.h"

#define JOBS_MAX 64
#define SQLITE_EVERY 50
#define FAILURES_MAX 5 /* of one process, then it stops */

/* ---- one seed -------------------------------------------------------------------------------- */

static void print_repeat(uint64_t seed, const struct plan *p, const struct run_options *o)
{
    fprintf(stderr, "repeat with: sim --seed %llu%s", (unsigned long long)seed,
            p->sqlite   ? " --store sqlite"
            : o->memory ? " --store memory"
                        : "");
    if (o->defects)
        fprintf(stderr, " --defects %u", o->defects);
    if (o->journal_defects)
        fprintf(stderr, " --journal-defects %u", o->journal_defects);
    if (o->split)
        fprintf(stderr, " --split %u", o->split);
}

static void print_violation(const struct world *w, const struct violation *v,
                            const struct run_options *o)
{
    print_repeat(w->plan.seed, &w->plan, o);
    fprintf(stderr, ": %s at entry %zu: %s\n", check_name(v->check), v->entry, v->text);
    if (!o->trace && w->history.count > 0)
        history_print_job(&w->history, v->seq, v->entry, v->seq ? 40 : 12, stderr);
}

static void draw(struct plan *p, struct random *random, uint64_t seed, const struct run_options *o)
{
    memset(p, 0, sizeof(*p));
    random_seed(random, seed);
    plan_draw(p, seed, random);
    p->sqlite = o->sqlite || (!o->memory && seed % SQLITE_EVERY == SQLITE_EVERY - 1);
    p->defects = o->defects;
    p->journal_defects = o->journal_defects;
    p->split = o->split;
    p->no_verify = o->no_verify;
}

bool run_seed(uint64_t seed, const struct run_options *options, bool quiet,
              struct coverage *coverage, struct violation *ret, uint64_t *ret_hash)
{
    struct plan plan;
    struct random random;
    struct violation v = {.check = CHECK_NONE};
    struct world *w = malloc(sizeof(*w));
    CHECK(w != NULL);
    draw(&plan, &random, seed, options);
#ifdef HF_TEST_HOOKS
    slab_chunks_of((size_t)16 << 10);
#endif
    world_init(w, &plan, &random, coverage);
    bool machine = world_run(w);
    bool history = checker_run(&w->history, &v);
    if (history && !machine)
        v = w->bad;
    if (options->trace) {
        plan_print(&plan, options->trace);
        for (size_t i = 0; i < w->history.count; i++)
            history_print(&w->history, i, options->trace);
    }
    if (v.check != CHECK_NONE && !quiet)
        print_violation(w, &v, options);
    if (ret)
        *ret = v;
    if (ret_hash)
        *ret_hash = w->history.hash;
    world_done(w);
    free(w);
    return v.check == CHECK_NONE;
}

/* ---- many ------------------------------------------------------------------------------------ */

struct shared {
    struct coverage coverage[JOBS_MAX];
    uint64_t seed[JOBS_MAX]; /* at work */
    uint64_t failures[JOBS_MAX];
    uint64_t done[JOBS_MAX];
};

static double seconds(void)
{
    return (double)clock_ns() / 1e9;
}

static void work_through(const struct run_many *m, unsigned job, struct shared *s, double start)
{
    for (uint64_t n = job; m->count == 0 || n < m->count; n += m->jobs) {
        if (m->minutes > 0 && seconds() - start > m->minutes * 60)
            break;
        s->seed[job] = m->from + n;
        if (!run_seed(m->from + n, &m->options, false, &s->coverage[job], NULL, NULL) &&
            ++s->failures[job] >= FAILURES_MAX)
            break;
        s->done[job]++;
    }
}

static void show_progress(const struct run_many *m, const struct shared *s, double start, bool tty)
{
    uint64_t done = 0, failures = 0;
    for (unsigned j = 0; j < m->jobs; j++) {
        done += s->done[j];
        failures += s->failures[j];
    }
    double took = seconds() - start, rate = took > 0 ? (double)done / took : 0;
    fprintf(stderr, "%s", tty ? "\r" : "# ");
    if (tty && m->count) {
        unsigned width = (unsigned)(30 * done / m->count);
        fprintf(stderr, "[%.*s%*s] ", width, "==============================", 30 - (int)width, "");
    }
    fprintf(stderr, "%llu seeds, %.0f/s, %llu failed%s", (unsigned long long)done, rate,
            (unsigned long long)failures, tty ? "   " : "\n");
}

/* Waits for all processes; a death becomes a failure of the seed it was at. */
static uint64_t reap(const struct run_many *m, struct shared *s, const pid_t *pids)
{
    uint64_t failures = 0;
    bool tty = isatty(STDERR_FILENO);
    double start = seconds(), shown = start;
    for (unsigned left = m->jobs; left > 0;) {
        int status;
        pid_t pid = waitpid(-1, &status, m->progress ? WNOHANG : 0);
        double now = seconds();
        if (m->progress && now - shown > (tty ? 0.5 : 20)) {
            show_progress(m, s, start, tty);
            shown = now;
        }
        if (pid == 0)
            usleep(50000);
        for (unsigned j = 0; pid > 0 && j < m->jobs; j++) {
            if (pids[j] != pid)
                continue;
            left--;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                continue;
            failures++;
            fprintf(stderr, "\nrepeat with: sim --seed %llu%s: process died (%s %d)\n",
                    (unsigned long long)s->seed[j],
                    m->options.sqlite   ? " --store sqlite"
                    : m->options.memory ? " --store memory"
                                        : "",
                    WIFSIGNALED(status) ? "signal" : "exit",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
    }
    if (m->progress && tty)
        fputc('\n', stderr);
    return failures;
}

uint64_t run_seeds(const struct run_many *many, struct coverage *ret)
{
    struct shared *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED && many->jobs > 0 && many->jobs <= JOBS_MAX);
    pid_t pids[JOBS_MAX];
    double start = seconds();
    fflush(NULL);
    for (unsigned j = 0; j < many->jobs; j++) {
        pids[j] = fork();
        CHECK(pids[j] >= 0);
        if (pids[j] == 0) {
            work_through(many, j, s, start);
            exit(0);
        }
    }
    uint64_t failures = reap(many, s, pids);
    for (unsigned j = 0; j < many->jobs; j++) {
        failures += s->failures[j];
        coverage_add(ret, &s->coverage[j]);
    }
    munmap(s, sizeof(*s));
    return failures;
}

enum check run_apart(uint64_t seed, const struct run_options *options)
{
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        static struct coverage coverage;
        struct violation v;
        if (!freopen("/dev/null", "w", stderr))
            _exit(CHECK_DRIVER);
        run_seed(seed, options, true, &coverage, &v, NULL);
        _exit((int)v.check);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) < CHECK_COUNT ? (enum check)WEXITSTATUS(status)
                                                                  : CHECK_DIED;
}
