/* SPDX-License-Identifier: Apache-2.0 */
/* What `make test` runs, as TAP. */
#pragma once

#include <stdbool.h>

int suite_run(void);
int suite_self(void);    /* only the checker's own tests */
int suite_planted(void); /* only the planted defects */

/* selftest.c: the checker on histories written by hand. Calls back once a case. */
typedef void selftest_fn(void *ctx, bool ok, const char *name);
void selftest_run(selftest_fn *fn, void *ctx);
