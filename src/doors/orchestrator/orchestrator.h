/* SPDX-License-Identifier: Apache-2.0 */
/* The queues of a robot orchestrator, /api/queues and /api/queue-items: integer queue ids, items
 * with a reference, a strict machine of status words. docs/doors/orchestrator.md maps them. */
#pragma once

#include "doors/door.h"

extern const struct door orchestrator_door;
