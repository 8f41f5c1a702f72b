/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a queue explained, from core/queues/policy_table.h: for a terminal, and as the
 * page docs/reference/policy.md. */
#pragma once

#include <stdio.h>

#include "base/err.h"

MUST_CHECK int policy_help(FILE *out);
MUST_CHECK int policy_markdown(FILE *out);
