/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/terminal/interrupt.h"

#include <signal.h>
#include <stddef.h>

static void signals_of(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

void client_interrupt_hold(void)
{
    sigset_t set;
    signals_of(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

bool client_interrupt_wait(int64_t ms)
{
    sigset_t set;
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    signals_of(&set);
    return sigtimedwait(&set, NULL, &time) > 0;
}

bool client_interrupt_pending(void)
{
    sigset_t set;
    return sigpending(&set) == 0 && (sigismember(&set, SIGINT) || sigismember(&set, SIGTERM));
}
