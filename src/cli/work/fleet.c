/* SPDX-License-Identifier: Apache-2.0 */
/* Each worker has its own process group, so that it gets the signal of Ctrl-C once, from the
 * parent. */
#include "cli/work/fleet.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/work/options.h"
#include "cli/work/runner/runner.h"

struct fleet {
    const struct work_entries *entries;
    pid_t *pids; /* 0 = has ended */
    size_t running;
    bool stopping; /* the workers got a signal */
    int status;
    sigset_t signals;
};

static int worker_run(const struct work_entry *entry)
{
    struct arguments args;
    struct work_plan plan;
    struct err_note note;
    struct arena arena;
    int status = EXIT_USAGE;
    arena_init(&arena);
    if (options_parse(work_options, WORK_OPTION_COUNT, entry->argc, entry->argv, &args, &note) ==
        0) {
        if (work_plan_build(&args, &arena, &plan, &note) == 0)
            status = runner_run(&plan);
        arguments_done(&args);
    }
    arena_done(&arena);
    return status;
}

static void worker_main(const struct fleet *f, size_t i, pid_t parent)
{
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)sigprocmask(SIG_UNBLOCK, &f->signals, NULL);
    if (getppid() != parent)
        _exit(EXIT_FAILED); /* it ended before this call */
    int status = worker_run(&f->entries->list[i]);
    fflush(NULL);
    _exit(status);
}

static void all_signal(struct fleet *f, int number)
{
    f->stopping = true;
    for (size_t i = 0; i < f->entries->count; i++) {
        if (f->pids[i] > 0)
            kill(f->pids[i], number);
    }
}

static void workers_start(struct fleet *f)
{
    pid_t self = getpid();
    for (size_t i = 0; i < f->entries->count; i++) {
        f->pids[i] = fork();
        if (f->pids[i] == 0)
            worker_main(f, i, self);
        if (f->pids[i] < 0) {
            perror("holdfast: no process could be created for a worker");
            f->pids[i] = 0;
            f->status = EXIT_FAILED;
            all_signal(f, SIGTERM);
            return;
        }
        f->running++;
    }
}

/* The other statuses describe jobs, not the worker. */
static bool worker_gave_up(int status)
{
    return status != WORK_DONE && status != WORK_NOTHING && status != WORK_NOT_ACKED &&
           status != WORK_LEFT;
}

static void worker_ended(struct fleet *f, int wait_status)
{
    int status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : EXIT_FAILED;
    f->running--;
    if (f->status == 0)
        f->status = status;
    /* A second signal would terminate the commands of workers that are stopping. */
    if (!f->stopping && worker_gave_up(status))
        all_signal(f, SIGTERM);
}

static void ended_take(struct fleet *f)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < f->entries->count; i++) {
            if (f->pids[i] != pid)
                continue;
            f->pids[i] = 0;
            worker_ended(f, status);
        }
    }
}

int fleet_run(const struct work_entries *entries)
{
    struct fleet f = {.entries = entries};
    f.pids = mem_array(entries->count, sizeof *f.pids);
    if (!f.pids)
        return EXIT_FAILED;
    sigemptyset(&f.signals);
    sigaddset(&f.signals, SIGCHLD);
    for (size_t i = 0; i < STOP_SIGNALS; i++) {
        if (!signal_ignored(stop_signals[i]))
            sigaddset(&f.signals, stop_signals[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &f.signals, NULL);
    workers_start(&f);
    while (f.running > 0) {
        int number = sigwaitinfo(&f.signals, NULL);
        if (number > 0 && number != SIGCHLD)
            all_signal(&f, number);
        ended_take(&f);
    }
    mem_free(f.pids);
    return f.status;
}
