/* SPDX-License-Identifier: Apache-2.0 */
/* The runner may have threads (libcurl's name lookups), so everything here up to execve uses
 * system calls only: no allocator, no stdio. */
#include "cli/work/targets/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "cli/work/targets/environment.h"
#include "cli/work/targets/process_tree.h"

enum { CONTROL_FD = WORK_PROGRESS_FD + 1, ASIDE_FD = 16 };
#define KILL_EVERY_MS 50
#define ABANDON_MS                                                                                 \
    30000 /* SIGKILLs without effect: a process that is blocked in the kernel, or that belongs to  \
             another user */

struct supervisor {
    pid_t command;
    bool ended;       /* the command itself */
    bool told;        /* SUPERVISOR_TERMINATE was received */
    bool runner_gone; /* the runner has closed the socket */
    bool killing;     /* SIGTERM was sent */
    uint64_t scanned; /* to the processes that were started before this time */
    int64_t kill_at_ms;
    int64_t kill_after_ms;
    bool reaped; /* a child has ended since the last SIGTERM */
    int child_signals;
};

static int64_t now_ms(void)
{
    return (int64_t)(clock_ns() / 1000000);
}

static void report(enum supervisor_what what, int value)
{
    struct supervisor_message m = {(int32_t)what, value};
    ssize_t sent;
    do
        sent = write(CONTROL_FD, &m, sizeof m);
    while (sent < 0 && errno == EINTR);
}

/* ---- setting up ---- */

/* Moves the descriptors to the numbers that the command expects, and closes all others. */
static bool descriptors_arrange(const struct supervisor_setup *s)
{
    int from[] = {s->input, s->output, s->errors, s->progress, s->control};
    for (int i = 0; i <= CONTROL_FD; i++) {
        if ((from[i] = fcntl(from[i], F_DUPFD, ASIDE_FD)) < 0)
            return false;
    }
    for (int i = 0; i <= CONTROL_FD; i++) {
        if (dup2(from[i], i) < 0)
            return false;
    }
    return syscall(SYS_close_range, CONTROL_FD + 1, ~0U, 0) == 0 &&
           fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC) == 0;
}

/* The handlers belong to the runner's loop. */
static void signals_reset(void)
{
    struct sigaction act = {.sa_handler = SIG_DFL};
    for (int i = 1; i < NSIG; i++)
        (void)sigaction(i, &act, NULL);
}

static void command_exec(const struct supervisor_setup *s)
{
    sigset_t none;
    sigemptyset(&none);
    (void)setpgid(0, 0);
    (void)setrlimit(RLIMIT_NOFILE, &s->files);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(s->argv[0], s->argv, s->environment);
    report(SUPERVISOR_NOT_STARTED, errno);
    _exit(127);
}

static bool command_start(struct supervisor *v, const struct supervisor_setup *s)
{
    /* No handlers of pthread_atfork run: libuv's would close descriptors by their old numbers. */
    v->command = _Fork();
    if (v->command == 0)
        command_exec(s);
    for (int i = 0; i < CONTROL_FD; i++)
        close(i); /* only the command holds its ends of the pipes */
    return v->command > 0;
}

/* ---- ending the tree ---- */

/* Sends SIGTERM to processes that have not got it. A process may be created while the tree is
 * read, or by the command before it ends. */
static void newer_terminate(struct supervisor *v)
{
    uint64_t since = v->scanned;
    v->scanned = process_tree_now();
    process_tree_signal(SIGTERM, v->command, since);
    process_tree_signal(SIGCONT, v->command, since); /* a stopped process must receive it */
}

static void tree_terminate(struct supervisor *v, int64_t kill_after_ms)
{
    int64_t at = now_ms() + kill_after_ms;
    if (!v->killing || at < v->kill_at_ms)
        v->kill_at_ms = at;
    if (v->killing)
        return;
    v->killing = true;
    newer_terminate(v);
}

/* Waits for all children that have ended. false: no child is left. */
static bool children_reap(struct supervisor *v)
{
    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0)
            return pid == 0 || errno != ECHILD;
        v->reaped = true;
        if (pid != v->command)
            continue;
        v->ended = true;
        report(v->told ? SUPERVISOR_TERMINATED : SUPERVISOR_ENDED, status);
    }
}

static int timeout_of(const struct supervisor *v)
{
    if (!v->killing)
        return -1;
    int64_t left = v->kill_at_ms - now_ms();
    return left < 0 ? KILL_EVERY_MS : (int)(left < 60000 ? left + 1 : 60000);
}

/* ---- the loop ---- */

static void control_read(struct supervisor *v)
{
    struct supervisor_message m;
    ssize_t len = read(CONTROL_FD, &m, sizeof m);
    if (len == (ssize_t)sizeof m) {
        (void)children_reap(v); /* the command may have ended before */
        v->told = true;
        tree_terminate(v, m.value);
    } else if (len == 0 || (len < 0 && errno != EINTR && errno != EAGAIN)) {
        v->runner_gone = true;
        tree_terminate(v, v->kill_after_ms);
    }
}

static void child_signals_read(const struct supervisor *v)
{
    struct signalfd_siginfo info[8];
    (void)!read(v->child_signals, info, sizeof info);
}

static void supervise(struct supervisor *v)
{
    while (children_reap(v)) {
        if (v->ended && !v->killing)
            tree_terminate(v, v->kill_after_ms); /* processes that the command left behind */
        else if (v->reaped && v->killing)
            newer_terminate(v);
        v->reaped = false;
        struct pollfd fds[] = {{.fd = v->child_signals, .events = POLLIN},
                               {.fd = v->runner_gone ? -1 : CONTROL_FD, .events = POLLIN}};
        if (poll(fds, 2, timeout_of(v)) > 0) {
            if (fds[0].revents)
                child_signals_read(v);
            if (fds[1].revents)
                control_read(v);
        }
        if (v->killing && now_ms() >= v->kill_at_ms)
            process_tree_signal(SIGKILL, v->command, 0);
        if (v->killing && now_ms() >= v->kill_at_ms + ABANDON_MS) {
            report(SUPERVISOR_ABANDONED, 0);
            return;
        }
    }
}

static void supervisor_main(const struct supervisor_setup *setup)
{
    struct supervisor v = {.kill_after_ms = setup->kill_after_ms};
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    (void)setsid();
    signals_reset();
    /* If it was stopped, it must continue to end its tree when the runner is killed. */
    (void)prctl(PR_SET_PDEATHSIG, SIGCONT);
    if (!descriptors_arrange(setup) || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 ||
        (v.child_signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return;
    if (command_start(&v, setup))
        supervise(&v);
    else
        report(SUPERVISOR_NOT_STARTED, errno);
}

pid_t supervisor_start(const struct supervisor_setup *setup)
{
    sigset_t all, before;
    sigfillset(&all);
    /* No handler of the runner may run in the supervisor, which keeps all signals blocked: it
     * ends when its tree has ended, whichever signals the process group gets. */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        supervisor_main(setup);
        _exit(0);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid < 0 ? -ERR_IO : pid;
}
