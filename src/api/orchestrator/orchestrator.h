/* SPDX-License-Identifier: Apache-2.0 */
/* The queues of a robot orchestrator, /api/queues and /api/queue-items: integer queue ids, items
 * with a reference, a strict state machine of statuses. docs/apis/orchestrator.md describes it.
 *
 * src/api/orchestrator may use what src/api may use (api.h); of the other APIs, only v1. */
#pragma once

#include "api/api.h"

extern const struct api orchestrator_api;
