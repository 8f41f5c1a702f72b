/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast check DIR`: is everything in this store as it should be? */
#pragma once

#include <stdio.h>

enum check_result {
    CHECK_GOOD = 0,
    CHECK_PROBLEMS = 1,
    CHECK_NOT_DONE = 2, /* no store there, in use, of another version, not readable */
    CHECK_WARNED = 3,   /* no problem, but something that an operator should look into */
};

/* Looks at the store of a server that is not running, and changes nothing. Writes what it finds to
 * `out`, in sentences; the last line is the verdict. Returns the exit code, one of the above. */
int check_run(const char *dir, FILE *out);
