/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks with a high and a low priority, /api/tasks: created, scheduled, claimed, kept alive by
 * heartbeats, completed or failed. docs/doors/tasks.md maps them. */
#pragma once

#include "doors/door.h"

extern const struct door tasks_door;
