/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast check DIR`: finds everything in a store that is not as it should be.
 *
 * src/backend/local/offline reads stores that no server uses, damaged or not: check, restore and
 * the rows of an export. It may use the other folders of local/, ops, core, base, SQLite and the
 * file system; it changes nothing in the store that it reads. The same applies to its folder
 * check/. */
#pragma once

#include <stdint.h>
#include <stdio.h>

enum check_result {
    CHECK_GOOD = 0,
    CHECK_PROBLEMS = 1,
    CHECK_NOT_DONE = 2, /* no store there, in use, of another version, not readable */
    CHECK_WARNED = 3,   /* no problem, but something that an operator should look into */
};

struct check_findings {
    uint64_t problems;
    int error;       /* with CHECK_NOT_DONE: -ERR_NOMEM, -ERR_IO … */
    char first[600]; /* the sentence of the first problem, or why nothing could be checked */
};

/* Looks at the store of a server that is not running, and changes nothing. Writes what it finds to
 * `out`, in sentences; the last line is the verdict. Returns the exit code, one of the above. */
int check_run(const char *dir, FILE *out);
/* The same for the database in a file that is in `dir` and does not have its name yet. The caller
 * has the lock of the directory, and no journal belongs to the file. */
int check_file_run(const char *dir, const char *path, struct check_findings *ret);
