/* SPDX-License-Identifier: Apache-2.0 */
/* conform [--backend NAME] [--case PATTERN] [--seed N] [--list]: runs the cases, prints TAP, exits
 * with 1 when one failed. PATTERN is a part of a case's name and may use * and ?. */
#include "conform/conform.h"

#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define CASE_SECONDS_MAX 600 /* real time; a case that hangs ends the run */

#define SHARED_LACKS (NEEDS_OWN_CLOCK | NEEDS_OWN_STORE)

static const struct conform_profile profiles[] = {
    {.name = "memory"},
    {.name = "sqlite", .on_disk = true},
    {.name = "trace+memory", .traced = true},
    {.name = "fault+memory", .faulty = true},
    {.name = "fault+sqlite", .on_disk = true, .faulty = true},
    {.name = "lossy+memory", .faulty = true, .lossy = true},
    {.name = "lossy+sqlite", .on_disk = true, .faulty = true, .lossy = true},
    /* Most cases are about "q" alone: once it is a queue of another store, and once such queues are
     * that go with it. */
    {.name = "router+memory",
     .routes = {{"q", 5}, {"b*", ROUTER_NUMBER_MAX}},
     .lacks = NEEDS_ONE_STORE | NEEDS_KV | NEEDS_SCHEDULES | NEEDS_WHOLE_JOBS | NEEDS_DEPENDENCIES},
    {.name = "router(others)+memory",
     .routes = {{"b*", ROUTER_NUMBER_MAX}, {"other*", 5}},
     .lacks = NEEDS_ONE_STORE | NEEDS_WHOLE_JOBS | NEEDS_DEPENDENCIES},
    {.name = "postgres", .postgres = true, .lacks = SHARED_LACKS},
    {.name = "lossy+postgres",
     .postgres = true,
     .lacks = SHARED_LACKS,
     .faulty = true,
     .lossy = true},
    {.name = "postgres+redis", .postgres = true, .dispatched = true, .lacks = SHARED_LACKS},
    {.name = "redis", .redis = true, .lacks = SHARED_LACKS},
    {.name = "shared+redis", .redis = true, .others = true, .lacks = SHARED_LACKS},
    {.name = "lossy+redis", .redis = true, .lacks = SHARED_LACKS, .faulty = true, .lossy = true},
};

