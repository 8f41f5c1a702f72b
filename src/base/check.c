/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a process that found a mistake in its own code. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *what, const char *file, int line)
{
    /* Straight to standard error: the log itself may be what is broken. */
    fprintf(stderr, "holdfast: broken assumption: %s (%s:%d)\n", what, file, line);
    abort();
}
