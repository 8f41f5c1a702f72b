/* SPDX-License-Identifier: Apache-2.0 */
/* Named places where a test lets the process die, as kill -9 would: HF_FAILPOINT=NAME:N in the
 * environment ends it the Nth time it comes by. Only builds with HF_TEST_HOOKS contain them. */
#pragma once

#ifdef HF_TEST_HOOKS
#include <stdbool.h>
/* True the Nth time: for places that first do half of something; then call failpoint_die. */
bool failpoint_due(const char *name);
_Noreturn void failpoint_die(void);
#define FAILPOINT(name)                                                                            \
    do {                                                                                           \
        if (failpoint_due(name))                                                                   \
            failpoint_die();                                                                       \
    } while (0)
#else
#define FAILPOINT(name) ((void)0)
#endif
