/* SPDX-License-Identifier: Apache-2.0 */
/* See failpoint.h. The environment is read once; the count is shared by all threads. */
#include "base/failpoint.h"

#ifdef HF_TEST_HOOKS
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long passed;

bool failpoint_due(const char *name)
{
    const char *wanted = getenv("HF_FAILPOINT");
    size_t len = strlen(name);
    if (!wanted || strncmp(wanted, name, len) != 0 || wanted[len] != ':')
        return false;
    return atomic_fetch_add(&passed, 1) + 1 == strtol(wanted + len + 1, NULL, 10);
}

void failpoint_die(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;)
        (void)pause();
}
#endif
