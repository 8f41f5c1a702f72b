/* SPDX-License-Identifier: Apache-2.0 */
/* The table of problems: one row for each code. Replies, GET /problems and
 * docs/reference/problems.md are all written from it. A new problem is a code in problem.h and a
 * row in problem_table.c; for the outcome of an operation also a row of by_outcome in problem.c. */
#pragma once

#include <stdio.h>

#include "api/problems/problem.h"

struct problem_row {
    const char *name; /* the code; stable */
    unsigned status;
    unsigned retry_s;   /* Retry-After; 0 = none */
    const char *title;  /* one line */
    const char *detail; /* explanation and advice in one sentence: the detail of an answer that has
                           no detail of its own */
    const char *explanation; /* what happened; a sentence without capital and full stop, like … */
    const char *advice;      /* … what to do about it */
};

const struct problem_row *problem_row(enum problem_code code);
/* NULL = unknown code. */
const struct problem_row *problem_row_find(struct span name);
/* Row number i in the order of the names. */
void problem_rows_sorted(const struct problem_row *ret[PROBLEM_CODE_COUNT - 1]);

/* For `holdfast help problems`; markdown: the page docs/reference/problems.md. */
void problems_print(FILE *out, bool markdown);