static const struct conform_topic *const topics[] = {
    &topic_enqueue,
    &topic_envelope,
    &topic_order,
    &topic_claim,
    &topic_token,
    &topic_lease,
    &topic_cancel,
    &topic_retry,
    &topic_move,
    &topic_unique,
    &topic_key,
    &topic_queue,
    &topic_purge,
    &topic_bulk,
    &topic_retention,
    &topic_query,
    &topic_list,
    &topic_batch,
    &topic_watch,
    &topic_restart,
    &topic_fault,
    &topic_events,
    &topic_settle,
    &topic_workers,
    &topic_progress,
    &topic_steps,
    &topic_reports,
    &topic_handoff,
    &topic_history,
    &topic_import,
    &topic_kv,
    &topic_undelivered,
    &topic_rate,
    &topic_notice,
    &topic_breaker,
    &topic_api,
    &topic_schedule,
    &topic_trigger,
    &topic_beanstalk,
    &topic_moved,
    &topic_dispatch,
    &topic_refuse_enqueue,
    &topic_refuse_lease,
    &topic_refuse_unique,
    &topic_refuse_change,
    &topic_refuse_queue,
    &topic_refuse_kv,
    &topic_refuse_batch,
    &topic_refuse_alerts,
    &topic_refuse_schedules,
    &topic_limits,
    &topic_fair,
    &topic_dependencies,
    &topic_graph,
    &topic_why,
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct options {
    const char *backend, *pattern;
    bool list;
    uint64_t seed;
};

/* Without a name: all that need no server, or, with HF_POSTGRES or HF_REDIS, those that need it. */
static bool profile_wanted(const struct options *o, const struct conform_profile *p)
{
    if (o->backend)
        return strcmp(o->backend, p->name) == 0;
    return p->postgres == (getenv("HF_POSTGRES") != NULL) &&
           (p->redis || p->dispatched) == (getenv("HF_REDIS") != NULL);
}

static bool wanted(const struct options *o, const struct conform_profile *p,
                   const struct conform_case *c)
{
    if (!profile_wanted(o, p))
        return false;
    if ((c->flags & EXACT) && p->lossy)
        return false;
    if ((c->flags & RESTART) && !p->on_disk && !p->postgres && !p->redis)
        return false;
    if (!o->pattern)
        return true;
    char pattern[200];
    snprintf(pattern, sizeof pattern, "*%s*", o->pattern);
    return fnmatch(pattern, c->name, 0) == 0;
}

/* lacking: what of its needs the store does not have. */
typedef void (*case_fn)(void *ctx, const struct conform_profile *p, const struct conform_case *c,
                        unsigned lacking);

static void each_case(const struct options *o, case_fn fn, void *ctx)
{
    for (size_t p = 0; p < COUNT(profiles); p++) {
        for (size_t t = 0; t < COUNT(topics); t++) {
            for (size_t i = 0; i < topics[t]->count; i++) {
                unsigned needs = topics[t]->needs | topics[t]->cases[i].needs;
                if (wanted(o, &profiles[p], &topics[t]->cases[i]))
                    fn(ctx, &profiles[p], &topics[t]->cases[i], needs & profiles[p].lacks);
            }
        }
    }
}

/* In its own function: nothing here lives in a register across the jump. */
static bool case_passes(struct env *e, const struct conform_case *c)
{
    if (setjmp(e->leave) != 0)
        return false;
    if (c->configure)
        c->configure(&e->config);
    env_open(e);
    c->run(e);
    env_close(e);
    return true;
}

struct run {
    const struct options *options;
    unsigned number, failed;
};

static char case_now[300]; /* for the signal handler */

static void alarm_cb(int signal)
{
    (void)signal;
    static const char text[] = "Bail out! no end after a minute: ";
    (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    (void)!write(STDOUT_FILENO, case_now, strlen(case_now));
    (void)!write(STDOUT_FILENO, "\n", 1);
    _exit(3);
}

static const char *const parts[] = {
    "keys and values",   "schedules",  "a clock of its own",  "a store of its own",
    "one store for all", "whole jobs", "limits at the claim", "dependencies"};

static void skip_case(struct run *r, const struct conform_profile *p, const struct conform_case *c,
                      unsigned lacking)
{
    printf("ok %u - %s: %s # SKIP this store lacks %s\n", ++r->number, p->name, c->name,
           parts[__builtin_ctz(lacking)]);
}

static void run_case(void *ctx, const struct conform_profile *p, const struct conform_case *c,
                     unsigned lacking)
{
    struct run *r = ctx;
    if (lacking) {
        skip_case(r, p, c, lacking);
        return;
    }
    struct env *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    snprintf(case_now, sizeof case_now, "%s: %s", p->name, c->name);
    alarm(CASE_SECONDS_MAX);
    env_init(e, p, r->options->seed);
    bool ok = case_passes(e, c);
    env_done(e);
    alarm(0);
    printf("%s %u - %s\n", ok ? "ok" : "not ok", ++r->number, case_now);
    if (!ok) {
        printf("# %s\n", e->why);
        r->failed++;
    }
    fflush(stdout);
    free(e);
}

static void count_case(void *ctx, const struct conform_profile *p, const struct conform_case *c,
                       unsigned lacking)
{
    (void)p, (void)c, (void)lacking;
    ++*(unsigned *)ctx;
}

static void list_case(void *ctx, const struct conform_profile *p, const struct conform_case *c,
                      unsigned lacking)
{
    (void)ctx;
    printf("%s: %s%s\n", p->name, c->name, lacking ? " (left out)" : "");
}

static int usage(void)
{
    fputs("usage: conform [--backend NAME] [--case PATTERN] [--seed N] [--list]\n", stderr);
    return 2;
}

static bool options_parse(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--list") == 0) {
            o->list = true;
            continue;
        }
        if (!value)
            return false;
        if (strcmp(argv[i], "--backend") == 0)
            o->backend = value;
        else if (strcmp(argv[i], "--case") == 0)
            o->pattern = value;
        else if (strcmp(argv[i], "--seed") == 0)
            o->seed = strtoull(value, NULL, 0);
        else
            return false;
        i++;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options options = {.seed = 1};
    if (!options_parse(&options, argc, argv))
        return usage();
    bool server = options.backend && strstr(options.backend, "postgres");
    if (server && !options.list && !getenv("HF_POSTGRES")) {
        fputs("conform: HF_POSTGRES is not set; use scripts/with-postgres\n", stderr);
        return 2;
    }
    bool redis = options.backend && strstr(options.backend, "redis");
    if (redis && !options.list && !getenv("HF_REDIS")) {
        fputs("conform: HF_REDIS is not set; use scripts/with-redis\n", stderr);
        return 2;
    }
    if (options.list) {
        each_case(&options, list_case, NULL);
        return 0;
    }
    unsigned count = 0;
    each_case(&options, count_case, &count);
    printf("1..%u\n# seed %llu\n", count, (unsigned long long)options.seed);
    signal(SIGALRM, alarm_cb);
    struct run run = {.options = &options};
    each_case(&options, run_case, &run);
    return run.failed > 0 || count == 0;
}
