/* SPDX-License-Identifier: Apache-2.0 */
/* Named places at which a test can end the process like kill -9: HF_FAILPOINT=NAME:N in the
 * environment ends it when it reaches the place for the Nth time. Only builds with HF_TEST_HOOKS
 * contain them. */
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
