/* SPDX-License-Identifier: Apache-2.0 */
/* The queues of a robot orchestrator, /api/queues and /api/queue-items: integer queue ids, items
 * with a reference, a strict machine of status words. docs/apis/orchestrator.md maps them. */
#pragma once

#include "api/api.h"

extern const struct api orchestrator_api;
