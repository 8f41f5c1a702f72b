/* SPDX-License-Identifier: Apache-2.0 */
/* The reasons why a job is not running, for the documentation; ops/jobs/why.h has their table. */
#pragma once

#include <stdio.h>

/* The rows of the codes of GET /v1/jobs/{id}/why in docs/reference/reasons.md. */
void why_codes_reference(FILE *out);
